//! The second next hop, which is asked what the first does not answer (RFC 3263 section 4.3).

use std::net::SocketAddr;
use std::sync::Arc;

use load::engine::{Connection, ConnectionId, NewSession};
use load::record::{Failure, Outcome};
use load::script::builtin;
use sip::{Message, Method, Name, Transport};

use crate::engine::alone::{Alone, LINE, SECOND, answer, response};

/// Another connection than the usual one.
const SECOND_LINE: ConnectionId = ConnectionId(1);

/// Users who have it.
fn with_second(transport: Transport) -> Alone {
    let mut alone = Alone::new(transport, SECOND);
    alone
        .engine
        .set_connection(SECOND_LINE, connection(transport, 5061));
    alone.engine.set_alternative(LINE, SECOND_LINE);
    alone
}

fn connection(transport: Transport, remote: u16) -> Connection {
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    Connection {
        transport,
        local: address(5070),
        remote: address(remote),
    }
}

/// What is to be sent, and which way.
fn sent(alone: &mut Alone) -> Vec<(ConnectionId, Message)> {
    let (mut sent, mut octets) = (Vec::new(), Vec::new());
    while let Some(transmit) = alone.engine.poll_transmit(&mut octets) {
        let message = Message::read(std::mem::take(&mut octets).into()).unwrap();
        sent.push((transmit.connection, message));
    }
    sent
}

#[test]
fn the_second_next_hop_is_asked_where_the_first_does_not_answer() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut alone = with_second(transport);
        let invite = alone.begin();
        // Callers of these tests give up after 20 s: a 503 is sooner.
        alone.line = SECOND_LINE;
        let refusal = response(&invite, 503).to_bytes();
        let now = alone.now;
        alone.engine.handle_message(now, now, LINE, &refusal);
        let sent = sent(&mut alone);
        let [(LINE, ack), (SECOND_LINE, again)] = &sent[..] else {
            panic!("an ACK and an INVITE: {sent:?}");
        };
        assert_eq!(ack.method(), Some(&Method::Ack));
        assert_eq!(again.method(), Some(&Method::Invite));
        assert_ne!(again.header(Name::Via), invite.header(Name::Via));
        for same in [Name::CallId, Name::From, Name::To] {
            assert_eq!(again.header(same), invite.header(same));
        }
        // All that follows goes the same way, and there is no third one.
        alone.receive(&answer(again));
        let bye = alone.pass(SECOND)[0].clone();
        alone.receive(&response(&bye, 200));
        assert!(alone.call_records()[0].attempt.is_completed());
        assert_eq!(alone.engine.counters().failovers, 1);
    }
}

#[test]
fn silence_of_both_next_hops_is_the_end() {
    let mut alone = with_second(Transport::Udp);
    alone.call = alone
        .engine
        .add_script(Arc::new(builtin::message().unwrap()));
    let first = alone.begin();
    let mut last = first.clone();
    for line in [LINE, SECOND_LINE] {
        // Timer F of the first, and then of the second.
        for second in 0..32 {
            alone.line = match (line, second) {
                (LINE, 31) => SECOND_LINE,
                _ => line,
            };
            last = alone.pass(SECOND).pop().unwrap_or(last);
        }
    }
    assert_ne!(last.header(Name::Via), first.header(Name::Via));
    assert_eq!(alone.engine.counters().failovers, 1);
    assert_eq!(alone.engine.sessions(), 0);
}

/// Where a connection is lost, what waits for an answer on it is asked on the other one, and so is what begins before
/// it is open again.
#[test]
fn a_connection_that_is_lost_is_a_next_hop_that_does_not_answer() {
    let mut alone = with_second(Transport::Tcp);
    let invite = alone.begin();
    alone.line = SECOND_LINE;
    alone.engine.handle_connection_lost(alone.now, LINE);
    let again = alone.one();
    assert_eq!(again.method(), Some(&Method::Invite));
    assert_ne!(again.header(Name::Via), invite.header(Name::Via));
    alone.receive(&answer(&again));
    let bye = alone.pass(SECOND)[0].clone();
    alone.receive(&response(&bye, 200));
    let next = alone.begin();
    alone.receive(&answer(&next));
    let bye = alone.pass(SECOND)[0].clone();
    alone.receive(&response(&bye, 200));
    let records = alone.call_records();
    assert_eq!(records.len(), 2);
    assert!(records.iter().all(|record| record.attempt.is_completed()));
    assert_eq!(alone.engine.counters().failovers, 2);
    // It is back.
    alone
        .engine
        .set_connection(LINE, connection(Transport::Tcp, 5060));
    alone.line = LINE;
    alone.begin();
    assert_eq!(alone.engine.counters().failovers, 2);
}

#[test]
fn where_both_connections_are_lost_calls_fail() {
    let mut alone = with_second(Transport::Tcp);
    alone.begin();
    for line in [SECOND_LINE, LINE] {
        alone.engine.handle_connection_lost(alone.now, line);
    }
    assert!(alone.all().is_empty());
    let lost = Outcome::Failed(Failure::ConnectionLost);
    assert_eq!(alone.call_records()[0].attempt.outcome, lost);
    let session = NewSession {
        script: alone.call,
        user: 1,
        peer: 2,
    };
    let now = alone.now;
    alone.engine.begin(now, now, session).unwrap();
    assert_eq!(alone.call_records()[0].attempt.outcome, lost);
    assert_eq!(alone.engine.counters().failovers, 0);
}

/// A call that stands is not moved: it is lost with the connection that it was set up by, though the second is open.
#[test]
fn a_call_stays_where_it_was_set_up() {
    let mut alone = with_second(Transport::Tcp);
    let invite = alone.begin();
    let ack = alone.receive(&answer(&invite))[0].clone();
    assert_eq!(ack.method(), Some(&Method::Ack));
    alone.engine.handle_connection_lost(alone.now, LINE);
    assert!(alone.pass(SECOND).is_empty());
    let lost = Outcome::Failed(Failure::ConnectionLost);
    assert_eq!(alone.call_records()[0].attempt.outcome, lost);
}
