//! Experiments: what runs, what is measured, and the published figures beside it.
//!
//! So far there is one, the [`demo`]: SIP calls through a proxy over UDP, TCP and SCTP on a network
//! that loses packets.
#![forbid(unsafe_code)]

pub mod demo;
mod published;
