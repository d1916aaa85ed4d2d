//! `proxy-overload`: our proxy held to a fifth of a processor by the kernel, so that the callers are not what
//! saturates: the calls that it completes at so many times its capacity, beside that capacity.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, ensure};
use load::arrivals::{Pattern, Plan as ArrivalPlan, Spacing};
use load::driver::{GeneratorConfig, LoadGenerator, LoadModel, LoadPlan};
use load::engine::EngineConfig;
use load::script::Pause;
use load::script::builtin::{AnswerPlan, CallPlan};
use test_support::ControlGroup;

use crate::output::{Output, Row};
use crate::rounds::{Better, Rounds, Spread};
use crate::sip_servers::{SipServer, Store};

/// How many times its capacity is offered, and the part of it that is to be completed; 0 where that is told.
const OFFERED: [(f64, f64); 2] = [(2.0, 0.8), (4.0, 0.0)];

/// Of each of these periods the proxy may run a fifth. Short ones: a pause is no longer than a burst that the
/// sockets hold.
const PERIOD: Duration = Duration::from_millis(10);

/// Callers: so many that those who wait for their calls to end leave the proxy no pause, and so few that it
/// refuses none of them.
const USERS: u32 = 200;

const HOLD: Duration = Duration::from_millis(20);

/// How long users may take to register.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (count, time) = match rounds.is_quick() {
        true => (2, Duration::from_secs(4)),
        false => (5, Duration::from_secs(15)),
    };
    let closed = LoadModel::Closed {
        count: None,
        time: Some(time),
    };
    let mut capacities = Vec::new();
    let mut completed = OFFERED.map(|_| Vec::new());
    for _ in 0..count {
        let (capacity, _) = runtime.block_on(calls_per_second(closed))?;
        for ((times, _), completed) in OFFERED.iter().zip(&mut completed) {
            let offered = times * capacity;
            let pace = LoadModel::Open(ArrivalPlan {
                pattern: Pattern::Constant {
                    per_second: offered,
                },
                spacing: Spacing::Even,
                count: None,
                time: Some(time),
            });
            let (made, attempted) = runtime.block_on(calls_per_second(pace))?;
            ensure!(
                attempted > 0.9 * offered,
                "the callers could not keep up: {attempted:.0} of {offered:.0} calls a second"
            );
            completed.push(made);
        }
        capacities.push(capacity);
    }
    let capacity = Spread::of(capacities);
    for ((times, goal), completed) in OFFERED.into_iter().zip(completed) {
        output.row(Row {
            case: format!("a fifth of a core, {times} times its capacity offered"),
            metric: "calls_per_second",
            better: Better::Higher,
            ours: Spread::of(completed),
            peer: capacity,
            goal,
        })?;
    }
    Ok(())
}

/// The calls that a proxy of its own completes a second, and those that were begun. What an earlier run has left
/// (bindings of its callees, transactions that wait for retransmissions) is not to burden the next.
async fn calls_per_second(model: LoadModel) -> anyhow::Result<(f64, f64)> {
    // Dropped last: it goes when the proxy has.
    let group = ControlGroup::new(PERIOD / 5, PERIOD)
        .context("a control group, which needs root and the cpu controller")?;
    let server = SipServer::ours(1, Store::Memory)?;
    group.take_in(server.id())?;
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, server.ports.sip));
    let plan = CallPlan {
        hold: Pause::Fixed(HOLD),
        ..CallPlan::default()
    };
    let mut load = LoadGenerator::start(GeneratorConfig {
        target,
        users: USERS,
        engine: EngineConfig {
            domain: target.to_string(),
            ..EngineConfig::default()
        },
        ..GeneratorConfig::calls(&plan, &AnswerPlan::default())?
    })
    .await?;
    load.register(None, PATIENCE).await?;
    let plan = LoadPlan {
        drain: Some(Duration::ZERO),
        ..LoadPlan::new(GeneratorConfig::CALL, model)
    };
    let outcome = load.run(plan).await?;
    load.shutdown().await;
    let seconds = outcome.time.as_secs_f64();
    let calls = outcome.statistics.calls;
    let begun = calls.decided() + calls.unfinished;
    Ok((calls.completed as f64 / seconds, begun as f64 / seconds))
}
