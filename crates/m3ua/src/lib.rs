//! Core: M3UA (RFC 4666), the signalling of SS7's MTP3 users over SCTP.
//!
//! # Parts
//!
//! [`message`] is the wire format: every message and parameter, read leniently. `point_code` reads and writes the point codes
//! of ITU, ANSI, China and Japan. [`label`] names what a message of an MTP3 user is (ISUP, SCCP and TCAP in it), for display.
#![forbid(unsafe_code)]

pub mod label;
pub mod message;
mod point_code;

pub use point_code::{MaskedPointCode, PointCode, PointCodeError, Variant, WrittenPointCode};
