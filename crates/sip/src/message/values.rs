//! Values of header fields that are lists (RFC 3261 section 7.3.1).

use std::ops::Range;
use std::slice;

use crate::name::NameCode;
use crate::syntax::{self, trim_start};
use crate::{Message, Name};

use super::Field;

/// The values of all fields of one name, comma-separated lists taken apart.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    message: &'a Message,
    name: Name<'a>,
    code: NameCode,
    /// The fields that have not been looked at.
    fields: slice::Iter<'a, Field>,
    /// What is left of the field that was looked at last.
    rest: &'a [u8],
}

impl<'a> Values<'a> {
    pub(super) fn new(message: &'a Message, name: Name<'a>) -> Values<'a> {
        let code = name.code();
        Values {
            message,
            name,
            code,
            fields: message.0.fields.where_may_be(code).iter(),
            rest: b"",
        }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            if !self.rest.is_empty()
                && let Some(first) = first_value(self.rest)
            {
                let value = &self.rest[first.value];
                self.rest = &self.rest[first.rest_start..];
                return Some(value);
            }
            let (code, message) = (self.code, self.message);
            let field = self
                .fields
                .find(|field| message.is_named(field, code, self.name))?;
            let value = message.value_of(field);
            if field.head == 0 && self.name.is_list() {
                self.rest = value;
            } else {
                return Some(value);
            }
        }
    }
}

/// The first value of a list that is not empty.
pub(super) struct FirstValue {
    /// Where it is, without the white space around it.
    pub(super) value: Range<usize>,
    /// Where the values behind it begin: behind the comma.
    pub(super) rest_start: usize,
}

/// Finds the first value of a list that is not empty.
pub(super) fn first_value(list: &[u8]) -> Option<FirstValue> {
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

/// How long the first value of a list is: up to the first comma that is neither in quotation marks
/// nor in angle brackets.
pub(super) fn value_length(list: &[u8]) -> usize {
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
