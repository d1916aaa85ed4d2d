//! CSeq (RFC 3261 sections 8.1.1.5 and 20.16).

use crate::Method;
use crate::syntax::{self, is_lws, trim_start};

/// The value of a CSeq field, borrowed from its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    number: u32,
    method: &'a [u8],
}

impl<'a> CSeq<'a> {
    /// Parses a value: a number below 2^32, white space, and a method, of which nothing is demanded.
    pub fn parse(value: &'a [u8]) -> Option<CSeq<'a>> {
        let number_length = value.iter().position(|&octet| is_lws(octet))?;
        let (number, method) = value.split_at(number_length);
        Some(CSeq {
            number: syntax::number(number)?,
            method: trim_start(method),
        })
    }

    /// The sequence number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The method; `None` where it is not UTF-8.
    pub fn method(&self) -> Option<Method> {
        Method::from_octets(self.method)
    }

    /// The method as written.
    pub fn method_name(&self) -> &'a [u8] {
        self.method
    }
}
