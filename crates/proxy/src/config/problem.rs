//! What is wrong with a configuration file, and where.

use std::fmt;
use std::path::PathBuf;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what is allowed.
    pub message: String,
}

/// Why a configuration file cannot be used: everything that is wrong with it, a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong, in the order of the file; not empty.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Problem { line, message }) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{}:{line}: {message}", self.file.display())?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// The line of an offset in a text, from 1.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|octet| **octet == b'\n').count()
}

/// The name among those allowed that somebody may have meant by another.
pub(super) fn similar<'a>(
    name: &str,
    allowed: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    /// How much two names must have in common, from 0 to 1.
    const ENOUGH: f64 = 0.75;
    allowed
        .into_iter()
        .map(|other| (strsim::jaro_winkler(name, other), other))
        .filter(|(similarity, _)| *similarity >= ENOUGH)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_with_one() {
        let text = "a\nb\n\nc";
        assert_eq!(line_at(text, 0), 1);
        assert_eq!(line_at(text, 2), 2);
        assert_eq!(line_at(text, 5), 4);
        assert_eq!(line_at(text, 500), 4);
    }

    #[test]
    fn slips_are_seen_and_guesses_not_made() {
        let allowed = ["address", "advertise", "transport"];
        assert_eq!(similar("adress", allowed), Some("address"));
        assert_eq!(similar("trnasport", allowed), Some("transport"));
        assert_eq!(similar("colour", allowed), None);
        assert_eq!(similar("", allowed), None);
    }
}
