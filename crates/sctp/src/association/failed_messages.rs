//! What is told of messages that were not acknowledged when an association ends (RFC 9260
//! sections 11.1.14, 11.1.15 and 11.2.2): fragments put together to messages again.

use bytes::{Bytes, BytesMut};

use super::transmit_queue::MessageFragment;
use crate::SendInfo;

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
/// messages behind them: information, what was not sent, and whether some was.
pub(crate) fn collect_failed(
    fragments: impl Iterator<Item = MessageFragment>,
    waiting: impl Iterator<Item = (SendInfo, Bytes, bool)>,
) -> Vec<FailedMessage> {
    let mut failed = Vec::new();
    let mut open: Option<OpenMessage> = None;
    for fragment in fragments {
        if let Some(before) = open.take_if(|before| !before.goes_on_with(&fragment)) {
            failed.push(before.close());
        }
        open.get_or_insert_with(|| OpenMessage::new(&fragment))
            .parts
            .push(fragment.payload);
        if let Some(whole) = open.take_if(|_| fragment.ending) {
            failed.push(whole.close());
        }
    }
    for (info, rest, was_sent) in waiting {
        let mut payload = rest;
        if let Some(mut begun) = open.take() {
            if was_sent {
                begun.parts.push(payload);
                payload = begun.join();
            } else {
                failed.push(begun.close());
            }
        }
        failed.push(FailedMessage {
            info,
            payload,
            was_sent,
        });
    }
    failed.extend(open.map(OpenMessage::close));
    failed
}

/// A message whose last fragment has not been seen.
struct OpenMessage {
    first: MessageFragment,
    parts: Vec<Bytes>,
}

impl OpenMessage {
    fn new(first: &MessageFragment) -> OpenMessage {
        OpenMessage {
            first: MessageFragment {
                payload: Bytes::new(),
                ..first.clone()
            },
            parts: Vec::new(),
        }
    }

    fn goes_on_with(&self, fragment: &MessageFragment) -> bool {
        let first = &self.first;
        !fragment.beginning
            && (first.stream, first.ssn, first.unordered)
                == (fragment.stream, fragment.ssn, fragment.unordered)
    }

    fn join(&mut self) -> Bytes {
        match &mut self.parts[..] {
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

    fn close(mut self) -> FailedMessage {
        FailedMessage {
            payload: self.join(),
            info: self.first.info(),
            was_sent: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ssn;

    fn fragment(ssn: u16, bits: &str, payload: &'static str) -> MessageFragment {
        MessageFragment {
            stream: 1,
            ssn: Ssn(ssn),
            ppid: 2,
            context: u32::from(ssn) + 100,
            unordered: false,
            immediate: false,
            beginning: bits.contains('B'),
            ending: bits.contains('E'),
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
        let waiting = [(info, "h".into(), true), (info, "i".into(), false)];
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
        let nothing = collect_failed(std::iter::empty(), std::iter::empty());
        assert_eq!(nothing, []);
        let sent_only = collect_failed([fragment(0, "B", "a")].into_iter(), std::iter::empty());
        assert_eq!(sent_only.len(), 1);
    }
}
