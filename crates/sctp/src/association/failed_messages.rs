//! What is told of messages that were not acknowledged when an association ends (RFC 9260
//! sections 11.1.14, 11.1.15 and 11.2.2): pieces put together to messages again.

use bytes::{Bytes, BytesMut};

use super::transmit_queue::Piece;
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

/// Puts together the messages of `pieces`, which were sent in this order, and of `waiting`, the
/// messages behind them: information, what was not sent, and whether some was.
pub(crate) fn collect_failed(
    pieces: impl Iterator<Item = Piece>,
    waiting: impl Iterator<Item = (SendInfo, Bytes, bool)>,
) -> Vec<FailedMessage> {
    let mut failed = Vec::new();
    let mut open: Option<OpenMessage> = None;
    for piece in pieces {
        if let Some(before) = open.take_if(|before| !before.goes_on_with(&piece)) {
            failed.push(before.close());
        }
        open.get_or_insert_with(|| OpenMessage::new(&piece))
            .parts
            .push(piece.payload);
        if let Some(whole) = open.take_if(|_| piece.ending) {
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

/// A message whose last piece has not been seen.
struct OpenMessage {
    first: Piece,
    parts: Vec<Bytes>,
}

impl OpenMessage {
    fn new(first: &Piece) -> OpenMessage {
        OpenMessage {
            first: Piece {
                payload: Bytes::new(),
                ..first.clone()
            },
            parts: Vec::new(),
        }
    }

    fn goes_on_with(&self, piece: &Piece) -> bool {
        let first = &self.first;
        !piece.beginning
            && (first.stream, first.ssn, first.unordered)
                == (piece.stream, piece.ssn, piece.unordered)
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

    fn piece(ssn: u16, bits: &str, payload: &'static str) -> Piece {
        Piece {
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
        let pieces = [
            // The first piece of it was acknowledged.
            piece(0, "", "b"),
            piece(0, "E", "c"),
            piece(1, "BE", "d"),
            // The last piece of it was acknowledged.
            piece(2, "B", "e"),
            piece(3, "B", "f"),
            piece(3, "", "g"),
        ];
        let info = SendInfo {
            stream: 1,
            context: 103,
            ..SendInfo::default()
        };
        let waiting = [(info, "h".into(), true), (info, "i".into(), false)];
        let failed = collect_failed(pieces.into_iter(), waiting.into_iter());
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
        let sent_only = collect_failed([piece(0, "B", "a")].into_iter(), std::iter::empty());
        assert_eq!(sent_only.len(), 1);
    }
}
