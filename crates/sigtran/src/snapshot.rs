//! How a process is at one time, taken down where its engine is: numbers, states and what is shared, but no texts. They are put
//! into words elsewhere.

use std::net::SocketAddr;

use m3ua::{
    AsId, AsState, AspState, Network, PeerRole, Reachability, ServedBy, SignallingProcess,
    Statistics,
};

/// How many application servers, memberships of peers in them, and destinations are listed, of each the first ones.
pub(crate) const MAX_LISTED: usize = 2_000;

/// Counts of the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that did not fit into the queue of their association.
    pub overflows: u64,
    /// Messages that waited for an association when it ended, or when the peer restarted it.
    pub abandoned: u64,
    /// Associations of hosts that are no peers, or of peers that had one.
    pub strangers: u64,
}

/// How a process is.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// By number.
    pub(crate) peers: Vec<PeerSnapshot>,
    pub(crate) application_servers: Vec<ServerSnapshot>,
    /// Application servers whose ASPs are peers, and those of them that are active: all, listed or not.
    pub(crate) with_asps: usize,
    pub(crate) active: usize,
    /// Application servers and memberships beyond those.
    pub(crate) left_out: usize,
    pub(crate) networks: Vec<Network>,
    pub(crate) reachability: Reachability,
    pub(crate) congested_destinations: usize,
    pub(crate) statistics: Statistics,
    pub(crate) counts: Counts,
}

#[derive(Debug)]
pub(crate) struct PeerSnapshot {
    pub(crate) role: PeerRole,
    pub(crate) link: Option<LinkStatus>,
    pub(crate) is_congested: bool,
    pub(crate) states: Vec<(AsId, AspState)>,
}

#[derive(Debug)]
pub(crate) struct ServerSnapshot {
    pub(crate) number: AsId,
    pub(crate) served_by: ServedBy,
    pub(crate) routing_context: Option<u32>,
    pub(crate) state: AsState,
    pub(crate) waiting: usize,
}

/// What the driver knows of the association with a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkStatus {
    pub(crate) remote: SocketAddr,
    pub(crate) queued: usize,
}

impl Snapshot {
    /// Of an engine, and its associations by the numbers of the peers.
    pub(crate) fn of(
        engine: &SignallingProcess,
        links: impl Iterator<Item = Option<LinkStatus>>,
        counts: Counts,
    ) -> Snapshot {
        let mut left_out = 0;
        let mut room = MAX_LISTED;
        let peers = engine.peers().zip(links).filter_map(|(peer, link)| {
            let states = engine.members(peer).take(room);
            let states = states.map(|server| (server, engine.asp_state(peer, server)));
            let states: Vec<(AsId, AspState)> = states.collect();
            room -= states.len();
            left_out += engine.member_count(peer) - states.len();
            Some(PeerSnapshot {
                role: engine.peer(peer)?.role,
                link,
                is_congested: engine.is_congested(peer),
                states,
            })
        });
        let peers = peers.collect();
        let mut servers = engine.application_servers();
        let listed = servers.by_ref().take(MAX_LISTED).filter_map(|number| {
            let config = engine.application_server(number)?;
            Some(ServerSnapshot {
                number,
                served_by: config.served_by,
                routing_context: config.routing_context,
                state: engine.as_state(number),
                waiting: engine.waiting(number),
            })
        });
        let application_servers = listed.collect();
        left_out += servers.count();
        let (mut with_asps, mut active) = (0, 0);
        for number in engine.application_servers() {
            let config = engine.application_server(number);
            if config.is_some_and(|it| it.served_by != ServedBy::Us) {
                with_asps += 1;
                active += usize::from(engine.as_state(number) == AsState::Active);
            }
        }
        Snapshot {
            peers,
            application_servers,
            with_asps,
            active,
            left_out,
            networks: engine.networks().to_vec(),
            reachability: engine.reachability(),
            congested_destinations: engine.congested_destinations(),
            statistics: engine.statistics().clone(),
            counts,
        }
    }
}
