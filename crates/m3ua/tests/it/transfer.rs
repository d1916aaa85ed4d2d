//! The way of messages: traffic modes, streams, routing keys, and the gateway between M3UA networks.

use std::collections::BTreeSet;

use m3ua::message::{Destinations, Message, ProtocolData, TrafficMode};
use m3ua::{
    AsId, Config, DropReason, KeySelection, MaskedPointCode, MtpIndication, Network, NetworkId,
    PeerId, PeerRole, Route, ServedBy, SgId, TransferError, Variant, Via,
};

use crate::common::*;

const RC: u32 = 100;

fn single(value: u32) -> MaskedPointCode {
    pc(value).into()
}

/// An SGP with an AS of active ASPs.
fn sgp(mode: TrafficMode, asps: usize) -> (Process, Vec<PeerId>) {
    let mut sgp = Process::new(Config::default());
    let mut config = server(ServedBy::Peers, RC, 10);
    config.traffic_mode = Some(mode);
    let server = sgp.server(config);
    let asps: Vec<PeerId> = (0..asps).map(|_| sgp.peer(PeerRole::Asp)).collect();
    for asp in &asps {
        sgp.member(*asp, server);
        sgp.bring_up(*asp, &[RC]);
    }
    (sgp, asps)
}

/// The ASPs that a message with this SLS goes to.
fn receivers(sgp: &mut Process, sls: u8) -> Vec<PeerId> {
    sgp.engine
        .transfer(NETWORK, message(20, 10, sls, ""))
        .expect("an AS");
    sgp.engine
        .transfer(NETWORK, message(20, 10, sls, ""))
        .expect("an AS");
    sgp.collect();
    let mut receivers = Vec::new();
    while let Some(Message::Data(_)) = sgp.peek() {
        receivers.push(sgp.sent().0);
    }
    let (first, second) = receivers.split_at(receivers.len() / 2);
    assert_eq!(first, second, "the same SLS has the same receivers");
    first.to_vec()
}

#[test]
fn loads_are_shared_by_sls() {
    let (mut sgp, asps) = sgp(TrafficMode::LOADSHARE, 3);
    let before: Vec<_> = (0..16).map(|sls| receivers(&mut sgp, sls)).collect();
    for asp in &asps {
        let count = before.iter().filter(|it| **it == [*asp]).count();
        assert!((5..=6).contains(&count), "{count}");
    }
    // Only the SLS of an ASP that is gone move.
    sgp.lose(asps[1]);
    sgp.forget();
    for (sls, before) in (0..16).zip(before) {
        let now = receivers(&mut sgp, sls);
        assert_eq!(now.len(), 1);
        assert_ne!(now, [asps[1]]);
        if before != [asps[1]] {
            assert_eq!(now, before);
        }
    }
}

#[test]
fn the_last_one_overrides() {
    let (mut sgp, asps) = sgp(TrafficMode::OVERRIDE, 3);
    for sls in 0..16 {
        assert_eq!(receivers(&mut sgp, sls), [asps[2]]);
    }
}

/// Section 4.3.4.3: the first message of each flow after an ASP has become active has a Correlation Id.
#[test]
fn broadcasts_go_to_all_and_are_tagged() {
    let (mut sgp, asps) = sgp(TrafficMode::BROADCAST, 2);
    let mut tags = BTreeSet::new();
    for (sls, is_tagged) in [(1, true), (1, false), (2, true), (2, false), (1, false)] {
        sgp.engine
            .transfer(NETWORK, message(20, 10, sls, ""))
            .expect("an AS");
        sgp.collect();
        let copies = [0, 1].map(|_| sgp.sent());
        assert_eq!([copies[0].0, copies[1].0], asps[..]);
        let [Message::Data(one), Message::Data(two)] = copies.map(|(_, copy)| copy) else {
            panic!("DATA");
        };
        assert_eq!(one, two);
        assert_eq!(one.correlation_id.is_some(), is_tagged);
        if let Some(tag) = one.correlation_id {
            assert!(tags.insert(tag), "unique");
        }
    }
    // Again when another becomes active.
    sgp.take(asps[0], &inactive(&[RC]));
    sgp.take(asps[0], &active(None, &[RC]));
    sgp.forget();
    sgp.engine
        .transfer(NETWORK, message(20, 10, 1, ""))
        .expect("an AS");
    sgp.collect();
    assert!(matches!(sgp.sent().1, Message::Data(it) if it.correlation_id.is_some()));
}

/// Section 1.4.7.
#[test]
fn streams_are_by_sls_and_never_0() {
    let (mut sgp, _) = sgp(TrafficMode::LOADSHARE, 1);
    let mut streams = BTreeSet::new();
    for sls in 0..=255 {
        let of_sls = [0, 1].map(|_| {
            sgp.engine
                .transfer(NETWORK, message(20, 10, sls, ""))
                .expect("an AS");
            sgp.collect();
            sgp.sent_on().1
        });
        assert_eq!(of_sls[0], of_sls[1]);
        streams.insert(of_sls[0]);
    }
    assert_eq!(streams, (1..17).collect());
}

#[test]
fn keys_choose_the_application_server() {
    let mut sgp = Process::new(Config::default());
    let with = |context: u32, change: &dyn Fn(&mut KeySelection)| {
        let mut config = server(ServedBy::Peers, context, 10);
        config.routing_key.iter_mut().for_each(change);
        config
    };
    let configs = [
        with(1, &|_| {}),
        with(2, &|it| it.traffic.service_indicators = vec![3]),
        with(3, &|it| it.traffic.opcs = vec![single(20)]),
        with(4, &|it| {
            it.traffic.service_indicators = vec![5];
            it.traffic.opcs = vec![single(21)];
            it.circuits = Some(0x6161..=0x6262);
        }),
    ];
    for config in configs {
        let context = config.routing_context.expect("a context");
        let server = sgp.server(config);
        let asp = sgp.peer(PeerRole::Asp);
        sgp.member(asp, server);
        sgp.bring_up(asp, &[context]);
    }
    for (opc, user, text, context) in [
        (1, 5, "", 1),
        (1, 3, "", 2),
        (20, 5, "", 3),
        (21, 5, "ab", 4),
        (21, 5, "bc", 1),
    ] {
        let mut message = message(opc, 10, 0, text);
        message.service_indicator = user;
        sgp.engine.transfer(NETWORK, message).expect("an AS");
        sgp.collect();
        let (_, Message::Data(data)) = sgp.sent() else {
            panic!("DATA");
        };
        assert_eq!(data.routing_context, Some(context), "{opc} {user} {text}");
    }
    let nowhere = sgp.engine.transfer(NETWORK, message(1, 11, 0, ""));
    assert_eq!(nowhere, Err(TransferError::NoRoute));
    let mut management = message(1, 10, 0, "");
    management.service_indicator = 0;
    let refused = sgp.engine.transfer(NETWORK, management);
    assert_eq!(refused, Err(TransferError::Management));
    let mut long = message(1, 10, 0, "");
    long.user_data = vec![0; 70_000].into();
    assert_eq!(
        sgp.engine.transfer(NETWORK, long),
        Err(TransferError::TooLong)
    );
}

/// Two networks with the same point codes: each message goes by its Network Appearance (section 1.4.1).
#[test]
fn networks_are_apart() {
    let network = |appearance, variant| Network {
        appearance: Some(appearance),
        variant,
    };
    let mut sgp = Process::new(Config {
        networks: vec![network(1, Variant::Itu), network(2, Variant::Ansi)],
        ..Config::default()
    });
    let asp = sgp.peer(PeerRole::Asp);
    for (number, context) in [(0, 1), (1, 2)] {
        let mut config = server(ServedBy::Peers, context, 10);
        config.network = NetworkId(number);
        let server = sgp.server(config);
        sgp.member(asp, server);
    }
    sgp.bring_up(asp, &[1, 2]);
    for (number, appearance) in [(0, 1), (1, 2)] {
        sgp.engine
            .transfer(NetworkId(number), message(20, 10, 0, ""))
            .expect("an AS");
        sgp.collect();
        let (_, Message::Data(data)) = sgp.sent() else {
            panic!("DATA");
        };
        assert_eq!(data.network_appearance, Some(appearance));
        assert_eq!(data.routing_context, Some(appearance));
        sgp.take(asp, &Message::Data(data));
        let Some(MtpIndication::Transfer { network, .. }) = sgp.primitives.pop() else {
            panic!("MTP-TRANSFER");
        };
        assert_eq!(network, NetworkId(number));
    }
}

/// A gateway between two application servers and an SG with a first and a second choice.
struct Relay {
    process: Process,
    asps: [PeerId; 2],
    sgs: [PeerId; 2],
}

/// AS 1 has point 1, AS 2 has point 2. Points 40 to 47 are reached by the first SG, or else the second.
fn relay() -> Relay {
    let mut process = Process::new(Config {
        relays: true,
        ..Config::default()
    });
    let asps = [1, 2].map(|number| {
        let server = process.server(server(ServedBy::Peers, number, number));
        let asp = process.peer(PeerRole::Asp);
        process.member(asp, server);
        asp
    });
    let own = process.server(server(ServedBy::Us, 9, 9));
    let sgs = [0, 1].map(|number| {
        let sg = process.peer(PeerRole::Sgp);
        process.member(sg, own);
        let route = Route {
            destination: MaskedPointCode {
                mask: 3,
                point_code: pc(40),
            },
            via: Via::Sg(SgId(number)),
            priority: number as u8 + 1,
        };
        process.engine.add_route(NETWORK, route).expect("a route");
        sg
    });
    for sg in sgs {
        process.associate(sg);
        process.take(sg, &up_ack());
        process.take(sg, &active_ack(None, &[9]));
    }
    for (asp, context) in asps.into_iter().zip([1, 2]) {
        process.bring_up(asp, &[context]);
    }
    Relay { process, asps, sgs }
}

/// Whom a message that comes from a peer goes to.
fn relayed(process: &mut Process, from: PeerId, context: u32, message: ProtocolData) -> PeerId {
    process.take(from, &data(Some(context), message.clone()));
    let (to, Message::Data(data)) = process.sent() else {
        panic!("DATA");
    };
    assert_eq!(data.protocol_data, message);
    to
}

#[test]
fn a_gateway_relays_between_application_servers_and_sgs() {
    let Relay {
        mut process,
        asps: [one, two],
        sgs: [first, second],
    } = relay();
    assert_eq!(
        relayed(&mut process, one, 1, message(1, 2, 3, "across")),
        two
    );
    assert_eq!(
        relayed(&mut process, one, 1, message(1, 41, 3, "out")),
        first
    );
    assert_eq!(
        relayed(&mut process, first, 9, message(41, 1, 3, "in")),
        one
    );
    // For ourselves.
    process.take(one, &data(Some(1), message(1, 9, 0, "for us")));
    assert_eq!(process.primitives.len(), 1);
    // The second choice, and never back.
    process.lose(first);
    process.forget();
    assert_eq!(
        relayed(&mut process, one, 1, message(1, 41, 3, "out")),
        second
    );
    process.take(second, &data(Some(9), message(41, 42, 3, "back?")));
    process.expect(&[]);
    assert_eq!(process.engine.statistics().relayed, 4);
    assert_eq!(process.engine.statistics().dropped_in_all(), 1);
}

fn about(context: u32, affected: MaskedPointCode) -> Destinations {
    Destinations {
        network_appearance: None,
        routing_contexts: vec![context],
        affected: vec![affected],
        info: None,
    }
}

#[test]
fn a_gateway_tells_asps_of_destinations() {
    let Relay {
        mut process,
        asps: [one, two],
        sgs: [first, second],
    } = relay();
    // AS 2 is told of AS 1, when that is not only pending but gone.
    process.take(one, &inactive(&[1]));
    process.forget();
    process.wait(std::time::Duration::from_secs(3));
    let duna = |context, affected| Message::Duna(about(context, affected));
    let dava = |context, affected| Message::Dava(about(context, affected));
    process.expect(&[
        (one, notify(m3ua::message::Status::AS_INACTIVE, &[1])),
        (two, duna(2, single(1))),
    ]);
    // A message to it is answered, once in a while (section 3.4.1).
    for _ in 0..3 {
        process.take(two, &data(Some(2), message(2, 1, 0, "")));
    }
    process.expect(&[(two, duna(2, single(1)))]);
    process.take(one, &active(None, &[1]));
    process.expect(&[
        (one, active_ack(None, &[1])),
        (one, notify(m3ua::message::Status::AS_ACTIVE, &[1])),
        (two, dava(2, single(1))),
    ]);
    // What one SG says is not news as long as the other leads there.
    process.take(first, &duna(9, single(41)));
    process.expect(&[]);
    process.take(second, &duna(9, single(41)));
    process.expect(&[(one, duna(1, single(41))), (two, duna(2, single(41)))]);
    process.take(second, &dava(9, single(41)));
    process.expect(&[(one, dava(1, single(41))), (two, dava(2, single(41)))]);
    // An audit asks for the same (section 4.5.3).
    process.take(one, &Message::Daud(about(1, single(41))));
    process.take(one, &Message::Daud(about(1, single(99))));
    process.expect(&[(one, dava(1, single(41))), (one, duna(1, single(99)))]);
}

/// 10,000 application servers, 1,000 of which have an ASP. (`src/engine/key_table.rs` has the steps of a look-up.)
#[test]
fn many_routes_and_asps() {
    let mut process = Process::new(Config::default());
    for context in 0..10_000 {
        process.server(server(ServedBy::Peers, context, context));
    }
    let asps: Vec<PeerId> = (0..1_000)
        .map(|number| {
            let asp = process.peer(PeerRole::Asp);
            process.member(asp, AsId(number));
            process.bring_up(asp, &[]);
            asp
        })
        .collect();
    for (dpc, asp) in (0..).zip(asps) {
        process
            .engine
            .transfer(NETWORK, message(1, dpc, 0, ""))
            .expect("an AS");
        process.collect();
        assert_eq!(process.sent().0, asp);
    }
    let nobody = process.engine.transfer(NETWORK, message(1, 1_000, 0, ""));
    assert_eq!(nobody, Err(TransferError::Unavailable));
}

/// An ASP makes up point codes. Those that lead nowhere are counted together, and those that take a default route have a part of
/// the room: flows to destinations of the configuration are counted one by one.
#[test]
fn flows_to_point_codes_that_are_made_up_are_bounded() {
    const MADE_UP: u32 = 5_000;
    let mut gateway = Process::new(Config {
        relays: true,
        ..Config::default()
    });
    let asps = [1, 2, 3].map(|context| {
        let mut config = server(ServedBy::Peers, context, context);
        if context == 3 {
            // It is found by routes.
            config.routing_key.clear();
        }
        let server = gateway.server(config);
        let asp = gateway.peer(PeerRole::Asp);
        gateway.member(asp, server);
        gateway.bring_up(asp, &[context]);
        asp
    });
    let make_up = |gateway: &mut Process| {
        for number in 0..MADE_UP {
            let message = message(1, 1_000 + number, 0, "");
            gateway.take(asps[0], &data(Some(1), message));
        }
        gateway.forget();
    };
    make_up(&mut gateway);
    let statistics = gateway.engine.statistics();
    assert_eq!(statistics.dropped(DropReason::NoRoute), MADE_UP.into());
    assert_eq!(statistics.other_flows.received, MADE_UP.into());
    assert_eq!(statistics.flows(), []);

    let all = MaskedPointCode {
        mask: 24,
        point_code: pc(0),
    };
    let route = Route {
        destination: all,
        via: Via::As(AsId(2)),
        priority: 0,
    };
    gateway.engine.add_route(NETWORK, route).expect("a way");
    make_up(&mut gateway);
    let relayed = data(Some(1), message(1, 2, 0, ""));
    gateway.take(asps[0], &relayed);
    let statistics = gateway.engine.statistics();
    assert_eq!(statistics.relayed, u64::from(MADE_UP) + 1);
    let flows = statistics.flows();
    assert_eq!(flows.len(), 1_024 + 2);
    let count = |destination| {
        let found = flows
            .iter()
            .find(|(flow, _)| flow.destination == destination);
        found.map(|(_, it)| (it.received, it.sent))
    };
    let rest = u64::from(MADE_UP) - 1_024;
    assert_eq!(count(all), Some((rest, rest)));
    assert_eq!(count(single(2)), Some((1, 1)));
}
