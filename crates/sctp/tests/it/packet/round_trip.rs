//! What is written is read back the same, and what was read is written back the same.

use crate::packet::{chunks_of, packet_of_raw_chunks, packet_with};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use sctp::packet::{
    Abort, AddStreamsRequest, AddressRequest, Asconf, AsconfAck, Auth, Cause, CauseBuffer, Causes,
    Chunk, ChunkType, ChunkTypeList, CommonHeader, CookieEcho, Data, DoesNotFit,
    ErrorCauseIndication, Fragment, GapAckBlock, HmacIdentifier, HmacList, IData,
    IncomingSsnResetRequest, Init, Mid, NextTsns, OperationError, OutgoingSsnResetRequest, Packet,
    PacketWriter, Pad, Parameter, ParameterBuffer, Parameters, ReConfig, ReConfigResponse,
    ReConfigResult, SequenceNumber, Shutdown, ShutdownComplete, SkippedMid, SkippedSsn, Ssn,
    StreamList, Tlvs, Tsn, TypeList, checksum,
};
use std::net::IpAddr;

/// A type and a value, from which tests make a parameter or an error cause.
type Ingredients = (u16, Vec<u8>);

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..200)
}

fn ingredients() -> impl Strategy<Value = Vec<Ingredients>> {
    let type_field = prop_oneof![
        0..20_u16,
        0xa0..0xa5_u16,
        Just(0x0105),
        0x8000..0x8009_u16,
        0xc000..0xc007_u16,
        any::<u16>(),
    ];
    prop::collection::vec((type_field, bytes()), 0..8)
}

/// The types of known chunks from 17 on.
const KNOWN: [u8; 7] = [
    ChunkType::I_DATA.0,
    ChunkType::ASCONF_ACK.0,
    ChunkType::RE_CONFIG.0,
    ChunkType::PAD.0,
    ChunkType::FORWARD_TSN.0,
    ChunkType::ASCONF.0,
    ChunkType::I_FORWARD_TSN.0,
];

proptest! {
    #[test]
    fn data(
        [immediate, unordered, beginning, ending] in any::<[bool; 4]>(),
        (tsn, stream, ssn, ppid) in any::<(u32, u16, u16, u32)>(),
        user_data in bytes(),
    ) {
        assert_round_trip(&Chunk::Data(Data {
            immediate,
            unordered,
            beginning,
            ending,
            tsn: Tsn(tsn),
            stream,
            ssn: Ssn(ssn),
            ppid,
            user_data: &user_data,
        }));
    }

    #[test]
    fn init_and_init_ack(
        (initiate_tag, a_rwnd, initial_tsn) in any::<(u32, u32, u32)>(),
        (outbound_streams, inbound_streams) in any::<(u16, u16)>(),
        parameters in ingredients(),
    ) {
        let parameters = buffer_of_parameters(&parameters);
        let init = Init {
            initiate_tag,
            a_rwnd,
            outbound_streams,
            inbound_streams,
            initial_tsn: Tsn(initial_tsn),
            parameters: parameters.parameters(),
        };
        assert_round_trip(&Chunk::Init(init));
        assert_round_trip(&Chunk::InitAck(init));
    }

    #[test]
    fn sack(
        (cumulative_tsn_ack, a_rwnd) in any::<(u32, u32)>(),
        blocks: Vec<(u16, u16)>,
        duplicates: Vec<u32>,
    ) {
        let cumulative_tsn_ack = Tsn(cumulative_tsn_ack);
        let blocks: Vec<_> =
            blocks.into_iter().map(|(start, end)| GapAckBlock { start, end }).collect();
        let duplicates: Vec<_> = duplicates.into_iter().map(Tsn).collect();
        let packet = packet_with(|writer| {
            let (blocks, duplicates) = (blocks.iter().copied(), duplicates.iter().copied());
            writer.sack(cumulative_tsn_ack, a_rwnd, 0, blocks, duplicates).unwrap();
        });
        let Some(Ok(Chunk::Sack(sack))) = Packet::read(&packet).unwrap().chunks().next() else {
            panic!("no SACK");
        };
        assert_eq!(sack.cumulative_tsn_ack, cumulative_tsn_ack);
        assert_eq!(sack.a_rwnd, a_rwnd);
        assert!(sack.gap_ack_blocks.iter().eq(blocks));
        assert!(sack.duplicate_tsns.iter().eq(duplicates));
        assert_round_trip(&Chunk::Sack(sack));
    }

    #[test]
    fn heartbeat_and_its_ack(info in bytes()) {
        let packet = packet_with(|writer| writer.heartbeat(&info).unwrap());
        let Some(Ok(Chunk::Heartbeat(heartbeat))) =
            Packet::read(&packet).unwrap().chunks().next()
        else {
            panic!("no HEARTBEAT");
        };
        assert_eq!(heartbeat.info(), Some(&info[..]));
        assert_round_trip(&Chunk::Heartbeat(heartbeat));
        assert_round_trip(&Chunk::HeartbeatAck(heartbeat));
    }

    #[test]
    fn abort_and_error(tag_reflected: bool, causes in ingredients()) {
        let causes = buffer_of_causes(&causes);
        let causes = causes.causes();
        assert_round_trip(&Chunk::Abort(Abort { tag_reflected, causes }));
        assert_round_trip(&Chunk::Error(OperationError { causes }));
    }

    #[test]
    fn chunks_of_the_graceful_close(tsn: u32, tag_reflected: bool) {
        assert_round_trip(&Chunk::Shutdown(Shutdown { cumulative_tsn_ack: Tsn(tsn) }));
        assert_round_trip(&Chunk::ShutdownAck);
        assert_round_trip(&Chunk::ShutdownComplete(ShutdownComplete { tag_reflected }));
    }

    #[test]
    fn cookie_echo_and_its_ack(cookie in bytes()) {
        assert_round_trip(&Chunk::CookieEcho(CookieEcho { cookie: &cookie }));
        assert_round_trip(&Chunk::CookieAck);
    }

    #[test]
    fn padding(padding_data in bytes()) {
        assert_round_trip(&Chunk::Pad(Pad { padding_data: &padding_data }));
    }

    #[test]
    fn auth((shared_key_identifier, hmac_identifier) in any::<(u16, u16)>(), hmac in bytes()) {
        assert_round_trip(&Chunk::Auth(Auth {
            shared_key_identifier,
            hmac_identifier: HmacIdentifier(hmac_identifier),
            hmac: &hmac,
        }));
    }

    #[test]
    fn i_data(
        [immediate, unordered, beginning, ending] in any::<[bool; 4]>(),
        (tsn, stream, mid, number) in any::<(u32, u16, u32, u32)>(),
        user_data in bytes(),
    ) {
        let data = IData {
            immediate,
            unordered,
            ending,
            tsn: Tsn(tsn),
            stream,
            mid: Mid(mid),
            fragment: if beginning {
                Fragment::First { ppid: number }
            } else {
                Fragment::Later { fsn: number }
            },
            user_data: &user_data,
        };
        assert_eq!(data.beginning(), beginning);
        assert_round_trip(&Chunk::IData(data));
    }

    #[test]
    fn forward_tsn_and_i_forward_tsn(tsn: u32, skipped: Vec<(u16, bool, u32)>) {
        let ssns = skipped.iter().map(|&(stream, _, ssn)| SkippedSsn {
            stream,
            ssn: Ssn(ssn as u16),
        });
        let mids = skipped.iter().map(|&(stream, unordered, mid)| SkippedMid {
            stream,
            unordered,
            mid: Mid(mid),
        });
        let packet = packet_with(|writer| {
            writer.forward_tsn(Tsn(tsn), ssns.clone()).unwrap();
            writer.i_forward_tsn(Tsn(tsn), mids.clone()).unwrap();
        });
        let chunks: Vec<_> =
            Packet::read(&packet).unwrap().chunks().map(Result::unwrap).collect();
        let [Chunk::ForwardTsn(forward_tsn), Chunk::IForwardTsn(i_forward_tsn)] = chunks[..] else {
            panic!("other chunks");
        };
        assert_eq!(forward_tsn.new_cumulative_tsn, Tsn(tsn));
        assert_eq!(i_forward_tsn.new_cumulative_tsn, Tsn(tsn));
        assert!(forward_tsn.skipped.iter().eq(ssns));
        assert!(i_forward_tsn.skipped.iter().eq(mids));
        for chunk in chunks {
            assert_round_trip(&chunk);
        }
    }

    #[test]
    fn nr_sack(
        (cumulative_tsn_ack, a_rwnd) in any::<(u32, u32)>(),
        [blocks, nr_blocks]: [Vec<(u16, u16)>; 2],
        duplicates: Vec<u32>,
    ) {
        let cumulative_tsn_ack = Tsn(cumulative_tsn_ack);
        let block = |&(start, end): &(u16, u16)| GapAckBlock { start, end };
        let packet = packet_with(|writer| {
            let (blocks, nr_blocks) = (blocks.iter().map(block), nr_blocks.iter().map(block));
            let duplicates = duplicates.iter().copied().map(Tsn);
            writer.nr_sack(cumulative_tsn_ack, a_rwnd, 0, blocks, nr_blocks, duplicates).unwrap();
        });
        let Some(Ok(Chunk::NrSack(nr_sack))) = Packet::read(&packet).unwrap().chunks().next() else {
            panic!("no NR-SACK");
        };
        assert_eq!(nr_sack.cumulative_tsn_ack, cumulative_tsn_ack);
        assert_eq!(nr_sack.a_rwnd, a_rwnd);
        assert!(nr_sack.gap_ack_blocks.iter().eq(blocks.iter().map(block)));
        assert!(nr_sack.nr_gap_ack_blocks.iter().eq(nr_blocks.iter().map(block)));
        assert!(nr_sack.duplicate_tsns.iter().eq(duplicates.into_iter().map(Tsn)));
        assert_round_trip(&Chunk::NrSack(nr_sack));
    }

    #[test]
    fn chunks_of_parameters(number: u32, parameters in ingredients()) {
        let parameters = buffer_of_parameters(&parameters);
        let parameters = parameters.parameters();
        let sequence_number = SequenceNumber(number);
        assert_round_trip(&Chunk::Asconf(Asconf { sequence_number, parameters }));
        assert_round_trip(&Chunk::AsconfAck(AsconfAck {
            sequence_number,
            responses: parameters,
        }));
        assert_round_trip(&Chunk::ReConfig(ReConfig { parameters }));
    }

    #[test]
    fn unknown_chunks(
        chunk_type in (17..=255_u8).prop_filter("known", |known| !KNOWN.contains(known)),
        flags: u8,
        value in bytes(),
    ) {
        let mut bytes = vec![chunk_type, flags];
        bytes.extend_from_slice(&(value.len() as u16 + 4).to_be_bytes());
        bytes.extend_from_slice(&value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let packet = packet_of_raw_chunks(&bytes);
        let chunk = Packet::read(&packet).unwrap().chunks().next().unwrap().unwrap();
        assert_eq!(chunk.chunk_type(), ChunkType(chunk_type));
        assert_round_trip(&chunk);
    }

    #[test]
    fn parameters_one_by_one(parameters in ingredients()) {
        let written = buffer_of_parameters(&parameters);
        let mut again = ParameterBuffer::new();
        for parameter in written.parameters() {
            again.push(&parameter.unwrap()).unwrap();
        }
        assert_eq!(again.parameters(), written.parameters());
        assert_eq!(again.parameters().iter().count(), parameters.len());
    }

    #[test]
    fn causes_one_by_one(causes in ingredients()) {
        let written = buffer_of_causes(&causes);
        let mut again = CauseBuffer::new();
        for cause in written.causes() {
            again.push(&cause.unwrap()).unwrap();
        }
        assert_eq!(again.causes(), written.causes());
        assert_eq!(again.causes().iter().count(), causes.len());
    }

    #[test]
    fn header_and_checksum(source: u16, destination: u16, tag: u32, cookie in bytes()) {
        let mut buffer = BytesMut::new();
        let mut writer = PacketWriter::new(&mut buffer, source, destination, tag, 1000);
        writer.chunk(&Chunk::CookieEcho(CookieEcho { cookie: &cookie })).unwrap();
        let packet = writer.finish();
        let header = Packet::read(&packet).unwrap().header();
        assert_eq!(header, CommonHeader {
            source_port: source,
            destination_port: destination,
            verification_tag: tag,
            checksum: crc_bit_by_bit(&packet),
        });
        assert_eq!(checksum::of(&packet), Some(header.checksum));
    }

    /// Whatever is tried, the packet keeps within its bounds and stays sound.
    #[test]
    fn packets_keep_to_their_size(
        maximum_size in 12..600_usize,
        cookies in prop::collection::vec(bytes(), 0..10),
    ) {
        let mut buffer = BytesMut::new();
        let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, maximum_size);
        let mut written = Vec::new();
        for cookie in &cookies {
            let chunk = Chunk::CookieEcho(CookieEcho { cookie });
            let fits = (cookie.len() + 4).next_multiple_of(4) <= writer.remaining();
            match writer.chunk(&chunk) {
                Ok(()) => written.push(chunk),
                Err(DoesNotFit) => prop_assert!(!fits),
            }
            prop_assert!(writer.len() + writer.remaining() <= maximum_size);
            prop_assert_eq!(writer.is_empty(), written.is_empty());
        }
        let packet = writer.finish();
        prop_assert!(packet.len() <= maximum_size);
        let read: Vec<_> =
            Packet::read(&packet).unwrap().chunks().map(Result::unwrap).collect();
        prop_assert_eq!(read, written);
    }
}

/// The longest chunk that a length field can tell does not fit into a packet of 65535 bytes, but
/// the writer must not write a length that wraps around either.
#[test]
fn longest_chunk() {
    let cookie = vec![1; 65_532];
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 100_000);
    let too_long = Chunk::CookieEcho(CookieEcho { cookie: &cookie });
    assert_eq!(writer.chunk(&too_long), Err(DoesNotFit));
    let longest = Chunk::CookieEcho(CookieEcho {
        cookie: &cookie[1..],
    });
    assert_eq!(writer.chunk(&longest), Ok(()));
    let packet = writer.finish();
    assert_eq!(
        Packet::read(&packet).unwrap().chunks().next(),
        Some(Ok(longest))
    );
}

/// One buffer serves many packets, and they do not disturb each other.
#[test]
fn packets_from_one_buffer() {
    let mut buffer = BytesMut::new();
    let mut packets = Vec::new();
    for number in 0..100_u8 {
        let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 1000);
        let cookie = vec![number; usize::from(number)];
        writer
            .chunk(&Chunk::CookieEcho(CookieEcho { cookie: &cookie }))
            .unwrap();
        packets.push(writer.finish());
    }
    for (number, packet) in (0..100_u8).zip(&packets) {
        let packet = Packet::read(packet).unwrap();
        assert!(packet.has_valid_checksum());
        let cookie = vec![number; usize::from(number)];
        let expected = Chunk::CookieEcho(CookieEcho { cookie: &cookie });
        assert_eq!(packet.chunks().next(), Some(Ok(expected)));
    }
}

/// A packet that was begun and dropped leaves nothing behind.
#[test]
fn dropped_writer() {
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(&mut buffer, 9, 9, 9, 1000);
    writer.chunk(&Chunk::ShutdownAck).unwrap();
    let mut writer = PacketWriter::new(&mut buffer, 1, 2, 3, 1000);
    writer.chunk(&Chunk::CookieAck).unwrap();
    let packet = writer.finish();
    let packet = Packet::read(&packet).unwrap();
    assert_eq!(packet.header().source_port, 1);
    assert!(packet.chunks().eq([Ok(Chunk::CookieAck)]));
}

#[test]
fn user_data_is_not_copied() {
    let data = Data {
        user_data: b"the very same bytes",
        ..Data::default()
    };
    let packet: Bytes = packet_with(|writer| writer.data(&data).unwrap());
    let Some(Ok(Chunk::Data(read))) = Packet::read(&packet).unwrap().chunks().next() else {
        panic!("no DATA");
    };
    let user_data = read.user_data_in(&packet);
    assert_eq!(user_data, data.user_data);
    assert!(packet.as_ptr_range().contains(&user_data.as_ptr()));
}

/// The chunk is written, read, and written again between two others.
#[track_caller]
fn assert_round_trip(chunk: &Chunk<'_>) {
    let around = Chunk::CookieAck;
    let packet = packet_with(|writer| {
        for chunk in [&around, chunk, &around] {
            writer.chunk(chunk).unwrap();
        }
    });
    assert_eq!(packet.len() % 4, 0);
    let parsed = Packet::read(&packet).unwrap();
    assert!(parsed.has_valid_checksum());
    assert!(parsed.chunks().eq([Ok(around), Ok(*chunk), Ok(around)]));
    let again = packet_with(|writer| {
        for chunk in parsed.chunks() {
            writer.chunk(&chunk.unwrap()).unwrap();
        }
    });
    assert_eq!(chunks_of(&again), chunks_of(&packet));
}

fn buffer_of_parameters(ingredients: &[Ingredients]) -> ParameterBuffer {
    let mut buffer = ParameterBuffer::new();
    for (type_field, value) in ingredients {
        let (pairs, _) = value.as_chunks();
        let [a, b, c, d] = first(value);
        let number = u32::from_be_bytes([a, b, c, d]);
        let more_streams = AddStreamsRequest {
            request_sequence_number: SequenceNumber(number),
            new_streams: !number as u16,
        };
        let about_address = AddressRequest {
            correlation_id: number,
            address: if value.len() % 2 == 0 {
                IpAddr::from([a, b, c, d])
            } else {
                IpAddr::from(first::<16>(value))
            },
        };
        let parameter = match type_field {
            1 => Parameter::HeartbeatInfo(value),
            5 => Parameter::Ipv4Address([a, b, c, d].into()),
            6 => Parameter::Ipv6Address(first::<16>(value).into()),
            7 => Parameter::StateCookie(value),
            8 => Parameter::UnrecognizedParameter(value),
            9 => Parameter::CookiePreservative {
                life_span_increment: number,
            },
            11 => Parameter::HostNameAddress(value),
            12 => Parameter::SupportedAddressTypes(TypeList::new(pairs)),
            13 => Parameter::OutgoingSsnResetRequest(OutgoingSsnResetRequest {
                request_sequence_number: SequenceNumber(number),
                response_sequence_number: SequenceNumber(!number),
                last_assigned_tsn: Tsn(number ^ 1),
                streams: StreamList::new(pairs),
            }),
            14 => Parameter::IncomingSsnResetRequest(IncomingSsnResetRequest {
                request_sequence_number: SequenceNumber(number),
                streams: StreamList::new(pairs),
            }),
            15 => Parameter::SsnTsnResetRequest {
                request_sequence_number: SequenceNumber(number),
            },
            16 => Parameter::ReConfigResponse(ReConfigResponse {
                response_sequence_number: SequenceNumber(number),
                result: ReConfigResult(!number),
                next_tsns: (number % 2 == 0).then_some(NextTsns {
                    sender: Tsn(number),
                    receiver: Tsn(!number),
                }),
            }),
            17 => Parameter::AddOutgoingStreamsRequest(more_streams),
            18 => Parameter::AddIncomingStreamsRequest(more_streams),
            0x8000 => Parameter::EcnCapable,
            0x8001 => Parameter::ZeroChecksumAcceptable {
                error_detection_method: number,
            },
            0x8002 => Parameter::Random(value),
            0x8003 => Parameter::Chunks(ChunkTypeList::new(value)),
            0x8004 => Parameter::HmacAlgo(HmacList::new(pairs)),
            0x8005 => Parameter::Padding(value),
            0x8008 => Parameter::SupportedExtensions(ChunkTypeList::new(value)),
            0xc000 => Parameter::ForwardTsnSupported,
            0xc001 => Parameter::AddIpAddress(about_address),
            0xc002 => Parameter::DeleteIpAddress(about_address),
            0xc003 => Parameter::ErrorCauseIndication(ErrorCauseIndication {
                correlation_id: number,
                causes: Causes::new(value),
            }),
            0xc004 => Parameter::SetPrimaryAddress(about_address),
            0xc005 => Parameter::SuccessIndication {
                correlation_id: number,
            },
            0xc006 => Parameter::AdaptationLayerIndication { code_point: number },
            _ => {
                let bytes = unknown(*type_field, value);
                let tlv = Tlvs::new(&bytes).next().unwrap().unwrap();
                buffer.push(&Parameter::Other(tlv)).unwrap();
                continue;
            }
        };
        buffer.push(&parameter).unwrap();
    }
    buffer
}

fn buffer_of_causes(ingredients: &[Ingredients]) -> CauseBuffer {
    let mut buffer = CauseBuffer::new();
    for (code, value) in ingredients {
        let (pairs, _) = value.as_chunks();
        let [a, b, c, d] = first(value);
        let number = u32::from_be_bytes([a, b, c, d]);
        let cause = match code {
            1 => Cause::InvalidStreamIdentifier {
                stream: number as u16,
            },
            2 => Cause::MissingMandatoryParameter(TypeList::new(pairs)),
            3 => Cause::StaleCookie { staleness: number },
            4 => Cause::OutOfResource,
            5 => Cause::UnresolvableAddress(value),
            6 => Cause::UnrecognizedChunkType(value),
            7 => Cause::InvalidMandatoryParameter,
            8 => Cause::UnrecognizedParameters(Parameters::new(value)),
            9 => Cause::NoUserData { tsn: Tsn(number) },
            10 => Cause::CookieReceivedWhileShuttingDown,
            11 => Cause::RestartWithNewAddresses(Parameters::new(value)),
            12 => Cause::UserInitiatedAbort(value),
            13 => Cause::ProtocolViolation(value),
            0xa0 => Cause::RequestToDeleteLastIpAddress(Parameters::new(value)),
            0xa1 => Cause::OperationRefusedDueToResourceShortage(Parameters::new(value)),
            0xa2 => Cause::RequestToDeleteSourceIpAddress(Parameters::new(value)),
            0xa3 => Cause::IllegalAsconfAck,
            0xa4 => Cause::RequestRefusedNoAuthorization(Parameters::new(value)),
            0x0105 => Cause::UnsupportedHmacIdentifier {
                hmac_identifier: HmacIdentifier(number as u16),
            },
            _ => {
                let bytes = unknown(*code, value);
                let tlv = Tlvs::new(&bytes).next().unwrap().unwrap();
                buffer.push(&Cause::Other(tlv)).unwrap();
                continue;
            }
        };
        buffer.push(&cause).unwrap();
    }
    buffer
}

fn unknown(type_field: u16, value: &[u8]) -> Vec<u8> {
    let length = value.len() as u16 + 4;
    [&type_field.to_be_bytes()[..], &length.to_be_bytes(), value].concat()
}

/// The first bytes, zeros where there are none.
fn first<const N: usize>(value: &[u8]) -> [u8; N] {
    std::array::from_fn(|position| value.get(position).copied().unwrap_or(0))
}

/// The checksum straight from appendix A: a register of all ones, divided bit by bit by the
/// reflected polynomial, complemented, and sent least significant byte first.
fn crc_bit_by_bit(packet: &[u8]) -> u32 {
    let mut register = u32::MAX;
    for (position, &byte) in packet.iter().enumerate() {
        let field = 8..12;
        register ^= u32::from(if field.contains(&position) { 0 } else { byte });
        for _ in 0..8 {
            let lowest = register & 1;
            register >>= 1;
            if lowest == 1 {
                register ^= 0x1edc_6f41_u32.reverse_bits();
            }
        }
    }
    (!register).swap_bytes()
}
