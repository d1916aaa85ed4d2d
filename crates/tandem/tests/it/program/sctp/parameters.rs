//! `--set` and what it does.

use super::{Talk, connect, connect_command, field, listen};
use std::time::Duration;

#[test]
fn the_parameters_of_a_path_show_in_its_state() {
    let listener = listen(&[]);
    let mut connector = connect(
        &listener,
        &[
            "--set",
            "rto_initial=1700ms",
            "--set",
            "rto_min=1500ms",
            "--set",
            "rto_max=5s",
            "--set",
            "mtu=1000",
            "--set",
            "path_mtu_discovery=false",
        ],
    );
    connector.wait_for("* COMM_UP");
    connector.type_line("/paths");
    let path = connector.line("= path ");
    // Measured by the handshake; on loopback that is the least that is allowed.
    let rto: f64 = field(&path, "rto_ms").parse().expect("a number");
    assert!((1500.0..=5000.0).contains(&rto), "{path}");
    let mtu: usize = field(&path, "mtu").parse().expect("a number");
    assert!((900..1000).contains(&mtu), "{path}");
    connector.type_line("/stats");
    for (name, value) in [
        ("rto_initial", "1s700ms"),
        ("rto_min", "1s500ms"),
        ("mtu", "1000"),
    ] {
        connector.wait_for(&format!("= setting name={name} value={value} default="));
    }
}

#[test]
fn windows_and_streams_show_at_the_peer() {
    let listener = listen(&[
        "--set",
        "a_rwnd=65536",
        "--set",
        "outbound_streams=30",
        "--set",
        "max_inbound_streams=20",
    ]);
    let mut connector = connect(&listener, &["--streams", "3000"]);
    let up = connector.line("* COMM_UP");
    assert_eq!(
        field(&up, "outbound_streams"),
        "20",
        "as many as the peer allows"
    );
    assert_eq!(field(&up, "inbound_streams"), "30");
    connector.type_line("/stats");
    let status = connector.line("= status ");
    assert_eq!(field(&status, "peer_rwnd"), "65536");
}

#[test]
fn heartbeats_come_as_often_as_they_are_told_to() {
    let listener = listen(&["--set", "heartbeats=false"]);
    let mut connector = connect(
        &listener,
        &[
            "--set",
            "hb_interval=10ms",
            "--set",
            "rto_min=20ms",
            "--set",
            "rto_initial=20ms",
        ],
    );
    connector.wait_for("* COMM_UP");
    // An idle association: everything above the handshake is a HEARTBEAT.
    let mut sent = 0;
    let enough = test_support::wait_until(super::LIMIT, || {
        std::thread::sleep(Duration::from_millis(100));
        let before = connector.count("= counters ");
        connector.type_line("/stats");
        connector.wait_for_times("= counters ", before + 1);
        let output = connector.peer.output();
        let last = output
            .lines()
            .rfind(|line| line.starts_with("= counters "))
            .expect("printed");
        sent = field(last, "packets_sent").parse().expect("a number");
        sent > 15
    });
    assert!(enough, "{sent} packets");
}

/// A dead peer is noticed when the parameters say so, and what was not delivered is told.
#[test]
fn a_lost_peer_is_told_with_what_it_did_not_get() {
    let listener = listen(&[]);
    let mut connector = connect(
        &listener,
        &[
            "--set",
            "rto_initial=20ms",
            "--set",
            "rto_min=20ms",
            "--set",
            "rto_max=50ms",
            "--set",
            "association_max_retrans=2",
            "--set",
            "path_max_retrans=2",
            // What is lost is to be the association, and not its set-up on a busy machine.
            "--set",
            "max_init_retransmits=200",
        ],
    );
    connector.wait_for("* COMM_UP");
    // It is there and says nothing.
    listener.signal("STOP");
    connector.type_line("into the dark");
    assert_eq!(connector.status(), Some(1));
    assert!(connector.line("* COMM_LOST").contains("no longer answers"));
    let failed = connector.line("* SEND_FAILED_EVENT");
    assert!(
        failed.contains("into the dark") && field(&failed, "data") == "SENT",
        "{failed}"
    );
}

#[test]
fn sender_dry_is_told_when_asked_for() {
    let listener = listen(&["--service", "discard"]);
    let mut connector = connect(&listener, &["--set", "sender_dry_events=true"]);
    connector.type_line("one");
    connector.wait_for("* SENDER_DRY_EVENT");
    connector.end_input();
    assert_eq!(connector.status(), Some(0));
}

/// The example of the manual, as a whole.
#[test]
fn many_parameters_at_once() {
    let listener = listen(&[]);
    let mut command = connect_command(listener.port, listener.encapsulation_port);
    for setting in [
        "rto_initial=1s",
        "rto_min=1s",
        "rto_max=2s",
        "valid_cookie_life=10s",
        "path_max_retrans=5",
        "association_max_retrans=10",
        "max_init_retransmits=8",
        "hb_interval=30s",
        "sack_delay=200ms",
        "nodelay=true",
        "bundling=false",
        "a_rwnd=65536",
    ] {
        command.args(["--set", setting]);
    }
    let mut connector = Talk::start(&mut command);
    connector.type_line("hello");
    connector.type_line("/stats");
    for name in ["rto_max", "valid_cookie_life", "bundling", "a_rwnd"] {
        connector.wait_for(&format!("= setting name={name} "));
    }
    assert_eq!(
        connector.count("= setting "),
        4,
        "the others are the defaults"
    );
    connector.end_input();
    assert_eq!(connector.status(), Some(0));
}
