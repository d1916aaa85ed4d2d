//! How losses are found and mended.

use std::fmt;
use std::str::FromStr;

use derive_setters::Setters;

use super::{AssociationConfig, EndpointConfig};

/// How the sender finds out that a chunk was lost, before T3-rtx expires.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LossDetection {
    /// By counting: three SACKs that acknowledge something sent later (RFC 9260 section 7.2.4).
    #[default]
    GapReports,
    /// By time: something sent later was acknowledged, and what may be reordering has had time to
    /// arrive; a tail loss probe asks for an acknowledgement where none comes (RFC 8985). Recovery
    /// is a matter of each path then.
    RackTlp,
}

impl LossDetection {
    /// Every kind of loss detection.
    pub const ALL: [LossDetection; 2] = [LossDetection::GapReports, LossDetection::RackTlp];
}

impl fmt::Display for LossDetection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            LossDetection::GapReports => "gap-reports",
            LossDetection::RackTlp => "rack-tlp",
        })
    }
}

/// There is no loss detection of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no loss detection has this name: gap-reports or rack-tlp is expected")]
pub struct UnknownLossDetection;

impl FromStr for LossDetection {
    type Err = UnknownLossDetection;

    fn from_str(name: &str) -> Result<LossDetection, UnknownLossDetection> {
        LossDetection::ALL
            .into_iter()
            .find(|detection| detection.to_string() == name)
            .ok_or(UnknownLossDetection)
    }
}

/// How losses are found and mended. [`Default`] is RFC 9260's way, without anything beside it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Setters)]
#[setters(generate_delegates(ty = "AssociationConfig", field = "recovery"))]
#[setters(generate_delegates(ty = "EndpointConfig", method = "recovery_mut"))]
#[non_exhaustive]
pub struct RecoveryConfig {
    /// How losses are found before T3-rtx expires, in associations that begin from now on.
    pub loss_detection: LossDetection,
    /// With gap reports: fewer of them are enough where fewer than four chunks are outstanding (Early
    /// Retransmit, RFC 5827).
    pub early_retransmit: bool,
    /// With RACK-TLP: the flight goes down to the new window evenly (Proportional Rate Reduction, RFC
    /// 6937).
    pub prr: bool,
    /// Whether data that arrives after all ends the recovery that T3-rtx began, and gives the window
    /// back (F-RTO, RFC 5682).
    pub f_rto: bool,
    /// While less than four packets are in flight, T3-rtx counts from when the earliest chunk was sent
    /// (RTO Restart, RFC 7765).
    pub rto_restart: bool,
    /// While less than four packets are in flight, the timeout is not doubled for the first six times that
    /// T3-rtx expires in a row (as Linux's `tcp_thin_linear_timeouts`).
    pub thin_linear_timeouts: bool,
    /// While less than four packets are in flight, what was lost goes again on another path, if there is one
    /// as good.
    pub thin_alternate_path: bool,
}

impl EndpointConfig {
    /// For the setters of [`RecoveryConfig`].
    fn recovery_mut(&mut self) -> &mut RecoveryConfig {
        &mut self.association.recovery
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for detection in LossDetection::ALL {
            assert_eq!(detection.to_string().parse(), Ok(detection));
            let expected = UnknownLossDetection.to_string();
            assert!(expected.contains(&detection.to_string()), "{detection}");
        }
        assert_eq!("RACK".parse::<LossDetection>(), Err(UnknownLossDetection));
    }
}
