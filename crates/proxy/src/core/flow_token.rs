//! Flow tokens: a flow written into the user part of a Record-Route URI, so that requests in the
//! dialog go back along it (the way of RFC 5626 section 5.2).
//!
//! A user agent behind a NAT, or one that took the connection to us as its only one, cannot be
//! reached at its Contact. The token needs no memory here: it comes back in the Route of each
//! request. It is signed, so that nobody can make us send along a flow that we did not give out.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use sip::Flow;

use super::keys::Keys;
use super::{flow_octets, hexadecimal};

/// Writes and reads flow tokens under one key.
#[derive(Clone)]
pub(crate) struct FlowTokens {
    key: Hmac<Sha256>,
}

/// How much of the HMAC a token carries, in octets.
const TAG_LENGTH: usize = 10;

impl FlowTokens {
    pub(crate) fn new(keys: &Keys) -> FlowTokens {
        FlowTokens {
            key: keys.signer("flow tokens"),
        }
    }

    /// The token of a flow: letters and digits.
    pub(crate) fn encode(&self, flow: &Flow) -> String {
        let mut octets = Vec::with_capacity(64);
        flow_octets::write(&mut octets, flow);
        let tag = self
            .key
            .clone()
            .chain_update(&octets)
            .finalize()
            .into_bytes();
        octets.extend_from_slice(&tag[..TAG_LENGTH]);
        hexadecimal::write(&octets)
    }

    /// The flow of a token that we wrote; `None` for anything else.
    pub(crate) fn decode(&self, token: &str) -> Option<Flow> {
        let octets = hexadecimal::read(token)?;
        let (signed, tag) = octets.split_at_checked(octets.len().checked_sub(TAG_LENGTH)?)?;
        self.key
            .clone()
            .chain_update(signed)
            .verify_truncated_left(tag)
            .ok()?;

        flow_octets::read(signed)
    }
}

impl std::fmt::Debug for FlowTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FlowTokens")
    }
}

#[cfg(test)]
mod tests {
    use sip::{ConnectionId, Transport};

    use super::*;

    fn tokens(seed: u8) -> FlowTokens {
        FlowTokens::new(&Keys::from_bytes([seed; 32]))
    }

    fn flow(local: &str, remote: &str) -> Flow {
        Flow {
            transport: Transport::Sctp,
            local: local.parse().expect("an address"),
            remote: remote.parse().expect("an address"),
            connection: ConnectionId(u64::MAX - 5),
            stream: 40_000,
        }
    }

    #[test]
    fn a_token_is_read_back() {
        for flow in [
            flow("192.0.2.1:5060", "198.51.100.9:1"),
            flow("[2001:db8::1]:5060", "[2001:db8::2]:65535"),
        ] {
            let token = tokens(1).encode(&flow);
            assert_eq!(tokens(1).decode(&token), Some(flow));
            assert!(
                token.bytes().all(|byte| byte.is_ascii_alphanumeric()),
                "{token}"
            );
        }
    }

    #[test]
    fn the_token_of_a_small_connection_number_is_short() {
        let flow = Flow {
            connection: ConnectionId(300),
            stream: 7,
            ..flow("192.0.2.1:5060", "198.51.100.9:1")
        };
        assert!(tokens(1).encode(&flow).len() <= 60);
    }

    #[test]
    fn a_token_under_another_key_or_changed_anywhere_is_refused() {
        let token = tokens(1).encode(&flow("192.0.2.1:5060", "198.51.100.9:1"));
        assert_eq!(tokens(2).decode(&token), None);
        for position in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[position] = if changed[position] == b'0' {
                b'1'
            } else {
                b'0'
            };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert_eq!(tokens(1).decode(&changed), None, "{changed}");
            assert_eq!(tokens(1).decode(&token[..position]), None);
        }
    }
}
