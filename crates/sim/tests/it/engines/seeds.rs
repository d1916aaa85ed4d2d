//! Runs what happens under many seeds, on all cores.
//!
//! A seed that fails is named with the command that runs it alone, which also writes what was on
//! the wire for Wireshark.

use crate::engines::world::World;
use std::fmt::Debug;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Runs this seed alone, and captures its packets.
const SEED_VARIABLE: &str = "TANDEM_SEED";

/// How many seeds are run, in place of what each test has.
const SEEDS_VARIABLE: &str = "TANDEM_SEEDS";

/// What happens under a seed.
pub(crate) trait Seeded: Debug {
    fn seed(&self) -> u64;

    fn world(&self, start: Instant) -> World;

    /// Runs all that is planned, to its end.
    fn run(&self, world: &mut World);
}

/// Checks the promises in so many worlds; `test` is the name of the test whose they are.
pub(crate) fn check<S: Seeded>(
    test: &str,
    seeds: u64,
    scenario_of: fn(u64) -> S,
    promises: fn(&S, &World),
) {
    if let Ok(seed) = std::env::var(SEED_VARIABLE) {
        run_alone(&scenario_of(seed.parse().expect("a number")), promises);
        return;
    }
    let seeds =
        std::env::var(SEEDS_VARIABLE).map_or(seeds, |seeds| seeds.parse().expect("a number"));
    let next_seed = AtomicU64::new(0);
    let failed_seeds = Mutex::new(Vec::new());
    let run_seeds = || {
        loop {
            let seed = next_seed.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                break;
            }
            // Now and then twice: a run depends on nothing but its seed.
            let result = panic::catch_unwind(|| {
                let scenario = scenario_of(seed);
                match seed % 20 {
                    0 => run_twice(&scenario, promises),
                    _ => promises(&scenario, &run(&scenario, Instant::now())),
                }
            });
            if result.is_err() {
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
            "{} seeds of {seeds} failed: {failed_seeds:?}; to see one alone, and its packets:\n    \
             {SEED_VARIABLE}={seed} cargo test -p sim --test it {test} -- --nocapture",
            failed_seeds.len()
        );
    }
}

/// Whether the user has asked for one seed, which [`check`] runs.
pub(crate) fn is_one_alone() -> bool {
    std::env::var(SEED_VARIABLE).is_ok()
}

pub(crate) fn run(scenario: &impl Seeded, start: Instant) -> World {
    let mut world = scenario.world(start);
    scenario.run(&mut world);
    world
}

fn run_twice<S: Seeded>(scenario: &S, promises: fn(&S, &World)) {
    let start = Instant::now();
    let [first, second] = [(); 2].map(|()| run(scenario, start));
    let [first_trace, second_trace] = [&first, &second].map(|world| world.simulation.trace());
    let pairs = first_trace.iter().zip(second_trace);
    for (number, (first, second)) in pairs.enumerate() {
        assert_eq!(first, second, "packet {number} of two runs");
    }
    assert_eq!(first_trace.len(), second_trace.len(), "packets of two runs");
    promises(scenario, &first);
}

fn run_alone<S: Seeded>(scenario: &S, promises: fn(&S, &World)) {
    println!("{scenario:#?}");
    let mut world = scenario.world(Instant::now());
    // Also of a run that does not come to its end.
    let result = panic::catch_unwind(AssertUnwindSafe(|| scenario.run(&mut world)));
    for (name, host) in [("client", world.client()), ("server", world.server())] {
        for (time, entry) in host.log() {
            println!(
                "{:.6} {name} {entry:?}",
                (*time - world.start).as_secs_f64()
            );
        }
    }
    let capture = capture_path(scenario.seed());
    world.write_capture(&capture).expect("it can be written");
    println!("its packets: wireshark {}", capture.display());
    if let Err(panic) = result {
        panic::resume_unwind(panic);
    }
    promises(scenario, &world);
}

fn capture_path(seed: u64) -> PathBuf {
    std::env::temp_dir().join(format!("tandem-seed-{seed}.pcapng"))
}
