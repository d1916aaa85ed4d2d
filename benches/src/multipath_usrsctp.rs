//! `multipath-usrsctp`: what two paths carry, our stack against usrsctp, between two network namespaces with the emulator
//! as the paths.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use link::{Bottleneck, LinkConfig};
use sctp_net::{ConnectTo, EndpointConfig, SendInfo, Stack, UdpCarrierConfig};
use serde::{Deserialize, Serialize};
use testbed::{Testbed, Topology, ready_made};

use crate::output::{Output, Row};
use crate::process::{Process, print_report};
use crate::rounds::{Better, Rounds};
use crate::usrsctp::Peer;

/// How much more than usrsctp ours is to carry.
const GOAL: f64 = 1.0;

const MESSAGE_BYTES: usize = 1200;
const BUFFER_BYTES: usize = 1 << 20;
const SCTP_PORT: u16 = 5001;
const UDP_PORT: u16 = 9899;

/// How long packets may wait on each path.
const QUEUE: Duration = Duration::from_millis(200);

/// Until the windows have grown.
const WARM: Duration = Duration::from_secs(5);

/// Mbit/s of both paths, the better one first.
const PATHS: [(&str, [f64; 2]); 2] = [
    ("10 + 1 Mbit/s", [10.0, 1.0]),
    ("10 + 10 Mbit/s", [10.0, 10.0]),
];

/// How usrsctp uses them: its sysctls `cmt_on_off` and `buffer_splitting`.
const WAYS: [(&str, [&str; 2]); 2] = [("CMT", ["1", "0"]), ("CMT/RPv2, split buffers", ["3", "3"])];

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let peer = Peer::build()?;
    let (count, seconds) = if rounds.is_quick() { (1, 10) } else { (3, 30) };
    let (rounds, time) = (rounds.at_most(count), Duration::from_secs(seconds));
    for (paths, rates) in PATHS {
        for (way, sysctls) in WAYS {
            let [rate] = rounds.alternate(
                || ours(rates, time),
                || usrsctp(&peer, rates, sysctls, time),
            )?;
            output.row(Row {
                case: format!("{paths}, {way} of usrsctp"),
                metric: "goodput_mbit_per_second",
                better: Better::Higher,
                ours: rate.0,
                peer: rate.1,
                goal: GOAL,
            })?;
        }
    }
    Ok(())
}

/// Two hosts with a path for each of the rates.
fn hosts(rates: [f64; 2]) -> anyhow::Result<Testbed> {
    let topology = ready_made("multihomed").context("the topology is there")?;
    let topology = Topology::parse(topology.text, &[])?;
    let testbed = Testbed::up(&topology, "versus", 1)?;
    for (name, rate) in ["upper-client", "lower-client"].into_iter().zip(rates) {
        let bits = rate * 1e6;
        let link = LinkConfig {
            bottleneck: Some(Bottleneck {
                queue_packets: usize::MAX,
                queue_bytes: (bits / 8.0 * QUEUE.as_secs_f64()) as usize,
                ..Bottleneck::new(bits as u64)
            }),
            delay: Duration::from_millis(10),
            ..LinkConfig::default()
        };
        testbed.emulator().set_link(name, None, link)?;
    }
    Ok(testbed)
}

/// What a receiver says when it can be reached.
#[derive(Serialize, Deserialize)]
struct Ready {
    udp_port: u16,
}

/// What a receiver counted.
#[derive(Serialize, Deserialize)]
struct Counted {
    bytes: u64,
}

/// Mbit/s that the receiver counts.
fn carried(
    mut server: Process,
    client: anyhow::Result<Process>,
    time: Duration,
) -> anyhow::Result<[f64; 1]> {
    let _client = client?;
    let Counted { bytes } = server.read_report(WARM + time)?;
    Ok([bytes as f64 * 8.0 / 1e6 / time.as_secs_f64()])
}

fn ours(rates: [f64; 2], time: Duration) -> anyhow::Result<[f64; 1]> {
    let testbed = hosts(rates)?;
    let start = |host: &str, role: &str| -> anyhow::Result<Process> {
        let program = std::env::current_exe().context("this program's file")?;
        let addresses = testbed.addresses(host);
        let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        let role = format!("{role} {} {}", time.as_secs_f64(), addresses.join(","));
        Process::start(
            &role,
            testbed
                .command(host, program)?
                .args(["role", "--role", &role]),
        )
    };
    let mut server = start("server", "paths-server")?;
    let Ready { .. } = server.read_report(Duration::ZERO)?;
    let to = testbed.addresses("server").first().copied();
    let to = to.context("the server has addresses")?;
    let rate = carried(server, start("client", &format!("paths-client {to}")), time);
    testbed.down();
    rate
}

fn usrsctp(
    peer: &Peer,
    rates: [f64; 2],
    sysctls: [&str; 2],
    time: Duration,
) -> anyhow::Result<[f64; 1]> {
    let testbed = hosts(rates)?;
    let command =
        |host: &str| -> anyhow::Result<Command> { Ok(testbed.command(host, peer.program())?) };
    let port = UDP_PORT.to_string();
    let [warm, seconds] = [WARM, time].map(|time| time.as_secs_f64().to_string());
    let mut server = command("server")?;
    let mut server = Process::start(
        "usrsctp server",
        server.args(["paths-server", &port, &warm, &seconds]),
    )?;
    let Ready { .. } = server.read_report(Duration::ZERO)?;
    let to = testbed.addresses("server").first().copied();
    let to = to.context("the server has addresses")?.to_string();
    let mut client = command("client")?;
    let until = (WARM + time + Duration::from_millis(500))
        .as_secs_f64()
        .to_string();
    client.args([
        "paths-client",
        &port,
        &port,
        &to,
        &MESSAGE_BYTES.to_string(),
        &until,
    ]);
    let client = Process::start("usrsctp client", client.args(sysctls));
    let rate = carried(server, client, time);
    testbed.down();
    rate
}

/// Our stack at these addresses, with the settings that docs/multipath.md recommends.
fn stack(addresses: &str) -> anyhow::Result<(Stack, EndpointConfig)> {
    let addresses = addresses
        .split(',')
        .map(|address| Ok(SocketAddr::new(address.parse()?, UDP_PORT)));
    let addresses: Vec<SocketAddr> = addresses.collect::<anyhow::Result<_>>()?;
    let first = *addresses.first().context("the host has addresses")?;
    let stack = Stack::udp(UdpCarrierConfig {
        addresses,
        segmentation_offload: false,
        ..UdpCarrierConfig::new(first)
    })?;
    let config = EndpointConfig::default()
        .path_mtu_discovery(false)
        .send_buffer(BUFFER_BYTES)
        .a_rwnd(BUFFER_BYTES as u32)
        .cmt(true)
        .path_scheduler(sctp::PathScheduler::Ecf);
    Ok((stack, config))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.context("tokio")
}

/// Counts what one association brings after the warm-up.
pub(crate) fn serve(time: Duration, addresses: &str) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let (stack, config) = stack(addresses)?;
        let endpoint = stack.endpoint(SCTP_PORT, config)?;
        print_report(&Ready { udp_port: UDP_PORT })?;
        let association = endpoint.accept().await.context("no association")?;
        let from = Instant::now() + WARM;
        let mut bytes = 0;
        while let Some(message) = association.receive().await {
            if (from..from + time).contains(&Instant::now()) {
                bytes += message.payload.len() as u64;
            }
        }
        print_report(&Counted { bytes })
    })
}

/// Sends a little longer than the receiver counts.
pub(crate) fn send(to: IpAddr, time: Duration, addresses: &str) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let (stack, config) = stack(addresses)?;
        let endpoint = stack.endpoint(0, config)?;
        let to = ConnectTo {
            addresses: vec![to],
            port: SCTP_PORT,
            encapsulation_port: Some(UDP_PORT),
            config: None,
        };
        let association = endpoint.connect_to(to).await?;
        let until = Instant::now() + WARM + time + Duration::from_millis(500);
        let payload = Bytes::from(vec![0; MESSAGE_BYTES]);
        while Instant::now() < until {
            association
                .send(SendInfo::default(), payload.clone())
                .await?;
        }
        association.shutdown().await;
        Ok(())
    })
}
