//! Our generator, in a process of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, ensure};
use load::driver::{GeneratorConfig, LoadGenerator, LoadModel, LoadPlan, Outcome, Role};
use load::engine::EngineConfig;
use load::script::Pause;
use load::script::builtin::{AnswerPlan, CallPlan};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};
use sip::Transport;
use sip_net::SipNetConfig;

use super::{Calls, Taken, UNDER_WAY};
use crate::memory;
use crate::process::{Process, print_report};

const WORKERS: usize = 2;

/// How many calls a second begin that are all to be held.
const HELD_PER_SECOND: u64 = 10_000;

/// How long all of them are held together.
const HELD_TOGETHER: Duration = Duration::from_secs(2);

/// The report of a process of ours about calls.
#[derive(Serialize, Deserialize)]
struct CallReport {
    completed: u64,
    failed: u64,
    seconds: f64,
    /// Of the whole process.
    user_us: f64,
    system_us: f64,
}

/// Calls that were held at the same time.
#[derive(Serialize, Deserialize)]
pub(crate) struct HeldCalls {
    pub(crate) bytes_per_call: f64,
    pub(crate) lateness_p99_ms: f64,
}

/// Users that were registered.
#[derive(Serialize, Deserialize)]
pub(crate) struct Registered {
    pub(crate) bytes_per_user: f64,
    pub(crate) cpu_us_per_registration: f64,
}

/// Makes calls.
pub(super) fn call(calls: Calls) -> anyhow::Result<Taken> {
    let Calls {
        transport,
        count,
        per_second,
        hold,
    } = calls;
    let rate = per_second.unwrap_or(0);
    let hold_ms = hold.as_millis();
    let mut process =
        Process::start_role(&format!("load-calls {transport} {count} {rate} {hold_ms}"))?;
    let told: CallReport = process.read_report(hold + Duration::from_secs(60))?;
    ensure!(
        told.completed * 100 >= count * 99,
        "{} of {count} calls were completed, {} failed",
        told.completed,
        told.failed
    );
    let completed = told.completed as f64;
    Ok([
        (told.user_us + told.system_us) / completed,
        told.user_us / completed,
        completed / told.seconds,
    ])
}

/// Holds calls at the same time.
pub(super) fn hold(count: u64) -> anyhow::Result<HeldCalls> {
    Process::start_role(&format!("load-held {count}"))?.read_report(Duration::from_secs(60))
}

/// Registers users.
pub(super) fn register(proxy: u16, users: u32) -> anyhow::Result<Registered> {
    Process::start_role(&format!("load-registered {proxy} {users}"))?
        .read_report(Duration::from_secs(60))
}

/// The role `load-calls`.
pub(crate) fn make_calls(
    transport: Transport,
    count: u64,
    per_second: u64,
    hold: Duration,
) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let config = config(transport, hold)?;
        // Over SCTP callers and callees have ports of their own.
        let (mut load, callees) = match transport {
            Transport::Sctp => {
                let callees = LoadGenerator::start(GeneratorConfig {
                    role: Role::Callees,
                    local_ip: Some(Ipv4Addr::LOCALHOST.into()),
                    ..config.clone()
                })
                .await?;
                let target = *callees.listening().first().context("nobody listens")?;
                let encapsulation = callees.encapsulation().map_or(0, |address| address.port());
                let callers = LoadGenerator::start(GeneratorConfig {
                    role: Role::Callers,
                    target,
                    workers: 1,
                    transports: SipNetConfig {
                        peer_encapsulation_port: encapsulation,
                        ..config.transports.clone()
                    },
                    ..config
                })
                .await?;
                (callers, Some(callees))
            }
            _ => (LoadGenerator::start(config).await?, None),
        };
        let plan = match per_second {
            0 => LoadPlan::new(
                GeneratorConfig::CALL,
                LoadModel::Closed {
                    count: Some(count),
                    time: None,
                },
            ),
            rate => LoadPlan::at_rate(GeneratorConfig::CALL, rate as f64, count),
        };
        let outcome = load.run(plan).await?;
        load.shutdown().await;
        if let Some(callees) = callees {
            callees.shutdown().await;
        }
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        print_report(&CallReport {
            completed: outcome.statistics.calls.completed,
            failed: outcome.statistics.calls.failed,
            seconds: outcome.time.as_secs_f64(),
            user_us: usage.user_time().num_microseconds() as f64,
            system_us: usage.system_time().num_microseconds() as f64,
        })
    })
}

/// The role `load-held`.
pub(crate) fn hold_calls(count: u64) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let begin = Duration::from_secs_f64(count as f64 / HELD_PER_SECOND as f64);
        let mut load = LoadGenerator::start(config(Transport::Udp, begin + HELD_TOGETHER)?).await?;
        let before = memory::proportional_set_size()?;
        let mut live = load.live();
        let weighing = tokio::spawn(async move {
            let all = live.wait_for(|now| now.in_flight as u64 >= count).await;
            all.map(|_| memory::proportional_set_size())
        });
        let plan = LoadPlan::at_rate(GeneratorConfig::CALL, HELD_PER_SECOND as f64, count);
        let Outcome { statistics, .. } = load.run(plan).await?;
        load.shutdown().await;
        let completed = statistics.calls.completed;
        ensure!(
            completed == count,
            "{completed} of {count} calls were completed"
        );
        let bytes = weighing.await??? - before;
        let lateness = statistics.lateness.quantile(0.99).unwrap_or_default();
        print_report(&HeldCalls {
            bytes_per_call: bytes as f64 / count as f64,
            lateness_p99_ms: lateness.as_secs_f64() * 1e3,
        })
    })
}

/// The role `load-registered`.
pub(crate) fn register_users(proxy: u16, users: u32) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let before = memory::proportional_set_size()?;
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, proxy));
        let mut load = LoadGenerator::start(GeneratorConfig {
            direct: false,
            target,
            engine: EngineConfig {
                domain: target.to_string(),
                ..EngineConfig::default()
            },
            users: users / 2,
            ..config(Transport::Udp, Duration::ZERO)?
        })
        .await?;
        let outcome = load.register(None, Duration::from_secs(50)).await?;
        ensure!(
            outcome.registered == users,
            "{} users are registered",
            outcome.registered
        );
        let bytes = memory::proportional_set_size()?.saturating_sub(before);
        let cpu = outcome.processor.user + outcome.processor.system;
        load.shutdown().await;
        print_report(&Registered {
            bytes_per_user: bytes as f64 / f64::from(users),
            cpu_us_per_registration: cpu.as_secs_f64() * 1e6 / f64::from(users),
        })
    })
}

/// Callers and callees face to face.
fn config(transport: Transport, hold: Duration) -> anyhow::Result<GeneratorConfig> {
    let plan = CallPlan {
        hold: Pause::Fixed(hold),
        ..CallPlan::default()
    };
    Ok(GeneratorConfig {
        transport,
        direct: true,
        users: u32::try_from(UNDER_WAY)?,
        workers: WORKERS,
        transports: SipNetConfig {
            encapsulation_port: 0,
            ..SipNetConfig::default()
        },
        ..GeneratorConfig::calls(&plan, &AnswerPlan::default())?
    })
}

/// As the `tandem` program has it.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    proxy::use_small_pages();
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}
