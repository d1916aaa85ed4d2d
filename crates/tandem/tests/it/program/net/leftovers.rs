//! What is left behind: nothing.

use std::fs;
use std::time::Duration;

use test_support::{Peer, wait_until};

use super::Networks;
use crate::program::support::send_signal;

const LIMIT: Duration = Duration::from_secs(60);

/// Whether a process is there and has not ended.
fn runs(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.contains("State:") && !status.contains("State:\tZ")
}

#[test]
fn programs_on_hosts_end_with_the_network() {
    let Some(networks) = Networks::up(&["two-hosts"]) else {
        return;
    };
    let process = networks.process();
    let mut sleeper =
        Peer::spawn(&mut networks.on("server", &["sh", "-c", "echo here; exec sleep 600"]));
    sleeper.wait_for_output("here", LIMIT);
    networks.text(&["down"]);
    assert!(!sleeper.wait(LIMIT).success());
    assert!(wait_until(LIMIT, || !runs(process)));
    let left = fs::read_dir(networks.path().join("tandem")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn a_killed_network_is_swept() {
    let Some(networks) = Networks::up(&["router"]) else {
        return;
    };
    let process = networks.process();
    let mut sleeper =
        Peer::spawn(&mut networks.on("server", &["sh", "-c", "echo here; exec sleep 600"]));
    sleeper.wait_for_output("here", LIMIT);
    send_signal(process, "KILL");
    assert!(wait_until(LIMIT, || !runs(process)));
    // Its interfaces went with it, though the program still holds the namespace.
    let devices = format!("/proc/{}/net/dev", sleeper.id());
    let has_interface = || {
        fs::read_to_string(&devices)
            .unwrap_or_default()
            .contains("eth0")
    };
    assert!(wait_until(LIMIT, || !has_interface()));
    assert!(wait_until(LIMIT, || networks.json(&["list"])[0]["up"] == false));
    networks.text(&["down", "--all"]);
    assert!(!sleeper.wait(LIMIT).success());
    assert_eq!(networks.json(&["list"]), serde_json::json!([]));
    // The name is free again.
    networks.text(&["up", "router"]);
}

#[test]
fn a_network_that_does_not_answer_is_ended() {
    let Some(networks) = Networks::up(&["two-hosts"]) else {
        return;
    };
    let process = networks.process();
    let control = networks.path().join("tandem/two-hosts/control");
    fs::remove_file(control).unwrap();
    networks.text(&["down"]);
    assert!(wait_until(LIMIT, || !runs(process)));
    assert_eq!(networks.json(&["list"]), serde_json::json!([]));
}
