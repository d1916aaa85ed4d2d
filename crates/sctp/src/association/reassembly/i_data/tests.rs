use super::*;
use crate::association::streams::InboundStreams;

const KEY: MessageKey = MessageKey {
    stream: 3,
    unordered: false,
    mid: Mid(0),
};

fn reassembly(initial: u32) -> IDataReassembly {
    IDataReassembly::new(Tsn(initial), 1000)
}

/// A fragment of the message `KEY`.
fn fragment(tsn: u32, fsn: u32, bits: &str) -> Fragment {
    fragment_of(KEY, tsn, fsn, bits)
}

fn fragment_of(message: MessageKey, tsn: u32, fsn: u32, bits: &str) -> Fragment {
    Fragment {
        tsn: Tsn(tsn),
        stream: message.stream,
        mid: message.mid,
        fsn,
        ppid: if bits.contains('B') { 7 } else { 0 },
        unordered: message.unordered,
        beginning: bits.contains('B'),
        ending: bits.contains('E'),
        payload: Bytes::from(format!("<{fsn}>")),
    }
}

fn tsns(numbers: &[u32]) -> MessageTsns {
    let mut tsns = MessageTsns::default();
    for number in numbers {
        tsns.push(Tsn(*number));
    }
    tsns
}

#[test]
fn completes_whatever_the_order_of_arrival_and_of_tsns() {
    // The sender may give TSNs as it likes.
    let parts = [(9, 0, "B"), (4, 1, ""), (5, 2, ""), (u32::MAX, 3, "E")];
    for order in [
        [0, 1, 2, 3],
        [3, 2, 1, 0],
        [0, 3, 1, 2],
        [2, 0, 3, 1],
        [1, 3, 0, 2],
    ] {
        let mut reassembly = reassembly(1);
        let mut message = None;
        for index in order {
            assert!(message.is_none());
            let (tsn, fsn, bits) = parts[index];
            message = reassembly.insert(fragment(tsn, fsn, bits)).unwrap();
        }
        let completed = message.expect("complete");
        assert_eq!(completed.message.payload, "<0><1><2><3>");
        assert_eq!((completed.message.stream, completed.message.ppid), (3, 7));
        assert_eq!((completed.mid, completed.is_rest), (Mid(0), false));
        assert_eq!(completed.tsns, tsns(&[u32::MAX, 4, 5, 9]));
        assert_eq!((reassembly.fragments(), reassembly.is_empty()), (0, true));
    }
}

#[test]
fn keeps_streams_orders_and_numbers_apart() {
    let messages = [
        KEY,
        MessageKey { stream: 4, ..KEY },
        MessageKey {
            unordered: true,
            ..KEY
        },
        MessageKey {
            mid: Mid(u32::MAX),
            ..KEY
        },
    ];
    let mut reassembly = reassembly(0);
    for (tsn, message) in (0..).zip(messages) {
        let begun = reassembly.insert(fragment_of(message, tsn, 0, "B"));
        assert!(begun.unwrap().is_none());
    }
    assert_eq!(reassembly.fragments(), 4);
    for (tsn, message) in (4..).zip(messages) {
        let completed = reassembly.insert(fragment_of(message, tsn, 1, "E"));
        let completed = completed.unwrap().expect("complete");
        assert_eq!(completed.mid, message.mid);
        assert_eq!(completed.message.ssn, message.mid.0 as u16);
        assert_eq!(completed.message.unordered, message.unordered);
        assert_eq!(completed.message.stream, message.stream);
    }
    assert!(reassembly.is_empty());
}

#[test]
fn refuses_fragments_that_contradict_each_other() {
    let contradictions: [&[(u32, &str)]; 9] = [
        &[(0, "B"), (0, "B")],
        &[(0, "B"), (1, ""), (0, "B")],
        &[(2, ""), (2, "")],
        &[(2, "E"), (3, "")],
        &[(3, ""), (2, "E")],
        &[(2, "E"), (3, "E")],
        &[(2, "E"), (1, "E")],
        &[(2, "E"), (2, "")],
        &[(0, "")],
    ];
    for fragments in contradictions {
        let mut reassembly = reassembly(0);
        let (last, before) = fragments.split_last().unwrap();
        for (tsn, (fsn, bits)) in (0..).zip(before) {
            let taken = reassembly.insert(fragment(tsn, *fsn, bits));
            assert!(taken.unwrap().is_none(), "{fragments:?}");
        }
        let refused = reassembly.insert(fragment(99, last.0, last.1));
        assert_eq!(
            refused.unwrap_err(),
            ReassemblyError::Inconsistent,
            "{fragments:?}"
        );
    }
}

#[test]
fn fragment_numbers_go_around() {
    let mut message = FragmentedMessage {
        next: u64::from(u32::MAX),
        handed_out: 1,
        ..FragmentedMessage::default()
    };
    for (fsn, bits) in [(1, "E"), (u32::MAX, ""), (0, "")] {
        assert!(!message.is_whole());
        message.insert(fragment(fsn, fsn, bits), 1).unwrap();
    }
    assert!(message.is_whole());
    assert_eq!(message.take_part(u64::MAX), "<4294967295><0><1>");
}

#[test]
fn refuses_a_message_that_is_too_large() {
    let mut reassembly = IDataReassembly::new(Tsn(0), 8);
    assert!(reassembly.insert(fragment(0, 0, "B")).is_ok());
    assert!(reassembly.insert(fragment(1, 7, "")).is_ok());
    assert!(reassembly.take_part(KEY, Tsn(1)).is_some());
    let refused = reassembly.insert(fragment(2, 1, ""));
    assert_eq!(refused.unwrap_err(), ReassemblyError::MessageTooLarge);
}

#[test]
fn hands_out_parts_from_the_beginning_on() {
    let mut reassembly = reassembly(0);
    for (tsn, fsn, bits) in [(0, 1, ""), (1, 3, "E")] {
        assert!(
            reassembly
                .insert(fragment(tsn, fsn, bits))
                .unwrap()
                .is_none()
        );
        assert_eq!(reassembly.incomplete(Some(KEY), Tsn(tsn)), None);
    }
    reassembly.insert(fragment(2, 0, "B")).unwrap();
    let incomplete = reassembly.incomplete(Some(KEY), Tsn(2)).unwrap();
    assert_eq!((incomplete.held, incomplete.is_begun), (6, false));
    assert_eq!(reassembly.incomplete(None, Tsn(2)), None);
    let part = reassembly.take_part(KEY, Tsn(2)).unwrap();
    assert_eq!((&part.payload[..], part.ppid), (&b"<0><1>"[..], 7));
    assert!(!part.end_of_record);
    assert!(reassembly.take_part(KEY, Tsn(2)).is_none());
    let completed = reassembly.insert(fragment(3, 2, "")).unwrap();
    let completed = completed.expect("complete");
    assert!(completed.is_rest && completed.message.end_of_record);
    assert_eq!(completed.message.payload, "<2><3>");
    assert_eq!(completed.tsns, MessageTsns::default(), "a part is gone");
}

#[test]
fn of_the_parts_that_may_be_delivered_the_largest_is_chosen() {
    let mut reassembly = reassembly(0);
    let mut streams = InboundStreams::new(10, true);
    let ordered = |stream, mid| MessageKey {
        stream,
        unordered: false,
        mid: Mid(mid),
    };
    let unordered = MessageKey {
        unordered: true,
        ..ordered(5, 9)
    };
    assert_eq!(reassembly.largest_part(Tsn(0), &streams), None);
    // It is not the turn of the first; the beginning of the last is missing.
    for (tsn, message, fragments) in [
        (0, ordered(1, 1), 0..5),
        (10, ordered(2, 0), 0..2),
        (20, unordered, 0..3),
        (30, ordered(7, 0), 1..9),
    ] {
        for fsn in fragments {
            let bits = if fsn == 0 { "B" } else { "" };
            let fragment = fragment_of(message, tsn + fsn, fsn, bits);
            reassembly.insert(fragment).unwrap();
        }
    }
    let mut take = |streams: &mut InboundStreams| {
        let largest = reassembly.largest_part(Tsn(40), streams)?;
        let part = reassembly.take_part(largest, Tsn(40)).unwrap();
        streams.push_part(largest, part, true);
        Some(largest)
    };
    assert_eq!(take(&mut streams), Some(unordered));
    assert_eq!(take(&mut streams), Some(ordered(2, 0)));
    assert_eq!(take(&mut streams), None);
}

#[test]
fn joined_fragments_count_as_one_and_lose_nothing() {
    let mut reassembly = reassembly(0);
    let other = MessageKey { stream: 4, ..KEY };
    for fsn in 0..5 {
        let bits = if fsn == 0 { "B" } else { "" };
        reassembly.insert(fragment(2 * fsn, fsn, bits)).unwrap();
        let of_other = fragment_of(other, 2 * fsn + 1, fsn, bits);
        reassembly.insert(of_other).unwrap();
    }
    reassembly.insert(fragment(20, 6, "E")).unwrap();
    assert_eq!(reassembly.fragments(), 11);
    reassembly.join_fragments(Tsn(9));
    assert_eq!(reassembly.fragments(), 2);
    reassembly.renege(Tsn(0), &mut |tsns, bytes| {
        assert_eq!((tsns.first, bytes), (Tsn(20), 3), "joined ones stay");
    });
    assert_eq!(reassembly.fragments(), 2);
    let completed = reassembly.insert(fragment(21, 5, "E")).unwrap();
    let completed = completed.expect("complete");
    assert_eq!(completed.message.payload, "<0><1><2><3><4><5>");
    assert_eq!(completed.tsns, MessageTsns::default());
    assert_eq!(reassembly.fragments(), 1);
}

#[test]
fn throws_away_what_is_above_a_tsn() {
    let mut reassembly = reassembly(0);
    let other = MessageKey { stream: 4, ..KEY };
    for (tsn, fsn, bits) in [(1, 0, "B"), (8, 1, ""), (2, 2, ""), (9, 3, "E")] {
        // The last one comes last and would complete it.
        if bits != "E" {
            reassembly.insert(fragment(tsn, fsn, bits)).unwrap();
        }
    }
    reassembly.insert(fragment_of(other, 7, 5, "E")).unwrap();
    let mut offsets = reassembly.offsets_above(Tsn(1));
    offsets.sort_unstable();
    assert_eq!(offsets, [1, 6, 7]);
    let mut removed = Vec::new();
    reassembly.renege(Tsn(2), &mut |tsns, bytes| {
        assert_eq!(tsns.first, tsns.last);
        removed.push((tsns.first.0, bytes));
    });
    removed.sort_unstable();
    assert_eq!(removed, [(7, 3), (8, 3)]);
    assert_eq!(reassembly.fragments(), 2, "the other message is forgotten");
    let incomplete = reassembly.incomplete(Some(KEY), Tsn(2)).unwrap();
    assert_eq!(incomplete.held, 3);
    for (tsn, fsn, bits) in [(9, 3, "E"), (8, 1, "")] {
        let completed = reassembly.insert(fragment(tsn, fsn, bits)).unwrap();
        assert_eq!(completed.is_some(), fsn == 1);
    }
    assert!(reassembly.is_empty());
}

#[test]
fn the_end_of_a_message_may_be_taken_back_and_be_another() {
    let mut reassembly = reassembly(0);
    reassembly.insert(fragment(5, 3, "E")).unwrap();
    reassembly.insert(fragment(1, 0, "B")).unwrap();
    reassembly.renege(Tsn(1), &mut |_, _| {});
    assert_eq!(reassembly.fragments(), 1);
    assert!(reassembly.insert(fragment(5, 3, "")).unwrap().is_none());
    assert!(reassembly.insert(fragment(6, 4, "E")).unwrap().is_none());
}

/// Section 2.3.1.
#[test]
fn skips_messages_up_to_a_number() {
    let mut reassembly = reassembly(0);
    let message = |unordered, mid| MessageKey {
        stream: 3,
        unordered,
        mid: Mid(mid),
    };
    for (tsn, key) in (0..).zip([
        message(false, u32::MAX),
        message(false, 0),
        message(false, 1),
        message(false, 2),
        message(true, 0),
        MessageKey {
            stream: 2,
            ..message(false, 0)
        },
    ]) {
        reassembly.insert(fragment_of(key, tsn, 0, "B")).unwrap();
    }
    assert!(reassembly.take_part(message(false, 0), Tsn(5)).is_some());
    let skipped = reassembly.skip(Tsn(9), Tsn(9), &[message(false, 1)]);
    assert_eq!((skipped.bytes, &skipped.handed_out_on[..]), (6, &[3][..]));
    assert_eq!(reassembly.fragments(), 3);
    let again = reassembly.skip(Tsn(9), Tsn(9), &[message(false, 1)]);
    assert_eq!(again, Skipped::default());
    for last in [message(false, 2), message(true, 7)] {
        assert_eq!(reassembly.skip(Tsn(9), Tsn(9), &[last]).bytes, 3);
    }
    assert_eq!(reassembly.fragments(), 1);
    assert_eq!(reassembly.offsets_above(Tsn(0)), [5]);
}

#[test]
fn each_fragment_is_looked_at_once_to_find_how_large_a_part_is() {
    let mut reassembly = reassembly(0);
    let held = |reassembly: &mut IDataReassembly, tsn| {
        let incomplete = reassembly.incomplete(Some(KEY), Tsn(tsn));
        incomplete.map_or(0, |incomplete| incomplete.held)
    };
    let reached = |reassembly: &IDataReassembly| reassembly.messages[&sorted(KEY)].reached;
    for fsn in 0..10 {
        let bits = if fsn == 0 { "B" } else { "" };
        reassembly.insert(fragment(fsn, fsn, bits)).unwrap();
        assert_eq!(reached(&reassembly), fsn as usize);
        assert_eq!(held(&mut reassembly, fsn), 3 * (fsn as usize + 1));
    }
    reassembly.insert(fragment(11, 10, "")).unwrap();
    assert_eq!(held(&mut reassembly, 10), 30, "the last is above");
    reassembly.renege(Tsn(10), &mut |_, _| {});
    assert_eq!(held(&mut reassembly, 10), 30);
    let part = reassembly.take_part(KEY, Tsn(10)).unwrap();
    assert_eq!(part.payload.len(), 30);
    assert_eq!((held(&mut reassembly, 10), reached(&reassembly)), (0, 0));
    for fsn in 10..13 {
        reassembly.insert(fragment(fsn + 1, fsn, "")).unwrap();
    }
    assert_eq!(held(&mut reassembly, 12), 8);
    reassembly.join_fragments(Tsn(12));
    assert_eq!((held(&mut reassembly, 12), reached(&reassembly)), (12, 0));
}

/// Nothing else of its stream may come before its end.
#[test]
fn the_rest_of_a_begun_message_is_not_hidden_by_one_before_it() {
    let mut reassembly = reassembly(0);
    let mut streams = InboundStreams::new(10, true);
    let unordered = |mid| MessageKey {
        unordered: true,
        mid: Mid(mid),
        ..KEY
    };
    let begun = unordered(9);
    reassembly.insert(fragment_of(begun, 0, 0, "B")).unwrap();
    let part = reassembly.take_part(begun, Tsn(0)).unwrap();
    streams.push_part(begun, part, true);
    let before = fragment_of(unordered(3), 1, 0, "B");
    reassembly.insert(before).unwrap();
    assert_eq!(reassembly.largest_part(Tsn(1), &streams), None);
    reassembly.insert(fragment_of(begun, 2, 1, "")).unwrap();
    assert_eq!(reassembly.largest_part(Tsn(2), &streams), Some(begun));
}
