//! Two engines that use extensions, and whose packets are changed.

use crate::chunks::Chunk;
use crate::engine::address;
use crate::lists::{Few, Many};
use crate::pair::{Call, Pair, Setup, Source};
use crate::tampering::{Change, next_arrival};
use arbitrary::Arbitrary;
use sctp::packet::ChunkType;
use sctp::{
    AddressChange, AssociationId, BufferSplitting, Endpoint, EndpointConfig, ErrorDetectionMethod,
    Extensions, PathScheduler, PrPolicy, ReConfigurationPolicy, SendInfo, StreamReset,
    StreamScheduler,
};
use std::time::{Duration, Instant};

/// Which extensions both sides offer, what their users say, and what is done to some of the packets; the
/// others arrive as they are, in order.
#[derive(Arbitrary, Debug, Clone)]
pub struct Extending {
    offered: [Offered; 2],
    setup: Setup,
    events: Many<Event>,
}

/// What one side offers and grants: most offer everything.
#[derive(Arbitrary, Debug, Clone, Copy)]
struct Offered {
    is_picky: bool,
    partial_reliability: bool,
    authentication: bool,
    address_reconfiguration: bool,
    re_configuration: bool,
    interleaving: bool,
    nr_sack: bool,
    zero_checksum: bool,
    denies: bool,
    changes_addresses_without_authentication: bool,
    /// Whether the peer has to authenticate user data, too.
    authenticates_data: bool,
    is_protected_by_carrier: bool,
    /// Whether it uses several paths at a time, and how.
    cmt: bool,
    path_scheduler: u8,
    buffer_splitting: u8,
}

#[derive(Arbitrary, Debug, Clone)]
enum Event {
    /// A user speaks.
    Say(bool, Call),
    /// A user asks for something that takes an extension.
    Ask(bool, ExtensionCall),
    /// So many packets arrive untouched.
    Pass(u8),
    /// The next packet is changed.
    Change(Change),
    /// Chunks from nowhere arrive.
    Inject(bool, Source, Few<Chunk>),
}

/// One thing that a user asks of his engine.
#[derive(Arbitrary, Debug, Clone)]
enum ExtensionCall {
    ResetStreams {
        outgoing: Option<Few<u8>>,
        incoming: Option<Few<u8>>,
    },
    ResetAssociation,
    AddStreams(u8, u8),
    Schedule(u8),
    SetStreamValue(u8, u8),
    ChangeAddresses(Few<AddressCall>),
    Key {
        key: u8,
        call: KeyCall,
    },
    Send {
        stream: u8,
        unordered: bool,
        length: u16,
        policy: Policy,
        key: Option<u8>,
    },
}

/// A change of one of the addresses of the engine, on one of the two networks.
#[derive(Arbitrary, Debug, Clone, Copy)]
enum AddressCall {
    Add(bool),
    Delete(bool),
    SetPeerPrimary(bool),
}

/// What is done with a shared key.
#[derive(Arbitrary, Debug, Clone, Copy)]
enum KeyCall {
    /// Sets it to one of two secrets.
    Set(bool),
    SetActive,
    Deactivate,
    Delete,
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Policy {
    Timed(u8),
    LimitedRetransmissions(u8),
    Priority(u8),
}

impl Extending {
    /// Plays it out.
    ///
    /// # Panics
    ///
    /// When an engine does what it must not.
    pub fn play(&self) {
        let offered = &self.offered;
        let mut pair = Pair::with(&self.setup, |side, config| offered[side].extend(config));
        for event in self.events.iter() {
            match event {
                Event::Say(side, call) => pair.call(usize::from(*side), call),
                Event::Ask(side, call) => pair.ask(usize::from(*side), |endpoint, now, id| {
                    // What an engine refuses, it refuses.
                    call.happen(usize::from(*side), endpoint, now, id);
                }),
                Event::Pass(packets) => {
                    for _ in 0..=*packets % 8 {
                        if let Some(side) = next_arrival(&mut pair) {
                            pair.deliver(side, 0);
                        }
                    }
                }
                Event::Change(change) => {
                    if let Some(side) = next_arrival(&mut pair) {
                        change.happen(&mut pair, side);
                    }
                }
                Event::Inject(side, from, chunks) => {
                    pair.inject(usize::from(*side), *from, chunks);
                }
            }
        }
        pair.end();
    }
}

impl Offered {
    fn extend(self, config: EndpointConfig) -> EndpointConfig {
        let mut extensions = Extensions::ALL;
        if self.is_picky {
            extensions.partial_reliability = self.partial_reliability;
            extensions.authentication = self.authentication;
            extensions.address_reconfiguration = self.address_reconfiguration;
            extensions.re_configuration = self.re_configuration;
            extensions.interleaving = self.interleaving;
            extensions.nr_sack = self.nr_sack;
            extensions.zero_checksum = self.zero_checksum;
        }
        let policy = if self.is_picky && self.denies {
            ReConfigurationPolicy::default()
        } else {
            ReConfigurationPolicy::GRANT_ALL
        };
        let auth_chunks = if self.authenticates_data {
            vec![ChunkType::DATA, ChunkType::I_DATA, ChunkType::RE_CONFIG]
        } else {
            Vec::new()
        };
        let among = |index: u8, count: usize| usize::from(index) % count;
        let scheduler = among(self.path_scheduler, PathScheduler::ALL.len());
        let splitting = among(self.buffer_splitting, BufferSplitting::ALL.len());
        config
            .extensions(extensions)
            .cmt(self.cmt)
            .path_scheduler(PathScheduler::ALL[scheduler])
            .buffer_splitting(BufferSplitting::ALL[splitting])
            .re_configuration_policy(policy)
            .auth_chunks(auth_chunks)
            .address_reconfiguration_without_authentication(
                self.changes_addresses_without_authentication,
            )
            .alternate_error_detection(
                self.is_protected_by_carrier
                    .then_some(ErrorDetectionMethod::Tests),
            )
    }
}

impl ExtensionCall {
    fn happen(&self, side: usize, endpoint: &mut Endpoint, now: Instant, id: AssociationId) {
        let listed = |streams: &Option<Few<u8>>| {
            let streams = streams.as_ref()?.iter();
            Some(streams.map(|stream| u16::from(stream & 0x0f)).collect())
        };
        match self {
            ExtensionCall::ResetStreams { outgoing, incoming } => {
                let reset = StreamReset {
                    outgoing: listed(outgoing),
                    incoming: listed(incoming),
                };
                endpoint.reset_streams(now, id, reset).ok();
            }
            ExtensionCall::ResetAssociation => {
                endpoint.reset_association(now, id).ok();
            }
            ExtensionCall::AddStreams(outgoing, incoming) => {
                let [outgoing, incoming] = [*outgoing, *incoming].map(u16::from);
                endpoint.add_streams(now, id, outgoing, incoming).ok();
            }
            ExtensionCall::Schedule(scheduler) => {
                let schedulers = StreamScheduler::ALL;
                let scheduler = schedulers[usize::from(*scheduler) % schedulers.len()];
                endpoint.set_stream_scheduler(now, id, scheduler).ok();
            }
            ExtensionCall::SetStreamValue(stream, value) => {
                let stream = (stream & 0x0f).into();
                endpoint
                    .set_stream_value(now, id, stream, (*value).into())
                    .ok();
            }
            ExtensionCall::ChangeAddresses(calls) => {
                let changes: Vec<_> = calls.iter().map(|call| call.change(side)).collect();
                endpoint.change_addresses(now, id, &changes).ok();
            }
            ExtensionCall::Key { key, call } => {
                let (id, key) = (Some(id), (key % 4).into());
                match call {
                    KeyCall::Set(secret) => {
                        endpoint.set_shared_key(now, id, key, &[u8::from(*secret)])
                    }
                    KeyCall::SetActive => endpoint.set_active_key(now, id, key),
                    KeyCall::Deactivate => endpoint.deactivate_key(now, id, key),
                    KeyCall::Delete => endpoint.delete_key(now, id, key),
                }
                .ok();
            }
            ExtensionCall::Send {
                stream,
                unordered,
                length,
                policy,
                key,
            } => {
                let policy = match *policy {
                    Policy::Timed(time) => {
                        PrPolicy::Timed(Duration::from_millis(u64::from(time) * 8))
                    }
                    Policy::LimitedRetransmissions(count) => {
                        PrPolicy::LimitedRetransmissions((count % 4).into())
                    }
                    Policy::Priority(priority) => PrPolicy::Priority(priority.into()),
                };
                let info = SendInfo {
                    stream: (stream & 0x0f).into(),
                    unordered: *unordered,
                    pr_policy: Some(policy),
                    shared_key: key.map(|key| (key % 4).into()),
                    ..SendInfo::default()
                };
                let payload = vec![*stream; usize::from(*length) % 6000];
                endpoint.send(now, id, info, payload.into()).ok();
            }
        }
    }
}

impl AddressCall {
    fn change(self, side: usize) -> AddressChange {
        let own = |network| address(u8::from(network), side as u8);
        match self {
            AddressCall::Add(network) => AddressChange::Add(own(network)),
            AddressCall::Delete(network) => AddressChange::Delete(own(network)),
            AddressCall::SetPeerPrimary(network) => AddressChange::SetPeerPrimary(own(network)),
        }
    }
}
