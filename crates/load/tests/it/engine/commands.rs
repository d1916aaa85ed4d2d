//! Commands of other generators: SIPp's third party call control.

use std::sync::Arc;

use load::engine::{Command, NewSession, NoSuchCall};
use load::record::{Failure, Outcome, Record};
use load::scenario::{Options, Scenario};
use load::script::First;
use sip::{Name, Transport};

use super::alone::{Alone, SECOND, response};

const REQUEST: &str = "<send><![CDATA[
    OPTIONS sip:[service]@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:a@[local_ip]:[local_port]>;tag=own[call_number]
    To: <sip:[service]@[remote_ip]:[remote_port]>
    Call-ID: [call_id]
    CSeq: [cseq] OPTIONS
    Max-Forwards: 70
    Subject: [$1]
    Content-Length: 0

]]></send>
<recv response=\"200\"/>";

const TAKES: &str = "<recvCmd src=\"b\"><action>
    <ereg regexp=\"v=.*\" search_in=\"body\" assign_to=\"1\"/>
</action></recvCmd>";

const TELLS: &str = "<sendCmd dest=\"b\"><![CDATA[
    Call-ID: [call_id]
    From: a
    Content-Length: [len]

    v=[call_number]
]]></sendCmd>";

fn users(steps: &str) -> Alone {
    let text = format!("<?xml version=\"1.0\"?>\n<scenario name=\"c\">{steps}</scenario>");
    let scenario = Scenario::read("c.xml".as_ref(), text.as_bytes(), &Options::default()).unwrap();
    let mut alone = Alone::with(Transport::Udp, SECOND, false);
    alone.call = alone.engine.add_script(Arc::new(scenario.caller.unwrap()));
    alone
}

fn outcome(alone: &mut Alone) -> Outcome {
    match alone.engine.poll_record() {
        Some(Record::Request(record)) => record.attempt.outcome,
        other => panic!("{other:?}"),
    }
}

fn text(command: &Command) -> String {
    String::from_utf8(command.octets.clone()).unwrap()
}

#[test]
fn a_call_tells_another_generator_and_is_told() {
    let steps = format!(
        "<nop><action><assignstr assign_to=\"1\" value=\"x\"/></action></nop>{REQUEST}{TELLS}{TAKES}{REQUEST}"
    );
    let mut alone = users(&steps);
    let request = alone.begin();
    assert!(alone.engine.poll_command().is_none());
    assert!(alone.receive(&response(&request, 200)).is_empty());
    let command = alone.engine.poll_command().expect("a command");
    assert_eq!(command.to.as_deref(), Some("b"));
    let call_id = request.header(Name::CallId).unwrap();
    assert_eq!(
        text(&command),
        format!("Call-ID: {call_id}\r\nFrom: a\r\nContent-Length: 5\r\n\r\nv=1\r\n")
    );
    let answer = format!("Call-ID: {call_id}\r\nFrom: b\r\n\r\nv=7");
    assert_eq!(
        alone.engine.handle_command(alone.now, answer.as_bytes()),
        Ok(())
    );
    let second = alone.one();
    assert!(
        second
            .header(Name::Other("Subject"))
            .unwrap()
            .starts_with("v=7")
    );
    alone.receive(&response(&second, 200));
    assert_eq!(outcome(&mut alone), Outcome::Completed);
    assert!(alone.engine.poll_command().is_none());
}

#[test]
fn a_command_begins_a_call_with_its_call_id() {
    let mut alone = users(&format!("{TAKES}{REQUEST}{TELLS}"));
    let command = b"Call-ID: 3pcc///other@host\r\nFrom: b\r\n\r\nv=9";
    assert_eq!(
        alone.engine.handle_command(alone.now, command),
        Err(NoSuchCall)
    );
    let session = NewSession {
        script: alone.call,
        user: 1,
        peer: 2,
    };
    alone
        .engine
        .begin_commanded(alone.now, session, command)
        .unwrap();
    let request = alone.one();
    assert_eq!(request.header(Name::CallId), Some("other@host"));
    assert_eq!(request.header(Name::Other("Subject")), Some("v=9"));
    alone.receive(&response(&request, 200));
    assert_eq!(outcome(&mut alone), Outcome::Completed);
    let told = text(&alone.engine.poll_command().expect("a command"));
    assert!(told.starts_with("Call-ID: other@host\r\n"), "{told}");
}

/// The other side is told, or its call would wait for ever.
#[test]
fn a_call_that_cannot_begin_is_given_up_on_the_other_side() {
    let mut alone = users(&format!("{TAKES}{REQUEST}"));
    alone
        .engine
        .refuse_command(b"Call-ID: 3pcc///other@host\r\nFrom: b\r\n\r\n");
    let told = text(&alone.engine.poll_command().expect("a command"));
    assert_eq!(
        told,
        "call-id: other@host\r\ninternal-cmd: abort_call\r\n\r\n"
    );
    // Who has given the call up itself is told nothing, and begins nothing.
    let abort = told.as_bytes();
    alone.engine.refuse_command(abort);
    assert_eq!(alone.engine.handle_command(alone.now, abort), Ok(()));
    assert_eq!(alone.engine.poll_command(), None);
    assert_eq!(alone.engine.sessions(), 0);
}

#[test]
fn what_fails_on_one_side_is_given_up_on_the_other() {
    let steps = format!("{TELLS}{TAKES}{REQUEST}");
    // Here.
    let mut alone = users(&steps);
    assert!(alone.try_begin().is_empty());
    let call_id = text(&alone.engine.poll_command().expect("a command"));
    let call_id = call_id.lines().next().unwrap().to_owned();
    let stranger = format!("{call_id}\r\nFrom: somebody\r\n\r\n");
    alone
        .engine
        .handle_command(alone.now, stranger.as_bytes())
        .unwrap();
    assert_eq!(outcome(&mut alone), Outcome::Failed(Failure::Unexpected));
    let told = alone.engine.poll_command().expect("a command");
    assert_eq!(told.to, None);
    assert!(text(&told).contains("internal-cmd: abort_call"));
    // There.
    let mut alone = users(&steps);
    assert!(alone.try_begin().is_empty());
    let call_id = text(&alone.engine.poll_command().expect("a command"));
    let call_id = call_id.lines().next().unwrap().to_owned();
    let abort = format!("{call_id}\ninternal-cmd: abort_call\n\n");
    alone
        .engine
        .handle_command(alone.now, abort.as_bytes())
        .unwrap();
    assert_eq!(outcome(&mut alone), Outcome::Failed(Failure::Cancelled));
}

#[test]
fn a_command_is_no_message_of_sip() {
    let mut alone = users(&format!("{TAKES}{REQUEST}"));
    let octets = b"\x1bCOMMAND sip:twin SIP/2.0\r\nCall-ID: 1\r\nFrom: b\r\n\r\n";
    let line = alone.line;
    alone
        .engine
        .handle_message(alone.now, alone.now, line, octets);
    assert_eq!(alone.engine.counters().malformed, 1);
    assert!(alone.all().is_empty());
    for wrong in [
        &b""[..],
        b"\xff\xfe",
        b"From: b\r\n\r\n",
        b"internal-cmd: abort_call",
    ] {
        assert_eq!(alone.engine.handle_command(alone.now, wrong), Ok(()));
    }
    assert_eq!(alone.engine.counters().malformed, 5);
    // An end of a call that is not here begins none.
    let session = NewSession {
        script: alone.call,
        user: 1,
        peer: 2,
    };
    let abort = b"call-id: 1\ninternal-cmd: abort_call\n\n";
    assert!(
        alone
            .engine
            .begin_commanded(alone.now, session, abort)
            .is_err()
    );
    assert_eq!(alone.engine.sessions(), 0);
}

#[test]
fn who_begins_is_read_from_a_scenario() {
    for (steps, is_commanded, is_first) in [
        (format!("{TAKES}{REQUEST}"), true, false),
        (format!("{REQUEST}{TELLS}{TAKES}"), false, true),
        (format!("{REQUEST}{TAKES}{TELLS}"), false, false),
    ] {
        let text = format!("<scenario name=\"c\">{steps}</scenario>");
        let scenario = Scenario::read("c.xml".as_ref(), text.as_bytes(), &Options::default());
        let script = scenario.unwrap().caller.unwrap();
        assert_eq!(*script.first() == First::Commanded, is_commanded);
        assert_eq!(script.commands_first(), is_first);
        assert!(script.has_commands());
    }
}
