//! Socket options that no safe wrapper offers.
#![allow(unsafe_code)]

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Lets the kernel fragment packets that are larger than the path takes (`IP_PMTUDISC_WANT`, the
/// kernel's default).
///
/// # Errors
///
/// The kernel's.
pub fn allow_fragmentation(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    if ipv6 {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 0)?;
        set(
            socket,
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_WANT,
        )
    } else {
        set(
            socket,
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_WANT,
        )
    }
}

/// Sets Don't Fragment on all packets, and keeps the kernel from believing what it has heard of the
/// path MTU (`IP_PMTUDISC_PROBE`): whoever sends looks for that itself.
///
/// # Errors
///
/// The kernel's.
pub fn forbid_fragmentation(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    if ipv6 {
        set(
            socket,
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_PROBE,
        )?;
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)
    } else {
        set(
            socket,
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        )
    }
}

/// The largest packet, headers included, that the kernel believes the route of a connected socket to
/// carry.
///
/// # Errors
///
/// The kernel's, such as for a socket that is not connected.
pub fn path_mtu(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<u32> {
    if ipv6 {
        get(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU)
    } else {
        get(socket, libc::IPPROTO_IP, libc::IP_MTU)
    }
}

/// Asks for a receive buffer of so many octets, beyond the limit of ordinary programs where this one has
/// the privilege (`CAP_NET_ADMIN`).
///
/// # Errors
///
/// The kernel's.
pub(crate) fn set_receive_buffer(socket: BorrowedFd<'_>, octets: usize) -> io::Result<()> {
    let octets = libc::c_int::try_from(octets).unwrap_or(libc::c_int::MAX);
    set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, octets)
        .or_else(|_| set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, octets))
}

/// Has the kernel tell of each datagram when it came (`SO_TIMESTAMPNS`).
///
/// # Errors
///
/// The kernel's.
pub(crate) fn stamp_arrivals(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Lets the kernel not stamp what arrives: that takes it a look at its clock for each datagram.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn leave_unstamped(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0)
}

/// Lets the kernel not tell the traffic class of each datagram, nor the address that it was sent to where the socket is
/// bound to that alone: each takes it a control message, to be written and to be read.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn leave_unrequested_out(socket: BorrowedFd<'_>, bound: SocketAddr) -> io::Result<()> {
    let (level, class, destination) = match bound {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_RECVTOS, libc::IP_PKTINFO),
        SocketAddr::V6(_) => (
            libc::IPPROTO_IPV6,
            libc::IPV6_RECVTCLASS,
            libc::IPV6_RECVPKTINFO,
        ),
    };
    set(socket, level, class, 0)?;
    match bound.ip().is_unspecified() {
        true => Ok(()),
        false => set(socket, level, destination, 0),
    }
}

/// How many packets found no room in the socket's receive buffer since it was opened.
///
/// # Errors
///
/// The kernel's.
pub(crate) fn receive_drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    // `SK_MEMINFO_DROPS` is the last of the numbers that `SO_MEMINFO` gives (linux/sock_diag.h).
    const NUMBERS: usize = 9;
    let mut numbers = [0_u32; NUMBERS];
    let mut length = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the descriptor is borrowed and so open, and the kernel writes at most `length` bytes, the
    // size of the array, to a pointer to the live array.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            (&raw mut numbers).cast(),
            &raw mut length,
        )
    };
    match result {
        0 => Ok(numbers[NUMBERS - 1]),
        _ => Err(io::Error::last_os_error()),
    }
}

fn get(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<u32> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed and so open, and the kernel writes at most `length` bytes,
    // the size of a c_int, to a pointer to a live c_int.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(u32::try_from(value).unwrap_or(0))
    } else {
        Err(io::Error::last_os_error())
    }
}

fn set(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the descriptor is borrowed and so open, and the kernel reads `size_of(c_int)` bytes
    // from a pointer to a live c_int.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
