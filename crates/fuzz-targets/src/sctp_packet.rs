//! Reads arbitrary bytes as an SCTP packet, looks at everything in it, and writes it again: what is
//! written must read as what was read.

use bytes::{Bytes, BytesMut};
use sctp::packet::{
    Cause, CauseBuffer, Causes, Chunk, DoesNotFit, Packet, PacketWriter, Parameter,
    ParameterBuffer, Parameters, RawChunk,
};

/// Feeds the target an input.
pub fn run(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let Ok(packet) = Packet::read(&bytes) else {
        return;
    };
    let _ = packet.check();
    for chunk in packet.chunks() {
        match chunk {
            Ok(chunk) => look_at(&chunk, &bytes),
            Err(error) => {
                let partial = error.partial().map(|tlv| Chunk::read(RawChunk::new(tlv)));
                if let Some(Ok(chunk)) = partial {
                    look_at(&chunk, &bytes);
                }
            }
        }
    }
    let once = write_again(&packet);
    let twice = write_again(&Packet::read(&once).expect("a common header"));
    assert_eq!(once, twice);
}

/// Writes all sound chunks of the packet and makes sure that they read the same.
fn write_again(packet: &Packet<'_>) -> Bytes {
    let header = packet.header();
    let mut buffer = BytesMut::new();
    let mut writer = PacketWriter::new(
        &mut buffer,
        header.source_port,
        header.destination_port,
        header.verification_tag,
        packet.bytes().len().next_multiple_of(4),
    );
    let sound: Vec<_> = packet.chunks().flatten().collect();
    for chunk in &sound {
        assert_eq!(writer.chunk(chunk), Ok(()), "no larger than it was");
    }
    assert_eq!(
        writer.remaining() < 4,
        writer.chunk(&Chunk::CookieAck) == Err(DoesNotFit)
    );
    let written = writer.finish();
    let again = Packet::read(&written).expect("a common header");
    assert!(again.has_valid_checksum());
    for (before, after) in sound.iter().zip(again.chunks()) {
        match (before, after.expect("a sound chunk")) {
            // A chunk at the end may have come without its padding.
            (Chunk::Other(before), Chunk::Other(after)) => {
                assert_eq!(before.bytes(), after.bytes());
            }
            (before, after) => assert_eq!(*before, after),
        }
    }
    written
}

fn look_at(chunk: &Chunk<'_>, packet: &Bytes) {
    match chunk {
        Chunk::Data(data) => assert_eq!(data.user_data_in(packet), data.user_data),
        Chunk::Init(init) | Chunk::InitAck(init) => {
            let _ = init.check();
            look_at_parameters(init.parameters);
        }
        Chunk::Sack(sack) => {
            assert_eq!(
                sack.gap_ack_blocks.iter().count(),
                sack.gap_ack_blocks.len()
            );
            assert_eq!(
                sack.duplicate_tsns.iter().count(),
                sack.duplicate_tsns.len()
            );
        }
        Chunk::Heartbeat(heartbeat) | Chunk::HeartbeatAck(heartbeat) => {
            heartbeat.info();
            look_at_parameters(heartbeat.parameters);
        }
        Chunk::NrSack(nr_sack) => {
            let (blocks, nr_blocks) = (nr_sack.gap_ack_blocks, nr_sack.nr_gap_ack_blocks);
            assert_eq!(blocks.iter().count(), blocks.len());
            assert_eq!(nr_blocks.iter().count(), nr_blocks.len());
            assert_eq!(
                nr_sack.duplicate_tsns.iter().count(),
                nr_sack.duplicate_tsns.len()
            );
        }
        Chunk::IData(data) => assert_eq!(data.user_data_in(packet), data.user_data),
        Chunk::ForwardTsn(forward_tsn) => {
            assert_eq!(
                forward_tsn.skipped.iter().count(),
                forward_tsn.skipped.len()
            );
        }
        Chunk::IForwardTsn(forward_tsn) => {
            assert_eq!(
                forward_tsn.skipped.iter().count(),
                forward_tsn.skipped.len()
            );
        }
        Chunk::Asconf(asconf) => {
            asconf.address();
            look_at_parameters(asconf.parameters);
        }
        Chunk::AsconfAck(asconf_ack) => {
            look_at_parameters(asconf_ack.responses);
            // Not in look_at_parameters: causes hold parameters, and these causes again.
            for response in asconf_ack.responses {
                if let Ok(Parameter::ErrorCauseIndication(indication)) = response {
                    look_at_causes(indication.causes);
                }
            }
        }
        Chunk::ReConfig(re_config) => look_at_parameters(re_config.parameters),
        Chunk::Abort(abort) => look_at_causes(abort.causes),
        Chunk::Error(error) => look_at_causes(error.causes),
        Chunk::Other(raw) => {
            raw.chunk_type().unrecognized_action();
        }
        _ => {}
    }
}

fn look_at_parameters(parameters: Parameters<'_>) {
    let mut buffer = ParameterBuffer::new();
    let sound: Vec<_> = parameters.iter().flatten().collect();
    for parameter in &sound {
        buffer.push(parameter).expect("no longer than it was");
    }
    for (before, after) in sound.iter().zip(buffer.parameters()) {
        match (before, after.expect("a sound parameter")) {
            (Parameter::Other(before), Parameter::Other(after)) => {
                assert_eq!(before.bytes(), after.bytes());
            }
            (before, after) => assert_eq!(*before, after),
        }
    }
    assert_eq!(buffer.parameters().iter().count(), sound.len());
}

fn look_at_causes(causes: Causes<'_>) {
    let mut buffer = CauseBuffer::new();
    let sound: Vec<_> = causes.iter().flatten().collect();
    for cause in &sound {
        buffer.push(cause).expect("no longer than it was");
        match cause {
            Cause::UnrecognizedParameters(parameters)
            | Cause::RestartWithNewAddresses(parameters)
            | Cause::RequestToDeleteLastIpAddress(parameters)
            | Cause::OperationRefusedDueToResourceShortage(parameters)
            | Cause::RequestToDeleteSourceIpAddress(parameters)
            | Cause::RequestRefusedNoAuthorization(parameters) => look_at_parameters(*parameters),
            _ => {}
        }
    }
    for (before, after) in sound.iter().zip(buffer.causes()) {
        match (before, after.expect("a sound cause")) {
            (Cause::Other(before), Cause::Other(after)) => {
                assert_eq!(before.bytes(), after.bytes());
            }
            (before, after) => assert_eq!(*before, after),
        }
    }
    assert_eq!(buffer.causes().iter().count(), sound.len());
}
