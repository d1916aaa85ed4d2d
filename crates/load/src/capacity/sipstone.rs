//! SIPstone (Schulzrinne, Narayanan, Lennox and Doyle: "SIPstone – Benchmarking SIP Server Performance",
//! April 2002): the rates of five kinds of transactions that a server can take within limits, and their
//! weighted mean.

use serde::Serialize;

use super::{
    End, LimitSearch, LimitSearchParameters, Procedure, Step, StepResult, StepSummary, Workload,
};
use crate::arrivals::Spacing;

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A REGISTER that is answered 200.
    Registration,
    /// A call that the server takes on as the outbound proxy of its caller: the Request-URI names a host of
    /// another domain.
    OutboundProxy,
    /// A call that the server answers 302.
    Redirect,
    /// A call that the server answers 480, because the callee is not registered; or 404, where it does not
    /// know users who are not.
    Unavailable,
    /// A call that the server forwards to its callee, who answers 200.
    Forwarded,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 5] = [
        Part::Registration,
        Part::OutboundProxy,
        Part::Redirect,
        Part::Unavailable,
        Part::Forwarded,
    ];

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Part::Registration => "registration",
            Part::OutboundProxy => "outbound proxy",
            Part::Redirect => "redirect",
            Part::Unavailable => "proxy 480",
            Part::Forwarded => "proxy 200",
        }
    }
}

/// What a rate has to keep to count. The limits are ours: the paper could not be found where this was written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SipstoneLimits {
    /// The part of the transactions (0 to 1) that may fail.
    pub failed_share: f64,
    /// The longest that the response time may be …
    pub response_time_ms: f64,
    /// … for this part of the transactions (0 to 1).
    pub quantile: f64,
}

impl Default for SipstoneLimits {
    /// 5 % may fail, and 95 % have to be answered within 500 ms: T1, so that requests over UDP are sent
    /// once (RFC 3261 section 17.1.1.2).
    fn default() -> SipstoneLimits {
        SipstoneLimits {
            failed_share: 0.05,
            response_time_ms: 500.0,
            quantile: 0.95,
        }
    }
}

impl SipstoneLimits {
    /// Whether a step kept them.
    pub fn are_kept(&self, step: &Step, result: &StepResult) -> bool {
        // What was stopped before its end, or did not begin, is as good as failed.
        let missing = step.attempts.saturating_sub(result.succeeded);
        let is_answered = missing as f64 <= self.failed_share * step.attempts as f64;
        let response_time = result.response_time().quantile(self.quantile);
        let is_quick =
            response_time.is_none_or(|delay| delay.as_secs_f64() * 1e3 <= self.response_time_ms);
        is_answered && is_quick
    }
}

/// What a [`Sipstone`] is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SipstoneParameters {
    /// The parts, with their weights in the mean.
    pub parts: Vec<(Part, f64)>,
    /// Whether they are all measured at once, mixed by their weights, rather than one after the other.
    pub is_mixed: bool,
    /// What a rate has to keep.
    pub limits: SipstoneLimits,
    /// How rates are searched.
    pub search: LimitSearchParameters,
    /// How long each step lasts, in seconds.
    pub step_seconds: f64,
}

impl Default for SipstoneParameters {
    /// All parts, weighing the same, one after the other, ten seconds a step.
    fn default() -> SipstoneParameters {
        SipstoneParameters {
            parts: Part::ALL.map(|part| (part, 1.0)).into(),
            is_mixed: false,
            limits: SipstoneLimits::default(),
            search: LimitSearchParameters::default(),
            step_seconds: 10.0,
        }
    }
}

/// What was found of a part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartResult {
    /// The part; none where all were mixed.
    pub part: Option<Part>,
    /// Its weight in the mean.
    pub weight: f64,
    /// How the search for its rate ended.
    pub end: End,
}

/// The measurement of all parts. Arrivals are random.
#[derive(Clone, Debug)]
pub struct Sipstone {
    parameters: SipstoneParameters,
    /// The part being measured and the search for its rate.
    search: LimitSearch,
    results: Vec<PartResult>,
    steps: Vec<StepSummary>,
}

impl Sipstone {
    /// A measurement that has not begun. Weights that are not positive leave their parts out.
    pub fn new(mut parameters: SipstoneParameters) -> Sipstone {
        parameters
            .parts
            .retain(|(_, weight)| weight.is_finite() && *weight > 0.0);
        Sipstone {
            search: LimitSearch::new(parameters.search),
            parameters,
            results: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// What it was told.
    pub fn parameters(&self) -> &SipstoneParameters {
        &self.parameters
    }

    /// What was found so far, part by part.
    pub fn results(&self) -> &[PartResult] {
        &self.results
    }

    /// The steps so far.
    pub fn steps(&self) -> &[StepSummary] {
        &self.steps
    }

    /// The figure: the weighted mean of the rates; none before all parts have one.
    pub fn figure(&self) -> Option<f64> {
        if self.next_step().is_some() {
            return None;
        }
        let mut sum = 0.0;
        for result in &self.results {
            sum += result.weight * result.end.per_second()? as f64;
        }
        let weights: f64 = self.results.iter().map(|result| result.weight).sum();
        (weights > 0.0).then(|| sum / weights)
    }

    /// The part to measure now with its weight; none when all are.
    fn part(&self) -> Option<(Option<Part>, f64)> {
        if self.parameters.is_mixed {
            let is_left = self.results.is_empty() && !self.parameters.parts.is_empty();
            return is_left.then_some((None, 1.0));
        }
        let (part, weight) = *self.parameters.parts.get(self.results.len())?;
        Some((Some(part), weight))
    }
}

impl Procedure for Sipstone {
    fn next_step(&self) -> Option<Step> {
        let (part, _) = self.part()?;
        let per_second = self.search.rate()? as f64;
        let seconds = self.parameters.step_seconds.clamp(0.1, 86_400.0);
        Some(Step {
            number: self.steps.len() as u32,
            workload: part.map_or(Workload::SipstoneMix, Workload::Sipstone),
            per_second,
            attempts: (per_second * seconds).ceil().max(1.0) as u64,
            spacing: Spacing::Random,
            users: None,
            stops_at_failure: false,
        })
    }

    fn handle_result(&mut self, result: StepResult) {
        let (Some(step), Some((part, weight))) = (self.next_step(), self.part()) else {
            return;
        };
        let is_valid = result.validity.is_valid();
        let is_kept = is_valid && self.parameters.limits.are_kept(&step, &result);
        self.steps.push(StepSummary::new(&step, &result, is_kept));
        if is_valid {
            self.search.judge(is_kept);
        } else {
            self.search.judge_invalid();
        }
        if let Some(end) = self.search.end() {
            self.results.push(PartResult { part, weight, end });
            self.search = LimitSearch::new(self.parameters.search);
        }
    }

    fn steps(&self) -> &[StepSummary] {
        &self.steps
    }
}
