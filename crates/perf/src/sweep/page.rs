//! A sweep as a page.

use report::{Axis, Colour, Page, Plot, Provenance, Section, Series, format_count, format_number};

use super::{Sweep, table};
use crate::result::TestResult;
use crate::{PAYLOAD_SEED, Protocol};

/// The page of a sweep; `command` repeats it.
pub(super) fn page(sweep: &Sweep, command: &str) -> Page {
    let title = "Throughput of UDP, TCP and SCTP by message size";
    Page::new(title, headline(&sweep.runs, sweep.planned()), sweep.period)
        .paragraph(table::notes(sweep).join(" "))
        .paragraph(
            "Pang 2003, figure 5.2, swept packet sizes with ttcp over one fast link without loss and found \
             this order: UDP, TCP, SCTP in user space, SCTP in the kernel, all growing with the message size. \
             It attributed the order of the last two to unoptimised implementations. It has a curve without \
             figures, so none are shown here.",
        )
        .section(
            Section::new("Throughput")
                .plot(plot(
                    sweep,
                    "Goodput against message size",
                    Axis::new("Goodput", "Mbit/s").logarithmic(),
                    |run| run.goodput_bits_per_second.map(|bits| bits / 1e6),
                ))
                .plot(plot(
                    sweep,
                    "Messages a second against message size",
                    Axis::new("Messages", "1/s").logarithmic(),
                    |run| run.messages_per_second,
                )),
        )
        .section(Section::new("What it costs").plot(plot(
            sweep,
            "Processor time of both ends against message size",
            Axis::new("Processor time", "s/GByte").logarithmic(),
            |run| run.cpu.seconds_per_gbyte,
        )))
        .section(Section::new("All figures").table(table::table(sweep)))
        .provenance(Provenance {
            program: format!("tandem {}", env!("CARGO_PKG_VERSION")),
            machine: sweep.machine.clone(),
            command: command.to_owned(),
            seed: PAYLOAD_SEED,
            parameters: parameters(sweep),
        })
}

/// The highest goodput of each transport; before that, what went wrong.
fn headline(runs: &[TestResult], planned: usize) -> String {
    let mut parts = Vec::new();
    if runs.len() < planned {
        parts.push(format!(
            "interrupted after {} of {planned} tests",
            runs.len()
        ));
    }
    let wrong = runs.iter().filter(|run| !run.errors.is_empty()).count();
    if wrong > 0 {
        parts.push(format!("{wrong} of {planned} tests went wrong"));
    }
    let highest = Protocol::ALL.into_iter().filter_map(|protocol| {
        let runs = runs.iter().filter(|run| run.protocol == protocol);
        let goodputs = runs.filter_map(|run| Some((run.goodput_bits_per_second?, run.size_bytes)));
        let (goodput, size) = goodputs.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
        Some(format!(
            "{} {} Mbit/s with {} bytes",
            protocol.to_string().to_uppercase(),
            format_number(goodput / 1e6, 0),
            format_count(size as u64)
        ))
    });
    let highest: Vec<String> = highest.collect();
    if !highest.is_empty() {
        parts.push(format!("highest goodput: {}", highest.join(", ")));
    }
    parts.join("; ")
}

fn plot(sweep: &Sweep, title: &str, y: Axis, value: fn(&TestResult) -> Option<f64>) -> Plot {
    let x = Axis::new("Message size", "bytes").logarithmic();
    let mut plot = Plot::new(title, x, y);
    for (protocol, name, colour) in [
        (Protocol::Udp, "UDP", Colour::Blue),
        (Protocol::Tcp, "TCP", Colour::Green),
        (Protocol::Sctp, "SCTP", Colour::Orange),
    ] {
        let points = sweep
            .parameters
            .sizes_bytes
            .iter()
            .filter_map(|&size| Some((size as f64, value(sweep.run(protocol, size)?))));
        plot = plot.series(Series::new(name, colour).points(points));
    }
    plot
}

fn parameters(sweep: &Sweep) -> Vec<(String, String)> {
    let sizes: Vec<String> = sweep
        .parameters
        .sizes_bytes
        .iter()
        .map(usize::to_string)
        .collect();
    [
        ("sizes, bytes", sizes.join(", ")),
        ("a test, s", sweep.parameters.seconds.to_string()),
        ("SCTP over", sweep.parameters.over.to_string()),
        ("UDP", "as fast as it goes".to_owned()),
        ("Nagle algorithm", "off".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}
