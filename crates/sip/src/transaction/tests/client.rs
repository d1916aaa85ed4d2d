//! Client transactions in time (RFC 3261 section 17.1).

use super::*;

const INVITE: &str = "INVITE sip:bob@example.com SIP/2.0";
const OPTIONS: &str = "OPTIONS sip:bob@example.com SIP/2.0";
const ACK: &str = "ACK sip:bob@example.com SIP/2.0";

const RELIABLE: [Transport; 6] = [
    Transport::Tcp,
    Transport::Tls,
    Transport::Sctp,
    Transport::TlsSctp,
    Transport::Ws,
    Transport::Wss,
];

fn invite() -> String {
    request("INVITE", "z9hG4bK1")
}

fn options() -> String {
    request("OPTIONS", "z9hG4bK1")
}

#[test]
fn an_unanswered_invite_over_udp() {
    let mut layer = Layer::default();
    layer.request(&invite(), Transport::Udp);
    assert_eq!(layer.sent(), [INVITE]);
    let sent = layer.run_for(TIMEOUT - Duration::from_millis(1));
    assert_eq!(sent, each(&[500, 1500, 3500, 7500, 15_500, 31_500], INVITE));
    assert_eq!(layer.event_names(), [""; 0]);
    assert_eq!(layer.run_for(Duration::from_millis(1)), []);
    assert_eq!(layer.event_names(), ["timeout", "terminated"]);
    assert!(layer.is_empty());
    let statistics = layer.transactions.statistics();
    assert_eq!(statistics.requests_sent, 1);
    assert_eq!(statistics.request_retransmissions, 6);
    assert_eq!(statistics.timeouts, 1);
}

#[test]
fn an_unanswered_request_over_udp() {
    let mut layer = Layer::default();
    layer.request(&options(), Transport::Udp);
    assert_eq!(layer.sent(), [OPTIONS]);
    let sent = layer.run_for(TIMEOUT - Duration::from_millis(1));
    let times = [
        500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500,
    ];
    assert_eq!(sent, each(&times, OPTIONS));
    layer.run_for(Duration::from_millis(1));
    assert_eq!(layer.event_names(), ["timeout", "terminated"]);
    assert!(layer.is_empty());
}

#[test]
fn unanswered_requests_over_reliable_transports_are_sent_once() {
    for transport in RELIABLE {
        for text in [invite(), options()] {
            let mut layer = Layer::default();
            layer.request(&text, transport);
            assert_eq!(layer.sent().len(), 1);
            assert_eq!(layer.run_for(TIMEOUT - Duration::from_millis(1)), []);
            assert_eq!(layer.event_names(), [""; 0]);
            layer.run_for(Duration::from_millis(1));
            assert_eq!(layer.event_names(), ["timeout", "terminated"]);
            assert_eq!(layer.transactions.statistics().retransmissions(), 0);
        }
    }
}

#[test]
fn retransmissions_are_the_same_octets_to_the_same_target() {
    let mut layer = Layer::default();
    let id = layer.request(&invite(), Transport::Udp);
    let first = layer.transmits().remove(0);
    assert_eq!(first.payload, invite().as_bytes());
    assert_eq!(first.target, Target::Flow(flow(Transport::Udp)));
    assert_eq!(first.transaction, Some(TransactionKey::Client(id)));
    layer.transactions.handle_timeout(layer.now + T1);
    let second = layer.transmits().remove(0);
    assert_eq!(second.payload, first.payload);
    assert_eq!(second.target, first.target);
    assert_eq!(second.call, first.call);
    assert_eq!(second.transaction, first.transaction);
}

#[test]
fn a_provisional_response_ends_the_retransmission_of_an_invite() {
    let mut layer = Layer::default();
    layer.request(&invite(), Transport::Udp);
    layer.run_for(T1 * 2);
    layer.receive(
        flow(Transport::Udp),
        &response(180, "INVITE", "z9hG4bK1", "a"),
    );
    layer.sent();
    // A telephone may ring as long as it likes.
    assert_eq!(layer.run_for(TIMEOUT * 10), []);
    assert_eq!(layer.event_names(), ["180"]);
    assert!(!layer.is_empty());
}

#[test]
fn a_provisional_response_slows_the_retransmission_of_other_requests() {
    let mut layer = Layer::default();
    layer.request(&options(), Transport::Udp);
    layer.sent();
    layer.run_for(Duration::from_millis(600));
    layer.receive(
        flow(Transport::Udp),
        &response(100, "OPTIONS", "z9hG4bK1", "a"),
    );
    let sent = layer.run_for(Duration::from_secs(12));
    // Timer E runs on from 500 ms to 1,500 ms; then it is T2.
    assert_eq!(sent, each(&[1500, 5500, 9500], OPTIONS));
    layer.run_for(TIMEOUT);
    assert_eq!(layer.event_names(), ["100", "timeout", "terminated"]);
}

#[test]
fn a_refused_invite_over_udp() {
    let mut layer = Layer::default();
    layer.request(&invite(), Transport::Udp);
    layer.sent();
    let busy = response(486, "INVITE", "z9hG4bK1", "a");
    layer.receive(flow(Transport::Udp), &busy);
    let transmit = layer.transmits().remove(0);
    assert_eq!(start_line(&transmit), ACK);
    assert_eq!(transmit.target, Target::Flow(flow(Transport::Udp)));
    let ack = Message::read(transmit.payload.clone()).expect("a message");
    assert_eq!(ack.validate(), Ok(()));
    assert_eq!(ack.to().and_then(|to| to.tag()), Some("a"));
    assert_eq!(ack.cseq(), Some((1, Method::Ack)));
    let via = ack.top_via().expect("a Via");
    assert_eq!(via.branch(), Some("z9hG4bK1"));
    assert_eq!(layer.event_names(), ["486"]);

    // Each retransmission gets the same ACK, until Timer D.
    for _ in 0..3 {
        assert_eq!(layer.run_for(Duration::from_secs(10)), []);
        layer.receive(flow(Transport::Udp), &busy);
        let again = layer.transmits().remove(0);
        assert_eq!(again.payload, transmit.payload);
    }
    assert_eq!(layer.event_names(), [""; 0]);
    let statistics = layer.transactions.statistics();
    assert_eq!(statistics.requests_sent, 2);
    assert_eq!(statistics.request_retransmissions, 3);
    assert_eq!(statistics.responses_absorbed, 3);
    layer.run_for(Duration::from_secs(2) - Duration::from_millis(1));
    assert!(!layer.is_empty());
    layer.run_for(Duration::from_millis(1));
    assert_eq!(layer.event_names(), ["terminated"]);
    layer.receive(flow(Transport::Udp), &busy);
    assert_eq!(layer.sent(), [""; 0]);
    assert_eq!(layer.event_names(), ["stray"]);
}

#[test]
fn a_refused_invite_over_reliable_transports() {
    for transport in RELIABLE {
        let mut layer = Layer::default();
        layer.request(&invite(), transport);
        layer.sent();
        layer.receive(flow(transport), &response(404, "INVITE", "z9hG4bK1", "a"));
        assert_eq!(layer.sent(), [ACK]);
        assert_eq!(layer.event_names(), ["404", "terminated"]);
        assert!(layer.is_empty());
    }
}

/// RFC 6026 section 7.2: all of them are the user's, who sends the ACKs.
#[test]
fn every_2xx_of_a_fork_reaches_the_user() {
    for transport in Transport::ALL {
        let mut layer = Layer::default();
        let id = layer.request(&invite(), transport);
        layer.sent();
        let answer = |tag| response(200, "INVITE", "z9hG4bK1", tag);
        for tag in ["a", "b", "a", "c", "b"] {
            layer.receive(flow(transport), &answer(tag));
            layer.run_for(Duration::from_secs(1));
        }
        let tags: Vec<_> = layer
            .events()
            .into_iter()
            .map(|event| match event {
                TransactionEvent::Response {
                    transaction,
                    response,
                    ..
                } if transaction == id => response.to().and_then(|to| to.tag()).map(str::to_owned),
                other => panic!("no response: {other:?}"),
            })
            .collect();
        assert_eq!(
            tags.iter().flatten().collect::<Vec<_>>(),
            ["a", "b", "a", "c", "b"]
        );
        assert_eq!(layer.sent(), [""; 0]);
        // Timer M counts from the first.
        layer.run_for(TIMEOUT - Duration::from_secs(5) - Duration::from_millis(1));
        assert!(!layer.is_empty());
        layer.run_for(Duration::from_millis(1));
        assert!(layer.is_empty());
        layer.receive(flow(transport), &answer("d"));
        assert_eq!(layer.event_names(), ["terminated", "stray"]);
    }
}

#[test]
fn an_answered_request_over_udp() {
    let mut layer = Layer::default();
    layer.request(&options(), Transport::Udp);
    layer.sent();
    let ok = response(200, "OPTIONS", "z9hG4bK1", "a");
    layer.receive(flow(Transport::Udp), &ok);
    layer.receive(flow(Transport::Udp), &ok);
    assert_eq!(layer.event_names(), ["200"]);
    assert_eq!(
        layer.run_for(Duration::from_secs(5) - Duration::from_millis(1)),
        []
    );
    assert!(!layer.is_empty());
    layer.run_for(Duration::from_millis(1));
    assert_eq!(layer.event_names(), ["terminated"]);
    assert_eq!(layer.transactions.statistics().responses_absorbed, 1);
}

#[test]
fn responses_are_matched_by_branch_and_method() {
    let mut layer = Layer::default();
    let invitation = layer.request(&invite(), Transport::Udp);
    let cancellation = layer.request(&request("CANCEL", "z9hG4bK1"), Transport::Udp);
    let mut answered = |text: &str| {
        layer.receive(flow(Transport::Udp), text);
        match layer.events().pop() {
            Some(TransactionEvent::Response { transaction, .. }) => Some(transaction),
            Some(TransactionEvent::StrayResponse { .. }) => None,
            other => panic!("no response: {other:?}"),
        }
    };
    let branch = "z9hG4bK1";
    assert_eq!(
        answered(&response(200, "CANCEL", branch, "a")),
        Some(cancellation)
    );
    assert_eq!(
        answered(&response(487, "INVITE", branch, "a")),
        Some(invitation)
    );
    assert_eq!(answered(&response(200, "BYE", branch, "a")), None);
    assert_eq!(answered(&response(200, "INVITE", "z9hG4bK2", "a")), None);
    assert_eq!(layer.transactions.statistics().stray_responses, 2);
}

#[test]
fn a_send_failure_ends_a_client_transaction() {
    for text in [invite(), options()] {
        let mut layer = Layer::default();
        let id = layer.request(&text, Transport::Tcp);
        let key = TransactionKey::Client(id);
        layer.transactions.handle_send_failure(layer.now, key);
        assert_eq!(layer.event_names(), ["send failed", "terminated"]);
        assert!(layer.is_empty());
        // A second report is about nothing.
        layer.transactions.handle_send_failure(layer.now, key);
        assert_eq!(layer.event_names(), [""; 0]);
    }
}

#[test]
fn what_the_network_says_was_not_delivered_counts_as_not_sent() {
    for text in [invite(), options()] {
        let mut layer = Layer::default();
        layer.request(&text, Transport::Udp);
        let remote = flow(Transport::Udp).remote;
        // Of another transaction, of another address, of another method, and of none.
        let elsewhere = SocketAddr::new(remote.ip(), remote.port() + 1);
        let mut say = |remote, beginning: &str| {
            let beginning = read(beginning);
            let transactions = &mut layer.transactions;
            transactions.handle_undelivered(layer.now, remote, &beginning);
            layer.event_names()
        };
        for (remote, beginning) in [
            (remote, text.replace("z9hG4bK1", "z9hG4bK2")),
            (elsewhere, text.clone()),
            (remote, request("BYE", "z9hG4bK1")),
            (remote, response(200, "INVITE", "z9hG4bK1", "a")),
            (remote, "INVITE sip:bob@example.com SIP/2.0\r\n".to_owned()),
        ] {
            assert_eq!(say(remote, &beginning), [""; 0], "{beginning}");
        }
        // The beginning is enough.
        let end = text.find("\r\nFrom").expect("From") + 2;
        assert_eq!(say(remote, &text[..end]), ["send failed", "terminated"]);
        assert!(layer.is_empty());
    }
}

#[test]
fn an_ack_that_was_not_delivered_ends_its_transaction() {
    let mut layer = Layer::default();
    layer.request(&invite(), Transport::Udp);
    let busy = response(486, "INVITE", "z9hG4bK1", "a");
    layer.receive(flow(Transport::Udp), &busy);
    let ack = layer.transmits().pop().expect("an ACK");
    let ack = Message::read(ack.payload).expect("a message");
    let remote = flow(Transport::Udp).remote;
    let transactions = &mut layer.transactions;
    transactions.handle_undelivered(layer.now, remote, &ack);
    assert_eq!(layer.event_names(), ["486", "send failed", "terminated"]);
}

#[test]
fn an_abandoned_transaction_is_gone() {
    let mut layer = Layer::default();
    let id = layer.request(&invite(), Transport::Udp);
    let ringing = response(180, "INVITE", "z9hG4bK1", "a");
    layer.receive(flow(Transport::Udp), &ringing);
    layer.transactions.abandon(layer.now, id);
    assert!(layer.is_empty());
    layer.receive(flow(Transport::Udp), &ringing);
    assert_eq!(layer.event_names(), ["180", "terminated", "stray"]);
    layer.transactions.abandon(layer.now, id);
    assert_eq!(layer.event_names(), [""; 0]);
}

#[test]
fn what_makes_no_transaction_is_not_sent() {
    let mut layer = Layer::default();
    let target = Target::Flow(flow(Transport::Udp));
    for text in [
        request("ACK", "z9hG4bK1"),
        invite().replace(";branch=z9hG4bK1", ""),
        invite().replace("Call-ID", "X"),
        invite().replace("CSeq: 1 INVITE", "CSeq: 1 OPTIONS"),
        response(200, "INVITE", "z9hG4bK1", "a"),
    ] {
        let now = layer.now;
        let result = layer.transactions.send_request(now, read(&text), target);
        assert_eq!(result, Err(SendRequestError::NoTransaction), "{text}");
    }
    layer.request(&invite(), Transport::Udp);
    let result = layer
        .transactions
        .send_request(layer.now, read(&invite()), target);
    assert_eq!(result, Err(SendRequestError::BranchInUse));
    assert_eq!(layer.sent(), [INVITE]);
}

#[test]
fn a_stateless_message_is_sent_and_forgotten() {
    let mut layer = Layer::default();
    let target = Target::Address(Transport::Udp, ([192, 0, 2, 9], 5080).into());
    let ack = read(&request("ACK", "z9hG4bK2"));
    layer.transactions.send_stateless(layer.now, ack, target);
    let transmit = layer.transmits().remove(0);
    assert_eq!((transmit.target, transmit.transaction), (target, None));
    assert!(layer.is_empty());
    assert_eq!(layer.transactions.statistics().requests_sent, 1);
}

#[test]
fn messages_of_a_call_share_their_hash_in_every_layer() {
    let mut hashes: Vec<u32> = (0..2)
        .flat_map(|seed| {
            let mut layer = Layer::default();
            layer.transactions = Transactions::new(
                TransactionConfig::default(),
                ChaCha12Rng::seed_from_u64(seed),
            );
            layer.request(&invite(), Transport::Sctp);
            layer.request(&request("BYE", "z9hG4bK2"), Transport::Sctp);
            layer.receive(flow(Transport::Sctp), &request("BYE", "z9hG4bK3"));
            let (id, bye) = layer.only_request();
            layer.respond(id, &bye, 200);
            layer.transmits()
        })
        .map(|transmit| transmit.call)
        .collect();
    assert_eq!(hashes.len(), 6);
    hashes.dedup();
    assert_eq!(hashes, [call_hash(b"call-1")]);
    assert_ne!(call_hash(b"call-1"), call_hash(b"call-2"));
}

#[test]
fn branches_are_new_and_depend_on_the_seed() {
    let branches = |seed| {
        let rng = ChaCha12Rng::seed_from_u64(seed);
        let mut transactions = Transactions::new(TransactionConfig::default(), rng);
        [transactions.new_branch(), transactions.new_branch()]
    };
    let [one, other] = branches(5);
    assert!(one.starts_with("z9hG4bK") && other.starts_with("z9hG4bK"));
    assert_ne!(one, other);
    assert_eq!(branches(5), [one.clone(), other]);
    assert!(!branches(6).contains(&one));
}

#[test]
fn tables_of_the_timers_can_be_changed() {
    let mut layer = Layer::new(TransactionConfig {
        t1: Duration::from_millis(10),
        t2: Duration::from_millis(40),
        ..TransactionConfig::default()
    });
    layer.request(&options(), Transport::Udp);
    layer.sent();
    let sent = layer.run_for(Duration::from_millis(200));
    assert_eq!(sent, each(&[10, 30, 70, 110, 150, 190], OPTIONS));
    layer.run_for(Duration::from_millis(440));
    assert_eq!(layer.event_names(), ["timeout", "terminated"]);
    assert_eq!((layer.now - layer.start).as_millis(), 640);
}
