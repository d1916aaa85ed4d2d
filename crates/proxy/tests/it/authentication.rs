//! Digest authentication by the registrar and the proxy (RFC 3261 section 22, RFC 7616, RFC 8760), one
//! test a rule.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, Bench, Sent, flow, register, request, response};
use proptest::prelude::*;
use proxy::core::{Answer, AuthenticationPolicy, Event, Policy, Query};
use sip::digest::{
    Account, Algorithm, Authorization, Challenge, Confirmation, Credentials, answer,
};
use sip::{Flow, Message, Method, Name};

const BOB: Account<'_> = Account {
    username: "bob",
    password: b"secret of bob",
};
const ALICE: Account<'_> = Account {
    username: "alice",
    password: b"secret of alice",
};

fn bench_with(change: impl FnOnce(&mut AuthenticationPolicy)) -> Bench {
    let mut authentication = AuthenticationPolicy {
        register: true,
        calls: true,
        ..AuthenticationPolicy::default()
    };
    change(&mut authentication);
    let mut bench = Bench::with(
        &["udp:192.0.2.1:5060"],
        &["example.com", "example.org"],
        |config| {
            config.policy = Arc::new(Policy {
                authentication,
                ..Policy::default()
            });
        },
    );
    for account in [BOB, ALICE] {
        let password = String::from_utf8_lossy(account.password).into_owned();
        bench
            .passwords
            .insert(account.username.to_owned(), password);
    }
    bench
}

fn bench() -> Bench {
    bench_with(|_| {})
}

fn phone() -> Flow {
    flow("udp:192.0.2.1:5060", "192.0.2.9:5060")
}

/// The same request with another CSeq number and branch, as it is sent after a challenge.
fn next(request: &Message) -> Message {
    let mut next = request.clone();
    let (number, method) = request.cseq().expect("a CSeq");
    next.replace(Name::CSeq, format!("{} {method}", number + 1));
    let branch = request
        .top_via()
        .expect("a Via")
        .branch()
        .map(str::to_owned);
    let branch = format!("{}x", branch.unwrap_or_default());
    next.set_top_via_parameter("branch", Some(&branch));
    next
}

/// A request with the answer to the challenges that it has brought.
fn answered(request: &Message, challenge: &Sent, account: &Account<'_>) -> Message {
    let mut next = next(request);
    assert!(answer(&mut next, &challenge.message, account, "cnonce"));
    next
}

/// Sends a request, answers the challenge, and gives back what was sent.
fn with_challenge(bench: &mut Bench, request: &Message, account: &Account<'_>) -> Message {
    bench.receive(phone(), request.clone());
    let challenge = bench.one();
    let next = answered(request, &challenge, account);
    bench.receive(phone(), next.clone());
    next
}

fn invite(call: &str) -> Message {
    request(Method::Invite, "sip:bob@example.com", call)
}

fn register_bob(bench: &mut Bench) {
    let request = register("bob", 1, &["<sip:bob@192.0.2.9:5060>"]);
    with_challenge(bench, &request, &BOB);
    bench.one().answers(200);
}

/// The same credentials with a count of its own.
fn with_count(request: &Message, challenge: &Sent, account: &Account<'_>, count: u32) -> Message {
    let mut next = request.clone();
    for _ in 0..count {
        next = self::next(&next);
    }
    let value = challenge.value(Name::WwwAuthenticate);
    let challenge = Challenge::parse(value.as_bytes()).expect("a challenge");
    let uri = request.request_uri().expect("a URI");
    let authorization = challenge.authorize(account, "REGISTER", uri, count, "cnonce");
    next.replace(Name::Authorization, authorization.to_string());
    next
}

#[test]
fn a_register_is_challenged_and_taken_with_the_right_password() {
    let mut bench = bench();
    let request = register("bob", 1, &["<sip:bob@192.0.2.9:5060>"]);
    bench.receive(phone(), request.clone());
    let challenge = bench.one();
    challenge.answers(401);
    // In the order of preference, each algorithm once, one nonce (RFC 8760 section 2.3).
    let challenges = challenge.values(Name::WwwAuthenticate);
    let challenges: Vec<Challenge<'_>> = challenges
        .iter()
        .map(|value| Challenge::parse(value.as_bytes()).expect("a challenge"))
        .collect();
    let algorithms: Vec<Algorithm> = challenges.iter().map(|one| one.algorithm).collect();
    assert_eq!(algorithms, [Algorithm::Sha256, Algorithm::Md5]);
    for one in &challenges {
        assert_eq!(one.realm, "example.com");
        assert!(one.offers_auth && !one.is_stale && one.nonce == challenges[0].nonce);
    }

    bench.receive(phone(), answered(&request, &challenge, &BOB));
    let response = bench.one();
    response.answers(200);
    assert_eq!(
        response.values(Name::Contact),
        ["<sip:bob@192.0.2.9:5060>;expires=3600"]
    );
    assert!(response.values(Name::AuthenticationInfo).is_empty());
    let statistics = bench.proxy.statistics();
    assert_eq!((statistics.challenged, statistics.authenticated), (1, 1));
    assert_eq!(statistics.nonces, 1);
}

#[test]
fn each_algorithm_that_is_offered_will_do() {
    for algorithm in Algorithm::ALL {
        let mut bench = bench_with(|policy| policy.algorithms = vec![algorithm]);
        let request = register("bob", 1, &["<sip:bob@192.0.2.9>"]);
        let sent = with_challenge(&mut bench, &request, &BOB);
        bench.one().answers(200);
        assert!(
            common::values(&sent, Name::Authorization)[0]
                .contains(&format!("algorithm={algorithm}"))
        );
    }
}

#[test]
fn a_wrong_password_and_a_name_that_nobody_has_are_challenged_alike() {
    let mut bench = bench();
    for (user, password) in [("bob", "wrong"), ("nobody", "secret")] {
        let account = Account {
            username: user,
            password: password.as_bytes(),
        };
        let request = register(user, 1, &["<sip:x@192.0.2.9>"]);
        bench.receive(phone(), request.clone());
        let first = bench.one();
        bench.receive(phone(), answered(&request, &first, &account));
        let second = bench.one();
        second.answers(401);
        let nonces = [&first, &second].map(|challenge| {
            let values = challenge.values(Name::WwwAuthenticate);
            assert_eq!(values.len(), 2);
            let challenge = Challenge::parse(values[0].as_bytes()).expect("a challenge");
            // It is the password that is wrong (RFC 7616 section 3.3).
            assert!(!challenge.is_stale);
            challenge.nonce.to_string()
        });
        assert_ne!(nonces[0], nonces[1]);
        assert!(matches!(
            bench.events.pop(),
            Some(Event::AuthenticationFailed { realm, username, .. })
                if realm == "example.com" && username == user
        ));
    }
    assert_eq!(bench.proxy.statistics().authentication_failures, 2);
    // Nothing is used up by those who do not know the password.
    assert_eq!(bench.proxy.statistics().nonces, 0);
}

/// How many of so many requests are answered.
fn answers(bench: &mut Bench, requests: impl Iterator<Item = Message>) -> usize {
    for request in requests {
        bench.receive(phone(), request);
    }
    bench.sent().len()
}

/// Credentials that anybody can write change nothing for a scanner. A phone that answers our challenge is not shut out by
/// one at the same address.
#[test]
fn a_scanner_is_not_believed_by_its_credentials() {
    let mut bench = bench();
    let request = register("bob", 1, &["<sip:bob@192.0.2.9:5060>"]);
    bench.receive(phone(), request.clone());
    let challenge = bench.one();
    let nonces = [
        "00".to_owned(),
        "0".repeat(56),
        "not hexadecimal".to_owned(),
    ];
    let scan = |number: u32| {
        let credentials = format!(
            "Digest username=\"bob\", realm=\"example.com\", nonce=\"{}\", uri=\"sip:example.com\", \
             response=\"{:032}\"",
            nonces[number as usize % nonces.len()],
            0
        );
        register("bob", number + 1, &["<sip:x@192.0.2.9>"]).with(Name::Authorization, credentials)
    };
    // A hundred a second, for two seconds, of which one is used up.
    assert_eq!(answers(&mut bench, (0..1000).map(scan)), 199);
    assert_eq!(bench.proxy.statistics().overload.scans_ignored, 801);
    for count in 1..=20 {
        let proved = with_count(&request, &challenge, &BOB, count);
        bench.receive(phone(), proved);
        bench.one().answers(200);
    }
    assert_eq!(answers(&mut bench, (1000..1010).map(scan)), 0);
    // Nor does the proof of others help it.
    bench.pass(Duration::from_secs(1));
    assert_eq!(answers(&mut bench, (2000..3000).map(scan)), 100);
}

/// With a nonce of ours passwords can be tried, but not faster than strangers may ask for one.
#[test]
fn passwords_cannot_be_tried_faster_than_strangers_may_ask() {
    let attempt = |username| Account {
        username,
        password: b"wrong",
    };
    let mut bench = bench();
    let request = register("bob", 1, &["<sip:bob@192.0.2.9:5060>"]);
    bench.receive(phone(), request.clone());
    let challenge = bench.one();
    let tries = |seconds: u32| {
        let (request, challenge) = (&request, &challenge);
        (1..2000).map(move |number| {
            let mut tried = answered(request, challenge, &attempt("bob"));
            tried.replace(
                Name::CSeq,
                format!("{} REGISTER", seconds * 10_000 + number),
            );
            let branch = format!("z9hG4bK{seconds}x{number}");
            tried.set_top_via_parameter("branch", Some(&branch));
            tried
        })
    };
    assert_eq!(answers(&mut bench, tries(1)), 199 + 1000);
    bench.pass(Duration::from_secs(1));
    assert_eq!(answers(&mut bench, tries(2)), 100);
    assert_eq!(bench.proxy.statistics().authentication_failures, 1299);

    // Nor by calls, which nobody else at the address has to bring credentials for in vain.
    let mut bench = self::bench();
    let first = invite("call0");
    bench.receive(phone(), first.clone());
    let challenge = bench.one();
    let tries = (1..2000).map(|number| {
        let mut tried = answered(&first, &challenge, &attempt("alice"));
        tried.replace(Name::CallId, format!("call{number}"));
        let branch = format!("z9hG4bK{number}");
        tried.set_top_via_parameter("branch", Some(&branch));
        tried
    });
    assert_eq!(answers(&mut bench, tries), 200 + 1000);
    assert_eq!(bench.proxy.statistics().authentication_failures, 1200);
    bench.receive(phone(), invite("call"));
    bench.one().answers(407);
}

#[test]
fn a_user_may_register_nobody_else() {
    let mut bench = bench();
    let request = register("bob", 1, &["<sip:x@192.0.2.9>"]);
    with_challenge(&mut bench, &request, &ALICE);
    bench.one().answers(403);
    let mut bench = bench_with(|policy| policy.may_act_for_others = vec!["alice".to_owned()]);
    with_challenge(&mut bench, &request, &ALICE);
    bench.one().answers(200);
}

#[test]
fn the_realm_is_the_domain_of_the_user_or_the_one_of_all() {
    let mut request = register("bob", 1, &["<sip:bob@192.0.2.9>"]);
    request.replace(Name::To, "<sip:bob@EXAMPLE.org:5060>");
    let mut bench = bench();
    with_challenge(&mut bench, &request, &BOB);
    bench.one().answers(200);
    let mut bench = bench_with(|policy| policy.realm = Some("everybody".to_owned()));
    let sent = with_challenge(&mut bench, &request, &BOB);
    assert!(common::values(&sent, Name::Authorization)[0].contains("realm=\"everybody\""));
    bench.one().answers(200);
}

#[test]
fn a_nonce_may_be_used_again_with_another_count_and_not_with_the_same() {
    let mut bench = bench();
    let request = register("bob", 1, &["<sip:bob@192.0.2.9>"]);
    bench.receive(phone(), request.clone());
    let challenge = bench.one();
    for (count, status) in [(2, 200), (3, 200), (3, 401)] {
        let mut sent = with_count(&request, &challenge, &BOB, count);
        if status == 401 {
            sent = next(&sent);
        }
        bench.receive(phone(), sent);
        let response = bench.one();
        response.answers(status);
        if status == 401 {
            assert!(response.value(Name::WwwAuthenticate).contains("stale=true"));
        }
    }
    assert_eq!(bench.proxy.statistics().nonces_replayed, 1);
}

#[test]
fn a_nonce_that_is_too_old_or_that_is_forgotten_is_stale() {
    let mut bench = bench_with(|policy| policy.maximum_nonces = 1);
    let request = register("bob", 1, &["<sip:bob@192.0.2.9>"]);
    bench.receive(phone(), request.clone());
    let first = bench.one();
    bench.receive(phone(), with_count(&request, &first, &BOB, 1));
    bench.one().answers(200);
    // A second nonce takes the place of the first.
    let other = register("alice", 1, &["<sip:alice@192.0.2.9>"]);
    with_challenge(&mut bench, &other, &ALICE);
    bench.one().answers(200);
    assert_eq!(bench.proxy.statistics().nonces_forgotten, 1);
    bench.receive(phone(), with_count(&request, &first, &BOB, 2));
    let stale = bench.one();
    assert!(
        stale
            .answers(401)
            .value(Name::WwwAuthenticate)
            .contains("stale=true")
    );

    // The client does not ask its user again.
    let mut again = with_count(&request, &first, &BOB, 3);
    assert!(answer(&mut again, &stale.message, &BOB, "cnonce"));
    bench.receive(phone(), again.clone());
    bench.one().answers(200);

    bench.pass(Duration::from_secs(301));
    bench.receive(phone(), with_count(&request, &stale, &BOB, 4));
    let stale = bench.one();
    assert!(
        stale
            .answers(401)
            .value(Name::WwwAuthenticate)
            .contains("stale=true")
    );
    assert_eq!(bench.proxy.statistics().authentication_failures, 0);
}

#[test]
fn credentials_for_others_and_malformed_ones_are_passed_over() {
    let mut bench = bench();
    for (number, value) in (1..).zip([
        "Basic Ym9iOnNlY3JldA==",
        "Digest",
        "Digest username=\"bob\"",
        "Digest username=\"bob\", realm=\"example.net\", nonce=\"1\", uri=\"sip:a\", response=\"00\"",
        "Digest username=\"bob\", realm=\"example.com\", nonce=\"1\", uri=\"sip:a\", response=\"00\"",
        // As clients say who they will be, before they are asked.
        "Digest username=\"bob\", realm=\"example.com\", nonce=\"\", uri=\"sip:a\", response=\"\"",
        "Digest username=\"bob\", realm=\"example.com\", nonce=\"1\", uri=\"sip:a\", response=\"00\", \
         algorithm=MD5-sess, qop=auth, cnonce=\"c\", nc=00000001",
    ]) {
        let request = register("bob", number, &[]).with(Name::Authorization, value);
        bench.receive(phone(), request);
        let challenge = bench.one();
        assert!(
            !challenge
                .answers(401)
                .value(Name::WwwAuthenticate)
                .contains("stale"),
            "{value}"
        );
    }
}

#[test]
fn of_several_credentials_those_for_our_realm_count() {
    let mut bench = bench();
    let request = register("bob", 1, &["<sip:bob@192.0.2.9>"]);
    bench.receive(phone(), request.clone());
    let challenge = bench.one();
    let mut sent = answered(&request, &challenge, &BOB);
    sent.push_front(
        Name::Authorization,
        "Digest username=\"x\", realm=\"example.net\", nonce=\"1\", uri=\"sip:a\", response=\"00\"",
    );
    bench.receive(phone(), sent);
    bench.one().answers(200);
}

#[test]
fn clients_without_qop_are_served_where_that_is_allowed() {
    let answer_without_qop = |challenge: &Sent, request: &Message| {
        let values = challenge.values(Name::WwwAuthenticate);
        let value = values.last().expect("a challenge for MD5");
        let challenge = Challenge {
            offers_auth: false,
            ..Challenge::parse(value.as_bytes()).expect("a challenge")
        };
        let given = challenge.authorize(&BOB, "REGISTER", "sip:example.com", 0, "");
        next(request).with(Name::Authorization, given.to_string())
    };
    let request = register("bob", 1, &["<sip:bob@192.0.2.9>"]);
    let mut bench = bench();
    bench.receive(phone(), request.clone());
    let challenge = bench.one();
    bench.receive(phone(), answer_without_qop(&challenge, &request));
    bench.one().answers(401);

    let mut bench = bench_with(|policy| policy.allow_without_qop = true);
    bench.receive(phone(), request.clone());
    let challenge = bench.one();
    let sent = answer_without_qop(&challenge, &request);
    bench.receive(phone(), sent.clone());
    bench.one().answers(200);
    // The nonce is good once.
    bench.receive(phone(), next(&sent));
    assert!(
        bench
            .one()
            .answers(401)
            .value(Name::WwwAuthenticate)
            .contains("stale=true")
    );
}

#[test]
fn a_user_without_a_hash_for_the_algorithm_is_asked_for_another() {
    let mut bench = bench();
    bench.holds_questions = true;
    let request = register("bob", 1, &[]);
    bench.receive(phone(), request.clone());
    let challenge = bench.one();
    let old = Credentials {
        sha256: None,
        sha512_256: None,
        ..Credentials::new("bob", "example.com", BOB.password)
    };
    let mut sent = answered(&request, &challenge, &BOB);
    bench.receive(phone(), sent.clone());
    let (id, query) = bench.questions.pop_front().expect("a question");
    assert_eq!(
        query,
        Query::Credentials {
            realm: "example.com".into(),
            username: "bob".into()
        }
    );
    bench.answer(id, Answer::Credentials(Some(Arc::new(old))));
    let challenge = bench.one();
    let offered = challenge.values(Name::WwwAuthenticate);
    assert!(
        offered.len() == 1 && offered[0].contains("algorithm=MD5"),
        "{offered:?}"
    );
    sent = answered(&sent, &challenge, &BOB);
    bench.receive(phone(), sent);
    let (id, _) = bench.questions.pop_front().expect("a question");
    bench.answer(id, Answer::Credentials(Some(Arc::new(old))));
    assert!(matches!(
        bench.questions.pop_front(),
        Some((_, Query::Lookup(_)))
    ));
}

#[test]
fn the_uri_that_was_hashed_has_to_lead_here_or_where_the_request_goes() {
    let mut bench = bench();
    let request = register("bob", 1, &[]);
    for (number, (uri, status)) in (1..).zip([
        ("sip:example.com", 200),
        ("sip:192.0.2.1:5060", 200),
        ("sip:EXAMPLE.org", 200),
        ("sip:example.net", 400),
        ("nothing", 400),
    ]) {
        bench.receive(phone(), register("bob", 2 * number, &[]));
        let value = bench.one().value(Name::WwwAuthenticate);
        let challenge = Challenge::parse(value.as_bytes()).expect("a challenge");
        let given = challenge.authorize(&BOB, "REGISTER", uri, 1, "c");
        let mut sent = register("bob", 2 * number + 1, &[]);
        sent.set_request_uri(request.request_uri().expect("a URI"));
        bench.receive(phone(), sent.with(Name::Authorization, given.to_string()));
        assert_eq!(bench.one().status(), status, "{uri}");
    }
}

#[test]
fn a_200_proves_that_we_know_the_password_where_that_is_wanted() {
    let mut bench = bench_with(|policy| policy.confirm = true);
    let request = register("bob", 1, &["<sip:bob@192.0.2.9>"]);
    let sent = with_challenge(&mut bench, &request, &BOB);
    let value = bench.one().answers(200).value(Name::AuthenticationInfo);
    let confirmation = Confirmation::parse(value.as_bytes()).expect("a confirmation");
    let given = common::values(&sent, Name::Authorization).remove(0);
    let given = Authorization::parse(given.as_bytes()).expect("an authorization");
    let credentials = Credentials::new("bob", "example.com", BOB.password);
    assert!(confirmation.is_proved_by(&given, &credentials));
}

#[test]
fn a_store_that_does_not_answer_lets_nobody_in() {
    let mut bench = bench();
    bench.holds_questions = true;
    let request = register("bob", 1, &["<sip:bob@192.0.2.9>"]);
    with_challenge(&mut bench, &request, &BOB);
    let (id, _) = bench.questions.pop_front().expect("a question");
    bench.answer(id, Answer::Failed);
    bench.one().answers(500);

    let request = register("bob", 10, &["<sip:bob@192.0.2.9>"]);
    with_challenge(&mut bench, &request, &BOB);
    bench.pass(Duration::from_secs(12));
    let last = bench.sent().pop().expect("an answer");
    last.answers(500);
    bench.pass(Duration::from_secs(60));
    bench.assert_idle();
}

#[test]
fn a_call_of_our_user_is_challenged_by_the_proxy_and_goes_on_without_the_credentials() {
    let mut bench = bench();
    register_bob(&mut bench);
    let request = invite("call1").with(
        Name::ProxyAuthorization,
        "Digest username=\"alice\", realm=\"example.net\", nonce=\"1\", uri=\"sip:a\", response=\"00\"",
    );
    bench.receive(phone(), request.clone());
    let challenge = bench.one();
    challenge.answers(407);
    assert_eq!(challenge.values(Name::ProxyAuthenticate).len(), 2);
    assert!(challenge.values(Name::WwwAuthenticate).is_empty());
    assert!(
        bench
            .events
            .iter()
            .all(|event| !matches!(event, Event::CallStarted(_)))
    );
    let mut ack = common::request(Method::Ack, "sip:bob@example.com", "call1");
    ack.replace(Name::To, challenge.value(Name::To));
    bench.receive(phone(), ack);
    bench.silence();

    bench.receive(phone(), answered(&request, &challenge, &ALICE));
    let [trying, forwarded] = bench.two();
    trying.answers(100);
    forwarded.is(Method::Invite, "sip:bob@192.0.2.9:5060");
    let left = forwarded.values(Name::ProxyAuthorization);
    assert!(
        left.len() == 1 && left[0].contains("example.net"),
        "{left:?}"
    );
}

#[test]
fn a_caller_is_who_its_from_says() {
    let mut bench = bench();
    register_bob(&mut bench);
    with_challenge(&mut bench, &invite("call1"), &BOB);
    bench.one().answers(403);
    bench.pass(Duration::from_secs(60));
    bench.assert_idle();
}

/// Another port, an address of ours, and the name that every host has for itself: whoever is called takes such a caller for
/// our user.
#[test]
fn a_caller_is_our_user_by_whatever_port_or_address_of_ours() {
    let mut bench = Bench::with(
        &["udp:192.0.2.1:5060", "udp:127.0.0.1:5070", "udp:[::]:5060"],
        &["example.com"],
        |config| {
            let mut policy = Policy::default();
            policy.authentication.calls = true;
            config.policy = Arc::new(policy);
            config.advertise = Some("sip.example.org:5060".parse().expect("a host"));
            config.local_addresses = vec!["2001:db8::1".parse().expect("an address")];
        },
    );
    bench.register(phone(), "bob", "<sip:bob@192.0.2.9:5060>");
    bench
        .passwords
        .insert("alice".to_owned(), "secret of alice".to_owned());
    let call = |from: &str, number: usize| {
        let mut invite = invite(&format!("call{number}"));
        invite.replace(Name::From, format!("<{from}>;tag=1"));
        invite
    };
    for (number, ours) in [
        "sip:alice@example.com",
        "sip:alice@example.com:9",
        "sip:alice@example.com:5060",
        "sips:alice@EXAMPLE.com.:5061",
        "sip:alice@192.0.2.1",
        "sip:alice@192.0.2.1:15060",
        "sip:alice@[::ffff:192.0.2.1]",
        "sip:alice@[2001:db8::1]:9",
        "SIP:%61l%69ce@example.com",
        "im:alice@example.com",
        "sip:alice:secret@example.com;user=phone",
        "sip:alice@[::1]",
        "sip:alice@127.0.0.1:9",
        "sip:alice@localhost",
        "sip:alice@LocalHost:15060",
        "sip:alice@sip.example.org:9",
    ]
    .into_iter()
    .enumerate()
    {
        let invite = call(ours, number);
        bench.receive(phone(), invite.clone());
        let challenge = bench.one();
        challenge.answers(407);
        // She can prove it.
        bench.receive(phone(), answered(&invite, &challenge, &ALICE));
        bench.two()[1].is(Method::Invite, "sip:bob@192.0.2.9:5060");
    }
    for (number, others) in [
        "sip:alice@example.net",
        "sip:alice@192.0.2.9",
        "sip:alice@[2001:db8::2]",
        "sip:alice@sub.example.com",
    ]
    .into_iter()
    .enumerate()
    {
        bench.receive(phone(), call(others, 100 + number));
        bench.two()[1].is(Method::Invite, "sip:bob@192.0.2.9:5060");
    }
}

#[test]
fn strangers_may_call_our_users_and_nobody_else() {
    let mut bench = bench();
    register_bob(&mut bench);
    let mut from_outside = invite("call1");
    from_outside.replace(Name::From, "<sip:carol@example.net>;tag=1");
    bench.receive(phone(), from_outside);
    bench.two()[1].is(Method::Invite, "sip:bob@192.0.2.9:5060");

    let mut through = request(Method::Invite, "sip:dave@192.0.2.77", "call2");
    through.replace(Name::From, "<sip:carol@example.net>;tag=1");
    bench.receive(phone(), through.clone());
    bench.one().answers(403);
    // One of us may vouch for them.
    let mut bench = bench_with(|policy| policy.may_act_for_others = vec!["bob".to_owned()]);
    bench.receive(phone(), through.clone());
    let challenge = bench.one();
    challenge.answers(407);
    bench.receive(phone(), answered(&through, &challenge, &ALICE));
    bench.one().answers(403);
    with_challenge(&mut bench, &next(&next(&through)), &BOB);
    bench.two()[1].is(Method::Invite, "sip:dave@192.0.2.77");
}

/// Who hides its name may be a user of any domain of ours (RFC 3323 section 4.1.1.3).
#[test]
fn somebody_anonymous_proves_to_be_a_user_of_any_domain() {
    for realm in ["example.com", "example.org"] {
        let mut bench = bench();
        let mut hidden = request(Method::Invite, "sip:dave@192.0.2.77", "call1");
        hidden.replace(Name::From, "<sip:anonymous@anonymous.invalid>;tag=1");
        bench.receive(phone(), hidden.clone());
        let challenge = bench.one();
        challenge.answers(407);
        let challenges = common::values(&challenge.message, Name::ProxyAuthenticate);
        let of_realm = format!("realm=\"{realm}\"");
        let ours = challenges.iter().find(|value| value.contains(&of_realm));
        let ours = Challenge::parse(ours.expect("a challenge").as_bytes()).expect("a sound one");
        let given = ours.authorize(&ALICE, "INVITE", "sip:dave@192.0.2.77", 1, "cnonce");
        let mut proved = next(&hidden);
        proved.push_back(Name::ProxyAuthorization, given.to_string());
        bench.receive(phone(), proved);
        bench.two()[1].is(Method::Invite, "sip:dave@192.0.2.77");
    }
}

#[test]
fn requests_within_dialogs_are_challenged_only_where_that_is_wanted() {
    let within = |method: Method, route: &str| {
        let branch = format!("z9hG4bK{method}{}", route.len());
        let mut within = request(method, "sip:192.0.2.77", "call1");
        within.set_top_via_parameter("branch", Some(&branch));
        within.replace(Name::To, "<sip:dave@192.0.2.77>;tag=2");
        within.with(Name::Route, route)
    };
    for in_dialogs in [false, true] {
        let mut bench = bench_with(|policy| policy.in_dialogs = in_dialogs);
        let invite = request(Method::Invite, "sip:dave@192.0.2.77", "call1");
        with_challenge(&mut bench, &invite, &ALICE);
        let [_, forwarded] = bench.two();
        let ok = response(&forwarded.message, 200, "2").with(Name::Contact, "<sip:192.0.2.77>");
        bench.receive(flow("udp:192.0.2.1:5060", "192.0.2.77:5060"), ok);
        let route = bench.one().value(Name::RecordRoute);
        let bye = within(Method::Bye, &route);
        match in_dialogs {
            true => drop(with_challenge(&mut bench, &bye, &ALICE)),
            false => bench.receive(phone(), bye),
        }
        bench.one().is(Method::Bye, "sip:192.0.2.77");
        // ACK and CANCEL cannot be repeated.
        bench.receive(phone(), within(Method::Ack, &route));
        bench.one().is(Method::Ack, "sip:192.0.2.77");
        // What only looks like a request within a dialog is none.
        let forged = "<sip:192.0.2.1:5060;lr>";
        bench.receive(phone(), within(Method::Bye, forged));
        bench.one().answers(407);
        bench.receive(phone(), within(Method::Ack, forged));
        bench.silence();
    }
}

#[test]
fn who_is_exempt_is_not_asked() {
    let mut bench = bench_with(|policy| {
        policy.exempt = vec!["192.0.2.0/28".parse().expect("a network")];
    });
    bench.receive(phone(), register("bob", 1, &["<sip:bob@192.0.2.9:5060>"]));
    bench.one().answers(200);
    bench.receive(phone(), invite("call1"));
    bench.two()[1].is(Method::Invite, "sip:bob@192.0.2.9:5060");
    let elsewhere = flow("udp:192.0.2.1:5060", "192.0.2.16:5060");
    bench.receive(elsewhere, invite("call2"));
    bench.one().answers(407);
}

#[test]
fn a_call_that_is_cancelled_while_its_password_is_looked_up_ends() {
    let mut bench = bench();
    register_bob(&mut bench);
    bench.holds_questions = true;
    let request = invite("call1");
    let sent = with_challenge(&mut bench, &request, &ALICE);
    let (id, _) = bench.questions.pop_front().expect("a question");
    bench.receive(phone(), sip::user_agent::cancel_of(&sent));
    let [ok, terminated] = bench.two();
    ok.answers(200);
    terminated.answers(487);
    bench.answer(id, Answer::Credentials(None));
    bench.silence();
    assert_eq!(bench.proxy.statistics().held_octets, 0);
}

#[test]
fn an_invite_without_state_is_challenged_too() {
    let mut bench = Bench::with(&["udp:192.0.2.1:5060"], &["example.com"], |config| {
        let mut policy = Policy::default();
        policy.authentication.calls = true;
        policy.forwarding.mode = proxy::core::Mode::Stateless;
        config.policy = Arc::new(policy);
    });
    bench
        .passwords
        .insert("alice".to_owned(), "secret of alice".to_owned());
    let request = request(Method::Invite, "sip:dave@192.0.2.77", "call1");
    with_challenge(&mut bench, &request, &ALICE);
    let forwarded = bench.sent().pop().expect("a request");
    forwarded.is(Method::Invite, "sip:dave@192.0.2.77");
    assert!(forwarded.values(Name::ProxyAuthorization).is_empty());
}

#[test]
fn a_nonce_under_other_keys_is_none_of_ours() {
    let mut one = bench();
    let request = register("bob", 1, &[]);
    one.receive(phone(), request.clone());
    let challenge = one.one();
    let sent = answered(&request, &challenge, &BOB);
    // Another with the same keys.
    let mut other = Bench::with(&["udp:192.0.2.1:5060"], &["example.com"], |config| {
        config.policy = Arc::new(Policy {
            authentication: AuthenticationPolicy {
                register: true,
                ..AuthenticationPolicy::default()
            },
            ..Policy::default()
        });
        config.keys = Some(proxy::core::Keys::from_bytes([1; 32]));
    });
    other.receive(phone(), sent);
    let foreign = other.one();
    assert!(
        !foreign
            .answers(401)
            .value(Name::WwwAuthenticate)
            .contains("stale")
    );
}

/// One parameter of credentials that are nearly right; `NONCE` stands for that of the challenge.
fn parameter() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("username=\"bob\"".to_owned()),
        Just("realm=\"example.com\"".to_owned()),
        Just("nonce=\"NONCE\"".to_owned()),
        Just("uri=\"sip:example.com\"".to_owned()),
        Just("qop=auth".to_owned()),
        Just("cnonce=\"c\"".to_owned()),
        Just("userhash=true".to_owned()),
        Just("opaque=\"\"".to_owned()),
        "nc=[0-9a-f]{1,9}",
        "algorithm=(MD5|SHA-256|SHA-512-256|MD5-sess|x)",
        "response=\"([0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{0,4})\"",
        "[a-z*]{1,8}=\"?[ -~]{0,8}\"?",
    ]
}

proptest! {
    #[test]
    fn nothing_but_the_password_lets_anybody_in(
        parameters in proptest::collection::vec(parameter(), 0..16),
        octets in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bench = bench_with(|policy| policy.allow_without_qop = true);
        bench.receive(phone(), register("bob", 1, &["<sip:bob@192.0.2.9>"]));
        let value = bench.one().value(Name::WwwAuthenticate);
        let challenge = Challenge::parse(value.as_bytes()).expect("a challenge");
        let credentials = format!("Digest {}", parameters.join(", "));
        let credentials = credentials.replace("NONCE", &challenge.nonce);
        let request = register("bob", 2, &["<sip:bob@192.0.2.9>"])
            .with(Name::Authorization, credentials)
            .with(Name::Authorization, octets);
        bench.receive(phone(), request);
        let status = bench.one().status();
        prop_assert!(matches!(status, 400 | 401 | 403), "{}", status);
        prop_assert_eq!(bench.proxy.statistics().registrations, 0);
    }
}
