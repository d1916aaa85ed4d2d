//! The settings of SIP over SCTP: the layer below, and the stream for each message.

use std::fmt;
use std::str::FromStr;

/// What carries SCTP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SctpOver {
    /// UDP (RFC 6951): it needs no privilege, and the peer has to do the same.
    #[default]
    Udp,
    /// IP itself, as protocol 132: what peers with an SCTP in their kernel speak. It needs the
    /// capability CAP_NET_RAW.
    Ip,
    /// The kernel's own SCTP does all the work; it has to have one.
    Kernel,
}

impl fmt::Display for SctpOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SctpOver::Udp => "udp",
            SctpOver::Ip => "ip",
            SctpOver::Kernel => "kernel",
        })
    }
}

/// A text that names nothing that carries SCTP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SCTP cannot go over \"{0}\": one of udp, ip, kernel is expected")]
pub struct UnknownSctpOver(pub String);

impl FromStr for SctpOver {
    type Err = UnknownSctpOver;

    /// Reads what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<SctpOver, UnknownSctpOver> {
        [SctpOver::Udp, SctpOver::Ip, SctpOver::Kernel]
            .into_iter()
            .find(|over| over.to_string() == text)
            .ok_or_else(|| UnknownSctpOver(text.to_owned()))
    }
}

/// Which stream of an association a message is sent on. Messages are accepted on any
/// (RFC 4168 section 5.1).
///
/// TLS over SCTP needs order, so there each transaction has its stream whatever this says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StreamPolicy {
    /// Unordered on stream 0, as RFC 4168 section 5.1 recommends: no message waits for another.
    #[default]
    Unordered,
    /// Ordered, the messages of a transaction on one stream and different transactions on different
    /// streams, as far as there are enough.
    PerTransaction,
    /// Ordered, each call on the stream that its Call-ID hashes to.
    PerCall,
    /// Ordered, all on stream 0: as TCP would.
    Single,
    /// Ordered, on the stream that the target's flow names; 0 where the target is an address.
    PerFlow,
}

const POLICIES: [(StreamPolicy, &str); 5] = [
    (StreamPolicy::Unordered, "unordered"),
    (StreamPolicy::PerTransaction, "per-transaction"),
    (StreamPolicy::PerCall, "per-call"),
    (StreamPolicy::Single, "single"),
    (StreamPolicy::PerFlow, "per-flow"),
];

impl fmt::Display for StreamPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = POLICIES.iter().find(|(policy, _)| policy == self);
        f.pad(name.map_or("", |(_, name)| name))
    }
}

/// A text that names no stream policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown stream policy \"{0}\": one of unordered, per-transaction, per-call, single, per-flow is expected"
)]
pub struct UnknownStreamPolicy(pub String);

impl FromStr for StreamPolicy {
    type Err = UnknownStreamPolicy;

    /// Reads what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<StreamPolicy, UnknownStreamPolicy> {
        POLICIES
            .iter()
            .find(|(_, name)| *name == text)
            .map(|(policy, _)| *policy)
            .ok_or_else(|| UnknownStreamPolicy(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_below_are_read_as_they_are_written() {
        for over in [SctpOver::Udp, SctpOver::Ip, SctpOver::Kernel] {
            assert_eq!(over.to_string().parse(), Ok(over));
        }
        let error = "tcp".parse::<SctpOver>().expect_err("no carrier");
        assert_eq!(
            error.to_string(),
            "SCTP cannot go over \"tcp\": one of udp, ip, kernel is expected"
        );
    }

    #[test]
    fn stream_policies_are_read_as_they_are_written() {
        for (policy, name) in POLICIES {
            assert_eq!(name.parse(), Ok(policy));
            assert_eq!(policy.to_string(), name);
        }
        let error = "per-user".parse::<StreamPolicy>().expect_err("no policy");
        assert!(error.to_string().contains("\"per-user\": one of unordered"));
    }
}
