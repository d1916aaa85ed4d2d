//! What single lines say.

use std::fmt;
use std::net::IpAddr;

use super::tokens::{is_number, is_token, parts};

/// Who has made a description (`o=`, RFC 8866 section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The user's name on its host, or "-".
    pub username: &'a str,
    /// With the user and the address the name of the session.
    pub session_id: u64,
    /// Grows by one with each change of the description (RFC 3264 section 8).
    pub session_version: u64,
    /// The host.
    pub address: Connection<'a>,
}

/// A network address (`c=`, RFC 8866 section 5.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection<'a> {
    host: Host<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host<'a> {
    Ip(IpAddr),
    /// Network type, address type, address.
    Other(&'a str, &'a str, &'a str),
}

/// A medium (`m=`, RFC 8866 section 5.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media<'a> {
    /// `audio`, `video`, ...
    pub kind: &'a str,
    /// The first port; 0 in an answer refuses the medium (RFC 3264 section 6).
    pub port: u16,
    /// How many ports there are; 1 where that goes without saying.
    pub ports: u16,
    /// Such as `RTP/AVP`.
    pub protocol: &'a str,
    /// The formats, the preferred first, with spaces between them.
    formats: &'a str,
}

/// What a payload type of RTP means (`a=rtpmap`, RFC 8866 section 6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpMap<'a> {
    /// The number that stands in the packets.
    pub payload_type: u8,
    /// The encoding, without regard to case.
    pub encoding: &'a str,
    /// Ticks of the timestamp a second.
    pub clock_rate: u32,
    /// For audio, how many channels; `None` stands for 1.
    pub parameters: Option<&'a str>,
}

/// Which ways a medium flows, as its sender sees it (RFC 8866 section 6.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Both.
    #[default]
    SendReceive,
    /// From who says so.
    SendOnly,
    /// To who says so.
    ReceiveOnly,
    /// None.
    Inactive,
}

impl<'a> Origin<'a> {
    /// The origin of a session whose user has no name.
    pub fn new(session_id: u64, session_version: u64, address: Connection<'a>) -> Origin<'a> {
        Origin {
            username: "-",
            session_id,
            session_version,
            address,
        }
    }

    pub(super) fn parse(text: &'a str) -> Option<Origin<'a>> {
        let mut parts = parts(text);
        let origin = Origin {
            username: parts.next()?,
            session_id: number(parts.next()?)?,
            session_version: number(parts.next()?)?,
            address: Connection::of_parts(&mut parts)?,
        };
        parts.next().is_none().then_some(origin)
    }
}

impl<'a> Connection<'a> {
    /// An address on the Internet.
    pub fn new(ip: IpAddr) -> Connection<'a> {
        Connection { host: Host::Ip(ip) }
    }

    /// The address, if it is one of a single host: not a name, and no group with its lifetime (`/127`).
    pub fn ip(&self) -> Option<IpAddr> {
        match self.host {
            Host::Ip(ip) => Some(ip),
            Host::Other("IN", "IP4" | "IP6", address) => address.parse().ok(),
            Host::Other(..) => None,
        }
    }

    /// The address as it is written.
    pub fn address(&self) -> String {
        match self.host {
            Host::Ip(ip) => ip.to_string(),
            Host::Other(_, _, address) => address.to_owned(),
        }
    }

    pub(super) fn parse(text: &'a str) -> Option<Connection<'a>> {
        let mut parts = parts(text);
        let connection = Connection::of_parts(&mut parts)?;
        parts.next().is_none().then_some(connection)
    }

    fn of_parts(parts: &mut impl Iterator<Item = &'a str>) -> Option<Connection<'a>> {
        let (network, kind, address) = (parts.next()?, parts.next()?, parts.next()?);
        let are_tokens = is_token(network.as_bytes()) && is_token(kind.as_bytes());
        are_tokens.then_some(Connection {
            host: Host::Other(network, kind, address),
        })
    }
}

impl<'a> Media<'a> {
    /// A medium with these formats, the preferred first, with spaces between them.
    pub fn new(kind: &'a str, port: u16, protocol: &'a str, formats: &'a str) -> Media<'a> {
        Media {
            kind,
            port,
            ports: 1,
            protocol,
            formats,
        }
    }

    /// Audio in RTP with these payload types (RFC 3551).
    pub fn rtp_audio(port: u16, payload_types: &'a str) -> Media<'a> {
        Media::new("audio", port, "RTP/AVP", payload_types)
    }

    /// The formats, the preferred first.
    pub fn formats(&self) -> impl Iterator<Item = &'a str> {
        parts(self.formats)
    }

    /// The formats that are payload types of RTP.
    pub fn payload_types(&self) -> impl Iterator<Item = u8> {
        self.formats().filter_map(number)
    }

    pub(super) fn parse(text: &'a str) -> Option<Media<'a>> {
        let (kind, rest) = split(text)?;
        let (port, rest) = split(rest)?;
        let (protocol, formats) = split(rest)?;
        let (port, ports) = match port.split_once('/') {
            Some((port, ports)) => (number(port)?, number(ports).filter(|ports| *ports > 0)?),
            None => (number(port)?, 1),
        };
        let are_tokens = is_token(kind.as_bytes())
            && protocol.split('/').all(|part| is_token(part.as_bytes()))
            && parts(formats).all(|format| is_token(format.as_bytes()))
            && parts(formats).next().is_some();
        are_tokens.then_some(Media {
            kind,
            port,
            ports,
            protocol,
            formats,
        })
    }
}

impl<'a> RtpMap<'a> {
    pub(super) fn parse(text: &'a str) -> Option<RtpMap<'a>> {
        let (payload_type, rest) = split(text)?;
        let mut parts = rest.splitn(3, '/');
        let map = RtpMap {
            payload_type: number(payload_type)?,
            encoding: parts.next()?,
            clock_rate: number(parts.next()?.trim_end())?,
            parameters: parts.next().map(str::trim_end),
        };
        is_token(map.encoding.as_bytes()).then_some(map)
    }
}

impl Direction {
    /// As the attribute is named.
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::SendReceive => "sendrecv",
            Direction::SendOnly => "sendonly",
            Direction::ReceiveOnly => "recvonly",
            Direction::Inactive => "inactive",
        }
    }

    /// The direction as the other side sees it: what an answer says to it at most (RFC 3264 section 6.1).
    pub fn reversed(self) -> Direction {
        match self {
            Direction::SendOnly => Direction::ReceiveOnly,
            Direction::ReceiveOnly => Direction::SendOnly,
            both_or_none => both_or_none,
        }
    }

    pub(super) fn named(name: &str) -> Option<Direction> {
        [
            Direction::SendReceive,
            Direction::SendOnly,
            Direction::ReceiveOnly,
            Direction::Inactive,
        ]
        .into_iter()
        .find(|direction| direction.as_str() == name)
    }
}

impl fmt::Display for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin {
            username,
            session_id,
            session_version,
            address,
        } = self;
        write!(f, "{username} {session_id} {session_version} {address}")
    }
}

impl fmt::Display for Connection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Host::Ip(IpAddr::V4(ip)) => write!(f, "IN IP4 {ip}"),
            Host::Ip(IpAddr::V6(ip)) => write!(f, "IN IP6 {ip}"),
            Host::Other(network, kind, address) => write!(f, "{network} {kind} {address}"),
        }
    }
}

impl fmt::Display for Media<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.port)?;
        if self.ports != 1 {
            write!(f, "/{}", self.ports)?;
        }
        write!(f, " {}", self.protocol)?;
        self.formats().try_for_each(|format| write!(f, " {format}"))
    }
}

impl fmt::Display for RtpMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RtpMap {
            payload_type,
            encoding,
            clock_rate,
            parameters,
        } = self;
        write!(f, "{payload_type} {encoding}/{clock_rate}")?;
        match parameters {
            Some(parameters) => write!(f, "/{parameters}"),
            None => Ok(()),
        }
    }
}

/// The first part of a value, and the rest.
fn split(text: &str) -> Option<(&str, &str)> {
    let (first, rest) = text.trim_start_matches(' ').split_once(' ')?;
    Some((first, rest.trim_start_matches(' ')))
}

/// Digits and nothing else, within bounds.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    is_number(text.as_bytes()).then(|| text.parse().ok())?
}
