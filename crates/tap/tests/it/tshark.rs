//! tshark reads what a capture of ours says: every kind of packet, and nothing malformed.

use bytes::BytesMut;
use sctp::packet::{Data, PacketWriter, Tsn};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tap::{CaptureWriter, Direction, Record, Tap, TapStatistics, UdpPorts};
use test_support::require_command;

#[test]
fn every_kind_of_packet_is_read_as_it_was_recorded() {
    let Some(tshark) = require_command("tshark", "tshark") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("kinds.pcapng");
    let live_file = directory.path().join("live.pcapng");
    let tap = Tap::create(&live_file, "test").expect("a capture");
    let mut writer = CaptureWriter::new(Vec::new(), "test").expect("memory takes it");
    for (number, (source, destination, udp, direction)) in KINDS.into_iter().enumerate() {
        // Odd lengths too: blocks and checksums have to be padded.
        let packet = data_packet(1 + number);
        let record = Record {
            time: UNIX_EPOCH + Duration::new(1_700_000_000, 1 + number as u32),
            direction,
            source: address(source),
            destination: address(destination),
            udp,
            packet: &packet,
        };
        tap.record(&record);
        writer
            .record_with_comment(&record, comment(number))
            .expect("memory takes it");
    }
    std::fs::write(&file, writer.finish().expect("memory takes it")).expect("it can be written");
    tap.flush().expect("it can be written");

    let fields = [
        "frame.time_epoch",
        "frame.interface_name",
        "frame.packet_flags_direction",
        "ip.src",
        "ip.dst",
        "ip.checksum.status",
        "ipv6.src",
        "ipv6.dst",
        "udp.srcport",
        "udp.dstport",
        "udp.checksum.status",
        "sctp.checksum.status",
        "sctp.data_tsn_raw",
        "frame.comment",
    ];
    const GOOD: &str = "1";
    let expected = KINDS.iter().enumerate().map(|(number, kind)| {
        let (source, destination, udp, direction) = *kind;
        let time = format!("1700000000.00000000{}", 1 + number);
        let direction = match direction {
            Direction::Inbound => "0x00000001",
            Direction::Outbound => "0x00000002",
        };
        // A socket for both families tells of IPv4 addresses in their IPv6 form.
        let source = source.trim_start_matches("::ffff:");
        let (ipv4, ipv6) = match address(source) {
            IpAddr::V4(_) => ([source, destination, GOOD], ["", ""]),
            IpAddr::V6(_) => (["", "", ""], [source, destination]),
        };
        let ports = udp.map_or([const { String::new() }; 2], |ports| {
            [ports.source, ports.destination].map(|port| port.to_string())
        });
        let udp_checksum = udp.map_or("", |_| GOOD);
        let tsn = (1000 + number).to_string();
        let first = [&time, "test", direction];
        let last = [&ports[0], &ports[1], udp_checksum, GOOD, &tsn];
        [&first[..], &ipv4, &ipv6, &last].concat().join("\t")
    });
    let expected = expected.collect::<Vec<_>>();
    for (file, has_comments) in [(&file, true), (&live_file, false)] {
        let shown = decode(&tshark, file, "sctp", &fields);
        let expected = expected.iter().enumerate().map(|(number, line)| {
            let comment = if has_comments { comment(number) } else { "" };
            format!("{line}\t{comment}")
        });
        assert_eq!(shown, expected.collect::<Vec<_>>());
    }
    let wrong = "_ws.malformed || _ws.expert.severity >= warning";
    let shown = decode(
        &tshark,
        &file,
        wrong,
        &["frame.number", "_ws.expert.message"],
    );
    assert_eq!(shown, [""; 0]);
}

#[test]
fn packets_that_are_too_long_for_ip_are_left_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("long.pcapng");
    let tap = Tap::create(&file, "test").expect("a capture");
    let mut writer = CaptureWriter::new(Vec::new(), "test").expect("memory takes it");
    let packet = [0; 65_536];
    let mut sizes = Vec::new();
    for (addresses, udp, longest) in [
        (("192.0.2.1", "192.0.2.2"), None, 65_535 - 20),
        (("192.0.2.1", "192.0.2.2"), ENCAPSULATED, 65_535 - 28),
        (("2001:db8::1", "2001:db8::2"), None, 65_535),
        (("2001:db8::1", "2001:db8::2"), ENCAPSULATED, 65_535 - 8),
    ] {
        for length in [longest, longest + 1] {
            let record = Record {
                time: SystemTime::now(),
                direction: Direction::Outbound,
                source: address(addresses.0),
                destination: address(addresses.1),
                udp,
                packet: &packet[..length],
            };
            tap.record(&record);
            let result = writer.record(&record).map_err(|error| error.kind());
            let expected = match length == longest {
                true => Ok(()),
                false => Err(io::ErrorKind::InvalidInput),
            };
            assert_eq!(result, expected, "{length} bytes");
        }
        sizes.push(longest);
    }
    let statistics = TapStatistics {
        recorded: 4,
        dropped: 4,
        beyond_limit: 0,
    };
    assert_eq!(tap.statistics(), statistics);
    drop(tap);
    let Some(tshark) = require_command("tshark", "tshark") else {
        return;
    };
    assert_eq!(decode(&tshark, &file, "", &["frame.number"]).len(), 4);
}

/// The writer of the file waits a second for more, or for somebody who does not want to wait.
#[test]
fn what_was_recorded_is_in_the_file_after_a_flush_and_a_drop() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("flush.pcapng");
    let tap = Tap::create(&file, "test").expect("a capture");
    let packet = data_packet(100);
    let record = Record {
        time: SystemTime::now(),
        direction: Direction::Inbound,
        source: address("192.0.2.1"),
        destination: address("192.0.2.2"),
        udp: None,
        packet: &packet,
    };
    let size = || std::fs::metadata(&file).expect("it is there").len();
    let empty = size();
    tap.record(&record);
    tap.flush().expect("it can be written");
    let block = size() - empty;
    assert!(block > 100);
    for number in 2..100 {
        tap.clone().record(&record);
        tap.flush().expect("it can be written");
        assert_eq!(size(), empty + number * block);
    }
    (0..10_000).for_each(|_| tap.record(&record));
    drop(tap);
    assert_eq!(size(), empty + 10_099 * block);
}

/// Everybody can open it, and a disk without room is what it is.
#[test]
fn a_file_that_cannot_be_written_stops_the_capture_alone() {
    let tap = Tap::create("/dev/full", "test");
    let error = tap.expect_err("there is no room for the first block");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);

    // A pipe takes the first blocks; then nobody reads.
    let directory = tempfile::tempdir().expect("a directory");
    let pipe = directory.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is there").success());
    let (begun, has_begun) = std::sync::mpsc::channel::<()>();
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || {
            let open = std::fs::File::open(pipe).expect("it opens");
            has_begun.recv().expect("the capture has begun");
            drop(open);
        })
    };
    let tap = Tap::create(&pipe, "test").expect("a capture");
    begun.send(()).expect("the reader waits for it");
    reader.join().expect("the reader ends");
    let packet = data_packet(100);
    let record = Record {
        time: SystemTime::now(),
        direction: Direction::Inbound,
        source: address("192.0.2.1"),
        destination: address("192.0.2.2"),
        udp: None,
        packet: &packet,
    };
    tap.record(&record);
    for _ in 0..2 {
        let error = tap.flush().expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        tap.record(&record);
    }
    assert_eq!(tap.statistics().dropped, 2);
}

type Kind = (&'static str, &'static str, Option<UdpPorts>, Direction);

const ENCAPSULATED: Option<UdpPorts> = Some(UdpPorts {
    source: 9899,
    destination: 40_000,
});

const KINDS: [Kind; 6] = [
    ("192.0.2.1", "192.0.2.2", None, Direction::Outbound),
    ("192.0.2.1", "192.0.2.2", ENCAPSULATED, Direction::Inbound),
    ("2001:db8::1", "2001:db8::2", None, Direction::Inbound),
    (
        "2001:db8::1",
        "2001:db8::2",
        ENCAPSULATED,
        Direction::Outbound,
    ),
    ("::ffff:192.0.2.1", "192.0.2.2", None, Direction::Outbound),
    ("0.0.0.0", "192.0.2.2", ENCAPSULATED, Direction::Outbound),
];

fn comment(number: usize) -> &'static str {
    ["", "lost", "arrives after 5ms"][number % 3]
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A packet with one message of so many bytes; its TSN tells how many.
fn data_packet(bytes: usize) -> Vec<u8> {
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, 1000, 2000, 0x1234_5678, 1000);
    let user_data = vec![b'x'; bytes];
    let data = Data {
        beginning: true,
        ending: true,
        tsn: Tsn(999 + bytes as u32),
        user_data: &user_data,
        ..Data::default()
    };
    writer.data(&data).expect("it fits");
    writer.finish().to_vec()
}

/// A line for each packet that the filter lets through: the fields, with tabs between.
fn decode(tshark: &Path, file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new(tshark);
    command
        .arg("-r")
        .arg(file)
        .args(["-Y", filter, "-T", "fields"]);
    for preference in [
        "ip.check_checksum:TRUE",
        "udp.check_checksum:TRUE",
        "sctp.checksum:CRC 32c",
    ] {
        command.args(["-o", preference]);
    }
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(str::to_owned).collect()
}
