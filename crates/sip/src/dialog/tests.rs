use bytes::Bytes;

use super::*;

const INVITE: &str = "INVITE sip:bob@biloxi.com SIP/2.0\r\n\
    Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bK1\r\n\
    Max-Forwards: 70\r\n\
    Record-Route: <sip:p2.example.com;lr>, <sip:p1.example.com;lr>\r\n\
    From: Alice <sip:alice@atlanta.com>;tag=a\r\n\
    To: Bob <sip:bob@biloxi.com>\r\n\
    Call-ID: a84b4c76e66710\r\n\
    CSeq: 314159 INVITE\r\n\
    Contact: <sip:alice@pc33.atlanta.com>\r\n\
    Content-Length: 0\r\n\r\n";

const OK: &str = "SIP/2.0 200 OK\r\n\
    Via: SIP/2.0/UDP pc33.atlanta.com;branch=z9hG4bK1\r\n\
    Record-Route: <sip:p2.example.com;lr>, <sip:p1.example.com;lr>\r\n\
    From: Alice <sip:alice@atlanta.com>;tag=a\r\n\
    To: Bob <sip:bob@biloxi.com>;tag=b\r\n\
    Call-ID: a84b4c76e66710\r\n\
    CSeq: 314159 INVITE\r\n\
    Contact: <sip:bob@192.0.2.4>\r\n\
    Content-Length: 0\r\n\r\n";

fn read(text: &str) -> Message {
    Message::read(Bytes::from(text.to_owned())).expect("a message")
}

fn caller() -> Dialog {
    Dialog::uac(&read(INVITE), &read(OK)).expect("a dialog")
}

fn callee() -> Dialog {
    Dialog::uas(&read(INVITE), &read(OK)).expect("a dialog")
}

fn values(message: &Message, name: Name<'_>) -> Vec<String> {
    message.text_values(name).map(str::to_owned).collect()
}

/// Makes a request of a dialog fit to be sent.
fn sent(mut request: Message) -> Message {
    request.push_front(Name::Via, "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK2");
    assert_eq!(request.validate(), Ok(()));
    request
}

#[test]
fn the_callers_side() {
    let mut dialog = caller();
    assert_eq!(dialog.call_id(), "a84b4c76e66710");
    assert_eq!((dialog.local_tag(), dialog.remote_tag()), ("a", Some("b")));
    assert!(!dialog.is_early() && !dialog.is_secure());
    assert_eq!(dialog.remote_target(), "sip:bob@192.0.2.4");
    // In reverse order.
    let routes = ["sip:p1.example.com;lr", "sip:p2.example.com;lr"];
    assert_eq!(dialog.route_set(), routes);
    assert_eq!(dialog.next_hop(), routes[0]);

    let bye = sent(dialog.request(Method::Bye));
    assert_eq!(bye.request_uri(), Some("sip:bob@192.0.2.4"));
    assert_eq!(
        values(&bye, Name::Route),
        ["<sip:p1.example.com;lr>", "<sip:p2.example.com;lr>"]
    );
    assert_eq!(
        bye.header(Name::From),
        Some("<sip:alice@atlanta.com>;tag=a")
    );
    assert_eq!(bye.header(Name::To), Some("<sip:bob@biloxi.com>;tag=b"));
    assert_eq!(bye.call_id(), Some("a84b4c76e66710"));
    assert_eq!(bye.cseq(), Some((314_160, Method::Bye)));
    assert!(!bye.contains(Name::Contact));
}

#[test]
fn the_callees_side() {
    let mut dialog = callee();
    assert_eq!((dialog.local_tag(), dialog.remote_tag()), ("b", Some("a")));
    assert_eq!(dialog.remote_target(), "sip:alice@pc33.atlanta.com");
    // In the order in which they came.
    let routes = ["sip:p2.example.com;lr", "sip:p1.example.com;lr"];
    assert_eq!(dialog.route_set(), routes);

    let bye = sent(dialog.request(Method::Bye));
    assert_eq!(bye.request_uri(), Some("sip:alice@pc33.atlanta.com"));
    assert_eq!(bye.header(Name::From), Some("<sip:bob@biloxi.com>;tag=b"));
    assert_eq!(bye.header(Name::To), Some("<sip:alice@atlanta.com>;tag=a"));
    assert_eq!(bye.cseq(), Some((1, Method::Bye)));
    let next = dialog.request(Method::Info);
    assert_eq!(next.cseq(), Some((2, Method::Info)));
}

#[test]
fn requests_of_one_side_match_the_other() {
    let (mut caller, mut callee) = (caller(), callee());
    let bye = caller.request(Method::Bye);
    assert!(callee.matches(&bye));
    assert!(!caller.matches(&bye));
    assert!(caller.matches(&Message::response_to(&bye, 200, "OK")));
    assert_eq!(callee.handle_request(&bye), Ok(()));
    let bye = callee.request(Method::Bye);
    assert!(caller.matches(&bye));
    for (from, to) in [("tag=a", "tag=x"), ("tag=b", "tag=x"), ("a84b", "b84b")] {
        let text = String::from_utf8_lossy(&bye.to_bytes()).replace(from, to);
        assert!(!caller.matches(&read(&text)), "{to}");
    }
}

/// The example of section 12.2.1.1.
#[test]
fn a_strict_router_is_addressed_in_the_request_line() {
    let routes = "<sip:proxy4>, <sip:proxy3;lr>, <sip:proxy2>, <sip:proxy1>";
    let ok = OK
        .replace("<sip:p2.example.com;lr>, <sip:p1.example.com;lr>", routes)
        .replace("sip:bob@192.0.2.4", "sip:user@remoteua");
    let mut dialog = Dialog::uac(&read(INVITE), &read(&ok)).expect("a dialog");
    let request = sent(dialog.request(Method::Bye));
    assert_eq!(request.request_uri(), Some("sip:proxy1"));
    assert_eq!(
        values(&request, Name::Route),
        [
            "<sip:proxy2>",
            "<sip:proxy3;lr>",
            "<sip:proxy4>",
            "<sip:user@remoteua>"
        ]
    );
    assert_eq!(dialog.next_hop(), "sip:proxy1");
}

#[test]
fn without_routes_the_target_is_addressed() {
    let ok = OK.replace("Record-Route:", "X:");
    let mut dialog = Dialog::uac(&read(INVITE), &read(&ok)).expect("a dialog");
    let request = sent(dialog.request(Method::Bye));
    assert_eq!(request.request_uri(), Some("sip:bob@192.0.2.4"));
    assert!(!request.contains(Name::Route));
    assert_eq!(dialog.next_hop(), "sip:bob@192.0.2.4");
}

#[test]
fn the_ack_to_a_2xx() {
    let invite = INVITE.replace("Max-Forwards", "Proxy-Authorization: x=1\r\nMax-Forwards");
    let mut dialog = Dialog::uac(&read(&invite), &read(OK)).expect("a dialog");
    let ack = sent(dialog.ack(&read(&invite)));
    assert_eq!(ack.cseq(), Some((314_159, Method::Ack)));
    assert_eq!(ack.request_uri(), Some("sip:bob@192.0.2.4"));
    assert_eq!(ack.header(Name::To), Some("<sip:bob@biloxi.com>;tag=b"));
    assert_eq!(ack.header(Name::ProxyAuthorization), Some("x=1"));
    assert_eq!(values(&ack, Name::Route).len(), 2);
    // It takes no number of its own.
    let bye = dialog.request(Method::Bye);
    assert_eq!(bye.cseq(), Some((314_160, Method::Bye)));
}

#[test]
fn an_early_dialog_is_confirmed_with_the_routes_of_the_2xx() {
    let ringing = OK
        .replace("200 OK", "180 Ringing")
        .replace("Record-Route:", "X:")
        .replace("Contact:", "X:");
    let mut dialog = Dialog::uac(&read(INVITE), &read(&ringing)).expect("a dialog");
    assert!(dialog.is_early());
    assert_eq!(dialog.remote_target(), "sip:bob@biloxi.com");
    let bye = dialog.request(Method::Bye);
    assert_eq!(bye.cseq(), Some((314_160, Method::Bye)));
    dialog.handle_response(&read(&ringing));
    dialog.handle_response(&read(&OK.replace("159 INVITE", "160 UPDATE")));
    assert!(dialog.is_early() && dialog.route_set().is_empty());
    dialog.handle_response(&read(OK));
    assert!(!dialog.is_early());
    assert_eq!(dialog.route_set().len(), 2);
    assert_eq!(dialog.remote_target(), "sip:bob@192.0.2.4");
    // The numbers go on.
    let bye = dialog.request(Method::Bye);
    assert_eq!(bye.cseq(), Some((314_161, Method::Bye)));

    let mut dialog = Dialog::uas(&read(INVITE), &read(&ringing)).expect("a dialog");
    assert!(dialog.is_early());
    dialog.confirm();
    assert!(!dialog.is_early());
}

#[test]
fn a_2xx_refreshes_the_target_and_leaves_the_routes() {
    let mut dialog = caller();
    let routes = dialog.route_set().to_vec();
    let moved = OK.replace("192.0.2.4", "192.0.2.5").replace(";lr>", ">");
    dialog.handle_response(&read(&moved.replace("159 INVITE", "160 OPTIONS")));
    assert_eq!(dialog.remote_target(), "sip:bob@192.0.2.4");
    dialog.handle_response(&read(&moved.replace("200 OK", "486 Busy Here")));
    assert_eq!(dialog.remote_target(), "sip:bob@192.0.2.4");
    dialog.handle_response(&read(&moved.replace("159 INVITE", "160 INVITE")));
    assert_eq!(dialog.remote_target(), "sip:bob@192.0.2.5");
    assert_eq!(dialog.route_set(), routes);
}

#[test]
fn requests_come_in_order() {
    let mut dialog = caller();
    let request = |number: u32, method: Method| {
        Message::request(method.clone(), "sip:alice@pc33.atlanta.com")
            .with(Name::CSeq, format!("{number} {method}"))
    };
    // The first one sets the number, and gaps are no error.
    for number in [7, 8, 20] {
        assert_eq!(
            dialog.handle_request(&request(number, Method::Info)),
            Ok(())
        );
    }
    let late = dialog.handle_request(&request(19, Method::Bye));
    assert_eq!(late, Err(OutOfOrder));
    assert_eq!(dialog.handle_request(&request(1, Method::Ack)), Ok(()));
    assert_eq!(dialog.handle_request(&request(21, Method::Bye)), Ok(()));

    let mut dialog = callee();
    let late = dialog.handle_request(&request(314_158, Method::Bye));
    assert_eq!(late, Err(OutOfOrder));
}

#[test]
fn an_accepted_request_refreshes_the_target() {
    let mut dialog = callee();
    let request = |method, contact| {
        Message::request(method, "sip:bob@192.0.2.4").with(Name::Contact, contact)
    };
    dialog.accept_request(&request(Method::Options, "<sip:alice@other>"));
    assert_eq!(dialog.remote_target(), "sip:alice@pc33.atlanta.com");
    for contact in ["*", "<tel:+1>", "<", "<mailto:a@b>"] {
        dialog.accept_request(&request(Method::Invite, contact));
        assert_eq!(dialog.remote_target(), "sip:alice@pc33.atlanta.com");
    }
    let contact = "Alice <sip:alice@192.0.2.7:5070;ob?Subject=x>;q=1";
    dialog.accept_request(&request(Method::Invite, contact));
    // Headers may not stand in a request line.
    assert_eq!(dialog.remote_target(), "sip:alice@192.0.2.7:5070;ob");
}

#[test]
fn requests_that_refresh_the_target_say_where_we_are() {
    let contact = |dialog: &mut Dialog, method| {
        let request = dialog.request(method);
        request.header(Name::Contact).map(str::to_owned)
    };
    let alice = Some("<sip:alice@pc33.atlanta.com>".to_owned());
    assert_eq!(contact(&mut caller(), Method::Invite), alice);
    assert_eq!(contact(&mut caller(), Method::Update), alice);
    assert_eq!(contact(&mut caller(), Method::Info), None);
    let bob = Some("<sip:bob@192.0.2.4>".to_owned());
    assert_eq!(contact(&mut callee(), Method::Invite), bob);
}

#[test]
fn peers_of_rfc_2543_have_no_tag() {
    let (invite, ok) = (INVITE.replace(";tag=a", ""), OK.replace(";tag=b", ""));
    let mut dialog = Dialog::uac(&read(INVITE), &read(&ok)).expect("a dialog");
    assert_eq!(dialog.remote_tag(), None);
    let bye = dialog.request(Method::Bye);
    assert_eq!(bye.header(Name::To), Some("<sip:bob@biloxi.com>"));
    let dialog = Dialog::uas(&read(&invite), &read(OK)).expect("a dialog");
    assert_eq!(dialog.remote_tag(), None);
}

#[test]
fn sips_makes_a_dialog_secure() {
    let invite = read(&INVITE.replace("INVITE sip:", "INVITE sips:"));
    let dialog = Dialog::uac(&invite, &read(OK)).expect("a dialog");
    assert!(dialog.is_secure());
    let dialog = Dialog::uas(&invite, &read(OK)).expect("a dialog");
    assert!(dialog.is_secure());
}

#[test]
fn what_makes_no_dialog() {
    for (from, to) in [
        ("200 OK", "100 Trying"),
        ("200 OK", "486 Busy Here"),
        ("\r\nTo:", "\r\nX:"),
    ] {
        let response = read(&OK.replace(from, to));
        assert_eq!(Dialog::uac(&read(INVITE), &response), None, "{to}");
        assert_eq!(Dialog::uas(&read(INVITE), &response), None, "{to}");
    }
    let untagged = read(&OK.replace("200 OK", "180 Ringing").replace(";tag=b", ""));
    assert_eq!(Dialog::uac(&read(INVITE), &untagged), None);
    assert_eq!(Dialog::uas(&read(INVITE), &untagged), None);
    for (from, to) in [
        ("Contact:", "X:"),
        ("Contact: <sip:", "Contact: <tel:"),
        ("Call-ID:", "X:"),
        ("CSeq:", "X:"),
    ] {
        let invite = read(&INVITE.replace(from, to));
        assert_eq!(Dialog::uas(&invite, &read(OK)), None, "{to}");
    }
}
