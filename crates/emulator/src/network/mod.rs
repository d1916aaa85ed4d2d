//! The network itself: packets go in at one host and come out at another.
//!
//! What a packet meets on its way (a link, a router, a host) is an event, and events are handled in order of time (`event_queue`).
//! `graph` computes routes when links go up or down, `router` decides on one packet, `transit` leads a packet from one event
//! to the next, and `line` is one direction of a link with its counters.

mod event_queue;
mod graph;
mod line;
mod packet;
mod router;
mod routes;
mod rules;
mod transit;

use std::collections::VecDeque;
use std::time::Instant;

use ipnet::IpNet;
use link::{Link, LinkConfig};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

use crate::change_error::ChangeError;
use crate::config::{ConfigError, Framing, Limits, NetworkConfig};
use crate::rule::{Rule, RuleId};
use crate::statistics::{LinkSnapshot, RouterSnapshot, Snapshot};
use event_queue::EventQueue;
use graph::{Graph, LinkId, Port};
use line::Line;
use packet::Packet;
use router::Router;
use rules::Rules;
use transit::Event;

/// A network: hosts outside, and between them routers and links, which exist only in here.
///
/// It is fed what the hosts send ([`handle_packet`](Network::handle_packet)) and the time
/// ([`handle_timeout`](Network::handle_timeout)), and hands out what they receive
/// ([`poll_transmit`](Network::poll_transmit)). What happens is fixed by the configuration, the seed, and
/// what goes in when. Times must not go backward; one that does counts as the latest one.
///
/// A packet that is handled later than it was due still goes on as if it had been in time: a late driver
/// delays packets, but rates and the order of packets stay what they are.
#[derive(Clone, Debug)]
pub struct Network {
    router_names: Vec<String>,
    routers: Vec<Router>,
    graph: Graph,
    interfaces: Vec<HostInterface>,
    /// Where each of them is.
    ports: Vec<Port>,
    /// The interface of each end of each link, where there is a host.
    interface_at: Vec<[Option<InterfaceId>; 2]>,
    links: Vec<NetworkLink>,
    rules: Rules,
    limits: Limits,
    events: EventQueue<Event>,
    /// What happens at the time it is.
    pending: VecDeque<Event>,
    outbox: VecDeque<Transmit>,
    under_way_bytes: usize,
    refused_packets: u64,
    start: Instant,
    now: Instant,
}

/// The number of an interface of a host, counted from 0 in the order of the configuration: link by link, the
/// first end before the second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InterfaceId(pub usize);

/// An interface of a host: where packets go in and out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostInterface {
    /// Its number.
    pub id: InterfaceId,
    /// The name of the host.
    pub host: String,
    /// The name of the interface.
    pub name: String,
    /// The name of the link behind it.
    pub link: String,
    /// The addresses of the interface.
    pub addresses: Vec<IpNet>,
    /// The MTU of the link behind it.
    pub mtu: usize,
    /// What its packets begin with.
    pub framing: Framing,
}

/// A packet for a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The interface that receives it.
    pub interface: InterfaceId,
    /// When it arrives there; not after the time of the network.
    pub due: Instant,
    /// It, from its IP or Ethernet header on.
    pub octets: Vec<u8>,
}

/// Which way on a link.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From its first end to its second.
    Forward,
    /// From its second end to its first.
    Backward,
}

#[derive(Clone, Debug)]
struct NetworkLink {
    name: String,
    mtu: usize,
    /// Forward and backward.
    lines: [Line; 2],
}

impl Network {
    /// A network whose chances depend on the seed alone.
    ///
    /// # Errors
    ///
    /// When the configuration contradicts itself.
    pub fn new(config: &NetworkConfig, seed: u64, start: Instant) -> Result<Network, ConfigError> {
        let graph = Graph::new(config)?;
        let routers = graph
            .tables
            .iter()
            .map(|table| Router::new(table.clone(), start, config.limits.errors_per_second))
            .collect();
        let links = config.links.iter().enumerate().map(|(id, link)| {
            let line = |config: &LinkConfig, direction: usize| {
                let rng = generator(seed, (2 * id + direction) as u64);
                let schedule = &link.schedules[direction];
                Line::new(Link::new(config.clone(), rng).with_schedule(schedule, start))
            };
            NetworkLink {
                name: link.name.clone(),
                mtu: link.mtu,
                lines: [line(&link.forward, 0), line(&link.backward, 1)],
            }
        });
        let mut network = Network {
            router_names: config.routers.clone(),
            routers,
            links: links.collect(),
            interfaces: Vec::new(),
            ports: Vec::new(),
            interface_at: vec![[None; 2]; config.links.len()],
            rules: Rules::new(seed),
            limits: config.limits,
            events: EventQueue::new(),
            pending: VecDeque::new(),
            outbox: VecDeque::new(),
            under_way_bytes: 0,
            refused_packets: 0,
            start,
            now: start,
            graph,
        };
        network.number_interfaces(config);
        for rule in &config.rules {
            network.add_rule(rule.clone())?;
        }
        Ok(network)
    }

    /// Where hosts are joined to the network, by number.
    pub fn interfaces(&self) -> &[HostInterface] {
        &self.interfaces
    }

    /// Takes a packet that a host sends. An interface that is not there sends nothing.
    pub fn handle_packet(&mut self, now: Instant, interface: InterfaceId, octets: &[u8]) {
        self.handle_timeout(now);
        let Some(at) = self.interfaces.get(interface.0) else {
            return;
        };
        let packet = Packet::new(octets, at.framing);
        let port = self.ports[interface.0];
        if packet.ip_length() > self.links[port.link].mtu {
            self.links[port.link].lines[port.end].count_too_long();
            return;
        }
        self.enter(packet, port);
        self.handle_pending();
    }

    /// Lets everything happen that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, event)) = self.events.take_due(now) {
            self.now = self.now.max(at);
            self.under_way_bytes -= event.packet.octets.len();
            self.pending.push_back(event);
            self.handle_pending();
        }
        self.now = self.now.max(now);
    }

    /// When something happens next by itself.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.events.next_time()
    }

    /// The next packet that a host receives.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.outbox.pop_front()
    }

    /// Treats packets otherwise from now on: in one direction of a link, or in both.
    ///
    /// # Errors
    ///
    /// When there is no such link.
    pub fn set_link(
        &mut self,
        link: &str,
        direction: Option<Direction>,
        config: LinkConfig,
    ) -> Result<(), ChangeError> {
        for line in self.lines_of(link, direction)? {
            line.set_config(config.clone());
        }
        Ok(())
    }

    /// Cuts a link: it takes no packet any more. What is under way on it still arrives.
    ///
    /// # Errors
    ///
    /// When there is no such link.
    pub fn cut(&mut self, link: &str) -> Result<(), ChangeError> {
        self.set_up(link, false)
    }

    /// Heals a link that was cut.
    ///
    /// # Errors
    ///
    /// When there is no such link.
    pub fn heal(&mut self, link: &str) -> Result<(), ChangeError> {
        self.set_up(link, true)
    }

    /// Adds a rule behind all others.
    ///
    /// # Errors
    ///
    /// When it contradicts itself, is for a link that is not there, or there are too many.
    pub fn add_rule(&mut self, rule: Rule) -> Result<RuleId, ChangeError> {
        self.insert_rule(usize::MAX, rule)
    }

    /// Adds a rule before the one that has so many before it; behind all others where there are fewer.
    ///
    /// # Errors
    ///
    /// When it contradicts itself, is for a link that is not there, or there are too many.
    pub fn insert_rule(&mut self, index: usize, rule: Rule) -> Result<RuleId, ChangeError> {
        if self.rules.len() >= self.limits.rules {
            return Err(ChangeError::TooManyRules(self.limits.rules));
        }
        let link = self.check_rule(&rule)?;
        Ok(self.rules.insert(index, rule, link))
    }

    /// Puts another rule in the place of one. Its number and its sequence of random numbers stay.
    ///
    /// # Errors
    ///
    /// When there is none of that number, or the new one is none that could be added.
    pub fn change_rule(&mut self, id: RuleId, rule: Rule) -> Result<(), ChangeError> {
        let link = self.check_rule(&rule)?;
        self.rules.change(id, rule, link)
    }

    /// Takes a rule away. What it holds still comes out of it.
    ///
    /// # Errors
    ///
    /// When there is none of that number.
    pub fn delete_rule(&mut self, id: RuleId) -> Result<(), ChangeError> {
        self.rules.delete(id)
    }

    /// All rules, in their order.
    pub fn rules(&self) -> Vec<(RuleId, Rule)> {
        self.rules.list()
    }

    /// What has been done until now.
    pub fn snapshot(&mut self, now: Instant) -> Snapshot {
        let links = self.links.iter_mut().map(|link| LinkSnapshot {
            name: link.name.clone(),
            forward: link.lines[0].snapshot(now),
            backward: link.lines[1].snapshot(now),
        });
        let routers = self.router_names.iter().zip(&self.routers);
        let routers = routers.map(|(name, router)| RouterSnapshot {
            name: name.clone(),
            statistics: router.statistics,
        });
        Snapshot {
            seconds: now.saturating_duration_since(self.start).as_secs_f64(),
            links: links.collect(),
            rules: self.rules.snapshots(now),
            routers: routers.collect(),
            under_way_packets: self.events.len(),
            under_way_bytes: self.under_way_bytes,
            refused_packets: self.refused_packets,
            lateness: Default::default(),
            undelivered_packets: 0,
        }
    }

    fn set_up(&mut self, link: &str, up: bool) -> Result<(), ChangeError> {
        for line in self.lines_of(link, None)? {
            line.set_up(up);
        }
        Ok(())
    }

    fn lines_of(
        &mut self,
        link: &str,
        direction: Option<Direction>,
    ) -> Result<&mut [Line], ChangeError> {
        let id = self.link_called(link)?;
        let lines = &mut self.links[id].lines;
        Ok(match direction {
            None => lines,
            Some(Direction::Forward) => &mut lines[..1],
            Some(Direction::Backward) => &mut lines[1..],
        })
    }

    fn link_called(&self, name: &str) -> Result<LinkId, ChangeError> {
        let found = self.links.iter().position(|link| link.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.links.iter().map(|link| link.name.as_str()).collect();
            ChangeError::NoLink {
                name: name.to_owned(),
                known: known.join(", "),
            }
        })
    }

    /// The number of the link that a rule is for.
    fn check_rule(&self, rule: &Rule) -> Result<Option<LinkId>, ChangeError> {
        rule.check()?;
        let link = rule.link.as_deref();
        link.map(|link| self.link_called(link)).transpose()
    }

    fn number_interfaces(&mut self, config: &NetworkConfig) {
        for (id, link) in config.links.iter().enumerate() {
            for (end, at) in link.ends.iter().enumerate() {
                if self.graph.router(self.graph.ends[id][end]).is_some() {
                    continue;
                }
                let number = InterfaceId(self.interfaces.len());
                self.interface_at[id][end] = Some(number);
                self.ports.push(Port { link: id, end });
                self.interfaces.push(HostInterface {
                    id: number,
                    host: at.node.clone(),
                    name: at.interface.clone(),
                    link: link.name.clone(),
                    addresses: at.addresses.clone(),
                    mtu: link.mtu,
                    framing: at.framing,
                });
            }
        }
    }
}

/// What a part's random numbers come from: the same for a seed whatever other parts there are.
fn generator(seed: u64, part: u64) -> ChaCha12Rng {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    rng.set_stream(part);
    rng
}
