//! The messages of one worker by what they are, which way they go and over what.

use std::ops::AddAssign;

use sip::{Message, Method, Target, Transmit, Transport};

use crate::core::{METHOD_CLASSES, method_class};

/// A place for each transport.
const TRANSPORTS: usize = Transport::ALL.len();

/// A place for each class of responses, 1xx to 6xx.
pub(crate) const RESPONSE_CLASSES: usize = 6;

/// Messages of one direction, those included that repeat others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Direction {
    /// By [method](method_class) and transport, in the order of [`Transport::ALL`].
    pub(crate) requests: [[u64; TRANSPORTS]; METHOD_CLASSES],
    /// By class, 1xx first, and transport.
    pub(crate) responses: [[u64; TRANSPORTS]; RESPONSE_CLASSES],
}

/// Messages of both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) received: Direction,
    pub(crate) sent: Direction,
}

impl Traffic {
    /// Counts a message that came.
    pub(crate) fn count_received(&mut self, transport: Transport, message: &Message) {
        match (message.method(), message.status()) {
            (Some(method), _) => self.received.request(transport, method_class(method)),
            (None, Some(status)) => self.received.response(transport, status),
            (None, None) => {}
        }
    }

    /// Counts a request that came and was not read.
    pub(crate) fn count_unread(&mut self, transport: Transport, octets: &[u8]) {
        let class = method_class(&method(octets));
        self.received.request(transport, class);
    }

    /// Counts a message that is to go out. It is octets by now, of which the start line tells enough.
    pub(crate) fn count_sent(&mut self, transmit: &Transmit) {
        let transport = match transmit.target {
            Target::Flow(flow) | Target::FlowOrAddress(flow, _) => flow.transport,
            Target::Address(transport, _) => transport,
        };
        let payload: &[u8] = &transmit.payload;
        match payload.strip_prefix(b"SIP/2.0 ") {
            Some(&[hundreds @ b'1'..=b'6', ..]) => {
                self.sent
                    .response(transport, u16::from(hundreds - b'0') * 100);
            }
            Some(_) => {}
            None => {
                let class = method_class(&method(payload));
                self.sent.request(transport, class);
            }
        }
    }
}

impl Direction {
    fn request(&mut self, transport: Transport, class: usize) {
        let counts = self.requests.get_mut(class);
        if let Some(count) = counts.and_then(|counts| counts.get_mut(place(transport))) {
            *count += 1;
        }
    }

    fn response(&mut self, transport: Transport, status: u16) {
        let class = usize::from(status / 100).wrapping_sub(1);
        let counts = self.responses.get_mut(class);
        if let Some(count) = counts.and_then(|counts| counts.get_mut(place(transport))) {
            *count += 1;
        }
    }
}

impl AddAssign<&Traffic> for Traffic {
    fn add_assign(&mut self, other: &Traffic) {
        self.received += &other.received;
        self.sent += &other.sent;
    }
}

impl AddAssign<&Direction> for Direction {
    fn add_assign(&mut self, other: &Direction) {
        let requests = self.requests.iter_mut().flatten();
        for (count, more) in requests.zip(other.requests.iter().flatten()) {
            *count += more;
        }
        let responses = self.responses.iter_mut().flatten();
        for (count, more) in responses.zip(other.responses.iter().flatten()) {
            *count += more;
        }
    }
}

/// The method of a request.
fn method(octets: &[u8]) -> Method {
    let name = octets.split(|octet| *octet == b' ').next();
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    Method::from_name(name.unwrap_or_default())
}

fn place(transport: Transport) -> usize {
    match transport {
        Transport::Udp => 0,
        Transport::Tcp => 1,
        Transport::Tls => 2,
        Transport::Sctp => 3,
        Transport::TlsSctp => 4,
        Transport::Ws => 5,
        Transport::Wss => 6,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use sip::{ConnectionId, Flow, Name};

    use super::*;

    fn sent(payload: &'static [u8], transport: Transport) -> Transmit {
        let address = SocketAddr::from(([192, 0, 2, 1], 5060));
        Transmit {
            target: Target::Flow(Flow {
                transport,
                local: address,
                remote: address,
                connection: ConnectionId(0),
                stream: 0,
            }),
            peer: None,
            payload: payload.into(),
            call: 0,
            transaction: None,
        }
    }

    #[test]
    fn every_transport_has_its_place() {
        for (index, transport) in Transport::ALL.into_iter().enumerate() {
            assert_eq!(place(transport), index);
        }
    }

    #[test]
    fn what_goes_out_is_known_by_its_start_line() {
        let mut traffic = Traffic::default();
        traffic.count_sent(&sent(b"BYE sip:a@b SIP/2.0\r\n\r\n", Transport::Tcp));
        traffic.count_sent(&sent(b"BREW sip:a@b SIP/2.0\r\n\r\n", Transport::Tcp));
        traffic.count_sent(&sent(b"SIP/2.0 404 Not Found\r\n\r\n", Transport::Udp));
        traffic.count_sent(&sent(b"SIP/2.0 ", Transport::Udp));
        traffic.count_sent(&sent(b"", Transport::Udp));
        assert_eq!(traffic.sent.requests[method_class(&Method::Bye)][1], 1);
        assert_eq!(traffic.sent.requests[METHOD_CLASSES - 1][..2], [1, 1]);
        assert_eq!(traffic.sent.responses[3][0], 1);
        let all: u64 = traffic.sent.responses.iter().flatten().sum();
        assert_eq!(all, 1);
    }

    #[test]
    fn what_comes_in_is_known_by_its_method_or_status() {
        let mut traffic = Traffic::default();
        let request = Message::request(Method::Bye, "sip:a@b").with(Name::CallId, "1");
        traffic.count_received(Transport::Sctp, &request);
        let response = Message::response_to(&request, 200, "OK");
        traffic.count_received(Transport::Udp, &response);
        assert_eq!(traffic.received.requests[method_class(&Method::Bye)][3], 1);
        assert_eq!(traffic.received.responses[1][0], 1);
        traffic.count_unread(Transport::Udp, b"INVITE sip:a@b SIP/2.0\r\n");
        assert_eq!(
            traffic.received.requests[method_class(&Method::Invite)][0],
            1
        );
        let mut sum = traffic.clone();
        sum += &traffic;
        assert_eq!(sum.received.responses[1][0], 2);
    }
}
