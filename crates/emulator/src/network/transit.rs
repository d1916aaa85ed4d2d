//! The way of a packet through the network.

use std::time::Instant;

use link::Verdict;

use super::graph::Port;
use super::packet::Packet;
use super::router::Decision;
use super::{Network, Transmit};
use crate::ip::{fragment, v4, v6};
use crate::rule::RuleId;

/// A packet has come out of a line.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) packet: Packet,
    from: From,
    /// When it went in.
    offered: Instant,
    /// When it came out.
    at: Instant,
    then: Then,
}

/// What it has come out of.
#[derive(Clone, Copy, Debug)]
enum From {
    /// The direction of a link that begins at this end.
    Link(Port),
    Rule(RuleId),
}

/// What becomes of it.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// It arrives at this end of a link.
    Arrive(Port),
    /// It crosses the link that begins at this end; the link's rules may act first.
    Cross(Port),
    /// The same, and no rule acts any more.
    CrossAfterRules(Port),
}

impl Network {
    /// A packet enters the network by a port of the node that made it.
    pub(super) fn enter(&mut self, packet: Packet, port: Port) {
        let acts = self
            .rules
            .act(self.now, None, packet.flow(), packet.for_link());
        match acts {
            Some((rule, verdict)) => {
                self.plan(packet, &verdict, From::Rule(rule), Then::Cross(port))
            }
            None => self.cross(packet, port),
        }
    }

    /// Lets happen what happens now.
    pub(super) fn handle_pending(&mut self) {
        while let Some(event) = self.pending.pop_front() {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        let bytes = event.packet.ip_length();
        let took = event.at.saturating_duration_since(event.offered);
        match event.from {
            From::Link(port) => {
                self.links[port.link].lines[port.end].count_delivery(bytes, took);
            }
            From::Rule(rule) => self.rules.count_delivery(rule, bytes, took),
        }
        match event.then {
            Then::Arrive(port) => self.arrive(event.packet, port),
            Then::Cross(port) => self.cross(event.packet, port),
            Then::CrossAfterRules(port) => self.cross_after_rules(event.packet, port),
        }
    }

    fn cross(&mut self, packet: Packet, port: Port) {
        let link = Some(port.link);
        let acts = self
            .rules
            .act(self.now, link, packet.flow(), packet.for_link());
        match acts {
            Some((rule, verdict)) => {
                self.plan(
                    packet,
                    &verdict,
                    From::Rule(rule),
                    Then::CrossAfterRules(port),
                );
            }
            None => self.cross_after_rules(packet, port),
        }
    }

    fn cross_after_rules(&mut self, packet: Packet, port: Port) {
        let line = &mut self.links[port.link].lines[port.end];
        let verdict = line.offer(self.now, packet.for_link());
        let far = Port {
            link: port.link,
            end: 1 - port.end,
        };
        self.plan(packet, &verdict, From::Link(port), Then::Arrive(far));
    }

    /// Plans what a verdict says.
    fn plan(&mut self, packet: Packet, verdict: &Verdict, from: From, then: Then) {
        let mut packet = Some(packet);
        let mut deliveries = verdict.deliveries().peekable();
        while let Some(delivery) = deliveries.next() {
            let this = match deliveries.peek() {
                Some(_) => packet.clone(),
                None => packet.take(),
            };
            let Some(mut this) = this else {
                return;
            };
            this.suffer(&delivery);
            let event = Event {
                packet: this,
                from,
                offered: self.now,
                at: delivery.at.max(self.now),
                then,
            };
            // What is planned for now came first.
            let is_next = self.events.next_time().is_none_or(|next| next > self.now);
            if event.at <= self.now && is_next {
                self.pending.push_back(event);
                continue;
            }
            let bytes = self.under_way_bytes + event.packet.octets.len();
            if self.events.len() >= self.limits.packets || bytes > self.limits.bytes {
                self.refused_packets += 1;
                continue;
            }
            self.under_way_bytes = bytes;
            self.events.push(event.at, event);
        }
    }

    fn arrive(&mut self, mut packet: Packet, port: Port) {
        if let Some(interface) = self.interface_at[port.link][port.end] {
            self.outbox.push_back(Transmit {
                interface,
                due: self.now,
                octets: packet.octets,
            });
            return;
        }
        let node = self.graph.ends[port.link][port.end];
        let Some(router) = self.graph.router(node) else {
            return;
        };
        let decision = self.routers[router].handle(self.now, port, &mut packet.octets);
        match decision {
            Decision::Forward(out) => self.forward(packet, router, port, out),
            Decision::Send(out, octets) => self.originate(octets, router, out),
            Decision::Drop => {}
        }
    }

    /// A router sends a packet of its own.
    fn originate(&mut self, octets: Vec<u8>, router: usize, out: Port) {
        let mtu = self.links[out.link].mtu;
        match fit(&octets, mtu) {
            Fit::Whole => self.enter(Packet::of_router(octets), out),
            Fit::Fragments(fragments) => {
                for fragment in fragments {
                    self.enter(Packet::of_router(fragment), out);
                }
            }
            Fit::No { .. } => self.routers[router].statistics.too_big_packets += 1,
        }
    }

    /// A router passes a packet on that came in by one port and leaves by another.
    fn forward(&mut self, packet: Packet, router: usize, by: Port, out: Port) {
        let mtu = self.links[out.link].mtu;
        match fit(&packet.octets, mtu) {
            Fit::Whole => self.cross(packet, out),
            Fit::Fragments(fragments) => {
                let statistics = &mut self.routers[router].statistics;
                statistics.fragmented_packets += 1;
                statistics.fragments += fragments.len() as u64;
                for fragment in fragments {
                    self.cross(Packet::of_router(fragment), out);
                }
            }
            Fit::No { mtu } => {
                let complaint = self.routers[router].too_big(self.now, by, &packet.octets, mtu);
                if let Decision::Send(out, octets) = complaint {
                    self.originate(octets, router, out);
                }
            }
        }
    }
}

/// How a packet fits into a link.
enum Fit {
    Whole,
    Fragments(Vec<Vec<u8>>),
    No {
        /// What its sender is told.
        mtu: usize,
    },
}

fn fit(packet: &[u8], mtu: usize) -> Fit {
    if packet.len() <= mtu {
        return Fit::Whole;
    }
    if packet.first().is_some_and(|first| first >> 4 == 6) {
        // A link of IPv6 carries 1,280 bytes, one with less by means of its own (RFC 8200 section 5).
        return match packet.len() <= v6::LEAST_MTU {
            true => Fit::Whole,
            false => Fit::No {
                mtu: mtu.max(v6::LEAST_MTU),
            },
        };
    }
    let read = v4::Packet::read(packet).filter(|read| !read.header.dont_fragment());
    match read.and_then(|read| fragment::fragments(&read, mtu)) {
        Some(fragments) => Fit::Fragments(fragments),
        None => Fit::No { mtu },
    }
}
