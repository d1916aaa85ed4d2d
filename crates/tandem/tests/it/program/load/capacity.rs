//! `tandem load capacity` where there is nothing to find, and arrivals that are held back.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use serde_json::Value;
use test_support::Peer;

use super::{load, text};
use crate::program::support::{Proxy, send_signal, tandem};

const LIMIT: Duration = Duration::from_secs(120);

/// Answers every request 503 until it is told to end, as a proxy does that is drained.
fn refuse(socket: &UdpSocket, is_over: &AtomicBool) {
    let mut buffer = [0; 65536];
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a timeout");
    while !is_over.load(Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let request = String::from_utf8_lossy(&buffer[..length]);
        if request.starts_with("ACK ") {
            continue;
        }
        let mut response = "SIP/2.0 503 Service Unavailable\r\n".to_owned();
        for line in request.lines() {
            let name = line.split(':').next().unwrap_or_default();
            match name {
                "To" => response.push_str(&format!("{line};tag=refused\r\n")),
                "Via" | "From" | "Call-ID" | "CSeq" => response.push_str(&format!("{line}\r\n")),
                _ => {}
            }
        }
        response.push_str("Content-Length: 0\r\n\r\n");
        socket.send_to(response.as_bytes(), from).ok();
    }
}

#[test]
fn capacity_of_a_server_that_refuses_everything_is_not_searched_for() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let via = socket.local_addr().expect("an address").to_string();
    let is_over = AtomicBool::new(false);
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("capacity.html");
    let [output, unwritten] = std::thread::scope(|scope| {
        scope.spawn(|| refuse(&socket, &is_over));
        let command = || {
            let mut command = tandem();
            command
                .args(["load", "capacity", "--via", &via, "--of", "registrations"])
                .args(["--start", "100", "--sessions", "100", "--settle", "10ms"]);
            command
        };
        let outputs = [
            command().output(),
            command()
                .args(["--json", "/dev/full", "--html"])
                .arg(&page)
                .output(),
        ];
        is_over.store(true, Relaxed);
        outputs.map(|output| output.expect("it runs"))
    });
    // A document that cannot be written takes nothing else away.
    assert_eq!(unwritten.status.code(), Some(255));
    let said = text(&unwritten);
    assert!(said.contains("cannot write /dev/full"), "{said}");
    assert!(said.contains("Page with plots: "), "{said}");
    let html = std::fs::read_to_string(&page).expect("it was written");
    assert!(html.contains("</html>"), "{html}");
    // On a machine that is too busy it is another one.
    let verdict = "<p class=\"headline\">Registrations ";
    assert!(html.contains(verdict), "{html}");

    let text = text(&output);
    // On a machine that is too busy it may find out that it is itself too slow.
    match output.status.code() {
        Some(99) => {
            assert!(text.contains("not one of "), "{text}");
            assert!(text.contains(" × 503."), "{text}");
            assert!(text.contains("draining"), "{text}");
            let steps = text
                .lines()
                .filter(|line| line.starts_with("step "))
                .count();
            assert!(steps <= 3, "{text}");
        }
        code => assert_eq!(code, Some(3), "{text}"),
    }
}

/// A search that is ended before its time, by which it has found a rate that the server takes at least.
#[test]
fn capacity_is_found_as_far_as_there_is_time() {
    let proxy = Proxy::start();
    let via = format!("127.0.0.1:{}", proxy.port("udp"));
    let mut command = tandem();
    command
        .args(["load", "capacity", "--via", &via, "--of", "sessions"])
        .args(["--start", "20", "--sessions", "20", "--settle", "10ms"]);
    let mut search = Peer::spawn(&mut command);
    search.wait_for_output("step   2", LIMIT);
    send_signal(search.id(), "INT");
    let status = search.wait(LIMIT);
    let text = search.output();
    assert_eq!(status.code(), Some(97), "{text}");
    assert!(text.contains("Session establishment rate, R"), "{text}");
    assert!(text.contains("Each step attempts 20 sessions"), "{text}");
    // A step lasts two seconds at least.
    assert!(
        text.contains("step   1  sessions  20/s, 40 attempts, 2.0 s"),
        "{text}"
    );
    assert!(
        text.contains("Steps beyond 10 a second attempt more"),
        "{text}"
    );
}

#[test]
fn arrivals_that_are_held_back_are_the_servers_as_long_as_the_generator_is_punctual() {
    let proxy = Proxy::start();
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("load.json");
    let json = json.to_str().expect("a UTF-8 path");
    let arguments = [
        "--users", "5", "-r", "50", "-m", "50", "-d", "500", "-l", "4", "--json", json,
    ];
    let output = load("calls", &proxy, "udp", &arguments);
    let document = std::fs::read_to_string(json).expect("a document");
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let run = &document["runs"][0];
    let held_back = run["arrivals"]["held_back"].as_u64().expect("a count");
    assert!(held_back > 10, "{run}");
    assert_eq!(run["arrivals"]["not_started"], held_back, "{run}");
    let text = text(&output);
    assert!(text.contains("Held back   "), "{text}");
    let expected = match run["validity"]["valid"] == true {
        true => 1,
        false => 3,
    };
    assert_eq!(output.status.code(), Some(expected), "{text}");
}
