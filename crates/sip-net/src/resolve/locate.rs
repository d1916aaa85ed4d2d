//! The procedure of RFC 3263 section 4: from a question to next hops.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha12Rng;
use sip::{Peer, Transport};

use super::records::{Found, Key, Kind, RecordSet, Records, Srv};
use super::{naptr, srv};

/// What a next hop is looked for by: the parts of the URI that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// TARGET: a domain name or an IP address; IPv6 without brackets.
    pub host: String,
    /// The port, where the URI names one.
    pub port: Option<u16>,
    /// The transport, where the URI names one.
    pub transport: Option<Transport>,
    /// Only a transport over TLS will do (a SIPS URI).
    pub is_secure: bool,
    /// The request is too large for UDP where there is a choice (RFC 3261 section 18.1.1).
    pub is_large: bool,
    /// What the choice among equals follows from; `None` draws it, and puts those that have failed
    /// behind the others.
    pub choice: Option<u64>,
    /// Further addresses of a host that is an address: they have its port, and over SCTP one association is opened with
    /// all of them. Of a name, and over other transports, they do not count.
    pub addresses: Vec<IpAddr>,
}

/// A next hop: one place where the request can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Over which transport.
    pub transport: Transport,
    /// Where to. Of a multi-homed SCTP server the first of its addresses.
    pub remote: SocketAddr,
    /// Who is expected there: the domain that was asked for (RFC 5922 section 7.3), and all addresses
    /// of an SCTP server. `None` of a host that is one address.
    pub peer: Option<Arc<Peer>>,
}

/// The transports and address families that messages can be sent by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach(Vec<(Transport, bool)>);

impl Reach {
    /// Adds a transport in the family of one of our addresses.
    pub fn add(&mut self, transport: Transport, local: SocketAddr) {
        let pair = (transport, local.is_ipv6());
        if !self.0.contains(&pair) {
            self.0.push(pair);
        }
    }

    fn has(&self, transport: Transport) -> bool {
        self.0.iter().any(|(other, _)| *other == transport)
    }

    fn has_family(&self, transport: Transport, is_ipv6: bool) -> bool {
        self.0.contains(&(transport, is_ipv6))
    }
}

/// How far the procedure has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Located {
    /// These records have to be looked up, then it begins anew.
    Needs(Vec<Key>),
    /// The next hops, the most preferred first. None where there are none.
    Hops(Vec<Hop>),
}

/// How many servers of a service are looked at: more are not tried for one request anyway.
const MAXIMUM_SERVERS: usize = 8;

/// How many addresses of a server.
const MAXIMUM_ADDRESSES: usize = 8;

/// How many next hops.
const MAXIMUM_HOPS: usize = 16;

/// Finds the next hops with the records that are known, or says which are needed. `seed` is what all
/// draws follow from: the same in every call for one question.
pub(super) fn locate(
    question: &Question,
    reach: &Reach,
    records: &impl Records,
    seed: u64,
) -> Located {
    let mut search = Search {
        question,
        reach,
        records,
        rng: ChaCha12Rng::seed_from_u64(question.choice.unwrap_or(seed)),
        needs: Vec::new(),
        is_given_up: false,
    };
    let mut hops = search.hops();
    if search.is_given_up {
        return Located::Hops(Vec::new());
    }
    if !search.needs.is_empty() {
        return Located::Needs(search.needs);
    }
    hops.truncate(MAXIMUM_HOPS);
    Located::Hops(hops)
}

struct Search<'a, R> {
    question: &'a Question,
    reach: &'a Reach,
    records: &'a R,
    rng: ChaCha12Rng,
    needs: Vec<Key>,
    /// What has to be known cannot be found out now.
    is_given_up: bool,
}

impl<R: Records> Search<'_, R> {
    fn hops(&mut self) -> Vec<Hop> {
        let Question {
            host,
            port,
            transport,
            ..
        } = self.question;
        if let Ok(address) = host.parse::<IpAddr>() {
            return self.numeric(address);
        }
        if let Some(port) = port {
            // Section 4.2: an explicit port leads to address records.
            let transport = transport.or_else(|| self.default_transport());
            return transport
                .map(|transport| self.addresses(host, transport, *port))
                .unwrap_or_default();
        }
        if let Some(transport) = *transport {
            return match self.servers(&Key::srv(transport, host)) {
                Some(Service::Servers(servers)) => self.server_hops(transport, &servers),
                Some(Service::Refused) => Vec::new(),
                Some(Service::Unknown) => self.give_up(),
                None => self.addresses(host, transport, transport.default_port()),
            };
        }
        self.by_services()
    }

    /// A host that is an address (section 4.2).
    fn numeric(&self, address: IpAddr) -> Vec<Hop> {
        let transport = self.question.transport.or_else(|| self.default_transport());
        let Some(transport) = transport else {
            return Vec::new();
        };
        let further = match is_multi_homed(transport) {
            true => self.question.addresses.as_slice(),
            false => &[],
        };
        let port = self.question.port.unwrap_or(transport.default_port());
        let addresses: Vec<SocketAddr> = std::iter::once(&address)
            .chain(further)
            .filter(|address| self.reach.has_family(transport, address.is_ipv6()))
            .map(|address| SocketAddr::new(*address, port))
            .collect();
        let Some(&remote) = addresses.first() else {
            return Vec::new();
        };
        let peer = (addresses.len() > 1).then(|| {
            Arc::new(Peer {
                name: None,
                addresses,
            })
        });
        vec![Hop {
            transport,
            remote,
            peer,
        }]
    }

    /// Neither port nor transport is named: the domain says what it prefers (section 4.1).
    fn by_services(&mut self) -> Vec<Hop> {
        let host = &self.question.host;
        let Some(services) = self.preferred_services() else {
            return Vec::new();
        };
        if services.is_empty() {
            return self.by_own_preference();
        }
        let mut hops = Vec::new();
        let mut none_found = None;
        for (transport, name) in services {
            match self.servers(&Key::new(Kind::Srv, &name)) {
                Some(Service::Servers(servers)) => {
                    hops.extend(self.server_hops(transport, &servers));
                }
                Some(Service::Refused) => {}
                // What the domain likes less, such as what has no TLS, is not for when this is not known.
                Some(Service::Unknown) if hops.is_empty() && !self.is_waiting() => {
                    return self.give_up();
                }
                Some(Service::Unknown) => break,
                None => none_found = none_found.or(Some(transport)),
            }
        }
        // The domain has named a transport, but no servers for it: then it is the domain itself.
        if let Some(transport) = none_found
            && hops.is_empty()
        {
            return self.addresses(host, transport, transport.default_port());
        }
        hops
    }

    /// The services of NAPTR records; empty where there are none that we can use, `None` where the
    /// records are not known.
    fn preferred_services(&mut self) -> Option<Vec<(Transport, Box<str>)>> {
        let Question {
            is_secure,
            is_large,
            ..
        } = *self.question;
        let reach = self.reach;
        let services = match self.find(Key::new(Kind::Naptr, &self.question.host))? {
            Found::Records(records) => match &*records {
                RecordSet::Naptr(records) => {
                    naptr::services(records, is_secure, is_large, |transport| {
                        reach.has(transport)
                    })
                }
                _ => Vec::new(),
            },
            Found::Nothing => Vec::new(),
            // Some networks let questions for such records vanish. Where they do, SRV records still say
            // what there is; but not where security was asked for.
            Found::Unreachable if !is_secure => Vec::new(),
            Found::Unreachable | Found::Unknown => {
                self.give_up();
                return None;
            }
        };
        Some(services)
    }

    /// Without NAPTR records: the first of our transports that the domain has SRV records for, else the
    /// domain itself over the default transport (section 4.1).
    fn by_own_preference(&mut self) -> Vec<Hop> {
        let host = &self.question.host;
        let transports: Vec<Transport> = self.own_preference().collect();
        let services: Vec<Option<Service>> = transports
            .iter()
            .map(|transport| self.servers(&Key::srv(*transport, host)))
            .collect();
        if self.is_waiting() {
            return Vec::new();
        }
        let (mut is_refused, mut is_unknown) = (false, false);
        for (transport, service) in transports.into_iter().zip(services) {
            match service {
                Some(Service::Servers(servers)) => return self.server_hops(transport, &servers),
                Some(Service::Refused) => is_refused = true,
                Some(Service::Unknown) => is_unknown = true,
                None => {}
            }
        }
        if is_unknown {
            return self.give_up();
        }
        match self.default_transport() {
            Some(transport) if !is_refused => {
                self.addresses(host, transport, transport.default_port())
            }
            _ => Vec::new(),
        }
    }

    /// Our transports in the order in which we prefer them, where nothing but the URI's scheme counts.
    fn own_preference(&self) -> impl Iterator<Item = Transport> + use<R> {
        const SECURE: &[Transport] = &[Transport::Tls, Transport::TlsSctp];
        const PLAIN: &[Transport] = &[Transport::Udp, Transport::Tcp, Transport::Sctp];
        const LARGE: &[Transport] = &[Transport::Tcp, Transport::Sctp, Transport::Udp];
        let transports = match (self.question.is_secure, self.question.is_large) {
            (true, _) => SECURE,
            (false, false) => PLAIN,
            (false, true) => LARGE,
        };
        let reach = self.reach.clone();
        transports
            .iter()
            .copied()
            .filter(move |transport| reach.has(*transport))
    }

    /// What is used where neither the URI nor the DNS says more: UDP for a SIP URI, TLS for a SIPS URI,
    /// and where we do not have that, another one that we have.
    fn default_transport(&self) -> Option<Transport> {
        self.own_preference().next()
    }

    /// The servers of a service in the order in which they are tried. `None` where there are no SRV
    /// records, or none are known yet.
    fn servers(&mut self, key: &Key) -> Option<Service> {
        let found = match self.find(key.clone())? {
            Found::Records(found) => found,
            Found::Nothing => return None,
            Found::Unknown | Found::Unreachable => return Some(Service::Unknown),
        };
        let RecordSet::Srv(records) = &*found else {
            return None;
        };
        Some(match srv::ordered(records, &mut self.rng) {
            Some(mut servers) => {
                servers.truncate(MAXIMUM_SERVERS);
                Service::Servers(servers)
            }
            None => Service::Refused,
        })
    }

    fn server_hops(&mut self, transport: Transport, servers: &[Srv]) -> Vec<Hop> {
        servers
            .iter()
            .flat_map(|server| self.addresses(&server.target, transport, server.port))
            .collect()
    }

    /// The addresses of a host in the families that we have (RFC 7984 section 3.1). IPv6 is preferred
    /// (RFC 6724); within a family nothing says that one is better, so they are shuffled.
    fn addresses(&mut self, host: &str, transport: Transport, port: u16) -> Vec<Hop> {
        if port == 0 {
            return Vec::new();
        }
        let mut addresses = Vec::new();
        for (kind, is_ipv6) in [(Kind::Aaaa, true), (Kind::A, false)] {
            if !self.reach.has_family(transport, is_ipv6) {
                continue;
            }
            // Of one address family nothing may be known while the other is.
            if let Some(Found::Records(found)) = self.find(Key::new(kind, host))
                && let RecordSet::Addresses(found) = &*found
            {
                let mut found = found.clone();
                found.sort();
                found.dedup();
                found.shuffle(&mut self.rng);
                addresses.extend(found);
            }
        }
        addresses.truncate(MAXIMUM_ADDRESSES);
        let addresses: Vec<SocketAddr> = addresses
            .into_iter()
            .map(|address| SocketAddr::new(address, port))
            .collect();
        self.hops_to(transport, addresses)
    }

    /// One hop for each address, or for all of them over SCTP, which brings them into one association.
    fn hops_to(&self, transport: Transport, addresses: Vec<SocketAddr>) -> Vec<Hop> {
        let name = Some(normal(&self.question.host));
        if is_multi_homed(transport) {
            let Some(&remote) = addresses.first() else {
                return Vec::new();
            };
            return vec![Hop {
                transport,
                remote,
                peer: Some(Arc::new(Peer { name, addresses })),
            }];
        }
        let peer = Arc::new(Peer {
            name,
            addresses: Vec::new(),
        });
        let hop = |remote| Hop {
            transport,
            remote,
            peer: Some(Arc::clone(&peer)),
        };
        addresses.into_iter().map(hop).collect()
    }

    /// What is known of the records of a key; `None` where nobody has been asked yet.
    fn find(&mut self, key: Key) -> Option<Found> {
        let found = self.records.find(&key);
        if found.is_none() && !self.needs.contains(&key) {
            self.needs.push(key);
        }
        found
    }

    /// What has to be known cannot be found out now: better no next hop than a wrong one.
    fn give_up(&mut self) -> Vec<Hop> {
        self.is_given_up = true;
        Vec::new()
    }

    fn is_waiting(&self) -> bool {
        !self.needs.is_empty()
    }
}

/// Whether one association or connection has all addresses of a host.
fn is_multi_homed(transport: Transport) -> bool {
    matches!(transport, Transport::Sctp | Transport::TlsSctp)
}

/// What SRV records say of a service.
enum Service {
    Servers(Vec<Srv>),
    /// It is decidedly not available (RFC 2782, "Target").
    Refused,
    /// Name servers do not say.
    Unknown,
}

/// A domain name as certificates show it.
fn normal(host: &str) -> Box<str> {
    let name = host.strip_suffix('.').unwrap_or(host);
    name.to_ascii_lowercase().into()
}
