//! Calls of SIPp through a Kamailio that sends copies of its messages by HEP (`siptrace`): `tandem capture live --hep` hears
//! of every one.

use std::process::Command;

use test_support::{Peer, Recorder, sip_counts_of_run, wait_until};

use crate::interop::LIMIT;
use crate::interop::capture::analyze;
use crate::interop::kamailio;
use crate::interop::sipp::{Sipp, scenario};

const CALLS: u64 = 20;

#[test]
fn what_kamailio_traces_is_heard() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("hep.json");
    let mut live = Peer::spawn(
        Command::new(env!("CARGO_BIN_EXE_tandem"))
            .args(["capture", "live", "--hep", "udp:127.0.0.1:0", "--json"])
            .arg(&json),
    );
    live.wait_for_output("listening on udp:127.0.0.1:", LIMIT);
    let output = live.output();
    let (_, after) = output.split_once("udp:127.0.0.1:").expect("it says so");
    let (port, _) = after.split_once(';').expect("more follows");
    let Some(kamailio) = kamailio::tracing(port) else {
        return;
    };
    let wire = directory.path().join("wire.pcap");
    let Some(recorder) = Recorder::start(&wire, &format!("port {}", kamailio.port), None) else {
        return;
    };
    let answers = scenario("callee.xml");
    let answers = answers.to_str().expect("a UTF-8 path");
    let registers = ["-m", "1", "-oocsf", answers];
    let users = ["callee"; 2];
    let Some(_callee) = Sipp::start(
        "callee-register.xml",
        "udp",
        kamailio.port,
        users,
        &registers,
    ) else {
        return;
    };
    let is_registered = wait_until(LIMIT, || {
        std::fs::read(&wire)
            .is_ok_and(|octets| String::from_utf8_lossy(&octets).contains("SIP/2.0 200 OK"))
    });
    assert!(is_registered, "the callee does not register");
    let calls = CALLS.to_string();
    let calls = ["-m", &calls, "-r", "20"];
    let users = ["caller", "callee"];
    let Some(mut caller) = Sipp::start("caller.xml", "udp", kamailio.port, users, &calls) else {
        return;
    };
    let status = caller.process.wait(2 * LIMIT);
    assert!(status.success(), "not every call came about: {status}");
    recorder.finish();
    crate::program::support::send_signal(live.id(), "INT");
    live.wait(LIMIT);

    let text = std::fs::read_to_string(&json).expect("it was written");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let heard = &document["runs"][0];
    assert_eq!(heard["session_count"], CALLS, "{heard}");
    assert_eq!(heard["outcomes"]["completed"], CALLS, "{heard}");
    assert_eq!(heard["files"][0]["passed_over"]["malformed"], 0);
    // As many of each message as went over the wire.
    let seen = analyze(&wire, directory.path());
    assert_eq!(sip_counts_of_run(heard), sip_counts_of_run(&seen));
    for session in heard["sessions"].as_array().expect("a list") {
        assert_eq!(session["transport"], "udp", "{session}");
    }
}
