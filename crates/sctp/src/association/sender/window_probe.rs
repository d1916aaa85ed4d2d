//! The zero window probe (RFC 9260 section 6.1 A): one chunk that leaves although the peer's window
//! is closed, so that we learn when it opens.

use std::time::Instant;

use super::Sender;
use crate::association::path_id::PathId;
use crate::association::path_list::Paths;
use crate::packet::Tsn;

/// The zero window probe (section 6.1 A).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowProbe {
    /// There is no need for one.
    None,
    /// The window is closed; a probe may leave then.
    At(Instant),
    /// One chunk may leave although the window is closed.
    Due,
    /// This chunk left although the window was closed.
    Sent(Tsn),
}

impl Sender {
    /// When a zero window probe is due.
    pub(crate) fn probe_timeout(&self) -> Option<Instant> {
        match self.probe {
            WindowProbe::At(at) => Some(at),
            _ => None,
        }
    }

    /// Lets the probe leave when its time has come.
    pub(crate) fn handle_probe_timeout(&mut self, now: Instant) {
        if self.probe_timeout().is_some_and(|at| at <= now) {
            self.probe = WindowProbe::Due;
        }
    }

    /// Starts waiting for a zero window probe when the window is closed and nothing is
    /// outstanding whose timer would find out that it opened.
    pub(crate) fn watch_window(&mut self, now: Instant, path: PathId, paths: &Paths) {
        let blocked = self.outstanding.is_empty()
            && !self.queue.is_empty()
            && self.probe == WindowProbe::None
            && self
                .next_size(paths)
                .is_some_and(|size| size > self.peer_rwnd());
        if blocked && let Some(path) = paths.get(path) {
            self.probe = WindowProbe::At(now + path.rto());
        }
    }

    /// Looks at the probe after a SACK: when the window is open again, one that was dropped goes
    /// out at once, not when its timer expires.
    pub(super) fn update_probe(&mut self, cumulative: Tsn, paths: &mut Paths) {
        match self.probe {
            WindowProbe::None => {}
            WindowProbe::Sent(tsn) if tsn <= cumulative => self.probe = WindowProbe::None,
            WindowProbe::Sent(tsn) => {
                let size = self.outstanding.size(tsn).unwrap_or(0);
                if self.peer_window >= size {
                    self.probe = WindowProbe::None;
                    for path in paths.iter_mut() {
                        let id = path.id();
                        self.outstanding
                            .mark_lost_on(id, id, |size| path.chunk_left_flight(size));
                        if path.flight() == 0 {
                            path.stop_t3_rtx();
                        }
                    }
                }
            }
            WindowProbe::At(_) | WindowProbe::Due => {
                if self
                    .next_size(paths)
                    .is_none_or(|size| size <= self.peer_rwnd())
                {
                    self.probe = WindowProbe::None;
                }
            }
        }
    }
}
