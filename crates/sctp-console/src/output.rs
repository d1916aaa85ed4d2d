//! Standard output and error: a thread that writes, so that whoever does not read holds up nobody but
//! those who print.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::record::{ForPeople, Record};

/// Lines that wait to be written; who prints more waits.
const MAX_WAITING: usize = 64;

/// Where lines of output go. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    records: mpsc::Sender<Record>,
    progress: Progress,
}

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct Writer {
    thread: JoinHandle<()>,
    progress: Progress,
}

/// How many lines have been written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<AtomicU64>);

impl Output {
    /// Starts to write: errors to one place, all else to the other, for programs, or for people with a terminal of so many columns.
    pub(crate) fn start(
        mut lines: impl Write + Send + 'static,
        mut errors: impl Write + Send + 'static,
        for_people: Option<usize>,
    ) -> io::Result<(Output, Writer)> {
        let (records, mut waiting) = mpsc::channel::<Record>(MAX_WAITING);
        let progress = Progress::default();
        let written_lines = progress.clone();
        let thread = std::thread::Builder::new()
            .name("output".into())
            .spawn(move || {
                while let Some(record) = waiting.blocking_recv() {
                    let line = match for_people {
                        Some(columns) => {
                            let record = &record;
                            format!("{}\n", ForPeople { record, columns })
                        }
                        None => format!("{record}\n"),
                    };
                    let written = if record.is_error() {
                        // What was printed before is not to be seen after it.
                        let before = lines.flush();
                        // Nobody is left to be told that the place for errors is gone.
                        let _ = errors
                            .write_all(line.as_bytes())
                            .and_then(|()| errors.flush());
                        before
                    } else {
                        lines.write_all(line.as_bytes()).and_then(|()| {
                            // One system call for what came together.
                            if waiting.is_empty() {
                                lines.flush()
                            } else {
                                Ok(())
                            }
                        })
                    };
                    if written.is_err() {
                        return;
                    }
                    written_lines.0.fetch_add(1, Ordering::Relaxed);
                }
            })?;
        let output = Output {
            records,
            progress: progress.clone(),
        };
        Ok((output, Writer { thread, progress }))
    }

    /// Prints a line; waits while many wait to be written. A line for which there is no reader any
    /// more is dropped: [`closed`](Self::closed) tells.
    pub(crate) async fn print(&self, record: Record) {
        let _ = self.records.send(record).await;
    }

    /// How far the writing has got.
    pub(crate) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Waits until nobody reads any more, as when the program is piped into one that has ended.
    pub(crate) async fn closed(&self) {
        self.records.closed().await;
    }
}

impl Progress {
    /// Waits until no line has been written for `time`: all are written, or nobody reads them.
    pub(crate) async fn stalled(&self, time: Duration) {
        let mut seen = None;
        loop {
            let now = Some(self.0.load(Ordering::Relaxed));
            if std::mem::replace(&mut seen, now) == now {
                return;
            }
            tokio::time::sleep(time).await;
        }
    }
}

impl Writer {
    /// How far the writing has got.
    pub(crate) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Waits until everything is written, after the last [`Output`] has been dropped.
    pub(crate) async fn finish(self) {
        // A thread that panicked has told so itself.
        let _ = tokio::task::spawn_blocking(move || self.thread.join()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufWriter;
    use std::sync::{Mutex, mpsc};

    use super::*;

    /// Where lines arrive that were flushed.
    #[derive(Clone, Default)]
    struct Flushed(Arc<Mutex<String>>);

    impl Write for Flushed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut text = self.0.lock().unwrap();
            text.push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A place for errors that takes each when it is told to, and notes what had arrived elsewhere.
    struct Errors {
        take: mpsc::Receiver<()>,
        lines: Flushed,
        seen: Flushed,
    }

    impl Write for Errors {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.take.recv().unwrap();
            let lines = self.lines.0.lock().unwrap().clone();
            self.seen.write_all(lines.as_bytes())?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_line_does_not_stay_behind_the_error_that_follows() {
        let (lines, seen) = (Flushed::default(), Flushed::default());
        let (go_on, take) = mpsc::channel();
        let errors = Errors {
            take,
            lines: lines.clone(),
            seen: seen.clone(),
        };
        let buffered = BufWriter::new(lines);
        let (output, writer) = Output::start(buffered, errors, None).unwrap();
        // While the first is being written, the others come together.
        for record in [
            Record::error("first"),
            Record::report("line"),
            Record::error("second"),
        ] {
            output.print(record).await;
        }
        for _ in 0..2 {
            go_on.send(()).unwrap();
        }
        drop(output);
        writer.finish().await;
        assert_eq!(*seen.0.lock().unwrap(), "= line\n");
    }
}
