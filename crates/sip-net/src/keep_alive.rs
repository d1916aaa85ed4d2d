//! Keep-alives on the transports that carry whole messages. Those in a stream of octets are found by
//! [`sip::StreamReader`], STUN over UDP by [`sip::stun`].

use bytes::Bytes;
use sip::Frame;

/// The answer to a ping (RFC 5626 section 3.5.1).
pub(crate) const PONG: &[u8] = b"\r\n";

/// Whether a datagram or user message is a keep-alive: line ends only, or the zero octets that
/// phones send to keep a NAT binding, or nothing.
pub(crate) fn is_keep_alive(payload: &[u8]) -> bool {
    payload
        .iter()
        .all(|octet| matches!(octet, b'\r' | b'\n' | 0))
}

/// A user message, or message of a WebSocket: a SIP message, or a keep-alive in its place. A ping asks for an answer
/// (RFC 5626 section 3.5.1).
pub(crate) fn whole_frame(payload: Bytes) -> Frame {
    match &payload[..] {
        b"\r\n\r\n" => Frame::Ping,
        other if is_keep_alive(other) => Frame::Pong,
        _ => Frame::Message(payload),
    }
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
        let frame = |octets| whole_frame(Bytes::from_static(octets));
        assert!(matches!(frame(b"\r\n\r\n"), Frame::Ping));
        assert!(matches!(frame(PONG), Frame::Pong));
        assert!(matches!(frame(b"\r\nOPTIONS"), Frame::Message(_)));
    }
}
