//! The names of header fields.

use std::fmt;

/// Declares [`Name`] and its tables from one list: variant, name, compact form, documentation.
macro_rules! names {
    ($($variant:ident, $name:literal, $compact:expr, $doc:literal;)*) => {
        /// The name of a header field. Names are compared without case, and a compact form is the
        /// same name (RFC 3261 section 7.3.3).
        #[derive(Clone, Copy, Debug)]
        pub enum Name<'a> {
            $(#[doc = $doc] $variant,)*
            /// Any other name, as written.
            Other(&'a str),
        }

        impl Name<'_> {
            /// Every name that has a variant of its own, in the order of their codes.
            pub(crate) const KNOWN: &'static [Name<'static>] = &[$(Name::$variant),*];

            /// The name as this library writes it: the long form.
            pub const fn as_str(&self) -> &str {
                match self {
                    $(Name::$variant => $name,)*
                    Name::Other(name) => name,
                }
            }

        }

        /// The long and the compact form of each known name.
        const SPELLINGS: &[(&str, Option<u8>)] = &[$(($name, $compact)),*];

        /// One number for each known name: what an index stores.
        #[derive(Clone, Copy)]
        #[repr(u8)]
        enum Ordinal { $($variant,)* }

        impl Name<'_> {
            /// The number under which an index files this name.
            #[inline(always)]
            pub(crate) fn code(&self) -> NameCode {
                match self {
                    $(Name::$variant => NameCode(Ordinal::$variant as u8),)*
                    Name::Other(name) => NameCode::of(name.as_bytes()),
                }
            }
        }

        impl NameCode {
            /// The code of a known name, for constants.
            pub(crate) const fn of_known(name: Name<'static>) -> NameCode {
                match name {
                    $(Name::$variant => NameCode(Ordinal::$variant as u8),)*
                    Name::Other(_) => NameCode::OTHER,
                }
            }
        }
    };
}

names! {
    Accept, "Accept", None, "Accept (RFC 3261 section 20.1).";
    AcceptEncoding, "Accept-Encoding", None, "Accept-Encoding (RFC 3261 section 20.2).";
    AcceptLanguage, "Accept-Language", None, "Accept-Language (RFC 3261 section 20.3).";
    AlertInfo, "Alert-Info", None, "Alert-Info (RFC 3261 section 20.4).";
    Allow, "Allow", None, "Allow (RFC 3261 section 20.5).";
    AllowEvents, "Allow-Events", Some(b'u'), "Allow-Events (RFC 6665 section 8.2.2).";
    AuthenticationInfo, "Authentication-Info", None, "Authentication-Info (RFC 3261 section 20.6).";
    Authorization, "Authorization", None, "Authorization (RFC 3261 section 20.7).";
    CallId, "Call-ID", Some(b'i'), "Call-ID (RFC 3261 section 20.8).";
    CallInfo, "Call-Info", None, "Call-Info (RFC 3261 section 20.9).";
    Contact, "Contact", Some(b'm'), "Contact (RFC 3261 section 20.10).";
    ContentDisposition, "Content-Disposition", None, "Content-Disposition (RFC 3261 section 20.11).";
    ContentEncoding, "Content-Encoding", Some(b'e'), "Content-Encoding (RFC 3261 section 20.12).";
    ContentLanguage, "Content-Language", None, "Content-Language (RFC 3261 section 20.13).";
    ContentLength, "Content-Length", Some(b'l'), "Content-Length (RFC 3261 section 20.14).";
    ContentType, "Content-Type", Some(b'c'), "Content-Type (RFC 3261 section 20.15).";
    CSeq, "CSeq", None, "CSeq (RFC 3261 section 20.16).";
    Date, "Date", None, "Date (RFC 3261 section 20.17).";
    ErrorInfo, "Error-Info", None, "Error-Info (RFC 3261 section 20.18).";
    Event, "Event", Some(b'o'), "Event (RFC 6665 section 8.2.1).";
    Expires, "Expires", None, "Expires (RFC 3261 section 20.19).";
    FlowTimer, "Flow-Timer", None, "Flow-Timer (RFC 5626 section 10).";
    From, "From", Some(b'f'), "From (RFC 3261 section 20.20).";
    InReplyTo, "In-Reply-To", None, "In-Reply-To (RFC 3261 section 20.21).";
    MaxBreadth, "Max-Breadth", None, "Max-Breadth (RFC 5393 section 5.3.2).";
    MaxForwards, "Max-Forwards", None, "Max-Forwards (RFC 3261 section 20.22).";
    MimeVersion, "MIME-Version", None, "MIME-Version (RFC 3261 section 20.24).";
    MinExpires, "Min-Expires", None, "Min-Expires (RFC 3261 section 20.23).";
    MinSe, "Min-SE", None, "Min-SE (RFC 4028 section 5).";
    Organization, "Organization", None, "Organization (RFC 3261 section 20.25).";
    PAssertedIdentity, "P-Asserted-Identity", None, "P-Asserted-Identity (RFC 3325 section 9.1).";
    PPreferredIdentity, "P-Preferred-Identity", None, "P-Preferred-Identity (RFC 3325 section 9.2).";
    Path, "Path", None, "Path (RFC 3327 section 4).";
    Priority, "Priority", None, "Priority (RFC 3261 section 20.26).";
    Privacy, "Privacy", None, "Privacy (RFC 3323 section 4.2).";
    ProxyAuthenticate, "Proxy-Authenticate", None, "Proxy-Authenticate (RFC 3261 section 20.27).";
    ProxyAuthorization, "Proxy-Authorization", None, "Proxy-Authorization (RFC 3261 section 20.28).";
    ProxyRequire, "Proxy-Require", None, "Proxy-Require (RFC 3261 section 20.29).";
    RAck, "RAck", None, "RAck (RFC 3262 section 7.2).";
    Reason, "Reason", None, "Reason (RFC 3326 section 2).";
    RecordRoute, "Record-Route", None, "Record-Route (RFC 3261 section 20.30).";
    ReferTo, "Refer-To", Some(b'r'), "Refer-To (RFC 3515 section 2.1).";
    Replaces, "Replaces", None, "Replaces (RFC 3891 section 6.1).";
    ReplyTo, "Reply-To", None, "Reply-To (RFC 3261 section 20.31).";
    Require, "Require", None, "Require (RFC 3261 section 20.32).";
    RetryAfter, "Retry-After", None, "Retry-After (RFC 3261 section 20.33).";
    Route, "Route", None, "Route (RFC 3261 section 20.34).";
    RSeq, "RSeq", None, "RSeq (RFC 3262 section 7.1).";
    Server, "Server", None, "Server (RFC 3261 section 20.35).";
    ServiceRoute, "Service-Route", None, "Service-Route (RFC 3608 section 5).";
    SessionExpires, "Session-Expires", Some(b'x'), "Session-Expires (RFC 4028 section 4).";
    SipEtag, "SIP-ETag", None, "SIP-ETag (RFC 3903 section 11.3.1).";
    SipIfMatch, "SIP-If-Match", None, "SIP-If-Match (RFC 3903 section 11.3.2).";
    Subject, "Subject", Some(b's'), "Subject (RFC 3261 section 20.36).";
    SubscriptionState, "Subscription-State", None, "Subscription-State (RFC 6665 section 8.2.3).";
    Supported, "Supported", Some(b'k'), "Supported (RFC 3261 section 20.37).";
    Timestamp, "Timestamp", None, "Timestamp (RFC 3261 section 20.38).";
    To, "To", Some(b't'), "To (RFC 3261 section 20.39).";
    Unsupported, "Unsupported", None, "Unsupported (RFC 3261 section 20.40).";
    UserAgent, "User-Agent", None, "User-Agent (RFC 3261 section 20.41).";
    Via, "Via", Some(b'v'), "Via (RFC 3261 section 20.42).";
    Warning, "Warning", None, "Warning (RFC 3261 section 20.43).";
    WwwAuthenticate, "WWW-Authenticate", None, "WWW-Authenticate (RFC 3261 section 20.44).";
}

/// What an index keeps of a name: which of the known ones it is, or that it is none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameCode(u8);

impl NameCode {
    /// A name without a variant of its own.
    pub(crate) const OTHER: NameCode = NameCode(u8::MAX);
    /// A line that has no name.
    pub(crate) const MALFORMED: NameCode = NameCode(u8::MAX - 1);

    /// Recognises a name in any case, long or compact.
    pub(crate) fn of(name: &[u8]) -> NameCode {
        let entry = TABLE[slot(name)];
        if entry == EMPTY {
            return NameCode::OTHER;
        }
        let (long, compact) = SPELLINGS[usize::from(entry >> 1)];
        let recognised = if entry & 1 == 0 {
            // Most names are spelled as in the RFC, which is found out faster.
            are_equal(long.as_bytes(), name) || long.as_bytes().eq_ignore_ascii_case(name)
        } else {
            name.len() == 1 && compact == Some(name[0].to_ascii_lowercase())
        };
        if recognised {
            NameCode((entry >> 1) as u8)
        } else {
            NameCode::OTHER
        }
    }

    /// A bit that hardly any other name has, and no other known one that is in use here.
    #[inline(always)]
    pub(crate) const fn bit(self) -> u64 {
        1 << (self.0 % 64)
    }

    /// The place of a known name among [`Name::KNOWN`]; beyond its end for any other.
    pub(crate) fn ordinal(self) -> usize {
        usize::from(self.0)
    }

    /// The known name filed under this code.
    pub(crate) fn name(self) -> Option<Name<'static>> {
        Name::KNOWN.get(usize::from(self.0)).copied()
    }
}

/// Whether two texts are the same. Those of eight to sixteen octets are compared as two words, which
/// may overlap: most names are that short, and a call of `memcmp` takes longer.
#[inline]
pub(crate) fn are_equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    if let (8..=16, Some(first), Some(last)) =
        (one.len(), one.first_chunk::<8>(), one.last_chunk::<8>())
    {
        return other.first_chunk() == Some(first) && other.last_chunk() == Some(last);
    }
    match (one.first_chunk::<4>(), one.last_chunk::<4>()) {
        (Some(first), Some(last)) if one.len() < 8 => {
            other.first_chunk() == Some(first) && other.last_chunk() == Some(last)
        }
        _ => one == other,
    }
}

/// How many slots the table of names has: a power of two, and enough for a hash without collisions.
const SLOTS: usize = 512;
const EMPTY: u16 = u16::MAX;

/// A table of all long and compact names, each in the slot that its hash says: twice the code of the
/// name, plus one for the compact form. It is made by the compiler.
const TABLE: [u16; SLOTS] = {
    let mut table = [EMPTY; SLOTS];
    let mut code = 0;
    while code < SPELLINGS.len() {
        let (long, compact) = SPELLINGS[code];
        insert(&mut table, long.as_bytes(), (code as u16) << 1);
        if let Some(letter) = compact {
            insert(&mut table, &[letter], (code as u16) << 1 | 1);
        }
        code += 1;
    }
    table
};

const fn insert(table: &mut [u16; SLOTS], name: &[u8], entry: u16) {
    let slot = slot(name);
    assert!(
        table[slot] == EMPTY,
        "two names have one slot: choose other factors for the hash"
    );
    table[slot] = entry;
}

/// The slot of a name: its length and three of its letters tell the known ones apart, with factors
/// that were found by trying.
const fn slot(name: &[u8]) -> usize {
    let length = name.len();
    if length == 0 {
        return 0;
    }
    // Setting this bit puts letters in lower case.
    let first = (name[0] | 0x20) as usize;
    let middle = (name[length / 2] | 0x20) as usize;
    let last = (name[length - 1] | 0x20) as usize;
    (length * 54 + first * 35 + middle * 47 + last * 59) % SLOTS
}

impl<'a> Name<'a> {
    /// The name that a text means, in any case, long or compact.
    pub fn parse(text: &'a str) -> Name<'a> {
        NameCode::of(text.as_bytes())
            .name()
            .unwrap_or(Name::Other(text))
    }

    /// Whether one field may hold several values, separated by commas, in the place of several fields
    /// (RFC 3261 section 7.3.1). Names that are not known are taken for such lists.
    pub fn is_list(&self) -> bool {
        match self {
            Name::Accept
            | Name::AcceptEncoding
            | Name::AcceptLanguage
            | Name::AlertInfo
            | Name::Allow
            | Name::AllowEvents
            | Name::CallInfo
            | Name::Contact
            | Name::ContentEncoding
            | Name::ContentLanguage
            | Name::ErrorInfo
            | Name::InReplyTo
            | Name::PAssertedIdentity
            | Name::PPreferredIdentity
            | Name::Path
            | Name::ProxyRequire
            | Name::Reason
            | Name::RecordRoute
            | Name::Require
            | Name::Route
            | Name::ServiceRoute
            | Name::Supported
            | Name::Unsupported
            | Name::Via
            | Name::Warning => true,
            Name::Other(text) => match NameCode::of(text.as_bytes()).name() {
                Some(known) => known.is_list(),
                None => true,
            },
            _ => false,
        }
    }
}

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Name<'_>) -> bool {
        let code = self.code();
        code == other.code()
            && (code != NameCode::OTHER || self.as_str().eq_ignore_ascii_case(other.as_str()))
    }
}

impl Eq for Name<'_> {}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_name_is_recognised_in_any_case() {
        for (name, (long, compact)) in Name::KNOWN.iter().zip(SPELLINGS) {
            assert_eq!(name.as_str(), *long);
            for text in [(*long).to_owned(), long.to_lowercase(), long.to_uppercase()] {
                assert_eq!(NameCode::of(text.as_bytes()), name.code(), "{text}");
                assert_eq!(NameCode::of(text.as_bytes()).name(), Some(*name), "{text}");
            }
            if let Some(letter) = *compact {
                assert_eq!(NameCode::of(&[letter]), name.code());
                assert_eq!(NameCode::of(&[letter.to_ascii_uppercase()]), name.code());
            }
        }
    }

    #[test]
    fn names_are_found_in_few_steps() {
        let longest_run = TABLE.split(|&entry| entry == EMPTY).map(<[u16]>::len).max();
        assert!(longest_run <= Some(4), "{longest_run:?}");
    }

    #[test]
    fn unknown_names_stay_as_they_are() {
        assert_eq!(NameCode::of(b""), NameCode::OTHER);
        assert_eq!(NameCode::of(b"C%6Fntact"), NameCode::OTHER);
        assert_eq!(Name::parse("X-Mine").as_str(), "X-Mine");
        assert_eq!(Name::parse("X-Mine"), Name::Other("x-mine"));
        assert_ne!(Name::parse("X-Mine"), Name::Other("X-Yours"));
        assert_eq!(Name::Other("v"), Name::Via);
        assert!(Name::Other("v").is_list());
    }
}
