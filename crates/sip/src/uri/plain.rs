//! SIP URIs as nearly all are written, read in one pass.

use std::net::Ipv4Addr;

use crate::lexer::Lexer;
use crate::syntax::{Classes, HOST, PARAMETER, USER, is, leading_number};

use super::host::{ipv4_at, is_labels};

/// A SIP URI behind its scheme, where it has the usual form: without escapes, password and headers, its host a domain
/// name or an IPv4 address, and each parameter's value not empty. Such a one is well-formed. All places are counted from
/// the text's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlainUri {
    /// Where the user ends, if there is one: before the at sign.
    pub(crate) user_end: Option<usize>,
    pub(crate) host: PlainHost,
    /// Behind the last parameter, and so behind the whole URI.
    pub(crate) end: usize,
    /// The octet there; 0 where the text has ended.
    pub(crate) behind: u8,
}

/// A host with or without a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlainHost {
    pub(crate) start: usize,
    /// Before the colon, if there is one.
    pub(crate) end: usize,
    /// The address that it is, if it is one.
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) port: Option<u16>,
    /// Behind the port.
    pub(crate) port_end: usize,
}

/// The scheme of a URI in its usual form.
pub(crate) const SCHEME: &str = "sip:";

impl PlainUri {
    /// Reads what begins at a place, as far as it may be a URI. `None` where it is written in another form.
    #[inline]
    pub(crate) fn read(text: &mut Lexer<'_>, start: usize) -> Option<PlainUri> {
        // A copy, which the compiler keeps at hand.
        let mut lexer = *text;
        let (user_end, octet) = lexer.end_and_octet(start, USER);
        let has_user = octet == b'@' && user_end > start;
        let host_start = if has_user { user_end + 1 } else { start };
        let (host, octet) = PlainHost::read(&mut lexer, host_start)?;
        let (end, behind) =
            parameters_end(&mut lexer, (host.port_end, octet), PARAMETER, PARAMETER)?;
        *text = lexer;
        Some(PlainUri {
            user_end: has_user.then_some(user_end),
            host,
            end,
            behind,
        })
    }
}

impl PlainHost {
    /// Reads the host that begins at a place. `None` where it is written in another form. Beside it the octet behind the
    /// port; 0 where the text has ended.
    #[inline(always)]
    pub(crate) fn read(lexer: &mut Lexer<'_>, start: usize) -> Option<(PlainHost, u8)> {
        let text = lexer.text();
        let octet_at = |end: usize| text.get(end).copied().unwrap_or_default();
        let address = ipv4_at(text, start).map(|(address, end)| (address, end, octet_at(end)));
        let (address, end, octet) = match address {
            Some((address, end, octet)) if !is(octet, HOST) => (Some(address), end, octet),
            _ => {
                let (end, octet) = lexer.end_and_octet(start, HOST);
                if !is_labels(text, start, end) {
                    return None;
                }
                (None, end, octet)
            }
        };
        let (port, port_end, octet) = match octet {
            b':' => {
                let (port, port_end) = port_at(text, end + 1)?;
                (Some(port), port_end, octet_at(port_end))
            }
            _ => (None, end, octet),
        };
        let host = PlainHost {
            start,
            end,
            address,
            port,
            port_end,
        };
        Some((host, octet))
    }
}

/// The port that stands at a place, of five digits at the most, and where it ends.
#[inline(always)]
fn port_at(text: &[u8], start: usize) -> Option<(u16, usize)> {
    const MAXIMUM_DIGITS: usize = 5;
    let (port, length) = leading_number(text.get(start..)?);
    match length {
        1..=MAXIMUM_DIGITS => Some((u16::try_from(port).ok()?, start + length)),
        _ => None,
    }
}

/// Behind the parameters that begin at a place at which there is this octet, names and values of these classes, and the
/// octet there, 0 where the text has ended. `None` where one has an empty part.
#[inline(always)]
pub(crate) fn parameters_end(
    text: &mut Lexer<'_>,
    (start, octet): (usize, u8),
    names: Classes,
    values: Classes,
) -> Option<(usize, u8)> {
    let (mut at, mut octet) = (start, octet);
    while octet == b';' {
        let name = at + 1;
        (at, octet) = text.end_and_octet(name, names);
        if at == name {
            return None;
        }
        if octet == b'=' {
            let value = at + 1;
            (at, octet) = text.end_and_octet(value, values);
            if at == value {
                return None;
            }
        }
    }
    Some((at, octet))
}
