//! SIP in the user messages of SCTP, right over IP and in UDP.

use bytes::BytesMut;
use capture::{Carrier, Limits, Settings, UserMessage, Warning};
use sctp::packet::{Data, PacketWriter, Ssn, Tsn};

use crate::reading::build::*;

const TAG: u32 = 0x1234_5678;

/// An SCTP packet of chunks.
fn sctp(tag: u32, chunks: &[Data<'_>]) -> Vec<u8> {
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, 5060, 5070, tag, 65_000);
    for chunk in chunks {
        writer.data(chunk).unwrap();
    }
    writer.finish().to_vec()
}

fn whole(tsn: u32, octets: &[u8]) -> Data<'_> {
    Data {
        beginning: true,
        ending: true,
        tsn: Tsn(tsn),
        stream: 3,
        ssn: Ssn(1),
        user_data: octets,
        ..Data::default()
    }
}

fn fragments(first: u32, octets: &[u8], size: usize) -> Vec<Data<'_>> {
    let count = octets.len().div_ceil(size);
    octets
        .chunks(size)
        .enumerate()
        .map(|(number, part)| Data {
            beginning: number == 0,
            ending: number + 1 == count,
            unordered: true,
            ..whole(first.wrapping_add(number as u32), part)
        })
        .collect()
}

fn carrier(tsn: u32, fragments: u32, unordered: bool, encapsulated: bool) -> Carrier {
    Carrier::Sctp(Some(UserMessage {
        stream: 3,
        tsn: Tsn(tsn),
        payload_protocol: 0,
        fragments,
        unordered,
        encapsulated,
    }))
}

#[test]
fn bundled_and_repeated_chunks() {
    let messages_sent: Vec<_> = (0..4).map(|n| request(&format!("call-{n}"), n)).collect();
    let chunks: Vec<_> = messages_sent
        .iter()
        .zip(10..)
        .map(|(octets, tsn)| whole(tsn, octets))
        .collect();
    let packets = [
        packet(ALICE, BOB, 132, &sctp(TAG, &chunks[..2])),
        // On another path of the same association.
        packet(
            "198.51.100.1:1",
            "198.51.100.2:1",
            132,
            &sctp(TAG, &chunks[1..3]),
        ),
        packet(ALICE, BOB, 132, &sctp(TAG, &chunks)),
        // Another association.
        packet(ALICE, BOB, 132, &sctp(TAG + 1, &chunks[..1])),
    ];
    let kept = read(&pcap(RAW, &packets));
    let expected: Vec<_> = [(10, 0), (11, 1), (12, 2), (13, 3), (10, 0)]
        .map(|(tsn, n)| (carrier(tsn, 1, false, false), messages_sent[n].clone()))
        .to_vec();
    assert_eq!(messages(&kept), expected);
    let packets_seen: Vec<_> = kept
        .iter()
        .filter_map(|kept| match kept.kind {
            KeptKind::Sctp { chunks, udp } => Some((kept.packet, chunks, udp)),
            _ => None,
        })
        .collect();
    assert_eq!(
        packets_seen,
        [(1, 2, None), (2, 2, None), (3, 4, None), (4, 1, None)]
    );
    // The packet is seen before the messages in it, with the ports of SCTP.
    assert!(matches!(kept[0].kind, KeptKind::Sctp { .. }));
    assert_eq!(
        (&*kept[3].source, &*kept[3].destination),
        ("198.51.100.1:5060", "198.51.100.2:5070")
    );
}

#[test]
fn fragments_in_any_order_over_the_end_of_the_numbers() {
    let message = request("long", 5000);
    let first = u32::MAX - 2;
    let chunks = fragments(first, &message, 1000);
    let count = chunks.len() as u32;
    let mut packets: Vec<_> = chunks
        .iter()
        .map(|chunk| packet(ALICE, BOB, 132, &sctp(TAG, &[*chunk])))
        .collect();
    let expected = [(carrier(first, count, true, false), message.clone())];
    for _ in 0..packets.len() {
        packets.rotate_left(1);
        let twice = [&packets[..], &packets].concat();
        assert_eq!(messages(&read(&pcap(RAW, &twice))), expected);
    }
    packets.reverse();
    assert_eq!(messages(&read(&pcap(RAW, &packets))), expected);
    packets.remove(2);
    assert!(messages(&read(&pcap(RAW, &packets))).is_empty());
}

#[test]
fn in_udp_on_the_port_of_the_standard_and_on_any_other() {
    let message = request("encapsulated", 3);
    let mut octets = sctp(TAG, &[whole(7, &message)]);
    let expected = [(carrier(7, 1, false, true), message.clone())];
    let any = [udp("192.0.2.1:4000", "192.0.2.2:4001", &octets)];
    let kept = read(&pcap(RAW, &any));
    assert_eq!(messages(&kept), expected);
    let ports = Some((4000, 4001));
    assert_eq!(
        kept[0].kind,
        KeptKind::Sctp {
            chunks: 1,
            udp: ports
        }
    );
    assert_eq!(kept[1].source, "192.0.2.1:5060");

    // A checksum that was left to the network card is wrong in the capture.
    octets[8] ^= 1;
    let any = [udp("192.0.2.1:4000", "192.0.2.2:4001", &octets)];
    assert!(read(&pcap(RAW, &any)).is_empty());
    let standard = [udp("192.0.2.1:9899", "192.0.2.2:4001", &octets)];
    assert_eq!(messages(&read(&pcap(RAW, &standard))), expected);
    let settings = Settings {
        sctp_udp_ports: vec![4001],
        ..Settings::default()
    };
    assert_eq!(
        messages(&read_with(&pcap(RAW, &any), &settings).0),
        expected
    );
}

#[test]
fn user_messages_beyond_the_bounds_are_let_go() {
    let message = request("long", 5000);
    let chunks = fragments(1, &message, 1000);
    let mut packets = Vec::new();
    for tag in 1..=100 {
        packets.push(packet(ALICE, BOB, 132, &sctp(tag, &chunks[..3])));
    }
    packets.push(packet(ALICE, BOB, 132, &sctp(100, &chunks[3..])));
    packets.push(packet(ALICE, BOB, 132, &sctp(1, &chunks[3..])));
    for limits in [
        Limits {
            associations: 10,
            ..Limits::default()
        },
        Limits {
            user_message_octets: 40_000,
            ..Limits::default()
        },
    ] {
        let settings = Settings {
            limits,
            ..Settings::default()
        };
        let (kept, _) = read_with(&pcap(RAW, &packets), &settings);
        assert_eq!(messages(&kept).len(), 1);
        let dropped = warnings(&kept);
        assert!(dropped.len() > 80);
        assert!(
            dropped
                .iter()
                .all(|warning| matches!(warning, Warning::Dropped(_)))
        );
    }
}
