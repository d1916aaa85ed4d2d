//! SIP over TCP on loopback: where a message ends, against plain sockets.

use std::time::Duration;

use crate::common::plain::{closed, plain, read, read_to_end, write};
use crate::common::{Node, PATIENCE, limits, request, request_with_body, response};
use bytes::Bytes;
use sip::{Target, Transport};
use sip_net::{CloseReason, Incoming, Limits, MalformedReason};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

const LISTEN: &[&str] = &["tcp:127.0.0.1:0"];

#[tokio::test]
async fn a_message_split_anywhere_is_put_together() {
    let mut server = Node::listen(LISTEN);
    let mut client = plain(&server).await;
    let message = request_with_body("a", "v=0\r\n");
    for at in 1..message.len() {
        write(&mut client, &message[..at]).await;
        // The kernel may still join the two parts; most of the time it does not.
        tokio::task::yield_now().await;
        write(&mut client, &message[at..]).await;
        server.expect(&message).await;
    }
}

#[tokio::test]
async fn a_message_octet_by_octet_is_put_together() {
    let mut server = Node::listen(LISTEN);
    let mut client = plain(&server).await;
    let message = request_with_body("a", "v=0\r\n");
    for octet in message.iter() {
        write(&mut client, &[*octet]).await;
        tokio::task::yield_now().await;
    }
    server.expect(&message).await;
}

#[tokio::test]
async fn messages_in_one_segment_are_taken_apart() {
    let mut server = Node::listen(LISTEN);
    let mut client = plain(&server).await;
    let (first, second) = (request_with_body("a", "body"), request("b"));
    write(
        &mut client,
        &[&first[..], b"\r\n", &second, &first[..20]].concat(),
    )
    .await;
    let flow = server.expect(&first).await;
    assert_eq!(server.expect(&second).await, flow);
    write(&mut client, &first[20..]).await;
    assert_eq!(server.expect(&first).await, flow);
}

#[tokio::test]
async fn a_ping_is_answered_between_messages() {
    let mut server = Node::listen(LISTEN);
    let mut client = plain(&server).await;
    write(&mut client, b"\r\n\r\n").await;
    assert_eq!(read(&mut client, 2).await, &b"\r\n"[..]);
    write(&mut client, &request("a")).await;
    server.expect(&request("a")).await;
    assert!(server.transports.statistics().await.keep_alives >= 1);
}

#[tokio::test]
async fn what_comes_together_is_taken_in_its_order_however_many_there_are() {
    let mut server = Node::listen(LISTEN);
    let mut client = plain(&server).await;
    let pings = b"\r\n\r\n".repeat(1_000);
    let message = request_with_body("b", "body");
    let octets = [
        &request("a")[..],
        &pings,
        &message,
        &pings,
        &message[..message.len() - 1],
    ];
    write(&mut client, &octets.concat()).await;
    server.expect(&request("a")).await;
    server.expect(&message).await;
    write(&mut client, &message[message.len() - 1..]).await;
    server.expect(&message).await;
    // Each line end is one.
    assert_eq!(server.transports.statistics().await.keep_alives, 4_000);
}

/// What is sent to its address from then on takes another connection, be it that its worker does not come to hear of it.
async fn garbage_retires_the_connection(octets: &[u8]) {
    let limit = Limits {
        incoming_queue: 1,
        ..Limits::default()
    };
    let server = Node::start(limits(limit, LISTEN));
    let mut client = plain(&server).await;
    write(&mut client, &[&request("a"), octets].concat()).await;
    server
        .until(async |server| server.statistics().await.malformed == 1)
        .await;
    // Nothing listens at the port of the client.
    let remote = client.local_addr().expect("connected");
    server.send(Target::Address(Transport::Tcp, remote), &request("b"));
    server
        .until(async |server| server.statistics().await.connects_failed == 1)
        .await;
}

#[tokio::test]
async fn garbage_retires_the_connection_before_the_worker_is_told() {
    garbage_retires_the_connection(b"HELLO\r\nContent-Length: 0\r\n\r\n").await;
    garbage_retires_the_connection(b"OPTIONS sip:a SIP/2.0\r\nContent-Length: x\r\n\r\n").await;
}

/// Sends what cannot be cut into messages; the answer still goes out, then the connection ends.
async fn broken(server: &mut Node, octets: &[u8]) -> (Bytes, MalformedReason) {
    let mut client = plain(server).await;
    write(&mut client, octets).await;
    let (flow, bytes, reason) = match server.event().await {
        Incoming::Malformed {
            flow,
            bytes,
            reason,
        } => (flow, bytes, reason),
        other => panic!("{other:?}"),
    };
    server.send(Target::Flow(flow), &response(400, "a"));
    assert_eq!(read_to_end(&mut client).await, response(400, "a"));
    drop(client);
    assert_eq!(closed(server, flow).await, CloseReason::Framing(reason));
    (bytes, reason)
}

#[tokio::test]
async fn what_is_too_large_ends_the_connection() {
    let limit = Limits {
        max_header_bytes: 1_000,
        max_body_bytes: 500,
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));

    let header = format!("OPTIONS sip:a SIP/2.0\r\nSubject: {}", "x".repeat(2_000));
    let (bytes, _) = broken(&mut server, header.as_bytes()).await;
    assert_eq!(bytes.len(), 1_000);

    let body = request_with_body("a", &"x".repeat(501));
    let (bytes, _) = broken(&mut server, &body).await;
    assert!(bytes.starts_with(b"OPTIONS sip:a@127.0.0.1 SIP/2.0\r\n"));

    // At the limit it is a message.
    let mut client = plain(&server).await;
    let body = request_with_body("a", &"x".repeat(500));
    write(&mut client, &body).await;
    server.expect(&body).await;
    assert_eq!(server.transports.statistics().await.malformed, 2);
}

#[tokio::test]
async fn what_has_no_end_ends_the_connection() {
    let mut server = Node::listen(LISTEN);
    let text = String::from_utf8(request("a").to_vec()).expect("text");
    for length in [
        "many",
        "-1",
        "99999999999999999999",
        "1\r\nContent-Length: 2",
    ] {
        let broken_length = text.replace("Content-Length: 0", &format!("Content-Length: {length}"));
        let (bytes, _) = broken(&mut server, broken_length.as_bytes()).await;
        assert!(
            bytes.starts_with(b"OPTIONS sip:a@127.0.0.1 SIP/2.0\r\n"),
            "{length}"
        );
    }
}

#[tokio::test]
async fn what_comes_before_garbage_counts() {
    let mut server = Node::listen(LISTEN);
    for cut in [0, 10] {
        let mut client = plain(&server).await;
        let message = request("a");
        let garbage = b"GARBAGE\r\nContent-Length: none\r\n\r\n";
        // The end of a message that has come in part, or a whole one, and garbage behind it.
        write(&mut client, &message[..cut]).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        write(&mut client, &[&message[cut..], &message, garbage].concat()).await;
        let flow = server.expect(&message).await;
        server.expect(&message).await;
        match server.event().await {
            Incoming::Malformed { bytes, .. } => assert_eq!(bytes, &garbage[..]),
            other => panic!("{other:?}"),
        }
        drop(client);
        closed(&mut server, flow).await;
    }
}

#[tokio::test]
async fn garbage_ends_the_connection() {
    let mut server = Node::listen(LISTEN);
    broken(&mut server, b"GARBAGE\r\nContent-Length: 0\r\n\r\n").await;
    broken(
        &mut server,
        &[
            b"\x16\x03\x01\x02\x00\x01\x00".repeat(20),
            b"\r\n\r\n".to_vec(),
        ]
        .concat(),
    )
    .await;
}

#[tokio::test]
async fn garbage_without_end_is_read_no_further_than_the_limit() {
    let limit = Limits {
        max_header_bytes: 4_096,
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut client = plain(&server).await;
    // Until the connection is gone, which fails the write.
    let writing = async { while client.write_all(&[0xff; 1_000]).await.is_ok() {} };
    timeout(PATIENCE, writing).await.expect("closed");
    match server.event().await {
        Incoming::Malformed { bytes, .. } => assert!(bytes.len() <= 4_096),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        server.event().await,
        Incoming::ConnectionClosed { .. }
    ));
}
