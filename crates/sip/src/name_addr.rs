//! Addresses in header fields: From, To, Contact, Route and their like.

use std::borrow::Cow;

use crate::{Parameters, Uri, UriError};

/// Why a value is not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed address")]
pub struct NameAddrError;

/// A `name-addr` or `addr-spec` with the header parameters that follow it (RFC 3261 section 20.10):
/// parameters outside angle brackets belong to the header, not to the URI.
#[derive(Clone, Copy, Debug)]
pub struct NameAddr<'a> {
    display_name: &'a [u8],
    uri: &'a str,
    parameters: Parameters<'a>,
}

impl<'a> NameAddr<'a> {
    /// Parses one value.
    pub fn parse(_value: &'a [u8]) -> Result<NameAddr<'a>, NameAddrError> {
        todo!()
    }

    /// The display name, without quotation marks and escapes; octets that are not UTF-8 replaced.
    pub fn display_name(&self) -> Option<Cow<'a, str>> {
        let _ = self.display_name;
        todo!()
    }

    /// The URI as written.
    pub fn uri(&self) -> &'a str {
        self.uri
    }

    /// The URI, parsed.
    pub fn parse_uri(&self) -> Result<Uri<'a>, UriError> {
        Uri::parse(self.uri)
    }

    /// The tag parameter (RFC 3261 section 19.3).
    pub fn tag(&self) -> Option<&'a str> {
        self.parameters.get("tag")
    }

    /// The header parameters.
    pub fn parameters(&self) -> Parameters<'a> {
        self.parameters
    }

    /// The value of a header parameter, "" where it has none; `None` where it is not there.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.get(name)
    }

    /// The preference of a contact, in thousandths: 1000 where it is not given (RFC 3261 section
    /// 20.10). `None` where it is malformed.
    pub fn q(&self) -> Option<u16> {
        todo!()
    }

    /// The expires parameter of a contact, in seconds; malformed values are `None` (RFC 3261 section
    /// 10.2.1.1), those too large for the type are its maximum.
    pub fn expires(&self) -> Option<u32> {
        todo!()
    }
}

/// A value of a Contact header field.
#[derive(Clone, Copy, Debug)]
pub enum Contact<'a> {
    /// `*`: all of an address of record's bindings (RFC 3261 section 10.2.2).
    All,
    /// An address.
    Address(NameAddr<'a>),
}

/// The values of a message's Contact fields.
#[derive(Clone, Debug)]
pub struct Contacts<'a> {
    pub(crate) values: crate::Values<'a>,
}

impl<'a> Iterator for Contacts<'a> {
    type Item = Result<Contact<'a>, NameAddrError>;

    fn next(&mut self) -> Option<Self::Item> {
        let _ = &self.values;
        todo!()
    }
}
