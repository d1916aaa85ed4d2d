//! Records of attempts that have ended: calls, registrations, other requests.
//!
//! An engine hands out a record when an attempt has ended. Everything that statistics say is made of
//! records; an engine keeps none.

use std::fmt;
use std::time::{Duration, Instant};

use sip::Method;

use crate::script::ScriptId;

/// The record of one attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A call of ours was set up and is going to be held: what is known of it so far, its outcome still
    /// [`Outcome::Unfinished`]. It lets statistics be of now where calls are held for long. The
    /// [`Record::Call`] that follows has [`CallRecord::is_setup_recorded`] set. An engine leaves it out
    /// where the call ends at once.
    Established(CallRecord),
    /// A call: its script sends or receives an INVITE.
    Call(CallRecord),
    /// A REGISTER and its response.
    Registration(RegistrationRecord),
    /// Any other request and its response.
    Request(RequestRecord),
}

impl Record {
    /// What records of every kind say.
    pub fn attempt(&self) -> &Attempt {
        match self {
            Record::Established(record) | Record::Call(record) => &record.attempt,
            Record::Registration(record) => &record.attempt,
            Record::Request(record) => &record.attempt,
        }
    }
}

/// What records of every kind say.
///
/// Times are counted from [`begun`](Attempt::begun). What a message ends is timed by when the batch that it
/// came in was read, not by when its turn came.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Which script it was a run of.
    pub script: ScriptId,
    /// Our user's party: the caller, or the callee of an attempt that a peer has begun.
    pub party: Party,
    /// The number of our user; 0 where it is none of the emulated ones.
    pub user: u32,
    /// The number of the user at the other end; 0 where it is not known.
    pub peer: u32,
    /// The Call-ID.
    pub call_id: CallId,
    /// When it should have begun by the schedule. On the side that is called: as `begun`.
    pub due: Instant,
    /// When its first request was written, or came.
    pub begun: Instant,
    /// When it was over.
    pub ended: Duration,
    /// How it ended.
    pub outcome: Outcome,
    /// The final status of its (first) request: of the INVITE of a call, after authentication where that
    /// was asked for. `None` where there was none.
    pub status: Option<u16>,
    /// Messages that we sent more than once, each repetition counted (RFC 3261 section 17).
    pub retransmissions: u32,
    /// How often a request was repeated with credentials because a 401 or 407 had asked for them.
    pub authentications: u8,
    /// The times that a scenario takes by itself, by the number of its timer: from the first start to
    /// the first stop. Empty where it takes none.
    pub timers: Vec<Option<Duration>>,
}

impl Attempt {
    /// How much later it began than it should have: the lateness of the generator itself.
    pub fn lateness(&self) -> Duration {
        self.begun.saturating_duration_since(self.due)
    }

    /// Whether everything went as the script wants it.
    pub fn is_completed(&self) -> bool {
        self.outcome == Outcome::Completed
    }
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRecord {
    /// What records of every kind say.
    pub attempt: Attempt,
    /// When the first INVITE was sent: zero, but where the script pauses or sends something else before.
    /// On the side that is called: zero.
    pub first_invited: Duration,
    /// When the INVITE was sent that got the final response: as the first, but where one with credentials
    /// had to follow. On the side that is called: zero.
    pub invited: Duration,
    /// The INVITE came to its callee, where the same engine plays that one too.
    pub reached: Option<Duration>,
    /// The first provisional response of any kind, 100 included.
    pub first_provisional: Option<Duration>,
    /// The first provisional response other than 100, which tells how the request stands (RFC 6076
    /// section 4.3.1); a 180 as a rule.
    pub progress: Option<Duration>,
    /// The final response to the INVITE; what it was is [`Attempt::status`].
    pub answered: Option<Duration>,
    /// The ACK to the 2xx was sent, or came.
    pub acknowledged: Option<Duration>,
    /// The (first) BYE was sent, or came.
    pub bye: Option<Duration>,
    /// Whether it came from the other end: whose delay its answer shows is theirs to measure (RFC 6076
    /// section 4.4).
    pub is_bye_from_peer: bool,
    /// The final response to the BYE.
    pub bye_answered: Option<Duration>,
    /// What that response was.
    pub bye_status: Option<u16>,
    /// Whether [`Record::Established`] was given for it.
    pub is_setup_recorded: bool,
}

impl CallRecord {
    /// How long after the first INVITE something was: what a user waits for (RFC 6076 section 4.3.1 has
    /// delays begin with the initial INVITE).
    pub fn since_first_invite(&self, time: Duration) -> Duration {
        time.saturating_sub(self.first_invited)
    }
}

/// A REGISTER and its response.
#[derive(Clone, Debug, PartialEq)]
pub struct RegistrationRecord {
    /// What records of every kind say.
    pub attempt: Attempt,
    /// Whether the user was registered when it began: a refresh.
    pub is_refresh: bool,
    /// The final response.
    pub answered: Option<Duration>,
    /// For how long the registrar holds the binding, by its 200.
    pub expires: Option<Duration>,
}

/// A request that is neither an INVITE nor a REGISTER, and its response.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRecord {
    /// What records of every kind say.
    pub attempt: Attempt,
    /// The method.
    pub method: Method,
    /// The final response.
    pub answered: Option<Duration>,
}

/// The calling or the called party.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Party {
    /// Our user: [`Engine::begin`](crate::engine::Engine::begin).
    Caller,
    /// A peer, by a request that we received.
    Callee,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// As the script wants it.
    Completed,
    /// Otherwise.
    Failed(Failure),
    /// It was under way when the engine was told to forget it.
    Unfinished,
}

/// Why an attempt failed: the first thing that was not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Failure {
    /// A request was answered with a status that the script does not want; which is in the record, where
    /// it was the (first) request of the attempt.
    Refused,
    /// No final response: Timer B or F (RFC 3261 sections 17.1.1.2 and 17.1.2.2), or what the script
    /// waits for did not come in the time that the script gives it.
    NoResponse,
    /// Nobody answered the call in time and it was cancelled.
    GivenUp,
    /// The caller cancelled before we answered.
    Cancelled,
    /// Our 2xx or other final response to an INVITE was not acknowledged in 64·T1 (Timer H; RFC 3261
    /// section 13.3.1.4).
    NoAck,
    /// The peer hung up where the script does not expect it.
    HungUp,
    /// A message came that the script does not expect.
    Unexpected,
    /// A credential was refused, or none was there that could be given.
    Unauthorized,
    /// The connection was lost.
    ConnectionLost,
    /// A check of the script failed.
    Check,
    /// The script went on and on without waiting for anything, or a message that it writes has no room.
    Script,
    /// The far end's message lacks what is needed to go on: a 2xx without To tag or Contact.
    Malformed,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Failure::Refused => "refused",
            Failure::NoResponse => "no response",
            Failure::GivenUp => "given up",
            Failure::Cancelled => "cancelled",
            Failure::NoAck => "no ACK",
            Failure::HungUp => "hung up",
            Failure::Unexpected => "unexpected message",
            Failure::Unauthorized => "unauthorized",
            Failure::ConnectionLost => "connection lost",
            Failure::Check => "check failed",
            Failure::Script => "script does not wait",
            Failure::Malformed => "malformed message",
        })
    }
}

/// A Call-ID: the numbers in one that an engine of ours has written, or the text of another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallId {
    /// Written by an engine: shown as it is in the messages.
    Ours {
        /// What tells this engine from others.
        engine: u64,
        /// Which of its runs, or which user's series of registrations.
        number: u64,
        /// Whether it is that of a user's registrations.
        is_registration: bool,
    },
    /// Any other.
    Other(Box<str>),
}
