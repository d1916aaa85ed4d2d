//! Digest access authentication (RFC 3261 section 22, RFC 7616, RFC 8760): what challenges, credentials
//! and confirmations say, and the hashes in them.

mod algorithm;
mod credentials;

pub use algorithm::{Algorithm, Hash, UnknownAlgorithm};
pub use credentials::Credentials;
