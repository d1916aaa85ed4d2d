//! Calls between callers and callees.

use std::time::Duration;

use load::engine::EngineConfig;
use load::record::{CallRecord, Failure, Outcome, Record};
use load::script::builtin::{self, AnswerPlan, CallPlan};
use load::script::{Pause, ScriptId};
use proptest::prelude::*;
use sip::{Message, Method, Name, Transport};

use super::world::{Fate, From, World, config, losing};

const SECOND: Duration = Duration::from_secs(1);

fn milliseconds(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A world with calls that are held and answered after ringing.
fn world(users: u32, transport: Transport, hold: Duration, ring: Duration) -> (World, ScriptId) {
    let mut world = World::new(users, transport);
    let script = scripts(&mut world, hold, ring);
    (world, script)
}

fn scripts(world: &mut World, hold: Duration, ring: Duration) -> ScriptId {
    let plan = CallPlan {
        hold: Pause::Fixed(hold),
        answer_within: Some(20 * SECOND),
    };
    let ring = AnswerPlan {
        ring: Pause::Fixed(ring),
        ..AnswerPlan::default()
    };
    world.scripts(
        builtin::call(&plan).unwrap(),
        builtin::answer(&ring).unwrap(),
    )
}

/// The records of calls that have ended.
fn ended(records: &[Record]) -> Vec<&CallRecord> {
    records
        .iter()
        .filter_map(|record| match record {
            Record::Call(record) => Some(record),
            _ => None,
        })
        .collect()
}

#[test]
fn a_call_is_set_up_held_and_ended() {
    let (mut world, script) = world(1, Transport::Udp, 2 * SECOND, SECOND);
    world.begin(script, 1, 2);
    assert_eq!(world.callers.in_flight(), 1);
    world.run(10 * SECOND);
    // Ringing takes longer than T1, but an INVITE with a provisional response is not repeated.
    assert_eq!(world.story(), "INVITE <180> <200> ACK BYE <200/BYE>");
    assert_eq!(
        (world.callers.in_flight(), world.callers.sessions()),
        (0, 0)
    );
    assert_eq!(world.callees.sessions(), 0);
    let [Record::Established(standing), Record::Call(call)] = &world.records[..] else {
        panic!("{:?}", world.records);
    };
    assert_eq!(standing.attempt.outcome, Outcome::Unfinished);
    assert_eq!(call.attempt.outcome, Outcome::Completed);
    assert_eq!((call.attempt.user, call.attempt.peer), (1, 2));
    assert_eq!(
        (call.attempt.status, call.bye_status),
        (Some(200), Some(200))
    );
    assert_eq!(call.progress, Some(milliseconds(20)));
    assert_eq!(call.answered, Some(milliseconds(1_020)));
    assert_eq!(call.acknowledged, Some(milliseconds(1_020)));
    assert_eq!(call.bye, Some(milliseconds(3_020)));
    assert_eq!(call.bye_answered, Some(milliseconds(3_040)));
    assert_eq!(call.attempt.ended, milliseconds(3_040));
    assert_eq!(call.attempt.retransmissions, 0);
    assert!(call.is_setup_recorded && !call.is_bye_from_peer);
    let [callee] = ended(&world.callee_records)[..] else {
        panic!("{:?}", world.callee_records);
    };
    assert_eq!(callee.attempt.outcome, Outcome::Completed);
    assert_eq!((callee.attempt.user, callee.attempt.peer), (2, 1));
    assert_eq!(callee.attempt.call_id, call.attempt.call_id);
    assert!(callee.is_bye_from_peer);
    let message = Message::read(world.messages[0].1.clone().into()).unwrap();
    assert_eq!(
        message.call_id(),
        Some(&call.attempt.call_id.to_string()[..])
    );
}

#[test]
fn a_callee_whose_caller_has_vanished_hangs_up() {
    let (mut world, script) = world(1, Transport::Udp, SECOND, Duration::ZERO);
    world.fate = Box::new(|from, message| match message.method() {
        Some(Method::Bye) if from == From::Callers => Fate::Lost,
        _ => Fate::Arrives,
    });
    world.begin(script, 1, 2);
    world.run(3590 * SECOND);
    assert_eq!((world.callers.sessions(), world.callees.sessions()), (0, 1));
    world.log.clear();
    world.run(20 * SECOND);
    // The caller has given the call up long ago.
    assert_eq!(world.story(), "<BYE> 481/BYE");
    let (_, bye) = world.messages.iter().nth_back(1).unwrap();
    let bye = Message::read(bye.clone().into()).unwrap();
    let parties = [Name::From, Name::To].map(|name| bye.header(name).unwrap());
    assert!(
        parties[0].starts_with("<sip:user2@example.org>;tag="),
        "{parties:?}"
    );
    assert!(
        parties[1].starts_with("<sip:user1@example.org>;tag="),
        "{parties:?}"
    );
    assert_eq!(world.callees.sessions(), 0);
    let [callee] = ended(&world.callee_records)[..] else {
        panic!("{:?}", world.callee_records);
    };
    assert!(matches!(callee.attempt.outcome, Outcome::Failed(_)));
    assert!(!callee.is_bye_from_peer);
}

#[test]
fn messages_say_what_they_should() {
    let (mut world, script) = world(1, Transport::Tcp, Duration::ZERO, Duration::ZERO);
    world.begin(script, 1, 2);
    world.run(SECOND);
    let messages: Vec<Message> = world
        .messages
        .iter()
        .map(|(_, octets)| Message::read(octets.clone().into()).unwrap())
        .collect();
    let [invite, ringing, answer, ack, bye, farewell] = &messages[..] else {
        panic!("{}", world.story());
    };
    assert_eq!(invite.request_uri(), Some("sip:user2@example.org"));
    assert_eq!(invite.content_length(), Some(invite.body().len()));
    let from = invite.header(Name::From).unwrap();
    assert!(from.starts_with("<sip:user1@example.org>;tag="), "{from}");
    assert_eq!(invite.header(Name::To), Some("<sip:user2@example.org>"));
    let contact = Some("<sip:user1@127.0.0.1:5070;transport=tcp>");
    assert_eq!(invite.header(Name::Contact), contact);
    let to = answer.header(Name::To).unwrap();
    assert_eq!(ringing.header(Name::To), Some(to));
    for message in [ack, bye, farewell] {
        assert_eq!(message.header(Name::To), Some(to));
        assert_eq!(message.header(Name::From), Some(from));
        assert_eq!(message.call_id(), invite.call_id());
    }
    // Requests within the dialog go to the Contact (RFC 3261 section 12.2.1.1).
    let target = Some("sip:user2@127.0.0.1:5080;transport=tcp");
    assert_eq!((ack.request_uri(), bye.request_uri()), (target, target));
    assert_eq!(ack.cseq(), Some((1, Method::Ack)));
    assert_eq!(bye.cseq(), Some((2, Method::Bye)));
    let branch = |message: &Message| message.top_via().unwrap().branch().unwrap().to_owned();
    let branches = [branch(invite), branch(ack), branch(bye)];
    assert!(branches[0] != branches[1] && branches[1] != branches[2]);
    assert_eq!(branch(answer), branches[0]);
}

#[test]
fn what_is_lost_is_repeated_as_the_timers_say() {
    let (mut world, script) = world(1, Transport::Udp, SECOND, SECOND);
    let mut lost = vec![
        "INVITE",
        "INVITE",
        "200 OK",
        "ACK",
        "BYE",
        "BYE",
        "200 OK BYE",
    ];
    world.fate = Box::new(move |_, message| {
        let (_, method) = message.cseq().unwrap();
        let name = match (message.status(), method) {
            (None, method) => method.as_str().to_owned(),
            (Some(200), Method::Invite) => "200 OK".to_owned(),
            (Some(200), method) => format!("200 OK {method}"),
            _ => return Fate::Arrives,
        };
        match lost.iter().position(|lost| *lost == name) {
            Some(at) => {
                lost.remove(at);
                Fate::Lost
            }
            None => Fate::Arrives,
        }
    });
    world.begin(script, 1, 2);
    world.run(20 * SECOND);
    assert_eq!(
        world.story(),
        "INVITE INVITE INVITE <180> <200> <200> ACK <200> ACK BYE BYE BYE <200/BYE> BYE <200/BYE>"
    );
    let [call] = ended(&world.records)[..] else {
        panic!("{:?}", world.records);
    };
    assert_eq!(call.attempt.outcome, Outcome::Completed);
    // The INVITE after 500 and 1,000 ms more (Timer A), the BYE after 500, 1,000 and 2,000 (Timer E).
    assert_eq!(call.progress, Some(milliseconds(1_520)));
    assert_eq!(call.attempt.retransmissions, 2 + 1 + 3);
    assert_eq!(
        call.bye_answered.unwrap() - call.bye.unwrap(),
        milliseconds(3_520)
    );
    assert_eq!((world.callers.sessions(), world.callees.sessions()), (0, 0));
}

#[test]
fn without_repeating_a_loss_is_the_end() {
    let quiet = |first| EngineConfig {
        is_repeating: false,
        ..config(first, 1)
    };
    let mut world = World::with(quiet(1), quiet(2), Transport::Udp);
    let script = scripts(&mut world, Duration::ZERO, Duration::ZERO);
    world.fate = Box::new(|_, message| match message.method() {
        Some(Method::Bye) => Fate::Lost,
        _ => Fate::Arrives,
    });
    world.begin(script, 1, 2);
    world.run(100 * SECOND);
    assert_eq!(world.story(), "INVITE <180> <200> ACK BYE");
    let [call] = ended(&world.records)[..] else {
        panic!("{:?}", world.records);
    };
    assert_eq!(call.attempt.outcome, Outcome::Failed(Failure::NoResponse));
    assert_eq!(call.attempt.ended, milliseconds(32_020));
}

#[test]
fn an_invite_that_nobody_answers_times_out() {
    let (mut world, script) = world(1, Transport::Udp, SECOND, SECOND);
    world.fate = Box::new(|_, _| Fate::Lost);
    world.begin(script, 1, 2);
    world.run(60 * SECOND);
    // Timer A: 0.5, 1.5, 3.5, 7.5, 15.5, 31.5 s; Timer B: 32 s. The patience of 20 s comes first, but
    // what has had no provisional response must not be cancelled (RFC 3261 section 9.1).
    assert_eq!(world.story(), ["INVITE"; 7].join(" "));
    let [call] = ended(&world.records)[..] else {
        panic!("{:?}", world.records);
    };
    assert_eq!(call.attempt.outcome, Outcome::Failed(Failure::GivenUp));
    assert_eq!(call.attempt.ended, 32 * SECOND);
    assert_eq!((call.attempt.status, call.progress), (None, None));
    assert_eq!(world.callers.sessions(), 0);
}

#[test]
fn a_call_that_rings_too_long_is_cancelled() {
    let (mut world, script) = world(1, Transport::Udp, SECOND, 60 * SECOND);
    world.begin(script, 1, 2);
    world.run(60 * SECOND);
    assert_eq!(world.story(), "INVITE <180> CANCEL <200/CANCEL> <487> ACK");
    let [call] = ended(&world.records)[..] else {
        panic!("{:?}", world.records);
    };
    assert_eq!(call.attempt.outcome, Outcome::Failed(Failure::GivenUp));
    assert_eq!(call.attempt.status, Some(487));
    let [callee] = ended(&world.callee_records)[..] else {
        panic!("{:?}", world.callee_records);
    };
    assert_eq!(callee.attempt.outcome, Outcome::Failed(Failure::Cancelled));
    let follower = |at: usize| Message::read(world.messages[at].1.clone().into()).unwrap();
    let branch = |message: &Message| message.top_via().unwrap().branch().unwrap().to_owned();
    let (invite, cancel, ack) = (follower(0), follower(2), follower(5));
    assert_eq!(branch(&invite), branch(&cancel));
    assert_eq!(branch(&invite), branch(&ack));
    assert_eq!(cancel.header(Name::To), invite.header(Name::To));
    assert_eq!(ack.header(Name::To), follower(4).header(Name::To));
    assert_eq!((world.callers.sessions(), world.callees.sessions()), (0, 0));
}

#[test]
fn an_answer_that_crosses_the_cancel_is_acknowledged_and_ended() {
    let ring = 20 * SECOND - milliseconds(15);
    let (mut world, script) = world(1, Transport::Udp, SECOND, ring);
    world.begin(script, 1, 2);
    world.run(60 * SECOND);
    assert_eq!(
        world.story(),
        "INVITE <180> <200> CANCEL ACK BYE <200/CANCEL> <200/BYE>"
    );
    let [call] = ended(&world.records)[..] else {
        panic!("{:?}", world.records);
    };
    assert_eq!(call.attempt.outcome, Outcome::Failed(Failure::GivenUp));
    assert_eq!((world.callers.sessions(), world.callees.sessions()), (0, 0));
}

#[test]
fn a_callee_who_never_hears_the_ack_gives_up_and_hangs_up() {
    let (mut world, script) = world(1, Transport::Tcp, 100 * SECOND, Duration::ZERO);
    world.fate = Box::new(|_, message| match message.method() {
        Some(Method::Ack) => Fate::Lost,
        _ => Fate::Arrives,
    });
    world.begin(script, 1, 2);
    world.run(60 * SECOND);
    let story = world.story();
    // 2xx responses are repeated over every transport, at T1 doubling up to T2 (RFC 3261 section
    // 13.3.1.4): at 0.5, 1.5, 3.5, 7.5, 11.5 … 31.5 s.
    assert_eq!(story.matches("<200>").count(), 11, "{story}");
    assert!(story.ends_with("<BYE> 200/BYE"), "{story}");
    let [callee] = ended(&world.callee_records)[..] else {
        panic!("{:?}", world.callee_records);
    };
    assert_eq!(callee.attempt.outcome, Outcome::Failed(Failure::NoAck));
    let [call] = ended(&world.records)[..] else {
        panic!("{:?}", world.records);
    };
    assert_eq!(call.attempt.outcome, Outcome::Failed(Failure::HungUp));
    assert_eq!((world.callers.sessions(), world.callees.sessions()), (0, 0));
}

#[test]
fn many_calls_through_a_bad_network_all_end() {
    for seed in 0..20 {
        let (mut world, script) = world(50, Transport::Udp, milliseconds(300), milliseconds(100));
        world.fate = losing(0.1, seed);
        for round in 0..4 {
            for user in 1..=50 {
                world.begin(script, user, 50 + user);
            }
            world.run(milliseconds(100 + round));
        }
        world.run(200 * SECOND);
        let calls = ended(&world.records);
        assert_eq!(calls.len(), 200);
        let completed = calls
            .iter()
            .filter(|call| call.attempt.outcome == Outcome::Completed)
            .count();
        // Seven or eleven attempts of everything: hardly ever is one lost for good.
        assert!(completed >= 198, "{completed} with seed {seed}");
        assert_eq!((world.callers.sessions(), world.callees.sessions()), (0, 0));
        assert_eq!(world.callers.in_flight(), 0);
        let callees = ended(&world.callee_records);
        assert_eq!(callees.len(), 200, "seed {seed}");
    }
}

#[test]
fn a_seed_repeats_everything() {
    let story = |seed| {
        let (mut world, script) = world(5, Transport::Udp, milliseconds(50), milliseconds(30));
        world.fate = losing(0.2, seed);
        for user in 1..=5 {
            world.begin(script, user, 5 + user);
        }
        world.run(100 * SECOND);
        world.messages
    };
    assert!(story(3) == story(3));
    assert!(story(3) != story(4));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(4)))]

    /// Whatever is lost or repeated: every call ends, in its time, and leaves nothing behind.
    #[test]
    fn every_call_ends_and_leaves_nothing(
        fates in prop::collection::vec(0_u8..8, 0..60),
        hold in 0_u64..40,
        ring in 0_u64..40,
        is_reliable in any::<bool>(),
    ) {
        let transport = if is_reliable { Transport::Tcp } else { Transport::Udp };
        let (mut world, script) = world(2, transport, Duration::from_secs(hold), Duration::from_secs(ring));
        let mut fates = fates.into_iter();
        world.fate = Box::new(move |_, _| match fates.next() {
            _ if is_reliable => Fate::Arrives,
            Some(0..2) => Fate::Lost,
            Some(2) => Fate::Repeated,
            _ => Fate::Arrives,
        });
        world.begin(script, 1, 3);
        world.begin(script, 2, 4);
        world.run(Duration::from_secs(400));
        prop_assert_eq!(ended(&world.records).len(), 2);
        prop_assert_eq!((world.callers.sessions(), world.callees.sessions()), (0, 0));
    }
}
