//! Texts with placeholders.

use std::fmt;

/// A text in which `*` stands for any number of characters; case does not matter. Without a `*` it
/// means the whole text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern that a text means.
    pub fn new(text: &str) -> Pattern {
        Pattern(text.to_ascii_lowercase())
    }

    /// Whether a text is of this pattern.
    pub fn matches(&self, text: &[u8]) -> bool {
        let mut rest = text;
        let mut parts = self.0.as_bytes().split(|octet| *octet == b'*');
        let first = parts.next().unwrap_or_default();
        let Some(last) = parts.next_back() else {
            return rest.eq_ignore_ascii_case(first);
        };
        if rest.len() < first.len() + last.len() {
            return false;
        }
        let (head, tail) = rest.split_at(first.len());
        let (middle, end) = tail.split_at(tail.len() - last.len());
        if !(head.eq_ignore_ascii_case(first) && end.eq_ignore_ascii_case(last)) {
            return false;
        }
        // The leftmost place of each part leaves the most room for those behind it.
        rest = middle;
        for part in parts {
            let Some(at) = find(rest, part) else {
                return false;
            };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a text has a part first.
fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return Some(0);
    }
    text.windows(part.len())
        .position(|window| window.eq_ignore_ascii_case(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("friendly-scanner", "Friendly-Scanner", true),
            ("friendly-scanner", "friendly-scanner 2", false),
            ("sipvicious*", "sipvicious/0.3", true),
            ("*scan*", "friendly-scanner", true),
            ("*scan*", "phone", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a*bb*b", "abb", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("ab*ba", "aba", false),
            ("**x**", "axb", true),
        ] {
            assert_eq!(
                Pattern::new(pattern).matches(text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }
}
