//! What bindings and ringing calls take. The cores do not matter here.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};
use load::driver::{GeneratorConfig, LoadGenerator, LoadPlan};
use load::engine::EngineConfig;
use load::script::Pause;
use load::script::builtin::{AnswerPlan, CallPlan};
use sip::Transport;

use super::{kamailio, ours};
use crate::capacity::Bench;
use crate::output::{Output, Row};
use crate::rounds::{Better, Spread};
use crate::sip_servers::{Kamailio, SipServer, Store};

/// Bytes of a hundred thousand bindings, and of a transaction.
const BINDINGS_MARK: f64 = 40e6;
const TRANSACTION_MARK: f64 = 4096.0;

/// Callers of ringing calls, and as many callees.
const USERS: u32 = 2_000;

const CALLS_PER_SECOND: f64 = 5_000.0;

/// Callees ring for longer than it takes to begin and weigh all calls.
const RINGING: Duration = Duration::from_secs(30);

/// How long users may take to register.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bindings, registered over TCP, where no transaction outlives its response.
pub(super) fn bindings(
    output: &mut dyn Output,
    bench: &Bench,
    program: &Kamailio,
    count: usize,
) -> anyhow::Result<()> {
    let measure = |server: SipServer| -> anyhow::Result<f64> {
        let before = server.usage()?.bytes;
        bench.register(&server, count)?;
        let bytes = server.usage()?.bytes.saturating_sub(before);
        Ok(bytes as f64 / 1e6 * (100_000.0 / count as f64))
    };
    output.row(mark(
        format!("bindings {count}-users"),
        "megabytes_per_100000",
        measure(ours(Store::Memory)?)?,
        measure(kamailio(program)?)?,
        BINDINGS_MARK / 1e6,
    ))
}

/// INVITEs that ring, each with the client transaction that forwards it.
pub(super) fn transactions(
    output: &mut dyn Output,
    program: &Kamailio,
    over: Transport,
    count: u32,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let measure = |server: SipServer| runtime.block_on(bytes_per_transaction(&server, over, count));
    output.row(mark(
        format!("transaction {over}, {count} ringing"),
        "bytes_per_transaction",
        measure(ours(Store::Memory)?).context("ours")?,
        measure(kamailio(program)?).context("Kamailio")?,
        TRANSACTION_MARK,
    ))
}

async fn bytes_per_transaction(
    server: &SipServer,
    over: Transport,
    count: u32,
) -> anyhow::Result<f64> {
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, server.ports.sip));
    let answer = AnswerPlan {
        ring: Pause::Fixed(RINGING),
        ..AnswerPlan::default()
    };
    let mut load = LoadGenerator::start(GeneratorConfig {
        transport: over,
        target,
        users: USERS,
        workers: 1,
        engine: EngineConfig {
            domain: target.to_string(),
            ..EngineConfig::default()
        },
        ..GeneratorConfig::calls(&CallPlan::default(), &answer)?
    })
    .await?;
    load.register(None, PATIENCE).await?;
    let before = server.usage()?.bytes;
    let mut live = load.live();
    let plan = LoadPlan::at_rate(GeneratorConfig::CALL, CALLS_PER_SECOND, count.into());
    let all_ring = async {
        live.wait_for(|now| now.in_flight as u64 >= count.into())
            .await?;
        // The last of them have yet to come through.
        tokio::time::sleep(Duration::from_millis(500)).await;
        anyhow::Ok(server.usage()?.bytes)
    };
    let after = tokio::select! {
        weighed = all_ring => weighed?,
        ended = load.run(plan) => {
            ended?;
            bail!("not all {count} calls rang together");
        }
    };
    Ok(after.saturating_sub(before) as f64 / f64::from(count))
}

/// A row whose goal is a mark of our own: the advantage over the peer that reaches it.
fn mark(case: String, metric: &'static str, ours: f64, peer: f64, mark: f64) -> Row {
    Row {
        case,
        metric,
        better: Better::Lower,
        ours: Spread::fixed(ours),
        peer: Spread::fixed(peer),
        goal: peer / mark,
    }
}
