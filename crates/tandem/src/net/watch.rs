//! `tandem net rule watch`.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use report::{Cell, Column, Row, Table};
use serde_json::json;
use testbed::control::{LineState, Request, State};

use super::selection::selection;
use super::{Which, anomalies};
use crate::perf::output::{print, print_line, width};
use crate::values::{count, duration};

/// Show rates, delays, drops and queues of rules and links continuously.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Interval
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,

    /// Number of intervals [default: until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = |text: &str| count(text, 1..=u64::MAX))]
    count: Option<u64>,

    #[command(flatten)]
    which: Which,
}

/// What a line did in an interval.
#[derive(Debug, serde::Serialize)]
struct Did {
    /// `rule` or `link`.
    kind: &'static str,
    /// A rule's number, or a link's name and direction.
    name: String,
    packets: String,
    offered_packets_per_second: f64,
    delivered_bits_per_second: f64,
    dropped_packets_per_second: f64,
    mean_delay_ms: Option<f64>,
    queue_packets: u64,
    queue_bytes: u64,
}

/// Looks again and again.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut remote = arguments.which.find()?;
    let description = remote.description()?;
    let mut before: State = remote.ask(&Request::State)?;
    let terminal = console::Term::stdout();
    let redraws = std::io::stdout().is_terminal() && !arguments.which.json;
    let mut shown_lines = 0;
    let mut looks = 0;
    while arguments.count.is_none_or(|count| looks < count) {
        std::thread::sleep(arguments.interval.max(Duration::from_millis(10)));
        // Whatever the interval is: no conversation is silent that long.
        remote.reconnect()?;
        let now: State = remote.ask(&Request::State)?;
        let all = all(&before, &now, &|link| {
            let known = description.links.iter().find(|one| one.name == link);
            known.map_or_else(Default::default, |link| link.between.clone())
        });
        if arguments.which.json {
            let look = json!({
                "seconds": now.seconds,
                "lines": all,
                "routers": now.routers,
                "undelivered_packets": now.undelivered_packets,
                "refused_packets": now.refused_packets,
            });
            print_line(&look.to_string());
        } else {
            let mut text = table(&all).to_terminal(width());
            text.push_str(&anomalies(&now));
            if redraws {
                terminal.clear_last_lines(shown_lines)?;
            }
            shown_lines = text.lines().count();
            print(&text);
        }
        before = now;
        looks += 1;
    }
    Ok(())
}

/// What all rules and links did between two states.
fn all(before: &State, now: &State, ends: &dyn Fn(&str) -> [String; 2]) -> Vec<Did> {
    let seconds = now.seconds - before.seconds;
    let mut all = Vec::new();
    for rule in &now.rules {
        let earlier = before.rules.iter().find(|one| one.number == rule.number);
        let earlier = earlier.map(|earlier| &earlier.line);
        let name = rule.number.to_string();
        all.push(did(
            "rule",
            name,
            selection(&rule.rule),
            earlier,
            &rule.line,
            seconds,
        ));
    }
    for link in &now.links {
        let earlier = before.links.iter().find(|one| one.name == link.name);
        let [first, second] = ends(&link.name);
        let state = if link.up { "" } else { " (cut)" };
        let mut push = |way: &str, packets: String, earlier, line| {
            let name = format!("{} {way}", link.name);
            all.push(did("link", name, packets + state, earlier, line, seconds));
        };
        let forward = earlier.map(|earlier| &earlier.forward);
        push(
            "forward",
            format!("{first} to {second}"),
            forward,
            &link.forward,
        );
        let backward = earlier.map(|earlier| &earlier.backward);
        push(
            "backward",
            format!("{second} to {first}"),
            backward,
            &link.backward,
        );
    }
    all
}

fn did(
    kind: &'static str,
    name: String,
    packets: String,
    before: Option<&LineState>,
    now: &LineState,
    seconds: f64,
) -> Did {
    let since = |of: fn(&LineState) -> u64| {
        let before = before.map_or(0, of);
        of(now).saturating_sub(before) as f64
    };
    let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
    let delayed = since(|line| line.delay.count);
    let total_us = now.delay.total - before.map_or(0.0, |before| before.delay.total);
    Did {
        kind,
        name,
        packets,
        offered_packets_per_second: per_second(since(|line| line.offered_packets)),
        delivered_bits_per_second: per_second(8.0 * since(|line| line.delivered_bytes)),
        dropped_packets_per_second: per_second(since(|line| line.dropped_packets)),
        mean_delay_ms: (delayed > 0.0).then(|| total_us / delayed / 1e3),
        queue_packets: now.queue_packets,
        queue_bytes: now.queue_bytes,
    }
}

fn table(all: &[Did]) -> Table {
    let mut table = Table::new("")
        .column(Column::text("Line").key())
        .column(Column::text("Packets"))
        .column(Column::number("Offered").unit("1/s"))
        .column(Column::number("Delivered").unit("kbit/s"))
        .column(Column::number("Dropped").unit("1/s"))
        .column(Column::number("Delay").unit("ms"))
        .column(Column::number("Queue").unit("bytes"));
    for did in all {
        table.push(Row::new([
            Cell::from(format!("{} {}", did.kind, did.name)),
            Cell::from(did.packets.clone()),
            Cell::number(did.offered_packets_per_second, 0),
            Cell::number(did.delivered_bits_per_second / 1e3, 1),
            Cell::number(did.dropped_packets_per_second, 0),
            Cell::number(did.mean_delay_ms, 2),
            Cell::from(did.queue_bytes),
        ]));
    }
    table
}
