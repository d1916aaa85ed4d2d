//! The proxy stays on the path of a dialog: Record-Route, Route, and the flows of user agents that
//! cannot be reached at their Contact (RFC 3261 sections 16.4 and 16.6, RFC 5658, RFC 5626 section 5).

mod flows;
mod marks;
mod overloaded;
mod record_route;
mod routes;
mod secure;
mod strangers;

use std::time::Duration;

use crate::common::{self, Bench, Sent, request, response};
use sip::{Flow, Message, Method, Name, Target};

const UDP: &str = "udp:192.0.2.1:5060";
const TCP: &str = "tcp:192.0.2.1:5060";
const SCTP: &str = "sctp:192.0.2.1:5060";
const TLS: &str = "tls:192.0.2.1:5061";

fn bench() -> Bench {
    Bench::new(&[UDP, TCP, SCTP], &["example.com"])
}

/// A request in the dialog that an INVITE has begun, as the callee has got it, by the callee if it is `reversed`: along
/// the route set of that side (RFC 3261 section 12).
fn within(
    forwarded: &Sent,
    answer: &Sent,
    method: &Method,
    contact: &str,
    reversed: bool,
) -> Message {
    let routes = match reversed {
        true => forwarded.values(Name::RecordRoute),
        false => answer.values(Name::RecordRoute).into_iter().rev().collect(),
    };
    let (from, to) = if reversed {
        (Name::To, Name::From)
    } else {
        (Name::From, Name::To)
    };
    let value = |name| common::values(&answer.message, name)[0].clone();
    let call = forwarded.value(Name::CallId);
    let mut request = Message::request(method.clone(), contact)
        .with(
            Name::Via,
            format!("SIP/2.0/UDP 203.0.113.5:9;rport;branch=z9hG4bK{method}{reversed}{call}"),
        )
        .with(Name::MaxForwards, "70")
        .with(Name::From, value(from))
        .with(Name::To, value(to))
        .with(Name::CallId, call)
        .with(Name::CSeq, format!("1 {method}"));
    for route in routes {
        request.push_back(Name::Route, route);
    }
    request
}

/// A caller with its INVITE and a callee who is registered: the flows of both and what they call
/// themselves.
struct Side {
    flow: Flow,
    contact: &'static str,
}

/// Lets one side call the other, checks that ACK and BYE in both directions arrive along `to_callee`
/// and `to_caller`, and returns the Record-Route values that the callee saw, without
/// the mark of the call.
fn call(
    bench: &mut Bench,
    caller: &Side,
    callee: &Side,
    to_callee: &str,
    to_caller: &str,
) -> Vec<String> {
    bench.register(callee.flow, "bob", &format!("<{}>", callee.contact));
    let mut invite = request(Method::Invite, "sip:bob@example.com", "call");
    invite.replace(Name::Contact, format!("<{}>", caller.contact));
    invite.replace(
        Name::Via,
        format!(
            "SIP/2.0/{} {};branch=z9hG4bKcall;rport",
            caller.flow.transport.via_name(),
            caller
                .contact
                .split_once('@')
                .and_then(|(_, host)| host.split(';').next())
                .expect("a host")
        ),
    );
    bench.receive(caller.flow, invite.clone());
    let [trying, forwarded] = bench.two();
    trying.answers(100).goes_along(caller.flow);
    forwarded
        .is(Method::Invite, callee.contact)
        .goes_along(callee.flow);
    let record_routes = forwarded.values(Name::RecordRoute);

    let ok = response(&forwarded.message, 200, "b1")
        .with(Name::Contact, format!("<{}>", callee.contact));
    bench.receive(callee.flow, ok);
    let ok = bench.one();
    ok.answers(200).goes_along(caller.flow);
    // Each side has marks of its own.
    let record_routes_of_caller = ok.values(Name::RecordRoute);
    assert!(
        record_routes
            .iter()
            .zip(&record_routes_of_caller)
            .all(|(one, other)| one != other)
    );
    assert_eq!(
        unmarked(record_routes_of_caller),
        unmarked(record_routes.clone())
    );

    bench.receive(
        caller.flow,
        within(&forwarded, &ok, &Method::Ack, callee.contact, false),
    );
    let ack = bench.one();
    ack.is(Method::Ack, callee.contact).goes_to(to_callee);
    assert!(ack.values(Name::Route).is_empty());
    same_stream(&ack, callee);

    bench.receive(
        callee.flow,
        within(&forwarded, &ok, &Method::Bye, caller.contact, true),
    );
    let bye = bench.one();
    bye.is(Method::Bye, caller.contact).goes_to(to_caller);
    assert!(bye.values(Name::Route).is_empty());
    assert!(bye.values(Name::RecordRoute).is_empty());
    same_stream(&bye, caller);
    bench.receive(caller.flow, response(&bye.message, 200, ""));
    bench.one().answers(200).goes_along(callee.flow);

    bench.receive(
        caller.flow,
        within(&forwarded, &ok, &Method::Bye, callee.contact, false),
    );
    let bye = bench.one();
    bye.is(Method::Bye, callee.contact).goes_to(to_callee);
    same_stream(&bye, callee);
    bench.receive(callee.flow, response(&bye.message, 481, ""));
    bench.one().answers(481);
    bench.pass(Duration::from_secs(40));
    bench.assert_idle();
    unmarked(record_routes)
}

/// Record-Route values of ours without the mark of the call, which all of them have.
fn unmarked(routes: Vec<String>) -> Vec<String> {
    let unmarked = |route: String| {
        let (uri, mark) = route.split_once(";call=").expect("a mark");
        assert_eq!(mark.len(), 33, "{route}");
        format!("{uri}>")
    };
    routes.into_iter().map(unmarked).collect()
}

/// What goes along a flow goes on the stream of that side.
fn same_stream(sent: &Sent, side: &Side) {
    if let Target::Flow(flow) | Target::FlowOrAddress(flow, _) = sent.target {
        assert_eq!(flow, side.flow);
    } else {
        assert_eq!(side.flow.stream, 0);
    }
}
