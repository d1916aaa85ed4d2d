//! `tandem phone`: calls through `tandem proxy`, and what it says when something is wrong.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use media::wav::{self, Sound};

use crate::program::support::{Proxy, tandem};

/// Longer than anything takes.
const LIMIT: Duration = Duration::from_secs(30);

fn phone(arguments: &[&str]) -> Command {
    let mut command = tandem();
    command.arg("phone").args(arguments).arg("--json");
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

/// Reads events until one is of this kind.
fn wait_for(lines: &mut impl BufRead, event: &str) -> serde_json::Value {
    let begin = Instant::now();
    let mut line = String::new();
    while begin.elapsed() < LIMIT {
        line.clear();
        if lines.read_line(&mut line).expect("readable") == 0 {
            break;
        }
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        if value["event"] == event {
            return value;
        }
    }
    panic!("no event {event}");
}

fn success(mut child: Child) {
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
}

/// Two registered phones over SCTP: one plays a file, the other one records it.
#[test]
fn a_file_is_played_through_a_call_over_sctp() {
    let proxy = Proxy::start();
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (played, recorded) = (path("played.wav"), path("recorded.wav"));
    let samples = (0..16_000)
        .map(|at| ((f64::from(at) * 0.3).sin() * 12_000.0) as i16)
        .collect();
    let sound = Sound {
        sample_rate: 8_000,
        samples,
    };
    std::fs::write(&played, sound.to_wav()).expect("a file");
    let via = format!("sip:127.0.0.1:{};transport=sctp", proxy.port("sctp"));
    let under = proxy.encapsulation_port().to_string();
    let common = [
        "--via",
        &via,
        "--peer-encapsulation-port",
        &under,
        "--register",
        "--codecs",
        "pcma",
    ];

    let mut callee = phone(&["sip:bob@127.0.0.1", "--answer", "--record", &recorded])
        .args(common)
        .spawn()
        .expect("it runs");
    let mut heard = BufReader::new(callee.stdout.take().expect("piped"));
    wait_for(&mut heard, "registered");
    let mut caller = phone(&[
        "sip:alice@127.0.0.1",
        "--dial",
        "sip:bob@127.0.0.1",
        "--play",
        &played,
    ])
    .args(common)
    .spawn()
    .expect("it runs");
    let mut said = BufReader::new(caller.stdout.take().expect("piped"));
    let answered = wait_for(&mut said, "answered");
    assert_eq!(answered["codec"], "pcma");
    let ended = wait_for(&mut heard, "ended");
    assert_eq!(ended["reason"], "remote");
    // The readers go on: a phone that cannot print would say less.
    std::io::copy(&mut said, &mut std::io::sink()).expect("readable");
    std::io::copy(&mut heard, &mut std::io::sink()).expect("readable");
    success(caller);
    success(callee);

    let file = std::fs::read(&recorded).expect("recorded");
    let recording = wav::read(&file).expect("a sound");
    let loud = recording
        .samples
        .iter()
        .filter(|sample| sample.unsigned_abs() > 6_000)
        .count();
    assert!(
        loud > 8_000,
        "{loud} loud samples of 16,000 that were played"
    );
}

#[test]
fn a_call_that_is_refused_is_a_failure() {
    let proxy = Proxy::start();
    let via = format!("sip:127.0.0.1:{};transport=tcp", proxy.port("tcp"));
    let output = phone(&[
        "sip:alice@127.0.0.1",
        "--via",
        &via,
        "--dial",
        "sip:nobody@127.0.0.1",
    ])
    .output()
    .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().last().unwrap_or_default();
    assert!(
        last.contains("\"reason\":\"refused\"") && last.contains("404"),
        "{text}"
    );
}

#[test]
fn wrong_arguments_are_usage_errors() {
    for (arguments, words) in [
        (&["sip:alice@127.0.0.1"][..], "nothing to do"),
        (
            &["sip:alice@127.0.0.1", "--answer", "--play", "/no/such.wav"],
            "/no/such.wav",
        ),
        (&["sip:alice@127.0.0.1", "--dial", "tel:1"], "not a SIP URI"),
        (
            &["sip:alice@127.0.0.1", "--answer", "--codecs", "g729"],
            "use opus",
        ),
        (
            &["sip:alice@127.0.0.1", "--answer", "--keys", "12x"],
            "\"x\" is not a key",
        ),
    ] {
        let output = tandem()
            .arg("phone")
            .args(arguments)
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
}

#[test]
fn commands_come_by_the_socket() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("phone.sock");
    let name = socket.display().to_string();
    let mut child = phone(&["sip:alice@127.0.0.1", "--control", &name])
        .spawn()
        .expect("it runs");
    let begin = Instant::now();
    let mut client = loop {
        match UnixStream::connect(&socket) {
            Ok(client) => break client,
            Err(error) => assert!(begin.elapsed() < LIMIT, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut events = BufReader::new(client.try_clone().expect("a second handle"));
    client
        .write_all(b"nonsense\n{\"command\":\"hold\"}\n")
        .expect("writable");
    for words in ["expected", "no such call"] {
        let refused = wait_for(&mut events, "refused");
        assert!(
            refused["problem"]
                .as_str()
                .is_some_and(|problem| problem.contains(words)),
            "{refused}"
        );
    }
    client
        .write_all(b"{\"command\":\"quit\"}\n")
        .expect("writable");
    let mut rest = BufReader::new(child.stdout.take().expect("piped"));
    std::io::copy(&mut rest, &mut std::io::sink()).expect("readable");
    success(child);
    assert!(!socket.exists(), "the socket is gone");
}
