//! Content-Length (RFC 3261 sections 18.3 and 20.14).

use crate::syntax;
use crate::violation::Violation;

/// What the Content-Length fields of a header section say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ContentLength {
    /// There is no such field.
    #[default]
    Missing,
    /// There is one, and it is a number.
    Is(usize),
    /// It is not a number, or there are several fields.
    Unusable,
}

impl ContentLength {
    /// Takes the value of one more field.
    pub(crate) fn add(&mut self, value: &[u8]) {
        *self = match *self {
            ContentLength::Missing => {
                syntax::number(value).map_or(ContentLength::Unusable, ContentLength::Is)
            }
            ContentLength::Is(_) | ContentLength::Unusable => ContentLength::Unusable,
        };
    }

    /// The length of the body, where so many octets follow the header section: all of them where the length is missing,
    /// unusable or too large.
    pub(crate) fn body_length(self, available: usize) -> usize {
        match self {
            ContentLength::Is(length) => length.min(available),
            ContentLength::Missing | ContentLength::Unusable => available,
        }
    }
}

/// What Content-Length announces has arrived (section 18.3).
pub(crate) fn check(value: &[u8], body_length: usize) -> Result<(), Violation> {
    match syntax::number::<usize>(value) {
        None => Err(Violation::bad_request("Malformed Content-Length")),
        Some(length) if length > body_length => {
            Err(Violation::bad_request("Body Shorter Than Content-Length"))
        }
        Some(_) => Ok(()),
    }
}
