//! Messages between two stacks on loopback addresses.

use std::time::Duration;

use crate::common::{
    self, carrier, echo, lossy_carrier, on_stream, pair, pair_over, pattern, quick, within,
};
use bytes::Bytes;
use sctp_net::{CloseCause, Impairment, Jitter, LinkConfig, SendError, SendInfo, UdpCarrierConfig};

#[tokio::test]
async fn echo_over_ipv4_and_ipv6() {
    for ip in ["127.0.0.1", "::1"] {
        let pair = pair_over(carrier(ip), carrier(ip), quick()).await;
        assert_eq!(pair.client.peer().port(), pair.server_endpoint.port());
        assert_eq!(
            pair.client.peer().ip(),
            ip.parse::<std::net::IpAddr>().unwrap()
        );
        assert_eq!(pair.server.peer().port(), pair.client_endpoint.port());
        assert_eq!(pair.server.local().port(), pair.server_endpoint.port());
        let client_udp_port = pair.client_stack.local_addr().port();
        assert_eq!(pair.server.peer_encapsulation_port(), Some(client_udp_port));

        tokio::spawn(echo(pair.server.clone()));
        let info = SendInfo {
            stream: 3,
            ppid: 0x0102_0304,
            unordered: true,
            ..SendInfo::default()
        };
        within(pair.client.send(info, "hello".into()))
            .await
            .unwrap();
        let answer = within(pair.client.receive()).await.unwrap();
        assert_eq!(answer.payload, "hello");
        assert_eq!(
            (answer.stream, answer.ppid, answer.unordered),
            (3, 0x0102_0304, true)
        );
    }
}

#[tokio::test]
async fn a_wildcard_address_answers_from_where_it_was_asked() {
    let pair = pair_over(carrier("127.0.0.1"), carrier("127.0.0.1"), quick()).await;
    let server_stack = sctp_net::Stack::udp(carrier("0.0.0.0")).unwrap();
    let server = server_stack.endpoint(7, quick()).unwrap();
    let udp_port = server_stack.local_addr().port();
    let asked = "127.0.0.9".parse().unwrap();
    let client = within(pair.client_endpoint.connect(asked, 7, Some(udp_port)))
        .await
        .unwrap();
    let accepted = within(server.accept()).await.unwrap();
    assert_eq!(client.peer().ip(), asked);
    assert_eq!(accepted.local().ip(), asked);
}

#[tokio::test]
async fn messages_of_all_sizes_arrive_whole_and_in_order() {
    let config = quick()
        .a_rwnd(4 << 20)
        .max_message_size(1 << 20)
        .send_buffer(2 << 20);
    let pair = pair(config).await;
    let sizes = [
        1,
        2,
        3,
        4,
        1400,
        1452,
        1453,
        1500,
        9000,
        65_536,
        100_001,
        1 << 20,
        5,
    ];
    let sender = pair.client.clone();
    let sending = tokio::spawn(async move {
        for (number, size) in sizes.into_iter().enumerate() {
            let payload = pattern(number, size);
            sender.send(SendInfo::default(), payload).await.unwrap();
        }
    });
    for (number, size) in sizes.into_iter().enumerate() {
        let message = within(pair.server.receive()).await.unwrap();
        assert_eq!(message.payload.len(), size);
        assert!(
            message.payload == pattern(number, size),
            "message of {size} bytes differs"
        );
    }
    sending.await.unwrap();
}

#[tokio::test]
async fn many_streams_keep_their_order_each() {
    const STREAMS: u16 = 500;
    const ROUNDS: usize = 5;
    let config = quick()
        .outbound_streams(STREAMS)
        .max_inbound_streams(STREAMS);
    let pair = pair(config).await;
    assert_eq!(pair.client.outbound_streams(), STREAMS);
    let sender = pair.client.clone();
    let sending = tokio::spawn(async move {
        for round in 0..ROUNDS {
            for stream in 0..STREAMS {
                let payload = pattern(round, 100 + usize::from(stream));
                sender.send(on_stream(stream), payload).await.unwrap();
            }
        }
    });
    let mut rounds = vec![0; usize::from(STREAMS)];
    for _ in 0..ROUNDS * usize::from(STREAMS) {
        let message = within(pair.server.receive()).await.unwrap();
        let round = &mut rounds[usize::from(message.stream)];
        assert_eq!(
            message.payload,
            pattern(*round, 100 + usize::from(message.stream))
        );
        assert_eq!(usize::from(message.ssn), *round);
        *round += 1;
    }
    assert!(rounds.iter().all(|&round| round == ROUNDS));
    sending.await.unwrap();
}

#[tokio::test]
async fn everything_arrives_over_a_network_that_loses_a_fifth() {
    let pair = pair_over(lossy_carrier(0.2, 1), carrier("127.0.0.1"), quick()).await;
    // The impairment is on the client's side: it acts on packets in both directions.
    for (sender, receiver) in [(0, 1), (1, 0)] {
        let ends = [&pair.client, &pair.server];
        let (sender, receiver) = (ends[sender].clone(), ends[receiver].clone());
        let sending = tokio::spawn(async move {
            for number in 0..300 {
                let info = on_stream((number % 10) as u16);
                sender.send(info, pattern(number, 1000)).await.unwrap();
            }
        });
        let mut next = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        for _ in 0..300 {
            let message = within(receiver.receive()).await.unwrap();
            let number = &mut next[usize::from(message.stream)];
            assert_eq!(message.payload, pattern(*number, 1000));
            *number += 10;
        }
        sending.await.unwrap();
    }
    assert_eq!(within(pair.client.shutdown()).await, CloseCause::Shutdown);
    let statistics = pair.client_stack.statistics().await;
    assert!(
        statistics.carrier.outbound_dropped_by_link > 0,
        "{statistics:?}"
    );
    assert!(
        statistics.carrier.inbound_dropped_by_link > 0,
        "{statistics:?}"
    );
    assert!(statistics.retransmissions() > 0, "{statistics:?}");
}

#[tokio::test]
async fn everything_arrives_over_a_network_that_delays_reorders_and_duplicates() {
    let link = LinkConfig {
        loss: 0.02.into(),
        delay: Duration::from_millis(10),
        jitter: Jitter {
            reorders: true,
            ..Duration::from_millis(5).into()
        },
        duplicate: 0.1.into(),
        ..LinkConfig::default()
    };
    let bad = UdpCarrierConfig {
        impairment: Some(Impairment {
            outbound: link.clone(),
            inbound: link,
            seed: 4,
        }),
        ..carrier("127.0.0.1")
    };
    let pair = pair_over(bad, carrier("127.0.0.1"), quick()).await;
    let echoing = tokio::spawn(echo(pair.server.clone()));
    let sender = pair.client.clone();
    let sending = tokio::spawn(async move {
        for number in 0..200 {
            let payload = pattern(number, 3000);
            sender.send(on_stream(0), payload).await.unwrap();
        }
    });
    for number in 0..200 {
        let message = within(pair.client.receive()).await.unwrap();
        assert!(
            message.payload == pattern(number, 3000),
            "message {number} differs"
        );
    }
    sending.await.unwrap();
    let srtt = pair.client.status().await.unwrap().paths[0].srtt.unwrap();
    assert!(srtt >= Duration::from_millis(15), "{srtt:?}");
    assert_eq!(within(pair.client.shutdown()).await, CloseCause::Shutdown);
    within(echoing).await.unwrap();
}

#[tokio::test]
async fn a_slow_receiver_holds_its_sender() {
    let config = quick().a_rwnd(128 * 1024).send_buffer(128 * 1024);
    let pair = pair(config).await;
    let payload = Bytes::from(vec![1; 1000]);
    let mut sent = 0;
    within(async {
        loop {
            let sending = pair.client.send(SendInfo::default(), payload.clone());
            let limit = Duration::from_millis(500);
            if let Ok(result) = tokio::time::timeout(limit, sending).await {
                result.unwrap();
                sent += 1;
                assert!(sent < 10_000, "nothing holds the sender");
                continue;
            }
            // A machine that stands still holds it, too.
            let status = pair.server.status().await.unwrap();
            if status.receive_buffer_bytes < 100 * 1024 {
                continue;
            }
            match pair.client.try_send(SendInfo::default(), payload.clone()) {
                Ok(()) => sent += 1,
                Err(error) => {
                    assert_eq!(error, SendError::BufferFull);
                    return;
                }
            }
        }
    })
    .await;
    // The buffers on the way: outbox, send buffer, window, inbox. Each message counts for a little
    // more than its payload, and the window ends within a packet.
    assert!(
        (200..=(64 + 128 + 128 + 64 + 8) * 1024 / 1000).contains(&sent),
        "{sent}"
    );
    let refused = pair.client.try_send(SendInfo::default(), payload.clone());
    assert_eq!(refused, Err(SendError::BufferFull));
    let status = pair.server.status().await.unwrap();
    assert!(status.receive_buffer_bytes <= 130 * 1024, "{status:?}");
    assert!(status.receive_buffer_bytes >= 100 * 1024, "{status:?}");

    // As soon as someone receives, everything flows.
    let receiver = pair.server.clone();
    let receiving = tokio::spawn(async move {
        for _ in 0..sent + 200 {
            assert_eq!(receiver.receive().await.unwrap().payload.len(), 1000);
        }
    });
    for _ in 0..200 {
        within(pair.client.send(SendInfo::default(), payload.clone()))
            .await
            .unwrap();
    }
    within(receiving).await.unwrap();
}

#[tokio::test]
async fn senders_that_wait_get_equal_turns() {
    let config = quick().a_rwnd(64 * 1024).send_buffer(64 * 1024);
    let pair = pair(config).await;
    let senders: Vec<_> = (0..4)
        .map(|stream| {
            let association = pair.client.clone();
            tokio::spawn(async move {
                for _ in 0..200 {
                    let payload = vec![0; 2000].into();
                    association.send(on_stream(stream), payload).await.unwrap();
                }
            })
        })
        .collect();
    let mut counts = [0_i32; 4];
    let mut widest = 0;
    for _ in 0..4 * 200 {
        let message = within(pair.server.receive()).await.unwrap();
        counts[usize::from(message.stream)] += 1;
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        widest = widest.max(most - least);
    }
    // One sender may fill the outbox before the others begin.
    assert!(
        widest <= 40,
        "one sender was {widest} messages ahead of another"
    );
    for sender in senders {
        sender.await.unwrap();
    }
}

#[tokio::test]
async fn a_message_larger_than_the_send_buffer_is_refused() {
    let config = quick().send_buffer(1000);
    let pair = pair(config).await;
    for (bytes, result) in [(1001, Err(SendError::TooLarge)), (1000, Ok(()))] {
        let payload = common::pattern(bytes, bytes);
        let sent = within(pair.client.send(on_stream(0), payload)).await;
        assert_eq!(sent, result);
    }
    let message = within(pair.server.receive()).await.unwrap();
    assert_eq!(message.payload.len(), 1000);
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused() {
    let pair = pair(quick()).await;
    let streams = pair.client.outbound_streams();
    let limit = quick().association.max_message_size;
    for (info, payload, error) in [
        (
            on_stream(streams),
            Bytes::from("x"),
            SendError::InvalidStream,
        ),
        (on_stream(0), Bytes::new(), SendError::Empty),
        (on_stream(0), vec![0; limit + 1].into(), SendError::TooLarge),
    ] {
        assert_eq!(pair.client.send(info, payload.clone()).await, Err(error));
        assert_eq!(pair.client.try_send(info, payload), Err(error));
    }
    within(pair.client.shutdown()).await;
    let refused = pair.client.send(on_stream(0), "late".into()).await;
    assert_eq!(refused, Err(SendError::UnknownAssociation));
}

#[tokio::test]
async fn messages_given_together_leave_together_and_wait_for_no_task() {
    let config = quick().heartbeats(false).path_mtu_discovery(false);
    let (ours, theirs) = (carrier("127.0.0.1"), carrier("127.0.0.1"));
    // The peer lives elsewhere: this thread is about to be blocked.
    let elsewhere = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (server_stack, server_endpoint) = {
        let _elsewhere = elsewhere.enter();
        let stack = sctp_net::Stack::udp(theirs).unwrap();
        let endpoint = stack.endpoint(0, config.clone()).unwrap();
        (stack, endpoint)
    };
    let stack = sctp_net::Stack::udp(ours).unwrap();
    let endpoint = stack.endpoint(0, config.clone()).unwrap();
    let client = common::connect(&endpoint, &server_stack, server_endpoint.port()).await;
    let server = within(server_endpoint.accept()).await.unwrap();
    let before = within(client.statistics()).await.unwrap();

    let (told, arrived) = std::sync::mpsc::channel();
    elsewhere.spawn(async move {
        let mut received = Vec::new();
        while server.receive_all(&mut received).await > 0 {
            for message in received.drain(..) {
                told.send(message.payload).unwrap();
            }
        }
    });
    let message = |number| (SendInfo::default(), pattern(number, 300));
    // No task of this thread runs until all has arrived.
    assert_eq!(client.try_send_all((0..6).map(message)), (6, None));
    let next = || arrived.recv_timeout(common::LIMIT).expect("in time");
    for number in 0..6 {
        assert_eq!(next(), pattern(number, 300));
    }
    let (count, refused, first) = client.queue_all([message(6)]);
    assert_eq!((count, refused), (1, None));
    let (count, refused, second) = client.queue_all([message(7)]);
    assert_eq!((count, refused), (1, None));
    let a_while = Duration::from_millis(50);
    assert!(arrived.recv_timeout(a_while).is_err(), "it was to wait");
    drop((first, second));
    assert_eq!([next(), next()], [pattern(6, 300), pattern(7, 300)]);
    let after = within(client.statistics()).await.unwrap();
    assert_eq!(after.data_chunks_sent - before.data_chunks_sent, 8);
    // Four chunks of 316 bytes fit into one.
    assert_eq!(after.packets_sent - before.packets_sent, 3);
    elsewhere.shutdown_background();
}

#[tokio::test]
async fn messages_given_together_find_the_same_bounds() {
    let config = quick().a_rwnd(4_000).send_buffer(10_000);
    let pair = pair(config).await;
    // The peer does not receive: its window, its inbox, the engine's buffer and the outbox fill up.
    let mut given = 0;
    let mut refused = None;
    while refused != Some(SendError::BufferFull) || given < 100_000 {
        let messages = (0..50).map(|number| (SendInfo::default(), pattern(number, 1_000)));
        let (count, error) = pair.client.try_send_all(messages);
        given += count * 1_000;
        refused = error;
        assert!(given < 300_000, "nothing is bounded");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // What cannot be sent at all is told, and what came before it is on its way.
    let mut received = Vec::new();
    while received.len() * 1_000 < given {
        assert!(within(pair.server.receive_all(&mut received)).await > 0);
    }
    assert_eq!(received.len() * 1_000, given);
    let (first, other) = (pattern(1, 10), pattern(2, 10));
    let nowhere = on_stream(pair.client.outbound_streams());
    let messages = [
        (SendInfo::default(), first.clone()),
        (nowhere, other.clone()),
        (SendInfo::default(), other),
    ];
    let told = pair.client.try_send_all(messages);
    assert_eq!(told, (1, Some(SendError::InvalidStream)));
    let next = within(pair.server.receive()).await.unwrap();
    assert_eq!(next.payload, first);
    within(pair.client.shutdown()).await;
    let late = [(SendInfo::default(), first)];
    let told = pair.client.try_send_all(late);
    assert_eq!(told, (0, Some(SendError::UnknownAssociation)));
    assert_eq!(within(pair.server.receive_all(&mut received)).await, 0);
}

#[tokio::test]
async fn packets_that_come_together_are_acknowledged_together_where_that_is_asked_for() {
    let mut acknowledgements = Vec::new();
    for joint_acknowledgement in [false, true] {
        let receiving = UdpCarrierConfig {
            joint_acknowledgement,
            ..carrier("127.0.0.1")
        };
        let config = quick()
            .heartbeats(false)
            .path_mtu_discovery(false)
            .max_burst(100);
        let pair = pair_over(carrier("127.0.0.1"), receiving, config).await;
        // The first packet is acknowledged at once, and opens the window.
        let mut received = Vec::new();
        let mut count = 0;
        for number in 0..20 {
            let messages = (0..number).map(|_| (SendInfo::default(), pattern(number, 1_400)));
            assert_eq!(pair.client.try_send_all(messages), (number, None));
            count += number;
            while received.len() < count {
                within(pair.server.receive_all(&mut received)).await;
            }
            // Until nothing is outstanding.
            while within(pair.client.status())
                .await
                .unwrap()
                .outstanding_bytes
                > 0
            {
                tokio::task::yield_now().await;
            }
        }
        let statistics = within(pair.server.statistics()).await.unwrap();
        acknowledgements.push(statistics.packets_sent);
    }
    let [by_two, joint] = acknowledgements[..] else {
        panic!("{acknowledgements:?}");
    };
    assert!(by_two >= 90, "every second of 190 packets: {by_two}");
    assert!(joint * 2 < by_two, "{joint} beside {by_two}");
}
