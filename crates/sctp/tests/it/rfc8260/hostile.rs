//! What a peer must not do (section 2.2.3), and how much it can make us hold (section 6).

use sctp::packet::{Cause, Chunk, ChunkType, Fragment, IData};
use sctp::{AssociationState, EndpointConfig};

use super::{connected, interleaving, message, partially_reliable};
use crate::common::{Pair, ordered};
use crate::rfc9260::scripted::{PEER_TSN, Scripted, chunks, message as data_message, raw};

/// The reason of the ABORT that ended the association.
fn violation(scripted: &mut Scripted) -> String {
    let packets = scripted.take();
    let abort = packets
        .iter()
        .flat_map(chunks)
        .find_map(|chunk| match chunk {
            Chunk::Abort(abort) => Some(abort),
            _ => None,
        });
    let causes = abort.expect("an ABORT").causes;
    let Some(Ok(Cause::ProtocolViolation(reason))) = causes.iter().next() else {
        panic!("a protocol violation is told");
    };
    assert_eq!(scripted.state(), AssociationState::Closed);
    String::from_utf8_lossy(reason).into_owned()
}

#[test]
fn data_where_i_data_was_agreed_on_ends_the_association() {
    let mut scripted = connected(interleaving(), &[ChunkType::I_DATA]);
    scripted.give(&[Chunk::Data(data_message(0, b"x"))]);
    assert_eq!(violation(&mut scripted), "DATA in place of I-DATA");
}

#[test]
fn i_data_where_it_was_not_agreed_on_ends_the_association() {
    for (config, offered) in [
        (EndpointConfig::default(), &[ChunkType::I_DATA][..]),
        (interleaving(), &[]),
    ] {
        let mut scripted = connected(config, offered);
        scripted.give(&[Chunk::IData(message(0, 0, b"x"))]);
        assert_eq!(violation(&mut scripted), "I-DATA in place of DATA");
    }
}

#[test]
fn a_number_used_twice_ends_the_association() {
    for (first, second, fragment) in [
        (0, 0, Fragment::First { ppid: 0 }),
        // Far behind, by serial number arithmetic.
        (0, (1 << 31) + 2, Fragment::First { ppid: 0 }),
        (5, 5, Fragment::First { ppid: 0 }),
        (0, 0, Fragment::Later { fsn: 3 }),
    ] {
        let mut scripted = connected(interleaving(), &[ChunkType::I_DATA]);
        scripted.give(&[Chunk::IData(message(0, first, b"x"))]);
        assert_eq!(scripted.receive().len(), usize::from(first == 0));
        scripted.give(&[Chunk::IData(IData {
            fragment,
            ..message(1, second, b"y")
        })]);
        assert_eq!(
            violation(&mut scripted),
            "the number of a message used twice"
        );
    }
}

#[test]
fn messages_far_ahead_wait_for_their_turn() {
    let mut scripted = connected(interleaving(), &[ChunkType::I_DATA]);
    for (number, mid) in [(0, u32::MAX >> 1), (1, 70_000), (2, 1)] {
        scripted.give(&[Chunk::IData(message(number, mid, b"x"))]);
    }
    assert!(scripted.receive().is_empty());
    scripted.give(&[Chunk::IData(message(3, 0, b"x"))]);
    assert_eq!(scripted.receive().len(), 2);
    assert_eq!(scripted.status().pending_receipt, 2);
    assert_eq!(scripted.state(), AssociationState::Established);
}

#[test]
fn fragments_that_contradict_each_other_end_the_association() {
    let mut scripted = connected(interleaving(), &[ChunkType::I_DATA]);
    let fragment = |number, fsn, ending| IData {
        fragment: Fragment::Later { fsn },
        ending,
        ..message(number, 0, b"x")
    };
    scripted.give(&[Chunk::IData(fragment(0, 3, true))]);
    scripted.give(&[Chunk::IData(fragment(1, 4, false))]);
    assert_eq!(
        violation(&mut scripted),
        "fragments that contradict each other"
    );
}

/// Section 6: each begun message takes memory, however small its fragments are.
#[test]
fn messages_that_are_begun_and_never_ended_are_bounded_and_counted() {
    const MOST: usize = 100;
    let config = interleaving().max_received_messages(MOST);
    let mut scripted = connected(config, &[ChunkType::I_DATA]);
    for number in 0..2 * MOST as u32 {
        // Not their turn, so no part of them could make room.
        scripted.give(&[Chunk::IData(IData {
            ending: false,
            ..message(number + 1, number + 1, b"x")
        })]);
        if scripted.state() == AssociationState::Closed {
            break;
        }
        assert!(scripted.status().pending_receipt <= MOST);
        scripted.take();
    }
    assert!(scripted.endpoint.statistics().drops.data_no_room >= MOST as u64 - 1);
    // What is missing still comes in.
    scripted.give(&[Chunk::IData(message(0, 0, b"y"))]);
    let received = scripted.receive();
    assert_eq!(received[0].payload, "y");
    assert!(received[0].end_of_record);
    // Now it is the turn of the next one, and there is no room to wait for its end.
    assert!(received[1..].iter().all(|part| !part.end_of_record));
}

/// Where nothing that is held can ever be delivered, the association ends.
#[test]
fn begun_messages_that_fill_everything_end_the_association() {
    let config = interleaving().max_received_messages(50);
    let mut scripted = connected(config, &[ChunkType::I_DATA]);
    for number in 0..60 {
        scripted.give(&[Chunk::IData(IData {
            ending: false,
            ..message(number, number + 1, b"x")
        })]);
    }
    assert_eq!(scripted.state(), AssociationState::Closed);
    assert_eq!(scripted.endpoint.association_count(), 0);
}

/// The fragments of honest messages may be more than may be held: they are joined.
#[test]
fn small_fragments_of_large_messages_are_joined() {
    let config = interleaving().max_received_messages(40);
    let mut scripted = connected(config, &[ChunkType::I_DATA]);
    let mut number = 0;
    for fsn in 0..100 {
        for stream in 0..10 {
            let fragment = match fsn {
                0 => Fragment::First { ppid: 9 },
                fsn => Fragment::Later { fsn },
            };
            scripted.give(&[Chunk::IData(IData {
                stream,
                fragment,
                ending: fsn == 99,
                ..message(number, 0, b"x")
            })]);
            number += 1;
            scripted.take();
        }
    }
    let received = scripted.receive();
    assert_eq!(received.len(), 10);
    assert!(received.iter().all(|one| one.payload.len() == 100));
}

#[test]
fn an_empty_i_data_chunk_ends_the_association() {
    let mut scripted = connected(interleaving(), &[ChunkType::I_DATA]);
    scripted.give(&[Chunk::IData(message(0, 0, b""))]);
    assert_eq!(scripted.state(), AssociationState::Closed);
}

#[test]
fn i_data_on_a_stream_that_there_is_not_is_reported() {
    let mut scripted = connected(interleaving(), &[ChunkType::I_DATA]);
    scripted.give(&[Chunk::IData(IData {
        stream: 5000,
        ..message(0, 0, b"x")
    })]);
    let packets = scripted.take();
    let mut found = packets.iter().flat_map(chunks);
    assert!(found.any(|chunk| matches!(chunk, Chunk::Error(_))));
    assert_eq!(scripted.state(), AssociationState::Established);
}

/// Late fragments of messages that the peer has skipped do no harm, and take no room.
#[test]
fn late_fragments_of_skipped_messages_are_dropped() {
    let config = partially_reliable();
    let both = [
        ChunkType::I_DATA,
        ChunkType::I_FORWARD_TSN,
        ChunkType::FORWARD_TSN,
    ];
    let mut scripted = connected(config, &both);
    scripted.give(&[Chunk::IData(IData {
        ending: false,
        ..message(0, 0, b"x")
    })]);
    let [a, b, c, d] = (PEER_TSN + 1).0.to_be_bytes();
    let tag = scripted.tag;
    let skips = [
        ChunkType::I_FORWARD_TSN.0,
        0,
        0,
        16,
        a,
        b,
        c,
        d,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    scripted.give_packet(raw(tag, &skips));
    scripted.give(&[Chunk::IData(IData {
        fragment: Fragment::Later { fsn: 2 },
        ..message(2, 0, b"x")
    })]);
    scripted.give(&[Chunk::IData(message(3, 1, b"y"))]);
    let received = scripted.receive();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].payload, "y");
    assert_eq!(scripted.status().receive_buffer_bytes, 0);
}

/// The scheduler is the sender's business alone; whichever it is, nothing of it may hang.
#[test]
fn schedulers_may_change_at_any_time() {
    let mut pair = Pair::with(interleaving(), interleaving());
    let (id, server) = pair.establish();
    let mut received = 0;
    for (number, scheduler) in super::ALL.into_iter().cycle().take(60).enumerate() {
        for stream in 0..4 {
            let payload = crate::common::message(number, 4000);
            let endpoint = &mut pair.client.endpoint;
            endpoint
                .send(pair.now, id, ordered(stream), payload)
                .unwrap();
        }
        if let Some(packet) = pair.client.endpoint.poll_transmit(pair.now) {
            pair.to_server.push_back(packet.packet);
        }
        let endpoint = &mut pair.client.endpoint;
        endpoint
            .set_stream_scheduler(pair.now, id, scheduler)
            .unwrap();
        pair.run();
        received += pair.server.receive_all(pair.now, server).len();
    }
    assert_eq!(received, 240);
}
