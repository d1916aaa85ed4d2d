//! Server transactions in time (RFC 3261 section 17.2).

use super::*;

fn invite() -> String {
    request("INVITE", "z9hG4bK1")
}

fn ack() -> String {
    request("ACK", "z9hG4bK1").replace("example.com>\r\nCall", "example.com>;tag=callee\r\nCall")
}

/// A layer to which a request has come.
fn with_request(text: &str, transport: Transport) -> (Layer, ServerId, Message) {
    let mut layer = Layer::default();
    layer.receive(flow(transport), text);
    let (id, request) = layer.only_request();
    (layer, id, request)
}

#[test]
fn a_100_is_sent_after_200_ms() {
    let (mut layer, id, request) = with_request(&invite(), Transport::Udp);
    let sent = layer.run_for(TIMEOUT);
    assert_eq!(sent, [(200, "SIP/2.0 100 Trying".to_owned())]);

    layer.receive(flow(Transport::Udp), &invite());
    assert_eq!(layer.sent(), ["SIP/2.0 100 Trying"]);
    layer.respond(id, &request, 180);
    layer.receive(flow(Transport::Udp), &invite());
    assert_eq!(layer.sent(), ["SIP/2.0 180 Because"; 2]);
    assert_eq!(layer.event_names(), [""; 0]);
    let statistics = layer.transactions.statistics();
    assert_eq!(statistics.responses_sent, 2);
    assert_eq!(statistics.response_retransmissions, 2);
    assert_eq!(statistics.requests_received, 3);
    assert_eq!(statistics.requests_absorbed, 2);
}

#[test]
fn a_100_is_what_section_8_2_6_says() {
    let text = invite().replace("5080;branch", "5999;rport;branch");
    let (mut layer, _, request) = with_request(&text, Transport::Udp);
    layer.transactions.handle_timeout(layer.now + T1);
    let payload = layer.transmits().remove(0).payload;
    let expected = Message::response_to(&request, 100, "Trying").to_bytes();
    assert_eq!(payload, expected);
    let trying = Message::read(payload).expect("a message");
    assert_eq!(trying.to().and_then(|to| to.tag()), None);
    let via = trying.top_via().expect("a Via");
    assert_eq!(via.rport(), Some(5080));
}

#[test]
fn the_100_of_a_proxy_precedes_the_request() {
    let mut layer = Layer::new(TransactionConfig {
        trying_after: Some(Duration::ZERO),
        ..TransactionConfig::default()
    });
    layer.receive(flow(Transport::Udp), &invite());
    assert_eq!(layer.sent(), ["SIP/2.0 100 Trying"]);
    let (id, request) = layer.only_request();
    layer.respond(id, &request, 404);
    assert_eq!(layer.sent(), ["SIP/2.0 404 Because"]);
}

#[test]
fn no_100_is_sent_to_a_user_that_answers_itself() {
    let (mut layer, id, request) = with_request(&invite(), Transport::Udp);
    layer.respond(id, &request, 180);
    assert_eq!(layer.sent(), ["SIP/2.0 180 Because"]);
    assert_eq!(layer.run_for(TIMEOUT), []);

    let mut layer = Layer::new(TransactionConfig {
        trying_after: None,
        ..TransactionConfig::default()
    });
    layer.receive(flow(Transport::Udp), &invite());
    assert_eq!(layer.run_for(TIMEOUT), []);
}

#[test]
fn a_refusal_over_udp_is_repeated_until_the_ack() {
    let (mut layer, id, request) = with_request(&invite(), Transport::Udp);
    layer.respond(id, &request, 486);
    let busy = "SIP/2.0 486 Because";
    assert_eq!(layer.sent(), [busy]);
    let sent = layer.run_for(Duration::from_secs(12));
    assert_eq!(sent, each(&[500, 1500, 3500, 7500, 11_500], busy));
    layer.receive(flow(Transport::Udp), &invite());
    assert_eq!(layer.sent(), [busy]);

    layer.receive(flow(Transport::Udp), &ack());
    assert_eq!(layer.run_for(Duration::from_secs(4)), []);
    // Confirmed: further ACKs and INVITEs are absorbed until Timer I.
    layer.receive(flow(Transport::Udp), &ack());
    layer.receive(flow(Transport::Udp), &invite());
    assert_eq!((layer.sent(), layer.event_names()), (vec![], vec![]));
    layer.run_for(Duration::from_secs(1) - Duration::from_millis(1));
    assert!(!layer.is_empty());
    layer.run_for(Duration::from_millis(1));
    assert_eq!(layer.event_names(), ["terminated"]);
    let statistics = layer.transactions.statistics();
    assert_eq!(statistics.response_retransmissions, 6);
    assert_eq!(statistics.requests_absorbed, 3);
}

#[test]
fn a_refusal_without_ack_times_out() {
    for transport in Transport::ALL {
        let (mut layer, id, request) = with_request(&invite(), transport);
        layer.respond(id, &request, 486);
        layer.sent();
        let sent = layer.run_for(TIMEOUT - Duration::from_millis(1));
        let times = [
            500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500,
        ];
        let times = if transport.is_reliable() {
            &[]
        } else {
            &times[..]
        };
        assert_eq!(sent, each(times, "SIP/2.0 486 Because"));
        assert_eq!(layer.event_names(), [""; 0]);
        layer.run_for(Duration::from_millis(1));
        assert_eq!(layer.event_names(), ["no ACK", "terminated"]);
        assert!(layer.is_empty());
        assert_eq!(layer.transactions.statistics().ack_timeouts, 1);
    }
}

#[test]
fn a_refusal_over_a_reliable_transport_ends_with_the_ack() {
    let (mut layer, id, request) = with_request(&invite(), Transport::Sctp);
    layer.respond(id, &request, 486);
    layer.receive(flow(Transport::Sctp), &ack());
    assert_eq!(layer.event_names(), ["terminated"]);
    assert!(layer.is_empty());
}

/// RFC 6026 section 7.1.
#[test]
fn an_accepted_invite_absorbs_retransmissions_and_sends_what_the_user_repeats() {
    for transport in Transport::ALL {
        let (mut layer, id, request) = with_request(&invite(), transport);
        layer.respond(id, &request, 200);
        assert_eq!(layer.sent(), ["SIP/2.0 200 Because"]);
        layer.receive(flow(transport), &invite());
        assert_eq!((layer.sent(), layer.event_names()), (vec![], vec![]));
        layer.respond(id, &request, 200);
        assert_eq!(layer.sent(), ["SIP/2.0 200 Because"]);
        layer.respond(id, &request, 486);
        assert_eq!(layer.sent(), [""; 0]);
        let statistics = layer.transactions.statistics();
        assert_eq!(statistics.responses_sent, 1);
        assert_eq!(statistics.response_retransmissions, 1);
        layer.run_for(TIMEOUT - Duration::from_millis(1));
        assert!(!layer.is_empty());
        layer.run_for(Duration::from_millis(1));
        assert_eq!(layer.event_names(), ["terminated"]);
        // The user may repeat it a last time: there is nothing to send it.
        layer.respond(id, &request, 200);
        assert_eq!(layer.sent(), [""; 0]);
    }
}

#[test]
fn answers_of_several_callees_are_no_retransmissions() {
    let (mut layer, id, request) = with_request(&invite(), Transport::Udp);
    for tag in ["a", "b", "a", "c", "b"] {
        let mut answer = Message::response_to(&request, 200, "OK");
        answer.set_to_tag(tag);
        layer.transactions.respond(layer.now, id, answer);
    }
    assert_eq!(layer.sent().len(), 5);
    let statistics = layer.transactions.statistics();
    assert_eq!(statistics.responses_sent, 3);
    assert_eq!(statistics.response_retransmissions, 2);
}

#[test]
fn acks_to_a_2xx_are_the_users() {
    let (mut layer, id, request) = with_request(&invite(), Transport::Udp);
    layer.respond(id, &request, 200);
    // A branch of its own, or, wrongly, that of the INVITE.
    let own = ack().replace("z9hG4bK1", "z9hG4bK2");
    layer.receive(flow(Transport::Udp), &own);
    layer.receive(flow(Transport::Udp), &ack());
    assert_eq!(layer.event_names(), ["ACK", "ACK"]);
}

#[test]
fn acks_come_with_their_source() {
    let mut layer = Layer::default();
    let away = ack().replace("192.0.2.9:5080", "host.example.com;rport");
    layer.receive(flow(Transport::Udp), &away);
    let Some(TransactionEvent::Ack {
        request,
        flow: from,
    }) = layer.events().pop()
    else {
        panic!("no ACK");
    };
    let via = request.top_via().expect("a Via");
    assert_eq!(via.received(), Some([192, 0, 2, 9].into()));
    assert_eq!(via.rport(), Some(5080));
    assert_eq!(from, flow(Transport::Udp));
}

#[test]
fn a_request_over_udp_is_answered_for_64_t1() {
    let (mut layer, id, request) =
        with_request(&super::request("OPTIONS", "z9hG4bK1"), Transport::Udp);
    let repeated = super::request("OPTIONS", "z9hG4bK1");
    layer.receive(flow(Transport::Udp), &repeated);
    assert_eq!((layer.sent(), layer.event_names()), (vec![], vec![]));
    layer.respond(id, &request, 200);
    let first = layer.transmits().remove(0).payload;
    layer.receive(flow(Transport::Udp), &repeated);
    assert_eq!(layer.transmits().remove(0).payload, first);
    layer.respond(id, &request, 404);
    assert_eq!(layer.sent(), [""; 0]);
    assert_eq!(layer.run_for(TIMEOUT - Duration::from_millis(1)), []);
    assert!(!layer.is_empty());
    layer.run_for(Duration::from_millis(1));
    assert_eq!(layer.event_names(), ["terminated"]);
    layer.receive(flow(Transport::Udp), &repeated);
    assert_eq!(layer.event_names(), ["OPTIONS"]);
}

#[test]
fn a_request_over_a_reliable_transport_ends_with_its_answer() {
    let (mut layer, id, request) =
        with_request(&super::request("OPTIONS", "z9hG4bK1"), Transport::Tcp);
    layer.respond(id, &request, 200);
    assert_eq!(layer.sent(), ["SIP/2.0 200 Because"]);
    assert_eq!(layer.event_names(), ["terminated"]);
    assert!(layer.is_empty());
}

/// RFC 4320: a 100 when Timer E reaches T2, and nothing at all when the client has given up.
#[test]
fn a_request_that_the_user_does_not_answer() {
    let (mut layer, id, request) =
        with_request(&super::request("OPTIONS", "z9hG4bK1"), Transport::Udp);
    let sent = layer.run_for(TIMEOUT);
    assert_eq!(sent, [(3500, "SIP/2.0 100 Trying".to_owned())]);
    assert_eq!(layer.event_names(), ["terminated"]);
    layer.respond(id, &request, 200);
    assert_eq!(layer.sent(), [""; 0]);
}

#[test]
fn a_cancel_finds_its_invite() {
    let (mut layer, invitation, request) = with_request(&invite(), Transport::Udp);
    let mut cancel = |branch| {
        let text = super::request("CANCEL", branch);
        layer.receive(flow(Transport::Udp), &text);
        match layer.events().pop() {
            Some(TransactionEvent::Request { cancels, .. }) => cancels,
            other => panic!("no CANCEL: {other:?}"),
        }
    };
    assert_eq!(cancel("z9hG4bK1"), Some(invitation));
    assert_eq!(cancel("z9hG4bK2"), None);

    // It is a transaction of its own, which is absorbed like any other.
    layer.receive(flow(Transport::Udp), &super::request("CANCEL", "z9hG4bK1"));
    assert_eq!(layer.event_names(), [""; 0]);
    // That of an INVITE which has been answered is for the user to see through (section 9.2).
    layer.respond(invitation, &request, 200);
    layer.respond(invitation, &request, 487);
    assert_eq!(layer.sent(), ["SIP/2.0 200 Because"]);
}

#[test]
fn a_cancel_finds_its_invite_by_the_old_rules() {
    let old = |method| super::request(method, "7");
    let (mut layer, invitation, _) = with_request(&old("INVITE"), Transport::Udp);
    layer.receive(flow(Transport::Udp), &old("CANCEL"));
    let event = layer.events().pop();
    let Some(TransactionEvent::Request { cancels, .. }) = event else {
        panic!("no CANCEL: {event:?}");
    };
    assert_eq!(cancels, Some(invitation));
}

#[test]
fn requests_are_matched_by_branch_sent_by_and_method() {
    let (mut layer, ..) = with_request(&invite(), Transport::Udp);
    for (text, expected) in [
        (invite(), None),
        (invite().replace("CSeq: 1 ", "CSeq: 2 "), None),
        (super::request("OPTIONS", "z9hG4bK1"), Some("OPTIONS")),
        (super::request("INVITE", "z9hG4bK2"), Some("INVITE")),
        (
            invite().replace("192.0.2.9:5080", "192.0.2.9:5081"),
            Some("INVITE"),
        ),
    ] {
        layer.receive(flow(Transport::Udp), &text);
        assert_eq!(layer.event_names(), expected.as_slice(), "{text}");
    }
}

#[test]
fn a_client_of_rfc_2543() {
    let old = |text: String| text.replace(";branch=z9hG4bK1", "");
    let (mut layer, id, request) = with_request(&old(invite()), Transport::Udp);
    layer.receive(flow(Transport::Udp), &old(invite()));
    assert_eq!(layer.event_names(), [""; 0]);
    layer.respond(id, &request, 486);
    layer.sent();
    // The ACK to another response than the one that was sent.
    let other = old(ack()).replace("callee", "other");
    layer.receive(flow(Transport::Udp), &other);
    assert_eq!(layer.event_names(), ["ACK"]);
    assert_eq!(layer.run_for(T1).len(), 1);
    layer.receive(flow(Transport::Udp), &old(ack()));
    assert_eq!(layer.run_for(Duration::from_secs(5)), []);
    assert_eq!(layer.event_names(), ["terminated"]);
}

#[test]
fn the_next_request_of_a_client_of_rfc_2543() {
    let old = invite().replace(";branch=z9hG4bK1", "");
    let (mut layer, ..) = with_request(&old, Transport::Udp);
    let next = old.replace("CSeq: 1 ", "CSeq: 2 ");
    layer.receive(flow(Transport::Udp), &next);
    assert_eq!(layer.event_names(), ["INVITE"]);
}

#[test]
fn the_ack_to_a_2xx_of_rfc_2543_is_the_users() {
    let old = |text: String| text.replace(";branch=z9hG4bK1", "");
    let (mut layer, id, request) = with_request(&old(invite()), Transport::Udp);
    layer.respond(id, &request, 200);
    layer.receive(flow(Transport::Udp), &old(ack()));
    assert_eq!(layer.event_names(), ["ACK"]);
}

#[test]
fn a_send_failure_changes_nothing_but_is_told() {
    for status in [180, 200, 486] {
        let (mut layer, id, request) = with_request(&invite(), Transport::Udp);
        layer.respond(id, &request, status);
        layer.sent();
        let key = TransactionKey::Server(id);
        layer.transactions.handle_send_failure(layer.now, key);
        assert_eq!(layer.event_names(), ["send failed"]);
        layer.receive(flow(Transport::Udp), &invite());
        assert_eq!(layer.event_names(), [""; 0]);
        assert_eq!(layer.transactions.server_transactions(), 1);
    }
}

#[test]
fn responses_go_where_the_via_says() {
    let source = flow(Transport::Udp);
    let to = |remote: &str| {
        Target::Flow(Flow {
            remote: remote.parse().expect("an address"),
            ..source
        })
    };
    for (sent_by, expected) in [
        ("host.example.com:7000", to("192.0.2.9:7000")),
        ("host.example.com", to("192.0.2.9:5060")),
        ("10.0.0.1:7000;rport", to("192.0.2.9:5080")),
    ] {
        let text = invite().replace("192.0.2.9:5080", sent_by);
        let (mut layer, id, request) = with_request(&text, Transport::Udp);
        layer.respond(id, &request, 200);
        assert_eq!(layer.transmits().remove(0).target, expected);
        let response = Message::response_to(&request, 503, "No");
        layer
            .transactions
            .respond_stateless(layer.now, source, response);
        assert_eq!(layer.transmits().remove(0).target, expected);
    }

    let source = flow(Transport::Sctp);
    let text = invite().replace("SIP/2.0/UDP 192.0.2.9:5080", "SIP/2.0/SCTP h.example.com");
    let (mut layer, id, request) = with_request(&text, Transport::Sctp);
    layer.respond(id, &request, 200);
    let expected = Target::FlowOrAddress(source, ([192, 0, 2, 9], 5060).into());
    assert_eq!(layer.transmits().remove(0).target, expected);
}
