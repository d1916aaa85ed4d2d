//! `tandem perf` as a person runs it, short, on loopback.

mod arguments;
mod carriers;
mod figures;
mod iperf3;
mod server;
mod sweep;

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use test_support::Peer;

use crate::program::support::tandem;

const LONG: Duration = Duration::from_secs(60);

/// A running `tandem perf server` with a listener for each transport on loopback.
struct Server {
    peer: Peer,
}

impl Server {
    fn start(more: &[&str]) -> Server {
        let mut command = tandem();
        command.args(["perf", "server", "--encapsulation-port", "0"]);
        for transport in ["udp", "tcp", "sctp"] {
            command.args(["--listen", &format!("{transport}:127.0.0.1:0")]);
        }
        let mut peer = Peer::spawn(command.args(more));
        peer.wait_for_output("listening on sctp:", LONG);
        peer.wait_for_output("(in UDP, port ", LONG);
        Server { peer }
    }

    /// The number that follows some words of its output.
    fn number_after(&self, words: &str) -> u16 {
        let output = self.peer.output();
        let (_, rest) = output.split_once(words).expect("it says so");
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a port")
    }

    fn port(&self, transport: &str) -> u16 {
        self.number_after(&format!("listening on {transport}:127.0.0.1:"))
    }

    fn encapsulation_port(&self) -> u16 {
        self.number_after("(in UDP, port ")
    }

    /// A client of it.
    fn client(&self, transport: &str, more: &[&str]) -> Command {
        let mut command = tandem();
        let target = format!("{transport}:127.0.0.1:{}", self.port(transport));
        let encapsulation = self.encapsulation_port().to_string();
        command.args(["perf", "client", &target]);
        if transport == "sctp" {
            command.args(["--peer-encapsulation-port", &encapsulation]);
        }
        command.args(more);
        command
    }

    /// Runs a client to its end; its document.
    fn measure(&self, transport: &str, more: &[&str]) -> Value {
        let directory = tempfile::tempdir().expect("a directory");
        let json = directory.path().join("result.json");
        let output = self
            .client(transport, more)
            .arg("--json")
            .arg(&json)
            .output()
            .expect("it runs");
        assert!(
            output.status.success(),
            "{transport} {more:?}: {}",
            text(&output)
        );
        let document = read(&json);
        let errors = document["runs"][0]["errors"].as_array().expect("errors");
        assert!(errors.is_empty(), "{errors:?}");
        document
    }
}

fn read(json: &Path) -> Value {
    let text = std::fs::read_to_string(json).expect("written");
    serde_json::from_str(&text).expect("JSON")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn run(document: &Value) -> &Value {
    assert_eq!(document["runs"].as_array().map(Vec::len), Some(1));
    &document["runs"][0]
}

fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is not a count"))
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is not a number"))
}

/// What holds for every result of TCP and SCTP: nothing is lost, and the figures agree.
fn assert_consistent(run: &Value) {
    assert_eq!(
        run["sent"]["messages"], run["received"]["messages"],
        "{run}"
    );
    assert_eq!(run["sent"]["bytes"], run["received"]["bytes"], "{run}");
    let bytes = count(&run["received"]["bytes"]);
    assert!(bytes > 0, "{run}");
    let per_second = number(&run["goodput_bits_per_second"]);
    let seconds = number(&run["seconds"]);
    let expected = bytes as f64 * 8.0 / seconds;
    assert!((per_second / expected - 1.0).abs() < 1e-6, "{run}");
    for side in ["sent", "received"] {
        let flows = run[side]["flows"].as_array().expect("flows");
        let sum: u64 = flows.iter().map(|flow| count(&flow["bytes"])).sum();
        assert_eq!(sum, bytes, "{run}");
    }
    let intervals = run["intervals"].as_array().expect("intervals");
    let sum: u64 = intervals.iter().map(|part| count(&part["bytes"])).sum();
    assert_eq!(sum, bytes, "{run}");
    let cpu = &run["cpu"];
    let sum = number(&cpu["sender_seconds_per_gbyte"]) + number(&cpu["receiver_seconds_per_gbyte"]);
    assert!(
        (number(&cpu["seconds_per_gbyte"]) - sum).abs() < 1e-6,
        "{run}"
    );
}
