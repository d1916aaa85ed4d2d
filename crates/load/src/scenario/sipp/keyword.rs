//! The text of SIPp's messages: literal octets, and keywords in brackets.

use crate::scenario::problem::Problems;

/// A part of a message's text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// Octets that are sent as they stand.
    Literal(Vec<u8>),
    /// What is put in its place when the message is sent.
    Keyword(Keyword),
}

/// `[name+offset key=value …]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Keyword {
    /// Its name, without the offset: `len`, `last_Via:`, `$1`.
    pub(super) name: String,
    /// What is added to the number it stands for.
    pub(super) offset: i64,
    /// Its parameters, whose values can have keywords of their own.
    pub(super) parameters: Vec<(String, Vec<Part>)>,
    /// The line on which it stands.
    pub(super) line: usize,
}

impl Keyword {
    /// A parameter's value.
    pub(super) fn parameter(&self, name: &str) -> Option<&[Part]> {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }
}

/// Keywords within parameters of keywords are read no deeper than this.
const DEEPEST: usize = 3;
/// More parts than any message has.
const MOST_PARTS: usize = 10_000;

/// Reads a text that begins on a line.
pub(super) fn parts(text: &str, line: usize, problems: &mut Problems) -> Vec<Part> {
    read(text, line, 0, problems)
}

fn read(text: &str, first_line: usize, depth: usize, problems: &mut Problems) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut literal = Vec::new();
    let mut line = first_line;
    let mut rest = text;
    while let Some(at) = rest.find(['[', '\\', '\n']) {
        if parts.len() > MOST_PARTS {
            problems.add(line, "a message has too many keywords");
            return parts;
        }
        let (before, from) = rest.split_at(at);
        literal.extend_from_slice(before.as_bytes());
        let after = from.get(1..).unwrap_or_default();
        rest = match from.as_bytes().first() {
            Some(b'\n') => {
                line += 1;
                literal.push(b'\n');
                after
            }
            Some(b'\\') => match hexadecimal(after) {
                Some((octet, after)) => {
                    literal.push(octet);
                    after
                }
                None => {
                    literal.push(b'\\');
                    after
                }
            },
            _ => match bracketed(after) {
                Bracket::Text(end) => {
                    literal.push(b'[');
                    let (text, inner) = after.split_at(end);
                    literal.extend_from_slice(text.as_bytes());
                    line += text.matches('\n').count();
                    inner
                }
                Bracket::Keyword(end) if depth < DEEPEST => {
                    if !literal.is_empty() {
                        parts.push(Part::Literal(std::mem::take(&mut literal)));
                    }
                    let (inner, close) = after.split_at(end);
                    parts.push(Part::Keyword(keyword(inner, line, depth, problems)));
                    line += inner.matches('\n').count();
                    close.get(1..).unwrap_or_default()
                }
                Bracket::Keyword(_) => {
                    let message = "keywords within keywords within keywords are too many";
                    problems.add(line, message);
                    ""
                }
                Bracket::Open => {
                    let message = "\"[\" has no \"]\": for a literal bracket, write \\x5b";
                    problems.add(line, message);
                    ""
                }
            },
        };
    }
    literal.extend_from_slice(rest.as_bytes());
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    parts
}

/// `x5b` behind a backslash.
fn hexadecimal(after: &str) -> Option<(u8, &str)> {
    let digits = after.strip_prefix('x')?;
    let octet = u8::from_str_radix(digits.get(..2)?, 16).ok()?;
    Some((octet, digits.get(2..)?))
}

/// What an opening bracket is.
enum Bracket {
    /// It begins a keyword, which is closed at this place behind it.
    Keyword(usize),
    /// It is a bracket: another one is opened at this place behind it before one is closed.
    Text(usize),
    /// It is never closed.
    Open,
}

/// What the bracket before this text is. Brackets in quotes do not count.
fn bracketed(text: &str) -> Bracket {
    let mut is_quoted = false;
    for (at, octet) in text.bytes().enumerate() {
        match octet {
            b'"' => is_quoted = !is_quoted,
            b'[' if !is_quoted => return Bracket::Text(at),
            b']' if !is_quoted => return Bracket::Keyword(at),
            _ => {}
        }
    }
    Bracket::Open
}

fn keyword(inner: &str, line: usize, depth: usize, problems: &mut Problems) -> Keyword {
    let inner = inner.trim();
    let (name, parameters) = inner
        .split_once(|character: char| character.is_ascii_whitespace())
        .unwrap_or((inner, ""));
    let (name, offset) = offset(name);
    Keyword {
        name: name.to_owned(),
        offset,
        parameters: read_parameters(parameters, line, depth, problems),
        line,
    }
}

/// `cseq+1`: names that have a hyphen of their own (`last_Call-ID:`) do not have digits behind it.
fn offset(name: &str) -> (&str, i64) {
    let Some(at) = name.rfind(['+', '-']) else {
        return (name, 0);
    };
    let (before, number) = name.split_at(at);
    let digits = number.get(1..).unwrap_or_default();
    let is_number = !digits.is_empty() && digits.bytes().all(|octet| octet.is_ascii_digit());
    match number.parse() {
        Ok(offset) if is_number => (before, offset),
        _ => (name, 0),
    }
}

fn read_parameters(
    text: &str,
    line: usize,
    depth: usize,
    problems: &mut Problems,
) -> Vec<(String, Vec<Part>)> {
    let mut parameters = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        // What else stands there is passed over, as with SIPp.
        let Some((name, after)) = rest.split_once('=') else {
            break;
        };
        let (value, after) = parameter_value(after.trim_start());
        parameters.push((
            name.trim().to_owned(),
            read(value, line, depth + 1, problems),
        ));
        rest = after.trim_start();
    }
    parameters
}

/// The value of a parameter, in quotes or up to a space, and what follows it.
fn parameter_value(text: &str) -> (&str, &str) {
    for (open, close) in [("\\\"", "\\\""), ("\"", "\"")] {
        let quoted = text
            .strip_prefix(open)
            .and_then(|inner| inner.split_once(close));
        if let Some(quoted) = quoted {
            return quoted;
        }
    }
    let end = text.find(|character: char| character.is_ascii_whitespace());
    text.split_at(end.unwrap_or(text.len()))
}
