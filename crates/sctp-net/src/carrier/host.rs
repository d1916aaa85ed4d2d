//! The addresses of this host.

use std::io;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use super::raw_socket::ip_address;

/// The addresses of all interfaces that are up, whether or not they have a carrier at the moment.
pub(crate) fn addresses_of_host() -> io::Result<Vec<IpAddr>> {
    let addresses = getifaddrs()?
        .filter(|interface| interface.flags.contains(InterfaceFlags::IFF_UP))
        .filter_map(|interface| ip_address(&interface.address?))
        .collect();
    Ok(addresses)
}
