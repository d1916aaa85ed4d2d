//! How much a server can take: the benchmark of RFC 7502, ladders of more and more users, and SIPstone.
//!
//! A [`Procedure`] decides which [`Step`] to run next and judges its [`StepResult`]; who runs steps, and on
//! what, is not its business. So the same search runs against a server on the network and against one that
//! a test makes up:
//!
//! ```
//! use load::capacity::{End, Procedure, Search, SearchParameters, StepResult};
//!
//! let mut search = Search::new(SearchParameters::default());
//! while let Some(step) = search.next_step() {
//!     let is_overloaded = step.per_second > 460.0;
//!     search.handle_result(StepResult::simulated(&step, u64::from(is_overloaded)));
//! }
//! // The example of RFC 7502 appendix A.
//! assert_eq!(search.end(), Some(End::Found { per_second: 458 }));
//! ```

mod benchmark;
mod ladder;
mod limit;
mod outlook;
mod runner;
mod search;
mod sipstone;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

pub use benchmark::{Benchmark, RegistrationBenchmark, SessionBenchmark, TestSetup};
pub use ladder::{BackgroundTrials, DelayTrials, Ladder, LadderParameters, Rung};
pub use limit::{LimitSearch, LimitSearchParameters};
pub use outlook::{Outlook, outlook};
pub use runner::{Setup, StepError, StepRunner};
pub use search::{Search, SearchParameters};
pub use sipstone::{Part, PartResult, Sipstone, SipstoneLimits, SipstoneParameters};

use crate::arrivals::{Pattern, Plan, Spacing, Validity};
use crate::driver::{BackgroundSummary, BackgroundTotal};
use crate::record::Failure;
use crate::statistics::{DelaySummary, Delays, Statistics};

/// What decides which steps are run, one after the other.
pub trait Procedure {
    /// The step to run now; none when the procedure is over. Until its result is handed in, it is the same.
    fn next_step(&self) -> Option<Step>;

    /// Takes the result of [`next_step`](Self::next_step).
    fn handle_result(&mut self, result: StepResult);

    /// The steps so far.
    fn steps(&self) -> &[StepSummary];
}

/// What a step puts on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Sessions between users who are registered (RFC 7502 sections 6.1 to 6.6).
    Sessions,
    /// Registrations of users who are not registered, each of an address of record of its own, for at
    /// least an hour (RFC 7502 section 6.7). The runner removes them again after the step.
    Registrations,
    /// Registrations of users who are registered (RFC 7502 section 6.8).
    Reregistrations,
    /// The users register, all of them and their callees, and then each makes a call.
    RegistrationsAndSessions,
    /// A part of SIPstone.
    Sipstone(Part),
    /// All parts of SIPstone at once, as often as their weights say.
    SipstoneMix,
}

/// A stretch of load at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Which of its procedure, from 0.
    pub number: u32,
    /// What is attempted.
    pub workload: Workload,
    /// How often a second.
    pub per_second: f64,
    /// How many in all.
    pub attempts: u64,
    /// How attempts are spaced.
    pub spacing: Spacing,
    /// How many callers there are; none where the procedure does not care.
    pub users: Option<u32>,
    /// Whether the runner may stop at the first failure, because the step has failed with it.
    pub stops_at_failure: bool,
}

impl Step {
    /// When its attempts begin.
    pub fn arrivals(&self) -> Plan {
        Plan {
            pattern: Pattern::Constant {
                per_second: self.per_second,
            },
            spacing: self.spacing,
            count: Some(self.attempts),
            time: None,
        }
    }

    /// How long it takes to begin all attempts.
    pub fn duration(&self) -> Duration {
        let seconds = self.attempts as f64 / self.per_second;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepResult {
    /// Attempts begun.
    pub attempted: u64,
    /// Of these, those that succeeded.
    pub succeeded: u64,
    /// Of these, those that failed. What the end of the step left undecided is neither.
    pub failed: u64,
    /// Attempts of the step's own arrivals that were begun, and …
    pub begun: u64,
    /// … how long beginning them took.
    pub took: Duration,
    /// Whether the generator kept up; if not, failures are not the server's.
    pub validity: Validity,
    /// All that was measured.
    pub statistics: Statistics,
    /// The traffic beside it, where there was any.
    pub background: Option<BackgroundTotal>,
}

impl StepResult {
    /// The result of a step from what was measured in it.
    ///
    /// A session is established when its INVITE was answered 2xx (RFC 7501 section 3.1.7): how it ends is
    /// not part of these benchmarks (section 1.1 there). For SIPstone and for ladders an attempt succeeds
    /// when its script does.
    pub fn new(
        step: &Step,
        statistics: Statistics,
        took: Duration,
        validity: Validity,
    ) -> StepResult {
        let (succeeded, failed) = match step.workload {
            Workload::Sessions => {
                let metrics = &statistics.metrics;
                let failed = metrics.session_requests - metrics.established;
                (metrics.established, failed)
            }
            Workload::Registrations | Workload::Reregistrations => {
                let ends = statistics.registrations;
                (ends.completed, ends.failed)
            }
            Workload::RegistrationsAndSessions | Workload::Sipstone(_) | Workload::SipstoneMix => {
                (statistics.completed(), statistics.failed())
            }
        };
        StepResult {
            attempted: statistics.arrivals.started.max(succeeded + failed),
            succeeded,
            failed,
            begun: statistics.arrivals.started,
            took,
            validity,
            statistics,
            background: None,
        }
    }

    /// The result of a server that is made up: a step in which so many attempts failed and nothing was
    /// measured.
    pub fn simulated(step: &Step, failed: u64) -> StepResult {
        let failed = failed.min(step.attempts);
        StepResult {
            attempted: step.attempts,
            succeeded: step.attempts - failed,
            failed,
            begun: step.attempts,
            took: step.duration(),
            validity: Validity::default(),
            statistics: Statistics::new(Instant::now(), Duration::from_secs(1)),
            background: None,
        }
    }

    /// Attempts begun a second.
    pub fn achieved_per_second(&self) -> Option<f64> {
        let seconds = self.took.as_secs_f64();
        (seconds > 0.0).then(|| self.begun as f64 / seconds)
    }

    /// The part of the attempts (0 to 1) that failed.
    pub fn failed_share(&self) -> f64 {
        self.failed as f64 / (self.failed + self.succeeded).max(1) as f64
    }

    /// From the first request of an attempt to its final response, whichever it is: of REGISTERs and
    /// INVITEs, whichever the step has.
    pub fn response_time(&self) -> Delays {
        let mut delays = self.statistics.answer_delay.clone();
        delays.merge(&self.statistics.metrics.registration_request_delay);
        delays
    }
}

/// A step and what came of it, in a few numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepSummary {
    /// Which of its procedure, from 0.
    pub number: u32,
    /// What was attempted.
    pub workload: Workload,
    /// Attempts a second that were to be.
    pub per_second: f64,
    /// Attempts a second that were.
    pub achieved_per_second: Option<f64>,
    /// Attempts begun.
    pub attempted: u64,
    /// Of these, those that succeeded.
    pub succeeded: u64,
    /// Of these, those that failed.
    pub failed: u64,
    /// Requests that were repeated with credentials (RFC 7501 section 3.1.6).
    pub authentications: u64,
    /// Final responses to the requests that began attempts, by their codes.
    pub responses: BTreeMap<u16, u64>,
    /// Why attempts failed.
    pub failures: BTreeMap<String, u64>,
    /// From requests to final responses.
    pub response_time_ms: DelaySummary,
    /// How late attempts began.
    pub lateness_ms: DelaySummary,
    /// Whether the generator kept up.
    pub validity: Validity,
    /// Whether the step counts as passed.
    pub passed: bool,
    /// The traffic beside it, where there was any.
    pub background: Option<BackgroundSummary>,
}

impl StepSummary {
    /// The highest rate that passed and at or below which none failed. What passed once, above rates at which the server has
    /// failed, says nothing of what it can take.
    pub fn highest_passed(steps: &[StepSummary]) -> Option<u64> {
        let failed = steps
            .iter()
            .filter(|step| !step.passed && step.validity.is_valid());
        let limit = failed
            .map(|step| step.per_second)
            .fold(f64::INFINITY, f64::min);
        let passed = steps
            .iter()
            .filter(|step| step.passed && step.per_second < limit);
        let best = passed.map(|step| step.per_second).fold(0.0, f64::max);
        (best > 0.0).then_some(best as u64)
    }

    fn new(step: &Step, result: &StepResult, passed: bool) -> StepSummary {
        StepSummary {
            number: step.number,
            workload: step.workload,
            per_second: step.per_second,
            achieved_per_second: result.achieved_per_second(),
            attempted: result.attempted,
            succeeded: result.succeeded,
            failed: result.failed,
            authentications: result.statistics.authentications,
            responses: responses(&result.statistics),
            failures: reasons(&result.statistics),
            response_time_ms: result.response_time().milliseconds(),
            lateness_ms: result.statistics.lateness.milliseconds(),
            validity: result.validity.clone(),
            passed,
            background: result.background.as_ref().map(BackgroundTotal::summary),
        }
    }
}

impl StepSummary {
    /// What came instead of success, in words: `480 of 500 answered 503, 20 no response`.
    pub fn what_came(&self) -> String {
        what_came(&self.responses, &self.failures)
    }
}

fn what_came(responses: &BTreeMap<u16, u64>, failures: &BTreeMap<String, u64>) -> String {
    let refusals = responses.iter().filter(|(code, _)| **code >= 300);
    let mut came: Vec<String> = refusals
        .map(|(code, count)| format!("{count} × {code}"))
        .collect();
    // Which refusals those were is said by their codes.
    let is_other = |reason: &str| came.is_empty() || reason != Failure::Refused.to_string();
    let others: Vec<String> = failures
        .iter()
        .filter(|(reason, _)| is_other(reason))
        .map(|(reason, count)| format!("{count} × {reason}"))
        .collect();
    came.extend(others);
    match came.is_empty() {
        true => "nothing came".to_owned(),
        false => came.join(", "),
    }
}

fn responses(statistics: &Statistics) -> BTreeMap<u16, u64> {
    let mut codes = statistics.invite_codes.clone();
    codes.merge(&statistics.register_codes);
    codes.merge(&statistics.request_codes);
    codes.responses().iter().copied().collect()
}

fn reasons(statistics: &Statistics) -> BTreeMap<String, u64> {
    let reasons = statistics.failures.reasons().iter();
    reasons
        .map(|(reason, count)| (reason.to_string(), *count))
        .collect()
}

/// How a search for a rate ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "end")]
pub enum End {
    /// The highest rate that the server can take.
    Found {
        /// Attempts a second.
        per_second: u64,
    },
    /// The generator could not keep up before the server failed: it can take this much, and maybe more.
    GeneratorLimit {
        /// The highest rate that passed; none where the generator was too slow from the start.
        at_least: Option<u64>,
        /// The rate at which the generator was too slow.
        too_fast: u64,
    },
    /// No rate passed.
    Nothing,
    /// In a step at the starting rate no attempt at all succeeded: there is no server, or it refuses
    /// everything. What came is in the [summary](StepSummary::what_came) of the last step.
    NoneSucceeded {
        /// The starting rate.
        per_second: u64,
    },
    /// There are not users enough for a step that lasts long enough.
    TooFewUsers {
        /// The highest rate that passed.
        at_least: Option<u64>,
        /// How many the next step wanted.
        wanted: u64,
    },
    /// The search did not converge in as many steps as it may take.
    TooManySteps {
        /// The highest rate that passed.
        best: Option<u64>,
    },
}

impl End {
    /// The highest rate that passed.
    pub fn per_second(self) -> Option<u64> {
        match self {
            End::Found { per_second } => Some(per_second),
            End::GeneratorLimit { at_least, .. } => at_least,
            End::Nothing | End::NoneSucceeded { .. } => None,
            End::TooFewUsers { at_least, .. } => at_least,
            End::TooManySteps { best } => best,
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Found { per_second } => write!(f, "{per_second}/s"),
            End::GeneratorLimit {
                at_least: Some(at_least),
                too_fast,
            } => write!(
                f,
                "at least {at_least}/s: the generator, not the server, could not keep up with {too_fast}/s"
            ),
            End::GeneratorLimit { too_fast, .. } => {
                write!(
                    f,
                    "unknown: the generator could not keep up with {too_fast}/s"
                )
            }
            End::Nothing => f.write_str("none: every rate had failures"),
            End::NoneSucceeded { per_second } => {
                write!(f, "none: not one attempt succeeded at {per_second}/s")
            }
            End::TooFewUsers {
                at_least: Some(at_least),
                wanted,
            } => write!(
                f,
                "at least {at_least}/s: a longer step wants {wanted} users"
            ),
            End::TooFewUsers { wanted, .. } => {
                write!(f, "unknown: the first step wants {wanted} users")
            }
            End::TooManySteps { best: Some(best) } => {
                write!(f, "at least {best}/s: the search did not converge")
            }
            End::TooManySteps { best: None } => f.write_str("unknown: the search did not converge"),
        }
    }
}
