//! Chunks that an honest peer does not send, or that ask for an answer (RFC 9260 sections 3.2, 3.3
//! and 6.5).

use std::time::Duration;

use crate::common::{
    self, Pair, chunk_types, data_of, message, ordered, packet, server_tag_and_next_tsn, tag,
    to_client,
};
use sctp::packet::{Cause, Chunk, ChunkType, Data, Packet, Ssn};
use sctp::{EndpointConfig, Event, LostCause};

#[test]
fn data_on_a_stream_that_does_not_exist_is_acknowledged_and_reported() {
    let mut pair = Pair::new();
    pair.establish();
    let (tag, tsn) = server_tag_and_next_tsn(&mut pair);
    let data = Chunk::Data(Data {
        beginning: true,
        ending: true,
        tsn,
        stream: 4711,
        ssn: Ssn(0),
        user_data: b"where to?",
        ..Data::default()
    });
    pair.give_server(common::to_server(tag, &[data]));
    let answer = pair.to_client.pop_front().unwrap();
    assert_eq!(chunk_types(&answer), [ChunkType::ERROR]);
    let Some(Ok(Chunk::Error(error))) = Packet::read(&answer).unwrap().chunks().next() else {
        panic!("an ERROR was sent");
    };
    assert_eq!(
        error.causes.iter().next(),
        Some(Ok(Cause::InvalidStreamIdentifier { stream: 4711 }))
    );
    pair.give_client(answer);
    assert!(
        pair.client
            .events
            .iter()
            .any(|event| matches!(event, Event::RemoteError { .. }))
    );
    pair.run_for(Duration::from_millis(200));
    let sack = &pair.server.sent.last().unwrap().1;
    let Some(Ok(Chunk::Sack(sack))) = Packet::read(sack).unwrap().chunks().next() else {
        panic!("a SACK was sent");
    };
    assert_eq!(sack.cumulative_tsn_ack, tsn);
    let drops = pair.server.endpoint.statistics().drops;
    assert_eq!(drops.data_invalid_stream, 1);
}

#[test]
fn data_without_user_data_ends_the_association() {
    let mut pair = Pair::new();
    pair.establish();
    let (tag, tsn) = server_tag_and_next_tsn(&mut pair);
    let data = Chunk::Data(Data {
        beginning: true,
        ending: true,
        tsn,
        ..Data::default()
    });
    pair.give_server(common::to_server(tag, &[data]));
    let answer = pair.to_client.pop_front().unwrap();
    let Some(Ok(Chunk::Abort(abort))) = Packet::read(&answer).unwrap().chunks().next() else {
        panic!("an ABORT was sent");
    };
    assert_eq!(
        abort.causes.iter().next(),
        Some(Ok(Cause::NoUserData { tsn }))
    );
    assert_eq!(pair.server.endpoint.association_count(), 0);
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_ends_the_association() {
    let blocks: [(u32, &[[u8; 4]]); 2] = [(1, &[]), (0, &[[0, 2, 0, 2]])];
    for (ahead, gaps) in blocks {
        let mut pair = Pair::new();
        pair.establish();
        pair.client_sends(ordered(0), "one");
        let client_tsn = data_of(pair.to_server.make_contiguous())[0].0;
        pair.run();
        let tag = tag(&pair.server.sent.last().unwrap().1);
        let mut bytes = to_client(tag, &[]).to_vec();
        bytes.extend_from_slice(&[3, 0, 0, 16 + 4 * gaps.len() as u8]);
        bytes.extend_from_slice(&(client_tsn + ahead).0.to_be_bytes());
        bytes.extend_from_slice(&50_000u32.to_be_bytes());
        bytes.extend_from_slice(&[0, gaps.len() as u8, 0, 0]);
        bytes.extend(gaps.iter().flatten());
        pair.give_client(common::altered(&bytes, |_| {}));
        assert!(matches!(
            pair.client.events.last(),
            Some(Event::CommunicationLost {
                cause: LostCause::ProtocolViolation { .. },
                ..
            })
        ));
    }
}

#[test]
fn unknown_chunks_are_treated_by_their_highest_bits() {
    for (chunk_type, reported, goes_on) in [
        (0x3f, false, false),
        (0x7f, true, false),
        (0xbf, false, true),
        (0xff, true, true),
    ] {
        let mut pair = Pair::new();
        let (_, server) = pair.establish();
        let (tag, tsn) = server_tag_and_next_tsn(&mut pair);
        let mut bytes = common::to_server(tag, &[]).to_vec();
        bytes.extend_from_slice(&[chunk_type, 0, 0, 5, 1, 0, 0, 0]);
        let data = Chunk::Data(Data {
            beginning: true,
            ending: true,
            tsn,
            ssn: Ssn(1),
            user_data: b"after it",
            ..Data::default()
        });
        bytes.extend_from_slice(&common::to_server(tag, &[data])[12..]);
        pair.give_server(common::altered(&bytes, |_| {}));
        let received = pair.server.receive_all(pair.now, server).len();
        assert_eq!(received, usize::from(goes_on), "{chunk_type}");
        let error = pair
            .to_client
            .iter()
            .any(|packet| chunk_types(packet).contains(&ChunkType::ERROR));
        assert_eq!(error, reported, "{chunk_type}");
    }
}

#[test]
fn a_message_larger_than_the_peer_takes_ends_the_association() {
    let small = EndpointConfig::default().max_message_size(2000);
    let mut pair = Pair::with(EndpointConfig::default(), small);
    pair.establish();
    pair.client_sends(ordered(0), message(0, 5000));
    pair.run();
    assert!(matches!(
        pair.client.events.last(),
        Some(Event::CommunicationLost {
            cause: LostCause::AbortedByPeer { .. },
            ..
        })
    ));
    let drops = pair.server.endpoint.statistics().drops;
    assert_eq!(drops.messages_too_large, 1);
}

#[test]
fn a_heartbeat_comes_back_as_it_was() {
    let mut pair = Pair::new();
    pair.establish();
    let (tag, _) = server_tag_and_next_tsn(&mut pair);
    let mut bytes = common::to_server(tag, &[]).to_vec();
    // Heartbeat Info of three bytes, and a parameter that nobody knows.
    bytes.extend_from_slice(&[
        4, 0, 0, 20, 0, 1, 0, 7, 9, 8, 7, 0, 0xc0, 9, 0, 8, 1, 2, 3, 4,
    ]);
    pair.give_server(common::altered(&bytes, |_| {}));
    let answer = pair.to_client.pop_front().unwrap();
    assert_eq!(chunk_types(&answer), [ChunkType::HEARTBEAT_ACK]);
    assert_eq!(answer[14..32], bytes[14..32]);
}

#[test]
fn packets_for_other_ports_and_with_wrong_checksums_are_dropped() {
    let mut pair = Pair::new();
    pair.establish();
    let (tag, _) = server_tag_and_next_tsn(&mut pair);
    let sound = common::to_server(tag, &[Chunk::CookieAck]);
    let mut wrong = sound.to_vec();
    wrong[8] ^= 1;
    pair.give_server(wrong.into());
    pair.give_server(packet(common::CLIENT_PORT, 7, tag, &[Chunk::CookieAck]));
    pair.give_server(packet(0, common::SERVER_PORT, tag, &[Chunk::CookieAck]));
    pair.give_server(sound.slice(..11));
    pair.give_server(sound.slice(..12));
    assert!(pair.to_client.is_empty());
    let drops = pair.server.endpoint.statistics().drops;
    assert_eq!((drops.checksum, drops.port, drops.malformed), (2, 2, 1));
}
