//! The scenario on real hosts: the whole proxy, users of `tandem load`, and the kernel's TCP.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use link::LinkConfig;
use load::driver::Connections;
use load::engine::{EngineConfig, RegistrationPlan};
use load::script::builtin::{AnswerPlan, CallPlan};
use load::{GeneratorConfig, LoadGenerator, LoadModel, LoadPlan, Role};
use proxy::{HostPort, ProxyConfig, Server};
use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip_net::{Listen, SctpOver, SipNetConfig, StreamPolicy};
use testbed::{Testbed, Topology};
use tokio::runtime::Runtime;

use super::{Outcome, REGISTRATION_TIME, Scenario};
use crate::context::Context;
use crate::net::{sctp_goes_in_udp, side_by_side};
use crate::sip_carrier::SIP_PORT;

const TOPOLOGY: &str = include_str!("../../topologies/one-proxy.toml");

/// How many scenarios run at once: with loss each takes a small part of a processor.
const AT_ONCE: usize = 4;

/// The users' domain.
const DOMAIN: &str = "lab.example";

/// How long users try to connect: INIT and COOKIE ECHO are repeated after 1, 2, 4, 8 … s (RFC 9260 section 5.1).
const CONNECT_TIME: Duration = Duration::from_secs(60);

/// Runs the scenarios, some at a time, and returns their outcomes in order. Each that ends is a step done.
///
/// # Errors
///
/// When there can be no network, or a proxy or user does not start.
pub(crate) fn run_all(context: &Context, scenarios: &[Scenario]) -> anyhow::Result<Vec<Outcome>> {
    side_by_side(AT_ONCE, scenarios.len(), |index| {
        let rng = context.rng((index as u64) << 16);
        let outcome = one(rng, &scenarios[index]).with_context(|| {
            format!(
                "{} at {}",
                scenarios[index].way.name(),
                scenarios[index].loss
            )
        });
        context.done();
        outcome
    })
}

fn one(mut rng: ChaCha12Rng, scenario: &Scenario) -> anyhow::Result<Outcome> {
    let topology = Topology::parse(TOPOLOGY, &[])?;
    let testbed = Testbed::up(&topology, "lab-one-proxy", rng.next_u64())?;
    for link in ["callers", "callees"] {
        let config = LinkConfig {
            delay: scenario.delay,
            loss: scenario.loss.into(),
            ..LinkConfig::default()
        };
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
    let outcome = scene.run(&mut rng);
    scene.runtime.shutdown_background();
    scene.testbed.down();
    outcome
}

struct Scene<'a> {
    testbed: Testbed,
    runtime: Runtime,
    scenario: &'a Scenario,
}

impl Scene<'_> {
    fn run(&self, rng: &mut ChaCha12Rng) -> anyhow::Result<Outcome> {
        let addresses = self.testbed.addresses("proxy");
        let address = addresses.first().context("the proxy has no address")?;
        let address = SocketAddr::new(*address, SIP_PORT);
        let proxy = self.on("proxy", Server::start(self.proxy(address, rng)))??;
        let callers = self.users(Role::Callers, address, rng)?;
        let callees = self.users(Role::Callees, address, rng)?;
        let mut callees = self.on("callees", LoadGenerator::start(callees))??;
        let mut callers = self.on("callers", LoadGenerator::start(callers))??;
        let outcome = self.runtime.block_on(async {
            let (of_callees, of_callers) = tokio::join!(
                callees.register(None, REGISTRATION_TIME),
                callers.register(None, REGISTRATION_TIME)
            );
            let registered = of_callees?.registered + of_callers?.registered;
            let started = Instant::now();
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
            let (called, served) = tokio::join!(calls, callees.run(serve));
            served?;
            anyhow::Ok(Outcome {
                registered,
                calls: called?.statistics,
                time: started.elapsed(),
            })
        });
        self.runtime.block_on(async {
            callers.shutdown().await;
            callees.shutdown().await;
            proxy.shutdown().await;
        });
        outcome
    }

    /// Does something whose sockets and threads are to be on a host.
    fn on<T: Send>(&self, host: &str, work: impl Future<Output = T> + Send) -> anyhow::Result<T> {
        let done = self.testbed.run(host, || self.runtime.block_on(work));
        done.with_context(|| format!("on {host}"))
    }

    fn plan(&self) -> LoadPlan {
        let pace = LoadModel::Closed {
            count: None,
            time: Some(self.scenario.lasts),
        };
        LoadPlan {
            drain: Some(Duration::ZERO),
            ..LoadPlan::new(GeneratorConfig::CALL, pace)
        }
    }

    fn transports(&self) -> SipNetConfig {
        SipNetConfig {
            sctp_over: match sctp_goes_in_udp() {
                true => SctpOver::Udp,
                false => SctpOver::Ip,
            },
            sctp: self.scenario.way.sctp_config(self.scenario.users),
            stream_policy: StreamPolicy::PerFlow,
            ..SipNetConfig::default()
        }
    }

    fn proxy(&self, address: SocketAddr, rng: &mut ChaCha12Rng) -> ProxyConfig {
        let listener = Listen {
            transport: self.scenario.way.transport(),
            address,
        };
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        ProxyConfig {
            transports: SipNetConfig {
                listeners: vec![listener],
                ..self.transports()
            },
            domains: vec![HostPort {
                host: DOMAIN.to_owned(),
                port: None,
            }],
            seed: Some(seed),
            ..ProxyConfig::default()
        }
    }

    fn users(
        &self,
        role: Role,
        proxy: SocketAddr,
        rng: &mut ChaCha12Rng,
    ) -> anyhow::Result<GeneratorConfig> {
        Ok(GeneratorConfig {
            transport: self.scenario.way.transport(),
            target: proxy,
            role,
            users: self.scenario.users,
            connections: Connections::Shared,
            workers: 1,
            engine: EngineConfig {
                domain: DOMAIN.to_owned(),
                registration: RegistrationPlan {
                    retry_after: Duration::from_secs(1),
                    ..RegistrationPlan::default()
                },
                ..EngineConfig::default()
            },
            transports: self.transports(),
            connect_within: CONNECT_TIME,
            seed: rng.next_u64(),
            ..GeneratorConfig::calls(&CallPlan::default(), &AnswerPlan::default())?
        })
    }
}
