//! The target set of a redirected request (RFC 3261 section 8.1.3.4): the URIs that 3xx responses name.

use std::cmp::Reverse;

use sip::{Method, NameAddr, Scheme, Uri, list_values};

use crate::engine::received::Received;
use crate::script::StepNumber;

/// Where a request of a session is redirected to, one target after the other.
#[derive(Debug)]
pub(in crate::engine) struct TargetSet {
    /// Which step sends the request.
    step: StepNumber,
    /// Every URI that was ever in the target set: none is there a second time.
    known: Vec<Box<str>>,
    /// Targets that have not been tried; the next one is the last.
    left: Vec<Target>,
    /// Where it goes now.
    current: Target,
}

/// A place that a 3xx names.
#[derive(Debug)]
struct Target {
    uri: Box<str>,
    /// The header fields that its URI wants, as whole lines.
    fields: Box<[u8]>,
    /// How it is preferred, in thousandths.
    q: u16,
    /// Its place among all that were ever named.
    place: usize,
}

impl TargetSet {
    /// The set of a request of a step that was sent to this URI.
    pub(in crate::engine) fn new(step: StepNumber, original: &str) -> TargetSet {
        let current = Target {
            uri: original.into(),
            fields: Box::default(),
            q: 1000,
            place: 0,
        };
        TargetSet {
            step,
            known: vec![original.into()],
            left: Vec::new(),
            current,
        }
    }

    /// Adds the Contacts of a 3xx to the target set, at most so many in all. Of a sips URI only another one takes its
    /// place.
    pub(in crate::engine) fn add(&mut self, response: &Received<'_>, method: &Method, most: usize) {
        let is_secure = |uri: &str| Uri::parse(uri).is_ok_and(|uri| uri.scheme() == Scheme::Sips);
        let needs_secure = self.known.first().is_some_and(|uri| is_secure(uri));
        response.each_named("Contact", |field| {
            for value in list_values(field) {
                // The request's own URI is in the set, too.
                if self.known.len() > most {
                    return;
                }
                let Some(mut target) = Target::read(value, method) else {
                    continue;
                };
                let is_known = self.known.iter().any(|known| is_same(known, &target.uri));
                if is_known || needs_secure && !is_secure(&target.uri) {
                    continue;
                }
                target.place = self.known.len();
                self.known.push(target.uri.clone());
                self.left.push(target);
            }
        });
        // Targets with the same q keep their order.
        self.left
            .sort_by_key(|target| (target.q, Reverse(target.place)));
    }

    /// The set with its next target as the present one; `None` where all were tried.
    pub(in crate::engine) fn next(mut self: Box<TargetSet>) -> Option<Box<TargetSet>> {
        self.current = self.left.pop()?;
        Some(self)
    }

    /// The step that sends the request.
    pub(in crate::engine) fn step(&self) -> StepNumber {
        self.step
    }

    /// Where the request goes now: the Request-URI, and the header fields that it has therefore, as whole lines.
    pub(in crate::engine) fn current(&self) -> (&str, &[u8]) {
        (&self.current.uri, &self.current.fields)
    }
}

impl Target {
    /// Reads a value of Contact. `None` where no request of this method can be made of it.
    fn read(value: &[u8], method: &Method) -> Option<Target> {
        let address = NameAddr::parse(value).ok()?;
        let uri = Uri::parse(address.uri()).ok()?;
        let sip = uri.as_sip()?;
        let wanted = sip.parameter("method");
        if wanted.is_some_and(|wanted| wanted != method.as_str()) {
            return None;
        }
        Some(Target {
            uri: without_method(sip.without_headers()).into(),
            fields: fields(sip.headers().unwrap_or_default())?.into(),
            q: address.q(),
            place: 0,
        })
    }
}

/// Whether two URIs are one (section 19.1.4).
fn is_same(one: &str, other: &str) -> bool {
    let both = Uri::parse(one).ok().zip(Uri::parse(other).ok());
    one == other || both.is_some_and(|(one, other)| one.is_equivalent(&other))
}

/// A SIP URI without its method parameter, which no Request-URI has (section 19.1.1, table 1).
fn without_method(uri: &str) -> String {
    // The user may have semicolons.
    let host = uri.find('@').map_or(0, |at| at + 1);
    let (user, rest) = uri.split_at(host);
    let parts = rest.split(';').filter(|part| {
        let name = part.split('=').next().unwrap_or_default();
        !name.eq_ignore_ascii_case("method")
    });
    user.to_owned() + &parts.collect::<Vec<_>>().join(";")
}

/// What the header fields of a URI are not taken for: what the engine writes itself, what would say something wrong
/// of the user (section 19.1.5), and credentials.
const NOT_HONORED: [&str; 27] = [
    "Accept",
    "Accept-Encoding",
    "Accept-Language",
    "Allow",
    "Authorization",
    "Call-ID",
    "Contact",
    "Content-Disposition",
    "Content-Encoding",
    "Content-Language",
    "Content-Length",
    "Content-Type",
    "CSeq",
    "Date",
    "Expires",
    "From",
    "Max-Forwards",
    "MIME-Version",
    "Organization",
    "Proxy-Authorization",
    "Record-Route",
    "Route",
    "Supported",
    "Timestamp",
    "To",
    "User-Agent",
    "Via",
];

/// Octets of header fields that a URI may add.
const MAXIMUM_FIELDS: usize = 2_000;

/// The header fields that a URI wants, as whole lines, of those that are taken over. `None` where the request could
/// not be sent as it is wanted.
fn fields(headers: &str) -> Option<Vec<u8>> {
    let mut lines = Vec::new();
    for header in headers.split('&').filter(|header| !header.is_empty()) {
        let (name, value) = header.split_once('=')?;
        let (name, value) = (unescaped(name)?, unescaped(value)?);
        let name = std::str::from_utf8(&name).ok()?;
        let name = sip::Name::parse(name);
        let is_named = |known: &str| name == sip::Name::parse(known);
        // We have no extensions (section 19.1.5).
        if is_named("Require") || is_named("Proxy-Require") {
            return None;
        }
        let is_token = |octet: u8| octet.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&octet);
        let text = name.as_str();
        if text == "body" || NOT_HONORED.into_iter().any(is_named) {
            continue;
        }
        if text.is_empty() || !text.bytes().all(is_token) || value.iter().any(u8::is_ascii_control)
        {
            return None;
        }
        lines.extend_from_slice(text.as_bytes());
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(&value);
        lines.extend_from_slice(b"\r\n");
    }
    (lines.len() <= MAXIMUM_FIELDS).then_some(lines)
}

/// A text without its escapes; `None` where one is broken.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [octet, behind @ ..] = rest {
        rest = behind;
        if *octet != b'%' {
            octets.push(*octet);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        octets.push(u8::from_str_radix(digits, 16).ok()?);
        rest = behind;
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn target(value: &str) -> Option<(String, String, u16)> {
        let target = Target::read(value.as_bytes(), &Method::Invite)?;
        let fields = String::from_utf8(target.fields.into()).unwrap();
        Some((target.uri.into(), fields, target.q))
    }

    #[test]
    fn a_place_is_a_uri_with_what_belongs_to_the_request() {
        let whole = "<sip:a;method=x@h:5070;Method=INVITE;transport=tcp;lr?Subject=foo%20bar&via=x&t=y>;q=0.3";
        let uri = "sip:a;method=x@h:5070;transport=tcp;lr".to_owned();
        let subject = "Subject: foo bar\r\n".to_owned();
        assert_eq!(target(whole), Some((uri, subject, 300)));
        assert_eq!(target("sip:h"), Some(("sip:h".into(), String::new(), 1000)));
        for bad in [
            "<tel:+1>",
            "<mailto:a@h>",
            "*",
            "",
            "<sip:h;method=BYE>",
            "<sip:h?Require=x>",
            "<sip:h?Subject=a%0d%0aVia: b>",
            "<sip:h?Subject>",
            "<sip:h?X%20Y=z>",
        ] {
            assert_eq!(target(bad), None, "{bad}");
        }
    }

    #[test]
    fn places_are_tried_by_preference_and_once() {
        let text = "SIP/2.0 302 Moved\r\nVia: SIP/2.0/UDP a\r\nFrom: <sip:a>\r\nTo: <sip:b>\r\nCall-ID: 1\r\n\
                    CSeq: 1 INVITE\r\nContact: <sip:c@h>;q=0.1, <sip:d@h>;q=0.7\r\n\
                    m: <sip:e@h>;q=0.7, <sip:D@h>, <sip:d@H>, <sip:b@h>\r\nContact: <sip:f@h>\r\n\r\n";
        let response = Received::read(text.as_bytes()).unwrap();
        let mut targets = TargetSet::new(StepNumber(0), "sip:b@h");
        targets.add(&response, &Method::Invite, 10);
        targets.add(&response, &Method::Invite, 10);
        let uris: Vec<_> = targets.left.iter().rev().map(|one| &*one.uri).collect();
        assert_eq!(
            uris,
            ["sip:D@h", "sip:f@h", "sip:d@h", "sip:e@h", "sip:c@h"]
        );
        let mut targets = TargetSet::new(StepNumber(0), "sip:b@h");
        targets.add(&response, &Method::Invite, 2);
        assert_eq!(targets.left.len(), 2);
        let mut targets = TargetSet::new(StepNumber(0), "sips:b@h");
        targets.add(&response, &Method::Invite, 10);
        assert!(targets.left.is_empty());
    }

    proptest! {
        /// Whatever a Contact says, what becomes of it are whole lines.
        #[test]
        fn no_line_can_be_smuggled_in(parts in prop::collection::vec(
            prop::sample::select(vec![
                "<sip:", "a@h", ";method=", "INVITE", "?", "&", "=", "Subject", "%0d", "%0A", "%", "x", ">", ";q=", "\r\n",
            ]),
            0..12,
        )) {
            if let Some((uri, fields, _)) = target(&parts.concat()) {
                prop_assert!(uri.bytes().all(|octet| octet.is_ascii_graphic()));
                for line in fields.split_inclusive("\r\n") {
                    prop_assert!(line.ends_with("\r\n") && line.contains(": "));
                    prop_assert!(!line[..line.len() - 2].contains(['\r', '\n']));
                }
            }
        }
    }
}
