//! Arguments that make no sense, ports that are taken, and hosts that must not be tested or are not there.

use std::time::Instant;

use super::{LONG, text};
use crate::program::support::tandem;

#[test]
fn strangers_are_not_put_under_load() {
    let begin = Instant::now();
    for target in ["tcp:192.0.2.1", "udp:8.8.8.8", "sctp:127.0.0.1,192.0.2.1"] {
        let output = tandem()
            .args(["perf", "client", target])
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output).contains("--i-may-test"), "{}", text(&output));
    }
    assert!(begin.elapsed() < LONG, "nothing was tried");
}

#[test]
fn nobody_there_is_one_line() {
    let nobody = test_support::Nobody::new();
    for transport in ["tcp", "udp"] {
        let output = tandem()
            .args([
                "perf",
                "client",
                &format!("{transport}:{}", nobody.address()),
            ])
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = errors.lines().last().expect("a line");
        assert!(
            last.starts_with("tandem: ") && last.contains("refused"),
            "{errors}"
        );
    }
}

#[test]
fn arguments_that_make_no_sense_are_named() {
    for (arguments, named) in [
        (vec!["client", "pigeon:127.0.0.1"], "pigeon"),
        (vec!["client", "tcp:127.0.0.1:0"], "port 0"),
        (vec!["client", "tcp:127.0.0.1", "--size", "0"], "--size"),
        (vec!["client", "tcp:127.0.0.1", "--size", "many"], "--size"),
        (vec!["client", "udp:127.0.0.1", "--size", "23"], "23"),
        (vec!["client", "udp:127.0.0.1", "--size", "65508"], "65508"),
        (vec!["client", "udp:127.0.0.1", "--nodelay"], "nodelay"),
        (vec!["client", "tcp:127.0.0.1", "--streams", "2"], "streams"),
        (vec!["client", "tcp:127.0.0.1", "--unordered"], "unordered"),
        (
            vec!["client", "tcp:127.0.0.1", "--interleave"],
            "interleaving",
        ),
        (
            vec!["client", "sctp:127.0.0.1", "--scheduler", "lifo"],
            "--scheduler",
        ),
        (
            vec!["client", "sctp:127.0.0.1", "--lifetime", "5 parsecs"],
            "--lifetime",
        ),
        (vec!["client", "tcp:127.0.0.1", "--over", "ip"], "--over"),
        (vec!["client", "sctp:127.0.0.1", "--over", "air"], "--over"),
        (
            vec![
                "client",
                "sctp:127.0.0.1",
                "--over",
                "ip",
                "--peer-encapsulation-port",
                "1",
            ],
            "--peer-encapsulation-port needs --over udp",
        ),
        (
            vec!["server", "--over", "kernel", "--encapsulation-port", "0"],
            "--encapsulation-port needs --over udp",
        ),
        (
            vec!["client", "tcp:127.0.0.1", "--bitrate", "x"],
            "--bitrate",
        ),
        (
            vec!["client", "tcp:127.0.0.1", "--seconds", "0"],
            "--seconds",
        ),
        (
            vec!["client", "tcp:127.0.0.1", "--parallel", "0"],
            "--parallel",
        ),
        (vec!["client", "tcp:127.0.0.1", "--window", "1"], "window"),
        (
            vec!["client", "tcp:127.0.0.1", "--count", "1", "--seconds", "1"],
            "--count",
        ),
        (vec!["server", "--listen", "udp:localhost"], "--listen"),
        (
            vec!["server", "--listen", "udp:127.0.0.1,127.0.0.2"],
            "several",
        ),
        (vec!["sweep", "--sizes", "8"], "8"),
        (vec!["sweep", "--seconds", "-1"], "--seconds"),
        (vec!["associations", "--count", "0"], "--count"),
        (vec!["streams", "--count", "65536"], "--count"),
    ] {
        let output = tandem()
            .arg("perf")
            .args(&arguments)
            .output()
            .expect("it runs");
        let text = text(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(named), "{arguments:?}: {text}");
    }
}

#[test]
fn a_port_in_use_is_one_line_that_names_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let listener = format!("tcp:{}", taken.local_addr().expect("bound"));
    let output = tandem()
        .args(["perf", "server", "--listen", &listener])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = text(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.contains(&listener) && text.contains("in use"),
        "{text}"
    );
}

#[test]
fn the_port_under_sctp_says_who_has_it() {
    let other = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = other.local_addr().expect("bound").port().to_string();
    let process = format!("(process {})", std::process::id());
    for arguments in [
        &["perf", "server", "--listen", "sctp:127.0.0.1:0"][..],
        &["traffic", "receive", "--listen", "sctp:127.0.0.1:0"],
        &["sctp", "listen", "--address", "127.0.0.1"],
        &[
            "proxy",
            "--store",
            "memory:",
            "--listen",
            "sctp:127.0.0.1:0",
        ],
    ] {
        let output = tandem()
            .args(arguments)
            .args(["--encapsulation-port", &port])
            .output()
            .expect("it runs");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(&process), "{arguments:?}: {said}");
        assert!(
            said.contains("--encapsulation-port"),
            "{arguments:?}: {said}"
        );
    }
}
