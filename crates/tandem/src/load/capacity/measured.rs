//! What was found of a server's capacity.

use load::capacity::{Benchmark, End, Part, PartResult, Rung, StepSummary};
use report::{Cell, Column, Row, Section, Table, format_number};
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
    },
    Sipstone {
        parts: Vec<PartResult>,
        figure: Option<f64>,
        steps: Vec<StepSummary>,
        notes: Vec<String>,
    },
}

impl Measured {
    pub(super) fn tables(&self) -> Vec<Table> {
        match self {
            Measured::Benchmark(benchmark) => {
                vec![benchmark.form(), StepSummary::table(&benchmark.steps)]
            }
            Measured::Ladder { rungs, steps } => {
                vec![Rung::table(rungs), StepSummary::table(steps)]
            }
            Measured::Sipstone {
                parts,
                figure,
                steps,
                notes,
            } => {
                let mut table = Table::new("SIPstone").columns([
                    Column::text("Part").key(),
                    Column::number("Weight"),
                    Column::text("Transactions a second"),
                ]);
                for result in parts {
                    table.push(Row::new([
                        Cell::from(result.part.map_or("all at once", Part::name)),
                        Cell::number(result.weight, 2),
                        Cell::from(result.end.to_string()),
                    ]));
                }
                if let Some(figure) = figure {
                    table.note(format!(
                        "Weighted mean: {} transactions a second.",
                        format_number(*figure, 0)
                    ));
                }
                for note in notes {
                    table.note(note.clone());
                }
                vec![table, StepSummary::table(steps)]
            }
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

    pub(super) fn ending(&self) -> Ending {
        let ends: Vec<End> = match self {
            Measured::Benchmark(benchmark) => {
                let sessions = benchmark
                    .sessions
                    .iter()
                    .map(|sessions| sessions.session_establishment_rate);
                let registrations = benchmark.registrations.iter().flat_map(|registrations| {
                    let rates = [
                        registrations.registration_rate,
                        registrations.reregistration_rate,
                    ];
                    rates.into_iter().flatten()
                });
                sessions.chain(registrations).collect()
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
            () => Ending::Well,
        }
    }
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
