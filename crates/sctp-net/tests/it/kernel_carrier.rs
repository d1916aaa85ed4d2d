//! The kernel's SCTP behind our handles. These tests run in the guest, which has one: the program copies itself
//! into it.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::{echo, on_stream, pattern, within};
use bytes::Bytes;
use sctp_net::{
    Association, AssociationConfig, AssociationState, CannotStartCause, CloseCause, ConnectError,
    ConnectTo, Endpoint, EndpointConfig, EndpointEvent, KernelCarrierConfig, LostCause,
    Notification, PathError, PathState, SendError, SendInfo, Stack,
};
use test_support::KernelPeer;

/// Runs a test of this program in the guest.
fn in_guest<F: Future<Output = ()>>(name: &str, test: impl FnOnce() -> F) {
    if KernelPeer::is_in_guest() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let limit = Duration::from_secs(120);
            tokio::time::timeout(limit, test()).await.unwrap();
        });
        return;
    }
    if let Some(guest) = KernelPeer::get() {
        guest.run_test(&format!("kernel_carrier::{name}"));
    }
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn kernel(at: &[&str]) -> Stack {
    let config = KernelCarrierConfig {
        addresses: addresses(at),
        ..KernelCarrierConfig::default()
    };
    Stack::kernel(config).unwrap()
}

/// A stack of the kernel's on loopback, a listening endpoint, and one to connect with.
fn ends() -> (Stack, Endpoint, Endpoint) {
    let stack = kernel(&["127.0.0.1"]);
    let server = stack.endpoint(0, EndpointConfig::default()).unwrap();
    let client = stack.endpoint(0, EndpointConfig::default()).unwrap();
    (stack, server, client)
}

async fn associate(client: &Endpoint, server: &Endpoint) -> (Association, Association) {
    let to = addresses(&["127.0.0.1"])[0];
    let here = within(client.connect(to, server.port(), None))
        .await
        .unwrap();
    let there = within(server.accept()).await.unwrap();
    (here, there)
}

#[test]
fn messages_of_all_sizes_come_back() {
    in_guest("messages_of_all_sizes_come_back", || async {
        for at in ["127.0.0.1", "::1"] {
            let stack = kernel(&[at]);
            let server = stack.endpoint(0, EndpointConfig::default()).unwrap();
            let client = stack.endpoint(0, EndpointConfig::default()).unwrap();
            let to = addresses(&[at])[0];
            let association = within(client.connect(to, server.port(), None))
                .await
                .unwrap();
            assert_eq!(association.peer().ip(), to);
            assert_eq!(association.local().ip(), to);
            let other = within(server.accept()).await.unwrap();
            assert_eq!(other.peer().port(), client.port());
            tokio::spawn(echo(other));
            for (number, length) in [1, 1000, 65_536, 150_000, 1 << 18].into_iter().enumerate() {
                let info = SendInfo {
                    stream: number as u16,
                    ppid: 0x0102_0304 + number as u32,
                    unordered: number % 2 == 1,
                    sack_immediately: true,
                    ..SendInfo::default()
                };
                let payload = pattern(number, length);
                association.send(info, payload.clone()).await.unwrap();
                let message = within(association.receive()).await.unwrap();
                assert!(message.payload == payload, "{length} bytes");
                assert!(message.end_of_record);
                assert_eq!(
                    (message.stream, message.ppid, message.unordered),
                    (info.stream, info.ppid, info.unordered)
                );
            }
            let large = Bytes::from(vec![0; (1 << 18) + 1]);
            let refused = association.send(on_stream(0), large).await;
            assert_eq!(refused, Err(SendError::TooLarge));
            assert_eq!(within(association.shutdown()).await, CloseCause::Shutdown);
            stack.close().await;
        }
    });
}

#[test]
fn who_does_not_receive_slows_its_own_sender_only() {
    in_guest("who_does_not_receive_slows_its_own_sender_only", || async {
        const SIZE: usize = 10_000;
        let (stack, server, client) = ends();
        let (slow, slow_end) = associate(&client, &server).await;
        let mut sent = 0;
        // Until nothing goes any more, for longer than it takes to read what can be read.
        loop {
            match slow.try_send(on_stream(1), pattern(sent, SIZE)) {
                Ok(()) => sent += 1,
                Err(SendError::BufferFull) => {
                    let payload = pattern(sent, SIZE);
                    let send = slow.send(on_stream(1), payload);
                    match tokio::time::timeout(Duration::from_secs(2), send).await {
                        Ok(result) => result.unwrap(),
                        Err(_) => break,
                    }
                    sent += 1;
                }
                Err(error) => panic!("{error}"),
            }
            assert!(sent * SIZE < 20_000_000, "nothing stops it");
        }
        // The inbox, the kernel's two buffers, and the outbox.
        assert!(sent * SIZE > 500_000, "{sent} messages");
        // Others go their way: another endpoint, and another association of the same two.
        let other_client = stack.endpoint(0, EndpointConfig::default()).unwrap();
        let (quick, quick_end) = associate(&other_client, &server).await;
        let echoing = tokio::spawn(echo(quick_end));
        for number in 0..20 {
            quick
                .send(on_stream(0), pattern(number, 50_000))
                .await
                .unwrap();
            let message = within(quick.receive()).await.unwrap();
            assert!(message.payload == pattern(number, 50_000));
        }
        assert_eq!(within(quick.shutdown()).await, CloseCause::Shutdown);
        echoing.await.unwrap();
        // And now all is read.
        let ending = tokio::spawn(async move { slow.shutdown().await });
        for number in 0..sent {
            let message = within(slow_end.receive()).await.unwrap();
            assert!(message.payload == pattern(number, SIZE), "message {number}");
        }
        assert!(within(slow_end.receive()).await.is_none());
        assert_eq!(within(slow_end.closed()).await, CloseCause::Shutdown);
        assert_eq!(ending.await.unwrap(), CloseCause::Shutdown);
        stack.close().await;
    });
}

#[test]
fn one_place_receives_from_all_associations() {
    in_guest("one_place_receives_from_all_associations", || async {
        const PEERS: usize = 5;
        const EACH: usize = 200;
        let stack = kernel(&["127.0.0.1"]);
        let server = stack.one_to_many(0, EndpointConfig::default()).unwrap();
        let port = server.port();
        let senders: Vec<_> = (0..PEERS)
            .map(|number| {
                let client = stack.one_to_many(0, EndpointConfig::default()).unwrap();
                tokio::spawn(async move {
                    let to = addresses(&["127.0.0.1"])[0];
                    let association = client.connect(to, port, None).await.unwrap();
                    for count in 0..EACH {
                        let payload = pattern(count, 2000 + number);
                        association.send(on_stream(0), payload).await.unwrap();
                    }
                    let cause = association.shutdown().await;
                    client.close().await;
                    cause
                })
            })
            .collect();
        let mut received = std::collections::BTreeMap::new();
        let (mut accepted, mut closed) = (0, 0);
        while closed < PEERS {
            match within(server.next()).await.unwrap() {
                EndpointEvent::Accepted(association) => {
                    accepted += 1;
                    received.insert(association.id(), 0);
                }
                EndpointEvent::Message {
                    association,
                    message,
                } => {
                    let count = received.get_mut(&association.id()).unwrap();
                    let number = message.payload.len() - 2000;
                    assert!(message.payload == pattern(*count, 2000 + number));
                    *count += 1;
                }
                EndpointEvent::Closed { cause, .. } => {
                    assert_eq!(cause, CloseCause::Shutdown);
                    closed += 1;
                }
                EndpointEvent::Restarted(_) => panic!("nobody restarted"),
            }
        }
        assert_eq!(accepted, PEERS);
        assert_eq!(received.into_values().collect::<Vec<_>>(), [EACH; PEERS]);
        for sender in senders {
            assert_eq!(sender.await.unwrap(), CloseCause::Shutdown);
        }
        // Aborted from here, while more may be on its way.
        let client = stack.endpoint(0, EndpointConfig::default()).unwrap();
        let to = addresses(&["127.0.0.1"])[0];
        let there = within(client.connect(to, port, None)).await.unwrap();
        let EndpointEvent::Accepted(here) = within(server.next()).await.unwrap() else {
            panic!("nothing else can come");
        };
        here.abort(b"not wanted");
        let event = within(server.next()).await.unwrap();
        let aborted = CloseCause::Lost(LostCause::AbortedLocally);
        assert!(
            matches!(&event, EndpointEvent::Closed { cause, .. } if *cause == aborted),
            "{event:?}"
        );
        assert!(
            within(there.closed())
                .await
                .to_string()
                .contains("not wanted")
        );
        within(server.close()).await;
        assert!(server.next().await.is_none());
        stack.close().await;
    });
}

#[test]
fn an_association_is_known_and_changed_path_by_path() {
    in_guest(
        "an_association_is_known_and_changed_path_by_path",
        || async {
            let here = ["10.91.1.2", "10.91.2.2"];
            let stack = kernel(&here);
            let config = EndpointConfig::default()
                .outbound_streams(7)
                .max_inbound_streams(5)
                .sender_dry_events(true);
            let server = stack.endpoint(0, config.clone()).unwrap();
            let client = stack.endpoint(0, config).unwrap();
            let to = ConnectTo {
                addresses: addresses(&here),
                port: server.port(),
                encapsulation_port: None,
                config: Some(
                    AssociationConfig::default()
                        .outbound_streams(3)
                        .max_inbound_streams(5)
                        .rto_initial(Duration::from_millis(700))
                        .rto_min(Duration::from_millis(600)),
                ),
            };
            let association = within(client.connect_to(to)).await.unwrap();
            let other = within(server.accept()).await.unwrap();
            assert_eq!(association.outbound_streams(), 3);
            assert_eq!(other.outbound_streams(), 5);
            let refused = association.send(on_stream(3), pattern(0, 9)).await;
            assert_eq!(refused, Err(SendError::InvalidStream));

            let status = association.status().await.unwrap();
            assert_eq!(status.state, AssociationState::Established);
            assert_eq!(status.peer_port, server.port());
            assert_eq!((status.outbound_streams, status.inbound_streams), (3, 5));
            assert_eq!(status.primary, addresses(&here)[0]);
            assert_eq!(status.local_addresses, addresses(&here));
            let paths: Vec<IpAddr> = status
                .paths
                .iter()
                .map(|path| path.address.remote)
                .collect();
            assert_eq!(paths, addresses(&here));
            assert!(
                status
                    .paths
                    .iter()
                    .all(|path| path.cwnd > 0 && path.mtu > 500)
            );
            assert_eq!(status.paths[0].rto, Duration::from_millis(700));

            let second = addresses(&here)[1];
            let unknown = addresses(&["192.0.2.1"])[0];
            let wrong = association.set_primary(unknown).await;
            assert_eq!(wrong, Err(PathError::UnknownPath));
            let wrong = association.request_heartbeat(unknown).await;
            assert_eq!(wrong, Err(PathError::UnknownPath));
            association.request_heartbeat(second).await.unwrap();
            loop {
                match association.set_primary(second).await {
                    Ok(()) => break,
                    Err(error) => assert_eq!(error, PathError::NotConfirmed),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let status = association.status().await.unwrap();
            assert_eq!(status.primary, second);
            assert_eq!(status.paths[1].state, PathState::Active);

            let config = AssociationConfig::default().rto_max(Duration::from_millis(900));
            let path = config
                .path
                .heartbeats(false)
                .path_max_retrans(2)
                .potentially_failed_max_retrans(1);
            association.configure(config).await.unwrap();
            association.configure_path(second, path).await.unwrap();

            let notifications = other.notifications();
            other.send(on_stream(4), pattern(1, 3000)).await.unwrap();
            let message = within(association.receive()).await.unwrap();
            assert!(message.payload == pattern(1, 3000));
            loop {
                let told = within(notifications.next()).await.unwrap();
                if told == Notification::SenderDry {
                    break;
                }
            }
            let counted = other.statistics().await.unwrap();
            assert_eq!((counted.messages_sent, counted.messages_received), (1, 0));
            assert!(counted.data_chunks_sent >= 1 && counted.packets_sent >= 2);
            stack.close().await;
            assert!(association.status().await.is_none());
            let sum = stack.statistics().await;
            assert!(sum.carrier.packets_sent >= counted.packets_sent);
        },
    );
}

#[test]
fn ends_are_told_as_they_were() {
    in_guest("ends_are_told_as_they_were", || async {
        let (stack, server, client) = ends();
        // Aborted, with words, and what was not sent comes back.
        let (here, there) = associate(&client, &server).await;
        here.abort(b"enough of this");
        let aborted = CloseCause::Lost(LostCause::AbortedLocally);
        assert_eq!(within(here.closed()).await, aborted);
        let cause = within(there.closed()).await;
        assert!(
            matches!(cause, CloseCause::Lost(LostCause::AbortedByPeer { .. })),
            "{cause:?}"
        );
        assert!(cause.to_string().contains("enough of this"), "{cause}");
        let refused = here.send(on_stream(0), pattern(0, 1)).await;
        assert_eq!(refused, Err(SendError::UnknownAssociation));

        let (here, there) = associate(&client, &server).await;
        let failures = here.notifications();
        let info = SendInfo {
            stream: 2,
            ppid: 99,
            unordered: true,
            context: 7,
            ..SendInfo::default()
        };
        // More than the peer's window holds.
        let moment = Duration::from_secs(1);
        let send = || here.send(info, pattern(0, 1000));
        while tokio::time::timeout(moment, send()).await.is_ok() {}
        there.abort(b"");
        let cause = within(here.closed()).await;
        assert!(
            matches!(cause, CloseCause::Lost(LostCause::AbortedByPeer { .. })),
            "{cause:?}"
        );
        let failed = loop {
            match within(failures.next()).await {
                Some(Notification::SendFailed { info, payload, .. }) => {
                    break Some((info, payload));
                }
                Some(_) => {}
                None => break None,
            }
        };
        let (failed, payload) = failed.unwrap();
        assert!(payload == pattern(0, 1000));
        assert_eq!(
            (failed.stream, failed.ppid, failed.unordered, failed.context),
            (2, 99, true, 7)
        );

        // Ended before anybody looked: what came is there all the same.
        let to = addresses(&["127.0.0.1"])[0];
        let here = within(client.connect(to, server.port(), None))
            .await
            .unwrap();
        here.send(on_stream(0), pattern(3, 500)).await.unwrap();
        assert_eq!(within(here.shutdown()).await, CloseCause::Shutdown);
        let there = within(server.accept()).await.unwrap();
        let message = within(there.receive()).await.unwrap();
        assert!(message.payload == pattern(3, 500));
        assert!(within(there.receive()).await.is_none());
        assert_eq!(there.close_cause(), Some(CloseCause::Shutdown));

        // Nobody there, on a host that knows SCTP.
        let port = client.port();
        let error = within(server.connect(to, 9, None)).await.unwrap_err();
        assert!(
            matches!(
                error,
                ConnectError::CannotStart {
                    cause: CannotStartCause::Refused { .. },
                    ..
                }
            ),
            "{error:?}"
        );
        // Nobody there at all.
        let quick = EndpointConfig::default()
            .rto_initial(Duration::from_millis(50))
            .rto_min(Duration::from_millis(50))
            .rto_max(Duration::from_millis(100))
            .max_init_retransmits(2);
        let wide = kernel(&["0.0.0.0"]);
        let endpoint = wide.endpoint(0, quick).unwrap();
        let silent = addresses(&["10.91.1.77"])[0];
        let error = within(endpoint.connect(silent, 9, None)).await.unwrap_err();
        assert!(
            matches!(
                error,
                ConnectError::CannotStart {
                    cause: CannotStartCause::TimedOut,
                    ..
                }
            ),
            "{error:?}"
        );

        // A port belongs to one, until it is given back.
        let error = stack.endpoint(port, EndpointConfig::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}");
        within(client.close()).await;
        stack.endpoint(port, EndpointConfig::default()).unwrap();
        wide.close().await;
        stack.close().await;
        assert!(within(server.accept()).await.is_none());
    });
}

/// The first messages come while nobody has taken the association yet; handles that are dropped shut down.
#[test]
fn dropped_handles_shut_down() {
    in_guest("dropped_handles_shut_down", || async {
        let (stack, server, client) = ends();
        let (here, there) = associate(&client, &server).await;
        here.send(on_stream(0), pattern(0, 100_000)).await.unwrap();
        drop(there);
        assert_eq!(within(here.closed()).await, CloseCause::Shutdown);
        let (here, there) = associate(&client, &server).await;
        let port = server.port();
        drop(server);
        here.send(on_stream(0), pattern(1, 700)).await.unwrap();
        let message = within(there.receive()).await.unwrap();
        assert!(message.payload == pattern(1, 700));
        // Nobody is accepted any more.
        let to = addresses(&["127.0.0.1"])[0];
        let other = stack.endpoint(0, EndpointConfig::default()).unwrap();
        assert!(within(other.connect(to, port, None)).await.is_err());
        assert_eq!(within(there.shutdown()).await, CloseCause::Shutdown);
        assert_eq!(within(here.closed()).await, CloseCause::Shutdown);
        drop((other, client, here, there));
        let mut last = stack.endpoint(port, EndpointConfig::default());
        while last.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            last = stack.endpoint(port, EndpointConfig::default());
        }
        stack.close().await;
    });
}

/// Also outside of the guest.
#[tokio::test]
async fn a_kernel_without_sctp_is_told_with_the_ways_out() {
    let loaded = ["/proc/net/sctp", "/sys/module/sctp"];
    if loaded.iter().any(|path| Path::new(path).exists()) {
        return;
    }
    // To ask for a socket may load the module.
    let module = Command::new("modprobe").args(["-n", "sctp"]).output();
    if module.is_ok_and(|output| output.status.success()) {
        return;
    }
    let error = Stack::kernel(KernelCarrierConfig::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    for way in ["modprobe sctp", "--over ip", "--over udp"] {
        assert!(text.contains(way), "{text}");
    }
}
