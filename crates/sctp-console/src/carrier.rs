//! What carries the packets.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;

use sctp_net::{
    DEFAULT_ENCAPSULATION_PORT, KernelCarrierConfig, RawCarrierConfig, Stack, Tap, UdpCarrierConfig,
};

use crate::address::Address;

/// What is under SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Over {
    /// Our SCTP right on IP, as protocol 132.
    Ip,
    /// Our SCTP in UDP (RFC 6951).
    #[default]
    Udp,
    /// The SCTP of the kernel.
    Kernel,
}

impl fmt::Display for Over {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Over::Ip => "ip",
            Over::Udp => "udp",
            Over::Kernel => "kernel",
        })
    }
}

/// What carries the packets, and where.
#[derive(Clone, Debug)]
pub struct Carrier {
    /// What is under SCTP.
    pub over: Over,
    /// Local addresses. Without any: those that suit the peer, or all.
    pub addresses: Vec<Address>,
    /// The local UDP port; 0 lets the system choose.
    pub encapsulation_port: u16,
    /// The UDP port of a peer that we call first.
    pub peer_encapsulation_port: u16,
    /// A packet-filter rule keeps the kernel's SCTP away from our packets over IP.
    pub kernel_kept_away: bool,
    /// A file to capture the packets in.
    pub pcap: Option<PathBuf>,
}

impl Default for Carrier {
    fn default() -> Self {
        Self {
            over: Over::default(),
            addresses: Vec::new(),
            encapsulation_port: DEFAULT_ENCAPSULATION_PORT,
            peer_encapsulation_port: DEFAULT_ENCAPSULATION_PORT,
            kernel_kept_away: false,
            pcap: None,
        }
    }
}

impl Carrier {
    /// Opens a stack that can reach `peers`, or everyone when there are none; and the capture of its
    /// packets, if one is wanted.
    ///
    /// # Errors
    ///
    /// When the carrier cannot be had; the text says what could be done.
    pub(crate) fn open(&self, peers: &[Address]) -> io::Result<(Stack, Option<Tap>)> {
        let zone = common_zone(peers.iter().chain(&self.addresses))?;
        if self.over != Over::Udp && zone != 0 {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "link-local addresses need --over udp",
            ));
        }
        let ips: Vec<IpAddr> = self.addresses.iter().map(|address| address.ip).collect();
        if self.over == Over::Kernel && self.pcap.is_some() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "--pcap needs --over ip or --over udp: the kernel sends and receives its SCTP packets itself \
                 (tcpdump -i any -w FILE ip proto 132 or ip6 proto 132)",
            ));
        }
        let tap = self.tap()?;
        let stack = match self.over {
            Over::Udp => self.open_udp(&ips, peers, zone, tap.as_ref()),
            Over::Ip => Stack::raw(RawCarrierConfig {
                addresses: ips,
                kernel_kept_away: self.kernel_kept_away,
                tap: tap.clone(),
                ..RawCarrierConfig::default()
            }),
            Over::Kernel => Stack::kernel(KernelCarrierConfig {
                addresses: ips,
                ..KernelCarrierConfig::default()
            }),
        }?;
        Ok((stack, tap))
    }

    fn open_udp(
        &self,
        local: &[IpAddr],
        peers: &[Address],
        zone: u32,
        tap: Option<&Tap>,
    ) -> io::Result<Stack> {
        let open = |addresses: Vec<IpAddr>| {
            let port = self.encapsulation_port;
            let mut addresses = addresses.into_iter().map(|ip| match ip {
                IpAddr::V4(_) => SocketAddr::new(ip, port),
                IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, zone).into(),
            });
            let first = addresses
                .next()
                .unwrap_or((Ipv4Addr::UNSPECIFIED, port).into());
            let mut config = UdpCarrierConfig::new(first);
            config.addresses.extend(addresses);
            config.peer_encapsulation_port = self.peer_encapsulation_port;
            config.tap = tap.cloned();
            Stack::udp(config)
        };
        if !local.is_empty() {
            return open(local.to_vec());
        }
        let ips: Vec<IpAddr> = peers.iter().map(|address| address.ip).collect();
        match open(wildcards(&ips)) {
            // A host without IPv6 serves IPv4.
            Err(error) if peers.is_empty() && lacks_family(&error) => open(vec![ANY_IPV4]),
            result => result,
        }
    }

    fn tap(&self) -> io::Result<Option<Tap>> {
        let Some(path) = &self.pcap else {
            return Ok(None);
        };
        let tap = Tap::create(path, "sctp").map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot write {}: {error}", path.display()),
            )
        })?;
        Ok(Some(tap))
    }
}

const ANY_IPV4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY_IPV6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// The interface of all link-local addresses; 0 where there are none.
fn common_zone<'a>(addresses: impl Iterator<Item = &'a Address>) -> io::Result<u32> {
    let mut zones = addresses
        .map(|address| address.zone)
        .filter(|zone| *zone != 0);
    let first = zones.next().unwrap_or(0);
    if zones.any(|zone| zone != first) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "link-local addresses of one interface only can be used together",
        ));
    }
    Ok(first)
}

/// The wildcard addresses of the families that the peers have, or of both.
fn wildcards(peers: &[IpAddr]) -> Vec<IpAddr> {
    [ANY_IPV4, ANY_IPV6]
        .into_iter()
        .filter(|wildcard| {
            let is_of_family = |peer: &IpAddr| peer.is_ipv4() == wildcard.is_ipv4();
            peers.is_empty() || peers.iter().any(is_of_family)
        })
        .collect()
}

fn lacks_family(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Unsupported | io::ErrorKind::AddrNotAvailable
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_suit_the_peers() {
        let ipv4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let ipv6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
        assert_eq!(wildcards(&[]), [ANY_IPV4, ANY_IPV6]);
        assert_eq!(wildcards(&[ipv4]), [ANY_IPV4]);
        assert_eq!(wildcards(&[ipv6]), [ANY_IPV6]);
        assert_eq!(wildcards(&[ipv6, ipv4]), [ANY_IPV4, ANY_IPV6]);
    }

    #[test]
    fn link_local_addresses_share_an_interface() {
        let at = |zone| Address {
            ip: IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)),
            zone,
        };
        assert_eq!(common_zone([at(0), at(2), at(2)].iter()).unwrap(), 2);
        assert!(common_zone([at(3), at(2)].iter()).is_err());
    }

    #[tokio::test]
    async fn a_capture_that_cannot_be_written_is_named() {
        let carrier = Carrier {
            encapsulation_port: 0,
            pcap: Some("/no/such/directory/file.pcapng".into()),
            ..Carrier::default()
        };
        let error = carrier.open(&[]).unwrap_err().to_string();
        assert!(error.contains("/no/such/directory/file.pcapng"), "{error}");
    }
}
