//! The report of RFC 7502 section 5.

use report::{Cell, Column, Row, Table};
use serde::Serialize;

use super::{End, StepSummary};

/// The test setup report (RFC 7502 section 5.1).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TestSetup {
    /// The SIP transport protocol to the device under test.
    pub transport_to_dut: String,
    /// The one from it.
    pub transport_from_dut: String,
    /// Whether the device receives requests on one connection, rather than a new one for each.
    pub receives_on_one_connection: bool,
    /// Whether it sends requests on one connection.
    pub sends_on_one_connection: bool,
    /// The initial rate of the search, in session attempts a second.
    pub session_attempt_rate: u64,
    /// How long a session is held, in seconds.
    pub session_duration_s: f64,
    /// Sessions attempted in each step: N.
    pub total_sessions_attempted: u64,
    /// Media streams a session.
    pub media_streams_per_session: u32,
    /// RTP, or none.
    pub associated_media_protocol: Option<String>,
    /// The codec, as its standards body calls it.
    pub codec: Option<String>,
    /// Octets of audio in a packet.
    pub media_packet_size_octets: Option<u32>,
    /// How long an attempt waits for its final response, in seconds.
    pub establishment_threshold_s: f64,
    /// With TLS, the cipher suite.
    pub tls_cipher_suite: Option<String>,
    /// With IPsec, its profile.
    pub ipsec_profile: Option<String>,
    /// Whether REGISTER and INVITE are challenged (a condition of test by RFC 7501 section 1.1).
    pub is_challenged: bool,
}

/// Device benchmarks for session set-up (RFC 7502 section 5.2).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionBenchmark {
    /// How the search for the session establishment rate ended.
    pub session_establishment_rate: End,
    /// Whether the device relays media.
    pub is_media_relay: bool,
}

/// Device benchmarks for registrations (RFC 7502 section 5.3).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegistrationBenchmark {
    /// How the search for the registration rate ended; none where it was not made.
    pub registration_rate: Option<End>,
    /// How the search for the re-registration rate ended; none where it was not made.
    pub reregistration_rate: Option<End>,
    /// Backend processing, and other things that bear on the rates.
    pub notes: Vec<String>,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Benchmark {
    /// How it was measured.
    pub setup: TestSetup,
    /// What was found of sessions.
    pub sessions: Option<SessionBenchmark>,
    /// What was found of registrations.
    pub registrations: Option<RegistrationBenchmark>,
    /// Where it was measured otherwise than the RFC has it.
    pub deviations: Vec<String>,
    /// All steps of all searches.
    pub steps: Vec<StepSummary>,
}

impl Benchmark {
    /// The form of RFC 7502 section 5, filled in.
    pub fn form(&self) -> Table {
        let mut table = Table::new("Benchmark of RFC 7502")
            .column(Column::text("Report").key())
            .column(Column::text("Value"));
        let mut lines = self.setup_lines();
        if let Some(sessions) = &self.sessions {
            let rate = sessions.session_establishment_rate.to_string();
            lines.push(("Session establishment rate, R", rate));
            let relay = yes_or_no(sessions.is_media_relay);
            lines.push(("Is DUT acting as a media relay?", relay));
        }
        if let Some(registrations) = &self.registrations {
            if let Some(rate) = registrations.registration_rate {
                lines.push(("Registration rate", rate.to_string()));
            }
            if let Some(rate) = registrations.reregistration_rate {
                lines.push(("Re-registration rate", rate.to_string()));
            }
            if !registrations.notes.is_empty() {
                lines.push(("Notes", registrations.notes.join("; ")));
            }
        }
        for (name, value) in lines {
            table.push(Row::new([Cell::from(name), Cell::from(value)]));
        }
        for deviation in &self.deviations {
            table.note(deviation.clone());
        }
        table
    }

    fn setup_lines(&self) -> Vec<(&'static str, String)> {
        let setup = &self.setup;
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        let transports = if setup.transport_to_dut == setup.transport_from_dut {
            format!("{} to and from the DUT", setup.transport_to_dut)
        } else {
            format!(
                "{} to the DUT, {} from it",
                setup.transport_to_dut, setup.transport_from_dut
            )
        };
        vec![
            ("SIP transport protocol", transports),
            (
                "DUT receives requests on one connection",
                yes_or_no(setup.receives_on_one_connection),
            ),
            (
                "DUT sends requests on one connection",
                yes_or_no(setup.sends_on_one_connection),
            ),
            (
                "Session attempt rate (initial)",
                format!("{}/s", setup.session_attempt_rate),
            ),
            (
                "Session duration",
                format!("{} s", setup.session_duration_s),
            ),
            (
                "Total sessions attempted",
                format!(
                    "{} in each step",
                    report::format_count(setup.total_sessions_attempted)
                ),
            ),
            (
                "Media streams per session",
                setup.media_streams_per_session.to_string(),
            ),
            (
                "Associated media protocol",
                or_none(&setup.associated_media_protocol),
            ),
            ("Codec", or_none(&setup.codec)),
            (
                "Media packet size",
                setup
                    .media_packet_size_octets
                    .map_or_else(|| "none".to_owned(), |octets| format!("{octets} bytes")),
            ),
            (
                "Establishment threshold time",
                format!("{} s", setup.establishment_threshold_s),
            ),
            ("TLS ciphersuite used", or_none(&setup.tls_cipher_suite)),
            ("IPsec profile used", or_none(&setup.ipsec_profile)),
            ("Requests are challenged", yes_or_no(setup.is_challenged)),
        ]
    }
}

fn yes_or_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}
