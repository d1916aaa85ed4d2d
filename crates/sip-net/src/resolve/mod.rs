//! Where to send: the procedures of RFC 3263, by which a URI's host, port and transport become
//! addresses, with the DNS asked by hickory-resolver.
//!
//! - `locate` is the procedure itself, a function of the question and of the records that are known; it
//!   says which others it needs. `naptr` and `srv` know the rules of their records.
//! - `cache` keeps records for as long as their TTLs say, `health` remembers next hops that have failed.
//! - `dns` asks the name servers; `resolver` joins all of it.

mod cache;
mod config;
mod dns;
mod health;
mod locate;
mod naptr;
mod records;
mod resolver;
mod srv;

pub use config::ResolverConfig;
pub use health::{HopFailure, HopHealth};
pub use locate::{Hop, Question, Reach};
pub use resolver::{Resolver, ResolverStatistics};

#[cfg(test)]
mod tests;
