//! Messages that are given up before all of them was sent (RFC 3758 section 4.1, RFC 7496 section 3.2).

use std::time::Instant;

use super::messages::{MessageId, QueuedMessage};
use super::{RemovedMessage, TransmitQueue};
use crate::association::limit::Limit;
use crate::association::message_fragment::MessageFragment;

/// A message of which nothing was sent, and which gives way to another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingMessage {
    pub(crate) id: MessageId,
    pub(crate) priority: u32,
    /// Bytes of user data.
    pub(crate) bytes: usize,
    /// Its place in the order in which all messages came.
    pub(crate) arrival: u64,
}

impl TransmitQueue {
    /// Takes out what is left of messages that have begun to leave and whose life time has ended.
    pub(crate) fn take_expired_rests(&mut self, now: Instant) -> Vec<RemovedMessage> {
        let mut expired = Vec::new();
        while let Some((_, id)) = self
            .expiring_rests
            .first()
            .filter(|(at, _)| *at <= now)
            .copied()
        {
            self.expiring_rests.pop_first();
            expired.push(id);
        }
        self.remove(expired)
    }

    /// Takes out what is left of the message of `fragment`, which has begun to leave.
    pub(crate) fn take_rest(&mut self, fragment: &MessageFragment) -> Option<RemovedMessage> {
        let (id, _) = self.rest_of(fragment)?;
        self.remove([id]).pop()
    }

    /// Bytes of user data that are left of the message of `fragment`, which has begun to leave.
    pub(crate) fn rest_bytes(&self, fragment: &MessageFragment) -> usize {
        self.rest_of(fragment)
            .map_or(0, |(_, message)| message.rest.len())
    }

    /// The messages that have not begun to leave and give way to one of the limit `other`.
    pub(crate) fn giving_way_to(&self, other: Limit) -> impl Iterator<Item = WaitingMessage> {
        self.messages
            .iter()
            .filter(move |(_, message)| {
                message.mid.is_none() && message.limit().gives_way_to(other)
            })
            .filter_map(|(id, message)| match message.limit() {
                Limit::Priority(priority) => Some(WaitingMessage {
                    id,
                    priority,
                    bytes: message.rest.len(),
                    arrival: message.arrival,
                }),
                _ => None,
            })
    }

    /// A message that has begun to leave is the first one of its stream.
    fn rest_of(&self, fragment: &MessageFragment) -> Option<(MessageId, &QueuedMessage)> {
        let id = self.streams.get(fragment.stream)?.messages.first()?;
        let message = self.messages.get(id)?;
        let is_rest = message.mid == Some(fragment.mid) && message.unordered == fragment.unordered;
        is_rest.then_some((id, message))
    }
}
