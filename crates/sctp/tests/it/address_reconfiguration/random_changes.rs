//! Addresses that change at random while data flows, over a network that loses, doubles and reorders
//! packets: every message arrives once, in order and unchanged, and in the end both sides agree on the
//! addresses.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::{AddressChange, Event, LocalAddressState, PathState};

use super::{outcomes, with_asconf};
use crate::multihoming::network::*;

fn random_change(rng: &mut ChaCha12Rng, host: usize) -> AddressChange {
    let address = address(host, rng.random_range(0..4));
    match rng.random_range(0..5) {
        0 | 1 => AddressChange::Add(address),
        2 | 3 => AddressChange::Delete(address),
        _ => AddressChange::SetPeerPrimary(address),
    }
}

/// Moves data while addresses change, by one seed.
fn play(seed: u64) {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let config = with_asconf(
        plain()
            .association_max_retrans(1000)
            .rto_min(Duration::from_millis(100))
            .hb_interval(Duration::from_secs(1))
            .nodelay(rng.random_bool(0.5))
            .bundling(rng.random_bool(0.8)),
    );
    let config = if rng.random_bool(0.5) {
        config.extensions("auth,asconf".parse().expect("names"))
    } else {
        config
    };
    let networks = rng.random_range(1..4);
    let mut network = Network::with(networks, config.clone(), config);
    network.establish();
    network.loss = rng.random_range(0.0..0.1);
    network.duplicates = rng.random_range(0.0..0.1);
    network.jitter = Duration::from_millis(rng.random_range(0..50));
    network.rng = ChaCha12Rng::seed_from_u64(seed + 1000);
    let mut next_change = network.now;
    let mut asked = 0;
    let bytes = rng.random_range(10..4000);
    network.transfer_while(300, bytes, |network, _| {
        if network.now < next_change {
            return;
        }
        next_change = network.now + Duration::from_millis(rng.random_range(1..500));
        let host = rng.random_range(0..2);
        let count = rng.random_range(1..4);
        let changes: Vec<_> = (0..count).map(|_| random_change(&mut rng, host)).collect();
        let (now, id) = (network.now, network.id(host));
        let endpoint = &mut network.hosts[host].endpoint;
        if endpoint.change_addresses(now, id, &changes).is_ok() {
            asked += changes.len();
        }
        network.collect();
    });
    network.loss = 0.0;
    network.run_for(Duration::from_secs(300));
    let mut answered = 0;
    for host in [CLIENT, SERVER] {
        let status = network.status(host);
        assert_eq!(status.send_buffer_bytes, 0);
        assert_eq!(status.outstanding_bytes, 0);
        let mut known = BTreeSet::new();
        for path in status.paths {
            known.insert(path.address.remote);
            assert_eq!(path.state, PathState::Active);
            assert_eq!(path.outstanding_bytes, 0);
            assert_eq!(path.error_count, 0);
        }
        let other = &network.hosts[1 - host];
        let ours = other.endpoint.local_addresses(network.id(1 - host));
        let usable = ours
            .expect("it is there")
            .into_iter()
            .map(|(address, state)| {
                assert_eq!(state, LocalAddressState::Usable);
                address
            });
        assert_eq!(usable.collect::<BTreeSet<_>>(), known);
        let events: Vec<Event> = other
            .events
            .iter()
            .map(|(_, event)| event.clone())
            .collect();
        answered += outcomes(&events).len();
    }
    assert_eq!(answered, asked, "each change is answered once");
}

#[test]
fn data_flows_and_both_sides_agree_whatever_changes() {
    for seed in 0..200 {
        // The seed of a failure.
        println!("seed {seed}");
        play(seed);
    }
}
