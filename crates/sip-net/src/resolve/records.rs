//! Records of the DNS as the procedures of RFC 3263 see them.

use std::net::IpAddr;
use std::sync::Arc;

use sip::Transport;

/// Which records are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    /// A domain name in lower case, without a dot at its end.
    pub(crate) name: Box<str>,
    pub(crate) kind: Kind,
}

/// Kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Naptr,
    Srv,
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
}

impl Key {
    pub(crate) fn new(kind: Kind, name: &str) -> Key {
        let name = name.strip_suffix('.').unwrap_or(name);
        Key {
            name: name.to_ascii_lowercase().into(),
            kind,
        }
    }

    /// The SRV records of the servers of a domain for a transport. The service is "sips" for what runs
    /// over TLS, the protocol that beneath it (RFC 3263 section 4.1, RFC 4168 section 6).
    pub(crate) fn srv(transport: Transport, domain: &str) -> Key {
        let service = match transport {
            Transport::Udp => "_sip._udp",
            Transport::Tcp => "_sip._tcp",
            Transport::Sctp => "_sip._sctp",
            Transport::Ws => "_sip._ws",
            Transport::Tls => "_sips._tcp",
            Transport::TlsSctp => "_sips._sctp",
            Transport::Wss => "_sips._ws",
        };
        Key::new(Kind::Srv, &format!("{service}.{domain}"))
    }
}

/// A NAPTR record (RFC 3403 section 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Naptr {
    pub(crate) order: u16,
    pub(crate) preference: u16,
    pub(crate) flags: Box<[u8]>,
    pub(crate) services: Box<[u8]>,
    pub(crate) regexp: Box<[u8]>,
    pub(crate) replacement: Box<str>,
}

/// An SRV record (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Srv {
    pub(crate) priority: u16,
    pub(crate) weight: u16,
    pub(crate) port: u16,
    /// Empty for the root.
    pub(crate) target: Box<str>,
}

/// The records of one kind and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordSet {
    Naptr(Vec<Naptr>),
    Srv(Vec<Srv>),
    Addresses(Vec<IpAddr>),
}

/// What is known of the records of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// These, one at least.
    Records(Arc<RecordSet>),
    /// There are none: the procedures go on without.
    Nothing,
    /// A server has answered that it cannot say (SERVFAIL, REFUSED). There may be some, so that to go on
    /// without would be to disregard what the domain wants.
    Unknown,
    /// No server has answered.
    Unreachable,
}

/// Where records are looked up.
pub(crate) trait Records {
    /// What is known; `None` where nobody has been asked.
    fn find(&self, key: &Key) -> Option<Found>;
}
