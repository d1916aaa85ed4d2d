//! The walk through the location store for user agents that registered before keep-alives were sent: those whose
//! bindings a store has brought over a restart, and those that are there when settings begin to want keep-alives.
//!
//! The store is read once, a page at a time, with a rest after each: neither what it holds nor what is sent comes all
//! at once.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ahash::RandomState;

use crate::core::keys::Keys;
use crate::core::query::{Page, Place, Query, QueryId};

/// Reading the location store page by page.
#[derive(Debug)]
pub(super) struct StoreWalk {
    /// What the shares of workers follow from: in all of them the same.
    hasher: RandomState,
    /// Which worker this is, and of how many.
    share: (u64, u64),
    step: Option<Step>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// To ask, when it is time, for the page that begins here.
    Due(Instant, Place),
    /// The answer to that, a query that has this id once it has been made.
    Asked(Option<QueryId>, Place),
}

/// How many addresses of record are looked at at a time.
const PAGE: usize = 256;

/// How long it rests after so many.
const REST: Duration = Duration::from_millis(50);

/// From a question that has failed to the next try.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl StoreWalk {
    pub(super) fn new(keys: &Keys) -> StoreWalk {
        let key = keys.derive("shares of keep-alives");
        let (seeds, _) = key.as_chunks();
        let seed = |place: usize| seeds.get(place).copied().map_or(0, u64::from_le_bytes);
        StoreWalk {
            hasher: RandomState::with_seeds(seed(0), seed(1), seed(2), seed(3)),
            share: (0, 1),
            step: None,
        }
    }

    /// Of so many `workers` with one store this is the one with a `number`, the first 0.
    pub(super) fn set_share(&mut self, number: usize, workers: usize) {
        self.share = (number as u64, workers.max(1) as u64);
    }

    /// Whether a flow belongs to the share of this worker.
    pub(super) fn is_ours(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let (number, workers) = self.share;
        self.hasher.hash_one((local, remote)) % workers == number
    }

    /// Begins anew. Returns a query that is to be withdrawn.
    pub(super) fn start(&mut self, now: Instant) -> Option<QueryId> {
        let asked = self.stop();
        self.step = Some(Step::Due(now, Place::default()));
        asked
    }

    /// Goes no further. Returns a query that is to be withdrawn.
    pub(super) fn stop(&mut self) -> Option<QueryId> {
        match self.step.take()? {
            Step::Asked(id, _) => id,
            Step::Due(..) => None,
        }
    }

    /// When there is something to ask.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match self.step? {
            Step::Due(due, _) => Some(due),
            Step::Asked(..) => None,
        }
    }

    /// The query for the next page, if it is time.
    pub(super) fn ask(&mut self, now: Instant) -> Option<Query> {
        let from = match self.step {
            Some(Step::Due(due, from)) if due <= now => from,
            _ => return None,
        };
        self.step = Some(Step::Asked(None, from));
        Some(Query::Page { from, limit: PAGE })
    }

    /// Takes notice of the id of the query.
    pub(super) fn note_asked(&mut self, asked: QueryId) {
        if let Some(Step::Asked(id, _)) = &mut self.step {
            *id = Some(asked);
        }
    }

    /// Takes the page that was asked for; `None` if the query has failed, and is made again. Returns the page.
    pub(super) fn take(&mut self, now: Instant, page: Option<Page>) -> Option<Page> {
        let Some(Step::Asked(_, from)) = self.step else {
            return None;
        };
        self.step = match &page {
            Some(page) => page.next.map(|next| Step::Due(now + REST, next)),
            None => Some(Step::Due(now + RETRY_AFTER, from)),
        };
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(next: Option<u64>) -> Option<Page> {
        Some(Page {
            users: Vec::new(),
            next: next.map(Place),
        })
    }

    fn place(asked: Option<Query>) -> Option<u64> {
        match asked? {
            Query::Page { from, .. } => Some(from.0),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_store_is_read_once_a_page_at_a_time() {
        let mut now = Instant::now();
        let mut walk = StoreWalk::new(&Keys::from_bytes([1; 32]));
        assert_eq!((walk.next_timeout(), walk.ask(now)), (None, None));
        walk.start(now);
        assert_eq!(place(walk.ask(now)), Some(0));
        assert_eq!((walk.next_timeout(), walk.ask(now)), (None, None));
        // The store has failed.
        assert_eq!(walk.take(now, None), None);
        assert_eq!(walk.next_timeout(), Some(now + RETRY_AFTER));
        now += RETRY_AFTER;
        assert_eq!(place(walk.ask(now)), Some(0));
        assert!(walk.take(now, page(Some(7))).is_some());
        assert_eq!(walk.ask(now), None);
        now += REST;
        assert_eq!(place(walk.ask(now)), Some(7));
        assert!(walk.take(now, page(None)).is_some());
        assert_eq!(walk.next_timeout(), None);
    }

    #[test]
    fn a_walk_that_ends_or_begins_anew_withdraws_its_query() {
        let now = Instant::now();
        let mut walk = StoreWalk::new(&Keys::from_bytes([1; 32]));
        assert_eq!(walk.start(now), None);
        assert!(walk.ask(now).is_some());
        walk.note_asked(QueryId(1));
        assert_eq!(walk.start(now), Some(QueryId(1)));
        assert!(walk.ask(now).is_some());
        walk.note_asked(QueryId(2));
        assert_eq!((walk.stop(), walk.stop()), (Some(QueryId(2)), None));
    }

    #[test]
    fn each_flow_belongs_to_one_worker() {
        let keys = Keys::from_bytes([1; 32]);
        for port in 1..100 {
            let ends = |port| SocketAddr::from(([192, 0, 2, 1], port));
            let ours = (0..4).filter(|number| {
                let mut walk = StoreWalk::new(&keys);
                walk.set_share(*number, 4);
                walk.is_ours(ends(5060), ends(port))
            });
            assert_eq!(ours.count(), 1);
        }
    }
}
