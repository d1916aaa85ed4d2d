//! Ladders: more and more users, each rung several times, as published measurements have it.

use std::time::Duration;

use report::Trials;
use serde::Serialize;

use super::{Procedure, Step, StepResult, StepSummary, Workload};
use crate::arrivals::Spacing;
use crate::driver::{BackgroundSummary, BackgroundTotal};
use crate::statistics::Delays;

/// What a [`Ladder`] is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LadderParameters {
    /// Sessions on each rung: each has a caller and a callee of its own, who register first.
    pub rungs: Vec<u32>,
    /// How often each rung is measured.
    pub repeat: u32,
    /// Attempts a second; none begins all sessions of a rung within a second.
    pub per_second: Option<f64>,
}

impl LadderParameters {
    /// Sessions on each rung of the published measurements.
    pub const PUBLISHED: [u32; 8] = [10, 100, 200, 400, 500, 600, 800, 1000];
}

impl Default for LadderParameters {
    /// The published ladder: each rung five times.
    fn default() -> LadderParameters {
        LadderParameters {
            rungs: LadderParameters::PUBLISHED.into(),
            repeat: 5,
            per_second: None,
        }
    }
}

/// What was measured on a rung, over its repetitions: means with their confidence intervals.
///
/// Delays are in milliseconds. A repetition in which nothing succeeded has no delays and does not count
/// for them; one in which the generator did not keep up counts for nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rung {
    /// Sessions.
    pub sessions: u32,
    /// Repetitions in which the generator did not keep up.
    pub invalid: u32,
    /// REGISTER delay.
    pub register_delay: DelayTrials,
    /// INVITE delay.
    pub invite_delay: DelayTrials,
    /// Call set-up delay.
    pub call_setup_delay: DelayTrials,
    /// Session request delay (RFC 6076 section 4.3.1).
    pub session_request_delay: DelayTrials,
    /// Lost REGISTERs.
    pub lost_registers: Trials,
    /// Lost INVITEs.
    pub lost_invites: Trials,
    /// Lost sessions.
    pub lost_sessions: Trials,
    /// Sessions that were set up, in percent (RFC 6076 section 4.6).
    pub session_establishment_ratio_percent: Trials,
    /// The traffic beside registrations and calls, where there was any.
    pub background: Option<BackgroundTrials>,
}

/// What became of the traffic beside each of several trials.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BackgroundTrials {
    /// Datagrams sent.
    pub sent: Trials,
    /// Of these, lost, in percent; none where they were not received here.
    pub lost_percent: Trials,
    /// Bits of payload sent a second.
    pub bits_per_second: Trials,
}

/// The shortest, mean and longest delay of each of several trials, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DelayTrials {
    /// The shortest of a trial.
    pub min: Trials,
    /// The mean of a trial.
    pub average: Trials,
    /// The longest of a trial.
    pub max: Trials,
}

/// The measurement of a ladder, rung by rung.
#[derive(Clone, Debug)]
pub struct Ladder {
    parameters: LadderParameters,
    results: Vec<StepResult>,
    steps: Vec<StepSummary>,
}

impl Ladder {
    /// A measurement that has not begun.
    pub fn new(parameters: LadderParameters) -> Ladder {
        Ladder {
            parameters,
            results: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// What it was told.
    pub fn parameters(&self) -> &LadderParameters {
        &self.parameters
    }

    /// The steps so far.
    pub fn steps(&self) -> &[StepSummary] {
        &self.steps
    }

    /// What was measured so far, rung by rung.
    pub fn rungs(&self) -> Vec<Rung> {
        let repeat = self.parameters.repeat.max(1) as usize;
        let measured = self.results.chunks(repeat);
        self.parameters
            .rungs
            .iter()
            .zip(measured)
            .map(|(sessions, results)| rung(*sessions, results))
            .collect()
    }
}

impl Procedure for Ladder {
    fn next_step(&self) -> Option<Step> {
        let repeat = self.parameters.repeat.max(1) as usize;
        let sessions = *self.parameters.rungs.get(self.results.len() / repeat)?;
        let all_at_once = f64::from(sessions.max(1));
        Some(Step {
            number: self.results.len() as u32,
            workload: Workload::RegistrationsAndSessions,
            per_second: self.parameters.per_second.unwrap_or(all_at_once),
            attempts: u64::from(sessions),
            spacing: Spacing::Even,
            users: Some(sessions),
            stops_at_failure: false,
        })
    }

    fn handle_result(&mut self, result: StepResult) {
        let Some(step) = self.next_step() else {
            return;
        };
        let passed = result.validity.is_valid() && result.failed == 0;
        self.steps.push(StepSummary::new(&step, &result, passed));
        self.results.push(result);
    }

    fn steps(&self) -> &[StepSummary] {
        &self.steps
    }
}

fn rung(sessions: u32, results: &[StepResult]) -> Rung {
    let valid: Vec<&StepResult> = results
        .iter()
        .filter(|result| result.validity.is_valid())
        .collect();
    let delays = |of: &dyn Fn(&StepResult) -> &Delays| {
        let trials = |at: fn(&Delays) -> Option<Duration>| {
            Trials::of(
                valid
                    .iter()
                    .filter_map(|result| Some(at(of(result))?.as_secs_f64() * 1e3)),
            )
        };
        DelayTrials {
            min: trials(Delays::minimum),
            average: trials(Delays::mean),
            max: trials(Delays::maximum),
        }
    };
    let counts =
        |of: &dyn Fn(&StepResult) -> u64| Trials::of(valid.iter().map(|result| of(result) as f64));
    Rung {
        sessions,
        invalid: (results.len() - valid.len()) as u32,
        register_delay: delays(&|result| &result.statistics.published.register_delay),
        invite_delay: delays(&|result| &result.statistics.published.invite_delay),
        call_setup_delay: delays(&|result| &result.statistics.published.call_setup_delay),
        session_request_delay: delays(&|result| &result.statistics.metrics.session_request_delay),
        lost_registers: counts(&|result| result.statistics.published.lost_registers),
        lost_invites: counts(&|result| result.statistics.published.lost_invites),
        lost_sessions: counts(&|result| result.statistics.published.lost_sessions()),
        session_establishment_ratio_percent: Trials::of(
            valid
                .iter()
                .filter_map(|result| result.statistics.metrics.session_establishment_ratio()),
        ),
        background: background(&valid),
    }
}

fn background(results: &[&StepResult]) -> Option<BackgroundTrials> {
    let totals = results
        .iter()
        .filter_map(|result| result.background.as_ref());
    let summaries: Vec<BackgroundSummary> = totals.map(BackgroundTotal::summary).collect();
    (!summaries.is_empty()).then(|| BackgroundTrials {
        sent: Trials::of(summaries.iter().map(|summary| summary.sent as f64)),
        lost_percent: Trials::of(summaries.iter().filter_map(|summary| summary.lost_percent)),
        bits_per_second: Trials::of(
            summaries
                .iter()
                .filter_map(|summary| summary.bits_per_second),
        ),
    })
}
