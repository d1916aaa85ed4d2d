use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::packet::Ssn;

const FIRST: u32 = u32::MAX - 2;

fn piece(bytes: usize) -> Piece {
    Piece {
        stream: 0,
        ssn: Ssn(0),
        ppid: 0,
        context: 0,
        unordered: false,
        immediate: false,
        beginning: true,
        ending: true,
        payload: Bytes::from(vec![0; bytes]),
    }
}

/// Ten-byte chunks whose TSNs go around.
fn sent(count: u32) -> SentChunks {
    let mut sent = SentChunks::new(Tsn(FIRST));
    for number in 0..count {
        assert_eq!(sent.push(Instant::now(), piece(10), 0), Tsn(FIRST) + number);
    }
    sent
}

#[derive(Debug, Default)]
struct Heard {
    acknowledged: Vec<u32>,
    lost: usize,
    reneged: usize,
    summary: SackSummary,
}

/// `cumulative` counts acknowledged chunks from the start, as do the runs in `gaps`.
fn sack(sent: &mut SentChunks, cumulative: u32, gaps: &[(u16, u16)], recovery: bool) -> Heard {
    let mut heard = Heard::default();
    let gaps = gaps.iter().map(|&(start, end)| GapAckBlock { start, end });
    heard.summary = sent
        .handle_sack(
            Tsn(FIRST).previous() + cumulative,
            gaps,
            recovery,
            |chunk| heard.acknowledged.push(chunk.tsn.distance_from(Tsn(FIRST))),
            |_, _| heard.lost += 1,
            |_, _| heard.reneged += 1,
        )
        .expect("acknowledges what was sent");
    heard
}

#[test]
fn acknowledges_by_cumulative_tsn_and_gaps_once() {
    let mut sent = sent(8);
    let heard = sack(&mut sent, 2, &[(2, 3), (5, 5)], false);
    assert_eq!(heard.acknowledged, [0, 1, 3, 4, 6]);
    assert_eq!(sent.bytes(), 60);
    assert_eq!(sent.bytes_in_flight(), 30);
    let heard = sack(&mut sent, 5, &[(2, 2)], false);
    assert_eq!(heard.acknowledged, [2]);
    assert_eq!(sent.bytes(), 30);
    assert_eq!(sent.bytes_in_flight(), 20);
    let heard = sack(&mut sent, 8, &[], false);
    assert_eq!(heard.acknowledged, [5, 7]);
    assert!(sent.is_empty());
    assert_eq!((sent.bytes(), sent.bytes_in_flight()), (0, 0));
}

#[test]
fn refuses_sacks_of_what_was_never_sent() {
    for (cumulative, gaps) in [(4, &[][..]), (1, &[(2, 3)][..])] {
        let mut sent = sent(3);
        let gaps = gaps.iter().map(|&(start, end)| GapAckBlock { start, end });
        let cumulative = Tsn(FIRST).previous() + cumulative;
        let result = sent.handle_sack(cumulative, gaps, false, |_| {}, |_, _| {}, |_, _| {});
        assert_eq!(result.unwrap_err(), NeverSent);
        assert_eq!(sent.len(), 3);
    }
}

#[test]
fn marks_a_chunk_lost_at_the_third_miss_indication() {
    let mut sent = sent(6);
    assert_eq!(sack(&mut sent, 1, &[(2, 2)], false).lost, 0);
    assert_eq!(sack(&mut sent, 1, &[(2, 3)], false).lost, 0);
    let heard = sack(&mut sent, 1, &[(2, 4)], false);
    assert_eq!(heard.lost, 1);
    assert_eq!(heard.summary.fast_retransmit, Some(0));
    assert_eq!(sent.next_lost().map(|(tsn, ..)| tsn), Some(Tsn(FIRST) + 1));
    assert_eq!(
        sent.retransmit(Tsn(FIRST) + 1, 0),
        Some(Loss::FastRetransmit)
    );
    assert!(sent.next_lost().is_none());
    // It is not fast retransmitted a second time.
    for number in 6..11 {
        sent.push(Instant::now(), piece(10), 0);
        assert_eq!(sack(&mut sent, 1, &[(2, number)], true).lost, 0);
    }
}

#[test]
fn counts_no_miss_for_what_is_not_newly_acknowledged() {
    let mut sent = sent(6);
    for _ in 0..5 {
        assert_eq!(sack(&mut sent, 1, &[(2, 2)], false).lost, 0);
    }
}

#[test]
fn counts_misses_only_below_the_highest_newly_acknowledged() {
    let mut sent = sent(9);
    // Offsets from the cumulative TSN: 2 is missing, 4 is missing.
    sack(&mut sent, 1, &[(5, 5)], false);
    sack(&mut sent, 1, &[(3, 3), (5, 5)], false);
    let heard = sack(&mut sent, 1, &[(3, 3), (5, 6)], false);
    assert_eq!(heard.lost, 2, "chunks 2 and 1 have three, 4 has two");
}

#[test]
fn counts_all_misses_when_fast_recovery_advances() {
    let mut sent = sent(9);
    sack(&mut sent, 0, &[(2, 2), (4, 4)], false);
    sack(&mut sent, 0, &[(2, 2), (4, 5)], false);
    let heard = sack(&mut sent, 0, &[(2, 2), (4, 6)], false);
    assert_eq!(heard.lost, 2);
    let mut sent = sent_with_retransmission();
    let heard = sack(&mut sent, 1, &[(3, 4)], true);
    assert_eq!(heard.lost, 0);
}

/// The first chunk was fast retransmitted, the second is acknowledged.
fn sent_with_retransmission() -> SentChunks {
    let mut sent = sent(5);
    for end in 2..5 {
        sack(&mut sent, 0, &[(2, end)], false);
    }
    sent.retransmit(Tsn(FIRST), 0);
    sent
}

#[test]
fn takes_back_what_the_peer_reneges_on() {
    let mut sent = sent(5);
    sack(&mut sent, 1, &[(2, 4)], false);
    assert_eq!(sent.bytes_in_flight(), 10);
    let heard = sack(&mut sent, 1, &[(2, 2)], false);
    assert_eq!(heard.reneged, 2);
    assert_eq!(sent.bytes_in_flight(), 30);
    let heard = sack(&mut sent, 5, &[], false);
    assert_eq!(heard.acknowledged, [1, 3, 4]);
}

#[test]
fn retransmits_after_a_timeout_in_order_of_tsn() {
    let mut sent = sent(4);
    sack(&mut sent, 0, &[(2, 2)], false);
    let mut sizes = 0;
    sent.mark_lost_on(0, 0, |size| sizes += size);
    assert_eq!(sizes, 3 * 28);
    assert_eq!(sent.bytes_in_flight(), 0);
    assert!(sent.has_lost());
    let mut again = Vec::new();
    while let Some((tsn, _)) = sent.next_lost() {
        again.push(tsn.distance_from(Tsn(FIRST)));
        assert_eq!(sent.retransmit(tsn, 0), Some(Loss::Timeout));
    }
    assert_eq!(again, [0, 2, 3]);
    assert_eq!(sent.bytes_in_flight(), 30);
    assert!(!sent.has_lost());
}

#[test]
fn counts_misses_of_a_retransmission_only_from_later_chunks() {
    let mut sent = sent(6);
    sent.mark_lost_on(0, 0, |_| {});
    while let Some((tsn, _)) = sent.next_lost() {
        sent.retransmit(tsn, 0);
    }
    for end in 2..7 {
        assert_eq!(sack(&mut sent, 0, &[(2, end)], false).lost, 0);
    }
    for end in 7..10 {
        sent.push(Instant::now(), piece(10), 0);
        assert_eq!(
            sack(&mut sent, 0, &[(2, end)], false).lost,
            (end == 9).into()
        );
    }
}

#[test]
fn measures_by_karns_algorithm() {
    let mut sent = sent(5);
    let measurable = |sent: &mut SentChunks, cumulative, gaps: &[_]| {
        let gaps = gaps.iter().map(|&(start, end)| GapAckBlock { start, end });
        let mut measurable = Vec::new();
        let on_acknowledged = |chunk: Acknowledged| {
            if chunk.measures_from.is_some() {
                measurable.push(chunk.tsn.distance_from(Tsn(FIRST)));
            }
        };
        let cumulative = Tsn(FIRST).previous() + cumulative;
        sent.handle_sack(
            cumulative,
            gaps,
            false,
            on_acknowledged,
            |_, _| {},
            |_, _| {},
        )
        .expect("acknowledges what was sent");
        measurable
    };
    assert_eq!(measurable(&mut sent, 1, &[(3, 3)]), [0, 3]);
    sent.mark_lost_on(0, 0, |_| {});
    // Lost as it seems, but not sent again: there is no doubt which packet arrived.
    assert_eq!(measurable(&mut sent, 2, &[(2, 2)]), [1]);
    sent.retransmit(Tsn(FIRST) + 2, 0);
    sent.push(Instant::now(), piece(10), 0);
    // The chunk 4 was sent before the retransmission of 2, the chunk 5 after it.
    assert_eq!(measurable(&mut sent, 3, &[(2, 3)]), [5]);
    // What the peer reneged on measures nothing when it is acknowledged anew.
    assert_eq!(measurable(&mut sent, 3, &[]), [0; 0]);
    assert_eq!(measurable(&mut sent, 6, &[]), [0; 0]);
}

#[test]
fn forgets_losses_that_turn_out_to_have_arrived() {
    let mut sent = sent(4);
    sent.mark_lost_on(0, 0, |_| {});
    let heard = sack(&mut sent, 3, &[], false);
    assert_eq!(heard.acknowledged, [0, 1, 2]);
    assert_eq!(sent.next_lost().map(|(tsn, ..)| tsn), Some(Tsn(FIRST) + 3));
    sack(&mut sent, 4, &[], false);
    assert!(!sent.has_lost());
    assert!(sent.next_lost().is_none());
}

#[test]
fn tells_the_earliest_chunk_of_a_path() {
    let mut sent = SentChunks::new(Tsn(FIRST));
    let first = sent.push(Instant::now(), piece(1), 0);
    let second = sent.push(Instant::now(), piece(1), 1);
    let third = sent.push(Instant::now(), piece(1), 1);
    assert!(sent.is_earliest_on(first, 0));
    assert!(sent.is_earliest_on(second, 1));
    assert!(!sent.is_earliest_on(third, 1));
}

#[test]
fn tells_the_earliest_chunks_of_several_paths_in_one_walk() {
    let mut sent = SentChunks::new(Tsn(FIRST));
    for path in [0, 1, 0, 1, 2, 1] {
        sent.push(Instant::now(), piece(1), path);
    }
    let offsets = |sent: &SentChunks, paths: &[PathIndex]| {
        let mut found: Vec<_> = sent
            .earliest_on_each(paths.to_vec())
            .into_iter()
            .map(|(path, tsn)| (path, tsn.distance_from(Tsn(FIRST))))
            .collect();
        found.sort_unstable();
        found
    };
    assert_eq!(offsets(&sent, &[1, 2, 3]), [(1, 1), (2, 4)]);
    let gap = GapAckBlock { start: 2, end: 2 };
    sent.handle_sack(
        Tsn(FIRST).previous(),
        [gap].into_iter(),
        false,
        |_| {},
        |_, _| {},
        |_, _| {},
    )
    .expect("acknowledges what was sent");
    assert_eq!(offsets(&sent, &[0, 1]), [(0, 0), (1, 3)]);
    assert!(sent.is_acknowledged(Tsn(FIRST).previous()));
    assert!(!sent.is_acknowledged(Tsn(FIRST)));
    assert!(sent.is_acknowledged(Tsn(FIRST) + 1));
}

proptest! {
    #[test]
    fn keeps_its_counts_whatever_the_sacks(
        steps in prop::collection::vec(
            (0u32..4, prop::collection::vec((0u16..12, 0u16..12), 0..4), 0u8..4),
            0..60,
        ),
    ) {
        let mut sent = SentChunks::new(Tsn(FIRST));
        for (advance, gaps, action) in steps {
            match action {
                0 => sent.mark_lost_on(0, 0, |_| {}),
                1 => {
                    while let Some((tsn, _)) = sent.next_lost() {
                        sent.retransmit(tsn, 0);
                    }
                }
                _ => {
                    sent.push(Instant::now(), piece(10), 0);
                    sent.push(Instant::now(), piece(10), 0);
                }
            }
            let gaps = gaps.iter().map(|&(start, end)| GapAckBlock { start, end });
            let cumulative = sent.cumulative_ack_point() + advance;
            let _ = sent.handle_sack(cumulative, gaps, false, |_| {}, |_, _| {}, |_, _| {});
            let in_flight = sent.chunks.iter().filter(|c| c.state == State::InFlight).count();
            let lost =
                sent.chunks.iter().filter(|c| matches!(c.state, State::Lost(_))).count();
            let acknowledged =
                sent.chunks.iter().filter(|c| c.state == State::Acknowledged).count();
            let in_runs: u32 =
                sent.acknowledged.iter().map(|run| run.last - run.first + 1).sum();
            prop_assert_eq!(sent.bytes_in_flight(), in_flight * 10);
            prop_assert_eq!(sent.lost_count, lost);
            prop_assert_eq!(sent.bytes(), sent.chunks.len() * 10);
            prop_assert_eq!(in_runs as usize, acknowledged);
            if lost > 0 {
                prop_assert!(sent.next_lost().is_some());
            }
        }
    }
}

#[test]
fn sends_what_timed_out_on_another_path_and_fast_retransmissions_on_the_same() {
    let mut sent = sent(6);
    sent.mark_lost_on(0, 1, |_| {});
    assert_eq!(sent.next_lost_path(), Some(1));
    sent.redirect_lost(1, 2);
    assert_eq!(sent.next_lost_path(), Some(2));
    sent.retransmit(Tsn(FIRST), 2);
    assert_eq!(sent.next_lost_path(), Some(2));
    while let Some((tsn, _)) = sent.next_lost() {
        sent.retransmit(tsn, if tsn == Tsn(FIRST) + 1 { 0 } else { 2 });
    }
    let mut acknowledged = Vec::new();
    let gap = GapAckBlock { start: 2, end: 3 };
    sent.handle_sack(
        Tsn(FIRST),
        [gap].into_iter(),
        false,
        |chunk| acknowledged.push((chunk.path, chunk.moved)),
        |_, _| {},
        |_, _| {},
    )
    .unwrap();
    assert_eq!(acknowledged, [(2, true), (2, true), (2, true)]);
    // Two of these by Gap Ack Blocks, which the peer may take back.
    let unacknowledged = sent.take_unacknowledged().count();
    assert_eq!(unacknowledged, 5);
}
