//! SIP over TCP on loopback: how connections end.

use std::time::{Duration, Instant};

use crate::common::plain::{closed, plain, read, read_to_end, write};
use crate::common::{Node, PATIENCE, limits, request, request_with_body, response, transaction};
use sip::{Flow, Target, Transport};
use sip_net::{CloseReason, Incoming, Limits, SendError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const LISTEN: &[&str] = &["tcp:127.0.0.1:0"];

#[tokio::test]
async fn half_a_message_does_not_stay() {
    let limit = Limits {
        partial_message_timeout: Duration::from_millis(500),
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut client = plain(&server).await;
    let message = request("a");
    write(&mut client, &message).await;
    let flow = server.expect(&message).await;

    let began = Instant::now();
    let (mut reader, mut writer) = client.split();
    // Going on slowly does not help: all of it would take longer than there is patience.
    let message = request_with_body("b", &"x".repeat(2_000));
    let trickle = async {
        for octet in &message {
            if writer.write_all(&[*octet]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        std::future::pending().await
    };
    let mut answer = Vec::new();
    let closed_by_server = async {
        tokio::select! {
            read = reader.read_to_end(&mut answer) => read,
            () = trickle => Ok(0),
        }
    };
    let read = tokio::time::timeout(PATIENCE, closed_by_server).await;
    assert_eq!(read.expect("in time").expect("a FIN"), 0);
    assert!(began.elapsed() >= Duration::from_millis(490));
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
        idle_timeout: Duration::from_secs(3),
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut client = plain(&server).await;
    let began = Instant::now();
    let mut flow = None;
    // Much less than the limit, of which a busy machine may take a part.
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        write(&mut client, &request("a")).await;
        flow = Some(server.expect(&request("a")).await);
    }
    assert_eq!(read_to_end(&mut client).await, b"");
    assert!(began.elapsed() >= Duration::from_millis(6_400));
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
        // One that speaks is not to be late on a busy machine.
        first_message_timeout: Duration::from_secs(2),
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
    assert!(began.elapsed() >= Duration::from_millis(1_900));
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

    // Within the patience of the test, which is less than that with a half-closed connection.
    server.send(Target::Flow(flow), &response(200, "a"));
    assert_eq!(read_to_end(&mut client).await, response(200, "a"));
    assert_eq!(closed(&mut server, flow).await, CloseReason::Peer);
    assert_eq!(server.transports.statistics().await.connections, 0);
}

#[tokio::test]
async fn a_peer_that_is_gone_answers_nothing() {
    let mut client = Node::listen(&[]);
    let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let remote = server.local_addr().expect("an address");
    let key = transaction();
    let target = Target::Address(Transport::Tcp, remote);
    client.send_for(target, &request("a"), Some(key));
    let (mut crashing, _) = server.accept().await.expect("a connection");
    assert_eq!(read(&mut crashing, request("a").len()).await, request("a"));
    client.expect_silence().await;
    drop(crashing);
    match client.event().await {
        Incoming::SendFailed { transaction, error } => {
            assert_eq!((transaction, error), (key, SendError::Gone));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        client.event().await,
        Incoming::ConnectionClosed { .. }
    ));
    client.expect_silence().await;
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
    assert!(began.elapsed() >= Duration::from_millis(290));
    assert_eq!(closed(&mut server, flow).await, CloseReason::Peer);
}

#[tokio::test]
async fn a_peer_that_has_closed_both_halves_is_found_out_by_the_first_answer() {
    let mut server = Node::listen(LISTEN);
    let peer = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let peer_address = peer.local_addr().expect("bound");
    let (client, flow) = half_closed(&mut server).await;
    drop(client);
    server.send(Target::Flow(flow), &response(100, "a"));
    assert_eq!(closed(&mut server, flow).await, CloseReason::Peer);
    let target = Target::FlowOrAddress(flow, peer_address);
    server.send(target, &response(200, "a"));
    let accepted = timeout(PATIENCE, peer.accept()).await.expect("in time");
    let (mut accepted, _) = accepted.expect("comes");
    let answer = read(&mut accepted, response(200, "a").len()).await;
    assert_eq!(answer, response(200, "a"));
}

/// RFC 3261 section 18.2.2: the only answer was written to a socket that is reset by it.
#[tokio::test]
async fn an_answer_to_a_peer_that_has_closed_both_halves_takes_another_connection() {
    let mut server = Node::listen(LISTEN);
    let peer = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let peer_address = peer.local_addr().expect("bound");
    let (client, flow) = half_closed(&mut server).await;
    drop(client);
    server.expect_silence().await;
    let target = Target::FlowOrAddress(flow, peer_address);
    server.send(target, &response(200, "a"));
    let accepted = timeout(PATIENCE, peer.accept()).await.expect("in time");
    let (mut accepted, _) = accepted.expect("comes");
    let answer = read(&mut accepted, response(200, "a").len()).await;
    assert_eq!(answer, response(200, "a"));
}

#[tokio::test]
async fn an_answer_that_has_arrived_is_not_sent_again() {
    let mut server = Node::listen(LISTEN);
    let peer = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let peer_address = peer.local_addr().expect("bound");
    let (mut client, flow) = half_closed(&mut server).await;
    let target = Target::FlowOrAddress(flow, peer_address);
    server.send(target, &response(200, "a"));
    assert_eq!(read_to_end(&mut client).await, response(200, "a"));
    drop(client);
    assert_eq!(closed(&mut server, flow).await, CloseReason::Peer);
    assert_eq!(server.transports.statistics().await.connections, 0);
    let again = timeout(Duration::from_millis(100), peer.accept()).await;
    assert!(again.is_err());
}

#[tokio::test]
async fn shutdown_sends_what_is_queued_and_closes() {
    let mut server = Node::start(limits(patient_shutdown(), LISTEN));
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
    assert!(began.elapsed() < PATIENCE);
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
    let mut server = Node::start(limits(patient_shutdown(), LISTEN));
    let mut client = plain(&server).await;
    write(&mut client, &request("a")).await;
    server.expect(&request("a")).await;
    let began = Instant::now();
    server.transports.shutdown().await;
    assert!(began.elapsed() < PATIENCE);
    assert_eq!(read_to_end(&mut client).await, b"");
}

/// A shutdown that waits for its time to be over takes longer than a test has patience.
fn patient_shutdown() -> Limits {
    Limits {
        shutdown_timeout: 3 * PATIENCE,
        ..Limits::default()
    }
}
