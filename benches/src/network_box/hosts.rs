//! Two hosts, each a network namespace, and networks between them.

use std::time::Instant;

use anyhow::Context;
use emulator::{Device, End, LinkBetween, Network, NetworkConfig};
use link::LinkConfig;
use namespace::{Namespace, NextHop, Route};

/// The addresses of the two hosts.
pub(super) const ADDRESSES: [&str; 2] = ["10.1.0.2", "10.2.0.2"];

/// Two hosts with an interface each, `eth0`, toward which all packets go.
pub(super) struct Hosts {
    pub(super) namespaces: [Namespace; 2],
    pub(super) devices: [Device; 2],
}

impl Hosts {
    pub(super) fn new() -> anyhow::Result<Hosts> {
        let host = |address: &str| -> anyhow::Result<_> {
            let namespace = Namespace::new().context("network namespaces are for root")?;
            let device = namespace
                .run(|| Device::create_tun("eth0"))?
                .context("no TUN device")?;
            let mut netlink = namespace.netlink()?;
            netlink.set_link_up("lo")?;
            netlink.set_link_queue("eth0", 1000)?;
            netlink.set_link_up("eth0")?;
            netlink.add_address("eth0", format!("{address}/24").parse()?)?;
            netlink.add_route(&default_route(NextHop::Interface("eth0".to_owned()))?)?;
            Ok((namespace, device))
        };
        let [(left, left_device), (right, right_device)] =
            [host(ADDRESSES[0])?, host(ADDRESSES[1])?];
        Ok(Hosts {
            namespaces: [left, right],
            devices: [left_device, right_device],
        })
    }
}

/// The route to everywhere.
pub(super) fn default_route(next_hop: NextHop) -> anyhow::Result<Route> {
    Ok(Route {
        destination: "0.0.0.0/0".parse()?,
        next_hop,
        table: None,
    })
}

/// Nothing between the hosts but a link.
pub(super) fn wire(config: LinkConfig) -> NetworkConfig {
    let ends = [
        end("left", Some("10.1.0.2/24")),
        end("right", Some("10.2.0.2/24")),
    ];
    NetworkConfig {
        hosts: vec!["left".to_owned(), "right".to_owned()],
        links: vec![LinkBetween::new("wire", ends).with(config)],
        ..NetworkConfig::default()
    }
}

/// A router between the hosts; the config is that of the link behind it.
pub(super) fn routed(config: LinkConfig) -> NetworkConfig {
    let router = |interface: &str, address: &str| End {
        interface: interface.to_owned(),
        ..end("router", Some(address))
    };
    let left = [
        end("left", Some("10.1.0.2/24")),
        router("left", "10.1.0.1/24"),
    ];
    let right = [
        router("right", "10.2.0.1/24"),
        end("right", Some("10.2.0.2/24")),
    ];
    NetworkConfig {
        hosts: vec!["left".to_owned(), "right".to_owned()],
        routers: vec!["router".to_owned()],
        links: vec![
            LinkBetween::new("left", left),
            LinkBetween::new("right", right).with(config),
        ],
        ..NetworkConfig::default()
    }
}

fn end(node: &str, address: Option<&str>) -> End {
    let addresses = address.and_then(|address| address.parse().ok());
    End::new(node, "eth0", addresses)
}

pub(super) fn network(config: &NetworkConfig) -> anyhow::Result<Network> {
    Ok(Network::new(config, 1, Instant::now())?)
}
