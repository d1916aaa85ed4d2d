//! Routers answer when somebody asks whether they are there (RFC 792, "Echo"; RFC 4443 section 4).

use etherparse::checksum::Sum16BitWords;

use super::{error, v4, v6};
use crate::protocol::Protocol;

const REQUEST_V4: u8 = 8;
const REPLY_V4: u8 = 0;
const REQUEST_V6: u8 = 128;
const REPLY_V6: u8 = 129;

/// What becomes of a packet that is for the router itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// This goes back.
    Reply(Vec<u8>),
    /// An error goes back.
    Problem(error::Problem),
    /// Nothing does.
    Silence,
}

/// The answer to a packet that has been read and is for the router.
pub(crate) fn answer(packet: &[u8], identification: u16) -> Answer {
    match packet.first().map(|first| first >> 4) {
        Some(4) => answer_v4(packet, identification),
        Some(6) => answer_v6(packet),
        _ => Answer::Silence,
    }
}

fn answer_v4(packet: &[u8], identification: u16) -> Answer {
    let Some(v4::Packet { header, payload }) = v4::Packet::read(packet) else {
        return Answer::Silence;
    };
    // The routers put nothing together again.
    if header.is_fragmenting_payload() {
        return Answer::Silence;
    }
    match Protocol(header.protocol().0) {
        Protocol::ICMP => {
            let is_request = payload.len() >= 8 && payload[0] == REQUEST_V4 && payload[1] == 0;
            let sum = Sum16BitWords::new().add_slice(payload);
            if !is_request || sum.ones_complement() != 0 || !v4::is_one_host(header.source_addr()) {
                return Answer::Silence;
            }
            let mut message = payload.to_vec();
            message[0] = REPLY_V4;
            message[2..4].fill(0);
            let sum = Sum16BitWords::new().add_slice(&message);
            message[2..4].copy_from_slice(&sum.ones_complement().to_ne_bytes());
            let outer = v4::new_header(
                [header.destination_addr(), header.source_addr()],
                Protocol::ICMP,
                packet[1],
                identification,
                message.len(),
            );
            Answer::Reply([&outer[..], &message].concat())
        }
        protocol if protocol.has_ports() => Answer::Problem(error::Problem::NoPort),
        _ => Answer::Problem(error::Problem::NoProtocol),
    }
}

fn answer_v6(packet: &[u8]) -> Answer {
    let Some(packet) = v6::Packet::read(packet) else {
        return Answer::Silence;
    };
    let (protocol, Some(payload)) = packet.upper_layer() else {
        return Answer::Silence;
    };
    let header = packet.header;
    let has_extensions = payload.len() != packet.payload.len();
    match protocol {
        Protocol::ICMPV6 => {
            let addresses = [header.source_addr(), header.destination_addr()];
            let sum = v6::pseudo_header(addresses, protocol, payload.len()).add_slice(payload);
            let is_request = payload.len() >= 8 && payload[0] == REQUEST_V6 && payload[1] == 0;
            if !is_request || sum.ones_complement() != 0 || !v6::is_one_host(header.source_addr()) {
                return Answer::Silence;
            }
            let mut message = payload.to_vec();
            message[0] = REPLY_V6;
            message[2..4].fill(0);
            let addresses = [header.destination_addr(), header.source_addr()];
            let sum = v6::pseudo_header(addresses, protocol, message.len()).add_slice(&message);
            message[2..4].copy_from_slice(&sum.ones_complement().to_ne_bytes());
            let outer = v6::new_header(addresses, protocol, message.len());
            Answer::Reply([&outer[..], &message].concat())
        }
        protocol if protocol.has_ports() => Answer::Problem(error::Problem::NoPort),
        _ if has_extensions => Answer::Silence,
        _ => Answer::Problem(error::Problem::NoProtocol),
    }
}
