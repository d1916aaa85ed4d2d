//! The demo's results as a page.

use measures::DelaySummary;
use report::{Axis, Colour, Page, Plot, Provenance, Section, Series};
use sip::Transport;
use sip_net::Profile;

use super::condition::Line;
use super::headline::headline;
use super::table::table;
use super::{Associations, End, Measurement, Options, Results};
use crate::published::calls_under_loss;

/// The page of all runs; `command` repeats them.
pub(super) fn page(results: &Results, command: &str) -> Page {
    let Results {
        options,
        machine,
        period,
        planned,
        runs,
    } = results;
    let title = "SIP calls over UDP, TCP and SCTP on a lossy network";
    Page::new(title, headline(runs, *planned), *period)
        .paragraph(summary(options))
        .paragraph(
            "Lost packets are drawn from a seed, separately for each direction, inside the users' sockets. SIP \
             over UDP detects a loss by its own timers, for each transaction separately (500 ms, doubling). SCTP \
             recovers below SIP. With the profile rfc9260 (RFC 9260 section 16) it does so at once if enough packets \
             follow to reveal the gap, otherwise by its retransmission timer, which starts at 1 s (RTO.Min) and \
             doubles for all users of the association each time that a packet or its acknowledgement is lost again. \
             With the profile signalling it asks for an acknowledgement within some round trips (RACK-TLP, RFC 8985), \
             and its timer starts at 200 ms.",
        )
        .section(Section::new("Completed calls").plot(completed_calls(runs)))
        .section(
            Section::new("Session request delay")
                .paragraph(
                    "From the first INVITE to the first provisional response beyond 100 Trying (RFC 6076 \
                     section 4.3.1), of calls that were set up.",
                )
                .plot(session_request_delay(runs)),
        )
        .section(Section::new("Beside the published figures").plot(beside_published(runs)))
        .section(Section::new("All figures").table(table(options, runs)))
        .provenance(Provenance {
            program: format!("tandem {}", env!("CARGO_PKG_VERSION")),
            machine: machine.clone(),
            command: command.to_owned(),
            seed: options.seed,
            parameters: parameters(options),
        })
}

fn summary(options: &Options) -> String {
    let pace = match options.rate {
        Some(rate) => format!("together begin {rate} calls a second"),
        None => "call their callees back to back".to_owned(),
    };
    let end = match options.end {
        End::Seconds(seconds) => format!("for {seconds} seconds"),
        End::Calls(calls) => format!("until {calls} calls have ended"),
    };
    let sharing = match options.associations {
        Associations::Shared => {
            "the users of a side share one socket, connection or association (with a stream each)"
        }
        Associations::PerUser => "each user has a socket, connection or association of its own",
    };
    format!(
        "{} callers {pace}, {end}, through one proxy and registrar on this machine; {sharing}.",
        options.users
    )
}

fn completed_calls(runs: &[Measurement]) -> Plot {
    let mut plot = Plot::new(
        "Completed calls against packet loss",
        Axis::new("Packet loss, each direction", "%"),
        Axis::new("Completed calls", "calls/s").logarithmic(),
    );
    for (line, colour) in lines(runs) {
        plot = plot.series(
            Series::new(line.label(), colour)
                .points(of(runs, line).map(|run| (run.loss_percent, Some(run.calls_per_second)))),
        );
    }
    plot.note("The scale is logarithmic: a run in which no call was completed has no point on it.")
}

fn session_request_delay(runs: &[Measurement]) -> Plot {
    let mut plot = Plot::new(
        "Session request delay against packet loss",
        Axis::new("Packet loss, each direction", "%"),
        Axis::new("Session request delay", "ms").logarithmic(),
    );
    for (line, colour) in lines(runs) {
        let delays = |quantile: fn(&DelaySummary) -> Option<f64>| {
            of(runs, line)
                .map(move |run| (run.loss_percent, quantile(&run.session_request_delay_ms)))
        };
        let name = line.label();
        let median = Series::new(format!("{name} p50"), colour).points(delays(|delay| delay.p50));
        let tail = Series::new(format!("{name} p95"), colour).points(delays(|delay| delay.p95));
        plot = plot.series(median).series(tail.dashed());
    }
    plot
}

fn beside_published(runs: &[Measurement]) -> Plot {
    let mut plot = Plot::new(
        "Completed calls, UDP at 5 % loss = 1",
        Axis::new("Packet loss, each direction", "%"),
        Axis::new("Completed calls relative to UDP at 5 %", ""),
    )
    .note(
        "Published: Pang 2003, table 5.3 (SCTP in the Linux kernel 2.4, over a NIST Net router). The scale is \
         relative, so that the speed of the machines does not matter, only the effect of loss on each transport.",
    );
    let published = calls_under_loss();
    let published_reference = published
        .iter()
        .find(|row| row.transport == Transport::Udp && row.loss_percent == 5.0)
        .map(|row| f64::from(row.call_transactions));
    let reference = runs
        .iter()
        .find(|run| run.transport == Transport::Udp && run.loss_percent == 5.0)
        .map(|run| run.calls_per_second)
        .filter(|calls| *calls > 0.0);
    // Where nothing is lost only the machine's speed shows, and no figure was published.
    let shown = lines(runs).filter(|(line, _)| line.transport != Transport::Tcp);
    for (line, colour) in shown {
        let lossy = of(runs, line).filter(|run| run.loss_percent > 0.0);
        let points = lossy.map(|run| {
            let relative = reference.map(|reference| run.calls_per_second / reference);
            (run.loss_percent, relative)
        });
        plot = plot.series(Series::new(format!("{}, here", line.label()), colour).points(points));
    }
    for (transport, colour) in [
        (Transport::Udp, Colour::Blue),
        (Transport::Sctp, Colour::Orange),
    ] {
        let rows = published.iter().filter(|row| row.transport == transport);
        let points = rows.map(|row| {
            let calls = f64::from(row.call_transactions);
            (
                row.loss_percent,
                published_reference.map(|reference| calls / reference),
            )
        });
        let name = format!("{}, published", transport.via_name());
        plot = plot.series(Series::new(name, colour).dashed().points(points));
    }
    plot
}

/// The transports and profiles that ran, each with its colour wherever it is shown.
fn lines(runs: &[Measurement]) -> impl Iterator<Item = (Line, Colour)> {
    let line = |transport, profile| Line { transport, profile };
    [
        (line(Transport::Udp, None), Colour::Blue),
        (line(Transport::Tcp, None), Colour::Green),
        (
            line(Transport::Sctp, Some(Profile::Signalling)),
            Colour::Orange,
        ),
        (
            line(Transport::Sctp, Some(Profile::Rfc9260)),
            Colour::Purple,
        ),
    ]
    .into_iter()
    .filter(|(line, _)| runs.iter().any(|run| run.line() == *line))
}

fn of(runs: &[Measurement], line: Line) -> impl Iterator<Item = &Measurement> {
    runs.iter().filter(move |run| run.line() == line)
}

fn parameters(options: &Options) -> Vec<(String, String)> {
    let list = |values: Vec<String>| values.join(", ");
    let mut parameters = vec![
        ("users a side", options.users.to_string()),
        (
            "end",
            match options.end {
                End::Seconds(seconds) => format!("{seconds} s a run"),
                End::Calls(calls) => format!("{calls} calls a run"),
            },
        ),
        (
            "associations",
            match options.associations {
                Associations::Shared => "shared".to_owned(),
                Associations::PerUser => "per user".to_owned(),
            },
        ),
        (
            "loss, %",
            list(options.loss.iter().map(f64::to_string).collect()),
        ),
        (
            "delay, each way",
            format!("{} ms", options.delay.as_secs_f64() * 1e3),
        ),
        (
            "transports",
            list(
                options
                    .transports
                    .iter()
                    .map(Transport::to_string)
                    .collect(),
            ),
        ),
    ];
    if options.transports.contains(&Transport::Sctp) {
        let profiles = options.profiles.iter().map(Profile::to_string);
        parameters.push(("profiles of SCTP", list(profiles.collect())));
    }
    if let Some(rate) = options.rate {
        parameters.push(("rate", format!("{rate} calls/s")));
    }
    parameters
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
