//! Paths that come and go and lose packets at random: every message arrives once, in order and
//! unchanged, and in the end nothing is left of it.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::PathState;

use crate::multihoming::network::*;

/// Moves data over three paths that fail at random, by one seed.
fn play(seed: u64) {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let config = plain()
        .association_max_retrans(1000)
        .path_max_retrans(rng.random_range(0..4))
        .potentially_failed(rng.random_bool(0.7))
        .potentially_failed_max_retrans(rng.random_range(0..3))
        .primary_switchover_max_retrans(rng.random_bool(0.3).then_some(3))
        .rto_min(Duration::from_millis(100))
        .hb_interval(Duration::from_secs(1))
        .nodelay(rng.random_bool(0.5))
        .bundling(rng.random_bool(0.8));
    let mut network = Network::with(3, config.clone(), config);
    network.establish();
    network.loss = rng.random_range(0.0..0.1);
    network.rng = ChaCha12Rng::seed_from_u64(seed + 1000);
    let mut next_fault = network.now;
    let bytes = rng.random_range(10..4000);
    network.transfer_while(400, bytes, |network, _| {
        if network.now < next_fault {
            return;
        }
        next_fault = network.now + Duration::from_millis(rng.random_range(50..3000));
        let path = rng.random_range(0..3);
        if rng.random_bool(0.5) {
            network.cut(path);
        } else {
            network.mend(path);
        }
    });
    // All is well again.
    network.loss = 0.0;
    for path in 0..3 {
        network.mend(path);
    }
    network.run_for(Duration::from_secs(300));
    let status = network.status(CLIENT);
    assert_eq!(status.send_buffer_bytes, 0);
    assert_eq!(status.outstanding_bytes, 0);
    for host in [CLIENT, SERVER] {
        for path in network.status(host).paths {
            assert_eq!(path.state, PathState::Active);
            assert_eq!(path.outstanding_bytes, 0);
            assert_eq!(path.error_count, 0);
        }
    }
}

#[test]
fn nothing_is_lost_or_repeated_whatever_fails() {
    for seed in 0..100 {
        // The seed of a failure.
        println!("seed {seed}");
        play(seed);
    }
}
