//! Sockets on loopback addresses.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use test_support::Nobody;
use tokio::time::timeout;
use udp_net::{
    Batch, Datagram, Flushed, Impairment, LinkConfig, Received, Report, SendOutcome, SendQueue,
    UdpConfig, UdpSocket, next_network_error,
};

/// Long enough for what takes a moment, on a slow and busy machine too.
const LIMIT: Duration = Duration::from_secs(60);

/// How long a datagram is left in the kernel, and how often that is tried.
const WAIT: Duration = Duration::from_millis(100);
const PATIENT_TRIES: usize = 50;

fn bind(address: &str) -> UdpSocket {
    bind_with(address, UdpConfig::default())
}

fn bind_with(address: &str, config: UdpConfig) -> UdpSocket {
    UdpSocket::bind(address.parse().unwrap(), config).unwrap()
}

fn impaired(outbound: LinkConfig, inbound: LinkConfig, seed: u64) -> UdpConfig {
    UdpConfig {
        impairment: Some(Impairment {
            outbound,
            inbound,
            seed,
        }),
        ..UdpConfig::default()
    }
}

fn lossy(loss: f64) -> LinkConfig {
    LinkConfig {
        loss: loss.into(),
        ..LinkConfig::default()
    }
}

fn datagram(destination: SocketAddr, payload: impl Into<Bytes>) -> Datagram {
    Datagram {
        destination,
        source_ip: None,
        payload: payload.into(),
    }
}

fn send(socket: &UdpSocket, destination: SocketAddr, payload: impl Into<Bytes>) {
    let outcome = socket.try_send(&datagram(destination, payload));
    assert!(matches!(outcome, SendOutcome::Sent), "{outcome:?}");
}

/// Receives until `count` datagrams are there.
async fn receive(socket: &UdpSocket, count: usize) -> Vec<Received> {
    let mut batch = Batch::new();
    let mut received = Vec::new();
    while received.len() < count {
        timeout(LIMIT, socket.recv(&mut batch))
            .await
            .expect("datagrams in time")
            .unwrap();
        received.extend(batch.drain());
    }
    assert_eq!(received.len(), count);
    received
}

/// Receives what comes until nothing comes any more.
async fn receive_all(socket: &UdpSocket) -> Vec<Received> {
    let mut batch = Batch::new();
    let mut received = Vec::new();
    while let Ok(result) = timeout(Duration::from_millis(200), socket.recv(&mut batch)).await {
        result.unwrap();
        received.extend(batch.drain());
    }
    received
}

#[tokio::test]
async fn there_and_back_over_ipv4_and_ipv6() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (one, other) = (bind(address), bind(address));
        send(&one, other.local_addr(), "there");
        let there = receive(&other, 1).await.remove(0);
        assert_eq!(there.source, one.local_addr());
        assert_eq!(there.destination_ip, Some(other.local_addr().ip()));
        assert_eq!(there.payload, "there");
        send(&other, there.source, "back");
        assert_eq!(receive(&one, 1).await[0].payload, "back");
    }
}

#[tokio::test]
async fn a_wildcard_socket_answers_from_the_address_that_was_asked() {
    let server = bind("0.0.0.0:0");
    let client = bind("127.0.0.1:0");
    let asked: IpAddr = "127.0.0.7".parse().unwrap();
    send(
        &client,
        SocketAddr::new(asked, server.local_addr().port()),
        "question",
    );
    let question = receive(&server, 1).await.remove(0);
    assert_eq!(question.destination_ip, Some(asked));
    let answer = Datagram {
        destination: question.source,
        source_ip: question.destination_ip,
        payload: "answer".into(),
    };
    assert!(matches!(server.try_send(&answer), SendOutcome::Sent));
    assert_eq!(receive(&client, 1).await[0].source.ip(), asked);
}

#[tokio::test]
async fn a_batch_arrives_whole_in_order_and_is_counted() {
    for segmentation_offload in [true, false] {
        let config = UdpConfig {
            segmentation_offload,
            ..UdpConfig::default()
        };
        send_a_batch(&bind_with("127.0.0.1:0", config)).await;
    }
}

async fn send_a_batch(one: &UdpSocket) {
    let other = bind("127.0.0.1:0");
    // Sizes that form trains, end them early and break them.
    let sizes = [
        1400, 1400, 1400, 300, 1400, 1400, 20, 20, 20, 0, 1, 900, 1400,
    ];
    let payloads: Vec<Bytes> = (0..sizes.len())
        .map(|number| vec![number as u8; sizes[number]].into())
        .collect();
    let mut queue = SendQueue::new();
    for payload in &payloads {
        queue.push(datagram(other.local_addr(), payload.clone()));
    }
    assert_eq!(one.flush(&mut queue), Flushed::All);
    assert!(queue.is_empty());

    let received = receive(&other, sizes.len()).await;
    let received: Vec<Bytes> = received
        .into_iter()
        .map(|datagram| datagram.payload)
        .collect();
    assert_eq!(received, payloads);
    let bytes = sizes.iter().sum::<usize>() as u64 + 28 * sizes.len() as u64;
    let (sent, got) = (one.statistics(), other.statistics());
    assert_eq!(
        (sent.packets_sent, sent.bytes_sent),
        (sizes.len() as u64, bytes)
    );
    assert_eq!(
        (got.packets_received, got.bytes_received),
        (sizes.len() as u64, bytes)
    );
}

#[tokio::test]
async fn ipv6_headers_are_counted_as_such() {
    let (one, other) = (bind("[::1]:0"), bind("[::1]:0"));
    send(&one, other.local_addr(), vec![0; 100]);
    receive(&other, 1).await;
    assert_eq!(one.statistics().bytes_sent, 148);
    assert_eq!(other.statistics().bytes_received, 148);
}

#[tokio::test]
async fn a_datagram_that_the_path_does_not_take_is_refused() {
    let socket = bind("127.0.0.1:0");
    // Longer than any UDP datagram: with one byte too many for IP's length, the kernel has been seen to take it.
    let too_long = vec![0; 65_536];
    let outcome = socket.try_send(&datagram(socket.local_addr(), too_long.clone()));
    assert!(matches!(outcome, SendOutcome::Failed(_)), "{outcome:?}");
    let mut queue = SendQueue::new();
    queue.push(datagram(socket.local_addr(), too_long));
    queue.push(datagram(socket.local_addr(), "after it"));
    assert_eq!(socket.flush(&mut queue), Flushed::All);
    assert_eq!(receive(&socket, 1).await[0].payload, "after it");
    assert_eq!(socket.statistics().send_errors, 2);
    assert_eq!(socket.statistics().packets_sent, 1);
}

#[tokio::test]
async fn what_is_refused_in_the_midst_of_others_is_told_and_keeps_none_of_them_back() {
    let config = UdpConfig {
        segmentation_offload: false,
        network_errors: true,
        ..UdpConfig::default()
    };
    let sender = bind_with("127.0.0.1:0", config);
    let receiver = bind("127.0.0.1:0");
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let too_long = Bytes::from(vec![0; 65_536]);
    let mut queue = SendQueue::new();
    // More than one call takes.
    for number in 0..200_u8 {
        queue.push(datagram(receiver.local_addr(), vec![number; 20]));
        match number {
            3 => queue.push(datagram(nowhere, "nobody can be there")),
            100 | 150 => queue.push(datagram(receiver.local_addr(), too_long.clone())),
            _ => {}
        }
    }
    assert_eq!(sender.flush(&mut queue), Flushed::All);
    let received = receive(&receiver, 200).await;
    assert!((0..200).eq(received.iter().map(|datagram| datagram.payload[0])));
    for _ in 0..2 {
        let refused = queue.pop_too_large().map(|datagram| datagram.payload);
        assert_eq!(refused.as_ref(), Some(&too_long));
    }
    assert_eq!(queue.pop_too_large(), None);
    let statistics = sender.statistics();
    assert_eq!((statistics.packets_sent, statistics.send_errors), (200, 3));
}

#[tokio::test]
async fn what_exceeds_the_path_is_fragmented_only_where_that_is_allowed() {
    // With its headers larger than the 65,536 bytes that the loopback interface takes whole.
    let large = vec![5; 65_507];
    let strict = bind("[::1]:0");
    let outcome = strict.try_send(&datagram(strict.local_addr(), large.clone()));
    assert!(matches!(outcome, SendOutcome::Failed(_)), "{outcome:?}");

    let config = UdpConfig {
        allow_fragmentation: true,
        ..UdpConfig::default()
    };
    let lenient = bind_with("[::1]:0", config.clone());
    send(&lenient, lenient.local_addr(), large.clone());
    assert_eq!(receive(&lenient, 1).await[0].payload, large);
    bind_with("127.0.0.1:0", config);
}

#[tokio::test]
async fn sending_to_a_closed_port_does_not_disturb_receiving() {
    let (one, other) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let nobody = test_support::Nobody::new();
    send(&one, nobody.address(), "nobody there");
    send(&one, nobody.address(), "still nobody");
    send(&other, one.local_addr(), "hello");
    assert_eq!(receive(&one, 1).await[0].payload, "hello");
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let socket = bind("127.0.0.1:0");
    let address = socket.local_addr();
    let error = UdpSocket::bind(address, UdpConfig::default()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[test]
fn outside_of_a_runtime_binding_fails() {
    UdpSocket::bind("127.0.0.1:0".parse().unwrap(), UdpConfig::default()).unwrap_err();
}

/// Which of 300 numbered datagrams arrive over a link that loses a fifth in each direction.
async fn survivors(seed: u64) -> Vec<u16> {
    let sender = bind_with("127.0.0.1:0", impaired(lossy(0.2), lossy(0.0), seed));
    let receiver = bind_with("127.0.0.1:0", impaired(lossy(0.0), lossy(0.2), seed));
    let mut queue = SendQueue::new();
    for number in 0..300_u16 {
        queue.push(datagram(
            receiver.local_addr(),
            number.to_be_bytes().to_vec(),
        ));
    }
    assert_eq!(sender.flush(&mut queue), Flushed::All);
    let received = receive_all(&receiver).await;
    let (sent, got) = (sender.statistics(), receiver.statistics());
    assert_eq!(sent.packets_sent, 300, "counted before the link");
    assert_eq!(
        sent.packets_sent - sent.outbound_dropped_by_link,
        got.packets_received
    );
    let delivered = got.packets_received - got.inbound_dropped_by_link;
    assert_eq!(delivered, received.len() as u64);
    assert!(
        (20..=100).contains(&sent.outbound_dropped_by_link),
        "{sent:?}"
    );
    assert!((15..=90).contains(&got.inbound_dropped_by_link), "{got:?}");
    received
        .iter()
        .map(|datagram| u16::from_be_bytes(datagram.payload[..].try_into().unwrap()))
        .collect()
}

#[tokio::test]
async fn the_seed_fixes_which_datagrams_are_lost() {
    let first = survivors(1).await;
    assert_eq!(first, survivors(1).await);
    assert_ne!(first, survivors(2).await);
}

#[tokio::test]
async fn delays_add_up_over_both_links() {
    let slow = |milliseconds| LinkConfig {
        delay: Duration::from_millis(milliseconds),
        ..LinkConfig::default()
    };
    let sender = bind_with("127.0.0.1:0", impaired(slow(40), slow(0), 1));
    let receiver = bind_with("127.0.0.1:0", impaired(slow(0), slow(30), 1));
    let start = Instant::now();
    // The sender's `recv` is what releases the delayed datagram, also when it began to wait first.
    let mut batch = Batch::new();
    let arrived = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        send(&sender, receiver.local_addr(), "late");
        receive(&receiver, 1).await
    };
    tokio::select! {
        _ = sender.recv(&mut batch) => panic!("nobody sends to the sender"),
        received = arrived => assert_eq!(received[0].payload, "late"),
    }
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(80), "{took:?}");
    assert!(took < LIMIT, "{took:?}");
}

#[tokio::test]
async fn what_is_delayed_leaves_before_the_end() {
    let slow = LinkConfig {
        delay: Duration::from_millis(50),
        ..LinkConfig::default()
    };
    let sender = bind_with("127.0.0.1:0", impaired(slow, LinkConfig::default(), 1));
    let receiver = bind("127.0.0.1:0");
    send(&sender, receiver.local_addr(), "farewell");
    timeout(LIMIT, sender.drained()).await.unwrap();
    drop(sender);
    assert_eq!(receive(&receiver, 1).await[0].payload, "farewell");
}

#[tokio::test]
async fn duplicates_arrive_twice() {
    let twice = LinkConfig {
        duplicate: 1.0.into(),
        ..LinkConfig::default()
    };
    let sender = bind_with("127.0.0.1:0", impaired(twice, lossy(0.0), 1));
    let receiver = bind("127.0.0.1:0");
    send(&sender, receiver.local_addr(), "again");
    assert_eq!(receive(&receiver, 2).await[1].payload, "again");
    assert_eq!(sender.statistics().packets_sent, 1);
}

#[tokio::test]
async fn a_full_kernel_buffer_blocks_and_nothing_is_lost_by_the_sender() {
    let config = UdpConfig {
        send_buffer: 1,
        ..UdpConfig::default()
    };
    let sender = bind_with("127.0.0.1:0", config);
    let receiver = bind("127.0.0.1:0");
    let mut queue = SendQueue::new();
    for number in 0..200_u16 {
        // Alternating sizes: no trains.
        let size = 600 + usize::from(number % 2);
        queue.push(datagram(receiver.local_addr(), vec![number as u8; size]));
    }
    let drained = async {
        while sender.flush(&mut queue) == Flushed::Blocked {
            sender.writable().await;
        }
    };
    let (received, ()) = tokio::join!(receive(&receiver, 200), drained);
    assert!(
        received
            .iter()
            .enumerate()
            .all(|(n, datagram)| datagram.payload[0] == n as u8)
    );
}

#[tokio::test]
async fn datagrams_have_come_when_the_kernel_got_them() {
    for here in ["127.0.0.1:0", "[::1]:0"] {
        let config = UdpConfig {
            arrival_times: true,
            ..UdpConfig::default()
        };
        let Ok(receiver) = UdpSocket::bind(here.parse().unwrap(), config) else {
            println!("skipped: no {here} on this host");
            continue;
        };
        let sender = bind(here);
        // The kernel begins to stamp some time after it was asked, and takes the time of reading until then.
        let mut waited = Duration::ZERO;
        for _ in 0..PATIENT_TRIES {
            let before = Instant::now();
            send(&sender, receiver.local_addr(), "stamped");
            tokio::time::sleep(WAIT).await;
            let received = receive(&receiver, 1).await.remove(0);
            assert_eq!(received.payload, "stamped");
            assert_eq!(received.source, sender.local_addr());
            assert_eq!(received.destination_ip, Some(receiver.local_addr().ip()));
            assert!(received.received >= before);
            waited = received.received.elapsed();
            if waited >= WAIT {
                break;
            }
        }
        assert!(waited >= WAIT, "{waited:?}");
    }
}

/// A link has its own clock: what it has held back was not waiting in the kernel.
#[tokio::test]
async fn what_an_impairment_delays_has_come_when_it_lets_go() {
    let delay = Duration::from_millis(200);
    let inbound = LinkConfig {
        delay,
        ..LinkConfig::default()
    };
    let config = UdpConfig {
        arrival_times: true,
        ..impaired(LinkConfig::default(), inbound, 1)
    };
    let receiver = bind_with("127.0.0.1:0", config);
    let sender = bind("127.0.0.1:0");
    let sent = Instant::now();
    send(&sender, receiver.local_addr(), "late");
    let received = receive(&receiver, 1).await.remove(0);
    assert!(received.received >= sent + delay);
}

#[tokio::test]
async fn what_the_network_reports_is_heard_and_does_not_disturb() {
    let config = UdpConfig {
        network_errors: true,
        ..UdpConfig::default()
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let socket = UdpSocket::bind(address, config).unwrap();
    let peer = UdpSocket::bind(address, UdpConfig::default()).unwrap();
    let nobody = Nobody::new();
    let datagram = |destination, payload: &'static [u8]| Datagram {
        destination,
        source_ip: None,
        payload: Bytes::from_static(payload),
    };
    let mut batch = Batch::new();
    let refused = datagram(nobody.address(), b"is anybody there");
    assert!(matches!(socket.try_send(&refused), SendOutcome::Sent));
    // The error of the first must not be taken for one of the second.
    let wanted = datagram(peer.local_addr(), b"you are");
    assert!(matches!(socket.try_send(&wanted), SendOutcome::Sent));

    timeout(LIMIT, socket.recv(&mut batch))
        .await
        .unwrap()
        .unwrap();
    let error = batch.pop_error().unwrap();
    assert_eq!(error.destination, nobody.address());
    assert_eq!(error.source_ip, Some(address.ip()));
    let port_unreachable = Report::Icmp {
        icmp_type: 3,
        code: 3,
    };
    assert_eq!(error.report, port_unreachable);
    assert_eq!(error.quoted, "is anybody there");

    timeout(LIMIT, peer.recv(&mut batch))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(batch.pop().unwrap().payload, "you are");
}

/// Reports of what one thread sends come while another sends to somebody else.
#[tokio::test]
async fn what_the_network_reports_of_others_stops_no_datagram() {
    const DATAGRAMS: usize = 2000;
    let config = UdpConfig {
        network_errors: true,
        ..UdpConfig::default()
    };
    let socket = bind_with("127.0.0.1:0", config);
    let peer = bind("127.0.0.1:0");
    let nobody = Nobody::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let to_nobody = scope.spawn(|| {
            let refused = datagram(nobody.address(), "is anybody there");
            let mut sent = 0;
            while !is_over.load(Relaxed) {
                assert!(matches!(socket.try_send(&refused), SendOutcome::Sent));
                sent += 1;
                // Taking a report makes the next one the error of somebody's call.
                if sent % 16 == 0 {
                    while next_network_error(socket.as_fd()).is_ok() {}
                }
            }
        });
        let wanted: Vec<Datagram> = ["you are", "and you are"]
            .map(|payload| datagram(peer.local_addr(), payload))
            .into();
        for _ in 0..DATAGRAMS {
            let (sent, outcome) = socket.try_send_all(&wanted);
            assert!(matches!(outcome, SendOutcome::Sent), "{outcome:?}");
            assert_eq!(sent, wanted.len());
            let outcome = socket.try_send(&wanted[0]);
            assert!(matches!(outcome, SendOutcome::Sent), "{outcome:?}");
        }
        is_over.store(true, Relaxed);
        to_nobody.join().unwrap();
    });
    let statistics = socket.statistics();
    assert!(statistics.packets_sent >= 3 * DATAGRAMS as u64);
}

/// What has no route is told, whatever is reported of others.
#[tokio::test]
async fn what_has_no_route_fails_while_errors_are_pending() {
    let config = UdpConfig {
        network_errors: true,
        ..UdpConfig::default()
    };
    // Bound to loopback, nothing leads out of this host.
    let socket = bind_with("127.0.0.1:0", config);
    let nobody = Nobody::new();
    let elsewhere = datagram(SocketAddr::from(([192, 0, 2, 1], 9)), "out");
    for _ in 0..10 {
        for _ in 0..3 {
            send(&socket, nobody.address(), "is anybody there");
        }
        let outcome = socket.try_send(&elsewhere);
        assert!(matches!(outcome, SendOutcome::Failed(_)), "{outcome:?}");
        let (sent, outcome) = socket.try_send_all(std::slice::from_ref(&elsewhere));
        assert!(matches!(outcome, SendOutcome::Failed(_)), "{outcome:?}");
        assert_eq!(sent, 0);
    }
}

/// What arrives is what was sent, from where it was sent, in its order.
#[tokio::test]
async fn datagrams_of_one_call_arrive_from_their_addresses() {
    for (any, here) in [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "::1")] {
        let here: IpAddr = here.parse().unwrap();
        let socket = bind(any);
        let peer = bind(&SocketAddr::new(here, 0).to_string());
        let lengths = [400, 400, 400, 300, 0, 400, 1452, 1452, 9, 9, 2000, 2000];
        let datagrams: Vec<Datagram> = lengths
            .iter()
            .enumerate()
            .map(|(number, length)| Datagram {
                source_ip: Some(here).filter(|_| number % 5 != 4),
                ..datagram(peer.local_addr(), vec![number as u8; *length])
            })
            .collect();
        let (sent, outcome) = socket.try_send_all(&datagrams);
        assert!(matches!(outcome, SendOutcome::Sent), "{outcome:?}");
        assert_eq!(sent, datagrams.len());
        assert_eq!(socket.statistics().packets_sent, datagrams.len() as u64);
        let mut arrived = Vec::new();
        let mut batch = Batch::new();
        while arrived.len() < datagrams.len() {
            timeout(LIMIT, peer.recv(&mut batch))
                .await
                .unwrap()
                .unwrap();
            arrived.extend(batch.drain());
        }
        for (datagram, received) in datagrams.iter().zip(&arrived) {
            assert_eq!(received.payload, datagram.payload);
            assert_eq!(received.source.port(), socket.local_addr().port());
            if let Some(source) = datagram.source_ip {
                assert_eq!(received.source.ip(), source);
            }
        }
    }
}
