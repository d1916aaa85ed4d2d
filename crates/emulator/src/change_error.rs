//! Why a network cannot be changed.

/// Why a network cannot be changed so.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// There is no such link.
    #[error("there is no link {name}; there are: {known}")]
    NoLink {
        /// The name that was given.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// There is no such rule.
    #[error("there is no rule {0}")]
    NoRule(crate::RuleId),
    /// There are as many rules as there may be.
    #[error("there are {0} rules already, which is all that there may be")]
    TooManyRules(usize),
    /// A rule asks for ports of a protocol that has none.
    #[error("a rule with ports is for a protocol that has ports: udp, tcp or sctp")]
    NoPorts,
    /// A rule's source and destination are of different versions of IP.
    #[error("a rule's source and destination are of different versions of IP")]
    TwoVersions,
    /// The network has stopped.
    #[error("the network has stopped")]
    Stopped,
    /// The network has stopped because the kernel no longer says when packets come.
    #[error("the network has stopped: {0}")]
    Failed(String),
}
