//! Contact (RFC 3261 sections 10.2.2 and 20.10).

use crate::name_addr::are_well_formed_addresses;
use crate::violation::Violation;
use crate::{Method, NameAddr, NameAddrError};

/// A value of a Contact header field.
#[derive(Clone, Copy, Debug)]
pub enum Contact<'a> {
    /// `*`: all bindings of an address of record (RFC 3261 section 10.2.2).
    All,
    /// An address.
    Address(NameAddr<'a>),
}

impl<'a> Contact<'a> {
    /// Parses one value.
    pub fn parse(value: &'a [u8]) -> Result<Contact<'a>, NameAddrError> {
        match value {
            b"*" => Ok(Contact::All),
            value => NameAddr::parse(value).map(Contact::Address),
        }
    }
}

const MISPLACED_STAR: Violation = Violation::bad_request("Misplaced * In Contact");

/// Addresses, or a `*` alone in a REGISTER (section 10.2.2).
pub(crate) fn check(value: &[u8], method: Option<&Method>) -> Result<(), Violation> {
    match value {
        b"*" if method == Some(&Method::Register) => Ok(()),
        b"*" => Err(MISPLACED_STAR),
        _ if are_well_formed_addresses(value) => Ok(()),
        _ => Err(Violation::bad_request("Malformed Contact")),
    }
}

/// The values of several Contact fields: none of them is a `*`.
pub(crate) fn check_several<'a>(
    mut values: impl Iterator<Item = &'a [u8]>,
) -> Result<(), Violation> {
    match values.any(|value| value == b"*") {
        true => Err(MISPLACED_STAR),
        false => Ok(()),
    }
}
