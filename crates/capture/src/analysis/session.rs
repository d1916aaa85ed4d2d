//! A session: a call with the registrations of both users, by the timestamps of Adnan 2012.

use serde::{Serialize, Serializer};

use crate::{RtpStream, Time};

/// A message of a session whose time Adnan 2012 keeps, in the order of its table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Milestone {
    /// REGISTER of the caller, at the registrar.
    Register1,
    /// Its 200.
    Ok1,
    /// INVITE of the caller, at the first proxy.
    Invite1,
    /// 180 to the caller.
    Ringing,
    /// 200 for the INVITE, to the caller.
    SdpOk2,
    /// ACK of the caller.
    Ack,
    /// REGISTER of the callee, at the registrar.
    Register2,
    /// Its 200.
    Ok2,
    /// INVITE to the callee, from the last proxy.
    Invite2,
    /// 200 for the INVITE, from the callee.
    SdpOk1,
}

impl Milestone {
    /// All, in the order of Adnan 2012's table.
    pub const ALL: [Milestone; 10] = [
        Milestone::Register1,
        Milestone::Ok1,
        Milestone::Invite1,
        Milestone::Ringing,
        Milestone::SdpOk2,
        Milestone::Ack,
        Milestone::Register2,
        Milestone::Ok2,
        Milestone::Invite2,
        Milestone::SdpOk1,
    ];

    /// All, in the order in which they happen.
    pub const IN_TIME: [Milestone; 10] = [
        Milestone::Register1,
        Milestone::Ok1,
        Milestone::Register2,
        Milestone::Ok2,
        Milestone::Invite1,
        Milestone::Invite2,
        Milestone::Ringing,
        Milestone::SdpOk1,
        Milestone::SdpOk2,
        Milestone::Ack,
    ];

    /// The name of its column.
    pub fn name(self) -> &'static str {
        match self {
            Milestone::Register1 => "REGISTER1",
            Milestone::Ok1 => "200OK1",
            Milestone::Invite1 => "INVITE1",
            Milestone::Ringing => "RINGING",
            Milestone::SdpOk2 => "SDP_OK2",
            Milestone::Ack => "ACK",
            Milestone::Register2 => "REGISTER2",
            Milestone::Ok2 => "200OK2",
            Milestone::Invite2 => "INVITE2",
            Milestone::SdpOk1 => "SDP_OK1",
        }
    }
}

/// When each message of a session was at the server; `None` where it was not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamps([Option<Time>; 10]);

impl Timestamps {
    /// When a message was seen.
    pub fn get(&self, milestone: Milestone) -> Option<Time> {
        self.0[milestone as usize]
    }

    /// Notes when a message was seen; only the first time counts.
    pub fn set(&mut self, milestone: Milestone, time: Option<Time>) {
        let known = &mut self.0[milestone as usize];
        *known = known.or(time);
    }

    /// Nanoseconds from one message to another.
    pub fn between(&self, from: Milestone, to: Milestone) -> Option<i64> {
        Some(self.get(to)? - self.get(from)?)
    }
}

/// What became of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// Set up, and ended by a BYE that was answered.
    Completed,
    /// Set up; its BYE was never answered.
    NotEnded,
    /// Set up, and still standing when the capture ended.
    Standing,
    /// Refused with this status code, 3xx included. 487 is a call that the caller gave up.
    Refused(u16),
    /// Never answered: Timer B of RFC 3261 would have fired.
    Unanswered,
    /// Not decided when the capture ended.
    Undecided,
}

impl Outcome {
    /// One or two words.
    pub fn text(self) -> &'static str {
        match self {
            Outcome::Completed => "completed",
            Outcome::NotEnded => "not ended",
            Outcome::Standing => "standing",
            Outcome::Refused(487) => "cancelled",
            Outcome::Refused(300..=399) => "redirected",
            Outcome::Refused(_) => "refused",
            Outcome::Unanswered => "unanswered",
            Outcome::Undecided => "undecided",
        }
    }

    /// The status code of a refusal.
    pub fn status(self) -> Option<u16> {
        match self {
            Outcome::Refused(status) => Some(status),
            _ => None,
        }
    }

    /// Whether the call was set up.
    pub fn is_established(self) -> bool {
        matches!(
            self,
            Outcome::Completed | Outcome::NotEnded | Outcome::Standing
        )
    }

    /// Whether something went wrong: it was refused or not answered, or not ended as it should be.
    pub fn is_failure(self) -> bool {
        matches!(
            self,
            Outcome::NotEnded | Outcome::Refused(400..) | Outcome::Unanswered
        )
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

/// A session, as it stands in the tables.
#[derive(Clone, PartialEq, Debug)]
pub struct Session {
    /// Its number, in the order of the first INVITEs.
    pub number: u64,
    /// The Call-ID, and those of further legs behind a B2BUA. None in a text summary.
    pub call_ids: Vec<Box<str>>,
    /// The caller: its address of record, or in a text summary its address and port.
    pub from: Box<str>,
    /// The callee.
    pub to: Box<str>,
    /// The transport between caller and first proxy.
    pub transport: Option<sip::Transport>,
    /// When the first message of it was seen.
    pub began: Time,
    /// What became of it.
    pub outcome: Outcome,
    /// Adnan 2012's timestamps.
    pub timestamps: Timestamps,
    /// Nanoseconds of the session request delay (RFC 6076 section 4.3), of either kind.
    pub session_request_delay: Option<i64>,
    /// Nanoseconds of the session disconnect delay (RFC 6076 section 4.4).
    pub session_disconnect_delay: Option<i64>,
    /// Nanoseconds of the session duration time (RFC 6076 section 4.5).
    pub session_duration: Option<i64>,
    /// Messages on all hops, those sent again included.
    pub messages: u64,
    /// Of these, those sent again.
    pub retransmissions: u64,
    /// The media of the call.
    pub rtp: Vec<RtpStream>,
}

impl Session {
    /// Time that the registrar took for the caller's REGISTER.
    pub fn register_delay_1(&self) -> Option<i64> {
        self.timestamps
            .between(Milestone::Register1, Milestone::Ok1)
    }

    /// Time that the registrar took for the callee's REGISTER.
    pub fn register_delay_2(&self) -> Option<i64> {
        self.timestamps
            .between(Milestone::Register2, Milestone::Ok2)
    }

    /// Time that the proxy took for the INVITE: from receiving to forwarding it.
    pub fn invite_delay(&self) -> Option<i64> {
        self.timestamps
            .between(Milestone::Invite1, Milestone::Invite2)
    }

    /// Whether the call was declined: refused, redirected or given up. What it lacks was never sent, so that nothing of it was
    /// lost. A 408 for a call that did not ring declines nothing: whoever sends it has waited in vain.
    pub fn is_declined(&self) -> bool {
        match self.outcome {
            Outcome::Refused(408) => self.timestamps.get(Milestone::Ringing).is_some(),
            Outcome::Refused(_) => true,
            _ => false,
        }
    }

    /// Whether what it lacks was lost: it was decided, and not [declined](Session::is_declined).
    pub fn can_be_lost(&self) -> bool {
        self.outcome != Outcome::Undecided && !self.is_declined()
    }

    /// Call set-up delay: from the INVITE to the ACK, at the proxy.
    pub fn call_setup_delay(&self) -> Option<i64> {
        self.timestamps.between(Milestone::Invite1, Milestone::Ack)
    }
}
