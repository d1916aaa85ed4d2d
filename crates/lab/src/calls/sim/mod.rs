//! The scenario on a virtual clock: the cores of the proxies, users of our own, and smoltcp's TCP.

mod callees;
mod callers;
mod host;
mod proxy;
mod user;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use link::{Link, LinkConfig};
use sim::{HostId, LinkId, Simulation};

use super::{CallResults, Scenario, TRUNK_DELAY, USER_DELAY};
use crate::context::Context;
use crate::net::Lateness;
use crate::sip_carrier::SIP_PORT;
use callees::Callees;
use callers::Callers;
use host::{Host, Role};
use proxy::ProxyHost;

/// Runs it. All randomness follows from the context and `number`.
pub(super) fn run_scenario(
    context: &Context,
    number: u64,
    scenario: &Scenario,
) -> anyhow::Result<CallResults> {
    let start = Instant::now();
    let mut simulation = Simulation::new(start);
    let mut streams = number << 16..;
    let mut rng = || context.rng(streams.next().unwrap_or_default());

    let near = SiteAddresses::of(1);
    let far = SiteAddresses::of(2);
    let callers = Callers::new(start, &near, &far, scenario, rng());
    let callees = Callees::new(far.user, rng());
    let callers = add(
        &mut simulation,
        Role::Callers(Box::new(callers)),
        &[near.user.ip()],
    );
    add(
        &mut simulation,
        Role::Callees(Box::new(callees)),
        &[far.user.ip()],
    );
    let mut proxies = Vec::new();
    for (own, other) in [(&near, &far), (&far, &near)] {
        let proxy = ProxyHost::new(start, own, other, scenario, rng(), rng());
        let addresses = [own.proxy.ip(), own.trunk[0], own.trunk[1]];
        proxies.push(add(
            &mut simulation,
            Role::Proxy(Box::new(proxy)),
            &addresses,
        ));
    }
    let perfect = |delay| LinkConfig {
        delay,
        ..LinkConfig::default()
    };
    for place in [&near, &far] {
        let [user, proxy] = [place.user.ip(), place.proxy.ip()];
        for (from, to) in [(user, proxy), (proxy, user)] {
            simulation.connect(from, to, Link::new(perfect(USER_DELAY), rng()));
        }
    }
    let config = LinkConfig {
        loss: scenario.loss.into(),
        ..perfect(TRUNK_DELAY)
    };
    let mut first = Vec::new();
    for network in 0..2 {
        let [near, far] = [near.trunk[network], far.trunk[network]];
        for (from, to) in [(near, far), (far, near)] {
            let link = simulation.connect(from, to, Link::new(config.clone(), rng()));
            if network == 0 {
                first.push(link);
            }
        }
    }
    if let Some((from, until)) = scenario.cut {
        plan(&mut simulation, start + from, &first, false);
        plan(&mut simulation, start + until, &first, true);
    }
    // Longer than the last call and every transaction that it may leave (RFC 3261 section 17:
    // 64 times T1, twice), and than the least time after which a proxy gives up an INVITE (16.6).
    let end = start + scenario.lasts + Duration::from_secs(400);
    simulation.run(end, |_| false)?;
    let left = proxies.iter().filter_map(|id| simulation.host(*id).proxy());
    let left = left.map(ProxyHost::under_way).sum();
    let calls = simulation.host(callers).callers().map(Callers::calls);
    Ok(CallResults {
        calls: calls.unwrap_or_default(),
        start,
        left,
        lateness: Lateness::default(),
    })
}

fn add(simulation: &mut Simulation<Host>, role: Role, addresses: &[IpAddr]) -> HostId {
    simulation.add_host(Host::new(role), addresses)
}

fn plan(simulation: &mut Simulation<Host>, at: Instant, links: &[LinkId], up: bool) {
    let links = links.to_vec();
    simulation.at(at, move |simulation| {
        for link in links {
            simulation.network_mut().link_mut(link).set_up(up);
        }
    });
}

/// The addresses of one side.
#[derive(Clone, Copy, Debug)]
struct SiteAddresses {
    user: SocketAddr,
    /// The proxy's, towards its users.
    proxy: SocketAddr,
    /// The proxy's, on the two networks between the proxies.
    trunk: [IpAddr; 2],
}

impl SiteAddresses {
    fn of(side: u8) -> SiteAddresses {
        let address = |network: u8, host: u8| IpAddr::from([10, network, 0, host]);
        SiteAddresses {
            user: SocketAddr::new(address(10 + side, 2), SIP_PORT),
            proxy: SocketAddr::new(address(10 + side, 1), SIP_PORT),
            trunk: [address(1, side), address(2, side)],
        }
    }

    /// Where the proxy listens for the other one.
    fn trunk_listener(&self) -> SocketAddr {
        SocketAddr::new(self.trunk[0], SIP_PORT)
    }
}
