//! Reaching a server: names, whether the target may be tested, and the control connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};
use sctp_net::{ConnectTo, Stack};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::ClientConfig;
use crate::control::{ControlChannel, MAX_REPLY_BYTES};
use crate::{Protocol, carrier};

/// How long setting up the control connection may take.
const CONNECT_TIME: Duration = Duration::from_secs(20);

/// A control channel, and how the server was reached.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) control: ControlChannel,
    /// The server's addresses.
    pub(crate) peer: Vec<IpAddr>,
    /// What SCTP goes through.
    pub(crate) stack: Option<Stack>,
}

/// Opens the control connection.
pub(crate) async fn connect(config: &ClientConfig) -> anyhow::Result<Connection> {
    let target = &config.target;
    let mut peer = Vec::new();
    for host in &target.hosts {
        let address = resolve(host).await?;
        allowed_targets::check(host, address, &config.may_test)?;
        peer.push(address);
    }
    let connected = async {
        match target.protocol {
            Protocol::Udp | Protocol::Tcp => connect_tcp(&peer, target.port).await,
            Protocol::Sctp => connect_sctp(config, peer).await,
        }
    };
    timeout(CONNECT_TIME, connected)
        .await
        .unwrap_or_else(|_| bail!("no answer within {} s", CONNECT_TIME.as_secs()))
        .with_context(|| match target.protocol {
            Protocol::Udp => format!("{target} (the control connection is on the TCP port)"),
            Protocol::Tcp | Protocol::Sctp => target.to_string(),
        })
}

/// The address of a host. Of those that a name has, an IPv4 address goes first, as a server listens on one
/// unless told otherwise.
///
/// # Errors
///
/// When it has none.
pub async fn resolve(host: &str) -> anyhow::Result<IpAddr> {
    if let Ok(address) = host.parse::<IpAddr>() {
        // Sockets of IPv6 are of IPv6 alone here.
        return Ok(address.to_canonical());
    }
    let found = lookup_host((host, 0)).await;
    let addresses: Vec<IpAddr> = found
        .with_context(|| format!("cannot find {host}"))?
        .map(|address| address.ip())
        .collect();
    let first = addresses.iter().find(|address| address.is_ipv4());
    first
        .or(addresses.first())
        .copied()
        .with_context(|| format!("{host} has no address"))
}

async fn connect_tcp(peer: &[IpAddr], port: u16) -> anyhow::Result<Connection> {
    let address = *peer.first().context("no host was given")?;
    let stream = TcpStream::connect(SocketAddr::new(address, port)).await?;
    stream.set_nodelay(true)?;
    Ok(Connection {
        control: ControlChannel::tcp(stream, MAX_REPLY_BYTES),
        peer: peer.to_vec(),
        stack: None,
    })
}

async fn connect_sctp(config: &ClientConfig, peer: Vec<IpAddr>) -> anyhow::Result<Connection> {
    let local = match config.local_addresses.as_slice() {
        [] => wildcards(&peer),
        addresses => addresses.to_vec(),
    };
    let stack = config.carrier.open(&local)?;
    let endpoint = stack.endpoint(0, carrier::control_config())?;
    let to = ConnectTo {
        addresses: peer.clone(),
        port: config.target.port,
        ..ConnectTo::default()
    };
    let association = endpoint.connect_to(to).await?;
    Ok(Connection {
        control: ControlChannel::sctp(association, MAX_REPLY_BYTES),
        peer,
        stack: Some(stack),
    })
}

/// A wildcard for each IP version that the peer uses.
pub fn wildcards(peer: &[IpAddr]) -> Vec<IpAddr> {
    let v4 = peer.iter().any(IpAddr::is_ipv4);
    let v6 = peer.iter().any(IpAddr::is_ipv6);
    let v4 = v4.then_some(IpAddr::from(Ipv4Addr::UNSPECIFIED));
    let v6 = v6.then_some(IpAddr::from(Ipv6Addr::UNSPECIFIED));
    v4.into_iter().chain(v6).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_are_resolved_to_ipv4_first() {
        assert_eq!(
            resolve("localhost").await.unwrap(),
            IpAddr::from(Ipv4Addr::LOCALHOST)
        );
        let v6 = IpAddr::from(Ipv6Addr::LOCALHOST);
        assert_eq!(resolve("::1").await.unwrap(), v6);
        let mapped = resolve("::ffff:127.0.0.1").await.unwrap();
        assert_eq!(mapped, IpAddr::from(Ipv4Addr::LOCALHOST));
    }

    #[test]
    fn sockets_have_the_families_of_the_peer() {
        let shown = |peer: &[&str]| {
            let peer: Vec<IpAddr> = peer.iter().map(|ip| ip.parse().unwrap()).collect();
            let wildcards: Vec<String> = wildcards(&peer).iter().map(IpAddr::to_string).collect();
            wildcards.join(" ")
        };
        assert_eq!(shown(&["127.0.0.1", "10.0.0.1"]), "0.0.0.0");
        assert_eq!(shown(&["::1"]), "::");
        assert_eq!(shown(&["::1", "10.0.0.1"]), "0.0.0.0 ::");
    }
}
