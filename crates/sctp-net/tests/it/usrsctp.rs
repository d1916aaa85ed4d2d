//! Messages to and from usrsctp, the user-space stack of Debian's `libusrsctp2`, over UDP on loopback
//! addresses, with its packaged example programs as clients and as servers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::common::{LIMIT, carrier, echo, on_stream, pattern, quick, within};
use bytes::Bytes;
use sctp_net::{Association, CannotStartCause, CloseCause, ConnectError, SendInfo, Stack};
use test_support::{Peer, free_udp_port, require_file};

/// One of the example programs; `None` when it cannot be had.
fn program(name: &str) -> Option<PathBuf> {
    require_file(format!("/usr/lib/usrsctp/{name}"), "libusrsctp-examples")
}

fn start(program: &PathBuf, arguments: &[&str]) -> Peer {
    Peer::spawn(Command::new(program).args(arguments))
}

/// Associates with a program that listens on `sctp_port` over its `udp_port`, or soon will: it
/// refuses until it does.
async fn associate(ip: &str, sctp_port: u16, udp_port: u16) -> Association {
    let stack = Stack::udp(carrier(ip)).unwrap();
    let endpoint = stack.endpoint(0, quick()).unwrap();
    let ip = ip.parse().unwrap();
    within(async {
        loop {
            match endpoint.connect(ip, sctp_port, Some(udp_port)).await {
                Ok(association) => return association,
                Err(ConnectError::CannotStart {
                    cause: CannotStartCause::Refused { .. } | CannotStartCause::ProtocolUnreachable,
                    ..
                }) => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}

/// The SCTP port of `echo_server` cannot be chosen; but every program has a UDP port of its own.
const ECHO_PORT: u16 = 7;

#[tokio::test]
async fn their_echo_server_sends_back_what_we_send() {
    const COUNT: usize = 200;
    // It echoes what it gets in one piece of at most 10,240 bytes.
    const SIZES: [usize; 10] = [1, 2, 3, 100, 1400, 1452, 1453, 3000, 8191, 10_240];
    let Some(echo_server) = program("echo_server") else {
        return;
    };
    for ip in ["127.0.0.1", "::1"] {
        let udp_port = free_udp_port();
        let _peer = start(&echo_server, &[&udp_port.to_string(), "9899"]);
        let association = associate(ip, ECHO_PORT, udp_port).await;
        assert!(association.outbound_streams() >= 10);

        let message = |number: usize| {
            let info = SendInfo {
                stream: (number % 10) as u16,
                ppid: number as u32,
                unordered: number % 4 == 3,
                ..SendInfo::default()
            };
            (info, pattern(number, SIZES[number / 10 % SIZES.len()]))
        };
        let sender = association.clone();
        let sending = tokio::spawn(async move {
            for number in 0..COUNT {
                let (info, payload) = message(number);
                sender.send(info, payload).await.unwrap();
            }
        });
        let mut last_in_order = BTreeMap::new();
        let mut bytes = 0;
        for _ in 0..COUNT {
            let received = within(association.receive()).await.unwrap();
            let number = received.ppid as usize;
            let (info, payload) = message(number);
            assert_eq!(
                (received.stream, received.unordered),
                (info.stream, info.unordered)
            );
            assert!(received.payload == payload, "message {number} differs");
            bytes += payload.len();
            if !info.unordered {
                let last = last_in_order.insert(info.stream, number);
                assert!(
                    last < Some(number),
                    "{number} after {last:?} on {}",
                    info.stream
                );
            }
        }
        within(sending).await.unwrap();
        // It answers the probe of the path MTU, a HEARTBEAT with a PAD chunk beside it.
        let ip_and_udp_headers = if ip == "::1" { 48 } else { 28 };
        let path = &association.status().await.unwrap().paths[0];
        assert_eq!(path.mtu, 1500 - ip_and_udp_headers);
        let statistics = association.statistics().await.unwrap();
        assert_eq!(within(association.shutdown()).await, CloseCause::Shutdown);
        println!(
            "echo_server over {ip}: {COUNT} messages, {bytes} bytes each way, {} packets out, {} in",
            statistics.packets_sent, statistics.packets_received
        );
    }
}

#[tokio::test]
async fn their_tsctp_receives_what_we_send() {
    let Some(tsctp) = program("tsctp") else {
        return;
    };
    let (udp_port, count, size) = (free_udp_port(), 300, 5000);
    let mut peer = start(&tsctp, &["-E", &udp_port.to_string(), "-p", "5001"]);
    let association = associate("127.0.0.1", 5001, udp_port).await;
    for number in 0..count {
        let payload = pattern(number, size);
        within(association.send(SendInfo::default(), payload))
            .await
            .unwrap();
    }
    assert_eq!(within(association.shutdown()).await, CloseCause::Shutdown);
    // Its summary: length of the first message, messages, calls, bytes, seconds, rate, notifications.
    let summary = tokio::task::spawn_blocking(move || {
        peer.wait_for_output(&format!("{size}, {count}, "), LIMIT);
        let output = peer.output();
        let line = output
            .lines()
            .find(|line| line.starts_with(&format!("{size}, {count}, ")));
        line.unwrap().to_owned()
    });
    let summary = summary.await.unwrap();
    assert!(
        summary.contains(&format!(", {}, ", count * size)),
        "{summary}"
    );
    println!("tsctp received: {summary}");
}

#[tokio::test]
async fn their_tsctp_sends_to_us() {
    let Some(tsctp) = program("tsctp") else {
        return;
    };
    let (count, size) = (300, 5000);
    for order in ["ordered", "unordered"] {
        let stack = Stack::udp(carrier("127.0.0.1")).unwrap();
        let endpoint = stack.endpoint(5001, quick()).unwrap();
        let mut command = Command::new(&tsctp);
        command
            .args(["-E", &free_udp_port().to_string()])
            .args(["-U", &stack.local_addr().port().to_string()])
            .args([
                "-p",
                "5001",
                "-l",
                &size.to_string(),
                "-n",
                &count.to_string(),
            ]);
        if order == "unordered" {
            command.arg("-u");
        }
        let mut peer = Peer::spawn(command.arg("127.0.0.1"));
        let association = within(endpoint.accept()).await.unwrap();
        let mut received = 0;
        while let Some(message) = within(association.receive()).await {
            assert_eq!(message.unordered, order == "unordered");
            assert!(
                message.payload == vec![b'b'; size],
                "message {received} differs"
            );
            received += 1;
        }
        assert_eq!(received, count);
        assert_eq!(within(association.closed()).await, CloseCause::Shutdown);
        let status = tokio::task::spawn_blocking(move || peer.wait(LIMIT))
            .await
            .unwrap();
        assert!(status.success(), "{status}");
        println!("tsctp sent {received} messages of {size} bytes, {order}");
    }
}

#[tokio::test]
async fn their_client_talks_to_our_echo_server() {
    let Some(client) = program("client") else {
        return;
    };
    let stack = Stack::udp(carrier("127.0.0.1")).unwrap();
    let endpoint = stack.endpoint(0, quick()).unwrap();
    let (mut peer, lines) = start_client(&client, &stack, endpoint.port());
    let association = within(endpoint.accept()).await.unwrap();
    let echoing = tokio::spawn(echo(association.clone()));
    let talking = tokio::task::spawn_blocking(move || {
        for line in &lines {
            peer.write(line);
        }
        peer.wait_for_output(lines.last().unwrap(), LIMIT);
        let output = peer.output();
        let echoed = output
            .split_inclusive('\n')
            .filter(|line| line.starts_with("line "));
        assert_eq!(echoed.collect::<String>(), lines.concat());
        peer.close_input();
        (peer.wait(LIMIT), lines.len())
    });
    let (status, count) = within(talking).await.unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(within(association.closed()).await, CloseCause::Shutdown);
    within(echoing).await.unwrap();
    println!("client had {count} lines echoed");
}

#[tokio::test]
async fn their_client_receives_large_messages_on_many_streams() {
    const PER_STREAM: usize = 10;
    let Some(client) = program("client") else {
        return;
    };
    let config = quick().outbound_streams(8);
    let stack = Stack::udp(carrier("127.0.0.1")).unwrap();
    let endpoint = stack.endpoint(0, config).unwrap();
    let (mut peer, _) = start_client(&client, &stack, endpoint.port());
    let association = within(endpoint.accept()).await.unwrap();
    let streams = association.outbound_streams();
    assert_eq!(streams, 8);
    // Each message is a line: the client prints what it receives.
    let line = |stream: u16, number: usize| {
        let filling = "0123456789".repeat(700 + number);
        format!("stream {stream} message {number} {filling}\n")
    };
    for number in 0..PER_STREAM {
        for stream in 0..streams {
            let payload = Bytes::from(line(stream, number));
            within(association.send(on_stream(stream), payload))
                .await
                .unwrap();
        }
    }
    assert_eq!(within(association.shutdown()).await, CloseCause::Shutdown);
    let waiting = tokio::task::spawn_blocking(move || {
        peer.close_input();
        (peer.wait(LIMIT), peer.output())
    });
    let (status, output) = within(waiting).await.unwrap();
    assert!(status.success(), "{status}");
    let mut bytes = 0;
    for stream in 0..streams {
        let prefix = format!("stream {stream} ");
        let printed = output
            .split_inclusive('\n')
            .filter(|line| line.starts_with(&prefix));
        let printed: String = printed.collect();
        let sent: String = (0..PER_STREAM).map(|number| line(stream, number)).collect();
        assert!(printed == sent, "stream {stream} differs");
        bytes += sent.len();
    }
    println!(
        "client received {bytes} bytes in {} messages on {streams} streams",
        8 * PER_STREAM
    );
}

/// Starts their client toward an endpoint of ours; gives lines that it can send, too.
fn start_client(client: &PathBuf, stack: &Stack, sctp_port: u16) -> (Peer, Vec<String>) {
    let our_udp_port = stack.local_addr().port().to_string();
    let their_udp_port = free_udp_port().to_string();
    let sctp_port = sctp_port.to_string();
    let arguments = ["127.0.0.1", &sctp_port, "0", &their_udp_port, &our_udp_port];
    // It reads lines of at most 79 bytes.
    let lines = (0..200).map(|number| format!("line {number:03} {}\n", "x".repeat(number % 70)));
    (start(client, &arguments), lines.collect())
}
