//! Which SCTP stream a message goes on (RFC 4168 section 5.1).

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use sctp_net::SendInfo;
use sip::Message;

use crate::config::StreamPolicy;
use crate::outbound_message::OutboundMessage;

/// Chooses the streams of one association.
#[derive(Debug)]
pub(super) struct Streams {
    policy: StreamPolicy,
    transactions: TransactionStreams,
}

impl Streams {
    pub(super) fn new(policy: StreamPolicy) -> Streams {
        Streams {
            policy,
            transactions: TransactionStreams::default(),
        }
    }

    /// How a message goes out on an association with so many streams. The payload protocol
    /// identifier is 0 (RFC 4168 section 5).
    pub(super) fn choose(&mut self, message: &OutboundMessage, streams: u16) -> SendInfo {
        let streams = streams.max(1);
        let stream = match self.policy {
            StreamPolicy::Unordered => {
                return SendInfo {
                    unordered: true,
                    ..ordered(0)
                };
            }
            StreamPolicy::PerTransaction => self.transactions.stream(&message.payload, streams),
            // The remainder is less than a u16.
            StreamPolicy::PerCall => (message.call_id_hash % u32::from(streams)) as u16,
            StreamPolicy::Single => 0,
            StreamPolicy::PerFlow => message.stream % streams,
        };
        ordered(stream)
    }
}

/// A message that keeps its place in its stream.
pub(super) fn ordered(stream: u16) -> SendInfo {
    SendInfo {
        stream,
        ppid: 0,
        unordered: false,
        ..SendInfo::default()
    }
}

/// Gives each transaction a stream, in turns.
#[derive(Debug, Default)]
pub(super) struct TransactionStreams {
    hasher: RandomState,
    /// By the hash of the branch. INVITE, its CANCEL and the ACK to its failure share one
    /// (RFC 3261 section 17.1.3), and so the stream.
    streams: HashMap<u64, u16>,
    /// In the order in which they got one.
    known: VecDeque<u64>,
    next: u16,
}

/// How many transactions of an association are remembered, so that a late message of one finds its
/// stream. By then every stream has had others, and what went before has long arrived.
const MAXIMUM_KNOWN: usize = 4_096;

impl TransactionStreams {
    /// The stream of the message's transaction, less than `streams`.
    pub(super) fn stream(&mut self, message: &Bytes, streams: u16) -> u16 {
        let is_there = |stream| stream < streams;
        self.choose(message, streams, is_there, |turn| turn)
    }

    /// The stream of the message's transaction, one of these; `None` where there are none.
    pub(super) fn stream_among(&mut self, message: &Bytes, streams: &[u16]) -> Option<u16> {
        let first = *streams.first()?;
        let count = u16::try_from(streams.len()).unwrap_or(u16::MAX);
        let is_there = |stream| streams.contains(&stream);
        let nth = |turn| streams.get(usize::from(turn)).copied().unwrap_or(first);
        Some(self.choose(message, count, is_there, nth))
    }

    fn choose(
        &mut self,
        message: &Bytes,
        count: u16,
        is_there: impl Fn(u16) -> bool,
        nth: impl Fn(u16) -> u16,
    ) -> u16 {
        let Some(transaction) = self.transaction(message) else {
            return nth(0);
        };
        if let Some(&stream) = self.streams.get(&transaction)
            && is_there(stream)
        {
            return stream;
        }
        let turn = self.next % count.max(1);
        self.next = turn + 1;
        let stream = nth(turn);
        if self.streams.insert(transaction, stream).is_none() {
            self.known.push_back(transaction);
        }
        if self.known.len() > MAXIMUM_KNOWN
            && let Some(oldest) = self.known.pop_front()
        {
            self.streams.remove(&oldest);
        }
        stream
    }

    /// What names the transaction of a message: the branch of the top Via, ours in a request, the
    /// peer's in a response. `None` for what is no message, such as a keep-alive.
    fn transaction(&self, message: &Bytes) -> Option<u64> {
        let message = Message::read(message.clone()).ok()?;
        let branch = message.top_via().and_then(|via| via.branch());
        // Senders of before RFC 3261 have none.
        let name = branch.or_else(|| message.call_id())?;
        Some(self.hasher.hash_one(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(method: &str, branch: &str) -> Bytes {
        format!(
            "{method} sip:a@example.org SIP/2.0\r\n\
             Via: SIP/2.0/SCTP 192.0.2.1{branch}\r\n\
             Call-ID: a\r\nCSeq: 1 {method}\r\n\r\n"
        )
        .into()
    }

    #[test]
    fn transactions_share_no_stream_while_there_are_enough() {
        let mut streams = TransactionStreams::default();
        let branches: Vec<String> = (0..8).map(|n| format!(";branch=z9hG4bK{n}")).collect();
        let mut used: Vec<u16> = branches
            .iter()
            .map(|branch| streams.stream(&message("INVITE", branch), 8))
            .collect();
        for (branch, &stream) in branches.iter().zip(&used) {
            assert_eq!(streams.stream(&message("CANCEL", branch), 8), stream);
            assert_eq!(streams.stream(&message("ACK", branch), 8), stream);
        }
        used.sort_unstable();
        assert_eq!(used, (0..8).collect::<Vec<u16>>());
    }

    #[test]
    fn a_transaction_keeps_its_stream_while_others_come_and_go() {
        let mut streams = TransactionStreams::default();
        let mut among = |branch: &str, usable: &[u16]| {
            streams.stream_among(
                &message("INVITE", &format!(";branch=z9hG4bK{branch}")),
                usable,
            )
        };
        assert_eq!(among("a", &[]), None);
        assert_eq!(among("a", &[0, 4, 7]), Some(0));
        assert_eq!(among("b", &[0, 4, 7]), Some(4));
        assert_eq!(among("c", &[0, 4, 7]), Some(7));
        assert_eq!(among("c", &[4, 7]), Some(7));
        assert_eq!(among("b", &[7, 4, 2]), Some(4));
        // Only who has lost it gets another one, and keeps that.
        let another = among("a", &[7, 4, 2]);
        assert!(another.is_some_and(|stream| stream != 0));
        assert_eq!(among("a", &[0, 2, 4, 7]), another);
    }

    #[test]
    fn what_names_no_transaction_has_a_stream_all_the_same() {
        let mut streams = TransactionStreams::default();
        assert_eq!(streams.stream(&Bytes::from_static(b"\r\n\r\n"), 8), 0);
        let first = streams.stream(&message("OPTIONS", ""), 8);
        assert_eq!(streams.stream(&message("OPTIONS", ""), 8), first);
        // A restart of the peer may take streams away.
        for number in 0..20 {
            let message = message("OPTIONS", &format!(";branch=z9hG4bK{number}"));
            streams.stream(&message, 8);
            assert_eq!(streams.stream(&message, 1), 0);
        }
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut streams = TransactionStreams::default();
        for number in 0..2 * MAXIMUM_KNOWN {
            let branch = format!(";branch=z9hG4bK{number}");
            streams.stream(&message("OPTIONS", &branch), 8);
        }
        assert_eq!(streams.known.len(), MAXIMUM_KNOWN);
        assert_eq!(streams.streams.len(), MAXIMUM_KNOWN);
    }
}
