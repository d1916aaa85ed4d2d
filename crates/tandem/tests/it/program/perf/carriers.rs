//! SCTP in UDP, right on IP, and in captures.

use std::io::Write;
use std::process::Command;

use test_support::{Namespace, Peer, require_command, wait_until};

use super::{LONG, Server, assert_consistent, read, run, text};
use crate::program::support::{program_path, tandem};

/// A carrier that is not to be had says why, on either side.
#[test]
fn a_carrier_that_is_not_there_says_so() {
    let client = ["perf", "client", "sctp:127.0.0.1", "--over", "kernel"];
    let client = tandem().args(client).output().expect("it runs");
    let listener = [
        "perf",
        "server",
        "--listen",
        "sctp:127.0.0.1:0",
        "--over",
        "kernel",
    ];
    let server = tandem().args(listener).output().expect("it runs");
    for output in [client, server] {
        let text = text(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("--over kernel"), "{text}");
    }
}

/// Right on IP server and client live side by side on one host.
#[test]
fn sctp_goes_right_on_ip() {
    let Some(namespace) = Namespace::new() else {
        return;
    };
    let mut server = namespace.command(program_path());
    server.args([
        "perf",
        "server",
        "--over",
        "ip",
        "--listen",
        "sctp:127.0.0.1:5211",
    ]);
    let server = Peer::spawn(&mut server);
    let said = |words: &str| server.output().contains(words);
    assert!(
        wait_until(LONG, || said("(over IP)") || said("tandem: ")),
        "it says nothing"
    );
    if said("tandem: ") {
        // A kernel with an SCTP of its own, or no capability even for root.
        writeln!(std::io::stderr(), "skipped: {}", server.output()).ok();
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("result.json");
    let output = namespace
        .command(program_path())
        .args([
            "perf",
            "client",
            "sctp:127.0.0.1",
            "--over",
            "ip",
            "--count",
            "500",
        ])
        .arg("--json")
        .arg(&json)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    let document = read(&json);
    let run = run(&document);
    assert_eq!(run["over"], "ip");
    assert_eq!(run["received"]["messages"], 500, "{run}");
    assert_consistent(run);
}

/// Without the capability both sides say what is missing and how to get it.
#[test]
fn raw_ip_without_the_capability_says_how_to_get_it() {
    let Some(setpriv) = require_command("setpriv", "util-linux") else {
        return;
    };
    for arguments in [
        ["perf", "client", "sctp:127.0.0.1", "--over", "ip"],
        ["perf", "server", "--listen=sctp:127.0.0.1", "--over", "ip"],
    ] {
        let mut command = Command::new(&setpriv);
        // Only root has it to lose.
        let is_root = Command::new("id")
            .arg("-u")
            .output()
            .is_ok_and(|output| output.stdout.trim_ascii() == b"0");
        if is_root {
            command.arg("--bounding-set=-net_raw");
        } else {
            command.arg("--no-new-privs");
        }
        let output = command
            .arg(program_path())
            .args(arguments)
            .output()
            .expect("it runs");
        let text = text(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("CAP_NET_RAW"), "{text}");
        assert!(text.contains("setcap") || text.contains("root"), "{text}");
    }
}

#[test]
fn a_capture_has_the_packets() {
    let server = Server::start(&[]);
    let directory = tempfile::tempdir().expect("a directory");
    let pcap = directory.path().join("perf.pcapng");
    let path = pcap.to_str().expect("a path");
    server.measure("sctp", &["--count", "100", "--pcap", path]);
    let capture = std::fs::read(&pcap).expect("written");
    // The section header of pcapng, and at least the messages.
    assert_eq!(capture.get(..4), Some(&[0x0a, 0x0d, 0x0d, 0x0a][..]));
    assert!(capture.len() > 100 * 1024, "{} bytes", capture.len());
}
