//! IP packets inside of others.

use std::process::Command;

use capture::Settings;
use test_support::require_command;

use crate::reading::build::*;

const SIX_ALICE: &str = "[2001:db8::1]:5060";
const SIX_BOB: &str = "[2001:db8::2]:5070";
const GRE: u8 = 47;

fn ethernet(ip: &[u8]) -> Vec<u8> {
    let ether_type = match ip[0] >> 4 {
        4 => [8, 0],
        _ => [0x86, 0xdd],
    };
    [&[2; 12][..], &ether_type, ip].concat()
}

/// A header of VXLAN (RFC 7348 section 5), GTP-U or GRE, and what is in it.
fn after(header: &[u8], inside: &[u8]) -> Vec<u8> {
    [header, inside].concat()
}

fn g_pdu(flags: u8, rest: &[u8]) -> Vec<u8> {
    let [high, low] = (rest.len() as u16).to_be_bytes();
    after(&[0x30 | flags, 255, high, low, 0, 0, 0, 9], rest)
}

/// A packet of each kind of tunnel, with the same request in each.
fn tunnels() -> Vec<Vec<u8>> {
    let sip = request("inside", 10);
    let four = udp(ALICE, BOB, &sip);
    let six = udp(SIX_ALICE, SIX_BOB, &sip);
    let (outer, to) = ("198.51.100.1:4000", "198.51.100.2");
    let (outer_six, to_six) = ("[2001:db8:1::1]:4000", "[2001:db8:1::2]:1");
    let gtp = format!("{to}:2152");
    let to = |port: u16| format!("{to}:{port}");
    let vxlan = after(&[8, 0, 0, 0, 0, 0, 7, 0], &ethernet(&four));
    vec![
        packet(outer, &to(1), 4, &four),
        packet(outer, &to(1), 41, &six),
        packet(outer_six, to_six, 4, &four),
        packet(outer_six, to_six, 41, &six),
        packet(outer, &to(1), GRE, &after(&[0, 0, 8, 0], &four)),
        // With checksum, key and sequence number.
        packet(
            outer,
            &to(1),
            GRE,
            &after(
                &[0xb0, 0, 0x86, 0xdd, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 6],
                &six,
            ),
        ),
        packet(
            outer,
            &to(1),
            GRE,
            &after(&[0, 0, 0x65, 0x58], &ethernet(&six)),
        ),
        udp(outer, &to(4789), &vxlan),
        udp(outer, &gtp, &g_pdu(0, &four)),
        // With a sequence number, and with an extension header (a PDU session container).
        udp(outer, &gtp, &g_pdu(2, &after(&[0, 1, 0, 0], &six))),
        udp(
            outer,
            &gtp,
            &g_pdu(4, &after(&[0, 0, 0, 0x85, 1, 0, 9, 0], &four)),
        ),
        // One in another.
        packet(
            outer,
            &to(1),
            4,
            &udp(outer, &gtp, &g_pdu(0, &packet(outer, &to(1), 41, &six))),
        ),
    ]
}

#[test]
fn messages_in_tunnels_are_read() {
    let packets = tunnels();
    let (kept, counts) = read_with(&pcap(RAW, &packets), &Settings::default());
    assert_eq!(messages(&kept).len(), packets.len(), "{kept:?}");
    for kept in &kept {
        let ends = (kept.source.as_str(), kept.destination.as_str());
        assert!(
            ends == (ALICE, BOB) || ends == (SIX_ALICE, SIX_BOB),
            "{ends:?}"
        );
    }
    assert_eq!(counts.passed_over, capture::PassedOver::default());
    // However little there is of a packet, it is read.
    for packet in packets {
        for length in 0..packet.len() {
            read(&pcap(RAW, &[packet[..length].to_vec()]));
        }
    }
}

#[test]
fn sip_on_the_ports_of_tunnels_is_read() {
    for port in [2152, 4789] {
        let invite = [
            b"INVITE".as_slice(),
            &request("port", 0)[b"MESSAGE".len()..],
        ]
        .concat();
        let packet = udp(SIX_ALICE, &format!("[2001:db8::2]:{port}"), &invite);
        assert_eq!(messages(&read(&pcap(RAW, &[packet]))).len(), 1);
    }
}

#[test]
fn tshark_reads_the_same_tunnels() {
    let Some(tshark) = require_command("tshark", "tshark") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tunnels.pcap");
    std::fs::write(&path, pcap(RAW, &tunnels())).unwrap();
    let output = Command::new(tshark)
        .arg("-r")
        .arg(&path)
        .args(["-Y", "sip", "-T", "fields", "-e", "frame.number"])
        .output()
        .unwrap();
    let frames = String::from_utf8(output.stdout).unwrap();
    assert_eq!(frames.lines().count(), tunnels().len(), "{frames}");
}

#[test]
fn what_is_passed_over_is_counted() {
    let (outer, to) = ("198.51.100.1:4000", "198.51.100.2:1");
    let mut nested = udp(ALICE, BOB, &request("deep", 0));
    for _ in 0..9 {
        nested = packet(outer, to, 4, &nested);
    }
    let packets = [
        nested,
        // ARP and version 1 in GRE; ESP; a UDP header that ends too early; no IP at all.
        packet(outer, to, GRE, &[0, 0, 8, 6, 1, 1, 1, 1]),
        packet(outer, to, GRE, &[0, 1, 8, 0, 0x45, 0, 0, 0]),
        packet(outer, to, 50, &[1; 20]),
        packet(outer, to, 17, &[1; 3]),
        vec![0x12; 30],
    ];
    let (kept, counts) = read_with(&pcap(RAW, &packets), &Settings::default());
    assert_eq!(kept, []);
    let passed_over = counts.passed_over;
    assert_eq!((passed_over.tunnels, passed_over.malformed), (3, 1));
    assert_eq!((passed_over.not_ip, passed_over.other_protocols), (1, 1));
    assert_eq!(passed_over.last_protocol, Some(50));
}
