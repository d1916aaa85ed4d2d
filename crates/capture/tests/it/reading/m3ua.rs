//! M3UA in user messages of SCTP.

use bytes::{Bytes, BytesMut};
use capture::UserMessage;
use m3ua::message::{AspUp, Message};
use sctp::packet::{Chunk, Data, PacketWriter, Ssn, Tsn};

use crate::reading::build::*;

const SCTP: u8 = 132;

/// A packet of SCTP between these ports.
fn packet_of([source, destination]: [u16; 2], chunks: &[Chunk<'_>]) -> Bytes {
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, source, destination, 7, 1500);
    for chunk in chunks {
        writer.chunk(chunk).expect("room");
    }
    writer.finish()
}

fn whole(tsn: u32, ppid: u32, user_data: &[u8]) -> Data<'_> {
    Data {
        unordered: false,
        beginning: true,
        ending: true,
        immediate: false,
        tsn: Tsn(tsn),
        stream: 0,
        ssn: Ssn(0),
        ppid,
        user_data,
    }
}

fn found(packets: &[Vec<u8>]) -> Vec<(UserMessage, Vec<u8>)> {
    let kept = read(&pcap(RAW, packets)).into_iter();
    kept.filter_map(|kept| match kept.kind {
        KeptKind::M3ua { message, octets } => Some((message, octets)),
        _ => None,
    })
    .collect()
}

fn asp_up() -> Bytes {
    let up = AspUp {
        asp_identifier: Some(9),
        info: None,
    };
    Message::AspUp(up).write().expect("it fits")
}

#[test]
fn m3ua_is_known_by_its_identifier_or_its_port() {
    let up = asp_up();
    for (ports, ppid, octets, is_m3ua) in [
        // RFC 4666 section 7.1: the identifier is 3.
        ([1000, 1001], 3, &up[..], true),
        ([1000, 1001], 3, b"whatever", true),
        ([1000, 1001], 0, &up, false),
        // Section 7.2: the port is 2905.
        ([1000, 2905], 0, &up, true),
        ([2905, 1000], 46, &up, true),
        ([1000, 2905], 0, b"whatever", false),
        ([1000, 2905], 0, &up[..up.len() - 4], false),
    ] {
        let sctp = packet_of(ports, &[Chunk::Data(whole(1, ppid, octets))]);
        let [over_ip, in_udp] = [
            packet("192.0.2.1:0", "192.0.2.2:0", SCTP, &sctp),
            udp("192.0.2.1:9899", "192.0.2.2:9899", &sctp),
        ]
        .map(|packet| found(&[packet]));
        let expected = usize::from(is_m3ua);
        assert_eq!(
            (over_ip.len(), in_udp.len()),
            (expected, expected),
            "{ports:?} {ppid}"
        );
        if is_m3ua {
            assert_eq!(over_ip[0].1, octets);
            assert_eq!(over_ip[0].0.payload_protocol, ppid);
            assert!(!over_ip[0].0.encapsulated && in_udp[0].0.encapsulated);
        }
    }
}

#[test]
fn what_is_in_fragments_or_sent_again_is_one_message() {
    let up = asp_up();
    let (head, tail) = up.split_at(8);
    let first = Data {
        ending: false,
        ..whole(1, 3, head)
    };
    let last = Data {
        beginning: false,
        ..whole(2, 3, tail)
    };
    let packets: Vec<Vec<u8>> = [first, last, first, last]
        .into_iter()
        .map(|data| {
            let sctp = packet_of([1000, 2905], &[Chunk::Data(data)]);
            packet("192.0.2.1:0", "192.0.2.2:0", SCTP, &sctp)
        })
        .collect();
    let found = found(&packets);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0.fragments, &found[0].1[..]), (2, &up[..]));
}
