//! Tests alone: every extension of SCTP between our engine and the engines of others, in both directions.
//!
//! `tests/it/link.rs` joins two engines on a virtual clock, `tests/it/peers` holds the engines, and each extension has a module
//! of tests. `docs/interop.md` shows what is tested with which peer.
#![forbid(unsafe_code)]
