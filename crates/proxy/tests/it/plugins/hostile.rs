//! Scripts that do what they should not: none of it holds up the server, and each is answered.

use std::time::{Duration, Instant};

use super::{Scene, invite};
use proxy::core::{OnError, PluginScript};
use sip::{Method, Name};

const OVER: &str = "the limit of instructions or time is reached";

#[test]
fn what_never_ends_is_cut_off_and_answered_500() {
    for body in [
        "while true do end",
        "for i = 1, 1e18 do end",
        "repeat pcall(function() while true do end end) until false",
        "repeat xpcall(function() while true do end end, function() while true do end end) until false",
        "repeat coroutine.resume(coroutine.create(function() while true do end end)) until false",
        "repeat pcall(coroutine.wrap(function() while true do end end)) until false",
        "local t = setmetatable({}, { __index = function(t, k) return t[k] end }) return t.x",
        "string.find(('a'):rep(200), ('.-'):rep(30) .. 'b')",
        "(('a'):rep(40)):match(('a?'):rep(40) .. ('a'):rep(41))",
        "('x'):gsub('', function() while true do end end)",
        "local s = ('x'):rep(1e6) while true do s = s:gsub('x', 'x') end",
        "table.sort({ 1, 2, 3 }, function() while true do end end)",
        "load(function() while true do end end)",
        "for _ in ('x'):rep(1e5):gmatch('') do local _ = ('x'):rep(1000) end",
        "while true do tandem.json.decode('[1, 2, 3]') end",
        "while true do tandem.shared.set('x', 1) end",
    ] {
        let mut scene = Scene::new(&format!("function on_request(request) {body} end"));
        scene.outcome().answers(500);
        let errors = scene.errors();
        assert_eq!(errors.len(), 1, "{body}: {errors:?}");
        assert!(
            errors[0].starts_with("on_request: script.lua:1: "),
            "{body}: {errors:?}"
        );
    }
}

#[test]
fn what_takes_long_in_one_instruction_is_refused_at_once() {
    for body in [
        "return ('').rep('', 1e15)",
        "table.move({}, 1, 1e15, 2)",
        "table.insert(setmetatable({}, { __len = function() return 1 << 60 end }), 1, 1)",
        "table.remove(setmetatable({}, { __len = function() return 1 << 60 end }), 1)",
        "return ('x'):rep(1e12)",
        "return (('x'):rep(1e5)):gsub('x', ('x'):rep(1e5))",
    ] {
        let begun = Instant::now();
        let mut scene = Scene::new(&format!("function on_request(request) {body} end"));
        let sent = scene.outcome();
        assert!(matches!(sent.message.status(), None | Some(500)), "{body}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{body}");
    }
}

#[test]
fn memory_is_bounded_and_the_next_request_is_served() {
    for body in [
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t = { t, ('x'):rep(1000) } end",
        "kept = kept or {} for i = 1, 1e9 do kept[#kept + 1] = ('x'):rep(100) .. i end",
    ] {
        let text = format!(
            "function on_request(request) if request.call_id == 'call' then {body} end end"
        );
        let mut script = PluginScript::new("script", &text);
        script.limits.instructions = 100_000_000;
        script.limits.memory = 4 << 20;
        let mut scene = Scene::with(script);
        scene.outcome().answers(500);
        assert!(
            scene.errors()[0].contains("not enough memory"),
            "{body}: {:?}",
            scene.errors()
        );
        if !body.starts_with("kept") {
            scene.request(invite("next"))[0].is(Method::Invite, "sip:bob@192.0.2.20");
        }
    }
}

#[test]
fn recursion_ends() {
    for body in [
        "local function f() return 1 + f() end return f()",
        "local function f(...) return select('#', f(1, ...)) end return f()",
        "local t = {} for i = 1, 300 do t = { t } end tandem.json.encode(t)",
        "return ('('):rep(1000):find(('('):rep(1000))",
        "load(('('):rep(10000))()",
        "return tandem.json.decode(('['):rep(10000)).x",
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x.y",
    ] {
        let mut scene = Scene::new(&format!("function on_request(request) {body} end"));
        scene.outcome().answers(500);
        assert_eq!(scene.errors().len(), 1, "{body}");
    }
}

#[test]
fn errors_in_every_hook_are_told_and_follow_the_setting() {
    let text = "local function fail() error('broken') end
        on_request, on_register, on_route, on_branch, on_reply, on_failure, on_dialog_end =
          fail, fail, fail, fail, fail, fail, fail";
    let mut script = PluginScript::new("script", text);
    let mut scene = Scene::with(script.clone());
    scene.outcome().answers(500);
    assert_eq!(scene.errors(), ["on_request: script.lua:1: broken"]);
    script.on_error = OnError::Continue;
    let mut scene = Scene::with(script);
    let sent = scene.outcome();
    sent.is(Method::Invite, "sip:bob@192.0.2.20");
    scene.bench.receive(super::bob(), super::answer(&sent, 486));
    let mut bye = crate::common::request(Method::Bye, "sip:bob@example.com", "bye");
    bye.set_to_tag("b1");
    let bye = scene.request(bye);
    let bye = bye
        .iter()
        .find(|sent| sent.message.method() == Some(&Method::Bye));
    let ok = super::answer(bye.expect("a BYE"), 200);
    scene.bench.receive(super::bob(), ok);
    scene.request(crate::common::register(
        "carol",
        1,
        &["<sip:carol@192.0.2.9>"],
    ));
    let failed: Vec<_> = scene
        .counts()
        .hooks
        .iter()
        .map(|(hook, _, errors)| (*hook, *errors))
        .collect();
    assert_eq!(
        failed,
        [
            ("on_request", 3),
            ("on_register", 1),
            ("on_route", 2),
            ("on_branch", 2),
            ("on_reply", 2),
            ("on_failure", 1),
            ("on_dialog_end", 1)
        ]
    );
}

#[test]
fn a_script_that_cannot_be_loaded_is_told_of() {
    for (text, error) in [
        (
            "function on_request(",
            "loading: script.lua:1: <name> or '...' expected near <eof>",
        ),
        (
            "on_request = 1",
            "loading: script.lua: on_request is no function",
        ),
        ("error('no')", "loading: script.lua:1: no"),
        (
            "tandem.get('http://x/')",
            "loading: script.lua:1: nothing can be asked while the script is loaded",
        ),
        (
            "tandem.every(0.01, print)",
            "loading: script.lua:1: the interval is 0.1 seconds or more",
        ),
        (
            "while true do end",
            &format!("loading: script.lua:1: {OVER}"),
        ),
        (
            "setmetatable({}, { __gc = print })",
            "loading: script.lua:1: __gc is not allowed",
        ),
        (
            "collectgarbage('stop')",
            "loading: script.lua:1: only \"count\" is allowed",
        ),
        (
            "\u{1b}Lua",
            "loading: script.lua: attempt to load a binary chunk (mode is 't')",
        ),
    ] {
        let mut scene = Scene::new(text);
        assert_eq!(scene.errors(), [error], "{text}");
        scene.outcome().is(Method::Invite, "sip:bob@192.0.2.20");
    }
}

#[test]
fn open_questions_are_bounded() {
    let mut script = PluginScript::new(
        "script",
        "function on_request(request)
          local _, why = tandem.get('http://silent.example/')
          request:reply(480, why)
        end",
    );
    script.limits.questions = 2;
    let mut scene = Scene::with(script);
    scene.bench.holds_questions = true;
    for call in ["1", "2"] {
        assert!(scene.request(invite(call)).is_empty());
    }
    let sent = scene.request(invite("3"));
    assert_eq!(
        sent[0].message.reason(),
        Some("too many calls wait for answers")
    );
    // When they have given up there is room again.
    scene.bench.pass(Duration::from_secs(10));
    scene.sent();
    assert!(scene.request(invite("4")).is_empty());
}

#[test]
fn a_call_cannot_ask_for_ever() {
    let mut scene = Scene::new(
        "function on_request(request) while true do tandem.location('sip:bob@example.com') end end",
    );
    scene.outcome().answers(500);
    assert_eq!(
        scene.errors(),
        ["on_request: script.lua:1: this call has asked too many questions"]
    );
    let mut scene = Scene::new("function on_request(request) coroutine.yield(1) end");
    scene.outcome().answers(500);
    assert_eq!(
        scene.errors(),
        ["on_request: script.lua: a hook cannot yield"]
    );
}

#[test]
fn a_request_of_64_kib_with_500_fields_is_read_whole() {
    let mut scene = Scene::new(
        "function on_request(request)
          local count, octets = 0, 0
          for _, field in ipairs(request:headers()) do
            count = count + 1
            octets = octets + #field[1] + #field[2]
            if request:header(field[1]) == nil then error('missing') end
          end
          request:reply(480, count .. ' ' .. octets)
        end",
    );
    let mut large = invite("large");
    let value = "v".repeat(105);
    for number in 0..500 {
        large.push_back(Name::Other(&format!("X-Field-{number:03}")), &value);
    }
    assert!(large.wire_length() > 60_000);
    let octets: usize = large
        .fields()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    let fields = large.fields().count();
    // Over TCP: it is too large for the answer to fit.
    let sent = scene.request(large);
    let reason = sent[0].message.reason().expect("a reason");
    let (count, read) = reason.split_once(' ').expect("two numbers");
    assert_eq!(count, fields.to_string());
    // The source is noted in the Via.
    let read: usize = read.parse().expect("a number");
    assert!((octets..octets + 64).contains(&read), "{octets} {read}");
}

#[test]
fn memory_is_flat_over_many_calls() {
    let text = "
        function on_request(request)
          local t = {}
          for i = 1, 20 do t[i] = request:header('From') .. i end
          request:set_header('X-Last', t[20])
          request:set_header('X-Memory', collectgarbage('count'))
          tandem.shared.set(request.call_id, 1, 1)
          tandem.location('sip:bob@example.com')
        end
        function on_reply(response) response:set_header('X-Reply', response.status) end";
    let mut scene = Scene::new(text);
    let mut after = Vec::new();
    for number in 0..3000 {
        let call = format!("call{number}");
        let sent = scene.request(invite(&call)).remove(0);
        if number % 1000 == 999 {
            let memory: f64 = sent
                .value(Name::Other("X-Memory"))
                .parse()
                .expect("a number");
            after.push(memory);
        }
        scene.bench.receive(super::bob(), super::answer(&sent, 486));
        scene.sent();
        if number % 100 == 0 {
            scene.bench.pass(Duration::from_secs(40));
        }
    }
    assert!(after[2] < after[0] * 2.0, "{after:?}");
    scene.bench.pass(Duration::from_secs(300));
    assert_eq!(scene.bench.proxy.statistics().held_octets, 0);
    // Each has a lifetime of a second: those of the last turn are left at the most.
    assert!(scene.shared.statistics().entries <= 101);
}
