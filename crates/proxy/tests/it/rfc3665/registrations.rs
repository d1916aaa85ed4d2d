//! Section 2: registrations.

use std::time::Duration;

use proxy::core::{AuthenticationPolicy, Policy};
use sip::Name;
use sip::digest::{Algorithm, Challenge};

use super::stage::{BILOXI, Stage};

/// The registrar of section 2.
fn registrar() -> Stage {
    let policy = Policy {
        authentication: AuthenticationPolicy {
            register: true,
            algorithms: vec![Algorithm::Md5],
            ..AuthenticationPolicy::default()
        },
        ..Policy::default()
    };
    Stage::new("tls").with("ss2", &[BILOXI], policy)
}

const BOB: &str = "bob over tls";

/// A successful registration, the first two messages of which are those of section 2.1.
fn registered() -> Stage {
    let mut stage = registrar();
    stage.goes(BOB, "ss2", 0);
    stage.goes("ss2", BOB, 1);
    stage.goes(BOB, "ss2", 2);
    stage.goes("ss2", BOB, 3);
    stage.passes_at("ss2", Duration::from_secs(40));
    stage
}

#[test]
fn section_2_1_successful_new_registration() {
    registered().ends();
}

#[test]
fn section_2_2_update_of_contact_list() {
    let mut stage = registered();
    stage.goes(BOB, "ss2", 4);
    stage.goes("ss2", BOB, 5);
    stage.ends();
}

#[test]
fn section_2_3_request_for_current_contact_list() {
    let mut stage = registered();
    stage.goes(BOB, "ss2", 4);
    stage.goes("ss2", BOB, 5);
    stage.passes_at("ss2", Duration::from_secs(40));
    stage.goes(BOB, "ss2", 6);
    stage.goes("ss2", BOB, 7);
    stage.ends();
}

#[test]
fn section_2_4_cancellation_of_registration() {
    let mut stage = registered();
    stage.goes(BOB, "ss2", 8);
    stage.goes("ss2", BOB, 9);
    stage.ends();
}

/// Bob does not know his password, and is asked for it again.
#[test]
fn section_2_5_unsuccessful_registration() {
    let mut stage = registrar();
    let bench = stage.servers.get_mut("ss2").expect("a server");
    bench
        .passwords
        .insert("bob".to_owned(), "another".to_owned());
    stage.goes(BOB, "ss2", 10);
    stage.goes("ss2", BOB, 11);
    stage.goes(BOB, "ss2", 12);
    stage.goes("ss2", BOB, 13);
    let [first, second] = [0, 1].map(|place| {
        let challenge = stage.users[BOB].heard[place].header(Name::WwwAuthenticate);
        let challenge = Challenge::parse(challenge.expect("one").as_bytes());
        challenge.expect("a challenge")
    });
    assert_ne!(first.nonce, second.nonce);
    assert!(!second.is_stale);
    stage.ends();
}
