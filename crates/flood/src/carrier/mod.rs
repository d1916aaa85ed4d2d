//! How the packets of a flood go out, and what comes back.

mod bound;
mod forged;

use crate::{Attempt, Kind};
use anyhow::Context;
use bound::{RawSocket, UdpSockets};
use rand_chacha::ChaCha12Rng;
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

pub(crate) use forged::{Forger, SOURCES};

/// What SCTP goes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// UDP, to this port of the target (RFC 6951).
    Udp {
        /// The port.
        port: u16,
    },
    /// IP itself: for those who may open raw sockets.
    Ip,
}

/// Opened for one flood.
pub(crate) enum Carrier {
    /// From addresses that are nobody's, without hearing anything.
    Forged(Box<Forger>, Over),
    Udp(UdpSockets),
    Raw(RawSocket),
}

impl Carrier {
    /// Forged addresses are for INITs alone, and for those who may open raw sockets; otherwise
    /// packets come from ports, and on loopback addresses, of our own.
    pub(crate) fn open(
        kind: Kind,
        target: IpAddr,
        over: Over,
        rng: ChaCha12Rng,
    ) -> anyhow::Result<Carrier> {
        if let (Kind::Init, IpAddr::V4(target)) = (kind, target)
            && let Ok(forger) = Forger::open(target, rng.clone())
        {
            return Ok(Carrier::Forged(Box::new(forger), over));
        }
        Ok(match over {
            Over::Udp { port } => Carrier::Udp(UdpSockets::open(target, port, rng)?),
            Over::Ip => {
                Carrier::Raw(RawSocket::open(target).context("SCTP over IP needs a raw socket")?)
            }
        })
    }

    /// How many addresses it has to send from.
    pub(crate) fn sources(&self) -> usize {
        match self {
            Carrier::Forged(..) => SOURCES,
            Carrier::Udp(sockets) => sockets.sources(),
            Carrier::Raw(_) => 1,
        }
    }

    pub(crate) fn is_forged(&self) -> bool {
        matches!(self, Carrier::Forged(..))
    }

    /// Says whether the kernel took it.
    pub(crate) fn send(&mut self, attempt: &Attempt) -> bool {
        match self {
            Carrier::Forged(forger, over) => forger.send(attempt, *over),
            Carrier::Udp(sockets) => sockets.send(attempt),
            Carrier::Raw(socket) => socket.send(attempt),
        }
    }

    /// Hands over what has come from the target, and says whether there was anything.
    pub(crate) fn receive(&mut self, take: impl FnMut(usize, &[u8])) -> bool {
        match self {
            Carrier::Forged(..) => false,
            Carrier::Udp(sockets) => sockets.receive(take),
            Carrier::Raw(socket) => socket.receive(take),
        }
    }
}

impl fmt::Display for Over {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Over::Udp { .. } => "udp",
            Over::Ip => "ip",
        })
    }
}

impl FromStr for Over {
    type Err = String;

    fn from_str(text: &str) -> Result<Over, String> {
        match text {
            "udp" => Ok(Over::Udp {
                port: ENCAPSULATION_PORT,
            }),
            "ip" => Ok(Over::Ip),
            _ => Err(format!("\"{text}\" is not valid: use udp or ip")),
        }
    }
}

/// RFC 6951 section 4.1.
const ENCAPSULATION_PORT: u16 = 9899;
