//! What a program has printed, read on from where it was read last.

use test_support::{Peer, wait_until};

use super::LIMIT;

/// A program, and how far its output has been read.
#[derive(Debug)]
pub(crate) struct Transcript {
    program: Peer,
    read: usize,
}

impl Transcript {
    pub(crate) fn of(program: Peer) -> Transcript {
        Transcript { program, read: 0 }
    }

    /// Waits until it has printed `text` behind what was waited for last.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let found = wait_until(LIMIT, || {
            let output = self.program.output();
            let rest = output.get(self.read..).unwrap_or_default();
            let Some(place) = rest.find(text) else {
                return false;
            };
            self.read += place + text.len();
            true
        });
        assert!(found, "it has not printed {text:?} any more");
    }

    /// Whether it has printed `text` behind what was waited for last.
    pub(crate) fn has(&self, text: &str) -> bool {
        let output = self.program.output();
        output.get(self.read..).unwrap_or_default().contains(text)
    }

    /// Gives it a line.
    pub(crate) fn command(&mut self, line: &str) {
        self.program.write(&format!("{line}\n"));
    }
}
