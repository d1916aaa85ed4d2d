//! The events of a capture: the interface between the reader and the analysis.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::Sub;
use std::time::Duration;

use media::rtp::RtpPacket;
use sctp::packet::{Packet, Tsn};
use sip::Transport;

use crate::association_name::AssociationEnd;

/// When a packet was captured, by the clock of the machine that captured it.
///
/// Nanoseconds since the beginning of 1970 (UTC); in a text summary, whose times are relative, since
/// the capture began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub i64);

impl Time {
    /// How long after `earlier` this is: zero when it is before it.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(u64::try_from(self - earlier).unwrap_or(0))
    }

    /// The time moved by some nanoseconds, which may be negative.
    #[must_use]
    pub fn moved(self, nanoseconds: i64) -> Time {
        Time(self.0.saturating_add(nanoseconds))
    }
}

/// Nanoseconds from one time to another; negative when the first is the earlier one.
impl Sub for Time {
    type Output = i64;

    fn sub(self, earlier: Time) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// One end of what a message went through: an address and the port of UDP, TCP or SCTP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Endpoint {
    /// The IP address.
    pub address: IpAddr,
    /// The port; 0 where none is known.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.address, self.port).fmt(formatter)
    }
}

/// What carried a SIP message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Carrier {
    /// A UDP datagram.
    Udp,
    /// A TCP connection.
    Tcp,
    /// TLS over TCP, deciphered with the keys of a log, or recorded in the clear.
    Tls,
    /// A user message of SCTP (RFC 4168); where in the association it was is not known of what was recorded
    /// without packets.
    Sctp(Option<UserMessage>),
    /// TLS over SCTP (RFC 3436), deciphered or recorded in the clear.
    TlsSctp,
    /// WebSocket (RFC 7118).
    Ws,
    /// WebSocket over TLS (RFC 7118).
    Wss,
}

impl Carrier {
    /// The transport protocol.
    pub fn transport(self) -> Transport {
        match self {
            Carrier::Udp => Transport::Udp,
            Carrier::Tcp => Transport::Tcp,
            Carrier::Tls => Transport::Tls,
            Carrier::Sctp(_) => Transport::Sctp,
            Carrier::TlsSctp => Transport::TlsSctp,
            Carrier::Ws => Transport::Ws,
            Carrier::Wss => Transport::Wss,
        }
    }
}

/// Where in an association a user message was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UserMessage {
    /// The stream.
    pub stream: u16,
    /// The TSN of its first, or only, fragment.
    pub tsn: Tsn,
    /// Its payload protocol identifier.
    pub payload_protocol: u32,
    /// Into how many DATA or I-DATA chunks it was cut.
    pub fragments: u32,
    /// Whether it was sent without order.
    pub unordered: bool,
    /// Whether the SCTP packets were in UDP (RFC 6951).
    pub encapsulated: bool,
}

/// A message, a packet or a warning, with its place in the capture.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// When the packet was captured that it is in, or that completed it.
    pub time: Time,
    /// The number of the file, as the reader was told.
    pub file: usize,
    /// The number of that packet within its file, from 1 on.
    pub packet: u64,
    /// Who sent it.
    pub source: Endpoint,
    /// Whom it was sent to.
    pub destination: Endpoint,
    /// The message, packet or warning.
    pub kind: EventKind<'a>,
}

/// What an [`Event`] is about.
#[derive(Clone, Copy, Debug)]
pub enum EventKind<'a> {
    /// A SIP message, whole unless the capture has only its beginning.
    Sip {
        /// What carried it.
        carrier: Carrier,
        /// The message.
        octets: &'a [u8],
        /// Whether the capture has only the beginning of it.
        cut: bool,
    },
    /// What a text summary tells of a SIP message.
    SipSummary {
        /// What carried it.
        carrier: Carrier,
        /// What is told.
        summary: SipSummary<'a>,
    },
    /// An M3UA message (RFC 4666).
    M3ua {
        /// Where in the association it was.
        message: UserMessage,
        /// Which end has sent it.
        sender: AssociationEnd,
        /// The message.
        octets: &'a [u8],
    },
    /// A UDP datagram that may be an RTP packet: the session descriptions of calls tell.
    Rtp(RtpPacket<'a>),
    /// An SCTP packet. The user messages that it completes are seen after it.
    Sctp(SctpPacket<'a>),
    /// Something could not be read, or is missing. If it concerns no packet, the addresses are unspecified.
    Warning(Warning),
}

/// An SCTP packet.
#[derive(Clone, Copy, Debug)]
pub struct SctpPacket<'a> {
    /// The packet from its common header on; its ports are those of [`Event::source`] and
    /// [`Event::destination`].
    pub packet: Packet<'a>,
    /// The source and the destination port of the UDP datagram that it was in (RFC 6951).
    pub udp: Option<(u16, u16)>,
    /// Whether the capture has only the beginning of it.
    pub cut: bool,
}

/// What Wireshark's Info column tells of a SIP message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SipSummary<'a> {
    /// The first line.
    pub start: SummaryStart<'a>,
    /// Whether the message has a session description.
    pub has_session_description: bool,
}

/// The first line of a message as a summary tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SummaryStart<'a> {
    /// A request.
    Request {
        /// The method.
        method: &'a str,
        /// The Request-URI.
        uri: &'a str,
    },
    /// A response.
    Response {
        /// The status code.
        status: u16,
        /// The reason phrase.
        reason: &'a str,
        /// The method of the request; only newer versions of Wireshark tell.
        method: Option<&'a str>,
    },
}

/// What could not be read, or is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Warning {
    /// The file is damaged: nothing of it is read from here on.
    #[error("the file is damaged at octet {offset}: {reason}")]
    FileBroken {
        /// Where in the file the broken part begins.
        offset: u64,
        /// What is wrong there.
        reason: &'static str,
    },
    /// A part of the file is damaged, and left out.
    #[error("{octets} octets of the file from octet {offset} on are left out: {reason}")]
    FileSkipped {
        /// Where in the file that part begins.
        offset: u64,
        /// How long it is.
        octets: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Octets of a TCP connection were not captured.
    #[error("{octets} octets of a TCP connection are not in the capture")]
    StreamGap {
        /// How many.
        octets: u64,
    },
    /// A TCP connection, or a TLS or WebSocket connection in it, cannot be followed any more.
    #[error("a connection cannot be followed: {0}")]
    StreamLost(&'static str),
    /// A bound of the reader was reached, and the oldest of what waited for its other parts was left out.
    #[error("too much incomplete data: {0} left out")]
    Dropped(&'static str),
}
