//! Several files read as one, in the order of time.

use std::io::{self, Read};

use crate::{Counts, Event, Reader, Time};

/// The files of one experiment, read as one capture.
pub struct Merge<R> {
    files: Vec<One<R>>,
}

struct One<R> {
    reader: Reader<R>,
    /// Nanoseconds by which the clock of this file is ahead.
    offset: i64,
    next: Option<Time>,
    is_finished: bool,
}

/// A file could not be read on.
#[derive(Debug, thiserror::Error)]
#[error("cannot read further: {source}")]
pub struct MergeError {
    /// Which of the files.
    pub file: usize,
    source: io::Error,
}

impl<R: Read> Merge<R> {
    /// Joins readers; to each belong the nanoseconds by which its clock is ahead.
    pub fn new(readers: impl IntoIterator<Item = (Reader<R>, i64)>) -> Merge<R> {
        let files = readers.into_iter().map(|(reader, offset)| One {
            reader,
            offset,
            next: None,
            is_finished: false,
        });
        Merge {
            files: files.collect(),
        }
    }

    /// Reads the earliest packet that is left and hands over its events, at the time of the first
    /// file's clock. False at the end of all files.
    ///
    /// # Errors
    ///
    /// When a file cannot be read on. It has ended then; the others can be read on.
    pub fn step(&mut self, on_event: &mut dyn FnMut(Event<'_>)) -> Result<bool, MergeError> {
        let Some(at) = self.earliest()? else {
            return Ok(false);
        };
        let one = &mut self.files[at];
        let offset = one.offset;
        let stepped = match offset {
            0 => one.reader.step(on_event),
            _ => one.reader.step(&mut |mut event| {
                event.time = event.time.moved(offset.saturating_neg());
                on_event(event);
            }),
        };
        one.next = None;
        one.is_finished = !matches!(stepped, Ok(true));
        stepped.map_err(|source| MergeError { file: at, source })?;
        Ok(true)
    }

    /// The same for so many packets, one after the other. False at the end of all files.
    ///
    /// # Errors
    ///
    /// As [`step`](Merge::step).
    pub fn steps(
        &mut self,
        most: usize,
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<bool, MergeError> {
        // One file need not be compared to others, and its clock is what others are compared to.
        if let [one] = &mut self.files[..]
            && one.offset == 0
            && !one.is_finished
        {
            let stepped = one.reader.steps(most, on_event);
            one.is_finished = !matches!(stepped, Ok(true));
            return stepped.map_err(|source| MergeError { file: 0, source });
        }
        for _ in 0..most {
            if !self.step(on_event)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What was counted in each file so far.
    pub fn counts(&self) -> impl Iterator<Item = Counts> {
        self.files.iter().map(|one| one.reader.counts())
    }

    /// The file that has the earliest packet; `None` when all are finished.
    fn earliest(&mut self) -> Result<Option<usize>, MergeError> {
        if let [one] = &self.files[..] {
            return Ok((!one.is_finished).then_some(0));
        }
        let unfinished = self.files.iter().filter(|one| !one.is_finished).count();
        if unfinished == 1 {
            return Ok(self.files.iter().position(|one| !one.is_finished));
        }
        let mut earliest: Option<(Time, usize)> = None;
        for (at, one) in self.files.iter_mut().enumerate() {
            if one.is_finished {
                continue;
            }
            if one.next.is_none() {
                let next = one.reader.next_time();
                one.is_finished = next.is_err();
                one.next = next.map_err(|source| MergeError { file: at, source })?;
            }
            let time = match one.next {
                Some(time) => time.moved(one.offset.saturating_neg()),
                // It may still have something to tell, and is finished then.
                None => return Ok(Some(at)),
            };
            if earliest.is_none_or(|(first, _)| time < first) {
                earliest = Some((time, at));
            }
        }
        Ok(earliest.map(|(_, at)| at))
    }
}
