//! Results as lines.

use std::fmt::Write as _;

use measures::DelaySummary;
use report::{format_count, format_milliseconds, format_number};

use crate::control::Order;
use crate::reception::ReceiverReport;
use crate::result::RunResult;
use crate::work::Work;

/// A run in a few lines.
pub fn summary(run: &RunResult) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<14}{value}");
    };
    let late = run.lateness.p95.map_or_else(String::new, |late| {
        format!(", 95 % at most {} ms late", format_milliseconds(late))
    });
    line(
        "Sent",
        format!(
            "{} packets of {} bytes in {} s: {} packets/s{late}",
            format_count(run.sent),
            format_count(run.packet_bytes as u64),
            format_number(run.seconds, 3),
            format_number(run.packets_per_second.unwrap_or(f64::NAN), 0),
        ),
    );
    let rate = run.received_bits_per_second.unwrap_or(f64::NAN) / 1e6;
    line(
        "Received",
        format!(
            "{}, {} Mbit/s",
            counts(&run.receiver),
            format_number(rate, 3)
        ),
    );
    line(
        "Lost",
        format!(
            "{} ({} %)",
            format_count(run.lost),
            format_number(run.loss_percent, 3)
        ),
    );
    line("One-way delay", times(&run.receiver.one_way));
    line("Round trip", times(&run.round_trip));
    line(
        "Jitter",
        format!("{} ms", format_milliseconds(run.receiver.jitter_ms)),
    );
    if run.sealing.packets > 0 {
        line(
            "Encryption",
            format!(
                "{}: encrypt {}, decrypt {}",
                run.encryption.label(),
                work(&run.sealing),
                work(&run.receiver.opening)
            ),
        );
    }
    if let Some(link) = &run.link {
        line(
            "Link",
            format!(
                "{} % of the {} packets/s that {} Mbit/s carry (frames of {} bytes)",
                format_number(link.share_percent.unwrap_or(f64::NAN), 2),
                format_number(link.max_packets_per_second, 0),
                format_number(link.bits_per_second as f64 / 1e6, 0),
                format_count(link.frame.wire_bytes)
            ),
        );
    }
    text
}

/// A run that a receiver has seen, in a line.
pub fn ended_line(order: &Order, sent: u64, report: &ReceiverReport) -> String {
    let lost = sent.saturating_sub(report.received);
    let one_way = match report.one_way.mean {
        Some(mean) => format!(", one-way delay {} ms", format_milliseconds(mean)),
        None => String::new(),
    };
    format!(
        "experiment {} run {}: {} of {} sent, {} lost{one_way}, jitter {} ms",
        order.experiment,
        order.run,
        counts(report),
        format_count(sent),
        format_count(lost),
        format_milliseconds(report.jitter_ms)
    )
}

/// A run that begins, in a line.
pub fn began_line(order: &Order) -> String {
    format!(
        "experiment {} run {}: {} packets of {} bytes, encryption {}",
        order.experiment,
        order.run,
        order.transport,
        format_count(order.size as u64),
        order.encryption
    )
}

fn counts(report: &ReceiverReport) -> String {
    let mut text = format!("{} packets", format_count(report.received));
    for (count, what) in [
        (report.duplicates, "twice"),
        (report.reordered, "out of order"),
        (report.forged, "forged"),
        (report.malformed, "malformed"),
        (report.overruns, "with no room in the socket"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {} {what}", format_count(count));
        }
    }
    text
}

fn times(times: &DelaySummary) -> String {
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), format_milliseconds);
    if times.count == 0 {
        return "–".to_owned();
    }
    format!(
        "mean {} ms, median {}, 95 % {}, longest {} ({} packets)",
        shown(times.mean),
        shown(times.p50),
        shown(times.p95),
        shown(times.max),
        format_count(times.count)
    )
}

fn work(work: &Work) -> String {
    let speed = work.bytes_per_second().unwrap_or(f64::NAN) / 1e6;
    format!(
        "{} ns a packet ({} MByte/s)",
        format_number(work.nanoseconds_per_packet().unwrap_or(f64::NAN), 0),
        format_number(speed, 0)
    )
}
