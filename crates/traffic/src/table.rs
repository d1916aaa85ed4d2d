//! Results as tables.

use report::{Cell, Column, Row, Table, Trials, format_count};

use crate::condition::Condition;
use crate::encryption::Encryption;
use crate::link_budget::{Frame, Ip, PUBLISHED, Transport};
use crate::result::RunResult;

/// Losses and delays of the packets of each run.
pub fn runs(conditions: &[Condition]) -> Table {
    let has_trials = conditions.iter().any(|one| one.trials.len() > 1);
    let mut table = keys(Table::new("Losses and delays of the packets"));
    if has_trials {
        table = table.column(Column::number("Trial").key());
    }
    table = table
        .column(Column::number("Sent"))
        .column(Column::number("Rate").unit("1/s"))
        .column(Column::number("late, p95").unit("ms").group("Sender"))
        .column(Column::number("Lost"))
        .column(Column::number("Loss").unit("%"))
        .column(Column::number("Twice"))
        .column(Column::number("Reordered"));
    for group in ["One-way delay", "Round trip"] {
        table = table.columns(
            ["mean", "p50", "p95", "max"].map(|name| Column::number(name).unit("ms").group(group)),
        );
    }
    table = table.column(Column::number("Jitter").unit("ms"));
    for condition in conditions {
        for run in &condition.trials {
            let mut cells = key_cells(condition);
            if has_trials {
                cells.push(Cell::from(u64::from(run.trial)));
            }
            cells.extend(fate(run));
            table.push(Row::new(cells));
        }
    }
    for note in notes(conditions) {
        table.note(note);
    }
    table
}

/// Cost of encryption, side by side; `None` where nothing was encrypted.
pub fn encryption(conditions: &[Condition]) -> Option<Table> {
    let encrypted = |one: &Condition| one.encryption != Encryption::None;
    if !conditions.iter().any(encrypted) {
        return None;
    }
    let mut table = keys(Table::new("Cost of encryption"))
        .column(Column::text("Secure"))
        .column(Column::number("Packet").unit("bytes"))
        .columns(
            ["encrypt", "decrypt"]
                .map(|name| Column::number(name).unit("ns").group("For each packet")),
        )
        .column(Column::number("processor").unit("ns").group("Sender"))
        .columns(
            ["encrypt", "decrypt"].map(|name| Column::number(name).unit("MByte/s").group("Speed")),
        )
        .columns(
            ["One-way delay", "Round trip"]
                .map(|name| Column::number("median").unit("ms").group(name)),
        )
        .columns(["one way", "round trip"].map(|name| {
            Column::number(name)
                .unit("µs")
                .group("More than in the clear")
        }));
    for condition in conditions {
        let clear = conditions
            .iter()
            .find(|one| !encrypted(one) && one.size_bytes == condition.size_bytes);
        let more = |value: fn(&Condition) -> Trials| {
            let clear = value(clear?).mean?;
            Some((value(condition).mean? - clear) * 1e3)
        };
        let more = |value| {
            let is_other = encrypted(condition);
            Cell::number(more(value).filter(|_| is_other), 1)
        };
        let speed = |value: fn(&RunResult) -> Option<f64>| {
            let mean = Trials::of(condition.trials.iter().filter_map(value)).mean;
            Cell::number(mean.map(|bytes| bytes / 1e6), 0)
        };
        let mut cells = key_cells(condition);
        cells.extend([
            Cell::from(if condition.secure { "yes" } else { "no" }),
            Cell::from((condition.size_bytes + condition.encryption.overhead()) as u64),
            Cell::number(condition.encrypt_nanoseconds.mean, 0),
            Cell::number(condition.decrypt_nanoseconds.mean, 0),
            Cell::number(condition.sender_nanoseconds.mean, 0),
            speed(|run| run.sealing.bytes_per_second()),
            speed(|run| run.receiver.opening.bytes_per_second()),
            milliseconds(condition.one_way_median_ms.mean),
            milliseconds(condition.round_trip_median_ms.mean),
            more(|one| one.one_way_median_ms),
            more(|one| one.round_trip_median_ms),
        ]);
        table.push(Row::new(cells));
    }
    table.note(
        "Delays count from the creation of a packet to its decryption, so they include encryption; its time is \
         also measured separately, on both sides. Medians of repeated trials are averaged. Keys are sent to the \
         receiver unprotected: only costs are measured.",
    );
    if conditions
        .iter()
        .any(|one| one.encryption == Encryption::DesCfb)
    {
        table.note(
            "DES-CFB is insecure: its key of 56 bits can be found by exhaustive search, and changes of a packet \
             are not detected. It is offered because Adnan 2012 measured it.",
        );
    }
    Some(table)
}

/// Means of repeated trials with their confidence intervals; `None` where nothing was repeated.
pub fn trials(conditions: &[Condition]) -> Option<Table> {
    if conditions.iter().all(|one| one.trials.len() < 2) {
        return None;
    }
    type Value = fn(&Condition) -> Trials;
    let columns: [(&str, &str, u8, Value); 7] = [
        ("Rate", "1/s", 1, |one| one.packets_per_second),
        ("Loss", "%", 3, |one| one.loss_percent),
        ("One-way delay", "ms", 4, |one| one.one_way_ms),
        ("Round trip", "ms", 4, |one| one.round_trip_ms),
        ("Jitter", "ms", 4, |one| one.jitter_ms),
        ("Encrypt", "ns", 0, |one| one.encrypt_nanoseconds),
        ("Decrypt", "ns", 0, |one| one.decrypt_nanoseconds),
    ];
    let mut table = keys(Table::new("Means of repeated trials")).column(Column::number("Trials"));
    for (group, unit, _, _) in columns {
        table =
            table.columns(["mean", "±"].map(|name| Column::number(name).unit(unit).group(group)));
    }
    for condition in conditions {
        let mut cells = key_cells(condition);
        cells.push(Cell::from(condition.trials.len() as u64));
        for (_, _, decimals, value) in columns {
            let trials = value(condition);
            cells.push(Cell::number(trials.mean, decimals));
            cells.push(Cell::number(trials.half_width_95, decimals));
        }
        table.push(Row::new(cells));
    }
    table.note("± is half the width of the 95 % confidence interval (Student's distribution).");
    Some(table)
}

/// What a run's packets need of the link; `None` where its speed is not known.
pub fn link_share(conditions: &[Condition]) -> Option<Table> {
    let mut table = keys(Table::new("Packets and the link"))
        .column(Column::text("Interface"))
        .column(Column::number("Speed").unit("Mbit/s"))
        .column(Column::number("Frame").unit("bytes"))
        .column(Column::number("at most").unit("1/s").group("Packets"))
        .column(Column::number("sent").unit("1/s").group("Packets"))
        .column(Column::number("Share").unit("%"));
    let mut rows = 0;
    for condition in conditions {
        let Some((run, link)) = condition
            .trials
            .iter()
            .find_map(|run| Some((run, run.link.as_ref()?)))
        else {
            continue;
        };
        let name = link.interface.as_ref().map(|one| one.name.clone());
        let mut cells = key_cells(condition);
        cells.extend([
            name.map_or(Cell::Absent, Cell::from),
            Cell::number(Some(link.bits_per_second as f64 / 1e6), 0),
            Cell::from(link.frame.wire_bytes),
            Cell::number(Some(link.max_packets_per_second), 0),
            Cell::number(run.packets_per_second, 0),
            Cell::number(link.share_percent, 2),
        ]);
        table.push(Row::new(cells));
        rows += 1;
    }
    table.note("A frame includes the Ethernet overhead: preamble, header, check sequence and gap.");
    (rows > 0).then_some(table)
}

/// How many packets of some sizes a link carries.
pub fn link_budget(
    title: &str,
    bits_per_second: u64,
    mtu: u64,
    sizes: &[u64],
    ip: Ip,
    transports: &[Transport],
) -> Table {
    let mut table = Table::new(title).column(Column::number("Payload").unit("bytes").key());
    for transport in transports {
        let group = transport_name(*transport);
        table = table
            .column(Column::number("on the wire").unit("bytes").group(group))
            .column(Column::number("packets").unit("1/s").group(group))
            .column(Column::number("payload").unit("Mbit/s").group(group));
    }
    for size in sizes {
        let mut cells = vec![Cell::from(*size)];
        for transport in transports {
            let frame = Frame::of(*size, ip, *transport, mtu);
            cells.push(Cell::from(frame.wire_bytes));
            // A packet that is not whole in a second is none.
            let packets = frame.packets_per_second(bits_per_second).floor();
            cells.push(Cell::number(Some(packets), 0));
            let payload = frame.payload_bits_per_second(bits_per_second) / 1e6;
            cells.push(Cell::number(Some(payload), 1));
        }
        table.push(Row::new(cells));
    }
    table.note(format!(
        "Each frame takes {} bytes beside its IP packet (preamble, header, check sequence, gap), and messages \
         larger than the MTU of {} bytes take several frames. One direction, without other traffic; TCP's \
         acknowledgements and SCTP's SACKs go the other way.",
        crate::link_budget::ETHERNET_OCTETS,
        format_count(mtu)
    ));
    table
}

/// The figures that Adnan 2012 printed, and ours.
pub fn published() -> Table {
    let mut table = Table::new("The link budget of Adnan 2012, sections 6.3.2 and 6.3.3")
        .column(Column::text("Message").key())
        .column(Column::number("SIP").unit("bytes"))
        .columns(
            ["published", "ours"].map(|name| Column::number(name).unit("bytes").group("Frame")),
        )
        .column(Column::number("Speed").unit("Mbit/s"))
        .columns(
            ["published", "ours"].map(|name| Column::number(name).unit("1/s").group("Frames")),
        );
    for one in &PUBLISHED {
        let frame = Frame::of(one.payload_bytes, Ip::V4, Transport::Udp, 1_500);
        let rate = frame.packets_per_second(one.bits_per_second);
        table.push(Row::new([
            Cell::from(one.message),
            Cell::from(one.payload_bytes),
            Cell::from(one.frame_bytes),
            Cell::from(frame.wire_bytes),
            Cell::number(Some(one.bits_per_second as f64 / 1e6), 0),
            Cell::from(one.frames_per_second),
            Cell::from(rate as u64),
        ]));
    }
    table.note(
        "Adnan 2012 counts a wireless frame like one of an Ethernet and says \"up to 6,000\"; a real 802.11 \
         link with its own headers, gaps and acknowledgements carries far fewer.",
    );
    table
}

fn transport_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Udp => "UDP",
        Transport::Tcp => "TCP",
        Transport::Sctp => "SCTP",
        Transport::SctpInUdp => "SCTP in UDP",
    }
}

fn keys(table: Table) -> Table {
    table
        .column(Column::number("Size").unit("bytes").key())
        .column(Column::text("Encryption").key())
}

fn key_cells(condition: &Condition) -> Vec<Cell> {
    vec![
        Cell::from(condition.size_bytes as u64),
        Cell::from(condition.encryption.label()),
    ]
}

fn fate(run: &RunResult) -> Vec<Cell> {
    let mut cells = vec![
        Cell::from(run.sent),
        Cell::number(run.packets_per_second, 0),
        milliseconds(run.lateness.p95),
        Cell::from(run.lost),
        Cell::number(Some(run.loss_percent), 3),
        Cell::from(run.receiver.duplicates),
        Cell::from(run.receiver.reordered),
    ];
    for times in [&run.receiver.one_way, &run.round_trip] {
        let of = [times.mean, times.p50, times.p95, times.max];
        cells.extend(of.map(milliseconds));
    }
    cells.push(milliseconds(Some(run.receiver.jitter_ms)));
    cells
}

fn milliseconds(value: Option<f64>) -> Cell {
    value.map_or(Cell::Absent, Cell::milliseconds)
}

/// What a reader of the figures must know.
pub fn notes(conditions: &[Condition]) -> Vec<String> {
    let runs: Vec<&RunResult> = conditions.iter().flat_map(|one| &one.trials).collect();
    let mut notes = Vec::new();
    if runs.iter().any(|run| !run.on_schedule) {
        notes.push(
            "The sender did not keep its schedule (see its lateness): the rate is not the requested one, and \
             delays are those of bursts. A blocked transport also delays packets."
                .to_owned(),
        );
    }
    if runs.iter().any(|run| !run.receiver.same_clock) {
        notes.push(
            "Sender and receiver have different clocks, so one-way delays are unknown.".to_owned(),
        );
    }
    let overruns: u64 = runs.iter().map(|run| run.receiver.overruns).sum();
    if overruns > 0 {
        notes.push(format!(
            "{} datagrams were lost by the receiver, whose socket had no room for them, not by the network.",
            format_count(overruns)
        ));
    }
    let refused: u64 = runs.iter().map(|run| run.refused).sum();
    if refused > 0 {
        notes.push(format!(
            "{} packets were refused by the sender's own system; they were not sent and do not count as lost.",
            format_count(refused)
        ));
    }
    if runs.iter().any(|run| run.interrupted) {
        notes.push("Interrupted.".to_owned());
    }
    notes
}
