//! Phones on loopback, with their own sockets and sound.

mod calls;
mod phones;
mod together;
