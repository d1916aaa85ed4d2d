//! Lists of addresses in INIT and INIT ACK (RFC 9260 sections 3.3.2.1 and 5.1.2): which of the peer's
//! are taken, and which of ours are told.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::packet::{Parameter, ParameterBuffer, ParameterType, TypeList};

/// The kinds of addresses that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Families {
    pub(crate) ipv4: bool,
    pub(crate) ipv6: bool,
}

impl Families {
    /// All of them.
    pub(crate) const ALL: Families = Families {
        ipv4: true,
        ipv6: true,
    };

    /// Those of some addresses.
    pub(crate) fn of<'a>(addresses: impl IntoIterator<Item = &'a IpAddr>) -> Families {
        let mut families = Families {
            ipv4: false,
            ipv6: false,
        };
        for address in addresses {
            families.add(*address);
        }
        families
    }

    /// Counts that of an address in.
    pub(crate) fn add(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(_) => self.ipv4 = true,
            IpAddr::V6(_) => self.ipv6 = true,
        }
    }

    /// Counts in what a Supported Address Types parameter lists; other types are ignored
    /// (section 3.3.2.1.5).
    pub(crate) fn add_types(&mut self, types: TypeList<'_>) {
        for address_type in types.iter() {
            match address_type {
                ParameterType::IPV4_ADDRESS => self.ipv4 = true,
                ParameterType::IPV6_ADDRESS => self.ipv6 = true,
                _ => {}
            }
        }
    }

    /// Whether an address is of one of them.
    pub(crate) fn contain(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(_) => self.ipv4,
            IpAddr::V6(_) => self.ipv6,
        }
    }
}

/// By which rules the addresses that the peer lists are taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddressRules<'a> {
    /// Where the list came from: it is one of the peer's addresses anyway, and is not taken twice.
    pub(crate) source: IpAddr,
    /// The kinds that we can send to.
    pub(crate) families: Families,
    /// How many addresses the peer may have, the source included.
    pub(crate) max: usize,
    /// Our own addresses, those that peers are told and those of the whole host: they are not the
    /// peer's, unless it is on the same host.
    pub(crate) own: [&'a [IpAddr]; 2],
}

impl<'a> AddressRules<'a> {
    /// The rules for what came from `source` to an endpoint that tells peers of `local` on a host
    /// with the addresses `host`. When `local` is empty, other addresses of the kind of `source` can
    /// be reached as well as that.
    pub(crate) fn new(
        source: IpAddr,
        local: &'a [IpAddr],
        host: &'a [IpAddr],
        max: usize,
    ) -> AddressRules<'a> {
        let mut families = Families::of(local);
        families.add(source);
        let own = [local, host];
        let is_on_this_host =
            is_loopback(source) || own.iter().any(|addresses| addresses.contains(&source));
        AddressRules {
            source,
            families,
            max,
            own: if is_on_this_host { [&[]; 2] } else { own },
        }
    }

    /// Whether an address can be the peer's, and we can send to it.
    pub(crate) fn allow(&self, address: IpAddr) -> bool {
        is_unicast(address)
            && fits_scope(address, self.source)
            && self.families.contain(address)
            && !self.own.iter().any(|own| own.contains(&address))
    }
}

/// The addresses of a peer as they are taken from its list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PeerAddresses {
    /// Those besides the source.
    pub(crate) addresses: Vec<IpAddr>,
    /// How many were left out: of no use to us, or too many.
    pub(crate) left_out: u64,
    /// Whether there was a list at all.
    pub(crate) is_listed: bool,
}

impl PeerAddresses {
    /// Takes in one listed address.
    pub(crate) fn add(&mut self, address: IpAddr, rules: &AddressRules<'_>) {
        self.is_listed = true;
        if address == rules.source || self.addresses.contains(&address) {
            return;
        }
        if rules.allow(address) && self.addresses.len() + 1 < rules.max {
            self.addresses.push(address);
        } else {
            self.left_out += 1;
        }
    }
}

/// Whether an address can be that of one host at all.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            !address.is_multicast() && !address.is_broadcast() && !address.is_unspecified()
        }
        IpAddr::V6(address) => !address.is_multicast() && !address.is_unspecified(),
    }
}

/// Whether an address means the same host to someone who is reached by `other` as to ourselves:
/// those that hold on one host or one link only are used where the other one is such an address,
/// too.
fn fits_scope(address: IpAddr, other: IpAddr) -> bool {
    if is_loopback(address) {
        return is_loopback(other);
    }
    if is_link_local(address) {
        return is_link_local(other) || is_loopback(other);
    }
    match address {
        // "This network", and addresses that are reserved.
        IpAddr::V4(address) => !matches!(address.octets(), [0 | 240.., ..]),
        // Section 3.3.2.1.2 forbids to list IPv4-mapped addresses; IPv4-compatible ones are no more.
        IpAddr::V6(address) => address.to_ipv4().is_none(),
    }
}

fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => address == Ipv6Addr::LOCALHOST,
    }
}

/// Whether an address means a host on one link only.
pub(crate) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => Ipv4Addr::is_link_local(&address),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Whether there are several addresses of our own to tell a peer at `remote` of.
pub(crate) fn lists_own(local: &[IpAddr], remote: IpAddr) -> bool {
    local
        .iter()
        .filter(|address| fits_scope(**address, remote))
        .count()
        >= 2
}

/// Writes our own addresses for the peer at `remote`, which can send to `families`, into at most
/// `room` bytes. None are written when there are not several to choose from.
pub(crate) fn write_own(
    parameters: &mut ParameterBuffer,
    local: &[IpAddr],
    remote: IpAddr,
    families: Families,
    room: usize,
) {
    let suits = |address: &&IpAddr| fits_scope(**address, remote) && families.contain(**address);
    if !lists_own(local, remote) || local.iter().filter(suits).count() < 2 {
        return;
    }
    let mut left = room;
    for address in local.iter().filter(suits) {
        let (parameter, size) = match address {
            IpAddr::V4(address) => (Parameter::Ipv4Address(*address), 8),
            IpAddr::V6(address) => (Parameter::Ipv6Address(*address), 20),
        };
        let Some(rest) = left.checked_sub(size) else {
            return;
        };
        left = rest;
        let _ = parameters.push(&parameter);
    }
}

/// Writes which kinds of addresses we can send to, when that is not all of them
/// (section 3.3.2.1.5).
pub(crate) fn write_supported(parameters: &mut ParameterBuffer, local: &[IpAddr]) {
    let type_of = |families: Families| match families {
        Families {
            ipv4: true,
            ipv6: false,
        } => Some(ParameterType::IPV4_ADDRESS),
        Families {
            ipv4: false,
            ipv6: true,
        } => Some(ParameterType::IPV6_ADDRESS),
        _ => None,
    };
    if let Some(only) = type_of(Families::of(local)) {
        let types = [only.to_be_bytes()];
        let _ = parameters.push(&Parameter::SupportedAddressTypes(TypeList::new(&types)));
    }
}

/// The addresses as parameters, for an error cause (section 3.3.10.11).
pub(crate) fn as_parameters(addresses: &[IpAddr]) -> ParameterBuffer {
    let mut parameters = ParameterBuffer::new();
    for address in addresses {
        let _ = parameters.push(&Parameter::from(*address));
    }
    parameters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn taken(source: &str, local: &[IpAddr], listed: &[&str]) -> PeerAddresses {
        taken_on(&[], source, local, listed)
    }

    fn taken_on(host: &[IpAddr], source: &str, local: &[IpAddr], listed: &[&str]) -> PeerAddresses {
        let rules = AddressRules::new(ip(source), local, host, 4);
        let mut peer = PeerAddresses::default();
        for address in listed {
            peer.add(ip(address), &rules);
        }
        peer
    }

    #[test]
    fn takes_what_can_be_a_peers_address_and_nothing_twice() {
        let listed = [
            "192.0.2.1",
            "192.0.2.2",
            "192.0.2.2",
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "169.254.1.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "2001:db8::1",
        ];
        let peer = taken("192.0.2.1", &[], &listed);
        assert_eq!(peer.addresses, [ip("192.0.2.2")]);
        assert_eq!(peer.left_out, 8);
        assert!(peer.is_listed);
    }

    #[test]
    fn takes_addresses_of_the_kinds_that_we_have() {
        let listed = [
            "2001:db8::1",
            "::1",
            "::",
            "fe80::1",
            "ff02::1",
            "::ffff:192.0.2.9",
            "192.0.2.2",
        ];
        let both = [ip("198.51.100.1"), ip("2001:db8::2")];
        let peer = taken("192.0.2.1", &both, &listed);
        assert_eq!(peer.addresses, [ip("2001:db8::1"), ip("192.0.2.2")]);
        let peer = taken("2001:db8::9", &both[1..], &listed);
        assert_eq!(peer.addresses, [ip("2001:db8::1")]);
    }

    #[test]
    fn takes_loopback_addresses_from_loopback_only() {
        let peer = taken("127.0.0.1", &[], &["127.0.0.2", "192.0.2.1"]);
        assert_eq!(peer.addresses, [ip("127.0.0.2"), ip("192.0.2.1")]);
    }

    #[test]
    fn takes_our_own_addresses_from_our_own_host_only() {
        let local = [ip("192.0.2.8"), ip("192.0.2.9")];
        let listed = ["192.0.2.1", "192.0.2.8", "192.0.2.9"];
        let peer = taken("192.0.2.1", &local, &listed);
        assert_eq!((peer.addresses.len(), peer.left_out), (0, 2));
        let peer = taken("192.0.2.8", &local, &listed);
        assert_eq!((peer.addresses.len(), peer.left_out), (2, 0));
    }

    #[test]
    fn takes_no_address_of_our_host_whether_or_not_peers_are_told_of_it() {
        let host = [ip("172.17.0.1"), ip("192.0.2.8")];
        let listed = ["192.0.2.1", "172.17.0.1", "192.0.2.2"];
        for local in [&[][..], &[ip("192.0.2.8")]] {
            let peer = taken_on(&host, "192.0.2.1", local, &listed);
            assert_eq!(peer.addresses, [ip("192.0.2.2")]);
        }
        // A peer on the same host has them as well.
        for source in ["192.0.2.8", "127.0.0.1", "127.0.0.9"] {
            let peer = taken_on(&host, source, &[], &["172.17.0.1"]);
            assert_eq!(peer.addresses, [ip("172.17.0.1")], "{source}");
        }
    }

    #[test]
    fn takes_no_more_than_its_bound() {
        let listed: Vec<String> = (2..10).map(|number| format!("192.0.2.{number}")).collect();
        let listed: Vec<&str> = listed.iter().map(String::as_str).collect();
        let peer = taken("192.0.2.1", &[], &listed);
        assert_eq!(peer.addresses.len(), 3);
        assert_eq!(peer.left_out, 5);
    }

    fn own(local: &[&str], remote: &str, families: Families, room: usize) -> usize {
        let local: Vec<IpAddr> = local.iter().map(|address| ip(address)).collect();
        let mut parameters = ParameterBuffer::new();
        write_own(&mut parameters, &local, ip(remote), families, room);
        parameters.parameters().iter().count()
    }

    #[test]
    fn tells_the_addresses_that_the_peer_can_use_and_has_room_for() {
        let local = ["127.0.0.1", "192.0.2.1", "192.0.2.2", "2001:db8::1"];
        assert_eq!(own(&local, "198.51.100.1", Families::ALL, 100), 3);
        assert_eq!(own(&local, "127.0.0.1", Families::ALL, 100), 4);
        let ipv4 = Families::of(&[ip("192.0.2.1")]);
        assert_eq!(own(&local, "198.51.100.1", ipv4, 100), 2);
        assert_eq!(own(&local, "198.51.100.1", ipv4, 15), 1);
        assert_eq!(own(&local[..2], "198.51.100.1", Families::ALL, 100), 0);
    }

    #[test]
    fn tells_the_kinds_only_when_one_is_missing() {
        for (local, expected) in [
            (&["192.0.2.1", "2001:db8::1"][..], None),
            (&["2001:db8::1"], Some(ParameterType::IPV6_ADDRESS)),
            (&["192.0.2.1"], Some(ParameterType::IPV4_ADDRESS)),
            (&[], None),
        ] {
            let local: Vec<IpAddr> = local.iter().map(|address| ip(address)).collect();
            let mut parameters = ParameterBuffer::new();
            write_supported(&mut parameters, &local);
            let mut families = Families::of(&[]);
            for parameter in parameters.parameters() {
                if let Ok(Parameter::SupportedAddressTypes(types)) = parameter {
                    families.add_types(types);
                }
            }
            let told = match families {
                Families { ipv4: true, .. } => Some(ParameterType::IPV4_ADDRESS),
                Families { ipv6: true, .. } => Some(ParameterType::IPV6_ADDRESS),
                _ => None,
            };
            assert_eq!(told, expected);
        }
    }
}
