//! The settings of name resolution.

use std::net::SocketAddr;
use std::time::Duration;

/// How names are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverConfig {
    /// The name servers. Empty: those of the system (`/etc/resolv.conf`).
    pub servers: Vec<SocketAddr>,
    /// Whether the system's `hosts` file is looked into first. A name in it has no NAPTR and SRV
    /// records.
    pub hosts_file: bool,
    /// How long a name server may take for an answer.
    pub timeout: Duration,
    /// How many times a question is put after the first time in vain.
    pub retries: usize,
    /// How many questions to name servers are under way at a time; the others wait.
    pub maximum_parallel: usize,
    /// How many sets of records are remembered.
    pub maximum_cached: usize,
    /// The longest that records are remembered, whatever their TTL says.
    pub maximum_ttl: Duration,
    /// The longest that it is remembered that there are no records, whatever the negative TTL says (RFC
    /// 2308 section 5).
    pub maximum_negative_ttl: Duration,
    /// How long it is remembered that name servers have failed, or have said that there are no records
    /// without saying for how long. It spares them the same question from many requests at a time.
    pub failure_ttl: Duration,
    /// How many next hops that have failed are remembered.
    pub maximum_suspects: usize,
    /// How long a next hop that has failed is tried after all others. A Retry-After of its own takes the
    /// place of this.
    pub suspicion: Duration,
}

impl Default for ResolverConfig {
    fn default() -> ResolverConfig {
        ResolverConfig {
            servers: Vec::new(),
            hosts_file: true,
            timeout: Duration::from_secs(2),
            retries: 1,
            maximum_parallel: 64,
            maximum_cached: 20_000,
            maximum_ttl: Duration::from_secs(86_400),
            maximum_negative_ttl: Duration::from_secs(3_600),
            failure_ttl: Duration::from_secs(1),
            maximum_suspects: 10_000,
            suspicion: Duration::from_secs(30),
        }
    }
}
