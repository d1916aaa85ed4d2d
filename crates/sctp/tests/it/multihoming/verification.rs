//! Path verification (RFC 9260 section 5.4): addresses that the peer lists get no data before they
//! are proved to be the peer's.

use std::time::{Duration, Instant};

use sctp::packet::ChunkType;
use sctp::{PathChange, PathError, PathState};

use crate::common::{chunk_types, message, ordered};
use crate::multihoming::network::*;

const SECOND: Duration = Duration::from_secs(1);

/// Nothing but HEARTBEATs and their answers may go to an address before it is confirmed, and a
/// COOKIE ACK or COOKIE ECHO beside a HEARTBEAT.
fn assert_only_probes(network: &Network, host: usize, net: u8, until: Instant) {
    for sent in &network.sent {
        if sent.from != host || sent.network != net || sent.time >= until {
            continue;
        }
        let types = chunk_types(&sent.packet);
        let is_probe = types.contains(&ChunkType::HEARTBEAT);
        for chunk_type in types {
            let allowed = match chunk_type {
                ChunkType::HEARTBEAT | ChunkType::HEARTBEAT_ACK => true,
                ChunkType::COOKIE_ACK | ChunkType::COOKIE_ECHO => is_probe,
                _ => false,
            };
            assert!(allowed, "{chunk_type:?}");
        }
    }
}

#[test]
fn listed_addresses_are_probed_at_once_and_then_used() {
    let mut network = Network::new(3);
    network.connect();
    network.run_for(5 * DELAY);
    for host in [CLIENT, SERVER] {
        let status = network.status(host);
        assert_eq!(status.paths.len(), 3);
        assert_eq!(status.primary, address(1 - host, 0));
        assert_eq!(status.local_addresses.len(), 3);
        assert_eq!(network.path(host, 0).state, PathState::Active);
        let first = network.sent_with(host, ChunkType::HEARTBEAT, network.start);
        assert_eq!(first.len(), 1, "HB.Max.Burst");
    }
    let id = network.id(CLIENT);
    let unconfirmed = address(SERVER, 2);
    let now = network.now;
    assert_eq!(network.path(CLIENT, 2).state, PathState::Unconfirmed);
    let set = network.hosts[CLIENT]
        .endpoint
        .set_primary(now, id, unconfirmed);
    assert_eq!(set, Err(PathError::NotConfirmed));
    network.run_for(5 * SECOND);
    for host in [CLIENT, SERVER] {
        let confirmed = network.path_changes(host, network.start);
        let mut networks: Vec<u8> = confirmed
            .iter()
            .map(|(_, net, change)| {
                assert_eq!(*change, PathChange::Confirmed);
                *net
            })
            .collect();
        networks.sort_unstable();
        assert_eq!(networks, [1, 2]);
        for (after, net, _) in confirmed {
            let until = network.start + Duration::from_secs_f64(after);
            assert_only_probes(&network, host, net, until);
        }
    }
}

#[test]
fn an_address_that_nobody_answers_at_never_gets_data() {
    let mut network = Network::new(2);
    network.cut(1);
    network.connect();
    network.run_for(SECOND);
    let begin = network.now;
    network.cut(0);
    for number in 0..10 {
        network.send(CLIENT, ordered(0), message(number, 500));
    }
    network.run_for(30 * SECOND);
    let end = network.now;
    for host in [CLIENT, SERVER] {
        assert_only_probes(&network, host, 1, end);
    }
    let data = network.sent_with(CLIENT, ChunkType::DATA, begin);
    assert!(data.len() > 3 && data.iter().all(|(_, net)| *net == 0));
    network.mend(0);
    network.run_for(100 * SECOND);
    assert_eq!(network.status(CLIENT).send_buffer_bytes, 0);
    assert_eq!(network.path(CLIENT, 1).state, PathState::Unconfirmed);
}

#[test]
fn probes_back_off_and_become_rare_when_the_address_is_unreachable() {
    for heartbeats in [true, false] {
        let config = plain().heartbeats(heartbeats);
        let mut network = Network::with(2, config, plain());
        network.cut(1);
        network.connect();
        network.run_for(500 * SECOND);
        let probes: Vec<u128> = network
            .sent_with(CLIENT, ChunkType::HEARTBEAT, network.start)
            .into_iter()
            .filter(|(_, net)| *net == 1)
            .map(|(time, _)| time / 1000)
            .collect();
        assert_eq!(probes[..6], [0, 1, 3, 7, 15, 31]);
        if heartbeats {
            assert!(probes[6] >= 63 + 30 && probes.len() < 12, "{probes:?}");
        } else {
            assert_eq!(probes.len(), 6);
        }
        let changes = network.path_changes(CLIENT, network.start);
        assert_eq!(changes.len(), 1);
        assert_eq!((changes[0].1, changes[0].2), (1, PathChange::Unreachable));
        // It is never the peer that is given up.
        assert_eq!(network.path(CLIENT, 0).state, PathState::Active);
    }
}

#[test]
fn an_address_that_is_reachable_later_is_confirmed_then() {
    let mut network = Network::new(2);
    network.cut(1);
    network.connect();
    network.run_for(100 * SECOND);
    network.mend(1);
    network.run_for(200 * SECOND);
    assert_eq!(network.path(CLIENT, 1).state, PathState::Active);
    assert_eq!(network.path(SERVER, 1).state, PathState::Active);
}

#[test]
fn the_addresses_that_the_user_names_need_no_proof() {
    let mut network = Network::new(3);
    network.connect_to(&[0, 2]);
    network.run_for(4 * DELAY);
    assert_eq!(network.path(CLIENT, 0).state, PathState::Active);
    assert_eq!(network.path(CLIENT, 1).state, PathState::Unconfirmed);
    assert_eq!(network.path(CLIENT, 2).state, PathState::Active);
    for net in [1, 2] {
        assert_eq!(network.path(SERVER, net).state, PathState::Unconfirmed);
    }
}
