//! An exchange: the messages with one Call-ID, or with several that a B2BUA has joined.

use std::num::NonZeroU64;

use super::message::{Entry, Flags, Kind, Peek};
use super::method_code::MethodCode;
use super::users::UserKey;
use crate::{Carrier, Endpoint, Event, Time};

/// The captured messages of a call, a registration, or other requests with one Call-ID.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The Call-ID, then those of further legs.
    pub(crate) call_ids: Vec<Box<str>>,
    /// Who took part.
    pub(crate) ends: Vec<Endpoint>,
    /// The messages, in the order of time.
    pub(crate) entries: Vec<Entry>,
    /// Messages left out because there were too many.
    pub(crate) omitted: u64,
    /// Messages that came twice within a moment: the capture saw the same packet twice.
    pub(crate) copies: u64,
    /// The number of the call among all, by its first INVITE.
    pub(crate) number: u64,
    /// Who calls whom, or who registers (in `from`): addresses of record.
    pub(crate) from: Box<str>,
    pub(crate) to: Box<str>,
    /// The registrations of both when the call began.
    pub(crate) registrations: [Option<super::users::Registered>; 2],
    /// Who registers.
    pub(crate) user: Option<UserKey>,
    /// What further legs of a B2BUA would be known by.
    pub(crate) leg_keys: LegKeys,
    /// The last message.
    pub(crate) latest: Time,
    /// Whether an INVITE outside of a dialog was seen.
    pub(crate) is_call: bool,
    state: State,
}

/// Hashes of what the legs of a B2BUA's call have in common.
pub(crate) type LegKeys = [Option<NonZeroU64>; 3];

/// How far an exchange has come, as far as it decides how long to wait for more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// A request waits for its final response.
    Waiting,
    /// An INVITE was answered provisionally.
    Ringing,
    /// A call stands.
    Standing,
    /// A request was challenged: it is repeated when the user has entered credentials.
    Challenged,
    /// Nothing more is to come but retransmissions.
    Over,
}

/// What became of an entry handed to [`Exchange::add`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Added {
    /// A message that was not seen before.
    New,
    /// It was sent again.
    Retransmission,
    /// Another file saw it too, or the same capture saw the packet twice.
    SeenAgain,
}

impl Exchange {
    /// Messages kept of one exchange. Beyond it the middle is left out: beginnings and ends tell most.
    const MOST_ENTRIES: usize = 512;
    const KEPT_FROM_BEGINNING: usize = 128;
    const LEFT_OUT_AT_ONCE: usize = 128;
    /// Two packets of the same content so close together are one packet that the capture saw twice
    /// (an interface and the one beneath it): no timer of SIP is that short.
    const COPY_NANOSECONDS: i64 = 1_000_000;

    pub(crate) fn new(call_id: &[u8], time: Time, number: u64) -> Exchange {
        Exchange {
            call_ids: vec![text(call_id)],
            ends: Vec::with_capacity(4),
            entries: Vec::with_capacity(16),
            omitted: 0,
            copies: 0,
            number,
            from: Box::default(),
            to: Box::default(),
            registrations: [None; 2],
            user: None,
            leg_keys: LegKeys::default(),
            latest: time,
            is_call: false,
            state: State::Waiting,
        }
    }

    /// Adds a message; `leg` is the place of its Call-ID. Returns its place among the entries. `None` where it came
    /// from the hundreds of addresses that one Call-ID does not have.
    pub(crate) fn add(
        &mut self,
        event: &Event<'_>,
        carrier: &Carrier,
        peek: &Peek<'_>,
        leg: usize,
    ) -> Option<(Added, usize)> {
        let mut entry = Entry {
            sent: event.time,
            received: event.time,
            packet: event.packet,
            files: file_bit(event.file),
            branch: peek.branch,
            detail: peek.detail,
            cseq: peek.cseq,
            kind: peek.kind,
            method: peek.method,
            label: peek.label,
            source: self.end(event.source)?,
            destination: self.end(event.destination)?,
            depth: peek.depth + 64 * leg.min(2) as u8,
            transport: carrier.transport(),
            flags: Flags {
                in_dialog: peek.in_dialog,
                has_session_description: peek.has_session_description,
                is_retransmission: false,
            },
        };
        self.latest = self.latest.max(event.time);
        let bit = entry.files;
        // Whether this file has seen the message, and another file has one that this one lacks: the
        // nth time here is the nth time there.
        let mut last_here = None;
        let mut elsewhere = None;
        for (at, known) in self.entries.iter().enumerate() {
            if known.is_same_message(&entry) {
                if known.files & bit != 0 {
                    last_here = Some(at);
                } else if elsewhere.is_none() {
                    elsewhere = Some(at);
                }
            }
        }
        // Streams are read once by the reader, however often their packets come.
        if let Some(at) = last_here
            && *carrier == Carrier::Udp
            && (event.time - self.entries[at].received).abs() < Self::COPY_NANOSECONDS
        {
            self.copies += 1;
            return Some((Added::SeenAgain, at));
        }
        if let Some(at) = elsewhere {
            let known = &mut self.entries[at];
            known.files |= bit;
            known.sent = known.sent.min(event.time);
            known.received = known.received.max(event.time);
            return Some((Added::SeenAgain, at));
        }
        entry.flags.is_retransmission = last_here.is_some();
        self.advance(&entry);
        let added = match last_here {
            Some(_) => Added::Retransmission,
            None => Added::New,
        };
        Some((added, self.push(entry)))
    }

    /// How long to wait for more, in seconds from the latest message on; `None` for as long as there is
    /// anything to read.
    pub(crate) fn idle_timeout_seconds(&self) -> Option<u64> {
        match self.state {
            // Timers B and F of RFC 3261 give up after 32 s.
            State::Waiting => Some(34),
            // Phones ring for minutes; Timer C of a proxy is above three.
            State::Ringing => Some(600),
            State::Standing => None,
            // Nobody knows how long a user takes to type a password.
            State::Challenged => None,
            // Whoever missed the last message asks again within T2, 4 s.
            State::Over => Some(6),
        }
    }

    /// Forgets what was before a request that begins anew.
    pub(crate) fn forget_before(&mut self, cseq: u32) {
        self.entries.retain(|entry| entry.cseq >= cseq);
    }

    /// Whether the latest request of this method has its final response.
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Whether the latest request was challenged, and has not been repeated yet.
    pub(crate) fn is_challenged(&self) -> bool {
        self.state == State::Challenged
    }

    fn end(&mut self, endpoint: Endpoint) -> Option<u8> {
        let at = match self.ends.iter().position(|end| *end == endpoint) {
            Some(at) => at,
            None if self.ends.len() < usize::from(u8::MAX) => {
                self.ends.push(endpoint);
                self.ends.len() - 1
            }
            None => return None,
        };
        u8::try_from(at).ok()
    }

    /// Puts an entry where it belongs in time; returns where that is.
    fn push(&mut self, entry: Entry) -> usize {
        if self.entries.len() >= Self::MOST_ENTRIES {
            let left_out =
                Self::KEPT_FROM_BEGINNING..Self::KEPT_FROM_BEGINNING + Self::LEFT_OUT_AT_ONCE;
            self.entries.drain(left_out);
            self.omitted += Self::LEFT_OUT_AT_ONCE as u64;
        }
        // Several files need not be in step to the last nanosecond, one file is.
        if self
            .entries
            .last()
            .is_none_or(|last| last.sent <= entry.sent)
        {
            self.entries.push(entry);
            return self.entries.len() - 1;
        }
        let at = self
            .entries
            .iter()
            .rposition(|known| known.sent <= entry.sent)
            .map_or(0, |at| at + 1);
        self.entries.insert(at, entry);
        at
    }

    fn advance(&mut self, entry: &Entry) {
        let next = match (entry.kind, entry.method) {
            (Kind::Request, MethodCode::Invite) if !entry.flags.in_dialog => {
                self.is_call = true;
                match self.state {
                    State::Standing => return,
                    _ => State::Waiting,
                }
            }
            // Within a call that stands, only its end matters.
            _ if self.state == State::Standing && entry.method != MethodCode::Bye => return,
            (Kind::Request, MethodCode::Ack | MethodCode::Prack) => return,
            (Kind::Request, _) if self.state == State::Ringing => return,
            (Kind::Request, _) => State::Waiting,
            (Kind::Response(100..=199), MethodCode::Invite) => State::Ringing,
            (Kind::Response(100..=199), _) => return,
            (Kind::Response(200..=299), MethodCode::Invite) => State::Standing,
            (Kind::Response(_), MethodCode::Cancel) => return,
            (Kind::Response(_), method) if self.is_call && !ends_call(method) => return,
            // RFC 3261 section 22.1: the same request with credentials follows, with the next CSeq.
            (Kind::Response(401 | 407), _) => State::Challenged,
            (Kind::Response(_), _) => State::Over,
        };
        self.state = next;
    }
}

/// Whether a final response to this method may be the last of a call.
fn ends_call(method: MethodCode) -> bool {
    matches!(method, MethodCode::Invite | MethodCode::Bye)
}

/// A Call-ID, which was found to be UTF-8, as text.
pub(crate) fn text(call_id: &[u8]) -> Box<str> {
    match std::str::from_utf8(call_id) {
        Ok(text) => text.into(),
        Err(_) => String::from_utf8_lossy(call_id).into(),
    }
}

/// The bit that stands for a file; those beyond the thirtieth share one.
fn file_bit(file: usize) -> u32 {
    1 << file.min(31)
}
