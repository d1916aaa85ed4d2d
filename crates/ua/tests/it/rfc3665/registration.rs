//! Section 2: registration.

use ua::{RegistrationState, UaEvent};

use super::flow::Part;

const ADDRESS_OF_RECORD: &str = "sips:bob@biloxi.example.com";

/// Bob registers as in section 2.1.
fn registered() -> Part {
    let flow = include_str!("flows/2.1.txt");
    let mut bob = Part::new(flow, "Bob", ADDRESS_OF_RECORD, |_| {});
    bob.ua.register(bob.now, bob.account);
    bob.finish();
    bob
}

#[test]
fn section_2_1_successful_new_registration() {
    let bob = registered();
    let state = RegistrationState::Registered {
        expires: 3_600,
        flows: 1,
    };
    let account = bob.account;
    assert_eq!(bob.last_event(), &UaEvent::Registration { account, state });
}

#[test]
fn section_2_2_update_of_contact_list() {
    let mut bob = registered();
    bob.go_on_with(include_str!("flows/2.2.txt"));
    bob.ua.register(bob.now, bob.account);
    bob.finish();
    assert_eq!(bob.events.len(), 2, "registered twice, and challenged once");
}

#[test]
fn section_2_3_request_for_current_contact_list() {
    let mut bob = registered();
    bob.go_on_with(include_str!("flows/2.3.txt"));
    bob.ua.fetch_bindings(bob.now, bob.account);
    bob.finish();
    let UaEvent::Bindings { contacts, .. } = bob.last_event() else {
        panic!("{:?}", bob.last_event());
    };
    assert_eq!(contacts.len(), 2);
    assert!(contacts[0].starts_with("sips:bob@"), "{contacts:?}");
    assert_eq!(contacts[1], "mailto:bob@biloxi.example.com");
}

#[test]
fn section_2_4_cancellation_of_registration() {
    let mut bob = registered();
    bob.go_on_with(include_str!("flows/2.4.txt"));
    bob.ua.unregister_all(bob.now, bob.account);
    bob.finish();
    let state = RegistrationState::Unregistered;
    let account = bob.account;
    assert_eq!(bob.last_event(), &UaEvent::Registration { account, state });
}

#[test]
fn section_2_5_unsuccessful_registration() {
    let flow = include_str!("flows/2.5.txt");
    let mut bob = Part::new(flow, "Bob", ADDRESS_OF_RECORD, |_| {});
    bob.ua.register(bob.now, bob.account);
    bob.until("F4");
    let state = RegistrationState::Failed {
        status: 401,
        reason: "Unauthorized".to_owned(),
    };
    let account = bob.account;
    assert_eq!(bob.last_event(), &UaEvent::Registration { account, state });
}
