//! What a network is made of: hosts, routers, and links between them.

use ipnet::IpNet;
use link::{LinkConfig, Schedule};

use crate::change_error::ChangeError;
use crate::rule::Rule;

/// A network: its nodes, how they are joined, and what the links do to packets.
///
/// Hosts are outside: their packets come from and go to a device of each of their interfaces. Routers and
/// links exist only in here. Nodes are known by their names, links by theirs.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct NetworkConfig {
    /// Names of the hosts. A host never forwards what is not for it.
    pub hosts: Vec<String>,
    /// Names of the routers.
    pub routers: Vec<String>,
    /// What joins them.
    pub links: Vec<LinkBetween>,
    /// Routes beside those to the addresses of interfaces, which come by themselves.
    pub routes: Vec<StaticRoute>,
    /// What happens to which packets, in their order: the first one that matches a packet acts.
    pub rules: Vec<Rule>,
    /// What the network may take.
    pub limits: Limits,
}

/// A link between two nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkBetween {
    /// The link's name; no two have the same.
    pub name: String,
    /// Where it ends: *forward* is from the first to the second.
    pub ends: [End; 2],
    /// The longest IP packet that it carries, in bytes; at least [`LEAST_MTU`].
    pub mtu: usize,
    /// What it does to packets from the first end to the second.
    pub forward: LinkConfig,
    /// What it does to packets from the second end to the first.
    pub backward: LinkConfig,
    /// Changes to come, forward and backward, their times counted from the beginning of the network.
    pub schedules: [Schedule; 2],
}

/// Where a link ends: an interface of a node.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct End {
    /// The name of the host or router.
    pub node: String,
    /// The name of its interface; no two of a node have the same.
    pub interface: String,
    /// The addresses of the interface, each with the length of its network's prefix. A router without one
    /// in a version of IP cannot send errors in it.
    pub addresses: Vec<IpNet>,
    /// What the packets of a host's interface begin with.
    pub framing: Framing,
}

/// What packets begin with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Framing {
    /// The header of IP, as a TUN device has it.
    #[default]
    Ip,
    /// The header of Ethernet, as a packet socket has it. A link joins two such interfaces of hosts and
    /// takes whole frames from one to the other, ARP and whatever else there is included; there can be no
    /// router at it.
    Ethernet,
}

/// A route of a router. The one with the longest prefix that holds a destination is taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaticRoute {
    /// The name of the router.
    pub router: String,
    /// Where it leads.
    pub destination: IpNet,
    /// The name of the link, one of the router's, that packets to there take.
    pub link: String,
}

/// Bounds on what a network takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Packets that are under way at one time; what comes beyond is dropped and counted.
    pub packets: usize,
    /// Bytes of these.
    pub bytes: usize,
    /// ICMP errors that a router sends a second, and at once after a pause (RFC 1812 section 4.3.2.8, RFC
    /// 4443 section 2.4 (f)).
    pub errors_per_second: u32,
    /// Rules at one time.
    pub rules: usize,
}

/// The least MTU of a link: what IPv4 asks of every link (RFC 791 section 3.2).
pub const LEAST_MTU: usize = 68;

/// The greatest MTU of a link: the longest packet of IPv4 (RFC 791 section 3.1).
pub const GREATEST_MTU: usize = 65_535;

impl Default for Limits {
    /// A million packets, 512 MiB, 1,000 errors a second, 1,000 rules.
    fn default() -> Limits {
        Limits {
            packets: 1_000_000,
            bytes: 512 << 20,
            errors_per_second: 1000,
            rules: 1000,
        }
    }
}

impl LinkBetween {
    /// A perfect link with an MTU of 1,500 bytes.
    pub fn new(name: impl Into<String>, ends: [End; 2]) -> LinkBetween {
        LinkBetween {
            name: name.into(),
            ends,
            mtu: 1500,
            forward: LinkConfig::default(),
            backward: LinkConfig::default(),
            schedules: Default::default(),
        }
    }

    /// The same link, with that config in both directions.
    pub fn with(mut self, config: LinkConfig) -> LinkBetween {
        self.forward = config.clone();
        self.backward = config;
        self
    }
}

impl End {
    /// An interface with these addresses, with IP packets.
    pub fn new(
        node: impl Into<String>,
        interface: impl Into<String>,
        addresses: impl IntoIterator<Item = IpNet>,
    ) -> End {
        End {
            node: node.into(),
            interface: interface.into(),
            addresses: addresses.into_iter().collect(),
            framing: Framing::Ip,
        }
    }
}

/// What is wrong with a [`NetworkConfig`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Two nodes have one name.
    #[error("there are two nodes called {0}")]
    NodeTwice(String),
    /// Two links have one name.
    #[error("there are two links called {0}")]
    LinkTwice(String),
    /// Two interfaces of a node have one name.
    #[error("{node} has two interfaces called {interface}")]
    InterfaceTwice {
        /// The node.
        node: String,
        /// The interface.
        interface: String,
    },
    /// An address is at two interfaces.
    #[error("the address {0} is at two interfaces")]
    AddressTwice(std::net::IpAddr),
    /// A link ends at a node that is not there.
    #[error("the link {link} ends at {node}, which does not exist")]
    NoNode {
        /// The link.
        link: String,
        /// The node.
        node: String,
    },
    /// A link begins and ends at the same node.
    #[error("both ends of the link {0} are at the same node")]
    Loop(String),
    /// A link's MTU is out of range.
    #[error("the MTU of the link {link} is {mtu}; it may be from {LEAST_MTU} to {GREATEST_MTU}")]
    Mtu {
        /// The link.
        link: String,
        /// Its MTU.
        mtu: usize,
    },
    /// An end with Ethernet is not joined to another host's.
    #[error("the link {0} has Ethernet at one end: the other must be a host's, with Ethernet too")]
    Ethernet(String),
    /// A route is of a router that is not there.
    #[error("a route names the router {0}, which does not exist")]
    NoRouter(String),
    /// A route is over a link that its router has not.
    #[error("the route of {router} uses {link}, which is not a link of {router}")]
    NoRouteLink {
        /// The router.
        router: String,
        /// The link.
        link: String,
    },
    /// A rule cannot be.
    #[error(transparent)]
    Rule(#[from] ChangeError),
}
