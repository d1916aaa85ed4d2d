//! Re-configuration of streams (RFC 6525): what `docs/extensions.md` names as tests.

mod answers;
mod association_reset;
mod outgoing_reset;
mod pairs;
mod random;
mod requests;

use std::time::Duration;

use bytes::Bytes;
use sctp::packet::{
    Chunk, ChunkType, ChunkTypeList, Init, OutgoingSsnResetRequest, Parameter, ParameterBuffer,
    ReConfig, ReConfigResponse, ReConfigResult, SequenceNumber, StreamList, Tsn,
};
use sctp::{EndpointConfig, Event, Extensions, PathAddress, ReConfigurationPolicy};

use crate::rfc9260::scripted::{
    PEER_TSN, Scripted, chunks, cookie_parameter, init, push_address, quiet,
};

/// The number of the scripted peer's first request.
const FIRST: SequenceNumber = SequenceNumber(PEER_TSN.0);

/// Settings of an endpoint that offers RE-CONFIG and grants everything.
fn granting() -> EndpointConfig {
    let mut extensions = Extensions::NONE;
    extensions.re_configuration = true;
    quiet()
        .extensions(extensions)
        .re_configuration_policy(ReConfigurationPolicy::GRANT_ALL)
}

/// The parameters of an INIT ACK of a peer that knows RE-CONFIG.
fn parameters() -> ParameterBuffer {
    let mut parameters = cookie_parameter();
    let chunk_types = [ChunkType::RE_CONFIG.0];
    let supported = Parameter::SupportedExtensions(ChunkTypeList::new(&chunk_types));
    parameters.push(&supported).expect("it is short");
    parameters
}

fn come_up(mut scripted: Scripted, init: Init<'_>) -> Scripted {
    scripted.give(&[Chunk::InitAck(init)]);
    scripted.take();
    scripted.give(&[Chunk::CookieAck]);
    scripted
}

/// ESTABLISHED with a scripted peer that knows RE-CONFIG.
fn connected(config: EndpointConfig) -> Scripted {
    connected_with_streams(config, 10)
}

/// The same, with so many streams in each direction.
fn connected_with_streams(config: EndpointConfig, streams: u16) -> Scripted {
    let parameters = parameters();
    let scripted = Scripted::cookie_wait(config.outbound_streams(streams));
    let init = Init {
        outbound_streams: streams,
        inbound_streams: streams,
        parameters: parameters.parameters(),
        ..init()
    };
    come_up(scripted, init)
}

/// ESTABLISHED with a scripted peer of several addresses, all of them confirmed.
fn multi_homed(config: EndpointConfig, addresses: &[PathAddress]) -> Scripted {
    let scripted = Scripted::cookie_wait(
        config
            .heartbeats(true)
            .hb_interval(Duration::from_secs(3600)),
    );
    let mut parameters = parameters();
    for address in addresses {
        push_address(&mut parameters, *address);
    }
    let init = Init {
        parameters: parameters.parameters(),
        ..init()
    };
    let mut scripted = come_up(scripted, init);
    for _ in 0..100 {
        scripted.answer_heartbeats(Duration::from_millis(200));
    }
    scripted
}

/// Gives a RE-CONFIG with these parameters.
fn give(scripted: &mut Scripted, parameters: &[Parameter<'_>]) {
    let mut buffer = ParameterBuffer::new();
    for parameter in parameters {
        buffer.push(parameter).expect("it fits");
    }
    let parameters = buffer.parameters();
    scripted.give(&[Chunk::ReConfig(ReConfig { parameters })]);
}

/// An Outgoing SSN Reset Request that answers nothing.
fn outgoing_reset(
    request_sequence_number: SequenceNumber,
    last_assigned_tsn: Tsn,
    streams: &[[u8; 2]],
) -> Parameter<'_> {
    Parameter::OutgoingSsnResetRequest(OutgoingSsnResetRequest {
        request_sequence_number,
        response_sequence_number: SequenceNumber(0),
        last_assigned_tsn,
        streams: StreamList::new(streams),
    })
}

/// A response without TSNs.
fn response(
    response_sequence_number: SequenceNumber,
    result: ReConfigResult,
) -> Parameter<'static> {
    Parameter::ReConfigResponse(ReConfigResponse {
        response_sequence_number,
        result,
        next_tsns: None,
    })
}

/// The RE-CONFIGs in packets: the parameters of each.
fn re_configs(packets: &[Bytes]) -> Vec<Vec<Parameter<'_>>> {
    packets
        .iter()
        .flat_map(chunks)
        .filter_map(|chunk| match chunk {
            Chunk::ReConfig(chunk) => {
                let parameters = chunk.parameters.iter();
                Some(parameters.map(|one| one.expect("it is sound")).collect())
            }
            _ => None,
        })
        .collect()
}

/// The only RE-CONFIG in packets, which holds responses alone: the result of each.
fn results(packets: &[Bytes]) -> Vec<ReConfigResult> {
    let chunks = re_configs(packets);
    let [parameters] = &chunks[..] else {
        panic!("one RE-CONFIG, not {chunks:?}");
    };
    let results = parameters.iter().map(|parameter| match parameter {
        Parameter::ReConfigResponse(response) => response.result,
        other => panic!("a response, not {other:?}"),
    });
    results.collect()
}

/// The events of re-configuration so far.
fn events(scripted: &Scripted) -> Vec<&Event> {
    scripted
        .events
        .iter()
        .filter(|event| {
            matches!(
                event,
                Event::StreamReset { .. }
                    | Event::AssociationReset { .. }
                    | Event::StreamChange { .. }
            )
        })
        .collect()
}
