//! A phone: [`ua`] on the network of [`sip_net`], with the sound of [`media`].
//!
//! [`Phone`] is a handle: commands go in, events come out. A task owns the user agent; the sound of each call has a thread
//! of its own that sends and plays every 20 ms (`sound`). `negotiation` reads and writes offers and answers (RFC 3264);
//! `device` is where sound comes from and where it goes.

#![forbid(unsafe_code)]

mod command;
mod device;
mod event;
mod negotiation;
mod phone;
mod sound;

pub use command::Command;
pub use device::{DeviceError, Recorder, Source};
pub use event::{CallQuality, PhoneEvent};
pub use negotiation::{LocalMedia, Negotiated, NegotiationError, answer, offer, read_answer};
pub use phone::{Phone, PhoneConfig, PhoneError};
