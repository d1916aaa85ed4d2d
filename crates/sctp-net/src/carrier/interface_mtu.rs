//! How large the packets of local interfaces may be.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use super::raw_socket::ip_address;

/// The largest IP packet, headers included, in bytes, that an interface carries which has one of these addresses; with a
/// wildcard address among them, any interface that is up and leads to other hosts. `None` where the system does not tell.
///
/// It is what `mtu` of [`EndpointConfig`](crate::EndpointConfig) may be for a port that has these addresses: what each
/// path carries is looked for from there (RFC 8899), and the network interface that takes less says so at once.
pub fn interface_mtu(addresses: &[IpAddr]) -> Option<usize> {
    let interfaces = getifaddrs().ok()?.filter_map(|interface| {
        let address = interface.address.as_ref().and_then(ip_address)?;
        Some((interface.interface_name, interface.flags, address))
    });
    let names = meant(addresses, interfaces);
    names.iter().filter_map(|name| mtu_of(name)).max()
}

/// The names of the interfaces that are meant by these addresses.
fn meant(
    addresses: &[IpAddr],
    interfaces: impl Iterator<Item = (String, InterfaceFlags, IpAddr)>,
) -> BTreeSet<String> {
    let is_meant = |address: IpAddr, flags: InterfaceFlags| {
        let leads_on = !flags.contains(InterfaceFlags::IFF_LOOPBACK);
        let mut meant = addresses.iter();
        meant.any(|meant| meant.is_unspecified() && leads_on || *meant == address)
    };
    interfaces
        .filter(|(_, flags, _)| flags.contains(InterfaceFlags::IFF_UP))
        .filter(|(_, flags, address)| is_meant(*address, *flags))
        .map(|(name, ..)| name)
        .collect()
}

fn mtu_of(name: &str) -> Option<usize> {
    // A further address may have a label of its own.
    let (interface, _) = name.split_once(':').unwrap_or((name, ""));
    let text = fs::read_to_string(format!("/sys/class/net/{interface}/mtu")).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_system_tells_what_the_loopback_interface_carries() {
        let of_loopback = interface_mtu(&[Ipv4Addr::LOCALHOST.into()]).expect("an interface");
        assert_eq!(mtu_of("lo:1"), Some(of_loopback));
        // Addresses for documentation (RFC 5737).
        assert_eq!(interface_mtu(&[Ipv4Addr::new(192, 0, 2, 1).into()]), None);
        assert_eq!(interface_mtu(&[]), None);
    }

    #[test]
    fn interfaces_are_found_by_their_addresses() {
        let up = InterfaceFlags::IFF_UP;
        let interfaces = [
            ("lo", up | InterfaceFlags::IFF_LOOPBACK, "127.0.0.1"),
            ("lo", up | InterfaceFlags::IFF_LOOPBACK, "::1"),
            ("eth0", up, "192.0.2.1"),
            ("eth0:1", up, "192.0.2.2"),
            ("eth1", up, "2001:db8::1"),
            ("eth2", InterfaceFlags::empty(), "192.0.2.3"),
        ];
        let meant = |addresses: &[&str]| {
            let addresses: Vec<IpAddr> = addresses.iter().map(|a| a.parse().unwrap()).collect();
            let interfaces = interfaces
                .iter()
                .map(|(name, flags, address)| ((*name).into(), *flags, address.parse().unwrap()));
            let names: Vec<String> = meant(&addresses, interfaces).into_iter().collect();
            names.join(" ")
        };
        assert_eq!(meant(&["127.0.0.1"]), "lo");
        assert_eq!(meant(&["192.0.2.2", "::1"]), "eth0:1 lo");
        // The loopback interface is not among all: few peers are on this host.
        assert_eq!(meant(&["0.0.0.0"]), "eth0 eth0:1 eth1");
        assert_eq!(meant(&["192.0.2.1", "::"]), "eth0 eth0:1 eth1");
        assert_eq!(meant(&["192.0.2.3"]), "");
        assert_eq!(meant(&["192.0.2.9"]), "");
        assert_eq!(meant(&[]), "");
    }
}
