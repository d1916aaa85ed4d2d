//! Redirecting: the client is told where to send its request (RFC 3261 section 8.3).

use std::cmp::Reverse;
use std::time::Instant;

use sip::{Message, Name, Uri};

use crate::core::amplification::add_within;
use crate::core::binding::Binding;

/// The 302 that sends a client to the bindings of a user, the most preferred first, each with its
/// preference and how long it is valid. `None` where nothing would be left to try: a client is never
/// sent to the URI that it has asked for. Those that would make it longer than it may be are left out, but the first.
///
/// Every binding is named by the scheme that it was registered with, whatever that of the request is
/// (RFC 5630 section 5.4). What else its Contact said is for us, not for the client.
pub(crate) fn moved(
    now: Instant,
    request: &Message,
    bindings: &[Binding],
    longest: usize,
) -> Option<Message> {
    let asked = request.parse_request_uri();
    let is_asked_for = |binding: &Binding| match (&asked, Uri::parse(binding.contact())) {
        (Some(asked), Ok(contact)) => asked.is_equivalent(&contact),
        _ => false,
    };
    let mut places: Vec<&Binding> = bindings
        .iter()
        .filter(|binding| binding.expires() > now && !is_asked_for(binding))
        .collect();
    if places.is_empty() {
        return None;
    }
    // A stable sort: equal ones stay in the order of their registration.
    places.sort_by_key(|binding| Reverse(binding.q()));
    let mut response = Message::response_to(request, 302, "Moved Temporarily");
    for binding in places {
        let seconds = binding.expires().saturating_duration_since(now).as_secs();
        let contact = binding.contact();
        let q = match binding.q() {
            1000.. => "1".to_owned(),
            thousandths => format!("0.{thousandths:03}"),
        };
        let value = format!("<{contact}>;q={q};expires={seconds}");
        if !add_within(&mut response, Name::Contact, value, longest) {
            break;
        }
    }
    Some(response)
}
