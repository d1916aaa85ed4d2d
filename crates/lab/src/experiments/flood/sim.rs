//! The floods on a virtual clock: what is held over a quarter of an hour.

use std::time::Duration;

use flood::Kind;
use report::{Axis, Cell, Colour, Column, Plot, Row, Series, Table};
use sctp::EndpointConfig;
use serde_json::{Value, json};

use super::world::{DELAY, FloodResult, flooded};
use super::{KINDS, lives, published};
use crate::checks::Checks;
use crate::context::Context;
use crate::outcome::Outcome;

pub(super) fn run(context: &Context) -> anyhow::Result<Outcome> {
    let config = EndpointConfig::default();
    // The longest life, and half as much again, so that the level can be seen.
    let lasts = lives(&config).1 * 3 / 2;
    let rate = context.either(2, 20);
    context.steps(KINDS.len() as u64);
    let mut all = Vec::new();
    for kind in KINDS {
        context.begin(format!("flood of {kind}"));
        all.push((kind, flooded(context, kind, &config, rate, lasts)?));
        context.done();
    }
    let checks = check(&all, &config, rate);
    Ok(Outcome::judged(checks)
        .ours(values(&all, rate))
        .published(published())
        .table(table(&all))
        .plot(plot(&all))
        .note(
            "Memory, processor time and a kernel's TCP listener under a flood of SYNs are matters of real hosts: \
             `--on net`.",
        ))
}

fn check(all: &[(Kind, FloodResult)], config: &EndpointConfig, rate: u32) -> Checks {
    let mut checks = Checks::new();
    let (shortest, longest) = lives(config);
    for (kind, flooded) in all {
        checks.law(
            format!("client, got in under a flood of {kind}"),
            flooded.client_successes as f64,
            flooded.client_attempts as f64..=flooded.client_attempts as f64,
            "times",
        );
        let setup = 4.0 * DELAY.as_secs_f64() * 1e3;
        checks.law(
            format!("client, longest set-up under a flood of {kind}"),
            flooded.client_longest.as_secs_f64() * 1e3,
            setup..=setup,
            "ms",
        );
        let level = flooded.level();
        match kind {
            Kind::Init | Kind::Replay => checks.law(
                format!("most associations held under a flood of {kind}"),
                flooded.most() as f64,
                0.0..=0.0,
                "associations",
            ),
            Kind::Cookie => {
                let held = |life: Duration| f64::from(rate) * life.as_secs_f64();
                // An association is begun a round trip after its INIT.
                checks.law(
                    "associations held when the level is reached, flood of cookie",
                    level,
                    held(shortest) - 1.0..=held(longest) + 1.0,
                    "associations",
                );
                checks.law(
                    "associations held when the flood is long over",
                    flooded.left as f64,
                    0.0..=0.0,
                    "associations",
                );
                let half = flooded.held.len() / 2;
                let before = flooded.held[half..].iter().map(|(_, held)| *held as f64);
                let most = before.fold(0.0, f64::max);
                checks.found(
                    "what the listener holds levels off",
                    most <= 1.1 * level,
                    format!("{most} associations at a time, {level:.0} on average at the end"),
                );
            }
        }
        if *kind == Kind::Replay {
            checks.law(
                "cookies accepted that were replayed, altered or moved",
                flooded.counts.accepted as f64,
                0.0..=0.0,
                "cookies",
            );
        }
    }
    checks
}

fn values(all: &[(Kind, FloodResult)], rate: u32) -> Value {
    all.iter()
        .map(|(kind, flooded)| {
            json!({
                "flood": kind,
                "packets_per_s": rate,
                "counts": flooded.counts,
                "most_associations": flooded.most(),
                "level_associations": flooded.level(),
                "client_attempts": flooded.client_attempts,
                "client_successes": flooded.client_successes,
                "client_longest_set_up_ms": flooded.client_longest.as_secs_f64() * 1e3,
            })
        })
        .collect()
}

fn table(all: &[(Kind, FloodResult)]) -> Table {
    let mut table = Table::new("The listener and a client under floods")
        .column(Column::text("Flood").key())
        .column(Column::number("INIT").group("Packets of the attacker"))
        .column(Column::number("COOKIE ECHO").group("Packets of the attacker"))
        .column(Column::number("replays").group("Packets of the attacker"))
        .column(Column::number("at most").group("Associations held"))
        .column(Column::number("at the end").group("Associations held"))
        .column(Column::number("attempts").group("Client"))
        .column(Column::number("connected").group("Client"))
        .column(Column::number("longest set-up").unit("ms").group("Client"));
    for (kind, flooded) in all {
        let counts = &flooded.counts;
        let count = |number: u64| Cell::number(number as f64, 0);
        table.push(Row::new([
            Cell::from(kind.to_string()),
            count(counts.inits),
            count(counts.cookies),
            count(counts.replayed + counts.altered + counts.moved),
            count(flooded.most() as u64),
            Cell::number(flooded.level(), 0),
            count(flooded.client_attempts),
            count(flooded.client_successes),
            Cell::number(flooded.client_longest.as_secs_f64() * 1e3, 3),
        ]));
    }
    table
}

fn plot(all: &[(Kind, FloodResult)]) -> Plot {
    let mut plot = Plot::new(
        "What the listener holds",
        Axis::new("Time under the flood", "s"),
        Axis::new("Associations", ""),
    );
    let colours = [Colour::Green, Colour::Orange, Colour::Purple];
    for ((kind, flooded), colour) in all.iter().zip(colours) {
        let points = flooded
            .held
            .iter()
            .map(|(time, held)| (time.as_secs_f64(), *held as f64));
        plot = plot.series(
            Series::new(format!("flood of {kind}"), colour).points(points.collect::<Vec<_>>()),
        );
    }
    plot
}
