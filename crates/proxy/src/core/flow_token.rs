//! Flow tokens: a flow written into the user part of a Record-Route URI, so that requests in the
//! dialog go back along it (the way of RFC 5626 section 5.2).
//!
//! A user agent behind a NAT, or one that took the connection to us as its only one, cannot be
//! reached at its Contact. The token needs no memory here: it comes back in the Route of each
//! request. It is signed, so that nobody can make us send along a flow that we did not give out.
//!
//! The key may outlive the process, connections do not: their numbers begin anew. So the token of one
//! says which process it is a connection of, lest it lead along another's (RFC 5626 section 5.3).

use std::cell::RefCell;
use std::net::IpAddr;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use sip::{ConnectionId, Flow, Transport};

use super::keys::Keys;
use super::{flow_octets, hexadecimal};

/// The connection of a flow that an earlier process has written down: it is none of this one's. Over UDP
/// there is a way all the same, from the socket that has the flow's local address.
pub const FORMER_CONNECTION: ConnectionId = ConnectionId(u64::MAX);

/// Writes and reads flow tokens under one key.
pub(crate) struct FlowTokens {
    key: Hmac<Sha256>,
    incarnation: u32,
    /// Those that were written last, each in its place: all calls of a peer go along one flow.
    written: RefCell<Vec<Option<(Flow, String)>>>,
}

/// How many tokens are remembered at the most.
const PLACES: usize = 256;

/// How much of the HMAC a token carries, in octets.
const TAG_LENGTH: usize = 10;

impl FlowTokens {
    /// `incarnation`: differs from that of the process before.
    pub(crate) fn new(keys: &Keys, incarnation: u32) -> FlowTokens {
        FlowTokens {
            key: keys.signer("flow tokens"),
            incarnation,
            written: RefCell::default(),
        }
    }

    /// Appends the token of a flow: letters and digits.
    pub(crate) fn push_to(&self, text: &mut String, flow: &Flow) {
        let mut written = self.written.borrow_mut();
        if written.is_empty() {
            written.resize(PLACES, None);
        }
        let place = &mut written[place_of(flow)];
        match place {
            Some((known, token)) if known == flow => text.push_str(token),
            _ => {
                let token = self.encode(flow);
                text.push_str(&token);
                *place = Some((*flow, token));
            }
        }
    }

    fn encode(&self, flow: &Flow) -> String {
        let mut octets = Vec::with_capacity(64);
        flow_octets::write(&mut octets, flow);
        if flow.transport != Transport::Udp {
            octets.extend_from_slice(&self.incarnation.to_be_bytes());
        }
        let tag = self
            .key
            .clone()
            .chain_update(&octets)
            .finalize()
            .into_bytes();
        octets.extend_from_slice(&tag[..TAG_LENGTH]);
        hexadecimal::write(&octets)
    }

    /// The flow of a token that we wrote; `None` for anything else. A connection of an earlier process is
    /// [`FORMER_CONNECTION`].
    pub(crate) fn decode(&self, token: &str) -> Option<Flow> {
        let octets = hexadecimal::read(token)?;
        let (signed, tag) = octets.split_at_checked(octets.len().checked_sub(TAG_LENGTH)?)?;
        self.key
            .clone()
            .chain_update(signed)
            .verify_truncated_left(tag)
            .ok()?;
        if let Some(flow) = flow_octets::read(signed) {
            return (flow.transport == Transport::Udp).then_some(flow);
        }
        let (signed, incarnation) = signed.split_last_chunk()?;
        let mut flow = flow_octets::read(signed)?;
        if u32::from_be_bytes(*incarnation) != self.incarnation {
            flow.connection = FORMER_CONNECTION;
        }
        Some(flow)
    }
}

/// Connections have numbers of their own, users without one have addresses and ports.
fn place_of(flow: &Flow) -> usize {
    let address = match flow.remote.ip() {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits() as u64 ^ (ip.to_bits() >> 64) as u64,
    };
    let port = u64::from(flow.remote.port());
    let number = flow.connection.0 ^ u64::from(flow.stream) ^ address ^ port;
    // What differs in higher octets alone differs in the lowest then.
    let folded = number ^ number >> 32;
    let folded = folded ^ folded >> 16;
    (folded ^ folded >> 8) as usize % PLACES
}

impl std::fmt::Debug for FlowTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FlowTokens")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(seed: u8) -> FlowTokens {
        FlowTokens::new(&Keys::from_bytes([seed; 32]), 7)
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
    fn what_is_remembered_is_what_would_be_written() {
        let tokens = tokens(1);
        let (one, other) = (
            flow("192.0.2.1:5060", "198.51.100.9:1"),
            flow("192.0.2.1:5060", "198.51.100.8:1"),
        );
        for flow in [one, one, other, one, other, other] {
            let mut text = String::from("sip:");
            tokens.push_to(&mut text, &flow);
            assert_eq!(text, format!("sip:{}", tokens.encode(&flow)));
        }
        assert_ne!(tokens.encode(&one), tokens.encode(&other));
    }

    #[test]
    fn the_token_of_a_small_connection_number_is_short() {
        let flow = Flow {
            connection: ConnectionId(300),
            stream: 7,
            ..flow("192.0.2.1:5060", "198.51.100.9:1")
        };
        assert!(tokens(1).encode(&flow).len() <= 68);
    }

    #[test]
    fn a_connection_of_an_earlier_process_is_none_of_this_one() {
        let later = FlowTokens::new(&Keys::from_bytes([1; 32]), 8);
        let stream = flow("192.0.2.1:5060", "198.51.100.9:1");
        let expected = Flow {
            connection: FORMER_CONNECTION,
            ..stream
        };
        assert_eq!(later.decode(&tokens(1).encode(&stream)), Some(expected));
        let datagrams = Flow {
            transport: Transport::Udp,
            ..stream
        };
        assert_eq!(later.decode(&tokens(1).encode(&datagrams)), Some(datagrams));
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
