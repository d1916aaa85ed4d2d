//! Two endpoints whose addresses change.

use std::time::Duration;

use sctp::packet::ChunkType;
use sctp::{AddressChange, LocalAddressState, PathChange, PathState, SendInfo};

use super::{outcomes, with_asconf};
use crate::common::message;
use crate::multihoming::network::*;

fn network(networks: u8) -> Network {
    let mut network = Network::with(networks, with_asconf(plain()), with_asconf(plain()));
    network.establish();
    network
}

/// Has a host ask for changes.
fn change(network: &mut Network, host: usize, changes: &[AddressChange]) {
    let (now, id) = (network.now, network.id(host));
    network.hosts[host]
        .endpoint
        .change_addresses(now, id, changes)
        .expect("they are possible");
    network.collect();
}

fn events(network: &Network, host: usize) -> Vec<sctp::Event> {
    let events = network.hosts[host].events.iter();
    events.map(|(_, event)| event.clone()).collect()
}

#[test]
fn an_added_address_is_verified_and_then_carries_data() {
    let mut network = network(2);
    let begin = network.now;
    let added = AddressChange::Add(address(SERVER, 2));
    change(&mut network, SERVER, &[added]);
    network.run_for(DELAY);
    assert_eq!(network.path(CLIENT, 2).state, PathState::Unconfirmed);
    network.run_for(Duration::from_secs(1));
    assert_eq!(outcomes(&events(&network, SERVER)), [(added, Ok(()))]);
    assert_eq!(network.path(CLIENT, 2).state, PathState::Active);
    let changes: Vec<_> = network
        .path_changes(CLIENT, begin)
        .into_iter()
        .map(|(_, network, change)| (network, change))
        .collect();
    assert_eq!(
        changes,
        [(2, PathChange::Added), (2, PathChange::Confirmed)]
    );
    let told = network.status(SERVER).local_addresses;
    assert_eq!(told, [0, 1, 2].map(|net| address(SERVER, net)));

    network.cut(0);
    network.cut(1);
    // The way back goes on.
    network.transfer(20, 1000, 0, |network| network.mend(1));
    assert!(
        network
            .sent_with(CLIENT, ChunkType::DATA, begin)
            .iter()
            .any(|(_, net)| *net == 2)
    );
}

#[test]
fn the_answer_comes_with_the_heartbeat_that_verifies_the_address() {
    let mut network = Network::with(1, with_asconf(plain()), with_asconf(plain()));
    network.establish();
    let begin = network.now;
    let changes = [
        AddressChange::Add(address(CLIENT, 1)),
        AddressChange::Delete(address(CLIENT, 0)),
    ];
    change(&mut network, CLIENT, &changes);
    network.run_for(Duration::from_secs(1));
    let answer = network
        .sent
        .iter()
        .find(|sent| sent.time >= begin && sent.has(ChunkType::ASCONF_ACK))
        .expect("an answer");
    assert_eq!(
        crate::common::chunk_types(&answer.packet),
        [ChunkType::ASCONF_ACK, ChunkType::HEARTBEAT]
    );
    assert_eq!(network.path(SERVER, 1).state, PathState::Active);
}

#[test]
fn changes_that_wait_for_others_do_not_decide_yet_where_packets_come_from() {
    let mut network = network(2);
    let [first, second, third] = [0, 1, 2].map(|net| address(SERVER, net));
    change(&mut network, SERVER, &[AddressChange::Delete(first)]);
    // The peer does not know the third address before this one is sent.
    let replaced = [AddressChange::Add(third), AddressChange::Delete(second)];
    change(&mut network, SERVER, &replaced);
    network.run_for(Duration::from_secs(5));
    let done = [AddressChange::Delete(first), replaced[0], replaced[1]].map(|done| (done, Ok(())));
    assert_eq!(outcomes(&events(&network, SERVER)), done);
    assert_eq!(network.status(SERVER).local_addresses, [third]);
    network.transfer(20, 1000, 0, |_| {});
}

#[test]
fn a_deleted_address_gets_nothing_and_sends_nothing() {
    let mut network = network(2);
    let begin = network.now;
    let gone = address(SERVER, 0);
    let mut received = 0;
    network.transfer(300, 1000, 100, |network| {
        change(network, SERVER, &[AddressChange::Delete(gone)]);
    });
    received += 300;
    assert_eq!(received, 300);
    let deleted = network
        .path_changes(CLIENT, begin)
        .into_iter()
        .find(|(_, _, change)| *change == PathChange::Removed)
        .expect("it was deleted");
    let deleted = begin + Duration::from_secs_f64(deleted.0);
    assert_eq!(network.status(CLIENT).primary, address(SERVER, 1));
    let asked = network
        .sent
        .iter()
        .skip_while(|sent| !sent.has(ChunkType::ASCONF));
    for sent in asked {
        let goes_there = sent.from == CLIENT && sent.network == 0 && sent.time > deleted;
        assert!(!goes_there, "{sent:?}");
        let comes_from_there = sent.from == SERVER && sent.source == gone;
        assert!(!comes_from_there, "{sent:?}");
    }
    assert_eq!(network.status(SERVER).local_addresses, [address(SERVER, 1)]);
    assert_eq!(network.status(CLIENT).paths.len(), 1);
}

#[test]
fn a_path_that_the_user_chose_for_messages_may_be_deleted() {
    let mut network = network(2);
    let info = SendInfo {
        path: Some(address(SERVER, 1)),
        ..SendInfo::default()
    };
    for number in 0..200 {
        network.send(CLIENT, info, message(number, 1000));
    }
    change(
        &mut network,
        SERVER,
        &[AddressChange::Delete(address(SERVER, 1))],
    );
    network.run_for(Duration::from_secs(30));
    let id = network.id(SERVER);
    for number in 0..200 {
        let now = network.now;
        let received = network.hosts[SERVER].endpoint.receive(now, id);
        assert_eq!(received.expect("all arrive").payload, message(number, 1000));
    }
    assert_eq!(network.status(CLIENT).outstanding_bytes, 0);
}

#[test]
fn the_peer_sends_to_the_address_that_is_preferred() {
    let mut network = network(2);
    let begin = network.now;
    let preferred = AddressChange::SetPeerPrimary(address(SERVER, 1));
    change(&mut network, SERVER, &[preferred]);
    network.run_for(Duration::from_secs(1));
    assert_eq!(outcomes(&events(&network, SERVER)), [(preferred, Ok(()))]);
    assert_eq!(network.status(CLIENT).primary, address(SERVER, 1));
    let change = network.path_changes(CLIENT, begin);
    assert!(
        matches!(change[..], [(_, 1, PathChange::MadePrimary)]),
        "{change:?}"
    );
    let begin = network.now;
    network.transfer(20, 1000, 0, |_| {});
    let sent = network.sent_with(CLIENT, ChunkType::DATA, begin);
    assert!(sent.iter().all(|(_, network)| *network == 1), "{sent:?}");
}

#[test]
fn an_address_is_added_and_preferred_with_one_chunk() {
    let mut network = network(2);
    let changes = [
        AddressChange::Add(address(SERVER, 3)),
        AddressChange::SetPeerPrimary(address(SERVER, 3)),
        AddressChange::Delete(address(SERVER, 0)),
    ];
    change(&mut network, SERVER, &changes);
    network.run_for(Duration::from_secs(2));
    assert_eq!(
        outcomes(&events(&network, SERVER)),
        changes.map(|change| (change, Ok(())))
    );
    assert_eq!(network.status(CLIENT).primary, address(SERVER, 3));
    let begin = network.now;
    network.transfer(20, 1000, 0, |_| {});
    let sent = network.sent_with(CLIENT, ChunkType::DATA, begin);
    assert!(sent.iter().all(|(_, network)| *network == 3), "{sent:?}");
}

#[test]
fn both_sides_change_at_the_same_time() {
    let mut network = network(2);
    for host in [CLIENT, SERVER] {
        let changes = [
            AddressChange::Add(address(host, 2)),
            AddressChange::Delete(address(host, 1)),
        ];
        change(&mut network, host, &changes);
    }
    network.run_for(Duration::from_secs(5));
    for host in [CLIENT, SERVER] {
        let mut known: Vec<_> = network.status(host).paths;
        known.sort_by_key(|path| path.address.remote);
        let known: Vec<_> = known.iter().map(|path| path.address.remote).collect();
        assert_eq!(known, [0, 2].map(|net| address(1 - host, net)));
        let id = network.id(host);
        let ours = network.hosts[host].endpoint.local_addresses(id);
        let usable = [0, 2].map(|net| (address(host, net), LocalAddressState::Usable));
        assert_eq!(ours.expect("it is there"), usable);
    }
    network.transfer(50, 1000, 0, |_| {});
}

#[test]
fn an_address_comes_back_after_it_was_deleted() {
    let mut network = network(2);
    for _ in 0..5 {
        change(
            &mut network,
            SERVER,
            &[AddressChange::Delete(address(SERVER, 1))],
        );
        network.run_for(Duration::from_secs(5));
        assert_eq!(network.status(CLIENT).paths.len(), 1);
        change(
            &mut network,
            SERVER,
            &[AddressChange::Add(address(SERVER, 1))],
        );
        network.run_for(Duration::from_secs(5));
        assert_eq!(network.path(CLIENT, 1).state, PathState::Active);
    }
    network.transfer(50, 1000, 0, |_| {});
}

#[test]
fn a_peer_without_the_extension_is_not_asked() {
    let mut network = Network::with(2, with_asconf(plain()), plain());
    network.establish();
    let (now, id) = (network.now, network.id(CLIENT));
    let endpoint = &mut network.hosts[CLIENT].endpoint;
    assert_eq!(
        endpoint.add_address(now, id, address(CLIENT, 2)),
        Err(sctp::AddressChangeError::NotSupported)
    );
    network.run_for(Duration::from_secs(1));
    assert!(network.sent.iter().all(|sent| !sent.has(ChunkType::ASCONF)));
}

#[test]
fn changes_go_on_during_a_shutdown() {
    let mut network = network(2);
    for number in 0..300 {
        network.send(CLIENT, SendInfo::default(), message(number, 1000));
    }
    let (now, id) = (network.now, network.id(CLIENT));
    network.hosts[CLIENT]
        .endpoint
        .shutdown(now, id)
        .expect("it is there");
    // SHUTDOWN-PENDING.
    change(
        &mut network,
        CLIENT,
        &[AddressChange::Delete(address(CLIENT, 0))],
    );
    change(
        &mut network,
        SERVER,
        &[AddressChange::Delete(address(SERVER, 1))],
    );
    network.run_for(Duration::from_secs(2));
    let id = network.id(SERVER);
    let now = network.now;
    while network.hosts[SERVER].endpoint.receive(now, id).is_some() {}
    network.run_for(Duration::from_secs(60));
    for host in [CLIENT, SERVER] {
        let events = events(&network, host);
        assert!(outcomes(&events).iter().all(|(_, outcome)| outcome.is_ok()));
        let is_end = |event: &sctp::Event| matches!(event, sctp::Event::ShutdownComplete { .. });
        assert!(events.iter().any(is_end), "{events:?}");
    }
}
