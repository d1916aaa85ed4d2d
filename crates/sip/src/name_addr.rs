//! Addresses in header fields: From, To, Contact, Route and their like.

use std::borrow::Cow;
use std::num::NonZeroUsize;

use crate::runs::Runs;
use crate::syntax::{self, trim, trim_end, trim_start};
use crate::uri::{PlacedUri, PlainUri, SCHEME, parameters_end};
use crate::{Parameters, SipUri, Uri, UriError, Values};

/// Why a value is not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameAddrError {
    /// A quotation mark or an angle bracket that is never closed.
    #[error("address with an open quotation mark or angle bracket")]
    Unbalanced,
    /// Something between the parts that belongs to none.
    #[error("address with stray characters")]
    Stray,
    /// No URI.
    #[error("address without a URI")]
    NoUri,
}

/// A `name-addr` or `addr-spec` with the header parameters that follow it (RFC 3261 section 20.10).
#[derive(Clone, Copy, Debug)]
pub struct NameAddr<'a> {
    /// With its quotation marks; empty where there is none.
    display_name: &'a [u8],
    uri: &'a str,
    in_brackets: bool,
    parameters: Parameters<'a>,
    /// What is known of the URI.
    places: Option<PlacedUri>,
}

impl<'a> NameAddr<'a> {
    /// A value without a display name that was read before, its URI in angle brackets of this length.
    pub(crate) fn of_places(
        value: &'a [u8],
        bracketed: usize,
        places: PlacedUri,
    ) -> Option<NameAddr<'a>> {
        Some(NameAddr {
            display_name: b"",
            uri: std::str::from_utf8(value.get(1..bracketed.checked_sub(1)?)?).ok()?,
            in_brackets: true,
            parameters: Parameters::new(value.get(bracketed..)?),
            places: Some(places),
        })
    }

    /// Parses one value. Parameters outside angle brackets belong to the header field, not to the
    /// URI (RFC 3261 section 20.10). The URI itself is not looked at.
    pub fn parse(value: &'a [u8]) -> Result<NameAddr<'a>, NameAddrError> {
        let value = trim(value);
        let display_name_length = if value.first() == Some(&b'"') {
            syntax::quoted_string_length(value).ok_or(NameAddrError::Unbalanced)?
        } else {
            // What ends a display name, or tells that there is none.
            syntax::find_any([b'<', b';', b'"'], value).unwrap_or(value.len())
        };
        let (before, rest) = value.split_at(display_name_length);
        let rest = trim_start(rest);
        let Some(bracketed) = rest.strip_prefix(b"<") else {
            return NameAddr::parse_addr_spec(value, display_name_length);
        };
        let uri_length = syntax::find(b'>', bracketed).ok_or(NameAddrError::Unbalanced)?;
        let uri =
            std::str::from_utf8(&bracketed[..uri_length]).map_err(|_| NameAddrError::NoUri)?;
        let parameters = trim_start(&bracketed[uri_length + 1..]);
        if !matches!(parameters.first(), None | Some(b';')) {
            return Err(NameAddrError::Stray);
        }
        Ok(NameAddr {
            display_name: trim_end(before),
            uri,
            in_brackets: true,
            parameters: Parameters::new(parameters),
            places: None,
        })
    }

    /// Parses a value without angle brackets: a URI up to the first semicolon.
    fn parse_addr_spec(value: &'a [u8], length: usize) -> Result<NameAddr<'a>, NameAddrError> {
        let (uri, parameters) = value.split_at(length);
        if value.first() == Some(&b'"') || !matches!(parameters.first(), None | Some(b';')) {
            return Err(NameAddrError::Stray);
        }
        let uri = std::str::from_utf8(trim_end(uri)).map_err(|_| NameAddrError::NoUri)?;
        if uri.is_empty() {
            return Err(NameAddrError::NoUri);
        }
        Ok(NameAddr {
            display_name: b"",
            uri,
            in_brackets: false,
            parameters: Parameters::new(parameters),
            places: None,
        })
    }

    /// The display name without quotation marks and escapes, folds and runs of white space read as
    /// one space. Octets that are not UTF-8 are replaced. `None` where there is none.
    pub fn display_name(&self) -> Option<Cow<'a, str>> {
        if self.display_name.is_empty() {
            return None;
        }
        let inner = match self.display_name {
            [b'"', inner @ .., b'"'] => inner,
            bare => bare,
        };
        if !inner
            .iter()
            .any(|&octet| matches!(octet, b'\\' | b'\r' | b'\n'))
        {
            return Some(String::from_utf8_lossy(inner));
        }
        let mut octets = Vec::with_capacity(inner.len());
        let mut rest = inner;
        while let [octet, tail @ ..] = rest {
            rest = tail;
            match (octet, tail) {
                (b'\\', [escaped, tail @ ..]) => {
                    octets.push(*escaped);
                    rest = tail;
                }
                (b'\r' | b'\n', _) => {
                    rest = trim_start(tail);
                    octets.truncate(trim_end(&octets).len());
                    octets.push(b' ');
                }
                _ => octets.push(*octet),
            }
        }
        Some(Cow::Owned(String::from_utf8_lossy(&octets).into_owned()))
    }

    /// The URI as written.
    pub fn uri(&self) -> &'a str {
        self.uri
    }

    /// The URI, parsed.
    pub fn parse_uri(&self) -> Result<Uri<'a>, UriError> {
        let known = self.places.as_ref();
        match known.and_then(|places| SipUri::of_places(self.uri, places)) {
            Some(uri) => Ok(Uri::Sip(uri)),
            None => Uri::parse(self.uri),
        }
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

    /// The preference of a contact in thousandths; 1000 where it is not given or malformed
    /// (RFC 3261 section 20.10).
    pub fn q(&self) -> u16 {
        self.parameters.get("q").and_then(parse_q).unwrap_or(1000)
    }

    /// The expires parameter of a contact in seconds. `None` where it is missing, malformed or
    /// larger than 2^32-1, all of which mean the registrar's default (RFC 3261 section 10.2.1.1,
    /// RFC 4475 section 3.1.2.4).
    pub fn expires(&self) -> Option<u32> {
        syntax::number(self.parameters.get("expires")?.as_bytes())
    }

    /// Whether the URI stands in angle brackets.
    pub(crate) fn is_in_brackets(&self) -> bool {
        self.in_brackets
    }

    /// Whether all parts keep to the grammar: a display name of tokens or one quoted string, a URI,
    /// which stands in angle brackets when it has a comma or a question mark, and parameters.
    pub(crate) fn is_well_formed(&self) -> bool {
        let display_name_is_well_formed = self.display_name.first() == Some(&b'"')
            || syntax::all(self.display_name, syntax::DISPLAY_NAME);
        display_name_is_well_formed
            && (self.in_brackets || !self.uri.contains([',', '?']))
            && self.parse_uri().is_ok()
            && self.parameters.are_well_formed()
    }
}

/// An address as most are: a SIP URI in angle brackets without escapes, password and headers, its host not in brackets
/// of its own, with or without a display name before it and parameters without quotation marks behind it. Such a one is
/// well-formed, and is no list of several; it is told in a tenth of the time that the parser takes.
///
/// It is two numbers, which a function returns faster than three.
#[derive(Clone, Copy)]
pub(crate) struct PlainAddress {
    end: NonZeroUsize,
    /// Twice the length of the head, and whether there is a lone tag.
    head_and_tag: u32,
}

impl PlainAddress {
    /// Reads what begins at a place, as far as it may be an address. `None` where that takes more than a glance.
    #[inline(never)]
    pub(crate) fn read(text: &mut Runs<'_>, start: usize) -> Option<PlainAddress> {
        let (_, uri_start) = PlainAddress::read_before(text, start)?;
        let uri = PlainUri::read_here(text, uri_start)?;
        PlainAddress::read_behind(text, start, &uri)
    }

    /// [`read`](PlainAddress::read) for who wants to know where the parts of the URI are: `None` where that is not known,
    /// or there is a display name.
    #[inline(never)]
    pub(crate) fn read_with_places(
        text: &mut Runs<'_>,
        start: usize,
        places: &mut Option<PlacedUri>,
    ) -> Option<PlainAddress> {
        let (at, uri_start) = PlainAddress::read_before(text, start)?;
        let uri = PlainUri::read_here(text, uri_start)?;
        let address = PlainAddress::read_behind(text, start, &uri)?;
        *places = match at == start {
            true => uri.placed(at + 1),
            false => None,
        };
        Some(address)
    }

    /// Reads what stands before a URI. Returns where the angle bracket is, and what is behind the scheme.
    #[inline(always)]
    fn read_before(text: &mut Runs<'_>, start: usize) -> Option<(usize, usize)> {
        const BEFORE: &[u8; 5] = b"<sip:";
        let mut at = start;
        if text.octet(at) != Some(b'<') {
            at = display_name_end(text, at)?;
        }
        let is_there = text.text().get(at..)?.first_chunk() == Some(BEFORE);
        is_there.then_some((at, at + BEFORE.len()))
    }

    /// Reads what stands behind the URI of an address that begins at a place.
    #[inline(always)]
    fn read_behind(text: &mut Runs<'_>, start: usize, uri: &PlainUri) -> Option<PlainAddress> {
        if uri.behind != b'>' {
            return None;
        }
        let head_end = uri.end + 1;
        let Some(octet @ b';') = text.octet(head_end) else {
            return PlainAddress::of_places(start, head_end, head_end, false);
        };
        const TAG: &[u8; 5] = b";tag=";
        let parameters = text.text().get(head_end..).unwrap_or_default();
        let (names, values) = (syntax::TOKEN, syntax::ASCII_VALUE);
        let mut others = (head_end, octet);
        if parameters.first_chunk() == Some(TAG) {
            let tag = head_end + TAG.len();
            others = text.end_and_octet(tag, values);
            let (end, octet) = others;
            if end == tag {
                return None;
            }
            if octet != b';' {
                return PlainAddress::of_places(start, head_end, end, true);
            }
        }
        let (end, _) = parameters_end(text, others, names, values)?;
        PlainAddress::of_places(start, head_end, end, false)
    }

    #[inline(always)]
    fn of_places(
        start: usize,
        head_end: usize,
        end: usize,
        has_lone_tag: bool,
    ) -> Option<PlainAddress> {
        let head = u16::try_from(head_end - start).unwrap_or_default();
        Some(PlainAddress {
            end: NonZeroUsize::new(end)?,
            head_and_tag: u32::from(head) << 1 | u32::from(has_lone_tag),
        })
    }

    /// Behind the parameters.
    #[inline(always)]
    pub(crate) fn end(&self) -> usize {
        self.end.get()
    }

    /// Up to behind the angle bracket; 0 where that is far. From there on there is nothing beyond ASCII.
    #[inline(always)]
    pub(crate) fn head(&self) -> u16 {
        (self.head_and_tag >> 1) as u16
    }

    /// Whether `;tag=` and its value is all that is between the head and the end.
    #[inline(always)]
    pub(crate) fn has_lone_tag(&self) -> bool {
        self.head_and_tag & 1 != 0
    }
}

/// Behind the display name that begins at a place, in quotation marks or without, and the spaces behind it. `None` where
/// there is none on this line.
fn display_name_end(runs: &mut Runs<'_>, start: usize) -> Option<usize> {
    match runs.octet(start)? {
        b'"' => {}
        // It does not begin here.
        b' ' => return None,
        _ => return Some(runs.end(start, syntax::WORDS)),
    }
    let text = runs.text();
    // Most have nothing but words.
    let (mut at, octet) = runs.end_and_octet(start + 1, syntax::WORDS);
    if octet != b'"' {
        loop {
            at += syntax::find_in_quotation(text.get(at..)?)?;
            match text.get(at)? {
                b'"' => break,
                // What is escaped may be anything but a line end.
                b'\\' if text.get(at + 1)? >= &b' ' => at += 2,
                _ => return None,
            }
        }
    }
    at += 1;
    while text.get(at) == Some(&b' ') {
        at += 1;
    }
    Some(at)
}

/// Whether a value is an address as most are.
pub(crate) fn is_plain_address(value: &[u8]) -> bool {
    PlainAddress::read(&mut Runs::new(value), 0).is_some_and(|address| address.end() == value.len())
}

/// Whether a text is a SIP URI as [`is_plain_address`] has it in its angle brackets.
pub(crate) fn is_plain_uri(text: &[u8]) -> bool {
    text.starts_with(SCHEME.as_bytes())
        && PlainUri::read(&mut Runs::new(text), SCHEME.len())
            .is_some_and(|uri| uri.end == text.len())
}

/// `qvalue` (RFC 3261 section 25.1), in thousandths.
fn parse_q(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u16 = syntax::number(whole.as_bytes())?;
    if fraction.len() > 3 || whole > 1 {
        return None;
    }
    let mut thousandths = whole * 1000;
    for (digit, weight) in fraction.bytes().zip([100, 10, 1]) {
        thousandths += syntax::number::<u16>(&[digit])? * weight;
    }
    (thousandths <= 1000).then_some(thousandths)
}

/// A value of a Contact header field.
#[derive(Clone, Copy, Debug)]
pub enum Contact<'a> {
    /// `*`: all bindings of an address of record (RFC 3261 section 10.2.2).
    All,
    /// An address.
    Address(NameAddr<'a>),
}

/// The values of a message's Contact fields.
#[derive(Clone, Debug)]
pub struct Contacts<'a> {
    pub(crate) values: Values<'a>,
}

impl<'a> Iterator for Contacts<'a> {
    type Item = Result<Contact<'a>, NameAddrError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.values.next()? {
            b"*" => Some(Ok(Contact::All)),
            value => Some(NameAddr::parse(value).map(Contact::Address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> NameAddr<'_> {
        NameAddr::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// RFC 3261 sections 20.10, 20.20 and 20.39.
    #[test]
    fn examples_of_addresses() {
        let contact =
            parse("\"Mr. Watson\" <sip:watson@worcester.bell-telephone.com> ;q=0.7; expires=3600");
        assert_eq!(contact.display_name().as_deref(), Some("Mr. Watson"));
        assert_eq!(contact.uri(), "sip:watson@worcester.bell-telephone.com");
        assert_eq!((contact.q(), contact.expires()), (700, Some(3600)));

        let from = parse("\"A. G. Bell\" <sip:agb@bell-telephone.com> ;tag=a48s");
        assert_eq!(from.tag(), Some("a48s"));

        let from = parse("sip:+12125551212@server.phone2net.com;tag=887s");
        assert_eq!(
            (from.uri(), from.tag()),
            ("sip:+12125551212@server.phone2net.com", Some("887s"))
        );

        let from = parse("Anonymous <sip:c8oqz84zk7z@privacy.org>;tag=hyh8");
        assert_eq!(from.display_name().as_deref(), Some("Anonymous"));

        let to = parse("The Operator <sip:operator@cs.columbia.edu>;tag=287447");
        assert_eq!(to.display_name().as_deref(), Some("The Operator"));
        for address in [contact, from, to] {
            assert!(address.is_well_formed());
        }
    }

    #[test]
    fn parameters_belong_to_what_the_brackets_say() {
        let outside = parse("sip:bob@example.com;expires=5");
        assert_eq!(
            (outside.uri(), outside.expires()),
            ("sip:bob@example.com", Some(5))
        );
        let inside = parse("<sip:bob@example.com;expires=5>;x");
        assert_eq!(
            (inside.uri(), inside.expires()),
            ("sip:bob@example.com;expires=5", None)
        );
        assert_eq!(inside.parameter("x"), Some(""));
    }

    #[test]
    fn display_names_are_unquoted() {
        for (text, name) in [
            (r#""J Rosenberg \\\"" <sip:a@b>"#, r#"J Rosenberg \""#),
            ("caller<sip:a@b>", "caller"),
            ("\"a <b>, c;d\" <sip:a@b>", "a <b>, c;d"),
            ("\"a\r\n  b\"<sip:a@b>", "a b"),
            ("\"\" <sip:a@b>", ""),
        ] {
            assert_eq!(parse(text).display_name().as_deref(), Some(name));
        }
        assert_eq!(parse("<sip:a@b>").display_name(), None);
    }

    #[test]
    fn octets_that_are_not_utf8_hide_nothing() {
        let from = NameAddr::parse(b"\"J\xfcrgen\" <sip:j@example.com>;tag=1").expect("an address");
        assert_eq!(from.display_name().as_deref(), Some("J\u{fffd}rgen"));
        assert_eq!((from.uri(), from.tag()), ("sip:j@example.com", Some("1")));
        assert!(from.is_well_formed());
    }

    #[test]
    fn values_that_are_no_addresses() {
        for text in [
            "",
            ";tag=1",
            "\"a <sip:a@b>",
            "<sip:a@b",
            "\"a\" sip:a@b",
            "<sip:a@b> <sip:c@d>",
            "<sip:a@b>x",
            "a \"b\" <sip:a@b>",
        ] {
            assert!(NameAddr::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_that_break_a_rule() {
        for text in [
            "Bell, Alexander <sip:a@b>",
            "< sip:a@b >",
            "sip:a@b?x=y",
            "sip:a,b@c",
            "<>",
            "\"Joe\" <sip:joe@example.org>;;;;",
            "<a@b>",
        ] {
            assert!(!parse(text).is_well_formed(), "{text}");
        }
    }

    #[test]
    fn preferences_are_thousandths() {
        for (q, thousandths) in [
            ("1", 1000),
            ("1.000", 1000),
            ("0", 0),
            ("0.", 0),
            ("0.5", 500),
            ("0.33", 330),
            ("0.001", 1),
            // Malformed: the default.
            ("1.1", 1000),
            ("2", 1000),
            ("0.5555", 1000),
            ("-1", 1000),
            ("x", 1000),
            ("", 1000),
        ] {
            assert_eq!(parse(&format!("<sip:a@b>;q={q}")).q(), thousandths, "{q}");
        }
        assert_eq!(parse("<sip:a@b>").q(), 1000);
        assert_eq!(parse("<sip:a@b>;expires=280297596632815").expires(), None);
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig {
            failure_persistence: None,
            ..proptest::prelude::ProptestConfig::default()
        })]

        /// What is plain is one value, and the parser finds it well-formed too.
        #[test]
        fn plain_addresses_are_well_formed_whatever_they_are(
            text in r#"("[a<>,]{0,3}" {0,1})?<sip:([a-z?;,=%]{0,4}@)?[a-z0-9.-]{0,8}(:[0-9]{0,6})?[;=a@&,]{0,5}>[;=a@:,]{0,5}"#
        ) {
            if is_plain_address(text.as_bytes()) {
                let address = NameAddr::parse(text.as_bytes());
                proptest::prop_assert!(address.is_ok_and(|address| address.is_well_formed()));
                let list = crate::Message::request(crate::Method::Options, "sip:a")
                    .with(crate::Name::Contact, &text);
                proptest::prop_assert_eq!(list.values(crate::Name::Contact).count(), 1);
            }
        }
    }

    /// Others are left to the parser.
    #[test]
    fn plain_addresses_are_well_formed() {
        for text in [
            "<sip:bob@192.0.2.1:5060;transport=UDP;lr>",
            "<sip:example.com.>;tag=1-2;x",
            "\"Bob, \\\" B\" <sip:bob;x?y@a-b.example;ob>;expires=60;+sip.x=[::1]",
            "Bob B. <sip:bob@example.com>",
        ] {
            assert!(is_plain_address(text.as_bytes()), "{text}");
            assert!(parse(text).is_well_formed(), "{text}");
        }
        for text in [
            "",
            "sip:bob@example.com",
            "<sip:>",
            "<sip:@example.com>",
            "<sip:bob@>",
            "<sip:bob@1.2.3>",
            "<sip:bob@a..b>",
            "<sip:bob:secret@example.com>",
            "<sip:b%6Fb@example.com>",
            "<sip:bob@example.com:>",
            "<sip:bob@example.com:65536>",
            "<sip:bob@example.com:5060x>",
            "<sip:bob@example.com;>",
            "<sip:bob@example.com;;lr>",
            "<sip:bob@example.com;lr=>",
            "<sip:bob@example.com;lr=a=b>",
            "<sip:bob@example.com?x=y>",
            "<sip:bob@[::1]>",
            "<sip:bob@carol@example.com>",
            "<sip:bob@example.com",
            "<sip:bob@example.com>;",
            "<sip:bob@example.com>x",
            "<sip:bob@example.com>;tag=",
            "<sip:bob@example.com>;x=\"y\"",
            "<sip:bob@example.com>, <sip:carol@example.com>",
            "<sip:bob@example.com> ;tag=1",
            "\"Bob <sip:bob@example.com>",
            "<sips:bob@example.com>",
        ] {
            assert!(!is_plain_address(text.as_bytes()), "{text}");
        }
    }
}
