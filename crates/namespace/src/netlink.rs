//! Links, addresses, routes and rules of a namespace, set by rtnetlink(7).

use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use ipnet::IpNet;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage,
};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::sys::socket::{
    MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, connect, recv, send, socket,
};

use crate::Namespace;

/// The kernel's longest answer: iproute2 expects no longer one either.
const LONGEST_ANSWER: usize = 32 << 10;

/// A request that makes something, and is refused if that exists.
const CREATE: u16 = NLM_F_CREATE | NLM_F_EXCL;

/// A netlink socket in a namespace. Each request waits for the kernel's acknowledgement.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence_number: u32,
}

/// A route to a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The network; `0.0.0.0/0` is the default route.
    pub destination: IpNet,
    /// How packets get there.
    pub next_hop: NextHop,
    /// The routing table; `None` is the main one.
    pub table: Option<u32>,
}

/// How the packets of a route leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextHop {
    /// By this interface, whose link has the destination or leads there.
    Interface(String),
    /// To a gateway on the link of an interface.
    Gateway(IpAddr),
}

/// The kernel refused a request.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}: {error}{}", advice(.error, .requirement))]
pub struct NetlinkError {
    /// The request, in words.
    action: String,
    /// The kernel's answer.
    error: io::Error,
    /// The part of the kernel that the request needs.
    requirement: &'static str,
}

impl Namespace {
    /// Opens a netlink socket in the namespace.
    ///
    /// # Errors
    ///
    /// The namespace cannot be entered, or the process has too many descriptors.
    pub fn netlink(&self) -> Result<Netlink, NetlinkError> {
        let open = || -> io::Result<OwnedFd> {
            let family = nix::sys::socket::AddressFamily::Netlink;
            let protocol = SockProtocol::NetlinkRoute;
            let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
            // Port 0 is the kernel: nobody else's messages are received then.
            connect(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
            Ok(socket)
        };
        let socket = self
            .run(open)
            .and_then(|socket| socket)
            .map_err(|error| NetlinkError {
                action: "open a netlink socket in the namespace".to_owned(),
                error,
                requirement: "CONFIG_NET",
            })?;
        Ok(Netlink {
            socket,
            sequence_number: 0,
        })
    }
}

impl Netlink {
    /// Lets an interface carry packets.
    ///
    /// # Errors
    ///
    /// There is no such interface, or the kernel refuses.
    pub fn set_link_up(&mut self, interface: &str) -> Result<(), NetlinkError> {
        self.set_link(interface, "up", None)
    }

    /// Sets the longest packet of an interface, in octets.
    ///
    /// # Errors
    ///
    /// There is no such interface, or the kernel refuses.
    pub fn set_link_mtu(&mut self, interface: &str, mtu: u32) -> Result<(), NetlinkError> {
        self.set_link(
            interface,
            format!("to an MTU of {mtu}"),
            Some(LinkAttribute::Mtu(mtu)),
        )
    }

    /// Sets how many packets may wait until an interface takes them.
    ///
    /// # Errors
    ///
    /// There is no such interface, or the kernel refuses.
    pub fn set_link_queue(&mut self, interface: &str, packets: u32) -> Result<(), NetlinkError> {
        self.set_link(
            interface,
            format!("to a queue of {packets} packets"),
            Some(LinkAttribute::TxQueueLen(packets)),
        )
    }

    /// Deletes an interface.
    ///
    /// # Errors
    ///
    /// There is no such interface, or the kernel refuses.
    pub fn delete_link(&mut self, interface: &str) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(interface.to_owned())];
        self.request(0, RouteNetlinkMessage::DelLink(message))
            .map(drop)
            .map_err(failed("delete interface", interface, "CONFIG_NET"))
    }

    /// Makes a pair of virtual Ethernet interfaces: `interface` here and `peer` in another namespace. They are down
    /// and have no addresses.
    ///
    /// # Errors
    ///
    /// There is such an interface, or the kernel refuses.
    pub fn add_veth(
        &mut self,
        interface: &str,
        peer: &str,
        namespace: &Namespace,
    ) -> Result<(), NetlinkError> {
        let mut other = LinkMessage::default();
        other.attributes = vec![
            LinkAttribute::IfName(peer.to_owned()),
            LinkAttribute::NetNsFd(namespace.file.as_raw_fd()),
        ];
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(interface.to_owned()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
            ]),
        ];
        self.request(CREATE, RouteNetlinkMessage::NewLink(message))
            .map(drop)
            .map_err(failed(
                "make the veth interface",
                interface,
                "the module veth (modprobe veth)",
            ))
    }

    /// Gives an interface an address, with the length of its network's prefix. The address is usable at once:
    /// for IPv6, there is no duplicate address detection.
    ///
    /// # Errors
    ///
    /// There is no such interface, it has the address, or the kernel refuses.
    pub fn add_address(&mut self, interface: &str, address: IpNet) -> Result<(), NetlinkError> {
        self.address_message(interface, address)
            .and_then(|message| self.request(CREATE, RouteNetlinkMessage::NewAddress(message)))
            .map(drop)
            .map_err(failed(
                "add the address",
                format!("{address} to {interface}"),
                family_requirement(address.addr()),
            ))
    }

    /// Takes an address from an interface.
    ///
    /// # Errors
    ///
    /// There is no such interface, it does not have the address, or the kernel refuses.
    pub fn delete_address(&mut self, interface: &str, address: IpNet) -> Result<(), NetlinkError> {
        self.address_message(interface, address)
            .and_then(|message| self.request(0, RouteNetlinkMessage::DelAddress(message)))
            .map(drop)
            .map_err(failed(
                "delete the address",
                format!("{address} of {interface}"),
                family_requirement(address.addr()),
            ))
    }

    /// Adds a route.
    ///
    /// # Errors
    ///
    /// There is such a route, the next hop cannot be reached, or the kernel refuses.
    pub fn add_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        self.route_message(route)
            .and_then(|message| self.request(CREATE, RouteNetlinkMessage::NewRoute(message)))
            .map(drop)
            .map_err(failed(
                "add the route to",
                match &route.next_hop {
                    NextHop::Interface(interface) => {
                        format!("{} by {interface}", route.destination)
                    }
                    NextHop::Gateway(gateway) => format!("{} by {gateway}", route.destination),
                },
                family_requirement(route.destination.addr()),
            ))
    }

    /// Adds a rule: packets from an address are routed by a table.
    ///
    /// # Errors
    ///
    /// There is such a rule, or the kernel refuses.
    pub fn add_rule(&mut self, source: IpAddr, table: u32) -> Result<(), NetlinkError> {
        let mut message = RuleMessage::default();
        message.header.family = family(source);
        message.header.src_len = IpNet::from(source).prefix_len();
        message.header.action = RuleAction::ToTable;
        message.attributes = vec![
            RuleAttribute::Source(source),
            RuleAttribute::Table(table),
            RuleAttribute::Protocol(RouteProtocol::Boot),
        ];
        self.request(CREATE, RouteNetlinkMessage::NewRule(message))
            .map(drop)
            .map_err(failed(
                "add the rule from",
                format!("{source} to table {table}"),
                "policy routing (CONFIG_IP_MULTIPLE_TABLES, CONFIG_IPV6_MULTIPLE_TABLES)",
            ))
    }

    /// Changes an interface: one attribute, or, without one, whether it is up.
    fn set_link(
        &mut self,
        interface: &str,
        state: impl Display,
        attribute: Option<LinkAttribute>,
    ) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        if attribute.is_none() {
            message.header.flags = LinkFlags::Up;
            message.header.change_mask = LinkFlags::Up;
        }
        message.attributes = vec![LinkAttribute::IfName(interface.to_owned())];
        message.attributes.extend(attribute);
        self.request(0, RouteNetlinkMessage::SetLink(message))
            .map(drop)
            .map_err(failed("set", format!("{interface} {state}"), "CONFIG_NET"))
    }

    fn address_message(&mut self, interface: &str, address: IpNet) -> io::Result<AddressMessage> {
        let mut message = AddressMessage::default();
        message.header.family = family(address.addr());
        message.header.prefix_len = address.prefix_len();
        message.header.index = self.index(interface)?;
        message.attributes = vec![
            AddressAttribute::Local(address.addr()),
            AddressAttribute::Address(address.addr()),
        ];
        if address.addr().is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
            message
                .attributes
                .push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        Ok(message)
    }

    fn route_message(&mut self, route: &Route) -> io::Result<RouteMessage> {
        let destination = route.destination.trunc();
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: family(destination.addr()),
            destination_prefix_length: destination.prefix_len(),
            // A table with a number over 255 is only in the attribute.
            table: match route.table {
                None => RouteHeader::RT_TABLE_MAIN,
                Some(_) => RouteHeader::RT_TABLE_UNSPEC,
            },
            protocol: RouteProtocol::Boot,
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        message.attributes = vec![RouteAttribute::Destination(destination.addr().into())];
        message
            .attributes
            .extend(route.table.map(RouteAttribute::Table));
        message.attributes.push(match &route.next_hop {
            NextHop::Interface(interface) => {
                // Without a gateway, the destination is as near as the link.
                message.header.scope = RouteScope::Link;
                RouteAttribute::Oif(self.index(interface)?)
            }
            NextHop::Gateway(gateway) => RouteAttribute::Gateway((*gateway).into()),
        });
        Ok(message)
    }

    /// The kernel's number of an interface.
    fn index(&mut self, interface: &str) -> io::Result<u32> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(interface.to_owned())];
        match self.request(0, RouteNetlinkMessage::GetLink(message))? {
            Some(RouteNetlinkMessage::NewLink(link)) => Ok(link.header.index),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Sends a request, and waits until the kernel has acknowledged it. Returns the message that came before the
    /// acknowledgement.
    fn request(
        &mut self,
        flags: u16,
        request: RouteNetlinkMessage,
    ) -> io::Result<Option<RouteNetlinkMessage>> {
        self.sequence_number += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence_number;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
        message.finalize();
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        send(self.socket.as_raw_fd(), &octets, MsgFlags::empty())?;

        let mut buffer = vec![0; LONGEST_ANSWER];
        let mut answer = None;
        loop {
            let length = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            let mut octets = &buffer[..length];
            // Several messages may be in what is received at once.
            while !octets.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(octets)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                let length = (message.header.length as usize).next_multiple_of(4);
                octets = octets.get(length..).unwrap_or_default();
                if message.header.sequence_number != self.sequence_number {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(error.to_io());
                    }
                    NetlinkPayload::Error(_) => return Ok(answer),
                    NetlinkPayload::InnerMessage(message) => answer = Some(message),
                    _ => {}
                }
            }
        }
    }
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn family_requirement(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "IPv4 (CONFIG_INET)",
        IpAddr::V6(_) => "IPv6 (CONFIG_IPV6, modprobe ipv6, no ipv6.disable=1)",
    }
}

fn failed(
    action: &str,
    object: impl Display,
    requirement: &'static str,
) -> impl FnOnce(io::Error) -> NetlinkError {
    move |error| NetlinkError {
        action: format!("{action} {object}"),
        error,
        requirement,
    }
}

/// What to do about an error.
fn advice(error: &io::Error, requirement: &str) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "; CAP_NET_ADMIN is missing in the namespace: run it as root".to_owned()
        }
        Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => {
            format!("; this kernel lacks {requirement}")
        }
        Some(libc::EEXIST) => "; delete the old one first".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A netlink socket in a namespace, or a line that says why there is none.
    fn netlink() -> Option<(Namespace, Netlink)> {
        let made = Namespace::new();
        if let Err(error) = &made {
            use std::io::Write;
            writeln!(io::stderr(), "skipped: no network namespace: {error}").ok();
        }
        let namespace = made.ok()?;
        let netlink = namespace.netlink().unwrap();
        Some((namespace, netlink))
    }

    fn route(destination: &str, next_hop: NextHop, table: Option<u32>) -> Route {
        Route {
            destination: destination.parse().unwrap(),
            next_hop,
            table,
        }
    }

    #[test]
    fn a_pair_of_interfaces_carries_packets_by_addresses_routes_and_rules() {
        let Some((left, mut ours)) = netlink() else {
            return;
        };
        let Some((right, mut theirs)) = netlink() else {
            return;
        };
        if let Err(error) = ours.add_veth("one", "other", &right) {
            println!("skipped: {error}");
            return;
        }
        for (netlink, interface, addresses) in [
            (&mut ours, "one", ["10.1.0.1/24", "fd00::1/64"]),
            (&mut theirs, "other", ["10.1.0.2/24", "fd00::2/64"]),
        ] {
            netlink.set_link_up("lo").unwrap();
            netlink.set_link_mtu(interface, 1400).unwrap();
            netlink.set_link_queue(interface, 77).unwrap();
            netlink.set_link_up(interface).unwrap();
            for address in addresses {
                netlink
                    .add_address(interface, address.parse().unwrap())
                    .unwrap();
            }
        }
        let read = |file: &str| left.run(|| std::fs::read_to_string(file).unwrap()).unwrap();
        let devices = read("/proc/thread-self/net/dev");
        assert!(devices.contains("one:"), "{devices}");

        let gateway = NextHop::Gateway("10.1.0.2".parse().unwrap());
        let interface = || NextHop::Interface("one".to_owned());
        ours.add_route(&route("10.9.0.0/16", gateway, None))
            .unwrap();
        ours.add_route(&route("10.8.0.0/16", interface(), None))
            .unwrap();
        ours.add_route(&route("fd08::/32", interface(), None))
            .unwrap();
        // Only a packet from this address finds the way to 10.7.0.0.
        ours.add_route(&route("10.7.0.0/16", interface(), Some(1000)))
            .unwrap();
        ours.add_rule("10.1.0.1".parse().unwrap(), 1000).unwrap();
        ours.add_rule("fd00::1".parse().unwrap(), 1000).unwrap();
        let table = read("/proc/thread-self/net/route");
        // Interface, destination and gateway, in hexadecimal and in the octets' order.
        for line in ["one\t0000090A\t0200010A", "one\t0000080A\t00000000"] {
            assert!(table.contains(line), "{line} in {table}");
        }
        assert!(!table.contains("0000070A"), "{table}");
        let connect = |from: &str, to: &str| {
            left.run(|| {
                let socket = std::net::UdpSocket::bind(from).unwrap();
                socket.connect(to).is_ok()
            })
            .unwrap()
        };
        assert!(connect("10.1.0.1:0", "10.7.0.1:9"));
        assert!(!connect("0.0.0.0:0", "10.7.0.1:9"));
        assert!(connect("[fd00::1]:0", "[fd08::1]:9"));

        ours.delete_address("one", "10.1.0.1/24".parse().unwrap())
            .unwrap();
        let table = read("/proc/thread-self/net/route");
        assert!(!table.contains("0000090A"), "{table}");
        ours.delete_link("one").unwrap();
        let devices = read("/proc/thread-self/net/dev");
        assert!(!devices.contains("one:"), "{devices}");
        // Both ends of a pair go.
        let error = theirs.set_link_up("other").unwrap_err().to_string();
        assert!(error.starts_with("cannot set other up: "), "{error}");
    }

    #[test]
    fn what_is_refused_is_named() {
        let Some((_namespace, mut netlink)) = netlink() else {
            return;
        };
        let address: IpNet = "10.1.0.1/24".parse().unwrap();
        let error = netlink.add_address("nothing", address).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("add the address 10.1.0.1/24 to nothing"),
            "{error}"
        );
        netlink.add_address("lo", address).unwrap();
        let error = netlink.add_address("lo", address).unwrap_err().to_string();
        assert!(error.contains("delete the old one first"), "{error}");
        let refused = |errno| failed("add", "x", "IPv4")(io::Error::from_raw_os_error(errno));
        let error = refused(libc::EPERM).to_string();
        assert!(error.contains("run it as root"), "{error}");
        let error = refused(libc::EOPNOTSUPP).to_string();
        assert!(error.contains("lacks IPv4"), "{error}");
    }
}
