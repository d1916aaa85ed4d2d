//! tshark on a capture of the demo's SCTP traffic.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::tandem;
use test_support::{Peer, require_command};

#[test]
fn no_packet_is_malformed() {
    let Some(tshark) = require_command("tshark", "tshark") else {
        return;
    };
    let Some(tcpdump) = require_command("tcpdump", "tcpdump") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let capture = directory.path().join("demo.pcap");
    let mut recorder = Peer::spawn(
        Command::new(tcpdump)
            .args([
                "-i",
                "lo",
                "-U",
                "-Z",
                "root",
                "--immediate-mode",
                "-B",
                "65536",
                "-w",
            ])
            .arg(&capture)
            // The encapsulation ports are the system's choice: ephemeral on both sides.
            .arg("udp and src portrange 32768-60999 and dst portrange 32768-60999"),
    );
    if !test_support::wait_until(Duration::from_secs(5), || {
        recorder.output().contains("listening on")
    }) {
        eprintln!(
            "skipped: cannot capture on lo: {}",
            recorder.output().trim()
        );
        return;
    }
    let output = tandem()
        .args([
            "demo",
            "--transport",
            "sctp",
            "--loss",
            "0,10",
            "--calls",
            "200",
            "--html",
        ])
        .arg(directory.path().join("demo.html"))
        .output()
        .expect("it runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Command::new("kill")
        .args(["-s", "INT", &recorder.id().to_string()])
        .status()
        .expect("kill is there");
    recorder.wait(Duration::from_secs(10));

    let count = |filter: &str| count(&tshark, &capture, filter);
    // Other programs may use ports of that range at the same time: ours is what carries SIP or SCTP control.
    let sctp = count("sctp && !udp.srcport == 0");
    assert!(sctp > 1000, "{sctp} SCTP packets of 400 calls");
    assert!(
        count("sctp.chunk_type == 1") >= 4,
        "two associations in each of two runs"
    );
    assert!(count("sip.Method == \"INVITE\"") >= 400);
    let malformed = "_ws.malformed || sctp.checksum.status == \"Bad\" || sctp.chunk_length_bad";
    assert_eq!(
        count(malformed),
        0,
        "{}",
        decode(&tshark, &capture, malformed, "text")
    );
}

fn count(tshark: &Path, capture: &Path, filter: &str) -> usize {
    decode(tshark, capture, filter, "fields").lines().count()
}

fn decode(tshark: &Path, capture: &Path, filter: &str, format: &str) -> String {
    let output = Command::new(tshark)
        .args(["-r".as_ref(), capture.as_os_str()])
        .args([
            "-d",
            "udp.port==32768-60999,sctp",
            "-o",
            "sctp.checksum:TRUE",
            "-Y",
            filter,
            "-T",
            format,
        ])
        .args(if format == "fields" {
            &["-e", "frame.number"][..]
        } else {
            &[]
        })
        .output()
        .expect("it runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
