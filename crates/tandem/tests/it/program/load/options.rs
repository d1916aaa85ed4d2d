//! Options that the other tests do not give, several in a run.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::{load, text};
use crate::program::support::Proxy;

/// What a command with options against our own proxy writes as JSON; the program ends well, or says that the
/// machine was too busy.
fn measured(command: &str, proxy: &Proxy, directory: &TempDir, arguments: &[&str]) -> Value {
    let json = directory.path().join("load.json");
    let path = json.to_str().expect("a UTF-8 path");
    let output = load(
        command,
        proxy,
        "udp",
        &[arguments, &["--json", path]].concat(),
    );
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        text(&output)
    );
    let document = std::fs::read_to_string(&json).expect("a document");
    serde_json::from_str(&document).expect("JSON")
}

#[test]
fn rates_grow_and_arrivals_are_random() {
    let (proxy, directory) = (Proxy::start(), tempfile::tempdir().expect("a directory"));
    let random = measured(
        "calls",
        &proxy,
        &directory,
        &[
            "--users",
            "5",
            "-r",
            "20",
            "--ramp",
            "200/1s",
            "--arrivals",
            "poisson",
            "--no-retransmit",
            "-m",
            "40",
            "--answer-within",
            "20s",
            "--redirections",
            "3",
            "--workers",
            "1",
        ],
    );
    assert_eq!(random["runs"][0]["calls"]["completed"], 40, "{random}");
    assert_eq!(random["runs"][0]["retransmissions"], 0, "{random}");
    let parameters = &random["parameters"];
    for (name, value) in [
        ("arrivals", Value::from("poisson")),
        ("rate_per_second", 20.0.into()),
        ("ramp_to_per_second", 200.0.into()),
        ("ramp_seconds", 1.0.into()),
        ("retransmit", false.into()),
        ("answer_within_seconds", 20.0.into()),
        ("redirections", 3.into()),
        ("workers", 1.into()),
        ("expires_seconds", 3600.0.into()),
        ("keep_registered", false.into()),
    ] {
        assert_eq!(parameters[name], value, "{name} in {parameters}");
    }

    let steps = measured(
        "options",
        &proxy,
        &directory,
        &[
            "-r",
            "50",
            "--step",
            "50/300ms",
            "--rate-max",
            "150",
            "--duration",
            "1s",
        ],
    );
    // 15 + 30 + 60, where the generator kept its schedule; 50 would come without the steps.
    let run = &steps["runs"][0];
    let offered = run["arrivals"]["offered"].as_u64().expect("a count");
    assert!(offered <= 106, "{run}");
    if run["validity"]["valid"] == true {
        assert!(offered >= 100, "{run}");
    }
    assert_eq!(steps["parameters"]["rate_max_per_second"], 150.0);
}

/// One second of silence in linear samples, as WAV has it.
fn write_silence(path: &Path) {
    const RATE: u32 = 8000;
    let octets = 2 * RATE;
    let mut wav = b"RIFF".to_vec();
    wav.extend((36 + octets).to_le_bytes());
    wav.extend(b"WAVEfmt ");
    wav.extend(16_u32.to_le_bytes());
    // PCM, one channel.
    wav.extend([1, 0, 1, 0]);
    wav.extend(RATE.to_le_bytes());
    wav.extend(octets.to_le_bytes());
    wav.extend([2, 0, 16, 0]);
    wav.extend(b"data");
    wav.extend(octets.to_le_bytes());
    wav.resize(wav.len() + octets as usize, 0);
    std::fs::write(path, wav).expect("written");
}

#[test]
fn calls_have_media_from_a_file() {
    let (proxy, directory) = (Proxy::start(), tempfile::tempdir().expect("a directory"));
    let wav = directory.path().join("silence.wav");
    write_silence(&wav);
    let wav = wav.to_str().expect("a UTF-8 path");
    let document = measured(
        "calls",
        &proxy,
        &directory,
        &[
            "--users", "2", "-r", "20", "-m", "4", "--hold", "300ms", "--media", wav,
        ],
    );
    let run = &document["runs"][0];
    assert_eq!(run["calls"]["completed"], 4, "{run}");
    let sent = run["media"]["callers"]["packets_sent"].as_u64();
    assert!(sent > Some(0), "{run}");
}

/// A scenario of ours with timers on both sides.
const CALL: &str = r#"
[[caller]]
send = "INVITE"
sdp = true
start_timer = "answer"

[[caller]]
expect = "1xx"
optional = true

[[caller]]
expect = 200
stop_timer = "answer"

[[caller]]
send = "ACK"

[[caller]]
send = "BYE"

[[caller]]
expect = 200


[[callee]]
expect = "INVITE"
start_timer = "until the ACK"

[[callee]]
send = 200
sdp = true

[[callee]]
expect = "ACK"
stop_timer = "until the ACK"

[[callee]]
expect = "BYE"

[[callee]]
send = 200
"#;

#[test]
fn scenarios_are_read_from_files_and_their_timers_have_names() {
    let (proxy, directory) = (Proxy::start(), tempfile::tempdir().expect("a directory"));
    let sipp = include_str!("../../../sipp/caller.xml").replace("sip:callee@", "sip:[service]@");
    for (name, text, timers) in [
        ("call.toml", CALL, &["answer", "until the ACK"][..]),
        ("call.xml", &sipp, &["1"]),
    ] {
        let file = directory.path().join(name);
        std::fs::write(&file, text).expect("written");
        let page = directory.path().join("load.html");
        let document = measured(
            "calls",
            &proxy,
            &directory,
            &[
                "--users",
                "3",
                "-r",
                "50",
                "-m",
                "12",
                "--scenario",
                file.to_str().expect("a UTF-8 path"),
                "--html",
                page.to_str().expect("a UTF-8 path"),
            ],
        );
        let run = &document["runs"][0];
        assert_eq!(run["calls"]["completed"], 12, "{run}");
        let measured = run["timers_ms"].as_object().expect("timers");
        let names: Vec<&String> = measured.keys().collect();
        assert_eq!(names, timers, "{run}");
        let page = std::fs::read_to_string(&page).expect("a page");
        for timer in timers {
            assert_eq!(measured[*timer]["count"], 12, "{run}");
            assert!(page.contains(timer), "{timer} is not on the page");
        }
        assert!(
            page.contains("Distribution of the scenario&#39;s times"),
            "{page}"
        );
    }
}
