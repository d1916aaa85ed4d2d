//! The octets of a file, as they are read.

use std::io::{self, ErrorKind, Read};
use std::ops::Range;

/// How much is asked for at once. Larger blocks do not stay where they are looked at quickly.
const BLOCK: usize = 128 * 1024;

/// How much is asked for at first: enough to tell what a file is, which may be all that is wanted.
const FIRST_BLOCK: usize = 4 * 1024;

/// What has been read of a file and not been taken yet.
///
/// It grows by what the file has, never by what a length field in it claims.
pub(crate) struct Input<R> {
    source: R,
    buffer: Vec<u8>,
    /// What of the buffer is ready.
    start: usize,
    end: usize,
    /// Where in the file that begins.
    offset: u64,
    ended: bool,
}

/// A span of the buffer, with octets that were taken. It is valid until the buffer is filled again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: usize,
    end: usize,
}

impl Span {
    /// A part of it; less where it has less.
    pub(crate) fn part(self, part: Range<usize>) -> Span {
        let place = |at: usize| self.start.saturating_add(at).min(self.end);
        Span {
            start: place(part.start),
            end: place(part.end),
        }
    }
}

impl<R: Read> Input<R> {
    pub(crate) fn new(source: R) -> Input<R> {
        Input {
            source,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
            ended: false,
        }
    }

    /// Where in the file the next octet is.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads until so many octets are ready. False when the file ends before.
    #[inline]
    pub(crate) fn fill(&mut self, octets: usize) -> io::Result<bool> {
        if self.end - self.start >= octets {
            return Ok(true);
        }
        if !self.ended {
            self.read(octets)?;
        }
        Ok(self.end - self.start >= octets)
    }

    #[cold]
    #[inline(never)]
    fn read(&mut self, octets: usize) -> io::Result<()> {
        // What is left of the block before goes to the front of the next one.
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < octets {
            // Longer things are read in ever longer blocks, so that few bits of them are asked for one by one.
            let block = match self.buffer.is_empty() {
                true => FIRST_BLOCK,
                false => BLOCK,
            };
            // What room there is does, where it is not much less.
            let room = match self.buffer.len() {
                enough if enough >= octets.max(self.end + BLOCK / 2) => enough,
                _ => self.end + block.max(self.end),
            };
            if self.buffer.len() < room {
                self.buffer.resize(room, 0);
            }
            match self.source.read(&mut self.buffer[self.end..room]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// What is ready.
    #[inline]
    pub(crate) fn ready(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The octets at a place, where they are ready.
    #[inline]
    pub(crate) fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.ready().get(at..)?.first_chunk().copied()
    }

    /// Takes octets; fewer when fewer are ready.
    #[inline]
    pub(crate) fn take(&mut self, octets: usize) -> Span {
        let start = self.start;
        self.drop_ready(octets);
        Span {
            start,
            end: self.start,
        }
    }

    /// Takes as many octets as `length` says of those that are ready; none where it says nothing, or more.
    #[inline(always)]
    pub(crate) fn take_ready(
        &mut self,
        length: impl FnOnce(&[u8]) -> Option<usize>,
    ) -> Option<&[u8]> {
        let ready = self.buffer.get(self.start..self.end)?;
        let taken = ready.get(..length(ready)?)?;
        self.start += taken.len();
        self.offset += taken.len() as u64;
        Some(taken)
    }

    /// What was taken, as long as nothing was filled since.
    #[inline]
    pub(crate) fn octets(&self, span: Span) -> &[u8] {
        self.buffer.get(span.start..span.end).unwrap_or_default()
    }

    /// Takes a line without what ends it; `None` at the end. Of a line longer than `limit`, the beginning.
    pub(crate) fn line(&mut self, limit: usize) -> io::Result<Option<Vec<u8>>> {
        let mut searched = 0;
        let mut beginning = None;
        loop {
            let is_more = self.fill(searched + 1)?;
            if let Some(end) = memchr::memchr(b'\n', &self.ready()[searched..]) {
                let line = self.take(searched + end + 1);
                let line = self.octets(line).trim_ascii_end();
                return Ok(Some(beginning.unwrap_or_else(|| line.to_vec())));
            }
            searched = self.ready().len();
            if !is_more {
                let line = self.take(searched);
                let line = self.octets(line);
                return Ok(beginning.or((!line.is_empty()).then(|| line.to_vec())));
            }
            if searched > limit {
                let line = self.take(searched);
                if beginning.is_none() {
                    beginning = Some(self.octets(line.part(0..limit)).to_vec());
                }
                searched = 0;
            }
        }
    }

    /// Leaves octets out; fewer when fewer are ready.
    #[inline]
    pub(crate) fn drop_ready(&mut self, octets: usize) {
        let octets = octets.min(self.end - self.start);
        self.offset += octets as u64;
        self.start += octets;
    }

    /// Leaves octets out, however many they are. False when the file ends before.
    pub(crate) fn skip(&mut self, mut octets: u64) -> io::Result<bool> {
        while octets > 0 {
            if !self.fill(1)? {
                return Ok(false);
            }
            let step = octets.min(self.ready().len() as u64);
            self.drop_ready(step as usize);
            octets -= step;
        }
        Ok(true)
    }
}
