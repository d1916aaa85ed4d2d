//! The JSON of iperf3.

use std::process::Command;

use serde_json::Value;
use test_support::{Peer, require_command, wait_until};

use super::{LONG, Server, text};
use crate::program::support::tandem;

/// The names of the fields of a document of iperf3, with those of what they are in.
fn names(value: &Value, within: &str, into: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = format!("{within}{name}");
                into.insert(name.clone());
                names(value, &format!("{name}."), into);
            }
        }
        Value::Array(values) => {
            for value in values.iter().take(1) {
                names(value, &format!("{within}[]."), into);
            }
        }
        _ => {}
    }
}

/// What reads iperf3's JSON finds in ours what it needs.
#[test]
#[ignore = "takes 15 seconds: for the nightly run"]
fn iperf3_has_the_same_names() {
    let Some(iperf3) = require_command("iperf3", "iperf3") else {
        return;
    };
    let server = Server::start(&[]);
    // What iperf3 tells that the tests here do not have, and the other way round.
    let theirs_alone = [
        "start.connected",
        "start.cookie",
        "start.rcvbuf_actual",
        "start.sndbuf_actual",
        "start.sock_bufsize",
        "start.system_info",
        "start.tcp_mss_default",
        "start.timestamp",
        "end.receiver_tcp_congestion",
        "end.sender_tcp_congestion",
        "intervals.[].streams.[].",
        ".socket",
        ".max_rtt",
        ".min_rtt",
        ".mean_rtt",
        ".max_snd_cwnd",
        ".max_snd_wnd",
        ".sender.retransmits",
        "start.test_start.fq_rate",
        "start.test_start.bidir",
    ];
    let ours_alone = [
        "start.test_start.bidir",
        "intervals.[].sum.lost_packets",
        "intervals.[].sum.jitter_ms",
        "intervals.[].sum_bidir_reverse.retransmits",
    ];
    for (transport, options) in [
        ("tcp", &["-O", "1", "--bidir"][..]),
        ("udp", &["-u"]),
        ("tcp", &["-R"]),
    ] {
        let port = test_support::free_udp_port().to_string();
        let mut listening = Command::new(&iperf3);
        listening.args(["-s", "-1", "-p", &port, "--forceflush"]);
        let listening = Peer::spawn(&mut listening);
        assert!(wait_until(LONG, || listening
            .output()
            .contains("Server listening")));
        let theirs = Command::new(&iperf3)
            .args(["-c", "127.0.0.1", "-p", &port, "-t", "2", "-J"])
            .args(options)
            .output()
            .expect("it runs");
        let our_port = server.port(transport).to_string();
        let ours = tandem()
            .args(["perf", "-c", "127.0.0.1", "-p", &our_port, "-t", "2", "-J"])
            .args(options)
            .output()
            .expect("it runs");
        assert!(ours.status.success(), "{}", text(&ours));
        let named = |octets: &[u8]| {
            let document: Value = serde_json::from_slice(octets).expect("JSON");
            let mut all = std::collections::BTreeSet::new();
            names(&document, "", &mut all);
            all
        };
        let (theirs, ours) = (named(&theirs.stdout), named(&ours.stdout));
        let is_among = |name: &String, list: &[&str]| list.iter().any(|part| name.contains(part));
        let missing: Vec<&String> = theirs
            .difference(&ours)
            .filter(|name| !is_among(name, &theirs_alone))
            .collect();
        assert!(missing.is_empty(), "{options:?}: {missing:?}");
        let more: Vec<&String> = ours
            .difference(&theirs)
            .filter(|name| !is_among(name, &ours_alone))
            .collect();
        assert!(more.is_empty(), "{options:?}: {more:?}");
    }
}

/// An interval is a little longer than a second, also the last one that is omitted.
#[test]
fn iperf3_is_told_which_intervals_are_omitted() {
    let server = Server::start(&[]);
    let port = server.port("tcp").to_string();
    let output = tandem()
        .args(["perf", "-c", "127.0.0.1", "-p", &port, "-J", "-P", "2"])
        .args(["-t", "2", "-O", "1", "-b", "1M"])
        .output()
        .expect("it runs");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let intervals = document["intervals"].as_array().expect("a list");
    let omitted = intervals
        .iter()
        .map(|interval| &interval["sum"]["omitted"])
        .filter(|omitted| **omitted == true);
    assert_eq!(omitted.count(), 1, "{document}");
    // All streams together are as fast as their sum, whatever is left out.
    let rate = |value: &Value| value["bits_per_second"].as_f64().expect("a number");
    let streams = document["end"]["streams"].as_array().expect("a list");
    let of_streams: f64 = streams.iter().map(|one| rate(&one["receiver"])).sum();
    let sum = rate(&document["end"]["sum_received"]);
    assert!((0.7..1.3).contains(&(of_streams / sum)), "{document}");
}
