//! The events that make a session go on: a message, or a timer.

use super::config::ConnectionId;
use super::received::Received;
use super::time::{Moment, Time};

/// The event that a session handles: a message, or a timer.
#[derive(Clone, Copy)]
pub(super) struct Trigger<'a> {
    pub(super) moment: Moment,
    /// The message that its step has taken.
    pub(super) message: Option<&'a Received<'a>>,
    /// By which connection a message came.
    pub(super) connection: Option<ConnectionId>,
}

impl Trigger<'_> {
    /// A timer.
    pub(super) fn at(now: Time) -> Trigger<'static> {
        Trigger {
            moment: Moment { now, received: now },
            message: None,
            connection: None,
        }
    }
}
