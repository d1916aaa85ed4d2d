//! What TLS agreed on is told beside what it costs.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use test_support::Peer;

use super::{load, text};
use crate::program::support::{Proxy, send_signal, tandem};

const PATIENCE: Duration = Duration::from_secs(120);

/// A proxy with a certificate that it has signed itself.
fn proxy(directory: &Path) -> Proxy {
    let certified =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a good name");
    let (certificate, key) = (directory.join("certificate.pem"), directory.join("key.pem"));
    std::fs::write(&certificate, certified.cert.pem()).expect("written");
    std::fs::write(&key, certified.signing_key.serialize_pem()).expect("written");
    let listeners: String = ["tls", "tls-sctp"]
        .iter()
        .map(|transport| {
            format!(
                "[[listener]]\ntransport = \"{transport}\"\naddress = \"127.0.0.1:0\"\n\
                 certificate = {certificate:?}\nkey = {key:?}\n"
            )
        })
        .collect();
    let configuration = format!(
        "workers = 1\n{listeners}[sctp]\nencapsulation_port = 0\n[location]\nstore = \"memory:\"\n"
    );
    let file = directory.join("tandem.toml");
    std::fs::write(&file, configuration).expect("written");
    let mut peer = Peer::spawn(tandem().arg("proxy").arg("--config").arg(&file));
    peer.wait_for_output("SCTP is encapsulated in UDP on ", PATIENCE);
    Proxy { peer }
}

fn document(path: &Path) -> Value {
    let document = std::fs::read_to_string(path).expect("a document");
    serde_json::from_str(&document).expect("JSON")
}

#[test]
fn the_cipher_suite_is_in_every_report() {
    let directory = tempfile::tempdir().expect("a directory");
    let proxy = proxy(directory.path());
    let file = directory.path().join("load.json");
    let json = file.to_str().expect("a UTF-8 path");

    let via = format!("127.0.0.1:{}", proxy.port("tls"));
    let at_proxy = |what: &str| {
        let mut command = tandem();
        command.args([
            "load",
            what,
            "--via",
            &via,
            "--transport",
            "tls",
            "--insecure",
        ]);
        command
    };
    let output = at_proxy("calls")
        .args(["--users", "2", "-r", "20", "-m", "4", "--json", json])
        .output()
        .expect("it runs");
    let shown = text(&output);
    let run = &document(&file)["runs"][0];
    let suite = run["tls_cipher_suite"].as_str().expect("a cipher suite");
    assert!(suite.starts_with("TLS"), "{suite}");
    assert!(
        shown.contains(&format!("Security    TLS with {suite}")),
        "{shown}"
    );

    // RFC 7502 section 5.1, of a search that is ended after a step.
    let mut command = at_proxy("capacity");
    command.args([
        "--of",
        "sessions",
        "--start",
        "10",
        "--sessions",
        "10",
        "--settle",
        "10ms",
    ]);
    let mut search = Peer::spawn(&mut command);
    search.wait_for_output("step   2", PATIENCE);
    send_signal(search.id(), "INT");
    search.wait(PATIENCE);
    let shown = search.output();
    let form = shown
        .lines()
        .find(|line| line.starts_with("TLS ciphersuite used"));
    assert!(form.is_some_and(|form| form.ends_with(suite)), "{shown}");
}

#[test]
fn users_call_each_other_over_tls_over_sctp() {
    let directory = tempfile::tempdir().expect("a directory");
    let proxy = proxy(directory.path());
    let file = directory.path().join("load.json");
    let json = file.to_str().expect("a UTF-8 path");
    for connections in ["shared", "per-user"] {
        let output = load(
            "calls",
            &proxy,
            "tls-sctp",
            &[
                "--insecure",
                "--connections",
                connections,
                "--users",
                "2",
                "-r",
                "20",
                "-m",
                "6",
                "--json",
                json,
            ],
        );
        let said = text(&output);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
        let document = document(&file);
        assert_eq!(document["parameters"]["transport"], "tls-sctp");
        assert_eq!(document["parameters"]["connections"], connections);
        let run = &document["runs"][0];
        assert_eq!(run["calls"]["completed"], 6, "{run}");
        assert_eq!(run["registration"]["registered"], 4, "{run}");
        assert!(run["tls_cipher_suite"].is_string(), "{run}");
    }
}
