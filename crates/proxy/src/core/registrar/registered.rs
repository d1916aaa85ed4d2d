//! The 200 to a REGISTER (RFC 3261 section 10.3 step 8).

use std::io::Write;
use std::time::Instant;

use sip::{Message, Name, Uri};

use super::registration::{RegistrarConfig, supports};
use crate::core::binding::{AddressOfRecord, Binding};
use crate::core::gruu::Gruus;
use crate::text::Digits;

/// What a 200 to a REGISTER says beside the bindings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OkResponse<'a> {
    pub(crate) config: &'a RegistrarConfig,
    pub(crate) address: &'a AddressOfRecord,
    /// Our tag in To.
    pub(crate) tag: &'a str,
    /// Whether the rules of RFC 5626 were applied.
    pub(crate) is_outbound: bool,
    /// What time it is, as the Date field says it, where that is known.
    pub(crate) date: Option<&'a str>,
    /// What shows the user agent that we know the password too.
    pub(crate) confirmation: Option<&'a str>,
}

/// Octets that a Contact value usually takes.
const USUAL_CONTACT: usize = 128;

impl OkResponse<'_> {
    /// Makes the 200, which lists the bindings with what remains of their intervals.
    pub(crate) fn make(
        &self,
        request: &Message,
        bindings: &[Binding],
        now: Instant,
        gruus: &mut Gruus,
    ) -> Message {
        let mut response = Message::response_to(request, 200, "OK");
        response.set_to_tag(self.tag);
        let gives_gruus = self.config.gruu && supports(request, "gruu");
        let mut contact = Vec::with_capacity(USUAL_CONTACT);
        for binding in bindings.iter().filter(|binding| binding.expires() > now) {
            contact.clear();
            put_contact(&mut contact, binding, now);
            if gives_gruus {
                self.put_gruus(&mut contact, request, binding, gruus);
            }
            unfold(&mut contact);
            response.push_back(Name::Contact, &contact);
        }
        // RFC 3327 section 5.3.
        for path in request.headers(Name::Path) {
            let mut path = path.to_vec();
            unfold(&mut path);
            response.push_back(Name::Path, path);
        }
        // RFC 3608 section 6.3, in the order in which they are passed.
        for route in &self.config.service_route {
            response.push_back(Name::ServiceRoute, route);
        }
        if self.is_outbound {
            // RFC 5626 sections 6 and 5.4.
            response.push_back(Name::Require, "outbound");
            if let Some(flow_timer) = self.config.flow_timer {
                let seconds = flow_timer.as_secs().max(1).to_string();
                response.push_back(Name::FlowTimer, seconds);
            }
        }
        let rest = [
            (Name::Date, self.date),
            (Name::AuthenticationInfo, self.confirmation),
        ];
        for (name, value) in rest {
            if let Some(value) = value {
                response.push_back(name, value);
            }
        }
        response
    }

    /// Writes the GRUUs of a contact's instance (RFC 5627 section 5.2).
    fn put_gruus(
        &self,
        octets: &mut Vec<u8>,
        request: &Message,
        binding: &Binding,
        gruus: &mut Gruus,
    ) {
        let to = request.to();
        let Some(Ok(Uri::Sip(to))) = to.as_ref().map(|to| to.parse_uri()) else {
            return;
        };
        let (Some(instance), Some(user)) = (binding.instance(), to.user()) else {
            return;
        };
        let scheme = if to.is_secure() { "sips" } else { "sip" };
        let public = Gruus::public(scheme, user, self.address, instance);
        // Writing into a buffer that grows cannot fail.
        let _ = write!(octets, ";pub-gruu=\"{public}\"");
        if let Some(temporary) = gruus.temporary(scheme, self.address, binding.gruus()) {
            let _ = write!(octets, ";temp-gruu=\"{temporary}\"");
        }
    }
}

/// Makes spaces of the line ends in a value that was folded when it came.
fn unfold(value: &mut [u8]) {
    if memchr::memchr2(b'\r', b'\n', value).is_some() {
        for octet in value {
            if matches!(octet, b'\r' | b'\n') {
                *octet = b' ';
            }
        }
    }
}

/// Writes a Contact value as a registrar has it.
fn put_contact(octets: &mut Vec<u8>, binding: &Binding, now: Instant) {
    // Rounded, so that the moment in which the store wrote does not cost the client a second.
    let remaining = (binding.expires() - now).as_millis().saturating_add(500) / 1000;
    let (contact, parameters) = (binding.contact_octets(), binding.parameters_octets());
    for part in [b"<", contact, b">", parameters] {
        octets.extend_from_slice(part);
    }
    if binding.q() != 1000 {
        octets.extend_from_slice(format!(";q=0.{:03}", binding.q()).as_bytes());
    }
    octets.extend_from_slice(b";expires=");
    let remaining = Digits::decimal(u32::try_from(remaining).unwrap_or(u32::MAX));
    octets.extend_from_slice(remaining.as_str().as_bytes());
}
