//! Showing and writing what a run measured.

use std::process::ExitCode;

use report::{Document, Machine};
use serde::Serialize;

use super::common::Outputs;
use super::document::RunDocument;
use super::exit::Ending;
use super::results::Results;
use crate::perf::output::{Written, print, width};
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
        print(&text);
        let machine = Machine::detect();
        let mut written = Written::default();
        if let Some(path) = &outputs.json {
            let run = RunDocument::new(&self);
            let document = Document::new(machine.clone(), self.seed, parameters, vec![run]);
            written.write("Results as JSON", path, document.to_json());
        }
        if let Some(path) = &outputs.html {
            written.write("Page with plots", path, self.page(machine, parameters));
        }
        if let Some(path) = &outputs.csv {
            let records = std::mem::replace(&mut self.records, Ok(()));
            written.note("A line for each attempt", path, records);
        }
        written.first(self.failure.take());
        written.end()?;
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
