//! A page like the demo's, with made-up figures.

use std::time::{Duration, SystemTime};

use report::{
    Arrow, ArrowKind, Axis, Cell, Colour, Column, Ladder, Machine, Page, Period, Plot, Provenance,
    Row, Section, Series, Table,
};

/// What a transport did at one loss.
struct Figures {
    /// Completed calls per second.
    rate: f64,
    /// Session request delay, milliseconds.
    p50: f64,
    p95: f64,
}

const LOSSES: [f64; 5] = [0.0, 5.0, 10.0, 20.0, 30.0];

const fn figures(rate: f64, p50: f64, p95: f64) -> Figures {
    Figures { rate, p50, p95 }
}

static UDP: [Figures; 5] = [
    figures(3120.4, 0.412, 0.961),
    figures(21.7, 0.431, 502.3),
    figures(10.2, 0.448, 1503.9),
    figures(3.9, 501.2, 3504.0),
    figures(1.8, 1502.7, 7507.7),
];

static SCTP: [Figures; 5] = [
    figures(2764.9, 0.523, 1.204),
    figures(43.1, 0.611, 204.6),
    figures(24.8, 1.07, 611.5),
    figures(9.6, 203.1, 1240.0),
    figures(3.1, 418.8, 3071.3),
];

/// A line of a plot: something of the figures at each loss.
fn by_loss(
    figures: &'static [Figures; 5],
    of: fn(&Figures) -> f64,
) -> impl Iterator<Item = (f64, f64)> {
    LOSSES.into_iter().zip(figures.iter().map(of))
}

/// The demo's table: 23 columns, a block of rows a transport, published figures beside the measured ones.
pub(crate) fn table() -> Table {
    let delays = |group: &str| {
        ["mean", "p50", "p95", "max"]
            .map(|statistic| Column::number(statistic).unit("ms").group(group))
    };
    let calls = ["attempted", "completed", "failed", "unfinished"];
    let mut table = Table::new("What each transport did, by packet loss")
        .column(Column::text("Transport").key())
        .column(Column::number("Loss").unit("%").key())
        .columns(calls.map(|header| Column::number(header).group("Calls")))
        .column(Column::number("Rate").unit("calls/s"))
        .columns(delays("Registration delay"))
        .columns(delays("Session request delay"))
        .columns(delays("Session disconnect delay"))
        .columns(
            ["packets", "bytes"].map(|header| Column::number(header).group("On the wire per call")),
        )
        .columns(
            ["SIP", "transport"].map(|header| Column::number(header).group("Retransmissions")),
        );
    for (transport, is_sctp, figures) in [("udp", false, &UDP), ("sctp", true, &SCTP)] {
        for (index, (loss, &Figures { rate, p50, p95 })) in
            LOSSES.into_iter().zip(figures).enumerate()
        {
            let completed = (rate * 8.0) as u64;
            let row = Row::new([
                Cell::from(transport),
                Cell::number(loss, 0),
                Cell::from(completed + 8),
                Cell::from(completed),
                Cell::from(loss as u64 / 10),
                Cell::from(8),
                Cell::number(rate, 1),
                Cell::milliseconds(p50 * 1.1),
                Cell::milliseconds(p50),
                Cell::milliseconds(p95),
                Cell::milliseconds(p95 * 1.7),
                Cell::milliseconds(p50 * 1.3),
                Cell::milliseconds(p50),
                Cell::milliseconds(p95),
                Cell::milliseconds(p95 * 2.0),
                Cell::milliseconds(p50 * 1.2),
                Cell::milliseconds(p50),
                Cell::milliseconds(p95),
                Cell::milliseconds(p95 * 1.4),
                Cell::number(22.0 + loss, 1),
                Cell::number(11_204.0 + 320.0 * loss, 0),
                Cell::number(loss * 40.0, 0),
                if is_sctp {
                    Cell::number(loss * 61.0, 0)
                } else {
                    Cell::Absent
                },
            ]);
            table.push(if index == 0 { row.begins_block() } else { row });
        }
        let published = Row::new([
            Cell::from(format!("{transport}, published")),
            Cell::number(5.0, 0),
            Cell::Absent,
            Cell::from(if is_sctp { 18_204 } else { 9_770 }),
        ]);
        table.push(published.reference());
    }
    table.push(
        Row::new([
            Cell::from("tcp"),
            Cell::number(0.0, 0),
            Cell::from(20_312),
            Cell::from(20_304),
        ])
        .begins_block(),
    );
    table.note("TCP runs at 0 % only: the kernel's packets cannot be dropped from user space.");
    table.note("Published counts are scaled to their own UDP at 5 % loss.");
    table
}

/// Completed calls per second against loss.
pub(crate) fn rate_plot() -> Plot {
    Plot::new(
        "Completed calls per second against loss",
        Axis::new("Packet loss", "%"),
        Axis::new("Completed calls", "calls/s").logarithmic(),
    )
    .series(Series::new("UDP", Colour::Blue).points(by_loss(&UDP, |udp| udp.rate)))
    .series(Series::new("SCTP", Colour::Orange).points(by_loss(&SCTP, |sctp| sctp.rate)))
    .series(Series::new("TCP", Colour::Green).points([(0.0, Some(2538.0)), (5.0, None)]))
    .note("TCP runs at 0 % only.")
}

/// Session request delay against loss, two statistics a transport.
pub(crate) fn delay_plot() -> Plot {
    Plot::new(
        "Session request delay against loss",
        Axis::new("Packet loss", "%"),
        Axis::new("Session request delay", "ms"),
    )
    .series(Series::new("UDP p50", Colour::Blue).points(by_loss(&UDP, |figures| figures.p50)))
    .series(
        Series::new("UDP p95", Colour::Blue)
            .dashed()
            .points(by_loss(&UDP, |figures| figures.p95)),
    )
    .series(Series::new("SCTP p50", Colour::Orange).points(by_loss(&SCTP, |figures| figures.p50)))
    .series(
        Series::new("SCTP p95", Colour::Orange)
            .dashed()
            .points(by_loss(&SCTP, |figures| figures.p95)),
    )
}

/// The whole page.
pub(crate) fn page() -> Page {
    let machine = Machine {
        kernel: "Linux 6.12.4".into(),
        cpu: "Example CPU @ 2.60GHz".into(),
        cores: 2,
    };
    Page::new("SIP over UDP, TCP and SCTP on a lossy network", "SCTP completes the most calls", period())
        .paragraph(
            "Eight callers call their callees back to back through one proxy, over each transport, while a \
             seeded link model drops packets in both directions between users and proxy.",
        )
        .paragraph("Delays are those of successful calls alone, by the definitions of RFC 6076.")
        .section(
            Section::new("Against loss")
                .paragraph("A logarithmic axis shows what a few lost packets do to a closed loop.")
                .plot(rate_plot())
                .plot(delay_plot()),
        )
        .section(Section::new("All figures").table(table()))
        .section(Section::new("A call").ladder(ladder()))
        .provenance(Provenance {
            program: "tandem 0.1.0".into(),
            machine,
            command: "tandem demo --users 8 --seconds 8 --loss 0,5,10,20,30 --seed 1".into(),
            seed: 1,
            parameters: vec![
                ("users".into(), "8".into()),
                ("seconds".into(), "8".into()),
                ("loss".into(), "0, 5, 10, 20, 30 %".into()),
                ("delay".into(), "0 ms".into()),
                ("associations".into(), "shared".into()),
            ],
        })
}

pub(crate) fn period() -> Period {
    Period {
        began: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        lasted: Duration::from_millis(73_400),
    }
}

fn ladder() -> Ladder {
    let mut ladder =
        Ladder::new("alice → bob", ["192.0.2.1", "192.0.2.2"]).note("One retransmission.");
    for (from, label, kind, is_repeated) in [
        (0, "INVITE", ArrowKind::Request, false),
        (0, "INVITE", ArrowKind::Request, true),
        (1, "SACK", ArrowKind::Transport, false),
        (1, "486 Busy <Here>", ArrowKind::Bad, false),
    ] {
        ladder.push(Arrow {
            time: "0.000 ms".into(),
            from,
            to: 1 - from,
            label: label.into(),
            kind,
            is_repeated,
        });
    }
    ladder
}
