//! ICMP messages about packets of ours (RFC 9260 section 10): which of them count, and whose they
//! are.

use std::time::Instant;

use bytes::{Buf, Bytes};

use super::associations::PeerKey;
use super::{Endpoint, is_unicast};
use crate::PathAddress;
use crate::association::IcmpOutcome;

/// An ICMP or ICMPv6 message that a driver received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IcmpError {
    /// Where the packet that the message quotes went to: its destination, its source where it is
    /// known, and the destination port of its UDP header if it had one.
    pub path: PathAddress,
    /// What it says.
    pub kind: IcmpKind,
    /// The quoted packet, from the SCTP common header on, as much as there is of it. Fewer than
    /// eight bytes prove nothing.
    pub quoted: Bytes,
}

/// What an ICMP message says, as far as SCTP cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpKind {
    /// A router does not pass on packets of that size.
    PacketTooBig {
        /// The largest IP packet that it does pass on, headers included, in bytes.
        mtu: usize,
    },
    /// The host does not know the protocol: SCTP.
    ProtocolUnreachable,
    /// Nobody listens on the port. Of an encapsulated packet that is its UDP port.
    PortUnreachable,
    /// The host or its network cannot be reached.
    Unreachable,
}

impl IcmpKind {
    /// What an ICMPv4 message says, from its Type, Code, and Next-Hop MTU fields; `None` when it
    /// is to be ignored (ICMP1).
    pub fn of_icmpv4(icmp_type: u8, code: u8, next_hop_mtu: u16) -> Option<IcmpKind> {
        const DESTINATION_UNREACHABLE: u8 = 3;
        if icmp_type != DESTINATION_UNREACHABLE {
            return None;
        }
        Some(match code {
            2 => IcmpKind::ProtocolUnreachable,
            3 => IcmpKind::PortUnreachable,
            4 => IcmpKind::PacketTooBig {
                mtu: usize::from(next_hop_mtu),
            },
            _ => IcmpKind::Unreachable,
        })
    }

    /// What an ICMPv6 message says, from its Type, Code, and MTU fields; `None` when it is to be
    /// ignored (ICMP2 and ICMP4).
    pub fn of_icmpv6(icmp_type: u8, code: u8, mtu: u32) -> Option<IcmpKind> {
        match (icmp_type, code) {
            (1, 4) => Some(IcmpKind::PortUnreachable),
            (1, _) => Some(IcmpKind::Unreachable),
            (2, _) => Some(IcmpKind::PacketTooBig {
                mtu: usize::try_from(mtu).unwrap_or(usize::MAX),
            }),
            // Unrecognized Next Header Type Encountered.
            (4, 1) => Some(IcmpKind::ProtocolUnreachable),
            _ => None,
        }
    }
}

impl Endpoint {
    /// Takes in an ICMP message (section 10). One that does not quote a packet of an association,
    /// with its verification tag, is dropped and counted.
    pub fn handle_icmp(&mut self, now: Instant, error: IcmpError) {
        let IcmpError { path, kind, quoted } = error;
        let Some(index) = self.find_quoted(path, &quoted) else {
            self.statistics.drops.icmp_unmatched += 1;
            return;
        };
        let outcome = self.with(now, index, |association, context| {
            association.handle_icmp(path, kind, &quoted, context)
        });
        match outcome {
            Some(IcmpOutcome::Heeded) => {}
            Some(IcmpOutcome::NotProved) => self.statistics.drops.icmp_verification_tag += 1,
            Some(IcmpOutcome::Ignored) | None => self.statistics.drops.icmp_ignored += 1,
        }
    }

    /// ICMP5: the association whose packet is quoted, by its addresses and ports.
    fn find_quoted(&self, path: PathAddress, mut quoted: &[u8]) -> Option<super::Index> {
        let source_port = quoted.try_get_u16().ok()?;
        let destination_port = quoted.try_get_u16().ok()?;
        if source_port != self.local_port || !is_unicast(path) {
            return None;
        }
        let key = PeerKey::new(path, destination_port);
        self.associations.by_peer(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_and_codes_of_icmpv4() {
        let of = |icmp_type, code| IcmpKind::of_icmpv4(icmp_type, code, 1400);
        assert_eq!(of(3, 0), Some(IcmpKind::Unreachable));
        assert_eq!(of(3, 2), Some(IcmpKind::ProtocolUnreachable));
        assert_eq!(of(3, 3), Some(IcmpKind::PortUnreachable));
        assert_eq!(of(3, 4), Some(IcmpKind::PacketTooBig { mtu: 1400 }));
        for other in [0, 4, 5, 8, 11, 12] {
            assert_eq!(of(other, 4), None);
        }
    }

    #[test]
    fn the_types_and_codes_of_icmpv6() {
        let of = |icmp_type, code| IcmpKind::of_icmpv6(icmp_type, code, 1280);
        assert_eq!(of(1, 0), Some(IcmpKind::Unreachable));
        assert_eq!(of(1, 4), Some(IcmpKind::PortUnreachable));
        assert_eq!(of(2, 0), Some(IcmpKind::PacketTooBig { mtu: 1280 }));
        assert_eq!(of(4, 1), Some(IcmpKind::ProtocolUnreachable));
        for (icmp_type, code) in [(4, 0), (4, 2), (3, 0), (128, 0), (137, 0)] {
            assert_eq!(of(icmp_type, code), None);
        }
    }
}
