//! Escapes in URIs: `%` and two hexadecimal digits (RFC 3261 section 19.1.2).

use std::fmt::Write;

use crate::syntax::{self, RESERVED};

/// An octet of a URI's component, and whether it was written as an escape.
#[derive(Clone, Copy)]
struct Octet {
    value: u8,
    escaped: bool,
}

/// The octets that a text stands for. Escapes are decoded once, never again in what they give.
fn octets(text: &str) -> impl Iterator<Item = Octet> {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || match rest {
        [] => None,
        [b'%', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            rest = tail;
            Some(Octet {
                value: digit(*high) << 4 | digit(*low),
                escaped: true,
            })
        }
        [value, tail @ ..] => {
            rest = tail;
            Some(Octet {
                value: *value,
                escaped: false,
            })
        }
    })
}

/// The value of a hexadecimal digit.
fn digit(letter: u8) -> u8 {
    match letter {
        b'0'..=b'9' => letter - b'0',
        _ => (letter | 0x20) - b'a' + 10,
    }
}

/// The octets that a text stands for.
pub(super) fn unescape(text: &str) -> Vec<u8> {
    octets(text).map(|octet| octet.value).collect()
}

/// Whether two texts are equivalent: an octet equals its escape, unless it is a reserved one
/// (RFC 3261 section 19.1.4).
pub(super) fn are_equivalent(one: &str, other: &str, ignore_case: bool) -> bool {
    let comparable = |octet: Octet| {
        let value = if ignore_case {
            octet.value.to_ascii_lowercase()
        } else {
            octet.value
        };
        (value, octet.escaped && syntax::is(octet.value, RESERVED))
    };
    one == other
        || octets(one)
            .map(comparable)
            .eq(octets(other).map(comparable))
}

/// Appends what a text stands for, in a form that is the same for all spellings and is different for
/// different octets: decoded, but for the percent sign itself, control characters, and octets that
/// are not UTF-8, which are escaped.
pub(super) fn write_canonical(text: &str, canonical: &mut String) {
    for chunk in unescape(text).utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '%' || character.is_ascii_control() {
                escape(character as u8, canonical);
            } else {
                canonical.push(character);
            }
        }
        for &octet in chunk.invalid() {
            escape(octet, canonical);
        }
    }
}

fn escape(octet: u8, text: &mut String) {
    // Writing to a string does not fail.
    let _ = write!(text, "%{octet:02X}");
}
