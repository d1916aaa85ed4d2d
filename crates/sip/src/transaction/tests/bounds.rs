//! What is refused, and what is left of transactions that have ended.

use super::*;

fn small() -> Layer {
    Layer::new(TransactionConfig {
        max_transactions: 2,
        ..TransactionConfig::default()
    })
}

#[test]
fn client_transactions_are_bounded() {
    let mut layer = small();
    layer.request(&request("OPTIONS", "z9hG4bK1"), Transport::Tcp);
    layer.request(&request("OPTIONS", "z9hG4bK2"), Transport::Tcp);
    let third = read(&request("OPTIONS", "z9hG4bK3"));
    let target = Target::Flow(flow(Transport::Tcp));
    let result = layer
        .transactions
        .send_request(layer.now, third.clone(), target);
    assert_eq!(result, Err(SendRequestError::Overloaded));
    assert_eq!(layer.sent().len(), 2);
    assert_eq!(layer.transactions.statistics().overloaded, 1);

    let answer = response(200, "OPTIONS", "z9hG4bK1", "a");
    layer.receive(flow(Transport::Tcp), &answer);
    let result = layer.transactions.send_request(layer.now, third, target);
    assert!(result.is_ok());
}

#[test]
fn server_transactions_are_bounded_but_for_cancel() {
    let mut layer = small();
    for branch in ["z9hG4bK1", "z9hG4bK2", "z9hG4bK3"] {
        layer.receive(flow(Transport::Udp), &request("INVITE", branch));
    }
    assert_eq!(layer.event_names(), ["INVITE", "INVITE", "overloaded"]);
    layer.receive(flow(Transport::Udp), &request("CANCEL", "z9hG4bK3"));
    layer.receive(flow(Transport::Udp), &request("CANCEL", "z9hG4bK1"));
    assert_eq!(layer.event_names(), ["overloaded", "CANCEL"]);
    // What is known is still absorbed, and an ACK needs no room.
    layer.receive(flow(Transport::Udp), &request("INVITE", "z9hG4bK1"));
    layer.receive(flow(Transport::Udp), &request("ACK", "z9hG4bK4"));
    assert_eq!(layer.event_names(), ["ACK"]);
    assert_eq!(layer.transactions.statistics().overloaded, 2);
}

#[test]
fn transactions_that_wait_for_timer_j_make_room() {
    let mut layer = small();
    let udp = flow(Transport::Udp);
    let answer = |layer: &mut Layer, branch: &str| {
        layer.receive(udp, &request("REGISTER", branch));
        let (server, register) = layer.only_request();
        layer.respond(server, &register, 200);
    };
    answer(&mut layer, "z9hG4bK1");
    answer(&mut layer, "z9hG4bK2");
    assert_eq!(layer.transactions.server_transactions(), 2);
    assert_eq!(layer.transactions.server_transactions_in_progress(), 0);
    // The oldest gives way; the other one still answers retransmissions.
    layer.receive(udp, &request("INVITE", "z9hG4bK3"));
    layer.receive(udp, &request("REGISTER", "z9hG4bK2"));
    layer.receive(udp, &request("REGISTER", "z9hG4bK1"));
    layer.receive(udp, &request("REGISTER", "z9hG4bK4"));
    let statistics = layer.transactions.statistics();
    assert_eq!(
        (
            statistics.ended_early,
            statistics.overloaded,
            statistics.requests_absorbed
        ),
        (2, 1, 1)
    );
    assert_eq!(layer.transactions.server_transactions(), 2);
    assert_eq!(layer.transactions.server_transactions_in_progress(), 2);
}

/// Both sides share the octets: what only waits for Timer J must not keep a request from being forwarded.
#[test]
fn what_waits_for_timer_j_makes_room_for_a_request_that_is_sent() {
    let length = request("REGISTER", "z9hG4bK1").len();
    let mut layer = Layer::new(TransactionConfig {
        max_octets: 2 * length,
        ..TransactionConfig::default()
    });
    let udp = flow(Transport::Udp);
    for branch in ["z9hG4bK1", "z9hG4bK2"] {
        layer.receive(udp, &request("REGISTER", branch));
        let (server, register) = layer.only_request();
        layer.respond(server, &register, 200);
    }
    let kept = layer.transactions.kept_octets();
    assert!(kept > length && kept <= 2 * length);
    // Nothing of it is kept.
    layer.request(&request("OPTIONS", "z9hG4bK3"), Transport::Tcp);
    assert_eq!(layer.transactions.statistics().ended_early, 0);
    layer.request(&request("OPTIONS", "z9hG4bK4"), Transport::Udp);
    assert_eq!(layer.transactions.statistics().ended_early, 1);
    assert_eq!(layer.transactions.server_transactions(), 1);
    assert_eq!(layer.transactions.statistics().overloaded, 0);
}

#[test]
fn a_request_without_room_can_be_answered() {
    let mut layer = Layer::new(TransactionConfig {
        max_transactions: 0,
        ..TransactionConfig::default()
    });
    let text = request("INVITE", "z9hG4bK1").replace("5080;", "5080;rport;");
    layer.receive(flow(Transport::Udp), &text);
    let event = layer.events().pop();
    let Some(TransactionEvent::Overloaded { flow, request }) = event else {
        panic!("not overloaded: {event:?}");
    };
    let response = Message::response_to(&request, 503, "Service Unavailable");
    layer
        .transactions
        .respond_stateless(layer.now, flow, response);
    let transmit = layer.transmits().remove(0);
    assert_eq!(transmit.target, Target::Flow(flow));
    let response = Message::read(transmit.payload).expect("a message");
    let via = response.top_via().expect("a Via");
    assert_eq!(via.rport(), Some(5080));
}

#[test]
fn messages_that_belong_nowhere_are_counted() {
    let mut layer = Layer::default();
    for text in [
        request("OPTIONS", "z9hG4bK1").replace("Via:", "X:"),
        request("INVITE", "7").replace("CSeq:", "X:"),
        response(200, "INVITE", "z9hG4bK1", "a").replace("Via:", "X:"),
        response(200, "INVITE", "z9hG4bK1", "a").replace("CSeq:", "X:"),
        response(200, "INVITE", "z9hG4bK1", "a").replace(";branch=z9hG4bK1", ""),
        response(700, "INVITE", "z9hG4bK1", "a"),
    ] {
        let (now, flow) = (layer.now, flow(Transport::Udp));
        layer.transactions.handle_message(now, flow, read(&text));
    }
    assert_eq!(layer.transactions.statistics().malformed, 6);
    assert!(layer.is_empty());
    assert_eq!(layer.event_names(), [""; 0]);
}

/// Requests over connections end at once, but their Timers F would run for 32 seconds.
#[test]
fn timers_of_ended_transactions_do_not_pile_up() {
    let mut layer = Layer::default();
    for number in 0..20_000 {
        let branch = format!("z9hG4bK{number}");
        layer.request(&request("OPTIONS", &branch), Transport::Tcp);
        let answer = response(200, "OPTIONS", &branch, "a");
        layer.receive(flow(Transport::Tcp), &answer);
        layer.receive(flow(Transport::Tcp), &request("OPTIONS", &branch));
        while let Some(event) = layer.transactions.poll_event() {
            if let TransactionEvent::Request {
                transaction,
                request,
                ..
            } = event
            {
                layer.respond(transaction, &request, 200);
            }
        }
        layer.sent();
        assert!(layer.is_empty());
        assert!(layer.transactions.common.timers.len() <= 1030);
    }
}

#[test]
fn a_transaction_that_lingers_keeps_no_message() {
    // How many clones of these octets there are, the one here included.
    let mut layer = Layer::default();
    let invite = Bytes::from(request("INVITE", "z9hG4bK1"));
    let message = Message::read(invite.clone()).expect("a message");
    let target = Target::Flow(flow(Transport::Udp));
    let sent = layer.transactions.send_request(layer.now, message, target);
    assert!(sent.is_ok());
    layer.transmits();
    assert!(!invite.is_unique(), "it may have to be sent again");
    let answer = response(200, "INVITE", "z9hG4bK1", "a");
    layer.receive(flow(Transport::Udp), &answer);
    assert!(invite.is_unique());

    let invite = Bytes::from(request("INVITE", "z9hG4bK2"));
    let message = Message::read(invite.clone()).expect("a message");
    let (now, source) = (layer.now, flow(Transport::Udp));
    layer.events();
    layer.transactions.handle_message(now, source, message);
    let (id, message) = layer.only_request();
    layer.respond(id, &message, 200);
    drop(message);
    assert!(invite.is_unique());
    assert!(!layer.is_empty());
}

#[test]
fn the_octets_that_are_kept_are_bounded_and_given_back() {
    let length = request("OPTIONS", "z9hG4bK1").len();
    let mut layer = Layer::new(TransactionConfig {
        max_octets: 2 * length,
        ..TransactionConfig::default()
    });
    layer.request(&request("OPTIONS", "z9hG4bK1"), Transport::Udp);
    layer.receive(flow(Transport::Tcp), &request("INVITE", "z9hG4bK2"));
    assert_eq!(layer.event_names(), ["INVITE"]);
    let kept = layer.transactions.kept_octets();
    assert!(kept > length && kept <= 2 * length);

    // Both sides count together.
    layer.receive(flow(Transport::Tcp), &request("INVITE", "z9hG4bK3"));
    assert_eq!(layer.event_names(), ["overloaded"]);
    let third = read(&request("OPTIONS", "z9hG4bK4"));
    let target = Target::Flow(flow(Transport::Udp));
    let refused = layer
        .transactions
        .send_request(layer.now, third.clone(), target);
    assert_eq!(refused, Err(SendRequestError::Overloaded));
    assert_eq!(layer.transactions.statistics().overloaded, 2);

    let answer = response(200, "OPTIONS", "z9hG4bK1", "a");
    layer.receive(flow(Transport::Udp), &answer);
    assert!(layer.transactions.kept_octets() <= length);
    let sent = layer.transactions.send_request(layer.now, third, target);
    assert!(sent.is_ok());
}

#[test]
fn what_cannot_be_lost_is_sent_once_and_not_kept() {
    let mut layer = Layer::default();
    layer.request(&request("OPTIONS", "z9hG4bK1"), Transport::Tcp);
    assert_eq!(layer.sent().len(), 1);
    assert_eq!(layer.transactions.kept_octets(), 0);
    assert_eq!(layer.transactions.statistics().requests_sent, 1);
    layer.receive(
        flow(Transport::Tcp),
        &response(200, "OPTIONS", "z9hG4bK1", "a"),
    );
    assert_eq!(layer.event_names().len(), 2, "a response and the end");
    // A CANCEL is made of an INVITE, and an ACK.
    layer.request(&request("INVITE", "z9hG4bK2"), Transport::Tcp);
    assert!(layer.transactions.kept_octets() > 0);
}

#[test]
fn an_invite_is_kept_where_a_100_may_be_made_of_it() {
    for (trying_after, is_kept) in [(None, false), (Some(Duration::from_millis(200)), true)] {
        let mut layer = Layer::new(TransactionConfig {
            trying_after,
            ..TransactionConfig::default()
        });
        layer.receive(flow(Transport::Udp), &request("INVITE", "z9hG4bK1"));
        assert_eq!(layer.transactions.kept_octets() > 0, is_kept);
    }
}

#[test]
fn what_is_not_kept_needs_no_room() {
    let mut layer = Layer::new(TransactionConfig {
        max_octets: 0,
        ..TransactionConfig::default()
    });
    layer.request(&request("OPTIONS", "z9hG4bK1"), Transport::Tcp);
    for (method, transport) in [("OPTIONS", Transport::Udp), ("INVITE", Transport::Tcp)] {
        let refused = layer.transactions.send_request(
            layer.now,
            read(&request(method, "z9hG4bK2")),
            Target::Flow(flow(transport)),
        );
        assert_eq!(refused, Err(SendRequestError::Overloaded), "{method}");
    }
}
