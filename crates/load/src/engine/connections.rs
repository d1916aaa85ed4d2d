//! What an engine knows of connections, and what its users are called.

use std::net::IpAddr;

use super::config::{Connection, ConnectionId, Directory};
use super::identity::write_decimal;
use super::session::NOBODY;

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
    /// The session that began last on it, where it can be lost.
    pub(super) newest: u32,
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
            newest: NOBODY,
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

    /// Whether a host, as a Via names it, is where messages of the peer come from.
    pub(super) fn is_remote(&self, host: &str) -> bool {
        let address = self.connection.remote.ip().to_canonical();
        host == self.remote_ip()
            || without_brackets(host)
                .parse()
                .is_ok_and(|host: IpAddr| host.to_canonical() == address)
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
    pub(super) fn is_unreliable(&self) -> bool {
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
            let newest = known.as_ref().map_or(NOBODY, |known| known.newest);
            *known = Some(ConnectionText {
                newest,
                ..ConnectionText::new(connection)
            });
        }
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&ConnectionText> {
        self.connections.get(id.0 as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut ConnectionText> {
        self.connections.get_mut(id.0 as usize)?.as_mut()
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

    /// The other connection for what nobody answers on one, where it is open.
    pub(super) fn alternative(&self, id: ConnectionId) -> Option<ConnectionId> {
        let alternative = *self.alternatives.get(id.0 as usize)?;
        alternative.filter(|alternative| self.is_open(*alternative))
    }

    /// By which connection goes what begins now: by this one, or the other while it is not open. One that is lost
    /// is told, one that has never been is not.
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
        if let Some(connection) = self.get_mut(id) {
            connection.is_lost = true;
        }
    }
}

impl Directory {
    /// The row of a user of the list.
    pub(super) fn listed(&self, number: u32) -> Option<&super::config::Listed> {
        self.listed.get((number as usize).checked_sub(1)?)
    }

    /// Writes the name of a user.
    pub(super) fn write_name(&self, number: u32, out: &mut Vec<u8>) {
        match self.listed(number) {
            Some(listed) => out.extend_from_slice(listed.name.as_bytes()),
            None => {
                out.extend_from_slice(self.prefix.as_bytes());
                write_decimal(number.into(), out);
                out.extend_from_slice(self.suffix.as_bytes());
            }
        }
    }

    /// The name of a user.
    pub fn name(&self, number: u32) -> String {
        let mut name = Vec::new();
        self.write_name(number, &mut name);
        String::from_utf8_lossy(&name).into_owned()
    }

    /// The number of the user of a name, beyond the list: names of the list are not looked for.
    pub(super) fn number(&self, name: &[u8]) -> Option<u32> {
        let digits = name
            .strip_prefix(self.prefix.as_bytes())?
            .strip_suffix(self.suffix.as_bytes())?;
        if digits.is_empty() || digits.len() > 10 || digits.first() == Some(&b'0') {
            return None;
        }
        digits.iter().try_fold(0_u32, |number, digit| {
            let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
            number.checked_mul(10)?.checked_add(digit.into())
        })
    }

    /// The name and the password with which a user authenticates.
    pub(super) fn login(&self, number: u32) -> Option<(String, String)> {
        match self.listed(number) {
            Some(listed) => {
                let username = listed.username.as_ref().unwrap_or(&listed.name);
                Some((username.clone(), listed.password.clone()?))
            }
            None => {
                let username = self.username.clone();
                let password = self.password.clone()?;
                Some((username.unwrap_or_else(|| self.name(number)), password))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Listed;

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

    #[test]
    fn names_and_numbers_belong_together() {
        let mut directory = Directory {
            suffix: "x".to_owned(),
            password: Some("{}".to_owned()),
            ..Directory::default()
        };
        assert_eq!(directory.name(17), "user17x");
        assert_eq!(directory.number(b"user17x"), Some(17));
        for name in [
            "user17",
            "userx",
            "user017x",
            "user99999999999x",
            "user1ax",
            "",
        ] {
            assert_eq!(directory.number(name.as_bytes()), None, "{name}");
        }
        let login = |username: &str, password: &str| (username.to_owned(), password.to_owned());
        assert_eq!(directory.login(2), Some(login("user2x", "{}")));
        directory.listed.push(Listed {
            name: "alice".to_owned(),
            ..Listed::default()
        });
        assert_eq!(
            (directory.name(1), directory.login(1)),
            ("alice".to_owned(), None)
        );
    }
}
