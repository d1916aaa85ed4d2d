//! Which of our addresses a peer sees when we send to it.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The routing table of the host, asked through the kernel and remembered for a short while.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    known: Mutex<HashMap<IpAddr, Route>>,
}

#[derive(Clone, Copy, Debug)]
struct Route {
    source: IpAddr,
    asked: Instant,
}

/// Addresses change (DHCP, a link that goes down): an answer is asked for again after this.
const REMEMBERED: Duration = Duration::from_secs(10);

/// How many answers are remembered.
const MAXIMUM_KNOWN: usize = 4_096;

impl Routes {
    /// The local address from which packets to `remote` leave.
    pub(crate) fn source(&self, remote: IpAddr) -> io::Result<IpAddr> {
        let now = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = known.get(&remote)
            && now.duration_since(route.asked) < REMEMBERED
        {
            return Ok(route.source);
        }
        let source = ask_kernel(remote)?;
        if known.len() >= MAXIMUM_KNOWN {
            known.clear();
        }
        known.insert(remote, Route { source, asked: now });
        Ok(source)
    }

    /// Asks the kernel again for all.
    pub(crate) fn forget(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.clear();
    }

    /// The best of several sockets of ours for talking to `remote`: one of its address family, bound
    /// to the very address that the packets leave from, else to all, else to one that reaches as far.
    pub(crate) fn choose<'a, T>(
        &self,
        remote: SocketAddr,
        candidates: impl Iterator<Item = (SocketAddr, &'a T)>,
    ) -> Option<(SocketAddr, &'a T)> {
        let mut candidates = candidates
            .filter(|(local, _)| local.is_ipv4() == remote.is_ipv4())
            .peekable();
        let first = candidates.next()?;
        if candidates.peek().is_none() {
            return Some(first);
        }
        let source = self.source(remote.ip()).ok();
        std::iter::once(first)
            .chain(candidates)
            .min_by_key(|(local, _)| {
                if Some(local.ip()) == source {
                    0
                } else if local.ip().is_unspecified() {
                    1
                } else if local.ip().is_loopback() == remote.ip().is_loopback() {
                    2
                } else {
                    3
                }
            })
    }

    /// `local`, with the address that packets to `remote` leave from where it is a wildcard.
    pub(crate) fn specific(&self, local: SocketAddr, remote: SocketAddr) -> SocketAddr {
        if !local.ip().is_unspecified() {
            return local;
        }
        let ip = self.source(remote.ip()).unwrap_or(local.ip());
        SocketAddr::new(ip, local.port())
    }
}

/// Connecting a UDP socket sends nothing, but makes the kernel choose its address.
fn ask_kernel(remote: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match remote {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((remote, DISCARD_PORT))?;
    Ok(socket.local_addr()?.ip())
}

/// Any port will do: nothing is sent to it.
const DISCARD_PORT: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    fn choose<'a>(remote: &str, candidates: &'a [&'a str]) -> Option<&'a str> {
        let locals = candidates
            .iter()
            .map(|text| (text.parse::<SocketAddr>().expect("an address"), text));
        Routes::default()
            .choose(remote.parse().expect("an address"), locals)
            .map(|(_, text)| *text)
    }

    #[test]
    fn loopback_leaves_from_loopback() {
        let routes = Routes::default();
        let source = routes.source(Ipv4Addr::LOCALHOST.into());
        assert_eq!(source.expect("a route"), Ipv4Addr::LOCALHOST);
        let again = routes.source(Ipv4Addr::LOCALHOST.into());
        assert_eq!(again.expect("a route"), Ipv4Addr::LOCALHOST);
    }

    #[test]
    fn the_closest_socket_of_the_family_is_chosen() {
        assert_eq!(choose("127.0.0.1:5060", &["[::1]:1"]), None);
        assert_eq!(
            choose("127.0.0.1:5060", &["[::1]:1", "192.0.2.1:2"]),
            Some("192.0.2.1:2")
        );
        assert_eq!(
            choose(
                "127.0.0.1:5060",
                &["192.0.2.1:1", "0.0.0.0:2", "127.0.0.1:3"]
            ),
            Some("127.0.0.1:3")
        );
        assert_eq!(
            choose("127.0.0.1:5060", &["192.0.2.1:1", "0.0.0.0:2"]),
            Some("0.0.0.0:2")
        );
        assert_eq!(
            choose("127.0.0.1:5060", &["192.0.2.1:1", "127.0.0.2:2"]),
            Some("127.0.0.2:2")
        );
        assert_eq!(
            choose("127.0.0.1:5060", &["127.0.0.1:1", "127.0.0.1:2"]),
            Some("127.0.0.1:1")
        );
    }

    #[test]
    fn a_wildcard_becomes_the_address_of_the_route() {
        let routes = Routes::default();
        let remote: SocketAddr = "127.0.0.1:9".parse().expect("an address");
        let specific = |local: &str| routes.specific(local.parse().expect("an address"), remote);
        assert_eq!(specific("0.0.0.0:5060").to_string(), "127.0.0.1:5060");
        assert_eq!(specific("192.0.2.1:5060").to_string(), "192.0.2.1:5060");
    }
}
