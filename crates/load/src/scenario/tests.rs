use std::path::Path;
use std::time::Duration;

use sip::Method;

use super::*;
use crate::script::{Action, Condition, Expected, First, Kind, Step, StepNumber, Then};

fn read(text: &str) -> Scenario {
    Scenario::read(Path::new("call.toml"), text.as_bytes(), &Options::default())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn wrong(text: &str) -> Vec<String> {
    let read = Scenario::read(Path::new("call.toml"), text.as_bytes(), &Options::default());
    let error = read.expect_err("something is wrong");
    error.to_string().lines().map(str::to_owned).collect()
}

fn caller(text: &str) -> Script {
    read(text).caller.expect("a caller")
}

/// The step of a number, expected to wait.
fn expect(script: &Script, number: usize) -> &crate::script::Expect {
    match &script.steps()[number] {
        Step::Expect(expect) => expect,
        other => panic!("step {number} is {other:?}"),
    }
}

#[test]
fn the_flows_of_rfc_3665_are_sound() {
    for name in Scenario::built_in_names() {
        let scenario = Scenario::built_in(name, &Options::default()).unwrap();
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
        assert!(!scenario.description.is_empty(), "{name}");
        let caller = scenario.caller.expect("a caller");
        assert_eq!(caller.first(), &First::Sends, "{name}");
        if name.starts_with("rfc3665-3") {
            assert_eq!(caller.kind(), &Kind::Call);
            let callee = scenario.callee.expect("a callee");
            assert_eq!(callee.first(), &First::Waits(Method::Invite));
        } else {
            assert_eq!(caller.kind(), &Kind::Registration);
        }
    }
    assert!(Scenario::built_in("rfc3665-3.4", &Options::default()).is_none());
}

#[test]
fn optional_messages_are_waited_for_together_with_the_next_that_has_to_come() {
    let script = caller(
        r#"
        [[caller]]
        send = "INVITE"
        [[caller]]
        expect = 100
        optional = true
        [[caller]]
        expect = ["2xx", 183]
        optional = true
        goto = "early"
        [[caller]]
        expect = 180
        within = "5s"
        otherwise = "early"
        [[caller]]
        label = "early"
        send = "BYE"
        "#,
    );
    let waiting = expect(&script, 1);
    let thens: Vec<Then> = waiting.alternatives.iter().map(|one| one.then).collect();
    let statuses = |index: usize| match &waiting.alternatives[index].expected {
        Expected::Response { statuses, .. } => statuses.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(thens, [Then::Stay, Then::Next, Then::Next, Then::Next]);
    assert_eq!(statuses(1), 200..=299);
    assert_eq!(statuses(2), 183..=183);
    assert_eq!(waiting.timeout, Some(Duration::from_secs(5)));
    assert_eq!(waiting.on_timeout, Some(StepNumber(2)));
}

#[test]
fn a_label_within_messages_that_may_come_skips_those_before_it() {
    let script = caller(
        r#"
        [[caller]]
        send = "INVITE"
        [[caller]]
        expect = 180
        optional = true
        [[caller]]
        label = "answered"
        expect = 200
        [[caller]]
        send = "ACK"
        [[caller]]
        goto = "answered"
        if = { chance = "50%" }
        "#,
    );
    let both = expect(&script, 1);
    assert_eq!(both.alternatives.len(), 2);
    assert_eq!(both.alternatives[1].then, Then::Jump(StepNumber(3)));
    assert_eq!(expect(&script, 2).alternatives.len(), 1);
    let Step::Jump { to, when } = &script.steps()[4] else {
        panic!("{:?}", script.steps()[4]);
    };
    assert_eq!(*to, StepNumber(2));
    assert!(matches!(when, Condition::Chance(chance) if *chance == 0.5));
}

#[test]
fn a_condition_is_around_the_whole_step() {
    let script = caller(
        r#"
        variables = { tries = 0 }
        [[caller]]
        label = "again"
        send = "OPTIONS"
        [[caller]]
        expect = 200
        add = { tries = 1 }
        [[caller]]
        if = [{ variable = "tries", below = 3 }, { variable = "tries", set = true }]
        pause = "1s"
        goto = "again"
        "#,
    );
    // Variables are set first.
    assert!(matches!(&script.steps()[0], Step::Do(actions) if actions.len() == 1));
    let pause = script
        .steps()
        .iter()
        .position(|step| matches!(step, Step::Pause(_)))
        .expect("a pause");
    let Step::Jump { to, .. } = &script.steps()[pause + 1] else {
        panic!("a jump back");
    };
    assert_eq!(*to, StepNumber(1));
    let ways_around = script.steps()[..pause].iter().filter(
        |step| matches!(step, Step::Jump { to, .. } if usize::from(to.0) == script.steps().len()),
    );
    assert_eq!(ways_around.count(), 2);
}

#[test]
fn what_is_saved_and_demanded_are_actions_of_the_message() {
    let script = caller(
        r#"
        [[caller]]
        send = "INVITE"
        sdp = true
        headers = { Subject = "call {call_number}", X-List = ["a", "b"] }
        without = ["contact"]
        [[caller]]
        expect = 302
        save = { place = { header = "Contact", matches = "<(sip:[^>]+)>" } }
        check = [{ header = "Server", present = false }, { header = "Expires", at_least = 60 }]
        [[caller]]
        send = "INVITE"
        uri = "{place}"
        "#,
    );
    let Step::Send(invite) = &script.steps()[0] else {
        panic!("{:?}", script.steps()[0]);
    };
    let shown = format!("{:?}", invite.template);
    assert!(!shown.contains("Contact:"), "{shown}");
    let actions = &expect(&script, 1).alternatives[0].actions;
    assert!(matches!(&actions[0], Action::Extract { into, .. } if into.len() == 2));
    assert!(matches!(
        &actions[1],
        Action::Extract { check: Some(_), .. }
    ));
    assert!(matches!(
        &actions[2],
        Action::Require(Condition::Compares { .. })
    ));
}

#[test]
fn mistakes_are_told_with_their_lines_all_at_once() {
    let lines = wrong(
        r#"name = "x"
[[caller]]
send = "INVIT"
[[caller]]
send = "INVITE"
header = { A = "b" }
[[caller]]
expect = 99
[[caller]]
expect = 200
goto = "nowhere"
[[caller]]
send = "ACK"
body = { type = "text/plain", text = """
{user}
{nobody}
""" }
[[caller]]
pause = 5
[[caller]]
set = { "1a" = "x", user = "y" }
[[caller]]
check = { header = "A", matches = "(" }
[[callers]]
"#,
    );
    let expected = [
        ("call.toml:3:", "did you mean \"INVITE\"?"),
        ("call.toml:6:", "did you mean \"headers\"?"),
        ("call.toml:8:", "100 to 699"),
        ("call.toml:16:", "{nobody} is not known"),
        ("call.toml:19:", "such as \"250ms\""),
        ("call.toml:21:", "\"1a\" is no name"),
        ("call.toml:21:", "called \"user\""),
        ("call.toml:23:", "unclosed group"),
        ("call.toml:24:", "did you mean \"caller\"?"),
    ];
    for (place, message) in expected {
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with(place) && line.contains(message)),
            "{place} {message}: {lines:#?}"
        );
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    for (text, message) in [
        ("", "no steps"),
        ("name = 3\n", "a text in quotes"),
        ("[[caller]\n", "call.toml:1:"),
        ("[[caller]]\nexpect = 200\n", "before any request"),
        ("[[caller]]\nsend = 200\n", "never waits for a request"),
        (
            "[[caller]]\nsend = \"BYE\"\nexpect = 200\n",
            "a step does one thing",
        ),
        ("[[caller]]\nif = { chance = 0.5 }\n", "does nothing"),
        (
            "[[caller]]\nsend = \"BYE\"\n[[caller]]\nexpect = 180\noptional = true\n",
            "has to come",
        ),
        (
            "[[caller]]\nsend = \"BYE\"\n[[caller]]\ngoto = \"nowhere\"\n",
            "call.toml:3: there is no label",
        ),
        (
            "[[caller]]\nlabel = \"a\"\nsend = \"BYE\"\n[[caller]]\nlabel = \"a\"\nend = \"failed\"\n",
            "two labels",
        ),
        ("[[caller]]\nmessage = \"nonsense\"\n", "first line"),
        (
            "[[caller]]\nsend = \"INVITE\"\nheaders = { A = \"b\\nC: d\" }\n",
            "line end",
        ),
        (
            "[[caller]]\nsend = \"BYE\"\n[[caller]]\npause = { from = \"2s\", to = \"1s\" }\n",
            "a pause is",
        ),
        (
            "[[callee]]\nexpect = \"INVITE\"\n[[callee]]\nsend = 200\nanswering = \"BYE\"\n",
            "neither has this method",
        ),
        (
            "[[caller]]\nsend = \"BYE\"\n[[caller]]\ncheck = { variable = \"x\", equals = 1 }\n",
            "no step assigns",
        ),
        (
            "[[caller]]\nsend = \"BYE\"\n[[caller]]\nexpect = 200\ncheck = { header = \"A\", matches = \"(a{500}){500}\" }\n",
            "too large",
        ),
    ] {
        let lines = wrong(text);
        assert!(
            lines.iter().any(|line| line.contains(message)),
            "{text}: {lines:#?}"
        );
    }
    let long = vec![b'#'; LONGEST_FILE + 1];
    let error = Scenario::read(Path::new("a.toml"), &long, &Options::default()).unwrap_err();
    assert!(error.to_string().contains("at most"), "{error}");
    assert_eq!(error.problems().len(), 1);
}
