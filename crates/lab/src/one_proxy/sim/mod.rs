//! The scenario on a virtual clock: users of [`load`], and the core of the proxy.

mod host;
mod registrar;
mod users;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use ::load::record::Record;
use ::load::script::builtin::{AnswerPlan, CallPlan};
use ::load::statistics::Statistics;
use ::sim::{HostId, Sent, Simulation};
use link::{Link, LinkConfig};

use super::{Outcome, REGISTRATION_TIME, Scenario};
use crate::context::Context;
use crate::pair::MTU;
use crate::sip_carrier::packet::Packet;
use crate::sip_carrier::{SIP_PORT, SipCarrier};
use host::Host;
use registrar::RegistrarHost;
use users::{Side, UsersHost};

/// The addresses of the callers, of the proxy and of the callees.
pub(crate) const ADDRESSES: [IpAddr; 3] = [address(1), address(2), address(3)];

const fn address(host: u8) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, host))
}

/// The hosts, and the links between them.
pub(crate) struct OneProxy {
    simulation: Simulation<Host>,
    callers: HostId,
    callees: HostId,
    users: u32,
}

impl OneProxy {
    /// Hosts that know nothing of each other yet. All randomness follows from the context and `number`.
    ///
    /// # Errors
    ///
    /// None that is known: the scripts are ours.
    pub(crate) fn new(
        context: &Context,
        number: u64,
        scenario: &Scenario,
        plans: (&CallPlan, &AnswerPlan),
    ) -> anyhow::Result<OneProxy> {
        let start = Instant::now();
        let mut simulation = Simulation::new(start);
        let mut streams = number << 16..;
        let mut rng = || context.rng(streams.next().unwrap_or_default());
        let transport = scenario.way.transport();
        let sctp = scenario.way.sctp_config(scenario.users).mtu(MTU);
        let [callers, proxy, callees] = ADDRESSES;
        let registrar = RegistrarHost::new(
            transport,
            SipCarrier::new(
                start,
                transport,
                &sctp,
                &[proxy],
                &[&[callers], &[callees]],
                rng(),
            ),
            rng(),
        );
        simulation.add_host(Host::Registrar(Box::new(registrar)), &[proxy]);
        let mut side = |side, own: IpAddr| {
            let carrier = SipCarrier::new(start, transport, &sctp, &[own], &[&[proxy]], rng());
            let users = UsersHost::new(
                start,
                side,
                scenario,
                carrier,
                SocketAddr::new(proxy, SIP_PORT),
                plans,
                rng(),
            )?;
            anyhow::Ok(simulation.add_host(Host::Users(Box::new(users)), &[own]))
        };
        let [caller_host, callee_host] =
            [side(Side::Callers, callers)?, side(Side::Callees, callees)?];
        let config = LinkConfig {
            delay: scenario.delay,
            loss: scenario.loss.into(),
            ..LinkConfig::default()
        };
        for user in [callers, callees] {
            for (from, to) in [(user, proxy), (proxy, user)] {
                simulation.connect(from, to, Link::new(config.clone(), rng()));
            }
        }
        Ok(OneProxy {
            simulation,
            callers: caller_host,
            callees: callee_host,
            users: scenario.users,
        })
    }

    /// Keeps all packets from now on.
    pub(crate) fn record(&mut self) {
        self.simulation.record();
    }

    /// The packets so far.
    pub(crate) fn trace(&self) -> &[Sent<Packet>] {
        self.simulation.trace()
    }

    /// All users register now; those who are registered do it again.
    pub(crate) fn begin_registration(&mut self) {
        let now = self.simulation.now();
        for side in [self.callers, self.callees] {
            self.users_mut(side).register(now);
        }
    }

    /// Registers all users, and waits until they are or the time for that is over. Returns how many are.
    ///
    /// # Errors
    ///
    /// When the hosts never rest.
    pub(crate) fn register(&mut self) -> anyhow::Result<u32> {
        self.begin_registration();
        let now = self.simulation.now();
        let (callers, callees, all) = (self.callers, self.callees, 2 * self.users);
        let registered = |simulation: &Simulation<Host>| {
            let sides = [callers, callees].map(|side| simulation.host(side).registered());
            sides.iter().sum::<u32>()
        };
        self.simulation.run(now + REGISTRATION_TIME, |simulation| {
            registered(simulation) == all
        })?;
        Ok(registered(&self.simulation))
    }

    /// Lets each caller call again and again, for so long or until each has made so many calls.
    ///
    /// # Errors
    ///
    /// When the hosts never rest.
    pub(crate) fn call(&mut self, lasts: Duration, each: Option<u64>) -> anyhow::Result<()> {
        let now = self.simulation.now();
        let users = u64::from(self.users);
        self.users_mut(self.callers)
            .call(now, each.map(|each| each * users));
        let (callers, target) = (self.callers, each.map(|each| each * users));
        self.simulation.run(now + lasts, |simulation| {
            target.is_some_and(|target| simulation.host(callers).calls_ended() >= target)
        })?;
        Ok(())
    }

    /// Lets so much time pass.
    ///
    /// # Errors
    ///
    /// When the hosts never rest.
    pub(crate) fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        let now = self.simulation.now();
        self.simulation.run(now + time, |_| false)?;
        Ok(())
    }

    /// What has become of what the callers did, since this was asked for last.
    pub(crate) fn take_records(&mut self) -> Vec<Record> {
        self.users_mut(self.callers).take_records()
    }

    fn users_mut(&mut self, side: HostId) -> &mut UsersHost {
        match self.simulation.host_mut(side) {
            Host::Users(users) => users,
            Host::Registrar(_) => unreachable!("callers and callees are users"),
        }
    }
}

/// Runs a scenario. All randomness follows from the context and `number`.
///
/// # Errors
///
/// When the hosts never rest.
pub(crate) fn run(context: &Context, number: u64, scenario: &Scenario) -> anyhow::Result<Outcome> {
    let mut hosts = OneProxy::new(
        context,
        number,
        scenario,
        (&CallPlan::default(), &AnswerPlan::default()),
    )?;
    let registered = hosts.register()?;
    hosts.take_records();
    let started = hosts.simulation.now();
    hosts.call(scenario.lasts, None)?;
    let mut calls = Statistics::new(started, Duration::from_secs(1));
    for record in hosts.take_records() {
        calls.record(&record);
    }
    Ok(Outcome {
        registered,
        calls,
        time: scenario.lasts,
    })
}
