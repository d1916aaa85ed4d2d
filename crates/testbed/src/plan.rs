//! From a topology to addresses, interfaces and routes.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use emulator::{End, LinkBetween, NetworkConfig};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use namespace::{NextHop, Route};

use crate::Topology;

/// The first table of routes that a host with several interfaces has for packets from an address of its own; each
/// interface has the next one.
const FIRST_TABLE: u32 = 1000;

/// How many networks are looked at in search for free ones.
const LAST_NETWORK: u16 = 4096;

/// A topology with everything in it that its text leaves open.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The topology.
    pub topology: Topology,
    /// The interfaces of each node, in the order of the links.
    pub interfaces: Vec<Vec<Interface>>,
}

/// An interface of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name: `eth0`, `eth1`, and so on.
    pub name: String,
    /// The link that it is at.
    pub link: usize,
    /// The node at the other end.
    pub peer: usize,
    /// Its addresses, each with the length of its network's prefix.
    pub addresses: Vec<IpNet>,
}

/// The addresses that a topology tells leave no network for links of which it tells none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no network is left for a link without addresses: the topology's own addresses take all of 10.0.0.0/8 or fd00::/16"
)]
pub struct PlanError;

/// The routes and rules of a host.
#[derive(Debug)]
pub(crate) struct Routing {
    pub(crate) routes: Vec<Route>,
    /// Source addresses, each with the table of routes of its packets.
    pub(crate) rules: Vec<(IpAddr, u32)>,
}

/// A network that a host reaches through routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReachableNetwork {
    network: IpNet,
    /// How many links are before it.
    hops: usize,
}

impl Plan {
    /// Gives every interface a name and addresses.
    ///
    /// # Errors
    ///
    /// The addresses that the topology tells leave no network for the rest.
    pub fn new(topology: Topology) -> Result<Plan, PlanError> {
        let mut interfaces: Vec<Vec<Interface>> = vec![Vec::new(); topology.nodes.len()];
        let taken: Vec<IpNet> = topology
            .links
            .iter()
            .flat_map(|line| line.addresses.iter().flatten())
            .copied()
            .collect();
        let mut free = FreeNetworks { next: 1, taken };
        for (link, line) in topology.links.iter().enumerate() {
            let own = if line.addresses.iter().all(Vec::is_empty) {
                Some(free.take().ok_or(PlanError)?)
            } else {
                None
            };
            // Routers have the first address of a network, hosts the second; of two of a kind the first is first.
            let [first, second] = line.between;
            let is_host = |node: usize| topology.nodes[node].is_host;
            let swapped = is_host(first) && !is_host(second);
            for (end, node) in line.between.into_iter().enumerate() {
                let peer = line.between[1 - end];
                let number = 1 + u8::from((end == 1) != swapped);
                let addresses = match own {
                    Some(networks) => networks.addresses(number),
                    None => line.addresses[end].clone(),
                };
                let name = format!("eth{}", interfaces[node].len());
                interfaces[node].push(Interface {
                    name,
                    link,
                    peer,
                    addresses,
                });
            }
        }
        Ok(Plan {
            topology,
            interfaces,
        })
    }

    /// The addresses of a node: those of IPv4 first, then in the order of its links.
    pub fn addresses(&self, node: usize) -> Vec<IpAddr> {
        let all = || {
            let interfaces = self.interfaces[node].iter();
            interfaces.flat_map(|interface| interface.addresses.iter().map(IpNet::addr))
        };
        all()
            .filter(IpAddr::is_ipv4)
            .chain(all().filter(IpAddr::is_ipv6))
            .collect()
    }

    /// What the emulator is to make of it.
    pub fn network(&self) -> NetworkConfig {
        let named = |is_host: bool| {
            let nodes = self.topology.nodes.iter();
            nodes
                .filter(|node| node.is_host == is_host)
                .map(|node| node.name.clone())
                .collect()
        };
        let end = |link: usize, node: usize| {
            let interface = self.interfaces[node]
                .iter()
                .find(|interface| interface.link == link);
            let (name, addresses) = interface.map_or_else(Default::default, |interface| {
                (interface.name.clone(), interface.addresses.clone())
            });
            End::new(self.topology.nodes[node].name.clone(), name, addresses)
        };
        let links = self.topology.links.iter().enumerate();
        let links = links.map(|(index, line)| {
            let [forward, backward] = line.directions.clone();
            LinkBetween {
                mtu: line.mtu.into(),
                forward,
                backward,
                schedules: line.schedules.clone(),
                ..LinkBetween::new(line.name.clone(), line.between.map(|node| end(index, node)))
            }
        });
        NetworkConfig {
            hosts: named(true),
            routers: named(false),
            links: links.collect(),
            rules: self.topology.rules.clone(),
            ..NetworkConfig::default()
        }
    }

    /// The text of a file of hosts, with the addresses of every node, loopback included.
    pub fn hosts_file(&self) -> String {
        let mut text = String::from("127.0.0.1 localhost\n::1 localhost\n");
        for (index, node) in self.topology.nodes.iter().enumerate() {
            for address in self.addresses(index) {
                let _ = writeln!(text, "{address} {}", node.name);
            }
        }
        text
    }

    /// The routes of a host, and the rules that select a table of routes by the source address.
    ///
    /// Packets from an address of the host leave by its own interface if that leads where they go. So the paths of
    /// a host with several interfaces stay apart.
    pub(crate) fn routing(&self, host: usize) -> Routing {
        let interfaces = &self.interfaces[host];
        let reachable: Vec<Vec<ReachableNetwork>> = (0..interfaces.len())
            .map(|interface| self.reachable_networks(host, interface))
            .collect();
        let route = |destination, interface: usize, table| Route {
            destination,
            next_hop: NextHop::Interface(interfaces[interface].name.clone()),
            table,
        };
        let mut routing = Routing {
            routes: nearest(&reachable)
                .into_iter()
                .map(|(network, interface)| route(network, interface, None))
                .collect(),
            rules: Vec::new(),
        };
        if interfaces.len() < 2 {
            return routing;
        }
        for ((index, interface), table) in interfaces.iter().enumerate().zip(FIRST_TABLE..) {
            let link = self.networks(interface.link).into_iter();
            let networks = link.chain(reachable[index].iter().map(|found| found.network));
            let routes = networks.map(|network| route(network, index, Some(table)));
            routing.routes.extend(routes);
            let addresses = interface.addresses.iter();
            routing
                .rules
                .extend(addresses.map(|address| (address.addr(), table)));
        }
        routing
    }

    /// Which networks can be reached from an interface of a host through routers, but for that of its own link.
    fn reachable_networks(&self, host: usize, interface: usize) -> Vec<ReachableNetwork> {
        let interface = &self.interfaces[host][interface];
        let is_router = |node: usize| !self.topology.nodes[node].is_host;
        let mut found: Vec<ReachableNetwork> = Vec::new();
        let mut known = vec![false; self.topology.nodes.len()];
        let mut waiting = VecDeque::new();
        if is_router(interface.peer) {
            known[interface.peer] = true;
            waiting.push_back((interface.peer, 1_usize));
        }
        let mut seen = vec![false; self.topology.links.len()];
        seen[interface.link] = true;
        while let Some((router, hops)) = waiting.pop_front() {
            for next in &self.interfaces[router] {
                if !seen[next.link] {
                    seen[next.link] = true;
                    let networks = self.networks(next.link).into_iter();
                    found.extend(networks.map(|network| ReachableNetwork { network, hops }));
                }
                if is_router(next.peer) && !known[next.peer] {
                    known[next.peer] = true;
                    waiting.push_back((next.peer, hops + 1));
                }
            }
        }
        // The kernel makes the routes to the networks of the host's own links.
        let own = &self.interfaces[host];
        found.retain(|reachable| {
            let mut links = own.iter().map(|interface| interface.link);
            !links.any(|link| self.networks(link).contains(&reachable.network))
        });
        found
    }

    /// The networks of a link.
    fn networks(&self, link: usize) -> Vec<IpNet> {
        let mut networks: Vec<IpNet> = self.topology.links[link]
            .between
            .iter()
            .flat_map(|node| &self.interfaces[*node])
            .filter(|interface| interface.link == link)
            .flat_map(|interface| interface.addresses.iter().map(IpNet::trunc))
            .collect();
        networks.sort();
        networks.dedup();
        networks
    }
}

/// The interface that is nearest to each network; of equal ones the first.
fn nearest(reachable: &[Vec<ReachableNetwork>]) -> Vec<(IpNet, usize)> {
    let mut all: Vec<(IpNet, usize, usize)> = reachable
        .iter()
        .enumerate()
        .flat_map(|(interface, found)| found.iter().map(move |one| (one, interface)))
        .map(|(found, interface)| (found.network, found.hops, interface))
        .collect();
    all.sort();
    all.dedup_by_key(|(network, ..)| *network);
    all.into_iter()
        .map(|(network, _, interface)| (network, interface))
        .collect()
}

/// Gives out networks that nobody has.
struct FreeNetworks {
    next: u16,
    taken: Vec<IpNet>,
}

/// The networks of a link, of which the topology says nothing.
#[derive(Clone, Copy)]
struct LinkNetworks {
    v4: Ipv4Addr,
    v6: Ipv6Addr,
}

impl FreeNetworks {
    /// 10.n.0.0/24 (10.0.1.0/24 after n = 255) and fd00:n::/64 (n in hexadecimal), with the least n that is free.
    /// There are more than links may be.
    fn take(&mut self) -> Option<LinkNetworks> {
        while self.next < LAST_NETWORK {
            let [high, low] = self.next.to_be_bytes();
            let networks = LinkNetworks {
                v4: Ipv4Addr::new(10, low, high, 0),
                v6: Ipv6Addr::new(0xfd00, self.next, 0, 0, 0, 0, 0, 0),
            };
            self.next += 1;
            let overlaps = |taken: &IpNet| {
                networks.addresses(0).iter().any(|network| {
                    network.contains(&taken.addr()) || taken.contains(&network.addr())
                })
            };
            if !self.taken.iter().any(overlaps) {
                return Some(networks);
            }
        }
        None
    }
}

impl LinkNetworks {
    fn addresses(self, number: u8) -> Vec<IpNet> {
        let v4 = Ipv4Addr::from_bits(self.v4.to_bits() | u32::from(number));
        let v6 = Ipv6Addr::from_bits(self.v6.to_bits() | u128::from(number));
        let v4 = Ipv4Net::new(v4, 24).ok().map(IpNet::from);
        let v6 = Ipv6Net::new(v6, 64).ok().map(IpNet::from);
        v4.into_iter().chain(v6).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ready_made;

    fn plan(name: &str) -> Plan {
        let text = ready_made(name).unwrap().text;
        Plan::new(Topology::parse(text, &[]).unwrap()).unwrap()
    }

    fn addresses(plan: &Plan, node: &str) -> Vec<String> {
        let node = plan.topology.node(node).unwrap();
        plan.addresses(node)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn addresses_are_those_that_the_comments_tell() {
        let router = plan("router");
        assert_eq!(addresses(&router, "client"), ["10.1.0.2", "fd00:1::2"]);
        assert_eq!(addresses(&router, "server"), ["10.2.0.2", "fd00:2::2"]);
        assert_eq!(addresses(&router, "router")[..2], ["10.1.0.1", "10.2.0.1"]);
        let two = plan("two-hosts");
        assert_eq!(addresses(&two, "client")[0], "10.1.0.1");
        assert_eq!(addresses(&two, "server")[0], "10.1.0.2");
        let hosts = router.hosts_file();
        assert!(hosts.contains("10.2.0.2 server\n"), "{hosts}");
    }

    #[test]
    fn paths_of_a_host_with_two_interfaces_stay_apart() {
        let plan = plan("multihomed");
        let client = plan.topology.node("client").unwrap();
        let routing = plan.routing(client);
        let routes = |destination: &str| -> Vec<(NextHop, Option<u32>)> {
            let destination = destination.parse().unwrap();
            let routes = routing.routes.iter();
            routes
                .filter(|route| route.destination == destination)
                .map(|route| (route.next_hop.clone(), route.table))
                .collect()
        };
        for (interface, table, networks, addresses) in [
            (
                "eth0",
                1000,
                ["10.2.0.0/24", "fd00:2::/64"],
                ["10.1.0.2", "fd00:1::2"],
            ),
            (
                "eth1",
                1001,
                ["10.4.0.0/24", "fd00:4::/64"],
                ["10.3.0.2", "fd00:3::2"],
            ),
        ] {
            let next_hop = NextHop::Interface(interface.to_owned());
            for network in networks {
                let expected = [(next_hop.clone(), None), (next_hop.clone(), Some(table))];
                assert_eq!(routes(network), expected, "{network}");
            }
            for address in addresses {
                let rule = (address.parse().unwrap(), table);
                assert!(routing.rules.contains(&rule), "{rule:?} in {routing:?}");
            }
        }
    }

    #[test]
    fn addresses_that_are_written_down_are_left_out_of_the_plan() {
        let text = r#"
            host = [{ name = "a" }, { name = "b" }]
            link = [
                { name = "one", between = ["a", "b"], addresses = [["10.1.0.9/24"], ["10.1.0.8/24"]] },
                { name = "two", between = ["a", "b"] },
            ]"#;
        let plan = Plan::new(Topology::parse(text, &[]).unwrap()).unwrap();
        assert_eq!(addresses(&plan, "a"), ["10.1.0.9", "10.2.0.1", "fd00:2::1"]);
        assert_eq!(addresses(&plan, "b"), ["10.1.0.8", "10.2.0.2", "fd00:2::2"]);
    }

    #[test]
    fn addresses_that_take_everything_leave_nothing() {
        let text = r#"
            host = [{ name = "a" }, { name = "b" }]
            link = [
                { name = "one", between = ["a", "b"], addresses = [["10.1.0.9/8"], ["10.1.0.8/8"]] },
                { name = "two", between = ["a", "b"] },
            ]"#;
        assert!(Plan::new(Topology::parse(text, &[]).unwrap()).is_err());
    }
}
