//! POSIX extended regular expressions, as SIPp's scenarios have them, in the syntax of the `regex`
//! crate, whose time to match is linear in the length of what is searched.
//!
//! One difference remains: of several ways to match at a place POSIX takes the longest, the crate
//! the first in the order of the expression. `a|ab` finds `ab` in SIPp, `a` here.

use std::iter::Peekable;
use std::str::Chars;

use crate::scenario::expression::LONGEST;

/// An expression in the syntax of the `regex` crate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translated {
    pub(super) text: String,
    /// Letters behind a backslash that mean something in other tools, but here only themselves.
    pub(super) letters: Vec<char>,
    /// Whether it refers back to its groups.
    pub(super) refers_back: bool,
}

/// Writes a POSIX extended expression, with what glibc adds to it, in the syntax of the `regex` crate.
///
/// # Errors
/// What the crate cannot do.
pub(super) fn translated(posix: &str) -> Result<Translated, String> {
    if posix.len() > LONGEST {
        return Err(format!("it has more than {LONGEST} characters"));
    }
    let mut expression = Expression {
        rest: posix.chars().peekable(),
        text: String::with_capacity(posix.len() + 8),
        atom: None,
        is_repeated: false,
        groups: Vec::new(),
        letters: Vec::new(),
        refers_back: false,
    };
    while let Some(character) = expression.rest.next() {
        expression.translate(character)?;
    }
    Ok(Translated {
        text: expression.text,
        letters: expression.letters,
        refers_back: expression.refers_back,
    })
}

struct Expression<'p> {
    rest: Peekable<Chars<'p>>,
    text: String,
    /// Where in the text what a repetition repeats begins.
    atom: Option<usize>,
    /// Whether that is repeated already.
    is_repeated: bool,
    /// Where groups that are open begin.
    groups: Vec<usize>,
    letters: Vec<char>,
    refers_back: bool,
}

impl Expression<'_> {
    fn translate(&mut self, character: char) -> Result<(), String> {
        match character {
            '*' | '+' | '?' => self.repeat(&character.to_string()),
            '{' => match self.interval() {
                Some(interval) => self.repeat(&interval),
                None => self.atom(|text| text.push_str("\\{")),
            },
            '(' => {
                self.groups.push(self.text.len());
                self.text.push('(');
                self.atom = None;
            }
            ')' => match self.groups.pop() {
                Some(begin) => {
                    self.text.push(')');
                    self.atom = Some(begin);
                    self.is_repeated = false;
                }
                // An ordinary character where no group is open.
                None => self.atom(|text| text.push_str("\\)")),
            },
            '|' | '^' | '$' => {
                self.text.push(character);
                self.atom = None;
            }
            '[' => {
                let begin = self.text.len();
                self.bracket()?;
                self.atom = Some(begin);
                self.is_repeated = false;
            }
            '\\' => self.escape()?,
            // An ordinary character in POSIX where no interval is open, so too here.
            '}' => self.atom(|text| text.push_str("\\}")),
            other => self.atom(|text| text.push(other)),
        }
        Ok(())
    }

    /// Writes what a repetition may follow.
    fn atom(&mut self, write: impl FnOnce(&mut String)) {
        self.atom = Some(self.text.len());
        self.is_repeated = false;
        write(&mut self.text);
    }

    /// Writes a repetition. A second one repeats what the first one has made: the crate would read it as "as few as
    /// possible", which POSIX has not.
    fn repeat(&mut self, operator: &str) {
        if let (Some(begin), true) = (self.atom, self.is_repeated) {
            self.text.insert_str(begin, "(?:");
            self.text.push(')');
        }
        self.text.push_str(operator);
        self.is_repeated = true;
    }

    /// `{2}`, `{2,}`, `{2,5}` behind the brace; `None`, with nothing read, where it is no interval.
    fn interval(&mut self) -> Option<String> {
        let mut ahead = self.rest.clone();
        let mut inner = String::new();
        loop {
            match ahead.next()? {
                '}' => break,
                character @ ('0'..='9' | ',') if inner.len() < 16 => inner.push(character),
                _ => return None,
            }
        }
        let (least, most) = inner.split_once(',').unwrap_or((&inner, ""));
        let is_number = |text: &str| text.bytes().all(|octet| octet.is_ascii_digit());
        // An interval without a lower bound is GNU's, from 0.
        let least = if least.is_empty() && !most.is_empty() {
            "0"
        } else {
            least
        };
        if least.is_empty() || !is_number(most) {
            return None;
        }
        self.rest = ahead;
        let comma = if inner.contains(',') { "," } else { "" };
        Some(format!("{{{least}{comma}{most}}}"))
    }

    /// A bracket expression, in which a backslash is a backslash.
    fn bracket(&mut self) -> Result<(), String> {
        const OPEN: &str = "a \"[\" has no \"]\"";
        self.text.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.text.push('^');
        }
        let mut is_first = true;
        loop {
            let character = self.rest.next().ok_or(OPEN)?;
            match character {
                ']' if !is_first => break,
                '[' if matches!(self.rest.peek(), Some(':' | '.' | '=')) => {
                    let kind = self.rest.next().unwrap_or_default();
                    let name = self.named(kind).ok_or(OPEN)?;
                    match kind {
                        ':' if CLASSES.contains(&name.as_str()) => {
                            self.text.push_str(&format!("[:{name}:]"));
                        }
                        ':' => {
                            return Err(format!(
                                "there is no class [:{name}:]: known are {}",
                                CLASSES.join(", ")
                            ));
                        }
                        _ => {
                            let mut characters = name.chars();
                            match (characters.next(), characters.next()) {
                                (Some(one), None) => self.member(one),
                                _ => return Err(format!("[{kind}{name}{kind}] is not supported")),
                            }
                        }
                    }
                }
                '-' => match (is_first, self.rest.peek()) {
                    // At an end it is an ordinary character.
                    (true, _) | (_, Some(']')) => self.member('-'),
                    _ => self.text.push('-'),
                },
                other => self.member(other),
            }
            is_first = false;
        }
        self.text.push(']');
        Ok(())
    }

    fn named(&mut self, kind: char) -> Option<String> {
        let mut name = String::new();
        loop {
            let character = self.rest.next()?;
            if character == kind && self.rest.next_if_eq(&']').is_some() {
                return Some(name);
            }
            name.push(character);
        }
    }

    fn member(&mut self, character: char) {
        if character.is_ascii_punctuation() {
            self.text.push('\\');
        }
        self.text.push(character);
    }

    fn escape(&mut self) -> Result<(), String> {
        let escaped = self.rest.next().ok_or("it ends with a backslash")?;
        match escaped {
            // GNU's own, which the crate has too, or has under another name.
            'w' | 'W' | 's' | 'S' => self.atom(|text| text.extend(['\\', escaped])),
            'b' | 'B' | '<' | '>' => {
                self.text.extend(['\\', escaped]);
                self.atom = None;
            }
            '`' | '\'' => {
                self.text
                    .push_str(if escaped == '`' { "\\A" } else { "\\z" });
                self.atom = None;
            }
            '1'..='9' => {
                self.refers_back = true;
                // In parentheses, so that a digit behind it is none of its number.
                self.atom(|text| text.extend(['(', '?', ':', '\\', escaped, ')']));
            }
            other => {
                if other.is_ascii_alphanumeric() {
                    self.letters.push(other);
                }
                self.atom = Some(self.text.len());
                self.is_repeated = false;
                self.member(other);
            }
        }
        Ok(())
    }
}

const CLASSES: [&str; 12] = [
    "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "xdigit",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn text(posix: &str) -> Result<String, String> {
        translated(posix).map(|translated| translated.text)
    }

    #[test]
    fn brackets_are_read_as_posix_has_them() {
        for (posix, ours) in [
            ("[[:alnum:]]*", "[[:alnum:]]*"),
            ("[.]", r"[\.]"),
            (r"[\d]", r"[\\d]"),
            ("[]a]", r"[\]a]"),
            ("[^]a-z-]", r"[^\]a-z\-]"),
            ("[[.-.]x]", r"[\-x]"),
            ("[a&&b]", r"[a\&\&b]"),
            ("[[a]", r"[\[a]"),
        ] {
            assert_eq!(text(posix).as_deref(), Ok(ours), "{posix}");
        }
        for wrong in ["[a", "[[:nothing:]]", "[[:alpha", "[[.ab.]]", "[]"] {
            assert!(translated(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn repetitions_are_greedy_and_a_brace_may_be_a_brace() {
        for (posix, ours) in [
            ("[0-9]{1,3}[.]", r"[0-9]{1,3}[\.]"),
            ("a{2}", "a{2}"),
            ("a{,2}", "a{0,2}"),
            ("a{x}", r"a\{x\}"),
            ("a{", r"a\{"),
            (".*?", "(?:.*)?"),
            ("ba+?", "b(?:a+)?"),
            ("(a|b)??c", "(?:(a|b)?)?c"),
            ("a{2}?b{1,2}+", "(?:a{2})?(?:b{1,2})+"),
            ("a)b", r"a\)b"),
        ] {
            assert_eq!(text(posix).as_deref(), Ok(ours), "{posix}");
        }
    }

    #[test]
    fn escapes_are_those_of_glibc() {
        assert_eq!(text(r"\.\[\<\`").as_deref(), Ok(r"\.\[\<\A"));
        let digits = translated(r"\d+ \x").unwrap();
        assert_eq!(
            (digits.text.as_str(), digits.letters.clone()),
            ("d+ x", vec!['d', 'x'])
        );
        let back = translated(r"(a)\1*").unwrap();
        assert_eq!(
            (back.text.as_str(), back.refers_back),
            (r"(a)(?:\1)*", true)
        );
        assert!(!digits.refers_back);
        assert!(translated("\\").is_err());
    }
}
