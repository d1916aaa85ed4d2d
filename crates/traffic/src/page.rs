//! Results as a page.

use report::{
    Axis, Colour, Machine, Page, Period, Plot, Provenance, Section, Series, format_count,
    format_milliseconds, format_share,
};

use crate::condition::Condition;
use crate::encryption::Encryption;
use crate::result::RunResult;
use crate::table;

/// The page of an experiment; `command` repeats it.
pub fn page(
    conditions: &[Condition],
    period: Period,
    machine: Machine,
    seed: u64,
    command: &str,
    parameters: Vec<(String, String)>,
) -> Page {
    let runs: Vec<&RunResult> = conditions.iter().flat_map(|one| &one.trials).collect();
    let title = match runs.first() {
        Some(run) => format!("Raw traffic to {}", run.target),
        None => "Raw traffic".to_owned(),
    };
    let mut page = Page::new(title, headline(&runs), period).paragraph(
        "Each packet carries the experiment, its number and its time. The receiver counts lost, reordered and \
         duplicate packets, and echoes some.",
    );
    let mut fate = Section::new("Losses and delays of the packets").table(table::runs(conditions));
    if let Some(trials) = table::trials(conditions) {
        fate = fate.table(trials);
    }
    page = page.section(fate);
    if let Some(encryption) = table::encryption(conditions) {
        let mut section = Section::new("Cost of encryption").table(encryption);
        if has_sizes(conditions) {
            section = section
                .plot(by_size(
                    conditions,
                    "Encrypting a packet, by its size",
                    Axis::new("Time", "ns").logarithmic(),
                    |one| one.encrypt_nanoseconds,
                ))
                .plot(by_size(
                    conditions,
                    "Decrypting a packet, by its size",
                    Axis::new("Time", "ns").logarithmic(),
                    |one| one.decrypt_nanoseconds,
                ));
        }
        page = page.section(section);
    }
    let mut delays = Section::new("Delays");
    if has_sizes(conditions) {
        delays = delays.plot(by_size(
            conditions,
            "Median round trip, by packet size",
            Axis::new("Round trip", "ms").logarithmic(),
            |one| one.round_trip_median_ms,
        ));
    }
    page = page.section(delays.plot(over_time(conditions)));
    if let Some(link) = table::link_share(conditions) {
        page = page.section(Section::new("The link").table(link));
    }
    page.provenance(Provenance {
        program: format!("tandem {}", env!("CARGO_PKG_VERSION")),
        machine,
        command: command.to_owned(),
        seed,
        parameters,
    })
}

/// How much was lost, and how long a round trip took.
fn headline(runs: &[&RunResult]) -> String {
    let sum = |of: fn(&RunResult) -> u64| runs.iter().map(|run| of(run)).sum::<u64>();
    let mut headline = String::new();
    if runs.iter().any(|run| run.interrupted) {
        headline.push_str("interrupted; ");
    }
    headline.push_str(&losses(
        sum(|run| run.sent),
        sum(|run| run.refused),
        sum(|run| run.lost),
    ));
    let medians = runs.iter().filter_map(|run| run.round_trip.p50);
    let shortest = medians.clone().min_by(f64::total_cmp);
    let longest = medians.max_by(f64::total_cmp);
    if let Some((shortest, longest)) = shortest.zip(longest) {
        let [shortest, longest] = [shortest, longest].map(format_milliseconds);
        headline.push_str(&match shortest == longest {
            true => format!("; median round trip: {shortest} ms"),
            false => format!("; median round trips: {shortest} to {longest} ms"),
        });
    }
    if runs.iter().any(|run| !run.on_schedule) {
        headline.push_str("; the sender did not keep its schedule");
    }
    headline
}

/// What became of packets. Those that our own system has refused have not left, and are not lost.
fn losses(made: u64, refused: u64, lost: u64) -> String {
    let mut text = match made.saturating_sub(refused) {
        0 => "no packet was sent".to_owned(),
        sent => format_share(lost, sent, "packets were lost"),
    };
    if refused > 0 {
        let refused = format_count(refused);
        text.push_str(&format!("; the sender's own system refused {refused}"));
    }
    text
}

fn has_sizes(conditions: &[Condition]) -> bool {
    let first = conditions.first().map(|one| one.size_bytes);
    conditions.iter().any(|one| Some(one.size_bytes) != first)
}

/// A figure against the packet size, a line for each encryption.
fn by_size(
    conditions: &[Condition],
    title: &str,
    y: Axis,
    value: fn(&Condition) -> report::Trials,
) -> Plot {
    let mut plot = Plot::new(title, Axis::new("Packet size", "bytes").logarithmic(), y);
    for encryption in Encryption::ALL {
        let points: Vec<(f64, Option<f64>)> = conditions
            .iter()
            .filter(|one| one.encryption == encryption)
            .map(|one| (one.size_bytes as f64, value(one).mean))
            .filter(|(_, mean)| mean.is_some())
            .collect();
        if !points.is_empty() {
            let series = Series::new(encryption.label(), colour(encryption));
            plot = plot.series(series.points(points));
        }
    }
    plot
}

/// How the delay of the first trial of each condition went; of several sizes the first one's.
fn over_time(conditions: &[Condition]) -> Plot {
    let size = conditions.first().map_or(0, |one| one.size_bytes);
    let mut plot = Plot::new(
        format!("Mean one-way delay of packets of {size} bytes, second by second"),
        Axis::new("Time", "s"),
        Axis::new("One-way delay", "ms"),
    );
    for condition in conditions.iter().filter(|one| one.size_bytes == size) {
        let Some(run) = condition.trials.first() else {
            continue;
        };
        let seconds = run.receiver.per_second.iter().enumerate();
        let points = seconds.map(|(index, second)| (index as f64, second.one_way_ms));
        let series = Series::new(condition.encryption.label(), colour(condition.encryption));
        plot = plot.series(series.points(points));
    }
    plot
}

fn colour(encryption: Encryption) -> Colour {
    match encryption {
        Encryption::None => Colour::Blue,
        Encryption::Aes256Gcm => Colour::Green,
        Encryption::ChaCha20Poly1305 => Colour::Orange,
        Encryption::DesCfb => Colour::Purple,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_did_not_leave_are_not_lost() {
        for (counts, said) in [
            ((1_000, 0, 0), "none of 1,000 packets were lost"),
            ((1_000, 0, 12), "12 of 1,000 packets were lost (1.2 %)"),
            (
                (1_100, 100, 12),
                "12 of 1,000 packets were lost (1.2 %); the sender's own system refused 100",
            ),
            (
                (7, 7, 0),
                "no packet was sent; the sender's own system refused 7",
            ),
            ((0, 0, 0), "no packet was sent"),
        ] {
            let (made, refused, lost) = counts;
            assert_eq!(losses(made, refused, lost), said);
        }
    }
}
