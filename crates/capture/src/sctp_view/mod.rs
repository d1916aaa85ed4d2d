//! SCTP as a capture shows it: associations, their paths, chunks, what was sent again, round-trip times.

mod association;
mod flight;

use std::collections::BTreeMap;

use ahash::RandomState;
use hashbrown::HashMap;
use sctp::packet::{Chunk, ChunkType};

use crate::{Endpoint, SctpPacket, Seen};

pub use association::{Association, Beginning, Direction, Ending, Path, RoundTrips};

/// The associations of a capture.
#[derive(Debug)]
pub struct SctpView {
    associations: Vec<Association>,
    /// Which association a packet belongs to, and which way it goes.
    by_tag: HashMap<TagKey, Place, RandomState>,
    /// Associations whose INIT has been seen and nothing else, by what the INIT ACK will say.
    by_ends: HashMap<EndsKey, usize, RandomState>,
    most: usize,
    chunks: BTreeMap<u8, u64>,
    packets: u64,
    octets: u64,
    bad_checksums: u64,
    malformed: u64,
    unplaced: u64,
    repeated_elsewhere: u64,
    outstanding: usize,
}

/// DATA chunks of all associations that are remembered until they are acknowledged.
const MOST_OUTSTANDING: usize = 1_000_000;

/// The tag that packets to one end carry, and the ports: unique for as long as an association lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct TagKey {
    verification_tag: u32,
    source_port: u16,
    destination_port: u16,
}

/// The two ends of a packet, the lower one first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct EndsKey(Endpoint, Endpoint);

/// An association and a way through it.
#[derive(Clone, Copy, Debug)]
struct Place {
    association: usize,
    /// Whether it goes away from the end that began, or was seen first.
    is_forward: bool,
}

impl SctpView {
    pub(crate) fn new(hasher: RandomState, most: usize) -> SctpView {
        SctpView {
            associations: Vec::new(),
            by_tag: HashMap::with_hasher(hasher.clone()),
            by_ends: HashMap::with_hasher(hasher),
            most,
            chunks: BTreeMap::new(),
            packets: 0,
            octets: 0,
            bad_checksums: 0,
            malformed: 0,
            unplaced: 0,
            repeated_elsewhere: 0,
            outstanding: 0,
        }
    }

    /// The associations, in the order in which they came up.
    pub fn associations(&self) -> &[Association] {
        &self.associations
    }

    /// Chunks of all packets by type.
    pub fn chunks(&self) -> impl Iterator<Item = (ChunkType, u64)> {
        self.chunks
            .iter()
            .map(|(chunk_type, count)| (ChunkType(*chunk_type), *count))
    }

    /// SCTP packets.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Octets of SCTP packets, from the common header on.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// Packets whose checksum is wrong. They count for nothing else.
    pub fn bad_checksums(&self) -> u64 {
        self.bad_checksums
    }

    /// Packets with chunks that cannot be read.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Packets of associations beyond those that are followed.
    pub fn unplaced(&self) -> u64 {
        self.unplaced
    }

    /// Packets of an association that another file has too: it is followed in one file only.
    pub fn repeated_elsewhere(&self) -> u64 {
        self.repeated_elsewhere
    }

    pub(crate) fn see(&mut self, seen: &Seen<'_>, sctp: &SctpPacket<'_>) {
        self.packets += 1;
        self.octets += sctp.packet.bytes().len() as u64;
        // An interface that computes checksums leaves 0 in packets that it is about to send.
        let checksum = sctp.packet.header().checksum;
        if !sctp.cut && checksum != 0 && !sctp.packet.has_valid_checksum() {
            self.bad_checksums += 1;
            return;
        }
        let mut chunks = Vec::with_capacity(4);
        for chunk in sctp.packet.chunks() {
            match chunk {
                Ok(chunk) => {
                    *self.chunks.entry(chunk.chunk_type().0).or_default() += 1;
                    chunks.push(chunk);
                }
                Err(_) => {
                    self.malformed += u64::from(!sctp.cut);
                    break;
                }
            }
        }
        let Some(place) = self.place(seen, sctp, &chunks) else {
            self.unplaced += 1;
            return;
        };
        let Some(association) = self.associations.get_mut(place.association) else {
            return;
        };
        if association.file != seen.file {
            self.repeated_elsewhere += 1;
            return;
        }
        let before = association.outstanding();
        association.see(seen, sctp, &chunks, place.is_forward);
        self.outstanding = self.outstanding - before + association.outstanding();
        if self.outstanding > MOST_OUTSTANDING {
            self.outstanding -= association.outstanding();
            association.forget_outstanding();
        }
    }

    /// Finds the association of a packet, or begins one.
    fn place(
        &mut self,
        seen: &Seen<'_>,
        sctp: &SctpPacket<'_>,
        chunks: &[Chunk<'_>],
    ) -> Option<Place> {
        let header = sctp.packet.header();
        let key = TagKey {
            verification_tag: header.verification_tag,
            source_port: header.source_port,
            destination_port: header.destination_port,
        };
        let ends = EndsKey(
            seen.source.min(seen.destination),
            seen.source.max(seen.destination),
        );
        // What answers carry.
        let back = |tag: u32| TagKey {
            verification_tag: tag,
            source_port: header.destination_port,
            destination_port: header.source_port,
        };
        match chunks.first() {
            Some(Chunk::Init(init)) => {
                let back = back(init.initiate_tag);
                // A repeated INIT has the same tag.
                if let Some(known) = self.by_tag.get(&back) {
                    return Some(Place {
                        association: known.association,
                        is_forward: !known.is_forward,
                    });
                }
                let association = self.begin(seen, sctp)?;
                let place = |is_forward| Place {
                    association,
                    is_forward,
                };
                self.by_tag.insert(back, place(false));
                self.by_ends.insert(ends, association);
                Some(place(true))
            }
            Some(Chunk::InitAck(init)) => {
                let place = self.by_tag.get(&key).copied()?;
                self.by_tag.insert(
                    back(init.initiate_tag),
                    Place {
                        is_forward: !place.is_forward,
                        ..place
                    },
                );
                self.by_ends.remove(&ends);
                Some(place)
            }
            _ => {
                if let Some(place) = self.by_tag.get(&key) {
                    return Some(*place);
                }
                // Out of the blue, as the answer to a packet of an association that its sender has ended, it carries the tag
                // of that packet (RFC 9260 section 8.4).
                if has_reflected_tag(chunks)
                    && let Some(answered) = self.by_tag.get(&back(header.verification_tag))
                {
                    return Some(Place {
                        association: answered.association,
                        is_forward: !answered.is_forward,
                    });
                }
                // The set-up was not captured. The other direction, if seen, has the same ends.
                let known = self
                    .by_ends
                    .get(&ends)
                    .and_then(|at| Some((*at, self.associations.get(*at)?)));
                let place = match known {
                    Some((at, association)) => Place {
                        association: at,
                        is_forward: association.source == seen.source,
                    },
                    None => {
                        let association = self.begin(seen, sctp)?;
                        self.by_ends.insert(ends, association);
                        Place {
                            association,
                            is_forward: true,
                        }
                    }
                };
                self.by_tag.insert(key, place);
                Some(place)
            }
        }
    }

    fn begin(&mut self, seen: &Seen<'_>, sctp: &SctpPacket<'_>) -> Option<usize> {
        if self.associations.len() >= self.most {
            return None;
        }
        self.associations.push(Association::new(seen, sctp.udp));
        Some(self.associations.len() - 1)
    }
}

/// Whether a packet says that its verification tag is the one of the packet that it answers.
fn has_reflected_tag(chunks: &[Chunk<'_>]) -> bool {
    chunks.iter().any(|chunk| match chunk {
        Chunk::Abort(abort) => abort.tag_reflected,
        Chunk::ShutdownComplete(complete) => complete.tag_reflected,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use sctp::packet::{
        Abort, Causes, Init, Packet, PacketWriter, Parameters, Shutdown, ShutdownComplete, Tsn,
    };

    use super::*;
    use crate::{Time, What};

    /// A view of packets from one of two ends to the other, each with its verification tag.
    fn view(packets: &[(bool, u32, Chunk<'_>)]) -> SctpView {
        let mut view = SctpView::new(RandomState::with_seeds(1, 2, 3, 4), 10);
        let ends: [Endpoint; 2] = ["192.0.2.1:5060", "192.0.2.2:5070"].map(|end| {
            let end: std::net::SocketAddr = end.parse().expect("an address");
            Endpoint {
                address: end.ip(),
                port: end.port(),
            }
        });
        for (number, (is_back, tag, chunk)) in packets.iter().enumerate() {
            let (source, destination) = match is_back {
                false => (ends[0], ends[1]),
                true => (ends[1], ends[0]),
            };
            let mut buffer = BytesMut::new();
            let mut writer =
                PacketWriter::new(&mut buffer, source.port, destination.port, *tag, 1500);
            writer.chunk(chunk).expect("room");
            let octets = writer.finish();
            let sctp = SctpPacket {
                packet: Packet::read(&octets).expect("a packet"),
                udp: None,
                cut: false,
            };
            let seen = Seen {
                time: Time(number as i64),
                file: 0,
                packet: number as u64 + 1,
                source,
                destination,
                what: What::Sctp(sctp),
            };
            view.see(&seen, &sctp);
        }
        view
    }

    #[test]
    fn answers_out_of_the_blue_belong_to_what_they_answer() {
        let init = |initiate_tag| Init {
            initiate_tag,
            a_rwnd: 1500,
            outbound_streams: 1,
            inbound_streams: 1,
            initial_tsn: Tsn(1),
            parameters: Parameters::default(),
        };
        let shut_down = [
            (false, 0, Chunk::Init(init(1))),
            (true, 1, Chunk::InitAck(init(2))),
            (
                false,
                2,
                Chunk::Shutdown(Shutdown {
                    cumulative_tsn_ack: Tsn(0),
                }),
            ),
            (true, 1, Chunk::ShutdownAck),
            (
                false,
                2,
                Chunk::ShutdownComplete(ShutdownComplete {
                    tag_reflected: false,
                }),
            ),
            (true, 1, Chunk::ShutdownAck),
        ];
        let answers = [
            Chunk::ShutdownComplete(ShutdownComplete {
                tag_reflected: true,
            }),
            Chunk::Abort(Abort {
                tag_reflected: true,
                causes: Causes::new(&[]),
            }),
        ];
        for answer in answers {
            let all = shut_down.iter().cloned().chain([(false, 1, answer)]);
            let view = view(&all.collect::<Vec<_>>());
            let [association] = view.associations() else {
                panic!("{:?}", view.associations());
            };
            assert_eq!(association.ending, Ending::Shutdown);
            assert_eq!(
                (association.forward.packets, association.backward.packets),
                (4, 3)
            );
        }
    }
}
