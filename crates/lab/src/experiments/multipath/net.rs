//! The same on real sockets: two hosts with two addresses each, and the emulator as the paths between them.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use rand::Rng;
use sctp_net::{Endpoint, SendInfo, Stack};
use testbed::{Testbed, Topology, ready_made};
use tokio::time::timeout;

use super::ways::{MESSAGE, SetUp, Way};
use super::{Carried, WARM};
use crate::context::Context;
use crate::net::{connected, joined, runtime, sctp_stack};

const PORT: u16 = 5060;

/// The links that are the paths, the better one first. What joins the server to the routers has no bounds.
const PATHS: [&str; 2] = ["upper-client", "lower-client"];

/// How long a handshake may take, and a sender waits for its buffer.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn carry(
    context: &Context,
    number: u64,
    set_up: &SetUp,
    way: &Way,
    lasts: Duration,
) -> anyhow::Result<Carried> {
    let topology = ready_made("multihomed").context("the topology is there")?;
    let topology = Topology::parse(topology.text, &[])?;
    let seed = context.rng(number).next_u64();
    let testbed = Testbed::up(&topology, "lab-multipath", seed)?;
    for (name, path) in PATHS.iter().zip(&set_up.paths) {
        testbed.emulator().set_link(name, None, path.link())?;
    }
    let used = set_up.used(way).len();
    let addresses = |host: &str| -> Vec<IpAddr> {
        let addresses = testbed.addresses(host);
        addresses.into_iter().take(used).collect()
    };
    let endpoint = |host: &str| -> anyhow::Result<(Stack, Endpoint)> {
        let stack = sctp_stack(addresses(host), None)?;
        let endpoint = stack.endpoint(PORT, set_up.config(way))?;
        Ok((stack, endpoint))
    };
    let to = *addresses("server")
        .first()
        .context("the server has addresses")?;
    let (sent, received) = thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            testbed.enter("server")?;
            let runtime = runtime()?;
            let received = runtime.block_on(async {
                let (_stack, endpoint) = endpoint("server")?;
                receive(&endpoint, lasts).await
            });
            runtime.shutdown_background();
            received
        });
        let sender = scope.spawn(|| {
            testbed.enter("client")?;
            let runtime = runtime()?;
            let sent = runtime.block_on(async {
                let (stack, endpoint) = endpoint("client")?;
                send(&stack, &endpoint, to, set_up.unordered, lasts).await
            });
            runtime.shutdown_background();
            sent
        });
        (joined(sender.join()), joined(receiver.join()))
    });
    let (fast_retransmissions, mbit_per_s) = (sent?, received?);
    let links = testbed.emulator().snapshot()?.links;
    testbed.down();
    let dropped = links
        .iter()
        .map(|link| link.forward.link.dropped_packets() + link.backward.link.dropped_packets());
    Ok(Carried {
        mbit_per_s,
        fast_retransmissions,
        dropped: dropped.sum(),
    })
}

/// The rate at which user data comes after the warm-up, in Mbit/s.
async fn receive(endpoint: &Endpoint, lasts: Duration) -> anyhow::Result<f64> {
    let accepted = timeout(TIMEOUT, endpoint.accept()).await;
    let association = accepted.ok().flatten().context("nobody came")?;
    let from = Instant::now() + WARM;
    let until = from + lasts;
    let mut bytes = 0;
    while let Some(message) = association.receive().await {
        if (from..until).contains(&Instant::now()) {
            bytes += message.payload.len();
        }
    }
    Ok(bytes as f64 * 8.0 / 1e6 / lasts.as_secs_f64())
}

/// Sends for a little longer than the receiver counts, and tells how many chunks were retransmitted fast.
async fn send(
    stack: &Stack,
    endpoint: &Endpoint,
    to: IpAddr,
    unordered: bool,
    lasts: Duration,
) -> anyhow::Result<u64> {
    let association = connected(endpoint, to, PORT).await?;
    let until = Instant::now() + WARM + lasts + Duration::from_millis(500);
    let payload = Bytes::from(vec![0; MESSAGE]);
    while Instant::now() < until {
        let info = SendInfo {
            unordered,
            ..SendInfo::default()
        };
        timeout(TIMEOUT, association.send(info, payload.clone()))
            .await
            .context("the send buffer stays full")??;
    }
    let statistics = stack.statistics().await;
    association.abort(b"done");
    Ok(statistics.sctp.retransmitted_fast)
}
