//! Files that SIPp loads although much in them is odd: what becomes of them here.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use load::record::{Failure, Outcome, Record};
use load::scenario::{Options, Scenario};
use sip::{Method, Name, Transport};
use test_support::require_command;

use super::alone::{Alone, SECOND, invite, response, within};

const OPTIONS: &str = "<send><![CDATA[
      OPTIONS sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:a@[local_ip]:[local_port]>;tag=own[call_number]
      To: <sip:[service]@[remote_ip]:[remote_port]>
      Call-ID: [call_id]
      CSeq: [cseq] OPTIONS
      Contact: <sip:a@[local_ip]:[local_port]>
      Max-Forwards: 70
      Subject: EXTRA
      Content-Length: 0

  ]]></send>";

const ANSWER: &str = "<send><![CDATA[
      SIP/2.0 200 OK
      [last_Via:]
      [last_From:]
      [last_To:];tag=[call_number]
      [last_Call-ID:]
      [last_CSeq:]
      Content-Length: 0

  ]]></send>";

fn file(commands: &str) -> String {
    format!("<?xml version=\"1.0\"?>\n<scenario name=\"odd\">\n{commands}\n</scenario>\n")
}

/// A request with this Subject.
fn options(subject: &str) -> String {
    OPTIONS.replace("EXTRA", subject)
}

/// Users who run a scenario that lies in a folder.
fn users(folder: &Path, commands: &str) -> Alone {
    let path = folder.join("test.xml");
    std::fs::write(&path, file(commands)).unwrap();
    let scenario = Scenario::load(&path, &Options::default()).unwrap();
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

fn subject(message: &sip::Message) -> &str {
    message.header(Name::Other("Subject")).unwrap_or_default()
}

/// The files, and whether SIPp can be asked about each: it cannot draw a `<recv>` for no message on its screen.
fn odd_files() -> Vec<(String, bool)> {
    let with = |commands: &str| format!("{}{commands}", file("").replace("</scenario>\n", ""));
    let body = |commands: &str| file(&format!("{}{commands}", options("x")));
    let ereg = |attributes: &str| {
        body(&format!(
            "<recv response=\"200\"><action><ereg {attributes} assign_to=\"1\"/></action></recv><Reference variables=\"1\"/>"
        ))
    };
    vec![
        (body("a < b\n<recv response=\"200\"/>"), true),
        (body("<recv response=\"200\">a <- b</recv>"), true),
        (ereg("regexp=\"(a)b*\\1\" search_in=\"msg\""), true),
        (
            ereg("regexp=\"a\" search_in=\"hdr\" header=\"m=audio \""),
            true,
        ),
        (body("<recv/><recv response=\"200\"/>"), false),
        (body("<recv response=\"\"/>"), false),
        (body("<recv response=\"20\"/>"), true),
        (body("<recv response=\"0310\"/>"), true),
        (
            body("<pause milliseconds=\"-5\"/><recv response=\"200\"/>"),
            true,
        ),
        (
            body("<recv response=\"200\"/>")
                .replace("<send>", "<send lost=\"200\" retrans=\"500\">"),
            true,
        ),
        (
            body("<recv response=\"200\"/>") + "text behind the end > of all",
            true,
        ),
        (body("<recv response=\"200\"/>") + "</scenario>", true),
        (
            with(&format!("{}<recv response=\"200\">", options("x"))),
            true,
        ),
        (body("<recv response=\"200\" odd=yes/>"), true),
        (
            body("<recv response=\"200\"><action><jump value=\"2\"/></action></recv><nop/>"),
            true,
        ),
        (
            file(&options("[file name=\"subject.txt\"]"))
                .replace("</scenario>", "<recv response=\"200\"/></scenario>"),
            true,
        ),
        (
            body(
                "<recv response=\"200\"><action><lookup assign_to=\"1\" file=\"rows.csv\" key=\"bob\"/></action></recv><Reference variables=\"1\"/>",
            ),
            true,
        ),
        (file(&options("[field1 file=\"rows.csv\" line=1]")), true),
        // Values without an opening quote.
        (
            body(
                "<recv response=\"200\"><action>\
                 <ereg regexp=\".*\" search_in=\"hdr\" header=From:\" case_indep=\"true\" assign_to=\"1\"/>\
                 <ereg regexp=\".*\" search_in=\"hdr\" header=To:\" case_indep=\"true\" assign_to=\"2\"/>\
                 </action></recv><Reference variables=\"1,2\"/>",
            ),
            true,
        ),
        (
            body("<recv response=\"200\" timeout=\"0x400\"/>")
                .replace("<send>", "<send retrans=\"0x1F4\">"),
            true,
        ),
        (body("<recv response=\"200\" timeout=\"-1\"/>"), true),
        (
            ereg("regexp=\"a\" search_in=\"hdr\" header=\"To:\" occurrence=\"first\""),
            true,
        ),
        (
            body(&format!(
                "<recv response=\"200\"/>{}",
                options("x\n[authentication realm=x username=a]")
            )),
            true,
        ),
        (
            body(&format!(
                "<recv response=\"200\"/>{}",
                options("[last_no field: of this name]")
            )),
            true,
        ),
        (
            body(&format!(
                "<recv response=\"200\"><action><assign assign_to=\"n\" value=\"1\"/></action></recv>{}",
                options("[$n+1]")
            )),
            true,
        ),
        (
            body(&format!(
                "<recv request=\"BYE\"/>{}",
                ANSWER.replace("SIP/2.0 200", "SIP/2.0  0200")
            )),
            true,
        ),
        (
            file(&format!(
                "<recv request=\"INVITE\" optional=\"true\"/><recv request=\"OPTIONS\"/>{ANSWER}"
            )),
            true,
        ),
        // Of the file that -inf names.
        (file(&options("[field1 line=1]")), false),
    ]
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("subject.txt"), "from a file").unwrap();
    std::fs::write(
        folder.path().join("rows.csv"),
        "SEQUENTIAL\nalice;wonder;\nbob;builder;\n",
    )
    .unwrap();
    folder
}

#[test]
fn what_sipp_loads_is_loaded() {
    let folder = folder();
    for (text, _) in odd_files() {
        let path = folder.path().join("odd.xml");
        std::fs::write(&path, &text).unwrap();
        if let Err(error) = Scenario::load(&path, &Options::default()) {
            panic!("{error}\n{text}");
        }
    }
}

/// SIPp shows the screen of the scenario only where it has loaded it.
#[test]
fn these_are_files_that_sipp_loads() {
    let Some(sipp) = require_command("sipp", "sip-tester") else {
        return;
    };
    let folder = folder();
    let run = |number: usize, text: &str| {
        let path = folder.path().join(format!("{number}.xml"));
        std::fs::write(&path, text).unwrap();
        Command::new(&sipp)
            .args([
                "127.0.0.1:9",
                "-i",
                "127.0.0.1",
                "-m",
                "1",
                "-nr",
                "-nostdin",
            ])
            .args(["-timeout", "1", "-recv_timeout", "200", "-inf", "rows.csv"])
            .args(["-infindex", "rows.csv", "0", "-sf"])
            .arg(path)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let is_loaded = |sipp: Child| {
        let output = sipp.wait_with_output().unwrap().stdout;
        String::from_utf8_lossy(&output).contains("Scenario Screen")
    };
    let wrong = file("<recv response=\"200\"></send>");
    assert!(!is_loaded(run(1000, &wrong)));
    let files = odd_files();
    let asked = files
        .iter()
        .enumerate()
        .filter(|(_, (_, is_asked))| *is_asked);
    let running: Vec<_> = asked
        .map(|(number, (text, _))| (text, run(number, text)))
        .collect();
    for (text, sipp) in running {
        assert!(is_loaded(sipp), "{text}");
    }
}

#[test]
fn files_beside_a_scenario_are_in_its_messages() {
    let folder = folder();
    let commands = options(
        "[file name=\"subject.txt\"]: [field0 file=\"rows.csv\"] [field1 file=\"rows.csv\" line=1] [field0 file=\"rows.csv\" line=9]",
    ) + "<recv response=\"200\"/>";
    let mut alone = users(folder.path(), &commands);
    let sent = alone.begin();
    assert_eq!(subject(&sent), "from a file: alice builder");
}

#[test]
fn rows_are_found_by_their_first_field() {
    let folder = folder();
    let commands = "<nop><action><lookup assign_to=\"row\" file=\"rows.csv\" key=\"bob\"/>\
         <lookup assign_to=\"none\" file=\"rows.csv\" key=\"eve\"/>\
         <assignstr assign_to=\"text\" value=\"a b\"/><urlencode variable=\"text\"/></action></nop>"
        .to_owned()
        + &options("[$row] [field1 file=\"rows.csv\" line=\"[$row]\"] [$none] [$text]")
        + "<recv response=\"200\"/>";
    let mut alone = users(folder.path(), &commands);
    assert_eq!(subject(&alone.begin()), "1.000000 builder -1.000000 a%20b");
}

#[test]
fn a_jump_leads_to_the_command_of_that_number() {
    let folder = folder();
    for (attribute, number) in [
        ("value=\"3\"", ""),
        ("variable=\"to\"", "<assign assign_to=\"to\" value=\"3\"/>"),
    ] {
        let commands = options("first")
            + &format!(
                "<recv response=\"200\"><action>{number}<jump {attribute}/></action></recv>"
            )
            + &options("second")
            + &options("third")
            + "<recv response=\"200\"/>";
        let mut alone = users(folder.path(), &commands);
        let first = alone.begin();
        let sent = alone.receive(&response(&first, 200));
        let subjects: Vec<&str> = sent.iter().map(subject).collect();
        assert_eq!(subjects, ["third"], "{attribute}");
        alone.receive(&response(&sent[0], 200));
        assert_eq!(outcome(&mut alone), Outcome::Completed);
    }
}

#[test]
fn a_recv_of_no_message_waits_in_vain() {
    let folder = folder();
    for (recv, expected) in [
        (
            "<recv response=\"20\" timeout=\"1000\"/>",
            Outcome::Failed(Failure::NoResponse),
        ),
        (
            "<recv optional=\"true\"/><recv response=\"200\"/>",
            Outcome::Completed,
        ),
    ] {
        let mut alone = users(folder.path(), &(options("x") + recv));
        let sent = alone.begin();
        if expected == Outcome::Completed {
            alone.receive(&response(&sent, 200));
        }
        alone.pass(Duration::from_secs(2));
        assert_eq!(outcome(&mut alone), expected, "{recv}");
    }
}

/// As in SIPp, where whatever comes begins a call. What the first step does not wait for is answered by itself.
#[test]
fn a_call_begins_with_any_of_the_requests_that_may_come_first() {
    let folder = folder();
    let path = folder.path().join("test.xml");
    let commands = format!(
        "<recv request=\"MESSAGE\" optional=\"true\" next=\"answer\"/><recv request=\"OPTIONS\"/><label id=\"answer\"/>{ANSWER}"
    );
    std::fs::write(&path, file(&commands)).unwrap();
    let scenario = Scenario::load(&path, &Options::default()).unwrap();
    for (method, begins) in [
        (Method::Message, true),
        (Method::Options, true),
        (Method::Info, false),
    ] {
        let mut alone = Alone::with(Transport::Udp, SECOND, false);
        let script = scenario.callee.clone().unwrap();
        alone.engine.add_script(Arc::new(script));
        let mut request = within(&invite("a"), method.clone(), 1);
        request.replace(Name::To, "<sip:user3@example.org>");
        alone.receive(&request);
        assert_eq!(
            alone.engine.counters().accepted,
            u64::from(begins),
            "{method}"
        );
    }
}

/// SIPp 3.7: an expression may stand for several statuses.
#[test]
fn statuses_may_be_an_expression() {
    let folder = folder();
    let commands = options("x")
        + "<recv response=\"^[45]\" regexp_match=\"true\" optional=\"true\" next=\"no\"/>\
           <recv response=\"^2.[^0]$\" regexp_match=\"true\"/><timewait/><label id=\"no\"/>\
           <nop><action><error message=\"no\"/></action></nop>";
    let commands = commands.replace("<timewait/>", "<nop next=\"end\"/>") + "<label id=\"end\"/>";
    for (status, expected) in [
        (202, Outcome::Completed),
        (404, Outcome::Failed(Failure::Check)),
        (503, Outcome::Failed(Failure::Check)),
        (200, Outcome::Failed(Failure::Unexpected)),
    ] {
        let mut alone = users(folder.path(), &commands);
        let sent = alone.begin();
        alone.receive(&response(&sent, status));
        assert_eq!(outcome(&mut alone), expected, "{status}");
    }
}

/// All are lost, so nothing is sent.
#[test]
fn more_than_all_are_all() {
    let folder = folder();
    let lost = options("x").replace("<send>", "<send lost=\"200\">");
    let mut alone = users(folder.path(), &(lost + "<recv response=\"200\"/>"));
    assert!(alone.try_begin().is_empty());
}

/// `m=audio 4000 …`: a line of the body, with what follows the text.
#[test]
fn lines_are_found_by_what_they_begin_with() {
    let folder = folder();
    let commands = options("first")
        + "<recv response=\"200\"><action><ereg regexp=\"[0-9]+\" search_in=\"hdr\" header=\"Contact: <sip:b@\" assign_to=\"1\"/>\
           <ereg regexp=\"^(.)(.)\\2\\1$\" search_in=\"hdr\" header=\"X-Mirror:\" assign_to=\"2\"/></action></recv>"
        + &options("[$1] [$2]")
        + "<recv response=\"200\"/>";
    let commands = commands.replace("Contact: <sip:b@", "Contact: &lt;sip:b@");
    let mut alone = users(folder.path(), &commands);
    let first = alone.begin();
    let mut answer = response(&first, 200);
    answer.push_back(Name::Contact, "<sip:b@77.example>");
    answer.push_back(Name::Other("X-Mirror"), "abba");
    let sent = alone.receive(&answer);
    assert_eq!(subject(&sent[0]), "77 abba");
}
