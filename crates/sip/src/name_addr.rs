//! Addresses in header fields: From, To, Contact, Route and their like.

use std::borrow::Cow;

use crate::lexer::Lexer;
use crate::list::is_well_formed_list;
use crate::syntax::{self, trim, trim_end, trim_start};
use crate::uri::{PlainUri, parameters_end};
use crate::{Parameters, Uri, UriError};

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
}

impl<'a> NameAddr<'a> {
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

    /// Whether all parts keep to the grammar: a display name of tokens or one quoted string, a URI,
    /// which stands in angle brackets when it has a comma or a question mark, and parameters.
    fn is_well_formed(&self) -> bool {
        let display_name_is_well_formed = self.display_name.first() == Some(&b'"')
            || syntax::all(self.display_name, syntax::DISPLAY_NAME);
        display_name_is_well_formed
            && (self.in_brackets || !self.uri.contains([',', '?']))
            && self.parse_uri().is_ok()
            && self.parameters.are_well_formed()
    }
}

/// The tag of an address (section 19.3); `None` where it has none, or is malformed.
pub fn tag_of(value: &[u8]) -> Option<&str> {
    // Most addresses are a URI in angle brackets, and nothing but a tag behind it.
    if let Some(bracketed) = value.strip_prefix(b"<")
        && let Some(uri_length) = syntax::find(b'>', bracketed)
        && bracketed[..uri_length].is_ascii()
    {
        match bracketed[uri_length + 1..].strip_prefix(b";tag=") {
            Some(tag) if syntax::is_token(tag) => return std::str::from_utf8(tag).ok(),
            None if bracketed.len() == uri_length + 1 => return None,
            _ => {}
        }
    }
    NameAddr::parse(value).ok()?.tag()
}

/// Whether a value is an address that keeps to the grammar.
pub(crate) fn is_well_formed_address(value: &[u8]) -> bool {
    is_plain_address(value) || NameAddr::parse(value).is_ok_and(|address| address.is_well_formed())
}

/// Whether all values of a list are [well-formed addresses](is_well_formed_address).
pub(crate) fn are_well_formed_addresses(list: &[u8]) -> bool {
    // Most have one.
    is_plain_address(list) || is_well_formed_list(list, is_well_formed_address)
}

/// As [`are_well_formed_addresses`], of Route and Record-Route, whose URIs stand in angle brackets (sections 20.30 and
/// 20.34).
pub(crate) fn are_well_formed_routes(list: &[u8]) -> bool {
    let is_well_formed = |value: &[u8]| {
        is_plain_address(value)
            || NameAddr::parse(value).is_ok_and(|route| route.in_brackets && route.is_well_formed())
    };
    is_plain_address(list) || is_well_formed_list(list, is_well_formed)
}

/// Whether a value is an address as most are: a SIP URI in angle brackets without escapes, password and headers, its host
/// not in brackets of its own, with or without a display name before it and parameters without quotation marks behind it.
/// Such a one is well-formed, and is no list of several; it is told in a tenth of the time that the parser takes.
fn is_plain_address(value: &[u8]) -> bool {
    plain_address_end(&mut Lexer::new(value)) == Some(value.len())
}

/// Behind what a text begins with that may be an address as most are.
fn plain_address_end(text: &mut Lexer<'_>) -> Option<usize> {
    const BEFORE: &[u8; 5] = b"<sip:";
    let bracket = match text.octet(0)? {
        b'<' => 0,
        _ => display_name_end(text)?,
    };
    if text.text().get(bracket..)?.first_chunk() != Some(BEFORE) {
        return None;
    }
    let uri = PlainUri::read(text, bracket + BEFORE.len())?;
    if uri.behind != b'>' {
        return None;
    }
    let start = uri.end + 1;
    let octet = text.octet(start).unwrap_or_default();
    let (end, _) = parameters_end(text, (start, octet), syntax::TOKEN, syntax::ASCII_VALUE)?;
    Some(end)
}

/// Behind the display name that a text begins with, in quotation marks or without, and the spaces behind it. `None` where
/// there is none on this line.
fn display_name_end(lexer: &mut Lexer<'_>) -> Option<usize> {
    match lexer.octet(0)? {
        b'"' => {}
        // It does not begin here.
        b' ' => return None,
        _ => return Some(lexer.end(0, syntax::WORDS)),
    }
    let text = lexer.text();
    // Most have nothing but words.
    let (mut at, octet) = lexer.end_and_octet(1, syntax::WORDS);
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
