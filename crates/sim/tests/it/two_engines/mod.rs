//! Two SCTP engines joined by bad links on a virtual clock.
//!
//! Whatever the links do, every message arrives exactly once, unchanged and in order on its
//! stream, the association closes in good order on both sides, and the same seed gives the same
//! packets at the same times. A seed that fails is named with the command that runs it alone, which
//! also shows its packets.

mod bad_packets;
mod host;
mod scenario;
mod trace;

use host::EngineHost;
use scenario::Scenario;
use sim::Simulation;
use std::panic;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Runs this seed alone, and prints its packets.
const SEED_VARIABLE: &str = "TANDEM_SEED";

const SEEDS: u64 = 500;

#[test]
fn messages_survive_bad_links() {
    if let Ok(seed) = std::env::var(SEED_VARIABLE) {
        run_twice(seed.parse().expect("a number"), true);
        return;
    }
    let next_seed = AtomicU64::new(0);
    let failed_seeds = Mutex::new(Vec::new());
    let run_seeds = || {
        loop {
            let seed = next_seed.fetch_add(1, Ordering::Relaxed);
            if seed >= SEEDS {
                break;
            }
            if panic::catch_unwind(|| run_twice(seed, false)).is_err() {
                failed_seeds.lock().expect("no panic inside").push(seed);
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(run_seeds);
        }
    });
    let mut failed_seeds = failed_seeds.into_inner().expect("no panic inside");
    failed_seeds.sort_unstable();
    if let Some(seed) = failed_seeds.first() {
        panic!(
            "seeds that failed: {failed_seeds:?}; to see one alone:\n    \
             {SEED_VARIABLE}={seed} cargo test -p sim --test it two_engines::messages -- --nocapture"
        );
    }
}

/// What arrives with flipped bits fails its checksum, and nothing else does.
#[test]
fn engines_drop_what_the_links_spoil() {
    let mut spoiled = 0;
    for seed in 0..50 {
        let simulation = run(seed, Instant::now(), false);
        let dropped: u64 = simulation
            .hosts()
            .map(|host| host.endpoint().statistics().drops.checksum)
            .sum();
        let statistics = simulation.network().statistics();
        assert_eq!(dropped, statistics.altered, "seed {seed}");
        assert_eq!(statistics.altered_lost, 0);
        spoiled += dropped;
    }
    assert!(spoiled > 100, "{spoiled}");
}

/// Runs the scenario of a seed, checks its outcome, and checks that another run is the same.
fn run_twice(seed: u64, print: bool) {
    let start = Instant::now();
    let first = run(seed, start, print);
    let second = run(seed, start, false);
    assert_eq!(
        first.trace().len(),
        second.trace().len(),
        "packets of two runs"
    );
    for (number, (first, second)) in first.trace().iter().zip(second.trace()).enumerate() {
        assert_eq!(first, second, "packet {number} of two runs");
    }
}

fn run(seed: u64, start: Instant, print: bool) -> Simulation<EngineHost> {
    let scenario = Scenario::of_seed(seed);
    let (mut simulation, client, server) = scenario.simulation(start);
    let stop = simulation.run(start + scenario::LONGEST_RUN, |_| false);
    if print {
        println!("{scenario:#?}");
        trace::print(&simulation, start);
    }
    scenario.check(stop, simulation.host(client), simulation.host(server));
    simulation
}
