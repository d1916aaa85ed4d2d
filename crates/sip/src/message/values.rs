//! Values of header fields that are lists (RFC 3261 section 7.3.1).

use std::slice;

use crate::list::first_value;
use crate::name::NameCode;
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
            if self.name.is_list() {
                self.rest = value;
            } else {
                return Some(value);
            }
        }
    }
}
