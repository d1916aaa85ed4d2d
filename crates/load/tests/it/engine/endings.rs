//! How calls end before their time: by the peer, with their connection, with everything.

use std::net::SocketAddr;

use load::engine::{Connection, ConnectionId, NewSession};
use load::record::{Failure, Outcome};
use sip::{Message, Method, Name, Transport};

use crate::engine::alone::{Alone, LINE, SECOND, answer, invite, response, within};

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
    assert_eq!(alone.engine.sessions(), 0);
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
    assert_eq!(alone.engine.sessions(), 0);
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
    // What begins now fails at once, as the peer's doing (RFC 3261 section 8.1.3.1).
    let session = NewSession {
        script: alone.call,
        user: 1,
        peer: 2,
    };
    alone.engine.begin(alone.now, alone.now, session).unwrap();
    assert!(alone.all().is_empty());
    let records = alone.call_records();
    assert_eq!(
        records[0].attempt.outcome,
        Outcome::Failed(Failure::ConnectionLost)
    );
    assert_eq!(alone.engine.in_flight(), 1);
    // The held call cannot say goodbye.
    assert!(alone.pass(60 * SECOND).is_empty());
    let records = alone.call_records();
    assert_eq!(
        records[0].attempt.outcome,
        Outcome::Failed(Failure::ConnectionLost)
    );
    assert_eq!(alone.engine.sessions(), 0);
}

#[test]
fn the_loss_of_a_connection_is_the_loss_of_its_own_calls() {
    let mut alone = Alone::new(Transport::Tcp, SECOND);
    let other = ConnectionId(1);
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let connection = Connection {
        transport: Transport::Tcp,
        local: address(5071),
        remote: address(5060),
    };
    alone.engine.set_connection(other, connection);
    for user in 6..=10 {
        alone.engine.assign(user, other);
    }
    let now = alone.now;
    for user in [1, 6, 2, 7, 3, 8] {
        let session = NewSession {
            script: alone.call,
            user,
            peer: 2,
        };
        alone.engine.begin(now, now, session).unwrap();
    }
    let mut invites = Vec::new();
    loop {
        let mut octets = Vec::new();
        let Some(transmit) = alone.engine.poll_transmit(&mut octets) else {
            break;
        };
        let message = Message::read(octets.into()).unwrap();
        invites.push((transmit.connection, message));
    }
    // One is over before, in the middle of the list.
    let refused = response(&invites[3].1, 486).to_bytes();
    alone.engine.handle_message(now, now, other, &refused);
    let mut sent = Vec::new();
    while alone.engine.poll_transmit(&mut sent).is_some() {}
    alone.engine.handle_connection_lost(now, other);
    let lost = |alone: &mut Alone| {
        let records = alone.call_records().into_iter();
        let lost =
            records.filter(|call| call.attempt.outcome == Outcome::Failed(Failure::ConnectionLost));
        let mut users: Vec<_> = lost.map(|call| call.attempt.user).collect();
        users.sort_unstable();
        users
    };
    assert_eq!(lost(&mut alone), [6, 8]);
    assert_eq!(alone.engine.in_flight(), 3);
    alone.engine.set_connection(other, connection);
    alone.engine.handle_connection_lost(now, other);
    assert!(lost(&mut alone).is_empty());
    alone.engine.handle_connection_lost(now, LINE);
    assert_eq!(lost(&mut alone), [1, 2, 3]);
    assert_eq!(alone.engine.sessions(), 0);
}

#[test]
fn the_end_of_everything_is_told_to_peers() {
    let mut alone = Alone::new(Transport::Udp, 60 * SECOND);
    let held = alone.begin();
    alone.receive(&answer(&held));
    let ringing = alone.begin();
    alone.receive(&response(&ringing, 180));
    let unanswered = alone.begin();
    let called = alone.receive(&invite("1"))[0].clone();
    alone.call_records();
    alone.engine.end_all(alone.now);
    let said: Vec<_> = alone
        .all()
        .into_iter()
        .map(|message| (message.method().cloned(), message.status(), message))
        .collect();
    let [(bye, _, goodbye), (cancel, _, cancelled), (_, refused, _)] = &said[..] else {
        panic!("a BYE, a CANCEL and a refusal");
    };
    assert_eq!(
        (bye, cancel, refused),
        (&Some(Method::Bye), &Some(Method::Cancel), &Some(500))
    );
    let outcomes = alone.call_records();
    assert_eq!(outcomes.len(), 4);
    assert!(
        outcomes
            .iter()
            .all(|call| call.attempt.outcome == Outcome::Unfinished)
    );
    // What nobody has answered is not asked any more, but ended if it is answered after all.
    alone.receive(&response(goodbye, 200));
    alone.receive(&response(cancelled, 200));
    alone.receive(&response(&ringing, 487));
    alone.receive(&within(&called, Method::Ack, 7));
    assert!(alone.pass(5 * SECOND).is_empty());
    assert_eq!(alone.engine.sessions(), 1);
    let ended: Vec<_> = alone
        .receive(&answer(&unanswered))
        .iter()
        .map(|message| message.method().cloned())
        .collect();
    assert_eq!(ended, [Some(Method::Ack), Some(Method::Bye)]);
}
