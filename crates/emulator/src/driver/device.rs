//! Where packets come from and go to.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::io::Errno;
use socket2::{Domain, Socket, Type};

use super::kernel;
use crate::config::Framing;

/// The device of an interface of a host: what the host sends is read from it, what it receives is written
/// to it.
#[derive(Debug)]
pub struct Device {
    descriptor: OwnedFd,
    framing: Framing,
}

/// How much the kernel keeps of what a packet socket hears, until it is read.
const RECEIVE_BUFFER: usize = 4 << 20;

impl Device {
    /// Makes a TUN device in the network namespace of the calling thread. It is down and has no address, and is
    /// gone as soon as it is closed, so also after a crash. The kernel hands over whole packets of at most
    /// its MTU, with finished checksums, since it is told of no offload.
    ///
    /// # Errors
    ///
    /// When there is an interface of that name, the thread may not make one, or the machine has no TUN.
    pub fn create_tun(name: &str) -> io::Result<Device> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")?;
        kernel::make_tun(&file, name)?;
        Ok(Device {
            descriptor: file.into(),
            framing: Framing::Ip,
        })
    }

    /// Opens a packet socket on an interface in the network namespace of the calling thread. It takes all
    /// frames that the interface receives; those that the machine itself sends are not among them. The machine
    /// receives them too, so the interface should have no address. Offloads of whoever is at the other end
    /// have to be off ([`switch_off_offloads`]): frames longer than the MTU cannot be passed on.
    ///
    /// # Errors
    ///
    /// When there is no such interface, or the thread may not.
    pub fn open_interface(name: &str) -> io::Result<Device> {
        let index = nix::net::if_::if_nametoindex(name).map_err(io::Error::from)?;
        // No protocol: nothing is received before it is bound.
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        socket.set_nonblocking(true)?;
        socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        kernel::ignore_outgoing(&socket)?;
        kernel::bind_to_interface(&socket, index)?;
        kernel::receive_everything(&socket, index)?;
        Ok(Device {
            descriptor: socket.into(),
            framing: Framing::Ethernet,
        })
    }

    /// What its packets begin with.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Reads a packet, which the host has sent; `None` when there is none. What does not fit into the buffer
    /// is cut off.
    ///
    /// # Errors
    ///
    /// When the interface is gone, or the kernel says anything else.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.descriptor, &mut *buffer) {
                Ok(length) => return Ok(Some(length)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes a packet, which the host receives.
    ///
    /// # Errors
    ///
    /// When the interface is down or gone, the kernel has no room, or does not take what the octets are.
    pub fn send(&self, octets: &[u8]) -> io::Result<()> {
        loop {
            match rustix::io::write(&self.descriptor, octets) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Switches off what an interface does for its kernel: checksums, segments, and putting segments together. Then
/// packets leave it as they would go over a wire. In the network namespace of the calling thread; what an
/// interface cannot do is off.
///
/// # Errors
///
/// When there is no such interface, or the thread may not.
pub fn switch_off_offloads(interface: &str) -> io::Result<()> {
    /// The commands that set one value, of linux/ethtool.h.
    const RECEIVE_CHECKSUM: u32 = 0x15;
    const SEND_CHECKSUM: u32 = 0x17;
    const TCP_SEGMENTATION: u32 = 0x1f;
    const SEGMENTATION: u32 = 0x24;
    const RECEIVE_TOGETHER: u32 = 0x2c;

    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    for command in [
        TCP_SEGMENTATION,
        SEGMENTATION,
        RECEIVE_TOGETHER,
        RECEIVE_CHECKSUM,
        SEND_CHECKSUM,
    ] {
        match kernel::set_ethtool(&socket, interface, command, 0) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            result => result?,
        }
    }
    Ok(())
}
