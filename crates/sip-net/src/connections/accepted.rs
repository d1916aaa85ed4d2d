//! The connections that peers have opened: how many of each source there may be, and which one gives way to others.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use sip::ConnectionId;

use crate::config::Limits;

/// The connections that peers have opened, by their source.
#[derive(Debug)]
pub(super) struct AcceptedConnections {
    max_per_source: usize,
    max_unknown: usize,
    max_handshakes: usize,
    max_handshakes_per_source: usize,
    pub(super) sources: HashMap<IpAddr, Source>,
    /// Those whose handshake is under way.
    pub(super) handshakes: HashSet<ConnectionId>,
    /// How many there are of peers that we do not know, and the sources that have opened them by how many they have.
    pub(super) unknown: usize,
    pub(super) sources_by_unknown: BTreeSet<(usize, IpAddr)>,
    /// How many give way and are not closed yet.
    pub(super) displaced: usize,
}

/// Connections that one source has opened to us.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    all: usize,
    handshakes: usize,
    /// Those of peers that we do not know, the oldest ones first.
    unknown: BTreeSet<ConnectionId>,
}

impl AcceptedConnections {
    pub(super) fn new(limits: &Limits) -> AcceptedConnections {
        AcceptedConnections {
            max_per_source: limits.max_accepted_per_source,
            max_unknown: limits.max_connections - limits.max_connections / KEPT_FOR_KNOWN,
            max_handshakes: limits.max_handshakes,
            max_handshakes_per_source: limits.max_handshakes_per_source,
            sources: HashMap::new(),
            handshakes: HashSet::new(),
            unknown: 0,
            sources_by_unknown: BTreeSet::new(),
            displaced: 0,
        }
    }

    /// Whether a source may open another connection.
    pub(super) fn has_room(&self, remote: SocketAddr) -> bool {
        let source = self.sources.get(&source(remote));
        source.map_or(0, |source| source.all) < self.max_per_source
    }

    /// Whether a source may begin another handshake.
    pub(super) fn has_room_for_handshake(&self, remote: SocketAddr) -> bool {
        let source = self.sources.get(&source(remote));
        self.handshakes.len() < self.max_handshakes
            && source.map_or(0, |source| source.handshakes) < self.max_handshakes_per_source
    }

    /// Whether there are as many of peers that we do not know as there may be.
    pub(super) fn is_full_of_unknown(&self) -> bool {
        self.unknown >= self.max_unknown
    }

    /// A source has opened a connection. Nothing is known of its peer yet.
    pub(super) fn add(&mut self, connection: ConnectionId, remote: SocketAddr) {
        self.sources.entry(source(remote)).or_default().all += 1;
        self.set_unknown(remote, connection, true);
    }

    /// A connection is gone.
    pub(super) fn remove(
        &mut self,
        connection: ConnectionId,
        remote: SocketAddr,
        is_displaced: bool,
    ) {
        self.handshake_ended(connection, remote);
        self.set_unknown(remote, connection, false);
        self.displaced -= usize::from(is_displaced);
        if let Entry::Occupied(mut source) = self.sources.entry(source(remote)) {
            source.get_mut().all -= 1;
            if source.get().all == 0 {
                source.remove();
            }
        }
    }

    /// A connection begins its handshake.
    pub(super) fn handshake_began(&mut self, connection: ConnectionId, remote: SocketAddr) {
        self.handshakes.insert(connection);
        self.sources.entry(source(remote)).or_default().handshakes += 1;
    }

    /// The handshake of a connection is over, however it went.
    pub(super) fn handshake_ended(&mut self, connection: ConnectionId, remote: SocketAddr) {
        if self.handshakes.remove(&connection)
            && let Some(source) = self.sources.get_mut(&source(remote))
        {
            source.handshakes -= 1;
        }
    }

    /// Whether the peer of a connection is one that we do not know.
    pub(super) fn is_unknown(&self, connection: ConnectionId, remote: SocketAddr) -> bool {
        let source = self.sources.get(&source(remote));
        source.is_some_and(|source| source.unknown.contains(&connection))
    }

    /// The peer of a connection is one that we know.
    pub(super) fn set_known(&mut self, connection: ConnectionId, remote: SocketAddr) {
        self.set_unknown(remote, connection, false);
    }

    /// The connection that makes room for others: of the source with the most connections of peers that we do not know, the
    /// oldest one of these. `None` while as many as there may be are about to end.
    pub(super) fn displace(&mut self) -> Option<ConnectionId> {
        if self.displaced >= MAXIMUM_DISPLACED {
            return None;
        }
        let (_, source) = *self.sources_by_unknown.last()?;
        let oldest = *self.sources.get(&source)?.unknown.first()?;
        self.set_unknown_of(source, oldest, false);
        self.displaced += 1;
        Some(oldest)
    }

    fn set_unknown(&mut self, remote: SocketAddr, connection: ConnectionId, is_unknown: bool) {
        self.set_unknown_of(source(remote), connection, is_unknown);
    }

    fn set_unknown_of(&mut self, source: IpAddr, connection: ConnectionId, is_unknown: bool) {
        let Some(of_source) = self.sources.get_mut(&source) else {
            return;
        };
        let before = of_source.unknown.len();
        match is_unknown {
            true => of_source.unknown.insert(connection),
            false => of_source.unknown.remove(&connection),
        };
        let now = of_source.unknown.len();
        if now == before {
            return;
        }
        self.sources_by_unknown.remove(&(before, source));
        if now > 0 {
            self.sources_by_unknown.insert((now, source));
        }
        self.unknown = self.unknown - before + now;
    }
}

/// What one host has for itself: an IPv4 address, or the 64 bits of an IPv6 prefix, under which it
/// picks addresses as it likes (RFC 4291 section 2.5.4, RFC 8981).
pub(crate) fn source(remote: SocketAddr) -> IpAddr {
    match remote.ip() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
    }
}

/// One part in so many of all connections is for peers that we know, and for those that we open.
const KEPT_FOR_KNOWN: usize = 4;

/// How many connections may be about to end because they give way. They end at once: more at a time are not needed.
pub(super) const MAXIMUM_DISPLACED: usize = 1024;
