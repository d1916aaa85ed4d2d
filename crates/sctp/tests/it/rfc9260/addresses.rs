//! The addresses of a peer (RFC 9260 sections 5.1.2, 5.2.1, 5.2.2 and 5.4; RFC 5062).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use sctp::packet::{
    Abort, Cause, Chunk, ChunkType, CookieEcho, Heartbeat, Init, Packet, Parameter,
    ParameterBuffer, ParameterType, Parameters, Tsn,
};
use sctp::{
    AssociationState, CannotStartCause, Connect, EndpointConfig, Event, IcmpError, IcmpKind,
    PathAddress, PathChange, PathState, Transmit,
};

use crate::common;
use crate::rfc9260::scripted::{
    PEER_PORT, PEER_TAG, Scripted, at, chunks, init, message, packet, peer, push_address, quiet,
    types,
};

/// A second address of the peer.
fn second() -> PathAddress {
    at([198, 51, 100, 9])
}

/// A third one.
fn third() -> PathAddress {
    at([203, 0, 113, 9])
}

fn listing(addresses: &[PathAddress]) -> ParameterBuffer {
    let mut parameters = ParameterBuffer::new();
    for address in addresses {
        push_address(&mut parameters, *address);
    }
    parameters
}

fn init_with(parameters: &ParameterBuffer) -> Init<'_> {
    Init {
        parameters: parameters.parameters(),
        ..init()
    }
}

/// An INIT of a peer that has begun anew.
fn restarting(parameters: &ParameterBuffer) -> Init<'_> {
    Init {
        initiate_tag: 0x5eed,
        initial_tsn: Tsn(7000),
        ..init_with(parameters)
    }
}

/// Quiet, but for the verification of addresses.
fn verifying() -> EndpointConfig {
    quiet()
        .heartbeats(true)
        .hb_interval(Duration::from_secs(3600))
}

fn remotes(scripted: &Scripted) -> BTreeSet<IpAddr> {
    let paths = scripted.status().paths;
    paths.iter().map(|path| path.address.remote).collect()
}

fn set_of(addresses: &[PathAddress]) -> BTreeSet<IpAddr> {
    addresses.iter().map(|address| address.remote).collect()
}

/// The association of a peer whose INIT had these parameters, accepted.
fn accepted(config: EndpointConfig, parameters: &ParameterBuffer) -> Scripted {
    let mut scripted = Scripted::alone(config);
    let cookie = scripted.cookie_for(init_with(parameters));
    scripted.echo(&cookie, &[]);
    scripted
}

/// One that was asked for, whose INIT ACK listed these addresses.
fn connected(config: EndpointConfig, addresses: &[PathAddress]) -> Scripted {
    let mut scripted = Scripted::cookie_wait(config);
    let mut parameters = crate::rfc9260::scripted::cookie_parameter();
    for address in addresses {
        push_address(&mut parameters, *address);
    }
    scripted.give(&[Chunk::InitAck(init_with(&parameters))]);
    scripted.take();
    scripted.give(&[Chunk::CookieAck]);
    scripted
}

#[test]
fn without_a_list_the_source_is_the_only_address() {
    let scripted = accepted(quiet(), &ParameterBuffer::new());
    assert_eq!(remotes(&scripted), set_of(&[peer()]));
    let scripted = connected(quiet(), &[]);
    assert_eq!(remotes(&scripted), set_of(&[peer()]));
}

#[test]
fn all_listed_addresses_and_the_source_are_taken() {
    for list in [
        vec![second(), third()],
        vec![second(), peer(), third(), second()],
    ] {
        let scripted = accepted(quiet(), &listing(&list));
        let all = set_of(&[peer(), second(), third()]);
        assert_eq!(remotes(&scripted), all);
        let scripted = connected(quiet(), &list);
        assert_eq!(remotes(&scripted), all);
    }
}

#[test]
fn only_what_the_user_named_or_the_init_ack_went_to_is_confirmed() {
    let state = |scripted: &Scripted, address| scripted.path(address).state;
    let scripted = accepted(verifying(), &listing(&[second()]));
    assert_eq!(state(&scripted, peer()), PathState::Active);
    assert_eq!(state(&scripted, second()), PathState::Unconfirmed);
    let scripted = connected(verifying(), &[second()]);
    assert_eq!(state(&scripted, peer()), PathState::Active);
    assert_eq!(state(&scripted, second()), PathState::Unconfirmed);
}

/// Where it goes.
fn goes_to(address: PathAddress) -> impl Fn(&(Instant, Transmit)) -> bool {
    move |(_, transmit)| transmit.path.remote == address.remote
}

/// RFC 5062 section 5.3: the owner of a claimed address is left alone as soon as it says that it
/// knows nothing of the association. That says nothing of the peer (section 5.4).
#[test]
fn whose_address_is_claimed_ends_the_attack_by_icmp_or_abort() {
    for by_icmp in [true, false] {
        let config = verifying().hb_interval(Duration::from_secs(1));
        let mut scripted = accepted(config, &listing(&[second()]));
        let mut seen = scripted.watch(Duration::from_secs(2)).into_iter();
        let (_, heartbeat) = seen
            .find(goes_to(second()))
            .expect("its address is to be verified");
        if by_icmp {
            let error = IcmpError {
                path: heartbeat.path,
                kind: IcmpKind::ProtocolUnreachable,
                quoted: heartbeat.packet,
            };
            scripted.endpoint.handle_icmp(scripted.now, error);
        } else {
            let reflected = Chunk::Abort(Abort {
                tag_reflected: true,
                ..Abort::default()
            });
            scripted.give_from(second(), packet(PEER_TAG, &[reflected]));
        }
        assert_eq!(scripted.state(), AssociationState::Established);
        assert!(
            !scripted
                .watch(Duration::from_secs(3600))
                .iter()
                .any(goes_to(second()))
        );
        let unreachable = scripted.events.iter().any(|event| {
            matches!(event, Event::PathStateChanged { path, change, .. }
                if path.remote == second().remote && *change == PathChange::Unreachable)
        });
        assert!(unreachable, "the user hears of it");
    }
}

/// The HEARTBEAT of the user's own wish goes there nevertheless, and its answer counts.
#[test]
fn an_address_that_was_given_up_can_be_confirmed_later() {
    let mut scripted = accepted(verifying(), &listing(&[second()]));
    scripted.take();
    let reflected = Chunk::Abort(Abort {
        tag_reflected: true,
        ..Abort::default()
    });
    scripted.give_from(second(), packet(PEER_TAG, &[reflected]));
    let (now, id) = (scripted.now, scripted.id());
    let endpoint = &mut scripted.endpoint;
    endpoint
        .request_heartbeat(now, id, second().remote)
        .unwrap();
    scripted.answer_heartbeats(Duration::from_millis(10));
    assert_eq!(scripted.path(second()).state, PathState::Active);
    assert_eq!(scripted.path(second()).error_count, 0);
}

#[test]
fn addresses_that_cannot_be_used_are_left_out_without_a_word() {
    let mut parameters = listing(&[
        at([224, 0, 0, 1]),
        at([255, 255, 255, 255]),
        at([0, 0, 0, 0]),
        at([127, 0, 0, 1]),
        second(),
    ]);
    for address in ["::ffff:198.51.100.7", "ff02::1", "::", "2001:db8::9"] {
        let address = Parameter::Ipv6Address(address.parse().unwrap());
        parameters.push(&address).unwrap();
    }
    let mut scripted = Scripted::alone(quiet());
    let local = [[192, 0, 2, 1], [198, 51, 100, 1]].map(IpAddr::from);
    scripted.endpoint.set_local_addresses(local.to_vec());
    let cookie = scripted.cookie_for(init_with(&parameters));
    scripted.echo(&cookie, &[]);
    let answers = scripted.take();
    assert!(!types(&answers).concat().contains(&ChunkType::ERROR));
    assert_eq!(remotes(&scripted), set_of(&[peer(), second()]));
}

#[test]
fn no_more_addresses_are_taken_than_the_bound() {
    let many: Vec<_> = (1..200).map(|number| at([198, 51, 100, number])).collect();
    let config = quiet().max_peer_addresses(5);
    let scripted = accepted(config.clone(), &listing(&many));
    assert_eq!(scripted.status().paths.len(), 5);
    let scripted = connected(config, &many);
    assert_eq!(scripted.status().paths.len(), 5);
}

/// The parameters of the INIT of an endpoint with these addresses.
fn own_parameters(local: &[IpAddr]) -> Vec<(ParameterType, Vec<u8>)> {
    let mut scripted = Scripted::alone(quiet());
    scripted.endpoint.set_local_addresses(local.to_vec());
    scripted
        .endpoint
        .connect(scripted.now, peer(), PEER_PORT)
        .unwrap();
    let packets = scripted.take();
    let [Chunk::Init(init)] = chunks(&packets[0])[..] else {
        panic!("an INIT was sent");
    };
    init.parameters
        .iter()
        .raw()
        .map(|tlv| tlv.unwrap())
        .map(|tlv| (ParameterType(tlv.type_field()), tlv.value().to_vec()))
        .collect()
}

#[test]
fn no_addresses_are_listed_by_default_nor_by_who_has_one() {
    for local in [vec![], vec![IpAddr::from([192, 0, 2, 1])]] {
        let parameters = own_parameters(&local);
        let addresses = [ParameterType::IPV4_ADDRESS, ParameterType::IPV6_ADDRESS];
        assert!(!parameters.iter().any(|(one, _)| addresses.contains(one)));
    }
    let mut scripted = Scripted::alone(quiet());
    scripted.give_packet(packet(0, &[Chunk::Init(init())]));
    let packets = scripted.take();
    let [Chunk::InitAck(answer)] = chunks(&packets[0])[..] else {
        panic!("an INIT ACK was sent");
    };
    let kinds: Vec<_> = answer
        .parameters
        .iter()
        .map(|parameter| parameter.unwrap().parameter_type())
        .collect();
    assert_eq!(kinds, [ParameterType::STATE_COOKIE]);
}

#[test]
fn several_addresses_are_listed_and_never_as_mapped_ones() {
    let mapped = Ipv4Addr::new(203, 0, 113, 1).to_ipv6_mapped();
    let local = [
        IpAddr::from([192, 0, 2, 1]),
        IpAddr::from([198, 51, 100, 1]),
        IpAddr::from(mapped),
    ];
    let parameters = own_parameters(&local);
    let of = |wanted| {
        parameters
            .iter()
            .filter(move |(kind, _)| *kind == wanted)
            .map(|(_, value)| value.clone())
            .collect::<Vec<_>>()
    };
    let ipv4 = of(ParameterType::IPV4_ADDRESS);
    assert!(ipv4.contains(&vec![192, 0, 2, 1]) && ipv4.contains(&vec![198, 51, 100, 1]));
    assert!(of(ParameterType::IPV6_ADDRESS).is_empty());
    for types in of(ParameterType::SUPPORTED_ADDRESS_TYPES) {
        let host_name = ParameterType::HOST_NAME_ADDRESS.to_be_bytes();
        assert!(types.chunks(2).all(|one| one != host_name));
    }
}

#[test]
fn a_family_that_an_init_uses_is_supported_whatever_it_says() {
    // Only IPv6 is said to be supported, and host names; but IPv4 is used.
    let mut parameters = listing(&[second()]);
    let said = [
        ParameterType::HOST_NAME_ADDRESS.to_be_bytes(),
        ParameterType::IPV6_ADDRESS.to_be_bytes(),
    ];
    let said = sctp::packet::TypeList::new(&said);
    parameters
        .push(&Parameter::SupportedAddressTypes(said))
        .unwrap();
    let mut scripted = Scripted::alone(quiet());
    let local = [[192, 0, 2, 1], [198, 51, 100, 1]].map(IpAddr::from);
    scripted.endpoint.set_local_addresses(local.to_vec());
    scripted.give_packet(packet(0, &[Chunk::Init(init_with(&parameters))]));
    let packets = scripted.take();
    let [Chunk::InitAck(answer)] = chunks(&packets[0])[..] else {
        panic!("an INIT ACK was sent");
    };
    let listed = answer
        .parameters
        .iter()
        .filter(|one| matches!(one, Ok(Parameter::Ipv4Address(_))))
        .count();
    assert_eq!(listed, 2);
}

#[test]
fn an_init_belongs_to_the_association_that_any_of_its_addresses_names() {
    // It comes from the second address, and the first one is in its list.
    let mut scripted = Scripted::multi_homed(quiet(), &[second()]);
    let parameters = listing(&[peer()]);
    let init = packet(0, &[Chunk::Init(restarting(&parameters))]);
    scripted.give_from(second(), init);
    let transmits = scripted.transmits();
    let [Chunk::InitAck(answer)] = chunks(&transmits[0].packet)[..] else {
        panic!("an INIT ACK was sent");
    };
    assert_eq!(transmits[0].path.remote, second().remote);
    let cookie = cookie_of(&answer);
    let echo = Chunk::CookieEcho(CookieEcho { cookie: &cookie });
    let echo = packet(answer.initiate_tag, &[echo]);
    scripted.give_from(second(), echo);
    assert!(
        scripted
            .events
            .iter()
            .any(|event| matches!(event, Event::Restart { .. }))
    );
    assert_eq!(scripted.endpoint.association_count(), 1);
}

fn cookie_of(answer: &Init<'_>) -> Vec<u8> {
    answer
        .parameters
        .iter()
        .find_map(|parameter| match parameter {
            Ok(Parameter::StateCookie(cookie)) => Some(cookie.to_vec()),
            _ => None,
        })
        .expect("a cookie")
}

fn assert_refuses_new_address(answers: &[Bytes], added: &[PathAddress]) {
    assert_eq!(types(answers), [[ChunkType::ABORT]]);
    assert_eq!(common::tag(&answers[0]), 0x5eed);
    let [Chunk::Abort(abort)] = chunks(&answers[0])[..] else {
        panic!("an ABORT was sent");
    };
    assert!(!abort.tag_reflected);
    let Some(Ok(Cause::RestartWithNewAddresses(listed))) = abort.causes.iter().next() else {
        panic!("it says why");
    };
    assert_eq!(listed.as_bytes(), listing(added).parameters().as_bytes());
}

#[test]
fn an_init_that_adds_addresses_is_refused_from_cookie_echoed_on() {
    for state in [
        AssociationState::CookieEchoed,
        AssociationState::Established,
        AssociationState::ShutdownPending,
        AssociationState::ShutdownSent,
        AssociationState::ShutdownReceived,
    ] {
        let mut scripted = Scripted::in_state(state);
        let before = scripted.status();
        let parameters = listing(&[peer(), third()]);
        scripted.give_packet(packet(0, &[Chunk::Init(restarting(&parameters))]));
        assert_refuses_new_address(&scripted.take(), &[third()]);
        assert_eq!(scripted.status(), before, "{state:?}");
        // The new address may be the one that it comes from.
        let parameters = listing(&[peer()]);
        let init = packet(0, &[Chunk::Init(restarting(&parameters))]);
        scripted.give_from(third(), init);
        assert_refuses_new_address(&scripted.take(), &[third()]);
        assert_eq!(scripted.status(), before, "{state:?}");
    }
}

#[test]
fn in_cookie_wait_the_init_ack_goes_to_an_address_that_both_named() {
    let mut scripted = Scripted::cookie_wait(quiet());
    let parameters = listing(&[peer()]);
    let init = packet(0, &[Chunk::Init(restarting(&parameters))]);
    scripted.give_from(second(), init);
    let transmits = scripted.transmits();
    assert_eq!(transmits.len(), 1);
    assert_eq!(transmits[0].path.remote, peer().remote);
    assert!(matches!(
        chunks(&transmits[0].packet)[..],
        [Chunk::InitAck(_)]
    ));
}

#[test]
fn a_cookie_comes_back_from_an_address_of_its_init_only() {
    for (from, is_taken) in [(peer(), true), (second(), true), (third(), false)] {
        let mut scripted = Scripted::alone(verifying());
        let parameters = listing(&[second()]);
        let cookie = scripted.cookie_for(init_with(&parameters));
        let echo = Chunk::CookieEcho(CookieEcho { cookie: &cookie });
        let echo = packet(scripted.tag, &[echo]);
        scripted.give_from(from, echo);
        assert_eq!(scripted.endpoint.association_count() == 1, is_taken);
        let transmits = scripted.transmits();
        assert_eq!(transmits.is_empty(), !is_taken);
        if is_taken {
            assert_eq!(
                scripted.path(peer()).state,
                PathState::Active,
                "the INIT ACK's"
            );
            assert_eq!(scripted.path(second()).state, PathState::Unconfirmed);
        }
        for transmit in transmits
            .iter()
            .filter(|one| one.path.remote == second().remote)
        {
            assert_goes_to_unconfirmed(&transmit.packet);
        }
    }
}

/// Checks what may go to an address that is not confirmed.
fn assert_goes_to_unconfirmed(packet: &Bytes) {
    let types = &types(std::slice::from_ref(packet))[0];
    let has_heartbeat = types.contains(&ChunkType::HEARTBEAT);
    for one in types {
        let may = match *one {
            ChunkType::HEARTBEAT | ChunkType::HEARTBEAT_ACK | ChunkType::PAD => true,
            ChunkType::COOKIE_ACK | ChunkType::COOKIE_ECHO => has_heartbeat,
            _ => false,
        };
        assert!(may, "{types:?}");
    }
    for chunk in Packet::read(packet).unwrap().chunks() {
        if let Ok(Chunk::Heartbeat(heartbeat)) = chunk {
            assert!(
                heartbeat.info().is_some_and(|info| info.len() >= 8),
                "a nonce"
            );
        }
    }
}

#[test]
fn an_unconfirmed_address_gets_heartbeats_and_nothing_else() {
    let heartbeat = Chunk::Heartbeat(Heartbeat {
        parameters: Parameters::new(&[0, 1, 0, 8, 1, 2, 3, 4]),
    });
    let from_there: [&[Chunk<'_>]; 5] = [
        &[
            Chunk::Data(message(0, b"first")),
            Chunk::Data(message(5, b"gap")),
        ],
        &[heartbeat],
        &[Chunk::Data(sctp::packet::Data {
            stream: 999,
            ..message(1, b"no such stream")
        })],
        &[Chunk::CookieAck],
        &[heartbeat, Chunk::Data(message(2, b"more"))],
    ];
    let mut scripted = connected(verifying(), &[second()]);
    let mut seen = scripted.transmits();
    for chunks in from_there {
        let packet = packet(scripted.tag, chunks);
        scripted.give_from(second(), packet);
        seen.extend(scripted.transmits());
    }
    // Unknown chunks that ask to be reported.
    let unknown = crate::rfc9260::scripted::raw(scripted.tag, &[0xff, 0, 0, 4]);
    scripted.give_from(second(), unknown);
    // Data that times out again and again has no better place to go.
    scripted.send(0, b"hello");
    for (_, transmit) in scripted.watch(Duration::from_secs(100)) {
        seen.push(transmit);
    }
    let (to_second, to_first): (Vec<_>, Vec<_>) = seen
        .iter()
        .partition(|one| one.path.remote == second().remote);
    assert!(!to_second.is_empty());
    for transmit in to_second {
        assert_goes_to_unconfirmed(&transmit.packet);
    }
    let kinds: Vec<_> = to_first
        .iter()
        .flat_map(|transmit| types(std::slice::from_ref(&transmit.packet)).concat())
        .collect();
    assert!(kinds.contains(&ChunkType::SACK) && kinds.contains(&ChunkType::DATA));
    let id = scripted.id();
    let _ = scripted.endpoint.abort(scripted.now, id, b"");
    for transmit in scripted.transmits() {
        assert_eq!(transmit.path.remote, peer().remote);
    }
}

#[test]
fn a_shutdown_ack_from_an_unconfirmed_address_is_answered_elsewhere() {
    let mut scripted = connected(verifying(), &[second()]);
    let id = scripted.id();
    scripted.endpoint.shutdown(scripted.now, id).unwrap();
    scripted.take();
    let ack = packet(scripted.tag, &[Chunk::ShutdownAck]);
    scripted.give_from(second(), ack);
    let transmits = scripted.transmits();
    assert_eq!(transmits.len(), 1);
    assert_eq!(transmits[0].path.remote, peer().remote);
}

#[test]
fn an_address_is_confirmed_by_its_nonce_alone() {
    let mut scripted = connected(verifying(), &[second()]);
    let seen = scripted.watch(Duration::from_secs(3));
    let transmit = seen
        .iter()
        .map(|(_, transmit)| transmit)
        .find(|transmit| transmit.path.remote == second().remote)
        .expect("it is probed")
        .clone();
    let [Chunk::Heartbeat(heartbeat), ..] = chunks(&transmit.packet)[..] else {
        panic!("by a HEARTBEAT");
    };
    let mut forged = heartbeat.parameters.as_bytes().to_vec();
    let last = forged.len() - 1;
    forged[last] ^= 1;
    let forged = Chunk::HeartbeatAck(Heartbeat {
        parameters: Parameters::new(&forged),
    });
    let forged = packet(scripted.tag, &[forged]);
    scripted.give_from(second(), forged);
    assert_eq!(scripted.path(second()).state, PathState::Unconfirmed);
    // The latest HEARTBEAT is the one that counts.
    let latest = seen
        .iter()
        .map(|(_, transmit)| transmit)
        .rfind(|transmit| transmit.path.remote == second().remote)
        .unwrap();
    assert!(scripted.answer_heartbeat(latest));
    assert_eq!(scripted.path(second()).state, PathState::Active);
    assert!(scripted.events.iter().any(|event| matches!(
        event,
        Event::PathStateChanged { path, change: PathChange::Confirmed, .. }
            if path.remote == second().remote
    )));
}

#[test]
fn verification_goes_on_every_rto_within_hb_max_burst_and_never_ends_the_association() {
    for hb_max_burst in [1, 2] {
        let config = verifying().hb_max_burst(hb_max_burst);
        let silent: Vec<_> = (1..=4).map(|number| at([198, 51, 100, number])).collect();
        let mut scripted = connected(config, &silent);
        let mut probes = Vec::new();
        let mut first = Vec::new();
        for (time, transmit) in scripted.watch(Duration::from_secs(20)) {
            if transmit.path.remote == peer().remote {
                first.push(transmit);
            } else {
                assert_goes_to_unconfirmed(&transmit.packet);
                probes.push(time);
            }
        }
        assert!(probes.len() >= 8, "{}", probes.len());
        let rto = Duration::from_secs(1);
        for (number, start) in probes.iter().enumerate() {
            let within = probes[number..]
                .iter()
                .filter(|time| **time < *start + rto)
                .count();
            assert!(within <= hb_max_burst as usize, "{within} within an RTO");
        }
        // All of them fail, one by one; who answers keeps the association.
        for _ in 0..2000 {
            let seen = scripted.watch(Duration::from_secs(1));
            for (_, transmit) in seen {
                if transmit.path.remote == peer().remote {
                    scripted.answer_heartbeat(&transmit);
                }
            }
        }
        assert_eq!(scripted.state(), AssociationState::Established);
        assert!(
            silent
                .iter()
                .all(|address| scripted.path(*address).error_count > 5)
        );
    }
}

#[test]
fn init_and_cookie_echo_go_round_the_addresses_that_the_user_named() {
    let mut scripted = Scripted::alone(quiet());
    let to = Connect {
        peer: vec![peer(), second()],
        port: PEER_PORT,
        config: None,
    };
    scripted.endpoint.connect_with(scripted.now, to).unwrap();
    let seen = scripted.watch(Duration::from_secs(16));
    let remotes: Vec<_> = seen.iter().map(|(_, one)| one.path.remote).collect();
    assert_eq!(remotes[0], peer().remote, "the primary first");
    assert!(
        remotes.windows(2).all(|pair| pair[0] != pair[1]),
        "{remotes:?}"
    );
    let [Chunk::Init(ours)] = chunks(&seen[0].1.packet)[..] else {
        panic!("an INIT was sent");
    };
    scripted.tag = ours.initiate_tag;
    scripted.tsn = ours.initial_tsn;
    let mut parameters = crate::rfc9260::scripted::cookie_parameter();
    push_address(&mut parameters, second());
    scripted.give(&[Chunk::InitAck(init_with(&parameters))]);
    let seen = scripted.watch(Duration::from_secs(16));
    let remotes: Vec<_> = seen.iter().map(|(_, one)| one.path.remote).collect();
    assert!(remotes.len() >= 3);
    assert!(
        remotes.windows(2).all(|pair| pair[0] != pair[1]),
        "{remotes:?}"
    );
}

/// An INIT on its way to the peer's addresses, over UDP.
fn opening(addresses: &[PathAddress]) -> (Scripted, Transmit) {
    let mut scripted = Scripted::alone(quiet());
    let to = Connect {
        peer: addresses.iter().copied().map(over_udp).collect(),
        port: PEER_PORT,
        config: None,
    };
    scripted.endpoint.connect_with(scripted.now, to).unwrap();
    let first = scripted.transmits().remove(0);
    let [Chunk::Init(ours)] = chunks(&first.packet)[..] else {
        panic!("an INIT was sent");
    };
    scripted.tag = ours.initiate_tag;
    scripted.tsn = ours.initial_tsn;
    (scripted, first)
}

fn over_udp(address: PathAddress) -> PathAddress {
    PathAddress {
        encapsulation_port: Some(9899),
        ..address
    }
}

fn refuse_by_icmp(scripted: &mut Scripted, transmit: &Transmit) {
    let error = IcmpError {
        path: transmit.path,
        kind: IcmpKind::PortUnreachable,
        quoted: transmit.packet.clone(),
    };
    scripted.endpoint.handle_icmp(scripted.now, error);
}

/// Gives an INIT ACK of a peer with both addresses from one of them.
fn give_init_ack_of_both(scripted: &mut Scripted, from: PathAddress) {
    let mut parameters = crate::rfc9260::scripted::cookie_parameter();
    push_address(&mut parameters, peer());
    push_address(&mut parameters, second());
    let init_ack = Chunk::InitAck(init_with(&parameters));
    scripted.give_from(over_udp(from), packet(scripted.tag, &[init_ack]));
}

#[test]
fn an_address_where_nobody_listens_leads_to_the_next_one_at_once() {
    let (mut scripted, first) = opening(&[peer(), second()]);
    assert_eq!(first.path.remote, peer().remote);
    refuse_by_icmp(&mut scripted, &first);
    let next = scripted.transmits();
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].path.remote, second().remote);
    // The one that refused is not tried again, and with the last one the attempt ends.
    let later = scripted.watch(Duration::from_secs(3));
    assert!(!later.is_empty() && later.iter().all(goes_to(second())));
    assert_eq!(scripted.endpoint.association_count(), 1);
    refuse_by_icmp(&mut scripted, &next[0]);
    scripted.transmits();
    assert!(matches!(
        scripted.events.last(),
        Some(Event::CannotStart {
            cause: CannotStartCause::ProtocolUnreachable,
            ..
        })
    ));
}

#[test]
fn a_cookie_echo_that_is_refused_by_icmp_goes_to_the_next_address() {
    let (mut scripted, _) = opening(&[peer(), second()]);
    give_init_ack_of_both(&mut scripted, peer());
    let echo = scripted.transmits().remove(0);
    assert_eq!(echo.path.remote, peer().remote);
    refuse_by_icmp(&mut scripted, &echo);
    let again = scripted.transmits().remove(0);
    assert_eq!(again.path.remote, second().remote);
    let ack = packet(scripted.tag, &[Chunk::CookieAck]);
    scripted.give_from(over_udp(second()), ack);
    assert_eq!(scripted.state(), AssociationState::Established);
    assert_eq!(scripted.status().primary, second().remote);
}

#[test]
fn the_address_that_answers_is_primary_where_the_first_one_does_not() {
    for by_icmp in [true, false] {
        let (mut scripted, first) = opening(&[peer(), second()]);
        if by_icmp {
            refuse_by_icmp(&mut scripted, &first);
        }
        let again = scripted.watch(Duration::from_millis(1500));
        assert!(again.iter().any(goes_to(second())));
        give_init_ack_of_both(&mut scripted, second());
        scripted.transmits();
        let ack = packet(scripted.tag, &[Chunk::CookieAck]);
        scripted.give_from(over_udp(second()), ack);
        assert_eq!(scripted.status().primary, second().remote);
        scripted.send(0, b"hello");
        assert_eq!(scripted.transmits()[0].path.remote, second().remote);
    }
    // Where the first one answers, the user's choice holds.
    let (mut scripted, _) = opening(&[peer(), second()]);
    give_init_ack_of_both(&mut scripted, second());
    scripted.transmits();
    scripted.give(&[Chunk::CookieAck]);
    assert_eq!(scripted.status().primary, peer().remote);
}

#[test]
fn an_address_of_our_own_host_is_not_probed_whether_or_not_it_is_listed() {
    let bridge = at([172, 17, 0, 1]);
    let local = [[192, 0, 2, 1], [198, 51, 100, 1]].map(IpAddr::from);
    for listed in [vec![], vec![local[0]], local.to_vec()] {
        let mut scripted = Scripted::alone(verifying());
        scripted.endpoint.set_local_addresses(listed);
        scripted
            .endpoint
            .set_host_addresses(vec![bridge.remote, local[0], local[1]]);
        let cookie = scripted.cookie_for(init_with(&listing(&[bridge, second()])));
        scripted.echo(&cookie, &[]);
        assert_eq!(remotes(&scripted), set_of(&[peer(), second()]));
        let seen = scripted.watch(Duration::from_secs(60));
        assert!(!seen.iter().any(goes_to(bridge)));
    }
}

#[test]
fn who_claims_an_address_does_not_keep_its_owner_out() {
    // RFC 5062, section 2: a peer claims the second address, and has not proved that it has it.
    let mut scripted = accepted(verifying(), &listing(&[second()]));
    scripted.take();
    let parameters = ParameterBuffer::new();
    let init = packet(0, &[Chunk::Init(restarting(&parameters))]);
    scripted.give_from(second(), init);
    let transmits: Vec<_> = scripted
        .transmits()
        .into_iter()
        .filter(|transmit| types(std::slice::from_ref(&transmit.packet)) == [[ChunkType::INIT_ACK]])
        .collect();
    let [Chunk::InitAck(answer)] = chunks(&transmits[0].packet)[..] else {
        panic!("an INIT ACK was sent");
    };
    let cookie = cookie_of(&answer);
    let echo = Chunk::CookieEcho(CookieEcho { cookie: &cookie });
    let echo = packet(answer.initiate_tag, &[echo]);
    scripted.give_from(second(), echo);
    assert_eq!(
        scripted.endpoint.association_count(),
        2,
        "neither is harmed"
    );
    assert!(
        !scripted
            .events
            .iter()
            .any(|event| matches!(event, Event::Restart { .. }))
    );
}

#[test]
fn addresses_are_verified_though_heartbeats_are_off() {
    let mut scripted = connected(quiet(), &[second()]);
    let seen = scripted.watch(Duration::from_secs(5));
    assert!(!seen.is_empty());
    for (_, transmit) in seen {
        assert_eq!(
            transmit.path.remote,
            second().remote,
            "and nothing else is watched"
        );
        assert_goes_to_unconfirmed(&transmit.packet);
    }
}

/// RFC 6951 sections 5.4 and 5.6.
#[test]
fn encapsulation_begins_and_ends_with_what_comes() {
    let mut scripted = Scripted::connected(quiet());
    let heartbeat: &[u8] = &[4, 0, 0, 12, 0, 1, 0, 8, 1, 2, 3, 4];
    for port in [Some(9899), Some(1234), None, Some(7)] {
        let from = PathAddress {
            encapsulation_port: port,
            ..peer()
        };
        // A wrong tag teaches nothing.
        let wrong = PathAddress {
            encapsulation_port: Some(666),
            ..peer()
        };
        let packet = crate::rfc9260::scripted::raw(scripted.tag ^ 1, heartbeat);
        scripted.give_from(wrong, packet);
        scripted.take();
        let packet = crate::rfc9260::scripted::raw(scripted.tag, heartbeat);
        scripted.give_from(from, packet);
        let transmits = scripted.transmits();
        assert_eq!(transmits[0].path.encapsulation_port, port);
        let expected = if port.is_some() { 1472 } else { 1480 };
        assert_eq!(scripted.status().paths[0].mtu, expected);
    }
}

#[test]
fn our_own_address_is_not_the_peers() {
    let mut scripted = Scripted::alone(quiet());
    scripted
        .endpoint
        .set_local_addresses(vec![[192, 0, 2, 1].into(), [198, 51, 100, 1].into()]);
    let mut parameters = ParameterBuffer::new();
    push_address(&mut parameters, at([198, 51, 100, 1]));
    push_address(&mut parameters, at([198, 51, 100, 9]));
    let cookie = scripted.cookie_for(Init {
        parameters: parameters.parameters(),
        ..init()
    });
    scripted.echo(&cookie, &[]);
    assert_eq!(scripted.status().paths.len(), 2);
}
