//! The sound of a call: a thread that sends and plays every 20 ms, and takes what comes in between.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Inbox, Sender as Outbox, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use media::codec::PACKET_TIME;
use media::jitter_buffer::JitterBufferConfig;
use media::quality::Impairments;
use media::receiver::Receiver;
use media::reception::Reception;
use media::rtcp::{self, Compound, Report, ReportBlock, SenderInfo};
use media::rtp::{self, RtpPacket};
use media::sender::{Sender, StreamStart};
use media::telephone_event::Key;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::sdp::Direction;

use crate::device::{Player, Recorder, Source};
use crate::event::CallQuality;
use crate::mixing::{Conference, SpeakerInput};
use crate::negotiation::Negotiated;

/// From one report to the next, on average (RFC 3550 section 6.2).
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// A turn that comes later than this is left out: the computer was asleep.
const TOO_LATE: Duration = Duration::from_secs(1);
/// Packets that are taken between two turns: what is more waits in the socket.
const MAX_PACKETS_A_TURN: usize = 64;
/// Pairs of ports that are tried.
const ATTEMPTS: usize = 64;
/// The seconds from the epoch of NTP timestamps to that of Unix (RFC 3550 section 4).
const NTP_EPOCH: u64 = 2_208_988_800;

/// What is told by the sound of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SoundEvent {
    /// The other side pressed a key.
    Key(char),
    /// What was to be played has been played.
    Played,
    /// How it sounds.
    Quality(CallQuality),
    /// The recording cannot be written any more.
    RecordingFailed,
}

/// What the sound of a call is told.
#[derive(Debug)]
enum Order {
    /// Both sides have agreed on this.
    Start(Box<Negotiated>),
    Keys(Vec<Key>),
    Mute(bool),
    /// In decibels.
    Volume(f32),
    Record(Option<PathBuf>),
}

/// The sound of a call. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct CallSound {
    orders: Outbox<Order>,
    thread: thread::JoinHandle<CallQuality>,
    /// What its events are known by.
    pub(crate) id: u64,
    /// Where our packets come from.
    pub(crate) port: u16,
}

/// What is played and what is recorded.
#[derive(Clone, Debug)]
pub(crate) struct Devices {
    pub(crate) source: Source,
    pub(crate) recording: Option<PathBuf>,
    pub(crate) speaker: SpeakerInput,
    pub(crate) conference: Arc<Conference>,
    pub(crate) quality_interval: Duration,
}

impl CallSound {
    /// Opens the ports of a call. Nothing is sent before [`start`](CallSound::start).
    ///
    /// # Errors
    ///
    /// There are no ports, or no thread.
    pub(crate) fn open(
        address: IpAddr,
        devices: Devices,
        seed: [u8; 32],
        id: u64,
        tell: impl Fn(SoundEvent) + Send + 'static,
    ) -> std::io::Result<CallSound> {
        let (rtp, rtcp) = bind_pair(address)?;
        let port = rtp.local_addr()?.port();
        let (orders, inbox) = channel();
        let thread = thread::Builder::new()
            .name("sound".to_owned())
            .spawn(move || {
                let sound = Sound {
                    rtp,
                    rtcp,
                    devices,
                    tell: Box::new(tell),
                    rng: ChaCha12Rng::from_seed(seed),
                    is_muted: false,
                    gain: 1.0,
                    id,
                };
                sound.carry(&inbox)
            })?;
        Ok(CallSound {
            orders,
            thread,
            id,
            port,
        })
    }

    /// Both sides have agreed, for the first time or on something else.
    pub(crate) fn start(&self, negotiated: Negotiated) {
        let _ = self.orders.send(Order::Start(Box::new(negotiated)));
    }

    /// Presses keys.
    pub(crate) fn press(&self, keys: Vec<Key>) {
        let _ = self.orders.send(Order::Keys(keys));
    }

    /// Sends silence in place of the sound, or no more.
    pub(crate) fn mute(&self, on: bool) {
        let _ = self.orders.send(Order::Mute(on));
    }

    /// Changes how loud it is heard, in decibels.
    pub(crate) fn volume(&self, db: f32) {
        let _ = self.orders.send(Order::Volume(db));
    }

    /// Writes what is heard into another file, or no more.
    pub(crate) fn record(&self, path: Option<PathBuf>) {
        let _ = self.orders.send(Order::Record(path));
    }

    /// Ends the sound; how it was.
    pub(crate) fn stop(self) -> CallQuality {
        let CallSound { orders, thread, .. } = self;
        drop(orders);
        thread.join().unwrap_or_default()
    }
}

/// The thread.
struct Sound {
    rtp: UdpSocket,
    rtcp: UdpSocket,
    devices: Devices,
    tell: Box<dyn Fn(SoundEvent) + Send>,
    rng: ChaCha12Rng,
    is_muted: bool,
    /// A factor, at the speaker.
    gain: f32,
    id: u64,
}

/// What both sides have agreed on, being carried.
struct Running {
    negotiated: Negotiated,
    sender: Sender,
    receiver: Receiver,
    player: Player,
    /// The source that is heard, and what became of its packets.
    heard: Option<(u32, Reception)>,
    received: u64,
    /// The middle of the NTP timestamp of the last report of the other side, and when it came.
    last_report: Option<(u32, Instant)>,
    round_trip: Option<Duration>,
    heard_loudness: f64,
    sent_loudness: f64,
}

impl Sound {
    fn carry(mut self, inbox: &Inbox<Order>) -> CallQuality {
        let mut running: Option<Running> = None;
        let mut recorder = None;
        let mut next = Instant::now() + PACKET_TIME;
        let mut report_at = Instant::now() + REPORT_INTERVAL / 2;
        let mut told_at = Instant::now();
        let mut buffer = vec![0; 2_048];
        loop {
            loop {
                match inbox.try_recv() {
                    Ok(Order::Start(negotiated)) => {
                        running = self.start(running, *negotiated, &mut recorder);
                    }
                    Ok(Order::Keys(keys)) => {
                        if let Some(running) = &mut running {
                            for key in keys {
                                running.sender.press(key);
                            }
                        }
                    }
                    Ok(Order::Mute(on)) => self.is_muted = on,
                    Ok(Order::Volume(db)) => self.gain = 10_f32.powf(db.clamp(-60.0, 30.0) / 20.0),
                    Ok(Order::Record(path)) => {
                        let rate = running
                            .as_ref()
                            .map(|running| running.negotiated.receive.codec.sample_rate());
                        self.finish_recording(recorder.take());
                        self.devices.recording = path;
                        self.begin_recording(&mut recorder, rate);
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return self.end(running, recorder),
                }
            }
            self.receive(&mut running, &mut buffer, next);
            let now = Instant::now();
            if now < next {
                continue;
            }
            if let Some(running) = &mut running {
                self.turn(running, &mut recorder, now);
                if now >= report_at {
                    let random = self.rng.random_range(0.5..1.5);
                    report_at = now + REPORT_INTERVAL.mul_f64(random);
                    self.report(running, now, false);
                }
                if now >= told_at + self.devices.quality_interval {
                    told_at = now;
                    (self.tell)(SoundEvent::Quality(running.quality(now)));
                }
            }
            next += PACKET_TIME;
            if now > next + TOO_LATE {
                next = now + PACKET_TIME;
            }
        }
    }

    /// Begins with what was agreed on; what did not change goes on.
    fn start(
        &mut self,
        before: Option<Running>,
        negotiated: Negotiated,
        recorder: &mut Option<Recorder>,
    ) -> Option<Running> {
        let before = match before {
            Some(mut running)
                if running.negotiated.send == negotiated.send
                    && running.negotiated.receive == negotiated.receive =>
            {
                running.negotiated = negotiated;
                return Some(running);
            }
            other => other,
        };
        let now = Instant::now();
        let start = StreamStart {
            ssrc: self.rng.random(),
            sequence: self.rng.random(),
            timestamp: self.rng.random(),
        };
        let sender = Sender::new(negotiated.send, start).ok()?;
        let receiver =
            Receiver::new(negotiated.receive, JitterBufferConfig::default(), now).ok()?;
        let rate = negotiated.send.codec.sample_rate();
        let player = match before {
            // What is played goes on.
            Some(before) if before.negotiated.send.codec.sample_rate() == rate => before.player,
            _ => self.devices.source.player(rate),
        };
        let rate = negotiated.receive.codec.sample_rate();
        self.begin_recording(recorder, Some(rate));
        Some(Running {
            negotiated,
            sender,
            receiver,
            player,
            heard: None,
            received: 0,
            last_report: None,
            round_trip: None,
            heard_loudness: f64::NEG_INFINITY,
            sent_loudness: f64::NEG_INFINITY,
        })
    }

    /// Opens the file in which what is heard is to be written, once the rate is known.
    fn begin_recording(&self, recorder: &mut Option<Recorder>, rate: Option<u32>) {
        if recorder.is_none()
            && let (Some(path), Some(rate)) = (&self.devices.recording, rate)
        {
            match Recorder::create(path, rate) {
                Ok(created) => *recorder = Some(created),
                Err(_) => (self.tell)(SoundEvent::RecordingFailed),
            }
        }
    }

    fn finish_recording(&self, recorder: Option<Recorder>) {
        if recorder.is_some_and(|recorder| recorder.finish().is_err()) {
            (self.tell)(SoundEvent::RecordingFailed);
        }
    }

    /// Takes what comes until it is time for the next turn, or something came.
    fn receive(&self, running: &mut Option<Running>, buffer: &mut [u8], until: Instant) {
        let wait = until.saturating_duration_since(Instant::now());
        // A wait of zero would be one without end.
        let _ = self
            .rtp
            .set_read_timeout(Some(wait.max(Duration::from_micros(200))));
        for _ in 0..MAX_PACKETS_A_TURN {
            match self.rtp.recv_from(buffer) {
                Ok((length, from)) => {
                    let octets = buffer.get(..length).unwrap_or_default();
                    if let Some(running) = running {
                        self.handle(running, octets, from);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Nothing came, or the other side's port is closed: it may open.
                Err(_) => break,
            }
            if Instant::now() >= until {
                break;
            }
        }
        for _ in 0..MAX_PACKETS_A_TURN {
            let Ok((length, from)) = self.rtcp.recv_from(buffer) else {
                break;
            };
            let octets = buffer.get(..length).unwrap_or_default();
            if let Some(running) = running {
                self.handle(running, octets, from);
            }
        }
    }

    fn handle(&self, running: &mut Running, octets: &[u8], from: SocketAddr) {
        let now = Instant::now();
        // Only the other side's host: anybody can send to a port (RFC 3711 would tell for sure).
        if from.ip() != running.negotiated.rtp.ip() {
            return;
        }
        if rtp::is_rtcp(octets) {
            if let Some(compound) = Compound::read(octets) {
                running.handle_reports(now, &compound);
            }
        } else if let Some(packet) = RtpPacket::read(octets) {
            running.received += 1;
            if running.heard.as_ref().map(|heard| heard.0) != Some(packet.ssrc) {
                let clock_rate = running.negotiated.receive.codec.clock_rate();
                running.heard = Some((
                    packet.ssrc,
                    Reception::new(clock_rate, packet.sequence, true),
                ));
            }
            if let Some((_, reception)) = &mut running.heard {
                reception.arrived(now, packet.sequence, packet.timestamp);
            }
            if let Some(key) = running.receiver.handle_packet(now, &packet) {
                (self.tell)(SoundEvent::Key(key.sign()));
            }
        }
    }

    /// Plays and sends 20 ms.
    fn turn(&self, running: &mut Running, recorder: &mut Option<Recorder>, now: Instant) {
        let direction = running.negotiated.direction;
        let codec = running.negotiated.receive.codec;
        let count = codec.packet_samples();
        let mut heard = Vec::with_capacity(count);
        running.receiver.play(now, count, &mut heard);
        running.heard_loudness = loudness(&heard);
        self.play(&heard, codec.sample_rate());
        if let Some(open) = recorder
            && open.write(&heard, codec.sample_rate()).is_err()
        {
            *recorder = None;
            (self.tell)(SoundEvent::RecordingFailed);
        }
        let count = running.negotiated.send.codec.packet_samples();
        if !matches!(direction, Direction::SendReceive | Direction::SendOnly) {
            running.sender.skip(count);
            running.sent_loudness = f64::NEG_INFINITY;
            return;
        }
        let mut samples = Vec::with_capacity(count);
        if running.player.play(count, &heard, &mut samples) {
            (self.tell)(SoundEvent::Played);
        }
        if self.is_muted {
            samples.fill(0);
        }
        let rate = running.negotiated.send.codec.sample_rate();
        let said = (heard.as_slice(), codec.sample_rate());
        let conference = &self.devices.conference;
        conference.exchange(self.id, said, &mut samples, rate);
        running.sent_loudness = loudness(&samples);
        let to = running.negotiated.rtp;
        running.sender.push(&samples, |packet| {
            // A packet that does not leave is lost, as any other may be.
            let _ = self.rtp.send_to(packet, to);
        });
    }

    /// Plays at the speaker, as loud as the user wants it.
    fn play(&self, heard: &[i16], rate: u32) {
        let louder = |sample: &i16| (f32::from(*sample) * self.gain) as i16;
        let samples: Vec<i16> = heard.iter().map(louder).collect();
        self.devices.speaker.play(self.id, &samples, rate);
    }

    /// Sends a report, the last one with a farewell (RFC 3550 sections 6.4 and 6.6).
    fn report(&self, running: &mut Running, now: Instant, goodbye: bool) {
        let (packets, octets) = running.sender.sent();
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let wall = since.unwrap_or_default();
        let fraction = (u64::from(wall.subsec_nanos()) << 32) / 1_000_000_000;
        let ntp = (wall.as_secs() + NTP_EPOCH) << 32 | fraction;
        let blocks = running
            .heard
            .as_mut()
            .map(|(ssrc, reception)| {
                let (fraction_lost, cumulative_lost) = reception.losses();
                let last = running.last_report;
                ReportBlock {
                    ssrc: *ssrc,
                    fraction_lost,
                    cumulative_lost,
                    highest_sequence: reception.highest(),
                    jitter: reception.jitter_ticks() as u32,
                    last_sender_report: last.map_or(0, |(middle, _)| middle),
                    delay_since: last.map_or(0, |(_, came)| {
                        (now.saturating_duration_since(came).as_secs_f64() * 65_536.0) as u32
                    }),
                }
            })
            .into_iter()
            .collect();
        let report = Report {
            ssrc: running.sender.ssrc(),
            sender: (packets > 0).then(|| SenderInfo {
                ntp,
                rtp: running.sender.timestamp(),
                packets,
                octets,
            }),
            blocks,
        };
        let mut packet = Vec::new();
        let name = self.rtp.local_addr().map_or_else(
            |_| "tandem".to_owned(),
            |own| format!("tandem@{}", own.ip()),
        );
        rtcp::write(&mut packet, &report, &name, None, goodbye);
        let to = running.negotiated.rtcp;
        // On hold, as before there were directions: no RTCP either (RFC 3264 section 8.4).
        if to.ip().is_unspecified() {
            return;
        }
        let socket = if to == running.negotiated.rtp {
            &self.rtp
        } else {
            &self.rtcp
        };
        let _ = socket.send_to(&packet, to);
    }

    fn end(self, running: Option<Running>, recorder: Option<Recorder>) -> CallQuality {
        self.finish_recording(recorder);
        running.map_or_else(CallQuality::default, |mut running| {
            let now = Instant::now();
            self.report(&mut running, now, true);
            running.quality(now)
        })
    }
}

impl Running {
    fn handle_reports(&mut self, now: Instant, compound: &Compound) {
        for report in &compound.reports {
            if let Some(sender) = &report.sender {
                self.last_report = Some(((sender.ntp >> 16) as u32, now));
            }
            let ours = report
                .blocks
                .iter()
                .find(|block| block.ssrc == self.sender.ssrc());
            if let Some(block) = ours.filter(|block| block.last_sender_report != 0) {
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                let wall = since.unwrap_or_default();
                let seconds = ((wall.as_secs() + NTP_EPOCH) & 0xffff) << 16;
                let middle =
                    seconds as u32 | (wall.subsec_nanos() as u64 * 65_536 / 1_000_000_000) as u32;
                let units = middle
                    .wrapping_sub(block.last_sender_report)
                    .wrapping_sub(block.delay_since);
                // A negative one, or one of a minute, is none.
                if units < 60 << 16 {
                    self.round_trip = Some(Duration::from_secs_f64(f64::from(units) / 65_536.0));
                }
            }
        }
    }

    fn quality(&self, now: Instant) -> CallQuality {
        let counts = self.receiver.counts();
        let expected = self
            .heard
            .as_ref()
            .map_or(0, |(_, reception)| reception.counts().expected);
        let played = counts.played.min(expected);
        let lost = if expected == 0 {
            0.0
        } else {
            // Those that wait to be played are not lost.
            let missing = counts.missing.min(expected - played);
            missing as f64 / expected as f64
        };
        let buffer = self.receiver.delay(now);
        let half = self.round_trip.unwrap_or_default() / 2;
        let impairments = Impairments {
            codec: self.negotiated.receive.codec,
            delay: buffer + half + 2 * PACKET_TIME,
            lost,
            burst_ratio: 1.0,
        };
        let jitter = self.heard.as_ref().map_or(0.0, |(_, reception)| {
            reception.jitter_ticks() / f64::from(self.negotiated.receive.codec.clock_rate())
        });
        CallQuality {
            packets_received: self.received,
            packets_sent: u64::from(self.sender.sent().0),
            lost,
            jitter_ms: jitter * 1_000.0,
            buffer_ms: buffer.as_secs_f64() * 1_000.0,
            round_trip_ms: self.round_trip.map(|time| time.as_secs_f64() * 1_000.0),
            heard_db: self.heard_loudness.max(-96.0),
            sent_db: self.sent_loudness.max(-96.0),
            mos: impairments.mos(),
        }
    }
}

/// Decibels below the loudest square wave.
fn loudness(samples: &[i16]) -> f64 {
    let power: f64 = samples
        .iter()
        .map(|sample| f64::from(*sample).powi(2))
        .sum();
    let mean = power / samples.len().max(1) as f64;
    10.0 * (mean / (32_767.0 * 32_767.0)).log10()
}

/// Two sockets on an even port and the next one (RFC 3550 section 11).
fn bind_pair(address: IpAddr) -> std::io::Result<(UdpSocket, UdpSocket)> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let rtp = UdpSocket::bind((address, 0))?;
        let port = rtp.local_addr()?.port();
        if !port.is_multiple_of(2) {
            continue;
        }
        match UdpSocket::bind((address, port + 1)) {
            Ok(rtcp) => {
                rtcp.set_nonblocking(true)?;
                return Ok((rtp, rtcp));
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| ErrorKind::AddrInUse.into()))
}
