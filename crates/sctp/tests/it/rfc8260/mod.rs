//! RFC 8260: stream schedulers, and user messages that are interleaved. `docs/extensions.md` names
//! these tests.

mod hostile;
mod interleaving;
mod properties;
mod schedulers;
mod small_beside_large;

use sctp::packet::{
    Chunk, ChunkType, ChunkTypeList, Fragment, IData, Init, Mid, Parameter, ParameterBuffer,
};
use sctp::{EndpointConfig, Extensions, StreamScheduler};

use crate::rfc9260::scripted::{PEER_TSN, Scripted, cookie_parameter, init};

const ALL: [StreamScheduler; 6] = [
    StreamScheduler::FirstComeFirstServed,
    StreamScheduler::RoundRobin,
    StreamScheduler::RoundRobinPerPacket,
    StreamScheduler::Priority,
    StreamScheduler::FairCapacity,
    StreamScheduler::WeightedFairQueueing,
];

/// Settings that offer I-DATA.
fn interleaving() -> EndpointConfig {
    let mut extensions = Extensions::NONE;
    extensions.interleaving = true;
    EndpointConfig::default().extensions(extensions)
}

/// The same with partial reliability.
fn partially_reliable() -> EndpointConfig {
    let mut extensions = Extensions::NONE;
    extensions.interleaving = true;
    extensions.partial_reliability = true;
    EndpointConfig::default().extensions(extensions)
}

/// ESTABLISHED with a scripted peer that offers these chunk types.
fn connected(config: EndpointConfig, chunk_types: &[ChunkType]) -> Scripted {
    let mut scripted = Scripted::cookie_wait(config.heartbeats(false).path_mtu_discovery(false));
    let chunk_types: Vec<u8> = chunk_types.iter().map(|one| one.0).collect();
    let mut parameters: ParameterBuffer = cookie_parameter();
    let supported = Parameter::SupportedExtensions(ChunkTypeList::new(&chunk_types));
    parameters.push(&supported).expect("it is short");
    scripted.give(&[Chunk::InitAck(Init {
        parameters: parameters.parameters(),
        ..init()
    })]);
    scripted.take();
    scripted.give(&[Chunk::CookieAck]);
    scripted
}

/// The I-DATA chunk with that TSN, counted from 0: a whole message on stream 0.
fn message(number: u32, mid: u32, user_data: &[u8]) -> IData<'_> {
    IData {
        immediate: false,
        unordered: false,
        ending: true,
        tsn: PEER_TSN + number,
        stream: 0,
        mid: Mid(mid),
        fragment: Fragment::First { ppid: 5 },
        user_data,
    }
}
