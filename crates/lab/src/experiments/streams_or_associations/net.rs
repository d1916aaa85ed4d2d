//! The same on real sockets: `tandem perf`'s measurement of scale, whose server is a process of its own on another
//! host, so that its memory and its processor time are its own.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use link::{Bottleneck, LinkConfig, MAX_QUEUE_PACKETS};
use perf::scale::{ScaleConfig, ScaleRun};
use perf::usage::CpuTime;
use perf::{CarrierConfig, Over, Protocol, ServerProcess};
use rand::Rng;
use report::{Cell, Column, Row, Table};
use sctp_net::{DEFAULT_ENCAPSULATION_PORT, EndpointConfig};
use serde_json::{Value, json};
use testbed::{Testbed, Topology, ready_made};
use tokio::sync::watch;

use super::world::{Case, DELAY, RATE};
use super::{MESSAGE, figure};
use crate::checks::Checks;
use crate::context::Context;
use crate::laws::Wire;
use crate::net::{Watch, joined, runtime, sctp_goes_in_udp};
use crate::outcome::Outcome;
use crate::pair::MTU;

/// Associations that are set up at a time.
const AT_A_TIME: f64 = perf::scale::SET_UP_AT_A_TIME as f64;

/// How often the streams are measured; the shortest time counts. They take milliseconds: a machine that does
/// something else meanwhile would say more about itself than about them.
const TRIALS: u64 = 3;

/// The most packets of the conversation about the test meanwhile: two messages and their acknowledgements, what is
/// left of those before, and probes of the path's MTU.
const CONVERSATION: f64 = 32.0;

/// What came of a measurement.
struct Measured {
    run: ScaleRun,
    /// Seconds of the server's processor until all was set up, and all in all.
    server_seconds: [f64; 2],
    /// Packets and bytes of SCTP on the link until all was set up, in both directions.
    set_up: [u64; 2],
    /// Whether the machine stood still, or let others go before, for so long that somebody may have repeated a packet, or sent a
    /// HEARTBEAT.
    may_have_more: bool,
}

pub(super) fn run(context: &Context) -> anyhow::Result<Outcome> {
    let Some(program) = context.program() else {
        return Ok(Outcome::skipped(
            "the server is a process of the program tandem, and there is none beside this one",
        ));
    };
    let count = context.either(1000, 10_000);
    context.steps(1 + TRIALS);
    let mut numbers = 0..;
    let mut one = |case: Case| -> anyhow::Result<Measured> {
        context.begin(format!("{count} {}", case.name()));
        let number = numbers.next().unwrap_or_default();
        let measured = measure(context, program, number, case, count)?;
        context.done();
        Ok(measured)
    };
    let associations = one(Case::Associations)?;
    let mut streams = Vec::new();
    for _ in 0..TRIALS {
        streams.push(one(Case::Streams)?);
    }
    let streams = streams.into_iter().min_by_key(Measured::time);
    let streams = streams.context("there was one at least")?;
    let outcome = Outcome::judged(check(count, &associations, &streams));
    let unbounded = [("associations", &associations), ("streams", &streams)];
    let unbounded = unbounded.into_iter().filter(|(_, one)| one.may_have_more);
    let outcome = unbounded.fold(outcome, |outcome, (name, _)| {
        outcome.note(format!(
            "Packets that set up {name} have no upper bound here: somebody was late, or it took long enough, for packets \
             to be repeated or HEARTBEATs to be sent."
        ))
    });
    Ok(outcome
        .ours(json!({
            "count": count,
            "associations": values(&associations),
            "streams": values(&streams),
        }))
        .published(json!(perf::scale::published()))
        .table(table(count, &associations, &streams))
        .note(
            "The server is a process of its own; its memory is its proportional set size, and its processor time \
             that of the process. Associations are set up 64 at a time, and KTH 2004's one after the other. \
             The streams, which take milliseconds, were measured three times, and the shortest counts.",
        ))
}

impl Measured {
    /// For set-up and transfers together.
    fn time(&self) -> Duration {
        let transfers = self.run.transfers.iter().map(|transfer| transfer.seconds);
        let seconds = self.run.start_up_seconds + transfers.sum::<f64>();
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

impl Case {
    fn name(self) -> &'static str {
        match self {
            Case::Associations => "associations",
            Case::Streams => "streams",
        }
    }
}

fn measure(
    context: &Context,
    program: &Path,
    number: u64,
    case: Case,
    count: u32,
) -> anyhow::Result<Measured> {
    let topology = ready_made("two-hosts").context("the topology is there")?;
    let topology = Topology::parse(topology.text, &[])?;
    let testbed = Testbed::up(&topology, "lab-scale", context.rng(number).next_u64())?;
    let link = LinkConfig {
        bottleneck: Some(Bottleneck {
            queue_packets: MAX_QUEUE_PACKETS,
            queue_bytes: usize::MAX,
            ..Bottleneck::new(RATE as u64)
        }),
        delay: DELAY,
        ..LinkConfig::default()
    };
    testbed.emulator().set_link("link", None, link)?;
    let over = if sctp_goes_in_udp() {
        Over::Udp
    } else {
        Over::Ip
    };
    let config = ScaleConfig {
        case: match case {
            Case::Associations => perf::scale::Case::Associations,
            Case::Streams => perf::scale::Case::Streams,
        },
        count: count as usize,
        streams: 1,
        size: MESSAGE,
        carrier: CarrierConfig {
            over,
            encapsulation_port: DEFAULT_ENCAPSULATION_PORT,
            peer_encapsulation_port: DEFAULT_ENCAPSULATION_PORT,
            kernel_kept_away: false,
            workers: 1,
            tap: None,
        },
    };
    let address = testbed.addresses("server").first().copied();
    let address = address.context("the server has an address")?;
    let command = server(&testbed, program, address, over)?;
    let watch = Watch::begin()?;
    let mut measured = std::thread::scope(|scope| {
        // Programs that it starts are where the command says; its own sockets are on the client's host.
        let client = scope.spawn(|| {
            testbed.enter("client")?;
            runtime()?.block_on(client(&testbed, &config, command))
        });
        joined(client.join())
    })?;
    let is_late = may_have_repeated(watch.end().longest);
    // Idle ones are asked whether they are there after HB.interval and half an RTO at the earliest (section 8.3).
    let hb_interval = EndpointConfig::default().association.path.hb_interval;
    let may_have_asked = measured.run.start_up_seconds >= hb_interval.as_secs_f64();
    measured.may_have_more |= is_late || may_have_asked;
    testbed.down();
    Ok(measured)
}

fn server(
    testbed: &Testbed,
    program: &Path,
    address: IpAddr,
    over: Over,
) -> anyhow::Result<Command> {
    let mut command = testbed.command("server", program)?;
    command
        .args(["perf", "server", "--child", "--allow-scale"])
        .args(["--over", &over.to_string()])
        .args(["--listen", &format!("{}:{address}:0", Protocol::Sctp)]);
    Ok(command)
}

async fn client(
    testbed: &Testbed,
    config: &ScaleConfig,
    command: Command,
) -> anyhow::Result<Measured> {
    let server = ServerProcess::start(command, 1).await?;
    let id = server.id()?;
    let seconds = || CpuTime::of(id).map(|time| time.total_seconds());
    let before = (seconds()?, packets(testbed)?);
    let waits = Waits::begin([id, std::process::id()])?;
    // It tells what begins: first the set-up, then each transfer.
    let mut begins = Vec::new();
    let (_interrupt, interrupts) = watch::channel(0);
    let scale = perf::scale::measure(config, &server, interrupts, |_| {
        begins.push((seconds(), packets(testbed), waits.longest()));
    });
    let scale = scale.await;
    let after = seconds()?;
    server.end().await;
    let mut begins = begins.into_iter();
    let (set_up, transfer) = (begins.next(), begins.next());
    let (set_up, transfer) = set_up
        .zip(transfer)
        .context("it did not tell what begins")?;
    let (from, to) = (set_up.1?, transfer.1?);
    Ok(Measured {
        run: scale?.run().clone(),
        server_seconds: [transfer.0? - before.0, after - before.0],
        set_up: [to[0] - from[0], to[1] - from[1]],
        may_have_more: may_have_repeated(transfer.2),
    })
}

/// Whether somebody who was late by so much at the latest may have repeated a packet: that is done after RTO.Initial
/// (RFC 9260 section 5.1); half of it is left for those before it in line.
fn may_have_repeated(late: Duration) -> bool {
    2 * (late + 2 * DELAY) >= EndpointConfig::default().association.path.rto_initial
}

/// How long a thread of some processes has waited for a processor at a time at most. It looks every few milliseconds,
/// until it is dropped; what a thread has waited in several turns between two looks counts as one.
struct Waits {
    seen: Arc<Mutex<Seen>>,
    is_over: Arc<AtomicBool>,
}

struct Seen {
    processes: [u32; 2],
    /// What each thread had waited at the last look.
    waited: BTreeMap<u32, Duration>,
    longest: Duration,
}

impl Waits {
    fn begin(processes: [u32; 2]) -> io::Result<Waits> {
        const LOOK: Duration = Duration::from_millis(20);
        let seen = Arc::new(Mutex::new(Seen {
            processes,
            waited: processes.into_iter().flat_map(waited).collect(),
            longest: Duration::ZERO,
        }));
        let is_over = Arc::new(AtomicBool::new(false));
        let waits = Waits {
            seen: Arc::clone(&seen),
            is_over: Arc::clone(&is_over),
        };
        let look = move || {
            while !is_over.load(Ordering::Relaxed) {
                look(&seen);
                thread::sleep(LOOK);
            }
        };
        thread::Builder::new()
            .name("waits".to_owned())
            .spawn(look)?;
        Ok(waits)
    }

    fn longest(&self) -> Duration {
        look(&self.seen)
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Looks again, and says what the longest has been so far.
fn look(seen: &Mutex<Seen>) -> Duration {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    for (thread, now) in seen.processes.into_iter().flat_map(waited) {
        // One that is new has waited since it began.
        let before = seen.waited.insert(thread, now).unwrap_or_default();
        seen.longest = seen.longest.max(now.saturating_sub(before));
    }
    seen.longest
}

/// How long each thread of a process has waited for a processor all in all, as far as the kernel tells (sched-stats
/// of its documentation: the second figure, in nanoseconds).
fn waited(process: u32) -> impl Iterator<Item = (u32, Duration)> {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    threads.filter_map(|thread| {
        let figures = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let waited = figures.split(' ').nth(1)?.parse().ok()?;
        let thread = thread.file_name().to_str()?.parse().ok()?;
        Some((thread, Duration::from_nanos(waited)))
    })
}

/// Packets that have come to either host over the link, and their bytes.
fn packets(testbed: &Testbed) -> anyhow::Result<[u64; 2]> {
    let snapshot = testbed.emulator().snapshot()?;
    let link = snapshot.links.first().context("the network has a link")?;
    let lines = [&link.forward, &link.backward];
    Ok([
        lines.iter().map(|line| line.delivered_packets).sum(),
        lines.iter().map(|line| line.delivered_bytes).sum(),
    ])
}

fn check(count: u32, associations: &Measured, streams: &Measured) -> Checks {
    let mut checks = Checks::new();
    let line = RATE / 8.0;
    for (name, measured, each) in [
        ("associations", associations, count),
        ("streams", streams, 1),
    ] {
        // Four packets for each (RFC 9260 section 5.1), which share the link with the conversation about the test.
        let least = f64::from(4 * each);
        let most = match measured.may_have_more {
            true => f64::INFINITY,
            false => least + CONVERSATION,
        };
        checks.law(
            format!("packets that set up {name}"),
            measured.set_up[0] as f64,
            least..=most,
            "packets",
        );
        // Four ways for each, so many side by side.
        let ways = (f64::from(each) / AT_A_TIME).ceil() * 4.0;
        checks.law(
            format!("time to set up {name}"),
            measured.run.start_up_seconds * 1e3,
            ways * DELAY.as_secs_f64() * 1e3..=f64::INFINITY,
            "ms",
        );
        let wire = Wire::sctp(MESSAGE, MTU, true);
        for transfer in &measured.run.transfers {
            let bytes = (transfer.messages * MESSAGE as u64) as f64;
            // On an association of its own a message has a packet of its own.
            let rate = match each {
                1 => wire.goodput(line),
                _ => Wire::sctp(MESSAGE, MTU, false).goodput(line),
            };
            let law = bytes / rate + DELAY.as_secs_f64();
            checks.law(
                format!("{} messages over {name}", transfer.messages),
                transfer.seconds * 1e3,
                law * 1e3..=f64::INFINITY,
                "ms",
            );
        }
    }
    let growth = |measured: &Measured| {
        let run = &measured.run;
        run.server_memory_up_kib
            .saturating_sub(run.server_memory_idle_kib) as f64
    };
    checks.found(
        "streams take almost no memory where associations take much",
        growth(streams) * 10.0 < growth(associations),
        format!(
            "{:.0} KiB for the streams, {:.0} KiB for the associations",
            growth(streams),
            growth(associations)
        ),
    );
    checks.found(
        "streams are set up in a small part of the time",
        streams.run.start_up_seconds * 10.0 < associations.run.start_up_seconds,
        "it is more than a tenth",
    );
    let first = |measured: &Measured| measured.run.transfers.first().map(|one| one.seconds);
    checks.found(
        "messages on many streams take less time than on many associations",
        first(streams) < first(associations),
        "they take as long",
    );
    checks
}

fn values(measured: &Measured) -> Value {
    json!({
        "set_up_s": measured.run.start_up_seconds,
        "set_up_packets": measured.set_up[0],
        "set_up_bytes": measured.set_up[1],
        "server_processor_set_up_s": measured.server_seconds[0],
        "server_processor_s": measured.server_seconds[1],
        "server_memory_idle_kib": measured.run.server_memory_idle_kib,
        "server_memory_up_kib": measured.run.server_memory_up_kib,
        "server_memory_after_transfer_kib": measured.run.server_memory_after_transfer_kib,
        "server_bytes_per_association": measured.run.server_bytes_per_association,
        "transfers": measured.run.transfers,
    })
}

fn table(count: u32, associations: &Measured, streams: &Measured) -> Table {
    let mut table = Table::new("Set-up, memory and transfer")
        .column(Column::text("What").key())
        .column(Column::number(format!("{count} associations")).group("On real sockets"))
        .column(Column::number(format!("{count} streams")).group("On real sockets"))
        .column(Column::number("10,000 associations").group("KTH 2004"))
        .column(Column::number("10,000 streams").group("KTH 2004"));
    let both = [associations, streams];
    let setups = ["10000 associations", "10000 streams"];
    let absent = [None, None];
    let mut row = |what: &str, ours: [f64; 2], decimals, published: [Option<f64>; 2]| {
        let ours = ours.map(|value| Cell::number(value, decimals));
        let published = published
            .map(|value| value.map_or(Cell::Absent, |value| Cell::number(value, decimals)));
        table.push(Row::new(
            [Cell::from(what)].into_iter().chain(ours).chain(published),
        ));
    };
    row(
        "set-up, s",
        both.map(|one| one.run.start_up_seconds),
        3,
        setups.map(|setup| figure("start_up", setup, "run_time")),
    );
    row(
        "set-up, packets",
        both.map(|one| one.set_up[0] as f64),
        0,
        absent,
    );
    row(
        "set-up, processor of the server, s",
        both.map(|one| one.server_seconds[0]),
        2,
        absent,
    );
    row(
        "memory of the server before, KiB",
        both.map(|one| one.run.server_memory_idle_kib as f64),
        0,
        absent,
    );
    row(
        "memory of the server, all set up, KiB",
        both.map(|one| one.run.server_memory_up_kib as f64),
        0,
        setups.map(|setup| figure("start_up", setup, "server_resident_memory")),
    );
    for (index, (what, chunks)) in [
        ("a message each, s", 10_000),
        ("two messages each, s", 20_000),
    ]
    .into_iter()
    .enumerate()
    {
        let mut cells = vec![Cell::from(what)];
        cells.extend(both.map(|one| {
            let transfer = one.run.transfers.get(index);
            transfer.map_or(Cell::Absent, |transfer| Cell::number(transfer.seconds, 3))
        }));
        cells.extend(["associations", "streams"].map(|on| {
            let setup = format!("{chunks} chunks over 10000 {on}");
            figure("transfer", &setup, "run_time")
                .map_or(Cell::Absent, |value| Cell::number(value, 0))
        }));
        table.push(Row::new(cells));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_is_that_of_one_thread_at_a_time() {
        let own = std::process::id();
        let all: BTreeMap<u32, Duration> = waited(own).collect();
        if all.is_empty() {
            return test_support::say_skipped("the kernel does not say how long threads wait");
        }
        // As if none had waited since.
        let seen = Mutex::new(Seen {
            processes: [own; 2],
            waited: all.keys().map(|thread| (*thread, Duration::MAX)).collect(),
            longest: Duration::from_millis(3),
        });
        let longest = look(&seen);
        // Threads of other tests may have begun since.
        assert!(longest >= Duration::from_millis(3));
        let seen = seen.into_inner().expect("nobody panics");
        assert!(
            all.iter()
                .all(|(thread, before)| seen.waited.get(thread) >= Some(before))
        );
        let waits = Waits::begin([own; 2]).expect("a thread can begin");
        assert!(waits.longest() <= waits.longest());
    }
}
