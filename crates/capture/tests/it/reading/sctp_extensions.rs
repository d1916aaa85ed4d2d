//! The chunks of SCTP's extensions: messages in I-DATA, and what the view of associations says of all of them.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use capture::{Analysis, Options, Reader, Results, Settings, UserMessage};
use sctp::packet::{
    AddStreamsRequest, AddressRequest, Asconf, AsconfAck, Auth, Cause, CauseBuffer, Chunk,
    ChunkTypeList, CookieEcho, Data, ErrorCauseIndication, Fragment, GapAckBlock, HmacIdentifier,
    HmacList, IData, Init, Mid, OutgoingSsnResetRequest, PacketWriter, Parameter, ParameterBuffer,
    Parameters, ReConfig, ReConfigResponse, ReConfigResult, SequenceNumber, SkippedMid, SkippedSsn,
    Ssn, StreamList, Tsn,
};
use test_support::tshark;

use crate::reading::build::*;

const TAG: u32 = 0x1234_5678;
const BACK: u32 = 0x9abc_def0;

/// An SCTP packet from Alice to Bob.
fn forward(write: impl FnOnce(&mut PacketWriter<'_>)) -> Vec<u8> {
    packet(ALICE, BOB, 132, &sctp(5060, 5070, TAG, write))
}

/// An SCTP packet from Bob to Alice.
fn back(write: impl FnOnce(&mut PacketWriter<'_>)) -> Vec<u8> {
    packet(BOB, ALICE, 132, &sctp(5070, 5060, BACK, write))
}

fn sctp(from: u16, to: u16, tag: u32, write: impl FnOnce(&mut PacketWriter<'_>)) -> Bytes {
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, from, to, tag, 65_000);
    write(&mut writer);
    writer.finish()
}

/// A fragment of a message: its place in the message, and whether it is the last one.
fn fragment(tsn: u32, stream: u16, mid: u32, fsn: u32, ending: bool, part: &[u8]) -> IData<'_> {
    IData {
        immediate: false,
        unordered: false,
        ending,
        tsn: Tsn(tsn),
        stream,
        mid: Mid(mid),
        fragment: match fsn {
            0 => Fragment::First { ppid: 0 },
            fsn => Fragment::Later { fsn },
        },
        user_data: part,
    }
}

fn one(data: &IData<'_>) -> Vec<u8> {
    forward(|writer| writer.i_data(data).unwrap())
}

/// The messages of a capture, and where they were.
fn user_messages(packets: &[Vec<u8>]) -> Vec<(UserMessage, Vec<u8>)> {
    messages(&read(&pcap(RAW, packets)))
        .into_iter()
        .map(|(carrier, octets)| match carrier {
            capture::Carrier::Sctp(Some(message)) => (message, octets),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn user_message(stream: u16, tsn: u32, fragments: u32) -> UserMessage {
    UserMessage {
        stream,
        tsn: Tsn(tsn),
        payload_protocol: 0,
        fragments,
        unordered: false,
        encapsulated: false,
    }
}

#[test]
fn interleaved_messages_are_put_together_in_any_order() {
    let (long, other, short) = (request("a", 3000), request("b", 2000), request("c", 1));
    let chunks = [
        fragment(u32::MAX, 1, 7, 0, false, &long[..1000]),
        fragment(0, 2, 7, 0, false, &other[..1000]),
        fragment(1, 1, 7, 1, false, &long[1000..2000]),
        fragment(2, 3, 0, 0, true, &short),
        fragment(3, 2, 7, 1, true, &other[1000..]),
        fragment(4, 1, 7, 2, true, &long[2000..]),
    ];
    let expected = [
        (user_message(3, 2, 1), short.clone()),
        (user_message(2, 0, 2), other.clone()),
        (user_message(1, u32::MAX, 3), long.clone()),
    ];
    let mut packets: Vec<Vec<u8>> = chunks.iter().map(one).collect();
    // What is sent again is not read again.
    let twice = [&packets[..], &packets].concat();
    assert_eq!(user_messages(&twice), expected);
    for _ in 0..packets.len() {
        packets.rotate_left(1);
        let mut found = user_messages(&packets);
        found.sort_by_key(|(message, _)| std::cmp::Reverse(message.stream));
        assert_eq!(found, expected);
    }
    // All in one packet.
    let together = forward(|writer| {
        for chunk in &chunks {
            writer.i_data(chunk).unwrap();
        }
    });
    assert_eq!(user_messages(&[together]), expected);
}

/// The two kinds are numbered apart, and DATA of a TSN between them is a message of its own.
#[test]
fn unordered_and_ordered_messages_of_one_number_are_two() {
    let (ordered, unordered) = (request("a", 100), request("b", 100));
    let whole = request("c", 5);
    let chunks = [
        fragment(1, 1, 0, 0, false, &ordered[..50]),
        IData {
            unordered: true,
            ..fragment(2, 1, 0, 0, false, &unordered[..50])
        },
        fragment(4, 1, 0, 1, true, &ordered[50..]),
        IData {
            unordered: true,
            ..fragment(5, 1, 0, 1, true, &unordered[50..])
        },
    ];
    let mut packets: Vec<Vec<u8>> = chunks.iter().map(one).collect();
    packets.insert(
        2,
        forward(|writer| {
            let data = Data {
                beginning: true,
                ending: true,
                tsn: Tsn(3),
                user_data: &whole,
                ..Data::default()
            };
            writer.data(&data).unwrap();
        }),
    );
    let found: Vec<Vec<u8>> = user_messages(&packets)
        .into_iter()
        .map(|found| found.1)
        .collect();
    assert_eq!(found, [whole, ordered, unordered]);
}

/// After a reset the Message Identifiers begin anew (RFC 8260 section 2.3.2): the rest of a message of before is none
/// of one after.
#[test]
fn a_number_used_again_begins_a_new_message() {
    let (before, after) = (request("a", 100), request("b", 100));
    let packets = [
        one(&fragment(1, 1, 0, 0, false, &before[..50])),
        one(&fragment(2, 1, 0, 0, false, &after[..50])),
        one(&fragment(3, 1, 0, 1, true, &after[50..])),
    ];
    assert_eq!(user_messages(&packets), [(user_message(1, 2, 2), after)]);
}

#[test]
fn unfinished_messages_beyond_the_bounds_are_let_go() {
    let part = request("a", 900);
    let part = &part[..900];
    // None of these messages ends.
    let packets: Vec<Vec<u8>> = (0..2000)
        .map(|tsn| one(&fragment(tsn, (tsn % 50) as u16, tsn, 0, false, part)))
        .collect();
    let settings = Settings {
        limits: capture::Limits {
            user_message_octets: 100_000,
            ..capture::Limits::default()
        },
        ..Settings::default()
    };
    let (kept, _) = read_with(&pcap(RAW, &packets), &settings);
    assert!(messages(&kept).is_empty());
    assert!(warnings(&kept).len() >= 2000 * 900 / 100_000);
    // One that is too long ends as nothing, and the next one is read.
    let mut packets: Vec<Vec<u8>> = (0..30)
        .map(|fsn| one(&fragment(fsn, 1, 0, fsn, fsn == 29, &[b'x'; 60_000])))
        .collect();
    let next = request("b", 10);
    packets.push(one(&fragment(30, 1, 1, 0, true, &next)));
    assert_eq!(user_messages(&packets), [(user_message(1, 30, 1), next)]);
}

/// An association that uses every extension.
fn every_extension() -> Vec<Vec<u8>> {
    let mut setup = ParameterBuffer::new();
    let algorithms = [
        HmacIdentifier::SHA_256.to_be_bytes(),
        HmacIdentifier::SHA_1.to_be_bytes(),
    ];
    for parameter in [
        Parameter::ForwardTsnSupported,
        Parameter::SupportedExtensions(ChunkTypeList::new(&[
            0x0f, 0x10, 0x40, 0x80, 0x82, 0xc0, 0xc1, 0xc2,
        ])),
        Parameter::Random(&[7; 32]),
        Parameter::Chunks(ChunkTypeList::new(&[0x80, 0xc1])),
        Parameter::HmacAlgo(HmacList::new(&algorithms)),
        Parameter::AdaptationLayerIndication { code_point: 7 },
    ] {
        setup.push(&parameter).unwrap();
    }
    let init = |initiate_tag, initial_tsn, parameters| Init {
        initiate_tag,
        a_rwnd: 100_000,
        outbound_streams: 10,
        inbound_streams: 10,
        initial_tsn: Tsn(initial_tsn),
        parameters,
    };
    let mut setup_ack = ParameterBuffer::new();
    setup_ack
        .push(&Parameter::StateCookie(b"cookie!!"))
        .unwrap();
    let (long, short) = (request("a", 2000), request("b", 2));
    let auth = Chunk::Auth(Auth {
        shared_key_identifier: 0,
        hmac_identifier: HmacIdentifier::SHA_256,
        hmac: &[0; 32],
    });
    let new = "192.0.2.9".parse().unwrap();
    let mut asked = ParameterBuffer::new();
    for parameter in [
        Parameter::Ipv4Address([192, 0, 2, 1].into()),
        Parameter::AddIpAddress(AddressRequest {
            correlation_id: 1,
            address: new,
        }),
        Parameter::SetPrimaryAddress(AddressRequest {
            correlation_id: 2,
            address: new,
        }),
    ] {
        asked.push(&parameter).unwrap();
    }
    let asconf = Chunk::Asconf(Asconf {
        sequence_number: SequenceNumber(10),
        parameters: asked.parameters(),
    });
    let refused = Parameters::new(b"\xc0\x04\x00\x10\0\0\0\x02\x00\x05\x00\x08\xc0\x00\x02\x09");
    let mut causes = CauseBuffer::new();
    causes
        .push(&Cause::RequestRefusedNoAuthorization(refused))
        .unwrap();
    let mut answers = ParameterBuffer::new();
    answers
        .push(&Parameter::ErrorCauseIndication(ErrorCauseIndication {
            correlation_id: 2,
            causes: causes.causes(),
        }))
        .unwrap();
    let re_config = |parameter: Parameter<'_>| {
        let mut parameters = ParameterBuffer::new();
        parameters.push(&parameter).unwrap();
        move |writer: &mut PacketWriter<'_>| {
            let parameters = parameters.parameters();
            writer
                .chunk(&Chunk::ReConfig(ReConfig { parameters }))
                .unwrap();
        }
    };
    let response = |number, result| {
        re_config(Parameter::ReConfigResponse(ReConfigResponse {
            response_sequence_number: SequenceNumber(number),
            result,
            next_tsns: None,
        }))
    };
    let streams = [[0, 1], [0, 2]];
    let reset = Parameter::OutgoingSsnResetRequest(OutgoingSsnResetRequest {
        request_sequence_number: SequenceNumber(10),
        response_sequence_number: SequenceNumber(99),
        last_assigned_tsn: Tsn(16),
        streams: StreamList::new(&streams),
    });
    let nr_sack = |ack, start, end| {
        back(|writer| {
            let kept = [GapAckBlock { start, end }];
            let none = std::iter::empty();
            writer
                .nr_sack(Tsn(ack), 100_000, 0, none, kept.into_iter(), [].into_iter())
                .unwrap();
        })
    };
    vec![
        packet(
            ALICE,
            BOB,
            132,
            &sctp(5060, 5070, 0, |writer| {
                let init = init(BACK, 10, setup.parameters());
                writer.chunk(&Chunk::Init(init)).unwrap();
            }),
        ),
        back(|writer| {
            let init = init(TAG, 100, setup_ack.parameters());
            writer.chunk(&Chunk::InitAck(init)).unwrap();
        }),
        forward(|writer| {
            let cookie = b"cookie!!";
            writer
                .chunk(&Chunk::CookieEcho(CookieEcho { cookie }))
                .unwrap();
        }),
        back(|writer| writer.chunk(&Chunk::CookieAck).unwrap()),
        forward(|writer| {
            writer
                .i_data(&fragment(10, 1, 0, 0, false, &long[..900]))
                .unwrap();
            writer.i_data(&fragment(11, 2, 0, 0, true, &short)).unwrap();
        }),
        one(&fragment(12, 1, 0, 1, true, &long[900..])),
        // 10 and 12 have arrived; 11 and 13 are abandoned.
        nr_sack(10, 2, 2),
        one(&fragment(13, 1, 1, 0, false, b"part")),
        forward(|writer| {
            let skipped = SkippedMid {
                stream: 2,
                unordered: false,
                mid: Mid(0),
            };
            writer
                .i_forward_tsn(Tsn(13), [skipped].into_iter())
                .unwrap();
        }),
        // It is lost and sent again.
        forward(|writer| {
            let skipped = SkippedSsn {
                stream: 2,
                ssn: Ssn(0),
            };
            writer.forward_tsn(Tsn(13), [skipped].into_iter()).unwrap();
        }),
        nr_sack(13, 1, 0),
        forward(|writer| {
            writer.chunk(&auth).unwrap();
            writer.chunk(&asconf).unwrap();
        }),
        forward(|writer| {
            writer.chunk(&auth).unwrap();
            writer.chunk(&asconf).unwrap();
        }),
        back(|writer| {
            writer.chunk(&auth).unwrap();
            let ack = AsconfAck {
                sequence_number: SequenceNumber(10),
                responses: answers.parameters(),
            };
            writer.chunk(&Chunk::AsconfAck(ack)).unwrap();
        }),
        forward(re_config(reset)),
        back(response(10, ReConfigResult::IN_PROGRESS)),
        forward(re_config(reset)),
        back(response(10, ReConfigResult::SUCCESS_PERFORMED)),
        forward(re_config(Parameter::AddOutgoingStreamsRequest(
            AddStreamsRequest {
                request_sequence_number: SequenceNumber(11),
                new_streams: 3,
            },
        ))),
        back(response(11, ReConfigResult::DENIED)),
    ]
}

fn analyze(packets: &[Vec<u8>]) -> Results {
    let file = pcap(RAW, packets);
    let mut reader = Reader::open(&file[..], 0).unwrap();
    let mut analysis = Analysis::new(&Options::default());
    while reader
        .step(&mut |event| analysis.observe(&event, &mut |_| {}))
        .unwrap()
    {}
    analysis.finish(&mut |_| {})
}

#[test]
fn the_view_of_associations_counts_what_extensions_do() {
    let results = analyze(&every_extension());
    let view = &results.sctp;
    assert_eq!((view.malformed(), view.bad_checksums()), (0, 0));
    let [association] = view.associations() else {
        panic!("{:?}", view.associations());
    };
    let forward = &association.forward;
    assert_eq!(forward.tsns, 4);
    assert_eq!(forward.retransmitted_tsns, 0);
    assert_eq!(forward.abandoned_tsns, 2);
    assert_eq!(forward.address_changes, 2);
    assert_eq!(forward.stream_resets, 1);
    assert_eq!(forward.stream_additions, 1);
    let backward = &association.backward;
    assert_eq!((backward.address_changes, backward.stream_resets), (0, 0));
    // The first NR-SACK acknowledges a chunk in a gap; the second one only what was abandoned.
    assert_eq!(association.paths()[0].round_trip.count, 1);
    let changes: Vec<(String, String)> = association
        .changes()
        .iter()
        .map(|change| {
            assert!(change.is_forward);
            let outcome = change.outcome.as_ref().expect("an answer");
            (change.request.to_string(), outcome.to_string())
        })
        .collect();
    let expected = [
        ("add 192.0.2.9", "performed"),
        (
            "primary 192.0.2.9",
            "refused: Request Refused - No Authorization",
        ),
        ("reset outgoing streams 1 2", "performed"),
        ("add 3 outgoing streams", "refused: Denied"),
    ];
    assert_eq!(
        changes,
        expected.map(|(request, outcome)| (request.to_owned(), outcome.to_owned()))
    );
    let totals = view.totals();
    assert_eq!(totals.abandoned_tsns, 2);
    assert_eq!((totals.stream_resets, totals.stream_additions), (1, 1));
    assert_eq!(totals.address_changes, 2);
}

#[test]
fn tshark_gives_the_chunks_the_same_names_and_counts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("extensions.pcap");
    let packets = every_extension();
    std::fs::write(&path, pcap(RAW, &packets)).unwrap();
    let Some(text) = tshark(&path, &["-V"]) else {
        return;
    };
    let mut theirs: BTreeMap<String, u64> = BTreeMap::new();
    for line in text.lines() {
        // `        Chunk type: I_DATA (64)`; what is indented more is the list of a parameter.
        let name = line
            .strip_prefix("        Chunk type: ")
            .and_then(|rest| rest.split_once(" ("));
        if let Some((name, _)) = name {
            *theirs.entry(name.replace('_', " ")).or_default() += 1;
        }
    }
    let results = analyze(&packets);
    let ours: BTreeMap<String, u64> = results
        .sctp
        .chunks()
        .map(|(chunk_type, count)| (chunk_type.to_string().replace('-', " "), count))
        .collect();
    assert_eq!(ours, theirs);
    assert_eq!(ours.len(), 12);
    let malformed = tshark(&path, &["-Y", "_ws.malformed"]).unwrap();
    assert_eq!(malformed, "");
}
