//! The rules that a message has to keep before it is processed (RFC 3261 sections 7, 8.1.1, 8.2,
//! 16.3 and 18.3).

use crate::list::value_length;
use crate::name::NameCode;
use crate::name_addr::{is_plain_address, is_plain_uri};
use crate::start_line::is_version;
use crate::syntax;
use crate::{Message, Method, Name, NameAddr, Uri, Via};

use super::plain_via::PlainVia;
use super::top_via::TopVia;
use super::{Edits, Start, split_cseq};

/// What is wrong with a message that could be read, and how a request is to be answered. A response
/// that breaks a rule is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status} {reason}")]
pub struct Violation {
    /// The status code: 400, 501 or 505.
    pub status: u16,
    /// The reason phrase.
    pub reason: &'static str,
}

/// A 400 with a reason that says what is wrong.
const fn bad_request(reason: &'static str) -> Violation {
    Violation {
        status: 400,
        reason,
    }
}

const MALFORMED_VIA: Violation = bad_request("Malformed Via");

/// The prefix that makes a branch a transaction's name (RFC 3261 section 8.1.1.7).
pub(super) const MAGIC_COOKIE: &[u8] = b"z9hG4bK";

/// The fields that every request and response has once (RFC 3261 section 8.1.1), with what to say of
/// one that has not. Max-Forwards is missing where a client of RFC 2543 sends (section 16.3).
const MANDATORY: [(Name<'static>, &str); 5] = [
    (Name::Via, "Missing Via"),
    (Name::From, "Missing From"),
    (Name::To, "Missing To"),
    (Name::CallId, "Missing Call-ID"),
    (Name::CSeq, "Missing CSeq"),
];

/// The fields that are acted upon and must not be there twice (RFC 3261 section 7.3.1).
const SINGLE: [(Name<'static>, &str); 8] = [
    (Name::From, "Repeated From"),
    (Name::To, "Repeated To"),
    (Name::CallId, "Repeated Call-ID"),
    (Name::CSeq, "Repeated CSeq"),
    (Name::MaxForwards, "Repeated Max-Forwards"),
    (Name::ContentLength, "Repeated Content-Length"),
    (Name::ContentType, "Repeated Content-Type"),
    (Name::Expires, "Repeated Expires"),
];

impl Message {
    /// Checks the rules that a message has to keep before it is processed. What is somebody's
    /// decision is not looked at: schemes, extensions, media types, the time of day.
    pub fn validate(&self) -> Result<(), Violation> {
        // That has been seen while it was read.
        if self.0.is_proved && self.0.edits == Edits::None {
            return Ok(());
        }
        self.check_rules()
    }

    /// [`validate`](Message::validate) for a message of which nothing is known.
    pub(super) fn check_rules(&self) -> Result<(), Violation> {
        self.validate_start_line()?;
        if self.0.flaws.unterminated {
            return Err(bad_request("Header Section Not Ended"));
        }
        if self.0.flaws.line_ends {
            return Err(bad_request("Line Not Ended By CRLF"));
        }
        let found = self.validate_fields()?;
        if let Some((_, reason)) = first_of(&MANDATORY, !found.names) {
            return Err(bad_request(reason));
        }
        if let Some((_, reason)) = first_of(&SINGLE, found.repeated) {
            return Err(bad_request(reason));
        }
        if found.repeated & bit_of(Name::Contact) != 0
            && self.headers(Name::Contact).any(|value| value == b"*")
        {
            return Err(bad_request("Misplaced * In Contact"));
        }
        // A branch of nothing but the cookie names no transaction (RFC 4475 section 3.2.1).
        let has_branch = |branch| {
            let known = self.0.seen.top_via.known();
            known.is_some_and(|via| via.branch(self) == Some(branch))
        };
        if self.is_request() && has_branch(MAGIC_COOKIE) {
            return Err(bad_request("Empty Branch"));
        }
        Ok(())
    }

    /// Checks the fields one by one. Returns which known names there are.
    fn validate_fields(&self) -> Result<Found, Violation> {
        let mut found = Found::default();
        for field in self.0.fields.iter() {
            if field.name == NameCode::MALFORMED {
                return Err(bad_request("Malformed Header Field"));
            }
            let Some(name) = Name::KNOWN.get(field.name.ordinal()) else {
                continue;
            };
            let bit = field.name.bit();
            if bit & ACTED_UPON == 0 {
                continue;
            }
            let value = self.value_of(field);
            if found.names & bit == 0 && field.name == Name::Via.code() {
                self.validate_first_vias(value)?;
            } else {
                self.validate_value(name, value)?;
            }
            found.repeated |= found.names & bit;
            found.names |= bit;
        }
        Ok(found)
    }

    /// Checks the first field of Via values. The topmost is parsed for all who will ask for it.
    fn validate_first_vias(&self, values: &[u8]) -> Result<(), Violation> {
        let known = self.0.seen.top_via.of(self);
        let at_a_glance = known.and_then(TopVia::well_formed_length);
        let is_first_well_formed = || {
            let via = self.top_via();
            via.is_some_and(|via| via.parameters().are_well_formed())
        };
        let (first, others) = values.split_at(at_a_glance.unwrap_or_else(|| value_length(values)));
        let is_well_formed = !syntax::trim(first).is_empty()
            && (at_a_glance.is_some() || is_first_well_formed())
            && match others {
                [_comma, others @ ..] => are_vias(others),
                [] => true,
            };
        match is_well_formed {
            true => Ok(()),
            false => Err(MALFORMED_VIA),
        }
    }

    /// Checks a value that is acted upon.
    fn validate_value(&self, name: &Name<'_>, value: &[u8]) -> Result<(), Violation> {
        let (is_well_formed, reason) = match name {
            Name::Via => (are_vias(value), MALFORMED_VIA.reason),
            Name::From => (is_address(value), "Malformed From"),
            Name::To => (is_address(value), "Malformed To"),
            Name::CSeq => return self.validate_cseq(value),
            Name::CallId => (
                !value.is_empty() && syntax::all(value, syntax::CALL_ID),
                "Malformed Call-ID",
            ),
            Name::MaxForwards => (
                syntax::number::<u8>(value).is_some(),
                "Malformed Max-Forwards",
            ),
            // Section 10.2.2.
            Name::Contact if value == b"*" => (
                self.method() == Some(&Method::Register),
                "Misplaced * In Contact",
            ),
            Name::Contact => (are_addresses(value), "Malformed Contact"),
            Name::Route => (are_routes(value), "Malformed Route"),
            Name::RecordRoute => (are_routes(value), "Malformed Record-Route"),
            Name::ContentLength => return self.validate_content_length(value),
            _ => return Ok(()),
        };
        if is_well_formed {
            Ok(())
        } else {
            Err(bad_request(reason))
        }
    }

    /// `Method SP Request-URI SP SIP-Version CRLF` or `SIP-Version SP Status-Code SP Reason-Phrase
    /// CRLF` (section 7.1 and 7.2), the version being ours.
    fn validate_start_line(&self) -> Result<(), Violation> {
        let line = without_line_end(self.text(self.0.start_line));
        if let Start::Response { status, .. } = self.0.start
            && line.starts_with(b"SIP/2.0 ")
            && (100..=699).contains(&status)
        {
            return Ok(());
        }
        if self.has_plain_request_line(line) {
            return Ok(());
        }
        let mut words = line.split(|&octet| octet == b' ');
        let version = match self.0.start {
            Start::Request { .. } => words.clone().rfind(|word| is_version(word)),
            Start::Response { .. } => words.next(),
        };
        if !version.is_some_and(|version| version.eq_ignore_ascii_case(b"SIP/2.0")) {
            return Err(Violation {
                status: 505,
                reason: "Version Not Supported",
            });
        }
        match &self.0.start {
            Start::Response { status, .. } => {
                if !(100..=699).contains(status) {
                    return Err(bad_request("Status Code Out Of Range"));
                }
            }
            Start::Request { method, .. } => {
                // A method that is known is a token.
                let is_token = match method {
                    Method::Other(name) => syntax::is_token(name.as_bytes()),
                    _ => true,
                };
                if words.count() != 3 || !is_token {
                    return Err(bad_request("Malformed Request-Line"));
                }
                match self.parse_request_uri() {
                    None => return Err(bad_request("Malformed Request-URI")),
                    Some(Uri::Sip(uri)) if uri.headers().is_some() => {
                        // Section 19.1.1, Table 1.
                        return Err(bad_request("Headers In Request-URI"));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Whether a request line is as nearly all are: a known method, a plain SIP URI, and our version, with a
    /// space between them.
    fn has_plain_request_line(&self, line: &[u8]) -> bool {
        let Start::Request { method, uri, .. } = &self.0.start else {
            return false;
        };
        let start = uri.start.wrapping_sub(self.0.start_line.start) as usize;
        let end = uri.end.wrapping_sub(self.0.start_line.start) as usize;
        !matches!(method, Method::Other(_))
            && start == method.as_str().len() + 1
            && line.get(end..) == Some(b" SIP/2.0")
            && line.get(start..end).is_some_and(is_plain_uri)
    }

    /// A number below 2^31 and the method of the request (section 8.1.1.5).
    fn validate_cseq(&self, value: &[u8]) -> Result<(), Violation> {
        let Some((number, cseq_method)) = split_cseq(value) else {
            return Err(bad_request("Malformed CSeq"));
        };
        let number: Option<u32> = syntax::number(number);
        if number.is_none_or(|number| number >= 1 << 31) || !syntax::is_token(cseq_method) {
            return Err(bad_request("Malformed CSeq"));
        }
        match self.method() {
            Some(method) if method.as_str().as_bytes() != cseq_method => Err(match method {
                // RFC 4475 section 3.1.2.18 prefers this to a 400.
                Method::Other(_) => Violation {
                    status: 501,
                    reason: "Not Implemented",
                },
                _ => bad_request("CSeq Method Does Not Match"),
            }),
            _ => Ok(()),
        }
    }

    /// What Content-Length announces has arrived (section 18.3).
    fn validate_content_length(&self, value: &[u8]) -> Result<(), Violation> {
        match syntax::number::<usize>(value) {
            None => Err(bad_request("Malformed Content-Length")),
            Some(length) if length > self.body().len() => {
                Err(bad_request("Body Shorter Than Content-Length"))
            }
            Some(_) => Ok(()),
        }
    }
}

/// Known names that were found, a [bit](NameCode::bit) each.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    names: u64,
    /// Those found more than once.
    repeated: u64,
}

const fn bit_of(name: Name<'static>) -> u64 {
    NameCode::of_known(name).bit()
}

/// The names of the fields that are there once or more.
pub(super) const IS_THERE: u64 = bits_of(&MANDATORY);

/// The names of the fields that are not there twice.
pub(super) const IS_ONCE: u64 = bits_of(&SINGLE);

/// The names of the fields that are looked at.
pub(super) const ACTED_UPON: u64 =
    IS_THERE | IS_ONCE | bit_of(Name::Contact) | bit_of(Name::Route) | bit_of(Name::RecordRoute);

const fn bits_of(names: &[(Name<'static>, &str)]) -> u64 {
    let mut bits = 0;
    let mut at = 0;
    while at < names.len() {
        bits |= bit_of(names[at].0);
        at += 1;
    }
    bits
}

/// The first name of a list that is among these.
fn first_of(
    list: &[(Name<'static>, &'static str)],
    names: u64,
) -> Option<(Name<'static>, &'static str)> {
    let mut all = list.iter().copied();
    all.find(|(name, _)| names & bit_of(*name) != 0)
}

fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Whether a list has at least one value, none of them empty, and each keeps to a rule.
fn list_is_well_formed(list: &[u8], is_well_formed: impl Fn(&[u8]) -> bool) -> bool {
    let mut rest = list;
    loop {
        let (value, behind) = rest.split_at(value_length(rest));
        if !is_well_formed(syntax::trim(value)) {
            return false;
        }
        match behind {
            [_comma, behind @ ..] => rest = behind,
            [] => return true,
        }
    }
}

fn are_vias(list: &[u8]) -> bool {
    PlainVia::is_all_of(list) || list_is_well_formed(list, is_via)
}

fn is_via(value: &[u8]) -> bool {
    Via::parse(value).is_ok_and(|via| via.parameters().are_well_formed())
}

fn is_address(value: &[u8]) -> bool {
    is_plain_address(value) || NameAddr::parse(value).is_ok_and(|address| address.is_well_formed())
}

fn is_route(value: &[u8]) -> bool {
    is_plain_address(value)
        || NameAddr::parse(value)
            .is_ok_and(|route| route.is_in_brackets() && route.is_well_formed())
}

/// Whether a list is well-formed whose values are addresses. Most have one.
fn are_addresses(list: &[u8]) -> bool {
    is_plain_address(list) || list_is_well_formed(list, is_address)
}

/// As [`are_addresses`], for those that stand in angle brackets.
fn are_routes(list: &[u8]) -> bool {
    is_plain_address(list) || list_is_well_formed(list, is_route)
}
