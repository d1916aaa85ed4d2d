//! What was found of a server's capacity, shown and written.

use std::path::Path;

use load::capacity::{
    LadderParameters, SearchParameters, SipstoneParameters, StepSummary, Workload,
};
use report::{Document, Machine, Page, Provenance, Section};
use serde::Serialize;

use super::{Measured, Measuring};
use crate::demo::command_line;
use crate::load::results::{first_of, flat};
use crate::load::{background, common, population};
use crate::perf::output::{print, width, write};

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
    pub(super) fn show_and_write(&self, measured: &Measured) -> anyhow::Result<()> {
        let arguments = self.arguments;
        let tables = measured.tables();
        let shown = tables.iter().map(|table| table.to_terminal(width()) + "\n");
        print(&shown.collect::<String>());
        let parameters = self.parameters(measured);
        let mut text = String::new();
        let machine = Machine::detect();
        let mut errors = Vec::new();
        let mut note = |written: anyhow::Result<()>, what: &str, path: &Path| match written {
            Ok(()) => text.push_str(&format!("{what}: {}\n", path.display())),
            Err(error) => errors.push(error),
        };
        if let Some(path) = &arguments.json {
            let document = Document::new(machine.clone(), self.seed, &parameters, vec![measured]);
            let json = document.to_json().map_err(anyhow::Error::from);
            let written = json.and_then(|json| write(path, &json));
            note(written, "Results as JSON", path);
        }
        if let Some(path) = &arguments.csv {
            let lines = StepSummary::table(measured.steps()).to_csv();
            note(write(path, &lines), "A line for each step", path);
        }
        if let Some(path) = &arguments.html {
            let verdict = measured.verdict().join(", ");
            let title = format!("Capacity of {}:{}", self.transport, self.found.name);
            let title = match verdict.is_empty() {
                true => title,
                false => format!("{title}: {verdict}"),
            };
            let figures = Section::new("Figures");
            let page = Page::new(title)
                .section(measured.plots())
                .section(tables.into_iter().fold(figures, Section::table))
                .provenance(Provenance {
                    program: format!("tandem {}", env!("CARGO_PKG_VERSION")),
                    machine,
                    command: command_line(),
                    seed: self.seed,
                    parameters: flat(&parameters)?,
                });
            let written = write(path, &page.to_html());
            note(written, "Page with plots", path);
        }
        print(&text);
        first_of(errors)
    }
}
