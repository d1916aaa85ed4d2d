//! TLS over SCTP (RFC 3436): a TLS connection for each pair of streams, its records in ordered user messages.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ahash::RandomState;
use lru::LruCache;
use sctp::packet::Ssn;

use crate::association_name::{AssociationEnd, AssociationName};
use crate::channel::{Channel, Found, Security};
use crate::settings::Settings;
use crate::tls::{KeyLog, Opened, Tls};

/// User messages of a stream that wait for one before them.
const MOST_PENDING: usize = 256;

/// All TLS connections over SCTP.
pub(crate) struct SecureStreams {
    pairs: LruCache<(AssociationName, u16), Pair, RandomState>,
    held: usize,
    keys: KeyLog,
    most_pairs: usize,
    most_octets: usize,
}

/// A user message, and where it was.
pub(crate) struct Part<'a> {
    pub(crate) sender: AssociationEnd,
    pub(crate) stream: u16,
    pub(crate) ssn: Ssn,
    pub(crate) octets: &'a [u8],
}

/// A TLS connection on a pair of streams.
struct Pair {
    tls: Tls,
    /// The random number of its ClientHello.
    random: [u8; 32],
    directions: [Direction; 2],
}

/// What one end sends on its stream.
struct Direction {
    channel: Channel,
    /// The number of the message that is next; not known before the first one.
    next: Option<u16>,
    /// Messages beyond it: retransmission has put them out of order.
    pending: BTreeMap<u16, Vec<u8>>,
    pending_octets: usize,
}

impl Default for Direction {
    fn default() -> Direction {
        Direction {
            channel: Channel::new(Security::TlsOverSctp),
            next: None,
            pending: BTreeMap::new(),
            pending_octets: 0,
        }
    }
}

impl SecureStreams {
    pub(crate) fn new(settings: &Settings) -> SecureStreams {
        SecureStreams {
            pairs: LruCache::unbounded_with_hasher(settings.hasher()),
            held: 0,
            keys: settings.keys.clone(),
            most_pairs: settings.limits.connections,
            most_octets: settings.limits.connection_octets,
        }
    }

    /// Adds secrets of TLS connections.
    pub(crate) fn add_keys(&mut self, lines: &[u8]) {
        self.keys.add(lines);
    }

    /// Takes in a user message that is no SIP in the clear, and gives the SIP messages that it completes.
    pub(crate) fn read(&mut self, part: &Part<'_>, found: &mut dyn FnMut(Found)) {
        let AssociationEnd { association, end } = part.sender;
        let key = (association, part.stream);
        let hello = client_random(part.octets);
        if let Some(random) = hello
            && self
                .pairs
                .peek(&key)
                .is_none_or(|pair| pair.random != random)
        {
            if let Some(before) = self.pairs.pop(&key) {
                self.held = self.held.saturating_sub(before.held());
            }
            let pair = Pair {
                tls: Tls::new(),
                random,
                directions: Default::default(),
            };
            self.pairs.put(key, pair);
        }
        let Some(pair) = self.pairs.get_mut(&key) else {
            return;
        };
        let before = pair.held();
        pair.read(end, part, &self.keys, found);
        self.held = (self.held + pair.held()).saturating_sub(before);
        while self.pairs.len() > self.most_pairs || self.held > self.most_octets {
            let Some((_, pair)) = self.pairs.pop_lru() else {
                break;
            };
            self.held = self.held.saturating_sub(pair.held());
        }
    }
}

impl Pair {
    fn held(&self) -> usize {
        let directions = self.directions.iter();
        let waiting = directions.map(|one| one.channel.held() + one.pending_octets);
        self.tls.held() + waiting.sum::<usize>()
    }

    fn read(&mut self, from: usize, part: &Part<'_>, keys: &KeyLog, found: &mut dyn FnMut(Found)) {
        let direction = &mut self.directions[from];
        let number = part.ssn.0;
        let next = match direction.next {
            Some(next) => next,
            // Each end begins with a handshake record.
            None if Tls::begins(part.octets) => number,
            None => return direction.keep(number, part.octets),
        };
        if number != next {
            // One that is behind was read already.
            if (number.wrapping_sub(next) as i16) > 0 {
                direction.keep(number, part.octets);
            }
            if direction.pending.len() > MOST_PENDING {
                // What is missing will not come: the keys go by the number of the record.
                direction.forget_pending();
                self.tls.gap(&mut |opened| tell(opened, None, found));
            }
            return;
        }
        let mut at = number;
        let mut octets = Cow::Borrowed(part.octets);
        loop {
            let channel = &mut direction.channel;
            self.tls.push(from, &octets, keys, &mut |opened| {
                tell(opened, Some(channel), found);
            });
            at = at.wrapping_add(1);
            let Some(pending) = direction.pending.remove(&at) else {
                break;
            };
            direction.pending_octets = direction.pending_octets.saturating_sub(pending.len());
            octets = Cow::Owned(pending);
        }
        direction.next = Some(at);
    }
}

impl Direction {
    fn keep(&mut self, number: u16, octets: &[u8]) {
        if self.pending.len() <= MOST_PENDING {
            self.pending_octets += octets.len();
            self.pending.insert(number, octets.to_vec());
        }
    }

    fn forget_pending(&mut self) {
        self.pending.clear();
        self.pending_octets = 0;
    }
}

fn tell(opened: Opened, channel: Option<&mut Channel>, found: &mut dyn FnMut(Found)) {
    match (opened, channel) {
        (Opened::Octets(octets), Some(channel)) => channel.push(&octets, found),
        (Opened::Octets(_), None) => {}
        (Opened::NoSecrets, _) => found(Found::NoSecrets),
        (Opened::OtherSuite(suite), _) => found(Found::OtherSuite(suite)),
        (Opened::Lost(reason), _) => {
            found(Found::Warning(crate::Warning::StreamLost(reason)));
        }
    }
}

/// The random number of the ClientHello that a record begins with: behind the headers of record and message
/// and the version (RFC 8446 sections 4.1.2 and 5.1).
fn client_random(octets: &[u8]) -> Option<[u8; 32]> {
    const CLIENT_HELLO: u8 = 1;
    let is_hello = Tls::begins(octets) && octets.get(5) == Some(&CLIENT_HELLO);
    octets
        .get(11..)?
        .first_chunk()
        .copied()
        .filter(|_| is_hello)
}
