//! URIs (RFC 3261 section 19.1, RFC 3966).

mod escape;
mod host;
mod parameters;
mod plain;
mod tel;

use std::fmt;

use crate::lexer::Lexer;
use crate::syntax::{self, PASSWORD, URI, USER, find_any, split_once};

pub use host::Host;
pub(crate) use host::parse_host_and_port;
pub use parameters::UriParameters;
pub(crate) use plain::{PlainHost, PlainUri, SCHEME, parameters_end};
pub use tel::TelUri;

use host::HostPortError;

/// Why a text is not a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// No scheme and colon at its beginning, or nothing behind them.
    #[error("URI without a scheme")]
    Scheme,
    /// The host is missing or is no host.
    #[error("URI with a malformed host")]
    Host,
    /// The port is not a number below 65,536.
    #[error("URI with a malformed port")]
    Port,
    /// A character that must be escaped, a malformed escape, or an empty part.
    #[error("URI with a malformed part")]
    Malformed,
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

impl Scheme<'_> {
    /// The name, in lower case where it is a known one.
    pub fn as_str(&self) -> &str {
        match self {
            Scheme::Sip => "sip",
            Scheme::Sips => "sips",
            Scheme::Tel => "tel",
            Scheme::Other(name) => name,
        }
    }
}

impl PartialEq for Scheme<'_> {
    fn eq(&self, other: &Scheme<'_>) -> bool {
        self.as_str().eq_ignore_ascii_case(other.as_str())
    }
}

impl Eq for Scheme<'_> {}

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

impl<'a> Uri<'a> {
    /// Parses a URI: the whole text, without angle brackets or white space around it.
    pub fn parse(text: &'a str) -> Result<Uri<'a>, UriError> {
        // As nearly all are.
        if let Some(uri) = SipUri::read_plain(text) {
            return Ok(Uri::Sip(uri));
        }
        Uri::parse_any(text)
    }

    fn parse_any(text: &'a str) -> Result<Uri<'a>, UriError> {
        let (scheme, rest) = split_once(text, b':').ok_or(UriError::Scheme)?;
        if !is_scheme(scheme.as_bytes()) || rest.is_empty() {
            return Err(UriError::Scheme);
        }
        if scheme.eq_ignore_ascii_case("sip") {
            SipUri::parse(text, false, rest).map(Uri::Sip)
        } else if scheme.eq_ignore_ascii_case("sips") {
            SipUri::parse(text, true, rest).map(Uri::Sip)
        } else if !syntax::all(rest.as_bytes(), URI) {
            Err(UriError::Malformed)
        } else if scheme.eq_ignore_ascii_case("tel") {
            Ok(Uri::Tel(TelUri::new(text, rest)))
        } else {
            Ok(Uri::Other(text))
        }
    }

    /// The text that it was parsed from.
    pub fn as_str(&self) -> &'a str {
        match self {
            Uri::Sip(uri) => uri.text,
            Uri::Tel(uri) => uri.as_str(),
            Uri::Other(text) => text,
        }
    }

    /// The scheme.
    pub fn scheme(&self) -> Scheme<'a> {
        match self {
            Uri::Sip(uri) if uri.secure => Scheme::Sips,
            Uri::Sip(_) => Scheme::Sip,
            Uri::Tel(_) => Scheme::Tel,
            Uri::Other(text) => Scheme::Other(text.split(':').next().unwrap_or_default()),
        }
    }

    /// The SIP or SIPS URI that it is, if it is one.
    pub fn as_sip(&self) -> Option<&SipUri<'a>> {
        match self {
            Uri::Sip(uri) => Some(uri),
            Uri::Tel(_) | Uri::Other(_) => None,
        }
    }

    /// Whether two URIs are equivalent (RFC 3261 section 19.1.4; RFC 3966 section 4 for telephone
    /// numbers). URIs of schemes that are not known are when they are the same but for the case of
    /// the scheme.
    pub fn is_equivalent(&self, other: &Uri<'_>) -> bool {
        match (self, other) {
            (Uri::Sip(one), Uri::Sip(other)) => one.is_equivalent(other),
            (Uri::Tel(one), Uri::Tel(other)) => one.is_equivalent(other),
            (Uri::Other(one), Uri::Other(other)) => {
                let (Some((scheme, rest)), Some((other_scheme, other_rest))) =
                    (one.split_once(':'), other.split_once(':'))
                else {
                    return false;
                };
                scheme.eq_ignore_ascii_case(other_scheme) && rest == other_rest
            }
            _ => false,
        }
    }

    /// The canonical form under which a registrar files an address of record (RFC 3261 section 10.3
    /// step 5): without password, parameters and headers, escapes decoded, scheme and host in lower
    /// case. Octets that do not make readable text stay escaped, and so does the percent sign: the
    /// result is fit for a log, and no two addresses share it that differ. URIs other than SIP and
    /// SIPS are returned as they are.
    pub fn address_of_record(&self) -> String {
        match self {
            Uri::Sip(uri) => uri.address_of_record(),
            Uri::Tel(_) | Uri::Other(_) => self.as_str().to_owned(),
        }
    }
}

impl fmt::Display for Uri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
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
    parameters: UriParameters<'a>,
    headers: Option<&'a str>,
}

impl<'a> SipUri<'a> {
    /// Reads a URI that has the usual form.
    #[inline]
    fn read_plain(text: &'a str) -> Option<SipUri<'a>> {
        if !text.starts_with(SCHEME) {
            return None;
        }
        let octets = text.as_bytes();
        let plain = PlainUri::read(&mut Lexer::new(octets), SCHEME.len())?;
        if plain.end != text.len() {
            return None;
        }
        let host = match plain.host.address {
            Some(address) => Host::Address(address.into()),
            None => Host::Name(text.get(plain.host.start..plain.host.end)?),
        };
        Some(SipUri {
            text,
            secure: false,
            user: match plain.user_end {
                Some(end) => Some(text.get(SCHEME.len()..end)?),
                None => None,
            },
            password: None,
            host,
            port: plain.host.port,
            parameters: UriParameters::new(text.get(plain.host.port_end..)?),
            headers: None,
        })
    }

    /// Parses what follows the scheme.
    fn parse(text: &'a str, secure: bool, rest: &'a str) -> Result<SipUri<'a>, UriError> {
        // Semicolons and question marks may stand in the user part, so the "@", which may stand
        // nowhere else, is looked for first.
        let (user, password, rest) = match split_once(rest, b'@') {
            None => (None, None, rest),
            Some((userinfo, rest)) => {
                let (user, password) = match split_once(userinfo, b':') {
                    None => (userinfo, None),
                    Some((user, password)) => (user, Some(password)),
                };
                if user.is_empty()
                    || !syntax::all_or_escaped(user.as_bytes(), USER)
                    || !syntax::all_or_escaped(password.unwrap_or_default().as_bytes(), PASSWORD)
                {
                    return Err(UriError::Malformed);
                }
                (Some(user), password, rest)
            }
        };
        let host_and_port_length = find_any([b';', b'?'], rest.as_bytes()).unwrap_or(rest.len());
        let (host_and_port, behind) = rest.split_at(host_and_port_length);
        let (parameters, headers) = match split_once(behind, b'?') {
            None => (behind, None),
            Some((parameters, headers)) => (parameters, Some(headers)),
        };
        let (host, port) =
            parse_host_and_port(host_and_port, |part| part).map_err(|error| match error {
                HostPortError::Host => UriError::Host,
                HostPortError::Port => UriError::Port,
            })?;
        let parameters = UriParameters::new(parameters);
        if !parameters.are_well_formed() || !headers.is_none_or(parameters::headers_are_well_formed)
        {
            return Err(UriError::Malformed);
        }
        Ok(SipUri {
            text,
            secure,
            user,
            password,
            host,
            port,
            parameters,
            headers,
        })
    }

    /// The text that it was parsed from.
    pub fn as_str(&self) -> &'a str {
        self.text
    }

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
        self.user.map(escape::unescape)
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
    pub fn parameters(&self) -> UriParameters<'a> {
        self.parameters
    }

    /// The value of a URI parameter as written, "" where it has none; `None` where it is not there.
    #[inline(always)]
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.get(name)
    }

    /// What follows the question mark, as written: header fields of a request to be made from the
    /// URI.
    pub fn headers(&self) -> Option<&'a str> {
        self.headers
    }

    /// The URI without its headers, as it may stand in a request line (RFC 3261 section 19.1.1,
    /// Table 1).
    pub fn without_headers(&self) -> &'a str {
        match self.headers {
            Some(headers) => &self.text[..self.text.len() - headers.len() - 1],
            None => self.text,
        }
    }

    /// Whether two URIs are equivalent (RFC 3261 section 19.1.4, with the correction of RFC 5954).
    /// This is not transitive.
    pub fn is_equivalent(&self, other: &SipUri<'_>) -> bool {
        self.secure == other.secure
            && self.host == other.host
            && self.port == other.port
            && are_both_equivalent(self.user, other.user)
            && are_both_equivalent(self.password, other.password)
            && self.parameters.are_equivalent(other.parameters)
            && parameters::headers_are_equivalent(self.headers, other.headers)
    }

    /// As [`Uri::address_of_record`].
    pub fn address_of_record(&self) -> String {
        let mut canonical = String::with_capacity(self.text.len());
        canonical.push_str(if self.secure { "sips:" } else { "sip:" });
        if let Some(user) = self.user {
            escape::write_canonical(user, &mut canonical);
            canonical.push('@');
        }
        let host_start = canonical.len();
        canonical.push_str(&self.host.to_string());
        canonical[host_start..].make_ascii_lowercase();
        if let Some(port) = self.port {
            canonical.push(':');
            canonical.push_str(&port.to_string());
        }
        canonical
    }
}

impl fmt::Display for SipUri<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text)
    }
}

/// Whether both are missing, or both are there and equivalent; with case (users and passwords).
fn are_both_equivalent(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => escape::are_equivalent(one, other, false),
        _ => false,
    }
}

/// `scheme` of RFC 3261 section 25.1.
fn is_scheme(text: &[u8]) -> bool {
    let [first, rest @ ..] = text else {
        return false;
    };
    first.is_ascii_alphabetic()
        && rest
            .iter()
            .all(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'+' | b'-' | b'.'))
}

#[cfg(test)]
mod tests;
