//! `proxy-transports`: what a call costs our proxy over SCTP, beside TCP and UDP, driven by our own
//! load generator, for SIPp has no SCTP in UDP.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::ensure;
use load::driver::{LoadPlan, LoadRun, RunConfig};
use load::engine::EngineConfig;
use load::script::Pause;
use load::script::builtin::{AnswerPlan, CallPlan};
use sip::Transport;
use sip_net::SipNetConfig;

use crate::output::{Output, Row};
use crate::rounds::{Better, Rounds};
use crate::sip_servers::SipServer;

/// A call over SCTP may take 1.3 times what one over TCP does; that over UDP is merely told.
const COMPARED: [(Transport, Transport, f64); 3] = [
    (Transport::Sctp, Transport::Tcp, 1.0 / 1.3),
    (Transport::Sctp, Transport::Udp, 0.0),
    (Transport::Tcp, Transport::Udp, 0.0),
];

const WORKERS: usize = 2;
const USERS: u32 = 100;
const CALLS_PER_SECOND: f64 = 2_000.0;
const HOLD: Duration = Duration::from_millis(20);

/// How long users may take to register.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let calls: u64 = if rounds.is_quick() { 2_500 } else { 20_000 };
    let measure = |transport| runtime.block_on(cpu_us_per_call(transport, calls));
    for (ours, peer, goal) in COMPARED {
        let [(our_cpu, peer_cpu)] =
            rounds.alternate(|| Ok([measure(ours)?]), || Ok([measure(peer)?]))?;
        output.row(Row {
            case: format!("{ours} beside {peer}"),
            metric: "cpu_us_per_call",
            better: Better::Lower,
            ours: our_cpu,
            peer: peer_cpu,
            goal,
        })?;
    }
    Ok(())
}

/// All callers share a connection, and so do all callees. The proxy is a new one each time: it would
/// keep the bindings to connections of earlier users, and call there too.
async fn cpu_us_per_call(transport: Transport, calls: u64) -> anyhow::Result<f64> {
    let server = SipServer::ours(WORKERS, "memory:")?;
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, server.ports.sip));
    let plan = CallPlan {
        hold: Pause::Fixed(HOLD),
        ..CallPlan::default()
    };
    let mut load = LoadRun::start(RunConfig {
        transport,
        target,
        users: USERS,
        workers: 1,
        engine: EngineConfig {
            domain: target.to_string(),
            ..EngineConfig::default()
        },
        transports: SipNetConfig {
            encapsulation_port: 0,
            peer_encapsulation_port: server.ports.encapsulation.unwrap_or_default(),
            ..SipNetConfig::default()
        },
        ..RunConfig::calls(&plan, &AnswerPlan::default())?
    })
    .await?;
    load.register(None, PATIENCE).await?;
    let before = server.usage()?.cpu;
    let plan = LoadPlan::at_rate(RunConfig::CALL, CALLS_PER_SECOND, calls);
    let outcome = load.run(plan).await?;
    let cpu = server.usage()?.cpu.saturating_sub(before);
    let made = outcome.statistics.calls.completed;
    ensure!(
        made * 10 >= calls * 9,
        "{made} of {calls} calls were completed"
    );
    load.shutdown().await;
    Ok(cpu.as_secs_f64() * 1e6 / made as f64)
}
