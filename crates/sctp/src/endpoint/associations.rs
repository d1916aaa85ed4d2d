//! All associations of an endpoint: found by name, by verification tag, and by peer; with their
//! deadlines, and a list of those that may have something to send.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ahash::RandomState;
use timer_wheel::{Index, TimerWheel};

use crate::association::Association;
use crate::{AssociationConfig, AssociationId, PathAddress};

/// What tells peers apart when a packet carries no verification tag of ours: their address, their
/// SCTP port, and their encapsulation port.
///
/// The encapsulation port is part of it on purpose. Behind one address there may be many hosts
/// (a NAT) or many programs (each with its own UDP port), all with the same SCTP port. By address
/// and SCTP port alone, an INIT of one would look like a restart of another (RFC 9260
/// section 5.2.2), and would destroy its association. The price: a peer that restarts *and* comes
/// from another encapsulation port is not recognized as restarted. It gets a new association; the
/// old one ends when its HEARTBEATs are not answered any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PeerKey {
    remote: IpAddr,
    encapsulation_port: Option<u16>,
    port: u16,
}

impl PeerKey {
    pub(crate) fn new(address: PathAddress, port: u16) -> PeerKey {
        PeerKey {
            remote: address.remote,
            encapsulation_port: address.encapsulation_port,
            port,
        }
    }
}

/// The table.
pub(crate) struct Associations {
    slots: Vec<Slot>,
    free: Vec<Index>,
    by_tag: HashMap<u32, Index, RandomState>,
    by_peer: HashMap<PeerKey, Index, RandomState>,
    /// When each association wants to be looked at, or earlier.
    deadlines: TimerWheel,
    /// Those that hold received data out of order, by how much.
    out_of_order: BTreeSet<(usize, Index)>,
    /// Those that hold received data that the user cannot receive yet, by how much they did when they
    /// were flushed last.
    held_back: BTreeSet<(usize, Index)>,
    /// Those that may have something to send.
    ready: VecDeque<Index>,
    count: usize,
}

struct Slot {
    /// How many associations had this place before.
    generation: u32,
    entry: Option<Box<Entry>>,
}

struct Entry {
    association: Association,
    /// Most share the endpoint's.
    config: Arc<AssociationConfig>,
    /// By which it is in the indexes.
    tag: Option<u32>,
    peers: Vec<PeerKey>,
    /// [`Association::paths_version`] when it was last put into the index of peers.
    paths_version: u32,
    is_ready: bool,
    /// It is to be flushed before it is taken from the ready list.
    dirty: bool,
    /// Bytes of received user data that are counted for it.
    received_bytes: usize,
    /// Those of them that are out of order.
    out_of_order: usize,
    /// Those of them that the user cannot receive yet.
    held_back: usize,
    /// By which it is in the index of those.
    indexed_held_back: usize,
}

/// What a flush changed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Its verification tag is not its own any more.
    pub(crate) retired_tag: Option<u32>,
    /// Bytes of received user data that it held before and holds now.
    pub(crate) received_before: usize,
    pub(crate) received_now: usize,
    /// Those of them that the user cannot receive yet.
    pub(crate) held_back_before: usize,
    pub(crate) held_back_now: usize,
}

impl Entry {
    /// Whether what the indexes say of it still holds.
    fn is_as_indexed(&self) -> bool {
        let association = &self.association;
        association.state() != crate::AssociationState::Closed
            && self.tag == Some(association.local_tag())
            && self.paths_version == association.paths_version()
            && self.out_of_order == association.out_of_order_bytes()
    }

    /// Counts the received data anew.
    fn count_received(&mut self) -> Changes {
        let received_now = self.association.receive_buffer_bytes();
        let held_back_now = self.association.held_back_bytes();
        Changes {
            retired_tag: None,
            received_before: std::mem::replace(&mut self.received_bytes, received_now),
            received_now,
            held_back_before: std::mem::replace(&mut self.held_back, held_back_now),
            held_back_now,
        }
    }
}

impl Associations {
    /// An empty table.
    pub(crate) fn new(hasher: RandomState) -> Associations {
        Associations {
            slots: Vec::new(),
            free: Vec::new(),
            by_tag: HashMap::with_hasher(hasher.clone()),
            by_peer: HashMap::with_hasher(hasher),
            deadlines: TimerWheel::new(),
            out_of_order: BTreeSet::new(),
            held_back: BTreeSet::new(),
            ready: VecDeque::new(),
            count: 0,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The name that the next association gets.
    pub(crate) fn next_id(&self) -> AssociationId {
        match self.free.last() {
            Some(index) => self.id_of(*index),
            None => name(self.slots.len() as Index, 0),
        }
    }

    /// Takes in an association that has the name that [`Self::next_id`] gave. To be flushed next.
    pub(crate) fn insert(
        &mut self,
        association: Association,
        config: Arc<AssociationConfig>,
    ) -> Index {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                entry: None,
            });
            (self.slots.len() - 1) as Index
        });
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.entry = Some(Box::new(Entry {
                association,
                config,
                tag: None,
                peers: Vec::new(),
                paths_version: 0,
                is_ready: false,
                dirty: false,
                received_bytes: 0,
                out_of_order: 0,
                held_back: 0,
                indexed_held_back: 0,
            }));
            self.count += 1;
        }
        index
    }

    /// The place of a name.
    pub(crate) fn index_of(&self, id: AssociationId) -> Option<Index> {
        let index = id.0 as Index;
        let slot = self.slots.get(index as usize)?;
        (slot.entry.is_some() && self.id_of(index) == id).then_some(index)
    }

    /// Finds an association by our verification tag.
    pub(crate) fn by_tag(&self, tag: u32) -> Option<Index> {
        self.by_tag.get(&tag).copied()
    }

    /// Finds an association by any address of its peer.
    pub(crate) fn by_peer(&self, peer: &PeerKey) -> Option<Index> {
        self.by_peer.get(peer).copied()
    }

    /// The association at a place.
    pub(crate) fn get(&self, index: Index) -> Option<&Association> {
        self.entry(index).map(|entry| &entry.association)
    }

    /// The association at a place with its settings; to be flushed afterwards.
    pub(crate) fn get_mut(
        &mut self,
        index: Index,
    ) -> Option<(&mut Association, &AssociationConfig)> {
        let entry = self.slots.get_mut(index as usize)?.entry.as_deref_mut()?;
        Some((&mut entry.association, &entry.config))
    }

    /// Gives the association at a place other settings.
    pub(crate) fn configure(&mut self, index: Index, config: Arc<AssociationConfig>) {
        if let Some(entry) = self
            .slots
            .get_mut(index as usize)
            .and_then(|slot| slot.entry.as_mut())
        {
            entry.config = config;
        }
    }

    /// Brings indexes, deadline and ready list up to date after an association did something, and
    /// forgets it when it is over.
    pub(crate) fn flush(&mut self, index: Index) -> Changes {
        let Some(entry) = self
            .slots
            .get_mut(index as usize)
            .and_then(|slot| slot.entry.as_mut())
        else {
            return Changes::default();
        };
        entry.dirty = false;
        let mut changes = entry.count_received();
        let association = &entry.association;
        let ended = association.state() == crate::AssociationState::Closed;
        if entry.indexed_held_back != entry.held_back {
            self.held_back.remove(&(entry.indexed_held_back, index));
            if entry.held_back > 0 {
                self.held_back.insert((entry.held_back, index));
            }
            entry.indexed_held_back = entry.held_back;
        }
        let out_of_order = association.out_of_order_bytes();
        if entry.out_of_order != out_of_order {
            self.out_of_order.remove(&(entry.out_of_order, index));
            if out_of_order > 0 {
                self.out_of_order.insert((out_of_order, index));
            }
            entry.out_of_order = out_of_order;
        }

        let tag = (!ended).then(|| association.local_tag());
        if entry.tag != tag {
            if let Some(old) = entry.tag {
                self.by_tag.remove(&old);
                changes.retired_tag = Some(old);
            }
            if let Some(new) = tag {
                self.by_tag.insert(new, index);
            }
            entry.tag = tag;
        }
        if ended || entry.paths_version != association.paths_version() {
            for old in entry.peers.drain(..) {
                if self.by_peer.get(&old) == Some(&index) {
                    self.by_peer.remove(&old);
                }
            }
            entry.paths_version = association.paths_version();
            let addresses = association.peer_addresses().filter(|_| !ended);
            for (address, is_confirmed) in addresses {
                let key = PeerKey::new(address, association.peer_port());
                // When a NAT gave one peer's port to another, the newer claim stands. A claim that
                // is not proved takes nothing from anyone (RFC 5062 section 2).
                if is_confirmed {
                    self.by_peer.insert(key, index);
                } else {
                    self.by_peer.entry(key).or_insert(index);
                }
                entry.peers.push(key);
            }
        }
        if ended {
            self.deadlines.set(index, None);
        } else if let Some(deadline) = association.next_timeout() {
            // One that moved to later stays where it is: it will be looked at too early, once.
            self.deadlines.set_if_earlier(index, deadline);
        }
        if ended {
            if association.is_disposable() {
                changes.received_now = 0;
                self.remove(index);
            }
        } else if !entry.is_ready {
            entry.is_ready = true;
            self.ready.push_back(index);
        }
        changes
    }

    /// Does of [`Self::flush`] what cannot wait until the association has been asked for all its
    /// packets: the deadline can, and while it is asked more is likely to change.
    pub(crate) fn flush_later(&mut self, index: Index) -> Changes {
        let can_wait = self
            .slots
            .get_mut(index as usize)
            .and_then(|slot| slot.entry.as_mut())
            .filter(|entry| entry.is_as_indexed());
        let Some(entry) = can_wait else {
            return self.flush(index);
        };
        entry.dirty = true;
        if !entry.is_ready {
            entry.is_ready = true;
            self.ready.push_back(index);
        }
        entry.count_received()
    }

    /// Takes note of a packet that an association sent, which changes nothing but its deadline. There
    /// may be more to come.
    pub(crate) fn sent(&mut self, index: Index) {
        if let Some(entry) = self
            .slots
            .get_mut(index as usize)
            .and_then(|slot| slot.entry.as_deref_mut())
        {
            entry.dirty = true;
        }
    }

    /// Whether [`Self::flush_later`] or [`Self::sent`] has left something to do.
    pub(crate) fn is_dirty(&self, index: Index) -> bool {
        self.entry(index).is_some_and(|entry| entry.dirty)
    }

    /// The earliest deadline.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.deadlines.first()
    }

    /// Takes out the next association whose deadline has come; it is to be flushed afterwards.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Index> {
        self.deadlines.pop_due(now)
    }

    /// The association that holds most received data out of order.
    pub(crate) fn most_out_of_order(&self) -> Option<Index> {
        self.out_of_order.last().map(|(_, index)| *index)
    }

    /// The association that holds most received data that its user cannot receive yet, as it was when
    /// each was flushed last.
    pub(crate) fn most_held_back(&self) -> Option<Index> {
        self.held_back.last().map(|(_, index)| *index)
    }

    /// The next association that may have something to send.
    pub(crate) fn first_ready(&self) -> Option<Index> {
        self.ready.front().copied()
    }

    /// All associations that may have something to send.
    pub(crate) fn ready(&self) -> impl Iterator<Item = &Association> {
        self.ready.iter().filter_map(|index| self.get(*index))
    }

    /// The one that [`Self::first_ready`] gave had nothing to send.
    pub(crate) fn pop_ready(&mut self) {
        if let Some(index) = self.ready.pop_front()
            && let Some(entry) = self
                .slots
                .get_mut(index as usize)
                .and_then(|slot| slot.entry.as_mut())
        {
            entry.is_ready = false;
        }
    }

    fn remove(&mut self, index: Index) {
        if let Some(slot) = self.slots.get_mut(index as usize)
            && slot.entry.take().is_some()
        {
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(index);
            self.count -= 1;
        }
    }

    fn entry(&self, index: Index) -> Option<&Entry> {
        self.slots.get(index as usize)?.entry.as_deref()
    }

    fn id_of(&self, index: Index) -> AssociationId {
        let generation = self
            .slots
            .get(index as usize)
            .map_or(0, |slot| slot.generation);
        name(index, generation)
    }
}

fn name(index: Index, generation: u32) -> AssociationId {
    AssociationId(u64::from(generation) << 32 | u64::from(index))
}
