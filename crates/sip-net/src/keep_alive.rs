//! Keep-alives on the transports that carry whole messages. Those in a stream of octets are found by
//! [`sip::StreamReader`], STUN over UDP by [`sip::stun`].

/// The answer to a ping (RFC 5626 section 3.5.1).
pub(crate) const PONG: &[u8] = b"\r\n";

/// Whether a datagram or user message is a keep-alive: line ends only, or the zero octets that
/// phones send to keep a NAT binding, or nothing.
pub(crate) fn is_keep_alive(payload: &[u8]) -> bool {
    payload
        .iter()
        .all(|octet| matches!(octet, b'\r' | b'\n' | 0))
}

/// Whether a user message is a ping, which asks for an answer (RFC 5626 section 3.5.1).
pub(crate) fn is_ping(payload: &[u8]) -> bool {
    payload == b"\r\n\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_and_zeros_keep_alive() {
        for payload in [&b""[..], b"\r\n", b"\r\n\r\n", b"\0\0\0\0", b"\n"] {
            assert!(is_keep_alive(payload), "{payload:?}");
        }
        assert!(!is_keep_alive(b"\r\nOPTIONS"));
        assert!(is_ping(b"\r\n\r\n"));
        assert!(!is_ping(PONG));
    }
}
