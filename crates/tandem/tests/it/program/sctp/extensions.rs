//! Extensions of SCTP at the command line and as they are typed.

use super::{connect, field, listen};

#[test]
fn streams_are_reset_and_added_as_typed() {
    let mut listener = listen(&["--extension", "all", "--streams", "2"]);
    let mut connector = connect(
        &listener,
        &["--extension", "reconf,idata,pr", "--streams", "2"],
    );
    connector.wait_for("* COMM_UP");
    connector.type_line("/stream 1 before");
    connector.type_line("/reset 1");
    let reset = connector.line("* STREAM_RESET_EVENT");
    assert_eq!(field(&reset, "direction"), "outgoing");
    assert_eq!(field(&reset, "streams"), "1");
    assert_eq!(field(&reset, "outcome"), "performed");
    let reset = listener.line("* STREAM_RESET_EVENT");
    assert_eq!(field(&reset, "direction"), "incoming");
    connector.type_line("/stream 1 after");
    let after = listener.line("text=\"after\"");
    assert_eq!(field(&after, "ssn"), "0", "{after}");
    connector.type_line("/add-streams 3");
    let change = connector.line("* STREAM_CHANGE_EVENT");
    assert_eq!(field(&change, "outbound_streams"), "5");
    assert_eq!(field(&change, "outcome"), "performed");
    connector.type_line("/stream 4 new");
    listener.wait_for("text=\"new\"");
    connector.type_line("/reset 77");
    connector.wait_for("! /reset: there is no such stream");
    connector.type_line("/stats");
    let status = connector.line("= status");
    assert_eq!(field(&status, "extensions"), "pr,reconf,idata");
    connector.end_input();
    assert_eq!(connector.status(), Some(0));
}

#[test]
fn what_the_peer_does_not_have_is_refused() {
    let listener = listen(&[]);
    let mut connector = connect(
        &listener,
        &[
            "--extension",
            "all",
            "--scheduler",
            "wfq",
            "--weight",
            "3=10",
        ],
    );
    connector.wait_for("* COMM_UP");
    for line in ["/reset", "/add-streams 1"] {
        connector.type_line(line);
        let command = line.split(' ').next().unwrap_or_default();
        connector.wait_for(&format!(
            "! {command}: the peer does not support the re-configuration of streams"
        ));
    }
    connector.type_line("/stats");
    let setting = connector.line("name=stream_scheduler");
    assert_eq!(field(&setting, "value"), "wfq");
    connector.wait_for("extensions=none");
}

/// A message that may not be sent again is sent once; whether it arrives the loopback decides.
#[test]
fn messages_with_policies_arrive() {
    let mut listener = listen(&["--extension", "pr"]);
    let mut connector = connect(&listener, &["--extension", "pr"]);
    for line in [
        "/lifetime 60s one",
        "/rtx 5 /stream 2 two",
        "/priority 5 /unordered three",
    ] {
        connector.type_line(line);
    }
    for text in ["one", "two", "three"] {
        listener.wait_for(&format!("text=\"{text}\""));
    }
    connector.type_line("/stats");
    let counters = connector.line("= counters");
    assert_eq!(field(&counters, "abandoned_sent"), "0");
    connector.type_line("/rtx 1 /lifetime 1s four");
    connector.wait_for("! a message has one of /lifetime, /rtx and /priority");
}

/// Both sides change to a key of their own while the association is up.
#[test]
fn keys_are_changed_as_typed() {
    let options = ["--extension", "auth", "--set", "auth_chunks=data,i-data"];
    let mut listener = listen(&options);
    let mut connector = connect(&listener, &options);
    connector.type_line("with the null key");
    listener.wait_for("text=\"with the null key\"");
    connector.type_line("/active-key 7");
    connector.wait_for("! /active-key 7: no such key");
    for side in [&mut listener, &mut connector] {
        side.type_line("/key 7 00112233445566778899aabbccddeeff");
    }
    // It is set when the answer to a later line is there.
    listener.type_line("/stats");
    listener.wait_for("= status");
    connector.type_line("/active-key 7");
    connector.type_line("with key 7");
    listener.wait_for("text=\"with key 7\"");
    let new_key = listener.line("indication=NEW_KEY");
    assert_eq!(field(&new_key, "key"), "7");
    connector.end_input();
    assert_eq!(connector.status(), Some(0));
}
