//! Which call a packet belongs to.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;

use ahash::RandomState;
use rand::Rng;

use super::stream::Stream;

/// Calls whose keys are tried for a packet.
const MAX_TRIALS: usize = 64;

/// A call, as long as it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    slot: u32,
    /// Which call of the slot's.
    generation: u32,
}

/// Calls by their number, by what they send as, and by whom they hear.
#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    capacity: usize,
    /// By the source that we send as.
    ours: HashMap<u32, CallId, RandomState>,
    /// By address and source of what comes, data and reports.
    theirs: HashMap<(SocketAddr, u32), CallId, RandomState>,
    /// Calls whose description names an address and no source.
    claims: HashMap<SocketAddr, Claims, RandomState>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    ssrc: Option<u32>,
    stream: Option<Stream>,
}

/// Calls that expect some source at one address.
#[derive(Debug, Default)]
struct Claims {
    /// How many there are.
    calls: usize,
    /// Those that have heard nobody yet, the oldest first, behind them those whose keys were tried in vain; some may be over.
    waiting: VecDeque<CallId>,
    /// Who was given a source last.
    last: Option<CallId>,
}

impl Table {
    pub(super) fn new(capacity: usize, rng: &mut impl Rng) -> Table {
        let mut hasher = || {
            let [a, b, c, d] = std::array::from_fn(|_| rng.next_u64());
            RandomState::with_seeds(a, b, c, d)
        };
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            capacity,
            ours: HashMap::with_hasher(hasher()),
            theirs: HashMap::with_hasher(hasher()),
            claims: HashMap::with_hasher(hasher()),
        }
    }

    /// A new call with a random source that no other has (RFC 3550 section 8.1).
    pub(super) fn reserve(&mut self, rng: &mut impl Rng) -> Option<CallId> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < self.capacity => {
                self.slots.push(Slot {
                    generation: 0,
                    ssrc: None,
                    stream: None,
                });
                u32::try_from(self.slots.len() - 1).ok()?
            }
            None => return None,
        };
        let ssrc = loop {
            let ssrc = rng.next_u32();
            if !self.ours.contains_key(&ssrc) {
                break ssrc;
            }
        };
        let entry = self.slots.get_mut(slot as usize)?;
        entry.ssrc = Some(ssrc);
        let call = CallId {
            slot,
            generation: entry.generation,
        };
        self.ours.insert(ssrc, call);
        Some(call)
    }

    pub(super) fn ssrc(&self, call: CallId) -> Option<u32> {
        let slot = self.slots.get(call.slot as usize)?;
        slot.ssrc.filter(|_| slot.generation == call.generation)
    }

    pub(super) fn stream(&mut self, call: CallId) -> Option<&mut Stream> {
        let slot = self.slots.get_mut(call.slot as usize)?;
        let is_same = slot.generation == call.generation;
        slot.stream.as_mut().filter(|_| is_same)
    }

    /// Media of a call begin, or go on where [`take`](Table::take) has taken them.
    pub(super) fn put(&mut self, call: CallId, stream: Stream) {
        let remote = stream.remote;
        match remote.ssrc {
            Some(ssrc) => {
                self.theirs.insert((remote.rtp, ssrc), call);
                self.theirs.insert((remote.rtcp, ssrc), call);
            }
            None => {
                let mut claims = self.claims.remove(&remote.rtp).unwrap_or_default();
                claims.calls += 1;
                claims.waiting.push_back(call);
                // Those that are over, have gone elsewhere or are there twice leave from time to time.
                if claims.waiting.len() > 2 * claims.calls {
                    let mut kept = BTreeSet::new();
                    claims.waiting.retain(|one| {
                        let waits = *one == call || self.is_waiting(*one, remote.rtp);
                        waits && kept.insert(*one)
                    });
                }
                self.claims.insert(remote.rtp, claims);
            }
        }
        if let Some(slot) = self.slots.get_mut(call.slot as usize) {
            slot.stream = Some(stream);
        }
    }

    /// The call is over; its number means nothing any more.
    pub(super) fn remove(&mut self, call: CallId) -> Option<Stream> {
        let ssrc = self.ssrc(call)?;
        self.ours.remove(&ssrc);
        let stream = self.take(call);
        let slot = self.slots.get_mut(call.slot as usize)?;
        slot.ssrc = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(call.slot);
        stream
    }

    /// The call that a data packet belongs to, which is of this source and has this sequence number, and the packet of RTP in
    /// it: `None` where the call has rejected it, which changes nothing else.
    pub(super) fn find<'a>(
        &mut self,
        from: SocketAddr,
        (ssrc, sequence): (u32, u16),
        octets: &'a [u8],
    ) -> Option<(&mut Stream, Option<Cow<'a, [u8]>>)> {
        let (call, opened) = match self.theirs.get(&(from, ssrc)).copied() {
            Some(call) => (call, self.stream(call)?.open_rtp(octets)),
            None => {
                let (call, opened) = self.newcomer(from, ssrc, octets)?;
                (call, Some(opened))
            }
        };
        let stream = self.stream(call)?;
        let is_new = stream.source().is_none_or(|source| source.ssrc != ssrc);
        if is_new && opened.is_some() {
            let before = stream.source().map(|source| (source.address, source.ssrc));
            stream.hear(from, ssrc, sequence);
            let remote = stream.remote;
            if let Some((address, ssrc)) = before
                && remote.ssrc != Some(ssrc)
            {
                self.forget(call, [address, remote.rtcp], ssrc);
            }
            self.theirs.insert((from, ssrc), call);
            self.theirs.insert((remote.rtcp, ssrc), call);
        }
        Some((self.stream(call)?, opened))
    }

    /// The call that a report belongs to: it is about one of these sources, of which the last is who
    /// reports.
    pub(super) fn find_reported(
        &mut self,
        from: SocketAddr,
        about: impl Iterator<Item = u32>,
    ) -> Option<&mut Stream> {
        let mut found = None;
        for ssrc in about {
            // What is about our packets must come from where they go.
            let ours = self.ours.get(&ssrc).copied();
            let theirs = self.theirs.get(&(from, ssrc)).copied();
            let call = ours.or(theirs);
            if let Some(call) = call
                && let Some(stream) = self.stream(call)
                && stream.remote.rtcp.ip() == from.ip()
            {
                found = Some(call);
                break;
            }
        }
        self.stream(found?)
    }

    /// How many things are remembered.
    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        let waiting = self.claims.values().map(|claims| 1 + claims.waiting.len());
        self.ours.len() + self.theirs.len() + waiting.sum::<usize>()
    }

    /// Whether a call's media have begun, and it has heard nobody from this address.
    fn is_waiting(&mut self, call: CallId, from: SocketAddr) -> bool {
        let stream = self.stream(call);
        stream.is_some_and(|stream| stream.remote.rtp == from && stream.source().is_none())
    }

    /// The packet of RTP in what came from an address to which a call sends; `None` where it is not authentic.
    fn open<'a>(
        &mut self,
        call: CallId,
        from: SocketAddr,
        octets: &'a [u8],
    ) -> Option<(CallId, Cow<'a, [u8]>)> {
        let stream = self.stream(call)?;
        let is_its = stream.remote.rtp == from;
        let opened = is_its.then(|| stream.try_rtp(octets)).flatten()?;
        Some((call, opened))
    }

    /// A source that is new: one of ours that comes back, or one that a call waits for. Where there are keys, they tell which
    /// call it is, and whether it is one at all.
    fn newcomer<'a>(
        &mut self,
        from: SocketAddr,
        ssrc: u32,
        octets: &'a [u8],
    ) -> Option<(CallId, Cow<'a, [u8]>)> {
        if let Some(call) = self.ours.get(&ssrc).copied() {
            return self.open(call, from, octets);
        }
        let mut claims = self.claims.remove(&from)?;
        let mut found = None;
        let mut others = Vec::new();
        while others.len() < MAX_TRIALS
            && let Some(oldest) = claims.waiting.pop_front()
        {
            if !self.is_waiting(oldest, from) {
                continue;
            }
            found = self.open(oldest, from, octets);
            if found.is_some() {
                break;
            }
            others.push(oldest);
        }
        // Next time they are tried behind all others: calls that hear nothing keep no other from its source.
        claims.waiting.extend(others);
        // With one call at the address there is no doubt: its peer goes on as another source.
        if found.is_none()
            && claims.calls == 1
            && let Some(last) = claims.last
        {
            found = self.open(last, from, octets);
        }
        let heard = found.as_ref().map(|(call, _)| *call);
        claims.last = heard.or(claims.last);
        self.claims.insert(from, claims);
        found
    }

    /// Takes a call's media away, and all that leads to them.
    pub(super) fn take(&mut self, call: CallId) -> Option<Stream> {
        self.stream(call)?;
        let stream = self.slots.get_mut(call.slot as usize)?.stream.take()?;
        let remote = stream.remote;
        match remote.ssrc {
            Some(ssrc) => self.forget(call, [remote.rtp, remote.rtcp], ssrc),
            None => {
                if let Some(claims) = self.claims.get_mut(&remote.rtp) {
                    claims.calls -= 1;
                    if claims.calls == 0 {
                        self.claims.remove(&remote.rtp);
                    }
                }
            }
        }
        if let Some(source) = stream.source() {
            self.forget(call, [source.address, remote.rtcp], source.ssrc);
        }
        Some(stream)
    }

    fn forget(&mut self, call: CallId, addresses: [SocketAddr; 2], ssrc: u32) {
        for address in addresses {
            // Another call may have come to hear the same.
            if self.theirs.get(&(address, ssrc)) == Some(&call) {
                self.theirs.remove(&(address, ssrc));
            }
        }
    }
}
