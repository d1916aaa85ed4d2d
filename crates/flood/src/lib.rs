//! Floods against an SCTP listener of one's own, to see that it stays up: INITs from forged
//! addresses, INIT and COOKIE ECHO from peers that then vanish, and cookies that are replayed or
//! altered (RFC 9260 sections 5.1.3, 5.1.5 and 12.2.4.1).
//!
//! [`Attack`] is the attacker without I/O: it makes packets and answers those of the target, and
//! keeps nothing of any association. [`run()`] sends them, at a rate, bounded in number and time,
//! and lets a real client try to get in meanwhile. A target that is neither on loopback nor within
//! a testbed of `tandem net` is refused ([`check_target`]).
//!
//! [`run_syns`] sends what a kernel's TCP listener has in its place: SYNs from forged addresses.
#![forbid(unsafe_code)]

mod attack;
mod carrier;
mod limits;
mod permission;
mod probe;
mod run;
mod syn;

pub use attack::{Attack, Attempt, Counts, Kind};
pub use carrier::Over;
pub use limits::{
    DEFAULT_COUNT, DEFAULT_RATE, Limits, LimitsError, MOST_PACKETS, MOST_PER_SECOND, MOST_SECONDS,
};
pub use permission::{Refused, check_target};
pub use probe::{Probe, ProbeConfig, ProbeResult};
pub use run::{Config, Report, run};
pub use syn::{SynConfig, SynReport, run_syns};
