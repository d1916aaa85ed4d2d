//! Many datagrams in one call to the kernel: sendmmsg(2).
#![allow(unsafe_code)]

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use socket2::SockAddr;

use crate::socket::Datagram;

/// How many datagrams one call takes.
pub(crate) const MAX_DATAGRAMS: usize = 64;

/// Room for one control message with a source address of either family, aligned as the kernel has it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// `CMSG_SPACE` of the larger of the two: a header of 16 bytes and 20 bytes of `in6_pktinfo`.
const CONTROL_BYTES: usize = 40;

/// Sends as many of the datagrams as the kernel takes, [`MAX_DATAGRAMS`] at most, and tells how many.
///
/// # Errors
///
/// What the kernel says to the first of them.
pub(crate) fn send_many(socket: BorrowedFd<'_>, datagrams: &[Datagram]) -> io::Result<usize> {
    let datagrams = &datagrams[..datagrams.len().min(MAX_DATAGRAMS)];
    let addresses: Vec<SockAddr> = datagrams
        .iter()
        .map(|datagram| datagram.destination.into())
        .collect();
    let mut payloads: Vec<libc::iovec> = datagrams
        .iter()
        .map(|datagram| libc::iovec {
            iov_base: datagram.payload.as_ptr().cast_mut().cast(),
            iov_len: datagram.payload.len(),
        })
        .collect();
    let mut controls: Vec<Control> = datagrams
        .iter()
        .map(|_| Control([0; CONTROL_BYTES]))
        .collect();
    let mut headers: Vec<libc::mmsghdr> = Vec::with_capacity(datagrams.len());
    for (index, datagram) in datagrams.iter().enumerate() {
        // SAFETY: all fields of an mmsghdr are integers and pointers, for which zero is a value.
        let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        header.msg_hdr.msg_name = addresses[index].as_ptr().cast_mut().cast();
        header.msg_hdr.msg_namelen = addresses[index].len();
        header.msg_hdr.msg_iov = &raw mut payloads[index];
        header.msg_hdr.msg_iovlen = 1;
        if let Some(source) = datagram.source_ip {
            let control = &mut controls[index];
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL_BYTES;
            header.msg_hdr.msg_controllen = write_source(&header.msg_hdr, source);
        }
        headers.push(header);
    }
    // SAFETY: the descriptor is borrowed and so open. Each header points to an address, a payload and
    // a control message of the lengths that it gives, which live until the call returns; the kernel
    // only reads them, and writes the lengths sent into the headers, which are ours.
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

/// Writes a control message with the source address into the room that the header has for it (ip(7),
/// ipv6(7)). Returns its length.
fn write_source(header: &libc::msghdr, source: IpAddr) -> usize {
    // SAFETY: the header's control room is CONTROL_BYTES long, aligned, and ours: CMSG_FIRSTHDR
    // points to its beginning, and both kinds of control message fit into it.
    unsafe {
        let message = libc::CMSG_FIRSTHDR(header);
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
