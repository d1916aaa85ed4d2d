//! Addresses joined by links, and what is on its way between them.

use link::{Alteration, Link, LinkStatistics, Verdict};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::net::IpAddr;
use std::time::Instant;

/// What travels over a network: a payload between two addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram<P> {
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address.
    pub destination: IpAddr,
    /// Bytes that it takes on the wire, all headers included.
    pub bytes: usize,
    /// Whether it goes through a link in pieces when it is larger than the link's MTU. (The pieces
    /// share one fate, and are put together before anybody sees them.)
    pub may_fragment: bool,
    /// The contents, which the network does not look into.
    pub payload: P,
}

/// Names a link of one network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(usize);

/// The largest datagram that goes through a link in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mtu {
    /// Bytes, all headers included.
    pub bytes: usize,
    /// Whether the sender of a larger one is told, as a router does by ICMP; otherwise the link is
    /// a black hole.
    pub tells_sender: bool,
}

/// What became of a datagram that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// No link leads from its source to its destination.
    Unroutable,
    /// It is larger than the link's MTU, and was not to be fragmented.
    TooBig {
        /// The MTU, in bytes.
        mtu: usize,
    },
    /// What the link said.
    Offered(Verdict),
}

/// Links, and which of them leads from one address to another. Each link is one direction; it may
/// serve many pairs of addresses, which then share its queue and its cuts.
///
/// A network has no clock: the caller says what time it is and must not go back in time.
#[derive(Clone, Debug)]
pub struct Network<P> {
    links: Vec<NetworkLink>,
    routes: BTreeMap<(IpAddr, IpAddr), LinkId>,
    in_flight: BinaryHeap<Reverse<InFlight<P>>>,
    /// Number of arrivals put on their way so far: what arrives at the same time does so in this
    /// order.
    departures: u64,
    statistics: NetworkStatistics,
}

/// Counters of a whole network.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NetworkStatistics {
    /// Datagrams that found no link between their addresses, and vanished.
    pub unroutable: u64,
    /// Datagrams that were too big for their link.
    pub too_big: u64,
    /// Datagrams that arrived, each copy counted.
    pub arrived: u64,
    /// Datagrams that arrived with flipped bits.
    pub altered: u64,
    /// Of these, datagrams whose contents have no bits to flip ([`crate::Host::alter`]), and which
    /// vanished.
    pub altered_lost: u64,
}

/// What comes to a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Arrival<P> {
    /// A datagram at its destination, and which of its payload's bits flip.
    Datagram(Datagram<P>, Option<Alteration>),
    /// The notice, at the source of a datagram, that it was larger than this MTU.
    TooBig(Datagram<P>, usize),
}

impl<P> Arrival<P> {
    /// The address that it comes to.
    pub(crate) fn address(&self) -> IpAddr {
        match self {
            Arrival::Datagram(datagram, _) => datagram.destination,
            Arrival::TooBig(datagram, _) => datagram.source,
        }
    }
}

impl<P: Clone> Network<P> {
    /// A network without links.
    pub fn new() -> Network<P> {
        Network {
            links: Vec::new(),
            routes: BTreeMap::new(),
            in_flight: BinaryHeap::new(),
            departures: 0,
            statistics: NetworkStatistics::default(),
        }
    }

    /// Adds a link that no route leads over yet.
    pub fn add_link(&mut self, link: Link) -> LinkId {
        self.links.push(NetworkLink { link, mtu: None });
        LinkId(self.links.len() - 1)
    }

    /// Leads what is sent from one address to another over a link, instead of the one that it went
    /// over before. What is already on its way arrives all the same.
    pub fn add_route(&mut self, from: IpAddr, to: IpAddr, link: LinkId) {
        self.routes.insert((from, to), link);
    }

    /// Takes away the route from one address to another.
    pub fn remove_route(&mut self, from: IpAddr, to: IpAddr) {
        self.routes.remove(&(from, to));
    }

    /// Lays a link from one address to another, for that direction alone.
    pub fn connect(&mut self, from: IpAddr, to: IpAddr, link: Link) -> LinkId {
        let id = self.add_link(link);
        self.add_route(from, to, id);
        id
    }

    /// A link.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.0].link
    }

    /// A link, to be cut, mended or changed.
    pub fn link_mut(&mut self, id: LinkId) -> &mut Link {
        &mut self.links[id.0].link
    }

    /// Bounds what goes through a link in one piece; `None` is no bound, as in the beginning.
    pub fn set_mtu(&mut self, id: LinkId, mtu: Option<Mtu>) {
        self.links[id.0].mtu = mtu;
    }

    /// Sends a datagram.
    pub fn send(&mut self, now: Instant, datagram: &Datagram<P>) -> Fate {
        let route = self.routes.get(&(datagram.source, datagram.destination));
        let Some(&LinkId(index)) = route else {
            self.statistics.unroutable += 1;
            return Fate::Unroutable;
        };
        let NetworkLink { link, mtu } = &mut self.links[index];
        if let Some(Mtu {
            bytes: mtu,
            tells_sender,
        }) = *mtu
            && datagram.bytes > mtu
            && !datagram.may_fragment
        {
            self.statistics.too_big += 1;
            // A link that is down tells nothing.
            if tells_sender && link.is_up() {
                self.put_on_its_way(now, Arrival::TooBig(datagram.clone(), mtu));
            }
            return Fate::TooBig { mtu };
        }
        let verdict = link.offer(now, datagram.bytes);
        for delivery in verdict.deliveries() {
            let arrival = Arrival::Datagram(datagram.clone(), delivery.alteration);
            self.put_on_its_way(delivery.at, arrival);
        }
        Fate::Offered(verdict)
    }

    /// When the next datagram arrives.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.in_flight.peek().map(|Reverse(first)| first.time)
    }

    /// Takes what comes next, if it has come by now.
    pub(crate) fn receive(&mut self, now: Instant) -> Option<Arrival<P>> {
        if self.next_arrival()? > now {
            return None;
        }
        let Reverse(first) = self.in_flight.pop()?;
        if let Arrival::Datagram(_, alteration) = &first.arrival {
            self.statistics.arrived += 1;
            self.statistics.altered += u64::from(alteration.is_some());
        }
        Some(first.arrival)
    }

    /// What the link from one address to another has done.
    pub fn link_statistics(&self, from: IpAddr, to: IpAddr) -> Option<&LinkStatistics> {
        let &id = self.routes.get(&(from, to))?;
        Some(self.link(id).statistics())
    }

    pub(crate) fn count_altered_lost(&mut self) {
        self.statistics.altered_lost += 1;
    }

    /// Counters of the whole network.
    pub fn statistics(&self) -> &NetworkStatistics {
        &self.statistics
    }

    fn put_on_its_way(&mut self, time: Instant, arrival: Arrival<P>) {
        self.in_flight.push(Reverse(InFlight {
            time,
            number: self.departures,
            arrival,
        }));
        self.departures += 1;
    }
}

impl<P: Clone> Default for Network<P> {
    fn default() -> Network<P> {
        Network::new()
    }
}

#[derive(Clone, Debug)]
struct NetworkLink {
    link: Link,
    mtu: Option<Mtu>,
}

/// Something on its way, ordered by the time of its arrival and then by number.
#[derive(Clone, Debug)]
struct InFlight<P> {
    time: Instant,
    number: u64,
    arrival: Arrival<P>,
}

impl<P> Ord for InFlight<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}

impl<P> PartialOrd for InFlight<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for InFlight<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<P> Eq for InFlight<P> {}
