//! SIPp as registering user, caller and callee, through `tandem proxy`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::program::support::Proxy;
use test_support::{Peer, free_udp_port, require_command};

/// Calls, and registrations, of each test.
const CALLS: u32 = 1000;

/// Calls begun per second: far below what either side can do, so that a failure is one of behaviour.
const CALLS_PER_SECOND: u32 = 200;

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn users_register_over_udp() {
    users_register("udp", "u1");
}

#[test]
fn users_register_over_tcp() {
    users_register("tcp", "t1");
}

#[test]
fn calls_over_udp() {
    calls("udp", "u1", "udp", "u1");
}

#[test]
fn calls_over_tcp() {
    calls("tcp", "t1", "tcp", "t1");
}

#[test]
fn calls_from_udp_to_tcp() {
    calls("udp", "u1", "tcp", "t1");
}

fn users_register(transport: &str, sipp_transport: &str) {
    let Some(sipp) = require_command("sipp", "sip-tester") else {
        return;
    };
    let proxy = Proxy::start();
    let mut users = run(
        &sipp,
        "register.xml",
        sipp_transport,
        proxy.port(transport),
        &[
            "-m",
            &CALLS.to_string(),
            "-r",
            &CALLS_PER_SECOND.to_string(),
        ],
    );
    assert_all_succeeded(&mut users);
}

/// Calls from a SIPp on one transport to a SIPp that registered on another (or the same).
fn calls(caller_transport: &str, caller_sipp: &str, callee_transport: &str, callee_sipp: &str) {
    let Some(sipp) = require_command("sipp", "sip-tester") else {
        return;
    };
    let proxy = Proxy::start();
    let callee_scenario = scenario("callee.xml");
    let callee_scenario = callee_scenario.to_str().expect("a UTF-8 path");
    let _callee = run(
        &sipp,
        "callee-register.xml",
        callee_sipp,
        proxy.port(callee_transport),
        &["-m", "1", "-oocsf", callee_scenario],
    );
    let mut log = proxy.peer;
    log.wait_for_output("callee", LIMIT);
    let proxy = Proxy { peer: log };
    let mut callers = run(
        &sipp,
        "caller.xml",
        caller_sipp,
        proxy.port(caller_transport),
        &[
            "-m",
            &CALLS.to_string(),
            "-r",
            &CALLS_PER_SECOND.to_string(),
            "-l",
            "500",
        ],
    );
    assert_all_succeeded(&mut callers);
}

/// Starts SIPp on a scenario of ours against a port of the proxy.
fn run(sipp: &Path, file: &str, transport: &str, proxy_port: u16, arguments: &[&str]) -> Peer {
    let mut command = Command::new(sipp);
    command
        .arg(format!("127.0.0.1:{proxy_port}"))
        .arg("-sf")
        .arg(scenario(file))
        .args([
            "-t",
            transport,
            "-i",
            "127.0.0.1",
            "-p",
            &free_udp_port().to_string(),
        ])
        .args(["-mp", &free_udp_port().to_string()])
        .args([
            "-nostdin",
            "-timeout",
            "110",
            "-timeout_error",
            "-trace_err",
            "-max_retrans",
            "5",
        ])
        .args(arguments)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env("TERM", "dumb");
    Peer::spawn(&mut command)
}

fn scenario(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sipp")
        .join(file)
}

/// SIPp's exit status is 0 when every call succeeded; its last screen must say how many there were.
fn assert_all_succeeded(sipp: &mut Peer) {
    let status = sipp.wait(LIMIT);
    assert!(status.success(), "SIPp ended with {status}");
    let output = sipp.output();
    let successful = final_count(&output, "Successful call");
    let failed = final_count(&output, "Failed call");
    println!("SIPp: {successful} calls succeeded, {failed} failed");
    assert_eq!((successful, failed), (CALLS, 0));
}

/// The cumulative column of a line of SIPp's final statistics: `Successful call | 0 | 1000`.
fn final_count(output: &str, name: &str) -> u32 {
    let line = output
        .lines()
        .rfind(|line| line.trim_start().starts_with(name))
        .unwrap_or_else(|| panic!("SIPp printed no \"{name}\""));
    line.rsplit('|')
        .next()
        .and_then(|count| count.trim().parse().ok())
        .expect("a count")
}
