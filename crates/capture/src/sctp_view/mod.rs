//! SCTP as a capture shows it: associations, their paths, chunks, what was sent again, round-trip times.

mod association;
mod change;
mod flight;
mod later;
mod totals;

use std::collections::BTreeMap;

use ahash::RandomState;
use hashbrown::HashMap;
use sctp::packet::{Chunk, ChunkType};

use crate::{Endpoint, Event, SctpPacket};

use later::{Followed, Later};

pub use association::{Association, Beginning, Direction, Ending, Path, RoundTrips};
pub(crate) use change::label_of;
pub use change::{Change, ChangeOutcome, ChangeRequest, Streams};
pub use totals::SctpTotals;

/// The associations of a capture.
#[derive(Debug)]
pub struct SctpView {
    /// The first ones, which are kept.
    associations: Vec<Association>,
    /// Those that came up later.
    later: Later,
    /// Those that came up later and are over.
    released: SctpTotals,
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

/// Tags by which packets of one association are known: one for each end, and those of ends that have begun anew, or whose
/// set-up was not captured.
const MOST_TAGS: usize = 32;

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
    /// Its place among the first ones; beyond these its key among the later ones.
    association: usize,
    /// Whether it goes away from the end that began, or was seen first.
    is_forward: bool,
}

impl SctpView {
    pub(crate) fn new(hasher: RandomState, most: usize) -> SctpView {
        SctpView {
            associations: Vec::new(),
            later: Later::new(most),
            released: SctpTotals::default(),
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

    /// The associations, in the order in which they came up: the first ones.
    pub fn associations(&self) -> &[Association] {
        &self.associations
    }

    /// Sums over all associations, those included that came up after the [first ones](SctpView::associations).
    pub fn totals(&self) -> SctpTotals {
        let mut totals = self.released;
        for association in self.associations.iter().chain(self.later.associations()) {
            totals.add(association);
        }
        totals
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

    /// Packets of associations beyond those that are followed at a time.
    pub fn unplaced(&self) -> u64 {
        self.unplaced
    }

    /// Packets of an association that another file has too: it is followed in one file only.
    pub fn repeated_elsewhere(&self) -> u64 {
        self.repeated_elsewhere
    }

    /// Takes a packet; returns the place of its association among the [first ones](SctpView::associations), if it is one of them and
    /// followed in this file.
    pub(crate) fn observe(&mut self, event: &Event<'_>, sctp: &SctpPacket<'_>) -> Option<usize> {
        self.packets += 1;
        self.octets += sctp.packet.bytes().len() as u64;
        // An interface that computes checksums leaves 0 in packets that it is about to send.
        let checksum = sctp.packet.header().checksum;
        if !sctp.cut && checksum != 0 && !sctp.packet.has_valid_checksum() {
            self.bad_checksums += 1;
            return None;
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
        let Some(place) = self.place(event, sctp, &chunks) else {
            self.unplaced += 1;
            return None;
        };
        let later = place.association.checked_sub(self.most);
        let found = match later {
            None => self.associations.get_mut(place.association),
            Some(key) => self.later.get_mut(key),
        };
        let association = found?;
        if association.file != event.file {
            self.repeated_elsewhere += 1;
            return None;
        }
        let before = association.outstanding();
        association.observe(event, sctp, &chunks, place.is_forward);
        self.outstanding = self.outstanding - before + association.outstanding();
        if self.outstanding > MOST_OUTSTANDING {
            self.outstanding -= association.outstanding();
            association.forget_outstanding();
        }
        match later {
            Some(key) => {
                self.later.note(key, event.time);
                None
            }
            None => Some(place.association),
        }
    }

    /// Finds the association of a packet, or begins one.
    fn place(
        &mut self,
        event: &Event<'_>,
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
            event.source.min(event.destination),
            event.source.max(event.destination),
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
                let association = self.begin(event, sctp, ends)?;
                let place = |is_forward| Place {
                    association,
                    is_forward,
                };
                self.know(back, place(false));
                self.by_ends.insert(ends, association);
                Some(place(true))
            }
            Some(Chunk::InitAck(init)) => {
                let place = self.by_tag.get(&key).copied()?;
                let other_way = Place {
                    is_forward: !place.is_forward,
                    ..place
                };
                self.know(back(init.initiate_tag), other_way);
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
                    .and_then(|at| Some((*at, self.association(*at)?)));
                let place = match known {
                    Some((at, association)) => Place {
                        association: at,
                        is_forward: association.source == event.source,
                    },
                    None => {
                        let association = self.begin(event, sctp, ends)?;
                        self.by_ends.insert(ends, association);
                        Place {
                            association,
                            is_forward: true,
                        }
                    }
                };
                self.know(key, place);
                Some(place)
            }
        }
    }

    fn association(&self, at: usize) -> Option<&Association> {
        match at.checked_sub(self.most) {
            None => self.associations.get(at),
            Some(key) => self.later.get(key),
        }
    }

    fn begin(&mut self, event: &Event<'_>, sctp: &SctpPacket<'_>, ends: EndsKey) -> Option<usize> {
        let association = Association::new(event, sctp.udp);
        if self.associations.len() < self.most {
            self.associations.push(association);
            return Some(self.associations.len() - 1);
        }
        while let Some((key, over)) = self.later.pop(event.time) {
            self.release(self.most + key, over);
        }
        let key = self.later.push(association, ends)?;
        Some(self.most + key)
    }

    /// Remembers that packets with this tag belong to an association, unless many others do.
    fn know(&mut self, tag: TagKey, place: Place) {
        let later = place.association.checked_sub(self.most);
        let found = match later {
            None => self.associations.get_mut(place.association),
            Some(key) => self.later.get_mut(key),
        };
        let Some(association) = found else {
            return;
        };
        let known = self.by_tag.get(&tag);
        if known.is_none_or(|known| known.association != place.association) {
            if association.tags == MOST_TAGS {
                return;
            }
            association.tags += 1;
            if let Some(key) = later {
                self.later.add_tag(key, tag);
            }
        }
        self.by_tag.insert(tag, place);
    }

    /// Adds an association to the sums, and forgets all else of it.
    fn release(&mut self, at: usize, over: Followed) {
        for tag in &over.tags {
            if self
                .by_tag
                .get(tag)
                .is_some_and(|place| place.association == at)
            {
                self.by_tag.remove(tag);
            }
        }
        if self.by_ends.get(&over.ends) == Some(&at) {
            self.by_ends.remove(&over.ends);
        }
        self.outstanding -= over.association.outstanding();
        self.released.add(&over.association);
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
    use crate::{EventKind, Time};

    fn new_view() -> SctpView {
        SctpView::new(RandomState::with_seeds(1, 2, 3, 4), 10)
    }

    /// Shows packets from one of two ends to the other, each with its verification tag, a nanosecond after the other.
    fn show(view: &mut SctpView, time: Time, packets: &[(bool, u32, Chunk<'_>)]) {
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
            let event = Event {
                time: time.moved(number as i64),
                file: 0,
                packet: number as u64 + 1,
                source,
                destination,
                kind: EventKind::Sctp(sctp),
            };
            view.observe(&event, &sctp);
        }
    }

    fn init(initiate_tag: u32) -> Init<'static> {
        Init {
            initiate_tag,
            a_rwnd: 1500,
            outbound_streams: 1,
            inbound_streams: 1,
            initial_tsn: Tsn(1),
            parameters: Parameters::default(),
        }
    }

    /// An association is set up; its ends have these tags.
    fn set_up(view: &mut SctpView, time: Time, tags: [u32; 2]) {
        let packets = [
            (false, 0, Chunk::Init(init(tags[0]))),
            (true, tags[0], Chunk::InitAck(init(tags[1]))),
        ];
        show(view, time, &packets);
    }

    const END: Chunk<'static> = Chunk::ShutdownComplete(ShutdownComplete {
        tag_reflected: false,
    });

    #[test]
    fn associations_that_are_over_make_room_for_others() {
        let mut view = new_view();
        for number in 0..1000 {
            let tags = [2 * number + 1, 2 * number + 2];
            let time = Time(i64::from(number) * 1000);
            set_up(&mut view, time, tags);
            // Some stay.
            if number % 200 != 50 {
                show(&mut view, time.moved(10), &[(false, tags[1], END)]);
            }
        }
        let totals = view.totals();
        assert_eq!((totals.associations, totals.shut_down), (1000, 995));
        assert_eq!((view.unplaced(), view.associations().len()), (0, 10));
        assert!(view.by_tag.len() <= 2 * 20, "{}", view.by_tag.len());
        // Those that stay are still known.
        show(&mut view, Time(2_000_000), &[(true, 2 * 50 + 1, END)]);
        let totals = view.totals();
        assert_eq!((totals.associations, totals.shut_down), (1000, 996));
    }

    #[test]
    fn what_has_been_silent_for_long_makes_room() {
        let mut view = new_view();
        let begin = |view: &mut SctpView, time, number: u32| {
            set_up(view, Time(time), [2 * number + 1, 2 * number + 2]);
        };
        for number in 0..25 {
            begin(&mut view, i64::from(number), number);
        }
        assert_eq!(view.totals().associations, 20);
        assert_eq!(view.unplaced(), 10, "two packets each");
        let later = 400_000_000_000;
        begin(&mut view, later, 100);
        assert_eq!((view.totals().associations, view.unplaced()), (21, 10));
    }

    /// Packets of ends whose set-up was not captured, with tags that are made up.
    #[test]
    fn tags_of_one_association_are_bounded() {
        let mut view = new_view();
        for tag in 1..1000 {
            show(
                &mut view,
                Time(i64::from(tag)),
                &[(false, tag, Chunk::ShutdownAck)],
            );
        }
        assert_eq!(view.totals().associations, 1);
        assert_eq!(view.by_tag.len(), MOST_TAGS);
    }

    #[test]
    fn answers_out_of_the_blue_belong_to_what_they_answer() {
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
            let mut view = new_view();
            show(&mut view, Time(0), &all.collect::<Vec<_>>());
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
