//! Phones on loopback, with their own sockets and sound.

mod associations;
mod calls;
mod control;
mod echo;
mod keys;
mod moving;
mod outbound;
mod peers;
mod phones;
mod protected;
#[cfg(feature = "sound")]
mod sound_devices;
mod together;
