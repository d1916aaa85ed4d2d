//! What a network has done.

use std::time::Duration;

use hdrhistogram::Histogram;
use link::{LinkConfig, LinkStatistics, QueueLength};
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
    /// How long after its time a packet was handed to its host. The driver records it; a core alone has none.
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
    /// How long packets were on it, its queue included.
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

/// How long something took, in microseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct DelaySummary {
    /// How often it was measured.
    pub count: u64,
    /// All of it together.
    pub total_us: f64,
    /// The shortest.
    pub min_us: f64,
    /// Half took no longer.
    pub median_us: f64,
    /// 90 % took no longer.
    pub p90_us: f64,
    /// 99 % took no longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// Collects how long something took. Values are told apart to 1 %.
#[derive(Clone, Debug)]
pub(crate) struct Delays {
    /// Of nanoseconds.
    histogram: Histogram<u64>,
    total: Duration,
}

/// The longest that is told apart from longer ones.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl Default for Delays {
    fn default() -> Delays {
        let mut histogram = Histogram::new(2).expect("two digits are possible");
        histogram.auto(true);
        Delays {
            histogram,
            total: Duration::ZERO,
        }
    }
}

impl Delays {
    pub(crate) fn record(&mut self, took: Duration) {
        let nanoseconds = took.min(LONGEST).as_nanos() as u64;
        // It fails where the histogram cannot grow, which this one can.
        self.histogram.record(nanoseconds).ok();
        self.total = self.total.saturating_add(took);
    }

    pub(crate) fn summary(&self) -> DelaySummary {
        if self.histogram.is_empty() {
            return DelaySummary::default();
        }
        let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let at = |quantile| microseconds(self.histogram.value_at_quantile(quantile));
        DelaySummary {
            count: self.histogram.len(),
            total_us: self.total.as_secs_f64() * 1e6,
            min_us: microseconds(self.histogram.min()),
            median_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            max_us: microseconds(self.histogram.max()),
        }
    }
}
