//! Repeated runs of the same.

use report::Trials;
use serde::Serialize;

use crate::encryption::Encryption;
use crate::result::RunResult;

/// What was measured under one condition: packets of one size with one encryption.
#[derive(Clone, Debug, Serialize)]
pub struct Condition {
    /// Octets of a packet with its header, before encryption.
    pub size_bytes: usize,
    /// How it was encrypted.
    pub encryption: Encryption,
    /// Whether that protects anything today.
    pub secure: bool,
    /// Packets sent a second.
    pub packets_per_second: Trials,
    /// Packets lost, in percent.
    pub loss_percent: Trials,
    /// Mean one-way delay, milliseconds.
    pub one_way_ms: Trials,
    /// Mean round trip, milliseconds.
    pub round_trip_ms: Trials,
    /// Median one-way delay, milliseconds.
    pub one_way_median_ms: Trials,
    /// Median round trip, milliseconds.
    pub round_trip_median_ms: Trials,
    /// Jitter, milliseconds.
    pub jitter_ms: Trials,
    /// What encrypting a packet took, nanoseconds.
    pub encrypt_nanoseconds: Trials,
    /// What decrypting it took.
    pub decrypt_nanoseconds: Trials,
    /// Processor time of the thread that sends, for each packet, nanoseconds.
    pub sender_nanoseconds: Trials,
    /// Each run.
    pub trials: Vec<RunResult>,
}

impl Condition {
    /// Puts runs of the same together, in the order in which they were first seen.
    pub fn of(runs: Vec<RunResult>) -> Vec<Condition> {
        let mut groups: Vec<Vec<RunResult>> = Vec::new();
        for run in runs {
            let same = |group: &Vec<RunResult>| {
                let first = group.first();
                first.is_some_and(|first| {
                    (first.size_bytes, first.encryption) == (run.size_bytes, run.encryption)
                })
            };
            match groups.iter_mut().find(|group| same(group)) {
                Some(group) => group.push(run),
                None => groups.push(vec![run]),
            }
        }
        groups.into_iter().filter_map(Condition::new).collect()
    }

    fn new(trials: Vec<RunResult>) -> Option<Condition> {
        let first = trials.first()?;
        let of = |value: fn(&RunResult) -> Option<f64>| Trials::of(trials.iter().filter_map(value));
        Some(Condition {
            size_bytes: first.size_bytes,
            encryption: first.encryption,
            secure: first.secure,
            packets_per_second: of(|run| run.packets_per_second),
            loss_percent: of(|run| Some(run.loss_percent)),
            one_way_ms: of(|run| run.receiver.one_way.mean),
            round_trip_ms: of(|run| run.round_trip.mean),
            one_way_median_ms: of(|run| run.receiver.one_way.p50),
            round_trip_median_ms: of(|run| run.round_trip.p50),
            jitter_ms: of(|run| Some(run.receiver.jitter_ms)),
            encrypt_nanoseconds: of(|run| run.sealing.nanoseconds_per_packet()),
            decrypt_nanoseconds: of(|run| run.receiver.opening.nanoseconds_per_packet()),
            sender_nanoseconds: of(|run| run.sender_nanoseconds_per_packet),
            trials,
        })
    }
}
