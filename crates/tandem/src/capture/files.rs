//! Capture files opened, read in the order of time, with a bar that tells how far we are.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use capture::{ClockOffset, Clocks, Counts, Event, EventKind, Merge, Reader, Settings};
use indicatif::{ProgressBar, ProgressStyle};

use crate::output_style::shows_progress;
use crate::usage::refused;

/// The files of one experiment.
#[derive(Debug)]
pub(super) struct Files {
    paths: Vec<PathBuf>,
    settings: Settings,
    /// How the clock of each differs from the first one's.
    pub(super) clocks: Vec<ClockOffset>,
}

/// What was found about the files themselves.
#[derive(Debug, Default)]
pub(super) struct FileFindings {
    /// Of each file.
    pub(super) counts: Vec<Counts>,
    /// Of each file, what could not be read: the first few.
    pub(super) warnings: Vec<Vec<String>>,
    /// Whether a file is damaged, or could not be read to its end.
    pub(super) is_damaged: bool,
}

/// What is read from: a file, or standard input.
type Source = Box<dyn Read>;

/// Warnings shown of one file.
const MOST_WARNINGS: u64 = 10;

/// Packets between two looks at the bar.
const STEPS: usize = 4096;

impl Files {
    /// Files that are to be read, all of which can be.
    pub(super) fn new(paths: Vec<PathBuf>, settings: Settings) -> anyhow::Result<Files> {
        let files = Files {
            clocks: vec![ClockOffset::default(); paths.len()],
            paths,
            settings,
        };
        let has_pipe = files.paths.iter().any(|path| is_pipe(path));
        anyhow::ensure!(
            !has_pipe || files.paths.len() == 1,
            refused("several files are read twice, a pipe only once: write it to a file first")
        );
        if !has_pipe {
            files.open()?;
        }
        Ok(files)
    }

    /// Whether the files can be read more than once.
    pub(super) fn can_be_read_again(&self) -> bool {
        !self.paths.iter().any(|path| is_pipe(path))
    }

    /// How long they are, all together; `None` where that is not known before they have been read.
    pub(super) fn octets(&self) -> Option<u64> {
        if !self.can_be_read_again() {
            return None;
        }
        let lengths = self
            .paths
            .iter()
            .map(|path| std::fs::metadata(path).map_or(0, |metadata| metadata.len()));
        Some(lengths.sum())
    }

    /// The names of the files.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.paths.iter().map(|path| path.display().to_string())
    }

    /// Compares the clocks of several files by what they have in common.
    pub(super) fn compare_clocks(&mut self, seed: u64) -> anyhow::Result<()> {
        if self.paths.len() < 2 {
            return Ok(());
        }
        let mut clocks = Clocks::new(self.paths.len(), seed);
        self.read("comparing clocks", &mut |event| clocks.observe(event))?;
        self.clocks = clocks.offsets();
        Ok(())
    }

    /// Reads all files as one. A file that breaks off, or cannot be read on, is told of; what could be read counts, and the
    /// others are read on.
    pub(super) fn read(
        &self,
        what: &'static str,
        on_event: &mut impl FnMut(&Event<'_>),
    ) -> anyhow::Result<FileFindings> {
        let readers = self.open()?;
        let offsets = self.clocks.iter().map(|clock| clock.nanoseconds);
        let mut merge = Merge::new(readers.into_iter().zip(offsets));
        let mut found = FileFindings {
            warnings: vec![Vec::new(); self.paths.len()],
            ..FileFindings::default()
        };
        let mut omitted = vec![0_u64; self.paths.len()];
        let bar = self.bar(what);
        loop {
            let stepped = merge.steps(STEPS, &mut |event: Event<'_>| match &event.kind {
                EventKind::Warning(warning) => {
                    found.is_damaged |= is_damage(warning);
                    let shown = &mut found.warnings[event.file];
                    match shown.len() as u64 {
                        MOST_WARNINGS.. => omitted[event.file] += 1,
                        _ => shown.push(format!("packet {}: {warning}", event.packet)),
                    }
                }
                _ => on_event(&event),
            });
            match stepped {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    found.is_damaged = true;
                    found.warnings[error.file].push(error.to_string());
                }
            }
            bar.set_position(merge.counts().map(|counts| counts.octets).sum());
        }
        bar.finish_and_clear();
        for (shown, omitted) in found.warnings.iter_mut().zip(omitted) {
            if omitted > 0 {
                shown.push(format!("and {omitted} more of this kind"));
            }
        }
        found.counts = merge.counts().collect();
        Ok(found)
    }

    fn open(&self) -> anyhow::Result<Vec<Reader<Source>>> {
        let paths = self.paths.iter().enumerate();
        paths
            .map(|(number, path)| {
                let input: Source = match is_standard_input(path) {
                    true => Box::new(io::stdin()),
                    false => {
                        // The reader asks for large blocks.
                        let file = File::open(path);
                        Box::new(file.with_context(|| format!("cannot open {}", path.display()))?)
                    }
                };
                Reader::open_with(input, number, &self.settings)
                    .with_context(|| format!("cannot read {}", path.display()))
            })
            .collect()
    }

    /// A bar in a terminal, for files that take their time.
    fn bar(&self, what: &'static str) -> ProgressBar {
        const LONG: u64 = 20 << 20;
        let octets = self.octets().unwrap_or(0);
        if octets < LONG || !shows_progress() {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template(
            "{msg} {wide_bar:.cyan/dim} {binary_bytes}/{binary_total_bytes}",
        );
        ProgressBar::new(octets)
            .with_message(what)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }
}

/// Whether a warning is about the file, not about the network.
fn is_damage(warning: &capture::Warning) -> bool {
    matches!(
        warning,
        capture::Warning::FileBroken { .. } | capture::Warning::FileSkipped { .. }
    )
}

/// Whether a file can be read once only: standard input, or a pipe that a shell has made.
fn is_pipe(path: &Path) -> bool {
    is_standard_input(path) || std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}
