//! Core: the deadlines of many numbered things in a hierarchical timer wheel. Setting, moving and removing
//! one takes the same few steps however many there are.
//!
//! Slots hold deadlines in no order; those of the slot that is next are sorted. So the earliest deadline is
//! exact, and those that are due come in order of time, and of index when they are due at the same time.
//!
//! The wheel has no clock. A time is whatever implements [`Timestamp`], such as an [`Instant`].
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::time::Instant;

/// What a deadline belongs to: its number in a table of the user's. The wheel takes memory for all numbers up to
/// the greatest one.
pub type Index = u32;

/// A point in time.
pub trait Timestamp: Copy + Ord {
    /// Whole milliseconds since `earlier`, rounded down; 0 when that is later.
    fn milliseconds_since(self, earlier: Self) -> u64;
}

impl Timestamp for Instant {
    fn milliseconds_since(self, earlier: Instant) -> u64 {
        let since = self.saturating_duration_since(earlier);
        let whole = since.as_secs().saturating_mul(1000);
        whole.saturating_add(u64::from(since.subsec_millis()))
    }
}

/// Slots of a level, as a power of two.
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;

/// Each level's slots are as long as the whole level below it, those of the first a millisecond.
const LEVELS: usize = 7;

/// The last millisecond that has a slot, after 139 years. What comes later is treated as if it came
/// then, until it is in front, where it is sorted.
const LAST_TICK: u64 = (1 << (SLOT_BITS * LEVELS as u32)) - 1;

/// The end of a list.
const NONE: Index = Index::MAX;

/// Values of [`Node::slot`] that are no slots.
const NOWHERE: u16 = u16::MAX;
const IN_FRONT: u16 = u16::MAX - 1;

/// Deadlines, at most one for each index.
#[derive(Debug)]
pub struct TimerWheel<T = Instant> {
    /// What milliseconds are counted from: the first deadline.
    origin: Option<T>,
    /// Everything before this millisecond is in `front`, everything else in a slot.
    position: u64,
    /// What comes next, sorted; empty only when there is nothing at all.
    front: BTreeSet<(T, Index)>,
    /// The first index of each slot's list.
    slots: [Index; SLOTS * LEVELS],
    /// One bit for each slot of a level that is not empty.
    occupied: [u64; LEVELS],
    /// By index.
    nodes: Vec<Node<T>>,
    /// How many deadlines are in slots.
    in_slots: usize,
}

/// A deadline, and its neighbours in the list of its slot.
#[derive(Clone, Copy, Debug)]
struct Node<T> {
    /// Means nothing where the slot is [`NOWHERE`].
    deadline: T,
    next: Index,
    previous: Index,
    slot: u16,
}

impl<T: Timestamp> TimerWheel<T> {
    /// No deadlines.
    pub fn new() -> TimerWheel<T> {
        TimerWheel {
            origin: None,
            position: 0,
            front: BTreeSet::new(),
            slots: [NONE; SLOTS * LEVELS],
            occupied: [0; LEVELS],
            nodes: Vec::new(),
            in_slots: 0,
        }
    }

    /// The deadline of an index.
    pub fn get(&self, index: Index) -> Option<T> {
        let node = self.nodes.get(index as usize)?;
        (node.slot != NOWHERE).then_some(node.deadline)
    }

    /// Sets, moves or removes the deadline of an index.
    pub fn set(&mut self, index: Index, deadline: Option<T>) {
        if self.get(index) == deadline {
            return;
        }
        self.remove(index);
        if let Some(deadline) = deadline {
            if self.nodes.len() <= index as usize {
                let unused = Node {
                    deadline,
                    next: NONE,
                    previous: NONE,
                    slot: NOWHERE,
                };
                self.nodes.resize(index as usize + 1, unused);
            }
            self.insert(index, deadline);
        }
        self.fill_front();
    }

    /// Sets a deadline, unless an earlier one is set: whoever takes that out sets what holds then. Deadlines that
    /// move to later all the time cost nothing that way.
    pub fn set_if_earlier(&mut self, index: Index, deadline: T) {
        if self.get(index).is_none_or(|set| deadline < set) {
            self.set(index, Some(deadline));
        }
    }

    /// The earliest deadline.
    pub fn first(&self) -> Option<T> {
        self.front.first().map(|(deadline, _)| *deadline)
    }

    /// Takes out the earliest deadline, if it has come.
    pub fn pop_due(&mut self, now: T) -> Option<Index> {
        let (deadline, index) = *self.front.first()?;
        if deadline > now {
            return None;
        }
        self.remove(index);
        self.fill_front();
        Some(index)
    }

    fn insert(&mut self, index: Index, deadline: T) {
        let tick = self.tick(deadline);
        let (level, slot) = self.slot_of(tick);
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return;
        };
        node.deadline = deadline;
        if tick < self.position {
            node.slot = IN_FRONT;
            self.front.insert((deadline, index));
            return;
        }
        let number = level * SLOTS + slot;
        let Some(first) = self.slots.get_mut(number) else {
            return;
        };
        let next = std::mem::replace(first, index);
        node.slot = number as u16;
        node.previous = NONE;
        node.next = next;
        if let Some(next) = self.nodes.get_mut(next as usize) {
            next.previous = index;
        }
        if let Some(occupied) = self.occupied.get_mut(level) {
            *occupied |= 1 << slot;
        }
        self.in_slots += 1;
    }

    fn remove(&mut self, index: Index) {
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return;
        };
        let Node {
            deadline,
            next,
            previous,
            slot,
        } = *node;
        node.slot = NOWHERE;
        match slot {
            NOWHERE => {}
            IN_FRONT => {
                self.front.remove(&(deadline, index));
            }
            slot => {
                self.in_slots -= 1;
                if let Some(next) = self.nodes.get_mut(next as usize) {
                    next.previous = previous;
                }
                if let Some(previous) = self.nodes.get_mut(previous as usize) {
                    previous.next = next;
                    return;
                }
                let number = usize::from(slot);
                if let Some(first) = self.slots.get_mut(number) {
                    *first = next;
                }
                if next == NONE
                    && let Some(occupied) = self.occupied.get_mut(number / SLOTS)
                {
                    *occupied &= !(1 << (number % SLOTS));
                }
            }
        }
    }

    /// Sorts the next slot's deadlines into the front when that has become empty.
    fn fill_front(&mut self) {
        while self.front.is_empty() && self.in_slots > 0 {
            let Some((level, slot)) = self.first_occupied() else {
                return;
            };
            let shift = level as u32 * SLOT_BITS;
            let above = self.position >> (shift + SLOT_BITS) << (shift + SLOT_BITS);
            let start = above | (slot as u64) << shift;
            if level == 0 {
                // All of it comes before the position then, that is into the front.
                self.advance(start + 1);
                self.reinsert(slot);
            } else {
                self.advance(start);
            }
        }
    }

    /// The occupied slot whose time comes first. The slots of a level are all later than those of
    /// the level below.
    fn first_occupied(&self) -> Option<(usize, usize)> {
        self.occupied
            .iter()
            .enumerate()
            .find(|(_, occupied)| **occupied != 0)
            .map(|(level, occupied)| (level, occupied.trailing_zeros() as usize))
    }

    /// Moves the position on, over empty slots only. What comes into reach of a lower level goes
    /// there.
    fn advance(&mut self, position: u64) {
        let before = std::mem::replace(&mut self.position, position);
        for level in (1..LEVELS).rev() {
            let shift = level as u32 * SLOT_BITS;
            if before >> shift != position >> shift {
                let slot = (position >> shift) as usize % SLOTS;
                self.reinsert(level * SLOTS + slot);
            }
        }
    }

    /// Puts all deadlines of a slot where they belong now.
    fn reinsert(&mut self, number: usize) {
        let Some(first) = self.slots.get_mut(number) else {
            return;
        };
        let mut index = std::mem::replace(first, NONE);
        if let Some(occupied) = self.occupied.get_mut(number / SLOTS) {
            *occupied &= !(1 << (number % SLOTS));
        }
        while let Some(node) = self.nodes.get(index as usize) {
            let Node { deadline, next, .. } = *node;
            self.in_slots -= 1;
            self.insert(index, deadline);
            index = next;
        }
    }

    /// Level and slot of a millisecond that is not before the position: the level is that of the
    /// highest digit in which both differ.
    fn slot_of(&self, tick: u64) -> (usize, usize) {
        let level = match tick ^ self.position {
            0 => 0,
            different => (different.ilog2() / SLOT_BITS) as usize,
        };
        let slot = tick >> (level as u32 * SLOT_BITS);
        (level, slot as usize % SLOTS)
    }

    /// Milliseconds from the origin, rounded down.
    fn tick(&mut self, deadline: T) -> u64 {
        let origin = *self.origin.get_or_insert(deadline);
        deadline.milliseconds_since(origin).min(LAST_TICK)
    }
}

impl<T: Timestamp> Default for TimerWheel<T> {
    fn default() -> Self {
        TimerWheel::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// What the wheel should be like: everything sorted.
    #[derive(Default)]
    struct Model(BTreeMap<Index, Instant>);

    impl Model {
        fn first(&self) -> Option<(Instant, Index)> {
            self.0
                .iter()
                .map(|(index, deadline)| (*deadline, *index))
                .min()
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Set(Index, Duration),
        Remove(Index),
        Pass(Duration),
    }

    /// From less than a slot to years.
    fn durations() -> impl Strategy<Value = Duration> {
        (0..38_u32, 0..1_000_000_u64)
            .prop_map(|(bits, part)| Duration::from_micros((part << bits) >> 12))
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..40_u32, durations()).prop_map(|(index, after)| Step::Set(index, after)),
            1 => (0..40_u32).prop_map(Step::Remove),
            2 => durations().prop_map(Step::Pass),
        ]
    }

    proptest! {
        #[test]
        fn is_like_a_sorted_list(steps in vec(steps(), 0..300)) {
            let mut now = Instant::now();
            let mut wheel = TimerWheel::new();
            let mut model = Model::default();
            for step in steps {
                match step {
                    Step::Set(index, after) => {
                        wheel.set(index, Some(now + after));
                        model.0.insert(index, now + after);
                    }
                    Step::Remove(index) => {
                        wheel.set(index, None);
                        model.0.remove(&index);
                    }
                    Step::Pass(time) => {
                        now += time;
                        while let Some((deadline, index)) = model.first()
                            && deadline <= now
                        {
                            prop_assert_eq!(wheel.pop_due(now), Some(index));
                            prop_assert_eq!(wheel.get(index), None);
                            model.0.remove(&index);
                        }
                        prop_assert_eq!(wheel.pop_due(now), None);
                    }
                }
                prop_assert_eq!(wheel.first(), model.first().map(|(deadline, _)| deadline));
            }
        }
    }

    #[test]
    fn what_is_before_the_first_deadline_ever_set_comes_before_it() {
        let later = Instant::now() + Duration::from_secs(100);
        let mut wheel = TimerWheel::new();
        wheel.set(7, Some(later));
        wheel.set(8, Some(later - Duration::from_secs(50)));
        assert_eq!(wheel.pop_due(later), Some(8));
        assert_eq!(wheel.pop_due(later), Some(7));
        assert_eq!(wheel.first(), None);
    }

    #[test]
    fn a_later_deadline_leaves_the_earlier_one() {
        let at = Instant::now();
        let mut wheel = TimerWheel::new();
        for after in [2, 3, 1, 2] {
            wheel.set_if_earlier(0, at + Duration::from_secs(after));
        }
        assert_eq!(wheel.first(), Some(at + Duration::from_secs(1)));
        assert_eq!(wheel.pop_due(at + Duration::from_secs(1)), Some(0));
        assert_eq!(wheel.first(), None);
    }

    #[test]
    fn the_same_time_comes_in_the_order_of_indexes() {
        let at = Instant::now();
        let mut wheel = TimerWheel::new();
        for index in [5, 3, 9, 1] {
            wheel.set(index, Some(at));
        }
        let order: Vec<_> = std::iter::from_fn(|| wheel.pop_due(at)).collect();
        assert_eq!(order, [1, 3, 5, 9]);
    }
}
