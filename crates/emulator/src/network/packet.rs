//! A packet under way.

use crate::config::Framing;
use crate::ip::{self, Flow};
use link::Delivery;

/// A packet, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) octets: Vec<u8>,
    /// Where IP begins, or would.
    ip: usize,
    /// `None` when it is not IP.
    flow: Option<Flow>,
}

const ETHERNET_HEADER: usize = 14;
const VLAN_TAG: usize = 4;

/// The type of Ethernet frames whose header goes on with a tag (IEEE 802.1Q).
const VLAN: [u8; 2] = [0x81, 0x00];
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

impl Packet {
    pub(super) fn new(octets: &[u8], framing: Framing) -> Packet {
        let (ip, is_ip) = match framing {
            Framing::Ip => (0, true),
            Framing::Ethernet => behind_ethernet(octets),
        };
        let mut packet = Packet {
            octets: octets.to_vec(),
            ip: ip.min(octets.len()),
            flow: None,
        };
        if is_ip {
            packet.flow = Flow::of(packet.ip());
        }
        packet
    }

    /// A packet that begins with IP.
    pub(super) fn of_router(octets: Vec<u8>) -> Packet {
        let flow = Flow::of(&octets);
        Packet {
            octets,
            ip: 0,
            flow,
        }
    }

    pub(super) fn flow(&self) -> Option<&Flow> {
        self.flow.as_ref()
    }

    /// The length of what a link counts: the IP packet, or what an Ethernet frame holds.
    pub(super) fn ip_length(&self) -> usize {
        self.octets.len() - self.ip
    }

    /// What a link is told of it.
    pub(super) fn for_link(&self) -> link::Packet {
        link::Packet {
            bytes: self.ip_length(),
            ecn_capable: self.flow.is_some() && ip::is_ecn_capable(self.ip()),
            class: 0,
        }
    }

    /// What a link does to its octets.
    pub(super) fn suffer(&mut self, delivery: &Delivery) {
        if delivery.marked && self.flow.is_some() {
            ip::mark_congestion(&mut self.octets[self.ip..]);
        }
        // Any bit of the packet may flip, one of its header too: the next router, or the host, finds that its
        // checksum is wrong. The header of Ethernet has none that we see, and stays.
        if let Some(alteration) = delivery.alteration {
            alteration.apply(&mut self.octets[self.ip..]);
            if self.flow.is_some() {
                self.flow = Flow::of(self.ip());
            }
        }
    }

    fn ip(&self) -> &[u8] {
        &self.octets[self.ip..]
    }
}

/// Where what a frame holds begins, and whether that is IP.
fn behind_ethernet(frame: &[u8]) -> (usize, bool) {
    let mut at = ETHERNET_HEADER;
    let kind = |at: usize| frame.get(at - 2..at);
    if kind(at) == Some(&VLAN) {
        at += VLAN_TAG;
    }
    let is_ip = kind(at).is_some_and(|kind| kind == IPV4 || kind == IPV6);
    (at, is_ip)
}
