//! Where data goes when paths fail and recover (RFC 9260 sections 6.4 and 8.2; RFC 7829).

use std::time::Duration;

use sctp::packet::ChunkType;
use sctp::{
    EndpointConfig, Event, LostCause, PathChange, PathConfig, PathError, PathState, SendError,
    SendInfo,
};

use crate::common::{message, ordered};
use crate::multihoming::network::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn data_goes_to_the_primary_path_and_nowhere_else() {
    let mut network = Network::new(3);
    network.establish();
    let begin = network.now;
    network.transfer(200, 1000, usize::MAX, |_| {});
    let data = network.sent_with(CLIENT, ChunkType::DATA, begin);
    assert!(data.iter().all(|(_, network)| *network == 0));
    let sacks = network.sent_with(SERVER, ChunkType::SACK, begin);
    assert!(sacks.iter().all(|(_, network)| *network == 0));
}

#[test]
fn nothing_is_lost_or_repeated_when_the_primary_path_is_cut_in_the_middle() {
    for quick in [true, false] {
        let config = plain().potentially_failed(quick);
        let mut network = Network::with(2, config.clone(), config);
        network.establish();
        let begin = network.now;
        network.transfer(1000, 1000, 300, |network| network.cut(0));
        assert_eq!(network.path(CLIENT, 0).outstanding_bytes, 0);
        let expected = if quick {
            PathChange::PotentiallyFailed
        } else {
            PathChange::Unreachable
        };
        let changes = network.path_changes(CLIENT, begin);
        let first = changes.first().map(|(_, net, change)| (*net, *change));
        assert_eq!(first, Some((0, expected)));
    }
}

/// When data leaves in which network after the primary was cut, one message a second.
fn failover(config: EndpointConfig, seconds: u64) -> (Network, Vec<(u128, u8)>) {
    let mut network = Network::with(2, config, plain());
    network.establish();
    network.cut(0);
    let begin = network.now;
    for number in 0..seconds {
        network.send(CLIENT, ordered(0), message(number as usize, 100));
        network.run_for(SECOND);
    }
    let data = network.sent_with(CLIENT, ChunkType::DATA, begin);
    (network, data)
}

#[test]
fn the_first_timeout_moves_data_to_the_other_path() {
    let (network, data) = failover(plain(), 8);
    // The first message is lost, times out after RTO.Min and goes to the other path at once, and
    // so does everything after it.
    assert_eq!(data[0], (0, 0));
    let stray = data.iter().filter(|(time, net)| *time > 0 && *net == 0);
    assert_eq!(stray.count(), 0, "{data:?}");
    assert_eq!(data[1].0, 1000);
    let changes = network.path_changes(CLIENT, network.start + 10 * SECOND);
    assert_eq!(changes[0], (1.0, 0, PathChange::PotentiallyFailed));
    assert_eq!(network.path(CLIENT, 1).state, PathState::Active);
}

#[test]
fn without_potentially_failed_paths_new_data_stays_until_the_path_is_inactive() {
    let config = plain().potentially_failed(false).path_max_retrans(2);
    let (network, data) = failover(config, 20);
    // What timed out goes to the other path, new data to the primary for three timeouts.
    let changes = network.path_changes(CLIENT, network.start + 10 * SECOND);
    assert_eq!(changes[0], (7.0, 0, PathChange::Unreachable));
    let (before, after) = data.split_at(5);
    assert_eq!(before, [(0, 0), (1000, 1), (1000, 0), (3000, 1), (3000, 0)]);
    assert!(after.iter().all(|(time, net)| *time >= 7000 && *net == 1));
}

#[test]
fn data_returns_to_the_primary_path_when_it_recovers() {
    let (mut network, _) = failover(plain(), 5);
    assert_eq!(network.path(CLIENT, 0).state, PathState::PotentiallyFailed);
    network.mend(0);
    let begin = network.now;
    network.run_for(20 * SECOND);
    assert_eq!(network.path(CLIENT, 0).state, PathState::Active);
    assert_eq!(network.path(CLIENT, 0).error_count, 0);
    let changes = network.path_changes(CLIENT, begin);
    assert_eq!(changes.len(), 1);
    assert_eq!((changes[0].1, changes[0].2), (0, PathChange::Available));
    let begin = network.now;
    network.send(CLIENT, ordered(0), message(0, 100));
    let data = network.sent_with(CLIENT, ChunkType::DATA, begin);
    assert_eq!(data, [(0, 0)]);
}

#[test]
fn a_potentially_failed_path_is_probed_in_every_rto_until_it_is_inactive() {
    let (mut network, _) = failover(plain(), 2);
    let begin = network.start + 10 * SECOND;
    network.run_for(400 * SECOND);
    let heartbeats: Vec<u128> = network
        .sent_with(CLIENT, ChunkType::HEARTBEAT, begin)
        .into_iter()
        .filter(|(_, net)| *net == 0)
        .map(|(time, _)| time / 1000)
        .collect();
    // RTO doubles from two seconds on: each HEARTBEAT leaves when the one before is overdue. After
    // six errors in all the path is inactive, and HB.interval counts again.
    assert_eq!(heartbeats[..5], [1, 3, 7, 15, 31]);
    assert!(heartbeats[5] >= 31 + 32 + 30);
    let changes = network.path_changes(CLIENT, begin);
    let kinds: Vec<_> = changes.iter().map(|change| (change.1, change.2)).collect();
    assert_eq!(
        kinds,
        [
            (0, PathChange::PotentiallyFailed),
            (0, PathChange::Unreachable)
        ]
    );
    assert_eq!(changes[1].0, 63.0);
}

#[test]
fn a_potentially_failed_path_without_heartbeats_is_not_probed() {
    let config = plain().heartbeats(false);
    let (mut network, _) = failover(config, 3);
    let begin = network.now;
    network.run_for(60 * SECOND);
    let heartbeats = network.sent_with(CLIENT, ChunkType::HEARTBEAT, begin);
    assert_eq!(heartbeats, []);
    assert_eq!(network.path(CLIENT, 0).state, PathState::PotentiallyFailed);
}

#[test]
fn the_user_may_be_kept_ignorant_of_potentially_failed_paths() {
    let config = plain().potentially_failed_events(false);
    let (mut network, data) = failover(config, 5);
    assert!(data.iter().any(|entry| entry.1 == 1));
    network.mend(0);
    network.run_for(20 * SECOND);
    assert_eq!(network.path(CLIENT, 0).state, PathState::Active);
    let changes = network.path_changes(CLIENT, network.start + 10 * SECOND);
    assert_eq!(changes, []);
}

#[test]
fn retransmissions_prove_neither_path() {
    let (network, _) = failover(plain(), 3);
    // The first message arrived by the second path, having been sent on both.
    assert_eq!(network.path(CLIENT, 0).state, PathState::PotentiallyFailed);
    assert!(network.path(CLIENT, 0).error_count >= 1);
}

#[test]
fn of_several_failed_paths_the_one_with_the_fewest_errors_is_used() {
    let mut network = Network::new(2);
    network.establish();
    network.cut(0);
    network.cut(1);
    let begin = network.now;
    network.send(CLIENT, ordered(0), message(0, 100));
    network.run_for(30 * SECOND);
    let data = network.sent_with(CLIENT, ChunkType::DATA, begin);
    let networks: Vec<u8> = data.iter().map(|entry| entry.1).collect();
    assert_eq!(networks[..4], [0, 1, 0, 1]);
}

#[test]
fn a_peer_without_any_path_left_is_given_up() {
    let mut network = Network::new(2);
    network.establish();
    let id = network.id(CLIENT);
    network.cut(0);
    network.cut(1);
    let begin = network.now;
    for number in 0..3 {
        let info = SendInfo {
            context: number,
            ..ordered(number as u16)
        };
        network.send(CLIENT, info, message(number as usize, 100));
    }
    network.run_for(2000 * SECOND);
    let news: Vec<&Event> = network.hosts[CLIENT]
        .events
        .iter()
        .filter(|(time, _)| *time >= begin)
        .map(|(_, event)| event)
        .collect();
    let lost = Event::CommunicationLost {
        id,
        cause: LostCause::TimedOut,
        unsent: 0,
        unacknowledged: 3,
    };
    assert_eq!(news.last(), Some(&&lost));
    let failed: Vec<_> = news[..news.len() - 1]
        .iter()
        .filter_map(|event| match event {
            Event::SendFailed {
                info,
                payload,
                was_sent,
                ..
            } => Some((info.context, payload.clone(), *was_sent)),
            _ => None,
        })
        .collect();
    let expected = [0, 1, 2].map(|number| (number, message(number as usize, 100), true));
    assert_eq!(failed, expected);
    // Both paths became inactive before, and data went on being sent in the dormant state.
    let changes = network.path_changes(CLIENT, begin);
    let inactive = changes
        .iter()
        .filter(|change| change.2 == PathChange::Unreachable);
    assert!(inactive.count() <= 2);
}

#[test]
fn in_the_dormant_state_data_still_leaves_and_finds_the_way_back() {
    let config = plain().path_max_retrans(1).association_max_retrans(20);
    let mut network = Network::with(2, config, plain());
    network.establish();
    network.cut(0);
    network.cut(1);
    network.send(CLIENT, ordered(0), message(0, 100));
    network.run_for(30 * SECOND);
    for net in [0, 1] {
        assert_eq!(network.path(CLIENT, net).state, PathState::Inactive);
        assert!(network.path(CLIENT, net).error_count > 1);
    }
    network.mend(1);
    network.run_for(100 * SECOND);
    let status = network.status(CLIENT);
    assert_eq!(status.send_buffer_bytes, 0);
    // Its HEARTBEATs tell that the path is there, as the data proves nothing.
    assert_eq!(network.path(CLIENT, 1).state, PathState::Active);
    assert_eq!(network.path(CLIENT, 0).state, PathState::Inactive);
}

#[test]
fn the_user_chooses_the_primary_path() {
    let mut network = Network::new(2);
    let (id, _) = network.establish();
    let begin = network.now;
    let endpoint = &mut network.hosts[CLIENT].endpoint;
    let set = endpoint.set_primary(begin, id, address(SERVER, 1));
    assert_eq!(set, Ok(()));
    assert_eq!(
        endpoint.set_primary(begin, id, address(SERVER, 3)),
        Err(PathError::UnknownPath)
    );
    network.collect();
    assert_eq!(network.status(CLIENT).primary, address(SERVER, 1));
    let changes = network.path_changes(CLIENT, begin);
    assert_eq!(changes, [(0.0, 1, PathChange::MadePrimary)]);
    network.send(CLIENT, ordered(0), message(0, 100));
    network.run_for(SECOND);
    let data = network.sent_with(CLIENT, ChunkType::DATA, begin);
    assert_eq!(data, [(0, 1)]);
    // The SACK goes to where the data came from.
    let sacks = network.sent_with(SERVER, ChunkType::SACK, begin);
    assert!(!sacks.is_empty() && sacks.iter().all(|(_, net)| *net == 1));
}

#[test]
fn the_user_sends_a_message_to_another_path() {
    let mut network = Network::new(2);
    let (id, _) = network.establish();
    let begin = network.now;
    let elsewhere = SendInfo {
        path: Some(address(SERVER, 1)),
        ..ordered(0)
    };
    let unknown = SendInfo {
        path: Some(address(SERVER, 3)),
        ..ordered(0)
    };
    let endpoint = &mut network.hosts[CLIENT].endpoint;
    for info in [ordered(0), elsewhere, ordered(0)] {
        endpoint.send(begin, id, info, message(0, 100)).unwrap();
    }
    assert_eq!(
        endpoint.send(begin, id, unknown, message(0, 100)),
        Err(SendError::UnknownPath)
    );
    network.run_for(SECOND);
    let data = network.sent_with(CLIENT, ChunkType::DATA, begin);
    assert_eq!(data, [(0, 0), (0, 1), (0, 0)]);
    // A path that may have failed is avoided, whatever the user wants.
    network.cut(1);
    network.send(CLIENT, elsewhere, message(0, 100));
    network.run_for(SECOND);
    let begin = network.now;
    network.send(CLIENT, elsewhere, message(0, 100));
    let data = network.sent_with(CLIENT, ChunkType::DATA, begin);
    assert_eq!(data.last(), Some(&(0, 0)));
}

#[test]
fn the_primary_may_be_switched_over_for_good() {
    let config = plain().primary_switchover_max_retrans(Some(0));
    let (mut network, _) = failover(config, 3);
    assert_eq!(network.status(CLIENT).primary, address(SERVER, 1));
    network.mend(0);
    network.run_for(20 * SECOND);
    assert_eq!(network.path(CLIENT, 0).state, PathState::Active);
    let begin = network.now;
    network.send(CLIENT, ordered(0), message(0, 100));
    let data = network.sent_with(CLIENT, ChunkType::DATA, begin);
    assert_eq!(data, [(0, 1)]);
}

#[test]
fn thresholds_and_heartbeats_can_be_set_for_one_path() {
    let mut network = Network::new(2);
    let (id, _) = network.establish();
    let now = network.now;
    let config = PathConfig::default().heartbeats(false).path_max_retrans(0);
    let endpoint = &mut network.hosts[CLIENT].endpoint;
    let configured = endpoint.configure_path(now, id, address(SERVER, 1), config);
    assert_eq!(configured, Ok(()));
    network.run_for(100 * SECOND);
    let heartbeats = network.sent_with(CLIENT, ChunkType::HEARTBEAT, now);
    assert!(heartbeats.len() >= 2 && heartbeats.iter().all(|(_, net)| *net == 0));
    // One asked for goes out all the same, and one error is too many.
    network.cut(1);
    let begin = network.now;
    let endpoint = &mut network.hosts[CLIENT].endpoint;
    let requested = endpoint.request_heartbeat(begin, id, address(SERVER, 1));
    assert_eq!(requested, Ok(()));
    network.run_for(2 * SECOND);
    let changes = network.path_changes(CLIENT, begin);
    assert_eq!(changes, [(1.0, 1, PathChange::Unreachable)]);
    // Back on, it finds out.
    network.mend(1);
    let config = PathConfig::default()
        .heartbeats(true)
        .hb_interval(Duration::from_secs(1));
    let now = network.now;
    let endpoint = &mut network.hosts[CLIENT].endpoint;
    let configured = endpoint.configure_path(now, id, address(SERVER, 1), config);
    assert_eq!(configured, Ok(()));
    network.run_for(5 * SECOND);
    assert_eq!(network.path(CLIENT, 1).state, PathState::Active);
}

#[test]
fn unanswered_heartbeats_count_for_the_peer_on_the_path_in_use_only() {
    let config = plain().association_max_retrans(3).hb_interval(SECOND);
    let mut network = Network::with(2, config, plain());
    network.establish();
    network.cut(1);
    network.run_for(500 * SECOND);
    assert_eq!(network.path(CLIENT, 1).state, PathState::Inactive);
    assert_eq!(network.path(CLIENT, 0).state, PathState::Active);
}

#[test]
fn a_shutdown_goes_round_the_paths() {
    let mut network = Network::new(2);
    let (id, _) = network.establish();
    network.cut(0);
    let now = network.now;
    let shut_down = network.hosts[CLIENT].endpoint.shutdown(now, id);
    assert_eq!(shut_down, Ok(()));
    network.run_for(30 * SECOND);
    for host in [CLIENT, SERVER] {
        let is_over = |(_, event): &_| matches!(event, Event::ShutdownComplete { .. });
        assert!(network.hosts[host].events.iter().any(is_over), "{host}");
    }
    let shutdowns = network.sent_with(CLIENT, ChunkType::SHUTDOWN, now);
    assert_eq!(shutdowns, [(0, 0), (1000, 1)]);
}
