//! User messages that wait to be sent (RFC 9260 section 6), and their cutting into fragments
//! (section 6.9): a queue for each stream, and a scheduler that says whose turn it is (RFC 8260
//! section 3).
//!
//! This part knows sizes and streams; when a chunk may leave is decided elsewhere.

mod abandonment;
mod messages;
mod outbound_streams;
mod pause;
mod scheduler;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::net::IpAddr;
use std::time::Instant;

use bytes::{Buf, Bytes};

use super::limit::Limit;
use super::message_fragment::MessageFragment;
use crate::packet::Mid;
use crate::{SendInfo, StreamScheduler};
pub(crate) use abandonment::WaitingMessage;
use messages::{MessageId, MessageList, Messages, QueuedMessage};
use outbound_streams::{OutboundStream, OutboundStreams};
use pause::Pause;
use scheduler::{Candidate, Scheduler, scheduler};

/// The queue.
#[derive(Debug)]
pub(crate) struct TransmitQueue {
    messages: Messages,
    streams: OutboundStreams,
    scheduler: Box<dyn Scheduler>,
    scheduler_name: StreamScheduler,
    /// Fragments of messages of different streams may alternate: they leave in I-DATA chunks (RFC 8260).
    interleaving: bool,
    /// The turn that has begun, or else comes next; `None` when no stream has one.
    turn: Option<Turn>,
    /// It has begun: it goes on, whoever comes.
    has_begun: bool,
    /// The streams that wait for their turn after that; the lowest rank is next.
    waiting: BinaryHeap<Reverse<Turn>>,
    /// The streams on which no message begins to leave.
    paused: Option<Pause>,
    /// Bytes of user data that wait.
    bytes: usize,
    /// The messages with a life time of which nothing was sent.
    expiring: BTreeSet<(Instant, MessageId)>,
    /// The messages whose rest expires, too.
    expiring_rests: BTreeSet<(Instant, MessageId)>,
    /// How many messages are not to be held back.
    unbundled: usize,
    /// How many messages are to go to an address that the user has named.
    directed: usize,
    /// The place of the next message in the order in which they come.
    next_arrival: u64,
    /// The place of the next one that is put back in front of all others.
    next_put_back: u64,
}

/// The turn of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    rank: u128,
    stream: u16,
    /// The first message of the stream; `None` when the turn goes on after its last one.
    message: Option<MessageId>,
}

/// What is known of a fragment before it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextFragment {
    /// Bytes of user data.
    pub(crate) size: usize,
    /// The shared key that authenticates it.
    pub(crate) shared_key: Option<u16>,
}

/// A message that was taken out of the queue and will not be sent, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemovedMessage {
    pub(crate) info: SendInfo,
    /// What was not sent of it.
    pub(crate) rest: Bytes,
    /// The number under which the other part was sent.
    pub(crate) sent_as: Option<Mid>,
}

impl TransmitQueue {
    /// An empty queue for `streams` streams.
    pub(crate) fn new(streams: u16, name: StreamScheduler) -> TransmitQueue {
        const MIDDLE: u64 = 1 << 63;
        TransmitQueue {
            messages: Messages::default(),
            streams: OutboundStreams::new(streams),
            scheduler: scheduler(name),
            scheduler_name: name,
            interleaving: false,
            turn: None,
            has_begun: false,
            waiting: BinaryHeap::new(),
            paused: None,
            bytes: 0,
            expiring: BTreeSet::new(),
            expiring_rests: BTreeSet::new(),
            unbundled: 0,
            directed: 0,
            next_arrival: MIDDLE,
            next_put_back: MIDDLE - 1,
        }
    }

    /// How many streams there are.
    pub(crate) fn streams(&self) -> u16 {
        self.streams.count()
    }

    /// Appends a message that came from the user `now`.
    pub(crate) fn push(&mut self, now: Instant, info: SendInfo, payload: Bytes) {
        let Some(stream) = self.streams.entry(info.stream) else {
            return;
        };
        self.bytes += payload.len();
        self.unbundled += usize::from(info.unbundled);
        self.directed += usize::from(info.path.is_some());
        let message = QueuedMessage::new(now, &info, payload, self.next_arrival);
        self.next_arrival += 1;
        let expires_at = message.expires_at();
        let is_scheduled = stream.is_scheduled;
        let id = self.messages.push_back(&mut stream.messages, message);
        if let Some(expires_at) = expires_at {
            self.expiring.insert((expires_at, id));
        }
        if !is_scheduled {
            self.schedule(info.stream);
        }
    }

    /// Where the next fragment is to go, if the user said so.
    pub(crate) fn next_destination(&self) -> Option<IpAddr> {
        if self.directed == 0 {
            return None;
        }
        self.next_message().and_then(QueuedMessage::path)
    }

    /// What the next fragment is when none may have more than `max` bytes of user data.
    #[inline]
    pub(crate) fn next(&self, max: usize) -> Option<NextFragment> {
        self.next_message().map(|message| NextFragment {
            size: fragment_size(message.rest.len(), max),
            shared_key: message.shared_key,
        })
    }

    /// Whether a message is to be authenticated with a shared key.
    pub(crate) fn uses_key(&self, key: u16) -> bool {
        self.messages
            .iter()
            .any(|(_, message)| message.shared_key == Some(key))
    }

    /// Whether there is a message that is not to be held back for the sake of bundling, nor those
    /// in front of it.
    pub(crate) fn has_unbundled(&self) -> bool {
        self.unbundled > 0
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.len() == 0
    }

    /// How many messages wait, wholly or in part.
    pub(crate) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// Bytes of user data that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many bytes of user data the next fragment has when none may have more than `max`.
    pub(crate) fn next_size(&self, max: usize) -> Option<usize> {
        self.next_message()
            .map(|message| fragment_size(message.rest.len(), max))
    }

    /// Takes the next fragment, of at most `max` bytes of user data.
    pub(crate) fn take(&mut self, max: usize) -> Option<MessageFragment> {
        let turn = self.turn.as_mut()?;
        let id = turn.message?;
        let stream = self.streams.get_mut(turn.stream)?;
        let message = self.messages.get_mut(id)?;
        let beginning = message.mid.is_none();
        if beginning && let Some(expires_at) = message.expires_at() {
            self.expiring.remove(&(expires_at, id));
        }
        let mid = *message
            .mid
            .get_or_insert_with(|| stream.assign(message.unordered));
        let fsn = self.interleaving.then_some(message.next_fsn);
        // It may wrap (RFC 8260 section 2.1).
        message.next_fsn = message.next_fsn.wrapping_add(1);
        let payload = message
            .rest
            .split_to(fragment_size(message.rest.len(), max));
        let ending = !message.rest.has_remaining();
        let limit = message.limit();
        if let Limit::Until(end) = limit {
            if ending {
                self.expiring_rests.remove(&(end, id));
            } else if beginning {
                self.expiring_rests.insert((end, id));
            }
        }
        self.bytes -= payload.len();
        self.scheduler
            .sent(turn.stream, stream.value, turn.rank, payload.len());
        let fragment = MessageFragment {
            stream: message.stream,
            mid,
            fsn,
            ppid: message.ppid,
            context: message.context,
            shared_key: message.shared_key,
            unordered: message.unordered,
            immediate: message.sack_immediately && ending,
            beginning,
            ending,
            limit,
            payload,
        };
        if ending {
            self.unbundled -= usize::from(message.unbundled);
            self.directed -= usize::from(message.path().is_some());
            self.messages.remove(&mut stream.messages, id);
            turn.message = stream.messages.first();
        }
        self.has_begun = true;
        let is_over = ending || self.interleaving;
        if is_over && (!self.keeps_streams_apart() || self.is_paused(fragment.stream)) {
            self.end_turn();
        }
        Some(fragment)
    }

    /// The packet for which fragments were taken is full.
    pub(crate) fn end_packet(&mut self) {
        if self.has_begun && (self.interleaving || !self.is_turn_in_message()) {
            self.end_turn();
        }
    }

    /// Puts back fragments that count as never taken: all that were, in their order. They leave again
    /// with new numbers, as do all messages to come.
    pub(crate) fn put_back(&mut self, fragments: impl DoubleEndedIterator<Item = MessageFragment>) {
        // From the last one on, each goes in front of the rest of its message.
        for fragment in fragments.rev() {
            self.bytes += fragment.payload.len();
            let Some(stream) = self.streams.entry(fragment.stream) else {
                continue;
            };
            let expires_at = fragment.limit.end();
            let rest = stream
                .messages
                .first()
                .filter(|_| !fragment.ending)
                .and_then(|id| Some((id, self.messages.get_mut(id)?)));
            let id = match rest {
                Some((id, message)) => {
                    message.prepend(&fragment);
                    id
                }
                None => {
                    let message = QueuedMessage::put_back(fragment, self.next_put_back);
                    self.next_put_back -= 1;
                    self.messages.push_front(&mut stream.messages, message)
                }
            };
            if let Some(expires_at) = expires_at {
                self.expiring.insert((expires_at, id));
            }
        }
        // No message has begun to leave any more.
        self.expiring_rests.clear();
        self.reset_numbers();
        self.has_begun = false;
        self.rank_anew(|_| true);
    }

    /// Whether the life time of a message has ended.
    #[inline]
    pub(crate) fn has_expired(&self, now: Instant) -> bool {
        let has_expired = |messages: &BTreeSet<(Instant, MessageId)>| {
            messages.first().is_some_and(|(at, _)| *at <= now)
        };
        has_expired(&self.expiring) || has_expired(&self.expiring_rests)
    }

    /// Takes out the messages of which nothing was sent before their life time ended
    /// (RFC 9260 section 11.1.5).
    pub(crate) fn take_expired(&mut self, now: Instant) -> Vec<RemovedMessage> {
        let mut expired = Vec::new();
        while let Some((_, id)) = self.expiring.first().filter(|(at, _)| *at <= now).copied() {
            self.expiring.pop_first();
            expired.push(id);
        }
        self.remove(expired)
    }

    /// Changes how many streams there are, and takes out the messages for streams that there are not
    /// after all (RFC 9260 section 5.1.1).
    pub(crate) fn set_streams(&mut self, count: u16) -> Vec<RemovedMessage> {
        self.streams.set_count(count);
        let mut without_stream: Vec<(u64, MessageId)> = self
            .messages
            .iter()
            .filter(|(_, message)| message.stream >= count)
            .map(|(id, message)| (message.arrival, id))
            .collect();
        without_stream.sort_unstable();
        self.remove(without_stream.into_iter().map(|(_, id)| id))
    }

    /// Adds so many more streams (RFC 6525 section 5.1.5).
    pub(crate) fn add_streams(&mut self, more: u16) {
        self.streams
            .set_count(self.streams.count().saturating_add(more));
    }

    /// Takes out messages that are in the queue.
    pub(crate) fn remove(
        &mut self,
        messages: impl IntoIterator<Item = MessageId>,
    ) -> Vec<RemovedMessage> {
        let mut streams = BTreeSet::new();
        let removed: Vec<RemovedMessage> = messages
            .into_iter()
            .filter_map(|id| {
                let message = self.unlink(id)?;
                streams.insert(message.stream);
                Some(RemovedMessage::from(message))
            })
            .collect();
        if removed.is_empty() {
            return removed;
        }
        self.has_begun = self.has_begun && self.is_turn_in_message();
        self.rank_anew(|stream| streams.contains(&stream));
        removed
    }

    /// Takes out all messages in the order in which they came: the association is over.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = RemovedMessage> + use<> {
        self.take_messages().take_all().map(RemovedMessage::from)
    }

    /// Begins anew, without messages, for a peer that restarted: what the user has set for streams
    /// stays.
    pub(crate) fn restart(&mut self, streams: u16) {
        self.take_messages();
        self.paused = None;
        self.streams.set_count(streams);
        self.reset_numbers();
    }

    /// Whether fragments leave in I-DATA chunks.
    pub(crate) fn is_interleaving(&self) -> bool {
        self.interleaving
    }

    /// Has fragments leave in I-DATA chunks, or in DATA chunks. None may have been taken and not put back.
    pub(crate) fn set_interleaving(&mut self, interleaving: bool) {
        self.interleaving = interleaving;
    }

    // --- Scheduling ---

    /// Whether a packet holds chunks of one stream only.
    #[inline]
    pub(crate) fn keeps_streams_apart(&self) -> bool {
        self.scheduler_name == StreamScheduler::RoundRobinPerPacket
    }

    /// The name of the scheduler.
    pub(crate) fn scheduler(&self) -> StreamScheduler {
        self.scheduler_name
    }

    /// Has another scheduler decide from now on. A message in part sent goes on.
    pub(crate) fn set_scheduler(&mut self, name: StreamScheduler) {
        self.scheduler = scheduler(name);
        self.scheduler_name = name;
        self.rank_anew(|_| true);
    }

    /// What the scheduler is to know of a stream.
    pub(crate) fn value(&self, stream: u16) -> u16 {
        self.streams.get(stream).map_or(0, |stream| stream.value)
    }

    /// Sets what the scheduler is to know of a stream.
    pub(crate) fn set_value(&mut self, number: u16, value: u16) {
        if let Some(stream) = self.streams.entry(number) {
            stream.value = value;
            self.rank_anew(|stream| stream == number);
        }
    }

    /// The message whose fragment is next.
    #[inline]
    fn next_message(&self) -> Option<&QueuedMessage> {
        self.messages.get(self.turn.as_ref()?.message?)
    }

    /// The message of a stream that leaves first.
    fn first_of(&self, stream: u16) -> Option<&QueuedMessage> {
        let id = self.streams.get(stream)?.messages.first()?;
        self.messages.get(id)
    }

    /// Whether a part of the first message of a stream was sent.
    fn is_message_begun(&self, stream: u16) -> bool {
        self.first_of(stream)
            .is_some_and(|message| message.mid.is_some())
    }

    /// Whether the turn is between the fragments of a message.
    fn is_turn_in_message(&self) -> bool {
        self.turn
            .as_ref()
            .is_some_and(|turn| self.is_message_begun(turn.stream))
    }

    /// Has a stream wait for its turn if it has something to send.
    fn schedule(&mut self, number: u16) {
        let Some(turn) = self.turn_of(number) else {
            return;
        };
        match &mut self.turn {
            Some(next) if self.has_begun || *next < turn => self.waiting.push(Reverse(turn)),
            next => {
                let after = next.replace(turn);
                self.waiting.extend(after.map(Reverse));
            }
        }
    }

    /// Ends the turn: its stream waits for another one if it has something to send.
    fn end_turn(&mut self) {
        self.has_begun = false;
        let Some(number) = self.turn.as_ref().map(|turn| turn.stream) else {
            return;
        };
        let is_paused = self.is_paused(number);
        let (Some(turn), Some(stream)) = (&mut self.turn, self.streams.get_mut(number)) else {
            return;
        };
        turn.message = stream.messages.first().filter(|_| !is_paused);
        let Some(message) = turn.message.and_then(|id| self.messages.get(id)) else {
            stream.is_scheduled = false;
            self.turn = self.waiting.pop().map(|Reverse(turn)| turn);
            return;
        };
        turn.rank = self.scheduler.rank(Candidate {
            stream: number,
            value: stream.value,
            arrival: message.arrival,
        });
        if let Some(mut first) = self.waiting.peek_mut()
            && first.0 < *turn
        {
            std::mem::swap(&mut first.0, turn);
        }
    }

    /// The turn that a stream is to have, unless it has one or nothing to send.
    #[inline]
    fn turn_of(&mut self, number: u16) -> Option<Turn> {
        if self.is_paused(number) {
            return None;
        }
        let stream = self.streams.get_mut(number)?;
        if stream.is_scheduled {
            return None;
        }
        let first = stream.messages.first()?;
        let message = self.messages.get(first)?;
        stream.is_scheduled = true;
        let rank = self.scheduler.rank(Candidate {
            stream: number,
            value: stream.value,
            arrival: message.arrival,
        });
        Some(Turn {
            rank,
            stream: number,
            message: Some(first),
        })
    }

    /// Ranks those of the waiting streams anew that `which` names.
    fn rank_anew(&mut self, which: impl Fn(u16) -> bool) {
        let has_turn = self.turn.map(|turn| turn.stream).filter(|_| self.has_begun);
        if has_turn.is_none() {
            self.waiting.extend(self.turn.take().map(Reverse));
        }
        self.waiting.retain(|Reverse(turn)| !which(turn.stream));
        if has_turn.is_none() {
            self.turn = self.waiting.pop().map(|Reverse(turn)| turn);
        }
        let mut changed = Vec::new();
        for (number, stream) in self.streams.iter_mut() {
            if which(number) && has_turn != Some(number) {
                stream.is_scheduled = false;
                changed.push(number);
            }
        }
        for stream in changed {
            self.schedule(stream);
        }
    }

    /// Takes a message out of its stream, whatever that means for the turns.
    fn unlink(&mut self, id: MessageId) -> Option<QueuedMessage> {
        let number = self.messages.get(id)?.stream;
        let stream = self.streams.get_mut(number)?;
        let message = self.messages.remove(&mut stream.messages, id)?;
        self.bytes -= message.rest.len();
        self.unbundled -= usize::from(message.unbundled);
        self.directed -= usize::from(message.path().is_some());
        if let Some(expires_at) = message.expires_at() {
            self.expiring.remove(&(expires_at, id));
            self.expiring_rests.remove(&(expires_at, id));
        }
        Some(message)
    }

    /// Takes out all messages, and ends all turns.
    fn take_messages(&mut self) -> Messages {
        self.bytes = 0;
        self.unbundled = 0;
        self.directed = 0;
        self.expiring.clear();
        self.expiring_rests.clear();
        self.waiting.clear();
        self.turn = None;
        self.has_begun = false;
        for (_, stream) in self.streams.iter_mut() {
            stream.messages = MessageList::default();
            stream.is_scheduled = false;
        }
        std::mem::take(&mut self.messages)
    }

    fn reset_numbers(&mut self) {
        for (_, stream) in self.streams.iter_mut() {
            stream.reset_numbers();
        }
    }
}

impl From<QueuedMessage> for RemovedMessage {
    fn from(message: QueuedMessage) -> RemovedMessage {
        RemovedMessage {
            info: message.info(),
            rest: message.rest,
            sent_as: message.mid,
        }
    }
}

/// How much of `rest` the next fragment takes: as few fragments as can be, and all of about one size, for
/// packets of one size leave and arrive in one go where the system has segmentation offload.
fn fragment_size(rest: usize, max: usize) -> usize {
    if rest <= max {
        return rest;
    }
    let fragments = rest.div_ceil(max.max(1));
    rest.div_ceil(fragments)
}

#[cfg(test)]
mod tests;
