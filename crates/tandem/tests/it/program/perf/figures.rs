//! What a test measures.

use serde_json::Value;
use test_support::Peer;

use super::{LONG, Server, assert_consistent, count, number, read, run, text};
use crate::program::support::tandem;

#[test]
fn a_count_of_messages_arrives_over_tcp_and_sctp_in_both_directions() {
    let server = Server::start(&[]);
    for transport in ["tcp", "sctp"] {
        for reverse in [false, true] {
            let mut options = vec!["--count", "2000", "--size", "700"];
            if reverse {
                options.push("--reverse");
            }
            let document = server.measure(transport, &options);
            assert_eq!(document["schema"], 1);
            assert_eq!(document["parameters"]["count"], 2000);
            assert_eq!(document["parameters"]["seconds"], Value::Null);
            let run = run(&document);
            assert_eq!(run["protocol"], transport);
            assert_eq!(run["reverse"], reverse);
            assert_eq!(run["received"]["messages"], 2000, "{run}");
            assert_eq!(run["received"]["bytes"], 2000 * 700, "{run}");
            assert_consistent(run);
            let path = &run["paths"][0];
            assert_eq!(path["address"], "127.0.0.1", "{run}");
            assert!(count(&path["cwnd_bytes"]) > 0, "{run}");
            assert!(run["retransmissions"].is_u64(), "{run}");
        }
    }
}

#[test]
fn flows_and_streams_share_the_messages() {
    let server = Server::start(&[]);
    for transport in ["udp", "tcp", "sctp"] {
        let mut options = vec!["--count", "1001", "--parallel", "3", "--size", "100"];
        if transport == "sctp" {
            options.extend(["--streams", "7", "--unordered", "--nodelay"]);
        }
        if transport == "udp" {
            options.extend(["--bitrate", "20M"]);
        }
        let document = server.measure(transport, &options);
        let run = run(&document);
        let flows = run["sent"]["flows"].as_array().expect("flows");
        let messages: Vec<u64> = flows.iter().map(|flow| count(&flow["messages"])).collect();
        assert_eq!(messages, [334, 334, 333], "{run}");
        if transport != "udp" {
            assert_consistent(run);
        }
    }
}

/// In both directions: the server's associations have what the client asks for.
#[test]
fn messages_are_interleaved_under_a_scheduler_and_live_for_a_time() {
    let server = Server::start(&[]);
    for direction in [&[][..], &["--reverse"]] {
        let mut options = vec!["--count", "500", "--size", "5000", "--streams", "4"];
        options.extend(["--scheduler", "rr", "--interleave", "--lifetime", "60s"]);
        options.extend(direction);
        let document = server.measure("sctp", &options);
        let parameters = &document["parameters"];
        assert_eq!(parameters["scheduler"], "rr");
        assert_eq!(parameters["interleave"], true);
        assert_eq!(parameters["lifetime_ms"], 60_000.0);
        assert_eq!(run(&document)["received"]["messages"], 500);
        assert_consistent(run(&document));
    }
}

#[test]
fn seconds_end_a_test_and_each_second_has_its_line() {
    let server = Server::start(&[]);
    for transport in ["tcp", "sctp"] {
        let output = server
            .client(transport, &["--seconds", "2.5", "--window", "256K"])
            .output()
            .expect("it runs");
        let text = text(&output);
        assert!(output.status.success(), "{text}");
        let lines = text.lines().filter(|line| line.contains("messages/s"));
        assert!(lines.count() >= 3, "{text}");
        for named in ["Goodput", "CPU s/GByte", "Retransmitted", "Path"] {
            assert!(text.contains(named), "{named} in {text}");
        }
    }
}

/// Whether something is so of one of several tests: a machine that stands still when one ends keeps back what was due then.
fn is_so_once(is_so: impl FnMut() -> bool) -> bool {
    std::iter::repeat_with(is_so).take(5).any(|is_so| is_so)
}

/// The schedule does not drift: as many messages leave as the rate says, and never more.
#[test]
fn a_bitrate_is_kept() {
    let server = Server::start(&[]);
    for transport in ["udp", "tcp", "sctp"] {
        let options = ["--bitrate", "4M", "--seconds", "2", "--size", "500"];
        let is_kept = is_so_once(|| {
            let document = server.measure(transport, &options);
            let run = run(&document);
            // 4 Mbit/s are 1,000 messages of 500 bytes a second.
            let sent = count(&run["sent"]["messages"]);
            assert!(sent <= 2_000, "{transport}: {sent}");
            let goodput = number(&run["goodput_bits_per_second"]);
            assert!(goodput <= 4.1e6, "{transport}: {goodput}");
            sent >= 1_800 && goodput >= 2.5e6
        });
        assert!(is_kept, "{transport}");
    }
}

#[test]
fn udp_tells_what_was_lost_and_has_a_modest_rate_of_its_own() {
    let server = Server::start(&[]);
    for reverse in [false, true] {
        let mut options = vec!["--seconds", "1"];
        if reverse {
            options.push("--reverse");
        }
        let is_kept = is_so_once(|| {
            let document = server.measure("udp", &options);
            assert_eq!(
                document["parameters"]["bitrate_bits_per_second"], 1_000_000,
                "the default"
            );
            let run = run(&document);
            let sent = count(&run["sent"]["messages"]);
            assert!(sent <= 123, "{run}");
            let udp = &run["udp"];
            assert_eq!(
                count(&udp["lost"]),
                sent - count(&run["received"]["messages"]),
                "{run}"
            );
            for figure in ["loss_percent", "reordered", "duplicates", "jitter_ms"] {
                assert!(number(&udp[figure]) >= 0.0, "{figure} in {run}");
            }
            assert_eq!(run["retransmissions"], Value::Null);
            sent >= 100
        });
        assert!(is_kept, "reverse {reverse}");
    }
}

#[test]
fn paths_of_several_addresses_are_told() {
    let mut server = tandem();
    server.args(["perf", "server", "--encapsulation-port", "0"]);
    server.args(["--listen", "sctp:127.0.0.1,127.0.0.2:0"]);
    let mut peer = Peer::spawn(&mut server);
    peer.wait_for_output("(in UDP, port ", LONG);
    let server = Server { peer };
    let port = server.number_after("listening on sctp:127.0.0.1,127.0.0.2:");
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("result.json");
    let output = tandem()
        .args([
            "perf",
            "client",
            &format!("sctp:127.0.0.1,127.0.0.2:{port}"),
        ])
        .args(["--address", "127.0.0.1", "--address", "127.0.0.2"])
        .args([
            "--peer-encapsulation-port",
            &server.encapsulation_port().to_string(),
        ])
        .args(["--seconds", "1.5", "--bitrate", "1M", "--json"])
        .arg(&json)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    let document = read(&json);
    let run = run(&document);
    assert_consistent(run);
    let paths = run["paths"].as_array().expect("paths");
    let mut addresses: Vec<&str> = paths
        .iter()
        .map(|path| path["address"].as_str().expect("an address"))
        .collect();
    addresses.sort_unstable();
    assert_eq!(addresses, ["127.0.0.1", "127.0.0.2"], "{run}");
    let primary = paths.iter().filter(|path| path["primary"] == true);
    assert_eq!(primary.count(), 1, "{run}");
}

/// What came in the omitted time is in no figure.
#[test]
fn the_beginning_can_be_omitted() {
    let server = Server::start(&[]);
    let options = [
        "--seconds",
        "2",
        "--omit",
        "1s",
        "--bitrate",
        "1M",
        "--reverse",
    ];
    // In either direction.
    for options in [&options[..6], &options] {
        let document = server.measure("udp", options);
        let run = run(&document);
        // A megabit a second for two of three seconds.
        for side in ["sent", "received"] {
            let bytes = run[side]["bytes"].as_f64().expect("a number");
            assert!((200_000.0..300_000.0).contains(&bytes), "{side}: {run}");
        }
        let seconds = run["seconds"].as_f64().expect("a number");
        assert!((1.5..2.5).contains(&seconds), "{run}");
        assert_eq!(document["parameters"]["omit_seconds"], 1.0);
    }
}
