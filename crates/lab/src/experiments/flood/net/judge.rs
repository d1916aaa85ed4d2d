//! What came of the floods against the law, in tables and plots.

use std::time::Duration;

use flood::{Kind, ProbeResult};
use report::{Axis, Cell, Colour, Column, Plot, Row, Series, Table};
use sctp_net::EndpointConfig;
use serde_json::{Value, json};

use super::sctp::carrier_words;
use super::{DELAY, impatient, kernel, sctp};
use crate::checks::Checks;
use crate::experiments::flood::{lives, published};
use crate::outcome::Outcome;

/// What tells one peer from another takes no fewer bytes, whoever keeps it: address, port, verification tag and
/// initial TSN (RFC 9260 section 3.3.2).
const LEAST_STATE: f64 = 4.0 + 2.0 + 4.0 + 4.0;

pub(super) fn judge(ours: &[sctp::FloodResult], kernels: &[kernel::FloodResult]) -> Outcome {
    let mut checks = Checks::new();
    for flooded in ours {
        check_client(flooded, &mut checks);
        match flooded.kind {
            Kind::Init => check_inits(flooded, &mut checks),
            Kind::Cookie => check_cookies(flooded, &mut checks),
            Kind::Replay => check_replays(flooded, &mut checks),
        }
    }
    for flooded in kernels {
        find_kernel(flooded, &mut checks);
    }
    let late = ours.iter().map(|flooded| flooded.lateness.longest).max();
    let late = late.unwrap_or_default().as_secs_f64() * 1e3;
    let mut outcome = Outcome::judged(checks)
        .ours(json!({
            "sctp": ours.iter().map(of_ours).collect::<Vec<_>>(),
            "kernel_tcp": kernels.iter().map(of_kernel).collect::<Vec<_>>(),
        }))
        .published(published())
        .table(table(ours, kernels))
        .plot(held(ours, kernels))
        .plot(memory(ours))
        .note(
            "Memory is the listener process's own (anonymous pages), and in the kernel the connections that wait \
             for the third packet times what the slab allocator says that each takes. Processor time is that of \
             the listener process, for a packet and as a part of a core, and below it that of the emulator's \
             thread, in which the kernel takes in what \
             is handed over to the listener's host: for TCP that is all of the listener's work. What a packet \
             takes that is nobody's, on the same way, is subtracted; reading the answers, which get lost at the \
             router, is part of it, and so are the packets of the client.",
        )
        .note(format!(
            "This machine woke threads up to {late:.0} ms too late meanwhile."
        ));
    let config = EndpointConfig::default();
    outcome = outcome.note(format!(
        "KTH 2004 asks whether one address may have any number of associations. It may with ours, too: what is \
         bounded is all of an endpoint's, to {} unless told otherwise, and those that would begin within a second, \
         to {}.",
        config.max_associations, config.max_cookie_echoes_per_second
    ));
    if kernels.is_empty() {
        outcome =
            outcome.note("This kernel has no SYN cookies to be switched: TCP was not flooded.");
    }
    if ours.iter().all(|flooded| flooded.over == sctp::IN_UDP) {
        outcome = outcome.note(
            "This kernel has an SCTP of its own, which answers what comes right over IP: ours went in UDP.",
        );
    }
    outcome
}

/// The name of a flood.
fn name(flooded: &sctp::FloodResult) -> String {
    let what = match flooded.kind {
        Kind::Init => "INIT",
        Kind::Cookie => "COOKIE ECHO",
        Kind::Replay => "replays",
    };
    format!("{what} {}", carrier_words(flooded.over))
}

fn kernel_name(flooded: &kernel::FloodResult) -> &'static str {
    match flooded.has_cookies {
        false => "SYN, SYN cookies off",
        true => "SYN, SYN cookies on",
    }
}

fn check_client(flooded: &sctp::FloodResult, checks: &mut Checks) {
    let name = name(flooded);
    checks.law_holds(
        format!("{name}: the listener runs on"),
        flooded.survived,
        "it has ended",
    );
    let attempts = flooded.client.attempts as f64;
    checks.law(
        format!("{name}: client, got in"),
        flooded.client.successes as f64,
        attempts..=attempts,
        "times",
    );
    // Four packets, one after the other (RFC 9260 section 5.1).
    let shortest = 4.0 * DELAY.as_secs_f64() * 1e3;
    checks.law(
        format!("{name}: client, shortest set-up"),
        flooded.client.quantile_ms(0.0).unwrap_or(f64::NAN),
        shortest..=flooded.timeout.as_secs_f64() * 1e3,
        "ms",
    );
}

fn check_inits(flooded: &sctp::FloodResult, checks: &mut Checks) {
    let name = name(flooded);
    checks.law(
        format!("{name}: associations held"),
        flooded.most_held() as f64,
        0.0..=0.0,
        "associations",
    );
    // How many come back is a figure: what has no room at the listener's socket is lost.
    checks.law_holds(
        format!("{name}: INITs are answered, by an INIT ACK each at most"),
        (1..=flooded.report.sent).contains(&flooded.answers),
        format!(
            "{} INIT ACKs came for {} INITs",
            flooded.answers, flooded.report.sent
        ),
    );
    check_memory(flooded, checks);
}

/// Nothing is kept of a packet: not even what would tell its sender from others.
fn check_memory(flooded: &sctp::FloodResult, checks: &mut Checks) {
    let name = name(flooded);
    let Some((packets, bytes)) = flooded.second_half() else {
        checks.law_holds(
            format!("{name}: memory taken"),
            false,
            "the flood was over before anybody looked",
        );
        checks.depends_on_time();
        return;
    };
    checks.law(
        format!("{name}: memory taken for {packets} packets"),
        // It may also give some back.
        bytes.max(0.0) / 1024.0,
        0.0..=LEAST_STATE * packets as f64 / 1024.0,
        "KiB",
    );
}

fn check_cookies(flooded: &sctp::FloodResult, checks: &mut Checks) {
    let name = name(flooded);
    let config = impatient();
    let (shortest, longest) = lives(&config);
    // Each heartbeat and each timeout may be late, and so may the words that tell of the beginning and the
    // end, each on its way through two threads.
    let late = flooded.lateness.longest;
    let timers = 2 * (config.association.association_max_retrans + 1);
    let (low, high) = (
        shortest.saturating_sub(2 * late + GRANULARITY),
        longest + (timers + 2) * late + GRANULARITY,
    );
    let within = |life: &&Duration| (low..=high).contains(*life);
    let kept = flooded.lives.ended.iter().filter(within).count();
    let ends = |lives: &[Duration]| {
        let seconds = |life: Option<&Duration>| life.map_or(f64::NAN, Duration::as_secs_f64);
        let (least, most) = (seconds(lives.iter().min()), seconds(lives.iter().max()));
        format!("they lived from {least:.2} to {most:.2} s")
    };
    checks.law_holds(
        format!(
            "{name}: each association lives from {:.1} to {:.1} s",
            shortest.as_secs_f64(),
            longest.as_secs_f64()
        ),
        kept == flooded.lives.ended.len() && kept > 0,
        ends(&flooded.lives.ended),
    );
    checks.depends_on_time();
    checks.law(
        format!("{name}: associations that came up"),
        flooded.came_up() as f64,
        0.0..=flooded.report.counts.cookies as f64,
        "associations",
    );
    checks.law(
        format!("{name}: associations held when the flood is over"),
        flooded.left() as f64,
        0.0..=0.0,
        "associations",
    );
    // The level is reached after the longest life; the client's rest is no flood.
    let flood = Duration::from_secs_f64(flooded.report.seconds);
    let level: Vec<f64> = flooded
        .samples
        .iter()
        .filter(|sample| sample.at >= longest && sample.sent < flooded.report.sent)
        .filter(|sample| sample.at < flood)
        .map(|sample| sample.held as f64)
        .collect();
    let (levels_off, otherwise) = match halves(&level) {
        Some([before, after]) => (
            after <= 1.25 * before,
            format!("{before:.0} associations, and {after:.0} later"),
        ),
        None => (
            false,
            "the flood was too short to tell: nobody looked at the listener twice between the longest life and its \
             end"
                .to_owned(),
        ),
    };
    checks.found(
        format!("{name}: what the listener holds levels off"),
        levels_off,
        otherwise,
    );
}

/// The means of the first and the second half of figures; nothing where there are not two of them.
fn halves(figures: &[f64]) -> Option<[f64; 2]> {
    let (first, second) = figures.split_at(figures.len() / 2);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    (!first.is_empty()).then(|| [mean(first), mean(second)])
}

/// Timers and clocks of the engine count milliseconds.
const GRANULARITY: Duration = Duration::from_millis(5);

fn check_replays(flooded: &sctp::FloodResult, checks: &mut Checks) {
    let name = name(flooded);
    checks.law(
        format!("{name}: cookies accepted"),
        flooded.report.counts.accepted as f64,
        0.0..=0.0,
        "cookies",
    );
    // The one whose cookie is replayed.
    checks.law(
        format!("{name}: associations that came up"),
        flooded.came_up() as f64,
        1.0..=1.0,
        "associations",
    );
    let counts = &flooded.report.counts;
    checks.law_holds(
        format!("{name}: its cookie is replayed, altered and moved"),
        counts.replayed.min(counts.altered).min(counts.moved) > 0,
        "nothing was replayed",
    );
    check_memory(flooded, checks);
}

fn find_kernel(flooded: &kernel::FloodResult, checks: &mut Checks) {
    let client = &flooded.client;
    let kept_out = client.attempts - client.successes;
    let got_in = format!(
        "{} of {} attempts got in",
        client.successes, client.attempts
    );
    let reason = match flooded.has_cookies {
        false => got_in,
        true => format!(
            "{got_in}: a cookie in the sequence number (RFC 4987 section 3.6) keeps the queue free"
        ),
    };
    checks.found(
        format!("{}: a flood keeps clients out of TCP", kernel_name(flooded)),
        kept_out > client.successes,
        reason,
    );
}

fn of_client(client: &ProbeResult) -> Value {
    json!({
        "attempts": client.attempts,
        "successes": client.successes,
        "set_up_ms": {
            "median": client.median_ms(),
            "p90": client.quantile_ms(0.9),
            "p99": client.quantile_ms(0.99),
            "longest": client.quantile_ms(1.0),
        },
    })
}

fn of_ours(flooded: &sctp::FloodResult) -> Value {
    let seconds = flooded.report.seconds;
    json!({
        "flood": flooded.kind,
        "over": flooded.over,
        "packets": flooded.report.sent,
        "packets_per_s": flooded.report.sent as f64 / seconds,
        "counts": flooded.report.counts,
        "answers_to_forged_addresses": flooded.answers,
        "most_associations": flooded.most_held(),
        "memory_before_kib": flooded.before.memory.anonymous_kib,
        "memory_most_kib": flooded.most_memory(),
        "proportional_set_size_before_kib": flooded.before.memory.proportional_kib,
        "listener_us_per_packet": flooded.own_seconds_per_packet * 1e6,
        "listener_processor_percent": flooded.own_percent(),
        "kernel_and_emulator_us_per_packet": flooded.other_seconds_per_packet * 1e6,
        "client": of_client(&flooded.client),
        "client_before": of_client(&flooded.calm),
    })
}

fn of_kernel(flooded: &kernel::FloodResult) -> Value {
    json!({
        "syn_cookies": flooded.has_cookies,
        "packets": flooded.report.sent,
        "packets_per_s": flooded.report.sent as f64 / flooded.report.seconds,
        "most_half_open": flooded.most_half_open(),
        "half_open_bytes_each": flooded.each_bytes,
        "kernel_and_emulator_us_per_packet": flooded.seconds_per_packet * 1e6,
        "client": of_client(&flooded.client),
        "client_before": of_client(&flooded.calm),
    })
}

fn table(ours: &[sctp::FloodResult], kernels: &[kernel::FloodResult]) -> Table {
    let mut table = Table::new("Listeners and a client under floods")
        .column(Column::text("Flood").key())
        .column(Column::number("packets").group("Attacker"))
        .column(Column::number("rate").unit("1/s").group("Attacker"))
        .column(Column::number("INIT ACKs").unit("%").group("Attacker"))
        .column(Column::number("state kept").group("At most"))
        .column(Column::number("memory growth").unit("KiB").group("At most"))
        .column(
            Column::number("listener")
                .unit("µs/packet")
                .group("Processor"),
        )
        .column(Column::number("listener").unit("%").group("Processor"))
        .column(
            Column::number("below it")
                .unit("µs/packet")
                .group("Processor"),
        )
        .column(Column::number("attempts").group("Client"))
        .column(Column::number("connected").unit("%").group("Client"))
        .column(Column::number("median").unit("ms").group("Client's set-up"))
        .column(Column::number("p99").unit("ms").group("Client's set-up"))
        .column(
            Column::number("median before")
                .unit("ms")
                .group("Client's set-up"),
        );
    let time = |time: Option<f64>| time.map_or(Cell::Absent, |time| Cell::number(time, 1));
    let of_client = |client: &ProbeResult, calm: &ProbeResult| {
        let part = client.success_rate().map(|rate| 100.0 * rate);
        [
            Cell::number(client.attempts as f64, 0),
            time(part),
            time(client.median_ms()),
            time(client.quantile_ms(0.99)),
            time(calm.median_ms()),
        ]
    };
    for flooded in ours {
        let (sent, seconds) = (flooded.report.sent as f64, flooded.report.seconds);
        let memory = flooded.most_memory() as f64 - flooded.before.memory.anonymous_kib as f64;
        let init_acks = match flooded.kind {
            Kind::Init => flooded.answers,
            Kind::Cookie | Kind::Replay => flooded.report.counts.init_acks,
        };
        let inits = match flooded.kind {
            Kind::Init => flooded.report.sent,
            Kind::Cookie | Kind::Replay => flooded.report.counts.inits,
        };
        let cells = [
            Cell::from(name(flooded)),
            Cell::number(sent, 0),
            Cell::number(sent / seconds, 0),
            Cell::number(100.0 * init_acks as f64 / inits.max(1) as f64, 1),
            Cell::number(flooded.most_held() as f64, 0),
            Cell::number(memory, 0),
            Cell::number(flooded.own_seconds_per_packet * 1e6, 1),
            Cell::number(flooded.own_percent(), 1),
            Cell::number(flooded.other_seconds_per_packet * 1e6, 1),
        ];
        let client = of_client(&flooded.client, &flooded.calm);
        table.push(Row::new(cells.into_iter().chain(client)));
    }
    for flooded in kernels {
        let (sent, seconds) = (flooded.report.sent as f64, flooded.report.seconds);
        let held = flooded.most_half_open() as f64;
        let memory = flooded.each_bytes.map(|each| held * each as f64 / 1024.0);
        let cells = [
            Cell::from(kernel_name(flooded)),
            Cell::number(sent, 0),
            Cell::number(sent / seconds, 0),
            Cell::Absent,
            Cell::number(held, 0),
            memory.map_or(Cell::Absent, |memory| Cell::number(memory, 0)),
            Cell::note("in the kernel"),
            Cell::Absent,
            Cell::number(flooded.seconds_per_packet * 1e6, 1),
        ];
        let client = of_client(&flooded.client, &flooded.calm);
        table.push(Row::new(cells.into_iter().chain(client)));
    }
    table
}

/// What is held of the attacker's packets, where SCTP goes in UDP.
fn held(ours: &[sctp::FloodResult], kernels: &[kernel::FloodResult]) -> Plot {
    let mut plot = Plot::new(
        "What listeners hold",
        Axis::new("Time under the flood", "s"),
        Axis::new("Associations, half-open connections", ""),
    );
    let colours = [Colour::Green, Colour::Orange, Colour::Purple];
    let in_udp = ours.iter().filter(|flooded| flooded.over == sctp::IN_UDP);
    for (flooded, colour) in in_udp.zip(colours) {
        let points = flooded.samples.iter();
        let points = points.map(|sample| (sample.at.as_secs_f64(), sample.held as f64));
        plot = plot.series(Series::new(name(flooded), colour).points(points));
    }
    for (flooded, colour) in kernels.iter().zip([Colour::Blue, Colour::Sky]) {
        let points = flooded.half_open.iter();
        let points = points.map(|(at, count)| (at.as_secs_f64(), *count as f64));
        plot = plot.series(Series::new(kernel_name(flooded), colour).points(points));
    }
    plot
}

fn memory(ours: &[sctp::FloodResult]) -> Plot {
    let mut plot = Plot::new(
        "Memory of our listener",
        Axis::new("Time under the flood", "s"),
        Axis::new("Anonymous memory", "MiB"),
    );
    let colours = [
        Colour::Green,
        Colour::Orange,
        Colour::Purple,
        Colour::Blue,
        Colour::Sky,
        Colour::Grey,
    ];
    for (flooded, colour) in ours.iter().zip(colours) {
        let points = flooded.samples.iter().map(|sample| {
            let mebibytes = sample.usage.memory.anonymous_kib as f64 / 1024.0;
            (sample.at.as_secs_f64(), mebibytes)
        });
        plot = plot.series(Series::new(name(flooded), colour).points(points));
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_takes_two_looks() {
        assert_eq!(halves(&[]), None);
        assert_eq!(halves(&[3.0]), None);
        assert_eq!(halves(&[3.0, 5.0]), Some([3.0, 5.0]));
        assert_eq!(halves(&[2.0, 4.0, 4.0, 6.0, 8.0]), Some([3.0, 6.0]));
    }
}
