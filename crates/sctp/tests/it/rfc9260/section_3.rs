//! Packet formats (RFC 9260 section 3).

use std::time::Duration;

use bytes::Bytes;
use sctp::packet::{
    Chunk, ChunkType, CommonHeader, Init, Packet, PacketWriter, Parameter, ParameterBuffer,
    ParameterType, Shutdown, Tsn,
};
use sctp::{AssociationState, Event, SendInfo};

use crate::common::{self, Pair, altered, ordered, transfer};
use crate::rfc9260::scripted::{
    COOKIE, PEER_TAG, PEER_TSN, Scripted, bytes_of, chunks, data_in, init, message, packet, quiet,
    sack_in, types,
};

/// The largest SCTP packet of a pair: IPv4 and UDP take the rest of 1500.
const PMTU: usize = 1500 - 20 - 8;

/// Checks what holds for every packet that an endpoint may send.
fn assert_sound(bytes: &Bytes, peer_tag: u32) {
    let packet = Packet::read(bytes).expect("a common header");
    let header = packet.header();
    assert!(packet.has_valid_checksum());
    assert!(header.source_port != 0 && header.destination_port != 0);
    assert!(bytes.len() <= PMTU && bytes.len().is_multiple_of(4));
    let raw: Vec<_> = packet.chunks().raw().map(|chunk| chunk.unwrap()).collect();
    let types: Vec<_> = raw.iter().map(|chunk| chunk.chunk_type()).collect();
    let with_init = types.contains(&ChunkType::INIT);
    assert_eq!(
        header.verification_tag,
        if with_init { 0 } else { peer_tag }
    );
    assert!(types.len() == 1 || !types.iter().any(|one| one.travels_alone()));
    let first_only = [ChunkType::COOKIE_ECHO, ChunkType::COOKIE_ACK];
    assert!(!types[1..].iter().any(|one| first_only.contains(one)));
    let data_begins = types.iter().position(|one| *one == ChunkType::DATA);
    let data_begins = data_begins.unwrap_or(types.len());
    assert!(
        types[data_begins..]
            .iter()
            .all(|one| *one == ChunkType::DATA)
    );
    let mut end = CommonHeader::LENGTH;
    for chunk in &raw {
        let known_flags = match chunk.chunk_type() {
            ChunkType::DATA => 0x0f,
            ChunkType::ABORT | ChunkType::SHUTDOWN_COMPLETE => 0x01,
            _ => 0,
        };
        assert_eq!(chunk.flags() & !known_flags, 0, "reserved bits");
        end += usize::from(chunk.length());
        let padded = end.next_multiple_of(4);
        assert!(bytes[end..padded].iter().all(|byte| *byte == 0), "padding");
        end = padded;
    }
    assert_eq!(end, bytes.len(), "nothing behind the last chunk");
    let tsns: Vec<Tsn> = common::data_of(std::slice::from_ref(bytes))
        .into_iter()
        .map(|(tsn, length)| {
            assert!(length > 0);
            tsn
        })
        .collect();
    assert!(tsns.is_sorted_by(|one, next| one < next));
}

/// What both sides have sent, with the Initiate Tag that the receiver of each packet chose.
fn sent_by_both(pair: &Pair) -> Vec<(Bytes, u32)> {
    let tag_of = |host: &common::Host, wanted: ChunkType| {
        host.sent
            .iter()
            .flat_map(|(_, packet)| chunks(packet))
            .find_map(|chunk| match chunk {
                Chunk::Init(init) | Chunk::InitAck(init) if chunk.chunk_type() == wanted => {
                    Some(init.initiate_tag)
                }
                _ => None,
            })
            .expect("a handshake")
    };
    let client_tag = tag_of(&pair.client, ChunkType::INIT);
    let server_tag = tag_of(&pair.server, ChunkType::INIT_ACK);
    let by_client = pair
        .client
        .sent
        .iter()
        .map(move |(_, packet)| (packet.clone(), server_tag));
    let by_server = pair
        .server
        .sent
        .iter()
        .map(move |(_, packet)| (packet.clone(), client_tag));
    by_client.chain(by_server).collect()
}

#[test]
fn every_packet_of_a_whole_life_is_sound() {
    let mut pair = Pair::new();
    let id = pair.connect();
    for (stream, bytes) in [(0, 3), (1, 5000), (2, 1)] {
        let sent = pair
            .client
            .endpoint
            .send(pair.now, id, ordered(stream), vec![7; bytes].into());
        assert_eq!(sent, Ok(()));
    }
    // Each third packet is lost.
    let mut number = 0;
    for _ in 0..400 {
        pair.collect();
        let to_server = pair.to_server.pop_front();
        let to_client = pair.to_client.pop_front();
        if to_server.is_none() && to_client.is_none() {
            pair.advance();
        }
        for (packet, is_for_server) in [(to_server, true), (to_client, false)] {
            let Some(packet) = packet else { continue };
            number += 1;
            match (number % 3, is_for_server) {
                (0, _) => {}
                (_, true) => pair.give_server(packet),
                (_, false) => pair.give_client(packet),
            }
        }
        if number == 60 {
            let server = pair.server.association();
            let sent =
                pair.server
                    .endpoint
                    .send(pair.now, server, ordered(0), vec![1; 3001].into());
            assert_eq!(sent, Ok(()));
        }
    }
    let server = pair.server.association();
    pair.run_for(Duration::from_secs(60));
    assert_eq!(pair.server.receive_all(pair.now, server).len(), 3);
    transfer(
        &mut pair,
        20,
        2500,
        SendInfo {
            unordered: true,
            ..ordered(3)
        },
    );
    pair.client.endpoint.shutdown(pair.now, id).unwrap();
    pair.run_for(Duration::from_secs(10));
    assert!(pair.client.is_shut_down() && pair.server.is_shut_down());
    for (packet, peer_tag) in sent_by_both(&pair) {
        assert_sound(&packet, peer_tag);
    }
}

#[test]
fn fragments_of_a_message_follow_each_other_and_say_the_same() {
    let mut scripted = Scripted::connected(quiet());
    for unordered in [false, true] {
        let info = SendInfo {
            unordered,
            ppid: 0x0102_0304,
            ..ordered(5)
        };
        let id = scripted.id();
        scripted
            .endpoint
            .send(scripted.now, id, info, vec![9; 4000].into())
            .unwrap();
    }
    let packets = scripted.take();
    let data: Vec<_> = packets
        .iter()
        .flat_map(chunks)
        .filter_map(|chunk| match chunk {
            Chunk::Data(data) => Some(data),
            _ => None,
        })
        .collect();
    assert_eq!(
        data.len(),
        4,
        "all of one message, and the window is full with the next one's first"
    );
    for (number, chunk) in data.iter().enumerate() {
        assert_eq!(chunk.tsn, scripted.tsn + number as u32);
        assert_eq!((chunk.stream, chunk.ppid), (5, 0x0102_0304));
        assert_eq!(chunk.unordered, number == 3);
        assert_eq!(
            (chunk.beginning, chunk.ending),
            (number % 3 == 0, number == 2)
        );
        assert_eq!(chunk.ssn.0, 0, "unordered messages do not count");
    }
}

#[test]
fn reserved_bits_and_padding_mean_nothing_to_the_receiver() {
    /// Sets all reserved flags, and fills the padding.
    fn soil(packet: &Bytes) -> Bytes {
        let mut bytes = packet.to_vec();
        let mut at = CommonHeader::LENGTH;
        while at < bytes.len() {
            let length = usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
            bytes[at + 1] |= match ChunkType(bytes[at]) {
                ChunkType::DATA => 0xf0,
                ChunkType::ABORT | ChunkType::SHUTDOWN_COMPLETE => 0xfe,
                _ => 0xff,
            };
            let end = (at + length).next_multiple_of(4);
            bytes[at + length..end].fill(0xff);
            at = end;
        }
        altered(&bytes, |_| {})
    }
    let mut pair = Pair::new();
    let id = pair.connect();
    pair.client
        .endpoint
        .send(pair.now, id, ordered(0), Bytes::from_static(b"hello"))
        .unwrap();
    let mut received = 0;
    for round in 0..40 {
        pair.collect();
        if let Some(packet) = pair.to_server.pop_front() {
            pair.give_server(soil(&packet));
        } else if let Some(packet) = pair.to_client.pop_front() {
            pair.give_client(soil(&packet));
        } else {
            let server = pair.server.association();
            let news = pair.server.receive_all(pair.now, server);
            received += news.len();
            assert!(news.iter().all(|message| message.payload == "hello"));
            if round < 20 {
                let _ = pair.client.endpoint.shutdown(pair.now, id);
            }
            pair.advance();
        }
    }
    assert_eq!(received, 1);
    assert!(pair.client.is_shut_down() && pair.server.is_shut_down());
}

#[test]
fn the_chunk_types_kept_for_ecn_stop_the_packet() {
    for reserved in [12, 13] {
        let mut scripted = Scripted::accepted(quiet());
        let mut bytes = vec![reserved, 0, 0, 8, 0, 0, 0, 0];
        bytes.extend(bytes_of(&[Chunk::Data(message(0, b"unseen"))]));
        scripted.give_raw(&bytes);
        assert!(scripted.receive().is_empty());
        assert!(scripted.take().is_empty());
        assert_eq!(scripted.state(), AssociationState::Established);
    }
}

#[test]
fn an_init_with_impossible_values_leaves_an_association_alone() {
    let impossible = [
        Init {
            initiate_tag: 0,
            ..init()
        },
        Init {
            a_rwnd: 1499,
            ..init()
        },
        Init {
            outbound_streams: 0,
            ..init()
        },
        Init {
            inbound_streams: 0,
            ..init()
        },
    ];
    for wrong in impossible {
        let mut scripted = Scripted::accepted(quiet());
        let before = scripted.status();
        scripted.give_packet(packet(0, &[Chunk::Init(wrong)]));
        let answers = scripted.take();
        if wrong.initiate_tag == 0 {
            assert!(answers.is_empty());
        } else {
            assert_eq!(types(&answers), [[ChunkType::ABORT]]);
            assert_eq!(common::tag(&answers[0]), PEER_TAG);
        }
        assert_eq!(scripted.status(), before);
    }
}

#[test]
fn an_init_ack_with_impossible_values_is_discarded_where_none_is_awaited() {
    for wrong in [
        Init {
            initiate_tag: 0,
            ..init()
        },
        Init {
            a_rwnd: 1499,
            ..init()
        },
        Init {
            outbound_streams: 0,
            ..init()
        },
        Init {
            inbound_streams: 0,
            ..init()
        },
    ] {
        for state in [
            AssociationState::CookieEchoed,
            AssociationState::Established,
        ] {
            let mut scripted = Scripted::in_state(state);
            scripted.give_init_ack(wrong);
            assert!(scripted.take().is_empty());
            assert_eq!(scripted.state(), state);
        }
    }
}

#[test]
fn an_init_ack_with_a_small_window_changes_nothing() {
    let mut scripted = Scripted::cookie_wait(quiet());
    scripted.give_init_ack(Init {
        a_rwnd: 1499,
        ..init()
    });
    let answers = scripted.take();
    assert_eq!(types(&answers), [[ChunkType::ABORT]]);
    assert_eq!(common::tag(&answers[0]), PEER_TAG);
    assert_eq!(scripted.state(), AssociationState::CookieWait);
    scripted.give_init_ack(Init {
        a_rwnd: 1500,
        ..init()
    });
    assert_eq!(scripted.state(), AssociationState::CookieEchoed);
}

#[test]
fn a_large_init_ack_is_taken_and_its_cookie_echoed_as_it_is() {
    let mut scripted = Scripted::cookie_wait(quiet());
    let cookie: Vec<u8> = (0..1000).map(|number| number as u8).collect();
    let mut parameters = ParameterBuffer::new();
    for number in 0..1000_u32 {
        let address = std::net::Ipv4Addr::from(0xc612_0000 + number);
        parameters.push(&Parameter::Ipv4Address(address)).unwrap();
    }
    parameters.push(&Parameter::StateCookie(&cookie)).unwrap();
    scripted.give(&[Chunk::InitAck(Init {
        parameters: parameters.parameters(),
        ..init()
    })]);
    let packets = scripted.take();
    let first = chunks(&packets[0]);
    assert!(matches!(first[0], Chunk::CookieEcho(echo) if echo.cookie == cookie));
}

#[test]
fn a_shutdown_without_gap_ack_blocks_takes_nothing_back() {
    let mut scripted = Scripted::connected(quiet());
    for _ in 0..3 {
        scripted.send(0, &[1; 1200]);
    }
    assert_eq!(data_in(&scripted.take(), scripted.tsn), [0, 1, 2]);
    scripted.give_sack(0, &[(1, 2)], 100_000);
    let before = scripted.status().outstanding_bytes;
    assert_eq!(before, 1216);
    scripted.give(&[Chunk::Shutdown(Shutdown {
        cumulative_tsn_ack: scripted.tsn.previous(),
    })]);
    assert_eq!(scripted.state(), AssociationState::ShutdownReceived);
    assert_eq!(scripted.status().outstanding_bytes, before);
}

#[test]
fn the_sack_of_the_example_is_made() {
    // Section 3.3.4, with TSN 10 being the peer's first.
    let mut scripted = Scripted::accepted(quiet());
    let arrived = [10, 11, 12, 14, 15, 17];
    let all: Vec<_> = arrived
        .iter()
        .map(|tsn| Chunk::Data(message(tsn - 10, b"data")))
        .collect();
    scripted.give(&all);
    let (cumulative, _, blocks, duplicates) = sack_in(&scripted.take());
    assert_eq!(cumulative, PEER_TSN + 2);
    assert_eq!(blocks, [(2, 3), (5, 5)]);
    assert!(duplicates.is_empty());
}

#[test]
fn duplicates_are_listed_as_often_as_they_came() {
    let mut scripted = Scripted::accepted(quiet());
    let chunk = Chunk::Data(message(0, b"again"));
    scripted.give(&[chunk, chunk, chunk]);
    let (cumulative, .., duplicates) = sack_in(&scripted.take());
    assert_eq!((cumulative, duplicates), (PEER_TSN, vec![PEER_TSN; 2]));
    scripted.give(&[chunk]);
    let (.., duplicates) = sack_in(&scripted.take());
    assert_eq!(duplicates, [PEER_TSN]);
}

#[test]
fn an_association_that_received_nothing_acknowledges_the_tsn_before_the_first() {
    let mut scripted = Scripted::accepted(quiet());
    scripted.give(&[Chunk::Data(message(1, b"the second one"))]);
    let (cumulative, _, blocks, _) = sack_in(&scripted.take());
    assert_eq!((cumulative, blocks), (PEER_TSN.previous(), vec![(2, 2)]));
}

#[test]
fn no_parameter_of_an_init_is_there_twice() {
    let mut scripted = Scripted::alone(quiet());
    scripted
        .endpoint
        .connect(scripted.now, crate::rfc9260::scripted::peer(), 7)
        .unwrap();
    let packets = scripted.take();
    let [Chunk::Init(init)] = chunks(&packets[0])[..] else {
        panic!("an INIT was sent");
    };
    let mut seen = Vec::new();
    for parameter in init.parameters {
        let parameter_type = parameter.unwrap().parameter_type();
        let may_repeat = [ParameterType::IPV4_ADDRESS, ParameterType::IPV6_ADDRESS];
        assert!(may_repeat.contains(&parameter_type) || !seen.contains(&parameter_type));
        assert_ne!(parameter_type, ParameterType::HOST_NAME_ADDRESS);
        seen.push(parameter_type);
    }
    assert!(init.a_rwnd >= 1500 && init.outbound_streams > 0 && init.inbound_streams > 0);
}

#[test]
fn a_cookie_of_another_length_is_echoed_as_it_is() {
    for length in [0, 1, 3, COOKIE.len(), 1460, 9000] {
        let mut scripted = Scripted::cookie_wait(quiet());
        let cookie = vec![0x5a; length];
        let mut parameters = ParameterBuffer::new();
        parameters.push(&Parameter::StateCookie(&cookie)).unwrap();
        scripted.give(&[Chunk::InitAck(Init {
            parameters: parameters.parameters(),
            ..init()
        })]);
        let packets = scripted.take();
        assert!(matches!(chunks(&packets[0])[0], Chunk::CookieEcho(echo) if echo.cookie == cookie));
    }
}

#[test]
fn a_partial_chunk_is_dropped() {
    let mut scripted = Scripted::accepted(quiet());
    let whole = bytes_of(&[Chunk::Data(message(0, &[7; 40]))]);
    scripted.give_raw(&whole[..whole.len() - 4]);
    assert!(scripted.receive().is_empty());
    assert_eq!(scripted.state(), AssociationState::Established);
    scripted.give_raw(&whole);
    assert_eq!(scripted.receive().len(), 1);
}

#[test]
fn a_chunk_is_taken_whether_or_not_its_length_counts_the_last_padding() {
    // An ERROR whose last cause has a padding of three bytes, counted in or not.
    for counted in [17, 20] {
        let mut scripted = Scripted::accepted(quiet());
        let before = scripted.events.len();
        let mut bytes = vec![9, 0, 0, counted, 0, 12, 0, 13];
        bytes.extend_from_slice(b"a reason.\0\0\0");
        scripted.give_raw(&bytes);
        assert!(matches!(
            scripted.events[before..],
            [Event::RemoteError { .. }]
        ));
    }
}

/// The writer never makes a packet that is larger than told.
#[test]
fn a_chunk_that_does_not_fit_is_not_put_there_in_part() {
    let mut buffer = bytes::BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 40);
    assert!(writer.chunk(&Chunk::Data(message(0, &[1; 13]))).is_err());
    assert!(writer.is_empty());
    assert!(writer.chunk(&Chunk::Data(message(0, &[1; 12]))).is_ok());
    assert_eq!(writer.finish().len(), 40);
}

#[test]
fn an_abort_with_a_format_error_is_discarded() {
    let broken: [&[u8]; 6] = [
        &[0, 12, 0, 0],
        &[0, 12, 0, 1],
        &[0, 12, 0, 3],
        &[0, 12, 0, 5],
        &[0, 12],
        &[0, 4, 0, 4, 0, 12, 0, 9, 1, 2, 3, 4],
    ];
    for causes in broken {
        for reflected in [false, true] {
            let mut scripted = Scripted::accepted(quiet());
            let length = 4 + causes.len() as u8;
            let mut bytes = vec![6, u8::from(reflected), 0, length];
            bytes.extend_from_slice(causes);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            let tag = if reflected { PEER_TAG } else { scripted.tag };
            scripted.give_packet(crate::rfc9260::scripted::raw(tag, &bytes));
            assert_eq!(
                scripted.state(),
                AssociationState::Established,
                "{causes:?}"
            );
            assert!(scripted.take().is_empty());
        }
    }
}

#[test]
fn an_init_ack_asks_for_no_more_streams_than_the_init_allows() {
    for allowed in [1, 3, 65_535] {
        let mut scripted = Scripted::alone(quiet());
        let ours = scripted.endpoint.config().association.outbound_streams;
        let init = Init {
            inbound_streams: allowed,
            ..init()
        };
        scripted.give_packet(packet(0, &[Chunk::Init(init)]));
        let packets = scripted.take();
        let [Chunk::InitAck(answer)] = chunks(&packets[0])[..] else {
            panic!("an INIT ACK was sent");
        };
        assert_eq!(answer.outbound_streams, ours.min(allowed));
    }
}

#[test]
fn the_measure_of_staleness_is_rounded_up() {
    let mut scripted = Scripted::alone(quiet());
    let cookie = scripted.cookie_for(init());
    scripted.now += scripted.endpoint.config().valid_cookie_life + Duration::from_nanos(2001);
    scripted.echo(&cookie, &[]);
    let packets = scripted.take();
    let [Chunk::Error(error)] = chunks(&packets[0])[..] else {
        panic!("an ERROR was sent");
    };
    let mut expected = sctp::packet::CauseBuffer::new();
    expected
        .push(&sctp::packet::Cause::StaleCookie { staleness: 3 })
        .unwrap();
    assert_eq!(error.causes.as_bytes(), expected.causes().as_bytes());
}
