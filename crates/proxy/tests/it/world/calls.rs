//! A call as one side sees it, and what it remembers of it afterwards.

use std::time::Instant;

use sip::Message;
use sip::dialog::{AnswerRetransmitter, Dialog};
use sip::transaction::{ClientId, ServerId};

/// A call that is under way.
#[derive(Debug)]
pub(crate) enum Call {
    /// We have invited and have no final response.
    Inviting {
        invite: Message,
        transaction: ClientId,
        /// A provisional response has come: a CANCEL may be sent.
        is_proceeding: bool,
        /// The caller gives up then, or is giving up and waits for what comes of it.
        patience: Instant,
        is_cancelled: bool,
    },
    /// We have been invited and have not answered.
    Ringing {
        invite: Message,
        transaction: ServerId,
        /// When the user answers (`true`) or refuses.
        decision: (Instant, bool),
    },
    /// Both sides are in it; as callee, perhaps without the ACK yet.
    Up {
        dialog: Box<Dialog>,
        /// The caller's ACK, to be repeated when the answer is.
        ack: Option<Message>,
        /// The callee's answer while there is no ACK.
        answer: Option<(Message, ServerId, AnswerRetransmitter)>,
        hang_up: Instant,
    },
    /// We have sent BYE.
    Ending(ClientId),
}

/// Which side of a call a phone is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Caller,
    Callee,
}

/// How a call has ended for one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The caller has had a final response other than 2xx, or none.
    Failed,
    /// The callee has refused, or has been cancelled or told that the caller is gone.
    Refused,
    /// It was answered and acknowledged, and is over.
    Established,
    /// The callee has answered and no ACK came.
    Unacknowledged,
    /// The caller has acknowledged and ended at once what a second phone, or one that was too late,
    /// has answered.
    Declined,
    /// The phone was restarted and knows nothing of it.
    Forgotten,
}
