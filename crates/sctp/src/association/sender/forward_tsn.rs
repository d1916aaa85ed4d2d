//! The FORWARD-TSN (RFC 3758 section 3.5, rules C3 to C5, A5 and F1 to F3): tells the peer not to wait
//! for what was abandoned.

use std::time::Instant;

use super::Sender;
use crate::association::path_id::PathId;
use crate::association::path_list::Paths;
use crate::packet::{
    ChunkType, ForwardTsn as Chunk, IForwardTsn, PacketWriter, SkippedSsn, Ssn, Tsn,
};

/// What is to be told, and was.
#[derive(Debug, Default)]
pub(super) struct ForwardTsn {
    due: bool,
    /// The one that was sent last, until the peer acknowledges it.
    sent: Option<SentForwardTsn>,
}

#[derive(Debug)]
struct SentForwardTsn {
    new_cumulative_tsn: Tsn,
    /// It told less than was to be skipped, for want of room (rule C4).
    is_lowered: bool,
    at: Instant,
    path: PathId,
}

impl ForwardTsn {
    /// Whether one is to go out.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Where it was sent last.
    pub(super) fn path(&self) -> Option<PathId> {
        self.sent.as_ref().map(|sent| sent.path)
    }
}

impl Sender {
    /// Whether a FORWARD-TSN is to go out: at once, which is within the 200 ms of rule F3.
    pub(crate) fn forward_tsn_is_due(&self) -> bool {
        self.forward_tsn.due
    }

    /// Writes it into a packet that goes out on `path`, if there is room.
    pub(crate) fn write_forward_tsn(
        &mut self,
        now: Instant,
        writer: &mut PacketWriter<'_>,
        path: PathId,
        paths: &mut Paths,
    ) {
        let interleaved = self.queue.is_interleaving();
        let (chunk_type, overhead, entry_length) = if interleaved {
            let overhead = IForwardTsn::OVERHEAD;
            (
                ChunkType::I_FORWARD_TSN,
                overhead,
                IForwardTsn::ENTRY_LENGTH,
            )
        } else {
            (ChunkType::FORWARD_TSN, Chunk::OVERHEAD, Chunk::ENTRY_LENGTH)
        };
        let Some(room) = writer.remaining_for(chunk_type).checked_sub(overhead) else {
            return;
        };
        let (point, skipped) = self.outstanding.skipped(room / entry_length, interleaved);
        if point == self.outstanding.cumulative_ack_point() {
            return;
        }
        let skipped = skipped.into_iter();
        let written = if interleaved {
            writer.i_forward_tsn(point, skipped)
        } else {
            writer.forward_tsn(
                point,
                skipped.map(|skipped| SkippedSsn {
                    stream: skipped.stream,
                    ssn: Ssn(skipped.mid.0 as u16),
                }),
            )
        };
        if written.is_err() {
            return;
        }
        self.forward_tsn = ForwardTsn {
            due: false,
            sent: Some(SentForwardTsn {
                new_cumulative_tsn: point,
                is_lowered: point != self.outstanding.advanced_peer_ack_point(),
                at: now,
                path,
            }),
        };
        // Rule C5.
        if let Some(path) = paths.get_mut(path) {
            path.start_t3_rtx(now);
        }
    }

    /// T3-rtx has expired: what the peer has not acknowledged is told again (rule A5).
    pub(super) fn repeat_forward_tsn(&mut self) {
        self.forward_tsn.due = self.skips_something();
    }

    /// Decides whether a FORWARD-TSN is to go out, after a SACK or when something was abandoned
    /// (rule C3). The same one is told again after a round trip only (rule F2); so is one that had no room
    /// for all, for what did not fit follows when the peer acknowledges it.
    pub(super) fn review_forward_tsn(&mut self, now: Instant, paths: &mut Paths) {
        if !self.skips_something() {
            if self.forward_tsn.sent.take().is_some() {
                stop_idle_timers(paths);
            }
            self.forward_tsn.due = false;
            return;
        }
        let point = self.outstanding.advanced_peer_ack_point();
        let acknowledged = self.outstanding.cumulative_ack_point();
        let sent = self.forward_tsn.sent.as_ref().filter(|sent| {
            sent.new_cumulative_tsn == point
                || (sent.is_lowered && sent.new_cumulative_tsn > acknowledged)
        });
        let Some(sent) = sent else {
            self.forward_tsn.due = true;
            return;
        };
        if let Some(path) = paths.get_mut(sent.path) {
            self.forward_tsn.due |= now.saturating_duration_since(sent.at) >= path.round_trip();
            // The SACK may have stopped it (rule C5).
            path.start_t3_rtx(now);
        } else {
            self.forward_tsn.due = true;
        }
    }

    /// Whether the Advanced.Peer.Ack.Point is beyond the Cumulative TSN Ack Point.
    fn skips_something(&self) -> bool {
        self.outstanding.advanced_peer_ack_point() != self.outstanding.cumulative_ack_point()
    }
}

/// Stops T3-rtx of paths on which nothing is in flight.
pub(super) fn stop_idle_timers(paths: &mut Paths) {
    for path in paths.iter_mut().filter(|path| path.flight() == 0) {
        path.stop_t3_rtx();
    }
}
