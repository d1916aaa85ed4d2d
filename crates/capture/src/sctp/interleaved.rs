//! User messages in I-DATA chunks (RFC 8260 section 2.2): fragments of several messages between each other.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sctp::packet::{Fragment, IData, Mid, Tsn};

use super::{LONGEST_MESSAGE, LONGEST_WAIT};
use crate::UserMessage;

/// What one end sends.
#[derive(Default)]
pub(super) struct Interleaved {
    unfinished: BTreeMap<MessageKey, Unfinished>,
    held: usize,
    /// The number of the TSN at which what waits for too long was looked for last.
    swept: i64,
}

/// Which message a fragment is of: stream, U bit, Message Identifier.
type MessageKey = (u16, bool, u32);

/// A message of which parts are there.
#[derive(Default)]
struct Unfinished {
    /// By Fragment Sequence Number.
    fragments: BTreeMap<u32, Vec<u8>>,
    /// The TSN and the payload protocol identifier of the first one.
    first: Option<(Tsn, u32)>,
    /// The Fragment Sequence Number of the last one.
    last: Option<u32>,
    octets: usize,
    /// The number of the TSN that came last.
    latest: i64,
}

impl Interleaved {
    /// How much memory it takes.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Takes in a chunk whose TSN is new and has this number, and gives the message that it completes.
    pub(super) fn read<'d>(
        &mut self,
        data: &IData<'d>,
        number: i64,
    ) -> Option<(UserMessage, Cow<'d, [u8]>)> {
        let message = |(tsn, payload_protocol), fragments| UserMessage {
            stream: data.stream,
            tsn,
            payload_protocol,
            fragments,
            unordered: data.unordered,
            encapsulated: false,
        };
        let (fsn, first) = match data.fragment {
            Fragment::First { ppid } => (0, Some((data.tsn, ppid))),
            Fragment::Later { fsn } => (fsn, None),
        };
        if let Some(first) = first
            && data.ending
        {
            return Some((message(first, 1), Cow::Borrowed(data.user_data)));
        }
        let Mid(mid) = data.mid;
        let key = (data.stream, data.unordered, mid);
        let mut unfinished = self.take(&key).unwrap_or_default();
        if unfinished.fragments.contains_key(&fsn) {
            // Message Identifiers begin anew when the stream is reset (RFC 8260 section 2.3.2).
            unfinished = Unfinished::default();
        }
        unfinished.first = first.or(unfinished.first);
        if data.ending {
            unfinished.last = Some(fsn);
        }
        unfinished.octets += data.user_data.len();
        unfinished.latest = number;
        unfinished.fragments.insert(fsn, data.user_data.to_vec());
        self.sweep(number);
        if let Some(first) = unfinished.whole() {
            let fragments = unfinished.fragments.len() as u32;
            let octets: Vec<u8> = unfinished.fragments.into_values().flatten().collect();
            return Some((message(first, fragments), Cow::Owned(octets)));
        }
        if unfinished.held() <= LONGEST_MESSAGE {
            self.held += unfinished.held();
            self.unfinished.insert(key, unfinished);
        }
        None
    }

    fn take(&mut self, key: &MessageKey) -> Option<Unfinished> {
        let unfinished = self.unfinished.remove(key)?;
        self.held = self.held.saturating_sub(unfinished.held());
        Some(unfinished)
    }

    /// Lets go of what was not completed for long: it misses a part that the capture does not have, or was abandoned.
    fn sweep(&mut self, number: i64) {
        if number - self.swept < LONGEST_WAIT {
            return;
        }
        self.swept = number;
        self.unfinished
            .retain(|_, message| message.latest > number - LONGEST_WAIT);
        self.held = self.unfinished.values().map(Unfinished::held).sum();
    }
}

impl Unfinished {
    /// TSN and payload protocol identifier of the first fragment, when all are there.
    fn whole(&self) -> Option<(Tsn, u32)> {
        let last = self.last? as usize;
        let highest = *self.fragments.keys().next_back()? as usize;
        (self.fragments.len() == last + 1 && highest == last).then_some(self.first?)
    }

    fn held(&self) -> usize {
        self.octets + (self.fragments.len() + 1) * size_of::<(u32, Vec<u8>)>()
    }
}
