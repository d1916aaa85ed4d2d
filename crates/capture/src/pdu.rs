//! Messages that were recorded without packets around them: Wireshark's exported PDUs, which
//! `tandem`'s own captures of SIP are, too.

use std::net::IpAddr;

use bytes::Buf;
use sip::Transport;

use crate::{Carrier, Endpoint};

/// A message, and what its tags tell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pdu<'a> {
    pub(crate) source: Endpoint,
    pub(crate) destination: Endpoint,
    pub(crate) carrier: Carrier,
    /// Whether its tags say that it is a message of M3UA.
    pub(crate) is_m3ua: bool,
    pub(crate) octets: &'a [u8],
}

/// Reads the tags before a message. `comment` may name the transport. `None` when they are damaged, or
/// tell no addresses.
pub(crate) fn read<'a>(octets: &'a [u8], comment: &[u8]) -> Option<Pdu<'a>> {
    let mut source = None;
    let mut destination = None;
    let mut ports = [0; 2];
    let mut transport = None;
    let mut is_m3ua = false;
    let mut rest = octets;
    loop {
        let tag = rest.try_get_u16().ok()?;
        let length = rest.try_get_u16().ok()?;
        let value = rest.split_off(..usize::from(length))?;
        match tag {
            END_OF_TAGS => break,
            DISSECTOR_NAME => is_m3ua = value.split(|octet| *octet == 0).next() == Some(b"m3ua"),
            IPV4_SOURCE => source = ipv4(value),
            IPV6_SOURCE => source = ipv6(value),
            IPV4_DESTINATION => destination = ipv4(value),
            IPV6_DESTINATION => destination = ipv6(value),
            SOURCE_PORT => ports[0] = number(value)? as u16,
            DESTINATION_PORT => ports[1] = number(value)? as u16,
            PORT_TYPE => {
                transport = match number(value)? {
                    PORT_SCTP => Some(Transport::Sctp),
                    PORT_TCP => Some(Transport::Tcp),
                    PORT_UDP => Some(Transport::Udp),
                    _ => None,
                }
            }
            _ => {}
        }
    }
    let named = std::str::from_utf8(comment).ok();
    let named = named.and_then(|name| name.trim().parse::<Transport>().ok());
    Some(Pdu {
        source: Endpoint {
            address: source?,
            port: ports[0],
        },
        destination: Endpoint {
            address: destination?,
            port: ports[1],
        },
        carrier: match named.or(transport).unwrap_or(Transport::Udp) {
            Transport::Udp => Carrier::Udp,
            Transport::Tcp => Carrier::Tcp,
            Transport::Tls => Carrier::Tls,
            Transport::Sctp => Carrier::Sctp(None),
            Transport::TlsSctp => Carrier::TlsSctp,
            Transport::Ws => Carrier::Ws,
            Transport::Wss => Carrier::Wss,
        },
        is_m3ua,
        octets: rest,
    })
}

fn ipv4(value: &[u8]) -> Option<IpAddr> {
    Some(IpAddr::from(<[u8; 4]>::try_from(value).ok()?))
}

fn ipv6(value: &[u8]) -> Option<IpAddr> {
    Some(IpAddr::from(<[u8; 16]>::try_from(value).ok()?))
}

fn number(mut value: &[u8]) -> Option<u32> {
    value.try_get_u32().ok()
}

// The tags of LINKTYPE_WIRESHARK_UPPER_PDU.
const END_OF_TAGS: u16 = 0;
const DISSECTOR_NAME: u16 = 12;
const IPV4_SOURCE: u16 = 20;
const IPV4_DESTINATION: u16 = 21;
const IPV6_SOURCE: u16 = 22;
const IPV6_DESTINATION: u16 = 23;
const PORT_TYPE: u16 = 24;
const SOURCE_PORT: u16 = 25;
const DESTINATION_PORT: u16 = 26;

const PORT_SCTP: u32 = 1;
const PORT_TCP: u32 = 2;
const PORT_UDP: u32 = 3;
