//! Recordings that calls play.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use super::packet_batch::PacketBatch;
use super::recording::Recording;
use super::stream::Stream;
use super::table::CallId;

/// What calls play, one recording each: another one takes its place.
#[derive(Debug, Default)]
pub(super) struct Playbacks {
    playing: HashMap<CallId, Playback>,
    /// When packets are due, with the number of the playback: one that is over has no more.
    due: BinaryHeap<Reverse<(Instant, CallId, u64)>>,
    started: u64,
}

#[derive(Debug)]
struct Playback {
    recording: Arc<Recording>,
    number: u64,
    begun: Instant,
    /// The packet that is next.
    next: u64,
    /// Of the first packet.
    timestamp: u32,
    paused: Option<Instant>,
}

impl Playbacks {
    /// A call plays a recording from now on, whose packets begin with this timestamp.
    pub(super) fn start(
        &mut self,
        now: Instant,
        call: CallId,
        recording: Arc<Recording>,
        timestamp: u32,
    ) {
        self.started += 1;
        let playback = Playback {
            recording,
            number: self.started,
            begun: now,
            next: 0,
            timestamp,
            paused: None,
        };
        self.due.push(Reverse((now, call, playback.number)));
        self.playing.insert(call, playback);
    }

    pub(super) fn pause(&mut self, now: Instant, call: CallId) {
        if let Some(playback) = self.playing.get_mut(&call) {
            playback.paused.get_or_insert(now);
        }
    }

    /// It goes on where it was paused.
    pub(super) fn resume(&mut self, now: Instant, call: CallId) {
        if let Some(playback) = self.playing.get_mut(&call)
            && let Some(paused) = playback.paused.take()
        {
            playback.begun += now.saturating_duration_since(paused);
            self.started += 1;
            playback.number = self.started;
            self.due.push(Reverse((now, call, playback.number)));
        }
    }

    pub(super) fn stop(&mut self, call: CallId) {
        self.playing.remove(&call);
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((due, ..))| *due)
    }

    /// The call whose packet is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<CallId> {
        while let Some(Reverse((due, call, number))) = self.due.peek().copied()
            && due <= now
        {
            self.due.pop();
            let playback = self.playing.get(&call);
            if playback.is_some_and(|one| one.number == number && one.paused.is_none()) {
                return Some(call);
            }
        }
        None
    }

    /// Sends the packets of a call that are due. Returns how many.
    pub(super) fn send(
        &mut self,
        now: Instant,
        call: CallId,
        stream: &mut Stream,
        batch: &mut PacketBatch,
    ) -> u64 {
        let Some(playback) = self.playing.get_mut(&call) else {
            return 0;
        };
        let mut sent = 0;
        loop {
            let Some(packet) = playback.recording.packet(playback.next) else {
                self.playing.remove(&call);
                return sent;
            };
            let due = playback.begun + packet.at;
            if due > now {
                self.due.push(Reverse((due, call, playback.number)));
                return sent;
            }
            let first = playback.timestamp;
            let timestamp = packet.renumbered.map(|later| first.wrapping_add(later));
            stream.send_recorded(packet.octets, timestamp, batch);
            playback.next += 1;
            sent += 1;
        }
    }
}
