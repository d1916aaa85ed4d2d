//! Several paths in use at a time that come and go and lose packets at random: every message arrives once, in order
//! and unchanged, interleaved (RFC 8260) or not, and in the end nothing is left of it.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::{BufferSplitting, EndpointConfig, LossDetection, PathScheduler};

use crate::multihoming::network::*;

fn config(rng: &mut ChaCha12Rng) -> EndpointConfig {
    let mut config = plain()
        .cmt(rng.random_bool(0.8))
        .path_scheduler(PathScheduler::ALL[rng.random_range(0..PathScheduler::ALL.len())])
        .buffer_splitting(BufferSplitting::ALL[rng.random_range(0..BufferSplitting::ALL.len())])
        .association_max_retrans(1000)
        .path_max_retrans(rng.random_range(0..4))
        .rto_min(Duration::from_millis(100))
        .hb_interval(Duration::from_secs(1))
        .send_buffer(rng.random_range(20_000..200_000))
        .a_rwnd(rng.random_range(20_000..200_000))
        .max_message_size(10_000)
        .bundling(rng.random_bool(0.8));
    if rng.random_bool(0.5) {
        config = config.loss_detection(LossDetection::RackTlp);
    }
    config.association.extensions.nr_sack = rng.random_bool(0.5);
    config.association.extensions.interleaving = rng.random_bool(0.5);
    config
}

/// Moves data over three paths that fail at random, by one seed.
fn play(seed: u64) {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let [client, server] = [config(&mut rng), config(&mut rng)];
    let mut network = Network::with(3, client, server);
    network.establish();
    network.loss = rng.random_range(0.0..0.1);
    network.duplicates = rng.random_range(0.0..0.05);
    network.jitter = Duration::from_millis(rng.random_range(0..30));
    network.rng = ChaCha12Rng::seed_from_u64(seed + 1000);
    let mut next_fault = network.now;
    let bytes = rng.random_range(10..4000);
    network.transfer_while(300, bytes, |network, _| {
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
    for host in [CLIENT, SERVER] {
        for path in network.status(host).paths {
            assert_eq!(path.outstanding_bytes, 0, "seed {seed}");
        }
    }
}

#[test]
fn every_message_arrives_once_and_in_order() {
    for seed in 0..60 {
        play(seed);
    }
}
