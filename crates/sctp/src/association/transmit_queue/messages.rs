//! The messages of a transmit queue: lists, one for each stream, that share their memory.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::association::limit::Limit;
use crate::association::message_fragment::MessageFragment;
use crate::packet::Mid;
use crate::{PrPolicy, SendInfo};

/// Names a message as long as it is in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MessageId(NonZeroU32);

/// A message that has not left completely.
#[derive(Debug)]
pub(super) struct QueuedMessage {
    /// What has not been taken yet.
    pub(super) rest: Bytes,
    /// Its place in the order in which all messages came.
    pub(super) arrival: u64,
    /// Assigned when the first fragment is taken.
    pub(super) mid: Option<Mid>,
    /// The FSN of the next fragment.
    pub(super) next_fsn: u32,
    pub(super) ppid: u32,
    pub(super) context: u32,
    pub(super) shared_key: Option<u16>,
    pub(super) stream: u16,
    pub(super) unordered: bool,
    pub(super) sack_immediately: bool,
    pub(super) unbundled: bool,
    delivery: Option<Box<DeliveryOptions>>,
}

/// Where a message is to go, and for how long. Few messages say it, and all are smaller for keeping it apart.
#[derive(Debug, Default, PartialEq, Eq)]
struct DeliveryOptions {
    path: Option<IpAddr>,
    life_time: Option<Duration>,
    pr_policy: Option<PrPolicy>,
    expires_at: Option<Instant>,
    limit: Limit,
}

impl QueuedMessage {
    /// A message that came from the user `now`.
    pub(super) fn new(
        now: Instant,
        info: &SendInfo,
        payload: Bytes,
        arrival: u64,
    ) -> QueuedMessage {
        let delivery = DeliveryOptions::of(info, now);
        QueuedMessage::with_options(info, payload, arrival, delivery)
    }

    /// The message of a fragment that counts as never taken.
    pub(super) fn put_back(fragment: MessageFragment, arrival: u64) -> QueuedMessage {
        let delivery = DeliveryOptions::of_limit(fragment.limit);
        QueuedMessage::with_options(&fragment.info(), fragment.payload, arrival, delivery)
    }

    fn with_options(
        info: &SendInfo,
        payload: Bytes,
        arrival: u64,
        delivery: Option<Box<DeliveryOptions>>,
    ) -> QueuedMessage {
        QueuedMessage {
            rest: payload,
            arrival,
            mid: None,
            next_fsn: 0,
            ppid: info.ppid,
            context: info.context,
            shared_key: info.shared_key,
            stream: info.stream,
            unordered: info.unordered,
            sack_immediately: info.sack_immediately,
            unbundled: info.unbundled,
            delivery,
        }
    }

    /// Puts a fragment that counts as never taken in front of the rest.
    pub(super) fn prepend(&mut self, fragment: &MessageFragment) {
        self.rest = [&fragment.payload[..], &self.rest[..]].concat().into();
        self.mid = None;
        self.next_fsn = 0;
        if let Some(delivery) = &mut self.delivery {
            delivery.limit = fragment.limit;
            delivery.expires_at = fragment.limit.end();
        }
    }

    /// How it is to be sent.
    pub(super) fn info(&self) -> SendInfo {
        let delivery = self.delivery.as_deref();
        SendInfo {
            stream: self.stream,
            ppid: self.ppid,
            unordered: self.unordered,
            sack_immediately: self.sack_immediately,
            path: self.path(),
            unbundled: self.unbundled,
            life_time: delivery.and_then(|delivery| delivery.life_time),
            pr_policy: delivery.and_then(|delivery| delivery.pr_policy),
            shared_key: self.shared_key,
            context: self.context,
        }
    }

    /// Where it is to go, if the user said so.
    pub(super) fn path(&self) -> Option<IpAddr> {
        self.delivery.as_ref()?.path
    }

    /// When its life time ends.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        self.delivery.as_ref()?.expires_at
    }

    /// How far the sending of it may go.
    pub(super) fn limit(&self) -> Limit {
        self.delivery
            .as_ref()
            .map_or(Limit::None, |delivery| delivery.limit)
    }
}

impl DeliveryOptions {
    /// Those of a message that came from the user `now`, if it has any.
    fn of(info: &SendInfo, now: Instant) -> Option<Box<DeliveryOptions>> {
        if info.path.is_none() && info.life_time.is_none() && info.pr_policy.is_none() {
            return None;
        }
        let limit = Limit::of(info, now);
        let life_ends = info.life_time.and_then(|time| now.checked_add(time));
        Some(Box::new(DeliveryOptions {
            path: info.path,
            life_time: info.life_time,
            pr_policy: info.pr_policy,
            expires_at: limit.end().or(life_ends),
            limit,
        }))
    }

    /// Those of a message of which a fragment had been taken: nothing but its limit matters any more.
    fn of_limit(limit: Limit) -> Option<Box<DeliveryOptions>> {
        (limit != Limit::None).then(|| {
            Box::new(DeliveryOptions {
                expires_at: limit.end(),
                limit,
                ..DeliveryOptions::default()
            })
        })
    }
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

/// Room for a message of a list.
#[derive(Debug, Default)]
struct Slot {
    /// `None` while it is free.
    message: Option<QueuedMessage>,
    before: Option<MessageId>,
    /// The next message of the list, or the next free slot.
    after: Option<MessageId>,
}

impl MessageId {
    fn of_index(index: u32) -> MessageId {
        MessageId(NonZeroU32::MIN.saturating_add(index))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
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
        self.slots.get(id.index())?.message.as_ref()
    }

    /// The message `id`.
    #[inline]
    pub(super) fn get_mut(&mut self, id: MessageId) -> Option<&mut QueuedMessage> {
        self.slots.get_mut(id.index())?.message.as_mut()
    }

    /// Appends a message to a list.
    #[inline]
    pub(super) fn push_back(
        &mut self,
        list: &mut MessageList,
        message: QueuedMessage,
    ) -> MessageId {
        let id = self.vacant();
        if let Some(slot) = self.slot_mut(id) {
            slot.message = Some(message);
            slot.before = list.last;
            slot.after = None;
        }
        match list.last.replace(id).and_then(|last| self.slot_mut(last)) {
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
        let id = self.vacant();
        if let Some(slot) = self.slot_mut(id) {
            slot.message = Some(message);
            slot.before = None;
            slot.after = list.first;
        }
        match list
            .first
            .replace(id)
            .and_then(|first| self.slot_mut(first))
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
        let slot = self.slots.get_mut(id.index())?;
        let message = slot.message.take()?;
        let (before, after) = (slot.before, slot.after);
        slot.after = self.free.replace(id);
        self.len -= 1;
        match before.and_then(|before| self.slot_mut(before)) {
            Some(before) => before.after = after,
            None => list.first = after,
        }
        match after.and_then(|after| self.slot_mut(after)) {
            Some(after) => after.before = before,
            None => list.last = before,
        }
        Some(message)
    }

    /// All messages, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (MessageId, &QueuedMessage)> {
        let slots = self.slots.iter().zip(0..);
        slots.filter_map(|(slot, index)| Some((MessageId::of_index(index), slot.message.as_ref()?)))
    }

    /// Takes out all messages, in the order in which they came.
    pub(super) fn take_all(self) -> impl Iterator<Item = QueuedMessage> + use<> {
        let slots = self.slots.into_iter();
        let mut messages: Vec<QueuedMessage> = slots.filter_map(|slot| slot.message).collect();
        messages.sort_unstable_by_key(|message| message.arrival);
        messages.into_iter()
    }

    /// A free slot, which is to be filled.
    fn vacant(&mut self) -> MessageId {
        self.len += 1;
        if let Some(id) = self.free
            && let Some(slot) = self.slot_mut(id)
        {
            self.free = slot.after;
            return id;
        }
        self.slots.push(Slot::default());
        MessageId::of_index(self.slots.len() as u32 - 1)
    }

    fn slot_mut(&mut self, id: MessageId) -> Option<&mut Slot> {
        self.slots.get_mut(id.index())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(arrival: u64) -> QueuedMessage {
        QueuedMessage::new(Instant::now(), &SendInfo::default(), Bytes::new(), arrival)
    }

    /// Its messages by their arrival, read in both directions.
    fn arrivals(messages: &Messages, list: MessageList) -> Vec<u64> {
        let walk = |from: Option<MessageId>, next: fn(&Slot) -> Option<MessageId>| {
            let mut seen = Vec::new();
            let mut at = from;
            while let Some(id) = at {
                let message = messages.get(id).expect("a list leads to no free slot");
                seen.push(message.arrival);
                at = next(&messages.slots[id.index()]);
            }
            seen
        };
        let forwards = walk(list.first, |slot| slot.after);
        let mut backwards = walk(list.last, |slot| slot.before);
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
