//! Many datagrams in one call to the kernel: sendmmsg(2).
#![allow(unsafe_code)]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::header::header;
use crate::name::Name;
use crate::socket::Datagram;
use crate::trains::{Car, train};

/// How many datagrams one call takes.
pub(crate) const MAX_DATAGRAMS: usize = 64;

/// Room for control messages with a source address of either family and with the length of a train's datagrams,
/// aligned as the kernel has it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// `CMSG_SPACE` of both: headers of 16 bytes, before the 20 bytes of `in6_pktinfo` and before 2, padded to 8.
const CONTROL_BYTES: usize = 40 + 24;

impl Car for Datagram {
    fn destination(&self) -> SocketAddr {
        self.destination
    }

    fn source_ip(&self) -> Option<IpAddr> {
        self.source_ip
    }

    fn octets(&self) -> usize {
        self.payload.len()
    }
}

/// Sends as many of the datagrams as the kernel takes, [`MAX_DATAGRAMS`] at most, and tells how many. Those that can go
/// in a train, of datagrams that are at most so long, do.
///
/// # Errors
///
/// What the kernel says to the first of them.
pub(crate) fn send_many(
    socket: BorrowedFd<'_>,
    datagrams: &[Datagram],
    longest: usize,
) -> io::Result<usize> {
    let datagrams = &datagrams[..datagrams.len().min(MAX_DATAGRAMS)];
    let mut payloads: Vec<libc::iovec> = datagrams
        .iter()
        .map(|datagram| libc::iovec {
            iov_base: datagram.payload.as_ptr().cast_mut().cast(),
            iov_len: datagram.payload.len(),
        })
        .collect();
    let mut trains: Vec<&[Datagram]> = Vec::with_capacity(datagrams.len());
    let mut rest = datagrams;
    while !rest.is_empty() {
        let (cars, behind) = rest.split_at(train(rest, longest));
        trains.push(cars);
        rest = behind;
    }
    let mut names: Vec<(Name, libc::socklen_t)> = trains
        .iter()
        .map(|cars| Name::of(cars[0].destination))
        .collect();
    let mut controls: Vec<Control> = trains.iter().map(|_| Control([0; CONTROL_BYTES])).collect();
    let mut headers: Vec<libc::mmsghdr> = Vec::with_capacity(trains.len());
    let mut vectors = payloads.as_mut_slice();
    for ((cars, (name, length)), control) in trains.iter().zip(&mut names).zip(&mut controls) {
        let (own, behind) = std::mem::take(&mut vectors).split_at_mut(cars.len());
        vectors = behind;
        let mut header = header(name, own.as_mut_ptr(), own.len());
        header.msg_hdr.msg_namelen = *length;
        let filled = fill(control, cars);
        if filled > 0 {
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = filled;
        }
        headers.push(header);
    }
    // SAFETY: the descriptor is borrowed and so open. Each header points to an address, to payloads and to control
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
    let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
    Ok(trains.iter().take(sent).map(|cars| cars.len()).sum())
}

/// Writes what the kernel has to know of a train, or of a datagram alone: its source address where it is given (ip(7),
/// ipv6(7)), and how long its datagrams are where there are several (udp(7)). Returns how much of the room that takes.
fn fill(control: &mut Control, cars: &[Datagram]) -> usize {
    let room = control.0.as_mut_ptr();
    let mut filled = 0;
    let [first, others @ ..] = cars else {
        return filled;
    };
    if let Some(source) = first.source_ip {
        // SAFETY: the room is CONTROL_BYTES long and aligned, and any kind of address fits into it.
        filled += unsafe { write_source(room.cast(), source) };
    }
    if !others.is_empty() {
        // No longer than `LONGEST_IN_TRAIN`.
        let length = first.payload.len() as u16;
        // SAFETY: the room is long enough for both messages, and what the first one takes is a multiple of its alignment.
        filled += unsafe {
            let message = room.add(filled).cast();
            write_message(message, libc::SOL_UDP, libc::UDP_SEGMENT, length)
        };
    }
    filled
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
