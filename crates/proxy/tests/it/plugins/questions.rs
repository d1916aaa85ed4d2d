//! Questions: a hook waits for the answer, and all else goes on.

use std::time::Duration;

use super::{Scene, alice, answer, bob, invite};
use crate::common::request;
use bytes::Bytes;
use proxy::core::{Answer, HttpResponse, PluginScript, Query, QueryId};
use sip::{Method, Name};

/// The hook's question, when the core's own have been answered.
fn asked(scene: &mut Scene) -> Option<(QueryId, Query)> {
    scene.bench.questions.pop_front()
}

fn holding(text: &str) -> Scene {
    let mut scene = Scene::new(text);
    scene.bench.holds_questions = true;
    scene
}

#[test]
fn a_location_is_looked_up() {
    let mut scene = Scene::new(
        r#"
        function on_request(request)
          local contacts = tandem.location("sip:bob@example.com")
          local nobody, why = tandem.location("sip:nobody@example.com")
          local wrong, reason = tandem.location("mailto:bob@example.com")
          request:reply(480, table.concat({ #contacts, contacts[1].uri, contacts[1].q, tostring(nobody), why,
            tostring(wrong), reason }, " "))
        end
        "#,
    );
    let sent = scene.outcome();
    assert_eq!(
        sent.answers(480).message.reason(),
        Some("1 sip:bob@192.0.2.20 1.0 nil unknown nil no address of record")
    );
}

#[test]
fn a_name_is_resolved() {
    let mut scene = Scene::new(
        r#"
        function on_route(request)
          local hops = tandem.resolve("sip:carrier.example")
          request:route("sip:" .. hops[1].address .. ":" .. hops[1].port .. ";transport=" .. hops[1].transport)
        end
        "#,
    );
    let hop = (
        sip::Transport::Udp,
        "192.0.2.90:5080".parse().expect("an address"),
    );
    scene
        .bench
        .names
        .insert("carrier.example".to_owned(), vec![hop]);
    scene.outcome().goes_to("udp:192.0.2.90:5080");
}

#[test]
fn a_user_is_known_or_not() {
    let mut scene = Scene::new(
        r#"
        function on_request(request)
          request:reply(480, tostring(tandem.has_user("example.com", "alice")) .. " "
            .. tostring(tandem.has_user("example.com", "mallory")))
        end
        "#,
    );
    scene
        .bench
        .passwords
        .insert("alice".to_owned(), "secret".to_owned());
    assert_eq!(scene.outcome().message.reason(), Some("true false"));
}

#[test]
fn a_request_over_http_suspends_the_hook_and_nothing_else() {
    let mut scene = holding(
        r#"
        function on_request(request)
          if request.call_id ~= "call" then return end
          request:set_header("X-Before", "1")
          local response, why = tandem.post("http://rates.example/", { number = 5 })
          request:reply(480, response.status .. " " .. response.json.carrier)
        end
        "#,
    );
    scene.bench.receive(alice(), invite("call"));
    // Whoever calls knows that it is being worked on.
    scene.bench.one().answers(100);
    let (id, query) = asked(&mut scene).expect("a question");
    let Query::Http(request) = query else {
        panic!("over HTTP: {query:?}");
    };
    assert_eq!(
        (&*request.method, &*request.url),
        ("POST", "http://rates.example/")
    );
    assert_eq!(&request.body[..], br#"{"number":5}"#);
    assert_eq!(
        *request.fields,
        [("Content-Type".into(), "application/json".into())]
    );
    // Another call is not held up.
    scene.bench.receive(alice(), invite("other"));
    assert!(matches!(asked(&mut scene), Some((_, Query::Lookup(_)))));
    scene.bench.sent();
    let response = HttpResponse {
        status: 200,
        body: Bytes::from_static(br#"{"carrier": "two"}"#),
    };
    scene.bench.answer(id, Answer::Http(response));
    let sent = scene.bench.one();
    assert_eq!(sent.answers(480).message.reason(), Some("200 two"));
}

#[test]
fn without_an_answer_there_is_nil_and_a_reason() {
    let mut scene = holding(
        r#"
        function on_request(request)
          local response, why = tandem.get("http://rates.example/")
          request:reply(480, tostring(response) .. " " .. why)
        end
        "#,
    );
    scene.bench.receive(alice(), invite("call"));
    scene.bench.pass(Duration::from_secs(10));
    let sent = scene.sent().remove(0);
    assert_eq!(sent.answers(480).message.reason(), Some("nil no answer"));
}

#[test]
fn every_hook_can_ask() {
    let mut scene = holding(
        r#"
        local function ask(name)
          local response = tandem.get("http://" .. name .. ".example/")
          tandem.log("info", name .. " " .. response.body)
        end
        function on_request() ask("request") end
        function on_route() ask("route") end
        function on_branch(branch) branch:set_header("X-Branch", "1") ask("branch") end
        function on_reply() ask("reply") end
        function on_failure() ask("failure") end
        function on_dialog_end() ask("end") end
        tandem.every(60, function() ask("timer") end)
        "#,
    );
    let let_on = |scene: &mut Scene| {
        while let Some((id, query)) = asked(scene) {
            let answer = match query {
                Query::Http(request) => Answer::Http(HttpResponse {
                    status: 200,
                    body: Bytes::copy_from_slice(request.url.as_bytes()),
                }),
                own => scene.bench.own_answer(own),
            };
            scene.bench.answer(id, answer);
        }
    };
    scene.bench.receive(alice(), invite("call"));
    let_on(&mut scene);
    let sent = scene.sent().remove(0);
    assert_eq!(sent.value(Name::Other("X-Branch")), "1");
    scene.bench.receive(bob(), answer(&sent, 486));
    let_on(&mut scene);
    let mut bye = request(Method::Bye, "sip:bob@example.com", "bye");
    bye.set_to_tag("b1");
    scene.bench.receive(alice(), bye);
    let_on(&mut scene);
    let sent = scene.sent();
    let bye = sent
        .iter()
        .find(|sent| sent.message.method() == Some(&Method::Bye));
    let answer = answer(bye.expect("a BYE"), 200);
    scene.bench.receive(bob(), answer);
    let_on(&mut scene);
    scene.bench.pass(Duration::from_secs(60));
    let_on(&mut scene);
    let mut logged = scene.logged();
    logged.dedup();
    let said = |name: &str| format!("{name} http://{name}.example/");
    let expected = ["request", "route", "branch", "reply", "failure"];
    assert_eq!(logged[..5], expected.map(said));
    assert!(logged.contains(&said("end")) && logged.contains(&said("timer")));
    assert!(scene.errors().is_empty(), "{:?}", scene.errors());
}

#[test]
fn a_question_in_a_coroutine_of_the_scripts_own_suspends_the_hook() {
    let mut scene = holding(
        r#"
        function on_request(request)
          local parts = {}
          local ask = coroutine.wrap(function()
            coroutine.yield("before")
            local response = tandem.get("http://inner.example/")
            coroutine.yield(response.body)
            return "after"
          end)
          for at = 1, 3 do parts[at] = ask() end
          request:reply(480, table.concat(parts, " "))
        end
        "#,
    );
    scene.bench.receive(alice(), invite("call"));
    let (id, _) = asked(&mut scene).expect("a question");
    let response = HttpResponse {
        status: 200,
        body: Bytes::from_static(b"answer"),
    };
    scene.bench.answer(id, Answer::Http(response));
    let sent = scene.sent().remove(0);
    assert_eq!(sent.message.reason(), Some("before answer after"));
}

#[test]
fn what_waits_can_be_cancelled_and_leaves_nothing() {
    let mut scene = holding(
        r#"function on_request(request) tandem.get("http://silent.example/") request:reply(480) end"#,
    );
    scene.bench.receive(alice(), invite("call"));
    let (id, _) = asked(&mut scene).expect("a question");
    let mut cancel = request(Method::Cancel, "sip:bob@example.com", "call");
    cancel.remove_all(Name::Contact);
    scene.bench.receive(alice(), cancel);
    scene.bench.answer(id, Answer::Failed);
    let statuses: Vec<_> = scene.sent().iter().map(|sent| sent.status()).collect();
    assert_eq!(statuses, [200, 487]);
    let left = scene.bench.proxy.statistics();
    assert_eq!((left.questions, left.held_octets), (0, 0));
}

#[test]
fn what_waits_ends_with_the_script_that_it_has_begun_with() {
    let script = |said: &str| {
        let text = format!(
            "local count = 0
            function on_request(request)
              count = count + 1
              if request.call_id == 'call' then tandem.get('http://x.example/') end
              request:reply(480, '{said} ' .. count)
            end"
        );
        PluginScript::new("script", &text)
    };
    let mut scene = Scene::with(script("old"));
    scene.bench.holds_questions = true;
    scene.bench.receive(alice(), invite("call"));
    let (id, _) = asked(&mut scene).expect("a question");
    scene.load(vec![script("new")]);
    scene.sent();
    let after = scene.request(invite("after"));
    assert_eq!(after[0].message.reason(), Some("new 1"));
    scene.bench.answer(id, Answer::Failed);
    let before = scene.sent().remove(0);
    assert_eq!(before.message.reason(), Some("old 1"));
    // A script that has not changed goes on as it is.
    scene.load(vec![script("new"), PluginScript::new("more", "")]);
    let again = scene.request(invite("again"));
    assert_eq!(again[0].message.reason(), Some("new 2"));
}

#[test]
fn the_dictionary_is_common_and_forgets() {
    let mut scene = Scene::new(
        r#"
        function on_request(request)
          local count = tandem.shared.add("calls", 1, 60)
          tandem.shared.set("text", "x\0y")
          request:reply(480, count .. " " .. #tandem.shared.get("text") .. " " .. tostring(tandem.shared.get("none")))
        end
        "#,
    );
    let said = |scene: &mut Scene, call: &str| {
        let sent = scene.request(invite(call)).remove(0);
        sent.message.reason().expect("a reason").to_owned()
    };
    assert_eq!(said(&mut scene, "1"), "1 3 nil");
    assert_eq!(said(&mut scene, "2"), "2 3 nil");
    scene.bench.pass(Duration::from_secs(60));
    scene.sent();
    assert_eq!(said(&mut scene, "3"), "1 3 nil");
}
