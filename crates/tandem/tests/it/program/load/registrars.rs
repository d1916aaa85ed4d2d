//! Users at a registrar: with passwords, on two machines, kept registered, and gone at the end; and SIPstone's
//! parts, which want more of a server than that.

use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use test_support::Peer;

use super::{load, text};
use crate::program::support::{Proxy, send_signal, tandem};

const LIMIT: Duration = Duration::from_secs(120);

/// A proxy with settings from a file.
fn proxy_with(directory: &TempDir, settings: &str) -> (Peer, String) {
    let file = directory.path().join("tandem.toml");
    std::fs::write(&file, settings).expect("a file");
    let mut command = tandem();
    command.args(["proxy", "--listen", "udp:127.0.0.1:0", "--config"]);
    command.arg(&file);
    let mut proxy = Peer::spawn(&mut command);
    proxy.wait_for_output("listening on udp:127.0.0.1:", LIMIT);
    let via = format!("127.0.0.1:{}", proxy.listening_port("udp"));
    (proxy, via)
}

fn add_user(store: &Path, name: &str) {
    let mut command = tandem();
    command.args(["proxy", "users", "add", name, "--realm", "example.org"]);
    command.arg("--store");
    command.arg(format!("sqlite:{}", store.display()));
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("it runs");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"secret\n").expect("it listens");
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

/// Contacts that another run has left: said before the calls, and with the results.
#[test]
fn a_run_warns_when_calls_fork() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_proxy, via) = proxy_with(&directory, "[location]\nstore = \"memory:\"\n");
    let run = |command: &str, names: &str| {
        let output = tandem()
            .args(["load", command, "--via", &via, "--users", "1", "-m", "1"])
            .args(["--names", names])
            .output()
            .expect("it runs");
        text(&output)
    };
    run("register", "both%d");
    let warning = "a registration found other contacts of its user: calls to them fork";
    let said = run("calls", "both%d");
    assert_eq!(said.matches(warning).count(), 2, "{said}");
    // Each of two users of another name has one contact.
    let said = run("calls", "other%d");
    assert!(!said.contains("fork"), "{said}");
}

/// The document of a run.
fn run_of(json: &Path) -> Value {
    let document = std::fs::read_to_string(json).expect("a document");
    let document: Value = serde_json::from_str(&document).expect("JSON");
    document["runs"][0].clone()
}

/// What the generator could not do on a busy machine is no failure of the test.
fn assert_well(code: Option<i32>, run: &Value) {
    let is_valid = run["validity"]["valid"] == true;
    assert_eq!(code, Some(if is_valid { 0 } else { 3 }), "{run}");
}

#[test]
fn users_prove_who_they_are_to_a_registrar_and_a_proxy() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("store.db");
    for number in 1..=6 {
        add_user(&store, &format!("user{number}"));
    }
    let (_proxy, via) = proxy_with(
        &directory,
        &format!(
            "domains = [\"example.org\"]\n[location]\nstore = \"sqlite:{}\"\n\
             [authentication]\nregister = true\ncalls = true\nin_dialogs = true\n",
            store.display()
        ),
    );
    let json = directory.path().join("load.json");
    // SIPp's -ap alone is the password of each user under its own name.
    for login in [["--auth", "user%d:secret"], ["-ap", "secret"]] {
        let mut command = tandem();
        command.args(["load", "calls", "--via", &via, "--domain", "example.org"]);
        command.args(["--users", "3", "-r", "50", "-m", "12", "--json"]);
        command.arg(&json);
        let output = command.args(login).output().expect("it runs");
        let run = run_of(&json);
        assert_well(output.status.code(), &run);
        assert_eq!(run["registration"]["registered"], 6, "{run}");
        assert_eq!(run["calls"]["completed"], 12, "{run}");
        assert_eq!(run["calls"]["failed"], 0, "{run}");
        // A REGISTER of each user, and the first INVITE of each caller.
        let asked = run["authentications"].as_u64().expect("a count");
        assert!((9..=40).contains(&asked), "{run}");
    }
    let output = tandem()
        .args(["load", "register", "--via", &via, "--domain", "example.org"])
        .args([
            "--users", "1", "--names", "user%d", "-au", "user1", "-ap", "secret",
        ])
        .arg("--json")
        .arg(&json)
        .output()
        .expect("it runs");
    let run = run_of(&json);
    assert_well(output.status.code(), &run);
    assert_eq!(run["registrations"]["completed"], 1, "{run}");
    assert_eq!(run["authentications"], 1, "{run}");

    let output = tandem()
        .args(["load", "calls", "--via", &via, "--domain", "example.org"])
        .args(["--users", "3", "-r", "50", "-m", "12"])
        .args(["--auth", "user%d:wrong", "--json"])
        .arg(&json)
        .arg("--html")
        .arg(directory.path().join("load.html"))
        .arg("--csv")
        .arg(directory.path().join("attempts.csv"))
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(255));
    let said = text(&output);
    assert!(said.contains("none of 6 users could register"), "{said}");
    assert!(said.contains("rejects their credentials"), "{said}");
    let attempts = std::fs::read_to_string(directory.path().join("attempts.csv"));
    let attempts = attempts.expect("it was written");
    let of_user = |line: &&str| line.starts_with("registration,");
    assert!(attempts.lines().filter(of_user).count() >= 6, "{attempts}");
    // So do the other files, which would else be those of the run before.
    let run = run_of(&json);
    assert_eq!(run["registration"]["registered"], 0, "{run}");
    assert!(run["registrations"]["failed"].as_u64() >= Some(6), "{run}");
    let refused = &run["responses"]["REGISTER"]["401"];
    assert!(refused.as_u64() >= Some(6), "{run}");
    assert_eq!(run["arrivals"]["offered"], 0, "{run}");
    let why = run["error"].as_str().expect("a reason");
    assert!(why.contains("none of 6 users could register"), "{run}");
    let page = std::fs::read_to_string(directory.path().join("load.html"));
    let page = page.expect("it was written");
    assert!(page.contains("none of 6 users could register"), "{page}");

    let output = tandem()
        .args(["load", "calls", "--via", &via, "--domain", "example.org"])
        .args(["--users", "3", "-m", "1"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(255));
    let said = text(&output);
    assert!(said.contains("give --auth"), "{said}");
}

/// The bindings of a user: a REGISTER without a Contact asks for them (RFC 3261 section 10.2.3).
fn bindings(via: &str, user: &str) -> usize {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let own = socket.local_addr().expect("an address");
    let register = format!(
        "REGISTER sip:{via} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{}\r\nMax-Forwards: 70\r\n\
         From: <sip:{user}@{via}>;tag=1\r\nTo: <sip:{user}@{via}>\r\nCall-ID: {own}\r\nCSeq: 1 REGISTER\r\n\
         Content-Length: 0\r\n\r\n",
        own.port()
    );
    socket
        .send_to(register.as_bytes(), via)
        .expect("it is sent");
    let mut answer = [0; 4000];
    let length = socket.recv(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    answer.matches("\r\nContact:").count()
}

#[test]
fn calls_leave_nobody_registered_unless_that_is_wanted() {
    let proxy = Proxy::start();
    let via = format!("127.0.0.1:{}", proxy.port("udp"));
    let calls = ["--users", "2", "-r", "50", "-m", "4"];
    for (further, left) in [(&[][..], 0), (&["--keep-registered"], 1)] {
        let output = load("calls", &proxy, "udp", &[&calls[..], further].concat());
        assert!(
            matches!(output.status.code(), Some(0 | 3)),
            "{}",
            text(&output)
        );
        for user in ["user1", "user4"] {
            assert_eq!(bindings(&via, user), left, "{user} {further:?}");
        }
    }
}

#[test]
fn callers_and_callees_are_two_processes() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("callers.json");
    let proxy = Proxy::start();
    let via = format!("127.0.0.1:{}", proxy.port("udp"));
    for is_direct in [false, true] {
        let mut command = tandem();
        command.args(["load", "calls", "--role", "callees", "--users", "3"]);
        command.args(["--progress", "50ms"]);
        match is_direct {
            true => command.arg("--direct"),
            false => command.args(["--via", &via]),
        };
        let mut callees = Peer::spawn(command.arg("--no-screen"));
        // Whoever calls before all workers serve is answered, but counted in no run.
        callees.wait_for_output("answering", LIMIT);
        let target = match is_direct {
            true => {
                // Whichever worker's: callees are all of them.
                let said = callees.output();
                let (_, after) = said.split_once("udp:0.0.0.0:").expect("an address");
                let port: String = after.chars().take_while(char::is_ascii_digit).collect();
                format!("127.0.0.1:{port}")
            }
            false => via.clone(),
        };
        let mut command = tandem();
        command.args(["load", "calls", "--role", "callers", "--users", "3"]);
        command.args(["--via", &target, "-r", "50", "-m", "12", "--json"]);
        command.arg(&json);
        if is_direct {
            command.arg("--direct");
        }
        let output = command.output().expect("it runs");
        let run = run_of(&json);
        assert_well(output.status.code(), &run);
        assert_eq!(run["calls"]["completed"], 12, "{run}");
        send_signal(callees.id(), "INT");
        let status = callees.wait(LIMIT);
        let said = callees.output();
        assert_eq!(status.code(), Some(0), "{said}");
        let served = said
            .lines()
            .find(|line| line.starts_with("answered by callees"))
            .unwrap_or_else(|| panic!("{said}"));
        assert_eq!(served.split_whitespace().nth(3), Some("12"), "{said}");
    }
}

#[test]
fn users_who_are_kept_registered_are_registered_in_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("register.json");
    let json = json.to_str().expect("a UTF-8 path");
    let proxy = Proxy::start();
    let output = load(
        "register",
        &proxy,
        "udp",
        &[
            "--users",
            "20",
            "--rate",
            "100",
            "--keep-alive",
            "300ms",
            "--json",
            json,
        ],
    );
    let run = run_of(json.as_ref());
    assert_well(output.status.code(), &run);
    assert_eq!(run["arrivals"]["started"], 20, "{run}");
    assert_eq!(run["registrations"]["completed"], 20, "{run}");
    let said = text(&output);
    assert!(
        said.contains("Schedule    100.0 a second asked for, 20 due, 20 begun"),
        "{said}"
    );
}

/// Bindings that are short are renewed before they are over.
#[test]
fn users_who_are_kept_registered_register_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("register.json");
    let (_proxy, via) = proxy_with(
        &directory,
        "[location]\nstore = \"memory:\"\n[registrar]\nminimum_expires = \"1s\"\n",
    );
    let output = tandem()
        .args([
            "load", "register", "--via", &via, "--users", "5", "--rate", "50",
        ])
        .args([
            "--expires",
            "2s",
            "--refresh-after",
            "50",
            "--refresh-spread",
            "10",
        ])
        .args(["--keep-alive", "4s", "--json"])
        .arg(&json)
        .output()
        .expect("it runs");
    let document = std::fs::read_to_string(&json).expect("a document");
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let run = &document["runs"][0];
    assert_well(output.status.code(), run);
    assert_eq!(document["parameters"]["refresh_after_percent"], 50.0);
    assert_eq!(document["parameters"]["refresh_spread_percent"], 10.0);
    assert_eq!(document["parameters"]["expires_seconds"], 2.0);
    assert_eq!(run["registrations"]["failed"], 0, "{run}");
    // Each of the five once, and at least once again.
    let completed = run["registrations"]["completed"].as_u64();
    assert!(completed >= Some(10), "{run}");
}

/// All of SIPstone's transactions at once, at a server that has something to say to each.
#[test]
fn sipstones_mix_is_run_at_a_proxy() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_proxy, via) = proxy_with(
        &directory,
        "[location]\nstore = \"memory:\"\n[[route]]\nprefix = \"moved\"\nto = \"sip:127.0.0.1:9\"\n\
         mode = \"redirect\"\n",
    );
    let mut command = tandem();
    command.args(["load", "capacity", "--via", &via, "--sipstone", "--mix"]);
    command.args(["--redirected", "moved", "--users", "5", "--start", "50"]);
    command.args(["--step-time", "1s", "--settle", "10ms"]);
    let mut search = Peer::spawn(&mut command);
    search.wait_for_output("step   2", LIMIT);
    send_signal(search.id(), "TERM");
    let status = search.wait(LIMIT);
    let said = search.output();
    assert_eq!(status.code(), Some(97), "{said}");
    assert!(
        said.contains("step   1  all at once  50/s, 50 attempts"),
        "{said}"
    );
    assert!(said.contains("50 succeeded, 0 failed"), "{said}");
}
