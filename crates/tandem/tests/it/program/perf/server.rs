//! Servers: clients side by side, that vanish, interrupts, and what is no conversation.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

use test_support::{Peer, wait_until};

use super::{LONG, Server, run, text};
use crate::program::support::{send_signal, tandem};

#[test]
fn several_clients_are_served_at_once_and_too_many_are_refused() {
    let server = Server::start(&["--max-tests", "2"]);
    let options = ["--seconds", "600", "--bitrate", "1M"];
    let mut running: Vec<Peer> = ["tcp", "sctp"]
        .map(|transport| Peer::spawn(&mut server.client(transport, &options)))
        .into();
    for client in &mut running {
        client.wait_for_output("messages/s", LONG);
    }
    let output = server
        .client("tcp", &["--count", "1"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(
        text(&output).contains("2 tests are already running"),
        "{}",
        text(&output)
    );
    for client in &mut running {
        send_signal(client.id(), "INT");
        let status = client.wait(LONG);
        assert_eq!(status.code(), Some(130), "{}", client.output());
    }
    server.measure("tcp", &["--count", "1"]);
}

#[test]
fn an_interrupt_gives_the_result_so_far() {
    let server = Server::start(&[]);
    for (transport, reverse) in [
        ("tcp", false),
        ("sctp", false),
        ("sctp", true),
        ("udp", true),
    ] {
        let mut options = vec!["--seconds", "600", "--bitrate", "1M"];
        if reverse {
            options.push("--reverse");
        }
        let mut client = Peer::spawn(&mut server.client(transport, &options));
        client.wait_for_output("messages/s", LONG);
        send_signal(client.id(), "INT");
        let status = client.wait(LONG);
        let output = client.output();
        assert_eq!(status.code(), Some(130), "{output}");
        assert!(output.contains("Goodput"), "{output}");
        assert!(output.contains("Interrupted"), "{output}");
    }
}

#[test]
fn a_server_outlives_a_client_that_is_killed() {
    let server = Server::start(&[]);
    for transport in ["tcp", "udp"] {
        let options = ["--seconds", "600", "--bitrate", "1M"];
        let mut client = Peer::spawn(&mut server.client(transport, &options));
        client.wait_for_output("messages/s", LONG);
        // The flow's end may be seen before the end of the control connection.
        let ends = || {
            let said = server.peer.output();
            said.matches("control connection").count() + said.matches(" messages, ").count()
        };
        let before = ends();
        send_signal(client.id(), "KILL");
        assert!(
            wait_until(LONG, || ends() > before),
            "{}",
            server.peer.output()
        );
        server.measure(transport, &["--count", "10"]);
    }
}

/// A client that was killed says no farewell over SCTP: the server gives it up by itself.
#[test]
fn a_server_gives_up_an_sctp_client_that_is_silent() {
    let mut server = Server::start(&[]);
    let options = ["--seconds", "600", "--bitrate", "1M", "--reverse"];
    let mut client = Peer::spawn(&mut server.client("sctp", &options));
    client.wait_for_output("messages/s", LONG);
    send_signal(client.id(), "KILL");
    server.peer.wait_for_output(" bytes; ", 2 * LONG);
    server.measure("sctp", &["--count", "10"]);
}

#[test]
fn one_off_ends_after_one_test_and_an_interrupt_ends_a_server() {
    let mut server = Server::start(&["--one-off"]);
    server.measure("sctp", &["--count", "10"]);
    assert!(server.peer.wait(LONG).success());

    let mut server = Server::start(&[]);
    send_signal(server.peer.id(), "INT");
    assert!(server.peer.wait(LONG).success());
}

/// Octets that are no conversation, on every listener: dropped, and the server serves on.
#[test]
fn a_server_survives_garbage_on_every_listener() {
    let server = Server::start(&[]);
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for port in [server.port("udp"), server.encapsulation_port()] {
        for garbage in [&b""[..], b"x", &[0; 24], &[0xff; 24], &[0x5a; 60_000]] {
            udp.send_to(garbage, ("127.0.0.1", port)).expect("sent");
        }
    }
    let flow = frame(br#"{"type":"flow","version":1,"token":"0123456789abcdef"}"#);
    let huge = br#"{"type":"request","version":1,"test":{"protocol":"tcp","size":1e18,"limit":{"count":1},"bitrate":null,"streams":1,"parallel":1,"unordered":false,"nodelay":false,"reverse":true,"window":null}}"#;
    for transport in ["udp", "tcp"] {
        for garbage in [
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            vec![0xff; 4096],
            vec![0; 3],
            frame(b"{}"),
            frame(b"[[[[[[[["),
            frame(br#"{"type":"stop"}"#),
            frame(huge),
            flow.clone(),
        ] {
            let mut stream =
                TcpStream::connect(("127.0.0.1", server.port(transport))).expect("it listens");
            stream.set_read_timeout(Some(LONG)).expect("a time-out");
            stream.write_all(&garbage).expect("sent");
            stream.shutdown(std::net::Shutdown::Write).ok();
            // It answers with a refusal, or with nothing, but it closes.
            let mut answer = Vec::new();
            match stream.read_to_end(&mut answer) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
            }
        }
    }
    // An association whose first message is no request.
    let target = format!("127.0.0.1:{}", server.port("sctp"));
    let port = server.encapsulation_port().to_string();
    let mut stranger = Peer::spawn(tandem().args([
        "sctp",
        "connect",
        &target,
        "--encapsulation-port",
        "0",
        "--peer-encapsulation-port",
        &port,
    ]));
    stranger.write("what is this?\n");
    assert!(!stranger.wait(LONG).success(), "it is aborted");
    for transport in ["udp", "tcp", "sctp"] {
        let document = server.measure(transport, &["--count", "10"]);
        assert_eq!(run(&document)["received"]["messages"], 10);
    }
}

fn frame(json: &[u8]) -> Vec<u8> {
    let mut frame = (json.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(json);
    frame
}

#[test]
fn a_port_measures_what_it_was_opened_for() {
    let server = Server::start(&[]);
    let target = format!("tcp:127.0.0.1:{}", server.port("udp"));
    let output = tandem()
        .args(["perf", "client", &target, "--count", "1"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output).contains("tcp is not measured on this port"),
        "{}",
        text(&output)
    );
}

/// Both directions of a client are served before the server ends.
#[test]
fn one_off_serves_both_directions() {
    let mut server = Server::start(&["--one-off"]);
    let options = ["--seconds", "1", "--bitrate", "1M", "--bidir"];
    let output = server.client("sctp", &options).output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    assert!(server.peer.wait(LONG).success());
}
