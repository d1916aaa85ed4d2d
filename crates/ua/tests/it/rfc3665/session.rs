//! Section 3: session establishment, from both sides.

use bytes::Bytes;
use ua::{CallNumber, EndReason, UaEvent};

use super::flow::Part;

/// Alice, with these outbound proxies, calls Bob with the offer of F1.
fn alice(flow: &str, proxies: &[&str]) -> (Part, CallNumber) {
    let of_record = "sip:alice@atlanta.example.com";
    let mut alice = Part::new(flow, "Alice", of_record, |account| {
        account.outbound_proxies = proxies.iter().map(|&uri| uri.to_owned()).collect();
    });
    let (now, account, offer) = (alice.now, alice.account, alice.description("F1"));
    let call = alice
        .ua
        .dial(now, account, "sip:bob@biloxi.example.com", offer);
    (alice, call)
}

/// Bob, who is called by the message of this name.
fn bob(flow: &str, invite: &str) -> (Part, CallNumber) {
    let mut bob = Part::new(flow, "Bob", "sip:bob@biloxi.example.com", |_| {});
    bob.until(invite);
    let call = bob.incoming();
    (bob, call)
}

impl Part {
    fn ring(&mut self, call: CallNumber) {
        let rings = self.ua.ring(self.now, call, Bytes::new());
        rings.expect("it was not answered yet");
    }

    /// Answers with the description in that message.
    fn answer(&mut self, call: CallNumber, name: &str) {
        let description = self.description(name);
        let answers = self.ua.answer(self.now, call, description);
        answers.expect("it was not answered yet");
    }

    fn hang_up(&mut self, call: CallNumber) {
        self.ua.hang_up(self.now, call).expect("there is a call");
    }

    fn ended(&self, call: CallNumber, reason: EndReason) {
        assert_eq!(self.last_event(), &UaEvent::Ended { call, reason });
    }

    fn refused(&self, call: CallNumber, status: u16, reason: &str) {
        let reason = reason.to_owned();
        self.ended(call, EndReason::Refused { status, reason });
    }
}

#[test]
fn section_3_1_successful_session_establishment() {
    let flow = include_str!("flows/3.1.txt");
    let (mut alice, call) = alice(flow, &[]);
    alice.finish();
    alice.ended(call, EndReason::Remote);

    let (mut bob, call) = bob(flow, "F1");
    bob.ring(call);
    bob.until("F2");
    bob.answer(call, "F3");
    bob.until("F4");
    bob.hang_up(call);
    bob.finish();
    bob.ended(call, EndReason::Local);
}

#[test]
fn section_3_2_session_establishment_through_two_proxies() {
    let flow = include_str!("flows/3.2.txt");
    let (mut alice, call) = alice(flow, &["sip:ss1.atlanta.example.com;lr"]);
    alice.finish();
    alice.ended(call, EndReason::Remote);

    let (mut bob, call) = bob(flow, "F7");
    bob.ring(call);
    bob.until("F9");
    bob.answer(call, "F12");
    bob.until("F17");
    bob.hang_up(call);
    bob.finish();
}

#[test]
fn section_3_3_session_with_multiple_proxy_authentication() {
    let flow = include_str!("flows/3.3.txt");
    let (mut alice, call) = alice(flow, &["sip:ss1.atlanta.example.com;lr"]);
    alice.finish();
    let answered =
        |event: &UaEvent| matches!(event, UaEvent::Answered { call: of, .. } if *of == call);
    assert!(alice.events.iter().any(answered));

    let (mut bob, call) = bob(flow, "F15");
    bob.answer(call, "F16");
    bob.finish();
}

#[test]
fn section_3_4_successful_session_with_proxy_failure() {
    let flow = include_str!("flows/3.4.txt");
    let proxies = [
        "sip:ss1.atlanta.example.com;lr",
        "sip:ss2.biloxi.example.com",
    ];
    let (mut alice, call) = alice(flow, &proxies);
    alice.finish();
    alice.ended(call, EndReason::Remote);

    let (mut bob, call) = bob(flow, "F12");
    bob.ring(call);
    bob.until("F14");
    bob.answer(call, "F16");
    bob.until("F19");
    bob.hang_up(call);
    bob.finish();
}

#[test]
fn section_3_5_session_through_a_sip_alg() {
    let flow = include_str!("flows/3.5.txt");
    let (mut alice, call) = alice(flow, &["sip:alg1.atlanta.example.com;lr"]);
    alice.until("F12");
    alice.hang_up(call);
    alice.finish();
    alice.ended(call, EndReason::Local);

    let (mut bob, call) = bob(flow, "F4");
    bob.ring(call);
    bob.until("F6");
    bob.answer(call, "F9");
    bob.finish();
    bob.ended(call, EndReason::Remote);
}

#[test]
fn section_3_6_session_via_redirect_and_proxy_servers_with_sdp_in_ack() {
    let flow = include_str!("flows/3.6.txt");
    let (mut alice, call) = alice(flow, &[]);
    alice.until("F10");
    let offered = UaEvent::Answered {
        call,
        description: alice.description("F9"),
    };
    assert_eq!(alice.last_event(), &offered);
    let answer = alice.description("F11");
    let acknowledged = alice.ua.acknowledge(alice.now, call, answer);
    acknowledged.expect("its offer is to be answered");
    alice.finish();
    alice.ended(call, EndReason::Remote);

    let (mut bob, call) = bob(flow, "F5");
    bob.ring(call);
    bob.until("F7");
    bob.answer(call, "F9");
    bob.until("F12");
    let established = UaEvent::Established {
        call,
        description: bob.description("F12"),
    };
    assert_eq!(bob.last_event(), &established);
    bob.hang_up(call);
    bob.finish();
}

#[test]
fn section_3_7_session_with_re_invite_after_an_address_change() {
    let flow = include_str!("flows/3.7.txt");
    let (mut alice, call) = alice(flow, &[]);
    alice.until("F9");
    let offered = UaEvent::Offer {
        call,
        description: alice.description("F9"),
    };
    assert_eq!(alice.last_event(), &offered);
    let answer = alice.description("F10");
    let answered = alice.ua.answer_offer(alice.now, call, answer);
    answered.expect("an offer waits");
    alice.until("F11");
    alice.hang_up(call);
    alice.finish();

    let (mut bob, call) = bob(flow, "F2");
    bob.ring(call);
    bob.until("F4");
    bob.answer(call, "F6");
    bob.until("F8");
    bob.move_to("192.0.2.55:5060");
    let offer = bob.description("F9");
    let offered = bob.ua.offer(bob.now, call, offer);
    offered.expect("the call is answered");
    bob.until("F11");
    assert!(matches!(bob.last_event(), UaEvent::OfferAccepted { .. }));
    bob.finish();
    bob.ended(call, EndReason::Remote);
}

#[test]
fn section_3_8_unsuccessful_no_answer() {
    let flow = include_str!("flows/3.8.txt");
    let (mut alice, call) = alice(flow, &["sip:ss1.atlanta.example.com;lr"]);
    alice.until("F8");
    alice.hang_up(call);
    alice.finish();
    alice.ended(call, EndReason::Local);

    let (mut bob, call) = bob(flow, "F4");
    bob.ring(call);
    bob.finish();
    bob.ended(call, EndReason::Remote);
}

#[test]
fn section_3_9_unsuccessful_busy() {
    let flow = include_str!("flows/3.9.txt");
    let (mut alice, call) = alice(flow, &["sip:ss1.atlanta.example.com;lr"]);
    alice.finish();
    alice.refused(call, 486, "Busy Here");

    let (mut bob, call) = bob(flow, "F4");
    let refuses = bob.ua.refuse(bob.now, call, 486, "Busy Here");
    refuses.expect("it was not answered");
    bob.finish();
}

#[test]
fn section_3_10_unsuccessful_no_response_from_user_agent() {
    let flow = include_str!("flows/3.10.txt");
    let (mut alice, call) = alice(flow, &["sip:ss1.atlanta.example.com;lr"]);
    alice.finish();
    alice.refused(call, 480, "No Response");
}

#[test]
fn section_3_11_unsuccessful_temporarily_unavailable() {
    let flow = include_str!("flows/3.11.txt");
    let (mut alice, call) = alice(flow, &["sip:ss1.atlanta.example.com;lr"]);
    alice.finish();
    alice.refused(call, 480, "Temporarily Unavailable");

    let (mut bob, call) = bob(flow, "F4");
    bob.ring(call);
    bob.until("F6");
    let refuses = bob.ua.refuse(bob.now, call, 480, "Temporarily Unavailable");
    refuses.expect("it was not answered");
    bob.finish();
}
