//! What an analysis found, as tables, CSV, JSON, pages and ladder diagrams.

mod blocks;
mod figures;
mod json;
mod json_session;
mod ladder;
mod page;
mod sctp_tables;
mod session_table;
mod tables;

use serde::Serialize;

use crate::{ClockOffset, Counts, Results, Session};

pub use blocks::Blocks;
pub use figures::Figures;
pub use json::JsonDocument;
pub(crate) use ladder::Columns;
pub use session_table::SessionTable;

/// A file that was analysed.
#[derive(Clone, Debug, Serialize)]
pub struct FileSummary {
    /// Its name.
    pub name: String,
    /// Packets in it.
    pub packets: u64,
    /// Octets of it.
    pub octets: u64,
    /// SIP messages that were read from it.
    pub sip_messages: u64,
    /// SCTP packets.
    pub sctp_packets: u64,
    /// Nanoseconds by which its clock is ahead of the first file's.
    pub clock_offset_nanoseconds: i64,
    /// By how many nanoseconds that may be wrong; `None` where nothing tells.
    pub clock_uncertainty_nanoseconds: Option<i64>,
    /// Messages by which the clocks were compared.
    pub clock_messages: usize,
    /// What of it could not be read, and where.
    pub troubles: Vec<String>,
}

impl FileSummary {
    /// Of a file that was read to its end.
    pub fn new(name: String, counts: Counts, clock: ClockOffset, troubles: Vec<String>) -> Self {
        FileSummary {
            name,
            packets: counts.packets,
            octets: counts.octets,
            sip_messages: counts.sip_messages,
            sctp_packets: counts.sctp_packets,
            clock_offset_nanoseconds: clock.nanoseconds,
            clock_uncertainty_nanoseconds: clock.uncertainty,
            clock_messages: clock.messages,
            troubles,
        }
    }
}

/// Results with what is shown beside them.
#[derive(Debug)]
pub struct Output {
    /// What was found.
    pub results: Results,
    /// The files.
    pub files: Vec<FileSummary>,
    /// The sessions that tables show: the first ones.
    pub shown: Vec<Session>,
    /// How many sessions there are.
    pub sessions: u64,
}
