//! The ways to next hops: how they are found, and what becomes of them when the addresses of this host change.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use sip::{ConnectionId, Flow, Target, Transport};
use ua::{CallNumber, Query, QueryId, Route};

use super::Running;
use crate::routes::{is_ours, new_source, question, source_towards};

/// From one look at our addresses to the next. The kernel is asked which one it would send from: that tells of new routes,
/// too, needs no privilege, and costs some microseconds for each next hop.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a call waits for ports at another address of ours that a STUN server has seen.
const GATHERING: Duration = Duration::from_secs(1);
/// Next hops that are remembered.
const MAX_WAYS: usize = 256;

/// The next hops, and our addresses.
#[derive(Debug, Default)]
pub(super) struct Ways {
    known: BTreeMap<(SocketAddr, Transport), Way>,
    /// Addresses that this host has lost, and what came in their place: an association outlives the address from which it was
    /// begun.
    lost: BTreeMap<IpAddr, IpAddr>,
}

/// The way to a next hop.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// The address of ours from which packets leave.
    source: IpAddr,
    connection: ConnectionId,
}

impl Ways {
    /// A way was found.
    fn note(&mut self, route: &Route) {
        let Target::FlowOrAddress(flow, remote) = route.target else {
            return;
        };
        let (hop, connection) = ((remote, flow.transport), flow.connection);
        // One that is there since before is at the address from which it was begun: whether that has changed meanwhile, the
        // next look tells.
        let before = self.known.get(&hop);
        if before.is_some_and(|way| way.connection == connection) {
            return;
        }
        let Some(source) = source_towards(remote.ip()) else {
            return;
        };
        self.known.insert(hop, Way { source, connection });
        if self.known.len() > MAX_WAYS {
            self.known.pop_first();
        }
    }

    /// An address of ours as it is now.
    pub(super) fn current(&self, local: SocketAddr) -> SocketAddr {
        let ip = self.lost.get(&local.ip()).copied();
        SocketAddr::new(ip.unwrap_or(local.ip()), local.port())
    }

    /// One of our addresses has taken the place of another one, which may be there yet.
    pub(super) fn replace(&mut self, before: IpAddr, new: IpAddr) {
        self.lost.remove(&new);
        if is_ours(before) {
            return;
        }
        for replacement in self.lost.values_mut() {
            if *replacement == before {
                *replacement = new;
            }
        }
        self.lost.insert(before, new);
    }
}

impl Running {
    /// Looks for the way to a URI.
    pub(super) fn resolve(&mut self, query: Query) {
        let question = question(&query.uri, self.config.transport);
        let (resolver, reach, transports) = (
            self.resolver.clone(),
            self.reach.clone(),
            self.transports.clone(),
        );
        self.resolving.spawn(async move {
            let route = async {
                let hops = resolver.resolve(&question?, &reach).await;
                for hop in hops {
                    let flow = transports
                        .connect_to(hop.transport, hop.remote, hop.peer.clone(), false)
                        .await;
                    let Ok(flow) = flow else {
                        continue;
                    };
                    let listening = transports.local_address_for(hop.transport, hop.remote);
                    return Some(Route {
                        target: Target::FlowOrAddress(flow, hop.remote),
                        local: listening.unwrap_or(flow.local),
                        peer: hop.peer,
                    });
                }
                None
            };
            (query.id, route.await)
        });
    }

    /// A way was found, or there is none.
    pub(super) fn handle_route(&mut self, now: Instant, query: QueryId, route: Option<Route>) {
        let route = route.map(|route| {
            self.ways.note(&route);
            Route {
                local: self.ways.current(route.local),
                ..route
            }
        });
        self.ua.handle_route(now, query, route);
    }

    /// Along which flow a message came, with our address as it is now.
    pub(super) fn current_flow(&self, flow: Flow) -> Flow {
        Flow {
            local: self.ways.current(flow.local),
            ..flow
        }
    }

    /// Looks whether packets leave from other addresses of ours than before. Then registrations are renewed, and the other
    /// sides of calls are told: by a new connection, or an association with the new address.
    pub(super) fn look_at_addresses(&mut self, now: Instant) {
        let ways = self.ways.known.iter();
        let moved = ways.filter_map(|(hop, way)| {
            let new = new_source(hop.0.ip(), way.source)?;
            Some((*hop, *way, new))
        });
        let moved: Vec<((SocketAddr, Transport), Way, IpAddr)> = moved.collect();
        if !moved.is_empty() {
            self.transports.addresses_changed();
        }
        for ((remote, transport), way, new) in moved {
            self.ways.replace(way.source, new);
            if !is_ours(way.source) {
                self.ua.replace_address(way.source, new);
            }
            if let Some(known) = self.ways.known.get_mut(&(remote, transport)) {
                known.source = new;
            }
            match transport {
                Transport::Udp => {}
                Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss => {
                    self.transports.close(way.connection);
                }
                Transport::Sctp | Transport::TlsSctp => {
                    self.move_association(remote, way, new);
                    continue;
                }
            }
            self.ua.handle_address_change(now, remote);
        }
        if !self.moving.is_empty() {
            // What is sent now would be lost if an association has to be given up.
            return;
        }
        let calls = self.calls.iter().filter(|(_, call)| call.may_move(now));
        let moved = calls.filter_map(|(number, call)| {
            let new = new_source(call.towards, call.local.as_ref()?.address)?;
            Some((*number, new))
        });
        let moved: Vec<(CallNumber, IpAddr)> = moved.collect();
        for (number, address) in moved {
            let Some(call) = self.calls.get_mut(&number) else {
                continue;
            };
            // Where others see ports at that address is asked first.
            let gatherer = self.gatherer.as_ref();
            if let Some(gatherer) = gatherer.filter(|_| call.moves_at.is_none()) {
                gatherer.renew();
                call.moves_at = Some(now + GATHERING);
                continue;
            }
            self.offer_at(now, number, address);
        }
    }

    /// An association takes the new address (RFC 5061), or gives way to another one if the other side cannot do that.
    fn move_association(&mut self, remote: SocketAddr, way: Way, new: IpAddr) {
        let transports = self.transports.clone();
        let lost = (!is_ours(way.source)).then_some(way.source);
        self.moving.spawn(async move {
            let change = transports.change_sctp_address(way.connection, new, lost);
            if !change.await {
                transports.close(way.connection);
            }
            remote
        });
    }

    /// An association has taken the new address, or is given up.
    pub(super) fn handle_moved(&mut self, now: Instant, remote: SocketAddr) {
        self.ua.handle_address_change(now, remote);
        self.look_at_addresses(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_stays_at_the_address_from_which_it_was_begun() {
        let remote: SocketAddr = ([127, 0, 0, 1], 5060).into();
        let route = |connection| {
            let flow = Flow {
                transport: Transport::Tcp,
                local: ([127, 0, 0, 1], 40_000).into(),
                remote,
                connection: ConnectionId(connection),
                stream: 0,
            };
            Route {
                target: Target::FlowOrAddress(flow, remote),
                local: flow.local,
                peer: None,
            }
        };
        let gone: IpAddr = [203, 0, 113, 1].into();
        let mut ways = Ways::default();
        ways.note(&route(1));
        for way in ways.known.values_mut() {
            way.source = gone;
        }
        // A request took the old connection after the address had changed and before that was noticed.
        ways.note(&route(1));
        let source = |ways: &Ways| ways.known[&(remote, Transport::Tcp)].source;
        assert_eq!(source(&ways), gone);
        ways.note(&route(2));
        assert_eq!(source(&ways), remote.ip());
    }

    #[test]
    fn addresses_that_are_lost_are_told_as_those_that_came_after_them() {
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        let (one, two, three) = (at("203.0.113.1"), at("203.0.113.2"), at("203.0.113.3"));
        let mut ways = Ways::default();
        ways.replace(one, two);
        ways.replace(two, three);
        let current = |ways: &Ways, ip| ways.current(SocketAddr::new(ip, 5060));
        for ip in [one, two, three] {
            assert_eq!(current(&ways, ip), SocketAddr::new(three, 5060));
        }
        // It is there again.
        ways.replace(three, one);
        assert_eq!(current(&ways, one), SocketAddr::new(one, 5060));
        assert_eq!(current(&ways, three), SocketAddr::new(one, 5060));
        // One that is there yet is told as it is.
        let loopback = at("127.0.0.1");
        ways.replace(loopback, one);
        assert_eq!(current(&ways, loopback).ip(), loopback);
    }
}
