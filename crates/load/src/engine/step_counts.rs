//! What became of each line of a script.

use std::ops::AddAssign;

/// What became of a [line](crate::script::Line) of a script, in all runs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCount {
    /// How often its message was sent or came, or its pause began.
    pub done: u64,
    /// How often its message was sent again by the rules of RFC 3261.
    pub retransmitted: u64,
    /// How often what was waited for at its step had not come in time.
    pub timeouts: u64,
    /// How often another message came at its step and ended the run.
    pub unexpected: u64,
}

impl AddAssign for StepCount {
    fn add_assign(&mut self, other: StepCount) {
        self.done += other.done;
        self.retransmitted += other.retransmitted;
        self.timeouts += other.timeouts;
        self.unexpected += other.unexpected;
    }
}

/// The counts of the lines of all scripts.
#[derive(Debug, Default)]
pub(super) struct StepCounts {
    scripts: Vec<Vec<StepCount>>,
}

impl StepCounts {
    /// Makes room for a script of so many lines.
    pub(super) fn add_script(&mut self, lines: usize) {
        self.scripts.push(vec![StepCount::default(); lines]);
    }

    /// The count of a line.
    pub(super) fn line(&mut self, script: u16, line: Option<usize>) -> Option<&mut StepCount> {
        self.scripts.get_mut(usize::from(script))?.get_mut(line?)
    }

    pub(super) fn all(&self) -> &[Vec<StepCount>] {
        &self.scripts
    }
}
