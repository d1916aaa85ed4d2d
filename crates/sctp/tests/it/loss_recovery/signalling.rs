//! Signalling over a link that loses packets: eight callers, each with one request under way on a stream of
//! its own, over one association.

use std::time::Instant;

use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::Profile;

use super::*;
use crate::common::{message, ordered};
use crate::multihoming::network::SERVER;

const CALLERS: u16 = 8;
const BYTES: usize = 500;

/// What came of it.
#[derive(Debug)]
struct Outcome {
    /// Requests that were answered.
    answered: usize,
    /// From the request to the answer, ascending.
    delays: Vec<Duration>,
    /// The longest time in which no message arrived anywhere.
    longest_halt: Duration,
}

impl Outcome {
    fn percentile(&self, percent: usize) -> Duration {
        self.delays[(self.delays.len() - 1) * percent / 100]
    }
}

/// Each caller sends a request, and the next one when the answer is there.
fn run(config: EndpointConfig, loss: f64, seed: u64, duration: Duration) -> Outcome {
    let mut network = Network::with(1, config.clone(), config);
    network.establish();
    network.rng = ChaCha12Rng::seed_from_u64(seed);
    network.loss = loss;
    let ids = [network.id(CLIENT), network.id(SERVER)];
    let end = network.now + duration;
    let mut began = [network.now; CALLERS as usize];
    let mut outcome = Outcome {
        answered: 0,
        delays: Vec::new(),
        longest_halt: Duration::ZERO,
    };
    let send = |network: &mut Network, host: usize, stream: u16| {
        let now = network.now;
        let endpoint = &mut network.hosts[host].endpoint;
        endpoint
            .send(
                now,
                ids[host],
                ordered(stream),
                message(usize::from(stream), BYTES),
            )
            .expect("there is room");
    };
    for stream in 0..CALLERS {
        send(&mut network, CLIENT, stream);
    }
    network.collect();
    let mut last_arrival: Instant = network.now;
    while network.now < end {
        let next = network.next_event().expect("something is waited for");
        network.step(next);
        for host in [CLIENT, SERVER] {
            let now = network.now;
            while let Some(message) = network.hosts[host].endpoint.receive(now, ids[host]) {
                outcome.longest_halt = outcome.longest_halt.max(now - last_arrival);
                last_arrival = now;
                let stream = message.stream;
                if host == CLIENT {
                    let began = &mut began[usize::from(stream)];
                    outcome.answered += 1;
                    outcome.delays.push(now - *began);
                    *began = now;
                }
                send(&mut network, host, stream);
            }
        }
        network.collect();
    }
    outcome.delays.sort();
    outcome
}

/// How many requests SIP over UDP would have answered: T1 is 500 ms and doubles up to 4 s (RFC 3261 sections
/// 17.1.1.2 and 17.1.2.2), and a request is sent again until both directions let it pass.
fn over_udp(loss: f64, seed: u64, duration: Duration) -> usize {
    use rand::RngExt;
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut answered = 0;
    for _ in 0..CALLERS {
        let mut time = Duration::ZERO;
        loop {
            let mut interval = 500 * MILLISECOND;
            while rng.random_bool(loss) || rng.random_bool(loss) {
                time += interval;
                interval = (interval * 2).min(4000 * MILLISECOND);
            }
            time += 20 * MILLISECOND;
            if time > duration {
                break;
            }
            answered += 1;
        }
    }
    answered
}

/// The profile for signalling answers more requests than UDP does at any loss, and no loss halts all callers.
#[test]
fn the_signalling_profile_is_ahead_of_udp() {
    let duration = Duration::from_secs(120);
    for percent in [5u32, 10, 20, 30] {
        let loss = f64::from(percent) / 100.0;
        let [mut signalling, mut standard, mut udp] = [0, 0, 0];
        for seed in 1..=3 {
            let profile = |profile| plain().profile(profile);
            let ours = run(profile(Profile::Signalling), loss, seed, duration);
            let rfc9260 = run(profile(Profile::Rfc9260), loss, seed, duration);
            println!(
                "{percent} %: signalling {} p50 {:?} p95 {:?} p99 {:?} max {:?} halt {:?}; \
                 rfc9260 {} p50 {:?} p95 {:?} p99 {:?} max {:?} halt {:?}; udp {}",
                ours.answered,
                ours.percentile(50),
                ours.percentile(95),
                ours.percentile(99),
                ours.percentile(100),
                ours.longest_halt,
                rfc9260.answered,
                rfc9260.percentile(50),
                rfc9260.percentile(95),
                rfc9260.percentile(99),
                rfc9260.percentile(100),
                rfc9260.longest_halt,
                over_udp(loss, seed, duration),
            );
            signalling += ours.answered;
            standard += rfc9260.answered;
            udp += over_udp(loss, seed, duration);
        }
        assert!(signalling > udp, "{percent} %: {signalling}, UDP {udp}");
        assert!(
            signalling > standard,
            "{percent} %: {signalling}, {standard}"
        );
    }
}
