//! Security considerations (RFC 9260 section 12): lengths that lie at every level, and floods.

use std::time::Duration;

use sctp::packet::{Chunk, ChunkType, Data, Shutdown, Ssn};
use sctp::{AssociationState, Event, LostCause};

use crate::rfc9260::scripted::{
    PEER_TSN, Scripted, bytes_of, chunks, cookie_parameter, init, message, quiet, raw, sack_in,
    types,
};

/// A chunk with a length field in it to be changed.
struct Nested {
    name: &'static str,
    chunk: Vec<u8>,
    /// Where the 16 bits of the length field are.
    at: usize,
}

/// One of each level at which items have lengths: chunk, parameter, cause, and what a cause quotes.
fn nested() -> Vec<Nested> {
    let fixed = |chunk_type: u8| {
        let mut chunk = vec![chunk_type, 0, 0, 0];
        chunk.extend_from_slice(&crate::rfc9260::scripted::PEER_TAG.to_be_bytes());
        chunk.extend_from_slice(&[0, 1, 0, 0, 0, 9, 0, 9, 0, 0, 0, 1]);
        chunk
    };
    let mut found = Vec::new();
    let mut add = |name, mut chunk: Vec<u8>, at| {
        let length = chunk.len() as u16;
        chunk[2..4].copy_from_slice(&length.to_be_bytes());
        chunk.resize(chunk.len().next_multiple_of(4), 0);
        found.push(Nested { name, chunk, at });
    };
    let cookie = cookie_parameter();
    let cookie = cookie.parameters().as_bytes();
    add("INIT", fixed(1), 2);
    let parameters: [(&'static str, &[u8]); 8] = [
        ("IPv4 Address", &[0, 5, 0, 8, 198, 51, 100, 1]),
        (
            "IPv6 Address",
            &[
                0, 6, 0, 20, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
            ],
        ),
        ("Cookie Preservative", &[0, 9, 0, 8, 0, 0, 0, 9]),
        ("Supported Address Types", &[0, 12, 0, 8, 0, 5, 0, 6]),
        ("ECN Capable", &[0x80, 0, 0, 4]),
        ("Padding", &[0x80, 5, 0, 8, 1, 2, 3, 4]),
        ("an unknown parameter", &[0xc1, 0, 0, 8, 1, 2, 3, 4]),
        ("Heartbeat Info", &[0, 1, 0, 8, 1, 2, 3, 4]),
    ];
    for (name, parameter) in parameters {
        // In an address list: one sound address before it, one behind it.
        let neighbour = [0, 5, 0, 8, 198, 51, 100, 2];
        let in_init = [&fixed(1)[..], &neighbour, parameter, &neighbour].concat();
        add(name, in_init, 20 + 8 + 2);
        let in_init_ack = [&fixed(2)[..], cookie, &[0; 3], parameter].concat();
        add(name, in_init_ack, 20 + cookie.len() + 3 + 2);
    }
    let in_init_ack = [&fixed(2)[..], cookie].concat();
    add("State Cookie", in_init_ack, 20 + 2);
    for chunk_type in [4, 5] {
        add(
            "Heartbeat Info",
            vec![chunk_type, 0, 0, 0, 0, 1, 0, 8, 1, 2, 3, 4],
            6,
        );
    }
    for chunk_type in [6, 9] {
        let causes: [(&'static str, &[u8], usize); 6] = [
            ("Invalid Stream Identifier", &[0, 1, 0, 8, 0, 1, 0, 0], 2),
            (
                "Missing Mandatory Parameter",
                &[0, 2, 0, 10, 0, 0, 0, 1, 0, 7],
                2,
            ),
            ("Stale Cookie", &[0, 3, 0, 8, 0, 0, 0, 1], 2),
            (
                "Unrecognized Parameters",
                &[0, 8, 0, 12, 0xc1, 0, 0, 8, 1, 2, 3, 4],
                6,
            ),
            ("Unrecognized Chunk Type", &[0, 6, 0, 8, 0xff, 0, 0, 4], 6),
            (
                "Restart with New Addresses",
                &[0, 11, 0, 12, 0, 5, 0, 8, 198, 51, 100, 1],
                6,
            ),
        ];
        for (name, cause, at) in causes {
            add(name, [&[chunk_type, 0, 0, 0], cause].concat(), 4 + at);
        }
    }
    for (name, chunk) in [
        ("DATA", bytes_of(&[Chunk::Data(message(0, b"hello"))])),
        ("SHUTDOWN", vec![7, 0, 0, 8, 0, 0, 0, 0]),
        ("COOKIE ECHO", vec![10, 0, 0, 8, 1, 2, 3, 4]),
        ("COOKIE ACK", vec![11, 0, 0, 4]),
        ("an unknown chunk", vec![0xff, 0, 0, 8, 1, 2, 3, 4]),
        ("PAD", vec![0x84, 0, 0, 8, 1, 2, 3, 4]),
        (
            "SACK",
            vec![3, 0, 0, 16, 0, 0, 0, 0, 0, 0, 9, 9, 0, 0, 0, 0],
        ),
    ] {
        add(name, chunk, 2);
    }
    // The counts of a SACK, and of Missing Mandatory Parameter, are lengths as well.
    for at in [12, 14] {
        let sack = vec![3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 0, 0, 0, 0];
        add("the counts of a SACK", sack, at);
    }
    let missing = vec![9, 0, 0, 0, 0, 2, 0, 10, 0, 0, 0, 1, 0, 7];
    add("the count of Missing Mandatory Parameter", missing, 10);
    found
}

#[test]
fn lengths_that_lie_at_any_level_do_no_harm() {
    let states = [
        AssociationState::Closed,
        AssociationState::CookieWait,
        AssociationState::CookieEchoed,
        AssociationState::Established,
        AssociationState::ShutdownSent,
        AssociationState::ShutdownAckSent,
    ];
    for Nested { name, chunk, at } in nested() {
        for state in states {
            for length in [0, 1, 2, 3, 5, chunk.len() as u16 + 1, 0x7fff, 0xffff] {
                let mut scripted = Scripted::in_state(state);
                let mut bytes = chunk.clone();
                bytes[at..at + 2].copy_from_slice(&length.to_be_bytes());
                let tag = if chunk[0] == 1 { 0 } else { scripted.tag };
                let tag = if tag == 0 && chunk[0] != 1 { 77 } else { tag };
                scripted.give_packet(raw(tag, &bytes));
                let answers = scripted.take().len();
                assert!(answers <= 1, "{name} {length} {state:?}: {answers} answers");
                assert!(scripted.endpoint.association_count() <= 1);
                scripted.pass(Duration::from_secs(1));
            }
        }
    }
}

#[test]
fn a_broken_chunk_does_not_end_an_association() {
    for Nested { name, chunk, at } in nested() {
        // What is no part of an association that is up, or ends it by right.
        if at != 2 {
            continue;
        }
        for length in [0, 1, 2, 3, chunk.len() as u16 + 1, 0xffff] {
            let mut scripted = Scripted::accepted(quiet());
            let mut bytes = chunk.clone();
            bytes[at..at + 2].copy_from_slice(&length.to_be_bytes());
            let tag = if chunk[0] == 1 { 0 } else { scripted.tag };
            scripted.give_packet(raw(tag, &bytes));
            assert!(scripted.take().is_empty(), "{name} {length}");
            assert_eq!(
                scripted.state(),
                AssociationState::Established,
                "{name} {length}"
            );
        }
    }
}

#[test]
fn a_sack_of_tsns_that_were_never_sent_ends_the_association() {
    // What is acknowledged below, and beyond it, of three chunks.
    let lies: [(u32, &[(u32, u32)]); 6] = [
        (4, &[]),
        (1_000_000, &[]),
        (0x7fff_ffff, &[]),
        (0, &[(1, 3)]),
        (0, &[(0, 3)]),
        (2, &[(3, 60_000)]),
    ];
    for (below, beyond) in lies {
        let mut scripted = Scripted::connected(quiet());
        for _ in 0..3 {
            scripted.send(0, &[1; 1000]);
        }
        scripted.take();
        scripted.give_sack(below, beyond, 100_000);
        assert_eq!(
            types(&scripted.take()),
            [[ChunkType::ABORT]],
            "{below} {beyond:?}"
        );
        assert!(matches!(
            scripted.events.last(),
            Some(Event::CommunicationLost {
                cause: LostCause::ProtocolViolation { .. },
                ..
            })
        ));
    }
}

#[test]
fn a_shutdown_that_acknowledges_what_was_never_sent_ends_the_association() {
    let mut scripted = Scripted::connected(quiet());
    scripted.send(0, b"hello");
    scripted.take();
    scripted.give(&[Chunk::Shutdown(Shutdown {
        cumulative_tsn_ack: scripted.tsn + 1,
    })]);
    assert_eq!(types(&scripted.take()), [[ChunkType::ABORT]]);
    assert_eq!(scripted.endpoint.association_count(), 0);
}

#[test]
fn duplicates_in_a_sack_acknowledge_nothing() {
    let mut scripted = Scripted::connected(quiet());
    scripted.send(0, b"hello");
    scripted.take();
    let never_sent = [scripted.tsn + 4000, scripted.tsn];
    let packet = crate::rfc9260::scripted::packet_of(scripted.tag, |writer| {
        writer
            .sack(
                scripted.tsn.previous(),
                5000,
                0,
                [].into_iter(),
                never_sent.into_iter(),
            )
            .unwrap();
    });
    scripted.give_packet(packet);
    assert_eq!(scripted.state(), AssociationState::Established);
    assert_eq!(scripted.status().unacknowledged_chunks, 1);
}

#[test]
fn a_packet_full_of_what_asks_for_answers_gets_one_packet() {
    let unknown = [0xff, 0, 0, 8, 1, 2, 3, 4];
    let heartbeat = [4, 0, 0, 12, 0, 1, 0, 8, 1, 2, 3, 4];
    let stray = bytes_of(&[Chunk::Data(Data {
        stream: 4000,
        ..message(0, b"where to?")
    })]);
    for asked in [&unknown[..], &heartbeat[..], &stray[..]] {
        let mut scripted = Scripted::accepted(quiet());
        let packet: Vec<u8> = asked
            .iter()
            .copied()
            .cycle()
            .take(asked.len() * 500)
            .collect();
        scripted.give_raw(&packet);
        let control: Vec<_> = scripted
            .take()
            .into_iter()
            .filter(|packet| {
                chunks(packet)
                    .iter()
                    .any(|one| one.chunk_type() != ChunkType::SACK)
            })
            .collect();
        assert_eq!(control.len(), 1);
        assert!(control[0].len() <= 1480);
    }
}

#[test]
fn thousands_of_error_causes_do_no_harm_in_any_state() {
    for state in [
        AssociationState::CookieWait,
        AssociationState::CookieEchoed,
        AssociationState::Established,
        AssociationState::ShutdownSent,
    ] {
        for code in [1, 2, 3, 8, 13, 4711] {
            let mut scripted = Scripted::in_state(state);
            let mut bytes = vec![9, 0];
            bytes.extend_from_slice(&(4 + 4 * 10_000_u16).to_be_bytes());
            for _ in 0..10_000 {
                bytes.extend_from_slice(&u16::to_be_bytes(code));
                bytes.extend_from_slice(&[0, 4]);
            }
            let before = scripted.events.len();
            scripted.give_raw(&bytes);
            assert!(scripted.events.len() <= before + 1);
            assert!(scripted.take().len() <= 1);
        }
    }
}

#[test]
fn a_flood_of_duplicates_is_answered_once_a_packet_and_held_once() {
    let mut scripted = Scripted::accepted(quiet());
    let chunk = Chunk::Data(message(0, &[7; 100]));
    for _ in 0..100 {
        scripted.give(&[chunk; 400]);
        let packets = scripted.take();
        assert_eq!(packets.len(), 1);
        assert_eq!(sack_in(&packets).0, PEER_TSN);
        assert!(packets[0].len() <= 1480);
    }
    assert_eq!(scripted.status().receive_buffer_bytes, 100);
    assert_eq!(scripted.receive().len(), 1);
}

#[test]
fn stream_sequence_numbers_wrap_around_and_none_comes_twice() {
    let mut scripted = Scripted::accepted(quiet());
    for number in 0..65_540_u32 {
        scripted.give(&[Chunk::Data(message(number, b"x"))]);
        assert_eq!(scripted.receive().len(), 1);
        scripted.take();
    }
    // A number of the past, with a new TSN: the peer makes no sense any more.
    let again = Data {
        ssn: Ssn(2),
        ..message(65_540, b"x")
    };
    scripted.give(&[Chunk::Data(again)]);
    assert!(matches!(
        scripted.events.last(),
        Some(Event::CommunicationLost {
            cause: LostCause::ProtocolViolation { .. },
            ..
        })
    ));
}

#[test]
fn an_init_flood_keeps_nothing() {
    let mut scripted = Scripted::alone(quiet());
    for number in 0..20_000_u32 {
        let from = crate::rfc9260::scripted::at(number.to_be_bytes().map(|octet| octet | 1));
        let init = sctp::packet::Init {
            initiate_tag: number + 1,
            ..init()
        };
        scripted.give_from(
            from,
            crate::rfc9260::scripted::packet(0, &[Chunk::Init(init)]),
        );
        assert!(scripted.take().len() <= 1);
    }
    assert_eq!(scripted.endpoint.association_count(), 0);
    assert_eq!(scripted.endpoint.next_timeout(), None);
}

#[test]
fn a_heartbeat_that_fills_a_packet_and_a_shutdown_get_one_packet() {
    let mut scripted = Scripted::connected(quiet());
    let mut bytes = vec![4, 0];
    let length = 1480 - 12_u16;
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&[0, 1]);
    bytes.extend_from_slice(&(length - 4).to_be_bytes());
    bytes.resize(usize::from(length), 0);
    bytes.extend(bytes_of(&[Chunk::Shutdown(Shutdown {
        cumulative_tsn_ack: scripted.tsn.previous(),
    })]));
    scripted.give_raw(&bytes);
    let packets = scripted.take();
    assert_eq!(packets.len(), 1, "{:?}", types(&packets));
}

/// What answers one packet fits one packet, also beside the SACK that its DATA gets.
#[test]
fn answers_and_sack_stay_within_the_path_mtu() {
    let mut scripted = Scripted::accepted(quiet());
    let mut bytes = vec![];
    for _ in 0..60 {
        bytes.extend([
            4, 0, 0, 24, 0, 1, 0, 20, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4,
        ]);
    }
    bytes.extend(bytes_of(&[Chunk::Data(message(0, b"x"))]));
    scripted.give_raw(&bytes);
    let packets = scripted.take();
    assert!(
        packets.iter().all(|packet| packet.len() <= 1480),
        "{:?}",
        types(&packets)
    );
    let with_control = packets
        .iter()
        .filter(|packet| {
            chunks(packet)
                .iter()
                .any(|chunk| chunk.chunk_type() != ChunkType::SACK)
        })
        .count();
    assert_eq!(with_control, 1);
}

/// An answer that may not go to an address that is not confirmed does not become a second packet.
#[test]
fn one_packet_from_an_unconfirmed_address_gets_one_packet() {
    let second = crate::rfc9260::scripted::at([198, 51, 100, 9]);
    let heartbeat = vec![4, 0, 0, 12, 0, 1, 0, 8, 1, 2, 3, 4];
    let unknown = vec![0xff, 0, 0, 4];
    let stray = bytes_of(&[Chunk::Data(Data {
        stream: 4000,
        ..message(0, b"where to?")
    })]);
    for number in 0..4 {
        let mut parameters = cookie_parameter();
        crate::rfc9260::scripted::push_address(&mut parameters, second);
        let mut scripted = Scripted::cookie_wait(quiet());
        scripted.give(&[Chunk::InitAck(sctp::packet::Init {
            parameters: parameters.parameters(),
            ..init()
        })]);
        scripted.take();
        scripted.give(&[Chunk::CookieAck]);
        scripted.take();
        let shutdown = bytes_of(&[Chunk::Shutdown(Shutdown {
            cumulative_tsn_ack: scripted.tsn.previous(),
        })]);
        let chunks_of_packet = match number {
            0 => [heartbeat.clone(), unknown.clone()].concat(),
            1 => [unknown.clone(), heartbeat.clone()].concat(),
            2 => [heartbeat.clone(), shutdown].concat(),
            _ => [heartbeat.clone(), stray.clone(), unknown.clone()].concat(),
        };
        let packet = raw(scripted.tag, &chunks_of_packet);
        scripted.give_from(second, packet);
        let is_control = |packet: &bytes::Bytes| {
            let mut chunks = chunks(packet).into_iter();
            chunks.any(|chunk| chunk.chunk_type() != ChunkType::SACK)
        };
        let answers = scripted.take();
        let control = answers.iter().filter(|packet| is_control(packet)).count();
        assert!(control <= 1, "{number}: {:?}", types(&answers));
    }
}

#[test]
fn a_cookie_echo_from_an_unconfirmed_address_gets_one_packet() {
    let second = crate::rfc9260::scripted::at([198, 51, 100, 9]);
    let mut scripted = Scripted::alone(quiet());
    let mut parameters = sctp::packet::ParameterBuffer::new();
    crate::rfc9260::scripted::push_address(&mut parameters, second);
    let cookie = scripted.cookie_for(sctp::packet::Init {
        parameters: parameters.parameters(),
        ..init()
    });
    let mut bytes = bytes_of(&[Chunk::CookieEcho(sctp::packet::CookieEcho {
        cookie: &cookie,
    })]);
    bytes.extend([4, 0, 0, 12, 0, 1, 0, 8, 1, 2, 3, 4]);
    bytes.extend([0xff, 0, 0, 4]);
    let packet = raw(scripted.tag, &bytes);
    scripted.give_from(second, packet);
    assert_eq!(scripted.take().len(), 1);
}
