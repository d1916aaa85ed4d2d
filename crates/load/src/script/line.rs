//! Scripts as lines for people: a line for each message that is sent or may come, and for each pause.

use std::fmt::{self, Display, Formatter};

use super::step::{Action, Alternative, Expected, Step, StepNumber, Then};
use super::template::Start;

/// A line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What happens there.
    pub kind: LineKind,
    /// The method or status, or the range of statuses; nothing for a pause.
    pub message: String,
    /// Whether the run goes on without it.
    pub is_optional: bool,
}

/// What happens at a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// A message is sent.
    Sends,
    /// A message is received.
    Receives,
    /// Time passes.
    Pauses,
}

impl Display for Line {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Line {
            kind,
            message,
            is_optional,
        } = self;
        match kind {
            LineKind::Sends => write!(f, "{message} →"),
            LineKind::Receives if *is_optional => write!(f, "← {message} (optional)"),
            LineKind::Receives => write!(f, "← {message}"),
            LineKind::Pauses => f.write_str("pause"),
        }
    }
}

/// What a command of another generator is called.
const COMMAND: &str = "command";

/// The lines of a script, and which is the first one of each step.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    pub(super) lines: Vec<Line>,
    first: Vec<usize>,
}

impl Lines {
    pub(super) fn of(steps: &[Step], anytime: &[Alternative]) -> Lines {
        let mut lines = Lines::default();
        for step in steps {
            lines.first.push(lines.lines.len());
            match step {
                Step::Send(send) => lines.lines.push(Line {
                    kind: LineKind::Sends,
                    message: match send.template.start() {
                        Start::Request(method) => method.to_string(),
                        Start::Response(status) => status.to_string(),
                    },
                    is_optional: false,
                }),
                Step::Expect(expect) => lines.lines.extend(received(&expect.alternatives)),
                Step::Pause(_) => lines.lines.push(Line {
                    kind: LineKind::Pauses,
                    message: String::new(),
                    is_optional: false,
                }),
                Step::Do(actions) => {
                    let is_command = |action: &Action| matches!(action, Action::Command { .. });
                    if actions.iter().any(is_command) {
                        lines.lines.push(Line {
                            kind: LineKind::Sends,
                            message: COMMAND.to_owned(),
                            is_optional: false,
                        });
                    }
                }
                _ => {}
            }
        }
        lines.first.push(lines.lines.len());
        lines.lines.extend(received(anytime));
        lines
    }

    /// The first line of a step, where it has one. Behind the last step come the messages for any time.
    pub(super) fn of_step(&self, step: StepNumber) -> Option<usize> {
        let step = usize::from(step.0);
        let first = *self.first.get(step)?;
        let end = self.first.get(step + 1).copied();
        (first < end.unwrap_or(self.lines.len())).then_some(first)
    }
}

fn received(alternatives: &[Alternative]) -> impl Iterator<Item = Line> + '_ {
    alternatives.iter().map(|alternative| Line {
        kind: LineKind::Receives,
        message: match &alternative.expected {
            Expected::Request(method) => method.to_string(),
            Expected::Command { .. } => COMMAND.to_owned(),
            Expected::Response { statuses, .. } if statuses.start() == statuses.end() => {
                statuses.start().to_string()
            }
            Expected::Response { statuses, .. } => {
                format!("{}-{}", statuses.start(), statuses.end())
            }
        },
        is_optional: alternative.then == Then::Stay,
    })
}
