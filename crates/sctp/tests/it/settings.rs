//! Settings at their extremes, alone and together, at the beginning and in the middle of an
//! association: no timer expires for ever at one time, nothing overflows, and every association
//! ends.

use std::time::Duration;

use crate::common::{CLIENT_PORT, Pair, SERVER_PORT, message};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::{AssociationState, Endpoint, EndpointConfig, Event, SendInfo};

/// More than any of them takes.
const MOST_STEPS: u32 = 300_000;

/// When the client asks for the end, at the latest.
const LIFE: Duration = Duration::from_secs(3600);

fn duration(rng: &mut ChaCha12Rng) -> Duration {
    let extremes = [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_millis(3),
        Duration::from_secs(1),
        Duration::from_secs(86_400),
        Duration::MAX,
    ];
    extremes[rng.random_range(0..extremes.len())]
}

fn size(rng: &mut ChaCha12Rng) -> usize {
    let extremes = [0, 1, 100, 1500, 65_536, usize::MAX];
    extremes[rng.random_range(0..extremes.len())]
}

fn count(rng: &mut ChaCha12Rng) -> u32 {
    [0, 1, 2, 10, u32::MAX][rng.random_range(0..5)]
}

/// Moves some settings to an extreme.
fn config(rng: &mut ChaCha12Rng) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    for _ in 0..rng.random_range(0..10) {
        match rng.random_range(0..30) {
            0 => config.association.path.rto_initial = duration(rng),
            1 => config.association.path.rto_min = duration(rng),
            2 => config.association.path.rto_max = duration(rng),
            3 => config.association.max_burst = count(rng),
            4 => config.valid_cookie_life = duration(rng),
            5 => config.association.association_max_retrans = count(rng).min(100),
            6 => config.association.path.path_max_retrans = count(rng),
            7 => config.association.max_init_retransmits = count(rng).min(100),
            8 => config.association.path.hb_interval = duration(rng),
            9 => config.association.hb_max_burst = count(rng),
            10 => config.association.path.potentially_failed = rng.random(),
            11 => config.association.path.potentially_failed_max_retrans = count(rng),
            12 => config.association.path.primary_switchover_max_retrans = Some(count(rng)),
            13 => config.association.sack_delay = duration(rng),
            14 => config.association.sack_frequency = count(rng),
            15 => config.association.a_rwnd = count(rng),
            16 => config.association.outbound_streams = size(rng) as u16,
            17 => config.association.path.mtu = size(rng),
            18 => config.association.path.path_mtu_discovery = rng.random(),
            19 => config.association.path.base_mtu = size(rng),
            20 => config.association.path.max_probes = count(rng),
            21 => config.association.path.probe_timer = duration(rng),
            22 => config.association.path.pmtu_raise_timer = duration(rng),
            23 => config.association.bundling = rng.random(),
            24 => config.association.nodelay = rng.random(),
            25 => config.association.partial_delivery_point = size(rng),
            26 => config.association.max_tsn_distance = size(rng) as u16,
            27 => config.association.max_gap_ack_blocks = size(rng),
            28 => config.association.max_pending_heartbeat_acks = size(rng),
            _ => config.max_received_bytes = size(rng),
        }
    }
    config
}

/// Sends, receives, changes settings, loses packets, and shuts down.
fn play(seed: u64) {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut pair = Pair::new();
    let mut endpoint = |port, seed| {
        let config = config(&mut rng);
        Endpoint::new(port, config, ChaCha12Rng::seed_from_u64(seed).get_seed())
    };
    pair.client.endpoint = endpoint(CLIENT_PORT, seed);
    pair.server.endpoint = endpoint(SERVER_PORT, seed + 1);
    let client = pair.connect();
    let loss = [0.0, 0.05, 0.3][rng.random_range(0..3)];
    let mut is_ending = false;
    for step in 0.. {
        assert!(step < MOST_STEPS, "seed {seed}: it never ends");
        let (now, is_lost) = (pair.now, rng.random_bool(loss));
        if let Some(packet) = pair.to_server.pop_front() {
            if !is_lost {
                pair.give_server(packet);
            }
        } else if let Some(packet) = pair.to_client.pop_front() {
            if !is_lost {
                pair.give_client(packet);
            }
        } else if !pair.advance() && is_ending {
            break;
        }
        if rng.random_ratio(1, 4) {
            let bytes = [1, 30, 1400, 3999][rng.random_range(0..4)];
            let info = SendInfo {
                unordered: rng.random(),
                ..SendInfo::default()
            };
            let endpoint = &mut pair.client.endpoint;
            // It is refused when there is no room, or no association.
            let _ = endpoint.send(now, client, info, message(1, bytes));
        }
        let server = pair
            .server
            .events
            .iter()
            .rev()
            .find_map(|event| match event {
                Event::CommunicationUp { id, .. } => Some(*id),
                _ => None,
            });
        if let Some(server) = server {
            pair.server.receive_all(now, server);
            if rng.random_ratio(1, 200) {
                let changed = config(&mut rng);
                let _ = pair
                    .server
                    .endpoint
                    .configure(now, server, changed.association);
            }
        }
        if rng.random_ratio(1, 200) {
            let changed = config(&mut rng);
            let _ = pair
                .client
                .endpoint
                .configure(now, client, changed.association);
        }
        if !is_ending && (now - pair.start > LIFE || step > 400) {
            is_ending = true;
            let _ = pair.client.endpoint.shutdown(now, client);
        }
        pair.collect();
    }
    for host in [&pair.client, &pair.server] {
        assert_eq!(host.endpoint.association_count(), 0, "seed {seed}");
    }
}

#[test]
fn timeouts_of_nothing_do_not_stop_the_clock() {
    let config = EndpointConfig::default()
        .rto_initial(Duration::ZERO)
        .rto_min(Duration::ZERO)
        .rto_max(Duration::ZERO)
        .hb_interval(Duration::ZERO)
        .sack_delay(Duration::ZERO);
    let mut pair = Pair::with(config.clone(), config);
    let (client, _) = pair.establish();
    for _ in 0..2000 {
        assert!(pair.advance(), "HEARTBEATs go on");
        pair.run();
    }
    assert!(pair.now - pair.start > Duration::from_millis(500));
    let status = pair.client.endpoint.status(client);
    assert_eq!(
        status.map(|status| status.state),
        Some(AssociationState::Established)
    );
}

#[test]
fn at_their_extremes_every_association_ends() {
    for seed in 0..400 {
        play(seed);
    }
}
