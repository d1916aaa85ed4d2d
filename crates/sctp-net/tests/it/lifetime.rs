//! How associations, endpoints and stacks begin and end.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::{self, connect, echo, on_stream, pair, patient, pattern, quick, stack, within};
use sctp_net::{
    CannotStartCause, CloseCause, ConnectError, EndpointEvent, LostCause, SendInfo, Stack,
    UdpCarrierConfig,
};

#[tokio::test]
async fn shutdown_delivers_what_was_sent_and_is_seen_by_both() {
    let pair = pair(quick()).await;
    for number in 0..50 {
        let payload = common::pattern(number, 3000);
        pair.client.send(on_stream(0), payload).await.unwrap();
    }
    let server = pair.server.clone();
    let receiving = tokio::spawn(async move {
        let mut count = 0;
        while let Some(message) = server.receive().await {
            assert_eq!(message.payload, common::pattern(count, 3000));
            count += 1;
        }
        (count, server.closed().await)
    });
    assert_eq!(within(pair.client.shutdown()).await, CloseCause::Shutdown);
    assert_eq!(within(receiving).await.unwrap(), (50, CloseCause::Shutdown));
    assert_eq!(pair.client.status().await, None);
}

#[tokio::test]
async fn what_arrived_can_be_read_after_the_end_however_much_it_is() {
    const COUNT: usize = 500;
    let pair = pair(quick()).await;
    for number in 0..COUNT {
        within(pair.client.send(SendInfo::default(), pattern(number, 1000)))
            .await
            .unwrap();
    }
    assert_eq!(within(pair.client.shutdown()).await, CloseCause::Shutdown);
    assert_eq!(within(pair.server.closed()).await, CloseCause::Shutdown);
    for number in 0..COUNT {
        let message = within(pair.server.receive()).await;
        let message = message.unwrap_or_else(|| panic!("{number} messages only"));
        assert!(message.payload == pattern(number, 1000));
    }
    assert!(within(pair.server.receive()).await.is_none());
}

#[tokio::test]
async fn abort_is_seen_at_once_and_with_its_reason() {
    let pair = pair(quick()).await;
    pair.client.abort(b"out of patience");
    let aborted = CloseCause::Lost(LostCause::AbortedLocally);
    assert_eq!(within(pair.client.closed()).await, aborted);
    assert!(within(pair.server.receive()).await.is_none());
    let cause = within(pair.server.closed()).await;
    assert!(
        matches!(cause, CloseCause::Lost(LostCause::AbortedByPeer { .. })),
        "{cause:?}"
    );
    assert!(cause.to_string().contains("out of patience"), "{cause}");
}

#[tokio::test]
async fn dropping_the_last_handle_shuts_down() {
    let pair = pair(quick()).await;
    pair.client
        .send(on_stream(0), "farewell".into())
        .await
        .unwrap();
    let clone = pair.client.clone();
    drop(pair.client);
    assert_eq!(
        within(pair.server.receive()).await.unwrap().payload,
        "farewell"
    );
    assert_eq!(pair.server.close_cause(), None);
    // Unread messages do not hold up the end.
    for _ in 0..300 {
        pair.server
            .send(on_stream(0), vec![0; 1000].into())
            .await
            .unwrap();
    }
    drop(clone);
    assert_eq!(within(pair.server.closed()).await, CloseCause::Shutdown);
}

#[tokio::test]
async fn nobody_there() {
    let quiet = stack();
    let config = quick().max_init_retransmits(2);
    let endpoint = quiet.endpoint(0, config).unwrap();
    // A socket that never answers.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let result = within(endpoint.connect(address.ip(), 9, Some(address.port()))).await;
    let error = result.unwrap_err();
    let ConnectError::CannotStart { cause, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*cause, CannotStartCause::TimedOut);
    assert!(error.to_string().contains("127.0.0.1:9 "), "{error}");
    assert!(
        error.to_string().contains(&address.port().to_string()),
        "{error}"
    );

    let link_local = endpoint.connect("fe80::1".parse().unwrap(), 9, None).await;
    let error = link_local.unwrap_err();
    assert!(matches!(error, ConnectError::NoZone { .. }), "{error:?}");
    assert!(error.to_string().contains("[fe80::1]:9"), "{error}");

    let other_family = endpoint.connect("::1".parse().unwrap(), 9, None).await;
    let error = other_family.unwrap_err();
    assert!(
        matches!(error, ConnectError::OtherFamily { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_port_without_endpoint_refuses() {
    let (client, server) = (stack(), stack());
    let endpoint = client.endpoint(0, patient()).unwrap();
    let address = server.local_addr();
    let result = within(endpoint.connect(address.ip(), 4242, Some(address.port()))).await;
    let error = result.unwrap_err();
    let refused = matches!(
        error,
        ConnectError::CannotStart {
            cause: CannotStartCause::Refused { .. },
            ..
        }
    );
    assert!(refused, "{error:?}");
    assert_eq!(server.statistics().await.out_of_the_blue, 1);
}

#[tokio::test]
async fn what_is_no_packet_of_ours_is_counted_and_disturbs_nobody() {
    let pair = pair(quick()).await;
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = pair.server_stack.local_addr();
    let port = pair.server_endpoint.port().to_be_bytes();
    for length in 0..200 {
        // To the endpoint where it is long enough, and what follows is any bytes.
        let mut packet = common::pattern(length, length).to_vec();
        if let Some(destination) = packet.get_mut(2..4) {
            destination.copy_from_slice(&port);
        }
        stranger.send_to(&packet, server).unwrap();
    }
    pair.client
        .send(on_stream(0), "hello".into())
        .await
        .unwrap();
    assert_eq!(
        within(pair.server.receive()).await.unwrap().payload,
        "hello"
    );
    let statistics = pair.server_stack.statistics().await;
    assert_eq!(statistics.not_for_us, 12, "shorter than a common header");
    assert_eq!(statistics.out_of_the_blue, 0);
    assert!(statistics.carrier.packets_received >= 200);
}

#[tokio::test]
async fn a_peer_that_starts_anew_is_the_same_association() {
    let server_stack = stack();
    let server = server_stack.one_to_many(5060, quick()).unwrap();
    // A peer that vanishes without a word, and comes back on the same ports.
    let mut carrier = common::carrier("127.0.0.1");
    let mut first_id = None;
    for life in 0..2 {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (own, to) = (carrier.clone(), server_stack.clone());
        let living = runtime.spawn(async move {
            let stack = Stack::udp(own).unwrap();
            let endpoint = stack.endpoint(4000, quick()).unwrap();
            let association = connect(&endpoint, &to, 5060).await;
            association
                .send(on_stream(0), "I live".into())
                .await
                .unwrap();
            // A SACK that found nobody would tell the server that its peer is gone.
            while association.status().await.unwrap().send_buffer_bytes > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            (stack.local_addr(), association, endpoint)
        });
        let (address, association, endpoint) = within(living).await.unwrap();
        carrier.addresses = vec![address];
        let event = within(server.next()).await.unwrap();
        match (life, event) {
            (0, EndpointEvent::Accepted(association)) => first_id = Some(association.id()),
            (1, EndpointEvent::Restarted(association)) => {
                assert_eq!(Some(association.id()), first_id);
            }
            (_, event) => panic!("{event:?}"),
        }
        let event = within(server.next()).await.unwrap();
        let EndpointEvent::Message { message, .. } = event else {
            panic!("{event:?}");
        };
        assert_eq!(message.payload, "I live");
        let death = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(common::LIMIT));
        death.await.unwrap();
        drop((association, endpoint));
    }
}

#[tokio::test]
async fn ports_are_taken_and_given_back() {
    let stack = stack();
    let first = stack.endpoint(5060, quick()).unwrap();
    let error = stack.endpoint(5060, quick()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains("5060"), "{error}");
    let ephemeral = stack.endpoint(0, quick()).unwrap();
    assert!(ephemeral.port() >= 49152);
    within(first.close()).await;
    assert!(within(first.accept()).await.is_none());
    stack.endpoint(5060, quick()).unwrap();
}

#[tokio::test]
async fn a_port_that_is_opened_again_is_another_endpoint() {
    let stack = stack();
    let old = stack.endpoint(5060, quick()).unwrap();
    let peer_stack = common::stack();
    let peer = peer_stack.endpoint(0, quick()).unwrap();
    let old_peer = connect(&peer, &stack, 5060).await;
    let old_association = within(old.accept()).await.unwrap();
    within(old.close()).await;
    within(old_peer.closed()).await;

    let new = stack.endpoint(5060, quick()).unwrap();
    let _new_peer = connect(&peer, &stack, 5060).await;
    let new_association = within(new.accept()).await.unwrap();
    assert_eq!(old_association.status().await, None);
    assert!(new_association.status().await.is_some());
    within(old.close()).await;
    drop((old, old_association));
    assert!(new_association.status().await.is_some());
    assert_eq!(new_association.close_cause(), None);
    let another_peer = peer_stack.endpoint(0, quick()).unwrap();
    let _another = connect(&another_peer, &stack, 5060).await;
    assert!(within(new.accept()).await.is_some());
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let first = stack();
    let address = first.local_addr();
    let error = Stack::udp(UdpCarrierConfig::new(address)).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn a_hundred_associations_share_a_socket() {
    let (client_stack, server_stack) = (stack(), stack());
    let server = server_stack.endpoint(5060, quick()).unwrap();
    let server_port = server.port();
    let accepting = tokio::spawn(async move {
        while let Some(association) = server.accept().await {
            tokio::spawn(echo(association));
        }
    });
    let clients = (0..100).map(|number: usize| {
        let (client_stack, server_stack) = (client_stack.clone(), server_stack.clone());
        tokio::spawn(async move {
            let endpoint = client_stack.endpoint(0, quick()).unwrap();
            let association = connect(&endpoint, &server_stack, server_port).await;
            for round in 0..10 {
                let payload = common::pattern(number * 10 + round, 500);
                association
                    .send(on_stream(0), payload.clone())
                    .await
                    .unwrap();
                assert_eq!(
                    within(association.receive()).await.unwrap().payload,
                    payload
                );
            }
            assert_eq!(within(association.shutdown()).await, CloseCause::Shutdown);
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    within(server_stack.close()).await;
    within(accepting).await.unwrap();
}

#[tokio::test]
async fn an_endpoint_associates_with_many_and_receives_from_all_in_one_place() {
    const CLIENTS: usize = 20;
    let (client_stack, server_stack) = (stack(), stack());
    let server = server_stack.one_to_many(5060, quick()).unwrap();
    let serving = tokio::spawn(async move {
        let (mut accepted, mut messages, mut closed) = (0, 0, 0);
        while closed < CLIENTS {
            match within(server.next()).await.unwrap() {
                EndpointEvent::Accepted(_) => accepted += 1,
                EndpointEvent::Message {
                    association,
                    message,
                } => {
                    messages += 1;
                    association.try_send(on_stream(1), message.payload).unwrap();
                }
                EndpointEvent::Closed { cause, .. } => {
                    assert_eq!(cause, CloseCause::Shutdown);
                    closed += 1;
                }
                EndpointEvent::Restarted(association) => panic!("{association:?} restarted"),
            }
        }
        (accepted, messages)
    });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (client_stack, server_stack) = (client_stack.clone(), server_stack.clone());
            tokio::spawn(async move {
                let endpoint = client_stack.endpoint(0, quick()).unwrap();
                let association = connect(&endpoint, &server_stack, 5060).await;
                for round in 0..20 {
                    let payload = common::pattern(number + round, 2000);
                    association
                        .send(on_stream(2), payload.clone())
                        .await
                        .unwrap();
                    let answer = within(association.receive()).await.unwrap();
                    assert_eq!((answer.stream, answer.payload), (1, payload));
                }
                within(association.shutdown()).await
            })
        })
        .collect();
    for client in clients {
        assert_eq!(client.await.unwrap(), CloseCause::Shutdown);
    }
    assert_eq!(serving.await.unwrap(), (CLIENTS, CLIENTS * 20));
}

#[tokio::test]
async fn a_one_to_many_endpoint_that_nobody_reads_holds_its_senders() {
    let (client_stack, server_stack) = (stack(), stack());
    let config = quick().a_rwnd(64 * 1024).send_buffer(64 * 1024);
    let server = server_stack.one_to_many(5060, config.clone()).unwrap();
    let endpoint = client_stack.endpoint(0, config).unwrap();
    let association = connect(&endpoint, &server_stack, 5060).await;
    let mut sent = 0;
    while let Ok(result) = tokio::time::timeout(
        Duration::from_millis(500),
        association.send(on_stream(0), vec![2; 1000].into()),
    )
    .await
    {
        result.unwrap();
        sent += 1;
        assert!(sent < 10_000, "nothing holds the sender");
    }
    assert!(sent <= (4 * 64 + 8) * 1024 / 1000, "{sent}");
    let reading = async {
        let mut received = 0;
        loop {
            match within(server.next()).await.unwrap() {
                EndpointEvent::Message { .. } => received += 1,
                EndpointEvent::Closed { .. } => return received,
                _ => {}
            }
        }
    };
    let (received, cause) = tokio::join!(reading, association.shutdown());
    assert_eq!((received, cause), (sent, CloseCause::Shutdown));
}

#[tokio::test]
async fn closing_a_stack_shuts_down_everything() {
    let pair = pair(quick()).await;
    pair.client
        .send(on_stream(0), "last words".into())
        .await
        .unwrap();
    within(pair.client_stack.close()).await;
    assert_eq!(within(pair.client.closed()).await, CloseCause::Shutdown);
    assert_eq!(
        within(pair.server.receive()).await.unwrap().payload,
        "last words"
    );
    assert_eq!(within(pair.server.closed()).await, CloseCause::Shutdown);

    let error = pair.client_stack.endpoint(1, quick()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotConnected);
    let address = pair.server_stack.local_addr();
    let result = pair.client_endpoint.connect(address.ip(), 1, None).await;
    assert_eq!(result.unwrap_err(), ConnectError::Closed);
    assert!(within(pair.client_endpoint.accept()).await.is_none());
    assert!(pair.client_stack.statistics().await.carrier.packets_sent > 0);
}

#[tokio::test]
async fn closing_does_not_wait_long_for_a_peer_that_is_gone() {
    let peers_runtime = tokio::runtime::Runtime::new().unwrap();
    let peer = peers_runtime.spawn(async { stack() }).await.unwrap();
    let peer_endpoint = peer.endpoint(5060, quick()).unwrap();
    let mut carrier = common::carrier("127.0.0.1");
    carrier.close_timeout = Duration::from_millis(300);
    let client_stack = Stack::udp(carrier).unwrap();
    let endpoint = client_stack.endpoint(0, quick()).unwrap();
    let association = connect(&endpoint, &peer, peer_endpoint.port()).await;
    let ending = tokio::task::spawn_blocking(move || peers_runtime.shutdown_timeout(common::LIMIT));
    ending.await.unwrap();
    // Whoever has the port now says nothing.
    let _silent = std::net::UdpSocket::bind(peer.local_addr()).unwrap();

    let begin = std::time::Instant::now();
    within(endpoint.close()).await;
    assert!(begin.elapsed() >= Duration::from_millis(300));
    let aborted = CloseCause::Lost(LostCause::AbortedLocally);
    assert_eq!(association.close_cause(), Some(aborted));
}

#[tokio::test]
async fn who_gives_up_a_connect_can_try_again_at_once() {
    let stack = stack();
    // No retransmission comes in between.
    let endpoint = stack.endpoint(0, patient()).unwrap();
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let mut initiate_tags = BTreeSet::new();
    for _ in 0..3 {
        let mut packet = [0; 2000];
        tokio::select! {
            result = endpoint.connect(address.ip(), 9, Some(address.port())) => {
                panic!("nobody answers: {result:?}")
            }
            received = within(silent.recv(&mut packet)) => assert!(received.unwrap() > 20),
        }
        initiate_tags.insert(packet[16..20].to_vec());
    }
    assert_eq!(initiate_tags.len(), 3, "each is another association");
}

#[tokio::test]
async fn closing_gives_up_associations_that_are_not_up() {
    let client_stack = stack();
    let endpoint = client_stack.endpoint(0, quick()).unwrap();
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let hopeful = endpoint.clone();
    let connecting =
        tokio::spawn(async move { hopeful.connect(address.ip(), 9, Some(address.port())).await });
    let mut packet = [0; 2000];
    tokio::task::spawn_blocking(move || silent.recv(&mut packet).unwrap())
        .await
        .unwrap();
    within(endpoint.close()).await;
    assert_eq!(
        within(connecting).await.unwrap().unwrap_err(),
        ConnectError::Closed
    );
}

#[tokio::test]
async fn those_who_wait_see_the_end_of_the_runtime_under_a_stack() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let pair = within(runtime.spawn(pair(quick()))).await.unwrap();
    let waiting = tokio::spawn({
        let (association, endpoint) = (pair.client.clone(), pair.client_endpoint.clone());
        async move {
            tokio::join!(
                association.closed(),
                association.receive(),
                endpoint.accept(),
            )
        }
    });
    tokio::task::yield_now().await;
    runtime.shutdown_background();
    let (cause, message, accepted) = within(waiting).await.unwrap();
    assert_eq!(cause, CloseCause::StackClosed);
    assert!(message.is_none() && accepted.is_none());
    within(pair.client_stack.close()).await;
}

#[tokio::test]
async fn a_stack_without_handles_shuts_down_by_itself() {
    let pair = pair(quick()).await;
    drop((pair.client, pair.client_endpoint, pair.client_stack));
    assert_eq!(within(pair.server.closed()).await, CloseCause::Shutdown);
}

#[tokio::test]
async fn a_port_that_nobody_has_any_more_is_reported_by_the_network() {
    let pair = pair(quick()).await;
    let address = pair.server_stack.local_addr();
    pair.server_stack.close().await;
    assert_eq!(within(pair.client.closed()).await, CloseCause::Shutdown);
    let error = within(
        pair.client_endpoint
            .connect(address.ip(), 5060, Some(address.port())),
    )
    .await
    .unwrap_err();
    assert!(
        matches!(
            error,
            ConnectError::CannotStart {
                cause: CannotStartCause::ProtocolUnreachable,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn those_who_are_not_accepted_are_aborted_and_counted() {
    let mut carrier = common::carrier("127.0.0.1");
    carrier.accept_backlog = 2;
    let (client_stack, server_stack) = (stack(), Stack::udp(carrier).unwrap());
    let server = server_stack.endpoint(5060, patient()).unwrap();
    let address = server_stack.local_addr();
    let mut associations = Vec::new();
    for number in 0..5 {
        let endpoint = client_stack.endpoint(0, patient()).unwrap();
        let result = within(endpoint.connect(address.ip(), 5060, Some(address.port()))).await;
        if number < 2 {
            associations.push(result.unwrap());
        } else {
            let error = result.unwrap_err();
            assert!(error.to_string().contains("not accepted"), "{error}");
        }
    }
    assert_eq!(server_stack.statistics().await.accept_overflows, 3);
    for association in &associations {
        within(server.accept()).await.unwrap();
        assert_eq!(association.close_cause(), None);
    }
}
