//! Who is served at a time, and who gives way.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::Limits;

/// The slots of a listener.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    limits: Limits,
    /// The oldest first.
    taken: Mutex<Vec<Arc<Connection>>>,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    /// A request of its is being answered.
    is_busy: AtomicBool,
    displaced: Notify,
}

/// A slot, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    connection: Arc<Connection>,
}

/// A request is being answered until this is dropped.
#[derive(Debug)]
pub(crate) struct Busy<'a>(&'a AtomicBool);

impl ConnectionSlots {
    pub(crate) fn new(limits: Limits) -> ConnectionSlots {
        ConnectionSlots {
            limits,
            taken: Mutex::default(),
        }
    }

    /// Takes a slot for a connection of a peer. Where its peer or all of them have too many, the oldest one that waits
    /// for a request gives way, of this peer in the one case and of the one with most slots in the other. `None` where all
    /// are busy.
    pub(crate) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionSlot> {
        let peer = host(peer);
        let mut taken = self.lock();
        let count = |taken: &[Arc<Connection>], peer| {
            let of_peer = taken.iter().filter(|connection| connection.peer == peer);
            of_peer.count()
        };
        let from = if count(&taken, peer) >= self.limits.connections_per_peer {
            Some(peer)
        } else if taken.len() >= self.limits.connections {
            let waiting = taken.iter().filter(|connection| !connection.is_busy());
            // Of those that have as many, the one with the oldest connection.
            let heaviest = waiting.rev().max_by_key(|one| count(&taken, one.peer));
            Some(heaviest?.peer)
        } else {
            None
        };
        if let Some(from) = from {
            let is_first = |one: &Arc<Connection>| one.peer == from && !one.is_busy();
            let oldest = taken.iter().position(is_first)?;
            taken.remove(oldest).displaced.notify_one();
        }
        let connection = Arc::new(Connection {
            peer,
            is_busy: AtomicBool::new(false),
            displaced: Notify::new(),
        });
        taken.push(connection.clone());
        Some(ConnectionSlot {
            slots: self.clone(),
            connection,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    fn is_busy(&self) -> bool {
        self.is_busy.load(Relaxed)
    }
}

impl ConnectionSlot {
    /// Ends when the connection gives way to another one.
    pub(crate) async fn displaced(&self) {
        self.connection.displaced.notified().await;
    }

    /// A request is being answered.
    pub(crate) fn busy(&self) -> Busy<'_> {
        self.connection.is_busy.store(true, Relaxed);
        Busy(&self.connection.is_busy)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let connection = &self.connection;
        let is_other = |other: &Arc<Connection>| !Arc::ptr_eq(other, connection);
        self.slots.lock().retain(is_other);
    }
}

/// What one host has for itself: an IPv4 address, or the 64 bits of an IPv6 prefix.
fn host(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(peer) => Ipv6Addr::from_bits(peer.to_bits() >> 64 << 64).into(),
        peer => peer,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn slots() -> Arc<ConnectionSlots> {
        Arc::new(ConnectionSlots::new(Limits {
            connections: 4,
            connections_per_peer: 3,
            header_time: Duration::ZERO,
            connection_time: Duration::ZERO,
        }))
    }

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    fn is_in(slots: &ConnectionSlots, slot: &ConnectionSlot) -> bool {
        let taken = slots.lock();
        taken.iter().any(|one| Arc::ptr_eq(one, &slot.connection))
    }

    #[test]
    fn who_has_most_gives_way_and_nobody_who_is_busy() {
        let slots = slots();
        let take = |number| slots.take(peer(number)).expect("a slot");
        let one = take(1);
        let many = [take(2), take(2), take(2)];
        // Its share: the oldest of its own gives way.
        let fourth = take(2);
        assert!(!is_in(&slots, &many[0]) && is_in(&slots, &many[1]) && is_in(&slots, &one));
        // All slots: who has most.
        let busy = many[1].busy();
        let third = take(3);
        assert!(is_in(&slots, &many[1]) && !is_in(&slots, &many[2]) && is_in(&slots, &one));
        let all = [one.busy(), fourth.busy(), third.busy()];
        assert!(slots.take(peer(4)).is_none());
        drop(busy);
        // Who has a slot for himself alone is busy; the other one has ended.
        let last = take(4);
        assert!(!is_in(&slots, &many[1]) && is_in(&slots, &last));
        drop(all);
        drop((one, many, fourth, third, last));
        assert!(slots.lock().is_empty());
    }
}
