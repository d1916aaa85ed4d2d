//! SIP over UDP on loopback.

use std::time::{Duration, Instant};

use crate::common::{self, Node, config, limits, request, response, transaction};
use bytes::Bytes;
use sip::{Target, Transmit, Transport};
use sip_net::{Impairment, Incoming, Limits, MalformedReason, SendError, SipNetConfig};
use test_support::Nobody;
use tokio::net::UdpSocket;
use udp_net::LinkConfig;

async fn request_and_response(listen: &str) {
    let mut server = Node::listen(&[listen]);
    let mut client = Node::listen(&[]);
    let there = client
        .transports
        .connect(Transport::Udp, server.address(), false)
        .await;
    let there = there.expect("a socket");
    assert!(!there.local.ip().is_unspecified());

    client.send(Target::Flow(there), &request("a"));
    let flow = server.expect(&request("a")).await;
    assert_eq!(
        (flow.transport, flow.local),
        (Transport::Udp, server.address())
    );
    assert_eq!(flow.remote, there.local);
    assert_eq!(flow.stream, 0);

    server.send(Target::Flow(flow), &response(200, "a"));
    let back = client.expect(&response(200, "a")).await;
    assert_eq!(back, there);

    // Both directions are on the wire, headers included.
    let statistics = client.transports.statistics().await;
    assert_eq!(
        (statistics.packets_sent, statistics.packets_received),
        (1, 1)
    );
    let headers = if listen.contains('[') { 48 } else { 28 };
    let bytes = request("a").len() + response(200, "a").len() + 2 * headers;
    assert_eq!(statistics.bytes(), bytes as u64);
    assert_eq!(
        (statistics.messages_sent, statistics.messages_received),
        (1, 1)
    );
}

#[tokio::test]
async fn request_and_response_over_ipv4() {
    request_and_response("udp:127.0.0.1:0").await;
}

#[tokio::test]
async fn request_and_response_over_ipv6() {
    request_and_response("udp:[::1]:0").await;
}

/// What has waited in the kernel is as old as if it had waited here: the defence against overload asks.
#[tokio::test]
async fn a_datagram_has_come_when_the_kernel_got_it() {
    let mut server = Node::listen(&["udp:127.0.0.1:0"]);
    let client = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let wait = Duration::from_millis(100);
    // The kernel begins to stamp some time after it was asked, and takes the time of reading until then.
    for _ in 0..50 {
        let before = Instant::now();
        client
            .send_to(&request("a"), server.address())
            .expect("sent");
        // The only thread of the runtime has something else to do.
        std::thread::sleep(wait);
        let Incoming::Message { received, .. } = server.event().await else {
            panic!("no message");
        };
        assert!(received >= before);
        if received.elapsed() >= wait {
            return;
        }
    }
    panic!("none has come when the kernel got it");
}

/// ICMP tells that nobody listens (RFC 3261 section 18.4).
#[tokio::test]
async fn a_datagram_that_cannot_get_there_is_told() {
    let mut node = Node::listen(&["udp:127.0.0.1:0"]);
    let nobody = Nobody::new();
    let target = Target::Address(Transport::Udp, nobody.address());
    // Systems send only so many ICMP messages a second.
    let told = tokio::time::timeout(common::PATIENCE, async {
        loop {
            node.send(target, &request("a"));
            let told = tokio::time::timeout(Duration::from_millis(200), node.event()).await;
            if let Ok(told) = told {
                return told;
            }
        }
    });
    let Incoming::Undelivered { remote, beginning } = told.await.expect("it is told") else {
        panic!("something else");
    };
    assert_eq!(remote, nobody.address());
    assert_eq!(beginning.to_bytes(), request("a"));
    assert!(node.transports.statistics().await.undelivered > 0);
    // What goes elsewhere meanwhile arrives, and keep-alives are none of anybody's messages.
    let mut other = Node::listen(&["udp:127.0.0.1:0"]);
    for _ in 0..20 {
        node.send(target, &Bytes::from_static(b"\r\n\r\n"));
        let there = Target::Address(Transport::Udp, other.address());
        node.send(there, &request("b"));
        other.expect(&request("b")).await;
    }
    assert_eq!(node.transports.statistics().await.sends_failed, 0);
}

/// Messages that leave together share a call to the kernel. Where nobody listens, each is reported all the same.
#[tokio::test]
async fn of_several_that_cannot_get_there_all_are_told() {
    const MESSAGES: usize = 3;
    let mut node = Node::listen(&["udp:127.0.0.1:0"]);
    let nobody = Nobody::new();
    let target = Target::Address(Transport::Udp, nobody.address());
    let told = tokio::time::timeout(common::PATIENCE, async {
        let mut told = std::collections::BTreeSet::new();
        // Systems send only so many ICMP messages a second.
        while told.len() < MESSAGES {
            node.transports
                .send_all((0..MESSAGES).map(|number| Transmit {
                    target,
                    peer: None,
                    payload: request(&number.to_string()),
                    call: number as u32,
                    transaction: None,
                }));
            while let Ok(event) =
                tokio::time::timeout(Duration::from_millis(200), node.event()).await
            {
                let Incoming::Undelivered { beginning, .. } = event else {
                    panic!("{event:?}");
                };
                told.insert(beginning.to_bytes());
            }
        }
    });
    told.await.expect("all are told");
}

#[tokio::test]
async fn a_bare_address_is_reached_from_the_listener() {
    let mut a = Node::listen(&["udp:127.0.0.1:0"]);
    let mut b = Node::listen(&["udp:127.0.0.1:0"]);
    a.send(Target::Address(Transport::Udp, b.address()), &request("a"));
    let flow = b.expect(&request("a")).await;
    assert_eq!(flow.remote, a.address());
    b.send(
        Target::FlowOrAddress(flow, a.address()),
        &response(200, "a"),
    );
    a.expect(&response(200, "a")).await;
    assert_eq!(
        a.transports.local_address_for(Transport::Udp, b.address()),
        Some(a.address())
    );
    assert_eq!(
        a.transports.local_address_for(Transport::Tcp, b.address()),
        None
    );
    let ipv6 = "[::1]:5060".parse().expect("an address");
    assert_eq!(a.transports.local_address_for(Transport::Udp, ipv6), None);
}

#[tokio::test]
async fn a_wildcard_listener_answers_from_the_address_it_was_asked_at() {
    let mut server = Node::listen(&["udp:0.0.0.0:0"]);
    let port = server.address().port();
    let client = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    client.connect(("127.0.0.2", port)).await.expect("a route");
    client.send(&request("a")).await.expect("sent");

    let flow = server.expect(&request("a")).await;
    assert_eq!(flow.local.to_string(), format!("127.0.0.2:{port}"));
    server.send(Target::Flow(flow), &response(200, "a"));
    // A connected socket takes only what comes from where it is connected to.
    let mut buffer = [0; 2000];
    let length = client.recv(&mut buffer).await.expect("an answer");
    assert_eq!(&buffer[..length], &response(200, "a")[..]);

    let remote = client.local_addr().expect("bound");
    let local = server.transports.local_address_for(Transport::Udp, remote);
    assert_eq!(
        local.map(|local| local.to_string()),
        Some(format!("127.0.0.1:{port}"))
    );
}

#[tokio::test]
async fn what_is_no_message_is_reported_and_counted() {
    let mut server = Node::listen(&["udp:127.0.0.1:0"]);
    let client = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    for datagram in [
        &b"\r\n\r\n"[..],
        b"\0\0\0\0",
        b"",
        b"\x16\x03\x01\x02\xff",
        &request("a"),
    ] {
        client
            .send_to(datagram, server.address())
            .await
            .expect("sent");
    }
    match server.event().await {
        Incoming::Malformed {
            flow,
            bytes,
            reason,
        } => {
            assert_eq!(bytes, &b"\x16\x03\x01\x02\xff"[..]);
            assert_eq!(flow.remote, client.local_addr().expect("bound"));
            assert!(matches!(reason, MalformedReason::Read(_)));
        }
        other => panic!("{other:?}"),
    }
    server.expect(&request("a")).await;
    let statistics = server.transports.statistics().await;
    assert_eq!((statistics.malformed, statistics.keep_alives), (1, 3));
    assert_eq!(statistics.messages_received, 1);
}

#[tokio::test]
async fn what_no_datagram_holds_is_not_sent() {
    let mut node = Node::listen(&["udp:127.0.0.1:0"]);
    let large = Bytes::from(vec![b'x'; 65_508]);
    let target = Target::Address(Transport::Udp, node.address());
    let key = transaction();
    node.send_for(target, &large, Some(key));
    match node.event().await {
        Incoming::SendFailed { transaction, error } => {
            assert_eq!((transaction, error), (key, SendError::TooLarge));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(node.transports.statistics().await.sends_failed, 1);
    // A byte less is a datagram, if a large one.
    node.send(target, &large.slice(1..));
    assert!(
        matches!(node.event().await, Incoming::Malformed { bytes, .. } if bytes.len() == 65_507)
    );
}

#[tokio::test]
async fn each_user_can_have_a_socket() {
    let mut server = Node::listen(&["udp:127.0.0.1:0"]);
    let mut client = Node::listen(&["udp:127.0.0.1:0"]);
    let mut flows = Vec::new();
    for _ in 0..3 {
        let flow = client
            .transports
            .connect(Transport::Udp, server.address(), true)
            .await;
        flows.push(flow.expect("a socket"));
    }
    for flow in &flows {
        client.send(Target::Flow(*flow), &request("a"));
        let at_server = server.expect(&request("a")).await;
        assert_eq!(at_server.remote, flow.local);
        server.send(Target::Flow(at_server), &response(200, "a"));
        assert_eq!(client.expect(&response(200, "a")).await, *flow);
    }
    assert_eq!(client.transports.statistics().await.connections, 3);

    client.transports.close(flows[0].connection);
    client
        .until(async |transports| transports.statistics().await.connections == 2)
        .await;
    let key = transaction();
    client.send_for(Target::Flow(flows[0]), &request("a"), Some(key));
    match client.event().await {
        Incoming::SendFailed { error, .. } => assert_eq!(error, SendError::Gone),
        other => panic!("{other:?}"),
    }
    // What a closed socket carried stays counted: three requests and three responses.
    assert_eq!(client.transports.statistics().await.packets(), 6);
}

#[tokio::test]
async fn client_sockets_are_limited() {
    let server = Node::listen(&["udp:127.0.0.1:0"]);
    let client = Node::start(limits(
        Limits {
            max_connections: 1,
            ..Limits::default()
        },
        &[],
    ));
    let connect = || {
        client
            .transports
            .connect(Transport::Udp, server.address(), true)
    };
    connect().await.expect("the first");
    assert_eq!(connect().await, Err(SendError::TooManyConnections));
}

#[tokio::test]
async fn datagrams_beyond_the_queue_are_dropped_and_counted() {
    let limit = Limits {
        incoming_queue: 2,
        ..Limits::default()
    };
    let mut server = Node::start(limits(limit, &["udp:127.0.0.1:0"]));
    let client = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    for _ in 0..5 {
        client
            .send_to(&request("a"), server.address())
            .await
            .expect("sent");
    }
    server
        .until(async |transports| transports.statistics().await.incoming_dropped == 3)
        .await;
    server.expect(&request("a")).await;
    server.expect(&request("a")).await;
    server.expect_silence().await;
}

#[tokio::test]
async fn a_bad_network_loses_datagrams() {
    let mut server = Node::listen(&["udp:127.0.0.1:0"]);
    let lossy = LinkConfig {
        loss: 1.0.into(),
        ..LinkConfig::default()
    };
    let impairment = Impairment {
        outbound: lossy,
        inbound: LinkConfig::default(),
        seed: 1,
    };
    let client = Node::start(SipNetConfig {
        impairment: Some(impairment),
        ..config(&[])
    });
    client.send(
        Target::Address(Transport::Udp, server.address()),
        &request("a"),
    );
    server.expect_silence().await;
    // It was put on the wire, and was lost there.
    assert_eq!(client.transports.statistics().await.packets_sent, 1);
    assert_eq!(server.transports.statistics().await.packets_received, 0);
}

#[tokio::test]
async fn shutdown_frees_the_port() {
    let node = Node::listen(&["udp:127.0.0.1:0"]);
    let address = node.address();
    let Node {
        transports,
        incoming,
        ..
    } = node;
    transports.shutdown().await;
    drop((transports, incoming));
    UdpSocket::bind(address).await.expect("the port is free");
}

#[tokio::test]
async fn without_a_receiver_everything_stops() {
    let Node {
        transports,
        incoming,
        ..
    } = Node::listen(&["udp:127.0.0.1:0"]);
    let remote = transports.listening()[0].address;
    drop(incoming);
    let stopped = async {
        while transports.connect(Transport::Udp, remote, true).await != Err(SendError::ShutDown) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(common::PATIENCE, stopped)
        .await
        .expect("it stops");
}
