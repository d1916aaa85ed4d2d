use std::path::Path;
use std::process::Command;

use sip::Method;
use test_support::require_command;

use crate::media::Recording;
use crate::scenario::{Options, Scenario};
use crate::script::{
    Action, Condition, Expected, First, Kind, MediaAction, Pause, Script, Slot, Start, Step,
    StepNumber, TemplatePart, Then,
};

fn read(xml: &str) -> Scenario {
    read_with(xml, &Options::default())
}

fn read_with(xml: &str, options: &Options) -> Scenario {
    Scenario::read(Path::new("a.xml"), xml.as_bytes(), options)
        .unwrap_or_else(|error| panic!("{xml}: {error}"))
}

fn wrong(xml: &str) -> String {
    Scenario::read(Path::new("a.xml"), xml.as_bytes(), &Options::default())
        .expect_err("something is wrong")
        .to_string()
}

/// A scenario of SIPp's own, as it prints it; `None` without SIPp.
fn built_in(name: &str) -> Option<String> {
    let program = require_command("sipp", "sip-tester")?;
    let output = Command::new(program)
        .args(["-sd", name])
        .output()
        .expect("sipp runs");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn caller(name: &str) -> Option<Script> {
    Some(read(&built_in(name)?).caller.expect("a caller"))
}

fn callee(name: &str) -> Option<Script> {
    Some(read(&built_in(name)?).callee.expect("a callee"))
}

/// What each step is, in a word.
fn outline(script: &Script) -> Vec<String> {
    let word = |step: &Step| match step {
        Step::Send(send) => match send.template.start() {
            Start::Request(method) => method.to_string(),
            Start::Response(status) => status.to_string(),
        },
        Step::Expect(expect) => {
            let words = expect.alternatives.iter().map(|one| match &one.expected {
                Expected::Request(method) => method.to_string(),
                Expected::Response { statuses, .. } => statuses.start().to_string(),
                Expected::Command { .. } => "command".to_owned(),
            });
            format!("<{}", words.collect::<Vec<_>>().join("|"))
        }
        Step::Pause(_) => "pause".to_owned(),
        Step::Jump { to, .. } => format!("to {}", to.0),
        Step::Do(_) => "do".to_owned(),
        Step::Complete => "complete".to_owned(),
        other => format!("{other:?}"),
    };
    script.steps().iter().map(word).collect()
}

/// All slots of a step's template.
fn slots(script: &Script, step: usize) -> Vec<&Slot> {
    let Step::Send(send) = &script.steps()[step] else {
        panic!("step {step} sends nothing");
    };
    let slots = send
        .template
        .parts()
        .iter()
        .filter_map(|piece| match piece {
            TemplatePart::Slot(slot) => Some(slot),
            TemplatePart::Literal(_) => None,
        });
    slots.collect()
}

#[test]
fn the_caller_of_sipp_is_read() {
    let Some(script) = caller("uac") else { return };
    assert_eq!(
        outline(&script),
        [
            "do",
            "INVITE",
            "<100|180|183|200",
            "ACK",
            "pause",
            "BYE",
            "<200"
        ]
    );
    assert_eq!(script.kind(), &Kind::Call);
    assert!(script.acknowledges_failures() && script.is_strict());
    let slots = slots(&script, 1);
    assert!(matches!(slots[0], Slot::Peer));
    assert!(slots.iter().any(|slot| matches!(slot, Slot::Branch)));
    let repeated: Vec<bool> = script
        .steps()
        .iter()
        .filter_map(|step| match step {
            Step::Send(send) => Some(send.is_repeated),
            _ => None,
        })
        .collect();
    assert_eq!(repeated, [true, false, true]);
}

#[test]
fn the_callee_of_sipp_is_read() {
    let Some(script) = callee("uas") else { return };
    assert_eq!(script.first(), &First::Waits(Method::Invite));
    assert_eq!(
        outline(&script),
        ["do", "<INVITE", "180", "200", "<ACK|BYE", "200", "complete"]
    );
    let Step::Expect(expect) = &script.steps()[4] else {
        panic!("{:?}", script.steps()[4]);
    };
    assert_eq!(expect.alternatives[0].then, Then::Stay);
    assert_eq!(expect.alternatives[1].then, Then::Next);
    let fields = slots(&script, 2).into_iter().filter_map(|slot| match slot {
        Slot::LastField(name) => Some(&**name),
        _ => None,
    });
    let fields: Vec<&str> = fields.collect();
    assert_eq!(fields, ["Via", "From", "To", "Call-ID", "CSeq"]);
}

#[test]
fn regular_expressions_are_those_of_posix() {
    let Some(script) = caller("regexp") else {
        return;
    };
    let Step::Expect(expect) = &script.steps()[1] else {
        panic!("{:?}", outline(&script));
    };
    let actions = &expect.alternatives.last().unwrap().actions;
    let patterns: Vec<&Action> = actions
        .iter()
        .filter(|action| matches!(action, Action::Extract { .. }))
        .collect();
    let [
        Action::Extract {
            pattern: address, ..
        },
        _,
        Action::Extract { pattern, into, .. },
    ] = patterns.as_slice()
    else {
        panic!("{actions:?}");
    };
    let message = b"SIP/2.0 200 OK\r\nContact: <sip:127.0.0.1:5061>\r\n\r\nv=0\r\no=user1 53655765 2353687637 IN \
                    IP4 127.0.0.1\r\n";
    let found = address.groups(message, 1).expect("an address");
    assert_eq!(found[0].as_deref(), Some(&b"127.0.0.1:5061"[..]));
    let groups = pattern.groups(message, into.len()).expect("an origin");
    assert_eq!(groups.len(), 4);
    assert_eq!(groups[3].as_deref(), Some(&b"2353687637"[..]));
    assert!(matches!(script.steps()[3], Step::Pause(Pause::Fixed(time)) if time.as_secs() == 1));
}

#[test]
fn branches_lead_where_they_do_in_sipp() {
    let Some(script) = caller("branchc") else {
        return;
    };
    assert_eq!(
        outline(&script),
        [
            "do",
            "REGISTER",
            "<200",
            "<200",
            "INVITE",
            "<100|180|183|403|200",
            "ACK",
            "to 9",
            "pause",
            "BYE",
            "<200",
            "pause"
        ]
    );
    let Step::Expect(refused) = &script.steps()[5] else {
        panic!("{:?}", script.steps()[5]);
    };
    assert_eq!(refused.alternatives[3].then, Then::Jump(StepNumber(9)));
    assert!(matches!(
        &script.steps()[7],
        Step::Jump {
            when: Condition::IsSet(_),
            ..
        }
    ));

    let Some(script) = callee("branchs") else {
        return;
    };
    assert_eq!(script.first(), &First::Waits(Method::Register));
    assert_eq!(
        outline(&script),
        [
            "do",
            "<REGISTER",
            "200",
            "<INVITE",
            "180",
            "to 8",
            "403",
            "to 11",
            "100",
            "200",
            "<ACK|BYE",
            "<BYE",
            "200",
            "complete"
        ]
    );
}

/// Debian has the captures in another folder than the scenario names.
#[test]
fn captures_beside_a_scenario_are_played() {
    let Some(xml) = built_in("uac_pcap") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("uac_pcap.xml");
    std::fs::write(&path, &xml).unwrap();
    let error = Scenario::load(&path, &Options::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the file \"pcap/g711a.pcap\": it is neither in"),
        "{error}"
    );
    std::fs::create_dir(folder.path().join("pcap")).unwrap();
    for name in ["g711a.pcap", "dtmf_2833_1.pcap"] {
        let from = Path::new("/usr/share/sip-tester").join(name);
        std::fs::copy(from, folder.path().join("pcap").join(name)).unwrap();
    }
    let scenario = Scenario::load(&path, &Options::default()).unwrap();
    assert!(scenario.caller.unwrap().has_media());
    assert_eq!(scenario.remarks, []);
}

#[test]
fn patterns_are_played() {
    let action = |text: &str| {
        let script = read(&with(&format!(
            "<recv response=\"200\"/><nop><action><exec {text}/></action></nop>"
        )));
        let script = script.caller.unwrap();
        let actions = script.steps().iter().find_map(|step| match step {
            Step::Do(actions) => actions.first().cloned(),
            _ => None,
        });
        actions.unwrap()
    };
    let pattern = Recording::sound(&[0xbb; 800], 8, None).unwrap();
    let Action::Media(MediaAction::Play(played)) = action("rtp_stream=\"apattern,2,8,PCMA/8000\"")
    else {
        panic!("it plays");
    };
    assert_eq!(*played, pattern);
    for (text, goes_on) in [
        ("startaudio", true),
        ("updateaudio", true),
        ("stopaudio", false),
    ] {
        let echo = action(&format!("rtp_echo=\"{text},0,PCMU/8000\""));
        assert!(
            matches!(echo, Action::Media(MediaAction::Echo(is)) if is == goes_on),
            "{text}"
        );
    }
    let seventh = "<nop><action><exec rtp_stream=\"apattern,7,0,PCMU/8000\"/></action></nop>";
    let error = wrong(&with(seventh));
    assert!(error.contains("from 1 to 6"), "{error}");
}

/// `[cryptokeyparams1audio-1]`, as SIPp has it in further offers.
#[test]
fn a_key_is_new_or_the_one_before() {
    let script = read(&with(
        "<recv response=\"200\"/><send><![CDATA[\nOPTIONS sip:a SIP/2.0\nX: [cryptokeyparams1audio]\n]]></send>\
         <recv response=\"200\"/><send><![CDATA[\nOPTIONS sip:a SIP/2.0\n\
         X: [cryptokeyparams1audio-1] [cryptokeyparams2audio]\n]]></send>",
    ));
    let script = script.caller.unwrap();
    assert_eq!(
        outline(&script),
        ["OPTIONS", "<200", "do", "OPTIONS", "<200", "do", "OPTIONS"]
    );
    let variables = |step| -> Vec<_> {
        let slots = slots(&script, step).into_iter();
        let variable = |slot: &Slot| match slot {
            Slot::Variable(variable) => *variable,
            other => panic!("{other:?}"),
        };
        slots.map(variable).collect()
    };
    let (first, again) = (variables(3), variables(6));
    assert_eq!((first.len(), again.len()), (1, 2));
    assert!(again[0] == first[0] && again[1] != first[0]);
}

#[test]
fn other_callees_of_sipp_are_read() {
    for name in ["3pcc-A", "3pcc-B", "ooc_default"] {
        let Some(script) = callee(name) else { return };
        assert!(matches!(script.first(), First::Waits(_)));
    }
}

/// A caller with this behind its INVITE.
fn with(commands: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"ISO-8859-1\" ?>\n<!DOCTYPE scenario SYSTEM \"sipp.dtd\">\n\
         <scenario name=\"x\">\n<send><![CDATA[\nOPTIONS sip:a SIP/2.0\n]]></send>\n{commands}</scenario>"
    )
}

#[test]
fn conditions_of_an_optional_message_are_decided_aside() {
    let script = read(&with(
        "<recv response=\"180\" optional=\"true\" next=\"early\" test=\"1\" chance=\"0.5\"/>\
         <recv response=\"200\"/><label id=\"early\"/><pause/>",
    ));
    let script = script.caller.unwrap();
    assert_eq!(
        outline(&script),
        [
            "OPTIONS", "<180|200", "pause", "complete", "to 6", "to 2", "to 1"
        ]
    );
}

#[test]
fn sums_and_parts_of_the_last_message_are_made_before_sending() {
    let script = read(&with(
        "<recv response=\"200\"/><send retrans=\"500\"><![CDATA[\n\
         OPTIONS sip:a SIP/2.0\nX: [media_port+2] [last_cseq_number+1] [$who]\n\
         [authentication username=\"[field0]\" password=b]\n\n[last_message]]]></send>",
    ));
    let script = script.caller.unwrap();
    assert_eq!(outline(&script), ["OPTIONS", "<200", "do", "OPTIONS"]);
    let Step::Do(actions) = &script.steps()[2] else {
        panic!("{:?}", script.steps()[2]);
    };
    assert_eq!(actions.len(), 2);
    let slots = slots(&script, 3);
    assert!(matches!(slots[3], Slot::Authorization(Some(login))
        if matches!(login.username.as_slice(), [TemplatePart::Slot(Slot::Field(0))])));
}

/// SIPp's first timer has no other name than its number.
#[test]
fn timers_keep_their_names() {
    let script = read(&with(
        "<nop start_rtd=\"setup\"/><recv response=\"200\" rtd=\"true,setup\"/>",
    ));
    assert_eq!(script.caller.unwrap().timer_names(), ["setup", "1"]);
}

#[test]
fn mistakes_are_told_with_line_and_remedy() {
    for (commands, message) in [
        (
            "<nop><action><exec rtp_stream=\"a.wav,x\"/></action></nop>",
            "FILE,TIMES",
        ),
        (
            "<nop><action><exec play_dtmf=\"1x\"/></action></nop>",
            "'x' is no key",
        ),
        ("<recv response=\"20x\"/>", "a.xml:7: response=\"20x\""),
        (
            "<rev/>",
            "there is no command <rev>: did you mean \"recv\"?",
        ),
        (
            "<send>\n<![CDATA[\nBYE sip:[nobody] SIP/2.0\n]]></send>",
            "a.xml:9: [nobody] is not a keyword",
        ),
        (
            "<send><![CDATA[\nBYE sip:[ SIP/2.0\n]]></send>",
            "a.xml:8: \"[\" has no \"]\"",
        ),
        ("<send/>", "no message"),
        (
            "<nop><action><ereg regexp=\"(\" assign_to=\"1\"/></action></nop>",
            "unclosed group",
        ),
        (
            "<nop><action><ereg regexp=\"(a)\\2\" assign_to=\"1\"/></action></nop>",
            "is not a regular expression",
        ),
        (
            "<nop><action><ereg regexp=\"a\" search_in=\"hdr\"/></action></nop>",
            "needs an attribute header",
        ),
        (
            "<nop><action><exec comand=\"true\"/></action></nop>",
            "needs one of",
        ),
        (
            "<nop><action><lookup assign_to=\"a\" key=\"b\" file=\"c\"/></action></nop>",
            "no files are read",
        ),
        (
            "<nop><action><eregg/></action></nop>",
            "did you mean \"ereg\"?",
        ),
        (
            "<pause distribution=\"weibul\" k=\"1\" lambda=\"2\"/>",
            "there is no distribution \"weibul\"",
        ),
        ("<pause next=\"7\"/>", "there is no label \"7\""),
        (
            "<recv response=\"100\" optional=\"true\"/><pause/><pause/>",
            "no required message follows",
        ),
        (
            "<recv response=\"200\" response_txn=\"invite\"/>",
            "start_txn=\"invite\"",
        ),
        ("<recv>", "this is not XML"),
    ] {
        let error = wrong(&with(commands));
        assert!(error.contains(message), "{commands}: {error}");
    }
    assert!(wrong("<a/>").contains("<scenario> is expected"));
    assert!(wrong("").contains("a.xml:1: this is not XML"));
}

#[test]
fn a_file_in_latin_1_is_read() {
    let xml = with("<recv response=\"200\"/><!-- \u{fc} -->");
    let latin: Vec<u8> = xml.chars().map(|character| character as u8).collect();
    assert!(std::str::from_utf8(&latin).is_err());
    Scenario::read(Path::new("a.xml"), &latin, &Options::default()).unwrap();
}

/// Files of these kinds are everywhere, and SIPp 3.6.1 loads them.
#[test]
fn what_sipp_takes_is_taken() {
    for commands in [
        "<recv response=\"200\"><action><ereg regexp=\"\\\"?sipp\" search_in=\"hdr\" header=\"From:\" assign_to=\"1\"/>\
         <log message=\"[$1]\"/></action></recv>",
        "<recv response=\"200\"><action><ereg regexp=\"<sip:([^@]*)\" search_in=\"msg\" assign_to=\"1,2\"/></action></recv>",
        "<!-- two -- dashes --><recv response=\"200\"/>",
        "<recv response=\"200\"crlf=\"true\"/>",
        "<recv response=\"200\" id=\"7\" crlf/>",
        "<recv response=\"200\" response=\"202\"/>",
        "<recv response=\"200\"/> & <!-- --> text />",
        "<recv response=\"200\" request=\"BYE\"/>",
        "<recv request=\"INVITE|BYE\"/>",
        "<recv response=\"200\" timeout=\"\" lost=\"0\"/>",
        "<recv response=\"200\"/><recv response=\"180\" optional=\"true\"/>",
        "<recv response=\"180\" optional=\"true\" condexec=\"a\"/><recv response=\"200\" condexec=\"a\"/>",
        "<recv response=\"180\" optional=\"true\" advance_state=\"false\"/><recv response=\"200\"/>",
        "<recv response=\"200\" ontimeout=\"1\"/><label id=\"1\"/>",
        "<recv response=\"200\"><foo/><action><bar/></action></recv>",
        "<recv response=\"200\"/><nop><action><test assign_to=\"t\" variable=\"a\" compare=\"equal\" value=\"\"/></action></nop>",
        "<recv response=\"200\"/><pause milliseconds=\"1.5\"/><pause min=\"1\" max=\"2\"/><pause distribution=\"gamma\" k=\"2\" theta=\"3\"/>",
        "<recv response=\"200\"/><nop><action><strcmp assign_to=\"r\" variable=\"a\" value=\"x\"/>\
         <verifyauth assign_to=\"v\" username=\"[field0]\" password=\"x\"/><gettimeofday assign_to=\"s,u\"/>\
         <sample assign_to=\"p\" distribution=\"uniform\" min=\"1\" max=\"2\"/><index assign_to=\"i\"/><error message=\"x\"/>\
         <setdest host=\"a\" port=\"5060\" protocol=\"udp\"/><closecon/><exec command=\"true\"/><exec int_cmd=\"stop_call\"/>\
         <rtp_echo value=\"1\"/><exec rtp_stream=\"pause\"/><exec rtp_stream=\"apattern,1\"/><exec play_dtmf=\"1#\"/></action></nop>",
        "<init><nop><action><assign assign_to=\"a\" value=\"1\"/></action></nop></init><recv response=\"200\"/>",
        "<recv response=\"200\"/><DefaultMessage id=\"ack\"><![CDATA[ACK]]></DefaultMessage>",
        "<send><![CDATA[\nBYE sip:[[local_ip] SIP/2.0\nCSeq: [cseq+1] BYE\nX: [last_To] [dynamic_id] [timestamp] [date] \
         [rtpstream_audio_port+1] [cryptokeyparams1audio] [fill text=ab variable=n] [len] [len+2]\n]]>\
         <action><log message=\"sent\"/></action></send><recv response=\"200\"/>",
    ] {
        read(&with(commands));
    }
    let unfinished = with("<recv response=\"200\"/>").replace("</scenario>", "");
    read(&unfinished);
}

#[test]
fn what_is_passed_over_is_remarked_on() {
    for (commands, message) in [
        (
            "<recv respons=\"100\" response=\"200\"/>",
            "<recv> has no attribute \"respons\", which is passed over: did you mean \"response\"?",
        ),
        (
            "<recv response=\"200\"crlf=\"true\"/>",
            "there is no space before it",
        ),
        ("<recv response=\"200\" response=\"202\"/>", "there twice"),
        (
            "<recv response=\"200\"/><send><![CDATA[\nBYE sip:a SIP/2.0\nX: [ueaescm128sha1801audio]\n]]></send>",
            "SRTP without encryption",
        ),
        (
            "<recv response=\"200\"/><recv response=\"180\" optional=\"true\"/>",
            "complete without it",
        ),
        (
            "<recv response=\"200\"><action><ereg regexp=\"\\d\" assign_to=\"1\"/></action></recv>",
            "a digit is [0-9]",
        ),
        (
            "<recv response=\"200\"><action><exec command=\"reboot\"/></action></recv>",
            "not run",
        ),
    ] {
        let remarks = read(&with(commands)).remarks;
        let is_told = remarks
            .iter()
            .any(|remark| remark.message.contains(message));
        assert!(is_told, "{commands}: {remarks:?}");
    }
}

#[test]
fn keywords_of_the_run_stand_for_their_values() {
    let xml = with(
        "<recv response=\"200\"/><send><![CDATA[\nBYE sip:[gateway] SIP/2.0\nX: [branch]\n]]></send>",
    );
    let error = wrong(&xml);
    assert!(error.contains("-key gateway VALUE"), "{error}");
    let keywords = [("gateway", "a@[b]"), ("branch", "mine")];
    let options = Options {
        keywords: keywords
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..Options::default()
    };
    let script = read_with(&xml, &options).caller.unwrap();
    let Step::Send(send) = &script.steps()[2] else {
        panic!("{:?}", outline(&script));
    };
    assert!(matches!(send.template.parts(), [
        TemplatePart::Literal(line), TemplatePart::Slot(Slot::Branch), TemplatePart::Literal(_)
    ] if line.starts_with(b"BYE sip:a@[b] SIP/2.0")));
}

#[test]
fn a_bracket_before_a_keyword_is_a_bracket() {
    let script = read(&with(
        "<recv response=\"200\"/><send><![CDATA[\nBYE sip:[[local_ip]]:[remote_port] SIP/2.0\nX: [a [call_id]\n]]></send>",
    ));
    let script = script.caller.unwrap();
    let slots = slots(&script, 2);
    assert!(matches!(
        slots.as_slice(),
        [Slot::LocalIp, Slot::RemotePort, Slot::CallId]
    ));
}

#[test]
fn an_action_may_end_the_call() {
    let script = read(&with(
        "<recv response=\"486\" optional=\"true\"><action><exec int_cmd=\"stop_call\"/></action></recv>\
         <recv response=\"200\"/><nop><action><exec int_cmd=\"stop_call\"/></action></nop><pause/>",
    ));
    let script = script.caller.unwrap();
    assert_eq!(
        outline(&script),
        ["OPTIONS", "<486|200", "do", "complete", "pause"]
    );
    let Step::Expect(expect) = &script.steps()[1] else {
        panic!("{:?}", script.steps()[1]);
    };
    assert_eq!(expect.alternatives[0].then, Then::Jump(StepNumber(5)));
}

#[test]
fn an_optional_message_at_the_end_is_waited_for_as_long_as_it_says() {
    let script = read(&with(
        "<recv response=\"200\"/><recv request=\"NOTIFY\" optional=\"true\" timeout=\"500\"/>",
    ));
    let script = script.caller.unwrap();
    assert_eq!(outline(&script), ["OPTIONS", "<200", "<NOTIFY"]);
    let Step::Expect(expect) = &script.steps()[2] else {
        panic!("{:?}", script.steps()[2]);
    };
    assert_eq!(expect.on_timeout, Some(StepNumber(3)));
}

#[test]
fn controllers_of_third_parties_are_read() {
    for (name, words) in [
        (
            "3pcc-C-A",
            &[
                "INVITE",
                "<100|180|183|200",
                "do",
                "<command",
                "ACK",
                "pause",
                "BYE",
                "<200",
            ][..],
        ),
        (
            "3pcc-C-B",
            &[
                "<command",
                "INVITE",
                "<100|180|183|200",
                "ACK",
                "do",
                "pause",
                "BYE",
                "<200",
            ],
        ),
    ] {
        let Some(script) = caller(name) else { return };
        assert_eq!(outline(&script), words, "{name}");
        assert_eq!(script.commands_first(), name == "3pcc-C-A");
    }
}
