//! Which requests are refused, answered here, or sent where (RFC 3261 sections 16.3 to 16.6, 16.10).

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, Bench, flow, register, request, response, sip};
use proxy::core::{Answer, AuthenticationPolicy, Config, Mode, OverloadPolicy, Policy};
use sip::digest::Account;
use sip::{Flow, Message, Method, Name};

fn bench() -> Bench {
    Bench::new(
        &["udp:192.0.2.1:5060", "tcp:192.0.2.1:5060"],
        &["example.com"],
    )
}

fn alice() -> Flow {
    flow("udp:192.0.2.1:5060", "192.0.2.9:5060")
}

fn bob() -> Flow {
    flow("udp:192.0.2.1:5060", "192.0.2.20:5060")
}

/// The one answer to a request that is not forwarded.
fn answer(bench: &mut Bench, request: Message) -> common::Sent {
    bench.receive(alice(), request);
    let mut sent = bench.sent();
    sent.retain(|sent| sent.message.status() != Some(100));
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.remove(0)
}

#[test]
fn unknown_users_are_not_found_and_absent_ones_unavailable() {
    let mut bench = bench();
    let refusal = answer(
        &mut bench,
        request(Method::Invite, "sip:bob@example.com", "c1"),
    );
    refusal.answers(404).goes_to("udp:192.0.2.9:5060");
    assert!(refusal.message.to().expect("To").tag().is_some());

    bench.register(bob(), "bob", "<sip:bob@192.0.2.20>;expires=60");
    bench.pass(Duration::from_secs(61));
    bench.sent();
    answer(
        &mut bench,
        request(Method::Invite, "sip:bob@example.com", "c2"),
    )
    .answers(480);
}

#[test]
fn unknown_schemes_are_unsupported_and_telephone_numbers_lead_nowhere_without_a_route() {
    let mut bench = bench();
    answer(
        &mut bench,
        request(Method::Invite, "http://example.com", "c1"),
    )
    .answers(416);
    answer(&mut bench, request(Method::Invite, "tel:+15551234", "c2")).answers(416);
    let routed =
        request(Method::Invite, "tel:+15551234", "c3").with(Name::Route, "<sip:192.0.2.77;lr>");
    answer(&mut bench, routed)
        .is(Method::Invite, "tel:+15551234")
        .goes_to("udp:192.0.2.77:5060");
}

#[test]
fn hops_are_counted() {
    let mut bench = bench();
    let with_hops = |hops: &str, call: &str| {
        let mut request = request(Method::Invite, "sip:x@192.0.2.77", call);
        request.replace(Name::MaxForwards, hops);
        request
    };
    answer(&mut bench, with_hops("0", "c1")).answers(483);
    assert_eq!(
        answer(&mut bench, with_hops("1", "c2")).value(Name::MaxForwards),
        "0"
    );
    answer(&mut bench, with_hops("many", "c3")).answers(400);
    let mut without = request(Method::Invite, "sip:x@192.0.2.77", "c4");
    without.remove_all(Name::MaxForwards);
    assert_eq!(answer(&mut bench, without).value(Name::MaxForwards), "70");

    let mut options = request(Method::Options, "sip:x@192.0.2.77", "c5");
    options.replace(Name::MaxForwards, "0");
    answer(&mut bench, options).answers(200);
}

#[test]
fn required_extensions_are_refused_by_name() {
    let mut bench = bench();
    let demanding =
        request(Method::Invite, "sip:x@192.0.2.77", "c1").with(Name::ProxyRequire, "foo, bar");
    assert_eq!(
        answer(&mut bench, demanding)
            .answers(420)
            .values(Name::Unsupported),
        ["foo", "bar"]
    );
    // Require is between the endpoints.
    let demanding = request(Method::Invite, "sip:x@192.0.2.77", "c2").with(Name::Require, "foo");
    answer(&mut bench, demanding).is(Method::Invite, "sip:x@192.0.2.77");
}

/// RFC 3261 section 8.2.2.3, also where the request goes no further (section 16.3 step 3).
#[test]
fn options_for_this_element_may_require_what_it_knows_alone() {
    let mut bench = bench();
    let options = |uri: &str, call: &str, tags: &str| {
        request(Method::Options, uri, call).with(Name::Require, tags)
    };
    let demanding = options("sip:example.com", "c1", "path, foo, Outbound, bar");
    assert_eq!(
        answer(&mut bench, demanding)
            .answers(420)
            .values(Name::Unsupported),
        ["foo", "bar"]
    );
    answer(&mut bench, options("sip:example.com", "c2", "path")).answers(200);
    let mut last_hop = options("sip:x@192.0.2.77", "c3", "foo");
    last_hop.replace(Name::MaxForwards, "0");
    answer(&mut bench, last_hop).answers(420);
    // The methods come first (section 8.2.1).
    let message = request(Method::Message, "sip:example.com", "c4").with(Name::Require, "foo");
    answer(&mut bench, message).answers(405);
}

#[test]
fn this_element_answers_options_and_takes_nothing_else() {
    let mut bench = bench();
    for (call, uri) in [
        ("c1", "sip:example.com"),
        ("c2", "sip:192.0.2.1"),
        ("c3", "sip:192.0.2.1:5060;transport=tcp"),
    ] {
        let ok = answer(&mut bench, request(Method::Options, uri, call));
        assert_eq!(
            ok.answers(200).values(Name::Allow),
            ["ACK", "CANCEL", "OPTIONS", "REGISTER"]
        );
        // The others that RFC 3261 section 11.2 asks for.
        for (name, value) in [
            (Name::Accept, ""),
            (Name::AcceptEncoding, "identity"),
            (Name::AcceptLanguage, "en"),
            (Name::Supported, "path, outbound, gruu"),
        ] {
            assert_eq!(ok.message.header(name), Some(value), "{name}");
        }
    }
    for (call, method) in [
        ("c4", Method::Invite),
        ("c5", Method::Message),
        ("c6", Method::Other("X".into())),
    ] {
        let refusal = answer(&mut bench, request(method, "sip:example.com", call));
        assert_eq!(
            refusal.answers(405).values(Name::Allow),
            ["ACK", "CANCEL", "OPTIONS", "REGISTER"]
        );
    }
}

#[test]
fn our_address_without_a_domain_has_no_users() {
    let mut bench = bench();
    answer(
        &mut bench,
        request(Method::Invite, "sip:bob@192.0.2.1", "c1"),
    )
    .answers(404);
    let mut register = register("bob", 1, &["<sip:bob@192.0.2.9>"]);
    register.set_request_uri("sip:192.0.2.1");
    answer(&mut bench, register).answers(404);
}

#[test]
fn violations_are_answered_without_a_transaction() {
    let mut bench = bench();
    let mut no_call_id = request(Method::Invite, "sip:x@192.0.2.77", "c1");
    no_call_id.remove_all(Name::CallId);
    bench.receive(alice(), no_call_id);
    bench.one().answers(400).goes_along(alice());

    let mut old = common::request(Method::Options, "sip:example.com", "c2")
        .to_bytes()
        .to_vec();
    let place = old
        .windows(7)
        .position(|window| window == b"SIP/2.0")
        .expect("a version");
    old[place + 4] = b'3';
    bench.receive(alice(), Message::read(old.into()).expect("a message"));
    bench.one().answers(505);

    bench.receive_malformed(alice(), b"\x00\x01 nonsense");
    bench.receive_malformed(alice(), b"");
    bench.silence();
    assert_eq!(bench.proxy.statistics().malformed, 4);
    bench.assert_idle();
}

#[test]
fn octets_without_an_end_are_answered_400_where_they_say_enough() {
    let mut bench = bench();
    let mut endless = request(Method::Invite, "sip:x@192.0.2.77", "c1");
    endless.remove_all(Name::ContentLength);
    bench.receive_malformed(alice(), &endless.to_bytes());
    let refusal = bench.one();
    refusal.answers(400).goes_along(alice());
    assert!(refusal.message.to().expect("To").tag().is_some());
    assert_eq!(refusal.value(Name::CallId), "c1");
    let ack = request(Method::Ack, "sip:x@192.0.2.77", "c1");
    bench.receive_malformed(alice(), &ack.to_bytes());
    bench.silence();
}

#[test]
fn loops_are_refused_and_spirals_forwarded() {
    let mut bench = bench();
    let ourselves = flow("udp:192.0.2.1:5060", "192.0.2.1:5060");
    // Robert is another name of bob, who has a phone; carol is another name of herself.
    bench.receive(ourselves, through_proxy("robert", "<sip:bob@example.com>"));
    bench.one().answers(200);
    bench.receive(ourselves, through_proxy("carol", "<sip:carol@example.com>"));
    bench.one().answers(200);
    bench.register(bob(), "bob", "<sip:bob@192.0.2.20>");

    bench.names.insert(
        "example.com".to_owned(),
        vec![(
            sip::Transport::Udp,
            "192.0.2.1:5060".parse().expect("an address"),
        )],
    );
    bench.receive(
        alice(),
        request(Method::Invite, "sip:robert@example.com", "c1"),
    );
    let [trying, spiral] = bench.two();
    trying.answers(100);
    spiral
        .is(Method::Invite, "sip:bob@example.com")
        .goes_to("udp:192.0.2.1:5060");
    bench.receive(ourselves, spiral.message.clone());
    let [trying, to_bob] = bench.two();
    trying.answers(100);
    to_bob
        .is(Method::Invite, "sip:bob@192.0.2.20")
        .goes_along(bob());
    assert_eq!(to_bob.value(Name::MaxForwards), "68");
    assert_ne!(to_bob.branch(), spiral.branch());
    assert_eq!(to_bob.values(Name::RecordRoute).len(), 2);

    bench.receive(
        alice(),
        request(Method::Invite, "sip:carol@example.com", "c2"),
    );
    let [trying, looping] = bench.two();
    trying.answers(100);
    bench.receive(ourselves, looping.message.clone());
    let refusal = bench.one();
    refusal.answers(482);
    // It comes back to the first passage and from there to alice.
    bench.receive(ourselves, refusal.message.clone());
    let [ack, refusal] = bench.two();
    ack.is(Method::Ack, "sip:carol@example.com");
    refusal.answers(482).goes_to("udp:192.0.2.9:5060");
}

/// A REGISTER that did not come from a phone, so that the binding has no flow.
fn through_proxy(user: &str, contact: &str) -> Message {
    let mut request = register(user, 1, &[contact]);
    request.push_front(
        Name::Via,
        format!("SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKp{user}"),
    );
    request
}

#[test]
fn requests_for_other_domains_go_where_their_uri_leads() {
    let mut bench = bench();
    answer(
        &mut bench,
        request(Method::Invite, "sip:x@192.0.2.77:5070;transport=tcp", "c1"),
    )
    .goes_to("tcp:192.0.2.77:5070");
    answer(
        &mut bench,
        request(Method::Invite, "sip:x@example.net;maddr=192.0.2.78", "c2"),
    )
    .goes_to("udp:192.0.2.78:5060");
    bench.names.insert(
        "example.net".to_owned(),
        vec![(
            sip::Transport::Tcp,
            "192.0.2.79:5060".parse().expect("an address"),
        )],
    );
    let forwarded = answer(
        &mut bench,
        request(Method::Invite, "sip:x@example.net", "c3"),
    );
    forwarded.goes_to("tcp:192.0.2.79:5060");
    assert!(
        forwarded
            .value(Name::Via)
            .starts_with("SIP/2.0/TCP 192.0.2.1:5060;branch=z9hG4bK")
    );
    // Nobody listens for the answer to a message over SCTP here, and nobody knows the other name.
    answer(
        &mut bench,
        request(Method::Invite, "sip:x@192.0.2.77;transport=sctp", "c4"),
    )
    .answers(500);
    answer(
        &mut bench,
        request(Method::Invite, "sip:x@unknown.example", "c5"),
    )
    .answers(500);
    answer(
        &mut bench,
        request(Method::Invite, "sip:x@192.0.2.77;transport=pigeon", "c6"),
    )
    .answers(500);
}

#[test]
fn a_next_hop_that_fails_gives_way_to_the_next() {
    let mut bench = bench();
    let hops = ["192.0.2.71:5060", "192.0.2.72:5060", "192.0.2.73:5060"]
        .map(|address| (sip::Transport::Udp, address.parse().expect("an address")));
    bench.names.insert("example.net".to_owned(), hops.to_vec());
    bench.receive(alice(), request(Method::Invite, "sip:x@example.net", "c1"));
    let [_, first] = bench.two();
    first.goes_to("udp:192.0.2.71:5060");
    // The first is unavailable, the second silent.
    bench.receive(
        flow("udp:192.0.2.1:5060", "192.0.2.71:5060"),
        response(&first.message, 503, "x"),
    );
    let [_, second] = bench.two();
    second
        .is(Method::Invite, "sip:x@example.net")
        .goes_to("udp:192.0.2.72:5060");
    assert_ne!(first.branch(), second.branch());
    bench.pass(Duration::from_secs(33));
    let sent = bench.sent();
    let third = sent.last().expect("a third");
    third
        .is(Method::Invite, "sip:x@example.net")
        .goes_to("udp:192.0.2.73:5060");
    bench.receive(
        flow("udp:192.0.2.1:5060", "192.0.2.73:5060"),
        response(&third.message, 404, "x"),
    );
    let [_, refusal] = bench.two();
    refusal.answers(404).goes_to("udp:192.0.2.9:5060");
}

#[test]
fn silence_is_told_as_408_to_an_invite_alone() {
    let mut bench = bench();
    bench.receive(alice(), request(Method::Invite, "sip:x@192.0.2.77", "c1"));
    bench.sent();
    bench.pass(Duration::from_millis(32_100));
    let refusal = bench.sent().pop().expect("a response");
    refusal.answers(408);
    bench.pass(Duration::from_secs(100));
    bench.sent();
    bench.assert_idle();

    // RFC 4320: a 100 while the client waits, and nothing when it has given up.
    bench.receive(alice(), request(Method::Message, "sip:x@192.0.2.77", "c2"));
    bench.pass(Duration::from_secs(100));
    let statuses: Vec<u16> = bench
        .sent()
        .iter()
        .filter_map(|sent| sent.message.status())
        .collect();
    assert_eq!(statuses, [100]);
    bench.assert_idle();
}

#[test]
fn a_408_from_downstream_does_not_go_up_to_a_request_other_than_invite() {
    let mut bench = bench();
    bench.receive(alice(), request(Method::Message, "sip:x@192.0.2.77", "c1"));
    let forwarded = bench.one();
    bench.receive(
        flow("udp:192.0.2.1:5060", "192.0.2.77:5060"),
        response(&forwarded.message, 408, "x"),
    );
    bench.silence();
    // Nor does a provisional response that is no 100.
    bench.receive(alice(), request(Method::Message, "sip:x@192.0.2.77", "c2"));
    let forwarded = bench.one();
    bench.receive(
        flow("udp:192.0.2.1:5060", "192.0.2.77:5060"),
        response(&forwarded.message, 180, "x"),
    );
    bench.silence();
    bench.receive(
        flow("udp:192.0.2.1:5060", "192.0.2.77:5060"),
        response(&forwarded.message, 202, "x"),
    );
    bench.one().answers(202);
}

#[test]
fn what_a_request_says_besides_is_carried_through() {
    let mut bench = bench();
    let odd = sip("MESSAGE sip:x@192.0.2.77 SIP/2.0
        v: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bKodd
        X-Odd:   two  spaces
        f: \"A. Lice\" <sip:alice@example.com>;tag=1
        t: <sip:x@192.0.2.77>
        i: odd
        Date: not a date
        Max-Forwards: 10
        CSeq: 7 MESSAGE
        l: 4

        body");
    bench.receive(alice(), odd);
    let forwarded = bench.one();
    let text = String::from_utf8(forwarded.message.to_bytes().to_vec()).expect("text");
    for line in [
        "X-Odd:   two  spaces\r\n",
        "f: \"A. Lice\" <sip:alice@example.com>;tag=1\r\n",
        "i: odd\r\n",
        "Date: not a date\r\n",
        "l: 4\r\n\r\nbody",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    assert_eq!(forwarded.value(Name::MaxForwards), "9");
    assert_eq!(forwarded.value(Name::MaxBreadth), "60");
}

#[test]
fn a_stream_gets_a_content_length() {
    let mut bench = bench();
    let mut request = request(Method::Options, "sip:x@192.0.2.77;transport=tcp", "c1");
    request.remove_all(Name::ContentLength);
    bench.receive(alice(), request);
    assert_eq!(bench.one().value(Name::ContentLength), "0");
}

#[test]
fn the_ack_to_an_answer_of_ours_is_not_forwarded() {
    let mut bench = bench();
    let mut broken = request(Method::Invite, "sip:x@192.0.2.77", "c1");
    broken.replace(Name::ContentLength, "-1");
    bench.receive(alice(), broken);
    let refusal = bench.one();
    refusal.answers(400);
    let mut ack = request(Method::Ack, "sip:x@192.0.2.77", "c1");
    ack.replace(Name::To, refusal.value(Name::To));
    bench.receive(alice(), ack);
    bench.silence();
    // One that is not about a response of ours goes on.
    let mut ack = request(Method::Ack, "sip:x@192.0.2.77", "c1");
    ack.replace(Name::To, "<sip:x@192.0.2.77>;tag=other");
    bench.receive(alice(), ack);
    bench.one().is(Method::Ack, "sip:x@192.0.2.77");
}

#[test]
fn an_ack_that_can_go_nowhere_is_dropped() {
    let mut bench = bench();
    for (call, uri, hops) in [
        ("c1", "sip:x@192.0.2.77", "0"),
        ("c2", "sip:nobody@example.com", "70"),
        ("c3", "sip:example.com", "70"),
        ("c4", "sip:x@unknown.example", "70"),
        ("c5", "http://example.com", "70"),
    ] {
        let mut ack = request(Method::Ack, uri, call);
        ack.replace(Name::MaxForwards, hops);
        bench.receive(alice(), ack);
        bench.silence();
    }
    assert_eq!(bench.proxy.statistics().acknowledgements_dropped, 5);
    bench.assert_idle();
}

#[test]
fn an_invite_is_cancelled_while_its_look_up_waits() {
    let mut bench = bench();
    bench.holds_questions = true;
    bench.receive(
        alice(),
        request(Method::Invite, "sip:bob@example.com", "c1"),
    );
    bench.one().answers(100);
    bench.receive(
        alice(),
        request(Method::Cancel, "sip:bob@example.com", "c1"),
    );
    let [ok, terminated] = bench.two();
    assert_eq!(ok.answers(200).value(Name::CSeq), "1 CANCEL");
    assert_eq!(terminated.answers(487).value(Name::CSeq), "1 INVITE");
    assert_eq!(ok.value(Name::To), terminated.value(Name::To));
    // An answer that comes later is ignored.
    let (id, query) = bench.questions.pop_front().expect("a question");
    let answer = bench.own_answer(query);
    bench.answer(id, answer);
    bench.silence();
    assert_eq!(bench.proxy.statistics().questions, 0);
}

#[test]
fn a_look_up_without_an_answer_ends_as_504_and_one_that_fails_as_500() {
    let mut bench = bench();
    bench.holds_questions = true;
    bench.receive(
        alice(),
        request(Method::Invite, "sip:bob@example.com", "c1"),
    );
    bench.one().answers(100);
    bench.pass(Duration::from_secs(11));
    bench.sent().first().expect("a response").answers(504);

    bench.receive(
        alice(),
        request(Method::Invite, "sip:bob@example.com", "c2"),
    );
    bench.one().answers(100);
    let (id, _) = bench.questions.pop_back().expect("a question");
    bench.answer(id, Answer::Failed);
    bench.one().answers(500);
}

#[test]
fn a_resolver_that_does_not_answer_ends_the_way() {
    let mut bench = bench();
    bench.holds_questions = true;
    bench.receive(alice(), request(Method::Invite, "sip:x@example.net", "c1"));
    bench.one().answers(100);
    bench.pass(Duration::from_secs(11));
    bench.sent().first().expect("a response").answers(500);
    bench.pass(Duration::from_secs(100));
    bench.assert_idle();
}

#[test]
fn responses_that_are_not_ours_are_dropped() {
    let mut bench = bench();
    bench.receive(alice(), request(Method::Invite, "sip:x@192.0.2.77", "c1"));
    let [_, forwarded] = bench.two();
    let callee = flow("udp:192.0.2.1:5060", "192.0.2.77:5060");

    let mut foreign = response(&forwarded.message, 180, "x");
    let via = foreign
        .values(Name::Via)
        .next()
        .map(<[u8]>::to_vec)
        .expect("a Via");
    let via = String::from_utf8(via)
        .expect("text")
        .replace("192.0.2.1:5060", "192.0.2.2:5060");
    foreign.remove_first_value(Name::Via);
    foreign.push_front(Name::Via, via);
    bench.receive(callee, foreign);
    bench.silence();
    assert_eq!(bench.proxy.statistics().foreign_responses, 1);

    // Ours by its address, but of no transaction (RFC 6026).
    let mut stray = response(&forwarded.message, 200, "x");
    stray.set_top_via_parameter("branch", Some("z9hG4bKnever"));
    bench.receive(callee, stray);
    bench.silence();
    assert_eq!(bench.proxy.statistics().transactions.stray_responses, 1);

    bench.receive(callee, response(&forwarded.message, 180, "x"));
    bench.one().answers(180);
}

/// A request with a body of 60,000 octets.
fn large(call: &str) -> Message {
    let mut invite = request(Method::Invite, "sip:x@192.0.2.77", call);
    invite.set_body(None, vec![b'x'; 60_000].into());
    invite
}

#[test]
fn octets_held_are_bounded_and_given_back() {
    let mut bench = Bench::with(&["udp:192.0.2.1:5060"], &["example.com"], |config| {
        // The request and its copy, and then the next request, but not its copy.
        config.maximum_held_octets = 190_000;
    });
    bench.receive(alice(), large("c1"));
    let [_, forwarded] = bench.two();
    forwarded.is(Method::Invite, "sip:x@192.0.2.77");
    let held = bench.proxy.statistics().held_octets;
    assert!((120_000..125_000).contains(&held), "{held}");

    // Its copy would be too much.
    answer(&mut bench, large("c2")).answers(503);
    assert_eq!(bench.proxy.statistics().octets_refused, 1);
    assert_eq!(bench.proxy.statistics().held_octets, held);
    // A small one is welcome.
    answer(
        &mut bench,
        request(Method::Options, "sip:x@192.0.2.77", "c3"),
    )
    .is(Method::Options, "sip:x@192.0.2.77");

    bench.pass(Duration::from_secs(300));
    bench.sent();
    assert_eq!(bench.proxy.statistics().held_octets, 0);
    bench.receive(alice(), large("c4"));
    let [_, forwarded] = bench.two();
    forwarded.is(Method::Invite, "sip:x@192.0.2.77");
}

#[test]
fn octets_that_wait_for_an_answer_are_bounded() {
    let mut bench = Bench::with(&["udp:192.0.2.1:5060"], &["example.com"], |config| {
        config.maximum_held_octets = 130_000;
    });
    bench.holds_questions = true;
    let mut register = common::register("bob", 1, &["<sip:bob@192.0.2.20>"]);
    register.set_body(None, vec![b'x'; 60_000].into());
    bench.receive(bob(), register);
    bench.silence();
    let mut invite = large("c1");
    invite.set_request_uri("sip:bob@example.com");
    bench.receive(alice(), invite);
    bench.one().answers(100);
    answer(&mut bench, large("c2")).answers(503);
    let mut late = common::register("carol", 1, &["<sip:bob@192.0.2.20>"]);
    late.set_body(None, vec![b'x'; 60_000].into());
    answer(&mut bench, late).answers(503);
    assert_eq!(bench.proxy.statistics().octets_refused, 2);

    bench.pass(Duration::from_secs(60));
    assert_eq!(bench.proxy.statistics().held_octets, 0);
}

/// Wherever the room has run out (RFC 3261 section 21.5.4).
#[test]
fn every_503_of_ours_says_when_to_come_back() {
    let invite = |uri| request(Method::Invite, uri, "c1");
    let (here, elsewhere) = ("sip:bob@example.com", "sip:x@192.0.2.77");
    let with = |change: &dyn Fn(&mut Config, &mut Policy)| {
        Bench::with(&["udp:192.0.2.1:5060"], &["example.com"], |config| {
            let mut policy = Policy {
                overload: OverloadPolicy {
                    retry_after: Duration::from_secs(77),
                    ..OverloadPolicy::default()
                },
                ..Policy::default()
            };
            change(config, &mut policy);
            config.policy = Arc::new(policy);
        })
    };
    let refuses = |bench: &mut Bench, request: Message| {
        let refusal = answer(bench, request);
        assert_eq!(refusal.answers(503).value(Name::RetryAfter), "77");
    };
    // For a transaction, for the request, for its copy.
    refuses(
        &mut with(&|config, _| config.transactions.max_transactions = 0),
        invite(here),
    );
    refuses(
        &mut with(&|config, _| config.maximum_held_octets = 0),
        invite(elsewhere),
    );
    refuses(
        &mut with(&|config, _| config.maximum_held_octets = 100_000),
        large("c1"),
    );
    // For what waits: for a binding, for an address, for a password, without state.
    let unasked = |config: &mut Config| config.queries.maximum_parked = 0;
    refuses(&mut with(&|config, _| unasked(config)), invite(here));
    refuses(
        &mut with(&|config, _| unasked(config)),
        register("bob", 1, &["<sip:bob@192.0.2.20>"]),
    );
    refuses(
        &mut with(&|config, _| config.queries.maximum_resolving = 0),
        invite("sip:x@elsewhere.example"),
    );
    refuses(
        &mut with(&|config, policy| {
            unasked(config);
            policy.forwarding.mode = Mode::Stateless;
        }),
        invite(here),
    );
    let mut asking = with(&|config, policy| {
        unasked(config);
        policy.authentication = AuthenticationPolicy {
            register: true,
            ..AuthenticationPolicy::default()
        };
    });
    let unproved = register("bob", 1, &["<sip:bob@192.0.2.20>"]);
    let challenge = answer(&mut asking, unproved);
    challenge.answers(401);
    let mut proved = register("bob", 2, &["<sip:bob@192.0.2.20>"]);
    let bob = Account {
        username: "bob",
        password: b"secret",
    };
    assert!(sip::digest::answer(
        &mut proved,
        &challenge.message,
        &bob,
        "cnonce"
    ));
    refuses(&mut asking, proved);
    // In the store.
    for request in [register("bob", 1, &["<sip:bob@192.0.2.20>"]), invite(here)] {
        let mut bench = with(&|_, _| {});
        bench.holds_questions = true;
        bench.receive(alice(), request);
        bench.sent();
        let (id, _) = bench.questions.pop_front().expect("a question");
        bench.answer(id, Answer::Full);
        assert_eq!(bench.one().answers(503).value(Name::RetryAfter), "77");
    }
}

/// Extensions are between the ends: their methods, option tags, header fields and bodies go through in
/// both directions (RFC 3262, 3311, 6086, 3515, 6665, 3903, 3428).
#[test]
fn requests_of_extensions_pass_untouched() {
    let mut bench = bench();
    for (number, method) in [
        Method::Prack,
        Method::Update,
        Method::Info,
        Method::Refer,
        Method::Subscribe,
        Method::Notify,
        Method::Publish,
        Method::Message,
        Method::Other("HUMPTY".into()),
    ]
    .into_iter()
    .enumerate()
    {
        let mut asked = request(method.clone(), "sip:x@192.0.2.77", &format!("e{number}"));
        asked.set_to_tag("b1");
        let fields = [
            (Name::RAck, "776656 1 INVITE"),
            (Name::Require, "100rel, replaces"),
            (Name::Event, "presence;id=1"),
            (Name::SubscriptionState, "active;expires=10"),
            (
                Name::ReferTo,
                "<sip:carol@example.org?Replaces=1%3Bto-tag%3D2>",
            ),
            (Name::SipIfMatch, "dx200xyz"),
            (Name::Other("X-Unknown"), ";;,,;"),
        ];
        for (name, value) in fields {
            asked.push_back(name, value);
        }
        let asked = asked.with_body("application/odd", "--\r\n\0\r\n");
        bench.receive(alice(), asked.clone());
        let forwarded = bench.one();
        forwarded.is(method, "sip:x@192.0.2.77");
        for (name, value) in fields {
            assert_eq!(forwarded.message.header(name), Some(value));
        }
        assert_eq!(forwarded.message.body(), asked.body());

        let reply = response(&forwarded.message, 202, "b1")
            .with(Name::RSeq, "1")
            .with(Name::SipEtag, "dx200xyz")
            .with_body("application/odd", "\0");
        bench.receive(flow("udp:192.0.2.1:5060", "192.0.2.77:5060"), reply);
        let up = bench.one();
        assert_eq!(up.answers(202).value(Name::RSeq), "1");
        assert_eq!(up.value(Name::SipEtag), "dx200xyz");
        assert_eq!(up.message.body(), b"\0");
    }
}
