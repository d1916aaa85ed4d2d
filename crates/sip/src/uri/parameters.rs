//! Parameters and headers of a SIP URI.

use std::cmp::Ordering;

use crate::Parameter;
use crate::syntax::{self, HEADER, PARAMETER, find_any, split_before, split_once};

use super::escape;

/// How many parameters or headers are compared: each is looked for among all of the other URI, which
/// must not become long work for a short message. Longer lists are equivalent when they are the same.
const MAXIMUM_COMPARED: usize = 64;

/// The parameters of a URI: `;name=value`, without white space or quotation marks, but with escapes
/// (RFC 3261 section 19.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UriParameters<'a> {
    /// Empty, or what begins with the next semicolon.
    text: &'a str,
}

impl<'a> UriParameters<'a> {
    /// The parameters in a text that is empty or begins with a semicolon.
    pub(super) fn new(text: &'a str) -> UriParameters<'a> {
        UriParameters { text }
    }

    /// The text: empty, or what begins with the first semicolon.
    pub fn as_str(self) -> &'a str {
        self.text
    }

    /// The value of the first parameter of this name as written, "" where it has none. `None` where
    /// there is no such parameter. Escapes in names, of the URI and the one asked for, stand for what they mean.
    #[inline(always)]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        // Of most names the compiler knows it.
        match has_escape(name.as_bytes()) {
            // What is asked for is as another URI has written it.
            true => self.get_escaped(name),
            false => self.get_plain(name),
        }
    }

    /// [`get`](UriParameters::get) for a name without escapes.
    fn get_plain(&self, name: &str) -> Option<&'a str> {
        const CASE: u8 = 0x20;
        let text = self.text.as_bytes();
        let Some(first) = name.as_bytes().first() else {
            return self.get_escaped(name);
        };
        let mut at = 0;
        while text.get(at) == Some(&b';') {
            let rest = &text[at + 1..];
            let length = find_any([b';', b'%'], rest).unwrap_or(rest.len());
            if rest.get(length) == Some(&b'%') {
                return self.get_escaped(name);
            }
            if let Some((written, value)) = rest[..length].split_at_checked(name.len())
                && rest[0] | CASE == first | CASE
                && written.eq_ignore_ascii_case(name.as_bytes())
            {
                let end = at + 1 + length;
                match value {
                    [] => return self.text.get(end..end),
                    [b'=', value @ ..] => return self.text.get(end - value.len()..end),
                    _ => {}
                }
            }
            at += 1 + length;
        }
        None
    }

    /// [`get`](UriParameters::get), names being compared with their escapes decoded.
    #[cold]
    pub(super) fn get_escaped(&self, name: &str) -> Option<&'a str> {
        self.into_iter()
            .find(|parameter| is_named(parameter.name, name))
            .map(|parameter| parameter.value.unwrap_or_default())
    }

    /// Whether there is a parameter of this name, with or without a value.
    #[inline(always)]
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether each has a name, and all octets are those of a parameter or escaped.
    pub(super) fn are_well_formed(self) -> bool {
        self.into_iter().all(|parameter| {
            !parameter.name.is_empty()
                && syntax::all_or_escaped(parameter.name.as_bytes(), PARAMETER)
                && parameter
                    .value
                    .is_none_or(|value| syntax::all_or_escaped(value.as_bytes(), PARAMETER))
        })
    }

    /// As [`SipUri::is_equivalent`](super::SipUri::is_equivalent) compares parameters.
    pub(super) fn are_equivalent(self, other: UriParameters<'_>) -> bool {
        self.text == other.text
            || self.count().max(other.count()) <= MAXIMUM_COMPARED
                && self.agree_with(other)
                && other.agree_with(self)
    }

    /// Whether both have the same names, and values for which `same(name, one, other)` holds.
    pub(super) fn are_the_same(
        self,
        other: UriParameters<'_>,
        same: impl Fn(&str, &str, &str) -> bool,
    ) -> bool {
        let count = self.count();
        self.text == other.text
            || count <= MAXIMUM_COMPARED
                && count == other.count()
                && self.into_iter().all(|parameter| {
                    other.get(parameter.name).is_some_and(|value| {
                        same(parameter.name, parameter.value.unwrap_or_default(), value)
                    })
                })
    }

    /// Whether each parameter here is also there with the same value, or may be missing there. Those
    /// that have a default do not match their absence, and `maddr` neither (RFC 3261 section 19.1.4).
    fn agree_with(self, other: UriParameters<'_>) -> bool {
        self.into_iter()
            .all(|parameter| match other.get(parameter.name) {
                Some(value) => {
                    escape::are_equivalent(parameter.value.unwrap_or_default(), value, true)
                }
                None => !["transport", "user", "ttl", "method", "maddr"]
                    .iter()
                    .any(|name| escape::are_equivalent(parameter.name, name, true)),
            })
    }
}

impl<'a> Iterator for UriParameters<'a> {
    type Item = Parameter<'a>;

    fn next(&mut self) -> Option<Parameter<'a>> {
        let after = self.text.strip_prefix(';')?;
        let (parameter, rest) = split_before(after, b';');
        self.text = rest;
        Some(split(parameter))
    }
}

/// Whether the headers of a URI (`name=value&name=value`) are well-formed.
pub(super) fn headers_are_well_formed(headers: &str) -> bool {
    headers.split('&').map(split).all(|header| {
        !header.name.is_empty()
            && syntax::all_or_escaped(header.name.as_bytes(), HEADER)
            && header
                .value
                .is_some_and(|value| syntax::all_or_escaped(value.as_bytes(), HEADER))
    })
}

/// Whether the same headers are in both, in any order. Values are compared as they are, which finds
/// fewer equal than the rules of each header field would (RFC 3261 section 19.1.4).
pub(super) fn headers_are_equivalent(one: Option<&str>, other: Option<&str>) -> bool {
    let (Some(one), Some(other)) = (one, other) else {
        return one.is_none() && other.is_none();
    };
    let all_in = |these: &str, those: &str| {
        these.split('&').map(split).all(|this| {
            those.split('&').map(split).any(|that| {
                escape::are_equivalent(this.name, that.name, true)
                    && escape::are_equivalent(
                        this.value.unwrap_or_default(),
                        that.value.unwrap_or_default(),
                        false,
                    )
            })
        })
    };
    let count = one.split('&').count();
    one == other
        || count <= MAXIMUM_COMPARED
            && count == other.split('&').count()
            && all_in(one, other)
            && all_in(other, one)
}

#[inline(always)]
const fn has_escape(text: &[u8]) -> bool {
    let mut at = 0;
    while at < text.len() {
        if text[at] == b'%' {
            return true;
        }
        at += 1;
    }
    false
}

/// Whether a name that is written, perhaps with escapes, is another one.
fn is_named(written: &str, name: &str) -> bool {
    // An escape takes more than what it stands for.
    let longer = match written.len().cmp(&name.len()) {
        Ordering::Less => name,
        Ordering::Equal if written.eq_ignore_ascii_case(name) => return true,
        _ => written,
    };
    syntax::find_near(b'%', longer.as_bytes()).is_some()
        && escape::are_equivalent(written, name, true)
}

/// A name and its value at the equals sign.
fn split(text: &str) -> Parameter<'_> {
    match split_once(text, b'=') {
        Some((name, value)) => Parameter {
            name,
            value: Some(value),
        },
        None => Parameter {
            name: text,
            value: None,
        },
    }
}
