//! Functions that scripts find, what has to be granted to them, and what they are not asked about.

use std::time::Duration;

use proxy::core::{Mode, PluginScript};
use proxy::plugin::run_tests;
use sip::Method;

use super::{Scene, invite};
use crate::common::request;

/// What a script answers with.
#[track_caller]
fn value(scene: &mut Scene, call: &str) -> String {
    let sent = scene.request(invite(call)).remove(0);
    assert_eq!(sent.message.status(), Some(480), "{:?}", scene.errors());
    sent.message.reason().expect("a reason").to_owned()
}

fn with_value(expression: &str) -> PluginScript {
    let text =
        format!("function on_request(request) request:reply(480, tostring({expression})) end");
    PluginScript::new("script", &text)
}

#[test]
fn each_function_does_what_the_manual_says() {
    for (expression, expected) in [
        (
            "tandem.json.encode { a = tandem.json.null }",
            r#"{"a":null}"#,
        ),
        (
            "tandem.json.decode('[null]')[1] == tandem.json.null",
            "true",
        ),
        (
            "select(2, pcall(function() return tandem.json.decode('[null]')[1].status end))",
            "script.lua:1: attempt to get 'status' of JSON's null (tandem.json.null)",
        ),
        (
            "select(2, pcall(function() tandem.json.null.status = 1 end))",
            "script.lua:1: attempt to set 'status' of JSON's null (tandem.json.null)",
        ),
        (
            "select(2, pcall(function() return tandem.json.null + 1 end))",
            "script.lua:1: attempt to calculate with JSON's null",
        ),
        (
            "select(2, pcall(function() return 1 < tandem.json.null end))",
            "script.lua:1: attempt to compare JSON's null",
        ),
        ("tostring(tandem.json.null)", "null"),
        ("getmetatable(tandem.json.null)", "false"),
        (
            "select(2, pcall(function() return request + 1 end))",
            "script.lua:1: attempt to calculate with a request",
        ),
        ("tostring(request)", "request"),
        ("type(request)", "userdata"),
        ("request == request", "true"),
        ("getmetatable(request)", "false"),
        ("pcall(rawset, request, 'x', 1)", "false"),
        ("request.nothing", "nil"),
        (
            "select(2, pcall(function() request.nothing = 1 end))",
            "script.lua:1: attempt to set an unknown field 'nothing'",
        ),
        ("os.difftime(5, 3)", "2"),
        ("os.getenv", "nil"),
        ("io", "nil"),
        ("require", "nil"),
        ("utf8.len('äö')", "2"),
        (
            "tandem.shared.set('a', 1) and tandem.shared.delete('a') or tandem.shared.get('a')",
            "nil",
        ),
        ("table.concat({ 1, 2, 3 }, '-', 2)", "2-3"),
        ("table.concat({ 1, 2, 3 }, '-', '2', '3')", "2-3"),
        ("select('#', table.unpack({ 1, nil, 3 }, 1, 3))", "3"),
        ("table.concat(table.move({ 1, 2, 3 }, 2, 3, 1))", "233"),
    ] {
        let mut scene = Scene::with(with_value(expression));
        assert_eq!(value(&mut scene, "call"), expected, "{expression}");
    }
}

#[test]
fn clocks_are_the_servers_and_what_is_printed_is_logged() {
    let text = "local begun = tandem.now()
        function on_request(request)
          print('now', tandem.now() - begun, nil, true)
          request:reply(480, ('%.0f %.0f'):format(tandem.now(), os.clock()))
        end";
    let mut scene = Scene::new(text);
    assert_eq!(value(&mut scene, "one"), "0 0");
    scene.bench.pass(Duration::from_secs(60));
    assert_eq!(value(&mut scene, "two"), "60 60");
    assert_eq!(
        scene.logged(),
        ["now\t0.0\tnil\ttrue", "now\t60.0\tnil\ttrue"]
    );
}

#[test]
fn libraries_are_there_when_they_are_granted() {
    for (expression, expected) in [
        ("type(io.open)", "function"),
        ("type(os.getenv)", "function"),
        ("type(require)", "function"),
        // Time stays the server's.
        (
            "package.loaded.os == os and os.clock() == tandem.now()",
            "true",
        ),
        ("debug", "nil"),
    ] {
        let mut script = with_value(expression);
        script.grants.io = true;
        script.grants.os = true;
        script.grants.package = true;
        assert_eq!(
            value(&mut Scene::with(script), "call"),
            expected,
            "{expression}"
        );
    }
}

#[test]
fn a_call_asks_so_many_questions() {
    let text = "local function ask()
          for n = 1, 3 do
            local is_ok, why = pcall(tandem.has_user, 'example.com', 'nobody')
            if not is_ok then return n .. why end
          end
        end
        function on_request(request) request:reply(480, ask()) end";
    let mut script = PluginScript::new("script", text);
    script.limits.questions_of_call = 2;
    let said = value(&mut Scene::with(script), "call");
    assert_eq!(said, "3this call has asked too many questions");
}

#[test]
fn without_state_on_route_alone_is_called_and_gets_no_answers() {
    let mut scene = Scene::new("");
    scene.policy.forwarding.mode = Mode::Stateless;
    let text = "function on_request() tandem.log('info', 'request') end
        function on_reply() tandem.log('info', 'reply') end
        function on_branch() tandem.log('info', 'branch') end
        function on_route(request)
          tandem.log('info', 'route')
          if request.method == 'INVITE' then request:reply(480, 'Not Now') end
        end";
    scene.load(vec![PluginScript::new("script", text)]);
    let sent = scene.request(request(Method::Options, "sip:x@192.0.2.70", "out"));
    assert_eq!(sent.len(), 1);
    sent[0].is(Method::Options, "sip:x@192.0.2.70");
    assert_eq!(scene.logged(), ["route"]);
}

#[test]
fn tests_of_scripts_have_users() {
    let script = PluginScript::new(
        "script",
        "function on_request(request)
           local name = tandem.uri(request.uri).user
           request:reply(480, tandem.has_user('example.com', name) and 'Known' or 'Unknown')
         end",
    );
    let tests = b"function test_users()
          local server = simulate()
          server:user('bob', 'secret')
          assert(server:send('OPTIONS sip:bob@example.com')[1].reason == 'Known')
          assert(server:send('OPTIONS sip:eve@example.com')[1].reason == 'Unknown')
        end";
    let results = run_tests(&script, "script_test.lua", tests).expect("they can be loaded");
    assert_eq!(results[0].error, None);
}
