//! What is told of messages that were not acknowledged when an association ends (RFC 9260
//! sections 11.1.14, 11.1.15 and 11.2.2): fragments put together to messages again.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use super::message_fragment::MessageFragment;
use super::transmit_queue::RemovedMessage;
use crate::SendInfo;
use crate::packet::Mid;

/// A message that is not known to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailedMessage {
    pub(crate) info: SendInfo,
    /// As much of it as was not acknowledged.
    pub(crate) payload: Bytes,
    /// Whether some of it was sent.
    pub(crate) was_sent: bool,
}

/// Puts together the messages of `fragments`, which were sent in this order, and of `waiting`, the
/// messages of which the last fragment was not sent.
pub(crate) fn collect_failed(
    fragments: impl Iterator<Item = MessageFragment>,
    waiting: impl Iterator<Item = RemovedMessage>,
) -> Vec<FailedMessage> {
    let mut messages: Vec<SplitMessage> = Vec::new();
    // Where the messages are that more may follow of: fragments of several may alternate.
    let mut open: BTreeMap<MessageKey, usize> = BTreeMap::new();
    for fragment in fragments {
        let key = (fragment.stream, fragment.unordered, fragment.mid.0);
        let begun = open.get(&key).and_then(|index| messages.get_mut(*index));
        match begun {
            Some(message) => message.parts.push(fragment.payload),
            None => {
                if !fragment.ending {
                    open.insert(key, messages.len());
                }
                messages.push(SplitMessage {
                    info: fragment.info(),
                    parts: vec![fragment.payload],
                    was_sent: true,
                });
            }
        }
    }
    for RemovedMessage {
        info,
        rest,
        sent_as,
    } in waiting
    {
        let begun = sent_as
            .and_then(|Mid(mid)| open.get(&(info.stream, info.unordered, mid)))
            .and_then(|index| messages.get_mut(*index));
        match begun {
            Some(message) => {
                message.info = info;
                message.parts.push(rest);
            }
            None => messages.push(SplitMessage {
                info,
                parts: vec![rest],
                was_sent: sent_as.is_some(),
            }),
        }
    }
    messages.into_iter().map(SplitMessage::joined).collect()
}

/// Puts the parts of a message together.
pub(crate) fn join(mut parts: Vec<Bytes>) -> Bytes {
    match &mut parts[..] {
        [only] => std::mem::take(only),
        parts => {
            let mut joined = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
            for part in parts {
                joined.extend_from_slice(part);
            }
            joined.freeze()
        }
    }
}

/// The stream, the order, and the number of a message.
type MessageKey = (u16, bool, u32);

/// A message in as many parts as it was sent in.
struct SplitMessage {
    info: SendInfo,
    parts: Vec<Bytes>,
    was_sent: bool,
}

impl SplitMessage {
    fn joined(self) -> FailedMessage {
        FailedMessage {
            info: self.info,
            payload: join(self.parts),
            was_sent: self.was_sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::association::limit::Limit;

    fn fragment(mid: u32, bits: &str, payload: &'static str) -> MessageFragment {
        MessageFragment {
            stream: 1,
            mid: Mid(mid),
            fsn: None,
            ppid: 2,
            context: mid + 100,
            shared_key: None,
            unordered: false,
            immediate: false,
            beginning: bits.contains('B'),
            ending: bits.contains('E'),
            limit: Limit::None,
            payload: payload.into(),
        }
    }

    #[test]
    fn puts_pieces_together_to_messages() {
        let fragments = [
            // The first fragment of it was acknowledged.
            fragment(0, "", "b"),
            fragment(0, "E", "c"),
            fragment(1, "BE", "d"),
            // The last fragment of it was acknowledged.
            fragment(2, "B", "e"),
            fragment(3, "B", "f"),
            fragment(3, "", "g"),
        ];
        let info = SendInfo {
            stream: 1,
            context: 103,
            ..SendInfo::default()
        };
        let message = |rest: &'static str, sent_as| RemovedMessage {
            info,
            rest: rest.into(),
            sent_as,
        };
        let waiting = [message("h", Some(Mid(3))), message("i", None)];
        let failed = collect_failed(fragments.into_iter(), waiting.into_iter());
        let seen: Vec<_> = failed
            .iter()
            .map(|failed| (failed.info.context, &failed.payload[..], failed.was_sent))
            .collect();
        assert_eq!(
            seen,
            [
                (100, &b"bc"[..], true),
                (101, b"d", true),
                (102, b"e", true),
                (103, b"fgh", true),
                (103, b"i", false),
            ]
        );
        let acknowledged =
            collect_failed(std::iter::empty(), [message("j", Some(Mid(4)))].into_iter());
        assert!(acknowledged[0].was_sent, "its first fragment was");
        let nothing = collect_failed(std::iter::empty(), std::iter::empty());
        assert_eq!(nothing, []);
        let sent_only = collect_failed([fragment(0, "B", "a")].into_iter(), std::iter::empty());
        assert_eq!(sent_only.len(), 1);
    }

    #[test]
    fn puts_interleaved_messages_together() {
        let on_stream = |stream, mid, bits, payload| MessageFragment {
            stream,
            ..fragment(mid, bits, payload)
        };
        let unordered = MessageFragment {
            unordered: true,
            ..on_stream(2, 0, "", "z")
        };
        let fragments = [
            on_stream(1, 0, "B", "a"),
            on_stream(2, 0, "B", "x"),
            unordered,
            on_stream(1, 0, "E", "b"),
            on_stream(2, 0, "", "y"),
        ];
        let failed = collect_failed(fragments.into_iter(), std::iter::empty());
        let seen: Vec<_> = failed
            .iter()
            .map(|failed| (failed.info.stream, &failed.payload[..]))
            .collect();
        assert_eq!(seen, [(1, &b"ab"[..]), (2, b"xy"), (2, b"z")]);
    }
}
