//! tshark shows SIP messages in the clear as SIP, without being told anything.

use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use tap::{Direction, MessageProtocol, MessageRecord, MessageTap, PortKind, TapStatistics};
use test_support::require_command;

fn message(number: usize) -> String {
    let body = "x".repeat(number);
    format!(
        "OPTIONS sip:user{number}@example.org SIP/2.0\r\n\
         Via: SIP/2.0/TLS 192.0.2.1:5061;branch=z9hG4bK{number}\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:a@example.org>;tag=1\r\n\
         To: <sip:user{number}@example.org>\r\n\
         Call-ID: call-{number}\r\n\
         CSeq: 1 OPTIONS\r\n\
         Content-Type: text/plain\r\n\
         Content-Length: {number}\r\n\
         \r\n\
         {body}"
    )
}

/// Transport, kind of ports, direction, addresses.
const KINDS: [(&str, PortKind, Direction, &str, &str); 5] = [
    (
        "UDP",
        PortKind::Udp,
        Direction::Inbound,
        "192.0.2.1:5060",
        "192.0.2.2:5062",
    ),
    (
        "TLS",
        PortKind::Tcp,
        Direction::Outbound,
        "192.0.2.2:5061",
        "192.0.2.1:40001",
    ),
    (
        "SCTP",
        PortKind::Sctp,
        Direction::Inbound,
        "192.0.2.1:5060",
        "192.0.2.2:5060",
    ),
    (
        "WSS",
        PortKind::Tcp,
        Direction::Inbound,
        "[2001:db8::1]:65535",
        "[2001:db8::2]:443",
    ),
    (
        "TCP",
        PortKind::Tcp,
        Direction::Outbound,
        "[::ffff:192.0.2.2]:5060",
        "[::ffff:192.0.2.1]:5060",
    ),
];

#[test]
fn messages_are_shown_as_sip_between_their_addresses() {
    let Some(tshark) = require_command("tshark", "tshark") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("sip.pcapng");
    let tap = MessageTap::create(&file, "test").expect("a capture");
    for (number, (transport, ports, direction, source, destination)) in
        KINDS.into_iter().enumerate()
    {
        tap.record(&MessageRecord {
            protocol: MessageProtocol::Sip,
            time: UNIX_EPOCH + Duration::new(1_700_000_000, 1 + number as u32),
            direction,
            ports,
            transport,
            source: source.parse().expect("an address"),
            destination: destination.parse().expect("an address"),
            // Odd lengths too: blocks have to be padded.
            message: message(number).as_bytes(),
        });
    }
    tap.flush().expect("it can be written");
    let statistics = TapStatistics {
        recorded: KINDS.len() as u64,
        dropped: 0,
        beyond_limit: 0,
    };
    assert_eq!(tap.statistics(), statistics);

    let fields = [
        "frame.time_epoch",
        "frame.interface_name",
        "frame.packet_flags_direction",
        "frame.comment",
        "_ws.col.Source",
        "_ws.col.Destination",
        "exported_pdu.src_port",
        "exported_pdu.dst_port",
        "exported_pdu.port_type",
        "_ws.col.Protocol",
        "sip.r-uri",
        "sip.Call-ID",
        "sip.Content-Length",
    ];
    let output = Command::new(&tshark)
        .arg("-r")
        .arg(&file)
        .args(["-T", "fields"])
        .args(fields.into_iter().flat_map(|field| ["-e", field]))
        .output()
        .expect("tshark runs");
    let shown = String::from_utf8(output.stdout).expect("text");
    let expected: String = KINDS.iter().enumerate().map(|(number, kind)| {
        let (transport, ports, direction, source, destination) = *kind;
        let direction = match direction {
            Direction::Inbound => "0x00000001",
            Direction::Outbound => "0x00000002",
        };
        let kind = match ports {
            PortKind::Sctp => 1,
            PortKind::Tcp => 2,
            PortKind::Udp => 3,
        };
        let [source, destination] = [source, destination].map(|address| {
            let address: std::net::SocketAddr = address.parse().expect("an address");
            (address.ip().to_canonical(), address.port())
        });
        format!(
            "1700000000.00000000{}\ttest\t{direction}\t{transport}\t{}\t{}\t{}\t{}\t{kind}\tSIP\tsip:user{number}@example.org\tcall-{number}\t{}\n",
            1 + number,
            source.0,
            destination.0,
            source.1,
            destination.1,
            number,
        )
    }).collect();
    assert_eq!(
        shown,
        expected,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    // Nothing is malformed, and Wireshark's own statistics know the requests.
    let output = Command::new(&tshark)
        .arg("-r")
        .arg(&file)
        .args(["-q", "-z", "sip,stat", "-z", "expert,warn"])
        .output()
        .expect("tshark runs");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("Number of SIP messages: 5"), "{shown}");
    assert!(!shown.contains("Malformed"), "{shown}");
}

#[test]
fn m3ua_is_shown_as_m3ua() {
    let Some(tshark) = require_command("tshark", "tshark") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("m3ua.pcapng");
    let tap = MessageTap::create(&file, "test").expect("a capture");
    tap.record(&MessageRecord {
        protocol: MessageProtocol::M3ua,
        time: UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        direction: Direction::Inbound,
        ports: PortKind::Sctp,
        transport: "SCTP",
        source: "192.0.2.1:2905".parse().expect("an address"),
        destination: "192.0.2.2:2905".parse().expect("an address"),
        // ASP Up (RFC 4666 section 3.5.1).
        message: &[1, 0, 3, 1, 0, 0, 0, 8],
    });
    tap.flush().expect("it can be written");
    let fields = [
        "_ws.col.Protocol",
        "m3ua.message_class",
        "m3ua.message_type",
    ];
    let output = Command::new(&tshark)
        .arg("-r")
        .arg(&file)
        .args(["-T", "fields"])
        .args(fields.into_iter().flat_map(|field| ["-e", field]))
        .output()
        .expect("tshark runs");
    let shown = String::from_utf8_lossy(&output.stdout);
    let is_as_expected = shown.starts_with("M3UA") && shown.ends_with("\t3\t1\n");
    assert!(is_as_expected, "{shown}");
}

/// Messages have credentials in them.
#[test]
fn the_owner_alone_may_read_a_capture() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("sip.pcapng");
    let tap = MessageTap::create(&file, "test").expect("a capture");
    let metadata = std::fs::metadata(&file).expect("there");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    drop(tap);
}
