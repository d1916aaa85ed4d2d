use bytes::BytesMut;

use super::*;
use crate::packet::{Chunk, Data, GapAckBlock, Mid, Packet, SkippedMid, Ssn};

fn config() -> AssociationConfig {
    AssociationConfig::default().a_rwnd(4000).mtu(500)
}

fn receiver() -> Receiver {
    Receiver::new(Tsn(1), 10, false, &config())
}

fn receive(receiver: &mut Receiver, tsn: u32, bytes: usize) -> Result<Reception, FatalData> {
    receive_as(receiver, tsn, bytes, |_| {})
}

/// Wraps a chunk into a packet, for the payload must lie in one.
fn receive_as(
    receiver: &mut Receiver,
    tsn: u32,
    bytes: usize,
    change: impl FnOnce(&mut Data<'_>),
) -> Result<Reception, FatalData> {
    let payload = vec![7; bytes];
    let mut data = Data {
        beginning: true,
        ending: true,
        unordered: true,
        tsn: Tsn(tsn),
        user_data: &payload,
        ..Data::default()
    };
    change(&mut data);
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 65_535);
    writer.data(&data).unwrap();
    let packet = writer.finish();
    let parsed = Packet::read(&packet).unwrap();
    let Some(Ok(Chunk::Data(data))) = parsed.chunks().next() else {
        panic!("a DATA chunk was written");
    };
    receiver.handle_data(
        &(&data).into(),
        &packet,
        PathId::FIRST,
        usize::MAX,
        &config(),
    )
}

fn sack_of(receiver: &mut Receiver) -> (u32, u32, usize) {
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 500);
    assert!(receiver.write_sack(&mut writer, usize::MAX, &config()));
    let packet = writer.finish();
    let Some(Ok(Chunk::Sack(sack))) = Packet::read(&packet).unwrap().chunks().next() else {
        panic!("a SACK was written");
    };
    (
        sack.cumulative_tsn_ack.0,
        sack.a_rwnd,
        sack.gap_ack_blocks.len(),
    )
}

#[test]
fn advertises_what_room_is_left_and_says_when_it_opens() {
    let mut receiver = receiver();
    for tsn in 1..=3 {
        assert_eq!(receive(&mut receiver, tsn, 1000), Ok(Reception::Accepted));
    }
    receiver.end_packet(Instant::now(), &config());
    assert_eq!(sack_of(&mut receiver), (3, 1000, 0));
    assert_eq!(receive(&mut receiver, 4, 800), Ok(Reception::Accepted));
    assert_eq!(sack_of(&mut receiver), (4, 200, 0), "the end stays");
    assert!(!receiver.sack_is_due());
    assert!(receiver.receive(usize::MAX, &config()).is_some());
    assert!(receiver.sack_is_due(), "a quarter has opened");
    assert_eq!(sack_of(&mut receiver), (4, 1200, 0));
}

/// A message before it has moved the end of the window by less than is worth telling.
#[test]
fn takes_the_last_piece_of_a_message_as_large_as_the_window() {
    let mut receiver = receiver();
    assert_eq!(receive(&mut receiver, 1, 300), Ok(Reception::Accepted));
    assert!(receiver.receive(usize::MAX, &config()).is_some());
    for (tsn, bytes) in [(2, 1900), (3, 1900), (4, 200)] {
        let result = receive_as(&mut receiver, tsn, bytes, |data| {
            data.beginning = tsn == 2;
            data.ending = tsn == 4;
        });
        assert_eq!(result, Ok(Reception::Accepted), "TSN {tsn}");
        receiver.end_packet(Instant::now(), &config());
        sack_of(&mut receiver);
    }
    let message = receiver.receive(usize::MAX, &config());
    assert_eq!(message.map(|message| message.payload.len()), Some(4000));
}

#[test]
fn drops_what_is_beyond_the_window_but_takes_what_fills_a_hole() {
    let mut receiver = receiver();
    assert_eq!(receive(&mut receiver, 2, 4000), Ok(Reception::Accepted));
    assert_eq!(receive(&mut receiver, 3, 10), Ok(Reception::NoRoom));
    receiver.end_packet(Instant::now(), &config());
    assert!(receiver.sack_is_due());
    assert_eq!(sack_of(&mut receiver), (0, 0, 1));
    assert_eq!(receive(&mut receiver, 1, 10), Ok(Reception::Accepted));
    assert_eq!(receiver.cumulative(), Tsn(2));
}

#[test]
fn bounds_what_fills_holes_too() {
    let mut receiver = receiver();
    assert_eq!(receive(&mut receiver, 100, 1000), Ok(Reception::Accepted));
    let accepted = (1..100)
        .filter(|tsn| receive(&mut receiver, *tsn, 1000) == Ok(Reception::Accepted))
        .count();
    assert_eq!(accepted, 7);
    assert_eq!(receiver.buffered(), 8000);
}

#[test]
fn gives_up_the_largest_tsns_for_what_fills_a_hole() {
    let mut receiver = receiver();
    let ordered = |tsn: u32| {
        move |data: &mut Data<'_>| {
            data.unordered = false;
            data.ssn = Ssn(tsn as u16 - 1);
        }
    };
    for tsn in [10, 9, 8, 7, 6, 5, 4, 3] {
        let result = receive_as(&mut receiver, tsn, 1000, ordered(tsn));
        assert_eq!(result, Ok(Reception::Accepted));
    }
    assert_eq!(receiver.buffered(), 8000);
    assert_eq!(receiver.take_reneged(), 0);
    for tsn in [2, 1] {
        let result = receive_as(&mut receiver, tsn, 1000, ordered(tsn));
        assert_eq!(result, Ok(Reception::Accepted));
    }
    assert_eq!(receiver.buffered(), 8000);
    assert_eq!(receiver.take_reneged(), 2);
    assert_eq!(sack_of(&mut receiver).0, 8, "9 and 10 are to be sent again");
}

/// Else each small chunk that fills a hole would make us look at all that is held.
#[test]
fn gives_up_a_part_of_many_small_messages_at_a_time() {
    let mut receiver = receiver();
    let mut ordered = |tsn: u32, bytes| {
        let result = receive_as(&mut receiver, tsn, bytes, |data| {
            data.unordered = false;
            data.ssn = Ssn(tsn as u16);
        });
        assert_eq!(result, Ok(Reception::Accepted));
        receiver.take_reneged()
    };
    let reneged: u64 = (400..=799).rev().map(|tsn| ordered(tsn, 20)).sum();
    assert_eq!(reneged, 0);
    assert_eq!(ordered(399, 20), 26, "every sixteenth of them, and one");
    assert_eq!(ordered(398, 20), 0);
    assert_eq!(receiver.buffered(), 20 * 376);
}

#[test]
fn acknowledges_and_drops_data_on_streams_that_do_not_exist() {
    let mut receiver = receiver();
    let reception = receive_as(&mut receiver, 1, 10, |data| data.stream = 10);
    assert_eq!(reception, Ok(Reception::InvalidStream));
    assert_eq!(receiver.cumulative(), Tsn(1));
    assert_eq!(receiver.buffered(), 0);
}

#[test]
fn refuses_fatal_chunks() {
    let mut receiver = receiver();
    assert_eq!(receive(&mut receiver, 1, 0), Err(FatalData::NoUserData));
    let ordered = |data: &mut Data<'_>| data.unordered = false;
    receive_as(&mut receiver, 1, 10, ordered).unwrap();
    assert!(matches!(
        receive_as(&mut receiver, 2, 10, ordered),
        Err(FatalData::Violation(_))
    ));
    let mut receiver = self::receiver();
    receive_as(&mut receiver, 1, 10, |data| data.ending = false).unwrap();
    assert!(matches!(
        receive(&mut receiver, 2, 10),
        Err(FatalData::Violation(_))
    ));
}

#[test]
fn says_once_that_it_is_readable() {
    let mut receiver = receiver();
    receive(&mut receiver, 1, 10).unwrap();
    assert!(receiver.take_readable());
    receive(&mut receiver, 2, 10).unwrap();
    assert!(!receiver.take_readable());
    assert!(receiver.receive(usize::MAX, &config()).is_some());
    assert!(receiver.receive(usize::MAX, &config()).is_some());
    assert!(receiver.receive(usize::MAX, &config()).is_none());
    receive(&mut receiver, 3, 10).unwrap();
    assert!(receiver.take_readable());
}

#[test]
fn does_not_hold_a_large_packet_for_a_small_chunk() {
    let mut receiver = receiver();
    let payload = vec![7; 1000];
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 65_535);
    for (tsn, size) in [(1, 1), (2, 999)] {
        let data = Data {
            beginning: true,
            ending: true,
            tsn: Tsn(tsn),
            ssn: Ssn(tsn as u16 - 1),
            user_data: &payload[..size],
            ..Data::default()
        };
        writer.data(&data).unwrap();
    }
    let packet = writer.finish();
    for chunk in Packet::read(&packet).unwrap().chunks() {
        let Ok(Chunk::Data(data)) = chunk else {
            panic!("a DATA chunk was written");
        };
        receiver
            .handle_data(
                &(&data).into(),
                &packet,
                PathId::FIRST,
                usize::MAX,
                &config(),
            )
            .unwrap();
    }
    let range = packet.as_ptr_range();
    let small = receiver.receive(usize::MAX, &config()).unwrap();
    let large = receiver.receive(usize::MAX, &config()).unwrap();
    assert!(!range.contains(&small.payload.as_ptr()));
    assert!(range.contains(&large.payload.as_ptr()));
}

/// First and last offset of each block.
type Blocks = Vec<(u16, u16)>;

/// The Cumulative TSN Ack of an NR-SACK, and its blocks of both kinds.
fn nr_sack_of(receiver: &mut Receiver) -> (u32, Blocks, Blocks) {
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 500);
    assert!(receiver.write_sack(&mut writer, usize::MAX, &config()));
    let packet = writer.finish();
    let Some(Ok(Chunk::NrSack(nr_sack))) = Packet::read(&packet).unwrap().chunks().next() else {
        panic!("an NR-SACK was written");
    };
    let ends = |block: GapAckBlock| (block.start, block.end);
    (
        nr_sack.cumulative_tsn_ack.0,
        nr_sack.gap_ack_blocks.iter().map(ends).collect(),
        nr_sack.nr_gap_ack_blocks.iter().map(ends).collect(),
    )
}

#[test]
fn what_is_told_as_kept_is_never_taken_back() {
    let mut receiver = receiver();
    let mut extensions = Extensions::NONE;
    extensions.nr_sack = true;
    receiver.agree_on(extensions, &config());
    for tsn in 2..=5 {
        let received = receive_as(&mut receiver, tsn, 100, |data| {
            data.unordered = tsn % 2 == 0;
            data.ssn = Ssn(tsn as u16);
        });
        assert_eq!(received, Ok(Reception::Accepted));
    }
    let kept = vec![(2, 2), (4, 4)];
    assert_eq!(
        nr_sack_of(&mut receiver),
        (0, vec![(3, 3), (5, 5)], kept.clone())
    );
    assert_eq!(receiver.renege(), 2);
    assert_eq!(nr_sack_of(&mut receiver), (0, vec![], kept));
    assert_eq!(receive(&mut receiver, 1, 100), Ok(Reception::Accepted));
    assert_eq!(nr_sack_of(&mut receiver), (2, vec![], vec![(2, 2)]));
}

/// Gives an I-FORWARD-TSN.
fn skip(receiver: &mut Receiver, point: u32, skipped: &[SkippedMid]) {
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 500);
    writer
        .i_forward_tsn(Tsn(point), skipped.iter().copied())
        .unwrap();
    let packet = writer.finish();
    let Some(Ok(Chunk::IForwardTsn(chunk))) = Packet::read(&packet).unwrap().chunks().next() else {
        panic!("an I-FORWARD-TSN was written");
    };
    receiver.skip(&(&chunk).into(), PathId::FIRST, usize::MAX, &config());
}

/// To look is to go through all streams that have a part.
#[test]
fn a_part_is_looked_for_again_only_where_skipping_may_have_made_it_the_turn_of_one() {
    let mut receiver = Receiver::new(Tsn(1), 10, true, &config());
    let ordered = [SkippedMid {
        stream: 1,
        unordered: false,
        mid: Mid(0),
    }];
    receiver.record(Tsn(8));
    for (point, skipped, looks) in [
        (5, &[][..], false),
        // What was held is now below the cumulative TSN.
        (7, &[], true),
        (9, &ordered, true),
        (10, &ordered, false),
    ] {
        receiver.no_part_is_next = true;
        skip(&mut receiver, point, skipped);
        assert_eq!(!receiver.no_part_is_next, looks, "TSN {point}");
    }
    receiver.no_part_is_next = true;
    receiver.reset_streams(&StreamSet::All).unwrap();
    assert!(!receiver.no_part_is_next);
}
