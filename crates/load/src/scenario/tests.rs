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
    assert!(Scenario::built_in("rfc3665-3.12", &Options::default()).is_none());
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
        ("call.toml:21:", "\"1a\" is not a name"),
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
        (
            "\n[[caller]]\nsend = 200\n",
            "call.toml:2: step 0 sends a response",
        ),
        (
            "[[caller]]\nsend = \"BYE\"\nexpect = 200\n",
            "a step does one thing",
        ),
        ("[[caller]]\nif = { chance = 0.5 }\n", "does nothing"),
        (
            "[[caller]]\nsend = \"BYE\"\n[[caller]]\nexpect = 180\noptional = true\n",
            "no required message follows",
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
            "[[caller]]\nsend = \"BYE\"\n[[caller]]\nexpect = 200\ncheck = { header = \"A\", matches = \
             \"(a{500}){500}\" }\n",
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

/// Files that are sound, to be damaged.
const SOUND: [(&str, &str); 3] = [
    ("a.toml", include_str!("../../scenarios/rfc3665/3.6.toml")),
    ("a.toml", include_str!("../../scenarios/rfc3665/2.2.toml")),
    (
        "a.xml",
        "<?xml version=\"1.0\"?>\n<scenario name=\"a\">\n<send retrans=\"500\" start_txn=\"i\"><![CDATA[\n\
         INVITE sip:[service]@[remote_ip] SIP/2.0\nCall-ID: [call_id]\nX: [cseq] [$1] [authentication \
         username=[field0]]\n\
         Content-Length: [len]\n\nv=0\n]]></send>\n<recv response=\"180\" optional=\"true\" next=\"1\" test=\"2\"/>\n\
         <recv response=\"200\" response_txn=\"i\" timeout=\"5\" ontimeout=\"1\"><action>\n\
         <ereg regexp=\"o=([[:alnum:]]*)\" search_in=\"body\" assign_to=\"1,2\"/>\n\
         <test assign_to=\"3\" variable=\"2\" compare=\"less_than\" value=\"10\"/>\n</action></recv>\n\
         <pause distribution=\"uniform\" min=\"1\" max=\"2\"/>\n<label id=\"1\"/>\n<timewait \
         milliseconds=\"4\"/>\n</scenario>\n",
    ),
];

proptest::proptest! {
    /// A damaged file is read or refused, with lines that it has.
    #[test]
    fn damaged_files_are_read_or_refused(
        which in 0..SOUND.len(),
        damages in proptest::collection::vec((0usize..4096, 0usize..40, 0usize..4096), 1..6),
    ) {
        let (name, sound) = SOUND[which];
        let mut octets = sound.as_bytes().to_vec();
        for (at, length, from) in damages {
            // A piece of the file in place of another.
            let at = at % octets.len();
            let end = (at + length % 17).min(octets.len());
            let from = from % octets.len();
            let piece = octets[from..(from + length).min(octets.len())].to_vec();
            octets.splice(at..end, piece);
            if octets.is_empty() {
                break;
            }
        }
        let lines = 1 + octets.iter().filter(|octet| **octet == b'\n').count();
        match Scenario::read(Path::new(name), &octets, &Options::default()) {
            Ok(scenario) => assert!(scenario.caller.is_some() || scenario.callee.is_some()),
            Err(error) => {
                assert!(!error.problems().is_empty());
                for problem in error.problems() {
                    assert!((1..=lines).contains(&problem.line), "{error}\n{}", String::from_utf8_lossy(&octets));
                }
            }
        }
    }

    /// Any text as a whole file.
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}", is_xml in proptest::bool::ANY) {
        let name = if is_xml { "a.xml" } else { "a.toml" };
        let _ = Scenario::read(Path::new(name), text.as_bytes(), &Options::default());
    }
}

/// What could take a reader long, or much memory, or its stack.
#[test]
fn hostile_files_are_refused_quickly() {
    let many = |text: &str, times: usize| text.repeat(times);
    let toml_steps = many("[[caller]]\nsend=\"BYE\"\n", 40_000);
    let jumps = many(
        "[[caller]]\ngoto=\"a\"\n[[caller]]\nif={chance=0.5}\ngoto=\"a\"\n",
        10_000,
    );
    let nested_tables = format!("{}{}", many("[", 100_000), many("]", 100_000));
    let nested_values = format!("a = {}", many("[", 500_000));
    let slots = format!("[[caller]]\nmessage = \"{}\"\n", many("{", 500_000));
    let elements = format!("<scenario>{}", many("<a>", 300_000));
    let labels = format!(
        "<scenario>{}</scenario>",
        many("<label id=\"1\"/><pause/>", 40_000)
    );
    let brackets = format!(
        "<scenario><send><![CDATA[{}]]></send></scenario>",
        many("[", 900_000)
    );
    let keywords = format!(
        "<scenario><send><![CDATA[BYE a SIP/2.0\n{}]]></send></scenario>",
        many("[field0 a=[b c=[d e=[f g=h]]]]", 30_000)
    );
    let sums = format!(
        "<scenario><send><![CDATA[BYE a SIP/2.0\nX: {}]]></send></scenario>",
        many("[media_port+1]", 60_000)
    );
    let repetitions = format!(
        "<scenario><nop><action><ereg regexp=\"a{}\" assign_to=\"1\"/></action></nop></scenario>",
        many("*", 900_000)
    );
    let attributes = format!("<scenario {}/>", many("a ", 400_000));
    let expressions = format!(
        "<scenario><nop><action>{}</action></nop></scenario>",
        many(
            "<ereg regexp=\"([a-z]{200}){90}\" assign_to=\"1\"/>",
            15_000
        )
    );
    let entities = format!(
        "<!DOCTYPE a [<!ENTITY a \"aaaaaaaaaa\">{}]><scenario>&z;</scenario>",
        ('b'..='z').fold(String::new(), |text, name| {
            let before = char::from(name as u8 - 1);
            text + &format!("<!ENTITY {name} \"{}\">", format!("&{before};").repeat(10))
        })
    );
    for (name, text) in [
        ("a.toml", toml_steps),
        ("a.toml", jumps),
        ("a.toml", nested_tables),
        ("a.toml", nested_values),
        ("a.toml", slots),
        ("a.xml", elements),
        ("a.xml", labels),
        ("a.xml", brackets),
        ("a.xml", keywords),
        ("a.xml", sums),
        ("a.xml", repetitions),
        ("a.xml", attributes),
        ("a.xml", expressions),
        ("a.xml", entities),
    ] {
        let started = std::time::Instant::now();
        let read = Scenario::read(Path::new(name), text.as_bytes(), &Options::default());
        let error = read.expect_err("too much").to_string();
        // A generous limit: what is quadratic takes minutes.
        let taken = started.elapsed();
        assert!(taken < Duration::from_secs(30), "{taken:?}: {error}");
        assert!(error.len() < 100_000, "{} octets", error.len());
    }
}

#[test]
fn a_step_with_a_mistake_is_not_said_to_be_missing() {
    let lines = wrong("[[caller]]\nsend = \"INVIT\"\n");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("did you mean \"INVITE\"?"));
}

/// A name is one timer, whichever side it is of.
#[test]
fn timers_keep_their_names() {
    let text = "[[caller]]\nsend = \"OPTIONS\"\nstart_timer = \"answer\"\n\n\
                [[caller]]\nexpect = 200\nstop_timer = \"answer\"\n\n\
                [[callee]]\nexpect = \"OPTIONS\"\nstart_timer = \"thinking\"\n\n\
                [[callee]]\nsend = 200\nstop_timer = \"thinking\"\nstart_timer = \"answer\"\n";
    let scenario = read(text);
    let (caller, callee) = (scenario.caller.unwrap(), scenario.callee.unwrap());
    assert_eq!(caller.timer_names(), ["answer"]);
    assert_eq!(callee.timer_names(), ["answer", "thinking"]);
    assert_eq!((caller.timers(), callee.timers()), (1, 2));
}
