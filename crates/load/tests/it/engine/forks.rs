//! Further callees of an INVITE that a proxy has forked.

use sip::{Message, Method, Name, Transport};

use crate::engine::alone::{Alone, SECOND, answer, response};

#[test]
fn a_second_callee_is_acknowledged_and_hung_up() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let invite = alone.begin();
    let first = alone.receive(&answer(&invite))[0].clone();
    let mut forked = Message::response_to(&invite, 200, "OK")
        .with(Name::Contact, "<sip:c@192.0.2.8>")
        .with(Name::RecordRoute, "<sip:192.0.2.5;lr>, <sip:192.0.2.4;lr>");
    forked.set_to_tag("fork");
    let sent = alone.receive(&forked);
    let [ack, bye] = &sent[..] else {
        panic!("an ACK and a BYE");
    };
    // RFC 3261 section 13.2.2.4: a dialog of its own.
    assert_eq!(ack.cseq(), Some((1, Method::Ack)));
    assert_eq!(bye.cseq(), Some((2, Method::Bye)));
    for request in &sent {
        assert_eq!(request.request_uri(), Some("sip:c@192.0.2.8"));
        assert_eq!(request.header(Name::To), forked.header(Name::To));
        let routes: Vec<_> = request.headers(Name::Route).collect();
        let expected: [&[u8]; 2] = [b"<sip:192.0.2.4;lr>", b"<sip:192.0.2.5;lr>"];
        assert_eq!(routes, expected);
    }
    assert_ne!(ack.header(Name::Via), bye.header(Name::Via));
    // The ACK is repeated with the 2xx, the BYE by Timer E.
    let again = alone.receive(&forked);
    assert_eq!(again[0].to_bytes(), ack.to_bytes());
    assert_eq!(again.len(), 1);
    assert_eq!(alone.engine.counters().forked_answers, 2);
    let again = alone.pass(SECOND / 2);
    assert_eq!(again[0].to_bytes(), bye.to_bytes());
    assert_eq!(again.len(), 1);
    assert_eq!(alone.engine.sessions(), 2);
    alone.receive(&response(bye, 200));
    assert_eq!(alone.engine.sessions(), 1);
    assert_eq!(alone.engine.counters().stray_responses, 0);
    // The first dialog goes on.
    assert_eq!(
        alone.receive(&answer(&invite))[0].to_bytes(),
        first.to_bytes()
    );
    let bye = alone.pass(SECOND)[0].clone();
    assert_eq!(bye.header(Name::To), first.header(Name::To));
    alone.receive(&response(&bye, 200));
    assert!(alone.call_records()[0].attempt.is_completed());
    assert_eq!(alone.engine.sessions(), 0);
}

#[test]
fn a_bye_that_a_second_callee_never_answers_ends_with_timer_f() {
    let mut alone = Alone::new(Transport::Udp, 60 * SECOND);
    let invite = alone.begin();
    alone.receive(&answer(&invite));
    let mut forked =
        Message::response_to(&invite, 200, "OK").with(Name::Contact, "<sip:c@192.0.2.8>");
    forked.set_to_tag("fork");
    alone.receive(&forked);
    let repeated: usize = (0..64).map(|_| alone.pass(SECOND / 2).len()).sum();
    // At 0.5, 1.5, 3.5 and then each 4 s until 31.5 s (RFC 3261 section 17.1.2.2).
    assert_eq!(repeated, 10);
    assert_eq!(alone.engine.sessions(), 1);
    assert!(alone.call_records().iter().all(|call| call.bye.is_none()));
}
