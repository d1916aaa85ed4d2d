//! Captures made in code, and their events.

use std::net::{IpAddr, SocketAddr};

use capture::{
    Carrier, Counts, Event, EventKind, KeyLog, Reader, Settings, SummaryStart, Time, UserMessage,
    Warning,
};
use etherparse::{IpNumber, PacketBuilder, PacketBuilderStep};

/// LINKTYPE_RAW.
pub(crate) const RAW: u32 = 101;

pub(crate) const ALICE: &str = "192.0.2.1:5060";
pub(crate) const BOB: &str = "192.0.2.2:5070";

/// The time of the first packet of most captures.
pub(crate) const START: i64 = 1_700_000_000_000_000_000;

/// A request with a body of a length.
pub(crate) fn request(call_id: &str, body: usize) -> Vec<u8> {
    format!(
        "MESSAGE sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{call_id}\r\n\
         Call-ID: {call_id}\r\nCSeq: 1 MESSAGE\r\nContent-Length: {body}\r\n\r\n{}",
        "x".repeat(body)
    )
    .into_bytes()
}

/// An IP packet of the family of the addresses.
fn ip(source: &str, destination: &str) -> (PacketBuilderStep<etherparse::IpHeaders>, u16, u16) {
    let source: SocketAddr = source.parse().unwrap();
    let destination: SocketAddr = destination.parse().unwrap();
    let step = match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            PacketBuilder::ipv4(source.octets(), destination.octets(), 64)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            PacketBuilder::ipv6(source.octets(), destination.octets(), 64)
        }
        _ => panic!("addresses of two families"),
    };
    (step, source.port(), destination.port())
}

/// An IP packet with a UDP datagram.
pub(crate) fn udp(source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
    let (ip, source, destination) = ip(source, destination);
    let mut packet = Vec::new();
    ip.udp(source, destination)
        .write(&mut packet, payload)
        .unwrap();
    packet
}

/// An IP packet with anything.
pub(crate) fn packet(source: &str, destination: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (ip, ..) = ip(source, destination);
    let mut packet = Vec::new();
    ip.write(&mut packet, IpNumber(protocol), payload).unwrap();
    packet
}

/// The flags of a segment.
#[derive(Clone, Copy, Default)]
pub(crate) struct Flags {
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) ack: Option<u32>,
}

/// An IP packet with a TCP segment.
pub(crate) fn tcp(
    source: &str,
    destination: &str,
    sequence: u32,
    flags: Flags,
    payload: &[u8],
) -> Vec<u8> {
    let (ip, source, destination) = ip(source, destination);
    let mut step = ip.tcp(source, destination, sequence, 65_535);
    if flags.syn {
        step = step.syn();
    }
    if flags.fin {
        step = step.fin();
    }
    if flags.rst {
        step = step.rst();
    }
    if let Some(number) = flags.ack {
        step = step.ack(number);
    }
    let mut packet = Vec::new();
    step.write(&mut packet, payload).unwrap();
    packet
}

/// A pcap file of microseconds, a packet each millisecond.
pub(crate) fn pcap(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = pcap_header(link);
    for (number, packet) in packets.iter().enumerate() {
        file.extend(pcap_record(number, packet, packet.len()));
    }
    file
}

pub(crate) fn pcap_header(link: u32) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4_u32.to_le_bytes());
    file.extend([2, 0, 4, 0]);
    file.extend([0; 8]);
    file.extend(262_144_u32.to_le_bytes());
    file.extend(link.to_le_bytes());
    file
}

/// The record of a packet that was longer on the wire.
pub(crate) fn pcap_record(number: usize, packet: &[u8], length: usize) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(((START / 1_000_000_000) as u32).to_le_bytes());
    record.extend((number as u32 * 1000).to_le_bytes());
    record.extend((packet.len() as u32).to_le_bytes());
    record.extend((length as u32).to_le_bytes());
    record.extend(packet);
    record
}

/// A record with a hello of TLS, whose random number is all ones.
pub(crate) fn hello(kind: u8, rest: &[u8]) -> Vec<u8> {
    let length = 34 + rest.len() as u8;
    let record = [22, 3, 3, 0, 4 + length, kind, 0, 0, length, 3, 3];
    [&record[..], &[1; 32], rest].concat()
}

/// A key log with secrets for those, though none that fit.
pub(crate) fn keys() -> KeyLog {
    let random = "01".repeat(32);
    let mut keys = KeyLog::default();
    for label in [
        "CLIENT_RANDOM",
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
    ] {
        keys.add(format!("{label} {random} 0123").as_bytes());
    }
    keys
}

/// An event with octets of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) time: Time,
    pub(crate) packet: u64,
    pub(crate) source: String,
    pub(crate) destination: String,
    pub(crate) kind: KeptKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeptKind {
    Sip {
        carrier: Carrier,
        octets: Vec<u8>,
        cut: bool,
    },
    Summary {
        carrier: Carrier,
        start: String,
        sdp: bool,
    },
    Sctp {
        chunks: usize,
        udp: Option<(u16, u16)>,
    },
    M3ua {
        message: UserMessage,
        octets: Vec<u8>,
    },
    Rtp {
        ssrc: u32,
    },
    Warning(Warning),
}

impl Kept {
    pub(crate) fn new(event: Event<'_>) -> Kept {
        let kind = match event.kind {
            EventKind::Sip {
                carrier,
                octets,
                cut,
            } => KeptKind::Sip {
                carrier,
                octets: octets.to_vec(),
                cut,
            },
            EventKind::SipSummary { carrier, summary } => KeptKind::Summary {
                carrier,
                start: match summary.start {
                    SummaryStart::Request { method, uri } => format!("{method} {uri}"),
                    SummaryStart::Response { status, reason, .. } => format!("{status} {reason}"),
                },
                sdp: summary.has_session_description,
            },
            EventKind::Sctp(packet) => KeptKind::Sctp {
                chunks: packet.packet.chunks().count(),
                udp: packet.udp,
            },
            EventKind::M3ua {
                message, octets, ..
            } => KeptKind::M3ua {
                message,
                octets: octets.to_vec(),
            },
            EventKind::Rtp(packet) => KeptKind::Rtp { ssrc: packet.ssrc },
            EventKind::Warning(warning) => KeptKind::Warning(warning),
        };
        Kept {
            time: event.time,
            packet: event.packet,
            source: event.source.to_string(),
            destination: event.destination.to_string(),
            kind,
        }
    }
}

/// All events of a file.
pub(crate) fn read(file: &[u8]) -> Vec<Kept> {
    read_with(file, &Settings::default()).0
}

/// All events of a file, and the counts.
pub(crate) fn read_with(file: &[u8], settings: &Settings) -> (Vec<Kept>, Counts) {
    let mut reader = Reader::open_with(file, 0, settings).unwrap();
    let mut kept = Vec::new();
    while reader
        .step(&mut |event| kept.push(Kept::new(event)))
        .unwrap()
    {}
    (kept, reader.counts())
}

/// The SIP messages among the events: carrier and octets.
pub(crate) fn messages(kept: &[Kept]) -> Vec<(Carrier, Vec<u8>)> {
    kept.iter()
        .filter_map(|kept| match &kept.kind {
            KeptKind::Sip {
                carrier, octets, ..
            } => Some((*carrier, octets.clone())),
            _ => None,
        })
        .collect()
}

/// The warnings among the events.
pub(crate) fn warnings(kept: &[Kept]) -> Vec<Warning> {
    kept.iter()
        .filter_map(|kept| match kept.kind {
            KeptKind::Warning(warning) => Some(warning),
            _ => None,
        })
        .collect()
}
