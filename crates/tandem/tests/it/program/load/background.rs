//! Other traffic beside the calls.

use serde_json::Value;

use super::{load, text};
use crate::program::support::Proxy;

fn document(path: &str) -> Value {
    let document = std::fs::read_to_string(path).expect("a document");
    serde_json::from_str(&document).expect("JSON")
}

/// A count that is there and not nothing.
fn some(count: &Value) -> u64 {
    let count = count.as_u64().unwrap_or(0);
    assert!(count > 0);
    count
}

#[test]
fn it_is_sent_and_received_beside_calls() {
    let proxy = Proxy::start();
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("load.json");
    let json = json.to_str().expect("a UTF-8 path");
    let arguments = ["--users", "5", "-r", "50", "-m", "25", "--background", "2M"];
    let output = load(
        "calls",
        &proxy,
        "udp",
        &[&arguments[..], &["--json", json]].concat(),
    );
    let said = text(&output);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    assert!(said.contains("Background  "), "{said}");
    let document = document(json);
    let parameters = &document["parameters"];
    assert_eq!(parameters["background_bits_per_second"], 2_000_000);
    assert_eq!(parameters["background_from"], "127.0.0.2");
    assert_eq!(parameters["background_to"], "127.0.0.3");
    let background = &document["runs"][0]["background"];
    let sent = some(&background["sent"]);
    let received = some(&background["received"]);
    assert_eq!(background["lost"], sent - received, "{background}");
    // Of 170 a second no more than the run has, and what is owed from before it.
    let seconds = background["seconds"].as_f64().expect("a time");
    let most = 171.0 * (seconds + 0.1) + 1.0;
    assert!(sent as f64 <= most, "{background}");
    assert!(some(&background["due"]) >= sent, "{background}");
}

#[test]
fn a_ladder_has_it_beside_each_rung() {
    let proxy = Proxy::start();
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("capacity.json");
    let json = json.to_str().expect("a UTF-8 path");
    let ladder = ["--ladder", "2,3", "--repeat", "2", "--settle", "10ms"];
    let output = load(
        "capacity",
        &proxy,
        "udp",
        &[&ladder[..], &["--background", "4Mbit/s", "--json", json]].concat(),
    );
    let said = text(&output);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    assert!(
        said.contains("Beside the steps: 4.000 Mbit/s of UDP from 127.0.0.2 to 127.0.0.3."),
        "{said}"
    );
    let document = document(json);
    assert_eq!(
        document["parameters"]["background_bits_per_second"],
        4_000_000
    );
    let ladder = &document["runs"][0]["ladder"];
    let steps = ladder["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 4, "{ladder}");
    for step in steps {
        let background = &step["background"];
        assert!(some(&background["received"]) <= some(&background["sent"]));
    }
    for rung in ladder["rungs"].as_array().expect("rungs") {
        // Trials in which the generator was too slow are left out.
        if rung["invalid"] != 2 {
            let sent = rung["background"]["sent"]["mean"].as_f64();
            assert!(sent.is_some_and(|sent| sent > 0.0), "{rung}");
        }
    }
}

/// Datagrams from a loopback address have no way to another host, whatever the network is.
#[test]
fn what_is_not_sent_makes_a_run_invalid() {
    let proxy = Proxy::start();
    let output = load(
        "calls",
        &proxy,
        "udp",
        &[
            "--users",
            "5",
            "-r",
            "50",
            "-m",
            "25",
            "--background",
            "1M",
            "--background-from",
            "127.0.0.2",
            "--background-to",
            "192.0.2.1",
            "--i-may-test",
            "192.0.2.1",
        ],
    );
    let said = text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("of the background traffic 0 datagrams were sent"),
        "{said}"
    );
    let line = said
        .lines()
        .find(|line| line.starts_with("Background  0 datagrams"));
    // The system's own words follow.
    assert!(
        line.is_some_and(|line| line.contains("not sent: ")),
        "{said}"
    );
}
