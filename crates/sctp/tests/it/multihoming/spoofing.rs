//! Attackers who say that others' addresses are theirs (RFC 5062; RFC 9260 sections 5.4, 8.5 and 12).

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::packet::{Abort, Chunk, ChunkType, Data, Heartbeat, Parameter, ParameterBuffer};
use sctp::{AssociationState, Endpoint, Event, PathAddress, PathState};

use crate::common::{CLIENT_PORT, chunk_types, message, ordered, tag, to_server};
use crate::multihoming::network::*;

const SECOND: Duration = Duration::from_secs(1);

fn stranger() -> PathAddress {
    PathAddress {
        local: None,
        remote: Ipv4Addr::new(10, 0, 3, 99).into(),
        encapsulation_port: None,
    }
}

#[test]
fn the_right_tag_from_a_strange_address_is_not_enough() {
    let mut network = Network::new(2);
    network.establish();
    network.send(CLIENT, ordered(0), message(0, 10));
    let packet = network.sent.last().unwrap().packet.clone();
    network.run_for(SECOND);
    let before = network.status(SERVER);
    let mark = network.sent.len();
    network.give(SERVER, stranger(), packet.clone());
    let abort = to_server(tag(&packet), &[Chunk::Abort(Abort::default())]);
    network.give(SERVER, stranger(), abort);
    assert_eq!(network.sent.len(), mark, "no answer");
    assert_eq!(network.status(SERVER), before);
    let drops = network.hosts[SERVER].endpoint.statistics().drops;
    assert_eq!(drops.unknown_path, 2);
}

#[test]
fn an_init_that_lists_the_address_of_another_peer_takes_nothing_from_it() {
    let mut network = Network::new(2);
    network.establish();
    let before = network.status(SERVER);
    // The attacker has the same port, and lists the client beside its own address.
    let mut attacker = Endpoint::new(
        CLIENT_PORT,
        plain(),
        ChaCha12Rng::seed_from_u64(5).get_seed(),
    );
    attacker.set_local_addresses(vec![stranger().remote, address(CLIENT, 0)]);
    let now = network.now;
    attacker.connect(now, path(SERVER, 0), 2002).unwrap();
    let init = attacker.poll_transmit(now).unwrap().packet;
    network.give(SERVER, stranger(), init);
    let answer = network.sent.last().unwrap();
    assert_eq!(chunk_types(&answer.packet), [ChunkType::ABORT]);
    assert_eq!(network.status(SERVER), before);
    assert_eq!(network.hosts[SERVER].endpoint.association_count(), 1);
}

/// An association of the attacker with the server, which says that the client's addresses are the
/// attacker's, too. Gives the attacker's endpoint.
fn camped(network: &mut Network) -> Endpoint {
    let mut attacker = Endpoint::new(
        CLIENT_PORT,
        plain(),
        ChaCha12Rng::seed_from_u64(5).get_seed(),
    );
    attacker.set_local_addresses(vec![
        stranger().remote,
        address(CLIENT, 0),
        address(CLIENT, 1),
    ]);
    let now = network.now;
    attacker.connect(now, path(SERVER, 0), 2002).unwrap();
    for _ in 0..2 {
        let packet = attacker.poll_transmit(now).unwrap().packet;
        let mark = network.sent.len();
        network.give(SERVER, stranger(), packet);
        let answer = network.sent[mark].packet.clone();
        attacker.handle_packet(now, path(SERVER, 0), answer);
    }
    assert_eq!(network.hosts[SERVER].endpoint.association_count(), 1);
    attacker
}

#[test]
fn whoever_claims_an_address_does_not_keep_its_owner_out() {
    let mut network = Network::new(2);
    // So that the HEARTBEATs to the client do not end the attacker's association.
    network.cut(0);
    network.cut(1);
    camped(&mut network);
    network.mend(0);
    network.mend(1);
    network.connect();
    network.run_for(10 * SECOND);
    assert_eq!(network.path(CLIENT, 0).state, PathState::Active);
    network.transfer(20, 1000, usize::MAX, |_| {});
}

#[test]
fn the_owner_of_a_claimed_address_is_left_alone_after_its_abort() {
    let mut network = Network::new(2);
    camped(&mut network);
    network.run_for(3600 * SECOND);
    // The client knows of nothing, and answers the first HEARTBEAT to each address with an ABORT.
    let heartbeats = network.sent_with(SERVER, ChunkType::HEARTBEAT, network.start);
    let mut networks: Vec<u8> = heartbeats.iter().map(|entry| entry.1).collect();
    networks.sort_unstable();
    networks.retain(|net| *net < 2);
    assert_eq!(networks, [0, 1]);
}

#[test]
fn one_packet_is_all_that_a_claimed_address_gets_in_an_rto() {
    let mut network = Network::new(2);
    network.cut(0);
    network.cut(1);
    camped(&mut network);
    let begin = network.now;
    network.run_for(20 * SECOND);
    let heartbeats = network.sent_with(SERVER, ChunkType::HEARTBEAT, begin);
    for window in heartbeats.windows(2) {
        assert!(window[1].0 - window[0].0 >= 1000, "{heartbeats:?}");
    }
    assert!(heartbeats.len() >= 6);
    let mut networks: Vec<u8> = heartbeats.iter().map(|entry| entry.1).collect();
    networks.sort_unstable();
    networks.dedup();
    assert_eq!(networks, [0, 1], "both in turn");
}

#[test]
fn a_guessed_nonce_proves_nothing() {
    let mut network = Network::new(2);
    network.cut(0);
    network.cut(1);
    let mut attacker = camped(&mut network);
    let now = network.now;
    while attacker.poll_transmit(now).is_some() {}
    let id = loop {
        match attacker.poll_event().expect("it came up") {
            Event::CommunicationUp { id, .. } => break id,
            _ => continue,
        }
    };
    attacker.send(now, id, ordered(0), message(0, 4)).unwrap();
    let server_tag = tag(&attacker.poll_transmit(now).unwrap().packet);
    for index in 0..3_u8 {
        let mut info = [0; 12];
        info[3] = index;
        let mut buffer = ParameterBuffer::new();
        buffer.push(&Parameter::HeartbeatInfo(&info)).unwrap();
        let ack = Chunk::HeartbeatAck(Heartbeat {
            parameters: buffer.parameters(),
        });
        network.give(SERVER, stranger(), to_server(server_tag, &[ack]));
        network.give(SERVER, path(CLIENT, 0), to_server(server_tag, &[ack]));
    }
    for net in [0, 1] {
        assert_eq!(network.path(SERVER, net).state, PathState::Unconfirmed);
    }
}

#[test]
fn data_from_an_unproved_address_is_acknowledged_elsewhere() {
    let mut network = Network::new(2);
    network.cut(1);
    network.connect();
    network.run_for(SECOND);
    network.send(CLIENT, ordered(0), message(0, 10));
    let sent = network.sent.last().unwrap().packet.clone();
    let mark = network.sent.len();
    // As if it came from the other address, with more for which an ERROR is due.
    network.give(SERVER, path(CLIENT, 1), sent.clone());
    let bad_stream = Data {
        stream: 5000,
        beginning: true,
        ending: true,
        immediate: true,
        tsn: crate::common::data_of(std::slice::from_ref(&sent))[0]
            .0
            .next(),
        user_data: b"x",
        ..Data::default()
    };
    let packet = to_server(tag(&sent), &[Chunk::Data(bad_stream)]);
    network.give(SERVER, path(CLIENT, 1), packet);
    network.run_for(SECOND);
    let answers: Vec<&Sent> = network.sent[mark..]
        .iter()
        .filter(|sent| sent.from == SERVER)
        .collect();
    assert!(answers.iter().any(|sent| sent.has(ChunkType::SACK)));
    assert!(answers.iter().any(|sent| sent.has(ChunkType::ERROR)));
    for answer in answers {
        let is_probe = chunk_types(&answer.packet) == [ChunkType::HEARTBEAT];
        assert!(answer.network == 0 || is_probe);
    }
}

#[test]
fn addresses_that_would_make_us_bother_others_are_left_out() {
    let mut network = Network::new(2);
    let odd: Vec<IpAddr> = [
        "127.0.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "0.0.0.0",
        "169.254.1.1",
        "::ffff:10.0.1.1",
        "ff02::1",
        "::1",
    ]
    .iter()
    .map(|address| address.parse().unwrap())
    .collect();
    let mut buffer = ParameterBuffer::new();
    for address in &odd {
        buffer
            .push(&match address {
                IpAddr::V4(address) => Parameter::Ipv4Address(*address),
                IpAddr::V6(address) => Parameter::Ipv6Address(*address),
            })
            .unwrap();
    }
    // The INIT of the client with these addresses in place of its own.
    network.hosts[CLIENT].endpoint.set_local_addresses(vec![]);
    network.connect();
    let init = network.sent[0].packet.clone();
    let read = sctp::packet::Packet::read(&init).unwrap();
    let Some(Ok(Chunk::Init(init))) = read.chunks().next() else {
        panic!("an INIT was sent");
    };
    let changed = Chunk::Init(sctp::packet::Init {
        parameters: buffer.parameters(),
        ..init
    });
    network.cut(0);
    network.give(SERVER, path(CLIENT, 0), to_server(0, &[changed]));
    let init_ack = network.sent.last().unwrap().packet.clone();
    network.mend(0);
    network.give(CLIENT, path(SERVER, 0), init_ack);
    network.run_for(SECOND);
    let status = network.status(SERVER);
    assert_eq!(status.state, AssociationState::Established);
    assert_eq!(status.paths.len(), 1);
    let drops = network.hosts[SERVER].endpoint.statistics().drops;
    assert_eq!(drops.addresses, odd.len() as u64);
}
