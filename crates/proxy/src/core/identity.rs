//! Who this element is: the addresses that it listens on and is known by, and the domains that it is
//! responsible for.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use sip::{Host, SipUri, Transport, Uri};

use super::binding::AddressOfRecord;
use super::read_uri::ReadUri;
use super::uri;
use crate::HostPort;

/// An address that the driver listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The transport protocol.
    pub transport: Transport,
    /// The address and port; an unspecified address is a wildcard.
    pub address: SocketAddr,
}

/// A domain under each of its names: addresses of record in all of them are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The name that addresses of record are filed under.
    pub name: HostPort,
    /// Other names of the same domain.
    pub aliases: Vec<HostPort>,
}

/// What an outgoing message says of where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// This belongs into Via and Record-Route.
    Known(Arc<Origin>),
    /// The listener is a wildcard: the route to the peer tells the address, the port is this.
    Ask(u16),
}

/// An address of ours as our messages give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    name: HostPort,
    /// The same as it is written, since nearly every message has it.
    text: Box<str>,
}

/// Who this element is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    listeners: Vec<Listener>,
    /// What messages from the listeners give as their origin: their addresses, or what is advertised
    /// in their place.
    sources: Vec<Arc<Origin>>,
    advertise: Option<HostPort>,
    local_addresses: Vec<IpAddr>,
    /// All names of all domains, and the name that each stands for.
    domains: Vec<(KnownHost, HostPort)>,
    offers_aliases: bool,
}

/// A host that hosts of messages are compared with.
#[derive(Clone, Debug)]
struct KnownHost {
    name: HostPort,
    /// The address that the name is, if it is one.
    address: Option<IpAddr>,
}

impl Identity {
    pub(crate) fn new(
        listeners: Vec<Listener>,
        advertise: Option<HostPort>,
        local_addresses: Vec<IpAddr>,
        domains: Vec<Domain>,
    ) -> Identity {
        let known = |domain: Domain| {
            let names = std::iter::once(domain.name.clone()).chain(domain.aliases);
            let known = |name: HostPort| KnownHost {
                address: name.address(),
                name,
            };
            names
                .map(move |name| (known(name), domain.name.clone()))
                .collect::<Vec<_>>()
        };
        let source = |listener: &Listener| {
            let address = HostPort::from(listener.address);
            Arc::new(Origin::from(match &advertise {
                Some(advertise) => HostPort {
                    host: advertise.host.clone(),
                    port: advertise.port.or(address.port),
                },
                None => address,
            }))
        };
        let sources = listeners.iter().map(source);
        Identity {
            sources: sources.collect(),
            listeners,
            advertise,
            local_addresses,
            domains: domains.into_iter().flat_map(known).collect(),
            offers_aliases: false,
        }
    }

    /// One who lets others send requests by the TLS connections that it opens, or does not (RFC 5923).
    pub(crate) fn offering_aliases(self, offers_aliases: bool) -> Identity {
        Identity {
            offers_aliases,
            ..self
        }
    }

    /// Whether our Via says so, over this transport.
    pub(crate) fn offers_alias(&self, transport: Transport) -> bool {
        self.offers_aliases && transport == Transport::Tls
    }

    /// What a message over a transport to an address gives as its origin: the advertised address,
    /// or that of the listener which takes requests on this transport and address family. `local` is
    /// our end of the flow, where the message goes along one. `None` where we do not listen there,
    /// so that nobody could answer.
    pub(crate) fn source(
        &self,
        transport: Transport,
        remote: IpAddr,
        local: Option<SocketAddr>,
    ) -> Option<Source> {
        let at = self.listener(transport, remote, local)?;
        let listener = self.listeners.get(at)?;
        let port = listener.address.port();
        if self.advertise.is_some() || !listener.address.ip().is_unspecified() {
            return self.sources.get(at).cloned().map(Source::Known);
        }
        Some(match local {
            Some(local) => {
                let source = Origin::from(SocketAddr::new(local.ip(), port));
                Source::Known(Arc::new(source))
            }
            None => Source::Ask(port),
        })
    }

    /// Whether a sent-by is one that we put into requests (RFC 3261 section 18.1.2).
    pub(crate) fn is_own_sent_by(&self, host: Host<'_>, port: Option<u16>) -> bool {
        if let Some(advertise) = &self.advertise {
            return is_host(host, &advertise.host)
                && (advertise.port.is_none() || port == advertise.port);
        }
        let Host::Address(address) = host else {
            return false;
        };
        self.listeners.iter().any(|listener| {
            port == Some(listener.address.port()) && covers(listener.address.ip(), address)
        })
    }

    /// Whether a URI leads to this element: to an address that it listens on or advertises, or to a
    /// domain that it is responsible for. `arrival` is our address that the message came to.
    pub(crate) fn is_own(&self, uri: &ReadUri<'_>, arrival: SocketAddr) -> bool {
        self.domain(uri, arrival).is_some() || self.is_own_address(uri, arrival)
    }

    /// Whether a URI leads to an address that this element listens on or advertises.
    pub(crate) fn is_own_address(&self, uri: &ReadUri<'_>, arrival: SocketAddr) -> bool {
        let default = if uri.is_secure() {
            Transport::Tls
        } else {
            Transport::Udp
        };
        let port = uri.port().unwrap_or(default.default_port());
        if let Some(advertise) = &self.advertise
            && is_host(uri.host(), &advertise.host)
        {
            return self.is_own_port(uri, port, arrival);
        }
        let Host::Address(address) = uri.host() else {
            return false;
        };
        let mut meant = Meant::new(uri, port, arrival);
        self.listeners.iter().any(|listener| {
            let local = listener.address.ip();
            // A wildcard listener may have got the address after it was opened.
            let is_here = local == address
                || covers(local, address)
                    && (address == arrival.ip() || self.local_addresses.contains(&address));
            is_here && meant.is(listener)
        })
    }

    /// The name of the domain that a URI's host and port belong to, if this element is responsible
    /// for it. A domain without a port is meant by a URI without one, and by one with a port of ours.
    pub(crate) fn domain(&self, uri: &ReadUri<'_>, arrival: SocketAddr) -> Option<&HostPort> {
        let is_named = |known: &KnownHost| {
            known.is(uri.host())
                && (uri.port() == known.name.port
                    || known.name.port.is_none()
                        && uri
                            .port()
                            .is_some_and(|port| self.is_own_port(uri, port, arrival)))
        };
        self.domains
            .iter()
            .find(|(known, _)| is_named(known))
            .map(|(_, domain)| domain)
    }

    /// The user of ours whom a URI names that says who somebody is: in a domain of ours, whatever the port, or at an
    /// address of this host. Whoever is shown such a name takes it for that user, though no request to it would
    /// come to us. A URI of another scheme, such as `im:`, names the user whom the SIP URI with the same rest names.
    pub(crate) fn claimed_user(&self, uri: &Uri<'_>) -> Option<AddressOfRecord> {
        match uri {
            Uri::Sip(uri) => self.claimed_sip_user(uri),
            Uri::Tel(_) => None,
            Uri::Other(text) => {
                let (_, rest) = text.split_once(':')?;
                let text = format!("sip:{rest}");
                let uri = Uri::parse(&text).ok()?;
                self.claimed_sip_user(uri.as_sip()?)
            }
        }
    }

    fn claimed_sip_user(&self, uri: &SipUri<'_>) -> Option<AddressOfRecord> {
        let named = |is_port: fn(Option<u16>, Option<u16>) -> bool| {
            self.domains
                .iter()
                .find(|(known, _)| known.is(uri.host()) && is_port(known.name.port, uri.port()))
                .map(|(_, domain)| domain)
        };
        let domain = named(|known, port| known == port)
            .or_else(|| named(|known, _| known.is_none()))
            .or_else(|| named(|_, _| true))
            .or_else(|| match self.is_own_host(uri.host()) {
                true => self.first_domain(),
                false => None,
            });
        AddressOfRecord::new(uri, domain?)
    }

    /// Whether a host is this one, whatever the port: an address that we listen on or advertise, or the name that every
    /// host has for itself (RFC 6761 section 6.3).
    fn is_own_host(&self, host: Host<'_>) -> bool {
        let is_here = |address: IpAddr| {
            self.listeners.iter().any(|listener| {
                let local = listener.address.ip();
                let is_of_host = address.is_loopback() || self.local_addresses.contains(&address);
                local == address || covers(local, address) && is_of_host
            })
        };
        let is_advertised = |advertise: &HostPort| is_host(host, &advertise.host);
        self.advertise.as_ref().is_some_and(is_advertised)
            || match host {
                Host::Address(address) => is_here(address.to_canonical()),
                Host::Name(_) => is_host(host, "localhost") && LOOPBACK.into_iter().any(is_here),
            }
    }

    /// Whether a URI names an address of this host, and a port that we listen on or advertise, whatever the transport.
    pub(crate) fn has_listener_at(&self, uri: &SipUri<'_>) -> bool {
        let default = match uri.is_secure() {
            true => Transport::Tls,
            false => Transport::Udp,
        };
        let port = uri.port().unwrap_or(default.default_port());
        let listeners = self.listeners.iter();
        let mut ports = listeners.map(|listener| listener.address.port());
        let advertised = self.advertise.as_ref().and_then(|name| name.port);
        self.is_own_host(uri.host()) && (ports.any(|own| own == port) || advertised == Some(port))
    }

    /// The domain that is named first.
    pub(crate) fn first_domain(&self) -> Option<&HostPort> {
        self.domain_names().next()
    }

    /// The canonical names of the domains.
    pub(crate) fn domain_names(&self) -> impl Iterator<Item = &HostPort> {
        let domains = self.domains.iter();
        let canonical = domains.filter(|(known, domain)| known.name == *domain);
        canonical.map(|(_, domain)| domain)
    }

    /// The place of the listener whose address a message over this transport gives as its own.
    fn listener(
        &self,
        transport: Transport,
        remote: IpAddr,
        local: Option<SocketAddr>,
    ) -> Option<usize> {
        // The more that agrees the better. A connection that we opened has a port of its own, so the
        // port alone does not decide; and a loopback listener is of no use to a peer elsewhere.
        let fitness = |listener: &Listener| {
            let ip = listener.address.ip();
            match local {
                Some(local) => (
                    covers(ip, local.ip()),
                    listener.address.port() == local.port(),
                    !ip.is_unspecified(),
                ),
                None => (
                    ip.is_unspecified() || ip.is_loopback() == remote.is_loopback(),
                    !ip.is_unspecified(),
                    false,
                ),
            }
        };
        let mut best: Option<(usize, &Listener)> = None;
        for (at, listener) in self.listeners.iter().enumerate() {
            if listener.transport == transport
                && listener.address.is_ipv4() == remote.is_ipv4()
                && best.is_none_or(|(_, best)| fitness(listener) > fitness(best))
            {
                best = Some((at, listener));
            }
        }
        best.map(|(at, _)| at)
    }

    fn is_own_port(&self, uri: &ReadUri<'_>, port: u16, arrival: SocketAddr) -> bool {
        let mut meant = Meant::new(uri, port, arrival);
        self.listeners.iter().any(|listener| meant.is(listener))
            || self
                .advertise
                .as_ref()
                .is_some_and(|advertise| advertise.port == Some(port))
    }
}

impl Origin {
    /// As it is written.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The same host with another port.
    pub(crate) fn with_port(&self, port: u16) -> Origin {
        Origin::from(HostPort {
            host: self.name.host.clone(),
            port: Some(port),
        })
    }
}

impl From<HostPort> for Origin {
    fn from(name: HostPort) -> Origin {
        Origin {
            text: name.to_string().into(),
            name,
        }
    }
}

impl From<SocketAddr> for Origin {
    fn from(address: SocketAddr) -> Origin {
        HostPort::from(address).into()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl KnownHost {
    /// Whether a host in a message is this one.
    fn is(&self, host: Host<'_>) -> bool {
        match host {
            Host::Name(_) => is_host(host, &self.name.host),
            Host::Address(address) => self.address == Some(address),
        }
    }
}

/// Which listeners a URI with this port leads to. The port of another transport is another port: a
/// user agent may have it. Those who call us over another transport than UDP often leave it unnamed.
struct Meant<'a> {
    uri: &'a ReadUri<'a>,
    port: u16,
    arrival: SocketAddr,
    /// The transport that it leads to, and whether any other one will do; once somebody has asked.
    transport: Option<(Option<Transport>, bool)>,
}

impl<'a> Meant<'a> {
    fn new(uri: &'a ReadUri<'a>, port: u16, arrival: SocketAddr) -> Meant<'a> {
        Meant {
            uri,
            port,
            arrival,
            transport: None,
        }
    }

    fn is(&mut self, listener: &Listener) -> bool {
        if listener.address.port() != self.port {
            return false;
        }
        let (uri, is_here) = (self.uri, self.arrival.port() == self.port);
        let (transport, is_open) = *self.transport.get_or_insert_with(|| {
            let transport = uri::transport(uri, false);
            (transport, is_here && uri.transport.is_none())
        });
        let is_named = match transport {
            // No `transport=wss` exists (RFC 7118 section 5.2), and one TCP port is not both.
            Some(Transport::Ws) => matches!(listener.transport, Transport::Ws | Transport::Wss),
            transport => transport == Some(listener.transport),
        };
        is_named || is_open
    }
}

/// What `localhost` is.
const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

/// Whether a listener's address takes what is sent to an address of this host.
fn covers(listener: IpAddr, address: IpAddr) -> bool {
    listener == address || listener.is_unspecified() && listener.is_ipv4() == address.is_ipv4()
}

/// Whether a host in a message is the one with this name.
fn is_host(host: Host<'_>, name: &str) -> bool {
    match host {
        Host::Name(host) => host
            .strip_suffix('.')
            .unwrap_or(host)
            .eq_ignore_ascii_case(name),
        Host::Address(address) => name.parse() == Ok(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(text: &str) -> Listener {
        let (transport, address) = text.split_once(':').expect("a transport");
        Listener {
            transport: transport.parse().expect("a transport"),
            address: address.parse().expect("an address"),
        }
    }

    fn identity(listeners: &[&str], advertise: Option<&str>, domains: &[&str]) -> Identity {
        Identity::new(
            listeners.iter().map(|text| listener(text)).collect(),
            advertise.map(|text| text.parse().expect("a host")),
            vec![
                "192.0.2.1".parse().expect("an address"),
                "2001:db8::1".parse().expect("an address"),
            ],
            domains
                .iter()
                .map(|text| Domain {
                    name: text.parse().expect("a host"),
                    aliases: Vec::new(),
                })
                .collect(),
        )
    }

    fn source(
        identity: &Identity,
        transport: Transport,
        remote: &str,
        local: Option<&str>,
    ) -> Option<String> {
        let remote = remote.parse().expect("an address");
        let local = local.map(|text| text.parse().expect("an address"));
        identity
            .source(transport, remote, local)
            .map(|source| match source {
                Source::Known(host) => host.to_string(),
                Source::Ask(port) => format!("?:{port}"),
            })
    }

    #[test]
    fn a_message_comes_from_the_listener_of_its_transport_and_family() {
        let identity = identity(
            &[
                "udp:127.0.0.1:5060",
                "udp:192.0.2.1:5070",
                "tcp:192.0.2.1:5080",
                "udp:[2001:db8::1]:5090",
            ],
            None,
            &[],
        );
        assert_eq!(
            source(&identity, Transport::Udp, "127.0.0.9", None).as_deref(),
            Some("127.0.0.1:5060")
        );
        assert_eq!(
            source(&identity, Transport::Udp, "192.0.2.9", None).as_deref(),
            Some("192.0.2.1:5070")
        );
        assert_eq!(
            source(&identity, Transport::Udp, "2001:db8::9", None).as_deref(),
            Some("[2001:db8::1]:5090")
        );
        assert_eq!(source(&identity, Transport::Sctp, "192.0.2.9", None), None);
        assert_eq!(source(&identity, Transport::Tcp, "2001:db8::9", None), None);
        // A connection that we opened: its port is its own.
        let local = Some("192.0.2.1:40000");
        assert_eq!(
            source(&identity, Transport::Tcp, "192.0.2.9", local).as_deref(),
            Some("192.0.2.1:5080")
        );
    }

    #[test]
    fn a_wildcard_listener_takes_the_address_of_the_flow() {
        let identity = identity(&["udp:0.0.0.0:5060"], None, &[]);
        let local = Some("192.0.2.1:5060");
        assert_eq!(
            source(&identity, Transport::Udp, "192.0.2.9", local).as_deref(),
            Some("192.0.2.1:5060")
        );
        assert_eq!(
            source(&identity, Transport::Udp, "192.0.2.9", None).as_deref(),
            Some("?:5060")
        );
    }

    #[test]
    fn what_is_advertised_takes_the_place_of_the_listener() {
        let listeners = &["udp:0.0.0.0:5070"];
        let with_port = identity(listeners, Some("sip.example.com:5060"), &[]);
        let without = identity(listeners, Some("sip.example.com"), &[]);
        assert_eq!(
            source(&with_port, Transport::Udp, "192.0.2.9", None).as_deref(),
            Some("sip.example.com:5060")
        );
        assert_eq!(
            source(&without, Transport::Udp, "192.0.2.9", None).as_deref(),
            Some("sip.example.com:5070")
        );
        assert!(with_port.is_own_sent_by(Host::Name("SIP.example.com"), Some(5060)));
        assert!(!with_port.is_own_sent_by(Host::Name("sip.example.com"), Some(5070)));
        assert!(!with_port.is_own_sent_by(Host::Name("sip.example.org"), Some(5060)));
    }

    #[test]
    fn sent_by_of_others_is_not_ours() {
        let identity = identity(&["udp:127.0.0.1:5060", "udp:[::]:5070"], None, &[]);
        let address = |text: &str| Host::Address(text.parse().expect("an address"));
        assert!(identity.is_own_sent_by(address("127.0.0.1"), Some(5060)));
        assert!(!identity.is_own_sent_by(address("127.0.0.1"), Some(5070)));
        assert!(!identity.is_own_sent_by(address("127.0.0.2"), Some(5060)));
        assert!(identity.is_own_sent_by(address("2001:db8::77"), Some(5070)));
        assert!(!identity.is_own_sent_by(Host::Name("localhost"), Some(5060)));
    }

    fn sip_uri(text: &str) -> ReadUri<'_> {
        match sip::Uri::parse(text) {
            Ok(sip::Uri::Sip(uri)) => uri.into(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_secure_web_socket_goes_by_the_name_of_a_plain_one() {
        let identity = identity(&["ws:127.0.0.1:5070", "wss:127.0.0.1:5080"], None, &[]);
        let arrival = "127.0.0.1:5060".parse().expect("an address");
        let is_own = |text| identity.is_own_address(&sip_uri(text), arrival);
        assert!(is_own("sip:127.0.0.1:5070;transport=ws"));
        assert!(is_own("sip:127.0.0.1:5080;transport=ws"));
        assert!(is_own("sips:127.0.0.1:5080;transport=ws"));
        assert!(!is_own("sips:127.0.0.1:5070;transport=ws"));
        assert!(!is_own("sip:127.0.0.1:5080;transport=tcp"));
    }

    #[test]
    fn a_domain_is_meant_without_a_port_and_with_one_of_ours() {
        let identity = identity(
            &["udp:127.0.0.1:5070", "tcp:127.0.0.1:5080"],
            None,
            &["example.com", "127.0.0.1", "other.example:5099"],
        );
        let over_udp = "127.0.0.1:5070".parse().expect("an address");
        let over_tcp = "127.0.0.1:5080".parse().expect("an address");
        for (uri, arrival, expected) in [
            ("sip:bob@Example.COM", over_udp, Some("example.com")),
            ("sip:bob@example.com.:5070", over_udp, Some("example.com")),
            ("sip:bob@example.com:5060", over_udp, None),
            ("sip:bob@127.0.0.1", over_udp, Some("127.0.0.1")),
            ("sip:bob@127.0.0.1:40000", over_udp, None),
            // The port of the TCP listener: over UDP it may be that of a phone.
            ("sip:bob@127.0.0.1:5080", over_udp, None),
            ("sip:bob@127.0.0.1:5080;transport=udp", over_tcp, None),
            ("sip:bob@127.0.0.1:5080", over_tcp, Some("127.0.0.1")),
            (
                "sip:bob@127.0.0.1:5080;transport=tcp",
                over_udp,
                Some("127.0.0.1"),
            ),
            ("sip:bob@127.0.0.1:5070", over_tcp, Some("127.0.0.1")),
            (
                "sip:bob@other.example:5099",
                over_udp,
                Some("other.example:5099"),
            ),
            ("sip:bob@other.example", over_udp, None),
        ] {
            let domain = identity
                .domain(&sip_uri(uri), arrival)
                .map(ToString::to_string);
            assert_eq!(domain.as_deref(), expected, "{uri} over {arrival}");
        }
    }

    #[test]
    fn our_own_addresses_are_those_that_we_listen_on() {
        let identity = identity(&["udp:127.0.0.1:5070", "tcp:[::]:5080"], None, &[]);
        let arrival = "127.0.0.1:5070".parse().expect("an address");
        for (uri, expected) in [
            ("sip:127.0.0.1:5070;lr", true),
            ("sip:127.0.0.1;lr", false),
            ("sip:127.0.0.1:5070;transport=tcp", false),
            ("sip:[2001:db8::1]:5080;transport=tcp", true),
            ("sip:[2001:db8::2]:5080;transport=tcp", false),
            ("sip:localhost:5070", false),
        ] {
            assert_eq!(
                identity.is_own_address(&sip_uri(uri), arrival),
                expected,
                "{uri}"
            );
        }
    }
}
