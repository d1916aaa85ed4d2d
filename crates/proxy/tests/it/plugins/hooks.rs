//! Each hook: when it is called, and what it sees.

use std::time::Duration;

use super::{Scene, alice, answer, bob, invite};
use crate::common::{register, request};
use proxy::core::{Event, PluginScript, Setting};
use sip::{Method, Name};

#[test]
fn on_request_sees_the_request_and_changes_it() {
    let mut scene = Scene::new(
        r#"
        function on_request(request)
          local seen = table.concat({
            request.method, request.uri, request.source, request.port, request.transport,
            tostring(request.user), tostring(request.in_dialog), request.call_id,
            request:header("from"), tostring(request:header("X-None")),
          }, " ")
          request:set_header("X-Seen", seen)
          request:add_header("X-Seen", "twice")
          request:remove_header("Contact")
        end
        "#,
    );
    let sent = scene.outcome();
    sent.is(Method::Invite, "sip:bob@192.0.2.20");
    assert_eq!(
        sent.values(Name::Other("X-Seen")),
        [
            "INVITE sip:bob@example.com 192.0.2.9 5060 udp nil false call <sip:alice@example.com>;tag=a1 nil",
            "twice"
        ]
    );
    assert!(!sent.message.contains(Name::Contact));
    // All else is as it came.
    assert_eq!(sent.value(Name::CSeq), "1 INVITE");
    assert!(scene.errors().is_empty());
}

#[test]
fn a_request_with_another_uri_is_for_somebody_else() {
    let mut scene =
        Scene::new(r#"function on_request(request) request.uri = "sip:bob@example.com" end"#);
    let sent = scene.request(request(Method::Invite, "sip:+15550100@example.com", "call"));
    sent[0].is(Method::Invite, "sip:bob@192.0.2.20");
}

#[test]
fn on_register_is_called_before_the_binding_is_made() {
    let mut scene = Scene::new(
        r#"
        function on_register(request)
          if request:header("Expires") == nil then request:reply(403, "No Interval") end
        end
        "#,
    );
    let mut sent = scene.request(register("carol", 1, &["<sip:carol@192.0.2.9>"]));
    assert_eq!(
        sent.remove(0).answers(403).message.reason(),
        Some("No Interval")
    );
    let with = register("carol", 2, &["<sip:carol@192.0.2.9>"]).with(Name::Expires, "60");
    scene.request(with)[0].answers(200);
}

#[test]
fn on_route_decides_where_a_request_goes() {
    let mut scene =
        Scene::new(r#"function on_route(request) request:route("sip:192.0.2.70:5070") end"#);
    scene
        .outcome()
        .is(Method::Invite, "sip:bob@example.com")
        .goes_to("udp:192.0.2.70:5070");
}

#[test]
fn on_branch_changes_its_copy_alone() {
    let mut scene = Scene::new(
        r#"
        function on_route(request) request:fork("sip:one@192.0.2.71", "sip:two@192.0.2.72", "sip:no@192.0.2.73") end
        function on_branch(branch)
          if branch.target == "sip:one@192.0.2.71" then branch:set_header("X-Branch", branch.target) end
          if branch.target == "sip:no@192.0.2.73" then branch:reply(403) end
        end
        "#,
    );
    let sent = scene.call();
    let seen: Vec<_> = sent
        .iter()
        .map(|sent| {
            let uri = sent.message.request_uri().expect("a request");
            (uri, sent.message.header(Name::Other("X-Branch")))
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("sip:one@192.0.2.71", Some("sip:one@192.0.2.71")),
            ("sip:two@192.0.2.72", None)
        ]
    );
}

#[test]
fn on_reply_changes_responses_and_drops_provisional_ones() {
    let mut scene = Scene::new(
        r#"
        function on_reply(response)
          if response.status == 183 then response:drop() return end
          response:set_header("X-Status", response.status .. " " .. response.reason .. " " .. response.method)
          if response.status >= 200 then
            local is_done, why = pcall(response.drop, response)
            response:set_header("X-Final", why)
          end
        end
        "#,
    );
    let sent = scene.outcome();
    scene.bench.receive(bob(), answer(&sent, 183));
    scene.bench.silence();
    scene.bench.receive(bob(), answer(&sent, 180));
    let ringing = scene.bench.one();
    assert_eq!(
        ringing.value(Name::Other("X-Status")),
        "180 Some Reason INVITE"
    );
    scene.bench.receive(bob(), answer(&sent, 200));
    let answered = scene.bench.one();
    assert_eq!(
        answered.answers(200).value(Name::Other("X-Final")),
        "a final response cannot be dropped"
    );
}

#[test]
fn on_failure_tries_others_or_says_something_else() {
    let mut scene = Scene::new(
        r#"
        function on_failure(failure)
          if failure.status == 486 and failure:response_header("X-Why") == "lunch" then
            failure:forward("sip:voicemail@192.0.2.80", "sip:nobody@192.0.2.81")
          elseif failure.status == 404 then
            failure:reply(410, "Long Gone")
          end
        end
        "#,
    );
    let sent = scene.outcome();
    let busy = answer(&sent, 486).with(Name::Other("X-Why"), "lunch");
    scene.bench.receive(bob(), busy);
    let sent = scene.sent();
    let next = sent
        .iter()
        .find(|sent| sent.message.method() == Some(&Method::Invite));
    let next = next.expect("an INVITE").clone();
    next.is(Method::Invite, "sip:voicemail@192.0.2.80");
    let there = crate::common::flow(super::HERE, "192.0.2.80:5060");
    scene.bench.receive(there, answer(&next, 404));
    let sent = scene.sent();
    let last = sent
        .iter()
        .find(|sent| sent.message.method() == Some(&Method::Invite));
    let last = last.expect("an INVITE").clone();
    last.is(Method::Invite, "sip:nobody@192.0.2.81");
    let there = crate::common::flow(super::HERE, "192.0.2.81:5060");
    scene.bench.receive(there, answer(&last, 404));
    let sent = scene.sent();
    let end = sent.iter().find(|sent| sent.message.status().is_some());
    let end = end.expect("a response");
    assert_eq!(
        (end.status(), end.message.reason()),
        (410, Some("Long Gone"))
    );
}

#[test]
fn on_dialog_end_is_told_the_names_of_the_dialog() {
    let mut scene = Scene::new(
        r#"
        function on_dialog_end(dialog)
          tandem.log("info", dialog.call_id .. " " .. dialog.from_tag .. " " .. dialog.to_tag)
        end
        "#,
    );
    let mut bye = request(Method::Bye, "sip:bob@example.com", "call");
    bye.set_to_tag("b1");
    let sent = scene.request(bye).remove(0);
    scene.bench.receive(bob(), answer(&sent, 200));
    assert_eq!(scene.logged(), ["call a1 b1"]);
}

#[test]
fn a_timer_is_called_again_and_again() {
    let mut scene = Scene::new(
        r#"
        local count = 0
        tandem.every(10, function() count = count + 1 tandem.log("info", "tick " .. count) end)
        "#,
    );
    scene.bench.pass(Duration::from_secs(35));
    assert_eq!(scene.logged(), ["tick 1", "tick 2", "tick 3"]);
    scene.load(Vec::new());
    scene.bench.pass(Duration::from_secs(35));
    assert_eq!(scene.logged().len(), 3);
    assert_eq!(scene.bench.proxy.next_timeout(), None);
}

#[test]
fn scripts_are_asked_in_their_order_until_one_decides() {
    let order = |name: &str, rest: &str| {
        let text = format!(
            "function on_request(request) request:add_header('X-Order', '{name}') {rest} end"
        );
        PluginScript::new(name, &text)
    };
    let mut scene = Scene::of(vec![
        order("one", ""),
        order(
            "two",
            "request:reply(480, request:headers('X-Order')[1] .. #request:headers('X-Order'))",
        ),
        order("three", "request:drop()"),
    ]);
    let sent = scene.outcome();
    assert_eq!(sent.answers(480).message.reason(), Some("one2"));
}

#[test]
fn a_script_has_settings_files_the_time_and_numbers_by_chance() {
    let mut script = PluginScript::new(
        "script",
        r#"
        function on_request(request)
          request:reply(480, table.concat({
            settings.carrier, settings.prefixes[2], tostring(settings.nested.is_on), files.rates,
            os.date("%H:%M"), os.time(), tostring(io), tostring(debug), tostring(require), tostring(os.execute),
            math.random(1000000),
          }, " "))
        end
        "#,
    );
    let text = |text: &str| Setting::Text(text.into());
    let nested = [("is_on".into(), Setting::Boolean(true))];
    let settings = [
        ("carrier".into(), text("one")),
        (
            "prefixes".into(),
            Setting::List(vec![text("44"), text("49")]),
        ),
        ("nested".into(), Setting::Table(nested.into())),
    ];
    script.settings = Setting::Table(settings.into());
    script.files.insert("rates".into(), (*b"49;0.01").into());
    let said = |seed| {
        let mut scene = Scene::seeded(vec![script.clone()], seed);
        scene
            .outcome()
            .message
            .reason()
            .expect("a reason")
            .to_owned()
    };
    let first = said(1);
    assert!(
        first.starts_with("one 49 true 49;0.01 12:00 1795953600 nil nil nil nil "),
        "{first}"
    );
    // The same seed gives the same numbers.
    assert_eq!(said(1), first);
    assert_ne!(said(2), first);
}

#[test]
fn what_is_counted_and_tagged_can_be_read() {
    let mut scene = Scene::new(
        r#"
        function on_request(request)
          tandem.count("calls")
          tandem.count("octets", #request.body + 3)
          request:tag("carrier", "one")
        end
        "#,
    );
    scene.call();
    let counts = scene.counts();
    assert_eq!(counts.hooks, [("on_request", 1, 0)]);
    assert_eq!(counts.counts, [("calls".into(), 1), ("octets".into(), 3)]);
    let tag = Event::CallTagged {
        call_id: "call".into(),
        from_tag: "a1".into(),
        name: "carrier".into(),
        value: "one".into(),
    };
    assert!(scene.bench.events.contains(&tag));
}

#[test]
fn hooks_that_a_script_does_not_have_cost_nothing() {
    let mut scene = Scene::new("function on_reply(response) end");
    let sent = scene.outcome();
    scene.bench.receive(alice(), invite("other"));
    scene.bench.receive(bob(), answer(&sent, 486));
    assert_eq!(scene.counts().hooks, [("on_reply", 1, 0)]);
}
