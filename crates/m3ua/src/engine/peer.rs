//! What a signalling process knows of a peer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::config::{AsId, MemberConfig, PeerConfig, SgId, Via};
use super::output::AspState;
use crate::MaskedPointCode;

/// A peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) config: PeerConfig,
    /// The SG that it is an SGP of. An IPSP is one by itself.
    pub(crate) gateway: Option<SgId>,
    /// Streams to the peer; none: there is no association.
    pub(crate) outbound_streams: Option<u16>,
    /// Management does not let it come up (section 4.3.4.1).
    pub(crate) is_blocked: bool,
    /// As an ASP of ours it is up.
    pub(crate) is_up: bool,
    /// The ASP Identifier that it has given.
    pub(crate) asp_identifier: Option<u32>,
    /// As its ASP we are up.
    pub(crate) we_are_up: bool,
    /// We want to be.
    pub(crate) wants_up: bool,
    /// The request that waits for an acknowledgement.
    pub(crate) request: Option<Request>,
    /// The application servers that we share with it.
    pub(crate) members: BTreeMap<AsId, Membership>,
    /// They by routing context.
    pub(crate) contexts: BTreeMap<u32, AsId>,
    /// When something came from it.
    pub(crate) last_heard: Option<Instant>,
    /// The destination that it was last told is unavailable, in answer to a message, and when.
    pub(crate) last_unavailable: Option<(MaskedPointCode, Instant)>,
    /// Its association is congested.
    pub(crate) is_congested: bool,
    /// Heartbeats sent.
    pub(crate) beats: u64,
}

/// An application server that we share with a peer. The state of the peer as its ASP is kept with the AS.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) config: MemberConfig,
    pub(crate) routing_context: Option<u32>,
    /// Our own state as an ASP of it.
    pub(crate) our_state: AspState,
    /// We want to be active.
    pub(crate) wants_active: bool,
    /// Our management has taken us out: a Notify does not make us active again (section 4.3.4.5).
    pub(crate) is_withdrawn: bool,
    /// It exists by registration: ours at the peer, or the peer's at us.
    pub(crate) is_registered: bool,
    /// Our registration was refused, so that we do not ask again.
    pub(crate) is_refused: bool,
}

/// A request of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Up,
    Down,
    Active(BTreeSet<AsId>),
    Inactive(BTreeSet<AsId>),
    /// By local routing key identifier.
    Register(BTreeMap<u32, AsId>),
    Deregister(BTreeSet<AsId>),
}

impl Peer {
    pub(crate) fn new(config: PeerConfig, gateway: Option<SgId>) -> Peer {
        Peer {
            wants_up: config.comes_up && config.role.is_asked(),
            config,
            gateway,
            outbound_streams: None,
            is_blocked: false,
            is_up: false,
            asp_identifier: None,
            we_are_up: false,
            request: None,
            members: BTreeMap::new(),
            contexts: BTreeMap::new(),
            last_heard: None,
            last_unavailable: None,
            is_congested: false,
            beats: 0,
        }
    }

    /// The stream of a message with this SLS: any but 0 (section 1.4.7).
    pub(crate) fn data_stream(&self, sls: u8) -> Option<u16> {
        let streams = self.outbound_streams?.checked_sub(1)?;
        u16::from(sls).checked_rem(streams).map(|stream| stream + 1)
    }

    /// Where messages go that are sent to it.
    pub(crate) fn ways(&self) -> impl Iterator<Item = Via> {
        let gateway = self.gateway.map(Via::Sg);
        let servers = self.members.keys().copied().map(Via::As);
        gateway.into_iter().chain(servers)
    }

    /// Whether we are active in any application server that we share with it.
    pub(crate) fn has_us_active(&self) -> bool {
        self.members
            .values()
            .any(|it| it.our_state == AspState::Active)
    }
}
