//! A socket of the kernel's SCTP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use sctp::{EndpointConfig, PrPolicy, SendInfo};
use socket2::{Domain, Protocol, Type};

use super::calls;
use super::layout::{
    CONTROL_ROOM, Fields, SCTP_ABORT, SCTP_ADDR_OVER, SCTP_EOF, SCTP_I_WANT_MAPPED_V4_ADDR,
    SCTP_PR_SCTP_PRIO, SCTP_PR_SCTP_RTX, SCTP_PR_SCTP_TTL, SCTP_PRINFO, SCTP_RCVINFO,
    SCTP_SACK_IMMEDIATELY, SCTP_SNDINFO, SCTP_SOCKOPT_BINDX_ADD, SCTP_UNORDERED, STORAGE,
    Structure, find_control, push_control, socket_address,
};
use super::notification::{self, KernelNotification};
use super::options;

/// What one call receives at most: more than any notification has, and most messages.
pub(super) const RECEIVE_BUFFER: usize = 256 * 1024;

/// How many peers may wait between the kernel and us.
const BACKLOG: i32 = 1024;

/// A socket in one-to-many style, or one that an association has to itself.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    local: SocketAddr,
    /// The largest message that it takes.
    send_buffer: usize,
}

/// What [`Socket::receive`] got.
#[derive(Debug)]
pub(super) enum Arrived<'a> {
    /// A notification, and the peer's primary address as far as it is known.
    Notification(Option<SocketAddr>, KernelNotification),
    Part(Part<'a>),
    /// Nothing that means anything to us.
    Nothing,
}

/// A message or a part of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    /// The kernel's name of the association.
    pub(super) association: i32,
    pub(super) stream: u16,
    pub(super) ssn: u16,
    pub(super) ppid: u32,
    pub(super) unordered: bool,
    pub(super) bytes: &'a [u8],
    /// Whether the message ends here.
    pub(super) ends: bool,
}

impl Socket {
    /// A socket in one-to-many style that listens at these addresses, or all where there are none, on that port or
    /// one that the kernel chooses.
    pub(super) fn open(
        addresses: &[IpAddr],
        port: u16,
        config: &EndpointConfig,
    ) -> io::Result<Socket> {
        let named = options::named(addresses);
        let only_ipv4 = !addresses.is_empty() && addresses.iter().all(IpAddr::is_ipv4);
        let (socket, ipv6) = match new_socket(!only_ipv4) {
            // A host without IPv6 serves IPv4.
            Err(error) if addresses.is_empty() && lacks_family(&error) => {
                (new_socket(false)?, false)
            }
            result => (result?, !only_ipv4),
        };
        if ipv6 {
            let only_ipv6 = !addresses.is_empty() && addresses.iter().all(IpAddr::is_ipv6);
            socket.set_only_v6(only_ipv6)?;
            let plain = 0i32.to_ne_bytes();
            calls::set_option(socket.as_fd(), SCTP_I_WANT_MAPPED_V4_ADDR, &plain)?;
        }
        let association = &config.association;
        let room = association.send_buffer.max(association.max_message_size);
        // Who may go beyond the system's limits does, for others the kernel caps silently.
        if setsockopt(&socket, sockopt::SndBufForce, &room).is_err() {
            socket.set_send_buffer_size(room)?;
        }
        let window = association.a_rwnd as usize;
        if setsockopt(&socket, sockopt::RcvBufForce, &window).is_err() {
            socket.set_recv_buffer_size(window)?;
        }
        options::apply_to_socket(socket.as_fd(), config)?;
        let any: IpAddr = if ipv6 {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        let first = named.first().copied().unwrap_or(any);
        socket.bind(&SocketAddr::new(first, port).into())?;
        let send_buffer = socket.send_buffer_size()?;
        let local = socket.local_addr()?.as_socket();
        let port = local.map_or(port, |local| local.port());
        let rest: Vec<u8> = named
            .iter()
            .skip(1)
            .flat_map(|&ip| socket_address(SocketAddr::new(ip, port)))
            .collect();
        if !rest.is_empty() {
            calls::set_option(socket.as_fd(), SCTP_SOCKOPT_BINDX_ADD, &rest)?;
        }
        socket.listen(BACKLOG)?;
        Ok(Socket {
            fd: socket.into(),
            local: SocketAddr::new(first, port),
            send_buffer,
        })
    }

    /// The local port, and the first address.
    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn send_buffer(&self) -> usize {
        self.send_buffer
    }

    /// Takes no further association in.
    pub(super) fn stop_listening(&self) {
        // It is asked of a socket that listens: nothing can be wrong.
        socket2::SockRef::from(&self.fd).listen(0).ok();
    }

    /// Begins an association; the kernel's name of it.
    pub(super) fn connect(&self, addresses: &[IpAddr], port: u16) -> io::Result<i32> {
        let packed: Vec<u8> = addresses
            .iter()
            .flat_map(|&ip| socket_address(SocketAddr::new(ip, port)))
            .collect();
        calls::connect(self.as_fd(), &packed)
    }

    /// Gives an association a socket of its own.
    pub(super) fn peel_off(&self, association: i32) -> io::Result<Socket> {
        Ok(Socket {
            fd: calls::peel_off(self.as_fd(), association)?,
            local: self.local,
            send_buffer: self.send_buffer,
        })
    }

    /// Sends a message; `WouldBlock` when there is no room.
    pub(super) fn send(
        &self,
        association: i32,
        remote_port: u16,
        info: &SendInfo,
        payload: &[u8],
    ) -> io::Result<()> {
        let mut flags = 0;
        if info.unordered {
            flags |= SCTP_UNORDERED;
        }
        if info.sack_immediately {
            flags |= SCTP_SACK_IMMEDIATELY;
        }
        let to = info.path.map_or_else(Vec::new, |ip| {
            flags |= SCTP_ADDR_OVER;
            socket_address(SocketAddr::new(ip, remote_port))
        });
        let mut control = Vec::with_capacity(CONTROL_ROOM);
        push_control(
            &mut control,
            SCTP_SNDINFO,
            send_info(association, flags, info).as_bytes(),
        );
        if let Some((policy, value)) = pr_policy(info) {
            let policy = Structure::new(8)
                .with(0, policy.to_ne_bytes())
                .with(4, value.to_ne_bytes());
            push_control(&mut control, SCTP_PRINFO, policy.as_bytes());
        }
        calls::send(self.as_fd(), &to, &control, payload)
    }

    /// Shuts an association down, after what has been sent.
    pub(super) fn shut_down(&self, association: i32) -> io::Result<()> {
        self.order(association, SCTP_EOF, &[])
    }

    /// Aborts an association; the peer is told the reason.
    pub(super) fn abort(&self, association: i32, reason: &[u8]) -> io::Result<()> {
        // A chunk cannot tell more.
        let reason = reason.get(..1024).unwrap_or(reason);
        self.order(association, SCTP_ABORT, reason)
    }

    fn order(&self, association: i32, flags: u16, words: &[u8]) -> io::Result<()> {
        let mut control = Vec::with_capacity(CONTROL_ROOM);
        let info = send_info(association, flags, &SendInfo::default());
        push_control(&mut control, SCTP_SNDINFO, info.as_bytes());
        calls::send(self.as_fd(), &[], &control, words)
    }

    /// Receives what is next; `WouldBlock` when there is nothing.
    pub(super) fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Arrived<'a>> {
        let mut control = [0; CONTROL_ROOM];
        let mut from = [0; STORAGE];
        let received = calls::receive(self.as_fd(), buffer, &mut from, &mut control)?;
        let bytes = buffer.get(..received.bytes).unwrap_or_default();
        if received.flags & libc::MSG_NOTIFICATION != 0 {
            return Ok(match notification::read(bytes) {
                Some(notification) => {
                    let from = from.get(..received.from).unwrap_or_default();
                    let peer = Fields(from).address(0).map(|(peer, _)| peer);
                    Arrived::Notification(peer, notification)
                }
                None => Arrived::Nothing,
            });
        }
        let control = control.get(..received.control).unwrap_or_default();
        let ends = received.flags & libc::MSG_EOR != 0;
        Ok(match part(control, bytes, ends) {
            Some(part) => Arrived::Part(part),
            None => Arrived::Nothing,
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Whether the kernel has an SCTP, and what can be done if not.
pub(super) fn require_sctp() -> io::Result<()> {
    match new_socket(false) {
        Err(error) if lacks_family(&error) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("--over kernel: this kernel has no SCTP ({error}).\n{WAYS_OUT}"),
        )),
        // Of a family that the host does not have, or too many files are open: told when it matters.
        _ => Ok(()),
    }
}

const WAYS_OUT: &str = "\
Ways out:
  modprobe sctp   as root, where the kernel comes with the module
  --over udp      use SCTP in UDP (RFC 6951): needs nothing of the kernel
  --over ip       use our SCTP over IP: needs the capability CAP_NET_RAW";

fn new_socket(ipv6: bool) -> io::Result<socket2::Socket> {
    let domain = if ipv6 { Domain::IPV6 } else { Domain::IPV4 };
    let protocol = Protocol::from(libc::IPPROTO_SCTP);
    let socket = socket2::Socket::new(domain, Type::SEQPACKET, Some(protocol))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn lacks_family(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT | libc::EAFNOSUPPORT)
    )
}

/// When a message is given up: the policy and its value (RFC 6458 section 5.3.7).
fn pr_policy(info: &SendInfo) -> Option<(u16, u32)> {
    let timed = |time: Duration| {
        let limit = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        (SCTP_PR_SCTP_TTL, limit.max(1))
    };
    match info.pr_policy {
        Some(PrPolicy::Timed(time)) => Some(timed(time)),
        Some(PrPolicy::LimitedRetransmissions(times)) => Some((SCTP_PR_SCTP_RTX, times)),
        Some(PrPolicy::Priority(priority)) => Some((SCTP_PR_SCTP_PRIO, priority)),
        Some(PrPolicy::Reliable) | None => info.life_time.map(timed),
    }
}

/// `struct sctp_sndinfo`.
fn send_info(association: i32, flags: u16, info: &SendInfo) -> Structure {
    Structure::new(16)
        .with(0, info.stream.to_ne_bytes())
        .with(2, flags.to_ne_bytes())
        // As it is on the wire: the kernel leaves it alone.
        .with(4, info.ppid.to_be_bytes())
        .with(8, info.context.to_ne_bytes())
        .with(12, association.to_ne_bytes())
}

/// A message with its `struct sctp_rcvinfo`.
fn part<'a>(control: &[u8], bytes: &'a [u8], ends: bool) -> Option<Part<'a>> {
    let info = find_control(control, SCTP_RCVINFO)?;
    Some(Part {
        association: info.i32(24)?,
        stream: info.u16(0)?,
        ssn: info.u16(2)?,
        unordered: info.u16(4)? & SCTP_UNORDERED != 0,
        ppid: u32::from_be_bytes(info.bytes(8)?),
        bytes,
        ends,
    })
}
