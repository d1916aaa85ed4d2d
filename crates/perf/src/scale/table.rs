//! A measurement as a table, with the published figures beneath.

use report::{Cell, Column, Row, Table};

use super::published::figure;
use super::{Case, Scale};

/// Ours, then what KTH 2004 printed.
pub(super) fn table(scale: &Scale) -> Table {
    let mut table = Table::new("Many associations, or many streams of one")
        .columns([
            Column::text("Figures").key(),
            Column::number("Associations").key(),
            Column::number("Streams of each").key(),
            Column::number("Start-up").unit("s"),
        ])
        .columns(
            ["idle", "all up", "after transfer"]
                .map(|header| Column::number(header).unit("KiB").group("Server memory")),
        )
        .column(Column::number("Growth per association").unit("bytes"))
        .columns([
            Column::number("messages").group("Transfer"),
            Column::number("time").unit("s").group("Transfer"),
        ]);
    let run = &scale.run;
    for (number, transfer) in run.transfers.iter().enumerate() {
        let mut cells = vec![
            Cell::from("here"),
            Cell::from(run.associations as u64),
            Cell::from(u64::from(run.streams)),
        ];
        if number == 0 {
            cells.extend([
                seconds(run.start_up_seconds),
                Cell::from(run.server_memory_idle_kib),
                Cell::from(run.server_memory_up_kib),
                Cell::from(run.server_memory_after_transfer_kib),
                Cell::number(run.server_bytes_per_association, 0),
            ]);
        } else {
            cells.extend([const { Cell::Absent }; 5]);
        }
        cells.push(Cell::from(transfer.messages));
        cells.push(seconds(transfer.seconds));
        table.push(Row::new(cells));
    }
    for (number, row) in published_rows().into_iter().enumerate() {
        let row = Row::new(row).reference();
        table.push(if number == 0 { row.begins_block() } else { row });
    }
    table.note(
        "Here: the server's proportional set size (PSS) in a process of its own; the transfer ends when the \
         server has received all. Set up 64 at a time.",
    );
    table.note(
        "Published: KTH 2004, tests 3 and 4 (resident set size; the transfer is the sender's time), a \
         machine of 2003.",
    );
    if scale.parameters.case == Case::Associations {
        table.note("tandem perf streams measures as many streams of one association.");
    } else {
        table.note("tandem perf associations measures as many associations.");
    }
    table
}

/// A time with as many decimals as it needs.
fn seconds(seconds: f64) -> Cell {
    Cell::number(seconds, if seconds < 0.01 { 6 } else { 3 })
}

fn published_rows() -> Vec<Vec<Cell>> {
    let start_up = [
        ("10000 associations of 1 stream", 10_000, 1),
        ("1 association of 10000 streams", 1, 10_000),
    ];
    let transfers = [
        ("10000 chunks over 10000 associations", 10_000, 1, 10_000),
        (
            "10000 chunks over 10000 streams of 1 association",
            1,
            10_000,
            10_000,
        ),
        (
            "20000 chunks over 10000 streams of 1 association",
            1,
            10_000,
            20_000,
        ),
    ];
    transfers
        .into_iter()
        .map(|(setup, associations, streams, messages)| {
            let first = messages == 10_000;
            let started = start_up
                .iter()
                .find(|start| first && (start.1, start.2) == (associations, streams))
                .map_or("", |start| start.0);
            vec![
                Cell::from("published"),
                Cell::from(associations),
                Cell::from(streams),
                Cell::number(figure("start_up", started, "run_time"), 3),
                Cell::Absent,
                Cell::number(figure("start_up", started, "server_resident_memory"), 0),
                Cell::number(figure("transfer", setup, "server_memory"), 0),
                Cell::Absent,
                Cell::from(messages),
                Cell::number(figure("transfer", setup, "run_time"), 3),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_figures_stand_in_their_rows() {
        let rows = published_rows();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0][3], Cell::number(28.644, 3));
        assert_eq!(rows[1][3], Cell::number(0.134, 3));
        assert_eq!(rows[2][3], Cell::Absent);
        assert_eq!(rows[0][6], Cell::number(65_000.0, 0));
        assert_eq!(rows[2][9], Cell::number(9.0, 3));
    }
}
