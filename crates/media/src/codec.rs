//! The codecs of voice calls: what SDP calls them, and encoders and decoders of one stream each.
//!
//! G.711 is ours; G.722 and Opus come from crates.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ezk_g722::libg722::{self, Bitrate};
use opus_rs::{Application, OpusDecoder, OpusEncoder};

use crate::g711::Law;

/// How much sound a packet carries (RFC 3551 section 4.2, RFC 7587 section 4.2).
pub const PACKET_TIME: Duration = Duration::from_millis(20);

/// The longest packet that is decoded: Opus allows 120 ms (RFC 7587 section 4.2).
const MAX_PACKET_TIME: Duration = Duration::from_millis(120);

/// A codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// G.711 µ-law.
    Pcmu,
    /// G.711 A-law.
    Pcma,
    /// G.722 at 64 kbit/s.
    G722,
    /// Opus (RFC 7587), one channel.
    Opus,
}

impl Codec {
    /// All, the preferred ones first.
    pub const ALL: [Codec; 4] = [Codec::Opus, Codec::G722, Codec::Pcma, Codec::Pcmu];

    /// The encoding's name, as `a=rtpmap` has it (RFC 3551 table 4, RFC 7587 section 7).
    pub fn encoding(self) -> &'static str {
        match self {
            Codec::Pcmu => "PCMU",
            Codec::Pcma => "PCMA",
            Codec::G722 => "G722",
            Codec::Opus => "opus",
        }
    }

    /// Ticks a second of the RTP timestamp. That of G.722 is 8,000 although it has 16,000 samples (RFC 3551
    /// section 4.5.2).
    pub fn clock_rate(self) -> u32 {
        match self {
            Codec::Pcmu | Codec::Pcma | Codec::G722 => 8_000,
            Codec::Opus => 48_000,
        }
    }

    /// Samples a second of the sound that goes in and comes out.
    pub fn sample_rate(self) -> u32 {
        match self {
            Codec::Pcmu | Codec::Pcma => 8_000,
            Codec::G722 => 16_000,
            Codec::Opus => 48_000,
        }
    }

    /// Channels, as `a=rtpmap` has them: two with Opus, whatever is sent (RFC 7587 section 7).
    pub fn channels(self) -> u8 {
        match self {
            Codec::Pcmu | Codec::Pcma | Codec::G722 => 1,
            Codec::Opus => 2,
        }
    }

    /// The static payload type (RFC 3551 table 4); `None` when it is dynamic.
    pub fn payload_type(self) -> Option<u8> {
        match self {
            Codec::Pcmu => Some(0),
            Codec::Pcma => Some(8),
            Codec::G722 => Some(9),
            Codec::Opus => None,
        }
    }

    /// The codec of a static payload type.
    pub fn of_payload_type(payload_type: u8) -> Option<Codec> {
        let is_it = |codec: &Codec| codec.payload_type() == Some(payload_type);
        Codec::ALL.into_iter().find(is_it)
    }

    /// The codec of a name and a clock rate, as `a=rtpmap` has them; names are compared without case (RFC
    /// 8866 section 6.6).
    pub fn of_rtpmap(encoding: &str, clock_rate: u32) -> Option<Codec> {
        let is_it = |codec: &Codec| {
            codec.encoding().eq_ignore_ascii_case(encoding) && codec.clock_rate() == clock_rate
        };
        Codec::ALL.into_iter().find(is_it)
    }

    /// Samples in a packet of ours.
    pub fn packet_samples(self) -> usize {
        self.sample_rate() as usize / 50
    }

    /// By how much the timestamp grows with that many samples.
    pub fn ticks(self, samples: usize) -> u32 {
        let ticks = samples as u64 * u64::from(self.clock_rate()) / u64::from(self.sample_rate());
        ticks as u32
    }

    /// Samples in that many ticks of the timestamp.
    pub fn samples(self, ticks: u32) -> usize {
        let samples =
            u64::from(ticks) * u64::from(self.sample_rate()) / u64::from(self.clock_rate());
        samples as usize
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Codec::Pcmu => "pcmu",
            Codec::Pcma => "pcma",
            Codec::G722 => "g722",
            Codec::Opus => "opus",
        })
    }
}

impl FromStr for Codec {
    type Err = String;

    fn from_str(text: &str) -> Result<Codec, String> {
        let is_it = |codec: &Codec| codec.encoding().eq_ignore_ascii_case(text);
        Codec::ALL
            .into_iter()
            .find(is_it)
            .ok_or_else(|| format!("\"{text}\" is not a codec: use opus, g722, pcma or pcmu"))
    }
}

/// Encodes the sound of one stream.
pub struct Encoder(Encoding);

enum Encoding {
    G711(Law),
    G722(Box<libg722::encoder::Encoder>),
    Opus(Box<OpusEncoder>),
}

/// Why there is no encoder or decoder: the library's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{codec}: {reason}")]
pub struct CodecError {
    codec: Codec,
    reason: &'static str,
}

fn opus_error(reason: &'static str) -> CodecError {
    CodecError {
        codec: Codec::Opus,
        reason,
    }
}

impl Encoder {
    /// An encoder at the beginning of a stream.
    ///
    /// # Errors
    ///
    /// The library has no memory for it.
    pub fn new(codec: Codec) -> Result<Encoder, CodecError> {
        Ok(Encoder(match codec {
            Codec::Pcmu => Encoding::G711(Law::Pcmu),
            Codec::Pcma => Encoding::G711(Law::Pcma),
            Codec::G722 => Encoding::G722(Box::new(libg722::encoder::Encoder::new(
                Bitrate::Mode1_64000,
                false,
                false,
            ))),
            Codec::Opus => {
                let rate = codec.sample_rate() as i32;
                let mut encoder =
                    OpusEncoder::new(rate, 1, Application::Voip).map_err(opus_error)?;
                encoder.bitrate_bps = OPUS_BITS;
                encoder.complexity = OPUS_COMPLEXITY;
                // A lost packet can be decoded from its successor (RFC 7587 section 3.3).
                encoder.use_inband_fec = true;
                encoder.packet_loss_perc = OPUS_EXPECTED_LOSS;
                Encoding::Opus(Box::new(encoder))
            }
        }))
    }

    /// Appends the payload of a packet with these samples: [`Codec::packet_samples`] of them. A frame of
    /// another length is encoded, too, if the codec has such frames; else nothing is appended.
    pub fn encode(&mut self, samples: &[i16], payload: &mut Vec<u8>) {
        match &mut self.0 {
            Encoding::G711(law) => {
                payload.extend(samples.iter().map(|sample| law.encode(*sample)));
            }
            Encoding::G722(encoder) => payload.extend(encoder.encode(samples)),
            Encoding::Opus(encoder) => {
                let before = payload.len();
                payload.resize(before + MAX_OPUS_OCTETS, 0);
                let room = payload.get_mut(before..).unwrap_or_default();
                let length = encoder
                    .encode_i16(samples, samples.len(), room)
                    .unwrap_or(0);
                payload.truncate(before + length);
            }
        }
    }
}

/// Speech in full band (RFC 7587 section 3.1.1).
const OPUS_BITS: i32 = 32_000;
/// From 0 to 10. Above five nobody hears a difference, and a call would cost twice as much.
const OPUS_COMPLEXITY: i32 = 5;
/// Percent of packets; so much redundancy is sent.
const OPUS_EXPECTED_LOSS: i32 = 5;
/// The largest packet of 20 ms (RFC 6716 section 3.2.1).
const MAX_OPUS_OCTETS: usize = 1275;

/// Decodes the payloads of one stream.
pub struct Decoder {
    codec: Codec,
    decoding: Decoding,
}

enum Decoding {
    G711(Law),
    G722(Box<libg722::decoder::Decoder>),
    Opus(Box<OpusDecoder>),
}

/// A payload that is none of this codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecodable;

impl Decoder {
    /// A decoder at the beginning of a stream.
    ///
    /// # Errors
    ///
    /// The library has no memory for it.
    pub fn new(codec: Codec) -> Result<Decoder, CodecError> {
        let decoding = match codec {
            Codec::Pcmu => Decoding::G711(Law::Pcmu),
            Codec::Pcma => Decoding::G711(Law::Pcma),
            Codec::G722 => Decoding::G722(Box::new(libg722::decoder::Decoder::new(
                Bitrate::Mode1_64000,
                false,
                false,
            ))),
            Codec::Opus => {
                let rate = codec.sample_rate() as i32;
                Decoding::Opus(Box::new(OpusDecoder::new(rate, 1).map_err(opus_error)?))
            }
        };
        Ok(Decoder { codec, decoding })
    }

    /// The codec.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Appends the samples of a payload; no more than 120 ms of them.
    ///
    /// # Errors
    ///
    /// It is empty or none of this codec; nothing is appended.
    pub fn decode(&mut self, payload: &[u8], samples: &mut Vec<i16>) -> Result<(), Undecodable> {
        if payload.is_empty() {
            return Err(Undecodable);
        }
        let most = self.codec.sample_rate() as usize * MAX_PACKET_TIME.as_millis() as usize / 1000;
        match &mut self.decoding {
            Decoding::G711(law) => {
                let payload = payload.iter().take(most);
                samples.extend(payload.map(|octet| law.decode(*octet)));
            }
            Decoding::G722(decoder) => {
                // Two samples in an octet.
                let payload = payload.get(..most / 2).unwrap_or(payload);
                samples.extend(decoder.decode(payload));
            }
            Decoding::Opus(decoder) => {
                let mut decoded = vec![0.0; most];
                let count = decoder
                    .decode(payload, most, &mut decoded)
                    .map_err(|_| Undecodable)?;
                samples.extend(decoded.iter().take(count).map(|sample| linear(*sample)));
            }
        }
        Ok(())
    }

    /// Appends `count` samples in place of a packet that is lost, if the codec knows better than to repeat
    /// what came before: from the redundancy in the packet that comes `next`, or by its own concealment (RFC
    /// 6716 section 4.4). `false` when it does not.
    pub fn conceal(&mut self, next: Option<&[u8]>, count: usize, samples: &mut Vec<i16>) -> bool {
        let Decoding::Opus(decoder) = &mut self.decoding else {
            return false;
        };
        let mut concealed = vec![0.0; count];
        let decoded = match next {
            Some(next) => decoder.decode_fec(next, count, &mut concealed),
            None => decoder.decode(&[], count, &mut concealed),
        };
        let decoded = decoded.unwrap_or(0);
        samples.extend(concealed.iter().take(decoded).map(|sample| linear(*sample)));
        decoded > 0
    }
}

/// A sample between -1 and 1 as one of 16 bits.
fn linear(sample: f32) -> i16 {
    (sample * 32_768.0) as i16
}

impl fmt::Debug for Encoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0 {
            Encoding::G711(Law::Pcmu) => "Encoder(pcmu)",
            Encoding::G711(Law::Pcma) => "Encoder(pcma)",
            Encoding::G722(_) => "Encoder(g722)",
            Encoding::Opus(_) => "Encoder(opus)",
        })
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Decoder({})", self.codec)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A second of a tone, at half of the loudest.
    fn tone(rate: u32) -> Vec<i16> {
        let sample = |index: u32| {
            let turns = f64::from(index) * 440.0 / f64::from(rate);
            ((turns * std::f64::consts::TAU).sin() * 16_000.0) as i16
        };
        (0..rate).map(sample).collect()
    }

    /// How many decibels the signal is above what the codec has made different, at the best alignment: codecs
    /// with filters delay.
    fn signal_to_noise(original: &[i16], decoded: &[i16], most_delay: usize) -> f64 {
        let power = |samples: &mut dyn Iterator<Item = f64>| samples.map(|s| s * s).sum::<f64>();
        let middle = 4_000..6_000;
        (0..most_delay)
            .map(|delay| {
                let pairs = || middle.clone().map(|at| (original[at], decoded[at + delay]));
                let signal = power(&mut pairs().map(|(one, _)| f64::from(one)));
                let noise =
                    power(&mut pairs().map(|(one, other)| f64::from(one) - f64::from(other)));
                10.0 * (signal / noise).log10()
            })
            .fold(f64::MIN, f64::max)
    }

    #[test]
    fn a_tone_survives_each_codec() {
        for (codec, least) in [
            (Codec::Pcmu, 30.0),
            (Codec::Pcma, 30.0),
            (Codec::G722, 20.0),
            (Codec::Opus, 15.0),
        ] {
            let original = tone(codec.sample_rate());
            let mut encoder = Encoder::new(codec).unwrap();
            let mut decoder = Decoder::new(codec).unwrap();
            let mut decoded = Vec::new();
            for frame in original.chunks(codec.packet_samples()) {
                let mut payload = Vec::new();
                encoder.encode(frame, &mut payload);
                decoder.decode(&payload, &mut decoded).unwrap();
            }
            assert_eq!(decoded.len(), original.len(), "{codec}");
            let found = signal_to_noise(&original, &decoded, 500);
            assert!(found > least, "{codec}: {found} dB");
        }
    }

    #[test]
    fn opus_restores_a_lost_packet_from_the_next_one() {
        let codec = Codec::Opus;
        let original = tone(codec.sample_rate());
        let mut encoder = Encoder::new(codec).unwrap();
        let mut decoder = Decoder::new(codec).unwrap();
        let payloads: Vec<Vec<u8>> = original
            .chunks(codec.packet_samples())
            .map(|frame| {
                let mut payload = Vec::new();
                encoder.encode(frame, &mut payload);
                payload
            })
            .collect();
        let mut decoded = Vec::new();
        for (index, payload) in payloads.iter().enumerate() {
            if index == 5 {
                assert!(decoder.conceal(Some(&payloads[6]), 960, &mut decoded));
            } else {
                decoder.decode(payload, &mut decoded).unwrap();
            }
        }
        assert_eq!(decoded.len(), original.len());
        let mut plain = Decoder::new(Codec::Pcmu).unwrap();
        assert!(!plain.conceal(None, 160, &mut Vec::new()));
    }

    #[test]
    fn codecs_are_found_as_sdp_names_them() {
        assert_eq!(Codec::of_payload_type(9), Some(Codec::G722));
        assert_eq!(Codec::of_payload_type(96), None);
        assert_eq!(Codec::of_rtpmap("OPUS", 48_000), Some(Codec::Opus));
        assert_eq!(Codec::of_rtpmap("G722", 16_000), None);
        assert_eq!("PCMA".parse(), Ok(Codec::Pcma));
        assert!("g729".parse::<Codec>().unwrap_err().contains("use opus"));
        assert_eq!(Codec::G722.ticks(320), 160);
        assert_eq!(Codec::G722.samples(160), 320);
    }

    proptest! {
        #[test]
        fn anything_may_be_a_payload(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..1500), 1..8),
            codec in prop::sample::select(&Codec::ALL[..]),
        ) {
            let mut decoder = Decoder::new(codec).unwrap();
            for payload in &payloads {
                let mut samples = Vec::new();
                let decoded = decoder.decode(payload, &mut samples);
                prop_assert!(samples.len() <= codec.sample_rate() as usize * 120 / 1000);
                prop_assert!(decoded.is_ok() || samples.is_empty());
            }
        }
    }
}
