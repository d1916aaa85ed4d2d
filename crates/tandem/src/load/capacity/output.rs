//! What was found of a server's capacity, shown and written.

use std::sync::atomic::Ordering::Relaxed;

use load::capacity::{
    LadderParameters, SearchParameters, SipstoneParameters, StepSummary, Workload,
};
use report::{Document, Machine, Page, Period, Provenance, Section};
use serde::Serialize;

use super::{Measured, Measuring};
use crate::demo::command_line;
use crate::load::results::flat;
use crate::load::{background, common, population};
use crate::perf::output::{Written, print, width};

/// What was asked for, for the document.
#[derive(Debug, Serialize)]
struct Parameters<'a> {
    #[serde(flatten)]
    network: common::NetworkParameters,
    #[serde(flatten)]
    population: population::Parameters,
    /// None: as many as were wanted or are listed.
    users: Option<u32>,
    hold_seconds: f64,
    settle_seconds: f64,
    /// The rates that were searched for.
    of: Option<&'a [Workload]>,
    search: Option<SearchParameters>,
    ladder: Option<LadderParameters>,
    sipstone: Option<SipstoneParameters>,
    redirected: Option<&'a str>,
    #[serde(flatten)]
    background: background::Parameters,
}

impl Measuring<'_> {
    fn parameters(&self, measured: &Measured) -> Parameters<'_> {
        let arguments = self.arguments;
        let is_benchmark = matches!(measured, Measured::Benchmark(_));
        let rungs = arguments.ladder.as_deref();
        Parameters {
            network: arguments.network.parameters(self.transport),
            population: arguments.population.parameters(),
            users: arguments.users,
            hold_seconds: arguments.hold.as_secs_f64(),
            settle_seconds: arguments.settle.as_secs_f64(),
            of: is_benchmark.then_some(arguments.of.as_slice()),
            search: is_benchmark.then(|| self.search_parameters()),
            ladder: rungs.map(|rungs| self.ladder_parameters(rungs)),
            sipstone: arguments.sipstone.then(|| self.sipstone_parameters()),
            redirected: arguments.redirected.as_deref(),
            background: background::Parameters::new(self.background.as_ref()),
        }
    }

    /// Shows the tables and writes the files that are asked for. What took minutes to measure is not kept back
    /// because a file cannot be written.
    pub(super) fn show_and_write(&self, measured: &Measured, period: Period) -> anyhow::Result<()> {
        let arguments = self.arguments;
        let tables = measured.tables();
        let shown = tables.iter().map(|table| table.to_terminal(width()) + "\n");
        print(&shown.collect::<String>());
        let parameters = self.parameters(measured);
        let mut written = Written::default();
        let machine = Machine::detect();
        if let Some(path) = &arguments.json {
            let document = Document::new(machine.clone(), self.seed, &parameters, vec![measured]);
            written.write("Results as JSON", path, document.to_json());
        }
        if let Some(path) = &arguments.csv {
            let lines = StepSummary::table(measured.steps()).to_csv();
            written.write("A line for each step", path, anyhow::Ok(lines));
        }
        if let Some(path) = &arguments.html {
            let title = format!("Capacity of {}:{}", self.transport, self.found.name);
            let interrupted = self.is_interrupted.load(Relaxed).then_some("interrupted");
            let verdict = interrupted.map(str::to_owned).into_iter();
            let verdict: Vec<String> = verdict.chain(measured.verdict()).collect();
            let figures = Section::new("Figures");
            let page = Page::new(title, verdict.join("; "), period)
                .section(measured.plots())
                .section(tables.into_iter().fold(figures, Section::table))
                .provenance(Provenance {
                    program: format!("tandem {}", env!("CARGO_PKG_VERSION")),
                    machine,
                    command: command_line(),
                    seed: self.seed,
                    parameters: flat(&parameters)?,
                });
            written.write("Page with plots", path, anyhow::Ok(page.to_html()));
        }
        written.end()
    }
}
