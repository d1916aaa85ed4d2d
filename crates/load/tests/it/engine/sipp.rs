//! Scenarios of SIPp, carried out by an engine whose peer is the test.

use std::path::Path;
use std::sync::Arc;

use load::record::{Failure, Outcome};
use load::scenario::{Options, Scenario};
use load::script::Pause;
use load::trace::Trace;
use sip::{Message, Method, Name, Transport};

use crate::engine::alone::{Alone, SECOND, invite, response, within};

const INVITE: &str = "<send retrans=\"500\"><![CDATA[
      INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:a@[local_ip]:[local_port]>;tag=own[call_number]
      To: <sip:[service]@[remote_ip]:[remote_port]>
      Call-ID: [call_id]
      CSeq: [cseq] INVITE
      Contact: <sip:a@[local_ip]:[local_port]>
      Max-Forwards: 70
      Content-Length: 0

  ]]></send>";

const ACK: &str = "<send><![CDATA[
      ACK sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      [last_Via:]
      From: <sip:a@[local_ip]:[local_port]>;tag=own[call_number]
      To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
      Call-ID: [call_id]
      CSeq: [cseq] ACK
      Subject: by the script
      Max-Forwards: 70
      Content-Length: 0

  ]]></send>";

/// Users who run the steps of a scenario.
fn scenario(steps: &str) -> Alone {
    let xml = format!("<scenario name=\"test\">{steps}</scenario>");
    let options = Options {
        hold: Pause::Fixed(SECOND),
        ..Options::default()
    };
    let scenario = Scenario::read(Path::new("test.xml"), xml.as_bytes(), &options).unwrap();
    let mut alone = Alone::with(Transport::Udp, SECOND, false);
    let script = scenario.caller.or(scenario.callee).unwrap();
    alone.call = alone.engine.add_script(Arc::new(script));
    alone
}

fn outcome(alone: &mut Alone) -> Outcome {
    let records = alone.call_records();
    assert_eq!(records.len(), 1);
    records[0].attempt.outcome
}

fn assert_acknowledges(ack: &Message, refusal: &Message) {
    assert_eq!(ack.method(), Some(&Method::Ack));
    for name in [Name::Via, Name::From, Name::To, Name::CallId] {
        assert_eq!(ack.header(name), refusal.header(name));
    }
}

/// RFC 3261 section 17.1.1.3: whether a step expects it or not, and each time that it comes (17.1.1.2).
#[test]
fn a_refusal_that_no_step_expects_is_acknowledged() {
    let steps = format!("{INVITE}<recv response=\"180\"/><recv response=\"200\"/>{ACK}");
    for status in [302, 404, 503, 603] {
        let mut alone = scenario(&steps);
        let invite = alone.begin();
        let refusal = response(&invite, status);
        let [ack] = &alone.receive(&refusal)[..] else {
            panic!("an ACK to {status}");
        };
        assert_acknowledges(ack, &refusal);
        assert_eq!(outcome(&mut alone), Outcome::Failed(Failure::Refused));
        assert_eq!(alone.receive(&refusal)[0].to_bytes(), ack.to_bytes());
        assert!(alone.pass(33 * SECOND).is_empty());
    }
}

#[test]
fn a_refusal_that_a_step_acknowledges_has_that_ack_alone() {
    let mut alone = scenario(&format!("{INVITE}<recv response=\"404\"/>{ACK}"));
    let invite = alone.begin();
    let refusal = response(&invite, 404);
    let [ack] = &alone.receive(&refusal)[..] else {
        panic!("one ACK");
    };
    assert_acknowledges(ack, &refusal);
    assert_eq!(ack.header(Name::Other("Subject")), Some("by the script"));
    assert_eq!(outcome(&mut alone), Outcome::Completed);
    // The run is over, and the refusal still has its ACK.
    assert_eq!(alone.engine.sessions(), 0);
    assert_eq!(alone.receive(&refusal)[0].to_bytes(), ack.to_bytes());
}

/// A callee who hangs up with From and To as the INVITE had them. Its BYE is told from others by its branch and the
/// method in CSeq alone (RFC 3261 section 17.1.3).
fn callee(branch: &str) -> String {
    format!(
        "<recv request=\"INVITE\"/>
  <send><![CDATA[

      SIP/2.0 200 OK
      [last_Via:]
      [last_From:]
      [last_To:];tag=callee[call_number]
      [last_Call-ID:]
      [last_CSeq:]
      Contact: <sip:[local_ip]:[local_port]>
      Content-Length: 0

  ]]></send>
  <recv request=\"ACK\"/>
  <send retrans=\"500\"><![CDATA[

      BYE sip:x@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch={branch}
      [last_From:]
      [last_To:]
      [last_Call-ID:]
      CSeq: 1 BYE
      Max-Forwards: 70
      Content-Length: 0

  ]]></send>
  <recv response=\"200\"/>"
    )
}

#[test]
fn a_response_is_found_by_its_branch_and_method() {
    for branch in ["[branch]", "z9hG4bKwritten[call_number]"] {
        let mut alone = scenario(&callee(branch));
        let answer = alone.receive(&invite("a"))[0].clone();
        assert_eq!(answer.status(), Some(200));
        let [bye] = &alone.receive(&within(&answer, Method::Ack, 7))[..] else {
            panic!("a BYE");
        };
        assert_eq!(bye.header(Name::From), answer.header(Name::From));
        // Neither another method nor another branch.
        let mut other = Message::response_to(bye, 200, "OK");
        other.replace(Name::CSeq, "1 INFO");
        assert!(alone.receive(&other).is_empty());
        let mut other = Message::response_to(bye, 200, "OK");
        other.replace(Name::Via, "SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKother");
        assert!(alone.receive(&other).is_empty());
        assert_eq!(alone.engine.counters().stray_responses, 2, "{branch}");
        assert!(
            alone
                .receive(&Message::response_to(bye, 200, "OK"))
                .is_empty()
        );
        assert_eq!(alone.engine.counters().stray_responses, 2, "{branch}");
        assert_eq!(outcome(&mut alone), Outcome::Completed);
        assert!(alone.pass(33 * SECOND).is_empty());
    }
}

/// As in SIPp: it gives the call up, and cancels it (RFC 3261 section 9.1).
#[test]
fn a_provisional_response_that_no_step_expects_ends_the_call() {
    let steps =
        format!("{INVITE}<recv response=\"180\" optional=\"true\"/><recv response=\"200\"/>{ACK}");
    for status in [100, 183] {
        let mut alone = scenario(&steps);
        let invite = alone.begin();
        assert!(alone.receive(&response(&invite, 180)).is_empty());
        let [cancel] = &alone.receive(&response(&invite, status))[..] else {
            panic!("a CANCEL after {status}");
        };
        assert_eq!(cancel.method(), Some(&Method::Cancel));
        assert_eq!(outcome(&mut alone), Outcome::Failed(Failure::Unexpected));
        alone.receive(&Message::response_to(cancel, 200, "OK"));
        let [ack] = &alone.receive(&response(&invite, 487))[..] else {
            panic!("an ACK");
        };
        assert_eq!(ack.method(), Some(&Method::Ack));
        alone.pass(33 * SECOND);
        assert_eq!(alone.engine.sessions(), 0);
    }
}

/// As in SIPp, and as RFC 2543 had it.
#[test]
fn a_call_goes_on_without_the_tag_of_the_callee() {
    let mut alone = scenario(&format!(
        "{INVITE}<recv response=\"200\"/>{ACK}<recv request=\"BYE\"/>"
    ));
    alone.is_validating = false;
    let invite = alone.begin();
    let sent = alone.receive(&Message::response_to(&invite, 200, "OK"));
    assert_eq!(sent[0].method(), Some(&Method::Ack));
    assert!(alone.call_records().is_empty(), "it goes on");
}

/// A request is taken where the scenario waits for it, whatever its number; elsewhere RFC 3261 section 12.2.2 holds.
#[test]
fn numbers_of_requests_may_go_back() {
    let answer = "<send><![CDATA[\nSIP/2.0 200 OK\n[last_Via:]\n[last_From:]\n[last_To:];tag=1\n[last_Call-ID:]\n\
         [last_CSeq:]\nContact: <sip:[local_ip]:[local_port]>\nContent-Length: 0\n]]></send>";
    let info = format!("<recv request=\"INFO\"/>{}", answer.replace(";tag=1", ""));
    let mut alone = scenario(&format!(
        "<recv request=\"INVITE\"/>{answer}<recv request=\"ACK\"/>{info}{info}<recv request=\"BYE\"/>"
    ));
    let first = alone.receive(&invite("a"))[0].clone();
    alone.receive(&within(&first, Method::Ack, 7));
    for (number, status) in [(9, 200), (8, 200), (7, 500)] {
        let sent = alone.receive(&within(&first, Method::Info, number));
        assert_eq!(sent[0].status(), Some(status), "{number}");
    }
    assert!(alone.call_records().is_empty());
}

/// Requests without a branch, as RFC 2543 had them, are told apart by their methods (RFC 3261 section 17.2.3).
#[test]
fn requests_without_a_branch_may_share_a_number() {
    let answer = "<send><![CDATA[\nSIP/2.0 200 OK\n[last_Via:]\n[last_From:]\n[last_To:]\n[last_Call-ID:]\n\
         [last_CSeq:]\nContent-Length: 0\n]]></send>";
    let mut alone = scenario(&format!(
        "<recv request=\"MESSAGE\"/>{answer}<recv request=\"INFO\"/>{answer}"
    ));
    for method in ["MESSAGE", "INFO"] {
        let text = String::from_utf8(invite("a").to_bytes().to_vec()).unwrap();
        let text = text
            .replace("INVITE", method)
            .replace(";branch=z9hG4bKa", "");
        let request = Message::read(text.into_bytes().into()).unwrap();
        let sent = alone.receive(&request);
        assert_eq!(sent[0].header(Name::CSeq), request.header(Name::CSeq));
    }
}

/// A CANCEL that comes after the answer is a request like others for a scenario.
#[test]
fn a_cancel_that_comes_too_late_is_expected_or_ends_the_call() {
    let answer = "<send><![CDATA[\nSIP/2.0 200 OK\n[last_Via:]\n[last_From:]\n[last_To:];tag=1\n[last_Call-ID:]\n\
         [last_CSeq:]\nContact: <sip:[local_ip]:[local_port]>\nContent-Length: 0\n]]></send>";
    for (next, expected) in [
        (
            format!("<recv request=\"CANCEL\"/>{answer}"),
            Outcome::Completed,
        ),
        (
            "<recv request=\"ACK\"/>".to_owned(),
            Outcome::Failed(Failure::Unexpected),
        ),
    ] {
        let mut alone = scenario(&format!("<recv request=\"INVITE\"/>{answer}{next}"));
        alone.receive(&invite("a"));
        let text = String::from_utf8(invite("a").to_bytes().to_vec()).unwrap();
        let cancel = Message::read(text.replace("INVITE", "CANCEL").into_bytes().into()).unwrap();
        let sent = alone.receive(&cancel);
        assert_eq!(sent[0].status(), Some(200));
        assert_eq!(sent[0].header(Name::CSeq), cancel.header(Name::CSeq));
        assert_eq!(outcome(&mut alone), expected, "{next}");
    }
}

/// An INVITE is answered as its number says, even after another request.
#[test]
fn an_invite_is_refused_after_its_cancel_was_answered() {
    let mut alone = scenario(
        "<recv request=\"INVITE\"/><recv request=\"CANCEL\"/><send><![CDATA[\nSIP/2.0 200 OK\n[last_Via:]\n\
         [last_From:]\n[last_To:];tag=1\n[last_Call-ID:]\n[last_CSeq:]\nContent-Length: 0\n]]></send>\
         <send retrans=\"500\"><![CDATA[\nSIP/2.0 487 Request Terminated\n[last_Via:]\n[last_From:]\n\
         [last_To:];tag=1\n[last_Call-ID:]\nCSeq: 7 INVITE\nContent-Length: 0\n]]></send><recv request=\"ACK\"/>",
    );
    assert!(alone.receive(&invite("a")).is_empty());
    let text = String::from_utf8(invite("a").to_bytes().to_vec()).unwrap();
    let of_invite =
        |method| Message::read(text.replace("INVITE", method).into_bytes().into()).unwrap();
    let sent = alone.receive(&of_invite("CANCEL"));
    let statuses: Vec<_> = sent.iter().map(Message::status).collect();
    assert_eq!(statuses, [Some(200), Some(487)]);
    assert_eq!(alone.pass(SECOND).len(), 1, "it is retransmitted");
    assert!(alone.receive(&of_invite("ACK")).is_empty());
    assert_eq!(outcome(&mut alone), Outcome::Completed);
    assert!(alone.pass(2 * SECOND).is_empty());
}

/// As if the INVITE had forked: each answer has its ACK.
#[test]
fn an_invite_may_be_answered_twice() {
    let answer = |tag: &str| {
        format!(
            "<send><![CDATA[\nSIP/2.0 200 OK\n[last_Via:]\n[last_From:]\nTo: <sip:user3@example.org>;tag={tag}\n\
             [last_Call-ID:]\nCSeq: 7 INVITE\nContact: <sip:[local_ip]:[local_port]>\nContent-Length: 0\n]]></send>"
        )
    };
    let mut alone = scenario(&format!(
        "<recv request=\"INVITE\"/>{}<recv request=\"ACK\"/>{}<recv request=\"ACK\"/>",
        answer("1"),
        answer("2").replace("[last_Via:]", "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKa")
    ));
    alone.is_validating = false;
    let first = alone.receive(&invite("a"))[0].clone();
    let second = alone.receive(&within(&first, Method::Ack, 7))[0].clone();
    assert_eq!(second.status(), Some(200));
    // Again the ACK of the first one.
    assert!(alone.receive(&within(&first, Method::Ack, 7)).is_empty());
    assert!(alone.call_records().is_empty());
    alone.receive(&within(&second, Method::Ack, 7));
    assert_eq!(outcome(&mut alone), Outcome::Completed);
}

/// A provisional response is repeated each minute (RFC 3261 section 13.3.1.1), and by the network.
#[test]
fn a_provisional_response_that_is_repeated_is_expected_once() {
    let mut alone = scenario(&format!(
        "{INVITE}<recv response=\"180\"/><recv response=\"200\"/>{ACK}"
    ));
    let invite = alone.begin();
    for _ in 0..3 {
        assert!(alone.receive(&response(&invite, 180)).is_empty());
    }
    assert_eq!(alone.receive(&response(&invite, 200)).len(), 1);
    assert_eq!(outcome(&mut alone), Outcome::Completed);
}

/// In our own scenarios, too, but that the next hop has the request is nothing that they have to expect.
#[test]
fn scenarios_in_toml_expect_provisional_responses_other_than_100() {
    let toml =
        "[[caller]]\nsend = \"INVITE\"\n[[caller]]\nexpect = 200\n[[caller]]\nsend = \"ACK\"\n";
    let scenario = Scenario::read(Path::new("a.toml"), toml.as_bytes(), &Options::default());
    let script = Arc::new(scenario.unwrap().caller.unwrap());
    let mut alone = Alone::with(Transport::Udp, SECOND, false);
    alone.call = alone.engine.add_script(script);
    let invite = alone.begin();
    assert!(alone.receive(&response(&invite, 100)).is_empty());
    assert!(alone.call_records().is_empty());
    assert_eq!(
        alone.receive(&response(&invite, 180))[0].method(),
        Some(&Method::Cancel)
    );
    assert_eq!(outcome(&mut alone), Outcome::Failed(Failure::Unexpected));
}

fn options(cseq: &str, field: &str) -> String {
    format!(
        "<send><![CDATA[
      OPTIONS sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:a@[local_ip]:[local_port]>;tag=own[call_number]
      To: <sip:[service]@[remote_ip]:[remote_port]>
      Call-ID: [call_id]
      CSeq: {cseq} OPTIONS
      Max-Forwards: 70
      X: {field}
      Content-Length: [len]
      Y: [len+2]

      body
  ]]></send>"
    )
}

/// However the number is written, the response that has it is the response to the request.
#[test]
fn numbers_may_have_an_offset() {
    let mut alone = scenario(&format!(
        "{}<recv response=\"200\"/><nop><action><assignstr assign_to=\"n\" value=\"70\"/></action></nop>{}\
         <recv response=\"200\"/>",
        options(
            "[cseq+6]",
            "[msg_index+1] [local_port-1] [transport+1] [call_number+99]"
        ),
        options("[$n]", "[fill text=abc variable=n]"),
    ));
    let first = alone.begin();
    assert_eq!(first.header(Name::CSeq), Some("7 OPTIONS"));
    assert_eq!(first.header(Name::Other("Y")), Some("8"));
    let port: u16 = first
        .header(Name::Via)
        .unwrap()
        .split([':', ';'])
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let expected = format!("1 {} UDP 100", port - 1);
    assert_eq!(first.header(Name::Other("X")), Some(expected.as_str()));
    let second = alone.receive(&response(&first, 200))[0].clone();
    assert_eq!(second.header(Name::CSeq), Some("70 OPTIONS"));
    assert_eq!(second.header(Name::Other("X")).map(str::len), Some(70));
    alone.receive(&response(&second, 200));
    let records = alone.call_records();
    assert!(records.is_empty(), "an OPTIONS is no call");
    assert_eq!(alone.engine.sessions(), 0);
    assert_eq!(alone.engine.counters().stray_responses, 0);
}

/// `strcmp` gives 0 for equal texts; a check that does not hold ends the call.
#[test]
fn texts_are_compared_as_texts() {
    for (compared, is_equal) in [
        ("value=\"1.0\"", true),
        ("value=\"1\"", false),
        ("variable2=\"other\"", false),
    ] {
        for (check, holds) in [("check_it", is_equal), ("check_it_inverse", !is_equal)] {
            let mut alone = scenario(&format!(
                "<nop><action><assignstr assign_to=\"a\" value=\"1.0\"/>\
                 <strcmp assign_to=\"result\" variable=\"a\" {compared}/>\
                 <test assign_to=\"same\" variable=\"result\" compare=\"equal\" value=\"0\"/>\
                 <strcmp variable=\"a\" {compared} {check}=\"true\"/></action></nop>\
                 {INVITE}<recv response=\"200\"/>{ACK}"
            ));
            let begun = alone.try_begin();
            assert_eq!(begun.len(), usize::from(holds), "{compared} {check}");
        }
    }
}

/// The credentials of RFC 7616 section 3.4 for the user that the scenario names.
#[test]
fn credentials_are_verified() {
    let steps = "<recv request=\"REGISTER\"><action><assignstr assign_to=\"who\" value=\"alice\"/>\
         <verifyauth assign_to=\"ok\" username=\"[$who]\" password=\"secret\"/></action></recv>\
         <nop next=\"good\" test=\"ok\"/><send><![CDATA[\nSIP/2.0 403 No\n[last_Via:]\n[last_From:]\n[last_To:];tag=1\n\
         [last_Call-ID:]\n[last_CSeq:]\nContent-Length: 0\n]]></send><nop next=\"end\"/><label id=\"good\"/><send><![CDATA[\n\
         SIP/2.0 200 OK\n[last_Via:]\n[last_From:]\n[last_To:];tag=1\n[last_Call-ID:]\n[last_CSeq:]\n\
         Content-Length: 0\n]]></send><label id=\"end\"/><timewait/>";
    for (username, password, status) in [
        ("alice", "secret", 200),
        ("alice", "wrong", 403),
        ("bob", "secret", 403),
        ("", "", 403),
    ] {
        let mut alone = scenario(steps);
        let text = String::from_utf8(invite("a").to_bytes().to_vec()).unwrap();
        let mut register =
            Message::read(text.replace("INVITE", "REGISTER").into_bytes().into()).unwrap();
        if !username.is_empty() {
            let challenge = b"Digest realm=\"r\", nonce=\"n\", qop=\"auth\"";
            let challenge = sip::digest::Challenge::parse(challenge).unwrap();
            let uri = register.request_uri().unwrap().to_owned();
            let account = sip::digest::Account {
                username,
                password: password.as_bytes(),
            };
            let authorization =
                challenge.authorize(&account, "REGISTER", &uri, 1, "0123456789abcdef");
            register.replace(Name::Authorization, authorization.to_string());
        }
        let answer = alone.receive(&register)[0].clone();
        assert_eq!(answer.status(), Some(status), "{username}:{password}");
    }
}

/// What a screen shows of each step, and what is written down of calls that fail.
#[test]
fn steps_are_counted_and_failures_told() {
    let mut alone = scenario(&format!(
        "<nop><action><log message=\"begins [call_number]\"/></action></nop>{INVITE}\
         <recv response=\"180\" optional=\"true\"/><recv response=\"200\"/>{ACK}"
    ));
    let invite = alone.begin();
    assert_eq!(alone.pass(SECOND).len(), 1, "one retransmission");
    alone.receive(&response(&invite, 180));
    alone.receive(&response(&invite, 486));
    let script = usize::from(alone.call.0);
    let counts: Vec<[u64; 4]> = alone.engine.step_counts()[script]
        .iter()
        .map(|count| {
            [
                count.done,
                count.retransmitted,
                count.timeouts,
                count.unexpected,
            ]
        })
        .collect();
    assert_eq!(
        counts,
        [[1, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    );
    let traces: Vec<Trace> = std::iter::from_fn(|| alone.engine.poll_trace()).collect();
    let [
        Trace::Logged { text, is_warning },
        Trace::Failed {
            script,
            step,
            failure,
            message,
            ..
        },
    ] = &traces[..]
    else {
        panic!("{traces:?}");
    };
    assert_eq!((text.as_slice(), *is_warning), (&b"begins 1"[..], false));
    assert_eq!(
        (script.as_str(), step.1.as_str()),
        ("test", "← 180 (optional)")
    );
    assert_eq!(*failure, Failure::Refused);
    assert!(message.as_deref().unwrap().starts_with(b"SIP/2.0 486"));
}
