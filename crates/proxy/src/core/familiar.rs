//! REGISTERs as most are, read at a glance.
//!
//! Nearly all REGISTERs that a registrar is sent have the same Request-URI, addresses of record that differ in
//! the user alone, and one contact without parameters. What a Request-URI and a domain lead to is found out by
//! the rules (in `requests` and `registrar`) once, and known again by how it is written. What is not as here
//! in any respect goes the long way, and so does whatever is to be refused.
//!
//! There is one place each for a Request-URI and for a domain, with the listener that they came to: where REGISTERs for
//! several domains, or at several listeners, come by turns, each takes the place of the other and goes the long way.
//! Where REGISTERs are to be authenticated, all find their registrar the long way.
//!
//! Of those that come as datagrams the transports hand over the octets, since most need not be read as others are: a
//! [`PlainRegister`] has all that is asked of them, and what it lacks the long way has.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sip::transaction::Taken;
use sip::{Expires, Flow, Message, Method, Name, PlainRegister, Uri, plain_contact};

use super::binding::AddressOfRecord;
use super::overload::{Admission, Judged};
use super::policy::Mode;
use super::proxy::Proxy;
use super::read_uri::ReadUri;
use super::registering::{Answering, Asked};
use super::registrar::{
    Asks, MALFORMED_INTERVAL, MAXIMUM_STORED_LENGTH, Registration, Said, is_first_hop,
};

/// What was found out of REGISTERs that went the long way.
#[derive(Debug, Default)]
pub(super) struct Familiar {
    registrar: Option<Registrar>,
    domain: Option<Domain>,
}

/// A Request-URI that leads to the registrar, whatever else a REGISTER says.
#[derive(Debug)]
struct Registrar {
    uri: Box<str>,
    /// Our address that it came to, which the meaning of a URI depends on.
    local: SocketAddr,
}

/// A domain of ours, as it stands in To.
#[derive(Debug)]
struct Domain {
    /// What follows the user: the sign between them, the rest of the URI, and the bracket behind it.
    behind_user: Box<[u8]>,
    local: SocketAddr,
    /// What follows the user in an address of record: the sign and the name of the domain.
    name: Box<str>,
}

impl Familiar {
    /// The address of record that a To stands for.
    fn address_of_record(&self, to: &[u8], local: SocketAddr) -> Option<AddressOfRecord> {
        let domain = self
            .domain
            .as_ref()
            .filter(|domain| domain.local == local)?;
        let bracketed = to.strip_prefix(PREFIX)?;
        let user = bracketed.strip_suffix(&*domain.behind_user)?;
        let user = std::str::from_utf8(user)
            .ok()
            .filter(|_| is_plain_user(user))?;
        AddressOfRecord::of_parts(user, &domain.name)
    }

    /// Takes notice of the address of record that a To was found to stand for.
    fn note_domain(&mut self, to: &[u8], local: SocketAddr, address: &AddressOfRecord) {
        let user = address.user();
        let behind_user = to
            .strip_prefix(PREFIX)
            .and_then(|bracketed| bracketed.strip_prefix(user.as_bytes()));
        // Brackets at both ends, and nothing behind the second.
        let Some(behind_user @ [b'@', uri @ .., b'>']) = behind_user else {
            return;
        };
        if is_plain_user(user.as_bytes()) && !uri.contains(&b'>') {
            self.domain = Some(Domain {
                behind_user: behind_user.into(),
                local,
                name: address.as_str()[user.len()..].into(),
            });
        }
    }
}

/// What a plain address begins with.
const PREFIX: &[u8] = b"<sip:";

/// Whether a user is written without escapes, a password, and whatever else could be read in two ways.
fn is_plain_user(user: &[u8]) -> bool {
    let is_plain = |octet: &u8| octet.is_ascii_alphanumeric() || b"-_.+*".contains(octet);
    !user.is_empty() && user.iter().all(is_plain)
}

impl Judged for PlainRegister {
    fn method(&self) -> Option<&Method> {
        Some(&Method::Register)
    }

    fn is_in_dialog(&self) -> bool {
        // To has no tag.
        false
    }

    fn has_credentials(&self) -> bool {
        PlainRegister::has_credentials(self)
    }
}

impl Proxy {
    /// [`accept_message`](Proxy::accept_message) for a REGISTER that nobody has read yet. One that is as most are is not
    /// read at all, but looked over once.
    pub(super) fn accept_register(
        &mut self,
        now: Instant,
        waited: Duration,
        flow: Flow,
        octets: Bytes,
    ) {
        let octets = match self.knows_registrars(&flow) {
            true => match PlainRegister::read(octets) {
                Ok(register) => {
                    self.accept_plain_register(now, waited, flow, register);
                    return;
                }
                Err(octets) => octets,
            },
            false => octets,
        };
        match Message::read_or_return(octets) {
            Ok(message) => self.accept_message(now, waited, flow, message),
            Err((_, octets)) => self.handle_malformed(now, flow, octets),
        }
    }

    fn accept_plain_register(
        &mut self,
        now: Instant,
        waited: Duration,
        flow: Flow,
        register: PlainRegister,
    ) {
        if self.policy.routing.drop.has_address(flow.remote.ip()) {
            self.statistics.dropped_addresses += 1;
            return;
        }
        self.defence.note_waited(now, waited);
        let whole = || {
            Message::read(register.octets().clone())
                .ok()
                .map(Cow::Owned)
        };
        let admission = self.judge(now, waited, &flow, (&register, &whole));
        let registration = match admission {
            Admission::Ignore => return,
            Admission::Admit => self.read_plain_register(&register, &flow, now),
            // As is one whose response is kept, it is not refused.
            Admission::Refuse if self.transactions.has_answered(now, &register) => {
                self.read_plain_register(&register, &flow, now)
            }
            Admission::Refuse => None,
        };
        let Some(registration) = registration else {
            match Message::read_or_return(register.into_octets()) {
                Ok(message) => self.accept_judged(now, flow, message, admission),
                Err((_, octets)) => self.handle_malformed(now, flow, octets),
            }
            return;
        };
        // It overtakes none of those before it.
        self.process_accepted(now);
        match self.transactions.handle_register(now, flow, &register) {
            Taken::Begun(server) => {
                self.statistics.requests += 1;
                let request = (Asked::Plain(register), None);
                let server = Answering::Transaction(server);
                self.ask_store(now, now, (server, flow), request, registration);
            }
            Taken::Repeated => self.repeat_register(now, flow, register, registration),
            Taken::Done => {}
        }
    }

    /// Whether REGISTERs that come along such flows may be [familiar](Proxy::is_familiar), as far as that does not depend on
    /// what they say.
    fn knows_registrars(&self, flow: &Flow) -> bool {
        let Familiar { registrar, domain } = &self.familiar;
        let policy = &*self.policy;
        registrar
            .as_ref()
            .is_some_and(|known| known.local == flow.local)
            && domain
                .as_ref()
                .is_some_and(|known| known.local == flow.local)
            && !policy.authentication.register
            && policy.routing.routes.is_empty()
            && policy.routing.drop.user_agents.is_empty()
            && policy.forwarding.mode != Mode::Stateless
    }

    /// What a REGISTER asks for that [is familiar](Proxy::is_familiar), where [`read_familiar`](Proxy::read_familiar) finds
    /// out.
    fn read_plain_register(
        &self,
        register: &PlainRegister,
        flow: &Flow,
        now: Instant,
    ) -> Option<Registration> {
        let via = register.via();
        let known = self.familiar.registrar.as_ref()?;
        let is_familiar = register.request_uri() == known.uri.as_bytes()
            && register.max_forwards().is_none_or(|hops| hops > 0)
            && !self.identity.is_own_sent_by(via.host(), via.port());
        if !is_familiar {
            return None;
        }
        let expires = match register.expires() {
            Expires::Unsaid => None,
            Expires::Seconds(seconds) => Some(seconds),
            Expires::Malformed => Some(MALFORMED_INTERVAL),
        };
        let said = Said {
            call_id: Some(register.call_id()),
            cseq: Some(register.cseq_number()),
            user_agent: register.user_agent(),
        };
        let contact = (register.contact(), expires);
        self.plain_registration(register.to(), contact, said, (Some(*flow), flow.local), now)
    }

    /// Whether a request is a REGISTER that leads to the registrar, and nothing about it has to be looked at
    /// closer: `bound` would find the same.
    pub(super) fn is_familiar(&self, request: &Message, arrival: &Flow) -> bool {
        const LOOKED_AT: [Name<'static>; 3] = [Name::Route, Name::ProxyRequire, Name::MaxBreadth];
        let Some(registrar) = &self.familiar.registrar else {
            return false;
        };
        request.method() == Some(&Method::Register)
            && registrar.local == arrival.local
            && request.request_uri() == Some(&*registrar.uri)
            && self.policy.routing.routes.is_empty()
            && !LOOKED_AT.iter().any(|name| request.contains(*name))
            && request.max_forwards().is_none_or(|hops| hops > 0)
            // It has not been here before (RFC 5393 section 4.2).
            && is_first_hop(request)
            && request
                .top_via()
                .is_some_and(|via| !self.identity.is_own_sent_by(via.host(), via.port()))
    }

    /// Takes notice that a request without a Route was found to be for the registrar.
    pub(super) fn note_registrar(&mut self, request: &Message, arrival: &Flow) {
        let Some(text) = request.request_uri() else {
            return;
        };
        // Where these are, it is not the URI alone that decides.
        let is_led = |uri: &str| match Uri::parse(uri) {
            Ok(Uri::Sip(uri)) => {
                let uri = ReadUri::from(uri);
                uri.is_loose || uri.maddr.is_some()
            }
            _ => true,
        };
        if self.policy.routing.routes.is_empty() && !is_led(text) {
            self.familiar.registrar = Some(Registrar {
                uri: text.into(),
                local: arrival.local,
            });
        }
    }

    /// Reads a REGISTER to a domain of ours. `None` where that takes more than a glance.
    pub(super) fn read_familiar(
        &self,
        request: &Message,
        flow: &Flow,
        now: Instant,
    ) -> Option<Registration> {
        if request.contains(Name::Require) || request.contains(Name::Path) {
            return None;
        }
        let mut contacts = request.headers(Name::Contact);
        let (uri, expires) = plain_contact(contacts.next()?)?;
        if contacts.next().is_some() {
            return None;
        }
        let expires = expires.or_else(|| {
            let is_said = request.contains(Name::Expires);
            is_said.then(|| request.expires().unwrap_or(MALFORMED_INTERVAL))
        });
        let to = request.header_bytes(Name::To)?;
        let came = is_first_hop(request).then_some(*flow);
        let said = Said::of(request);
        self.plain_registration(to, (uri, expires), said, (came, flow.local), now)
    }

    /// What a REGISTER asks for with this To and one plain contact, that asks for so many seconds. `came`: the flow to be
    /// bound, and our address.
    fn plain_registration(
        &self,
        to: &[u8],
        (uri, expires): (&str, Option<u32>),
        said: Said<'_>,
        (came, local): (Option<Flow>, SocketAddr),
        now: Instant,
    ) -> Option<Registration> {
        let registrar = &self.registrar;
        if uri.len() > MAXIMUM_STORED_LENGTH || registrar.maximum_bindings == 0 {
            return None;
        }
        let address = self.familiar.address_of_record(to, local)?;
        let contact = Asks {
            uri,
            parameters: Cow::Borrowed(""),
            q: 1000,
            reg_id: None,
            lifetime: registrar.granted(expires).ok()?,
        };
        let update = registrar.bind(said, came, now, (&[contact], "", 0));
        Some(Registration {
            address,
            update: Some(update.ok()?),
            is_outbound: false,
        })
    }

    /// Takes notice of what a REGISTER was found to ask for.
    pub(super) fn note_domain(
        &mut self,
        request: &Message,
        flow: &Flow,
        address: &AddressOfRecord,
    ) {
        if let Some(to) = request.header_bytes(Name::To) {
            self.familiar.note_domain(to, flow.local, address);
        }
    }
}

#[cfg(test)]
mod tests;
