//! Call detail records.

use std::path::Path;

use serde_json::Value;

use super::sip::Phone;
use super::{configuration, eventually, start};

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn a_call_is_a_line_and_a_file_moved_away_is_begun_anew() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, records) = (
        directory.path().join("tandem.toml"),
        directory.path().join("calls.jsonl"),
    );
    let more = format!("[records]\nfile = {:?}\n", records.to_str().expect("UTF-8"));
    std::fs::write(&file, configuration(&more)).expect("written");
    let proxy = start(&file);
    let (caller, callee) = (Phone::new(&proxy, "alice"), Phone::new(&proxy, "bob"));
    assert_eq!(callee.register("r1"), 200);

    let contact = format!("Contact: <sip:alice@{}>\r\n", caller.address());
    caller.request(
        "INVITE",
        "sip:bob@127.0.0.1",
        "<sip:bob@127.0.0.1>",
        "c1",
        &contact,
    );
    let invite = callee.receive_one("INVITE ");
    callee.answer(&invite, "200 OK");
    let answer = caller.receive_one("SIP/2.0 200");
    caller.within("ACK", &answer);
    callee.receive_one("ACK ");
    caller.within("BYE", &answer);
    let bye = callee.receive_one("BYE ");
    callee.answer(&bye, "200 OK");
    caller.receive_one("SIP/2.0 200");

    eventually("a record", || lines(&records).len() == 1);
    let record = lines(&records).remove(0);
    assert_eq!(record["call_id"], "c1");
    assert_eq!(record["caller"], "sip:alice@127.0.0.1");
    assert_eq!(record["callee"], "sip:bob@127.0.0.1");
    assert_eq!(record["status"], 200);
    assert_eq!(record["ended_by"], "caller");
    assert_eq!(record["source"], format!("udp:{}", caller.address()));
    assert_eq!(record["destination"], format!("udp:{}", callee.address()));
    assert!(
        record["talk_seconds"]
            .as_f64()
            .is_some_and(|seconds| seconds >= 0.0)
    );

    std::fs::rename(&records, directory.path().join("old")).expect("moved");
    proxy.signal("HUP");
    eventually("a new file", || records.exists());
    let response = caller.ask("INVITE", "sip:nobody@127.0.0.1", "nobody", "c2", &contact);
    assert_eq!(response.status(), 404);
    eventually("a record", || lines(&records).len() == 1);
    assert_eq!(lines(&records)[0]["status"], 404);
    assert_eq!(lines(&records)[0]["answer"], Value::Null);
    assert_eq!(lines(&records)[0]["ended_by"], "proxy");
}
