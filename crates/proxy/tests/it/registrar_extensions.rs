//! Path (RFC 3327), Service-Route (RFC 3608), outbound flows (RFC 5626), GRUUs (RFC 5627) and keep-alives,
//! one test a rule.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::common::{self, Bench, Sent, flow, register, request, response};
use proxy::core::{Config, KeepAliveMethod, KeepAlivePolicy, Policy};
use sip::{Flow, Message, Method, Name, Target};

const LISTENERS: [&str; 3] = [
    "udp:192.0.2.1:5060",
    "tcp:192.0.2.1:5060",
    "sctp:192.0.2.1:5060",
];

fn bench() -> Bench {
    bench_with(|_| {})
}

fn bench_with(change: impl FnOnce(&mut Config)) -> Bench {
    Bench::with(&LISTENERS, &["example.com"], change)
}

fn caller() -> Flow {
    flow("udp:192.0.2.1:5060", "192.0.2.9:5060")
}

/// A phone behind a NAT, by the port that the NAT has given it.
fn phone(port: u16) -> Flow {
    flow("tcp:192.0.2.1:5060", &format!("198.51.100.1:{port}"))
}

/// A REGISTER of bob as a user agent sends it that knows all extensions.
fn outbound(cseq: u32, call_id: &str, contact: &str) -> Message {
    let mut request =
        register("bob", cseq, &[contact]).with(Name::Supported, "path, outbound, gruu");
    request.replace(Name::CallId, call_id);
    let branch = format!("z9hG4bK{call_id}{cseq}");
    request.set_top_via_parameter("branch", Some(&branch));
    request
}

fn contact(port: u16, instance: &str, reg_id: u32) -> String {
    format!(
        "<sip:bob@10.0.0.1:{port};transport=tcp;ob>;+sip.instance=\"<urn:uuid:{instance}>\";reg-id={reg_id}"
    )
}

/// Registers a flow of an instance, each with a Call-ID of its own, and gives back the 200.
fn register_flow(bench: &mut Bench, port: u16, instance: &str, reg_id: u32) -> Sent {
    let call_id = format!("{instance}-{reg_id}");
    let request = outbound(1, &call_id, &contact(port, instance, reg_id));
    bench.receive(phone(port), request);
    let response = bench.one();
    response.answers(200);
    response
}

fn through(mut request: Message, path: &str) -> Message {
    let cseq = request.cseq().map_or(0, |(number, _)| number);
    let via = format!("SIP/2.0/UDP 192.0.2.50;branch=z9hG4bKedge{cseq}");
    request.push_front(Name::Via, via);
    request.push_back(Name::Path, path);
    request
}

fn edge() -> Flow {
    flow("udp:192.0.2.1:5060", "192.0.2.50:5060")
}

/// The value of a parameter in quotation marks.
fn quoted<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = value.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

fn gruus(response: &Sent) -> (String, String) {
    let contact = response.value(Name::Contact);
    let gruu = |name| quoted(&contact, name).expect("a GRUU").to_owned();
    (gruu("pub-gruu"), gruu("temp-gruu"))
}

fn options(uri: &str, call: &str) -> Message {
    request(Method::Options, uri, call)
}

#[test]
fn a_path_is_stored_returned_and_used_as_route() {
    let mut bench = bench();
    let path = "\"Edge, one\" <sip:edge.example.net;lr>;x=1, <sip:192.0.2.60;lr>";
    let mut request =
        through(register("bob", 1, &["<sip:bob@10.0.0.1>"]), path).with(Name::Supported, "path");
    request.push_back(Name::Path, "<sip:192.0.2.70;lr>");
    bench.receive(edge(), request);
    let response = bench.one();
    assert_eq!(
        response.answers(200).values(Name::Path),
        [
            "\"Edge, one\" <sip:edge.example.net;lr>;x=1",
            "<sip:192.0.2.60;lr>",
            "<sip:192.0.2.70;lr>"
        ]
    );

    let next_hop = (
        sip::Transport::Udp,
        "192.0.2.55:5060".parse().expect("an address"),
    );
    bench
        .names
        .insert("edge.example.net".to_owned(), vec![next_hop]);
    bench.receive(caller(), options("sip:bob@example.com", "one"));
    let forwarded = bench.one();
    forwarded
        .is(Method::Options, "sip:bob@10.0.0.1")
        .goes_to("udp:192.0.2.55:5060");
    assert_eq!(
        forwarded.values(Name::Route),
        [
            "<sip:edge.example.net;lr>;x=1",
            "<sip:192.0.2.60;lr>",
            "<sip:192.0.2.70;lr>"
        ]
    );
}

#[test]
fn a_path_that_the_user_agent_does_not_know_of_is_refused() {
    let request = || {
        through(
            register("bob", 1, &["<sip:bob@10.0.0.1>"]),
            "<sip:192.0.2.50;lr>",
        )
    };
    let mut bench = bench();
    bench.receive(edge(), request());
    assert_eq!(bench.one().answers(420).values(Name::Unsupported), ["path"]);
    let mut bench = bench_with(|config| config.registrar.path_without_support = true);
    bench.receive(edge(), request());
    bench.one().answers(200);
    bench.receive(caller(), options("sip:bob@example.com", "one"));
    bench.one().goes_to("udp:192.0.2.50:5060");
}

#[test]
fn a_path_that_cannot_be_a_route_is_refused() {
    let long = format!("<sip:{}@192.0.2.50;lr>", "a".repeat(5000));
    for path in ["<tel:1>", "<sip:192.0.2.50;lr", "x", &long] {
        let mut bench = bench();
        let request = through(register("bob", 1, &["<sip:bob@10.0.0.1>"]), path)
            .with(Name::Supported, "path");
        bench.receive(edge(), request);
        bench.one().answers(400);
    }
}

#[test]
fn a_200_has_the_service_route_the_date_and_nothing_that_was_not_asked_for() {
    let routes = ["<sip:one.example.com;lr>", "<sip:two.example.com;lr>"];
    let mut bench = bench_with(|config| {
        config.registrar.service_route = routes.map(str::to_owned).to_vec();
        config.registrar.flow_timer = Some(Duration::from_secs(120));
    });
    let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(784_887_151);
    bench.proxy.set_wall_clock(bench.now, noon);
    bench.pass(Duration::from_secs(60));
    for contacts in [&["<sip:bob@192.0.2.9>;reg-id=1"][..], &[]] {
        bench.receive(
            caller(),
            register("bob", contacts.len() as u32 + 1, contacts),
        );
        let response = bench.one();
        response.answers(200);
        assert_eq!(response.values(Name::ServiceRoute), routes);
        assert_eq!(response.value(Name::Date), "Tue, 15 Nov 1994 08:13:31 GMT");
        // A reg-id without an instance means nothing.
        assert!(response.values(Name::Require).is_empty());
        assert!(response.values(Name::FlowTimer).is_empty());
        assert!(!response.value(Name::Contact).contains("gruu"));
    }
}

#[test]
fn a_flow_of_an_instance_is_a_binding_of_its_own() {
    let mut bench = bench_with(|config| {
        config.registrar.flow_timer = Some(Duration::from_secs(120));
    });
    let first = register_flow(&mut bench, 1001, "a", 1);
    assert_eq!(first.values(Name::Require), ["outbound"]);
    assert_eq!(first.value(Name::FlowTimer), "120");
    let second = register_flow(&mut bench, 1002, "a", 2);
    assert_eq!(second.values(Name::Contact).len(), 2);

    // After a restart: another contact, another connection, the same instance and reg-id.
    let mut again = outbound(1, "restarted", &contact(1003, "A", 1));
    bench.receive(phone(1003), again.clone());
    let contacts = bench.one().answers(200).values(Name::Contact);
    assert!(
        contacts.len() == 2 && contacts[0].contains(":1003") && contacts[1].contains(":1002"),
        "{contacts:?}"
    );
    // And it goes by them too.
    again.replace(Name::Contact, contact(9, "a", 1) + ";expires=0");
    again.replace(Name::CSeq, "2 REGISTER");
    again.set_top_via_parameter("branch", Some("z9hG4bKgone"));
    bench.receive(phone(1003), again);
    assert_eq!(bench.one().answers(200).values(Name::Contact).len(), 1);
}

#[test]
fn an_instance_is_reached_by_the_flow_refreshed_last_and_by_the_others_when_that_fails() {
    let mut bench = bench();
    for (port, instance, reg_id) in [
        (1001, "a", 1),
        (1002, "a", 2),
        (2001, "b", 1),
        (1003, "a", 3),
    ] {
        register_flow(&mut bench, port, instance, reg_id);
        bench.pass(Duration::from_secs(1));
    }
    // One branch an instance.
    bench.receive(
        caller(),
        request(Method::Invite, "sip:bob@example.com", "call"),
    );
    let sent = bench.sent();
    assert_eq!(sent.len(), 3, "{sent:#?}");
    sent[0].answers(100);
    sent[1].goes_along(phone(1003));
    sent[2].goes_along(phone(2001));
    // An edge proxy has lost the flow.
    bench.receive(phone(1003), response(&sent[1].message, 430, "x"));
    let [ack, next] = bench.two();
    ack.is(Method::Ack, "sip:bob@10.0.0.1:1003;transport=tcp;ob");
    next.is(Method::Invite, "sip:bob@10.0.0.1:1002;transport=tcp;ob")
        .goes_along(phone(1002));
    // The connection is gone.
    bench.fail_last_request();
    let last = bench.one();
    last.goes_along(phone(1001));
    // The instance itself has answered.
    bench.receive(phone(1001), response(&last.message, 486, "x"));
    bench
        .one()
        .is(Method::Ack, "sip:bob@10.0.0.1:1001;transport=tcp;ob");
    bench.receive(phone(2001), response(&sent[2].message, 486, "y"));
    let [_, answer] = bench.two();
    answer.answers(486);
}

#[test]
fn another_answer_than_408_and_430_is_that_of_the_instance() {
    let mut bench = bench();
    register_flow(&mut bench, 1001, "a", 1);
    register_flow(&mut bench, 1002, "a", 2);
    bench.receive(caller(), options("sip:bob@example.com", "one"));
    let sent = bench.one();
    bench.receive(phone(1002), response(&sent.message, 404, "x"));
    bench.one().answers(404);
}

#[test]
fn a_flow_that_has_failed_is_no_business_of_the_caller() {
    let mut bench = bench();
    register_flow(&mut bench, 1001, "a", 1);
    bench.receive(caller(), options("sip:bob@example.com", "one"));
    let sent = bench.one();
    bench.receive(phone(1001), response(&sent.message, 430, "x"));
    bench.one().answers(480);
}

#[test]
fn an_outbound_flow_that_is_closed_is_not_replaced_by_a_connection() {
    let mut bench = bench();
    register_flow(&mut bench, 1001, "a", 1);
    register_flow(&mut bench, 1002, "a", 2);
    bench.proxy.handle_connection_closed(phone(1002).connection);
    bench.receive(caller(), options("sip:bob@example.com", "one"));
    bench.one().goes_along(phone(1001));
    bench.proxy.handle_connection_closed(phone(1001).connection);
    bench.receive(caller(), options("sip:bob@example.com", "two"));
    bench.one().answers(480);
}

/// RFC 7118 section 5: nobody can connect to who is in a browser, and the name in its Contact leads nowhere.
#[test]
fn a_websocket_is_not_replaced_by_a_connection() {
    for transport in ["ws", "wss"] {
        let here = format!("{transport}:192.0.2.1:8080");
        let mut bench = Bench::with(&[&here, LISTENERS[0]], &["example.com"], |_| {});
        let browser = flow(&here, "198.51.100.1:40001");
        for (user, contact) in [
            ("bob", "<sip:bob@df7jal23ls0d.invalid;transport=ws>"),
            ("carol", "<sip:carol@198.51.100.1:40001;transport=ws>"),
        ] {
            bench.register(browser, user, contact);
            let uri = format!("sip:{user}@example.com");
            bench.receive(caller(), options(&uri, &format!("{user}1")));
            bench.one().goes_along(browser);
        }
        bench.proxy.handle_connection_closed(browser.connection);
        bench.holds_questions = true;
        for user in ["bob", "carol"] {
            let uri = format!("sip:{user}@example.com");
            bench.receive(caller(), options(&uri, &format!("{user}2")));
            let (id, lookup) = bench.questions.pop_front().expect("a look-up");
            let bindings = bench.own_answer(lookup);
            bench.answer(id, bindings);
            assert!(bench.questions.is_empty(), "the resolver is not asked");
            bench.one().answers(480);
        }
    }
}

#[test]
fn outbound_through_a_proxy_needs_its_path_with_ob() {
    let register = |cseq: u32, path: &str| {
        let request = outbound(cseq, "x", &contact(1001, "a", 1));
        through(request, path)
    };
    let mut bench = bench();
    bench.receive(edge(), register(1, "<sip:t@192.0.2.50;lr>"));
    let refusal = bench.one();
    refusal.answers(439);
    assert_eq!(
        refusal.message.reason(),
        Some("First Hop Lacks Outbound Support")
    );

    // The first hop has come first, and stands last.
    bench.receive(
        edge(),
        register(2, "<sip:192.0.2.60;lr>, <sip:t@192.0.2.50;lr;ob>"),
    );
    let response = bench.one();
    assert_eq!(response.answers(200).values(Name::Require), ["outbound"]);

    // One who does not speak of outbound is not told about it.
    let mut old = through(
        common::register("alice", 3, &[&contact(1001, "c", 1)]),
        "<sip:t@192.0.2.50;lr>",
    );
    old.push_back(Name::Supported, "path");
    bench.receive(edge(), old);
    assert!(bench.one().answers(200).values(Name::Require).is_empty());
}

#[test]
fn one_register_makes_one_flow() {
    let mut bench = bench();
    let mut two = outbound(1, "x", &contact(1001, "a", 1));
    two.push_back(Name::Contact, "<sip:bob@10.0.0.2>");
    bench.receive(phone(1001), two.clone());
    bench.one().answers(400);
    // One that goes may go with it.
    let mut with_removal = outbound(2, "x", &contact(1001, "a", 1));
    with_removal.push_back(Name::Contact, "<sip:bob@10.0.0.2>;expires=0");
    bench.receive(phone(1001), with_removal);
    bench.one().answers(200);
}

#[test]
fn outbound_and_gruus_can_be_turned_off() {
    let mut bench = bench_with(|config| {
        config.registrar.outbound = false;
        config.registrar.gruu = false;
    });
    let response = register_flow(&mut bench, 1001, "a", 1);
    assert!(response.values(Name::Require).is_empty());
    assert!(!response.value(Name::Contact).contains("gruu"));
}

#[test]
fn a_gruu_leads_to_its_instance_alone() {
    let mut bench = bench();
    let (public, temporary) = gruus(&register_flow(&mut bench, 1001, "a", 1));
    register_flow(&mut bench, 2001, "b", 1);
    assert_eq!(public, "sip:bob@example.com;gr=urn:uuid:a");
    assert!(temporary.starts_with("sip:tgruu.") && temporary.ends_with("@example.com;gr"));
    for (number, uri) in [&public, &temporary].into_iter().enumerate() {
        bench.receive(caller(), options(uri, &format!("one{number}")));
        let sent = bench.one();
        sent.is(Method::Options, "sip:bob@10.0.0.1:1001;transport=tcp;ob")
            .goes_along(phone(1001));
    }
    // None that we have given out.
    for (number, uri) in ["sip:bob@example.com;gr", "sip:tgruu.00@example.com;gr"]
        .iter()
        .enumerate()
    {
        bench.receive(caller(), options(uri, &format!("two{number}")));
        bench.one().answers(404);
    }
    // One of a user agent that is not there.
    bench.receive(
        caller(),
        options("sip:bob@example.com;gr=urn:uuid:c", "three"),
    );
    bench.one().answers(480);
}

/// RFC 5627 section 3.1: the parameter is what counts, by its name (RFC 3261 section 19.1.4).
#[test]
fn a_gruu_is_known_by_its_parameter() {
    let mut bench = bench();
    register_flow(&mut bench, 1001, "a", 1);
    register_flow(&mut bench, 2001, "b", 1);
    let none = [
        "sip:bob@example.com;group=x",
        "sip:bob@example.com;grid=1",
        "sip:bob@example.com;x=y;great",
    ];
    for (number, uri) in none.into_iter().enumerate() {
        bench.receive(caller(), options(uri, &format!("none{number}")));
        let [one, other] = bench.two();
        one.goes_along(phone(1001));
        other.goes_along(phone(2001));
    }
    let some = [
        "sip:bob@example.com;GR=urn:uuid:a",
        "sip:bob@example.com;%67r=urn:uuid:a",
        "sip:bob@example.com;x=y;g%72=urn:uuid:a",
    ];
    for (number, uri) in some.into_iter().enumerate() {
        bench.receive(caller(), options(uri, &format!("some{number}")));
        bench.one().goes_along(phone(1001));
    }
    // A part of a user's name is none.
    let semicolon = "<sip:x@192.0.2.9:5070>";
    let mut request = register("bob;grp", 1, &[semicolon]);
    request.replace(Name::CallId, "semicolon");
    bench.receive(caller(), request);
    bench.one().answers(200);
    bench.receive(caller(), options("sip:bob;grp@example.com", "user"));
    bench.one().is(Method::Options, "sip:x@192.0.2.9:5070");
}

#[test]
fn temporary_gruus_live_as_long_as_the_instance_registers_with_one_call_id() {
    let mut bench = bench();
    let (_, first) = gruus(&register_flow(&mut bench, 1001, "a", 1));
    bench.pass(Duration::from_secs(1));
    let (_, of_other_flow) = gruus(&register_flow(&mut bench, 1002, "a", 2));
    // A refresh brings a new one, and leaves the old ones.
    bench.receive(phone(1001), outbound(2, "a-1", &contact(1001, "a", 1)));
    let (_, second) = gruus(&bench.one());
    assert!(first != second && first != of_other_flow);
    for (number, uri) in [&first, &second, &of_other_flow].into_iter().enumerate() {
        bench.receive(caller(), options(uri, &format!("one{number}")));
        bench.one().goes_along(phone(1001));
    }
    // One flow is enough.
    let gone = contact(1001, "a", 1) + ";expires=0";
    bench.receive(phone(1001), outbound(3, "a-1", &gone));
    bench.one().answers(200);
    bench.receive(caller(), options(&first, "two"));
    bench.one().goes_along(phone(1002));
    // Another Call-ID.
    bench.receive(phone(1002), outbound(1, "new", &contact(1002, "a", 2)));
    let (public, third) = gruus(&bench.one());
    bench.receive(caller(), options(&first, "three"));
    bench.one().answers(404);
    bench.receive(caller(), options(&third, "four"));
    bench.one().goes_along(phone(1002));
    // Nobody is left: a public GRUU is still one, a temporary one is void.
    bench.pass(Duration::from_secs(3601));
    // What was left of the requests that nobody has answered.
    bench.sent();
    bench.receive(caller(), options(&third, "five"));
    bench.one().answers(404);
    bench.receive(caller(), options(&public, "six"));
    bench.one().answers(480);
}

#[test]
fn of_contacts_of_an_instance_without_flows_the_last_counts() {
    let mut bench = bench();
    for (seconds, port) in [(1, 5070), (1, 5071)] {
        let contact = format!("<sip:bob@192.0.2.9:{port}>;+sip.instance=\"<urn:uuid:a>\"");
        let call_id = format!("boot{port}");
        bench.receive(caller(), outbound(1, &call_id, &contact));
        bench.one().answers(200);
        bench.pass(Duration::from_secs(seconds));
    }
    bench.receive(
        caller(),
        options("sip:bob@example.com;gr=urn:uuid:a", "one"),
    );
    let sent = bench.one();
    sent.is(Method::Options, "sip:bob@192.0.2.9:5071");
    bench.receive(caller(), response(&sent.message, 408, "x"));
    bench.one().is(Method::Options, "sip:bob@192.0.2.9:5070");
}

#[test]
fn a_contact_that_leads_back_to_its_user_is_refused() {
    let mut bench = bench();
    let (_, temporary) = gruus(&register_flow(&mut bench, 1001, "a", 1));
    for (number, uri) in (2..).zip([
        "sip:bob@example.com",
        "sip:b%6fb@EXAMPLE.com;transport=tcp",
        "sip:bob@example.com;gr=urn:uuid:a",
        &temporary,
        "tel:+15551234",
    ]) {
        let contact = format!("<{uri}>;+sip.instance=\"<urn:uuid:b>\"");
        bench.receive(phone(1001), outbound(number, "loop", &contact));
        bench.one().answers(403);
    }
    let other = "<sip:alice@example.com>;+sip.instance=\"<urn:uuid:b>\"";
    bench.receive(phone(1001), outbound(20, "loop", other));
    bench.one().answers(200);
}

#[test]
fn an_edge_proxy_keeps_the_flow_of_a_user_agent_that_registers_elsewhere() {
    let mut bench = bench_with(|config| config.maximum_held_octets = 5_000);
    let mut request = outbound(1, "x", &contact(1001, "a", 1));
    request.set_request_uri("sip:192.0.2.77");
    bench.receive(phone(1001), request.clone());
    let path = bench.one().value(Name::Path);
    assert!(
        path.starts_with("<sip:") && path.ends_with("@192.0.2.1:5060;transport=tcp;lr;ob>"),
        "{path}"
    );

    // The registrar's proxy sends a call along it.
    let registrar = flow("udp:192.0.2.1:5060", "192.0.2.77:5060");
    let call = |call: &str, route: &str| {
        common::request(Method::Invite, "sip:bob@10.0.0.1:1001", call).with(Name::Route, route)
    };
    bench.receive(registrar, call("one", &path));
    let [_, sent] = bench.two();
    sent.is(Method::Invite, "sip:bob@10.0.0.1:1001")
        .goes_along(phone(1001));
    assert!(sent.values(Name::Route).is_empty());
    // Later requests of the dialog go along it too.
    assert!(sent.value(Name::RecordRoute).contains('@'));
    bench.fail_last_request();
    assert_eq!(
        bench.one().answers(430).message.reason(),
        Some("Flow Failed")
    );
    // A user agent that is busy is there (RFC 5626 section 5.3.1), and that we are says nothing of the flow.
    bench.receive(registrar, call("busy", &path));
    let [_, sent] = bench.two();
    bench.receive(phone(1001), response(&sent.message, 503, "x"));
    let [_ack, answer] = bench.two();
    answer.answers(500);
    let large = call("full", &path).with(Name::Subject, "x".repeat(3_000));
    bench.receive(registrar, large);
    let [_, answer] = bench.two();
    answer.answers(503);

    let forged = path.replacen(['0', '1'], "2", 1);
    bench.receive(registrar, call("two", &forged));
    bench.one().answers(403);

    // One who wants no flow is not held.
    let mut plain = register("bob", 1, &["<sip:bob@192.0.2.9>"]).with(Name::Supported, "path");
    plain.set_request_uri("sip:192.0.2.77");
    bench.receive(caller(), plain);
    assert!(bench.one().values(Name::Path).is_empty());
}

#[test]
fn a_user_on_sctp_is_reached_by_any_address_when_the_association_is_gone() {
    let mut bench = bench();
    // It registers the second of its addresses over an association that we know by the first.
    let association = flow("sctp:192.0.2.1:5060", "192.0.2.101:5060");
    bench.register(
        association,
        "bob",
        "<sip:bob@192.0.2.102:5060;transport=sctp>",
    );
    bench.receive(caller(), options("sip:bob@example.com", "one"));
    let both = ["192.0.2.101:5060", "192.0.2.102:5060"];
    let sent = bench.one();
    let over_both = Target::FlowOrAddress(association, association.remote);
    assert_eq!(sent.target, over_both);
    assert_eq!(sent.addresses(), both);
    bench.proxy.handle_connection_closed(association.connection);
    bench.receive(caller(), options("sip:bob@example.com", "two"));
    let sent = bench.one();
    sent.goes_to("sctp:192.0.2.101:5060");
    assert_eq!(sent.addresses(), both);
}

#[test]
fn what_may_be_another_host_is_not_brought_into_the_association() {
    for (seen, contact) in [
        // Behind a NAT, where others have the same port.
        ("192.0.2.101:5060", "10.0.0.5:5060"),
        ("192.0.2.101:5060", "100.64.0.5:5060"),
        ("[2001:db8::1]:5060", "[fd00::5]:5060"),
        // An association has one port.
        ("192.0.2.101:5062", "192.0.2.102:5060"),
    ] {
        let mut bench = bench();
        let association = flow("sctp:192.0.2.1:5060", seen);
        bench.register(
            association,
            "bob",
            &format!("<sip:bob@{contact};transport=sctp>"),
        );
        bench.proxy.handle_connection_closed(association.connection);
        bench.receive(caller(), options("sip:bob@example.com", "one"));
        for sent in bench.sent() {
            assert_eq!(sent.addresses(), [""; 0], "{contact}");
        }
    }
}

/// A bench that keeps flows open.
fn with_keep_alives(method: KeepAliveMethod, maximum_flows: usize) -> Bench {
    bench_with(|config| {
        config.policy = Arc::new(Policy {
            keep_alive: KeepAlivePolicy {
                method: Some(method),
                interval: Duration::from_secs(25),
                maximum_flows,
            },
            ..Policy::default()
        });
    })
}

/// What is sent along each flow until a time is over.
fn kept_alive(bench: &mut Bench, time: Duration) -> Vec<(String, Vec<u8>)> {
    let end = bench.now + time;
    let mut sent = Vec::new();
    while let Some(due) = bench.proxy.next_timeout().filter(|due| *due <= end) {
        bench.now = bench.now.max(due);
        bench.proxy.handle_timeout(bench.now);
        while let Some(transmit) = bench.proxy.poll_transmit() {
            match transmit.target {
                sip::Target::Flow(flow) => {
                    sent.push((flow.remote.to_string(), transmit.payload.to_vec()));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    bench.now = end;
    sent
}

#[test]
fn flows_through_nats_are_kept_open_while_somebody_is_registered() {
    let mut bench = with_keep_alives(KeepAliveMethod::LineEnds, 10);
    let nat = flow("udp:192.0.2.1:5060", "198.51.100.1:40000");
    bench.register(nat, "bob", "<sip:bob@10.0.0.1:5060>;expires=100");
    // One that is not behind a NAT, and one that has a connection.
    bench.register(caller(), "alice", "<sip:alice@192.0.2.9:5060>");
    bench.register(phone(1001), "carol", "<sip:carol@10.0.0.1;transport=tcp>");
    assert_eq!(bench.proxy.statistics().keep_alives, 1);
    // Transactions end in silence meanwhile.
    let sent = kept_alive(&mut bench, Duration::from_secs(300));
    assert_eq!(
        sent,
        vec![("198.51.100.1:40000".to_owned(), b"\r\n\r\n".to_vec()); 3]
    );
    assert_eq!(bench.proxy.statistics().keep_alives, 0);
    assert_eq!(bench.proxy.statistics().keep_alives_sent, 3);
}

#[test]
fn a_flow_that_the_bindings_have_left_is_not_kept_open() {
    let mut bench = with_keep_alives(KeepAliveMethod::LineEnds, 10);
    let [first, second, third] = [40_000, 40_001, 40_002]
        .map(|port| flow("udp:192.0.2.1:5060", &format!("198.51.100.1:{port}")));
    let seen = |bench: &mut Bench| {
        let sent = kept_alive(bench, Duration::from_secs(25));
        let ports = sent.iter().map(|(remote, _)| remote.rsplit(':').next());
        ports
            .map(|port| port.unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    // Two lines of one telephone; one of them goes.
    again(
        &mut bench,
        first,
        "bob",
        1,
        "<sip:bob@10.0.0.1:5060>;expires=3600",
    );
    again(
        &mut bench,
        first,
        "alice",
        2,
        "<sip:alice@10.0.0.1:5060>;expires=60",
    );
    assert_eq!(bench.proxy.statistics().keep_alives, 1);
    again(
        &mut bench,
        first,
        "bob",
        3,
        "<sip:bob@10.0.0.1:5060>;expires=0",
    );
    assert_eq!(seen(&mut bench), ["40000"]);
    // Its NAT gives it another port.
    again(
        &mut bench,
        second,
        "alice",
        4,
        "<sip:alice@10.0.0.1:5060>;expires=60",
    );
    assert_eq!(bench.proxy.statistics().keep_alives, 1);
    assert_eq!(seen(&mut bench), ["40001"]);
    // Another telephone of the user changes nothing of that.
    again(
        &mut bench,
        third,
        "alice",
        5,
        "<sip:alice@10.0.0.2:5060>;expires=3600",
    );
    assert_eq!(seen(&mut bench), ["40001", "40002"]);
    // The binding that is left ends.
    assert_eq!(seen(&mut bench), ["40002"]);
    // All are removed, from elsewhere.
    let all = register("alice", 6, &["*"]).with(Name::Expires, "0");
    bench.receive(second, all);
    bench.one().answers(200);
    assert_eq!(bench.proxy.statistics().keep_alives, 0);
    assert!(seen(&mut bench).is_empty());
}

#[test]
fn a_flow_is_kept_open_no_longer_than_those_who_are_left() {
    let mut bench = with_keep_alives(KeepAliveMethod::LineEnds, 10);
    let nat = flow("udp:192.0.2.1:5060", "198.51.100.1:40000");
    again(
        &mut bench,
        nat,
        "bob",
        7,
        "<sip:bob@10.0.0.1:5060>;expires=3600",
    );
    again(
        &mut bench,
        nat,
        "alice",
        8,
        "<sip:alice@10.0.0.1:5060>;expires=60",
    );
    again(
        &mut bench,
        nat,
        "bob",
        9,
        "<sip:bob@10.0.0.1:5060>;expires=0",
    );
    assert_eq!(kept_alive(&mut bench, Duration::from_secs(300)).len(), 2);
    assert_eq!(bench.proxy.statistics().keep_alives, 0);
}

/// A gateway keeps its flow, and users of it come and go.
#[test]
fn who_is_not_registered_any_more_takes_no_room_on_a_flow_that_others_have() {
    let mut bench = with_keep_alives(KeepAliveMethod::LineEnds, 1);
    let gateway = flow("udp:192.0.2.1:5060", "198.51.100.1:40000");
    let mut come = |user: &str, cseq, expires| {
        let contact = format!("<sip:{user}@10.0.0.1:5060>;expires={expires}");
        again(&mut bench, gateway, user, cseq, &contact);
        let statistics = bench.proxy.statistics();
        (statistics.keep_alives, statistics.keep_alives_refused)
    };
    assert_eq!(come("alice", 1, 100), (1, 0));
    for (number, user) in ["b", "c", "d"].into_iter().enumerate() {
        assert_eq!(come(user, 2 + number as u32, 60), (1, 0));
    }
    // There is room for four. One comes again for longer, and then goes.
    assert_eq!(come("e", 5, 600), (1, 1));
    assert_eq!(come("d", 6, 900), (1, 1));
    assert_eq!(come("d", 7, 60), (1, 1));
    assert_eq!(kept_alive(&mut bench, Duration::from_secs(75)).len(), 3);
    let mut come = |user: &str, cseq| {
        let contact = format!("<sip:{user}@10.0.0.1:5060>;expires=60");
        again(&mut bench, gateway, user, cseq, &contact);
        bench.proxy.statistics().keep_alives_refused
    };
    for (number, user) in ["e", "f", "g"].into_iter().enumerate() {
        assert_eq!(come(user, 8 + number as u32), 1);
    }
    // As long as the last of them is there.
    assert_eq!(kept_alive(&mut bench, Duration::from_secs(300)).len(), 2);
    assert_eq!(bench.proxy.statistics().keep_alives, 0);
}

/// Registers a contact, which may be another one than before.
fn again(bench: &mut Bench, flow: Flow, user: &str, cseq: u32, contact: &str) {
    bench.receive(flow, register(user, cseq, &[contact]));
    bench.one().answers(200);
}

#[test]
fn options_keep_flows_open_too_and_their_answers_mean_nothing() {
    let mut bench = with_keep_alives(KeepAliveMethod::Options, 10);
    let nat = flow("udp:192.0.2.1:5060", "198.51.100.1:40000");
    bench.register(nat, "bob", "<sip:bob@10.0.0.1:5060>;expires=60");
    let mut sent = kept_alive(&mut bench, Duration::from_secs(30));
    let (_, octets) = sent.remove(0);
    let options = Message::read(octets.into()).expect("a message");
    options.validate().expect("a request that keeps the rules");
    assert_eq!(options.method(), Some(&Method::Options));
    bench.receive(nat, Message::response_to(&options, 200, "OK"));
    bench.silence();
}

#[test]
fn keep_alives_are_bounded_and_paced() {
    let mut bench = with_keep_alives(KeepAliveMethod::LineEnds, 200);
    for number in 0..201_u16 {
        let nat = flow(
            "udp:192.0.2.1:5060",
            &format!("198.51.100.1:{}", 40_000 + number),
        );
        bench.register(nat, &format!("user{number}"), "<sip:x@10.0.0.1:5060>");
    }
    assert_eq!(bench.proxy.statistics().keep_alives_refused, 1);
    assert_eq!(kept_alive(&mut bench, Duration::from_secs(25)).len(), 64);
    assert_eq!(kept_alive(&mut bench, Duration::from_millis(9)).len(), 0);
    assert_eq!(kept_alive(&mut bench, Duration::from_millis(1)).len(), 64);
    assert_eq!(kept_alive(&mut bench, Duration::from_millis(20)).len(), 72);
    // Turned off.
    bench.proxy.set_policy(bench.now, Arc::default());
    kept_alive(&mut bench, Duration::from_secs(60));
    assert_eq!(bench.proxy.statistics().keep_alives, 0);
}
