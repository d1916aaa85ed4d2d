//! Destinations by several SGs, ranges of them, and what an ASP that becomes active is told (section 4.5).

use std::time::{Duration, Instant};

use m3ua::message::{Destinations, Message, SignallingCongestion};
use m3ua::{
    AsId, Availability, Config, MaskedPointCode, MtpIndication, PeerId, PeerRole, Reachability,
    Route, ServedBy, SgId, Via,
};

use crate::common::*;

const RC: u32 = 100;

fn single(value: u32) -> MaskedPointCode {
    pc(value).into()
}

/// The eight destinations from `value` on.
fn region(value: u32) -> MaskedPointCode {
    MaskedPointCode {
        mask: 3,
        point_code: pc(value),
    }
}

fn about(affected: &[MaskedPointCode]) -> Destinations {
    Destinations {
        network_appearance: None,
        routing_contexts: vec![RC],
        affected: affected.to_vec(),
        info: None,
    }
}

fn duna(affected: &[MaskedPointCode]) -> Message {
    Message::Duna(about(affected))
}

fn dava(affected: &[MaskedPointCode]) -> Message {
    Message::Dava(about(affected))
}

fn drst(affected: &[MaskedPointCode]) -> Message {
    Message::Drst(about(affected))
}

/// An ASP that is active at two SGs, which both lead to the region of 16.
fn asp_with(config: Config) -> (Process, [PeerId; 2]) {
    let mut asp = Process::new(config);
    let server = asp.server(server(ServedBy::Us, RC, 10));
    let sgs = [0, 1].map(|number| {
        let sg = asp.peer(PeerRole::Sgp);
        asp.member(sg, server);
        let route = Route {
            destination: region(16),
            via: Via::Sg(SgId(number)),
            priority: 1,
        };
        asp.engine.add_route(NETWORK, route).expect("a route");
        sg
    });
    for sg in sgs {
        asp.associate(sg);
        asp.take(sg, &up_ack());
        asp.take(sg, &active_ack(None, &[RC]));
    }
    asp.forget();
    (asp, sgs)
}

fn asp() -> (Process, [PeerId; 2]) {
    asp_with(Config::default())
}

/// What the user is told.
fn told(process: &mut Process) -> Vec<(bool, Vec<MaskedPointCode>)> {
    let told = std::mem::take(&mut process.primitives)
        .into_iter()
        .map(|it| match it {
            MtpIndication::Pause { affected, .. } => (false, affected),
            MtpIndication::Resume { affected, .. } => (true, affected),
            other => panic!("{other:?}"),
        });
    told.collect()
}

/// Where a message goes.
fn way(process: &mut Process, destination: u32, sls: u8) -> Option<PeerId> {
    let message = message(10, destination, sls, "");
    process.engine.transfer(NETWORK, message).ok()?;
    process.collect();
    Some(process.sent().0)
}

/// Section 4.5.2.2: the user is told when the last route is gone, and when the first one is back.
#[test]
fn the_user_is_told_of_destinations_not_of_routes() {
    let (mut asp, [one, two]) = asp();
    asp.take(one, &duna(&[single(17)]));
    assert_eq!(told(&mut asp), []);
    assert_eq!(
        [0, 1].map(|sls| way(&mut asp, 17, sls)),
        [Some(two), Some(two)]
    );
    assert_eq!(
        [0, 1].map(|sls| way(&mut asp, 18, sls)),
        [Some(one), Some(two)]
    );
    asp.take(two, &duna(&[single(17)]));
    assert_eq!(told(&mut asp), [(false, vec![single(17)])]);
    assert_eq!(way(&mut asp, 17, 0), None);
    asp.take(one, &dava(&[single(17)]));
    assert_eq!(told(&mut asp), [(true, vec![single(17)])]);
    assert_eq!(way(&mut asp, 17, 1), Some(one));
}

#[test]
fn the_latest_news_of_a_destination_counts() {
    let (mut asp, [one, two]) = asp();
    asp.lose(two);
    asp.forget();
    asp.take(one, &duna(&[region(16)]));
    assert_eq!(told(&mut asp), [(false, vec![region(16)])]);
    asp.take(one, &dava(&[single(17)]));
    assert_eq!(told(&mut asp), [(true, vec![single(17)])]);
    assert_eq!(
        (way(&mut asp, 17, 0), way(&mut asp, 18, 0)),
        (Some(one), None)
    );
    // All of them, whatever was said of one.
    asp.take(one, &duna(&[region(16)]));
    assert_eq!(told(&mut asp), [(false, vec![single(17)])]);
    let network = MaskedPointCode {
        mask: 14,
        point_code: pc(0),
    };
    asp.take(one, &dava(&[network]));
    assert_eq!(told(&mut asp), [(true, vec![region(16)])]);
}

/// Section 3.4.6: another route of the same priority is better, but a restricted one is better than none.
#[test]
fn a_restricted_route_is_the_second_choice() {
    let (mut asp, [one, two]) = asp();
    asp.take(one, &drst(&[single(17)]));
    assert_eq!(
        [0, 1].map(|sls| way(&mut asp, 17, sls)),
        [Some(two), Some(two)]
    );
    asp.lose(two);
    assert_eq!(
        [0, 1].map(|sls| way(&mut asp, 17, sls)),
        [Some(one), Some(one)]
    );
}

#[test]
fn an_sg_that_is_lost_is_no_way() {
    let (mut asp, [one, two]) = asp();
    asp.take(one, &duna(&[single(17)]));
    asp.lose(two);
    assert_eq!(told(&mut asp), [(false, vec![single(17)])]);
    asp.lose(one);
    assert_eq!(told(&mut asp), [(false, vec![region(16)])]);
    // What the SG had said is forgotten when it is back.
    asp.associate(one);
    asp.take(one, &up_ack());
    asp.take(one, &active_ack(None, &[RC]));
    assert_eq!(told(&mut asp), [(true, vec![region(16)])]);
}

#[test]
fn what_is_not_available_is_audited() {
    let second = Duration::from_secs(1);
    let (mut asp, [one, _]) = asp_with(Config {
        t_audit: Some(30 * second),
        ..Config::default()
    });
    let daud = |affected: &[MaskedPointCode]| Message::Daud(about(affected));
    asp.take(one, &duna(&[single(17)]));
    let congestion = SignallingCongestion {
        destinations: about(&[single(18)]),
        concerned: None,
        level: Some(1),
    };
    asp.take(one, &Message::Scon(congestion));
    asp.wait(30 * second);
    asp.expect(&[(one, daud(&[single(17), single(18)]))]);
    // Section 4.5.3: not for the level 0.
    let abated = SignallingCongestion {
        destinations: about(&[single(18)]),
        concerned: None,
        level: Some(0),
    };
    asp.take(one, &Message::Scon(abated));
    asp.wait(30 * second);
    asp.expect(&[(one, daud(&[single(17)]))]);
    asp.take(one, &dava(&[single(17)]));
    asp.wait(300 * second);
    asp.expect(&[]);
}

/// Section 4.5.1: before the acknowledgement, so that it does not send there. Section 4.6: so are MTP restarts told.
#[test]
fn an_asp_that_becomes_active_is_told_what_is_not_available() {
    let mut sgp = Process::new(Config::default());
    let server = sgp.server(server(ServedBy::Peers, RC, 10));
    let asp = sgp.peer(PeerRole::Asp);
    sgp.member(asp, server);
    for (value, availability) in [
        (20, Availability::Unavailable),
        (21, Availability::Restricted),
        (22, Availability::Available),
    ] {
        sgp.engine
            .set_availability(NETWORK, &[single(value)], availability);
    }
    sgp.engine.set_congestion(NETWORK, &[single(22)], Some(3));
    sgp.associate(asp);
    sgp.take(asp, &up());
    sgp.forget();
    sgp.take(asp, &active(None, &[RC]));
    let congestion = SignallingCongestion {
        destinations: about(&[single(22)]),
        concerned: None,
        level: Some(3),
    };
    assert_eq!(sgp.sent(), (asp, duna(&[single(20)])));
    assert_eq!(sgp.sent(), (asp, drst(&[single(21)])));
    assert_eq!(sgp.sent(), (asp, Message::Scon(congestion)));
    assert_eq!(sgp.sent(), (asp, active_ack(None, &[RC])));
    // An ASP that is not active is not told (section 4.3.1).
    sgp.take(asp, &inactive(&[RC]));
    sgp.forget();
    sgp.engine
        .set_availability(NETWORK, &[single(20)], Availability::Available);
    sgp.collect();
    sgp.expect(&[]);
}

#[test]
fn congestion_of_an_asp_is_told_to_the_network_behind_the_sgp() {
    let mut sgp = Process::new(Config::default());
    let server = sgp.server(server(ServedBy::Peers, RC, 10));
    let asp = sgp.peer(PeerRole::Asp);
    sgp.member(asp, server);
    sgp.bring_up(asp, &[RC]);
    let congestion = SignallingCongestion {
        destinations: about(&[single(10)]),
        concerned: Some(pc(20)),
        level: Some(2),
    };
    sgp.take(asp, &Message::Scon(congestion));
    let [MtpIndication::Status { affected, .. }] = &sgp.primitives[..] else {
        panic!("{:?}", sgp.primitives);
    };
    assert_eq!(*affected, [single(10)]);
}

/// Many destinations in a DAUD are answered in few messages.
#[test]
fn audits_of_many_destinations() {
    let mut sgp = Process::new(Config::default());
    let server = sgp.server(server(ServedBy::Peers, RC, 10));
    let asp = sgp.peer(PeerRole::Asp);
    sgp.member(asp, server);
    sgp.bring_up(asp, &[RC]);
    let all: Vec<MaskedPointCode> = (0..10_000).map(single).collect();
    sgp.take(asp, &Message::Daud(about(&all)));
    let mut answers = 0;
    while sgp.peek().is_some() {
        sgp.sent();
        answers += 1;
    }
    assert!(answers < 200, "{answers}");
}

/// A hostile SG does not fill the memory.
#[test]
fn destinations_are_limited() {
    let (mut asp, [one, _]) = asp_with(Config {
        max_destinations: 3,
        ..Config::default()
    });
    for value in 16..24 {
        asp.take(one, &duna(&[single(value)]));
    }
    let by_one = (16..24)
        .filter(|value| way(&mut asp, *value, 0) == Some(one))
        .count();
    assert_eq!(by_one, 5);
    assert_eq!(
        asp.engine.availability(NETWORK, single(16)),
        Availability::Available
    );
    assert_eq!(asp.engine.as_state(AsId(0)), m3ua::AsState::Down);
}

/// What does not fit into the tables is counted.
#[test]
fn states_beyond_the_limit_are_counted() {
    let (mut asp, sgs) = asp_with(Config {
        max_destinations: 2,
        ..Config::default()
    });
    asp.take(sgs[0], &duna(&[single(16), single(17)]));
    assert_eq!(asp.engine.statistics().forgotten, 0);
    asp.take(sgs[0], &duna(&[single(18)]));
    assert_eq!(asp.engine.statistics().forgotten, 1);
    // Of the same ones, and of those that are as their range is, there is news without end.
    asp.take(sgs[0], &duna(&[single(17)]));
    asp.take(sgs[0], &dava(&[single(19)]));
    assert_eq!(asp.engine.statistics().forgotten, 1);
    let scon = Message::Scon(SignallingCongestion {
        destinations: about(&[single(16), single(17), single(18)]),
        concerned: None,
        level: Some(1),
    });
    asp.take(sgs[0], &scon);
    assert_eq!(asp.engine.statistics().forgotten, 2);
    let affected = [single(30), single(31), single(32)];
    asp.engine
        .set_availability(NETWORK, &affected, Availability::Unavailable);
    assert_eq!(asp.engine.statistics().forgotten, 3);
}

/// What was taken down stays as it was, whatever the process learns afterwards.
#[test]
fn reachability_is_that_of_its_time() {
    let (mut asp, [one, two]) = asp();
    let listed = |it: &Reachability| -> Vec<(MaskedPointCode, Availability, usize)> {
        let all = it.destinations(NETWORK).into_iter();
        all.map(|it| (it.range, it.availability, it.routes.len()))
            .collect()
    };
    let before = asp.engine.reachability();
    asp.take(one, &duna(&[region(16)]));
    asp.take(two, &drst(&[region(16)]));
    let route = Route {
        destination: single(1),
        via: Via::Sg(SgId(0)),
        priority: 1,
    };
    asp.engine.add_route(NETWORK, route).expect("a route");
    let after = asp.engine.reachability();
    asp.lose(one);
    asp.lose(two);
    let (available, restricted) = (Availability::Available, Availability::Restricted);
    assert_eq!(listed(&before), [(region(16), available, 2)]);
    assert_eq!(
        listed(&after),
        [(single(1), available, 1), (region(16), restricted, 2)]
    );
    let lost = listed(&asp.engine.reachability());
    assert!(
        lost.iter()
            .all(|(_, it, _)| *it == Availability::Unavailable)
    );
}

/// How long messages with so many ranges take, each with a destination of as many.
fn time_of_ranges(count: u32) -> Duration {
    const FIRST: u32 = 1 << 20;
    let (mut asp, [one, two]) = asp();
    for number in 0..count {
        let route = Route {
            destination: single(FIRST + 4 * number),
            via: Via::Sg(SgId(number as usize % 2)),
            priority: 1,
        };
        asp.engine.add_route(NETWORK, route).expect("a route");
    }
    let ranges: Vec<MaskedPointCode> = (0..count)
        .map(|number| MaskedPointCode {
            mask: 2,
            point_code: pc(FIRST + 4 * number),
        })
        .collect();
    let begun = Instant::now();
    for sg in [one, two] {
        asp.take(sg, &duna(&ranges));
        asp.take(sg, &dava(&ranges));
        asp.take(sg, &duna(&vec![region(FIRST); count as usize]));
    }
    begun.elapsed()
}

/// However many ranges a message has, each finds the destinations inside without a look at all others: eight times as many
/// take about eight times as long, not 64 times. A machine that has something else to do may spoil some of the trials.
#[test]
fn a_long_list_of_ranges_is_handled_soon() {
    let mut trials = (0..10).map(|_| (time_of_ranges(2_000), time_of_ranges(16_000)));
    assert!(trials.any(|(few, many)| many < few * 24));
}

/// Where there is no room for another destination, the level of one that is known can still change.
#[test]
fn a_level_of_congestion_changes_where_there_is_no_room() {
    let (mut asp, [one, _]) = asp_with(Config {
        max_destinations: 1,
        ..Config::default()
    });
    let mut congest = |destination, level| {
        let congestion = SignallingCongestion {
            destinations: about(&[single(destination)]),
            concerned: None,
            level: Some(level),
        };
        asp.take(one, &Message::Scon(congestion));
        let statistics = asp.engine.statistics();
        (asp.engine.congested_destinations(), statistics.forgotten)
    };
    assert_eq!(congest(17, 1), (1, 0));
    assert_eq!(congest(17, 2), (1, 0));
    assert_eq!(congest(18, 1), (1, 1));
    assert_eq!(congest(17, 0), (0, 1));
}
