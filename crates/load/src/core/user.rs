//! A user's names and the headers that carry them.

use std::net::SocketAddr;

use sip::{Flow, Message, Method, Name, Target};

/// An emulated user.
#[derive(Clone, Debug)]
pub(super) struct User {
    /// The user's way to the proxy.
    pub(super) flow: Flow,
    name: String,
    /// `sip:user1@192.0.2.1:5060`
    address_of_record: String,
    /// Where the user is reached directly.
    contact: String,
}

impl User {
    /// User `number` behind a proxy whose address is its domain.
    pub(super) fn new(number: u32, flow: Flow, proxy: SocketAddr) -> User {
        let name = format!("user{number}");
        let transport = flow.transport.uri_parameter();
        User {
            flow,
            address_of_record: address_of_record(number, proxy),
            contact: format!("<sip:{name}@{};transport={transport}>", flow.local),
            name,
        }
    }

    /// The user's address of record.
    pub(super) fn address_of_record(&self) -> &str {
        &self.address_of_record
    }

    /// The value of the Contact header.
    pub(super) fn contact(&self) -> &str {
        &self.contact
    }

    /// Where every message goes: along the flow, whatever the addresses in the message.
    pub(super) fn target(&self) -> Target {
        Target::Flow(self.flow)
    }

    /// A request outside a dialog (RFC 3261 section 8.1.1), but for Via.
    pub(super) fn request(
        &self,
        method: Method,
        uri: &str,
        to: &str,
        identity: Identity<'_>,
    ) -> Message {
        let cseq = format!("{} {method}", identity.cseq);
        Message::request(method, uri)
            .with(Name::MaxForwards, "70")
            .with(
                Name::From,
                format!("<{}>;tag={}", self.address_of_record, identity.tag),
            )
            .with(Name::To, format!("<{to}>"))
            .with(Name::CallId, identity.call_id)
            .with(Name::CSeq, cseq)
            .with(Name::Contact, &self.contact)
    }

    /// Puts the user's Via on top of a request.
    pub(super) fn push_via(&self, request: &mut Message, branch: &str) {
        let transport = self.flow.transport.via_name();
        let via = format!(
            "SIP/2.0/{transport} {};branch={branch};rport",
            self.flow.local
        );
        request.push_front(Name::Via, via);
    }

    /// An SDP body with one G.711 stream (RFC 8866, RFC 3551), at the length of a real phone's; no media
    /// flows.
    pub(super) fn session_description(&self) -> String {
        let ip = self.flow.local.ip();
        let version = if ip.is_ipv4() { 4 } else { 6 };
        format!(
            "v=0\r\no={} 2890844526 2890844526 IN IP{version} {ip}\r\ns=-\r\nc=IN IP{version} {ip}\r\n\
             t=0 0\r\nm=audio 49172 RTP/AVP 0 8\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n",
            self.name
        )
    }
}

/// What tells a request outside a dialog from all others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity<'a> {
    pub(super) tag: &'a str,
    pub(super) call_id: &'a str,
    pub(super) cseq: u32,
}

/// The address of record of a user by number.
pub(super) fn address_of_record(number: u32, proxy: SocketAddr) -> String {
    format!("sip:user{number}@{proxy}")
}
