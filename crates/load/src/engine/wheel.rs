//! Deadlines: a hierarchical wheel that is moved as rarely as can be.
//!
//! A deadline that becomes later is left where it is: when its old time comes, it is put where it belongs
//! then. A call's deadlines are nearly always such (Timer A is half a second away, and the call is over
//! before), and so the place of a session in the slab, which the next call takes over with its old entry, is in
//! the wheel once every half second however many calls go through it.

use super::time::Time;

/// Slots of a level, as a power of two. Those of the first level are a millisecond long, those of each
/// other level as long as the whole level below.
const SLOT_BITS: u32 = 9;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 2;
const WORDS: usize = SLOTS / 64;

/// Milliseconds that the wheel reaches ahead: four minutes. What is later is looked at again then. It is so
/// short because of the entries that calls leave behind them: a callee's deadline is an hour away while it
/// waits for the BYE, and what comes early leaves the old entry where it is.
const REACH: u64 = (SLOTS as u64 - 1) << (SLOT_BITS * (LEVELS as u32 - 1));

/// Not in the wheel.
const NOWHERE: u64 = u64::MAX;

/// The deadlines of numbered things, at most one of each.
#[derive(Debug)]
pub(super) struct Wheel {
    /// The millisecond that is next to be looked at.
    position: u64,
    levels: [Level; LEVELS],
    /// By number: the millisecond at which it is in the wheel. Entries elsewhere mean nothing.
    armed: Vec<u64>,
    /// Those whose millisecond has come, last first.
    due: Vec<u32>,
}

#[derive(Debug)]
struct Level {
    slots: Vec<Vec<u32>>,
    /// One bit for each slot that is not empty.
    occupied: [u64; WORDS],
}

impl Level {
    fn new() -> Level {
        Level {
            slots: vec![Vec::new(); SLOTS],
            occupied: [0; WORDS],
        }
    }

    fn push(&mut self, slot: usize, number: u32) {
        if let Some(entries) = self.slots.get_mut(slot) {
            entries.push(number);
        }
        if let Some(word) = self.occupied.get_mut(slot / 64) {
            *word |= 1 << (slot % 64);
        }
    }

    /// Empties a slot into a list.
    fn take(&mut self, slot: usize, into: &mut Vec<u32>) {
        if let Some(entries) = self.slots.get_mut(slot) {
            into.append(entries);
        }
        if let Some(word) = self.occupied.get_mut(slot / 64) {
            *word &= !(1 << (slot % 64));
        }
    }

    /// The first occupied slot from one on.
    fn first_from(&self, slot: usize) -> Option<usize> {
        let mut word = slot / 64;
        let mut bits = self.occupied.get(word)? & (u64::MAX << (slot % 64));
        loop {
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            word += 1;
            bits = *self.occupied.get(word)?;
        }
    }
}

impl Wheel {
    /// No deadlines.
    pub(super) fn new() -> Wheel {
        Wheel {
            position: 0,
            levels: std::array::from_fn(|_| Level::new()),
            armed: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Sets a deadline, moves or removes it. It comes up at the deadline or up to a millisecond later, and
    /// perhaps earlier too, to be set again.
    pub(super) fn set(&mut self, number: u32, deadline: Time) {
        if !deadline.is_known() {
            return;
        }
        let place = number as usize;
        if self.armed.len() <= place {
            self.armed.resize(place + 1, NOWHERE);
        }
        let tick = deadline.milliseconds_up().max(self.position);
        let Some(armed) = self.armed.get_mut(place) else {
            return;
        };
        if *armed <= tick {
            return;
        }
        let tick = tick.min(self.position + REACH);
        *armed = tick;
        self.put(number, tick);
    }

    /// The next number whose time has come. It is in the wheel no more: whoever takes it sets its
    /// deadline again.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<u32> {
        let last = now.milliseconds();
        loop {
            while let Some(number) = self.due.pop() {
                let Some(armed) = self.armed.get_mut(number as usize) else {
                    continue;
                };
                // Those of the millisecond that has come are before the position.
                if *armed < self.position {
                    *armed = NOWHERE;
                    return Some(number);
                }
            }
            let next = self.next_tick()?;
            if next > last {
                // Nothing is in between.
                self.position = self.position.max(last);
                self.cascade();
                return None;
            }
            self.position = next;
            self.cascade();
            let slot = (self.position % SLOTS as u64) as usize;
            self.levels[0].take(slot, &mut self.due);
            self.due.reverse();
            self.position += 1;
            if self.position.is_multiple_of(SLOTS as u64) {
                self.cascade();
            }
        }
    }

    /// When the next number may come up; nothing comes up before.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        if !self.due.is_empty() {
            return Some(Time::START);
        }
        self.next_tick().map(Time::of_milliseconds)
    }

    /// The first millisecond at which something is in a slot, or in which a slot of a higher level begins
    /// that has something.
    fn next_tick(&self) -> Option<u64> {
        let mut first: Option<u64> = None;
        for (level, slots) in self.levels.iter().enumerate() {
            let shift = level as u32 * SLOT_BITS;
            let position = self.position >> shift;
            let slot = (position % SLOTS as u64) as usize;
            let turn = position - slot as u64;
            // Slots before the present one belong to the next turn of this level.
            let found = slots
                .first_from(slot)
                .map(|found| turn + found as u64)
                .or_else(|| {
                    slots
                        .first_from(0)
                        .map(|found| turn + (SLOTS + found) as u64)
                });
            if let Some(found) = found {
                let tick = (found << shift).max(self.position);
                first = Some(first.map_or(tick, |first| first.min(tick)));
            }
        }
        first
    }

    /// Puts a number where its millisecond is: into the lowest level whose present turn reaches so far.
    /// So nothing is ever put into the present slot of a level but the first.
    fn put(&mut self, number: u32, tick: u64) {
        for (level, slots) in self.levels.iter_mut().enumerate() {
            let shift = level as u32 * SLOT_BITS;
            let ahead = (tick >> shift) - (self.position >> shift);
            if ahead < SLOTS as u64 {
                slots.push(((tick >> shift) % SLOTS as u64) as usize, number);
                return;
            }
        }
    }

    /// Moves what is in the present slots of the higher levels to where it belongs.
    fn cascade(&mut self) {
        for level in (1..LEVELS).rev() {
            let shift = level as u32 * SLOT_BITS;
            let slot = ((self.position >> shift) % SLOTS as u64) as usize;
            let mut moved = Vec::new();
            if let Some(level) = self.levels.get_mut(level) {
                level.take(slot, &mut moved);
            }
            for number in moved {
                // An entry that an earlier deadline has left behind is dropped.
                let armed = self.armed.get(number as usize).copied();
                let here = armed.filter(|armed| armed >> shift == self.position >> shift);
                if let Some(tick) = here {
                    self.put(number, tick.max(self.position));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::of_milliseconds(milliseconds)
    }

    #[test]
    fn deadlines_come_in_order_and_never_early() {
        let mut wheel = Wheel::new();
        for (number, milliseconds) in [(0, 200_000), (1, 5), (2, 600), (3, 511), (4, 512)] {
            wheel.set(number, at(milliseconds));
        }
        let mut popped = Vec::new();
        while let Some(next) = wheel.next_timeout() {
            while let Some(number) = wheel.pop_due(next) {
                popped.push((number, next.milliseconds()));
            }
        }
        assert_eq!(popped, [(1, 5), (3, 511), (4, 512), (2, 600), (0, 200_000)]);
    }

    #[test]
    fn a_deadline_that_becomes_later_comes_up_to_be_set_again() {
        let mut wheel = Wheel::new();
        wheel.set(7, at(10));
        wheel.set(7, at(50));
        assert_eq!(wheel.pop_due(at(9)), None);
        assert_eq!(wheel.pop_due(at(10)), Some(7));
        wheel.set(7, at(50));
        wheel.set(7, at(20));
        assert_eq!(wheel.pop_due(at(49)), Some(7));
        assert_eq!(wheel.pop_due(at(100)), None);
    }

    #[test]
    fn a_deadline_far_away_is_looked_at_on_the_way() {
        let mut wheel = Wheel::new();
        wheel.set(0, at(3_600_000));
        let mut looks = Vec::new();
        while let Some(next) = wheel.next_timeout() {
            while let Some(number) = wheel.pop_due(next) {
                looks.push(next.milliseconds());
                if next < at(3_600_000) {
                    wheel.set(number, at(3_600_000));
                }
            }
        }
        assert_eq!(looks.last(), Some(&3_600_000));
        assert!(looks.len() < 20, "{looks:?}");
    }

    #[test]
    fn parts_of_a_millisecond_are_waited_for() {
        let mut wheel = Wheel::new();
        wheel.set(0, Time::START.after(Duration::from_nanos(1)));
        assert_eq!(wheel.pop_due(Time::START), None);
        assert_eq!(wheel.pop_due(at(1)), Some(0));
    }

    proptest! {
        /// Beside a list that is searched through: nothing early, nothing late, nothing lost.
        #[test]
        fn nothing_is_early_late_or_lost(
            steps in prop::collection::vec((0_u32..20, 0_u64..400_000, 0_u64..100_000), 1..200),
        ) {
            let mut wheel = Wheel::new();
            let mut deadlines = [None; 20];
            let mut now = 0;
            for (number, ahead, passes) in steps {
                let deadline = now + ahead;
                deadlines[number as usize] = Some(deadline);
                wheel.set(number, at(deadline));
                now += passes;
                while let Some(number) = wheel.pop_due(at(now)) {
                    match &mut deadlines[number as usize] {
                        Some(deadline) if *deadline <= now => deadlines[number as usize] = None,
                        Some(deadline) => wheel.set(number, at(*deadline)),
                        None => {}
                    }
                }
                for deadline in deadlines.iter().flatten() {
                    prop_assert!(*deadline > now, "{deadline} at {now}");
                }
                let first = deadlines.iter().flatten().min();
                if let Some(first) = first {
                    let next = wheel.next_timeout().expect("something is to come");
                    prop_assert!(next.milliseconds() <= *first);
                }
            }
        }
    }
}
