//! URIs (RFC 3261 section 19.1).

use std::fmt;
use std::net::IpAddr;

use crate::Parameters;

/// Why a text is not a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// No scheme and colon at its beginning.
    #[error("URI without a scheme")]
    Scheme,
    /// The host is missing or has octets that no host has.
    #[error("URI with a malformed host")]
    Host,
    /// The port is not a number below 65,536.
    #[error("URI with a malformed port")]
    Port,
    /// White space, control characters, angle brackets, or a malformed user, parameter or header.
    #[error("URI with a character that must be escaped")]
    Character,
}

/// The scheme of a URI.
#[derive(Clone, Copy, Debug)]
pub enum Scheme<'a> {
    /// `sip:`
    Sip,
    /// `sips:`
    Sips,
    /// `tel:` (RFC 3966)
    Tel,
    /// Any other, as written.
    Other(&'a str),
}

/// The host in a URI or a Via.
#[derive(Clone, Copy, Debug)]
pub enum Host<'a> {
    /// A domain name.
    Name(&'a str),
    /// An IPv4 address, or an IPv6 reference (in brackets when written; RFC 5954).
    Address(IpAddr),
}

/// A URI, borrowed from the message that it stands in.
#[derive(Clone, Copy, Debug)]
pub enum Uri<'a> {
    /// A SIP or SIPS URI (RFC 3261 section 19.1.1).
    Sip(SipUri<'a>),
    /// A telephone number (RFC 3966).
    Tel(TelUri<'a>),
    /// A URI of another scheme, carried through as it is.
    Other(&'a str),
}

/// A SIP or SIPS URI (RFC 3261 section 19.1.1).
#[derive(Clone, Copy, Debug)]
pub struct SipUri<'a> {
    text: &'a str,
    secure: bool,
    user: Option<&'a str>,
    password: Option<&'a str>,
    host: Host<'a>,
    port: Option<u16>,
    parameters: Parameters<'a>,
    headers: Option<&'a str>,
}

/// A `tel:` URI (RFC 3966).
#[derive(Clone, Copy, Debug)]
pub struct TelUri<'a> {
    text: &'a str,
}

impl<'a> Uri<'a> {
    /// Parses a URI: the whole text, without angle brackets or surrounding white space.
    pub fn parse(_text: &'a str) -> Result<Uri<'a>, UriError> {
        todo!()
    }

    /// The text that it was parsed from.
    pub fn as_str(&self) -> &'a str {
        match self {
            Uri::Sip(uri) => uri.text,
            Uri::Tel(uri) => uri.text,
            Uri::Other(text) => text,
        }
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme<'a> {
        todo!()
    }

    /// The SIP or SIPS URI that it is, if it is one.
    pub fn as_sip(&self) -> Option<&SipUri<'a>> {
        match self {
            Uri::Sip(uri) => Some(uri),
            _ => None,
        }
    }

    /// Whether two URIs are equivalent (RFC 3261 section 19.1.4, RFC 3966 section 4 for telephone
    /// numbers; other schemes octet by octet but for the scheme).
    pub fn is_equivalent(&self, _other: &Uri<'_>) -> bool {
        todo!()
    }

    /// The canonical form under which a registrar files an address of record: without parameters,
    /// headers and password, escapes decoded, host in lower case (RFC 3261 section 10.3 step 5).
    pub fn address_of_record(&self) -> String {
        todo!()
    }
}

impl<'a> SipUri<'a> {
    /// Whether the scheme is `sips`.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// The user part as written, escapes included.
    pub fn user(&self) -> Option<&'a str> {
        self.user
    }

    /// The user part with its escapes decoded: octets, since an escape can stand for any.
    pub fn user_unescaped(&self) -> Option<Vec<u8>> {
        todo!()
    }

    /// The password as written.
    pub fn password(&self) -> Option<&'a str> {
        self.password
    }

    /// The host.
    pub fn host(&self) -> Host<'a> {
        self.host
    }

    /// The port, where one is written.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The URI parameters.
    pub fn parameters(&self) -> Parameters<'a> {
        self.parameters
    }

    /// The value of a URI parameter, "" where it has none; `None` where it is not there.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.get(name)
    }

    /// What follows the question mark, as written.
    pub fn headers(&self) -> Option<&'a str> {
        self.headers
    }
}

impl fmt::Display for Uri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Host<'_> {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}
