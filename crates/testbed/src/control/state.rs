//! How links and rules are at a moment.

use emulator::{LineSnapshot, RouterStatistics, Rule, RuleId, Snapshot};
use measures::DelaySummary;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rule::RuleWords;
use crate::words::{Words, words};

/// How a network is at a moment. Everything that is counted is counted since it came up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Seconds since it came up.
    pub seconds: f64,
    /// Its links, in the order of the topology.
    pub links: Vec<LinkState>,
    /// Its rules, in the order in which they are looked at.
    pub rules: Vec<RuleState>,
    /// Packets under way.
    pub under_way_packets: usize,
    /// Packets that were dropped because more were under way than may be.
    pub refused_packets: u64,
    /// Packets that hosts did not take: their interfaces were down, or their kernel had no room.
    pub undelivered_packets: u64,
    /// How long after its time a packet was handed over, in microseconds.
    #[serde(with = "measures::MicrosecondKeys")]
    pub lateness: DelaySummary,
    /// Its routers, in the order of the topology.
    pub routers: Vec<RouterState>,
}

/// How a router is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouterState {
    /// Its name.
    pub name: String,
    /// What it did.
    pub counted: RouterStatistics,
}

impl State {
    /// What became of packets that neither links nor rules dropped, and that did not arrive as they were: a line
    /// for each kind that there was.
    pub fn anomalies(&self) -> Vec<String> {
        let mut anomalies = Vec::new();
        let mut add = |who: &str, count: u64, what: &str| {
            if count > 0 {
                anomalies.push(format!("{who}: {count} packets {what}"));
            }
        };
        add("hosts", self.undelivered_packets, "not delivered");
        add("network", self.refused_packets, "too many in transit");
        for RouterState { name, counted } in &self.routers {
            add(name, counted.malformed_packets, "malformed");
            add(name, counted.not_for_routers_packets, "not for routers");
            add(name, counted.time_exceeded_packets, "time to live exceeded");
            add(name, counted.unreachable_packets, "no route");
            add(name, counted.too_big_packets, "too big");
            add(name, counted.fragmented_packets, "fragmented");
        }
        anomalies
    }
}

/// How a link is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkState {
    /// Its name.
    pub name: String,
    /// Whether it carries packets.
    pub up: bool,
    /// From its first end to its second.
    pub forward: LineState,
    /// From its second end to its first.
    pub backward: LineState,
}

/// How a rule is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleState {
    /// Its number.
    pub number: u64,
    /// What it says.
    pub rule: RuleWords,
    /// What it did.
    pub line: LineState,
}

/// What was done to the packets of one direction of a link, or of a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LineState {
    /// What is to be done to them, in words.
    pub words: Words,
    /// Packets that were offered.
    pub offered_packets: u64,
    /// Bytes of these.
    pub offered_bytes: u64,
    /// Packets that came out.
    pub delivered_packets: u64,
    /// Bytes of these.
    pub delivered_bytes: u64,
    /// Packets that did not, for whatever reason.
    pub dropped_packets: u64,
    /// Packets that wait for their turn.
    pub queue_packets: u64,
    /// Bytes of these.
    pub queue_bytes: u64,
    /// How long packets were on their way, in microseconds.
    #[serde(with = "measures::MicrosecondKeys")]
    pub delay: DelaySummary,
    /// Everything that was counted, as [`link::LinkStatistics`] has it, but for the spread of delays.
    pub counted: Value,
}

/// The state that a snapshot shows.
pub(super) fn state(snapshot: &Snapshot, rules: &[(RuleId, Rule)]) -> State {
    let links = snapshot.links.iter().map(|link| LinkState {
        name: link.name.clone(),
        up: link.forward.is_up,
        forward: line(&link.forward, words(&link.forward.config)),
        backward: line(&link.backward, words(&link.backward.config)),
    });
    let rules = rules.iter().filter_map(|(id, rule)| {
        let did = snapshot.rules.iter().find(|did| did.id == *id)?;
        let rule = RuleWords::of(rule);
        Some(RuleState {
            number: id.0,
            line: line(&did.line, rule.treatment.clone()),
            rule,
        })
    });
    let routers = snapshot.routers.iter().map(|router| RouterState {
        name: router.name.clone(),
        counted: router.statistics,
    });
    State {
        seconds: snapshot.seconds,
        links: links.collect(),
        rules: rules.collect(),
        under_way_packets: snapshot.under_way_packets,
        refused_packets: snapshot.refused_packets,
        undelivered_packets: snapshot.undelivered_packets,
        lateness: snapshot.lateness,
        routers: routers.collect(),
    }
}

fn line(line: &LineSnapshot, words: Words) -> LineState {
    let counted = &line.link;
    let mut all = serde_json::to_value(counted).unwrap_or_default();
    if let Value::Object(all) = &mut all {
        all.remove("delays");
    }
    LineState {
        words,
        offered_packets: counted.offered_packets,
        offered_bytes: counted.offered_bytes,
        delivered_packets: line.delivered_packets,
        delivered_bytes: line.delivered_bytes,
        dropped_packets: counted.dropped_packets() + line.too_long_packets,
        queue_packets: line.queue.packets,
        queue_bytes: line.queue.bytes,
        delay: line.delay,
        counted: all,
    }
}
