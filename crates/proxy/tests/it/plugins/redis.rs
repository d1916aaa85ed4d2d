//! Commands to Redis: what is asked, and what a script gets for each kind of reply.

use std::time::Duration;

use bytes::Bytes;
use proxy::core::{Answer, PluginScript, Query, RedisReply};
use proxy::plugin::run_tests;

use super::{Scene, alice, invite};

fn text(text: &'static str) -> RedisReply {
    RedisReply::Text(Bytes::from_static(text.as_bytes()))
}

/// A scene whose script asks with these words, and answers with what it gets.
fn asking(words: &str) -> Scene {
    let mut scene = Scene::new(&format!(
        r#"
        local function show(value)
          if type(value) ~= "table" then return math.type(value) or type(value) == "string" and value or tostring(value) end
          local parts = {{}}
          for at, part in ipairs(value) do parts[at] = show(part) end
          return "[" .. table.concat(parts, " ") .. "]"
        end
        function on_request(request)
          local value, why = tandem.redis({words})
          request:reply(480, show(value) .. " " .. tostring(why))
        end
        "#
    ));
    scene.bench.holds_questions = true;
    scene.bench.receive(alice(), invite("call"));
    scene
}

#[track_caller]
fn said(scene: &mut Scene) -> String {
    let sent = scene.sent().remove(0);
    sent.answers(480);
    sent.message.reason().expect("a reason").to_owned()
}

#[test]
fn a_command_is_asked_and_the_hook_goes_on_with_the_reply() {
    let list = RedisReply::List(vec![text("a"), RedisReply::Nil, RedisReply::Integer(1)]);
    for (reply, expected) in [
        (text("one"), "one nil"),
        (RedisReply::Integer(7), "integer nil"),
        // It is not there: something else than no answer.
        (RedisReply::Nil, "false nil"),
        (list, "[a false integer] nil"),
        (RedisReply::Error("WRONGTYPE no".into()), "nil WRONGTYPE no"),
    ] {
        let mut scene = asking(r#""redis://192.0.2.30/", "GET", "user:" .. request.method, 5"#);
        let (id, query) = scene.bench.questions.pop_front().expect("a question");
        let Query::Redis(command) = query else {
            panic!("a command expected: {query:?}");
        };
        assert_eq!(&*command.url, "redis://192.0.2.30/");
        assert_eq!(command.words, ["GET", "user:INVITE", "5"]);
        // It is not known yet: nothing is answered.
        assert!(scene.sent().is_empty());
        scene.bench.answer(id, Answer::Redis(reply));
        assert_eq!(said(&mut scene), expected);
    }
}

#[test]
fn without_an_answer_there_is_nil_and_a_reason() {
    let mut scene = asking(r#""redis://192.0.2.30/", "PING""#);
    let (id, _) = scene.bench.questions.pop_front().expect("a question");
    scene.bench.answer(id, Answer::Failed);
    assert_eq!(said(&mut scene), "nil no answer");
    // Nor where nobody ever answers.
    let mut scene = asking(r#""redis://192.0.2.30/", "PING""#);
    scene.bench.pass(Duration::from_secs(10));
    assert_eq!(said(&mut scene), "nil no answer");
}

#[test]
fn what_would_hold_up_or_change_the_connection_of_all_is_not_asked() {
    const WAITS: &str = "nil the command waits, or changes the connection";
    for (words, expected) in [
        (r#""redis://x/", "BLPOP", "list", 0"#, WAITS),
        (r#""redis://x/", "subscribe", "news""#, WAITS),
        (r#""redis://x/", "MULTI""#, WAITS),
        (r#""redis://x/", "SELECT", 2"#, WAITS),
        (
            r#""redis://x/", "XREAD", "block", 0, "STREAMS", "s", "$""#,
            WAITS,
        ),
        (r#""redis://x/""#, "nil no command"),
        (r#"nil, "GET""#, "nil no URL"),
        (
            r#""redis://x/", "SET", "key", ("x"):rep(1 << 20)"#,
            "nil the command is too long",
        ),
    ] {
        let mut scene = asking(words);
        assert!(scene.bench.questions.is_empty(), "{words}");
        assert_eq!(said(&mut scene), expected, "{words}");
    }
    let mut scene = asking(r#""redis://x/", "GET", {}"#);
    scene.sent()[0].answers(500);
}

#[test]
fn tests_of_scripts_make_up_replies() {
    let script = PluginScript::new(
        "script",
        r#"
        function on_request(request)
          local barred, why = tandem.redis("redis://cache/", "SISMEMBER", "barred", tandem.uri(request.uri).user)
          if barred == 1 then request:reply(403, "Barred") elseif why then request:reply(503, why) end
        end
        "#,
    );
    let tests = br#"
        local function status(server, user)
          local sent = server:send("MESSAGE sip:" .. user .. "@example.com")
          return sent[1].status, sent[1].reason
        end
        function test_replies()
          local server = simulate()
          assert(select(2, status(server, "bob")) == "no answer")
          server:redis(function(url, command, set, user)
            assert(url == "redis://cache/" and command == "SISMEMBER" and set == "barred")
            if user == "broken" then return nil, "WRONGTYPE" end
            return user == "mallory" and 1 or 0
          end)
          assert(status(server, "mallory") == 403)
          assert(status(server, "bob") == 404)
          assert(select(2, status(server, "broken")) == "WRONGTYPE")
        end
        local function fails(server, reply, why)
          server:redis(function() return reply end)
          local is_ok, error = pcall(status, server, "bob")
          assert(not is_ok and tostring(error):find(why, 1, true), error)
        end
        -- A reply that contains itself, once or twice, and one of a kind that Redis does not have.
        function test_impossible_replies()
          local server = simulate()
          local once, twice = {}, {}
          once[1] = once
          twice[1], twice[2] = twice, twice
          fails(server, once, "the lists of the reply are too deep")
          fails(server, twice, "the lists of the reply are too deep")
          local long = {}
          for n = 1, 10000 do long[n] = n end
          fails(server, long, "the reply has too many values")
          fails(server, 1.5, "Redis has no number")
        end
    "#;
    let results = run_tests(&script, "script_test.lua", tests).expect("they can be loaded");
    assert_eq!(results.len(), 2);
    for result in results {
        assert_eq!(result.error, None, "{}", result.name);
    }
}
