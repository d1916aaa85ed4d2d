//! The rules that a message has to keep before it is processed (RFC 3261 sections 7, 8.1.1, 8.2,
//! 16.3 and 18.3).

use crate::name::NameCode;
use crate::name_addr::{are_well_formed_routes, is_well_formed_address};
use crate::start_line::is_version;
use crate::violation::Violation;
use crate::{Message, Method, Name, Uri, contact, content_length, cseq, syntax, via};

use super::Start;

const fn bad_request(reason: &'static str) -> Violation {
    Violation::bad_request(reason)
}

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
        self.validate_start_line()?;
        if self.0.line_flaws.unterminated {
            return Err(bad_request("Header Section Not Ended"));
        }
        if self.0.line_flaws.line_ends {
            return Err(bad_request("Line Not Ended By CRLF"));
        }
        let found = self.validate_fields()?;
        if let Some((_, reason)) = first_of(&MANDATORY, !found.names) {
            return Err(bad_request(reason));
        }
        if let Some((_, reason)) = first_of(&SINGLE, found.repeated) {
            return Err(bad_request(reason));
        }
        if found.repeated & bit_of(Name::Contact) != 0 {
            contact::check_several(self.headers(Name::Contact))?;
        }
        // A branch of nothing but the cookie names no transaction (RFC 4475 section 3.2.1).
        if self.is_request()
            && self.top_via().and_then(|via| via.branch()) == Some(via::MAGIC_COOKIE)
        {
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
            self.validate_value(name, self.value_of(field))?;
            found.repeated |= found.names & bit;
            found.names |= bit;
        }
        Ok(found)
    }

    /// Checks a value that is acted upon.
    fn validate_value(&self, name: &Name<'_>, value: &[u8]) -> Result<(), Violation> {
        let (is_well_formed, reason) = match name {
            Name::Via => (self.are_well_formed_vias(value), "Malformed Via"),
            Name::From => (is_well_formed_address(value), "Malformed From"),
            Name::To => (is_well_formed_address(value), "Malformed To"),
            Name::CSeq => return cseq::check(value, self.method()),
            // Looser than `word`: it is only ever compared, and real ones have more.
            Name::CallId => (
                !value.is_empty() && syntax::all_graphic(value),
                "Malformed Call-ID",
            ),
            Name::MaxForwards => (
                syntax::number::<u8>(value).is_some(),
                "Malformed Max-Forwards",
            ),
            Name::Contact => return contact::check(value, self.method()),
            Name::Route => (are_well_formed_routes(value), "Malformed Route"),
            Name::RecordRoute => (are_well_formed_routes(value), "Malformed Record-Route"),
            Name::ContentLength => return content_length::check(value, self.body().len()),
            _ => return Ok(()),
        };
        if is_well_formed {
            Ok(())
        } else {
            Err(bad_request(reason))
        }
    }

    /// Checks the value of a Via field. The topmost value is parsed once, for all that ask for it later.
    fn are_well_formed_vias(&self, list: &[u8]) -> bool {
        match self.top_via() {
            Some(top) if std::ptr::eq(top.value(), list) => top.is_well_formed(),
            _ => via::is_well_formed(list),
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
        let mut words = line.split(|&octet| octet == b' ');
        let version = match self.0.start {
            Start::Request { .. } => words.rfind(|word| is_version(word)),
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
                let spaces = line.iter().filter(|&&octet| octet == b' ').count();
                if spaces != 2 || !is_token {
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
const IS_THERE: u64 = bits_of(&MANDATORY);

/// The names of the fields that are not there twice.
const IS_ONCE: u64 = bits_of(&SINGLE);

/// The names of the fields that are looked at.
const ACTED_UPON: u64 =
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
