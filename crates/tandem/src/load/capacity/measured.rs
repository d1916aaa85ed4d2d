//! What was found of a server's capacity.

use load::capacity::{Benchmark, End, Part, PartResult, Rung, StepSummary, Workload};
use report::{Section, Table, format_count, format_number};
use serde::Serialize;

use super::name_of;
use crate::load::exit::Ending;

/// What was found, for the document.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Measured {
    Benchmark(Box<Benchmark>),
    Ladder {
        rungs: Vec<Rung>,
        steps: Vec<StepSummary>,
        notes: Vec<String>,
    },
    Sipstone {
        parts: Vec<PartResult>,
        figure: Option<f64>,
        steps: Vec<StepSummary>,
        notes: Vec<String>,
        /// The same, for people.
        #[serde(skip)]
        table: Table,
    },
}

impl Measured {
    pub(super) fn tables(&self) -> Vec<Table> {
        match self {
            Measured::Benchmark(benchmark) => {
                vec![benchmark.form(), StepSummary::table(&benchmark.steps)]
            }
            Measured::Ladder {
                rungs,
                steps,
                notes,
            } => {
                let mut ladder = Rung::table(rungs);
                for note in notes {
                    ladder.note(note.clone());
                }
                vec![ladder, StepSummary::table(steps)]
            }
            Measured::Sipstone { table, steps, .. } => {
                vec![table.clone(), StepSummary::table(steps)]
            }
        }
    }

    /// All steps, in the order in which they were run.
    pub(super) fn steps(&self) -> &[StepSummary] {
        match self {
            Measured::Benchmark(benchmark) => &benchmark.steps,
            Measured::Ladder { steps, .. } | Measured::Sipstone { steps, .. } => steps,
        }
    }

    pub(super) fn plots(&self) -> Section {
        let section = Section::new("Steps");
        match self {
            Measured::Benchmark(benchmark) => plots_of(&benchmark.steps, section),
            Measured::Sipstone { steps, .. } => plots_of(steps, section),
            Measured::Ladder { rungs, .. } => section.plot(Rung::plot(rungs)),
        }
    }

    /// The steps at starting rates in which no attempt at all succeeded.
    pub(super) fn without_success(&self) -> Vec<&StepSummary> {
        let Measured::Benchmark(benchmark) = self else {
            return Vec::new();
        };
        let is_so = |(_, end): &(Workload, End)| matches!(end, End::NoneSucceeded { .. });
        let last = |(workload, _)| {
            let mut steps = benchmark.steps.iter().rev();
            steps.find(|step| step.workload == workload)
        };
        let ends = ends_of(benchmark).into_iter();
        ends.filter(is_so).filter_map(last).collect()
    }

    /// What was found, in a few words for each search.
    pub(super) fn verdict(&self) -> Vec<String> {
        match self {
            Measured::Benchmark(benchmark) => {
                let ends = ends_of(benchmark).into_iter();
                ends.map(|(workload, end)| format!("{} {end}", name_of(workload)))
                    .collect()
            }
            Measured::Sipstone {
                figure: Some(figure),
                ..
            } => vec![format!("SIPstone {figure:.1}")],
            Measured::Sipstone { parts, .. } => {
                let ends = parts.iter();
                let name = |part: &PartResult| part.part.map_or("all at once", Part::name);
                ends.map(|part| format!("{} {}", name(part), part.end))
                    .collect()
            }
            Measured::Ladder { rungs, .. } => vec![verdict_of(rungs)],
        }
    }

    pub(super) fn ending(&self) -> Ending {
        let ends: Vec<End> = match self {
            Measured::Benchmark(benchmark) => {
                let ends = ends_of(benchmark).into_iter();
                ends.map(|(_, end)| end).collect()
            }
            Measured::Sipstone { parts, .. } => parts.iter().map(|part| part.end).collect(),
            Measured::Ladder { rungs, .. } => {
                return match rungs.iter().any(|rung| rung.invalid > 0) {
                    true => Ending::Invalid,
                    false => Ending::Well,
                };
            }
        };
        let is_limited = |end: &End| matches!(end, End::GeneratorLimit { .. });
        match () {
            () if ends.iter().any(is_limited) => Ending::Invalid,
            () if ends.iter().all(|end| end.per_second().is_none()) => Ending::Nothing,
            () if !self.without_success().is_empty() => Ending::Nothing,
            () => Ending::Well,
        }
    }
}

/// How far up the ladder nothing was lost.
fn verdict_of(rungs: &[Rung]) -> String {
    let lost = |rung: &Rung| {
        let all = [rung.lost_registers, rung.lost_sessions];
        all.iter().filter_map(|trials| trials.mean).sum::<f64>()
    };
    let mut parts = Vec::new();
    let is_measured = |rung: &&Rung| rung.lost_sessions.mean.is_some();
    match rungs
        .iter()
        .filter(is_measured)
        .find(|rung| lost(rung) > 0.0)
    {
        Some(first) => parts.push(format!(
            "losses begin with {} sessions: {} registrations and sessions were lost on average",
            format_count(first.sessions.into()),
            format_number(lost(first), 1)
        )),
        None => parts.extend(rungs.iter().rfind(is_measured).map(|last| {
            format!(
                "nothing was lost up to {} sessions",
                format_count(last.sessions.into())
            )
        })),
    }
    let invalid: u32 = rungs.iter().map(|rung| rung.invalid).sum();
    if invalid > 0 {
        parts.push(format!(
            "in {invalid} repetitions the generator did not keep up"
        ));
    }
    match parts.is_empty() {
        true => "nothing was measured".to_owned(),
        false => parts.join("; "),
    }
}

/// How the searches of a benchmark ended.
fn ends_of(benchmark: &Benchmark) -> Vec<(Workload, End)> {
    let sessions = benchmark.sessions.as_ref();
    let registrations = benchmark.registrations.as_ref();
    let ends = [
        (
            Workload::Sessions,
            sessions.map(|sessions| sessions.session_establishment_rate),
        ),
        (
            Workload::Registrations,
            registrations.and_then(|registrations| registrations.registration_rate),
        ),
        (
            Workload::Reregistrations,
            registrations.and_then(|registrations| registrations.reregistration_rate),
        ),
    ];
    let found = ends.into_iter();
    found
        .filter_map(|(workload, end)| Some((workload, end?)))
        .collect()
}

/// A plot for each search: steps of one follow each other.
fn plots_of(steps: &[StepSummary], section: Section) -> Section {
    let searches = steps.chunk_by(|one, other| one.workload == other.workload);
    searches.fold(section, |section, steps| {
        let title = match steps.first() {
            Some(step) => format!("Rates of the steps: {}", name_of(step.workload)),
            None => "Rates of the steps".to_owned(),
        };
        section.plot(StepSummary::plot(&title, steps))
    })
}
