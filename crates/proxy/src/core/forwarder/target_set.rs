//! The target set of a request: in which order its targets are tried (RFC 3261 sections 16.5 and
//! 16.6).

use std::collections::VecDeque;
use std::mem;

use crate::core::policy::Forking;
use crate::core::target::Target;

/// Targets that have not been tried.
#[derive(Debug, Default)]
pub(crate) struct TargetSet {
    /// Those whose turn it is, as soon as there is room for them.
    current: VecDeque<Target>,
    /// Those behind them. A group is tried when all before it have failed.
    later: VecDeque<Vec<Target>>,
}

impl TargetSet {
    /// Targets that stand together by their preference, the most preferred first, in the order in
    /// which they are to be tried; so many at the most.
    pub(crate) fn new(
        groups: impl IntoIterator<Item = Vec<Target>>,
        forking: Forking,
        maximum: usize,
    ) -> TargetSet {
        TargetSet {
            current: VecDeque::new(),
            later: arranged(groups, forking, maximum).into(),
        }
    }

    /// Adds targets in place of one that has led to them: their first group is tried at once, the
    /// others before all that wait.
    pub(crate) fn insert(&mut self, groups: Vec<Vec<Target>>) {
        let mut groups = groups.into_iter();
        self.current.extend(groups.next().into_iter().flatten());
        for group in groups.rev() {
            self.later.push_front(group);
        }
    }

    /// Adds a target to those whose turn it is.
    pub(crate) fn add(&mut self, target: Target) {
        self.current.push_back(target);
    }

    /// Adds a target behind those whose turn it is: before those that are less preferred. With equal ones where it
    /// `joins` them, else after them.
    pub(crate) fn add_later(&mut self, target: Target, joins: bool) {
        for (place, group) in self.later.iter_mut().enumerate() {
            match group.iter().map(|other| other.q).max() {
                Some(its) if its == target.q && joins => {
                    group.push(target);
                    return;
                }
                Some(its) if its < target.q => {
                    self.later.insert(place, vec![target]);
                    return;
                }
                _ => {}
            }
        }
        self.later.push_back(vec![target]);
    }

    /// Takes out a target of the same instance as another.
    pub(crate) fn take_same_instance(&mut self, target: &Target) -> Option<Target> {
        let is_same = |waiting: &Target| waiting.has_instance_of(target);
        if let Some(place) = self.current.iter().position(is_same) {
            return self.current.remove(place);
        }
        let (at, place) = self
            .later
            .iter()
            .enumerate()
            .find_map(|(at, group)| Some((at, group.iter().position(is_same)?)))?;
        let group = self.later.get_mut(at)?;
        let taken = group.remove(place);
        if group.is_empty() {
            self.later.remove(at);
        }
        Some(taken)
    }

    /// How many there are whose turn it is.
    pub(crate) fn due(&self) -> usize {
        self.current.len()
    }

    /// The next targets that are tried side by side, so many at the most. `is_pending`: some are being
    /// tried, so that it is not yet the next group's turn.
    pub(crate) fn next(&mut self, is_pending: bool, maximum: usize) -> Vec<Target> {
        if self.current.is_empty() && !is_pending {
            self.current = self.later.pop_front().unwrap_or_default().into();
        }
        if self.later.is_empty() {
            self.later = VecDeque::new();
        }
        match self.current.len() <= maximum {
            true => mem::take(&mut self.current).into(),
            false => self.current.drain(..maximum).collect(),
        }
    }

    /// How many targets there are.
    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_empty() && self.later.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Target> {
        self.current.iter().chain(self.later.iter().flatten())
    }
}

/// Targets that stand together by their preference as a policy wants them tried, so many at the most.
pub(crate) fn arranged(
    groups: impl IntoIterator<Item = Vec<Target>>,
    forking: Forking,
    maximum: usize,
) -> Vec<Vec<Target>> {
    let mut room = maximum;
    let within_bound = groups.into_iter().map(|mut group| {
        group.truncate(room);
        room -= group.len();
        group
    });
    let mut arranged: Vec<Vec<Target>> = match forking {
        Forking::ByPreference => within_bound.collect(),
        Forking::Parallel => vec![within_bound.flatten().collect()],
        Forking::Sequential => within_bound.flatten().map(|target| vec![target]).collect(),
    };
    arranged.retain(|group| !group.is_empty());
    arranged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(texts: &[&[&str]]) -> Vec<Vec<Target>> {
        let group = |texts: &&[&str]| {
            texts
                .iter()
                .map(|text| Target::as_requested(text, None))
                .collect()
        };
        texts.iter().map(group).collect()
    }

    fn uris(targets: &[Target]) -> Vec<&str> {
        targets.iter().map(|target| &*target.uri).collect()
    }

    fn rounds(mut set: TargetSet) -> Vec<String> {
        let mut rounds = Vec::new();
        while !set.is_empty() {
            rounds.push(uris(&set.next(false, 10)).join(" "));
        }
        rounds
    }

    #[test]
    fn a_policy_decides_what_is_tried_together() {
        let given = || groups(&[&["sip:a", "sip:b"], &["sip:c"]]);
        for (forking, maximum, expected) in [
            (Forking::ByPreference, 9, &["sip:a sip:b", "sip:c"][..]),
            (Forking::ByPreference, 2, &["sip:a sip:b"]),
            (Forking::ByPreference, 1, &["sip:a"]),
            (Forking::Parallel, 9, &["sip:a sip:b sip:c"]),
            (Forking::Sequential, 9, &["sip:a", "sip:b", "sip:c"]),
            (Forking::Sequential, 0, &[]),
        ] {
            assert_eq!(rounds(TargetSet::new(given(), forking, maximum)), expected);
        }
    }

    #[test]
    fn the_next_group_waits_for_the_one_before_it() {
        let mut set = TargetSet::new(
            groups(&[&["sip:a", "sip:b", "sip:c"], &["sip:d"]]),
            Forking::ByPreference,
            9,
        );
        assert_eq!(uris(&set.next(false, 2)), ["sip:a", "sip:b"]);
        // What had no room begins as soon as there is some.
        assert_eq!(uris(&set.next(true, 1)), ["sip:c"]);
        assert!(set.next(true, 3).is_empty());
        assert_eq!(uris(&set.next(false, 3)), ["sip:d"]);
    }

    #[test]
    fn what_takes_the_place_of_a_target_comes_before_all_others() {
        let mut set = TargetSet::new(groups(&[&["sip:a"], &["sip:z"]]), Forking::default(), 9);
        assert_eq!(uris(&set.next(false, 9)), ["sip:a"]);
        set.insert(groups(&[&["sip:b"], &["sip:c"], &["sip:d"]]));
        assert_eq!(set.len(), 4);
        assert_eq!(uris(&set.next(true, 9)), ["sip:b"]);
        assert_eq!(rounds(set), ["sip:c", "sip:d", "sip:z"]);
    }
}
