//! The transaction layer: every machine of RFC 3261 section 17 with the corrections of RFC 6026.

mod id;

pub use id::{ClientId, ServerId, TransactionKey};
