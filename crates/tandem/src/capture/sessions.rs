//! Where sessions go as they end: to files, and the first ones to the screen.

use std::collections::BinaryHeap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use capture::{Blocks, Figures, JsonDocument, Output, Session, SessionTable, Time};
use report::{Decimal, Machine};
use serde::Serialize;

use super::options::Outputs;
use crate::perf::output::is_standard_output;

/// Takes sessions in the order in which they end, and writes them in the order in which they began as far as
/// they are not too far apart: a call of an hour does not hold up the others.
#[derive(Debug)]
pub(super) struct Sessions<P> {
    csv: Option<Written<Blocks<File>>>,
    json: Option<Written<JsonDocument<P, File>>>,
    decimal: Decimal,
    origin: Option<Time>,
    waiting: BinaryHeap<QueuedSession>,
    /// The number that is next in order.
    next: u64,
    /// The first sessions, for the screen.
    pub(super) shown: Vec<Session>,
    most_shown: usize,
    /// How many there were.
    pub(super) count: u64,
}

/// What is written to a file. One that cannot be written is no reason to keep back the others: its error is kept
/// until the end.
#[derive(Debug)]
struct Written<W> {
    path: PathBuf,
    to: W,
    /// The first one.
    error: Option<io::Error>,
}

impl<P: Serialize> Sessions<P> {
    /// Sessions that wait for earlier ones to end.
    const MOST_WAITING: usize = 10_000;

    /// To the files that were asked for, which `open` opens: [`File::create`] or [`written_over`]. `parameters` is everything
    /// that was asked for: the JSON tells it.
    pub(super) fn new(
        outputs: &Outputs,
        parameters: P,
        open: fn(&Path) -> io::Result<File>,
    ) -> anyhow::Result<Sessions<P>> {
        let create = |path: &Path| {
            let file = match is_standard_output(path) {
                true => io::stdout().as_fd().try_clone_to_owned().map(File::from),
                false => open(path),
            };
            file.with_context(|| cannot_write(path))
        };
        let json = match &outputs.json {
            Some(path) => {
                // Nothing here is drawn by lot: the seed of the document is none.
                let document = JsonDocument::begin(Machine::detect(), 0, parameters, create(path)?);
                Some(Written::new(
                    path,
                    document.with_context(|| cannot_write(path))?,
                ))
            }
            None => None,
        };
        let csv = match &outputs.csv {
            Some(path) => Some(Written::new(path, Blocks::new(create(path)?))),
            None => None,
        };
        Ok(Sessions {
            csv,
            json,
            decimal: outputs.decimal(),
            origin: None,
            waiting: BinaryHeap::new(),
            next: 1,
            shown: Vec::new(),
            most_shown: outputs.sessions,
            count: 0,
        })
    }

    /// Says when the capture began, once that is known.
    pub(super) fn set_origin(&mut self, origin: Time) {
        if self.origin.is_none() {
            self.origin = Some(origin);
            self.write_header(origin);
        }
    }

    /// Takes a session.
    pub(super) fn add(&mut self, session: &Session) {
        self.count += 1;
        if session.number > self.next {
            self.waiting.push(QueuedSession(session.clone()));
        } else {
            self.write(session);
        }
        while let Some(QueuedSession(first)) = self.waiting.peek()
            && (first.number <= self.next || self.waiting.len() > Self::MOST_WAITING)
        {
            if let Some(QueuedSession(session)) = self.waiting.pop() {
                self.write(&session);
            }
        }
    }

    /// Writes what is collected, for whoever looks at the files meanwhile.
    pub(super) fn flush(&mut self) {
        if let Some(csv) = &mut self.csv {
            csv.attempt(Blocks::flush);
        }
        if let Some(json) = &mut self.json {
            json.attempt(JsonDocument::flush);
        }
    }

    /// Writes what still waits: there are no more sessions.
    pub(super) fn finish(&mut self) {
        while let Some(QueuedSession(session)) = self.waiting.pop() {
            self.write(&session);
        }
        // A capture without anything in it makes a file of a header all the same.
        if self.origin.is_none() {
            self.write_header(Time::default());
        }
    }

    /// Ends the files, with everything else that the JSON tells. Returns why they could not be written.
    pub(super) fn end(self, output: &Output) -> Vec<anyhow::Error> {
        let csv = self.csv.and_then(|csv| csv.end(|mut out| out.flush()));
        let json = self
            .json
            .and_then(|json| json.end(|document| document.finish(output)));
        csv.into_iter().chain(json).collect()
    }

    fn write_header(&mut self, origin: Time) {
        let header = SessionTable::new(origin, self.decimal).csv_header();
        if let Some(csv) = &mut self.csv {
            csv.attempt(|out| out.push(|text| text.extend_from_slice(header.as_bytes())));
        }
    }

    fn write(&mut self, session: &Session) {
        self.next = self.next.max(session.number + 1);
        let origin = self.origin.unwrap_or_default();
        let figures = Figures::of(session, origin);
        if let Some(csv) = &mut self.csv {
            let table = SessionTable::new(origin, self.decimal);
            csv.attempt(|out| out.push(|text| table.push_csv_line(session, &figures, text)));
        }
        if let Some(json) = &mut self.json {
            json.attempt(|document| document.session(session, &figures));
        }
        if self.shown.len() < self.most_shown {
            self.shown.push(session.clone());
        }
    }
}

impl<W> Written<W> {
    fn new(path: &Path, to: W) -> Written<W> {
        Written {
            path: path.to_owned(),
            to,
            error: None,
        }
    }

    /// Writes something, unless that has failed before.
    fn attempt(&mut self, write: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = write(&mut self.to).err();
        }
    }

    /// Writes the last of it. Returns why the file could not be written.
    fn end(self, write: impl FnOnce(W) -> io::Result<()>) -> Option<anyhow::Error> {
        let Written { path, to, error } = self;
        let error = error.or_else(|| write(to).err())?;
        Some(anyhow::Error::from(error).context(cannot_write(&path)))
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// Makes a file, or empties it but for a line end, which the first octets written are written over.
///
/// File systems have whoever empties a file altogether, writes and closes it wait until the disk has been asked to take it
/// all (`auto_da_alloc` of ext4), lest a crash leaves nothing. Here the packets are still there. Whoever reads along wants
/// [`File::create`]: to them, the line end is gone already.
///
/// # Errors
///
/// When it cannot be written.
pub(super) fn written_over(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.len() > 0 {
        file.set_len(1)?;
        file.write_all_at(b"\n", 0)?;
    }
    Ok(file)
}

/// The session with the lowest number is the first of a heap.
#[derive(Debug)]
struct QueuedSession(Session);

impl Ord for QueuedSession {
    fn cmp(&self, other: &QueuedSession) -> std::cmp::Ordering {
        other.0.number.cmp(&self.0.number)
    }
}

impl PartialOrd for QueuedSession {
    fn partial_cmp(&self, other: &QueuedSession) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for QueuedSession {
    fn eq(&self, other: &QueuedSession) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for QueuedSession {}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn nothing_of_what_was_in_a_file_stays_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions.csv");
        for (old, new) in [
            (&b""[..], &[&b"new"[..]][..]),
            (b"much longer than what is new", &[b"new"]),
            (b"much longer than what is new", &[b"new", b", and more"]),
            (b"old", &[b"longer ", b"than what was there"]),
        ] {
            std::fs::write(&path, old).unwrap();
            let mut file = written_over(&path).unwrap();
            assert_eq!(std::fs::read(&path).unwrap().trim_ascii(), b"");
            for (at, part) in new.iter().enumerate() {
                file.write_all(part).unwrap();
                assert_eq!(std::fs::read(&path).unwrap(), new[..=at].concat());
            }
        }
        let not_there = directory.path().join("new.csv");
        written_over(&not_there).unwrap().write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&not_there).unwrap(), b"new");
        // What is no file has no length.
        let mut nowhere = written_over(Path::new("/dev/null")).unwrap();
        nowhere.write_all(b"new").unwrap();
    }
}
