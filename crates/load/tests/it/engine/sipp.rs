//! Scenarios of SIPp, carried out by an engine whose peer is the test.

use std::path::Path;
use std::sync::Arc;

use load::record::{Failure, Outcome};
use load::scenario::{Options, Scenario};
use load::script::Pause;
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
