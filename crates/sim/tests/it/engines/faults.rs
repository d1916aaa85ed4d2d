//! Random faults under many seeds: whatever the network does and whenever hosts die, users hang up
//! or stop reading, the promises of SCTP hold. See [`crate::engines::promises`] for what these are.

use crate::engines::promises;
use crate::engines::scenario::Scenario;
use crate::engines::seeds;
use std::process::Command;
use std::time::Instant;
use test_support::require_command;

const SEEDS: u64 = 1000;

#[test]
fn promises_hold_under_random_faults() {
    seeds::check(
        "engines::faults::promises_hold_under_random_faults",
        SEEDS,
        Scenario::of_seed,
        promises::check,
    );
}

/// What the engines send under faults is sound: tshark finds nothing malformed.
#[test]
fn no_packet_is_malformed() {
    let Some(tshark) = require_command("tshark", "tshark") else {
        return;
    };
    if seeds::is_one_alone() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    for seed in 0..6 {
        let world = seeds::run(&Scenario::of_seed(seed), Instant::now());
        let capture = directory.path().join(format!("{seed}.pcapng"));
        world.write_capture(&capture).expect("it can be written");
        let count = |filter: &str| {
            let output = Command::new(&tshark)
                .arg("-r")
                .arg(&capture)
                .args(["-o", "sctp.checksum:CRC 32c", "-d", "udp.port==9900,sctp"])
                .args(["-Y", filter])
                .output()
                .expect("it runs");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{errors}");
            String::from_utf8_lossy(&output.stdout).lines().count()
        };
        let packets = world.simulation.trace().len();
        assert_eq!(
            count("sctp.checksum.status == \"Good\""),
            packets,
            "seed {seed}"
        );
        let wrong = "_ws.malformed || sctp.chunk_length.bad || _ws.expert.severity == error";
        assert_eq!(count(wrong), 0, "seed {seed}");
    }
}
