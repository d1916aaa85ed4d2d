//! The messages of a transmit queue: lists, one for each stream, that share their memory.

use std::time::Instant;

use bytes::Bytes;

use crate::SendInfo;
use crate::association::limit::Limit;
use crate::packet::Mid;

/// Names a message as long as it is in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MessageId(u32);

/// A message that has not left completely.
#[derive(Debug)]
pub(super) struct QueuedMessage {
    pub(super) info: SendInfo,
    /// What has not been taken yet.
    pub(super) rest: Bytes,
    /// Assigned when the first fragment is taken.
    pub(super) mid: Option<Mid>,
    /// The FSN of the next fragment.
    pub(super) next_fsn: u32,
    /// When its life time ends.
    pub(super) expires_at: Option<Instant>,
    /// How far the sending of it may go.
    pub(super) limit: Limit,
    /// Its place in the order in which all messages came.
    pub(super) arrival: u64,
}

/// The messages of one stream, oldest first.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MessageList {
    first: Option<MessageId>,
    last: Option<MessageId>,
}

/// The messages of all lists.
#[derive(Debug, Default)]
pub(super) struct Messages {
    slots: Vec<Slot>,
    /// The first free slot.
    free: Option<MessageId>,
    len: usize,
}

#[derive(Debug)]
enum Slot {
    Used(Node),
    /// The next free slot.
    Free(Option<MessageId>),
}

#[derive(Debug)]
struct Node {
    message: QueuedMessage,
    before: Option<MessageId>,
    after: Option<MessageId>,
}

impl MessageList {
    /// The message that leaves first.
    pub(super) fn first(&self) -> Option<MessageId> {
        self.first
    }
}

impl Messages {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The message `id`.
    #[inline]
    pub(super) fn get(&self, id: MessageId) -> Option<&QueuedMessage> {
        match self.slots.get(id.0 as usize)? {
            Slot::Used(node) => Some(&node.message),
            Slot::Free(_) => None,
        }
    }

    /// The message `id`.
    pub(super) fn get_mut(&mut self, id: MessageId) -> Option<&mut QueuedMessage> {
        self.node_mut(id).map(|node| &mut node.message)
    }

    /// Appends a message to a list.
    pub(super) fn push_back(
        &mut self,
        list: &mut MessageList,
        message: QueuedMessage,
    ) -> MessageId {
        let id = self.insert(Node {
            message,
            before: list.last,
            after: None,
        });
        match list.last.replace(id).and_then(|last| self.node_mut(last)) {
            Some(last) => last.after = Some(id),
            None => list.first = Some(id),
        }
        id
    }

    /// Puts a message in front of a list.
    pub(super) fn push_front(
        &mut self,
        list: &mut MessageList,
        message: QueuedMessage,
    ) -> MessageId {
        let id = self.insert(Node {
            message,
            before: None,
            after: list.first,
        });
        match list
            .first
            .replace(id)
            .and_then(|first| self.node_mut(first))
        {
            Some(first) => first.before = Some(id),
            None => list.last = Some(id),
        }
        id
    }

    /// Takes the message `id` out of its list.
    #[inline]
    pub(super) fn remove(
        &mut self,
        list: &mut MessageList,
        id: MessageId,
    ) -> Option<QueuedMessage> {
        let slot = self.slots.get_mut(id.0 as usize)?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let Slot::Used(node) = std::mem::replace(slot, Slot::Free(self.free)) else {
            return None;
        };
        self.free = Some(id);
        self.len -= 1;
        match node.before.and_then(|before| self.node_mut(before)) {
            Some(before) => before.after = node.after,
            None => list.first = node.after,
        }
        match node.after.and_then(|after| self.node_mut(after)) {
            Some(after) => after.before = node.before,
            None => list.last = node.before,
        }
        Some(node.message)
    }

    /// All messages, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (MessageId, &QueuedMessage)> {
        self.slots
            .iter()
            .zip(0..)
            .filter_map(|(slot, index)| match slot {
                Slot::Used(node) => Some((MessageId(index), &node.message)),
                Slot::Free(_) => None,
            })
    }

    /// Takes out all messages, in the order in which they came.
    pub(super) fn take_all(self) -> impl Iterator<Item = QueuedMessage> + use<> {
        let mut messages: Vec<QueuedMessage> = self
            .slots
            .into_iter()
            .filter_map(|slot| match slot {
                Slot::Used(node) => Some(node.message),
                Slot::Free(_) => None,
            })
            .collect();
        messages.sort_unstable_by_key(|message| message.arrival);
        messages.into_iter()
    }

    #[inline]
    fn insert(&mut self, node: Node) -> MessageId {
        self.len += 1;
        if let Some(id) = self.free
            && let Some(slot) = self.slots.get_mut(id.0 as usize)
            && let Slot::Free(next) = *slot
        {
            self.free = next;
            *slot = Slot::Used(node);
            return id;
        }
        let id = MessageId(self.slots.len() as u32);
        self.slots.push(Slot::Used(node));
        id
    }

    fn node_mut(&mut self, id: MessageId) -> Option<&mut Node> {
        match self.slots.get_mut(id.0 as usize)? {
            Slot::Used(node) => Some(node),
            Slot::Free(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(arrival: u64) -> QueuedMessage {
        QueuedMessage {
            info: SendInfo::default(),
            rest: Bytes::new(),
            mid: None,
            next_fsn: 0,
            expires_at: None,
            limit: Limit::None,
            arrival,
        }
    }

    /// Its messages by their arrival, read in both directions.
    fn arrivals(messages: &Messages, list: MessageList) -> Vec<u64> {
        let walk = |from: Option<MessageId>, next: fn(&Node) -> Option<MessageId>| {
            let mut seen = Vec::new();
            let mut at = from;
            while let Some(id) = at {
                let Some(Slot::Used(node)) = messages.slots.get(id.0 as usize) else {
                    panic!("a list leads to a free slot");
                };
                seen.push(node.message.arrival);
                at = next(node);
            }
            seen
        };
        let forwards = walk(list.first, |node| node.after);
        let mut backwards = walk(list.last, |node| node.before);
        backwards.reverse();
        assert_eq!(forwards, backwards);
        forwards
    }

    #[test]
    fn lists_share_slots_and_keep_their_order() {
        let mut messages = Messages::default();
        let (mut one, mut other) = (MessageList::default(), MessageList::default());
        let ids: Vec<MessageId> = (0..4)
            .map(|arrival| messages.push_back(&mut one, message(arrival)))
            .collect();
        messages.push_back(&mut other, message(10));
        messages.push_front(&mut other, message(9));
        assert_eq!(arrivals(&messages, other), [9, 10]);
        for (removed, left) in [(1, &[0, 2, 3][..]), (0, &[2, 3]), (3, &[2])] {
            assert!(messages.remove(&mut one, ids[removed]).is_some());
            assert!(messages.get(ids[removed]).is_none());
            assert_eq!(arrivals(&messages, one), left);
        }
        assert_eq!(messages.len(), 3);
        for arrival in 20..23 {
            messages.push_back(&mut one, message(arrival));
        }
        assert_eq!(messages.slots.len(), 6, "free slots are used again");
        assert_eq!(arrivals(&messages, one), [2, 20, 21, 22]);
        assert_eq!(messages.iter().count(), messages.len());
        let all: Vec<u64> = messages.take_all().map(|left| left.arrival).collect();
        assert_eq!(all, [2, 9, 10, 20, 21, 22]);
    }

    #[test]
    fn a_message_is_removed_once() {
        let mut messages = Messages::default();
        let mut list = MessageList::default();
        let id = messages.push_back(&mut list, message(0));
        assert!(messages.remove(&mut list, id).is_some());
        assert!(messages.remove(&mut list, id).is_none());
        assert_eq!(messages.len(), 0);
        assert!(list.first().is_none());
    }
}
