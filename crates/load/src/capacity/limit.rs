//! The search for the highest rate that still keeps limits, in few steps: faster until they are broken, then
//! halving what is left.

use serde::Serialize;

use super::End;
use crate::arrivals::Pattern;

/// What a [`LimitSearch`] is told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LimitSearchParameters {
    /// Attempts a second in the beginning.
    pub start: u64,
    /// By what the rate is multiplied as long as limits are kept, and divided as long as they are broken.
    pub growth: f64,
    /// How near the highest rate known to keep them and the lowest known to break them must come, as part
    /// of the rate.
    pub precision: f64,
    /// How often a rate is tried again at which the generator did not keep up.
    pub retries: u32,
    /// Steps at most.
    pub most_steps: u32,
}

impl Default for LimitSearchParameters {
    /// From 100 a second, doubling, to within 2 %.
    fn default() -> LimitSearchParameters {
        LimitSearchParameters {
            start: 100,
            growth: 2.0,
            precision: 0.02,
            retries: 2,
            most_steps: 100,
        }
    }
}

/// The search for a rate. It only knows which rates were tried and what came of them.
#[derive(Clone, Debug)]
pub struct LimitSearch {
    parameters: LimitSearchParameters,
    rate: u64,
    kept: Option<u64>,
    broken: Option<u64>,
    steps: u32,
    retried: u32,
    end: Option<End>,
}

impl LimitSearch {
    /// A search that has not begun.
    pub fn new(parameters: LimitSearchParameters) -> LimitSearch {
        LimitSearch {
            parameters,
            rate: parameters.start.clamp(1, Pattern::HIGHEST as u64),
            kept: None,
            broken: None,
            steps: 0,
            retried: 0,
            end: None,
        }
    }

    /// The rate to try now; none when the search is over.
    pub fn rate(&self) -> Option<u64> {
        self.end.is_none().then_some(self.rate)
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// At the present rate limits were kept, or not.
    pub fn judge(&mut self, is_kept: bool) {
        if self.end.is_some() {
            return;
        }
        self.retried = 0;
        if is_kept {
            self.kept = self.kept.max(Some(self.rate));
        } else {
            self.broken = Some(
                self.broken
                    .map_or(self.rate, |broken| broken.min(self.rate)),
            );
        }
        self.proceed();
    }

    /// At the present rate the generator did not keep up.
    pub fn judge_invalid(&mut self) {
        if self.end.is_some() {
            return;
        }
        if self.retried < self.parameters.retries {
            self.retried += 1;
            return;
        }
        self.end = Some(End::GeneratorLimit {
            at_least: self.kept,
            too_fast: self.rate,
        });
    }

    fn proceed(&mut self) {
        self.steps += 1;
        let growth = self.parameters.growth.clamp(1.01, 100.0);
        let next = match (self.kept, self.broken) {
            (None, None) => return,
            (Some(kept), None) => (kept as f64 * growth).ceil() as u64,
            (None, Some(broken)) => (broken as f64 / growth).floor() as u64,
            (Some(kept), Some(broken)) => {
                let middle = (kept as f64 * broken as f64).sqrt().round() as u64;
                let wide = kept as f64 * (1.0 + self.parameters.precision.max(0.0));
                if broken <= kept + 1 || broken as f64 <= wide {
                    self.end = Some(End::Found { per_second: kept });
                    return;
                }
                middle.clamp(kept + 1, broken - 1)
            }
        };
        if next == 0 {
            self.end = Some(End::Nothing);
        } else if self.steps >= self.parameters.most_steps || next as f64 > Pattern::HIGHEST {
            self.end = Some(End::TooManySteps { best: self.kept });
        }
        self.rate = next;
    }
}
