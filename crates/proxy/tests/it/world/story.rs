//! One run: who calls whom when, what the networks do, and who is restarted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use link::{Jitter, Link, LinkConfig};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sim::{HostId, Simulation, Stop};

use crate::world::calls::{Outcome, Role};
use crate::world::host::{Host, ip};
use crate::world::phone::Phone;
use crate::world::server::Server;

/// How long things happen.
const ACTION: Duration = Duration::from_secs(120);

/// How long it takes after that until every timer has run out: a call that rings, is given up and hung
/// up takes some minutes, a proxy's Timer C three more.
const REST: Duration = Duration::from_secs(900);

/// Users of each domain.
const USERS: u8 = 4;

const PORT: u16 = 5060;

/// A story that is about to be told.
pub(crate) struct Story {
    seed: u64,
    simulation: Simulation<Host>,
    start: Instant,
    phones: Vec<HostId>,
    servers: Vec<HostId>,
    has_restarts: bool,
    has_trunk: bool,
    has_late_stores: bool,
}

/// What became of the calls of a story.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) established: u64,
    pub(crate) failed: u64,
    /// Messages between the proxies that went over SCTP.
    pub(crate) carried: u64,
    /// Questions that a store has not answered in time.
    pub(crate) given_up: u64,
    outcomes: Vec<(String, Vec<(Role, Outcome)>)>,
}

impl Story {
    /// All that chance decides comes from the seed.
    pub(crate) fn new(seed: u64) -> Story {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let start = Instant::now();
        let mut simulation = Simulation::new(start);
        simulation.shuffle(ChaCha12Rng::from_rng(&mut rng));
        let mut story = Story {
            seed,
            simulation,
            start,
            phones: Vec::new(),
            servers: Vec::new(),
            has_restarts: rng.random_bool(0.5),
            has_trunk: rng.random_bool(0.4),
            has_late_stores: rng.random_bool(0.5),
        };
        story.build(&mut rng);
        story.plan(&mut rng);
        story
    }

    /// Lets it happen and judges the end.
    pub(crate) fn tell(mut self) -> Told {
        let end = self.start + ACTION + REST;
        let stop = self
            .simulation
            .run(end, |_| false)
            .unwrap_or_else(|stalled| panic!("seed {}: {stalled:?}", self.seed));
        assert_eq!(stop, Stop::Idle, "something is still waited for");
        let (mut carried, mut given_up) = (0, 0);
        for &server in &self.servers {
            let server = self.simulation.host(server).server();
            let server = server.expect("it is one");
            server.assert_idle(end);
            carried += server.carried();
            given_up += server.given_up();
        }
        assert!(self.has_trunk || carried == 0);
        let mut calls = BTreeMap::<String, Vec<(Role, Outcome)>>::new();
        for &phone in &self.phones {
            let phone = self.simulation.host(phone).phone().expect("it is one");
            phone.assert_idle();
            for (call_id, role, outcome) in phone.outcomes() {
                calls
                    .entry(call_id.to_owned())
                    .or_default()
                    .push((role, outcome));
            }
        }
        Told {
            carried,
            given_up,
            ..self.judge(calls)
        }
    }

    fn build(&mut self, rng: &mut ChaCha12Rng) {
        let domains = ["a.example", "b.example"];
        let proxies = [1, 2].map(|host| SocketAddr::new(ip(0, host), PORT));
        let names: BTreeMap<String, SocketAddr> = domains
            .iter()
            .map(|domain| (*domain).to_owned())
            .zip(proxies)
            .collect();
        for (domain, address) in domains.iter().zip(proxies) {
            let peer = proxies.into_iter().find(|other| *other != address);
            let surroundings = (peer.filter(|_| self.has_trunk), self.has_late_stores);
            let server = Server::new(address, domain, names.clone(), surroundings, rng);
            let host = Host::Server(Box::new(server));
            self.servers
                .push(self.simulation.add_host(host, &[address.ip()]));
        }
        self.connect(rng, proxies[0], proxies[1]);
        for (network, (domain, proxy)) in (1..).zip(domains.iter().zip(proxies)) {
            for number in 0..USERS {
                // Some users have two phones.
                for phone in 0..rng.random_range(1..=2) {
                    let address = SocketAddr::new(ip(network, 10 * (number + 1) + phone), PORT);
                    let phone = Phone::new(
                        self.start,
                        address,
                        proxy,
                        &format!("user{number}"),
                        domain,
                        ChaCha12Rng::from_rng(rng),
                    );
                    let host = Host::Phone(Box::new(phone));
                    self.phones
                        .push(self.simulation.add_host(host, &[address.ip()]));
                    self.connect(rng, address, proxy);
                }
            }
        }
    }

    fn connect(&mut self, rng: &mut ChaCha12Rng, one: SocketAddr, other: SocketAddr) {
        let config = LinkConfig {
            loss: rng.random_range(0.0..0.15).into(),
            delay: Duration::from_millis(rng.random_range(1..80)),
            jitter: Jitter {
                amount: Duration::from_millis(rng.random_range(0..40)),
                reorders: rng.random_bool(0.5),
                ..Jitter::default()
            },
            duplicate: rng.random_range(0.0..0.05).into(),
            ..LinkConfig::default()
        };
        for (from, to) in [(one, other), (other, one)] {
            let link = Link::new(config.clone(), ChaCha12Rng::from_rng(rng));
            self.simulation.connect(from.ip(), to.ip(), link);
        }
    }

    fn plan(&mut self, rng: &mut ChaCha12Rng) {
        let time = |rng: &mut ChaCha12Rng| {
            self.start + Duration::from_millis(rng.random_range(1_000..ACTION.as_millis() as u64))
        };
        let mut plans = Vec::new();
        for _ in 0..rng.random_range(5..15) {
            let caller = self.phones[rng.random_range(0..self.phones.len())];
            let domain = ["a.example", "b.example"][rng.random_range(0..2)];
            let callee = format!("sip:user{}@{domain}", rng.random_range(0..USERS));
            plans.push((time(rng), Plan::Call(caller, callee)));
        }
        if self.has_restarts {
            for _ in 0..rng.random_range(1..4) {
                let host = match rng.random_bool(0.5) {
                    true => self.servers[rng.random_range(0..self.servers.len())],
                    false => self.phones[rng.random_range(0..self.phones.len())],
                };
                plans.push((time(rng), Plan::Restart(host, rng.random())));
            }
        }
        for &phone in &self.phones {
            plans.push((self.start + ACTION, Plan::GoHome(phone)));
        }
        for (time, plan) in plans {
            self.simulation
                .at(time, move |simulation| plan.carry_out(simulation));
        }
    }

    /// Both sides agree on every call, but for a phone that was restarted and knows nothing.
    fn judge(&self, calls: BTreeMap<String, Vec<(Role, Outcome)>>) -> Told {
        let mut told = Told::default();
        for (call_id, sides) in calls {
            let context = format!("seed {}, call {call_id}: {sides:?}", self.seed);
            let count = |side| sides.iter().filter(|other| **other == side).count();
            let is_established = count((Role::Caller, Outcome::Established));
            let declined = count((Role::Caller, Outcome::Declined));
            let established = count((Role::Callee, Outcome::Established));
            let unacknowledged = count((Role::Callee, Outcome::Unacknowledged));
            let forgotten = sides
                .iter()
                .filter(|(_, outcome)| *outcome == Outcome::Forgotten)
                .count();
            if forgotten == 0 {
                // Whoever believes to have been in a call was heard by the caller ...
                assert!(established <= is_established + declined, "{context}");
                // ... and the caller by somebody.
                assert!(is_established <= established + unacknowledged, "{context}");
            }
            if is_established == 1 && established > 0 {
                told.established += 1;
            } else {
                told.failed += 1;
            }
            told.outcomes.push((call_id, sides));
        }
        told
    }
}

/// Something that happens at a time.
enum Plan {
    Call(HostId, String),
    Restart(HostId, u64),
    GoHome(HostId),
}

impl Plan {
    fn carry_out(self, simulation: &mut Simulation<Host>) {
        let now = simulation.now();
        match self {
            Plan::Call(caller, callee) => {
                if let Host::Phone(phone) = simulation.host_mut(caller) {
                    phone.call(now, &callee);
                }
            }
            Plan::Restart(host, seed) => match simulation.host_mut(host) {
                Host::Phone(phone) => phone.restart(now),
                Host::Server(server) => server.restart(seed),
            },
            Plan::GoHome(phone) => {
                if let Host::Phone(phone) = simulation.host_mut(phone) {
                    phone.go_home();
                }
            }
        }
    }
}
