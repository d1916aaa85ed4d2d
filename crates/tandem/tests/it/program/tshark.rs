//! tshark on a capture of the demo's SCTP traffic.

use std::path::Path;
use std::process::Command;

use crate::program::support::program_path;
use test_support::{Namespace, Recorder, require_command};

#[test]
fn no_packet_is_malformed() {
    let Some(tshark) = require_command("tshark", "tshark") else {
        return;
    };
    let Some(namespace) = Namespace::new() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let capture = directory.path().join("demo.pcap");
    let own_capture = directory.path().join("demo.pcapng");
    let Some(recorder) = Recorder::start(&capture, "", Some(&namespace)) else {
        return;
    };
    let output = namespace
        .command(program_path())
        .args(["demo", "--transport", "sctp", "--loss", "0,5"])
        .args(["--calls", "100", "--html"])
        .arg(directory.path().join("demo.html"))
        .arg("--pcap")
        .arg(&own_capture)
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    recorder.finish();

    // What the interface saw, and what the program says that it sent and received.
    for capture in [&capture, &own_capture] {
        check(&tshark, capture);
    }
}

fn check(tshark: &Path, capture: &Path) {
    let count = |filter: &str| decode(tshark, capture, filter, &[]).lines().count();
    let packets = count("frame");
    assert_eq!(count("sctp"), packets, "every packet is SCTP");
    assert!(packets > 200, "{packets} packets of 200 calls");
    assert!(count("sctp.chunk_type == 1") >= 4, "two associations a run");
    // Several may share a packet.
    let methods = decode(
        tshark,
        capture,
        "sip.Method",
        &["-T", "fields", "-e", "sip.Method"],
    );
    let invites = methods.matches("INVITE").count();
    assert!(invites >= 200, "{invites} INVITEs of 200 calls");
    let malformed = "_ws.malformed || sctp.checksum.status != \"Good\" || sctp.chunk_length.bad \
                     || _ws.expert.severity == error";
    let shown = decode(tshark, capture, malformed, &[]);
    assert!(shown.is_empty(), "{shown}");
    println!("tshark: {packets} packets, none malformed");
}

/// A line for each packet that the filter lets through, as these options have it; none for those by which the
/// recorder knows that it has all.
fn decode(tshark: &Path, capture: &Path, filter: &str, options: &[&str]) -> String {
    let filter = format!("({filter}) && !(udp.dstport == 9)");
    let output = Command::new(tshark)
        .arg("-r")
        .arg(capture)
        // The encapsulation ports are the system's choice.
        .args(["-d", "udp.port==1024-65535,sctp"])
        .args(["-o", "sctp.checksum:CRC 32c", "-Y", &filter])
        .args(options)
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
