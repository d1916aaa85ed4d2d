//! HEP version 3 (EEP), by which SIP servers and agents of Homer send copies of messages.
//!
//! `HEP3`, the length of all, then chunks: vendor, type, length with these six octets, value. The chunks of vendor 0 are the
//! generic ones: <https://github.com/sipcapture/HEP>.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{IpNumber, ip_number};

use crate::{Carrier, Endpoint, Time};

/// A message that was captured elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HepPacket<'a> {
    /// When; `None` where the sender does not tell.
    pub(crate) time: Option<Time>,
    pub(crate) source: Endpoint,
    pub(crate) destination: Endpoint,
    /// The protocol over IP.
    pub(crate) protocol: IpNumber,
    pub(crate) carrier: Carrier,
    pub(crate) payload: &'a [u8],
}

/// As Kamailio writes TLS into the chunk of the protocol: a number that IP has no use for any more.
const TLS: IpNumber = IpNumber(22);

const HEADER: usize = 6;

impl<'a> HepPacket<'a> {
    /// Reads a datagram. `None` where it is damaged, or lacks addresses or a payload.
    pub(crate) fn read(octets: &'a [u8]) -> Option<HepPacket<'a>> {
        let rest = octets.strip_prefix(b"HEP3")?;
        let (length, _) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let mut rest = octets.get(HEADER..length)?;
        let (mut addresses, mut ports) = ([None, None], [0, 0]);
        let (mut seconds, mut microseconds) = (None, 0);
        let (mut protocol, mut payload) = (None, None);
        while !rest.is_empty() {
            let (&[v, w, a, b, c, d], _) = rest.split_first_chunk::<HEADER>()?;
            let length = usize::from(u16::from_be_bytes([c, d]));
            let value = rest.get(HEADER..length)?;
            rest = rest.get(length..)?;
            if [v, w] != [0, 0] {
                continue;
            }
            match u16::from_be_bytes([a, b]) {
                2 => protocol = value.first().map(|number| IpNumber(*number)),
                3 => addresses[0] = v4(value),
                4 => addresses[1] = v4(value),
                5 => addresses[0] = v6(value),
                6 => addresses[1] = v6(value),
                7 => ports[0] = u16::from_be_bytes(value.try_into().ok()?),
                8 => ports[1] = u16::from_be_bytes(value.try_into().ok()?),
                9 => seconds = Some(u32::from_be_bytes(value.try_into().ok()?)),
                10 => microseconds = u32::from_be_bytes(value.try_into().ok()?),
                15 => payload = Some(value),
                _ => {}
            }
        }
        let time = |seconds| i64::from(seconds) * 1_000_000_000 + i64::from(microseconds) * 1000;
        let [source, destination] = addresses;
        let end = |address, port| Endpoint { address, port };
        let protocol = protocol?;
        Some(HepPacket {
            time: seconds.map(|seconds| Time(time(seconds))),
            source: end(source?, ports[0]),
            destination: end(destination?, ports[1]),
            protocol,
            carrier: match protocol {
                ip_number::TCP => Carrier::Tcp,
                ip_number::SCTP => Carrier::Sctp(None),
                TLS => Carrier::Tls,
                _ => Carrier::Udp,
            },
            payload: payload?,
        })
    }
}

fn v4(value: &[u8]) -> Option<IpAddr> {
    let octets: [u8; 4] = value.try_into().ok()?;
    Some(Ipv4Addr::from(octets).into())
}

fn v6(value: &[u8]) -> Option<IpAddr> {
    let octets: [u8; 16] = value.try_into().ok()?;
    Some(Ipv6Addr::from(octets).into())
}
