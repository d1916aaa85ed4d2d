//! Lines that were accepted arrive or are told of, on a network that is slow and loses packets, and however it ends.

use super::relay::Relay;
use super::{Talk, connect_command, listen};

/// A shutdown takes as long as data is acknowledged, here longer than five times RTO.Max.
#[test]
fn a_shutdown_delivers_everything_over_a_slow_network() {
    let mut listener = listen(&["--service", "discard"]);
    let relay = Relay::start(listener.encapsulation_port, 200_000, 0.02);
    let mut command = connect_command(listener.port, relay.port());
    // With so many retransmissions a pause of the machine does not count as the loss of the peer.
    for parameter in [
        "rto_initial=200ms",
        "rto_min=100ms",
        "rto_max=200ms",
        "association_max_retrans=100",
    ] {
        command.args(["--set", parameter]);
    }
    let mut connector = Talk::start(&mut command);
    for number in 0..4 {
        connector.type_line(&line(number, 100_000));
    }
    connector.type_line("/shutdown");
    assert_eq!(connector.status(), Some(0));
    assert_eq!(connector.count("SEND_FAILED_EVENT"), 0);
    let discarded = listener.line("= discarded ");
    assert!(
        discarded.ends_with("messages=4 bytes=400000"),
        "{discarded}"
    );
}

/// The peer shuts down while many lines are on their way: the first ones arrive, and of all others that were read it is
/// told that they did not.
#[test]
fn what_the_peer_does_not_wait_for_is_told() {
    let mut listener = listen(&[]);
    let relay = Relay::start(listener.encapsulation_port, 50_000, 0.0);
    let mut command = connect_command(listener.port, relay.port());
    command.args(["--set", "send_buffer=60k", "--set", "max_message_size=60k"]);
    let mut connector = Talk::start(&mut command);
    for number in 0..12 {
        connector.type_line(&line(number, 20_000));
    }
    listener.wait_for("text=\"000 ");
    listener.type_line("/shutdown");
    connector.wait_for("* SHUTDOWN_COMP");
    assert_eq!(connector.status(), Some(0));
    listener.wait_for("* SHUTDOWN_COMP");

    let arrived = numbers(&listener, "< ");
    let told = numbers(&connector, "* SEND_FAILED_EVENT");
    assert!(!told.is_empty());
    let all: Vec<usize> = arrived.iter().chain(&told).copied().collect();
    assert_eq!(all, (0..all.len()).collect::<Vec<_>>());
    // The line after these waited for room, and others were typed too late.
    assert!(connector.count("! a message of 20000 bytes is not sent") >= 1);
}

/// A peer that answers nothing does not keep the program, which tells what was not delivered.
#[test]
fn a_shutdown_takes_no_longer_than_the_limit() {
    for signal in ["INT", "TERM"] {
        let listener = listen(&[]);
        let mut command = connect_command(listener.port, listener.encapsulation_port);
        command.args(["--linger-limit", "300ms", "--set", "send_buffer=100k"]);
        let mut connector = Talk::start(command.args(["--set", "max_message_size=100k"]));
        connector.wait_for("* COMM_UP");
        listener.signal("STOP");
        // The engine has room for one of them.
        for number in 0..2 {
            connector.type_line(&line(number, 70_000));
        }
        connector.type_line("/stats");
        connector.wait_for("= stack ");
        connector.signal(signal);
        assert_eq!(connector.status(), Some(1), "SIG{signal}");
        assert_eq!(connector.count("= stopping"), 1);
        assert_eq!(numbers(&connector, "* SEND_FAILED_EVENT"), [0, 1]);
        assert_eq!(connector.count("* COMM_LOST"), 1);
        assert_eq!(connector.count("within 300ms (--linger-limit)"), 1);
    }
}

/// A line of so many bytes that begins with its number.
fn line(number: usize, bytes: usize) -> String {
    format!("{number:03} {}", "x".repeat(bytes - 4))
}

/// The numbers of the lines that are told of in lines of output with this beginning.
fn numbers(talk: &Talk, beginning: &str) -> Vec<usize> {
    let output = talk.peer.output();
    let told = output.lines().filter(|line| line.starts_with(beginning));
    told.filter_map(|line| line.split_once("text=\"")?.1.get(..3)?.parse().ok())
        .collect()
}
