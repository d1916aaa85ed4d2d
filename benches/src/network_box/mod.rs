//! `emulator`: what the network in a box takes for a packet, beside a bare copy between the two interfaces and
//! beside the kernel as the router; how exact its delays and rates are.

mod carrier;
mod hosts;
mod traffic;

use std::time::Duration;

use anyhow::Context;
use emulator::DriverConfig;
use link::{Bottleneck, LinkConfig};

use crate::output::{Output, Row};
use crate::rounds::{Better, Rounds, Spread};
use carrier::{BareCopy, Carrier, Kernel, Ours};
use hosts::{Hosts, routed, wire};
use traffic::{flood, probe};

/// Packets of so many bytes are sent as fast as they go.
const PACKET_BYTES: usize = 200;

/// As many packets a second are to pass on one core.
const PACKETS_PER_SECOND: u64 = 200_000;

/// The delay whose precision is measured.
const DELAY: Duration = Duration::from_millis(50);

/// The most that may come on top of it, for 99 of 100 packets.
const PRECISION_US: f64 = 200.0;

/// How many cases share the time.
const CASES: usize = 12;

pub(crate) fn run(rounds: &Rounds, output: &mut dyn Output) -> anyhow::Result<()> {
    let time = rounds.time_for_one(CASES).min(Duration::from_secs(3));
    copies(rounds, output, time)?;
    delays(rounds, output, time)?;
    rates(rounds, output, time)
}

/// Packets a CPU second of the thread that carries them, and how many arrive of what is wanted.
fn copies(rounds: &Rounds, output: &mut dyn Output, time: Duration) -> anyhow::Result<()> {
    let everything = LinkConfig {
        bottleneck: Some(Bottleneck::new(10_000_000_000)),
        loss: 0.001.into(),
        duplicate: 0.001.into(),
        delay: Duration::from_millis(20),
        jitter: Duration::from_millis(1).into(),
        ..LinkConfig::default()
    };
    let cases = [
        ("a wire", wire(LinkConfig::default())),
        ("a router", routed(LinkConfig::default())),
        ("a router, rate, loss, 20 ms, jitter", routed(everything)),
    ];
    for (case, network) in cases {
        let ours = || {
            let carrier = Ours::new(Hosts::new()?, &network)?;
            carried(&carrier, time)
        };
        let bare = || {
            let carrier = BareCopy::new(Hosts::new()?)?;
            carried(&carrier, time)
        };
        let [of_thread, arrived] = rounds.alternate(ours, bare)?;
        let row = |metric, (ours, peer): (Spread, Spread), goal| Row {
            case: format!("{case}, beside a bare copy"),
            metric,
            better: Better::Higher,
            ours,
            peer,
            goal,
        };
        // The advantage at which as many pass on one core as are to.
        let mark = PACKETS_PER_SECOND as f64 / of_thread.1.median;
        output.row(row("packets_per_cpu_second", of_thread, mark))?;
        output.row(row("packets_per_second_of_200000", arrived, 0.0))?;
    }
    let network = routed(LinkConfig::default());
    let [arrived] = rounds.alternate(
        || {
            let carrier = Ours::new(Hosts::new()?, &network)?;
            Ok([flood(&carrier, time, None)?.per_second])
        },
        || {
            let carrier = Kernel::new()?;
            Ok([flood(&carrier, time, None)?.per_second])
        },
    )?;
    output.row(Row {
        case: "a router, beside the kernel as router".to_owned(),
        metric: "packets_per_second",
        better: Better::Higher,
        ours: arrived.0,
        peer: arrived.1,
        goal: 0.0,
    })
}

fn carried(carrier: &dyn Carrier, time: Duration) -> anyhow::Result<[f64; 2]> {
    let most = flood(carrier, time / 2, None)?;
    let wanted = flood(carrier, time / 2, Some(PACKETS_PER_SECOND))?;
    Ok([most.per_cpu_second, wanted.per_second])
}

/// What comes on top of a delay.
fn delays(rounds: &Rounds, output: &mut dyn Output, time: Duration) -> anyhow::Result<()> {
    let late = LinkConfig {
        delay: DELAY,
        ..LinkConfig::default()
    };
    let sleeping = DriverConfig::default();
    let awake = DriverConfig {
        spin: Duration::from_micros(200),
        ..sleeping
    };
    let real_time = DriverConfig {
        real_time: true,
        ..sleeping
    };
    for (case, driver) in [
        ("50 ms, sleeping", sleeping),
        ("50 ms, awake 200 us before", awake),
        ("50 ms, in real time", real_time),
    ] {
        let network = routed(late.clone());
        let [median, most] = rounds.alternate(
            || {
                let carrier = Ours::driven(Hosts::new()?, &network, driver)?;
                probe(&carrier, time, DELAY)
            },
            || {
                let carrier = BareCopy::new(Hosts::new()?)?;
                probe(&carrier, time, Duration::ZERO)
            },
        )?;
        let row = |metric, (ours, peer): (Spread, Spread), goal| Row {
            case: format!("{case}, beside a bare copy without delay"),
            metric,
            better: Better::Lower,
            ours,
            peer,
            goal,
        };
        output.row(row("added_us_median", median, 0.0))?;
        output.row(row("added_us_p99", most, most.1.median / PRECISION_US))?;
    }
    Ok(())
}

/// What passes of what is set.
fn rates(rounds: &Rounds, output: &mut dyn Output, time: Duration) -> anyhow::Result<()> {
    for set in [1_000_000, 10_000_000, 100_000_000] {
        let slow = LinkConfig {
            bottleneck: Some(Bottleneck::new(set)),
            ..LinkConfig::default()
        };
        let network = routed(slow);
        let [(ours, peer)] = rounds.alternate(
            || {
                let carrier = Ours::new(Hosts::new()?, &network)?;
                let packets = set / 8 / traffic::RATE_PACKET_BYTES as u64;
                let passed = traffic::rate(&carrier, time, packets * 2).context("rate")?;
                Ok([passed])
            },
            || Ok([set as f64]),
        )?;
        output.row(Row {
            case: format!("{} Mbit/s set, twice as much offered", set / 1_000_000),
            metric: "bits_per_second",
            better: Better::Higher,
            ours,
            peer,
            goal: 0.0,
        })?;
    }
    Ok(())
}
