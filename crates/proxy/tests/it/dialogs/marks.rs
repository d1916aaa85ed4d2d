//! The mark in our Record-Route URIs opens the way for the two sides of a dialog, to each other, and for nothing else.

use std::sync::Arc;
use std::time::Duration;

use proxy::core::{Mode, Policy};
use sip::digest::Account;
use sip::{Flow, Message, Method, Name};

use crate::common::{Bench, Sent, flow, request, response};
use crate::dialogs::{TCP, UDP, within};

/// Bob is our user, Mallory nobody.
const BOB: &str = "sip:bob@192.0.2.20";
const MALLORY: &str = "sip:mallory@203.0.113.7";
/// Somebody who has not asked for anything; or a gateway that believes us.
const VICTIM: &str = "sip:+15551234@198.51.100.9";

/// All that may be sent within a dialog.
const METHODS: [Method; 9] = [
    Method::Invite,
    Method::Ack,
    Method::Update,
    Method::Prack,
    Method::Info,
    Method::Refer,
    Method::Notify,
    Method::Message,
    Method::Bye,
];

fn bob() -> Flow {
    flow(UDP, "192.0.2.20:5060")
}

fn mallory() -> Flow {
    flow(UDP, "203.0.113.7:5060")
}

fn elsewhere() -> Flow {
    flow(UDP, "203.0.113.99:5060")
}

fn with(change: impl FnOnce(&mut Policy)) -> Bench {
    let mut policy = Policy::default();
    change(&mut policy);
    let mut bench = Bench::with(&[UDP, TCP], &["example.com"], |config| {
        config.policy = Arc::new(policy);
    });
    for user in ["alice", "bob"] {
        bench.passwords.insert(user.to_owned(), "secret".to_owned());
    }
    bench.register(bob(), "bob", &format!("<{BOB}>"));
    bench
}

/// Where calls are authenticated, and where they are not; with state and without.
fn benches() -> impl Iterator<Item = Bench> {
    [false, true].into_iter().flat_map(|calls| {
        [Mode::Stateful, Mode::Stateless].map(|mode| {
            with(|policy| {
                policy.authentication.calls = calls;
                policy.forwarding.mode = mode;
            })
        })
    })
}

/// A call that is under way.
struct Call {
    /// The INVITE as the callee has got it.
    forwarded: Sent,
    /// The response that the caller has had last.
    answer: Sent,
    /// Where both are.
    caller: (Flow, &'static str),
    callee: (Flow, &'static str),
    /// How many requests there were.
    number: u32,
}

impl Call {
    /// Mallory calls Bob, whose phone answers with this.
    fn of_mallory(bench: &mut Bench, status: u16) -> Call {
        let mut invite = request(Method::Invite, "sip:bob@example.com", "call");
        invite.replace(Name::From, "<sip:mallory@example.net>;tag=m1");
        invite.replace(Name::Contact, format!("<{MALLORY}>"));
        bench.receive(mallory(), invite);
        Call::answered(bench, status, (mallory(), MALLORY), (bob(), BOB))
    }

    /// Bob calls Mallory.
    fn of_bob(bench: &mut Bench) -> Call {
        let mut invite = request(Method::Invite, "sip:mallory@203.0.113.7", "call");
        invite.replace(Name::From, "<sip:bob@example.com>;tag=b1");
        invite.replace(Name::Contact, format!("<{BOB}>"));
        bench.receive(bob(), invite.clone());
        let sent = bench.sent();
        if let [challenge] = &sent[..]
            && challenge.message.status() == Some(407)
        {
            let challenge = challenge.clone();
            prove(bench, &invite, &challenge, "bob");
        } else {
            return Call::of(bench, sent, 200, (bob(), BOB), (mallory(), MALLORY));
        }
        Call::answered(bench, 200, (bob(), BOB), (mallory(), MALLORY))
    }

    fn answered(
        bench: &mut Bench,
        status: u16,
        caller: (Flow, &'static str),
        callee: (Flow, &'static str),
    ) -> Call {
        let sent = bench.sent();
        Call::of(bench, sent, status, caller, callee)
    }

    fn of(
        bench: &mut Bench,
        sent: Vec<Sent>,
        status: u16,
        caller: (Flow, &'static str),
        callee: (Flow, &'static str),
    ) -> Call {
        let is_request = |sent: &Sent| sent.message.is_request();
        let forwarded = sent.into_iter().find(is_request).expect("an INVITE");
        let mut call = Call {
            answer: forwarded.clone(),
            forwarded,
            caller,
            callee,
            number: 1,
        };
        call.answer(bench, status);
        call
    }

    /// The callee sends another response.
    fn answer(&mut self, bench: &mut Bench, status: u16) {
        let answer = response(&self.forwarded.message, status, "callee")
            .with(Name::Contact, format!("<{}>", self.callee.1));
        bench.receive(self.callee.0, answer);
        let sent = bench.sent();
        let is_answer = |sent: &Sent| sent.message.status() == Some(status);
        self.answer = sent.into_iter().find(is_answer).expect("the response");
    }

    /// A request of the callee, or of the caller, for the other, with which nothing is wrong.
    fn request(&mut self, method: &Method, is_callee: bool) -> Message {
        let (this, other) = match is_callee {
            true => (self.callee, self.caller),
            false => (self.caller, self.callee),
        };
        let mut request = within(&self.forwarded, &self.answer, method, other.1, is_callee);
        self.number += 1;
        request.replace(Name::CSeq, format!("{} {method}", self.number));
        let via = format!(
            "SIP/2.0/UDP {};branch=z9hG4bKwithin{}",
            this.0.remote, self.number
        );
        request.replace(Name::Via, via);
        if sip::dialog::refreshes_target(method) {
            request.push_back(Name::Contact, format!("<{}>", this.1));
        }
        request
    }

    fn flow(&self, is_callee: bool) -> Flow {
        match is_callee {
            true => self.callee.0,
            false => self.caller.0,
        }
    }

    /// Fails unless a request of either side is brought to the other.
    #[track_caller]
    fn goes_on(&mut self, bench: &mut Bench, method: &Method, is_callee: bool) {
        let request = self.request(method, is_callee);
        assert_eq!(
            sent_on(bench, self.flow(is_callee), request),
            Ok(()),
            "{method} {is_callee}"
        );
    }
}

/// Sends a request again with the answer to a challenge.
fn prove(bench: &mut Bench, request: &Message, challenge: &Sent, username: &str) {
    let mut again = request.clone();
    let (number, method) = request.cseq().expect("a CSeq");
    again.replace(Name::CSeq, format!("{} {method}", number + 1));
    again.set_top_via_parameter("branch", Some("z9hG4bKproof"));
    let account = Account {
        username,
        password: b"secret",
    };
    assert!(sip::digest::answer(
        &mut again,
        &challenge.message,
        &account,
        "cnonce"
    ));
    bench.receive(bob(), again);
}

/// Whether a request goes on, or the status that it is refused with; 0 if it is dropped.
fn sent_on(bench: &mut Bench, from: Flow, request: Message) -> Result<(), u16> {
    bench.receive(from, request);
    let sent = bench.sent();
    match sent.iter().any(|sent| sent.message.is_request()) {
        true => Ok(()),
        false => Err(sent.last().map_or(0, Sent::status)),
    }
}

/// The routes, From and so on of a call stay, but it is for somebody else.
fn diverted(mut request: Message, uri: &str) -> Message {
    request.set_request_uri(uri);
    request
}

#[test]
fn a_stranger_and_our_user_say_within_their_dialog_what_they_like_whoever_called() {
    for mut bench in benches() {
        let mut call = Call::of_mallory(&mut bench, 200);
        for method in &METHODS {
            call.goes_on(&mut bench, method, false);
            call.goes_on(&mut bench, method, true);
        }
    }
    for mut bench in benches() {
        let mut call = Call::of_bob(&mut bench);
        for method in &METHODS {
            call.goes_on(&mut bench, method, true);
            call.goes_on(&mut bench, method, false);
        }
    }
}

/// Whoever has had a response to a call, be it an early one, can send nothing to anybody but the other side.
#[test]
fn a_mark_leads_a_stranger_to_the_other_side_and_nowhere_else() {
    for status in [180, 200] {
        for mut bench in benches() {
            let mut call = Call::of_mallory(&mut bench, status);
            for method in &METHODS {
                let refused = if *method == Method::Ack { 0 } else { 403 };
                for uri in [
                    VICTIM,
                    "sip:bob@198.51.100.9",
                    "sip:bob@192.0.2.20:5061",
                    "sip:bob@192.0.2.20;maddr=198.51.100.9",
                    "sip:+15551234@192.0.2.20",
                ] {
                    let request = diverted(call.request(method, false), uri);
                    let result = sent_on(&mut bench, mallory(), request);
                    assert_eq!(result, Err(refused), "{method} {uri}");
                }
                // By way of somebody else.
                let mut request = call.request(method, false);
                request.push_back(Name::Route, "<sip:198.51.100.9;lr>");
                assert_eq!(
                    sent_on(&mut bench, mallory(), request),
                    Err(refused),
                    "{method}"
                );
                // In another dialog, from elsewhere or not.
                for (name, value) in [
                    (Name::From, "<sip:mallory@example.net>;tag=other"),
                    (Name::To, "<sip:bob@example.com>;tag=other"),
                    (Name::CallId, "other"),
                ] {
                    for from in [mallory(), elsewhere()] {
                        let mut request = call.request(method, false);
                        request.replace(name, value);
                        let result = sent_on(&mut bench, from, request);
                        assert_eq!(result, Err(refused), "{method} {value}");
                    }
                }
            }
            assert!(bench.proxy.statistics().relays_denied > 0);
        }
    }
}

/// The route set is one of its side: the caller never comes to see the mark of the callee.
#[test]
fn neither_side_can_use_the_mark_of_the_other() {
    for mut bench in benches() {
        let mut call = Call::of_mallory(&mut bench, 200);
        let of_callee = call.forwarded.value(Name::RecordRoute);
        for status in [183, 200, 302, 404, 486, 600] {
            let mut bench = with(|_| {});
            let call = Call::of_mallory(&mut bench, status);
            let seen = call.answer.value(Name::RecordRoute);
            assert_ne!(seen, call.forwarded.value(Name::RecordRoute), "{status}");
            assert_eq!(seen.len(), of_callee.len());
        }
        // As if he had been called.
        let mut request = call.request(&Method::Invite, true);
        request.replace(Name::Route, &of_callee);
        request.set_request_uri(BOB);
        request.replace(Name::From, "<sip:mallory@example.net>;tag=m1");
        request.replace(Name::To, "<sip:bob@example.com>;tag=callee");
        assert_eq!(sent_on(&mut bench, mallory(), request), Err(403));
        let mut request = call.request(&Method::Invite, true);
        request.replace(Name::Route, call.answer.value(Name::RecordRoute));
        request.replace(Name::From, "<sip:mallory@example.net>;tag=callee");
        assert_eq!(sent_on(&mut bench, mallory(), request), Err(403));
    }
}

/// Nor where the callee answers as somebody else, or with another From: its mark is good for whoever restores these.
#[test]
fn the_mark_of_a_callee_who_changes_the_dialog_is_not_shown() {
    for mut bench in benches() {
        for (number, (name, value)) in [
            (Name::To, "<sip:robert@example.com>;tag=callee"),
            (Name::To, "<sip:bob@example.net>;tag=callee"),
            (Name::From, "<sip:mallory@example.net>;tag=M1"),
            (
                Name::RecordRoute,
                "<sip:192.0.2.1:5060;lr;call=MARK>, <sip:203.0.113.2;lr>",
            ),
        ]
        .into_iter()
        .enumerate()
        {
            let mut invite = request(Method::Invite, "sip:bob@example.com", &format!("c{number}"));
            invite.replace(Name::From, "<sip:mallory@example.net>;tag=m1");
            invite.replace(Name::Contact, format!("<{VICTIM}>"));
            bench.receive(mallory(), invite);
            let sent = bench.sent();
            let is_request = |sent: &&Sent| sent.message.is_request();
            let forwarded = sent.iter().find(is_request).expect("an INVITE");
            let route = forwarded.value(Name::RecordRoute);
            let (_, mark) = route.split_once(";call=").expect("a mark");
            let mark = mark.trim_end_matches('>').to_owned();
            for status in [183, 200] {
                let mut answer = response(&forwarded.message, status, "callee")
                    .with(Name::Contact, format!("<{BOB}>"));
                answer.replace(name, value.replace("MARK", &mark));
                bench.receive(bob(), answer);
                for sent in bench.sent() {
                    let seen = sent.values(Name::RecordRoute);
                    let is_shown = |value: &String| value.contains(&mark);
                    assert!(!seen.iter().any(is_shown), "{value} {status}");
                }
            }
        }
    }
}

/// Some phones put their Contact into To. The caller goes on all the same.
#[test]
fn a_callee_who_changes_to_ends_no_dialog() {
    let mut bench = with(|_| {});
    let mut call = Call::of_mallory(&mut bench, 183);
    let mut answer =
        response(&call.forwarded.message, 200, "callee").with(Name::Contact, format!("<{BOB}>"));
    answer.replace(Name::To, format!("<{BOB}>;tag=callee"));
    bench.receive(bob(), answer);
    call.answer = bench.one();
    for method in &METHODS {
        call.goes_on(&mut bench, method, false);
    }
}

/// PRACK (RFC 3262), UPDATE (RFC 3311), INFO, and what else there is while it rings.
#[test]
fn an_early_dialog_is_one_until_the_call_fails() {
    for calls in [false, true] {
        for (status, goes_on) in [(486, false), (200, true)] {
            let mut bench = with(|policy| policy.authentication.calls = calls);
            let mut call = Call::of_mallory(&mut bench, 183);
            let of_early = call.answer.clone();
            for method in [Method::Prack, Method::Update, Method::Info, Method::Bye] {
                call.goes_on(&mut bench, &method, false);
                call.goes_on(&mut bench, &method, true);
            }
            // It may ring for long.
            for _ in 0..30 {
                bench.pass(Duration::from_secs(60));
                bench.sent();
                call.answer(&mut bench, 180);
            }
            call.answer = of_early.clone();
            call.goes_on(&mut bench, &Method::Prack, false);
            call.answer(&mut bench, status);
            bench.sent();
            // What crosses the answer arrives; a call that has failed is over.
            call.answer = of_early.clone();
            for method in [Method::Prack, Method::Update] {
                let request = call.request(&method, false);
                let result = sent_on(&mut bench, mallory(), request);
                assert_eq!(result.is_ok(), goes_on, "{method} {status}");
            }
            bench.pass(Duration::from_secs(60));
            bench.sent();
            let late = call.request(&Method::Prack, false);
            assert_eq!(sent_on(&mut bench, mallory(), late), Err(403));
        }
    }
}

/// Without state nobody knows how the call has gone on.
#[test]
fn an_early_dialog_that_nobody_remembers_is_short() {
    let mut bench = with(|policy| policy.forwarding.mode = Mode::Stateless);
    let began = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    bench.proxy.set_wall_clock(bench.now, began);
    let mut call = Call::of_mallory(&mut bench, 183);
    for (minutes, goes_on) in [(0, true), (9, true), (12, false), (100, false)] {
        let time = began + Duration::from_secs(60 * minutes);
        bench.proxy.set_wall_clock(bench.now, time);
        let prack = call.request(&Method::Prack, false);
        let result = sent_on(&mut bench, mallory(), prack);
        assert_eq!(result.is_ok(), goes_on, "{minutes}");
    }
}

/// RFC 3261 section 12.2: by a re-INVITE or an UPDATE, by either side, in the request and in the response.
#[test]
fn a_user_agent_that_moves_is_reached_where_it_says() {
    const MOVED: [&str; 2] = ["sip:mallory@203.0.113.8:5070", "sip:bob@192.0.2.21"];
    for method in [Method::Invite, Method::Update] {
        for is_callee in [false, true] {
            for mut bench in benches() {
                let mut call = Call::of_mallory(&mut bench, 200);
                let [at, other_at] = match is_callee {
                    true => [MOVED[1], MOVED[0]],
                    false => MOVED,
                };
                let mut refresh = call.request(&method, is_callee);
                refresh.replace(Name::Contact, format!("<{at}>"));
                bench.receive(call.flow(is_callee), refresh);
                let sent = bench.sent();
                let is_request = |sent: &&Sent| sent.message.is_request();
                let forwarded = sent.iter().find(is_request).expect("a request");
                let ok = response(&forwarded.message, 200, "")
                    .with(Name::Contact, format!("<{other_at}>"));
                bench.receive(call.flow(!is_callee), ok);
                bench.sent();
                for (is_callee, at, own) in [(!is_callee, at, other_at), (is_callee, other_at, at)]
                {
                    for method in &METHODS {
                        let mut request = diverted(call.request(method, is_callee), at);
                        if request.contains(Name::Contact) {
                            request.replace(Name::Contact, format!("<{own}>"));
                        }
                        let from = call.flow(is_callee);
                        assert_eq!(sent_on(&mut bench, from, request), Ok(()), "{method}");
                    }
                }
                let request = diverted(call.request(&Method::Info, false), VICTIM);
                assert_eq!(sent_on(&mut bench, mallory(), request), Err(403));
            }
        }
    }
}

/// The one whom the call was let in for may go on without a challenge, and nobody else under his name.
#[test]
fn who_is_another_user_in_a_dialog_is_challenged() {
    // Bob is called by Mallory, or calls him.
    for is_caller in [false, true] {
        for mode in [Mode::Stateful, Mode::Stateless] {
            let mut bench = with(|policy| {
                policy.authentication.calls = true;
                policy.forwarding.mode = mode;
            });
            let mut call = match is_caller {
                true => Call::of_mallory(&mut bench, 200),
                false => Call::of_bob(&mut bench),
            };
            let tag = if is_caller { "m1" } else { "callee" };
            for ours in ["alice@example.com", "bob@example.com:9", "alice@192.0.2.1"] {
                for method in [Method::Invite, Method::Message, Method::Bye] {
                    let mut request = call.request(&method, !is_caller);
                    request.replace(Name::From, format!("<sip:{ours}>;tag={tag}"));
                    let result = sent_on(&mut bench, mallory(), request);
                    assert_eq!(result, Err(407), "{ours} {method}");
                }
            }
            // Strangers call themselves what they like (RFC 4916).
            let mut request = call.request(&Method::Update, !is_caller);
            request.replace(Name::From, format!("<sip:eve@example.net>;tag={tag}"));
            assert_eq!(sent_on(&mut bench, mallory(), request), Ok(()));
            // Bob has proved who he is, but is not Alice.
            let mut request = call.request(&Method::Info, is_caller);
            let tag = if is_caller { "callee" } else { "b1" };
            request.replace(Name::From, format!("<sip:alice@example.com>;tag={tag}"));
            assert_eq!(sent_on(&mut bench, bob(), request), Err(407));
        }
    }
}

/// What others have put into Record-Route, on either side, is part of what leads the dialog's requests.
#[test]
fn the_next_proxy_of_the_route_set_is_bound_too() {
    for mut bench in benches() {
        let mut invite = request(Method::Invite, "sip:bob@example.com", "call");
        invite.replace(Name::From, "<sip:mallory@example.net>;tag=m1");
        invite.replace(Name::Contact, format!("<{MALLORY}>"));
        invite.push_back(
            Name::RecordRoute,
            "<sip:203.0.113.1;lr>, <sip:203.0.113.2;lr>",
        );
        invite.push_back(Name::Via, "SIP/2.0/UDP 203.0.113.7;branch=z9hG4bKuac");
        bench.receive(mallory(), invite);
        let sent = bench.sent();
        let mut forwarded = sent
            .into_iter()
            .find(|sent| sent.message.is_request())
            .expect("an INVITE");
        // Bob has a proxy of his own.
        forwarded
            .message
            .push_front(Name::RecordRoute, "<sip:token@192.0.2.99;lr>");
        let mut call = Call {
            answer: forwarded.clone(),
            forwarded,
            caller: (mallory(), MALLORY),
            callee: (bob(), BOB),
            number: 1,
        };
        call.answer(&mut bench, 200);
        assert_eq!(call.answer.values(Name::RecordRoute).len(), 4);
        for is_callee in [false, true] {
            for method in &METHODS {
                // The proxy between has taken its own off.
                let mut request = call.request(method, is_callee);
                for _ in 0..if is_callee { 1 } else { 2 } {
                    assert!(request.remove_first_value(Name::Route));
                }
                let from = call.flow(is_callee);
                let result = sent_on(&mut bench, from, request.clone());
                assert_eq!(result, Ok(()), "{method} {is_callee}");
                if is_callee {
                    continue;
                }
                let refused = if *method == Method::Ack { 0 } else { 403 };
                let ours = request.header(Name::Route).expect("a Route").to_owned();
                for next in [
                    None,
                    Some("<sip:198.51.100.9;lr>"),
                    Some("<sip:other@192.0.2.99;lr>"),
                ] {
                    let mut diverted = call.request(method, is_callee);
                    diverted.replace(Name::Route, &ours);
                    if let Some(next) = next {
                        diverted.push_back(Name::Route, next);
                    }
                    let result = sent_on(&mut bench, from, diverted);
                    assert_eq!(result, Err(refused), "{method} {next:?}");
                }
            }
        }
    }
}

/// A flow token is good for whoever has it; with the mark of another dialog it opens no way.
#[test]
fn the_flow_of_a_mark_is_no_other_one() {
    const CAROL: &str = "sip:carol@10.0.0.1";
    let carol = flow(UDP, "198.51.100.2:30002");
    let mut bench = with(|_| {});
    bench.register(carol, "carol", &format!("<{CAROL}>"));
    // A gateway that can be reached along its connection alone has called Bob.
    let mut other = request(Method::Invite, "sip:bob@example.com", "other");
    other.replace(Name::Contact, "<sip:gateway@10.0.0.9;transport=tcp>");
    other.replace(Name::From, "<sip:gateway@example.net>;tag=g1");
    other.replace(Name::Via, "SIP/2.0/TCP 10.0.0.9;branch=z9hG4bKgateway");
    bench.receive(flow(TCP, "198.51.100.9:40000"), other);
    let sent = bench.sent();
    let is_request = |sent: &&Sent| sent.message.is_request();
    let forwarded = sent.iter().find(is_request).expect("an INVITE");
    let token_of = |route: &str| {
        let (token, _) = route.strip_prefix("<sip:")?.split_once('@')?;
        Some(token.to_owned())
    };
    let values = forwarded.values(Name::RecordRoute);
    let other = values.iter().find_map(|route| token_of(route));
    let other = other.expect("a flow token");

    let mut invite = request(Method::Invite, "sip:carol@example.com", "call");
    invite.replace(Name::From, "<sip:mallory@example.net>;tag=m1");
    invite.replace(Name::Contact, format!("<{MALLORY}>"));
    bench.receive(mallory(), invite);
    let mut call = Call::answered(&mut bench, 200, (mallory(), MALLORY), (carol, CAROL));
    call.goes_on(&mut bench, &Method::Info, false);
    call.goes_on(&mut bench, &Method::Info, true);
    let mut request = call.request(&Method::Info, false);
    let routes = crate::common::values(&request, Name::Route);
    let own = routes.iter().find_map(|route| token_of(route));
    let own = own.expect("a flow token");
    request.remove_all(Name::Route);
    for route in routes {
        request.push_back(Name::Route, route.replace(&own, &other));
    }
    assert_eq!(sent_on(&mut bench, mallory(), request), Err(403));
}

/// The flow that a response goes back along is in Record-Route, too, for whoever has none of his own; only what answers a
/// request that was passed on without state gets the marks of the caller.
#[test]
fn a_response_that_answers_nothing_gets_no_mark() {
    for mut bench in benches() {
        // Mallory has got a token of his own flow by a call, and the mark of a callee by another one.
        let mut invite = request(Method::Invite, "sip:bob@example.com", "token");
        invite.replace(Name::From, "<sip:mallory@example.net>;tag=m1");
        invite.replace(Name::Contact, "<sip:mallory@10.0.0.7>");
        bench.receive(mallory(), invite);
        let call = Call::answered(&mut bench, 200, (mallory(), MALLORY), (bob(), BOB));
        let routes = call.answer.values(Name::RecordRoute);
        let token = routes.iter().find_map(|route| {
            let (token, _) = route.strip_prefix("<sip:")?.split_once('@')?;
            Some(token.to_owned())
        });
        let token = token.expect("a flow token");
        let call = Call::of_bob(&mut bench);
        // That of a request which was passed on without state is for its own From alone.
        let own_way = call.forwarded.message.header(Name::Via);
        let own_way = own_way
            .filter(|via| via.contains(";flow="))
            .map(str::to_owned);
        let forged = format!("SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bKforged;flow={token}");
        for via in [Some(forged), own_way].into_iter().flatten() {
            for status in [183, 200] {
                let mut answer = response(&call.forwarded.message, status, "callee")
                    .with(Name::Contact, format!("<{VICTIM}>"));
                answer.replace(Name::From, "<sip:alice@example.com>;tag=b1");
                answer.remove_all(Name::Via);
                answer.push_back(Name::Via, &via);
                answer.push_back(Name::Via, "SIP/2.0/UDP 203.0.113.7;branch=z9hG4bKown");
                bench.receive(mallory(), answer);
                let sent = bench.sent();
                assert!(sent.is_empty(), "{via}");
            }
        }
    }
}

/// A response to a re-INVITE says where its sender is, and nothing of other sides of the dialog.
#[test]
fn a_response_with_the_tags_of_the_other_side_moves_nobody() {
    for mut bench in benches() {
        let mut call = Call::of_bob(&mut bench);
        for method in [Method::Invite, Method::Update] {
            let refresh = call.request(&method, false);
            bench.receive(bob(), refresh);
            let sent = bench.sent();
            let is_request = |sent: &&Sent| sent.message.is_request();
            let forwarded = sent.iter().find(is_request).expect("a request");
            let mut ok =
                response(&forwarded.message, 200, "").with(Name::Contact, format!("<{VICTIM}>"));
            ok.replace(Name::From, "<sip:mallory@203.0.113.7>;tag=callee");
            ok.replace(Name::To, "<sip:bob@example.com>;tag=b1");
            bench.receive(mallory(), ok);
            bench.sent();
            let request = diverted(call.request(&Method::Info, true), VICTIM);
            assert_eq!(sent_on(&mut bench, mallory(), request), Err(403));
        }
    }
}
