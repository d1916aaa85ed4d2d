//! Forwarding to several bindings, and what becomes of their responses (RFC 3261 sections 16.6 to
//! 16.10, RFC 5393 section 5).

use std::time::Duration;

use crate::common::{Bench, Sent, flow, register, request, response};
use proxy::core::{EndedBy, Event};
use sip::{Flow, Message, Method, Name};

const HERE: &str = "udp:192.0.2.1:5060";

fn alice() -> Flow {
    flow(HERE, "192.0.2.9:5060")
}

/// A phone of bob's, by its number.
fn phone(number: u16) -> Flow {
    flow(HERE, &format!("192.0.2.{}:5060", 20 + number))
}

/// A bench on which bob has registered so many phones, with these preferences.
fn bench(preferences: &[&str]) -> Bench {
    let mut bench = Bench::new(&[HERE], &["example.com"]);
    for (number, q) in (0..).zip(preferences) {
        let contact = format!("<sip:bob@192.0.2.{}>;q={q}", 20 + number);
        bench.receive(
            phone(number),
            register("bob", u32::from(number) + 1, &[&contact]),
        );
        bench.one().answers(200);
    }
    bench
}

fn call(bench: &mut Bench) -> Vec<Sent> {
    bench.receive(
        alice(),
        request(Method::Invite, "sip:bob@example.com", "call"),
    );
    let mut sent = bench.sent();
    sent.remove(0).answers(100);
    sent
}

fn cancel() -> Message {
    request(Method::Cancel, "sip:bob@example.com", "call")
}

/// A phone answers; returns what the proxy sends to alice, if anything, and what else it sends.
fn answers(
    bench: &mut Bench,
    number: u16,
    invite: &Sent,
    status: u16,
) -> (Option<Sent>, Vec<Sent>) {
    bench.receive(
        phone(number),
        response(&invite.message, status, &format!("b{number}")),
    );
    let (up, other): (Vec<Sent>, Vec<Sent>) = bench
        .sent()
        .into_iter()
        .partition(|sent| sent.message.is_request().eq(&false));
    assert!(up.len() <= 1, "{up:#?}");
    (up.into_iter().next(), other)
}

/// Who has ended the call, and with what status.
fn end(bench: &Bench) -> (u16, EndedBy) {
    match bench.events.last() {
        Some(Event::CallFailed { status, by, .. }) => (*status, *by),
        other => panic!("{other:?}"),
    }
}

fn methods(sent: &[Sent]) -> Vec<&str> {
    sent.iter()
        .filter_map(|sent| sent.message.method())
        .map(Method::as_str)
        .collect()
}

#[test]
fn the_preferred_phone_is_tried_first_and_equal_ones_together() {
    let mut bench = bench(&["0.3", "0.9", "0.3"]);
    let first = call(&mut bench);
    assert_eq!(first.len(), 1);
    first[0].goes_along(phone(1));
    let (up, sent) = answers(&mut bench, 1, &first[0], 486);
    assert!(up.is_none());
    assert_eq!(methods(&sent), ["ACK", "INVITE", "INVITE"]);
    sent[1].goes_along(phone(0));
    sent[2].goes_along(phone(2));
    assert_ne!(sent[1].branch(), sent[2].branch());
    // Some of the breadth is for phones that register meanwhile.
    assert_eq!(sent[1].value(Name::MaxBreadth), "26");

    let (up, _) = answers(&mut bench, 2, &sent[2], 404);
    assert!(up.is_none());
    let (up, _) = answers(&mut bench, 0, &sent[1], 480);
    assert_eq!(up.expect("the best").status(), 486);
    bench.pass(Duration::from_secs(100));
    bench.sent();
    bench.assert_idle();
}

#[test]
fn the_first_answer_wins_and_the_others_are_cancelled() {
    let mut bench = bench(&["1", "1", "1"]);
    let invites = call(&mut bench);
    assert_eq!(invites.len(), 3);
    assert_eq!(
        answers(&mut bench, 0, &invites[0], 180)
            .0
            .expect("ringing")
            .status(),
        180
    );
    // Only a phone that has answered provisionally is sent a CANCEL.
    let (up, sent) = answers(&mut bench, 1, &invites[1], 200);
    assert_eq!(up.expect("the answer").status(), 200);
    assert_eq!(methods(&sent), ["CANCEL"]);
    sent[0].goes_along(phone(0));
    let (up, sent) = answers(&mut bench, 2, &invites[2], 183);
    assert!(up.is_none());
    assert_eq!(methods(&sent), ["CANCEL"]);
    // One that answers in spite of it makes a dialog as well.
    let (up, _) = answers(&mut bench, 0, &invites[0], 200);
    assert_eq!(
        up.expect("another answer").message.to().expect("To").tag(),
        Some("b0")
    );
    let (up, sent) = answers(&mut bench, 2, &invites[2], 487);
    assert!(up.is_none());
    assert_eq!(methods(&sent), ["ACK"]);
    // And a repeated 2xx is repeated.
    let (up, _) = answers(&mut bench, 1, &invites[1], 200);
    assert_eq!(
        up.expect("the answer again")
            .message
            .to()
            .expect("To")
            .tag(),
        Some("b1")
    );
    assert_eq!(bench.proxy.statistics().calls_answered, 1);
    bench.pass(Duration::from_secs(100));
    bench.sent();
    bench.assert_idle();
}

#[test]
fn a_6xx_ends_all_but_waits_for_the_others() {
    let mut bench = bench(&["1", "1", "0.1"]);
    let invites = call(&mut bench);
    answers(&mut bench, 1, &invites[1], 180);
    let (up, sent) = answers(&mut bench, 0, &invites[0], 603);
    assert!(up.is_none());
    assert_eq!(methods(&sent), ["ACK", "CANCEL"]);
    let (up, sent) = answers(&mut bench, 1, &invites[1], 487);
    assert_eq!(up.expect("the 6xx").status(), 603);
    // The third phone is not tried.
    assert_eq!(methods(&sent), ["ACK"]);
}

#[test]
fn a_6xx_does_not_hide_an_answer() {
    let mut bench = bench(&["1", "1"]);
    let invites = call(&mut bench);
    answers(&mut bench, 1, &invites[1], 180);
    answers(&mut bench, 0, &invites[0], 603);
    assert_eq!(
        answers(&mut bench, 1, &invites[1], 200)
            .0
            .expect("the answer")
            .status(),
        200
    );
}

#[test]
fn challenges_of_all_phones_go_up_together() {
    let mut bench = bench(&["1", "1"]);
    let invites = call(&mut bench);
    for (number, status, name) in [
        (0, 401, Name::WwwAuthenticate),
        (1, 407, Name::ProxyAuthenticate),
    ] {
        let challenge = format!("Digest realm=\"{number}\"");
        let response =
            response(&invites[usize::from(number)].message, status, "x").with(name, challenge);
        bench.receive(phone(number), response);
    }
    let up = bench.sent().pop().expect("a response");
    up.answers(401);
    assert_eq!(up.values(Name::WwwAuthenticate), ["Digest realm=\"0\""]);
    assert_eq!(up.values(Name::ProxyAuthenticate), ["Digest realm=\"1\""]);
}

#[test]
fn a_503_alone_is_told_as_500() {
    let mut bench = bench(&["1"]);
    let invites = call(&mut bench);
    let (up, sent) = answers(&mut bench, 0, &invites[0], 503);
    assert_eq!(up.expect("a response").status(), 500);
    assert_eq!(methods(&sent), ["ACK"]);
}

#[test]
fn a_cancel_goes_to_every_phone_that_rings() {
    let mut bench = bench(&["1", "1", "0.1"]);
    let invites = call(&mut bench);
    answers(&mut bench, 0, &invites[0], 180);
    bench.receive(alice(), cancel());
    let [ok, to_phone] = bench.two();
    ok.answers(200);
    to_phone
        .is(Method::Cancel, "sip:bob@192.0.2.20")
        .goes_along(phone(0));
    // The other has not answered yet: its CANCEL waits for that (RFC 3261 section 9.1).
    let (_, sent) = answers(&mut bench, 1, &invites[1], 100);
    assert_eq!(methods(&sent), ["CANCEL"]);
    answers(&mut bench, 0, &invites[0], 487);
    let (up, sent) = answers(&mut bench, 1, &invites[1], 487);
    assert_eq!(up.expect("the end").status(), 487);
    assert_eq!(methods(&sent), ["ACK"]);
    assert_eq!(end(&bench), (487, EndedBy::Caller));
}

#[test]
fn a_cancel_without_effect_is_not_waited_for_for_ever() {
    let mut bench = bench(&["1"]);
    let invites = call(&mut bench);
    answers(&mut bench, 0, &invites[0], 180);
    bench.receive(alice(), cancel());
    bench.sent();
    bench.pass(Duration::from_secs(31));
    assert!(bench.sent().iter().all(|sent| sent.message.is_request()));
    bench.pass(Duration::from_secs(2));
    let sent = bench.sent();
    let end = sent
        .iter()
        .find(|sent| !sent.message.is_request())
        .expect("the end");
    end.answers(487);
    assert_eq!(self::end(&bench), (487, EndedBy::Caller));
    bench.pass(Duration::from_secs(100));
    bench.sent();
    bench.assert_idle();
}

/// The status of a response does not tell whose it is.
#[test]
fn a_call_is_ended_by_whose_answer_is_told() {
    for status in [486, 487, 404, 480, 603] {
        let mut bench = bench(&["1"]);
        let invites = call(&mut bench);
        answers(&mut bench, 0, &invites[0], status);
        assert_eq!(end(&bench), (status, EndedBy::Callee));
    }
    // What we make of a 503 is our own answer.
    let mut one = bench(&["1"]);
    let invites = call(&mut one);
    answers(&mut one, 0, &invites[0], 503);
    assert_eq!(end(&one), (500, EndedBy::Proxy));
    // A phone that refuses while the CANCEL is on its way has refused.
    let mut one = bench(&["1"]);
    let invites = call(&mut one);
    answers(&mut one, 0, &invites[0], 180);
    one.receive(alice(), cancel());
    one.sent();
    answers(&mut one, 0, &invites[0], 486);
    assert_eq!(end(&one), (486, EndedBy::Callee));
    // Nobody is there.
    let mut none = bench(&[]);
    assert_eq!(call(&mut none).len(), 1);
    assert_eq!(end(&none), (404, EndedBy::Proxy));
    let mut silent = bench(&["1"]);
    call(&mut silent);
    silent.pass(Duration::from_millis(32_100));
    assert_eq!(end(&silent), (408, EndedBy::Proxy));
    // Who cancels has cancelled, wherever the request is.
    let mut parked = bench(&["1"]);
    parked.holds_questions = true;
    parked.receive(
        alice(),
        request(Method::Invite, "sip:bob@example.com", "call"),
    );
    parked.receive(alice(), cancel());
    assert_eq!(end(&parked), (487, EndedBy::Caller));
}

#[test]
fn timer_c_cancels_a_phone_that_rings_for_ever() {
    let mut bench = bench(&["1"]);
    let invites = call(&mut bench);
    answers(&mut bench, 0, &invites[0], 180);
    bench.pass(Duration::from_secs(100));
    // A 100 does not set it anew, any other provisional response does.
    answers(&mut bench, 0, &invites[0], 100);
    bench.pass(Duration::from_secs(80));
    answers(&mut bench, 0, &invites[0], 180);
    bench.pass(Duration::from_secs(184));
    bench.silence();
    bench.pass(Duration::from_secs(2));
    let sent = bench.sent();
    assert_eq!(methods(&sent)[0], "CANCEL");
    let (up, _) = answers(&mut bench, 0, &invites[0], 487);
    assert_eq!(up.expect("the end").status(), 487);
    assert_eq!(end(&bench), (487, EndedBy::Proxy));
    bench.pass(Duration::from_secs(100));
    bench.sent();
    bench.assert_idle();
}

#[test]
fn timer_c_ends_a_phone_that_said_100_and_does_not_hear_the_cancel() {
    let mut bench = bench(&["1"]);
    let invites = call(&mut bench);
    answers(&mut bench, 0, &invites[0], 100);
    bench.pass(Duration::from_secs(186));
    assert_eq!(methods(&bench.sent())[0], "CANCEL");
    bench.pass(Duration::from_secs(33));
    let sent = bench.sent();
    let end = sent
        .iter()
        .find(|sent| !sent.message.is_request())
        .expect("the end");
    end.answers(408);
    assert_eq!(self::end(&bench), (408, EndedBy::Proxy));
    bench.pass(Duration::from_secs(100));
    bench.sent();
    bench.assert_idle();
}

#[test]
fn max_breadth_bounds_how_many_phones_ring_at_a_time() {
    let mut bench = bench(&["1", "1", "1"]);
    let narrow = request(Method::Invite, "sip:bob@example.com", "call").with(Name::MaxBreadth, "2");
    bench.receive(alice(), narrow);
    let mut invites = bench.sent();
    invites.remove(0);
    assert_eq!(invites.len(), 2);
    assert!(
        invites
            .iter()
            .all(|invite| invite.value(Name::MaxBreadth) == "1")
    );
    // Its breadth is used again at once (RFC 5393 section 5.3.3.1).
    let (_, sent) = answers(&mut bench, 0, &invites[0], 486);
    assert_eq!(methods(&sent), ["ACK", "INVITE"]);
    assert_eq!(sent[1].value(Name::MaxBreadth), "1");
    let (_, sent) = answers(&mut bench, 1, &invites[1], 486);
    assert_eq!(methods(&sent), ["ACK"]);
}

/// RFC 5393 section 5.3.1: a positive integer. Without breadth no branch may be made at all.
#[test]
fn without_breadth_there_is_no_branch() {
    let mut bench = bench(&["1"]);
    for (breadth, status) in [("0", 440), ("x", 400), ("-1", 400)] {
        let narrow = request(
            Method::Message,
            "sip:bob@example.com",
            &format!("c{breadth}"),
        )
        .with(Name::MaxBreadth, breadth);
        bench.receive(alice(), narrow);
        bench.one().answers(status);
    }
    // More than we allow is cut (section 5.3.3).
    for (breadth, forwarded) in [("61", "60"), ("4294967296", "60"), ("7", "7")] {
        let wide = request(
            Method::Message,
            "sip:bob@example.com",
            &format!("c{breadth}"),
        )
        .with(Name::MaxBreadth, breadth);
        bench.receive(alice(), wide);
        assert_eq!(bench.one().value(Name::MaxBreadth), forwarded);
    }
}

#[test]
fn of_the_answers_to_another_request_than_invite_only_the_first_goes_up() {
    let mut bench = bench(&["1", "1"]);
    bench.receive(
        alice(),
        request(Method::Message, "sip:bob@example.com", "message"),
    );
    let [first, second] = bench.two();
    assert_eq!(
        answers(&mut bench, 1, &second, 200)
            .0
            .expect("the answer")
            .status(),
        200
    );
    let (up, sent) = answers(&mut bench, 0, &first, 200);
    assert!(up.is_none() && sent.is_empty());
    bench.pass(Duration::from_secs(100));
    bench.sent();
    bench.assert_idle();
}

#[test]
fn a_connection_that_fails_counts_as_503() {
    let mut bench = Bench::new(&[HERE, "tcp:192.0.2.1:5060"], &["example.com"]);
    let uri = "sip:x@192.0.2.77;transport=tcp";
    bench.receive(alice(), request(Method::Invite, uri, "call"));
    bench.two();
    bench.fail_last_request();
    bench.one().answers(500);
}
