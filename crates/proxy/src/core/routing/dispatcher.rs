//! Which member of a group gets a request, and which members answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::by_weight;

use super::group::{Group, Member, MemberName};
use super::settings::Routing;
use super::static_route::NextHopUri;

/// What became of a request or probe to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has answered.
    Answered,
    /// It has not, or has answered 503, perhaps with a Retry-After, or no connection to it came about.
    Failed { retry_after: Option<Duration> },
}

/// Whether a member of a group gets requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It does.
    Up,
    /// It does where no other does: until it answers a probe, or without probes until then.
    Down {
        /// When it is tried again as the others are.
        until: Option<Instant>,
    },
}

/// What is known of a member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberHealth {
    /// The group.
    pub group: Arc<str>,
    /// The member.
    pub uri: Arc<str>,
    /// Whether it gets requests.
    pub state: MemberState,
    /// How many times it was the first choice for a request.
    pub chosen: u64,
    /// How many requests and probes have failed there.
    pub failed: u64,
}

/// The groups and what is known of their members.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    groups: BTreeMap<Arc<str>, Arc<Members>>,
    health: BTreeMap<MemberName, Health>,
    rng: ChaCha12Rng,
}

/// A group with its members as next hops.
#[derive(Debug)]
struct Members {
    settings: Group,
    hops: Vec<NextHopUri>,
}

impl Members {
    fn names(&self) -> impl Iterator<Item = &MemberName> {
        self.hops.iter().filter_map(|hop| hop.member.as_ref())
    }
}

#[derive(Clone, Copy, Debug)]
struct Health {
    state: MemberState,
    /// Failures since it has answered last.
    failures: u32,
    chosen: u64,
    failed: u64,
}

impl Default for Health {
    fn default() -> Health {
        Health {
            state: MemberState::Up,
            failures: 0,
            chosen: 0,
            failed: 0,
        }
    }
}

impl Dispatcher {
    /// No groups.
    pub(crate) fn new(rng: ChaCha12Rng) -> Dispatcher {
        Dispatcher {
            groups: BTreeMap::new(),
            health: BTreeMap::new(),
            rng,
        }
    }

    /// Takes the groups of new settings. What is known of members that stay is kept.
    pub(crate) fn set_groups(&mut self, routing: &Routing) {
        let group = |(name, settings): (&String, &Group)| {
            let group: Arc<str> = name.as_str().into();
            let hop = |member: &Member| {
                let uri: Arc<str> = member.uri.as_str().into();
                NextHopUri {
                    uri: Arc::clone(&uri),
                    member: Some(MemberName {
                        group: Arc::clone(&group),
                        uri,
                    }),
                    addresses: member.addresses.as_slice().into(),
                }
            };
            let members = Members {
                settings: settings.clone(),
                hops: settings.members.iter().map(hop).collect(),
            };
            (group.clone(), Arc::new(members))
        };
        self.groups = routing.groups.iter().map(group).collect();
        let mut old = std::mem::take(&mut self.health);
        let names = self.groups.values().flat_map(|group| group.names());
        self.health = names
            .map(|name| (name.clone(), old.remove(name).unwrap_or_default()))
            .collect();
        for (name, health) in &mut self.health {
            health.state = believed(self.groups.get(&name.group), health.state);
        }
    }

    /// The settings of a group.
    pub(crate) fn settings(&self, group: &str) -> Option<&Group> {
        self.groups.get(group).map(|group| &group.settings)
    }

    /// The members of all groups that are probed.
    pub(crate) fn probed(&self) -> impl Iterator<Item = &MemberName> {
        self.groups
            .values()
            .filter(|group| group.settings.probing.is_some())
            .flat_map(|group| group.names())
    }

    /// A member as a next hop.
    pub(crate) fn next_hop(&self, name: &MemberName) -> Option<NextHopUri> {
        let hops = &self.groups.get(&name.group)?.hops;
        let is_it = |hop: &&NextHopUri| hop.member.as_ref() == Some(name);
        hops.iter().find(is_it).cloned()
    }

    /// The members of a group in the order in which a request tries them: by priority, drawn by weight
    /// among equals, those that are down behind all others. With a `choice` the order follows from that
    /// number instead of being drawn.
    pub(crate) fn order(
        &mut self,
        now: Instant,
        group: &str,
        choice: Option<u64>,
    ) -> Vec<NextHopUri> {
        let Some(group) = self.groups.get(group).cloned() else {
            return Vec::new();
        };
        let mut members: Vec<_> = group.settings.members.iter().zip(&group.hops).collect();
        members.sort_by_key(|(member, _)| member.priority);
        let mut fixed;
        let rng = match choice {
            Some(choice) => {
                fixed = ChaCha12Rng::seed_from_u64(choice);
                &mut fixed
            }
            None => &mut self.rng,
        };
        let mut ordered = Vec::with_capacity(members.len());
        for equals in members.chunk_by(|one, other| one.0.priority == other.0.priority) {
            let drawn = by_weight(equals.to_vec(), |(member, _)| member.weight, rng);
            ordered.extend(drawn.into_iter().map(|(_, hop)| hop.clone()));
        }
        let is_up = |hop: &NextHopUri| {
            hop.member
                .as_ref()
                .is_some_and(|name| self.is_up(now, name))
        };
        ordered.sort_by_key(|hop| !is_up(hop));
        let first = ordered.first().and_then(|hop| hop.member.as_ref());
        if let Some(health) = first.and_then(|name| self.health.get_mut(name)) {
            health.chosen += 1;
        }
        ordered
    }

    /// Takes in what became of a request or probe. Returns the new state of a member that has gone up
    /// or down.
    pub(crate) fn record(
        &mut self,
        now: Instant,
        name: &MemberName,
        outcome: Outcome,
    ) -> Option<MemberState> {
        let settings = &self.groups.get(&name.group)?.settings;
        let health = self.health.get_mut(name)?;
        match outcome {
            Outcome::Answered => {
                health.failures = 0;
                if health.state == MemberState::Up {
                    return None;
                }
                health.state = MemberState::Up;
            }
            Outcome::Failed { retry_after } => {
                health.failures = health.failures.saturating_add(1);
                health.failed += 1;
                if health.failures < settings.failures {
                    return None;
                }
                let pause = settings.retry_after.max(retry_after.unwrap_or_default());
                let until = match settings.probing {
                    Some(_) => None,
                    None => now.checked_add(pause),
                };
                let was_up = is_up(now, health.state);
                health.state = MemberState::Down { until };
                if !was_up {
                    return None;
                }
            }
        }
        Some(health.state)
    }

    /// Takes over what another core has found out about a member.
    pub(crate) fn set_state(&mut self, group: &str, uri: &str, state: MemberState) {
        let name = MemberName {
            group: group.into(),
            uri: uri.into(),
        };
        let state = believed(self.groups.get(&name.group), state);
        if let Some(health) = self.health.get_mut(&name)
            && health.state != state
        {
            health.state = state;
            health.failures = 0;
        }
    }

    /// What is known of all members.
    pub(crate) fn health(&self) -> impl Iterator<Item = MemberHealth> {
        self.health.iter().map(|(name, health)| MemberHealth {
            group: Arc::clone(&name.group),
            uri: Arc::clone(&name.uri),
            state: health.state,
            chosen: health.chosen,
            failed: health.failed,
        })
    }

    fn is_up(&self, now: Instant, name: &MemberName) -> bool {
        self.health
            .get(name)
            .is_some_and(|health| is_up(now, health.state))
    }
}

fn is_up(now: Instant, state: MemberState) -> bool {
    match state {
        MemberState::Up => true,
        MemberState::Down { until } => until.is_some_and(|until| until <= now),
    }
}

/// A state, unless only a probe would end it and there are none any more: settings have changed since.
fn believed(group: Option<&Arc<Members>>, state: MemberState) -> MemberState {
    let is_probed = group.is_some_and(|group| group.settings.probing.is_some());
    match state {
        MemberState::Down { until: None } if !is_probed => MemberState::Up,
        state => state,
    }
}

#[cfg(test)]
mod tests {
    use super::super::group::Probing;
    use super::*;

    const FAILED: Outcome = Outcome::Failed { retry_after: None };

    fn group() -> Group {
        let member = |uri: &str, priority, weight| Member {
            priority,
            weight,
            ..Member::new(uri)
        };
        Group {
            members: vec![
                member("sip:spare", 2, 1),
                member("sip:small", 1, 100),
                member("sip:large", 1, 300),
            ],
            ..Group::default()
        }
    }

    fn dispatcher(group: Group) -> Dispatcher {
        let mut dispatcher = Dispatcher::new(ChaCha12Rng::seed_from_u64(1));
        let routing = Routing {
            groups: BTreeMap::from([("g".to_owned(), group)]),
            ..Routing::default()
        };
        dispatcher.set_groups(&routing);
        dispatcher
    }

    fn name(uri: &str) -> MemberName {
        MemberName {
            group: "g".into(),
            uri: uri.into(),
        }
    }

    #[test]
    fn without_probes_nobody_waits_for_one() {
        let probed = Group {
            probing: Some(Probing::default()),
            ..group()
        };
        let down = MemberState::Down { until: None };
        let mut dispatcher = dispatcher(probed);
        dispatcher.set_state("g", "sip:small", down);
        let states = |dispatcher: &Dispatcher| -> Vec<MemberState> {
            let down = dispatcher.health().map(|health| health.state);
            down.filter(|state| *state != MemberState::Up).collect()
        };
        assert_eq!(states(&dispatcher), [down]);
        dispatcher.set_groups(&Routing {
            groups: BTreeMap::from([("g".to_owned(), group())]),
            ..Routing::default()
        });
        assert_eq!(states(&dispatcher), []);
        // What another worker had seen before it knew of that.
        dispatcher.set_state("g", "sip:small", down);
        assert_eq!(states(&dispatcher), []);
    }

    fn order(dispatcher: &mut Dispatcher, now: Instant) -> Vec<String> {
        let names = dispatcher.order(now, "g", None);
        names.iter().map(|name| name.uri.to_string()).collect()
    }

    #[test]
    fn requests_are_shared_by_weight_and_the_spare_comes_last() {
        let now = Instant::now();
        let mut dispatcher = dispatcher(group());
        for _ in 0..4_000 {
            let order = order(&mut dispatcher, now);
            assert_eq!(order[2], "sip:spare");
        }
        let chosen: Vec<u64> = dispatcher.health().map(|health| health.chosen).collect();
        // Of large, small and spare.
        assert!((2_850..3_150).contains(&chosen[0]), "{chosen:?}");
        assert_eq!((chosen[0] + chosen[1], chosen[2]), (4_000, 0));
    }

    #[test]
    fn a_choice_is_the_same_every_time_and_spreads() {
        let now = Instant::now();
        let mut dispatcher = dispatcher(group());
        let first = |dispatcher: &mut Dispatcher, choice| {
            dispatcher.order(now, "g", Some(choice))[0].uri.to_string()
        };
        let mut larges = 0;
        for choice in 0..1_000 {
            let one = first(&mut dispatcher, choice);
            assert_eq!(one, first(&mut dispatcher, choice));
            larges += u32::from(one == "sip:large");
        }
        assert!((680..820).contains(&larges), "{larges}");
    }

    #[test]
    fn who_fails_is_tried_last_for_a_while() {
        let now = Instant::now();
        let mut dispatcher = dispatcher(group());
        let down = dispatcher.record(now, &name("sip:large"), FAILED);
        let until = Some(now + Duration::from_secs(30));
        assert_eq!(down, Some(MemberState::Down { until }));
        assert_eq!(
            order(&mut dispatcher, now),
            ["sip:small", "sip:spare", "sip:large"]
        );
        // It fails again when it is tried nonetheless: that is no news.
        assert_eq!(dispatcher.record(now, &name("sip:large"), FAILED), None);
        let retry_after = Some(Duration::from_secs(60));
        dispatcher.record(now, &name("sip:small"), Outcome::Failed { retry_after });
        assert_eq!(order(&mut dispatcher, now)[0], "sip:spare");
        let later = now + Duration::from_secs(31);
        assert_eq!(order(&mut dispatcher, later)[0], "sip:large");
        assert_eq!(
            dispatcher.record(later, &name("sip:large"), Outcome::Answered),
            Some(MemberState::Up)
        );
        assert_eq!(order(&mut dispatcher, later)[2], "sip:small");
    }

    #[test]
    fn who_is_probed_is_down_after_some_failures_until_it_answers() {
        let now = Instant::now();
        let mut dispatcher = dispatcher(Group {
            probing: Some(Probing::default()),
            failures: 3,
            ..group()
        });
        assert_eq!(dispatcher.probed().count(), 3);
        let large = name("sip:large");
        for expected in [None, None, Some(MemberState::Down { until: None }), None] {
            assert_eq!(dispatcher.record(now, &large, FAILED), expected);
        }
        let later = now + Duration::from_secs(100_000);
        assert_eq!(order(&mut dispatcher, later)[2], "sip:large");
        assert_eq!(
            dispatcher.record(later, &large, Outcome::Answered),
            Some(MemberState::Up)
        );
        assert_eq!(dispatcher.record(later, &large, FAILED), None);
        assert_eq!(dispatcher.record(later, &large, Outcome::Answered), None);
        // A failure long ago does not count any more.
        for _ in 0..2 {
            assert_eq!(dispatcher.record(later, &large, FAILED), None);
        }
    }

    #[test]
    fn new_settings_keep_what_is_known_of_those_that_stay() {
        let now = Instant::now();
        let mut dispatcher = dispatcher(group());
        dispatcher.record(now, &name("sip:large"), FAILED);
        let mut changed = group();
        changed.members.remove(1);
        changed.members.push(Member::new("sip:new"));
        dispatcher.set_groups(&Routing {
            groups: BTreeMap::from([("g".to_owned(), changed)]),
            ..Routing::default()
        });
        assert_eq!(
            order(&mut dispatcher, now),
            ["sip:new", "sip:spare", "sip:large"]
        );
        dispatcher.set_groups(&Routing::default());
        assert_eq!(order(&mut dispatcher, now), Vec::<String>::new());
        assert_eq!(dispatcher.record(now, &name("sip:large"), FAILED), None);
        assert_eq!(dispatcher.health().count(), 0);
    }

    #[test]
    fn what_another_core_knows_is_taken_over() {
        let now = Instant::now();
        let mut dispatcher = dispatcher(Group {
            probing: Some(Probing::default()),
            ..group()
        });
        dispatcher.set_state("g", "sip:large", MemberState::Down { until: None });
        assert_eq!(order(&mut dispatcher, now)[2], "sip:large");
        dispatcher.set_state("g", "sip:large", MemberState::Up);
        assert_eq!(order(&mut dispatcher, now)[2], "sip:spare");
    }
}
