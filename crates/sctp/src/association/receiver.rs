//! The receiving half of an association (RFC 9260 section 6.2): puts together which TSNs came,
//! their reassembly, the order within streams, the window that we advertise, and when to
//! acknowledge.

mod forward_tsn;
mod nr_sack;
mod window;

use std::time::Instant;

use bytes::Bytes;

use super::acknowledge::{Acknowledgement, PacketSummary};
use super::message_key::MessageKey;
use super::path_id::PathId;
use super::reassembly::{CompletedMessage, Fragment, Reassembly, ReassemblyError, reassembly};
use super::received_data::ReceivedData;
use super::received_tsns::{Arrival, Bounds, ReceivedTsns};
use super::shared_copies::{MAX_HELD_TO_PAYLOAD, SharedCopies};
use super::stream_set::StreamSet;
use super::streams::{InboundStreams, NumberReused};
use crate::packet::{ChunkType, PacketWriter, Sack, Tsn};
use crate::{AssociationConfig, Extensions, ReceivedMessage};
pub(crate) use forward_tsn::{Forwarding, Skip};
use nr_sack::NonRenegable;
use window::least_window;

/// What became of a DATA or I-DATA chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reception {
    /// Taken.
    Accepted,
    /// Had been received before.
    Duplicate,
    /// Dropped, because there is no room for it; the peer will send it again.
    NoRoom,
    /// Dropped, because its TSN is too far ahead or there are too many holes.
    OutOfReach,
    /// Acknowledged and thrown away: there is no such stream (section 6.5).
    InvalidStream,
}

/// A DATA or I-DATA chunk that ends the association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FatalData {
    /// It has no user data (section 6.2).
    NoUserData,
    /// Its message is larger than we take.
    MessageTooLarge,
    /// There is no room for it, and never will be.
    NoRoom,
    /// It contradicts others.
    Violation(&'static str),
}

/// After so many packets with DATA from one path, data is taken to come over one path only.
const MAX_PACKETS_ON_PATH: u32 = 100;

/// Why there is no room for a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FullBuffer {
    /// The association holds all that it may.
    Association,
    /// All associations together do.
    Endpoint,
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    tsns: ReceivedTsns,
    /// The peer sends I-DATA, and no DATA (RFC 8260 section 2.2.1).
    interleaved: bool,
    reassembly: Box<dyn Reassembly>,
    streams: InboundStreams,
    acknowledgement: Acknowledgement,
    /// What came in the packet that is being handled.
    packet: PacketSummary,
    /// Its small messages are copied to there.
    copies: SharedCopies,
    /// Where the last DATA came from; `None` before the first.
    data_path: Option<PathId>,
    /// Packets with DATA that have come from there without any from elsewhere.
    packets_on_path: u32,
    /// Bytes of user data held.
    buffered: usize,
    /// Bytes of it that arrived above the cumulative TSN and were held back, since the last time
    /// that there was no hole: at least as much as [`Self::renege`] frees.
    out_of_order: usize,
    /// What is left of the window in the last SACK.
    promised: usize,
    /// The user was told that there is something to receive.
    readable_reported: bool,
    /// The ends of these messages will never be delivered, although parts of them were.
    aborted: Vec<MessageKey>,
    /// Of interleaved messages, no part could be delivered when all were looked at, and nothing has
    /// changed that since.
    no_part_is_next: bool,
    /// The peer has skipped messages: more fragments of them may be on their way.
    has_skipped: bool,
    /// Chunks taken back in favour of others that filled holes, and not told yet.
    reneged: u64,
    /// Bytes of the chunk that comes next, if it was dropped because all associations together hold
    /// too much, and the user has nothing to receive that would make room.
    starved: Option<usize>,
    /// What NR-SACKs tell, where both sides have agreed on them.
    non_renegable: Option<Box<NonRenegable>>,
}

impl Receiver {
    /// A receiver for a peer whose first TSN will be `initial`, on `streams` streams. `interleaved` says
    /// whether it sends I-DATA.
    pub(crate) fn new(
        initial: Tsn,
        streams: u16,
        interleaved: bool,
        config: &AssociationConfig,
    ) -> Receiver {
        Receiver {
            tsns: ReceivedTsns::new(initial, bounds_of(config)),
            interleaved,
            reassembly: reassembly(interleaved, initial, config.max_message_size),
            streams: InboundStreams::new(streams, interleaved),
            acknowledgement: Acknowledgement::new(),
            packet: PacketSummary::default(),
            copies: SharedCopies::default(),
            data_path: None,
            packets_on_path: MAX_PACKETS_ON_PATH,
            buffered: 0,
            out_of_order: 0,
            promised: config.a_rwnd as usize,
            readable_reported: false,
            aborted: Vec::new(),
            no_part_is_next: false,
            has_skipped: false,
            reneged: 0,
            starved: None,
            non_renegable: None,
        }
    }

    /// Learns what both sides have agreed on, before anything comes.
    pub(crate) fn agree_on(&mut self, extensions: Extensions, config: &AssociationConfig) {
        if extensions.nr_sack {
            self.begin_nr_sacks(config);
        }
    }

    fn begin_nr_sacks(&mut self, config: &AssociationConfig) {
        let kept = NonRenegable::new(self.tsns.cumulative(), bounds_of(config));
        self.non_renegable = Some(Box::new(kept));
        self.streams.note_delivered();
    }

    /// Takes up settings that have changed. What is held beyond new bounds stays.
    pub(crate) fn reconfigured(&mut self, config: &AssociationConfig) {
        self.tsns.set_bounds(bounds_of(config));
        if let Some(kept) = &mut self.non_renegable {
            kept.set_bounds(bounds_of(config));
        }
        self.reassembly
            .set_max_message_size(config.max_message_size);
        self.join_fragments(config);
    }

    /// Begins anew for a peer that restarted; messages that were ready stay.
    pub(crate) fn restart(
        &mut self,
        initial: Tsn,
        streams: u16,
        interleaved: bool,
        config: &AssociationConfig,
    ) {
        let mut fresh = Receiver::new(initial, streams, interleaved, config);
        fresh.aborted = self.streams.close();
        while let Some(message) = self.streams.pop() {
            fresh.streams.keep_ready(message);
        }
        fresh.buffered = fresh.streams.ready_bytes();
        fresh.readable_reported = self.readable_reported;
        *self = fresh;
    }

    /// Forgets everything but the messages that are ready: the association is over.
    pub(crate) fn close(&mut self) {
        self.aborted = self.streams.close();
        self.tsns = ReceivedTsns::new(Tsn(0), Bounds::default());
        self.reassembly = reassembly(self.interleaved, Tsn(0), 0);
        self.acknowledgement = Acknowledgement::new();
        self.copies.end_packet();
        self.buffered = self.streams.ready_bytes();
        self.out_of_order = 0;
        self.starved = None;
        self.non_renegable = None;
    }

    /// The messages of which parts were delivered, and whose ends will never be; each said once.
    pub(crate) fn take_aborted(&mut self) -> Vec<MessageKey> {
        std::mem::take(&mut self.aborted)
    }

    /// How many streams the peer may use.
    pub(crate) fn streams(&self) -> u16 {
        self.streams.count()
    }

    /// Bytes of user data held.
    pub(crate) fn buffered(&self) -> usize {
        self.buffered
    }

    /// Bytes of user data held that the user cannot receive yet: of messages that are not whole, or
    /// before their turn.
    pub(crate) fn held_back(&self) -> usize {
        self.buffered - self.streams.ready_bytes()
    }

    /// How much is needed for the chunk that comes next, where nothing else but room in the endpoint
    /// keeps it out; said once.
    pub(crate) fn take_starved(&mut self) -> Option<usize> {
        self.starved.take()
    }

    /// Bytes of user data that [`Self::renege`] may free, at most.
    pub(crate) fn out_of_order(&self) -> usize {
        self.out_of_order
    }

    /// The last TSN before the first hole.
    pub(crate) fn cumulative(&self) -> Tsn {
        self.tsns.cumulative()
    }

    /// How many chunks were taken back in favour of others that filled holes; each told once.
    pub(crate) fn take_reneged(&mut self) -> u64 {
        std::mem::take(&mut self.reneged)
    }

    /// Whether `tsn` is missing below others that have arrived.
    pub(crate) fn misses(&self, tsn: Tsn) -> bool {
        tsn < self.tsns.highest() && self.tsns.classify(tsn) == Arrival::New
    }

    /// Takes in a DATA or I-DATA chunk of `packet` that came on `path`. `budget` is how many more bytes
    /// the endpoint may hold.
    pub(crate) fn handle_data(
        &mut self,
        data: &ReceivedData<'_>,
        packet: &Bytes,
        path: PathId,
        budget: usize,
        config: &AssociationConfig,
    ) -> Result<Reception, FatalData> {
        // RFC 8260 section 2.2.3.
        match (data.interleaved, self.interleaved) {
            (false, true) => return Err(FatalData::Violation("DATA in place of I-DATA")),
            (true, false) => return Err(FatalData::Violation("I-DATA in place of DATA")),
            _ => {}
        }
        if data.user_data.is_empty() {
            return Err(FatalData::NoUserData);
        }
        self.packet.data = true;
        self.packet.immediate |= data.immediate;
        if self.data_path.is_some_and(|before| before != path) {
            self.packets_on_path = 0;
        }
        self.data_path = Some(path);
        match self.tsns.classify(data.tsn) {
            Arrival::New => {}
            Arrival::Duplicate => {
                self.packet.duplicate = true;
                self.tsns.record_duplicate(data.tsn);
                return Ok(Reception::Duplicate);
            }
            Arrival::OutOfReach => {
                self.packet.dropped = true;
                return Ok(Reception::OutOfReach);
            }
        }
        if data.stream >= self.streams.count() {
            self.record_discarded(data.tsn);
            return Ok(Reception::InvalidStream);
        }
        if !(data.beginning && data.ending)
            && let Some(freed) =
                self.reassembly
                    .skip_fragment(data.tsn, data.beginning, data.ending)
        {
            self.record_discarded(data.tsn);
            self.buffered -= freed;
            return Ok(Reception::Accepted);
        }
        let size = data.user_data.len();
        if let Err(full) = self.find_room_for(data.tsn, size, budget, config) {
            self.packet.dropped = true;
            self.refused(data.tsn, size, full, config)?;
            return Ok(Reception::NoRoom);
        }
        if self.interleaved && self.streams.is_over(data.message(), data.tsn) {
            if !self.has_skipped {
                return Err(NUMBER_REUSED);
            }
            self.record_discarded(data.tsn);
            return Ok(Reception::Accepted);
        }
        // A slice of a packet holds all of it in memory.
        let payload = if size.saturating_mul(MAX_HELD_TO_PAYLOAD) < packet.len() {
            let end = data.user_data.as_ptr_range().end as usize;
            let rest = (packet.as_ptr_range().end as usize).saturating_sub(end);
            self.copies.copy(data.user_data, rest)
        } else {
            data.user_data_in(packet)
        };
        let message = if data.beginning && data.ending {
            if size > config.max_message_size {
                return Err(FatalData::MessageTooLarge);
            }
            let message = ReceivedMessage {
                stream: data.stream,
                ppid: data.ppid,
                unordered: data.unordered,
                ssn: data.mid.0 as u16,
                payload,
                end_of_record: true,
            };
            Some(CompletedMessage {
                message,
                mid: data.mid,
                tsns: data.tsn.into(),
                is_rest: false,
            })
        } else {
            self.reassemble(data, payload)?
        };
        self.record(data.tsn);
        if data.tsn <= self.tsns.cumulative() {
            self.starved = None;
        }
        self.buffered += size;
        self.promised = self.promised.saturating_sub(size);
        let waiting = self.streams.waiting();
        let is_whole = message.is_some();
        let mut held_back = message.is_none();
        if let Some(completed) = message {
            let CompletedMessage {
                message, mid, tsns, ..
            } = completed;
            let pushed = if completed.is_rest {
                self.streams.push_rest(message, mid, data.tsn, tsns)
            } else {
                self.streams.push(message, mid, data.tsn, tsns)
            };
            pushed.map_err(|_| NUMBER_REUSED)?;
            held_back = self.streams.waiting() > waiting;
        }
        if !self.tsns.has_gaps() {
            self.out_of_order = 0;
        } else if held_back && data.tsn > self.tsns.cumulative() {
            self.out_of_order += size;
        }
        if !self.reassembly.is_empty() {
            if self.reassembly.is_stuck(self.tsns.cumulative()) {
                return Err(FatalData::Violation(
                    "fragments that belong to no whole message",
                ));
            }
            self.join_fragments(config);
            let mut latest = data.message();
            if is_whole {
                latest.mid = self.streams.next_mid(latest.stream);
            }
            self.deliver_part(Some(latest), budget.saturating_sub(size), config);
        }
        Ok(Reception::Accepted)
    }

    /// Sees to it that a chunk for which there was no room does not wait for ever. Only the one that
    /// comes next counts, for without it nothing of what is held can go on; and only when the user
    /// has nothing to receive, for that makes room. Room is made by delivering a part of the message
    /// that the chunk belongs to (section 6.9), else by the endpoint. Where the association alone
    /// holds too much, nothing helps.
    fn refused(
        &mut self,
        tsn: Tsn,
        size: usize,
        full: FullBuffer,
        config: &AssociationConfig,
    ) -> Result<(), FatalData> {
        if tsn != self.tsns.cumulative().next()
            || self.streams.is_ready()
            || self.deliver_part_now(config)
        {
            return Ok(());
        }
        match full {
            FullBuffer::Association => return Err(FatalData::NoRoom),
            FullBuffer::Endpoint => self.starved = Some(size),
        }
        Ok(())
    }

    /// Joins fragments, so that they count less, when the association holds as many as it may: there may
    /// have to be more of them.
    fn join_fragments(&mut self, config: &AssociationConfig) {
        if self.held() >= config.max_received_messages {
            self.reassembly.join_fragments(self.tsns.cumulative());
        }
    }

    /// Delivers what has arrived of a message that is not whole (section 6.9), if it is too large
    /// to wait for its end, or there is no room for a packet more of it and the user has nothing
    /// else to receive that would make some. `latest` is the message to which something has happened.
    fn deliver_part(
        &mut self,
        latest: Option<MessageKey>,
        budget: usize,
        config: &AssociationConfig,
    ) {
        if !self.delivers_parts(config) || self.reassembly.is_empty() {
            return;
        }
        let incomplete = self
            .reassembly
            .incomplete(latest, self.tsns.cumulative())
            .filter(|incomplete| self.streams.may_deliver_part(incomplete.message));
        let must_not_wait = incomplete.filter(|incomplete| {
            incomplete.is_begun || incomplete.held > config.partial_delivery_point
        });
        if let Some(incomplete) = must_not_wait {
            self.deliver_part_of(incomplete.message, config);
        } else if !self.streams.is_ready() && self.window(budget, config) < least_window(config) {
            match incomplete {
                Some(incomplete) => self.deliver_part_of(incomplete.message, config),
                None => self.deliver_part_now(config),
            };
        }
    }

    /// Delivers a part of the message of which most has arrived, where messages may be delivered in parts;
    /// tells whether there was one.
    pub(crate) fn deliver_part_now(&mut self, config: &AssociationConfig) -> bool {
        if !self.delivers_parts(config) || self.no_part_is_next {
            return false;
        }
        let cumulative = self.tsns.cumulative();
        match self.reassembly.largest_part(cumulative, &self.streams) {
            Some(message) => self.deliver_part_of(message, config),
            None => {
                self.no_part_is_next = self.interleaved;
                false
            }
        }
    }

    /// Delivers what has arrived of a message whose turn it is.
    fn deliver_part_of(&mut self, message: MessageKey, config: &AssociationConfig) -> bool {
        let Some(part) = self.reassembly.take_part(message, self.tsns.cumulative()) else {
            return false;
        };
        let interleaved = self.interleaved || config.fragment_interleave;
        self.streams.push_part(message, part, interleaved);
        true
    }

    /// Whether messages may be delivered in parts. Interleaved messages always may when there is no room
    /// for them: there can be one for each stream, and none of them could end. Whoever offers
    /// interleaving can take them so (RFC 8260 sections 2.2.1 and 4.3.1).
    fn delivers_parts(&self, config: &AssociationConfig) -> bool {
        self.interleaved || config.delivers_parts()
    }

    /// Holds what comes on `streams` after `last`, until they are reset.
    pub(crate) fn defer_reset(&mut self, last: Tsn, streams: StreamSet) {
        self.streams.hold_after(last, streams);
    }

    /// Begins anew with the numbers of `streams`, and goes on with what was held for that.
    pub(crate) fn reset_streams(&mut self, streams: &StreamSet) -> Result<(), NumberReused> {
        // It may be the turn of a message of which a part is there.
        self.no_part_is_next = false;
        self.streams.reset(streams)
    }

    /// Begins anew with all numbers; `next` is the TSN of the peer's next chunk. What waits for others is
    /// delivered, and what is not whole is thrown away.
    pub(crate) fn begin_anew(
        &mut self,
        next: Tsn,
        config: &AssociationConfig,
    ) -> Result<(), NumberReused> {
        self.streams.reset(&StreamSet::All)?;
        let sends_nr_sacks = self.non_renegable.is_some();
        self.restart(next, self.streams.count(), self.interleaved, config);
        if sends_nr_sacks {
            self.begin_nr_sacks(config);
        }
        self.acknowledgement.request();
        Ok(())
    }

    /// The peer may use so many more streams.
    pub(crate) fn add_streams(&mut self, more: u16) {
        self.streams.add(more);
    }

    /// Draws the conclusions of a packet after all its chunks.
    pub(crate) fn end_packet(&mut self, now: Instant, config: &AssociationConfig) {
        self.copies.end_packet();
        let mut packet = std::mem::take(&mut self.packet);
        if packet.data {
            self.packets_on_path = self.packets_on_path.saturating_add(1);
        }
        // Where data comes over several paths, gaps are nothing out of the ordinary (DAC, Iyengar 2006).
        packet.gap &= !(config.cmt && self.packets_on_path < MAX_PACKETS_ON_PATH);
        self.acknowledgement
            .packet_received(now, packet, config.sack_delay, config.sack_frequency);
    }

    /// Whether the packet that is being handled held DATA.
    pub(crate) fn packet_has_data(&self) -> bool {
        self.packet.data
    }

    /// Whether the user is to be told that there is something to receive; said once.
    pub(crate) fn take_readable(&mut self) -> bool {
        let news = self.streams.is_ready() && !self.readable_reported;
        self.readable_reported |= news;
        news
    }

    /// Whether messages are ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.streams.is_ready()
    }

    /// The next message for the user. Asks for a SACK when the window has opened by a quarter of
    /// the buffer (section 6.2). `budget` is how many more bytes the endpoint may hold.
    pub(crate) fn receive(
        &mut self,
        budget: usize,
        config: &AssociationConfig,
    ) -> Option<ReceivedMessage> {
        let message = self.streams.pop();
        if let Some(message) = &message {
            let size = message.payload.len();
            self.buffered -= size;
            self.no_part_is_next = false;
            if !self.streams.is_ready() {
                self.deliver_part(None, budget.saturating_add(size), config);
            }
            let a_rwnd = config.a_rwnd as usize;
            let worth_telling = self.promised + (a_rwnd / 4).max(1);
            // The window is never larger than what is free.
            if a_rwnd.saturating_sub(self.buffered) >= worth_telling
                && self.window(budget.saturating_add(size), config) >= worth_telling
            {
                self.acknowledgement.request();
            }
        }
        if !self.streams.is_ready() {
            self.readable_reported = false;
        }
        message
    }

    // --- Acknowledgement ---

    /// Whether a SACK must go out now.
    pub(crate) fn sack_is_due(&self) -> bool {
        self.acknowledgement.is_due()
    }

    /// Whether a SACK could ride on a packet that goes out anyway.
    pub(crate) fn sack_is_wanted(&self) -> bool {
        self.acknowledgement.is_wanted()
    }

    /// The size of the SACK that would be written, in bytes.
    pub(crate) fn sack_size(&self) -> usize {
        if let Some(kept) = &self.non_renegable {
            return self.nr_sack_size(kept);
        }
        Sack::OVERHEAD
            + (self.tsns.gaps().len() + self.tsns.duplicates().len()) * Sack::ENTRY_LENGTH
    }

    /// Where the last DATA came from.
    pub(crate) fn data_path(&self) -> Option<PathId> {
        self.data_path
    }

    /// When SACK.Delay runs out.
    pub(crate) fn sack_deadline(&self) -> Option<Instant> {
        self.acknowledgement.deadline()
    }

    /// Makes the SACK due when its time has come.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.acknowledgement.handle_timeout(now);
    }

    /// Makes a SACK due at once.
    pub(crate) fn request_sack(&mut self) {
        self.acknowledgement.request();
    }

    /// Writes a SACK with as many Gap Ack Blocks, lowest first, and duplicates as fit
    /// (sections 6.2 and 6.7). `budget` is how many more bytes the endpoint may hold. Tells whether
    /// there was room for it.
    pub(crate) fn write_sack(
        &mut self,
        writer: &mut PacketWriter<'_>,
        budget: usize,
        config: &AssociationConfig,
    ) -> bool {
        let window = self.window(budget, config);
        let a_rwnd = u32::try_from(window).unwrap_or(u32::MAX);
        let written = match self.non_renegable.take() {
            None => self.write_plain_sack(writer, a_rwnd, config),
            Some(mut kept) => {
                let written = self.write_nr_sack(&mut kept, writer, a_rwnd, config);
                self.non_renegable = Some(kept);
                written
            }
        };
        if written {
            self.promised = window;
            self.tsns.clear_duplicates();
            self.acknowledgement.sent();
        }
        written
    }

    /// How many packets with DATA a SACK says that it acknowledges, so that the peer counts as many miss
    /// indications (DAC); 0: nothing is said.
    fn packets_to_tell(&self, config: &AssociationConfig) -> u8 {
        if !config.cmt {
            return 0;
        }
        let packets = u8::try_from(self.acknowledgement.packets());
        packets.unwrap_or(u8::MAX).min(Sack::MAX_PACKETS)
    }

    fn write_plain_sack(
        &self,
        writer: &mut PacketWriter<'_>,
        a_rwnd: u32,
        config: &AssociationConfig,
    ) -> bool {
        let Some(room) = writer
            .remaining_for(ChunkType::SACK)
            .checked_sub(Sack::OVERHEAD)
        else {
            return false;
        };
        let entries = room / Sack::ENTRY_LENGTH;
        let gaps = self.tsns.gaps().len().min(entries);
        let duplicates = self.tsns.duplicates().len().min(entries - gaps);
        writer
            .sack(
                self.tsns.cumulative(),
                a_rwnd,
                self.packets_to_tell(config),
                self.tsns.gaps().take(gaps),
                self.tsns.duplicates().iter().copied().take(duplicates),
            )
            .is_ok()
    }

    /// Messages and fragments held.
    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.streams.messages() + self.reassembly.fragments()
    }

    /// Records a TSN whose chunk is thrown away, and of which no more is wanted.
    fn record_discarded(&mut self, tsn: Tsn) {
        self.record(tsn);
        if let Some(kept) = &mut self.non_renegable {
            kept.add(tsn);
        }
    }

    fn record(&mut self, tsn: Tsn) {
        let had_gaps = self.tsns.has_gaps();
        self.tsns.record(tsn);
        if tsn <= self.tsns.cumulative() {
            self.no_part_is_next = false;
        }
        self.packet.gap |= had_gaps || self.tsns.has_gaps();
    }

    fn reassemble(
        &mut self,
        data: &ReceivedData<'_>,
        payload: Bytes,
    ) -> Result<Option<CompletedMessage>, FatalData> {
        self.reassembly
            .insert(Fragment {
                tsn: data.tsn,
                stream: data.stream,
                mid: data.mid,
                fsn: data.fsn,
                ppid: data.ppid,
                unordered: data.unordered,
                beginning: data.beginning,
                ending: data.ending,
                payload,
            })
            .map_err(|error| match error {
                ReassemblyError::Inconsistent => {
                    FatalData::Violation("fragments that contradict each other")
                }
                ReassemblyError::MessageTooLarge => FatalData::MessageTooLarge,
            })
    }
}

const NUMBER_REUSED: FatalData = FatalData::Violation("the number of a message used twice");

fn bounds_of(config: &AssociationConfig) -> Bounds {
    Bounds {
        max_distance: config.max_tsn_distance,
        max_ranges: config.max_gap_ack_blocks,
        max_duplicates: config.max_duplicate_tsns,
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
