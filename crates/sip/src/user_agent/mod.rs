//! Enough of a user agent core to register, call and hang up (RFC 3261 sections 8, 9, 10, 11, 13, 15).

use crate::Message;

/// The CANCEL for a request that was sent (RFC 3261 section 9.1).
#[expect(clippy::todo, unused_variables, reason = "laid out first, filled in next")]
pub fn cancel_of(request: &Message) -> Message { todo!() }
