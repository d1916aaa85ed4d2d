//! A listener, an attacker and a client on a virtual clock.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flood::{Attack, Attempt, Counts, Kind};
use link::{Link, LinkConfig};
use rand::RngExt;
use sctp::{Connect, Endpoint, EndpointConfig, Event, PathAddress, Transmit};
use sim::{Datagram, Host, HostId, Simulation};
use sim_transport::{path_of, sctp_datagram};

use crate::context::Context;

/// Each way.
pub(super) const DELAY: Duration = Duration::from_millis(10);

/// Addresses from which the attacker can be answered. With their ports they make millions of peers.
const SOURCES: usize = 200;

const PORT: u16 = 5060;

/// From one attempt of the client to the next.
const PAUSE: Duration = Duration::from_secs(5);

/// From one look at the listener to the next.
const SAMPLE: Duration = Duration::from_secs(10);

/// What became of the listener and the client.
pub(super) struct FloodResult {
    pub(super) counts: Counts,
    /// Associations of the attacker that the listener held, at times since the beginning.
    pub(super) held: Vec<(Duration, usize)>,
    /// Those that it held long after the flood.
    pub(super) left: usize,
    pub(super) client_attempts: u64,
    pub(super) client_successes: u64,
    pub(super) client_longest: Duration,
}

impl FloodResult {
    pub(super) fn most(&self) -> usize {
        self.held
            .iter()
            .map(|(_, held)| *held)
            .max()
            .unwrap_or_default()
    }

    /// The mean of the last tenth of the flood.
    pub(super) fn level(&self) -> f64 {
        let last = self.held.len() - self.held.len() / 10;
        let last = &self.held[last.min(self.held.len())..];
        last.iter().map(|(_, held)| *held as f64).sum::<f64>() / last.len() as f64
    }
}

/// Floods a listener at so many packets a second for so long.
pub(super) fn flooded(
    context: &Context,
    kind: Kind,
    config: &EndpointConfig,
    rate: u32,
    lasts: Duration,
) -> anyhow::Result<FloodResult> {
    let mut world = World::new(context, kind, config, rate, lasts);
    let mut held = Vec::new();
    let mut time = SAMPLE;
    while time <= lasts {
        // Half way between two attempts of the client: it holds nothing then.
        world.run_until(time + PAUSE / 2)?;
        held.push((time, world.listener().association_count()));
        time += SAMPLE;
    }
    world.run_until(lasts * 2)?;
    let left = world.listener().association_count();
    let Role::Attacker { attack, .. } = &world.simulation.host(world.attacker).role else {
        anyhow::bail!("the attacker is no attacker");
    };
    let counts = *attack.counts();
    let Role::Client {
        attempts, setups, ..
    } = &world.simulation.host(world.client).role
    else {
        anyhow::bail!("the client is no client");
    };
    Ok(FloodResult {
        counts,
        held,
        left,
        client_attempts: *attempts,
        client_successes: setups.len() as u64,
        client_longest: setups.iter().copied().max().unwrap_or_default(),
    })
}

struct World {
    simulation: Simulation<FloodHost>,
    start: Instant,
    listener: HostId,
    attacker: HostId,
    client: HostId,
}

impl World {
    fn new(
        context: &Context,
        kind: Kind,
        config: &EndpointConfig,
        rate: u32,
        lasts: Duration,
    ) -> World {
        let start = Instant::now();
        let mut simulation = Simulation::new(start);
        let stream = |number: u64| context.rng(((kind as u64) << 8) + number);
        let link = LinkConfig {
            delay: DELAY,
            ..LinkConfig::default()
        };
        let listener = FloodHost {
            address: address(0),
            role: Role::Listener(Box::new(Endpoint::new(
                PORT,
                config.clone(),
                stream(0).random(),
            ))),
        };
        let attacker = FloodHost {
            address: address(1),
            role: Role::Attacker {
                attack: Box::new(Attack::new(kind, PORT, SOURCES, stream(1))),
                next: start,
                interval: Duration::from_secs(1) / rate,
                until: start + lasts,
                to_send: Vec::new(),
            },
        };
        let client = FloodHost {
            address: address(CLIENT),
            role: Role::Client {
                endpoint: Box::new(Endpoint::new(PORT, config.clone(), stream(2).random())),
                next: start + PAUSE,
                until: start + lasts,
                begun: start,
                attempts: 0,
                setups: Vec::new(),
            },
        };
        let network = simulation.network_mut();
        let (there, back) = (
            network.add_link(Link::new(link.clone(), stream(3))),
            network.add_link(Link::new(link, stream(4))),
        );
        // Forged addresses lead nowhere: what goes to them is lost.
        let peers = (0..SOURCES).map(|source| address(source as u32 + 1));
        let answered = peers.clone().filter(|_| kind != Kind::Init);
        for peer in peers.chain([address(CLIENT)]) {
            network.add_route(peer, address(0), there);
        }
        for peer in answered.chain([address(CLIENT)]) {
            network.add_route(address(0), peer, back);
        }
        let sources: Vec<IpAddr> = (0..SOURCES)
            .map(|source| address(source as u32 + 1))
            .collect();
        let listener = simulation.add_host(listener, &[address(0)]);
        let attacker = simulation.add_host(attacker, &sources);
        let client = simulation.add_host(client, &[address(CLIENT)]);
        World {
            simulation,
            start,
            listener,
            attacker,
            client,
        }
    }

    fn run_until(&mut self, after: Duration) -> anyhow::Result<()> {
        self.simulation.run(self.start + after, |_| false)?;
        Ok(())
    }

    fn listener(&self) -> &Endpoint {
        match &self.simulation.host(self.listener).role {
            Role::Listener(endpoint) | Role::Client { endpoint, .. } => endpoint,
            Role::Attacker { .. } => unreachable!("the listener was made as one"),
        }
    }
}

struct FloodHost {
    address: IpAddr,
    role: Role,
}

enum Role {
    Listener(Box<Endpoint>),
    Attacker {
        attack: Box<Attack>,
        next: Instant,
        interval: Duration,
        until: Instant,
        to_send: Vec<Attempt>,
    },
    Client {
        endpoint: Box<Endpoint>,
        next: Instant,
        until: Instant,
        begun: Instant,
        attempts: u64,
        setups: Vec<Duration>,
    },
}

impl FloodHost {
    /// The endpoint's user: the listener takes no notice, the client ends what is up.
    fn act(&mut self, now: Instant) {
        match &mut self.role {
            Role::Listener(endpoint) => while endpoint.poll_event().is_some() {},
            Role::Client {
                endpoint,
                begun,
                setups,
                ..
            } => {
                while let Some(event) = endpoint.poll_event() {
                    if let Event::CommunicationUp { id, .. } = event {
                        setups.push(now - *begun);
                        // It is there: it has just come up.
                        let _ = endpoint.abort(now, id, b"that was all");
                    }
                }
            }
            Role::Attacker { .. } => {}
        }
    }
}

impl Host for FloodHost {
    type Payload = Bytes;

    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Bytes>) {
        match &mut self.role {
            Role::Listener(endpoint) | Role::Client { endpoint, .. } => {
                let from = path_of(&datagram);
                endpoint.handle_packet(now, from, datagram.payload);
            }
            Role::Attacker {
                attack, to_send, ..
            } => {
                let source = number(datagram.destination).saturating_sub(1) as usize;
                to_send.extend(attack.handle_packet(source, &datagram.payload));
            }
        }
        self.act(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        match &mut self.role {
            Role::Listener(endpoint) => endpoint.handle_timeout(now),
            Role::Attacker {
                attack,
                next,
                interval,
                to_send,
                ..
            } => {
                while *next <= now {
                    *next += *interval;
                    to_send.extend(attack.next_attempt());
                }
            }
            Role::Client {
                endpoint,
                next,
                begun,
                attempts,
                ..
            } => {
                endpoint.handle_timeout(now);
                if *next <= now {
                    *next += PAUSE;
                    *begun = now;
                    *attempts += 1;
                    let connect = Connect {
                        peer: vec![to_listener()],
                        port: PORT,
                        config: None,
                    };
                    // An attempt that is still under way goes on instead, and counts as one that
                    // failed.
                    let _ = endpoint.connect_with(now, connect);
                }
            }
        }
        self.act(now);
    }

    fn next_timeout(&self) -> Option<Instant> {
        match &self.role {
            Role::Listener(endpoint) => endpoint.next_timeout(),
            Role::Attacker { next, until, .. } => (next < until).then_some(*next),
            Role::Client {
                endpoint,
                next,
                until,
                ..
            } => {
                let attempt = (next < until).then_some(*next);
                [endpoint.next_timeout(), attempt]
                    .into_iter()
                    .flatten()
                    .min()
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Bytes>> {
        let transmit = match &mut self.role {
            Role::Listener(endpoint) | Role::Client { endpoint, .. } => {
                endpoint.poll_transmit(now)?
            }
            Role::Attacker { to_send, .. } => {
                let Attempt { source, packet } = to_send.pop()?;
                Transmit {
                    path: PathAddress {
                        local: Some(address(source as u32 + 1)),
                        ..to_listener()
                    },
                    packet,
                    may_fragment: true,
                }
            }
        };
        Some(sctp_datagram(transmit, |_| self.address, |packet| packet))
    }
}

/// The number of the client's address: behind those of the attacker.
const CLIENT: u32 = SOURCES as u32 + 1;

fn to_listener() -> PathAddress {
    PathAddress {
        local: None,
        remote: address(0),
        encapsulation_port: None,
    }
}

/// The listener's address is number 0.
fn address(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(FIRST + number).into()
}

fn number(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits().saturating_sub(FIRST),
        IpAddr::V6(_) => 0,
    }
}

/// 10.0.0.1
const FIRST: u32 = 0x0a00_0001;
