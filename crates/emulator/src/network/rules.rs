//! The rules of a network, and what they do.

use std::time::{Duration, Instant};

use link::{Link, Verdict};

use super::graph::LinkId;
use super::line::Line;
use crate::change_error::ChangeError;
use crate::ip::Flow;
use crate::rule::{Rule, RuleId};
use crate::statistics::RuleSnapshot;

/// Rules in their order.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    rules: Vec<Active>,
    /// How many there ever were.
    made: u64,
    seed: u64,
}

#[derive(Clone, Debug)]
struct Active {
    id: RuleId,
    rule: Rule,
    /// The number of the link that the rule names.
    link: Option<LinkId>,
    line: Line,
}

/// The random numbers of rules do not depend on how many links there are: theirs come from other parts of
/// the seed's numbers.
const FIRST_PART: u64 = 1 << 32;

impl Rules {
    pub(super) fn new(seed: u64) -> Rules {
        Rules {
            rules: Vec::new(),
            made: 0,
            seed,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }

    pub(super) fn insert(&mut self, index: usize, rule: Rule, link: Option<LinkId>) -> RuleId {
        self.made += 1;
        let id = RuleId(self.made);
        let rng = super::generator(self.seed, FIRST_PART + self.made);
        let line = Line::new(Link::new(rule.config.clone(), rng));
        let active = Active {
            id,
            rule,
            link,
            line,
        };
        self.rules.insert(index.min(self.rules.len()), active);
        id
    }

    pub(super) fn change(
        &mut self,
        id: RuleId,
        rule: Rule,
        link: Option<LinkId>,
    ) -> Result<(), ChangeError> {
        let active = self.find(id).ok_or(ChangeError::NoRule(id))?;
        active.line.set_config(rule.config.clone());
        active.rule = rule;
        active.link = link;
        Ok(())
    }

    pub(super) fn delete(&mut self, id: RuleId) -> Result<(), ChangeError> {
        let at = self.rules.iter().position(|active| active.id == id);
        let at = at.ok_or(ChangeError::NoRule(id))?;
        self.rules.remove(at);
        Ok(())
    }

    pub(super) fn list(&self) -> Vec<(RuleId, Rule)> {
        let rules = self.rules.iter();
        rules
            .map(|active| (active.id, active.rule.clone()))
            .collect()
    }

    pub(super) fn snapshots(&mut self, now: Instant) -> Vec<RuleSnapshot> {
        let rules = self.rules.iter_mut().map(|active| RuleSnapshot {
            id: active.id,
            line: active.line.snapshot(now),
        });
        rules.collect()
    }

    /// What the first rule that matches does to a packet where it enters the network, or on a link; `None`
    /// when no rule matches.
    pub(super) fn act(
        &mut self,
        now: Instant,
        link: Option<LinkId>,
        flow: Option<&Flow>,
        packet: link::Packet,
    ) -> Option<(RuleId, Verdict)> {
        let active = self
            .rules
            .iter_mut()
            .find(|active| active.link == link && active.rule.matches(flow))?;
        Some((active.id, active.line.offer(now, packet)))
    }

    /// Counts a packet that has come out of a rule, if that is still there.
    pub(super) fn count_delivery(&mut self, id: RuleId, bytes: usize, took: Duration) {
        if let Some(active) = self.find(id) {
            active.line.count_delivery(bytes, took);
        }
    }

    fn find(&mut self, id: RuleId) -> Option<&mut Active> {
        self.rules.iter_mut().find(|active| active.id == id)
    }
}
