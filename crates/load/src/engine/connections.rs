//! The connections of an engine: addresses as text, whether they are lost, and their alternatives.

use super::config::{Connection, ConnectionId};

/// A connection as templates want it: its addresses as text.
#[derive(Debug)]
pub(super) struct ConnectionText {
    pub(super) connection: Connection,
    local: Box<str>,
    remote: Box<str>,
    /// How long the addresses are in them, without the ports.
    local_ip: usize,
    remote_ip: usize,
    pub(super) is_lost: bool,
}

impl ConnectionText {
    fn new(connection: Connection) -> ConnectionText {
        let (local, remote) = (connection.local.to_string(), connection.remote.to_string());
        ConnectionText {
            local_ip: without_port(&local).len(),
            remote_ip: without_port(&remote).len(),
            local: local.into(),
            remote: remote.into(),
            connection,
            is_lost: false,
        }
    }

    /// Address and port.
    pub(super) fn local(&self) -> &str {
        &self.local
    }

    /// Address, IPv6 in brackets.
    pub(super) fn local_ip(&self) -> &str {
        self.local.get(..self.local_ip).unwrap_or_default()
    }

    pub(super) fn remote(&self) -> &str {
        &self.remote
    }

    pub(super) fn remote_ip(&self) -> &str {
        self.remote.get(..self.remote_ip).unwrap_or_default()
    }

    /// Address without brackets.
    pub(super) fn media_ip(&self) -> &str {
        without_brackets(self.local_ip())
    }

    /// The digit of the version of IP.
    pub(super) fn ip_version(&self) -> u8 {
        if self.connection.local.is_ipv4() {
            b'4'
        } else {
            b'6'
        }
    }

    /// Whether messages get lost on it.
    fn is_unreliable(&self) -> bool {
        !self.connection.transport.is_reliable()
    }
}

fn without_brackets(address: &str) -> &str {
    address
        .strip_prefix('[')
        .and_then(|address| address.strip_suffix(']'))
        .unwrap_or(address)
}

fn without_port(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(ip, _)| ip)
}

/// All connections by number.
#[derive(Debug, Default)]
pub(super) struct Connections {
    connections: Vec<Option<ConnectionText>>,
    /// Where requests go that nobody answers on a connection, whether that has ever been open or not.
    alternatives: Vec<Option<ConnectionId>>,
}

/// How many connections there may be: a number beyond is a mistake of the driver's.
const MAXIMUM_CONNECTIONS: usize = 4_000_000;

impl Connections {
    pub(super) fn set(&mut self, id: ConnectionId, connection: Connection) {
        let place = id.0 as usize;
        if place >= MAXIMUM_CONNECTIONS {
            return;
        }
        if self.connections.len() <= place {
            self.connections.resize_with(place + 1, || None);
        }
        if let Some(known) = self.connections.get_mut(place) {
            *known = Some(ConnectionText::new(connection));
        }
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&ConnectionText> {
        self.connections.get(id.0 as usize)?.as_ref()
    }

    pub(super) fn set_alternative(&mut self, id: ConnectionId, alternative: ConnectionId) {
        let place = id.0 as usize;
        if place >= MAXIMUM_CONNECTIONS {
            return;
        }
        if self.alternatives.len() <= place {
            self.alternatives.resize(place + 1, None);
        }
        if let Some(known) = self.alternatives.get_mut(place) {
            *known = Some(alternative);
        }
    }

    /// Whether messages get lost on a connection; not on one that is not there.
    pub(super) fn is_unreliable(&self, id: ConnectionId) -> bool {
        self.get(id).is_some_and(ConnectionText::is_unreliable)
    }

    /// The alternative of a connection, if it is open.
    pub(super) fn alternative(&self, id: ConnectionId) -> Option<ConnectionId> {
        let alternative = *self.alternatives.get(id.0 as usize)?;
        alternative.filter(|alternative| self.is_open(*alternative))
    }

    /// The connection for a new session: this one, or its alternative while it is not open. One that is lost is given, one
    /// that has never been open is not.
    pub(super) fn way(&self, id: ConnectionId) -> Option<ConnectionId> {
        if self.is_open(id) {
            return Some(id);
        }
        self.alternative(id).or(self.get(id).map(|_| id))
    }

    fn is_open(&self, id: ConnectionId) -> bool {
        self.get(id).is_some_and(|connection| !connection.is_lost)
    }

    pub(super) fn lose(&mut self, id: ConnectionId) {
        if let Some(Some(connection)) = self.connections.get_mut(id.0 as usize) {
            connection.is_lost = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let text = |address: &str| {
            let address = address.parse().unwrap();
            ConnectionText::new(Connection {
                transport: sip::Transport::Udp,
                local: address,
                remote: address,
            })
        };
        let four = text("192.0.2.1:5060");
        assert_eq!(
            (four.local_ip(), four.media_ip()),
            ("192.0.2.1", "192.0.2.1")
        );
        let six = text("[2001:db8::1]:5060");
        assert_eq!(
            (six.remote_ip(), six.media_ip()),
            ("[2001:db8::1]", "2001:db8::1")
        );
        assert_eq!((four.ip_version(), six.ip_version()), (b'4', b'6'));
    }
}
