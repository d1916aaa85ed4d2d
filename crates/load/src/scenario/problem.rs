//! What is wrong with a scenario, and how that is told: with the file, the line, and what to do.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

/// Why there is no scenario.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// What stands in it is wrong.
    #[error("{}", Lines { file, problems })]
    Wrong {
        /// The file.
        file: PathBuf,
        /// Everything that is wrong with it, in the order of its lines. Never empty.
        problems: Vec<Problem>,
    },
}

impl ScenarioError {
    /// One thing that is wrong.
    pub(super) fn at(file: &Path, line: usize, message: impl Into<String>) -> ScenarioError {
        ScenarioError::Wrong {
            file: file.to_owned(),
            problems: vec![Problem {
                line,
                message: message.into(),
            }],
        }
    }

    /// What is wrong with the file, line by line; nothing when it could not be read.
    pub fn problems(&self) -> &[Problem] {
        match self {
            ScenarioError::Read { .. } => &[],
            ScenarioError::Wrong { problems, .. } => problems,
        }
    }
}

/// One thing that is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where it stands; the first line is 1.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

/// Problems as `FILE:LINE: what is wrong`, a line each.
struct Lines<'a> {
    file: &'a PathBuf,
    problems: &'a [Problem],
}

impl Display for Lines<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, Problem { line, message }) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}:{line}: {message}", self.file.display())?;
        }
        Ok(())
    }
}

/// The problems found so far in one file. Reading goes on after a problem, so that all are told at
/// once; of a file that is wrong throughout the first are enough.
#[derive(Debug)]
pub(super) struct Problems {
    found: Vec<Problem>,
    /// How many lines the file has.
    lines: usize,
}

impl Problems {
    /// More than these are of no use to anybody.
    const MOST: usize = 50;
    /// Characters of a message: the file can have names that are longer than anybody reads.
    const LONGEST: usize = 400;

    /// None so far in a file.
    pub(super) fn of(file: &[u8]) -> Problems {
        Problems {
            found: Vec::new(),
            lines: 1 + memchr::memchr_iter(b'\n', file).count(),
        }
    }

    /// Notes what is wrong in a line. A text can have line ends that the file writes otherwise, as `\n`: they
    /// are counted as lines, which then does not lead beyond the file.
    pub(super) fn add(&mut self, line: usize, message: impl Display) {
        if self.found.len() < Problems::MOST {
            self.found.push(Problem {
                line: line.clamp(1, self.lines),
                message: shortened(&message.to_string(), Problems::LONGEST),
            });
        }
    }

    /// Whether nothing is wrong.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// What was found, in the order of the lines.
    pub(super) fn into_found(mut self) -> Vec<Problem> {
        self.found.sort();
        self.found
    }

    /// What was read, unless something is wrong.
    pub(super) fn check<T>(self, file: &Path, read: T) -> Result<T, ScenarioError> {
        if self.is_empty() {
            return Ok(read);
        }
        Err(ScenarioError::Wrong {
            file: file.to_owned(),
            problems: self.into_found(),
        })
    }
}

/// `did you mean "expect"?`, or the names that there are.
pub(super) fn hint(name: &str, known: &[&str]) -> String {
    let name = name.to_lowercase();
    let distances = known.iter().map(|known| {
        let distance = strsim::damerau_levenshtein(&name, &known.to_lowercase());
        (distance, known)
    });
    match distances.min() {
        Some((distance, nearest)) if distance <= nearest.len() / 3 + 1 => {
            format!("did you mean \"{nearest}\"?")
        }
        _ => format!("known are {}", known.join(", ")),
    }
}

/// As much of a text as this many characters.
pub(super) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Where the lines of a text begin.
pub(super) struct LineStarts(Vec<usize>);

impl LineStarts {
    pub(super) fn of(text: &str) -> LineStarts {
        let ends = memchr::memchr_iter(b'\n', text.as_bytes());
        LineStarts(ends.map(|end| end + 1).collect())
    }

    /// The line of an offset; the first is 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        1 + self.0.partition_point(|start| *start <= offset)
    }
}
