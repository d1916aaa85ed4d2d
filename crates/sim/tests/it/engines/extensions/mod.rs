//! All extensions of SCTP at once, and any of them without the others, under random faults: see
//! [`promises`] for what has to hold.
//!
//! The gate runs a part of the seeds. All of them:
//! `TANDEM_SEEDS=1000 cargo test -p sim --test it engines::extensions`.

mod promises;
mod scenario;

use crate::engines::seeds;
use scenario::ExtensionScenario;
use sctp::packet::{ChunkType, Packet};
use std::collections::HashSet;
use std::time::Instant;

const SEEDS_IN_GATE: u64 = 200;

#[test]
fn promises_hold_with_every_extension() {
    seeds::check(
        "engines::extensions::promises_hold_with_every_extension",
        SEEDS_IN_GATE,
        ExtensionScenario::of_all_extensions,
        promises::check,
    );
}

#[test]
fn promises_hold_with_some_extensions() {
    seeds::check(
        "engines::extensions::promises_hold_with_some_extensions",
        SEEDS_IN_GATE,
        ExtensionScenario::of_some_extensions,
        promises::check,
    );
}

/// Else the seeds would be about nothing.
#[test]
fn every_extension_is_used() {
    if seeds::is_one_alone() {
        return;
    }
    let mut missing = HashSet::from([
        ChunkType::AUTH,
        ChunkType::ASCONF,
        ChunkType::ASCONF_ACK,
        ChunkType::RE_CONFIG,
        ChunkType::I_DATA,
        ChunkType::I_FORWARD_TSN,
        ChunkType::NR_SACK,
    ]);
    let mut has_zero_checksum = false;
    for seed in 0..10 {
        let scenario = ExtensionScenario::of_all_extensions(seed);
        let world = seeds::run(&scenario, Instant::now());
        for sent in world.simulation.trace() {
            let bytes = &sent.datagram.payload.packet;
            let packet = Packet::read(bytes).expect("it is sound");
            has_zero_checksum |= packet.header().checksum == 0;
            for chunk in packet.chunks().raw().flatten() {
                missing.remove(&chunk.chunk_type());
            }
        }
    }
    assert_eq!(missing, HashSet::new());
    assert!(has_zero_checksum);
}
