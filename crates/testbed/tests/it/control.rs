//! The control socket, with those who speak well and those who do not.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use emulator::{DriverConfig, Emulator, Network};
use testbed::control::{
    Client, ClientError, Control, Description, LONGEST_LINE, Request, State, serve,
};
use testbed::{Plan, Topology, ready_made};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;

/// A network without hosts' devices, under control: nobody needs to be root for it.
struct Controlled {
    socket: PathBuf,
    _runtime: Runtime,
    _directory: tempfile::TempDir,
}

fn controlled() -> Controlled {
    let topology = Topology::parse(ready_made("router").unwrap().text, &[]).unwrap();
    let plan = Plan::new(topology).unwrap();
    let network = Network::new(&plan.network(), 1, Instant::now()).unwrap();
    let emulator = Emulator::spawn(network, Vec::new(), DriverConfig::default()).unwrap();
    let description = Description {
        name: "router".to_owned(),
        id: "1".to_owned(),
        description: String::new(),
        process: std::process::id(),
        seed: 1,
        nodes: Vec::new(),
        links: Vec::new(),
    };
    let control = Arc::new(Control::new(Arc::new(emulator), description));
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("control");
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let listener = UnixListener::bind(&socket).unwrap();
        tokio::spawn(serve(listener, control));
    });
    Controlled {
        socket,
        _runtime: runtime,
        _directory: directory,
    }
}

fn ask(client: &mut Client, request: &str) -> Result<serde_json::Value, String> {
    let request: Request = serde_json::from_str(request).unwrap();
    match client.ask(&request) {
        Ok(value) => Ok(value),
        Err(ClientError::Refused(text)) => Err(text),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn links_and_rules_are_changed_in_words() {
    let controlled = controlled();
    let mut client = Client::connect(&controlled.socket).unwrap();
    let mut ask = |request: &str| ask(&mut client, request);
    let set = r#"{"request":"set-link","link":"left","words":{"delay":"20ms","loss":"1%"}}"#;
    ask(set).unwrap();
    let keep = r#"{"request":"set-link","link":"left","direction":"backward","words":{"delay":"30ms"},"keep":true}"#;
    ask(keep).unwrap();
    let wrong = r#"{"request":"set-link","link":"left","words":{"delay":"5"}}"#;
    assert!(ask(wrong).unwrap_err().contains("delay"));
    let unknown = r#"{"request":"cut","link":"middle"}"#;
    assert!(ask(unknown).unwrap_err().contains("left"));
    ask(r#"{"request":"cut","link":"right"}"#).unwrap();
    let rule = r#"{"request":"add-rule","rule":{"source":"10.1.0.2","drop":"10%"}}"#;
    assert_eq!(ask(rule).unwrap()["number"], 1);
    let icmp = r#"{"request":"add-rule","rule":{"protocol":"icmp","source_port":"7"}}"#;
    assert!(ask(icmp).unwrap_err().contains("ports"));
    ask(r#"{"request":"change-rule","number":1,"words":{"delay":"5ms"}}"#).unwrap();
    let state: State = serde_json::from_value(ask(r#"{"request":"state"}"#).unwrap()).unwrap();
    let left = &state.links[0];
    assert_eq!(
        (&left.forward.words["delay"], left.up),
        (&"20ms".into(), true)
    );
    assert_eq!(left.backward.words["delay"], "30ms");
    assert_eq!(left.backward.words["loss"], "1%");
    assert!(!state.links[1].up);
    assert_eq!(state.rules[0].rule.treatment["loss"], "10%");
    assert_eq!(state.rules[0].rule.treatment["delay"], "5ms");
    ask(r#"{"request":"delete-rule","number":1}"#).unwrap();
    assert!(ask(r#"{"request":"delete-rule","number":1}"#).is_err());
}

#[test]
fn tables_and_traces_come_with_the_words_that_name_them() {
    let controlled = controlled();
    let mut client = Client::connect(&controlled.socket).unwrap();
    let mut ask = |request: &str| ask(&mut client, request);
    let nameless = r#"{"request":"set-link","link":"left","words":{"bandwidth":"trace up"}}"#;
    assert!(ask(nameless).unwrap_err().contains("the file up"));
    let whole = r#"{"request":"set-link","link":"left",
        "words":{"bandwidth":"trace up","jitter":"5ms table t","files":{"up":"1\n2\n","t":"1 2 3"}}}"#;
    let whole = &whole.replace('\n', "");
    ask(whole).unwrap();
    // What the link has already needs no text, also when all else is said anew.
    ask(r#"{"request":"set-link","link":"left","words":{"delay":"5ms"},"keep":true}"#).unwrap();
    ask(r#"{"request":"set-link","link":"left","words":{"bandwidth":"trace up overhead 28B","jitter":"7ms table t"}}"#)
        .unwrap();
    let state: State = serde_json::from_value(ask(r#"{"request":"state"}"#).unwrap()).unwrap();
    let words = &state.links[0].forward.words;
    assert_eq!(words["bandwidth"], "trace up overhead 28B");
    assert_eq!(words["jitter"], "7ms table t");
    assert!(!words.contains_key("delay") && !words.contains_key("files"));
    let wrong =
        r#"{"request":"add-rule","rule":{"bandwidth":"trace x","files":{"x":"no number"}}}"#;
    assert!(ask(wrong).unwrap_err().contains("no number"));
    let wrong = r#"{"request":"add-rule","rule":{"bandwidth":"trace x","files":"x"}}"#;
    assert!(ask(wrong).unwrap_err().contains("files"));
    let rule = r#"{"request":"add-rule","rule":{"protocol":"udp","destination_port":"5060","bandwidth":"trace x",
        "files":{"x":"10\n"}}}"#;
    ask(&rule.replace('\n', "")).unwrap();
    let state: State = serde_json::from_value(ask(r#"{"request":"state"}"#).unwrap()).unwrap();
    assert_eq!(state.rules[0].rule.treatment["bandwidth"], "trace x");
}

#[test]
fn nonsense_is_refused_and_does_no_harm() {
    let controlled = controlled();
    let connect = || UnixStream::connect(&controlled.socket).unwrap();
    for line in [
        "",
        "{",
        "[]",
        "null",
        "{\"request\":\"fly\"}",
        "\u{0}\u{1}",
        "{\"request\":\"cut\"}",
        "{\"request\":\"add-rule\",\"rule\":7}",
        "{\"request\":\"change-rule\",\"number\":-1,\"words\":{}}",
    ] {
        let mut stream = BufReader::new(connect());
        writeln!(stream.get_mut(), "{line}").unwrap();
        let mut answer = String::new();
        stream.read_line(&mut answer).unwrap();
        assert!(answer.starts_with("{\"error\":"), "{line}: {answer}");
    }
    // A line without an end is read up to its bound, and answered.
    let mut stream = connect();
    let long = vec![b'x'; LONGEST_LINE + 10];
    // It may close before everything is written.
    let _ = stream.write_all(&long);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.contains("at most"), "{answer}");
    // Who goes away in the middle of a line, and who comes in numbers, is in nobody's way.
    for _ in 0..200 {
        connect().write_all(b"{\"request\":").unwrap();
    }
    let mut client = Client::connect(&controlled.socket).unwrap();
    ask(&mut client, r#"{"request":"show"}"#).unwrap();
}
