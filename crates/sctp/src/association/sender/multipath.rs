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

    /// The path on which the chunk is in flight that all others wait for.
    pub(crate) fn blocking_path(&self) -> Option<PathId> {
        self.outstanding.blocking_path()
    }

    /// Has the chunks that all others wait for, which are in flight on the path `from`, sent again on the path `to`, as
    /// many as a packet with `room` bytes for them holds, where `is_late` says so. Tells whether there are any.
    pub(crate) fn reschedule(
        &mut self,
        now: Instant,
        [from, to]: [PathId; 2],
        room: usize,
        paths: &mut Paths,
        is_late: impl FnMut(Instant, bool) -> bool,
    ) -> bool {
        let Some(path) = paths.get_mut(from) else {
            return false;
        };
        let mut any = false;
        let on_moved = |size| {
            any = true;
            path.chunk_left_flight(size);
        };
        self.outstanding
            .reschedule(now, [from, to], room, is_late, on_moved);
        // A FORWARD-TSN waits for its acknowledgement still (RFC 3758 section 3.5, rule C5).
        if path.flight() == 0 && self.forward_tsn.path() != Some(from) {
            path.stop_t3_rtx();
        }
        any
    }
}
