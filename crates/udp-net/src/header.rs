//! The header of a datagram, or of a train of them, and what the kernel tells beside.
#![allow(unsafe_code)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::name::{NAME_BYTES, Name};

/// Room for the control messages of a datagram, each behind a header of 16 octets and padded to 8: a stamp (32), the
/// length of the datagrams of a train (24), the address it was sent to (40), its traffic class (24).
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Control(pub(crate) [u8; CONTROL_BYTES]);

pub(crate) const CONTROL_BYTES: usize = 128;

/// A header for one datagram, or train, with the longest name.
pub(crate) fn header(name: *mut Name, vectors: *mut libc::iovec, count: usize) -> libc::mmsghdr {
    // SAFETY: all fields of an mmsghdr are integers and pointers, for which zero is a value.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_name = name.cast();
    header.msg_hdr.msg_namelen = NAME_BYTES as libc::socklen_t;
    header.msg_hdr.msg_iov = vectors;
    header.msg_hdr.msg_iovlen = count;
    header
}

/// What the kernel tells of a datagram beside its content.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ancillary {
    /// When it came, since 1970.
    pub(crate) stamp: Option<Duration>,
    /// How long the datagrams of a train are.
    pub(crate) segment: Option<usize>,
    /// The local address that it was sent to.
    pub(crate) destination: Option<IpAddr>,
}

impl Ancillary {
    /// # Safety
    ///
    /// The kernel has filled in the header, whose control room is alive.
    pub(crate) unsafe fn of(header: &libc::msghdr) -> Ancillary {
        let mut ancillary = Ancillary::default();
        // SAFETY: the caller's promise: the macros walk over the messages that the kernel has written into the room, and
        // data is read as long as the message says it is, from wherever it lies.
        unsafe {
            let mut message = libc::CMSG_FIRSTHDR(header);
            while let Some(found) = message.as_ref() {
                let data = libc::CMSG_DATA(message);
                let has = |octets: usize| found.cmsg_len >= libc::CMSG_LEN(octets as u32) as usize;
                match (found.cmsg_level, found.cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)
                        if has(size_of::<libc::timespec>()) =>
                    {
                        let time = data.cast::<libc::timespec>().read_unaligned();
                        ancillary.stamp = Some(Duration::new(
                            u64::try_from(time.tv_sec).unwrap_or(0),
                            u32::try_from(time.tv_nsec).unwrap_or(0),
                        ));
                    }
                    (libc::SOL_UDP, libc::UDP_GRO) if has(size_of::<libc::c_int>()) => {
                        let length = data.cast::<libc::c_int>().read_unaligned();
                        ancillary.segment =
                            usize::try_from(length).ok().filter(|length| *length > 0);
                    }
                    (libc::IPPROTO_IP, libc::IP_PKTINFO) if has(size_of::<libc::in_pktinfo>()) => {
                        let information = data.cast::<libc::in_pktinfo>().read_unaligned();
                        // In the order of the network, in which the octets of an address are.
                        let address = information.ipi_addr.s_addr.to_ne_bytes();
                        ancillary.destination = Some(Ipv4Addr::from(address).into());
                    }
                    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO)
                        if has(size_of::<libc::in6_pktinfo>()) =>
                    {
                        let information = data.cast::<libc::in6_pktinfo>().read_unaligned();
                        let address = Ipv6Addr::from(information.ipi6_addr.s6_addr);
                        ancillary.destination = Some(address.into());
                    }
                    _ => {}
                }
                message = libc::CMSG_NXTHDR(header, message);
            }
        }
        ancillary
    }
}
