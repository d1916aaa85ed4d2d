//! Scripts that try to get away from their limits: by what runs on the way out of an error, by functions in C that count as
//! one instruction, by errors that are caught, by coroutines. None does, and the next request is served as if nothing
//! had been.
//!
//! The clock is left out here: instructions alone limit the scripts. How soon a call is cut off by the clock is measured by
//! `cargo bench -p proxy --bench plugins`.

use std::time::{Duration, Instant};

use proxy::core::PluginScript;
use sip::Method;

use super::{Scene, invite};

/// A name, what stands before the hook, and what the hook does in the first call.
type Escape = (&'static str, &'static str, &'static str);

const OVER: &str = "the limit of instructions or time is reached";

/// What is used again and again.
const COMMON: &str = "
    local function endless() while true do end end
    local function sorted(f) table.sort({ 1, 2, 3 }, f) end
";

const ENDLESS: [Escape; 27] = [
    // Functions that are called by functions in C.
    (
        "__tostring",
        "local one = setmetatable({}, { __tostring = endless })",
        "while true do pcall(tostring, one) pcall(string.format, '%s', one) pcall(print, one) end",
    ),
    (
        "__index of a list",
        "local list = setmetatable({}, { __index = endless })",
        "while true do pcall(table.concat, list, '', 1, 100) pcall(table.unpack, list, 1, 100) end",
    ),
    (
        "__index of ipairs",
        "local list = setmetatable({}, { __index = function() return 1 end })",
        "for _ in ipairs(list) do end",
    ),
    (
        "__lt",
        "local one = setmetatable({}, { __lt = endless })",
        "while true do pcall(table.sort, { one, one, one }) end",
    ),
    (
        "__name, __eq, __concat, __call, __unm",
        "local mt = { __name = endless, __eq = endless, __concat = endless, __call = endless, __unm = endless }
         local one, other = setmetatable({}, mt), setmetatable({}, mt)",
        "while true do
           pcall(function() return one == other end) pcall(function() return one .. other end)
           pcall(one) pcall(function() return -one end)
         end",
    ),
    (
        "__pairs",
        "local one = setmetatable({}, { __pairs = endless })",
        "while true do pcall(pairs, one) end",
    ),
    (
        "a function of gsub",
        "",
        "while true do pcall(string.gsub, 'xxx', '.', endless) end",
    ),
    (
        "a table of gsub",
        "local one = setmetatable({}, { __index = endless })",
        "while true do pcall(string.gsub, 'xxx', '.', one) end",
    ),
    (
        "a reader of load",
        "",
        "while true do pcall(load, function() return 'local a = 1 ' end) end",
    ),
    ("a program without end", "local text = ('local a = 1 '):rep(100000)", "while true do load(text) end"),
    // Errors that are caught.
    (
        "pcall",
        "",
        "while true do pcall(pcall, pcall, endless) end",
    ),
    (
        "a handler",
        "",
        "while true do xpcall(error, function() endless() end) xpcall(endless, endless) end",
    ),
    (
        "a handler that fails",
        "",
        "while true do xpcall(error, function() error() end) end",
    ),
    (
        "errors without end",
        "",
        "while true do pcall(error, {}) end",
    ),
    (
        "recursion that is caught",
        "local function deep() return 1 + deep() end",
        "while true do pcall(deep) end",
    ),
    // Coroutines.
    (
        "coroutines in coroutines",
        "local function nest() return coroutine.wrap(function() pcall(nest) endless() end)() end",
        "while true do pcall(nest) end",
    ),
    (
        "coroutines that are left",
        "",
        "while true do coroutine.wrap(function() coroutine.yield() end)() end",
    ),
    (
        "coroutines in a comparison",
        "",
        "sorted(function() while true do coroutine.resume(coroutine.create(endless)) end end)",
    ),
    // Work in one instruction.
    (
        "capitals of a long text",
        "local text = ('x'):rep(1000000)",
        "while true do text:upper() end",
    ),
    (
        "a list that is sorted again and again",
        "local list = {} for n = 1, 20000 do list[n] = n end",
        "while true do table.sort(list) end",
    ),
    // Lists whose values functions in C make up, and places that overflow.
    (
        "a list that is joined and has no end",
        "local list = setmetatable({}, { __index = rawlen })",
        "while true do pcall(table.concat, list, '', 1, 1e9) end",
    ),
    (
        "a list that is joined from the first place to the last",
        "local list = setmetatable({}, { __index = rawlen })",
        "while true do pcall(table.concat, list, '', math.mininteger, math.maxinteger) end",
    ),
    (
        "a list that is unpacked",
        "local list = setmetatable({}, { __index = rawlen })",
        "while true do pcall(table.unpack, list, 1, 100000) end",
    ),
    (
        "a list that is moved",
        "local list = setmetatable({}, { __index = rawlen, __newindex = rawequal })",
        "while true do pcall(table.move, list, 1, 1e6, 2) pcall(table.move, list, math.mininteger, -2, 1) end",
    ),
    (
        "many values that are printed",
        "local list = {} for n = 1, 20000 do list[n] = n end",
        "while true do print(table.unpack(list)) end",
    ),
    (
        "patterns",
        "",
        "while true do pcall(string.find, ('a'):rep(200), ('.-'):rep(30) .. 'b') end",
    ),
    (
        "questions that are refused",
        "",
        "while true do tandem.location('nobody') end",
    ),
];

#[test]
fn none_gets_away_and_the_next_request_is_served() {
    for (name, before, body) in ENDLESS {
        let text = format!(
            "{COMMON} {before}
            function on_request(request)
              if request.call_id ~= 'call' then return end
              {body}
            end"
        );
        let begun = Instant::now();
        let mut scene = Scene::new(&text);
        assert!(scene.errors().is_empty(), "{name}: {:?}", scene.errors());
        scene.outcome().answers(500);
        let errors = scene.errors();
        assert_eq!(errors.len(), 1, "{name}: {errors:?}");
        let is_expected = [
            OVER,
            "too many questions",
            "stack overflow",
            "error in error",
        ]
        .iter()
        .any(|reason| errors[0].contains(reason));
        assert!(is_expected, "{name}: {errors:?}");
        for call in ["next", "after"] {
            let sent = scene.request(invite(call)).remove(0);
            sent.is(Method::Invite, "sip:bob@192.0.2.20");
        }
        // As long as no clock limits it, and without optimization.
        assert!(begun.elapsed() < Duration::from_secs(20), "{name}");
    }
}

/// The same while the script is loaded: it is refused, and nothing is left of it.
#[test]
fn none_gets_away_while_it_is_loaded() {
    for (name, before, body) in ENDLESS {
        if name == "questions that are refused" {
            continue;
        }
        let mut script = PluginScript::new("script", &format!("{COMMON} {before} do {body} end"));
        script.limits.instructions = 20_000;
        let mut scene = Scene::with(script);
        let errors = scene.errors();
        assert_eq!(errors.len(), 1, "{name}: {errors:?}");
        scene.outcome().is(Method::Invite, "sip:bob@192.0.2.20");
    }
}

#[test]
fn what_is_taken_away_stays_away() {
    for body in [
        "return debug.sethook",
        "return require 'debug'",
        "return package.loaded",
        "return io.open",
        "return os.execute()",
        "return os.exit()",
        "return dofile('x')",
        "return loadfile('x')",
        "return string.dump(print)",
        "collectgarbage('stop')",
        "collectgarbage('collect')",
        "setmetatable({}, { __gc = print })",
        "setmetatable({}, { __close = print })",
        "setmetatable({}, { __len = print })",
        "local n, mt = 0, {} local list = setmetatable({}, mt) mt.__len = function() n = n + 1 return n == 1 and 0 or 1 << 62 end table.insert(list, 1, 0) error('done')",
        "local mt = {} local one = setmetatable({}, mt) mt.__close = print local a <close> = one",
        "local one = setmetatable({}, {}) getmetatable(one).__close = print local a <close> = one",
        "getmetatable('').__close = print local a <close> = 'text'",
        "getmetatable(request).__close = print",
        "for _ in next, { 1 }, nil, setmetatable({}, { __close = print }) do end",
        "load('\\27Lua', 'x', 'b')()",
        "getmetatable(request).__index = print",
        "setmetatable(request, {})",
        "getmetatable(request).__gc = print",
    ] {
        let mut scene = Scene::new(&format!("function on_request(request) {body} end"));
        scene.outcome().answers(500);
        assert_eq!(scene.errors().len(), 1, "{body}");
    }
}

#[test]
fn memory_that_is_used_up_leaves_the_server_alone() {
    // Memory fails in functions in C, in the limit's own bookkeeping, and while variables are closed.
    for body in [
        "local t = {} while true do pcall(function() for n = 1, 1e9 do t[#t + 1] = { n } end end) end",
        "local t = {} local function f() t[#t + 1] = ('x'):rep(1000) return 1 + f() end
         while true do pcall(f) end",
        "local s = 'x' while true do pcall(function() s = s .. s end) end",
        "local t = {} while true do pcall(function() t[#t + 1] = coroutine.wrap(endless) end) end",
        "while true do pcall(string.rep, 'x', 1e7) pcall(string.format, ('%s'):rep(100), ('x'):rep(1e6)) end",
    ] {
        let text = format!(
            "{COMMON} function on_request(request) if request.call_id == 'call' then {body} end end"
        );
        let mut script = PluginScript::new("script", &text);
        script.limits.memory = 3 << 20;
        let mut scene = Scene::with(script);
        scene.outcome().answers(500);
        assert_eq!(scene.errors().len(), 1, "{body}: {:?}", scene.errors());
        let sent = scene.request(invite("next")).remove(0);
        sent.is(Method::Invite, "sip:bob@192.0.2.20");
    }
}

#[test]
fn an_error_names_the_script_and_not_what_stands_before_it() {
    for (body, error) in [
        (
            "table.concat({ {} })",
            "invalid value (table) at index 1 in table for 'concat'",
        ),
        (
            "string.format('%d', 'x')",
            "bad argument #2 to 'original' (number expected, got string)",
        ),
        (
            "('x'):sub()",
            "bad argument #2 to 'original' (number expected, got no value)",
        ),
    ] {
        let mut scene = Scene::new(&format!("function on_request(request) {body} end"));
        scene.outcome().answers(500);
        let expected = format!("on_request: script.lua:1: {error}");
        assert_eq!(scene.errors(), [expected]);
    }
}

/// What Lua looks into is a copy: that shows nowhere but in what is added later.
#[test]
fn metatables_are_what_they_are_in_plain_lua() {
    let mut scene = Scene::new(
        r#"
        local Class = {}
        Class.__index = Class
        Class.__eq = function() return true end
        Class.__tostring = function(self) return "one " .. self.name end
        Class.__call = function(self, more) return self.name .. more end
        function Class.new(name) return setmetatable({ name = name }, Class) end
        local one = Class.new("x")
        function Class:later() return self.name .. "!" end
        local Child = setmetatable({}, { __index = Class })
        Child.__index = Child
        local child = setmetatable({ name = "y" }, Child)
        function on_request(request)
          local locked = setmetatable({}, { __metatable = "locked" })
          local again = setmetatable(setmetatable({}, Class), Child)
          request:reply(480, table.concat({
            tostring(one), one:later(), one("?"), child:later(), tostring(getmetatable(one) == Class),
            tostring(Class.new("a") == Class.new("b")), getmetatable(locked), tostring(pcall(setmetatable, locked, {})),
            tostring(getmetatable(again) == Child), tostring(getmetatable({})), tostring(getmetatable(1)),
            tostring(getmetatable(setmetatable(again, nil))), ("x"):rep(2),
          }, " "))
        end
        "#,
    );
    let sent = scene.outcome();
    assert_eq!(
        sent.message.reason(),
        Some("one x x! x? y! true true locked false true nil nil nil xx"),
        "{:?}",
        scene.errors()
    );
}
