//! Two paths in comparison with the better one alone, over a grid of rates, round-trip times, losses and buffers.
//!
//! `cargo test -p sctp --test it multipath::grid -- --ignored --nocapture` prints the whole grid, for half an hour.
//! `MULTIPATH_GRID` may be words that all have to be in the names of cells, and `MULTIPATH_SCHEDULER` another scheduler.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use sctp::{EndpointConfig, LossDetection, PathScheduler};

use super::goals::config;
use super::links::{LinkSpec, Links};

/// What two paths are to carry at least, as a share of what the better one carries alone.
const GOAL: f64 = 0.98;

/// What no cell is below: where the better path itself loses much, the goal is missed.
const FLOOR: f64 = 0.75;

/// Several paths against one of them.
#[derive(Debug, Clone, Copy)]
struct Cell {
    /// How many times slower the second path is than the first one, which carries 10 Mbit/s.
    rate: u32,
    /// How many times longer its round trip is than that of the first one, which takes 20 ms.
    delay: u32,
    /// Of each packet with data the probability to be lost, on either path, in percent.
    loss: [u32; 2],
    /// Send and receive buffer, in KiB.
    buffer: usize,
    unordered: bool,
    detection: LossDetection,
    scheduler: PathScheduler,
}

impl fmt::Display for Cell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell {
            rate,
            delay,
            loss: [one, other],
            buffer,
            detection,
            scheduler,
            ..
        } = self;
        let order = if self.unordered {
            "unordered"
        } else {
            "ordered"
        };
        write!(
            formatter,
            "rate=1:{rate} delay=1:{delay} loss={one},{other} buffer={buffer} {order} {detection} {scheduler}"
        )
    }
}

/// What a cell came to, in Mbit/s of user data.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    alone: [f64; 2],
    both: f64,
}

impl Outcome {
    /// As a share of what the better path carries alone.
    fn share(&self) -> f64 {
        self.both / self.alone[0].max(self.alone[1])
    }
}

impl Cell {
    fn run(&self, duration: Duration) -> Outcome {
        let [one, other] = self.loss.map(|percent| f64::from(percent) / 100.0);
        let pair = [
            LinkSpec::new(10.0, 10.0).losing(one),
            LinkSpec::new(10.0 / f64::from(self.rate), 10.0 * f64::from(self.delay)).losing(other),
        ];
        let config = config(self.buffer << 10).loss_detection(self.detection);
        let seeds = if self.loss == [0, 0] { 1 } else { 10 };
        let mean = |specs: &[LinkSpec], config: &EndpointConfig| {
            let goodputs = (0..seeds).map(|seed| {
                let mut links = Links::new(specs, config.clone(), seed);
                links.goodput(1200, self.unordered, Duration::from_secs(3), duration)
            });
            goodputs.sum::<f64>() / seeds as f64
        };
        let several = config.clone().cmt(true).path_scheduler(self.scheduler);
        Outcome {
            alone: pair.map(|spec| mean(&[spec], &config)),
            both: mean(&pair, &several),
        }
    }
}

/// Runs cells on all processors, and prints each if `prints`.
fn run(cells: &[Cell], duration: Duration, prints: bool) -> Vec<(Cell, Outcome)> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let work = || {
        while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = cell.run(duration);
            if prints {
                let [one, other] = outcome.alone;
                let (both, share) = (outcome.both, outcome.share());
                println!("{share:.3} {both:6.2} {one:6.2} {other:6.2}  {cell}");
            }
            outcomes
                .lock()
                .expect("no panic inside")
                .push((*cell, outcome));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    outcomes.into_inner().expect("no panic inside")
}

/// The whole grid, with every way of loss detection; of the schedulers the default one.
fn all_cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for loss in [[0, 0], [0, 1], [1, 0], [0, 5], [5, 0], [1, 1], [5, 5]] {
        for (rate, delay) in [1, 10, 100]
            .into_iter()
            .flat_map(|rate| [1, 5, 20].map(|delay| (rate, delay)))
        {
            for buffer in [32, 128, 1024] {
                for unordered in [false, true] {
                    for detection in LossDetection::ALL {
                        cells.push(Cell {
                            rate,
                            delay,
                            loss,
                            buffer,
                            unordered,
                            detection,
                            scheduler: PathScheduler::default(),
                        });
                    }
                }
            }
        }
    }
    cells
}

/// Without losses, and where the slower path loses packets. Where the better one does there are cells below the goal.
#[test]
fn two_paths_are_no_worse_than_the_better_one() {
    let cell = |rate, delay, loss, buffer| Cell {
        rate,
        delay,
        loss,
        buffer,
        unordered: false,
        detection: LossDetection::default(),
        scheduler: PathScheduler::default(),
    };
    let cells = [
        cell(1, 1, [0, 0], 32),
        cell(1, 1, [0, 0], 128),
        cell(1, 5, [0, 0], 128),
        cell(10, 1, [0, 0], 32),
        cell(10, 1, [0, 0], 128),
        cell(100, 1, [0, 0], 128),
        cell(100, 20, [0, 0], 1024),
        Cell {
            unordered: true,
            ..cell(10, 1, [0, 0], 128)
        },
        cell(1, 1, [0, 5], 32),
        cell(10, 1, [0, 5], 32),
    ];
    for (cell, outcome) in run(&cells, Duration::from_secs(10), false) {
        assert!(outcome.share() >= GOAL, "{cell}: {:.3}", outcome.share());
    }
}

#[test]
#[ignore = "takes half an hour: for the nightly run"]
fn no_cell_of_the_grid_is_far_below_the_better_path() {
    let words = std::env::var("MULTIPATH_GRID").unwrap_or_default();
    let mut cells = all_cells();
    if let Ok(name) = std::env::var("MULTIPATH_SCHEDULER") {
        let scheduler = name.parse().expect("the name of a scheduler");
        cells.iter_mut().for_each(|cell| cell.scheduler = scheduler);
    }
    let words: Vec<&str> = words.split_whitespace().collect();
    cells.retain(|cell| {
        let name = format!(" {cell} ");
        words.iter().all(|word| name.contains(&format!(" {word} ")))
    });
    let outcomes = run(&cells, Duration::from_secs(20), true);
    let below = outcomes
        .iter()
        .filter(|(_, outcome)| outcome.share() < GOAL);
    println!(
        "{} of {} cells are below {GOAL}",
        below.count(),
        outcomes.len()
    );
    for (cell, outcome) in &outcomes {
        assert!(outcome.share() >= FLOOR, "{cell}: {:.3}", outcome.share());
    }
}
