//! TCP on the virtual clock does what the laws say of it, and both transports bring what is sent.

mod congestion;
mod laws;
mod promises;
mod world;
