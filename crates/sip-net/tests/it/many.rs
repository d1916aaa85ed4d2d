//! Many flows at a time, on several threads.

use std::collections::HashMap;

use crate::common::certificates::Authority;
use crate::common::{Node, config, limits, request, request_with_body, response};
use rcgen::SanType;
use sip::{Flow, Target, Transmit, Transport};
use sip_net::{Incoming, Limits, SipNetConfig, Transports};

const FLOWS: usize = 50;
const MESSAGES: usize = 40;

/// Answers every request along its flow until the transports shut down.
async fn answer(mut server: Node) {
    while let Some(event) = server.incoming.recv().await {
        match event {
            Incoming::Message { flow, message, .. } => {
                let name = message.call_id().expect("a Call-ID").to_owned();
                server.send(Target::Flow(flow), &response(200, &name));
            }
            Incoming::ConnectionClosed { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Each flow sends one request after the other, each after the answer to the one before.
async fn exchange(transport: Transport) {
    let listen = format!("{transport}:127.0.0.1:0");
    let server = Node::listen(&[&listen]);
    let address = server.address();
    let under = server.transports.encapsulation_addresses();
    let mut client = Node::start(SipNetConfig {
        peer_encapsulation_port: under.first().map_or(0, |address| address.port()),
        ..limits(Limits::default(), &[])
    });
    let answering = tokio::spawn(answer(server));

    let mut sent = HashMap::new();
    for _ in 0..FLOWS {
        let flow = client.transports.connect(transport, address, true).await;
        let flow = flow.expect("a connection");
        client.send(Target::Flow(flow), &request("0"));
        sent.insert(flow.connection, 1);
    }
    let mut answered = 0;
    while answered < FLOWS * MESSAGES {
        let (flow, message) = client.message().await;
        answered += 1;
        let sent = sent.get_mut(&flow.connection).expect("a flow of ours");
        assert_eq!(message.call_id(), Some((*sent - 1).to_string().as_str()));
        if *sent < MESSAGES {
            client.send(Target::Flow(flow), &request(&sent.to_string()));
            *sent += 1;
        }
    }
    let total = (FLOWS * MESSAGES) as u64;
    // An answer can be here before the sender has counted its request.
    client
        .until(async |transports| transports.statistics().await.messages_sent == total)
        .await;
    let statistics = client.transports.statistics().await;
    assert_eq!(statistics.connections_opened, FLOWS as u64);
    assert_eq!(statistics.messages_received, total);
    client.transports.shutdown().await;
    let ended = client.transports.statistics().await;
    assert_eq!(ended.connections, 0);
    answering.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_udp() {
    exchange(Transport::Udp).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tcp() {
    exchange(Transport::Tcp).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_sctp() {
    exchange(Transport::Sctp).await;
}

/// Whoever sends to one address from many threads at once opens one connection.
async fn one_connection(transport: Transport) {
    let listen = format!("{transport}:127.0.0.1:0");
    let mut server = Node::listen(&[&listen]);
    let under = server.transports.encapsulation_addresses();
    let client = Node::start(SipNetConfig {
        peer_encapsulation_port: under.first().map_or(0, |address| address.port()),
        ..config(&[])
    });
    let target = Target::Address(transport, server.address());
    for name in 0..FLOWS {
        let transports = client.transports.clone();
        tokio::spawn(async move {
            transports.send(sip::Transmit {
                target,
                peer: None,
                payload: request(&name.to_string()),
                call: 0,
                transaction: None,
            });
        });
    }
    for _ in 0..FLOWS {
        server.message().await;
    }
    assert_eq!(client.transports.statistics().await.connections_opened, 1);
    assert_eq!(server.transports.statistics().await.connections_accepted, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn senders_share_a_tcp_connection() {
    one_connection(Transport::Tcp).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn senders_share_an_association() {
    one_connection(Transport::Sctp).await;
}

/// Sends `turns` times several messages at once, numbered, and lets others send meanwhile.
async fn send_in_turns(transports: Transports, flow: Flow, sender: usize, turns: usize) {
    const TOGETHER: usize = 5;
    let body = "x".repeat(10_000);
    for turn in 0..turns {
        let numbers = turn * TOGETHER..(turn + 1) * TOGETHER;
        transports.send_all(numbers.map(|number| Transmit {
            target: Target::Flow(flow),
            peer: None,
            payload: request_with_body(&format!("{sender}-{number}"), &body),
            call: 0,
            transaction: None,
        }));
        tokio::task::yield_now().await;
    }
}

/// Whoever has messages for a connection writes them, and its task what finds no room: each message stays whole, and those
/// of each sender stay in their order, also where the reader is slower than the senders.
async fn senders_take_turns(transport: Transport) {
    const SENDERS: usize = 4;
    const TURNS: usize = 200;
    let listen = format!("{transport}:127.0.0.1:0");
    let room = Limits {
        write_queue_messages: 10_000,
        write_queue_bytes: 100 << 20,
        all_write_queues_bytes: 100 << 20,
        ..Limits::default()
    };
    let authority = Authority::new();
    let address = SanType::IpAddress([127, 0, 0, 1].into());
    let certificate = authority.certificate_with("127.0.0.1", vec![address]);
    let slow = Limits {
        incoming_queue: 1,
        ..Limits::default()
    };
    let mut reader = Node::start(SipNetConfig {
        tls: authority.server(vec![certificate]),
        ..limits(slow, &[&listen])
    });
    let writer = Node::start(SipNetConfig {
        tls: authority.client(),
        ..limits(room, &[])
    });
    let connected = writer
        .transports
        .connect(transport, reader.address(), false);
    let flow = connected.await.expect("a connection");
    for sender in 0..SENDERS {
        tokio::spawn(send_in_turns(
            writer.transports.clone(),
            flow,
            sender,
            TURNS,
        ));
    }
    let mut next = [0; SENDERS];
    for _ in 0..SENDERS * TURNS * 5 {
        let (_, message) = reader.message().await;
        let name = message.call_id().expect("a Call-ID");
        let (sender, number) = name.split_once('-').expect("two numbers");
        let expected = &mut next[sender.parse::<usize>().expect("a sender")];
        assert_eq!(number, expected.to_string());
        *expected += 1;
    }
    assert_eq!(writer.transports.statistics().await.sends_failed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn senders_take_turns_on_a_tcp_connection() {
    senders_take_turns(Transport::Tcp).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn senders_take_turns_on_a_tls_connection() {
    senders_take_turns(Transport::Tls).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn senders_take_turns_on_a_websocket() {
    senders_take_turns(Transport::Ws).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn senders_take_turns_on_a_secure_websocket() {
    senders_take_turns(Transport::Wss).await;
}
