//! What every store is to the workers, wherever it keeps things.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use super::mailbox::Mailbox;
use crate::core::{AddressOfRecord, Answer, Place, QueryId, Update};

/// A question to a location store.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreQuery {
    /// The bindings of an address of record: [`Answer::Bindings`] or [`Answer::Unknown`].
    Lookup(AddressOfRecord),
    /// A change of its bindings, made whole by [`Update::apply`] with nothing in between:
    /// [`Answer::Bindings`] when the change is as safe as this store makes it, [`Answer::Refused`] or
    /// [`Answer::Full`].
    Update(AddressOfRecord, Update),
    /// What is stored of a user's password: [`Answer::Credentials`].
    Credentials {
        /// The realm.
        realm: Box<str>,
        /// The name of the user.
        username: Box<str>,
    },
    /// Some of all addresses of record, with their bindings: [`Answer::Page`].
    Page {
        /// Where the page begins.
        from: Place,
        /// How many addresses of record it may have.
        limit: usize,
    },
}

/// What a location store counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocationStatistics {
    /// Addresses of record that are known, those without a binding included.
    pub addresses_of_record: u64,
    /// Bindings, those included that have expired and were not removed yet.
    pub bindings: u64,
    /// Octets that these take in memory.
    pub octets: u64,
    /// Changes made by REGISTERs.
    pub updates: u64,
    /// Changes lost because the store failed; each was answered with an error.
    pub failed_updates: u64,
    /// Transactions written to disk, each with many changes at once.
    pub commits: u64,
    /// Users whose credentials are known.
    pub users: u64,
}

/// A store. `memory:` and `sqlite:` keep all bindings in memory, at the least a copy; a store that is shared over a
/// network does not, so every answer may come later.
///
/// Workers call it from their threads and must not be held up: what takes time belongs on a thread or task of the
/// store's own, which posts the answer.
pub trait Backend: Debug + Send + Sync {
    /// Answers at once, or later, once, through the mailbox of the worker that asks. [`Answer::Failed`] is always
    /// possible. Updates of one address of record take effect in the order in which they were asked for.
    fn ask(
        &self,
        now: Instant,
        id: QueryId,
        query: StoreQuery,
        mailbox: &Arc<Mailbox>,
    ) -> Option<Answer>;

    /// What keys are made of that have to outlive the process, as far as the store does: always the same for the same
    /// store, and secret.
    fn seed(&self) -> [u8; 32];

    /// Does a small part of what has to be done now and then, such as removing what has expired. It is called often.
    fn maintain(&self, _now: Instant) {}

    /// The counters as they stand.
    fn statistics(&self) -> LocationStatistics;
}
