//! Hooks: decisions at the points on the way of a message, made at once or when the answer to a query is there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Bench, Sent, flow, register, request, response};
use proxy::core::{
    Answer, BranchPoint, Decision, DialogEndPoint, DropReply, FailurePoint, Group, Hook, Member,
    NewTargets, Page, ParkedState, Place, Points, Policy, Query, QueryId, Refusal, ReplyPoint,
    RequestAction, RequestPoint, Resumption, Route, RoutePoint, RouteTarget, Routing,
};
use sip::{Flow, Message, Method, Name};

const HERE: &str = "udp:192.0.2.1:5060";
const BOB: &str = "192.0.2.20:5060";

/// The points at which a message can be parked.
const ALL: [(&str, Points); 7] = [
    ("request", Points::REQUEST),
    ("register", Points::REGISTER),
    ("route", Points::ROUTE),
    ("branch", Points::BRANCH),
    ("reply", Points::REPLY),
    ("failure", Points::FAILURE),
    ("dialog end", Points::DIALOG_END),
];

/// What a hook has been asked: where, and whether with an answer, or with none because the time was over.
type Log = Arc<Mutex<Vec<(&'static str, Option<bool>)>>>;

/// Parks at some points, and lets go on when it is asked again.
#[derive(Debug)]
struct Parking(Points, Log);

impl Parking {
    fn park<A>(&self, point: &'static str, resumed: Option<Resumption<'_>>) -> Decision<A> {
        let is_answered = resumed.map(|resumed| {
            // It gets back what it has kept.
            assert_eq!(resumed.state.into_inner::<&str>(), Some(point));
            *resumed.answer != Answer::Failed
        });
        self.1.lock().expect("a log").push((point, is_answered));
        match is_answered {
            Some(_) => Decision::Continue,
            None => {
                let query = Query::Page {
                    from: Place(7),
                    limit: 1,
                };
                Decision::Park(query, ParkedState::new(point))
            }
        }
    }
}

impl Hook for Parking {
    fn points(&self) -> Points {
        self.0
    }

    fn on_request(
        &mut self,
        _: &mut RequestPoint<'_>,
        answer: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        self.park("request", answer)
    }

    fn on_register(
        &mut self,
        _: &mut RequestPoint<'_>,
        answer: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        self.park("register", answer)
    }

    fn on_route(
        &mut self,
        _: &mut RoutePoint<'_>,
        answer: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        self.park("route", answer)
    }

    fn on_branch(
        &mut self,
        _: &mut BranchPoint<'_>,
        answer: Option<Resumption<'_>>,
    ) -> Decision<Refusal> {
        self.park("branch", answer)
    }

    fn on_reply(
        &mut self,
        _: &mut ReplyPoint<'_>,
        answer: Option<Resumption<'_>>,
    ) -> Decision<DropReply> {
        self.park("reply", answer)
    }

    fn on_failure(
        &mut self,
        _: &mut FailurePoint<'_>,
        answer: Option<Resumption<'_>>,
    ) -> Decision<NewTargets> {
        self.park("failure", answer)
    }

    fn on_dialog_end(
        &mut self,
        point: &DialogEndPoint<'_>,
        answer: Option<Resumption<'_>>,
    ) -> Decision<()> {
        assert_eq!(point.call_id, "call");
        self.park("dialog end", answer)
    }
}

/// A hook that parks at these points, and bob registered before it was there.
fn bench(points: Points) -> (Bench, Log) {
    bench_with_room(points, 10_000)
}

fn bench_with_room(points: Points, maximum_parked: usize) -> (Bench, Log) {
    bench_with_limits(points, maximum_parked, Duration::from_secs(10))
}

fn bench_with_limits(points: Points, maximum_parked: usize, timeout: Duration) -> (Bench, Log) {
    let mut bench = Bench::with(&[HERE], &["example.com"], |config| {
        config.queries.maximum_parked = maximum_parked;
        config.queries.timeout = timeout;
        let mut policy = Policy::default();
        policy.forwarding.look_again = None;
        config.policy = Arc::new(policy);
    });
    if maximum_parked > 0 {
        bench.register(bob(), "bob", "<sip:bob@192.0.2.20>");
    }
    let log = Log::default();
    bench
        .proxy
        .add_hook(Box::new(Parking(points, Arc::clone(&log))));
    bench.holds_questions = true;
    (bench, log)
}

fn alice() -> Flow {
    flow(HERE, "192.0.2.9:5060")
}

fn bob() -> Flow {
    flow(HERE, BOB)
}

fn every_point() -> Points {
    ALL.iter()
        .fold(Points::default(), |points, (_, point)| points | *point)
}

fn invite() -> Message {
    request(Method::Invite, "sip:bob@example.com", "call")
}

fn cancel() -> Message {
    let mut cancel = request(Method::Cancel, "sip:bob@example.com", "call");
    cancel.remove_all(Name::Contact);
    cancel
}

/// Answers the core's own questions, until the hook has one or there is none. Returns that of the hook.
fn parked(bench: &mut Bench) -> Option<QueryId> {
    while let Some((id, query)) = bench.questions.pop_front() {
        match query {
            Query::Page { .. } => return Some(id),
            own => {
                let answer = bench.own_answer(own);
                bench.answer(id, answer);
            }
        }
    }
    None
}

/// Answers the hook's questions as they come, and all others.
fn let_on(bench: &mut Bench) {
    while let Some(id) = parked(bench) {
        bench.answer(id, Answer::Page(Page::default()));
    }
}

fn requests(sent: &[Sent], method: &Method) -> Vec<Message> {
    let messages = sent.iter().map(|sent| sent.message.clone());
    messages
        .filter(|message| message.method() == Some(method))
        .collect()
}

fn statuses(bench: &mut Bench) -> Vec<u16> {
    let sent = bench.sent();
    sent.iter()
        .filter_map(|sent| sent.message.status())
        .collect()
}

/// The INVITE as it has gone to bob.
fn forwarded(bench: &mut Bench) -> Message {
    let_on(bench);
    let sent = bench.sent();
    requests(&sent, &Method::Invite)
        .pop()
        .expect("an INVITE to bob")
}

fn taken(log: &Log) -> Vec<(&'static str, Option<bool>)> {
    std::mem::take(&mut *log.lock().expect("a log"))
}

/// Each point is asked without an answer, and then with one.
fn twice(points: &[&'static str]) -> Vec<(&'static str, Option<bool>)> {
    let twice = points
        .iter()
        .flat_map(|point| [(*point, None), (*point, Some(true))]);
    twice.collect()
}

#[test]
fn what_is_parked_at_every_point_goes_on_with_the_answer() {
    let (mut bench, log) = bench(every_point());
    bench.receive(bob(), register("bob", 2, &["<sip:bob@192.0.2.20>"]));
    bench.silence();
    let_on(&mut bench);
    bench.one().answers(200);
    assert_eq!(taken(&log), twice(&["request", "register"]));

    bench.receive(alice(), invite());
    // Whoever calls knows that it is being worked on.
    assert_eq!(statuses(&mut bench), [100]);
    let sent = forwarded(&mut bench);
    assert_eq!(taken(&log), twice(&["request", "route", "branch"]));
    bench.receive(bob(), response(&sent, 180, "b1"));
    bench.silence();
    let_on(&mut bench);
    bench.one().answers(180);
    bench.receive(bob(), response(&sent, 486, "b1"));
    let_on(&mut bench);
    assert_eq!(statuses(&mut bench), [486]);
    assert_eq!(taken(&log), twice(&["reply", "reply", "failure"]));
}

#[test]
fn the_end_of_a_dialog_is_told_and_nothing_waits_for_it() {
    let (mut bench, log) = bench(Points::DIALOG_END);
    let mut bye = request(Method::Bye, "sip:bob@example.com", "call");
    bye.set_to_tag("b1");
    bench.receive(alice(), bye);
    parked(&mut bench);
    let sent = bench.sent();
    let bye = requests(&sent, &Method::Bye).pop().expect("a BYE to bob");
    bench.receive(bob(), response(&bye, 200, "b1"));
    assert_eq!(statuses(&mut bench), [200]);
    assert_eq!(taken(&log), [("dialog end", None)]);
    let length = "call".len() + "a1".len() + "b1".len();
    assert_eq!(bench.proxy.statistics().held_octets, length as u64);
    let_on(&mut bench);
    bench.silence();
    assert_eq!(bench.proxy.statistics().held_octets, 0);
    assert_eq!(taken(&log), [("dialog end", Some(true))]);
}

/// A call whose INVITE, or the answer to it, is parked at a point.
fn call_parked_at(name: &str, point: Points) -> (Bench, Log, QueryId) {
    let (mut bench, log) = bench(point);
    bench.receive(alice(), invite());
    let mut id = parked(&mut bench);
    if matches!(name, "reply" | "failure") {
        assert_eq!(id, None);
        let sent = bench.sent();
        let sent = requests(&sent, &Method::Invite).pop().expect("an INVITE");
        let status = if name == "reply" { 180 } else { 486 };
        bench.receive(bob(), response(&sent, status, "b1"));
        id = parked(&mut bench);
    }
    assert_eq!(taken(&log), [(name, None)]);
    bench.sent();
    (bench, log, id.expect("something is parked"))
}

const OF_CALLS: [&str; 5] = ["request", "route", "branch", "reply", "failure"];

fn of_calls() -> impl Iterator<Item = (&'static str, Points)> {
    ALL.into_iter().filter(|(name, _)| OF_CALLS.contains(name))
}

#[test]
fn what_is_parked_can_be_cancelled() {
    for (name, point) in of_calls() {
        let (mut bench, log, id) = call_parked_at(name, point);
        bench.receive(alice(), cancel());
        let statuses = statuses(&mut bench);
        assert_eq!(statuses[0], 200, "{name}");
        let last = match name {
            // It is being forwarded, and bob has to say how it ends.
            "reply" => None,
            "failure" => Some(&486),
            _ => Some(&487),
        };
        assert_eq!(statuses.get(1), last, "{name}");
        // An answer that comes late is for nobody.
        bench.answer(id, Answer::Page(Page::default()));
        assert_eq!(taken(&log).is_empty(), name != "reply", "{name}");
        bench.pass(Duration::from_secs(300));
        let left = bench.proxy.statistics();
        let left = (left.questions, left.held_octets, left.response_contexts);
        assert_eq!(left, (0, 0, 0), "{name}");
    }
}

#[test]
fn what_is_parked_for_too_long_goes_on_without_an_answer() {
    for (name, point) in of_calls() {
        let (mut bench, log, _) = call_parked_at(name, point);
        bench.pass(Duration::from_secs(10));
        assert_eq!(taken(&log)[0], (name, Some(false)), "{name}");
        parked(&mut bench);
        let sent = bench.sent();
        let has_gone_on = match name {
            "reply" => sent.iter().any(|sent| sent.message.status() == Some(180)),
            "failure" => sent.iter().any(|sent| sent.message.status() == Some(486)),
            _ => requests(&sent, &Method::Invite).len() == 1,
        };
        assert!(has_gone_on, "{name}: {sent:#?}");
        assert_eq!(bench.proxy.statistics().questions_timed_out, 1);
    }
}

#[test]
fn what_cannot_be_parked_is_refused_or_goes_on_unasked() {
    for name in ["request", "register"] {
        let (_, point) = ALL[usize::from(name == "register")];
        let (mut bench, log) = bench_with_room(point, 0);
        bench.receive(bob(), register("bob", 2, &["<sip:bob@192.0.2.20>"]));
        bench.one().answers(503);
        assert_eq!(taken(&log), [(name, None)]);
        assert_eq!(bench.proxy.statistics().held_octets, 0);
    }
    // One question is let in: that of the look-up, and then the hook's at the branch.
    let (mut bench, log) = bench_with_room(Points::BRANCH | Points::REPLY, 1);
    bench.receive(alice(), invite());
    let sent = forwarded(&mut bench);
    // Something else takes the place.
    bench.receive(
        alice(),
        request(Method::Options, "sip:carol@example.com", "o"),
    );
    taken(&log);
    bench.receive(bob(), response(&sent, 180, "b1"));
    assert_eq!(taken(&log), [("reply", None)]);
    assert_eq!(statuses(&mut bench), [180]);
}

/// Decides at once.
#[derive(Debug)]
struct Deciding(Points);

impl Hook for Deciding {
    fn points(&self) -> Points {
        self.0
    }

    fn on_request(
        &mut self,
        _: &mut RequestPoint<'_>,
        _: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        Decision::Act(RequestAction::Refuse(Refusal::new(403, "Not Today")))
    }

    fn on_register(
        &mut self,
        _: &mut RequestPoint<'_>,
        _: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        Decision::Act(RequestAction::Refuse(Refusal::new(403, "Not Today")))
    }

    fn on_route(
        &mut self,
        point: &mut RoutePoint<'_>,
        _: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        match point.request.call_id() {
            Some("refused") => Decision::Act(RequestAction::Refuse(Refusal::new(404, "No"))),
            _ => Decision::Act(RequestAction::to(["sip:192.0.2.70"])),
        }
    }

    fn on_branch(
        &mut self,
        point: &mut BranchPoint<'_>,
        _: Option<Resumption<'_>>,
    ) -> Decision<Refusal> {
        assert_eq!(point.target, "sip:bob@192.0.2.20");
        Decision::Act(Refusal::new(403, "Not Today"))
    }

    fn on_reply(
        &mut self,
        point: &mut ReplyPoint<'_>,
        _: Option<Resumption<'_>>,
    ) -> Decision<DropReply> {
        assert!(point.response.status().is_some());
        Decision::Act(DropReply)
    }

    fn on_failure(
        &mut self,
        point: &mut FailurePoint<'_>,
        _: Option<Resumption<'_>>,
    ) -> Decision<NewTargets> {
        match point.status() {
            486 => Decision::Act(NewTargets::new(["sip:voicemail@192.0.2.80"])),
            _ => Decision::Continue,
        }
    }
}

fn deciding(points: Points) -> Bench {
    let (mut bench, _) = bench(Points::default());
    bench.proxy.add_hook(Box::new(Deciding(points)));
    bench.holds_questions = false;
    bench
}

#[test]
fn a_hook_decides_at_once() {
    let mut bench = deciding(Points::REQUEST);
    bench.receive(alice(), invite());
    assert_eq!(statuses(&mut bench), [403]);

    let mut bench = deciding(Points::REGISTER);
    bench.receive(bob(), register("bob", 2, &["<sip:bob@192.0.2.20>"]));
    bench.one().answers(403);

    let mut bench = deciding(Points::ROUTE);
    bench.receive(alice(), invite());
    let [trying, sent] = bench.two();
    trying.answers(100);
    sent.is(Method::Invite, "sip:bob@example.com")
        .goes_to("udp:192.0.2.70:5060");
    let refused = request(Method::Invite, "sip:bob@example.com", "refused");
    bench.receive(alice(), refused);
    assert_eq!(statuses(&mut bench), [404]);

    let mut bench = deciding(Points::BRANCH);
    bench.receive(alice(), invite());
    let [trying, refused] = bench.two();
    trying.answers(100);
    refused.answers(403);
    assert_eq!(refused.message.reason(), Some("Not Today"));
}

#[test]
fn a_hook_drops_provisional_responses_and_tries_others_after_a_failure() {
    let mut bench = deciding(Points::REPLY | Points::FAILURE);
    bench.receive(alice(), invite());
    let [_, sent] = bench.two();
    bench.receive(bob(), response(&sent.message, 180, "b1"));
    bench.silence();
    bench.receive(bob(), response(&sent.message, 486, "b1"));
    let sent = bench.sent();
    let retargeted = requests(&sent, &Method::Invite).pop().expect("an INVITE");
    assert_eq!(retargeted.request_uri(), Some("sip:voicemail@192.0.2.80"));
    bench.receive(
        flow(HERE, "192.0.2.80:5060"),
        response(&retargeted, 404, "v1"),
    );
    let statuses = statuses(&mut bench);
    assert_eq!(statuses.last(), Some(&404));
}

#[test]
fn whoever_waits_for_hooks_is_told_so_once() {
    let (mut bench, _) = bench(Points::REQUEST | Points::ROUTE | Points::BRANCH);
    bench.receive(alice(), invite());
    let_on(&mut bench);
    assert_eq!(statuses(&mut bench), [100]);
}

/// An INVITE to bob, of whose ringing a hook lets nothing go on.
fn call_without_ringing(is_dropped: bool) -> Bench {
    let mut bench = match is_dropped {
        true => deciding(Points::REPLY),
        false => bench(Points::REPLY).0,
    };
    bench.receive(alice(), invite());
    let sent = forwarded(&mut bench);
    bench.receive(bob(), response(&sent, 180, "b1"));
    bench.silence();
    bench
}

#[test]
fn a_provisional_response_has_come_whatever_hooks_do_with_it() {
    for is_dropped in [true, false] {
        // A CANCEL has waited for it (RFC 3261 section 9.1).
        let mut bench = call_without_ringing(is_dropped);
        bench.receive(alice(), cancel());
        let sent = bench.sent();
        assert_eq!(requests(&sent, &Method::Cancel).len(), 1, "{is_dropped}");

        // Timer C ends what rings for too long (RFC 3261 section 16.8).
        let mut bench = call_without_ringing(is_dropped);
        bench.pass(Duration::from_secs(600));
        let sent = bench.sent();
        assert!(!requests(&sent, &Method::Cancel).is_empty());
        let last = sent.iter().rev().find_map(|sent| sent.message.status());
        assert_eq!(last, Some(408), "{is_dropped}");
        assert_eq!(bench.proxy.statistics().response_contexts, 0);
    }
}

#[test]
fn a_failure_that_is_parked_is_what_the_callee_has_said() {
    for point in [Points::REPLY, Points::FAILURE] {
        let (mut bench, _) = bench(point);
        bench.receive(alice(), invite());
        let sent = forwarded(&mut bench);
        bench.receive(bob(), response(&sent, 486, "b1"));
        let acknowledgements = bench.sent();
        assert_eq!(requests(&acknowledgements, &Method::Ack).len(), 1);
        // The ACK does not get there.
        bench.fail_last_request();
        bench.silence();
        let_on(&mut bench);
        assert_eq!(statuses(&mut bench), [486]);
    }
}

#[test]
fn an_answer_that_is_parked_until_its_transaction_has_ended_leaves_nothing() {
    let (mut bench, _) = bench_with_limits(Points::REPLY, 10, Duration::from_secs(100));
    bench.receive(alice(), invite());
    let sent = forwarded(&mut bench);
    bench.receive(bob(), response(&sent, 200, "b1"));
    bench.pass(Duration::from_secs(40));
    bench.silence();
    let_on(&mut bench);
    assert_eq!(statuses(&mut bench), [200]);
    bench.pass(Duration::from_secs(300));
    bench.assert_idle();
}

/// A call that goes to the first of two servers, whose response a hook parks.
fn call_by_servers() -> (Bench, Message) {
    let member = |number: u16| Member {
        priority: number,
        ..Member::new(&format!("sip:192.0.2.5{number}"))
    };
    let group = Group {
        members: [1, 2].map(member).into(),
        response_timeout: Some(Duration::from_secs(2)),
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
    let mut bench = Bench::with(&[HERE], &["example.com"], |config| {
        config.policy = Arc::new(Policy {
            routing,
            ..Policy::default()
        });
    });
    let hook = Parking(Points::REPLY, Log::default());
    bench.proxy.add_hook(Box::new(hook));
    bench.holds_questions = true;
    let invite = request(Method::Invite, "sip:+4930@example.com", "call");
    bench.receive(alice(), invite);
    let sent = forwarded(&mut bench);
    (bench, sent)
}

#[test]
fn a_server_whose_response_is_parked_is_not_silent() {
    for status in [100, 180, 486] {
        let (mut bench, sent) = call_by_servers();
        let server = flow(HERE, "192.0.2.51:5060");
        bench.receive(server, response(&sent, status, "g1"));
        bench.pass(Duration::from_secs(8));
        let sent = bench.sent();
        assert!(requests(&sent, &Method::Invite).is_empty(), "{status}");
        assert_eq!(bench.proxy.statistics().failovers, 0, "{status}");
    }
}
