//! What is sent to the proxy: requests from parts that are each sound or odd, and messages of RFCs.

use std::net::SocketAddr;

use arbitrary::Arbitrary;
use bytes::Bytes;
use sip::{ConnectionId, Flow, Message, Method, Name, Transport};

use crate::lists::Few;

/// Somebody who sends: an address, by a transport.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub(super) struct Peer {
    transport: u8,
    number: u8,
}

/// A request. Small numbers make sound parts.
#[derive(Arbitrary, Debug, Clone)]
pub(super) struct Request {
    method: u8,
    uri: u8,
    call: u8,
    branch: Option<u8>,
    cseq: u8,
    tag: Option<u8>,
    routes: Few<u8>,
    contacts: Few<Contact>,
    paths: Few<u8>,
    /// It knows Path, outbound and GRUUs.
    is_modern: bool,
    odd: Option<(u8, u8)>,
    another_odd: Option<(u8, u8)>,
    body: u8,
}

/// A contact, which may be that of an instance and one of its flows (RFC 5626).
#[derive(Arbitrary, Debug, Clone, Copy)]
struct Contact {
    uri: u8,
    expires: u8,
    instance: Option<u8>,
    reg_id: Option<u8>,
    is_outbound: bool,
}

/// A request within the dialog of another one.
#[derive(Arbitrary, Debug, Clone)]
pub(super) struct InDialog {
    method: u8,
    cseq: u8,
    branch: u8,
    tag: u8,
    /// It is from the one who was called.
    is_from_callee: bool,
    is_to_contact: bool,
    odd: Option<(u8, u8)>,
}

/// Octets that are other ones.
#[derive(Arbitrary, Debug, Clone)]
pub(super) struct Changes(Few<(u16, u8)>);

/// The transports that the proxy listens on.
pub(super) const TRANSPORTS: [Transport; 4] = [
    Transport::Udp,
    Transport::Tcp,
    Transport::Sctp,
    Transport::Tls,
];

/// Where requests may be for.
pub(super) const URIS: [&str; 16] = [
    "sip:alice@example.com",
    "sip:bob@example.com",
    "sip:nobody@example.com",
    "sip:example.com",
    "sips:bob@example.com",
    "sip:bob@192.0.2.1:5060",
    "sip:192.0.2.1;lr",
    "sip:bob@192.0.2.20:5060",
    "sip:bob@192.0.2.20;transport=tcp",
    "sip:bob@10.0.0.1;maddr=192.0.2.1",
    "sip:bob@unknown.example;transport=sctp",
    "sip:%00%ff@example.com",
    "sip:192.0.2.77",
    "tel:+15551234",
    "http://example.com/",
    "sips:192.0.2.1;lr",
];

/// Most of what a proxy does it does for an INVITE.
const METHODS: [Method; 17] = [
    Method::Invite,
    Method::Invite,
    Method::Invite,
    Method::Invite,
    Method::Cancel,
    Method::Register,
    Method::Ack,
    Method::Bye,
    Method::Options,
    Method::Message,
    Method::Subscribe,
    Method::Prack,
    Method::Update,
    Method::Info,
    Method::Refer,
    Method::Notify,
    Method::Publish,
];

/// Contacts of phones behind NATs.
const BEHIND_NAT: [&str; 3] = [
    "sip:bob@10.0.0.1:5060",
    "sip:bob@10.0.0.2;transport=tcp",
    "sip:alice@phone.invalid;transport=ws",
];

const PATHS: [&str; 4] = [
    "<sip:192.0.2.77;lr>",
    "<sip:token@192.0.2.77;lr;ob>",
    "<sip:192.0.2.1;lr>, <sip:192.0.2.20;transport=tcp;lr>",
    "<sip:192.0.2.78>",
];

const ODD_NAMES: [Name<'static>; 13] = [
    Name::MaxForwards,
    Name::MaxBreadth,
    Name::Expires,
    Name::ProxyRequire,
    Name::Require,
    Name::RecordRoute,
    Name::Via,
    Name::Path,
    Name::Supported,
    Name::PAssertedIdentity,
    Name::ProxyAuthorization,
    Name::UserAgent,
    Name::Other("X-Odd"),
];

const ODD_VALUES: [&str; 13] = [
    "0",
    "1",
    "70",
    "-1",
    "4294967296",
    "foo, bar",
    "path, outbound, gruu",
    "oddphone/1.0",
    "<sip:192.0.2.1;lr>",
    "<sip:192.0.2.77;lr;ob>",
    "SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bKx.0123456789abcdef;flow=00",
    "Digest username=\"bob\", realm=\"example.com\", nonce=\"1\", uri=\"x\", response=\"2\"",
    "\u{7f}\u{e9}",
];

impl Peer {
    /// Who answers what the proxy sends.
    pub(super) const FAR: Peer = Peer {
        transport: 0,
        number: 5,
    };

    pub(super) fn new(transport: u8, number: u8) -> Peer {
        Peer { transport, number }
    }

    pub(super) fn flow(&self) -> Flow {
        let transport = TRANSPORTS[usize::from(self.transport) % TRANSPORTS.len()];
        let number = self.number % 6;
        let port = if transport == Transport::Udp {
            5060
        } else {
            40_000
        };
        Flow {
            transport,
            local: local(transport),
            remote: SocketAddr::from(([192, 0, 2, 20 + number], port)),
            connection: ConnectionId(match transport {
                Transport::Udp => 0,
                _ => u64::from(number) + 10 * u64::from(self.transport % 4),
            }),
            stream: 0,
        }
    }
}

/// Where the proxy listens.
pub(super) fn local(transport: Transport) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], transport.default_port()))
}

impl Request {
    pub(super) fn message(&self) -> Message {
        let method = METHODS[usize::from(self.method) % METHODS.len()].clone();
        let uri = uri(self.uri);
        let call = self.call % 4;
        let branch = self.branch.map_or(call, |branch| branch % 6);
        let cseq = format!("{} {method}", 1 + self.cseq % 3);
        let tag = self
            .tag
            .map(|tag| format!(";tag=t{}", tag % 3))
            .unwrap_or_default();
        let mut message = Message::request(method, uri)
            .with(
                Name::Via,
                format!("SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK{branch}"),
            )
            .with(Name::From, "<sip:alice@example.com>;tag=1")
            .with(Name::To, format!("<{uri}>{tag}"))
            .with(Name::CallId, format!("call{call}"))
            .with(Name::CSeq, cseq);
        // Mostly none: a request with a Route goes where that leads.
        for route in self.routes.iter().skip(3) {
            message.push_back(Name::Route, format!("<{}>", URIS[usize::from(*route) % 16]));
        }
        for contact in self.contacts.iter().take(3) {
            message.push_back(Name::Contact, contact.value());
        }
        for path in self.paths.iter().skip(4) {
            message.push_back(Name::Path, PATHS[usize::from(*path) % PATHS.len()]);
        }
        if self.is_modern {
            message.push_back(Name::Supported, "path, outbound, gruu");
        }
        for odd in [self.odd, self.another_odd].into_iter().flatten() {
            add_odd(&mut message, odd);
        }
        if self.body % 4 == 1 {
            message.push_back(Name::UserAgent, "oddphone/1.0");
        }
        message.set_body(None, vec![b'x'; usize::from(self.body) * 8].into());
        message
    }
}

impl Contact {
    fn value(&self) -> String {
        if self.uri == 255 {
            return "*".to_owned();
        }
        let ob = if self.is_outbound { ";ob" } else { "" };
        let uri = match self.uri % 4 {
            0 => BEHIND_NAT[usize::from(self.uri / 4) % BEHIND_NAT.len()],
            _ => uri_of_all(self.uri),
        };
        let mut value = format!("<{uri}{ob}>");
        value += &format!(";expires={0};q=0.{0}", self.expires);
        if let Some(instance) = self.instance {
            let number = instance % 3;
            value += &format!(
                ";+sip.instance=\"<urn:uuid:00000000-0000-1000-8000-00000000000{number}>\""
            );
        }
        if let Some(reg_id) = self.reg_id {
            value += &format!(";reg-id={}", reg_id % 4);
        }
        value
    }
}

impl InDialog {
    /// A request to whoever another one that the proxy has sent has led to, or from there.
    pub(super) fn message(&self, begin: &Message) -> Message {
        let text = |name| begin.header(name).unwrap_or_default().to_owned();
        let method = METHODS[usize::from(self.method) % METHODS.len()].clone();
        let contact = begin.values(Name::Contact).next();
        let contact = contact.and_then(|value| sip::NameAddr::parse(value).ok());
        let uri = match contact {
            Some(contact) if self.is_from_callee && self.is_to_contact => contact.uri(),
            _ => begin.request_uri().unwrap_or_default(),
        };
        // The responses of the game have such tags, too.
        let tag = format!(";tag=t{}", self.tag % 3);
        let (caller, callee) = (text(Name::From), text(Name::To));
        let callee = match callee.contains(";tag=") {
            true => callee,
            false => callee + &tag,
        };
        let (from, to) = match self.is_from_callee {
            true => (callee, caller),
            false => (caller, callee),
        };
        let number = 1 + self.cseq % 3;
        let mut message = Message::request(method.clone(), uri)
            .with(
                Name::Via,
                format!("SIP/2.0/UDP 192.0.2.9;branch=z9hG4bKd{}", self.branch % 6),
            )
            .with(Name::From, from)
            .with(Name::To, to)
            .with(Name::CallId, text(Name::CallId))
            .with(Name::CSeq, format!("{number} {method}"));
        let mut routes: Vec<&[u8]> = begin.values(Name::RecordRoute).collect();
        if !self.is_from_callee {
            // As the caller has got them, in a response.
            routes.reverse();
        }
        for route in routes {
            message.push_back(Name::Route, route);
        }
        if let Some(odd) = self.odd {
            add_odd(&mut message, odd);
        }
        message
    }
}

fn add_odd(message: &mut Message, (name, value): (u8, u8)) {
    let name = ODD_NAMES[usize::from(name) % ODD_NAMES.len()];
    message.push_back(name, ODD_VALUES[usize::from(value) % ODD_VALUES.len()]);
}

/// Mostly a user who is registered.
fn uri(number: u8) -> &'static str {
    match number {
        0..=191 => URIS[usize::from(number) % 2],
        _ => uri_of_all(number),
    }
}

fn uri_of_all(number: u8) -> &'static str {
    URIS[usize::from(number) % URIS.len()]
}

impl Changes {
    pub(super) fn apply(&self, octets: &[u8]) -> Bytes {
        let mut octets = octets.to_vec();
        for (place, value) in self.0.iter() {
            let place = usize::from(*place) % octets.len().max(1);
            if let Some(octet) = octets.get_mut(place) {
                *octet = *value;
            }
        }
        octets.into()
    }
}

/// A message of RFC 3665 or RFC 4475.
pub(super) fn example(number: u8) -> &'static [u8] {
    const FLOWS: &str = include_str!("../../../sip/tests/examples/rfc3665.txt");
    const TORTURE: [&[u8]; 8] = [
        include_bytes!("../../../sip/tests/torture/wsinv.dat"),
        include_bytes!("../../../sip/tests/torture/longreq.dat"),
        include_bytes!("../../../sip/tests/torture/intmeth.dat"),
        include_bytes!("../../../sip/tests/torture/transports.dat"),
        include_bytes!("../../../sip/tests/torture/semiuri.dat"),
        include_bytes!("../../../sip/tests/torture/escnull.dat"),
        include_bytes!("../../../sip/tests/torture/inv2543.dat"),
        include_bytes!("../../../sip/tests/torture/dblreq.dat"),
    ];
    let place = usize::from(number);
    match TORTURE.get(place) {
        Some(message) => message,
        None => FLOWS
            .split_terminator("=====\r\n")
            .nth((place - TORTURE.len()) % 178)
            .map_or(&[], str::as_bytes),
    }
}
