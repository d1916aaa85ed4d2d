//! A page like the demo's, with made-up figures.

use report::{
    Axis, Cell, Colour, Column, Machine, Page, Plot, Provenance, Row, Section, Series, Table,
};

/// Loss in percent; completed calls per second over UDP and SCTP; p50 and p95 of the delay over both.
const FIGURES: [(f64, f64, f64, [f64; 2], [f64; 2]); 5] = [
    (0.0, 3120.4, 2764.9, [0.412, 0.961], [0.523, 1.204]),
    (5.0, 21.7, 43.1, [0.431, 502.3], [0.611, 204.6]),
    (10.0, 10.2, 24.8, [0.448, 1503.9], [1.07, 611.5]),
    (20.0, 3.9, 9.6, [501.2, 3504.0], [203.1, 1240.0]),
    (30.0, 1.8, 3.1, [1502.7, 7507.7], [418.8, 3071.3]),
];

/// The demo's table: 23 columns, a block of rows a transport, published figures beside the measured ones.
pub fn table() -> Table {
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
    for (transport, is_sctp) in [("udp", false), ("sctp", true)] {
        for (index, (loss, udp_rate, sctp_rate, udp, sctp)) in FIGURES.into_iter().enumerate() {
            let (rate, [p50, p95]) = if is_sctp {
                (sctp_rate, sctp)
            } else {
                (udp_rate, udp)
            };
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
pub fn rate_plot() -> Plot {
    let points = |is_sctp: bool| {
        FIGURES.map(|(loss, udp, sctp, ..)| (loss, if is_sctp { sctp } else { udp }))
    };
    Plot::new(
        "Completed calls per second against loss",
        Axis::new("Packet loss", "%"),
        Axis::new("Completed calls", "calls/s").logarithmic(),
    )
    .series(Series::new("UDP", Colour::Blue).points(points(false)))
    .series(Series::new("SCTP", Colour::Orange).points(points(true)))
    .series(Series::new("TCP", Colour::Green).points([(0.0, Some(2538.0)), (5.0, None)]))
    .note("TCP runs at 0 % only.")
}

/// Session request delay against loss, two statistics a transport.
pub fn delay_plot() -> Plot {
    let points = |is_sctp: bool, statistic: usize| {
        FIGURES.map(|(loss, _, _, udp, sctp)| (loss, if is_sctp { sctp } else { udp }[statistic]))
    };
    Plot::new(
        "Session request delay against loss",
        Axis::new("Packet loss", "%"),
        Axis::new("Session request delay", "ms"),
    )
    .series(Series::new("UDP p50", Colour::Blue).points(points(false, 0)))
    .series(
        Series::new("UDP p95", Colour::Blue)
            .dashed()
            .points(points(false, 1)),
    )
    .series(Series::new("SCTP p50", Colour::Orange).points(points(true, 0)))
    .series(
        Series::new("SCTP p95", Colour::Orange)
            .dashed()
            .points(points(true, 1)),
    )
}

/// The whole page.
pub fn page() -> Page {
    let machine = Machine {
        kernel: "Linux 6.12.4".into(),
        cpu: "Example CPU @ 2.60GHz".into(),
        cores: 2,
    };
    Page::new("SIP over UDP, TCP and SCTP on a lossy network")
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
