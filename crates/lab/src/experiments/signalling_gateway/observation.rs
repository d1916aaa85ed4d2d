//! What was observed in one run of the plan, and what follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use m3ua::{AsState, AspState, ManagementIndication};

use super::cluster::{Arrival, Handed, PROCESSES, SERVER, Text, is_sgp, peers_of};
use super::plan::{KILLED_ASP, KILLED_SGP, Plan};

/// What was observed. Times are since the beginning.
#[derive(Debug)]
pub(super) struct Observation {
    pub(super) plan: Plan,
    /// Messages that processes have taken.
    pub(super) handed: Vec<Handed>,
    /// Messages that processes refused, as they had no way.
    pub(super) refused: u64,
    pub(super) arrivals: Vec<Arrival>,
    /// When a process found its association with another one lost.
    pub(super) lost: Vec<(Duration, usize, usize)>,
    /// What managements were told.
    pub(super) news: Vec<(Duration, usize, ManagementIndication)>,
}

impl Observation {
    /// When a process found another one lost, for the first time after that.
    pub(super) fn found_lost(
        &self,
        process: usize,
        other: usize,
        after: Duration,
    ) -> Option<Duration> {
        let mut lost = self.lost.iter();
        let found = lost.find(|(at, one, two)| *at >= after && (*one, *two) == (process, other));
        found.map(|(at, ..)| *at)
    }

    /// Changes of states of ASPs and application servers that anybody was told of, in that time.
    pub(super) fn changes(&self, from: Duration, to: Duration) -> usize {
        let is_change = |news: &ManagementIndication| {
            matches!(
                news,
                ManagementIndication::Asp { .. }
                    | ManagementIndication::As { .. }
                    | ManagementIndication::Confirm { .. }
            )
        };
        let within = self.news.iter().filter(|(at, ..)| (from..to).contains(at));
        within.filter(|(_, _, news)| is_change(news)).count()
    }

    /// When the application server came into this state at a process, for the first time after that.
    pub(super) fn server_became(
        &self,
        process: usize,
        state: AsState,
        after: Duration,
    ) -> Option<Duration> {
        let is_it = |news: &ManagementIndication| matches!(news, ManagementIndication::As { application_server: SERVER, state: new } if *new == state);
        let mut news = self.news.iter();
        let found = news.find(|(at, one, it)| *at >= after && *one == process && is_it(it));
        found.map(|(at, ..)| *at)
    }

    /// Whether all ASPs are active at all SGPs by then.
    pub(super) fn all_are_active(&self, by: Duration) -> bool {
        let active = self
            .news
            .iter()
            .filter_map(|(at, process, news)| match news {
                ManagementIndication::Asp {
                    peer,
                    application_server: Some(_),
                    state: AspState::Active,
                } if *at < by && is_sgp(*process) => Some((*process, *peer)),
                _ => None,
            });
        let active: BTreeSet<_> = active.collect();
        active.len() == (0..PROCESSES).filter(|it| is_sgp(*it)).count() * peers_of(0).len()
    }

    /// Messages that a process has discarded as T(r) expired.
    pub(super) fn discarded(&self) -> usize {
        let discarded = self.news.iter().filter_map(|(_, _, news)| match news {
            ManagementIndication::Discarded { messages, .. } => Some(*messages),
            _ => None,
        });
        discarded.sum()
    }

    /// Messages handed over in that time that have not arrived.
    pub(super) fn missing(&self, from: Duration, to: Duration) -> Vec<Handed> {
        let arrived: BTreeSet<Text> = self.arrivals.iter().map(|it| it.text).collect();
        let handed = self.handed.iter().filter(|it| (from..to).contains(&it.at));
        let missing = handed.filter(|it| !arrived.contains(&it.text));
        missing.copied().collect()
    }

    /// Messages among these that were handed over when the loss of the process that was killed was known where it mattered:
    /// at the SGP that was to choose another ASP, or at the ASP that was to choose another SGP.
    pub(super) fn after_the_loss(&self, missing: &[Handed], killed: usize, at: Duration) -> usize {
        let is_after = |handed: &&Handed| {
            let known = self.found_lost(handed.process, killed, at);
            known.is_some_and(|known| handed.at >= known)
        };
        missing.iter().filter(is_after).count()
    }

    /// Messages that arrive after a later one with their sender and SLS, and messages that arrive twice.
    pub(super) fn misplaced(&self) -> usize {
        let mut latest: BTreeMap<(Option<usize>, u8), u32> = BTreeMap::new();
        let misplaced = self.arrivals.iter().filter(|it| {
            let last = latest.entry((it.text.sender, it.text.sls)).or_default();
            let is_next = it.text.number > *last;
            *last = it.text.number.max(*last);
            !is_next
        });
        misplaced.count()
    }

    /// The longest time from handing over to arrival, of messages handed over in that time.
    pub(super) fn longest_delay(&self, from: Duration, to: Duration) -> Duration {
        let arrived: BTreeMap<Text, Duration> =
            self.arrivals.iter().map(|it| (it.text, it.at)).collect();
        let handed = self.handed.iter().filter(|it| (from..to).contains(&it.at));
        let delays = handed.filter_map(|it| Some(arrived.get(&it.text)?.saturating_sub(it.at)));
        delays.max().unwrap_or_default()
    }

    /// When the processes that have to choose another way found a process lost.
    pub(super) fn detections(&self, killed: usize) -> Vec<Duration> {
        let at = match killed {
            KILLED_SGP => self.plan.sgp_killed,
            _ => self.plan.asp_killed,
        };
        let concerned = peers_of(killed).filter(|it| killed != KILLED_SGP || *it != KILLED_ASP);
        let found = concerned.map(|process| {
            let found = self.found_lost(process, killed, at);
            found.map_or(Duration::MAX, |found| found - at)
        });
        found.collect()
    }
}
