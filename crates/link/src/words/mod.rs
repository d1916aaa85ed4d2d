//! How values are written by people: on command lines, in files, on pages.

mod units;

pub use units::{
    bytes, duration, packets, percentage, probability, rate, show_bytes, show_duration,
    show_probability, show_rate,
};
pub(crate) use units::{show_signed_bytes, signed_bytes};

use std::fmt;

/// Where the text of tables and traces comes from that words name: given a name, the text, or why
/// there is none.
pub type Files<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

/// For words that may not name files.
pub(crate) fn no_files(name: &str) -> Result<String, String> {
    Err(format!("the file {name} cannot be read from here"))
}

/// Words that do not say what they should.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WordsError {
    /// Which value it is, if that is known.
    of: Option<String>,
    wrong: String,
}

impl WordsError {
    pub(crate) fn new(wrong: impl Into<String>) -> WordsError {
        WordsError {
            of: None,
            wrong: wrong.into(),
        }
    }

    /// Says which value it is.
    pub(crate) fn of(self, name: &str) -> WordsError {
        WordsError {
            of: Some(name.to_owned()),
            ..self
        }
    }
}

impl fmt::Display for WordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.of {
            write!(f, "{name}: ")?;
        }
        f.write_str(&self.wrong)
    }
}

impl std::error::Error for WordsError {}

/// The words of a value, one after the other.
pub(crate) struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    pub(crate) fn new(text: &'a str) -> Words<'a> {
        Words {
            rest: text.trim_start(),
        }
    }

    /// The next word.
    pub(crate) fn peek(&self) -> Option<&'a str> {
        self.rest.split_whitespace().next()
    }

    /// Goes past the next word.
    pub(crate) fn skip(&mut self) {
        let end = self.rest.find(char::is_whitespace);
        self.rest = end.map_or("", |end| self.rest[end..].trim_start());
    }

    /// Whether the next word is this one; if so, goes past it.
    pub(crate) fn next_if(&mut self, word: &str) -> bool {
        let is = self.peek() == Some(word);
        if is {
            self.skip();
        }
        is
    }

    /// The value of the next word, if it has one.
    pub(crate) fn next_if_ok<T>(&mut self, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let value = parse(self.peek()?).ok()?;
        self.skip();
        Some(value)
    }

    /// The value of the next word.
    pub(crate) fn value<T>(
        &mut self,
        what: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, WordsError> {
        let word = self
            .peek()
            .ok_or_else(|| WordsError::new(format!("{what} is missing")))?;
        let value = parse(word).map_err(WordsError::new)?;
        self.skip();
        Ok(value)
    }

    /// An error that says what was expected in the place of the next word.
    pub(crate) fn unexpected(&self, expected: &str) -> WordsError {
        WordsError::new(match self.peek() {
            Some(word) => format!("\"{word}\" is not {expected}"),
            None => format!("nothing is said: {expected} is expected"),
        })
    }

    /// Whether all words have been read.
    pub(crate) fn end(self) -> Result<(), WordsError> {
        match self.peek() {
            None => Ok(()),
            Some(word) => Err(WordsError::new(format!("\"{word}\" has no meaning here"))),
        }
    }
}
