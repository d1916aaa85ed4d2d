//! What is wrong with a message that breaks a rule.

/// What is wrong with a message that could be read, and how a request is to be answered. A response
/// that breaks a rule is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status} {reason}")]
pub struct Violation {
    /// The status code: 400, 501 or 505.
    pub status: u16,
    /// The reason phrase.
    pub reason: &'static str,
}

impl Violation {
    /// A 400 with a reason that says what is wrong.
    pub(crate) const fn bad_request(reason: &'static str) -> Violation {
        Violation {
            status: 400,
            reason,
        }
    }
}
