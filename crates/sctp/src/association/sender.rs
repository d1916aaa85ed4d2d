//! The sending half of an association (RFC 9260 sections 6.1, 6.2.1, 6.3.3 and 7.2.4): puts
//! together the queue of messages, the chunks that are outstanding, the peer's window and the
//! paths, and decides what leaves when.

mod abandonment;
mod acknowledgement;
mod copies;
mod forward_tsn;
mod loss_recovery;
mod multipath;
#[cfg(test)]
mod multipath_properties;
mod window_probe;

use std::net::IpAddr;
use std::time::Instant;

use bytes::Bytes;

use super::failed_messages::{FailedMessage, collect_failed};
use super::fast_recovery::FastRecovery;
use super::limit::Limit;
use super::loss::Loss;
use super::loss::f_rto::FRto;
use super::loss::rack_tlp::RackTlp;
use super::message_fragment::overhead;
use super::outstanding::OutstandingData;
use super::path::Path;
use super::path_id::PathId;
use super::path_list::Paths;
use super::stream_set::StreamSet;
use super::transmit_queue::{NextFragment, RemovedMessage, TransmitQueue};
use crate::packet::{ChunkType, CommonHeader, PacketWriter, Tsn};
use crate::{
    AssociationConfig, Extensions, LossDetection, PathState, PrPolicy, SendError, SendInfo,
    StreamError, StreamScheduler,
};
use abandonment::AbandonedCounters;
use copies::{Copies, is_redundant};
use forward_tsn::ForwardTsn;
use window_probe::WindowProbe;

/// Chunks that may be outstanding: the offsets of Gap Ack Blocks have 16 bits (section 3.3.4), and
/// stream sequence numbers have to stay comparable (section 6.1).
const MAX_OUTSTANDING: usize = 32_767;

/// The sending half.
#[derive(Debug)]
pub(crate) struct Sender {
    queue: TransmitQueue,
    outstanding: OutstandingData,
    /// The a_rwnd that the peer said last.
    peer_window: usize,
    /// With RACK-TLP; without it losses are detected by gap reports.
    rack: Option<Box<RackTlp>>,
    f_rto: FRto,
    /// Paths on which losses were detected while little was in flight, until somebody asks.
    thin_losses: Vec<PathId>,
    /// Without RACK-TLP.
    fast_recovery: FastRecovery,
    /// A packet of retransmissions may leave there, whatever the window (section 7.2.4).
    fast_retransmit: Option<PathId>,
    /// What the redundant path scheduler has sent on further paths.
    copies: Copies,
    probe: WindowProbe,
    /// A SACK came since T3-rtx last expired: the peer is there, whatever it acknowledges.
    sack_since_t3_rtx: bool,
    /// A message was refused because the buffer was full, and nobody was told since that there is
    /// room again.
    refused: bool,
    /// Both sides have agreed on it (RFC 3758 section 3.3).
    partial_reliability: bool,
    forward_tsn: ForwardTsn,
    abandoned: AbandonedCounters,
}

/// What sending chunks did, for the counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SentCounts {
    pub(crate) chunks: u64,
    /// The first chunk of the packet.
    pub(crate) first: Option<Tsn>,
    /// The last one.
    pub(crate) last: Option<Tsn>,
    /// Some of them were not sent before.
    pub(crate) has_new: bool,
    pub(crate) retransmitted_by_timeout: u64,
    pub(crate) retransmitted_fast: u64,
    /// Chunks that went again as a tail loss probe.
    pub(crate) probes: u64,
}

/// What a SACK led to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SackOutcome {
    /// Something was acknowledged for the first time.
    pub(crate) progress: bool,
    /// Nothing was acknowledged, for the peer's window is closed, or was: the peer is there, and
    /// what it answers, such as a zero window probe, was sent on that path last (section 6.1 A).
    pub(crate) probed: Option<PathId>,
    /// There is room again after a message was refused.
    pub(crate) writable: bool,
}

/// A SACK that acknowledges what was never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NeverSent;

impl Sender {
    /// A sender whose first TSN is `initial`, on `streams` streams.
    pub(crate) fn new(
        initial: Tsn,
        streams: u16,
        peer_window: u32,
        scheduler: StreamScheduler,
        loss_detection: LossDetection,
    ) -> Sender {
        Sender {
            queue: TransmitQueue::new(streams, scheduler),
            outstanding: OutstandingData::new(initial),
            rack: match loss_detection {
                LossDetection::GapReports => None,
                LossDetection::RackTlp => Some(Box::default()),
            },
            f_rto: FRto::Off,
            thin_losses: Vec::new(),
            peer_window: peer_window as usize,
            fast_recovery: FastRecovery::default(),
            fast_retransmit: None,
            copies: Copies::default(),
            probe: WindowProbe::None,
            sack_since_t3_rtx: false,
            refused: false,
            partial_reliability: false,
            forward_tsn: ForwardTsn::default(),
            abandoned: AbandonedCounters::default(),
        }
    }

    /// Learns what both sides have agreed on.
    pub(crate) fn agree_on(&mut self, extensions: Extensions) {
        self.partial_reliability = extensions.partial_reliability;
        // RFC 8260 section 2.2.1.
        self.queue.set_interleaving(extensions.interleaving);
    }

    /// Learns what the peer allows (section 5.1.1). What had gone out with a COOKIE ECHO before was
    /// thrown away with it, so it counts as never sent; none of it may be in flight any more. Gives
    /// back the messages that have no stream, whole.
    pub(crate) fn learn_peer(&mut self, window: u32, streams: u16) -> Vec<RemovedMessage> {
        self.peer_window = window as usize;
        self.queue.put_back(self.outstanding.take_all());
        self.copies = Copies::default();
        self.forget_transmissions();
        self.forward_tsn = ForwardTsn::default();
        self.probe = WindowProbe::None;
        self.queue.set_streams(self.streams().min(streams))
    }

    /// How many streams there are.
    pub(crate) fn streams(&self) -> u16 {
        self.queue.streams()
    }

    /// Adds so many more streams.
    pub(crate) fn add_streams(&mut self, more: u16) {
        self.queue.add_streams(more);
    }

    // --- Re-configuration (RFC 6525) ---

    /// The TSN that the next new chunk gets.
    pub(crate) fn next_tsn(&self) -> Tsn {
        self.outstanding.next_tsn()
    }

    /// The place of the next message in the order in which they come from the user.
    pub(crate) fn next_place(&self) -> u64 {
        self.queue.next_arrival()
    }

    /// Has no message on these streams begin to leave, but for those in front of `place`.
    pub(crate) fn pause(&mut self, streams: StreamSet, place: u64) {
        self.queue.pause(streams, place);
    }

    /// Ends that.
    pub(crate) fn resume(&mut self) {
        self.queue.resume();
    }

    /// Whether streams are paused, and their numbers may begin anew: no message on them leaves any more,
    /// all that left before is acknowledged, and no FORWARD-TSN that the peer has yet to take in, or that is
    /// still to be sent, may name one of their old numbers.
    ///
    /// A peer puts off a reset until it has the data of before (RFC 6525 section 5.2.2, E2). Waiting here is
    /// better: usrsctp looks whether it has when the next data arrives, and none may come.
    pub(crate) fn has_paused(&self) -> bool {
        let names_old_numbers = || {
            self.outstanding.advanced_peer_ack_point() != self.outstanding.cumulative_ack_point()
                || self.outstanding.has_any(|stream| self.queue.pauses(stream))
        };
        self.queue.has_paused() && !names_old_numbers()
    }

    /// Whether everything that was sent is acknowledged for good.
    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Whether no message has left on these streams since their numbers began.
    pub(crate) fn is_fresh(&self, streams: &StreamSet) -> bool {
        self.queue.is_fresh(streams)
    }

    /// Begins anew with the numbers of these streams.
    pub(crate) fn reset_streams(&mut self, streams: &StreamSet) {
        self.queue.begin_anew(streams);
    }

    /// Begins anew with all numbers; `next` is the TSN of the next chunk. Gives what has begun to leave
    /// and is not acknowledged: it counts for nothing any more.
    pub(crate) fn begin_anew(&mut self, next: Tsn, paths: &mut Paths) -> Vec<FailedMessage> {
        let outstanding = self.outstanding.take_all();
        let failed = collect_failed(outstanding, self.queue.take_begun().into_iter());
        self.outstanding = OutstandingData::new(next);
        self.forget_transmissions();
        self.forward_tsn = ForwardTsn::default();
        self.fast_recovery = FastRecovery::default();
        self.fast_retransmit = None;
        self.copies = Copies::default();
        self.probe = WindowProbe::None;
        for path in paths.iter_mut() {
            path.chunk_left_flight(path.flight());
            path.stop_t3_rtx();
        }
        self.queue.begin_anew(&StreamSet::All);
        failed
    }

    /// Whether all messages are sent and acknowledged for good.
    pub(crate) fn is_finished(&self) -> bool {
        self.queue.is_empty() && self.outstanding.is_empty()
    }

    /// Messages that were not sent completely.
    pub(crate) fn unsent(&self) -> usize {
        self.queue.messages()
    }

    /// Chunks that are not acknowledged for good.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.outstanding.len()
    }

    /// Bytes of user messages held.
    pub(crate) fn buffered(&self) -> usize {
        self.queue.bytes() + self.outstanding.bytes()
    }

    /// The peer's window as we know it: what it said last less what is in flight
    /// (section 6.2.1).
    pub(crate) fn peer_rwnd(&self) -> usize {
        self.peer_window
            .saturating_sub(self.outstanding.bytes_in_flight())
    }

    /// Queues a message. Adds to `gave_way` those that gave way to it (RFC 7496 section 3.2).
    pub(crate) fn send(
        &mut self,
        now: Instant,
        mut info: SendInfo,
        payload: Bytes,
        paths: &mut Paths,
        config: &AssociationConfig,
        gave_way: &mut Vec<FailedMessage>,
    ) -> Result<(), SendError> {
        if payload.is_empty() {
            return Err(SendError::Empty);
        }
        if info.stream >= self.queue.streams() {
            return Err(SendError::InvalidStream);
        }
        if payload.len() > config.max_message_size.min(config.send_buffer) {
            return Err(SendError::TooLarge);
        }
        if info.life_time.is_none() && config.default_pr_policy != PrPolicy::Reliable {
            info.pr_policy = info.pr_policy.or(Some(config.default_pr_policy));
        }
        let missing = (self.buffered() + payload.len()).saturating_sub(config.send_buffer);
        if missing > 0 {
            let freed = self.make_room(now, missing, Limit::of(&info, now), paths);
            if freed.is_empty() {
                self.refused = true;
                return Err(SendError::BufferFull);
            }
            gave_way.extend(freed);
        }
        self.queue.push(now, info, payload);
        Ok(())
    }

    /// Begins anew for a peer that restarted: what it had not acknowledged is gone. Tells whether
    /// there is room again after a message was refused.
    pub(crate) fn restart(&mut self, initial: Tsn, streams: u16, peer_window: u32) -> bool {
        let fresh = Sender::new(
            initial,
            streams,
            peer_window,
            self.queue.scheduler(),
            self.loss_detection(),
        );
        let before = std::mem::replace(self, fresh);
        self.queue = before.queue;
        self.queue.restart(streams);
        self.abandoned = before.abandoned;
        before.refused
    }

    /// Takes out all messages that are not acknowledged: nothing more will come of them.
    pub(crate) fn take_failed(&mut self) -> Vec<FailedMessage> {
        collect_failed(self.outstanding.take_all(), self.queue.take_all())
    }

    /// Forgets everything: the association is over.
    pub(crate) fn close(&mut self) {
        let abandoned = std::mem::take(&mut self.abandoned);
        *self = Sender::new(Tsn(0), 0, 0, self.queue.scheduler(), self.loss_detection());
        self.abandoned = abandoned;
    }

    // --- Scheduling ---

    /// Which scheduler decides whose turn it is.
    pub(crate) fn stream_scheduler(&self) -> StreamScheduler {
        self.queue.scheduler()
    }

    /// Has another scheduler decide.
    pub(crate) fn set_stream_scheduler(&mut self, scheduler: StreamScheduler) {
        self.queue.set_scheduler(scheduler);
    }

    /// The weight or priority of a stream; `None` if there is no such stream.
    pub(crate) fn stream_value(&self, stream: u16) -> Option<u16> {
        (stream < self.streams()).then(|| self.queue.value(stream))
    }

    /// Sets the weight or priority of a stream.
    pub(crate) fn set_stream_value(&mut self, stream: u16, value: u16) -> Result<(), StreamError> {
        if stream >= self.streams() {
            return Err(StreamError::InvalidStream);
        }
        self.queue.set_value(stream, value);
        Ok(())
    }

    /// Whether a message that is not acknowledged for good is authenticated with a shared key.
    pub(crate) fn uses_key(&self, key: u16) -> bool {
        self.outstanding.uses_key(key) || self.queue.uses_key(key)
    }

    // --- Sending ---

    /// Whether there may be something to send: new data, what is marked for retransmission or, with several paths
    /// in use, what goes again on another one; or a FORWARD-TSN.
    #[inline]
    pub(crate) fn may_have_data(&self, config: &AssociationConfig) -> bool {
        !self.queue.is_empty()
            || self.outstanding.has_lost()
            || self.forward_tsn.is_due()
            || (config.cmt && !self.outstanding.is_empty())
    }

    /// Whether a packet with DATA should leave on `path`, with `room` bytes for chunks.
    #[inline]
    pub(crate) fn wants_packet(
        &self,
        path: &Path,
        paths: &Paths,
        room: usize,
        config: &AssociationConfig,
    ) -> bool {
        (self.outstanding.has_lost() || !self.queue.is_empty())
            && self.allows_packet(path, paths, room, config)
    }

    /// Whether such a packet may leave now, if there is DATA for one.
    #[inline]
    fn allows_packet(
        &self,
        path: &Path,
        paths: &Paths,
        room: usize,
        config: &AssociationConfig,
    ) -> bool {
        let allows = path.allows_packet(config) || self.is_probe_due(path.id());
        if self.retransmits_on(path.id(), paths) {
            return self.fast_retransmit == Some(path.id()) || allows;
        }
        allows && self.has_new_data(paths) && !self.is_held_back(path.id(), room, config)
    }

    /// The path on which what is marked for retransmission is to go next.
    pub(crate) fn next_lost_path(&mut self, paths: &Paths) -> Option<PathId> {
        if self.sends_new_first(paths) {
            return None;
        }
        self.outstanding.next_lost_path()
    }

    /// Whether a packet with what is marked for retransmission on `path` may leave now.
    pub(crate) fn may_retransmit_on(
        &self,
        path: PathId,
        paths: &Paths,
        config: &AssociationConfig,
    ) -> bool {
        self.fast_retransmit == Some(path)
            || self.is_probe_due(path)
            || paths
                .get(path)
                .is_some_and(|path| path.allows_packet(config))
    }

    /// Has what was to be sent again on the path `from` sent on the path `to`.
    pub(crate) fn redirect_lost(&mut self, from: PathId, to: PathId) {
        self.outstanding.redirect_lost(from, to);
        if self.fast_retransmit == Some(from) {
            self.fast_retransmit = Some(to);
        }
        if from != to && self.forward_tsn.path() == Some(from) {
            // Its timer may be stopped (RFC 3758 section 3.5, rule C5).
            self.repeat_forward_tsn();
        }
    }

    /// The path `from` is removed: what is in flight there counts as lost, and goes out again on the path
    /// `to`, as does what was to be sent again on it anyway.
    pub(crate) fn forget_path(&mut self, from: PathId, to: PathId) {
        self.outstanding.forget_path(from, to);
        self.copies.forget_path(from);
        if let Some(rack) = &mut self.rack {
            rack.forget_path(from);
        }
        self.fast_retransmit.take_if(|path| *path == from);
        if self.forward_tsn.path() == Some(from) {
            // Its timer is gone (RFC 3758 section 3.5, rule C5).
            self.repeat_forward_tsn();
        }
    }

    /// Where the user wants the next new data to go, if he said so.
    pub(crate) fn next_destination(&self) -> Option<IpAddr> {
        self.queue.next_destination()
    }

    /// The least size of a packet that can carry the next chunk to be retransmitted on `path`, in bytes. It
    /// may exceed the path MTU when that has shrunk: a chunk is never cut again, so IP has to
    /// fragment the packet (section 6.9).
    #[inline]
    pub(crate) fn least_packet(&mut self, path: PathId) -> usize {
        if !self.outstanding.has_lost() {
            return 0;
        }
        self.outstanding
            .next_lost_on(path)
            .map_or(0, |(_, fragment)| {
                CommonHeader::LENGTH + fragment.chunk_size()
            })
    }

    /// Writes DATA or I-DATA chunks into a packet that goes out on `path`: first what is marked for
    /// retransmission, then new ones, as many as fit and may leave (section 6.1). The caller has
    /// asked [`Self::wants_packet`], or sends the packet anyway.
    pub(crate) fn write_data(
        &mut self,
        now: Instant,
        writer: &mut PacketWriter<'_>,
        path: PathId,
        paths: &mut Paths,
        immediate: bool,
        config: &AssociationConfig,
    ) -> SentCounts {
        let mut counts = SentCounts::default();
        let allowed = self.is_probe_due(path)
            || paths
                .get(path)
                .is_some_and(|path| path.allows_packet(config));
        let fast = self.fast_retransmit == Some(path);
        if !allowed && !fast {
            return counts;
        }
        if self.retransmits_on(path, paths) {
            self.write_lost(now, writer, path, paths, &mut counts, config);
        }
        if counts.chunks > 0 && fast {
            self.fast_retransmit = None;
        }
        // RFC 8260 section 3.3.
        let shares_packet = counts.chunks == 0 || !self.queue.keeps_streams_apart();
        let room = writer.remaining_for(self.chunk_type());
        if allowed
            && shares_packet
            && !self.retransmits_on(path, paths)
            && !self.is_held_back(path, room, config)
        {
            self.write_new(now, writer, path, paths, immediate, &mut counts);
            self.queue.end_packet();
        }
        self.data_left(now, path, &counts, paths, config);
        if allowed && shares_packet && is_redundant(config) {
            counts.chunks += self.write_copies(now, writer, path, paths);
        }
        counts
    }

    /// The size of the DATA chunk that would go out next on `path`, if one is there: one to be retransmitted
    /// or else a new one, or a copy.
    pub(crate) fn next_chunk_size(&mut self, path: PathId, paths: &Paths) -> Option<usize> {
        if !self.sends_new_first(paths)
            && let Some((_, fragment)) = self.outstanding.next_lost_on(path)
        {
            return Some(fragment.chunk_size());
        }
        self.next_size(paths)
            .map(|size| (self.overhead() + size).next_multiple_of(4))
            .or_else(|| self.next_copy_size(path))
    }

    /// Puts the sent chunks back to be sent again, as when the COOKIE ECHO that carried them got
    /// no answer.
    pub(crate) fn send_again(&mut self, path: PathId, paths: &mut Paths) {
        if let Some(path_state) = paths.get_mut(path) {
            self.outstanding
                .mark_lost_on(path, path, |size| path_state.chunk_left_flight(size));
            path_state.stop_t3_rtx();
        }
    }

    // --- Acknowledgement ---

    /// Whether there is room again after a message was refused; said once.
    pub(crate) fn take_room_again(&mut self, config: &AssociationConfig) -> bool {
        let room_again = self.refused && self.buffered() < config.send_buffer / 2;
        if room_again {
            self.refused = false;
        }
        room_again
    }

    // --- Timers ---

    /// Whether it counts as an error when T3-rtx expires now: a peer that keeps its window closed
    /// but answers is not unreachable (section 6.1 A). Where a probe or its answer is lost it does
    /// count, until the next answer comes.
    pub(crate) fn t3_rtx_is_error(&self) -> bool {
        !(self.is_window_closed() && self.sack_since_t3_rtx)
    }

    /// T3-rtx of `path` expired (section 6.3.3): everything in flight there is to be sent again, on
    /// the path `next`.
    pub(crate) fn handle_t3_rtx(
        &mut self,
        now: Instant,
        path: PathId,
        next: PathId,
        paths: &mut Paths,
        config: &AssociationConfig,
    ) {
        let window_closed = self.is_window_closed();
        let Some((path_state, coupled)) = paths.get_mut_coupled(path, now) else {
            return;
        };
        let is_probe = matches!(self.probe, WindowProbe::Sent(_));
        path_state.t3_rtx_expired(now, is_probe, coupled, config);
        // The interval between window probes has to grow although the peer answers.
        if !window_closed && next == path {
            path_state.measure_beside_retransmission();
        }
        // RFC 5682 section 3.1: while the first answer is waited for, F-RTO begins anew.
        let first = self.outstanding.cumulative_ack_point().next();
        let was_in_rto_recovery = path_state.is_in_rto_recovery(first);
        let highest = self.outstanding.next_tsn().previous();
        path_state.begin_rto_recovery(highest);
        let was_in_recovery = match self.f_rto {
            FRto::Retransmitted { path: before, .. } if before == path => false,
            _ => was_in_rto_recovery || self.is_in_recovery(path),
        };
        self.lose_copies(path, paths);
        self.fast_recovery.leave(path);
        self.fast_retransmit = None;
        self.lose_by_timeout(now, path, next, paths);
        self.f_rto = if config.recovery.f_rto && !was_in_recovery && !is_probe {
            FRto::begin(path, highest)
        } else {
            FRto::Off
        };
        if next != path {
            // What was to go there, but has not yet, need not wait for another timeout.
            self.outstanding.redirect_lost(path, next);
        }
        self.sack_since_t3_rtx = false;
        self.repeat_forward_tsn();
    }

    /// Whether what is outstanding does not fit into the peer's window.
    fn is_window_closed(&self) -> bool {
        let is_probe = matches!(self.probe, WindowProbe::Sent(_));
        self.outstanding
            .first_size()
            .is_some_and(|size| is_probe || self.peer_window < size)
    }

    /// Where what is outstanding was sent last, if it does not fit into the peer's window.
    fn probed_path(&self) -> Option<PathId> {
        self.is_window_closed().then(|| {
            self.outstanding
                .last_path(self.outstanding.cumulative_ack_point().next())
        })?
    }

    fn write_lost(
        &mut self,
        now: Instant,
        writer: &mut PacketWriter<'_>,
        path: PathId,
        paths: &mut Paths,
        counts: &mut SentCounts,
        config: &AssociationConfig,
    ) {
        let mut stream = None;
        while let Some((tsn, fragment)) = self.outstanding.next_lost_on(path) {
            // RFC 8260 section 3.3.
            if self.queue.keeps_streams_apart()
                && *stream.get_or_insert(fragment.stream) != fragment.stream
            {
                return;
            }
            let chunk_size = fragment.chunk_size();
            // Section 6.1 leaves it to us when to ask for a SACK at once. Beside a gap or for a
            // duplicate it comes at once anyway; where all was lost, its delay would make the
            // recovery longer.
            if !authenticate(writer, fragment.shared_key)
                || fragment.write(tsn, true, writer).is_err()
            {
                return;
            }
            counts.first.get_or_insert(tsn);
            counts.last = Some(tsn);
            for path in paths.iter_mut() {
                path.chunk_was_lost(tsn, config);
            }
            let earliest = self.is_earliest_on(tsn, path);
            let is_new_here = self.outstanding.last_path(tsn) != Some(path);
            self.copies.retransmitted(tsn, path);
            self.confirm_loss(now, tsn, paths, config);
            match self.outstanding.retransmit(now, tsn, path) {
                Some(Loss::Timeout) => counts.retransmitted_by_timeout += 1,
                Some(Loss::FastRetransmit | Loss::Rack | Loss::Unreported) => {
                    counts.retransmitted_fast += 1
                }
                Some(Loss::Probe) => {
                    counts.retransmitted_fast += 1;
                    counts.probes += 1;
                }
                None => {}
            }
            self.chunk_left(now, tsn, path);
            counts.chunks += 1;
            if let Some(path) = paths.get_mut(path) {
                path.chunk_retransmitted(now, chunk_size, earliest);
                if !is_new_here {
                    path.retransmission_stays(now);
                }
            }
        }
    }

    fn write_new(
        &mut self,
        now: Instant,
        writer: &mut PacketWriter<'_>,
        path: PathId,
        paths: &mut Paths,
        immediate: bool,
        counts: &mut SentCounts,
    ) {
        let max = self.max_payload(paths);
        let (chunk_type, overhead) = (self.chunk_type(), self.overhead());
        let Some(path_state) = paths.get_mut(path) else {
            return;
        };
        let mut next = self.queue.next(max);
        let destination = self.queue.next_destination();
        while let Some(NextFragment { size, shared_key }) = next
            && self.may_leave(size)
            && self.queue.next_destination() == destination
        {
            if (overhead + size).next_multiple_of(4) > writer.remaining_for(chunk_type)
                || !authenticate(writer, shared_key)
            {
                return;
            }
            let beyond_window = size > self.peer_rwnd();
            let Some(mut fragment) = self.queue.take(max) else {
                return;
            };
            if !self.partial_reliability {
                fragment.limit = Limit::None;
            }
            let tsn = self.outstanding.next_tsn();
            let chunk_size = fragment.chunk_size();
            // Section 6.1: a delayed SACK would hold up what waits behind a full window.
            next = self.queue.next(max);
            let holds_up = next.is_some_and(|next| {
                path_state.is_filled_by(chunk_size)
                    || self.peer_rwnd().saturating_sub(size) < next.size
            });
            if fragment.write(tsn, immediate || holds_up, writer).is_err() {
                return;
            }
            self.outstanding.push(now, fragment, path);
            self.chunk_left(now, tsn, path);
            counts.first.get_or_insert(tsn);
            counts.last = Some(tsn);
            counts.has_new = true;
            path_state.chunk_sent(now, chunk_size);
            counts.chunks += 1;
            if beyond_window {
                self.probe = WindowProbe::Sent(tsn);
                return;
            }
        }
    }

    /// Whether there is a new chunk that may leave as far as the peer's window is concerned.
    fn has_new_data(&self, paths: &Paths) -> bool {
        self.next_new_size(self.max_payload(paths)).is_some()
    }

    /// The user data of the next new chunk, in bytes, if it may leave as far as the peer's window
    /// is concerned. A chunk is never cut smaller to fit the window (section 6.1 A, RFC 1122
    /// section 4.2.3.4). `max` is what [`Self::max_payload`] gave.
    fn next_new_size(&self, max: usize) -> Option<usize> {
        self.queue
            .next_size(max)
            .filter(|size| self.may_leave(*size))
    }

    fn may_leave(&self, size: usize) -> bool {
        self.outstanding.len() < MAX_OUTSTANDING
            && (size <= self.peer_rwnd()
                || (self.probe == WindowProbe::Due && self.outstanding.is_empty()))
    }

    fn next_size(&self, paths: &Paths) -> Option<usize> {
        self.queue.next_size(self.max_payload(paths))
    }

    /// Whether new data waits for more to come, because less than a packet of it is there and
    /// some is in flight (RFC 9260 section 6.1; RFC 1122 section 4.2.3.4).
    fn is_held_back(&self, path: PathId, room: usize, config: &AssociationConfig) -> bool {
        !config.nodelay
            // What finds out about losses does not wait.
            && !self.f_rto.holds_back()
            && !self.is_probe_due(path)
            && !self.queue.has_unbundled()
            && !self.outstanding.is_empty()
            && self.queue.bytes() + self.overhead() < room
    }

    /// The most user data of a chunk: the Association Maximum DATA Chunk Size (section 7.3) without the
    /// chunk's header.
    fn max_payload(&self, paths: &Paths) -> usize {
        max_chunk(paths)
            .saturating_sub(paths.auth_length() + self.overhead())
            .max(1)
    }

    /// The type of the chunks that carry user data.
    fn chunk_type(&self) -> ChunkType {
        if self.queue.is_interleaving() {
            ChunkType::I_DATA
        } else {
            ChunkType::DATA
        }
    }

    /// What a chunk takes beside its user data and padding.
    fn overhead(&self) -> usize {
        overhead(self.queue.is_interleaving())
    }
}

/// Has a packet authenticated with a key. `false` when it holds what needs another one: then what is
/// next has to wait (RFC 6458 section 8.1.18).
fn authenticate(writer: &mut PacketWriter<'_>, key: Option<u16>) -> bool {
    key.is_none_or(|key| writer.authenticate_with(key).is_ok())
}

/// The Association Maximum DATA Chunk Size (section 7.3). It fits all paths that data may be moved to; one
/// that is not usable does not count, for all its size is not known.
fn max_chunk(paths: &Paths) -> usize {
    if let [path] = paths.as_slice() {
        return path.pmdcs();
    }
    let least = |among: fn(PathState) -> bool| {
        paths
            .iter()
            .filter(|path| among(path.state()))
            .map(Path::pmdcs)
            .min()
    };
    least(|state| matches!(state, PathState::Active | PathState::PotentiallyFailed))
        .or_else(|| least(|_| true))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;
