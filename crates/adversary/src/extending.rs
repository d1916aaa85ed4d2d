//! Two engines that use extensions, and whose packets are changed.

use crate::chunks::Chunk;
use crate::lists::{Few, Many};
use crate::pair::{Call, Pair, Setup, Source};
use crate::tampering::{Change, next_arrival};
use arbitrary::Arbitrary;
use sctp::{
    AssociationId, Endpoint, EndpointConfig, Extensions, PrPolicy, ReConfigurationPolicy, SendInfo,
    StreamReset, StreamScheduler,
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
    Send {
        stream: u8,
        unordered: bool,
        length: u16,
        policy: Policy,
    },
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
                    call.happen(endpoint, now, id);
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
        config
            .extensions(extensions)
            .re_configuration_policy(policy)
    }
}

impl ExtensionCall {
    fn happen(&self, endpoint: &mut Endpoint, now: Instant, id: AssociationId) {
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
                let scheduler = match scheduler % 4 {
                    0 => StreamScheduler::FirstComeFirstServed,
                    1 => StreamScheduler::RoundRobin,
                    2 => StreamScheduler::RoundRobinPerPacket,
                    _ => StreamScheduler::WeightedFairQueueing,
                };
                endpoint.set_stream_scheduler(now, id, scheduler).ok();
            }
            ExtensionCall::Send {
                stream,
                unordered,
                length,
                policy,
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
                    ..SendInfo::default()
                };
                let payload = vec![*stream; usize::from(*length) % 6000];
                endpoint.send(now, id, info, payload.into()).ok();
            }
        }
    }
}
