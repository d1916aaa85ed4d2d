//! Hops that are silent for so long that something else is tried, and what they say later (RFC 3261 sections
//! 9.1, 16.7 and 16.8, RFC 4320, RFC 5393).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Bench, Sent, flow, register, request, response};
use proxy::core::{Group, Member, Policy, Route, RouteTarget, Routing};
use sip::{Flow, Method, Name, Transport};

const HERE: &str = "udp:192.0.2.1:5060";
const TCP: &str = "tcp:192.0.2.1:5060";
const NUMBER: &str = "sip:+4930@example.com";

fn alice() -> Flow {
    flow(HERE, "192.0.2.9:5060")
}

fn member(number: u8) -> Flow {
    flow(TCP, &format!("192.0.2.{}:5060", 50 + number))
}

/// Numbers go to so many servers, one after the other; the next one is tried after four seconds.
fn bench(members: u8) -> Bench {
    let member = |number: u8| Member {
        priority: number.into(),
        ..Member::new(&format!("sip:192.0.2.{};transport=tcp", 50 + number))
    };
    let group = Group {
        members: (1..=members).map(member).collect(),
        ..Group::default()
    };
    let routing = Routing {
        routes: vec![Route {
            prefix: Some("+49".to_owned()),
            ..Route::to(RouteTarget::Group("gateways".to_owned()))
        }],
        groups: BTreeMap::from([("gateways".to_owned(), group)]),
        ..Routing::default()
    };
    Bench::with(&[HERE, TCP], &["example.com"], |config| {
        config.policy = Arc::new(Policy {
            routing,
            ..Policy::default()
        });
    })
}

fn pass(bench: &mut Bench, seconds: u64) {
    bench.pass(Duration::from_secs(seconds));
}

/// A call that the first server does not say anything about, so that the second one has it too.
fn call(bench: &mut Bench) -> [Sent; 2] {
    bench.receive(alice(), request(Method::Invite, NUMBER, "call"));
    let [_trying, first] = bench.two();
    first.goes_to("tcp:192.0.2.51:5060");
    pass(bench, 4);
    let second = bench.one();
    second
        .is(Method::Invite, NUMBER)
        .goes_to("tcp:192.0.2.52:5060");
    assert_ne!(first.branch(), second.branch());
    [first, second]
}

/// What is sent when a server answers.
fn answers(bench: &mut Bench, number: u8, request: &Sent, status: u16) -> Vec<Sent> {
    let tag = format!("tag{number}");
    bench.receive(member(number), response(&request.message, status, &tag));
    bench.sent()
}

fn lines(sent: &[Sent]) -> Vec<String> {
    sent.iter()
        .map(|sent| match sent.message.method() {
            Some(method) => method.to_string(),
            None => sent.status().to_string(),
        })
        .collect()
}

/// Everything has an end.
fn ends(bench: &mut Bench) {
    pass(bench, 300);
    bench.sent();
    bench.assert_idle();
}

#[test]
fn an_answer_that_comes_late_is_an_answer() {
    let mut bench = bench(2);
    let [first, second] = call(&mut bench);
    assert_eq!(lines(&answers(&mut bench, 2, &second, 180)), ["180"]);
    pass(&mut bench, 1);
    let sent = answers(&mut bench, 1, &first, 200);
    assert_eq!(lines(&sent), ["200", "CANCEL"]);
    assert_eq!(sent[0].message.to().expect("To").tag(), Some("tag1"));
    sent[1].goes_to("tcp:192.0.2.52:5060");
    // It comes again for as long as there is no ACK, and the other may have answered meanwhile.
    assert_eq!(lines(&answers(&mut bench, 1, &first, 200)), ["200"]);
    assert_eq!(lines(&answers(&mut bench, 2, &second, 200)), ["200"]);
    assert_eq!(bench.proxy.statistics().failovers, 1);
    ends(&mut bench);
}

#[test]
fn both_answers_go_on_where_both_have_taken_the_call() {
    let mut bench = bench(2);
    let [first, second] = call(&mut bench);
    assert_eq!(lines(&answers(&mut bench, 2, &second, 200)), ["200"]);
    let sent = answers(&mut bench, 1, &first, 200);
    assert_eq!(lines(&sent), ["200"]);
    assert_eq!(sent[0].message.to().expect("To").tag(), Some("tag1"));
    assert_eq!(bench.proxy.statistics().calls_answered, 1);
    ends(&mut bench);
}

#[test]
fn a_server_that_rings_too_late_is_cancelled() {
    let mut bench = bench(2);
    let [first, second] = call(&mut bench);
    pass(&mut bench, 1);
    let sent = answers(&mut bench, 1, &first, 180);
    assert_eq!(lines(&sent), ["CANCEL", "180"]);
    sent[0].goes_to("tcp:192.0.2.51:5060");
    assert_eq!(sent[0].branch(), first.branch());
    assert_eq!(lines(&answers(&mut bench, 1, &first, 487)), ["ACK"]);
    assert_eq!(lines(&answers(&mut bench, 2, &second, 200)), ["200"]);
    ends(&mut bench);
}

#[test]
fn it_is_cancelled_after_the_call_was_answered_too() {
    let mut bench = bench(2);
    let [first, second] = call(&mut bench);
    assert_eq!(lines(&answers(&mut bench, 2, &second, 200)), ["200"]);
    pass(&mut bench, 20);
    assert_eq!(lines(&answers(&mut bench, 1, &first, 100)), ["CANCEL"]);
    assert_eq!(lines(&answers(&mut bench, 1, &first, 487)), ["ACK"]);
    ends(&mut bench);
}

#[test]
fn a_server_that_says_something_after_the_caller_has_hung_up_is_cancelled() {
    for seconds in [1, 5, 30] {
        let mut bench = bench(2);
        bench.receive(alice(), request(Method::Invite, NUMBER, "call"));
        let [_trying, first] = bench.two();
        pass(&mut bench, 1);
        bench.receive(alice(), request(Method::Cancel, NUMBER, "call"));
        bench.one().answers(200);
        pass(&mut bench, seconds);
        // Nothing else is tried.
        bench.silence();
        let sent = answers(&mut bench, 1, &first, 180);
        assert_eq!(lines(&sent), ["CANCEL", "180"], "after {seconds} s");
        assert_eq!(lines(&answers(&mut bench, 1, &first, 487)), ["ACK", "487"]);
        ends(&mut bench);
    }
}

/// RFC 3261 section 16.8: without a provisional response it counts as one that has answered 408.
#[test]
fn a_failure_does_not_wait_for_what_the_silent_one_may_say() {
    let mut bench = bench(2);
    let [first, second] = call(&mut bench);
    let sent = answers(&mut bench, 2, &second, 486);
    assert_eq!(lines(&sent), ["ACK", "486"]);
    bench.receive(alice(), request(Method::Ack, NUMBER, "call"));
    // It may have got the INVITE all the same.
    pass(&mut bench, 5);
    let sent = answers(&mut bench, 1, &first, 180);
    assert_eq!(lines(&sent), ["CANCEL"]);
    assert_eq!(lines(&answers(&mut bench, 1, &first, 487)), ["ACK"]);
    ends(&mut bench);
    assert_eq!(lines(&answers(&mut bench, 1, &first, 200)), [""; 0]);
}

/// RFC 3261 section 16.7 step 5: each success goes on at once, after another final response, too.
#[test]
fn a_success_that_comes_after_the_failure_goes_on() {
    let mut bench = bench(2);
    let [first, second] = call(&mut bench);
    assert_eq!(lines(&answers(&mut bench, 2, &second, 486)), ["ACK", "486"]);
    bench.receive(alice(), request(Method::Ack, NUMBER, "call"));
    // It comes again for as long as there is no ACK.
    for _ in 0..3 {
        let sent = answers(&mut bench, 1, &first, 200);
        assert_eq!(lines(&sent), ["200"]);
        sent[0].goes_to("udp:192.0.2.9:5060");
        assert_eq!(sent[0].message.to().expect("To").tag(), Some("tag1"));
        pass(&mut bench, 4);
    }
    ends(&mut bench);
    assert_eq!(lines(&answers(&mut bench, 1, &first, 200)), [""; 0]);
}

/// One that rings after it was passed over is there: what becomes of its CANCEL is waited for.
#[test]
fn a_failure_waits_for_who_rings_late() {
    let mut bench = bench(2);
    let [first, second] = call(&mut bench);
    assert_eq!(
        lines(&answers(&mut bench, 1, &first, 180)),
        ["CANCEL", "180"]
    );
    assert_eq!(lines(&answers(&mut bench, 2, &second, 486)), ["ACK"]);
    assert_eq!(lines(&answers(&mut bench, 1, &first, 200)), ["200"]);
    ends(&mut bench);
}

#[test]
fn breadth_is_kept_for_those_that_are_tried_meanwhile() {
    let mut bench = bench(4);
    bench.receive(alice(), request(Method::Invite, NUMBER, "call"));
    let mut breadths = Vec::new();
    for _ in 0..4 {
        let sent = bench.sent().pop().expect("an INVITE");
        breadths.push(sent.value(Name::MaxBreadth));
        pass(&mut bench, 4);
    }
    assert_eq!(breadths, ["30", "15", "8", "7"]);
    ends(&mut bench);
}

#[test]
fn without_breadth_for_two_the_next_one_waits() {
    let mut bench = bench(2);
    let narrow = request(Method::Invite, NUMBER, "call").with(Name::MaxBreadth, "1");
    bench.receive(alice(), narrow);
    let [_trying, first] = bench.two();
    assert_eq!(first.value(Name::MaxBreadth), "1");
    pass(&mut bench, 31);
    bench.silence();
    pass(&mut bench, 1);
    let second = bench.one();
    second.goes_to("tcp:192.0.2.52:5060");
    assert_eq!(second.value(Name::MaxBreadth), "1");
    assert_eq!(lines(&answers(&mut bench, 2, &second, 200)), ["200"]);
    ends(&mut bench);
}

#[test]
fn what_a_late_server_says_does_not_make_it_one_that_is_up() {
    let mut bench = bench(2);
    let [first, second] = call(&mut bench);
    answers(&mut bench, 1, &first, 100);
    answers(&mut bench, 2, &second, 200);
    bench.receive(alice(), request(Method::Invite, NUMBER, "another"));
    let [_trying, next] = bench.two();
    next.goes_to("tcp:192.0.2.52:5060");
}

#[test]
fn a_phone_that_is_silent_is_passed_over_and_cancelled_when_it_rings() {
    let mut bench = Bench::with(&[HERE, TCP], &["example.com"], |config| {
        let mut policy = Policy::default();
        policy.forwarding.ring_time = Some(Duration::from_secs(10));
        config.policy = Arc::new(policy);
    });
    for (cseq, q) in [(1, "0.9"), (2, "0.1")] {
        let contact = format!("<sip:bob@192.0.2.{};transport=tcp>;q={q}", 50 + cseq);
        bench.receive(
            member(u8::try_from(cseq).expect("small")),
            register("bob", cseq, &[&contact]),
        );
        bench.sent();
    }
    let uri = "sip:bob@example.com";
    bench.receive(alice(), request(Method::Invite, uri, "call"));
    let [_trying, first] = bench.two();
    assert_eq!(first.value(Name::MaxBreadth), "30");
    pass(&mut bench, 10);
    let second = bench.one();
    second.is(Method::Invite, "sip:bob@192.0.2.52;transport=tcp");
    // And some of that for phones that register meanwhile.
    assert_eq!(second.value(Name::MaxBreadth), "22");
    let sent = answers(&mut bench, 1, &first, 180);
    assert_eq!(lines(&sent), ["CANCEL", "180"]);
    sent[0].is(Method::Cancel, "sip:bob@192.0.2.51;transport=tcp");
    assert_eq!(lines(&answers(&mut bench, 1, &first, 487)), ["ACK"]);
    assert_eq!(lines(&answers(&mut bench, 2, &second, 200)), ["200"]);
    ends(&mut bench);

    // The last one is left alone: nobody waits behind it.
    bench.receive(alice(), request(Method::Invite, uri, "another"));
    bench.two();
    pass(&mut bench, 10);
    let second = bench.one();
    pass(&mut bench, 20);
    assert_eq!(lines(&answers(&mut bench, 2, &second, 180)), ["180"]);
    pass(&mut bench, 100);
    assert_eq!(lines(&answers(&mut bench, 2, &second, 200)), ["200"]);
    ends(&mut bench);
}

#[test]
fn the_first_success_of_another_request_than_invite_is_its_answer_whoever_gives_it() {
    for early in [true, false] {
        let mut bench = bench(2);
        bench.receive(alice(), request(Method::Message, NUMBER, "message"));
        let first = bench.one();
        pass(&mut bench, 4);
        let [_trying, second] = bench.two();
        let order = if early { [1, 2] } else { [2, 1] };
        let requests = [&first, &second];
        let [one, other] = order.map(|number| (number, requests[usize::from(number) - 1]));
        assert_eq!(lines(&answers(&mut bench, one.0, one.1, 200)), ["200"]);
        assert_eq!(lines(&answers(&mut bench, other.0, other.1, 200)), [""; 0]);
        ends(&mut bench);
    }
}

#[test]
fn a_failure_of_another_request_than_invite_does_not_wait() {
    let mut bench = bench(2);
    bench.receive(alice(), request(Method::Message, NUMBER, "message"));
    let first = bench.one();
    pass(&mut bench, 4);
    let [_trying, second] = bench.two();
    assert_eq!(lines(&answers(&mut bench, 2, &second, 407)), ["407"]);
    assert_eq!(lines(&answers(&mut bench, 1, &first, 200)), [""; 0]);
    ends(&mut bench);
}

/// Timer F of its client has fired: RFC 4320 section 4.2, RFC 3261 section 17.1.2.2.
#[test]
fn what_its_client_has_given_up_is_not_delivered() {
    let remote = |number: u8| (Transport::Tcp, member(number).remote);
    for (method, is_delivered) in [(Method::Message, false), (Method::Invite, true)] {
        let mut bench = Bench::open_relay(&[HERE, TCP], &["example.com"]);
        let name = "gateways.example.org".to_owned();
        bench.names.insert(name, vec![remote(1), remote(2)]);
        let uri = "sip:x@gateways.example.org";
        bench.receive(alice(), request(method.clone(), uri, "call"));
        let sent = bench.sent().pop().expect("a request");
        sent.goes_to("tcp:192.0.2.51:5060");
        pass(&mut bench, 33);
        let later = bench.sent();
        let is_sent = later.iter().any(|sent| sent.message.is_request());
        assert_eq!(is_sent, is_delivered, "{method}");
        ends(&mut bench);
    }
}

#[test]
fn what_its_client_has_given_up_is_not_delivered_when_its_way_is_known_at_last() {
    let mut bench = Bench::with(&[HERE, TCP], &["example.com"], |config| {
        config.queries.timeout = Duration::from_secs(60);
        let mut policy = Policy::default();
        policy.forwarding.relay = proxy::core::Relay::Anybody;
        config.policy = Arc::new(policy);
    });
    bench.names.insert(
        "slow.example.org".to_owned(),
        vec![(Transport::Tcp, member(1).remote)],
    );
    bench.holds_questions = true;
    bench.receive(
        alice(),
        request(Method::Message, "sip:x@slow.example.org", "message"),
    );
    pass(&mut bench, 32);
    // The 100 of RFC 4320 section 4.1.
    bench.one().answers(100);
    let (id, query) = bench.questions.pop_front().expect("a question");
    let answer = bench.own_answer(query);
    bench.answer(id, answer);
    bench.silence();
    ends(&mut bench);
}

/// RFC 3261 section 16.7 step 5.
#[test]
fn no_branch_begins_after_a_6xx() {
    for method in [Method::Message, Method::Invite] {
        let mut bench = Bench::new(&[HERE, TCP], &["example.com"]);
        let contacts = [
            "<sip:bob@192.0.2.51;transport=tcp>",
            "<sip:bob@slow.example.org>",
        ];
        for (cseq, contact) in (1..).zip(contacts) {
            let from = member(u8::try_from(cseq).expect("small"));
            bench.receive(from, register("bob", cseq, &[contact]));
            bench.sent();
            // Its name has to be asked for.
            bench.proxy.handle_connection_closed(from.connection);
        }
        bench.names.insert(
            "slow.example.org".to_owned(),
            vec![(Transport::Tcp, member(2).remote)],
        );
        bench.holds_questions = true;
        let invite = request(method.clone(), "sip:bob@example.com", "call");
        bench.receive(alice(), invite);
        let (id, lookup) = bench.questions.pop_front().expect("a look-up");
        let bindings = bench.own_answer(lookup);
        bench.answer(id, bindings);
        let sent = bench.sent();
        let first = sent.last().expect("a request");
        first.goes_to("tcp:192.0.2.51:5060");
        let (id, query) = bench
            .questions
            .pop_front()
            .expect("a question of the resolver");
        let answer = bench.own_answer(query);

        let sent = answers(&mut bench, 1, first, 603);
        assert!(
            lines(&sent).contains(&"603".to_owned()),
            "{method}: {sent:#?}"
        );
        bench.answer(id, answer);
        bench.silence();
        ends(&mut bench);
    }
}
