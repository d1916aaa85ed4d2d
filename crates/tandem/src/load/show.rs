//! Showing and writing what a run measured.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use report::{Document, Machine};
use serde::Serialize;

use super::common::Outputs;
use super::document::RunDocument;
use super::exit::Ending;
use super::results::{Results, first_of};
use crate::perf::output::{print, width, write};
use crate::terminal::complain;

impl Results {
    /// Shows the tables, and writes the files that are asked for. A file that cannot be written is no reason to
    /// keep the tables back, nor the other files; nor is it that not all was done, which is told in the end.
    pub(super) fn show_and_write(
        mut self,
        outputs: &Outputs,
        parameters: &impl Serialize,
    ) -> anyhow::Result<ExitCode> {
        let mut text = self.in_short().join("\n");
        text.push('\n');
        for table in self.tables() {
            text.push('\n');
            text.push_str(&table.to_terminal(width()));
        }
        let machine = Machine::detect();
        let mut errors = Vec::new();
        let mut note = |written: anyhow::Result<()>, what: &str, path: &Path| match written {
            Ok(()) => {
                let _ = write!(text, "\n{what}: {}", path.display());
            }
            Err(error) => errors.push(error),
        };
        if let Some(path) = &outputs.json {
            let run = RunDocument::new(&self);
            let document = Document::new(machine.clone(), self.seed, parameters, vec![run]);
            let written = document.to_json().map_err(anyhow::Error::from);
            let written = written.and_then(|text| write(path, &text));
            note(written, "Results as JSON", path);
        }
        if let Some(path) = &outputs.html {
            let page = self.page(machine, parameters);
            let written = page.and_then(|text| write(path, &text));
            note(written, "Page with plots", path);
        }
        if let Some(path) = &outputs.csv {
            let written = std::mem::replace(&mut self.records, Ok(()));
            note(written, "A line for each attempt", path);
        }
        if outputs.json.is_some() || outputs.html.is_some() || outputs.csv.is_some() {
            text.push('\n');
        }
        print(&text);
        first_of(self.failure.take().into_iter().chain(errors))?;
        let ending = self.ending();
        if ending == Ending::Invalid {
            complain!(
                "tandem: the run is {}: lower the rate, or give the generator more processors",
                self.validity
            );
        }
        Ok(ending.into())
    }
}
