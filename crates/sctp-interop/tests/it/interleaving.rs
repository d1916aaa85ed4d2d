//! User message interleaving and stream schedulers (RFC 8260).

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::packet::ChunkType;
use sctp::{Extensions, StreamScheduler};

use crate::engine::{Client, How, Message, Peer};
use crate::link::{Link, STREAMS, Sender, in_all_directions};
use crate::ours::{Ours, config};

tests_with!(
    usrsctp,
    Usrsctp: a_large_message_does_not_delay_a_small_one,
    many_messages_arrive_whole_and_in_order,
    every_scheduler_of_ours_is_understood,
    data_is_sent_where_one_side_does_without,
);

tests_with!(
    dcsctp,
    Dcsctp: a_large_message_does_not_delay_a_small_one,
    many_messages_arrive_whole_and_in_order,
    every_scheduler_of_ours_is_understood,
    data_is_sent_where_one_side_does_without,
);

fn extension() -> Extensions {
    let mut extensions = Extensions::NONE;
    extensions.interleaving = true;
    extensions
}

/// An association of which our side has this scheduler.
fn associate<P: Peer>(scheduler: StreamScheduler, client: Client) -> Option<Link<P>> {
    let config = config(extension(), STREAMS).stream_scheduler(scheduler);
    let link = Link::up(P::start(extension(), STREAMS)?, Ours::new(config), client);
    assert_eq!(link.ours.status().extensions, extension());
    Some(link)
}

fn payload(number: u16, length: usize) -> Vec<u8> {
    (0..length)
        .map(|position| (usize::from(number) * 7 + position / 250) as u8)
        .collect()
}

fn a_large_message_does_not_delay_a_small_one<P: Peer>() {
    for sender in Sender::BOTH {
        for client in Client::BOTH {
            let Some(mut link) = associate::<P>(StreamScheduler::RoundRobin, client) else {
                return;
            };
            let large = Message {
                stream: 1,
                payload: payload(1, 200_000),
            };
            let small = Message {
                stream: 2,
                payload: b"small".to_vec(),
            };
            link.send(sender, large.stream, &large.payload, How::default());
            link.send(sender, small.stream, &small.payload, How::default());
            link.run_until("both arrive", |link| link.received_from(sender).len() == 2);
            assert_eq!(link.received_from(sender), [small, large], "{sender:?}");
            assert_ne!(link.count(sender, ChunkType::I_DATA), 0);
            assert_eq!(link.count(sender, ChunkType::DATA), 0);
        }
    }
}

/// Sends messages of all lengths on four streams, and waits until all have arrived as they were sent, in the order of their
/// streams.
fn transfer<P: Peer>(link: &mut Link<P>, sender: Sender) {
    let mut expected: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
    for number in 0..40 {
        let stream = number % 4;
        let message = payload(number, 1 + usize::from(number) * 977 % 20_000);
        link.send(sender, stream, &message, How::default());
        expected.entry(stream).or_default().push(message);
    }
    link.run_until("all arrive", |link| link.received_from(sender).len() >= 40);
    let mut received: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
    for message in link.received_from(sender) {
        let of_stream = received.entry(message.stream).or_default();
        of_stream.push(message.payload.clone());
    }
    assert!(received == expected, "{sender:?}");
}

fn many_messages_arrive_whole_and_in_order<P: Peer>() {
    in_all_directions::<P>(extension(), |link, sender| {
        let mut rng = ChaCha12Rng::seed_from_u64(8260);
        link.lose(move |_, _| rng.random_bool(0.05));
        transfer(link, sender);
        assert_eq!(link.count(sender, ChunkType::DATA), 0);
    });
}

fn every_scheduler_of_ours_is_understood<P: Peer>() {
    for scheduler in StreamScheduler::ALL {
        if let Some(mut link) = associate::<P>(scheduler, Client::Ours) {
            transfer(&mut link, Sender::Ours);
        }
    }
}

fn data_is_sent_where_one_side_does_without<P: Peer>() {
    for (ours, peers) in [
        (extension(), Extensions::NONE),
        (Extensions::NONE, extension()),
    ] {
        for client in Client::BOTH {
            let Some(peer) = P::start(peers, STREAMS) else {
                return;
            };
            let mut link = Link::up(peer, Ours::new(config(ours, STREAMS)), client);
            assert_eq!(link.ours.status().extensions, Extensions::NONE);
            for sender in Sender::BOTH {
                transfer(&mut link, sender);
                assert_eq!(link.count(sender, ChunkType::I_DATA), 0);
            }
        }
    }
}
