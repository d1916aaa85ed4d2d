//! A sweep as one table.

use report::{Cell, Column, Row, Table, format_count};

use super::Sweep;
use crate::Protocol;
use crate::parameters::limits;

/// The table of all sizes and transports.
pub(super) fn table(sweep: &Sweep) -> Table {
    let mut table =
        Table::new("Goodput by message size").column(Column::number("Message").unit("bytes").key());
    for (group, unit) in [("Goodput", "Mbit/s"), ("Messages", "1/s")] {
        table = table.columns(
            Protocol::ALL
                .map(|protocol| Column::number(protocol.to_string()).unit(unit).group(group)),
        );
    }
    table = table.column(Column::number("udp").unit("%").group("Loss"));
    table = table.columns(
        [Protocol::Tcp, Protocol::Sctp]
            .map(|protocol| Column::number(protocol.to_string()).group("Retransmitted")),
    );
    table = table.columns(Protocol::ALL.map(|protocol| {
        Column::number(protocol.to_string())
            .unit("s/GByte")
            .group("CPU, both ends")
    }));
    for &size in &sweep.parameters.sizes_bytes {
        let of = |protocol| sweep.run(protocol, size);
        let mut cells = vec![Cell::from(size as u64)];
        for protocol in Protocol::ALL {
            let goodput = of(protocol).and_then(|run| run.goodput_bits_per_second);
            cells.push(Cell::number(goodput.map(|bits| bits / 1e6), 1));
        }
        for protocol in Protocol::ALL {
            let messages = of(protocol).and_then(|run| run.messages_per_second);
            cells.push(Cell::number(messages, 0));
        }
        let udp = of(Protocol::Udp).and_then(|run| run.udp);
        cells.push(Cell::number(udp.map(|udp| udp.loss_percent), 2));
        for protocol in [Protocol::Tcp, Protocol::Sctp] {
            let retransmissions = of(protocol).and_then(|run| run.retransmissions);
            cells.push(retransmissions.map_or(Cell::Absent, Cell::from));
        }
        for protocol in Protocol::ALL {
            let cpu = of(protocol).and_then(|run| run.cpu.seconds_per_gbyte);
            cells.push(Cell::number(cpu, 2));
        }
        table.push(Row::new(cells));
    }
    for note in notes(sweep) {
        table.note(note);
    }
    table
}

pub(super) fn notes(sweep: &Sweep) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Each test takes {} s on loopback, as fast as it goes, over one socket, connection or association. \
             Goodput is the data that arrived; a GByte is 10⁹ bytes of it.",
            sweep.parameters.seconds
        ),
        "UDP has no congestion control: datagrams for which the receiver has no room are lost."
            .to_owned(),
    ];
    if sweep
        .parameters
        .sizes_bytes
        .iter()
        .any(|size| *size > limits::MAX_UDP_SIZE)
    {
        notes.push(format!(
            "The largest datagram has {} bytes; UDP carried that for larger sizes.",
            format_count(limits::MAX_UDP_SIZE as u64)
        ));
    }
    notes
}
