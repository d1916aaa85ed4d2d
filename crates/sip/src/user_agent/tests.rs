use rand::SeedableRng;

use super::*;
use crate::dialog::Dialog;

fn alice() -> UserAgent {
    user("sip:alice@atlanta.example.com", 1)
}

fn bob() -> UserAgent {
    user("sip:bob@biloxi.example.com", 2)
}

fn user(address_of_record: &str, host: u8) -> UserAgent {
    let address = ([192, 0, 2, host], 5060).into();
    let rng = ChaCha12Rng::seed_from_u64(host.into());
    UserAgent::new(address_of_record, Transport::Sctp, address, rng)
}

/// A request as it goes on the wire.
fn sent(user: &UserAgent, mut request: Message) -> Message {
    user.push_via(&mut request, "z9hG4bKnashds8");
    let message = Message::read(request.to_bytes()).expect("a message");
    assert_eq!(message.validate(), Ok(()), "{message}");
    message
}

fn text(message: &Message, name: Name<'_>) -> String {
    message.header(name).unwrap_or_default().to_owned()
}

/// RFC 3665 section 2.1.
#[test]
fn registrations_count_upwards_under_one_call_id() {
    let mut bob = bob();
    let mut registration = bob.registration("sip:biloxi.example.com");
    let first = bob.register(&mut registration, 3600);
    let first = sent(&bob, first);
    assert_eq!(first.method(), Some(&Method::Register));
    assert_eq!(first.request_uri(), Some("sip:biloxi.example.com"));
    let user = "<sip:bob@biloxi.example.com>";
    assert_eq!(text(&first, Name::To), user);
    assert!(text(&first, Name::From).starts_with(&format!("{user};tag=")));
    let contact = "<sip:bob@192.0.2.2:5060;transport=sctp>";
    assert_eq!(text(&first, Name::Contact), contact);
    assert_eq!(first.expires(), Some(3600));
    assert_eq!(first.max_forwards(), Some(70));
    let via = "SIP/2.0/SCTP 192.0.2.2:5060;branch=z9hG4bKnashds8;rport";
    assert_eq!(text(&first, Name::Via), via);

    let second = bob.register(&mut registration, 0);
    let second = sent(&bob, second);
    assert_eq!(second.expires(), Some(0));
    assert_eq!(second.call_id(), first.call_id());
    assert_eq!(text(&second, Name::From), text(&first, Name::From));
    let numbers = [&first, &second].map(|request| request.cseq().map(|(number, _)| number));
    assert_eq!(numbers, [Some(1), Some(2)]);
    let other = bob.registration("sip:biloxi.example.com");
    assert_ne!(other.call_id, registration.call_id);
}

/// RFC 3665 section 3.1, without the proxies: a call from its beginning to its end.
#[test]
fn a_call() {
    let (mut alice, mut bob) = (alice(), bob());
    let to = "sip:bob@biloxi.example.com";
    let offer = alice.invite(to).with_body("application/sdp", "v=0\r\n");
    let invite = sent(&alice, offer);
    assert_eq!(invite.request_uri(), Some(to));
    assert_eq!(text(&invite, Name::To), format!("<{to}>"));
    assert_eq!(text(&invite, Name::Allow), ALLOW);

    let tag = bob.new_tag();
    assert!(bob.inspect(&invite, &tag).is_ok());
    let trying = bob.response(&invite, 100, "Trying", &tag);
    assert_eq!(trying.to().and_then(|to| to.tag()), None);
    assert_eq!(Dialog::uas(&invite, &trying), None);
    let ringing = bob.response(&invite, 180, "Ringing", &tag);
    let ok = bob
        .response(&invite, 200, "OK", &tag)
        .with_body("application/sdp", "v=0\r\n");
    for response in [&ringing, &ok] {
        assert_eq!(response.validate(), Ok(()));
        assert_eq!(response.to().and_then(|to| to.tag()), Some(&*tag));
        let contact = "<sip:bob@192.0.2.2:5060;transport=sctp>";
        assert_eq!(text(response, Name::Contact), contact);
    }
    assert_eq!(text(&ringing, Name::Allow), "");
    assert_eq!(text(&ok, Name::Allow), ALLOW);

    let mut callers = Dialog::uac(&invite, &ringing).expect("an early dialog");
    callers.handle_response(&ok);
    let mut callees = Dialog::uas(&invite, &ok).expect("a dialog");
    let ack = sent(&alice, callers.ack(&invite));
    assert!(callees.matches(&ack));
    assert!(bob.inspect(&ack, &tag).is_ok());
    let bye = sent(&bob, callees.request(Method::Bye));
    assert!(callers.matches(&bye));
    assert_eq!(callers.handle_request(&bye), Ok(()));
    let ok = alice.response(&bye, 200, "OK", "unused");
    assert_eq!(ok.validate(), Ok(()));
    assert!(callees.matches(&ok));
    assert!(!ok.contains(Name::Contact) && !ok.contains(Name::Allow));
}

#[test]
fn a_response_that_makes_a_dialog_keeps_the_routes() {
    let (mut alice, bob) = (alice(), bob());
    let routes = "<sip:p1.example.com;lr>, <sip:p2.example.com;lr>;x=y";
    let mut invite = alice.invite("sip:bob@biloxi.example.com");
    invite.push_back(Name::RecordRoute, routes);
    let invite = sent(&alice, invite);
    for (status, expected) in [(180, routes), (200, routes), (486, "")] {
        let response = bob.response(&invite, status, "Because", "b");
        assert_eq!(text(&response, Name::RecordRoute), expected);
        assert_eq!(response.contains(Name::Contact), status < 300);
    }
}

#[test]
fn a_cancelled_call() {
    let (mut alice, bob) = (alice(), bob());
    let request = alice.invite("sip:bob@biloxi.example.com");
    let invite = sent(&alice, request);
    let cancel = cancel_of(&invite);
    assert_eq!(cancel.validate(), Ok(()));
    assert!(bob.inspect(&cancel, "b").is_ok());
    // The tag is that of the response to the INVITE (section 9.2).
    for request in [&cancel, &invite] {
        let response = bob.response(request, 487, "Request Terminated", "b");
        assert_eq!(response.to().and_then(|to| to.tag()), Some("b"));
    }
}

#[test]
fn options() {
    let (mut alice, bob) = (alice(), bob());
    let request = alice.options("sip:bob@biloxi.example.com");
    let options = sent(&alice, request);
    assert_eq!(text(&options, Name::Accept), "application/sdp");
    assert!(bob.inspect(&options, "b").is_ok());
    let ok = bob.response(&options, 200, "OK", "b");
    assert_eq!(text(&ok, Name::Allow), ALLOW);
}

#[test]
fn requests_are_told_apart() {
    let mut alice = alice();
    let requests = [(); 2].map(|()| alice.options("sip:bob@biloxi.example.com"));
    let [one, other] = &requests;
    assert_ne!(one.call_id(), other.call_id());
    assert_ne!(text(one, Name::From), text(other, Name::From));
}

#[test]
fn contacts_are_as_secure_as_the_user() {
    let secure = user("sips:alice@atlanta.example.com", 1);
    assert!(secure.contact().starts_with("sips:alice@192.0.2.1:5060"));
    let telephone = user("tel:+1-201-555-0123", 1);
    let contact = "sip:192.0.2.1:5060;transport=sctp";
    assert_eq!(telephone.contact(), contact);
    let address = "[2001:db8::1]:5060".parse().expect("an address");
    let rng = ChaCha12Rng::seed_from_u64(1);
    let user = UserAgent::new("sip:a@example.com", Transport::Udp, address, rng);
    let contact = "sip:a@[2001:db8::1]:5060;transport=udp";
    assert_eq!(user.contact(), contact);
}

#[test]
fn requests_that_are_refused() {
    let (mut alice, bob) = (alice(), bob());
    let mut refused = |change: &dyn Fn(&mut Message)| {
        let mut request = alice.invite("sip:bob@biloxi.example.com");
        change(&mut request);
        let request = sent(&alice, request);
        let response = bob.inspect(&request, "b").err()?;
        assert_eq!(response.validate(), Ok(()));
        Some(*response)
    };
    assert!(refused(&|_| ()).is_none());

    let response = refused(&|request| request.set_request_uri("tel:+1-201-555-0123"));
    assert_eq!(response.and_then(|response| response.status()), Some(416));

    let response = refused(&|request| request.push_back(Name::Require, "100rel, foo"));
    let response = response.expect("a refusal");
    assert_eq!(response.status(), Some(420));
    let options: Vec<_> = response.text_values(Name::Unsupported).collect();
    assert_eq!(options, ["100rel", "foo"]);

    for (content_type, disposition, encoding, status) in [
        ("application/sdp", "", "", None),
        ("Application/SDP ; charset=utf-8", "", "identity", None),
        ("text/plain", "", "", Some(415)),
        ("text/plain", "render; Handling=Optional", "", None),
        ("text/plain", "render;handling=required", "", Some(415)),
        ("application/sdp", "", "gzip", Some(415)),
    ] {
        let response = refused(&|request| {
            request.set_body(Some(content_type), "v=0\r\n".into());
            if !disposition.is_empty() {
                request.push_back(Name::ContentDisposition, disposition);
            }
            if !encoding.is_empty() {
                request.push_back(Name::ContentEncoding, encoding);
            }
        });
        assert_eq!(
            response.as_ref().and_then(Message::status),
            status,
            "{content_type}"
        );
        let accept = response.map(|response| text(&response, Name::Accept));
        assert_eq!(accept.as_deref(), status.map(|_| "application/sdp"));
    }

    let mut alice = self::alice();
    let request = alice.request(Method::Publish, "sip:bob@biloxi.example.com");
    let request = sent(&alice, request);
    let response = bob.inspect(&request, "b").expect_err("a refusal");
    assert_eq!(response.status(), Some(405));
    assert_eq!(text(&response, Name::Allow), ALLOW);
}
