//! Addresses that change while the association is up (RFC 5061).

mod authenticated;
mod changes;
mod peer;
mod random_changes;
mod renumbering;
mod requests;
mod set_up;

use std::net::IpAddr;

use bytes::Bytes;
use sctp::packet::{
    AddressRequest, Asconf, AsconfAck, Chunk, ChunkType, ChunkTypeList, Init, Parameter,
    ParameterBuffer, SequenceNumber,
};
use sctp::{EndpointConfig, Event, Extensions, Transmit};

use crate::rfc9260::scripted::{self, PEER_TSN, Scripted};

/// Settings with the extension, and without AUTH.
fn with_asconf(config: EndpointConfig) -> EndpointConfig {
    config
        .extensions(asconf_alone())
        .address_reconfiguration_without_authentication(true)
}

fn asconf_alone() -> Extensions {
    "asconf".parse().expect("a name")
}

/// The parameter by which the scripted peer announces the extension.
fn announcement(chunk_types: &[ChunkType]) -> ParameterBuffer {
    let chunk_types: Vec<u8> = chunk_types.iter().map(|chunk_type| chunk_type.0).collect();
    let mut parameters = ParameterBuffer::new();
    parameters
        .push(&Parameter::SupportedExtensions(ChunkTypeList::new(
            &chunk_types,
        )))
        .expect("it is short");
    parameters
}

/// ESTABLISHED with a scripted peer that has the extension.
fn established(config: EndpointConfig) -> Scripted {
    let parameters = announcement(&[ChunkType::ASCONF, ChunkType::ASCONF_ACK]);
    Scripted::accepted_with(
        with_asconf(config),
        Init {
            parameters: parameters.parameters(),
            ..scripted::init()
        },
    )
}

/// The sequence number of the scripted peer's ASCONF after so many others.
fn peer_number(count: u32) -> SequenceNumber {
    SequenceNumber(PEER_TSN.0.wrapping_add(count))
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn parameters(all: &[Parameter<'_>]) -> ParameterBuffer {
    let mut parameters = ParameterBuffer::new();
    for parameter in all {
        parameters.push(parameter).expect("it fits");
    }
    parameters
}

fn add(correlation_id: u32, address: &str) -> Parameter<'static> {
    Parameter::AddIpAddress(request(correlation_id, address))
}

fn delete(correlation_id: u32, address: &str) -> Parameter<'static> {
    Parameter::DeleteIpAddress(request(correlation_id, address))
}

fn set_primary(correlation_id: u32, address: &str) -> Parameter<'static> {
    Parameter::SetPrimaryAddress(request(correlation_id, address))
}

fn request(correlation_id: u32, address: &str) -> AddressRequest {
    AddressRequest {
        correlation_id,
        address: ip(address),
    }
}

/// The bytes of an ASCONF with that lookup address.
fn asconf(number: SequenceNumber, lookup: &str, requests: &[Parameter<'_>]) -> Vec<u8> {
    let mut all = vec![Parameter::from(ip(lookup))];
    all.extend_from_slice(requests);
    let parameters = parameters(&all);
    scripted::bytes_of(&[Chunk::Asconf(Asconf {
        sequence_number: number,
        parameters: parameters.parameters(),
    })])
}

/// The bytes of an ASCONF-ACK.
fn asconf_ack(number: SequenceNumber, responses: &[Parameter<'_>]) -> Vec<u8> {
    let parameters = parameters(responses);
    scripted::bytes_of(&[Chunk::AsconfAck(AsconfAck {
        sequence_number: number,
        responses: parameters.parameters(),
    })])
}

/// The ASCONF-ACKs in packets: where each went, its number, and its responses as bytes.
fn asconf_acks(transmits: &[Transmit]) -> Vec<(IpAddr, SequenceNumber, Bytes)> {
    let acks = transmits.iter().flat_map(|transmit| {
        let acks = scripted::chunks(&transmit.packet).into_iter();
        acks.filter_map(|chunk| match chunk {
            Chunk::AsconfAck(ack) => Some((
                transmit.path.remote,
                ack.sequence_number,
                Bytes::copy_from_slice(ack.responses.as_bytes()),
            )),
            _ => None,
        })
    });
    acks.collect()
}

/// The ASCONFs in packets, as bytes, and from where to where each went.
fn asconfs(transmits: &[Transmit]) -> Vec<(Option<IpAddr>, IpAddr, Vec<u8>)> {
    let asconfs = transmits.iter().flat_map(|transmit| {
        let asconfs = scripted::chunks(&transmit.packet).into_iter();
        asconfs
            .filter(|chunk| matches!(chunk, Chunk::Asconf(_)))
            .map(|chunk| {
                let path = transmit.path;
                (path.local, path.remote, scripted::bytes_of(&[chunk]))
            })
    });
    asconfs.collect()
}

/// What became of our own changes so far, in their order.
fn outcomes(
    events: &[Event],
) -> Vec<(sctp::AddressChange, Result<(), sctp::AddressChangeRefusal>)> {
    let outcomes = events.iter().filter_map(|event| match event {
        Event::AddressChangeAnswered {
            change, outcome, ..
        } => Some((*change, *outcome)),
        _ => None,
    });
    outcomes.collect()
}
