//! Routes: taking those that have led here off a request (RFC 3261 section 16.4), and giving a
//! forwarded one the form that its next hop expects (section 16.6 step 6).

use sip::{Flow, Message, Name, NameAddr, Uri};

use super::dialog_mark::{DialogMarks, Mark, NextHop};
use super::flow_token::FlowTokens;
use super::identity::Identity;
use super::read_uri::ReadUri;
use super::rejection::Rejection;
use super::route_cache::{CachedRoute, RouteCache};
use super::target::Target;
use super::uri;

/// The flow that a Route of ours names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Along {
    pub(crate) flow: Flow,
    /// The Route was our Path in a REGISTER (RFC 5626 section 5.1).
    pub(crate) is_edge: bool,
}

/// What has led a request here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preprocessed {
    /// The flow that the last Route of ours names: along it the request goes on.
    pub(crate) along: Option<Along>,
    /// The mark of the last Route of ours: that it is one is to be found out.
    pub(crate) mark: Option<Mark>,
    /// What leads the request on.
    pub(crate) next_hop: NextHop,
    /// How many Route values at the beginning are ours.
    pub(crate) routes: usize,
    /// There are others behind them.
    pub(crate) has_others: bool,
    /// All of them were known by how they are written.
    pub(crate) are_known: bool,
}

/// What requests are read with that come back to us by our own Routes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnRoutes<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) tokens: &'a FlowTokens,
    pub(crate) known: &'a RouteCache,
    pub(crate) marks: &'a DialogMarks,
}

impl OwnRoutes<'_> {
    /// What a Route value says that is known but for its mark to be one of ours, and has something that is written like
    /// one.
    fn known(&self, value: &[u8], arrival: &Flow) -> Option<(Option<Flow>, Mark)> {
        let CachedRoute { mark, flow } = self.known.find(value, arrival.local)?;
        Some((flow, Mark::read(mark)?))
    }
}

/// Takes off the Request-URI what has led a request here. Returns what that says. `is_loose`: the Request-URI is that of a
/// loose router.
pub(crate) fn preprocess(
    request: &mut Message,
    arrival: &Flow,
    own: OwnRoutes<'_>,
    is_loose: bool,
) -> Result<Preprocessed, Rejection> {
    let led = match is_loose {
        true => undo_strict_routing(request, arrival, own)?,
        false => None,
    };
    strip_maddr(request, arrival, own.identity);
    Ok(led.unwrap_or_default())
}

/// Finds what of the Routes has led a request here, after what its Request-URI has said.
///
/// Several Route values of ours in a row are taken off at once: two stand for the two sides of one
/// passage through us (RFC 5658 section 5), more for a spiral, which would only come back. The last
/// one is always that of the side which the request goes to, since a passage with a flow has two. Its
/// flow may be the one that the request came along: users can share one.
pub(crate) fn led_by_routes(
    request: &Message,
    arrival: &Flow,
    own: OwnRoutes<'_>,
    mut led: Preprocessed,
) -> Result<Preprocessed, Rejection> {
    led.are_known = true;
    for value in request.values(Name::Route) {
        if let Some((flow, mark)) = own.known(value, arrival) {
            led.along = flow.map(|flow| Along {
                flow,
                is_edge: false,
            });
            led.mark = Some(mark);
            led.next_hop = own.marks.along(value);
            led.routes += 1;
            continue;
        }
        let route = NameAddr::parse(value).map_err(|_| MALFORMED_ROUTE)?;
        let uri = match route.parse_uri() {
            Ok(Uri::Sip(uri)) => ReadUri::from(uri),
            _ => return Err(MALFORMED_ROUTE),
        };
        if !own.identity.is_own(&uri, arrival.local) {
            led.has_others = true;
            if led.mark.is_some() {
                led.next_hop = NextHop::Route(own.marks.remote_target(uri.as_str()));
            }
            break;
        }
        let route = led_by(&uri, arrival, own)?;
        led.along = route.along;
        led.mark = route.mark;
        led.next_hop = route.next_hop;
        led.routes += 1;
        led.are_known = false;
    }
    Ok(led)
}

/// Whether it is a Route that decides where a request goes next.
pub(crate) fn has_route(request: &Message, target: &Target) -> bool {
    !target.path.is_empty() || request.contains(Name::Route)
}

/// The URI that decides where a request goes next: the first Route, which is that of the target's path
/// if it has one, else the URI of its target.
pub(crate) fn next_hop<'a>(request: &'a Message, target: &'a Target) -> Option<Uri<'a>> {
    if !target.path.is_empty() {
        // Written here, each value in angle brackets: see `registrar`.
        let (first, _) = target.path.strip_prefix('<')?.split_once('>')?;
        return Uri::parse(first).ok();
    }
    match request.routes().next() {
        Some(route) => route.ok()?.parse_uri().ok(),
        None => Uri::parse(&target.uri).ok(),
    }
}

/// Gives a request whose first Route is a strict router the form that such a one expects: its own URI
/// in the request line, the Request-URI as the last Route (RFC 3261 section 16.6 step 6).
pub(crate) fn postprocess(request: &mut Message) {
    let Some(Ok(first)) = request.routes().next() else {
        return;
    };
    let is_strict =
        matches!(first.parse_uri(), Ok(Uri::Sip(uri)) if !uri.parameters().contains("lr"));
    if !is_strict {
        return;
    }
    let router = first.uri().to_owned();
    let Some(request_uri) = request.request_uri().map(str::to_owned) else {
        return;
    };
    request.remove_first_value(Name::Route);
    request.push_back(Name::Route, format!("<{request_uri}>"));
    request.set_request_uri(&uri::request_uri(&router));
}

/// Where a strict router has put our Record-Route URI into the request line, the last Route is the
/// Request-URI that was meant (RFC 3261 section 16.4). Returns what the URI says.
fn undo_strict_routing(
    request: &mut Message,
    arrival: &Flow,
    own: OwnRoutes<'_>,
) -> Result<Option<Preprocessed>, Rejection> {
    let Some(Uri::Sip(uri)) = request.parse_request_uri() else {
        return Ok(None);
    };
    let uri = ReadUri::from(uri);
    // Only our Record-Route URIs are loose routers at our address.
    if !uri.is_loose || !own.identity.is_own(&uri, arrival.local) {
        return Ok(None);
    }
    let routes: Vec<Vec<u8>> = request.values(Name::Route).map(<[u8]>::to_vec).collect();
    let Some((last, others)) = routes.split_last() else {
        return Ok(None);
    };
    let led = led_by(&uri, arrival, own)?;
    let meant = NameAddr::parse(last).map_err(|_| MALFORMED_ROUTE)?.uri();
    request.set_request_uri(&uri::request_uri(meant));
    request.remove_all(Name::Route);
    for route in others {
        request.push_back(Name::Route, route);
    }
    Ok(Some(led))
}

/// Takes maddr off a Request-URI that it has led to us (RFC 3261 section 16.4).
fn strip_maddr(request: &mut Message, arrival: &Flow, identity: &Identity) {
    let Some(Uri::Sip(request_uri)) = request.parse_request_uri() else {
        return;
    };
    let request_uri = ReadUri::from(request_uri);
    let Some(maddr) = request_uri.maddr else {
        return;
    };
    let text = format!("sip:{maddr}:{}", arrival.local.port());
    let is_ours = matches!(Uri::parse(&text), Ok(Uri::Sip(uri)) if identity.is_own(&uri.into(), arrival.local));
    let came_as_asked = uri::destination(&request_uri, false).is_some_and(|destination| {
        destination.port_or_default() == arrival.local.port()
            && destination.transport_or_default() == arrival.transport
    });
    if is_ours && came_as_asked {
        let stripped = uri::without_maddr(&request_uri);
        request.set_request_uri(&stripped);
    }
}

/// What a URI of ours says.
fn led_by(
    uri: &ReadUri<'_>,
    arrival: &Flow,
    own: OwnRoutes<'_>,
) -> Result<Preprocessed, Rejection> {
    Ok(Preprocessed {
        along: flow_of(uri, arrival, own.tokens)?,
        mark: uri.call.and_then(|written| Mark::read(written.as_bytes())),
        next_hop: own.marks.along(uri.as_str().as_bytes()),
        ..Preprocessed::default()
    })
}

/// The flow whose token is a URI's user part. Where we have given out the URI as a Path, a request that
/// comes along that very flow is on its way out, and a token that we have not written is forged (RFC 5626
/// section 5.3).
fn flow_of(
    uri: &ReadUri<'_>,
    arrival: &Flow,
    tokens: &FlowTokens,
) -> Result<Option<Along>, Rejection> {
    let Some(user) = uri.user() else {
        return Ok(None);
    };
    let is_edge = uri.is_outbound;
    match tokens.decode(user) {
        Some(flow) if is_edge && is_same_place(&flow, arrival) => Ok(None),
        Some(flow) => Ok(Some(Along { flow, is_edge })),
        None if is_edge => Err(Rejection::new(403, "Flow Token Not Ours")),
        None => Ok(None),
    }
}

/// Whether two flows lead to the same address over the same transport.
fn is_same_place(one: &Flow, other: &Flow) -> bool {
    (one.transport, one.remote) == (other.transport, other.remote)
}

const MALFORMED_ROUTE: Rejection = Rejection::new(400, "Malformed Route");

#[cfg(test)]
mod tests {
    use sip::{ConnectionId, Method, Transport};

    use super::super::dialog_mark::Stage;
    use super::super::identity::Listener;
    use super::super::keys::Keys;
    use super::*;

    fn flow(port: u16) -> Flow {
        Flow {
            transport: Transport::Udp,
            local: ([192, 0, 2, 1], port).into(),
            remote: ([192, 0, 2, 9], 5060).into(),
            connection: ConnectionId(7),
            stream: 0,
        }
    }

    fn request(routes: &[&str]) -> Message {
        let request =
            Message::request(Method::Bye, "sip:bob@192.0.2.7").with(Name::CallId, "a84b4c76");
        let add = |request: Message, route: &&str| request.with(Name::Route, *route);
        routes.iter().fold(request, add)
    }

    /// Whatever has been known before: what led a request here is what its Routes say.
    #[test]
    fn known_routes_lead_where_read_ones_do() {
        let keys = Keys::from_bytes([1; 32]);
        let (tokens, marks) = (FlowTokens::new(&keys, 7), DialogMarks::new(&keys));
        let listeners = [5060, 5070].map(|port| Listener {
            transport: Transport::Udp,
            address: flow(port).local,
        });
        let identity = Identity::new(listeners.into(), None, Vec::new(), Vec::new());
        let mark = |call_id| {
            let party = marks.party(call_id, b"1", b"2", None);
            let target = marks.remote_target("sip:bob@192.0.2.7");
            let mark = marks.mark(&party, Stage::Uac, target, NextHop::RequestUri);
            mark.text().as_str().to_owned()
        };
        let (ours, others) = (mark(b"a84b4c76"), mark(b"another"));
        let [mut one_token, mut other_token] = [String::new(), String::new()];
        tokens.push_to(&mut one_token, &flow(1));
        tokens.push_to(&mut other_token, &flow(2));
        let values: Vec<String> = [
            "<sip:192.0.2.1;lr;call=OURS>",
            "<sip:ONE@192.0.2.1;lr;call=OURS>",
            "<sip:ONE@192.0.2.1;lr;call=OTHERS>",
            "<sip:ONE@192.0.2.1;lr;ob;call=OURS>",
            "<sip:ONE@192.0.2.1:5070;lr;call=OURS>",
            "<sip:TWO@192.0.2.1;lr;call=OURS>",
            "<sip:192.0.2.1;lr;call=OTHERS>",
            "<sip:192.0.2.1;lr;call=>",
            "<sip:192.0.2.1:5070;lr;call=OURS>",
            "<sip:192.0.2.1;transport=tcp;lr;call=OURS>",
            "<sip:192.0.2.1;lr;ob;call=OURS>",
            "<sip:192.0.2.1;call=OTHERS;call=OURS>",
            "<sip:192.0.2.1;call=OURS;call=OTHERS>",
            "<sip:bob@192.0.2.1;lr;call=OURS>",
            "<sip:192.0.2.1;lr;call=OURS>;x=\"<sip:192.0.2.1;lr;call=OURS>",
            "<sip:192.0.2.7;lr;call=OURS>",
            "<sip:192.0.2.1;lr;call=\u{e4}OURS>",
            "sip:192.0.2.1;lr;call=OURS>",
            "<tel:+1;call=OURS>",
        ]
        .iter()
        .map(|value| value.replace("OURS", &ours).replace("OTHERS", &others))
        .map(|value| {
            value
                .replace("ONE", &one_token)
                .replace("TWO", &other_token)
        })
        .collect();
        let arrivals = [flow(5060), flow(5070)];
        let none = RouteCache::default();
        let led = |known: &RouteCache, routes: &[&str], arrival| {
            let own = OwnRoutes {
                identity: &identity,
                tokens: &tokens,
                known,
                marks: &marks,
            };
            let led = led_by_routes(&request(routes), arrival, own, Preprocessed::default());
            led.map_err(|rejection| rejection.status)
        };
        let mut known_ones = 0;
        for (first, noted_at) in values
            .iter()
            .flat_map(|value| arrivals.iter().map(move |arrival| (value, arrival)))
        {
            let mut known = RouteCache::default();
            if let Ok(read) = led(&none, &[first], noted_at)
                && read.mark.is_some()
            {
                for _ in 0..2 {
                    known.note(first.as_bytes(), noted_at.local, &tokens);
                }
            }
            for arrival in &arrivals {
                for one in &values {
                    for other in &values {
                        let again = led(&known, &[one, other], arrival);
                        let read = led(&none, &[one, other], arrival);
                        known_ones += usize::from(again.is_ok_and(|led| led.are_known));
                        let but_for_that = |led: Preprocessed| Preprocessed {
                            are_known: false,
                            ..led
                        };
                        assert_eq!(
                            again.map(but_for_that),
                            read.map(but_for_that),
                            "{one}, {other} after {first}"
                        );
                    }
                }
            }
        }
        assert!(known_ones > 0);
    }
}
