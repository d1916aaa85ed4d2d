//! Interoperation with the Linux kernel's SCTP, over raw IP and in UDP, with two paths.

mod multipath;

use std::net::IpAddr;
use std::time::Duration;

use crate::common::kernel::{CUT, HASH_OF_NOTHING, OURS, THEIRS, addresses, fnv1a, with_kernel};
use crate::common::{pattern, within};
use bytes::Bytes;
use sctp_net::{
    Association, CloseCause, ConnectTo, Endpoint, EndpointConfig, LostCause, Notification,
    PathState, RawCarrierConfig, SendInfo, Stack, UdpCarrierConfig,
};
use test_support::{KernelPeer, Peer};

const THEIRS_IPV6: [&str; 2] = ["fd91:1::2", "fd91:2::2"];

/// The kernel's UDP encapsulation port.
const ENCAPSULATION_PORT: u16 = 9899;

/// Quick to find out that a path is dead, as a signalling network would set it.
fn quick() -> EndpointConfig {
    EndpointConfig::default()
        .rto_initial(Duration::from_millis(500))
        .rto_min(Duration::from_millis(300))
        .rto_max(Duration::from_secs(2))
}

/// Both of our addresses right over IP.
fn raw() -> Stack {
    let config = RawCarrierConfig {
        addresses: addresses(&OURS),
        ..RawCarrierConfig::default()
    };
    Stack::raw(config).unwrap()
}

/// Both of our addresses over UDP, on an ephemeral port or that one.
fn udp(port: u16) -> Stack {
    let sockets = OURS.iter().map(|ip| (ip.parse::<IpAddr>().unwrap(), port));
    let config = UdpCarrierConfig {
        addresses: sockets.map(Into::into).collect(),
        peer_encapsulation_port: ENCAPSULATION_PORT,
        ..UdpCarrierConfig::new((IpAddr::from([127, 0, 0, 1]), 0).into())
    };
    Stack::udp(config).unwrap()
}

/// The kernel's end that takes associations in on a port, once it listens.
fn serving(kernel: &KernelPeer, what: &str, port: u16, at: &[&str]) -> Peer {
    let command = format!("peer {what} {port} {}", at.join(","));
    let mut peer = Peer::spawn(&mut kernel.command(&command));
    peer.wait_for_output("listening", Duration::from_secs(60));
    peer
}

async fn connect(stack: &Stack, to: &[&str], port: u16) -> (Endpoint, Association) {
    let endpoint = stack.endpoint(0, quick()).unwrap();
    let to = ConnectTo {
        addresses: addresses(to),
        port,
        ..ConnectTo::default()
    };
    let association = endpoint.connect_to(to).await.unwrap();
    (endpoint, association)
}

/// What `peer` says of so many bytes with that hash.
fn account(bytes: usize, hash: u64) -> (String, String) {
    (format!("{bytes} bytes"), format!("hash {hash:016x}"))
}

/// Has the kernel echo messages on several streams, in and out of order, of all sizes.
async fn talk_to_echo(stack: &Stack, to: &[&str], port: u16) {
    let (_endpoint, association) = connect(stack, to, port).await;
    for (number, length) in [1, 1000, 1452, 1453, 5000, 40_000].into_iter().enumerate() {
        let info = SendInfo {
            stream: number as u16 % 3,
            ppid: 40 + number as u32,
            unordered: number % 2 == 1,
            ..SendInfo::default()
        };
        let payload = pattern(number, length);
        association.send(info, payload.clone()).await.unwrap();
        let echoed = association.receive().await.unwrap();
        assert_eq!(echoed.payload, payload);
        assert_eq!(echoed.stream, info.stream);
        assert_eq!(echoed.ppid, info.ppid);
        assert_eq!(echoed.unordered, info.unordered);
    }
    assert_eq!(association.shutdown().await, CloseCause::Shutdown);
}

#[test]
fn messages_go_both_ways_over_ip() {
    with_kernel(|kernel| async move {
        let _echo = serving(kernel, "echo", 7, &THEIRS);
        let stack = raw();
        talk_to_echo(&stack, &THEIRS, 7).await;
        stack.close().await;
    });
}

#[test]
fn messages_go_both_ways_over_ipv6() {
    with_kernel(|kernel| async move {
        let _echo = serving(kernel, "echo", 17, &THEIRS_IPV6);
        let config = RawCarrierConfig {
            addresses: addresses(&["fd91:1::1", "fd91:2::1"]),
            ..RawCarrierConfig::default()
        };
        let stack = Stack::raw(config).unwrap();
        talk_to_echo(&stack, &THEIRS_IPV6, 17).await;
        stack.close().await;
    });
}

#[test]
fn messages_go_both_ways_over_udp() {
    with_kernel(|kernel| async move {
        let _echo = serving(kernel, "echo", 27, &THEIRS);
        let stack = udp(0);
        talk_to_echo(&stack, &THEIRS, 27).await;
        stack.close().await;
    });
}

#[test]
fn the_kernel_associates_with_us() {
    with_kernel(|kernel| async move {
        for (stack, environment) in [
            (raw(), String::new()),
            (
                udp(ENCAPSULATION_PORT),
                format!("ENCAPSULATION={ENCAPSULATION_PORT} "),
            ),
        ] {
            let endpoint = stack.endpoint(37, quick()).unwrap();
            let command = format!("{environment}peer talk 37 {} hello", OURS.join(","));
            let mut client = Peer::spawn(&mut kernel.command(&command));
            let association = endpoint.accept().await.unwrap();
            let message = association.receive().await.unwrap();
            assert_eq!(message.payload, "hello");
            assert_eq!((message.stream, message.ppid), (3, 42));
            assert!(message.unordered);
            let info = SendInfo {
                stream: 5,
                ppid: 43,
                ..SendInfo::default()
            };
            let answer = Bytes::from_static(b"and to you");
            association.send(info, answer).await.unwrap();
            assert_eq!(association.closed().await, CloseCause::Shutdown);
            let status = client.wait(Duration::from_secs(60));
            assert!(status.success());
            let said = client.output();
            assert!(
                said.contains("answer on stream 5, ppid 43: and to you"),
                "{said}"
            );
            stack.close().await;
        }
    });
}

/// Waits until all paths are proved to be the peer's.
async fn all_confirmed(association: &Association) {
    loop {
        let status = association.status().await.unwrap();
        if status
            .paths
            .iter()
            .all(|path| path.state == PathState::Active)
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Both sides have probed each path. A HEARTBEAT of the kernel's that comes by one path after the
/// association was shut down by the other is out of the blue: our ABORT (RFC 9260 section 8.4) may
/// then overtake our SHUTDOWN COMPLETE, and the kernel calls the association lost.
async fn all_probed(association: &Association) {
    all_confirmed(association).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
}

/// Takes our IPv4 addresses away (`delete`), so that nothing comes to them or leaves from them, or gives them back
/// (`add`). The guest's console, which is on IPv6, works on.
fn all_addresses(kernel: &KernelPeer, what: &str) {
    for (path, address) in ["kp1", "kp2"].into_iter().zip(OURS) {
        kernel.ip(&format!("address {what} {address}/24 dev {path}"));
    }
}

#[test]
fn what_we_send_goes_on_when_the_primary_path_is_cut() {
    const MESSAGES: usize = 12_000;
    with_kernel(|kernel| async move {
        let mut sink = serving(kernel, "sink", 47, &THEIRS);
        let stack = raw();
        // The primary is the first one: the one to be cut.
        let (_endpoint, association) = connect(&stack, &["10.91.2.2", "10.91.1.2"], 47).await;
        let mut hash = HASH_OF_NOTHING;
        let mut bytes = 0;
        for number in 0..MESSAGES {
            if number == MESSAGES / 3 {
                kernel.ip(&format!("link set {CUT} down"));
            }
            let payload = pattern(number, 1000);
            hash = fnv1a(hash, &payload);
            bytes += payload.len();
            association
                .send(SendInfo::default(), payload)
                .await
                .unwrap();
        }
        assert_eq!(association.shutdown().await, CloseCause::Shutdown);
        assert!(sink.wait(Duration::from_secs(60)).success());
        let said = sink.output();
        let (length, hash) = account(bytes, hash);
        assert!(
            said.contains("received") && said.contains(&length) && said.contains(&hash),
            "{said}"
        );
        stack.close().await;
    });
}

#[test]
fn what_the_kernel_sends_goes_on_when_a_path_is_cut() {
    const BYTES: usize = 6_000_000;
    with_kernel(|kernel| async move {
        let stack = raw();
        let endpoint = stack.endpoint(57, quick()).unwrap();
        // The kernel sends to the first of our addresses as long as it can.
        let command = format!("peer send 57 {},{} {BYTES} 1200", OURS[1], OURS[0]);
        let mut client = Peer::spawn(&mut kernel.command(&command));
        let association = endpoint.accept().await.unwrap();
        let mut hash = HASH_OF_NOTHING;
        let mut bytes = 0;
        let mut is_cut = false;
        while let Some(message) = association.receive().await {
            hash = fnv1a(hash, &message.payload);
            bytes += message.payload.len();
            if !is_cut && bytes > BYTES / 3 {
                is_cut = true;
                kernel.ip(&format!("link set {CUT} down"));
            }
        }
        assert_eq!(association.closed().await, CloseCause::Shutdown);
        assert!(client.wait(Duration::from_secs(60)).success());
        let said = client.output();
        let (length, hash) = account(bytes, hash);
        assert!(
            said.contains(&length) && said.contains(&hash),
            "{said}, not {length}, {hash}"
        );
        assert_eq!(bytes, BYTES);
        stack.close().await;
    });
}

#[test]
fn either_side_may_abort() {
    with_kernel(|kernel| async move {
        let stack = raw();
        let endpoint = stack.endpoint(67, quick()).unwrap();
        let command = format!("peer abort 67 {}", OURS.join(","));
        let mut client = Peer::spawn(&mut kernel.command(&command));
        let association = endpoint.accept().await.unwrap();
        assert_eq!(association.receive().await.unwrap().payload, "soon gone");
        client.write("now\n");
        let cause = association.closed().await;
        assert!(
            matches!(cause, CloseCause::Lost(LostCause::AbortedByPeer { .. })),
            "{cause:?}"
        );
        assert!(client.wait(Duration::from_secs(60)).success());

        let mut sink = serving(kernel, "sink", 68, &THEIRS);
        let (_endpoint, association) = connect(&stack, &THEIRS, 68).await;
        let payload = Bytes::from_static(b"to be aborted");
        association
            .send(SendInfo::default(), payload)
            .await
            .unwrap();
        sink.wait_for_output("first 13 bytes", Duration::from_secs(60));
        association.abort(b"enough");
        assert!(!sink.wait(Duration::from_secs(60)).success());
        assert!(sink.output().contains("lost after 13 bytes"));
        stack.close().await;
    });
}

#[test]
fn the_kernel_takes_our_restart() {
    with_kernel(|kernel| async move {
        let mut sink = serving(kernel, "sink", 77, &THEIRS);
        let before = raw();
        let endpoint = before.endpoint(7700, quick()).unwrap();
        let to = || ConnectTo {
            addresses: addresses(&THEIRS),
            port: 77,
            ..ConnectTo::default()
        };
        let association = endpoint.connect_to(to()).await.unwrap();
        let payload = Bytes::from_static(b"from the first life");
        association
            .send(SendInfo::default(), payload)
            .await
            .unwrap();
        sink.wait_for_output("first 19 bytes", Duration::from_secs(60));
        // A host that restarts says nothing to its peers: nothing of this leaves any more.
        all_addresses(kernel, "delete");
        association.abort(b"");
        before.close().await;
        all_addresses(kernel, "add");
        let after = raw();
        let endpoint = after.endpoint(7700, quick()).unwrap();
        let association = endpoint.connect_to(to()).await.unwrap();
        let payload = Bytes::from_static(b"from the second");
        association
            .send(SendInfo::default(), payload)
            .await
            .unwrap();
        all_probed(&association).await;
        assert_eq!(association.shutdown().await, CloseCause::Shutdown);
        // One association for the kernel, from beginning to end.
        assert!(sink.wait(Duration::from_secs(60)).success());
        assert!(sink.output().contains("received 34 bytes in 2 messages"));
        after.close().await;
    });
}

#[test]
fn we_take_the_kernels_restart() {
    with_kernel(|kernel| async move {
        let stack = raw();
        // A probe of ours would tell us that the peer knows us no more, before it comes back.
        let config = quick().heartbeats(false).path_mtu_discovery(false);
        let endpoint = stack.endpoint(87, config).unwrap();
        let local = "FROM=10.91.1.2,10.91.2.2 FROM_PORT=8700";
        let command = format!("{local} peer abort 87 {}", OURS.join(","));
        let mut client = Peer::spawn(&mut kernel.command(&command));
        let association = endpoint.accept().await.unwrap();
        let notifications = association.notifications();
        assert_eq!(association.receive().await.unwrap().payload, "soon gone");
        all_confirmed(&association).await;
        // Its ABORT is lost on the way, as if the host had gone without a word.
        all_addresses(kernel, "delete");
        client.write("now\n");
        assert!(client.wait(Duration::from_secs(60)).success());
        all_addresses(kernel, "add");
        let command = format!("{local} peer talk 87 {} again", OURS.join(","));
        let mut client = Peer::spawn(&mut kernel.command(&command));
        loop {
            match within(notifications.next()).await.unwrap() {
                Notification::Restarted { .. } => break,
                _ => continue,
            }
        }
        assert_eq!(association.receive().await.unwrap().payload, "again");
        let answer = Bytes::from_static(b"welcome back");
        association.send(SendInfo::default(), answer).await.unwrap();
        assert_eq!(association.closed().await, CloseCause::Shutdown);
        assert!(client.wait(Duration::from_secs(60)).success());
        stack.close().await;
    });
}
