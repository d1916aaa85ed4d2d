//! What the measurements print and write.

use std::fs::OpenOptions;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::output_style::{is_quiet, shows_progress};
use crate::terminal::{complain, escaped};
use indicatif::{ProgressBar, ProgressStyle};

/// Progress on standard error: lines, and in a terminal a bar beneath them. Nothing with `--quiet`.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Progress of something that takes so many seconds, or nobody knows how long.
    pub(crate) fn new(seconds: Option<f64>) -> Progress {
        if !shows_progress() {
            return Progress { bar: None };
        }
        let bar = match seconds {
            Some(seconds) => ProgressBar::new((seconds * 1e3) as u64)
                .with_style(style("{wide_bar:.cyan/dim} {percent:>3} %")),
            None => ProgressBar::new_spinner().with_style(style("{spinner} {elapsed} {msg}")),
        };
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
        Progress { bar: Some(bar) }
    }

    /// A line.
    pub(crate) fn line(&self, line: &str) {
        let line = &*escaped(line);
        match &self.bar {
            _ if is_quiet() => {}
            Some(bar) => bar.println(line),
            // Nobody may be reading any more; the measurement goes on.
            None => drop(writeln!(std::io::stderr(), "{line}")),
        }
    }

    /// A line, and how far we are.
    pub(crate) fn interval(&self, seconds: f64, line: &str) {
        self.line(line);
        if let Some(bar) = &self.bar {
            bar.set_position((seconds * 1e3) as u64);
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Whether something that was to be printed could not be.
static IS_CUT: AtomicBool = AtomicBool::new(false);

/// Whether a document goes to standard output: what is for people goes to standard error then.
static IS_DOCUMENT: AtomicBool = AtomicBool::new(false);

/// The file name that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// Prints to standard output, [escaped], or to standard error if a document is to go there. Whoever closes the pipe has read enough; a disk that is full is told, once, and the
/// program [fails](is_cut) in the end.
pub(crate) fn print(text: &str) {
    let text = escaped(text);
    if IS_DOCUMENT.load(Ordering::Relaxed) {
        print_to(std::io::stderr().lock(), &text);
    } else {
        print_to(std::io::stdout().lock(), &text);
    }
}

fn print_to(mut output: impl Write, text: &str) {
    let printed = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
    if let Err(error) = printed
        && error.kind() != ErrorKind::BrokenPipe
        && !IS_CUT.swap(true, Ordering::Relaxed)
    {
        complain!("tandem: cannot write to standard output: {error}");
    }
}

/// Whether something that was to be printed could not be, for another reason than that nobody reads it.
pub(crate) fn is_cut() -> bool {
    IS_CUT.load(Ordering::Relaxed)
}

/// What is printed goes to standard error from now on: standard output is for a document.
pub(super) fn keep_for_document() {
    IS_DOCUMENT.store(true, Ordering::Relaxed);
}

/// Prints a line that a program may be waiting for.
pub(crate) fn print_line(line: &str) {
    print(&format!("{line}\n"));
}

/// Writes a document or page to a file, or to standard output if it is `-`.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if is_standard_output(path) {
        print_to(std::io::stdout().lock(), text);
    } else {
        report::write_file(path, text)?;
    }
    Ok(())
}

/// The files that a command leaves at its end. Each is written although another cannot be: what took minutes to measure is not
/// lost.
#[derive(Debug, Default)]
pub(crate) struct Written {
    lines: String,
    errors: Vec<anyhow::Error>,
}

impl Written {
    /// Writes a document or page.
    pub(crate) fn write<E: Into<anyhow::Error>>(
        &mut self,
        what: &str,
        path: &Path,
        text: Result<String, E>,
    ) {
        let written = text.map_err(Into::into);
        self.note(what, path, written.and_then(|text| write(path, &text)));
    }

    /// Takes note of a file that was written already.
    pub(crate) fn note(&mut self, what: &str, path: &Path, written: anyhow::Result<()>) {
        match written {
            Ok(()) if is_standard_output(path) => {}
            Ok(()) => self
                .lines
                .push_str(&format!("{what}: {}\n", path.display())),
            Err(error) => self.errors.push(error),
        }
    }

    /// Takes note of what else went wrong.
    pub(crate) fn check(&mut self, result: anyhow::Result<()>) {
        self.errors.extend(result.err());
    }

    /// Puts an error before all others.
    pub(crate) fn first(&mut self, error: Option<anyhow::Error>) {
        self.errors.splice(0..0, error);
    }

    /// Prints which files were written, and all errors but the first, which it returns for the caller to print.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        if !self.lines.is_empty() {
            print(&format!("\n{}", self.lines));
        }
        let mut errors = self.errors.into_iter();
        let first = errors.next();
        for other in errors {
            complain!("tandem: {other:#}");
        }
        first.map_or(Ok(()), Err)
    }
}

/// Whether what is written to this file goes to standard output.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == STANDARD_OUTPUT
}

/// Finds out before minutes of work, not after, that a file cannot be written. A file that was not there is not left
/// behind. What is printed goes to standard error from now on if a document goes to standard output.
pub(crate) fn check_writable<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
) -> anyhow::Result<()> {
    let mut documents = 0;
    for path in paths {
        if is_standard_output(path) {
            documents += 1;
            continue;
        }
        let is_new = !path.exists();
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .and_then(|_| {
                if is_new {
                    std::fs::remove_file(path)
                } else {
                    Ok(())
                }
            })
            .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))?;
    }
    if documents > 1 {
        crate::usage::error(
            &[],
            "two documents cannot go to standard output: give one of them a file name instead of -",
        );
    }
    IS_DOCUMENT.fetch_or(documents > 0, Ordering::Relaxed);
    Ok(())
}

/// Says what makes no sense in the arguments of `tandem perf COMMAND`, and ends the program.
pub(super) fn usage_error(command: &str, reason: &str) -> ! {
    crate::usage::error(&["perf", command], reason)
}

/// Columns to fill: those of the terminal, or a width that suits files.
pub(crate) fn width() -> usize {
    const FILE_WIDTH: u16 = 160;
    let stdout = console::Term::stdout();
    let columns = match std::io::stdout().is_terminal() {
        true => stdout.size_checked().map(|(_, columns)| columns),
        false => None,
    };
    usize::from(columns.unwrap_or(FILE_WIDTH))
}
