//! Where messages come from and go to, in plain data: what a core says to the driver that owns the
//! sockets.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;

use crate::transaction::TransactionKey;

/// A transport protocol that carries SIP (RFC 3261 section 18, RFC 4168, RFC 7118).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
    /// SCTP (RFC 4168).
    Sctp,
    /// TLS over SCTP (RFC 4168, RFC 3436).
    TlsSctp,
    /// WebSocket (RFC 7118).
    Ws,
    /// WebSocket over TLS (RFC 7118).
    Wss,
}

impl Transport {
    /// Every transport, in the order in which listings show them.
    pub const ALL: [Transport; 7] = [
        Transport::Udp,
        Transport::Tcp,
        Transport::Tls,
        Transport::Sctp,
        Transport::TlsSctp,
        Transport::Ws,
        Transport::Wss,
    ];

    /// Whether the transport delivers without help of SIP's retransmissions: all but UDP
    /// (RFC 3261 section 17).
    pub fn is_reliable(self) -> bool {
        self != Transport::Udp
    }

    /// Whether the hop is encrypted, as a `sips:` URI demands (RFC 3261 section 26.2.2).
    pub fn is_secure(self) -> bool {
        matches!(self, Transport::Tls | Transport::TlsSctp | Transport::Wss)
    }

    /// The port used when none is named: 5060, 5061 over TLS (RFC 3261 section 18.1.1, RFC 4168
    /// section 3), 80 and 443 for WebSocket (RFC 7118 section 5.2.4, RFC 6455 section 3).
    pub fn default_port(self) -> u16 {
        match self {
            Transport::Udp | Transport::Tcp | Transport::Sctp => 5060,
            Transport::Tls | Transport::TlsSctp => 5061,
            Transport::Ws => 80,
            Transport::Wss => 443,
        }
    }

    /// The name by which people and configuration files know it.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
            Transport::Tls => "tls",
            Transport::Sctp => "sctp",
            Transport::TlsSctp => "tls-sctp",
            Transport::Ws => "ws",
            Transport::Wss => "wss",
        }
    }

    /// The name in a Via's sent-protocol (RFC 3261 section 20.42, RFC 4168 section 5, RFC 7118
    /// section 5.2.1).
    pub fn via_name(self) -> &'static str {
        match self {
            Transport::Udp => "UDP",
            Transport::Tcp => "TCP",
            Transport::Tls => "TLS",
            Transport::Sctp => "SCTP",
            Transport::TlsSctp => "TLS-SCTP",
            Transport::Ws => "WS",
            Transport::Wss => "WSS",
        }
    }

    /// The transport that a Via's sent-protocol names, in any case.
    pub fn from_via_name(name: &str) -> Option<Transport> {
        Transport::ALL
            .into_iter()
            .find(|transport| transport.via_name().eq_ignore_ascii_case(name))
    }

    /// The value of a URI's `transport` parameter that leads to this transport (RFC 3261 section
    /// 19.1.1, RFC 7118 section 5.2.4). No RFC names one for TLS over SCTP: it is called as in a Via.
    pub fn uri_parameter(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
            Transport::Tls => "tls",
            Transport::Sctp => "sctp",
            Transport::TlsSctp => "tls-sctp",
            // There is no `transport=wss`: the scheme `sips:` makes it secure.
            Transport::Ws | Transport::Wss => "ws",
        }
    }

    /// The transport that a URI's `transport` parameter leads to, in any case. In a `sips:` URI the
    /// parameter names what TLS runs over (RFC 3261 section 26.2.2), which cannot be UDP.
    pub fn from_uri_parameter(value: &str, secure: bool) -> Option<Transport> {
        let named = Transport::from_via_name(value)?;
        match (named, secure) {
            (Transport::Udp, true) => None,
            (Transport::Tcp, true) => Some(Transport::Tls),
            (Transport::Sctp, true) => Some(Transport::TlsSctp),
            (Transport::Ws, true) => Some(Transport::Wss),
            (named, _) => Some(named),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is none of the transports' names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown transport \"{0}\": one of udp, tcp, tls, sctp, tls-sctp, ws, wss is expected")]
pub struct UnknownTransport(pub String);

impl FromStr for Transport {
    type Err = UnknownTransport;

    /// Reads the name that [`Display`](fmt::Display) writes, in any case.
    fn from_str(name: &str) -> Result<Transport, UnknownTransport> {
        Transport::from_via_name(name).ok_or_else(|| UnknownTransport(name.to_owned()))
    }
}

/// Names a socket (UDP), a connection or an association of the driver, for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// The way along which a message came, and along which others can go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The transport protocol.
    pub transport: Transport,
    /// Our address and port: where the message arrived.
    pub local: SocketAddr,
    /// The peer's address and port as we see them.
    pub remote: SocketAddr,
    /// The driver's socket, connection or association.
    pub connection: ConnectionId,
    /// The SCTP stream; 0 on every other transport.
    pub stream: u16,
}

/// Where a message is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Along this flow and no other way.
    Flow(Flow),
    /// Along this flow; where that is gone, to the address over the same transport (responses,
    /// RFC 3261 section 18.2.2, and requests to who has registered over it).
    FlowOrAddress(Flow, SocketAddr),
    /// To the address, over a connection that is there or a new one.
    Address(Transport, SocketAddr),
}

impl Target {
    /// The transport that the message takes.
    pub fn transport(&self) -> Transport {
        match self {
            Target::Flow(flow) | Target::FlowOrAddress(flow, _) => flow.transport,
            Target::Address(transport, _) => *transport,
        }
    }

    /// The address that the message goes to first.
    pub fn remote(&self) -> SocketAddr {
        match self {
            Target::Flow(flow) | Target::FlowOrAddress(flow, _) => flow.remote,
            Target::Address(_, remote) => *remote,
        }
    }
}

/// Who is expected at the far end of a target's address, beyond the address itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Peer {
    /// The SIP domain that a TLS certificate has to show (RFC 5922 section 7.3): the host that the
    /// next hop's addresses were looked up for. It is also the name that TLS asks for (SNI).
    /// Without one the certificate has to show the address.
    pub name: Option<Box<str>>,
    /// All addresses of a multi-homed SCTP peer, the primary one first. Empty where only the
    /// target's is known.
    pub addresses: Vec<SocketAddr>,
}

/// A message that is to be sent.
#[derive(Clone, Debug)]
pub struct Transmit {
    /// Where to.
    pub target: Target,
    /// Who is expected there; none where the target's address is all that is known.
    pub peer: Option<Arc<Peer>>,
    /// The whole SIP message.
    pub payload: Bytes,
    /// A hash of the Call-ID: what a stream is chosen by where each call has its own.
    pub call: u32,
    /// Which transaction to tell when sending fails.
    pub transaction: Option<TransactionKey>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for transport in Transport::ALL {
            assert_eq!(transport.to_string().parse(), Ok(transport));
            assert_eq!(
                Transport::from_via_name(transport.via_name()),
                Some(transport)
            );
            let parameter = transport.uri_parameter();
            let found = Transport::from_uri_parameter(parameter, transport.is_secure());
            assert_eq!(found, Some(transport), "{parameter}");
        }
        assert_eq!("TLS-sctp".parse(), Ok(Transport::TlsSctp));
        assert_eq!(
            "dccp".parse::<Transport>(),
            Err(UnknownTransport("dccp".to_owned()))
        );
        assert_eq!(
            Transport::from_uri_parameter("UDP", false),
            Some(Transport::Udp)
        );
        assert_eq!(Transport::from_uri_parameter("udp", true), None);
    }
}
