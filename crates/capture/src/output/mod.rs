//! What an analysis found, as tables, CSV, JSON, pages and ladder diagrams.

mod blocks;
mod calendar;
mod figures;
mod json;
mod json_m3ua;
mod json_session;
mod ladder;
mod m3ua_tables;
mod page;
mod rtp_tables;
mod sctp_tables;
mod session_table;
mod tables;

use serde::Serialize;

use crate::{ClockOffset, Counts, PassedOver, Results, Session};

pub use blocks::Blocks;
pub use calendar::time_of_day;
pub use figures::Figures;
pub use json::JsonDocument;
pub(crate) use ladder::Columns;
pub use rtp_tables::rtp_table;
pub(crate) use rtp_tables::stream_label;
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
    /// M3UA messages.
    pub m3ua_messages: u64,
    /// TLS connections of which nothing is seen, because no key log has their secrets.
    pub tls_connections_without_secrets: u64,
    /// TLS connections of which nothing is seen, because their cipher suite or version is not known here.
    pub tls_connections_of_other_suites: u64,
    /// The number of the cipher suite of the last of these, as IANA has it.
    pub tls_other_suite: Option<u16>,
    /// Packets that were not looked into.
    pub passed_over: PassedOver,
    /// Nanoseconds by which its clock is ahead of the first file's.
    pub clock_offset_nanoseconds: i64,
    /// By how many nanoseconds that may be wrong; `None` where nothing tells.
    pub clock_uncertainty_nanoseconds: Option<i64>,
    /// Messages by which the clocks were compared.
    pub clock_messages: usize,
    /// What of it could not be read, and where.
    #[serde(rename = "troubles")]
    pub warnings: Vec<String>,
}

impl FileSummary {
    /// Of a file that was read to its end.
    pub fn new(name: String, counts: Counts, clock: ClockOffset, warnings: Vec<String>) -> Self {
        FileSummary {
            name,
            packets: counts.packets,
            octets: counts.octets,
            sip_messages: counts.sip_messages,
            sctp_packets: counts.sctp_packets,
            m3ua_messages: counts.m3ua_messages,
            tls_connections_without_secrets: counts.connections_without_secrets,
            tls_connections_of_other_suites: counts.connections_of_other_suites,
            tls_other_suite: counts.other_suite,
            passed_over: counts.passed_over,
            clock_offset_nanoseconds: clock.nanoseconds,
            clock_uncertainty_nanoseconds: clock.uncertainty,
            clock_messages: clock.messages,
            warnings,
        }
    }

    /// What to say of packets and TLS connections that nothing was seen of, and what to do about it.
    fn unseen(&self) -> impl Iterator<Item = String> {
        let count = |count| report::format_count(count);
        let without_secrets = self.tls_connections_without_secrets;
        let without_secrets = (without_secrets > 0).then(|| {
            format!(
                "{} TLS connections cannot be read, because no key log has their secrets (--key-log FILE).",
                count(without_secrets)
            )
        });
        let other_suites = self.tls_other_suite.map(|suite| {
            format!(
                "{} TLS connections cannot be read, because their cipher suite (last: 0x{suite:04x}) or version is \
                 not supported. Supported are AES-GCM, AES-CBC and ChaCha20-Poly1305 of TLS 1.2, and TLS 1.3.",
                count(self.tls_connections_of_other_suites)
            )
        });
        let passed_over = &self.passed_over;
        let protocols = match passed_over.last_protocol {
            Some(last) => format!("IP protocols other than UDP, TCP and SCTP (last: {last})"),
            None => String::new(),
        };
        let kinds = [
            (passed_over.not_ip, "not IP"),
            (passed_over.other_protocols, protocols.as_str()),
            (
                passed_over.tunnels,
                "tunnels of another content or nested too deep",
            ),
            (passed_over.malformed, "malformed headers"),
        ];
        let kinds: Vec<String> = kinds
            .iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, kind)| format!("{} {kind}", count(*number)))
            .collect();
        let packets =
            (!kinds.is_empty()).then(|| format!("Packets passed over: {}.", kinds.join(", ")));
        without_secrets
            .into_iter()
            .chain(other_suites)
            .chain(packets)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Analysis, Options};

    /// Calls that a key log of some connections only does not show are missed by nobody who is not told.
    #[test]
    fn connections_that_are_not_seen_are_told_of() {
        let counts = Counts {
            connections_without_secrets: 1234,
            connections_of_other_suites: 5,
            other_suite: Some(0x2f),
            passed_over: PassedOver {
                tunnels: 3,
                ..PassedOver::default()
            },
            ..Counts::default()
        };
        let file = |name: &str, counts| {
            FileSummary::new(name.to_owned(), counts, ClockOffset::default(), Vec::new())
        };
        let output = Output {
            results: Analysis::new(&Options::default()).finish(&mut |_| {}),
            files: vec![file("all", Counts::default()), file("some", counts)],
            shown: Vec::new(),
            sessions: 0,
        };
        let shown = output.to_terminal(200);
        for text in [
            "some: 1,234 TLS connections cannot be read",
            "--key-log",
            "some: 5 TLS connections cannot be read",
            "0x002f",
            "some: Packets passed over: 3 tunnels",
        ] {
            assert!(shown.contains(text), "{text} in {shown}");
        }
        assert!(!shown.contains("all: "), "{shown}");
        let json = serde_json::to_value(&output.files).expect("plain data");
        assert_eq!(json[1]["tls_connections_without_secrets"], 1234);
        assert_eq!(json[1]["tls_connections_of_other_suites"], 5);
        assert_eq!(json[1]["tls_other_suite"], 0x2f);
        assert_eq!(json[0]["tls_other_suite"], serde_json::Value::Null);
    }
}
