//! What one run of the demo differs in from the others.

use sip::Transport;
use sip_net::Profile;

/// A transport at a packet loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Condition {
    pub(super) transport: Transport,
    /// The timers and the loss recovery of SCTP; none where it does not run.
    pub(super) profile: Option<Profile>,
    pub(super) loss_percent: f64,
}

impl Condition {
    /// Its line in tables and plots.
    pub(super) fn line(&self) -> Line {
        Line {
            transport: self.transport,
            profile: self.profile,
        }
    }
}

/// A transport at all losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) transport: Transport,
    pub(super) profile: Option<Profile>,
}

impl Line {
    /// Its name, such as `SCTP, rfc9260`.
    pub(super) fn label(self) -> String {
        match self.profile {
            Some(profile) => format!("{}, {profile}", self.transport.via_name()),
            None => self.transport.via_name().to_owned(),
        }
    }
}
