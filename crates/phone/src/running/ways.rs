//! The ways to next hops: how they are found, and what becomes of them when the addresses of this host change.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use sip::{ConnectionId, Flow, Target, Transport};
use ua::{CallNumber, Query, Route};

use super::Running;
use crate::routes::{host_of, is_ours, new_source, question, source_towards};

/// From one look at our addresses to the next. The kernel is asked which one it would send from: that tells of new routes,
/// too, needs no privilege, and costs some microseconds for each next hop.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a call waits for ports at another address of ours that a STUN server has seen.
const GATHERING: Duration = Duration::from_secs(1);
/// Next hops that are remembered, and names of hosts.
const MAX_WAYS: usize = 256;
/// Somewhere else: most names that were not resolved yet leave this host by the same way.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// The next hops, and our addresses.
#[derive(Debug, Default)]
pub(super) struct Ways {
    known: BTreeMap<(SocketAddr, Transport), Way>,
    /// Where the names of hosts have led.
    hosts: BTreeMap<String, IpAddr>,
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
    /// When it was found last.
    found: Instant,
}

impl Ways {
    /// The way to a URI was found.
    fn note(&mut self, now: Instant, uri: &str, route: &Route) {
        let Target::FlowOrAddress(flow, remote) = route.target else {
            return;
        };
        self.hosts.insert(host_of(uri), remote.ip());
        if self.hosts.len() > MAX_WAYS {
            self.hosts.pop_first();
        }
        let (hop, connection) = ((remote, flow.transport), flow.connection);
        // One that is there since before is at the address from which it was begun: whether that has changed meanwhile, the
        // next look tells.
        if let Some(before) = self.known.get_mut(&hop)
            && before.connection == connection
        {
            before.found = now;
            return;
        }
        let Some(source) = source_towards(remote.ip()) else {
            return;
        };
        let way = Way {
            source,
            connection,
            found: now,
        };
        self.known.insert(hop, way);
        if self.known.len() > MAX_WAYS
            && let Some((oldest, _)) = self.known.iter().min_by_key(|(_, way)| way.found)
        {
            let oldest = *oldest;
            self.known.remove(&oldest);
        }
    }

    /// The address of a host: where its name has led last.
    pub(super) fn address_of(&self, host: &str) -> IpAddr {
        let resolved = || self.hosts.get(host).copied();
        host.parse().ok().or_else(resolved).unwrap_or(ELSEWHERE)
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
            (query, route.await)
        });
    }

    /// A way was found, or there is none.
    pub(super) fn handle_route(&mut self, now: Instant, query: &Query, route: Option<Route>) {
        let route = route.map(|route| {
            self.ways.note(now, &query.uri, &route);
            Route {
                local: self.ways.current(route.local),
                ..route
            }
        });
        self.ua.handle_route(now, query.id, route);
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
                    // A message may have opened another one than that which was found.
                    let transports = &self.transports;
                    let lost = transports.connections_from(way.source, transport, remote);
                    for connection in lost {
                        transports.close(connection);
                    }
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
            let towards = self.ways.address_of(&call.towards);
            let new = new_source(towards, call.local.as_ref()?.address)?;
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
        let (now, uri) = (Instant::now(), "sip:proxy.example.org");
        ways.note(now, uri, &route(1));
        assert_eq!(ways.address_of("proxy.example.org"), remote.ip());
        assert_eq!(ways.address_of("192.0.2.77"), IpAddr::from([192, 0, 2, 77]));
        assert_eq!(ways.address_of("example.org"), ELSEWHERE);
        for way in ways.known.values_mut() {
            way.source = gone;
        }
        // A request took the old connection after the address had changed and before that was noticed.
        ways.note(now, uri, &route(1));
        let source = |ways: &Ways| ways.known[&(remote, Transport::Tcp)].source;
        assert_eq!(source(&ways), gone);
        ways.note(now, uri, &route(2));
        assert_eq!(source(&ways), remote.ip());
    }

    #[test]
    fn the_way_that_was_found_longest_ago_is_forgotten() {
        let hop = |number: u16| SocketAddr::from(([127, 0, 0, 1], number));
        let (mut ways, begin) = (Ways::default(), Instant::now());
        let mut note = |number: u16, seconds: u16| {
            let flow = Flow {
                transport: Transport::Tcp,
                local: hop(40_000),
                remote: hop(number),
                connection: ConnectionId(u64::from(number)),
                stream: 0,
            };
            let route = Route {
                target: Target::FlowOrAddress(flow, flow.remote),
                local: flow.local,
                peer: None,
            };
            let uri = format!("sip:host{number}.example.org");
            ways.note(begin + Duration::from_secs(seconds.into()), &uri, &route);
        };
        let last = MAX_WAYS as u16;
        for number in 1..=last {
            note(number, number);
        }
        note(1, last + 1);
        note(last + 1, last + 2);
        let is_known = |number| ways.known.contains_key(&(hop(number), Transport::Tcp));
        assert!(is_known(1) && !is_known(2) && is_known(3) && is_known(last + 1));
        assert_eq!((ways.known.len(), ways.hosts.len()), (MAX_WAYS, MAX_WAYS));
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
