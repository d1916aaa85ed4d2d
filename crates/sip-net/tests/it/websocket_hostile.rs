//! WebSocket with clients that break its rules, octet by octet.

use std::time::{Duration, Instant};

use crate::common::{Node, PATIENCE, config, limits, request, request_with_body};
use sip_net::{CloseReason, Incoming, Limits, SipNetConfig, WebSocketConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LISTEN: &[&str] = &["ws:127.0.0.1:0"];

/// A request for a WebSocket with these further header fields (RFC 6455 section 4.1).
fn upgrade(path: &str, fields: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\n\
         Host: 127.0.0.1\r\n\
         Upgrade: websocket\r\n\
         Connection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Version: 13\r\n\
         {fields}\r\n"
    )
}

const SIP: &str = "Sec-WebSocket-Protocol: sip\r\n";

async fn plain(server: &Node) -> TcpStream {
    let stream = TcpStream::connect(server.address()).await;
    stream.expect("connects")
}

/// What comes until an empty line.
async fn head(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let read = async {
        while !text.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(octet) => text.push(octet),
                Err(_) => break,
            }
        }
    };
    timeout(PATIENCE, read).await.expect("in time");
    String::from_utf8(text).expect("text")
}

async fn open(server: &Node) -> TcpStream {
    let mut stream = plain(server).await;
    let text = upgrade("/", SIP);
    stream.write_all(text.as_bytes()).await.expect("written");
    let answer = head(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    // The example of RFC 6455 section 1.3.
    let answer = answer.to_lowercase();
    assert!(answer.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"));
    assert!(answer.contains("sec-websocket-protocol: sip\r\n"));
    stream
}

/// A masked frame (RFC 6455 section 5.2) whose mask is zero.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..126 => frame.push(0x80 | length as u8),
        length => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}

const TEXT: u8 = 0x81;
const TEXT_BEGINS: u8 = 0x01;
const CONTINUES: u8 = 0x00;
const ENDS: u8 = 0x80;
const PING: u8 = 0x89;

/// The code with which the server closes.
async fn close_code(stream: &mut TcpStream) -> Option<u16> {
    let mut octets = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut octets)).await;
    read.expect("closed in time").ok()?;
    match octets[..] {
        [0x88, length, high, low, ..] if length >= 2 => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

async fn closed(server: &mut Node) -> CloseReason {
    match server.event().await {
        Incoming::ConnectionClosed { reason, .. } => reason,
        other => panic!("not closed: {other:?}"),
    }
}

#[tokio::test]
async fn a_handshake_is_no_idleness() {
    let limit = Limits {
        idle_timeout: Duration::from_secs(2),
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut stream = plain(&server).await;
    tokio::time::sleep(Duration::from_millis(2_200)).await;
    let text = upgrade("/", SIP);
    stream.write_all(text.as_bytes()).await.expect("written");
    assert!(head(&mut stream).await.starts_with("HTTP/1.1 101 "));
    tokio::time::sleep(Duration::from_millis(300)).await;
    let message = frame(TEXT, &request("a"));
    stream.write_all(&message).await.expect("written");
    server.expect(&request("a")).await;
}

#[tokio::test]
async fn broken_frames_end_the_connection() {
    let mut server = Node::listen(LISTEN);
    let unmasked = [&[TEXT, 5][..], b"hello"].concat();
    let longer_than_all = [&[TEXT, 0xff][..], &u64::MAX.to_be_bytes(), &[0; 4]].concat();
    let longer_than_allowed = [&[TEXT, 0xff][..], &0x10_0000_u64.to_be_bytes(), &[0; 4]].concat();
    for (what, octets, expected) in [
        ("not masked", unmasked, 1002),
        ("longer than memory", longer_than_all, 1009),
        ("longer than the limit", longer_than_allowed, 1009),
        ("reserved bits", frame(TEXT | 0x40, b"hello"), 1002),
        ("reserved opcode", frame(0x83, b"hello"), 1002),
        ("reserved control opcode", frame(0x8b, b"hello"), 1002),
        ("no UTF-8", frame(TEXT, b"\xff\xfe"), 1007),
        ("a continuation of nothing", frame(ENDS, b"hello"), 1002),
        ("a ping in pieces", frame(0x09, b"hello"), 1002),
        ("a long ping", frame(PING, &[b'x'; 126]), 1002),
        (
            "a message inside another",
            [frame(TEXT_BEGINS, b"a"), frame(TEXT, b"b")].concat(),
            1002,
        ),
        ("a close frame of one octet", frame(0x88, b"x"), 1002),
    ] {
        let mut client = open(&server).await;
        client.write_all(&octets).await.expect("written");
        // The codes are those of RFC 6455 section 7.4.1.
        let code = close_code(&mut client).await;
        drop(client);
        let reason = closed(&mut server).await;
        assert!(
            matches!(reason, CloseReason::WebSocket(_)),
            "{what}: {reason:?}"
        );
        assert_eq!(code, Some(expected), "{what}");
    }
    assert_eq!(server.transports.statistics().await.malformed, 12);
    assert_eq!(server.transports.statistics().await.connections, 0);
}

#[tokio::test]
async fn messages_are_as_long_as_the_limits_together() {
    let limit = Limits {
        max_header_bytes: 1_000,
        max_body_bytes: 500,
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut client = open(&server).await;
    let message = request_with_body("a", &"x".repeat(500));
    client
        .write_all(&frame(TEXT, &message))
        .await
        .expect("written");
    server.expect(&message).await;
    // In pieces it may not be longer either.
    let piece = vec![b'x'; 700];
    let pieces = [
        frame(TEXT_BEGINS, &piece),
        frame(CONTINUES, &piece),
        frame(CONTINUES, &piece),
    ];
    client.write_all(&pieces.concat()).await.expect("written");
    let reason = closed(&mut server).await;
    assert!(matches!(reason, CloseReason::WebSocket(_)), "{reason:?}");
}

#[tokio::test]
async fn what_is_no_sip_is_told_and_the_connection_stays() {
    let mut server = Node::listen(LISTEN);
    let mut client = open(&server).await;
    client
        .write_all(&frame(TEXT, b"hello"))
        .await
        .expect("written");
    match server.event().await {
        Incoming::Malformed { bytes, .. } => assert_eq!(bytes, &b"hello"[..]),
        other => panic!("{other:?}"),
    }
    client
        .write_all(&frame(TEXT, &request("a")))
        .await
        .expect("written");
    server.expect(&request("a")).await;
}

#[tokio::test]
async fn messages_that_come_together_are_taken_together() {
    let mut server = Node::listen(LISTEN);
    let mut client = open(&server).await;
    let names = ["a", "b", "c"];
    let octets = names.map(|name| frame(TEXT, &request(name))).concat();
    client.write_all(&octets).await.expect("written");
    for name in names {
        server.expect(&request(name)).await;
    }
}

#[tokio::test]
async fn half_a_message_does_not_stay() {
    let limit = Limits {
        partial_message_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let whole = frame(TEXT, &request("a"));
    let beginning = &whole[..40];
    let begun = frame(TEXT_BEGINS, &request("b")[..40]);
    for (before, partial) in [
        (&[][..], beginning),
        // What is whole excuses nothing that begins in the same packet.
        (&whole, beginning),
        (&whole, &begun),
    ] {
        let began = Instant::now();
        let mut client = open(&server).await;
        let octets = [before, partial].concat();
        client.write_all(&octets).await.expect("written");
        if !before.is_empty() {
            server.expect(&request("a")).await;
        }
        assert_eq!(closed(&mut server).await, CloseReason::PartialMessage);
        assert!(began.elapsed() >= Duration::from_millis(190));
    }

    // Nor do pings between its parts, one by one or without a pause.
    for (pings, pause) in [(1, Duration::from_millis(20)), (100, Duration::ZERO)] {
        let mut client = open(&server).await;
        client.write_all(&begun).await.expect("written");
        let pinging = tokio::spawn(async move {
            let pings = frame(PING, b"x").repeat(pings);
            while client.write_all(&pings).await.is_ok() {
                tokio::time::sleep(pause).await;
            }
        });
        assert_eq!(closed(&mut server).await, CloseReason::PartialMessage);
        pinging.abort();
    }
}

#[tokio::test]
async fn silence_does_not_stay() {
    let limit = Limits {
        first_message_timeout: Duration::from_secs(2),
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let began = Instant::now();
    let mut pinging = open(&server).await;
    // Pings are no messages.
    for _ in 0..3 {
        pinging
            .write_all(&frame(PING, b"x"))
            .await
            .expect("written");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(closed(&mut server).await, CloseReason::Silent);
    assert!(began.elapsed() >= Duration::from_millis(1_900));
}

#[tokio::test]
async fn floods_of_small_frames_hold_up_nobody() {
    let mut server = Node::listen(LISTEN);
    for flood in [
        frame(PING, b"x").repeat(1_000),
        frame(CONTINUES, b"").repeat(1_000),
    ] {
        let mut hostile = open(&server).await;
        hostile
            .write_all(&frame(TEXT_BEGINS, b""))
            .await
            .expect("written");
        let flooding = tokio::spawn(async move {
            // Until the connection is gone; nothing of the answers is read.
            while hostile.write_all(&flood).await.is_ok() {}
        });
        let mut polite = open(&server).await;
        for number in 0..50 {
            let message = request(&number.to_string());
            polite
                .write_all(&frame(TEXT, &message))
                .await
                .expect("written");
            server.expect(&message).await;
        }
        flooding.abort();
        let _ = flooding.await;
        drop(polite);
        for _ in 0..2 {
            closed(&mut server).await;
        }
    }
}

/// What a client is told that asks for something else.
async fn refusal(server: &Node, text: &str) -> String {
    let mut client = plain(server).await;
    client.write_all(text.as_bytes()).await.expect("written");
    head(&mut client).await
}

#[tokio::test]
async fn only_sip_is_spoken_here() {
    let server = Node::start(SipNetConfig {
        websocket: WebSocketConfig {
            path: Some("/sip".to_owned()),
            origins: vec!["https://example.org".to_owned()],
            ..WebSocketConfig::default()
        },
        ..config(LISTEN)
    });
    let from = |origin: &str| format!("{SIP}Origin: {origin}\r\n");
    for (text, status) in [
        (upgrade("/sip", ""), "400"),
        (upgrade("/sip", "Sec-WebSocket-Protocol: xmpp\r\n"), "400"),
        (upgrade("/", SIP), "404"),
        (upgrade("/sip", &from("https://example.com")), "403"),
        (upgrade("/sip", &from("https://EXAMPLE.org")), "101"),
        (upgrade("/sip?x=1", SIP), "101"),
        (
            upgrade("/sip", "Sec-WebSocket-Protocol: xmpp, sip\r\n"),
            "101",
        ),
    ] {
        let answer = refusal(&server, &text).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{text} {answer}"
        );
    }
    // What is no such request at all is not answered.
    for text in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        String::from_utf8(request("a").to_vec()).expect("text"),
        "\0".repeat(100),
    ] {
        let answer = refusal(&server, &text).await;
        assert_eq!(answer, "", "{text}");
    }
    server
        .until(async |transports| transports.statistics().await.handshakes_failed == 7)
        .await;
}

#[tokio::test]
async fn a_request_without_end_is_not_read_for_ever() {
    let server = Node::listen(LISTEN);
    let mut client = plain(&server).await;
    let text = "GET / HTTP/1.1\r\n".to_owned();
    client.write_all(text.as_bytes()).await.expect("written");
    let writing = async {
        let field = format!("X: {}\r\n", "x".repeat(1_000));
        while client.write_all(field.as_bytes()).await.is_ok() {}
    };
    timeout(PATIENCE, writing).await.expect("closed");
    server
        .until(async |transports| transports.statistics().await.handshakes_failed == 1)
        .await;
}
