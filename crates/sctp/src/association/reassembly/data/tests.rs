use super::*;
use crate::association::received_tsns::MessageTsns;

const KEY: MessageKey = MessageKey {
    stream: 3,
    unordered: false,
    mid: Mid(9),
};

fn fragment(tsn: u32, bits: &str) -> Fragment {
    Fragment {
        tsn: Tsn(tsn),
        stream: 3,
        mid: Mid(9),
        fsn: 0,
        ppid: 7,
        unordered: false,
        beginning: bits.contains('B'),
        ending: bits.contains('E'),
        payload: Bytes::from(format!("<{tsn}>")),
    }
}

fn range(first: u32, last: u32) -> MessageTsns {
    let (first, last) = (Tsn(first), Tsn(last));
    TsnRange { first, last }.into()
}

fn reassembly(initial: u32) -> DataReassembly {
    DataReassembly::new(Tsn(initial), 1000)
}

fn insert(reassembly: &mut DataReassembly, tsn: u32, bits: &str) {
    let inserted = reassembly.insert(fragment(tsn, bits));
    assert!(inserted.expect("consistent").is_none());
}

#[test]
fn skips_what_is_not_whole_below_a_point() {
    let mut reassembly = reassembly(1);
    for (tsn, bits) in [(1, "B"), (2, ""), (5, ""), (6, "E"), (8, "B"), (9, "")] {
        insert(&mut reassembly, tsn, bits);
    }
    let skipped = reassembly.skip(Tsn(5), Tsn(6), &[]);
    assert_eq!((skipped.bytes, &skipped.handed_out_on[..]), (12, &[][..]));
    assert_eq!(reassembly.fragments(), 2);
    assert!(!reassembly.is_stuck(Tsn(6)));
    assert_eq!(reassembly.skip_fragment(Tsn(7), false, true), None);
    let whole = reassembly.insert(fragment(10, "E")).unwrap().unwrap();
    assert_eq!(&whole.message.payload[..], b"<8><9><10>");
}

#[test]
fn skips_the_rest_of_an_abandoned_message_wherever_it_comes() {
    let mut reassembly = reassembly(u32::MAX - 1);
    insert(&mut reassembly, u32::MAX - 1, "B");
    insert(&mut reassembly, 2, "");
    let skipped = reassembly.skip(Tsn(u32::MAX), Tsn(u32::MAX), &[]);
    assert_eq!(skipped.bytes, 12);
    insert(&mut reassembly, 1, "");
    assert_eq!(reassembly.skip_fragment(Tsn(0), false, false), Some(6));
    assert_eq!(reassembly.fragments(), 0);
    assert_eq!(reassembly.skip_fragment(Tsn(3), false, true), Some(0));
    insert(&mut reassembly, 4, "B");
    assert_eq!(reassembly.skip_fragment(Tsn(5), false, true), None);
}

#[test]
fn tells_that_a_message_handed_out_in_part_is_skipped() {
    let mut reassembly = reassembly(1);
    insert(&mut reassembly, 1, "B");
    insert(&mut reassembly, 2, "");
    assert!(reassembly.take_part(KEY, Tsn(2)).is_some());
    insert(&mut reassembly, 3, "");
    let skipped = reassembly.skip(Tsn(4), Tsn(4), &[]);
    assert_eq!((skipped.bytes, &skipped.handed_out_on[..]), (3, &[3][..]));
    assert!(reassembly.is_empty());
}

#[test]
fn a_message_that_begins_behind_a_point_is_left_alone() {
    let mut reassembly = reassembly(1);
    insert(&mut reassembly, 4, "B");
    assert_eq!(reassembly.skip(Tsn(3), Tsn(4), &[]), Skipped::default());
    assert_eq!(reassembly.skip_fragment(Tsn(5), false, true), None);
    assert!(reassembly.insert(fragment(5, "E")).unwrap().is_some());
}

#[test]
fn completes_whatever_the_order_of_arrival() {
    let parts = [(1, "B"), (2, ""), (3, ""), (4, "E")];
    let orders = [
        [0, 1, 2, 3],
        [3, 2, 1, 0],
        [0, 3, 1, 2],
        [2, 0, 3, 1],
        [1, 3, 0, 2],
    ];
    for order in orders {
        let mut reassembly = reassembly(1);
        let mut message = None;
        for index in order {
            assert!(message.is_none());
            let (tsn, bits) = parts[index];
            message = reassembly.insert(fragment(tsn, bits)).unwrap();
        }
        let CompletedMessage { message, tsns, .. } = message.expect("complete");
        assert_eq!(tsns, range(1, 4));
        assert_eq!(message.payload, "<1><2><3><4>");
        assert_eq!((message.stream, message.ssn, message.ppid), (3, 9, 7));
        assert_eq!(reassembly.fragments(), 0);
    }
}

#[test]
fn joined_fragments_count_as_none_and_lose_nothing() {
    let mut reassembly = reassembly(1);
    for (tsn, bits) in [(1, "B"), (2, ""), (4, "")] {
        assert!(reassembly.insert(fragment(tsn, bits)).unwrap().is_none());
    }
    reassembly.join_fragments(Tsn(2));
    assert_eq!(reassembly.fragments(), 1, "TSN 4 may still be taken back");
    assert!(reassembly.insert(fragment(3, "")).unwrap().is_none());
    assert_eq!(reassembly.fragments(), 2);
    reassembly.join_fragments(Tsn(4));
    assert_eq!((reassembly.fragments(), reassembly.is_empty()), (0, false));
    let completed = reassembly.insert(fragment(5, "E")).unwrap();
    let message = completed.expect("complete").message;
    assert_eq!(message.payload, "<1><2><3><4><5>");
    assert!(reassembly.is_empty());
    // What was handed out before is not there again.
    for (tsn, bits) in [(6, "B"), (7, "")] {
        reassembly.insert(fragment(tsn, bits)).unwrap();
    }
    reassembly.join_fragments(Tsn(7));
    assert_eq!(reassembly.take_part(KEY, Tsn(7)).unwrap().payload, "<6><7>");
    let completed = reassembly.insert(fragment(8, "E")).unwrap();
    assert_eq!(completed.expect("complete").message.payload, "<8>");
    assert_eq!(reassembly.fragments(), 0);
}

#[test]
fn completes_across_the_wrap() {
    let mut reassembly = reassembly(u32::MAX - 1);
    assert!(reassembly.insert(fragment(0, "E")).unwrap().is_none());
    assert!(
        reassembly
            .insert(fragment(u32::MAX - 1, "B"))
            .unwrap()
            .is_none()
    );
    let completed = reassembly.insert(fragment(u32::MAX, "")).unwrap();
    let CompletedMessage { message, tsns, .. } = completed.expect("complete");
    assert_eq!(tsns, range(u32::MAX - 1, 0));
    assert_eq!(message.payload, "<4294967294><4294967295><0>");
}

#[test]
fn hands_out_parts_of_the_message_at_the_cumulative_tsn() {
    let mut reassembly = reassembly(1);
    let part = |reassembly: &mut DataReassembly, cumulative| {
        let part = reassembly.take_part(KEY, Tsn(cumulative))?;
        assert!(!part.end_of_record);
        Some(part.payload)
    };
    for (tsn, bits) in [(1, "B"), (2, ""), (4, "")] {
        assert!(reassembly.insert(fragment(tsn, bits)).unwrap().is_none());
    }
    assert_eq!(reassembly.incomplete(None, Tsn(4)), None, "3 is missing");
    let incomplete = reassembly.incomplete(None, Tsn(2)).expect("it has begun");
    assert_eq!((incomplete.held, incomplete.is_begun), (6, false));
    assert_eq!(part(&mut reassembly, 2).unwrap(), "<1><2>");
    assert_eq!(reassembly.incomplete(None, Tsn(2)), None, "nothing is left");
    assert_eq!(reassembly.fragments(), 1);
    assert!(reassembly.insert(fragment(3, "")).unwrap().is_none());
    assert!(reassembly.incomplete(None, Tsn(4)).unwrap().is_begun);
    assert_eq!(part(&mut reassembly, 4).unwrap(), "<3><4>");
    let completed = reassembly.insert(fragment(5, "E")).unwrap();
    let CompletedMessage {
        message,
        tsns,
        is_rest,
        ..
    } = completed.expect("complete");
    assert_eq!((&message.payload[..], is_rest), (&b"<5>"[..], true));
    assert!(message.end_of_record);
    assert_eq!(tsns, range(1, 5));
    assert_eq!(reassembly.fragments(), 0);
}

#[test]
fn parts_count_towards_the_size_of_the_message() {
    let mut reassembly = DataReassembly::new(Tsn(1), 8);
    reassembly.insert(fragment(1, "B")).unwrap();
    reassembly.insert(fragment(2, "")).unwrap();
    reassembly.take_part(KEY, Tsn(2)).expect("it has begun");
    assert_eq!(
        reassembly.insert(fragment(3, "E")).unwrap_err(),
        ReassemblyError::MessageTooLarge
    );
}

#[test]
fn throws_away_what_is_above_the_cumulative_tsn() {
    let mut reassembly = reassembly(u32::MAX);
    for (tsn, bits) in [(u32::MAX, "B"), (1, ""), (2, "E"), (7, "B")] {
        assert!(reassembly.insert(fragment(tsn, bits)).unwrap().is_none());
    }
    let mut removed = Vec::new();
    reassembly.renege(Tsn(u32::MAX), &mut |tsns, bytes| {
        removed.push((tsns.first.0, tsns.last.0, bytes));
    });
    assert_eq!(removed, [(1, 2, 6), (7, 7, 3)]);
    assert_eq!(reassembly.fragments(), 1);
    for (tsn, bits) in [(0, ""), (1, "")] {
        assert!(reassembly.insert(fragment(tsn, bits)).unwrap().is_none());
    }
    assert!(reassembly.insert(fragment(2, "E")).unwrap().is_some());
}

#[test]
fn keeps_neighbouring_messages_apart() {
    let mut reassembly = reassembly(1);
    assert!(reassembly.insert(fragment(2, "E")).unwrap().is_none());
    assert!(reassembly.insert(fragment(3, "B")).unwrap().is_none());
    assert!(reassembly.insert(fragment(1, "B")).unwrap().is_some());
    assert!(reassembly.insert(fragment(4, "E")).unwrap().is_some());
}

#[test]
fn refuses_fragments_that_do_not_fit_their_neighbours() {
    let other_stream = Fragment {
        stream: 4,
        ..fragment(2, "")
    };
    for wrong in [fragment(2, "B"), other_stream] {
        let mut reassembly = reassembly(1);
        reassembly.insert(fragment(1, "B")).unwrap();
        assert_eq!(
            reassembly.insert(wrong).unwrap_err(),
            ReassemblyError::Inconsistent
        );
    }
    let mut reassembly = reassembly(1);
    reassembly.insert(fragment(3, "")).unwrap();
    assert_eq!(
        reassembly.insert(fragment(2, "E")).unwrap_err(),
        ReassemblyError::Inconsistent
    );
}

#[test]
fn refuses_a_message_that_is_too_large() {
    let mut reassembly = DataReassembly::new(Tsn(1), 5);
    reassembly.insert(fragment(1, "B")).unwrap();
    assert_eq!(
        reassembly.insert(fragment(2, "")).unwrap_err(),
        ReassemblyError::MessageTooLarge
    );
}

#[test]
fn notices_what_can_never_be_completed() {
    let mut reassembly = reassembly(1);
    reassembly.insert(fragment(5, "")).unwrap();
    assert!(!reassembly.is_stuck(Tsn(3)));
    assert!(reassembly.is_stuck(Tsn(5)), "TSN 4 was something else");
}
