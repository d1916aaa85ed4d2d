//! pcap and pcapng, in every order and unit, whole and broken.

use capture::{Carrier, OpenError, Reader, Time, Warning};

use crate::reading::build::*;

fn three() -> Vec<Vec<u8>> {
    (0..3)
        .map(|number| udp(ALICE, BOB, &request(&format!("call-{number}"), number)))
        .collect()
}

fn expected() -> Vec<(Carrier, Vec<u8>)> {
    (0..3)
        .map(|number| (Carrier::Udp, request(&format!("call-{number}"), number)))
        .collect()
}

/// Numbers in one of the two orders.
#[derive(Clone, Copy)]
struct Order(bool);

impl Order {
    fn u16(self, number: u16) -> [u8; 2] {
        if self.0 {
            number.to_be_bytes()
        } else {
            number.to_le_bytes()
        }
    }

    fn u32(self, number: u32) -> [u8; 4] {
        if self.0 {
            number.to_be_bytes()
        } else {
            number.to_le_bytes()
        }
    }
}

fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let length = order.u32(12 + body.len().next_multiple_of(4) as u32);
    let mut block = [&order.u32(kind)[..], &length, body].concat();
    block.resize(block.len().next_multiple_of(4), 0);
    block.extend(length);
    block
}

fn section(order: Order) -> Vec<u8> {
    let body = [
        &order.u32(0x1a2b_3c4d)[..],
        &order.u16(1),
        &order.u16(0),
        &[0xff; 8],
    ]
    .concat();
    block(order, 0x0a0d_0d0a, &body)
}

fn interface(order: Order, link: u16, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = [&order.u16(link)[..], &[0; 6]].concat();
    for (code, value) in options {
        body.extend(order.u16(*code));
        body.extend(order.u16(value.len() as u16));
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    block(order, 1, &body)
}

fn enhanced(order: Order, interface: u32, ticks: u64, packet: &[u8]) -> Vec<u8> {
    let length = order.u32(packet.len() as u32);
    let [high, low] = [order.u32((ticks >> 32) as u32), order.u32(ticks as u32)];
    let body = [
        &order.u32(interface)[..],
        &high,
        &low,
        &length,
        &length,
        packet,
    ]
    .concat();
    block(order, 6, &body)
}

#[test]
fn pcap_of_every_order_and_unit() {
    for order in [Order(false), Order(true)] {
        for (magic, unit, extra) in [
            (0xa1b2_c3d4, 1000, 0),
            (0xa1b2_3c4d, 1, 0),
            (0xa1b2_cd34, 1000, 8),
        ] {
            let mut file = order.u32(magic).to_vec();
            file.extend([0; 16]);
            file.extend(order.u32(RAW));
            for (number, packet) in three().iter().enumerate() {
                file.extend(order.u32(1_700_000_000));
                file.extend(order.u32(number as u32 + 5));
                file.extend(order.u32(packet.len() as u32));
                file.extend(order.u32(packet.len() as u32));
                file.extend(vec![0; extra]);
                file.extend(packet);
            }
            let kept = read(&file);
            assert_eq!(messages(&kept), expected());
            assert!(warnings(&kept).is_empty());
            assert_eq!(kept[2].time, Time(START + 7 * unit));
            assert_eq!(kept[2].packet, 3);
            assert_eq!((&*kept[2].source, &*kept[2].destination), (ALICE, BOB));
        }
    }
}

#[test]
fn pcapng_with_several_interfaces_units_and_sections() {
    let packets = three();
    let mut file = Vec::new();
    for order in [Order(false), Order(true)] {
        let offset = 1_000_000_000_u64;
        let offset = if order.0 {
            offset.to_be_bytes()
        } else {
            offset.to_le_bytes()
        };
        let ethernet = [&[0; 12][..], &[0x08, 0x00], &packets[1]].concat();
        file.extend(section(order));
        file.extend(block(order, 0x0bad, b"somebody's own block"));
        file.extend(interface(order, RAW as u16, &[]));
        file.extend(interface(order, 1, &[(2, b"eth0"), (9, &[9])]));
        file.extend(interface(
            order,
            RAW as u16,
            &[(9, &[0x80 | 10]), (14, &offset)],
        ));
        file.extend(enhanced(order, 0, 1_700_000_000_000_001, &packets[0]));
        file.extend(enhanced(order, 1, 1_700_000_000_000_000_002, &ethernet));
        file.extend(enhanced(order, 2, (700_000_000 << 10) + 512, &packets[2]));
    }
    let kept = read(&file);
    assert_eq!(messages(&kept), [expected(), expected()].concat());
    let times: Vec<i64> = kept.iter().map(|kept| kept.time.0 - START).collect();
    assert_eq!(times, [1000, 2, 500_000_000, 1000, 2, 500_000_000]);
    assert_eq!(kept[5].packet, 6);
}

#[test]
fn simple_and_obsolete_packet_blocks() {
    let order = Order(false);
    let packets = three();
    let mut file = [section(order), interface(order, RAW as u16, &[])].concat();
    let length = |packet: &Vec<u8>| order.u32(packet.len() as u32);
    let ticks = 1_700_000_000_000_000_u64;
    let old = [
        &[0; 4][..],
        &order.u32((ticks >> 32) as u32),
        &order.u32(ticks as u32),
        &length(&packets[0]),
        &length(&packets[0]),
        &packets[0],
    ];
    file.extend(block(order, 2, &old.concat()));
    file.extend(block(
        order,
        3,
        &[&length(&packets[1])[..], &packets[1]].concat(),
    ));
    let kept = read(&file);
    assert_eq!(messages(&kept), expected()[..2]);
    assert_eq!(kept[1].time, Time(START));
}

#[test]
fn a_file_that_ends_within_a_packet() {
    let whole = pcap(RAW, &three());
    let last = whole.len() - three()[2].len() - 16;
    for length in last + 1..whole.len() {
        let kept = read(&whole[..length]);
        assert_eq!(messages(&kept), expected()[..2]);
        let reason = "it ends within a packet";
        let offset = last as u64;
        assert_eq!(warnings(&kept), [Warning::FileBroken { offset, reason }]);
    }
}

#[test]
fn damage_is_stepped_over_and_told_by_its_place() {
    let mut packets = three();
    packets.push(packets[1].clone());
    let mut file = pcap(RAW, &packets);
    // The length of the second packet.
    let second = 24 + 16 + packets[0].len();
    file[second + 8..second + 12].copy_from_slice(&[0xff; 4]);
    let kept = read(&file);
    let found = messages(&kept);
    assert_eq!(
        found,
        [&expected()[..1], &expected()[2..], &expected()[1..2]].concat()
    );
    assert_eq!(
        warnings(&kept),
        [Warning::FileSkipped {
            offset: second as u64,
            octets: 16 + packets[1].len() as u64,
            reason: "no packet begins here",
        }]
    );
}

#[test]
fn a_damaged_block_is_stepped_over() {
    let order = Order(false);
    let mut file = [section(order), interface(order, RAW as u16, &[])].concat();
    let mut starts = Vec::new();
    for (number, packet) in three().iter().enumerate() {
        starts.push(file.len());
        file.extend(enhanced(order, 0, number as u64, packet));
    }
    // Octets are missing in the middle of the second block.
    let damaged = [&file[..starts[1] + 50], &file[starts[1] + 57..]].concat();
    let kept = read(&damaged);
    assert_eq!(
        messages(&kept),
        [&expected()[..1], &expected()[2..]].concat()
    );
    let [Warning::FileSkipped { offset, octets, .. }] = warnings(&kept)[..] else {
        panic!("{kept:?}");
    };
    assert_eq!(offset, starts[1] as u64);
    assert_eq!(octets, (starts[2] - starts[1] - 7) as u64);

    // A packet of an interface that was never described.
    let stranger = [
        &file[..starts[1]],
        &enhanced(order, 7, 0, b"x"),
        &file[starts[1]..],
    ]
    .concat();
    let kept = read(&stranger);
    assert_eq!(messages(&kept), expected());
    assert_eq!(warnings(&kept).len(), 1);
}

#[test]
fn what_is_no_capture_is_refused_by_its_reason() {
    let open = |file: &'static [u8]| Reader::open(file, 0).err().map(|error| error.to_string());
    assert_eq!(open(b"").as_deref(), Some("the file is empty"));
    assert!(open(b"\x1f\x8b\x08rest").unwrap().contains("gzip"));
    assert!(matches!(
        Reader::open(&b"#!/bin/sh"[..], 0),
        Err(OpenError::UnknownFormat)
    ));
}

#[test]
fn times_are_known_ahead() {
    let file = pcap(RAW, &three());
    let mut reader = Reader::open(&file[..], 0).unwrap();
    let mut times = Vec::new();
    while let Some(time) = reader.next_time().unwrap() {
        assert_eq!(reader.next_time().unwrap(), Some(time));
        times.push(time.0 - START);
        assert!(
            reader
                .step(&mut |seen| assert_eq!(seen.time, time))
                .unwrap()
        );
    }
    assert_eq!(times, [0, 1_000_000, 2_000_000]);
    assert!(!reader.step(&mut |_| panic!("nothing is left")).unwrap());
    assert_eq!(reader.counts().octets, file.len() as u64);
}

#[test]
fn a_datagram_that_was_captured_in_part() {
    let packet = three().remove(2);
    let mut file = pcap_header(RAW);
    file.extend(pcap_record(0, &packet[..100], packet.len()));
    let kept = read(&file);
    let [
        Kept {
            kind: KeptKind::Sip { cut, octets, .. },
            ..
        },
    ] = &kept[..]
    else {
        panic!("{kept:?}");
    };
    assert!(cut);
    assert_eq!(octets[..], request("call-2", 2)[..100 - 28]);
}

#[test]
fn messages_recorded_without_packets() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sip.pcapng");
    let tap = tap::MessageTap::create(&path, "test").unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(START as u64 + 3);
    let message = request("recorded", 7);
    let kinds = [
        ("UDP", tap::PortKind::Udp, Carrier::Udp),
        ("TLS", tap::PortKind::Tcp, Carrier::Tls),
        ("WSS", tap::PortKind::Tcp, Carrier::Wss),
        ("TLS-SCTP", tap::PortKind::Sctp, Carrier::TlsSctp),
        ("", tap::PortKind::Sctp, Carrier::Sctp(None)),
        ("", tap::PortKind::Tcp, Carrier::Tcp),
    ];
    for (transport, ports, _) in kinds {
        tap.record(&tap::MessageRecord {
            protocol: tap::MessageProtocol::Sip,
            time,
            direction: tap::Direction::Inbound,
            ports,
            transport,
            source: "[2001:db8::1]:5060".parse().unwrap(),
            destination: "[2001:db8::2]:5061".parse().unwrap(),
            message: &message,
        });
    }
    tap.flush().unwrap();
    let kept = read(&std::fs::read(path).unwrap());
    let expected = kinds.map(|(_, _, carrier)| (carrier, message.clone()));
    assert_eq!(messages(&kept), expected);
    assert_eq!(kept[0].time, Time(START + 3));
    assert_eq!(kept[0].source, "[2001:db8::1]:5060");
    assert_eq!(kept[0].destination, "[2001:db8::2]:5061");
}
