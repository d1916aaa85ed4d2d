//! Arguments that make no sense, and help.

use std::process::Output;

use crate::program::support::tandem;

#[test]
fn arguments_that_make_no_sense_are_named() {
    for (arguments, named) in [
        (&["sctp"][..], "listen"),
        (&["sctp", "call"], "call"),
        (&["sctp", "connect"], "HOST[,HOST…]:PORT"),
        (&["sctp", "connect", "host"], "HOST[,HOST…]:PORT"),
        (&["sctp", "connect", "::1:9000"], "brackets"),
        (&["sctp", "connect", "host:0"], "port"),
        (&["sctp", "listen", "--port", "65536"], "--port"),
        (&["sctp", "listen", "--over", "pigeon"], "--over"),
        (&["sctp", "listen", "--service", "chargen"], "--service"),
        (&["sctp", "listen", "--streams", "0"], "--streams"),
        (&["sctp", "listen", "--address", "localhost"], "--address"),
        (&["sctp", "listen", "--linger", "soon"], "--linger"),
        (&["sctp", "listen", "--extension", "quic"], "--extension"),
        (&["sctp", "listen", "--scheduler", "lifo"], "--scheduler"),
        (&["sctp", "listen", "--weight", "3"], "--weight"),
        (&["sctp", "listen", "--linger-limit", "x"], "--linger-limit"),
        (&["sctp", "listen", "--reconnect"], "--reconnect"),
        (
            &["sctp", "listen", "--peer-encapsulation-port", "0"],
            "--peer-encapsulation-port",
        ),
        (
            &[
                "sctp",
                "listen",
                "--over",
                "ip",
                "--encapsulation-port",
                "9899",
            ],
            "--encapsulation-port needs --over udp",
        ),
        (
            &[
                "sctp",
                "connect",
                "host:1",
                "--over",
                "kernel",
                "--peer-encapsulation-port",
                "1",
            ],
            "--peer-encapsulation-port needs --over udp",
        ),
        (
            &[
                "sctp",
                "listen",
                "--set",
                "a_rwnd=64k",
                "--set",
                "max_message_size=1M",
            ],
            "a_rwnd=64k is below max_message_size=1M",
        ),
        (&["sctp", "connect", "[fe80::1]:9000"], "fe80::1%eth0"),
        (
            &["sctp", "connect", "[fe80::1%no-such]:9000"],
            "no interface no-such",
        ),
        (&["sctp", "connect", "[2001:db8::1%lo]:9000"], "link-local"),
        (&["sctp", "listen", "--address", "fe80::1"], "fe80::1%eth0"),
        (&["sctp", "listen", "--set", "rto_min"], "name=value"),
        (
            &["sctp", "listen", "--set", "rto_minn=1s"],
            "did you mean rto_min",
        ),
        (&["sctp", "listen", "--set", "rto_min=1"], "--set"),
        (&["sctp", "listen", "--set", "sack_delay=1s"], "0s to 500ms"),
        (
            &["sctp", "listen", "--set", "rto_max=500ms"],
            "rto_max=500ms is below rto_min=1s",
        ),
        (
            &["sctp", "connect", "host:1", "--set", "rto_max=500ms"],
            "--set",
        ),
    ] {
        let output = tandem().args(arguments).output().expect("it runs");
        let text = text(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(named), "{arguments:?}: {text}");
    }
}

/// Every parameter with its default, whatever else is missing.
#[test]
fn set_help_lists_the_parameters() {
    for command in ["listen", "connect"] {
        let output = tandem()
            .args(["sctp", command, "--set", "help"])
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(0));
        let text = text(&output);
        for line in [
            "rto_initial=1s  (time; RFC 9260",
            "hb_interval=30s  (",
            "a_rwnd=1M  (bytes;",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}

#[test]
fn help_explains_lines_and_exit_status() {
    for command in ["listen", "connect"] {
        let output = tandem()
            .args(["sctp", command, "--help"])
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(0));
        let text = text(&output);
        for wanted in [
            "Examples:",
            "/stream N TEXT",
            "Exit status: 0 ",
            "CAP_NET_RAW",
            "--reconnect",
            "--linger-limit",
            "[default: 10s]",
        ] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
    }
}

/// A capture that cannot be written is found out before anything else.
#[test]
fn a_file_that_cannot_be_written_is_named() {
    let output = tandem()
        .args(["sctp", "listen", "--encapsulation-port", "0"])
        .args(["--pcap", "/no/such/directory/file"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("/no/such/directory/file"));
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
