//! Regular expressions of scripts.

use regex::bytes::Regex;

/// How often an expression with back-references may go back in a text before it counts as not found: what bounds the time that a
/// message can cost.
const MOST_BACKTRACKS: usize = 10_000;

/// A regular expression.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// One whose time to match is linear in the length of the text.
    Linear(Regex),
    /// One that refers back to its own groups. It matches texts in UTF-8; other octets are replaced.
    Backtracking(Box<fancy_regex::Regex>),
}

impl Pattern {
    /// An expression that refers back, in the syntax of the `fancy_regex` crate.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn backtracking(expression: &str) -> Result<Pattern, String> {
        let built = fancy_regex::RegexBuilder::new(expression)
            .backtrack_limit(MOST_BACKTRACKS)
            .delegate_size_limit(256 << 10)
            .delegate_dfa_size_limit(256 << 10)
            .build();
        match built {
            Ok(expression) => Ok(Pattern::Backtracking(Box::new(expression))),
            Err(error) => Err(format!(
                "\"{expression}\" is not a regular expression: {error}"
            )),
        }
    }

    /// The first so many groups, of which the first one is all that matches; nothing where nothing does.
    pub(crate) fn groups(&self, text: &[u8], count: usize) -> Option<Vec<Option<Vec<u8>>>> {
        match self {
            Pattern::Linear(expression) => {
                let captures = expression.captures(text)?;
                let group = |number| Some(captures.get(number)?.as_bytes().to_vec());
                Some((0..count).map(group).collect())
            }
            Pattern::Backtracking(expression) => {
                let text = String::from_utf8_lossy(text);
                // More steps than are allowed are an error, too.
                let captures = expression.captures(&text).ok().flatten()?;
                let group = |number| Some(captures.get(number)?.as_str().as_bytes().to_vec());
                Some((0..count).map(group).collect())
            }
        }
    }
}

impl From<Regex> for Pattern {
    fn from(expression: Regex) -> Pattern {
        Pattern::Linear(expression)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_back_match_what_the_group_has() {
        let pattern = Pattern::backtracking(r"(?s)tag=([a-z]+).*tag=\1;").unwrap();
        let groups = pattern
            .groups(b"a;tag=xy b;tag=xz; c;tag=xy;\xff", 2)
            .unwrap();
        assert_eq!(groups[1].as_deref(), Some(&b"xy"[..]));
        assert!(pattern.groups(b"a;tag=xy b;tag=xz;", 2).is_none());
        assert!(Pattern::backtracking(r"(a)\2").is_err());
    }

    #[test]
    fn a_text_that_would_take_for_ever_is_not_found() {
        let pattern = Pattern::backtracking(r"^(a+)+\1b$").unwrap();
        let begun = std::time::Instant::now();
        assert!(pattern.groups("a".repeat(20_000).as_bytes(), 1).is_none());
        assert!(begun.elapsed().as_secs() < 5);
    }
}
