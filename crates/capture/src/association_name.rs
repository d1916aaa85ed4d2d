//! What names an SCTP association, whichever of its addresses a packet has.

use ahash::RandomState;
use lru::LruCache;
use sctp::packet::{Chunk, Packet};

use crate::Endpoint;

/// Names an association: the tags of both ends where its handshake was seen, since it may have several addresses; else its
/// addresses and ports. The lesser end is first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AssociationName(Name);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Name {
    Tags([(u32, u16); 2]),
    Ends([Endpoint; 2]),
}

/// Which end of an association.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AssociationEnd {
    /// The association.
    pub association: AssociationName,
    /// 0 or 1.
    pub end: usize,
}

/// What is known of associations to name them.
pub(crate) struct AssociationNames {
    /// The peer's verification tag for one with its ports, as the handshake told.
    tags: LruCache<(u32, [u16; 2]), u32, RandomState>,
    most: usize,
}

impl AssociationNames {
    /// At most so many associations are remembered.
    pub(crate) fn new(hasher: RandomState, most: usize) -> AssociationNames {
        AssociationNames {
            tags: LruCache::unbounded_with_hasher(hasher),
            most,
        }
    }

    /// Learns from a packet which tags belong together: an INIT ACK has both (RFC 9260 section 5.1).
    pub(crate) fn learn(&mut self, packet: &Packet<'_>) {
        let Some(Ok(Chunk::InitAck(init_ack))) = packet.chunks().next() else {
            return;
        };
        let header = packet.header();
        let ports = [header.source_port, header.destination_port];
        let (theirs, ours) = (header.verification_tag, init_ack.initiate_tag);
        self.tags.put((theirs, ports), ours);
        self.tags.put((ours, [ports[1], ports[0]]), theirs);
        while self.tags.len() > 2 * self.most {
            self.tags.pop_lru();
        }
    }

    /// The end that sent a packet with this verification tag.
    pub(crate) fn sender(
        &mut self,
        source: Endpoint,
        destination: Endpoint,
        verification_tag: u32,
    ) -> AssociationEnd {
        let known = self
            .tags
            .get(&(verification_tag, [source.port, destination.port]));
        let (name, end) = match known {
            Some(peer) => {
                // The tag of a packet is its receiver's.
                let receiver = (verification_tag, destination.port);
                let sender = (*peer, source.port);
                match sender <= receiver {
                    true => (Name::Tags([sender, receiver]), 0),
                    false => (Name::Tags([receiver, sender]), 1),
                }
            }
            None if source <= destination => (Name::Ends([source, destination]), 0),
            None => (Name::Ends([destination, source]), 1),
        };
        AssociationEnd {
            association: AssociationName(name),
            end,
        }
    }
}
