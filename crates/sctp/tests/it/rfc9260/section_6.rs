//! User data transfer (RFC 9260 section 6).

use std::time::Duration;

use sctp::packet::{Chunk, ChunkType, Data, Ssn, Tsn};
use sctp::{AssociationState, Event, SendError, SendInfo};

use crate::rfc9260::scripted::{
    PEER_TSN, Scripted, chunks, data_in, init, message, packet_of, quiet, sack_in, types,
};

/// User data that fills a DATA chunk of the largest size over IPv4.
const FULL: usize = 1500 - 20 - 12 - 16;

#[test]
fn data_is_taken_in_three_states_only() {
    for state in [
        AssociationState::CookieWait,
        AssociationState::CookieEchoed,
        AssociationState::Established,
        AssociationState::ShutdownPending,
        AssociationState::ShutdownSent,
        AssociationState::ShutdownReceived,
        AssociationState::ShutdownAckSent,
    ] {
        let mut scripted = Scripted::in_state(state);
        scripted.give(&[Chunk::Data(message(0, b"hello"))]);
        let is_taken = matches!(
            state,
            AssociationState::Established
                | AssociationState::ShutdownPending
                | AssociationState::ShutdownSent
        );
        assert_eq!(!scripted.receive().is_empty(), is_taken, "{state:?}");
        assert_eq!(!scripted.take().is_empty(), is_taken, "{state:?}");
        assert_eq!(scripted.state(), state);
    }
}

#[test]
fn a_sack_is_looked_at_in_three_states_only() {
    for state in [
        AssociationState::CookieWait,
        AssociationState::Established,
        AssociationState::ShutdownPending,
        AssociationState::ShutdownSent,
        AssociationState::ShutdownReceived,
        AssociationState::ShutdownAckSent,
    ] {
        let mut scripted = Scripted::in_state(state);
        // One that nobody survives who looks at it.
        scripted.give_sack(1000, &[], 100_000);
        let is_looked_at = matches!(
            state,
            AssociationState::Established
                | AssociationState::ShutdownPending
                | AssociationState::ShutdownReceived
        );
        let expected = if is_looked_at {
            AssociationState::Closed
        } else {
            state
        };
        assert_eq!(scripted.state(), expected, "{state:?}");
    }
}

#[test]
fn no_more_is_outstanding_than_the_peers_window() {
    let mut scripted = Scripted::connected(quiet());
    scripted.send(0, &[0; 10]);
    scripted.take();
    scripted.give_sack(1, &[], 2500);
    for _ in 0..5 {
        scripted.send(0, &[1; 1000]);
    }
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [1, 2]);
    assert_eq!(scripted.status().peer_rwnd, 500);
    // What is retransmitted takes room, what is marked for it gives room back.
    scripted.give_sack(2, &[], 500);
    assert_eq!(scripted.status().peer_rwnd, 0);
    assert!(scripted.take().is_empty());
    scripted.give_sack(3, &[], 2000);
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [3, 4]);
}

#[test]
fn the_congestion_window_is_exceeded_by_less_than_one_packet() {
    let config = quiet().max_burst(1000);
    let mut scripted = Scripted::connected(config);
    for _ in 0..30 {
        scripted.send(0, &[1; 700]);
    }
    scripted.take();
    let path = &scripted.status().paths[0];
    let pmdcs = path.mtu - 12;
    assert!(path.outstanding_bytes >= path.cwnd);
    assert!(path.outstanding_bytes < path.cwnd + pmdcs);
}

#[test]
fn no_more_than_max_burst_packets_leave_at_once() {
    let mut scripted = Scripted::connected(quiet());
    let max_burst = 4;
    let mut next = 0;
    // The window opens far, while all is acknowledged at once.
    for _ in 0..40 {
        for _ in 0..20 {
            scripted.send(0, &[1; FULL]);
        }
        let sent = data_in(&scripted.take(), scripted.tsn);
        assert!(
            !sent.is_empty() && sent.len() <= max_burst,
            "{}",
            sent.len()
        );
        next = sent.last().copied().unwrap_or(next);
        scripted.give_sack(next + 1, &[], 1_000_000);
    }
    assert!(scripted.status().paths[0].cwnd > max_burst * FULL);
}

#[test]
fn what_is_marked_for_retransmission_goes_before_new_data() {
    let mut scripted = Scripted::connected(quiet());
    for _ in 0..3 {
        scripted.send(0, &[1; 1000]);
    }
    scripted.take();
    let packets = scripted.pass(Duration::from_secs(1));
    assert_eq!(
        data_in(&packets, scripted.tsn),
        [0],
        "one packet after a timeout"
    );
    scripted.send(1, b"new");
    scripted.give_sack(1, &[], 100_000);
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [1, 2, 3]);
}

#[test]
fn data_asks_for_a_sack_at_once_when_the_user_does_and_before_a_shutdown() {
    let mut scripted = Scripted::connected(quiet());
    let immediate = |packets: &[bytes::Bytes]| -> Vec<bool> {
        packets
            .iter()
            .flat_map(chunks)
            .filter_map(|chunk| match chunk {
                Chunk::Data(data) => Some(data.immediate),
                _ => None,
            })
            .collect()
    };
    scripted.send(0, b"plain");
    assert_eq!(immediate(&scripted.take()), [false]);
    let info = SendInfo {
        sack_immediately: true,
        ..SendInfo::default()
    };
    let id = scripted.id();
    scripted
        .endpoint
        .send(scripted.now, id, info, vec![1; 2000].into())
        .unwrap();
    assert_eq!(
        immediate(&scripted.take()),
        [false, true],
        "on its last chunk"
    );
    scripted.give_sack(0, &[], 0);
    scripted.send(0, b"waits for the window");
    scripted.endpoint.shutdown(scripted.now, id).unwrap();
    scripted.give_sack(3, &[], 100_000);
    assert_eq!(scripted.state(), AssociationState::ShutdownPending);
    assert_eq!(immediate(&scripted.take()), [true]);
}

#[test]
fn data_with_the_i_bit_is_acknowledged_at_once() {
    let mut scripted = Scripted::accepted(quiet());
    scripted.give(&[Chunk::Data(message(0, b"first"))]);
    scripted.take();
    scripted.give(&[Chunk::Data(message(1, b"no hurry"))]);
    assert!(scripted.take().is_empty());
    let urgent = Data {
        immediate: true,
        ..message(2, b"hurry")
    };
    scripted.give(&[Chunk::Data(urgent)]);
    assert_eq!(sack_in(&scripted.take()).0, PEER_TSN + 2);
    let urgent = Data {
        immediate: true,
        ..message(3, b"hurry")
    };
    scripted.give(&[Chunk::Data(urgent)]);
    assert_eq!(sack_in(&scripted.take()).0, PEER_TSN + 3);
}

#[test]
fn one_packet_brings_one_sack() {
    let mut scripted = Scripted::accepted(quiet());
    let urgent = Data {
        immediate: true,
        ..message(4, b"urgent")
    };
    let duplicate = Chunk::Data(message(0, b"first"));
    let beyond = Chunk::Data(message(2, b"beyond a gap"));
    scripted.give(&[duplicate, duplicate, beyond, Chunk::Data(urgent), duplicate]);
    let (_, _, gaps, duplicates) = sack_in(&scripted.take());
    assert_eq!(gaps, [(2, 2), (4, 4)]);
    assert_eq!(duplicates.len(), 2);
}

#[test]
fn a_sack_tells_the_lowest_gaps_and_fills_no_more_than_a_packet() {
    let mut scripted = Scripted::accepted(quiet());
    for first in (0..800).step_by(20) {
        let scattered: Vec<_> = (first..first + 20)
            .map(|number| Chunk::Data(message(2 * number + 1, b"x")))
            .collect();
        scripted.give(&scattered);
    }
    let packets = scripted.take();
    assert_eq!(packets.len(), 1, "asked for once, at the end");
    let (cumulative, _, gaps, _) = sack_in(&packets);
    assert_eq!(cumulative, PEER_TSN.previous());
    assert!(packets[0].len() <= 1480 && packets[0].len() > 1480 - 4);
    for (number, gap) in gaps.iter().enumerate() {
        let offset = 2 * number as u16 + 2;
        assert_eq!(*gap, (offset, offset));
    }
}

#[test]
fn gaps_are_told_across_the_wrap_of_tsns() {
    let mut scripted = Scripted::accepted(quiet());
    assert_eq!(PEER_TSN, Tsn(0xffff_fffd));
    // 0xfffffffe is missing; 0xffffffff, 0 and 1 are there.
    for number in [0, 2, 3, 4] {
        scripted.give(&[Chunk::Data(message(number, b"x"))]);
    }
    let (cumulative, _, gaps, _) = sack_in(&scripted.take());
    assert_eq!((cumulative, gaps), (PEER_TSN, vec![(2, 4)]));
    scripted.give(&[Chunk::Data(message(1, b"x"))]);
    assert_eq!(sack_in(&scripted.take()).0, Tsn(1));
    assert_eq!(scripted.receive().len(), 5);
    scripted.give(&[Chunk::Data(message(0, b"x"))]);
    assert_eq!(
        sack_in(&scripted.take()).3,
        [PEER_TSN],
        "a duplicate from before the wrap"
    );
}

#[test]
fn an_old_sack_changes_nothing() {
    let mut scripted = Scripted::connected(quiet());
    for _ in 0..3 {
        scripted.send(0, &[1; 1000]);
    }
    scripted.take();
    scripted.give_sack(2, &[], 50_000);
    let before = scripted.status();
    scripted.give_sack(1, &[], 7);
    assert_eq!(scripted.status(), before);
    scripted.give_sack(2, &[], 60_000);
    assert_eq!(scripted.status().peer_rwnd, 59_000);
}

#[test]
fn t3_restarts_when_the_earliest_chunk_is_acknowledged_and_only_then() {
    /// Sends three chunks, and does `then` 400 ms later; gives when T3-rtx sends something again.
    fn expiry(then: impl FnOnce(&mut Scripted)) -> Option<Duration> {
        let mut scripted = Scripted::connected(quiet());
        for _ in 0..3 {
            scripted.send(0, &[1; 1000]);
        }
        scripted.take();
        let started = scripted.now;
        scripted.now += Duration::from_millis(400);
        then(&mut scripted);
        scripted.take();
        while let Some(next) = scripted.endpoint.next_timeout() {
            scripted.now = next;
            scripted.endpoint.handle_timeout(next);
            if !scripted.take().is_empty() {
                return Some(scripted.now - started);
            }
        }
        None
    }
    let rto = Duration::from_secs(1);
    let later = rto + Duration::from_millis(400);
    assert_eq!(expiry(|_| {}), Some(rto));
    let gap = |scripted: &mut Scripted| scripted.give_sack(0, &[(1, 1)], 100_000);
    assert_eq!(expiry(gap), Some(rto), "not the earliest");
    let more = |scripted: &mut Scripted| scripted.send(0, &[1; 10]);
    assert_eq!(expiry(more), Some(rto), "it runs already");
    let earliest = |scripted: &mut Scripted| scripted.give_sack(1, &[], 100_000);
    assert!(expiry(earliest) >= Some(later), "rule R3");
    let all = |scripted: &mut Scripted| scripted.give_sack(3, &[], 100_000);
    assert_eq!(expiry(all), None, "rule R2");
}

#[test]
fn t3_runs_again_for_a_chunk_that_was_taken_back() {
    let mut scripted = Scripted::connected(quiet());
    scripted.send(0, &[1; 1000]);
    scripted.send(0, &[1; 1000]);
    scripted.take();
    scripted.give_sack(0, &[(1, 1)], 100_000);
    scripted.give_sack(1, &[], 100_000);
    let timeout = scripted.endpoint.next_timeout().expect("rule R4");
    assert_eq!(timeout, scripted.now + scripted.status().paths[0].rto);
    let packets = scripted.pass(Duration::from_secs(2));
    assert_eq!(data_in(&packets, scripted.tsn), [1]);
}

#[test]
fn the_sequence_number_of_unordered_data_means_nothing() {
    let mut scripted = Scripted::accepted(quiet());
    for (number, ssn) in [(0, 0), (1, 0), (2, 40_000)] {
        let unordered = Data {
            unordered: true,
            ssn: Ssn(ssn),
            ..message(number, b"now")
        };
        scripted.give(&[Chunk::Data(unordered)]);
        assert_eq!(scripted.receive().len(), 1);
    }
    // Fragments of an unordered message may even disagree about it.
    let first = Data {
        unordered: true,
        ending: false,
        ssn: Ssn(1),
        ..message(3, b"in two ")
    };
    let second = Data {
        unordered: true,
        beginning: false,
        ssn: Ssn(2),
        ..message(4, b"pieces")
    };
    scripted.give(&[Chunk::Data(first), Chunk::Data(second)]);
    assert_eq!(scripted.receive()[0].payload, "in two pieces");
    let ordered = Data {
        ssn: Ssn(0),
        ..message(5, b"the first ordered one")
    };
    scripted.give(&[Chunk::Data(ordered)]);
    assert_eq!(scripted.receive().len(), 1);
}

#[test]
fn fragments_are_put_together_in_whatever_order_they_come() {
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for order in orders {
        let mut scripted = Scripted::accepted(quiet());
        for number in order {
            let fragment = Data {
                beginning: number == 0,
                ending: number == 2,
                ssn: Ssn(0),
                ..message(number, [&b"one "[..], b"two ", b"three"][number as usize])
            };
            assert!(scripted.receive().is_empty());
            scripted.give(&[Chunk::Data(fragment)]);
        }
        let received = scripted.receive();
        assert_eq!(received.len(), 1);
        assert_eq!(received[0].payload, "one two three");
    }
}

#[test]
fn ordered_messages_wait_for_their_turn_and_other_streams_do_not() {
    let mut scripted = Scripted::accepted(quiet());
    scripted.give(&[Chunk::Data(message(1, b"second"))]);
    assert!(scripted.receive().is_empty());
    let elsewhere = Data {
        stream: 3,
        ssn: Ssn(0),
        ..message(2, b"elsewhere")
    };
    scripted.give(&[Chunk::Data(elsewhere)]);
    assert_eq!(scripted.receive()[0].payload, "elsewhere");
    scripted.give(&[Chunk::Data(message(0, b"first"))]);
    let received: Vec<_> = scripted
        .receive()
        .into_iter()
        .map(|one| one.payload)
        .collect();
    assert_eq!(received, ["first", "second"]);
}

#[test]
fn chunks_are_handled_in_their_order_in_the_packet() {
    // The SHUTDOWN ends what DATA may come: before it DATA counts, after it none.
    let mut scripted = Scripted::connected(quiet());
    scripted.send(0, b"outstanding");
    scripted.take();
    let shutdown = Chunk::Shutdown(sctp::packet::Shutdown {
        cumulative_tsn_ack: scripted.tsn.previous(),
    });
    scripted.give(&[
        Chunk::Data(message(0, b"before")),
        shutdown,
        Chunk::Data(message(1, b"after")),
    ]);
    let received: Vec<_> = scripted
        .receive()
        .into_iter()
        .map(|one| one.payload)
        .collect();
    assert_eq!(received, ["before"]);
}

#[test]
fn a_sack_rides_on_data_only_where_both_fit() {
    for (size, expected) in [
        (FULL - 16, vec![vec![ChunkType::SACK, ChunkType::DATA]]),
        (FULL, vec![vec![ChunkType::DATA]]),
    ] {
        let mut scripted = Scripted::accepted(quiet());
        scripted.give(&[Chunk::Data(message(0, b"first"))]);
        scripted.take();
        scripted.give(&[Chunk::Data(message(1, b"to be acknowledged"))]);
        scripted.send(0, &vec![1; size]);
        assert_eq!(types(&scripted.take()), expected);
    }
}

#[test]
fn a_full_window_refuses_nothing_but_sends_nothing() {
    let mut scripted = Scripted::connected(quiet());
    scripted.send(0, b"first");
    scripted.take();
    scripted.give_sack(1, &[], 0);
    for _ in 0..100 {
        scripted.send(0, b"waits");
    }
    assert!(scripted.take().is_empty());
    scripted.give_sack(1, &[], 10);
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [1, 2]);
}

#[test]
fn new_messages_are_refused_once_a_shutdown_has_begun() {
    for state in [
        AssociationState::ShutdownPending,
        AssociationState::ShutdownSent,
        AssociationState::ShutdownReceived,
        AssociationState::ShutdownAckSent,
    ] {
        let mut scripted = Scripted::in_state(state);
        let id = scripted.id();
        let refused = scripted
            .endpoint
            .send(scripted.now, id, SendInfo::default(), "no".into());
        assert_eq!(refused, Err(SendError::ShuttingDown), "{state:?}");
    }
}

#[test]
fn a_window_update_comes_when_a_quarter_of_the_buffer_is_free_again() {
    let config = quiet().a_rwnd(8000);
    let mut scripted = Scripted::accepted_with(config, init());
    for number in 0..8 {
        scripted.give(&[Chunk::Data(message(number, &[1; 900]))]);
    }
    scripted.take();
    let id = scripted.id();
    let mut updates = Vec::new();
    for number in 0..8 {
        assert!(scripted.endpoint.receive(scripted.now, id).is_some());
        if let [packet] = &scripted.take()[..] {
            updates.push((number, sack_in(std::slice::from_ref(packet)).1));
        }
    }
    assert!((1..=4).contains(&updates.len()), "{updates:?}");
    assert!(
        updates.is_sorted_by(|one, next| one.1 + 2000 <= next.1),
        "{updates:?}"
    );
}

#[test]
fn a_probe_of_a_closed_window_leaves_after_an_rto_and_then_ever_more_rarely() {
    let mut scripted = Scripted::connected(quiet());
    scripted.send(0, b"first");
    scripted.take();
    scripted.give_sack(1, &[], 0);
    let closed = scripted.now;
    let rto = scripted.status().paths[0].rto;
    scripted.send(0, b"waits");
    let mut sent = Vec::new();
    while sent.len() < 6 {
        let next = scripted.endpoint.next_timeout().expect("a probe is due");
        scripted.now = next;
        scripted.endpoint.handle_timeout(next);
        if data_in(&scripted.take(), scripted.tsn) == [1] {
            sent.push(scripted.now);
            // The peer answers, but its window stays closed.
            scripted.give_sack(1, &[], 0);
        }
    }
    assert_eq!(sent[0], closed + rto);
    let intervals: Vec<_> = sent.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        intervals
            .windows(2)
            .all(|pair| pair[1] >= 2 * pair[0] || pair[1].as_secs() == 60)
    );
    assert_eq!(scripted.status().paths[0].error_count, 0);
    scripted.give_sack(2, &[], 50_000);
    assert!(
        !scripted
            .events
            .iter()
            .any(|event| matches!(event, Event::CommunicationLost { .. }))
    );
}

#[test]
fn a_sack_whose_lists_do_not_fit_is_dropped() {
    let mut scripted = Scripted::connected(quiet());
    scripted.send(0, b"first");
    scripted.take();
    let sack = packet_of(scripted.tag, |writer| {
        writer
            .sack(scripted.tsn, 5000, 0, [].into_iter(), [].into_iter())
            .unwrap();
    });
    for (blocks, duplicates) in [(1, 0), (0, 1), (65_535, 65_535)] {
        let lying = crate::common::altered(&sack, |bytes| {
            bytes[24..26].copy_from_slice(&u16::to_be_bytes(blocks));
            bytes[26..28].copy_from_slice(&u16::to_be_bytes(duplicates));
        });
        scripted.give_packet(lying);
        assert_eq!(scripted.status().unacknowledged_chunks, 1);
    }
    scripted.give_packet(sack);
    assert_eq!(scripted.status().unacknowledged_chunks, 0);
}

/// The first chunk never arrives, while all others do: what is outstanding stays countable.
#[test]
fn the_send_window_has_less_than_65536_ordered_messages_of_a_stream() {
    let config = quiet().max_burst(100_000);
    let mut scripted = Scripted::connected(config);
    for _ in 0..200_000 {
        scripted.send(0, b"x");
    }
    let mut highest = 0;
    for _ in 0..400 {
        let sent = data_in(&scripted.take(), scripted.tsn);
        highest = sent.iter().copied().fold(highest, u32::max);
        assert!(highest < 65_535);
        scripted.give_sack(0, &[(1, highest.min(65_534))], 100_000_000);
    }
    assert!(highest > 1000);
}

#[test]
fn behind_a_closed_window_new_data_is_dropped_and_told() {
    let config = quiet().a_rwnd(4000);
    let mut scripted = Scripted::accepted(config);
    let mut window = 4000;
    let mut number = 0;
    while window > 0 {
        let data = Data {
            immediate: true,
            ..message(number, &[1; 500])
        };
        scripted.give(&[Chunk::Data(data)]);
        (_, window, ..) = sack_in(&scripted.take());
        number += 1;
    }
    scripted.give(&[Chunk::Data(message(number, &[1; 500]))]);
    let (cumulative, ..) = sack_in(&scripted.take());
    assert_eq!(cumulative, PEER_TSN + (number - 1));
}

#[test]
fn a_chunk_that_is_taken_back_counts_one_miss() {
    let mut scripted = Scripted::connected(quiet());
    for _ in 0..7 {
        scripted.send(0, &[1; 500]);
    }
    scripted.take();
    scripted.give_sack(0, &[(2, 2)], 1_000_000);
    scripted.give_sack(2, &[], 1_000_000);
    assert!(scripted.take().is_empty());
    scripted.give_sack(2, &[(3, 3)], 1_000_000);
    assert!(scripted.take().is_empty());
    scripted.give_sack(2, &[(3, 4)], 1_000_000);
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [2]);
}

#[test]
fn a_chunk_that_is_taken_back_beside_news_counts_one_miss_as_well() {
    let mut scripted = Scripted::connected(quiet());
    for _ in 0..7 {
        scripted.send(0, &[1; 500]);
    }
    scripted.take();
    scripted.give_sack(0, &[(2, 2)], 1_000_000);
    // Taken back while something above is newly acknowledged: one.
    scripted.give_sack(2, &[(3, 3)], 1_000_000);
    scripted.give_sack(2, &[(3, 4)], 1_000_000);
    assert!(scripted.take().is_empty());
    scripted.give_sack(2, &[(3, 5)], 1_000_000);
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [2]);
}
