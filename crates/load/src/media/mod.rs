//! Media of calls: RTP with G.711 (RFC 3550, RFC 3551), and what became of it.
//!
//! A [`MediaPort`] is a thread with one pair of UDP sockets for any number of calls. It joins the core,
//! [`Media`], to the world; the core does no I/O and knows no clock.
//!
//! ```no_run
//! use load::media::{MediaConfig, MediaPort, MediaStatistics, Mode, Remote};
//! # fn invite(offer: String) -> String { offer }
//!
//! let port = MediaPort::open(MediaConfig::new("127.0.0.1".parse()?))?;
//! // Before the INVITE: the call's own number among the sources, for the offer.
//! let call = port.reserve().ok_or("no room for another call")?;
//! let answer = invite(port.describe(call));
//! // When the answer is there, and when the call is over:
//! port.start(call, Mode::Talk, Remote::read(answer.as_bytes(), true)?, None);
//! let report = port.stop(call);
//!
//! let mut statistics = MediaStatistics::new();
//! statistics.record(&report);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The three calls of a [`MediaPort`] (`reserve`, `start`, `stop`) wait for nothing but a short lock, and
//! may come from any thread. A call that never got an answer is only stopped.
//!
//! # Whose packet is it?
//!
//! All calls of a port share its address, so packets are told apart by where they come from and by their
//! source (SSRC). A peer that names its source in its description (`a=ssrc`, as ours does) is known by
//! that; packets of our own that come back are known by their source, too; any other source belongs to the
//! call whose description named the address it comes from. Where several such calls name one address, a new
//! source goes to the one that has waited longest: sums are right then, single calls may be exchanged. With SRTP it goes to the one
//! with whose keys its packet is authentic.
//! Packets from an address that no description has named are strays, and counted.
//!
//! What SRTP leaves in the clear tells whose packet it is. In a call with keys ([`SrtpKeys`]) a packet of its source that is
//! not authentic counts as rejected, and as nothing else; no other source becomes a call's by such a packet, which is a stray. SRTCP encrypts whom a report is about, so a report is a stray if its sender is not
//! named in a description and has sent no sound.
//!
//! # What is measured
//!
//! Losses, copies and order by sequence numbers (RFC 3550 appendices A.1 and A.3), jitter (section 6.4.1 and
//! appendix A.8), round trips by sender and receiver reports (section 6.4.1), one-way delay by the time that
//! sender reports give to timestamps (which means something between programs with the same clock), and round
//! trips of single packets where the other side echoes.
//!
//! Reports go out when media begin (a unicast session may do so, section 6.2), and after that at random
//! times around [`REPORT_INTERVAL`], since two members never come near the share of the bandwidth that RTCP
//! has (section 6.3.1); the last one says goodbye.

mod clip;
mod epoch;
mod packet_batch;
mod pcap;
mod playback;
mod port;
mod protection;
mod recording;
mod remote;
mod report;
mod stream;
mod table;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::{Rng, RngExt};
use rand_chacha::ChaCha12Rng;

pub use clip::Clip;
pub use epoch::Epoch;
pub use hdrhistogram::Histogram;
pub use media::g711::Law;
pub use media::wav::WavError;
pub use packet_batch::{OutgoingPacket, PacketBatch};
pub use port::{MediaConfig, MediaPort};
pub use protection::{SrtpKeys, crypto_of};
pub use recording::Recording;
pub use remote::{Remote, RemoteError, describe};
pub use report::{MediaReport, MediaStatistics, Times};

use media::rtcp::Compound;
use media::rtp::{self, RtpPacket};
use playback::Playbacks;
use stream::Stream;
pub use table::CallId;
use table::Table;

/// Sound in a packet (RFC 3551 section 4.2).
pub const PACKET_TIME: Duration = Duration::from_millis(20);

/// The mean time between reports of a call: 360 divided by the bandwidth of the session in kbit/s, seconds
/// (RFC 3550 section 6.2). Both sides send 80 kbit/s, with headers of UDP and IP.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(2_250);

/// What a call does with its media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Plays the clip.
    Talk,
    /// Sends back what it hears, octet for octet.
    Echo,
    /// Hears.
    Sink,
}

/// What came that belonged to no call, or was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// Packets of RTP from sources that no call expects.
    pub media: u64,
    /// Reports of sources that no call expects.
    pub control: u64,
    /// Neither RTP nor RTCP.
    pub malformed: u64,
}

/// What is going on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaCounters {
    /// Calls with media now.
    pub open: usize,
    /// Packets of RTP sent, those sent back included.
    pub sent: u64,
    /// Packets of RTP that belonged to calls.
    pub received: u64,
    /// The rest.
    pub strays: Strays,
}

/// The media of many calls on one address: a core.
#[derive(Debug)]
pub struct Media {
    clip: Clip,
    cname: String,
    epoch: Epoch,
    rng: ChaCha12Rng,
    table: Table,
    /// Who sends when. All send with the same interval, and the first packet is due an interval after the
    /// beginning, when its sound is complete: so the earliest is always in front.
    ticks: VecDeque<(Instant, CallId)>,
    reports: BinaryHeap<Reverse<(Instant, CallId)>>,
    /// Who is to say goodbye, and since when.
    goodbyes: VecDeque<(Instant, CallId)>,
    playbacks: Playbacks,
    sends_reports: bool,
    batch: PacketBatch,
    counters: MediaCounters,
}

impl Media {
    /// No call yet. `address` is the host's, as its sources are named by it; at most `capacity` calls at a
    /// time.
    pub fn new(
        address: IpAddr,
        clip: Clip,
        capacity: usize,
        epoch: Epoch,
        mut rng: ChaCha12Rng,
    ) -> Media {
        Media {
            clip,
            cname: remote::cname(address),
            epoch,
            table: Table::new(capacity, &mut rng),
            rng,
            ticks: VecDeque::new(),
            reports: BinaryHeap::new(),
            goodbyes: VecDeque::new(),
            playbacks: Playbacks::default(),
            sends_reports: true,
            batch: PacketBatch::default(),
            counters: MediaCounters::default(),
        }
    }

    /// Whether reports are sent; they are by default.
    pub fn set_reports(&mut self, sends_reports: bool) {
        self.sends_reports = sends_reports;
    }

    /// Makes room for a call and chooses its source; `None` when there are as many as there may be.
    pub fn reserve(&mut self) -> Option<CallId> {
        self.table.reserve(&mut self.rng)
    }

    /// The source that a call sends as; `None` when it is over.
    pub fn ssrc(&self, call: CallId) -> Option<u32> {
        self.table.ssrc(call)
    }

    /// The other side's description is there: media begin. Called again, they go where the new one says,
    /// or stop for as long as the other side listens to nothing. With keys they are protected by SRTP.
    pub fn start(
        &mut self,
        now: Instant,
        call: CallId,
        mode: Mode,
        remote: Remote,
        keys: Option<SrtpKeys>,
    ) {
        let Some(ssrc) = self.table.ssrc(call) else {
            return;
        };
        if let Some(stream) = self.table.stream(call)
            && stream.remote == remote
            && stream.has_keys(keys.as_ref())
        {
            if stream.mode != mode {
                stream.set_mode(now, mode);
                // Who talks already has a later turn.
                if stream.due() == Some(now + PACKET_TIME) {
                    self.ticks.push_back((now + PACKET_TIME, call));
                }
            }
            return;
        }
        let stream = match self.table.take(call) {
            Some(mut stream) => {
                stream.redirect(now, mode, remote, keys);
                stream
            }
            None => {
                let random = (self.rng.next_u32() as u16, self.rng.next_u32());
                self.counters.open += 1;
                if self.sends_reports {
                    self.reports.push(Reverse((now + PACKET_TIME, call)));
                }
                Stream::new(now, ssrc, random, mode, remote, keys)
            }
        };
        // Who talks already has a later turn.
        if stream.due() == Some(now + PACKET_TIME) {
            self.ticks.push_back((now + PACKET_TIME, call));
        }
        self.table.put(call, stream);
    }

    /// A call whose media have begun plays a recording from now on, in place of one that it plays already.
    pub fn play(&mut self, now: Instant, call: CallId, recording: Arc<Recording>) {
        let timestamp = self.rng.next_u32();
        if self
            .table
            .stream(call)
            .is_some_and(|stream| !stream.has_stopped_sending)
        {
            self.playbacks.start(now, call, recording, timestamp);
        }
    }

    /// A recording is played no further until it is [resumed](Media::resume).
    pub fn pause(&mut self, now: Instant, call: CallId) {
        self.playbacks.pause(now, call);
    }

    /// A recording is played on.
    pub fn resume(&mut self, now: Instant, call: CallId) {
        self.playbacks.resume(now, call);
    }

    /// The call says goodbye and plays nothing more, but hears what is under way until it is
    /// [stopped](Media::stop).
    pub fn stop_sending(&mut self, now: Instant, call: CallId) {
        if let Some(stream) = self.table.stream(call)
            && !stream.has_stopped_sending
        {
            stream.has_stopped_sending = true;
            self.playbacks.stop(call);
            // It is written when it can leave: the time that it waited here would be taken for the network's.
            self.goodbyes.push_back((now, call));
        }
    }

    /// The call is over. Tells what its media did; nothing if they never began.
    pub fn stop(&mut self, now: Instant, call: CallId) -> MediaReport {
        let Some(mut stream) = self.table.remove(call) else {
            return MediaReport::default();
        };
        self.counters.open -= 1;
        self.playbacks.stop(call);
        if self.sends_reports && !stream.has_said_goodbye {
            stream.send_report(now, &self.epoch, &self.cname, true, &mut self.batch);
        }
        stream.report()
    }

    /// A packet of RTP or RTCP came.
    pub fn handle_packet(&mut self, now: Instant, from: SocketAddr, octets: &[u8]) {
        if rtp::is_rtcp(octets) {
            self.handle_control(now, from, octets);
            return;
        }
        // The header is never encrypted (RFC 3711 section 3.1).
        let header = rtp::header_octets(octets).and_then(|_| rtp::source_and_sequence(octets));
        let Some((ssrc, sequence)) = header else {
            self.counters.strays.malformed += 1;
            return;
        };
        let Some((stream, opened)) = self.table.find(from, (ssrc, sequence), octets) else {
            self.counters.strays.media += 1;
            return;
        };
        let Some(octets) = opened else {
            return;
        };
        let Some(packet) = RtpPacket::read(&octets) else {
            self.counters.strays.malformed += 1;
            return;
        };
        if Law::of_payload_type(packet.payload_type).is_none() {
            self.counters.strays.media += 1;
            return;
        }
        self.counters.received += 1;
        let is_echoed = stream.handle_rtp(now, &self.epoch, &packet, &octets, &mut self.batch);
        self.counters.sent += u64::from(is_echoed);
    }

    /// Sends what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((due, call)) = self.ticks.pop_front_if(|(due, _)| *due <= now) {
            // Who has stopped talking, and begun again, has another turn.
            let talking = self.table.stream(call);
            let Some(stream) = talking.filter(|stream| stream.due() == Some(due)) else {
                continue;
            };
            stream.tick(now, &self.clip, &mut self.batch);
            self.counters.sent += 1;
            self.ticks.push_back((due + PACKET_TIME, call));
        }
        while let Some(call) = self.playbacks.pop_due(now) {
            if let Some(stream) = self.table.stream(call) {
                self.counters.sent += self.playbacks.send(now, call, stream, &mut self.batch);
            }
        }
        self.say_goodbyes(now);
        while let Some(Reverse((due, call))) = self.reports.peek().copied()
            && due <= now
        {
            self.reports.pop();
            if let Some(stream) = self.table.stream(call)
                && !stream.has_stopped_sending
            {
                stream.send_report(now, &self.epoch, &self.cname, false, &mut self.batch);
                let pause = self.report_pause();
                self.reports.push(Reverse((now + pause, call)));
            }
        }
    }

    /// Sends the goodbyes that are due, and nothing else: for whoever sends no more after that.
    pub fn say_goodbyes(&mut self, now: Instant) {
        for (_, call) in self.goodbyes.drain(..) {
            if let Some(stream) = self.table.stream(call)
                && self.sends_reports
                && !stream.has_said_goodbye
            {
                stream.send_report(now, &self.epoch, &self.cname, true, &mut self.batch);
                stream.has_said_goodbye = true;
            }
        }
    }

    /// When [`handle_timeout`](Media::handle_timeout) is to be called.
    pub fn next_timeout(&self) -> Option<Instant> {
        let tick = self.ticks.front().map(|(due, _)| *due);
        let report = self.reports.peek().map(|Reverse((due, _))| *due);
        let goodbye = self.goodbyes.front().map(|(since, _)| *since);
        let playback = self.playbacks.next_timeout();
        [tick, report, goodbye, playback]
            .into_iter()
            .flatten()
            .min()
    }

    /// Takes the packets that are to be sent, for an empty batch.
    pub fn take_output(&mut self, empty: &mut PacketBatch) {
        empty.clear();
        std::mem::swap(&mut self.batch, empty);
    }

    /// What is going on.
    pub fn counters(&self) -> MediaCounters {
        self.counters
    }

    fn handle_control(&mut self, now: Instant, from: SocketAddr, octets: &[u8]) {
        // Who reports is never encrypted, all else is (RFC 3711 section 3.4).
        let reporter = octets.get(4..8).and_then(|ssrc| ssrc.try_into().ok());
        let reporter = reporter.map(u32::from_be_bytes);
        let known = self.table.find_reported(from, reporter.into_iter());
        let is_known = known.is_some();
        let opened = match known {
            Some(stream) => match stream.open_rtcp(octets) {
                Some(opened) => opened,
                None => return,
            },
            None => octets.into(),
        };
        let Some(compound) = Compound::read(&opened) else {
            // What a stranger has encrypted cannot be read; each compound packet begins with a report (RFC 3550 section 6.1).
            let begins_as_report = matches!(octets, [0x80..=0xbf, 200 | 201, ..]);
            match reporter {
                Some(_) if !is_known && begins_as_report => self.counters.strays.control += 1,
                _ => self.counters.strays.malformed += 1,
            }
            return;
        };
        let was_protected = matches!(opened, Cow::Owned(_));
        for report in &compound.reports {
            let blocks = report.blocks.iter().map(|block| block.ssrc);
            let about = blocks.chain([report.ssrc]);
            match self.table.find_reported(from, about) {
                Some(stream) if stream.has_keys(None) || was_protected => {
                    stream.handle_report(now, &self.epoch, report);
                }
                _ => self.counters.strays.control += 1,
            }
        }
    }

    /// Half to one and a half times the interval, and a little less, as the steps 4 and 5 of RFC 3550
    /// section 6.3.1 have it.
    fn report_pause(&mut self) -> Duration {
        const COMPENSATION: f64 = std::f64::consts::E - 1.5;
        let factor: f64 = self.rng.random_range(0.5..1.5);
        REPORT_INTERVAL.mul_f64(factor / COMPENSATION)
    }
}

#[cfg(test)]
mod tests;
