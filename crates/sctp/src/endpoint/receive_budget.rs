//! The bound on received user data that all associations of an endpoint hold together (RFC 9260 sections 6.2 and 6.9):
//! which of them gives up what, so that no peer keeps the room from the others.

use std::time::Instant;

use timer_wheel::Index;

use super::Endpoint;
use crate::association::Association;
use crate::packet::{Chunk, Packet};

/// How many associations give room back for one packet, at most.
const MAX_RENEGES: usize = 4;

/// How many do when that packet could not be taken otherwise. Each of them has cost the peers a packet.
const MAX_YIELDS: usize = 1024;

impl Endpoint {
    /// Makes room for the DATA of a packet of the association at `index` when all together hold as
    /// much as they may. Who holds most out of order gives it back (section 6.2), if that is more
    /// than this one holds itself: so a peer that never sends what is missing cannot keep the room
    /// from the others, nor can one whose messages nobody reads take it from them. It gives its own
    /// back only for what is missing below that.
    pub(super) fn make_room(&mut self, now: Instant, index: Index, parsed: &Packet<'_>) {
        let mut needed = 0;
        let mut fills_hole = false;
        for chunk in parsed.chunks() {
            if let Ok(Chunk::Data(data)) = chunk {
                needed += data.user_data.len();
                let association = self.associations.get(index);
                fills_hole |= association.is_some_and(|association| association.misses(data.tsn));
            }
        }
        for _ in 0..MAX_RENEGES {
            let association = self.associations.get(index);
            let held = association.map_or(0, Association::receive_buffer_bytes);
            // What fills a hole is taken anyway, other data only where there is a window.
            let window = if fills_hole {
                0
            } else {
                self.config.association.path.mtu
            };
            if self.received_bytes + needed + window <= self.config.max_received_bytes {
                return;
            }
            let Some(most) = self.associations.most_out_of_order() else {
                return;
            };
            let association = self.associations.get(most);
            let given = association.map_or(0, Association::out_of_order_bytes);
            let gives = if most == index {
                fills_hole
            } else {
                given > held
            };
            if !gives {
                return;
            }
            self.with(now, most, |association, context| {
                association.renege(context);
            });
        }
    }

    /// Makes room for the chunk of `needed` bytes that comes next in the association at `index`, which
    /// was dropped, if there would be none though all users received all that they can: what is held
    /// back takes the room, and the associations that hold it may well wait for each other. What is
    /// out of order is taken back first, since it will be sent again. Then the association that holds
    /// back most gives up a message that is not whole (section 6.9). So a peer waits for the room that
    /// others hold back until it sends the chunk again, and no longer. None that holds less than the
    /// starved one has to give up anything, for that one wants more than what each is guaranteed.
    pub(super) fn end_starvation(&mut self, now: Instant, index: Index, needed: usize) {
        self.flush(now, index);
        for _ in 0..MAX_YIELDS {
            let held = self.held_back_bytes + needed;
            if held + self.config.association.path.mtu <= self.config.max_received_bytes {
                return;
            }
            if let Some(most) = self.associations.most_out_of_order() {
                self.with(now, most, |association, context| {
                    association.renege(context);
                });
                continue;
            }
            let Some(most) = self.associations.most_held_back() else {
                return;
            };
            if self.associations.is_dirty(most) {
                // It may hold less by now.
                self.flush(now, most);
                continue;
            }
            let is_own = most == index;
            // Room for a packet more is worth the end of another one, not its own.
            if is_own && held <= self.config.max_received_bytes {
                return;
            }
            self.with(now, most, |association, context| {
                association.yield_held_back(context);
            });
            if is_own {
                return;
            }
        }
    }
}
