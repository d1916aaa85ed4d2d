//! A location store that answers when it likes: at once, late, with an error, or not at all. What it has answered it keeps,
//! and what it has not answered it may have done all the same.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proxy::core::{AddressOfRecord, Answer, Bindings, Query, QueryId};
use rand::RngExt;
use rand_chacha::ChaCha12Rng;

#[derive(Debug, Default)]
pub(crate) struct Store {
    bindings: BTreeMap<AddressOfRecord, Bindings>,
    /// What decides how late it is; one that has none answers at once.
    lateness: Option<ChaCha12Rng>,
    /// What is asked, by when it is done; of one time in the order of asking.
    due: BTreeMap<(Instant, u64), Asked>,
    asked: u64,
    /// When the last update of each address of record takes effect: they do in the order of asking.
    updates: BTreeMap<AddressOfRecord, Instant>,
}

#[derive(Debug)]
struct Asked {
    /// Which core has asked: answers are not for the one after it.
    incarnation: u64,
    id: QueryId,
    query: Query,
    fate: Fate,
}

/// What becomes of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// Nothing is done, and that is said.
    Failed,
    /// It is done, and the answer is that it has failed.
    Doubtful,
    /// It is done, and nothing is said.
    Lost,
    /// Nothing is done or said.
    Ignored,
}

impl Store {
    pub(crate) fn new(lateness: Option<ChaCha12Rng>) -> Store {
        Store {
            lateness,
            ..Store::default()
        }
    }

    /// Asks. An answer that is there at once is returned.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        incarnation: u64,
        id: QueryId,
        query: Query,
    ) -> Option<Answer> {
        let Some(rng) = &mut self.lateness else {
            return Some(self.answer(&query));
        };
        let fate = match rng.random_range(0..100) {
            0..90 => Fate::Answered,
            90..93 => Fate::Failed,
            93..96 => Fate::Doubtful,
            96..98 => Fate::Lost,
            _ => Fate::Ignored,
        };
        let milliseconds = match rng.random_range(0..20) {
            // Longer than the core waits, some of them.
            0 => rng.random_range(1_000..15_000),
            1..4 => rng.random_range(100..1_500),
            _ => rng.random_range(0..50),
        };
        let mut time = now + Duration::from_millis(milliseconds);
        if let Query::Update(address, _) = &query {
            let last = self.updates.entry(address.clone()).or_insert(time);
            time = time.max(*last);
            *last = time;
        }
        self.asked += 1;
        let asked = Asked {
            incarnation,
            id,
            query,
            fate,
        };
        self.due.insert((time, self.asked), asked);
        None
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let ((time, _), _) = self.due.first_key_value()?;
        Some(*time)
    }

    /// Does what is due, until there is an answer for this core.
    pub(crate) fn next_answer(
        &mut self,
        now: Instant,
        incarnation: u64,
    ) -> Option<(QueryId, Answer)> {
        while self.next_timeout().is_some_and(|due| due <= now) {
            let (_, asked) = self.due.pop_first()?;
            let answer = match asked.fate {
                Fate::Answered => Some(self.answer(&asked.query)),
                Fate::Failed => Some(Answer::Failed),
                Fate::Doubtful => {
                    self.answer(&asked.query);
                    Some(Answer::Failed)
                }
                Fate::Lost => {
                    self.answer(&asked.query);
                    None
                }
                Fate::Ignored => None,
            };
            if asked.incarnation == incarnation
                && let Some(answer) = answer
            {
                return Some((asked.id, answer));
            }
        }
        None
    }

    /// Fails when somebody is bound still.
    pub(crate) fn assert_idle(&self, now: Instant) {
        assert!(self.due.is_empty(), "{:?}", self.due);
        for (address, bindings) in &self.bindings {
            assert!(
                bindings.iter().all(|binding| binding.expires() <= now),
                "{address:?} is still bound"
            );
        }
    }

    fn answer(&mut self, query: &Query) -> Answer {
        match query {
            Query::Lookup(address) => match self.bindings.get(address) {
                Some(bindings) => Answer::Bindings(bindings.clone()),
                None => Answer::Unknown,
            },
            Query::Update(address, update) => {
                let current = self.bindings.get(address).cloned().unwrap_or_default();
                match update.apply(&current) {
                    Ok(bindings) => {
                        let bindings: Bindings = bindings.into();
                        self.bindings.insert(address.clone(), bindings.clone());
                        Answer::Bindings(bindings)
                    }
                    Err(error) => Answer::Refused(error),
                }
            }
            // Nobody has a password, and nobody wants keep-alives.
            Query::Credentials { .. } => Answer::Credentials(None),
            Query::Page { .. } | Query::Resolve(_) | Query::Http(_) | Query::Redis(_) => {
                Answer::Failed
            }
        }
    }
}
