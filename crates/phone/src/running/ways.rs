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
        let Some(source) = source_towards(remote.ip()) else {
            return;
        };
        let connection = flow.connection;
        let way = Way { source, connection };
        self.known.insert((remote, flow.transport), way);
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
    fn replace(&mut self, before: IpAddr, new: IpAddr) {
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
    /// sides of calls are told, by the way that a new connection, or an association with the new address, is.
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
            if let Some(known) = self.ways.known.get_mut(&(remote, transport)) {
                known.source = new;
            }
            self.leave_address(transport, way, new);
            self.ua.handle_address_change(now, remote);
        }
        let calls = self.calls.iter().filter(|(_, call)| call.may_move(now));
        let moved = calls.filter_map(|(number, call)| {
            let new = new_source(call.towards, call.local.as_ref()?.address)?;
            Some((*number, new))
        });
        let moved: Vec<(CallNumber, IpAddr)> = moved.collect();
        for (number, address) in moved {
            self.offer_at(now, number, address);
        }
    }

    /// A connection goes no more from the address that it was opened at. An association takes the new one (RFC 5061) if both
    /// sides can do that.
    fn leave_address(&self, transport: Transport, way: Way, new: IpAddr) {
        let transports = self.transports.clone();
        match transport {
            Transport::Udp => {}
            Transport::Sctp | Transport::TlsSctp => {
                let lost = (!is_ours(way.source)).then_some(way.source);
                tokio::spawn(async move {
                    let change = transports.change_sctp_address(way.connection, new, lost);
                    if !change.await {
                        transports.close(way.connection);
                    }
                });
            }
            Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss => {
                transports.close(way.connection);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
