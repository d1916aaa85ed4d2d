//! Bytes that nobody meant as a packet.

use crate::packet::packet_of_raw_chunks;
use proptest::prelude::*;
use sctp::packet::{
    Cause, Causes, Chunk, ErrorCauseIndication, Packet, Parameter, Parameters, RawChunk,
};

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        walk_packet(&bytes);
    }

    /// Arbitrary bytes seldom have a length field that leads on; these mostly do.
    #[test]
    fn arbitrary_items_never_panic(items in items(40)) {
        walk_packet(&packet_of_raw_chunks(&items));
        walk_parameters(Parameters::new(&items));
        walk_causes(Causes::new(&items));
    }

    /// A packet that ends early tells as much as is there.
    #[test]
    fn cut_packets_never_panic(items in items(40), cut: prop::sample::Index) {
        let packet = packet_of_raw_chunks(&items);
        walk_packet(&packet[..cut.index(packet.len())]);
    }
}

/// Types of the chunks of extensions, and first bytes of the types of their parameters.
const EXTENSIONS: [u8; 7] = [0x40, 0x80, 0x82, 0x84, 0xc0, 0xc1, 0xc2];

/// Items in the type, length, value layout with types from the ranges that are known, and values
/// that are such items themselves or noise; a few lengths are wrong.
fn items(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let noise = prop::collection::vec(any::<u8>(), 0..most);
    noise.prop_recursive(3, 256, 6, |inner| {
        let length_error = prop_oneof![9 => Just(0_i32), 1 => -8..8_i32];
        let first = prop_oneof![0..20_u8, prop::sample::select(&EXTENSIONS[..])];
        // The second byte of a parameter of an extension, or the flags of a chunk.
        let second = prop_oneof![0..20_u8, any::<u8>()];
        let item = (first, second, inner, length_error);
        prop::collection::vec(item, 0..6).prop_map(|items| {
            let mut bytes = Vec::new();
            for (first, second, value, length_error) in items {
                let length = (value.len() as i32 + 4 + length_error) as u16;
                bytes.extend_from_slice(&[first, second]);
                bytes.extend_from_slice(&length.to_be_bytes());
                bytes.extend_from_slice(&value);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        })
    })
}

fn walk_packet(bytes: &[u8]) {
    let Ok(packet) = Packet::read(bytes) else {
        return;
    };
    let sound = packet.check().is_ok();
    let most = bytes.len().div_ceil(4);
    let mut count = 0;
    for chunk in packet.chunks() {
        count += 1;
        match chunk {
            Ok(chunk) => walk_chunk(&chunk),
            Err(error) => {
                if let Some(Ok(chunk)) = error.partial().map(|tlv| Chunk::read(RawChunk::new(tlv)))
                {
                    walk_chunk(&chunk);
                }
            }
        }
    }
    assert!(count <= most, "{count} chunks in {} bytes", bytes.len());
    assert!(count > 0 || !sound);
}

fn walk_chunk(chunk: &Chunk<'_>) {
    match chunk {
        Chunk::Init(init) | Chunk::InitAck(init) => walk_parameters(init.parameters),
        Chunk::Heartbeat(heartbeat) | Chunk::HeartbeatAck(heartbeat) => {
            heartbeat.info();
            walk_parameters(heartbeat.parameters);
        }
        Chunk::Sack(sack) => {
            sack.gap_ack_blocks.iter().for_each(drop);
            sack.duplicate_tsns.iter().for_each(drop);
        }
        Chunk::NrSack(nr_sack) => {
            nr_sack.gap_ack_blocks.iter().for_each(drop);
            nr_sack.nr_gap_ack_blocks.iter().for_each(drop);
            nr_sack.duplicate_tsns.iter().for_each(drop);
        }
        Chunk::ForwardTsn(forward_tsn) => forward_tsn.skipped.iter().for_each(drop),
        Chunk::IForwardTsn(forward_tsn) => forward_tsn.skipped.iter().for_each(drop),
        Chunk::Asconf(asconf) => {
            asconf.address();
            asconf.requests().for_each(drop);
            walk_parameters(asconf.parameters);
        }
        Chunk::AsconfAck(asconf_ack) => walk_parameters(asconf_ack.responses),
        Chunk::ReConfig(re_config) => walk_parameters(re_config.parameters),
        Chunk::Abort(abort) => walk_causes(abort.causes),
        Chunk::Error(error) => walk_causes(error.causes),
        _ => {}
    }
}

fn walk_parameters(parameters: Parameters<'_>) {
    for parameter in parameters {
        match parameter {
            Ok(Parameter::SupportedAddressTypes(types)) => types.iter().for_each(drop),
            Ok(Parameter::HmacAlgo(identifiers)) => identifiers.iter().for_each(drop),
            Ok(Parameter::Chunks(types) | Parameter::SupportedExtensions(types)) => {
                types.iter().for_each(drop);
            }
            Ok(Parameter::OutgoingSsnResetRequest(request)) => {
                request.streams.iter().for_each(drop);
            }
            Ok(Parameter::ErrorCauseIndication(ErrorCauseIndication { causes, .. })) => {
                walk_causes(causes);
            }
            _ => {}
        }
    }
}

fn walk_causes(causes: Causes<'_>) {
    for cause in causes {
        match cause {
            Ok(
                Cause::UnrecognizedParameters(parameters)
                | Cause::RestartWithNewAddresses(parameters)
                | Cause::RequestToDeleteLastIpAddress(parameters),
            ) => walk_parameters(parameters),
            Ok(Cause::MissingMandatoryParameter(types)) => types.iter().for_each(drop),
            _ => {}
        }
    }
}
