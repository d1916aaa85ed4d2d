//! What a run says beside a scenario of SIPp's: its options `-aa`, `-set` and `-recv_timeout`.

use std::path::Path;
use std::sync::Arc;

use load::record::{Outcome, Record};
use load::scenario::{Options, Scenario};
use sip::{Method, Name, Transport};

use super::alone::{Alone, SECOND, invite, within};

const REQUEST: &str = "<send><![CDATA[
    OPTIONS sip:[service]@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:a@[local_ip]:[local_port]>;tag=own[call_number]
    To: <sip:[service]@[remote_ip]:[remote_port]>
    Call-ID: [call_id]
    CSeq: [cseq] OPTIONS
    Max-Forwards: 70
    Subject: [$who]
    Content-Length: 0

]]></send><recv response=\"200\"/>";

/// The answer to a request, with what is behind the status line.
fn answers(status: &str) -> String {
    format!(
        "<send><![CDATA[
    SIP/2.0 {status}
    [last_Via:]
    [last_From:]
    [last_To:];tag=[call_number]
    [last_Call-ID:]
    [last_CSeq:]
    Contact: <sip:[local_ip]:[local_port]>
    Content-Length: 0

]]></send>"
    )
}

fn users(commands: &str, options: &Options) -> Alone {
    let text = format!("<scenario name=\"o\">{commands}</scenario>");
    let scenario = Scenario::read(Path::new("o.xml"), text.as_bytes(), options).unwrap();
    let script = scenario.caller.or(scenario.callee).unwrap();
    let mut alone = Alone::with(Transport::Udp, SECOND, false);
    alone.call = alone.engine.add_script(Arc::new(script));
    alone
}

#[test]
fn requests_that_no_step_expects_are_answered() {
    let commands = format!(
        "<recv request=\"INVITE\"/>{}<recv request=\"ACK\"/><recv request=\"BYE\"/>",
        answers("200 OK")
    );
    for (auto_answers, method, status, goes_on) in [
        (true, Method::Info, 200, true),
        (true, Method::Notify, 200, true),
        (true, Method::Update, 200, true),
        (true, Method::Options, 200, true),
        (true, Method::Refer, 405, false),
        (false, Method::Info, 405, false),
        (false, Method::Options, 200, false),
    ] {
        let options = Options {
            auto_answers,
            ..Options::default()
        };
        let mut alone = users(&commands, &options);
        let answer = alone.receive(&invite("a"))[0].clone();
        alone.receive(&within(&answer, Method::Ack, 7));
        let sent = alone.receive(&within(&answer, method.clone(), 8));
        assert_eq!(sent[0].status(), Some(status), "{auto_answers} {method}");
        let is_over = !alone.call_records().is_empty();
        assert_eq!(is_over, !goes_on, "{auto_answers} {method}");
    }
}

#[test]
fn variables_have_values_when_a_call_begins() {
    let options = Options {
        variables: vec![("who".to_owned(), "it is".to_owned())],
        ..Options::default()
    };
    for _ in 0..2 {
        let mut alone = users(REQUEST, &options);
        let request = alone.begin();
        assert_eq!(request.header(Name::Other("Subject")), Some("it is"));
    }
    let mut alone = users(REQUEST, &Options::default());
    alone.is_validating = false;
    assert_eq!(alone.begin().header(Name::Other("Subject")), Some(""));
}

#[test]
fn messages_are_waited_for_as_long_as_the_run_says() {
    let options = Options {
        receive_timeout: Some(3 * SECOND),
        ..Options::default()
    };
    for (commands, seconds) in [
        (REQUEST.to_owned(), 3),
        (
            REQUEST.replace("response=\"200\"", "response=\"200\" timeout=\"5000\""),
            5,
        ),
    ] {
        let mut alone = users(&commands, &options);
        alone.begin();
        alone.pass(SECOND * (seconds - 1));
        assert!(alone.engine.poll_record().is_none());
        alone.pass(SECOND + SECOND / 2);
        match alone.engine.poll_record() {
            Some(Record::Request(record)) => {
                assert!(matches!(record.attempt.outcome, Outcome::Failed(_)));
            }
            other => panic!("{other:?}"),
        }
    }
}
