//! The octets of a file, as they are read.

use std::io::{self, Read};

use bytes::{Buf, Bytes};

/// How much is asked for at once.
const BLOCK: usize = 256 * 1024;

/// What has been read of a file and not been taken yet.
///
/// It grows by what the file has, never by what a length field in it claims.
pub(crate) struct Input<R> {
    source: R,
    ready: Bytes,
    /// Where in the file `ready` begins.
    offset: u64,
    ended: bool,
}

impl<R: Read> Input<R> {
    pub(crate) fn new(source: R) -> Input<R> {
        Input {
            source,
            ready: Bytes::new(),
            offset: 0,
            ended: false,
        }
    }

    /// Where in the file the next octet is.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads until so many octets are ready. False when the file ends before.
    pub(crate) fn fill(&mut self, octets: usize) -> io::Result<bool> {
        while self.ready.len() < octets && !self.ended {
            // What is left of the block before goes to the front of the next one. Longer things are read
            // in ever longer blocks, so that they are not copied over and over.
            let asked = BLOCK.max(self.ready.len());
            let mut block = Vec::with_capacity(self.ready.len() + asked);
            block.extend_from_slice(&self.ready);
            let read = (&mut self.source)
                .take(asked as u64)
                .read_to_end(&mut block);
            let count = block.len() - self.ready.len();
            self.ready = block.into();
            self.ended = count < asked;
            read?;
        }
        Ok(self.ready.len() >= octets)
    }

    /// What is ready.
    pub(crate) fn ready(&self) -> &[u8] {
        &self.ready
    }

    /// The octets at a place, where they are ready.
    pub(crate) fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.ready.get(at..)?.first_chunk().copied()
    }

    /// Takes octets; fewer when fewer are ready.
    pub(crate) fn take(&mut self, octets: usize) -> Bytes {
        let octets = octets.min(self.ready.len());
        self.offset += octets as u64;
        self.ready.split_to(octets)
    }

    /// Takes a line without what ends it; `None` at the end. Of a line longer than `limit`, the beginning.
    pub(crate) fn line(&mut self, limit: usize) -> io::Result<Option<Bytes>> {
        let mut searched = 0;
        let mut beginning = None;
        loop {
            let is_more = self.fill(searched + 1)?;
            if let Some(end) = memchr::memchr(b'\n', &self.ready[searched..]) {
                let mut line = self.take(searched + end + 1);
                line.truncate(line.trim_ascii_end().len());
                return Ok(Some(beginning.unwrap_or(line)));
            }
            searched = self.ready.len();
            if !is_more {
                let line = self.take(searched);
                return Ok(beginning.or((!line.is_empty()).then_some(line)));
            }
            if searched > limit {
                let line = self.take(searched);
                beginning.get_or_insert(line.slice(..limit));
                searched = 0;
            }
        }
    }

    /// Leaves octets out; fewer when fewer are ready.
    pub(crate) fn drop_ready(&mut self, octets: usize) {
        let octets = octets.min(self.ready.len());
        self.offset += octets as u64;
        self.ready.advance(octets);
    }

    /// Leaves octets out, however many they are. False when the file ends before.
    pub(crate) fn skip(&mut self, mut octets: u64) -> io::Result<bool> {
        while octets > 0 {
            if !self.fill(1)? {
                return Ok(false);
            }
            let step = octets.min(self.ready.len() as u64);
            self.drop_ready(step as usize);
            octets -= step;
        }
        Ok(true)
    }
}
