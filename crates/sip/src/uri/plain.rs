//! SIP URIs as nearly all are written, read in one pass.

use std::net::Ipv4Addr;

use crate::runs::Runs;
use crate::syntax::{Classes, HOST, PARAMETER, USER, is};

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

/// What is kept of a SIP URI in its usual form: where its parts are, counted from the beginning of its scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedUri {
    /// Before the at sign; 0 where there is no user.
    pub(super) user_end: u16,
    pub(super) host_end: u16,
    pub(super) port_end: u16,
    pub(super) end: u16,
    pub(super) address: Option<Ipv4Addr>,
    pub(super) port: Option<u16>,
}

/// The scheme of a URI in its usual form.
pub(crate) const SCHEME: &str = "sip:";

impl PlainUri {
    /// Where its parts are in a text in which its scheme begins at a place. `None` of a long one.
    pub(crate) fn placed(&self, start: usize) -> Option<PlacedUri> {
        // All the others are before it.
        let end = u16::try_from(self.end - start).ok()?;
        Some(PlacedUri {
            user_end: self.user_end.map_or(0, |end| (end - start) as u16),
            host_end: (self.host.end - start) as u16,
            port_end: (self.host.port_end - start) as u16,
            end,
            address: self.host.address,
            port: self.host.port,
        })
    }

    /// Reads what begins at a place, as far as it may be a URI. `None` where that takes more than a glance.
    pub(crate) fn read(text: &mut Runs<'_>, start: usize) -> Option<PlainUri> {
        PlainUri::read_here(text, start)
    }

    /// [`read`](PlainUri::read) for who has no use for all of it: the compiler leaves the rest out.
    #[inline(always)]
    pub(crate) fn read_here(text: &mut Runs<'_>, start: usize) -> Option<PlainUri> {
        // A copy, which the compiler keeps at hand.
        let mut runs = *text;
        let user_end = runs.end(start, USER);
        let has_user = runs.octet(user_end) == Some(b'@') && user_end > start;
        let host = PlainHost::read(&mut runs, if has_user { user_end + 1 } else { start })?;
        let (end, _) = parameters_end(&mut runs, host.port_end, PARAMETER, PARAMETER)?;
        *text = runs;
        Some(PlainUri {
            user_end: has_user.then_some(user_end),
            host,
            end,
        })
    }
}

impl PlainHost {
    /// Reads the host that begins at a place. `None` where that takes more than a glance.
    #[inline(always)]
    pub(crate) fn read(runs: &mut Runs<'_>, start: usize) -> Option<PlainHost> {
        let text = runs.text();
        let is_whole = |end: usize| !text.get(end).is_some_and(|octet| is(*octet, HOST));
        let (address, end) = match ipv4_at(text, start) {
            Some((address, end)) if is_whole(end) => (Some(address), end),
            _ => {
                let end = runs.end(start, HOST);
                if !is_labels(text, start, end) {
                    return None;
                }
                (None, end)
            }
        };
        let (port, port_end) = match text.get(end) {
            Some(b':') => {
                let (port, port_end) = port_at(text, end + 1)?;
                (Some(port), port_end)
            }
            _ => (None, end),
        };
        Some(PlainHost {
            start,
            end,
            address,
            port,
            port_end,
        })
    }
}

/// The number that stands at a place, of five digits at the most.
#[inline]
fn port_at(text: &[u8], start: usize) -> Option<(u16, usize)> {
    let (mut port, mut at) = (0_u32, start);
    while let Some(digit) = text.get(at).map(|octet| octet.wrapping_sub(b'0'))
        && digit < 10
    {
        port = port * 10 + u32::from(digit);
        at += 1;
        if at - start > 5 {
            return None;
        }
    }
    let is_there = at > start;
    is_there.then(|| Some((u16::try_from(port).ok()?, at)))?
}

/// Behind the parameters that begin at a place, names and values of these classes, and where the last of them begins.
/// `None` where one has an empty part.
#[inline(always)]
pub(crate) fn parameters_end(
    text: &mut Runs<'_>,
    start: usize,
    names: Classes,
    values: Classes,
) -> Option<(usize, usize)> {
    let (mut at, mut last) = (start, start);
    while text.octet(at) == Some(b';') {
        last = at;
        let name = at + 1;
        at = text.end(name, names);
        if at == name {
            return None;
        }
        if text.octet(at) == Some(b'=') {
            let value = at + 1;
            at = text.end(value, values);
            if at == value {
                return None;
            }
        }
    }
    Some((at, last))
}
