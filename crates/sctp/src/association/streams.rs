//! The peer's streams (RFC 9260 sections 6.5 and 6.6): order within each, none between them. This part
//! knows stream sequence numbers; of TSNs only which ones a message had.

use std::collections::{BTreeMap, VecDeque};

use super::held_messages::HeldMessages;
use super::received_tsns::TsnRange;
use super::stream_set::StreamSet;
use crate::ReceivedMessage;
use crate::packet::{Ssn, Tsn};

/// The peer's streams: holds messages back until it is their turn.
#[derive(Debug)]
pub(crate) struct InboundStreams {
    count: u16,
    /// The next sequence number of each stream; streams beyond the end have not been used.
    next: Vec<Ssn>,
    /// Messages before their turn, by stream and sequence number.
    waiting: BTreeMap<(u16, u16), OutOfOrderMessage>,
    ready: VecDeque<ReceivedMessage>,
    /// Bytes of them.
    ready_bytes: usize,
    /// The message that is being delivered in parts.
    partial: Option<Box<PartialDelivery>>,
    /// Messages of after a reset that is still to come.
    held: Option<Box<HeldMessages>>,
}

/// A message of which parts were delivered, and not the end.
#[derive(Debug)]
struct PartialDelivery {
    message: PartialMessage,
    /// Other messages may be delivered between its parts, if they are of other streams
    /// (RFC 6458 section 8.1.20).
    interleaved: bool,
    /// Messages that wait for its end.
    blocked: VecDeque<ReceivedMessage>,
}

/// Names a message that is being delivered in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartialMessage {
    pub(crate) stream: u16,
    pub(crate) unordered: bool,
    pub(crate) ssn: u16,
}

/// A message before its turn.
#[derive(Debug)]
struct OutOfOrderMessage {
    message: ReceivedMessage,
    tsns: TsnRange,
}

/// The sequence number of an ordered message was used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SequenceNumberReused;

impl InboundStreams {
    /// `count` streams that carried nothing yet.
    pub(crate) fn new(count: u16) -> InboundStreams {
        InboundStreams {
            count,
            next: Vec::new(),
            waiting: BTreeMap::new(),
            ready: VecDeque::new(),
            ready_bytes: 0,
            partial: None,
            held: None,
        }
    }

    /// How many streams there are.
    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    /// How many messages are held, before their turn or ready.
    pub(crate) fn messages(&self) -> usize {
        let blocked = self
            .partial
            .as_ref()
            .map_or(0, |partial| partial.blocked.len());
        self.waiting() + self.ready.len() + blocked
    }

    /// Whether a message can be taken with [`Self::pop`].
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many messages are held before their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len() + self.held.as_ref().map_or(0, |held| held.len())
    }

    /// Takes a whole message in, which had these TSNs.
    pub(crate) fn push(
        &mut self,
        message: ReceivedMessage,
        tsns: TsnRange,
    ) -> Result<(), SequenceNumberReused> {
        let stream = message.stream;
        if let Some(held) = &mut self.held
            && held.holds(stream, tsns.first)
        {
            held.push(message, tsns);
            return Ok(());
        }
        if message.unordered {
            self.deliver(message);
            return Ok(());
        }
        let ssn = Ssn(message.ssn);
        let index = usize::from(stream);
        if index >= self.next.len() {
            self.next.resize(index + 1, Ssn(0));
        }
        let Some(next) = self.next.get_mut(index) else {
            return Ok(());
        };
        if ssn != *next {
            if ssn < *next || self.waiting.contains_key(&(stream, ssn.0)) {
                return Err(SequenceNumberReused);
            }
            self.waiting
                .insert((stream, ssn.0), OutOfOrderMessage { message, tsns });
            return Ok(());
        }
        let following = next.next();
        *next = following;
        self.deliver(message);
        if !self.waiting.is_empty() {
            self.deliver_from(stream, following);
        }
        Ok(())
    }

    /// Takes in the end of the message of which parts were delivered, which had these TSNs.
    pub(crate) fn push_rest(
        &mut self,
        rest: ReceivedMessage,
        tsns: TsnRange,
    ) -> Result<(), SequenceNumberReused> {
        let partial = self.partial.take();
        let pushed = self.push(rest, tsns);
        match (pushed, partial) {
            (Ok(()), Some(partial)) => self.unblock(partial.blocked),
            // The end of it will never be: [`Self::close`] tells.
            (Err(_), partial) => self.partial = partial,
            (Ok(()), None) => {}
        }
        pushed
    }

    /// Skips the ordered messages of a stream up to `ssn` that are not there, and delivers the others
    /// (RFC 3758 section 3.6). Numbers that were delivered or skipped before, and streams that there
    /// are not, are left alone.
    pub(crate) fn skip(&mut self, stream: u16, ssn: Ssn) {
        if stream >= self.count {
            return;
        }
        let index = usize::from(stream);
        if index >= self.next.len() {
            self.next.resize(index + 1, Ssn(0));
        }
        let next = self.next.get(index).copied().unwrap_or_default();
        if ssn < next {
            return;
        }
        let mut waiting: Vec<u16> = Vec::new();
        let mut find = |first: u16, last: u16| {
            let found = self.waiting.range((stream, first)..=(stream, last));
            waiting.extend(found.map(|((_, ssn), _)| *ssn));
        };
        if next.0 <= ssn.0 {
            find(next.0, ssn.0);
        } else {
            find(next.0, u16::MAX);
            find(0, ssn.0);
        }
        for ssn in waiting {
            if let Some(before) = self.waiting.remove(&(stream, ssn)) {
                self.deliver(before.message);
            }
        }
        self.deliver_from(stream, ssn.next());
    }

    /// Delivers what waits on a stream from `following` on without a gap; what comes next then is the
    /// number after it.
    fn deliver_from(&mut self, stream: u16, mut following: Ssn) {
        while let Some(waiting) = self.waiting.remove(&(stream, following.0)) {
            self.deliver(waiting.message);
            following = following.next();
        }
        if let Some(next) = self.next.get_mut(usize::from(stream)) {
            *next = following;
        }
    }

    /// The rest of the message that was being delivered in parts will not come.
    pub(crate) fn abort_partial(&mut self) -> Option<PartialMessage> {
        let partial = self.partial.take()?;
        self.unblock(partial.blocked);
        Some(partial.message)
    }

    /// Whether it is this message's turn, so that parts of it may be delivered.
    pub(crate) fn is_next(&self, message: PartialMessage) -> bool {
        let index = usize::from(message.stream);
        let next = self.next.get(index).map_or(0, |next| next.0);
        message.unordered || message.ssn == next
    }

    /// Delivers a part of a message whose turn it is. `interleaved` says whether messages of other
    /// streams may be delivered between its parts.
    pub(crate) fn push_part(&mut self, part: ReceivedMessage, interleaved: bool) {
        self.partial.get_or_insert_with(|| {
            Box::new(PartialDelivery {
                message: PartialMessage {
                    stream: part.stream,
                    unordered: part.unordered,
                    ssn: part.ssn,
                },
                interleaved,
                blocked: VecDeque::new(),
            })
        });
        self.keep_ready(part);
    }

    /// What waited for the end of the message that was delivered in parts is ready.
    fn unblock(&mut self, blocked: VecDeque<ReceivedMessage>) {
        for message in blocked {
            self.keep_ready(message);
        }
    }

    fn deliver(&mut self, message: ReceivedMessage) {
        match &mut self.partial {
            Some(partial) if !partial.interleaved || message.stream == partial.message.stream => {
                partial.blocked.push_back(message);
            }
            _ => self.keep_ready(message),
        }
    }

    /// Holds the messages on `streams` that begin after `last`, until [`Self::reset`].
    pub(crate) fn hold_after(&mut self, last: Tsn, streams: StreamSet) {
        self.held = Some(Box::new(HeldMessages::new(last, streams)));
    }

    /// Begins anew with the numbers of `streams`: the next one of each is 0. What waits there for
    /// numbers that will never come is delivered. Goes on with the messages that were held.
    pub(crate) fn reset(&mut self, streams: &StreamSet) -> Result<(), SequenceNumberReused> {
        let Some(listed) = streams.listed() else {
            self.next.clear();
            for orphan in std::mem::take(&mut self.waiting).into_values() {
                self.deliver(orphan.message);
            }
            return self.release_held();
        };
        for stream in listed {
            if let Some(next) = self.next.get_mut(usize::from(stream)) {
                *next = Ssn(0);
            }
            let numbers = (stream, 0)..=(stream, u16::MAX);
            while let Some((key, _)) = self.waiting.range(numbers.clone()).next()
                && let key = *key
                && let Some(orphan) = self.waiting.remove(&key)
            {
                self.deliver(orphan.message);
            }
        }
        self.release_held()
    }

    fn release_held(&mut self) -> Result<(), SequenceNumberReused> {
        let held = self.held.take();
        for (message, tsns) in held.into_iter().flat_map(|held| held.release()) {
            self.push(message, tsns)?;
        }
        Ok(())
    }

    /// So many more streams.
    pub(crate) fn add(&mut self, more: u16) {
        self.count = self.count.saturating_add(more);
    }

    /// The next message for the user.
    pub(crate) fn pop(&mut self) -> Option<ReceivedMessage> {
        let message = self.ready.pop_front()?;
        self.ready_bytes -= message.payload.len();
        Some(message)
    }

    /// Throws away the messages before their turn above `cumulative`, the cumulative TSN;
    /// `on_removed` hears TSNs and bytes of each.
    pub(crate) fn renege(&mut self, cumulative: Tsn, mut on_removed: impl FnMut(TsnRange, usize)) {
        self.waiting.retain(|_, waiting| {
            let stays = waiting.tsns.first <= cumulative;
            if !stays {
                on_removed(waiting.tsns, waiting.message.payload.len());
            }
            stays
        });
        if let Some(held) = &mut self.held {
            held.renege(cumulative, on_removed);
        }
    }

    /// The TSNs of each message before its turn.
    pub(crate) fn waiting_tsns(&self) -> impl Iterator<Item = TsnRange> {
        let held = self.held.iter().flat_map(|held| held.tsns());
        self.waiting
            .values()
            .map(|waiting| waiting.tsns)
            .chain(held)
    }

    /// Takes in a message, or a part of one, that is ready: one of the association before this one,
    /// too.
    pub(crate) fn keep_ready(&mut self, message: ReceivedMessage) {
        self.ready_bytes += message.payload.len();
        self.ready.push_back(message);
    }

    /// Bytes of the messages that are ready.
    pub(crate) fn ready_bytes(&self) -> usize {
        self.ready_bytes
    }

    /// Forgets everything but the messages that are ready: the association is over. Tells the
    /// message whose delivery in parts ends without its end.
    pub(crate) fn close(&mut self) -> Option<PartialMessage> {
        self.next = Vec::new();
        self.waiting = BTreeMap::new();
        self.held = None;
        self.abort_partial()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn message(stream: u16, ssn: u16, unordered: bool) -> ReceivedMessage {
        ReceivedMessage {
            stream,
            ppid: 0,
            unordered,
            ssn,
            payload: Bytes::from_static(b"x"),
            end_of_record: true,
        }
    }

    /// As a chunk whose TSN is one above the sequence number.
    fn push(
        streams: &mut InboundStreams,
        message: ReceivedMessage,
    ) -> Result<(), SequenceNumberReused> {
        let tsn = Tsn(u32::from(message.ssn) + 1);
        let tsns = TsnRange {
            first: tsn,
            last: tsn,
        };
        streams.push(message, tsns)
    }

    fn ready(streams: &mut InboundStreams) -> Vec<(u16, u16)> {
        std::iter::from_fn(|| streams.pop())
            .map(|message| (message.stream, message.ssn))
            .collect()
    }

    #[test]
    fn delivers_in_order_within_a_stream_and_independently_between() {
        let mut streams = InboundStreams::new(5);
        for (stream, ssn) in [(1, 1), (1, 2), (2, 0)] {
            push(&mut streams, message(stream, ssn, false)).unwrap();
        }
        assert_eq!(ready(&mut streams), [(2, 0)]);
        assert_eq!(streams.messages(), 2);
        push(&mut streams, message(1, 0, false)).unwrap();
        assert_eq!(ready(&mut streams), [(1, 0), (1, 1), (1, 2)]);
        assert_eq!(streams.messages(), 0);
    }

    #[test]
    fn delivers_unordered_messages_at_once() {
        let mut streams = InboundStreams::new(5);
        push(&mut streams, message(0, 1, false)).unwrap();
        push(&mut streams, message(0, 77, true)).unwrap();
        assert_eq!(ready(&mut streams), [(0, 77)]);
    }

    #[test]
    fn goes_on_across_the_wrap() {
        let mut streams = InboundStreams::new(1);
        for ssn in 0..=u16::MAX {
            push(&mut streams, message(0, ssn, false)).unwrap();
        }
        assert_eq!(ready(&mut streams).len(), 65_536);
        push(&mut streams, message(0, 1, false)).unwrap();
        assert!(!streams.is_ready());
        push(&mut streams, message(0, 0, false)).unwrap();
        assert_eq!(ready(&mut streams), [(0, 0), (0, 1)]);
    }

    #[test]
    fn a_sequence_number_used_twice_ends_a_delivery_in_parts_and_loses_nothing() {
        let mut streams = InboundStreams::new(2);
        streams.push_part(message(0, 0, false), false);
        for stream in [1, 0] {
            push(&mut streams, message(stream, 0, false)).unwrap();
        }
        let tsns = TsnRange {
            first: Tsn(7),
            last: Tsn(9),
        };
        let rest = streams.push_rest(message(0, 0, false), tsns);
        assert_eq!(rest, Err(SequenceNumberReused));
        assert_eq!(streams.messages(), 3);
        assert!(streams.close().is_some());
        assert_eq!(ready(&mut streams), [(0, 0), (1, 0), (0, 0)]);
    }

    #[test]
    fn skips_what_is_missing_and_delivers_the_rest() {
        let mut streams = InboundStreams::new(2);
        for ssn in [1, 3, 4, 6] {
            push(&mut streams, message(1, ssn, false)).unwrap();
        }
        push(&mut streams, message(0, 1, false)).unwrap();
        streams.skip(1, Ssn(2));
        assert_eq!(ready(&mut streams), [(1, 1), (1, 3), (1, 4)]);
        for before in [0, 2, 4] {
            streams.skip(1, Ssn(before));
        }
        streams.skip(7, Ssn(0));
        assert_eq!(ready(&mut streams), []);
        assert_eq!(streams.messages(), 2);
        streams.skip(1, Ssn(5));
        assert_eq!(ready(&mut streams), [(1, 6)]);
        push(&mut streams, message(1, 7, false)).unwrap();
        assert_eq!(ready(&mut streams), [(1, 7)]);
    }

    #[test]
    fn skips_across_the_wrap() {
        let mut streams = InboundStreams::new(1);
        streams.skip(0, Ssn(30_000));
        streams.skip(0, Ssn(60_000));
        for ssn in [65_000, 3, 9] {
            push(&mut streams, message(0, ssn, false)).unwrap();
        }
        streams.skip(0, Ssn(5));
        assert_eq!(ready(&mut streams), [(0, 65_000), (0, 3)]);
        push(&mut streams, message(0, 6, false)).unwrap();
        assert_eq!(ready(&mut streams), [(0, 6)]);
    }

    #[test]
    fn throws_away_what_waits_above_the_cumulative_tsn() {
        let mut streams = InboundStreams::new(1);
        for ssn in [1, 2, 3] {
            push(&mut streams, message(0, ssn, false)).unwrap();
        }
        let mut removed = Vec::new();
        streams.renege(Tsn(3), |tsns, bytes| removed.push((tsns.first.0, bytes)));
        assert_eq!(removed, [(4, 1)]);
        for ssn in [0, 3] {
            push(&mut streams, message(0, ssn, false)).unwrap();
        }
        assert_eq!(ready(&mut streams), [(0, 0), (0, 1), (0, 2), (0, 3)]);
    }

    #[test]
    fn refuses_a_sequence_number_twice() {
        let mut streams = InboundStreams::new(1);
        push(&mut streams, message(0, 0, false)).unwrap();
        push(&mut streams, message(0, 2, false)).unwrap();
        for ssn in [0, 2] {
            assert_eq!(
                push(&mut streams, message(0, ssn, false)),
                Err(SequenceNumberReused)
            );
        }
    }
}
