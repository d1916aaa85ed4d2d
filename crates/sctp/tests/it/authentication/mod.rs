//! Authenticated chunks (RFC 4895), and the keys of RFC 6458.

mod cookie_echo;
mod hostile;
mod key_changes;
mod keys;
mod received;
mod sent;
mod set_up;
mod signing;

use sctp::packet::ChunkType;
use sctp::{AuthenticationIndication, EndpointConfig, Event, Extensions};

use crate::common::Pair;

/// Settings of a side that wants these chunks authenticated.
fn authenticating(chunks: &[ChunkType]) -> EndpointConfig {
    EndpointConfig::default()
        .extensions("auth".parse::<Extensions>().expect("it is a name"))
        .auth_chunks(chunks.to_vec())
        .heartbeats(false)
        .path_mtu_discovery(false)
}

/// All types that there can be.
fn all_types() -> Vec<ChunkType> {
    (0..=u8::MAX)
        .map(ChunkType)
        .filter(|chunk_type| chunk_type.can_be_authenticated())
        .collect()
}

/// Two endpoints that both want these chunks authenticated.
fn pair(chunks: &[ChunkType]) -> Pair {
    Pair::with(authenticating(chunks), authenticating(chunks))
}

/// What was said of authentication.
fn indications(events: &[Event]) -> Vec<AuthenticationIndication> {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Authentication { indication, .. } => Some(*indication),
            _ => None,
        })
        .collect()
}
