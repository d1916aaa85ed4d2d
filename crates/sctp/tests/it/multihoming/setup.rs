//! Address lists in the handshake (RFC 9260 sections 3.3.2, 5.1.2, 5.2.1, 5.2.2 and 5.2.4).

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::packet::{Cause, Chunk, ChunkType, Init, Packet, Parameter, Parameters, Tsn};
use sctp::{Endpoint, EndpointConfig, Event, PathAddress, PathChange, PathState};

use crate::common::{
    CLIENT_PORT, SERVER_PORT, chunk_types, message, ordered, packet, tag, to_server,
};
use crate::multihoming::network::*;

const SECOND: Duration = Duration::from_secs(1);

/// The addresses in an INIT or INIT ACK, and whether it says which kinds are supported.
fn listed(packet: &[u8]) -> (Vec<IpAddr>, bool) {
    let packet = Packet::read(packet).unwrap();
    let init = match packet.chunks().next() {
        Some(Ok(Chunk::Init(init) | Chunk::InitAck(init))) => init,
        other => panic!("{other:?}"),
    };
    let mut addresses = Vec::new();
    let mut says_kinds = false;
    for parameter in init.parameters {
        match parameter {
            Ok(Parameter::Ipv4Address(address)) => addresses.push(address.into()),
            Ok(Parameter::Ipv6Address(address)) => addresses.push(address.into()),
            Ok(Parameter::SupportedAddressTypes(_)) => says_kinds = true,
            _ => {}
        }
    }
    (addresses, says_kinds)
}

fn own(host: usize, networks: u8) -> Vec<IpAddr> {
    (0..networks).map(|net| address(host, net)).collect()
}

#[test]
fn addresses_are_listed_only_when_there_are_several() {
    for networks in [1, 3] {
        let mut network = Network::new(networks);
        network.connect();
        network.run_for(SECOND);
        let expected = |host| {
            if networks == 1 {
                vec![]
            } else {
                own(host, networks)
            }
        };
        let init = &network.sent[0];
        assert_eq!(listed(&init.packet), (expected(CLIENT), true));
        let init_ack = &network.sent[1];
        assert_eq!(listed(&init_ack.packet), (expected(SERVER), false));
    }
}

#[test]
fn a_peer_that_lists_nothing_has_the_address_of_its_packet_only() {
    let mut network = Network::new(2);
    network.hosts[SERVER].endpoint.set_local_addresses(vec![]);
    network.connect_to(&[0, 1]);
    network.run_for(SECOND);
    let status = network.status(CLIENT);
    assert_eq!(status.paths.len(), 1);
    assert_eq!(status.paths[0].address.remote, address(SERVER, 0));
    assert_eq!(network.status(SERVER).paths.len(), 2);
}

#[test]
fn in_a_collision_the_peers_init_says_which_addresses_it_has() {
    let mut network = Network::new(3);
    // The client thinks that the server is in all networks; it is in the first two.
    let addresses = own(SERVER, 2);
    network.hosts[SERVER]
        .endpoint
        .set_local_addresses(addresses);
    let now = network.now;
    let to = path(CLIENT, 0);
    network.hosts[SERVER]
        .endpoint
        .connect(now, to, CLIENT_PORT)
        .unwrap();
    network.cut(2);
    // Each of the server's addresses is named twice.
    network.connect_to(&[0, 1, 2, 0, 1]);
    network.run_for(10 * SECOND);
    assert_eq!(network.status(CLIENT).paths.len(), 2);
    for net in [0, 1] {
        assert_eq!(network.path(CLIENT, net).state, PathState::Active);
    }
}

#[test]
fn the_init_goes_round_the_addresses_that_the_user_named() {
    let mut network = Network::new(2);
    network.cut(0);
    network.connect_to(&[0, 1]);
    network.run_for(3 * SECOND);
    let inits = network.sent_with(CLIENT, ChunkType::INIT, network.start);
    assert_eq!(inits, [(0, 0), (1000, 1)]);
    let cookies = network.sent_with(CLIENT, ChunkType::COOKIE_ECHO, network.start);
    assert_eq!(cookies, [(1020, 1)]);
    assert_eq!(network.status(CLIENT).primary, address(SERVER, 1));
    assert_eq!(network.path(SERVER, 1).state, PathState::Active);
    assert_eq!(network.path(SERVER, 0).state, PathState::Unconfirmed);
}

#[test]
fn a_connection_to_an_address_of_a_known_peer_is_refused() {
    let mut network = Network::new(2);
    network.establish();
    let now = network.now;
    for net in [0, 1] {
        let to = path(SERVER, net);
        let again = network.hosts[CLIENT].endpoint.connect(now, to, SERVER_PORT);
        assert!(again.is_err());
    }
}

#[test]
fn an_init_ack_from_another_address_that_names_the_first_is_taken() {
    let mut network = Network::new(2);
    network.connect();
    let init = network.sent[0].packet.clone();
    network.cut(0);
    network.give(SERVER, path(CLIENT, 0), init);
    let init_ack = network.sent.last().expect("an INIT ACK").packet.clone();
    network.mend(0);
    network.give(CLIENT, path(SERVER, 1), init_ack);
    network.run_for(10 * SECOND);
    for net in [0, 1] {
        assert_eq!(network.path(CLIENT, net).state, PathState::Active);
    }
    let mut stranger = Network::new(2);
    stranger.connect();
    let init = stranger.sent[0].packet.clone();
    stranger.hosts[SERVER].endpoint.set_local_addresses(vec![]);
    stranger.cut(0);
    stranger.give(SERVER, path(CLIENT, 0), init);
    let init_ack = stranger.sent.last().expect("an INIT ACK").packet.clone();
    stranger.give(CLIENT, path(SERVER, 1), init_ack);
    let drops = stranger.hosts[CLIENT].endpoint.statistics().drops;
    assert_eq!(drops.unknown_path, 1);
}

/// An INIT of the client and the INIT ACK of the server, with nothing on its way.
fn half_open(networks: u8) -> (Network, Bytes) {
    let mut network = Network::new(networks);
    network.connect();
    network.run_for(DELAY);
    network.cut(0);
    network.run_for(DELAY);
    let echo = network.sent.last().expect("a COOKIE ECHO").packet.clone();
    assert_eq!(chunk_types(&echo), [ChunkType::COOKIE_ECHO]);
    network.mend(0);
    (network, echo)
}

#[test]
fn the_cookie_may_come_back_from_another_listed_address() {
    let (mut network, echo) = half_open(2);
    let mark = network.sent.len();
    network.give(SERVER, path(CLIENT, 1), echo.clone());
    let answer = &network.sent[mark];
    assert_eq!(answer.network, 1);
    // That address is not proved by it: the COOKIE ACK takes a HEARTBEAT along.
    assert_eq!(
        chunk_types(&answer.packet),
        [ChunkType::COOKIE_ACK, ChunkType::HEARTBEAT]
    );
    assert_eq!(network.sent.len(), mark + 1, "one packet in answer to one");
    assert_eq!(network.path(SERVER, 0).state, PathState::Active);
    assert_eq!(network.path(SERVER, 1).state, PathState::Unconfirmed);
    network.run_for(5 * SECOND);
    assert_eq!(network.path(SERVER, 1).state, PathState::Active);
}

#[test]
fn the_cookie_comes_back_from_nowhere_else() {
    for networks in [1, 2] {
        let (mut network, echo) = half_open(networks);
        let mark = network.sent.len();
        network.give(SERVER, path(CLIENT, 3), echo);
        assert_eq!(network.sent.len(), mark);
        let endpoint = &network.hosts[SERVER].endpoint;
        assert_eq!(endpoint.statistics().drops.cookie_not_authentic, 1);
        assert_eq!(endpoint.association_count(), 0);
    }
}

#[test]
fn a_repeated_cookie_echo_changes_nothing() {
    let (mut network, echo) = half_open(2);
    for net in [0, 1, 0, 1] {
        network.give(SERVER, path(CLIENT, net), echo.clone());
    }
    network.run_for(5 * SECOND);
    assert_eq!(network.hosts[SERVER].endpoint.association_count(), 1);
    let ups = network.hosts[SERVER]
        .events
        .iter()
        .filter(|(_, event)| matches!(event, Event::CommunicationUp { .. }));
    assert_eq!(ups.count(), 1);
    network.send(CLIENT, ordered(0), message(0, 100));
    network.run_for(SECOND);
    assert_eq!(network.status(CLIENT).send_buffer_bytes, 0);
}

/// The client as it comes back after a crash.
fn restart_client(network: &mut Network, addresses: Vec<IpAddr>) {
    let seed = ChaCha12Rng::seed_from_u64(77).get_seed();
    let mut endpoint = Endpoint::new(CLIENT_PORT, plain(), seed);
    endpoint.set_local_addresses(addresses);
    network.hosts[CLIENT].endpoint = endpoint;
}

#[test]
fn a_restart_is_recognized_by_any_address() {
    for net in [0, 1] {
        let mut network = Network::new(2);
        network.establish();
        let begin = network.now;
        restart_client(&mut network, own(CLIENT, 2));
        network.connect_to(&[net]);
        network.run_for(10 * SECOND);
        let server = &network.hosts[SERVER];
        assert_eq!(server.endpoint.association_count(), 1);
        let restarted = |(_, event): &_| matches!(event, Event::Restart { .. });
        assert!(server.events.iter().any(restarted));
        assert_eq!(network.status(SERVER).primary, address(CLIENT, net));
        // All but the address that the handshake proved are verified anew.
        let changes = network.path_changes(SERVER, begin);
        assert_eq!(changes.len(), 1);
        assert_eq!(
            (changes[0].1, changes[0].2),
            (1 - net, PathChange::Confirmed)
        );
        network.transfer(50, 1000, usize::MAX, |_| {});
    }
}

#[test]
fn a_restart_with_fewer_addresses_takes_the_others_away() {
    let mut network = Network::new(3);
    network.establish();
    let begin = network.now;
    restart_client(&mut network, own(CLIENT, 2));
    network.connect();
    network.run_for(10 * SECOND);
    let changes = network.path_changes(SERVER, begin);
    let kinds: Vec<_> = changes.iter().map(|change| (change.1, change.2)).collect();
    assert_eq!(
        kinds,
        [(2, PathChange::Removed), (1, PathChange::Confirmed)]
    );
    assert_eq!(network.status(SERVER).paths.len(), 2);
    // The address is free for others now.
    let init = init_packet(&Parameters::default());
    network.give(SERVER, path(CLIENT, 2), init);
    let answer = network.sent.last().unwrap();
    assert_eq!(chunk_types(&answer.packet), [ChunkType::INIT_ACK]);
}

/// An INIT from the client's port.
fn init_packet(parameters: &Parameters<'_>) -> Bytes {
    to_server(
        0,
        &[Chunk::Init(Init {
            initiate_tag: 4711,
            a_rwnd: 10_000,
            outbound_streams: 1,
            inbound_streams: 1,
            initial_tsn: Tsn(1),
            parameters: *parameters,
        })],
    )
}

fn parameters(addresses: &[IpAddr]) -> Vec<u8> {
    let mut buffer = sctp::packet::ParameterBuffer::new();
    for address in addresses {
        let IpAddr::V4(address) = address else {
            panic!("there are IPv4 addresses only");
        };
        buffer.push(&Parameter::Ipv4Address(*address)).unwrap();
    }
    buffer.parameters().as_bytes().to_vec()
}

/// The addresses in the ABORT that refuses a restart.
fn refused_addresses(packet: &[u8]) -> Vec<IpAddr> {
    assert_eq!(tag(packet), 4711, "the Initiate Tag");
    let packet = Packet::read(packet).unwrap();
    let Some(Ok(Chunk::Abort(abort))) = packet.chunks().next() else {
        panic!("an ABORT was sent");
    };
    assert!(!abort.tag_reflected);
    let Some(Ok(Cause::RestartWithNewAddresses(addresses))) = abort.causes.iter().next() else {
        panic!("it says why");
    };
    addresses
        .iter()
        .map(|parameter| match parameter {
            Ok(Parameter::Ipv4Address(address)) => address.into(),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_restart_with_new_addresses_is_refused_in_each_state() {
    let mut network = Network::new(2);
    let (client, server) = network.establish();
    let all = parameters(&own(CLIENT, 4));
    let init = init_packet(&Parameters::new(&all));
    let refuses = |network: &mut Network| {
        let before = network.status(SERVER);
        network.give(SERVER, path(CLIENT, 1), init.clone());
        let answer = network.sent.last().unwrap();
        assert_eq!(answer.network, 1);
        assert_eq!(
            refused_addresses(&answer.packet),
            [address(CLIENT, 2), address(CLIENT, 3)]
        );
        assert_eq!(network.status(SERVER), before);
    };
    refuses(&mut network);
    // A new source address is one, too.
    let known = parameters(&own(CLIENT, 2));
    network.give(
        SERVER,
        path(CLIENT, 3),
        init_packet(&Parameters::new(&known)),
    );
    let answer = network.sent.last().unwrap();
    assert_eq!(refused_addresses(&answer.packet), [address(CLIENT, 3)]);
    let drops = network.hosts[SERVER].endpoint.statistics().drops;
    assert_eq!(drops.restart_with_new_addresses, 2);

    // SHUTDOWN-PENDING, SHUTDOWN-SENT and SHUTDOWN-RECEIVED.
    network.cut(0);
    network.cut(1);
    network.send(SERVER, ordered(0), message(0, 10));
    let now = network.now;
    network.hosts[SERVER]
        .endpoint
        .shutdown(now, server)
        .unwrap();
    network.collect();
    refuses(&mut network);
    let mut network = Network::new(2);
    let (_, server) = network.establish();
    network.cut(0);
    network.cut(1);
    let now = network.now;
    network.hosts[SERVER]
        .endpoint
        .shutdown(now, server)
        .unwrap();
    network.collect();
    refuses(&mut network);
    let mut network = Network::new(2);
    network.establish();
    network.cut(0);
    network.send(SERVER, ordered(0), message(0, 10));
    network.mend(0);
    let now = network.now;
    network.hosts[CLIENT]
        .endpoint
        .shutdown(now, client)
        .unwrap();
    network.collect();
    network.run_for(DELAY);
    refuses(&mut network);
}

#[test]
fn an_init_with_a_new_address_is_refused_when_the_cookie_is_echoed() {
    let (mut network, _) = half_open(2);
    let all = parameters(&own(SERVER, 3));
    let init = packet(
        SERVER_PORT,
        CLIENT_PORT,
        0,
        &[Chunk::Init(Init {
            initiate_tag: 4711,
            a_rwnd: 10_000,
            outbound_streams: 1,
            inbound_streams: 1,
            initial_tsn: Tsn(1),
            parameters: Parameters::new(&all),
        })],
    );
    network.give(CLIENT, path(SERVER, 0), init);
    let answer = network.sent.last().unwrap();
    assert_eq!(refused_addresses(&answer.packet), [address(SERVER, 2)]);
    network.run_for(5 * SECOND);
    assert_eq!(network.status(CLIENT).paths.len(), 2);
}

#[test]
fn both_sides_may_open_at_once() {
    for (client_to, server_to) in [(0, 0), (0, 1), (1, 0)] {
        let mut network = Network::new(2);
        let now = network.now;
        let to = path(CLIENT, server_to);
        let connected = network.hosts[SERVER].endpoint.connect(now, to, CLIENT_PORT);
        assert!(connected.is_ok());
        network.connect_to(&[client_to]);
        network.run_for(20 * SECOND);
        for host in [CLIENT, SERVER] {
            assert_eq!(
                network.hosts[host].endpoint.association_count(),
                1,
                "{client_to} {server_to}"
            );
            for net in [0, 1] {
                assert_eq!(network.path(host, net).state, PathState::Active);
            }
        }
        network.transfer(50, 1000, usize::MAX, |_| {});
    }
}

#[test]
fn the_number_of_addresses_is_bounded() {
    let config = plain().max_peer_addresses(2);
    let mut network = Network::with(4, plain(), config);
    network.connect();
    network.run_for(SECOND);
    assert_eq!(network.status(SERVER).paths.len(), 2);
    assert_eq!(
        network.hosts[SERVER].endpoint.statistics().drops.addresses,
        2
    );
    // It tells no more of its own either.
    assert_eq!(network.status(CLIENT).paths.len(), 2);
}

#[test]
fn the_encapsulation_port_is_learnt_for_each_path() {
    let mut network = Network::new(2);
    network.establish();
    network.cut(0);
    network.send(CLIENT, ordered(0), message(0, 10));
    let packet = network.sent.last().unwrap().packet.clone();
    let with_port = |net, port| PathAddress {
        encapsulation_port: Some(port),
        ..path(CLIENT, net)
    };
    network.give(SERVER, with_port(0, 1111), packet.clone());
    network.give(SERVER, with_port(1, 2222), packet);
    let port = |network: &Network, net| network.path(SERVER, net).address.encapsulation_port;
    assert_eq!(port(&network, 0), Some(1111));
    assert_eq!(port(&network, 1), Some(2222));
    assert!(network.path(SERVER, 0).mtu < 1480);
}

/// The sizes of an INIT and of the INIT ACK that it leads to, in bytes of IP packets.
fn amplification(
    source: IpAddr,
    encapsulation_port: Option<u16>,
    addresses: &[IpAddr],
) -> [usize; 2] {
    let seed = ChaCha12Rng::seed_from_u64(1).get_seed();
    let mut server = Endpoint::new(SERVER_PORT, EndpointConfig::default(), seed);
    server.set_local_addresses(addresses.to_vec());
    let now = std::time::Instant::now();
    let from = PathAddress {
        local: None,
        remote: source,
        encapsulation_port,
    };
    let init = init_packet(&Parameters::default());
    let overhead = if source.is_ipv6() { 40 } else { 20 } + encapsulation_port.map_or(0, |_| 8);
    server.handle_packet(now, from, init.clone());
    let answer = server.poll_transmit(now).expect("an INIT ACK");
    assert_eq!(server.poll_transmit(now), None, "one packet for one");
    assert_eq!(server.association_count(), 0);
    [init.len() + overhead, answer.packet.len() + overhead]
}

#[test]
fn prints_the_size_of_the_cookie_and_the_amplification() {
    let seed = ChaCha12Rng::seed_from_u64(1).get_seed();
    let mut server = Endpoint::new(SERVER_PORT, EndpointConfig::default(), seed);
    let now = std::time::Instant::now();
    server.handle_packet(now, path(CLIENT, 0), init_packet(&Parameters::default()));
    let answer = server.poll_transmit(now).expect("an INIT ACK").packet;
    let answer = Packet::read(&answer).unwrap();
    let Some(Ok(Chunk::InitAck(init_ack))) = answer.chunks().next() else {
        panic!("an INIT ACK was sent");
    };
    let cookie = init_ack
        .parameters
        .iter()
        .find_map(|parameter| match parameter {
            Ok(Parameter::StateCookie(cookie)) => Some(cookie.len()),
            _ => None,
        });
    println!("cookie: {} bytes", cookie.expect("a cookie"));
    assert!(cookie.expect("a cookie") <= 44);
    let ipv4 = address(CLIENT, 0);
    let ipv6: IpAddr = "2001:db8::1".parse().unwrap();
    let two = [address(SERVER, 0), address(SERVER, 1)];
    for (name, source, port, addresses) in [
        ("IPv4, raw", ipv4, None, &[][..]),
        ("IPv4, UDP", ipv4, Some(9899), &[]),
        ("IPv6, raw", ipv6, None, &[]),
        ("IPv6, UDP", ipv6, Some(9899), &[]),
        ("IPv4, raw, two addresses listed", ipv4, None, &two),
    ] {
        let [init, init_ack] = amplification(source, port, addresses);
        let factor = init_ack as f64 / init as f64;
        println!("{name}: INIT {init} bytes, INIT ACK {init_ack} bytes, amplification {factor:.2}");
        assert!(factor < 2.3);
    }
}

#[test]
fn work_for_peers_that_are_not_proved_is_bounded_in_each_second() {
    let config = plain()
        .max_inits_per_second(10)
        .max_cookie_echoes_per_second(5);
    let (mut network, echo) = half_open(1);
    let seed = ChaCha12Rng::seed_from_u64(1).get_seed();
    network.hosts[SERVER].endpoint = Endpoint::new(SERVER_PORT, config, seed);
    let mark = network.sent.len();
    for _ in 0..50 {
        network.give(SERVER, path(CLIENT, 0), init_packet(&Parameters::default()));
        network.give(SERVER, path(CLIENT, 0), echo.clone());
    }
    let drops = network.hosts[SERVER].endpoint.statistics().drops;
    assert_eq!(network.sent.len(), mark + 10);
    assert_eq!((drops.init_rate, drops.cookie_rate), (40, 45));
    assert_eq!(drops.cookie_not_authentic, 5);
    network.now += SECOND;
    network.give(SERVER, path(CLIENT, 0), init_packet(&Parameters::default()));
    let answer = network.sent.last().unwrap();
    assert_eq!(chunk_types(&answer.packet), [ChunkType::INIT_ACK]);
}
