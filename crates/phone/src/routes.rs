//! What a URI or an offer says of the way there.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

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

/// The host of a URI, a name or an address.
pub(crate) fn host_of(uri: &str) -> String {
    question(uri, None).map_or_else(String::new, |question| question.host)
}

/// The address of an offer's sound, if it has one.
pub(crate) fn address_of_offer(offer: &[u8]) -> Option<IpAddr> {
    let description = sip::sdp::SessionDescription::read(offer).ok();
    description.and_then(|description| {
        let media = description.media().first()?;
        description.connection(media)?.ip()
    })
}

/// The address of ours from which packets to a host leave, as the kernel chooses it. `None` when there is no way to it.
pub(crate) fn source_towards(remote: IpAddr) -> Option<IpAddr> {
    let any: SocketAddr = match remote {
        IpAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        IpAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    // Connecting a datagram socket sends nothing.
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect((remote, 9)).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

/// The address of ours towards a host.
pub(crate) fn address_towards(remote: IpAddr) -> IpAddr {
    source_towards(remote).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// Whether an address is one of this host's.
pub(crate) fn is_ours(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The address of ours that takes the place of `before` in packets to a host, if another one has to. The kernel may prefer
/// another one without need: a host with IPv6 gets temporary addresses of the same network again and again, and the one
/// before works on (RFC 8981 section 3.4).
pub(crate) fn new_source(remote: IpAddr, before: IpAddr) -> Option<IpAddr> {
    let now = source_towards(remote).filter(|now| *now != before)?;
    let goes_on = is_of_same_network(now, before) && is_ours(before);
    (!goes_on).then_some(now)
}

fn is_of_same_network(one: IpAddr, other: IpAddr) -> bool {
    match (one, other) {
        (IpAddr::V6(one), IpAddr::V6(other)) => one.segments()[..4] == other.segments()[..4],
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_source_is_taken_only_when_there_is_need() {
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        let loopback = at("127.0.0.1");
        assert_eq!(new_source(loopback, loopback), None);
        assert_eq!(new_source(loopback, at("203.0.113.7")), Some(loopback));
        assert!(is_ours(loopback) && !is_ours(at("203.0.113.7")));
        assert!(is_of_same_network(at("2001:db8::1"), at("2001:db8::2:1")));
        assert!(!is_of_same_network(
            at("2001:db8::1"),
            at("2001:db8:0:1::1")
        ));
        assert!(!is_of_same_network(at("10.0.0.1"), at("10.0.0.2")));
    }

    #[test]
    fn hosts_are_read() {
        assert_eq!(host_of("sip:bob@192.0.2.9:5070;transport=tcp"), "192.0.2.9");
        assert_eq!(host_of("sip:bob@example.org"), "example.org");
        let offer = b"v=0\r\no=- 1 1 IN IP4 h\r\ns=-\r\nc=IN IP4 192.0.2.8\r\nt=0 0\r\nm=audio 9 RTP/AVP 0\r\n";
        assert_eq!(address_of_offer(offer), Some([192, 0, 2, 8].into()));
        assert_eq!(address_of_offer(b""), None);
    }
}
