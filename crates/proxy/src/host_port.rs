//! A host with or without a port, as operators write it and as sent-by and URIs carry it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::text::push_decimal;

/// A domain name or an IP address, with or without a port (`hostport`, RFC 3261 section 25.1).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// A domain name in lower case, or an IP address; IPv6 without brackets.
    pub host: String,
    /// The port, where one is named.
    pub port: Option<u16>,
}

impl HostPort {
    /// The IP address that the host is, if it is none that has to be resolved.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Appends what [`Display`](fmt::Display) shows.
    pub(crate) fn push_to(&self, text: &mut String) {
        if self.host.contains(':') {
            text.push('[');
            text.push_str(&self.host);
            text.push(']');
        } else {
            text.push_str(&self.host);
        }
        if let Some(port) = self.port {
            text.push(':');
            push_decimal(text, port.into());
        }
    }
}

impl From<SocketAddr> for HostPort {
    fn from(address: SocketAddr) -> HostPort {
        HostPort {
            host: address.ip().to_string(),
            port: Some(address.port()),
        }
    }
}

impl From<IpAddr> for HostPort {
    fn from(address: IpAddr) -> HostPort {
        HostPort {
            host: address.to_string(),
            port: None,
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.push_to(&mut text);
        f.write_str(&text)
    }
}

/// A text that is no `HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a host: HOST[:PORT] is expected, such as sip.example.com, 192.0.2.1:5060 or [2001:db8::1]:5060"
)]
pub struct HostPortError(String);

impl FromStr for HostPort {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<HostPort, HostPortError> {
        let error = || HostPortError(text.to_owned());
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(address.into());
        }
        if let Some(rest) = text.strip_prefix('[') {
            let (inner, port) = rest.split_once(']').ok_or_else(error)?;
            let address: std::net::Ipv6Addr = inner.parse().map_err(|_| error())?;
            let port = match port.strip_prefix(':') {
                Some(port) => Some(parse_port(port).ok_or_else(error)?),
                None if port.is_empty() => None,
                None => return Err(error()),
            };
            return Ok(HostPort {
                host: address.to_string(),
                port,
            });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Some(parse_port(port).ok_or_else(error)?)),
            None => (text, None),
        };
        if !is_domain_name(host) {
            return Err(error());
        }
        Ok(HostPort {
            host: host.to_ascii_lowercase(),
            port,
        })
    }
}

/// Reads a port that something can listen on.
fn parse_port(text: &str) -> Option<u16> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|port| *port != 0)
}

/// Whether a text has the characters of a domain name or an IPv4 address (`hostname`, RFC 3261
/// section 25.1, and the underscore, which names in use have).
fn is_domain_name(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for text in [
            "example.com",
            "example.com:5070",
            "192.0.2.1",
            "192.0.2.1:5060",
            "[2001:db8::1]",
            "[::1]:5060",
        ] {
            let read: HostPort = text.parse().expect(text);
            assert_eq!(read.to_string(), text);
        }
    }

    #[test]
    fn names_are_compared_without_case_and_addresses_by_value() {
        assert_eq!("Example.COM".parse::<HostPort>(), "example.com".parse());
        assert_eq!("2001:DB8:0::1".parse::<HostPort>(), "[2001:db8::1]".parse());
    }

    #[test]
    fn errors_show_the_text_and_what_is_expected() {
        for text in [
            "",
            ":5060",
            "example.com:",
            "example.com:0",
            "example.com:65536",
            "a b",
            "[::1",
            "[::1]x",
            "[host]:1",
            "a..b",
            "-a",
            "user@host",
        ] {
            let error = text.parse::<HostPort>().expect_err(text).to_string();
            assert!(
                error.contains(&format!("\"{text}\"")) && error.contains("HOST[:PORT]"),
                "{error}"
            );
        }
    }
}
