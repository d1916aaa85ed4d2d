//! The chunks, parameters, and error causes of the extensions, byte for byte as their RFCs draw
//! them. That they come back as they were written is in `round_trip`.

use crate::packet::layout::{assert_layout, only_chunk};
use crate::packet::{chunks_of, packet_of_raw_chunks, packet_with};
use sctp::packet::{
    AddStreamsRequest, AddressRequest, Asconf, AsconfAck, Auth, Cause, CauseBuffer, CauseCode,
    Causes, Chunk, ChunkType, ChunkTypeList, ErrorCauseIndication, ForwardTsn, Fragment,
    GapAckBlock, HmacIdentifier, HmacList, IData, IForwardTsn, IncomingSsnResetRequest, Mid,
    NextTsns, NrSack, OutgoingSsnResetRequest, Packet, Parameter, ParameterBuffer, ParameterType,
    Parameters, ReConfig, ReConfigResponse, ReConfigResult, SequenceNumber, SkippedMid, SkippedSsn,
    Ssn, StreamList, Tsn, UnrecognizedAction,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// RFC 4895, figure 5.
#[test]
fn auth() {
    let auth = Auth {
        shared_key_identifier: 258,
        hmac_identifier: HmacIdentifier::SHA_256,
        hmac: b"five!",
    };
    let bytes = b"\x0f\x00\x00\x0d\x01\x02\x00\x03five!\0\0\0";
    assert_layout(&Chunk::Auth(auth), bytes);
    assert_eq!(Auth::OVERHEAD + auth.hmac.len(), 0x0d);
}

/// RFC 3758, section 3.2.
#[test]
fn forward_tsn() {
    let skipped = [
        SkippedSsn {
            stream: 1,
            ssn: Ssn(2),
        },
        SkippedSsn {
            stream: 0xfffe,
            ssn: Ssn(0xffff),
        },
    ];
    let bytes = b"\xc0\x00\x00\x10\x01\x02\x03\x04\x00\x01\x00\x02\xff\xfe\xff\xff";
    let packet = packet_with(|writer| {
        let room = writer.remaining();
        writer
            .forward_tsn(Tsn(0x0102_0304), skipped.into_iter())
            .unwrap();
        let taken = ForwardTsn::OVERHEAD + 2 * ForwardTsn::ENTRY_LENGTH;
        assert_eq!(writer.remaining(), room - taken);
    });
    assert_eq!(chunks_of(&packet), bytes);
    let chunk = only_chunk(&packet);
    let Chunk::ForwardTsn(forward_tsn) = chunk else {
        panic!("no FORWARD-TSN");
    };
    assert_eq!(forward_tsn.new_cumulative_tsn, Tsn(0x0102_0304));
    assert!(forward_tsn.skipped.iter().eq(skipped));
    assert_layout(&chunk, bytes);
}

/// RFC 8260, figure 3: in the first fragment the last field of the header is the PPID.
#[test]
fn i_data() {
    let first = IData {
        immediate: true,
        unordered: false,
        ending: false,
        tsn: Tsn(0x0102_0304),
        stream: 5,
        mid: Mid(0x0607_0809),
        fragment: Fragment::First { ppid: 0x0a0b_0c0d },
        user_data: b"hello",
    };
    assert!(first.beginning());
    let bytes = b"\x40\x0a\x00\x19\x01\x02\x03\x04\x00\x05\x00\x00\x06\x07\x08\x09\
        \x0a\x0b\x0c\x0dhello\0\0\0";
    assert_layout(&Chunk::IData(first), bytes);
    let later = IData {
        immediate: false,
        unordered: true,
        ending: true,
        fragment: Fragment::Later { fsn: 0x0a0b_0c0d },
        ..first
    };
    assert!(!later.beginning());
    let bytes = b"\x40\x05\x00\x19\x01\x02\x03\x04\x00\x05\x00\x00\x06\x07\x08\x09\
        \x0a\x0b\x0c\x0dhello\0\0\0";
    assert_layout(&Chunk::IData(later), bytes);
    assert_eq!(IData::OVERHEAD + later.user_data.len(), 0x19);
}

/// RFC 8260, section 2.1: reserved flags and the reserved field are ignored.
#[test]
fn i_data_with_reserved_bits() {
    let bytes = b"\x40\xf3\x00\x14\0\0\0\x01\0\x02\xff\xff\0\0\0\x03\0\0\0\x04";
    let packet = packet_of_raw_chunks(bytes);
    let Chunk::IData(data) = only_chunk(&packet) else {
        panic!("no I-DATA");
    };
    assert_eq!(
        data,
        IData {
            immediate: false,
            unordered: false,
            ending: true,
            tsn: Tsn(1),
            stream: 2,
            mid: Mid(3),
            fragment: Fragment::First { ppid: 4 },
            user_data: b"",
        }
    );
    assert!(data.user_data_in(&packet.clone().into()).is_empty());
}

/// RFC 8260, figure 4.
#[test]
fn i_forward_tsn() {
    let skipped = [
        SkippedMid {
            stream: 1,
            unordered: true,
            mid: Mid(2),
        },
        SkippedMid {
            stream: 0xfffe,
            unordered: false,
            mid: Mid(u32::MAX),
        },
    ];
    let bytes = b"\xc2\x00\x00\x18\x01\x02\x03\x04\x00\x01\x00\x01\0\0\0\x02\
        \xff\xfe\x00\x00\xff\xff\xff\xff";
    let packet = packet_with(|writer| {
        let room = writer.remaining();
        writer
            .i_forward_tsn(Tsn(0x0102_0304), skipped.into_iter())
            .unwrap();
        let taken = IForwardTsn::OVERHEAD + 2 * IForwardTsn::ENTRY_LENGTH;
        assert_eq!(writer.remaining(), room - taken);
    });
    assert_eq!(chunks_of(&packet), bytes);
    let chunk = only_chunk(&packet);
    let Chunk::IForwardTsn(forward_tsn) = chunk else {
        panic!("no I-FORWARD-TSN");
    };
    assert_eq!(forward_tsn.new_cumulative_tsn, Tsn(0x0102_0304));
    assert!(forward_tsn.skipped.iter().eq(skipped));
    assert_layout(&chunk, bytes);
}

/// RFC 8260, section 2.3.1: the 15 reserved bits are ignored, and written as zeros.
#[test]
fn i_forward_tsn_with_reserved_bits() {
    let with = packet_of_raw_chunks(b"\xc2\xff\x00\x10\0\0\0\x01\0\x02\xff\xff\0\0\0\x03");
    let without = packet_of_raw_chunks(b"\xc2\x00\x00\x10\0\0\0\x01\0\x02\x00\x01\0\0\0\x03");
    assert_eq!(only_chunk(&with), only_chunk(&without));
    let again = packet_with(|writer| writer.chunk(&only_chunk(&with)).unwrap());
    assert_eq!(chunks_of(&again), chunks_of(&without));
}

/// draft-natarajan-tsvwg-sctp-nrsack: both kinds of blocks, then duplicates.
#[test]
fn nr_sack() {
    let block = |start, end| GapAckBlock { start, end };
    let (blocks, nr_blocks) = ([block(2, 3)], [block(5, 5), block(7, 9)]);
    let bytes = b"\x10\x00\x00\x24\x01\x02\x03\x04\x00\x01\x00\x00\x00\x01\x00\x02\
        \x00\x01\x00\x00\x00\x02\x00\x03\x00\x05\x00\x05\x00\x07\x00\x09\x00\x00\x00\x0b";
    let packet = packet_with(|writer| {
        let room = writer.remaining();
        writer
            .nr_sack(
                Tsn(0x0102_0304),
                65536,
                0,
                blocks.into_iter(),
                nr_blocks.into_iter(),
                [Tsn(11)].into_iter(),
            )
            .unwrap();
        let taken = NrSack::OVERHEAD + 4 * NrSack::ENTRY_LENGTH;
        assert_eq!(writer.remaining(), room - taken);
    });
    assert_eq!(chunks_of(&packet), bytes);
    let chunk = only_chunk(&packet);
    let Chunk::NrSack(nr_sack) = chunk else {
        panic!("no NR-SACK");
    };
    assert_eq!(nr_sack.cumulative_tsn_ack, Tsn(0x0102_0304));
    assert_eq!(nr_sack.a_rwnd, 65536);
    assert!(nr_sack.gap_ack_blocks.iter().eq(blocks));
    assert!(nr_sack.nr_gap_ack_blocks.iter().eq(nr_blocks));
    assert!(nr_sack.duplicate_tsns.iter().eq([Tsn(11)]));
    assert_layout(&chunk, bytes);
}

/// RFC 5061, section 4.1.1.
#[test]
fn asconf() {
    let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
    let request = Parameter::AddIpAddress(AddressRequest {
        correlation_id: 0x0102_3474,
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    });
    let mut parameters = ParameterBuffer::new();
    parameters.push(&Parameter::from(address)).unwrap();
    parameters.push(&request).unwrap();
    let asconf = Asconf {
        sequence_number: SequenceNumber(258),
        parameters: parameters.parameters(),
    };
    assert_eq!(asconf.address(), Some(address));
    assert!(asconf.requests().eq([Ok(request)]));
    let bytes = b"\xc1\x00\x00\x20\x00\x00\x01\x02\x00\x05\x00\x08\xc0\x00\x02\x07\
        \xc0\x01\x00\x10\x01\x02\x34\x74\x00\x05\x00\x08\xc0\x00\x02\x01";
    assert_layout(&Chunk::Asconf(asconf), bytes);
    assert_eq!(Asconf::OVERHEAD + 8 + 16, bytes.len());
}

/// RFC 5061, section 4.1.1: the Address Parameter is mandatory, but may be missing, and a host name
/// is to be ignored.
#[test]
fn asconf_without_address() {
    for parameters in [
        &b""[..],
        b"\x00\x0b\x00\x0ea.example\0\0\0",
        b"\x00\x05\x00\x07abc",
        b"\xc0\x01\x00\x10\x01\x02\x34\x74\x00\x05\x00\x08\xc0\x00\x02\x01",
    ] {
        let asconf = Asconf {
            sequence_number: SequenceNumber(1),
            parameters: Parameters::new(parameters),
        };
        assert_eq!(asconf.address(), None);
        assert_eq!(asconf.requests().count(), 0);
    }
}

/// RFC 5061, section 4.1.2: without a response every request succeeded.
#[test]
fn asconf_ack() {
    let all = AsconfAck {
        sequence_number: SequenceNumber(258),
        responses: Parameters::default(),
    };
    assert_layout(&Chunk::AsconfAck(all), b"\x80\x00\x00\x08\x00\x00\x01\x02");
    let some = AsconfAck {
        responses: Parameters::new(b"\xc0\x05\x00\x08\x01\x02\x34\x74"),
        ..all
    };
    assert_layout(
        &Chunk::AsconfAck(some),
        b"\x80\x00\x00\x10\x00\x00\x01\x02\xc0\x05\x00\x08\x01\x02\x34\x74",
    );
}

/// RFC 6525, section 3.1.
#[test]
fn re_config() {
    let re_config = ReConfig {
        parameters: Parameters::new(b"\x00\x0f\x00\x08\x00\x00\x01\x02"),
    };
    assert_layout(
        &Chunk::ReConfig(re_config),
        b"\x82\x00\x00\x0c\x00\x0f\x00\x08\x00\x00\x01\x02",
    );
}

/// The parameters in an INIT or INIT ACK.
#[test]
fn setup_parameters() {
    let algorithms = [
        HmacIdentifier::SHA_256.to_be_bytes(),
        HmacIdentifier::SHA_1.to_be_bytes(),
    ];
    assert_parameters(&[
        (Parameter::Random(b"number"), b"\x80\x02\x00\x0anumber\0\0"),
        (
            Parameter::Chunks(ChunkTypeList::new(&[0xc1, 0x80, 0])),
            b"\x80\x03\x00\x07\xc1\x80\x00\0",
        ),
        (
            Parameter::HmacAlgo(HmacList::new(&algorithms)),
            b"\x80\x04\x00\x08\x00\x03\x00\x01",
        ),
        (
            Parameter::ZeroChecksumAcceptable {
                error_detection_method: 1,
            },
            b"\x80\x01\x00\x08\x00\x00\x00\x01",
        ),
        (
            Parameter::SupportedExtensions(ChunkTypeList::new(&[0xc0, 0x40])),
            b"\x80\x08\x00\x06\xc0\x40\0\0",
        ),
        (
            Parameter::AdaptationLayerIndication { code_point: 258 },
            b"\xc0\x06\x00\x08\x00\x00\x01\x02",
        ),
        (Parameter::ForwardTsnSupported, b"\xc0\x00\x00\x04"),
    ]);
}

/// The examples of RFC 5061, sections 4.2.1, 4.2.2, 4.2.4, and 4.3.1.
#[test]
fn asconf_parameters() {
    let request = |correlation_id| AddressRequest {
        correlation_id,
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    };
    let causes = b"\x00\xa0\x00\x14\
        \xc0\x02\x00\x10\x01\x02\x34\x76\x00\x05\x00\x08\xc0\x00\x02\x01";
    assert_parameters(&[
        (
            Parameter::AddIpAddress(request(0x0102_3474)),
            b"\xc0\x01\x00\x10\x01\x02\x34\x74\x00\x05\x00\x08\xc0\x00\x02\x01",
        ),
        (
            Parameter::DeleteIpAddress(request(0x0102_3476)),
            b"\xc0\x02\x00\x10\x01\x02\x34\x76\x00\x05\x00\x08\xc0\x00\x02\x01",
        ),
        (
            Parameter::SetPrimaryAddress(request(0x0102_3479)),
            b"\xc0\x04\x00\x10\x01\x02\x34\x79\x00\x05\x00\x08\xc0\x00\x02\x01",
        ),
        (
            Parameter::AddIpAddress(AddressRequest {
                correlation_id: 1,
                address: IpAddr::V6(Ipv6Addr::LOCALHOST),
            }),
            b"\xc0\x01\x00\x1c\0\0\0\x01\x00\x06\x00\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01",
        ),
        (
            Parameter::ErrorCauseIndication(ErrorCauseIndication {
                correlation_id: 0x0102_3476,
                causes: Causes::new(causes),
            }),
            &[&b"\xc0\x03\x00\x1c\x01\x02\x34\x76"[..], causes].concat(),
        ),
        (
            Parameter::SuccessIndication {
                correlation_id: 0x0102_3474,
            },
            b"\xc0\x05\x00\x08\x01\x02\x34\x74",
        ),
    ]);
}

/// RFC 6525, section 4.
#[test]
fn re_config_parameters() {
    let streams = [[0, 3], [1, 0], [0, 4]];
    let all = StreamList::new(&[]);
    let request_sequence_number = SequenceNumber(0x0102_0304);
    let response = ReConfigResponse {
        response_sequence_number: request_sequence_number,
        result: ReConfigResult::SUCCESS_PERFORMED,
        next_tsns: None,
    };
    let more = AddStreamsRequest {
        request_sequence_number,
        new_streams: 3,
    };
    assert_parameters(&[
        (
            Parameter::OutgoingSsnResetRequest(OutgoingSsnResetRequest {
                request_sequence_number,
                response_sequence_number: SequenceNumber(5),
                last_assigned_tsn: Tsn(6),
                streams: StreamList::new(&streams),
            }),
            b"\x00\x0d\x00\x16\x01\x02\x03\x04\0\0\0\x05\0\0\0\x06\0\x03\x01\0\0\x04\0\0",
        ),
        (
            Parameter::OutgoingSsnResetRequest(OutgoingSsnResetRequest {
                request_sequence_number,
                response_sequence_number: SequenceNumber(5),
                last_assigned_tsn: Tsn(6),
                streams: all,
            }),
            b"\x00\x0d\x00\x10\x01\x02\x03\x04\0\0\0\x05\0\0\0\x06",
        ),
        (
            Parameter::IncomingSsnResetRequest(IncomingSsnResetRequest {
                request_sequence_number,
                streams: StreamList::new(&streams[..1]),
            }),
            b"\x00\x0e\x00\x0a\x01\x02\x03\x04\0\x03\0\0",
        ),
        (
            Parameter::IncomingSsnResetRequest(IncomingSsnResetRequest {
                request_sequence_number,
                streams: all,
            }),
            b"\x00\x0e\x00\x08\x01\x02\x03\x04",
        ),
        (
            Parameter::SsnTsnResetRequest {
                request_sequence_number,
            },
            b"\x00\x0f\x00\x08\x01\x02\x03\x04",
        ),
        (
            Parameter::ReConfigResponse(response),
            b"\x00\x10\x00\x0c\x01\x02\x03\x04\0\0\0\x01",
        ),
        (
            Parameter::ReConfigResponse(ReConfigResponse {
                next_tsns: Some(NextTsns {
                    sender: Tsn(7),
                    receiver: Tsn(8),
                }),
                ..response
            }),
            b"\x00\x10\x00\x14\x01\x02\x03\x04\0\0\0\x01\0\0\0\x07\0\0\0\x08",
        ),
        (
            Parameter::AddOutgoingStreamsRequest(more),
            b"\x00\x11\x00\x0c\x01\x02\x03\x04\0\x03\0\0",
        ),
        (
            Parameter::AddIncomingStreamsRequest(more),
            b"\x00\x12\x00\x0c\x01\x02\x03\x04\0\x03\0\0",
        ),
    ]);
}

/// Values of another length than their type prescribes; the next parameter is read all the same.
#[test]
fn malformed_parameters() {
    for bytes in [
        &b"\xc0\x00\x00\x05a"[..],
        b"\x80\x01\x00\x04",
        b"\x80\x01\x00\x09abcde",
        b"\x80\x04\x00\x05a",
        b"\xc0\x05\x00\x07abc",
        b"\xc0\x06\x00\x04",
        b"\xc0\x03\x00\x07abc",
        // No address, half of one, two, a host name, and no room for the correlation identifier.
        b"\xc0\x01\x00\x08abcd",
        b"\xc0\x02\x00\x0eabcd\x00\x05\x00\x08\xc0\x00",
        b"\xc0\x04\x00\x18abcd\x00\x05\x00\x08\xc0\x00\x02\x01\x00\x05\x00\x08\xc0\x00\x02\x01",
        b"\xc0\x01\x00\x0eabcd\x00\x0b\x00\x06a\0",
        b"\xc0\x01\x00\x06ab",
        b"\x00\x0d\x00\x0fabcdefghijk",
        b"\x00\x0d\x00\x11abcdefghijklm",
        b"\x00\x0e\x00\x04",
        b"\x00\x0e\x00\x09abcde",
        b"\x00\x0f\x00\x0aabcdef",
        b"\x00\x10\x00\x08abcd",
        b"\x00\x10\x00\x10abcdefghijkl",
        b"\x00\x10\x00\x18abcdefghijklmnopqrst",
        b"\x00\x11\x00\x0aabcdef",
        b"\x00\x12\x00\x10abcdefghijkl",
    ] {
        let mut list = bytes.to_vec();
        list.resize(bytes.len().next_multiple_of(4), 0);
        list.extend_from_slice(b"\xc0\x00\x00\x04");
        let mut parameters = Parameters::new(&list).iter();
        assert_eq!(parameters.next().unwrap().unwrap_err().bytes(), bytes);
        assert_eq!(parameters.next(), Some(Ok(Parameter::ForwardTsnSupported)));
        assert_eq!(parameters.next(), None);
    }
}

/// Chunks whose value is shorter than their fixed fields, or has part of an entry.
#[test]
fn malformed_chunks() {
    for bytes in [
        &b"\x0f\x00\x00\x07abc"[..],
        b"\x10\x00\x00\x13abcdefghijklmno",
        b"\x10\x00\x00\x14abcdefgh\0\0\0\x01\0\0\0\0",
        b"\x10\x00\x00\x18abcdefgh\0\x01\0\0\0\x01\0\0abcd",
        b"\x40\x03\x00\x13abcdefghijklmno",
        b"\x80\x00\x00\x07abc",
        b"\xc0\x00\x00\x07abc",
        b"\xc0\x00\x00\x0aabcdef",
        b"\xc1\x00\x00\x07abc",
        b"\xc2\x00\x00\x07abc",
        b"\xc2\x00\x00\x0cabcdefgh",
    ] {
        let mut list = bytes.to_vec();
        list.resize(bytes.len().next_multiple_of(4), 0);
        list.extend_from_slice(b"\x0b\x00\x00\x04");
        let packet = packet_of_raw_chunks(&list);
        let mut chunks = Packet::read(&packet).unwrap().chunks();
        assert_eq!(chunks.next().unwrap().unwrap_err().bytes(), bytes);
        assert_eq!(chunks.next(), Some(Ok(Chunk::CookieAck)));
        assert_eq!(chunks.next(), None);
    }
}

/// RFC 5061, section 4.3, and RFC 4895, figure 4.
#[test]
fn causes() {
    let request = b"\xc0\x02\x00\x10\x01\x02\x34\x76\x00\x05\x00\x08\xc0\x00\x02\x01";
    let copied = Parameters::new(request);
    let with_request = |code: u8| [&[0, code, 0, 20], &request[..]].concat();
    let causes = [
        (
            Cause::RequestToDeleteLastIpAddress(copied),
            with_request(0xa0),
        ),
        (
            Cause::OperationRefusedDueToResourceShortage(copied),
            with_request(0xa1),
        ),
        (
            Cause::RequestToDeleteSourceIpAddress(copied),
            with_request(0xa2),
        ),
        (Cause::IllegalAsconfAck, b"\x00\xa3\x00\x04".to_vec()),
        (
            Cause::RequestRefusedNoAuthorization(copied),
            with_request(0xa4),
        ),
        (
            Cause::UnsupportedHmacIdentifier {
                hmac_identifier: HmacIdentifier(2),
            },
            b"\x01\x05\x00\x06\x00\x02".to_vec(),
        ),
    ];
    for (cause, bytes) in causes {
        let mut buffer = CauseBuffer::new();
        buffer.push(&cause).unwrap();
        assert_eq!(buffer.causes().as_bytes(), bytes);
        assert!(buffer.causes().iter().eq([Ok(cause)]));
        let code = u16::from_be_bytes([bytes[0], bytes[1]]);
        assert_eq!(cause.code(), CauseCode(code));
    }
    let malformed = Causes::new(b"\x01\x05\x00\x05a");
    assert!(malformed.iter().next().unwrap().is_err());
}

/// What a receiver without the extension does is said by the highest two bits of the type: every RFC
/// says what it wants there.
#[test]
fn types_say_what_to_do_with_them() {
    let action = |stop, report| UnrecognizedAction { stop, report };
    for (chunk_type, expected) in [
        (ChunkType::AUTH, action(true, false)),
        (ChunkType::NR_SACK, action(true, false)),
        (ChunkType::I_DATA, action(true, true)),
        (ChunkType::ASCONF_ACK, action(false, false)),
        (ChunkType::RE_CONFIG, action(false, false)),
        (ChunkType::FORWARD_TSN, action(false, true)),
        (ChunkType::ASCONF, action(false, true)),
        (ChunkType::I_FORWARD_TSN, action(false, true)),
    ] {
        assert_eq!(chunk_type.unrecognized_action(), expected, "{chunk_type}");
        assert!(!chunk_type.travels_alone());
    }
    for (parameter_type, expected) in [
        (ParameterType::RE_CONFIG_RESPONSE, action(true, false)),
        (
            ParameterType::ZERO_CHECKSUM_ACCEPTABLE,
            action(false, false),
        ),
        (ParameterType::RANDOM, action(false, false)),
        (ParameterType::SUPPORTED_EXTENSIONS, action(false, false)),
        (ParameterType::FORWARD_TSN_SUPPORTED, action(false, true)),
        (ParameterType::ADD_IP_ADDRESS, action(false, true)),
    ] {
        let found = parameter_type.unrecognized_action();
        assert_eq!(found, expected, "{parameter_type}");
    }
}

#[test]
fn lists_of_chunk_types() {
    let types = ChunkTypeList::new(&[0xc0, 0x40]);
    assert!(types.iter().eq([ChunkType::FORWARD_TSN, ChunkType::I_DATA]));
    assert!(types.contains(ChunkType::I_DATA));
    assert!(!types.contains(ChunkType::AUTH));
    assert_eq!(types.len(), 2);
    assert!(!types.is_empty() && ChunkTypeList::default().is_empty());
    assert_eq!(format!("{types:?}"), "[ChunkType(192), ChunkType(64)]");
}

/// Writes the parameters as bytes, one after another, and reads them back from there.
#[track_caller]
fn assert_parameters(parameters: &[(Parameter<'_>, &[u8])]) {
    for (parameter, bytes) in parameters {
        let mut buffer = ParameterBuffer::new();
        buffer.push(parameter).unwrap();
        let length = buffer.parameters().as_bytes().len();
        assert_eq!(buffer.parameters().as_bytes(), &bytes[..length]);
        assert_eq!(bytes.len(), length.next_multiple_of(4));
        assert_eq!(Parameters::new(bytes).iter().next(), Some(Ok(*parameter)));
        let parameter_type = u16::from_be_bytes([bytes[0], bytes[1]]);
        assert_eq!(parameter.parameter_type(), ParameterType(parameter_type));
    }
}
