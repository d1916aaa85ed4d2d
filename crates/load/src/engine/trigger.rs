//! What makes a session go on: a message, or the time.

use super::config::ConnectionId;
use super::received::Received;
use super::time::{Moment, Time};

/// What a session does something because of.
#[derive(Clone, Copy)]
pub(super) struct Trigger<'a> {
    pub(super) moment: Moment,
    /// The message that its step has taken.
    pub(super) message: Option<&'a Received<'a>>,
    /// By which connection a message came.
    pub(super) connection: Option<ConnectionId>,
}

impl Trigger<'_> {
    /// The time alone.
    pub(super) fn at(now: Time) -> Trigger<'static> {
        Trigger {
            moment: Moment { now, received: now },
            message: None,
            connection: None,
        }
    }
}
