//! Streams whose numbers are to begin anew: no message on them begins to leave until the peer knows that
//! (RFC 6525 section 5.1.2, A1), but for those that came before the user asked for it.

use super::messages::QueuedMessage;
use super::{RemovedMessage, TransmitQueue};
use crate::association::stream_set::StreamSet;

/// Streams that are paused.
#[derive(Debug, Clone)]
pub(super) struct Pause {
    streams: StreamSet,
    /// The messages in front of this place in the order in which they came leave all the same.
    from: u64,
}

impl TransmitQueue {
    /// The place of the next message in the order in which they come.
    pub(crate) fn next_arrival(&self) -> u64 {
        self.next_arrival
    }

    /// Pauses streams, in place of those that were: messages on them that have begun to leave or came in front of the
    /// place `from` go on, no other one begins.
    pub(crate) fn pause(&mut self, streams: StreamSet, from: u64) {
        let before = self.paused.replace(Pause { streams, from });
        let is_idle = |turn: &super::Turn| self.is_paused(turn.stream);
        if self.turn.as_ref().is_some_and(is_idle) {
            self.end_turn();
        }
        let before = before.as_ref();
        let paused = self.paused.clone();
        self.rank_anew(|stream| {
            let mut sets = before.into_iter().chain(&paused);
            sets.any(|pause| pause.streams.contains(stream))
        });
    }

    /// Ends that.
    pub(crate) fn resume(&mut self) {
        if let Some(paused) = self.paused.take() {
            self.rank_anew(|stream| paused.streams.contains(stream));
        }
    }

    /// Whether streams are paused, and no message on them leaves any more.
    pub(crate) fn has_paused(&self) -> bool {
        self.paused.is_some() && {
            let mut used = self.streams.used().filter(|stream| self.pauses(*stream));
            used.all(|stream| self.is_paused(stream))
        }
    }

    /// Whether that stream is among those that are paused.
    pub(crate) fn pauses(&self, stream: u16) -> bool {
        let paused = self.paused.as_ref();
        paused.is_some_and(|paused| paused.streams.contains(stream))
    }

    /// Whether nothing may leave on that stream.
    pub(super) fn is_paused(&self, stream: u16) -> bool {
        self.paused.as_ref().is_some_and(|paused| {
            let leaves =
                |message: &QueuedMessage| message.mid.is_some() || message.arrival < paused.from;
            paused.streams.contains(stream) && !self.first_of(stream).is_some_and(leaves)
        })
    }

    /// Whether no message has left on these streams since their numbers began.
    pub(crate) fn is_fresh(&self, streams: &StreamSet) -> bool {
        let mut used = self
            .streams
            .used()
            .filter(|stream| streams.contains(*stream));
        used.all(|number| {
            let stream = self.streams.get(number);
            stream.is_none_or(super::OutboundStream::is_fresh)
        })
    }

    /// Begins anew with the numbers of these streams.
    pub(crate) fn begin_anew(&mut self, streams: &StreamSet) {
        for (number, stream) in self.streams.iter_mut() {
            if streams.contains(number) {
                stream.reset_numbers();
            }
        }
    }

    /// Takes out the messages that have begun to leave.
    pub(crate) fn take_begun(&mut self) -> Vec<RemovedMessage> {
        let begun: Vec<_> = self
            .messages
            .iter()
            .filter(|(_, message)| message.mid.is_some())
            .map(|(id, _)| id)
            .collect();
        self.remove(begun)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::{SendInfo, StreamScheduler};

    fn push(queue: &mut TransmitQueue, stream: u16, bytes: usize) {
        let info = SendInfo {
            stream,
            ..SendInfo::default()
        };
        queue.push(Instant::now(), info, vec![0; bytes].into());
    }

    /// Stream and number of what leaves.
    fn take(queue: &mut TransmitQueue) -> Vec<(u16, u32)> {
        let next = || {
            queue.take(10).or_else(|| {
                queue.end_packet();
                queue.take(10)
            })
        };
        std::iter::from_fn(next)
            .map(|fragment| (fragment.stream, fragment.mid.0))
            .collect()
    }

    #[test]
    fn a_message_that_has_begun_goes_on_and_no_other_begins() {
        for scheduler in [
            StreamScheduler::FirstComeFirstServed,
            StreamScheduler::RoundRobin,
            StreamScheduler::RoundRobinPerPacket,
        ] {
            let mut queue = TransmitQueue::new(10, scheduler);
            push(&mut queue, 1, 20);
            push(&mut queue, 2, 10);
            let place = queue.next_arrival();
            push(&mut queue, 1, 20);
            push(&mut queue, 2, 10);
            assert_eq!(queue.take(10).map(|fragment| fragment.stream), Some(1));
            queue.pause(StreamSet::of_list([1]), place);
            assert!(!queue.has_paused());
            let mut left = take(&mut queue);
            left.sort_unstable();
            assert_eq!(left, [(1, 0), (2, 0), (2, 1)], "{scheduler:?}");
            assert!(queue.has_paused());
            push(&mut queue, 1, 10);
            assert_eq!(queue.next_size(10), None);
            assert_eq!(queue.messages(), 2);
            assert!(!queue.is_fresh(&StreamSet::of_list([1])));
            queue.begin_anew(&StreamSet::of_list([1]));
            assert!(queue.is_fresh(&StreamSet::of_list([1])));
            queue.resume();
            push(&mut queue, 2, 10);
            let mut left = take(&mut queue);
            left.sort_unstable();
            assert_eq!(left, [(1, 0), (1, 0), (1, 1), (2, 2)]);
        }
    }

    #[test]
    fn what_came_before_leaves_all_the_same() {
        for scheduler in StreamScheduler::ALL {
            let mut queue = TransmitQueue::new(10, scheduler);
            for _ in 0..2 {
                push(&mut queue, 1, 20);
                push(&mut queue, 2, 10);
            }
            queue.pause(StreamSet::of_list([1]), queue.next_arrival());
            push(&mut queue, 1, 10);
            assert!(!queue.has_paused());
            let mut left = take(&mut queue);
            left.sort_unstable();
            assert_eq!(left, [(1, 0), (1, 0), (1, 1), (1, 1), (2, 0), (2, 1)]);
            assert!(queue.has_paused(), "{scheduler:?}");
            queue.resume();
            assert_eq!(take(&mut queue), [(1, 2)]);
        }
    }

    #[test]
    fn all_streams_may_be_paused_and_those_that_are_used_later() {
        let mut queue = TransmitQueue::new(10, StreamScheduler::default());
        let place = queue.next_arrival();
        push(&mut queue, 0, 10);
        queue.pause(StreamSet::All, place);
        push(&mut queue, 7, 10);
        assert_eq!(take(&mut queue), []);
        queue.pause(StreamSet::of_list([7]), place);
        assert_eq!(take(&mut queue), [(0, 0)]);
        queue.resume();
        assert_eq!(take(&mut queue), [(7, 0)]);
    }

    #[test]
    fn what_has_begun_to_leave_is_taken_out() {
        let mut queue = TransmitQueue::new(10, StreamScheduler::default());
        push(&mut queue, 0, 20);
        push(&mut queue, 0, 10);
        queue.take(10);
        let begun = queue.take_begun();
        assert_eq!(begun.len(), 1);
        assert_eq!(begun[0].rest.len(), 10);
        assert_eq!(take(&mut queue), [(0, 1)]);
    }
}
