//! Reassembly of I-DATA chunks (RFC 8260 section 2.2.3): stream, U bit and MID name the message of a
//! fragment, and the FSN its place in it. TSNs say nothing of that; they are kept for what is taken back.
//!
//! In parts it hands out what has arrived from the beginning of a message on without a gap, up to the
//! cumulative TSN: a message beyond it must not hold up an earlier one of its stream, which may need room.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;

use bytes::{Bytes, BytesMut};

use super::{
    CompletedMessage, Fragment, IncompleteMessage, Reassembly, ReassemblyError, Skipped,
    UnwrappedTsns,
};
use crate::ReceivedMessage;
use crate::association::message_key::MessageKey;
use crate::association::received_tsns::{MessageTsns, TsnRange};
use crate::association::streams::InboundStreams;
use crate::packet::{Mid, Tsn};

/// The fragments that wait for others.
#[derive(Debug)]
pub(super) struct IDataReassembly {
    messages: BTreeMap<SortedKey, FragmentedMessage>,
    /// The messages of which a part could be handed out.
    with_part: BTreeSet<SortedKey>,
    /// The messages of which fragments could be joined.
    joinable: BTreeSet<SortedKey>,
    /// What all messages count for.
    count: usize,
    unwrapped: UnwrappedTsns,
    max_message_size: usize,
}

/// Stream, U bit and MID.
type SortedKey = (u16, bool, u32);

/// A message that is not whole.
#[derive(Debug, Default)]
struct FragmentedMessage {
    /// Told by the first fragment (section 2.1).
    ppid: u32,
    /// The first fragments that are held, joined.
    joined: BytesMut,
    /// Those behind them without a gap.
    run: VecDeque<Piece>,
    /// How many of these had TSNs up to the limit when one was last asked for, and their bytes.
    reached: usize,
    reached_bytes: usize,
    /// Bytes of `joined` and `run`.
    part: usize,
    /// The FSN behind them, counted without wrapping (section 2.1).
    next: u64,
    /// Fragments behind a gap, by FSN.
    apart: BTreeMap<u64, Piece>,
    /// Bytes of them.
    apart_bytes: usize,
    /// The FSN of the last fragment.
    last: Option<u64>,
    /// Bytes of the message that were handed out before.
    handed_out: usize,
}

/// A fragment that can be taken back.
#[derive(Debug)]
struct Piece {
    /// The unwrapped TSN.
    tsn: u64,
    payload: Bytes,
}

impl IDataReassembly {
    /// Nothing waits; TSNs will be in reach of `initial`.
    pub(super) fn new(initial: Tsn, max_message_size: usize) -> IDataReassembly {
        IDataReassembly {
            messages: BTreeMap::new(),
            with_part: BTreeSet::new(),
            joinable: BTreeSet::new(),
            count: 0,
            unwrapped: UnwrappedTsns::new(initial),
            max_message_size,
        }
    }

    /// Brings the indices up to date after a message, which counted for `before`, has changed.
    fn update(&mut self, key: SortedKey, before: usize) {
        let message = self.messages.get(&key);
        self.count = self.count + message.map_or(0, FragmentedMessage::count) - before;
        set(
            &mut self.with_part,
            key,
            message.is_some_and(|message| message.part > 0),
        );
        set(
            &mut self.joinable,
            key,
            message.is_some_and(|message| message.run.len() > 1),
        );
    }

    /// A message with the number of `last` or one before it.
    fn first_up_to(&self, last: MessageKey) -> Option<SortedKey> {
        let MessageKey {
            stream,
            unordered,
            mid: Mid(mid),
        } = last;
        // Serial number arithmetic: half of all numbers are before it.
        let first = mid.wrapping_sub(i32::MAX as u32);
        let between = |first, last| {
            let mut found = self
                .messages
                .range((stream, unordered, first)..=(stream, unordered, last));
            found.next().map(|(key, _)| *key)
        };
        if first <= mid {
            between(first, mid)
        } else {
            between(first, u32::MAX).or_else(|| between(0, mid))
        }
    }

    /// The TSNs of a whole message.
    fn tsns_of(&self, message: &FragmentedMessage) -> MessageTsns {
        let mut tsns = MessageTsns::default();
        if message.handed_out > 0 || !message.joined.is_empty() {
            return tsns;
        }
        let mut numbers: Vec<u64> = message.run.iter().map(|piece| piece.tsn).collect();
        numbers.sort_unstable();
        for number in numbers {
            tsns.push(self.unwrapped.tsn_of(number));
        }
        tsns
    }
}

impl Reassembly for IDataReassembly {
    fn set_max_message_size(&mut self, max: usize) {
        self.max_message_size = max;
    }

    fn fragments(&self) -> usize {
        self.count
    }

    fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    fn join_fragments(&mut self, _cumulative: Tsn) {
        while let Some(key) = self.joinable.pop_first() {
            if let Some(message) = self.messages.get_mut(&key) {
                let before = message.count();
                message.join_run();
                self.update(key, before);
            }
        }
    }

    fn insert(&mut self, fragment: Fragment) -> Result<Option<CompletedMessage>, ReassemblyError> {
        let number = self.unwrapped.number_of(fragment.tsn);
        let mid = fragment.mid;
        let stream = fragment.stream;
        let unordered = fragment.unordered;
        let key = (stream, unordered, mid.0);
        let (before, message) = match self.messages.entry(key) {
            Entry::Occupied(entry) => (entry.get().count(), entry.into_mut()),
            Entry::Vacant(entry) => (0, entry.insert(FragmentedMessage::default())),
        };
        message.insert(fragment, number)?;
        if message.size() > self.max_message_size {
            return Err(ReassemblyError::MessageTooLarge);
        }
        if !message.is_whole() {
            self.update(key, before);
            return Ok(None);
        }
        let message = self.messages.remove(&key);
        self.update(key, before);
        Ok(message.map(|mut message| CompletedMessage {
            tsns: self.tsns_of(&message),
            mid,
            is_rest: message.handed_out > 0,
            message: ReceivedMessage {
                stream,
                ppid: message.ppid,
                unordered,
                ssn: ssn(mid),
                payload: message.take_part(u64::MAX),
                end_of_record: true,
            },
        }))
    }

    fn incomplete(
        &mut self,
        latest: Option<MessageKey>,
        cumulative: Tsn,
    ) -> Option<IncompleteMessage> {
        let key = latest?;
        let received = self.unwrapped.number_of(cumulative);
        let message = self.messages.get_mut(&sorted(key))?;
        let held = message.part_up_to(received);
        (held > 0).then_some(IncompleteMessage {
            message: key,
            held,
            is_begun: message.handed_out > 0,
        })
    }

    fn largest_part(&mut self, cumulative: Tsn, streams: &InboundStreams) -> Option<MessageKey> {
        let received = self.unwrapped.number_of(cumulative);
        let mut largest = None;
        let mut stream = self.with_part.first().map(|key| key.0);
        while let Some(number) = stream {
            let begun = streams.partial(number).map(sorted);
            let (ordered, unordered) = match begun {
                // Nothing else of the stream may come before its end.
                Some(begun) => (begun, None),
                None => (
                    (number, false, streams.next_mid(number).0),
                    Some((number, true, 0)..=(number, true, u32::MAX)),
                ),
            };
            let unordered = unordered.and_then(|keys| {
                self.with_part.range(keys).find(|key| {
                    let message = self.messages.get_mut(key);
                    message.is_some_and(|message| message.part_up_to(received) > 0)
                })
            });
            let candidates = self.with_part.get(&ordered).into_iter().chain(unordered);
            for key in candidates {
                let message = self.messages.get_mut(key);
                let part = message.map_or(0, |message| message.part_up_to(received));
                if part > largest.map_or(0, |(part, _)| part)
                    && streams.may_deliver_part(unsorted(*key))
                {
                    largest = Some((part, *key));
                }
            }
            stream = self
                .with_part
                .range((number, true, u32::MAX)..)
                .find(|key| key.0 != number)
                .map(|key| key.0);
        }
        largest.map(|(_, key)| unsorted(key))
    }

    fn take_part(&mut self, key: MessageKey, cumulative: Tsn) -> Option<ReceivedMessage> {
        let received = self.unwrapped.number_of(cumulative);
        let message = self.messages.get_mut(&sorted(key))?;
        if message.part_up_to(received) == 0 {
            return None;
        }
        let before = message.count();
        let part = ReceivedMessage {
            stream: key.stream,
            ppid: message.ppid,
            unordered: key.unordered,
            ssn: ssn(key.mid),
            payload: message.take_part(received),
            end_of_record: false,
        };
        self.update(sorted(key), before);
        Some(part)
    }

    fn offsets_above(&mut self, cumulative: Tsn) -> Vec<u32> {
        let received = self.unwrapped.number_of(cumulative);
        self.messages
            .values()
            .flat_map(|message| message.run.iter().chain(message.apart.values()))
            .filter(|piece| piece.tsn > received)
            .map(|piece| (piece.tsn - received) as u32)
            .collect()
    }

    fn renege(&mut self, limit: Tsn, on_removed: &mut dyn FnMut(TsnRange, usize)) {
        let limit = self.unwrapped.number_of(limit);
        let changed: Vec<SortedKey> = self
            .messages
            .iter()
            .filter(|(_, message)| message.reaches_above(limit))
            .map(|(key, _)| *key)
            .collect();
        for key in changed {
            let Some(message) = self.messages.get_mut(&key) else {
                continue;
            };
            let before = message.count();
            for piece in message.renege(limit) {
                let tsn = self.unwrapped.tsn_of(piece.tsn);
                let (first, last) = (tsn, tsn);
                on_removed(TsnRange { first, last }, piece.payload.len());
            }
            if message.is_forgotten() {
                self.messages.remove(&key);
            }
            self.update(key, before);
        }
    }

    fn skip(&mut self, _point: Tsn, _cumulative: Tsn, last: &[MessageKey]) -> Skipped {
        let mut skipped = Skipped::default();
        for last in last {
            while let Some(key) = self.first_up_to(*last)
                && let Some(message) = self.messages.remove(&key)
            {
                skipped.bytes += message.part + message.apart_bytes;
                if message.handed_out > 0 {
                    skipped.handed_out_on.push(last.stream);
                }
                self.update(key, message.count());
            }
        }
        skipped
    }

    /// No TSN says which message a fragment belongs to: the MIDs that were skipped do.
    fn skip_fragment(&mut self, _tsn: Tsn, _beginning: bool, _ending: bool) -> Option<usize> {
        None
    }

    /// The receiver MUST NOT assume anything about the TSNs of fragments (section 2.2.3): whatever has
    /// arrived, the rest may be sent later.
    fn is_stuck(&mut self, _cumulative: Tsn) -> bool {
        false
    }
}

impl FragmentedMessage {
    /// What it counts for: at least one, for it is there, unless all that has arrived was handed out: that
    /// is so of one message of each stream at most.
    fn count(&self) -> usize {
        let is_held = self.handed_out == 0 || !self.joined.is_empty();
        (self.run.len() + self.apart.len()).max(usize::from(is_held))
    }

    /// Bytes of it that have arrived.
    fn size(&self) -> usize {
        self.handed_out
            .saturating_add(self.part)
            .saturating_add(self.apart_bytes)
    }

    fn is_whole(&self) -> bool {
        self.last.is_some_and(|last| last < self.next)
    }

    /// Whether nothing of it was ever here, as far as can be told.
    fn is_forgotten(&self) -> bool {
        self.next == 0 && self.apart.is_empty()
    }

    fn insert(&mut self, fragment: Fragment, tsn: u64) -> Result<(), ReassemblyError> {
        // Serial number arithmetic (section 2.1). A fragment before the next one is there twice.
        let ahead = u64::from(fragment.fsn.wrapping_sub(self.next as u32));
        let fsn = self.next + ahead;
        let is_behind = ahead > u64::from(u32::MAX / 2);
        let is_beyond_end = self
            .last
            .is_some_and(|last| fsn > last || fragment.ending != (fsn == last));
        let highest = self.apart.last_key_value().map_or(0, |(fsn, _)| *fsn);
        if is_behind
            || is_beyond_end
            || fragment.beginning != (fsn == 0)
            || (fragment.ending && fsn < highest)
            || self.apart.contains_key(&fsn)
        {
            return Err(ReassemblyError::Inconsistent);
        }
        if fragment.beginning {
            self.ppid = fragment.ppid;
        }
        if fragment.ending {
            self.last = Some(fsn);
        }
        let piece = Piece {
            tsn,
            payload: fragment.payload,
        };
        if fsn > self.next {
            self.apart_bytes += piece.payload.len();
            self.apart.insert(fsn, piece);
            return Ok(());
        }
        self.append(piece);
        self.close_gap();
        Ok(())
    }

    /// Appends the fragment that comes next.
    fn append(&mut self, piece: Piece) {
        self.part += piece.payload.len();
        self.next += 1;
        self.run.push_back(piece);
    }

    /// Appends the fragments of which none is missing any more.
    fn close_gap(&mut self) {
        while let Some(piece) = self.apart.remove(&self.next) {
            self.apart_bytes -= piece.payload.len();
            self.append(piece);
        }
    }

    fn join_run(&mut self) {
        for piece in self.run.drain(..) {
            self.joined.extend_from_slice(&piece.payload);
        }
        (self.reached, self.reached_bytes) = (0, 0);
    }

    /// Bytes that [`Self::take_part`] would take out. A message may have as many fragments as bytes, so
    /// this goes on from where it ended before: the limit, which is the cumulative TSN, only grows.
    fn part_up_to(&mut self, limit: u64) -> usize {
        while let Some(piece) = self.run.get(self.reached)
            && piece.tsn <= limit
        {
            self.reached += 1;
            self.reached_bytes += piece.payload.len();
        }
        self.joined.len() + self.reached_bytes
    }

    /// Takes out what has arrived without a gap, as far as its TSNs go up to `limit`.
    fn take_part(&mut self, limit: u64) -> Bytes {
        let bytes = self.part_up_to(limit);
        let count = mem::take(&mut self.reached);
        self.reached_bytes = 0;
        let only = (self.joined.is_empty() && count == 1).then(|| self.run.pop_front());
        let part = match only.flatten() {
            Some(piece) => piece.payload,
            None => {
                self.joined.reserve(bytes - self.joined.len());
                for piece in self.run.drain(..count) {
                    self.joined.extend_from_slice(&piece.payload);
                }
                mem::take(&mut self.joined).freeze()
            }
        };
        self.part -= part.len();
        self.handed_out += part.len();
        part
    }

    /// Whether a fragment of it lies above `limit`.
    fn reaches_above(&self, limit: u64) -> bool {
        self.run
            .iter()
            .chain(self.apart.values())
            .any(|piece| piece.tsn > limit)
    }

    /// Takes out the fragments above `limit`.
    fn renege(&mut self, limit: u64) -> Vec<Piece> {
        self.next -= self.run.len() as u64;
        let run = mem::take(&mut self.run);
        (self.reached, self.reached_bytes) = (0, 0);
        self.part -= run.iter().map(|piece| piece.payload.len()).sum::<usize>();
        let mut held = mem::take(&mut self.apart);
        self.apart_bytes = 0;
        held.extend((self.next..).zip(run));
        let mut removed = Vec::new();
        for (fsn, piece) in held {
            if piece.tsn > limit {
                self.last.take_if(|last| *last == fsn);
                removed.push(piece);
            } else {
                self.apart_bytes += piece.payload.len();
                self.apart.insert(fsn, piece);
            }
        }
        self.close_gap();
        removed
    }
}

/// The SSN that the user sees: the lower 16 bits of the MID (RFC 8260 section 4.1).
fn ssn(mid: Mid) -> u16 {
    mid.0 as u16
}

fn sorted(key: MessageKey) -> SortedKey {
    (key.stream, key.unordered, key.mid.0)
}

fn unsorted((stream, unordered, mid): SortedKey) -> MessageKey {
    MessageKey {
        stream,
        unordered,
        mid: Mid(mid),
    }
}

/// Puts a key into a set, or takes it out.
fn set(keys: &mut BTreeSet<SortedKey>, key: SortedKey, is_in: bool) {
    if is_in {
        keys.insert(key);
    } else {
        keys.remove(&key);
    }
}

#[cfg(test)]
mod tests;
