//! How much a recorded link carried.

use crate::words::WordsError;
use std::sync::Arc;

/// A recording of when a link could carry something, in the format of mahimahi's `mm-link`: each
/// line is a time in milliseconds from the beginning, none before the line above, at which 1500
/// bytes may leave. As many lines for one time let as many times 1500 bytes leave. After the last
/// line it begins again, at the time of that line.
///
/// What is not used of an opportunity serves the packets behind; when there are none it is gone. A
/// packet larger than what is left goes on at the next opportunity and leaves when all of it did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    name: Arc<str>,
    /// Milliseconds, of which the last is not 0.
    opportunities: Arc<[u64]>,
}

/// Bytes that leave at each opportunity.
pub const OPPORTUNITY_BYTES: u64 = 1500;
/// How many opportunities a trace holds at most.
pub const MAX_OPPORTUNITIES: usize = 4 << 20;
/// The longest trace: a year, in milliseconds.
const LONGEST_TRACE: u64 = 366 * 24 * 60 * 60 * 1000;

impl Trace {
    /// Reads a trace. Its name is how words refer to it: that of its file.
    ///
    /// # Errors
    ///
    /// When a line holds no number of milliseconds or one below that of the line before, when there
    /// are no lines or more than [`MAX_OPPORTUNITIES`], when the last is 0 or beyond a year.
    pub fn parse(name: &str, text: &str) -> Result<Trace, WordsError> {
        let wrong = |what: &str| WordsError::new(format!("trace {name}: {what}"));
        let mut opportunities = Vec::new();
        for line in text.lines() {
            let time: u64 = line
                .trim()
                .parse()
                .map_err(|_| wrong(&format!("\"{line}\" is not a number of milliseconds")))?;
            if opportunities.last().is_some_and(|&before| time < before) {
                return Err(wrong(&format!("{time} comes after a later time")));
            }
            if opportunities.len() == MAX_OPPORTUNITIES {
                return Err(wrong(&format!("more than {MAX_OPPORTUNITIES} lines")));
            }
            opportunities.push(time);
        }
        match opportunities.last() {
            None => Err(wrong("no lines")),
            Some(0) => Err(wrong("it lasts no time")),
            Some(&last) if last > LONGEST_TRACE => Err(wrong("it lasts longer than a year")),
            Some(_) => Ok(Trace {
                name: name.into(),
                opportunities: opportunities.into(),
            }),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bits a second that it carries on average.
    pub fn mean_bits_per_second(&self) -> f64 {
        let bits = self.opportunities.len() as f64 * OPPORTUNITY_BYTES as f64 * 8.0;
        bits * 1000.0 / self.period() as f64
    }

    /// Milliseconds until it begins again.
    fn period(&self) -> u64 {
        self.opportunities[self.opportunities.len() - 1]
    }

    /// When the opportunity of that number is, in nanoseconds.
    fn time(&self, number: u64) -> u64 {
        // No trace is longer than memory.
        let count = self.opportunities.len() as u64;
        let milliseconds = (number / count)
            .saturating_mul(self.period())
            .saturating_add(self.opportunities[(number % count) as usize]);
        milliseconds.saturating_mul(NANOSECONDS_PER_MILLISECOND)
    }

    /// Number of the first opportunity after a time in nanoseconds.
    fn first_after(&self, time: u64) -> u64 {
        let count = self.opportunities.len() as u64;
        let milliseconds = time / NANOSECONDS_PER_MILLISECOND;
        let (round, within) = (milliseconds / self.period(), milliseconds % self.period());
        // The last opportunity of a round is at its end, and so after any time within.
        let index = self.opportunities.partition_point(|&at| at <= within);
        round * count + index as u64
    }
}

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// Where a link stands in its trace.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Cursor {
    /// The opportunity that comes next.
    next: u64,
    /// When the one before it is.
    current: u64,
    /// Bytes that are left of that one.
    left: u64,
}

impl Cursor {
    /// When a packet that has come by `now` begins to leave.
    pub(crate) fn begin(&mut self, trace: &Trace, now: u64) -> u64 {
        // What passed before it came is gone, and so is what it came with.
        if self.current <= now || self.left == 0 {
            if self.current <= now {
                self.next = self.next.max(trace.first_after(now));
            }
            self.current = trace.time(self.next);
            self.next = self.next.saturating_add(1);
            self.left = OPPORTUNITY_BYTES;
        }
        self.current
    }

    /// When a packet that has begun to leave has left.
    pub(crate) fn finish(&mut self, trace: &Trace, bytes: u64) -> u64 {
        if bytes <= self.left {
            self.left -= bytes;
            return self.current;
        }
        let rest = bytes - self.left;
        let more = rest.div_ceil(OPPORTUNITY_BYTES);
        self.next = self.next.saturating_add(more);
        self.left = (OPPORTUNITY_BYTES - rest % OPPORTUNITY_BYTES) % OPPORTUNITY_BYTES;
        self.current = trace.time(self.next - 1);
        self.current
    }
}
