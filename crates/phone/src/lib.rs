//! A phone: [`ua`] on the network of [`sip_net`], with the sound of [`media`].
//!
//! [`Phone`] is a handle: commands go in, events come out. A task owns the user agent; the sound of each call has a thread
//! of its own that sends and plays every 20 ms (`sound`). `negotiation` reads and writes offers and answers (RFC 3264);
//! `device` is where sound comes from and where it goes. `script` is what a program wants of a phone, `control` the socket by
//! which it gives commands.

#![forbid(unsafe_code)]

mod command;
mod config;
mod control;
mod device;
mod event;
mod negotiation;
mod phone;
mod routes;
mod running;
mod script;
mod sound;

pub use command::Command;
pub use config::PhoneConfig;
pub use control::ControlSocket;
pub use device::{DeviceError, Recorder, Source};
pub use event::{CallQuality, PhoneEvent};
pub use negotiation::{
    LocalMedia, Negotiated, NegotiationError, RefusedMedia, answer, offer, read_answer,
};
pub use phone::{Phone, PhoneError};
pub use script::{Script, ScriptOutcome, follow};
