//! Driver: the packets of an interface, as the kernel hands them over (AF_PACKET, packet(7)).
//!
//! A packet is told with the header that libpcap calls LINKTYPE_LINUX_SLL2, whatever its interface has
//! before IP: who reads such captures reads these.
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, IoSliceMut};
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::net::if_::{if_nameindex, if_nametoindex};
use nix::sys::socket::{ControlMessageOwned, LinkAddr, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

/// What is not an interface but all of them.
pub const ANY: &str = "any";

/// Octets of the header before each packet.
pub const HEADER_LENGTH: usize = 20;

/// How much the kernel keeps until it is read: 32 MiB are seconds of the busiest server.
const KERNEL_BUFFER: usize = 32 << 20;

/// The longest packet: that of IP, and some more.
const LONGEST_PACKET: usize = 1 << 17;

/// Hears the packets of an interface, those that it sends and those that it receives.
#[derive(Debug)]
pub struct PacketSocket {
    socket: Socket,
    /// The number of the interface; `None` for all.
    interface: Option<u32>,
    control: Vec<u8>,
    buffer: Vec<u8>,
    /// The kernel's count of packets that it dropped, which begins anew after 2³².
    overflow: u32,
    dropped: u64,
}

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// When the kernel saw it.
    pub time: SystemTime,
    /// It, behind a header of Linux cooked capture v2.
    pub octets: &'a [u8],
}

/// Why no packets can be heard.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such interface.
    #[error("there is no interface {name}; there are: {others}")]
    NoInterface {
        /// The name that was asked for.
        name: String,
        /// Those that there are.
        others: String,
    },
    /// The kernel does not allow it.
    #[error(
        "hearing packets is for root, or for programs that may: setcap cap_net_raw+ep FILE lets one"
    )]
    NotAllowed,
    /// Anything else.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl PacketSocket {
    /// Begins to hear an interface, or with [`ANY`] all.
    ///
    /// # Errors
    ///
    /// When there is no such interface, or the kernel does not let us.
    pub fn open(interface: &str) -> Result<PacketSocket, OpenError> {
        let interface = match interface {
            ANY => None,
            name => Some(if_nametoindex(name).map_err(|_| OpenError::NoInterface {
                name: name.to_owned(),
                others: interfaces(),
            })?),
        };
        // Datagrams: without the header of the link, which differs from interface to interface.
        let protocol = Protocol::from(i32::from(ALL_PROTOCOLS.to_be()));
        let socket =
            Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol)).map_err(
                |error| match error.kind() {
                    ErrorKind::PermissionDenied => OpenError::NotAllowed,
                    _ => error.into(),
                },
            )?;
        if let Some(index) = interface {
            socket.attach_filter(&only_interface(index))?;
        }
        // Beyond the limit of the system where we may, else up to it.
        if setsockopt(&socket, sockopt::RcvBufForce, &KERNEL_BUFFER).is_err() {
            socket.set_recv_buffer_size(KERNEL_BUFFER)?;
        }
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true).map_err(io::Error::from)?;
        setsockopt(&socket, sockopt::RxqOvfl, &1).map_err(io::Error::from)?;
        Ok(PacketSocket {
            socket,
            interface,
            control: cmsg_space!(TimeSpec, u32),
            buffer: vec![0; HEADER_LENGTH + LONGEST_PACKET],
            overflow: 0,
            dropped: 0,
        })
    }

    /// Waits for the next packet; `None` when there was none for so long.
    ///
    /// # Errors
    ///
    /// When the interface is gone, or the kernel says anything else.
    pub fn receive(&mut self, timeout: Duration) -> io::Result<Option<Packet<'_>>> {
        self.socket
            .set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?;
        loop {
            let (header, rest) = self.buffer.split_at_mut(HEADER_LENGTH);
            let mut parts = [IoSliceMut::new(rest)];
            let received = recvmsg::<LinkAddr>(
                self.socket.as_raw_fd(),
                &mut parts,
                Some(&mut self.control),
                MsgFlags::empty(),
            );
            let received = match received {
                Ok(received) => received,
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let mut time = None;
            for message in received.cmsgs().into_iter().flatten() {
                match message {
                    ControlMessageOwned::ScmTimestampns(at) => time = Some(system_time(at)),
                    ControlMessageOwned::RxqOvfl(overflow) => {
                        self.dropped += u64::from(overflow.wrapping_sub(self.overflow));
                        self.overflow = overflow;
                    }
                    _ => {}
                }
            }
            let Some(address) = received.address else {
                continue;
            };
            // What came before the filter was in place.
            let is_other = self
                .interface
                .is_some_and(|index| index as usize != address.ifindex());
            // A loopback interface has each packet twice: as it is sent, and as it is received.
            let is_twice = address.hatype() == LOOPBACK && address.pkttype() == OUTGOING;
            if is_other || is_twice {
                continue;
            }
            write_header(&address, header);
            let end = HEADER_LENGTH + received.bytes;
            return Ok(Some(Packet {
                time: time.unwrap_or_else(SystemTime::now),
                octets: &self.buffer[..end],
            }));
        }
    }

    /// Packets that the kernel has dropped because they were not read in time, as far as it has told.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// The names of all interfaces.
fn interfaces() -> String {
    let Ok(all) = if_nameindex() else {
        return ANY.to_owned();
    };
    let names = all
        .iter()
        .map(|one| one.name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.push(ANY.to_owned());
    names.join(", ")
}

/// A program for the kernel that lets packets of one interface through.
fn only_interface(index: u32) -> [SockFilter; 4] {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    // SKF_AD_OFF and SKF_AD_IFINDEX of linux/filter.h: the number of the interface.
    const INTERFACE: u32 = (-0x1000_i32 + 8) as u32;
    [
        SockFilter::new(LOAD_WORD, 0, 0, INTERFACE),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, index),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}

/// Linux cooked capture v2: protocol, two octets of nothing, interface, kind of interface, kind of packet,
/// length of the link's address, the address.
fn write_header(address: &LinkAddr, header: &mut [u8]) {
    header.fill(0);
    // It is in network order already.
    header[..2].copy_from_slice(&address.protocol().to_ne_bytes());
    header[4..8].copy_from_slice(&(address.ifindex() as u32).to_be_bytes());
    header[8..10].copy_from_slice(&address.hatype().to_be_bytes());
    header[10] = address.pkttype();
    if let Some(link) = address.addr() {
        header[11] = link.len() as u8;
        header[12..12 + link.len()].copy_from_slice(&link);
    }
}

fn system_time(at: TimeSpec) -> SystemTime {
    UNIX_EPOCH + Duration::from(at)
}

/// ETH_P_ALL.
const ALL_PROTOCOLS: u16 = 3;

/// ARPHRD_LOOPBACK.
const LOOPBACK: u16 = 772;

/// PACKET_OUTGOING.
const OUTGOING: u8 = 4;
