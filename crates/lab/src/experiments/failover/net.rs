//! The same on real sockets: two hosts with two addresses each, and the emulator, which cuts the path.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::IpAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use bytes::Bytes;
use capture::{EventKind, Reader};
use link::LinkConfig;
use rand::Rng;
use sctp::packet::Chunk;
use sctp_net::{Endpoint, Notification, SendInfo, Stack, Tap};
use testbed::{Testbed, Topology, ready_made};
use tokio::time::{MissedTickBehavior, interval_at, timeout_at};

use super::cut::{DELAY, MESSAGE, Observation, PACKETS, SILENCE, SentChunk, chunks_of_packet};
use super::timing::{INTERVAL, LOOK, Timing};
use crate::context::Context;
use crate::net::{connected, joined, runtime, sctp_stack};

const PORT: u16 = 5060;

/// The link of the primary path that is cut.
const PRIMARY: &str = "upper-client";
const OTHER: &str = "lower-client";

/// How long a handshake may take, and the receiver waits for it.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn observe(
    context: &Context,
    number: u64,
    timing: &Timing,
) -> anyhow::Result<Observation> {
    let topology = ready_made("multihomed").context("the topology is there")?;
    let topology = Topology::parse(topology.text, &[])?;
    let seed = context.rng(number).next_u64();
    let testbed = Testbed::up(&topology, "lab-failover", seed)?;
    let delay = LinkConfig {
        delay: DELAY,
        ..LinkConfig::default()
    };
    for link in [PRIMARY, OTHER] {
        testbed.emulator().set_link(link, None, delay.clone())?;
    }
    let directory = tempfile::tempdir()?;
    let capture = directory.path().join("client.pcapng");
    let start = Instant::now();
    let began = SystemTime::now();
    let (sent, received) = thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            testbed.enter("server")?;
            let runtime = runtime()?;
            let received = runtime.block_on(receive(&testbed, timing, start));
            runtime.shutdown_background();
            received
        });
        let sender = scope.spawn(|| {
            testbed.enter("client")?;
            let runtime = runtime()?;
            let sent = runtime.block_on(send(&testbed, timing, start, &capture));
            runtime.shutdown_background();
            sent
        });
        (joined(sender.join()), joined(receiver.join()))
    });
    let (mut observation, arrivals) = (sent?, received?);
    observation.arrivals = arrivals;
    observation.chunks = chunks(&capture, began, &testbed.addresses("server"))?;
    testbed.down();
    Ok(observation)
}

fn endpoint(
    addresses: Vec<IpAddr>,
    timing: &Timing,
    tap: Option<Tap>,
) -> anyhow::Result<(Stack, Endpoint)> {
    let stack = sctp_stack(addresses, tap)?;
    let endpoint = stack.endpoint(PORT, timing.config.clone())?;
    Ok((stack, endpoint))
}

/// What comes until the sender is done, with the number in each message.
async fn receive(
    testbed: &Testbed,
    timing: &Timing,
    start: Instant,
) -> anyhow::Result<Vec<(Duration, u64)>> {
    let (_stack, endpoint) = endpoint(testbed.addresses("server"), timing, None)?;
    let accepted = tokio::time::timeout(TIMEOUT, endpoint.accept()).await;
    let association = accepted.ok().flatten().context("nobody came")?;
    let mut arrivals = Vec::new();
    // Until the sender shuts down.
    while let Some(message) = association.receive().await {
        let number = message
            .payload
            .first_chunk()
            .map(|number| u64::from_be_bytes(*number));
        arrivals.push((start.elapsed(), number.unwrap_or(u64::MAX)));
    }
    Ok(arrivals)
}

/// Speaks, has the path cut and mended, and watches.
async fn send(
    testbed: &Testbed,
    timing: &Timing,
    start: Instant,
    capture: &Path,
) -> anyhow::Result<Observation> {
    let tap = Tap::create(capture, "client")?;
    let (_stack, endpoint) = endpoint(testbed.addresses("client"), timing, Some(tap.clone()))?;
    let server = testbed.addresses("server");
    let primary = *server.first().context("the server has addresses")?;
    let association = connected(&endpoint, primary, PORT).await?;
    let notifications = association.notifications();
    let mut observation = Observation {
        timing: timing.clone(),
        cut: Duration::MAX,
        mended: Duration::MAX,
        sent: 0,
        arrivals: Vec::new(),
        chunks: Vec::new(),
        errors: Vec::new(),
        changes: Vec::new(),
    };
    let mut speak = interval_at(tokio::time::Instant::now(), INTERVAL);
    speak.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut look = interval_at(tokio::time::Instant::now(), LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = speak.tick() => {
                let mut payload = vec![0; MESSAGE];
                payload[..8].copy_from_slice(&observation.sent.to_be_bytes());
                association.send(SendInfo::default(), Bytes::from(payload)).await?;
                observation.sent += 1;
            }
            _ = look.tick() => {
                let status = association.status().await.context("the association ended")?;
                let mut paths = status.paths.iter();
                let path = paths.find(|path| path.address.remote == primary);
                observation.note_errors(start.elapsed(), path.map_or(0, |path| path.error_count));
            }
            Some(notification) = notifications.next() => {
                if let Notification::PathChanged { path, change, .. } = notification
                    && path.remote == primary
                    && start.elapsed() > observation.cut
                {
                    observation.changes.push((start.elapsed(), change));
                }
            }
        }
        let now = start.elapsed();
        if observation.cut == Duration::MAX && observation.sent == PACKETS as u64 {
            testbed.emulator().cut(PRIMARY)?;
            observation.cut = start.elapsed();
        } else if observation.mended == Duration::MAX
            && now.saturating_sub(timing.outage) > observation.cut
        {
            testbed.emulator().heal(PRIMARY)?;
            observation.mended = start.elapsed();
        } else if now.saturating_sub(timing.after) > observation.mended {
            break;
        }
    }
    let end = tokio::time::Instant::now() + SILENCE;
    let _ = timeout_at(end, association.shutdown()).await;
    tap.flush()?;
    Ok(observation)
}

/// The DATA chunks that went to the server's addresses, from a capture.
fn chunks(capture: &Path, began: SystemTime, server: &[IpAddr]) -> anyhow::Result<Vec<SentChunk>> {
    let began = began.duration_since(UNIX_EPOCH)?;
    let mut reader = Reader::open(File::open(capture)?, 0)?;
    let mut last_path = BTreeMap::new();
    let mut chunks = Vec::new();
    let mut see = |event: capture::Event<'_>| {
        let EventKind::Sctp(sctp) = &event.kind else {
            return;
        };
        let to = event.destination.address;
        let Some(path) = server.iter().position(|address| *address == to) else {
            return;
        };
        let at = Duration::from_nanos(u64::try_from(event.time.0).unwrap_or(0));
        let tsns = sctp
            .packet
            .chunks()
            .flatten()
            .filter_map(|chunk| match chunk {
                Chunk::Data(data) => Some(data.tsn.0),
                _ => None,
            });
        let tsns: Vec<u32> = tsns.collect();
        let at = at.saturating_sub(began);
        chunks.extend(chunks_of_packet(at, path, &tsns, &mut last_path));
    };
    while reader.step(&mut see)? {}
    Ok(chunks)
}
