//! The exchanges that are open: found by Call-ID, closed when nothing more is to be expected.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use ahash::RandomState;
use hashbrown::{HashMap, HashTable};
use lru::LruCache;
use slab::Slab;

use super::exchange::{Exchange, LegKeys, text};
use crate::Time;

/// The open exchanges. Time is that of the messages.
#[derive(Debug)]
pub(crate) struct OpenExchanges {
    exchanges: Slab<Open>,
    by_call_id: HashTable<Place>,
    /// Where Call-IDs were found last: exchange and leg. Most messages come a moment after another one of their call.
    found_last: [(usize, usize); FOUND_LAST],
    /// Calls that a B2BUA may be about to carry on, by what both legs have in common.
    by_leg: HashMap<NonZeroU64, usize, RandomState>,
    hasher: RandomState,
    agenda: Agenda,
    /// Exchanges whose request was challenged, and not repeated yet. They wait for any time, but not in any number.
    challenged: LruCache<usize, (), RandomState>,
    most_challenged: usize,
    most: usize,
    /// Messages whose exchange was not opened because too many were.
    pub(crate) refused: u64,
    /// The most that were open at a time.
    pub(crate) most_open: usize,
}

#[derive(Debug)]
struct Open {
    /// In a place of its own: a table of so large things would be copied again and again as it grows.
    exchange: Box<Exchange>,
    /// When the agenda has it, if it has.
    due: Option<Due>,
    /// Whether it is among the challenged ones.
    is_challenged: bool,
}

/// Where a Call-ID is: which exchange, and which of its legs.
#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u64,
    exchange: usize,
    leg: usize,
}

/// How many Call-IDs it is remembered of where they were found.
const FOUND_LAST: usize = 64;

/// How many challenged requests wait to be repeated at most. Beyond it the oldest counts as refused, so that a scan which nobody
/// continues takes no more memory than this.
const MOST_CHALLENGED: usize = 10_000;

impl OpenExchanges {
    pub(crate) fn new(hasher: RandomState, most: usize) -> OpenExchanges {
        OpenExchanges {
            exchanges: Slab::new(),
            by_call_id: HashTable::new(),
            found_last: [(0, 0); FOUND_LAST],
            by_leg: HashMap::with_hasher(hasher.clone()),
            challenged: LruCache::unbounded_with_hasher(hasher.clone()),
            hasher,
            agenda: Agenda::default(),
            // They leave room for others.
            most_challenged: MOST_CHALLENGED.min(most / 4),
            most,
            refused: 0,
            most_open: 0,
        }
    }

    /// The exchange of a Call-ID, and which of its legs that is.
    pub(crate) fn find(&mut self, call_id: &[u8]) -> Option<(usize, usize)> {
        let slot = slot(call_id);
        let (exchange, leg) = self.found_last[slot];
        // A Call-ID is in one place only: where it is, there is no other to look for.
        if self.is_at(exchange, leg, call_id) {
            return Some((exchange, leg));
        }
        let hash = self.hasher.hash_one(call_id);
        let is_wanted =
            |place: &Place| place.hash == hash && self.is_at(place.exchange, place.leg, call_id);
        let place = self.by_call_id.find(hash, is_wanted)?;
        let found = (place.exchange, place.leg);
        self.found_last[slot] = found;
        Some(found)
    }

    /// Whether this leg of an exchange has this Call-ID.
    #[inline]
    fn is_at(&self, exchange: usize, leg: usize, call_id: &[u8]) -> bool {
        self.exchanges.get(exchange).is_some_and(|open| {
            open.exchange.call_ids.get(leg).map(|id| id.as_bytes()) == Some(call_id)
        })
    }

    /// Opens an exchange; `None` when too many are open.
    pub(crate) fn open(&mut self, exchange: Exchange) -> Option<usize> {
        if self.exchanges.len() >= self.most {
            self.refused += 1;
            return None;
        }
        let hash = self.hasher.hash_one(exchange.call_ids[0].as_bytes());
        let exchange = Box::new(exchange);
        let key = self.exchanges.insert(Open {
            exchange,
            due: None,
            is_challenged: false,
        });
        self.insert_place(hash, key, 0);
        self.most_open = self.most_open.max(self.exchanges.len());
        Some(key)
    }

    /// Joins a further Call-ID to an exchange: another leg of the same call. Returns which leg it is.
    pub(crate) fn join(&mut self, key: usize, call_id: &[u8]) -> Option<usize> {
        const MOST_LEGS: usize = 8;
        let hash = self.hasher.hash_one(call_id);
        let exchange = &mut self.exchanges.get_mut(key)?.exchange;
        if exchange.call_ids.len() >= MOST_LEGS {
            return None;
        }
        exchange.call_ids.push(text(call_id));
        let leg = exchange.call_ids.len() - 1;
        self.insert_place(hash, key, leg);
        Some(leg)
    }

    fn insert_place(&mut self, hash: u64, exchange: usize, leg: usize) {
        let place = Place {
            hash,
            exchange,
            leg,
        };
        self.by_call_id
            .insert_unique(hash, place, |place| place.hash);
    }

    pub(crate) fn get(&self, key: usize) -> Option<&Exchange> {
        self.exchanges.get(key).map(|open| &*open.exchange)
    }

    pub(crate) fn get_mut(&mut self, key: usize) -> Option<&mut Exchange> {
        self.exchanges.get_mut(key).map(|open| &mut *open.exchange)
    }

    /// Remembers a call as one that a B2BUA may carry on.
    pub(crate) fn offer_leg(&mut self, leg_keys: LegKeys, key: usize) {
        for leg_key in leg_keys.into_iter().flatten() {
            self.by_leg.insert(leg_key, key);
        }
        if let Some(open) = self.exchanges.get_mut(key) {
            open.exchange.leg_keys = leg_keys;
        }
    }

    /// The call that another one may be a further leg of.
    pub(crate) fn offered_leg(&self, leg_key: NonZeroU64) -> Option<usize> {
        self.by_leg.get(&leg_key).copied()
    }

    /// Notes when to look at an exchange again.
    pub(crate) fn schedule(&mut self, key: usize) {
        let Some(open) = self.exchanges.get_mut(key) else {
            return;
        };
        let is_challenged = open.exchange.is_challenged();
        if is_challenged != open.is_challenged {
            open.is_challenged = is_challenged;
            match is_challenged {
                true => self.challenged.put(key, ()),
                false => self.challenged.pop(&key),
            };
        }
        let Some(idle_timeout) = open.exchange.idle_timeout_seconds() else {
            return;
        };
        let due = self
            .agenda
            .nearest(second(open.exchange.latest) + idle_timeout + 1);
        // An entry that comes too early is moved when it comes; one that would come too late is of no use. Where nothing more
        // is expected it is moved now, so that calls end in the order in which they ended.
        let is_over = open.exchange.is_over();
        if open
            .due
            .is_none_or(|noted| noted.second > due || noted.second < due && is_over)
        {
            open.due = Some(self.agenda.note(due, key));
        }
    }

    /// Takes an exchange out whose time has come by `now`; `None` when there is no more.
    pub(crate) fn next_over(&mut self, now: Time) -> Option<Box<Exchange>> {
        if self.challenged.len() > self.most_challenged
            && let Some((oldest, ())) = self.challenged.pop_lru()
        {
            return self.remove(oldest);
        }
        while let Some((noted, key)) = self.agenda.next_due(second(now)) {
            let Some(open) = self.exchanges.get_mut(key) else {
                continue;
            };
            // Entries of what was in this place before, or was noted anew since.
            if open.due != Some(noted) {
                continue;
            }
            open.due = None;
            let Some(idle_timeout) = open.exchange.idle_timeout_seconds() else {
                continue;
            };
            let due = second(open.exchange.latest) + idle_timeout + 1;
            if due > second(now) {
                open.due = Some(self.agenda.note(due, key));
                continue;
            }
            return self.remove(key);
        }
        None
    }

    /// Takes out any exchange, the oldest call first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Box<Exchange>> + use<> {
        let mut exchanges: Vec<_> = std::mem::take(&mut self.exchanges)
            .into_iter()
            .map(|(_, open)| open.exchange)
            .collect();
        self.by_call_id.clear();
        self.by_leg.clear();
        self.challenged.clear();
        exchanges.sort_by_key(|exchange| exchange.number);
        exchanges.into_iter()
    }

    fn remove(&mut self, key: usize) -> Option<Box<Exchange>> {
        let open = self.exchanges.try_remove(key)?;
        if open.is_challenged {
            self.challenged.pop(&key);
        }
        for (leg, call_id) in open.exchange.call_ids.iter().enumerate() {
            let hash = self.hasher.hash_one(call_id.as_bytes());
            let is_it = |place: &Place| place.exchange == key && place.leg == leg;
            if let Ok(occupied) = self.by_call_id.find_entry(hash, is_it) {
                occupied.remove();
            }
        }
        for leg_key in open.exchange.leg_keys.into_iter().flatten() {
            if self.by_leg.get(&leg_key) == Some(&key) {
                self.by_leg.remove(&leg_key);
            }
        }
        Some(open.exchange)
    }
}

/// When an exchange is to be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Due {
    second: u64,
    /// No two entries of an agenda have the same one.
    entry: u64,
}

/// Which exchanges to look at in which second: a wheel of one turn, since nobody waits longer than
/// [`Agenda::SECONDS`].
#[derive(Debug, Default)]
struct Agenda {
    /// The second of the first slot.
    first: u64,
    /// The exchanges of each second, with the number of the entry.
    slots: VecDeque<Vec<(usize, u64)>>,
    /// Everything that is due: what was noted first is at the end, so that calls end about in the order in which they
    /// began.
    due: Vec<(Due, usize)>,
    /// How many entries there have been.
    entries: u64,
}

impl Agenda {
    const SECONDS: u64 = 700;

    /// Notes an exchange for a second, or the nearest that there is a slot for. Returns when that is.
    fn note(&mut self, second: u64, key: usize) -> Due {
        if self.slots.is_empty() {
            self.first = second.saturating_sub(Self::SECONDS / 2);
        }
        let at = (self.nearest(second) - self.first) as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, Vec::new);
        }
        self.entries += 1;
        self.slots[at].push((key, self.entries));
        Due {
            second: self.first + at as u64,
            entry: self.entries,
        }
    }

    /// The second that there is a slot for: where time leaps, it is another than the wanted one, and an exchange is not
    /// noted for the same one again and again.
    fn nearest(&self, second: u64) -> u64 {
        match self.slots.is_empty() {
            true => second,
            false => second.clamp(self.first, self.first + 2 * Self::SECONDS),
        }
    }

    fn next_due(&mut self, now: u64) -> Option<(Due, usize)> {
        while self.due.is_empty() && self.first <= now {
            let keys = self.slots.pop_front()?;
            let second = self.first;
            self.first += 1;
            // The last one is taken first.
            let due = keys.into_iter().rev();
            self.due
                .extend(due.map(|(key, entry)| (Due { second, entry }, key)));
        }
        self.due.pop()
    }
}

/// Where to remember a Call-ID: by its ends, of which one tells it from others, mostly. Those that are made to share a slot
/// are looked up in the table.
#[inline]
fn slot(call_id: &[u8]) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let ends = match (call_id.first_chunk(), call_id.last_chunk()) {
        (Some(first), Some(last)) => u64::from_le_bytes(*first) ^ u64::from_be_bytes(*last),
        _ => call_id.len() as u64,
    };
    (ends.wrapping_mul(FACTOR) >> (64 - FOUND_LAST.ilog2())) as usize
}

/// The second that a time is in. Times before 1970 are all the same one.
fn second(time: Time) -> u64 {
    u64::try_from(time.0 / 1_000_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many share a slot where they were found last, and come into the place of others that are over.
    #[test]
    fn call_ids_are_found_where_they_are() {
        let mut exchanges = OpenExchanges::new(RandomState::with_seeds(1, 2, 3, 4), 1_000_000);
        let mut known = std::collections::BTreeMap::new();
        for step in 0..20_000_u64 {
            // Some three hundred names, short ones among them, each in one place or two, or nowhere.
            let name = format!("{}@x", step.wrapping_mul(step / 7 + 3) % 307 * 1_001);
            let found = exchanges.find(name.as_bytes());
            assert_eq!(found, known.get(&name).copied());
            match found {
                None if step % 3 == 0 && !known.is_empty() => {
                    let key = known.values().nth(step as usize % known.len()).unwrap().0;
                    if let Some(leg) = exchanges.join(key, name.as_bytes()) {
                        known.insert(name, (key, leg));
                    }
                }
                None => {
                    let key = exchanges.open(Exchange::new(name.as_bytes(), Time(0), 1));
                    known.insert(name, (key.unwrap(), 0));
                }
                Some((key, _)) if step % 2 == 0 => {
                    assert!(exchanges.remove(key).is_some());
                    known.retain(|_, place| place.0 != key);
                }
                Some(_) => {}
            }
        }
    }

    /// What was noted for whoever was in a place before says nothing of who is there now.
    #[test]
    fn exchanges_are_over_in_the_order_in_which_they_were_noted_last() {
        let mut exchanges = OpenExchanges::new(RandomState::with_seeds(1, 2, 3, 4), 100);
        let at = |second: i64| Time(second * 1_000_000_000);
        let mut open = |name: &str, second| {
            let key = exchanges.open(Exchange::new(name.as_bytes(), at(second), 1));
            exchanges.schedule(key.unwrap());
            key.unwrap()
        };
        let (first, second) = (open("first", 0), open("second", 0));
        assert_eq!(open("third", 0), 2);
        // The place that was noted first is taken by another, which is noted for the same second and then later than "third".
        assert!(exchanges.remove(first).is_some());
        assert!(exchanges.remove(second).is_some());
        let again = exchanges.open(Exchange::new(b"again", at(0), 1)).unwrap();
        assert_eq!(again, second);
        exchanges.schedule(again);
        let over = std::iter::from_fn(|| exchanges.next_over(at(100)));
        let names: Vec<String> = over
            .map(|exchange| exchange.call_ids[0].to_string())
            .collect();
        assert_eq!(names, ["third", "again"]);
    }

    /// The first packet has a date far ahead: all that follow are before the first slot.
    #[test]
    fn an_exchange_is_noted_once_where_time_went_back() {
        const DAY: i64 = 86_400;
        let mut exchanges = OpenExchanges::new(RandomState::with_seeds(1, 2, 3, 4), 100);
        let at = |second: i64| Time(second * 1_000_000_000);
        let key = exchanges
            .open(Exchange::new(b"back", at(2 * DAY), 1))
            .unwrap();
        exchanges.schedule(key);
        for message in 0..10_000 {
            let time = at(DAY + message / 100);
            exchanges.get_mut(key).unwrap().latest = time;
            exchanges.schedule(key);
            assert!(exchanges.next_over(time).is_none());
        }
        let noted: usize = exchanges.agenda.slots.iter().map(Vec::len).sum();
        assert_eq!(noted + exchanges.agenda.due.len(), 2);
        assert!(exchanges.next_over(at(3 * DAY)).is_some());
    }
}
