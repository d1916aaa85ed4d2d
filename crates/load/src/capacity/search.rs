//! The search of RFC 7502 section 4.10.

use serde::Serialize;

use super::{End, Procedure, Step, StepResult, StepSummary, Workload};
use crate::arrivals::{Pattern, Spacing};

/// What a [`Search`] is told: the "parameters of test" of the RFC's pseudocode, and bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SearchParameters {
    /// What is attempted.
    pub workload: Workload,
    /// r: attempts a second in the beginning. Below 10 the search with the usual increase does not move,
    /// since rates are whole numbers.
    pub start: u64,
    /// N: attempts in each step.
    pub attempts: u64,
    /// A step lasts at least so long, in seconds: at rates of which N are a shorter burst more are attempted.
    /// The RFC wants an "extended period", and has N adjusted as needed.
    pub least_seconds: f64,
    /// Attempts in a step at most, however fast it is: there are no more users who could make them.
    pub most_attempts: Option<u64>,
    /// w: the part (up to 1) of the rate that it grows by after a step without a failure. A failure
    /// halves it, down to 0.10.
    pub increase: f64,
    /// How often a step is run again in which the generator did not keep up.
    pub retries: u32,
    /// Steps at most.
    pub most_steps: u32,
    /// Whether a step may stop at the first failure.
    pub stops_at_failure: bool,
}

impl SearchParameters {
    /// N as the RFC has it.
    pub const ATTEMPTS: u64 = 50_000;
    /// How long a step lasts at least.
    pub const LEAST_SECONDS: f64 = 2.0;
    /// The least weights.
    const LEAST_WEIGHT: f64 = 0.10;
    /// Steps without a failure at rates that passed before, after which the search has converged.
    const CONVERGED: u32 = 10;
}

impl Default for SearchParameters {
    /// As the RFC has them: sessions, from 100 a second in steps of a tenth, 50,000 a step.
    fn default() -> SearchParameters {
        SearchParameters {
            workload: Workload::Sessions,
            start: 100,
            attempts: SearchParameters::ATTEMPTS,
            least_seconds: SearchParameters::LEAST_SECONDS,
            most_attempts: None,
            increase: SearchParameters::LEAST_WEIGHT,
            retries: 2,
            most_steps: 1000,
            stops_at_failure: true,
        }
    }
}

/// The search for the largest rate that a server takes without a failure: step for step the pseudocode
/// `max_sps` of RFC 7502 section 4.10, whose names it keeps.
///
/// What the pseudocode does not have:
///
/// - A step in which the generator itself did not keep up is no failure of the server. It is run again, and
///   when that does not help the search ends.
/// - A step at the starting rate in which no attempt at all succeeds ends the search: the server is not
///   there, or refuses everything, which lower rates do not change.
/// - A step lasts [a while](SearchParameters::least_seconds).
#[derive(Clone, Debug)]
pub struct Search {
    parameters: SearchParameters,
    /// The rate.
    r: u64,
    /// The largest rate that passed.
    old_r: u64,
    /// The weight of an increase.
    w: f64,
    /// The weight of a decrease.
    d: f64,
    /// Steps that passed at rates that were not larger.
    count: u32,
    retried: u32,
    end: Option<End>,
    steps: Vec<StepSummary>,
}

impl Search {
    /// A search that has not begun.
    pub fn new(parameters: SearchParameters) -> Search {
        let increase = if parameters.increase.is_finite() {
            parameters.increase.clamp(0.0, 1.0)
        } else {
            SearchParameters::LEAST_WEIGHT
        };
        let mut search = Search {
            parameters,
            r: parameters.start,
            old_r: 0,
            w: increase,
            d: SearchParameters::LEAST_WEIGHT.max(increase / 2.0),
            count: 0,
            retried: 0,
            end: None,
            steps: Vec::new(),
        };
        search.check_bounds();
        search
    }

    /// What it was told.
    pub fn parameters(&self) -> &SearchParameters {
        &self.parameters
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// The steps so far.
    pub fn steps(&self) -> &[StepSummary] {
        &self.steps
    }

    fn handle_passed(&mut self) {
        if self.r > self.old_r {
            self.old_r = self.r;
        } else {
            self.count += 1;
            if self.count >= SearchParameters::CONVERGED {
                let per_second = self.r.max(self.old_r);
                self.end = Some(End::Found { per_second });
                return;
            }
        }
        self.r = (self.r as f64 + self.w * self.r as f64).floor() as u64;
    }

    fn handle_failed(&mut self, succeeded: u64) {
        if succeeded == 0 && self.old_r == 0 && self.r == self.parameters.start {
            self.end = Some(End::NoneSucceeded { per_second: self.r });
            return;
        }
        self.r = (self.r as f64 - self.d * self.r as f64).floor() as u64;
        self.d = SearchParameters::LEAST_WEIGHT.max(self.d / 2.0);
        self.w = SearchParameters::LEAST_WEIGHT.max(self.w / 2.0);
    }

    fn handle_invalid(&mut self) {
        if self.retried < self.parameters.retries {
            self.retried += 1;
            return;
        }
        self.end = Some(End::GeneratorLimit {
            at_least: self.best(),
            too_fast: self.r,
        });
    }

    fn best(&self) -> Option<u64> {
        StepSummary::highest_passed(&self.steps)
    }

    /// Ends a search that has nowhere to go.
    fn check_bounds(&mut self) {
        if self.end.is_some() {
            return;
        }
        if self.r == 0 {
            self.end = Some(match self.best() {
                // It failed later at all rates that had passed.
                Some(per_second) => End::TooManySteps {
                    best: Some(per_second),
                },
                None => End::Nothing,
            });
        } else if self.steps.len() >= self.parameters.most_steps as usize
            || self.r as f64 > Pattern::HIGHEST
        {
            self.end = Some(End::TooManySteps { best: self.best() });
        } else if self
            .parameters
            .most_attempts
            .is_some_and(|most| most < self.attempts())
        {
            self.end = Some(End::TooFewUsers {
                at_least: self.best(),
                wanted: self.attempts(),
            });
        }
    }

    /// Attempts of a step at the present rate.
    fn attempts(&self) -> u64 {
        let least = self.parameters.least_seconds.clamp(0.0, 86_400.0);
        let longer = (self.r as f64 * least).ceil() as u64;
        self.parameters.attempts.max(longer)
    }
}

impl Procedure for Search {
    fn next_step(&self) -> Option<Step> {
        self.end.is_none().then_some(Step {
            number: self.steps.len() as u32,
            workload: self.parameters.workload,
            per_second: self.r as f64,
            attempts: self.attempts(),
            spacing: Spacing::Even,
            users: None,
            stops_at_failure: self.parameters.stops_at_failure,
        })
    }

    fn handle_result(&mut self, result: StepResult) {
        let Some(step) = self.next_step() else {
            return;
        };
        let is_whole = result.succeeded >= step.attempts;
        let passed = result.validity.is_valid() && result.failed == 0 && is_whole;
        self.steps.push(StepSummary::new(&step, &result, passed));
        if !result.validity.is_valid() {
            self.handle_invalid();
        } else {
            self.retried = 0;
            if passed {
                self.handle_passed();
            } else {
                self.handle_failed(result.succeeded);
            }
        }
        self.check_bounds();
    }

    fn steps(&self) -> &[StepSummary] {
        &self.steps
    }
}
