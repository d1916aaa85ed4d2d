//! `tandem flood` as a person runs it, short, on loopback and on a host of a testbed.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use test_support::{Peer, say_skipped};

use crate::program::net::{Networks, program};
use crate::program::sctp::listen;
use crate::program::support::{send_signal, tandem};

fn flood(arguments: &[&str]) -> Output {
    let mut command = tandem();
    command.arg("flood").args(arguments);
    command.output().expect("it runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_listener_on_loopback_is_flooded_and_everything_counted() {
    let listener = listen(&["--service", "discard"]);
    let target = format!("127.0.0.1:{}", listener.port);
    let port = listener.encapsulation_port.to_string();
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("flood.json");
    let json = json.to_str().expect("a name");
    for kind in ["init", "cookie", "replay"] {
        let place = [kind, &target, "--peer-encapsulation-port", &port];
        let size = ["--count", "300", "--rate", "1000", "--json", json];
        let output = flood(&[&place[..], &size].concat());
        let said = text(&output);
        assert!(output.status.success(), "{kind}: {said}");
        assert!(said.contains("client, got in"), "{said}");
        is_counted(json.as_ref());
    }
}

#[test]
fn an_interrupted_flood_shows_what_was_done() {
    let listener = listen(&["--service", "discard"]);
    let target = format!("127.0.0.1:{}", listener.port);
    let port = listener.encapsulation_port.to_string();
    let mut command = tandem();
    command
        .args(["flood", "init", &target, "--peer-encapsulation-port", &port])
        .args(["--count", "10000", "--rate", "200"]);
    let mut peer = Peer::spawn(&mut command);
    std::thread::sleep(Duration::from_secs(1));
    send_signal(peer.id(), "INT");
    assert_eq!(peer.wait(Duration::from_secs(20)).code(), Some(130));
    assert!(
        peer.output().contains("client, got in"),
        "{}",
        peer.output()
    );
}

/// Whether all that was sent is counted, and no cookie was accepted that is none; gives what was counted.
fn is_counted(json: &Path) -> Value {
    let document = std::fs::read_to_string(json).expect("written");
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let run = &document["runs"][0];
    let number = |value: &Value| value.as_u64().expect("a number");
    let counts = [
        "inits", "cookies", "replayed", "altered", "moved", "endings",
    ];
    let made: u64 = counts.iter().map(|name| number(&run["counts"][name])).sum();
    let taken = number(&run["sent"]) + number(&run["refused"]);
    assert_eq!(taken, made, "{run}");
    assert!((1..=300).contains(&made), "{run}");
    assert_eq!(run["counts"]["accepted"], 0, "{run}");
    run.clone()
}

#[test]
fn a_listener_on_another_host_of_a_testbed_is_flooded_in_udp_and_over_ip() {
    const LIMIT: Duration = Duration::from_secs(60);
    let Some(networks) = Networks::up(&["two-hosts"]) else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let mut carriers = vec!["udp"];
    if sctp_net::kernel_has_sctp() {
        say_skipped("the kernel's SCTP answers what comes right over IP");
    } else {
        carriers.push("ip");
    }
    for over in carriers {
        let listen = [
            program(),
            "sctp",
            "listen",
            "--over",
            over,
            "--address",
            "10.1.0.2",
            "--service",
            "discard",
        ];
        let mut listener = Peer::spawn(&mut networks.on("server", &listen));
        listener.wait_for_output("= endpoint ", LIMIT);
        for kind in ["init", "cookie", "replay"] {
            let json = directory.path().join(format!("{over}-{kind}.json"));
            let json_text = json.to_str().expect("a name");
            let flood = [
                program(),
                "flood",
                kind,
                "10.1.0.2:9000",
                "--over",
                over,
                "--count",
                "300",
                "--rate",
                "1000",
                "--json",
                json_text,
            ];
            // A machine may be late: one where a client never gets in is another matter.
            let run = (0..5).find_map(|_| {
                let output = networks.on("client", &flood).output().expect("it runs");
                let said = text(&output);
                assert!(output.status.success(), "{kind} over {over}: {said}");
                let run = is_counted(&json);
                let successes = run["client"]["successes"].as_u64();
                (successes.expect("a number") > 0).then_some(run)
            });
            let run = run.expect("a client gets in");
            // Raw sockets are there.
            assert_eq!(run["forged"], kind == "init", "{run}");
        }
    }
    // The host's own network is none of the testbed's: from without the same target is refused.
    let output = flood(&["init", "10.1.0.2:9000"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}

#[test]
fn strangers_are_not_flooded_and_nonsense_is_refused() {
    let refused = |arguments: &[&str], words: &str| {
        let output = flood(arguments);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    };
    for target in ["192.0.2.1:9000", "[2001:db8::1]:9000"] {
        refused(&["init", target], "neither on loopback nor");
    }
    refused(&["deluge", "127.0.0.1:9000"], "use init, cookie or replay");
    refused(
        &["init", "127.0.0.1:9000", "--rate", "1", "--count", "500"],
        "120 s at most",
    );
}
