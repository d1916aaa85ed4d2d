//! Targets: where a request can be sent, in which order, and by which ways (RFC 3261 section 16.5).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use sip::{ConnectionId, Flow, Host, Peer, SipUri, Transport, Uri};

use super::binding::{AddressOfRecord, Binding};
use super::routing::{MemberName, NextHopUri};
use super::uri;
use crate::HostPort;

/// One target of a request, with the ways to reach it that have not been tried.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    /// The Request-URI for this target.
    pub(crate) uri: Box<str>,
    pub(crate) ways: VecDeque<Way>,
    /// The member of a group that the way tried last leads to.
    pub(crate) member: Option<MemberName>,
}

/// A way to a target: one of the tuples of RFC 3261 section 16.6 step 7, or what leads to them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Way {
    /// Along a flow; where that is gone, over a new connection to the address.
    Flow {
        flow: Flow,
        address: Option<SocketAddr>,
        /// Whether requests in the dialog can reach the far end only along this flow.
        is_needed: bool,
    },
    /// To the bindings of a user of ours, whom a 3xx response has named.
    User(AddressOfRecord),
    /// To where the first Route or the Request-URI leads.
    NextHop,
    /// To where settings lead, whatever the URI of the request.
    Toward(NextHopUri),
    /// Over UDP, a request that is too large for it, where TCP was refused: to somebody who knows no
    /// TCP (RFC 3261 section 18.1.1).
    Datagram {
        remote: SocketAddr,
        /// Our own address as it is seen there.
        source: HostPort,
        peer: Option<Arc<Peer>>,
    },
    /// To an address, which sees us at this local one.
    Address {
        transport: Transport,
        remote: SocketAddr,
        local: SocketAddr,
        /// Who is expected there.
        peer: Option<Arc<Peer>>,
    },
}

impl Target {
    /// The target that a request names itself.
    pub(crate) fn as_requested(uri: &str, along: Option<Flow>) -> Target {
        let way = along.map_or(Way::NextHop, |flow| Way::Flow {
            flow,
            address: None,
            is_needed: true,
        });
        Target {
            uri: uri.into(),
            ways: VecDeque::from([way]),
            member: None,
        }
    }

    /// The target that a request names itself, by the next hops of a static route.
    pub(crate) fn by_route(uri: &str, next_hops: Vec<NextHopUri>) -> Target {
        Target {
            uri: uri.into(),
            ways: next_hops.into_iter().map(Way::Toward).collect(),
            member: None,
        }
    }

    /// Leaves out the way by UDP to a hop that does know TCP.
    pub(crate) fn leave_out_datagram(&mut self) {
        if let Some(Way::Datagram { .. }) = self.ways.front() {
            self.ways.pop_front();
        }
    }

    /// The next way that has not been tried.
    pub(crate) fn next_way(&mut self) -> Option<Way> {
        let way = self.ways.pop_front()?;
        match &way {
            Way::Toward(hop) => self.member = hop.member.clone(),
            // One of the addresses of what was tried before.
            Way::Address { .. } | Way::Datagram { .. } => {}
            Way::Flow { .. } | Way::NextHop | Way::User(_) => self.member = None,
        }
        Some(way)
    }
}

/// The targets of an address of record, those with the same preference together, the most preferred
/// first.
///
/// A binding is reached along the flow that its REGISTER came over. Datagrams always go that way.
/// When a connection is closed, the binding stays until it expires, but then it can be used only if
/// a new connection to its Contact can be expected to arrive: if the Contact has a host name, or the
/// very address that the REGISTER came from. A Contact with another address is behind a NAT, and is
/// left out. `has_route`: the request goes where its Route says, not along a flow.
///
/// `is_secure`: the Request-URI is a SIPS URI, which only Contacts that are one may replace, and which
/// goes over TLS all the way. A SIP URI is not replaced by a SIPS one either (RFC 5630 section 5.3).
pub(crate) fn targets(
    bindings: &[Binding],
    now: Instant,
    is_secure: bool,
    has_route: bool,
    is_open: impl Fn(ConnectionId) -> bool,
) -> VecDeque<Vec<Target>> {
    let mut usable: Vec<(u16, Target)> = bindings
        .iter()
        .filter(|binding| binding.expires() > now && is_sips(binding.contact()) == is_secure)
        .filter_map(|binding| Some((binding.q(), target(binding, has_route, &is_open)?)))
        .collect();
    // A stable sort: equal ones stay in the order of their registration.
    usable.sort_by_key(|(q, _)| std::cmp::Reverse(*q));
    let mut groups: VecDeque<Vec<Target>> = VecDeque::new();
    let mut last_q = None;
    for (q, target) in usable {
        match groups.back_mut() {
            Some(group) if last_q == Some(q) => group.push(target),
            _ => groups.push_back(vec![target]),
        }
        last_q = Some(q);
    }
    groups
}

/// Whether a text is a SIPS URI.
pub(crate) fn is_sips(uri: &str) -> bool {
    matches!(Uri::parse(uri), Ok(Uri::Sip(uri)) if uri.is_secure())
}

/// Whether a request to this Contact arrives at the far end of the flow without the flow. Over SCTP
/// that cannot be told: on one host several stacks can have the same SCTP port, each over a UDP port of
/// its own that no URI names (RFC 6951), and a user can have a stream of its own.
pub(crate) fn is_at_contact(flow: &Flow, contact: &SipUri<'_>) -> bool {
    !matches!(flow.transport, Transport::Sctp | Transport::TlsSctp)
        && contact_address(contact, flow.transport) == Some(flow.remote)
}

fn target(
    binding: &Binding,
    has_route: bool,
    is_open: &impl Fn(ConnectionId) -> bool,
) -> Option<Target> {
    let Ok(Uri::Sip(contact)) = Uri::parse(binding.contact()) else {
        return None;
    };
    let request_uri = uri::request_uri(binding.contact()).into();
    let mut ways = VecDeque::new();
    match binding.flow() {
        Some(flow) if !has_route => {
            let is_direct = match contact.host() {
                Host::Name(_) => true,
                Host::Address(address) => address == flow.remote.ip(),
            };
            let is_reliable = flow.transport.is_reliable();
            let address = contact_address(&contact, flow.transport).filter(|_| is_direct);
            let has_flow = (!is_reliable || is_open(flow.connection))
                && (flow.transport.is_secure() || !contact.is_secure());
            if has_flow {
                ways.push_back(Way::Flow {
                    flow,
                    address,
                    is_needed: !is_at_contact(&flow, &contact),
                });
            }
            // What leads to the same place is not tried twice.
            let is_covered =
                has_flow && address.is_some() && (is_reliable || address == Some(flow.remote));
            if is_direct && !is_covered {
                ways.push_back(Way::NextHop);
            }
        }
        _ => ways.push_back(Way::NextHop),
    }
    (!ways.is_empty()).then_some(Target {
        uri: request_uri,
        ways,
        member: None,
    })
}

/// The address that a Contact gives for a transport, where it is an address.
fn contact_address(contact: &SipUri<'_>, transport: Transport) -> Option<SocketAddr> {
    if uri::transport(contact, false) != Some(transport) {
        return None;
    }
    match contact.host() {
        Host::Address(address) => Some(SocketAddr::new(
            address,
            contact.port().unwrap_or(transport.default_port()),
        )),
        Host::Name(_) => None,
    }
}
