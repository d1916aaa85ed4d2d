//! An engine and peers whose every message a test writes: dialogs through proxies, authentication of calls,
//! strangers, and what is hostile.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use load::engine::{Connection, ConnectionId, Directory, Engine, EngineConfig, UserRange, Work};
use load::record::{CallRecord, Failure, Outcome, Record};
use load::script::builtin::{self, AnswerPlan, CallPlan};
use load::script::{Expect, Pause, Script, ScriptId, Send, Step, Template};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::{Message, Method, Name, Transport};

const LINE: ConnectionId = ConnectionId(0);
const SECOND: Duration = Duration::from_secs(1);

/// An engine with ten users, who call and are called.
struct Alone {
    engine: Engine,
    now: Instant,
    call: ScriptId,
    /// What is taken over from peers is as bad as they have sent it.
    is_validating: bool,
}

impl Alone {
    fn new(transport: Transport, hold: Duration) -> Alone {
        let now = Instant::now();
        let config = EngineConfig {
            users: vec![UserRange::new(1, 10)],
            domain: "example.org".to_owned(),
            directory: Arc::new(Directory {
                password: Some("secret".to_owned()),
                ..Directory::default()
            }),
            maximum_runs: 100,
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(config, ChaCha12Rng::seed_from_u64(1), now);
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let connection = Connection {
            transport,
            local: address(5070),
            remote: address(5060),
        };
        engine.set_connection(LINE, connection);
        for user in 1..=10 {
            engine.assign(user, LINE);
        }
        let plan = CallPlan {
            hold: Pause::Fixed(hold),
            answer_within: Some(20 * SECOND),
        };
        let ring = AnswerPlan {
            ring: Pause::Fixed(SECOND),
            ..AnswerPlan::default()
        };
        let call = engine.add_script(Arc::new(builtin::call(&plan).unwrap()));
        engine.add_script(Arc::new(builtin::answer(&ring).unwrap()));
        Alone {
            engine,
            now,
            call,
            is_validating: true,
        }
    }

    fn begin(&mut self) -> Message {
        let work = Work {
            script: self.call,
            user: 1,
            peer: 2,
        };
        self.engine.begin(self.now, self.now, work).unwrap();
        self.one()
    }

    /// The only message that is to be sent.
    fn one(&mut self) -> Message {
        let [message] = &self.all()[..] else {
            panic!("one message");
        };
        message.clone()
    }

    fn all(&mut self) -> Vec<Message> {
        let messages = self
            .engine
            .transmits()
            .map(|(connection, octets)| {
                assert_eq!(connection, LINE);
                let message = Message::read(octets.to_vec().into()).unwrap();
                if self.is_validating {
                    assert_eq!(message.validate(), Ok(()), "{message}");
                }
                message
            })
            .collect();
        self.engine.clear_transmits();
        messages
    }

    fn receive(&mut self, message: &Message) -> Vec<Message> {
        let octets = message.to_bytes();
        self.engine
            .handle_message(self.now, self.now, LINE, &octets);
        self.all()
    }

    fn pass(&mut self, time: Duration) -> Vec<Message> {
        self.now += time;
        self.engine.handle_timeout(self.now);
        self.all()
    }

    fn call_records(&mut self) -> Vec<CallRecord> {
        std::iter::from_fn(|| self.engine.poll_record())
            .filter_map(|record| match record {
                Record::Call(record) => Some(record),
                _ => None,
            })
            .collect()
    }
}

fn response(request: &Message, status: u16) -> Message {
    let mut response = Message::response_to(request, status, "Reason");
    response.set_to_tag("peer");
    response
}

/// A 2xx that has come through two proxies.
fn answer(invite: &Message) -> Message {
    response(invite, 200)
        .with(Name::Contact, "\"B\" <sip:b@192.0.2.9:5099>;x=1")
        .with(
            Name::RecordRoute,
            "<sip:192.0.2.3;lr>, <sip:192.0.2.2;lr>;x=\"a,b\"",
        )
        .with(Name::RecordRoute, "<sip:192.0.2.1;lr>")
}

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
    assert_eq!(alone.engine.runs(), 0);
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

fn invite(branch: &str) -> Message {
    Message::request(Method::Invite, "sip:user3@127.0.0.1:5070")
        .with(
            Name::Via,
            format!("SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{branch}"),
        )
        .with(Name::Via, "SIP/2.0/UDP 192.0.2.2;branch=z9hG4bKx")
        .with(Name::MaxForwards, "70")
        .with(Name::RecordRoute, "<sip:192.0.2.1;lr>")
        .with(Name::From, "\"A\" <sip:alice@example.net>;tag=a")
        .with(Name::To, "<sip:user3@example.org>")
        .with(Name::CallId, "call-of-alice")
        .with(Name::CSeq, "7 INVITE")
        .with(Name::Contact, "<sip:alice@192.0.2.7>")
}

/// A request of the caller of [`invite`] within the call.
fn within(ringing: &Message, method: Method, number: u32) -> Message {
    let mut request = Message::request(method.clone(), "sip:user3@127.0.0.1:5070")
        .with(
            Name::Via,
            format!("SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{method}{number}"),
        )
        .with(Name::MaxForwards, "70");
    for name in [Name::From, Name::To, Name::CallId] {
        request = request.with(name, ringing.header(name).unwrap_or_default());
    }
    request.with(Name::CSeq, format!("{number} {method}"))
}

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
    assert_eq!(alone.engine.runs(), 1);
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
    assert_eq!(alone.engine.runs(), 0);
    // The run is gone, but what it has answered is known (Timer J).
    assert_eq!(alone.receive(&bye)[0].status(), Some(200));
    assert!(alone.receive(&invite("1")).is_empty());
    assert_eq!(
        alone.receive(&within(ringing, Method::Bye, 11))[0].status(),
        Some(481)
    );
    assert_eq!(alone.engine.runs(), 0);
    let record = &alone.call_records()[0];
    assert!(record.attempt.is_completed());
    assert_eq!((record.attempt.user, record.attempt.peer), (3, 0));
    assert_eq!(record.attempt.call_id.to_string(), "call-of-alice");
}

#[test]
fn a_callee_who_hangs_up_ends_the_call() {
    let mut alone = Alone::new(Transport::Udp, 60 * SECOND);
    let invite = alone.begin();
    let answer = answer(&invite);
    alone.receive(&answer);
    let mut bye = Message::request(Method::Bye, "sip:user1@127.0.0.1:5070")
        .with(Name::Via, "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKb")
        .with(Name::MaxForwards, "70");
    bye = bye
        .with(Name::From, answer.header(Name::To).unwrap())
        .with(Name::To, answer.header(Name::From).unwrap())
        .with(Name::CallId, invite.call_id().unwrap())
        .with(Name::CSeq, "1 BYE");
    assert_eq!(alone.receive(&bye)[0].status(), Some(200));
    let record = &alone.call_records()[0];
    assert_eq!(record.attempt.outcome, Outcome::Failed(Failure::HungUp));
    assert!(record.is_bye_from_peer);
    assert_eq!(alone.engine.runs(), 0);
}

#[test]
fn a_lost_connection_fails_what_waits_on_it() {
    let mut alone = Alone::new(Transport::Tcp, 60 * SECOND);
    let held = alone.begin();
    alone.receive(&answer(&held));
    alone.begin();
    alone.engine.handle_connection_lost(alone.now, LINE);
    let records = alone.call_records();
    assert_eq!(records.len(), 1);
    assert_eq!(
        records[0].attempt.outcome,
        Outcome::Failed(Failure::ConnectionLost)
    );
    let work = Work {
        script: alone.call,
        user: 1,
        peer: 2,
    };
    assert!(alone.engine.begin(alone.now, alone.now, work).is_err());
    assert_eq!(alone.engine.in_flight(), 1);
    // The held call cannot say goodbye.
    assert!(alone.pass(60 * SECOND).is_empty());
    let records = alone.call_records();
    assert_eq!(
        records[0].attempt.outcome,
        Outcome::Failed(Failure::ConnectionLost)
    );
    assert_eq!(alone.engine.runs(), 0);
}

#[test]
fn no_more_calls_than_are_allowed() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    for number in 0..200 {
        let stranger = invite(&number.to_string()).to_string();
        let stranger = stranger.replace("call-of-alice", &format!("call-{number}"));
        alone.receive(&Message::read(stranger.into_bytes().into()).unwrap());
    }
    assert_eq!(alone.engine.runs(), 100);
    assert_eq!(alone.engine.counters().refused_by_limit, 100);
    alone.engine.abandon(alone.now);
    assert_eq!(alone.engine.runs(), 0);
    let records = alone.call_records();
    assert_eq!(records.len(), 100);
    assert!(
        records
            .iter()
            .all(|record| record.attempt.outcome == Outcome::Unfinished)
    );
}

#[test]
fn callers_come_back() {
    let mut alone = Alone::new(Transport::Udp, Duration::ZERO);
    let work = Work {
        script: alone.call,
        user: 1,
        peer: 2,
    };
    alone.engine.limit_repeating(Some(3));
    alone.engine.call_repeatedly(alone.now, work).unwrap();
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

/// Messages that are nearly right, for the engine whose messages these are.
fn damaged(octets: &[u8], at: usize, by: u8, cut: usize) -> Vec<u8> {
    let mut octets = octets.to_vec();
    if !octets.is_empty() {
        let at = at % octets.len();
        octets[at] = by;
        octets.truncate(octets.len() - cut % octets.len());
    }
    octets
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever comes, the engine keeps its bounds, and comes to rest.
    #[test]
    fn nothing_breaks_an_engine(
        steps in prop::collection::vec((0_u8..8, any::<u16>(), any::<u8>(), 0_usize..4, 0_u64..2_000), 1..80),
    ) {
        let mut alone = Alone::new(Transport::Udp, Duration::from_millis(100));
        alone.is_validating = false;
        let mut seen: Vec<Message> = vec![invite("1")];
        for (what, at, by, cut, passes) in steps {
            let pick = seen[usize::from(at) % seen.len()].clone();
            let octets = match what {
                0 => {
                    let work = Work { script: alone.call, user: 1 + u32::from(by % 10), peer: 2 };
                    let _ = alone.engine.begin(alone.now, alone.now, work);
                    Vec::new()
                }
                1 => damaged(&pick.to_bytes(), at.into(), by, cut),
                2..5 if pick.is_request() => {
                    let status = [100, 180, 200, 302, 401, 486, 487, 600][usize::from(by) % 8];
                    answer(&response(&pick, status)).to_bytes().to_vec()
                }
                5 => {
                    let method = [Method::Ack, Method::Bye, Method::Cancel, Method::Invite, Method::Update];
                    within(&pick, method[usize::from(by) % 5].clone(), u32::from(by)).to_bytes().to_vec()
                }
                _ => pick.to_bytes().to_vec(),
            };
            alone.engine.handle_message(alone.now, alone.now, LINE, &octets);
            seen.extend(alone.all());
            seen.extend(alone.pass(Duration::from_millis(passes)));
            prop_assert!(alone.engine.runs() <= 100);
        }
        alone.call_records();
    }
}

/// A script of these steps.
fn script(steps: Vec<Step>) -> Arc<Script> {
    Arc::new(Script::new("test", steps, Vec::new()).unwrap())
}

/// A request within or outside of a call, in a script.
fn sends(method: &str, is_within: bool) -> Step {
    let target = if is_within {
        "{target}"
    } else {
        "sip:{peer}@{domain}"
    };
    let text = format!(
        "{method} {target} SIP/2.0\nVia: SIP/2.0/{{transport}} {{local_address}};branch={{branch}}\n\
         Max-Forwards: 70\n{{routes}}\nFrom: {{local_party}}\nTo: {{remote_party}}\n\
         Call-ID: {{call_id}}\nCSeq: {{cseq}} {method}\nContact: <{{contact}}>\nContent-Length: 0\n\n"
    );
    Step::Send(Send::new(Template::parse(&text).unwrap()))
}

fn expects(statuses: std::ops::RangeInclusive<u16>) -> Step {
    Step::Expect(Expect::response(statuses))
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
        assert_eq!(alone.engine.runs(), 1);
        let ack = alone.receive(&response(&invite, 487))[0].clone();
        assert_eq!(ack.method(), Some(&Method::Ack));
        assert_eq!(alone.engine.runs(), 0);
    }
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
fn a_bye_while_it_rings_terminates_the_invite() {
    let mut alone = Alone::new(Transport::Udp, SECOND);
    let ringing = alone.receive(&invite("1"))[0].clone();
    let [farewell, terminated] = &alone.receive(&within(&ringing, Method::Bye, 8))[..] else {
        panic!("two answers");
    };
    assert_eq!(farewell.status(), Some(200));
    // RFC 3261 section 15.1.2.
    assert_eq!(terminated.status(), Some(487));
    assert_eq!(terminated.cseq(), Some((7, Method::Invite)));
    alone.receive(&within(&ringing, Method::Ack, 7));
    assert_eq!(alone.engine.runs(), 0);
}

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
    let again = alone.receive(&forked);
    assert!(
        again
            .iter()
            .map(Message::to_bytes)
            .eq(sent.iter().map(Message::to_bytes))
    );
    assert_eq!(alone.engine.counters().forked_answers, 2);
    alone.receive(&response(bye, 200));
    // The first dialog goes on.
    assert_eq!(
        alone.receive(&answer(&invite))[0].to_bytes(),
        first.to_bytes()
    );
    let bye = alone.pass(SECOND)[0].clone();
    assert_eq!(bye.header(Name::To), first.header(Name::To));
    alone.receive(&response(&bye, 200));
    assert!(alone.call_records()[0].attempt.is_completed());
}
