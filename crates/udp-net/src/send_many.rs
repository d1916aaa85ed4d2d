//! Many datagrams in one call to the kernel: sendmmsg(2).
#![allow(unsafe_code)]

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::datagram::Datagram;
use crate::header::header;
use crate::name::Name;

/// How many datagrams one call takes.
pub(crate) const MAX_DATAGRAMS: usize = 64;

/// Room for a control message with a source address of either family, aligned as the kernel has it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// `CMSG_SPACE` of the larger: a header of 16 bytes, before the 20 bytes of `in6_pktinfo`, padded to 8.
const CONTROL_BYTES: usize = 40;

/// Sends as many of the datagrams as the kernel takes, [`MAX_DATAGRAMS`] at most, and tells how many.
///
/// # Errors
///
/// What the kernel says to the first of them.
pub(crate) fn send_many(socket: BorrowedFd<'_>, datagrams: &[Datagram]) -> io::Result<usize> {
    let datagrams = &datagrams[..datagrams.len().min(MAX_DATAGRAMS)];
    let mut payloads: Vec<libc::iovec> = datagrams
        .iter()
        .map(|datagram| libc::iovec {
            iov_base: datagram.payload.as_ptr().cast_mut().cast(),
            iov_len: datagram.payload.len(),
        })
        .collect();
    let mut names: Vec<(Name, libc::socklen_t)> = datagrams
        .iter()
        .map(|datagram| Name::of(datagram.destination))
        .collect();
    let mut controls: Vec<Control> = datagrams
        .iter()
        .map(|_| Control([0; CONTROL_BYTES]))
        .collect();
    let mut headers: Vec<libc::mmsghdr> = Vec::with_capacity(datagrams.len());
    let rooms = payloads.iter_mut().zip(&mut names).zip(&mut controls);
    for (datagram, ((payload, (name, length)), control)) in datagrams.iter().zip(rooms) {
        let mut header = header(name, payload, 1);
        header.msg_hdr.msg_namelen = *length;
        if let Some(source) = datagram.source_ip {
            let room = control.0.as_mut_ptr();
            header.msg_hdr.msg_control = room.cast();
            // SAFETY: the room is CONTROL_BYTES long and aligned, and any kind of address fits into it.
            header.msg_hdr.msg_controllen = unsafe { write_source(room.cast(), source) };
        }
        headers.push(header);
    }
    // SAFETY: the descriptor is borrowed and so open. Each header points to an address, to a payload and to control
    // messages of the lengths that it gives, which live until the call returns; the kernel only reads them, and writes
    // the lengths sent into the headers, which are ours.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            headers.len() as libc::c_uint,
            0,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Writes a control message with the source address. Returns how much of the control room it takes.
///
/// # Safety
///
/// `message` points to room for the header and an address of either family.
unsafe fn write_source(message: *mut libc::cmsghdr, source: IpAddr) -> usize {
    // SAFETY: zero is a value of both structures; for the rest, the caller's promise.
    unsafe {
        match source {
            IpAddr::V4(source) => {
                let mut information: libc::in_pktinfo = std::mem::zeroed();
                information.ipi_spec_dst.s_addr = u32::from_ne_bytes(source.octets());
                write_message(message, libc::IPPROTO_IP, libc::IP_PKTINFO, information)
            }
            IpAddr::V6(source) => {
                let mut information: libc::in6_pktinfo = std::mem::zeroed();
                information.ipi6_addr.s6_addr = source.octets();
                write_message(message, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, information)
            }
        }
    }
}

/// Fills in a control message. Returns how much of the control room it takes.
///
/// # Safety
///
/// `message` points to room for the header and the data.
unsafe fn write_message<T>(
    message: *mut libc::cmsghdr,
    level: libc::c_int,
    kind: libc::c_int,
    data: T,
) -> usize {
    let length = size_of::<T>() as libc::c_uint;
    // SAFETY: the caller's promise; the data behind a header may lie at any address, so it is written
    // unaligned.
    unsafe {
        (*message).cmsg_level = level;
        (*message).cmsg_type = kind;
        (*message).cmsg_len = libc::CMSG_LEN(length) as usize;
        libc::CMSG_DATA(message).cast::<T>().write_unaligned(data);
        libc::CMSG_SPACE(length) as usize
    }
}
