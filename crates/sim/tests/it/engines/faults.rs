//! Random faults under many seeds: whatever the network does and whenever hosts die, users hang up
//! or stop reading, the promises of SCTP hold. See [`crate::engines::promises`] for what these are.
//!
//! A seed that fails is named with the command that runs it alone, which also writes what was on
//! the wire for Wireshark.

use crate::engines::promises;
use crate::engines::scenario::Scenario;
use crate::engines::world::World;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;
use test_support::require_command;

/// Runs this seed alone, and captures its packets.
const SEED_VARIABLE: &str = "TANDEM_SEED";

/// How many seeds are run, instead of [`SEEDS`].
const SEEDS_VARIABLE: &str = "TANDEM_SEEDS";

const SEEDS: u64 = 1000;

#[test]
fn promises_hold_under_random_faults() {
    run_seeds(
        "engines::faults::promises_hold_under_random_faults",
        SEEDS,
        Scenario::of_seed,
    );
}

/// Checks the promises in so many worlds; `test` is the name of the test whose they are.
pub(crate) fn run_seeds(test: &str, seeds: u64, scenario_of: fn(u64) -> Scenario) {
    if let Ok(seed) = std::env::var(SEED_VARIABLE) {
        run_alone(&scenario_of(seed.parse().expect("a number")));
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
                    0 => run_twice(&scenario),
                    _ => promises::check(&scenario, &run(&scenario, Instant::now())),
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

/// What the engines send under faults is sound: tshark finds nothing malformed.
#[test]
fn no_packet_is_malformed() {
    let Some(tshark) = require_command("tshark", "tshark") else {
        return;
    };
    if std::env::var(SEED_VARIABLE).is_ok() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    for seed in 0..6 {
        let world = run(&Scenario::of_seed(seed), Instant::now());
        let capture = directory.path().join(format!("{seed}.pcapng"));
        world.write_capture(&capture).expect("it can be written");
        let count = |filter: &str| {
            let output = Command::new(&tshark)
                .arg("-r")
                .arg(&capture)
                .args(["-o", "sctp.checksum:CRC 32c", "-d", "udp.port==9900,sctp"])
                .args(["-Y", filter])
                .output()
                .expect("it runs");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{errors}");
            String::from_utf8_lossy(&output.stdout).lines().count()
        };
        let packets = world.simulation.trace().len();
        assert_eq!(
            count("sctp.checksum.status == \"Good\""),
            packets,
            "seed {seed}"
        );
        let wrong = "_ws.malformed || sctp.chunk_length.bad || _ws.expert.severity == error";
        assert_eq!(count(wrong), 0, "seed {seed}");
    }
}

fn run(scenario: &Scenario, start: Instant) -> World {
    let mut world = scenario.world(start);
    scenario.run(&mut world);
    world
}

fn run_twice(scenario: &Scenario) {
    let start = Instant::now();
    let [first, second] = [(); 2].map(|()| run(scenario, start));
    let [first_trace, second_trace] = [&first, &second].map(|world| world.simulation.trace());
    let pairs = first_trace.iter().zip(second_trace);
    for (number, (first, second)) in pairs.enumerate() {
        assert_eq!(first, second, "packet {number} of two runs");
    }
    assert_eq!(first_trace.len(), second_trace.len(), "packets of two runs");
    promises::check(scenario, &first);
}

fn run_alone(scenario: &Scenario) {
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
    promises::check(scenario, &world);
}

fn capture_path(seed: u64) -> PathBuf {
    std::env::temp_dir().join(format!("tandem-seed-{seed}.pcapng"))
}
