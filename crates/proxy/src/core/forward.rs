//! The copy of a request that goes to a next hop (RFC 3261 section 16.6 steps 1 to 9).

use sip::{Flow, Message, Method, Name, Transport, Uri};

use super::dialog_mark::MarkText;
use super::flow_token::FlowTokens;
use super::interface::Interface;
use super::read_uri::CALL;
use super::route;
use super::target::{is_at_contact, is_sips};
use crate::text::decimal;

/// What the copy says that the received request did not.
#[derive(Clone, Debug)]
pub(crate) struct Forwarding<'a> {
    /// The URI of the target.
    pub(crate) request_uri: &'a str,
    /// Route values that are put before those of the request; empty where there are none.
    pub(crate) path: &'a str,
    /// The branch parameter of our Via.
    pub(crate) branch: &'a str,
    /// Our Via says that the next hop may send us requests by the connection, too (RFC 5923 section 8.1).
    pub(crate) offers_alias: bool,
    /// A parameter of our Via that leads the responses back, for those who do not remember where the request came
    /// from.
    pub(crate) back: Option<(&'a str, &'a str)>,
    /// Where the request came from, and the mark of its UAS; `None` leaves the dialog without us.
    pub(crate) record_route: Option<(&'a Interface, MarkText)>,
    /// Where it goes to.
    pub(crate) to: &'a Interface,
    /// Max-Breadth of this branch (RFC 5393 section 5.3.3).
    pub(crate) max_breadth: Option<u32>,
}

/// The largest Max-Breadth that is taken, and that of a request without one (RFC 5393 section 5.3.3).
const MAXIMUM_BREADTH: u32 = 60;

/// Max-Forwards of a request that has none (RFC 3261 section 16.6 step 3).
const DEFAULT_MAX_FORWARDS: u8 = 70;

/// Room for a Via or a URI of ours that is no longer than most.
const USUAL_LENGTH: usize = 128;

/// Makes the copy. The request is as it was received but for what routed it here.
pub(crate) fn copy(request: &Message, how: &Forwarding<'_>, tokens: &FlowTokens) -> Message {
    let mut copy = request.clone();
    if copy.request_uri() != Some(how.request_uri) {
        copy.set_request_uri(how.request_uri);
    }
    let max_forwards = match copy.max_forwards() {
        Some(value) => value.saturating_sub(1),
        None => DEFAULT_MAX_FORWARDS,
    };
    copy.set_max_forwards(max_forwards);
    if let Some(max_breadth) = how.max_breadth {
        copy.replace(Name::MaxBreadth, decimal(max_breadth));
    }
    if !how.path.is_empty() {
        copy.push_front(Name::Route, how.path);
    }
    route::postprocess(&mut copy);
    if let Some((from, mark)) = how.record_route {
        let scheme = record_route_scheme(&copy);
        for side in record_routed(from, how.to).into_iter().flatten() {
            let mut value = String::with_capacity(USUAL_LENGTH);
            push_record_route(&mut value, side, from, how.to, scheme, tokens, &mark);
            copy.push_front(Name::RecordRoute, value);
        }
    }
    let mut via = String::with_capacity(USUAL_LENGTH);
    push_via(&mut via, how);
    copy.push_front(Name::Via, via);
    if how.to.transport.is_reliable() {
        copy.ensure_content_length();
    }
    copy
}

/// Appends the value of our Via.
fn push_via(text: &mut String, how: &Forwarding<'_>) {
    text.push_str("SIP/2.0/");
    text.push_str(how.to.transport.via_name());
    text.push(' ');
    text.push_str(how.to.source.as_str());
    text.push_str(";branch=");
    text.push_str(how.branch);
    // Over UDP the answer comes back to the port that we send from (RFC 3581 section 3).
    if how.to.transport == Transport::Udp {
        text.push_str(";rport");
    }
    if how.offers_alias {
        text.push_str(";alias");
    }
    if let Some((name, value)) = how.back {
        for part in [";", name, "=", value] {
            text.push_str(part);
        }
    }
}

/// How many branches a request may have at one time (RFC 5393 section 5.3.3). `None` where it does not
/// say so by a number.
pub(crate) fn max_breadth(request: &Message) -> Option<u32> {
    let Some(text) = request.header(Name::MaxBreadth) else {
        return Some(MAXIMUM_BREADTH);
    };
    let is_number = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
    is_number.then(|| {
        let number = text.parse().unwrap_or(u32::MAX);
        number.min(MAXIMUM_BREADTH)
    })
}

/// Whether we want to see the later requests of the dialog that a request begins or belongs to: all
/// but those that are known to stand for themselves or to end a dialog.
pub(crate) fn is_record_routed(method: &Method) -> bool {
    !matches!(
        method,
        Method::Register
            | Method::Options
            | Method::Message
            | Method::Publish
            | Method::Bye
            | Method::Cancel
            | Method::Ack
            | Method::Prack
            | Method::Info
    )
}

/// The flow of a request, where later ones to its sender must go along it: where the sender is the
/// user agent itself, and is not at its Contact.
pub(crate) fn needed_flow(request: &Message, arrival: &Flow) -> Option<Flow> {
    if request.contains(Name::RecordRoute) || !request.has_one_via() {
        return None;
    }
    let Some(Ok(sip::Contact::Address(contact))) = request.contacts().next() else {
        return None;
    };
    let is_reached = match contact.parse_uri() {
        Ok(Uri::Sip(uri)) => is_at_contact(arrival, &uri.into()),
        _ => return None,
    };
    (!is_reached).then_some(*arrival)
}

/// The scheme of our Record-Route values: SIPS where the request that goes out has a SIPS URI to follow, and
/// only there (RFC 3261 section 16.6 step 4).
fn record_route_scheme(copy: &Message) -> Scheme {
    let is_secure = match copy.routes().next() {
        Some(route) => route.is_ok_and(|route| is_sips(route.uri())),
        None => false,
    } || copy.request_uri().is_some_and(is_sips);
    if is_secure { Scheme::Sips } else { Scheme::Sip }
}

/// The scheme of a URI of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Sip,
    Sips,
}

/// The sides that have a Record-Route value of ours, in the order in which these are put before those that are
/// there. Both where they differ, each with the transport and address of its side (RFC 5658 section 5).
fn record_routed<'a>(from: &'a Interface, to: &'a Interface) -> [Option<&'a Interface>; 2] {
    let is_one = from.transport == to.transport
        && from.source == to.source
        && from.flow.is_none()
        && to.flow.is_none();
    match is_one {
        true => [Some(to), None],
        false => [Some(from), Some(to)],
    }
}

/// Appends the Record-Route value of a side.
fn push_record_route(
    text: &mut String,
    side: &Interface,
    from: &Interface,
    to: &Interface,
    scheme: Scheme,
    tokens: &FlowTokens,
    mark: &MarkText,
) {
    text.push('<');
    push_own_route(text, side, scheme, from.transport != to.transport, tokens);
    for part in [";", CALL, "="] {
        text.push_str(part);
    }
    text.push_str(mark.as_str());
    text.push('>');
}

/// The Path value that leads requests to a user agent along its flow (RFC 5626 section 5.1).
pub(crate) fn path_value(side: &Interface, tokens: &FlowTokens) -> String {
    let scheme = if side.transport.is_secure() {
        Scheme::Sips
    } else {
        Scheme::Sip
    };
    let mut value = String::from("<");
    push_own_route(&mut value, side, scheme, true, tokens);
    value.push_str(";ob>");
    value
}

/// Appends a URI of ours that leads requests this way. UDP goes without saying unless the other side is not UDP; any other
/// transport has to be named, or requests in the dialog would come over UDP (RFC 5658 section 6).
///
/// Toward a neighbour who speaks TLS although the request has no SIPS URI, `transport=tls` is named. RFC 5658
/// section 6.2 forbids that and wants a SIPS URI, which RFC 3261 section 16.6 step 4 forbids there; and phones
/// that know no SIPS URI do know the parameter.
fn push_own_route(
    uri: &mut String,
    side: &Interface,
    scheme: Scheme,
    names_transport: bool,
    tokens: &FlowTokens,
) {
    let (scheme, transport) = match (scheme, side.transport) {
        (Scheme::Sips, transport) if transport.is_secure() => ("sips", under_tls(transport)),
        (_, transport) => ("sip", transport.uri_parameter()),
    };
    uri.push_str(scheme);
    uri.push(':');
    if let Some(flow) = &side.flow {
        tokens.push_to(uri, flow);
        uri.push('@');
    }
    uri.push_str(side.source.as_str());
    if names_transport || side.transport != Transport::Udp {
        uri.push_str(";transport=");
        uri.push_str(transport);
    }
    uri.push_str(";lr");
}

/// What a SIPS URI names as its transport: what TLS runs over (RFC 3261 section 26.2.2).
fn under_tls(transport: Transport) -> &'static str {
    match transport {
        Transport::Tls => "tcp",
        Transport::TlsSctp => "sctp",
        other => other.uri_parameter(),
    }
}

#[cfg(test)]
mod tests {
    use sip::ConnectionId;

    use std::sync::Arc;

    use super::super::keys::Keys;
    use super::*;

    fn side(transport: Transport, has_flow: bool) -> Interface {
        let flow = Flow {
            transport,
            local: "192.0.2.1:5060".parse().expect("an address"),
            remote: "192.0.2.9:5062".parse().expect("an address"),
            connection: ConnectionId(7),
            stream: 0,
        };
        Interface {
            transport,
            source: Arc::new(flow.local.into()),
            flow: has_flow.then_some(flow),
        }
    }

    fn request(method: Method) -> Message {
        Message::request(method, "sip:bob@example.com")
            .with(Name::Via, "SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1")
            .with(Name::MaxForwards, "70")
            .with(Name::CallId, "a84b4c76e66710")
    }

    #[test]
    fn a_copy_has_our_via_on_top_and_one_hop_less() {
        let keys = Keys::from_bytes([1; 32]);
        let tokens = FlowTokens::new(&keys, 7);
        let (from, to) = (side(Transport::Udp, false), side(Transport::Tcp, true));
        let how = Forwarding {
            request_uri: "sip:bob@192.0.2.7",
            path: "<sip:192.0.2.3;lr>",
            branch: "z9hG4bK2.1",
            offers_alias: true,
            back: Some(("flow", "token")),
            record_route: Some((&from, MarkText::VOID)),
            to: &to,
            max_breadth: Some(60),
        };
        let copy = copy(&request(Method::Invite), &how, &tokens);
        assert_eq!(copy.request_uri(), Some("sip:bob@192.0.2.7"));
        let vias: Vec<_> = copy.text_values(Name::Via).collect();
        assert_eq!(
            vias,
            [
                "SIP/2.0/TCP 192.0.2.1:5060;branch=z9hG4bK2.1;alias;flow=token",
                "SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1"
            ]
        );
        assert_eq!(copy.max_forwards(), Some(69));
        assert_eq!(copy.header(Name::MaxBreadth), Some("60"));
        assert_eq!(copy.header(Name::Route), Some("<sip:192.0.2.3;lr>"));
        // Two, since it changes the transport (RFC 5658 section 3).
        assert_eq!(copy.values(Name::RecordRoute).count(), 2);
    }
}
