//! The sound of a call: a thread that sends and plays every 20 ms, and takes what comes in between.

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
use media::rtcp_xr::{self, UNAVAILABLE, VoipMetrics};
use media::rtp::RtpPacket;
use media::sender::{Sender, StreamStart};
use media::srtp::Suite;
use media::telephone_event::Key;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::sdp::Direction;

use crate::device::{Player, Recorder, Source};
use crate::dtls::Certificate;
use crate::event::{CallQuality, RemoteQuality};
use crate::media_path::{MediaPath, Received};
use crate::mixing::{Conference, ConferenceEnd, SpeakerInput};
use crate::negotiation::Negotiated;
use crate::ports::PortPair;

/// From one report to the next, on average (RFC 3550 section 6.2).
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// A turn that comes later than this is left out: the computer was asleep.
const TOO_LATE: Duration = Duration::from_secs(1);
/// The seconds from the epoch of NTP timestamps to that of Unix (RFC 3550 section 4).
const NTP_EPOCH: u64 = 2_208_988_800;

/// What is told by the sound of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SoundEvent {
    /// Nothing has come from the other side for so long.
    Silence(Duration),
    /// The media cannot be protected as it was agreed.
    NotProtected,
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
    /// These ports are offered to the other side.
    OfferPorts(PortPair),
    PortsAccepted,
    PortsRefused,
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
}

/// What is played and what is recorded.
#[derive(Debug)]
pub(crate) struct Devices {
    pub(crate) source: Source,
    pub(crate) recording: Option<PathBuf>,
    pub(crate) speaker: SpeakerInput,
    pub(crate) conference: Arc<Conference>,
    pub(crate) quality_interval: Duration,
    /// How long nothing may come until that is told.
    pub(crate) silence: Option<Duration>,
}

impl CallSound {
    /// Begins at these ports. Nothing is sent before [`start`](CallSound::start).
    ///
    /// # Errors
    ///
    /// There is no thread.
    pub(crate) fn open(
        ports: PortPair,
        certificate: Option<Arc<Certificate>>,
        devices: Devices,
        seed: [u8; 32],
        id: u64,
        tell: impl Fn(SoundEvent) + Send + 'static,
    ) -> std::io::Result<CallSound> {
        let path = MediaPath::new(ports, certificate);
        let (orders, inbox) = channel();
        let thread = thread::Builder::new()
            .name("sound".to_owned())
            .spawn(move || {
                let sound = Sound {
                    path,
                    devices,
                    tell: Box::new(tell),
                    rng: ChaCha12Rng::from_seed(seed),
                    is_muted: false,
                    gain: 1.0,
                    id,
                    conference: ConferenceEnd::default(),
                };
                sound.carry(&inbox)
            })?;
        Ok(CallSound { orders, thread, id })
    }

    /// Both sides have agreed, for the first time or on something else.
    pub(crate) fn start(&self, negotiated: Negotiated) {
        let _ = self.orders.send(Order::Start(Box::new(negotiated)));
    }

    /// These ports of ours are offered to the other side, to be used in place of those before.
    pub(crate) fn offer_ports(&self, ports: PortPair) {
        let _ = self.orders.send(Order::OfferPorts(ports));
    }

    /// What became of the ports that were offered. Where they were accepted, [`start`](CallSound::start) is next.
    pub(crate) fn ports_answered(&self, are_accepted: bool) {
        let order = match are_accepted {
            true => Order::PortsAccepted,
            false => Order::PortsRefused,
        };
        let _ = self.orders.send(order);
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
    path: MediaPath,
    devices: Devices,
    tell: Box<dyn Fn(SoundEvent) + Send>,
    rng: ChaCha12Rng,
    is_muted: bool,
    /// A factor, at the speaker.
    gain: f32,
    id: u64,
    conference: ConferenceEnd,
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
    levels: Levels,
    /// When something came last, and whether it was told that nothing does.
    last_packet: Instant,
    is_silent: bool,
    /// What the other side reports of what it hears.
    remote: Option<RemoteQuality>,
}

/// The power of speech and of pauses in what is heard, as parts of that of the loudest square wave.
#[derive(Clone, Copy, Debug, Default)]
struct Levels {
    speech: Option<f64>,
    pauses: Option<f64>,
}

impl Sound {
    fn carry(mut self, inbox: &Inbox<Order>) -> CallQuality {
        let mut running: Option<Running> = None;
        let mut recorder = None;
        let mut next = Instant::now() + PACKET_TIME;
        let mut report_at = Instant::now() + REPORT_INTERVAL / 2;
        let mut told_at = Instant::now();
        let mut has_failed = false;
        loop {
            loop {
                match inbox.try_recv() {
                    Ok(Order::Start(negotiated)) => {
                        // If that cannot be protected either, it is to be told again.
                        has_failed = false;
                        running = self.start(running, *negotiated, &mut recorder);
                    }
                    Ok(Order::OfferPorts(ports)) => self.path.offer_ports(ports),
                    Ok(Order::PortsAccepted) => self.path.ports_accepted(),
                    Ok(Order::PortsRefused) => self.path.ports_refused(),
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
            self.receive(&mut running, next);
            let now = Instant::now();
            if now < next {
                continue;
            }
            self.path.handle_timeout(now);
            if self.path.has_failed() && !std::mem::replace(&mut has_failed, true) {
                (self.tell)(SoundEvent::NotProtected);
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
                    let quality = running.quality(now, &self.path);
                    (self.tell)(SoundEvent::Quality(quality));
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
        let now = Instant::now();
        self.path.agree(now, &negotiated);
        let before = match before {
            Some(mut running)
                if running.negotiated.send == negotiated.send
                    && running.negotiated.receive == negotiated.receive =>
            {
                running.negotiated = negotiated;
                running.last_packet = now;
                return Some(running);
            }
            other => other,
        };
        let start = StreamStart {
            ssrc: self.rng.random(),
            // In the first half, so that no rollover is missed (RFC 4568 section 6.4).
            sequence: self.rng.random::<u16>() >> 1,
            timestamp: self.rng.random(),
        };
        let sender = Sender::new(negotiated.send, start).ok()?;
        let receiver =
            Receiver::new(negotiated.receive, JitterBufferConfig::default(), now).ok()?;
        let rate = negotiated.send.codec.sample_rate();
        let player = match before {
            // What is played goes on.
            Some(before) if before.negotiated.send.codec.sample_rate() == rate => before.player,
            _ => {
                let played = self.devices.speaker.played();
                self.devices.source.player(rate, played)
            }
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
            levels: Levels::default(),
            last_packet: now,
            is_silent: false,
            remote: None,
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

    /// Takes what comes until it is time for the next turn.
    fn receive(&mut self, running: &mut Option<Running>, until: Instant) {
        let tell = &self.tell;
        self.path.receive(until, |now, received| {
            let Some(running) = running else {
                return;
            };
            running.last_packet = now;
            running.is_silent = false;
            match received {
                Received::Rtcp(octets) => {
                    if let Some(compound) = Compound::read(octets) {
                        running.handle_reports(now, &compound);
                    }
                }
                Received::Rtp(octets) => {
                    let packet = RtpPacket::read(octets);
                    let key = packet.and_then(|packet| running.handle_packet(now, &packet));
                    if let Some(key) = key {
                        tell(SoundEvent::Key(key.sign()));
                    }
                }
            }
        });
    }

    /// Tells once that nothing comes although it should.
    fn watch(&self, running: &mut Running, now: Instant) {
        let Some(limit) = self.devices.silence else {
            return;
        };
        // Who sends nothing by agreement is not missed.
        if !receives(running.negotiated.direction) {
            running.last_packet = now;
        }
        let since = now.saturating_duration_since(running.last_packet);
        if since >= limit && !std::mem::replace(&mut running.is_silent, true) {
            (self.tell)(SoundEvent::Silence(since));
        }
    }

    /// Plays and sends 20 ms.
    fn turn(&mut self, running: &mut Running, recorder: &mut Option<Recorder>, now: Instant) {
        self.watch(running, now);
        let direction = running.negotiated.direction;
        let codec = running.negotiated.receive.codec;
        let count = codec.packet_samples();
        let mut heard = Vec::with_capacity(count);
        running.receiver.play(now, count, &mut heard);
        running.heard_loudness = loudness(&heard);
        running.levels.hear(running.heard_loudness);
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
        let (conference, end) = (&self.devices.conference, &mut self.conference);
        conference.exchange(self.id, end, said, &mut samples, rate);
        running.sent_loudness = loudness(&samples);
        let path = &mut self.path;
        running
            .sender
            .push(&samples, |packet| path.send_rtp(packet));
    }

    /// Plays at the speaker, as loud as the user wants it.
    fn play(&mut self, heard: &[i16], rate: u32) {
        let louder = |sample: &i16| (f32::from(*sample) * self.gain) as i16;
        let samples: Vec<i16> = heard.iter().map(louder).collect();
        self.devices.speaker.play(self.id, &samples, rate);
    }

    /// Sends a report, the last one with a farewell (RFC 3550 sections 6.4 and 6.6).
    fn report(&mut self, running: &mut Running, now: Instant, goodbye: bool) {
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
        let name = format!("tandem@{}", self.path.local().ip());
        let metrics = running.negotiated.sends_voip_metrics;
        let metrics = metrics.then(|| running.voip_metrics(now)).flatten();
        rtcp::write(&mut packet, &report, &name, metrics.as_ref(), goodbye);
        self.path.send_rtcp(&packet);
    }

    fn end(mut self, running: Option<Running>, recorder: Option<Recorder>) -> CallQuality {
        self.finish_recording(recorder);
        running.map_or_else(CallQuality::default, |mut running| {
            let now = Instant::now();
            self.report(&mut running, now, true);
            running.quality(now, &self.path)
        })
    }
}

impl Running {
    /// A data packet came; the key that it tells of.
    fn handle_packet(&mut self, now: Instant, packet: &RtpPacket<'_>) -> Option<Key> {
        self.received += 1;
        if self.heard.as_ref().map(|heard| heard.0) != Some(packet.ssrc) {
            let clock_rate = self.negotiated.receive.codec.clock_rate();
            let reception = Reception::new(clock_rate, packet.sequence, true);
            self.heard = Some((packet.ssrc, reception));
        }
        if let Some((_, reception)) = &mut self.heard {
            reception.arrived(now, packet.sequence, packet.timestamp);
        }
        self.receiver.handle_packet(now, packet)
    }

    fn handle_reports(&mut self, now: Instant, compound: &Compound) {
        let ours = self.sender.ssrc();
        let metrics = compound.voip_metrics.iter();
        if let Some(metrics) = metrics.rev().find(|metrics| metrics.ssrc == ours) {
            self.remote = Some(RemoteQuality::from(metrics));
        }
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

    /// The parts of the packets that the network lost, and that came too late, from 0 to 1.
    fn losses(&self) -> (f64, f64) {
        let counts = self.receiver.counts();
        let heard = self.heard.as_ref();
        let expected = heard.map_or(0, |(_, reception)| reception.counts().expected);
        if expected == 0 {
            return (0.0, 0.0);
        }
        let played = counts.played.min(expected);
        // Those that wait to be played are not lost.
        let missing = counts.missing.min(expected - played);
        let discarded = (counts.late + counts.overflows).min(missing);
        let part = |count: u64| count as f64 / expected as f64;
        (part(missing - discarded), part(discarded))
    }

    fn impairments(&self, now: Instant) -> Impairments {
        let (lost, discarded) = self.losses();
        let half = self.round_trip.unwrap_or_default() / 2;
        Impairments {
            codec: self.negotiated.receive.codec,
            delay: self.receiver.delay(now) + half + 2 * PACKET_TIME,
            lost: lost + discarded,
            burst_ratio: 1.0,
        }
    }

    fn quality(&self, now: Instant, path: &MediaPath) -> CallQuality {
        let (lost, discarded) = self.losses();
        let jitter = self.heard.as_ref().map_or(0.0, |(_, reception)| {
            reception.jitter_ticks() / f64::from(self.negotiated.receive.codec.clock_rate())
        });
        let bursts = self.receiver.bursts();
        let milliseconds = |packets: f64| packets * PACKET_TIME.as_secs_f64() * 1_000.0;
        let impairments = self.impairments(now);
        CallQuality {
            packets_received: self.received,
            packets_sent: u64::from(self.sender.sent().0),
            packets_dropped: path.dropped(),
            lost: lost + discarded,
            discarded,
            burst_ms: milliseconds(bursts.burst_packets),
            jitter_ms: jitter * 1_000.0,
            buffer_ms: self.receiver.delay(now).as_secs_f64() * 1_000.0,
            round_trip_ms: self.round_trip.map(|time| time.as_secs_f64() * 1_000.0),
            heard_db: self.heard_loudness.max(-96.0),
            sent_db: self.sent_loudness.max(-96.0),
            mos: impairments.mos(),
            srtp: path.suite().map(Suite::name),
            remote: self.remote,
        }
    }

    /// What we report of the other side's packets (RFC 3611 section 4.7).
    fn voip_metrics(&self, now: Instant) -> Option<VoipMetrics> {
        let (ssrc, _) = self.heard.as_ref()?;
        let (lost, discarded) = self.losses();
        let parts = |part: f64| (part * 256.0).min(255.0) as u8;
        let bursts = self.receiver.bursts();
        let milliseconds = |time: Duration| u16::try_from(time.as_millis()).unwrap_or(u16::MAX);
        let of_packets = |packets: f64| milliseconds(PACKET_TIME.mul_f64(packets));
        let impairments = self.impairments(now);
        let listening = Impairments {
            delay: Duration::ZERO,
            ..impairments
        };
        let most = milliseconds(JitterBufferConfig::default().most);
        Some(VoipMetrics {
            ssrc: *ssrc,
            loss_rate: parts(lost),
            discard_rate: parts(discarded),
            burst_density: bursts.burst_density,
            gap_density: bursts.gap_density,
            burst_duration: of_packets(bursts.burst_packets),
            gap_duration: of_packets(bursts.gap_packets),
            round_trip_delay: milliseconds(self.round_trip.unwrap_or_default()),
            // A packet is filled, another one is played.
            end_system_delay: milliseconds(self.receiver.delay(now) + 2 * PACKET_TIME),
            signal_level: dbm0(self.levels.speech),
            noise_level: dbm0(self.levels.pauses),
            residual_echo_return_loss: UNAVAILABLE,
            gmin: rtcp_xr::GMIN,
            r_factor: impairments.r_factor() as u8,
            external_r_factor: UNAVAILABLE,
            mos_lq: (listening.mos() * 10.0) as u8,
            mos_cq: (impairments.mos() * 10.0) as u8,
            receiver_configuration: RECEIVER_CONFIGURATION,
            jitter_buffer_nominal: milliseconds(self.receiver.target()),
            jitter_buffer_maximum: most,
            jitter_buffer_absolute_maximum: most,
        })
    }
}

impl Levels {
    /// Takes 20 ms into account.
    fn hear(&mut self, loudness: f64) {
        let power = 10_f64.powf(loudness / 10.0);
        let level = match loudness >= SPEECH_DB {
            true => &mut self.speech,
            false => &mut self.pauses,
        };
        let before = level.unwrap_or(power);
        *level = Some(before + (power - before) / LEVEL_PACKETS);
    }
}

/// Louder than this is taken for speech.
const SPEECH_DB: f64 = -45.0;
/// Over how many packets levels are smoothed: two seconds.
const LEVEL_PACKETS: f64 = 100.0;
/// 0 dBm0 is 6.18 dB below the loudest square wave (ITU-T G.711 table 5: a sine as loud as can be is 3.17 dBm0).
const DBM0: f64 = 6.18;
/// Losses are filled in from what was played, the jitter buffer adapts itself at a rate that is not told (RFC 3611 section
/// 4.7.6).
const RECEIVER_CONFIGURATION: u8 = 0b1111_0000;

fn dbm0(power: Option<f64>) -> i8 {
    let level = power.map(|power| 10.0 * power.log10() + DBM0);
    level.map_or(UNAVAILABLE as i8, |level| level.clamp(-127.0, 126.0) as i8)
}

fn receives(direction: Direction) -> bool {
    matches!(direction, Direction::SendReceive | Direction::ReceiveOnly)
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
