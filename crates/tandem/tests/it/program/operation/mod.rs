//! `tandem proxy` as an operator sets it up, changes it, watches it and ends it.

mod certificates;
mod configuration;
mod drain;
mod fifth;
mod overload;
mod pcap;
mod plugins;
mod records;
mod reload;
mod sip;
mod watching;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use test_support::Peer;

use crate::program::support::{Proxy, tandem};

/// How long anything may take on loopback before a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A configuration with a UDP listener on a port that the system chooses, and more.
fn configuration(more: &str) -> String {
    format!(
        "workers = 1\n[[listener]]\ntransport = \"udp\"\naddress = \"127.0.0.1:0\"\n\
         [location]\nstore = \"memory:\"\n{more}"
    )
}

/// Starts the proxy with a configuration file.
fn start(file: &Path) -> Proxy {
    let mut command = tandem();
    command.arg("proxy").arg("--config").arg(file);
    start_command(&mut command)
}

fn start_command(command: &mut Command) -> Proxy {
    let mut peer = Peer::spawn(command);
    peer.wait_for_output("listening on udp:127.0.0.1:", PATIENCE);
    Proxy { peer }
}

/// Waits until something is so.
#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
