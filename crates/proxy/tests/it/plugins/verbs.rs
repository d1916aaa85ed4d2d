//! Each verb: what becomes of a request.

use super::{Scene, alice, invite};
use crate::common::request;
use sip::{Method, Name};

/// What alice gets, or bob, where on_request does this.
fn after(body: &str) -> Scene {
    Scene::new(&format!("function on_request(request) {body} end"))
}

#[test]
fn reply_answers_with_a_reason_and_fields() {
    let sent = after(r#"request:reply(403, "Not Today", { ["X-Why"] = "Sunday" })"#).outcome();
    sent.answers(403);
    assert_eq!(sent.message.reason(), Some("Not Today"));
    assert_eq!(sent.value(Name::Other("X-Why")), "Sunday");
    let sent = after("request:reply(486)").outcome();
    assert_eq!(sent.message.reason(), Some("Busy Here"));
}

#[test]
fn a_request_other_than_invite_may_be_served() {
    let mut scene = after("request:reply(200)");
    let sent = scene.request(request(Method::Message, "sip:bob@example.com", "m"));
    sent[0].answers(200);
    scene.outcome().answers(500);
    assert_eq!(
        scene.errors(),
        ["on_request: script.lua:1: the status is 300 or more, and less than 700"]
    );
}

#[test]
fn forward_tries_one_uri_after_the_other() {
    let mut scene = after(r#"request:forward("sip:1@192.0.2.71", "sip:2@192.0.2.72")"#);
    let first = scene.outcome();
    first
        .is(Method::Invite, "sip:1@192.0.2.71")
        .goes_to("udp:192.0.2.71:5060");
    let there = crate::common::flow(super::HERE, "192.0.2.71:5060");
    scene.bench.receive(there, super::answer(&first, 503));
    let sent = scene.sent();
    let second = sent
        .iter()
        .find(|sent| sent.message.method() == Some(&Method::Invite));
    second
        .expect("an INVITE")
        .is(Method::Invite, "sip:2@192.0.2.72");
}

#[test]
fn fork_tries_all_uris_together() {
    let sent = after(r#"request:fork("sip:1@192.0.2.71", "sip:2@192.0.2.72")"#).call();
    assert_eq!(sent.len(), 2);
    sent[0].is(Method::Invite, "sip:1@192.0.2.71");
    sent[1].is(Method::Invite, "sip:2@192.0.2.72");
}

#[test]
fn route_leaves_the_request_uri_as_it_is() {
    let sent = after(r#"request:route("sip:192.0.2.70;transport=udp")"#).outcome();
    sent.is(Method::Invite, "sip:bob@example.com")
        .goes_to("udp:192.0.2.70:5060");
}

#[test]
fn redirect_names_other_places() {
    let sent = after(r#"request:redirect("sip:1@192.0.2.71", "sip:2@192.0.2.72")"#).outcome();
    sent.answers(302);
    assert_eq!(
        sent.values(Name::Contact),
        ["<sip:1@192.0.2.71>;q=0.999", "<sip:2@192.0.2.72>;q=0.499"]
    );
}

#[test]
fn drop_forgets_the_request() {
    let mut scene = after("request:drop()");
    let before = scene.bench.proxy.transactions();
    assert!(scene.call().is_empty());
    assert_eq!(scene.bench.proxy.transactions(), before);
    // A retransmission is asked about anew.
    scene.bench.receive(alice(), invite("call"));
    assert_eq!(scene.counts().hooks, [("on_request", 2, 0)]);
}

#[test]
fn what_cannot_be_is_an_error_with_its_line() {
    for (body, error) in [
        (
            "request:reply(99)",
            "the status is 300 or more, and less than 700",
        ),
        ("request:forward()", "1 to 64 URIs are expected"),
        ("request:forward('tel:1')", "\"tel:1\" is no SIP URI"),
        ("request:set_header('Via', 'x')", "Via cannot be changed"),
        ("request:set_header('t', 'x')", "To cannot be changed"),
        (
            "request:remove_header('call-id')",
            "Call-ID cannot be changed",
        ),
        (
            "request:set_header('no name', 'x')",
            "this is no name of a header field",
        ),
        (
            "request:reply(403, 'two\\nlines')",
            "the reason is no line of text",
        ),
        (
            "request:reply(403) request:drop()",
            "it is decided already what becomes of it",
        ),
        (
            "request:set_header('X-Long', ('x'):rep(65535))",
            "the message would be longer than 65535 octets",
        ),
        (
            "kept = kept or request request.uri = kept.nothing.more",
            "attempt to index a nil value (field 'nothing')",
        ),
        (
            "tandem.log('loud', 'x')",
            "the level is \"debug\", \"info\", \"warn\" or \"error\"",
        ),
    ] {
        let mut scene = after(body);
        scene.outcome().answers(500);
        assert_eq!(
            scene.errors(),
            [format!("on_request: script.lua:1: {error}")],
            "{body}"
        );
    }
}

#[test]
fn an_object_is_of_no_use_when_its_hook_is_over() {
    let mut scene = after("if kept then kept:reply(403) end kept = request");
    scene.outcome().is(Method::Invite, "sip:bob@192.0.2.20");
    scene.request(invite("next"))[0].answers(500);
    assert_eq!(
        scene.errors(),
        ["on_request: script.lua:1: the hook that this object was for is over"]
    );
}

#[test]
fn a_value_brings_in_no_field_of_its_own() {
    let sent = after(r#"request:set_header("X-One", "1\r\nX-Two: 2")"#).outcome();
    assert!(!sent.message.contains(Name::Other("X-Two")));
    assert_eq!(sent.value(Name::Other("X-One")), "1  X-Two: 2");
}
