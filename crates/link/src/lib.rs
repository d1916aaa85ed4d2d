//! Core: what a network link does to packets.
#![forbid(unsafe_code)]
