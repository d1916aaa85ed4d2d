//! A transfer over our stack, in UDP: the two ends.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use sctp_net::{CloseCause, EndpointConfig, SendInfo, Stack, UdpCarrierConfig};

use super::{BUFFER_BYTES, Listening, Received, Sent, conclude};
use crate::cpu;
use crate::process::Process;
use crate::process::print_report;

const SCTP_PORT: u16 = 5001;
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Runs both ends, each a process.
pub(crate) fn run(message_bytes: usize, time: Duration) -> anyhow::Result<[f64; 2]> {
    let mut server = Process::start_role("sctp-server")?;
    let Listening { port } = server.read_report(Duration::ZERO)?;
    let role = format!("sctp-client {port} {message_bytes} {}", time.as_secs_f64());
    conclude(server, Process::start_role(&role)?, time)
}

fn config() -> EndpointConfig {
    EndpointConfig::default()
        .a_rwnd(BUFFER_BYTES as u32)
        .send_buffer(BUFFER_BYTES)
        .nodelay(true)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("tokio")
}

fn stack() -> anyhow::Result<Stack> {
    Ok(Stack::udp(UdpCarrierConfig::new(SocketAddr::new(
        LOOPBACK, 0,
    )))?)
}

/// Discards what one association brings.
pub(crate) fn serve() -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let stack = stack()?;
        let endpoint = stack.endpoint(SCTP_PORT, config())?;
        print_report(&Listening {
            port: stack.local_addr().port(),
        })?;
        let association = endpoint.accept().await.context("no association")?;
        let (mut bytes, mut cpu) = (0, None);
        while let Some(message) = association.receive().await {
            if cpu.is_none() {
                cpu = Some(cpu::of_process()?);
            }
            bytes += message.payload.len() as u64;
        }
        let cpu = cpu::of_process()?.saturating_sub(cpu.unwrap_or_default());
        print_report(&Received {
            bytes,
            cpu_seconds: cpu.as_secs_f64(),
        })
    })
}

/// Sends messages for a time.
pub(crate) fn send(port: u16, message_bytes: usize, time: Duration) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let stack = stack()?;
        let endpoint = stack.endpoint(0, config())?;
        let association = endpoint.connect(LOOPBACK, SCTP_PORT, Some(port)).await?;
        let payload = Bytes::from(vec![0; message_bytes]);
        let (cpu, begun) = (cpu::of_process()?, Instant::now());
        let mut sent = 0;
        while begun.elapsed() < time {
            // So many between looks at the clock cost nothing of account.
            for _ in 0..64 {
                association
                    .send(SendInfo::default(), payload.clone())
                    .await?;
                sent += payload.len() as u64;
            }
        }
        let ended = association.shutdown().await;
        ensure!(
            ended == CloseCause::Shutdown,
            "the association was lost: {ended}"
        );
        let seconds = begun.elapsed().as_secs_f64();
        let cpu = cpu::of_process()?.saturating_sub(cpu);
        print_report(&Sent {
            bytes: sent,
            seconds,
            cpu_seconds: cpu.as_secs_f64(),
        })
    })
}
