//! What the users of `core` count.

use super::delays::Delays;

/// What became of the registrations of a side.
#[derive(Clone, Debug, Default)]
pub struct RegistrationResults {
    /// Users that are to register.
    pub users: u32,
    /// REGISTER requests sent, retransmissions apart.
    pub attempted: u64,
    /// Requests answered 200.
    pub succeeded: u64,
    /// Requests answered otherwise, timed out or not sent: ineffective registration attempts
    /// (RFC 6076 section 4.2).
    pub failed: u64,
    /// Registration request delay of the successful ones (RFC 6076 section 4.1).
    pub delay: Delays,
}

impl RegistrationResults {
    /// Adds those of another side.
    pub fn merge(&mut self, other: &RegistrationResults) {
        self.users += other.users;
        self.attempted += other.attempted;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.delay.merge(&other.delay);
    }
}

/// What became of the calls of the callers.
#[derive(Clone, Debug, Default)]
pub struct CallResults {
    /// Calls begun: an INVITE was sent.
    pub attempted: u64,
    /// Calls set up and ended by a BYE that was answered 200.
    pub completed: u64,
    /// Calls refused, timed out, or broken.
    pub failed: u64,
    /// Calls that an open loop would have begun, had not as many calls as allowed been in flight.
    pub not_started: u64,
    /// Session request delay of the calls that were set up: first INVITE to first provisional response
    /// beyond 100, or to the 200 where there was none (RFC 6076 section 4.3.1).
    pub session_request_delay: Delays,
    /// The same of the calls that failed to be set up: to the first such provisional or to the failure
    /// response (RFC 6076 section 4.3.2). A call that nobody answered at all has none.
    pub failed_session_request_delay: Delays,
    /// Session disconnect delay: BYE to its 200 (RFC 6076 section 4.4).
    pub session_disconnect_delay: Delays,
}

impl CallResults {
    /// Calls still under way.
    pub fn unfinished(&self) -> u64 {
        self.attempted - self.completed - self.failed
    }
}
