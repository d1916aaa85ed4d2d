//! User messages that wait to be sent (RFC 9260 section 6), and their cutting into DATA chunks
//! (section 6.9).
//!
//! Messages leave in the order in which they came. This part knows sizes and streams; when a
//! chunk may leave is decided elsewhere.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Instant;

use bytes::{Buf, Bytes};

use super::streams::OutboundStreams;
use crate::SendInfo;
use crate::packet::{Data, Ssn, Tsn};

/// A chunk of a user message: what a DATA chunk says, but for its TSN.
#[derive(Debug, Clone)]
pub(crate) struct MessageFragment {
    pub(crate) stream: u16,
    pub(crate) ssn: Ssn,
    pub(crate) ppid: u32,
    /// The user's, see [`SendInfo::context`].
    pub(crate) context: u32,
    pub(crate) unordered: bool,
    pub(crate) immediate: bool,
    pub(crate) beginning: bool,
    pub(crate) ending: bool,
    pub(crate) payload: Bytes,
}

impl MessageFragment {
    /// The DATA chunk with which it goes out.
    pub(crate) fn chunk(&self, tsn: Tsn, immediate: bool) -> Data<'_> {
        Data {
            immediate: self.immediate || immediate,
            unordered: self.unordered,
            beginning: self.beginning,
            ending: self.ending,
            tsn,
            stream: self.stream,
            ssn: self.ssn,
            ppid: self.ppid,
            user_data: &self.payload,
        }
    }

    /// How its message was sent, as far as it is still known: where it should have gone, and
    /// within which time, matters no more once it has left.
    pub(crate) fn info(&self) -> SendInfo {
        SendInfo {
            stream: self.stream,
            ppid: self.ppid,
            unordered: self.unordered,
            sack_immediately: self.immediate,
            context: self.context,
            ..SendInfo::default()
        }
    }

    /// The size of that DATA chunk with its padding, in bytes: what it counts for in congestion
    /// control (section 7.2).
    pub(crate) fn chunk_size(&self) -> usize {
        (Data::OVERHEAD + self.payload.len()).next_multiple_of(4)
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct TransmitQueue {
    messages: VecDeque<QueuedMessage>,
    bytes: usize,
    /// How many of them have a life time.
    expiring: usize,
    /// How many of them are not to be held back.
    unbundled: usize,
}

#[derive(Debug)]
struct QueuedMessage {
    info: SendInfo,
    /// What has not been taken yet.
    rest: Bytes,
    /// Assigned when the first fragment is taken.
    ssn: Option<Ssn>,
    /// When its life time ends.
    expires_at: Option<Instant>,
}

impl TransmitQueue {
    /// An empty queue.
    pub(crate) fn new() -> TransmitQueue {
        TransmitQueue::default()
    }

    /// Appends a message that came from the user `now`.
    pub(crate) fn push(&mut self, now: Instant, info: SendInfo, payload: Bytes) {
        self.bytes += payload.len();
        let expires_at = info.life_time.and_then(|time| now.checked_add(time));
        self.expiring += usize::from(expires_at.is_some());
        self.unbundled += usize::from(info.unbundled);
        self.messages.push_back(QueuedMessage {
            info,
            rest: payload,
            ssn: None,
            expires_at,
        });
    }

    /// Where the next fragment is to go, if the user said so.
    pub(crate) fn next_destination(&self) -> Option<IpAddr> {
        self.messages.front().and_then(|message| message.info.path)
    }

    /// Whether there is a message that is not to be held back for the sake of bundling, nor those
    /// in front of it.
    pub(crate) fn has_unbundled(&self) -> bool {
        self.unbundled > 0
    }

    /// Takes out the next message when its life time has ended and none of it was sent
    /// (section 11.1.5).
    pub(crate) fn take_expired(&mut self, now: Instant) -> Option<(SendInfo, Bytes)> {
        if self.expiring == 0 {
            return None;
        }
        let message = self.messages.pop_front_if(|message| {
            message.ssn.is_none()
                && message
                    .expires_at
                    .is_some_and(|expires_at| expires_at <= now)
        })?;
        self.expiring -= 1;
        self.unbundled -= usize::from(message.info.unbundled);
        self.bytes -= message.rest.len();
        Some((message.info, message.rest))
    }

    /// Takes out all messages: the association is over. Tells of each whether some of it was sent.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (SendInfo, Bytes, bool)> + use<> {
        let before = std::mem::take(self);
        before
            .messages
            .into_iter()
            .map(|message| (message.info, message.rest, message.ssn.is_some()))
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
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
        self.messages
            .front()
            .map(|message| fragment_size(message.rest.len(), max))
    }

    /// Takes the next fragment, of at most `max` bytes of user data.
    pub(crate) fn take(
        &mut self,
        max: usize,
        streams: &mut OutboundStreams,
    ) -> Option<MessageFragment> {
        let message = self.messages.front_mut()?;
        let beginning = message.ssn.is_none();
        let info = message.info;
        let ssn = *message.ssn.get_or_insert_with(|| {
            if info.unordered {
                Ssn(0)
            } else {
                streams.assign(info.stream)
            }
        });
        let payload = message
            .rest
            .split_to(fragment_size(message.rest.len(), max));
        let ending = !message.rest.has_remaining();
        self.bytes -= payload.len();
        if ending {
            self.expiring -= usize::from(message.expires_at.is_some());
            self.unbundled -= usize::from(info.unbundled);
            self.messages.pop_front();
        }
        Some(MessageFragment {
            stream: info.stream,
            ssn,
            ppid: info.ppid,
            context: info.context,
            unordered: info.unordered,
            immediate: info.sack_immediately && ending,
            beginning,
            ending,
            payload,
        })
    }

    /// Puts back fragments that count as never taken: all that were, in their order. They leave again
    /// with new sequence numbers.
    pub(crate) fn put_back(&mut self, fragments: impl DoubleEndedIterator<Item = MessageFragment>) {
        // From the last one on, each goes in front of the rest of its message.
        for fragment in fragments.rev() {
            self.bytes += fragment.payload.len();
            match self.messages.front_mut().filter(|_| !fragment.ending) {
                Some(message) => {
                    message.rest = [fragment.payload, message.rest.split_off(0)]
                        .concat()
                        .into();
                    message.ssn = None;
                }
                None => self.messages.push_front(QueuedMessage {
                    info: fragment.info(),
                    rest: fragment.payload,
                    ssn: None,
                    expires_at: None,
                }),
            }
        }
    }

    /// Takes out the messages for streams that there are not after all (section 5.1.1).
    pub(crate) fn remove_streams_from(&mut self, count: u16) -> Vec<(SendInfo, Bytes)> {
        let mut removed = Vec::new();
        self.messages.retain_mut(|message| {
            let valid = message.info.stream < count;
            if !valid {
                self.expiring -= usize::from(message.expires_at.is_some());
                self.unbundled -= usize::from(message.info.unbundled);
                removed.push((message.info, std::mem::take(&mut message.rest)));
            }
            valid
        });
        self.bytes -= removed
            .iter()
            .map(|(_, payload)| payload.len())
            .sum::<usize>();
        removed
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
mod tests {
    use std::time::Duration;

    use super::*;

    fn on_stream(stream: u16) -> SendInfo {
        SendInfo {
            stream,
            ppid: 5,
            ..SendInfo::default()
        }
    }

    #[test]
    fn cuts_messages_with_the_bits_of_section_6_9() {
        let mut streams = OutboundStreams::new(10);
        let mut queue = TransmitQueue::new();
        queue.push(
            Instant::now(),
            on_stream(1),
            Bytes::from_static(b"abcdefgh"),
        );
        queue.push(Instant::now(), on_stream(1), Bytes::from_static(b"ij"));
        assert_eq!(queue.bytes(), 10);
        let fragments: Vec<MessageFragment> =
            std::iter::from_fn(|| queue.take(3, &mut streams)).collect();
        let seen: Vec<_> = fragments
            .iter()
            .map(|fragment| {
                (
                    &fragment.payload[..],
                    fragment.beginning,
                    fragment.ending,
                    fragment.ssn,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (&b"abc"[..], true, false, Ssn(0)),
                (b"def", false, false, Ssn(0)),
                (b"gh", false, true, Ssn(0)),
                (b"ij", true, true, Ssn(1)),
            ]
        );
        assert!(queue.is_empty());
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn cuts_messages_into_as_few_pieces_of_one_size() {
        let mut streams = OutboundStreams::new(10);
        for (bytes, sizes) in [
            (1000, &[1000][..]),
            (1001, &[501, 500]),
            (2048, &[683, 683, 682]),
            (4000, &[1000; 4]),
        ] {
            let mut queue = TransmitQueue::new();
            queue.push(Instant::now(), on_stream(1), vec![0; bytes].into());
            assert_eq!(queue.next_size(1000), Some(sizes[0]));
            let fragments = std::iter::from_fn(|| queue.take(1000, &mut streams));
            let seen: Vec<usize> = fragments.map(|fragment| fragment.payload.len()).collect();
            assert_eq!(seen, sizes);
        }
    }

    #[test]
    fn leaves_sequence_numbers_alone_for_unordered_messages() {
        let mut streams = OutboundStreams::new(10);
        let mut queue = TransmitQueue::new();
        let unordered = SendInfo {
            unordered: true,
            ..on_stream(1)
        };
        queue.push(Instant::now(), unordered, Bytes::from_static(b"abc"));
        queue.push(Instant::now(), on_stream(1), Bytes::from_static(b"def"));
        assert!(queue.take(2, &mut streams).unwrap().unordered);
        assert!(queue.take(2, &mut streams).unwrap().unordered);
        assert_eq!(queue.take(3, &mut streams).unwrap().ssn, Ssn(0));
    }

    #[test]
    fn asks_for_an_immediate_sack_with_the_last_piece_only() {
        let mut streams = OutboundStreams::new(10);
        let mut queue = TransmitQueue::new();
        let immediate = SendInfo {
            sack_immediately: true,
            ..on_stream(1)
        };
        queue.push(Instant::now(), immediate, Bytes::from_static(b"abcd"));
        assert!(!queue.take(2, &mut streams).unwrap().immediate);
        assert!(queue.take(2, &mut streams).unwrap().immediate);
    }

    #[test]
    fn takes_back_pieces_as_if_they_had_never_left() {
        let mut streams = OutboundStreams::new(10);
        let mut queue = TransmitQueue::new();
        let immediate = SendInfo {
            sack_immediately: true,
            ..on_stream(1)
        };
        queue.push(Instant::now(), immediate, Bytes::from_static(b"abcdef"));
        queue.push(Instant::now(), on_stream(2), Bytes::from_static(b"gh"));
        queue.push(Instant::now(), on_stream(3), Bytes::from_static(b"ijklmn"));
        queue.push(Instant::now(), on_stream(4), Bytes::from_static(b"op"));
        let fragments: Vec<MessageFragment> =
            (0..5).filter_map(|_| queue.take(2, &mut streams)).collect();
        assert!(!fragments[4].ending, "cut in the middle");
        queue.put_back(fragments.into_iter());
        assert_eq!((queue.messages(), queue.bytes()), (4, 16));
        let mut streams = OutboundStreams::new(10);
        let fragments: Vec<MessageFragment> =
            std::iter::from_fn(|| queue.take(100, &mut streams)).collect();
        let seen: Vec<_> = fragments
            .iter()
            .map(|fragment| (fragment.stream, &fragment.payload[..], fragment.immediate))
            .collect();
        assert_eq!(
            seen,
            [
                (1, &b"abcdef"[..], true),
                (2, b"gh", false),
                (3, b"ijklmn", false),
                (4, b"op", false),
            ]
        );
        assert!(
            fragments
                .iter()
                .all(|fragment| fragment.beginning && fragment.ending)
        );
        assert!(fragments.iter().all(|fragment| fragment.ssn == Ssn(0)));
    }

    #[test]
    fn gives_back_what_has_no_stream() {
        let mut queue = TransmitQueue::new();
        queue.push(Instant::now(), on_stream(1), Bytes::from_static(b"abcd"));
        queue.push(Instant::now(), on_stream(7), Bytes::from_static(b"efg"));
        let removed = queue.remove_streams_from(7);
        assert_eq!(removed, [(on_stream(7), Bytes::from_static(b"efg"))]);
        assert_eq!((queue.messages(), queue.bytes()), (1, 4));
    }

    #[test]
    fn counts_chunks_with_header_and_padding() {
        let mut streams = OutboundStreams::new(1);
        let mut queue = TransmitQueue::new();
        queue.push(Instant::now(), on_stream(0), Bytes::from_static(b"abcde"));
        assert_eq!(queue.take(100, &mut streams).unwrap().chunk_size(), 24);
    }

    #[test]
    fn gives_up_messages_whose_time_is_over_unless_they_have_begun_to_leave() {
        let mut streams = OutboundStreams::new(10);
        let mut queue = TransmitQueue::new();
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let expiring = SendInfo {
            life_time: Some(second),
            ..on_stream(1)
        };
        queue.push(now, expiring, Bytes::from_static(b"abcd"));
        queue.push(now, expiring, Bytes::from_static(b"ef"));
        queue.push(now, on_stream(1), Bytes::from_static(b"g"));
        assert!(queue.take(2, &mut streams).is_some());
        assert_eq!(queue.take_expired(now + second), None, "it is on its way");
        assert!(queue.take(2, &mut streams).is_some());
        assert_eq!(queue.take_expired(now), None);
        let expired = queue.take_expired(now + second);
        assert_eq!(expired, Some((expiring, Bytes::from_static(b"ef"))));
        assert_eq!(queue.take_expired(now + second), None);
        assert_eq!((queue.messages(), queue.bytes()), (1, 1));
        let left = queue.take_all().map(|(_, rest, begun)| (rest, begun));
        assert_eq!(
            left.collect::<Vec<_>>(),
            [(Bytes::from_static(b"g"), false)]
        );
        assert!(queue.is_empty());
    }
}
