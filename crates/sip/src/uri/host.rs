//! Hosts in URIs and Via values.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::simd;
use crate::syntax::{self, HOST};

/// The host in a URI or a Via.
#[derive(Clone, Copy, Debug)]
pub enum Host<'a> {
    /// A domain name.
    Name(&'a str),
    /// An IPv4 address, or an IPv6 reference (in brackets when written).
    Address(IpAddr),
}

impl<'a> Host<'a> {
    /// Parses a host: a domain name, an IPv4 address or an IPv6 reference in brackets, the grammar
    /// being that of RFC 5954. Escapes do not belong in a host (RFC 3261 section 19.1.2).
    pub fn parse(text: &'a str) -> Option<Host<'a>> {
        if let Some(reference) = text.strip_prefix('[') {
            let reference = reference.strip_suffix(']')?;
            let address: Option<Ipv6Addr> = reference.parse().ok();
            let address = address.or_else(|| with_extra_colon(reference))?;
            return Some(Host::Address(address.into()));
        }
        let octets = text.as_bytes();
        if octets.first().is_some_and(u8::is_ascii_digit)
            && let Some(address) = ipv4(octets)
        {
            return Some(Host::Address(address.into()));
        }
        is_host_name(octets).then_some(Host::Name(text))
    }

    /// The address, where it is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Host::Name(_) => None,
            Host::Address(address) => Some(*address),
        }
    }
}

/// Whether a text is a domain name, with or without the dot of the root at its end.
fn is_host_name(text: &[u8]) -> bool {
    is_name(text.strip_suffix(b".").unwrap_or(text))
}

/// Whether a text is labels with single dots between them, the last one not a number: no top-level
/// domain is one (RFC 5954 section 4.1).
fn is_name(text: &[u8]) -> bool {
    syntax::all(text, HOST) && has_labels(text)
}

/// [`is_host_name`] of what stands between two places of a text, where it is known to be nothing but labels and dots,
/// and that something else follows.
#[inline(always)]
pub(super) fn is_labels(text: &[u8], start: usize, end: usize) -> bool {
    // Most begin with a letter or digit, end with a letter, and are looked at together.
    let length = end.wrapping_sub(start);
    if let Some(rest) = text.get(start..)
        && let Some(window) = rest.first_chunk()
        && window[0] != b'.'
        && let Some(last) = rest.get(length.wrapping_sub(1))
        && last.is_ascii_alphabetic()
    {
        // What stands behind the last octet, which is no dot, does not count.
        // There is a last octet, so it is not empty.
        match length {
            ..=simd::TWO => return first_of_two(window) << (simd::TWO - length) == 0,
            // They overlap.
            length if length < COVERED_BY_TWO => {
                let last = text
                    .get(end - simd::TWO..)
                    .and_then(|rest| rest.first_chunk());
                return first_of_two(window) == 0
                    && last.is_some_and(|window| first_of_two(window) == 0);
            }
            _ => {}
        }
    }
    are_labels(text, start, end)
}

/// What is shorter is covered by two windows that overlap.
const COVERED_BY_TWO: usize = 2 * simd::TWO;

/// [`is_labels`] for any.
#[inline(never)]
fn are_labels(text: &[u8], start: usize, end: usize) -> bool {
    let name = text.get(start..end).unwrap_or_default();
    let without_root = match name {
        [before @ .., b'.'] => before,
        _ => name,
    };
    match without_root {
        [] | [b'.', ..] | [.., b'.'] => false,
        // The last label may be a number.
        [.., b'0'..=b'9'] => has_labels(without_root),
        _ => !has_empty_label(text, start, end),
    }
}

/// Whether there are two dots side by side between two places of a text.
#[inline]
fn has_empty_label(text: &[u8], start: usize, end: usize) -> bool {
    let mut at = start;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let first_of_two = match rest.first_chunk() {
            Some(window) => first_of_two(window),
            None => return has_double_dot(rest.get(..end - at).unwrap_or(rest)),
        };
        // What stands at the end is no dot.
        let left = end - at;
        if left <= simd::TWO {
            return first_of_two << (simd::TWO - left) != 0;
        }
        if first_of_two != 0 {
            return true;
        }
        // The last octet may be the first of two.
        at += simd::TWO - 1;
    }
}

/// Marks dots that have another one behind them, as [`simd::below`] marks octets. Behind the last octet nobody has looked.
#[inline(always)]
fn first_of_two(window: &[u8; simd::TWO]) -> u32 {
    let dots = simd::equal_in_two(window, b'.');
    dots & dots >> 1
}

fn has_double_dot(text: &[u8]) -> bool {
    text.windows(2).any(|pair| pair == b"..")
}

/// Whether no label is empty, and the last one is not a number.
fn has_labels(text: &[u8]) -> bool {
    let mut before = b'.';
    let mut has_empty_label = false;
    for &octet in text {
        has_empty_label |= (octet == b'.') & (before == b'.');
        before = octet;
    }
    // Most end with a letter.
    let is_number = || {
        let last_label = text.rsplit(|&octet| octet == b'.').next();
        last_label.is_none_or(|label| label.iter().rev().all(u8::is_ascii_digit))
    };
    !has_empty_label && before != b'.' && !(before.is_ascii_digit() && is_number())
}

/// `IPv4address` (RFC 5954 section 4.1). Every message has a dozen of them, and the parser of the
/// standard library is made for more than that.
fn ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let (address, end) = ipv4_at(text, 0)?;
    (end == text.len()).then_some(address)
}

/// The address that begins at a place, and where it ends. There may be more digits behind it.
#[inline(always)]
pub(super) fn ipv4_at(text: &[u8], start: usize) -> Option<(Ipv4Addr, usize)> {
    let rest = text.get(start..)?;
    // Most hosts that are names do not begin with a digit.
    if !rest.first()?.is_ascii_digit() {
        return None;
    }
    let mut padded = [0; LONGEST_IPV4 + 1];
    let window = match rest.first_chunk() {
        Some(window) => window,
        None => {
            padded[..rest.len()].copy_from_slice(rest);
            &padded
        }
    };
    let (address, length) = leading_ipv4(window)?;
    Some((address, start + length))
}

/// How long an IPv4 address can be.
const LONGEST_IPV4: usize = "255.255.255.255".len();

/// The address at the beginning of a text, and its length. Behind it there is at least one octet.
#[inline(always)]
fn leading_ipv4(text: &[u8; LONGEST_IPV4 + 1]) -> Option<(Ipv4Addr, usize)> {
    // No place is behind the text: it is only the compiler that does not know.
    let octet = |at: usize| text[at % text.len()];
    let digit = |at: usize| {
        let digit = u32::from(octet(at).wrapping_sub(b'0'));
        (digit < 10).then_some(digit)
    };
    let (mut address, mut at) = (0, 0);
    for part in 0..4 {
        if part > 0 {
            if octet(at) != b'.' {
                return None;
            }
            at += 1;
        }
        let mut number = digit(at)?;
        at += 1;
        // No number begins with a zero that could mean octal.
        if number != 0
            && let Some(second) = digit(at)
        {
            number = number * 10 + second;
            at += 1;
            if let Some(third) = digit(at) {
                number = number * 10 + third;
                at += 1;
            }
        }
        if number > 255 {
            return None;
        }
        address = address << 8 | number;
    }
    Some((Ipv4Addr::from_bits(address), at))
}

/// An IPv6 address with a colon too many before its IPv4 part, which the grammar of RFC 3261 allowed:
/// not written, but tolerated (RFC 5118 section 4.10).
fn with_extra_colon(reference: &str) -> Option<Ipv6Addr> {
    let (front, back) = reference.split_once(":::")?;
    let _: Ipv4Addr = back.parse().ok()?;
    format!("{front}::{back}").parse().ok()
}

/// Names are the same without regard to case, addresses when their octets are, however they are
/// written (RFC 3261 section 19.1.4, RFC 5954 section 4.2). A name and an address never are.
impl PartialEq for Host<'_> {
    fn eq(&self, other: &Host<'_>) -> bool {
        match (self, other) {
            (Host::Name(one), Host::Name(other)) => one.eq_ignore_ascii_case(other),
            (Host::Address(one), Host::Address(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Host<'_> {}

/// As in a URI: IPv6 addresses in brackets.
impl fmt::Display for Host<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Splits `host:port` and parses both. The port may be absent; white space around the colon, which
/// a Via may have (RFC 3261 section 25.1, `COLON`), is left out by the caller's choice of `trim`.
#[inline]
pub(crate) fn parse_host_and_port<'a>(
    text: &'a str,
    trim: impl Fn(&'a str) -> &'a str,
) -> Result<(Host<'a>, Option<u16>), HostPortError> {
    let host_length = match text.strip_prefix('[') {
        Some(reference) => {
            syntax::find_near(b']', reference.as_bytes()).ok_or(HostPortError::Host)? + 2
        }
        None => syntax::find_near(b':', text.as_bytes()).unwrap_or(text.len()),
    };
    let (host, port) = text.split_at(host_length);
    let host = Host::parse(trim(host)).ok_or(HostPortError::Host)?;
    let port = trim(port);
    if port.is_empty() {
        return Ok((host, None));
    }
    let digits = trim(port.strip_prefix(':').ok_or(HostPortError::Host)?);
    let port = syntax::number(digits.as_bytes()).ok_or(HostPortError::Port)?;
    Ok((host, Some(port)))
}

/// Which half of `host:port` is malformed.
pub(crate) enum HostPortError {
    Host,
    Port,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn labels_are_those_of_a_name(
            before in "[a.]{0,3}",
            parts in prop::collection::vec(
                prop::sample::select(vec!["a", "1", ".", "bcd", "-", "efghijklm.nopqr", "_", "A0"]),
                0..30,
            ),
            behind in prop::sample::select(vec!["", ">", ":5060;x=y...............................................", ";"]),
        ) {
            let name = parts.concat();
            let text = format!("{before}{name}{behind}");
            let end = before.len() + name.len();
            let is_name = !name.is_empty() && is_host_name(name.as_bytes());
            prop_assert_eq!(is_labels(text.as_bytes(), before.len(), end), is_name);
        }
    }

    #[test]
    fn names_addresses_and_what_is_neither() {
        assert_eq!(Host::parse("AtLanTa.CoM"), Some(Host::Name("atlanta.com")));
        assert!(matches!(Host::parse("atlanta.com."), Some(Host::Name(_))));
        assert!(matches!(Host::parse("3f2a9c.my_net"), Some(Host::Name(_))));
        assert_eq!(
            Host::parse("192.0.2.4").and_then(|host| host.address()),
            Some(IpAddr::from([192, 0, 2, 4]))
        );
        for text in [
            "",
            ".",
            "a..b",
            "a b",
            "444.555.666.777",
            "1.2.3",
            "[::1",
            "[1.2.3.4]",
            "a%41",
            "::1",
        ] {
            assert_eq!(Host::parse(text), None, "{text}");
        }
    }

    /// Wherever dots and digits are, whatever the length, whatever stands before and behind.
    #[test]
    fn labels_between_two_places_are_those_of_a_name() {
        for length in 0..40 {
            for first in 0..=length {
                for second in first..=length {
                    let mut name = vec![b'a'; length];
                    for (at, octet) in [(first, b'.'), (second, b'.'), (second + 1, b'7')] {
                        if let Some(place) = name.get_mut(at) {
                            *place = octet;
                        }
                    }
                    for around in [&b":"[..], b":..................."] {
                        let text = [around, &name, around].concat();
                        let (start, end) = (around.len(), around.len() + length);
                        let is_one = is_labels(&text, start, end);
                        assert_eq!(is_one, is_host_name(&name), "{}", text.escape_ascii());
                    }
                }
            }
        }
    }

    /// RFC 5954 section 4.2.
    #[test]
    fn addresses_are_compared_by_their_octets() {
        for (one, other) in [
            ("[::ffff:192.0.2.128]", "[::ffff:c000:280]"),
            ("[2001:db8::9:1]", "[2001:db8::9:01]"),
            ("[0:0:0:0:0:FFFF:129.144.52.38]", "[::FFFF:129.144.52.38]"),
        ] {
            assert!(Host::parse(one).is_some());
            assert_eq!(Host::parse(one), Host::parse(other));
        }
        // RFC 5954 section 3.1: the extra colon that the old grammar allowed, and no other.
        assert_eq!(
            Host::parse("[2001:db8:::192.0.2.1]"),
            Host::parse("[2001:db8::192.0.2.1]")
        );
        for text in [
            "[2001:db8:::1]",
            "[:::]",
            "[2001:db8::::192.0.2.1]",
            "[1:::2:::192.0.2.1]",
        ] {
            assert_eq!(Host::parse(text), None, "{text}");
        }
    }

    #[test]
    fn display_puts_ipv6_in_brackets() {
        let host = Host::parse("[2001:DB8:0::9:01]").map(|host| host.to_string());
        assert_eq!(host.as_deref(), Some("[2001:db8::9:1]"));
    }

    #[test]
    fn ipv4_addresses_are_read_as_the_standard_library_reads_them() {
        for text in [
            "127.0.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "256.1.1.1",
            "1.1.1.256",
            "299.1.1.1",
            "1000.1.1.1",
            "01.1.1.1",
            "00.1.1.1",
            "1.1.1",
            "1.1.1.",
            ".1.1.1",
            "1..1.1",
            "1.1.1.1.1",
            "1.1.1.1 ",
            "1.1.1.a",
            "",
        ] {
            assert_eq!(ipv4(text.as_bytes()), text.parse().ok(), "{text}");
        }
    }
}
