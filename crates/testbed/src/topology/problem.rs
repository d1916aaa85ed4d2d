//! What is wrong with a topology, and where.

use std::ops::Range;

/// What is wrong with the text of a topology.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", self.place())]
pub struct TopologyError {
    /// The line, from 1; `None` where it is no line's fault.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
}

impl TopologyError {
    /// A problem with what stands at `span` in `text`.
    pub(super) fn at(text: &str, span: Range<usize>, what: impl Into<String>) -> TopologyError {
        let before = text.as_bytes().iter().take(span.start);
        TopologyError {
            line: Some(1 + before.filter(|byte| **byte == b'\n').count()),
            what: what.into(),
        }
    }

    /// A problem with the whole.
    pub(super) fn whole(what: impl Into<String>) -> TopologyError {
        TopologyError {
            line: None,
            what: what.into(),
        }
    }

    fn place(&self) -> String {
        self.line
            .map_or_else(String::new, |line| format!("line {line}: "))
    }
}
