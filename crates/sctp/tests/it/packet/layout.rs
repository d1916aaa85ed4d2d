//! Every chunk, parameter, and error cause, byte for byte as the RFC draws it.

use crate::packet::{chunks_of, packet_of_raw_chunks, packet_with};
use sctp::packet::{
    Abort, Cause, CauseBuffer, CauseCode, Causes, Chunk, ChunkType, CookieEcho, Data, DoesNotFit,
    GapAckBlock, Heartbeat, Init, OperationError, Packet, Pad, Parameter, ParameterBuffer,
    ParameterType, Parameters, Sack, Shutdown, ShutdownComplete, Ssn, Tsn, TypeList,
    UnrecognizedAction, checksum,
};
use std::net::{Ipv4Addr, Ipv6Addr};

#[test]
fn common_header() {
    let packet = packet_with(|_| {});
    assert_eq!(packet[..8], *b"\x13\xc4\x8e\x3c\x01\x02\x03\x04");
    let header = Packet::read(&packet).unwrap().header();
    assert_eq!(header.source_port, 5060);
    assert_eq!(header.destination_port, 36412);
    assert_eq!(header.verification_tag, 0x0102_0304);
    assert_eq!(header.checksum.to_be_bytes(), packet[8..]);
}

/// The vector of 32 zero bytes of RFC 3720, appendix B.4, where the bytes of the CRC are in the
/// order in which they travel.
#[test]
fn checksum_of_zeros() {
    assert_eq!(checksum::of(&[0; 32]), Some(0xaa36_918a));
}

/// The checksum field itself counts as zero, whatever it holds.
#[test]
fn checksum_ignores_its_own_field() {
    let mut packet = [0; 32];
    packet[8..12].fill(0xff);
    assert_eq!(checksum::of(&packet), Some(0xaa36_918a));
}

#[test]
fn checksum_of_less_than_a_header() {
    assert_eq!(checksum::of(&[0; 11]), None);
    let mut short = [7; 11];
    checksum::fill(&mut short);
    assert_eq!(short, [7; 11]);
}

#[test]
fn data() {
    let data = Data {
        immediate: true,
        unordered: false,
        beginning: true,
        ending: false,
        tsn: Tsn(0x0a0b_0c0d),
        stream: 0x1112,
        ssn: Ssn(0x1314),
        ppid: 0x2122_2324,
        user_data: b"hello",
    };
    assert_layout(
        &Chunk::Data(data),
        b"\x00\x0a\x00\x15\x0a\x0b\x0c\x0d\x11\x12\x13\x14\x21\x22\x23\x24hello\0\0\0",
    );
    for (bit, only_this) in [
        (
            0x08,
            Data {
                immediate: true,
                ..Data::default()
            },
        ),
        (
            0x04,
            Data {
                unordered: true,
                ..Data::default()
            },
        ),
        (
            0x02,
            Data {
                beginning: true,
                ..Data::default()
            },
        ),
        (
            0x01,
            Data {
                ending: true,
                ..Data::default()
            },
        ),
    ] {
        let packet = packet_with(|writer| writer.data(&only_this).unwrap());
        assert_eq!(chunks_of(&packet)[1], bit);
    }
}

#[test]
fn init_and_init_ack() {
    let mut parameters = ParameterBuffer::new();
    parameters
        .push(&Parameter::Ipv4Address(Ipv4Addr::new(192, 0, 2, 1)))
        .unwrap();
    let init = Init {
        initiate_tag: 0x0102_0304,
        a_rwnd: 0x0001_0000,
        outbound_streams: 10,
        inbound_streams: 2048,
        initial_tsn: Tsn(0xfffe_fdfc),
        parameters: parameters.parameters(),
    };
    let value = b"\x01\x02\x03\x04\x00\x01\x00\x00\x00\x0a\x08\x00\xff\xfe\xfd\xfc\
        \x00\x05\x00\x08\xc0\x00\x02\x01";
    assert_layout(
        &Chunk::Init(init),
        &[b"\x01\x00\x00\x1c", &value[..]].concat(),
    );
    assert_layout(
        &Chunk::InitAck(init),
        &[b"\x02\x00\x00\x1c", &value[..]].concat(),
    );
}

/// The example at the end of section 3.3.4.
#[test]
fn sack() {
    let packet = packet_with(|writer| {
        let blocks = [
            GapAckBlock { start: 2, end: 3 },
            GapAckBlock { start: 5, end: 5 },
        ];
        writer
            .sack(Tsn(12), 4660, 0, blocks.into_iter(), [].into_iter())
            .unwrap();
    });
    let expected = b"\x03\x00\x00\x18\x00\x00\x00\x0c\x00\x00\x12\x34\x00\x02\x00\x00\
        \x00\x02\x00\x03\x00\x05\x00\x05";
    assert_eq!(chunks_of(&packet), expected);
}

#[test]
fn sack_with_duplicates() {
    let bytes = b"\x03\x00\x00\x1c\x00\x00\x00\x0c\x00\x00\x12\x34\x00\x01\x00\x02\
        \x00\x02\x00\x03\x00\x00\x00\x0b\xff\xff\xff\xff";
    let packet = packet_of_raw_chunks(bytes);
    let Chunk::Sack(sack) = only_chunk(&packet) else {
        panic!("no SACK");
    };
    assert_eq!(sack.cumulative_tsn_ack, Tsn(12));
    assert_eq!(sack.a_rwnd, 0x1234);
    assert!(
        sack.gap_ack_blocks
            .iter()
            .eq([GapAckBlock { start: 2, end: 3 }])
    );
    assert!(sack.duplicate_tsns.iter().eq([Tsn(11), Tsn(u32::MAX)]));
    assert_layout(&Chunk::Sack(sack), bytes);
}

/// Counts that announce more than the chunk holds.
#[test]
fn sack_with_too_large_counts() {
    for counts in [
        [0, 2, 0, 0],
        [0, 0, 0, 2],
        [0, 1, 0, 1],
        [255, 255, 255, 255],
    ] {
        let mut bytes =
            b"\x03\x00\x00\x14\x00\x00\x00\x0c\x00\x00\x12\x34\x00\x00\x00\x00abcd".to_vec();
        bytes[12..16].copy_from_slice(&counts);
        let packet = packet_of_raw_chunks(&bytes);
        let chunk = Packet::read(&packet).unwrap().chunks().next().unwrap();
        assert_eq!(chunk.unwrap_err().bytes(), bytes);
    }
}

#[test]
fn heartbeat_and_its_ack() {
    let bytes = b"\x04\x00\x00\x0b\x00\x01\x00\x07abc\x00";
    let packet = packet_with(|writer| writer.heartbeat(b"abc").unwrap());
    assert_eq!(chunks_of(&packet), bytes);
    let Chunk::Heartbeat(heartbeat) = only_chunk(&packet) else {
        panic!("no HEARTBEAT");
    };
    assert_eq!(heartbeat.info(), Some(&b"abc"[..]));
    assert_layout(
        &Chunk::HeartbeatAck(heartbeat),
        b"\x05\x00\x00\x0b\x00\x01\x00\x07abc\x00",
    );
    assert_eq!(Heartbeat::default().info(), None);
}

#[test]
fn abort() {
    assert_layout(&Chunk::Abort(Abort::default()), b"\x06\x00\x00\x04");
    let mut causes = CauseBuffer::new();
    causes.push(&Cause::OutOfResource).unwrap();
    let abort = Abort {
        tag_reflected: true,
        causes: causes.causes(),
    };
    assert_layout(&Chunk::Abort(abort), b"\x06\x01\x00\x08\x00\x04\x00\x04");
}

#[test]
fn chunks_of_the_graceful_close() {
    let shutdown = Shutdown {
        cumulative_tsn_ack: Tsn(0x0102_0304),
    };
    assert_layout(
        &Chunk::Shutdown(shutdown),
        b"\x07\x00\x00\x08\x01\x02\x03\x04",
    );
    assert_layout(&Chunk::ShutdownAck, b"\x08\x00\x00\x04");
    for (tag_reflected, bytes) in [(false, b"\x0e\x00\x00\x04"), (true, b"\x0e\x01\x00\x04")] {
        assert_layout(
            &Chunk::ShutdownComplete(ShutdownComplete { tag_reflected }),
            bytes,
        );
    }
}

#[test]
fn operation_error() {
    let mut causes = CauseBuffer::new();
    causes.push(&Cause::UserInitiatedAbort(b"a")).unwrap();
    causes
        .push(&Cause::InvalidStreamIdentifier { stream: 9 })
        .unwrap();
    let error = OperationError {
        causes: causes.causes(),
    };
    assert_layout(
        &Chunk::Error(error),
        b"\x09\x00\x00\x14\x00\x0c\x00\x05a\0\0\0\x00\x01\x00\x08\x00\x09\x00\x00",
    );
}

#[test]
fn cookie_echo_and_its_ack() {
    let cookie_echo = CookieEcho { cookie: b"cookie" };
    assert_layout(
        &Chunk::CookieEcho(cookie_echo),
        b"\x0a\x00\x00\x0acookie\0\0",
    );
    assert_layout(&Chunk::CookieAck, b"\x0b\x00\x00\x04");
}

/// RFC 4820, section 3; the flags are ignored.
#[test]
fn pad() {
    assert_layout(&Chunk::Pad(Pad::default()), b"\x84\x00\x00\x04");
    let pad = Pad {
        padding_data: b"air",
    };
    assert_layout(&Chunk::Pad(pad), b"\x84\x00\x00\x07air\0");
    let packet = packet_of_raw_chunks(b"\x84\xff\x00\x07air\0");
    assert_eq!(only_chunk(&packet), Chunk::Pad(pad));
    let unrecognized = UnrecognizedAction {
        stop: false,
        report: false,
    };
    assert_eq!(ChunkType::PAD.unrecognized_action(), unrecognized);
    assert_eq!(ParameterType::PADDING.unrecognized_action(), unrecognized);
}

#[test]
fn a_packet_padded_to_an_exact_size() {
    for size in [36, 40, 1200, 1472, 65_532] {
        let packet = packet_with(|writer| {
            writer.heartbeat(b"a nonce.").unwrap();
            writer.pad_to(size).unwrap();
        });
        assert_eq!(packet.len(), size);
        let types: Vec<_> = Packet::read(&packet)
            .unwrap()
            .chunks()
            .map(|chunk| chunk.unwrap().chunk_type())
            .collect();
        assert_eq!(types, [ChunkType::HEARTBEAT, ChunkType::PAD]);
    }
    packet_with(|writer| {
        writer.heartbeat(b"a nonce.").unwrap();
        let length = writer.len();
        for size in [0, length - 4, length + 1, length + 6, 65_536] {
            assert_eq!(writer.pad_to(size), Err(DoesNotFit));
        }
        assert_eq!(writer.pad_to(length), Ok(()));
        assert_eq!(writer.len(), length);
    });
}

/// An unknown chunk keeps its flags; its two highest-order bits say what to do (section 3.2).
#[test]
fn unknown_chunks() {
    for (chunk_type, stop, report) in [
        (0x3e, true, false),
        (0x7e, true, true),
        (0xbe, false, false),
        (0xfe, false, true),
    ] {
        let bytes = [chunk_type, 0xa5, 0, 6, 1, 2, 0, 0];
        let packet = packet_of_raw_chunks(&bytes);
        let chunk = only_chunk(&packet);
        let Chunk::Other(raw) = chunk else {
            panic!("{chunk:?} is known");
        };
        assert_eq!(raw.chunk_type(), ChunkType(chunk_type));
        assert_eq!(raw.flags(), 0xa5);
        assert_eq!(raw.length(), 6);
        assert_eq!(raw.value(), [1, 2]);
        assert_eq!(raw.bytes(), &bytes[..6]);
        assert_eq!(
            chunk.chunk_type().unrecognized_action(),
            UnrecognizedAction { stop, report }
        );
        assert_layout(&chunk, &bytes);
    }
}

#[test]
fn parameters() {
    let types = [
        ParameterType::IPV4_ADDRESS.to_be_bytes(),
        ParameterType::IPV6_ADDRESS.to_be_bytes(),
    ];
    let parameters = [
        Parameter::HeartbeatInfo(b"info"),
        Parameter::Ipv4Address(Ipv4Addr::new(192, 0, 2, 1)),
        Parameter::Ipv6Address(Ipv6Addr::LOCALHOST),
        Parameter::StateCookie(b"cookie"),
        Parameter::UnrecognizedParameter(b"\xc0\x00\x00\x04"),
        Parameter::CookiePreservative {
            life_span_increment: 1000,
        },
        Parameter::HostNameAddress(b"a.example\0"),
        Parameter::SupportedAddressTypes(TypeList::new(&types)),
        Parameter::EcnCapable,
        Parameter::Padding(b"air"),
    ];
    let expected: [&[u8]; 10] = [
        b"\x00\x01\x00\x08info",
        b"\x00\x05\x00\x08\xc0\x00\x02\x01",
        b"\x00\x06\x00\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01",
        b"\x00\x07\x00\x0acookie\0\0",
        b"\x00\x08\x00\x08\xc0\x00\x00\x04",
        b"\x00\x09\x00\x08\x00\x00\x03\xe8",
        b"\x00\x0b\x00\x0ea.example\0\0\0",
        b"\x00\x0c\x00\x08\x00\x05\x00\x06",
        b"\x80\x00\x00\x04",
        b"\x80\x05\x00\x07air",
    ];
    let mut buffer = ParameterBuffer::new();
    for parameter in &parameters {
        buffer.push(parameter).unwrap();
    }
    assert_eq!(buffer.parameters().as_bytes(), expected.concat());
    let read: Vec<_> = buffer.parameters().iter().map(Result::unwrap).collect();
    assert_eq!(read, parameters);
}

/// An unknown parameter keeps its value; its two highest-order bits say what to do
/// (section 3.2.1).
#[test]
fn unknown_parameters() {
    for (parameter_type, stop, report) in [
        (0x3ffe_u16, true, false),
        (0x7ffe, true, true),
        (0xbffe, false, false),
        (0xfffe, false, true),
    ] {
        let [high, low] = parameter_type.to_be_bytes();
        let bytes = [high, low, 0, 5, 7];
        let Some(Ok(parameter)) = Parameters::new(&bytes).iter().next() else {
            panic!("cannot be read");
        };
        let Parameter::Other(tlv) = parameter else {
            panic!("{parameter:?} is known");
        };
        assert_eq!(tlv.bytes(), bytes);
        assert_eq!(
            parameter.parameter_type().unrecognized_action(),
            UnrecognizedAction { stop, report }
        );
        let mut buffer = ParameterBuffer::new();
        buffer.push(&parameter).unwrap();
        assert_eq!(buffer.parameters().as_bytes(), bytes);
    }
}

/// Values of another length than their type prescribes; the next parameter is read all the same.
#[test]
fn malformed_parameters() {
    for bytes in [
        &b"\x00\x05\x00\x07abc"[..],
        b"\x00\x05\x00\x09abcde",
        b"\x00\x06\x00\x08abcd",
        b"\x00\x09\x00\x04",
        b"\x00\x0c\x00\x05a",
        b"\x80\x00\x00\x05a",
    ] {
        let mut list = bytes.to_vec();
        list.resize(bytes.len().next_multiple_of(4), 0);
        list.extend_from_slice(b"\x80\x00\x00\x04");
        let mut parameters = Parameters::new(&list).iter();
        assert_eq!(parameters.next().unwrap().unwrap_err().bytes(), bytes);
        assert_eq!(parameters.next(), Some(Ok(Parameter::EcnCapable)));
        assert_eq!(parameters.next(), None);
    }
}

#[test]
fn causes() {
    let missing = [ParameterType::STATE_COOKIE.to_be_bytes()];
    let causes = [
        Cause::InvalidStreamIdentifier { stream: 258 },
        Cause::MissingMandatoryParameter(TypeList::new(&missing)),
        Cause::StaleCookie { staleness: 1 },
        Cause::OutOfResource,
        Cause::UnresolvableAddress(b"\x00\x0b\x00\x06a\0"),
        Cause::UnrecognizedChunkType(b"\xc0\x00\x00\x04"),
        Cause::InvalidMandatoryParameter,
        Cause::UnrecognizedParameters(Parameters::new(b"\xc0\x00\x00\x04")),
        Cause::NoUserData { tsn: Tsn(513) },
        Cause::CookieReceivedWhileShuttingDown,
        Cause::RestartWithNewAddresses(Parameters::new(b"\x00\x05\x00\x08\xc0\x00\x02\x01")),
        Cause::UserInitiatedAbort(b"bye"),
        Cause::ProtocolViolation(b""),
    ];
    let expected: [&[u8]; 13] = [
        b"\x00\x01\x00\x08\x01\x02\x00\x00",
        b"\x00\x02\x00\x0a\x00\x00\x00\x01\x00\x07\0\0",
        b"\x00\x03\x00\x08\x00\x00\x00\x01",
        b"\x00\x04\x00\x04",
        b"\x00\x05\x00\x0a\x00\x0b\x00\x06a\0\0\0",
        b"\x00\x06\x00\x08\xc0\x00\x00\x04",
        b"\x00\x07\x00\x04",
        b"\x00\x08\x00\x08\xc0\x00\x00\x04",
        b"\x00\x09\x00\x08\x00\x00\x02\x01",
        b"\x00\x0a\x00\x04",
        b"\x00\x0b\x00\x0c\x00\x05\x00\x08\xc0\x00\x02\x01",
        b"\x00\x0c\x00\x07bye\0",
        b"\x00\x0d\x00\x04",
    ];
    let mut buffer = CauseBuffer::new();
    for cause in &causes {
        buffer.push(cause).unwrap();
    }
    assert_eq!(buffer.causes().as_bytes(), expected.concat());
    let read: Vec<_> = buffer.causes().iter().map(Result::unwrap).collect();
    assert_eq!(read, causes);
    for (code, cause) in (1..).zip(causes) {
        assert_eq!(cause.code(), CauseCode(code));
    }
}

#[test]
fn unknown_cause() {
    let causes = Causes::new(b"\x01\x00\x00\x06ab\0\0");
    let Some(Ok(cause @ Cause::Other(tlv))) = causes.iter().next() else {
        panic!("not kept");
    };
    assert_eq!(cause.code(), CauseCode(256));
    assert_eq!(tlv.value(), b"ab");
}

/// A count of missing parameters that the cause does not hold, and other short values.
#[test]
fn malformed_causes() {
    for bytes in [
        &b"\x00\x02\x00\x0a\x00\x00\x00\x02\x00\x07"[..],
        b"\x00\x02\x00\x0a\xff\xff\xff\xff\x00\x07",
        b"\x00\x02\x00\x07\x00\x00\x00",
        b"\x00\x01\x00\x05a",
        b"\x00\x03\x00\x07abc",
        b"\x00\x09\x00\x04",
    ] {
        let error = Causes::new(bytes).iter().next().unwrap().unwrap_err();
        assert_eq!(error.bytes(), bytes);
    }
}

/// Chunks whose value is shorter than their fixed fields.
#[test]
fn malformed_chunks() {
    for bytes in [
        &b"\x00\x03\x00\x0fabcdefghijk"[..],
        b"\x01\x00\x00\x13abcdefghijklmno",
        b"\x02\x00\x00\x04",
        b"\x03\x00\x00\x0fabcdefghijk",
        b"\x07\x00\x00\x07abc",
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

/// A DATA chunk without user data is against the rules, but can be read.
#[test]
fn data_without_user_data() {
    let packet = packet_of_raw_chunks(b"\x00\x03\x00\x10\0\0\0\x01\0\0\0\0\0\0\0\0");
    let Chunk::Data(data) = only_chunk(&packet) else {
        panic!("no DATA");
    };
    assert_eq!(data.user_data, b"");
    assert!(data.user_data_in(&packet.clone().into()).is_empty());
}

/// Writes the chunk as `bytes` and reads it back from there.
#[track_caller]
pub(super) fn assert_layout(chunk: &Chunk<'_>, bytes: &[u8]) {
    let packet = packet_with(|writer| writer.chunk(chunk).unwrap());
    assert_eq!(chunks_of(&packet), bytes);
    assert_eq!(only_chunk(&packet), *chunk);
}

#[track_caller]
pub(super) fn only_chunk(packet: &[u8]) -> Chunk<'_> {
    let mut chunks = Packet::read(packet).unwrap().chunks();
    let chunk = chunks.next().expect("a chunk").expect("a sound chunk");
    assert_eq!(chunks.next(), None);
    chunk
}

#[test]
fn sack_overhead_and_entries() {
    let blocks = [GapAckBlock { start: 2, end: 3 }; 3];
    let packet = packet_with(|writer| {
        let room = writer.remaining();
        writer
            .sack(Tsn(1), 0, 0, blocks.into_iter(), [Tsn(1)].into_iter())
            .unwrap();
        let taken = Sack::OVERHEAD + 4 * Sack::ENTRY_LENGTH;
        assert_eq!(writer.remaining(), room - taken);
    });
    assert!(Packet::read(&packet).unwrap().has_valid_checksum());
}
