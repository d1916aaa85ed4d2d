//! Partial reliability (RFC 3758, RFC 7496), with DATA and with I-DATA (RFC 8260).

use std::collections::BTreeSet;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::packet::ChunkType;
use sctp::{Extensions, PrPolicy};

use crate::engine::{Client, How, Message, Peer};
use crate::link::{Link, STREAMS, Sender, has_data, in_all_directions, with_either_client};
use crate::ours::{Ours, config};

tests_with!(
    usrsctp,
    Usrsctp: timed_messages_are_given_up,
    messages_are_given_up_after_their_retransmissions,
    our_messages_of_low_priority_give_way,
    the_parts_of_a_message_are_given_up_together,
    what_is_not_given_up_arrives_once_whole_and_in_order,
    interleaved_messages_are_given_up,
    our_interleaved_messages_arrive_once_whole_and_in_order,
    short_interleaved_messages_arrive_once_and_in_order,
);

tests_with!(
    dcsctp,
    Dcsctp: timed_messages_are_given_up,
    messages_are_given_up_after_their_retransmissions,
    our_messages_of_low_priority_give_way,
    the_parts_of_a_message_are_given_up_together,
    what_is_not_given_up_arrives_once_whole_and_in_order,
    interleaved_messages_are_given_up,
    our_interleaved_messages_arrive_once_whole_and_in_order,
    their_interleaved_messages_arrive_once_whole_and_in_order,
    short_interleaved_messages_arrive_once_and_in_order,
);

tests_with!(
    sctp_proto,
    SctpProto: timed_messages_are_given_up,
    messages_are_given_up_after_their_retransmissions,
    our_messages_of_low_priority_give_way,
    the_parts_of_a_message_are_given_up_together,
    what_is_not_given_up_arrives_once_whole_and_in_order,
);

fn extension() -> Extensions {
    let mut extensions = Extensions::NONE;
    extensions.partial_reliability = true;
    extensions
}

fn with_interleaving() -> Extensions {
    let mut extensions = extension();
    extensions.interleaving = true;
    extensions
}

fn how(unordered: bool, policy: PrPolicy) -> How {
    How {
        unordered,
        policy,
        ..How::default()
    }
}

const ORDERS: [bool; 2] = [false, true];

/// What must not arrive has this in it.
const LOST: &[u8] = b"this is lost";

fn is_to_be_lost(packet: &[u8]) -> bool {
    packet.windows(LOST.len()).any(|window| window == LOST)
}

/// From now on, all packets of a sender are lost that carry what must not arrive.
fn lose_marked<P: Peer>(link: &mut Link<P>, sender: Sender) {
    link.lose(move |from, packet| from == sender && is_to_be_lost(packet));
}

fn count_marked<P: Peer>(link: &Link<P>, sender: Sender) -> usize {
    let of_sender = link.packets.iter().filter(|(from, _)| *from == sender);
    of_sender
        .filter(|(_, packet)| is_to_be_lost(packet))
        .count()
}

/// Sends reliable messages on a stream, and waits until they have arrived, with nothing else.
fn only_these_arrive<P: Peer>(link: &mut Link<P>, sender: Sender, stream: u16, what: &str) {
    let messages: Vec<Message> = (0..4)
        .map(|number| Message {
            stream,
            payload: format!("{number} {what}").into_bytes(),
        })
        .collect();
    let before = link.received_from(sender).len();
    for message in &messages {
        let how = how(false, PrPolicy::Reliable);
        link.send(sender, stream, &message.payload, how);
        link.run_for(Duration::from_millis(30));
    }
    let all = before + messages.len();
    link.run_until(what, |link| link.received_from(sender).len() >= all);
    link.run_for(Duration::from_secs(3));
    assert_eq!(link.received_from(sender)[before..], messages, "{sender:?}");
}

fn timed_messages_are_given_up<P: Peer>() {
    in_all_directions::<P>(extension(), |link, sender| {
        only_these_arrive(link, sender, 1, "before timed ones");
        for unordered in ORDERS {
            // Nothing gets through for longer than these live.
            link.lose(move |from, packet| from == sender && has_data(packet));
            let policy = PrPolicy::Timed(Duration::from_millis(100));
            for _ in 0..3 {
                link.send(sender, 1, LOST, how(unordered, policy));
                link.run_for(Duration::from_millis(20));
            }
            link.run_for(Duration::from_millis(400));
            link.lose_nothing();
            only_these_arrive(link, sender, 1, "after timed ones");
        }
        if sender == Sender::Ours {
            let abandoned = link.ours.statistics().abandoned;
            assert_eq!(abandoned.timed.sent, 6);
            assert_eq!(abandoned.total(), abandoned.timed);
        }
        assert_ne!(link.count(sender, ChunkType::FORWARD_TSN), 0);
    });
}

fn messages_are_given_up_after_their_retransmissions<P: Peer>() {
    in_all_directions::<P>(extension(), |link, sender| {
        let mut sent = 0;
        for unordered in ORDERS {
            for retransmissions in [0, 2] {
                lose_marked(link, sender);
                let policy = PrPolicy::LimitedRetransmissions(retransmissions);
                link.send(sender, 1, LOST, how(unordered, policy));
                link.run_for(Duration::from_millis(20));
                only_these_arrive(link, sender, 1, "after limited ones");
                sent += 1 + retransmissions as usize;
                assert_eq!(count_marked(link, sender), sent, "{sender:?}");
            }
        }
        assert_ne!(link.count(sender, ChunkType::FORWARD_TSN), 0);
    });
}

fn our_messages_of_low_priority_give_way<P: Peer>() {
    const LENGTH: usize = 1000;
    for client in Client::BOTH {
        let Some(peer) = P::start(extension(), STREAMS) else {
            return;
        };
        let config = config(extension(), STREAMS).send_buffer(50 * LENGTH);
        let mut link = Link::up(peer, Ours::new(config), client);
        // The first of them leave at once.
        for (stream, count, priority) in [(1, 45, 9), (2, 20, 0)] {
            for number in 0..count {
                let how = how(false, PrPolicy::Priority(priority));
                link.send(Sender::Ours, stream, &[number; LENGTH], how);
            }
            link.run_for(Duration::from_millis(1));
        }
        let arrived = |link: &Link<P>, stream| {
            let received = link.peer_received.iter();
            received.filter(|it| it.stream == stream).count() as u64
        };
        link.run_until("what is urgent arrives", |link| arrived(link, 2) == 20);
        link.run_for(Duration::from_secs(5));
        let abandoned = link.ours.statistics().abandoned.priority;
        assert_ne!(abandoned.unsent, 0);
        assert_eq!(arrived(&link, 1) + abandoned.unsent + abandoned.sent, 45);
    }
}

/// A message of several chunks of which one never arrives.
fn give_up_parts<P: Peer>(link: &mut Link<P>, sender: Sender) {
    let policy = PrPolicy::LimitedRetransmissions(1);
    // However it is cut, one of its chunks has a mark.
    let (marks, filling) = (LOST.repeat(2), vec![b'.'; 2500]);
    let positions = [
        [&marks, &filling, &filling],
        [&filling, &marks, &filling],
        [&filling, &filling, &marks],
    ];
    for unordered in ORDERS {
        for parts in positions {
            lose_marked(link, sender);
            let message = parts.map(Vec::as_slice).concat();
            link.send(sender, 2, &message, how(unordered, policy));
            link.run_for(Duration::from_millis(20));
            only_these_arrive(link, sender, 2, "after parts");
        }
    }
}

fn the_parts_of_a_message_are_given_up_together<P: Peer>() {
    in_all_directions::<P>(extension(), |link, sender| {
        give_up_parts(link, sender);
        assert_ne!(link.count(sender, ChunkType::FORWARD_TSN), 0);
    });
}

fn interleaved_messages_are_given_up<P: Peer>() {
    in_all_directions::<P>(with_interleaving(), |link, sender| {
        give_up_parts(link, sender);
        assert_ne!(link.count(sender, ChunkType::I_FORWARD_TSN), 0);
        assert_eq!(link.count(sender, ChunkType::FORWARD_TSN), 0);
    });
}

/// Bytes that begin with the number.
fn numbered(number: usize, longest: usize) -> Vec<u8> {
    let length = 10 + number * 37 % (longest - 10);
    let mut payload = vec![number as u8; length];
    payload[..4].copy_from_slice(&u32::try_from(number).unwrap().to_be_bytes());
    payload
}

/// The messages that have come of those that [`numbered`] gives.
fn numbers<P: Peer>(link: &Link<P>, sender: Sender, longest: usize) -> Vec<usize> {
    let received = link.received_from(sender).iter();
    received
        .map(|message| {
            let number = u32::from_be_bytes(message.payload[..4].try_into().unwrap());
            let number = usize::try_from(number).unwrap();
            assert_eq!(message.payload, numbered(number, longest));
            number
        })
        .collect()
}

fn over_a_bad_network<P: Peer>(link: &mut Link<P>, sender: Sender, longest: usize) {
    const COUNT: usize = 150;
    const STREAMS: usize = 4;
    let policies = [
        PrPolicy::Reliable,
        PrPolicy::Timed(Duration::from_millis(150)),
        PrPolicy::LimitedRetransmissions(0),
        PrPolicy::LimitedRetransmissions(1),
        PrPolicy::Reliable,
    ];
    let policy = |number: usize| policies[number % policies.len()];
    let is_unordered = |number: usize| number.is_multiple_of(3);
    let stream = |number: usize| number % STREAMS;
    let mut rng = ChaCha12Rng::seed_from_u64(3758);
    link.lose(move |_, _| rng.random_bool(0.15));
    for number in 0..COUNT {
        let how = how(is_unordered(number), policy(number));
        let payload = numbered(number, longest);
        link.send(sender, stream(number) as u16, &payload, how);
        link.run_for(Duration::from_millis(10));
    }
    let is_reliable = |number: usize| policy(number) == PrPolicy::Reliable;
    let reliable: Vec<usize> = (0..COUNT).filter(|number| is_reliable(*number)).collect();
    link.run_until("all reliable ones have arrived", |link| {
        let arrived = numbers(link, sender, longest);
        reliable.iter().all(|number| arrived.contains(number))
    });
    link.lose_nothing();
    link.run_for(Duration::from_secs(5));
    let arrived = numbers(link, sender, longest);
    let once: BTreeSet<usize> = arrived.iter().copied().collect();
    assert_eq!(once.len(), arrived.len(), "no message twice");
    assert!(once.len() < COUNT, "some are given up");
    for one in 0..STREAMS {
        let ordered = arrived
            .iter()
            .filter(|number| stream(**number) == one && !is_unordered(**number));
        assert!(ordered.is_sorted(), "{sender:?}, stream {one}: {arrived:?}");
    }
    let interleaved = link.ours.status().extensions.interleaving;
    let skips = if interleaved {
        ChunkType::I_FORWARD_TSN
    } else {
        ChunkType::FORWARD_TSN
    };
    assert_ne!(link.count(sender, skips), 0);
}

/// Longer than a packet.
const LONG: usize = 3000;

/// Fits into a packet of any peer.
const SHORT: usize = 1000;

fn what_is_not_given_up_arrives_once_whole_and_in_order<P: Peer>() {
    in_all_directions::<P>(extension(), |link, sender| {
        over_a_bad_network(link, sender, LONG);
    });
}

fn our_interleaved_messages_arrive_once_whole_and_in_order<P: Peer>() {
    with_either_client::<P>(with_interleaving(), |link| {
        over_a_bad_network(link, Sender::Ours, LONG);
    });
}

fn their_interleaved_messages_arrive_once_whole_and_in_order<P: Peer>() {
    with_either_client::<P>(with_interleaving(), |link| {
        over_a_bad_network(link, Sender::Peer, LONG);
    });
}

fn short_interleaved_messages_arrive_once_and_in_order<P: Peer>() {
    in_all_directions::<P>(with_interleaving(), |link, sender| {
        over_a_bad_network(link, sender, SHORT);
    });
}
