//! Against SIPp: our scenarios against its own, and its own carried out by us, in both directions.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use load::driver::{GeneratorConfig, LoadGenerator, LoadPlan, MediaPlan, TaskKind};
use load::media::{Clip, Mode};
use load::record::Party;
use load::scenario::Scenario;
use load::script::ScriptId;
use test_support::{Peer, free_udp_port, require_command};

use crate::scenarios::{Callees, TIMEOUT, assert_completed, attempts, config, options};

/// Calls of a test.
const CALLS: u64 = 30;

/// A SIPp that runs one of its own scenarios, and ends after so many calls.
fn start(
    program: &Path,
    scenario: &str,
    to: Option<u16>,
    port: u16,
    calls: u64,
) -> (Peer, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(program);
    command
        .args(["-sn", scenario, "-i", "127.0.0.1"])
        .args(["-p", &port.to_string(), "-mp", &free_udp_port().to_string()])
        .args(["-m", &calls.to_string(), "-r", "50", "-nostdin"])
        .args(["-timeout", "50", "-timeout_error", "-trace_err"])
        .args(to.map(|to| format!("127.0.0.1:{to}")))
        .current_dir(directory.path())
        .env("TERM", "dumb");
    (Peer::spawn(&mut command), directory)
}

/// A scenario of SIPp's own, read by us.
fn built_in(program: &Path, name: &str) -> Scenario {
    let output = Command::new(program).args(["-sd", name]).output();
    let xml = output.expect("sipp runs").stdout;
    let file = PathBuf::from(format!("{name}.xml"));
    Scenario::read(&file, &xml, &options()).unwrap_or_else(|error| panic!("{error}"))
}

fn program() -> Option<PathBuf> {
    require_command("sipp", "sip-tester")
}

/// Waits until SIPp has ended, and demands that it says that all went well.
fn assert_contented(mut sipp: Peer, name: &str) {
    let status = sipp.wait(TIMEOUT);
    assert_eq!(status.code(), Some(0), "{name}: {}", sipp.output());
}

async fn we_call(scenario: &Scenario, callee: &str, calls: u64) {
    let Some(program) = program() else { return };
    let port = free_udp_port();
    let (sipp, _directory) = start(&program, callee, None, port, calls);
    sipp_listens(port);
    let config = GeneratorConfig {
        target: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        direct: true,
        ..config(scenario)
    };
    let attempts = attempts(config, calls).await;
    let name = format!("{} calls SIPp's {callee}", scenario.name);
    assert_completed(&attempts, Party::Caller, calls as usize, &name);
    tokio::task::spawn_blocking(move || assert_contented(sipp, &name))
        .await
        .expect("no panic");
}

async fn sipp_calls(caller: &str, scenario: &Scenario, calls: u64) {
    let Some(program) = program() else { return };
    let callees = Callees::start(config(scenario)).await;
    let (sipp, _directory) = start(&program, caller, Some(callees.port), free_udp_port(), calls);
    let name = format!("SIPp's {caller} calls {}", scenario.name);
    let told = name.clone();
    tokio::task::spawn_blocking(move || assert_contented(sipp, &told))
        .await
        .expect("no panic");
    let attempts = callees.stop().await;
    assert_completed(&attempts, Party::Callee, calls as usize, &name);
}

/// Returns when the port is taken.
fn sipp_listens(port: u16) {
    let taken = || std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_err();
    assert!(
        test_support::wait_until(TIMEOUT, taken),
        "SIPp does not listen"
    );
}

#[tokio::test]
async fn our_callers_call_sipp() {
    let scenario = Scenario::built_in("rfc3665-3.5", &options())
        .unwrap()
        .unwrap();
    let caller = Scenario {
        callee: None,
        ..scenario
    };
    we_call(&caller, "uas", CALLS).await;
}

#[tokio::test]
async fn sipp_calls_our_callees() {
    let scenario = Scenario::built_in("rfc3665-3.5", &options())
        .unwrap()
        .unwrap();
    let callee = Scenario {
        caller: None,
        ..scenario
    };
    sipp_calls("uac", &callee, CALLS).await;
}

#[tokio::test]
async fn scenarios_of_sipp_call_sipp() {
    let Some(program) = program() else { return };
    for (caller, callee) in [("uac", "uas"), ("regexp", "uas"), ("branchc", "branchs")] {
        we_call(&built_in(&program, caller), callee, CALLS).await;
    }
}

#[tokio::test]
async fn sipp_calls_scenarios_of_sipp() {
    let Some(program) = program() else { return };
    for (caller, callee) in [("uac", "uas"), ("regexp", "uas"), ("branchc", "branchs")] {
        sipp_calls(caller, &built_in(&program, callee), CALLS).await;
    }
}

#[tokio::test]
async fn scenarios_of_sipp_call_each_other() {
    let Some(program) = program() else { return };
    for (caller, callee) in [("uac", "uas"), ("regexp", "uas"), ("branchc", "branchs")] {
        let scenario = Scenario {
            callee: built_in(&program, callee).callee,
            ..built_in(&program, caller)
        };
        let config = GeneratorConfig {
            direct: true,
            ..config(&scenario)
        };
        let attempts = attempts(config, CALLS).await;
        assert_completed(&attempts, Party::Caller, CALLS as usize, caller);
        assert_completed(&attempts, Party::Callee, CALLS as usize, callee);
    }
}

/// SIPp sends back what it hears; our calls play a capture, keys, and a coded sound over and over.
#[tokio::test]
async fn what_a_scenario_plays_comes_back_from_sipp() {
    const PACKETS: u64 = 7 + 20;
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.ul"), [0x55; 1600]).unwrap();
    let uac = Command::new(&program).args(["-sd", "uac"]).output();
    let uac = String::from_utf8(uac.expect("sipp runs").stdout).unwrap();
    let play = "<nop><action><exec play_dtmf=\"5\"/></action></nop><pause milliseconds=\"300\"/>\
                <nop><action><exec rtp_stream=\"a.ul,2,0\"/></action></nop><pause milliseconds=\"600\"/>";
    let at = uac.find("<pause").expect("a pause");
    let path = folder.path().join("playing.xml");
    std::fs::write(&path, format!("{}{play}{}", &uac[..at], &uac[at..])).unwrap();
    let scenario = Scenario::load(&path, &options()).unwrap_or_else(|error| panic!("{error}"));
    let port = free_udp_port();
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(&program);
    command
        .args([
            "-sn",
            "uas",
            "-rtp_echo",
            "-i",
            "127.0.0.1",
            "-mi",
            "127.0.0.1",
        ])
        .args(["-p", &port.to_string(), "-mp", &free_udp_port().to_string()])
        .args(["-m", "2", "-nostdin", "-timeout", "50"])
        .current_dir(directory.path())
        .env("TERM", "dumb");
    let sipp = Peer::spawn(&mut command);
    sipp_listens(port);
    let config = GeneratorConfig {
        target: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        direct: true,
        media: Some(MediaPlan {
            clip: Clip::tone(440),
            callers: Mode::Sink,
            callees: Mode::Sink,
            agreed: Vec::new(),
        }),
        ..config(&scenario)
    };
    let mut load = LoadGenerator::start(config).await.expect("it starts");
    let plan = LoadPlan::at_rate(TaskKind::Script(ScriptId(0)), 50.0, 2);
    let outcome = load.run(plan).await.expect("it runs");
    load.shutdown().await;
    tokio::task::spawn_blocking(move || assert_contented(sipp, "playing"))
        .await
        .expect("no panic");
    let callers = outcome.media.expect("media").callers;
    assert_eq!(callers.sum.sent, 2 * PACKETS);
    // What is not G.711 has come back too, but is no sound.
    assert!(callers.sum.received >= 2 * 15, "{:?}", callers.sum);
}
