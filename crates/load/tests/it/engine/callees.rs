//! An engine and callers whose every message a test writes.

use std::time::Duration;

use load::record::Outcome;
use load::script::{Expect, Send, Step, Template};
use sip::{Message, Method, Name, Transport};

use crate::engine::alone::{Alone, SECOND, expects, invite, script, sends, within};

#[test]
fn a_callee_answers_strangers_as_it_should() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let ringing = &alone.receive(&invite("1"))[0];
    assert_eq!(ringing.status(), Some(180));
    assert_eq!(ringing.headers(Name::Via).count(), 2);
    assert_eq!(
        ringing.header(Name::RecordRoute),
        Some("<sip:192.0.2.1;lr>")
    );
    // The same again, and the same by another way (RFC 3261 sections 17.2.1 and 8.2.2.2).
    let again = alone.receive(&invite("1"));
    assert_eq!(again[0].to_bytes(), ringing.to_bytes());
    assert_eq!(alone.receive(&invite("2"))[0].status(), Some(482));
    assert_eq!(alone.engine.sessions(), 1);
    let answer = alone.pass(SECOND)[0].clone();
    assert_eq!(answer.status(), Some(200));
    assert_eq!(answer.header(Name::To), ringing.header(Name::To));
    assert!(alone.receive(&within(ringing, Method::Ack, 7)).is_empty());
    assert_eq!(
        alone.receive(&within(ringing, Method::Options, 8))[0].status(),
        Some(200)
    );
    assert_eq!(
        alone.receive(&within(ringing, Method::Info, 9))[0].status(),
        Some(405)
    );
    // Older than the last one (section 12.2.2).
    assert_eq!(
        alone.receive(&within(ringing, Method::Info, 8))[0].status(),
        Some(500)
    );
    let bye = within(ringing, Method::Bye, 10);
    let farewell = alone.receive(&bye);
    assert_eq!(farewell[0].status(), Some(200));
    assert_eq!(alone.engine.sessions(), 0);
    // The run is gone, but what it has answered is known (Timer J).
    assert_eq!(alone.receive(&bye)[0].to_bytes(), farewell[0].to_bytes());
    assert!(alone.receive(&invite("1")).is_empty());
    assert_eq!(
        alone.receive(&within(ringing, Method::Bye, 11))[0].status(),
        Some(481)
    );
    assert_eq!(alone.engine.sessions(), 0);
    let record = &alone.call_records()[0];
    assert!(record.attempt.is_completed());
    assert_eq!((record.attempt.user, record.attempt.peer), (3, 0));
    assert_eq!(record.attempt.call_id.to_string(), "call-of-alice");
}

/// RFC 6026 section 8.7: whoever has accepted an INVITE repeats the 2xx by a timer, and the ACK ends that (RFC 3261
/// section 13.3.1.4); the INVITE that comes again is absorbed.
#[test]
fn an_accepted_invite_is_absorbed() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let ringing = alone.receive(&invite("1"))[0].clone();
    let answer = alone.pass(SECOND)[0].clone();
    assert_eq!(answer.status(), Some(200));
    assert!(alone.receive(&invite("1")).is_empty());
    // The ACK is lost, and so is the next 2xx: it comes by itself.
    for wait in [500, 1_000] {
        assert!(alone.pass(Duration::from_millis(wait - 1)).is_empty());
        assert!(alone.receive(&invite("1")).is_empty());
        let again = alone.pass(Duration::from_millis(1));
        assert_eq!(again[0].to_bytes(), answer.to_bytes());
    }
    alone.receive(&within(&ringing, Method::Ack, 7));
    for _ in 0..4 {
        assert!(alone.receive(&invite("1")).is_empty());
        assert!(alone.pass(SECOND).is_empty());
    }
    assert_eq!(alone.engine.counters().repeated, 7);
    alone.receive(&within(&ringing, Method::Bye, 8));
    assert!(alone.receive(&invite("1")).is_empty());
    assert!(alone.call_records()[0].attempt.is_completed());
}

/// A 2xx that is sent but once, as SIPp does without `retrans`, is there for the caller who has not heard it.
#[test]
fn a_2xx_that_nothing_repeats_is_said_again() {
    let mut alone = Alone::with(Transport::Udp, SECOND, false);
    let text = "SIP/2.0 200 OK\n{request_vias}\n{request_from}\n{request_to}\n{request_call_id}\n\
                {request_cseq}\nContact: <{contact}>\nContent-Length: 0\n\n";
    let mut answers = Send::new(Template::parse(text).unwrap());
    answers.is_repeated = false;
    let waits = |method| Step::Expect(Expect::request(method));
    let steps = vec![
        waits(Method::Invite),
        Step::Send(answers),
        waits(Method::Ack),
        waits(Method::Bye),
    ];
    alone.engine.add_script(script(steps));
    let answer = alone.receive(&invite("1"))[0].clone();
    assert!(alone.pass(SECOND).is_empty());
    assert_eq!(alone.receive(&invite("1"))[0].to_bytes(), answer.to_bytes());
    alone.receive(&within(&answer, Method::Ack, 7));
    assert!(alone.receive(&invite("1")).is_empty());
}

#[test]
fn no_more_calls_than_are_allowed() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    for number in 0..200 {
        let stranger = invite(&number.to_string()).to_string();
        let stranger = stranger.replace("call-of-alice", &format!("call-{number}"));
        alone.receive(&Message::read(stranger.into_bytes().into()).unwrap());
    }
    assert_eq!(alone.engine.sessions(), 100);
    assert_eq!(alone.engine.counters().refused_by_limit, 100);
    alone.engine.end_all(alone.now);
    // Nobody acknowledges that they are refused.
    assert_eq!(alone.engine.sessions(), 100);
    assert_eq!(alone.pass(Duration::ZERO).len(), 100);
    alone.pass(32 * SECOND);
    assert_eq!(alone.engine.sessions(), 0);
    let records = alone.call_records();
    assert_eq!(records.len(), 100);
    assert!(
        records
            .iter()
            .all(|record| record.attempt.outcome == Outcome::Unfinished)
    );
}

#[test]
fn a_refused_change_is_refused_until_it_is_acknowledged() {
    for is_acknowledged in [true, false] {
        let mut alone = Alone::new(Transport::Udp, SECOND);
        let ringing = alone.receive(&invite("1"))[0].clone();
        alone.pass(SECOND);
        alone.receive(&within(&ringing, Method::Ack, 7));
        let change = within(&ringing, Method::Invite, 8);
        let refusal = alone.receive(&change)[0].clone();
        assert_eq!(refusal.status(), Some(488));
        // Timer G (RFC 3261 section 17.2.1).
        for wait in [500, 1_000, 2_000, 4_000, 4_000] {
            assert!(alone.pass(Duration::from_millis(wait - 1)).is_empty());
            let again = alone.pass(Duration::from_millis(1));
            assert_eq!(again[0].to_bytes(), refusal.to_bytes());
        }
        if is_acknowledged {
            alone.receive(&within(&ringing, Method::Ack, 8));
            assert!(alone.pass(5 * SECOND).is_empty());
        } else {
            // Timer H.
            for _ in 0..30 {
                alone.pass(SECOND);
            }
            assert!(alone.pass(10 * SECOND).is_empty());
        }
        // The call is as it was.
        assert!(alone.call_records().is_empty());
        alone.receive(&within(&ringing, Method::Bye, 9));
        assert!(alone.call_records()[0].attempt.is_completed());
    }
}

#[test]
fn a_change_by_the_peer_changes_the_target() {
    let mut alone = Alone::with(Transport::Udp, SECOND, false);
    let text = |status: &str| {
        format!(
            "SIP/2.0 {status}\n{{request_vias}}\n{{request_from}}\n{{request_to}}\n{{request_call_id}}\n\
             {{request_cseq}}\nContact: <{{contact}}>\nContent-Length: 0\n\n"
        )
    };
    let answers = || Step::Send(Send::new(Template::parse(&text("200 OK")).unwrap()));
    let waits = |method| Step::Expect(Expect::request(method));
    let steps = vec![
        waits(Method::Invite),
        answers(),
        waits(Method::Ack),
        waits(Method::Invite),
        answers(),
        waits(Method::Ack),
        sends("BYE", true),
        expects(200..=299),
    ];
    alone.engine.add_script(script(steps));
    let first = alone.receive(&invite("1"))[0].clone();
    alone.receive(&within(&first, Method::Ack, 7));
    let change = within(&first, Method::Invite, 8).with(Name::Contact, "<sip:alice@198.51.100.7>");
    assert_eq!(alone.receive(&change)[0].status(), Some(200));
    let bye = alone.receive(&within(&first, Method::Ack, 8))[0].clone();
    assert_eq!(bye.method(), Some(&Method::Bye));
    // RFC 3261 section 12.2.2: the target, and not the route set.
    assert_eq!(bye.request_uri(), Some("sip:alice@198.51.100.7"));
    assert_eq!(bye.header(Name::Route), Some("<sip:192.0.2.1;lr>"));
}

/// RFC 3261 section 17.2.2: the very response is sent again, also what only its script knows of it.
#[test]
fn what_a_script_has_answered_is_repeated_as_it_was() {
    for status in ["200 OK", "486 Not now"] {
        let mut alone = Alone::with(Transport::Udp, SECOND, false);
        let text = format!(
            "SIP/2.0 {status}\n{{request_vias}}\n{{request_from}}\n{{request_to}}\n{{request_call_id}}\n\
             {{request_cseq}}\nContact: <{{contact}}>\nContent-Length: 0\n\n"
        );
        let answers = || Step::Send(Send::new(Template::parse(&text).unwrap()));
        let waits = |method| Step::Expect(Expect::request(method));
        let steps = vec![waits(Method::Message), answers(), Step::Complete];
        alone.engine.add_script(script(steps));
        let message = invite("1").to_string().replace("INVITE", "MESSAGE");
        let message = Message::read(message.into_bytes().into()).unwrap();
        let answer = alone.receive(&message)[0].clone();
        assert!(answer.header(Name::Contact).is_some());
        assert_eq!(alone.engine.sessions(), 0);
        assert_eq!(alone.receive(&message)[0].to_bytes(), answer.to_bytes());
    }
}

#[test]
fn the_topmost_via_tells_where_a_request_came_from() {
    // Requests of this world come from 127.0.0.1:5060.
    for (via, expected) in [
        (
            "127.0.0.1:5099;branch=z9hG4bK1",
            "127.0.0.1:5099;branch=z9hG4bK1",
        ),
        (
            "192.0.2.1;branch=z9hG4bK2",
            "192.0.2.1;branch=z9hG4bK2;received=127.0.0.1",
        ),
        (
            "127.0.0.1;rport;branch=z9hG4bK3",
            "127.0.0.1;rport=5060;branch=z9hG4bK3;received=127.0.0.1",
        ),
        (
            "a.example:5070 ;branch=z9hG4bK4; RPort",
            "a.example:5070 ;branch=z9hG4bK4; rport=5060;received=127.0.0.1",
        ),
        (
            "[2001:db8::1]:5070;rport=7;branch=z9hG4bK5, SIP/2.0/UDP b;rport",
            "[2001:db8::1]:5070;rport=5060;branch=z9hG4bK5;received=127.0.0.1, SIP/2.0/UDP b;rport",
        ),
    ] {
        let mut alone = Alone::new(Transport::Udp, SECOND);
        let invite = invite("1").to_string();
        let invite = invite.replace("192.0.2.1;branch=z9hG4bK1", via);
        let invite = Message::read(invite.into_bytes().into()).unwrap();
        // RFC 3261 section 18.2.1, RFC 3581 section 4; in what a script says, and in what the engine says.
        let ringing = alone.receive(&invite)[0].clone();
        let mut options = within(&ringing, Method::Options, 8).to_string();
        let (before, after) = options.split_once("Via: ").unwrap();
        let (_, after) = after.split_once("\r\n").unwrap();
        options = format!("{before}Via: SIP/2.0/UDP {via}\r\n{after}");
        let options = Message::read(options.into_bytes().into()).unwrap();
        let answered = alone.receive(&options)[0].clone();
        for response in [ringing, answered] {
            let first = response.headers(Name::Via).next().unwrap();
            let expected = format!("SIP/2.0/UDP {expected}");
            assert_eq!(std::str::from_utf8(first), Ok(&expected[..]));
        }
    }
}

#[test]
fn a_call_id_alone_makes_no_call() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let ringing = alone.receive(&invite("1"))[0].clone();
    let from_another = invite("2").to_string().replace(";tag=a", ";tag=b");
    let from_another = Message::read(from_another.into_bytes().into()).unwrap();
    let second = alone.receive(&from_another)[0].clone();
    assert_eq!(second.status(), Some(180));
    assert_ne!(second.header(Name::To), ringing.header(Name::To));
    assert_eq!(alone.engine.sessions(), 2);
    // Each is repeated to whoever repeats its own.
    for (request, first) in [(invite("1"), &ringing), (from_another, &second)] {
        assert_eq!(alone.receive(&request)[0].to_bytes(), first.to_bytes());
    }
    // The CANCEL ends the one whose branch it has (RFC 3261 section 9.2).
    let cancel = |branch: &str, tag: &str| {
        let cancel = invite(branch)
            .to_string()
            .replace("INVITE", "CANCEL")
            .replace(";tag=a", tag);
        Message::read(cancel.into_bytes().into()).unwrap()
    };
    let foreign = alone.receive(&cancel("3", ";tag=a"));
    assert_eq!((foreign.len(), foreign[0].status()), (1, Some(481)));
    let own = alone.receive(&cancel("2", ";tag=b"));
    let said: Vec<_> = own.iter().map(|message| message.status()).collect();
    assert_eq!(said, [Some(200), Some(487)]);
    assert_eq!(own[1].header(Name::To), second.header(Name::To));
    let sent = alone.pass(SECOND);
    let answered = sent.iter().find(|sent| sent.status() == Some(200));
    let to = answered.map(|answer| answer.header(Name::To));
    assert_eq!(to, Some(ringing.header(Name::To)));
}

#[test]
fn a_caller_who_was_refused_may_call_again() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let ringing = alone.receive(&invite("1"))[0].clone();
    let bye = within(&ringing, Method::Bye, 8);
    assert_eq!(alone.receive(&bye)[1].status(), Some(487));
    // The refusal waits for its ACK; the same caller's next INVITE is another call.
    let again = invite("9").to_string().replace("7 INVITE", "9 INVITE");
    let again = Message::read(again.into_bytes().into()).unwrap();
    let rings = alone.receive(&again)[0].clone();
    assert_eq!(rings.status(), Some(180));
    assert_ne!(rings.header(Name::To), ringing.header(Name::To));
}
