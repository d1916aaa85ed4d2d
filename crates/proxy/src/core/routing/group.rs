//! Groups of servers that do the same job.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Servers of which a request goes to one, and to another when that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The servers.
    pub members: Vec<Member>,
    /// How the servers are asked whether they are there; `None` asks none: what becomes of requests
    /// tells alone.
    pub probing: Option<Probing>,
    /// How many times in a row a server has to fail (no answer in time, 503, no connection), probes
    /// and requests counted together, until it counts as down. One that is down gets requests only
    /// where all others are down too or have failed.
    pub failures: u32,
    /// How long a server counts as down that is not probed; a longer Retry-After of its 503 is heeded.
    pub retry_after: Duration,
    /// How long a server may leave a request without any response, provisional ones included, until
    /// the next one is tried besides: it has half of the breadth that is left (Max-Breadth, RFC 5393),
    /// and where that is 1 it waits. `None` waits as long as RFC 3263 section 4.3 does: until the transaction
    /// times out, 32 seconds. Clients of requests other than INVITE do not wait longer than that
    /// themselves, so that only a shorter time saves their request.
    pub response_timeout: Option<Duration>,
}

impl Default for Group {
    fn default() -> Group {
        Group {
            members: Vec::new(),
            probing: None,
            failures: 1,
            retry_after: Duration::from_secs(30),
            response_timeout: Some(Duration::from_secs(4)),
        }
    }
}

/// One server of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it is: a SIP URI without a user. A domain name without a port is looked up as RFC 3263
    /// says, and all its addresses are one member.
    pub uri: String,
    /// Further addresses of it, where the URI gives one and goes over SCTP or TLS over SCTP: one association is
    /// opened with all of them (RFC 9260 section 5.1.2).
    pub addresses: Vec<IpAddr>,
    /// Servers with a lower number are tried before those with a higher one, as in SRV records (RFC
    /// 2782).
    pub priority: u16,
    /// The share of requests among servers of the same priority, as in SRV records.
    pub weight: u16,
}

impl Member {
    /// A server of priority 0 and weight 1, without further addresses.
    pub fn new(uri: &str) -> Member {
        Member {
            uri: uri.to_owned(),
            addresses: Vec::new(),
            priority: 0,
            weight: 1,
        }
    }
}

/// Asking servers by OPTIONS (RFC 3261 section 11) whether they are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probing {
    /// How long after a probe was sent the next one follows.
    pub interval: Duration,
    /// How long a probe may go without a final response.
    pub timeout: Duration,
    /// The final responses of a server that is up. Not to know OPTIONS, or to want credentials, is no
    /// reason to send a server no calls.
    pub up: Vec<RangeInclusive<u16>>,
}

impl Default for Probing {
    fn default() -> Probing {
        Probing {
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(4),
            up: vec![200..=299, 300..=407, 409..=499, 501..=501],
        }
    }
}

impl Probing {
    /// Whether a final response tells that its sender is up.
    pub(crate) fn is_up(&self, status: u16) -> bool {
        self.up.iter().any(|statuses| statuses.contains(&status))
    }
}

/// Names a member of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MemberName {
    pub(crate) group: Arc<str>,
    pub(crate) uri: Arc<str>,
}
