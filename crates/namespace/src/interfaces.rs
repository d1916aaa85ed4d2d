//! Where the interfaces of a network namespace lead.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixDatagram;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// Whether all interfaces of this thread's network namespace that are up, but loopback, are TUN
/// devices: what they send goes to a program, and not to a wire.
pub(crate) fn are_all_tun() -> io::Result<bool> {
    // Interface requests go to the namespace of the socket, whatever its family (netdevice(7)).
    let socket = UnixDatagram::unbound()?;
    for interface in getifaddrs()? {
        let leads_out = interface.flags.contains(InterfaceFlags::IFF_UP)
            && !interface.flags.contains(InterfaceFlags::IFF_LOOPBACK);
        // One for each address: the name of an address may have a label behind it (ip-address(8)).
        let name = interface.interface_name.split(':').next();
        if leads_out && !is_tun(&socket, name.unwrap_or_default())? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Asks the driver of an interface who it is; TAP devices have the same one on another bus.
fn is_tun(socket: impl AsFd, interface: &str) -> io::Result<bool> {
    /// `struct ethtool_drvinfo` of linux/ethtool.h.
    #[repr(C)]
    struct DriverInformation {
        command: u32,
        driver: [u8; 32],
        version: [u8; 32],
        firmware_version: [u8; 32],
        bus: [u8; 32],
        others: [u8; 64],
    }
    /// Of linux/sockios.h.
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    /// Of linux/ethtool.h.
    const ETHTOOL_GDRVINFO: u32 = 3;

    let mut information = DriverInformation {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        version: [0; 32],
        firmware_version: [0; 32],
        bus: [0; 32],
        others: [0; 64],
    };
    // SAFETY: an array of numbers and a union of numbers, of structures of such, and of a pointer; zeros are
    // valid for each.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The zero at the end of the name stays.
    let room = libc::IFNAMSIZ - 1;
    for (to, from) in request
        .ifr_name
        .iter_mut()
        .take(room)
        .zip(interface.bytes())
    {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut information).cast();
    // SAFETY: the descriptor is open while it is borrowed. SIOCETHTOOL reads one `ifreq`, and through its
    // pointer reads and writes one `ethtool_drvinfo` for this command; both live until the call is over, and
    // the kernel keeps no pointer to them.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if result == -1 {
        let error = io::Error::last_os_error();
        // A driver that does not say who it is.
        return match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => Ok(false),
            _ => Err(error),
        };
    }
    let is = |field: &[u8], text: &[u8]| field.split(|octet| *octet == 0).next() == Some(text);
    Ok(is(&information.driver, b"tun") && is(&information.bus, b"tun"))
}
