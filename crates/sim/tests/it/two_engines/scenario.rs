//! What happens under a seed, and what must come of it.

use crate::two_engines::host::{Close, EngineHost, Message, Plan};
use bytes::Bytes;
use link::{Corruption, Jitter, Link, LinkConfig};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::{Endpoint, EndpointConfig, Event, ReceivedMessage, SendInfo};
use sim::{HostId, Simulation, Stalled, Stop};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

pub(crate) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
pub(crate) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
pub(crate) const CLIENT_PORT: u16 = 40_000;
pub(crate) const SERVER_PORT: u16 = 5060;

/// Virtual time after which a run is taken to hang. The retransmissions of a run with 30 % loss can
/// take hours.
pub(crate) const LONGEST_RUN: Duration = Duration::from_secs(7 * 24 * 60 * 60);

const LARGEST_MESSAGE: usize = 64 * 1024;

/// Links, engines, and users, all drawn from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    seed: u64,
    /// From the client to the server, and back.
    links: [LinkConfig; 2],
    config: EndpointConfig,
    client: Plan,
    server: Plan,
}

impl Scenario {
    pub(crate) fn of_seed(seed: u64) -> Scenario {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let mut links = [random_link(&mut rng), random_link(&mut rng)];
        let mut config = random_config(&mut rng);
        let closes = [
            [Close::WhenReceived, Close::Never],
            [Close::Never, Close::WhenReceived],
            [Close::WhenReceived, Close::WhenReceived],
            [Close::WhenSent, Close::Never],
        ];
        let [client_close, server_close] = closes[rng.random_range(0..closes.len())];
        if client_close == Close::WhenSent {
            // What the server has not handed to its engine when it learns of the shutdown will
            // not be sent any more; so it must be able to hand over everything at once.
            config.association.send_buffer = 8 << 20;
        }
        let mut client = random_plan(&mut rng, config.association.outbound_streams, client_close);
        let mut server = random_plan(&mut rng, config.association.outbound_streams, server_close);
        if client_close == Close::WhenSent {
            // T5-shutdown-guard limits what the server can still send.
            server.messages.truncate(5);
        }
        client.expected = server.messages.len();
        server.expected = client.messages.len();
        for link in &mut links {
            // CRC32c finds all flips of so few bits.
            link.corrupt = Corruption {
                bits: rng.random_range(1..=3),
                ..rng.random_range(0.0..=0.1).into()
            };
        }
        Scenario {
            seed,
            links,
            config,
            client,
            server,
        }
    }

    /// The hosts, joined and recorded, the client already connecting.
    pub(crate) fn simulation(&self, start: Instant) -> (Simulation<EngineHost>, HostId, HostId) {
        // Streams of the generator that nothing else uses.
        let mut next_stream = 1..;
        let mut rng = || {
            let mut rng = ChaCha12Rng::seed_from_u64(self.seed);
            rng.set_stream(next_stream.next().unwrap_or_default());
            rng
        };
        let mut simulation = Simulation::new(start);
        simulation.record();
        let [there, back] = self.links.clone();
        simulation.connect(CLIENT, SERVER, Link::new(there, rng()));
        simulation.connect(SERVER, CLIENT, Link::new(back, rng()));
        let mut host = |address, port, plan: &Plan| {
            let endpoint = Endpoint::new(port, self.config.clone(), rng().random());
            let host = EngineHost::new(address, endpoint, plan.clone());
            simulation.add_host(host, &[address])
        };
        let client = host(CLIENT, CLIENT_PORT, &self.client);
        let server = host(SERVER, SERVER_PORT, &self.server);
        simulation
            .host_mut(client)
            .connect(start, SERVER, SERVER_PORT);
        (simulation, client, server)
    }

    /// What must hold however bad the links were.
    pub(crate) fn check(
        &self,
        stop: Result<Stop, Stalled>,
        client: &EngineHost,
        server: &EngineHost,
    ) {
        for (name, host) in [("client", client), ("server", server)] {
            let events = host.events();
            assert!(
                matches!(
                    without_path_changes(events)[..],
                    [
                        Event::CommunicationUp { .. },
                        Event::ShutdownComplete { .. }
                    ] | [
                        Event::CommunicationUp { .. },
                        Event::PeerShutdown { .. },
                        Event::ShutdownComplete { .. }
                    ]
                ),
                "{name} saw {events:?}"
            );
            assert_eq!(host.endpoint().association_count(), 0, "{name}");
        }
        assert_eq!(stop, Ok(Stop::Idle));
        check_delivery(
            "client to server",
            &client.plan().messages,
            server.received(),
        );
        check_delivery(
            "server to client",
            &server.plan().messages,
            client.received(),
        );
    }
}

/// Exactly once, unchanged, and those that are ordered in the order of their stream. The PPID of
/// each message is its number.
fn check_delivery(direction: &str, sent: &[Message], received: &[ReceivedMessage]) {
    assert_eq!(received.len(), sent.len(), "messages, {direction}");
    let mut next_ssn: BTreeMap<u16, u16> = BTreeMap::new();
    let mut last_ordered: BTreeMap<u16, u32> = BTreeMap::new();
    let mut times_seen = vec![0; sent.len()];
    for message in received {
        let number = message.ppid;
        let original = &sent[number as usize];
        times_seen[number as usize] += 1;
        assert_eq!(
            message.stream, original.info.stream,
            "{direction}, {number}"
        );
        assert_eq!(
            message.unordered, original.info.unordered,
            "{direction}, {number}"
        );
        assert!(
            message.payload == original.payload,
            "{direction}, contents of {number}"
        );
        if !message.unordered {
            let before = last_ordered.insert(message.stream, number);
            assert!(
                before < Some(number),
                "{direction}, {before:?} before {number}"
            );
            let ssn = next_ssn.entry(message.stream).or_default();
            assert_eq!(message.ssn, *ssn, "{direction}, {number}");
            *ssn = ssn.wrapping_add(1);
        }
    }
    assert!(
        times_seen.iter().all(|&times| times == 1),
        "{direction}: {times_seen:?}"
    );
}

/// Under loss a path may become inactive and active again.
fn without_path_changes(events: &[Event]) -> Vec<&Event> {
    events
        .iter()
        .filter(|event| !matches!(event, Event::PathStateChanged { .. }))
        .collect()
}

fn random_link(rng: &mut ChaCha12Rng) -> LinkConfig {
    let delay = Duration::from_micros(rng.random_range(100..100_000));
    LinkConfig {
        loss: rng.random_range(0.0..=0.3).into(),
        delay,
        jitter: Jitter {
            amount: delay.mul_f64(rng.random_range(0.0..=1.0)),
            reorders: rng.random_bool(0.7),
            ..Jitter::default()
        },
        duplicate: rng.random_range(0.0..=0.2).into(),
        ..LinkConfig::default()
    }
}

fn random_config(rng: &mut ChaCha12Rng) -> EndpointConfig {
    EndpointConfig::default()
        .mtu(rng.random_range(576..=1500))
        .a_rwnd(pick(rng, &[70_000, 200_000, 1 << 20]))
        .send_buffer(pick(rng, &[100_000, 1 << 20]))
        .outbound_streams(rng.random_range(1..=20))
        .nodelay(rng.random_bool(0.5))
        .max_message_size(LARGEST_MESSAGE)
        // It is delivery that is in question here: with the limits of the RFC, an association in
        // some hundred would rightly be given up under 30 % loss, or cut short in its shutdown by
        // T5-shutdown-guard, which is five times RTO.Max.
        .association_max_retrans(100)
        .max_init_retransmits(100)
        .rto_max(Duration::from_secs(60 * 60))
}

fn random_plan(rng: &mut ChaCha12Rng, streams: u16, close: Close) -> Plan {
    let count = rng.random_range(1..40);
    let messages = (0..count).map(|number| {
        let mut payload = vec![0; random_size(rng)];
        rng.fill_bytes(&mut payload);
        Message {
            info: SendInfo {
                stream: rng.random_range(0..streams),
                ppid: number,
                unordered: rng.random_bool(0.3),
                sack_immediately: rng.random_bool(0.1),
                ..SendInfo::default()
            },
            payload: Bytes::from(payload),
        }
    });
    Plan {
        messages: messages.collect(),
        expected: 0,
        close,
        reading_interval: rng
            .random_bool(0.25)
            .then(|| Duration::from_millis(rng.random_range(1..200))),
    }
}

/// From 1 byte to 64 KiB, every order of magnitude as likely as the others, and now and then
/// exactly one of the two ends.
fn random_size(rng: &mut ChaCha12Rng) -> usize {
    match rng.random_range(0..20) {
        0 => 1,
        1 => LARGEST_MESSAGE,
        _ => rng.random_range(0.0..16.0_f64).exp2() as usize,
    }
}

fn pick<T: Copy>(rng: &mut ChaCha12Rng, choices: &[T]) -> T {
    choices[rng.random_range(0..choices.len())]
}
