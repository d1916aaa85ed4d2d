//! What concurrent multipath transfer asks of the sending half.

use std::time::Instant;

use super::Sender;
use crate::AssociationConfig;
use crate::association::path_id::PathId;
use crate::association::path_list::Paths;

impl Sender {
    /// Bytes of user messages that were not sent yet.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// The a_rwnd that the peer said last.
    pub(crate) fn peer_window(&self) -> usize {
        self.peer_window
    }

    /// Bytes of user data that may be sent and not acknowledged for good at a time: what the peer has room for,
    /// with what it holds already, and what the send buffer holds.
    pub(crate) fn shared_window(&self, config: &AssociationConfig) -> usize {
        let held = self
            .outstanding
            .bytes()
            .saturating_sub(self.outstanding.bytes_in_flight());
        (self.peer_window + held).min(config.send_buffer)
    }

    /// Whether chunks wait to be sent again.
    pub(crate) fn has_lost(&self) -> bool {
        self.outstanding.has_lost()
    }

    /// Has everything that waits to be sent again go to `path`, but for probes of other paths.
    pub(crate) fn send_lost_on(&mut self, path: PathId) {
        self.outstanding.send_lost_on(path);
        if let Some(fast) = &mut self.fast_retransmit {
            *fast = path;
        }
    }

    /// A path on which a probe is due (RFC 8985 section 7.3).
    pub(crate) fn probe_path(&self, paths: &Paths) -> Option<PathId> {
        let mut ids = paths.iter().map(|path| path.id());
        ids.find(|id| self.is_probe_due(*id))
    }

    /// Whether the peer's window, or our send buffer, lets nothing new leave, though there is more to send.
    pub(crate) fn is_blocked(&self, paths: &Paths) -> bool {
        match self.next_size(paths) {
            Some(size) => !self.may_leave(size),
            None => self.refused,
        }
    }

    /// Has chunks that are in flight on other paths sent again on `to`, where `is_late` says so. Tells whether
    /// there are any.
    pub(crate) fn reschedule(
        &mut self,
        now: Instant,
        to: PathId,
        paths: &mut Paths,
        is_late: impl FnMut(PathId, Instant) -> bool,
    ) -> bool {
        // It waits for its acknowledgement still (RFC 3758 section 3.5, rule C5).
        let forward_tsn = self.forward_tsn.path();
        let on_moved = |id, size| {
            if let Some(path) = paths.get_mut(id) {
                path.chunk_left_flight(size);
                if path.flight() == 0 && forward_tsn != Some(id) {
                    path.stop_t3_rtx();
                }
            }
        };
        self.outstanding.reschedule(now, to, is_late, on_moved)
    }
}
