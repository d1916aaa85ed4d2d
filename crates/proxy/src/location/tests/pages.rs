//! Going through all that is in a store, a page at a time.

use std::collections::BTreeMap;

use super::*;
use crate::core::{Page, Place};

const CONTACT: &str = "<sip:a@127.0.0.1:5062>;expires=3000";

fn page(worker: &mut Worker, from: Place, limit: usize) -> Page {
    let now = Instant::now();
    let (id, ..) = worker.registering.update("x", 1, CONTACT, now);
    match worker.ask(now, id, StoreQuery::Page { from, limit }) {
        Answer::Page(page) => page,
        other => panic!("{other:?}"),
    }
}

/// How often each user comes up whose bindings there are, where others come and go between two pages.
fn seen(worker: &mut Worker, limit: usize) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    let mut from = Place::default();
    for number in 0.. {
        let page = page(worker, from, limit);
        assert!(page.users.len() <= limit);
        for (user, bindings) in page.users {
            assert_eq!(bindings.len(), 1, "{user}");
            assert_eq!(bindings[0].contact(), "sip:a@127.0.0.1:5062");
            *seen.entry(user.user().to_owned()).or_insert(0) += 1;
        }
        let Some(next) = page.next else {
            break;
        };
        assert!(next > from);
        from = next;
        worker.register(&format!("new{number}"), 1, CONTACT, Instant::now());
        if number > 0 {
            let former = format!("new{}", number - 1);
            worker.register(
                &former,
                2,
                "<sip:a@127.0.0.1:5062>;expires=0",
                Instant::now(),
            );
        }
    }
    seen.retain(|user, _| user.starts_with('u'));
    seen
}

fn fill(worker: &mut Worker, users: usize) -> BTreeMap<String, usize> {
    let names = (0..users).map(|number| format!("u{number}"));
    names
        .map(|user| {
            let answer = worker.register(&user, 1, CONTACT, Instant::now());
            assert_eq!(count(&answer), Some(1));
            (user, 1)
        })
        .collect()
}

#[test]
fn everybody_with_a_binding_comes_up_once() {
    let mut worker = Worker::in_memory(10_000);
    assert_eq!(page(&mut worker, Place::default(), 10), Page::default());
    let mut expected = fill(&mut worker, 700);
    worker.register("u5", 2, "<sip:a@127.0.0.1:5062>;expires=0", Instant::now());
    expected.remove("u5");
    for limit in [1, 3, 64, 5000] {
        assert_eq!(seen(&mut worker, limit), expected, "{limit}");
    }
    // A place comes from nobody but a store, but it may be any.
    assert_eq!(page(&mut worker, Place(u64::MAX), 0), Page::default());
}

#[test]
fn what_is_in_a_file_comes_up_when_it_is_opened_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = in_file(&directory.path().join("a.db"));
    let expected = fill(&mut Worker::new(&config), 100);
    assert_eq!(seen(&mut Worker::new(&config), 7), expected);
}
