//! The call flows of RFC 3665 through the core, message by message: sections 2.1 and 3.2 without their
//! challenges, 3.8 and 3.9. The clients' host names are replaced by their addresses; the proxies
//! advertise their names.

mod common;

use std::time::Duration;

use common::{Bench, Sent, flow, reread, response, sip};
use proxy::core::Event;
use sip::{Flow, Message, Method, Name, Transport};

const ALICE: &str = "192.0.2.101:5060";
const BOB: &str = "192.0.2.201:5060";
const PROXY_1: &str = "192.0.2.111:5060";
const PROXY_2: &str = "192.0.2.222:5060";

/// Alice, two proxies and Bob, who is registered at the second.
struct Trapezoid {
    transport: &'static str,
    proxy_1: Bench,
    proxy_2: Bench,
}

impl Trapezoid {
    fn new(transport: &'static str) -> Trapezoid {
        let proxy = |address: &str, domain: &str, name: &str| {
            Bench::with(
                &[&format!("{transport}:{address}")],
                &[domain, name],
                |config| {
                    config.advertise = Some(name.parse().expect("a host"));
                },
            )
        };
        let mut proxy_1 = proxy(PROXY_1, "atlanta.example.com", "ss1.atlanta.example.com");
        let mut proxy_2 = proxy(PROXY_2, "biloxi.example.com", "ss2.biloxi.example.com");
        let kind: Transport = transport.parse().expect("a transport");
        for name in ["biloxi.example.com", "ss2.biloxi.example.com"] {
            proxy_1.names.insert(
                name.to_owned(),
                vec![(kind, PROXY_2.parse().expect("an address"))],
            );
        }
        let address = PROXY_1.parse().expect("an address");
        proxy_2
            .names
            .insert("ss1.atlanta.example.com".to_owned(), vec![(kind, address)]);
        let via = transport.to_uppercase();
        proxy_2.receive(
            flow(&format!("{transport}:{PROXY_2}"), BOB),
            sip(&format!(
                "REGISTER sip:ss2.biloxi.example.com SIP/2.0
                Via: SIP/2.0/{via} 192.0.2.201:5060;branch=z9hG4bKnashd92
                Max-Forwards: 70
                From: Bob <sip:bob@biloxi.example.com>;tag=ja743ks76zlflH
                To: Bob <sip:bob@biloxi.example.com>
                Call-ID: 1j9FpLxk3uxtm8tn@biloxi.example.com
                CSeq: 2 REGISTER
                Contact: <sip:bob@192.0.2.201;transport={transport}>
                Content-Length: 0"
            )),
        );
        proxy_2.one().answers(200);
        Trapezoid {
            transport,
            proxy_1,
            proxy_2,
        }
    }

    /// The flow by which a proxy hears a neighbour.
    fn between(&self, proxy: &str, peer: &str) -> Flow {
        flow(&format!("{}:{proxy}", self.transport), peer)
    }

    fn alice_sends(&mut self, message: Message) {
        let flow = self.between(PROXY_1, ALICE);
        self.proxy_1.receive(flow, message);
    }

    fn bob_sends(&mut self, message: Message) {
        let flow = self.between(PROXY_2, BOB);
        self.proxy_2.receive(flow, message);
    }

    /// Carries a message from the first proxy to the second.
    fn onward(&mut self, sent: &Sent) {
        sent.goes_to(&format!("{}:{PROXY_2}", self.transport));
        let flow = self.between(PROXY_2, PROXY_1);
        self.proxy_2.receive(flow, reread(&sent.message));
    }

    /// Carries a message from the second proxy to the first.
    fn backward(&mut self, sent: &Sent) {
        sent.goes_to(&format!("{}:{PROXY_1}", self.transport));
        let flow = self.between(PROXY_1, PROXY_2);
        self.proxy_1.receive(flow, reread(&sent.message));
    }

    fn to(&self, peer: &str) -> String {
        format!("{}:{peer}", self.transport)
    }

    /// F1 of 3.8 and 3.9 and F4 of 3.2: what Alice asks for.
    fn invite(&self) -> Message {
        sip(&format!(
            "INVITE sip:bob@biloxi.example.com SIP/2.0
            Via: SIP/2.0/{} 192.0.2.101:5060;branch=z9hG4bK74bf9
            Max-Forwards: 70
            Route: <sip:ss1.atlanta.example.com;lr>
            From: Alice <sip:alice@atlanta.example.com>;tag=9fxced76sl
            To: Bob <sip:bob@biloxi.example.com>
            Call-ID: 2xTb9vxSit55XU7p8@atlanta.example.com
            CSeq: 1 INVITE
            Contact: <sip:alice@192.0.2.101;transport={}>
            Content-Type: application/sdp
            Content-Length: 18

            v=0
            o=alice 1 1",
            self.transport.to_uppercase(),
            self.transport
        ))
    }

    /// F1 to F5: the INVITE comes to Bob, both proxies have said 100. Returns it as it came to him
    /// and as it came to the second proxy.
    fn invite_reaches_bob(&mut self) -> (Sent, Sent) {
        self.alice_sends(self.invite());
        let [trying, between] = self.proxy_1.two();
        trying.answers(100).goes_to(&self.to(ALICE));
        assert!(trying.message.to().expect("To").tag().is_none());
        assert_eq!(trying.values(Name::Via).len(), 1);

        between.is(Method::Invite, "sip:bob@biloxi.example.com");
        assert_eq!(between.value(Name::MaxForwards), "69");
        assert!(between.values(Name::Route).is_empty());
        let vias = between.values(Name::Via);
        assert_eq!(vias.len(), 2);
        self.assert_via(&vias[0], "ss1.atlanta.example.com:5060");
        assert!(vias[1].starts_with(&format!(
            "SIP/2.0/{} 192.0.2.101:5060;branch=z9hG4bK74bf9",
            self.transport.to_uppercase()
        )));
        assert_eq!(
            between.values(Name::RecordRoute),
            [self.record_route("ss1.atlanta.example.com")]
        );
        assert_eq!(between.message.body(), self.invite().body());

        self.onward(&between);
        let [trying, to_bob] = self.proxy_2.two();
        trying.answers(100).goes_to(&self.to(PROXY_1));
        assert_eq!(trying.branch(), between.branch());
        to_bob.is(
            Method::Invite,
            &format!("sip:bob@192.0.2.201;transport={}", self.transport),
        );
        to_bob.goes_along(self.between(PROXY_2, BOB));
        assert_eq!(to_bob.value(Name::MaxForwards), "68");
        assert_eq!(
            to_bob.values(Name::RecordRoute),
            [
                self.record_route("ss2.biloxi.example.com"),
                self.record_route("ss1.atlanta.example.com")
            ]
        );
        let vias = to_bob.values(Name::Via);
        assert_eq!(vias.len(), 3);
        self.assert_via(&vias[0], "ss2.biloxi.example.com:5060");
        self.assert_via(&vias[1], "ss1.atlanta.example.com:5060");
        // Its name is not the address that it sends from (RFC 3261 section 18.2.1).
        assert!(vias[1].contains(";received=192.0.2.111"), "{}", vias[1]);
        assert_eq!(to_bob.message.body(), self.invite().body());
        for name in [
            Name::From,
            Name::To,
            Name::CallId,
            Name::CSeq,
            Name::Contact,
            Name::ContentType,
        ] {
            assert_eq!(to_bob.value(name), common::values(&self.invite(), name)[0]);
        }

        self.backward(&trying);
        self.proxy_1.silence();
        (to_bob, between)
    }

    /// A response of Bob's comes to Alice, who sees it as he wrote it but for the Vias.
    fn response_reaches_alice(&mut self, response: &Message) -> Sent {
        self.bob_sends(response.clone());
        let status = response.status().expect("a status");
        let sent = self.proxy_2.sent();
        let passed = sent
            .iter()
            .find(|sent| sent.message.status() == Some(status))
            .expect("passed on")
            .clone();
        passed.goes_to(&self.to(PROXY_1));
        assert_eq!(passed.values(Name::Via).len(), 2);
        if status >= 300 {
            // F7 or F16: each hop acknowledges for itself.
            assert_eq!(sent.len(), 2);
            let ack = sent
                .iter()
                .find(|sent| sent.message.is_request())
                .expect("an ACK");
            assert_eq!(ack.message.method(), Some(&Method::Ack));
            assert_eq!(ack.value(Name::CSeq), "1 ACK");
            assert_eq!(ack.values(Name::Via).len(), 1);
            assert_eq!(
                ack.message.to().and_then(|to| to.tag()),
                response.to().and_then(|to| to.tag())
            );
            ack.goes_to(&self.to(BOB));
        }
        self.backward(&passed);
        let sent = self.proxy_1.sent();
        let passed = sent
            .iter()
            .find(|sent| sent.message.status() == Some(status))
            .expect("passed on")
            .clone();
        if status >= 300 {
            let ack = sent
                .iter()
                .find(|sent| sent.message.is_request())
                .expect("an ACK")
                .clone();
            assert_eq!(
                ack.message.request_uri(),
                Some("sip:bob@biloxi.example.com")
            );
            self.onward(&ack);
            self.proxy_2.silence();
        } else {
            assert_eq!(sent.len(), 1);
        }
        passed.goes_to(&self.to(ALICE));
        assert_eq!(passed.values(Name::Via).len(), 1);
        assert_eq!(passed.branch(), "z9hG4bK74bf9");
        for name in [
            Name::From,
            Name::To,
            Name::CallId,
            Name::CSeq,
            Name::Contact,
            Name::RecordRoute,
        ] {
            assert_eq!(passed.values(name), common::values(response, name));
        }
        assert_eq!(passed.message.body(), response.body());
        passed
    }

    fn assert_via(&self, via: &str, host: &str) {
        let start = format!(
            "SIP/2.0/{} {host};branch=z9hG4bK",
            self.transport.to_uppercase()
        );
        assert!(via.starts_with(&start), "{via}");
    }

    fn record_route(&self, host: &str) -> String {
        let transport = if self.transport == "udp" {
            ""
        } else {
            ";transport=tcp"
        };
        format!("<sip:{host}:5060{transport};lr>")
    }
}

/// Section 2.1: F3 and F4 are what is left without the challenge.
#[test]
fn successful_new_registration() {
    let mut proxy = Bench::new(
        &["udp:192.0.2.222:5060"],
        &["biloxi.example.com", "ss2.biloxi.example.com"],
    );
    let from_bob = flow("udp:192.0.2.222:5060", "192.0.2.201:5060");
    proxy.receive(
        from_bob,
        sip("REGISTER sip:ss2.biloxi.example.com SIP/2.0
            Via: SIP/2.0/UDP client.biloxi.example.com:5060;branch=z9hG4bKnashd92
            Max-Forwards: 70
            From: Bob <sip:bob@biloxi.example.com>;tag=ja743ks76zlflH
            To: Bob <sip:bob@biloxi.example.com>
            Call-ID: 1j9FpLxk3uxtm8tn@biloxi.example.com
            CSeq: 2 REGISTER
            Contact: <sip:bob@client.biloxi.example.com>
            Content-Length: 0"),
    );
    let ok = proxy.one();
    ok.answers(200).goes_to("udp:192.0.2.201:5060");
    assert_eq!(
        ok.values(Name::Via),
        ["SIP/2.0/UDP client.biloxi.example.com:5060;branch=z9hG4bKnashd92;received=192.0.2.201"]
    );
    assert_eq!(
        ok.value(Name::From),
        "Bob <sip:bob@biloxi.example.com>;tag=ja743ks76zlflH"
    );
    assert!(ok.message.to().expect("To").tag().is_some());
    assert_eq!(
        ok.value(Name::CallId),
        "1j9FpLxk3uxtm8tn@biloxi.example.com"
    );
    assert_eq!(ok.value(Name::CSeq), "2 REGISTER");
    assert_eq!(
        ok.values(Name::Contact),
        ["<sip:bob@client.biloxi.example.com>;expires=3600"]
    );
    assert!(ok.values(Name::RecordRoute).is_empty());
    assert_eq!(ok.value(Name::ContentLength), "0");
    assert!(matches!(
        proxy.events.as_slice(),
        [Event::Registered { address, contact, flow, expires }]
            if address.as_str() == "bob@biloxi.example.com"
                && contact == "sip:bob@client.biloxi.example.com"
                && *flow == from_bob
                && *expires == Duration::from_secs(3600)
    ));
    proxy.pass(Duration::from_secs(40));
    proxy.assert_idle();
}

/// Section 3.2: F4 to F23.
#[test]
fn session_establishment_through_two_proxies() {
    let mut net = Trapezoid::new("tcp");
    let (invite, _) = net.invite_reaches_bob();

    // F9 to F14.
    let contact = "<sip:bob@192.0.2.201;transport=tcp>";
    let ringing = response(&invite.message, 180, "314159").with(Name::Contact, contact);
    net.response_reaches_alice(&ringing);
    let answer = response(&invite.message, 200, "314159")
        .with(Name::Contact, contact)
        .with_body("application/sdp", "v=0\r\no=bob 1 1\r\n");
    let ok = net.response_reaches_alice(&answer);

    // F15 to F17: the ACK takes the way of the Route, without a transaction.
    let routes: Vec<String> = ok.values(Name::RecordRoute).into_iter().rev().collect();
    net.alice_sends(sip(&format!(
        "ACK sip:bob@192.0.2.201;transport=tcp SIP/2.0
        Via: SIP/2.0/TCP 192.0.2.101:5060;branch=z9hG4bK74b76
        Max-Forwards: 70
        Route: {}
        From: Alice <sip:alice@atlanta.example.com>;tag=9fxced76sl
        To: Bob <sip:bob@biloxi.example.com>;tag=314159
        Call-ID: 2xTb9vxSit55XU7p8@atlanta.example.com
        CSeq: 1 ACK
        Content-Length: 0",
        routes.join(", ")
    )));
    let ack = net.proxy_1.one();
    ack.is(Method::Ack, "sip:bob@192.0.2.201;transport=tcp");
    assert_eq!(
        ack.values(Name::Route),
        [net.record_route("ss2.biloxi.example.com")]
    );
    assert_eq!(ack.value(Name::MaxForwards), "69");
    assert!(ack.values(Name::RecordRoute).is_empty());
    net.onward(&ack);
    let ack = net.proxy_2.one();
    ack.is(Method::Ack, "sip:bob@192.0.2.201;transport=tcp")
        .goes_to(&net.to(BOB));
    assert!(ack.values(Name::Route).is_empty());
    assert_eq!(ack.values(Name::Via).len(), 3);
    assert_eq!(ack.value(Name::MaxForwards), "68");

    // F18 to F20: Bob hangs up.
    net.bob_sends(sip(&format!(
        "BYE sip:alice@192.0.2.101;transport=tcp SIP/2.0
        Via: SIP/2.0/TCP 192.0.2.201:5060;branch=z9hG4bKnashds7
        Max-Forwards: 70
        Route: {},
        \u{20}{}
        From: Bob <sip:bob@biloxi.example.com>;tag=314159
        To: Alice <sip:alice@atlanta.example.com>;tag=9fxced76sl
        Call-ID: 2xTb9vxSit55XU7p8@atlanta.example.com
        CSeq: 1 BYE
        Content-Length: 0",
        routes[1], routes[0]
    )
    .replace(",\n        \u{20}", ", ")));
    let bye = net.proxy_2.one();
    bye.is(Method::Bye, "sip:alice@192.0.2.101;transport=tcp");
    assert_eq!(
        bye.values(Name::Route),
        [net.record_route("ss1.atlanta.example.com")]
    );
    net.backward(&bye);
    let bye = net.proxy_1.one();
    bye.is(Method::Bye, "sip:alice@192.0.2.101;transport=tcp")
        .goes_to(&net.to(ALICE));
    assert!(bye.values(Name::Route).is_empty());
    assert_eq!(bye.value(Name::MaxForwards), "68");
    assert_eq!(bye.values(Name::Via).len(), 3);

    // F21 to F23.
    net.alice_sends(response(&bye.message, 200, ""));
    let ok = net.proxy_1.one();
    assert_eq!(ok.answers(200).values(Name::Via).len(), 2);
    net.onward(&ok);
    let ok = net.proxy_2.one();
    ok.answers(200).goes_to(&net.to(BOB));
    assert_eq!(ok.values(Name::Via).len(), 1);
    assert_eq!(ok.branch(), "z9hG4bKnashds7");

    assert!(
        net.proxy_1
            .events
            .iter()
            .any(|event| matches!(event, Event::CallAnswered(_)))
    );
    assert!(
        net.proxy_1
            .events
            .iter()
            .any(|event| matches!(event, Event::CallEnded { .. }))
    );
    for proxy in [&mut net.proxy_1, &mut net.proxy_2] {
        proxy.pass(Duration::from_secs(100));
        proxy.silence();
        proxy.assert_idle();
    }
}

/// Section 3.8: Alice gives up before Bob answers.
#[test]
fn unsuccessful_no_answer() {
    let mut net = Trapezoid::new("udp");
    let (invite, between) = net.invite_reaches_bob();
    net.response_reaches_alice(&response(&invite.message, 180, "314159"));

    // F9 to F14: the CANCEL is answered hop by hop.
    net.alice_sends(sip("CANCEL sip:bob@biloxi.example.com SIP/2.0
        Via: SIP/2.0/UDP 192.0.2.101:5060;branch=z9hG4bK74bf9
        Max-Forwards: 70
        Route: <sip:ss1.atlanta.example.com;lr>
        From: Alice <sip:alice@atlanta.example.com>;tag=9fxced76sl
        To: Bob <sip:bob@biloxi.example.com>
        Call-ID: 2xTb9vxSit55XU7p8@atlanta.example.com
        CSeq: 1 CANCEL
        Content-Length: 0"));
    let [ok, cancel] = net.proxy_1.two();
    ok.answers(200).goes_to(&net.to(ALICE));
    assert_eq!(ok.value(Name::CSeq), "1 CANCEL");
    assert_cancels(&cancel, &between);
    net.onward(&cancel);
    let [ok, cancel] = net.proxy_2.two();
    assert_eq!(ok.answers(200).value(Name::CSeq), "1 CANCEL");
    assert_cancels(&cancel, &invite);
    cancel.goes_along(net.between(PROXY_2, BOB));
    net.backward(&ok);
    net.proxy_1.silence();
    net.bob_sends(response(&cancel.message, 200, "314159"));
    net.proxy_2.silence();

    // F15 to F20.
    let terminated = net.response_reaches_alice(&response(&invite.message, 487, "314159"));
    net.alice_sends(ack_to(&terminated));
    net.proxy_1.silence();

    assert!(matches!(
        net.proxy_1.events.last(),
        Some(Event::CallFailed { status: 487, .. })
    ));
    for proxy in [&mut net.proxy_1, &mut net.proxy_2] {
        proxy.pass(Duration::from_secs(100));
        proxy.silence();
        proxy.assert_idle();
    }
}

/// Section 3.9: Bob is busy.
#[test]
fn unsuccessful_busy() {
    let mut net = Trapezoid::new("udp");
    let (invite, _) = net.invite_reaches_bob();
    let busy = net.response_reaches_alice(&response(&invite.message, 486, "314159"));
    net.alice_sends(ack_to(&busy));
    net.proxy_1.silence();

    let Some(Event::CallFailed {
        call,
        status: 486,
        reason,
    }) = net.proxy_1.events.last()
    else {
        panic!("a failed call expected: {:?}", net.proxy_1.events);
    };
    assert_eq!(reason, "Some Reason");
    assert_eq!(call.caller, "sip:alice@atlanta.example.com");
    assert_eq!(call.callee, "sip:bob@biloxi.example.com");
    assert_eq!(call.call_id, "2xTb9vxSit55XU7p8@atlanta.example.com");
    for proxy in [&mut net.proxy_1, &mut net.proxy_2] {
        proxy.pass(Duration::from_secs(100));
        proxy.silence();
        proxy.assert_idle();
    }
}

/// F11 and F13: the CANCEL is built as section 9.1 of RFC 3261 says.
fn assert_cancels(cancel: &Sent, invite: &Sent) {
    cancel.is(
        Method::Cancel,
        invite.message.request_uri().expect("a Request-URI"),
    );
    assert_eq!(cancel.values(Name::Via), invite.values(Name::Via)[..1]);
    assert_eq!(cancel.value(Name::CSeq), "1 CANCEL");
    for name in [Name::From, Name::To, Name::CallId, Name::Route] {
        assert_eq!(cancel.values(name), invite.values(name));
    }
    assert!(cancel.values(Name::RecordRoute).is_empty());
}

/// F20 of 3.8 and F11 of 3.9: Alice's ACK, in the transaction of her INVITE.
fn ack_to(response: &Sent) -> Message {
    sip(&format!(
        "ACK sip:bob@biloxi.example.com SIP/2.0
        Via: SIP/2.0/UDP 192.0.2.101:5060;branch=z9hG4bK74bf9
        Max-Forwards: 70
        From: {}
        To: {}
        Call-ID: {}
        CSeq: 1 ACK
        Content-Length: 0",
        response.value(Name::From),
        response.value(Name::To),
        response.value(Name::CallId)
    ))
}
