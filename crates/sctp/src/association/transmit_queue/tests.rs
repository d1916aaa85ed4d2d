use std::time::Duration;

use super::*;

fn queue() -> TransmitQueue {
    TransmitQueue::new(10, StreamScheduler::FirstComeFirstServed)
}

/// All fragments that the queue gives, of at most `max` bytes each.
fn drain(queue: &mut TransmitQueue, max: usize) -> Vec<MessageFragment> {
    std::iter::from_fn(|| queue.take(max)).collect()
}

fn streams(fragments: &[MessageFragment]) -> Vec<u16> {
    fragments.iter().map(|fragment| fragment.stream).collect()
}

/// A queue in which these streams have a message of so many bytes each, in this order.
fn scheduled_by(name: StreamScheduler, messages: &[(u16, usize)]) -> TransmitQueue {
    let mut queue = TransmitQueue::new(10, name);
    for (stream, bytes) in messages {
        queue.push(Instant::now(), on_stream(*stream), vec![0; *bytes].into());
    }
    queue
}

fn on_stream(stream: u16) -> SendInfo {
    SendInfo {
        stream,
        ppid: 5,
        ..SendInfo::default()
    }
}

#[test]
fn cuts_messages_with_the_bits_of_section_6_9() {
    let mut queue = queue();
    queue.push(
        Instant::now(),
        on_stream(1),
        Bytes::from_static(b"abcdefgh"),
    );
    queue.push(Instant::now(), on_stream(1), Bytes::from_static(b"ij"));
    assert_eq!(queue.bytes(), 10);
    let fragments: Vec<MessageFragment> = std::iter::from_fn(|| queue.take(3)).collect();
    let seen: Vec<_> = fragments
        .iter()
        .map(|fragment| {
            (
                &fragment.payload[..],
                fragment.beginning,
                fragment.ending,
                fragment.mid,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (&b"abc"[..], true, false, Mid(0)),
            (b"def", false, false, Mid(0)),
            (b"gh", false, true, Mid(0)),
            (b"ij", true, true, Mid(1)),
        ]
    );
    assert!(queue.is_empty());
    assert_eq!(queue.bytes(), 0);
}

#[test]
fn cuts_messages_into_as_few_pieces_of_one_size() {
    for (bytes, sizes) in [
        (1000, &[1000][..]),
        (1001, &[501, 500]),
        (2048, &[683, 683, 682]),
        (4000, &[1000; 4]),
    ] {
        let mut queue = queue();
        queue.push(Instant::now(), on_stream(1), vec![0; bytes].into());
        assert_eq!(queue.next_size(1000), Some(sizes[0]));
        let fragments = std::iter::from_fn(|| queue.take(1000));
        let seen: Vec<usize> = fragments.map(|fragment| fragment.payload.len()).collect();
        assert_eq!(seen, sizes);
    }
}

#[test]
fn leaves_sequence_numbers_alone_for_unordered_messages() {
    let mut queue = queue();
    let unordered = SendInfo {
        unordered: true,
        ..on_stream(1)
    };
    queue.push(Instant::now(), unordered, Bytes::from_static(b"abc"));
    queue.push(Instant::now(), on_stream(1), Bytes::from_static(b"def"));
    assert!(queue.take(2).unwrap().unordered);
    assert!(queue.take(2).unwrap().unordered);
    assert_eq!(queue.take(3).unwrap().mid, Mid(0));
}

#[test]
fn asks_for_an_immediate_sack_with_the_last_piece_only() {
    let mut queue = queue();
    let immediate = SendInfo {
        sack_immediately: true,
        ..on_stream(1)
    };
    queue.push(Instant::now(), immediate, Bytes::from_static(b"abcd"));
    assert!(!queue.take(2).unwrap().immediate);
    assert!(queue.take(2).unwrap().immediate);
}

#[test]
fn takes_back_pieces_as_if_they_had_never_left() {
    let mut queue = queue();
    let immediate = SendInfo {
        sack_immediately: true,
        ..on_stream(1)
    };
    queue.push(Instant::now(), immediate, Bytes::from_static(b"abcdef"));
    queue.push(Instant::now(), on_stream(2), Bytes::from_static(b"gh"));
    queue.push(Instant::now(), on_stream(3), Bytes::from_static(b"ijklmn"));
    queue.push(Instant::now(), on_stream(4), Bytes::from_static(b"op"));
    let fragments: Vec<MessageFragment> = (0..5).filter_map(|_| queue.take(2)).collect();
    assert!(!fragments[4].ending, "cut in the middle");
    queue.put_back(fragments.into_iter());
    assert_eq!((queue.messages(), queue.bytes()), (4, 16));
    let fragments: Vec<MessageFragment> = std::iter::from_fn(|| queue.take(100)).collect();
    let seen: Vec<_> = fragments
        .iter()
        .map(|fragment| (fragment.stream, &fragment.payload[..], fragment.immediate))
        .collect();
    assert_eq!(
        seen,
        [
            (1, &b"abcdef"[..], true),
            (2, b"gh", false),
            (3, b"ijklmn", false),
            (4, b"op", false),
        ]
    );
    assert!(
        fragments
            .iter()
            .all(|fragment| fragment.beginning && fragment.ending)
    );
    assert!(fragments.iter().all(|fragment| fragment.mid == Mid(0)));
}

#[test]
fn gives_back_what_has_no_stream() {
    let mut queue = queue();
    queue.push(Instant::now(), on_stream(1), Bytes::from_static(b"abcd"));
    queue.push(Instant::now(), on_stream(7), Bytes::from_static(b"efg"));
    let removed = queue.set_streams(7);
    let expected = RemovedMessage {
        info: on_stream(7),
        rest: Bytes::from_static(b"efg"),
        sent_as: None,
    };
    assert_eq!(removed, [expected]);
    assert_eq!((queue.messages(), queue.bytes()), (1, 4));
    assert_eq!(streams(&drain(&mut queue, 10)), [1]);
}

#[test]
fn gives_up_messages_whose_time_is_over_unless_they_have_begun_to_leave() {
    let mut queue = queue();
    let now = Instant::now();
    let second = Duration::from_secs(1);
    let expiring = SendInfo {
        life_time: Some(second),
        ..on_stream(1)
    };
    queue.push(now, expiring, Bytes::from_static(b"abcd"));
    queue.push(now, expiring, Bytes::from_static(b"ef"));
    queue.push(now, on_stream(1), Bytes::from_static(b"g"));
    assert!(queue.take(2).is_some());
    assert_eq!(queue.take_expired(now), []);
    let expired = queue.take_expired(now + second);
    let expected = RemovedMessage {
        info: expiring,
        rest: Bytes::from_static(b"ef"),
        sent_as: None,
    };
    assert_eq!(expired, [expected], "the first one is on its way");
    assert_eq!(queue.take_expired(now + second), []);
    assert_eq!((queue.messages(), queue.bytes()), (2, 3));
    let left: Vec<_> = queue
        .take_all()
        .map(|message| (message.rest, message.sent_as))
        .collect();
    let (rest, other) = (Bytes::from_static(b"cd"), Bytes::from_static(b"g"));
    assert_eq!(left, [(rest, Some(Mid(0))), (other, None)]);
    assert!(queue.is_empty());
}

#[test]
fn what_is_removed_takes_no_turn_and_costs_no_other_stream_its_turn() {
    let mut queue = scheduled_by(
        StreamScheduler::FirstComeFirstServed,
        &[(1, 4), (2, 2), (1, 1), (3, 1)],
    );
    assert_eq!(queue.take(2).map(|fragment| fragment.stream), Some(1));
    let of_stream = |queue: &TransmitQueue, stream| -> Vec<MessageId> {
        let all = queue.messages.iter();
        all.filter(|(_, message)| message.stream == stream)
            .map(|(id, _)| id)
            .collect()
    };
    let second = of_stream(&queue, 2);
    assert_eq!(queue.remove(second).len(), 1);
    let [begun, _] = of_stream(&queue, 1)[..] else {
        panic!("two messages are there");
    };
    let removed = queue.remove([begun]);
    assert_eq!(removed[0].sent_as, Some(Mid(0)));
    assert_eq!(removed[0].rest.len(), 2);
    assert_eq!(streams(&drain(&mut queue, 10)), [1, 3]);
    assert_eq!((queue.messages(), queue.bytes()), (0, 0));
}

#[test]
fn first_come_first_served_keeps_the_order_of_messages() {
    let messages = [(3, 10), (1, 4), (3, 4), (2, 9), (1, 1)];
    let mut queue = scheduled_by(StreamScheduler::FirstComeFirstServed, &messages);
    assert_eq!(streams(&drain(&mut queue, 5)), [3, 3, 1, 3, 2, 2, 1]);
}

/// RFC 8260, figure 1.
#[test]
fn round_robin_goes_around_the_streams_message_by_message() {
    let messages = [(0, 3), (1, 1), (1, 1), (1, 1), (2, 3)];
    let mut queue = scheduled_by(StreamScheduler::RoundRobin, &messages);
    let seen: Vec<_> = drain(&mut queue, 1)
        .iter()
        .map(|fragment| (fragment.stream, fragment.mid.0))
        .collect();
    assert_eq!(
        seen,
        [
            (0, 0),
            (0, 0),
            (0, 0),
            (1, 0),
            (2, 0),
            (2, 0),
            (2, 0),
            (1, 1),
            (1, 2)
        ]
    );
}

#[test]
fn round_robin_per_packet_fills_a_packet_from_one_stream() {
    let messages = [(1, 2), (1, 1), (1, 1), (2, 1), (3, 1), (3, 1)];
    let mut queue = scheduled_by(StreamScheduler::RoundRobinPerPacket, &messages);
    let mut packet = |fragments| {
        let taken: Vec<_> = (0..fragments).filter_map(|_| queue.take(1)).collect();
        queue.end_packet();
        streams(&taken)
    };
    assert_eq!(packet(1), [1]);
    assert_eq!(packet(2), [1, 1], "a message is not interrupted");
    assert_eq!(packet(2), [2], "nothing else shares its packet");
    assert_eq!(packet(2), [3, 3]);
    assert_eq!(packet(2), [1]);
    assert!(queue.is_empty());
}

#[test]
fn the_stream_of_the_lowest_value_goes_first() {
    let messages = [(1, 2), (2, 1), (3, 1), (2, 1)];
    let mut queue = scheduled_by(StreamScheduler::Priority, &messages);
    for (stream, value) in [(1, 7), (2, 7), (3, 9)] {
        queue.set_value(stream, value);
    }
    assert_eq!(queue.take(1).map(|fragment| fragment.stream), Some(1));
    queue.push(Instant::now(), on_stream(4), Bytes::from_static(b"x"));
    assert_eq!(
        streams(&drain(&mut queue, 1)),
        [1, 4, 2, 2, 3],
        "a message is not interrupted; of one priority, first come is first served"
    );
}

/// The bytes of two streams that always have something to send, at each moment.
fn shares(
    name: StreamScheduler,
    interleaving: bool,
    sizes: [usize; 2],
    weights: [u16; 2],
) -> Vec<[usize; 2]> {
    let mut queue = TransmitQueue::new(2, name);
    queue.set_interleaving(interleaving);
    for (stream, weight) in (0..).zip(weights) {
        queue.set_value(stream, weight);
    }
    for _ in 0..1000 {
        for (stream, size) in (0..).zip(sizes) {
            queue.push(Instant::now(), on_stream(stream), vec![0; size].into());
        }
    }
    let mut sent = [0; 2];
    let mut seen = Vec::new();
    for _ in 0..1000 {
        let fragment = queue.take(1000).expect("there is more");
        sent[usize::from(fragment.stream)] += fragment.payload.len();
        seen.push(sent);
    }
    seen
}

#[test]
fn fair_capacity_gives_each_stream_as_many_bytes() {
    for sent in shares(StreamScheduler::FairCapacity, false, [100, 730], [1, 9]) {
        assert!(sent[0].abs_diff(sent[1]) <= 830, "{sent:?}");
    }
}

#[test]
fn weighted_fair_queueing_gives_bytes_in_proportion_to_weights() {
    for (sizes, weights) in [
        ([100, 730], [1, 3]),
        ([500, 20], [10, 1]),
        ([7, 7], [1, 1]),
        ([20_000, 90], [2, 5]),
    ] {
        for interleaving in [false, true] {
            // A turn is a message, or a fragment of one.
            let turn = |bytes: usize| if interleaving { bytes.min(1000) } else { bytes };
            let share = |bytes: usize, weight: u16| bytes as f64 / f64::from(weight);
            let bound = share(turn(sizes[0]), weights[0]) + share(turn(sizes[1]), weights[1]);
            let name = StreamScheduler::WeightedFairQueueing;
            for sent in shares(name, interleaving, sizes, weights) {
                let difference = share(sent[0], weights[0]) - share(sent[1], weights[1]);
                assert!(difference.abs() <= bound, "{sent:?}");
            }
        }
    }
}

/// A queue of interleaved messages.
fn interleaved_by(name: StreamScheduler, messages: &[(u16, usize)]) -> TransmitQueue {
    let mut queue = scheduled_by(name, messages);
    queue.set_interleaving(true);
    queue
}

#[test]
fn fragments_of_interleaved_messages_are_numbered() {
    let mut queue = interleaved_by(StreamScheduler::RoundRobin, &[(1, 3), (2, 2), (1, 1)]);
    let unordered = SendInfo {
        unordered: true,
        ..on_stream(1)
    };
    queue.push(Instant::now(), unordered, Bytes::from_static(b"xy"));
    let seen: Vec<_> = drain(&mut queue, 1)
        .iter()
        .map(|fragment| {
            let MessageFragment { stream, mid, .. } = *fragment;
            (stream, mid.0, fragment.fsn.unwrap())
        })
        .collect();
    assert_eq!(
        seen,
        [
            (1, 0, 0),
            (2, 0, 0),
            (1, 0, 1),
            (2, 0, 1),
            (1, 0, 2),
            (1, 1, 0),
            // Unordered messages are counted by themselves.
            (1, 0, 0),
            (1, 0, 1),
        ]
    );
}

/// RFC 8260 section 3: which schedulers let a small message in between the fragments of a large one of
/// another stream that has begun to leave.
#[test]
fn fragments_alternate_as_the_scheduler_says() {
    for (name, expected) in [
        (StreamScheduler::FirstComeFirstServed, &[1, 1, 1, 2, 3][..]),
        (StreamScheduler::RoundRobin, &[1, 2, 3, 1, 1]),
        (StreamScheduler::Priority, &[3, 1, 1, 1, 2]),
        (StreamScheduler::FairCapacity, &[2, 3, 1, 1, 1]),
        (StreamScheduler::WeightedFairQueueing, &[2, 3, 1, 1, 1]),
    ] {
        let mut queue = interleaved_by(name, &[(1, 4)]);
        assert!(queue.take(1).is_some());
        for (stream, value) in [(1, 1), (2, 1)] {
            queue.set_value(stream, value);
        }
        for stream in [2, 3] {
            queue.push(Instant::now(), on_stream(stream), Bytes::from_static(b"x"));
        }
        assert_eq!(streams(&drain(&mut queue, 1)), expected, "{name:?}");
    }
}

#[test]
fn a_packet_of_one_stream_is_followed_by_one_of_another() {
    let mut queue = interleaved_by(
        StreamScheduler::RoundRobinPerPacket,
        &[(1, 4), (2, 1), (3, 3)],
    );
    let mut packet = || {
        let taken: Vec<_> = (0..2).filter_map(|_| queue.take(1)).collect();
        queue.end_packet();
        streams(&taken)
    };
    let packets: Vec<_> = (0..5).map(|_| packet()).collect();
    assert_eq!(
        packets,
        [vec![1, 1], vec![2], vec![3, 3], vec![1, 1], vec![3]]
    );
}

#[test]
fn a_stream_that_had_nothing_to_send_has_not_saved_up_turns() {
    let mut queue = scheduled_by(StreamScheduler::FairCapacity, &[(1, 10); 20]);
    for _ in 0..10 {
        assert!(queue.take(10).is_some());
    }
    for _ in 0..10 {
        queue.push(Instant::now(), on_stream(2), vec![0; 10].into());
    }
    let sent = streams(&drain(&mut queue, 10));
    for pair in sent.chunks(2) {
        assert_eq!(pair[0] + pair[1], 3, "{sent:?}");
    }
}

#[test]
fn a_change_of_the_scheduler_loses_nothing_and_interrupts_no_message() {
    let messages = [(1, 2), (2, 1), (3, 1), (1, 1)];
    let mut queue = scheduled_by(StreamScheduler::FirstComeFirstServed, &messages);
    queue.set_value(2, 5);
    assert!(queue.take(1).is_some());
    queue.set_scheduler(StreamScheduler::Priority);
    assert_eq!(queue.scheduler(), StreamScheduler::Priority);
    assert_eq!(streams(&drain(&mut queue, 1)), [1, 3, 1, 2]);
}

#[test]
fn a_restart_keeps_what_was_set_for_streams() {
    let mut queue = scheduled_by(StreamScheduler::Priority, &[(1, 2), (2, 1)]);
    queue.set_value(2, 5);
    assert!(queue.take(1).is_some());
    queue.restart(3);
    assert_eq!((queue.streams(), queue.value(2)), (3, 5));
    assert!(queue.is_empty() && queue.take(1).is_none());
    for stream in [2, 1] {
        queue.push(Instant::now(), on_stream(stream), Bytes::from_static(b"x"));
    }
    let sent = drain(&mut queue, 1);
    assert_eq!(streams(&sent), [1, 2]);
    assert_eq!(sent[0].mid, Mid(0));
}
