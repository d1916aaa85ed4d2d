//! Puts fragmented user messages together (RFC 9260 section 6.9).
//!
//! Fragments of a message have consecutive TSNs, so this part keeps sequences of fragments that follow
//! each other and hands a message out once its sequence reaches from a B bit to an E bit. It knows
//! nothing of the order between messages.
//!
//! Where partial delivery is wanted, it also hands out what has arrived of the one message that the
//! cumulative TSN lies in. There is no other message whose beginning could never be taken back.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};

use super::received_tsns::TsnRange;
use crate::ReceivedMessage;
use crate::packet::{Ssn, Tsn};

/// A DATA chunk that is not a whole message by itself.
#[derive(Debug, Clone)]
pub(crate) struct Fragment {
    pub(crate) tsn: Tsn,
    pub(crate) stream: u16,
    pub(crate) ssn: Ssn,
    pub(crate) ppid: u32,
    pub(crate) unordered: bool,
    /// The B bit.
    pub(crate) beginning: bool,
    /// The E bit.
    pub(crate) ending: bool,
    pub(crate) payload: Bytes,
}

/// What a fragment can be wrong in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReassemblyError {
    /// Its neighbours belong to another message, although its B and E bits say otherwise.
    Inconsistent,
    /// Its message is larger than we take.
    MessageTooLarge,
}

/// A message that is whole.
#[derive(Debug)]
pub(crate) struct CompletedMessage {
    /// The message, or what of it was not handed out before.
    pub(crate) message: ReceivedMessage,
    /// Its TSNs.
    pub(crate) tsns: TsnRange,
    /// Parts of it were handed out before.
    pub(crate) is_rest: bool,
}

/// A message that is not whole yet, of which everything up to the cumulative TSN has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IncompleteMessage {
    pub(crate) stream: u16,
    pub(crate) ssn: Ssn,
    pub(crate) unordered: bool,
    /// Bytes of it that are held.
    pub(crate) held: usize,
    /// Parts of it were handed out before.
    pub(crate) is_begun: bool,
}

impl Skipped {
    fn add(&mut self, sequence: &FragmentSequence) {
        self.bytes += sequence.bytes;
        self.was_handed_out |= sequence.handed_out > 0;
    }
}

/// The fragments that wait for others.
#[derive(Debug)]
pub(crate) struct Reassembly {
    /// By the unwrapped TSN of their first fragment.
    sequences: BTreeMap<u64, FragmentSequence>,
    fragments: usize,
    unwrapped: Unwrapped,
    max_message_size: usize,
    /// The unwrapped TSN at which the rest of a message may follow that the peer has abandoned.
    abandoned_rest: Option<u64>,
}

/// What was thrown away of messages that the peer has abandoned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Skipped {
    /// Bytes of user data.
    pub(crate) bytes: usize,
    /// Parts of the message at the cumulative TSN were handed out before.
    pub(crate) was_handed_out: bool,
}

#[derive(Debug)]
struct FragmentSequence {
    /// The unwrapped TSN after the last fragment.
    end: u64,
    stream: u16,
    ssn: Ssn,
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

/// Gives TSNs a total order: the numbers of a window that moves on, never wrapping.
#[derive(Debug)]
struct Unwrapped {
    tsn: Tsn,
    number: u64,
}

impl Reassembly {
    /// Nothing waits; TSNs will be in reach of `initial`.
    pub(crate) fn new(initial: Tsn, max_message_size: usize) -> Reassembly {
        Reassembly {
            sequences: BTreeMap::new(),
            fragments: 0,
            unwrapped: Unwrapped {
                tsn: initial,
                number: 1 << 32,
            },
            max_message_size,
            abandoned_rest: None,
        }
    }

    /// Changes how large messages may be from now on.
    pub(crate) fn set_max_message_size(&mut self, max: usize) {
        self.max_message_size = max;
    }

    /// How many fragments wait, one by one.
    pub(crate) fn fragments(&self) -> usize {
        self.fragments
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    /// Joins the fragments of the message at `cumulative`, the cumulative TSN, so that they take the
    /// memory of their bytes alone, and count as no fragments any more. They cannot be taken back
    /// anyway.
    pub(crate) fn join_fragments(&mut self, cumulative: Tsn) {
        if let Some((fragments, sequence)) = self.sequence_at(cumulative) {
            sequence.join_payloads();
            self.fragments -= fragments;
        }
    }

    /// Takes a fragment whose TSN is new; gives the message that it completes, and its TSNs.
    pub(crate) fn insert(
        &mut self,
        fragment: Fragment,
    ) -> Result<Option<CompletedMessage>, ReassemblyError> {
        let tsn = fragment.tsn;
        let number = self.unwrapped.number_of(tsn);
        let below = self
            .sequences
            .range(..number)
            .next_back()
            .filter(|(_, sequence)| sequence.end == number)
            .map(|(first, sequence)| (*first, sequence.continues_with(&fragment)));
        let above = self
            .sequences
            .get(&(number + 1))
            .map(|sequence| sequence.continues_from(&fragment));
        let joins_below = match below {
            None | Some((_, Adjacency::OtherMessage)) => None,
            Some((first, Adjacency::SameMessage)) => Some(first),
            Some((_, Adjacency::Inconsistent)) => return Err(ReassemblyError::Inconsistent),
        };
        let joins_above = match above {
            None | Some(Adjacency::OtherMessage) => false,
            Some(Adjacency::SameMessage) => true,
            Some(Adjacency::Inconsistent) => return Err(ReassemblyError::Inconsistent),
        };
        let upper = if joins_above {
            self.sequences.remove(&(number + 1))
        } else {
            None
        };
        self.fragments += 1;
        let first = joins_below.unwrap_or(number);
        let sequence = self
            .sequences
            .entry(first)
            .or_insert_with(|| FragmentSequence::empty_for(&fragment, number));
        sequence.append(fragment);
        if let Some(upper) = upper {
            sequence.join(upper);
        }
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
                tsns: sequence.tsns(first, tsn, number),
                is_rest: sequence.handed_out > 0,
                message: sequence.into_message(),
            }
        }))
    }

    /// The message that is not whole yet at `cumulative`, the cumulative TSN, if its beginning is
    /// there.
    pub(crate) fn incomplete(&mut self, cumulative: Tsn) -> Option<IncompleteMessage> {
        let (_, sequence) = self.sequence_at(cumulative)?;
        Some(IncompleteMessage {
            stream: sequence.stream,
            ssn: sequence.ssn,
            unordered: sequence.unordered,
            held: sequence.bytes,
            is_begun: sequence.handed_out > 0,
        })
    }

    /// Hands out what has arrived of the message that [`Self::incomplete`] tells of.
    pub(crate) fn take_part(&mut self, cumulative: Tsn) -> Option<ReceivedMessage> {
        let (fragments, sequence) = self.sequence_at(cumulative)?;
        let part = sequence.take_part();
        self.fragments -= fragments;
        Some(part)
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

    /// The TSNs of each sequence of fragments; `cumulative` is the cumulative TSN.
    pub(crate) fn sequences(&mut self, cumulative: Tsn) -> impl Iterator<Item = TsnRange> {
        let received = self.unwrapped.number_of(cumulative);
        self.sequences
            .iter()
            .map(move |(first, sequence)| sequence.tsns(*first, cumulative, received))
    }

    /// Throws away the fragments above `cumulative`, the cumulative TSN; `on_removed` hears the
    /// TSNs and the bytes of each sequence.
    pub(crate) fn renege(&mut self, cumulative: Tsn, mut on_removed: impl FnMut(TsnRange, usize)) {
        if self.sequences.is_empty() {
            return;
        }
        let received = self.unwrapped.number_of(cumulative);
        for (first, sequence) in self.sequences.split_off(&(received + 1)) {
            self.fragments -= sequence.payloads.len();
            on_removed(sequence.tsns(first, cumulative, received), sequence.bytes);
        }
    }

    /// Throws away what waits of the messages that the peer has abandoned up to the TSN `point`
    /// (RFC 3758 section 3.6). Its message is one of them, so that whatever begins below and is not
    /// whole never will be. `cumulative` is the cumulative TSN, which was moved on over `point`.
    pub(crate) fn skip(&mut self, point: Tsn, cumulative: Tsn) -> Skipped {
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
            skipped.add(&sequence);
        }
        self.skip_rest(rest, &mut skipped);
        // What has arrived there was a whole message.
        self.abandoned_rest = self.abandoned_rest.filter(|rest| *rest > received);
        skipped
    }

    /// Whether a fragment belongs to a message that the peer has abandoned, though it has not skipped all
    /// of it: a FORWARD-TSN may have no room for all. If so, it is thrown away with what follows it;
    /// tells the bytes of that.
    pub(crate) fn skip_fragment(
        &mut self,
        tsn: Tsn,
        beginning: bool,
        ending: bool,
    ) -> Option<usize> {
        let rest = self.abandoned_rest?;
        if beginning || self.unwrapped.number_of(tsn) != rest {
            return None;
        }
        let mut skipped = Skipped::default();
        self.skip_rest((!ending).then_some(rest + 1), &mut skipped);
        Some(skipped.bytes)
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
                skipped.add(&sequence);
            }
        }
        self.abandoned_rest = rest;
    }

    /// Whether a fragment waits for a neighbour that has arrived already as part of something
    /// else: its message can never be whole. `cumulative` is the cumulative TSN.
    pub(crate) fn is_stuck(&mut self, cumulative: Tsn) -> bool {
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
            ssn: fragment.ssn,
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
            && (self.unordered || self.ssn == fragment.ssn)
    }

    /// The TSNs of this sequence, which begins at `first`; `tsn` is the one that is counted as `number`.
    fn tsns(&self, first: u64, tsn: Tsn, number: u64) -> TsnRange {
        // What is cut off is whole turns of the circle.
        let tsn_of = |other: u64| Tsn(tsn.0.wrapping_add(other.wrapping_sub(number) as u32));
        TsnRange {
            first: tsn_of(first),
            last: tsn_of(self.end - 1),
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
            ssn: self.ssn.0,
            payload,
            end_of_record: false,
        }
    }
}

impl Unwrapped {
    fn number_of(&mut self, tsn: Tsn) -> u64 {
        let number = if tsn >= self.tsn {
            self.number + u64::from(tsn.distance_from(self.tsn))
        } else {
            // The count starts so high that a TSN less than half a circle back stays positive.
            self.number
                .saturating_sub(u64::from(self.tsn.distance_from(tsn)))
        };
        self.tsn = tsn;
        self.number = number;
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(tsn: u32, bits: &str) -> Fragment {
        Fragment {
            tsn: Tsn(tsn),
            stream: 3,
            ssn: Ssn(9),
            ppid: 7,
            unordered: false,
            beginning: bits.contains('B'),
            ending: bits.contains('E'),
            payload: Bytes::from(format!("<{tsn}>")),
        }
    }

    fn reassembly(initial: u32) -> Reassembly {
        Reassembly::new(Tsn(initial), 1000)
    }

    fn insert(reassembly: &mut Reassembly, tsn: u32, bits: &str) {
        let inserted = reassembly.insert(fragment(tsn, bits));
        assert!(inserted.expect("consistent").is_none());
    }

    #[test]
    fn skips_what_is_not_whole_below_a_point() {
        let mut reassembly = reassembly(1);
        for (tsn, bits) in [(1, "B"), (2, ""), (5, ""), (6, "E"), (8, "B"), (9, "")] {
            insert(&mut reassembly, tsn, bits);
        }
        let skipped = reassembly.skip(Tsn(5), Tsn(6));
        assert_eq!((skipped.bytes, skipped.was_handed_out), (12, false));
        assert_eq!(reassembly.fragments(), 2);
        assert!(!reassembly.is_stuck(Tsn(6)));
        assert_eq!(reassembly.skip_fragment(Tsn(7), false, true), None);
        let whole = reassembly.insert(fragment(10, "E")).unwrap().unwrap();
        assert_eq!(&whole.message.payload[..], b"<8><9><10>");
    }

    #[test]
    fn skips_the_rest_of_an_abandoned_message_wherever_it_comes() {
        let mut reassembly = reassembly(u32::MAX - 1);
        insert(&mut reassembly, u32::MAX - 1, "B");
        insert(&mut reassembly, 2, "");
        let skipped = reassembly.skip(Tsn(u32::MAX), Tsn(u32::MAX));
        assert_eq!(skipped.bytes, 12);
        insert(&mut reassembly, 1, "");
        assert_eq!(reassembly.skip_fragment(Tsn(0), false, false), Some(6));
        assert_eq!(reassembly.fragments(), 0);
        assert_eq!(reassembly.skip_fragment(Tsn(3), false, true), Some(0));
        insert(&mut reassembly, 4, "B");
        assert_eq!(reassembly.skip_fragment(Tsn(5), false, true), None);
    }

    #[test]
    fn tells_that_a_message_handed_out_in_part_is_skipped() {
        let mut reassembly = reassembly(1);
        insert(&mut reassembly, 1, "B");
        insert(&mut reassembly, 2, "");
        assert!(reassembly.take_part(Tsn(2)).is_some());
        insert(&mut reassembly, 3, "");
        let skipped = reassembly.skip(Tsn(4), Tsn(4));
        assert_eq!((skipped.bytes, skipped.was_handed_out), (3, true));
        assert!(reassembly.is_empty());
    }

    #[test]
    fn a_message_that_begins_behind_a_point_is_left_alone() {
        let mut reassembly = reassembly(1);
        insert(&mut reassembly, 4, "B");
        assert_eq!(reassembly.skip(Tsn(3), Tsn(4)), Skipped::default());
        assert_eq!(reassembly.skip_fragment(Tsn(5), false, true), None);
        assert!(reassembly.insert(fragment(5, "E")).unwrap().is_some());
    }

    #[test]
    fn completes_whatever_the_order_of_arrival() {
        let parts = [(1, "B"), (2, ""), (3, ""), (4, "E")];
        let orders = [
            [0, 1, 2, 3],
            [3, 2, 1, 0],
            [0, 3, 1, 2],
            [2, 0, 3, 1],
            [1, 3, 0, 2],
        ];
        for order in orders {
            let mut reassembly = reassembly(1);
            let mut message = None;
            for index in order {
                assert!(message.is_none());
                let (tsn, bits) = parts[index];
                message = reassembly.insert(fragment(tsn, bits)).unwrap();
            }
            let CompletedMessage { message, tsns, .. } = message.expect("complete");
            assert_eq!((tsns.first, tsns.last), (Tsn(1), Tsn(4)));
            assert_eq!(message.payload, "<1><2><3><4>");
            assert_eq!((message.stream, message.ssn, message.ppid), (3, 9, 7));
            assert_eq!(reassembly.fragments(), 0);
        }
    }

    #[test]
    fn joined_fragments_count_as_none_and_lose_nothing() {
        let mut reassembly = reassembly(1);
        for (tsn, bits) in [(1, "B"), (2, ""), (4, "")] {
            assert!(reassembly.insert(fragment(tsn, bits)).unwrap().is_none());
        }
        reassembly.join_fragments(Tsn(2));
        assert_eq!(reassembly.fragments(), 1, "TSN 4 may still be taken back");
        assert!(reassembly.insert(fragment(3, "")).unwrap().is_none());
        assert_eq!(reassembly.fragments(), 2);
        reassembly.join_fragments(Tsn(4));
        assert_eq!((reassembly.fragments(), reassembly.is_empty()), (0, false));
        let completed = reassembly.insert(fragment(5, "E")).unwrap();
        let message = completed.expect("complete").message;
        assert_eq!(message.payload, "<1><2><3><4><5>");
        assert!(reassembly.is_empty());
        // What was handed out before is not there again.
        for (tsn, bits) in [(6, "B"), (7, "")] {
            reassembly.insert(fragment(tsn, bits)).unwrap();
        }
        reassembly.join_fragments(Tsn(7));
        assert_eq!(reassembly.take_part(Tsn(7)).unwrap().payload, "<6><7>");
        let completed = reassembly.insert(fragment(8, "E")).unwrap();
        assert_eq!(completed.expect("complete").message.payload, "<8>");
        assert_eq!(reassembly.fragments(), 0);
    }

    #[test]
    fn completes_across_the_wrap() {
        let mut reassembly = reassembly(u32::MAX - 1);
        assert!(reassembly.insert(fragment(0, "E")).unwrap().is_none());
        assert!(
            reassembly
                .insert(fragment(u32::MAX - 1, "B"))
                .unwrap()
                .is_none()
        );
        let completed = reassembly.insert(fragment(u32::MAX, "")).unwrap();
        let CompletedMessage { message, tsns, .. } = completed.expect("complete");
        assert_eq!((tsns.first, tsns.last), (Tsn(u32::MAX - 1), Tsn(0)));
        assert_eq!(message.payload, "<4294967294><4294967295><0>");
    }

    #[test]
    fn hands_out_parts_of_the_message_at_the_cumulative_tsn() {
        let mut reassembly = reassembly(1);
        let part = |reassembly: &mut Reassembly, cumulative| {
            let part = reassembly.take_part(Tsn(cumulative))?;
            assert!(!part.end_of_record);
            Some(part.payload)
        };
        for (tsn, bits) in [(1, "B"), (2, ""), (4, "")] {
            assert!(reassembly.insert(fragment(tsn, bits)).unwrap().is_none());
        }
        assert_eq!(reassembly.incomplete(Tsn(4)), None, "3 is missing");
        let incomplete = reassembly.incomplete(Tsn(2)).expect("it has begun");
        assert_eq!((incomplete.held, incomplete.is_begun), (6, false));
        assert_eq!(part(&mut reassembly, 2).unwrap(), "<1><2>");
        assert_eq!(reassembly.incomplete(Tsn(2)), None, "nothing is left");
        assert_eq!(reassembly.fragments(), 1);
        assert!(reassembly.insert(fragment(3, "")).unwrap().is_none());
        assert!(reassembly.incomplete(Tsn(4)).unwrap().is_begun);
        assert_eq!(part(&mut reassembly, 4).unwrap(), "<3><4>");
        let completed = reassembly.insert(fragment(5, "E")).unwrap();
        let CompletedMessage {
            message,
            tsns,
            is_rest,
        } = completed.expect("complete");
        assert_eq!((&message.payload[..], is_rest), (&b"<5>"[..], true));
        assert!(message.end_of_record);
        assert_eq!((tsns.first, tsns.last), (Tsn(1), Tsn(5)));
        assert_eq!(reassembly.fragments(), 0);
    }

    #[test]
    fn parts_count_towards_the_size_of_the_message() {
        let mut reassembly = Reassembly::new(Tsn(1), 8);
        reassembly.insert(fragment(1, "B")).unwrap();
        reassembly.insert(fragment(2, "")).unwrap();
        reassembly.take_part(Tsn(2)).expect("it has begun");
        assert_eq!(
            reassembly.insert(fragment(3, "E")).unwrap_err(),
            ReassemblyError::MessageTooLarge
        );
    }

    #[test]
    fn throws_away_what_is_above_the_cumulative_tsn() {
        let mut reassembly = reassembly(u32::MAX);
        for (tsn, bits) in [(u32::MAX, "B"), (1, ""), (2, "E"), (7, "B")] {
            assert!(reassembly.insert(fragment(tsn, bits)).unwrap().is_none());
        }
        let mut removed = Vec::new();
        reassembly.renege(Tsn(u32::MAX), |tsns, bytes| {
            removed.push((tsns.first.0, tsns.last.0, bytes));
        });
        assert_eq!(removed, [(1, 2, 6), (7, 7, 3)]);
        assert_eq!(reassembly.fragments(), 1);
        for (tsn, bits) in [(0, ""), (1, "")] {
            assert!(reassembly.insert(fragment(tsn, bits)).unwrap().is_none());
        }
        assert!(reassembly.insert(fragment(2, "E")).unwrap().is_some());
    }

    #[test]
    fn keeps_neighbouring_messages_apart() {
        let mut reassembly = reassembly(1);
        assert!(reassembly.insert(fragment(2, "E")).unwrap().is_none());
        assert!(reassembly.insert(fragment(3, "B")).unwrap().is_none());
        assert!(reassembly.insert(fragment(1, "B")).unwrap().is_some());
        assert!(reassembly.insert(fragment(4, "E")).unwrap().is_some());
    }

    #[test]
    fn refuses_fragments_that_do_not_fit_their_neighbours() {
        let other_stream = Fragment {
            stream: 4,
            ..fragment(2, "")
        };
        for wrong in [fragment(2, "B"), other_stream] {
            let mut reassembly = reassembly(1);
            reassembly.insert(fragment(1, "B")).unwrap();
            assert_eq!(
                reassembly.insert(wrong).unwrap_err(),
                ReassemblyError::Inconsistent
            );
        }
        let mut reassembly = reassembly(1);
        reassembly.insert(fragment(3, "")).unwrap();
        assert_eq!(
            reassembly.insert(fragment(2, "E")).unwrap_err(),
            ReassemblyError::Inconsistent
        );
    }

    #[test]
    fn refuses_a_message_that_is_too_large() {
        let mut reassembly = Reassembly::new(Tsn(1), 5);
        reassembly.insert(fragment(1, "B")).unwrap();
        assert_eq!(
            reassembly.insert(fragment(2, "")).unwrap_err(),
            ReassemblyError::MessageTooLarge
        );
    }

    #[test]
    fn notices_what_can_never_be_completed() {
        let mut reassembly = reassembly(1);
        reassembly.insert(fragment(5, "")).unwrap();
        assert!(!reassembly.is_stuck(Tsn(3)));
        assert!(reassembly.is_stuck(Tsn(5)), "TSN 4 was something else");
    }
}
