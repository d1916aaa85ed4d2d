//! Enough of a user agent core to register, call and hang up (RFC 3261 sections 8 to 11, 13, 15).

pub use crate::hop_by_hop::cancel_of;
