use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::association::limit::Limit;
use crate::packet::Mid;

const FIRST: u32 = u32::MAX - 2;

/// The id of the path that was added after so many others.
fn path(number: usize) -> PathId {
    std::iter::successors(Some(PathId::FIRST), |id| id.next())
        .nth(number)
        .expect("they are many")
}

fn fragment(bytes: usize) -> MessageFragment {
    MessageFragment {
        stream: 0,
        mid: Mid(0),
        fsn: None,
        ppid: 0,
        context: 0,
        shared_key: None,
        unordered: false,
        immediate: false,
        beginning: true,
        ending: true,
        limit: Limit::None,
        payload: Bytes::from(vec![0; bytes]),
    }
}

/// Ten-byte chunks whose TSNs go around.
fn outstanding(count: u32) -> OutstandingData {
    let mut outstanding = OutstandingData::new(Tsn(FIRST));
    for number in 0..count {
        assert_eq!(
            outstanding.push(Instant::now(), fragment(10), path(0)),
            Tsn(FIRST) + number
        );
    }
    outstanding
}

#[derive(Debug, Default)]
struct SackEffects {
    acknowledged: Vec<u32>,
    lost: usize,
    reneged: usize,
    summary: SackSummary,
}

/// `cumulative` counts acknowledged chunks from the start, as do the ranges in `gaps`.
fn sack(
    outstanding: &mut OutstandingData,
    cumulative: u32,
    gaps: &[(u16, u16)],
    recovery: bool,
) -> SackEffects {
    let mut effects = SackEffects::default();
    let gaps = gaps.iter().map(|&(start, end)| GapAckBlock { start, end });
    effects.summary = outstanding
        .handle_sack(
            Instant::now(),
            Tsn(FIRST).previous() + cumulative,
            gaps,
            Some(MissRule::new(recovery)),
            None,
            |chunk| {
                effects
                    .acknowledged
                    .push(chunk.tsn.distance_from(Tsn(FIRST)))
            },
            |_, _| effects.lost += 1,
            |_, _, _| effects.reneged += 1,
        )
        .expect("acknowledges what was sent");
    effects
}

#[test]
fn acknowledges_by_cumulative_tsn_and_gaps_once() {
    let mut outstanding = outstanding(8);
    let effects = sack(&mut outstanding, 2, &[(2, 3), (5, 5)], false);
    assert_eq!(effects.acknowledged, [0, 1, 3, 4, 6]);
    assert_eq!(outstanding.bytes(), 60);
    assert_eq!(outstanding.bytes_in_flight(), 30);
    let effects = sack(&mut outstanding, 5, &[(2, 2)], false);
    assert_eq!(effects.acknowledged, [2]);
    assert_eq!(outstanding.bytes(), 30);
    assert_eq!(outstanding.bytes_in_flight(), 20);
    let effects = sack(&mut outstanding, 8, &[], false);
    assert_eq!(effects.acknowledged, [5, 7]);
    assert!(outstanding.is_empty());
    assert_eq!((outstanding.bytes(), outstanding.bytes_in_flight()), (0, 0));
}

#[test]
fn refuses_sacks_of_what_was_never_sent() {
    for (cumulative, gaps) in [(4, &[][..]), (1, &[(2, 3)][..])] {
        let mut outstanding = outstanding(3);
        let gaps = gaps.iter().map(|&(start, end)| GapAckBlock { start, end });
        let cumulative = Tsn(FIRST).previous() + cumulative;
        let result = outstanding.handle_sack(
            Instant::now(),
            cumulative,
            gaps,
            Some(MissRule::new(false)),
            None,
            |_| {},
            |_, _| {},
            |_, _, _| {},
        );
        assert_eq!(result.unwrap_err(), NeverSent);
        assert_eq!(outstanding.len(), 3);
    }
}

#[test]
fn marks_a_chunk_lost_at_the_third_miss_indication() {
    let mut outstanding = outstanding(6);
    assert_eq!(sack(&mut outstanding, 1, &[(2, 2)], false).lost, 0);
    assert_eq!(sack(&mut outstanding, 1, &[(2, 3)], false).lost, 0);
    let effects = sack(&mut outstanding, 1, &[(2, 4)], false);
    assert_eq!(effects.lost, 1);
    assert_eq!(effects.summary.fast_retransmit, Some(path(0)));
    assert_eq!(
        outstanding.next_lost().map(|(tsn, ..)| tsn),
        Some(Tsn(FIRST) + 1)
    );
    assert_eq!(
        outstanding.retransmit(Instant::now(), Tsn(FIRST) + 1, path(0)),
        Some(Loss::FastRetransmit)
    );
    assert!(outstanding.next_lost().is_none());
    // It is not fast retransmitted a second time.
    for number in 6..11 {
        outstanding.push(Instant::now(), fragment(10), path(0));
        assert_eq!(sack(&mut outstanding, 1, &[(2, number)], true).lost, 0);
    }
}

#[test]
fn counts_no_miss_for_what_is_not_newly_acknowledged() {
    let mut outstanding = outstanding(6);
    for _ in 0..5 {
        assert_eq!(sack(&mut outstanding, 1, &[(2, 2)], false).lost, 0);
    }
}

#[test]
fn counts_misses_only_below_the_highest_newly_acknowledged() {
    let mut outstanding = outstanding(9);
    // Offsets from the cumulative TSN: 2 is missing, 4 is missing.
    sack(&mut outstanding, 1, &[(5, 5)], false);
    sack(&mut outstanding, 1, &[(3, 3), (5, 5)], false);
    let effects = sack(&mut outstanding, 1, &[(3, 3), (5, 6)], false);
    assert_eq!(effects.lost, 2, "chunks 2 and 1 have three, 4 has two");
}

#[test]
fn counts_all_misses_when_fast_recovery_advances() {
    let mut outstanding = outstanding(9);
    sack(&mut outstanding, 0, &[(2, 2), (4, 4)], false);
    sack(&mut outstanding, 0, &[(2, 2), (4, 5)], false);
    let effects = sack(&mut outstanding, 0, &[(2, 2), (4, 6)], false);
    assert_eq!(effects.lost, 2);
    let mut outstanding = sent_with_retransmission();
    let effects = sack(&mut outstanding, 1, &[(3, 4)], true);
    assert_eq!(effects.lost, 0);
}

/// The first chunk was fast retransmitted, the second is acknowledged.
fn sent_with_retransmission() -> OutstandingData {
    let mut outstanding = outstanding(5);
    for end in 2..5 {
        sack(&mut outstanding, 0, &[(2, end)], false);
    }
    outstanding.retransmit(Instant::now(), Tsn(FIRST), path(0));
    outstanding
}

#[test]
fn takes_back_what_the_peer_reneges_on() {
    let mut outstanding = outstanding(5);
    sack(&mut outstanding, 1, &[(2, 4)], false);
    assert_eq!(outstanding.bytes_in_flight(), 10);
    let effects = sack(&mut outstanding, 1, &[(2, 2)], false);
    assert_eq!(effects.reneged, 2);
    assert_eq!(outstanding.bytes_in_flight(), 30);
    let effects = sack(&mut outstanding, 5, &[], false);
    assert_eq!(effects.acknowledged, [1, 3, 4]);
}

#[test]
fn retransmits_after_a_timeout_in_order_of_tsn() {
    let mut outstanding = outstanding(4);
    sack(&mut outstanding, 0, &[(2, 2)], false);
    let mut sizes = 0;
    outstanding.mark_lost_on(path(0), path(0), |size| sizes += size);
    assert_eq!(sizes, 3 * 28);
    assert_eq!(outstanding.bytes_in_flight(), 0);
    assert!(outstanding.has_lost());
    let mut again = Vec::new();
    while let Some((tsn, _)) = outstanding.next_lost() {
        again.push(tsn.distance_from(Tsn(FIRST)));
        assert_eq!(
            outstanding.retransmit(Instant::now(), tsn, path(0)),
            Some(Loss::Timeout)
        );
    }
    assert_eq!(again, [0, 2, 3]);
    assert_eq!(outstanding.bytes_in_flight(), 30);
    assert!(!outstanding.has_lost());
}

#[test]
fn counts_misses_of_a_retransmission_only_from_later_chunks() {
    let mut outstanding = outstanding(6);
    outstanding.mark_lost_on(path(0), path(0), |_| {});
    while let Some((tsn, _)) = outstanding.next_lost() {
        outstanding.retransmit(Instant::now(), tsn, path(0));
    }
    for end in 2..7 {
        assert_eq!(sack(&mut outstanding, 0, &[(2, end)], false).lost, 0);
    }
    for end in 7..10 {
        outstanding.push(Instant::now(), fragment(10), path(0));
        assert_eq!(
            sack(&mut outstanding, 0, &[(2, end)], false).lost,
            (end == 9).into()
        );
    }
}

#[test]
fn measures_by_karns_algorithm() {
    let mut outstanding = outstanding(5);
    let measurable = |outstanding: &mut OutstandingData, cumulative, gaps: &[_]| {
        let gaps = gaps.iter().map(|&(start, end)| GapAckBlock { start, end });
        let mut measurable = Vec::new();
        let on_acknowledged = |chunk: &Acknowledged| {
            if chunk.measures {
                measurable.push(chunk.tsn.distance_from(Tsn(FIRST)));
            }
        };
        let cumulative = Tsn(FIRST).previous() + cumulative;
        outstanding
            .handle_sack(
                Instant::now(),
                cumulative,
                gaps,
                Some(MissRule::new(false)),
                None,
                on_acknowledged,
                |_, _| {},
                |_, _, _| {},
            )
            .expect("acknowledges what was sent");
        measurable
    };
    assert_eq!(measurable(&mut outstanding, 1, &[(3, 3)]), [0, 3]);
    outstanding.mark_lost_on(path(0), path(0), |_| {});
    // Lost as it seems, but not sent again: there is no doubt which packet arrived.
    assert_eq!(measurable(&mut outstanding, 2, &[(2, 2)]), [1]);
    outstanding.retransmit(Instant::now(), Tsn(FIRST) + 2, path(0));
    outstanding.push(Instant::now(), fragment(10), path(0));
    // The chunk 4 was sent before the retransmission of 2, the chunk 5 after it.
    assert_eq!(measurable(&mut outstanding, 3, &[(2, 3)]), [5]);
    // What the peer reneged on measures nothing when it is acknowledged anew.
    assert_eq!(measurable(&mut outstanding, 3, &[]), [0; 0]);
    assert_eq!(measurable(&mut outstanding, 6, &[]), [0; 0]);
}

#[test]
fn forgets_losses_that_turn_out_to_have_arrived() {
    let mut outstanding = outstanding(4);
    outstanding.mark_lost_on(path(0), path(0), |_| {});
    let effects = sack(&mut outstanding, 3, &[], false);
    assert_eq!(effects.acknowledged, [0, 1, 2]);
    assert_eq!(
        outstanding.next_lost().map(|(tsn, ..)| tsn),
        Some(Tsn(FIRST) + 3)
    );
    sack(&mut outstanding, 4, &[], false);
    assert!(!outstanding.has_lost());
    assert!(outstanding.next_lost().is_none());
}

#[test]
fn tells_the_earliest_chunk_of_a_path() {
    let mut outstanding = OutstandingData::new(Tsn(FIRST));
    let first = outstanding.push(Instant::now(), fragment(1), path(0));
    let second = outstanding.push(Instant::now(), fragment(1), path(1));
    let third = outstanding.push(Instant::now(), fragment(1), path(1));
    assert!(outstanding.is_earliest_on(first, path(0)));
    assert!(outstanding.is_earliest_on(second, path(1)));
    assert!(!outstanding.is_earliest_on(third, path(1)));
}

#[test]
fn tells_the_earliest_chunks_of_several_paths_in_one_walk() {
    let mut outstanding = OutstandingData::new(Tsn(FIRST));
    for number in [0, 1, 0, 1, 2, 1] {
        outstanding.push(Instant::now(), fragment(1), path(number));
    }
    let offsets = |outstanding: &OutstandingData, paths: &[usize]| {
        let mut found: Vec<_> = outstanding
            .earliest_on_each(paths.iter().copied().map(path).collect())
            .into_iter()
            .map(|(id, tsn)| (id, tsn.distance_from(Tsn(FIRST))))
            .collect();
        found.sort_unstable();
        found
    };
    assert_eq!(
        offsets(&outstanding, &[1, 2, 3]),
        [(path(1), 1), (path(2), 4)]
    );
    let gap = GapAckBlock { start: 2, end: 2 };
    outstanding
        .handle_sack(
            Instant::now(),
            Tsn(FIRST).previous(),
            [gap].into_iter(),
            Some(MissRule::new(false)),
            None,
            |_| {},
            |_, _| {},
            |_, _, _| {},
        )
        .expect("acknowledges what was sent");
    assert_eq!(offsets(&outstanding, &[0, 1]), [(path(0), 0), (path(1), 3)]);
    assert!(outstanding.is_acknowledged(Tsn(FIRST).previous()));
    assert!(!outstanding.is_acknowledged(Tsn(FIRST)));
    assert!(outstanding.is_acknowledged(Tsn(FIRST) + 1));
}

proptest! {
    #[test]
    fn keeps_its_counts_whatever_the_sacks(
        steps in prop::collection::vec(
            (0u32..4, prop::collection::vec((0u16..12, 0u16..12), 0..4), 0u8..4),
            0..60,
        ),
    ) {
        let mut outstanding = OutstandingData::new(Tsn(FIRST));
        for (advance, gaps, action) in steps {
            match action {
                0 => outstanding.mark_lost_on(path(0), path(0), |_| {}),
                1 => {
                    while let Some((tsn, _)) = outstanding.next_lost() {
                        outstanding.retransmit(Instant::now(), tsn, path(0));
                    }
                }
                _ => {
                    outstanding.push(Instant::now(), fragment(10), path(0));
                    outstanding.push(Instant::now(), fragment(10), path(0));
                }
            }
            let gaps = gaps.iter().map(|&(start, end)| GapAckBlock { start, end });
            let cumulative = outstanding.cumulative_ack_point() + advance;
            let _ = outstanding.handle_sack(Instant::now(), cumulative, gaps, Some(MissRule::new(false)), None, |_| {}, |_, _| {}, |_, _, _| {});
            let in_flight = outstanding.chunks.iter().filter(|c| c.state == ChunkState::InFlight).count();
            let lost =
                outstanding.chunks.iter().filter(|c| matches!(c.state, ChunkState::Lost(_))).count();
            let acknowledged =
                outstanding.chunks.iter().filter(|c| c.state == ChunkState::Acknowledged).count();
            let in_runs: u32 =
                outstanding.acknowledged.iter().map(|range| range.last - range.first + 1).sum();
            prop_assert_eq!(outstanding.bytes_in_flight(), in_flight * 10);
            prop_assert_eq!(outstanding.lost_count, lost);
            prop_assert_eq!(outstanding.bytes(), outstanding.chunks.len() * 10);
            prop_assert_eq!(in_runs as usize, acknowledged);
            if lost > 0 {
                prop_assert!(outstanding.next_lost().is_some());
            }
        }
    }
}

#[test]
fn sends_what_timed_out_on_another_path_and_fast_retransmissions_on_the_same() {
    let mut outstanding = outstanding(6);
    outstanding.mark_lost_on(path(0), path(1), |_| {});
    assert_eq!(outstanding.next_lost_path(), Some(path(1)));
    outstanding.redirect_lost(path(1), path(2));
    assert_eq!(outstanding.next_lost_path(), Some(path(2)));
    outstanding.retransmit(Instant::now(), Tsn(FIRST), path(2));
    assert_eq!(outstanding.next_lost_path(), Some(path(2)));
    while let Some((tsn, _)) = outstanding.next_lost() {
        outstanding.retransmit(
            Instant::now(),
            tsn,
            path(if tsn == Tsn(FIRST) + 1 { 0 } else { 2 }),
        );
    }
    let mut acknowledged = Vec::new();
    let gap = GapAckBlock { start: 2, end: 3 };
    outstanding
        .handle_sack(
            Instant::now(),
            Tsn(FIRST),
            [gap].into_iter(),
            Some(MissRule::new(false)),
            None,
            |chunk| acknowledged.push((chunk.path, chunk.moved)),
            |_, _| {},
            |_, _, _| {},
        )
        .unwrap();
    assert_eq!(acknowledged, [(path(2), true); 3]);
    // Two of these by Gap Ack Blocks, which the peer may take back.
    let unacknowledged = outstanding.take_all().count();
    assert_eq!(unacknowledged, 5);
}

#[test]
fn nothing_goes_to_a_path_that_was_removed() {
    let mut outstanding = outstanding(4);
    outstanding.mark_lost_on(path(0), path(1), |_| {});
    for number in 0..3 {
        outstanding.retransmit(Instant::now(), Tsn(FIRST) + number, path(1));
    }
    sack(&mut outstanding, 0, &[(2, 2)], false);
    outstanding.forget_path(path(1), path(2));
    // In flight, and to be sent there: both are to be sent elsewhere.
    let mut lost = Vec::new();
    while let Some((tsn, _)) = outstanding.next_lost() {
        let next = outstanding.next_lost_path();
        lost.push((tsn.distance_from(Tsn(FIRST)), next));
        outstanding.retransmit(Instant::now(), tsn, path(2));
    }
    assert_eq!(lost, [0, 2, 3].map(|number| (number, Some(path(2)))));
    // Acknowledged, until the peer reneges on it.
    sack(&mut outstanding, 0, &[], false);
    assert_eq!(outstanding.last_path(Tsn(FIRST) + 1), Some(path(2)));
}

/// Fragments of ten bytes, each as (MID, bits, limit).
fn fragments(list: &[(u32, &str, Limit)]) -> OutstandingData {
    let mut outstanding = OutstandingData::new(Tsn(FIRST));
    for (mid, bits, limit) in list {
        let fragment = MessageFragment {
            mid: Mid(*mid),
            beginning: bits.contains('B'),
            ending: bits.contains('E'),
            limit: *limit,
            ..fragment(10)
        };
        outstanding.push(Instant::now(), fragment, path(0));
    }
    outstanding
}

fn advanced(outstanding: &OutstandingData) -> u32 {
    let point = outstanding.advanced_peer_ack_point();
    point.next().distance_from(Tsn(FIRST))
}

#[test]
fn a_message_is_abandoned_whole_and_its_neighbours_are_not() {
    let low = Limit::Priority(9);
    // Two messages whose fragments alternate.
    let mut outstanding = fragments(&[
        (0, "B", low),
        (1, "B", Limit::None),
        (0, "", low),
        (1, "E", Limit::None),
        (0, "E", low),
        (2, "BE", low),
    ]);
    sack(&mut outstanding, 0, &[(3, 3)], false);
    let mut left = 0;
    let abandoned = outstanding.abandon(2, |_, _| left += 1).unwrap();
    assert!(abandoned.ended);
    assert_eq!((abandoned.parts.len(), left), (3, 2));
    assert_eq!(outstanding.bytes(), 30);
    assert_eq!(outstanding.bytes_in_flight(), 30);
    assert_eq!(advanced(&outstanding), 1);
    assert!(outstanding.abandon(0, |_, _| {}).is_none(), "once");
    // The peer takes back what it had of it: that changes nothing.
    assert_eq!(sack(&mut outstanding, 0, &[], false).reneged, 0);
    let effects = sack(&mut outstanding, 2, &[], false);
    assert!(effects.summary.skipped && effects.summary.newly_acknowledged);
    assert_eq!(effects.acknowledged, [1]);
    assert_eq!(advanced(&outstanding), 3);
    let effects = sack(&mut outstanding, 6, &[], false);
    assert_eq!(effects.acknowledged, [3, 5]);
    assert!(outstanding.is_empty());
    assert_eq!((outstanding.bytes(), outstanding.bytes_in_flight()), (0, 0));
}

#[test]
fn what_was_abandoned_in_flight_still_tells_of_loss() {
    let mut outstanding = fragments(&[
        (0, "BE", Limit::None),
        (1, "BE", Limit::Priority(1)),
        (2, "BE", Limit::None),
        (3, "BE", Limit::None),
        (4, "BE", Limit::None),
    ]);
    outstanding.abandon(1, |_, _| {});
    for (above, lost) in [(2, 0), (3, 0), (4, 1), (4, 0)] {
        let effects = sack(&mut outstanding, 1, &[(2, above)], false);
        assert_eq!(effects.lost, lost);
        assert_eq!(effects.summary.fast_retransmit.is_some(), lost > 0);
    }
    assert!(!outstanding.has_lost());
}

#[test]
fn messages_give_way_by_their_limit_unless_they_have_arrived() {
    let mut outstanding = fragments(&[
        (0, "BE", Limit::Priority(1)),
        (1, "BE", Limit::None),
        (2, "B", Limit::Priority(5)),
        (2, "E", Limit::Priority(5)),
        (3, "BE", Limit::Priority(5)),
    ]);
    sack(&mut outstanding, 0, &[(3, 3), (5, 5)], false);
    let giving_way = |other| {
        let messages = outstanding.giving_way_to(other).into_iter();
        messages
            .map(|message| (message.index, message.priority, message.bytes))
            .collect::<Vec<_>>()
    };
    assert_eq!(giving_way(Limit::Priority(4)), [(2, 5, 20)]);
    assert_eq!(giving_way(Limit::None), [(0, 1, 10), (2, 5, 20)]);
    assert_eq!(giving_way(Limit::Priority(5)), []);
}

#[test]
fn what_the_peer_keeps_is_freed_at_once_and_stays_acknowledged() {
    let mut outstanding = outstanding(6);
    let keep = |outstanding: &mut OutstandingData, gaps: &[(u16, u16)]| {
        let gaps = gaps.iter().map(|&(start, end)| GapAckBlock { start, end });
        outstanding.free_non_renegable(gaps)
    };
    let effects = sack(&mut outstanding, 0, &[(2, 3), (5, 5)], false);
    assert_eq!(effects.acknowledged, [1, 2, 4]);
    assert_eq!(keep(&mut outstanding, &[(3, 3), (5, 5)]), Ok(()));
    assert_eq!((outstanding.bytes(), outstanding.len()), (40, 6));
    assert_eq!(keep(&mut outstanding, &[(3, 3), (5, 5)]), Ok(()));
    assert_eq!(outstanding.bytes(), 40, "once");
    // The peer takes back what it may, and what it may not.
    let effects = sack(&mut outstanding, 0, &[(6, 6)], false);
    assert_eq!((effects.reneged, effects.acknowledged), (1, vec![5]));
    assert_eq!(sack(&mut outstanding, 0, &[(5, 6)], false).acknowledged, []);
    let effects = sack(&mut outstanding, 4, &[], false);
    assert_eq!(effects.acknowledged, [0, 1, 3]);
    assert_eq!(
        outstanding.take_all().count(),
        1,
        "the one that was taken back"
    );
}

#[test]
fn what_is_not_acknowledged_is_not_kept() {
    let mut outstanding = outstanding(3);
    let blocks = [GapAckBlock { start: 2, end: 3 }];
    assert_eq!(outstanding.free_non_renegable(blocks.into_iter()), Ok(()));
    assert_eq!(outstanding.bytes(), 30);
    let beyond = [GapAckBlock { start: 2, end: 4 }];
    let freed = outstanding.free_non_renegable(beyond.into_iter());
    assert_eq!(freed, Err(NeverSent));
}

#[test]
fn a_sack_that_was_overtaken_counts_for_nothing_where_several_paths_are_in_use() {
    for split in [false, true] {
        let mut outstanding = outstanding(9);
        let mut sack = |end| {
            let gap = GapAckBlock { start: 2, end };
            let mut reneged = 0;
            let summary = outstanding
                .handle_sack(
                    Instant::now(),
                    Tsn(FIRST).previous(),
                    [gap].into_iter(),
                    Some(MissRule::new(false)),
                    split.then_some(1),
                    |_| {},
                    |_, _| {},
                    |_, _, _| reneged += 1,
                )
                .expect("acknowledges what was sent");
            (summary.overtaken, reneged)
        };
        assert_eq!(sack(6), (false, 0));
        assert_eq!(sack(6), (false, 0), "it may tell a window");
        assert_eq!(sack(4), if split { (true, 0) } else { (false, 2) });
    }
}

#[test]
fn what_a_slow_path_carries_is_not_missing_because_a_fast_one_overtakes_it() {
    let mut outstanding = OutstandingData::new(Tsn(FIRST));
    for number in 0..8 {
        // The first three on the slow path, but the second one.
        let on = if [0, 2].contains(&number) { 1 } else { 0 };
        outstanding.push(Instant::now(), fragment(10), path(on));
    }
    let mut lost = Vec::new();
    for end in 4..=8 {
        let gap = GapAckBlock { start: 4, end };
        outstanding
            .handle_sack(
                Instant::now(),
                Tsn(FIRST).previous(),
                [gap].into_iter(),
                Some(MissRule::new(false)),
                Some(1),
                |_| {},
                |path, _| lost.push(path),
                |_, _, _| {},
            )
            .expect("acknowledges what was sent");
    }
    assert_eq!(lost, [path(0)], "the second chunk alone");
    outstanding.send_lost_on(path(1));
    assert!(outstanding.has_lost_on(path(1)) && !outstanding.has_lost_on(path(0)));
    assert_eq!(
        outstanding.next_lost_on(path(1)).map(|(tsn, _)| tsn),
        Some(Tsn(FIRST) + 1)
    );
    outstanding.retransmit(Instant::now(), Tsn(FIRST) + 1, path(1));
    assert!(!outstanding.has_lost_on(path(1)));
    let mut moved = Vec::new();
    assert_eq!(outstanding.blocking_path(), Some(path(1)));
    outstanding.reschedule(
        Instant::now(),
        [path(1), path(0)],
        1000,
        |_, moved| !moved,
        |size| moved.push(size),
    );
    assert_eq!(
        moved.len(),
        1,
        "what all others wait for, and not what was moved before"
    );
    assert_eq!(outstanding.blocking_path(), None);
    assert!(outstanding.has_lost_on(path(0)) && !outstanding.has_lost_on(path(1)));
}
