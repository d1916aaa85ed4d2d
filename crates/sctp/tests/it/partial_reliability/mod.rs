//! Partial reliability (RFC 3758, RFC 7496): what `docs/extensions.md` names as
//! tests.

mod hostile;
mod interleaved;
mod policies;
mod random_loss;
mod receiving;
mod sending;

use bytes::Bytes;
use sctp::packet::{Chunk, ForwardTsn, Init, Parameter, ParameterBuffer, Tsn};
use sctp::{EndpointConfig, Event, Extensions, PrPolicy, SendInfo};

use crate::rfc9260::scripted::{self, Scripted};

/// Settings of an endpoint that says nothing of its own accord, with partial reliability.
fn config() -> EndpointConfig {
    scripted::quiet().extensions(partial_reliability())
}

/// The extension alone.
fn partial_reliability() -> Extensions {
    "pr".parse().expect("its name")
}

/// An association with a peer that has the extension.
fn accepted(config: EndpointConfig) -> Scripted {
    accepted_with(config, scripted::init())
}

fn accepted_with(config: EndpointConfig, init: Init<'_>) -> Scripted {
    let mut parameters = ParameterBuffer::new();
    parameters
        .push(&Parameter::ForwardTsnSupported)
        .expect("it is short");
    Scripted::accepted_with(
        config,
        Init {
            parameters: parameters.parameters(),
            ..init
        },
    )
}

fn info(stream: u16, policy: PrPolicy) -> SendInfo {
    SendInfo {
        stream,
        pr_policy: Some(policy),
        ..SendInfo::default()
    }
}

fn send(scripted: &mut Scripted, info: SendInfo, payload: impl Into<Bytes>) {
    scripted
        .endpoint
        .send(scripted.now, scripted.id(), info, payload.into())
        .expect("there is room");
}

/// The FORWARD-TSNs in packets: how many TSNs from `first` on each covers, and what is skipped.
fn forward_tsns(packets: &[Bytes], first: Tsn) -> Vec<(u32, Vec<(u16, u16)>)> {
    packets
        .iter()
        .flat_map(scripted::chunks)
        .filter_map(|chunk| match chunk {
            Chunk::ForwardTsn(ForwardTsn {
                new_cumulative_tsn,
                skipped,
            }) => Some((
                new_cumulative_tsn.next().distance_from(first),
                skipped
                    .iter()
                    .map(|skipped| (skipped.stream, skipped.ssn.0))
                    .collect(),
            )),
            _ => None,
        })
        .collect()
}

/// The messages that were reported as not delivered: their first bytes, their sizes, and whether some was
/// sent.
fn failed(scripted: &Scripted) -> Vec<(u8, usize, bool)> {
    scripted
        .events
        .iter()
        .filter_map(|event| match event {
            Event::SendFailed {
                payload, was_sent, ..
            } => Some((payload[0], payload.len(), *was_sent)),
            _ => None,
        })
        .collect()
}
