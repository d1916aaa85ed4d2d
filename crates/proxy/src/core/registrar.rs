//! The registrar: what a REGISTER asks for, and the 200 that lists the bindings (RFC 3261 section
//! 10.3). The rules of step 7 about existing bindings are [`Update::apply`]'s.

use std::fmt::Write;
use std::time::{Duration, Instant};

use sip::{Contact, Flow, Message, Name, NameAddr, Uri};

use super::binding::{AddressOfRecord, Binding, instance};
use super::identity::Identity;
use super::rejection::Rejection;
use super::update::{Change, ContactChange, Update};

/// The registrar's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrarConfig {
    /// The interval of a contact that asks for none.
    pub default_expires: Duration,
    /// A shorter interval is answered 423, unless it is an hour or more (RFC 3261 section 10.3).
    pub minimum_expires: Duration,
    /// A longer interval is cut to this one.
    pub maximum_expires: Duration,
    /// Bindings of one address of record.
    pub maximum_bindings: usize,
}

impl Default for RegistrarConfig {
    fn default() -> RegistrarConfig {
        RegistrarConfig {
            default_expires: Duration::from_secs(3600),
            minimum_expires: Duration::from_secs(60),
            maximum_expires: Duration::from_secs(7200),
            maximum_bindings: 10,
        }
    }
}

/// What a REGISTER asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Registration {
    /// The list of bindings as they are (RFC 3261 section 10.2.3).
    Fetch,
    /// A change.
    Update(Update),
}

/// How many octets of a contact URI, its parameters, or a Call-ID are stored.
const MAXIMUM_STORED_LENGTH: usize = 1024;

/// An interval of an hour is never too brief (RFC 3261 section 10.3 step 7).
const NEVER_TOO_BRIEF: Duration = Duration::from_secs(3600);

/// What a malformed interval counts as (RFC 3261 section 10.2.1.1).
const MALFORMED_INTERVAL: u32 = 3600;

impl RegistrarConfig {
    /// Reads a REGISTER to a domain of ours: steps 2 and 5 to 7 of RFC 3261 section 10.3.
    pub(crate) fn read(
        &self,
        request: &Message,
        flow: &Flow,
        now: Instant,
        identity: &Identity,
    ) -> Result<(AddressOfRecord, Registration), Rejection> {
        let required: Vec<&str> = request.text_values(Name::Require).collect();
        if !required.is_empty() {
            return Err(Rejection::bad_extension(required.join(", ")));
        }
        let address = address_of_record(request, flow, identity)?;
        let mut contacts = Vec::new();
        let mut all = false;
        for contact in request.contacts() {
            match contact.map_err(|_| MALFORMED_CONTACT)? {
                Contact::All => all = true,
                Contact::Address(_) if contacts.len() == self.maximum_bindings => {
                    return Err(TOO_MANY_CONTACTS);
                }
                Contact::Address(contact) => contacts.push(self.read_contact(request, &contact)?),
            }
        }
        let change = match (all, contacts.is_empty()) {
            (false, true) => return Ok((address, Registration::Fetch)),
            (false, false) => Change::Contacts(contacts),
            (true, true) if request.expires() == Some(0) => Change::RemoveAll,
            (true, _) => return Err(MALFORMED_WILDCARD),
        };
        let call_id: Box<str> = request
            .call_id()
            .filter(|call_id| call_id.len() <= MAXIMUM_STORED_LENGTH)
            .ok_or(Rejection::new(400, "Call-ID Too Long"))?
            .into();
        let (cseq, _) = request
            .cseq()
            .ok_or(Rejection::new(400, "Malformed CSeq"))?;
        let update = Update {
            change,
            call_id,
            cseq,
            // Through another proxy the flow leads to that proxy: a Path would be needed (RFC 3327).
            flow: (request.vias().nth(1).is_none()).then_some(*flow),
            received: now,
            path: "".into(),
            user_agent: "".into(),
            maximum_bindings: self.maximum_bindings,
            new_gruus: 0,
        };
        Ok((address, Registration::Update(update)))
    }

    fn read_contact(
        &self,
        request: &Message,
        contact: &NameAddr<'_>,
    ) -> Result<ContactChange, Rejection> {
        contact.parse_uri().map_err(|_| MALFORMED_CONTACT)?;
        let mut parameters = String::new();
        for parameter in contact.parameters() {
            let is_kept = !parameter.name.eq_ignore_ascii_case("expires")
                && !parameter.name.eq_ignore_ascii_case("q");
            if is_kept {
                parameters.push(';');
                parameters.push_str(parameter.name);
                if let Some(value) = parameter.value {
                    parameters.push('=');
                    parameters.push_str(value);
                }
            }
        }
        if contact.uri().len() > MAXIMUM_STORED_LENGTH || parameters.len() > MAXIMUM_STORED_LENGTH {
            return Err(Rejection::new(400, "Contact Too Long"));
        }
        Ok(ContactChange {
            uri: contact.uri().into(),
            parameters: parameters.into(),
            q: contact.q(),
            instance: instance(contact.parameters()).map(Into::into),
            reg_id: None,
            lifetime: self.lifetime(request, contact)?,
        })
    }

    /// The interval that a contact gets (RFC 3261 section 10.3 step 7).
    fn lifetime(&self, request: &Message, contact: &NameAddr<'_>) -> Result<Duration, Rejection> {
        let requested = if contact.parameters().contains("expires") {
            Some(contact.expires().unwrap_or(MALFORMED_INTERVAL))
        } else if request.contains(Name::Expires) {
            Some(request.expires().unwrap_or(MALFORMED_INTERVAL))
        } else {
            None
        };
        let Some(seconds) = requested else {
            return Ok(self.default_expires);
        };
        let requested = Duration::from_secs(seconds.into());
        let is_too_brief = requested > Duration::ZERO
            && requested < self.minimum_expires
            && requested < NEVER_TOO_BRIEF;
        if is_too_brief {
            return Err(Rejection::interval_too_brief(
                self.minimum_expires.as_secs(),
            ));
        }
        Ok(requested.min(self.maximum_expires))
    }
}

/// The 200 to a REGISTER: all bindings with what remains of their intervals (RFC 3261 section 10.3
/// step 8).
pub(crate) fn registered(request: &Message, bindings: &[Binding], now: Instant) -> Message {
    let mut response = Message::response_to(request, 200, "OK");
    for binding in bindings.iter().filter(|binding| binding.expires() > now) {
        response.push_back(Name::Contact, contact_value(binding, now));
    }
    response
}

/// A Contact value as a registrar writes it.
fn contact_value(binding: &Binding, now: Instant) -> String {
    // Rounded, so that the moment in which the store wrote does not cost the client a second.
    let remaining = (binding.expires() - now).as_millis().saturating_add(500) / 1000;
    let mut value = format!("<{}>{}", binding.contact(), binding.parameters());
    if binding.q() != 1000 {
        // Writing into a String cannot fail.
        let _ = write!(value, ";q=0.{:03}", binding.q());
    }
    let _ = write!(value, ";expires={remaining}");
    value
}

/// Step 5: the address of record is that of To, in a domain of ours. It need not be the domain of the
/// Request-URI, which may be another name of the registrar, as in RFC 3665 section 2.1.
fn address_of_record(
    request: &Message,
    flow: &Flow,
    identity: &Identity,
) -> Result<AddressOfRecord, Rejection> {
    let to = request.to().ok_or(Rejection::new(400, "Malformed To"))?;
    let Ok(Uri::Sip(uri)) = to.parse_uri() else {
        // RFC 4475 section 3.3.4.
        return Err(Rejection::new(400, "No SIP URI In To"));
    };
    let domain = identity.domain(&uri, flow.local).ok_or(NOT_FOUND)?;
    AddressOfRecord::new(&uri, domain).ok_or(NOT_FOUND)
}

const NOT_FOUND: Rejection = Rejection::new(404, "Not Found");
const MALFORMED_CONTACT: Rejection = Rejection::new(400, "Malformed Contact");
const MALFORMED_WILDCARD: Rejection = Rejection::new(400, "Wildcard Contact Needs Expires 0 Alone");
pub(crate) const TOO_MANY_CONTACTS: Rejection = Rejection::new(403, "Too Many Contacts");
