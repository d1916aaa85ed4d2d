//! Where sessions go as they end: to files, and the first ones to the screen.

use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use capture::{Figures, JsonDocument, Output, Session, SessionTable, Time};
use report::{Decimal, Machine};
use serde::Serialize;

use super::options::Outputs;

/// Takes sessions in the order in which they end, and writes them in the order in which they began as far as
/// they are not too far apart: a call of an hour does not hold up the others.
#[derive(Debug)]
pub(super) struct Sessions<P> {
    csv: Option<Written<BufWriter<File>>>,
    /// The line of CSV that is made.
    line: Vec<u8>,
    json: Option<Written<JsonDocument<P, BufWriter<File>>>>,
    decimal: Decimal,
    origin: Option<Time>,
    waiting: BinaryHeap<Waiting>,
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

/// Octets that are collected before they are written to a file.
const WRITTEN_AT_ONCE: usize = 1 << 18;

impl<P: Serialize> Sessions<P> {
    /// Sessions that wait for earlier ones to end.
    const MOST_WAITING: usize = 10_000;

    /// To the files that were asked for. `parameters` is everything that was asked for: the JSON tells it.
    pub(super) fn new(outputs: &Outputs, parameters: P) -> anyhow::Result<Sessions<P>> {
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
            Some(path) => Some(Written::new(path, create(path)?)),
            None => None,
        };
        Ok(Sessions {
            csv,
            line: Vec::new(),
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
            self.waiting.push(Waiting(session.clone()));
        } else {
            self.write(session);
        }
        while let Some(Waiting(first)) = self.waiting.peek()
            && (first.number <= self.next || self.waiting.len() > Self::MOST_WAITING)
        {
            if let Some(Waiting(session)) = self.waiting.pop() {
                self.write(&session);
            }
        }
    }

    /// Writes what is collected, for whoever looks at the files meanwhile.
    pub(super) fn flush(&mut self) {
        if let Some(csv) = &mut self.csv {
            csv.attempt(Write::flush);
        }
        if let Some(json) = &mut self.json {
            json.attempt(JsonDocument::flush);
        }
    }

    /// Writes what still waits: there are no more sessions.
    pub(super) fn finish(&mut self) {
        while let Some(Waiting(session)) = self.waiting.pop() {
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
        self.line = header.into_bytes();
        self.write_line();
    }

    fn write(&mut self, session: &Session) {
        self.next = self.next.max(session.number + 1);
        let origin = self.origin.unwrap_or_default();
        let figures = Figures::of(session, origin);
        if self.csv.is_some() {
            self.line.clear();
            let table = SessionTable::new(origin, self.decimal);
            table.push_csv_line(session, &figures, &mut self.line);
            self.write_line();
        }
        if let Some(json) = &mut self.json {
            json.attempt(|document| document.session(session, &figures));
        }
        if self.shown.len() < self.most_shown {
            self.shown.push(session.clone());
        }
    }

    fn write_line(&mut self) {
        if let Some(csv) = &mut self.csv {
            csv.attempt(|out| out.write_all(&self.line));
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

fn create(path: &Path) -> anyhow::Result<BufWriter<File>> {
    let file = File::create(path).with_context(|| cannot_write(path))?;
    Ok(BufWriter::with_capacity(WRITTEN_AT_ONCE, file))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// The session with the lowest number is the first of a heap.
#[derive(Debug)]
struct Waiting(Session);

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        other.0.number.cmp(&self.0.number)
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for Waiting {}
