//! Tables of what was found.

use std::collections::BTreeMap;

use report::{Cell, Column, Decimal, Row, Table, format_count, format_share};

use super::{Output, SessionTable, m3ua_tables, rtp_tables, sctp_tables, session_table};
use crate::{Analysis, Codes, DelaySummary, Delayed, Losses, Metrics, Milestone, Time};

impl Output {
    /// All tables, in the order in which they are to be read. Those that would be empty are left out.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.files_table()];
        if !self.shown.is_empty() {
            tables.push(session_table::calls(&self.shown, self.sessions));
            tables.push(self.session_table());
        }
        tables.extend(rtp_tables::streams_of_sessions(&self.shown));
        tables.extend(rtp_tables::totals(&self.results.rtp));
        tables.extend(calls(&self.results.outcomes));
        tables.extend(self.delays());
        tables.extend(self.losses());
        tables.extend(metrics(&self.results.metrics));
        tables.extend(messages(&self.results.codes));
        tables.extend(transactions(&self.results.codes));
        tables.extend(self.sctp_tables());
        tables.extend(self.m3ua_tables());
        tables
    }

    pub(super) fn sctp_tables(&self) -> Vec<Table> {
        sctp_tables::tables(&self.results.sctp)
    }

    pub(super) fn m3ua_tables(&self) -> Vec<Table> {
        let last = self.results.last.unwrap_or_default();
        m3ua_tables::tables(&self.results.m3ua, last)
    }

    /// All tables for a terminal of this many columns.
    pub fn to_terminal(&self, width: usize) -> String {
        let tables: Vec<String> = self
            .tables()
            .iter()
            .map(|table| table.to_terminal(width))
            .collect();
        tables.join("\n")
    }

    /// When the capture began.
    pub(super) fn origin(&self) -> Time {
        self.results.first.unwrap_or_default()
    }

    pub(super) fn session_table(&self) -> Table {
        SessionTable::new(self.origin(), Decimal::Point).to_table(&self.shown, self.sessions)
    }

    pub(super) fn files_table(&self) -> Table {
        let several = self.files.len() > 1;
        let has_m3ua = self.files.iter().any(|file| file.m3ua_messages > 0);
        let mut table = Table::new("Capture")
            .column(Column::text("File").key())
            .column(Column::number("Packets"))
            .column(Column::number("Bytes"))
            .column(Column::number("SIP messages"))
            .column(Column::number("SCTP packets"));
        if has_m3ua {
            table = table.column(Column::number("M3UA messages"));
        }
        if several {
            table = table
                .column(Column::number("ahead by").unit("ms").group("Clock"))
                .column(Column::number("±").unit("ms").group("Clock"))
                .column(Column::number("messages").group("Clock"));
        }
        for file in &self.files {
            let mut cells = vec![
                Cell::from(file.name.as_str()),
                file.packets.into(),
                file.octets.into(),
                file.sip_messages.into(),
                file.sctp_packets.into(),
            ];
            if has_m3ua {
                cells.push(file.m3ua_messages.into());
            }
            if several {
                let uncertainty = file.clock_uncertainty_nanoseconds;
                cells.extend([
                    Cell::number(file.clock_offset_nanoseconds as f64 / 1e6, 3),
                    Cell::number(uncertainty.map(|wrong| wrong as f64 / 1e6), 3),
                    Cell::Count(file.clock_messages as u64),
                ]);
            }
            table.push(Row::new(cells));
        }
        for file in &self.files {
            for warning in &file.warnings {
                table.note(format!("{}: {warning}", file.name));
            }
            for note in file.unseen() {
                table.note(format!("{}: {note}", file.name));
            }
        }
        for remark in &self.results.remarks {
            table.note(format!("{remark}."));
        }
        if several {
            table.note(
                "Clocks are compared by common messages of two files, and all times are by the clock of the first \
                 file. Files without common messages are not adjusted.",
            );
        }
        table
    }

    fn delays(&self) -> Option<Table> {
        let mut table = delays(&self.results.delays)?;
        if self.results.has_summaries {
            table.note(
                "Summaries do not identify forwarded INVITEs: INVITE processing pairs INVITEs with the same user \
                 in the Request-URI. The table of sessions pairs the nth caller with the nth \
                 callee, as in Adnan 2012, even if they did not call each other.",
            );
        }
        Some(table)
    }

    fn losses(&self) -> Option<Table> {
        let mut table = losses(&self.results.losses)?;
        let (users, idle) = self.results.registered_users;
        if idle > 0 {
            table.note(format!(
                "{} of {} registered users took part in no call.",
                format_count(idle),
                format_count(users)
            ));
        }
        Some(table)
    }

    /// A few words on what was captured.
    pub(super) fn in_short(&self) -> String {
        let results = &self.results;
        let m3ua: u64 = results.m3ua.messages().values().sum();
        let counts = [
            (results.codes.total().messages, "SIP messages"),
            (results.sctp.packets(), "SCTP packets"),
            (m3ua, "M3UA messages"),
            (results.rtp.packets, "RTP packets of calls"),
        ];
        let counts: Vec<String> = counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", format_count(count)))
            .collect();
        match counts.is_empty() {
            true => "Nothing of SIP or SCTP.".to_owned(),
            false => format!("{}.", counts.join(", ")),
        }
    }

    /// What the capture shows, in a sentence: whether calls fail, media is lost, or requests of M3UA have no answer.
    pub(super) fn verdict(&self) -> String {
        let results = &self.results;
        let mut parts = Vec::new();
        if self.sessions > 0 {
            let failed = ["not ended", "refused", "unanswered"];
            let failed = failed.map(|outcome| results.outcomes.get(outcome).copied());
            let failed = failed.into_iter().flatten().sum();
            parts.push(format_share(failed, self.sessions, "calls failed"));
        }
        let rtp = &results.rtp;
        if rtp.streams > 0 {
            let expected = rtp.packets + rtp.lost;
            parts.push(format_share(rtp.lost, expected, "RTP packets were lost"));
        }
        let transactions = results.m3ua.transactions();
        if !transactions.is_empty() {
            let sum = |of: fn(&crate::M3uaTransactions) -> u64| transactions.values().map(of).sum();
            let unanswered: u64 = sum(|one| one.unanswered);
            let all: u64 = unanswered + sum(|one| one.answered + one.refused);
            let what = "M3UA requests remained without an answer";
            parts.push(format_share(unanswered, all, what));
        }
        match parts.is_empty() {
            true => "no call in the capture".to_owned(),
            false => parts.join("; "),
        }
    }
}

impl Analysis {
    /// Tables of what was found so far: those of [`Output::tables`] of what is over, but for the sessions one by one.
    pub fn tables(&self) -> Vec<Table> {
        let codes = self.codes();
        let tables = [
            calls(self.outcomes()),
            delays(self.delays()),
            losses(self.losses()),
            metrics(self.metrics()),
            messages(codes),
            transactions(codes),
            rtp_tables::totals(self.rtp_totals()),
        ];
        let sctp = sctp_tables::tables(self.sctp());
        let m3ua = m3ua_tables::tables(self.m3ua(), self.last());
        tables
            .into_iter()
            .flatten()
            .chain(sctp)
            .chain(m3ua)
            .collect()
    }
}

fn calls(outcomes: &BTreeMap<&'static str, u64>) -> Option<Table> {
    if outcomes.is_empty() {
        return None;
    }
    let mut table = Table::new("Calls")
        .column(Column::text("Outcome").key())
        .column(Column::number("calls"));
    for (outcome, count) in outcomes {
        table.push(Row::new([(*outcome).into(), (*count).into()]));
    }
    Some(table)
}

fn delays(delays: &Delayed) -> Option<Table> {
    let rows = [
        ("REGISTER", &delays.register),
        ("INVITE processing", &delays.invite),
        ("Call set-up", &delays.call_setup),
    ];
    if rows.iter().all(|(_, delays)| delays.count() == 0) {
        return None;
    }
    let mut table = delay_table("Delays at the server", "Delay", "ms");
    for (name, delays) in rows {
        table.push(delay_row(name, &delays.milliseconds(), 3));
    }
    table.note(
        "REGISTER: from the request to its 200. INVITE processing: from its arrival until it is forwarded. Call \
         set-up: from the INVITE to the ACK.",
    );
    Some(table)
}

fn losses(losses: &Losses) -> Option<Table> {
    if losses.sessions() == 0 {
        return None;
    }
    let mut table = Table::new("Lost sessions")
        .column(Column::text("Message").key())
        .column(Column::number("seen").group("Sessions"))
        .column(Column::number("missing").group("Sessions"))
        .column(Column::number("lost here first").group("Sessions"));
    for loss in losses.by_message() {
        table.push(Row::new([
            loss.milestone.name().into(),
            loss.seen.into(),
            loss.missing.into(),
            loss.first.into(),
        ]));
    }
    table.note(format!(
        "{} of {} sessions lack a message; {} messages in all, which Adnan 2012's figures count. Calls that were \
         refused, redirected or cancelled are left out, and so are calls without a final response.",
        format_count(losses.lost_sessions()),
        format_count(losses.sessions()),
        format_count(losses.missing_messages()),
    ));
    let absent: Vec<&str> = Milestone::IN_TIME
        .into_iter()
        .filter(|milestone| !losses.is_captured(*milestone))
        .map(Milestone::name)
        .collect();
    if !absent.is_empty() {
        table.note(format!(
            "No session has {}: not captured here, or not sent; this does not count as a loss.",
            absent.join(", ")
        ));
    }
    Some(table)
}

fn metrics(metrics: &Metrics) -> Option<Table> {
    if metrics.registrations + metrics.session_requests == 0 {
        return None;
    }
    let summary = metrics.summary();
    let mut table =
        delay_table("Metrics of RFC 6076", "Metric", "s").column(Column::number("Ratio").unit("%"));
    // The RFC has some of them in seconds and some in milliseconds; in a table they are compared.
    const TO_SECONDS: f64 = 1e-3;
    for (name, delays, scale) in [
        ("RRD", summary.registration_request_delay_ms, TO_SECONDS),
        ("SRD, successful", summary.session_request_delay_s, 1.0),
        ("SRD, failed", summary.failed_session_request_delay_s, 1.0),
        (
            "SDD, successful",
            summary.session_disconnect_delay_ms,
            TO_SECONDS,
        ),
        (
            "SDD, failed",
            summary.failed_session_disconnect_delay_ms,
            TO_SECONDS,
        ),
        ("SDT, successful", summary.session_duration_time_s, 1.0),
        ("SDT, failed", summary.failed_session_duration_time_s, 1.0),
    ] {
        table.push(Row::new(delay_cells(name, &scaled(delays, scale), 6)));
    }
    for (name, ratio, count) in [
        (
            "IRA",
            summary.ineffective_registration_attempts_percent,
            metrics.registrations,
        ),
        (
            "SER",
            summary.session_establishment_ratio_percent,
            metrics.session_requests - metrics.redirected,
        ),
        (
            "SEER",
            summary.session_establishment_effectiveness_ratio_percent,
            metrics.session_requests - metrics.redirected,
        ),
        (
            "ISA",
            summary.ineffective_session_attempts_percent,
            metrics.session_requests,
        ),
        (
            "SCR",
            summary.session_completion_ratio_percent,
            metrics.session_requests,
        ),
    ] {
        let mut cells = vec![Cell::from(name), count.into()];
        cells.resize(8, Cell::Absent);
        cells.push(Cell::number(ratio, 3));
        table.push(Row::new(cells));
    }
    if metrics.undecided_sessions + metrics.undecided_registrations > 0 {
        table.note(format!(
            "{} session requests and {} registrations had no final response when the capture ended: they are in no \
             metric.",
            format_count(metrics.undecided_sessions),
            format_count(metrics.undecided_registrations)
        ));
    }
    if metrics.standing_sessions > 0 {
        table.note(format!(
            "{} sessions were still established when the capture ended: they are not complete for the SCR.",
            format_count(metrics.standing_sessions)
        ));
    }
    Some(table)
}

fn messages(codes: &Codes) -> Option<Table> {
    let total = codes.total();
    if total.messages == 0 {
        return None;
    }
    let mut table = Table::new("SIP messages")
        .column(Column::text("Message").key())
        .column(Column::number("seen"))
        .column(Column::number("retransmitted"));
    let mut push = |name: String, count: crate::Count| {
        table.push(Row::new([
            name.into(),
            count.messages.into(),
            count.retransmissions.into(),
        ]));
    };
    for (method, count) in codes.requests() {
        push(method.to_owned(), count);
    }
    for (status, count) in codes.responses() {
        push(status.to_string(), count);
    }
    push("all".to_owned(), total);
    Some(table)
}

fn transactions(codes: &Codes) -> Option<Table> {
    let mut transactions = codes.transactions().peekable();
    transactions.peek()?;
    let mut table = Table::new("Response time")
        .column(Column::text("Request").key())
        .column(Column::number("answered"))
        .column(Column::number("unanswered"));
    for name in ["min", "mean", "p50", "p95", "p99", "max"] {
        table = table.column(
            Column::number(name)
                .unit("ms")
                .group("To the final response"),
        );
    }
    for (method, transactions) in transactions {
        let delays = transactions.delay.milliseconds();
        let mut cells = delay_cells(method, &delays, 3);
        cells.insert(2, transactions.unanswered.into());
        table.push(Row::new(cells));
    }
    Some(table)
}

fn delay_table(title: &str, what: &str, unit: &str) -> Table {
    let mut table = Table::new(title)
        .column(Column::text(what).key())
        .column(Column::number("samples"));
    for name in ["min", "mean", "p50", "p95", "p99", "max"] {
        table = table.column(Column::number(name).unit(unit));
    }
    table
}

/// Delays in another unit.
fn scaled(delays: DelaySummary, scale: f64) -> DelaySummary {
    let in_unit = |number: Option<f64>| number.map(|number| number * scale);
    DelaySummary {
        min: in_unit(delays.min),
        mean: in_unit(delays.mean),
        p50: in_unit(delays.p50),
        p90: in_unit(delays.p90),
        p95: in_unit(delays.p95),
        p99: in_unit(delays.p99),
        max: in_unit(delays.max),
        ..delays
    }
}

fn delay_row(name: &str, delays: &DelaySummary, decimals: u8) -> Row {
    Row::new(delay_cells(name, delays, decimals))
}

fn delay_cells(name: &str, delays: &DelaySummary, decimals: u8) -> Vec<Cell> {
    let numbers = [
        delays.min,
        delays.mean,
        delays.p50,
        delays.p95,
        delays.p99,
        delays.max,
    ];
    let mut cells = vec![Cell::from(name), delays.count.into()];
    cells.extend(numbers.map(|number| Cell::number(number, decimals)));
    cells
}
