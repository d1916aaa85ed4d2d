//! Enough of a user agent's core to register, call and hang up (RFC 3261 sections 8 to 11, 13 and
//! 15): what its messages say. Transactions carry them, and [dialogs](crate::dialog) go on from them.

mod inspection;

use std::net::SocketAddr;

use rand::RngExt;
use rand_chacha::ChaCha12Rng;

use crate::token::token;
use crate::{Message, Method, Name, Transport};

pub use crate::hop_by_hop::cancel_of;

/// The methods that this core speaks, as Allow lists them.
const ALLOW: &str = "INVITE, ACK, CANCEL, BYE, OPTIONS";

/// A user and where that user is reached: it writes requests and responses.
#[derive(Clone, Debug)]
pub struct UserAgent {
    address_of_record: String,
    contact: String,
    transport: Transport,
    address: SocketAddr,
    rng: ChaCha12Rng,
}

/// The series of REGISTER requests of one user agent to one registrar: they have the same Call-ID
/// and ascending sequence numbers (RFC 3261 section 10.2).
#[derive(Clone, Debug)]
pub struct Registration {
    registrar: String,
    call_id: String,
    tag: String,
    sequence: u32,
}

impl Registration {
    /// The last request was sent again with the next sequence number, as one with credentials is (section 22.2).
    pub fn skip(&mut self) {
        self.sequence = self.sequence.saturating_add(1);
    }
}

impl UserAgent {
    /// The user with this address of record (a URI without angle brackets) at a transport and an
    /// address of ours. The generator gives tags and Call-IDs.
    pub fn new(
        address_of_record: impl Into<String>,
        transport: Transport,
        address: SocketAddr,
        rng: ChaCha12Rng,
    ) -> UserAgent {
        let address_of_record = address_of_record.into();
        let contact = contact_uri(&address_of_record, transport, address);
        UserAgent {
            address_of_record,
            contact,
            transport,
            address,
            rng,
        }
    }

    /// The user's address of record.
    pub fn address_of_record(&self) -> &str {
        &self.address_of_record
    }

    /// The URI by which the user is reached here.
    pub fn contact(&self) -> &str {
        &self.contact
    }

    /// A tag for a response (section 19.3).
    pub fn new_tag(&mut self) -> String {
        token(&mut self.rng)
    }

    /// Begins a series of registrations; the registrar is a URI without user part.
    pub fn registration(&mut self, registrar: impl Into<String>) -> Registration {
        Registration {
            registrar: registrar.into(),
            call_id: token(&mut self.rng),
            tag: token(&mut self.rng),
            sequence: 0,
        }
    }

    /// The next REGISTER of a series, without Via (section 10.2): it asks for the contact to be bound
    /// for so many seconds, or to be removed with 0.
    pub fn register(&self, registration: &mut Registration, expires: u32) -> Message {
        registration.sequence = registration.sequence.saturating_add(1);
        let user = &self.address_of_record;
        let names = Names {
            tag: &registration.tag,
            call_id: &registration.call_id,
            sequence: registration.sequence,
        };
        self.write(Method::Register, &registration.registrar, user, names)
            .with(Name::Expires, expires.to_string())
    }

    /// An INVITE outside of a dialog, without Via and body (section 13.2.1).
    pub fn invite(&mut self, to: &str) -> Message {
        self.request(Method::Invite, to).with(Name::Allow, ALLOW)
    }

    /// An OPTIONS outside of a dialog, without Via (section 11.1).
    pub fn options(&mut self, to: &str) -> Message {
        self.request(Method::Options, to)
            .with(Name::Accept, "application/sdp")
    }

    /// A request outside of a dialog to a URI, without Via (section 8.1.1).
    pub fn request(&mut self, method: Method, to: &str) -> Message {
        let (tag, call_id) = (token(&mut self.rng), token(&mut self.rng));
        let names = Names {
            tag: &tag,
            call_id: &call_id,
            // Low, so that there is much room above it (section 8.1.1.5).
            sequence: self.rng.random_range(1..1 << 16),
        };
        self.write(method, to, to, names)
    }

    /// Puts our Via on top of a request: that of a new transaction, with a branch from
    /// [`new_branch`](crate::transaction::Transactions::new_branch) (section 8.1.1.7). It asks for
    /// the response to come back to where the request came from (RFC 3581 section 3).
    pub fn push_via(&self, request: &mut Message, branch: &str) {
        let transport = self.transport.via_name();
        let via = format!("SIP/2.0/{transport} {};branch={branch};rport", self.address);
        request.push_front(Name::Via, via);
    }

    /// The response to a request (section 8.2.6), the tag being given to To unless it has one; a 100
    /// gets none. What makes a dialog says by which proxies and contact requests go on (section
    /// 12.1.1), and a 2xx what we understand (sections 11.2 and 13.3.1.4).
    pub fn response(&self, request: &Message, status: u16, reason: &str, tag: &str) -> Message {
        let mut response = Message::response_to(request, status, reason);
        if status > 100 {
            response.set_to_tag(tag);
        }
        let is_invite = request.method() == Some(&Method::Invite);
        if is_invite && (101..300).contains(&status) {
            response.copy_fields(request, Name::RecordRoute);
            response.push_back(Name::Contact, format!("<{}>", self.contact));
        }
        let is_asked = is_invite || request.method() == Some(&Method::Options);
        if is_asked && (200..300).contains(&status) || status == 405 {
            response.push_back(Name::Allow, ALLOW);
        }
        response
    }

    fn write(&self, method: Method, uri: &str, to: &str, names: Names<'_>) -> Message {
        let sequence = format!("{} {method}", names.sequence);
        let from = format!("<{}>;tag={}", self.address_of_record, names.tag);
        Message::request(method, uri)
            .with(Name::MaxForwards, "70")
            .with(Name::From, from)
            .with(Name::To, format!("<{to}>"))
            .with(Name::CallId, names.call_id)
            .with(Name::CSeq, sequence)
            .with(Name::Contact, format!("<{}>", self.contact))
    }
}

/// What tells a request outside of a dialog from others.
struct Names<'a> {
    tag: &'a str,
    call_id: &'a str,
    sequence: u32,
}

/// The URI of a user at an address: with the user part of the address of record, and SIPS where that
/// is (section 12.1.2).
fn contact_uri(address_of_record: &str, transport: Transport, address: SocketAddr) -> String {
    let uri = crate::Uri::parse(address_of_record).ok();
    let uri = uri.as_ref().and_then(crate::Uri::as_sip);
    let scheme = if uri.is_some_and(crate::SipUri::is_secure) {
        "sips"
    } else {
        "sip"
    };
    let user = uri.and_then(crate::SipUri::user);
    let user = user.map_or(String::new(), |user| format!("{user}@"));
    let transport = transport.uri_parameter();
    format!("{scheme}:{user}{address};transport={transport}")
}

#[cfg(test)]
mod tests;
