//! Comma-separated lists of values in one header field (RFC 3261 section 7.3.1).

use std::ops::Range;

use crate::syntax::{self, trim_start};

/// The values of a list, without white space around them. Empty ones are passed over.
pub fn list_values(list: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let mut rest = list;
    std::iter::from_fn(move || {
        let first = first_value(rest)?;
        let value = &rest[first.value];
        rest = &rest[first.rest_start..];
        Some(value)
    })
}

/// The first value of a list that is not empty.
pub(crate) struct FirstValue {
    /// Where it is, without the white space around it.
    pub(crate) value: Range<usize>,
    /// Where the values behind it begin: behind the comma.
    pub(crate) rest_start: usize,
}

/// Finds the first value of a list that is not empty.
pub(crate) fn first_value(list: &[u8]) -> Option<FirstValue> {
    // Most lists have one, and nothing around it.
    if let ([first, ..], [.., last]) = (list, list)
        && !syntax::is_lws(*first)
        && !syntax::is_lws(*last)
        && syntax::find(b',', list).is_none()
    {
        return Some(FirstValue {
            value: 0..list.len(),
            rest_start: list.len(),
        });
    }
    let mut start = 0;
    while start < list.len() {
        let length = value_length(&list[start..]);
        let end = start + length;
        let rest_start = (end + 1).min(list.len());
        let untrimmed = &list[start..end];
        let without_start = trim_start(untrimmed);
        if !without_start.is_empty() {
            let value_start = end - without_start.len();
            let value_end = value_start + syntax::trim_end(without_start).len();
            return Some(FirstValue {
                value: value_start..value_end,
                rest_start,
            });
        }
        start = rest_start;
    }
    None
}

/// Whether a list has at least one value, none of them empty, and each keeps a rule.
pub(crate) fn is_well_formed_list(list: &[u8], is_well_formed: impl Fn(&[u8]) -> bool) -> bool {
    let mut rest = list;
    loop {
        let (value, behind) = rest.split_at(value_length(rest));
        if !is_well_formed(syntax::trim(value)) {
            return false;
        }
        match behind {
            [_comma, behind @ ..] => rest = behind,
            [] => return true,
        }
    }
}

/// How long the first value of a list is: up to the first comma that is neither in quotation marks
/// nor in angle brackets.
fn value_length(list: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = syntax::find_any([b',', b'"', b'<'], &list[at..]) {
        at += found;
        let rest = &list[at..];
        at += match rest.first() {
            Some(b'"') => syntax::quoted_string_length(rest),
            Some(b'<') => syntax::find(b'>', rest).map(|bracket| bracket + 1),
            _ => return at,
        }
        .unwrap_or(rest.len());
    }
    list.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(mut list: &[u8]) -> Vec<&str> {
        let mut values = Vec::new();
        while let Some(first) = first_value(list) {
            values.push(std::str::from_utf8(&list[first.value]).unwrap_or_default());
            list = &list[first.rest_start..];
        }
        values
    }

    #[test]
    fn commas_separate_outside_of_quotation_marks_and_brackets() {
        assert_eq!(split(b"a,b ,\r\n c"), ["a", "b", "c"]);
        assert_eq!(
            split(br#""Bell, \", A" <sip:a,b@c>;x="1,2" , <sip:d>"#),
            [r#""Bell, \", A" <sip:a,b@c>;x="1,2""#, "<sip:d>"]
        );
    }

    #[test]
    fn empty_values_are_passed_over() {
        assert_eq!(split(b""), [""; 0]);
        assert_eq!(split(b" , ,"), [""; 0]);
        assert_eq!(split(b",a,,b,"), ["a", "b"]);
    }

    #[test]
    fn what_is_never_closed_goes_to_the_end() {
        assert_eq!(split(b"a, \"b, c"), ["a", "\"b, c"]);
        assert_eq!(split(b"a, <b, c"), ["a", "<b, c"]);
        assert_eq!(split(br#""\"#), [r#""\"#]);
    }
}
