//! The parameters of digest header fields (`auth-param`, RFC 3261 section 25.1): separated by commas,
//! values in quotation marks or not.

use std::borrow::Cow;
use std::fmt;

use crate::syntax::{self, is_lws, trim_text};

/// Why the value of a header field cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// Another scheme than Digest. Basic must not be accepted (RFC 3261 section 22.1).
    #[error("authentication scheme other than Digest")]
    Scheme,
    /// No list of parameters.
    #[error("malformed authentication parameters")]
    Malformed,
    /// A parameter is missing that has to be there.
    #[error("authentication without {0}")]
    Missing(&'static str),
    /// A parameter is there more than once, or in two forms.
    #[error("authentication parameter {0} more than once")]
    Repeated(&'static str),
    /// The value of a parameter is none that it can have.
    #[error("malformed authentication parameter {0}")]
    Value(&'static str),
    /// A hash algorithm or quality of protection that we do not have.
    #[error("authentication by a {0} that is not supported")]
    Unsupported(&'static str),
}

/// The parameters behind the scheme `Digest`.
pub(super) fn digest_parameters(value: &[u8]) -> Result<Parameters<'_>, DigestError> {
    let text = trim_text(std::str::from_utf8(value).map_err(|_| DigestError::Malformed)?);
    let scheme_length = text.bytes().position(is_lws).unwrap_or(text.len());
    let (scheme, rest) = text.split_at(scheme_length);
    if !scheme.eq_ignore_ascii_case("Digest") {
        return Err(DigestError::Scheme);
    }
    Ok(Parameters { rest })
}

/// The parameters of a field that has no scheme.
pub(super) fn plain_parameters(value: &[u8]) -> Result<Parameters<'_>, DigestError> {
    let rest = std::str::from_utf8(value).map_err(|_| DigestError::Malformed)?;
    Ok(Parameters { rest })
}

/// Parameters, read while they are walked.
#[derive(Clone, Debug)]
pub(super) struct Parameters<'a> {
    rest: &'a str,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameter<'a> {
    /// As written; compared without case.
    pub(super) name: &'a str,
    /// Without quotation marks and escapes.
    pub(super) value: Cow<'a, str>,
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<Parameter<'a>, DigestError>;

    fn next(&mut self) -> Option<Result<Parameter<'a>, DigestError>> {
        let start = self
            .rest
            .trim_start_matches(|c: char| c == ',' || is_space(c));
        if start.is_empty() {
            return None;
        }
        match parameter(start) {
            Some((parameter, rest)) => {
                self.rest = rest;
                Some(Ok(parameter))
            }
            None => {
                self.rest = "";
                Some(Err(DigestError::Malformed))
            }
        }
    }
}

/// The first parameter of a list, and what follows it: nothing, or a comma.
fn parameter(text: &str) -> Option<(Parameter<'_>, &str)> {
    let (name, rest) = syntax::split_once(text, b'=')?;
    let name = trim_text(name);
    if !syntax::is_token(name.as_bytes()) {
        return None;
    }
    let rest = rest.trim_start_matches(is_space);
    let (value, rest) = if rest.starts_with('"') {
        let length = syntax::quoted_string_length(rest.as_bytes())?;
        let (quoted, rest) = (rest.get(..length)?, rest.get(length..)?);
        (unquoted(quoted.get(1..length - 1)?), rest)
    } else {
        let length = rest
            .find(|c: char| c == ',' || c == '"' || is_space(c))
            .unwrap_or(rest.len());
        let (token, rest) = rest.split_at(length);
        if token.is_empty() {
            return None;
        }
        (Cow::Borrowed(token), rest)
    };
    let rest = rest.trim_start_matches(is_space);
    (rest.is_empty() || rest.starts_with(',')).then_some((Parameter { name, value }, rest))
}

/// The inside of a quoted string without its escapes (`unq`, RFC 7616 section 3.3).
fn unquoted(inside: &str) -> Cow<'_, str> {
    if !inside.contains('\\') {
        return Cow::Borrowed(inside);
    }
    let mut text = String::with_capacity(inside.len());
    let mut letters = inside.chars();
    while let Some(letter) = letters.next() {
        text.extend(match letter {
            '\\' => letters.next(),
            letter => Some(letter),
        });
    }
    Cow::Owned(text)
}

fn is_space(letter: char) -> bool {
    u8::try_from(letter).is_ok_and(is_lws)
}

/// Takes a value that may be given once.
pub(super) fn take<T>(
    place: &mut Option<T>,
    value: T,
    name: &'static str,
) -> Result<(), DigestError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(DigestError::Repeated(name)),
    }
}

/// Shows a text in quotation marks, with escapes where they are needed. Line ends, which no quoted
/// string can hold, become spaces.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        let mut rest = self.0;
        while let Some(at) = rest.find(['"', '\\', '\r', '\n']) {
            let (before, from) = rest.split_at(at);
            f.write_str(before)?;
            match from.as_bytes().first() {
                Some(b'"') => f.write_str("\\\"")?,
                Some(b'\\') => f.write_str("\\\\")?,
                _ => f.write_str(" ")?,
            }
            rest = from.get(1..).unwrap_or_default();
        }
        f.write_str(rest)?;
        f.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, DigestError> {
        digest_parameters(text.as_bytes())?
            .map(|parameter| {
                parameter.map(|parameter| (parameter.name.to_owned(), parameter.value.into_owned()))
            })
            .collect()
    }

    #[test]
    fn parameters_with_and_without_quotation_marks_and_space() {
        let expected = [
            ("a", "1, \"2\" \\"),
            ("B", "x=y/z+"),
            ("c*", "UTF-8''%41"),
            ("d", ""),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        for text in [
            r#"Digest a="1, \"2\" \\",B=x=y/z+,c*=UTF-8''%41,d="""#,
            "digest\t a = \"1, \\\"2\\\" \\\\\" ,\r\n B= x=y/z+ ,, c*=UTF-8''%41, d=\"\" ,",
        ] {
            assert_eq!(read(text).as_deref(), Ok(&expected[..]), "{text}");
        }
        assert_eq!(read("Digest"), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_list_of_parameters() {
        for (text, error) in [
            ("", DigestError::Scheme),
            ("Basic YWxpY2U6cHc=", DigestError::Scheme),
            ("Digestx a=1", DigestError::Scheme),
            ("Digest a", DigestError::Malformed),
            ("Digest a=", DigestError::Malformed),
            ("Digest a=,b=1", DigestError::Malformed),
            ("Digest a=\"1", DigestError::Malformed),
            ("Digest a=\"1\\\"", DigestError::Malformed),
            ("Digest a=\"1\"2", DigestError::Malformed),
            ("Digest a=1 b=2", DigestError::Malformed),
            ("Digest a b=1", DigestError::Malformed),
            ("Digest =1", DigestError::Malformed),
        ] {
            assert_eq!(read(text), Err(error), "{text}");
        }
        assert!(digest_parameters(b"Digest a=\"\xff\"").is_err());
    }

    #[test]
    fn what_is_quoted_is_read_back() {
        for text in ["", "plain", "\"", "\\", "a\\\"b\\\\", "\u{e4}\"\u{f8}"] {
            let quoted = format!("Digest x={}", Quoted(text));
            assert_eq!(
                read(&quoted),
                Ok(vec![("x".to_owned(), text.to_owned())]),
                "{quoted}"
            );
        }
        assert_eq!(Quoted("a\r\nVia: x").to_string(), "\"a  Via: x\"");
    }
}
