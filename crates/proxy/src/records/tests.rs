use std::path::Path;

use serde_json::Value;
use sip::{ConnectionId, Flow, Transport};

use super::*;
use crate::core::{Answered, Call, EndedBy};

fn call(call_id: &str) -> Arc<Call> {
    Arc::new(Call {
        call_id: call_id.to_owned(),
        caller: "sip:alice@example.org".to_owned(),
        callee: "sip:bob@example.org".to_owned(),
        from_tag: "a".to_owned(),
        arrival: Flow {
            transport: Transport::Tcp,
            local: ([192, 0, 2, 1], 5060).into(),
            remote: ([192, 0, 2, 9], 40_000).into(),
            connection: ConnectionId(1),
            stream: 0,
        },
    })
}

fn at(milliseconds: u64) -> SystemTime {
    // 2026-01-01T00:00:00Z
    SystemTime::UNIX_EPOCH
        + Duration::from_secs(1_767_225_600)
        + Duration::from_millis(milliseconds)
}

fn answered(call_id: &str) -> Event {
    Event::CallAnswered(Answered {
        call: call(call_id),
        status: 200,
        to_tag: "b".to_owned(),
        hop: Some((Transport::Udp, ([192, 0, 2, 7], 5060).into())),
    })
}

fn failed(call_id: &str, status: u16) -> Event {
    failed_by(call_id, status, EndedBy::Callee)
}

fn failed_by(call_id: &str, status: u16, by: EndedBy) -> Event {
    Event::CallFailed {
        call: call(call_id),
        status,
        reason: "Some \"Reason\"".to_owned(),
        by,
    }
}

fn ended(call_id: &str, from_tag: &str, to_tag: &str) -> Event {
    Event::CallEnded {
        call_id: call_id.to_owned(),
        from_tag: from_tag.to_owned(),
        to_tag: to_tag.to_owned(),
    }
}

fn calls() -> Calls {
    Calls::new(2, Duration::from_secs(3600))
}

fn json(record: &Record) -> Value {
    let line = record.to_line();
    assert_eq!(line.iter().filter(|octet| **octet == b'\n').count(), 1);
    serde_json::from_slice(&line).expect("JSON")
}

#[test]
fn a_call_is_a_line() {
    let mut calls = calls();
    assert_eq!(
        calls.handle_event(at(0), Event::CallStarted(call("1"))),
        None
    );
    assert_eq!(calls.handle_event(at(1500), answered("1")), None);
    let record = calls.handle_event(at(61_750), ended("1", "b", "a"));
    assert_eq!(
        json(&record.expect("a record")),
        serde_json::json!({
            "call_id": "1",
            "caller": "sip:alice@example.org",
            "callee": "sip:bob@example.org",
            "source": "tcp:192.0.2.9:40000",
            "destination": "udp:192.0.2.7:5060",
            "start": "2026-01-01T00:00:00.000Z",
            "answer": "2026-01-01T00:00:01.500Z",
            "end": "2026-01-01T00:01:01.750Z",
            "setup_seconds": 1.5,
            "talk_seconds": 60.25,
            "status": 200,
            "reason": null,
            "ended_by": "callee",
        })
    );
    assert_eq!(calls.len(), 0);
    // A BYE that comes again says nothing new.
    assert_eq!(calls.handle_event(at(61_750), ended("1", "b", "a")), None);
}

#[test]
fn who_has_ended_it_is_known_by_the_tag() {
    let mut calls = calls();
    calls.handle_event(at(0), Event::CallStarted(call("1")));
    calls.handle_event(at(0), answered("1"));
    let record = calls
        .handle_event(at(0), ended("1", "a", "b"))
        .expect("a record");
    assert_eq!(json(&record)["ended_by"], "caller");

    // The status does not tell.
    for (by, expected) in [
        (EndedBy::Caller, "caller"),
        (EndedBy::Callee, "callee"),
        (EndedBy::Proxy, "proxy"),
    ] {
        for status in [404, 486, 487] {
            calls.handle_event(at(0), Event::CallStarted(call("2")));
            let record = calls.handle_event(at(0), failed_by("2", status, by));
            let record = record.expect("a record");
            assert_eq!(json(&record)["ended_by"], expected);
            assert_eq!(json(&record)["reason"], "Some \"Reason\"");
        }
    }
}

#[test]
fn only_the_dialog_that_was_answered_first_ends_a_call() {
    let mut calls = calls();
    calls.handle_event(at(0), Event::CallStarted(call("1")));
    assert_eq!(calls.handle_event(at(1), ended("1", "a", "")), None);
    calls.handle_event(at(1), answered("1"));
    // A second phone that answered is told to hang up; and somebody invents a tag.
    assert_eq!(calls.handle_event(at(2), ended("1", "a", "c")), None);
    assert_eq!(calls.handle_event(at(3), ended("1", "c", "a")), None);
    let record = calls.handle_event(at(1001), ended("1", "a", "b"));
    assert_eq!(json(&record.expect("a record"))["talk_seconds"], 1.0);
}

#[test]
fn a_challenge_is_no_call() {
    let mut calls = calls();
    calls.handle_event(at(0), Event::CallStarted(call("1")));
    assert_eq!(calls.handle_event(at(1), failed("1", 407)), None);
    assert_eq!(calls.len(), 0);
}

#[test]
fn a_call_that_comes_through_twice_is_one() {
    let mut calls = calls();
    calls.handle_event(at(0), Event::CallStarted(call("1")));
    calls.handle_event(at(1), Event::CallStarted(call("1")));
    assert_eq!(calls.len(), 1);
    assert_eq!(calls.handle_event(at(2), failed("1", 486)), None);
    let record = calls
        .handle_event(at(3), failed("1", 486))
        .expect("a record");
    assert_eq!(json(&record)["setup_seconds"], 0.003);
}

#[test]
fn calls_beyond_the_bound_are_written_when_they_are_answered() {
    let mut calls = calls();
    for call_id in ["1", "2", "3"] {
        calls.handle_event(at(0), Event::CallStarted(call(call_id)));
    }
    assert_eq!(calls.len(), 2);
    let record = calls.handle_event(at(5), answered("3")).expect("a record");
    assert_eq!(json(&record)["end"], Value::Null);
    assert_eq!(json(&record)["status"], 200);
}

#[test]
fn calls_without_an_end_are_written_at_last() {
    let mut calls = calls();
    calls.handle_event(at(0), Event::CallStarted(call("1")));
    calls.handle_event(at(0), answered("1"));
    assert_eq!(calls.expire(at(3_600_000)), []);
    assert_eq!(calls.expire(at(3_600_001)).len(), 1);
    calls.handle_event(at(0), Event::CallStarted(call("2")));
    assert_eq!(calls.take_all().len(), 1);
    assert_eq!(calls.len(), 0);
}

fn settings(file: &Path) -> RecordsSettings {
    RecordsSettings {
        file: Some(file.to_owned()),
        ..RecordsSettings::default()
    }
}

#[test]
fn the_thread_writes_what_there_is_before_it_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("calls.jsonl");
    let recorder = Recorder::start(&settings(&path))
        .expect("it opens")
        .expect("it is wanted");
    recorder.note(at(0), &Event::CallStarted(call("1")));
    recorder.note(at(1), &failed("1", 404));
    recorder.note(at(2), &Event::CallStarted(call("2")));
    recorder.close();
    assert_eq!(
        recorder.statistics(),
        RecordStatistics {
            written: 2,
            dropped: 0,
            open_calls: 1,
        }
    );
    let text = std::fs::read_to_string(&path).expect("it is there");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["status"], 404);
    assert_eq!(lines[1]["status"], Value::Null);
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_at_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    assert!(Recorder::start(&settings(directory.path())).is_err());
    let none = RecordsSettings::default();
    assert!(Recorder::start(&none).expect("nothing to open").is_none());
}

#[test]
fn tags_of_plugins_are_in_the_record_of_their_call() {
    let tagged = |name: &str| Event::CallTagged {
        call_id: "1".into(),
        from_tag: "a".into(),
        name: name.into(),
        value: "yes".into(),
    };
    let mut calls = calls();
    // A script may note something before the call is taken on.
    calls.handle_event(at(0), tagged("early"));
    calls.handle_event(at(1), Event::CallStarted(call("1")));
    calls.handle_event(at(2), tagged("late"));
    let record = calls.handle_event(at(3), failed("1", 486));
    assert_eq!(
        json(&record.expect("a record"))["tags"],
        serde_json::json!({"early": "yes", "late": "yes"})
    );
    // What was noted of a call that never begins is forgotten.
    calls.handle_event(at(4), tagged("early"));
    calls.expire(at(100_000));
    calls.handle_event(at(100_001), Event::CallStarted(call("1")));
    let record = calls.handle_event(at(100_002), failed("1", 486));
    assert_eq!(json(&record.expect("a record")).get("tags"), None);
}
