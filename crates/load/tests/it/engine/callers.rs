//! An engine and callees whose every message a test writes: dialogs through proxies, credentials, refusals.

use std::time::Duration;

use load::engine::NewSession;
use load::record::{Failure, Outcome};
use load::script::{Pause, Step};
use sip::{Message, Method, Name, Transport};

use crate::engine::alone::{Alone, SECOND, answer, expects, response, script, sends};

#[test]
fn requests_within_a_call_take_its_route() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let invite = alone.begin();
    let ack = &alone.receive(&answer(&invite))[0];
    let bye = &alone.pass(SECOND)[0];
    for (request, method) in [(ack, Method::Ack), (bye, Method::Bye)] {
        assert_eq!(request.method(), Some(&method));
        assert_eq!(request.request_uri(), Some("sip:b@192.0.2.9:5099"));
        // In reverse order (RFC 3261 section 12.1.2).
        let routes: Vec<_> = request.headers(Name::Route).collect();
        let expected: [&[u8]; 3] = [
            b"<sip:192.0.2.1;lr>",
            b"<sip:192.0.2.2;lr>;x=\"a,b\"",
            b"<sip:192.0.2.3;lr>",
        ];
        assert_eq!(routes, expected);
    }
}

#[test]
fn an_answer_that_comes_again_is_acknowledged_again() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut alone = Alone::new(transport, 60 * SECOND);
        let invite = alone.begin();
        let first = alone.receive(&answer(&invite));
        let again = alone.receive(&answer(&invite));
        assert_eq!(first[0].to_bytes(), again[0].to_bytes());
        assert_eq!(alone.engine.counters().retransmissions, 1);
    }
}

#[test]
fn a_refusal_is_acknowledged_as_often_as_it_comes() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let invite = alone.begin();
    let refusal = response(&invite, 486);
    let ack = alone.receive(&refusal);
    assert_eq!(ack[0].method(), Some(&Method::Ack));
    assert_eq!(ack[0].header(Name::To), refusal.header(Name::To));
    let record = &alone.call_records()[0];
    assert_eq!(record.attempt.outcome, Outcome::Failed(Failure::Refused));
    assert_eq!(record.attempt.status, Some(486));
    assert_eq!(alone.engine.sessions(), 0);
    // The run is gone, its ACK is not (Timer D).
    let again = alone.receive(&refusal);
    assert_eq!(ack[0].to_bytes(), again[0].to_bytes());
    alone.pass(33 * SECOND);
    assert!(alone.receive(&refusal).is_empty());
    assert_eq!(alone.engine.counters().stray_responses, 1);
}

#[test]
fn a_proxy_that_asks_for_a_password_gets_it() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let invite = alone.begin();
    let challenge = response(&invite, 407).with(
        Name::ProxyAuthenticate,
        "Digest realm=\"p\", nonce=\"n\", qop=\"auth\", algorithm=MD5",
    );
    alone.pass(SECOND / 100);
    let [ack, again] = &alone.receive(&challenge)[..] else {
        panic!("an ACK and an INVITE");
    };
    assert_eq!(ack.method(), Some(&Method::Ack));
    assert_eq!(again.cseq(), Some((2, Method::Invite)));
    assert_eq!(again.call_id(), invite.call_id());
    assert_eq!(again.header(Name::From), invite.header(Name::From));
    assert!(again.contains(Name::ProxyAuthorization));
    let [_, bye] = &{
        let mut sent = alone.receive(&answer(again));
        sent.extend(alone.pass(SECOND));
        sent
    }[..] else {
        panic!("an ACK and a BYE");
    };
    assert_eq!(bye.cseq(), Some((3, Method::Bye)));
    assert!(bye.contains(Name::ProxyAuthorization));
    alone.receive(&response(bye, 200));
    let record = &alone.call_records()[0];
    assert!(record.attempt.is_completed());
    assert_eq!(record.attempt.authentications, 1);
    assert_eq!(record.attempt.status, Some(200));
    // RFC 6076 section 4.3.1: delays begin with the initial INVITE.
    assert_eq!(record.first_invited, Duration::ZERO);
    assert_eq!(record.invited, SECOND / 100);
    // The next call goes out with credentials at once.
    assert!(alone.begin().contains(Name::ProxyAuthorization));
}

#[test]
fn the_ack_has_the_credentials_of_its_invite() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let invite = alone.begin();
    let challenge = |request: &Message, status, name, realm: &str| {
        let value = format!("Digest realm=\"{realm}\", nonce=\"n\", qop=\"auth\", algorithm=MD5");
        response(request, status).with(name, value)
    };
    let sent = alone.receive(&challenge(&invite, 407, Name::ProxyAuthenticate, "p"));
    let sent = alone.receive(&challenge(&sent[1], 401, Name::WwwAuthenticate, "u"));
    let invite = sent[1].clone();
    let ack = alone.receive(&answer(&invite))[0].clone();
    assert_eq!(ack.method(), Some(&Method::Ack));
    // RFC 3261 section 22.1: word by word, since the method is that of the INVITE.
    for name in [Name::Authorization, Name::ProxyAuthorization] {
        assert!(invite.contains(name));
        assert!(ack.headers(name).eq(invite.headers(name)));
    }
    let again = alone.receive(&answer(&invite));
    assert_eq!(again[0].to_bytes(), ack.to_bytes());
}

#[test]
fn an_invite_that_is_never_answered_is_cancelled() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut alone = Alone::new(transport, SECOND);
        let steps = vec![sends("INVITE", false), expects(486..=486)];
        alone.call = alone.engine.add_script(script(steps));
        let invite = alone.begin();
        assert!(alone.receive(&response(&invite, 100)).is_empty());
        assert!(alone.pass(100 * SECOND).is_empty());
        // Ringing begins the time anew, trying does not (RFC 3261 section 16.7 step 2).
        alone.receive(&response(&invite, 180));
        assert!(alone.pass(100 * SECOND).is_empty());
        alone.receive(&response(&invite, 100));
        assert!(alone.pass(79 * SECOND).is_empty());
        assert!(alone.call_records().is_empty());
        let cancel = alone.pass(SECOND)[0].clone();
        assert_eq!(cancel.method(), Some(&Method::Cancel));
        let failed = Outcome::Failed(Failure::NoResponse);
        assert_eq!(alone.call_records()[0].attempt.outcome, failed);
        alone.receive(&response(&cancel, 200));
        assert_eq!(alone.engine.sessions(), 1);
        let ack = alone.receive(&response(&invite, 487))[0].clone();
        assert_eq!(ack.method(), Some(&Method::Ack));
        assert_eq!(alone.engine.sessions(), 0);
    }
}

#[test]
fn a_change_of_a_call_changes_the_target_alone() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let pause = || Step::Pause(Pause::Fixed(SECOND));
    alone.call = alone.engine.add_script(script(vec![
        sends("INVITE", false),
        expects(200..=299),
        sends("ACK", true),
        pause(),
        sends("INVITE", true),
        expects(200..=299),
        sends("ACK", true),
        pause(),
        sends("BYE", true),
        expects(200..=299),
    ]));
    let invite = alone.begin();
    let first = alone.receive(&answer(&invite))[0].clone();
    let change = alone.pass(SECOND)[0].clone();
    assert_eq!(change.cseq(), Some((2, Method::Invite)));
    // RFC 3261 section 12.2.1.2: neither the tag nor the route set.
    let mut agreed = Message::response_to(&change, 200, "OK")
        .with(Name::Contact, "<sip:b@198.51.100.7>")
        .with(Name::RecordRoute, "<sip:203.0.113.9;lr>");
    agreed.set_to_tag("another");
    let second = alone.receive(&agreed)[0].clone();
    let bye = alone.pass(SECOND)[0].clone();
    for request in [&second, &bye] {
        assert_eq!(request.request_uri(), Some("sip:b@198.51.100.7"));
        assert_eq!(request.header(Name::To), first.header(Name::To));
        assert!(request.headers(Name::Route).eq(first.headers(Name::Route)));
    }
    assert_eq!(first.headers(Name::Route).count(), 3);
}

#[test]
fn a_strict_router_is_asked_and_the_target_comes_last() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let invite = alone.begin();
    let answer = response(&invite, 200)
        .with(Name::Contact, "<sip:b@192.0.2.9>")
        .with(Name::RecordRoute, "<sip:192.0.2.3;lr>, <sip:192.0.2.1;x=y>");
    let ack = alone.receive(&answer)[0].clone();
    let bye = alone.pass(SECOND)[0].clone();
    for request in [ack, bye] {
        // RFC 3261 section 12.2.1.1.
        assert_eq!(request.request_uri(), Some("sip:192.0.2.1;x=y"));
        let routes: Vec<_> = request.headers(Name::Route).collect();
        let expected: [&[u8]; 2] = [b"<sip:192.0.2.3;lr>", b"<sip:b@192.0.2.9>"];
        assert_eq!(routes, expected);
    }
}

#[test]
fn callers_come_back() {
    let mut alone = Alone::new(Transport::Udp, Duration::ZERO);
    let session = NewSession {
        script: alone.call,
        user: 1,
        peer: 2,
    };
    alone.engine.limit_repeating(Some(3));
    alone.engine.call_repeatedly(alone.now, session).unwrap();
    let first = alone.one();
    // It is refused: half a second passes.
    alone.receive(&response(&first, 480));
    assert!(alone.pass(Duration::from_millis(499)).is_empty());
    let second = alone.pass(Duration::from_millis(1))[0].clone();
    assert_ne!(second.call_id(), first.call_id());
    // It is answered and ended: the next one follows at once.
    let sent = alone.receive(&answer(&second));
    let sent = alone.receive(&response(&sent[1], 200));
    assert_eq!(sent[0].method(), Some(&Method::Invite));
    // That was the last one.
    alone.receive(&response(&sent[0], 480));
    assert!(alone.pass(SECOND).is_empty());
    assert_eq!(alone.call_records().len(), 3);
}
