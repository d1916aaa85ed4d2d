//! The names of transactions.

use super::table::split;

/// Names a client transaction of one [`Transactions`](super::Transactions); never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub(super) u64);

impl ClientId {
    /// A number that no two transactions have that are there at one time, and less than the most that have been there
    /// at one time.
    pub fn place(self) -> usize {
        split(self.0).0
    }
}

/// Names a server transaction of one [`Transactions`](super::Transactions); never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId(pub(super) u64);

/// Names a transaction of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TransactionKey {
    /// A transaction that we began (RFC 3261 section 17.1).
    Client(ClientId),
    /// A transaction that a peer began (RFC 3261 section 17.2).
    Server(ServerId),
}
