//! Emulated SIP users: callers that call, callees that answer, and what they measure.
//!
//! The [`core`] holds the users and does no I/O; [`Load`] joins it to sockets. User *i* of *n* callers
//! (1 to n) calls user *n + i*.
#![forbid(unsafe_code)]

pub mod arrivals;
pub mod capacity;
pub mod core;
pub mod driver;
pub mod engine;
pub mod media;
pub mod record;
pub mod scenario;
pub mod script;
pub mod statistics;
mod wire;

pub use core::{CallPlan, Pace, Stop};
pub use statistics::{CallResults, Delays, RegistrationResults};
pub use wire::{Connections, Load, LoadConfig, LoadError};
