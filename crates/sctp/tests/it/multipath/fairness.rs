//! A bottleneck that both paths of one association share with another association, which has one path and the
//! congestion control of RFC 9260, as TCP's.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::{
    AssociationId, CongestionControl, Connect, Endpoint, EndpointConfig, Event, PathAddress,
    SendError, SendInfo,
};

use super::goals::config;
use crate::common::{CLIENT_PORT, SERVER_PORT, message};
use crate::multihoming::network::{CLIENT, SERVER, address, network_of};

const BITS_PER_SECOND: f64 = 10e6;
const DELAY: Duration = Duration::from_millis(20);
/// How long packets may wait at the bottleneck.
const QUEUE: Duration = Duration::from_millis(50);
/// How likely a packet is dropped while the queue grows from a fifth to its end (RED): so flows lose in proportion to what
/// they send. Where all lose together when the queue is full, windows say little of shares.
const EARLY_LOSS: f64 = 0.03;

/// An association, and what its server's user got.
struct Flow {
    hosts: [Endpoint; 2],
    ids: [Option<AssociationId>; 2],
    received: usize,
}

impl Flow {
    fn new(now: Instant, paths: u8, config: &EndpointConfig, seed: u64) -> Flow {
        let mut side = 0;
        let mut hosts = [CLIENT_PORT, SERVER_PORT].map(|port| {
            let key = ChaCha12Rng::seed_from_u64(seed * 2 + side as u64).get_seed();
            let mut endpoint = Endpoint::new(port, config.clone(), key);
            endpoint.set_local_addresses((0..paths).map(|net| address(side, net)).collect());
            side += 1;
            endpoint
        });
        let connect = Connect {
            peer: (0..paths)
                .map(|net| PathAddress {
                    local: None,
                    remote: address(SERVER, net),
                    encapsulation_port: None,
                })
                .collect(),
            port: SERVER_PORT,
            config: None,
        };
        hosts[CLIENT]
            .connect_with(now, connect)
            .expect("nothing speaks against it");
        Flow {
            hosts,
            ids: [None; 2],
            received: 0,
        }
    }

    /// Sends all that there is room for, and takes all that has come.
    fn use_it(&mut self, now: Instant, payload: &Bytes) {
        let [Some(client), Some(server)] = self.ids else {
            return;
        };
        while self.hosts[SERVER].receive(now, server).is_some() {
            self.received += payload.len();
        }
        loop {
            match self.hosts[CLIENT].send(now, client, SendInfo::default(), payload.clone()) {
                Ok(()) => {}
                Err(SendError::BufferFull) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// The bytes that the users of these flows get from the 20th to the 80th second.
fn shares(flows: &mut [Flow], now: Instant, seed: u64) -> Vec<usize> {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let payload = message(0, 1200);
    let begin = now + Duration::from_secs(20);
    let end = begin + Duration::from_secs(60);
    let mut now = now;
    let mut busy = now;
    let mut on_the_way: BTreeMap<(Instant, u64), (usize, usize, PathAddress, Bytes)> =
        BTreeMap::new();
    let mut count = 0;
    let mut before = Vec::new();
    loop {
        for (number, flow) in flows.iter_mut().enumerate() {
            flow.use_it(now, &payload);
            for host in [CLIENT, SERVER] {
                while let Some(transmit) = flow.hosts[host].poll_transmit(now) {
                    let mut leaves = now;
                    if host == CLIENT {
                        let start = busy.max(now);
                        let full = (start - now).as_secs_f64() / QUEUE.as_secs_f64();
                        if full > 1.0 || rng.random_bool(EARLY_LOSS * (full - 0.2).max(0.0)) {
                            continue;
                        }
                        let bits = (transmit.packet.len() + 20) as f64 * 8.0;
                        busy = start + Duration::from_secs_f64(bits / BITS_PER_SECOND);
                        leaves = busy;
                    }
                    // What comes through never stays in step.
                    let jitter = Duration::from_micros(rng.random_range(0..500));
                    let from = PathAddress {
                        local: Some(transmit.path.remote),
                        remote: address(host, network_of(transmit.path.remote)),
                        encapsulation_port: None,
                    };
                    count += 1;
                    on_the_way.insert(
                        (leaves + DELAY + jitter, count),
                        (number, 1 - host, from, transmit.packet),
                    );
                }
                while let Some(event) = flow.hosts[host].poll_event() {
                    if let Event::CommunicationUp { id, .. } = event {
                        flow.ids[host] = Some(id);
                    }
                }
            }
        }
        if before.is_empty() && now >= begin {
            before = flows.iter().map(|flow| flow.received).collect();
        }
        if now >= end {
            let both = flows.iter().zip(before);
            return both.map(|(flow, before)| flow.received - before).collect();
        }
        let timeouts = flows.iter().flat_map(|flow| &flow.hosts);
        let timeout = timeouts.filter_map(Endpoint::next_timeout).min();
        let arrival = on_the_way.keys().next().map(|(time, _)| *time);
        now = now.max(
            timeout
                .into_iter()
                .chain(arrival)
                .min()
                .expect("they go on"),
        );
        while let Some(entry) = on_the_way.first_entry()
            && entry.key().0 <= now
        {
            let (number, host, from, packet) = entry.remove();
            flows[number].hosts[host].handle_packet(now, from, packet);
        }
        for host in flows.iter_mut().flat_map(|flow| &mut flow.hosts) {
            host.handle_timeout(now);
        }
    }
}

/// What several paths take in comparison with what one takes beside them, over some seeds.
fn ratio(control: CongestionControl, seeds: u64) -> f64 {
    let mut sums = [0, 0];
    for seed in 0..seeds {
        let now = Instant::now();
        let several = config(1 << 20).cmt(true).congestion_control(control);
        let mut flows = [
            Flow::new(now, 2, &several, seed),
            Flow::new(now, 1, &config(1 << 20), seed + 100),
        ];
        for (sum, share) in sums.iter_mut().zip(shares(&mut flows, now, seed)) {
            *sum += share;
        }
    }
    sums[0] as f64 / sums[1] as f64
}

/// OLIA takes what one takes. LIA and BALIA take a little more, for the windows of two paths that share their losses
/// differ by chance, and what they add together is least when they are equal.
#[test]
fn coupled_paths_take_little_more_than_one() {
    let alone = ratio(CongestionControl::Rfc9260, 1);
    assert!(alone > 1.5, "two that are not coupled take {alone:.2}");
    for (control, most) in [
        (CongestionControl::Lia, 1.3),
        (CongestionControl::Olia, 1.1),
        (CongestionControl::Balia, 1.3),
        (CongestionControl::RpV2, 1.2),
    ] {
        let ratio = ratio(control, 3);
        println!("{control}: {ratio:.3}");
        assert!(ratio <= most, "{control}: {ratio:.3}");
    }
}

/// The same with so many seeds that chance has little part: `cargo test -p sctp --test it multipath::fairness -- --ignored
/// --nocapture` prints the shares.
#[test]
#[ignore = "takes minutes: for the nightly run"]
fn all_controllers_take_their_share_over_many_seeds() {
    const SEEDS: u64 = 12;
    for control in CongestionControl::ALL {
        let ratio = ratio(control, SEEDS);
        println!("{control}: {ratio:.3}");
        let allowed = match control {
            CongestionControl::Lia => 1.0..=1.25,
            CongestionControl::Olia
            | CongestionControl::Balia
            | CongestionControl::RpV1
            | CongestionControl::RpV2 => 1.0..=1.15,
            _ => 1.8..=2.8,
        };
        assert!(allowed.contains(&ratio), "{control}: {ratio:.3}");
    }
}
