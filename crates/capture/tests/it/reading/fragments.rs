//! IP packets in fragments.

use capture::{Carrier, Limits, Settings, Warning};

use crate::reading::build::*;

const ALICE_6: &str = "[2001:db8::1]:5060";
const BOB_6: &str = "[2001:db8::2]:5070";

/// An IPv4 packet cut into fragments.
fn ipv4_fragments(packet: &[u8], size: usize, identification: u16) -> Vec<Vec<u8>> {
    let (header, payload) = packet.split_at(20);
    let count = payload.len().div_ceil(size);
    payload
        .chunks(size)
        .enumerate()
        .map(|(number, part)| {
            let mut fragment = [header, part].concat();
            let more = if number + 1 < count { 0x2000 } else { 0 };
            let offset = (number * size / 8) as u16 | more;
            fragment[2..4].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
            fragment[4..6].copy_from_slice(&identification.to_be_bytes());
            fragment[6..8].copy_from_slice(&offset.to_be_bytes());
            fragment
        })
        .collect()
}

/// An IPv6 packet cut into fragments, with a Hop-by-Hop Options header before and a Destination Options
/// header behind the fragment header.
fn ipv6_fragments(packet: &[u8], size: usize) -> Vec<Vec<u8>> {
    const PADDING: [u8; 6] = [1, 4, 0, 0, 0, 0];
    let (header, payload) = packet.split_at(40);
    let payload = [&[17, 0][..], &PADDING, payload].concat();
    let count = payload.len().div_ceil(size);
    payload
        .chunks(size)
        .enumerate()
        .map(|(number, part)| {
            let more = u16::from(number + 1 < count);
            let offset = (number * size) as u16 | more;
            let mut fragment = header.to_vec();
            fragment[4..6].copy_from_slice(&(16 + part.len() as u16).to_be_bytes());
            fragment[6] = 0;
            fragment.extend([44, 0]);
            fragment.extend(PADDING);
            fragment.extend([60, 0]);
            fragment.extend(offset.to_be_bytes());
            fragment.extend([0, 0, 0, 9]);
            fragment.extend(part);
            fragment
        })
        .collect()
}

#[test]
fn fragments_in_any_order() {
    let message = request("long", 3000);
    for mut fragments in [
        ipv4_fragments(&udp(ALICE, BOB, &message), 800, 7),
        ipv6_fragments(&udp(ALICE_6, BOB_6, &message), 800),
    ] {
        let expected = [(Carrier::Udp, message.clone())];
        for _ in 0..fragments.len() {
            fragments.rotate_left(1);
            assert_eq!(messages(&read(&pcap(RAW, &fragments))), expected);
        }
        fragments.reverse();
        let twice = fragments[..2].iter().chain(&fragments).cloned();
        assert_eq!(
            messages(&read(&pcap(RAW, &twice.collect::<Vec<_>>()))),
            expected
        );
        fragments.pop();
        assert!(read(&pcap(RAW, &fragments)).is_empty());
    }
}

#[test]
fn an_atomic_fragment_is_whole() {
    let message = request("atomic", 10);
    let packets = ipv6_fragments(&udp(ALICE_6, BOB_6, &message), 100_000);
    assert_eq!(packets.len(), 1);
    assert_eq!(
        messages(&read(&pcap(RAW, &packets))),
        [(Carrier::Udp, message)]
    );
}

#[test]
fn packets_whose_fragments_never_all_come_are_let_go() {
    let message = request("long", 3000);
    let packet = udp(ALICE, BOB, &message);
    let mut packets = Vec::new();
    for identification in 0..100 {
        packets.extend(ipv4_fragments(&packet, 1200, identification)[..2].to_vec());
    }
    // The last of them becomes whole, the first has been let go.
    packets.push(ipv4_fragments(&packet, 1200, 99).remove(2));
    packets.push(ipv4_fragments(&packet, 1200, 0).remove(2));
    for limits in [
        Limits {
            fragmented_packets: 10,
            ..Limits::default()
        },
        Limits {
            fragment_octets: 30_000,
            ..Limits::default()
        },
    ] {
        let settings = Settings {
            limits,
            ..Settings::default()
        };
        let (kept, counts) = read_with(&pcap(RAW, &packets), &settings);
        assert_eq!(messages(&kept), [(Carrier::Udp, message.clone())]);
        let dropped = warnings(&kept);
        assert!(dropped.len() > 80, "{}", dropped.len());
        assert!(
            dropped
                .iter()
                .all(|warning| matches!(warning, Warning::Dropped(_)))
        );
        assert_eq!(counts.warnings, dropped.len() as u64);
    }
}
