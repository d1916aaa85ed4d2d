//! What is typed, however odd.

use super::{connect, field, listen};

/// None of these lines is sent, none ends anything, and each is told of.
#[test]
fn wrong_lines_are_refused_one_by_one() {
    let mut listener = listen(&[]);
    let mut connector = connect(&listener, &[]);
    connector.wait_for("* COMM_UP");
    for (line, error) in [
        (
            "/shutdwon",
            "! /shutdwon is not a command (is it /shutdown?)",
        ),
        ("/", "! / is not a command"),
        ("", "! an empty message cannot be sent"),
        ("/stream", "! usage: /stream N TEXT"),
        ("/stream 70000 text", "! usage: /stream N TEXT"),
        (
            "/stream 60000 text",
            "! there is no stream 60000: they go from 0 to 9",
        ),
        ("/primary nowhere", "! usage: /primary ADDRESS"),
        (
            "/primary 192.0.2.99",
            "! /primary 192.0.2.99: not an address of the peer",
        ),
        (
            "/heartbeat ::1",
            "! /heartbeat ::1: not an address of the peer",
        ),
        ("/paths now", "! usage: /paths"),
        ("/\u{1b}[2J", "! /\\u{1b}[2J is not a command"),
    ] {
        connector.type_line(line);
        connector.wait_for(error);
    }
    connector.type_line("still here");
    listener.wait_for("text=\"still here\"");
    assert_eq!(listener.count("\n< "), 1);
    assert_eq!(
        connector
            .peer
            .output()
            .lines()
            .filter(|line| line.starts_with('!'))
            .count(),
        11
    );
    connector.end_input();
    assert_eq!(
        connector.status(),
        Some(0),
        "a wrong line is no failure of the association"
    );
}

#[test]
fn any_bytes_arrive_and_are_shown_in_one_line() {
    let mut listener = listen(&[]);
    let mut connector = connect(&listener, &[]);
    connector.type_line("//etc/passwd");
    listener.wait_for("text=\"/etc/passwd\"");
    connector.type_line("\u{1b}]0;title\u{7}\r* COMM_LOST \"quoted\"\t\0");
    let line = listener.line("title");
    assert!(
        line.ends_with("text=\"\\u{1b}]0;title\\u{7}\\r* COMM_LOST \\\"quoted\\\"\\t\\0\""),
        "{line}"
    );
    assert_eq!(field(&line, "bytes"), "33");
}

#[test]
fn long_lines_are_messages_up_to_the_largest() {
    let mut listener = listen(&[]);
    let mut connector = connect(&listener, &["--set", "max_message_size=100k"]);
    connector.wait_for("* COMM_UP");
    connector.type_line(&"x".repeat(100 << 10));
    listener.wait_for("bytes=102400 ");
    connector.type_line(&"x".repeat((100 << 10) + 1));
    connector.wait_for("! a message of 102401 bytes is not sent: ");
    connector.type_line(&"x".repeat(5 << 20));
    connector.wait_for("! a line of 5242880 bytes is not sent: max_message_size is 102400");
    connector.type_line(&format!("/abort{}", "x".repeat(1 << 20)));
    connector.wait_for("! a line of 1048582 bytes is not sent");
    connector.type_line("short");
    listener.wait_for("text=\"short\"");
}

/// The words of an ABORT must fit a packet.
#[test]
fn a_long_reason_is_cut() {
    let mut listener = listen(&[]);
    let mut connector = connect(&listener, &[]);
    connector.wait_for("* COMM_UP");
    connector.type_line(&format!("/abort {}", "very ".repeat(10_000)));
    assert_eq!(connector.status(), Some(1));
    assert!(listener.line("* COMM_LOST").contains("very very"));
}

#[test]
fn paths_and_statistics_are_told() {
    let mut listener = listen(&["--service", "echo"]);
    let mut connector = connect(&listener, &[]);
    connector.type_line("hello");
    connector.wait_for("text=\"hello\"");
    connector.type_line("/heartbeat 127.0.0.1");
    connector.type_line("/primary 127.0.0.1");
    connector.type_line("/paths");
    let path = connector.line("= path ");
    assert_eq!(field(&path, "address"), "127.0.0.1");
    assert_eq!(
        field(&path, "encapsulation_port"),
        listener.encapsulation_port.to_string()
    );
    assert_eq!(
        (field(&path, "state"), field(&path, "primary")),
        ("ACTIVE", "true")
    );
    assert!(field(&path, "srtt_ms").parse::<f64>().expect("a number") >= 0.0);
    connector.type_line("/stats");
    let status = connector.line("= status ");
    assert_eq!(field(&status, "state"), "ESTABLISHED");
    let counters = connector.line("= counters ");
    assert_eq!(field(&counters, "messages_sent"), "1");
    assert_eq!(field(&counters, "messages_received"), "1");
    connector.wait_for("= stack ");
    connector.type_line("/help");
    connector.wait_for("line=/paths ");
    listener.type_line("/stats");
    listener.wait_for("= status ");
    assert_eq!(connector.count("\n!"), 0);
}
