//! TLS with peers that cost too much: slow, silent, many, deaf.

use std::time::{Duration, Instant};

use crate::common::certificates::Authority;
use crate::common::{Node, PATIENCE, config, request, request_with_body, response, transaction};
use sip::{Flow, Target, Transport};
use sip_net::{CloseReason, Incoming, Limits, SendError, SipNetConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const TRANSPORTS: [&str; 3] = ["tls:127.0.0.1:0", "ws:127.0.0.1:0", "wss:127.0.0.1:0"];

fn server(authority: &Authority, listen: &str, limits: Limits) -> Node {
    Node::start(SipNetConfig {
        tls: authority.server(vec![authority.certificate("127.0.0.1")]),
        limits,
        ..config(&[listen])
    })
}

fn client(authority: &Authority, limits: Limits) -> Node {
    Node::start(SipNetConfig {
        tls: authority.client(),
        limits,
        ..config(&[])
    })
}

fn transport(listen: &str) -> Transport {
    let (name, _) = listen.split_once(':').expect("a listener");
    name.parse().expect("a transport")
}

async fn plain(server: &Node) -> TcpStream {
    let stream = TcpStream::connect(server.address()).await;
    stream.expect("connects")
}

/// Whether the peer has closed the connection, in whatever way.
async fn is_closed(stream: &mut TcpStream) {
    let mut buffer = [0; 1_000];
    let closed = async { while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {} };
    timeout(PATIENCE, closed).await.expect("closed in time");
}

#[tokio::test]
async fn a_handshake_takes_no_longer_than_the_limit() {
    let authority = Authority::new();
    for listen in TRANSPORTS {
        let limits = Limits {
            handshake_timeout: Duration::from_millis(200),
            ..Limits::default()
        };
        let server = server(&authority, listen, limits);
        let began = Instant::now();
        let mut silent = plain(&server).await;
        let mut slow = plain(&server).await;
        // The beginning of a ClientHello, or of a request by HTTP.
        let beginning = match transport(listen) {
            Transport::Ws => &b"GET / HTTP/1.1\r\n"[..],
            _ => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        };
        slow.write_all(beginning).await.expect("written");
        is_closed(&mut silent).await;
        is_closed(&mut slow).await;
        assert!(began.elapsed() >= Duration::from_millis(190));
        server
            .until(async |transports| {
                let statistics = transports.statistics().await;
                statistics.handshakes_failed == 2 && statistics.connections == 0
            })
            .await;
    }
}

#[tokio::test]
async fn handshakes_under_way_are_limited() {
    let authority = Authority::new();
    for listen in TRANSPORTS {
        let limits = Limits {
            max_handshakes: 2,
            ..Limits::default()
        };
        let mut server = server(&authority, listen, limits);
        let first = plain(&server).await;
        let _second = plain(&server).await;
        server
            .until(async |transports| transports.statistics().await.connections == 2)
            .await;
        let mut third = plain(&server).await;
        is_closed(&mut third).await;
        assert_eq!(server.transports.statistics().await.connections_refused, 1);

        // Where one of them ends there is room, also for more than one after another.
        drop(first);
        server
            .until(async |transports| transports.statistics().await.connections == 1)
            .await;
        for _ in 0..3 {
            let client = client(&authority, Limits::default());
            let opened = client
                .transports
                .connect(transport(listen), server.address(), true)
                .await;
            client.send(Target::Flow(opened.expect("open")), &request("a"));
            loop {
                match server.event().await {
                    Incoming::Message { .. } => break,
                    Incoming::ConnectionClosed { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn one_source_that_begins_handshakes_does_not_shut_out_others() {
    let authority = Authority::new();
    for listen in TRANSPORTS {
        let limits = Limits {
            max_handshakes_per_source: 2,
            ..Limits::default()
        };
        let mut server = server(&authority, listen, limits);
        let _first = plain(&server).await;
        let _second = plain(&server).await;
        server
            .until(async |transports| transports.statistics().await.connections == 2)
            .await;
        let mut third = plain(&server).await;
        is_closed(&mut third).await;
        assert_eq!(server.transports.statistics().await.connections_refused, 1);

        // Another one calls from the address that it listens on.
        let elsewhere = listen.replace("127.0.0.1", "127.0.0.2");
        let client = Node::start(SipNetConfig {
            tls: authority.server(vec![authority.certificate("127.0.0.2")]),
            ..config(&[&elsewhere])
        });
        let opened = client
            .transports
            .connect(transport(listen), server.address(), false)
            .await;
        let flow = opened.expect("open");
        assert_eq!(flow.local.ip(), client.address().ip());
        client.send(Target::Flow(flow), &request("a"));
        let flow = server.expect(&request("a")).await;
        assert_eq!(flow.remote.ip(), client.address().ip());
    }
}

#[tokio::test]
async fn connections_of_one_source_are_limited_before_the_handshake() {
    let authority = Authority::new();
    let limits = Limits {
        max_accepted_per_source: 1,
        ..Limits::default()
    };
    let server = server(&authority, "tls:127.0.0.1:0", limits);
    let _first = plain(&server).await;
    server
        .until(async |transports| transports.statistics().await.connections == 1)
        .await;
    let mut second = plain(&server).await;
    is_closed(&mut second).await;
    assert_eq!(server.transports.statistics().await.connections_refused, 1);
}

#[tokio::test]
async fn garbage_ends_the_connection_with_a_reason() {
    let authority = Authority::new();
    let server = server(&authority, "tls:127.0.0.1:0", Limits::default());
    let mut client = plain(&server).await;
    client.write_all(&request("a")).await.expect("written");
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, client.read_to_end(&mut answer)).await;
    let _ = read.expect("closed");
    // A fatal alert (RFC 8446 section 6).
    assert_eq!(answer.first(), Some(&21), "{answer:?}");
    server
        .until(async |transports| transports.statistics().await.handshakes_failed == 1)
        .await;
}

/// A connection between two nodes, as both see it.
async fn connected(client: &mut Node, server: &mut Node, listen: &str) -> (Flow, Flow) {
    let opened = client
        .transports
        .connect(transport(listen), server.address(), true)
        .await;
    let there = opened.expect("a connection");
    client.send(Target::Flow(there), &request("hello"));
    let here = server.expect(&request("hello")).await;
    assert_eq!(here.transport, transport(listen));
    server.send(Target::Flow(here), &response(200, "hello"));
    assert_eq!(client.expect(&response(200, "hello")).await, there);
    (there, here)
}

#[tokio::test]
async fn many_messages_arrive_whole_and_in_order() {
    let authority = Authority::new();
    for listen in TRANSPORTS {
        let mut server = server(&authority, listen, Limits::default());
        let mut client = client(&authority, Limits::default());
        let (there, _) = connected(&mut client, &mut server, listen).await;
        let messages: Vec<_> = (0..300)
            .map(|number| {
                let body = "ü".repeat(number * 37 % 20_000);
                request_with_body(&number.to_string(), &body)
            })
            .collect();
        for message in &messages {
            client.send(Target::Flow(there), message);
        }
        for message in &messages {
            server.expect(message).await;
        }
    }
}

#[tokio::test]
async fn a_deaf_peer_holds_up_nobody() {
    let authority = Authority::new();
    for listen in TRANSPORTS {
        let limits = Limits {
            write_queue_messages: 100,
            stalled_write_timeout: Duration::from_secs(1),
            ..Limits::default()
        };
        let mut server = server(&authority, listen, limits);
        let mut fast = client(&authority, Limits::default());
        let (_, to_fast) = connected(&mut fast, &mut server, listen).await;
        // Its user takes no events, so it stops to read.
        let mut deaf = client(
            &authority,
            Limits {
                incoming_queue: 1,
                ..Limits::default()
            },
        );
        let (_, to_deaf) = connected(&mut deaf, &mut server, listen).await;

        // Far more than the kernel's buffers and the queue hold.
        let large = request_with_body("large", &"x".repeat(60_000));
        let key = transaction();
        let mut refused = 0;
        for _ in 0..1_000 {
            server.send_for(Target::Flow(to_deaf), &large, Some(key));
            server.send(Target::Flow(to_fast), &response(200, "fast"));
            fast.expect(&response(200, "fast")).await;
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
                        assert_eq!(reason, CloseReason::Stalled, "{listen}");
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(refused > 500, "{listen}: {refused}");
        server
            .until(async |transports| transports.statistics().await.connections == 1)
            .await;
        let statistics = server.transports.statistics().await;
        assert_eq!(statistics.stalled_write_timeouts, 1, "{listen}");
    }
}

#[tokio::test]
async fn what_is_queued_is_sent_before_the_end() {
    let authority = Authority::new();
    for listen in TRANSPORTS {
        // A shutdown that waits for its time to be over takes longer than a test has patience.
        let patient = Limits {
            shutdown_timeout: 3 * PATIENCE,
            ..Limits::default()
        };
        let mut server = server(&authority, listen, patient);
        let mut client = client(&authority, Limits::default());
        let (_, here) = connected(&mut client, &mut server, listen).await;
        for _ in 0..50 {
            server.send(Target::Flow(here), &response(200, "a"));
        }
        let began = Instant::now();
        server.transports.shutdown().await;
        assert!(began.elapsed() < PATIENCE, "{listen}");
        for _ in 0..50 {
            client.expect(&response(200, "a")).await;
        }
        match client.event().await {
            Incoming::ConnectionClosed { reason, .. } => {
                assert_eq!(reason, CloseReason::Peer, "{listen}");
            }
            other => panic!("{other:?}"),
        }
    }
}
