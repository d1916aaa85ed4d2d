//! A host whose only address changes keeps the association (RFC 5061 section 5.3.2).

use std::time::Duration;

use sctp::packet::ChunkType;
use sctp::{AddressChange, EndpointConfig, Event, PathState};

use super::with_asconf;
use crate::common::chunk_types;
use crate::multihoming::network::*;

/// Each host has one address, which it tells nobody.
fn network(config: EndpointConfig) -> Network {
    let mut network = Network::with(1, with_asconf(config.clone()), with_asconf(config));
    network.establish();
    network
}

/// The host loses its address, and gets another one.
fn renumber(network: &mut Network, host: usize, from: u8, to: u8) {
    let (old, new) = (address(host, from), address(host, to));
    network.lost_addresses.insert(old);
    network.lost_addresses.remove(&new);
    let changes = [AddressChange::Add(new), AddressChange::Delete(old)];
    change(network, host, &changes);
}

fn change(network: &mut Network, host: usize, changes: &[AddressChange]) {
    let (now, id) = (network.now, network.id(host));
    let endpoint = &mut network.hosts[host].endpoint;
    let asked = endpoint.change_addresses(now, id, changes);
    asked.expect("it is possible");
    network.collect();
}

fn is_up(network: &Network) -> bool {
    [CLIENT, SERVER].into_iter().all(|host| {
        let mut events = network.hosts[host].events.iter();
        events.all(|(_, event)| !matches!(event, Event::CommunicationLost { .. }))
    })
}

#[test]
fn the_only_address_of_either_side_changes_while_data_flows() {
    for host in [CLIENT, SERVER] {
        let mut network = network(plain());
        let mut address_of_host = 0;
        let mut next_change = 200;
        network.transfer_while(1500, 1000, |network, received| {
            if received >= next_change && address_of_host < 3 {
                renumber(network, host, address_of_host, address_of_host + 1);
                address_of_host += 1;
                next_change += 400;
            }
        });
        network.run_for(Duration::from_secs(60));
        assert!(is_up(&network));
        assert_eq!(address_of_host, 3);
        assert_eq!(network.status(host).local_addresses, [address(host, 3)]);
        let paths = network.status(1 - host).paths;
        assert_eq!(paths.len(), 1);
        assert_eq!(paths[0].address.remote, address(host, 3));
        assert_eq!(paths[0].state, PathState::Active);
    }
}

#[test]
fn the_sides_take_turns_in_changing_their_only_address() {
    let mut network = network(plain());
    let mut changes = vec![(SERVER, 1, 2), (CLIENT, 0, 1), (SERVER, 0, 1)];
    let mut next_change = 100;
    network.transfer_while(1000, 1000, |network, received| {
        if received >= next_change
            && let Some((host, from, to)) = changes.pop()
        {
            renumber(network, host, from, to);
            next_change += 250;
        }
    });
    assert!(changes.is_empty() && is_up(&network));
}

/// The host asks for its new address, and to have the old one deleted only later.
#[test]
fn an_address_is_added_though_the_one_that_the_peer_knows_is_gone() {
    for host in [CLIENT, SERVER] {
        let mut network = network(plain());
        let (old, new) = (address(host, 0), address(host, 1));
        let mut has_asked = false;
        network.transfer_while(400, 1000, |network, received| {
            if received >= 100 && !has_asked {
                has_asked = true;
                network.lost_addresses.insert(old);
                change(network, host, &[AddressChange::Add(new)]);
            }
        });
        assert!(has_asked && is_up(&network));
        let mut from_new = network.sent.iter().filter(|sent| sent.source == new);
        let first = from_new.next().expect("the peer was asked from there");
        assert_eq!(chunk_types(&first.packet), [ChunkType::ASCONF]);
        change(&mut network, host, &[AddressChange::Delete(old)]);
        network.run_for(Duration::from_secs(60));
        assert_eq!(network.status(host).local_addresses, [new]);
        let paths = network.status(1 - host).paths;
        assert_eq!(paths.len(), 1);
        assert_eq!(paths[0].address.remote, new);
    }
}

#[test]
fn nothing_but_the_asconf_leaves_until_it_is_answered() {
    let mut network = network(plain());
    let begin = network.now;
    let mut asked = None;
    network.transfer_while(400, 1000, |network, received| {
        if received >= 100 && asked.is_none() {
            asked = Some(network.now);
            renumber(network, CLIENT, 0, 1);
        }
    });
    let asked = asked.expect("it was renumbered");
    let answered = network.hosts[CLIENT]
        .events
        .iter()
        .find(|(_, event)| matches!(event, Event::AddressChangeAnswered { .. }))
        .expect("it was answered")
        .0;
    assert!(answered > asked && answered > begin);
    let in_between = network
        .sent
        .iter()
        .filter(|sent| sent.from == CLIENT && sent.time >= asked && sent.time < answered)
        // What left at the same time, but before.
        .skip_while(|sent| !sent.has(ChunkType::ASCONF));
    let mut count = 0;
    for sent in in_between {
        assert_eq!(chunk_types(&sent.packet), [ChunkType::ASCONF]);
        assert_eq!(sent.source, address(CLIENT, 1));
        count += 1;
    }
    assert!(count >= 1);
    let after = network
        .sent
        .iter()
        .filter(|sent| sent.from == CLIENT && sent.time > answered);
    for sent in after {
        assert_eq!(sent.source, address(CLIENT, 1));
    }
}

#[test]
fn nothing_but_heartbeats_goes_to_the_new_address_until_it_is_verified() {
    let mut network = network(plain());
    // The server has data to send, and cannot verify the address for a while.
    renumber(&mut network, CLIENT, 0, 1);
    network.run_for(DELAY * 2);
    let begin = network.now;
    assert_eq!(network.path(SERVER, 1).state, PathState::Unconfirmed);
    network.send(
        SERVER,
        sctp::SendInfo::default(),
        crate::common::message(0, 100),
    );
    network.run_for(Duration::from_secs(5));
    let confirmed = network
        .path_changes(SERVER, begin)
        .into_iter()
        .find(|(_, _, change)| *change == sctp::PathChange::Confirmed)
        .expect("it was verified");
    let confirmed = begin + Duration::from_secs_f64(confirmed.0);
    for sent in network
        .sent
        .iter()
        .filter(|sent| sent.from == SERVER && sent.network == 1)
    {
        if sent.time < confirmed {
            for chunk_type in chunk_types(&sent.packet) {
                assert!(
                    matches!(chunk_type, ChunkType::ASCONF_ACK | ChunkType::HEARTBEAT),
                    "{chunk_type}"
                );
            }
        }
    }
    assert_eq!(network.sent_with(SERVER, ChunkType::DATA, begin).len(), 1);
    assert!(network.status(SERVER).outstanding_bytes == 0);
}

#[test]
fn the_association_survives_loss_of_the_asconf_and_of_its_answer() {
    for seed in 0..50 {
        let mut network = network(plain().association_max_retrans(100));
        network.loss = 0.4;
        network.rng = rand::SeedableRng::seed_from_u64(seed);
        renumber(&mut network, CLIENT, 0, 1);
        network.run_for(Duration::from_secs(600));
        network.loss = 0.0;
        network.run_for(Duration::from_secs(600));
        assert!(is_up(&network), "seed {seed}");
        assert_eq!(
            network.path(SERVER, 1).state,
            PathState::Active,
            "seed {seed}"
        );
        network.transfer(20, 1000, 0, |_| {});
    }
}

#[test]
fn congestion_control_begins_anew_at_a_new_address() {
    let mut network = network(plain());
    network.transfer(500, 1000, 500, |_| {});
    let before = network.path(CLIENT, 0);
    let initial = {
        let fresh = network_status_of_fresh_path();
        assert!(before.cwnd > 2 * fresh, "{} {fresh}", before.cwnd);
        fresh
    };
    renumber(&mut network, CLIENT, 0, 1);
    network.run_for(Duration::from_secs(2));
    // RFC 9260 section 7.2.5.2: the source address is another one.
    assert_eq!(network.path(CLIENT, 0).cwnd, initial);
    assert_eq!(network.path(SERVER, 1).cwnd, initial);
}

fn network_status_of_fresh_path() -> usize {
    network(plain()).path(CLIENT, 0).cwnd
}
