//! G.711: eight bits a sample, 8,000 samples a second, by two laws (ITU-T G.711; RFC 3551 section 4.5.14).

use std::fmt;
use std::str::FromStr;

/// Samples a second, and ticks a second of the RTP timestamp (RFC 3551 table 4).
pub const CLOCK_RATE: u32 = 8_000;

/// Which law.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Law {
    /// µ-law: North America and Japan.
    #[default]
    Pcmu,
    /// A-law: everywhere else.
    Pcma,
}

impl Law {
    /// The static payload type (RFC 3551 table 4).
    pub fn payload_type(self) -> u8 {
        match self {
            Law::Pcmu => 0,
            Law::Pcma => 8,
        }
    }

    /// The codec of a static payload type.
    pub fn of_payload_type(payload_type: u8) -> Option<Law> {
        match payload_type {
            0 => Some(Law::Pcmu),
            8 => Some(Law::Pcma),
            _ => None,
        }
    }

    /// The encoding's name, as `a=rtpmap` has it.
    pub fn encoding(self) -> &'static str {
        match self {
            Law::Pcmu => "PCMU",
            Law::Pcma => "PCMA",
        }
    }

    /// A linear sample of 16 bits as an octet.
    pub fn encode(self, sample: i16) -> u8 {
        match self {
            Law::Pcmu => encode_mu(sample),
            Law::Pcma => encode_a(sample),
        }
    }

    /// The linear sample that an octet stands for.
    pub fn decode(self, octet: u8) -> i16 {
        match self {
            Law::Pcmu => decode_mu(octet),
            Law::Pcma => decode_a(octet),
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Law::Pcmu => "pcmu",
            Law::Pcma => "pcma",
        })
    }
}

impl FromStr for Law {
    type Err = String;

    fn from_str(text: &str) -> Result<Law, String> {
        match text.to_ascii_lowercase().as_str() {
            "pcmu" => Ok(Law::Pcmu),
            "pcma" => Ok(Law::Pcma),
            _ => Err(format!(
                "\"{text}\" is not a law of G.711: use pcmu or pcma"
            )),
        }
    }
}

/// What µ-law adds to a magnitude, so that its first set bit tells the segment.
const MU_BIAS: i32 = 132;
/// The largest magnitude that µ-law keeps apart.
const MU_CLIP: i32 = 32_767 - MU_BIAS;

fn encode_mu(sample: i16) -> u8 {
    let sign = if sample < 0 { 0x80 } else { 0 };
    let magnitude = i32::from(sample).abs().min(MU_CLIP) + MU_BIAS;
    // With the bias it has its first set bit in one of the eight places from 7 to 14.
    let segment = magnitude.ilog2() - 7;
    let step = (magnitude >> (segment + 3)) & 0x0f;
    !(sign | (segment as u8) << 4 | step as u8)
}

fn decode_mu(octet: u8) -> i16 {
    let code = !octet;
    let segment = (code >> 4) & 0x07;
    let step = i32::from(code & 0x0f);
    let magnitude = (((step << 3) + MU_BIAS) << segment) - MU_BIAS;
    signed(magnitude, code & 0x80 != 0)
}

/// A-law inverts every other bit.
const A_TOGGLE: u8 = 0x55;

fn encode_a(sample: i16) -> u8 {
    // Thirteen bits count. Those below zero are counted from −1 on.
    let (sign, magnitude) = match sample >> 3 {
        negative if negative < 0 => (0, !negative),
        positive => (0x80, positive),
    };
    let magnitude = magnitude.unsigned_abs();
    // The first segment is twice as long as its steps would make it.
    let segment = magnitude.max(0x10).ilog2() - 4;
    let step = (magnitude >> segment.max(1)) & 0x0f;
    (sign | (segment as u8) << 4 | step as u8) ^ A_TOGGLE
}

fn decode_a(octet: u8) -> i16 {
    let code = octet ^ A_TOGGLE;
    let segment = (code >> 4) & 0x07;
    let step = i32::from(code & 0x0f) << 4;
    let magnitude = match segment {
        0 => step + 8,
        _ => (step + 0x108) << (segment - 1),
    };
    signed(magnitude, code & 0x80 == 0)
}

/// Magnitudes are below 2¹⁵ by what they are made of.
fn signed(magnitude: i32, negative: bool) -> i16 {
    let value = if negative { -magnitude } else { magnitude };
    value.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_and_the_loudest_have_their_codes() {
        assert_eq!(Law::Pcmu.encode(0), 0xff);
        assert_eq!(Law::Pcmu.encode(i16::MAX), 0x80);
        assert_eq!(Law::Pcmu.encode(i16::MIN), 0x00);
        assert_eq!(Law::Pcmu.decode(0x00), -32_124);
        assert_eq!(Law::Pcma.encode(0), 0xd5);
        assert_eq!(Law::Pcma.encode(-1), 0x55);
        assert_eq!(Law::Pcma.encode(i16::MAX), 0xaa);
        assert_eq!(Law::Pcma.encode(i16::MIN), 0x2a);
        assert_eq!(Law::Pcma.decode(0xaa), 32_256);
    }

    #[test]
    fn what_was_decoded_is_encoded_the_same() {
        for octet in 0..=u8::MAX {
            // µ-law has two zeros, and the negative one is written as the positive one.
            if octet != 0x7f {
                assert_eq!(Law::Pcmu.encode(Law::Pcmu.decode(octet)), octet);
            }
            assert_eq!(Law::Pcma.encode(Law::Pcma.decode(octet)), octet);
        }
    }

    #[test]
    fn a_sample_keeps_its_size_but_for_a_step() {
        for codec in [Law::Pcmu, Law::Pcma] {
            for sample in (i16::MIN..=i16::MAX).step_by(7) {
                let decoded = i32::from(codec.decode(codec.encode(sample)));
                let error = (decoded - i32::from(sample)).abs();
                // Steps are a sixteenth of a segment; a value is at most half a step off, or clipped.
                let allowed = (i32::from(sample).abs() / 16).max(16);
                assert!(error <= allowed, "{codec}: {sample} became {decoded}");
            }
        }
    }

    #[test]
    fn codecs_are_named() {
        assert_eq!("PCMA".parse(), Ok(Law::Pcma));
        assert!("opus".parse::<Law>().is_err());
        assert_eq!(Law::of_payload_type(0), Some(Law::Pcmu));
        assert_eq!(Law::of_payload_type(96), None);
    }
}
