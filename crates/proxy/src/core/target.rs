//! Targets: where a request can be sent, in which order, and by which next hops (RFC 3261 section 16.5).

use std::collections::VecDeque;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use sip::{ConnectionId, Flow, Host, Message, Peer, Transport, Uri};

use super::binding::{AddressOfRecord, Binding, is_same_instance};
use super::identity::Origin;
use super::read_uri::ReadUri;
use super::routing::{MemberName, NextHopUri};
use super::uri;

/// One target of a request, with the hops to reach it that have not been tried.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    /// The Request-URI for this target.
    pub(crate) uri: Box<str>,
    pub(crate) hops: VecDeque<Hop>,
    /// The member of a group that the hop tried last is.
    pub(crate) member: Option<MemberName>,
    /// Route values that are put before those of the request (RFC 3327 section 5.4); empty where there
    /// are none.
    pub(crate) path: Box<str>,
    /// The URN of the user agent instance, where it has told one (RFC 5626 section 4.1).
    pub(crate) instance: Option<Box<str>>,
    /// Other flows of the same instance, to be tried when this one has failed (RFC 5626 section 7).
    pub(crate) alternates: VecDeque<Target>,
    /// The flow of the same instance that was tried before, and has failed.
    pub(crate) former: Option<Box<Target>>,
    /// Whether it is a flow that we have promised another proxy to keep (RFC 5626 section 5.3.1).
    pub(crate) is_edge: bool,
    /// The preference in thousandths; that of what is no binding of a user of ours is the greatest.
    pub(crate) q: u16,
}

/// A next hop of a target: one of the tuples of RFC 3261 section 16.6 step 7, or what leads to them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Hop {
    /// Along a flow; where that is gone, over a new connection to the address.
    Flow {
        flow: Flow,
        address: Option<SocketAddr>,
        /// All addresses of the far end, where the new connection is to have several.
        peer: Option<Arc<Peer>>,
        /// Whether requests in the dialog can reach the far end only along this flow.
        is_needed: bool,
    },
    /// To the bindings of a user of ours, whom a 3xx response has named.
    User(AddressOfRecord),
    /// To where the first Route or the Request-URI leads.
    Requested {
        /// Where the Request-URI does, where it has been seen that its host is an address.
        address: Option<(Transport, SocketAddr)>,
    },
    /// To a host of several addresses, which are all known, in one association.
    Host {
        transport: Transport,
        peer: Arc<Peer>,
    },
    /// To where settings lead, whatever the URI of the request.
    Uri(NextHopUri),
    /// Over UDP, a request that is too large for it, where TCP was refused: to somebody who knows no
    /// TCP (RFC 3261 section 18.1.1).
    Datagram {
        remote: SocketAddr,
        /// Our own address as it is seen there.
        source: Arc<Origin>,
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
    fn new(uri: Box<str>, hops: VecDeque<Hop>) -> Target {
        Target {
            uri,
            hops,
            member: None,
            path: "".into(),
            instance: None,
            alternates: VecDeque::new(),
            former: None,
            is_edge: false,
            q: 1000,
        }
    }

    /// The target that a request names itself.
    pub(crate) fn as_requested(uri: &str, along: Option<Flow>) -> Target {
        let next_hop = Hop::Requested { address: None };
        let hop = along.map_or(next_hop, |flow| Hop::Flow {
            flow,
            address: None,
            peer: None,
            is_needed: true,
        });
        Target::new(uri.into(), VecDeque::from([hop]))
    }

    /// The target that a request names itself by a URI that has been read.
    pub(crate) fn at(uri: &ReadUri<'_>) -> Target {
        let hop = Hop::Requested {
            address: uri::address(uri, false),
        };
        Target::new(uri.as_str().into(), VecDeque::from([hop]))
    }

    /// The target that a request names itself, by the next hops of a static route.
    pub(crate) fn by_route(uri: &str, next_hops: Vec<NextHopUri>) -> Target {
        let hops = next_hops.into_iter().map(Hop::Uri).collect();
        Target::new(uri.into(), hops)
    }

    /// Leaves out the way by UDP to a hop that does know TCP.
    pub(crate) fn leave_out_datagram(&mut self) {
        if let Some(Hop::Datagram { .. }) = self.hops.front() {
            self.hops.pop_front();
        }
    }

    /// Whether there is anything left to be tried: another hop, or another flow of the same instance.
    pub(crate) fn has_rest(&self) -> bool {
        !(self.hops.is_empty() && self.alternates.is_empty())
    }

    /// The hops that have not been tried, else the other flows of the same instance, as a target of their own; `None`
    /// where there are neither.
    pub(crate) fn take_rest(&mut self) -> Option<Target> {
        let mut alternates = mem::take(&mut self.alternates);
        if self.hops.is_empty() {
            let next = alternates.pop_front()?;
            return Some(Target { alternates, ..next });
        }
        let hops = mem::take(&mut self.hops);
        Some(Target {
            hops,
            alternates,
            former: None,
            ..self.clone()
        })
    }

    /// Goes over to another flow of the same instance. Returns whether there was one.
    pub(crate) fn fall_back(&mut self) -> bool {
        let Some(mut next) = self.alternates.pop_front() else {
            return false;
        };
        next.alternates = mem::take(&mut self.alternates);
        let failed = mem::replace(self, next);
        self.former = Some(Box::new(failed));
        true
    }

    /// The target, the flows that were tried before it, and those that are to be tried after it: all of one instance.
    pub(crate) fn flows(&self) -> impl Iterator<Item = &Target> {
        std::iter::successors(Some(self), |target| target.former.as_deref()).chain(&self.alternates)
    }

    /// Whether it is of the same instance as another (RFC 5626 section 4.1).
    pub(crate) fn has_instance_of(&self, other: &Target) -> bool {
        let instances = self.instance.as_deref().zip(other.instance.as_deref());
        instances.is_some_and(|(one, other)| is_same_instance(one, other))
    }

    /// Puts another flow of the same instance, and those behind it, before those that are still to be tried.
    pub(crate) fn prepend(&mut self, mut flow: Target) {
        let others = mem::take(&mut flow.alternates);
        for next in others.into_iter().rev().chain([flow]) {
            self.alternates.push_front(next);
        }
    }

    /// The next hop that has not been tried.
    pub(crate) fn next_hop(&mut self) -> Option<Hop> {
        let hop = self.hops.pop_front()?;
        if self.hops.is_empty() {
            // A call may ring for minutes.
            self.hops = VecDeque::new();
        }
        match &hop {
            Hop::Uri(hop) => self.member = hop.member.clone(),
            // One of the addresses of what was tried before.
            Hop::Address { .. } | Hop::Datagram { .. } => {}
            Hop::Flow { .. } | Hop::Requested { .. } | Hop::Host { .. } | Hop::User(_) => {
                self.member = None;
            }
        }
        Some(hop)
    }
}

/// The targets of an address of record.
#[derive(Debug, PartialEq)]
pub(crate) enum Targets {
    /// Most users have one.
    One(Target),
    /// Those with the same preference together, the most preferred first.
    Groups(VecDeque<Vec<Target>>),
}

impl Targets {
    /// Those with the same preference together, the most preferred first.
    pub(crate) fn into_groups(self) -> VecDeque<Vec<Target>> {
        match self {
            Targets::One(target) => VecDeque::from([vec![target]]),
            Targets::Groups(groups) => groups,
        }
    }

    /// The most preferred; of equal ones that which was registered first.
    pub(crate) fn into_first(self) -> Option<Target> {
        match self {
            Targets::One(target) => Some(target),
            Targets::Groups(groups) => groups.into_iter().flatten().next(),
        }
    }
}

/// What a request says about the way to its targets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetConstraints {
    /// The Request-URI is a SIPS URI, which only Contacts that are one may replace, and which goes over
    /// TLS all the way. A SIP URI is not replaced by a SIPS one either (RFC 5630 section 5.3).
    pub(crate) is_secure: bool,
    /// The request goes where its Route says, not along a flow.
    pub(crate) has_route: bool,
    /// It is for one instance alone, so that its Route has led past the proxies of the Path already (RFC
    /// 5627 section 6.1).
    pub(crate) is_for_instance: bool,
}

/// The targets of an address of record.
///
/// A binding is reached along the flow that its REGISTER came over. Datagrams always go that way.
/// When a connection is closed, the binding stays until it expires, but then it can be used only if
/// a new connection to its Contact can be expected to arrive: if the Contact has a host name, or the
/// very address that the REGISTER came from. A Contact with another address is behind a NAT, and is
/// left out; over SCTP it may be another address of the same host, and then the new connection is one to both. The flow of an instance that has
/// others besides is never replaced by a new connection (RFC 5626 section 7), and a WebSocket cannot be:
/// whoever has opened it takes none, and its Contact has a name that leads nowhere (RFC 7118 section 5).
///
/// Of the bindings of one instance that which was refreshed last stands for all; the others are tried
/// when its flow has failed.
pub(crate) fn targets(
    bindings: &[Binding],
    now: Instant,
    constraints: TargetConstraints,
    is_open: impl Fn(ConnectionId) -> bool,
) -> Targets {
    let mut usable = bindings
        .iter()
        .filter(|binding| {
            binding.expires() > now && is_sips(binding.contact()) == constraints.is_secure
        })
        .filter_map(|binding| Some((binding, target(binding, constraints, &is_open)?)));
    let Some(first) = usable.next() else {
        return Targets::Groups(VecDeque::new());
    };
    let Some(second) = usable.next() else {
        return Targets::One(first.1);
    };
    let usable = [first, second].into_iter().chain(usable);
    let mut chosen: Vec<Target> = by_instance(usable)
        .into_iter()
        .filter_map(|bindings| {
            let mut bindings = bindings.into_iter();
            let (_, mut target) = bindings.next()?;
            target.alternates = bindings.map(|(_, target)| target).collect();
            Some(target)
        })
        .collect();
    // A stable sort: equal ones stay in the order of their registration.
    chosen.sort_by_key(|target| std::cmp::Reverse(target.q));
    let mut groups: VecDeque<Vec<Target>> = VecDeque::new();
    for target in chosen {
        match groups.back_mut() {
            Some(group) if group.first().is_some_and(|first| first.q == target.q) => {
                group.push(target);
            }
            _ => groups.push_back(vec![target]),
        }
    }
    Targets::Groups(groups)
}

/// Puts the bindings of one instance together, the one that was refreshed last first.
fn by_instance<'a>(
    bindings: impl Iterator<Item = (&'a Binding, Target)>,
) -> Vec<Vec<(&'a Binding, Target)>> {
    let mut instances: Vec<Vec<(&Binding, Target)>> = Vec::new();
    for (binding, target) in bindings {
        let others = binding.instance().and_then(|instance| {
            instances.iter_mut().find(|others| {
                others
                    .first()
                    .is_some_and(|(other, _)| other.is_of(instance))
            })
        });
        match others {
            Some(others) => {
                let place =
                    others.partition_point(|(other, _)| other.refreshed() >= binding.refreshed());
                others.insert(place, (binding, target));
            }
            None => instances.push(vec![(binding, target)]),
        }
    }
    instances
}

/// Whether a text is a SIPS URI.
pub(crate) fn is_sips(uri: &str) -> bool {
    begins_as_sips(uri.as_bytes()) && Uri::parse(uri).is_ok()
}

/// Whether a Request-URI is a SIPS URI.
pub(crate) fn is_for_sips(request: &Message) -> bool {
    request.request_uri_bytes().is_some_and(begins_as_sips)
        && request.request_uri().is_some_and(is_sips)
}

/// Most URIs have another scheme, which is seen without reading the rest.
fn begins_as_sips(uri: &[u8]) -> bool {
    uri.get(.."sips:".len())
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"sips:"))
}

/// Whether a request to this Contact arrives at the far end of the flow without the flow. Over SCTP
/// that cannot be told: on one host several stacks can have the same SCTP port, each over a UDP port of
/// its own that no URI names (RFC 6951), and a user can have a stream of its own. Over WebSocket nothing
/// does. Over TLS a connection that the far end has opened is not taken for one to its address, which nobody
/// has verified (RFC 5923 section 9.2).
pub(crate) fn is_at_contact(flow: &Flow, contact: &ReadUri<'_>) -> bool {
    shows_address(flow.transport) && contact_address(contact, flow.transport) == Some(flow.remote)
}

/// Whether a flow of this transport tells that its far end is where a Contact says.
fn shows_address(transport: Transport) -> bool {
    transport != Transport::Sctp && !transport.is_secure() && !is_websocket(transport)
}

/// Whether only its client can open a connection of this transport.
fn is_websocket(transport: Transport) -> bool {
    matches!(transport, Transport::Ws | Transport::Wss)
}

fn target(
    binding: &Binding,
    constraints: TargetConstraints,
    is_open: &impl Fn(ConnectionId) -> bool,
) -> Option<Target> {
    let Ok(Uri::Sip(contact)) = Uri::parse(binding.contact()) else {
        return None;
    };
    let contact = ReadUri::from(contact);
    let request_uri = uri::in_request_line(&contact).into();
    let is_passed = constraints.has_route && constraints.is_for_instance;
    let has_path = !binding.path().is_empty() && !is_passed;
    // There is seldom more than one.
    let mut hops = VecDeque::with_capacity(1);
    match binding.flow() {
        Some(flow) if !constraints.has_route && !has_path => {
            let is_sctp = is_multi_homed(flow.transport);
            let is_outbound = binding.reg_id().is_some();
            let is_direct = !is_outbound
                && !is_websocket(flow.transport)
                && match contact.host() {
                    Host::Name(_) => true,
                    Host::Address(address) => address == flow.remote.ip() || is_sctp,
                };
            let is_reliable = flow.transport.is_reliable();
            let told = contact_address(&contact, flow.transport);
            let is_there = shows_address(flow.transport) && told == Some(flow.remote);
            let told = told.filter(|_| is_direct);
            let both = told.and_then(|contact| addresses_of_one_host(&flow, contact));
            let first = both.as_deref().and_then(|both| both.addresses.first());
            let address = first.copied().or(told);
            let has_flow = (!is_reliable || is_open(flow.connection))
                && (flow.transport.is_secure() || !contact.is_secure());
            if has_flow {
                hops.push_back(Hop::Flow {
                    flow,
                    address,
                    peer: both.clone(),
                    is_needed: is_outbound || !is_there,
                });
            }
            // What leads to the same place is not tried twice.
            let is_covered =
                has_flow && address.is_some() && (is_reliable || address == Some(flow.remote));
            if is_direct && !is_covered {
                hops.push_back(match both {
                    Some(peer) => Hop::Host {
                        transport: flow.transport,
                        peer,
                    },
                    None => Hop::Requested { address: None },
                });
            }
        }
        // A flow that is gone with the process that knew it.
        None if binding.reg_id().is_some() && !constraints.has_route && !has_path => {}
        _ => hops.push_back(Hop::Requested { address: None }),
    }
    let mut target = Target::new(request_uri, hops);
    target.instance = binding.instance().map(Into::into);
    target.q = binding.q();
    if has_path {
        target.path = binding.path().into();
    }
    (!target.hops.is_empty()).then_some(target)
}

/// The two addresses of a user on SCTP whose Contact is another address than that which its REGISTER came from. They are
/// those of one association (RFC 9260 section 6.4), which has one port. Where the Contact is an address within a site and
/// the REGISTER came from outside, there is a NAT between: others behind it can have the same port, and an association
/// with its address may be theirs.
fn addresses_of_one_host(flow: &Flow, contact: SocketAddr) -> Option<Arc<Peer>> {
    let seen = flow.remote;
    let is_translated = is_within_site(contact.ip()) && !is_within_site(seen.ip());
    if !is_multi_homed(flow.transport)
        || contact.port() != seen.port()
        || contact.ip() == seen.ip()
        || is_translated
    {
        return None;
    }
    // Messages to the first address use the association from then on. Anybody can name any Contact, so it is the one that
    // was seen; with TLS the certificate proves it, which is expected to be for the Contact.
    let addresses = match flow.transport.is_secure() {
        true => vec![contact, seen],
        false => vec![seen, contact],
    };
    Some(Arc::new(Peer {
        name: None,
        addresses,
    }))
}

/// Whether an address can be reached only from within a site, a link or a host (RFC 1918, RFC 3927, RFC 4193, RFC 4291,
/// RFC 6598).
fn is_within_site(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(ip) => {
            let is_shared = matches!(ip.octets(), [100, 64..128, ..]);
            ip.is_private() || ip.is_loopback() || ip.is_link_local() || is_shared
        }
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_loopback() || ip.is_unicast_link_local(),
    }
}

/// Whether one association has all addresses of a host.
fn is_multi_homed(transport: Transport) -> bool {
    matches!(transport, Transport::Sctp | Transport::TlsSctp)
}

/// The address that a Contact gives for a transport, where it is an address.
fn contact_address(contact: &ReadUri<'_>, transport: Transport) -> Option<SocketAddr> {
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
