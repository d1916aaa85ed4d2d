//! One call's media: what it sends, what it receives, its reports.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::packet_batch::PacketBatch;
use super::protection::{Contexts, Protection, SrtpKeys};
use super::remote::Remote;
use super::report::MediaReport;
use super::{Clip, Epoch, Mode, PACKET_TIME};
use media::g711::CLOCK_RATE;
use media::reception::{Arrival, Counts, Reception};
use media::rtcp::{self, Report, ReportBlock, SenderInfo};
use media::rtp::RtpPacket;

/// Samples in a packet, which are its octets, too.
const PACKET_SAMPLES: u32 = CLOCK_RATE / 50;

/// A round trip that takes longer is none.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(60);

/// How far the difference of two rounded times may be below zero: a tick of the timestamp and two units of
/// 1/65,536 s.
const ROUNDING: Duration = Duration::from_micros(156);

/// The media of a call that has begun.
#[derive(Debug)]
pub(super) struct Stream {
    /// Whose packets ours are.
    pub(super) ssrc: u32,
    pub(super) mode: Mode,
    pub(super) remote: Remote,
    /// Where there are keys, nothing goes out or is taken without.
    protection: Option<Box<Protection>>,
    /// Of keys that were in use.
    contexts: Contexts,
    /// Of the next packet, whatever plays it.
    sequence: u16,
    voice: Option<Voice>,
    /// Whether it plays and reports nothing more, but says goodbye.
    pub(super) has_stopped_sending: bool,
    /// Whether it has done that.
    pub(super) has_said_goodbye: bool,
    /// What we sent before the other side held the call.
    paused: Option<Voice>,
    source: Option<Source>,
    /// Of sources that were there before this one.
    earlier: Counts,
    report: MediaReport,
    /// How many packets had been sent at the last report but one, and at the last one.
    sent_at_reports: [u64; 2],
}

/// What we send.
#[derive(Debug)]
struct Voice {
    /// When the first sample was taken.
    started: Instant,
    /// When the next packet is complete.
    due: Instant,
    /// Of the first packet.
    timestamp: u32,
    packets: u64,
    position: usize,
}

/// Who sends to us.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) address: SocketAddr,
    pub(super) ssrc: u32,
    reception: Reception,
    sender_report: Option<(SenderInfo, Instant)>,
    /// Packets that had come when we last reported.
    reported: u64,
}

impl Stream {
    /// Media that begin now: `sequence` and `timestamp` are random (RFC 3550 section 5.1), the sequence number from the first
    /// half, so that no rollover is missed under a key (RFC 4568 section 6.4).
    pub(super) fn new(
        now: Instant,
        ssrc: u32,
        (sequence, timestamp): (u16, u32),
        mode: Mode,
        remote: Remote,
        keys: Option<SrtpKeys>,
    ) -> Stream {
        let mut stream = Stream {
            ssrc,
            mode,
            remote,
            protection: None,
            contexts: Contexts::default(),
            sequence: sequence >> 1,
            voice: None,
            has_stopped_sending: false,
            has_said_goodbye: false,
            paused: Some(Voice {
                started: now,
                due: now,
                timestamp,
                packets: 0,
                position: 0,
            }),
            source: None,
            earlier: Counts::default(),
            report: MediaReport::default(),
            sent_at_reports: [0; 2],
        };
        stream.redirect(now, mode, remote, keys);
        stream
    }

    /// The other side wants its media elsewhere, or by other keys, or holds the call, or goes on.
    pub(super) fn redirect(
        &mut self,
        now: Instant,
        mode: Mode,
        remote: Remote,
        keys: Option<SrtpKeys>,
    ) {
        self.remote = remote;
        if !self.has_keys(keys.as_ref()) {
            if let Some(protection) = self.protection.take() {
                self.contexts.keep(*protection);
            }
            self.protection = keys.map(|keys| Box::new(self.contexts.protection(keys)));
        }
        self.report.is_protected |= self.protection.is_some();
        self.leave_source();
        self.set_mode(now, mode);
    }

    /// Whether these are the keys in use.
    pub(super) fn has_keys(&self, keys: Option<&SrtpKeys>) -> bool {
        self.protection.as_deref().map(Protection::keys) == keys
    }

    /// Does another thing with the same other side.
    pub(super) fn set_mode(&mut self, now: Instant, mode: Mode) {
        self.mode = mode;
        let talks = mode == Mode::Talk && self.remote.listens;
        if talks && let Some(paused) = self.paused.take() {
            self.voice = Some(paused.resume(now));
        } else if !talks {
            self.paused = self.voice.take().or(self.paused.take());
        }
    }

    /// When the next packet is due, of those that talk.
    pub(super) fn due(&self) -> Option<Instant> {
        let voice = self.voice.as_ref().filter(|_| !self.has_stopped_sending);
        voice.map(|voice| voice.due)
    }

    pub(super) fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// Whether the signalling has told that packets of this source from this address are the call's.
    pub(super) fn is_expected(&self, address: SocketAddr, ssrc: u32) -> bool {
        let is_known = ssrc == self.ssrc || self.remote.ssrc.is_none_or(|told| told == ssrc);
        is_known && address == self.remote.rtp
    }

    /// From now on this is the source; what the one before did is kept.
    pub(super) fn hear(&mut self, address: SocketAddr, ssrc: u32, sequence: u16) {
        let known = self.is_expected(address, ssrc);
        self.leave_source();
        self.source = Some(Source {
            address,
            ssrc,
            reception: Reception::new(CLOCK_RATE, sequence, known),
            sender_report: None,
            reported: 0,
        });
    }

    /// Sends the packet that is due.
    pub(super) fn tick(&mut self, now: Instant, clip: &Clip, batch: &mut PacketBatch) {
        let Some(voice) = &mut self.voice else {
            return;
        };
        let lateness = now.saturating_duration_since(voice.due);
        self.report.lateness.add(lateness);
        let packet = RtpPacket {
            // Silence is sent, too (RFC 3551 section 4.1).
            marker: false,
            payload_type: self.remote.codec.payload_type(),
            sequence: self.sequence,
            timestamp: voice.next_timestamp(),
            ssrc: self.ssrc,
            payload: &[],
        };
        let (codec, position) = (self.remote.codec, voice.position);
        let write = |octets: &mut Vec<u8>| {
            packet.write_header(octets);
            clip.play(codec, position, PACKET_SAMPLES as usize, octets)
        };
        voice.position = push(
            self.protection.as_deref_mut(),
            self.remote.rtp,
            batch,
            write,
        );
        self.sequence = self.sequence.wrapping_add(1);
        voice.packets += 1;
        voice.due += PACKET_TIME;
        self.report.sent += 1;
    }

    /// Sends a packet of a recording: as it is, or as this call's next one with so much added to its timestamp.
    pub(super) fn send_recorded(
        &mut self,
        packet: &[u8],
        later: Option<u32>,
        batch: &mut PacketBatch,
    ) {
        match later.zip(RtpPacket::read(packet)) {
            Some((later, read)) => {
                let packet = RtpPacket {
                    sequence: self.sequence,
                    timestamp: read.timestamp.wrapping_add(later),
                    ssrc: self.ssrc,
                    ..read
                };
                let protection = self.protection.as_deref_mut();
                push(protection, self.remote.rtp, batch, |octets| {
                    packet.write(octets);
                });
                self.sequence = self.sequence.wrapping_add(1);
            }
            // Another source's, which was captured as it goes over the wire.
            None => batch.push(self.remote.rtp, |octets| octets.extend_from_slice(packet)),
        }
        self.report.sent += 1;
    }

    /// The packet of RTP in what came; `None` where it is not authentic.
    pub(super) fn try_rtp<'a>(&mut self, octets: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match &mut self.protection {
            Some(protection) => protection.open_rtp(octets).ok(),
            None => Some(octets.into()),
        }
    }

    /// The same of a source that is the call's: it is counted where it is not authentic.
    pub(super) fn open_rtp<'a>(&mut self, octets: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let opened = self.try_rtp(octets);
        self.report.rejected += u64::from(opened.is_none());
        opened
    }

    /// The same for RTCP.
    pub(super) fn open_rtcp<'a>(&mut self, octets: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let Some(protection) = &mut self.protection else {
            return Some(octets.into());
        };
        let opened = protection.open_rtcp(octets).ok();
        self.report.rejected += u64::from(opened.is_none());
        opened
    }

    /// A packet of this call's source came; `octets` is all of it, without protection. Returns whether it is sent back.
    pub(super) fn handle_rtp(
        &mut self,
        now: Instant,
        epoch: &Epoch,
        packet: &RtpPacket<'_>,
        octets: &[u8],
        batch: &mut PacketBatch,
    ) -> bool {
        let Some(source) = &mut self.source else {
            return false;
        };
        let arrival = source
            .reception
            .arrived(now, packet.sequence, packet.timestamp);
        // A copy is not: where the other side sends back, too, a packet would go round for ever.
        let is_echoed = self.mode == Mode::Echo && arrival != Arrival::Copy;
        if is_echoed {
            let protection = self.protection.as_deref_mut();
            push(protection, self.remote.rtp, batch, |into| {
                into.extend_from_slice(octets);
            });
            self.report.echoed += 1;
        }
        if arrival != Arrival::New {
            return is_echoed;
        }
        if packet.ssrc == self.ssrc {
            if let Some(sent) = self.voice.as_ref().and_then(|voice| voice.sent_at(packet)) {
                self.report.echo.add(now.saturating_duration_since(sent));
            }
        } else if let Some((info, _)) = &source.sender_report {
            let samples = u32::try_from(packet.payload.len()).unwrap_or(0);
            let ticks = packet
                .timestamp
                .wrapping_add(samples)
                .wrapping_sub(info.rtp) as i32;
            let complete = epoch.seconds(info.ntp) + f64::from(ticks) / f64::from(CLOCK_RATE);
            let delay = epoch.since_start(now) - complete;
            if let Some(delay) = rounded_delay(delay) {
                self.report.one_way.add(delay);
            }
        }
        is_echoed
    }

    /// Another side's report came.
    pub(super) fn handle_report(&mut self, now: Instant, epoch: &Epoch, report: &Report) {
        if let (Some(info), Some(source)) = (report.sender, &mut self.source)
            && source.ssrc == report.ssrc
        {
            source.sender_report = Some((info, now));
            self.report.sent_there = Some(info.packets);
        }
        let ours = report.blocks.iter().find(|block| block.ssrc == self.ssrc);
        if let Some(block) = ours {
            let jitter = f64::from(block.jitter) / f64::from(CLOCK_RATE);
            self.report.lost_there = Some(block.cumulative_lost);
            self.report.jitter_there = Some(Duration::from_secs_f64(jitter));
            if let Some(round_trip) = round_trip(epoch.middle(now), block) {
                self.report.round_trip.add(round_trip);
            }
        }
    }

    /// Reports to the other side: as a sender if it has sent since the last report but one, with a block of what
    /// it has received since the last one (RFC 3550 section 6.4).
    pub(super) fn send_report(
        &mut self,
        now: Instant,
        epoch: &Epoch,
        cname: &str,
        goodbye: bool,
        batch: &mut PacketBatch,
    ) {
        let [_, last] = self.sent_at_reports;
        let before = std::mem::replace(&mut self.sent_at_reports, [last, self.report.sent])[0];
        let voice = self.voice.as_ref().or(self.paused.as_ref());
        let sender = voice.filter(|_| self.report.sent > before);
        let report = Report {
            ssrc: self.ssrc,
            // Counters go round, as the timestamp does.
            sender: sender.map(|voice| SenderInfo {
                ntp: epoch.ntp(now),
                rtp: voice.timestamp_at(now),
                packets: self.report.sent as u32,
                octets: (self.report.sent as u32).wrapping_mul(PACKET_SAMPLES),
            }),
            blocks: self
                .source
                .as_mut()
                .filter(|source| source.ssrc != self.ssrc)
                .and_then(|source| source.block(now))
                .into_iter()
                .collect(),
        };
        let protection = self.protection.as_deref_mut();
        let write = |octets: &mut Vec<u8>| {
            let write = |octets: &mut Vec<u8>| rtcp::write(octets, &report, cname, None, goodbye);
            match protection {
                Some(protection) => protection.seal_rtcp(octets, write),
                None => write(octets),
            }
        };
        // On one port with RTP reports leave by it, too (RFC 5761 section 5.1.1).
        if self.remote.rtcp == self.remote.rtp {
            batch.push(self.remote.rtp, write);
        } else {
            batch.push_control(self.remote.rtcp, write);
        }
    }

    /// What the media did.
    pub(super) fn report(&self) -> MediaReport {
        let mut report = self.report.clone();
        let mut counts = self.earlier;
        if let Some(source) = &self.source {
            counts.add(&source.reception.counts());
            let (jitter, jitter_max) = source.reception.jitter();
            report.jitter = jitter;
            report.jitter_max = report.jitter_max.max(jitter_max);
        }
        report.set_counts(&counts);
        report
    }

    /// Keeps what the source did, and waits for another one.
    fn leave_source(&mut self) {
        if let Some(source) = self.source.take() {
            self.earlier.add(&source.reception.counts());
            let (jitter, jitter_max) = source.reception.jitter();
            self.report.jitter = jitter;
            self.report.jitter_max = self.report.jitter_max.max(jitter_max);
        }
    }
}

/// Appends a packet of RTP, protected where there are keys.
fn push<T>(
    protection: Option<&mut Protection>,
    to: SocketAddr,
    batch: &mut PacketBatch,
    write: impl FnOnce(&mut Vec<u8>) -> T,
) -> T {
    batch.push(to, |octets| match protection {
        Some(protection) => protection.seal_rtp(octets, write),
        None => write(octets),
    })
}

impl Voice {
    fn next_timestamp(&self) -> u32 {
        let samples = (self.packets as u32).wrapping_mul(PACKET_SAMPLES);
        self.timestamp.wrapping_add(samples)
    }

    /// When a packet of ours was to be sent, which is when its last sample was there; `None` for one that
    /// we have not sent.
    fn sent_at(&self, packet: &RtpPacket<'_>) -> Option<Instant> {
        let number = packet.timestamp.wrapping_sub(self.timestamp) / PACKET_SAMPLES;
        let after = PACKET_TIME.checked_mul(number.checked_add(1)?)?;
        (u64::from(number) < self.packets).then(|| self.started + after)
    }

    /// What the timestamp of a sample is that is taken now.
    fn timestamp_at(&self, now: Instant) -> u32 {
        let elapsed = now.saturating_duration_since(self.started).as_secs_f64();
        let ticks = (elapsed * f64::from(CLOCK_RATE)) as u64;
        self.timestamp.wrapping_add(ticks as u32)
    }

    /// Goes on after a pause: numbers follow, and time has passed.
    fn resume(self, now: Instant) -> Voice {
        Voice {
            timestamp: self.timestamp_at(now),
            started: now,
            due: now + PACKET_TIME,
            packets: 0,
            ..self
        }
    }
}

impl Source {
    /// What is reported of it; nothing when nothing has come since the last time.
    fn block(&mut self, now: Instant) -> Option<ReportBlock> {
        let received = self.reception.counts().received;
        if !self.reception.is_valid() || received == self.reported {
            return None;
        }
        self.reported = received;
        let (fraction_lost, cumulative_lost) = self.reception.losses();
        let (last_sender_report, delay_since) = match &self.sender_report {
            None => (0, 0),
            Some((info, at)) => {
                let delay = now.saturating_duration_since(*at).as_secs_f64();
                ((info.ntp >> 16) as u32, (delay * 65_536.0) as u32)
            }
        };
        Some(ReportBlock {
            ssrc: self.ssrc,
            fraction_lost,
            cumulative_lost,
            highest_sequence: self.reception.highest(),
            jitter: self.reception.jitter_ticks() as u32,
            last_sender_report,
            delay_since,
        })
    }
}

/// A − LSR − DLSR (RFC 3550 section 6.4.1); all in units of 1/65,536 s, which go round.
fn round_trip(now: u32, block: &ReportBlock) -> Option<Duration> {
    if block.last_sender_report == 0 {
        return None;
    }
    let units = now
        .wrapping_sub(block.last_sender_report)
        .wrapping_sub(block.delay_since) as i32;
    rounded_delay(f64::from(units) / 65_536.0).filter(|round_trip| *round_trip < MAX_ROUND_TRIP)
}

/// A delay in seconds; what is below zero by no more than rounding is zero.
fn rounded_delay(seconds: f64) -> Option<Duration> {
    if seconds < 0.0 && seconds >= -ROUNDING.as_secs_f64() {
        return Some(Duration::ZERO);
    }
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_round_trip_is_that_of_the_rfcs_figure_2() {
        let block = ReportBlock {
            ssrc: 1,
            fraction_lost: 0,
            cumulative_lost: 0,
            highest_sequence: 0,
            jitter: 0,
            last_sender_report: 0xb705_2000,
            delay_since: 0x0005_4000,
        };
        let delay = round_trip(0xb710_8000, &block);
        assert_eq!(delay, Some(Duration::from_millis(6125)));
        let none = ReportBlock {
            last_sender_report: 0,
            ..block
        };
        assert_eq!(round_trip(0xb710_8000, &none), None);
        assert_eq!(
            round_trip(0, &block),
            None,
            "it would have come before it was sent"
        );
    }

    #[test]
    fn what_rounding_took_is_given_back() {
        assert_eq!(rounded_delay(-0.0001), Some(Duration::ZERO));
        assert_eq!(rounded_delay(-0.001), None);
        assert_eq!(rounded_delay(0.002), Some(Duration::from_millis(2)));
    }
}
