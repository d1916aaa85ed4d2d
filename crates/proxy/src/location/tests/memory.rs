//! What every store does, shown with the one in memory.

use std::time::{Duration, Instant};

use super::*;

#[test]
fn what_has_expired_goes_and_its_user_stays_known() {
    let now = Instant::now();
    let mut worker = Worker::in_memory(10);
    worker.register(
        "bob",
        1,
        "<sip:a@127.0.0.1>;expires=90, <sip:b@127.0.0.1>;expires=600",
        now,
    );
    worker.maintain(now);
    assert_eq!(worker.counts(), (1, 2));
    worker.maintain(now + Duration::from_secs(100));
    assert_eq!(worker.counts(), (1, 1));
    worker.maintain(now + Duration::from_secs(700));
    assert_eq!(worker.counts(), (1, 0));
    let later = now + Duration::from_secs(800);
    assert_eq!(count(&worker.look_up("bob", later)), Some(0));
    assert_eq!(worker.look_up("alice", later), Answer::Unknown);
}

#[test]
fn a_full_store_refuses_new_users_until_others_have_left() {
    let now = Instant::now();
    let mut worker = Worker::in_memory(2);
    for user in ["alice", "bob"] {
        let answer = worker.register(user, 1, "<sip:a@127.0.0.1>;expires=60", now);
        assert_eq!(count(&answer), Some(1));
    }
    let contact = "<sip:a@127.0.0.1>;expires=600";
    assert_eq!(worker.register("carol", 1, contact, now), Answer::Full);
    assert_eq!(count(&worker.register("bob", 2, contact, now)), Some(1));
    let later = now + Duration::from_secs(61);
    assert_eq!(count(&worker.register("carol", 2, contact, later)), Some(1));
    assert_eq!(worker.counts(), (2, 2));
    assert_eq!(worker.look_up("alice", later), Answer::Unknown);
}

#[test]
fn octets_are_bounded_and_what_takes_no_more_is_refreshed() {
    let now = Instant::now();
    let long = |user: &str| format!("<sip:{user}{}@127.0.0.1>;expires=60", "x".repeat(900));
    let mut worker = Worker::new(&LocationConfig {
        maximum_octets: 2500,
        ..LocationConfig::default()
    });
    for user in ["alice", "bob"] {
        assert_eq!(count(&worker.register(user, 1, &long("a"), now)), Some(1));
    }
    let full = worker.store.statistics().octets;
    assert!((2000..=2500).contains(&full), "{full}");
    assert_eq!(worker.register("carol", 1, &long("a"), now), Answer::Full);
    let two = format!("{}, {}", long("a"), long("b"));
    assert_eq!(worker.register("bob", 2, &two, now), Answer::Full);
    assert_eq!(count(&worker.register("bob", 3, &long("a"), now)), Some(1));
    assert_eq!(worker.store.statistics().octets, full);
    assert_eq!(worker.counts(), (2, 2));

    // Room is made by what has expired, and by those who are gone.
    let later = now + Duration::from_secs(61);
    for user in ["carol", "dave"] {
        assert_eq!(count(&worker.register(user, 2, &long("a"), later)), Some(1));
    }
    assert_eq!(worker.counts(), (2, 2));
    worker.maintain(later + Duration::from_secs(200));
    assert_eq!(worker.counts(), (2, 0));
    let octets = worker.store.statistics().octets;
    assert!(octets < 200, "{octets}");
}

#[test]
fn removing_what_is_not_there_makes_nobody_known() {
    let now = Instant::now();
    let mut worker = Worker::in_memory(2);
    let answer = worker.register("bob", 1, "<sip:a@127.0.0.1>;expires=0", now);
    assert_eq!(answer, Answer::Bindings([].into()));
    assert_eq!(worker.counts(), (0, 0));
}

#[test]
fn two_workers_see_the_same_bindings() {
    let now = Instant::now();
    let mut worker = Worker::in_memory(2);
    worker.register("bob", 1, "<sip:a@127.0.0.1>", now);
    let mut other = worker.store.handle();
    let (id, bob, _) = worker
        .registering
        .update("bob", 2, "<sip:a@127.0.0.1>", now);
    other.submit(now, id, StoreQuery::Lookup(bob));
    let (_, answer) = other.next_now().expect("an answer at once");
    assert_eq!(count(&answer), Some(1));
}
