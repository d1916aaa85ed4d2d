//! Puts fragmented user messages together (RFC 9260 section 6.9): one implementation for DATA chunks,
//! whose TSNs say which fragments belong together, and one for I-DATA chunks, whose MIDs and FSNs do
//! (RFC 8260 section 2.2.3).
//!
//! Where partial delivery is wanted, they also hand out what has arrived of messages that are not whole.

mod data;
mod i_data;

use std::fmt;

use bytes::Bytes;

use super::message_key::MessageKey;
use super::received_tsns::{MessageTsns, TsnRange};
use super::streams::InboundStreams;
use crate::ReceivedMessage;
use crate::packet::{Mid, Tsn};
use data::DataReassembly;
use i_data::IDataReassembly;

/// A chunk with user data that is not a whole message by itself.
#[derive(Debug, Clone)]
pub(crate) struct Fragment {
    pub(crate) tsn: Tsn,
    pub(crate) stream: u16,
    pub(crate) mid: Mid,
    /// Means nothing in DATA chunks.
    pub(crate) fsn: u32,
    pub(crate) ppid: u32,
    pub(crate) unordered: bool,
    /// The B bit.
    pub(crate) beginning: bool,
    /// The E bit.
    pub(crate) ending: bool,
    pub(crate) payload: Bytes,
}

/// What a fragment can be wrong in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReassemblyError {
    /// It contradicts other fragments: they cannot all be parts of messages.
    Inconsistent,
    /// Its message is larger than we take.
    MessageTooLarge,
}

/// A message that is whole.
#[derive(Debug)]
pub(crate) struct CompletedMessage {
    /// The message, or what of it was not handed out before.
    pub(crate) message: ReceivedMessage,
    pub(crate) mid: Mid,
    /// Its TSNs.
    pub(crate) tsns: MessageTsns,
    /// Parts of it were handed out before.
    pub(crate) is_rest: bool,
}

/// A message that is not whole yet, and whose beginning has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IncompleteMessage {
    pub(crate) message: MessageKey,
    /// Bytes of it that are held and could be handed out.
    pub(crate) held: usize,
    /// Parts of it were handed out before.
    pub(crate) is_begun: bool,
}

/// What was thrown away of messages that the peer has abandoned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Skipped {
    /// Bytes of user data.
    pub(crate) bytes: usize,
    /// The streams of those of which parts were handed out before.
    pub(crate) handed_out_on: Vec<u16>,
}

/// The fragments that wait for others.
pub(crate) trait Reassembly: fmt::Debug + Send {
    /// Changes how large messages may be from now on.
    fn set_max_message_size(&mut self, max: usize);

    /// How many fragments wait, one by one; a message of which nothing but joined fragments is there
    /// may count as one.
    fn fragments(&self) -> usize;

    /// Whether nothing waits.
    fn is_empty(&self) -> bool;

    /// Joins fragments so that they take the memory of their bytes alone, and fewer are counted. They
    /// cannot be taken back any more. `cumulative` is the cumulative TSN.
    fn join_fragments(&mut self, cumulative: Tsn);

    /// Takes a fragment whose TSN is new; gives the message that it completes.
    fn insert(&mut self, fragment: Fragment) -> Result<Option<CompletedMessage>, ReassemblyError>;

    /// The message of which a part could be handed out since `latest`, the message to which something
    /// has happened, or since the cumulative TSN is `cumulative`.
    fn incomplete(
        &mut self,
        latest: Option<MessageKey>,
        cumulative: Tsn,
    ) -> Option<IncompleteMessage>;

    /// The message of which most could be handed out now that the streams are as they are.
    fn largest_part(&mut self, cumulative: Tsn, streams: &InboundStreams) -> Option<MessageKey>;

    /// Hands out what has arrived of a message that one of these two gave.
    fn take_part(&mut self, message: MessageKey, cumulative: Tsn) -> Option<ReceivedMessage>;

    /// How far above `cumulative`, the cumulative TSN, all that lies that could be taken back: the first
    /// TSN of each part.
    fn offsets_above(&mut self, cumulative: Tsn) -> Vec<u32>;

    /// Throws away the fragments above `limit`; `on_removed` hears TSNs and bytes.
    fn renege(&mut self, limit: Tsn, on_removed: &mut dyn FnMut(TsnRange, usize));

    /// Throws away what waits of the messages that the peer has abandoned: those of DATA chunks up to the
    /// TSN `point` (RFC 3758 section 3.6); of I-DATA, on each stream those up to the one that `last` names
    /// (RFC 8260 section 2.3.1). `cumulative` is the cumulative TSN, which was moved on over `point`.
    fn skip(&mut self, point: Tsn, cumulative: Tsn, last: &[MessageKey]) -> Skipped;

    /// Whether a fragment belongs to a message that the peer has abandoned, though it has not skipped all
    /// of it: a FORWARD-TSN may have no room for all. If so, it is thrown away with what follows it;
    /// tells the bytes of that.
    fn skip_fragment(&mut self, tsn: Tsn, beginning: bool, ending: bool) -> Option<usize>;

    /// Whether a fragment is there whose message can never be whole. `cumulative` is the cumulative TSN.
    fn is_stuck(&mut self, cumulative: Tsn) -> bool;
}

/// Reassembly of DATA, or of I-DATA where messages are `interleaved`. Nothing waits; TSNs will be in reach
/// of `initial`.
pub(crate) fn reassembly(
    interleaved: bool,
    initial: Tsn,
    max_message_size: usize,
) -> Box<dyn Reassembly> {
    if interleaved {
        Box::new(IDataReassembly::new(initial, max_message_size))
    } else {
        Box::new(DataReassembly::new(initial, max_message_size))
    }
}

/// Gives TSNs a total order: the numbers of a window that moves on, never wrapping.
#[derive(Debug)]
struct UnwrappedTsns {
    tsn: Tsn,
    number: u64,
}

impl UnwrappedTsns {
    /// TSNs will be in reach of `initial`.
    fn new(initial: Tsn) -> UnwrappedTsns {
        UnwrappedTsns {
            tsn: initial,
            number: 1 << 32,
        }
    }

    /// The number of `tsn`, from which the next ones are reckoned.
    fn number_of(&mut self, tsn: Tsn) -> u64 {
        let number = if tsn >= self.tsn {
            self.number + u64::from(tsn.distance_from(self.tsn))
        } else {
            // The count starts so high that a TSN less than half a circle back stays positive.
            self.number
                .saturating_sub(u64::from(self.tsn.distance_from(tsn)))
        };
        self.tsn = tsn;
        self.number = number;
        number
    }

    /// The TSN with that number.
    fn tsn_of(&self, number: u64) -> Tsn {
        // What is cut off is whole turns of the circle.
        Tsn(self
            .tsn
            .0
            .wrapping_add(number.wrapping_sub(self.number) as u32))
    }
}
