//! Fifty associations on real sockets, with shorter timers.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use capture::{EventKind, Reader};
use link::LinkConfig;
use rand::Rng;
use sctp::EndpointConfig;
use sctp_net::{Association, ConnectTo, Endpoint, Stack, Tap};
use testbed::{Testbed, Topology, ready_made};

use super::{
    Captured, End, Exactness, Observation, Phases, SPEEDUP, Sequence, beats, info, latest_first,
    link_config,
};
use crate::context::Context;
use crate::net::{Lateness, STALL, Stall, Watch, ahead_of_others, joined, runtime, sctp_stack};

/// Half an RTO.Min longer no answer takes: a machine that is late does not make it miss its RTO.
const PHASES: Phases = [(20, 0), (500, 0), (400, 100), (20, 0)];

const PORT: u16 = 5060;

/// Each of them is one of the client's ports.
const ASSOCIATIONS: u16 = 50;

/// The links of the two networks that delay packets.
const LINKS: [&str; 2] = ["upper-client", "lower-client"];

/// How long the set-up of an association may take.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn observe(context: &Context, config: &EndpointConfig) -> anyhow::Result<Observation> {
    context.steps(PHASES.len() as u64);
    let phase = Duration::from_secs(context.either(12, 60));
    let topology = ready_made("multihomed").context("the topology is there")?;
    let topology = Topology::parse(topology.text, &[])?;
    let testbed = Testbed::up(&topology, "lab-heartbeat", context.rng(0).next_u64())?;
    let hurried = config
        .clone()
        .rto_initial(config.association.path.rto_initial / SPEEDUP)
        .rto_min(config.association.path.rto_min / SPEEDUP)
        .rto_max(config.association.path.rto_max / SPEEDUP)
        .hb_interval(config.association.path.hb_interval / SPEEDUP);
    set_delays(&testbed, PHASES[0])?;
    let directory = tempfile::tempdir()?;
    let capture = directory.path().join("client.pcapng");
    let began = SystemTime::now();
    let (late, stalls) = ahead_of_others(context, || {
        associate(context, &testbed, &hurried, &capture, phase)
    })?;
    let addresses = testbed.addresses("server");
    testbed.down();
    /// Of tokio's timers and of the engine's, a millisecond each.
    const TICK: Duration = Duration::from_millis(2);
    // Half an RTO more than the RTO, which is off by nine times what round-trip times are off: SRTT by as much,
    // RTTVAR by twice as much. A single one that is off by more, but is no stall, makes an eighth of SRTT and a
    // quarter of RTTVAR.
    let usual = SPEEDUP * (TICK + late.usual * (1 + 9 * 3 / 2));
    let longest = late.longest.min(STALL);
    let longest = SPEEDUP * (longest + longest * 9 * 3 / 16);
    let exactness = Exactness {
        // Twice the former: so much may the RTO be off for stalls besides.
        interval: 2 * usual + longest,
        jitter: usual,
    };
    let captured = Capture {
        path: &capture,
        began,
        server: &addresses,
        stalls: &stalls,
    };
    Ok(Observation {
        phases: PHASES,
        sequences: captured.sequences(config, exactness)?,
        phase: phase * SPEEDUP,
        exactness,
    })
}

/// Lets both hosts have their associations, and says how late the machine was meanwhile.
fn associate(
    context: &Context,
    testbed: &Testbed,
    config: &EndpointConfig,
    capture: &Path,
    phase: Duration,
) -> anyhow::Result<(Lateness, Vec<Stall>)> {
    let watch = Watch::begin()?;
    let (tell, told) = channel();
    let (hosted, watched) = thread::scope(|scope| {
        let server = scope.spawn(|| {
            testbed.enter("server")?;
            let runtime = runtime()?;
            let hosted = runtime.block_on(host(testbed, config, tell));
            runtime.shutdown_background();
            hosted
        });
        let client = scope.spawn(|| {
            testbed.enter("client")?;
            let runtime = runtime()?;
            let watched = runtime.block_on(be_idle(context, testbed, config, capture, phase, told));
            runtime.shutdown_background();
            watched
        });
        (joined(server.join()), joined(client.join()))
    });
    watched?;
    hosted?;
    Ok(watch.end_with_stalls())
}

/// Half of that round-trip time each way.
fn set_delays(testbed: &Testbed, (middle, deviation): (u64, u64)) -> anyhow::Result<()> {
    let slow = link_config(middle, deviation);
    let config = LinkConfig {
        delay: slow.delay / SPEEDUP,
        jitter: (Duration::from_millis(deviation) / 2 / SPEEDUP).into(),
        ..slow
    };
    for link in LINKS {
        testbed.emulator().set_link(link, None, config.clone())?;
    }
    Ok(())
}

/// Accepts all, says so once it can, and holds them until the client has gone.
async fn host(testbed: &Testbed, config: &EndpointConfig, tell: Sender<()>) -> anyhow::Result<()> {
    let stack = sctp_stack(testbed.addresses("server"), None)?;
    let endpoint = stack.endpoint(PORT, config.clone())?;
    // A client that has gone is missed below.
    let _ = tell.send(());
    let mut associations = Vec::new();
    for _ in 0..ASSOCIATIONS {
        let accepted = tokio::time::timeout(TIMEOUT, endpoint.accept()).await;
        associations.push(accepted.ok().flatten().context("somebody did not come")?);
    }
    for association in associations {
        while association.receive().await.is_some() {}
    }
    Ok(())
}

/// Sets up all, and changes the delay of the networks; the capture has the packets.
async fn be_idle(
    context: &Context,
    testbed: &Testbed,
    config: &EndpointConfig,
    capture: &Path,
    phase: Duration,
    told: Receiver<()>,
) -> anyhow::Result<()> {
    let tap = Tap::create(capture, "client")?;
    let stack = sctp_stack(testbed.addresses("client"), Some(tap.clone()))?;
    told.recv().context("the server is not there")?;
    let start = tokio::time::Instant::now();
    let primary = *testbed
        .addresses("server")
        .first()
        .context("the server has addresses")?;
    let mut associations = Vec::new();
    for number in 0..ASSOCIATIONS {
        associations.push(connected(&stack, PORT + number, primary, config).await?);
    }
    for (number, phase_of) in (0..).zip(PHASES) {
        context.begin(format!("round-trip time {} ms", phase_of.0));
        set_delays(testbed, phase_of)?;
        tokio::time::sleep_until(start + phase * (number + 1)).await;
        context.done();
    }
    for (_, association) in &associations {
        association.abort(b"all is said");
    }
    stack.close().await;
    tap.flush()?;
    Ok(())
}

async fn connected(
    stack: &Stack,
    port: u16,
    primary: IpAddr,
    config: &EndpointConfig,
) -> anyhow::Result<(Endpoint, Association)> {
    let endpoint = stack.endpoint(port, config.clone())?;
    let to = ConnectTo {
        addresses: vec![primary],
        port: PORT,
        encapsulation_port: None,
        config: None,
    };
    let association = tokio::time::timeout(TIMEOUT, endpoint.connect_to(to)).await??;
    Ok((endpoint, association))
}

/// What the client's host has received and sent.
struct Capture<'a> {
    path: &'a Path,
    began: SystemTime,
    /// The server's addresses.
    server: &'a [IpAddr],
    stalls: &'a [Stall],
}

impl Capture<'_> {
    /// The HEARTBEATs of the client by its port and the server's address.
    fn sequences(
        &self,
        config: &EndpointConfig,
        exactness: Exactness,
    ) -> anyhow::Result<Vec<Sequence>> {
        let stalls = self.stalls.iter().filter_map(|stall| {
            let until = stall.until.duration_since(self.began).ok()?;
            Some((until.saturating_sub(stall.lasted), until))
        });
        let stalls: Vec<(Duration, Duration)> = stalls.collect();
        let began = self.began.duration_since(UNIX_EPOCH)?;
        let mut reader = Reader::open(File::open(self.path)?, 0)?;
        let mut captured: BTreeMap<(u16, usize), (Option<IpAddr>, Captured)> = BTreeMap::new();
        let mut first: BTreeMap<u16, Duration> = BTreeMap::new();
        let mut last = Duration::ZERO;
        let path = |address: IpAddr| self.server.iter().position(|other| *other == address);
        let mut see = |event: capture::Event<'_>| {
            let EventKind::Sctp(sctp) = &event.kind else {
                return;
            };
            let at = Duration::from_nanos(u64::try_from(event.time.0).unwrap_or(0));
            let at = at.saturating_sub(began);
            last = last.max(at);
            // Each association begins with its first packet.
            let port = match path(event.destination.address) {
                Some(_) => event.source.port,
                None => event.destination.port,
            };
            let first = *first.entry(port).or_insert(at);
            let at = at.saturating_sub(first) * SPEEDUP;
            if let Some(path) = path(event.destination.address)
                && let Some(info) = info(&sctp.packet, false)
            {
                let (from, way) = captured.entry((port, path)).or_default();
                *from = Some(event.source.address);
                way.sent.push((at, info));
            }
            if let Some(path) = path(event.source.address)
                && let Some(info) = info(&sctp.packet, true)
            {
                let (_, way) = captured.entry((port, path)).or_default();
                way.answers.push((at, info));
            }
        };
        while reader.step(&mut see)? {}
        let mut sequences = Vec::new();
        for (end, (port, first)) in first.into_iter().enumerate() {
            let halts = |from: Duration, to: Duration| {
                longest_between(&stalls, first + from / SPEEDUP, first + to / SPEEDUP) * SPEEDUP
            };
            let confirmed = latest_first(self.server.len(), &PHASES, exactness, config);
            let until = End {
                at: last.saturating_sub(first) * SPEEDUP,
                exactness: exactness.interval,
            };
            // An address that got none has a sequence of none.
            for address in 0..self.server.len() {
                let (from, captured) = captured.remove(&(port, address)).unwrap_or_default();
                sequences.push(Sequence {
                    end,
                    address,
                    from: from.unwrap_or(Ipv4Addr::UNSPECIFIED.into()),
                    beats: beats(captured, config, until, halts),
                    halt_at_first: halts(Duration::ZERO, confirmed),
                });
            }
        }
        Ok(sequences)
    }
}

/// The longest of those that were about at that time.
fn longest_between(stalls: &[(Duration, Duration)], from: Duration, to: Duration) -> Duration {
    /// Who did not stall may have waited for somebody who did.
    const NEAR: Duration = Duration::from_millis(5);
    let about = stalls
        .iter()
        .filter(|(begin, end)| *begin <= to + NEAR && *end + NEAR >= from);
    about
        .map(|(begin, end)| *end - *begin)
        .max()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_count_for_what_was_about_at_that_time() {
        let milliseconds = Duration::from_millis;
        let stalls = [(100, 120), (115, 118), (400, 402)];
        let stalls = stalls.map(|(begin, end)| (milliseconds(begin), milliseconds(end)));
        let longest =
            |from, to| longest_between(&stalls, milliseconds(from), milliseconds(to)).as_millis();
        assert_eq!(longest(0, 94), 0);
        assert_eq!(longest(0, 95), 20);
        assert_eq!(longest(125, 125), 20);
        assert_eq!(longest(126, 394), 0);
        assert_eq!(longest(126, 1000), 2);
    }
}
