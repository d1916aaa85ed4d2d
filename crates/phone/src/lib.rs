//! A phone: [`ua`] on the network of [`sip_net`], with the sound of [`media`].
//!
//! [`Phone`] is a handle: commands go in, events come out. A task owns the user agent; the sound of each call has a thread
//! of its own that sends and plays every 20 ms (`sound`). `negotiation` reads and writes offers and answers (RFC 3264);
//! `device` is where sound comes from and where it goes, `mixing` how
//! several calls are heard together. `settings` reads `phone.toml`, `screen` is what a person sees, `expect` compares calls
//! with what was expected. `script` is what a program wants of a phone, `control` the socket by
//! which it gives commands.

#![forbid(unsafe_code)]

mod command;
mod config;
mod control;
mod device;
mod event;
mod expect;
mod mixing;
mod negotiation;
mod phone;
mod routes;
mod running;
mod screen;
mod script;
mod settings;
mod sound;

pub use command::Command;
pub use config::PhoneConfig;
pub use control::ControlSocket;
pub use device::{DeviceError, Recorder, Source};
pub use event::{CallQuality, PhoneEvent};
pub use expect::{Difference, Scenario, ScenarioError, check};
pub use mixing::Output;
pub use negotiation::{
    LocalMedia, Negotiated, NegotiationError, RefusedMedia, answer, offer, read_answer,
};
pub use phone::{Phone, PhoneError};
pub use screen::{Key, PhoneScreen, Wish};
pub use script::{Script, ScriptOutcome, follow};
pub use settings::{AccountSettings, Contact, Settings, SettingsError, read_password};
