//! Calls, registrations and requests against our own proxy and SIPp.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use test_support::{Peer, free_udp_port, require_command};

use super::{load, text};
use crate::program::support::{Proxy, send_signal, tandem};

const LIMIT: Duration = Duration::from_secs(120);

/// Runs it and reads the one run of its document.
fn measured(command: &str, transport: &str, arguments: &[&str]) -> (Option<i32>, Value) {
    let proxy = Proxy::start();
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("load.json");
    let json = json.to_str().expect("a UTF-8 path");
    let arguments = [arguments, &["--json", json]].concat();
    let output = load(command, &proxy, transport, &arguments);
    let document =
        std::fs::read_to_string(json).unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    let document: Value = serde_json::from_str(&document).expect("JSON");
    assert_eq!(document["schema"], 1);
    assert!(document["machine"]["cores"].is_u64() && document["seed"].is_u64());
    (output.status.code(), document["runs"][0].clone())
}

/// What went wrong with the generator on a busy machine is no failure of the test.
fn assert_well(code: Option<i32>, run: &Value) {
    let is_valid = run["validity"]["valid"] == true;
    assert_eq!(code, Some(if is_valid { 0 } else { 3 }), "{run}");
}

#[test]
fn users_call_each_other_over_each_transport() {
    for transport in ["udp", "tcp", "sctp"] {
        let (code, run) = measured(
            "calls",
            transport,
            &["--users", "5", "-r", "100", "-m", "40"],
        );
        assert_well(code, &run);
        assert_eq!(run["calls"]["completed"], 40, "{transport}: {run}");
        assert_eq!(run["calls"]["failed"], 0, "{transport}: {run}");
        assert_eq!(run["served"]["completed"], 40, "{transport}: {run}");
        assert_eq!(run["registration"]["registered"], 10, "{transport}: {run}");
        assert_eq!(run["responses"]["INVITE"]["200"], 40, "{transport}: {run}");
        assert_eq!(run["rfc6076"]["session_establishment_ratio_percent"], 100.0);
        assert_eq!(run["rfc6076"]["session_request_delay_s"]["count"], 40);
        assert_eq!(
            run["document_004"]["lost_sessions"], 0,
            "{transport}: {run}"
        );
        let begun: u64 = run["intervals"]
            .as_array()
            .expect("intervals")
            .iter()
            .map(|interval| interval["started"].as_u64().expect("a count"))
            .sum();
        assert_eq!(begun, 40, "{transport}: {run}");
    }
}

#[test]
fn each_user_may_have_a_connection_of_its_own() {
    for transport in ["tcp", "sctp"] {
        let (code, run) = measured(
            "calls",
            transport,
            &[
                "--users",
                "4",
                "--closed",
                "-m",
                "20",
                "--connections",
                "per-user",
                "-d",
                "10",
            ],
        );
        assert_well(code, &run);
        assert_eq!(run["calls"]["completed"], 20, "{transport}: {run}");
        assert_eq!(run["wire"]["connections_opened"], 8, "{transport}: {run}");
    }
}

/// A call of one second has 49 or 50 packets of 20 ms each way, or a few less on a busy machine; none is lost on
/// loopback.
#[test]
fn calls_have_media() {
    for (answer, sent_by_callees) in [("echo", false), ("sink", false), ("talk", true)] {
        let (code, run) = measured(
            "calls",
            "udp",
            &[
                "--users",
                "3",
                "-r",
                "50",
                "-m",
                "6",
                "--hold",
                "1s",
                "--media",
                "tone",
                "--media-answer",
                answer,
            ],
        );
        assert_well(code, &run);
        assert_eq!(run["calls"]["completed"], 6, "{run}");
        let media = &run["media"];
        let (callers, callees) = (&media["callers"], &media["callees"]);
        let sent = callers["packets_sent"].as_u64().expect("a count");
        assert!((6..=6 * 52).contains(&sent), "{media}");
        let late = callers["lateness_ms"]["max"].as_f64().expect("a time");
        if late > 100.0 {
            // So busy a machine may not have read all when the calls are over.
            continue;
        }
        assert_eq!(callees["packets_received"], sent, "{media}");
        for side in [callers, callees] {
            assert_eq!(side["calls"], 6, "{media}");
            assert_eq!(side["packets_lost"], 0, "{media}");
        }
        assert_eq!(media["stray_packets"], 0, "{media}");
        let jitter = callees["jitter_ms"]["p50"].as_f64().expect("a jitter");
        assert!((0.0..1_000.0).contains(&jitter), "{media}");
        let (back, echoed) = (&callers["packets_received"], &callees["packets_echoed"]);
        match answer {
            "echo" => {
                assert_eq!((back, echoed), (&sent.into(), &sent.into()), "{media}");
                assert_eq!(callers["echo_round_trip_ms"]["packets"], sent, "{media}");
            }
            "sink" => assert_eq!(back, 0, "{media}"),
            _ => assert_eq!(back, &callees["packets_sent"], "{media}"),
        }
        assert_eq!(callees["packets_sent"] != 0, sent_by_callees, "{media}");
    }
}

#[test]
fn users_register_again_and_again() {
    let (code, run) = measured(
        "register",
        "udp",
        &["--users", "10", "--cycles", "3", "-r", "200"],
    );
    assert_well(code, &run);
    assert_eq!(run["arrivals"]["offered"], 30, "{run}");
    // Where a user is still at it when it is to begin again, on a busy machine, that is one less.
    let started = &run["arrivals"]["started"];
    assert!(started.as_u64() >= Some(10), "{run}");
    assert_eq!(&run["registrations"]["completed"], started, "{run}");
    assert_eq!(
        &run["rfc6076"]["registration_request_delay_ms"]["count"],
        started
    );
}

#[test]
fn users_send_messages_and_ask_what_others_can_do() {
    let (code, run) = measured("message", "udp", &["--users", "3", "-r", "50", "-m", "12"]);
    assert_well(code, &run);
    assert_eq!(run["requests"]["completed"], 12, "{run}");
    let (code, run) = measured(
        "options",
        "udp",
        &["--to-users", "--users", "3", "-r", "50", "-m", "12"],
    );
    assert_well(code, &run);
    assert_eq!(run["requests"]["completed"], 12, "{run}");
    let (code, run) = measured("options", "udp", &["-r", "50", "-m", "12"]);
    assert_well(code, &run);
    assert_eq!(run["responses"]["other"]["200"], 12, "{run}");
}

/// Who is called is registered by nobody: calls fail, and the exit code says so as SIPp's does.
#[test]
fn a_call_that_fails_is_an_exit_code() {
    let (code, run) = measured(
        "calls",
        "udp",
        &["--role", "callers", "--users", "2", "-r", "50", "-m", "10"],
    );
    let is_valid = run["validity"]["valid"] == true;
    assert_eq!(code, Some(if is_valid { 1 } else { 3 }), "{run}");
    assert_eq!(run["calls"]["failed"], 10, "{run}");
    assert_eq!(run["failures"]["refused"], 10, "{run}");
}

/// Two processes: one has the callees, the other the callers. What the callees served is what they tell when
/// they are told to end.
#[test]
fn two_processes_share_the_roles() {
    let proxy = Proxy::start();
    let via = format!("127.0.0.1:{}", proxy.port("udp"));
    let mut command = tandem();
    command.args([
        "load", "calls", "--via", &via, "--role", "callees", "--users", "5",
    ]);
    let mut callees = Peer::spawn(&mut command);
    callees.wait_for_output("answering", LIMIT);
    let callers = load(
        "calls",
        &proxy,
        "udp",
        &["--role", "callers", "--users", "5", "-r", "100", "-m", "30"],
    );
    assert!(
        matches!(callers.status.code(), Some(0 | 3)),
        "{}",
        text(&callers)
    );
    send_signal(callees.id(), "INT");
    let status = callees.wait(LIMIT);
    let output = callees.output();
    assert_eq!(status.code(), Some(0), "{output}");
    let served = output
        .lines()
        .find(|line| line.starts_with("answered by callees"))
        .unwrap_or_else(|| panic!("{output}"));
    assert_eq!(served.split_whitespace().nth(3), Some("30"), "{output}");
}

/// The other way round, SIPp calls us as it does in the next test.
#[test]
fn sipp_answers_our_calls() {
    let Some(sipp) = require_command("sipp", "sip-tester") else {
        return;
    };
    let port = free_udp_port();
    let mut command = Command::new(sipp);
    command
        .args([
            "-sn",
            "uas",
            "-i",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-nostdin",
        ])
        .args(["-timeout", "110"])
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env("TERM", "dumb");
    let _sipp = Peer::spawn(&mut command);
    let via = format!("127.0.0.1:{port}");
    let output = tandem()
        .args([
            "load", "calls", "--direct", "--role", "callers", "--via", &via,
        ])
        .args(["-s", "service", "--users", "5", "-r", "100", "-m", "200"])
        .output()
        .expect("it runs");
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        text(&output)
    );
    assert!(
        text(&output).contains("200 due, 200 begun"),
        "{}",
        text(&output)
    );
}

/// SIPp calls callees of ours, who listen without a proxy and without having registered.
#[test]
fn our_callees_answer_sipp() {
    let Some(sipp) = require_command("sipp", "sip-tester") else {
        return;
    };
    let port = free_udp_port();
    let mut command = tandem();
    command
        .args([
            "load",
            "calls",
            "--direct",
            "--role",
            "callees",
            "--workers",
            "1",
        ])
        .args(["-i", "127.0.0.1", "-p", &port.to_string(), "--users", "5"]);
    let mut callees = Peer::spawn(&mut command);
    callees.wait_for_output("listening on udp:", LIMIT);
    let mut command = Command::new(sipp);
    command
        .args([
            "-sn",
            "uac",
            &format!("127.0.0.1:{port}"),
            "-s",
            "user6",
            "-nostdin",
        ])
        .args(["-i", "127.0.0.1", "-p", &free_udp_port().to_string()])
        .args([
            "-r",
            "100",
            "-m",
            "100",
            "-timeout",
            "110",
            "-timeout_error",
        ])
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env("TERM", "dumb");
    let mut sipp = Peer::spawn(&mut command);
    assert!(sipp.wait(LIMIT).success(), "{}", sipp.output());
    send_signal(callees.id(), "INT");
    assert_eq!(callees.wait(LIMIT).code(), Some(0), "{}", callees.output());
}

#[test]
fn a_ladder_is_measured_rung_by_rung() {
    let proxy = Proxy::start();
    let output = load(
        "capacity",
        &proxy,
        "udp",
        &["--ladder", "2,4", "--repeat", "2", "--settle", "10ms"],
    );
    let text = text(&output);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{text}");
    assert!(text.contains("Call set-up delay"), "{text}");
    assert!(text.contains("step   4"), "{text}");
}

/// Answers each REGISTER with 200, that of one user with 403, and whatever else with 480.
fn answer_all_but_one(socket: &UdpSocket, refused: &str) {
    let mut buffer = [0; 4096];
    while let Ok((length, source)) = socket.recv_from(&mut buffer) {
        let request = String::from_utf8_lossy(&buffer[..length]);
        if request.starts_with("ACK ") {
            continue;
        }
        let copied: Vec<&str> = request
            .lines()
            .filter(|line| {
                let name = line.split(':').next().unwrap_or_default();
                ["Via", "From", "To", "Call-ID", "CSeq", "Contact"].contains(&name)
            })
            .collect();
        let is_refused = copied
            .iter()
            .any(|line| line.starts_with("To:") && line.contains(refused));
        let status = match request.starts_with("REGISTER ") {
            true if is_refused => "403 Forbidden",
            true => "200 OK",
            false => "480 Temporarily Unavailable",
        };
        let headers: String = copied
            .iter()
            .map(|line| match line.starts_with("To:") {
                true => format!("{line};tag=1\r\n"),
                false => format!("{line}\r\n"),
            })
            .collect();
        let response =
            format!("SIP/2.0 {status}\r\n{headers}Expires: 3600\r\nContent-Length: 0\r\n\r\n");
        socket.send_to(response.as_bytes(), source).ok();
    }
}

/// Lines of progress say what is known when they are written, not what was known one line ago.
#[test]
fn progress_is_not_behind() {
    let mut said = String::new();
    let is_current = std::iter::repeat_with(|| {
        let output = tandem()
            .args(["load", "calls", "--direct", "--users", "2", "--rate", "50"])
            .args(["--duration", "3s", "--hold", "100ms"])
            .output()
            .expect("it runs");
        said = text(&output);
        let lines: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("in flight"))
            .collect();
        assert!(lines.iter().all(|line| !line.contains(" 0:00 ")), "{said}");
        lines.len() >= 2 && lines.iter().all(|line| !line.contains("completed 0 "))
    });
    // Where the machine stands still for a second nothing is completed in it.
    let is_current = is_current.take(5).any(|is_current| is_current);
    assert!(is_current, "{said}");
}

/// A user who cannot register takes nothing from the run of the others.
#[test]
fn the_run_begins_where_a_user_cannot_register() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let via = socket.local_addr().expect("an address").to_string();
    std::thread::spawn(move || answer_all_but_one(&socket, "user3@"));
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("load.json");
    let output = tandem()
        .args(["load", "calls", "--via", &via, "--role", "callers"])
        .args(["--users", "3", "-r", "50", "-m", "9", "--progress", "500ms"])
        .arg("--json")
        .arg(&json)
        .output()
        .expect("it runs");
    let said = text(&output);
    assert!(said.contains("1 of 3 users are not registered"), "{said}");
    let document = std::fs::read_to_string(json).expect(&said);
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let run = &document["runs"][0];
    assert_eq!(run["registration"]["registered"], 2, "{run}");
    assert_eq!(run["responses"]["INVITE"]["480"], 9, "{run}");
}
