//! One bound on the messages that have come in part on all stream connections together, and one for each source.
//!
//! A message may be long and take its time, so that a bound for each connection alone would let many connections hold
//! many times as much. Where there is no room, the largest message of the source that holds most is given up, and its
//! connection with it: peers with usual messages go on.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sip::ConnectionId;
use tokio::sync::Notify;

use crate::config::Limits;
use crate::connections::source;

/// Up to so many bytes of a message count as the connection itself does: most messages are shorter, and take no lock.
const FREE: usize = 4096;

/// What all connections hold of messages that are not whole.
#[derive(Debug)]
pub(crate) struct PartialMessages {
    table: Mutex<Table>,
    all: usize,
    per_source: usize,
}

#[derive(Debug, Default)]
struct Table {
    bytes: usize,
    sources: HashMap<IpAddr, Source>,
    /// Sources by how much they hold.
    by_bytes: BTreeSet<(usize, IpAddr)>,
    holders: HashMap<ConnectionId, Arc<GivenUp>>,
}

#[derive(Debug, Default)]
struct Source {
    bytes: usize,
    /// Its connections by how much they hold.
    connections: BTreeSet<(usize, ConnectionId)>,
}

/// Whether a message was given up, and a bell for the task of its connection.
#[derive(Debug, Default)]
struct GivenUp {
    is_given_up: AtomicBool,
    bell: Notify,
}

impl PartialMessages {
    pub(crate) fn new(limits: &Limits) -> Arc<PartialMessages> {
        Arc::new(PartialMessages {
            table: Mutex::default(),
            all: limits.all_partial_messages_bytes,
            per_source: limits.partial_messages_bytes_per_source,
        })
    }

    /// The part of one connection, which holds nothing yet.
    pub(super) fn part(
        self: &Arc<Self>,
        connection: ConnectionId,
        remote: SocketAddr,
    ) -> PartialMessage {
        PartialMessage {
            all: self.clone(),
            connection,
            source: source(remote),
            bytes: 0,
            given_up: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one connection holds of a message that is not whole.
#[derive(Debug)]
pub(super) struct PartialMessage {
    all: Arc<PartialMessages>,
    connection: ConnectionId,
    source: IpAddr,
    /// What is counted.
    bytes: usize,
    given_up: Arc<GivenUp>,
}

impl PartialMessage {
    /// So many bytes are held now. Returns whether they may be: not where this message was given up.
    pub(super) fn holds(&mut self, bytes: usize) -> bool {
        let bytes = if bytes > FREE { bytes } else { 0 };
        if bytes == self.bytes {
            return !self.is_given_up();
        }
        let mut table = self.all.lock();
        // One that was given up counts no more.
        if !self.is_given_up() {
            table.change(self.source, self.connection, self.bytes, bytes);
            match bytes {
                0 => table.holders.remove(&self.connection),
                _ => table.holders.insert(self.connection, self.given_up.clone()),
            };
            self.bytes = bytes;
            table.make_room(self.source, self.all.all, self.all.per_source);
        }
        !self.is_given_up()
    }

    /// Ends when this message is given up for others.
    pub(super) async fn given_up(&self) {
        while !self.is_given_up() {
            self.given_up.bell.notified().await;
        }
    }

    fn is_given_up(&self) -> bool {
        self.given_up.is_given_up.load(Relaxed)
    }
}

impl Drop for PartialMessage {
    fn drop(&mut self) {
        self.holds(0);
    }
}

impl Table {
    /// A connection holds another number of bytes than before.
    fn change(&mut self, from: IpAddr, connection: ConnectionId, before: usize, now: usize) {
        let source = self.sources.entry(from).or_default();
        self.by_bytes.remove(&(source.bytes, from));
        source.connections.remove(&(before, connection));
        source.bytes = source.bytes - before + now;
        self.bytes = self.bytes - before + now;
        if now > 0 {
            source.connections.insert((now, connection));
        }
        match source.bytes {
            0 => drop(self.sources.remove(&from)),
            bytes => drop(self.by_bytes.insert((bytes, from))),
        }
    }

    /// Gives up the largest messages: those of this source while it holds too much, then those of the source that holds most.
    fn make_room(&mut self, from: IpAddr, all: usize, per_source: usize) {
        loop {
            let of_source = self.sources.get(&from).map_or(0, |source| source.bytes);
            let heaviest = match self.by_bytes.last() {
                _ if of_source > per_source => from,
                Some((_, heaviest)) if self.bytes > all => *heaviest,
                _ => return,
            };
            let largest = self.sources.get(&heaviest);
            let Some((bytes, connection)) = largest.and_then(|source| source.connections.last())
            else {
                return;
            };
            let (bytes, connection) = (*bytes, *connection);
            self.change(heaviest, connection, bytes, 0);
            if let Some(given_up) = self.holders.remove(&connection) {
                given_up.is_given_up.store(true, Relaxed);
                given_up.bell.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages(all: usize, per_source: usize) -> Arc<PartialMessages> {
        PartialMessages::new(&Limits {
            all_partial_messages_bytes: all,
            partial_messages_bytes_per_source: per_source,
            ..Limits::default()
        })
    }

    fn part(all: &Arc<PartialMessages>, connection: u64, host: u8) -> PartialMessage {
        all.part(
            ConnectionId(connection),
            SocketAddr::from(([192, 0, 2, host], 5060)),
        )
    }

    #[test]
    fn the_largest_of_who_holds_most_gives_way() {
        let all = messages(100_000, 60_000);
        let mut honest = part(&all, 1, 1);
        assert!(honest.holds(30_000));
        let mut many: Vec<_> = (2..8).map(|connection| part(&all, connection, 2)).collect();
        for (place, part) in many.iter_mut().enumerate() {
            assert!(part.holds(9_000 + place));
        }
        // No more than 60,000 of one source.
        assert!(!many[5].holds(20_000));
        assert!(many[..5].iter().all(|part| !part.is_given_up()));
        // Too much of all together: the second source holds most.
        let mut third = part(&all, 9, 3);
        assert!(third.holds(30_000));
        assert!(!honest.is_given_up() && !third.is_given_up());
        assert!(many[4].is_given_up() && !many[0].is_given_up());
        drop((honest, many, third));
        assert_eq!(all.lock().bytes, 0);
        assert!(all.lock().sources.is_empty() && all.lock().holders.is_empty());
    }

    #[test]
    fn short_ones_are_free() {
        let all = messages(0, 0);
        let mut short = part(&all, 1, 1);
        assert!(short.holds(FREE));
        assert!(!short.holds(FREE + 1));
        assert!(!short.holds(1));
    }

    proptest! {
        #[test]
        fn the_bounds_hold(steps in prop::collection::vec((0_usize..20, 0_usize..50_000, any::<bool>()), 1..200)) {
            let all = messages(150_000, 80_000);
            let new = |place: usize| part(&all, place as u64, (place % 4) as u8);
            let mut parts: Vec<_> = (0..20).map(new).collect();
            for (place, bytes, ends) in steps {
                if ends || !parts[place].holds(bytes) {
                    // Its connection is closed, and there is another one in its place.
                    parts[place].holds(0);
                    parts[place] = new(place);
                }
                let table = all.lock();
                let counted: usize = parts.iter().filter(|part| !part.is_given_up()).map(|part| part.bytes).sum();
                prop_assert_eq!(table.bytes, counted);
                prop_assert!(table.bytes <= 150_000);
                prop_assert!(table.sources.values().all(|source| source.bytes <= 80_000));
                prop_assert_eq!(table.by_bytes.len(), table.sources.len());
            }
        }
    }
}
