//! Telephone numbers as URIs (RFC 3966).

use crate::syntax::split_before;

use super::UriParameters;

/// A `tel:` URI (RFC 3966).
#[derive(Clone, Copy, Debug)]
pub struct TelUri<'a> {
    text: &'a str,
    number: &'a str,
    parameters: UriParameters<'a>,
}

impl<'a> TelUri<'a> {
    /// Takes a URI apart whose octets are known to be those of a URI.
    pub(super) fn new(text: &'a str, rest: &'a str) -> TelUri<'a> {
        let (number, parameters) = split_before(rest, b';');
        TelUri {
            text,
            number,
            parameters: UriParameters::new(parameters),
        }
    }

    /// The text that it was parsed from.
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// The number as written, visual separators included.
    pub fn number(&self) -> &'a str {
        self.number
    }

    /// The parameters.
    pub fn parameters(&self) -> UriParameters<'a> {
        self.parameters
    }

    /// Whether two numbers are equivalent (RFC 3966 section 4): the same digits, and the same
    /// parameters in any order.
    pub fn is_equivalent(&self, other: &TelUri<'_>) -> bool {
        digits(self.number).eq(digits(other.number))
            && self
                .parameters
                .are_the_same(other.parameters, |name, one, other| {
                    if name.eq_ignore_ascii_case("phone-context") && one.starts_with('+')
                        || name.eq_ignore_ascii_case("ext")
                    {
                        digits(one).eq(digits(other))
                    } else {
                        one.eq_ignore_ascii_case(other)
                    }
                })
    }
}

/// The digits of a number and its plus sign, without visual separators.
fn digits(number: &str) -> impl Iterator<Item = u8> {
    number
        .bytes()
        .filter(|octet| !matches!(octet, b'-' | b'.' | b'(' | b')'))
        .map(|octet| octet.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use crate::Uri;

    fn are_equivalent(one: &str, other: &str) -> bool {
        match (Uri::parse(one), Uri::parse(other)) {
            (Ok(one), Ok(other)) => one.is_equivalent(&other),
            _ => panic!("{one} and {other} are URIs"),
        }
    }

    /// RFC 3966 section 4.
    #[test]
    fn numbers_are_compared_without_visual_separators() {
        assert!(are_equivalent("tel:+1-201-555-0123", "TEL:+1(201)555.0123"));
        assert!(are_equivalent(
            "tel:7042;phone-context=example.com;ext=1-2",
            "tel:70-42;EXT=12;phone-context=EXAMPLE.com"
        ));
        assert!(are_equivalent(
            "tel:863-1234;phone-context=+1-914-555",
            "tel:8631234;phone-context=+1914555"
        ));
        assert!(!are_equivalent("tel:+12015550123", "tel:12015550123"));
        assert!(!are_equivalent(
            "tel:7042;phone-context=example.com",
            "tel:7042"
        ));
        assert!(!are_equivalent("tel:7042;x=1", "tel:7042;x=2"));
        assert!(!are_equivalent("tel:+1", "sip:+1@example.com"));
    }
}
