//! What happens on a phone.

use serde::Serialize;

/// How a call sounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CallQuality {
    /// Packets of sound that came.
    pub packets_received: u64,
    /// Packets of sound that left.
    pub packets_sent: u64,
    /// The part of the packets that was lost or came too late, from 0 to 1.
    pub lost: f64,
    /// The jitter of their arrival, in milliseconds (RFC 3550 section 6.4.1).
    pub jitter_ms: f64,
    /// From the arrival of the fastest packets to the playing, in milliseconds.
    pub buffer_ms: f64,
    /// There and back, in milliseconds; told by reports (RFC 3550 section 6.4.1).
    pub round_trip_ms: Option<f64>,
    /// The loudness of what was heard last, in decibels below the loudest.
    pub heard_db: f64,
    /// The loudness of what was sent last, in decibels below the loudest.
    pub sent_db: f64,
    /// The mean opinion score, estimated: 4.4 at best (ITU-T G.107).
    pub mos: f64,
}

/// Something that happened. As JSON it is an object whose `event` is its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum PhoneEvent {
    /// An account is registered.
    Registered {
        /// The account's number, from 0 on.
        account: usize,
        /// For so many seconds; it is renewed before.
        expires: u32,
    },
    /// An account is no more registered.
    Unregistered {
        /// The account's number, from 0 on.
        account: usize,
    },
    /// A registration was refused, or nobody answered.
    RegistrationFailed {
        /// The account's number, from 0 on.
        account: usize,
        /// The status code.
        status: u16,
        /// The server's words.
        reason: String,
    },
    /// We call.
    Dialing {
        /// The call's number.
        call: u64,
        /// Whom.
        to: String,
    },
    /// The other side of our call is alerted, or sends sound before it answers.
    Progress {
        /// The call's number.
        call: u64,
        /// The status code.
        status: u16,
        /// The other side's words.
        reason: String,
    },
    /// A call came.
    Incoming {
        /// The call's number.
        call: u64,
        /// The account that it is for.
        account: usize,
        /// The caller's URI.
        from: String,
        /// The caller's name.
        display_name: Option<String>,
    },
    /// A call is answered.
    Answered {
        /// The call's number.
        call: u64,
        /// The codec.
        codec: String,
    },
    /// The other side has put the call on hold, or goes on.
    Held {
        /// The call's number.
        call: u64,
        /// Whether it is on hold.
        held: bool,
    },
    /// Our change of the session was answered.
    Changed {
        /// The call's number.
        call: u64,
        /// Whether it was accepted.
        accepted: bool,
    },
    /// The other side pressed a key.
    Key {
        /// The call's number.
        call: u64,
        /// Its sign.
        key: char,
    },
    /// What was to be played has been played.
    Played {
        /// The call's number.
        call: u64,
    },
    /// How a call sounds, again and again (by default every five seconds).
    Quality {
        /// The call's number.
        call: u64,
        /// How.
        #[serde(flatten)]
        quality: CallQuality,
    },
    /// The other side asks us to call somebody else.
    TransferRequested {
        /// The call's number.
        call: u64,
        /// Whom.
        target: String,
    },
    /// How the other side gets on with a transfer that we asked for.
    TransferProgress {
        /// The call's number.
        call: u64,
        /// The status code of the call to the third.
        status: u16,
    },
    /// A text came.
    Text {
        /// The account that it is for.
        account: usize,
        /// The sender's URI.
        from: String,
        /// The text.
        text: String,
    },
    /// What became of a text of ours.
    TextSent {
        /// The status code.
        status: u16,
    },
    /// Messages wait in the mailbox, or none do.
    MessagesWaiting {
        /// The account.
        account: usize,
        /// Whether there are any.
        waiting: bool,
    },
    /// A call is over.
    Ended {
        /// The call's number.
        call: u64,
        /// Why: `local`, `remote`, `refused`, `replaced`, `timeout`.
        reason: &'static str,
        /// The status with which it was refused.
        status: Option<u16>,
        /// How it sounded, if there was sound.
        quality: Option<CallQuality>,
    },
    /// Events came faster than they were read; these are not told any more.
    Missed {
        /// How many.
        count: u64,
    },
    /// A command could not be followed.
    Refused {
        /// Why.
        problem: String,
    },
}
