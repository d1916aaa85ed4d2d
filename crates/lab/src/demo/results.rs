//! What a run of the demo measured.

use report::Summary;
use serde::{Serialize, Serializer};
use sip::Transport;

/// One transport at one packet loss.
///
/// The figures on the wire are of the calls alone, from the first INVITE to the end of the run, and per
/// completed call; registrations are apart.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The transport between users and proxy.
    #[serde(serialize_with = "by_name")]
    pub transport: Transport,
    /// Packets lost in each direction, in percent.
    pub loss_percent: f64,
    /// Calls begun.
    pub attempted: u64,
    /// Calls set up and ended.
    pub completed: u64,
    /// Calls refused, timed out, or broken.
    pub failed: u64,
    /// Calls under way when the time was up.
    pub unfinished: u64,
    /// Calls that an open loop did not begin because too many were under way.
    pub not_started: u64,
    /// How long calls were made, in seconds.
    pub seconds: f64,
    /// Completed calls per second.
    pub calls_per_second: f64,
    /// Users that had to register.
    pub users: u64,
    /// Users that could.
    pub registered: u64,
    /// Registration request delay (RFC 6076 section 4.1), of successes.
    pub registration_delay_ms: Summary,
    /// Session request delay of calls that were set up (RFC 6076 section 4.3.1).
    pub session_request_delay_ms: Summary,
    /// Session request delay of calls that were not (RFC 6076 section 4.3.2).
    pub failed_session_request_delay_ms: Summary,
    /// Session disconnect delay (RFC 6076 section 4.4), of successes.
    pub session_disconnect_delay_ms: Summary,
    /// IP packets between users and proxy per completed call, lost ones included.
    pub packets_per_call: Option<f64>,
    /// Bytes of those packets, IP headers included.
    pub bytes_per_call: Option<f64>,
    /// Messages that SIP sent again, users and proxy together.
    pub sip_retransmissions: u64,
    /// Chunks or segments that SCTP or TCP sent again, users and proxy together.
    pub transport_retransmissions: u64,
}

impl Run {
    /// Whether a call failed although no packet was lost.
    pub fn failed_without_loss(&self) -> bool {
        self.loss_percent == 0.0 && (self.failed > 0 || self.registered < self.users)
    }
}

fn by_name<S: Serializer>(transport: &Transport, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(transport)
}
