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
        (
            vec![
                "calls",
                "--via",
                "127.0.0.1",
                "--background",
                "1M",
                "--background-from",
                "[::1]:4000",
            ],
            "--background-from",
        ),
        (
            vec![
                "calls",
                "--via",
                "udp:127.0.0.1",
                "--second-via",
                "tcp:127.0.0.2",
            ],
            "--second-via",
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
        assert_eq!(code, Some(2), "{command}: {said}");
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
    assert_eq!(code, Some(2), "{said}");
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

/// The host of a UDP port at which nobody listens says so (ICMP): nobody has to wait for the timers of SIP.
#[test]
fn a_udp_port_at_which_nobody_listens_is_told_soon() {
    let port = test_support::free_udp_port();
    let via = format!("127.0.0.1:{port}");
    let started = std::time::Instant::now();
    for command in ["calls", "register"] {
        let (code, said) = run(&[command, "--via", &via, "--users", "3"]);
        assert_eq!(code, Some(255), "{said}");
        assert!(said.contains("nobody listens at udp:127.0.0.1"), "{said}");
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(20));
}

/// SIPp's option has a name of its own here: `--key` is TLS's.
#[test]
fn a_scenario_has_keywords_of_the_command_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("a.xml");
    let xml = "<?xml version=\"1.0\"?><scenario name=\"a\"><send><![CDATA[\nOPTIONS sip:[where] SIP/2.0\n]]></send>\
               <recv response=\"200\"/></scenario>";
    std::fs::write(&file, xml).expect("a file");
    let file = file.to_str().expect("a UTF-8 path");
    let (code, said) = run(&["scenarios", file]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("a.xml:2: [where] is not a keyword"), "{said}");
    let (code, said) = run(&["scenarios", file, "-key", "where", "a@b"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("sound: caller of 2 steps"), "{said}");
}

/// SIPp's options of several letters, and its columns.
#[test]
fn messages_and_counts_are_written_down() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let [messages, statistics, counts] = ["m.log", "s.csv", "c.csv"].map(file);
    let counts_option = format!("--trace-counts={counts}");
    let (code, said) = run(&[
        "calls",
        "--direct",
        "--users",
        "1",
        "-m",
        "3",
        "-nr",
        "-trace_msg",
        "-message_file",
        &messages,
        "-stf",
        &statistics,
        &counts_option,
    ]);
    assert_eq!(code, Some(0), "{said}");
    let read = |path: &str| std::fs::read_to_string(path).expect("it was written");
    let messages = read(&messages);
    assert_eq!(
        messages.matches("UDP message sent").count(),
        18,
        "{messages}"
    );
    assert_eq!(messages.matches("UDP message received").count(), 18);
    assert!(messages.contains("\nINVITE sip:user2@"), "{messages}");
    let statistics = read(&statistics);
    let lines: Vec<Vec<&str>> = statistics
        .lines()
        .map(|line| line.split(';').collect())
        .collect();
    let last = lines.last().expect("a line");
    let created = lines[0]
        .iter()
        .position(|column| *column == "TotalCallCreated");
    assert_eq!(lines[0].len(), last.len(), "{statistics}");
    assert_eq!(last[created.expect("a column")], "6", "{statistics}");
    let counts = read(&counts);
    assert!(
        counts.starts_with("CurrentTime;ElapsedTime;call_0_INVITE_Sent;"),
        "{counts}"
    );
    assert!(
        counts.lines().last().expect("a line").contains(";3;0;0;0;"),
        "{counts}"
    );
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
