//! Whose word is taken for who somebody is (RFC 3325).

use std::collections::BTreeMap;
use std::iter::once;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sip::{ConnectionId, Flow, Message, Name, Peer, Target, Transport};

use super::routing::AddressRange;

/// The trust domain (RFC 3325 section 2.3): the neighbours whose P-Asserted-Identity is believed, and
/// who are told one that its user wants to be kept private. Nobody, unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustDomain {
    /// Their addresses and networks.
    pub addresses: Vec<AddressRange>,
    /// Their names, as their TLS certificates show them (RFC 5922 section 7).
    pub names: Vec<String>,
}

/// The names that the far ends of open connections have proved by their certificates.
#[derive(Debug, Default)]
struct ProvedNames {
    by_connection: BTreeMap<ConnectionId, Arc<[Box<str>]>>,
}

/// How many connections' names are remembered; should the end of some never be told, the oldest are
/// forgotten.
const MAXIMUM_CONNECTIONS: usize = 1 << 20;

impl TrustDomain {
    fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|range| range.contains(address))
    }

    fn has_name(&self, name: &str) -> bool {
        self.names
            .iter()
            .any(|trusted| trusted.eq_ignore_ascii_case(name))
    }
}

/// Who is in the trust domain, and what that means for messages.
#[derive(Debug)]
pub(crate) struct Trust {
    domain: TrustDomain,
    names: ProvedNames,
}

impl ProvedNames {
    fn insert(&mut self, connection: ConnectionId, names: Arc<[Box<str>]>) {
        self.by_connection.insert(connection, names);
        if self.by_connection.len() > MAXIMUM_CONNECTIONS {
            self.by_connection.pop_first();
        }
    }

    fn of(&self, flow: &Flow) -> &[Box<str>] {
        if flow.transport == Transport::Udp {
            return &[];
        }
        let names = self.by_connection.get(&flow.connection);
        names.map_or(&[], |names| names)
    }

    fn remove(&mut self, connection: ConnectionId) {
        self.by_connection.remove(&connection);
    }
}

impl Trust {
    pub(crate) fn new(domain: &TrustDomain) -> Trust {
        Trust {
            domain: domain.clone(),
            names: ProvedNames::default(),
        }
    }

    /// Exchanges the settings.
    pub(crate) fn set_policy(&mut self, domain: &TrustDomain) {
        self.domain = domain.clone();
    }

    /// Takes notice of the names that the certificate of a connection's far end has shown, and that
    /// TLS has verified. They hold until others take their place, or the connection is closed.
    pub(crate) fn handle_connection_identified(
        &mut self,
        connection: ConnectionId,
        names: Arc<[Box<str>]>,
    ) {
        self.names.insert(connection, names);
    }

    /// Takes notice that a connection is gone.
    pub(crate) fn handle_connection_closed(&mut self, connection: ConnectionId) {
        self.names.remove(connection);
    }

    /// Takes away what a message claims without right: a P-Asserted-Identity from outside of the trust
    /// domain (section 5), and the wish of a user agent for one, which has come to where it was to be
    /// fulfilled (section 6).
    pub(crate) fn remove_claims(&self, message: &mut Message, from: &Flow) {
        if message.contains(Name::PPreferredIdentity) {
            message.remove_all(Name::PPreferredIdentity);
        }
        if message.contains(Name::PAssertedIdentity) && !self.is_trusted(from) {
            message.remove_all(Name::PAssertedIdentity);
        }
    }

    /// Takes a P-Asserted-Identity away from a message that leaves the trust domain, if its user wants
    /// that (section 7).
    pub(crate) fn withhold_identity(
        &self,
        message: &mut Message,
        to: &Target,
        peer: Option<&Peer>,
    ) {
        if !message.contains(Name::PAssertedIdentity) || !wants_privacy(message) {
            return;
        }
        let is_trusted = match to {
            Target::Flow(flow) => self.is_trusted(flow),
            // The flow may be gone by then.
            Target::FlowOrAddress(flow, address) => {
                self.is_trusted(flow) && self.is_trusted_host(flow.transport, address, peer)
            }
            Target::Address(transport, address) => self.is_trusted_host(*transport, address, peer),
        };
        if !is_trusted {
            message.remove_all(Name::PAssertedIdentity);
        }
    }

    /// The same for a message of which it is not known whether it leaves the trust domain.
    pub(crate) fn withhold_identity_from_anybody(&self, message: &mut Message) {
        if message.contains(Name::PAssertedIdentity) && wants_privacy(message) {
            message.remove_all(Name::PAssertedIdentity);
        }
    }

    /// Whether the far end of a flow is in the trust domain.
    pub(crate) fn is_trusted(&self, flow: &Flow) -> bool {
        let trust = &self.domain;
        let mut names = self.names.of(flow).iter();
        trust.has_address(flow.remote.ip()) || names.any(|name| trust.has_name(name))
    }

    /// Whether whoever is reached at an address, or at another one of the same peer, is in the trust domain.
    fn is_trusted_host(
        &self,
        transport: Transport,
        address: &SocketAddr,
        peer: Option<&Peer>,
    ) -> bool {
        let trust = &self.domain;
        // Nobody else can take the connection: its certificate is verified.
        let name = peer
            .and_then(|peer| peer.name.as_deref())
            .filter(|_| transport.is_secure());
        let others = peer.map_or(&[][..], |peer| &peer.addresses);
        let mut addresses = once(address).chain(others);
        addresses.all(|address| trust.has_address(address.ip()))
            || name.is_some_and(|name| trust.has_name(name))
    }
}

/// Whether a message asks for its asserted identity to be kept private (RFC 3325 section 9.3, RFC 3323
/// section 4.2).
fn wants_privacy(message: &Message) -> bool {
    message
        .headers(Name::Privacy)
        .filter_map(|value| std::str::from_utf8(value).ok())
        .flat_map(|value| value.split([';', ',']))
        .any(|value| value.trim().eq_ignore_ascii_case("id"))
}
