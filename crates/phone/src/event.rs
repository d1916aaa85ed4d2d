//! What happens on a phone.

use media::rtcp_xr::{UNAVAILABLE, VoipMetrics};
use serde::Serialize;

/// How a call sounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CallQuality {
    /// Packets of sound that came.
    pub packets_received: u64,
    /// Packets of sound that left.
    pub packets_sent: u64,
    /// Packets that were not the other side's, not authentic, or came a second time.
    pub packets_dropped: u64,
    /// The part of the packets that was lost or came too late, from 0 to 1.
    pub lost: f64,
    /// The part of the packets that came too late, from 0 to 1.
    pub discarded: f64,
    /// The mean length of a burst of losses, in milliseconds (RFC 3611 section 4.7.2).
    pub burst_ms: f64,
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
    /// The suite by which packets are protected; none without SRTP.
    pub srtp: Option<&'static str>,
    /// What the other side reports of what it hears, in extended reports.
    pub remote: Option<RemoteQuality>,
}

/// What the other side hears (RFC 3611 section 4.7).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RemoteQuality {
    /// The part of our packets that the network lost, from 0 to 1.
    pub lost: f64,
    /// The part of our packets that came too late, from 0 to 1.
    pub discarded: f64,
    /// The mean length of a burst of losses, in milliseconds.
    pub burst_ms: u16,
    /// The other side's estimate of there and back, in milliseconds.
    pub round_trip_ms: u16,
    /// What its computer adds, in milliseconds: jitter buffer, packets.
    pub end_system_ms: u16,
    /// The loudness of our speech, in dBm0.
    pub signal_dbm0: Option<i8>,
    /// The rating R (ITU-T G.107).
    pub r_factor: Option<u8>,
    /// The mean opinion score, with delay.
    pub mos: Option<f64>,
}

impl From<&VoipMetrics> for RemoteQuality {
    fn from(metrics: &VoipMetrics) -> RemoteQuality {
        let known = |value: u8| (value != UNAVAILABLE).then_some(value);
        RemoteQuality {
            lost: f64::from(metrics.loss_rate) / 256.0,
            discarded: f64::from(metrics.discard_rate) / 256.0,
            burst_ms: metrics.burst_duration,
            round_trip_ms: metrics.round_trip_delay,
            end_system_ms: metrics.end_system_delay,
            signal_dbm0: (metrics.signal_level != UNAVAILABLE as i8)
                .then_some(metrics.signal_level),
            r_factor: known(metrics.r_factor),
            mos: known(metrics.mos_cq).map(|tenths| f64::from(tenths) / 10.0),
        }
    }
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
        /// Along so many flows (RFC 5626).
        flows: usize,
    },
    /// A flow of an account has failed, and is tried again after a while.
    FlowFailed {
        /// The account's number, from 0 on.
        account: usize,
        /// The place of its proxy among those of the account, from 0 on.
        flow: usize,
        /// How many flows are still registered.
        flows: usize,
    },
    /// Where an account is registered.
    Bindings {
        /// The account's number, from 0 on.
        account: usize,
        /// The URIs.
        contacts: Vec<String>,
    },
    /// Where an account is registered was not told.
    BindingsFailed {
        /// The account's number, from 0 on.
        account: usize,
        /// The status code.
        status: u16,
        /// The server's words.
        reason: String,
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
    /// This host has got another address, and the other side knows it.
    Moved {
        /// The call's number.
        call: u64,
        /// The address.
        address: String,
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
    /// Nothing has come from the other side for a time (`rtp_timeout`).
    RtpTimeout {
        /// The call's number.
        call: u64,
        /// For how long.
        seconds: u64,
    },
    /// The media cannot be protected as it was agreed: the call is hung up.
    NotProtected {
        /// The call's number.
        call: u64,
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
    /// One of the user's settings was changed by a command; all of them as they are from now on.
    Settings {
        /// Whether calls are answered with 486 at once.
        do_not_disturb: bool,
        /// Whether calls are answered at once.
        auto_answer: bool,
        /// Whether the calls that are answered hear each other.
        conference: bool,
    },
    /// A path of an SCTP association has failed, or works again. Calls go on along the others.
    Path {
        /// The address of the peer when the association came up.
        peer: String,
        /// Its address on the path.
        address: String,
        /// Whether the path works.
        works: bool,
    },
    /// An association of which a path had failed is over, or it has the path no more.
    PathRemoved {
        /// The address of the peer when the association came up.
        peer: String,
        /// Its address on the path.
        address: String,
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
