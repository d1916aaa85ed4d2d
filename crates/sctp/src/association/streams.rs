//! The peer's streams (RFC 9260 sections 6.5 and 6.6): order within each, none between them. This part
//! knows stream sequence numbers; of TSNs only which ones a message had.

use std::collections::{BTreeMap, VecDeque};

use super::held_messages::HeldMessages;
use super::message_key::MessageKey;
use super::received_tsns::{MessageTsns, TsnRange};
use super::stream_set::StreamSet;
use crate::ReceivedMessage;
use crate::packet::{Mid, Tsn};

/// The peer's streams: holds messages back until it is their turn.
#[derive(Debug)]
pub(crate) struct InboundStreams {
    count: u16,
    /// Messages are numbered by MIDs; if not, by stream sequence numbers.
    interleaved: bool,
    /// The number of the next ordered message of each stream; streams beyond the end have not been used.
    next: Vec<Mid>,
    /// The last unordered message that the peer has skipped on a stream.
    skipped_unordered: BTreeMap<u16, Mid>,
    /// Messages before their turn, by stream and number.
    waiting: BTreeMap<(u16, u32), OutOfOrderMessage>,
    ready: VecDeque<ReceivedMessage>,
    /// Bytes of them.
    ready_bytes: usize,
    /// The messages that are being delivered in parts: at most one of each stream.
    partial: BTreeMap<u16, PartialDelivery>,
    /// The stream of the one between whose parts nothing may be delivered.
    exclusive: Option<u16>,
    /// How many messages wait for the ends of those.
    blocked: usize,
    /// The TSNs of the messages that were delivered; `None` when nobody wants to know.
    delivered: Option<Vec<TsnRange>>,
    /// Messages of after a reset that is still to come.
    held: Option<Box<HeldMessages>>,
}

/// A message of which parts were delivered, and not the end.
#[derive(Debug)]
struct PartialDelivery {
    message: MessageKey,
    /// Messages that wait for its end.
    blocked: VecDeque<ReceivedMessage>,
}

/// A message before its turn.
#[derive(Debug)]
struct OutOfOrderMessage {
    message: ReceivedMessage,
    tsns: MessageTsns,
}

/// The number of an ordered message was used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NumberReused;

impl InboundStreams {
    /// `count` streams that carried nothing yet. With `interleaved`, their messages are numbered by MIDs.
    pub(crate) fn new(count: u16, interleaved: bool) -> InboundStreams {
        InboundStreams {
            count,
            interleaved,
            next: Vec::new(),
            skipped_unordered: BTreeMap::new(),
            waiting: BTreeMap::new(),
            ready: VecDeque::new(),
            ready_bytes: 0,
            partial: BTreeMap::new(),
            exclusive: None,
            blocked: 0,
            delivered: None,
            held: None,
        }
    }

    /// Keeps the TSNs of messages that are delivered from now on, for [`Self::take_delivered`].
    pub(crate) fn note_delivered(&mut self) {
        self.delivered = Some(Vec::new());
    }

    /// The TSNs of the messages that were delivered since the last time.
    pub(crate) fn take_delivered(&mut self) -> Vec<TsnRange> {
        self.delivered
            .as_mut()
            .map_or_else(Vec::new, std::mem::take)
    }

    /// How many streams there are.
    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    /// How many messages are held, before their turn or ready.
    #[inline]
    pub(crate) fn messages(&self) -> usize {
        self.waiting() + self.ready.len() + self.blocked
    }

    /// Whether a message can be taken with [`Self::pop`].
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many messages are held before their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len() + self.held.as_ref().map_or(0, |held| held.len())
    }

    /// The number of the next ordered message of a stream.
    pub(crate) fn next_mid(&self, stream: u16) -> Mid {
        let next = self.next.get(usize::from(stream));
        next.copied().unwrap_or_default()
    }

    /// Whether a chunk with a new TSN is of an ordered message that has arrived whole, or of a message
    /// that the peer has skipped.
    pub(crate) fn is_over(&mut self, message: MessageKey, tsn: Tsn) -> bool {
        let MessageKey {
            stream,
            unordered,
            mid,
        } = message;
        if self.is_held(stream, tsn) {
            return false;
        }
        if unordered {
            self.was_skipped(stream, mid)
        } else {
            self.is_used(stream, mid)
        }
    }

    /// Takes a whole message in, which had this number (of a DATA chunk: its stream sequence number) and
    /// these TSNs, `tsn` among them.
    pub(crate) fn push(
        &mut self,
        message: ReceivedMessage,
        number: Mid,
        tsn: Tsn,
        tsns: MessageTsns,
    ) -> Result<(), NumberReused> {
        let stream = message.stream;
        if let Some(held) = &mut self.held
            && held.holds(stream, tsn)
        {
            held.push(message, number, tsns);
            return Ok(());
        }
        if message.unordered {
            self.deliver_whole(message, &tsns);
            return Ok(());
        }
        let index = usize::from(stream);
        if index >= self.next.len() {
            self.next.resize(index + 1, Mid(0));
        }
        let mid = self.mid_of(stream, number);
        if mid != self.next_mid(stream) {
            if self.is_used(stream, mid) {
                return Err(NumberReused);
            }
            self.waiting
                .insert((stream, mid.0), OutOfOrderMessage { message, tsns });
            return Ok(());
        }
        let following = mid.next();
        if let Some(next) = self.next.get_mut(index) {
            *next = following;
        }
        self.deliver_whole(message, &tsns);
        if !self.waiting.is_empty() {
            self.deliver_from(stream, following);
        }
        Ok(())
    }

    /// The same for the end of a message of which parts were delivered.
    pub(crate) fn push_rest(
        &mut self,
        rest: ReceivedMessage,
        number: Mid,
        tsn: Tsn,
        tsns: MessageTsns,
    ) -> Result<(), NumberReused> {
        let stream = rest.stream;
        let exclusive = self.exclusive.take_if(|exclusive| *exclusive == stream);
        let partial = self.partial.remove(&stream);
        let pushed = self.push(rest, number, tsn, tsns);
        match (pushed, partial) {
            (Ok(()), Some(partial)) => self.unblock(partial.blocked),
            // The end of it will never be: [`Self::close`] tells.
            (Err(_), Some(partial)) => {
                self.partial.insert(stream, partial);
                self.exclusive = exclusive;
            }
            (_, None) => {}
        }
        pushed
    }

    /// Skips the ordered messages of a stream up to `number` that are not there, and delivers the others
    /// (RFC 3758 section 3.6). Numbers that were delivered or skipped before, and streams that there
    /// are not, are left alone. Tells whether it is another message's turn now.
    pub(crate) fn skip(&mut self, stream: u16, number: Mid) -> bool {
        if stream >= self.count {
            return false;
        }
        let index = usize::from(stream);
        if index >= self.next.len() {
            self.next.resize(index + 1, Mid(0));
        }
        let next = self.next_mid(stream);
        let mid = self.mid_of(stream, number);
        if mid < next {
            return false;
        }
        let mut waiting: Vec<u32> = Vec::new();
        let mut find = |first: u32, last: u32| {
            let found = self.waiting.range((stream, first)..=(stream, last));
            waiting.extend(found.map(|((_, mid), _)| *mid));
        };
        if next.0 <= mid.0 {
            find(next.0, mid.0);
        } else {
            find(next.0, u32::MAX);
            find(0, mid.0);
        }
        for before in waiting {
            if let Some(before) = self.waiting.remove(&(stream, before)) {
                self.deliver_whole(before.message, &before.tsns);
            }
        }
        self.deliver_from(stream, mid.next());
        true
    }

    /// Skips the unordered messages of a stream up to `mid` (RFC 8260 section 2.3.1).
    pub(crate) fn skip_unordered(&mut self, stream: u16, mid: Mid) {
        if stream < self.count {
            let skipped = self.skipped_unordered.entry(stream).or_insert(mid);
            if *skipped < mid {
                *skipped = mid;
            }
        }
    }

    /// Whether the peer has skipped an unordered message: what was under way of it may still come.
    fn was_skipped(&mut self, stream: u16, mid: Mid) -> bool {
        /// Nothing of a message so many numbers ago is under way.
        const LONG_AGO: u32 = 1 << 30;
        let Some(skipped) = self.skipped_unordered.get(&stream).copied() else {
            return false;
        };
        let is_later = skipped < mid;
        if is_later && mid.distance_from(skipped) > LONG_AGO {
            self.skipped_unordered.remove(&stream);
        }
        !is_later
    }

    /// Delivers what waits on a stream from `following` on without a gap; what comes next then is the
    /// number after it.
    fn deliver_from(&mut self, stream: u16, mut following: Mid) {
        while let Some(waiting) = self.waiting.remove(&(stream, following.0)) {
            self.deliver_whole(waiting.message, &waiting.tsns);
            following = following.next();
        }
        if let Some(next) = self.next.get_mut(usize::from(stream)) {
            *next = following;
        }
    }

    /// The rest of a message that was being delivered in parts will not come.
    pub(crate) fn abort_partial(&mut self, stream: u16) -> Option<MessageKey> {
        let partial = self.partial.remove(&stream)?;
        self.exclusive.take_if(|exclusive| *exclusive == stream);
        self.unblock(partial.blocked);
        Some(partial.message)
    }

    /// Whether a part of this message may be delivered now: it is its turn, and no other message is
    /// being delivered in parts that it must not come between (RFC 6458 section 8.1.20: not even where
    /// messages are interleaved, if it is of the same stream).
    pub(crate) fn may_deliver_part(&self, message: MessageKey) -> bool {
        let stream = self.exclusive.unwrap_or(message.stream);
        match self.partial.get(&stream) {
            Some(partial) => partial.message == message,
            None => {
                message.unordered
                    || self.mid_of(message.stream, message.mid) == self.next_mid(message.stream)
            }
        }
    }

    /// The message of a stream that is being delivered in parts.
    pub(crate) fn partial(&self, stream: u16) -> Option<MessageKey> {
        self.partial.get(&stream).map(|partial| partial.message)
    }

    /// Delivers a part of a message. `interleaved` says whether messages of other streams may be
    /// delivered between its parts.
    pub(crate) fn push_part(
        &mut self,
        message: MessageKey,
        part: ReceivedMessage,
        interleaved: bool,
    ) {
        self.partial
            .entry(message.stream)
            .or_insert_with(|| PartialDelivery {
                message,
                blocked: VecDeque::new(),
            });
        if !interleaved {
            self.exclusive = Some(message.stream);
        }
        self.keep_ready(part);
    }

    /// What waited for the end of the message that was delivered in parts is ready.
    fn unblock(&mut self, blocked: VecDeque<ReceivedMessage>) {
        self.blocked -= blocked.len();
        for message in blocked {
            self.deliver(message);
        }
    }

    /// Delivers a message that had these TSNs, or the rest of one.
    #[inline]
    fn deliver_whole(&mut self, message: ReceivedMessage, tsns: &MessageTsns) {
        if let Some(delivered) = &mut self.delivered {
            delivered.extend(tsns.ranges());
        }
        self.deliver(message);
    }

    #[inline]
    fn deliver(&mut self, message: ReceivedMessage) {
        if self.partial.is_empty() {
            self.keep_ready(message);
        } else {
            self.deliver_beside_parts(message);
        }
    }

    /// The same while other messages are delivered in parts.
    fn deliver_beside_parts(&mut self, message: ReceivedMessage) {
        let stream = self.exclusive.unwrap_or(message.stream);
        match self.partial.get_mut(&stream) {
            Some(partial) => {
                partial.blocked.push_back(message);
                self.blocked += 1;
            }
            None => self.keep_ready(message),
        }
    }

    /// Holds the messages on `streams` that begin after `last`, until [`Self::reset`].
    pub(crate) fn hold_after(&mut self, last: Tsn, streams: StreamSet) {
        self.held = Some(Box::new(HeldMessages::new(last, streams)));
    }

    /// Begins anew with the numbers of `streams`: the next one of each is 0. What waits there for
    /// numbers that will never come is delivered. Goes on with the messages that were held.
    pub(crate) fn reset(&mut self, streams: &StreamSet) -> Result<(), NumberReused> {
        let Some(listed) = streams.listed() else {
            self.next.clear();
            self.skipped_unordered.clear();
            for orphan in std::mem::take(&mut self.waiting).into_values() {
                self.deliver_whole(orphan.message, &orphan.tsns);
            }
            return self.release_held();
        };
        for stream in listed {
            if let Some(next) = self.next.get_mut(usize::from(stream)) {
                *next = Mid(0);
            }
            self.skipped_unordered.remove(&stream);
            let numbers = (stream, 0)..=(stream, u32::MAX);
            while let Some((key, _)) = self.waiting.range(numbers.clone()).next()
                && let key = *key
                && let Some(orphan) = self.waiting.remove(&key)
            {
                self.deliver_whole(orphan.message, &orphan.tsns);
            }
        }
        self.release_held()
    }

    fn release_held(&mut self) -> Result<(), NumberReused> {
        let held = self.held.take();
        for held in held.into_iter().flat_map(|held| held.release()) {
            // Nothing is held any more: it does not matter which of the TSNs is told.
            self.push(held.message, held.number, Tsn(0), held.tsns)?;
        }
        Ok(())
    }

    /// So many more streams.
    pub(crate) fn add(&mut self, more: u16) {
        self.count = self.count.saturating_add(more);
    }

    /// The number of an ordered message, which is known as a MID, or else as a stream sequence number: these
    /// are the low 16 bits of it, and it is next to what is expected.
    fn mid_of(&self, stream: u16, number: Mid) -> Mid {
        if self.interleaved {
            return number;
        }
        let next = self.next_mid(stream);
        let ahead = u32::from((number.0 as u16).wrapping_sub(next.0 as u16));
        if ahead <= 1 << 15 {
            next + ahead
        } else {
            next - ((1 << 16) - ahead)
        }
    }

    /// Whether the ordered message with that number is there already.
    fn is_used(&self, stream: u16, mid: Mid) -> bool {
        mid < self.next_mid(stream) || self.waiting.contains_key(&(stream, mid.0))
    }

    /// Whether a message on that stream is held for a reset.
    fn is_held(&self, stream: u16, tsn: Tsn) -> bool {
        let held = self.held.as_ref();
        held.is_some_and(|held| held.holds(stream, tsn))
    }

    /// The next message for the user.
    pub(crate) fn pop(&mut self) -> Option<ReceivedMessage> {
        let message = self.ready.pop_front()?;
        self.ready_bytes -= message.payload.len();
        Some(message)
    }

    /// Throws away the messages before their turn above `cumulative`, the cumulative TSN;
    /// `on_removed` hears all TSNs, and bytes.
    pub(crate) fn renege(&mut self, cumulative: Tsn, mut on_removed: impl FnMut(TsnRange, usize)) {
        self.waiting.retain(|_, waiting| {
            waiting
                .tsns
                .stay_below(cumulative, waiting.message.payload.len(), &mut on_removed)
        });
        if let Some(held) = &mut self.held {
            held.renege(cumulative, on_removed);
        }
    }

    /// The lowest TSN of each message before its turn, if it can be taken back.
    pub(crate) fn lowest_waiting_tsns(&self) -> impl Iterator<Item = Tsn> {
        let held = self.held.iter().flat_map(|held| held.tsns());
        self.waiting
            .values()
            .map(|waiting| &waiting.tsns)
            .chain(held)
            .filter_map(MessageTsns::lowest)
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
    /// messages whose delivery in parts ends without their ends.
    pub(crate) fn close(&mut self) -> Vec<MessageKey> {
        self.next = Vec::new();
        self.skipped_unordered = BTreeMap::new();
        self.waiting = BTreeMap::new();
        self.held = None;
        self.exclusive = None;
        let partial = std::mem::take(&mut self.partial);
        partial
            .into_values()
            .map(|partial| {
                self.unblock(partial.blocked);
                partial.message
            })
            .collect()
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
    fn push(streams: &mut InboundStreams, message: ReceivedMessage) -> Result<(), NumberReused> {
        let number = Mid(message.ssn.into());
        let tsn = Tsn(u32::from(message.ssn) + 1);
        streams.push(message, number, tsn, tsn.into())
    }

    fn ready(streams: &mut InboundStreams) -> Vec<(u16, u16)> {
        std::iter::from_fn(|| streams.pop())
            .map(|message| (message.stream, message.ssn))
            .collect()
    }

    #[test]
    fn delivers_in_order_within_a_stream_and_independently_between() {
        let mut streams = InboundStreams::new(5, false);
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
        let mut streams = InboundStreams::new(5, false);
        push(&mut streams, message(0, 1, false)).unwrap();
        push(&mut streams, message(0, 77, true)).unwrap();
        assert_eq!(ready(&mut streams), [(0, 77)]);
    }

    #[test]
    fn goes_on_across_the_wrap() {
        let mut streams = InboundStreams::new(1, false);
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
        let mut streams = InboundStreams::new(2, false);
        let key = MessageKey {
            stream: 0,
            unordered: false,
            mid: Mid(0),
        };
        assert!(streams.may_deliver_part(key));
        streams.push_part(key, message(0, 0, false), false);
        assert!(streams.may_deliver_part(key));
        let other = MessageKey { stream: 1, ..key };
        assert!(!streams.may_deliver_part(other));
        for stream in [1, 0] {
            push(&mut streams, message(stream, 0, false)).unwrap();
        }
        let tsns = TsnRange {
            first: Tsn(7),
            last: Tsn(9),
        };
        let rest = streams.push_rest(message(0, 0, false), Mid(0), Tsn(9), tsns.into());
        assert_eq!(rest, Err(NumberReused));
        assert_eq!(streams.messages(), 3);
        assert_eq!(streams.close(), [key]);
        assert_eq!(ready(&mut streams), [(0, 0), (1, 0), (0, 0)]);
    }

    #[test]
    fn counts_what_waits_for_the_end_of_a_delivery_in_parts() {
        let mut streams = InboundStreams::new(3, false);
        let first = |stream, mid| MessageKey {
            stream,
            unordered: false,
            mid: Mid(mid),
        };
        streams.push_part(first(0, 0), message(0, 0, false), false);
        for stream in [1, 2] {
            push(&mut streams, message(stream, 0, false)).unwrap();
        }
        assert_eq!((streams.messages(), streams.ready.len()), (3, 1));
        assert_eq!(streams.abort_partial(0), Some(first(0, 0)));
        assert_eq!((streams.messages(), streams.ready.len()), (3, 3));
        ready(&mut streams);
        assert_eq!(streams.messages(), 0);
        streams.push_part(first(1, 1), message(1, 1, false), false);
        push(&mut streams, message(2, 1, false)).unwrap();
        assert_eq!(streams.messages(), 2);
        streams.close();
        assert_eq!(ready(&mut streams).len(), 2);
        assert_eq!(streams.messages(), 0);
    }

    #[test]
    fn skips_what_is_missing_and_delivers_the_rest() {
        let mut streams = InboundStreams::new(2, false);
        for ssn in [1, 3, 4, 6] {
            push(&mut streams, message(1, ssn, false)).unwrap();
        }
        push(&mut streams, message(0, 1, false)).unwrap();
        streams.skip(1, Mid(2));
        assert_eq!(ready(&mut streams), [(1, 1), (1, 3), (1, 4)]);
        for before in [0, 2, 4] {
            streams.skip(1, Mid(before));
        }
        streams.skip(7, Mid(0));
        assert_eq!(ready(&mut streams), []);
        assert_eq!(streams.messages(), 2);
        streams.skip(1, Mid(5));
        assert_eq!(ready(&mut streams), [(1, 6)]);
        push(&mut streams, message(1, 7, false)).unwrap();
        assert_eq!(ready(&mut streams), [(1, 7)]);
    }

    #[test]
    fn skips_across_the_wrap() {
        let mut streams = InboundStreams::new(1, false);
        streams.skip(0, Mid(30_000));
        streams.skip(0, Mid(60_000));
        for ssn in [65_000, 3, 9] {
            push(&mut streams, message(0, ssn, false)).unwrap();
        }
        streams.skip(0, Mid(5));
        assert_eq!(ready(&mut streams), [(0, 65_000), (0, 3)]);
        push(&mut streams, message(0, 6, false)).unwrap();
        assert_eq!(ready(&mut streams), [(0, 6)]);
    }

    #[test]
    fn throws_away_what_waits_above_the_cumulative_tsn() {
        let mut streams = InboundStreams::new(1, false);
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
        let mut streams = InboundStreams::new(1, false);
        push(&mut streams, message(0, 0, false)).unwrap();
        push(&mut streams, message(0, 2, false)).unwrap();
        for ssn in [0, 2] {
            assert_eq!(
                push(&mut streams, message(0, ssn, false)),
                Err(NumberReused)
            );
        }
    }

    #[test]
    fn messages_of_other_streams_come_between_parts_where_they_may() {
        let mut streams = InboundStreams::new(3, true);
        let key = |stream, unordered| MessageKey {
            stream,
            unordered,
            mid: Mid(0),
        };
        streams.push_part(key(0, false), message(0, 0, false), true);
        assert!(
            !streams.may_deliver_part(key(0, true)),
            "of the same stream"
        );
        assert!(streams.may_deliver_part(key(1, true)));
        streams.push_part(key(1, true), message(1, 7, true), true);
        for stream in 0..3 {
            push(&mut streams, message(stream, 9, true)).unwrap();
        }
        assert_eq!(ready(&mut streams), [(0, 0), (1, 7), (2, 9)]);
        let rest = streams.push_rest(message(1, 8, true), Mid(0), Tsn(5), Tsn(5).into());
        assert_eq!(rest, Ok(()));
        assert_eq!(ready(&mut streams), [(1, 8), (1, 9)]);
        let rest = streams.push_rest(message(0, 0, false), Mid(0), Tsn(6), Tsn(6).into());
        assert_eq!(rest, Ok(()));
        assert_eq!(ready(&mut streams), [(0, 0), (0, 9)]);
        assert_eq!(streams.next_mid(0), Mid(1));
    }

    #[test]
    fn stream_sequence_numbers_are_those_next_to_what_is_expected() {
        let mut streams = InboundStreams::new(1, false);
        assert_eq!(streams.mid_of(0, Mid(u16::MAX.into())), Mid(u32::MAX));
        assert_eq!(streams.mid_of(0, Mid(1 << 15)), Mid(1 << 15));
        streams.next = vec![Mid(65_530)];
        assert_eq!(streams.mid_of(0, Mid(3)), Mid(65_539));
        assert_eq!(streams.mid_of(0, Mid(65_529)), Mid(65_529));
        let mut streams = InboundStreams::new(1, true);
        streams.next = vec![Mid(65_530)];
        assert_eq!(streams.mid_of(0, Mid(3)), Mid(3));
    }
}
