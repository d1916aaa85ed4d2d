//! The results of a receive call.

use std::net::SocketAddr;

use sctp::{AssociationId, ReceivedMessage};

use super::notification::KernelNotification;

/// What was received.
pub(super) enum Received {
    Message(AssociationId, ReceivedMessage),
    Notification(Option<SocketAddr>, KernelNotification),
    /// Nothing to go on with, but there may be more.
    Nothing,
}
