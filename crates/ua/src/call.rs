//! What is known of a call.

use std::time::{Duration, Instant};

use bytes::Bytes;
use sip::dialog::{AnswerRetransmitter, Dialog};
use sip::transaction::{ClientId, ServerId};
use sip::{Flow, Message};

use crate::description::Description;
use crate::event::{AccountId, CallNumber, EndReason};
use crate::proofs::Proofs;
use crate::route::Route;
use crate::session_timer::SessionTimer;

/// A call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) number: CallNumber,
    pub(crate) account: AccountId,
    /// What we said last of our side of the session.
    pub(crate) description: Bytes,
    /// Our descriptions have keys: they leave over TLS alone.
    pub(crate) is_secret: bool,
    pub(crate) stage: Stage,
    pub(crate) dialog: Option<Dialog>,
    pub(crate) timer: Option<SessionTimer>,
    /// An INVITE or UPDATE of ours in the dialog is under way, or waits to be sent again.
    pub(crate) offer: Offer,
    /// A re-INVITE or UPDATE of the other side that is to be answered.
    pub(crate) offered: Option<Offered>,
    /// Our 2xx to an INVITE, until its ACK comes.
    pub(crate) answer: Option<SentAnswer>,
    /// RSeq and CSeq of the reliable provisional response whose PRACK had not come when we answered.
    pub(crate) late_prack: Option<(u32, Option<u32>)>,
    /// The INVITE of ours that was answered: other forks may answer it, too.
    pub(crate) invite: Option<Message>,
    /// Our last ACK and its way, for 2xx that come again.
    pub(crate) ack: Option<(Message, Route)>,
    /// Whether the other side understands UPDATE.
    pub(crate) takes_update: bool,
    /// A REFER came, and the third is being called, or is about to be.
    pub(crate) referred: Option<Referred>,
    /// REFERs of ours whose outcome has not been told: each makes a subscription (RFC 3515 section 2.4.4).
    pub(crate) refers: u8,
    /// Challenges that requests of the dialog were answered with.
    pub(crate) proofs: Proofs,
    /// The ACK to a 2xx with an offer, which waits for the answer.
    pub(crate) unanswered: Option<Message>,
    /// The call by which this one was asked for: it hears how this one gets on (RFC 3515 section 2.4.4).
    pub(crate) reports_to: Option<CallNumber>,
}

/// How far a call is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// We call.
    Calling(Box<Outgoing>),
    /// We are called and have not answered.
    Ringing(Box<Ringing>),
    /// It is answered.
    Up,
}

/// A call of ours that is not answered yet.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The INVITE without Via, once it is written.
    pub(crate) invite: Option<Message>,
    pub(crate) transaction: Option<ClientId>,
    /// A provisional response came: a CANCEL may be sent (RFC 3261 section 9.1).
    pub(crate) is_proceeding: bool,
    pub(crate) is_cancelled: bool,
    /// It is cancelled because another call takes its place.
    pub(crate) is_replaced: bool,
    /// When it is over although no final response has followed the CANCEL.
    pub(crate) given_up_at: Option<Instant>,
    /// The forks that have sent provisional responses.
    pub(crate) early: Vec<Early>,
    /// URIs to call if this one sends us there, the best one last.
    pub(crate) redirections: Vec<String>,
    /// Addresses called so far.
    pub(crate) attempts: u8,
    /// The URI that is called.
    pub(crate) target: String,
    /// The value of Replaces.
    pub(crate) replaces: Option<String>,
    /// The shortest session interval that somebody on the way takes, in seconds, once it was told (RFC 4028 section 7.3).
    pub(crate) least_interval: Option<u64>,
    /// Outbound proxies that have failed.
    pub(crate) skipped: usize,
    /// The INVITE left from an address of ours that is not used any more: its connection may be lost with that.
    pub(crate) has_moved: bool,
    /// The INVITE before this one, whose names are kept (RFC 3261 section 8.1.3.4).
    pub(crate) before: Option<Message>,
}

/// An early dialog of ours.
#[derive(Debug)]
pub(crate) struct Early {
    pub(crate) dialog: Dialog,
    /// The RSeq of the last reliable provisional response (RFC 3262 section 4).
    pub(crate) rseq: Option<u32>,
    /// The answer to our offer came with a reliable provisional response.
    pub(crate) has_answer: bool,
}

/// A call that came and is not answered yet.
#[derive(Debug)]
pub(crate) struct Ringing {
    pub(crate) transaction: ServerId,
    pub(crate) invite: Message,
    pub(crate) flow: Flow,
    /// Our tag.
    pub(crate) tag: String,
    pub(crate) reliable: Option<Reliable>,
    /// The last RSeq that was used.
    pub(crate) rseq: u32,
    /// The call whose place it takes.
    pub(crate) replaces: Option<CallNumber>,
    /// Our answer, which waits for the PRACK to a description before it (RFC 3262 section 3).
    pub(crate) answered: Option<Description>,
    /// When it is refused because nobody has answered it.
    pub(crate) until: Instant,
}

/// A provisional response that is sent until its PRACK comes (RFC 3262 section 3).
#[derive(Debug)]
pub(crate) struct Reliable {
    pub(crate) response: Message,
    pub(crate) next: Instant,
    pub(crate) interval: Duration,
    pub(crate) end: Instant,
}

/// Our 2xx to an INVITE.
#[derive(Debug)]
pub(crate) struct SentAnswer {
    pub(crate) transaction: ServerId,
    pub(crate) response: Message,
    pub(crate) retransmitter: AnswerRetransmitter,
}

/// An offer of ours within the dialog.
#[derive(Debug, Default)]
pub(crate) enum Offer {
    /// None.
    #[default]
    None,
    /// It is under way.
    Sent {
        /// What it says.
        description: Bytes,
        /// It only refreshes the session: nobody asked for it.
        is_refresh: bool,
    },
    /// The other side had one at the same time: ours is made again then (RFC 3261 section 14.1).
    Postponed {
        /// What it says.
        description: Bytes,
        is_refresh: bool,
        /// When.
        until: Instant,
    },
}

/// An offer of the other side within the dialog.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(crate) transaction: ServerId,
    pub(crate) request: Message,
    pub(crate) flow: Flow,
}

/// A REFER that came (RFC 3515).
#[derive(Debug)]
pub(crate) struct Referred {
    /// It has not been answered.
    pub(crate) transaction: Option<ServerId>,
    pub(crate) request: Message,
    pub(crate) flow: Flow,
    /// Whether it was accepted.
    pub(crate) is_accepted: bool,
    /// When something is to be said although nobody has decided: first that it is pending, at last that nobody will.
    pub(crate) due: Option<Instant>,
}

impl Outgoing {
    /// Why it ends if it is cancelled.
    pub(crate) fn cancel_reason(&self) -> EndReason {
        match self.is_replaced {
            true => EndReason::Replaced,
            false => EndReason::Local,
        }
    }
}

impl Ringing {
    /// RSeq and CSeq of the reliable provisional response whose PRACK has not come yet.
    pub(crate) fn awaited_prack(&self) -> Option<(u32, Option<u32>)> {
        self.reliable.as_ref()?;
        Some((self.rseq, self.invite.cseq_number()))
    }
}

impl Call {
    pub(crate) fn new(number: CallNumber, account: AccountId, stage: Stage) -> Call {
        Call {
            number,
            account,
            description: Bytes::new(),
            is_secret: false,
            stage,
            dialog: None,
            timer: None,
            offer: Offer::None,
            offered: None,
            answer: None,
            late_prack: None,
            invite: None,
            ack: None,
            takes_update: false,
            referred: None,
            refers: 0,
            proofs: Proofs::default(),
            unanswered: None,
            reports_to: None,
        }
    }

    /// When something is to be done without anybody asking for it.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let stage = match &self.stage {
            Stage::Ringing(ringing) => {
                let reliable = ringing.reliable.as_ref().map(|one| one.next.min(one.end));
                Some(reliable.map_or(ringing.until, |due| due.min(ringing.until)))
            }
            Stage::Calling(outgoing) => outgoing.given_up_at,
            Stage::Up => None,
        };
        let answer = self
            .answer
            .as_ref()
            .map(|answer| answer.retransmitter.next_timeout());
        let timer = self.timer.map(|timer| timer.due());
        let offer = match &self.offer {
            Offer::Postponed { until, .. } => Some(*until),
            Offer::None | Offer::Sent { .. } => None,
        };
        let referred = self.referred.as_ref().and_then(|referred| referred.due);
        [stage, answer, timer, offer, referred]
            .into_iter()
            .flatten()
            .min()
    }
}
