//! Results as people read them in a terminal.

use std::fmt::Write as _;

use report::{format_count, format_milliseconds, format_number};

use crate::control::{PathCondition, PathReport};
use crate::result::{Cpu, Interval, TestResult};
use crate::{Limit, Protocol, TestParameters};

/// One line of progress.
pub fn interval_line(interval: &Interval) -> String {
    let mut line = format!(
        "{:>6}–{:<6} s  {:>12} Mbit/s  {:>11} messages/s",
        format_number(interval.from_seconds, 2),
        format_number(interval.to_seconds, 2),
        megabits(interval.goodput_bits_per_second),
        optional(interval.messages_per_second, 0),
    );
    if let Some(lost) = interval.lost {
        let _ = write!(line, "  lost {}", format_count(lost));
    }
    if let Some(jitter) = interval.jitter_ms {
        let _ = write!(line, "  jitter {} ms", format_milliseconds(jitter));
    }
    if let Some(retransmissions) = interval.retransmissions {
        let _ = write!(line, "  retransmitted {}", format_count(retransmissions));
    }
    // A line has room for the paths of one flow.
    for path in interval.paths.iter().filter(|path| path.flow == 0).take(2) {
        let _ = write!(line, "  {}", path_brief(path));
    }
    line
}

/// What a test is going to do, in one line.
pub fn plan_line(target: &str, test: &TestParameters) -> String {
    let mut parts = vec![format!("{}-byte messages", format_count(test.size as u64))];
    match test.limit {
        Limit::Seconds(seconds) => parts.push(format!("{seconds} s")),
        Limit::Count(count) => parts.push(format!("{} of them", format_count(count))),
    }
    if let Some(rate) = test.bitrate {
        parts.push(rate.to_string());
    }
    if test.parallel > 1 {
        let what = match test.protocol {
            Protocol::Udp => "sockets",
            Protocol::Tcp => "connections",
            Protocol::Sctp => "associations",
        };
        parts.push(format!("{} {what}", test.parallel));
    }
    if test.streams > 1 {
        parts.push(format!("{} streams", format_count(test.streams.into())));
    }
    if test.unordered {
        parts.push("unordered".into());
    }
    if let Some(scheduler) = test.scheduler {
        parts.push(format!("scheduler {scheduler}"));
    }
    if let Some(profile) = test.profile {
        parts.push(format!("profile {profile}"));
    }
    if let Some(congestion) = test.congestion {
        parts.push(format!("congestion control {congestion}"));
    }
    if test.interleave {
        parts.push("interleaved".into());
    }
    if let Some(lifetime) = test.lifetime {
        parts.push(format!("given up after {lifetime:?}"));
    }
    if test.nodelay {
        parts.push("no delay".into());
    }
    if let Some(window) = test.window {
        parts.push(format!("window {} bytes", format_count(window as u64)));
    }
    let direction = if test.reverse { "from" } else { "to" };
    format!("{direction} {target}: {}", parts.join(", "))
}

/// A result, several lines.
pub fn summary(run: &TestResult) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{name:<16} {value}");
    };
    for (name, traffic) in [("Sent", &run.sent), ("Received", &run.received)] {
        line(
            name,
            format!(
                "{} messages, {} bytes in {} s",
                format_count(traffic.messages),
                format_count(traffic.bytes),
                seconds(traffic.seconds)
            ),
        );
    }
    line(
        "Goodput",
        format!(
            "{} Mbit/s = {} MByte/s, {} messages/s",
            megabits(run.goodput_bits_per_second),
            optional(run.goodput_bits_per_second.map(|bits| bits / 8e6), 1),
            optional(run.messages_per_second, 0)
        ),
    );
    line("CPU s/GByte", cpu(&run.cpu));
    if let Some(udp) = &run.udp {
        line(
            "Datagrams",
            format!(
                "{} lost ({} %), {} out of order, {} twice, jitter {} ms",
                format_count(udp.lost),
                format_number(udp.loss_percent, 3),
                format_count(udp.reordered),
                format_count(udp.duplicates),
                format_milliseconds(udp.jitter_ms)
            ),
        );
    }
    if let Some(retransmissions) = run.retransmissions {
        let what = match run.protocol {
            Protocol::Sctp => "DATA chunks",
            Protocol::Tcp | Protocol::Udp => "segments",
        };
        line(
            "Retransmitted",
            format!("{} {what}", format_count(retransmissions)),
        );
    }
    for path in run.paths.iter().take(SHOWN_PATHS) {
        line("Path", path_line(path, run.sent.flows.len() > 1));
    }
    if let Some(more) = run
        .paths
        .len()
        .checked_sub(SHOWN_PATHS)
        .filter(|more| *more > 0)
    {
        line("", format!("and {more} more"));
    }
    if run.interrupted {
        line(
            "Interrupted",
            "interrupted; this is the result so far".into(),
        );
    }
    out
}

/// Paths that a summary shows.
const SHOWN_PATHS: usize = 16;

fn cpu(cpu: &Cpu) -> String {
    let shared = if cpu.shared_with_other_tests {
        " (the server served other tests, too)"
    } else {
        ""
    };
    format!(
        "{} = sender {} + receiver {}{shared}",
        optional(cpu.seconds_per_gbyte, 2),
        optional(cpu.sender_seconds_per_gbyte, 2),
        optional(cpu.receiver_seconds_per_gbyte, 2),
    )
}

fn path_brief(path: &PathReport) -> String {
    let cwnd = format_count(path.cwnd_bytes);
    match path.state {
        PathCondition::Active => format!("{} RTT {} cwnd {cwnd}", path.address, srtt(path)),
        state => format!("{} {}", path.address, condition(state)),
    }
}

fn path_line(path: &PathReport, names_flow: bool) -> String {
    let flow = match names_flow {
        true => format!("flow {}, ", path.flow),
        false => String::new(),
    };
    let primary = if path.primary { "primary, " } else { "" };
    format!(
        "{flow}{} ({primary}{}): RTT {}, RTO {} ms, cwnd {} bytes, MTU {} bytes",
        path.address,
        condition(path.state),
        srtt(path),
        format_milliseconds(path.rto_ms),
        format_count(path.cwnd_bytes),
        format_count(path.mtu_bytes)
    )
}

/// The smoothed round-trip time; a path on which nothing has come back yet has none.
fn srtt(path: &PathReport) -> String {
    path.srtt_ms.map_or_else(
        || "–".to_owned(),
        |srtt| format!("{} ms", format_milliseconds(srtt)),
    )
}

fn condition(state: PathCondition) -> &'static str {
    match state {
        PathCondition::Active => "active",
        PathCondition::PotentiallyFailed => "potentially failed",
        PathCondition::Inactive => "inactive",
        PathCondition::Unconfirmed => "unconfirmed",
    }
}

/// Seconds with as many decimals as a short time needs.
fn seconds(seconds: f64) -> String {
    format_number(seconds, if seconds < 0.1 { 6 } else { 3 })
}

fn megabits(bits_per_second: Option<f64>) -> String {
    let megabits = bits_per_second.map(|bits| bits / 1e6);
    let decimals = if megabits.is_some_and(|megabits| megabits < 10.0) {
        3
    } else {
        1
    };
    optional(megabits, decimals)
}

fn optional(value: Option<f64>, decimals: u8) -> String {
    format_number(value.unwrap_or(f64::NAN), decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval() -> Interval {
        Interval {
            from_seconds: 1.0,
            to_seconds: 2.0,
            messages: 73_184,
            bytes: 74_940_416,
            goodput_bits_per_second: Some(599_523_328.0),
            messages_per_second: Some(73_184.0),
            retransmissions: Some(3),
            lost: None,
            jitter_ms: None,
            paths: vec![PathReport {
                flow: 0,
                address: "127.0.0.1".parse().unwrap(),
                state: PathCondition::Active,
                primary: true,
                srtt_ms: Some(0.1234),
                rto_ms: 1000.0,
                cwnd_bytes: 84_000,
                mtu_bytes: 1472,
            }],
            is_partial: false,
        }
    }

    #[test]
    fn progress_is_one_line() {
        assert_eq!(
            interval_line(&interval()),
            "  1.00–2.00   s         599.5 Mbit/s       73,184 messages/s  retransmitted 3  \
             127.0.0.1 RTT 0.123 ms cwnd 84,000"
        );
    }

    #[test]
    fn a_round_trip_that_was_not_measured_has_no_unit() {
        let mut interval = interval();
        interval.paths[0].srtt_ms = None;
        assert!(interval_line(&interval).ends_with("127.0.0.1 RTT – cwnd 84,000"));
    }

    #[test]
    fn a_path_that_is_not_in_use_says_so() {
        let mut interval = interval();
        interval.paths[0].state = PathCondition::PotentiallyFailed;
        assert!(interval_line(&interval).ends_with("127.0.0.1 potentially failed"));
    }

    #[test]
    fn a_plan_names_what_is_unusual() {
        let mut test = TestParameters::new(Protocol::Sctp);
        assert_eq!(
            plan_line("sctp:h:1", &test),
            "to sctp:h:1: 1,024-byte messages, 10 s"
        );
        test.reverse = true;
        test.streams = 10;
        test.parallel = 2;
        test.unordered = true;
        test.limit = Limit::Count(5000);
        assert_eq!(
            plan_line("sctp:h:1", &test),
            "from sctp:h:1: 1,024-byte messages, 5,000 of them, 2 associations, 10 streams, unordered"
        );
    }
}
