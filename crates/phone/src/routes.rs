//! What a URI or an offer says of the way there.

use std::net::{IpAddr, SocketAddr};

use sip::{Host, Transport, Uri};
use sip_net::resolve::Question;

/// What is asked of the resolver for a URI.
pub(crate) fn question(uri: &str, transport: Option<Transport>) -> Option<Question> {
    let uri = Uri::parse(uri).ok()?;
    let uri = uri.as_sip()?;
    let is_secure = uri.is_secure();
    let named = uri
        .parameter("transport")
        .and_then(|name| Transport::from_uri_parameter(name, is_secure));
    let host = match uri.host() {
        Host::Name(name) => name.to_owned(),
        Host::Address(ip) => ip.to_string(),
    };
    Some(Question {
        host,
        port: uri.port(),
        transport: named.or(transport),
        is_secure,
        is_large: false,
        choice: None,
        addresses: Vec::new(),
    })
}

/// Whether requests to a URI are encrypted on their way to the next hop (RFC 3261 section 26.2.2).
pub(crate) fn is_encrypted(uri: &str, transport: Option<Transport>) -> bool {
    question(uri, transport).is_some_and(|question| {
        question.is_secure || question.transport.is_some_and(Transport::is_secure)
    })
}

/// Our address towards a URI's host, as the kernel would choose it.
pub(crate) fn address_towards(uri: &str) -> IpAddr {
    let remote = question(uri, None).and_then(|question| question.host.parse::<IpAddr>().ok());
    local_address(remote.unwrap_or_else(|| IpAddr::from([192, 0, 2, 1])))
}

/// Our address towards the host of an offer's sound.
pub(crate) fn address_of_offer(offer: &[u8]) -> IpAddr {
    let description = sip::sdp::SessionDescription::read(offer).ok();
    let remote = description.and_then(|description| {
        let media = description.media().first()?;
        description.connection(media)?.ip()
    });
    local_address(remote.unwrap_or_else(|| IpAddr::from([192, 0, 2, 1])))
}

fn local_address(remote: IpAddr) -> IpAddr {
    let any: SocketAddr = match remote {
        IpAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        IpAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    // Connecting a datagram socket sends nothing.
    std::net::UdpSocket::bind(any)
        .and_then(|socket| {
            socket.connect((remote, 9))?;
            socket.local_addr()
        })
        .map_or_else(|_| IpAddr::from([127, 0, 0, 1]), |local| local.ip())
}
