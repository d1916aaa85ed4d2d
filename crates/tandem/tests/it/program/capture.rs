//! `tandem capture analyze` on captures whose true figures the generator of their calls knows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use test_support::{Namespace, Recorder, require_command, sip_counts_of_run, sip_counts_of_tshark};

use crate::program::support::{program_path, tandem};

/// Calls over UDP and TCP, recorded on the interface: sessions, outcomes and registrations are the
/// generator's, tshark counts the same messages.
#[test]
fn the_analyser_agrees_with_the_generator_and_with_tshark() {
    let Some(namespace) = Namespace::new() else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    let capture = file("calls.pcap");
    let Some(recorder) = Recorder::start(&capture, "udp or tcp", Some(&namespace)) else {
        return;
    };
    let output = namespace
        .command(program_path())
        .args(["demo", "--transport", "udp,tcp", "--loss", "0,5"])
        .args(["--calls", "100", "--html"])
        .arg(file("demo.html"))
        .arg("--json")
        .arg(file("demo.json"))
        .output()
        .expect("it runs");
    check(&output);
    recorder.finish();

    let demo = json(&file("demo.json"));
    let run = analyze(&capture, directory.path());
    agree_with_demo(&run, &demo);

    agree_whichever_clock(&capture, &run, directory.path());

    if let Some(theirs) = sip_counts_of_tshark(&capture, &[]) {
        assert_eq!(sip_counts_of_run(&run), theirs);
    }
}

/// The same capture by three clocks: the offsets are found and shown, and each message counts once.
fn agree_whichever_clock(capture: &Path, run: &Value, directory: &Path) {
    let Some(editcap) = require_command("editcap", "wireshark-common") else {
        return;
    };
    let offsets = ["0", "1.5", "-90.25"];
    let files: Vec<PathBuf> = offsets
        .iter()
        .map(|offset| {
            let file = directory.join(format!("by-{offset}.pcap"));
            let output = Command::new(&editcap)
                .args(["-F", "pcap", "-t", offset])
                .arg(capture)
                .arg(&file)
                .output()
                .expect("it runs");
            check(&output);
            file
        })
        .collect();
    let output = tandem()
        .args(["capture", "analyze"])
        .args(&files)
        .arg("--json")
        .arg(directory.join("merged.json"))
        .output()
        .expect("it runs");
    check(&output);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    for offset in ["1,500.000", "−90,250.000"] {
        assert!(shown.contains(offset), "{offset} in {shown}");
    }
    let merged = json(&directory.join("merged.json"))["runs"][0].clone();
    let found: Vec<f64> = merged["files"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|file| {
            assert_eq!(file["clock_uncertainty_nanoseconds"], 0, "{file}");
            file["clock_offset_nanoseconds"].as_f64().expect("a number") / 1e9
        })
        .collect();
    assert_eq!(found, offsets.map(|offset| offset.parse::<f64>().unwrap()));
    for member in ["sessions", "outcomes", "rfc6076", "delays_ms"] {
        assert_eq!(merged[member], run[member], "{member}");
    }
}

/// What goes wrong is said, with what to do about it and the right status.
#[test]
fn mistakes_are_explained() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    fs::write(file("text"), "no capture\n").expect("it can be written");
    // An empty pcap file: the header and no packet.
    let header: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];
    let octets: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    fs::write(file("empty.pcap"), &octets).expect("it can be written");
    fs::hard_link(file("empty.pcap"), file("other-name.pcap")).expect("it can be linked");
    fs::write(file("keys"), "CLIENT_RANDOM 00 00\n").expect("it can be written");
    let cut = [&octets[..], &[1, 2, 3]].concat();
    fs::write(file("cut.pcap"), cut).expect("it can be written");
    let run = |arguments: &[&str]| {
        tandem()
            .args(["capture", "analyze"])
            .args(arguments)
            .current_dir(directory.path())
            .stdin(fs::File::open(file("empty.pcap")).expect("it is there"))
            .output()
            .expect("it runs")
    };
    for (arguments, status, said) in [
        (&["nothing.pcap"][..], 1, "cannot open nothing.pcap"),
        (&["text"], 1, "neither pcap, pcapng, nor a text summary"),
        (&["empty.pcap"], 1, "--sctp-port"),
        (&["cut.pcap"], 1, "is damaged at octet 24"),
        (
            &["empty.pcap", "--csv", "empty.pcap"],
            2,
            "both read and written",
        ),
        (
            &["empty.pcap", "--csv", "other-name.pcap"],
            2,
            "both read and written",
        ),
        (&["-", "--csv", "empty.pcap"], 2, "both read and written"),
        (
            &["empty.pcap", "--key-log", "keys", "--json", "./keys"],
            2,
            "both read and written",
        ),
        (
            &["empty.pcap", "--csv", "new", "--json", "./new"],
            2,
            "./new is written twice",
        ),
        (
            &["empty.pcap", "--csv", "/dev/null", "--json", "/dev/null"],
            1,
            "--sctp-port",
        ),
        (&["-", "empty.pcap"], 2, "a pipe only once"),
        (
            &["empty.pcap", "--csv", "-", "--json", "-"],
            2,
            "- is written twice",
        ),
        (
            &["empty.pcap", "--json", "-", "--html", "-"],
            2,
            "- is written twice",
        ),
        (
            &["-", "--chunks", "--ladder", "x"],
            2,
            "reads the capture twice",
        ),
        (
            &["empty.pcap", "--ladder", "x"],
            1,
            "--csv FILE lists the Call-IDs",
        ),
        (&[], 2, "FILE"),
        (&["empty.pcap", "--decimal-comma"], 2, "--csv"),
    ] {
        let output = run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{arguments:?}: {errors}"
        );
        assert!(errors.contains(said), "{arguments:?}: {errors}");
    }
    assert_eq!(fs::read(file("empty.pcap")).expect("it is there"), octets);

    // What was found is shown although a file cannot be written.
    for written in ["--csv", "--json", "--html"] {
        let output = run(&["empty.pcap", written, "/dev/full"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{written}: {errors}");
        assert!(errors.contains("cannot write"), "{written}: {errors}");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains("empty.pcap"), "{written}: {shown}");
    }

    // Nor are the other files kept back, nor what is amiss with the capture.
    let output = run(&[
        "cut.pcap",
        "--csv",
        "/dev/full",
        "--json",
        "o.json",
        "--html",
        "o.html",
    ]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("cannot write /dev/full"), "{errors}");
    assert!(errors.contains("is damaged at octet 24"), "{errors}");
    assert_eq!(json(&file("o.json"))["runs"][0]["session_count"], 0);
    let page = fs::read_to_string(file("o.html")).expect("it was written");
    assert!(page.contains("</html>"), "{page}");

    // Each file that cannot be written is named.
    let output = run(&[
        "empty.pcap",
        "--csv",
        "/dev/full",
        "--json",
        "/dev/full",
        "--html",
        "/dev/full",
    ]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        errors.matches("cannot write /dev/full").count(),
        3,
        "{errors}"
    );
}

/// The sessions and registrations of the demo's runs are those of the capture.
pub(crate) fn agree_with_demo(run: &Value, demo: &Value) {
    let runs = demo["runs"].as_array().expect("a list");
    let total = |member: &str| -> u64 { runs.iter().filter_map(|run| run[member].as_u64()).sum() };
    let (attempted, completed) = (total("attempted"), total("completed"));
    assert_eq!(run["session_count"].as_u64(), Some(attempted));
    let seen = run["outcomes"]["completed"].as_u64().unwrap_or(0);
    // The run ends while some last calls are still going on.
    assert!(
        (completed..=completed + total("unfinished")).contains(&seen),
        "{completed} completed, {seen} seen"
    );
    assert_eq!(
        run["rfc6076"]["registration_request_delay_ms"]["count"].as_u64(),
        Some(total("users"))
    );

    // Call by call: user n calls user 8 + n, and everything happens in its order.
    let sessions = run["sessions"].as_array().expect("a list");
    assert_eq!(sessions.len() as u64, attempted);
    for session in sessions {
        let number = |member: &str| -> u64 {
            let name = session[member].as_str().expect("an address");
            let (user, _) = name.split_once('@').expect("user@host");
            user.trim_start_matches("user").parse().expect("a number")
        };
        assert_eq!(number("from") + 8, number("to"), "{session}");
        let time = |member: &str| session["timestamps_s"][member].as_f64();
        for order in [
            &[
                "REGISTER1",
                "200OK1",
                "INVITE1",
                "INVITE2",
                "SDP_OK1",
                "SDP_OK2",
            ][..],
            &["REGISTER2", "200OK2", "INVITE2"],
            &["INVITE1", "RINGING"],
            &["SDP_OK2", "ACK"],
        ] {
            let times: Vec<f64> = order.iter().filter_map(|member| time(member)).collect();
            // A 180 or an ACK may be lost before the wire for good, and the BYE be answered nevertheless.
            let may_lack = order.contains(&"RINGING") || order.contains(&"ACK");
            assert!(
                session["outcome"] != "completed" || may_lack || times.len() == order.len(),
                "{session}"
            );
            assert!(times.is_sorted(), "{order:?}: {session}");
        }
    }

    // On the wire a delay is no longer than within the user, who has it beside the work of others.
    let theirs: f64 = runs
        .iter()
        .filter_map(|run| {
            Some(run["session_request_delay_ms"]["mean"].as_f64()? * run["completed"].as_f64()?)
        })
        .sum();
    let delay = &run["rfc6076"]["session_request_delay_s"];
    let ours = delay["mean"].as_f64().unwrap() * 1e3 * delay["count"].as_f64().unwrap();
    let unfinished = total("unfinished") as f64 * delay["max"].as_f64().unwrap() * 1e3;
    assert!(
        ours > 0.0 && ours <= theirs * 1.05 + unfinished,
        "{ours} ms, {theirs} ms"
    );
}

/// Analyses a capture with every kind of output, and returns the run of its JSON.
pub(crate) fn analyze(capture: &Path, directory: &Path) -> Value {
    let file = |name: &str| directory.join(name);
    let output = tandem()
        .args(["capture", "analyze"])
        .arg(capture)
        .arg("--csv")
        .arg(file("sessions.csv"))
        .arg("--decimal-comma")
        .arg("--json")
        .arg(file("capture.json"))
        .arg("--html")
        .arg(file("capture.html"))
        .output()
        .expect("it runs");
    check(&output);
    let document = json(&file("capture.json"));
    for member in ["schema", "version", "machine", "seed", "parameters"] {
        assert!(!document[member].is_null(), "{member}");
    }
    let run = document["runs"][0].clone();
    // What tables say in words is a member, too.
    for member in [
        "undecided_sessions",
        "undecided_registrations",
        "standing_sessions",
        "sessions_that_can_be_lost",
    ] {
        assert!(run[member].is_u64(), "{member}");
    }

    let csv = fs::read_to_string(file("sessions.csv")).expect("it was written");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(
        lines.len() as u64,
        1 + run["session_count"].as_u64().unwrap()
    );
    assert!(
        lines[0].starts_with("session;Call-ID;from;to;")
            && lines[0].contains(";REGISTER1;200OK1;INVITE1;RINGING;SDP_OK2;ACK;"),
        "{}",
        lines[0]
    );
    for (number, line) in lines[1..].iter().enumerate() {
        assert!(
            line.starts_with(&format!("{};", number + 1)),
            "in order: {line}"
        );
        let began = line.split(';').nth(5).expect("when it began");
        assert!(began.contains(',') && !began.contains('.'), "{line}");
    }
    let page = fs::read_to_string(file("capture.html")).expect("it was written");
    assert!(page.contains("Slowest calls") && page.contains("class=\"plot ladder\""));

    let call_id = run["sessions"][0]["call_ids"][0]
        .as_str()
        .expect("a Call-ID");
    let output = tandem()
        .args(["capture", "analyze"])
        .arg(capture)
        .args(["--ladder", call_id, "--chunks"])
        .output()
        .expect("it runs");
    check(&output);
    let ladder = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        ladder.contains("INVITE") && ladder.contains("180 Ringing"),
        "{ladder}"
    );
    let is_sctp = run["sctp"]["packets"].as_u64() > Some(0);
    // As in Pang 2003, figures 5.5 to 5.7: the handshake before the first call belongs to it.
    for chunk in ["INIT", "COOKIE ECHO", "SACK"] {
        assert_eq!(ladder.contains(chunk), is_sctp, "{chunk}: {ladder}");
    }
    run
}

pub(crate) fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("it was written");
    serde_json::from_str(&text).expect("JSON")
}

pub(crate) fn check(output: &Output) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}
