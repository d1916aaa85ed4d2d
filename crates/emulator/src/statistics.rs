//! What a network has done.

use link::{LinkConfig, LinkStatistics, QueueLength};
use measures::DelaySummary;
use serde::{Deserialize, Serialize};

use crate::rule::RuleId;

/// Everything that a network has counted since it began.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Snapshot {
    /// When it was taken: seconds since the network began.
    pub seconds: f64,
    /// The links, in the order of the configuration.
    pub links: Vec<LinkSnapshot>,
    /// The rules that there are now, in their order.
    pub rules: Vec<RuleSnapshot>,
    /// The routers, in the order of the configuration.
    pub routers: Vec<RouterSnapshot>,
    /// Packets under way.
    pub under_way_packets: usize,
    /// Bytes of these.
    pub under_way_bytes: usize,
    /// Packets that were dropped because more were under way than may be.
    pub refused_packets: u64,
    /// How long after its time a packet was handed to its host, in microseconds. The driver records it; a core alone has none.
    #[serde(with = "measures::MicrosecondKeys")]
    pub lateness: DelaySummary,
    /// Packets that the kernel did not take, from the driver.
    pub undelivered_packets: u64,
}

/// A link, both directions.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LinkSnapshot {
    /// Its name.
    pub name: String,
    /// From its first end to its second.
    pub forward: LineSnapshot,
    /// From its second end to its first.
    pub backward: LineSnapshot,
}

/// A rule.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RuleSnapshot {
    /// Its number.
    pub id: RuleId,
    /// What it did.
    pub line: LineSnapshot,
}

/// A router.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RouterSnapshot {
    /// Its name.
    pub name: String,
    /// What it did.
    pub statistics: RouterStatistics,
}

/// One direction of a link, or a rule.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LineSnapshot {
    /// Whether it is up.
    pub is_up: bool,
    /// What it does to packets now.
    pub config: LinkConfig,
    /// What waits before its bottleneck.
    pub queue: QueueLength,
    /// What the model of the link counts.
    pub link: LinkStatistics,
    /// Packets that have come out.
    pub delivered_packets: u64,
    /// Bytes of these, with the headers of IP.
    pub delivered_bytes: u64,
    /// Packets of a host that were longer than the MTU of its link.
    pub too_long_packets: u64,
    /// How long packets were on it, its queue included, in microseconds.
    #[serde(with = "measures::MicrosecondKeys")]
    pub delay: DelaySummary,
}

/// What a router has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct RouterStatistics {
    /// Packets that were passed on, before they were fragmented.
    pub forwarded_packets: u64,
    /// Packets that were cut into fragments.
    pub fragmented_packets: u64,
    /// Fragments that came of it.
    pub fragments: u64,
    /// Packets that contradict themselves, or whose header has a wrong checksum.
    pub malformed_packets: u64,
    /// Packets to groups, to everybody, or to neighbours, which no router passes on.
    pub not_for_routers_packets: u64,
    /// Packets for the router itself.
    pub own_packets: u64,
    /// Packets whose time to live has run out.
    pub time_exceeded_packets: u64,
    /// Packets that have no way to their destination.
    pub unreachable_packets: u64,
    /// Packets that did not fit into the next link.
    pub too_big_packets: u64,
    /// ICMP errors that were sent.
    pub sent_errors: u64,
    /// ICMP errors that were not sent because there were too many, or for want of an address.
    pub unsent_errors: u64,
}
