//! What to run.

use sctp::Profile;

use crate::experiment::On;

/// What to run, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// On what.
    pub on: On,
    /// Decides everything that is random.
    pub seed: u64,
    /// Fewer points and shorter runs.
    pub quick: bool,
    /// The timers and the loss recovery of SIP over SCTP, in experiments that do not compare the profiles.
    pub profile: Profile,
}
