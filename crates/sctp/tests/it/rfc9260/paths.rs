//! A peer with several paths (RFC 9260 sections 6.4, 7.2 and 8; RFC 7829).

use std::time::Duration;

use sctp::packet::{Chunk, ChunkType};
use sctp::{
    AssociationState, Event, IcmpError, IcmpKind, PathAddress, PathChange, PathError, PathState,
    SendInfo, Transmit,
};

use crate::rfc9260::scripted::{
    PEER_TSN, Scripted, at, chunks, data_in, message, packet, peer, quiet, raw, types,
};

/// The other address of the peer.
fn second() -> PathAddress {
    at([198, 51, 100, 9])
}

fn two_paths() -> Scripted {
    Scripted::multi_homed(quiet(), &[second()])
}

/// The numbers of the DATA chunks that went to an address.
fn data_to(transmits: &[Transmit], address: PathAddress, scripted: &Scripted) -> Vec<u32> {
    let there: Vec<_> = transmits
        .iter()
        .filter(|transmit| transmit.path.remote == address.remote)
        .map(|transmit| transmit.packet.clone())
        .collect();
    data_in(&there, scripted.tsn)
}

fn without_times(seen: Vec<(std::time::Instant, Transmit)>) -> Vec<Transmit> {
    seen.into_iter().map(|(_, transmit)| transmit).collect()
}

fn send_to(scripted: &mut Scripted, address: PathAddress, payload: &[u8]) {
    let info = SendInfo {
        path: Some(address.remote),
        ..SendInfo::default()
    };
    let id = scripted.id();
    let payload = bytes::Bytes::copy_from_slice(payload);
    scripted
        .endpoint
        .send(scripted.now, id, info, payload)
        .unwrap();
}

/// Changes of that path, as the user heard of them.
fn changes(scripted: &Scripted, address: PathAddress) -> Vec<PathChange> {
    scripted
        .events
        .iter()
        .filter_map(|event| match event {
            Event::PathStateChanged { path, change, .. } if path.remote == address.remote => {
                Some(*change)
            }
            _ => None,
        })
        .collect()
}

/// Lets DATA on the primary path go unanswered, once; the path is Potentially Failed then.
fn fail_primary_once(scripted: &mut Scripted) -> Vec<Transmit> {
    scripted.send(0, b"lost");
    assert_eq!(data_to(&scripted.transmits(), peer(), scripted), [0]);
    without_times(scripted.watch(Duration::from_millis(1010)))
}

#[test]
fn data_goes_to_the_primary_path_unless_the_user_says_otherwise() {
    let mut scripted = two_paths();
    scripted.send(0, b"zero");
    send_to(&mut scripted, second(), b"one");
    scripted.send(0, b"two");
    let transmits = scripted.transmits();
    let to_first = data_to(&transmits, peer(), &scripted);
    assert!(to_first.contains(&0));
    assert_eq!(data_to(&transmits, second(), &scripted), [1]);
    scripted.give_sack(3, &[], 100_000);
    scripted
        .endpoint
        .set_primary(scripted.now, scripted.id(), second().remote)
        .unwrap();
    assert_eq!(
        changes(&scripted, second()).last(),
        Some(&PathChange::Confirmed)
    );
    scripted.send(0, b"three");
    let transmits = scripted.transmits();
    assert_eq!(data_to(&transmits, second(), &scripted), [3]);
    assert_eq!(scripted.status().primary, second().remote);
}

#[test]
fn a_sack_goes_to_where_the_data_came_from() {
    let mut scripted = two_paths();
    for (number, from) in [(0, second()), (1, second()), (2, peer()), (3, second())] {
        let data = sctp::packet::Data {
            immediate: true,
            ..message(number, b"hello")
        };
        let data = packet(scripted.tag, &[Chunk::Data(data)]);
        scripted.give_from(from, data);
        let transmits = scripted.transmits();
        assert_eq!(transmits.len(), 1);
        assert_eq!(transmits[0].path.remote, from.remote);
        let sack = crate::rfc9260::scripted::sack_in(&[transmits[0].packet.clone()]);
        assert_eq!(sack.0, PEER_TSN + number);
    }
}

#[test]
fn answers_go_to_where_the_question_came_from() {
    let heartbeat: &[u8] = &[4, 0, 0, 12, 0, 1, 0, 8, 1, 2, 3, 4];
    let unknown: &[u8] = &[0xff, 0, 0, 4];
    for from in [peer(), second()] {
        for (question, answer) in [
            (heartbeat, ChunkType::HEARTBEAT_ACK),
            (unknown, ChunkType::ERROR),
        ] {
            let mut scripted = two_paths();
            let question = raw(scripted.tag, question);
            scripted.give_from(from, question);
            let transmits = scripted.transmits();
            assert_eq!(types(&[transmits[0].packet.clone()]), [[answer]]);
            assert_eq!(transmits[0].path.remote, from.remote);
        }
    }
}

#[test]
fn what_timed_out_goes_to_another_path_and_only_its_own_path_suffers() {
    let mut scripted = two_paths();
    let (first_before, second_before) = (scripted.path(peer()), scripted.path(second()));
    let transmits = fail_primary_once(&mut scripted);
    assert_eq!(data_to(&transmits, second(), &scripted), [0]);
    assert!(data_to(&transmits, peer(), &scripted).is_empty());
    let (first, other) = (scripted.path(peer()), scripted.path(second()));
    assert!(first.rto >= 2 * first_before.rto);
    assert!(first.cwnd < first_before.cwnd && first.outstanding_bytes == 0);
    assert_eq!(
        (first.error_count, first.state),
        (1, PathState::PotentiallyFailed)
    );
    assert_eq!(
        (other.rto, other.cwnd),
        (second_before.rto, second_before.cwnd)
    );
    assert!(other.outstanding_bytes > 0);
    assert_eq!((other.error_count, other.state), (0, PathState::Active));
}

#[test]
fn a_fast_retransmission_goes_to_where_the_original_went() {
    let mut scripted = two_paths();
    for _ in 0..4 {
        send_to(&mut scripted, second(), &[1; 500]);
    }
    assert_eq!(
        data_to(&scripted.transmits(), second(), &scripted),
        [0, 1, 2, 3]
    );
    for last in 1..=3 {
        scripted.give_sack(0, &[(1, last)], 100_000);
    }
    assert_eq!(data_to(&scripted.transmits(), second(), &scripted), [0]);
    assert!(scripted.path(second()).ssthresh < scripted.path(peer()).ssthresh);
}

/// Rule R2 of section 6.3.2: nothing that a T3-rtx could wait for is left there.
#[test]
fn t3_stops_where_all_that_was_lost_goes_elsewhere() {
    let mut scripted = two_paths();
    for _ in 0..4 {
        send_to(&mut scripted, second(), &[1; 500]);
    }
    let sent = scripted.transmits();
    for last in 1..=3 {
        scripted.give_sack(0, &[(1, last)], 100_000);
    }
    // Before the fast retransmission leaves, a router says that it cannot reach the host.
    let error = IcmpError {
        path: second(),
        kind: IcmpKind::Unreachable,
        quoted: sent[0].packet.clone(),
    };
    scripted.endpoint.handle_icmp(scripted.now, error);
    assert_eq!(data_to(&scripted.transmits(), peer(), &scripted), [0]);
    scripted.give_sack(4, &[], 100_000);
    assert_eq!(scripted.path(second()).error_count, 1);
    scripted.watch(Duration::from_millis(1100));
    let errors = scripted.path(second()).error_count;
    assert!(errors <= 2, "its HEARTBEAT, and no T3-rtx: {errors}");
}

#[test]
fn each_path_has_its_own_window_opened_by_its_own_data() {
    let mut scripted = two_paths();
    let before = (scripted.path(peer()).cwnd, scripted.path(second()).cwnd);
    let mut sent = 0;
    for _ in 0..3 {
        for _ in 0..4 {
            send_to(&mut scripted, second(), &[1; 1452]);
        }
        sent += data_to(&scripted.transmits(), second(), &scripted).len() as u32;
        scripted.give_sack(sent, &[], 1_000_000);
        sent += data_to(&scripted.transmits(), second(), &scripted).len() as u32;
        scripted.give_sack(sent, &[], 1_000_000);
    }
    assert_eq!(scripted.path(peer()).cwnd, before.0);
    assert!(scripted.path(second()).cwnd > before.1);
}

#[test]
fn t3_of_each_path_runs_by_itself() {
    let mut scripted = two_paths();
    scripted.send(0, b"to the first path");
    scripted.take();
    let started = scripted.now;
    scripted.now += Duration::from_millis(600);
    scripted
        .endpoint
        .set_primary(scripted.now, scripted.id(), second().remote)
        .unwrap();
    scripted.send(0, b"to the second path");
    let transmits = scripted.transmits();
    assert_eq!(data_to(&transmits, second(), &scripted), [1]);
    let seen = scripted.watch(Duration::from_secs(1));
    let (time, transmit) = seen.first().expect("rule F1: the timer runs on");
    assert_eq!(*time - started, Duration::from_secs(1));
    assert_eq!(
        data_in(std::slice::from_ref(&transmit.packet), scripted.tsn)[0],
        0
    );
}

#[test]
fn data_leaves_a_path_that_may_have_failed_and_comes_back_when_it_answers() {
    let mut scripted = two_paths();
    fail_primary_once(&mut scripted);
    scripted.give_sack(1, &[], 100_000);
    assert_eq!(
        scripted.path(peer()).state,
        PathState::PotentiallyFailed,
        "sent to both paths"
    );
    assert_eq!(scripted.path(peer()).error_count, 1);
    assert_eq!(scripted.status().primary, peer().remote);
    scripted.send(0, b"elsewhere");
    assert_eq!(data_to(&scripted.transmits(), second(), &scripted), [1]);
    // The user insists in vain.
    send_to(&mut scripted, peer(), b"elsewhere, too");
    assert_eq!(data_to(&scripted.transmits(), second(), &scripted), [2]);
    scripted.give_sack(3, &[], 100_000);
    // It is asked, within an RTO, and answers.
    let others = scripted.answer_heartbeats(Duration::from_secs(3));
    assert!(data_to(&others, peer(), &scripted).is_empty());
    assert_eq!(scripted.path(peer()).state, PathState::Active);
    assert_eq!(scripted.path(peer()).error_count, 0);
    scripted.send(0, b"back");
    assert_eq!(data_to(&scripted.transmits(), peer(), &scripted), [3]);
    let told = changes(&scripted, peer());
    assert_eq!(told, [PathChange::PotentiallyFailed, PathChange::Available]);
}

#[test]
fn an_acknowledgement_of_what_went_to_one_path_clears_its_errors() {
    let config = quiet().max_burst(1);
    let mut scripted = Scripted::multi_homed(config, &[second()]);
    for _ in 0..3 {
        scripted.send(0, &[1; 1400]);
    }
    let mut sent = data_to(&scripted.transmits(), peer(), &scripted);
    scripted.give_sack(0, &[], 100_000);
    sent.extend(data_to(&scripted.transmits(), peer(), &scripted));
    assert!(sent.len() >= 2, "{sent:?}");
    let next = scripted.endpoint.next_timeout().unwrap();
    scripted.now = next;
    scripted.endpoint.handle_timeout(next);
    assert_eq!(scripted.path(peer()).state, PathState::PotentiallyFailed);
    // Nothing was sent again yet: the SACK is for what went to the first path alone.
    scripted.give_sack(2, &[], 100_000);
    assert_eq!(scripted.path(peer()).state, PathState::Active);
    assert_eq!(scripted.path(peer()).error_count, 0);
}

#[test]
fn heartbeats_ask_a_path_that_may_have_failed_every_rto_and_not_where_they_are_off() {
    for heartbeats in [true, false] {
        let mut scripted = two_paths();
        if !heartbeats {
            let off = scripted
                .endpoint
                .config()
                .association
                .path
                .heartbeats(false);
            let id = scripted.id();
            scripted
                .endpoint
                .configure_path(scripted.now, id, peer().remote, off)
                .unwrap();
        }
        fail_primary_once(&mut scripted);
        scripted.give_sack(1, &[], 100_000);
        let seen = scripted.watch(Duration::from_secs(10));
        let asked = seen
            .iter()
            .filter(|(_, one)| one.path.remote == peer().remote)
            .filter(|(_, one)| types(std::slice::from_ref(&one.packet)) == [[ChunkType::HEARTBEAT]])
            .count();
        // RTO 2 s, doubled each time; HB.interval is an hour.
        assert_eq!(asked >= 2, heartbeats, "{asked}");
        assert_eq!(asked == 0, !heartbeats, "{asked}");
    }
}

#[test]
fn an_idle_path_that_fails_does_not_end_the_association() {
    let mut scripted = two_paths();
    let often = scripted
        .endpoint
        .config()
        .association
        .path
        .hb_interval(Duration::from_secs(1));
    let id = scripted.id();
    scripted
        .endpoint
        .configure_path(scripted.now, id, second().remote, often)
        .unwrap();
    for _ in 0..3000 {
        for (_, transmit) in scripted.watch(Duration::from_secs(1)) {
            if transmit.path.remote == peer().remote {
                scripted.answer_heartbeat(&transmit);
            }
        }
    }
    assert_eq!(scripted.state(), AssociationState::Established);
    let path = scripted.path(second());
    assert_eq!(path.state, PathState::Inactive);
    assert!(
        path.error_count
            > scripted
                .endpoint
                .config()
                .association
                .association_max_retrans
    );
    assert!(changes(&scripted, second()).contains(&PathChange::Unreachable));
    assert_eq!(scripted.path(peer()).state, PathState::Active);
}

#[test]
fn with_all_paths_failing_the_one_with_fewest_errors_is_used_to_the_end() {
    let config = quiet().association_max_retrans(1000);
    let mut scripted = Scripted::multi_homed(config, &[second()]);
    scripted.send(0, b"nobody hears");
    let mut used = Vec::new();
    for _ in 0..400 {
        let Some(next) = scripted.endpoint.next_timeout() else {
            break;
        };
        scripted.now = next;
        scripted.endpoint.handle_timeout(next);
        let counts = (scripted.path(peer()), scripted.path(second()));
        for transmit in scripted.transmits() {
            if data_in(std::slice::from_ref(&transmit.packet), scripted.tsn).is_empty() {
                continue;
            }
            let is_first = transmit.path.remote == peer().remote;
            let (chosen, before, other) = match is_first {
                true => (peer(), &counts.0, &counts.1),
                false => (second(), &counts.1, &counts.0),
            };
            used.push(before.state);
            assert!(before.error_count <= other.error_count + 1);
            let after = scripted.path(chosen);
            assert_eq!(after.state, before.state);
            assert_eq!(after.error_count, before.error_count);
        }
    }
    let dormant = used
        .iter()
        .filter(|state| **state == PathState::Inactive)
        .count();
    assert!(dormant > 3, "data goes on in the dormant state: {used:?}");
    assert_eq!(scripted.state(), AssociationState::Established);
    // And it recovers from there.
    scripted.give_sack(1, &[], 100_000);
    for _ in 0..100 {
        scripted.answer_heartbeats(Duration::from_secs(60));
    }
    assert_eq!(scripted.path(peer()).state, PathState::Active);
    assert_eq!(scripted.path(second()).state, PathState::Active);
}

#[test]
fn the_primary_path_is_switched_over_only_when_it_is_asked_for() {
    for (limit, expected) in [(None, peer()), (Some(0), second())] {
        let config = quiet().primary_switchover_max_retrans(limit);
        let mut scripted = Scripted::multi_homed(config, &[second()]);
        fail_primary_once(&mut scripted);
        scripted.give_sack(1, &[], 100_000);
        assert_eq!(scripted.status().primary, expected.remote);
        scripted.answer_heartbeats(Duration::from_secs(5));
        assert_eq!(scripted.path(peer()).state, PathState::Active);
        scripted.send(0, b"next");
        assert_eq!(data_to(&scripted.transmits(), expected, &scripted), [1]);
        let told = changes(&scripted, second()).contains(&PathChange::MadePrimary);
        assert_eq!(told, limit.is_some());
    }
}

#[test]
fn the_user_may_be_kept_ignorant_of_potentially_failed_paths() {
    let config = quiet().potentially_failed_events(false);
    let mut scripted = Scripted::multi_homed(config, &[second()]);
    fail_primary_once(&mut scripted);
    scripted.give_sack(1, &[], 100_000);
    scripted.answer_heartbeats(Duration::from_secs(5));
    assert!(changes(&scripted, peer()).is_empty());
}

#[test]
fn without_rfc_7829_a_path_is_used_until_it_is_inactive() {
    let config = quiet().potentially_failed(false);
    let mut scripted = Scripted::multi_homed(config, &[second()]);
    let transmits = fail_primary_once(&mut scripted);
    assert_eq!(data_to(&transmits, second(), &scripted), [0], "section 6.4");
    assert_eq!(scripted.path(peer()).state, PathState::Active);
    scripted.give_sack(1, &[], 100_000);
    scripted.send(0, b"next");
    assert_eq!(data_to(&scripted.transmits(), peer(), &scripted), [1]);
}

#[test]
fn the_user_manages_paths_by_their_addresses() {
    let mut scripted = two_paths();
    let id = scripted.id();
    let now = scripted.now;
    let nobody = at([203, 0, 113, 1]).remote;
    let endpoint = &mut scripted.endpoint;
    assert_eq!(
        endpoint.set_primary(now, id, nobody),
        Err(PathError::UnknownPath)
    );
    assert_eq!(
        endpoint.request_heartbeat(now, id, nobody),
        Err(PathError::UnknownPath)
    );
    let nothing = endpoint.config().association.path;
    assert_eq!(
        endpoint.configure_path(now, id, nobody, nothing),
        Err(PathError::UnknownPath)
    );
    assert_eq!(endpoint.request_heartbeat(now, id, second().remote), Ok(()));
    let transmits = scripted.transmits();
    assert_eq!(transmits.len(), 1);
    assert_eq!(transmits[0].path.remote, second().remote);
    assert_eq!(
        types(&[transmits[0].packet.clone()]),
        [[ChunkType::HEARTBEAT]]
    );
    assert!(scripted.answer_heartbeat(&transmits[0]));
}

#[test]
fn a_failure_threshold_and_heartbeats_are_set_path_by_path() {
    let mut scripted = two_paths();
    let id = scripted.id();
    let impatient = scripted
        .endpoint
        .config()
        .association
        .path
        .hb_interval(Duration::from_secs(2))
        .path_max_retrans(1)
        .potentially_failed_max_retrans(1);
    scripted
        .endpoint
        .configure_path(scripted.now, id, second().remote, impatient)
        .unwrap();
    let mut unanswered = 0;
    while scripted.path(second()).state == PathState::Active {
        for (_, transmit) in scripted.watch(Duration::from_millis(100)) {
            assert_eq!(
                transmit.path.remote,
                second().remote,
                "the other one has an hour"
            );
            unanswered += 1;
        }
        assert!(unanswered < 5);
    }
    assert_eq!(unanswered, 2);
    assert_eq!(scripted.path(second()).state, PathState::Inactive);
}

#[test]
fn messages_are_cut_for_the_path_that_carries_least() {
    let mut scripted = two_paths();
    let id = scripted.id();
    let narrow = scripted
        .endpoint
        .config()
        .association
        .path
        .mtu(600)
        .path_mtu_discovery(false);
    scripted
        .endpoint
        .configure_path(scripted.now, id, second().remote, narrow)
        .unwrap();
    assert!(scripted.path(second()).mtu <= 580);
    scripted.send(0, &[1; 3000]);
    let transmits = scripted.transmits();
    let sizes: Vec<_> = transmits
        .iter()
        .flat_map(|transmit| chunks(&transmit.packet))
        .filter_map(|chunk| match chunk {
            Chunk::Data(data) => Some(data.user_data.len() + 16),
            _ => None,
        })
        .collect();
    assert!(sizes.iter().all(|size| *size <= 568), "{sizes:?}");
    // What times out fits the other path as it is.
    for transmit in without_times(scripted.watch(Duration::from_millis(1010))) {
        assert!(transmit.path.remote != second().remote || transmit.packet.len() <= 580);
        assert!(!transmit.may_fragment);
    }
}

#[test]
fn the_end_of_an_association_is_told_on_a_path_that_works() {
    let mut scripted = two_paths();
    fail_primary_once(&mut scripted);
    scripted.give_sack(1, &[], 100_000);
    let id = scripted.id();
    scripted.endpoint.shutdown(scripted.now, id).unwrap();
    let transmits = scripted.transmits();
    let shutdown = transmits
        .iter()
        .find(|one| {
            types(std::slice::from_ref(&one.packet))
                .concat()
                .contains(&ChunkType::SHUTDOWN)
        })
        .expect("a SHUTDOWN");
    assert_eq!(shutdown.path.remote, second().remote);
    let mut scripted = two_paths();
    fail_primary_once(&mut scripted);
    let id = scripted.id();
    scripted.endpoint.abort(scripted.now, id, b"").unwrap();
    let transmits = scripted.transmits();
    assert_eq!(transmits.len(), 1);
    assert_eq!(transmits[0].path.remote, second().remote);
}

#[test]
fn a_shutdown_that_is_not_answered_tries_the_other_path() {
    let mut scripted = two_paths();
    let id = scripted.id();
    scripted.endpoint.shutdown(scripted.now, id).unwrap();
    let seen = scripted.watch(Duration::from_secs(20));
    let used: Vec<_> = seen.iter().map(|(_, one)| one.path.remote).collect();
    assert_eq!(used[0], peer().remote);
    assert!(used.contains(&second().remote), "{used:?}");
}

#[test]
fn one_heartbeat_leaves_at_a_time() {
    let config = quiet().hb_interval(Duration::from_secs(10));
    let others: Vec<_> = (1..=5).map(|number| at([198, 51, 100, number])).collect();
    let mut scripted = Scripted::multi_homed(config, &others);
    let id = scripted.id();
    for address in others.iter().chain([&peer()]) {
        let often = scripted
            .endpoint
            .config()
            .association
            .path
            .hb_interval(Duration::from_secs(10));
        scripted
            .endpoint
            .configure_path(scripted.now, id, address.remote, often)
            .unwrap();
    }
    let mut times = Vec::new();
    for _ in 0..300 {
        for (time, transmit) in scripted.watch(Duration::from_secs(1)) {
            times.push(time);
            scripted.answer_heartbeat(&transmit);
        }
    }
    assert!(times.len() > 6 * 20);
    assert!(
        times.windows(2).all(|pair| pair[0] < pair[1]),
        "HB.Max.Burst is 1"
    );
}

#[test]
fn t3_restarts_when_the_earliest_chunk_of_its_path_is_acknowledged_by_a_gap_ack_block() {
    let config = quiet().potentially_failed(false);
    let mut scripted = Scripted::multi_homed(config, &[second()]);
    // A HEARTBEAT without an answer doubles the RTO of the first path, so that its timer waits.
    let id = scripted.id();
    scripted
        .endpoint
        .request_heartbeat(scripted.now, id, peer().remote)
        .unwrap();
    scripted.watch(Duration::from_millis(1010));
    assert_eq!(scripted.path(peer()).rto, Duration::from_secs(2));
    scripted.send(0, b"zero");
    send_to(&mut scripted, second(), b"one");
    send_to(&mut scripted, second(), b"two");
    let transmits = scripted.transmits();
    assert_eq!(data_to(&transmits, peer(), &scripted), [0]);
    assert_eq!(data_to(&transmits, second(), &scripted), [1, 2]);
    let started = scripted.now;
    scripted.now += Duration::from_millis(600);
    scripted.give_sack(0, &[(1, 1)], 100_000);
    let seen = scripted.watch(Duration::from_millis(1300));
    let again = seen
        .iter()
        .find(|(_, one)| data_in(std::slice::from_ref(&one.packet), scripted.tsn).contains(&2))
        .expect("it is sent again");
    assert_eq!(
        again.0 - started,
        Duration::from_millis(1600),
        "rule R3, path by path"
    );
}

#[test]
fn a_path_keeps_its_source_address() {
    // Section 7.2.5.2: another one would be another route, with another congestion window.
    let mut scripted = two_paths();
    for local in [[192, 0, 2, 1], [192, 0, 2, 2]] {
        let from = PathAddress {
            local: Some(local.into()),
            ..peer()
        };
        let question = raw(scripted.tag, &[4, 0, 0, 12, 0, 1, 0, 8, 1, 2, 3, 4]);
        scripted.give_from(from, question);
        let transmits = scripted.transmits();
        assert_eq!(transmits[0].path.local, Some([192, 0, 2, 1].into()));
    }
}
