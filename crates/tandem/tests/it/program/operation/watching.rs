//! Metrics and health over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::sip::Phone;
use super::{PATIENCE, configuration, eventually, start, start_command};
use crate::program::support::{Proxy, tandem};

/// Asks the proxy's HTTP listener; gives status and body.
pub(super) fn get(proxy: &Proxy, path: &str) -> (u16, String) {
    get_as(proxy, path, "localhost")
}

/// The same, by a name.
fn get_as(proxy: &Proxy, path: &str, host: &str) -> (u16, String) {
    let answer = ask(proxy, &format!("GET {path} HTTP/1.1\r\nHost: {host}"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
    let status = head.split(' ').nth(1).expect("a status");
    (status.parse().expect("a number"), body.to_owned())
}

fn ask(proxy: &Proxy, line: &str) -> String {
    let log = proxy.peer.output();
    let (_, rest) = log.split_once("metrics on http://").expect("it says where");
    let (address, _) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let request = format!("{line}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The value of a series.
pub(super) fn value(metrics: &str, series: &str) -> Option<f64> {
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map(|value| value.parse().expect("a number"))
}

#[test]
fn what_happens_is_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    std::fs::write(
        &file,
        configuration("[metrics]\nlisten = \"127.0.0.1:0\"\n"),
    )
    .expect("written");
    let mut proxy = start(&file);
    proxy.peer.wait_for_output("metrics on http://", PATIENCE);
    let phone = Phone::new(&proxy, "alice");
    assert_eq!(phone.register("r1"), 200);
    let response = phone.ask("BREW", "sip:bob@127.0.0.1", "bob", "b1", "");
    assert_eq!(response.status(), 404);

    let (status, metrics) = get(&proxy, "/metrics");
    assert_eq!(status, 200);
    let requests = |method| {
        let labels = format!("method=\"{method}\",transport=\"udp\",direction=\"received\"");
        value(&metrics, &format!("tandem_sip_requests_total{{{labels}}}"))
    };
    assert_eq!(requests("REGISTER"), Some(1.0), "{metrics}");
    // What peers make up is no name.
    assert_eq!(requests("other"), Some(1.0), "{metrics}");
    let responses =
        "tandem_sip_responses_total{class=\"4xx\",transport=\"udp\",direction=\"sent\"}";
    assert_eq!(value(&metrics, responses), Some(1.0), "{metrics}");
    let latency = "tandem_sip_final_response_seconds_count{method=\"REGISTER\"}";
    assert_eq!(value(&metrics, latency), Some(1.0), "{metrics}");
    assert_eq!(value(&metrics, "tandem_bindings{}"), Some(1.0), "{metrics}");
    assert!(value(&metrics, "process_cpu_seconds_total").is_some_and(|seconds| seconds > 0.0));
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
}

#[test]
fn http_is_answered_as_it_should_be() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    std::fs::write(
        &file,
        configuration("[metrics]\nlisten = \"127.0.0.1:0\"\n"),
    )
    .expect("written");
    let mut proxy = start(&file);
    proxy.peer.wait_for_output("metrics on http://", PATIENCE);
    assert_eq!(get(&proxy, "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(get(&proxy, "/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(get(&proxy, "/").0, 404);
    assert!(ask(&proxy, "DELETE /metrics HTTP/1.1").starts_with("HTTP/1.1 405 "));
    assert!(ask(&proxy, "\u{1}").starts_with("HTTP/1.1 400 "));
    let head = ask(&proxy, "GET /metrics HTTP/1.1");
    assert!(
        head.contains("application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
}

#[test]
fn all_sip_is_written_to_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let capture = directory.path().join("sip.pcapng");
    let mut command = tandem();
    command.args(["proxy", "--store", "memory:", "--listen", "udp:127.0.0.1:0"]);
    command.arg("--pcap").arg(&capture);
    let proxy = start_command(&mut command);
    let phone = Phone::new(&proxy, "alice");
    assert_eq!(phone.register("r1"), 200);
    eventually("request and answer are in the file", || {
        let written = std::fs::read(&capture).unwrap_or_default();
        let has = |text: &[u8]| written.windows(text.len()).any(|part| part == text);
        // The section header of pcapng.
        let is_capture = written.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]);
        is_capture && has(b"REGISTER sip:") && has(b"SIP/2.0 200 OK")
    });
}

/// A page of somebody else whose name leads here (DNS rebinding) has a browser ask by that name.
#[test]
fn metrics_are_for_those_who_ask_by_a_name_of_ours() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tandem.toml");
    let more = "[metrics]\nlisten = \"127.0.0.1:0\"\nhosts = [\"watch.example.org\"]\n";
    std::fs::write(&file, configuration(more)).expect("written");
    let mut proxy = start(&file);
    proxy.peer.wait_for_output("metrics on http://", PATIENCE);
    for path in ["/metrics", "/healthz", "/readyz"] {
        for own in [
            "127.0.0.1",
            "localhost:9090",
            "[::1]",
            "watch.example.org:9090",
        ] {
            assert_eq!(get_as(&proxy, path, own).0, 200, "{own}");
        }
        let (status, body) = get_as(&proxy, path, "rebound.example.net");
        assert_eq!(status, 403);
        assert!(body.contains("metrics.hosts"), "{body}");
    }
    // Probes that send no Host are no browsers.
    assert!(ask(&proxy, "GET /healthz HTTP/1.0").starts_with("HTTP/1.0 200"));
}
