//! Which local address packets to a peer come from, where there are several.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Chooses among local addresses as the kernel's routes say.
#[derive(Debug)]
pub(super) struct Sources {
    local: Vec<IpAddr>,
    /// What was chosen for whom, and until when that holds.
    chosen: HashMap<IpAddr, (Option<IpAddr>, Instant)>,
}

/// Routes change: they are asked again after this time.
const CHOSEN_FOR: Duration = Duration::from_secs(1);

/// How many choices are remembered.
const MAX_CHOSEN: usize = 4096;

impl Sources {
    /// Chooses among these addresses.
    pub(super) fn new(local: Vec<IpAddr>) -> Self {
        Self {
            local,
            chosen: HashMap::new(),
        }
    }

    /// The address to send to `remote` from: the one on the route, if it is one of them, else the
    /// first of the same family.
    pub(super) fn toward(&mut self, remote: IpAddr) -> Option<IpAddr> {
        let now = Instant::now();
        if let Some(&(source, until)) = self.chosen.get(&remote)
            && now < until
        {
            return source;
        }
        let source = on_route(remote)
            .filter(|source| self.local.contains(source))
            .or_else(|| {
                let same_family = |local: &&IpAddr| local.is_ipv4() == remote.is_ipv4();
                self.local.iter().find(same_family).copied()
            });
        if self.chosen.len() >= MAX_CHOSEN {
            self.chosen.clear();
        }
        self.chosen.insert(remote, (source, now + CHOSEN_FOR));
        source
    }
}

/// The source address of the route to `remote`.
pub(super) fn on_route(remote: IpAddr) -> Option<IpAddr> {
    Some(connected(remote)?.local_addr().ok()?.ip())
}

/// The largest packet, headers included, that the kernel believes the route to `remote` to carry.
pub(super) fn mtu_toward(remote: IpAddr) -> Option<u32> {
    udp_net::path_mtu(connected(remote)?.as_fd(), remote.is_ipv6()).ok()
}

/// A UDP socket that is connected sends nothing, but knows the route.
fn connected(remote: IpAddr) -> Option<UdpSocket> {
    let any: IpAddr = match remote {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    // Any port but 0 will do.
    socket.connect(SocketAddr::new(remote, 9)).ok()?;
    Some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_on_the_route_is_preferred_if_it_is_one_of_ours() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut sources = Sources::new(vec![ip("127.0.0.9"), ip("127.0.0.1")]);
        for _ in 0..2 {
            assert_eq!(sources.toward(ip("127.0.0.3")), Some(ip("127.0.0.1")));
        }
        let mut others = Sources::new(vec![ip("127.0.0.9")]);
        assert_eq!(others.toward(ip("127.0.0.3")), Some(ip("127.0.0.9")));
        assert_eq!(others.toward(ip("::1")), None);
    }
}
