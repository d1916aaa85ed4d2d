//! Finds the association of a packet (RFC 9260 sections 8.4 and 8.5).

use std::time::Instant;

use bytes::Bytes;
use timer_wheel::Index;

use super::associations::PeerKey;
use super::{Endpoint, is_unicast};
use crate::PathAddress;
use crate::association::Association;
use crate::packet::{Chunk, ChunkType, Packet, PacketFault};

/// A packet that passed the checks that need no association.
#[derive(Clone, Copy)]
pub(super) struct ReceivedPacket<'p> {
    pub(super) now: Instant,
    pub(super) from: &'p PathAddress,
    pub(super) packet: &'p Bytes,
    pub(super) parsed: &'p Packet<'p>,
}

impl Endpoint {
    /// Takes in a packet, from the SCTP common header on. Slices of it may be kept until the user
    /// has received the messages in it: it should not be a part of a much larger buffer.
    pub fn handle_packet(&mut self, now: Instant, from: PathAddress, packet: Bytes) {
        self.statistics.packets_received += 1;
        self.statistics.bytes_received += packet.len() as u64;
        let Ok(parsed) = Packet::read(&packet) else {
            self.statistics.drops.malformed += 1;
            return;
        };
        let checked = if self.accepts_zero_checksum(&parsed) {
            parsed.check_without_checksum()
        } else {
            parsed.check()
        };
        if let Err(fault) = checked {
            match fault {
                PacketFault::Checksum => self.statistics.drops.checksum += 1,
                PacketFault::ZeroPort => self.statistics.drops.port += 1,
                _ => self.statistics.drops.malformed += 1,
            }
            return;
        }
        let header = parsed.header();
        if header.destination_port != self.local_port {
            self.statistics.drops.port += 1;
            return;
        }
        if !is_unicast(from) {
            self.statistics.drops.not_unicast += 1;
            return;
        }
        let mut chunk_types = parsed
            .chunks()
            .raw()
            .map_while(|chunk| Some(chunk.ok()?.chunk_type()));
        match chunk_types.next() {
            Some(ChunkType::INIT) => match parsed.chunks().next() {
                Some(Ok(Chunk::Init(init))) => self.handle_init(now, from, &header, &init),
                _ => self.statistics.drops.malformed += 1,
            },
            // Section 8.5.1 A: only an INIT has no tag.
            _ if header.verification_tag == 0 => self.statistics.drops.verification_tag += 1,
            first => {
                let replies = self.replies.len();
                let received = ReceivedPacket {
                    now,
                    from: &from,
                    packet: &packet,
                    parsed: &parsed,
                };
                // An AUTH chunk may be in front of a COOKIE ECHO (RFC 4895 section 6.3).
                let first = match first {
                    Some(ChunkType::AUTH) => chunk_types.next(),
                    first => first,
                };
                // Section 8.4: an ABORT (rule 2) comes before a COOKIE ECHO (rule 4).
                if first == Some(ChunkType::COOKIE_ECHO) && !has_abort(&parsed) {
                    self.handle_cookie_echo(received);
                } else {
                    self.handle_other(received);
                }
                // Section 9.1: a packet with an ABORT in it is never answered.
                if self.replies.len() > replies && has_abort(&parsed) {
                    self.replies.truncate(replies);
                }
            }
        }
    }

    /// A packet that is neither INIT nor COOKIE ECHO (sections 8.4 and 8.5).
    fn handle_other(&mut self, received: ReceivedPacket<'_>) {
        let ReceivedPacket {
            now,
            from,
            packet,
            parsed,
        } = received;
        let header = parsed.header();
        let by_tag = self
            .associations
            .by_tag(header.verification_tag)
            .filter(|index| {
                self.associations
                    .get(*index)
                    .is_some_and(|association| association.peer_port() == header.source_port)
            });
        if let Some(index) = by_tag {
            let Some(parsed) = self.authentic(now, from, index, parsed) else {
                return;
            };
            let parsed = &parsed;
            let needed = self.received_bytes + packet.len() + self.config.association.path.mtu;
            if needed > self.config.max_received_bytes {
                self.make_room(now, index, parsed);
            }
            let starved = self.with_deferred_flush(now, index, |association, context| {
                association.handle_packet(from, packet, parsed, context);
                association.take_starved()
            });
            if let Some(needed) = starved.flatten() {
                self.end_starvation(now, index, needed);
            }
            return;
        }
        let key = PeerKey::new(*from, header.source_port);
        match self.associations.by_peer(&key) {
            Some(index) => self.handle_wrong_tag(received, index),
            None => self.handle_out_of_the_blue(*from, parsed),
        }
    }

    /// A packet of an association as far as it may be looked at (RFC 4895 section 6.3); `None` when
    /// nothing is left of it.
    fn authentic<'p>(
        &mut self,
        now: Instant,
        from: &PathAddress,
        index: Index,
        parsed: &Packet<'p>,
    ) -> Option<Packet<'p>> {
        let authenticates = self
            .associations
            .get(index)
            .is_some_and(Association::authenticates);
        if !authenticates {
            return Some(*parsed);
        }
        self.with_deferred_flush(now, index, |association, context| {
            association.authentic(*from, parsed, context)
        })
        .flatten()
    }

    /// Whether a packet has no checksum and belongs to an association that does without (RFC 9653
    /// section 5.3). Zero may be the right checksum, too: that makes no difference then.
    fn accepts_zero_checksum(&self, parsed: &Packet<'_>) -> bool {
        let header = parsed.header();
        header.checksum == 0
            && self
                .associations
                .by_tag(header.verification_tag)
                .and_then(|index| self.associations.get(index))
                .is_some_and(Association::accepts_zero_checksum)
    }

    /// A packet of a peer that we know, without our tag (section 8.5).
    fn handle_wrong_tag(&mut self, received: ReceivedPacket<'_>, index: Index) {
        let ReceivedPacket {
            now, from, parsed, ..
        } = received;
        let opening = self
            .associations
            .get(index)
            .is_some_and(Association::is_opening);
        let has_shutdown_ack = parsed
            .chunks()
            .any(|chunk| matches!(chunk, Ok(Chunk::ShutdownAck)));
        if opening && has_shutdown_ack {
            // Section 8.5.1 E: as if it were out of the blue.
            self.handle_out_of_the_blue(*from, parsed);
            return;
        }
        let accepted = self.with(now, index, |association, context| {
            association.handle_reflected(*from, parsed, context)
        });
        if accepted != Some(true) {
            self.statistics.drops.verification_tag += 1;
        }
    }
}

fn has_abort(packet: &Packet<'_>) -> bool {
    packet
        .chunks()
        .raw()
        .any(|chunk| chunk.is_ok_and(|chunk| chunk.chunk_type() == ChunkType::ABORT))
}
