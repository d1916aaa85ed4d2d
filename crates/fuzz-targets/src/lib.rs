//! Tests: fuzz targets for every parser and for whole engines.
//!
//! A target is a function that takes any octets and panics when what it feeds with them breaks a promise.
//! Two programs run them, both from the seeds in `fuzz/corpus`:
//!
//! - libFuzzer, through the programs in `fuzz/fuzz_targets`: guided by coverage, for as long as one likes, with a nightly
//!   compiler. `scripts/fuzz` runs it.
//! - The tests of this crate: [`mutation`]s of the seeds for a few seconds, with the compiler and the dependencies of all
//!   other tests. They are not guided by coverage, and find what lies near the seeds.
#![forbid(unsafe_code)]

use arbitrary::{Arbitrary, Unstructured};

pub mod mutation;

/// Declares the targets, each a module with a function `run`.
macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        $(pub mod $name;)*

        /// All targets.
        pub const TARGETS: &[Target] = &[$(Target { name: stringify!($name), run: $name::run }),*];
    };
}

targets! {
    capture_file,
    capture_journal,
    emulator_network,
    flood_attack,
    link,
    load_engine,
    load_media,
    load_scenario_sipp,
    load_scenario_toml,
    m3ua_engines,
    m3ua_message,
    media_packets,
    phone_answers,
    plugin_objects,
    proxy_core,
    sctp_calls,
    sctp_extensions,
    sctp_interleaving,
    sctp_packet,
    sctp_tampering,
    sip_framing,
    sip_peek,
    sip_headers,
    sip_message,
    sip_sdp,
    sip_stun,
    sip_uri,
    testbed_topology,
    traffic_packets,
    ua_engine,
}

/// The longest input, in octets.
pub const MAX_INPUT_LENGTH: usize = 4096;

/// Something to fuzz.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its module, its program in `fuzz/fuzz_targets`, and its directory in `fuzz/corpus`.
    pub name: &'static str,
    /// Feeds it an input.
    pub run: fn(&[u8]),
}

/// Draws a game from the input and plays it. Too short an input is no game.
fn drawn<G: for<'a> Arbitrary<'a>>(input: &[u8], play: impl FnOnce(&G)) {
    if let Ok(game) = G::arbitrary_take_rest(Unstructured::new(input)) {
        play(&game);
    }
}
