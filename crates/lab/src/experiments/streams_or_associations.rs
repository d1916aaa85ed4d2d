//! KTH 2004, tests 3 and 4: ten thousand associations of one stream against one association of ten
//! thousand streams.

mod net;
mod world;

use std::time::Duration;

use report::{Cell, Column, Row, Table};
use serde_json::{Value, json};

use crate::checks::Checks;
use crate::context::Context;
use crate::experiment::{About, Experiment, On};
use crate::laws::Wire;
use crate::outcome::Outcome;
use crate::pair::MTU;
use world::{Case, DELAY, Measured, RATE, measure};

/// The experiment.
pub(super) struct StreamsOrAssociations;

/// Bytes of each message: KTH 2004 does not say.
const MESSAGE: usize = 100;

impl Experiment for StreamsOrAssociations {
    fn name(&self) -> &'static str {
        "streams-or-associations"
    }

    fn source(&self) -> &'static str {
        "KTH 2004, tests 3 and 4"
    }

    fn title(&self) -> &'static str {
        "Many streams of one association against many associations"
    }

    fn about(&self) -> About {
        About {
            topology: "A client and a server on a link of 100 Mbit/s, half a millisecond apart in each \
                       direction, that loses nothing.",
            runs: "10,000 associations of one stream, set up one after the other, and one association of \
                   10,000 streams (1,000 when quick); then a message of 100 bytes on each, and twice as many \
                   on the streams. On net it is the measurement of `tandem perf associations` and `tandem perf \
                   streams`, which sets up 64 at a time, with a server in a process of its own; the streams, which \
                   take \
                   milliseconds, three times, of which the shortest counts.",
            measures: "On the virtual clock: the time until all is set up, packets and bytes for it, \
                       associations that the server holds, and the time from the first message until the \
                       last has come, with its packets. On net times, packets, the server's memory (proportional set \
                       size) and its processor time.",
            law: "An association is four packets (RFC 9260 section 5.1) that wait for each other; streams \
                  are two numbers in the first two of them (5.1.1). A message alone in its packet takes \
                  48 bytes of headers; twelve of 100 bytes share a packet (6.10).",
            check: "Packets of the set-up: exactly four for each association. Its time: exactly that of four \
                    packets of these sizes on that link, for each. A transfer takes what its packets \
                    take on the link; over streams, slow start and one delayed acknowledgement more at most. \
                    On net the set-up takes no more than four for each and the control connection takes, \
                    unless hosts may have waited for the machine for half of RTO.Initial, or it takes longer than \
                    HB.interval, and nothing takes less time than its packets \
                    take on the link. KTH 2004's figures are those \
                    of its machines: so only its finding is compared: streams take a small part of the time and of \
                    the memory.",
        }
    }

    fn on(&self) -> &'static [On] {
        &[On::Sim, On::Net]
    }

    fn run(&self, on: On, context: &Context) -> anyhow::Result<Outcome> {
        match on {
            On::Sim => simulated(context),
            On::Net => net::run(context),
        }
    }
}

/// The initial congestion window over IPv4 where two packets are less and four are more, bytes (RFC 9260 section
/// 7.2.1).
const FIRST_WINDOW: f64 = 4404.0;

fn simulated(context: &Context) -> anyhow::Result<Outcome> {
    let count = context.either(1000, 10_000);
    context.steps(2);
    context.begin(format!("{count} associations"));
    let associations = measure(context, Case::Associations, count, MESSAGE)?;
    context.done();
    context.begin(format!("{count} streams"));
    let streams = measure(context, Case::Streams, count, MESSAGE)?;
    context.done();
    let published = perf::scale::published();
    Ok(Outcome::judged(check(count, &associations, &streams))
        .ours(json!({
            "count": count,
            "associations": values(&associations),
            "streams": values(&streams),
        }))
        .published(json!(published))
        .table(table(count, &associations, &streams)))
}

fn check(count: u32, associations: &Measured, streams: &Measured) -> Checks {
    let mut checks = Checks::new();
    for (name, measured, each) in [
        ("associations", associations, count),
        ("streams", streams, 1),
    ] {
        let packets = f64::from(4 * each);
        checks.law(
            format!("packets that set up {name}"),
            measured.setup_packets as f64,
            packets..=packets,
            "packets",
        );
        checks.law(
            format!("associations at the server with {name}"),
            measured.associations as f64,
            f64::from(each)..=f64::from(each),
            "associations",
        );
        let law =
            f64::from(4 * each) * DELAY.as_secs_f64() + measured.setup_bytes as f64 * 8.0 / RATE;
        // The clock counts nanoseconds, and a packet's time on the link is cut to them.
        let cut = f64::from(4 * each) * 1e-9;
        checks.law(
            format!("time to set up {name}"),
            measured.setup.as_secs_f64() * 1e3,
            (law - cut) * 1e3..=(law + cut) * 1e3,
            "ms",
        );
    }
    let line = RATE / 8.0;
    let alone = Wire::sctp(MESSAGE, MTU, false);
    let law = f64::from(count) * alone.packet / line + DELAY.as_secs_f64();
    let one = &associations.transfers[0];
    checks.law(
        "a message on each association",
        one.time.as_secs_f64() * 1e3,
        law * 1e3..=law * 1e3 + 0.001 * f64::from(count) / 1000.0,
        "ms",
    );
    let together = Wire::sctp(MESSAGE, MTU, true);
    for (what, transfer) in ["a message on each stream", "two messages on each stream"]
        .into_iter()
        .zip(&streams.transfers)
    {
        let bytes = (transfer.messages * MESSAGE as u64) as f64;
        let law = bytes / together.goodput(line) + DELAY.as_secs_f64();
        // Slow start doubles the window from FIRST_WINDOW to what the link
        // holds, a round trip each, and one acknowledgement may be delayed.
        let round_trip =
            2.0 * DELAY.as_secs_f64() + (together.packet + together.acknowledgement) / line;
        let doublings = (line * round_trip / FIRST_WINDOW).log2().max(0.0).ceil() + 1.0;
        let most = law + doublings * round_trip + 0.2;
        checks.law(
            what,
            transfer.time.as_secs_f64() * 1e3,
            law * 1e3..=most * 1e3,
            "ms",
        );
    }
    checks.found(
        "streams are set up in a small part of the time",
        streams.setup.as_secs_f64() * 100.0 < associations.setup.as_secs_f64(),
        "it is more than a hundredth",
    );
    let over_streams = streams.transfers.first().map(|transfer| transfer.time);
    checks.found(
        "messages on many streams take less time than on many associations",
        over_streams.is_some_and(|time| time < one.time),
        "they take as long",
    );
    checks
}

fn values(measured: &Measured) -> Value {
    let transfers = measured.transfers.iter().map(|transfer| {
        json!({
            "messages": transfer.messages,
            "s": transfer.time.as_secs_f64(),
            "packets": transfer.packets,
        })
    });
    json!({
        "set_up_s": measured.setup.as_secs_f64(),
        "set_up_packets": measured.setup_packets,
        "set_up_bytes": measured.setup_bytes,
        "associations_at_server": measured.associations,
        "transfers": transfers.collect::<Vec<_>>(),
    })
}

fn table(count: u32, associations: &Measured, streams: &Measured) -> Table {
    let mut table = Table::new("Set-up and transfer")
        .column(Column::text("What").key())
        .column(Column::number(format!("{count} associations")).group("On the virtual clock"))
        .column(Column::number(format!("{count} streams")).group("On the virtual clock"))
        .column(Column::number("10,000 associations").group("KTH 2004"))
        .column(Column::number("10,000 streams").group("KTH 2004"));
    let seconds = |time: Duration| Cell::number(time.as_secs_f64(), 3);
    table.push(Row::new([
        Cell::from("set-up, s"),
        seconds(associations.setup),
        seconds(streams.setup),
        Cell::number(figure("start_up", "10000 associations", "run_time"), 3),
        Cell::number(figure("start_up", "10000 streams", "run_time"), 3),
    ]));
    table.push(Row::new([
        Cell::from("set-up, packets"),
        Cell::number(associations.setup_packets as f64, 0),
        Cell::number(streams.setup_packets as f64, 0),
        Cell::Absent,
        Cell::Absent,
    ]));
    let rows = [
        ("a message each", "10000 chunks"),
        ("two messages each", "20000 chunks"),
    ];
    for (index, (what, chunks)) in rows.into_iter().enumerate() {
        let time = |measured: &Measured| {
            let transfer = measured.transfers.get(index);
            transfer.map_or(Cell::Absent, |transfer| seconds(transfer.time))
        };
        let of = |on: &str| figure("transfer", &format!("{chunks} over 10000 {on}"), "run_time");
        table.push(Row::new([
            Cell::from(format!("{what}, s")),
            time(associations),
            time(streams),
            Cell::number(of("associations"), 0),
            Cell::number(of("streams"), 0),
        ]));
    }
    table
}

/// What KTH 2004 printed.
fn figure(test: &str, setup: &str, metric: &str) -> Option<f64> {
    perf::scale::published()
        .iter()
        .find(|row| row.test == test && row.setup.contains(setup) && row.metric == metric)
        .map(|row| row.value)
}
