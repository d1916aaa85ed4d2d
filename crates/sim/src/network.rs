//! Addresses joined by links, and what is on its way between them.

use link::{Link, LinkStatistics, Verdict};
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
    /// The contents, which the network does not look into.
    pub payload: P,
}

/// Links between pairs of addresses, each direction a link of its own.
///
/// It has no clock: the caller says what time it is and must not go back in time.
#[derive(Clone, Debug)]
pub struct Network<P> {
    links: BTreeMap<(IpAddr, IpAddr), Link>,
    in_flight: BinaryHeap<Reverse<InFlight<P>>>,
    /// Number of deliveries so far: what arrives at the same time does so in this order.
    deliveries: u64,
    statistics: NetworkStatistics,
}

/// Counters of a whole network.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NetworkStatistics {
    /// Datagrams that found no link between their addresses, and vanished.
    pub unroutable: u64,
    /// Datagrams that arrived, each copy counted.
    pub arrived: u64,
}

impl<P: Clone> Network<P> {
    /// A network without links.
    pub fn new() -> Network<P> {
        Network {
            links: BTreeMap::new(),
            in_flight: BinaryHeap::new(),
            deliveries: 0,
            statistics: NetworkStatistics::default(),
        }
    }

    /// Lays a link from one address to another, for that direction alone. It replaces a link that
    /// was there; what is already on its way arrives all the same.
    pub fn connect(&mut self, from: IpAddr, to: IpAddr, link: Link) {
        self.links.insert((from, to), link);
    }

    /// Sends a datagram. What its link says about it is returned; `None` when there is no link
    /// between the addresses.
    pub fn send(&mut self, now: Instant, datagram: &Datagram<P>) -> Option<Verdict> {
        let Some(link) = self.links.get_mut(&(datagram.source, datagram.destination)) else {
            self.statistics.unroutable += 1;
            return None;
        };
        let verdict = link.offer(now, datagram.bytes);
        for arrival in verdict.deliveries() {
            self.in_flight.push(Reverse(InFlight {
                arrival,
                number: self.deliveries,
                datagram: datagram.clone(),
            }));
            self.deliveries += 1;
        }
        Some(verdict)
    }

    /// When the next datagram arrives.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.in_flight.peek().map(|Reverse(first)| first.arrival)
    }

    /// Takes the next datagram, if it has arrived by now.
    pub fn receive(&mut self, now: Instant) -> Option<Datagram<P>> {
        if self.next_arrival()? > now {
            return None;
        }
        let Reverse(first) = self.in_flight.pop()?;
        self.statistics.arrived += 1;
        Some(first.datagram)
    }

    /// What the link from one address to another has done.
    pub fn link_statistics(&self, from: IpAddr, to: IpAddr) -> Option<&LinkStatistics> {
        self.links.get(&(from, to)).map(Link::statistics)
    }

    /// Counters of the whole network.
    pub fn statistics(&self) -> &NetworkStatistics {
        &self.statistics
    }
}

impl<P: Clone> Default for Network<P> {
    fn default() -> Network<P> {
        Network::new()
    }
}

/// A copy of a datagram on its way, ordered by arrival and then by number.
#[derive(Clone, Debug)]
struct InFlight<P> {
    arrival: Instant,
    number: u64,
    datagram: Datagram<P>,
}

impl<P> Ord for InFlight<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.arrival, self.number).cmp(&(other.arrival, other.number))
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
