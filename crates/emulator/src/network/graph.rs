//! The graph of a network: who is joined to whom, and where routers send what.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use ipnet::IpNet;

use super::routes::Routes;
use crate::config::{ConfigError, Framing, GREATEST_MTU, LEAST_MTU, NetworkConfig};

/// The number of a node: hosts first, then routers, each in the order of the configuration.
pub(super) type NodeId = usize;

/// The number of a link, in the order of the configuration.
pub(super) type LinkId = usize;

/// One end of a link: the link, and 0 for the first or 1 for the second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Port {
    pub(super) link: LinkId,
    pub(super) end: usize,
}

/// Where a router sends packets.
#[derive(Clone, Debug)]
pub(super) struct RouterTable {
    /// Where packets for whom leave.
    pub(super) routes: Routes<Hop>,
    /// The networks of its own links: who is in one of them but not known is no host.
    pub(super) neighbourhood: Routes<()>,
    /// Its own addresses, the first of each version of IP being the one for what it sends if the link
    /// itself has none.
    pub(super) addresses: Vec<IpAddr>,
    /// Its ports and their addresses.
    pub(super) ports: Vec<(Port, Vec<IpAddr>)>,
}

/// What a route says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hop {
    /// It is the router itself.
    Here,
    /// It leaves there.
    By(Port),
}

/// What was checked and computed of a configuration.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    /// How many of the nodes are hosts.
    pub(super) hosts: usize,
    /// The nodes at the ends of each link.
    pub(super) ends: Vec<[NodeId; 2]>,
    /// Of each router, in the order of the configuration.
    pub(super) tables: Vec<RouterTable>,
}

impl Graph {
    pub(super) fn new(config: &NetworkConfig) -> Result<Graph, ConfigError> {
        let nodes = numbered_nodes(config)?;
        let links = numbered_links(config)?;
        let hosts = config.hosts.len();
        let ends = check_links(config, &nodes)?;
        check_addresses(config)?;
        let mut graph = Graph {
            hosts,
            ends,
            tables: Vec::new(),
        };
        graph.tables = graph.tables_of_routers(config);
        for route in &config.routes {
            let router = nodes
                .get(route.router.as_str())
                .and_then(|node| node.checked_sub(hosts))
                .ok_or_else(|| ConfigError::NoRouter(route.router.clone()))?;
            let port = links
                .get(route.link.as_str())
                .and_then(|link| graph.port_at(*link, router + hosts))
                .ok_or_else(|| ConfigError::NoRouteLink {
                    router: route.router.clone(),
                    link: route.link.clone(),
                })?;
            graph.tables[router]
                .routes
                .insert(route.destination, Hop::By(port));
        }
        Ok(graph)
    }

    /// Whether a node is a router, and which.
    pub(super) fn router(&self, node: NodeId) -> Option<usize> {
        node.checked_sub(self.hosts)
    }

    /// The end of a link that is at a node.
    fn port_at(&self, link: LinkId, node: NodeId) -> Option<Port> {
        let end = self.ends[link].iter().position(|end| *end == node)?;
        Some(Port { link, end })
    }

    fn tables_of_routers(&self, config: &NetworkConfig) -> Vec<RouterTable> {
        let mut tables: Vec<RouterTable> = (0..config.routers.len())
            .map(|router| self.table_of_neighbours(config, router + self.hosts))
            .collect();
        let ports = self.ports_of_routers(config.routers.len());
        for (link, between) in config.links.iter().enumerate() {
            let ways = self.ways_to(link, &ports);
            for address in between.ends.iter().flat_map(|end| &end.addresses) {
                for (table, way) in tables.iter_mut().zip(&ways) {
                    if let Some(port) = way {
                        table.routes.insert(address.addr().into(), Hop::By(*port));
                    }
                }
            }
        }
        tables
    }

    /// What a router knows without any other.
    fn table_of_neighbours(&self, config: &NetworkConfig, node: NodeId) -> RouterTable {
        let mut table = RouterTable {
            routes: Routes::default(),
            neighbourhood: Routes::default(),
            addresses: Vec::new(),
            ports: Vec::new(),
        };
        for (link, between) in config.links.iter().enumerate() {
            let Some(port) = self.port_at(link, node) else {
                continue;
            };
            let own = &between.ends[port.end].addresses;
            for address in own {
                table.routes.insert(address.addr().into(), Hop::Here);
                table.addresses.push(address.addr());
            }
            for network in between.ends.iter().flat_map(|end| &end.addresses) {
                table.neighbourhood.insert(network.trunc(), ());
            }
            let addresses = own.iter().map(IpNet::addr).collect();
            table.ports.push((port, addresses));
        }
        table
    }

    /// The ports of each router.
    fn ports_of_routers(&self, routers: usize) -> Vec<Vec<Port>> {
        let mut ports = vec![Vec::new(); routers];
        for (link, ends) in self.ends.iter().enumerate() {
            for (end, node) in ends.iter().enumerate() {
                if let Some(router) = self.router(*node) {
                    ports[router].push(Port { link, end });
                }
            }
        }
        ports
    }

    /// By which port each router reaches a link on the shortest way, over routers alone; of ways of one
    /// length the one whose links come first.
    fn ways_to(&self, link: LinkId, ports: &[Vec<Port>]) -> Vec<Option<Port>> {
        let mut ways = vec![None; ports.len()];
        let mut next = VecDeque::new();
        for (end, node) in self.ends[link].iter().enumerate() {
            if let Some(router) = self.router(*node) {
                ways[router] = Some(Port { link, end });
                next.push_back(router);
            }
        }
        while let Some(router) = next.pop_front() {
            for port in &ports[router] {
                let other_end = 1 - port.end;
                let Some(neighbour) = self.router(self.ends[port.link][other_end]) else {
                    continue;
                };
                if ways[neighbour].is_none() {
                    ways[neighbour] = Some(Port {
                        link: port.link,
                        end: other_end,
                    });
                    next.push_back(neighbour);
                }
            }
        }
        ways
    }
}

fn numbered_nodes(config: &NetworkConfig) -> Result<BTreeMap<&str, NodeId>, ConfigError> {
    let mut nodes = BTreeMap::new();
    for (id, name) in config.hosts.iter().chain(&config.routers).enumerate() {
        if nodes.insert(name.as_str(), id).is_some() {
            return Err(ConfigError::NodeTwice(name.clone()));
        }
    }
    Ok(nodes)
}

fn numbered_links(config: &NetworkConfig) -> Result<BTreeMap<&str, LinkId>, ConfigError> {
    let mut links = BTreeMap::new();
    for (id, link) in config.links.iter().enumerate() {
        if links.insert(link.name.as_str(), id).is_some() {
            return Err(ConfigError::LinkTwice(link.name.clone()));
        }
    }
    Ok(links)
}

/// The nodes at the ends of each link.
fn check_links(
    config: &NetworkConfig,
    nodes: &BTreeMap<&str, NodeId>,
) -> Result<Vec<[NodeId; 2]>, ConfigError> {
    let mut interfaces = BTreeSet::new();
    let mut ends = Vec::with_capacity(config.links.len());
    for link in &config.links {
        let mut at = [0; 2];
        for (end, at) in link.ends.iter().zip(&mut at) {
            *at = *nodes
                .get(end.node.as_str())
                .ok_or_else(|| ConfigError::NoNode {
                    link: link.name.clone(),
                    node: end.node.clone(),
                })?;
            if !interfaces.insert((end.node.as_str(), end.interface.as_str())) {
                return Err(ConfigError::InterfaceTwice {
                    node: end.node.clone(),
                    interface: end.interface.clone(),
                });
            }
        }
        if at[0] == at[1] {
            return Err(ConfigError::Loop(link.name.clone()));
        }
        if !(LEAST_MTU..=GREATEST_MTU).contains(&link.mtu) {
            return Err(ConfigError::Mtu {
                link: link.name.clone(),
                mtu: link.mtu,
            });
        }
        let ethernet = link
            .ends
            .each_ref()
            .map(|end| end.framing == Framing::Ethernet);
        let has_router = at.iter().any(|node| *node >= config.hosts.len());
        if ethernet[0] != ethernet[1] || ethernet[0] && has_router {
            return Err(ConfigError::Ethernet(link.name.clone()));
        }
        ends.push(at);
    }
    Ok(ends)
}

fn check_addresses(config: &NetworkConfig) -> Result<(), ConfigError> {
    let mut known = BTreeSet::new();
    let ends = config.links.iter().flat_map(|link| &link.ends);
    for address in ends.flat_map(|end| &end.addresses) {
        if !known.insert(address.addr()) {
            return Err(ConfigError::AddressTwice(address.addr()));
        }
    }
    Ok(())
}
