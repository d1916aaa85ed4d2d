//! SIP over SCTP on loopback: between two of ours, and against a bare SCTP endpoint, which shows
//! how a message travelled.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::common::{
    Node, PATIENCE, config, limits, request, request_with_body, response, transaction,
};
use bytes::Bytes;
use sctp_net::{
    Association, CloseCause, Endpoint, EndpointConfig, ReceivedMessage, SendInfo, Stack,
    UdpCarrierConfig,
};
use sip::{Flow, Target, Transmit, Transport};
use sip_net::{CloseReason, Impairment, Incoming, Limits, SendError, SipNetConfig, StreamPolicy};
use tokio::time::timeout;
use udp_net::LinkConfig;

const LISTEN: &[&str] = &["sctp:127.0.0.1:5060"];

/// A node without listeners that can reach this server.
fn client_of(server: &Node) -> SipNetConfig {
    let under = server.transports.encapsulation_addresses();
    SipNetConfig {
        peer_encapsulation_port: under.first().expect("a socket").port(),
        ..config(&[])
    }
}

async fn connect(client: &Node, server: &Node, new: bool) -> Flow {
    let connected = client
        .transports
        .connect(Transport::Sctp, server.address(), new);
    timeout(PATIENCE, connected)
        .await
        .expect("in time")
        .expect("an association")
}

async fn closed(node: &mut Node, flow: Flow) -> CloseReason {
    match node.event().await {
        Incoming::ConnectionClosed {
            connection,
            transport,
            remote,
            reason,
        } => {
            assert_eq!((connection, transport), (flow.connection, Transport::Sctp));
            assert_eq!(remote, flow.remote);
            reason
        }
        other => panic!("not closed: {other:?}"),
    }
}

/// A bare SCTP endpoint on loopback.
struct Bare {
    stack: Stack,
    endpoint: Endpoint,
}

impl Bare {
    fn start() -> Bare {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let stack = Stack::udp(UdpCarrierConfig::new(address)).expect("a port");
        let settings = EndpointConfig::default().outbound_streams(8);
        let endpoint = stack.endpoint(5060, settings).expect("a port");
        Bare { stack, endpoint }
    }

    /// A node that reaches this endpoint by its SCTP address.
    fn client(&self, stream_policy: StreamPolicy) -> SipNetConfig {
        let peer_encapsulation_port = self.stack.local_addr().port();
        SipNetConfig {
            peer_encapsulation_port,
            stream_policy,
            ..config(&[])
        }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::new(self.stack.local_addr().ip(), self.endpoint.port())
    }

    async fn accept(&self) -> Association {
        timeout(PATIENCE, self.endpoint.accept())
            .await
            .expect("in time")
            .expect("it listens")
    }

    async fn connect(&self, server: &Node) -> Association {
        let address = server.address();
        let under = server.transports.encapsulation_addresses()[0].port();
        let connected = self
            .endpoint
            .connect(address.ip(), address.port(), Some(under));
        timeout(PATIENCE, connected)
            .await
            .expect("in time")
            .expect("an association")
    }
}

async fn receive(association: &Association) -> ReceivedMessage {
    timeout(PATIENCE, association.receive())
        .await
        .expect("in time")
        .expect("a message")
}

async fn send(association: &Association, stream: u16, payload: &Bytes) {
    let info = SendInfo {
        stream,
        ..SendInfo::default()
    };
    let sent = timeout(PATIENCE, association.send(info, payload.clone())).await;
    sent.expect("in time").expect("sent");
}

async fn request_and_response(listen: &str) {
    let mut server = Node::listen(&[listen]);
    let mut client = Node::start(client_of(&server));
    assert_eq!(server.address().port(), 5060);
    let there = connect(&client, &server, false).await;
    assert_eq!(there.remote, server.address());
    assert_eq!(there.local.ip(), server.address().ip());

    client.send(Target::Flow(there), &request("a"));
    let flow = server.expect(&request("a")).await;
    assert_eq!(
        (flow.transport, flow.local),
        (Transport::Sctp, server.address())
    );
    assert_eq!((flow.remote, flow.stream), (there.local, 0));
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
    // INIT, COOKIE ECHO and a message, and what answers them.
    assert!(
        statistics.packets_sent >= 3 && statistics.packets_received >= 3,
        "{statistics:?}"
    );
    assert!(statistics.bytes() > (request("a").len() + response(200, "a").len()) as u64);
    assert_eq!(server.transports.statistics().await.connections_accepted, 1);
    let local = server
        .transports
        .local_address_for(Transport::Sctp, there.local);
    assert_eq!(local, Some(server.address()));
}

#[tokio::test]
async fn request_and_response_over_ipv4() {
    request_and_response("sctp:127.0.0.1:5060").await;
}

#[tokio::test]
async fn request_and_response_over_ipv6() {
    request_and_response("sctp:[::1]:5060").await;
}

#[tokio::test]
async fn by_default_messages_are_unordered_on_stream_0() {
    let bare = Bare::start();
    let client = Node::start(bare.client(StreamPolicy::default()));
    let target = Target::Address(Transport::Sctp, bare.address());
    client.send(target, &request("a"));
    let association = bare.accept().await;
    let received = receive(&association).await;
    assert_eq!(received.payload, request("a"));
    assert_eq!(
        (received.stream, received.ppid, received.unordered),
        (0, 0, true)
    );
}

#[tokio::test]
async fn a_stream_per_call_is_ordered() {
    let bare = Bare::start();
    let client = Node::start(bare.client(StreamPolicy::PerCall));
    let target = Target::Address(Transport::Sctp, bare.address());
    let calls = [0, 1, 7, 63, 64, 1_000_003];
    for call in calls {
        let payload = request("a");
        client.transports.send(sip::Transmit {
            target,
            peer: None,
            payload,
            call,
            transaction: None,
        });
    }
    let association = bare.accept().await;
    for call in calls {
        let received = receive(&association).await;
        assert_eq!(u32::from(received.stream), call % 64);
        assert_eq!((received.ppid, received.unordered), (0, false));
    }
}

#[tokio::test]
async fn a_stream_per_flow_is_ordered() {
    let bare = Bare::start();
    let client = Node::start(bare.client(StreamPolicy::PerFlow));
    let flow = client
        .transports
        .connect(Transport::Sctp, bare.address(), false)
        .await;
    let flow = flow.expect("an association");
    let association = bare.accept().await;
    for (named, used) in [(0, 0), (5, 5), (63, 63), (64, 0), (65_535, 63)] {
        client.send(
            Target::Flow(Flow {
                stream: named,
                ..flow
            }),
            &request("a"),
        );
        let received = receive(&association).await;
        assert_eq!((received.stream, received.unordered), (used, false));
    }
    client.send(
        Target::Address(Transport::Sctp, bare.address()),
        &request("a"),
    );
    assert_eq!(receive(&association).await.stream, 0);
}

#[tokio::test]
async fn one_stream_for_all_is_ordered() {
    let bare = Bare::start();
    let client = Node::start(bare.client(StreamPolicy::Single));
    let target = Target::Address(Transport::Sctp, bare.address());
    for name in ["a", "b"] {
        client.send(target, &request(name));
    }
    let association = bare.accept().await;
    for name in ["a", "b"] {
        let received = receive(&association).await;
        assert_eq!(received.payload, request(name));
        assert_eq!(
            (received.stream, received.ppid, received.unordered),
            (0, 0, false)
        );
    }
}

#[tokio::test]
async fn each_transaction_has_a_stream() {
    let bare = Bare::start();
    let client = Node::start(bare.client(StreamPolicy::PerTransaction));
    let target = Target::Address(Transport::Sctp, bare.address());
    let names: Vec<String> = (0..64).map(|number| format!("n{number}")).collect();
    for name in &names {
        client.send(target, &request(name));
        client.send(target, &request(name));
    }
    let association = bare.accept().await;
    assert_eq!(association.outbound_streams(), 8);
    let mut streams = std::collections::HashMap::new();
    for _ in 0..2 * names.len() {
        let received = receive(&association).await;
        assert!(!received.unordered);
        streams
            .entry(received.payload)
            .or_insert_with(Vec::new)
            .push(received.stream);
    }
    // There are 64 streams, so no two transactions share one, and both messages of each do.
    let mut used: Vec<u16> = streams.values().map(|streams| streams[0]).collect();
    used.sort_unstable();
    assert_eq!(used, (0..64).collect::<Vec<u16>>());
    assert!(streams.values().all(|streams| streams[0] == streams[1]));
}

#[tokio::test]
async fn a_peer_that_is_gone_answers_nothing() {
    let mut server = Node::listen(LISTEN);
    let mut peer = Node::start(SipNetConfig {
        listeners: config(LISTEN).listeners,
        ..client_of(&server)
    });
    let user = connect(&peer, &server, true).await;
    let key = transaction();
    peer.send_for(Target::Flow(user), &request("a"), Some(key));
    let flow = server.expect(&request("a")).await;
    peer.expect_silence().await;
    server.transports.close(flow.connection);
    match peer.event().await {
        Incoming::SendFailed { transaction, error } => {
            assert_eq!((transaction, error), (key, SendError::Gone));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(closed(&mut peer, user).await, CloseReason::Peer);
}

#[tokio::test]
async fn a_response_to_a_dead_association_takes_another() {
    let mut server = Node::listen(LISTEN);
    let mut peer = Node::start(SipNetConfig {
        listeners: config(LISTEN).listeners,
        ..client_of(&server)
    });
    let user = connect(&peer, &server, true).await;
    peer.send(Target::Flow(user), &request("a"));
    let flow = server.expect(&request("a")).await;
    peer.transports.close(user.connection);
    assert_eq!(closed(&mut server, flow).await, CloseReason::Peer);
    assert_eq!(closed(&mut peer, user).await, CloseReason::Local);
    // Along the flow alone it cannot go; with the address that the Via says it can (RFC 3261
    // section 18.2.2), on an association that is there or a new one.
    let key = transaction();
    server.send_for(Target::Flow(flow), &response(200, "a"), Some(key));
    match server.event().await {
        Incoming::SendFailed { error, .. } => assert_eq!(error, SendError::Gone),
        other => panic!("{other:?}"),
    }
    let open = connect(&peer, &server, false).await;
    peer.send(Target::Flow(open), &request("b"));
    server.expect(&request("b")).await;
    let via = Target::FlowOrAddress(flow, peer.address());
    server.send_for(via, &response(200, "a"), Some(key));
    let back = peer.expect(&response(200, "a")).await;
    assert_eq!(back.connection, open.connection);
}

#[tokio::test]
async fn associations_can_be_watched() {
    let mut server = Node::listen(LISTEN);
    let client = Node::start(client_of(&server));
    let flow = connect(&client, &server, false).await;
    client.send(Target::Flow(flow), &request("a"));
    let at_server = server.expect(&request("a")).await;
    let seen = server.transports.sctp_associations(10).await;
    assert_eq!(seen.len(), 1);
    assert_eq!(
        (seen[0].transport, seen[0].connection, seen[0].remote),
        (Transport::Sctp, at_server.connection, flow.local)
    );
    assert!(seen[0].accepted);
    assert_eq!(seen[0].statistics.messages_received, 1);
    let path = &seen[0].status.paths[0];
    assert_eq!(path.address.remote, flow.local.ip());
    assert!(path.cwnd > 0);
    assert!(server.transports.sctp_associations(0).await.is_empty());
    client.transports.close(flow.connection);
    server
        .until(async |transports| transports.sctp_associations(10).await.is_empty())
        .await;
}

#[tokio::test]
async fn messages_are_accepted_on_any_stream() {
    let settings = SipNetConfig {
        stream_policy: StreamPolicy::PerFlow,
        ..config(LISTEN)
    };
    let mut server = Node::start(settings);
    let bare = Bare::start();
    let association = bare.connect(&server).await;
    for stream in [3, 0, 7] {
        send(&association, stream, &request("a")).await;
        let flow = server.expect(&request("a")).await;
        assert_eq!(flow.stream, stream);
        // The answer takes the stream of the request.
        server.send(Target::Flow(flow), &response(200, "a"));
        let received = receive(&association).await;
        assert_eq!(
            (received.stream, received.payload),
            (stream, response(200, "a"))
        );
    }
}

#[tokio::test]
async fn an_open_association_is_used_again() {
    let mut server = Node::listen(LISTEN);
    let mut client = Node::start(client_of(&server));
    let target = Target::Address(Transport::Sctp, server.address());
    // The second is sent while the association is still being set up.
    client.send(target, &request("a"));
    client.send(target, &request("b"));
    let (flow, _) = server.message().await;
    assert_eq!(server.message().await.0, flow);
    assert_eq!(client.transports.statistics().await.connections_opened, 1);
    server.send(Target::Address(Transport::Sctp, flow.remote), &request("c"));
    client.expect(&request("c")).await;
    assert_eq!(server.transports.statistics().await.connections_opened, 0);
}

#[tokio::test]
async fn two_servers_reach_each_other_from_their_listeners() {
    let mut a = Node::listen(LISTEN);
    let settings = SipNetConfig {
        listeners: config(LISTEN).listeners,
        ..client_of(&a)
    };
    let mut b = Node::start(settings);
    // The same SCTP port and address on both sides: the encapsulation port tells them apart.
    b.send(Target::Address(Transport::Sctp, a.address()), &request("a"));
    let flow = a.expect(&request("a")).await;
    assert_eq!(flow.remote, b.address());
    a.send(Target::Flow(flow), &response(200, "a"));
    b.expect(&response(200, "a")).await;
}

#[tokio::test]
async fn each_user_can_have_an_association() {
    let mut server = Node::listen(LISTEN);
    let mut client = Node::start(client_of(&server));
    let mut flows = Vec::new();
    for name in ["a", "b", "c"] {
        let flow = connect(&client, &server, true).await;
        client.send(Target::Flow(flow), &request(name));
        let at_server = server.expect(&request(name)).await;
        assert_eq!(at_server.remote, flow.local);
        flows.push(flow);
    }
    assert_ne!(flows[0].local.port(), flows[1].local.port());
    assert_eq!(client.transports.encapsulation_addresses().len(), 1);

    client.transports.close(flows[1].connection);
    assert_eq!(closed(&mut client, flows[1]).await, CloseReason::Local);
    match server.event().await {
        Incoming::ConnectionClosed { remote, reason, .. } => {
            assert_eq!((remote, reason), (flows[1].local, CloseReason::Peer));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(client.transports.statistics().await.connections, 2);
}

#[tokio::test]
async fn what_is_no_message_leaves_the_association() {
    let mut server = Node::listen(LISTEN);
    let bare = Bare::start();
    let association = bare.connect(&server).await;
    send(&association, 0, &Bytes::from_static(b"\xff\xfe garbage")).await;
    let flow = match server.event().await {
        Incoming::Malformed { flow, bytes, .. } => {
            assert_eq!(bytes, &b"\xff\xfe garbage"[..]);
            flow
        }
        other => panic!("{other:?}"),
    };
    send(&association, 0, &Bytes::from_static(b"\r\n\r\n")).await;
    assert_eq!(receive(&association).await.payload, &b"\r\n"[..]);
    send(&association, 0, &request("a")).await;
    assert_eq!(server.expect(&request("a")).await, flow);
    let statistics = server.transports.statistics().await;
    assert_eq!((statistics.malformed, statistics.keep_alives), (1, 1));
}

#[tokio::test]
async fn a_large_message_arrives_whole_and_a_larger_one_fails() {
    let mut server = Node::listen(LISTEN);
    let mut client = Node::start(client_of(&server));
    let target = Target::Address(Transport::Sctp, server.address());
    let large = request_with_body("a", &"x".repeat(200_000));
    client.send(target, &large);
    server.expect(&large).await;

    let larger = request_with_body("a", &"x".repeat(300_000));
    let key = transaction();
    client.send_for(target, &larger, Some(key));
    match client.event().await {
        Incoming::SendFailed { transaction, error } => {
            assert_eq!((transaction, error), (key, SendError::TooLarge));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn nobody_there_fails_what_waits() {
    let server = Node::listen(LISTEN);
    let limits = Limits {
        connect_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let mut client = Node::start(SipNetConfig {
        limits,
        ..client_of(&server)
    });
    // The UDP port is open, the SCTP port is not.
    let nobody = SocketAddr::new(server.address().ip(), 5099);
    let target = Target::Address(Transport::Sctp, nobody);
    let keys = [transaction(), transaction()];
    for key in keys {
        client.send_for(target, &request("a"), Some(key));
    }
    for key in keys {
        match client.event().await {
            Incoming::SendFailed { transaction, error } => {
                assert_eq!(transaction, key);
                assert!(
                    matches!(error, SendError::ConnectTimeout | SendError::Sctp(_)),
                    "{error:?}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    let statistics = client.transports.statistics().await;
    assert_eq!((statistics.connects_failed, statistics.connections), (1, 0));
    assert_eq!(statistics.sends_failed, 2);
}

#[tokio::test]
async fn silence_fails_in_time() {
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let port = silent.local_addr().expect("bound").port();
    let limits = Limits {
        connect_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let client = Node::start(SipNetConfig {
        peer_encapsulation_port: port,
        limits,
        ..config(&[])
    });
    let remote = SocketAddr::from(([127, 0, 0, 1], 5060));
    let began = Instant::now();
    let connected = client
        .transports
        .connect(Transport::Sctp, remote, false)
        .await;
    assert_eq!(connected, Err(SendError::ConnectTimeout));
    // Before it would without our limit, by far.
    assert!(began.elapsed() < Limits::default().connect_timeout);
}

#[tokio::test]
async fn a_peer_that_says_nothing_is_not_kept() {
    let limits = Limits {
        // One that speaks is not to be late on a busy machine.
        first_message_timeout: Duration::from_secs(2),
        ..Limits::default()
    };
    let mut server = Node::start(SipNetConfig {
        limits,
        ..config(LISTEN)
    });
    let mut client = Node::start(client_of(&server));
    let speaking = connect(&client, &server, true).await;
    client.send(Target::Flow(speaking), &request("a"));
    server.expect(&request("a")).await;
    let silent = connect(&client, &server, true).await;
    let pinging = connect(&client, &server, true).await;
    client.send(Target::Flow(pinging), &Bytes::from_static(b"\r\n\r\n"));
    for _ in 0..2 {
        match server.event().await {
            Incoming::ConnectionClosed { reason, .. } => assert_eq!(reason, CloseReason::Silent),
            other => panic!("{other:?}"),
        }
    }
    let mut ended = Vec::new();
    for _ in 0..2 {
        match client.event().await {
            Incoming::ConnectionClosed { connection, .. } => ended.push(connection),
            other => panic!("{other:?}"),
        }
    }
    ended.sort();
    let mut expected = vec![silent.connection, pinging.connection];
    expected.sort();
    assert_eq!(ended, expected);
    let statistics = server.transports.statistics().await;
    assert_eq!(statistics.first_message_timeouts, 2);
    client.send(Target::Flow(speaking), &request("b"));
    server.expect(&request("b")).await;
}

#[tokio::test]
async fn associations_are_limited() {
    let limits = Limits {
        max_connections: 1,
        ..Limits::default()
    };
    let mut server = Node::start(SipNetConfig {
        limits,
        ..config(LISTEN)
    });
    let mut client = Node::start(client_of(&server));
    let first = connect(&client, &server, true).await;
    client.send(Target::Flow(first), &request("a"));
    // One that is known gives way to nobody.
    let first = server.expect(&request("a")).await;
    server.transports.known(first.connection);
    let second = client
        .transports
        .connect(Transport::Sctp, server.address(), true)
        .await;
    // It is up before the server looks at it, and then aborted.
    if let Ok(flow) = second {
        assert!(matches!(
            closed(&mut client, flow).await,
            CloseReason::Failed(_)
        ));
    }
    assert_eq!(server.transports.statistics().await.connections_refused, 1);
    assert_eq!(server.transports.statistics().await.connections, 1);
}

#[tokio::test]
async fn a_slow_reader_holds_up_nobody() {
    let limits = Limits {
        write_queue_messages: 20,
        ..Limits::default()
    };
    let mut server = Node::start(SipNetConfig {
        limits,
        ..config(LISTEN)
    });
    let (slow, fast) = (Bare::start(), Bare::start());
    let slow = slow.connect(&server).await;
    send(&slow, 0, &request("slow")).await;
    let to_slow = server.expect(&request("slow")).await;
    let fast = fast.connect(&server).await;
    send(&fast, 0, &request("fast")).await;
    let to_fast = server.expect(&request("fast")).await;

    // Far more than the peer's window, the send buffer and the queue hold.
    let large = request_with_body("large", &"x".repeat(60_000));
    for _ in 0..150 {
        server.send(Target::Flow(to_slow), &large);
        server.send(Target::Flow(to_fast), &response(200, "fast"));
        assert_eq!(receive(&fast).await.payload, response(200, "fast"));
    }
    assert!(server.transports.statistics().await.sends_failed > 50);
}

#[tokio::test]
async fn a_bad_network_loses_nothing() {
    // Timers of a loopback, so that repairing a loss takes no second.
    let sctp = EndpointConfig::default()
        .rto_initial(Duration::from_millis(50))
        .rto_min(Duration::from_millis(50))
        .rto_max(Duration::from_millis(400))
        .association_max_retrans(50)
        .sack_delay(Duration::from_millis(10));
    let bad = LinkConfig {
        loss: 0.2.into(),
        ..LinkConfig::default()
    };
    let impairment = Some(Impairment {
        outbound: bad.clone(),
        inbound: bad,
        seed: 5,
    });
    let mut server = Node::start(SipNetConfig {
        sctp: sctp.clone(),
        ..config(LISTEN)
    });
    let mut client = Node::start(SipNetConfig {
        impairment,
        sctp,
        ..client_of(&server)
    });
    let target = Target::Address(Transport::Sctp, server.address());
    for number in 0..20 {
        let name = number.to_string();
        client.send(target, &request(&name));
        let flow = server.expect(&request(&name)).await;
        server.send(Target::Flow(flow), &response(200, &name));
        client.expect(&response(200, &name)).await;
    }
    let statistics = client.transports.statistics().await;
    assert!(statistics.transport_retransmissions > 0);
}

#[tokio::test]
async fn listeners_on_one_address_share_a_udp_port() {
    let mut server = Node::listen(&["sctp:127.0.0.1:5060", "sctp:127.0.0.1:0", "sctp:[::1]:5060"]);
    let under = server.transports.encapsulation_addresses();
    assert_eq!(under.len(), 2);
    let listening = server.transports.listening();
    assert_ne!(listening[1].address.port(), 0);
    let client = Node::start(client_of(&server));
    for listen in &listening[..2] {
        client.send(
            Target::Address(Transport::Sctp, listen.address),
            &request("a"),
        );
        assert_eq!(server.expect(&request("a")).await.local, listen.address);
    }
}

#[tokio::test]
async fn ports_in_use_are_named() {
    let other = tokio::net::UdpSocket::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let port = other.local_addr().expect("bound").port();
    let holder = udp_net::port_holder(port).expect("this process has it");
    let taken = SipNetConfig {
        encapsulation_port: port,
        ..config(LISTEN)
    };
    let error = sip_net::Transports::start(taken).expect_err("the port is in use");
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on sctp:127.0.0.1:5060: UDP port {port}, which carries its SCTP \
             packets, is in use by {holder}: stop that program or choose another port \
             (--encapsulation-port, in a file sctp.encapsulation_port)"
        )
    );
    let twice = config(&["sctp:127.0.0.1:5060", "sctp:127.0.0.1:5060"]);
    let error = sip_net::Transports::start(twice).expect_err("the port is in use");
    assert_eq!(
        error.to_string(),
        "cannot listen on sctp:127.0.0.1:5060: the port is in use: \
         stop the program that holds it or choose another port"
    );
}

#[tokio::test]
async fn shutdown_ends_associations_in_good_order() {
    let mut server = Node::start(limits(
        Limits {
            shutdown_timeout: 3 * PATIENCE,
            ..Limits::default()
        },
        LISTEN,
    ));
    let bare = Bare::start();
    let association = bare.connect(&server).await;
    send(&association, 0, &request("a")).await;
    let flow = server.expect(&request("a")).await;
    for _ in 0..50 {
        server.send(Target::Flow(flow), &response(200, "a"));
    }
    let began = Instant::now();
    let reading = async {
        let mut received = 0;
        while timeout(PATIENCE, association.receive())
            .await
            .expect("in time")
            .is_some()
        {
            received += 1;
        }
        received
    };
    let ((), received) = tokio::join!(server.transports.shutdown(), reading);
    assert_eq!(received, 50);
    assert_eq!(association.closed().await, CloseCause::Shutdown);
    assert!(began.elapsed() < PATIENCE);
    let later = server
        .transports
        .connect(Transport::Sctp, flow.remote, false)
        .await;
    assert_eq!(later, Err(SendError::ShutDown));
}

/// The loopback interface carries large packets: messages that leave together share them.
#[tokio::test]
async fn messages_share_packets_as_large_as_the_interface_carries() {
    const MESSAGES: usize = 60;
    let mut server = Node::listen(LISTEN);
    let client = Node::start(client_of(&server));
    let there = connect(&client, &server, false).await;
    let body = "b".repeat(1000);
    let messages: Vec<Bytes> = (0..MESSAGES)
        .map(|number| request_with_body(&number.to_string(), &body))
        .collect();
    let fewest = async {
        let mut fewest = u64::MAX;
        // The path MTU is found out while messages go.
        while fewest > MESSAGES as u64 / 4 {
            let before = client.transports.statistics().await.packets_sent;
            let transmits = messages.iter().map(|payload| Transmit {
                target: Target::Flow(there),
                peer: None,
                payload: payload.clone(),
                call: 0,
                transaction: None,
            });
            client.transports.send_all(transmits);
            for _ in &messages {
                server.message().await;
            }
            fewest = fewest.min(client.transports.statistics().await.packets_sent - before);
        }
    };
    timeout(PATIENCE, fewest).await.expect("large packets");
}
