//! The sound that comes in: from the packets of a stream to samples, as steadily as they are asked for.
//!
//! Packets wait in a [`JitterBuffer`]; what is missing is concealed; the delay is corrected by leaving out or repeating
//! periods of the voice.

use std::time::{Duration, Instant};

use crate::codec::{Codec, CodecError, Decoder};
use crate::comfort_noise::ComfortNoise;
use crate::concealment::Concealment;
use crate::jitter_buffer::{
    Correction, JitterBuffer, JitterBufferConfig, JitterBufferCounts, Playout,
};
use crate::rtcp_xr::{BurstMeter, Bursts};
use crate::rtp::RtpPacket;
use crate::telephone_event::{Key, KeyReceiver};
use crate::time_scale::{lengthen, shorten};

/// What a stream is, as offer and answer have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamFormat {
    /// The codec.
    pub codec: Codec,
    /// The payload type that the codec has.
    pub payload_type: u8,
    /// The payload type of keys (RFC 4733), if there are any.
    pub key_payload_type: Option<u8>,
}

/// Receives a stream.
#[derive(Debug)]
pub struct Receiver {
    format: StreamFormat,
    config: JitterBufferConfig,
    ssrc: Option<u32>,
    jitter_buffer: JitterBuffer,
    decoder: Decoder,
    concealment: Concealment,
    noise: Option<ComfortNoise>,
    keys: KeyReceiver,
    /// Samples that are decoded and not played yet.
    samples: Vec<i16>,
    /// Samples that were played in place of missing ones.
    concealed: u64,
    ignored: u64,
    bursts: BurstMeter,
}

impl Receiver {
    /// Receives a stream from now on.
    ///
    /// # Errors
    ///
    /// There is no decoder.
    pub fn new(
        format: StreamFormat,
        config: JitterBufferConfig,
        now: Instant,
    ) -> Result<Receiver, CodecError> {
        let codec = format.codec;
        Ok(Receiver {
            format,
            config,
            ssrc: None,
            jitter_buffer: JitterBuffer::new(config, codec.clock_rate(), now),
            decoder: Decoder::new(codec)?,
            concealment: Concealment::new(codec.sample_rate()),
            noise: None,
            keys: KeyReceiver::default(),
            samples: Vec::new(),
            concealed: 0,
            ignored: 0,
            bursts: BurstMeter::default(),
        })
    }

    /// A packet came; the key that it tells of for the first time.
    pub fn handle_packet(&mut self, now: Instant, packet: &RtpPacket<'_>) -> Option<Key> {
        if self.ssrc != Some(packet.ssrc) {
            // Another source: the other side has begun anew, or somebody else answers (RFC 3550 section 8.2).
            if self.ssrc.is_some() {
                let codec = self.format.codec;
                self.jitter_buffer = JitterBuffer::new(self.config, codec.clock_rate(), now);
                self.keys = KeyReceiver::default();
            }
            self.ssrc = Some(packet.ssrc);
        }
        if Some(packet.payload_type) == self.format.key_payload_type {
            self.jitter_buffer.pass_over(packet.sequence);
            return self.keys.received(packet.timestamp, packet.payload);
        }
        if packet.payload_type == crate::comfort_noise::PAYLOAD_TYPE {
            self.jitter_buffer.pass_over(packet.sequence);
            self.noise = ComfortNoise::read(packet.payload);
        } else if packet.payload_type == self.format.payload_type {
            let payload = packet.payload.to_vec();
            self.jitter_buffer
                .insert(now, packet.sequence, packet.timestamp, payload);
        } else {
            self.ignored += 1;
        }
        None
    }

    /// Appends `count` samples that are to be played from `now` on.
    pub fn play(&mut self, now: Instant, count: usize, into: &mut Vec<i16>) {
        while self.samples.len() < count {
            self.produce(now);
        }
        into.extend(self.samples.drain(..count));
    }

    /// What became of packets.
    pub fn counts(&self) -> JitterBufferCounts {
        self.jitter_buffer.counts()
    }

    /// Samples that were made up.
    pub fn concealed(&self) -> u64 {
        self.concealed
    }

    /// Packets of payload types that nobody agreed on.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// How long after the fastest packets those are played that are played now.
    pub fn delay(&self, now: Instant) -> Duration {
        self.jitter_buffer.delay(now)
    }

    /// How long packets are to be held after the fastest ones have come.
    pub fn target(&self) -> Duration {
        self.jitter_buffer.target()
    }

    /// The bursts of what was missing.
    pub fn bursts(&self) -> Bursts {
        self.bursts.bursts()
    }

    /// The samples of one more packet, or what is played in its place.
    fn produce(&mut self, now: Instant) {
        let codec = self.format.codec;
        let frame = codec.packet_samples();
        let mut samples = Vec::with_capacity(2 * frame);
        match self.jitter_buffer.take(now) {
            Playout::Packet(payload) if self.decoder.decode(&payload, &mut samples).is_ok() => {
                self.noise = None;
                self.bursts.played();
                let ticks = codec.ticks(samples.len());
                self.correct(now, &mut samples);
                self.concealment.received(&mut samples);
                self.jitter_buffer.advance(ticks);
            }
            Playout::Packet(_) | Playout::Missing => {
                self.bursts.missed();
                let ticks = codec.ticks(frame);
                let following = self.jitter_buffer.following(ticks);
                if self.decoder.conceal(following, frame, &mut samples) {
                    self.concealment.received(&mut samples);
                } else {
                    self.concealment.lost(frame, &mut samples);
                }
                self.concealed += frame as u64;
                self.jitter_buffer.advance(ticks);
            }
            Playout::Silence => {
                match &mut self.noise {
                    Some(noise) => noise.play(frame, &mut samples),
                    None => samples.resize(frame, 0),
                }
                self.jitter_buffer.advance(codec.ticks(frame));
            }
        }
        self.samples.append(&mut samples);
    }

    fn correct(&self, now: Instant, samples: &mut Vec<i16>) {
        let rate = self.format.codec.sample_rate();
        let played = self.concealment.played();
        match self.jitter_buffer.correction(now) {
            Correction::None => {}
            Correction::Shorten => {
                shorten(played, samples, rate);
            }
            Correction::Lengthen => {
                lengthen(played, samples, rate);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::Encoder;

    const MS: Duration = Duration::from_millis(1);

    fn format(codec: Codec) -> StreamFormat {
        StreamFormat {
            codec,
            payload_type: codec.payload_type().unwrap_or(96),
            key_payload_type: Some(101),
        }
    }

    /// A tone that is sent in packets which come with these delays, as it is played in pieces of 10 ms.
    fn heard(codec: Codec, delays: &[Option<Duration>]) -> (Vec<i16>, Receiver) {
        let begin = Instant::now();
        let config = JitterBufferConfig::default();
        let mut receiver = Receiver::new(format(codec), config, begin).unwrap();
        let mut encoder = Encoder::new(codec).unwrap();
        let frame = codec.packet_samples();
        let mut arrivals = Vec::new();
        for (number, delay) in delays.iter().enumerate() {
            let tone: Vec<i16> = (number * frame..(number + 1) * frame)
                .map(|at| {
                    let turns = at as f64 * 200.0 / f64::from(codec.sample_rate());
                    ((turns * std::f64::consts::TAU).sin() * 10_000.0) as i16
                })
                .collect();
            let mut payload = Vec::new();
            encoder.encode(&tone, &mut payload);
            let timestamp = codec.ticks(frame) * number as u32;
            if let Some(delay) = delay {
                let at = begin + 20 * MS * number as u32 + *delay;
                arrivals.push((at, number as u16, timestamp, payload));
            }
        }
        arrivals.sort();
        let mut arrivals = arrivals.into_iter().peekable();
        let mut samples = Vec::new();
        for turn in 0..2 * delays.len() as u32 {
            let now = begin + 10 * MS * turn;
            while let Some((_, sequence, timestamp, payload)) = arrivals.next_if(|one| one.0 <= now)
            {
                let packet = RtpPacket {
                    marker: false,
                    payload_type: format(codec).payload_type,
                    sequence,
                    timestamp,
                    ssrc: 1,
                    payload: &payload,
                };
                assert_eq!(receiver.handle_packet(now, &packet), None);
            }
            receiver.play(now, frame / 2, &mut samples);
        }
        (samples, receiver)
    }

    fn loudness(samples: &[i16]) -> f64 {
        let sum: f64 = samples
            .iter()
            .map(|sample| f64::from(*sample).powi(2))
            .sum();
        (sum / samples.len() as f64).sqrt()
    }

    #[test]
    fn a_tone_is_heard_after_the_delay_of_the_buffer() {
        for codec in Codec::ALL {
            let (samples, receiver) = heard(codec, &[Some(MS); 50]);
            let rate = codec.sample_rate() as usize;
            assert_eq!(loudness(&samples[..rate / 50]), 0.0, "20 ms of silence");
            let heard = loudness(&samples[rate / 10..]);
            assert!((6_000.0..8_000.0).contains(&heard), "{codec}: {heard}");
            assert_eq!(receiver.concealed(), 0, "{codec}");
        }
    }

    #[test]
    fn a_tenth_of_lost_packets_is_hardly_heard() {
        let delays: Vec<_> = (0..50)
            .map(|number| (number % 10 != 5).then_some(MS))
            .collect();
        for codec in Codec::ALL {
            let (samples, receiver) = heard(codec, &delays);
            let rate = codec.sample_rate() as usize;
            let pieces = samples[rate / 10..rate * 9 / 10].chunks(rate / 50);
            let quietest = pieces.map(loudness).fold(f64::MAX, f64::min);
            // The concealment of Opus fades at once.
            let least = if codec == Codec::Opus {
                1_500.0
            } else {
                4_000.0
            };
            assert!(quietest > least, "{codec}: {quietest}");
            assert!(receiver.concealed() > 0);
        }
    }

    #[test]
    fn the_delay_follows_the_jitter_by_changes_of_length() {
        let mut delays = vec![Some(MS); 100];
        delays.extend((0..300).map(|number| Some(MS * (number * 37 % 60))));
        delays.extend(vec![Some(MS); 600]);
        let (_, receiver) = heard(Codec::Pcma, &delays);
        let end = receiver.counts();
        assert!(end.late < 30, "{end:?}");
        assert!(end.played > 960, "{end:?}");
        assert!(receiver.concealed() < 40 * 160, "{}", receiver.concealed());
    }

    #[test]
    fn keys_and_noise_and_strangers_are_told_apart() {
        let now = Instant::now();
        let mut receiver =
            Receiver::new(format(Codec::Pcmu), JitterBufferConfig::default(), now).unwrap();
        let mut packet = RtpPacket {
            marker: true,
            payload_type: 101,
            sequence: 1,
            timestamp: 8,
            ssrc: 1,
            payload: &[5, 0, 0, 160],
        };
        assert_eq!(receiver.handle_packet(now, &packet), Key::of('5'));
        packet.payload_type = 13;
        packet.payload = &[40];
        assert_eq!(receiver.handle_packet(now, &packet), None);
        let mut samples = Vec::new();
        receiver.play(now, 160, &mut samples);
        assert!(
            loudness(&samples) > 50.0,
            "the noise of the other side's room"
        );
        packet.payload_type = 77;
        receiver.handle_packet(now, &packet);
        assert_eq!(receiver.ignored(), 1);
    }

    #[test]
    fn the_keys_of_another_source_are_heard_whatever_its_timestamps() {
        let now = Instant::now();
        let mut receiver =
            Receiver::new(format(Codec::Pcmu), JitterBufferConfig::default(), now).unwrap();
        for (ssrc, timestamp) in [(1, 1_000_000), (2, 8)] {
            let packet = RtpPacket {
                marker: true,
                payload_type: 101,
                sequence: 1,
                timestamp,
                ssrc,
                payload: &[5, 0, 0, 160],
            };
            assert_eq!(receiver.handle_packet(now, &packet), Key::of('5'));
        }
    }

    proptest! {
        #[test]
        fn anything_may_come(
            codec in prop::sample::select(&Codec::ALL[..]),
            packets in prop::collection::vec(
                (any::<u8>(), any::<u16>(), any::<u32>(), 0_u32..2,
                 prop::collection::vec(any::<u8>(), 0..400), 0_u64..200), 0..20),
        ) {
            let mut now = Instant::now();
            let mut receiver = Receiver::new(format(codec), JitterBufferConfig::default(), now).unwrap();
            let payload_types = [format(codec).payload_type, 101, 13, 0];
            for (kind, sequence, timestamp, ssrc, payload, wait) in packets {
                now += Duration::from_millis(wait);
                receiver.handle_packet(now, &RtpPacket {
                    marker: false,
                    payload_type: payload_types[usize::from(kind) % 4],
                    sequence,
                    timestamp,
                    ssrc,
                    payload: &payload,
                });
                let mut samples = Vec::new();
                receiver.play(now, 100, &mut samples);
                prop_assert_eq!(samples.len(), 100);
                prop_assert!(receiver.samples.len() <= 48 * 120);
            }
        }
    }
}
