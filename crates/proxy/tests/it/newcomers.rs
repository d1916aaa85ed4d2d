//! Phones that register while their user is being called (RFC 3261 section 16.5).

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Bench, Sent, flow, register, request, response};
use proxy::core::{Answer, Forking, ForwardingPolicy, Policy, Query};
use sip::{Flow, Method, Name};

const HERE: &str = "udp:192.0.2.1:5060";
const BOB: &str = "sip:bob@example.com";
const INTERVAL: Duration = Duration::from_secs(2);

fn alice() -> Flow {
    flow(HERE, "192.0.2.9:5060")
}

/// A phone, by its number.
fn phone(number: u16) -> Flow {
    flow(HERE, &format!("192.0.2.{}:5060", 20 + number))
}

fn bench(change: impl FnOnce(&mut ForwardingPolicy)) -> Bench {
    let mut forwarding = ForwardingPolicy::default();
    change(&mut forwarding);
    let policy = Arc::new(Policy {
        forwarding,
        ..Policy::default()
    });
    Bench::with(&[HERE], &["example.com"], |config| config.policy = policy)
}

/// A phone registers, with these parameters of its contact.
fn comes(bench: &mut Bench, number: u16, parameters: &str) {
    let contact = format!("<sip:bob@192.0.2.{}>{parameters}", 20 + number);
    bench.receive(
        phone(number),
        register("bob", u32::from(number) + 1, &[&contact]),
    );
    bench.one().answers(200);
}

fn call(bench: &mut Bench) -> Vec<Sent> {
    bench.receive(alice(), request(Method::Invite, BOB, "call"));
    let mut sent = bench.sent();
    sent.remove(0).answers(100);
    sent
}

/// A phone answers; returns what is sent but for the ACK.
fn answers(bench: &mut Bench, number: u16, invite: &Sent, status: u16) -> Vec<Sent> {
    let tag = format!("b{number}");
    bench.receive(phone(number), response(&invite.message, status, &tag));
    let mut sent = bench.sent();
    sent.retain(|sent| sent.message.method() != Some(&Method::Ack));
    sent
}

/// A phone rings.
fn rings(bench: &mut Bench, number: u16, invite: &Sent) {
    answers(bench, number, invite, 180)[0].answers(180);
}

fn uri(number: u16) -> String {
    format!("sip:bob@192.0.2.{}", 20 + number)
}

/// Timer C ends what rings.
fn ends(mut bench: Bench) {
    bench.pass(Duration::from_secs(400));
    bench.sent();
    bench.assert_idle();
}

#[test]
fn a_phone_that_registers_during_a_call_rings_too() {
    let mut bench = bench(|_| {});
    comes(&mut bench, 0, "");
    let first = call(&mut bench);
    // A part of the breadth is for those who come.
    assert_eq!(first[0].value(Name::MaxBreadth), "52");
    rings(&mut bench, 0, &first[0]);
    bench.pass(INTERVAL / 2);
    comes(&mut bench, 1, "");
    bench.silence();
    bench.pass(INTERVAL / 2);
    let second = bench.one();
    second.is(Method::Invite, &uri(1)).goes_along(phone(1));
    assert_eq!(second.value(Name::MaxBreadth), "4");
    rings(&mut bench, 1, &second);
    assert_eq!(bench.proxy.statistics().targets_added, 1);

    // It is called once, and so is another, that comes much later.
    bench.pass(15 * INTERVAL);
    bench.silence();
    comes(&mut bench, 2, "");
    bench.pass(INTERVAL);
    bench.one().is(Method::Invite, &uri(2));

    let sent = answers(&mut bench, 1, &second, 200);
    sent[0].answers(200);
    sent[1].is(Method::Cancel, &uri(0));
    comes(&mut bench, 3, "");
    bench.pass(2 * INTERVAL);
    let invites = bench.sent();
    // Nobody has answered for the third, which is sent again; nobody new is called.
    assert!(
        invites
            .iter()
            .all(|sent| sent.message.request_uri() != Some(&uri(3)))
    );
    ends(bench);
}

#[test]
fn nobody_is_looked_for_where_that_is_not_wanted() {
    let mut bench = bench(|policy| policy.look_again = None);
    comes(&mut bench, 0, "");
    let first = call(&mut bench);
    assert_eq!(first[0].value(Name::MaxBreadth), "60");
    rings(&mut bench, 0, &first[0]);
    comes(&mut bench, 1, "");
    bench.pass(10 * INTERVAL);
    bench.silence();
    answers(&mut bench, 0, &first[0], 486)[0].answers(486);
    ends(bench);
}

/// A request other than INVITE ends within seconds.
#[test]
fn nobody_is_looked_for_to_deliver_a_message() {
    let mut bench = bench(|_| {});
    comes(&mut bench, 0, "");
    bench.receive(alice(), request(Method::Message, BOB, "message"));
    assert_eq!(bench.one().value(Name::MaxBreadth), "60");
    comes(&mut bench, 1, "");
    bench.pass(Duration::from_secs(20));
    let mut sent = bench.sent();
    sent.retain(|sent| sent.message.is_request());
    assert!(sent.len() > 5);
    for again in sent {
        again.is(Method::Message, &uri(0));
    }
    ends(bench);
}

#[test]
fn whoever_is_less_preferred_waits_for_its_turn() {
    let mut bench = bench(|policy| policy.ring_time = Some(Duration::from_secs(20)));
    comes(&mut bench, 0, ";q=0.9");
    comes(&mut bench, 1, ";q=0.1");
    let first = call(&mut bench);
    rings(&mut bench, 0, &first[0]);
    // Between the two, with the second, and after it.
    comes(&mut bench, 2, ";q=0.5");
    comes(&mut bench, 3, ";q=0.1");
    comes(&mut bench, 4, ";q=0");
    bench.pass(INTERVAL);
    bench.silence();
    let next = answers(&mut bench, 0, &first[0], 486);
    assert_eq!(next.len(), 1);
    next[0].is(Method::Invite, &uri(2));
    let equals = answers(&mut bench, 2, &next[0], 486);
    assert_eq!(equals.len(), 2);
    equals[0].is(Method::Invite, &uri(1));
    equals[1].is(Method::Invite, &uri(3));
    rings(&mut bench, 3, &equals[1]);
    assert!(answers(&mut bench, 1, &equals[0], 486).is_empty());
    // A more preferred one does not wait.
    comes(&mut bench, 5, ";q=0.2");
    bench.pass(INTERVAL);
    bench.one().is(Method::Invite, &uri(5));
    ends(bench);
}

/// One that has rung with nobody behind it may ring for so long from then on.
#[test]
fn a_phone_rings_for_a_while_when_another_comes() {
    let mut bench = bench(|policy| policy.ring_time = Some(Duration::from_secs(20)));
    comes(&mut bench, 0, ";q=0.9");
    let first = call(&mut bench);
    rings(&mut bench, 0, &first[0]);
    bench.pass(Duration::from_secs(60));
    bench.silence();
    comes(&mut bench, 1, ";q=0.1");
    bench.pass(INTERVAL);
    bench.silence();
    bench.pass(Duration::from_secs(19));
    bench.silence();
    // Another one does not begin the time anew.
    comes(&mut bench, 2, ";q=0.1");
    bench.pass(Duration::from_secs(1));
    let cancel = bench.one();
    cancel.is(Method::Cancel, &uri(0));
    bench.receive(phone(0), response(&cancel.message, 200, "b0"));
    let next = answers(&mut bench, 0, &first[0], 487);
    next[0].is(Method::Invite, &uri(1));
    ends(bench);
}

#[test]
fn the_policy_says_who_rings_beside_whom() {
    let mut sequential = bench(|policy| policy.forking = Forking::Sequential);
    comes(&mut sequential, 0, ";q=0.5");
    let first = call(&mut sequential);
    rings(&mut sequential, 0, &first[0]);
    comes(&mut sequential, 1, ";q=0.5");
    comes(&mut sequential, 2, ";q=0.9");
    sequential.pass(INTERVAL);
    sequential.silence();
    let second = answers(&mut sequential, 0, &first[0], 486);
    assert_eq!(second.len(), 1);
    second[0].is(Method::Invite, &uri(2));
    let third = answers(&mut sequential, 2, &second[0], 486);
    third[0].is(Method::Invite, &uri(1));
    ends(sequential);

    let mut parallel = bench(|policy| policy.forking = Forking::Parallel);
    comes(&mut parallel, 0, ";q=0.5");
    let first = call(&mut parallel);
    rings(&mut parallel, 0, &first[0]);
    comes(&mut parallel, 1, ";q=0.1");
    parallel.pass(INTERVAL);
    parallel.one().is(Method::Invite, &uri(1));
    ends(parallel);
}

/// A URI is put into the target set once, and an instance has one target at a time (RFC 5626 section 7).
#[test]
fn who_is_called_already_is_not_called_again() {
    let outbound = |number| format!(";reg-id={number}{}", instance(1));
    let mut bench = bench(|_| {});
    comes(&mut bench, 0, &outbound(1));
    let first = call(&mut bench);
    rings(&mut bench, 0, &first[0]);
    // It registers along another flow of the same instance, and by another address along the first.
    comes(&mut bench, 1, &outbound(2));
    bench.receive(
        phone(0),
        register("bob", 9, &[&format!("<sip:bob@192.0.2.29>{}", outbound(1))]),
    );
    bench.one().answers(200);
    bench.pass(5 * INTERVAL);
    bench.silence();
    // They are the ways to go on if the first fails, the one that was refreshed last before the other.
    assert_eq!(bench.proxy.statistics().targets_added, 2);
    let next = answers(&mut bench, 0, &first[0], 430);
    next[0].is(Method::Invite, "sip:bob@192.0.2.29");
    let last = answers(&mut bench, 0, &next[0], 408);
    last[0].is(Method::Invite, &uri(1));
    answers(&mut bench, 1, &last[0], 603)[0].answers(603);
    ends(bench);
}

/// What has answered is not asked again, wherever it registers (RFC 5626 section 7).
#[test]
fn an_instance_that_has_answered_is_not_called_again() {
    let outbound = |number| format!(";reg-id={number}{}", instance(1));
    for parameters in [[instance(1), instance(1)], [outbound(1), outbound(2)]] {
        let mut bench = bench(|_| {});
        comes(&mut bench, 0, &parameters[0]);
        comes(&mut bench, 9, &instance(2));
        let both = call(&mut bench);
        rings(&mut bench, 9, &both[1]);
        assert!(answers(&mut bench, 0, &both[0], 486).is_empty());
        comes(&mut bench, 1, &parameters[1]);
        bench.pass(3 * INTERVAL);
        bench.silence();
        assert_eq!(bench.proxy.statistics().targets_added, 0);
        answers(&mut bench, 9, &both[1], 480)[0].answers(486);
        ends(bench);
    }
}

/// A URI is in the target set once (RFC 3261 section 16.5), be it that of a flow that has failed.
#[test]
fn a_flow_that_has_failed_is_not_tried_again() {
    let outbound = |number| format!(";reg-id={number}{}", instance(1));
    let mut bench = bench(|_| {});
    comes(&mut bench, 1, &outbound(1));
    bench.pass(Duration::from_secs(1));
    comes(&mut bench, 0, &outbound(2));
    comes(&mut bench, 9, &instance(2));
    let both = call(&mut bench);
    rings(&mut bench, 9, &both[1]);
    let next = answers(&mut bench, 0, &both[0], 430);
    next[0].is(Method::Invite, &uri(1));
    assert!(answers(&mut bench, 1, &next[0], 430).is_empty());
    bench.pass(3 * INTERVAL);
    bench.silence();
    // A new one may serve.
    comes(&mut bench, 2, &outbound(3));
    bench.pass(INTERVAL);
    bench.one().is(Method::Invite, &uri(2));
    ends(bench);
}

/// A phone that has moved without a word is called where it is now.
#[test]
fn a_phone_whose_address_is_silent_is_called_at_its_new_one() {
    let mut bench = bench(|_| {});
    comes(&mut bench, 0, &instance(1));
    let first = call(&mut bench);
    bench.pass(INTERVAL / 2);
    bench.sent();
    comes(&mut bench, 1, &instance(1));
    bench.pass(INTERVAL / 2);
    let sent = bench.sent();
    let to_new = |sent: &&Sent| sent.message.request_uri() == Some(&uri(1));
    let second = sent.iter().find(to_new).expect("it is called");
    rings(&mut bench, 1, second);
    // If the first address is somebody's after all, it is told when the phone has answered at the second.
    rings(&mut bench, 0, &first[0]);
    let mut sent = answers(&mut bench, 1, second, 486);
    sent.retain(|sent| sent.message.request_uri() != Some(&uri(1)));
    sent[0].is(Method::Cancel, &uri(0));
    sent[1].answers(486);
    bench.receive(phone(0), response(&sent[0].message, 200, "b0"));
    assert!(answers(&mut bench, 0, &first[0], 487).is_empty());
    ends(bench);
}

/// Both ways lead to the phone: it rings along one, and says along the other that it has the INVITE already.
#[test]
fn a_phone_that_is_reached_by_both_ways_rings_once() {
    for rings_first in [true, false] {
        let mut bench = bench(|_| {});
        comes(&mut bench, 0, &instance(1));
        let first = call(&mut bench);
        comes(&mut bench, 1, &instance(1));
        bench.pass(INTERVAL);
        let sent = bench.sent();
        let to_new = |sent: &&Sent| sent.message.request_uri() == Some(&uri(1));
        let second = sent.iter().find(to_new).expect("it is called");
        if rings_first {
            rings(&mut bench, 0, &first[0]);
        }
        assert!(answers(&mut bench, 1, second, 482).is_empty());
        if !rings_first {
            rings(&mut bench, 0, &first[0]);
        }
        answers(&mut bench, 0, &first[0], 200)[0].answers(200);
        ends(bench);
    }
}

/// What an instance says along a flow that it was passed over for is its answer nonetheless.
#[test]
fn an_answer_along_the_former_flow_is_that_of_the_instance() {
    let outbound = |number| format!(";reg-id={number}{}", instance(1));
    let mut bench = bench(|_| {});
    comes(&mut bench, 0, &outbound(1));
    comes(&mut bench, 9, &instance(2));
    let both = call(&mut bench);
    rings(&mut bench, 9, &both[1]);
    comes(&mut bench, 1, &outbound(2));
    bench.pass(INTERVAL / 4);
    bench.sent();
    comes(&mut bench, 2, &outbound(3));
    bench.pass(INTERVAL * 3 / 4);
    let sent = bench.sent();
    let second = sent
        .iter()
        .find(|sent| sent.message.request_uri() == Some(&uri(2)));
    let second = second.expect("the flow that was refreshed last");
    assert!(answers(&mut bench, 0, &both[0], 486).is_empty());
    // Neither is the other one cancelled before it rings, nor the third tried.
    assert!(answers(&mut bench, 2, second, 408).is_empty());
    bench.pass(3 * INTERVAL);
    assert!(bench.sent().is_empty());
    answers(&mut bench, 9, &both[1], 480)[0].answers(486);
    ends(bench);
}

/// A phone that was cancelled, and is gone, is called where it has come back.
#[test]
fn a_phone_that_is_back_after_its_time_is_called() {
    let mut bench = bench(|policy| policy.ring_time = Some(Duration::from_secs(10)));
    comes(&mut bench, 0, &instance(1));
    comes(&mut bench, 9, ";q=0.5");
    let first = call(&mut bench);
    rings(&mut bench, 0, &first[0]);
    bench.pass(Duration::from_secs(10));
    bench.sent()[0].is(Method::Cancel, &uri(0));
    comes_between(&mut bench, 1, &instance(1));
    bench.pass(INTERVAL);
    let sent = bench.sent();
    assert!(
        sent.iter()
            .any(|sent| sent.message.request_uri() == Some(&uri(1)))
    );
    ends(bench);
}

/// A phone registers while requests are sent again.
fn comes_between(bench: &mut Bench, number: u16, parameters: &str) {
    let contact = format!("<sip:bob@192.0.2.{}>{parameters}", 20 + number);
    let cseq = u32::from(number) + 1;
    bench.receive(phone(number), register("bob", cseq, &[&contact]));
    bench.sent();
}

/// One that waits has the preference that it has registered with last.
#[test]
fn a_phone_that_waits_may_change_its_preference() {
    let mut bench = bench(|_| {});
    comes(&mut bench, 0, ";q=0.9");
    comes(&mut bench, 1, &format!(";q=0.1{}", instance(1)));
    let first = call(&mut bench);
    rings(&mut bench, 0, &first[0]);
    comes(&mut bench, 2, &format!(";q=1.0{}", instance(1)));
    bench.pass(INTERVAL);
    bench.one().is(Method::Invite, &uri(2));
    ends(bench);
}

/// Of one that waits for its turn the flow counts that it has registered along last.
#[test]
fn a_phone_that_waits_is_called_where_it_is_when_its_turn_comes() {
    let mut bench = bench(|_| {});
    comes(&mut bench, 0, ";q=0.9");
    comes(&mut bench, 1, &format!(";q=0.1{}", instance(1)));
    let first = call(&mut bench);
    rings(&mut bench, 0, &first[0]);
    comes(&mut bench, 2, &format!(";q=0.1{}", instance(1)));
    bench.pass(INTERVAL);
    bench.silence();
    let next = answers(&mut bench, 0, &first[0], 486);
    assert_eq!(next.len(), 1);
    next[0].is(Method::Invite, &uri(2));
    let last = answers(&mut bench, 2, &next[0], 430);
    last[0].is(Method::Invite, &uri(1));
    answers(&mut bench, 1, &last[0], 480)[0].answers(486);
    ends(bench);
}

/// A phone without an instance that is reached twice says so (482, RFC 3261 section 8.2.2.2). That is not what its user says.
#[test]
fn a_request_that_a_phone_gets_twice_decides_nothing() {
    let mut bench = bench(|_| {});
    comes(&mut bench, 0, "");
    let first = call(&mut bench);
    rings(&mut bench, 0, &first[0]);
    comes(&mut bench, 1, "");
    bench.pass(INTERVAL);
    let second = bench.one();
    assert!(answers(&mut bench, 1, &second, 482).is_empty());
    answers(&mut bench, 0, &first[0], 486)[0].answers(486);
    ends(bench);
}

/// Calls go on as they have begun; those after a reload are watched as it says.
#[test]
fn a_reload_changes_how_often_it_is_looked() {
    let mut bench = bench(|_| {});
    let look_again = |bench: &mut Bench, look_again| {
        let mut policy = Policy::default();
        policy.forwarding.look_again = look_again;
        let now = bench.now;
        bench.proxy.set_policy(now, Arc::new(policy));
    };
    comes(&mut bench, 0, "");
    look_again(&mut bench, Some(Duration::from_secs(60)));
    let first = call(&mut bench);
    rings(&mut bench, 0, &first[0]);
    look_again(&mut bench, Some(INTERVAL));
    bench.receive(alice(), request(Method::Invite, BOB, "another"));
    bench.sent();
    bench.pass(Duration::from_millis(100));
    comes(&mut bench, 1, "");
    bench.pass(INTERVAL);
    // The second call does not wait for the first.
    let mut sent = bench.sent();
    sent.retain(|sent| sent.message.request_uri() == Some(&uri(1)));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].message.call_id(), Some("another"));
    look_again(&mut bench, None);
    bench.pass(Duration::from_secs(60));
    assert_eq!(bench.proxy.statistics().targets_added, 1);
    ends(bench);
}

#[test]
fn there_are_no_more_than_the_policy_allows() {
    let mut bench = bench(|policy| policy.maximum_targets = 3);
    comes(&mut bench, 0, "");
    let first = call(&mut bench);
    rings(&mut bench, 0, &first[0]);
    for number in 1..5 {
        comes(&mut bench, number, "");
    }
    bench.pass(INTERVAL);
    assert_eq!(bench.sent().len(), 2);
    comes(&mut bench, 5, "");
    bench.pass(3 * INTERVAL);
    let others = bench.sent();
    assert!(others.iter().all(|sent| {
        [&uri(1), &uri(2)]
            .map(|uri| Some(&**uri))
            .contains(&sent.message.request_uri())
    }));
    assert_eq!(bench.proxy.statistics().targets_added, 2);
    ends(bench);
}

/// RFC 5393 section 5.3.3: without breadth for another branch, one has to end first.
#[test]
fn a_narrow_call_takes_newcomers_one_by_one() {
    let mut bench = bench(|_| {});
    comes(&mut bench, 0, "");
    let narrow = request(Method::Invite, BOB, "call").with(Name::MaxBreadth, "1");
    bench.receive(alice(), narrow);
    let [_, first] = bench.two();
    rings(&mut bench, 0, &first);
    comes(&mut bench, 1, "");
    comes(&mut bench, 2, "");
    bench.pass(INTERVAL);
    bench.silence();
    let second = answers(&mut bench, 0, &first, 486);
    assert_eq!(second.len(), 1);
    second[0].is(Method::Invite, &uri(1));
    // It rings for as long as any that others wait for.
    rings(&mut bench, 1, &second[0]);
    bench.pass(Duration::from_secs(29));
    bench.silence();
    bench.pass(Duration::from_secs(1));
    let cancel = bench.one();
    cancel.is(Method::Cancel, &uri(1));
    bench.receive(phone(1), response(&cancel.message, 200, "b1"));
    let third = answers(&mut bench, 1, &second[0], 487);
    third[0].is(Method::Invite, &uri(2));
    // The same holds for one that has rung with nobody behind it before.
    rings(&mut bench, 2, &third[0]);
    bench.pass(Duration::from_secs(60));
    comes(&mut bench, 3, "");
    bench.pass(INTERVAL + Duration::from_secs(29));
    bench.silence();
    bench.pass(INTERVAL);
    bench.sent()[0].is(Method::Cancel, &uri(2));
    ends(bench);
}

#[test]
fn a_cancelled_call_takes_no_newcomers() {
    let mut bench = bench(|_| {});
    comes(&mut bench, 0, "");
    let first = call(&mut bench);
    rings(&mut bench, 0, &first[0]);
    comes(&mut bench, 1, "");
    bench.receive(alice(), request(Method::Cancel, BOB, "call"));
    bench.sent();
    bench.pass(2 * INTERVAL);
    for again in bench.sent() {
        again.is(Method::Cancel, &uri(0));
    }
    let last = answers(&mut bench, 0, &first[0], 487);
    last[0].answers(487);
    ends(bench);
}

/// A store that fails, or says nothing for a while, is asked again.
#[test]
fn a_store_that_is_silent_is_asked_again() {
    let mut bench = bench(|_| {});
    comes(&mut bench, 0, "");
    let first = call(&mut bench);
    rings(&mut bench, 0, &first[0]);
    comes(&mut bench, 1, "");
    bench.holds_questions = true;
    bench.pass(5 * INTERVAL);
    assert_eq!(bench.questions.len(), 1);
    bench.pass(2 * INTERVAL);
    assert_eq!(bench.questions.len(), 2, "the first was given up");
    bench.silence();
    let (id, query) = bench.questions.pop_back().expect("the second");
    assert!(matches!(query, Query::Lookup(_)));
    bench.answer(id, Answer::Failed);
    bench.holds_questions = false;
    bench.pass(INTERVAL);
    bench.one().is(Method::Invite, &uri(1));

    // What is answered when the call is over changes nothing.
    bench.holds_questions = true;
    comes_late(&mut bench);
    ends(bench);
}

fn comes_late(bench: &mut Bench) {
    bench.questions.clear();
    bench.pass(INTERVAL);
    let (id, query) = bench.questions.pop_front().expect("it is asked");
    bench.receive(alice(), request(Method::Cancel, BOB, "call"));
    bench.sent();
    bench.holds_questions = false;
    comes(bench, 2, "");
    let added = bench.proxy.statistics().targets_added;
    let answer = bench.own_answer(query);
    assert!(matches!(&answer, Answer::Bindings(bindings) if bindings.len() == 3));
    bench.answer(id, answer);
    bench.silence();
    assert_eq!(bench.proxy.statistics().targets_added, added);
}

const TCP: &str = "tcp:192.0.2.1:5060";

/// One phone, whatever its connection, registers.
fn comes_along(bench: &mut Bench, flow: Flow, cseq: u32) {
    let contact = format!("<sip:bob@{};transport=tcp>{}", flow.remote, instance(1));
    bench.receive(flow, register("bob", cseq, &[&contact]));
    bench.one().answers(200);
}

/// A phone rings, and registers along another connection when its first is gone. Returns the INVITEs along the two.
fn rings_and_reconnects(bench: &mut Bench, before: Flow, after: Flow) -> [Sent; 2] {
    comes_along(bench, before, 1);
    let first = call(bench).remove(0);
    bench.receive(before, response(&first.message, 180, "b0"));
    bench.one().answers(180);
    bench.proxy.handle_connection_closed(before.connection);
    comes_along(bench, after, 2);
    bench.pass(INTERVAL);
    let second = bench.one();
    second.goes_along(after);
    [first, second]
}

/// What went along a connection that is gone does not ring any more.
#[test]
fn a_phone_that_has_lost_its_connection_is_called_when_it_is_back() {
    let mut bench = Bench::new(&[HERE, TCP], &["example.com"]);
    let before = flow(TCP, "192.0.2.20:40001");
    let after = flow(TCP, "192.0.2.30:40002");
    comes_along(&mut bench, before, 1);
    let first = call(&mut bench);
    first[0].goes_along(before);
    bench.receive(before, response(&first[0].message, 180, "b0"));
    bench.one().answers(180);
    bench.pass(INTERVAL / 2);
    comes_along(&mut bench, after, 2);
    bench.pass(2 * INTERVAL);
    bench.silence();
    bench.proxy.handle_connection_closed(before.connection);
    bench.pass(INTERVAL);
    let second = bench.one();
    second.goes_along(after);
    assert_eq!(second.message.method(), Some(&Method::Invite));
    // What it says there is its answer: nothing comes along the connection that is gone.
    bench.receive(after, response(&second.message, 486, "b0"));
    let sent = bench.sent();
    assert_eq!(sent.len(), 3);
    sent[0].goes_along(after);
    // Should it ring on there, it is to stop.
    assert_eq!(sent[1].message.method(), Some(&Method::Cancel));
    sent[2].answers(486);
    ends(bench);
}

/// Where one is tried after the other there is no breadth for both: the flow that is gone is given up.
#[test]
fn without_breadth_for_two_the_new_connection_takes_the_place_of_the_old() {
    let mut bench = Bench::with(&[HERE, TCP], &["example.com"], |config| {
        let mut policy = Policy::default();
        policy.forwarding.forking = Forking::Sequential;
        config.policy = Arc::new(policy);
    });
    let before = flow(TCP, "192.0.2.20:40001");
    let after = flow(TCP, "192.0.2.30:40002");
    let [_, second] = rings_and_reconnects(&mut bench, before, after);
    bench.receive(after, response(&second.message, 486, "b0"));
    let [_ack, answer] = bench.two();
    answer.answers(486);
    ends(bench);
}

/// A phone that has lost its connection, but not the call, says that it has the INVITE already, and is waited for.
#[test]
fn a_phone_that_rings_on_without_its_connection_is_waited_for() {
    let mut bench = Bench::new(&[HERE, TCP], &["example.com"]);
    let before = flow(TCP, "192.0.2.20:40001");
    let after = flow(TCP, "192.0.2.20:40002");
    let [first, second] = rings_and_reconnects(&mut bench, before, after);
    bench.receive(after, response(&second.message, 482, "b1"));
    bench
        .one()
        .is(Method::Ack, "sip:bob@192.0.2.20:40002;transport=tcp");
    bench.receive(after, response(&first.message, 200, "b0"));
    bench.one().answers(200);
    ends(bench);
}

/// The parameter of a Contact that names an instance, by its number.
fn instance(number: u16) -> String {
    format!(";+sip.instance=\"<urn:uuid:00000000-0000-1000-8000-00000000000{number}>\"")
}

/// A GRUU is for one instance, whoever else registers (RFC 5627 section 6.1).
#[test]
fn a_call_to_an_instance_takes_no_others() {
    let mut bench = bench(|_| {});
    let contact = format!("<sip:bob@192.0.2.20>{}", instance(1));
    let gruu = register("bob", 1, &[&contact]).with(Name::Supported, "gruu");
    bench.receive(phone(0), gruu);
    let registered = bench.one();
    let contact = registered.value(Name::Contact);
    let (_, rest) = contact.split_once("pub-gruu=\"").expect("a GRUU");
    let (gruu, _) = rest.split_once('"').expect("its end");
    bench.receive(alice(), request(Method::Invite, gruu, "call"));
    let [_, first] = bench.two();
    rings(&mut bench, 0, &first);
    comes(&mut bench, 1, &instance(2));
    bench.pass(3 * INTERVAL);
    bench.silence();
    // The same one, elsewhere: it rings already.
    comes(&mut bench, 2, &instance(1));
    bench.pass(3 * INTERVAL);
    bench.silence();
    ends(bench);
}
