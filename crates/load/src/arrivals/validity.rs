//! Whether the generator kept its schedule: a run in which it did not says nothing about the server.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::statistics::Statistics;

/// When a run is to be called invalid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValidityLimits {
    /// An attempt that begins this much after it was due is late.
    pub late_after: Duration,
    /// The part of the attempts (0 to 1) that may be late.
    pub late_share: f64,
    /// The part of the arrivals (0 to 1) that may not be begun at all.
    pub missed_share: f64,
    /// Datagrams that may find no room in the generator's own sockets, as a part (0 to 1) of the attempts: each
    /// is repeated after T1 (RFC 3261 section 17.1.1.2), which looks like a slow server.
    pub dropped_share: f64,
    /// The part (0 to 1) of the datagrams of the background traffic that may not be sent.
    pub background_share: f64,
}

impl Default for ValidityLimits {
    /// 1 % may be later than 20 ms, which is a twenty-fifth of T1 (RFC 3261 section 17.1.1.1), and 1 % may
    /// be missing, and for as many a datagram may be lost here. Of the background traffic, which comes in bursts and is
    /// not what is measured, 5 % may be missing.
    fn default() -> ValidityLimits {
        ValidityLimits {
            late_after: Duration::from_millis(20),
            late_share: 0.01,
            missed_share: 0.01,
            dropped_share: 0.01,
            background_share: 0.05,
        }
    }
}

/// The verdict on a run: valid when nothing speaks against it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validity {
    /// What speaks against it.
    pub objections: Vec<Objection>,
}

/// What makes a run invalid. Each is of the generator, not of the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objection {
    /// Too many attempts began late.
    Late {
        /// The part of the attempts (0 to 1) that were late.
        share: f64,
        /// What counts as late.
        after: Duration,
        /// The latest.
        longest: Duration,
    },
    /// Too many arrivals that the schedule has were not begun.
    Missed {
        /// Arrivals that the schedule has.
        scheduled: u64,
        /// Of these, begun.
        started: u64,
    },
    /// Arrivals were not begun because as many attempts as allowed were in flight. That alone says that the
    /// server did not keep up; but where the generator was slow, too, it may have been its own doing.
    Full {
        /// How many.
        not_started: u64,
        /// Of how many.
        scheduled: u64,
    },
    /// Arrivals were not begun because there was nobody to begin them.
    Unable {
        /// How many.
        not_started: u64,
        /// Of how many.
        scheduled: u64,
    },
    /// Datagrams have come for which the generator's own sockets had no room.
    Dropped {
        /// How many at least: the kernel counts several that came as one once.
        datagrams: u64,
        /// Attempts that were begun.
        attempts: u64,
    },
    /// The traffic beside the calls had not the rate that it was to have.
    Background {
        /// Datagrams sent.
        sent: u64,
        /// Datagrams that the rate wants.
        due: u64,
    },
}

impl Validity {
    /// Judges a run by its statistics, by how many arrivals the schedule has for the time it took (see
    /// [`Arrivals::scheduled`](super::Arrivals::scheduled)), and by how many datagrams found no room in the generator's own
    /// sockets.
    pub fn judge(
        limits: &ValidityLimits,
        statistics: &Statistics,
        scheduled: u64,
        dropped: u64,
    ) -> Validity {
        let mut objections = Vec::new();
        let arrivals = statistics.arrivals;
        let share = statistics.lateness.share_above(limits.late_after);
        if share > limits.late_share {
            objections.push(Objection::Late {
                share,
                after: limits.late_after,
                longest: statistics.lateness.maximum().unwrap_or_default(),
            });
        }
        let scheduled = scheduled.max(arrivals.offered);
        let allowed = scheduled as f64 * limits.missed_share;
        let not_offered = scheduled - arrivals.offered;
        if not_offered as f64 > allowed {
            objections.push(Objection::Missed {
                scheduled,
                started: arrivals.started,
            });
        }
        let unable = arrivals.not_started - arrivals.held_back;
        if unable as f64 > allowed {
            objections.push(Objection::Unable {
                not_started: unable,
                scheduled,
            });
        }
        // A generator that was punctual all the time did not make the others wait: the server did.
        if arrivals.held_back as f64 > allowed && !objections.is_empty() {
            objections.push(Objection::Full {
                not_started: arrivals.held_back,
                scheduled,
            });
        }
        let attempts = statistics.attempts();
        if dropped as f64 > attempts as f64 * limits.dropped_share {
            objections.push(Objection::Dropped {
                datagrams: dropped,
                attempts,
            });
        }
        Validity { objections }
    }

    /// Judges the traffic beside it, too, by how many datagrams its rate wanted and how many were sent.
    pub fn judge_background(&mut self, limits: &ValidityLimits, sent: u64, due: u64) {
        let missing = due.saturating_sub(sent);
        if missing as f64 > due as f64 * limits.background_share {
            self.objections.push(Objection::Background { sent, due });
        }
    }

    /// Whether the run says something about the server.
    pub fn is_valid(&self) -> bool {
        self.objections.is_empty()
    }
}

impl fmt::Display for Validity {
    /// `valid`, or `invalid: ` and why.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_valid() {
            return f.write_str("valid");
        }
        f.write_str("invalid")?;
        for (index, objection) in self.objections.iter().enumerate() {
            let separator = if index == 0 { ": " } else { "; " };
            write!(f, "{separator}{objection}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Objection::Late {
                share,
                after,
                longest,
            } => write!(
                f,
                "the generator began {:.1} % of the attempts more than {} ms late (the latest by {:.0} ms)",
                share * 100.0,
                after.as_millis(),
                longest.as_secs_f64() * 1e3
            ),
            Objection::Missed { scheduled, started } => write!(
                f,
                "the generator began {started} attempts of the {scheduled} that were due"
            ),
            Objection::Full {
                not_started,
                scheduled,
            } => write!(
                f,
                "{not_started} of {scheduled} attempts were not begun because the maximum was in progress"
            ),
            Objection::Unable {
                not_started,
                scheduled,
            } => write!(
                f,
                "{not_started} of {scheduled} attempts were not begun because their users had no connection"
            ),
            Objection::Dropped {
                datagrams,
                attempts,
            } => write!(
                f,
                "the generator's own sockets had no room for {datagrams} datagrams during {attempts} attempts"
            ),
            Objection::Background { sent, due } => write!(
                f,
                "of the background traffic {sent} datagrams were sent of the {due} that were due"
            ),
        }
    }
}

impl Serialize for Objection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Validity {
    /// `{"valid": true, "objections": []}`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Verdict<'a> {
            valid: bool,
            objections: &'a [Objection],
        }
        let verdict = Verdict {
            valid: self.is_valid(),
            objections: &self.objections,
        };
        verdict.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// A run of a thousand arrivals of which some were late, and some not begun.
    fn run(late: u64, held_back: u64) -> Statistics {
        let started = Instant::now();
        let mut statistics = Statistics::new(started, Duration::from_secs(1));
        for number in 0..1000 {
            let lateness = Duration::from_millis(if number < late { 500 } else { 1 });
            if number < 1000 - held_back {
                statistics.note_started(started, started + lateness);
            } else {
                statistics.note_held_back(started);
            }
        }
        statistics
    }

    fn judge(statistics: &Statistics, scheduled: u64) -> Validity {
        Validity::judge(&ValidityLimits::default(), statistics, scheduled, 0)
    }

    #[test]
    fn a_punctual_generator_is_valid() {
        assert_eq!(judge(&run(0, 0), 1000), Validity::default());
        assert_eq!(judge(&run(9, 9), 1005).to_string(), "valid");
    }

    #[test]
    fn a_late_generator_is_not() {
        let verdict = judge(&run(100, 0), 1000);
        assert!(!verdict.is_valid());
        let expected = "invalid: the generator began 10.0 % of the attempts more than 20 ms late \
                        (the latest by 500 ms)";
        assert_eq!(verdict.to_string(), expected);
    }

    #[test]
    fn a_generator_that_did_not_keep_up_is_not() {
        let verdict = judge(&run(0, 0), 2000);
        let missed = Objection::Missed {
            scheduled: 2000,
            started: 1000,
        };
        assert_eq!(verdict.objections, [missed]);
    }

    #[test]
    fn a_server_that_does_not_keep_up_makes_no_run_invalid() {
        let punctual = run(0, 200);
        assert!(judge(&punctual, 1000).is_valid());
        assert_eq!(punctual.arrivals.held_back, 200);
        // Where the generator was late, it may have been its own doing.
        let verdict = judge(&run(100, 200), 1000);
        let full = Objection::Full {
            not_started: 200,
            scheduled: 1000,
        };
        assert_eq!(verdict.objections.len(), 2);
        assert_eq!(verdict.objections[1], full);
    }

    #[test]
    fn attempts_that_nobody_could_begin_make_it_invalid() {
        let mut statistics = run(0, 0);
        for _ in 0..100 {
            statistics.note_not_started(Instant::now());
        }
        let verdict = judge(&statistics, 1100);
        let unable = Objection::Unable {
            not_started: 100,
            scheduled: 1100,
        };
        assert_eq!(verdict.objections, [unable]);
    }

    #[test]
    fn what_the_generator_did_not_hear_makes_it_invalid() {
        let statistics = run(0, 0);
        let judge = |dropped| {
            let limits = ValidityLimits::default();
            Validity::judge(&limits, &statistics, 1000, dropped)
        };
        assert!(judge(10).is_valid());
        let expected = "invalid: the generator's own sockets had no room for 11 datagrams during 1000 attempts";
        assert_eq!(judge(11).to_string(), expected);
    }

    #[test]
    fn background_traffic_below_its_rate_makes_it_invalid() {
        let judge = |sent, due| {
            let mut validity = Validity::default();
            validity.judge_background(&ValidityLimits::default(), sent, due);
            validity
        };
        assert!(judge(0, 0).is_valid());
        assert!(judge(950, 1000).is_valid());
        let expected =
            "invalid: of the background traffic 949 datagrams were sent of the 1000 that were due";
        assert_eq!(judge(949, 1000).to_string(), expected);
    }

    #[test]
    fn a_run_without_arrivals_is_valid() {
        let statistics = Statistics::new(Instant::now(), Duration::from_secs(1));
        assert!(judge(&statistics, 0).is_valid());
    }
}
