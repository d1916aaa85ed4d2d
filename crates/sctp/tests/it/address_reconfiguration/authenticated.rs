//! ASCONF and ASCONF-ACK are authenticated (RFC 5061 sections 4.1 and 5.2, rule D5).

use std::time::Duration;

use bytes::BytesMut;
use sctp::AddressChange;
use sctp::packet::{ChunkType, Packet, PacketWriter, SequenceNumber};

use super::*;
use crate::common::{CLIENT_PORT, SERVER_PORT, chunk_types};
use crate::multihoming::network::*;

fn network(networks: u8) -> Network {
    let config = plain().extensions("auth,asconf".parse().expect("names"));
    let mut network = Network::with(networks, config.clone(), config);
    network.establish();
    network
}

fn renumber(network: &mut Network, host: usize) {
    let (now, id) = (network.now, network.id(host));
    let changes = [
        AddressChange::Add(address(host, 1)),
        AddressChange::Delete(address(host, 0)),
    ];
    network.hosts[host]
        .endpoint
        .change_addresses(now, id, &changes)
        .expect("they are possible");
    network.collect();
}

/// The latest packet of a host with a chunk of that type.
fn latest(network: &Network, host: usize, chunk_type: ChunkType) -> Bytes {
    let mut sent = network.sent.iter().rev();
    let sent = sent.find(|sent| sent.from == host && sent.has(chunk_type));
    sent.expect("there is one").packet.clone()
}

#[test]
fn both_chunks_are_behind_auth() {
    let mut network = network(1);
    let begin = network.now;
    renumber(&mut network, CLIENT);
    network.run_for(Duration::from_secs(5));
    assert_eq!(
        chunk_types(&latest(&network, CLIENT, ChunkType::ASCONF)),
        [ChunkType::AUTH, ChunkType::ASCONF]
    );
    assert_eq!(
        chunk_types(&latest(&network, SERVER, ChunkType::ASCONF_ACK)),
        [ChunkType::AUTH, ChunkType::ASCONF_ACK, ChunkType::HEARTBEAT]
    );
    assert_eq!(network.status(SERVER).primary, address(CLIENT, 1));
    assert!(network.sent_with(CLIENT, ChunkType::ASCONF, begin).len() == 1);
    network.transfer(100, 1000, 0, |_| {});
}

#[test]
fn an_asconf_without_auth_is_dropped_with_what_follows() {
    let mut network = network(2);
    let tag = {
        let packet = latest(&network, CLIENT, ChunkType::HEARTBEAT_ACK);
        let packet = Packet::read(&packet).expect("a packet");
        packet.header().verification_tag
    };
    let number = SequenceNumber(first_tsn(&network));
    let forged = {
        let mut buffer = BytesMut::new();
        let mut writer = PacketWriter::new(&mut buffer, CLIENT_PORT, SERVER_PORT, tag, 1400);
        writer.chunk(&Chunk::CookieAck).expect("it fits");
        let mut bytes = writer.finish()[..12].to_vec();
        bytes.extend(asconf(number, "10.0.0.1", &[delete(1, "10.0.1.1")]));
        // A HEARTBEAT would be answered.
        bytes.extend([4, 0, 0, 12, 0, 1, 0, 8, 1, 2, 3, 4]);
        sctp::packet::checksum::fill(&mut bytes);
        Bytes::from(bytes)
    };
    let sent = network.sent.len();
    let drops = network.hosts[SERVER].endpoint.statistics().drops;
    for from in [0, 3] {
        network.give(SERVER, path(CLIENT, from), forged.clone());
    }
    assert_eq!(network.sent.len(), sent, "no answer");
    assert_eq!(network.status(SERVER).paths.len(), 2);
    let now = network.hosts[SERVER].endpoint.statistics().drops;
    assert_eq!(now.not_authenticated, drops.not_authenticated + 2);
}

/// The Initial TSN of the client.
fn first_tsn(network: &Network) -> u32 {
    let init = network.sent.iter().find(|sent| sent.has(ChunkType::INIT));
    let packet = init.expect("an INIT").packet.clone();
    match scripted::chunks(&packet)[..] {
        [Chunk::Init(init)] => init.initial_tsn.0,
        _ => panic!("an INIT alone"),
    }
}

#[test]
fn an_asconf_that_is_altered_or_replayed_changes_nothing() {
    let mut network = network(2);
    let (now, id) = (network.now, network.id(CLIENT));
    let endpoint = &mut network.hosts[CLIENT].endpoint;
    endpoint
        .delete_address(now, id, address(CLIENT, 1))
        .expect("it is possible");
    let genuine = endpoint.poll_transmit(now).expect("an ASCONF").packet;
    let mut altered = genuine.to_vec();
    let last = altered.len() - 1;
    // The other address.
    altered[last - 1] ^= 1;
    sctp::packet::checksum::fill(&mut altered);
    network.give(SERVER, path(CLIENT, 1), altered.into());
    assert_eq!(network.status(SERVER).paths.len(), 2);
    assert_eq!(
        network.hosts[SERVER]
            .endpoint
            .statistics()
            .drops
            .not_authentic,
        1
    );

    network.give(SERVER, path(CLIENT, 0), genuine.clone());
    assert_eq!(network.status(SERVER).paths.len(), 1);
    network.run_for(Duration::from_secs(5));
    let endpoint = &mut network.hosts[CLIENT].endpoint;
    endpoint
        .add_address(network.now, id, address(CLIENT, 1))
        .expect("it is possible");
    network.run_for(Duration::from_secs(5));
    assert_eq!(network.status(SERVER).paths.len(), 2);
    network.give(SERVER, path(CLIENT, 0), genuine);
    assert_eq!(network.status(SERVER).paths.len(), 2);
}

#[test]
fn an_answer_to_an_address_that_is_not_added_is_authenticated_too() {
    let mut network = network(1);
    // The server takes no second address.
    let (now, id) = (network.now, network.id(SERVER));
    let few = network.hosts[SERVER].endpoint.config().association.clone();
    let endpoint = &mut network.hosts[SERVER].endpoint;
    endpoint
        .configure(now, id, few.max_peer_addresses(1))
        .expect("it is there");
    renumber(&mut network, CLIENT);
    network.run_for(Duration::from_secs(1));
    let events: Vec<Event> = network.hosts[CLIENT]
        .events
        .iter()
        .map(|(_, event)| event.clone())
        .collect();
    let outcomes = outcomes(&events);
    assert_eq!(outcomes.len(), 2);
    assert!(
        outcomes.iter().all(|(_, outcome)| outcome.is_err()),
        "{outcomes:?}"
    );
    let answer = latest(&network, SERVER, ChunkType::ASCONF_ACK);
    assert_eq!(
        chunk_types(&answer),
        [ChunkType::AUTH, ChunkType::ASCONF_ACK]
    );
    // The association stays where it was.
    network.transfer(20, 1000, 0, |_| {});
}
