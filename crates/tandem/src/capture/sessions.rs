//! Where sessions go as they end: to files, and the first ones to the screen.

use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::path::Path;

use anyhow::Context;
use capture::{JsonSessions, Session, SessionTable, Time};
use report::Decimal;

/// Takes sessions in the order in which they end, and writes them in the order in which they began as far as
/// they are not too far apart: a call of an hour does not hold up the others.
#[derive(Debug)]
pub(super) struct Sessions {
    csv: Option<BufWriter<File>>,
    json: Option<BufWriter<File>>,
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
    error: Option<anyhow::Error>,
}

impl Sessions {
    /// Sessions that wait for earlier ones to end.
    const MOST_WAITING: usize = 10_000;

    pub(super) fn new(
        csv: Option<&Path>,
        decimal: Decimal,
        wants_json: bool,
        most_shown: usize,
    ) -> anyhow::Result<Sessions> {
        let csv = csv
            .map(|path| {
                File::create(path).with_context(|| format!("cannot write {}", path.display()))
            })
            .transpose()?;
        let json = wants_json
            .then(tempfile::tempfile)
            .transpose()
            .context("cannot make a temporary file for sessions on their way into JSON")?;
        Ok(Sessions {
            csv: csv.map(BufWriter::new),
            json: json.map(BufWriter::new),
            decimal,
            origin: None,
            waiting: BinaryHeap::new(),
            next: 1,
            shown: Vec::new(),
            most_shown,
            count: 0,
            error: None,
        })
    }

    /// Says when the capture began, once that is known.
    pub(super) fn set_origin(&mut self, origin: Time) {
        if self.origin.is_none() {
            self.origin = Some(origin);
            let header = SessionTable::new(origin, self.decimal).csv_header();
            self.write_csv(&header);
        }
    }

    /// Takes a session.
    pub(super) fn add(&mut self, session: &Session) {
        self.count += 1;
        self.waiting.push(Waiting(session.clone()));
        while let Some(Waiting(first)) = self.waiting.peek()
            && (first.number <= self.next || self.waiting.len() > Self::MOST_WAITING)
        {
            if let Some(Waiting(session)) = self.waiting.pop() {
                self.write(session);
            }
        }
    }

    /// Writes what still waits, and gives back the sessions for JSON.
    pub(super) fn finish(&mut self) -> anyhow::Result<JsonSessions<BufReader<File>>> {
        while let Some(Waiting(session)) = self.waiting.pop() {
            self.write(session);
        }
        if let Some(csv) = &mut self.csv {
            // A capture without anything in it makes a file of a header all the same.
            if self.origin.is_none() {
                let header = SessionTable::new(Time::default(), self.decimal).csv_header();
                csv.write_all(header.as_bytes())?;
            }
            csv.flush().context("cannot write the CSV")?;
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let file = match self.json.take() {
            Some(json) => {
                let mut file = json.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.rewind()?;
                file
            }
            None => tempfile::tempfile()?,
        };
        Ok(JsonSessions::new(BufReader::new(file)))
    }

    fn write(&mut self, session: Session) {
        self.next = self.next.max(session.number + 1);
        let origin = self.origin.unwrap_or_default();
        if self.csv.is_some() {
            let line = SessionTable::new(origin, self.decimal).csv_line(&session);
            self.write_csv(&line);
        }
        if let Some(json) = &mut self.json {
            let written = JsonSessions::line(&session, origin)
                .map_err(anyhow::Error::from)
                .and_then(|line| Ok(json.write_all(line.as_bytes())?));
            if let Err(error) = written {
                self.error.get_or_insert(error);
            }
        }
        if self.shown.len() < self.most_shown {
            self.shown.push(session);
        }
    }

    fn write_csv(&mut self, line: &str) {
        if let Some(csv) = &mut self.csv
            && let Err(error) = csv.write_all(line.as_bytes())
        {
            let error = anyhow::Error::from(error).context("cannot write the CSV");
            self.error.get_or_insert(error);
        }
    }
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
