//! One engine that is called from everywhere.

use crate::chunks::{self, Chunk, FORGED_TAG};
use crate::engine::{Engine, address, config};
use crate::lists::{Few, Many};
use arbitrary::Arbitrary;
use bytes::Bytes;
use sctp::packet::Packet;
use sctp::{AssociationId, PathAddress};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const PORT: u16 = 5060;

/// The bytes that all IP packets have beside SCTP.
const IP_HEADER: usize = 20;

/// How much larger than the question an answer may be that goes to an address that is not proved:
/// of the smallest INIT, INIT ACK with its cookie makes a multiple (RFC 9260 section 12.2.4.1).
const MOST_AMPLIFICATION: usize = 6;

/// INITs and cookies of every kind, from a few addresses, before and after there are associations.
#[derive(Arbitrary, Debug, Clone)]
pub struct Calls {
    is_multihomed: bool,
    steps: Many<Step>,
}

#[derive(Arbitrary, Debug, Clone)]
enum Step {
    /// A packet with its tag: none, the engine's, the one that the adversary gave, or any.
    Packet {
        from: From,
        tag: Tag,
        chunks: Few<Chunk>,
    },
    /// A cookie comes back as it should, with whatever is bundled with it.
    CookieEcho {
        from: From,
        which: u8,
        chunks: Few<Chunk>,
    },
    /// The engine calls by itself.
    Connect(From),
    /// Milliseconds, squared.
    Pass(u8),
    Abort(u8),
}

/// Where a packet comes from: an address, an SCTP port, and perhaps a UDP port.
#[derive(Arbitrary, Debug, Clone, Copy)]
struct From {
    host: u8,
    port: u8,
    udp: bool,
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Tag {
    None,
    Right,
    Reflected,
    Any(u32),
}

impl Calls {
    /// Plays it out.
    ///
    /// # Panics
    ///
    /// When the engine does what it must not.
    pub fn play(&self) {
        let mut now = Instant::now();
        let networks = if self.is_multihomed { 2 } else { 0 };
        let addresses = (0..networks).map(|network| address(network, 200)).collect();
        let mut engine = Engine::new(PORT, config(), addresses);
        let mut ids = BTreeSet::new();
        for step in self.steps.iter() {
            let before = engine.endpoint.association_count();
            let mut request = None;
            match step {
                Step::Packet { from, tag, chunks } => {
                    let tag = match tag {
                        Tag::None => 0,
                        Tag::Right => engine.numbers.tag,
                        Tag::Reflected => FORGED_TAG,
                        Tag::Any(tag) => *tag,
                    };
                    request = Some(handle(&mut engine, now, *from, tag, chunks));
                }
                Step::CookieEcho {
                    from,
                    which,
                    chunks,
                } => {
                    let cookie = Chunk::CookieEcho {
                        which: *which,
                        spoilt: None,
                    };
                    let chunks: Vec<Chunk> = [cookie].into_iter().chain(chunks.to_vec()).collect();
                    let tag = engine.numbers.tag;
                    handle(&mut engine, now, *from, tag, &chunks);
                }
                Step::Connect(from) => {
                    let (path, port) = from.path();
                    ids.extend(engine.endpoint.connect(now, path, port));
                }
                Step::Pass(steps) => {
                    now += Duration::from_millis(u64::from(*steps).pow(2));
                    engine.handle_timeout(now);
                }
                Step::Abort(which) => {
                    let which = usize::from(*which).checked_rem(ids.len());
                    if let Some(&id) = which.and_then(|which| ids.iter().nth(which)) {
                        engine.end(now, [id]);
                    }
                }
            }
            let sent = engine.drain(now);
            ids.extend(engine.association);
            // Nobody has proved anything yet: no state, and one answer that is not much larger.
            if let (Some(bytes), 0) = (request, before)
                && engine.endpoint.association_count() == 0
            {
                assert!(sent.len() <= 1, "{} answers", sent.len());
                let answered: usize = sent.iter().map(|sent| IP_HEADER + sent.packet.len()).sum();
                let allowed = MOST_AMPLIFICATION * (IP_HEADER + bytes);
                assert!(answered <= allowed, "{answered} bytes for {bytes}");
            }
        }
        engine.end(now, all_ids(&ids));
        assert_eq!(engine.endpoint.association_count(), 0);
        assert_eq!(engine.endpoint.next_timeout(), None);
    }
}

/// Gives the engine a packet, and says how large it is.
fn handle(engine: &mut Engine, now: Instant, from: From, tag: u32, chunks: &[Chunk]) -> usize {
    let (path, port) = from.path();
    let packet: Bytes = chunks::packet([port, PORT], tag, chunks, &engine.numbers);
    debug_assert!(Packet::read(&packet).is_ok());
    let bytes = packet.len();
    engine.endpoint.handle_packet(now, path, packet);
    bytes
}

impl From {
    fn path(self) -> (PathAddress, u16) {
        let path = PathAddress {
            local: Some(address(self.host >> 7, 200)),
            remote: address(self.host >> 7, self.host & 3),
            encapsulation_port: self.udp.then_some(9899),
        };
        (path, 1000 + u16::from(self.port & 1))
    }
}

fn all_ids(ids: &BTreeSet<AssociationId>) -> impl Iterator<Item = AssociationId> + use<> {
    ids.clone().into_iter()
}
