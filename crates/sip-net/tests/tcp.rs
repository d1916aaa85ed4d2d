//! SIP over TCP on loopback: against plain sockets, which send what no implementation should.

mod common;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{Node, PATIENCE, limits, request, request_with_body, response, transaction};
use sip::{Flow, Target, Transport};
use sip_net::{CloseReason, Incoming, Limits, MalformedReason, SendError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

const LISTEN: &[&str] = &["tcp:127.0.0.1:0"];

async fn plain(server: &Node) -> TcpStream {
    let stream = TcpStream::connect(server.address())
        .await
        .expect("connects");
    stream.set_nodelay(true).expect("a TCP socket");
    stream
}

async fn write(stream: &mut TcpStream, bytes: &[u8]) {
    timeout(PATIENCE, stream.write_all(bytes))
        .await
        .expect("in time")
        .expect("written");
}

async fn read(stream: &mut TcpStream, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    timeout(PATIENCE, stream.read_exact(&mut bytes))
        .await
        .expect("in time")
        .expect("read");
    bytes.into()
}

/// Reads to the end of the stream, in however many pieces.
async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut bytes))
        .await
        .expect("in time")
        .expect("a FIN");
    bytes
}

async fn closed(node: &mut Node, flow: Flow) -> CloseReason {
    match node.event().await {
        Incoming::ConnectionClosed {
            connection,
            transport,
            remote,
            reason,
        } => {
            assert_eq!((connection, transport), (flow.connection, Transport::Tcp));
            assert_eq!(remote, flow.remote);
            reason
        }
        other => panic!("not closed: {other:?}"),
    }
}

async fn request_and_response(listen: &str) {
    let mut server = Node::listen(&[listen]);
    let mut client = Node::listen(&[]);
    let there = client
        .transports
        .connect(Transport::Tcp, server.address(), false)
        .await;
    let there = there.expect("a connection");
    client.send(Target::Flow(there), &request("a"));
    let flow = server.expect(&request("a")).await;
    assert_eq!(
        (flow.transport, flow.local),
        (Transport::Tcp, server.address())
    );
    assert_eq!(flow.remote, there.local);
    server.send(Target::Flow(flow), &response(200, "a"));
    assert_eq!(client.expect(&response(200, "a")).await, there);

    let statistics = client.transports.statistics().await;
    assert_eq!(
        (statistics.connections, statistics.connections_opened),
        (1, 1)
    );
    assert_eq!(
        (statistics.messages_sent, statistics.messages_received),
        (1, 1)
    );
    let payload = (request("a").len() + response(200, "a").len()) as u64;
    assert!(statistics.packets() >= 4, "{statistics:?}");
    let header = if listen.contains('[') { 72 } else { 52 };
    assert_eq!(statistics.bytes(), payload + header * statistics.packets());
    assert_eq!(server.transports.statistics().await.connections_accepted, 1);
}

#[tokio::test]
async fn request_and_response_over_ipv4() {
    request_and_response("tcp:127.0.0.1:0").await;
}

#[tokio::test]
async fn request_and_response_over_ipv6() {
    request_and_response("tcp:[::1]:0").await;
}

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
async fn half_a_message_does_not_stay() {
    let limit = Limits {
        partial_message_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut client = plain(&server).await;
    let message = request("a");
    write(&mut client, &message).await;
    let flow = server.expect(&message).await;

    let began = Instant::now();
    write(&mut client, &message[..40]).await;
    // Going on slowly does not help.
    tokio::time::sleep(Duration::from_millis(120)).await;
    write(&mut client, &message[40..60]).await;
    assert_eq!(read_to_end(&mut client).await, b"");
    let took = began.elapsed();
    assert!((190..1_000).contains(&took.as_millis()), "{took:?}");
    drop(client);
    assert_eq!(closed(&mut server, flow).await, CloseReason::PartialMessage);
    assert_eq!(
        server
            .transports
            .statistics()
            .await
            .partial_message_timeouts,
        1
    );
    assert_eq!(server.transports.statistics().await.connections, 0);
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let limit = Limits {
        idle_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut client = plain(&server).await;
    let began = Instant::now();
    let mut flow = None;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        write(&mut client, &request("a")).await;
        flow = Some(server.expect(&request("a")).await);
    }
    assert_eq!(read_to_end(&mut client).await, b"");
    assert!(began.elapsed() > Duration::from_millis(700));
    drop(client);
    assert_eq!(
        closed(&mut server, flow.expect("a flow")).await,
        CloseReason::Idle
    );
    assert_eq!(server.transports.statistics().await.idle_timeouts, 1);
}

#[tokio::test]
async fn a_peer_that_connects_and_says_nothing_is_not_kept() {
    let limit = Limits {
        first_message_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let peer = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let peer_address = peer.local_addr().expect("bound");
    // Those that we open may stay silent: we have asked for them.
    let opened = server
        .transports
        .connect(Transport::Tcp, peer_address, false)
        .await;
    opened.expect("a connection");
    let mut speaking = plain(&server).await;
    write(&mut speaking, &request("a")).await;
    let flow = server.expect(&request("a")).await;

    let began = Instant::now();
    let mut silent = plain(&server).await;
    let mut pinging = plain(&server).await;
    let mut starting = plain(&server).await;
    write(&mut pinging, b"\r\n\r\n").await;
    write(&mut starting, &request("b")[..40]).await;
    assert_eq!(read_to_end(&mut silent).await, b"");
    let took = began.elapsed();
    assert!((290..1_000).contains(&took.as_millis()), "{took:?}");
    assert_eq!(read_to_end(&mut pinging).await, b"\r\n");
    assert_eq!(read_to_end(&mut starting).await, b"");
    drop((silent, pinging, starting));
    for _ in 0..3 {
        match server.event().await {
            Incoming::ConnectionClosed { reason, .. } => assert_eq!(reason, CloseReason::Silent),
            other => panic!("{other:?}"),
        }
    }
    let statistics = server.transports.statistics().await;
    assert_eq!(statistics.first_message_timeouts, 3);
    assert_eq!(statistics.connections, 2);
    write(&mut speaking, &request("c")).await;
    assert_eq!(server.expect(&request("c")).await, flow);
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
    let began = Instant::now();
    // Until the connection is gone, which fails the write.
    let writing = async { while client.write_all(&[0xff; 1_000]).await.is_ok() {} };
    timeout(PATIENCE, writing).await.expect("closed");
    assert!(began.elapsed() < Duration::from_secs(5));
    match server.event().await {
        Incoming::Malformed { bytes, .. } => assert!(bytes.len() <= 4_096),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        server.event().await,
        Incoming::ConnectionClosed { .. }
    ));
}

#[tokio::test]
async fn an_open_connection_is_used_again() {
    let mut server = Node::listen(LISTEN);
    let mut client = Node::listen(&[]);
    let target = Target::Address(Transport::Tcp, server.address());
    // The second is sent while the connection is still being opened.
    client.send(target, &request("a"));
    client.send(target, &request("b"));
    let flow = server.expect(&request("a")).await;
    assert_eq!(server.expect(&request("b")).await, flow);
    client.send(target, &request("c"));
    assert_eq!(server.expect(&request("c")).await, flow);
    assert_eq!(client.transports.statistics().await.connections_opened, 1);

    // The other side uses it too: it goes to the very address (RFC 3261 section 18).
    server.send(Target::Address(Transport::Tcp, flow.remote), &request("d"));
    client.expect(&request("d")).await;
    assert_eq!(server.transports.statistics().await.connections_opened, 0);

    let same = client
        .transports
        .connect(Transport::Tcp, server.address(), false)
        .await;
    assert_eq!(same.expect("open").local, flow.remote);
}

#[tokio::test]
async fn each_user_can_have_a_connection() {
    let mut server = Node::listen(LISTEN);
    let mut client = Node::listen(&[]);
    let connect = || {
        client
            .transports
            .connect(Transport::Tcp, server.address(), true)
    };
    let (first, second) = (
        connect().await.expect("open"),
        connect().await.expect("open"),
    );
    assert_ne!(first.connection, second.connection);
    assert_ne!(first.local, second.local);
    client.send(Target::Flow(second), &request("b"));
    assert_eq!(server.expect(&request("b")).await.remote, second.local);
    // A bare address takes neither of them.
    client.send(
        Target::Address(Transport::Tcp, server.address()),
        &request("c"),
    );
    let third = server.expect(&request("c")).await.remote;
    assert!(third != first.local && third != second.local);

    client.transports.close(second.connection);
    assert_eq!(closed(&mut client, second).await, CloseReason::Local);
    assert_eq!(client.transports.statistics().await.connections, 2);
}

#[tokio::test]
async fn a_flow_that_is_gone_fails_or_takes_the_address() {
    let mut server = Node::listen(LISTEN);
    let peer = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let peer_address = peer.local_addr().expect("bound");
    let mut client = plain(&server).await;
    write(&mut client, &request("a")).await;
    let flow = server.expect(&request("a")).await;
    server.send(Target::Flow(flow), &response(200, "a"));
    read(&mut client, response(200, "a").len()).await;
    drop(client);
    assert_eq!(closed(&mut server, flow).await, CloseReason::Peer);

    let key = transaction();
    server.send_for(Target::Flow(flow), &response(200, "a"), Some(key));
    match server.event().await {
        Incoming::SendFailed { transaction, error } => {
            assert_eq!((transaction, error), (key, SendError::Gone));
        }
        other => panic!("{other:?}"),
    }
    server.send_for(
        Target::FlowOrAddress(flow, peer_address),
        &response(200, "a"),
        Some(key),
    );
    let (mut accepted, _) = timeout(PATIENCE, peer.accept())
        .await
        .expect("in time")
        .expect("comes");
    assert_eq!(
        read(&mut accepted, response(200, "a").len()).await,
        response(200, "a")
    );
    server.expect_silence().await;
}

/// A peer that asks and closes its half.
async fn half_closed(server: &mut Node) -> (TcpStream, Flow) {
    let mut client = plain(server).await;
    write(&mut client, &request("a")).await;
    let flow = server.expect(&request("a")).await;
    client.shutdown().await.expect("open");
    (client, flow)
}

#[tokio::test]
async fn a_peer_that_closes_its_half_gets_its_answers() {
    let mut server = Node::listen(LISTEN);
    let (mut client, flow) = half_closed(&mut server).await;
    server.expect_silence().await;
    server.send(Target::Flow(flow), &response(100, "a"));
    let provisional = read(&mut client, response(100, "a").len()).await;
    assert_eq!(provisional, response(100, "a"));
    server.expect_silence().await;

    // It can answer nothing itself.
    let key = transaction();
    server.send_for(Target::Flow(flow), &request("b"), Some(key));
    match server.event().await {
        Incoming::SendFailed { transaction, error } => {
            assert_eq!((transaction, error), (key, SendError::Gone));
        }
        other => panic!("{other:?}"),
    }

    let began = Instant::now();
    server.send(Target::Flow(flow), &response(200, "a"));
    assert_eq!(read_to_end(&mut client).await, response(200, "a"));
    assert_eq!(closed(&mut server, flow).await, CloseReason::Peer);
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(server.transports.statistics().await.connections, 0);
}

#[tokio::test]
async fn a_peer_that_closes_its_half_at_once_gets_all_its_answers() {
    let mut server = Node::listen(LISTEN);
    let mut client = plain(&server).await;
    write(&mut client, &request("a").repeat(20)).await;
    client.shutdown().await.expect("open");
    for _ in 0..20 {
        let flow = server.expect(&request("a")).await;
        server.send(Target::Flow(flow), &response(200, "a"));
    }
    assert_eq!(
        read_to_end(&mut client).await,
        response(200, "a").repeat(20)
    );
}

#[tokio::test]
async fn a_half_closed_connection_does_not_stay_for_ever() {
    let limit = Limits {
        half_closed_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let began = Instant::now();
    let (mut client, flow) = half_closed(&mut server).await;
    assert_eq!(read_to_end(&mut client).await, b"");
    let took = began.elapsed();
    assert!((290..2_000).contains(&took.as_millis()), "{took:?}");
    assert_eq!(closed(&mut server, flow).await, CloseReason::Peer);
}

#[tokio::test]
async fn a_peer_that_has_closed_both_halves_is_found_out_by_the_first_answer() {
    let mut server = Node::listen(LISTEN);
    let peer = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let peer_address = peer.local_addr().expect("bound");
    let (client, flow) = half_closed(&mut server).await;
    drop(client);
    let began = Instant::now();
    server.send(Target::Flow(flow), &response(100, "a"));
    assert_eq!(closed(&mut server, flow).await, CloseReason::Peer);
    assert!(began.elapsed() < Duration::from_secs(5));
    let target = Target::FlowOrAddress(flow, peer_address);
    server.send(target, &response(200, "a"));
    let accepted = timeout(PATIENCE, peer.accept()).await.expect("in time");
    let (mut accepted, _) = accepted.expect("comes");
    let answer = read(&mut accepted, response(200, "a").len()).await;
    assert_eq!(answer, response(200, "a"));
}

/// An address where nobody listens.
async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    listener.local_addr().expect("bound")
}

#[tokio::test]
async fn a_refused_connection_fails_what_waits_for_it() {
    let mut client = Node::listen(&[]);
    let remote = nobody().await;
    let key = transaction();
    client.send_for(
        Target::Address(Transport::Tcp, remote),
        &request("a"),
        Some(key),
    );
    match client.event().await {
        Incoming::SendFailed { transaction, error } => {
            assert_eq!(transaction, key);
            assert!(
                matches!(
                    error,
                    SendError::Io(std::io::ErrorKind::ConnectionRefused, _)
                ),
                "{error:?}"
            );
        }
        other => panic!("{other:?}"),
    }
    let refused = client
        .transports
        .connect(Transport::Tcp, remote, false)
        .await;
    assert!(matches!(
        refused,
        Err(SendError::Io(std::io::ErrorKind::ConnectionRefused, _))
    ));
    let statistics = client.transports.statistics().await;
    assert_eq!((statistics.connects_failed, statistics.connections), (2, 0));
    assert_eq!(statistics.sends_failed, 1);
}

#[tokio::test]
async fn connections_are_limited() {
    let limit = Limits {
        max_connections: 2,
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut first = plain(&server).await;
    let mut second = plain(&server).await;
    for client in [&mut first, &mut second] {
        write(client, &request("a")).await;
        server.expect(&request("a")).await;
    }
    let mut third = plain(&server).await;
    assert_eq!(
        third
            .read(&mut [0; 10])
            .await
            .expect("closed in good order"),
        0
    );
    assert_eq!(server.transports.statistics().await.connections_refused, 1);
    let refused = server
        .transports
        .connect(Transport::Tcp, nobody().await, true)
        .await;
    assert_eq!(refused, Err(SendError::TooManyConnections));

    first.set_zero_linger().expect("a TCP socket");
    drop(first);
    assert!(matches!(
        server.event().await,
        Incoming::ConnectionClosed { .. }
    ));
    let mut fourth = plain(&server).await;
    write(&mut fourth, &request("b")).await;
    server.expect(&request("b")).await;
}

#[tokio::test]
async fn connections_of_one_source_are_limited() {
    let limit = Limits {
        max_accepted_per_source: 1,
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut first = plain(&server).await;
    write(&mut first, &request("a")).await;
    server.expect(&request("a")).await;
    let mut second = plain(&server).await;
    assert_eq!(read_to_end(&mut second).await, b"");
    assert_eq!(server.transports.statistics().await.connections_refused, 1);

    let elsewhere = TcpSocket::new_v4().expect("a socket");
    let other_source = SocketAddr::from(([127, 0, 0, 2], 0));
    elsewhere.bind(other_source).expect("a loopback address");
    let connected = elsewhere.connect(server.address()).await;
    let mut elsewhere = connected.expect("connects");
    write(&mut elsewhere, &request("b")).await;
    server.expect(&request("b")).await;
}

#[tokio::test]
async fn a_slow_reader_holds_up_nobody() {
    let limit = Limits {
        write_queue_messages: 100,
        stalled_write_timeout: Duration::from_secs(1),
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut slow = plain(&server).await;
    write(&mut slow, &request("slow")).await;
    let to_slow = server.expect(&request("slow")).await;
    let mut fast = plain(&server).await;
    write(&mut fast, &request("fast")).await;
    let to_fast = server.expect(&request("fast")).await;

    // Far more than the kernel's buffers and the queue hold.
    let large = request_with_body("large", &"x".repeat(60_000));
    let key = transaction();
    let mut refused = 0;
    for _ in 0..2_000 {
        server.send_for(Target::Flow(to_slow), &large, Some(key));
        server.send(Target::Flow(to_fast), &response(200, "fast"));
        let answer = read(&mut fast, response(200, "fast").len()).await;
        assert_eq!(answer, response(200, "fast"));
        while let Ok(event) = server.incoming.try_recv() {
            match event {
                Incoming::SendFailed { error, .. } => {
                    assert!(
                        matches!(error, SendError::QueueFull | SendError::Gone),
                        "{error:?}"
                    );
                    refused += 1;
                }
                Incoming::ConnectionClosed { reason, .. } => {
                    assert_eq!(reason, CloseReason::Stalled);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
    // It is given up after a while, and what was queued for it is reported.
    server
        .until(async |transports| transports.statistics().await.connections == 1)
        .await;
    let statistics = server.transports.statistics().await;
    assert_eq!(statistics.stalled_write_timeouts, 1);
    assert_eq!(statistics.reports_dropped, 0);
}

#[tokio::test]
async fn slow_readers_together_take_no_more_than_the_budget() {
    let large = request_with_body("large", &"x".repeat(60_000));
    let limit = Limits {
        all_write_queues_bytes: 10 * large.len(),
        incoming_queue: 10_000,
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut client = plain(&server).await;
        write(&mut client, &request("slow")).await;
        slow.push((server.expect(&request("slow")).await, client));
    }
    // Far more than the kernel's buffers and the budget hold.
    for _ in 0..1_000 {
        for (flow, _) in &slow {
            server.send(Target::Flow(*flow), &large);
        }
        tokio::task::yield_now().await;
    }
    let statistics = server.transports.statistics().await;
    let waiting = 2_000 - statistics.sends_failed - statistics.messages_sent;
    assert!((1..=10).contains(&waiting), "{statistics:?}");

    // Once they are gone there is room again.
    drop(slow);
    server
        .until(async |transports| transports.statistics().await.connections == 0)
        .await;
    let mut client = plain(&server).await;
    write(&mut client, &request("a")).await;
    let flow = loop {
        match server.event().await {
            Incoming::Message { flow, .. } => break flow,
            Incoming::ConnectionClosed { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    for _ in 0..10 {
        server.send(Target::Flow(flow), &large);
    }
    assert_eq!(read(&mut client, 10 * large.len()).await, large.repeat(10));
}

#[tokio::test]
async fn a_slow_user_holds_up_the_peer_and_loses_nothing() {
    let limit = Limits {
        incoming_queue: 1,
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut client = plain(&server).await;
    let message = request_with_body("large", &"x".repeat(60_000));
    let mut written = 0;
    // Nobody takes the messages: at some point the kernel takes no more octets.
    let writing = async {
        loop {
            written += client
                .write(&message[written % message.len()..])
                .await
                .expect("open");
        }
    };
    assert!(timeout(Duration::from_millis(500), writing).await.is_err());
    let whole = written / message.len();
    assert!(whole > 2, "{whole}");
    for _ in 0..whole {
        server.expect(&message).await;
    }
    write(&mut client, &message[written % message.len()..]).await;
    server.expect(&message).await;
}

#[tokio::test]
async fn shutdown_sends_what_is_queued_and_closes() {
    let mut server = Node::listen(LISTEN);
    let mut client = plain(&server).await;
    write(&mut client, &request("a")).await;
    let flow = server.expect(&request("a")).await;
    let address = server.address();
    for _ in 0..50 {
        server.send(Target::Flow(flow), &response(200, "a"));
    }
    let reading = tokio::spawn(async move { read_to_end(&mut client).await });
    let began = Instant::now();
    server.transports.shutdown().await;
    assert!(began.elapsed() < Duration::from_secs(1));
    let octets = reading.await.expect("no panic");
    assert_eq!(octets.len(), 50 * response(200, "a").len());

    assert!(TcpStream::connect(address).await.is_err());
    let later = server
        .transports
        .connect(Transport::Tcp, address, false)
        .await;
    assert_eq!(later, Err(SendError::ShutDown));
    // What the connection carried stays counted.
    let statistics = server.transports.statistics().await;
    assert!(statistics.bytes_sent > octets.len() as u64);
    assert!(statistics.bytes_received > request("a").len() as u64);
}

#[tokio::test]
async fn shutdown_does_not_wait_for_a_peer_that_stays() {
    let mut server = Node::listen(LISTEN);
    let mut client = plain(&server).await;
    write(&mut client, &request("a")).await;
    server.expect(&request("a")).await;
    let began = Instant::now();
    server.transports.shutdown().await;
    assert!(began.elapsed() < Duration::from_secs(4));
    assert_eq!(read_to_end(&mut client).await, b"");
}
