//! What stands before the IP header.

use bytes::Buf;

use crate::file::LinkType;

/// What a packet has after its link-layer header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Payload<'a> {
    /// An IP packet of either version.
    Ip(&'a [u8]),
    /// A message with the tags of an exported PDU before it.
    UpperPdu(&'a [u8]),
    /// Nothing that is looked into.
    Other,
}

/// What nearly all packets have after their header: IPv4, behind Ethernet. Nothing is said of any other.
#[inline(always)]
pub(crate) fn usual_ip(link: LinkType, octets: &[u8]) -> Option<&[u8]> {
    match octets.split_first_chunk::<14>() {
        Some(([.., 8, 0], ip)) if link == LinkType::ETHERNET => Some(ip),
        _ => None,
    }
}

/// Takes the link-layer header away.
pub(crate) fn payload(link: LinkType, octets: &[u8]) -> Payload<'_> {
    let ip = match link {
        LinkType::ETHERNET => ethernet(octets),
        LinkType::LINUX_SLL => octets.get(14..).and_then(ether_payload),
        LinkType::LINUX_SLL2 => {
            // The protocol is the first field, and what it is about comes after the header.
            let mut header = octets;
            match (header.try_get_u16(), octets.get(20..)) {
                (Ok(protocol), Some(rest)) => tagged(protocol, rest),
                _ => None,
            }
        }
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => Some(octets),
        link if LinkType::RAW_BSD.contains(&link) => Some(octets),
        // The address family has another number on each system; the version in the IP header has not.
        LinkType::NULL | LinkType::LOOP => octets.get(4..),
        LinkType::PPP => ppp(octets.strip_prefix(&[0xff, 0x03]).unwrap_or(octets)),
        LinkType::UPPER_PDU => return Payload::UpperPdu(octets),
        _ => None,
    };
    match ip {
        Some(ip) if is_ip(ip) => Payload::Ip(ip),
        _ => Payload::Other,
    }
}

/// Whether the version is one of IP.
pub(crate) fn is_ip(octets: &[u8]) -> bool {
    matches!(octets.first().map(|octet| octet >> 4), Some(4 | 6))
}

/// The IP packet in an Ethernet frame.
pub(crate) fn ethernet(octets: &[u8]) -> Option<&[u8]> {
    ether_payload(octets.get(12..)?)
}

/// What follows an EtherType, which is the first field.
fn ether_payload(mut octets: &[u8]) -> Option<&[u8]> {
    let ether_type = octets.try_get_u16().ok()?;
    tagged(ether_type, octets)
}

/// The IP packet after an EtherType, and after all tags that come first.
pub(crate) fn tagged(mut ether_type: u16, mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        match ether_type {
            IPV4 | IPV6 => return Some(rest),
            VLAN | SERVICE_VLAN | OLD_SERVICE_VLAN => {
                let _tag = rest.try_get_u16().ok()?;
                ether_type = rest.try_get_u16().ok()?;
            }
            TRANSPARENT_ETHERNET => {
                rest = rest.get(12..)?;
                ether_type = rest.try_get_u16().ok()?;
            }
            // After version, code, session and length.
            PPPOE_SESSION => return ppp(rest.get(6..)?),
            MPLS => {
                // The last label of the stack has a bit set; what follows is known by its version.
                let is_last = rest.get(2)? & 1 != 0;
                rest = rest.get(4..)?;
                if is_last {
                    return Some(rest);
                }
            }
            _ => return None,
        }
    }
}

fn ppp(mut octets: &[u8]) -> Option<&[u8]> {
    match octets.try_get_u16().ok()? {
        PPP_IPV4 | PPP_IPV6 => Some(octets),
        _ => None,
    }
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
const OLD_SERVICE_VLAN: u16 = 0x9100;
/// A whole Ethernet frame (RFC 1701).
const TRANSPARENT_ETHERNET: u16 = 0x6558;
const PPPOE_SESSION: u16 = 0x8864;
const MPLS: u16 = 0x8847;
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

#[cfg(test)]
mod tests {
    use super::*;

    const IP: [u8; 20] = [0x45; 20];

    fn after(link: LinkType, header: &[u8]) -> bool {
        let octets = [header, &IP].concat();
        for length in 0..octets.len() {
            // However little there is of it, it is read.
            payload(link, &octets[..length]);
        }
        payload(link, &octets) == Payload::Ip(&IP)
    }

    #[test]
    fn ip_is_found_behind_every_header() {
        let addresses = [2; 12];
        let ethernet = |types: &[u8]| [&addresses[..], types].concat();
        assert!(after(LinkType::ETHERNET, &ethernet(&[8, 0])));
        assert!(after(LinkType::ETHERNET, &ethernet(&[0x81, 0, 0, 5, 8, 0])));
        assert!(after(
            LinkType::ETHERNET,
            &ethernet(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7, 0x86, 0xdd])
        ));
        assert!(after(
            LinkType::ETHERNET,
            &ethernet(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 22, 0, 0x21])
        ));
        assert!(after(
            LinkType::ETHERNET,
            &ethernet(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64])
        ));
        assert!(after(
            LinkType::LINUX_SLL,
            &[&[0; 14][..], &[8, 0]].concat()
        ));
        assert!(after(
            LinkType::LINUX_SLL2,
            &[&[8, 0][..], &[0; 18]].concat()
        ));
        assert!(after(LinkType::RAW, &[]));
        assert!(after(LinkType(12), &[]));
        assert!(after(LinkType::NULL, &[2, 0, 0, 0]));
        assert!(after(LinkType::LOOP, &[0, 0, 0, 2]));
        assert!(after(LinkType::PPP, &[0xff, 3, 0, 0x21]));
    }

    #[test]
    fn what_is_not_ip_is_left_out() {
        let arp = [&[2; 12][..], &[8, 6], &IP].concat();
        assert_eq!(payload(LinkType::ETHERNET, &arp), Payload::Other);
        assert_eq!(payload(LinkType::RAW, &[0x12; 20]), Payload::Other);
        assert_eq!(payload(LinkType(9999), &IP), Payload::Other);
    }
}
