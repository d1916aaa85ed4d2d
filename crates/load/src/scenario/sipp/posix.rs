//! POSIX extended regular expressions, as SIPp's scenarios have them, in the syntax of the `regex`
//! crate, whose time to match is linear in the length of what is searched.
//!
//! One difference remains: of several ways to match at a place POSIX takes the longest, the crate
//! the first in the order of the expression. `a|ab` finds `ab` in SIPp, `a` here.

use std::iter::Peekable;
use std::str::Chars;

/// Writes a POSIX extended expression in the syntax of the `regex` crate.
///
/// # Errors
/// What the crate cannot do, or what POSIX leaves open and other tools read differently, with what
/// to write instead.
pub(super) fn translated(posix: &str) -> Result<String, String> {
    let mut expression = Expression {
        rest: posix.chars().peekable(),
        text: String::with_capacity(posix.len() + 8),
        repeated: None,
    };
    while let Some(character) = expression.rest.next() {
        expression.translate(character)?;
    }
    expression.flush();
    Ok(expression.text)
}

struct Expression<'p> {
    rest: Peekable<Chars<'p>>,
    text: String,
    /// A repetition that is not written yet: a `?` behind it changes it.
    repeated: Option<String>,
}

impl Expression<'_> {
    fn translate(&mut self, character: char) -> Result<(), String> {
        match character {
            '*' | '+' => {
                self.flush();
                self.repeated = Some(character.to_string());
            }
            '?' => match self.repeated.take().as_deref() {
                // The crate would read the second one as "as few as possible", which POSIX has not.
                Some("*" | "+") => self.repeated = Some("*".to_owned()),
                Some("?") | None => self.repeated = Some("?".to_owned()),
                Some(interval) => {
                    return Err(format!(
                        "\"{interval}?\" is read differently by different tools: put what is repeated in parentheses"
                    ));
                }
            },
            '{' => {
                self.flush();
                match self.interval() {
                    Some(interval) => self.repeated = Some(interval),
                    None => self.text.push_str("\\{"),
                }
            }
            '[' => {
                self.flush();
                self.bracket()?;
            }
            '\\' => {
                self.flush();
                self.escape()?;
            }
            // An ordinary character in POSIX where no interval is open, so too here.
            '}' => {
                self.flush();
                self.text.push_str("\\}");
            }
            other => {
                self.flush();
                self.text.push(other);
            }
        }
        Ok(())
    }

    fn flush(&mut self) {
        if let Some(repeated) = self.repeated.take() {
            self.text.push_str(&repeated);
        }
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
            // GNU's own, which the crate has too.
            'w' | 'W' | 's' | 'S' | 'b' | 'B' | '<' | '>' => {
                self.text.push('\\');
                self.text.push(escaped);
            }
            '1'..='9' => {
                return Err(format!("\\{escaped}, a back-reference, is not supported"));
            }
            'd' => return Err("\\d is no POSIX expression: write [0-9]".to_owned()),
            letter if letter.is_ascii_alphanumeric() => {
                return Err(format!("\\{letter} is no POSIX expression"));
            }
            other => self.member(other),
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
            assert_eq!(translated(posix).as_deref(), Ok(ours), "{posix}");
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
            (".*?", ".*"),
            ("a+?", "a*"),
            ("a??b", "a?b"),
        ] {
            assert_eq!(translated(posix).as_deref(), Ok(ours), "{posix}");
        }
        assert!(translated("a{2}?").is_err());
    }

    #[test]
    fn escapes_that_posix_has_not_are_refused_with_what_to_write() {
        assert_eq!(translated(r"\.\[\<").as_deref(), Ok(r"\.\[\<"));
        assert!(translated(r"\d+").unwrap_err().contains("[0-9]"));
        assert!(translated(r"(a)\1").is_err());
        assert!(translated("\\").is_err());
    }
}
