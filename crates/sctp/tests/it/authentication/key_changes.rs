//! Keys that change while data flows.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use sctp::packet::ChunkType;
use sctp::{AuthenticationIndication, KeyError, SendError, SendInfo};

use super::{authenticating, indications};
use crate::common::{Pair, message, ordered};

/// What the user does next.
#[derive(Debug, Clone)]
enum Step {
    /// Sends messages, with a key or the active one.
    Send(usize, Option<u16>),
    /// Sets a key on both sides and makes it the active one.
    Activate(u16),
    /// Has the client use a key no more.
    Deactivate(u16),
    /// Has the client forget a key.
    Delete(u16),
    /// Lets some packets through, and loses the others.
    Deliver(Vec<bool>),
    /// Lets time go by.
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..4_u16;
    prop_oneof![
        4 => (1..20_usize, proptest::option::of(key.clone()))
            .prop_map(|(count, key)| Step::Send(count, key)),
        1 => key.clone().prop_map(Step::Activate),
        1 => key.clone().prop_map(Step::Deactivate),
        1 => key.prop_map(Step::Delete),
        3 => proptest::collection::vec(proptest::bool::weighted(0.8), 1..20).prop_map(Step::Deliver),
        2 => (1..3000_u64).prop_map(Step::Wait),
    ]
}

fn deliver(pair: &mut Pair, fates: &[bool]) {
    for arrives in fates {
        pair.collect();
        if let Some(packet) = pair.to_server.pop_front() {
            if *arrives {
                pair.give_server(packet);
            }
        } else if let Some(packet) = pair.to_client.pop_front()
            && *arrives
        {
            pair.give_client(packet);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every message arrives once, in order, and whole; a key that was freed is not needed any more.
    #[test]
    fn messages_arrive_whatever_happens_to_the_keys(
        seed in 1..1000_u64,
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let chunks = [ChunkType::DATA, ChunkType::SACK];
        let mut pair = Pair::seeded(authenticating(&chunks), authenticating(&chunks), seed);
        let (client, server) = pair.establish();
        let mut sent = 0;
        for step in steps {
            let now = pair.now;
            match step {
                Step::Send(count, key) => {
                    let info = SendInfo { shared_key: key, ..ordered(0) };
                    for _ in 0..count {
                        let payload = message(sent, 400 + sent % 2000);
                        match pair.client.endpoint.send(now, client, info, payload) {
                            Ok(()) => sent += 1,
                            Err(SendError::UnknownKey) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
                Step::Activate(key) => {
                    let secret = [key as u8; 5];
                    for (host, id) in [(&mut pair.client, client), (&mut pair.server, server)] {
                        let set = host.endpoint.set_shared_key(now, Some(id), key, &secret);
                        prop_assert_eq!(set, Ok(()));
                        let activated = host.endpoint.set_active_key(now, Some(id), key);
                        prop_assert_eq!(activated, Ok(()));
                    }
                }
                Step::Deactivate(key) => {
                    let _ = pair.client.endpoint.deactivate_key(now, Some(client), key);
                }
                Step::Delete(key) => {
                    let deleted = pair.client.endpoint.delete_key(now, Some(client), key);
                    if deleted == Ok(()) {
                        let free = AuthenticationIndication::FreeKey { key };
                        pair.collect();
                        prop_assert!(indications(&pair.client.events).contains(&free));
                    } else {
                        prop_assert!(matches!(
                            deleted,
                            Err(KeyError::KeyInUse | KeyError::KeyIsActive | KeyError::UnknownKey)
                        ));
                    }
                }
                Step::Deliver(fates) => deliver(&mut pair, &fates),
                Step::Wait(milliseconds) => {
                    let end = now + Duration::from_millis(milliseconds);
                    while pair.client.endpoint.next_timeout().is_some_and(|next| next <= end) {
                        pair.advance();
                        deliver(&mut pair, &[true, false, true]);
                    }
                    pair.now = pair.now.max(end);
                }
            }
        }
        let mut received: Vec<Bytes> = Vec::new();
        for _ in 0..1000 {
            pair.run();
            let news = pair.server.receive_all(pair.now, server);
            received.extend(news.into_iter().map(|message| message.payload));
            pair.run();
            if received.len() == sent || !pair.advance() {
                break;
            }
        }
        let expected: Vec<Bytes> =
            (0..sent).map(|number| message(number, 400 + number % 2000)).collect();
        prop_assert!(received == expected, "{} of {} arrived", received.len(), sent);
        // Everything is acknowledged: what was deactivated is free.
        pair.run_for(Duration::from_secs(300));
        let active = pair.client.endpoint.active_key(Some(client));
        for key in 0..4 {
            let deactivated = pair.client.endpoint.deactivate_key(pair.now, Some(client), key);
            if Some(key) == active {
                prop_assert_eq!(deactivated, Err(KeyError::KeyIsActive));
            } else if deactivated.is_ok() {
                let deleted = pair.client.endpoint.delete_key(pair.now, Some(client), key);
                prop_assert_eq!(deleted, Ok(()));
            }
        }
    }
}
