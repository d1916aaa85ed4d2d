//! Forwarding without state (RFC 3261 sections 16.10 and 16.11).

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, Bench, flow, request, response, sip};
use proxy::core::{ForwardingPolicy, Mode, Policy, Relay};
use sip::{Flow, Message, Method, Name};

const HERE: &str = "udp:192.0.2.1:5060";
const OVER_TCP: &str = "tcp:192.0.2.1:5060";

fn alice() -> Flow {
    flow(HERE, "192.0.2.9:5060")
}

fn bob() -> Flow {
    flow(HERE, "192.0.2.20:5060")
}

fn policy(mode: Mode) -> Arc<Policy> {
    Arc::new(Policy {
        forwarding: ForwardingPolicy {
            mode,
            ..ForwardingPolicy::default()
        },
        ..Policy::default()
    })
}

/// A proxy without state on which bob is registered.
fn bench() -> Bench {
    let mut bench = Bench::with(&[HERE, OVER_TCP], &["example.com"], |config| {
        config.policy = policy(Mode::Stateless);
    });
    bench.register(bob(), "bob", "<sip:bob@192.0.2.20>");
    bench.pass(Duration::from_secs(40));
    bench
}

fn invite() -> Message {
    request(Method::Invite, "sip:bob@example.com", "call")
}

/// The ACK of alice to a failure.
fn acknowledgement(tag: &str) -> Message {
    let mut ack = request(Method::Ack, "sip:bob@example.com", "call");
    ack.set_to_tag(tag);
    ack
}

#[test]
fn retransmissions_take_the_same_way_and_nothing_is_kept() {
    let mut bench = bench();
    bench.receive(alice(), invite());
    let first = bench.one();
    first.is(Method::Invite, "sip:bob@192.0.2.20");
    first.goes_along(bob());
    assert_eq!(first.value(Name::MaxForwards), "69");
    assert_eq!(first.value(Name::MaxBreadth), "60");
    assert_eq!(first.values(Name::RecordRoute).len(), 1);
    bench.assert_idle();

    bench.pass(Duration::from_millis(500));
    bench.receive(alice(), invite());
    let again = bench.one();
    assert_eq!(again.message.to_bytes(), first.message.to_bytes());
    bench.assert_idle();
    assert_eq!(bench.proxy.statistics().passed_on, 2);
}

#[test]
fn all_responses_go_back_and_all_requests_of_the_call_go_on() {
    let mut bench = bench();
    bench.receive(alice(), invite());
    let forwarded = bench.one();
    // A 100 as well: nobody else has sent one.
    for status in [100, 180, 486, 486] {
        bench.receive(bob(), response(&forwarded.message, status, "b1"));
        let answer = bench.one();
        answer.answers(status).goes_to("udp:192.0.2.9:5060");
        assert_eq!(answer.values(Name::Via).len(), 1);
    }
    bench.receive(alice(), acknowledgement("b1"));
    let ack = bench.one();
    ack.is(Method::Ack, "sip:bob@192.0.2.20");
    // Bob's transaction knows it by the branch of the INVITE.
    assert_eq!(ack.branch(), forwarded.branch());
    bench.assert_idle();
}

#[test]
fn a_cancel_has_the_branch_of_its_invite_even_where_credentials_are_shown() {
    let mut bench = bench();
    let invite = invite()
        .with(Name::ProxyAuthorization, "Digest username=\"alice\"")
        .with(Name::Supported, "100rel");
    bench.receive(alice(), invite);
    let forwarded = bench.one();
    bench.receive(
        alice(),
        request(Method::Cancel, "sip:bob@example.com", "call"),
    );
    let cancel = bench.one();
    cancel.is(Method::Cancel, "sip:bob@192.0.2.20");
    assert_eq!(cancel.branch(), forwarded.branch());
    bench.receive(bob(), response(&cancel.message, 200, "b1"));
    bench.one().answers(200).goes_to("udp:192.0.2.9:5060");
    bench.assert_idle();
}

#[test]
fn clients_of_rfc_2543_have_transactions_too() {
    let mut bench = bench();
    let old = |method: Method, number: u32| {
        let mut request = request(method.clone(), "sip:bob@example.com", "call");
        request.remove_all(Name::Via);
        request.push_front(Name::Via, "SIP/2.0/UDP 192.0.2.9:5060");
        request.replace(Name::CSeq, format!("{number} {method}"));
        request
    };
    bench.receive(alice(), old(Method::Invite, 1));
    let first = bench.one().branch();
    bench.receive(alice(), old(Method::Cancel, 1));
    assert_eq!(bench.one().branch(), first);
    let mut ack = old(Method::Ack, 1);
    ack.set_to_tag("b1");
    bench.receive(alice(), ack);
    assert_eq!(bench.one().branch(), first);
    bench.receive(alice(), old(Method::Invite, 2));
    assert_ne!(bench.one().branch(), first);
}

#[test]
fn a_response_that_answers_nothing_of_ours_ends_here() {
    let mut bench = bench();
    bench.receive(alice(), invite());
    let mut forwarded = bench.one().message;
    let via = common::values(&forwarded, Name::Via).remove(0);
    for forged in [
        "SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK1".to_owned(),
        "SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK1;flow".to_owned(),
        "SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK1;flow=00000004".to_owned(),
        // One digit of the address.
        via.replace("c0000209", "c0000208"),
    ] {
        assert_ne!(forged, via);
        forwarded.remove_first_value(Name::Via);
        forwarded.push_front(Name::Via, forged);
        bench.receive(bob(), response(&forwarded, 200, "b1"));
        bench.silence();
    }
    assert_eq!(bench.proxy.statistics().responses_passed_on, 0);
}

#[test]
fn errors_are_answered_without_state() {
    let mut bench = bench();
    for (uri, hops, status) in [
        ("sip:nobody@example.com", "70", 404),
        ("sip:bob@example.com", "0", 483),
        ("http://example.com", "70", 416),
    ] {
        let mut request = request(Method::Message, uri, "c1");
        request.replace(Name::MaxForwards, hops);
        bench.receive(alice(), request.clone());
        let first = bench.one();
        first.answers(status).goes_to("udp:192.0.2.9:5060");
        bench.receive(alice(), request);
        // Not even the tag differs (section 8.2.7).
        assert_eq!(bench.one().message.to_bytes(), first.message.to_bytes());
        bench.assert_idle();
    }
}

#[test]
fn what_is_answered_here_has_a_transaction() {
    let mut bench = bench();
    let options = request(Method::Options, "sip:example.com", "c1");
    bench.receive(alice(), options.clone());
    bench.one().answers(200);
    bench.receive(alice(), options);
    bench.one().answers(200);
    let transactions = bench.proxy.statistics().transactions;
    assert_eq!(transactions.response_retransmissions, 1);
}

#[test]
fn between_a_reliable_and_an_unreliable_side_somebody_has_to_retransmit() {
    let mut bench = bench();
    let arrival = flow(OVER_TCP, "192.0.2.9:40000");
    let mut invite = invite();
    invite.remove_all(Name::Via);
    invite.push_front(Name::Via, "SIP/2.0/TCP 192.0.2.9:40000;branch=z9hG4bKt");
    bench.receive(arrival, invite);
    let [trying, forwarded] = bench.two();
    trying.answers(100);
    forwarded.is(Method::Invite, "sip:bob@192.0.2.20");
    bench.pass(Duration::from_millis(500));
    bench.one().is(Method::Invite, "sip:bob@192.0.2.20");
    assert_eq!(bench.proxy.statistics().requests, 2);
}

#[test]
fn responses_go_back_along_the_connection_of_the_request() {
    let mut bench = Bench::with(&[OVER_TCP], &["example.com"], |config| {
        config.policy = policy(Mode::Stateless);
    });
    let arrival = flow(OVER_TCP, "203.0.113.7:40000");
    bench.receive(
        arrival,
        sip("OPTIONS sip:x@192.0.2.77;transport=tcp SIP/2.0
            Via: SIP/2.0/TCP phone.invalid;branch=z9hG4bK1
            Max-Forwards: 70
            From: <sip:alice@example.com>;tag=1
            To: <sip:x@192.0.2.77>
            Call-ID: 1
            CSeq: 1 OPTIONS
            Content-Length: 0"),
    );
    let forwarded = bench.one();
    forwarded.goes_to("tcp:192.0.2.77:5060");
    let next_hop = flow(OVER_TCP, "192.0.2.77:5060");
    bench.receive(next_hop, response(&forwarded.message, 200, "x"));
    bench.one().answers(200).goes_along(arrival);
    bench.assert_idle();
}

/// Section 16.10: what a stateful proxy knows nothing of may have been forwarded without state.
#[test]
fn a_stateful_proxy_forwards_the_cancel_of_what_it_does_not_know() {
    let mut bench = bench();
    bench.proxy.set_policy(bench.now, policy(Mode::Stateful));
    let cancel = request(Method::Cancel, "sip:bob@example.com", "call");
    bench.receive(alice(), cancel.clone());
    let forwarded = bench.one();
    forwarded.is(Method::Cancel, "sip:bob@192.0.2.20");
    forwarded.goes_along(bob());
    bench.receive(bob(), response(&forwarded.message, 481, "b1"));
    bench.one().answers(481).goes_to("udp:192.0.2.9:5060");
    bench.assert_idle();

    // There is nobody else to ask about what is for us.
    bench.receive(alice(), request(Method::Cancel, "sip:example.com", "c2"));
    bench.one().answers(481);
    bench.assert_idle();
}

/// RFC 3261 section 18.1.1.
#[test]
fn what_is_too_large_for_udp_is_forwarded_with_state_and_an_ack_goes_over_tcp() {
    let large = |method: Method, call: &str| {
        request(method, "sip:x@192.0.2.77", call).with(Name::Subject, "x".repeat(1_300))
    };
    let mut bench = Bench::with(&[HERE, OVER_TCP], &["example.com"], |config| {
        let mut stateless = Policy::clone(&policy(Mode::Stateless));
        stateless.forwarding.relay = Relay::Anybody;
        config.policy = Arc::new(stateless);
    });
    for from in [HERE, OVER_TCP] {
        let caller = flow(from, "192.0.2.9:5060");
        bench.receive(caller, large(Method::Message, from));
        let sent = bench.one();
        sent.goes_to("tcp:192.0.2.77:5060");
        assert!(
            sent.value(Name::Via)
                .starts_with("SIP/2.0/TCP 192.0.2.1:5060")
        );
        // Who knows no TCP gets it over UDP.
        bench.refuse_last_request();
        let sent = bench.one();
        sent.goes_to("udp:192.0.2.77:5060");
        bench.receive(
            flow(HERE, "192.0.2.77:5060"),
            response(&sent.message, 200, "b"),
        );
        bench.one().answers(200).goes_along(caller);
    }
    bench.pass(Duration::from_secs(100));
    bench.assert_idle();

    let mut ack = large(Method::Ack, "ack");
    ack.set_to_tag("b");
    bench.receive(alice(), ack);
    let sent = bench.one();
    sent.is(Method::Ack, "sip:x@192.0.2.77")
        .goes_to("tcp:192.0.2.77:5060");
    assert!(
        sent.value(Name::Via)
            .starts_with("SIP/2.0/TCP 192.0.2.1:5060")
    );
    bench.assert_idle();
}

#[test]
fn a_change_of_policy_leaves_transactions_that_are_under_way_alone() {
    let mut bench = bench();
    bench.proxy.set_policy(bench.now, policy(Mode::Stateful));
    bench.receive(alice(), invite());
    let [_trying, forwarded] = bench.two();
    bench.proxy.set_policy(bench.now, policy(Mode::Stateless));
    // A retransmission is answered, not forwarded.
    bench.receive(alice(), invite());
    bench.one().answers(100);
    bench.receive(bob(), response(&forwarded.message, 486, "b1"));
    let [ack, busy] = bench.two();
    ack.is(Method::Ack, "sip:bob@192.0.2.20");
    busy.answers(486);
    bench.receive(alice(), acknowledgement("b1"));
    bench.silence();
}
