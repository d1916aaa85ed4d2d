//! Where responses go (RFC 3261 section 18.2, RFC 3581 section 4).

use std::net::{IpAddr, SocketAddr};

use crate::{Flow, Host, Message, Target, Transport, Via};

/// Notes in the topmost Via where a request came from: `received` where sent-by does not say it, or
/// `rport` asks for it, and the value of `rport` (RFC 3261 section 18.2.1, RFC 3581 section 4).
pub fn note_source(request: &mut Message, flow: &Flow) {
    request.note_source(flow.remote);
}

/// Whether two addresses are one, whatever else is known of them beside address and port.
pub(super) fn is_same_place(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip(), one.port()) == (other.ip(), other.port())
}

/// The way back to where a request came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseRoute {
    /// How the request came.
    flow: Flow,
    /// Where the response goes unless there is a connection for it: to this port of where the request came from,
    port: u16,
    /// or of this group.
    group: Option<IpAddr>,
}

impl ResponseRoute {
    /// The way back to what sent a message with this Via on top: a request that came along the
    /// flow, or the response to it.
    ///
    /// Of section 18.2.2 one rule is held back: `maddr` is followed only where it is a multicast
    /// address, which is what it is for, or the address that the request came from. To any other
    /// address it would let a single datagram of a stranger aim our responses, and all their
    /// retransmissions, at somebody who never asked.
    pub(super) fn new(flow: &Flow, via: &Via<'_>) -> ResponseRoute {
        let is_unreliable = !flow.transport.is_reliable();
        let port = via.port().unwrap_or(flow.transport.default_port());
        let (port, group) = match via.maddr() {
            Some(Host::Address(maddr)) if is_unreliable && maddr.is_multicast() => {
                (port, Some(maddr))
            }
            _ if is_unreliable && via.has_rport() => (flow.remote.port(), None),
            _ => (port, None),
        };
        ResponseRoute {
            flow: *flow,
            port,
            group,
        }
    }

    fn address(&self) -> SocketAddr {
        if let Some(group) = self.group {
            return SocketAddr::new(group, self.port);
        }
        // Not made anew: a link-local address needs the scope that it came with (RFC 4007).
        let mut source = self.flow.remote;
        source.set_port(self.port);
        source
    }

    /// How the request came.
    pub(super) fn flow(&self) -> &Flow {
        &self.flow
    }

    /// The target of a response.
    pub(super) fn target(&self) -> Target {
        match self.flow.transport {
            // From the socket that the request came to (RFC 3581 section 4).
            Transport::Udp => Target::Flow(Flow {
                remote: self.address(),
                ..self.flow
            }),
            // A browser cannot be connected to.
            Transport::Ws | Transport::Wss => Target::Flow(self.flow),
            Transport::Tcp | Transport::Tls | Transport::Sctp | Transport::TlsSctp => {
                Target::FlowOrAddress(self.flow, self.address())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{ConnectionId, Name};

    fn flow(transport: Transport, remote: &str) -> Flow {
        Flow {
            transport,
            local: "192.0.2.2:5060".parse().expect("an address"),
            remote: remote.parse().expect("an address"),
            connection: ConnectionId(7),
            stream: 0,
        }
    }

    fn noted(via: &str, flow: &Flow) -> String {
        let text = format!("OPTIONS sip:a@b SIP/2.0\r\nVia: {via}\r\n\r\n");
        let mut request = Message::read(Bytes::from(text)).expect("a message");
        note_source(&mut request, flow);
        request.header(Name::Via).expect("a Via").to_owned()
    }

    fn target(via: &str, flow: &Flow) -> Target {
        let via = Via::parse(via.as_bytes()).expect("a Via");
        ResponseRoute::new(flow, &via).target()
    }

    #[test]
    fn received_is_added_where_sent_by_does_not_say_it() {
        let source = flow(Transport::Udp, "192.0.2.4:40000");
        for (via, expected) in [
            // The example of RFC 3261 section 18.2.1.
            (
                "SIP/2.0/UDP bobspc.biloxi.com:5060",
                "SIP/2.0/UDP bobspc.biloxi.com:5060;received=192.0.2.4",
            ),
            (
                "SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK1",
                "SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK1;received=192.0.2.4",
            ),
            (
                "SIP/2.0/UDP 192.0.2.4:5060;branch=z9hG4bK1",
                "SIP/2.0/UDP 192.0.2.4:5060;branch=z9hG4bK1",
            ),
            // What a client says of itself is no use.
            (
                "SIP/2.0/UDP 192.0.2.4:5060;received=203.0.113.1",
                "SIP/2.0/UDP 192.0.2.4:5060;received=192.0.2.4",
            ),
        ] {
            assert_eq!(noted(via, &source), expected);
        }
    }

    /// The example of RFC 3581 section 6.
    #[test]
    fn rport_is_filled_in_and_brings_received_with_it() {
        let source = flow(Transport::Udp, "192.0.2.1:9988");
        let via = noted(
            "SIP/2.0/UDP 10.1.1.1:4540;rport;branch=z9hG4bKkjshdyff",
            &source,
        );
        let parsed = Via::parse(via.as_bytes()).expect("a Via");
        assert_eq!(parsed.rport(), Some(9988));
        assert_eq!(parsed.received(), Some([192, 0, 2, 1].into()));

        let same = noted("SIP/2.0/UDP 192.0.2.1:9988;rport", &source);
        assert!(same.contains("received=192.0.2.1"), "{same}");
        // The parameter is not for UDP alone.
        let tcp = noted(
            "SIP/2.0/TCP 10.1.1.1;rport",
            &flow(Transport::Tcp, "192.0.2.1:9988"),
        );
        assert!(tcp.contains("rport=9988"), "{tcp}");
    }

    #[test]
    fn ipv6_addresses_stand_without_brackets_and_mapped_ones_as_ipv4() {
        let via = noted(
            "SIP/2.0/UDP host.example.com",
            &flow(Transport::Udp, "[2001:db8::9]:5060"),
        );
        assert!(via.ends_with(";received=2001:db8::9"), "{via}");
        let via = noted(
            "SIP/2.0/UDP 192.0.2.4",
            &flow(Transport::Udp, "[::ffff:192.0.2.4]:5060"),
        );
        assert_eq!(via, "SIP/2.0/UDP 192.0.2.4");
    }

    #[test]
    fn responses_over_udp() {
        let source = flow(Transport::Udp, "192.0.2.1:9988");
        for (via, address) in [
            ("SIP/2.0/UDP 10.1.1.1:4540;rport", "192.0.2.1:9988"),
            ("SIP/2.0/UDP 10.1.1.1:4540;rport=9988", "192.0.2.1:9988"),
            ("SIP/2.0/UDP 10.1.1.1:4540", "192.0.2.1:4540"),
            ("SIP/2.0/UDP host.example.com", "192.0.2.1:5060"),
            (
                "SIP/2.0/UDP h.example.com:7000;maddr=239.255.255.1;rport",
                "239.255.255.1:7000",
            ),
            (
                "SIP/2.0/UDP h.example.com;maddr=239.255.255.1",
                "239.255.255.1:5060",
            ),
            (
                "SIP/2.0/UDP h.example.com:7000;maddr=other.example.com",
                "192.0.2.1:7000",
            ),
            // A third party is not shot at.
            (
                "SIP/2.0/UDP h.example.com:7000;maddr=203.0.113.1",
                "192.0.2.1:7000",
            ),
            (
                "SIP/2.0/UDP h.example.com:7000;maddr=192.0.2.1",
                "192.0.2.1:7000",
            ),
        ] {
            let remote = address.parse().expect("an address");
            let expected = Target::Flow(Flow { remote, ..source });
            assert_eq!(target(via, &source), expected, "{via}");
        }
    }

    #[test]
    fn a_link_local_source_keeps_its_scope() {
        let source = flow(Transport::Udp, "[fe80::9%7]:9988");
        let remote = "[fe80::9%7]:4540".parse().expect("an address");
        assert_eq!(
            target("SIP/2.0/UDP [fe80::9]:4540", &source),
            Target::Flow(Flow { remote, ..source })
        );
    }

    #[test]
    fn responses_over_connections() {
        for (transport, port) in [
            (Transport::Tcp, 5060),
            (Transport::Tls, 5061),
            (Transport::Sctp, 5060),
            (Transport::TlsSctp, 5061),
        ] {
            let source = flow(transport, "192.0.2.1:9988");
            let way = |port| Target::FlowOrAddress(source, ([192, 0, 2, 1], port).into());
            let via = format!("SIP/2.0/{} h.example.com", transport.via_name());
            assert_eq!(target(&via, &source), way(port));
            let via = format!("{via}:7000;rport=9988;maddr=239.255.255.1");
            assert_eq!(target(&via, &source), way(7000));
        }
        let browser = flow(Transport::Ws, "192.0.2.1:9988");
        let via = "SIP/2.0/WS df7jal23ls0d.invalid";
        assert_eq!(target(via, &browser), Target::Flow(browser));
    }
}
