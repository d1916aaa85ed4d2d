//! What happens under a seed: two hosts with several addresses on several networks send messages of
//! every kind, while they change addresses, keys, streams and schedulers.

use crate::engines::host::{EngineHost, Entry, Message};
use crate::engines::request::Request;
use crate::engines::scenario::{
    FIRST_PPID, PLANNED, Side, act, pick, random_config, random_network, random_side, random_size,
    random_time,
};
use crate::engines::seeds::Seeded;
use crate::engines::world::{Layout, Network, World, addresses_of};
use bytes::Bytes;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::packet::ChunkType;
use sctp::{
    AddressChange, AssociationState, AssociationStatus, EndpointConfig, ErrorDetectionMethod,
    Event, Extensions, LocalAddressState, PrPolicy, ReConfigurationOutcome, ReConfigurationPolicy,
    SendInfo, StreamReset, StreamScheduler,
};
use sim::Stop;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Addresses of a host on each network beside the one that it begins with.
const SPARE_ADDRESSES: u16 = 1;

/// Shared keys that both sides have from the beginning; key 0 is the null key.
const KEYS: std::ops::RangeInclusive<u16> = 1..=3;

/// A shared key that is set while the association is up.
const LATE_KEY: u16 = 4;

/// How long everything that is under way may take to come to rest, and how often that is waited for.
const ROUND: Duration = Duration::from_secs(200);
const ROUNDS: u32 = 100;

/// Chunks that the peer may have to authenticate.
const CHUNKS_TO_AUTHENTICATE: [ChunkType; 12] = [
    ChunkType::DATA,
    ChunkType::I_DATA,
    ChunkType::SACK,
    ChunkType::NR_SACK,
    ChunkType::HEARTBEAT,
    ChunkType::HEARTBEAT_ACK,
    ChunkType::COOKIE_ECHO,
    ChunkType::COOKIE_ACK,
    ChunkType::SHUTDOWN,
    ChunkType::FORWARD_TSN,
    ChunkType::I_FORWARD_TSN,
    ChunkType::RE_CONFIG,
];

/// Networks, engines, and what is planned. No path is cut for ever, and nobody gives up.
#[derive(Clone, Debug)]
pub(crate) struct ExtensionScenario {
    seed: u64,
    networks: Vec<Network>,
    udp_ports: [Option<u16>; 2],
    pub(crate) configs: [EndpointConfig; 2],
    plans: Vec<(Duration, Plan)>,
    pub(crate) messages: Vec<Message>,
}

/// What is done at a time.
#[derive(Clone, Debug)]
enum Plan {
    /// Opens an association with so many addresses of the peer.
    Connect(Side, usize),
    /// Sends the message of that number.
    Send(Side, usize),
    Read(Side, bool),
    Ask(Side, Request),
    /// Cuts or mends a network.
    SetUp(usize, bool),
}

impl ExtensionScenario {
    pub(crate) fn of_all_extensions(seed: u64) -> ExtensionScenario {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        ExtensionScenario::with(seed, [Extensions::ALL; 2], &mut rng)
    }

    /// Each extension is offered by both sides, by one, or by none.
    pub(crate) fn of_some_extensions(seed: u64) -> ExtensionScenario {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let rng = &mut rng;
        let mut offered = [Extensions::NONE; 2];
        for name in Extensions::NAMES {
            let extension: Extensions = name.parse().expect("a name");
            let sides = pick(rng, &[&[0, 1][..], &[0, 1], &[0], &[1], &[]]);
            for side in sides {
                offered[*side] = offered[*side].union(extension);
            }
        }
        ExtensionScenario::with(seed, offered, rng)
    }

    fn with(seed: u64, offered: [Extensions; 2], rng: &mut ChaCha12Rng) -> ExtensionScenario {
        let is_ipv6 = rng.random_bool(0.3);
        let networks: Vec<Network> = (0..rng.random_range(1..=3))
            .map(|_| Network {
                is_ipv6,
                ..random_network(rng, true)
            })
            .collect();
        let has_small_mtu = networks.iter().any(|network| network.mtu.is_some());
        let udp_ports = pick(
            rng,
            &[
                [Some(9899), Some(9899)],
                [Some(9900), Some(9899)],
                [None; 2],
            ],
        );
        // A peer that does without is refused by one that does not.
        let may_lack_authentication = rng.random_bool(0.5);
        let configs = offered.map(|extensions| {
            let mut config = random_extension_config(extensions, rng)
                .address_reconfiguration_without_authentication(may_lack_authentication);
            config.association.path.path_mtu_discovery |= has_small_mtu;
            config
        });
        let mut scenario = ExtensionScenario {
            seed,
            networks,
            udp_ports,
            configs,
            plans: Vec::new(),
            messages: Vec::new(),
        };
        scenario.plan_association(rng);
        scenario.plan_cuts(rng);
        for side in [Side::Client, Side::Server] {
            scenario.plan_messages(side, rng);
            scenario.plan_stream_requests(side, rng);
            scenario.plan_key_changes(side, rng);
        }
        // Two that change all their addresses at once may lose each other.
        scenario.plan_address_changes(random_side(rng), rng);
        scenario.plans.sort_by_key(|&(time, _)| time);
        scenario
    }

    /// What both sides offer. Changes of addresses take authentication, if nothing else is said.
    pub(crate) fn common_extensions(&self) -> Extensions {
        let [client, server] = self.configs.each_ref().map(|config| {
            let association = &config.association;
            let mut offered = association.extensions;
            offered.authentication |= offered.address_reconfiguration
                && !association.address_reconfiguration_without_authentication;
            offered
        });
        client.intersection(server)
    }

    fn plan_association(&mut self, rng: &mut ChaCha12Rng) {
        for side in [Side::Client, Side::Server] {
            for key in KEYS {
                self.plan(Duration::ZERO, Plan::Ask(side, Request::SetKey(key)));
            }
        }
        let addresses = rng.random_range(1..=self.networks.len());
        let begin = Duration::ZERO;
        self.plan(begin, Plan::Connect(Side::Client, addresses));
        if rng.random_bool(0.1) {
            let time = Duration::from_millis(rng.random_range(0..200));
            self.plan(time, Plan::Connect(Side::Server, addresses));
        }
    }

    fn plan_cuts(&mut self, rng: &mut ChaCha12Rng) {
        for _ in 0..rng.random_range(0..4) {
            let network = rng.random_range(0..self.networks.len());
            let time = random_time(rng);
            let later = time + Duration::from_millis(rng.random_range(10..20_000));
            self.plan(time, Plan::SetUp(network, false));
            self.plan(later, Plan::SetUp(network, true));
        }
    }

    fn plan_messages(&mut self, side: Side, rng: &mut ChaCha12Rng) {
        let streams = self.configs[side as usize].association.outbound_streams;
        let at_once = rng.random_bool(0.5);
        for _ in 0..rng.random_range(0..40) {
            let time = if at_once {
                Duration::from_millis(rng.random_range(1..2000))
            } else {
                random_time(rng)
            };
            let info = SendInfo {
                // There may be more streams by then.
                stream: rng.random_range(0..streams + 2),
                unordered: rng.random_bool(0.3),
                sack_immediately: rng.random_bool(0.1),
                unbundled: rng.random_bool(0.1),
                life_time: rng
                    .random_bool(0.1)
                    .then(|| Duration::from_millis(rng.random_range(0..5000))),
                pr_policy: random_policy(rng),
                shared_key: rng.random_bool(0.1).then(|| rng.random_range(0..=3)),
                ..SendInfo::default()
            };
            let size = random_size(rng);
            self.plan_message(time, side, info, size, rng);
        }
        if rng.random_bool(0.2) {
            let time = random_time(rng);
            let later = time + Duration::from_millis(rng.random_range(0..20_000));
            self.plan(time, Plan::Read(side, false));
            self.plan(later.min(PLANNED), Plan::Read(side, true));
        }
    }

    fn plan_message(
        &mut self,
        time: Duration,
        side: Side,
        info: SendInfo,
        size: usize,
        rng: &mut ChaCha12Rng,
    ) {
        let number = self.messages.len();
        let mut payload = vec![0; size];
        rng.fill_bytes(&mut payload);
        self.plan(time, Plan::Send(side, number));
        self.messages.push(Message {
            info: SendInfo {
                ppid: FIRST_PPID + number as u32,
                ..info
            },
            payload: Bytes::from(payload),
        });
    }

    fn plan_stream_requests(&mut self, side: Side, rng: &mut ChaCha12Rng) {
        let streams = |side: Side| self.configs[side as usize].association.outbound_streams;
        let [ours, theirs] = [streams(side), streams(side.other())];
        for _ in 0..rng.random_range(0..10) {
            let time = random_time(rng);
            let request = match rng.random_range(0..10) {
                0..4 => Request::ResetStreams(StreamReset {
                    outgoing: random_streams(ours, rng),
                    incoming: random_streams(theirs, rng),
                }),
                4 => Request::ResetAssociation,
                5 | 6 => Request::AddStreams(rng.random_range(0..2), rng.random_range(0..2)),
                7 => Request::Schedule(pick(rng, &StreamScheduler::ALL)),
                _ => Request::SetStreamValue(rng.random_range(0..ours), rng.random_range(0..4)),
            };
            self.plan(time, Plan::Ask(side, request));
        }
    }

    fn plan_address_changes(&mut self, side: Side, rng: &mut ChaCha12Rng) {
        let addresses = self.addresses(side);
        for _ in 0..rng.random_range(0..8) {
            let time = random_time(rng);
            let request = if rng.random_bool(0.2) {
                Request::MoveTo(pick(rng, &addresses))
            } else {
                let mut addresses = addresses.clone();
                let changes = (0..rng.random_range(1..=addresses.len().min(3))).map(|_| {
                    let index = rng.random_range(0..addresses.len());
                    let address = addresses.swap_remove(index);
                    match rng.random_range(0..5) {
                        0 | 1 => AddressChange::Add(address),
                        2 | 3 => AddressChange::Delete(address),
                        _ => AddressChange::SetPeerPrimary(address),
                    }
                });
                Request::ChangeAddresses(changes.collect())
            };
            self.plan(time, Plan::Ask(side, request));
        }
    }

    /// Both sides have the keys, but one of them perhaps later than the other begins to use it.
    fn plan_key_changes(&mut self, side: Side, rng: &mut ChaCha12Rng) {
        if rng.random_bool(0.3) {
            let time = Duration::from_millis(rng.random_range(5000..10_000));
            let later = time + Duration::from_millis(rng.random_range(0..5000));
            self.plan(time, Plan::Ask(side, Request::SetKey(LATE_KEY)));
            self.plan(time, Plan::Ask(side, Request::SetActiveKey(LATE_KEY)));
            self.plan(later, Plan::Ask(side.other(), Request::SetKey(LATE_KEY)));
        }
        for _ in 0..rng.random_range(0..5) {
            let time = random_time(rng);
            let request = if rng.random_bool(0.7) {
                Request::SetActiveKey(rng.random_range(0..=LATE_KEY))
            } else {
                Request::DeactivateKey(rng.random_range(1..=LATE_KEY))
            };
            self.plan(time, Plan::Ask(side, request));
        }
    }

    fn plan(&mut self, time: Duration, plan: Plan) {
        self.plans.push((time, plan));
    }

    /// All addresses that a host may have.
    fn addresses(&self, side: Side) -> Vec<IpAddr> {
        let networks = self.networks.iter().enumerate();
        networks
            .flat_map(|(index, network)| {
                addresses_of(side as usize, index, network.is_ipv6, SPARE_ADDRESSES)
            })
            .collect()
    }

    /// Runs until nothing is under way any more.
    fn run_to_rest(world: &mut World) {
        for _ in 0..ROUNDS {
            let time = world.simulation.now() - world.start + ROUND;
            world.run_until(time);
            if [world.client(), world.server()].into_iter().all(is_at_rest) {
                return;
            }
        }
        let hosts = [world.client(), world.server()];
        let status = hosts.map(|host| (host.status(), host.endpoint().statistics().drops));
        panic!("it does not come to rest: {status:#?}");
    }

    /// Once more everything that takes an extension: what was asked for before must not stand in its way.
    fn begin_anew(&self, world: &mut World) {
        let sides = [(Side::Client, world.client), (Side::Server, world.server)];
        let ask = |world: &mut World, host, request: Request| {
            act(&mut world.simulation, host, |host, now| {
                host.ask(now, request.clone());
                let answer = host.log().iter().rev().find_map(|(_, entry)| match entry {
                    Entry::Asked(asked, answer) if *asked == request => Some(answer.clone()),
                    _ => None,
                });
                assert_eq!(answer, Some(Ok(())), "{request:?} at rest");
            });
        };
        let agreed = agreed_extensions(world.client());
        let may_reset = |side: Side| {
            let association = &self.configs[side.other() as usize].association;
            association.re_configuration_policy.reset_streams
        };
        if agreed.re_configuration {
            for (side, host) in sides {
                let reset = StreamReset {
                    outgoing: Some(Vec::new()),
                    incoming: None,
                };
                let expected = if may_reset(side) {
                    ReConfigurationOutcome::Performed
                } else {
                    ReConfigurationOutcome::Denied
                };
                // The first may fail when the peer has never seen the request before it.
                let outcomes = [(); 2].map(|()| {
                    let told = world.simulation.host(host).log().len();
                    ask(world, host, Request::ResetStreams(reset.clone()));
                    Self::run_to_rest(world);
                    let mut log = world.simulation.host(host).log()[told..].iter();
                    log.find_map(|(_, entry)| match entry {
                        Entry::Event(Event::StreamReset { outcome, .. }) => Some(*outcome),
                        _ => None,
                    })
                });
                assert_eq!(outcomes[1], Some(expected), "reset at rest");
            }
        }
        if agreed.authentication {
            for (_, host) in sides {
                ask(world, host, Request::SetActiveKey(0));
            }
            Self::run_to_rest(world);
            for request in [Request::DeactivateKey, Request::DeleteKey] {
                for (_, host) in sides {
                    for key in KEYS {
                        // It is deactivated already, perhaps.
                        act(&mut world.simulation, host, |host, now| {
                            host.ask(now, request(key));
                        });
                    }
                }
                Self::run_to_rest(world);
            }
            for (_, host) in sides {
                for key in KEYS {
                    let host = world.simulation.host(host);
                    let is_deleted = host
                        .log()
                        .iter()
                        .any(|(_, entry)| *entry == Entry::Asked(Request::DeleteKey(key), Ok(())));
                    assert!(is_deleted, "key {key} is still in use");
                }
            }
        }
    }

    /// Whether both sides are of one mind, once nothing is under way.
    fn check_agreement(&self, world: &World) {
        let hosts = [world.client(), world.server()];
        let [client, server] = hosts.map(|host| host.status().expect("it is up"));
        assert_eq!(client.extensions, server.extensions, "extensions");
        assert_eq!(
            client.extensions.intersection(self.common_extensions()),
            client.extensions,
            "only what both offer"
        );
        assert_eq!(client.outbound_streams, server.inbound_streams, "streams");
        assert_eq!(server.outbound_streams, client.inbound_streams, "streams");
        for (host, peer) in [(hosts[0], &server), (hosts[1], &client)] {
            let ours: BTreeSet<IpAddr> = host
                .local_addresses()
                .into_iter()
                .map(|(address, _)| address)
                .collect();
            let paths = peer.paths.iter();
            let theirs: BTreeSet<IpAddr> = paths.map(|path| path.address.remote).collect();
            // A host with one address has told none.
            if !ours.is_empty() {
                assert_eq!(ours, theirs, "addresses");
            }
        }
        for status in [client, server] {
            assert_eq!(status.state, AssociationState::Established);
            let left = [
                status.send_buffer_bytes,
                status.receive_buffer_bytes,
                status.outstanding_bytes,
                status.unacknowledged_chunks,
                status.unsent_messages,
                status.pending_receipt,
            ];
            assert_eq!(left, [0; 6], "{status:?}");
        }
    }
}

impl Seeded for ExtensionScenario {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn world(&self, start: Instant) -> World {
        let [client, server] = &self.configs;
        let layout = Layout {
            networks: &self.networks,
            udp_ports: self.udp_ports,
            configs: [client, server],
            spare_addresses: SPARE_ADDRESSES,
            is_routed: true,
        };
        let mut world = World::of(self.seed, layout, start);
        let schedule = world.generator(0);
        world.simulation.shuffle(schedule);
        for (time, plan) in self.plans.iter().cloned() {
            let ids = [world.client, world.server];
            let host_of = move |side: Side| ids[side as usize];
            match plan {
                Plan::SetUp(network, up) => world.set_up_at(time, network, up),
                Plan::Connect(side, addresses) => world.at(time, move |simulation| {
                    let peer = simulation.host(host_of(side.other())).place().clone();
                    act(simulation, host_of(side), |host, now| {
                        host.connect(now, &peer, addresses);
                    });
                }),
                Plan::Send(side, number) => {
                    let message = self.messages[number].clone();
                    world.at(time, move |simulation| {
                        act(simulation, host_of(side), |host, now| {
                            host.send(now, message);
                        });
                    });
                }
                Plan::Read(side, reading) => world.at(time, move |simulation| {
                    act(simulation, host_of(side), |host, now| {
                        host.set_reading(now, reading);
                    });
                }),
                Plan::Ask(side, request) => world.at(time, move |simulation| {
                    // An address that goes before the peer is up takes the COOKIE ACK with it, and what comes from elsewhere
                    // counts for nothing until then.
                    let peer = simulation.host(host_of(side.other())).status();
                    let is_up =
                        |status: AssociationStatus| status.state == AssociationState::Established;
                    let moves = matches!(request, Request::MoveTo(_) | Request::ChangeAddresses(_));
                    if moves && !peer.is_some_and(is_up) {
                        return;
                    }
                    act(simulation, host_of(side), |host, now| {
                        host.ask(now, request)
                    });
                }),
            }
        }
        world
    }

    fn run(&self, world: &mut World) {
        world.run_until(PLANNED);
        ExtensionScenario::run_to_rest(world);
        self.check_agreement(world);
        self.begin_anew(world);
        self.check_agreement(world);
        let (now, host) = (world.simulation.now(), [world.client, world.server]);
        let host = host[usize::from(self.seed.is_multiple_of(2))];
        act(&mut world.simulation, host, EngineHost::shutdown);
        let end = now - world.start + Duration::from_secs(24 * 3600);
        assert_eq!(world.run_until(end), Stop::Idle, "it ends");
    }
}

fn agreed_extensions(host: &EngineHost) -> Extensions {
    host.status().expect("it is up").extensions
}

/// Whether an association is up, and nothing is under way.
fn is_at_rest(host: &EngineHost) -> bool {
    let is_quiet = |status: AssociationStatus| {
        status.state == AssociationState::Established
            && status.send_buffer_bytes == 0
            && status.unsent_messages == 0
            && status.outstanding_bytes == 0
            && status.unacknowledged_chunks == 0
    };
    let mut addresses = host.local_addresses().into_iter();
    host.status().is_some_and(is_quiet)
        && addresses.all(|(_, state)| state == LocalAddressState::Usable)
}

fn random_extension_config(extensions: Extensions, rng: &mut ChaCha12Rng) -> EndpointConfig {
    let streams = rng.random_range(1..=8);
    let auth_chunks = CHUNKS_TO_AUTHENTICATE.into_iter();
    let auth_chunks = auth_chunks.filter(|_| rng.random_bool(0.4)).collect();
    let config = random_config(rng, true)
        // A shutdown that takes five times as long is cut short.
        .rto_max(Duration::from_secs(20))
        .hb_interval(Duration::from_secs(rng.random_range(1..30)))
        .outbound_streams(streams)
        .max_outbound_streams(12)
        .max_inbound_streams(12)
        .extensions(extensions)
        .auth_chunks(auth_chunks)
        .alternate_error_detection(rng.random_bool(0.8).then_some(ErrorDetectionMethod::Tests))
        .stream_scheduler(pick(rng, &StreamScheduler::ALL))
        .partial_delivery_point(pick(rng, &[3000, 20_000, usize::MAX]))
        .fragment_interleave(rng.random());
    let policy = ReConfigurationPolicy {
        reset_streams: rng.random_bool(0.9),
        reset_association: rng.random_bool(0.8),
        add_streams: rng.random_bool(0.9),
    };
    config.re_configuration_policy(policy)
}

fn random_policy(rng: &mut ChaCha12Rng) -> Option<PrPolicy> {
    match rng.random_range(0..8) {
        0 => Some(PrPolicy::Timed(Duration::from_millis(
            rng.random_range(0..3000),
        ))),
        1 | 2 => Some(PrPolicy::LimitedRetransmissions(rng.random_range(0..3))),
        3 => Some(PrPolicy::Priority(rng.random_range(0..4))),
        4 => Some(PrPolicy::Reliable),
        _ => None,
    }
}

/// Some streams of a direction, all of them, or none.
fn random_streams(count: u16, rng: &mut ChaCha12Rng) -> Option<Vec<u16>> {
    match rng.random_range(0..4) {
        0 => None,
        1 => Some(Vec::new()),
        _ => Some((0..count).filter(|_| rng.random_bool(0.4)).collect()),
    }
}
