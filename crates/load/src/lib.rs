//! Emulated SIP users as cores, and the driver that carries them.
#![forbid(unsafe_code)]
