//! Phones on loopback, with their own sockets and sound.

mod calls;
mod peers;
mod phones;
mod together;
