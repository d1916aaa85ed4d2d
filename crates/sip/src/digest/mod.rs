//! Digest access authentication (RFC 3261 section 22, RFC 7616, RFC 8760): what challenges, credentials
//! and confirmations say, and the hashes in them.
//!
//! Both sides are here. A server reads an [`Authorization`] and asks whether it
//! [is proved](Authorization::is_proved_by) that its sender knows the password; a client
//! [answers](answer) challenges. Which nonces are good, and who may do what, is the server's business and
//! not known here. The session variants of the algorithms and `auth-int` are not offered, and challenges
//! that offer nothing else are passed over, as RFC 8760 section 2.4 has it for what is not understood.

mod algorithm;
mod authorization;
mod challenge;
mod client;
mod confirmation;
mod credentials;
mod protection;
mod response;
mod syntax;

pub use algorithm::{Algorithm, Hash, UnknownAlgorithm};
pub use authorization::Authorization;
pub use challenge::Challenge;
pub use client::answer;
pub use confirmation::Confirmation;
pub use credentials::{Account, Credentials};
pub use protection::Protection;
pub use syntax::DigestError;

#[cfg(test)]
mod tests;
