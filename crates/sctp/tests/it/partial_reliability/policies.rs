//! The policies (RFC 3758 section 4.1, RFC 7496 section 3), and what is counted (section 4).

use std::time::Duration;

use sctp::{AbandonedCount, Event, PrPolicy, SendError, SendInfo};

use super::{accepted, config, failed, forward_tsns, info, send};
use crate::rfc9260::scripted::{Scripted, data_in};

const RTO: Duration = Duration::from_secs(1);

/// Takes all that is sent, without answering.
fn sent(peer: &mut Scripted) -> Vec<u32> {
    let first = peer.tsn;
    data_in(&peer.take(), first)
}

#[test]
fn a_timed_message_is_sent_again_until_its_time_is_over() {
    let mut peer = accepted(config());
    let first = peer.tsn;
    let life_time = SendInfo {
        life_time: Some(RTO * 5),
        ..SendInfo::default()
    };
    send(&mut peer, life_time, "a");
    assert_eq!(sent(&mut peer), [0]);
    // T3-rtx expires after 1, 3 and 7 seconds.
    assert_eq!(data_in(&peer.pass(RTO), first), [0]);
    assert_eq!(data_in(&peer.pass(RTO * 2), first), [0]);
    let packets = peer.pass(RTO * 4);
    assert_eq!(data_in(&packets, first), []);
    assert_eq!(forward_tsns(&packets, first), [(1, vec![(0, 0)])]);
    assert_eq!(failed(&peer), [(b'a', 1, true)]);
}

#[test]
fn a_timed_message_gets_no_tsn_when_its_time_is_over() {
    let mut peer = accepted(config());
    let first = peer.tsn;
    peer.give_sack(0, &[], 0);
    send(&mut peer, info(1, PrPolicy::Timed(RTO / 4)), "late");
    send(&mut peer, info(1, PrPolicy::Reliable), "kept");
    assert_eq!(sent(&mut peer), []);
    let packets = peer.pass(RTO);
    assert_eq!(data_in(&packets, first), [0], "the other is a window probe");
    assert!(forward_tsns(&packets, first).is_empty());
    assert_eq!(failed(&peer), [(b'l', 4, false)]);
}

#[test]
fn retransmissions_of_either_kind_are_limited() {
    let mut peer = accepted(config());
    let first = peer.tsn;
    send(&mut peer, info(0, PrPolicy::LimitedRetransmissions(2)), "a");
    for _ in 0..4 {
        send(&mut peer, info(1, PrPolicy::Reliable), "b");
    }
    sent(&mut peer);
    for above in 1..=3 {
        peer.give_sack(0, &[(1, above)], 100_000);
    }
    assert_eq!(sent(&mut peer), [0], "fast");
    peer.give_sack(0, &[(1, 4)], 100_000);
    assert_eq!(data_in(&peer.pass(RTO), first), [0], "by timeout");
    let packets = peer.pass(RTO * 2);
    assert_eq!(data_in(&packets, first), []);
    assert_eq!(forward_tsns(&packets, first), [(1, vec![(0, 0)])]);
}

/// An association whose peer takes nothing, with room for three messages of 1000 bytes.
fn blocked() -> Scripted {
    let mut peer = accepted(config().send_buffer(3000));
    peer.give_sack(0, &[], 0);
    peer
}

fn try_to_send(peer: &mut Scripted, policy: PrPolicy, tag: u8) -> Result<(), SendError> {
    let (now, id) = (peer.now, peer.id());
    let sent = peer
        .endpoint
        .send(now, id, info(1, policy), vec![tag; 1000].into());
    peer.take();
    sent
}

#[test]
fn lower_priorities_give_way_when_the_buffer_is_full() {
    let mut peer = blocked();
    for priority in [5, 3, 4] {
        try_to_send(&mut peer, PrPolicy::Priority(priority), priority as u8).unwrap();
    }
    assert_eq!(failed(&peer), []);
    for (policy, given_up) in [
        (PrPolicy::Priority(9), &[][..]),
        (PrPolicy::Priority(5), &[]),
        (PrPolicy::Priority(4), &[5]),
        (PrPolicy::Priority(0), &[5, 4]),
        (PrPolicy::Reliable, &[5, 4, 4]),
        (PrPolicy::LimitedRetransmissions(1), &[5, 4, 4, 3]),
        (PrPolicy::Timed(RTO), &[5, 4, 4, 3, 0]),
        (PrPolicy::Reliable, &[5, 4, 4, 3, 0]),
    ] {
        let before = failed(&peer).len();
        let tag = match policy {
            PrPolicy::Priority(priority) => priority as u8,
            _ => 99,
        };
        let sent = try_to_send(&mut peer, policy, tag);
        let seen = failed(&peer);
        let tags: Vec<u8> = seen.iter().map(|(tag, _, _)| *tag).collect();
        assert_eq!(tags, given_up, "{policy:?}");
        assert!(
            seen.iter()
                .all(|(_, size, was_sent)| *size == 1000 && !was_sent)
        );
        let expected = if given_up.len() > before {
            Ok(())
        } else {
            Err(SendError::BufferFull)
        };
        assert_eq!(sent, expected, "{policy:?}");
    }
    assert_eq!(peer.status().send_buffer_bytes, 3000);
}

#[test]
fn nothing_gives_way_where_it_would_not_make_enough_room() {
    let mut peer = blocked();
    try_to_send(&mut peer, PrPolicy::Priority(5), 5).unwrap();
    try_to_send(&mut peer, PrPolicy::Reliable, 1).unwrap();
    try_to_send(&mut peer, PrPolicy::Reliable, 2).unwrap();
    let (now, id) = (peer.now, peer.id());
    let large = peer
        .endpoint
        .send(now, id, info(1, PrPolicy::Reliable), vec![3; 1500].into());
    assert_eq!(large, Err(SendError::BufferFull));
    assert_eq!(failed(&peer), []);
}

#[test]
fn what_was_sent_gives_way_after_what_was_not() {
    let mut peer = accepted(config().send_buffer(3000));
    let first = peer.tsn;
    try_to_send(&mut peer, PrPolicy::Priority(7), 1).unwrap();
    peer.give_sack(0, &[], 0);
    try_to_send(&mut peer, PrPolicy::Priority(7), 2).unwrap();
    try_to_send(&mut peer, PrPolicy::Priority(6), 3).unwrap();
    try_to_send(&mut peer, PrPolicy::Priority(1), 4).unwrap();
    assert_eq!(failed(&peer), [(2, 1000, false)]);
    let (now, id) = (peer.now, peer.id());
    let important = info(1, PrPolicy::Priority(1));
    peer.endpoint
        .send(now, id, important, vec![5; 1000].into())
        .unwrap();
    let packets = peer.take();
    assert_eq!(forward_tsns(&packets, first), [(1, vec![(1, 0)])]);
    assert_eq!(failed(&peer), [(2, 1000, false), (1, 1000, true)]);
    let id = peer.id();
    let counted = peer.endpoint.abandoned_messages(id, 1).unwrap().priority;
    assert_eq!(counted, AbandonedCount { unsent: 1, sent: 1 });
}

#[test]
fn without_the_extension_priorities_are_ignored() {
    let mut peer = Scripted::accepted(config().send_buffer(3000));
    for tag in 1..=3 {
        try_to_send(&mut peer, PrPolicy::Priority(7), tag).unwrap();
    }
    let refused = try_to_send(&mut peer, PrPolicy::Reliable, 4);
    assert_eq!(refused, Err(SendError::BufferFull));
}

#[test]
fn messages_that_say_nothing_follow_the_default_policy() {
    let mut peer = accepted(config().default_pr_policy(PrPolicy::LimitedRetransmissions(0)));
    let first = peer.tsn;
    let life_time = SendInfo {
        life_time: Some(RTO * 60),
        ..SendInfo::default()
    };
    send(&mut peer, SendInfo::default(), "a");
    send(&mut peer, info(0, PrPolicy::Reliable), "b");
    send(&mut peer, life_time, "c");
    sent(&mut peer);
    let packets = peer.pass(RTO);
    assert_eq!(data_in(&packets, first), [1, 2]);
    assert_eq!(failed(&peer), [(b'a', 1, true)]);
}

#[test]
fn abandoned_messages_are_counted_by_stream_and_policy() {
    let mut peer = accepted(config());
    for stream in [3, 3, 4] {
        send(
            &mut peer,
            info(stream, PrPolicy::LimitedRetransmissions(0)),
            "a",
        );
    }
    send(&mut peer, info(3, PrPolicy::Timed(RTO / 2)), "b");
    sent(&mut peer);
    peer.give_sack(0, &[], 0);
    send(&mut peer, info(4, PrPolicy::Timed(RTO / 2)), "c");
    peer.pass(RTO);
    let count = |unsent, sent| AbandonedCount { unsent, sent };
    let of = |peer: &Scripted, stream| peer.endpoint.abandoned_messages(peer.id(), stream);
    let third = of(&peer, 3).unwrap();
    assert_eq!(third.limited_retransmissions, count(0, 2));
    assert_eq!(third.timed, count(0, 1));
    assert_eq!(third.total(), count(0, 3));
    let fourth = of(&peer, 4).unwrap();
    assert_eq!(fourth.total(), count(1, 1));
    assert_eq!(of(&peer, 0).unwrap().total(), count(0, 0));
    assert_eq!(of(&peer, 10), None);
    let statistics = peer.endpoint.association_statistics(peer.id()).unwrap();
    assert_eq!(statistics.abandoned.total(), count(1, 4));
    assert_eq!(statistics.abandoned.timed, count(1, 1));
    let told = peer
        .events
        .iter()
        .filter(|event| matches!(event, Event::SendFailed { .. }))
        .count();
    assert_eq!(told, 5);
}
