//! The 200 to a REGISTER (RFC 3261 section 10.3 step 8).

use std::fmt::Write;
use std::time::Instant;

use sip::{Message, Name, Uri};

use super::binding::{AddressOfRecord, Binding};
use super::gruu::Gruus;
use super::registrar::{RegistrarConfig, supports};
use crate::text::push_decimal;

/// What a 200 to a REGISTER says beside the bindings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered<'a> {
    pub(crate) config: &'a RegistrarConfig,
    pub(crate) address: &'a AddressOfRecord,
    /// Whether the rules of RFC 5626 were applied.
    pub(crate) is_outbound: bool,
    /// What time it is, as the Date field says it, where that is known.
    pub(crate) date: Option<&'a str>,
}

impl Registered<'_> {
    /// The 200, which lists the bindings with what remains of their intervals.
    pub(crate) fn response(
        &self,
        request: &Message,
        bindings: &[Binding],
        now: Instant,
        gruus: &mut Gruus,
    ) -> Message {
        let mut response = Message::response_to(request, 200, "OK");
        let gives_gruus = self.config.gruu && supports(request, "gruu");
        for binding in bindings.iter().filter(|binding| binding.expires() > now) {
            let mut value = contact_value(binding, now);
            if gives_gruus {
                self.add_gruus(&mut value, request, binding, gruus);
            }
            response.push_back(Name::Contact, value);
        }
        // RFC 3327 section 5.3.
        response.copy_fields(request, Name::Path);
        // RFC 3608 section 6.3, in the order in which they are passed.
        for route in &self.config.service_route {
            response.push_back(Name::ServiceRoute, route);
        }
        if self.is_outbound {
            // RFC 5626 sections 6 and 5.4.
            response.push_back(Name::Require, "outbound");
            if let Some(flow_timer) = self.config.flow_timer {
                response.push_back(Name::FlowTimer, flow_timer.as_secs().max(1).to_string());
            }
        }
        if let Some(date) = self.date {
            response.push_back(Name::Date, date);
        }
        response
    }

    /// Adds the GRUUs of a contact's instance (RFC 5627 section 5.2).
    fn add_gruus(
        &self,
        value: &mut String,
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
        // Writing into a String cannot fail.
        let _ = write!(value, ";pub-gruu=\"{public}\"");
        if let Some(temporary) = gruus.temporary(scheme, self.address, binding.gruus()) {
            let _ = write!(value, ";temp-gruu=\"{temporary}\"");
        }
    }
}

/// A Contact value as a registrar writes it.
fn contact_value(binding: &Binding, now: Instant) -> String {
    // Rounded, so that the moment in which the store wrote does not cost the client a second.
    let remaining = (binding.expires() - now).as_millis().saturating_add(500) / 1000;
    let (contact, parameters) = (binding.contact(), binding.parameters());
    let mut value = String::with_capacity(contact.len() + parameters.len() + 32);
    for part in ["<", contact, ">", parameters] {
        value.push_str(part);
    }
    if binding.q() != 1000 {
        // Writing into a String cannot fail.
        let _ = write!(value, ";q=0.{:03}", binding.q());
    }
    value.push_str(";expires=");
    push_decimal(&mut value, u32::try_from(remaining).unwrap_or(u32::MAX));
    value
}
