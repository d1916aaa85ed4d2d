//! The copy of a request that goes to a next hop (RFC 3261 section 16.6 steps 1 to 9).

use std::sync::Arc;

use sip::{Flow, Message, Method, Name, Transport, Uri};

use super::dialog_mark::{CALL, DialogMark, DialogMarks};
use super::flow_token::FlowTokens;
use super::route;
use super::target::{is_at_contact, is_sips};
use crate::HostPort;
use crate::text::decimal;

/// Our side toward one neighbour.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Side {
    pub(crate) transport: Transport,
    /// Our address as that neighbour sees it.
    pub(crate) source: Arc<HostPort>,
    /// The flow to the neighbour, where it is a user agent that can be reached only along it.
    pub(crate) flow: Option<Flow>,
}

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
    /// A parameter of our Via that has a token of the flow which the request came along, for those who
    /// do not remember it.
    pub(crate) back: Option<(&'a str, &'a Flow)>,
    /// Where the request came from; `None` leaves the dialog without us.
    pub(crate) record_route_from: Option<&'a Side>,
    /// Where it goes to.
    pub(crate) to: &'a Side,
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
pub(crate) fn forwarded(
    request: &Message,
    how: &Forwarding<'_>,
    tokens: &FlowTokens,
    marks: &DialogMarks,
) -> Message {
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
    if let Some(from) = how.record_route_from {
        let scheme = record_route_scheme(&copy);
        let mark = marks.of(request);
        for uri in record_routes(from, how.to, scheme, tokens, mark) {
            copy.push_front(Name::RecordRoute, uri);
        }
    }
    // Over UDP the answer comes back to the port that we send from (RFC 3581 section 3).
    let rport = if how.to.transport == Transport::Udp {
        ";rport"
    } else {
        ""
    };
    let mut via = String::with_capacity(USUAL_LENGTH);
    via.push_str("SIP/2.0/");
    via.push_str(how.to.transport.via_name());
    via.push(' ');
    how.to.source.push_to(&mut via);
    via.push_str(";branch=");
    via.push_str(how.branch);
    via.push_str(rport);
    if how.offers_alias {
        via.push_str(";alias");
    }
    if let Some((name, flow)) = how.back {
        for part in [";", name, "=", &tokens.encode(flow)] {
            via.push_str(part);
        }
    }
    copy.push_front(Name::Via, via);
    if how.to.transport.is_reliable() {
        copy.ensure_content_length();
    }
    copy
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
        Ok(Uri::Sip(uri)) => is_at_contact(arrival, &uri),
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

/// Our Record-Route values, in the order in which they are put before those that are there. Two where
/// the sides differ, each with the transport and address of its side (RFC 5658 section 5).
fn record_routes(
    from: &Side,
    to: &Side,
    scheme: Scheme,
    tokens: &FlowTokens,
    mark: DialogMark,
) -> Vec<String> {
    let names_transport = from.transport != to.transport;
    let written = |side| {
        let mut value = own_route(side, scheme, names_transport, tokens);
        value.insert(0, '<');
        for part in [";", CALL, "="] {
            value.push_str(part);
        }
        mark.push_to(&mut value);
        value.push('>');
        value
    };
    if !names_transport && from.source == to.source && from.flow.is_none() && to.flow.is_none() {
        return vec![written(to)];
    }
    vec![written(from), written(to)]
}

/// The Path value that leads requests to a user agent along its flow (RFC 5626 section 5.1).
pub(crate) fn path_value(side: &Side, tokens: &FlowTokens) -> String {
    let scheme = if side.transport.is_secure() {
        Scheme::Sips
    } else {
        Scheme::Sip
    };
    format!("<{};ob>", own_route(side, scheme, true, tokens))
}

/// A URI of ours that leads requests this way. UDP goes without saying unless the other side is not UDP; any other
/// transport has to be named, or requests in the dialog would come over UDP (RFC 5658 section 6).
///
/// Toward a neighbour who speaks TLS although the request has no SIPS URI, `transport=tls` is named. RFC 5658
/// section 6.2 forbids that and wants a SIPS URI, which RFC 3261 section 16.6 step 4 forbids there; and phones
/// that know no SIPS URI do know the parameter.
fn own_route(side: &Side, scheme: Scheme, names_transport: bool, tokens: &FlowTokens) -> String {
    let (scheme, transport) = match (scheme, side.transport) {
        (Scheme::Sips, transport) if transport.is_secure() => ("sips", under_tls(transport)),
        (_, transport) => ("sip", transport.uri_parameter()),
    };
    let mut uri = String::with_capacity(USUAL_LENGTH);
    uri.push_str(scheme);
    uri.push(':');
    if let Some(flow) = &side.flow {
        uri.push_str(&tokens.encode(flow));
        uri.push('@');
    }
    side.source.push_to(&mut uri);
    if names_transport || side.transport != Transport::Udp {
        uri.push_str(";transport=");
        uri.push_str(transport);
    }
    uri.push_str(";lr");
    uri
}

/// What a SIPS URI names as its transport: what TLS runs over (RFC 3261 section 26.2.2).
fn under_tls(transport: Transport) -> &'static str {
    match transport {
        Transport::Tls => "tcp",
        Transport::TlsSctp => "sctp",
        other => other.uri_parameter(),
    }
}
