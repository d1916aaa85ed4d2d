//! Names of messages.

use crate::packet::Mid;

/// Names a message of one direction of an association. Unordered messages in DATA chunks have no number of
/// their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageKey {
    pub(crate) stream: u16,
    pub(crate) unordered: bool,
    pub(crate) mid: Mid,
}
