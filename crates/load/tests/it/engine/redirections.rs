//! 3xx responses, and what callers do with the places that they name (RFC 3261 section 8.1.3.4).

use std::sync::Arc;
use std::time::Duration;

use load::record::{Failure, Outcome};
use load::script::builtin;
use sip::{Message, Method, Name, Transport};

use crate::engine::alone::{Alone, SECOND, answer, response};

/// A redirection to these places.
fn moved(request: &Message, contacts: &str) -> Message {
    response(request, 302).with(Name::Contact, contacts)
}

/// Gives a refusal to the engine. Returns the INVITE to the next place, which follows its ACK.
fn next(alone: &mut Alone, refusal: &Message) -> Message {
    let [ack, next] = &alone.receive(refusal)[..] else {
        panic!("an ACK and an INVITE");
    };
    assert_eq!(ack.method(), Some(&Method::Ack));
    assert_eq!(next.method(), Some(&Method::Invite));
    next.clone()
}

#[test]
fn places_are_tried_one_after_the_other() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut alone = Alone::new(transport, SECOND);
        let invite = alone.begin();
        let contacts = "<sip:b@192.0.2.7>;q=0.2, \"B\" <sip:b@192.0.2.8:5090;x=y?Subject=moved>, \
                        <tel:+1>, <sip:user2@example.org>";
        let first = next(&mut alone, &moved(&invite, contacts));
        assert_eq!(first.request_uri(), Some("sip:b@192.0.2.8:5090;x=y"));
        assert_eq!(first.header(Name::Subject), Some("moved"));
        assert_eq!(first.cseq(), Some((2, Method::Invite)));
        assert_eq!(first.body(), invite.body());
        for same in [Name::CallId, Name::From, Name::To, Name::Contact] {
            assert_eq!(first.header(same), invite.header(same));
        }
        assert_ne!(first.header(Name::Via), invite.header(Name::Via));
        let second = next(&mut alone, &response(&first, 404));
        assert_eq!(second.request_uri(), Some("sip:b@192.0.2.7"));
        assert!(!second.contains(Name::Subject));
        let ack = alone.receive(&answer(&second))[0].clone();
        assert_eq!(ack.request_uri(), Some("sip:b@192.0.2.9:5099"));
        assert_eq!(ack.cseq(), Some((3, Method::Ack)));
        let bye = alone.pass(SECOND)[0].clone();
        assert_eq!(bye.cseq(), Some((4, Method::Bye)));
        alone.receive(&response(&bye, 200));
        let record = &alone.call_records()[0];
        assert!(record.attempt.is_completed());
        assert_eq!(record.attempt.status, Some(200));
        assert_eq!(alone.engine.counters().redirections, 2);
    }
}

#[test]
fn a_place_that_wants_credentials_gets_them_for_its_own_uri() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let invite = alone.begin();
    alone.pass(SECOND / 10);
    let first = next(&mut alone, &moved(&invite, "<sip:b@192.0.2.7>"));
    let challenge = response(&first, 407).with(
        Name::ProxyAuthenticate,
        "Digest realm=\"p\", nonce=\"n\", qop=\"auth\", algorithm=MD5",
    );
    let again = next(&mut alone, &challenge);
    assert_eq!(again.request_uri(), Some("sip:b@192.0.2.7"));
    let credentials = again.header(Name::ProxyAuthorization).unwrap();
    assert!(
        credentials.contains("uri=\"sip:b@192.0.2.7\""),
        "{credentials}"
    );
    alone.receive(&answer(&again));
    let bye = alone.pass(SECOND)[0].clone();
    alone.receive(&response(&bye, 200));
    let record = &alone.call_records()[0];
    assert!(record.attempt.is_completed());
    // RFC 6076 section 4.3.1: delays begin with the INVITE that was redirected.
    assert_eq!(record.first_invited, Duration::ZERO);
    assert_eq!(record.invited, SECOND / 10);
}

#[test]
fn no_place_is_tried_twice_and_not_too_many_are() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let mut invite = alone.begin();
    // Two that redirect to each other.
    for place in ["<sip:a@h>", "<sip:b@h>"] {
        invite = next(&mut alone, &moved(&invite, place));
    }
    assert_eq!(alone.receive(&moved(&invite, "<sip:a@H>")).len(), 1);
    let failed = Outcome::Failed(Failure::Refused);
    let record = &alone.call_records()[0];
    assert_eq!(record.attempt.outcome, failed);
    assert_eq!(record.attempt.status, Some(302));
    // One that always names another.
    let mut invite = alone.begin();
    for place in 0..8 {
        invite = next(&mut alone, &moved(&invite, &format!("<sip:{place}@h>")));
    }
    assert_eq!(alone.receive(&moved(&invite, "<sip:8@h>")).len(), 1);
    assert_eq!(alone.call_records()[0].attempt.outcome, failed);
    assert_eq!(alone.engine.counters().redirections, 10);
}

#[test]
fn what_cannot_be_followed_is_a_refusal() {
    for (status, contacts) in [
        (302, "<tel:+1>"),
        (302, "<mailto:b@h>"),
        (302, "<sip:b@h;method=BYE>"),
        (302, "<sip:b@h?Require=x>"),
        (305, "<sip:proxy@h>"),
        (380, "<sip:other@h>"),
    ] {
        let mut alone = Alone::new(Transport::Udp, SECOND);
        let invite = alone.begin();
        let refusal = response(&invite, status).with(Name::Contact, contacts);
        assert_eq!(alone.receive(&refusal).len(), 1, "{status} {contacts}");
        let record = &alone.call_records()[0];
        assert_eq!(record.attempt.outcome, Outcome::Failed(Failure::Refused));
        assert_eq!(record.attempt.status, Some(status));
    }
    // A 6xx is the word of the user, wherever it is.
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let invite = alone.begin();
    let first = next(&mut alone, &moved(&invite, "<sip:a@h>, <sip:b@h>"));
    assert_eq!(alone.receive(&response(&first, 603)).len(), 1);
    assert_eq!(alone.call_records()[0].attempt.status, Some(603));
}

#[test]
fn a_place_that_does_not_answer_is_followed_by_the_next() {
    let mut alone = Alone::new(Transport::Tcp, SECOND);
    alone.call = alone
        .engine
        .add_script(Arc::new(builtin::message().unwrap()));
    let message = alone.begin();
    let [first] = &alone.receive(&moved(&message, "<sip:a@h>, <sip:b@h>"))[..] else {
        panic!("a MESSAGE");
    };
    assert_eq!(first.request_uri(), Some("sip:a@h"));
    // Timer F.
    let second = alone.pass(32 * SECOND)[0].clone();
    assert_eq!(second.request_uri(), Some("sip:b@h"));
    alone.receive(&response(&second, 200));
    let records: Vec<_> = std::iter::from_fn(|| alone.engine.poll_record()).collect();
    assert_eq!(records.len(), 1);
    assert_eq!(alone.engine.sessions(), 0);
}

#[test]
fn a_call_that_was_given_up_is_not_redirected() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let invite = alone.begin();
    alone.receive(&response(&invite, 180));
    let cancel = alone.pass(20 * SECOND)[0].clone();
    assert_eq!(cancel.method(), Some(&Method::Cancel));
    alone.receive(&response(&cancel, 200));
    assert_eq!(alone.receive(&moved(&invite, "<sip:a@h>")).len(), 1);
    assert_eq!(
        alone.call_records()[0].attempt.outcome,
        Outcome::Failed(Failure::GivenUp)
    );
}
