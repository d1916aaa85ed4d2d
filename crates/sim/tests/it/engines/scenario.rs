//! What happens under a seed.

use crate::engines::host::{EngineHost, Message};
use crate::engines::seeds::Seeded;
use crate::engines::world::{Layout, Network, World};
use bytes::Bytes;
use link::{Bottleneck, Jitter, LinkConfig, Rate};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sctp::{
    AssociationState, BufferSplitting, CongestionControl, EndpointConfig, LossDetection,
    PathScheduler, SendInfo,
};
use sim::{HostId, Mtu, Simulation, Stop};
use std::time::{Duration, Instant};

/// The largest message: two of them fill the smallest window, and it takes many packets.
pub(crate) const LARGEST_MESSAGE: usize = 70_000;

/// The PPIDs of messages are their numbers, from this one on: lower ones mean something to tshark.
pub(crate) const FIRST_PPID: u32 = 1_000_000;

/// Everything that is planned happens within this time, a cut may last longer.
pub(crate) const PLANNED: Duration = Duration::from_secs(30);

/// Time between two attempts to end what is still there, and how often that is tried. The
/// retransmissions of a run with much loss can take hours.
const ROUND: Duration = Duration::from_secs(1000);
const ROUNDS: u32 = 1000;

/// The two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Client,
    Server,
}

/// Networks, engines, and what is planned.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    seed: u64,
    networks: Vec<Network>,
    /// Whether both hosts speak over UDP.
    udp_ports: [Option<u16>; 2],
    pub(crate) config: EndpointConfig,
    /// Whether no path is cut for ever and nobody gives up: then everything sent arrives, unless a
    /// user wants it otherwise.
    pub(crate) is_gentle: bool,
    plans: Vec<(Duration, Plan)>,
    pub(crate) messages: Vec<Message>,
}

/// What is done at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// Opens an association with so many addresses of the peer.
    Connect(Side, usize),
    /// Sends the message of that number.
    Send(Side, usize),
    Read(Side, bool),
    Shutdown(Side),
    Abort(Side),
    Restart(Side),
    /// Cuts or mends a network.
    SetUp(usize, bool),
}

impl Scenario {
    pub(crate) fn of_seed(seed: u64) -> Scenario {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let rng = &mut rng;
        let is_gentle = rng.random_bool(0.5);
        let networks: Vec<Network> = (0..rng.random_range(1..=3))
            .map(|_| random_network(rng, is_gentle))
            .collect();
        let udp_ports = match rng.random_range(0..3) {
            0 => [Some(9899), Some(9899)],
            1 => [Some(9900), Some(9899)],
            _ => [None; 2],
        };
        let mut config = random_config(rng, is_gentle);
        // Without it nothing large would ever get through a small MTU.
        config.association.path.path_mtu_discovery |=
            is_gentle && networks.iter().any(|network| network.mtu.is_some());
        let mut scenario = Scenario {
            seed,
            networks,
            udp_ports,
            config,
            is_gentle,
            plans: Vec::new(),
            messages: Vec::new(),
        };
        scenario.plan_associations(rng);
        scenario.plan_messages(rng);
        scenario.plan_cuts(rng);
        scenario.plan_ends(rng);
        if scenario.has_restart() {
            // A cookie of an earlier life is never answered: somebody has to give up.
            scenario.config.association.max_init_retransmits =
                EndpointConfig::default().association.max_init_retransmits;
        }
        scenario.plans.sort_by_key(|&(time, _)| time);
        scenario
    }

    /// One with small buffers, readers that sleep for up to hours, and ends while much is under way.
    pub(crate) fn of_ends(seed: u64) -> Scenario {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let rng = &mut rng;
        let networks = (0..rng.random_range(1..=2))
            .map(|_| random_network(rng, false))
            .collect();
        let config = random_config(rng, false);
        let rto_min = config.association.path.rto_min;
        let config = config
            .rto_max(rto_min + Duration::from_secs(rng.random_range(0..60)))
            .a_rwnd(pick(rng, &[LARGEST_MESSAGE as u32, 100_000, 200_000]))
            .max_received_messages(pick(rng, &[200, 1000, 1 << 15]))
            .send_buffer(pick(rng, &[LARGEST_MESSAGE, 3 * LARGEST_MESSAGE, 1 << 20]))
            .path_mtu_discovery(true);
        let mut scenario = Scenario {
            seed,
            networks,
            udp_ports: [None; 2],
            config,
            is_gentle: false,
            plans: Vec::new(),
            messages: Vec::new(),
        };
        scenario.plan_associations(rng);
        for side in [Side::Client, Side::Server] {
            for _ in 0..rng.random_range(0..40) {
                let time = random_time(rng);
                scenario.plan_message(time, side, rng);
            }
            if rng.random_bool(0.6) && !scenario.has_restart() {
                let time = random_time(rng);
                let pause = Duration::from_secs_f64(rng.random_range(0.0..14.0_f64).exp2());
                scenario.plans.push((time, Plan::Read(side, false)));
                scenario.plans.push((time + pause, Plan::Read(side, true)));
            }
            match rng.random_range(0..6) {
                0..3 => {
                    let end = (random_time(rng), Plan::Shutdown(side));
                    scenario.plans.push(end);
                }
                3 => scenario.plans.push((random_time(rng), Plan::Abort(side))),
                _ => {}
            }
        }
        scenario.plans.sort_by_key(|&(time, _)| time);
        scenario
    }

    /// Whether a host restarts.
    fn has_restart(&self) -> bool {
        self.plans
            .iter()
            .any(|(_, plan)| matches!(plan, Plan::Restart(_)))
    }

    /// Whether a user ends an association before all that was planned is done.
    pub(crate) fn has_early_end(&self) -> bool {
        self.plans
            .iter()
            .any(|(_, plan)| matches!(plan, Plan::Abort(_) | Plan::Shutdown(_)))
    }

    /// Whether there may be more than one association: a host restarts, or both call and the call
    /// of one outlives that of the other.
    pub(crate) fn may_begin_again(&self) -> bool {
        let plans = self.plans.iter();
        let calls = plans.filter(|(_, plan)| matches!(plan, Plan::Connect(..)));
        self.has_restart() || (calls.count() > 1 && self.has_early_end())
    }

    /// Who hangs up when all else is done: the client, the server, or both.
    fn ends(&self, side: Side) -> bool {
        match self.seed % 3 {
            0 => side == Side::Client,
            1 => side == Side::Server,
            _ => true,
        }
    }

    fn plan_associations(&mut self, rng: &mut ChaCha12Rng) {
        let addresses = rng.random_range(1..=self.networks.len());
        let begin = Duration::ZERO;
        self.plans
            .push((begin, Plan::Connect(Side::Client, addresses)));
        if rng.random_bool(0.2) {
            // Both at once, or nearly so.
            let time = Duration::from_millis(rng.random_range(0..200));
            self.plans
                .push((time, Plan::Connect(Side::Server, addresses)));
        }
        if rng.random_bool(0.2) {
            let side = random_side(rng);
            let time = random_time(rng);
            self.plans.push((time, Plan::Restart(side)));
            for side in [side, side.other()] {
                if rng.random_bool(0.5) {
                    let later = time + Duration::from_millis(rng.random_range(0..5000));
                    self.plans.push((later, Plan::Connect(side, addresses)));
                }
            }
        }
    }

    fn plan_messages(&mut self, rng: &mut ChaCha12Rng) {
        for side in [Side::Client, Side::Server] {
            // Some at once, the others over the time.
            let at_once = rng.random_bool(0.5);
            for _ in 0..rng.random_range(0..30) {
                let time = if at_once {
                    Duration::from_millis(1)
                } else {
                    random_time(rng)
                };
                self.plan_message(time, side, rng);
            }
            // Who does not read cannot tell what came before a restart from what came after it.
            if rng.random_bool(0.2) && !self.has_restart() {
                let time = random_time(rng);
                let later = time + Duration::from_millis(rng.random_range(0..20_000));
                self.plans.push((time, Plan::Read(side, false)));
                self.plans
                    .push((later.min(PLANNED), Plan::Read(side, true)));
            }
        }
    }

    fn plan_message(&mut self, time: Duration, side: Side, rng: &mut ChaCha12Rng) {
        let number = self.messages.len();
        let mut payload = vec![0; random_size(rng)];
        rng.fill_bytes(&mut payload);
        let info = SendInfo {
            stream: rng.random_range(0..self.config.association.outbound_streams),
            ppid: FIRST_PPID + number as u32,
            unordered: rng.random_bool(0.3),
            sack_immediately: rng.random_bool(0.1),
            unbundled: rng.random_bool(0.1),
            ..SendInfo::default()
        };
        self.plans.push((time, Plan::Send(side, number)));
        self.messages.push(Message {
            info,
            payload: Bytes::from(payload),
        });
    }

    fn plan_cuts(&mut self, rng: &mut ChaCha12Rng) {
        for _ in 0..rng.random_range(0..4) {
            let network = rng.random_range(0..self.networks.len());
            let time = random_time(rng);
            let later = time + Duration::from_millis(rng.random_range(10..60_000));
            self.plans.push((time, Plan::SetUp(network, false)));
            if self.is_gentle || rng.random_bool(0.7) {
                self.plans.push((later, Plan::SetUp(network, true)));
            }
        }
    }

    fn plan_ends(&mut self, rng: &mut ChaCha12Rng) {
        match rng.random_range(0..10) {
            0 => self
                .plans
                .push((random_time(rng), Plan::Abort(random_side(rng)))),
            1 | 2 => self
                .plans
                .push((random_time(rng), Plan::Shutdown(random_side(rng)))),
            3 => {
                let time = random_time(rng);
                let gap = Duration::from_millis(rng.random_range(0..200));
                let side = random_side(rng);
                self.plans.push((time, Plan::Shutdown(side)));
                self.plans.push((time + gap, Plan::Shutdown(side.other())));
            }
            _ => {}
        }
    }
}

impl Seeded for Scenario {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn world(&self, start: Instant) -> World {
        let layout = Layout {
            networks: &self.networks,
            udp_ports: self.udp_ports,
            configs: [&self.config; 2],
            spare_addresses: 0,
            is_routed: false,
        };
        let mut world = World::of(self.seed, layout, start);
        let schedule = world.generator(0);
        world.simulation.shuffle(schedule);
        for (number, (time, plan)) in (1..).zip(self.plans.iter().copied()) {
            let ids = [world.client, world.server];
            let host_of = move |side: Side| ids[side as usize];
            let message = match plan {
                Plan::Send(_, number) => self.messages.get(number).cloned(),
                _ => None,
            };
            let rng = world.generator(number);
            match plan {
                Plan::SetUp(network, up) => world.set_up_at(time, network, up),
                Plan::Connect(side, addresses) => world.at(time, move |simulation| {
                    let peer = simulation.host(host_of(side.other())).place().clone();
                    act(simulation, host_of(side), |host, now| {
                        host.connect(now, &peer, addresses);
                    });
                }),
                Plan::Send(side, _) => world.at(time, move |simulation| {
                    act(simulation, host_of(side), |host, now| {
                        host.send(now, message.expect("it was drawn"));
                    });
                }),
                Plan::Read(side, reading) => world.at(time, move |simulation| {
                    act(simulation, host_of(side), |host, now| {
                        host.set_reading(now, reading);
                    });
                }),
                Plan::Shutdown(side) => world.at(time, move |simulation| {
                    act(simulation, host_of(side), EngineHost::shutdown);
                }),
                Plan::Abort(side) => world.at(time, move |simulation| {
                    act(simulation, host_of(side), EngineHost::abort);
                }),
                Plan::Restart(side) => world.at(time, move |simulation| {
                    act(simulation, host_of(side), |host, now| {
                        host.restart(now, rng)
                    });
                }),
            }
        }
        world
    }

    /// Runs what is planned, and then to the end of all associations: users hang up, in the end
    /// also those who did not want to.
    fn run(&self, world: &mut World) {
        let sides = [(Side::Client, world.client), (Side::Server, world.server)];
        let mut time = PLANNED;
        for round in 0..ROUNDS {
            time += ROUND;
            let is_idle = world.run_until(time) == Stop::Idle;
            let mut hosts = sides.iter().map(|&(_, host)| world.simulation.host(host));
            if is_idle && hosts.all(|host| host.endpoint().association_count() == 0) {
                return;
            }
            for (side, host) in sides {
                let status = world.simulation.host(host).status();
                let is_up =
                    status.map(|status| status.state) == Some(AssociationState::Established);
                let may_end = self.ends(side) || is_idle || round >= ROUNDS / 2;
                if is_up && may_end {
                    act(&mut world.simulation, host, EngineHost::shutdown);
                }
            }
        }
    }
}

impl Side {
    pub(crate) fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

pub(crate) fn act(
    simulation: &mut Simulation<EngineHost>,
    host: HostId,
    action: impl FnOnce(&mut EngineHost, Instant),
) {
    let now = simulation.now();
    action(simulation.host_mut(host), now);
}

pub(crate) fn random_network(rng: &mut ChaCha12Rng, is_gentle: bool) -> Network {
    let mtu = rng.random_bool(0.3).then(|| Mtu {
        bytes: rng.random_range(1280..=1500),
        tells_sender: rng.random(),
    });
    Network {
        there: random_link(rng, is_gentle),
        back: random_link(rng, is_gentle),
        mtu,
        is_ipv6: rng.random_bool(0.3),
    }
}

fn random_link(rng: &mut ChaCha12Rng, is_gentle: bool) -> LinkConfig {
    let delay = Duration::from_micros(rng.random_range(100..100_000));
    let bottleneck = rng.random_bool(0.3).then(|| Bottleneck {
        rate: Rate::Constant(rng.random_range(500_000..100_000_000)),
        queue_packets: rng.random_range(5..200),
        queue_bytes: 1 << 20,
        ..Bottleneck::new(0)
    });
    let most_loss = if is_gentle { 0.1 } else { 0.3 };
    LinkConfig {
        bottleneck,
        loss: rng.random_range(0.0..=most_loss).into(),
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

pub(crate) fn random_config(rng: &mut ChaCha12Rng, is_gentle: bool) -> EndpointConfig {
    let default = EndpointConfig::default();
    let config = default
        .rto_initial(Duration::from_millis(rng.random_range(200..3000)))
        .rto_min(Duration::from_millis(rng.random_range(50..1000)))
        .mtu(rng.random_range(576..=1500))
        .path_mtu_discovery(rng.random_bool(0.7))
        .a_rwnd(pick(rng, &[LARGEST_MESSAGE as u32, 200_000, 1 << 20]))
        .send_buffer(pick(rng, &[2 * LARGEST_MESSAGE, 1 << 20, 8 << 20]))
        .outbound_streams(rng.random_range(1..=20))
        .nodelay(rng.random())
        .bundling(rng.random_bool(0.8))
        .sack_frequency(rng.random_range(1..=4))
        .sack_delay(Duration::from_millis(rng.random_range(0..=500)))
        .heartbeats(rng.random_bool(0.9))
        .hb_interval(Duration::from_millis(rng.random_range(100..30_000)))
        .potentially_failed(rng.random_bool(0.7))
        .potentially_failed_max_retrans(rng.random_range(0..3))
        .primary_switchover_max_retrans(rng.random_bool(0.2).then_some(3))
        .max_message_size(LARGEST_MESSAGE)
        .loss_detection(pick(rng, &LossDetection::ALL))
        .early_retransmit(rng.random())
        .prr(rng.random())
        .f_rto(rng.random())
        .rto_restart(rng.random())
        .thin_linear_timeouts(rng.random())
        .thin_alternate_path(rng.random())
        .cmt(rng.random_bool(0.3))
        .path_scheduler(pick(rng, &PathScheduler::ALL))
        .buffer_splitting(pick(rng, &BufferSplitting::ALL))
        .congestion_control(pick(rng, &CongestionControl::ALL));
    if !is_gentle {
        return config
            .association_max_retrans(rng.random_range(3..=10))
            .path_max_retrans(rng.random_range(1..=5));
    }
    // With the limits of the RFC an association would now and then be given up rightly, or cut
    // short in its shutdown by T5-shutdown-guard, which is five times RTO.Max.
    config
        .association_max_retrans(1000)
        .max_init_retransmits(1000)
        .valid_cookie_life(Duration::from_secs(60 * 60))
        .rto_max(Duration::from_secs(60 * 60))
        // A peer that is silent for an hour at the end must not cost days.
        .heartbeats(true)
}

pub(crate) fn random_side(rng: &mut ChaCha12Rng) -> Side {
    pick(rng, &[Side::Client, Side::Server])
}

pub(crate) fn random_time(rng: &mut ChaCha12Rng) -> Duration {
    Duration::from_millis(rng.random_range(0..PLANNED.as_millis() as u64))
}

/// From 1 byte to the largest, every order of magnitude as likely as the others, and now and then
/// exactly one of the two ends.
pub(crate) fn random_size(rng: &mut ChaCha12Rng) -> usize {
    match rng.random_range(0..20) {
        0 => 1,
        1 => LARGEST_MESSAGE,
        _ => rng.random_range(0.0..16.0_f64).exp2() as usize,
    }
}

pub(crate) fn pick<T: Copy>(rng: &mut ChaCha12Rng, choices: &[T]) -> T {
    choices[rng.random_range(0..choices.len())]
}
