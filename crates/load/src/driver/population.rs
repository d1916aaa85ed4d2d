//! The users of a worker, and the order in which they take tasks.

use super::config::GeneratorConfig;
use super::plan::{Peers, Task, TaskKind};
use crate::arrivals::Share;
use crate::engine::UserRange;

/// The users of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Population {
    pub(super) callers: UserRange,
    pub(super) callees: UserRange,
    /// Callers of all workers: user i calls user n + i.
    pub(super) all_callers: u32,
    pub(super) share: Share,
}

impl Population {
    /// Every n-th user of each side.
    pub(super) fn of_worker(config: &GeneratorConfig, share: Share) -> Population {
        let range = |first: u32| UserRange {
            first: first + share.worker,
            count: share.of(config.users.into()) as u32,
            step: share.workers,
        };
        let none = UserRange {
            count: 0,
            ..range(1)
        };
        Population {
            callers: match config.role.has_callers() {
                true => range(1),
                false => none,
            },
            callees: match config.role.has_callees() {
                true => range(1 + config.users),
                false => none,
            },
            all_callers: config.users,
            share,
        }
    }

    /// The ranges that have users.
    pub(super) fn ranges(&self) -> Vec<UserRange> {
        let both = [self.callers, self.callees];
        both.into_iter().filter(|range| range.count > 0).collect()
    }
}

/// The user at a place in several ranges, one behind the other.
pub(super) fn user_at(ranges: &[UserRange], mut place: u32) -> Option<u32> {
    for range in ranges {
        if place < range.count {
            return Some(range.first + range.step * place);
        }
        place -= range.count;
    }
    None
}

/// Takes callers and peers in turn, and tasks as often as their shares say.
#[derive(Debug)]
pub(super) struct Rotation {
    population: Population,
    /// How many attempts there were.
    taken: u64,
    /// By task, its current weight.
    weights: Vec<f64>,
}

impl Rotation {
    pub(super) fn new(population: Population, tasks: usize) -> Rotation {
        Rotation {
            population,
            taken: 0,
            weights: vec![0.0; tasks],
        }
    }

    /// The next task with its caller and peer.
    pub(super) fn next(&mut self, tasks: &[Task]) -> Option<(TaskKind, u32, u32)> {
        let task = match tasks {
            [] => return None,
            [alone] => alone,
            several => several.get(self.choose(several))?,
        };
        let Population {
            callers,
            all_callers,
            share,
            ..
        } = self.population;
        if callers.count == 0 {
            return None;
        }
        let place = (self.taken % u64::from(callers.count)) as u32;
        let user = callers.first + callers.step * place;
        let peer = match task.peers {
            Peers::Opposite => user + all_callers,
            Peers::Range { first, count } => {
                let turn = self.taken * u64::from(share.workers) + u64::from(share.worker);
                first + (turn % u64::from(count.max(1))) as u32
            }
        };
        self.taken += 1;
        Some((task.kind, user, peer))
    }

    /// Smooth weighted round robin, as nginx has it: each task comes as evenly as its share allows.
    fn choose(&mut self, tasks: &[Task]) -> usize {
        let all: f64 = tasks.iter().map(|task| task.share).sum();
        let mut chosen = 0;
        for (index, task) in tasks.iter().enumerate() {
            self.weights[index] += task.share;
            if self.weights[index] > self.weights[chosen] {
                chosen = index;
            }
        }
        self.weights[chosen] -= all;
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::ScriptId;

    fn task(script: u16, share: f64, peers: Peers) -> Task {
        Task {
            kind: TaskKind::Script(ScriptId(script)),
            share,
            peers,
        }
    }

    #[test]
    fn tasks_come_by_their_shares_and_users_in_turn() {
        let config = GeneratorConfig {
            users: 5,
            ..GeneratorConfig::default()
        };
        let share = Share {
            worker: 1,
            workers: 2,
        };
        let population = Population::of_worker(&config, share);
        assert_eq!((population.callers.first, population.callers.count), (2, 2));
        let range = Peers::Range {
            first: 100,
            count: 3,
        };
        let tasks = [task(0, 3.0, Peers::Opposite), task(1, 1.0, range)];
        let mut rotation = Rotation::new(population, tasks.len());
        let taken: Vec<_> = (0..8)
            .filter_map(|_| rotation.next(&tasks))
            .map(|(kind, user, peer)| (kind == tasks[0].kind, user, peer))
            .collect();
        let second: Vec<_> = taken.iter().filter(|(is_first, ..)| !is_first).collect();
        assert_eq!(second.len(), 2);
        for (place, (is_first, user, peer)) in taken.iter().enumerate() {
            assert_eq!(*user, [2, 4][place % 2]);
            match is_first {
                true => assert_eq!(*peer, user + 5),
                false => assert!((100..103).contains(peer)),
            }
        }
        assert_eq!(rotation.next(&[]), None);
    }

    #[test]
    fn users_of_several_ranges_have_places() {
        let ranges = [UserRange::new(1, 2), UserRange::new(10, 1)];
        let users: Vec<_> = (0..4).map(|place| user_at(&ranges, place)).collect();
        assert_eq!(users, [Some(1), Some(2), Some(10), None]);
    }
}
