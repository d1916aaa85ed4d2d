//! How it ends, and what the exit status tells of it.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

use test_support::{Peer, free_udp_port, wait_until};

use super::{LIMIT, Talk, connect, connect_command, listen};
use crate::program::support::tandem;

#[test]
fn the_end_of_the_input_shuts_down_in_good_order() {
    let mut listener = listen(&["--service", "echo"]);
    let mut connector = connect(&listener, &[]);
    connector.type_line("before the end");
    connector.end_input();
    assert_eq!(connector.status(), Some(0));
    assert_eq!(connector.count("text=\"before the end\""), 1, "it lingers");
    assert_eq!(connector.count("* SHUTDOWN_COMP"), 1);
    listener.wait_for("* SHUTDOWN_COMP");

    let mut connector = connect(&listener, &[]);
    connector.wait_for("* COMM_UP");
    listener.end_input();
    assert_eq!(listener.status(), Some(0));
    assert_eq!(connector.status(), Some(0));
    assert_eq!(connector.count("* SHUTDOWN_EVENT"), 1);
}

/// A whole conversation from a file, without waiting for anything.
#[test]
fn a_script_is_read_to_its_end() {
    let mut listener = listen(&[]);
    let mut connector = Talk::start(
        connect_command(listener.port, listener.encapsulation_port).args(["--linger", "0s"]),
    );
    let lines: String = (0..2000).map(|number| format!("line {number}\n")).collect();
    connector.peer.write(&lines);
    connector.end_input();
    assert_eq!(connector.status(), Some(0));
    listener.wait_for("* SHUTDOWN_COMP");
    let output = listener.peer.output();
    let texts: Vec<&str> = output
        .lines()
        .filter_map(|line| line.strip_prefix("< ")?.split_once(" text="))
        .map(|(_, text)| text)
        .collect();
    let expected: Vec<String> = (0..2000)
        .map(|number| format!("\"line {number}\""))
        .collect();
    assert_eq!(texts, expected);
}

/// Without a peer to talk to, what was typed waits for one.
#[test]
fn a_listener_keeps_a_line_for_the_first_peer() {
    let mut listener = listen(&[]);
    listener.type_line("welcome");
    listener.end_input();
    let mut connector = connect(&listener, &[]);
    connector.wait_for("text=\"welcome\"");
    assert_eq!(connector.status(), Some(0));
    assert_eq!(listener.status(), Some(0));
}

#[test]
fn an_abort_is_a_failure_on_both_sides() {
    let mut listener = listen(&[]);
    let mut connector = connect(&listener, &[]);
    connector.type_line("/abort enough of this");
    assert_eq!(connector.status(), Some(1));
    assert_eq!(connector.count("* COMM_LOST"), 1);
    let lost = listener.line("* COMM_LOST");
    assert!(lost.contains("enough of this"), "{lost}");

    let mut connector = connect(&listener, &[]);
    listener.wait_for_times("* COMM_UP", 2);
    listener.type_line("/abort");
    assert_eq!(connector.status(), Some(1));
    assert!(
        connector
            .line("* COMM_LOST")
            .contains("aborted by the peer")
    );
    listener.wait_for_times("* COMM_LOST", 2);
    // The listener itself goes on, and ends well.
    listener.end_input();
    assert_eq!(listener.status(), Some(0));
}

#[test]
fn signals_shut_down_in_good_order() {
    for signal in ["INT", "TERM"] {
        let mut listener = listen(&["--service", "discard"]);
        let mut connector = connect(&listener, &[]);
        connector.wait_for("* COMM_UP");
        connector.signal(signal);
        assert_eq!(connector.status(), Some(0), "SIG{signal}");
        listener.wait_for("* SHUTDOWN_COMP");

        let mut connector = connect(&listener, &[]);
        connector.wait_for("* COMM_UP");
        listener.signal(signal);
        assert_eq!(listener.status(), Some(0), "SIG{signal}");
        assert_eq!(connector.status(), Some(0));
    }
}

/// A shutdown that nobody answers takes long; who does not want to wait says so.
#[test]
fn a_second_signal_does_not_wait() {
    let listener = listen(&[]);
    let mut connector = connect(&listener, &[]);
    connector.wait_for("* COMM_UP");
    listener.signal("STOP");
    connector.signal("INT");
    connector.wait_for("= stopping");
    connector.signal("INT");
    assert_eq!(connector.status(), Some(1));
    assert_eq!(connector.count("* SHUTDOWN_COMP"), 0);
}

#[test]
fn a_refusal_is_told_by_its_name() {
    let listener = listen(&[]);
    let other_port = if listener.port == 65_535 {
        49_152
    } else {
        listener.port + 1
    };
    let mut connector = Talk::start(&mut connect_command(
        other_port,
        listener.encapsulation_port,
    ));
    assert_eq!(connector.status(), Some(1));
    assert!(
        connector
            .line("* CANT_STR_ASSOC")
            .contains("refused by the peer")
    );
    assert!(connector.line("tandem: ").contains("refused by the peer"));
}

#[test]
fn no_answer_is_told_after_the_last_init() {
    // It is there and says nothing.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("bound").port();
    let mut connector = Talk::start(connect_command(9000, port).args([
        "--set",
        "rto_initial=20ms",
        "--set",
        "rto_min=20ms",
        "--set",
        "max_init_retransmits=2",
    ]));
    assert_eq!(connector.status(), Some(1));
    assert!(connector.line("* CANT_STR_ASSOC").contains("no answer"));
    assert!(connector.line("tandem: ").contains("no answer"));
}

#[test]
fn an_interrupted_attempt_is_a_failure() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("bound").port();
    let mut connector = Talk::start(&mut connect_command(9000, port));
    connector.wait_for("= connecting ");
    connector.signal("INT");
    assert_eq!(connector.status(), Some(1));
    assert!(connector.line("tandem: ").contains("interrupted"));
}

#[test]
fn a_port_in_use_is_one_line_that_names_it() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let output = tandem()
        .args(["sctp", "listen", "--address", "127.0.0.1"])
        .args(["--encapsulation-port", &port])
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(&port) && text.contains("in use"), "{text}");
}

#[test]
fn a_name_without_address_is_told() {
    let output = tandem()
        .args(["sctp", "connect", "no-such-host.invalid:9000"])
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("no-such-host.invalid"), "{text}");
}

/// After each end another beginning, 20 ms later, for ever.
#[test]
fn reconnect_associates_again_and_again() {
    let mut listener = listen(&["--service", "daytime"]);
    let mut connector = connect(&listener, &["--reconnect"]);
    connector.wait_for_times("* SHUTDOWN_COMP", 5);
    assert!(connector.count("* COMM_UP") >= 5);
    assert!(connector.count("\n< ") >= 5);
    connector.signal("INT");
    assert_eq!(connector.status(), Some(0));
    listener.wait_for_times("* SHUTDOWN_COMP", 5);
}

/// An association that is lost or cannot begin is begun again, too.
#[test]
fn reconnect_outlives_failures() {
    let (port, encapsulation_port) = (9000, free_udp_port());
    let mut connector = Talk::start(connect_command(port, encapsulation_port).args([
        "--reconnect",
        "--set",
        "rto_initial=20ms",
        "--set",
        "rto_min=20ms",
        "--set",
        "max_init_retransmits=1",
    ]));
    connector.wait_for_times("* CANT_STR_ASSOC", 2);
    let mut command = tandem();
    command.args(["sctp", "listen", "--address", "127.0.0.1"]);
    command.args(["--port", &port.to_string()]);
    command.args(["--encapsulation-port", &encapsulation_port.to_string()]);
    let mut listener = Talk::start(&mut command);
    connector.wait_for("* COMM_UP");
    listener.wait_for("* COMM_UP");
    listener.type_line("/abort");
    connector.wait_for("* COMM_LOST");
    connector.wait_for_times("* COMM_UP", 2);
    connector.end_input();
    assert_eq!(connector.status(), Some(0));
}

/// Two that connect to each other make one association, and both go on to talk. Who is first finds
/// nobody, and tries again.
#[test]
fn two_connectors_make_one_association() {
    for round in 0..5 {
        let ports = [free_udp_port(), free_udp_port()];
        let start = |own: u16, other: u16, arguments: &[&str]| {
            Talk::start(
                connect_command(9000, other)
                    .args(["--port", "9000", "--address", "127.0.0.1"])
                    .args(["--encapsulation-port", &own.to_string()])
                    .args(arguments),
            )
        };
        let mut one = start(ports[0], ports[1], &["--reconnect"]);
        let mut other = start(ports[1], ports[0], &[]);
        one.type_line("from one");
        other.wait_for("text=\"from one\"");
        other.type_line("from the other");
        one.wait_for("text=\"from the other\"");
        one.end_input();
        assert_eq!(one.status(), Some(0), "round {round}");
        assert_eq!(other.status(), Some(0), "round {round}");
        for talk in [&one, &other] {
            assert_eq!(talk.count("* COMM_UP"), 1, "{}", talk.peer.output());
            assert_eq!(talk.count("* SHUTDOWN_COMP"), 1);
        }
    }
}

/// In the background of a script the input is `/dev/null`: no reason to end.
#[test]
fn without_input_services_run_on() {
    let mut command = tandem();
    command.args([
        "sctp",
        "listen",
        "--address",
        "127.0.0.1",
        "--service",
        "echo",
    ]);
    command.args(["--port", "0", "--encapsulation-port", "0"]);
    let mut listener = Talk::start(&mut in_the_background(&command));
    for _ in 0..2 {
        let mut connector = connect(&listener, &[]);
        connector.type_line("again?");
        connector.wait_for("text=\"again?\"");
        connector.end_input();
        assert_eq!(connector.status(), Some(0));
    }
    // A connector that only types has nothing to do without input.
    let command = connect_command(listener.port, listener.encapsulation_port);
    let mut connector = Peer::spawn(&mut in_the_background(&command));
    assert_eq!(connector.wait(LIMIT).code(), Some(0));
    listener.signal("INT");
    assert_eq!(listener.status(), Some(0));
}

/// Who reads no more wants no more.
#[test]
fn a_closed_pipe_is_an_end_in_good_order() {
    let mut listener = listen(&[]);
    let command = connect_command(listener.port, listener.encapsulation_port);
    let mut shell = Command::new("sh");
    // Enough to see that the association is up.
    shell.args(["-c", "\"$@\" | head -n 3", "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    let mut connector = Peer::spawn(&mut shell);
    listener.wait_for("* COMM_UP");
    let ended = wait_until(LIMIT, || {
        listener.type_line("is anybody reading?");
        std::thread::sleep(Duration::from_millis(50));
        listener.count("* SHUTDOWN_COMP") == 1
    });
    assert!(ended);
    assert_eq!(connector.wait(LIMIT).code(), Some(0));
}

/// The same command, reading `/dev/null`.
fn in_the_background(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$@\" </dev/null", "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    shell
}
