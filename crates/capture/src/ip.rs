//! IP packets (RFC 791, RFC 8200) and their fragments.

use std::borrow::Cow;
use std::net::IpAddr;

use ahash::RandomState;
use etherparse::defrag::IpDefragBuf;
use etherparse::{
    IpFragOffset, IpNumber, Ipv4HeaderSlice, Ipv6FragmentHeaderSlice, Ipv6HeaderSlice,
    Ipv6RawExtHeaderSlice, ip_number,
};
use lru::LruCache;

use crate::settings::Settings;
use crate::{Endpoint, Warning};

/// What an IP packet carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Datagram<'p> {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: IpNumber,
    /// A part of the packet, or what its fragments were put together to.
    pub(crate) payload: Cow<'p, [u8]>,
    /// How many octets of it are not in the capture.
    pub(crate) missing: usize,
}

/// What an IP packet is for those before it.
pub(crate) enum Reassembly<'p> {
    /// It is whole, or has made its datagram whole.
    Whole(Datagram<'p>),
    /// A fragment, while others are missing.
    Waiting,
}

/// Octets of the headers of IPv4 without options, and of UDP.
const UDP_BEGINNING: usize = 20 + 8;

/// A UDP datagram about which nothing is unusual: whole, in one IPv4 packet without options.
///
/// It is read by itself because most messages come in such a one, and because it costs less to take the few values out of
/// the packet than to hand a [`Datagram`] on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsualUdp<'p> {
    source: [u8; 4],
    destination: [u8; 4],
    source_port: [u8; 2],
    destination_port: [u8; 2],
    pub(crate) payload: &'p [u8],
}

impl<'p> UsualUdp<'p> {
    #[inline(always)]
    pub(crate) fn of(packet: &'p [u8]) -> Option<UsualUdp<'p>> {
        let headers: &[u8; UDP_BEGINNING] = packet.first_chunk()?;
        let &[
            0x45,
            _,
            total_0,
            total_1,
            _,
            _,
            fragment_0,
            fragment_1,
            _,
            protocol,
            _,
            _,
            source_0,
            source_1,
            source_2,
            source_3,
            destination_0,
            destination_1,
            destination_2,
            destination_3,
            source_port_0,
            source_port_1,
            destination_port_0,
            destination_port_1,
            udp_0,
            udp_1,
            _,
            _,
        ] = headers
        else {
            return None;
        };
        let total = usize::from(u16::from_be_bytes([total_0, total_1]));
        let length = usize::from(u16::from_be_bytes([udp_0, udp_1]));
        // Neither more fragments nor an offset: of the three flags the others do not matter.
        let is_whole = u16::from_be_bytes([fragment_0, fragment_1]) & 0x3fff == 0;
        if protocol != ip_number::UDP.0 || !is_whole || length + 20 != total {
            return None;
        }
        Some(UsualUdp {
            source: [source_0, source_1, source_2, source_3],
            destination: [destination_0, destination_1, destination_2, destination_3],
            source_port: [source_port_0, source_port_1],
            destination_port: [destination_port_0, destination_port_1],
            payload: packet.get(UDP_BEGINNING..total)?,
        })
    }

    /// Source and destination.
    #[inline(always)]
    pub(crate) fn ends(&self) -> (Endpoint, Endpoint) {
        let end = |address: [u8; 4], port| Endpoint {
            address: address.into(),
            port: u16::from_be_bytes(port),
        };
        (
            end(self.source, self.source_port),
            end(self.destination, self.destination_port),
        )
    }
}

/// Puts fragments together.
pub(crate) struct Fragments {
    waiting: LruCache<FragmentKey, Waiting, RandomState>,
    held: usize,
    most_packets: usize,
    most_octets: usize,
}

/// What the fragments of one packet have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FragmentKey {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    identification: u32,
}

/// A part of a packet.
struct Fragment<'a> {
    key: FragmentKey,
    offset: IpFragOffset,
    more: bool,
    /// What the whole carries; the first fragment alone is to be believed.
    protocol: IpNumber,
    payload: &'a [u8],
}

/// The fragments of a packet that have been seen.
struct Waiting {
    parts: IpDefragBuf,
    protocol: IpNumber,
}

impl Fragments {
    pub(crate) fn new(settings: &Settings) -> Fragments {
        Fragments {
            waiting: LruCache::unbounded_with_hasher(settings.hasher()),
            held: 0,
            most_packets: settings.limits.fragmented_packets,
            most_octets: settings.limits.fragment_octets,
        }
    }

    /// Reads an IP packet. `None` when it is none, or cannot be read.
    pub(crate) fn read<'p>(
        &mut self,
        packet: &'p [u8],
        warn: &mut dyn FnMut(Warning),
    ) -> Option<Reassembly<'p>> {
        match packet.first()? >> 4 {
            4 => self.read_ipv4(packet, warn),
            6 => self.read_ipv6(packet, warn),
            _ => None,
        }
    }

    fn read_ipv4<'p>(
        &mut self,
        packet: &'p [u8],
        warn: &mut dyn FnMut(Warning),
    ) -> Option<Reassembly<'p>> {
        let header = Ipv4HeaderSlice::from_slice(packet).ok()?;
        let header_length = header.slice().len();
        // A length of 0 is what the kernel writes before the network card has cut a large packet up.
        let length = match usize::from(header.total_len()) {
            length if length < header_length => packet.len(),
            length => length,
        };
        let payload = packet.get(header_length..length.min(packet.len()))?;
        let (source, destination) = (
            header.source_addr().into(),
            header.destination_addr().into(),
        );
        let protocol = header.protocol();
        if header.is_fragmenting_payload() {
            let key = FragmentKey {
                source,
                destination,
                protocol: protocol.0,
                identification: u32::from(header.identification()),
            };
            let fragment = Fragment {
                key,
                offset: header.fragments_offset(),
                more: header.more_fragments(),
                protocol,
                payload,
            };
            return Some(self.add(fragment, warn));
        }
        Some(Reassembly::Whole(Datagram {
            source,
            destination,
            protocol,
            payload: Cow::Borrowed(payload),
            missing: length.saturating_sub(packet.len()),
        }))
    }

    fn read_ipv6<'p>(
        &mut self,
        packet: &'p [u8],
        warn: &mut dyn FnMut(Warning),
    ) -> Option<Reassembly<'p>> {
        let header = Ipv6HeaderSlice::from_slice(packet).ok()?;
        let length = match usize::from(header.payload_length()) {
            0 => packet.len(),
            length => length + header.slice().len(),
        };
        let payload = packet.get(header.slice().len()..length.min(packet.len()))?;
        let (source, destination) = (
            header.source_addr().into(),
            header.destination_addr().into(),
        );
        let (mut protocol, mut payload) = extensions(header.next_header(), payload)?;
        if protocol == ip_number::IPV6_FRAG {
            let header = Ipv6FragmentHeaderSlice::from_slice(payload).ok()?;
            payload = payload.get(header.slice().len()..)?;
            if header.is_fragmenting_payload() {
                let key = FragmentKey {
                    source,
                    destination,
                    // Not a part of what identifies it (RFC 8200 section 4.5).
                    protocol: 0,
                    identification: header.identification(),
                };
                let fragment = Fragment {
                    key,
                    offset: header.fragment_offset(),
                    more: header.more_fragments(),
                    protocol: header.next_header(),
                    payload,
                };
                let mut datagram = match self.add(fragment, warn) {
                    Reassembly::Whole(datagram) => datagram,
                    Reassembly::Waiting => return Some(Reassembly::Waiting),
                };
                let (protocol, payload) = extensions(datagram.protocol, &datagram.payload)?;
                if payload.len() < datagram.payload.len() {
                    datagram.payload = Cow::Owned(payload.to_vec());
                }
                datagram.protocol = protocol;
                return Some(Reassembly::Whole(datagram));
            }
            // An atomic fragment (RFC 6946) is whole.
            (protocol, payload) = extensions(header.next_header(), payload)?;
        }
        Some(Reassembly::Whole(Datagram {
            source,
            destination,
            protocol,
            payload: Cow::Borrowed(payload),
            missing: length.saturating_sub(packet.len()),
        }))
    }

    /// Adds a fragment, and gives the whole when none is missing.
    fn add(
        &mut self,
        fragment: Fragment<'_>,
        warn: &mut dyn FnMut(Warning),
    ) -> Reassembly<'static> {
        let Fragment { key, protocol, .. } = fragment;
        let waiting = self.waiting.get_or_insert_mut(key, || Waiting {
            parts: IpDefragBuf::new(protocol, Vec::new(), Vec::new()),
            protocol,
        });
        if fragment.offset.value() == 0 {
            waiting.protocol = protocol;
        }
        let before = octets_of(&waiting.parts);
        // One that contradicts those before it is left out.
        let added = waiting
            .parts
            .add(fragment.offset, fragment.more, fragment.payload);
        let held = octets_of(&waiting.parts);
        self.held = (self.held + held).saturating_sub(before);
        if added.is_ok()
            && waiting.parts.is_complete()
            && let Some(waiting) = self.waiting.pop(&key)
        {
            self.held = self.held.saturating_sub(held);
            return Reassembly::Whole(Datagram {
                source: key.source,
                destination: key.destination,
                protocol: waiting.protocol,
                payload: Cow::Owned(waiting.parts.take_bufs().0),
                missing: 0,
            });
        }
        while self.waiting.len() > self.most_packets || self.held > self.most_octets {
            let Some((_, oldest)) = self.waiting.pop_lru() else {
                break;
            };
            self.held = self.held.saturating_sub(octets_of(&oldest.parts));
            warn(Warning::Dropped(
                "an IP packet without all of its fragments",
            ));
        }
        Reassembly::Waiting
    }
}

/// How much memory the fragments of a packet take.
fn octets_of(parts: &IpDefragBuf) -> usize {
    parts.data().capacity() + size_of_val(parts.sections().as_slice())
}

/// Goes over the extension headers of IPv6 that say nothing here.
fn extensions(mut next: IpNumber, mut payload: &[u8]) -> Option<(IpNumber, &[u8])> {
    while matches!(
        next,
        ip_number::IPV6_HOP_BY_HOP | ip_number::IPV6_DEST_OPTIONS | ip_number::IPV6_ROUTE
    ) {
        let header = Ipv6RawExtHeaderSlice::from_slice(payload).ok()?;
        next = header.next_header();
        payload = payload.get(header.slice().len()..)?;
    }
    Some((next, payload))
}
