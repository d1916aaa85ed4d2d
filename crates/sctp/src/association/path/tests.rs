use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

use super::*;
use crate::packet::Tsn;

fn config() -> AssociationConfig {
    AssociationConfig::default().path_mtu_discovery(false)
}

fn path() -> Path {
    let address = PathAddress {
        local: None,
        remote: IpAddr::from([192, 0, 2, 1]),
        encapsulation_port: Some(9899),
    };
    Path::new(PathId::FIRST, address, PathState::Active, &config())
}

fn acknowledged(measures_from: Option<Instant>) -> Acknowledged {
    Acknowledged {
        tsn: Tsn(1),
        path: PathId::FIRST,
        chunk_size: 100,
        in_flight: true,
        lost: None,
        moved: false,
        copied: false,
        sent: measures_from.unwrap_or_else(Instant::now),
        ambiguous: false,
        measures: measures_from.is_some(),
    }
}

/// Lets the window grow by a SACK.
fn grow(path: &mut Path) {
    path.flight = 1_000_000;
    path.begin_sack(false);
    path.flight = 0;
    path.sack.acknowledged = 10_000;
    path.finish_sack(Instant::now(), &CoupledPaths::default(), &config());
}

fn rng() -> ChaCha12Rng {
    ChaCha12Rng::seed_from_u64(1)
}

#[test]
fn was_tried_when_it_sent_last_until_its_window_is_reduced() {
    let now = Instant::now();
    let later = now + Duration::from_secs(1);
    let mut path = path();
    assert_eq!(path.tried(), None);
    path.chunk_sent(now, 100);
    assert_eq!(path.tried(), Some(now));
    path.penalise(later, now, false, &CoupledPaths::default());
    path.chunk_sent(later + Duration::from_secs(1), 100);
    assert_eq!(path.tried(), Some(later));
}

#[test]
fn what_a_burst_waits_for_is_as_much_of_it_as_is_acknowledged() {
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    let mut path = path();
    let chunk_size = path.pmdcs();
    let mut burst = |sent, chunks: usize, lasts| {
        for _ in 0..4 {
            path.chunk_sent(at(sent), chunk_size);
        }
        path.begin_sack(false);
        for _ in 0..chunks {
            let chunk = Acknowledged {
                chunk_size,
                ..acknowledged(Some(at(sent)))
            };
            path.chunk_acknowledged(&chunk, true);
        }
        path.finish_sack(at(sent + lasts), &CoupledPaths::default(), &config());
        path.flight = 0;
        path.present_round_trip()
    };
    burst(0, 1, 10);
    // Four packets wait for 8 ms, two for 4 ms: each adds 2.
    assert_eq!(burst(100, 4, 18), Duration::from_millis(12));
    assert_eq!(burst(200, 2, 14), Duration::from_millis(12));
}

#[test]
fn subtracts_the_headers_from_the_mtu() {
    let encapsulated = path();
    assert_eq!(encapsulated.mtu(), 1500 - 20 - 8);
    let mut raw = path();
    raw.learn(
        PathAddress {
            encapsulation_port: None,
            ..encapsulated.address()
        },
        &config(),
    );
    assert_eq!(raw.mtu(), 1500 - 20);
    assert_eq!(raw.pmdcs(), 1480 - 12);
    let ipv6 = PathAddress {
        remote: "2001:db8::1".parse().unwrap(),
        ..encapsulated.address()
    };
    assert_eq!(
        Path::new(PathId::FIRST, ipv6, PathState::Active, &config()).mtu(),
        1500 - 40 - 8
    );
}

#[test]
fn measures_once_a_round_trip_from_the_latest_chunk() {
    let mut path = path();
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    for sent in [0, 5, 10] {
        path.chunk_sent(at(sent), 100);
    }
    let mut acknowledge = |now, measures_from: &[Option<Instant>]| {
        path.begin_sack(false);
        for &measures_from in measures_from {
            path.chunk_acknowledged(&acknowledged(measures_from), true);
        }
        path.finish_sack(now, &CoupledPaths::default(), &config());
        path.status().srtt
    };
    let first = Some(Duration::from_millis(20));
    assert_eq!(acknowledge(at(25), &[Some(at(0)), Some(at(5))]), first);
    // Sent within the round trip that was measured.
    assert_eq!(acknowledge(at(90), &[Some(at(10))]), first);
    // Not to be measured by rule C5.
    assert_eq!(acknowledge(at(900), &[None]), first);
    // Sent after the last measurement: SRTT = 7/8 * 20 + 1/8 * 100.
    assert_eq!(
        acknowledge(at(130), &[Some(at(30)), None]),
        Some(Duration::from_millis(30))
    );
}

#[test]
fn a_measurement_ends_the_back_off_before_t3_rtx_starts_anew() {
    let mut path = path();
    let config = config();
    let now = Instant::now();
    path.chunk_sent(now, 100);
    for _ in 0..3 {
        path.t3_rtx_expired(now, false, &CoupledPaths::default(), &config);
    }
    assert_eq!(path.rto(), config.path.rto_initial * 8);
    path.chunk_sent(now, 100);
    path.begin_sack(false);
    path.chunk_acknowledged(&acknowledged(Some(now)), true);
    let later = now + Duration::from_millis(20);
    path.finish_sack(later, &CoupledPaths::default(), &config);
    assert_eq!(path.t3_rtx(), Some(later + config.path.rto_min));
}

#[test]
fn a_delayed_acknowledgement_of_a_small_chunk_makes_no_long_queue() {
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    let mut path = path();
    for (sent, heard) in [(0, 20), (100, 320)] {
        path.chunk_sent(at(sent), 100);
        path.begin_sack(false);
        path.chunk_acknowledged(&acknowledged(Some(at(sent))), true);
        path.finish_sack(at(heard), &CoupledPaths::default(), &config());
    }
    // 20 ms, and the delay once.
    assert!(path.present_round_trip() <= Duration::from_millis(221));
}

#[test]
fn becomes_inactive_beyond_path_max_retrans_and_active_by_an_answer() {
    let mut path = path();
    let config = config().potentially_failed(false);
    for _ in 0..config.path.path_max_retrans {
        assert!(!path.count_error(&config));
    }
    assert!(path.count_error(&config));
    assert_eq!(path.state(), PathState::Inactive);
    assert!(!path.count_error(&config), "said once");
    assert!(path.clear_errors());
    assert!(!path.clear_errors());
    assert_eq!(path.state(), PathState::Active);
}

#[test]
fn may_have_failed_before_it_is_inactive() {
    let mut path = path();
    let config = config().potentially_failed_max_retrans(1);
    assert!(!path.count_error(&config));
    assert!(path.count_error(&config));
    assert_eq!(path.state(), PathState::PotentiallyFailed);
    for _ in 2..config.path.path_max_retrans {
        assert!(!path.count_error(&config));
    }
    assert!(path.count_error(&config));
    assert_eq!(path.state(), PathState::Inactive);
    assert!(path.clear_errors());
    assert_eq!(path.state(), PathState::Active);
    path.configure(config.path.path_max_retrans(1), &config);
    assert!(!path.count_error(&config));
    assert!(path.count_error(&config));
    assert_eq!(path.state(), PathState::Inactive, "never in between");
}

#[test]
fn sends_no_more_than_max_burst_packets_at_once() {
    let mut path = path();
    let config = config();
    let pmdcs = path.pmdcs();
    for _ in 0..20 {
        grow(&mut path);
    }
    path.begin_burst();
    let mut packets = 0;
    while path.allows_packet(&config) {
        path.chunk_sent(Instant::now(), pmdcs);
        packets += 1;
    }
    assert_eq!(packets, config.max_burst);
}

#[test]
fn sends_a_heartbeat_after_an_idle_period_and_counts_a_missing_answer() {
    let mut path = path();
    let config = config();
    let mut rng = rng();
    let start = Instant::now();
    path.start_heartbeats(start, &mut rng, &config);
    let due = path.heartbeat_timeout().expect("a heartbeat is due");
    let period = due - start;
    assert!(period >= config.path.hb_interval + Duration::from_millis(500));
    assert!(period <= config.path.hb_interval + Duration::from_millis(1500));

    // Data in between puts it off.
    path.chunk_sent(start + Duration::from_secs(10), 100);
    assert!(!path.heartbeat_is_due(due, &mut rng, &config));
    let due = path.heartbeat_timeout().expect("a heartbeat is due");
    assert!(due >= start + Duration::from_secs(10) + config.path.hb_interval);

    path.chunk_left_flight(100);
    assert!(path.heartbeat_is_due(due, &mut rng, &config));
    path.send_heartbeat(due, &mut rng, &config);
    assert_eq!(
        path.heartbeat_timeout(),
        Some(due + config.path.rto_initial)
    );
    assert!(path.take_unanswered_heartbeat(due + config.path.rto_initial, &config));
    assert_eq!(path.rto(), config.path.rto_initial * 2);
}

#[test]
fn accepts_a_heartbeat_ack_with_its_nonce_only() {
    let mut path = path();
    let config = config();
    let now = Instant::now();
    let info = path.send_heartbeat(now, &mut rng(), &config);
    let mut wrong = info;
    wrong[11] ^= 1;
    let mut other_path = info;
    other_path[3] ^= 1;
    let later = now + Duration::from_millis(30);
    assert!(!path.handle_heartbeat_ack(later, &wrong, &config));
    assert!(!path.handle_heartbeat_ack(later, &other_path, &config));
    assert!(!path.handle_heartbeat_ack(later, &[], &config));
    assert!(path.handle_heartbeat_ack(later, &info, &config));
    assert_eq!(path.status().srtt, Some(Duration::from_millis(30)));
    assert!(!path.handle_heartbeat_ack(later, &info, &config), "once");
}

#[test]
fn shrinks_the_window_after_idle_time() {
    let mut path = path();
    let now = Instant::now();
    for _ in 0..10 {
        grow(&mut path);
    }
    let cwnd = path.status().cwnd;
    path.data_sent = Some(now);
    path.account_for_idle_time(now + Duration::from_millis(999));
    assert_eq!(path.status().cwnd, cwnd);
    path.account_for_idle_time(now + Duration::from_secs(60));
    assert_eq!(path.status().cwnd, 4 * path.pmdcs());
    assert_eq!(path.status().ssthresh, cwnd);
}

#[test]
fn settings_of_its_own_outlive_those_of_the_association_and_a_restart() {
    let mut path = path();
    let own = config()
        .path
        .rto_initial(Duration::from_secs(3))
        .rto_min(Duration::ZERO);
    path.configure(own, &config());
    let changed = config().rto_initial(Duration::from_secs(7));
    let fresh = path.restarted(PathId::FIRST, PathState::Active, &changed);
    assert_eq!(fresh.rto(), Duration::from_secs(3));
    path.measure(Instant::now(), Duration::ZERO, &changed);
    assert!(
        path.rto() < config().path.rto_min,
        "bounded to a millisecond only"
    );
}

/// RFC 5682 section 3.1.
#[test]
fn a_timeout_is_recovered_from_until_all_that_was_sent_before_is_acknowledged() {
    let mut path = path();
    assert!(!path.is_in_rto_recovery(Tsn(1)));
    path.begin_rto_recovery(Tsn(9));
    assert!(path.is_in_rto_recovery(Tsn(9)));
    assert!(!path.is_in_rto_recovery(Tsn(10)));
    path.loss_was_spurious();
    assert!(!path.is_in_rto_recovery(Tsn(9)));
}
