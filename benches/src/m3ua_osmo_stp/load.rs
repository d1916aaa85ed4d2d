//! Two ASPs of a gateway in one process: one sends as fast as the other receives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use m3ua::message::{ProtocolData, ServiceIndicator};
use m3ua::{
    AsId, AspState, MaskedPointCode, MtpIndication, NetworkId, PeerId, SignallingProcess, Variant,
};
use serde::{Deserialize, Serialize};
use sigtran::{Configuration, Event, Process, start};
use tokio::sync::Notify;

use super::gateway::{ASP_PORTS, Gateway, UDP_PORT};
use crate::process::print_report;
use crate::sip_servers::usage::Usage;

/// User data of a message: a call with its parameters, or a short query.
const OCTETS: usize = 100;

/// Messages under way.
const WINDOW: u64 = 512;

/// How long ASPs may take to become active, and the last messages to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// Messages before the time is taken.
const WARM_UP: u64 = 2_000;

/// What a gateway has carried, and the CPU time that it has used for that.
#[derive(Serialize, Deserialize)]
pub(super) struct Carried {
    pub(super) messages: u64,
    pub(super) cpu_seconds: f64,
}

/// Starts a gateway, sends messages through it for so long, and prints what it has carried.
pub(crate) fn measure(gateway: &str, over: &str, time: Duration) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let gateway = Gateway::start(gateway, over)?;
    let carried = runtime.block_on(async {
        let load = Load::start(over).await?;
        load.send(|sent| sent < WARM_UP).await?;
        let before = Usage::of_tree(gateway.id())?.cpu;
        let until = Instant::now() + time;
        let messages = load.send(|_| Instant::now() < until).await?;
        let cpu = Usage::of_tree(gateway.id())?.cpu - before;
        anyhow::Ok(Carried {
            messages,
            cpu_seconds: cpu.as_secs_f64(),
        })
    })?;
    print_report(&carried)
}

/// The two ASPs.
struct Load {
    source: Process,
    _sink: Process,
    arrivals: Arc<Arrivals>,
}

#[derive(Default)]
struct Arrivals {
    count: AtomicU64,
    changed: Notify,
}

impl Load {
    async fn start(over: &str) -> anyhow::Result<Load> {
        let arrivals = Arc::new(Arrivals::default());
        let user = Arc::clone(&arrivals);
        let sink = asp(over, 1, move |event| {
            if let Event::Mtp(MtpIndication::Transfer { .. }) = event {
                user.count.fetch_add(1, Ordering::Relaxed);
                user.changed.notify_one();
            }
        });
        let sink = sink.await?;
        until_active(&sink).await?;
        let source = asp(over, 2, |_| {}).await?;
        until_active(&source).await?;
        until_available(&source).await?;
        Ok(Load {
            source,
            _sink: sink,
            arrivals,
        })
    }

    /// Sends while `more` says so of how many were sent, and waits until all have arrived.
    async fn send(&self, more: impl Fn(u64) -> bool) -> anyhow::Result<u64> {
        let first = self.arrivals.count.load(Ordering::Relaxed);
        let [from, to] = ["0-0-2", "0-0-1"].map(|text| Variant::Itu.read(text));
        let (from, to) = (from?, to?);
        let user_data = Bytes::from(vec![0; OCTETS]);
        let mut sent = 0;
        let mut last = Instant::now();
        loop {
            let arrived = self.arrivals.count.load(Ordering::Relaxed) - first;
            let room = match more(sent) {
                true => WINDOW.saturating_sub(sent - arrived),
                false if arrived == sent => return Ok(sent),
                false => 0,
            };
            // Half a window at a time, as it comes where there is no hurry to send single ones.
            if room < WINDOW / 2 {
                let changed = self.arrivals.changed.notified();
                if tokio::time::timeout(Duration::from_millis(100), changed)
                    .await
                    .is_ok()
                {
                    last = Instant::now();
                }
                ensure!(
                    last.elapsed() < PATIENCE,
                    "{arrived} of {sent} have arrived"
                );
                continue;
            }
            let range = sent..sent + room;
            let user_data = user_data.clone();
            let send = move |engine: &mut SignallingProcess, _: Instant| {
                range.clone().try_for_each(|number| {
                    let message = ProtocolData {
                        opc: from,
                        dpc: to,
                        service_indicator: ServiceIndicator::SCCP.0 as u8,
                        network_indicator: 2,
                        message_priority: 0,
                        sls: (number % 16) as u8,
                        user_data: user_data.clone(),
                    };
                    engine.transfer(NetworkId(0), message)
                })
            };
            self.source.with(send).await??;
            sent += room;
        }
    }
}

async fn asp(
    over: &str,
    number: u16,
    user: impl FnMut(Event) + Send + 'static,
) -> anyhow::Result<Process> {
    let port = ASP_PORTS
        .get(usize::from(number) - 1)
        .context("there are two")?;
    let text = format!(
        r#"
        [sctp]
        over = "{over}"
        addresses = ["127.0.0.1"]
        port = {port}
        encapsulation_port = 0
        [[peer]]
        name = "gateway"
        role = "sgp"
        address = "127.0.0.1:2905"
        encapsulation_port = {UDP_PORT}
        [[application_server]]
        name = "own"
        served_by = "us"
        peers = ["gateway"]
        routing_context = {number}
        dpc = ["0-0-{number}"]
        traffic_mode = "loadshare"
        [[route]]
        via = "gateway"
        "#
    );
    Ok(start(&Configuration::read(&text)?, user).await?)
}

async fn until_active(process: &Process) -> anyhow::Result<()> {
    until("an ASP becomes active", async || {
        let state = process.with(|engine, _| engine.our_state(PeerId(0), AsId(0)));
        Ok(state.await? == AspState::Active)
    })
    .await
}

/// A gateway may say that the sink is not there yet.
async fn until_available(source: &Process) -> anyhow::Result<()> {
    let sink = MaskedPointCode::single(Variant::Itu.read("0-0-1")?);
    until("the sink is available", async || {
        let availability = source.with(move |engine, _| engine.availability(NetworkId(0), sink));
        Ok(availability.await?.is_reachable())
    })
    .await
}

async fn until(
    what: &str,
    mut is_so: impl AsyncFnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    while !is_so().await? {
        ensure!(Instant::now() < end, "it does not come to this: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
