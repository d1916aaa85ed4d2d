//! The plan on simulated hosts.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use link::{Link, LinkConfig};
use m3ua::PeerId;
use rand::RngExt;
use sctp::EndpointConfig;
use sim::{HostId, LinkId, Simulation};

use super::cluster::{
    Arrival, Handed, NETWORK, PROCESSES, SERVER, SGPS, engine, is_sgp, peers_of, since,
};
use super::host::SignallingHost;
use super::observation::Observation;
use super::plan::{CUT_ASP, INTERVAL, KILLED_ASP, KILLED_SGP, Plan, Users};
use super::{DELAY, Watch};
use crate::context::Context;

/// Networks that each host is on.
const NETWORKS: u8 = 2;

/// After the last message, so that all that was said can arrive.
const SILENCE: Duration = Duration::from_secs(5);

pub(super) fn observe(context: &Context, trial: u64, watch: &Watch) -> anyhow::Result<Observation> {
    let mut chance = context.rng(trial << 8);
    let plan = Plan::new(|| chance.random::<f64>());
    let mut world = World::new(context, trial, watch)?;
    let mut users = Users::default();
    let mut observation = Observation {
        plan,
        handed: Vec::new(),
        refused: 0,
        arrivals: Vec::new(),
        lost: Vec::new(),
        news: Vec::new(),
    };
    let mut events = world.events(&plan);
    let mut tick = plan.begin;
    while tick < plan.end {
        while events.front().is_some_and(|(at, _)| *at <= tick) {
            let Some((at, event)) = events.pop_front() else {
                break;
            };
            world.run_until(at)?;
            world.happen(event);
        }
        world.run_until(tick)?;
        for handed in users.tick(&plan, tick) {
            match world.hand_over(&handed)? {
                true => observation.handed.push(handed),
                false => observation.refused += 1,
            }
        }
        tick += INTERVAL;
    }
    world.run_until(plan.end + SILENCE)?;
    world.collect(&mut observation);
    Ok(observation)
}

/// Something of the plan.
#[derive(Clone, Copy, Debug)]
enum Event {
    Path { host: usize, is_up: bool },
    Dies(usize),
    Inactive,
    Active,
}

struct World {
    simulation: Simulation<SignallingHost>,
    start: Instant,
    hosts: Vec<HostId>,
    /// With the hosts at its ends and its network.
    links: Vec<(LinkId, [usize; 2], u8)>,
}

impl World {
    fn new(context: &Context, trial: u64, watch: &Watch) -> anyhow::Result<World> {
        let start = Instant::now();
        let mut simulation = Simulation::new(start);
        let mut streams = (trial << 8) + 1..;
        let mut rng = || context.rng(streams.next().unwrap_or_default());
        let mut config = EndpointConfig::default().path_mtu_discovery(false);
        if let Some(errors) = watch.association_errors {
            config.association.association_max_retrans = errors;
        }
        let mut hosts = Vec::new();
        for process in 0..PROCESSES {
            let host = SignallingHost::new(
                process,
                engine(process, watch.t_beat)?,
                config.clone(),
                rng().random(),
                addresses,
                start,
            );
            hosts.push(simulation.add_host(host, &addresses(process)));
        }
        let mut links = Vec::new();
        for sgp in 0..SGPS {
            for asp in peers_of(sgp) {
                for network in 0..NETWORKS {
                    for (from, to) in [(sgp, asp), (asp, sgp)] {
                        let delay = LinkConfig {
                            delay: DELAY,
                            ..LinkConfig::default()
                        };
                        let link = simulation.connect(
                            address(network, from),
                            address(network, to),
                            Link::new(delay, rng()),
                        );
                        links.push((link, [from, to], network));
                    }
                }
            }
        }
        Ok(World {
            simulation,
            start,
            hosts,
            links,
        })
    }

    fn events(&self, plan: &Plan) -> std::collections::VecDeque<(Duration, Event)> {
        let path = |is_up| Event::Path {
            host: CUT_ASP,
            is_up,
        };
        [
            (plan.cut, path(false)),
            (plan.mended, path(true)),
            (plan.asp_killed, Event::Dies(KILLED_ASP)),
            (plan.sgp_killed, Event::Dies(KILLED_SGP)),
            (plan.withdrawn, Event::Inactive),
            (plan.returned, Event::Active),
            (plan.abandoned, Event::Inactive),
        ]
        .into()
    }

    fn run_until(&mut self, after: Duration) -> anyhow::Result<()> {
        self.simulation.run(self.start + after, |_| false)?;
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Path { host, is_up } => {
                self.set_links(is_up, |ends, network| ends.contains(&host) && network == 0);
            }
            Event::Dies(host) => self.set_links(false, |ends, _| ends.contains(&host)),
            Event::Inactive => {
                for process in (0..PROCESSES).filter(|it| !is_sgp(*it) && *it != KILLED_ASP) {
                    self.host(process, |host, now| {
                        host.act(now, |engine, now| engine.asp_inactive(now, None, SERVER));
                    });
                }
            }
            Event::Active => self.host(CUT_ASP, |host, now| {
                host.act(now, |engine, now| engine.asp_active(now, None, SERVER));
            }),
        }
    }

    fn set_links(&mut self, is_up: bool, which: impl Fn(&[usize; 2], u8) -> bool) {
        let network = self.simulation.network_mut();
        for (link, ends, number) in &self.links {
            if which(ends, *number) {
                network.link_mut(*link).set_up(is_up);
            }
        }
    }

    fn host<R>(
        &mut self,
        process: usize,
        act: impl FnOnce(&mut SignallingHost, Instant) -> R,
    ) -> R {
        let now = self.simulation.now();
        act(self.simulation.host_mut(self.hosts[process]), now)
    }

    /// Whether the process takes it.
    fn hand_over(&mut self, handed: &Handed) -> anyhow::Result<bool> {
        let message = handed.text.to_message()?;
        Ok(self.host(handed.process, |host, now| {
            host.act(now, |engine, _| engine.transfer(NETWORK, message).is_ok())
        }))
    }

    fn collect(&self, observation: &mut Observation) {
        for (process, id) in self.hosts.iter().enumerate() {
            let host = self.simulation.host(*id);
            let arrivals = host.arrivals.iter().map(|(at, text)| Arrival {
                at: since(self.start, *at),
                process,
                text: *text,
            });
            observation.arrivals.extend(arrivals);
            let peers = peers_of(process).start;
            let lost = host.lost.iter();
            let lost =
                lost.map(|(at, PeerId(peer))| (since(self.start, *at), process, peers + peer));
            observation.lost.extend(lost);
            let news = host.news.iter();
            let news = news.map(|(at, news)| (since(self.start, *at), process, news.clone()));
            observation.news.extend(news);
        }
        observation.arrivals.sort_by_key(|it| it.at);
        observation.lost.sort_by_key(|it| it.0);
        observation.news.sort_by_key(|it| it.0);
    }
}

fn addresses(process: usize) -> Vec<IpAddr> {
    (0..NETWORKS)
        .map(|network| address(network, process))
        .collect()
}

fn address(network: u8, process: usize) -> IpAddr {
    Ipv4Addr::new(10, network, 0, process as u8 + 1).into()
}
