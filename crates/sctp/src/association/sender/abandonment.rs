//! Which messages are given up, by their PR-SCTP policies (RFC 3758 section 4.1, RFC 7496 section 3),
//! and how many were.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;

use super::Sender;
use super::forward_tsn::stop_idle_timers;
use crate::association::failed_messages::{FailedMessage, join};
use crate::association::limit::Limit;
use crate::association::message_fragment::MessageFragment;
use crate::association::outstanding::{AbandonedMessage, SentMessage};
use crate::association::path_id::PathId;
use crate::association::path_list::Paths;
use crate::association::transmit_queue::{RemovedMessage, WaitingMessage};
use crate::packet::Mid;
use crate::{AbandonedCount, AbandonedMessages};

/// How many messages were abandoned.
#[derive(Debug, Default)]
pub(super) struct AbandonedCounters {
    all: AbandonedMessages,
    /// Of each stream that has some.
    by_stream: BTreeMap<u16, AbandonedMessages>,
}

impl AbandonedCounters {
    fn count(&mut self, stream: u16, limit: Limit, was_sent: bool) {
        let one = AbandonedCount {
            unsent: u64::from(!was_sent),
            sent: u64::from(was_sent),
        };
        let mut messages = AbandonedMessages::default();
        match limit {
            // A life time beside another policy, or without the extension.
            Limit::None | Limit::Until(_) => messages.timed = one,
            Limit::Retransmissions(_) => messages.limited_retransmissions = one,
            Limit::Priority(_) => messages.priority = one,
        }
        self.all += messages;
        *self.by_stream.entry(stream).or_default() += messages;
    }
}

impl Sender {
    /// How many messages were abandoned.
    pub(crate) fn abandoned(&self) -> AbandonedMessages {
        self.abandoned.all
    }

    /// How many messages of a stream were abandoned; `None` if there is no such stream.
    pub(crate) fn abandoned_on(&self, stream: u16) -> Option<AbandonedMessages> {
        let counted = self.abandoned.by_stream.get(&stream).copied();
        (stream < self.streams()).then(|| counted.unwrap_or_default())
    }

    /// Whether the limit of a message may be reached.
    #[inline]
    pub(crate) fn is_beyond_limits(&self, now: Instant) -> bool {
        self.queue.has_expired(now)
            || self.partial_reliability && self.outstanding.is_beyond_limits(now)
    }

    /// Abandons the messages whose limit is reached, and which are about to be sent or sent again
    /// (rules TR3 and TR4).
    pub(crate) fn abandon_beyond_limits(
        &mut self,
        now: Instant,
        paths: &mut Paths,
    ) -> Vec<FailedMessage> {
        let mut failed = Vec::new();
        for message in self.queue.take_expired(now) {
            failed.push(self.fail_unsent(message, Limit::Until(now)));
        }
        if !self.partial_reliability {
            return failed;
        }
        let unsent = failed.len();
        for rest in self.queue.take_expired_rests(now) {
            let message = fragment_of(&rest);
            let parts = self
                .outstanding
                .last_chunk_of(&message)
                .and_then(|index| self.abandon_at(index, paths))
                .map_or_else(Vec::new, |abandoned| abandoned.parts);
            failed.push(self.fail_sent(now, message, parts, Some(rest)));
        }
        let abandoned = self
            .outstanding
            .abandon_beyond_limits(now, |path, size| left_flight(paths, path, size));
        for message in abandoned {
            failed.push(self.finish_abandoning(now, message));
        }
        if failed.len() > unsent {
            self.sent_was_abandoned(now, paths);
        }
        failed
    }

    /// Makes room for a message that lacks `missing` bytes, if messages of lower priority can make enough
    /// of it: the lowest priority first; of one priority what was not sent first, and then the oldest.
    pub(super) fn make_room(
        &mut self,
        now: Instant,
        missing: usize,
        limit: Limit,
        paths: &mut Paths,
    ) -> Vec<FailedMessage> {
        if !self.partial_reliability {
            return Vec::new();
        }
        let mut candidates: Vec<GivesWay> = Vec::new();
        candidates.extend(self.queue.giving_way_to(limit).map(GivesWay::Waiting));
        let sent = self.outstanding.giving_way_to(limit);
        candidates.extend(sent.into_iter().map(GivesWay::Sent));
        candidates.sort_by_key(GivesWay::order);
        let mut freed = 0;
        let mut chosen = 0;
        for candidate in &candidates {
            if freed >= missing {
                break;
            }
            chosen += 1;
            freed += match candidate {
                GivesWay::Waiting(message) => message.bytes,
                GivesWay::Sent(message) => message.bytes + self.queue.rest_bytes(&message.fragment),
            };
        }
        if freed < missing {
            return Vec::new();
        }
        let mut failed = Vec::new();
        let mut was_sent = false;
        for candidate in candidates.into_iter().take(chosen) {
            match candidate {
                GivesWay::Waiting(WaitingMessage { id, priority, .. }) => {
                    for message in self.queue.remove([id]) {
                        failed.push(self.fail_unsent(message, Limit::Priority(priority)));
                    }
                }
                GivesWay::Sent(message) => {
                    if let Some(abandoned) = self.abandon_at(message.index, paths) {
                        failed.push(self.finish_abandoning(now, abandoned));
                        was_sent = true;
                    }
                }
            }
        }
        if was_sent {
            self.sent_was_abandoned(now, paths);
        }
        failed
    }

    fn abandon_at(&mut self, index: usize, paths: &mut Paths) -> Option<AbandonedMessage> {
        self.outstanding
            .abandon(index, |path, size| left_flight(paths, path, size))
    }

    /// Abandons also what was not sent of a message.
    fn finish_abandoning(&mut self, now: Instant, abandoned: AbandonedMessage) -> FailedMessage {
        let rest = if abandoned.ended {
            None
        } else {
            self.queue.take_rest(&abandoned.message)
        };
        self.fail_sent(now, abandoned.message, abandoned.parts, rest)
    }

    fn fail_sent(
        &mut self,
        now: Instant,
        message: MessageFragment,
        mut parts: Vec<Bytes>,
        rest: Option<RemovedMessage>,
    ) -> FailedMessage {
        self.abandoned.count(message.stream, message.limit, true);
        let mut info = message.info();
        if let Some(rest) = rest {
            info = rest.info;
            let last = fragment_of(&rest);
            self.outstanding.abandon_rest(now, last, PathId::FIRST);
            parts.push(rest.rest);
        }
        FailedMessage {
            info,
            payload: join(parts),
            was_sent: true,
        }
    }

    fn fail_unsent(&mut self, message: RemovedMessage, limit: Limit) -> FailedMessage {
        self.abandoned.count(message.info.stream, limit, false);
        FailedMessage {
            info: message.info,
            payload: message.rest,
            was_sent: false,
        }
    }

    /// Draws the conclusions after messages were abandoned of which some was sent.
    fn sent_was_abandoned(&mut self, now: Instant, paths: &mut Paths) {
        if !self.outstanding.has_lost() {
            self.fast_retransmit = None;
        }
        stop_idle_timers(paths);
        self.review_forward_tsn(now, paths);
    }
}

fn left_flight(paths: &mut Paths, path: PathId, size: usize) {
    if let Some(path) = paths.get_mut(path) {
        path.chunk_left_flight(size);
    }
}

/// The last fragment of a message of which this is left, without its user data. What is left expires.
fn fragment_of(rest: &RemovedMessage) -> MessageFragment {
    MessageFragment {
        stream: rest.info.stream,
        mid: rest.sent_as.unwrap_or(Mid(0)),
        // It is not sent.
        fsn: None,
        ppid: rest.info.ppid,
        context: rest.info.context,
        shared_key: rest.info.shared_key,
        unordered: rest.info.unordered,
        immediate: false,
        beginning: false,
        ending: true,
        limit: Limit::None,
        payload: Bytes::new(),
    }
}

/// A message that can make room for another one.
enum GivesWay {
    Waiting(WaitingMessage),
    Sent(SentMessage),
}

impl GivesWay {
    /// The least goes first.
    fn order(&self) -> (Reverse<u32>, bool, u64) {
        match self {
            GivesWay::Waiting(message) => (Reverse(message.priority), false, message.arrival),
            GivesWay::Sent(message) => (Reverse(message.priority), true, message.index as u64),
        }
    }
}
