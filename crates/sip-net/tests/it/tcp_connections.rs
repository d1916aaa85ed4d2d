//! SIP over TCP on loopback: which connection a message takes, and how many there are.

use std::net::SocketAddr;

use crate::common::plain::{closed, plain, read, read_to_end, write};
use crate::common::{Node, PATIENCE, limits, request, request_with_body, response, transaction};
use sip::{Target, Transport};
use sip_net::{CloseReason, Incoming, Limits, SendError};
use test_support::Nobody;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::timeout;

const LISTEN: &[&str] = &["tcp:127.0.0.1:0"];

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

#[tokio::test]
async fn a_refused_connection_fails_what_waits_for_it() {
    let mut client = Node::listen(&[]);
    let nobody = Nobody::new();
    let remote = nobody.address();
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
        let flow = server.expect(&request("a")).await;
        // Those that are known give way to nobody.
        server.transports.known(flow.connection);
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
        .connect(Transport::Tcp, Nobody::new().address(), true)
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
async fn the_oldest_connection_of_who_is_not_known_gives_way() {
    let limit = Limits {
        max_connections: 4,
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let mut clients = Vec::new();
    let mut flows = Vec::new();
    for _ in 0..2 {
        let mut client = plain(&server).await;
        write(&mut client, &request("a")).await;
        flows.push(server.expect(&request("a")).await);
        clients.push(client);
    }
    server.transports.known(flows[0].connection);
    for _ in 0..3 {
        let mut client = plain(&server).await;
        write(&mut client, &request("b")).await;
        loop {
            match server.event().await {
                Incoming::Message { .. } => break,
                Incoming::ConnectionClosed {
                    connection, reason, ..
                } => {
                    assert_eq!(connection, flows[1].connection);
                    assert_eq!(reason, CloseReason::Displaced);
                }
                other => panic!("{other:?}"),
            }
        }
        clients.push(client);
    }
    assert_eq!(read_to_end(&mut clients[1]).await, b"");
    let statistics = server.transports.statistics().await;
    assert_eq!(statistics.connections_displaced, 1);
    // The one that is known is served as before, though it is the oldest.
    write(&mut clients[0], &request("c")).await;
    loop {
        if let Incoming::Message { flow, .. } = server.event().await {
            assert_eq!(flow, flows[0]);
            break;
        }
    }
}

/// Connections of one source that begin long messages: the bound is for all of them.
#[tokio::test]
async fn messages_that_are_not_finished_have_one_bound() {
    const ROOM: usize = 400_000;
    let limit = Limits {
        partial_messages_bytes_per_source: ROOM,
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, LISTEN));
    let message = request_with_body("a", &"x".repeat(200_000));
    let mut clients = Vec::new();
    for _ in 0..10 {
        let mut client = plain(&server).await;
        // One that has been closed takes no more.
        let _ = client.write_all(&message[..message.len() - 1]).await;
        clients.push(client);
    }
    for _ in 0..9 {
        match server.event().await {
            Incoming::ConnectionClosed { reason, .. } => {
                assert_eq!(reason, CloseReason::PartialMessages);
            }
            other => panic!("{other:?}"),
        }
    }
    let statistics = server.transports.statistics().await;
    assert_eq!(
        (statistics.partial_messages_given_up, statistics.connections),
        (9, 1)
    );
    // A usual message has its place, and one that is left is finished.
    let mut client = plain(&server).await;
    write(&mut client, &request("b")).await;
    server.expect(&request("b")).await;
    for client in &mut clients {
        let _ = client.write_all(&message[message.len() - 1..]).await;
    }
    server.expect(&message).await;
}
