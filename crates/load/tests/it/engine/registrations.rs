//! Registrations, and requests outside of calls, with a registrar that asks for passwords.

use std::sync::Arc;
use std::time::Duration;

use load::engine::{Directory, EngineConfig, NotBegun, RegistrationPlan};
use load::record::{Failure, Outcome, Record, RegistrationRecord};
use load::script::builtin;
use sip::digest::{Authorization, Credentials};
use sip::{Message, Method, Name, Transport};

use super::world::{From, World, config};

const SECOND: Duration = Duration::from_secs(1);

/// What a registrar says to a REGISTER.
type Registrar = Box<dyn FnMut(&Message) -> Message>;

/// Lets time pass with a registrar in the place of the callees.
fn run(world: &mut World, registrar: &mut Registrar, time: Duration) {
    let end = world.now + time;
    let mut answered = world.messages.len();
    loop {
        world.carry();
        while let Some((from, octets)) = world.messages.get(answered).cloned() {
            answered += 1;
            if from == From::Callers {
                let request = Message::read(octets.into()).unwrap();
                let response = registrar(&request).to_bytes();
                world.send(From::Callees, response.to_vec());
            }
        }
        if world.now >= end {
            return;
        }
        world.run(Duration::from_millis(10).min(end - world.now));
        world.drop_for_callees();
    }
}

fn says_yes() -> Registrar {
    Box::new(|request| {
        let contact = request.header(Name::Contact).unwrap().to_owned();
        let expires = request.expires().unwrap();
        let mut response = Message::response_to(request, 200, "OK");
        response.set_to_tag("registrar");
        response.with(Name::Contact, format!("{contact};expires={expires}"))
    })
}

fn registrations(world: &World) -> Vec<&RegistrationRecord> {
    world
        .records
        .iter()
        .map(|record| match record {
            Record::Registration(record) => record,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn world(users: u32, plan: RegistrationPlan, password: Option<&str>) -> World {
    let callers = EngineConfig {
        registration: plan,
        directory: Arc::new(Directory {
            password: password.map(str::to_owned),
            ..Directory::default()
        }),
        ..config(1, users)
    };
    let mut world = World::with(callers, config(1_000, 1), Transport::Udp);
    let register = builtin::register().unwrap();
    world.callers.add_script(Arc::new(register));
    world
}

/// A registrar lists all bindings of a user, whoever made them (RFC 3261 section 10.2.4).
#[test]
fn the_time_of_a_binding_is_that_of_our_own() {
    let own = "<sip:user1@127.0.0.1:5070;transport=udp>";
    for (contacts, expires) in [
        (
            vec![format!("<sip:user1@192.0.2.1>;expires=7, {own};expires=90")],
            90,
        ),
        (
            vec![
                "<sip:user1@192.0.2.1>;expires=7".to_owned(),
                "<sip:%75ser1@127.0.0.1:5070;transport=UDP>;expires=80".to_owned(),
            ],
            80,
        ),
        (vec!["<sip:rewritten@192.0.2.1>;expires=7".to_owned()], 7),
        (
            vec!["<sip:a@192.0.2.1>;expires=7, <sip:b@192.0.2.1>;expires=8".to_owned()],
            60,
        ),
    ] {
        let mut world = world(1, RegistrationPlan::default(), None);
        let mut registrar: Registrar = Box::new(move |request| {
            let mut response = Message::response_to(request, 200, "OK");
            response.set_to_tag("registrar");
            for contact in &contacts {
                response = response.with(Name::Contact, &contact[..]);
            }
            response.with(Name::Expires, "60")
        });
        world.callers.register(world.now, world.now, 1).unwrap();
        run(&mut world, &mut registrar, SECOND);
        let granted = registrations(&world)[0].expires;
        assert_eq!(granted, Some(expires * SECOND));
    }
}

#[test]
fn users_register_refresh_and_leave() {
    let plan = RegistrationPlan {
        expires: 100 * SECOND,
        refresh_after: Some(0.9),
        spread: 0.4,
        retry_after: SECOND,
    };
    let mut world = world(20, plan, None);
    for user in 1..=20 {
        world.callers.register(world.now, world.now, user).unwrap();
        let again = world.callers.register(world.now, world.now, user);
        assert_eq!(again, Err(NotBegun::Busy));
    }
    run(&mut world, &mut says_yes(), SECOND);
    assert_eq!(world.callers.registered_users(), 20);
    assert_eq!(world.records.len(), 20);
    run(&mut world, &mut says_yes(), 99 * SECOND);
    assert_eq!(world.callers.registered_users(), 20);
    let records = registrations(&world);
    assert!(records.len() >= 40, "{}", records.len());
    for record in &records[20..40] {
        assert!(record.is_refresh && record.attempt.is_completed());
        assert_eq!(record.expires, Some(100 * SECOND));
    }
    // They have registered at once, but do not refresh at once.
    let begun: Vec<_> = records[20..40]
        .iter()
        .map(|record| record.attempt.begun)
        .collect();
    let spread = begun
        .iter()
        .max()
        .unwrap()
        .duration_since(*begun.iter().min().unwrap());
    assert!(spread > 10 * SECOND, "{spread:?}");
    // One series for each user: one Call-ID, ascending numbers (RFC 3261 section 10.2).
    let of_first: Vec<_> = world
        .messages
        .iter()
        .filter(|(from, _)| *from == From::Callers)
        .map(|(_, octets)| Message::read(octets.clone().into()).unwrap())
        .filter(|message| message.from().unwrap().uri().contains("user1@"))
        .collect();
    assert!(of_first.len() >= 2);
    for (at, message) in of_first.iter().enumerate() {
        assert_eq!(message.call_id(), of_first[0].call_id());
        assert_eq!(message.cseq(), Some((at as u32 + 1, Method::Register)));
    }
    for user in 1..=20 {
        let _ = world.callers.unregister(world.now, world.now, user);
    }
    run(&mut world, &mut says_yes(), SECOND);
    assert_eq!(world.callers.registered_users(), 0);
    let records = world.records.len();
    run(&mut world, &mut says_yes(), 200 * SECOND);
    assert_eq!(world.records.len(), records);
}

#[test]
fn a_binding_that_is_not_refreshed_expires() {
    let plan = RegistrationPlan {
        expires: 60 * SECOND,
        refresh_after: None,
        ..RegistrationPlan::default()
    };
    let mut world = world(1, plan, None);
    world.callers.register(world.now, world.now, 1).unwrap();
    run(&mut world, &mut says_yes(), 59 * SECOND);
    assert_eq!(world.callers.registered_users(), 1);
    run(&mut world, &mut says_yes(), 2 * SECOND);
    assert_eq!(world.callers.registered_users(), 0);
    assert_eq!(world.records.len(), 1);
}

/// A registrar that asks for a password; a nonce is good for so many requests.
fn asks(password: &'static str, uses: u32) -> Registrar {
    let mut nonce = 0;
    let mut used = 0;
    Box::new(move |request| {
        let expected = format!("nonce{nonce}");
        let mut is_right = false;
        let mut is_stale = false;
        if let Some(value) = request.header_bytes(Name::Authorization) {
            let authorization = Authorization::parse(value).unwrap();
            let credentials = Credentials::new("user1", "registrar", password.as_bytes());
            is_right = authorization.is_proved_by(&credentials, "REGISTER");
            is_stale = is_right && authorization.nonce != expected;
            if is_right && !is_stale {
                used += 1;
                assert_eq!(authorization.protection.unwrap().count(), used);
            }
        }
        if is_right && !is_stale {
            if used == uses {
                nonce += 1;
                used = 0;
            }
            return says_yes()(request);
        }
        let stale = if is_stale { ", stale=true" } else { "" };
        let nonce = format!("nonce{nonce}");
        let mut response = Message::response_to(request, 401, "Unauthorized");
        response.set_to_tag("registrar");
        response.with(
            Name::WwwAuthenticate,
            format!("Digest realm=\"registrar\", nonce=\"{nonce}\", algorithm=SHA-256, qop=\"auth\"{stale}"),
        )
    })
}

#[test]
fn passwords_are_given_and_nonces_used_again() {
    let plan = RegistrationPlan {
        expires: 100 * SECOND,
        refresh_after: Some(0.5),
        spread: 0.0,
        retry_after: SECOND,
    };
    let mut world = world(1, plan, Some("secret"));
    world.callers.register(world.now, world.now, 1).unwrap();
    let mut registrar = asks("secret", 2);
    run(&mut world, &mut registrar, 160 * SECOND);
    let again: Vec<_> = registrations(&world)
        .iter()
        .map(|record| {
            (
                record.attempt.is_completed(),
                record.attempt.authentications,
            )
        })
        .collect();
    // The second goes through at once with the nonce of the first, the third finds it too old.
    assert_eq!(again, [(true, 1), (true, 0), (true, 1), (true, 0)]);
    let first = registrations(&world)[0];
    assert_eq!(first.attempt.status, Some(200));
    // The way to this registrar takes no time, the way back 10 ms, twice.
    assert_eq!(first.answered, Some(Duration::from_millis(20)));
}

#[test]
fn a_wrong_password_is_tried_once() {
    for (password, requests) in [(Some("wrong"), 2), (None, 1)] {
        let plan = RegistrationPlan {
            refresh_after: None,
            ..RegistrationPlan::default()
        };
        let mut world = world(1, plan, password);
        world.callers.register(world.now, world.now, 1).unwrap();
        run(&mut world, &mut asks("secret", 1), 60 * SECOND);
        let sent = world.log.iter().filter(|(_, what)| what == "REGISTER");
        assert_eq!(sent.count(), requests);
        let records = registrations(&world);
        let attempt = &records[0].attempt;
        assert_eq!(attempt.outcome, Outcome::Failed(Failure::Unauthorized));
        assert_eq!(attempt.status, Some(401));
        assert_eq!(world.callers.registered_users(), 0);
    }
}

#[test]
fn a_registrar_may_want_a_longer_time() {
    let plan = RegistrationPlan {
        expires: 60 * SECOND,
        ..RegistrationPlan::default()
    };
    let mut world = world(1, plan, None);
    world.callers.register(world.now, world.now, 1).unwrap();
    let mut registrar: Registrar = Box::new(|request| {
        if request.expires().unwrap() < 300 {
            let response = Message::response_to(request, 423, "Interval Too Brief");
            return response.with(Name::MinExpires, "300");
        }
        says_yes()(request)
    });
    run(&mut world, &mut registrar, SECOND);
    let records = registrations(&world);
    assert!(records[0].attempt.is_completed());
    assert_eq!(records[0].expires, Some(300 * SECOND));
}

#[test]
fn options_and_messages_are_answered() {
    let mut world = World::new(1, Transport::Tcp);
    let options = world.scripts(
        builtin::options().unwrap(),
        builtin::accept(Method::Message).unwrap(),
    );
    let message = world
        .callers
        .add_script(Arc::new(builtin::message().unwrap()));
    world.begin(options, 1, 2);
    world.begin(message, 1, 2);
    world.run(SECOND);
    assert_eq!(world.story(), "OPTIONS MESSAGE <200/OPTIONS> <200/MESSAGE>");
    for (record, method) in world.records.iter().zip([Method::Options, Method::Message]) {
        let Record::Request(record) = record else {
            panic!("{record:?}");
        };
        assert!(record.attempt.is_completed());
        assert_eq!(record.method, method);
        assert_eq!(record.answered, Some(Duration::from_millis(20)));
    }
    // No script was waiting for the OPTIONS: the engine has answered it.
    assert_eq!(world.callees.counters().stray_requests, 1);
    assert_eq!(world.callee_records.len(), 1);
}
