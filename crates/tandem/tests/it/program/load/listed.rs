//! Capacity of users who are listed: a file of them is as long as it is.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use serde_json::Value;
use test_support::Peer;

use super::{load, text};
use crate::program::support::{Proxy, send_signal, tandem};

const LIMIT: Duration = Duration::from_secs(120);

/// A file that names so many users.
fn users_file(directory: &Path, count: u32) -> PathBuf {
    let rows: String = (1..=count)
        .map(|number| format!("listed{number},secret\n"))
        .collect();
    let file = directory.join("users.csv");
    std::fs::write(&file, format!("user,password\n{rows}")).expect("written");
    file
}

#[test]
fn ten_users_are_enough_for_a_search() {
    let proxy = Proxy::start();
    let via = format!("127.0.0.1:{}", proxy.port("udp"));
    let directory = tempfile::tempdir().expect("a directory");
    let file = users_file(directory.path(), 10);
    // Each wants more attempts than the file has users.
    for (of, start, sessions, step) in [
        (
            "sessions",
            "20",
            "20",
            "step   1  sessions  20/s, 40 attempts",
        ),
        (
            "registrations",
            "5",
            "50000",
            "step   1  registrations  5/s, 10 attempts",
        ),
    ] {
        let mut command = tandem();
        command.args([
            "load", "capacity", "--via", &via, "--of", of, "--start", start,
        ]);
        command.args(["--sessions", sessions, "--settle", "10ms", "--users-file"]);
        command.arg(&file);
        let mut search = Peer::spawn(&mut command);
        search.wait_for_output(" succeeded, ", LIMIT);
        send_signal(search.id(), "TERM");
        let status = search.wait(LIMIT);
        let said = search.output();
        assert_eq!(status.code(), Some(97), "{said}");
        assert!(said.contains(step), "{said}");
        let note = "Each step attempts no more than 10 registrations";
        assert_eq!(said.contains(note), of == "registrations", "{said}");
    }

    let path = file.to_str().expect("a UTF-8 path");
    let output = load(
        "capacity",
        &proxy,
        "udp",
        &["--of", "registrations", "--users-file", path],
    );
    let said = text(&output);
    assert_eq!(output.status.code(), Some(99), "{said}");
    assert!(said.contains("the first step wants 200 users"), "{said}");
    assert!(said.contains("name more in --users-file"), "{said}");
}

#[test]
fn a_list_that_is_too_short_is_refused_with_what_to_do() {
    let proxy = Proxy::start();
    let directory = tempfile::tempdir().expect("a directory");
    let file = users_file(directory.path(), 10);
    let path = file.to_str().expect("a UTF-8 path");
    for wanted in [
        &["--ladder", "2,6"][..],
        &["--of", "sessions", "--users", "6"],
        &["--sipstone", "--users", "6"],
    ] {
        let arguments = [wanted, &["--users-file", path]].concat();
        let output = load("capacity", &proxy, "udp", &arguments);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--users-file names 10 users"), "{said}");
        assert!(said.contains("go up to 5 with --"), "{said}");
    }
}

/// Registers everybody, notes who that was, and answers all else with 480.
fn note_users(socket: &UdpSocket, names: &Mutex<BTreeSet<String>>, is_over: &AtomicBool) {
    let mut buffer = [0; 4096];
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a timeout");
    while !is_over.load(Relaxed) {
        let Ok((length, source)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let request = String::from_utf8_lossy(&buffer[..length]);
        if request.starts_with("ACK ") {
            continue;
        }
        let is_register = request.starts_with("REGISTER ");
        let mut response = match is_register {
            true => "SIP/2.0 200 OK\r\nExpires: 3600\r\n".to_owned(),
            false => "SIP/2.0 480 Temporarily Unavailable\r\n".to_owned(),
        };
        for line in request.lines() {
            let (name, value) = line.split_once(':').unwrap_or_default();
            match name {
                "To" => {
                    response.push_str(&format!("{line};tag=1\r\n"));
                    let (_, uri) = value.split_once("sip:").unwrap_or_default();
                    let user = uri.split('@').next().unwrap_or_default().to_owned();
                    names.lock().expect("no panic").insert(user);
                }
                "Via" | "From" | "Call-ID" | "CSeq" | "Contact" => {
                    response.push_str(&format!("{line}\r\n"));
                }
                _ => {}
            }
        }
        response.push_str("Content-Length: 0\r\n\r\n");
        socket.send_to(response.as_bytes(), source).ok();
    }
}

/// A rung has more users than there are without anything said.
#[test]
fn a_ladder_has_the_users_of_its_largest_rung() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = users_file(directory.path(), 240);
    let file = file.to_str().expect("a UTF-8 path");
    for (users, last) in [
        (["--names", "%06d"], "000240"),
        (["--users-file", file], "listed240"),
        (["--auth", "user%d:secret%d"], "user240"),
    ] {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let via = socket.local_addr().expect("an address").to_string();
        let names = Mutex::default();
        let is_over = AtomicBool::new(false);
        let output = std::thread::scope(|scope| {
            scope.spawn(|| note_users(&socket, &names, &is_over));
            let output = tandem()
                .args(["load", "capacity", "--via", &via, "--ladder", "120"])
                .args(["--repeat", "1", "--settle", "10ms"])
                .args(users)
                .output();
            is_over.store(true, Relaxed);
            output.expect("it runs")
        });
        let said = text(&output);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
        let names = names.into_inner().expect("no panic");
        assert_eq!(names.len(), 240, "{names:?}");
        assert!(names.contains(last), "{names:?}");
    }
}

/// The search of RFC 7502 to its end: ten steps that pass at a rate that does not grow.
#[test]
fn a_search_converges() {
    let proxy = Proxy::start();
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (json, csv) = (file("capacity.json"), file("capacity.csv"));
    let output = load(
        "capacity",
        &proxy,
        "udp",
        &[
            "--of",
            "sessions",
            "--start",
            "1",
            "--sessions",
            "1",
            "--settle",
            "10ms",
            "--json",
            &json,
            "--csv",
            &csv,
        ],
    );
    let said = text(&output);
    let document = std::fs::read_to_string(json).expect("a document");
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let parameters = &document["parameters"];
    assert_eq!(parameters["of"][0], "sessions", "{parameters}");
    assert_eq!(parameters["settle_seconds"], 0.01, "{parameters}");
    let benchmark = &document["runs"][0]["benchmark"];
    let steps = benchmark["steps"].as_array().expect("steps");
    let lines = std::fs::read_to_string(csv).expect("lines");
    assert_eq!(lines.lines().count(), 1 + steps.len(), "{lines}");
    // On a machine that is too busy it may find out that it is itself too slow.
    match output.status.code() {
        Some(0) => {
            let end = &benchmark["sessions"]["session_establishment_rate"];
            assert_eq!(end["end"], "found", "{end}");
            assert_eq!(end["per_second"], 1, "{end}");
            assert!(steps.len() >= 11, "{said}");
        }
        code => assert_eq!(code, Some(3), "{said}"),
    }
}
