//! SIP over WebSocket (RFC 7118): against Python's `websockets`, and between two of ours.

use std::process::Command;
use std::time::Duration;

use crate::common::certificates::Authority;
use crate::common::{self, Node, PATIENCE, config, request, response};
use bytes::Bytes;
use sip::{Target, Transport};
use sip_net::{CloseReason, Incoming, SendError, SipNetConfig, WebSocketConfig};
use test_support::{Peer, require_file};

/// Sends what a browser would and what one would not, and tells what comes.
const CLIENT: &str = r#"
import asyncio, ssl, sys, websockets

async def main():
    uri, authority, name = sys.argv[1:]
    context = ssl.create_default_context(cafile=authority) if uri.startswith("wss") else None
    request = bytes.fromhex(name)
    async with websockets.connect(uri, subprotocols=["sip"], ssl=context) as socket:
        print("subprotocol", socket.subprotocol, flush=True)
        await socket.send(request.decode())
        print("text", (await socket.recv()).encode().hex(), flush=True)
        await socket.send(request + b"\xff")
        print("binary", (await socket.recv()).hex(), flush=True)
        await socket.send([request.decode()[:10], request.decode()[10:]])
        print("fragments", (await socket.recv()).encode().hex(), flush=True)
        await socket.send("\r\n\r\n")
        print("pong", repr(await socket.recv()), flush=True)
        await (await socket.ping())
        print("ping answered", flush=True)
    print("closed", socket.close_code, flush=True)

asyncio.run(main())
"#;

async fn python_talks_to_us(listen: &str) {
    let python = require_file(
        "/usr/lib/python3/dist-packages/websockets/__init__.py",
        "python3-websockets",
    );
    if python.is_none() {
        return;
    }
    let authority = Authority::new();
    let mut server = Node::start(SipNetConfig {
        tls: authority.server(vec![authority.certificate("127.0.0.1")]),
        ..config(&[listen])
    });
    let (scheme, _) = listen.split_once(':').expect("a listener");
    let hex = |octets: &[u8]| -> String { octets.iter().map(|o| format!("{o:02x}")).collect() };
    // A body without a length: a message of the WebSocket has an end (RFC 7118 section 5).
    let text = String::from_utf8(request("a").to_vec()).expect("text");
    let text = Bytes::from(text.replace("Content-Length: 0\r\n", "") + "body");
    let mut client = Peer::spawn(
        Command::new("/usr/bin/python3")
            .args(["-c", CLIENT])
            .arg(format!("{scheme}://{}/", server.address()))
            .arg(authority.file())
            .arg(hex(&text)),
    );
    client.wait_for_output("subprotocol sip", PATIENCE);
    let flow = server.expect(&text).await;
    assert_eq!(flow.transport.to_string(), scheme);
    server.send(Target::Flow(flow), &response(200, "a"));
    let answer = hex(&response(200, "a"));
    client.wait_for_output(&format!("text {answer}"), PATIENCE);

    // What is no UTF-8 is a binary message, in both directions (section 4.2).
    let binary = Bytes::from([&text[..], b"\xff"].concat());
    assert_eq!(server.expect(&binary).await, flow);
    let answer = Bytes::from([&response(200, "b")[..], b"\xfe"].concat());
    server.send(Target::Flow(flow), &answer);
    client.wait_for_output(&format!("binary {}", hex(&answer)), PATIENCE);

    assert_eq!(server.expect(&text).await, flow);
    server.send(Target::Flow(flow), &response(200, "c"));
    let answer = hex(&response(200, "c"));
    client.wait_for_output(&format!("fragments {answer}"), PATIENCE);
    client.wait_for_output(r"pong '\r\n'", PATIENCE);
    client.wait_for_output("ping answered", PATIENCE);
    client.wait_for_output("closed 1000", PATIENCE);
    match server.event().await {
        Incoming::ConnectionClosed { reason, .. } => assert_eq!(reason, CloseReason::Peer),
        other => panic!("{other:?}"),
    }
    let transport = flow.transport;
    let statistics = server.transports.statistics_of(transport).await;
    assert_eq!(statistics.keep_alives, 2);
    assert_eq!(
        (statistics.messages_received, statistics.messages_sent),
        (3, 3)
    );
    // Its connection was the only way to it (section 5.3).
    let target = Target::FlowOrAddress(flow, flow.remote);
    server.send_for(target, &response(200, "d"), Some(common::transaction()));
    match server.event().await {
        Incoming::SendFailed { error, .. } => assert_eq!(error, SendError::Gone),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn python_talks_to_us_in_the_clear() {
    python_talks_to_us("ws:127.0.0.1:0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_talks_to_us_through_tls() {
    python_talks_to_us("wss:127.0.0.1:0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_is_told() {
    let python = require_file(
        "/usr/lib/python3/dist-packages/websockets/__init__.py",
        "python3-websockets",
    );
    if python.is_none() {
        return;
    }
    const WAITING: &str = r#"
import asyncio, sys, websockets

async def main():
    async with websockets.connect(sys.argv[1], subprotocols=["sip"]) as socket:
        print("open", flush=True)
        try:
            await socket.recv()
        except websockets.ConnectionClosed:
            print("closed", socket.close_code, flush=True)

asyncio.run(main())
"#;
    let server = Node::listen(&["ws:127.0.0.1:0"]);
    let mut client = Peer::spawn(
        Command::new("/usr/bin/python3")
            .args(["-c", WAITING])
            .arg(format!("ws://{}/", server.address())),
    );
    client.wait_for_output("open", PATIENCE);
    server.transports.shutdown().await;
    client.wait_for_output("closed 1001", PATIENCE);
}

#[tokio::test]
async fn a_path_is_asked_for_as_it_is_set() {
    let with = |path: &str, listeners: &[&str]| {
        Node::start(SipNetConfig {
            websocket: WebSocketConfig {
                path: Some(path.to_owned()),
                ..WebSocketConfig::default()
            },
            ..config(listeners)
        })
    };
    let mut server = with("/sip", &["ws:[::1]:0"]);
    let target = Target::Address(Transport::Ws, server.address());
    with("/sip", &[]).send(target, &request("lost"));
    let good = with("/sip", &[]);
    good.send(target, &request("a"));
    loop {
        let (_, message) = server.message().await;
        if message.to_bytes() == request("a") {
            break;
        }
    }
    let other = with("/other", &[]);
    let refused = other
        .transports
        .connect(Transport::Ws, server.address(), false)
        .await;
    match refused {
        Err(SendError::WebSocket(reason)) => assert!(reason.contains("404"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_peer_that_answers_pings_stays_and_one_that_does_not_goes() {
    // So long that a machine with much else to do answers in time.
    let interval = Duration::from_secs(1);
    let mut server = Node::start(SipNetConfig {
        websocket: WebSocketConfig {
            ping_interval: interval,
            ..WebSocketConfig::default()
        },
        ..config(&["ws:127.0.0.1:0"])
    });
    let target = Target::Address(Transport::Ws, server.address());
    let client = Node::start(SipNetConfig {
        websocket: WebSocketConfig {
            ping_interval: Duration::ZERO,
            ..WebSocketConfig::default()
        },
        ..config(&[])
    });
    client.send(target, &request("a"));
    let flow = server.expect(&request("a")).await;
    let quiet =
        async |transports: &sip_net::Transports| transports.statistics().await.keep_alives >= 2;
    server.until(quiet).await;
    client.until(quiet).await;
    client.send(target, &request("b"));
    assert_eq!(server.expect(&request("b")).await, flow);

    // One whose runtime stands still answers nothing.
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let frozen = Node::listen(&[]);
            frozen.send(target, &request("frozen"));
            frozen
                .until(async |transports| transports.statistics().await.messages_sent == 1)
                .await;
            let _ = stopped.recv();
        });
    });
    let flow = server.expect(&request("frozen")).await;
    match server.event().await {
        Incoming::ConnectionClosed {
            connection, reason, ..
        } => assert_eq!((connection, reason), (flow.connection, CloseReason::NoPong)),
        other => panic!("{other:?}"),
    }
    assert_eq!(server.transports.statistics().await.unanswered_pings, 1);
    drop(stop);
    thread.join().expect("no panic");
}
