//! Reaching the receiver.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};
use perf::{Protocol, resolve, wildcards};
use sctp_net::ConnectTo;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use udp_net::PlainSocket;

use super::SenderConfig;
use super::path::Path;
use crate::receiver::listener::endpoint_config;

/// How long connecting may take.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Octets of a UDP socket's buffers to ask for.
const BUFFER: usize = 4 << 20;

/// Connects to the target if it may be tested; returns its first address, too.
pub(super) async fn open(config: &SenderConfig) -> anyhow::Result<(Path, IpAddr)> {
    let target = &config.target;
    let mut peer = Vec::new();
    for host in &target.hosts {
        let address = match config.ipv6 {
            true => resolve_ipv6(host).await?,
            false => resolve(host).await?,
        };
        allowed_targets::check(host, address, &config.may_test)?;
        peer.push(address);
    }
    let first = *peer.first().context("no host was given")?;
    let opened = async {
        match target.protocol {
            Protocol::Udp | Protocol::Tcp => open_ip(config, first).await,
            Protocol::Sctp => open_sctp(config, peer).await,
        }
    };
    let opened = timeout(CONNECT_TIME, opened).await;
    let path = opened
        .unwrap_or_else(|_| bail!("no answer within {} s", CONNECT_TIME.as_secs()))
        .with_context(|| match target.protocol {
            Protocol::Udp => format!("{target} (the control connection is on the TCP port)"),
            Protocol::Tcp | Protocol::Sctp => target.to_string(),
        })?;
    Ok((path, first))
}

/// The first IPv6 address of a host.
async fn resolve_ipv6(host: &str) -> anyhow::Result<IpAddr> {
    if let Ok(address) = host.parse::<IpAddr>() {
        anyhow::ensure!(address.is_ipv6(), "{host} is no IPv6 address");
        return Ok(address);
    }
    let found = lookup_host((host, 0)).await;
    let mut addresses = found.with_context(|| format!("cannot find {host}"))?;
    let found = addresses.find(SocketAddr::is_ipv6);
    found
        .map(|address| address.ip())
        .with_context(|| format!("{host} has no IPv6 address"))
}

async fn open_ip(config: &SenderConfig, peer: IpAddr) -> anyhow::Result<Path> {
    let address = SocketAddr::new(peer, config.target.port);
    let stream = TcpStream::connect(address).await?.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    if config.target.protocol == Protocol::Tcp {
        return Path::tcp(stream);
    }
    // The same address as that of the conversation, by which the receiver knows whose packets it counts.
    let any: IpAddr = match peer {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let local = stream.local_addr().map_or(any, |local| local.ip());
    let socket = PlainSocket::bind(SocketAddr::new(local, 0), false, BUFFER)?;
    Path::udp(socket, address, stream)
}

async fn open_sctp(config: &SenderConfig, peer: Vec<IpAddr>) -> anyhow::Result<Path> {
    let local = match config.local_addresses.as_slice() {
        [] => wildcards(&peer),
        addresses => addresses.to_vec(),
    };
    let stack = config.carrier.open(&local)?;
    let endpoint = stack.endpoint(0, endpoint_config())?;
    let to = ConnectTo {
        addresses: peer,
        port: config.target.port,
        ..ConnectTo::default()
    };
    let association = endpoint.connect_to(to).await?;
    Ok(Path::sctp(association, endpoint))
}
