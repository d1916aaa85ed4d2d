//! Socket options that no safe wrapper offers.
#![allow(unsafe_code)]

use std::io;
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
