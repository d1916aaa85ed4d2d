//! The layout of what goes to the kernel's SCTP and comes from it: `linux/sctp.h` as bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

// Options of level IPPROTO_SCTP.
pub(super) const SCTP_RTOINFO: i32 = 0;
pub(super) const SCTP_ASSOCINFO: i32 = 1;
pub(super) const SCTP_INITMSG: i32 = 2;
pub(super) const SCTP_NODELAY: i32 = 3;
pub(super) const SCTP_PRIMARY_ADDR: i32 = 6;
pub(super) const SCTP_PEER_ADDR_PARAMS: i32 = 9;
pub(super) const SCTP_I_WANT_MAPPED_V4_ADDR: i32 = 12;
pub(super) const SCTP_STATUS: i32 = 14;
pub(super) const SCTP_GET_PEER_ADDR_INFO: i32 = 15;
pub(super) const SCTP_DELAYED_SACK: i32 = 16;
pub(super) const SCTP_FRAGMENT_INTERLEAVE: i32 = 18;
pub(super) const SCTP_PARTIAL_DELIVERY_POINT: i32 = 19;
pub(super) const SCTP_MAX_BURST: i32 = 20;
pub(super) const SCTP_RECVRCVINFO: i32 = 32;
pub(super) const SCTP_PEER_ADDR_THLDS_V2: i32 = 37;
pub(super) const SCTP_SOCKOPT_BINDX_ADD: i32 = 100;
pub(super) const SCTP_GET_PEER_ADDRS: i32 = 108;
pub(super) const SCTP_GET_LOCAL_ADDRS: i32 = 109;
pub(super) const SCTP_SOCKOPT_CONNECTX3: i32 = 111;
pub(super) const SCTP_GET_ASSOC_STATS: i32 = 112;
pub(super) const SCTP_SOCKOPT_PEELOFF_FLAGS: i32 = 122;
pub(super) const SCTP_EVENT: i32 = 127;
pub(super) const SCTP_EXPOSE_POTENTIALLY_FAILED_STATE: i32 = 131;

// Flags of messages.
pub(super) const SCTP_UNORDERED: u16 = 1;
pub(super) const SCTP_ADDR_OVER: u16 = 1 << 1;
pub(super) const SCTP_ABORT: u16 = 1 << 2;
pub(super) const SCTP_SACK_IMMEDIATELY: u16 = 1 << 3;
pub(super) const SCTP_PR_SCTP_TTL: u16 = 0x10;
pub(super) const SCTP_PR_SCTP_RTX: u16 = 0x20;
pub(super) const SCTP_PR_SCTP_PRIO: u16 = 0x30;
pub(super) const SCTP_EOF: u16 = 0x200;

// Types of ancillary data.
pub(super) const SCTP_SNDINFO: i32 = 2;
pub(super) const SCTP_RCVINFO: i32 = 3;
pub(super) const SCTP_PRINFO: i32 = 5;

// Flags of SCTP_PEER_ADDR_PARAMS.
pub(super) const SPP_HB_ENABLE: u32 = 1;
pub(super) const SPP_HB_DISABLE: u32 = 1 << 1;
pub(super) const SPP_HB_DEMAND: u32 = 1 << 2;
pub(super) const SPP_PMTUD_ENABLE: u32 = 1 << 3;
pub(super) const SPP_PMTUD_DISABLE: u32 = 1 << 4;
pub(super) const SPP_HB_TIME_IS_ZERO: u32 = 1 << 7;

/// Bytes of a `struct sockaddr_storage`.
pub(super) const STORAGE: usize = size_of::<libc::sockaddr_storage>();

/// Where a `struct sockaddr_storage` is that follows an association's name in a structure that the
/// kernel does not pack.
pub(super) const ALIGNED_STORAGE: usize = align_of::<libc::sockaddr_storage>();

/// Bytes of a `struct cmsghdr` of the kernel: a length of the machine's word, level, type.
const CONTROL_HEADER: usize = size_of::<usize>() + 8;

/// Room for all ancillary data that comes with a message.
pub(super) const CONTROL_ROOM: usize = 256;

/// A structure for the kernel, of zeros until something is put into it.
#[derive(Debug)]
pub(super) struct Structure(Vec<u8>);

impl Structure {
    pub(super) fn new(bytes: usize) -> Self {
        Self(vec![0; bytes])
    }

    /// Puts bytes at an offset. What would be behind the end is a mistake in an offset, and left out.
    pub(super) fn with<const N: usize>(self, offset: usize, bytes: [u8; N]) -> Self {
        self.with_bytes(offset, &bytes)
    }

    pub(super) fn with_bytes(mut self, offset: usize, bytes: &[u8]) -> Self {
        let place = self.0.get_mut(offset..offset + bytes.len());
        debug_assert!(place.is_some(), "{} bytes at {offset}", bytes.len());
        if let Some(place) = place {
            place.copy_from_slice(bytes);
        }
        self
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads numbers out of a structure of the kernel's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn bytes<const N: usize>(self, offset: usize) -> Option<[u8; N]> {
        self.0.get(offset..offset + N)?.try_into().ok()
    }

    pub(super) fn u16(self, offset: usize) -> Option<u16> {
        self.bytes(offset).map(u16::from_ne_bytes)
    }

    pub(super) fn u32(self, offset: usize) -> Option<u32> {
        self.bytes(offset).map(u32::from_ne_bytes)
    }

    pub(super) fn i32(self, offset: usize) -> Option<i32> {
        self.bytes(offset).map(i32::from_ne_bytes)
    }

    pub(super) fn u64(self, offset: usize) -> Option<u64> {
        self.bytes(offset).map(u64::from_ne_bytes)
    }

    /// All from an offset on.
    pub(super) fn rest(self, offset: usize) -> Option<&'a [u8]> {
        self.0.get(offset..)
    }

    /// A socket address at an offset, and how many bytes it has.
    pub(super) fn address(self, offset: usize) -> Option<(SocketAddr, usize)> {
        let port = u16::from_be_bytes(self.bytes(offset + 2)?);
        let (ip, bytes) = match i32::from(self.u16(offset)?) {
            libc::AF_INET => {
                let ip = Ipv4Addr::from(self.bytes::<4>(offset + 4)?);
                (IpAddr::V4(ip), size_of::<libc::sockaddr_in>())
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(self.bytes::<16>(offset + 8)?);
                (ip.to_canonical(), size_of::<libc::sockaddr_in6>())
            }
            _ => return None,
        };
        Some((SocketAddr::new(ip, port), bytes))
    }

    /// All addresses that stand one behind the other from an offset on.
    pub(super) fn addresses(self, mut offset: usize, count: usize) -> Vec<SocketAddr> {
        let mut all = Vec::new();
        for _ in 0..count {
            let Some((address, bytes)) = self.address(offset) else {
                break;
            };
            all.push(address);
            offset += bytes;
        }
        all
    }
}

/// An address as a `struct sockaddr_in` or `struct sockaddr_in6`.
pub(super) fn socket_address(address: SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    match address.ip() {
        IpAddr::V4(ip) => Structure::new(size_of::<libc::sockaddr_in>())
            .with(0, (libc::AF_INET as u16).to_ne_bytes())
            .with(2, port)
            .with(4, ip.octets()),
        IpAddr::V6(ip) => Structure::new(size_of::<libc::sockaddr_in6>())
            .with(0, (libc::AF_INET6 as u16).to_ne_bytes())
            .with(2, port)
            .with(8, ip.octets()),
    }
    .into_bytes()
}

/// Appends ancillary data.
pub(super) fn push_control(control: &mut Vec<u8>, kind: i32, data: &[u8]) {
    let length = CONTROL_HEADER + data.len();
    control.extend(length.to_ne_bytes());
    control.extend(libc::IPPROTO_SCTP.to_ne_bytes());
    control.extend(kind.to_ne_bytes());
    control.extend(data);
    control.resize(control.len().next_multiple_of(size_of::<usize>()), 0);
}

/// Finds ancillary data of SCTP.
pub(super) fn find_control(mut control: &[u8], kind: i32) -> Option<Fields<'_>> {
    loop {
        let header = Fields(control);
        let length = usize::from_ne_bytes(header.bytes(0)?);
        let data = control.get(CONTROL_HEADER..length)?;
        let level = header.i32(size_of::<usize>())?;
        if level == libc::IPPROTO_SCTP && header.i32(size_of::<usize>() + 4)? == kind {
            return Some(Fields(data));
        }
        control = control.get(length.checked_next_multiple_of(size_of::<usize>())?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_out_as_they_went_in() {
        let addresses: [SocketAddr; 2] =
            ["192.0.2.1:9", "[2001:db8::1]:10"].map(|text| text.parse().unwrap());
        let bytes: Vec<u8> = addresses.into_iter().flat_map(socket_address).collect();
        assert_eq!(Fields(&bytes).addresses(0, 2), addresses);
        // More than there are, or one cut short, are not made up.
        assert_eq!(Fields(&bytes).addresses(0, 9), addresses);
        assert_eq!(Fields(&bytes[..20]).addresses(0, 2), addresses[..1]);
        assert!(Fields(&[7; 40]).address(0).is_none());
    }

    #[test]
    fn ancillary_data_is_found_and_bounds_are_kept() {
        let mut control = Vec::new();
        push_control(&mut control, SCTP_SNDINFO, &[1, 2, 3]);
        push_control(&mut control, SCTP_RCVINFO, &[4, 5, 6, 7]);
        fn found(bytes: &[u8], kind: i32) -> Option<Vec<u8>> {
            find_control(bytes, kind).map(|fields| fields.0.to_vec())
        }
        assert_eq!(found(&control, SCTP_SNDINFO), Some(vec![1, 2, 3]));
        assert_eq!(found(&control, SCTP_RCVINFO), Some(vec![4, 5, 6, 7]));
        assert_eq!(found(&control, SCTP_PRINFO), None);
        for length in 0..control.len() {
            assert_eq!(found(&control[..length], SCTP_PRINFO), None);
        }
        // Lengths of nothing and of everything.
        for length in [0, 1, usize::MAX] {
            control[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(found(&control, SCTP_RCVINFO), None);
        }
    }
}
