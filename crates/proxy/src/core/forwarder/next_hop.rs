//! The next hop of a request: what each hop to a target means, and our own address toward it (RFC 3261 section 16.6 steps
//! 7 and 8).

use std::net::SocketAddr;
use std::sync::Arc;

use sip::{Flow, Message, Peer, Transport, Uri};

use crate::core::common::CommonState;
use crate::core::forward::needed_flow;
use crate::core::identity::{Origin, Source};
use crate::core::interface::Interface;
use crate::core::policy::Mode;
use crate::core::query::{Answer, Destination, NextHop, Query};
use crate::core::read_uri::ReadUri;
use crate::core::target::{Hop, Target, is_sips};
use crate::core::{route, uri};

/// A next hop that has been resolved.
pub(crate) enum Resolved {
    /// The request can go.
    Send {
        to: sip::Target,
        /// Who is expected there.
        peer: Option<Arc<Peer>>,
        interface: Interface,
    },
    /// This has to be known first.
    Ask(Query),
}

/// How many addresses of a next hop are tried.
const MAXIMUM_NEXT_HOPS: usize = 8;

/// What a next hop means for a request. `None`: it leads nowhere, or a SIPS URI to where there is no
/// TLS (RFC 3261 section 26.2.2, RFC 5630 section 5.3).
pub(crate) fn resolve(
    common: &CommonState,
    request: &Message,
    target: &Target,
    hop: &Hop,
) -> Option<Resolved> {
    let transport = match hop {
        Hop::Flow { flow, .. } => Some(flow.transport),
        Hop::Address { transport, .. } | Hop::Host { transport, .. } => Some(*transport),
        Hop::Datagram { .. } => Some(Transport::Udp),
        Hop::Requested { .. } | Hop::Uri(_) | Hop::User(_) => None,
    };
    let is_secure = is_sips(&target.uri);
    if is_secure && transport.is_some_and(|transport| !transport.is_secure()) {
        return None;
    }
    match hop {
        Hop::Flow {
            flow,
            address,
            peer,
            is_needed,
        } => {
            let interface = Interface::along(&common.identity, flow, is_needed.then_some(*flow))?;
            let to = match address {
                Some(address) => sip::Target::FlowOrAddress(*flow, *address),
                None => sip::Target::Flow(*flow),
            };
            Some(Resolved::Send {
                to,
                peer: peer.clone(),
                interface,
            })
        }
        Hop::Address {
            transport,
            remote,
            local,
            peer,
        } => {
            let source = match common.identity.source(*transport, remote.ip(), None)? {
                Source::Known(source) => source,
                Source::Ask(_) => Arc::new(Origin::from(*local)),
            };
            Some(send_to(*transport, *remote, peer.clone(), source))
        }
        Hop::User(address) => Some(Resolved::Ask(Query::Lookup(address.clone()))),
        Hop::Requested { address } => {
            if let Some((transport, remote)) = *address
                && remote.port() != 0
                && !route::has_route(request, target)
                && let Source::Known(source) =
                    common.identity.source(transport, remote.ip(), None)?
            {
                return Some(send_to(transport, remote, None, source));
            }
            let next_hop = route::next_hop(request, target)?;
            resolve_uri(common, request, &(*next_hop.as_sip()?).into(), is_secure)
        }
        Hop::Host { transport, peer } => resolve_host(common, *transport, peer),
        Hop::Uri(hop) => match Uri::parse(&hop.uri) {
            Ok(Uri::Sip(uri)) => {
                let uri = uri.into();
                match hop.several_addresses(&uri, is_secure) {
                    Some((transport, peer)) => resolve_host(common, transport, &peer),
                    None => resolve_uri(common, request, &uri, is_secure),
                }
            }
            _ => None,
        },
        Hop::Datagram {
            remote,
            source,
            peer,
        } => Some(send_to(
            Transport::Udp,
            *remote,
            peer.clone(),
            source.clone(),
        )),
    }
}

/// Where the URI that decides about the next hop leads (RFC 3261 section 16.6 step 7).
fn resolve_uri(
    common: &CommonState,
    request: &Message,
    uri: &ReadUri<'_>,
    is_secure: bool,
) -> Option<Resolved> {
    if uri.port() == Some(0) {
        return None;
    }
    if let Some((transport, remote)) = uri::address(uri, is_secure)
        && let Source::Known(source) = common.identity.source(transport, remote.ip(), None)?
    {
        return Some(send_to(transport, remote, None, source));
    }
    let destination = uri::destination(uri, is_secure)?;
    Some(Resolved::Ask(Query::Resolve(Destination {
        // Our Via and Record-Route will make it larger.
        is_large: request.wire_length() > common.timings.maximum_datagram,
        choice: choice(common, request),
        ..destination
    })))
}

/// Where a host of several addresses is reached.
fn resolve_host(common: &CommonState, transport: Transport, peer: &Arc<Peer>) -> Option<Resolved> {
    let source = |remote: &SocketAddr| {
        let source = common.identity.source(transport, remote.ip(), None)?;
        Some((*remote, source))
    };
    let (remote, source) = peer.addresses.iter().find_map(source)?;
    let all = peer.addresses.iter().map(SocketAddr::ip);
    Some(match source {
        Source::Known(source) => send_to(transport, remote, Some(Arc::clone(peer)), source),
        Source::Ask(_) => Resolved::Ask(Query::Resolve(Destination {
            host: remote.ip().to_string(),
            port: Some(remote.port()),
            transport: Some(transport),
            is_secure: transport.is_secure(),
            is_large: false,
            choice: None,
            addresses: all.filter(|ip| *ip != remote.ip()).collect(),
        })),
    })
}

/// Our side toward where a request came from.
pub(crate) fn arrival_interface(
    common: &CommonState,
    request: &Message,
    arrival: &Flow,
) -> Option<Interface> {
    Interface::along(&common.identity, arrival, needed_flow(request, arrival))
}

/// Where a request of so many octets goes that is too large for UDP: over TCP to the same address and port (RFC 3261
/// section 18.1.1). `None` where it is not, or we have no TCP.
pub(crate) fn stream_instead(
    common: &CommonState,
    octets: usize,
    to: &sip::Target,
    interface: &Interface,
) -> Option<(sip::Target, Interface)> {
    let remote = match to {
        sip::Target::Address(Transport::Udp, remote) => *remote,
        _ => return None,
    };
    if octets <= common.timings.maximum_datagram {
        return None;
    }
    let source = match common.identity.source(Transport::Tcp, remote.ip(), None)? {
        Source::Known(source) => source,
        Source::Ask(port) => Arc::new(interface.source.with_port(port)),
    };
    let interface = Interface {
        transport: Transport::Tcp,
        source,
        flow: None,
    };
    Some((sip::Target::Address(Transport::Tcp, remote), interface))
}

/// What the choice among equal next hops follows from where the request is forwarded without
/// state: the same for its retransmissions, its CANCEL and the ACK to a failure, so that all go the
/// same way (RFC 3263 section 4.4).
pub(crate) fn choice(common: &CommonState, request: &Message) -> Option<u64> {
    (common.policy.mode(request) == Mode::Stateless)
        .then(|| common.hash(&(request.call_id(), request.cseq_number(), request.from_tag())))
}

/// Puts the addresses of a next hop before the other hops to a target.
pub(crate) fn add_next_hops(target: &mut Target, answer: Answer) {
    let Answer::NextHops(hops) = answer else {
        return;
    };
    for hop in hops.into_iter().take(MAXIMUM_NEXT_HOPS).rev() {
        let NextHop {
            transport,
            remote,
            local,
            peer,
        } = hop;
        target.hops.push_front(Hop::Address {
            transport,
            remote,
            local,
            peer,
        });
    }
}

fn send_to(
    transport: Transport,
    remote: SocketAddr,
    peer: Option<Arc<Peer>>,
    source: Arc<Origin>,
) -> Resolved {
    Resolved::Send {
        to: sip::Target::Address(transport, remote),
        peer,
        interface: Interface {
            transport,
            source,
            flow: None,
        },
    }
}
