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
    let is_meant = |address: IpAddr, flags: InterfaceFlags| {
        let leads_on = !flags.contains(InterfaceFlags::IFF_LOOPBACK);
        let mut meant = addresses.iter();
        meant.any(|meant| meant.is_unspecified() && leads_on || *meant == address)
    };
    let names: BTreeSet<String> = getifaddrs()
        .ok()?
        .filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP))
        .filter(|interface| {
            let address = interface.address.as_ref().and_then(ip_address);
            address.is_some_and(|address| is_meant(address, interface.flags))
        })
        .map(|interface| interface.interface_name)
        .collect();
    names.iter().filter_map(|name| mtu_of(name)).max()
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
    fn the_loopback_interface_carries_more_than_an_ethernet() {
        let of_loopback = interface_mtu(&[Ipv4Addr::LOCALHOST.into()]).expect("an interface");
        assert!(of_loopback > 1500, "{of_loopback}");
        assert_eq!(mtu_of("lo:1"), Some(of_loopback));
        // It is not among all: few peers are on this host.
        let of_all = interface_mtu(&[Ipv4Addr::UNSPECIFIED.into()]);
        assert_ne!(of_all, Some(of_loopback));
        assert_eq!(interface_mtu(&[Ipv4Addr::new(192, 0, 2, 1).into()]), None);
        assert_eq!(interface_mtu(&[]), None);
    }
}
