//! The calls to the kernel for which no library has a safe form. What they pass is bytes: what these
//! mean is written down in `layout`.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::layout::{SCTP_SOCKOPT_CONNECTX3, SCTP_SOCKOPT_PEELOFF_FLAGS};

/// Sets an option of SCTP.
pub(super) fn set_option(socket: BorrowedFd<'_>, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer leads to `value.len()` bytes, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_SCTP,
            name,
            value.as_ptr().cast(),
            length_of(value),
        )
    };
    check(result).map(|_| ())
}

/// Reads an option into `value`, which may have to say what is asked for; how many bytes it has.
pub(super) fn get_option(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut length = length_of(value);
    // SAFETY: the pointer leads to `length` bytes of ours, to which the kernel writes at most `length`,
    // and tells in `length` how many it wrote.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    check(result)?;
    Ok((length as usize).min(value.len()))
}

/// Begins an association with a peer that has these addresses, one behind the other, and tells the kernel's
/// name of it.
pub(super) fn connect(socket: BorrowedFd<'_>, addresses: &[u8]) -> io::Result<i32> {
    /// The kernel's `struct sctp_getaddrs_old`, of which it writes the first field.
    #[repr(C)]
    struct Request {
        association: i32,
        bytes: i32,
        addresses: *const u8,
    }
    let mut request = Request {
        association: 0,
        bytes: i32::try_from(addresses.len()).map_err(io::Error::other)?,
        addresses: addresses.as_ptr(),
    };
    // It cannot be larger than a few words.
    let mut length = size_of::<Request>() as libc::socklen_t;
    // SAFETY: both pointers lead to what their lengths say, and live until the call returns: the kernel reads
    // the addresses, and writes at most `length` bytes of the request.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_SCTP,
            SCTP_SOCKOPT_CONNECTX3,
            (&raw mut request).cast(),
            &raw mut length,
        )
    };
    match check(result) {
        // The kernel has written the name all the same.
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(request.association),
    }
}

/// Gives an association a socket of its own (RFC 6458 section 9.2), which does not block.
pub(super) fn peel_off(socket: BorrowedFd<'_>, association: i32) -> io::Result<OwnedFd> {
    /// The kernel's `sctp_peeloff_flags_arg_t`.
    #[repr(C)]
    struct Request {
        association: i32,
        socket: i32,
        flags: u32,
    }
    let mut request = Request {
        association,
        socket: -1,
        flags: (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) as u32,
    };
    // It cannot be larger than a few words.
    let mut length = size_of::<Request>() as libc::socklen_t;
    // SAFETY: the pointer leads to `length` bytes of ours, of which the kernel writes at most all.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_SCTP,
            SCTP_SOCKOPT_PEELOFF_FLAGS,
            (&raw mut request).cast(),
            &raw mut length,
        )
    };
    check(result)?;
    if request.socket < 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the kernel has just opened it for this call, so nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(request.socket) })
}

/// Sends a message: `to` is a socket address or nothing, `control` holds ancillary data.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    to: &[u8],
    control: &[u8],
    payload: &[u8],
) -> io::Result<()> {
    let mut part = libc::iovec {
        iov_base: payload.as_ptr().cast_mut().cast(),
        iov_len: payload.len(),
    };
    let mut header = empty_header();
    if !to.is_empty() {
        header.msg_name = to.as_ptr().cast_mut().cast();
        header.msg_namelen = length_of(to);
    }
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_ptr().cast_mut().cast();
    header.msg_controllen = control.len() as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: all pointers of the header lead to as many bytes as the lengths beside them say, and live until
    // the call returns; the kernel only reads what they lead to.
    let result = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// What [`receive`] got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    /// Bytes in the buffer.
    pub(super) bytes: usize,
    /// Bytes of the address that it is from.
    pub(super) from: usize,
    /// Bytes of ancillary data.
    pub(super) control: usize,
    /// `MSG_EOR`, `MSG_NOTIFICATION`, ...
    pub(super) flags: i32,
}

/// Receives a message, a part of one, or a notification.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    from: &mut [u8],
    control: &mut [u8],
) -> io::Result<Received> {
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut header = empty_header();
    header.msg_name = from.as_mut_ptr().cast();
    header.msg_namelen = length_of(from);
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = control.len() as _;
    // SAFETY: all pointers of the header lead to as many bytes of ours as the lengths beside them say, and live
    // until the call returns; the kernel writes no more than that.
    let result = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    let Ok(bytes) = usize::try_from(result) else {
        return Err(io::Error::last_os_error());
    };
    Ok(Received {
        bytes: bytes.min(buffer.len()),
        from: (header.msg_namelen as usize).min(from.len()),
        // Its type differs between C libraries.
        #[allow(clippy::unnecessary_cast)]
        control: (header.msg_controllen as usize).min(control.len()),
        flags: header.msg_flags,
    })
}

fn empty_header() -> libc::msghdr {
    // SAFETY: a header of zeros is one without address, parts and ancillary data: null pointers with lengths of 0.
    unsafe { std::mem::zeroed() }
}

fn length_of(bytes: &[u8]) -> libc::socklen_t {
    // Longer ones are none that we pass; the kernel then sees less than there is.
    libc::socklen_t::try_from(bytes.len()).unwrap_or(libc::socklen_t::MAX)
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
