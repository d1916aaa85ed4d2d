//! Calls of SIPp through Kamailio, recorded by tcpdump: `tandem capture analyze` agrees with what SIPp knows of
//! its own calls, call by call.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use test_support::{Recorder, sip_counts_of_run, sip_counts_of_tshark};

use crate::interop::LIMIT;
use crate::interop::kamailio;
use crate::interop::sipp::{Sipp, scenario};

const CALLS: u64 = 200;

#[test]
fn calls_through_kamailio_over_udp_are_seen() {
    calls_through_kamailio_are_seen("udp");
}

#[test]
fn calls_through_kamailio_over_tcp_are_seen() {
    calls_through_kamailio_are_seen("tcp");
}

fn calls_through_kamailio_are_seen(transport: &str) {
    // The port of a proxy that has no part in this.
    let Some(kamailio) = kamailio::before(transport, 9) else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let capture = directory.path().join("calls.pcap");
    let Some(recorder) = Recorder::start(&capture, &format!("port {}", kamailio.port), None) else {
        return;
    };

    let answers = scenario("callee.xml");
    let answers = answers.to_str().expect("a UTF-8 path");
    let registers = ["-m", "1", "-oocsf", answers];
    let users = ["callee"; 2];
    let Some(_callee) = Sipp::start(
        "callee-register.xml",
        transport,
        kamailio.port,
        users,
        &registers,
    ) else {
        return;
    };
    let calls = CALLS.to_string();
    let arguments = [
        &["-m", &calls, "-r", "100", "-l", "100"][..],
        &["-trace_stat", "-trace_rtt", "-rtt_freq", "1"],
    ]
    .concat();
    // The first call waits for the registration: SIPp sends the INVITE again where there is no callee yet.
    let is_registered = test_support::wait_until(LIMIT, || {
        fs::read(&capture).is_ok_and(|octets| {
            let text = String::from_utf8_lossy(&octets);
            text.contains("REGISTER sip:") && text.contains("SIP/2.0 200 OK")
        })
    });
    assert!(is_registered, "the callee does not register");
    let users = ["caller", "callee"];
    let Some(mut caller) = Sipp::start("caller.xml", transport, kamailio.port, users, &arguments)
    else {
        return;
    };
    let status = caller.process.wait(2 * LIMIT);
    assert!(status.success(), "not every call came about: {status}");
    let process = caller.process.id();
    recorder.finish();

    let run = analyze(&capture, directory.path());
    if let Some(theirs) = sip_counts_of_tshark(&capture, &[]) {
        assert_eq!(sip_counts_of_run(&run), theirs);
    }
    let statistics = Statistics::read(caller.directory.path());
    assert_eq!(run["session_count"].as_u64(), Some(statistics.calls));
    assert_eq!(
        run["outcomes"]["completed"].as_u64(),
        Some(statistics.successful)
    );
    assert_eq!(statistics.successful, CALLS);
    assert_eq!(run["registrations"], 1);
    for ratio in ["establishment", "completion"] {
        assert_eq!(
            run["rfc6076"][format!("session_{ratio}_ratio_percent")],
            100.0,
            "{ratio}"
        );
    }

    // Each call, by the Call-ID that SIPp gives it.
    let sessions = run["sessions"].as_array().expect("a list");
    let seen: BTreeSet<String> = sessions
        .iter()
        .map(|session| {
            session["call_ids"][0]
                .as_str()
                .expect("a Call-ID")
                .to_owned()
        })
        .collect();
    let made = (1..=CALLS).map(|number| format!("{number}-{process}@127.0.0.1"));
    assert_eq!(seen, made.collect());

    // From the INVITE to the 200. SIPp looks at the clock once a turn, which may be some milliseconds before it
    // reads what came.
    let mut ours: Vec<f64> = sessions.iter().map(answered_after).collect();
    ours.sort_by(f64::total_cmp);
    let theirs = &statistics.response_times;
    assert_eq!(ours.len(), theirs.len());
    let (ours, theirs) = (ours[ours.len() / 2], theirs[theirs.len() / 2]);
    assert!(
        ours > 0.0 && ours <= theirs + 20.0,
        "{ours} ms, SIPp: {theirs} ms"
    );
}

/// Milliseconds from an INVITE's arrival at Kamailio to its 200 leaving there.
fn answered_after(session: &Value) -> f64 {
    let time = |name: &str| session["timestamps_s"][name].as_f64().expect(name);
    assert!(time("INVITE2") < time("SDP_OK1"), "{session}");
    (time("SDP_OK2") - time("INVITE1")) * 1e3
}

/// What SIPp says of its calls.
struct Statistics {
    calls: u64,
    successful: u64,
    /// Milliseconds, in order.
    response_times: Vec<f64>,
}

impl Statistics {
    fn read(directory: &Path) -> Statistics {
        let file = |ending: &str| {
            let entries = fs::read_dir(directory).expect("a directory");
            let path = entries
                .filter_map(|entry| Some(entry.ok()?.path()))
                .find(|path| path.to_string_lossy().ends_with(ending))
                .unwrap_or_else(|| panic!("no file ends with {ending}"));
            fs::read_to_string(path).expect("text")
        };
        let statistics = file("_.csv");
        let mut lines = statistics.lines();
        let names: Vec<&str> = lines.next().expect("names").split(';').collect();
        let last: Vec<&str> = lines.next_back().expect("figures").split(';').collect();
        let value = |name: &str| {
            let at = names.iter().position(|known| *known == name).expect(name);
            last[at].parse().expect("a number")
        };
        let times = file("_rtt.csv");
        let mut response_times: Vec<f64> = times
            .lines()
            .filter_map(|line| line.split(';').nth(1)?.trim().parse().ok())
            .collect();
        response_times.sort_by(f64::total_cmp);
        Statistics {
            calls: value("TotalCallCreated"),
            successful: value("SuccessfulCall(C)"),
            response_times,
        }
    }
}

/// The run that `tandem capture analyze` writes of a capture.
pub(crate) fn analyze(capture: &Path, directory: &Path) -> Value {
    let json = directory.join("capture.json");
    let output = Command::new(env!("CARGO_BIN_EXE_tandem"))
        .args(["capture", "analyze"])
        .arg(capture)
        .arg("--json")
        .arg(&json)
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = fs::read_to_string(json).expect("it was written");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    document["runs"][0].clone()
}
