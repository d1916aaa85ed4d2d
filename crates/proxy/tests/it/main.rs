//! The integration tests of `proxy`, all in one program: each module is a topic.

mod amplification;
mod authentication;
mod common;
mod dialogs;
#[cfg(feature = "driver")]
mod extending;
mod forking;
mod hooks;
mod hostile;
#[cfg(feature = "driver")]
mod identified;
#[cfg(feature = "driver")]
mod keep_alives;
mod newcomers;
#[cfg(feature = "driver")]
mod next_hops;
mod overload;
#[cfg(feature = "plugins")]
mod plugins;
mod recursion;
mod redirect;
mod registrar;
mod registrar_extensions;
mod requests;
mod rfc3665;
mod rfc4475;
mod rfc5118;
mod routing;
mod rules;
#[cfg(feature = "driver")]
mod server;
mod silence;
mod stateless;
mod together;
mod trust;
mod unproved;
mod workers;
mod world;
