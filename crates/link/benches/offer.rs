//! What an offer costs: nanoseconds a packet, for links of which more and more parts are switched on.
//!
//! ```text
//! cargo bench -p link                    all of them
//! cargo bench -p link -- everything 1    one, for a profiler: so many million packets
//! ```

use link::{Link, LinkConfig, LinkWords, Packet};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// A name, and a link in words.
const LINKS: &[(&str, &[(&str, &str)])] = &[
    ("perfect", &[]),
    ("delay", &[("delay", "50ms")]),
    ("loss", &[("delay", "50ms"), ("loss", "1%")]),
    ("jitter", &[("delay", "50ms"), ("jitter", "5ms")]),
    (
        "normal-jitter",
        &[("delay", "50ms"), ("jitter", "5ms normal 25%")],
    ),
    (
        "rate",
        &[
            ("delay", "50ms"),
            ("bandwidth", "100Mbit/s"),
            ("queue", "1000p"),
        ],
    ),
    (
        "codel",
        &[("bandwidth", "100Mbit/s"), ("queue", "1000p codel ecn")],
    ),
    (
        "red",
        &[
            ("bandwidth", "100Mbit/s"),
            ("queue", "1000p red 50p 150p ecn"),
        ],
    ),
    (
        "everything",
        &[
            ("delay", "50ms"),
            ("jitter", "5ms pareto-normal 25% reorder"),
            ("loss", "gilbert-elliott 1% 10% 70% 0.1%"),
            ("duplicate", "1% 25%"),
            ("corrupt", "1% 25%"),
            ("reorder", "1% 25% gap 5"),
            ("bandwidth", "100Mbit/s overhead 28B burst 15kB"),
            ("queue", "1000p 1MB red 50p 150p ecn"),
        ],
    ),
];

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let only = arguments.next();
    let millions = arguments.next().and_then(|number| number.parse().ok());
    for (name, words) in LINKS {
        if only.as_deref().is_none_or(|only| only == *name) {
            let packets = millions.unwrap_or(5_u64) * 1_000_000;
            // The best of three: what else the machine does only adds.
            let rounds = if only.is_some() { 1 } else { 3 };
            let best = (0..rounds).map(|_| run(words, packets)).min();
            let nanoseconds = best.unwrap_or_default().as_secs_f64() * 1e9 / packets as f64;
            println!("{name:<14} {nanoseconds:6.1} ns a packet");
        }
    }
}

/// Offers packets, a little more than a rate of 100 Mbit/s carries.
fn run(words: &[(&str, &str)], packets: u64) -> Duration {
    let mut link = Link::new(config(words), ChaCha12Rng::seed_from_u64(1));
    let start = Instant::now();
    for number in 0..packets {
        let packet = Packet {
            bytes: 1000,
            ecn_capable: true,
            class: 0,
        };
        let now = start + Duration::from_nanos(79_000 * number);
        let _ = black_box(link.offer(now, black_box(packet)));
    }
    start.elapsed()
}

fn config(words: &[(&str, &str)]) -> LinkConfig {
    let mut all = LinkWords::default();
    for &(name, word) in words {
        let place = match name {
            "delay" => &mut all.delay,
            "jitter" => &mut all.jitter,
            "loss" => &mut all.loss,
            "duplicate" => &mut all.duplicate,
            "corrupt" => &mut all.corrupt,
            "reorder" => &mut all.reorder,
            "bandwidth" => &mut all.bandwidth,
            _ => &mut all.queue,
        };
        *place = Some(word.to_owned());
    }
    all.read().expect("words that say a link")
}
