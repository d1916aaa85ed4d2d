//! The rules of the registrar (RFC 3261 section 10.3), one test a rule.

use std::time::Duration;

use crate::common::{self, Bench, flow, register, request, sip};
use proxy::core::{Answer, Event, MAXIMUM_HELD_UPDATES, Query};
use sip::{Flow, Method, Name};

fn bench() -> Bench {
    Bench::new(
        &["udp:192.0.2.1:5060", "tcp:192.0.2.1:5060"],
        &["example.com", "example.org"],
    )
}

fn phone() -> Flow {
    flow("udp:192.0.2.1:5060", "192.0.2.9:5060")
}

/// The contacts that the registrar lists for a user.
fn listed(bench: &mut Bench, user: &str, query: u32) -> Vec<String> {
    bench.receive(phone(), register(user, query, &[]));
    let response = bench.one();
    response.answers(200);
    response.values(Name::Contact)
}

#[test]
fn several_contacts_are_listed_with_what_remains_of_their_intervals() {
    let mut bench = bench();
    let contacts = [
        "<sip:bob@192.0.2.9>;q=0.5;expires=600",
        "\"Bob\" <sip:bob@192.0.2.10>;+sip.instance=\"<urn:x>\"",
    ];
    bench.receive(phone(), register("bob", 1, &contacts));
    assert_eq!(
        bench.one().values(Name::Contact),
        [
            "<sip:bob@192.0.2.9>;q=0.500;expires=600",
            "<sip:bob@192.0.2.10>;+sip.instance=\"<urn:x>\";expires=3600"
        ]
    );
    bench.pass(Duration::from_secs(100));
    assert_eq!(
        listed(&mut bench, "bob", 2),
        [
            "<sip:bob@192.0.2.9>;q=0.500;expires=500",
            "<sip:bob@192.0.2.10>;+sip.instance=\"<urn:x>\";expires=3500"
        ]
    );
    bench.pass(Duration::from_secs(500));
    assert_eq!(
        listed(&mut bench, "bob", 3),
        ["<sip:bob@192.0.2.10>;+sip.instance=\"<urn:x>\";expires=3000"]
    );
}

#[test]
fn the_interval_is_the_contacts_else_that_of_expires_else_an_hour() {
    let mut bench = bench();
    let contacts = [
        "<sip:a@192.0.2.9>;expires=100",
        "<sip:b@192.0.2.9>",
        "<sip:c@192.0.2.9>;expires=soon",
    ];
    bench.receive(
        phone(),
        register("bob", 1, &contacts).with(Name::Expires, "200"),
    );
    assert_eq!(
        bench.one().values(Name::Contact),
        [
            "<sip:a@192.0.2.9>;expires=100",
            "<sip:b@192.0.2.9>;expires=200",
            "<sip:c@192.0.2.9>;expires=3600"
        ]
    );
    bench.receive(
        phone(),
        register(
            "alice",
            1,
            &["<sip:a@192.0.2.9>", "<sip:b@192.0.2.9>;expires=99999999999"],
        ),
    );
    assert_eq!(
        bench.one().values(Name::Contact),
        [
            "<sip:a@192.0.2.9>;expires=3600",
            "<sip:b@192.0.2.9>;expires=3600"
        ]
    );
    bench.receive(
        phone(),
        register("carol", 1, &["<sip:a@192.0.2.9>;expires=1000000"]),
    );
    assert_eq!(
        bench.one().values(Name::Contact),
        ["<sip:a@192.0.2.9>;expires=7200"]
    );
}

#[test]
fn an_interval_too_brief_is_refused_with_the_least_one() {
    let mut bench = bench();
    bench.receive(
        phone(),
        register(
            "bob",
            1,
            &["<sip:a@192.0.2.9>", "<sip:b@192.0.2.9>;expires=59"],
        ),
    );
    assert_eq!(bench.one().answers(423).value(Name::MinExpires), "60");
    assert_eq!(listed(&mut bench, "bob", 2), [""; 0]);

    let mut patient = Bench::with(&["udp:192.0.2.1:5060"], &["example.com"], |config| {
        config.registrar.minimum_expires = Duration::from_secs(1);
    });
    patient.receive(
        phone(),
        register("bob", 1, &["<sip:b@192.0.2.9>;expires=2"]),
    );
    assert_eq!(
        patient.one().answers(200).values(Name::Contact),
        ["<sip:b@192.0.2.9>;expires=2"]
    );
}

#[test]
fn a_contact_is_refreshed_by_any_spelling_of_its_uri() {
    let mut bench = bench();
    bench.register(
        phone(),
        "bob",
        "<sip:bob@Phone.Example.com;transport=udp>;expires=100",
    );
    bench.pass(Duration::from_secs(50));
    bench.receive(
        phone(),
        register(
            "bob",
            2,
            &["<sip:b%6fb@phone.example.com;transport=UDP>;expires=300"],
        ),
    );
    assert_eq!(
        bench.one().values(Name::Contact),
        ["<sip:b%6fb@phone.example.com;transport=UDP>;expires=300"]
    );
}

#[test]
fn a_contact_is_removed_by_an_interval_of_zero() {
    let mut bench = bench();
    bench.receive(
        phone(),
        register("bob", 1, &["<sip:a@192.0.2.9>", "<sip:b@192.0.2.9>"]),
    );
    bench.one().answers(200);
    bench.receive(
        phone(),
        register("bob", 2, &["<sip:a@192.0.2.9>;expires=0"]),
    );
    assert_eq!(
        bench.one().answers(200).values(Name::Contact),
        ["<sip:b@192.0.2.9>;expires=3600"]
    );
    assert!(matches!(
        bench.events.last(),
        Some(Event::Unregistered { contact, .. }) if contact == "sip:a@192.0.2.9"
    ));
    bench.receive(
        phone(),
        register("bob", 3, &["<sip:b@192.0.2.9>"]).with(Name::Expires, "0"),
    );
    assert_eq!(bench.one().answers(200).values(Name::Contact), [""; 0]);
}

#[test]
fn a_wildcard_removes_all_and_only_alone_and_with_zero() {
    let mut bench = bench();
    bench.receive(
        phone(),
        register("bob", 1, &["<sip:a@192.0.2.9>", "<sip:b@192.0.2.9>"]),
    );
    bench.one().answers(200);
    for wrong in [
        register("bob", 2, &["*"]),
        register("bob", 3, &["*"]).with(Name::Expires, "60"),
        register("bob", 4, &["*", "<sip:a@192.0.2.9>"]).with(Name::Expires, "0"),
    ] {
        bench.receive(phone(), wrong);
        bench.one().answers(400);
    }
    assert_eq!(listed(&mut bench, "bob", 5).len(), 2);
    bench.receive(phone(), register("bob", 6, &["*"]).with(Name::Expires, "0"));
    assert_eq!(bench.one().answers(200).values(Name::Contact), [""; 0]);
    assert!(
        matches!(bench.events.last(), Some(Event::Unregistered { contact, .. }) if contact == "*")
    );
}

#[test]
fn an_older_request_of_the_same_user_agent_changes_nothing() {
    let mut bench = bench();
    bench.receive(phone(), register("bob", 5, &["<sip:a@192.0.2.9>"]));
    bench.one().answers(200);
    // The second contact is new, but the request is processed as a whole or not at all.
    for cseq in [4, 5] {
        let mut late = register(
            "bob",
            cseq,
            &["<sip:b@192.0.2.9>", "<sip:a@192.0.2.9>;expires=0"],
        );
        late.set_top_via_parameter("branch", Some(&format!("z9hG4bKlate{cseq}")));
        bench.receive(phone(), late);
        bench.one().answers(500);
    }
    bench.receive(phone(), register("bob", 3, &["*"]).with(Name::Expires, "0"));
    bench.one().answers(500);
    assert_eq!(
        listed(&mut bench, "bob", 6),
        ["<sip:a@192.0.2.9>;expires=3600"]
    );

    // After a restart the user agent has another Call-ID, and its numbers begin anew.
    let mut restarted = register("bob", 1, &["<sip:a@192.0.2.9>;expires=70"]);
    restarted.replace(Name::CallId, "another");
    bench.receive(phone(), restarted);
    assert_eq!(
        bench.one().answers(200).values(Name::Contact),
        ["<sip:a@192.0.2.9>;expires=70"]
    );
}

#[test]
fn the_same_contact_twice_in_a_request_is_one_binding() {
    let mut bench = bench();
    bench.receive(
        phone(),
        register(
            "bob",
            1,
            &[
                "<sip:a@192.0.2.9>;expires=100",
                "<sip:a@192.0.2.9>;expires=200",
            ],
        ),
    );
    assert_eq!(
        bench.one().answers(200).values(Name::Contact),
        ["<sip:a@192.0.2.9>;expires=200"]
    );
}

#[test]
fn bindings_are_bounded_but_can_always_be_refreshed() {
    let mut bench = Bench::with(&["udp:192.0.2.1:5060"], &["example.com"], |config| {
        config.registrar.maximum_bindings = 2;
    });
    bench.receive(
        phone(),
        register(
            "bob",
            1,
            &[
                "<sip:a@192.0.2.9>",
                "<sip:b@192.0.2.9>",
                "<sip:c@192.0.2.9>",
            ],
        ),
    );
    bench.one().answers(403);
    bench.receive(
        phone(),
        register("bob", 2, &["<sip:a@192.0.2.9>", "<sip:b@192.0.2.9>"]),
    );
    bench.one().answers(200);
    bench.receive(phone(), register("bob", 3, &["<sip:c@192.0.2.9>"]));
    bench.one().answers(403);
    bench.receive(
        phone(),
        register("bob", 4, &["<sip:a@192.0.2.9>;expires=70"]),
    );
    bench.one().answers(200);
    // One goes, one comes.
    bench.receive(
        phone(),
        register(
            "bob",
            5,
            &["<sip:c@192.0.2.9>", "<sip:a@192.0.2.9>;expires=0"],
        ),
    );
    assert_eq!(bench.one().answers(200).values(Name::Contact).len(), 2);
}

#[test]
fn the_address_of_record_is_that_of_to_whatever_its_spelling() {
    let mut bench = bench();
    let mut spelled = register("bob", 1, &["<sip:a@192.0.2.9>"]);
    spelled.replace(Name::To, "\"B\" <sips:%62ob@EXAMPLE.com:5060;user=ip>;x=y");
    bench.receive(phone(), spelled);
    bench.one().answers(200);
    assert_eq!(
        listed(&mut bench, "bob", 2),
        ["<sip:a@192.0.2.9>;expires=3600"]
    );
    assert_eq!(listed(&mut bench, "BOB", 2), [""; 0]);

    let mut elsewhere = register("bob", 3, &["<sip:a@192.0.2.9>"]);
    elsewhere.replace(Name::To, "<sip:bob@example.net>");
    bench.receive(phone(), elsewhere);
    bench.one().answers(404);
    let mut nobody = register("bob", 4, &["<sip:a@192.0.2.9>"]);
    nobody.replace(Name::To, "<sip:example.com>");
    bench.receive(phone(), nobody);
    bench.one().answers(404);
}

#[test]
fn domains_are_separate() {
    let mut bench = bench();
    bench.register(phone(), "bob", "<sip:a@192.0.2.9>");
    let mut other = register("bob", 1, &[]);
    other.set_request_uri("sip:example.org");
    other.replace(Name::To, "<sip:bob@example.org>");
    other.set_top_via_parameter("branch", Some("z9hG4bKorg"));
    bench.receive(phone(), other);
    assert_eq!(bench.one().answers(200).values(Name::Contact), [""; 0]);
}

#[test]
fn a_register_for_another_domain_is_forwarded_to_it() {
    let mut bench = bench();
    let mut foreign = register("bob", 1, &["<sip:a@192.0.2.9>"]);
    foreign.set_request_uri("sip:192.0.2.77");
    bench.receive(phone(), foreign);
    let forwarded = bench.one();
    forwarded
        .is(Method::Register, "sip:192.0.2.77")
        .goes_to("udp:192.0.2.77:5060");
    assert!(forwarded.values(Name::RecordRoute).is_empty());
}

#[test]
fn required_extensions_are_refused_by_name() {
    let mut bench = bench();
    bench.receive(
        phone(),
        register("bob", 1, &["<sip:a@192.0.2.9>"]).with(Name::Require, "path, x-one, gruu, x-two"),
    );
    assert_eq!(
        bench.one().answers(420).values(Name::Unsupported),
        ["x-one", "x-two"]
    );
}

#[test]
fn malformed_contacts_are_refused() {
    let mut bench = bench();
    let long = format!("<sip:{}@192.0.2.9>", "a".repeat(2000));
    for (cseq, contact) in (1..).zip(["<sip:>", "<192.0.2.9>", "sip:a@b c", &long]) {
        bench.receive(phone(), register("bob", cseq, &[contact]));
        bench.one().answers(400);
    }
    assert_eq!(listed(&mut bench, "bob", 9), [""; 0]);
}

#[test]
fn record_route_in_a_register_is_ignored() {
    let mut bench = bench();
    bench.receive(
        phone(),
        register("bob", 1, &["<sip:a@192.0.2.9>"]).with(Name::RecordRoute, "<sip:x;lr>"),
    );
    assert!(
        bench
            .one()
            .answers(200)
            .values(Name::RecordRoute)
            .is_empty()
    );
}

#[test]
fn a_200_waits_for_the_store_and_a_store_that_fails_is_told_as_500() {
    let mut bench = bench();
    bench.holds_questions = true;
    bench.receive(phone(), register("bob", 1, &["<sip:a@192.0.2.9>"]));
    bench.silence();
    let (id, query) = bench.questions.pop_front().expect("a question");
    let answer = bench.own_answer(query);
    bench.answer(id, answer);
    bench.one().answers(200);

    bench.receive(phone(), register("bob", 2, &["<sip:a@192.0.2.9>"]));
    let (id, _) = bench.questions.pop_front().expect("a question");
    bench.answer(id, Answer::Failed);
    bench.one().answers(500);

    bench.receive(phone(), register("bob", 3, &["<sip:a@192.0.2.9>"]));
    bench.questions.clear();
    bench.pass(Duration::from_secs(4));
    // A client over UDP whose answer takes so long is told to wait (RFC 4320).
    bench.one().answers(100);
    bench.pass(Duration::from_secs(7));
    bench.one().answers(500);
    assert_eq!(bench.proxy.statistics().questions_timed_out, 1);

    bench.receive(phone(), register("bob", 4, &["<sip:a@192.0.2.9>"]));
    let (id, _) = bench.questions.pop_front().expect("a question");
    bench.answer(id, Answer::Full);
    assert_eq!(bench.one().answers(503).value(Name::RetryAfter), "5");
    bench.pass(Duration::from_secs(60));
    bench.assert_idle();
}

/// RFC 3261 section 17.2.2: a retransmission gets the response of its transaction, and the store is asked once.
#[test]
fn a_retransmission_gets_the_response_that_was_sent() {
    let mut bench = bench();
    bench.holds_questions = true;
    for (cseq, fails) in [(1, false), (2, true)] {
        let request = register("bob", cseq, &["<sip:a@192.0.2.9>"]);
        bench.receive(phone(), request.clone());
        let (id, query) = bench.questions.pop_front().expect("a question");
        bench.receive(phone(), request.clone());
        bench.silence();
        let answer = match fails {
            true => Answer::Failed,
            false => bench.own_answer(query),
        };
        bench.answer(id, answer);
        let response = bench.one();
        response.answers(if fails { 500 } else { 200 });
        bench.pass(Duration::from_secs(20));
        bench.receive(phone(), request);
        assert_eq!(bench.one().message.to_bytes(), response.message.to_bytes());
        assert!(bench.questions.is_empty());
    }
    // Timer J.
    bench.pass(Duration::from_secs(32));
    bench.assert_idle();
}

#[test]
fn registers_of_one_user_go_to_the_store_one_after_the_other() {
    let mut bench = bench();
    bench.holds_questions = true;
    for cseq in 1..=3 {
        bench.receive(
            phone(),
            register("bob", cseq, &[&format!("<sip:a{cseq}@192.0.2.9>")]),
        );
    }
    bench.receive(phone(), register("alice", 1, &["<sip:alice@192.0.2.9>"]));
    assert_eq!(bench.questions.len(), 2);
    for listed in 1..=3 {
        let place = bench
            .questions
            .iter()
            .position(|(_, query)| matches!(query, Query::Update(address, _) if address.as_str() == "bob@example.com"))
            .expect("a question about bob");
        let (id, query) = bench.questions.remove(place).expect("a question");
        let answer = bench.own_answer(query);
        bench.answer(id, answer);
        assert_eq!(bench.one().answers(200).values(Name::Contact).len(), listed);
    }
    assert_eq!(bench.questions.len(), 1);
}

#[test]
fn questions_are_bounded() {
    let mut bench = Bench::with(&["udp:192.0.2.1:5060"], &["example.com"], |config| {
        config.queries.maximum_parked = 3;
    });
    bench.holds_questions = true;
    for cseq in 1..=2 {
        bench.receive(phone(), register("bob", cseq, &["<sip:a@192.0.2.9>"]));
    }
    bench.receive(
        phone(),
        request(Method::Invite, "sip:bob@example.com", "call1"),
    );
    bench.one().answers(100);
    bench.receive(
        phone(),
        request(Method::Invite, "sip:bob@example.com", "call2"),
    );
    assert_eq!(bench.one().answers(503).value(Name::RetryAfter), "5");
    bench.receive(phone(), register("bob", 3, &["<sip:a@192.0.2.9>"]));
    bench.one().answers(503);
    assert_eq!(bench.proxy.statistics().questions, 3);
    assert_eq!(bench.proxy.statistics().questions_refused, 2);
}

/// Whoever sends REGISTERs faster than they can be written keeps nobody else from being found.
#[test]
fn one_address_of_record_does_not_use_up_the_questions() {
    let mut bench = Bench::with(&["udp:192.0.2.1:5060"], &["example.com"], |config| {
        config.queries.maximum_parked = 50;
    });
    bench.holds_questions = true;
    for cseq in 1..=200 {
        bench.receive(phone(), register("mallory", cseq, &["<sip:m@192.0.2.9>"]));
    }
    let refused = bench.sent();
    assert_eq!(refused.len(), 200 - (1 + MAXIMUM_HELD_UPDATES));
    for sent in &refused {
        assert_eq!(sent.status(), 503);
        assert_eq!(sent.value(Name::RetryAfter), "5");
    }
    assert_eq!(
        bench.proxy.statistics().questions_refused,
        refused.len() as u64
    );
    assert_eq!(bench.questions.len(), 1);
    bench.receive(phone(), register("alice", 1, &["<sip:alice@192.0.2.9>"]));
    bench.receive(
        phone(),
        request(Method::Invite, "sip:bob@example.com", "call1"),
    );
    bench.one().answers(100);
    assert_eq!(bench.questions.len(), 3);
}

#[test]
fn a_binding_through_another_proxy_has_no_flow() {
    let mut bench = bench();
    let mut request = sip("REGISTER sip:example.com SIP/2.0
        Via: SIP/2.0/UDP 192.0.2.50;branch=z9hG4bKproxy
        Via: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bKphone
        Max-Forwards: 69
        From: <sip:bob@example.com>;tag=1
        To: <sip:bob@example.com>
        Call-ID: 1
        CSeq: 1 REGISTER
        Contact: <sip:bob@192.0.2.9:5066>
        Content-Length: 0");
    bench.receive(
        flow("udp:192.0.2.1:5060", "192.0.2.50:5060"),
        request.clone(),
    );
    bench.one().answers(200);
    request = common::request(Method::Options, "sip:bob@example.com", "options");
    bench.receive(phone(), request);
    bench
        .one()
        .is(Method::Options, "sip:bob@192.0.2.9:5066")
        .goes_to("udp:192.0.2.9:5066");
}
