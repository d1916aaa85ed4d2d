//! `tandem proxy` as an operator runs it: starting, refusing to start, stopping, and bad input.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use crate::program::support::{Proxy, tandem};

#[test]
fn an_interrupt_ends_it_cleanly() {
    for signal in ["INT", "TERM"] {
        let mut proxy = Proxy::start();
        proxy.signal(signal);
        let status = proxy.peer.wait(Duration::from_secs(10));
        assert_eq!(status.code(), Some(0), "after SIG{signal}");
        assert!(proxy.peer.output().contains("shut down"));
    }
}

#[test]
fn a_capture_that_cannot_be_written_is_named() {
    let output = tandem()
        .args([
            "proxy",
            "--store",
            "memory:",
            "--pcap",
            "/no/such/sip.pcapng",
        ])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("/no/such/sip.pcapng"), "{text}");
}

#[test]
fn a_port_in_use_is_one_line_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound");
    let listener = format!("tcp:{address}");
    let output = tandem()
        .args(["proxy", "--store", "memory:", "--listen", &listener])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let errors: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("tandem: "))
        .collect();
    let [error] = errors.as_slice() else {
        panic!("one error expected: {text}");
    };
    assert!(
        error.contains(&listener) && error.contains("in use"),
        "{error}"
    );
}

#[test]
fn a_listener_without_a_certificate_says_where_it_is_set() {
    for transport in ["tls", "wss", "tls-sctp"] {
        let output = tandem()
            .args(["proxy", "--store", "memory:", "--encapsulation-port", "0"])
            .args(["--listen", &format!("{transport}:127.0.0.1:0")])
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("needs a certificate"), "{text}");
        assert!(text.contains("[[listener]]"), "{text}");
    }
}

#[test]
fn a_listener_that_makes_no_sense_is_named() {
    for wrong in [
        "pigeon:127.0.0.1",
        "udp:nowhere",
        "udp",
        "udp:127.0.0.1:99999",
    ] {
        let output = tandem()
            .args(["proxy", "--listen", wrong])
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("--listen") && text.contains(wrong), "{text}");
    }
}

/// Octets that are no SIP message, and messages that break rules, over UDP: dropped or answered 400, and
/// the proxy serves on.
#[test]
fn it_survives_bad_datagrams() {
    let proxy = Proxy::start();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket
        .connect(("127.0.0.1", proxy.port("udp")))
        .expect("loopback");
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a time-out");
    for garbage in [
        &b"\x00\xff\x01"[..],
        b"INVITE",
        b"SIP/2.0 200",
        &[0x20; 60_000],
        b"\r\n\r\n",
    ] {
        socket.send(garbage).expect("sent");
    }

    let without_cseq = "OPTIONS sip:127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bK1;rport\r\n\
                        From: <sip:a@127.0.0.1>;tag=1\r\nTo: <sip:127.0.0.1>\r\nCall-ID: bad\r\n\r\n";
    socket.send(without_cseq.as_bytes()).expect("sent");
    assert!(receive(&socket).starts_with("SIP/2.0 400 "));

    socket.send(options("z9hG4bK2").as_bytes()).expect("sent");
    assert!(receive(&socket).starts_with("SIP/2.0 200 "));
}

/// A peer that sends half a message and stays holds up nobody; one whose stream is no SIP is cut off.
#[test]
fn it_survives_bad_streams() {
    let proxy = Proxy::start();
    let connect = || {
        let stream = TcpStream::connect(("127.0.0.1", proxy.port("tcp"))).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("a time-out");
        stream
    };
    let mut half = connect();
    half.write_all(b"OPTIONS sip:127.0.0.1 SIP/2.0\r\nVia: ")
        .expect("sent");

    let mut endless = connect();
    // The proxy may close while we still write.
    endless.write_all(&[b'x'; 200_000]).ok();
    let mut rest = Vec::new();
    match endless.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }

    let mut good = connect();
    good.write_all(options("z9hG4bK3").as_bytes())
        .expect("sent");
    let mut answer = [0; 12];
    good.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"SIP/2.0 200 ");
}

fn options(branch: &str) -> String {
    format!(
        "OPTIONS sip:127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1;branch={branch};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:a@127.0.0.1>;tag=1\r\nTo: <sip:127.0.0.1>\r\nCall-ID: {branch}\r\n\
         CSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
    )
}

fn receive(socket: &UdpSocket) -> String {
    let mut buffer = [0; 65_535];
    let length = socket.recv(&mut buffer).expect("an answer");
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}
