//! A phone: [`ua`] on the network of [`sip_net`], with the sound of [`media`].
//!
//! [`Phone`] is a handle: commands go in, events come out. A task owns the user agent; the sound of each call has a thread
//! of its own that sends and plays every 20 ms (`sound`). `negotiation` reads and writes offers and answers (RFC 3264);
//! `device` is where sound comes from and where it goes, `mixing` how
//! several calls are heard together, `played` what microphones capture of that as an echo. `media_path` protects packets and
//! finds their way: descriptions (`media::sdes`) and `dtls` are where keys come from, `ice` checks paths, `ports` are those of a call, and `stun` tells
//! where others see them. `routes` asks the kernel for our addresses. `settings` reads `phone.toml`, `screen` is what a person sees, `expect` compares calls
//! with what was expected; `memory` is what is kept from one run to the next. `script` is what a program wants of a phone, `control` the socket by
//! which it gives commands.

#![forbid(unsafe_code)]

mod command;
mod config;
mod control;
mod device;
mod device_error;
mod dtls;
mod event;
mod event_names;
mod expect;
mod ice;
mod media_config;
mod media_path;
mod memory;
mod mixing;
mod negotiation;
mod paths;
mod phone;
mod played;
mod ports;
mod routes;
mod running;
mod screen;
mod script;
mod settings;
mod sound;
mod sound_card;
mod stun;

pub use command::Command;
pub use config::PhoneConfig;
pub use control::ControlSocket;
pub use device::{Recorder, Source};
pub use device_error::DeviceError;
pub use event::{CallQuality, PhoneEvent, RemoteQuality};
pub use expect::{Difference, Scenario, ScenarioError, check};
pub use ice::{Candidate, IceCredentials, IceSession};
pub use media_config::{MediaConfig, Srtp, SrtpKeys};
pub use memory::{Memory, new_instance};
pub use mixing::Output;
pub use negotiation::{
    Fingerprint, LocalMedia, LocalProtection, Negotiated, NegotiationError, RefusedMedia, Security,
    Settled, answer, offer, read_answer,
};
pub use phone::{Phone, PhoneError};
pub use screen::{Key, PhoneScreen, Wish};
pub use script::{Script, ScriptOutcome, follow};
pub use settings::{AccountSettings, Contact, Settings, SettingsError, read_password};
pub use stun::MappedAddresses;
