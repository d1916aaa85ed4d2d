//! `tandem demo` as a person runs it, short.

use std::process::Output;
use std::time::Duration;

use test_support::Peer;

use crate::program::support::{send_signal, tandem};

#[test]
fn calls_complete_without_loss_over_every_transport() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("demo.json");
    let html = directory.path().join("demo.html");
    let output = tandem()
        .args(["demo", "--calls", "50", "--loss", "0", "--seed", "7"])
        .args([
            "--json".as_ref(),
            json.as_os_str(),
            "--html".as_ref(),
            html.as_os_str(),
        ])
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text(&output));

    let document: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("written")).expect("JSON");
    assert_eq!(document["schema"], 1);
    assert_eq!(document["seed"], 7);
    assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
    assert!(
        document["machine"]["cores"]
            .as_u64()
            .is_some_and(|cores| cores > 0)
    );
    assert!(document["parameters"].is_object());
    let runs = document["runs"].as_array().expect("runs");
    let lines: Vec<_> = runs
        .iter()
        .map(|run| (run["transport"].as_str().unwrap(), run["profile"].as_str()))
        .collect();
    let sctp = |profile| ("sctp", Some(profile));
    assert_eq!(
        lines,
        [
            ("udp", None),
            ("tcp", None),
            sctp("signalling"),
            sctp("rfc9260")
        ]
    );
    for run in runs {
        assert_eq!(run["attempted"], 50, "{run}");
        assert_eq!(run["completed"], 50, "{run}");
        assert_eq!(run["failed"], 0, "{run}");
        assert_eq!(run["unfinished"], 0, "{run}");
        assert_eq!(run["causes"], serde_json::json!({}), "{run}");
        assert_eq!(
            run["failed_session_request_delay_ms"]["p95"],
            serde_json::Value::Null
        );
        for delay in [
            "registration_delay_ms",
            "session_request_delay_ms",
            "session_disconnect_delay_ms",
        ] {
            for statistic in ["mean", "p50", "p95", "max"] {
                assert!(
                    run[delay][statistic].as_f64().is_some(),
                    "{delay} {statistic} in {run}"
                );
            }
        }
        // A call over UDP is at least an INVITE, 100, 180, 200, ACK, BYE and 200 on the caller's side,
        // and six of these on the callee's.
        if run["transport"] == "udp" {
            assert!(run["packets_per_call"].as_f64().unwrap() >= 13.0, "{run}");
        }
        assert!(run["packets_per_call"].as_f64().unwrap() > 0.0, "{run}");
        assert!(run["bytes_per_call"].as_f64().unwrap() > 1000.0, "{run}");
    }
    let page = std::fs::read_to_string(&html).expect("written");
    assert!(page.matches("<svg").count() >= 2);
}

#[test]
fn lossy_runs_finish_and_repeat_what_was_lost() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("demo.json");
    let html = directory.path().join("demo.html");
    let output = tandem()
        .args([
            "demo",
            "--seconds",
            "8",
            "--loss",
            "5",
            "--transport",
            "udp,sctp",
        ])
        .args(["--associations", "per-user", "--users", "4"])
        .args([
            "--json".as_ref(),
            json.as_os_str(),
            "--html".as_ref(),
            html.as_os_str(),
        ])
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    let document: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("written")).expect("JSON");
    for run in document["runs"].as_array().expect("runs") {
        assert!(run["completed"].as_u64().unwrap() > 0, "{run}");
        let again = if run["transport"] == "udp" {
            "sip"
        } else {
            "transport"
        };
        assert!(
            run[format!("{again}_retransmissions")].as_u64().unwrap() > 0,
            "{run}"
        );
    }
}

#[test]
fn arguments_that_make_no_sense_are_named() {
    for (arguments, named) in [
        (vec!["--loss", "5,many"], "--loss"),
        (vec!["--loss", "101"], "--loss"),
        (vec!["--transport", "tls"], "--transport"),
        (vec!["--transport", "pigeon"], "--transport"),
        (vec!["--delay", "20"], "--delay"),
        (vec!["--users", "0"], "--users"),
        (vec!["--users", "many"], "--users"),
        (vec!["--seed", "x"], "--seed"),
        (vec!["--seconds", "0"], "--seconds"),
        (vec!["--calls", "0"], "--calls"),
        (vec!["--rate", "-1"], "--rate"),
        (vec!["--associations", "some"], "--associations"),
        (vec!["--seconds", "1", "--calls", "1"], "--calls"),
        (vec!["--transport", "tcp", "--loss", "5"], "--loss"),
        (vec!["--profile", "SIP"], "--profile"),
    ] {
        let output = tandem()
            .arg("demo")
            .args(&arguments)
            .output()
            .expect("it runs");
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            text(&output)
        );
        assert!(
            text(&output).contains(named),
            "{arguments:?}: {}",
            text(&output)
        );
    }
}

/// A file that cannot be written is found out at once, not after the runs.
#[test]
fn a_file_that_cannot_be_written_is_named() {
    for option in ["--html", "--json"] {
        let output = tandem()
            .args(["demo", option, "/no/such/directory/file"])
            .current_dir(env!("CARGO_TARGET_TMPDIR"))
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output).contains("/no/such/directory/file"),
            "{option}"
        );
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn an_interrupted_demo_shows_and_writes_the_runs_that_have_finished() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("demo.json");
    let mut command = tandem();
    command
        .current_dir(directory.path())
        .args([
            "demo",
            "--seconds",
            "2",
            "--transport",
            "udp,sctp",
            "--json",
        ])
        .arg(&json);
    let mut peer = Peer::spawn(&mut command);
    // The run over UDP without loss is over, and another one is not.
    std::thread::sleep(Duration::from_millis(3500));
    send_signal(peer.id(), "INT");
    let status = peer.wait(Duration::from_secs(20));
    assert_eq!(status.code(), Some(130), "{}", peer.output());
    let document = std::fs::read_to_string(&json).expect("written");
    let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
    let runs = document["runs"].as_array().expect("runs");
    assert!((1..10).contains(&runs.len()), "{}", runs.len());
    assert!(directory.path().join("tandem-demo.html").exists());
}

#[test]
fn a_capture_ends_at_its_limit_and_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let pcap = directory.path().join("demo.pcapng");
    let output = tandem()
        .current_dir(directory.path())
        .args([
            "demo",
            "--calls",
            "50",
            "--loss",
            "0",
            "--transport",
            "sctp",
        ])
        .args(["--pcap-limit", "20K", "--pcap"])
        .arg(&pcap)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    let size = std::fs::metadata(&pcap).expect("written").len();
    assert!((10_000..25_000).contains(&size), "{size} bytes");
    assert!(
        text(&output).contains("the capture ends early: it lacks the last"),
        "{}",
        text(&output)
    );
}
