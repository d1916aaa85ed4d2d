//! Core: M3UA (RFC 4666), the signalling of SS7's MTP3 users over SCTP.
//!
//! A [`SignallingProcess`] is an SGP, an ASP, an IPSP or several of them: with its peers, application servers and routes. It does
//! no I/O: it is fed with messages, notifications of associations, primitives and the time, and polled for what is to be done.
//!
//! # Parts
//!
//! `engine` is the signalling process: states, routes, and what is told to whom. [`message`] is the wire format: every message and
//! parameter, read leniently. `point_code` reads and writes the point codes of ITU, ANSI, China and Japan. [`label`] names what a
//! message of an MTP3 user is (ISUP, SCCP and TCAP in it), for display.
//!
//! `docs/m3ua.md` names code and test of every requirement of the RFC.
#![forbid(unsafe_code)]

mod engine;
pub mod label;
pub mod message;
mod point_code;

pub use engine::{
    Activation, ApplicationServerConfig, AsId, AsState, AspState, Availability, Config,
    ConfigError, Destination, DropReason, Flow, KeySelection, ManagementIndication, MemberConfig,
    MtpIndication, MtpStatus, Network, NetworkId, Output, PeerConfig, PeerId, PeerRole,
    Reachability, Registration, Route, ServedBy, SgId, SignallingProcess, Statistics, Traffic,
    TransferError, Via,
};
pub use point_code::{MaskedPointCode, PointCode, PointCodeError, Variant, WrittenPointCode};
