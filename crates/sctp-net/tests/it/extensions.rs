//! Extensions as handles ask for them.

use sctp_net::{
    AddressChange, AuthenticationIndication, ExtensionError, Extensions, KeyError, Notification,
    ReConfigurationError, ReConfigurationOutcome, ReConfigurationPolicy, StreamDirection,
    StreamError, StreamReset, StreamScheduler,
};

use crate::common::{carrier, on_stream, pair, pair_over, pattern, quick, within};

#[tokio::test]
async fn streams_are_reset_and_added() {
    let config = quick()
        .outbound_streams(2)
        .extensions(Extensions::ALL)
        .re_configuration_policy(ReConfigurationPolicy::GRANT_ALL);
    let pair = pair(config).await;
    let notifications = pair.client.notifications();
    let of_peer = pair.server.notifications();

    within(pair.client.send(on_stream(1), "before".into()))
        .await
        .unwrap();
    assert_eq!(within(pair.server.receive()).await.unwrap().ssn, 0);
    let reset = StreamReset {
        outgoing: Some(vec![1]),
        ..StreamReset::default()
    };
    within(pair.client.reset_streams(reset)).await.unwrap();
    let reset_of = |direction| Notification::StreamReset {
        direction,
        streams: vec![1],
        outcome: ReConfigurationOutcome::Performed,
    };
    let told = within(notifications.next()).await;
    assert_eq!(told, Some(reset_of(StreamDirection::Outgoing)));
    let told = within(of_peer.next()).await;
    assert_eq!(told, Some(reset_of(StreamDirection::Incoming)));
    within(pair.client.send(on_stream(1), "after".into()))
        .await
        .unwrap();
    assert_eq!(within(pair.server.receive()).await.unwrap().ssn, 0);

    within(pair.client.add_streams(3, 0)).await.unwrap();
    let told = within(notifications.next()).await;
    assert!(
        matches!(
            told,
            Some(Notification::StreamChange {
                outbound_streams: 5,
                outcome: ReConfigurationOutcome::Performed,
                ..
            })
        ),
        "{told:?}"
    );
    assert_eq!(pair.client.outbound_streams(), 5);
    within(pair.client.send(on_stream(4), "new".into()))
        .await
        .unwrap();
    assert_eq!(within(pair.server.receive()).await.unwrap().stream, 4);
}

/// However much of it still waits.
#[tokio::test]
async fn a_reset_comes_after_what_was_sent_before() {
    const MESSAGES: usize = 30;
    let mut config = quick()
        .extensions(Extensions::ALL)
        .re_configuration_policy(ReConfigurationPolicy::GRANT_ALL);
    config.association.send_buffer = 20_000;
    let pair = pair(config).await;
    let client = pair.client.clone();
    let sending = tokio::spawn(async move {
        for number in 0..MESSAGES {
            client
                .send(on_stream(1), pattern(number, 10_000))
                .await
                .unwrap();
        }
        let reset = StreamReset {
            outgoing: Some(vec![1]),
            ..StreamReset::default()
        };
        client.reset_streams(reset).await.unwrap();
        client.send(on_stream(1), "after".into()).await.unwrap();
    });
    for number in 0..MESSAGES {
        let message = within(pair.server.receive()).await.unwrap();
        assert_eq!(usize::from(message.ssn), number);
        assert_eq!(message.payload, pattern(number, 10_000));
    }
    let after = within(pair.server.receive()).await.unwrap();
    assert_eq!((after.ssn, &after.payload[..]), (0, &b"after"[..]));
    within(sending).await.unwrap();
}

#[tokio::test]
async fn what_is_not_possible_is_refused() {
    let pair = pair(quick()).await;
    let client = &pair.client;
    let reset = StreamReset {
        outgoing: Some(vec![]),
        ..StreamReset::default()
    };
    let not_supported = ExtensionError::Refused(ReConfigurationError::NotSupported);
    assert_eq!(
        within(client.reset_streams(reset)).await,
        Err(not_supported)
    );
    assert_eq!(within(client.add_streams(1, 0)).await, Err(not_supported));
    let no_stream = ExtensionError::Refused(StreamError::InvalidStream);
    assert_eq!(
        within(client.set_stream_value(999, 1)).await,
        Err(no_stream)
    );
    assert_eq!(within(client.abandoned_messages(999)).await, Err(no_stream));
    let scheduler = StreamScheduler::WeightedFairQueueing;
    assert_eq!(within(client.set_stream_scheduler(scheduler)).await, Ok(()));
    assert_eq!(within(client.set_stream_value(1, 10)).await, Ok(()));
    within(client.shutdown()).await;
    let gone = within(client.set_stream_value(1, 10)).await;
    let unknown = ExtensionError::Refused(StreamError::UnknownAssociation);
    assert!(
        gone == Err(unknown) || gone == Err(ExtensionError::Ended),
        "{gone:?}"
    );
}

#[tokio::test]
async fn keys_change_while_data_flows() {
    let mut extensions = Extensions::NONE;
    extensions.authentication = true;
    let config = quick()
        .extensions(extensions)
        .auth_chunks(vec![sctp::packet::ChunkType::DATA]);
    let pair = pair(config).await;
    let of_peer = pair.server.notifications();
    let no_key = ExtensionError::Refused(KeyError::UnknownKey);
    assert_eq!(within(pair.client.set_active_key(7)).await, Err(no_key));
    for side in [&pair.client, &pair.server] {
        let secret = "the same on both sides".into();
        within(side.set_shared_key(7, secret)).await.unwrap();
    }
    within(pair.client.set_active_key(7)).await.unwrap();
    within(pair.client.send(on_stream(0), "with key 7".into()))
        .await
        .unwrap();
    assert_eq!(
        within(pair.server.receive()).await.unwrap().payload,
        "with key 7"
    );
    let new_key = AuthenticationIndication::NewKey { key: 7 };
    assert_eq!(
        within(of_peer.next()).await,
        Some(Notification::Authentication(new_key))
    );
    let is_active = ExtensionError::Refused(KeyError::KeyIsActive);
    assert_eq!(within(pair.client.deactivate_key(7)).await, Err(is_active));
    let in_use = ExtensionError::Refused(KeyError::KeyInUse);
    assert_eq!(within(pair.client.delete_key(0)).await, Err(in_use));
    within(pair.client.deactivate_key(0)).await.unwrap();
    within(pair.client.delete_key(0)).await.unwrap();
}

/// One of two addresses is deleted while the association is up.
#[tokio::test]
async fn addresses_change_while_the_association_is_up() {
    let config = quick()
        .extensions(Extensions::ALL)
        .address_reconfiguration_without_authentication(true);
    let mut client_carrier = carrier("127.0.0.2");
    let second: std::net::IpAddr = "127.0.0.3".parse().unwrap();
    client_carrier.addresses.push((second, 0).into());
    let pair = pair_over(client_carrier, carrier("127.0.0.1"), config).await;
    let notifications = pair.client.notifications();
    let unknown = AddressChange::Delete("127.0.0.9".parse().unwrap());
    assert!(
        within(pair.client.change_addresses(vec![unknown]))
            .await
            .is_err()
    );
    let change = AddressChange::Delete(second);
    within(pair.client.change_addresses(vec![change]))
        .await
        .unwrap();
    loop {
        let told = within(notifications.next()).await.expect("an answer");
        if let Notification::AddressChangeAnswered {
            change: of,
            outcome,
        } = told
        {
            assert_eq!((of, outcome), (change, Ok(())));
            break;
        }
    }
    let status = within(pair.server.status()).await.unwrap();
    let remotes: Vec<_> = status
        .paths
        .iter()
        .map(|path| path.address.remote)
        .collect();
    assert_eq!(remotes, ["127.0.0.2".parse::<std::net::IpAddr>().unwrap()]);
}
