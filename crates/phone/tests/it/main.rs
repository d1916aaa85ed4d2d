//! Phones on loopback, with their own sockets and sound.

mod associations;
mod calls;
mod control;
mod echo;
mod outbound;
mod peers;
mod phones;
mod protected;
mod together;
