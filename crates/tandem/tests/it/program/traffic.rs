//! `tandem traffic` as a person runs it, short, on loopback.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use test_support::Peer;

use crate::program::support::{send_signal, tandem};

const LONG: Duration = Duration::from_secs(60);

fn traffic(arguments: &[&str]) -> Command {
    let mut command = tandem();
    command.arg("traffic").args(arguments);
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn run(arguments: &[&str]) -> String {
    let output = traffic(arguments).output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    text(&output)
}

/// Runs a sender to its end; what it printed, and its document.
fn send(arguments: &[&str]) -> (String, Value) {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("result.json");
    let path = json.to_str().expect("a name");
    let text = run(&[&["send"], arguments, &["--json", path]].concat());
    (text, read(&json))
}

fn read(json: &Path) -> Value {
    let text = std::fs::read_to_string(json).expect("written");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn every_transport_has_a_receiver_of_its_own() {
    for transport in ["udp", "tcp", "sctp"] {
        let (text, document) = send(&[
            transport,
            "--count",
            "200",
            "--rate",
            "2k",
            "--link-speed",
            "100M",
        ]);
        assert_eq!(document["schema"], 1);
        for member in ["version", "machine", "seed", "parameters"] {
            assert!(!document[member].is_null(), "{member}");
        }
        assert_eq!(document["parameters"]["own_receiver"], true);
        let condition = &document["runs"][0];
        let run = &condition["trials"][0];
        assert_eq!(run["transport"], transport);
        assert_eq!(
            (&run["sent"], &run["lost"]),
            (&200.into(), &0.into()),
            "{run}"
        );
        assert_eq!(run["receiver"]["received"], 200, "{run}");
        assert_eq!(run["round_trip"]["count"], 200, "{run}");
        assert_eq!(run["receiver"]["one_way"]["count"], 200, "{run}");
        assert!(
            run["link"]["frame"]["wire_bytes"].as_u64() > Some(200),
            "{run}"
        );
        for named in [
            "Sent",
            "Received",
            "Lost",
            "One-way delay",
            "Round trip",
            "Jitter",
            "Link",
        ] {
            assert!(text.contains(named), "{named} in {text}");
        }
    }
}

#[test]
fn encryptions_stand_side_by_side() {
    let directory = tempfile::tempdir().expect("a directory");
    let html = directory.path().join("page.html");
    let path = html.to_str().expect("a name");
    let all = "none,aes-256-gcm,chacha20-poly1305,des-cfb";
    let (text, document) = send(&[
        "udp",
        "--count",
        "100",
        "--rate",
        "5k",
        "--size",
        "100,1000",
        "--encryption",
        all,
        "--repeat",
        "2",
        "--html",
        path,
        "--experiment",
        "77",
    ]);
    let conditions = document["runs"].as_array().expect("conditions");
    assert_eq!(conditions.len(), 8);
    assert_eq!(document["parameters"]["experiment"], 77);
    for condition in conditions {
        assert_eq!(condition["trials"].as_array().map(Vec::len), Some(2));
        assert_eq!(condition["loss_percent"]["count"], 2);
        assert!(
            condition["round_trip_ms"]["half_width_95"].is_f64(),
            "{condition}"
        );
        let is_secure = ["aes-256-gcm", "chacha20-poly1305"]
            .iter()
            .any(|name| condition["encryption"] == *name);
        assert_eq!(condition["secure"], is_secure, "{condition}");
        let is_clear = condition["encryption"] == "none";
        assert_eq!(condition["encrypt_nanoseconds"]["mean"].is_null(), is_clear);
        for trial in condition["trials"].as_array().expect("trials") {
            assert_eq!(trial["lost"], 0, "{trial}");
            assert_eq!(trial["receiver"]["forged"], 0, "{trial}");
        }
    }
    assert!(text.contains("Cost of encryption"), "{text}");
    assert!(text.contains("des-cfb (insecure)"), "{text}");
    assert!(text.contains("des-cfb is insecure"), "{text}");
    let page = std::fs::read_to_string(&html).expect("written");
    for part in [
        "Cost of encryption",
        "Losses and delays of the packets",
        "<svg",
        "Repeat with",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn two_programs_measure_a_file_in_bursts_over_ipv6() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        println!("skipped: this host has no IPv6");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let record = directory.path().join("ecg.dat");
    std::fs::write(&record, [1, 2, 3, 4, 5]).expect("written");
    let record = record.to_str().expect("a name");
    let mut receiver = Peer::spawn(&mut traffic(&[
        "receive",
        "--listen",
        "udp:[::1]:0",
        "--one-off",
    ]));
    receiver.wait_for_output("listening on udp:[::1]:", LONG);
    let output = receiver.output();
    let (_, rest) = output.split_once("udp:[::1]:").expect("it says so");
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let target = format!("udp:[::1]:{port}");
    let (_, document) = send(&[
        &target,
        "--payload",
        record,
        "--pattern",
        "on-off:20ms,10ms",
        "--rate",
        "1k",
        "--count",
        "100",
        "--encryption",
        "aes-256-gcm",
        "--echo",
        "10",
    ]);
    let run = &document["runs"][0]["trials"][0];
    assert_eq!(
        (&run["sent"], &run["lost"]),
        (&100.into(), &0.into()),
        "{run}"
    );
    assert_eq!(run["round_trip"]["count"], 10, "{run}");
    assert_eq!(
        run["receiver"]["same_clock"], true,
        "one host, two programs"
    );
    // A hundred packets are five bursts of 20 ms, with four pauses between them.
    assert!(run["seconds"].as_f64() >= Some(0.139), "{run}");
    receiver.wait_for_output("100 packets of 100 sent, 0 lost", LONG);
    assert!(receiver.wait(LONG).success(), "it ends after its one run");
}

#[test]
fn strangers_are_not_flooded_and_nonsense_is_refused() {
    let fails = |arguments: &[&str], code: i32, words: &str| {
        let output = traffic(arguments).output().expect("it runs");
        let text = text(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(words), "{arguments:?}: {text}");
    };
    fails(&["send", "udp:192.0.2.1"], 2, "--i-may-test 192.0.2.1");
    // Nor are they told of what would have come.
    let output = traffic(&["send", "udp:192.0.2.1"])
        .output()
        .expect("it runs");
    let said = text(&output);
    assert!(!said.contains("experiment"), "{said}");
    fails(&["send", "udp:127.0.0.1:1"], 1, "Connection refused");
    fails(&["send", "quic"], 2, "names no transport");
    fails(&["send", "udp", "--size", "20"], 2, "takes from 40");
    fails(&["send", "udp", "--size", "65500"], 2, "to 65491");
    fails(&["send", "udp", "--encryption", "rot13"], 2, "des-cfb");
    fails(
        &["send", "udp", "--rate", "unlimited", "--pattern", "poisson"],
        2,
        "needs a rate",
    );
    fails(&["send", "udp", "--payload", "/no/such"], 1, "/no/such");
    fails(&["send", "tcp", "--over", "ip"], 2, "sctp targets");
    fails(
        &["receive", "--over", "ip", "--encapsulation-port", "9899"],
        2,
        "--encapsulation-port needs --over udp",
    );
    fails(&["link", "--interface", "no-such"], 1, "no-such");
}

#[test]
fn an_interrupted_run_still_gives_its_result() {
    let mut sender = Peer::spawn(&mut traffic(&[
        "send",
        "udp",
        "--rate",
        "100",
        "--seconds",
        "600",
    ]));
    sender.wait_for_output("packets", LONG);
    // A line a second follows the first one.
    sender.wait_for_output(" s  ", LONG);
    send_signal(sender.id(), "INT");
    sender.wait_for_output("Round trip", LONG);
    assert_eq!(sender.wait(LONG).code(), Some(130));
    assert!(sender.output().contains("Interrupted."));
}

#[test]
fn the_link_budget_is_the_documents() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("link.json");
    let html = directory.path().join("link.html");
    let text = run(&[
        "link",
        "--link-speed",
        "100M",
        "--size",
        "450,800,1050",
        "--json",
        json.to_str().expect("a name"),
        "--html",
        html.to_str().expect("a name"),
    ]);
    for figure in ["24,224", "11,200", "14,434", "6,000"] {
        assert!(text.contains(figure), "{figure} in {text}");
    }
    let document = read(&json);
    let packets = document["runs"][0]["packets"].as_array().expect("packets");
    let udp = packets
        .iter()
        .find(|one| one["transport"] == "udp")
        .expect("UDP");
    assert_eq!(udp["frame"]["wire_bytes"], 516);
    assert_eq!(
        udp["packets_per_second"].as_f64().map(f64::floor),
        Some(24_224.0)
    );
    let page = std::fs::read_to_string(&html).expect("written");
    assert!(page.contains("<svg") && page.contains("Link budget"));
    // What was asked for is with the figures.
    assert!(page.contains("450, 800, 1050") && page.contains("100000000"));
    assert_eq!(
        document["parameters"]["link_speed_bits_per_second"],
        100_000_000
    );
}
