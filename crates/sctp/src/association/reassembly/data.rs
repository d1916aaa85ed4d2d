//! Reassembly of DATA chunks (RFC 9260 section 6.9).
//!
//! Fragments of a message have consecutive TSNs, so this part keeps sequences of fragments that follow
//! each other and hands a message out once its sequence reaches from a B bit to an E bit.
//!
//! In parts it hands out the one message that the cumulative TSN lies in. There is no other message whose
//! beginning could never be taken back.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};

use super::{
    CompletedMessage, Fragment, IncompleteMessage, Reassembly, ReassemblyError, Skipped,
    UnwrappedTsns,
};
use crate::ReceivedMessage;
use crate::association::message_key::MessageKey;
use crate::association::received_tsns::TsnRange;
use crate::association::streams::InboundStreams;
use crate::packet::{Mid, Tsn};

/// The fragments that wait for others.
#[derive(Debug)]
pub(super) struct DataReassembly {
    /// By the unwrapped TSN of their first fragment.
    sequences: BTreeMap<u64, FragmentSequence>,
    fragments: usize,
    unwrapped: UnwrappedTsns,
    max_message_size: usize,
    /// The unwrapped TSN at which the rest of a message may follow that the peer has abandoned.
    abandoned_rest: Option<u64>,
}

#[derive(Debug)]
struct FragmentSequence {
    /// The unwrapped TSN after the last fragment.
    end: u64,
    stream: u16,
    mid: Mid,
    ppid: u32,
    unordered: bool,
    beginning: bool,
    ending: bool,
    bytes: usize,
    /// The first fragments, joined.
    joined: BytesMut,
    /// Those behind them, one by one.
    payloads: VecDeque<Bytes>,
    /// Bytes of the message that were handed out before.
    handed_out: usize,
}

impl DataReassembly {
    /// Nothing waits; TSNs will be in reach of `initial`.
    pub(super) fn new(initial: Tsn, max_message_size: usize) -> DataReassembly {
        DataReassembly {
            sequences: BTreeMap::new(),
            fragments: 0,
            unwrapped: UnwrappedTsns::new(initial),
            max_message_size,
            abandoned_rest: None,
        }
    }

    /// The sequence that reaches to `cumulative` and begins a message; and how many fragments it holds.
    fn sequence_at(&mut self, cumulative: Tsn) -> Option<(usize, &mut FragmentSequence)> {
        if self.sequences.is_empty() {
            return None;
        }
        let received = self.unwrapped.number_of(cumulative);
        self.sequences
            .range_mut(..=received)
            .next_back()
            .filter(|(_, sequence)| {
                sequence.end == received + 1 && sequence.beginning && sequence.bytes > 0
            })
            .map(|(_, sequence)| (sequence.payloads.len(), sequence))
    }

    /// Throws away what has arrived of the rest of an abandoned message, which goes on at `rest`.
    fn skip_rest(&mut self, mut rest: Option<u64>, skipped: &mut Skipped) {
        while let Some(first) = rest
            && let Some(sequence) = self.sequences.get(&first)
        {
            if sequence.beginning {
                rest = None;
                break;
            }
            rest = sequence.abandoned_rest();
            if let Some(sequence) = self.sequences.remove(&first) {
                self.fragments -= sequence.payloads.len();
                sequence.skip(skipped);
            }
        }
        self.abandoned_rest = rest;
    }
}

impl Reassembly for DataReassembly {
    fn set_max_message_size(&mut self, max: usize) {
        self.max_message_size = max;
    }

    fn fragments(&self) -> usize {
        self.fragments
    }

    fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    fn join_fragments(&mut self, cumulative: Tsn) {
        if let Some((fragments, sequence)) = self.sequence_at(cumulative) {
            sequence.join_payloads();
            self.fragments -= fragments;
        }
    }

    fn insert(&mut self, fragment: Fragment) -> Result<Option<CompletedMessage>, ReassemblyError> {
        let number = self.unwrapped.number_of(fragment.tsn);
        let mut beside = self.sequences.range_mut(..=number + 1).rev().peekable();
        let above = beside
            .next_if(|(first, _)| **first > number)
            .map(|(_, sequence)| sequence.continues_from(&fragment));
        let joins_above = match above {
            None | Some(Adjacency::OtherMessage) => false,
            Some(Adjacency::SameMessage) => true,
            Some(Adjacency::Inconsistent) => return Err(ReassemblyError::Inconsistent),
        };
        let below = beside.next().filter(|(_, sequence)| sequence.end == number);
        let joins_below = match below {
            None => None,
            Some((first, sequence)) => match sequence.continues_with(&fragment) {
                Adjacency::SameMessage => Some((*first, sequence)),
                Adjacency::OtherMessage => None,
                Adjacency::Inconsistent => return Err(ReassemblyError::Inconsistent),
            },
        };
        self.fragments += 1;
        let first = joins_below.as_ref().map_or(number, |(first, _)| *first);
        let sequence = match joins_below {
            Some((_, sequence)) if !joins_above => {
                sequence.append(fragment);
                sequence
            }
            _ => {
                let upper = if joins_above {
                    self.sequences.remove(&(number + 1))
                } else {
                    None
                };
                let sequence = self
                    .sequences
                    .entry(first)
                    .or_insert_with(|| FragmentSequence::empty_for(&fragment, number));
                sequence.append(fragment);
                if let Some(upper) = upper {
                    sequence.join(upper);
                }
                sequence
            }
        };
        if sequence.handed_out.saturating_add(sequence.bytes) > self.max_message_size {
            return Err(ReassemblyError::MessageTooLarge);
        }
        if !(sequence.beginning && sequence.ending) {
            return Ok(None);
        }
        let sequence = self.sequences.remove(&first);
        Ok(sequence.map(|sequence| {
            self.fragments -= sequence.payloads.len();
            CompletedMessage {
                tsns: sequence.tsns(first, &self.unwrapped).into(),
                mid: sequence.mid,
                is_rest: sequence.handed_out > 0,
                message: sequence.into_message(),
            }
        }))
    }

    fn incomplete(
        &mut self,
        _latest: Option<MessageKey>,
        cumulative: Tsn,
    ) -> Option<IncompleteMessage> {
        let (_, sequence) = self.sequence_at(cumulative)?;
        Some(IncompleteMessage {
            message: MessageKey {
                stream: sequence.stream,
                unordered: sequence.unordered,
                mid: sequence.mid,
            },
            held: sequence.bytes,
            is_begun: sequence.handed_out > 0,
        })
    }

    fn largest_part(&mut self, cumulative: Tsn, streams: &InboundStreams) -> Option<MessageKey> {
        let only = self.incomplete(None, cumulative)?.message;
        streams.may_deliver_part(only).then_some(only)
    }

    fn take_part(&mut self, _message: MessageKey, cumulative: Tsn) -> Option<ReceivedMessage> {
        let (fragments, sequence) = self.sequence_at(cumulative)?;
        let part = sequence.take_part();
        self.fragments -= fragments;
        Some(part)
    }

    fn offsets_above(&mut self, cumulative: Tsn) -> Vec<u32> {
        let received = self.unwrapped.number_of(cumulative);
        self.sequences
            .range(received + 1..)
            .map(|(first, _)| (first - received) as u32)
            .collect()
    }

    fn renege(&mut self, limit: Tsn, on_removed: &mut dyn FnMut(TsnRange, usize)) {
        if self.sequences.is_empty() {
            return;
        }
        let received = self.unwrapped.number_of(limit);
        for (first, sequence) in self.sequences.split_off(&(received + 1)) {
            self.fragments -= sequence.payloads.len();
            on_removed(sequence.tsns(first, &self.unwrapped), sequence.bytes);
        }
    }

    fn skip(&mut self, point: Tsn, cumulative: Tsn, _last: &[MessageKey]) -> Skipped {
        // The message of `point` is one of them, so that whatever begins below and is not whole never
        // will be.
        let point = self.unwrapped.number_of(point);
        let received = self.unwrapped.number_of(cumulative);
        let mut skipped = Skipped::default();
        let mut rest = Some(point + 1);
        while let Some(entry) = self.sequences.first_entry()
            && *entry.key() <= point
        {
            let sequence = entry.remove();
            if sequence.end > point {
                rest = sequence.abandoned_rest();
            }
            self.fragments -= sequence.payloads.len();
            sequence.skip(&mut skipped);
        }
        self.skip_rest(rest, &mut skipped);
        // What has arrived there was a whole message.
        self.abandoned_rest = self.abandoned_rest.filter(|rest| *rest > received);
        skipped
    }

    fn skip_fragment(&mut self, tsn: Tsn, beginning: bool, ending: bool) -> Option<usize> {
        let rest = self.abandoned_rest?;
        if beginning || self.unwrapped.number_of(tsn) != rest {
            return None;
        }
        let mut skipped = Skipped::default();
        self.skip_rest((!ending).then_some(rest + 1), &mut skipped);
        Some(skipped.bytes)
    }

    fn is_stuck(&mut self, cumulative: Tsn) -> bool {
        if self.sequences.is_empty() {
            return false;
        }
        let received = self.unwrapped.number_of(cumulative);
        self.sequences
            .first_key_value()
            .is_some_and(|(first, sequence)| {
                (!sequence.beginning && *first <= received + 1)
                    || (!sequence.ending && sequence.end <= received)
            })
    }
}

/// How a fragment relates to the sequence beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Adjacency {
    SameMessage,
    OtherMessage,
    Inconsistent,
}

impl FragmentSequence {
    /// A sequence that begins at `number` and has no fragment yet.
    fn empty_for(fragment: &Fragment, number: u64) -> FragmentSequence {
        FragmentSequence {
            end: number,
            stream: fragment.stream,
            mid: fragment.mid,
            ppid: fragment.ppid,
            unordered: fragment.unordered,
            beginning: fragment.beginning,
            ending: false,
            bytes: 0,
            joined: BytesMut::new(),
            payloads: VecDeque::new(),
            handed_out: 0,
        }
    }

    /// Where the rest of it may follow.
    fn abandoned_rest(&self) -> Option<u64> {
        (!self.ending).then_some(self.end)
    }

    fn append(&mut self, fragment: Fragment) {
        self.end += 1;
        self.ending = fragment.ending;
        self.bytes += fragment.payload.len();
        self.payloads.push_back(fragment.payload);
    }

    fn join_payloads(&mut self) {
        for payload in self.payloads.drain(..) {
            self.joined.extend_from_slice(&payload);
        }
    }

    /// Appends the sequence that follows right after this one, and whose fragments are not joined: only
    /// the message at the cumulative TSN has such, and there is none before it.
    fn join(&mut self, mut upper: FragmentSequence) {
        self.end = upper.end;
        self.ending = upper.ending;
        self.bytes += upper.bytes;
        if self.payloads.len() < upper.payloads.len() {
            while let Some(payload) = self.payloads.pop_back() {
                upper.payloads.push_front(payload);
            }
            self.payloads = upper.payloads;
        } else {
            self.payloads.append(&mut upper.payloads);
        }
    }

    /// How this sequence relates to the fragment right after it.
    fn continues_with(&self, fragment: &Fragment) -> Adjacency {
        match (self.ending, fragment.beginning) {
            (true, true) => Adjacency::OtherMessage,
            (false, false) if self.is_of_same_message(fragment) => Adjacency::SameMessage,
            _ => Adjacency::Inconsistent,
        }
    }

    /// How this sequence relates to the fragment right before it.
    fn continues_from(&self, fragment: &Fragment) -> Adjacency {
        match (fragment.ending, self.beginning) {
            (true, true) => Adjacency::OtherMessage,
            (false, false) if self.is_of_same_message(fragment) => Adjacency::SameMessage,
            _ => Adjacency::Inconsistent,
        }
    }

    fn is_of_same_message(&self, fragment: &Fragment) -> bool {
        self.stream == fragment.stream
            && self.unordered == fragment.unordered
            && (self.unordered || self.mid == fragment.mid)
    }

    /// The TSNs of this sequence, which begins at `first`.
    fn tsns(&self, first: u64, unwrapped: &UnwrappedTsns) -> TsnRange {
        TsnRange {
            first: unwrapped.tsn_of(first),
            last: unwrapped.tsn_of(self.end - 1),
        }
    }

    /// Adds itself to what is thrown away.
    fn skip(&self, skipped: &mut Skipped) {
        skipped.bytes += self.bytes;
        if self.handed_out > 0 {
            skipped.handed_out_on.push(self.stream);
        }
    }

    fn into_message(mut self) -> ReceivedMessage {
        ReceivedMessage {
            end_of_record: true,
            ..self.take_part()
        }
    }

    fn take_part(&mut self) -> ReceivedMessage {
        let only = self
            .payloads
            .pop_front_if(|payload| payload.len() == self.bytes);
        let payload = only.unwrap_or_else(|| {
            self.joined.reserve(self.bytes - self.joined.len());
            self.join_payloads();
            std::mem::take(&mut self.joined).freeze()
        });
        self.handed_out += std::mem::take(&mut self.bytes);
        ReceivedMessage {
            stream: self.stream,
            ppid: self.ppid,
            unordered: self.unordered,
            ssn: self.mid.0 as u16,
            payload,
            end_of_record: false,
        }
    }
}

#[cfg(test)]
mod tests;
