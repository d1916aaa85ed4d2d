//! What is said of arguments that make no sense, of targets that may not be tested, and of servers that do
//! not answer.

use super::text;
use crate::program::support::tandem;

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let output = tandem()
        .arg("load")
        .args(arguments)
        .output()
        .expect("it runs");
    (output.status.code(), text(&output))
}

#[test]
fn arguments_that_make_no_sense_are_named() {
    for (arguments, named) in [
        (vec!["calls"], "--via"),
        (vec!["calls", "--via", "tel:+431"], "--via"),
        (vec!["calls", "--via", "sip:a@127.0.0.1"], "--via"),
        (vec!["calls", "--via", "127.0.0.1", "-r", "0"], "--rate"),
        (vec!["calls", "--via", "127.0.0.1", "-r", "fast"], "--rate"),
        (vec!["calls", "--via", "127.0.0.1", "-m", "0"], "--calls"),
        (
            vec!["calls", "--via", "127.0.0.1", "-m", "1", "--duration", "1s"],
            "--calls",
        ),
        (vec!["calls", "--via", "127.0.0.1", "-d", "soon"], "--hold"),
        (vec!["calls", "--via", "127.0.0.1", "-t", "un"], "per-user"),
        (
            vec!["calls", "--via", "127.0.0.1", "-t", "pigeon"],
            "--transport",
        ),
        (
            vec!["calls", "--via", "sip:127.0.0.1;transport=tcp", "-t", "udp"],
            "contradicts",
        ),
        (
            vec!["calls", "--via", "127.0.0.1", "--auth", "user"],
            "--auth",
        ),
        (
            vec!["calls", "--via", "127.0.0.1", "-au", "alice"],
            "--auth-password",
        ),
        (
            vec!["calls", "--via", "127.0.0.1", "--ramp", "100"],
            "--ramp",
        ),
        (
            vec![
                "calls",
                "--via",
                "127.0.0.1",
                "--role",
                "callees",
                "-s",
                "x",
            ],
            "--service",
        ),
        (
            vec!["calls", "--via", "127.0.0.1", "--background", "50"],
            "50Mbit/s",
        ),
        (vec!["register"], "--via"),
        (
            vec!["options", "--via", "127.0.0.1", "-i", "here"],
            "--local-address",
        ),
        (
            vec!["capacity", "--via", "127.0.0.1", "--of", "luck"],
            "--of",
        ),
        (
            vec!["capacity", "--via", "127.0.0.1", "--repeat", "3"],
            "--ladder",
        ),
    ] {
        let (code, said) = run(&arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(named), "{arguments:?}: {said}");
    }
}

/// A test is a flood to whoever has not agreed to it.
#[test]
fn strangers_are_left_alone() {
    for command in ["calls", "register", "options", "message", "capacity"] {
        let (code, said) = run(&[command, "--via", "192.0.2.1"]);
        assert_eq!(code, Some(255), "{command}: {said}");
        assert!(said.contains("--i-may-test 192.0.2.1"), "{command}: {said}");
    }
    let (code, said) = run(&[
        "calls",
        "--via",
        "127.0.0.1",
        "--background",
        "1M",
        "--background-to",
        "192.0.2.1",
    ]);
    assert_eq!(code, Some(255), "{said}");
    assert!(said.contains("--i-may-test 192.0.2.1"), "{said}");
}

/// What cannot be done is said at once, with what to do, and ends as SIPp does.
#[test]
fn what_fails_says_what_to_do() {
    let nobody = test_support::Nobody::new();
    let closed = nobody.address().to_string();
    let (code, said) = run(&["calls", "--via", &closed, "-t", "tcp", "-m", "1"]);
    assert_eq!(code, Some(255), "{said}");
    assert!(said.contains(&closed), "{said}");
    let (code, said) = run(&["calls", "--via", "127.0.0.1", "--scenario", "no-such-flow"]);
    assert_eq!(code, Some(255), "{said}");
    assert!(
        said.contains("no-such-flow") && said.contains("rfc3665-3.1"),
        "{said}"
    );
    let (code, said) = run(&["calls", "--via", "127.0.0.1", "-sn", "uac"]);
    assert_eq!(code, Some(255), "{said}");
    assert!(said.contains("--direct --role callers"), "{said}");
    let (code, said) = run(&[
        "calls",
        "--via",
        "127.0.0.1",
        "--users-file",
        "/no/such/file",
    ]);
    assert_eq!(code, Some(255), "{said}");
    assert!(said.contains("/no/such/file"), "{said}");
    let (code, said) = run(&[
        "calls",
        "--via",
        "127.0.0.1",
        "--html",
        "/no/such/directory/x",
    ]);
    assert_eq!(code, Some(255), "{said}");
    assert!(said.contains("/no/such/directory/x"), "{said}");
}

/// What was measured is shown although a file cannot be written, and a disk that is full is no success.
#[test]
fn a_full_disk_takes_no_results_away() {
    let direct = ["calls", "--direct", "--users", "1", "-m", "1"];
    let (code, said) = run(&[&direct[..], &["--json", "/dev/full", "--csv", "/dev/full"]].concat());
    assert_eq!(code, Some(255), "{said}");
    assert!(said.contains("Session establishment ratio"), "{said}");
    assert_eq!(said.matches("cannot write /dev/full").count(), 2, "{said}");

    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("a full disk");
    let output = tandem()
        .arg("load")
        .args(direct)
        .stdout(full)
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(255));
    let said = text(&output);
    assert!(said.contains("cannot write to standard output"), "{said}");
}

/// A socket that cannot be bound is SIPp's -2.
#[test]
fn a_port_that_is_taken_is_said() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let (code, said) = run(&[
        "calls",
        "--via",
        "127.0.0.1",
        "-i",
        "127.0.0.1",
        "-p",
        &port,
        "-m",
        "1",
    ]);
    assert_eq!(code, Some(254), "{said}");
}

#[test]
fn built_in_scenarios_are_listed() {
    let (code, said) = run(&["scenarios"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("rfc3665-3.8"), "{said}");
}

/// Help teaches with examples.
#[test]
fn help_has_examples() {
    for command in ["calls", "register", "options", "message", "capacity"] {
        let (code, said) = run(&[command, "--help"]);
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains("Examples:") && said.contains("Exit status:"),
            "{command}: {said}"
        );
    }
}
