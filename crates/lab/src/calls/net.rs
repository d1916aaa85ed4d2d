//! The same on real sockets: each host a network namespace, the proxies whole with all their drivers, the users
//! those of the load generator, the TCP the kernel's.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use link::LinkConfig;
use load::engine::EngineConfig;
use load::record::{CallRecord, Outcome, Party, Record};
use load::script::Pause;
use load::script::builtin::{AnswerPlan, CallPlan};
use load::{GeneratorConfig, LoadGenerator, LoadModel, LoadPlan, Role};
use proxy::core::{Policy, Relay};
use proxy::{HostPort, ProxyConfig, Server};
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip::Transport;
use sip_net::{Listen, SctpOver, SipNetConfig, StreamPolicy};
use testbed::{Testbed, Topology};
use tokio::runtime::Runtime;
use tokio::time::sleep_until;

use super::{
    Call, CallOutcome, CallResults, HOLD, RINGING, Scenario, TRUNK_DELAY, USER_DELAY, sctp_config,
};
use crate::context::Context;
use crate::net::{Watch, sctp_goes_in_udp, side_by_side};
use crate::sip_carrier::SIP_PORT;

const TOPOLOGY: &str = include_str!("../../topologies/two-proxies.toml");

/// How many scenarios run at once: each takes a small part of a processor.
const AT_ONCE: usize = 6;

/// Users on each side.
const USERS: u32 = 100;

/// The domain of the callees, whose registrar is their proxy.
const DOMAIN: &str = "far.example";

/// How long registrations may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a proxy may have a request after the last call has ended: 64 T1, which is what Timers B, F and H take
/// (RFC 3261 section 17), after a CANCEL once more.
const LAST_REQUEST: Duration = Duration::from_secs(2 * 32);

/// How often it is looked whether one has.
const LOOK: Duration = Duration::from_millis(200);

/// Records that wait for the end of a scenario; many more than there are calls.
const RECORDS: usize = 100_000;

pub(super) fn run_scenarios(
    context: &Context,
    scenarios: &[Scenario],
) -> anyhow::Result<Vec<CallResults>> {
    let watch = Watch::begin()?;
    let results = side_by_side(AT_ONCE, scenarios.len(), |index| {
        let rng = context.rng((index as u64) << 16);
        let results = one(rng, &scenarios[index]);
        context.done();
        results
    });
    let lateness = watch.end();
    let mut results = results?;
    for one in &mut results {
        one.lateness = lateness;
    }
    Ok(results)
}

fn one(mut rng: ChaCha12Rng, scenario: &Scenario) -> anyhow::Result<CallResults> {
    let topology = Topology::parse(TOPOLOGY, &[])?;
    let testbed = Testbed::up(&topology, "lab-calls", rng.next_u64())?;
    let perfect = |delay| LinkConfig {
        delay,
        ..LinkConfig::default()
    };
    for (link, config) in [
        ("callers", perfect(USER_DELAY)),
        ("callees", perfect(USER_DELAY)),
        ("first", trunk(scenario)),
        ("second", trunk(scenario)),
    ] {
        testbed.emulator().set_link(link, None, config)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let scene = Scene {
        testbed,
        runtime,
        scenario,
    };
    let results = scene.run(&mut rng);
    scene.runtime.shutdown_background();
    scene.testbed.down();
    results
}

/// A network between the proxies.
fn trunk(scenario: &Scenario) -> LinkConfig {
    LinkConfig {
        delay: TRUNK_DELAY,
        loss: scenario.loss.into(),
        ..LinkConfig::default()
    }
}

struct Scene<'a> {
    testbed: Testbed,
    runtime: Runtime,
    scenario: &'a Scenario,
}

impl Scene<'_> {
    fn run(&self, rng: &mut ChaCha12Rng) -> anyhow::Result<CallResults> {
        let (near, far) = (
            ProxyAddresses::of_near(&self.testbed)?,
            ProxyAddresses::of_far(&self.testbed)?,
        );
        let proxies = [
            self.on(
                "near",
                Server::start(self.proxy(&near, "near.example", rng)),
            )??,
            self.on("far", Server::start(self.proxy(&far, DOMAIN, rng)))??,
        ];
        let mut callees = self.on("callees", LoadGenerator::start(callees(far.user, rng)?))??;
        let (records, recorded) = sync_channel(RECORDS);
        let callers = GeneratorConfig {
            records: Some(records),
            ..self.callers(&near, &far, rng)?
        };
        let mut callers = self.on("callers", LoadGenerator::start(callers))??;
        let (start, left) = self.runtime.block_on(async {
            let registered = callees.register(None, TIMEOUT).await?;
            anyhow::ensure!(
                registered.registered == USERS,
                "{} of {USERS} callees are registered",
                registered.registered
            );
            let start = Instant::now();
            let control = callees.control();
            let calls = async {
                let outcome = callers.run(self.plan()).await;
                control.end_phase();
                outcome
            };
            let serve = LoadPlan::new(
                GeneratorConfig::CALL,
                LoadModel::Serve {
                    count: None,
                    time: None,
                },
            );
            let (called, served, cut) =
                tokio::join!(calls, callees.run(serve), self.cut_and_mend(start));
            called?;
            served?;
            cut?;
            anyhow::Ok((start, under_way(&proxies).await))
        })?;
        self.runtime.block_on(async {
            callers.shutdown().await;
            callees.shutdown().await;
            for proxy in proxies {
                proxy.shutdown().await;
            }
        });
        let records = recorded.try_iter().flatten();
        let calls = records.filter_map(|record| match record {
            Record::Call(call) if call.attempt.party == Party::Caller => Some(call_of(&call)),
            _ => None,
        });
        let mut calls: Vec<Call> = calls.collect();
        calls.sort_by_key(|call| call.began);
        let expected = self.calls();
        anyhow::ensure!(
            calls.len() as u64 == expected,
            "{} of {expected} calls were begun",
            calls.len()
        );
        Ok(CallResults {
            calls,
            start,
            left,
            lateness: crate::net::Lateness::default(),
        })
    }

    /// Does something whose sockets and threads are to be on a host.
    fn on<T: Send>(&self, host: &str, work: impl Future<Output = T> + Send) -> anyhow::Result<T> {
        let done = self.testbed.run(host, || self.runtime.block_on(work));
        done.with_context(|| format!("on {host}"))
    }

    fn calls(&self) -> u64 {
        (self.scenario.rate * self.scenario.lasts.as_secs_f64()).round() as u64
    }

    fn plan(&self) -> LoadPlan {
        LoadPlan::at_rate(GeneratorConfig::CALL, self.scenario.rate, self.calls())
    }

    async fn cut_and_mend(&self, start: Instant) -> anyhow::Result<()> {
        let Some((cut, mended)) = self.scenario.cut else {
            return Ok(());
        };
        sleep_until((start + cut).into()).await;
        self.testbed.emulator().cut("first")?;
        sleep_until((start + mended).into()).await;
        self.testbed.emulator().heal("first")?;
        Ok(())
    }

    fn proxy(&self, place: &ProxyAddresses, domain: &str, rng: &mut ChaCha12Rng) -> ProxyConfig {
        let listen = |transport, address| Listen { transport, address };
        let over = if sctp_goes_in_udp() {
            SctpOver::Udp
        } else {
            SctpOver::Ip
        };
        let mut policy = Policy::default();
        // The callers are no users of the far proxy.
        policy.forwarding.relay = Relay::Anybody;
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        ProxyConfig {
            transports: SipNetConfig {
                listeners: vec![
                    listen(Transport::Udp, place.user),
                    listen(self.scenario.trunk, place.trunk_listener()),
                ],
                sctp_over: over,
                sctp_addresses: vec![place.trunk.to_vec()],
                stream_policy: StreamPolicy::PerCall,
                sctp: sctp_config(self.scenario.profile),
                ..SipNetConfig::default()
            },
            domains: vec![HostPort {
                host: domain.to_owned(),
                port: None,
            }],
            policy: Arc::new(policy),
            seed: Some(seed),
            ..ProxyConfig::default()
        }
    }

    fn callers(
        &self,
        near: &ProxyAddresses,
        far: &ProxyAddresses,
        rng: &mut ChaCha12Rng,
    ) -> anyhow::Result<GeneratorConfig> {
        let trunk = self.scenario.trunk;
        let mut config = users(Role::Callers, near.user, rng)?;
        config.engine.routes = vec![
            format!("<sip:{};lr>", near.user),
            format!("<sip:{};transport={trunk};lr>", far.trunk_listener()),
        ];
        Ok(config)
    }
}

/// The addresses of a proxy.
struct ProxyAddresses {
    /// Towards its users.
    user: SocketAddr,
    /// On the two networks between the proxies.
    trunk: [IpAddr; 2],
}

impl ProxyAddresses {
    fn of_near(testbed: &Testbed) -> anyhow::Result<ProxyAddresses> {
        match testbed.addresses("near")[..] {
            [user, first, second, ..] => Ok(ProxyAddresses {
                user: SocketAddr::new(user, SIP_PORT),
                trunk: [first, second],
            }),
            _ => anyhow::bail!("the near proxy lacks addresses"),
        }
    }

    fn of_far(testbed: &Testbed) -> anyhow::Result<ProxyAddresses> {
        match testbed.addresses("far")[..] {
            [first, second, user, ..] => Ok(ProxyAddresses {
                user: SocketAddr::new(user, SIP_PORT),
                trunk: [first, second],
            }),
            _ => anyhow::bail!("the far proxy lacks addresses"),
        }
    }

    /// Where the proxy listens for the other one.
    fn trunk_listener(&self) -> SocketAddr {
        SocketAddr::new(self.trunk[0], SIP_PORT)
    }
}

fn callees(proxy: SocketAddr, rng: &mut ChaCha12Rng) -> anyhow::Result<GeneratorConfig> {
    users(Role::Callees, proxy, rng)
}

/// Users who reach a proxy over UDP.
fn users(role: Role, proxy: SocketAddr, rng: &mut ChaCha12Rng) -> anyhow::Result<GeneratorConfig> {
    let call = CallPlan {
        hold: Pause::Fixed(HOLD),
        ..CallPlan::default()
    };
    let answer = AnswerPlan {
        ring: Pause::Fixed(RINGING),
        ..AnswerPlan::default()
    };
    Ok(GeneratorConfig {
        transport: Transport::Udp,
        target: proxy,
        role,
        users: USERS,
        workers: 1,
        engine: EngineConfig {
            domain: DOMAIN.to_owned(),
            ..EngineConfig::default()
        },
        seed: rng.next_u64(),
        ..GeneratorConfig::calls(&call, &answer)?
    })
}

fn call_of(record: &CallRecord) -> Call {
    let attempt = &record.attempt;
    let is_answered = attempt
        .status
        .is_some_and(|status| (200..300).contains(&status));
    let answered = record.answered.filter(|_| is_answered);
    Call {
        began: attempt.begun,
        answered: answered.map(|answered| attempt.begun + answered),
        outcome: match attempt.outcome {
            Outcome::Completed => CallOutcome::Completed,
            Outcome::Unfinished => CallOutcome::UnderWay,
            Outcome::Failed(_) if answered.is_some() => CallOutcome::NotEnded,
            Outcome::Failed(_) => CallOutcome::of_failure(attempt.status),
        },
    }
}

/// Requests that the proxies have under way, once they have had the time to be done with all.
async fn under_way(proxies: &[Server]) -> usize {
    let give_up = Instant::now() + LAST_REQUEST;
    loop {
        let mut left = 0;
        for proxy in proxies {
            left += proxy.statistics().await.proxy.response_contexts;
        }
        if left == 0 || Instant::now() >= give_up {
            return left as usize;
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use test_support::say_skipped;

    use super::*;

    #[test]
    fn calls_are_completed_whatever_is_between_the_proxies() {
        let topology = Topology::parse(TOPOLOGY, &[]).expect("it is ours");
        match Testbed::up(&topology, "lab-try", 1) {
            Ok(testbed) => drop(testbed.down()),
            Err(error) => return say_skipped(&error.to_string()),
        }
        let context = Context::hidden("calls", 1, true);
        let scenarios = [Transport::Udp, Transport::Tcp, Transport::Sctp].map(|trunk| Scenario {
            trunk,
            profile: context.profile(),
            loss: 0.0,
            rate: 10.0,
            lasts: Duration::from_secs(2),
            // What is lost then is sent again, or goes another way.
            cut: Some((Duration::from_millis(500), Duration::from_millis(1500))),
        });
        let results = run_scenarios(&context, &scenarios).expect("it goes on");
        for (scenario, results) in scenarios.iter().zip(&results) {
            let completed = |call: &&Call| call.outcome == CallOutcome::Completed;
            let completed = results.calls.iter().filter(completed).count();
            assert_eq!(completed, 20, "{}: {:?}", scenario.trunk, results.calls);
            let setups = results.calls.iter().filter_map(Call::setup);
            let shortest = setups.min().expect("calls");
            assert!(shortest >= super::super::undisturbed(), "{shortest:?}");
            assert_eq!(results.left, 0);
        }
    }
}
