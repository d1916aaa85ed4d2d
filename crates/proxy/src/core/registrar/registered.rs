//! The 200 to a REGISTER (RFC 3261 section 10.3 step 8).

use std::fmt::Write;
use std::time::Instant;

use bytes::BytesMut;
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

/// What a binding takes in a 200 beside its contact and the parameters.
const BESIDE_CONTACT: usize = 64;

/// What a 200 has besides what stands in the request, and the bindings.
const BESIDE_BINDINGS: usize = 128;

impl OkResponse<'_> {
    /// About how long the 200 becomes to a request of this length.
    pub(crate) fn length(request: usize, bindings: &[Binding]) -> usize {
        let length = |binding: &Binding| {
            binding.contact_octets().len() + binding.parameters_octets().len() + BESIDE_CONTACT
        };
        let bindings: usize = bindings.iter().map(length).sum();
        request + bindings + BESIDE_BINDINGS
    }

    /// Writes the 200, which lists the bindings with what remains of their intervals.
    pub(crate) fn write(
        &self,
        octets: &mut BytesMut,
        request: &Message,
        bindings: &[Binding],
        now: Instant,
        gruus: &mut Gruus,
    ) {
        request.write_response_head(octets, 200, "OK", self.tag);
        let gives_gruus = self.config.gruu && supports(request, "gruu");
        for binding in bindings.iter().filter(|binding| binding.expires() > now) {
            octets.extend_from_slice(b"Contact: ");
            let start = octets.len();
            put_contact(octets, binding, now);
            if gives_gruus {
                self.put_gruus(octets, request, binding, gruus);
            }
            unfold(octets, start);
            octets.extend_from_slice(b"\r\n");
        }
        // RFC 3327 section 5.3.
        for path in request.headers(Name::Path) {
            put(octets, "Path", path);
        }
        // RFC 3608 section 6.3, in the order in which they are passed.
        for route in &self.config.service_route {
            put(octets, "Service-Route", route.as_bytes());
        }
        if self.is_outbound {
            // RFC 5626 sections 6 and 5.4.
            put(octets, "Require", b"outbound");
            if let Some(flow_timer) = self.config.flow_timer {
                let seconds = flow_timer.as_secs().max(1).to_string();
                put(octets, "Flow-Timer", seconds.as_bytes());
            }
        }
        let rest = [
            ("Date", self.date),
            ("Authentication-Info", self.confirmation),
        ];
        for (name, value) in rest {
            if let Some(value) = value {
                put(octets, name, value.as_bytes());
            }
        }
        octets.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    }

    /// Writes the GRUUs of a contact's instance (RFC 5627 section 5.2).
    fn put_gruus(
        &self,
        octets: &mut BytesMut,
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

/// Writes a header field. Line ends in its value, where it was folded when it came, are spaces.
fn put(octets: &mut BytesMut, name: &str, value: &[u8]) {
    octets.extend_from_slice(name.as_bytes());
    octets.extend_from_slice(b": ");
    let start = octets.len();
    octets.extend_from_slice(value);
    unfold(octets, start);
    octets.extend_from_slice(b"\r\n");
}

/// Makes spaces of line ends from a place on.
fn unfold(octets: &mut BytesMut, start: usize) {
    let value = &mut octets[start..];
    if memchr::memchr2(b'\r', b'\n', value).is_some() {
        for octet in value {
            if matches!(octet, b'\r' | b'\n') {
                *octet = b' ';
            }
        }
    }
}

/// Writes a Contact value as a registrar has it.
fn put_contact(octets: &mut BytesMut, binding: &Binding, now: Instant) {
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
