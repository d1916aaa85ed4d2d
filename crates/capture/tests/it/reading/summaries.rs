//! What Wireshark prints, in the forms that the published sample has, and as newer versions print it.

use capture::{Carrier, Time, Warning};

use crate::reading::build::*;

/// A line of column names, a summary, and a line for each layer: the one of SIP is missing in the shorter
/// form, and both have an empty line, though not at the same place.
const OLD: &str = "\
No.     Time        Source                Destination           Protocol Info
     35 0.188134    192.168.1.2           192.168.1.4           SIP      Status: 180 Ringing

Frame 35 (577 bytes on wire, 577 bytes captured)
Ethernet II, Src: Aa_31:69:0b (00:1c:25:31:69:0b), Dst: Bb_cf:7b:54 (78:dd:08:cf:7b:54)
Internet Protocol, Src: 192.168.1.2 (192.168.1.2), Dst: 192.168.1.4 (192.168.1.4)
User Datagram Protocol, Src Port: sip (5060), Dst Port: 56329 (56329)
No.     Time        Source                Destination           Protocol Info
    808 3.868161    caller.example.org    192.168.1.2           SIP/SDP  Request: INVITE sip:c@192.168.1.2, with session description
Frame 808 (1097 bytes on wire, 1097 bytes captured)
Ethernet II, Src: Bb_cf:7b:54 (78:dd:08:cf:7b:54), Dst: Aa_31:69:0b (00:1c:25:31:69:0b)
Internet Protocol, Src: caller.example.org (192.168.1.4), Dst: 192.168.1.2 (192.168.1.2)
User Datagram Protocol, Src Port: 60596 (60596), Dst Port: sip (5060)
Session Initiation Protocol

No.     Time        Source                Destination           Protocol Info
    809 3,9         192.168.1.4           192.168.1.2           ARP      Who has 192.168.1.2?

";

fn summary(start: &str, sdp: bool) -> KeptKind {
    KeptKind::Summary {
        carrier: Carrier::Udp,
        start: start.to_owned(),
        sdp,
    }
}

#[test]
fn both_forms_of_the_old_version() {
    for text in [
        OLD.to_owned(),
        OLD.replace('\n', "\r\n"),
        format!("\u{feff}{OLD}"),
    ] {
        let (kept, counts) = read_with(text.as_bytes(), &capture::Settings::default());
        let expected = [
            Kept {
                time: Time(188_134_000),
                packet: 35,
                source: "192.168.1.2:5060".to_owned(),
                destination: "192.168.1.4:56329".to_owned(),
                kind: summary("180 Ringing", false),
            },
            Kept {
                time: Time(3_868_161_000),
                packet: 808,
                source: "192.168.1.4:60596".to_owned(),
                destination: "192.168.1.2:5060".to_owned(),
                kind: summary("INVITE sip:c@192.168.1.2", true),
            },
        ];
        assert_eq!(kept, expected);
        assert_eq!(counts.packets, 3);
    }
}

#[test]
fn a_summary_that_cannot_be_read_is_told_by_its_place() {
    let broken = OLD.replace("    808 3.868161", "    8o8 3.868161");
    let kept = read(broken.as_bytes());
    assert_eq!(kept.len(), 2);
    let [Warning::FileSkipped { offset, octets, .. }] = warnings(&kept)[..] else {
        panic!("{kept:?}");
    };
    let line = &broken[offset as usize..(offset + octets) as usize];
    assert!(line.starts_with("    8o8") && line.ends_with("description\n"));
}

#[test]
fn a_line_without_end_takes_no_memory() {
    let text = format!("{OLD}{}\n{OLD}", "x".repeat(3_000_000));
    assert_eq!(read(text.as_bytes()).len(), 4);
}

/// Prints a capture with this machine's tshark and reads what it prints.
#[test]
fn what_tshark_prints() {
    let Some(tshark) = test_support::require_command("tshark", "tshark") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calls.pcap");
    let invite = "INVITE sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
        From: <sip:a@example.org>;tag=1\r\nTo: <sip:b@example.org>\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\
        Content-Type: application/sdp\r\nContent-Length: 5\r\n\r\nv=0\r\n";
    let busy = "SIP/2.0 486 Busy Here\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
        From: <sip:a@example.org>;tag=1\r\nTo: <sip:b@example.org>;tag=2\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\
        Content-Length: 0\r\n\r\n";
    let packets = [
        udp(ALICE, BOB, invite.as_bytes()),
        udp(BOB, ALICE, busy.as_bytes()),
    ];
    std::fs::write(&path, pcap(RAW, &packets)).unwrap();
    for (arguments, has_ports) in [
        (&[][..], false),
        (&["-P", "-V"], true),
        (&["-P", "-O", "sip"], true),
    ] {
        let output = std::process::Command::new(&tshark)
            .arg("-r")
            .arg(&path)
            .args(arguments)
            .output()
            .unwrap();
        let kept = read(&output.stdout);
        let kinds: Vec<_> = kept.iter().map(|kept| kept.kind.clone()).collect();
        let expected = [
            summary("INVITE sip:bob@example.org", true),
            summary("486 Busy Here", false),
        ];
        assert_eq!(kinds, expected, "{arguments:?}");
        assert_eq!(kept[1].time, Time(1_000_000));
        let source = if has_ports { BOB } else { "192.0.2.2:0" };
        assert_eq!(kept[1].source, source);
    }
}
