//! WAV files: sound in RIFF chunks.

use bytes::BufMut;

use crate::g711::Law;
use crate::resample::resample;

/// Formats of the `fmt ` chunk.
const FORMAT_PCM: u16 = 1;
const FORMAT_A_LAW: u16 = 6;
const FORMAT_MU_LAW: u16 = 7;
/// The format stands in the extension of the chunk.
const FORMAT_EXTENSIBLE: u16 = 0xfffe;

/// The longest sound that is used, in seconds: an hour.
const MAX_SECONDS: usize = 3_600;
/// The highest rate that is read, in samples a second.
const MAX_RATE: u32 = 384_000;

/// A sound of one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sound {
    /// Samples a second.
    pub sample_rate: u32,
    /// Linear samples.
    pub samples: Vec<i16>,
}

impl Sound {
    /// The samples of this sound at another rate.
    pub fn at_rate(self, sample_rate: u32) -> Vec<i16> {
        resample(self.samples, self.sample_rate, sample_rate)
    }

    /// The sound as a WAV file with linear samples of 16 bits.
    pub fn to_wav(&self) -> Vec<u8> {
        let count = u32::try_from(self.samples.len()).unwrap_or(u32::MAX);
        let mut file = Sound::header(self.sample_rate, count).to_vec();
        file.extend(self.samples.iter().flat_map(|sample| sample.to_le_bytes()));
        file
    }

    /// What stands before that many linear samples of 16 bits in a WAV file.
    pub fn header(sample_rate: u32, samples: u32) -> [u8; 44] {
        let octets = samples.saturating_mul(2);
        let mut header = [0; 44];
        let mut rest = header.as_mut_slice();
        rest.put_slice(b"RIFF");
        rest.put_u32_le(octets.saturating_add(36));
        rest.put_slice(b"WAVEfmt ");
        rest.put_u32_le(16);
        rest.put_u16_le(FORMAT_PCM);
        rest.put_u16_le(1);
        rest.put_u32_le(sample_rate);
        rest.put_u32_le(sample_rate.saturating_mul(2));
        rest.put_u16_le(2);
        rest.put_u16_le(16);
        rest.put_slice(b"data");
        rest.put_u32_le(octets);
        header
    }
}

/// Why a file cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WavError {
    /// It is something else.
    #[error("it is not a WAV file")]
    NoWav,
    /// The chunk with the format or the one with the samples is missing or too short.
    #[error("its \"{0}\" chunk is missing or cut short")]
    Chunk(&'static str),
    /// Its samples are of a kind that is not read.
    #[error(
        "its samples ({format}) are not read: linear samples of 8 or 16 bits, A-law and µ-law are; \
         sox IN.wav -r 8000 -c 1 -b 16 OUT.wav converts it"
    )]
    Format {
        /// What they are.
        format: String,
    },
    /// There is no sound in it.
    #[error("it contains no sound")]
    Empty,
}

/// Reads a file; several channels are mixed into one.
///
/// # Errors
///
/// What is wrong with the file.
pub fn read(file: &[u8]) -> Result<Sound, WavError> {
    let (riff, chunks) = file.split_first_chunk::<12>().ok_or(WavError::NoWav)?;
    if !riff.starts_with(b"RIFF") || !riff.ends_with(b"WAVE") {
        return Err(WavError::NoWav);
    }
    let format = chunk(chunks, b"fmt ").ok_or(WavError::Chunk("fmt "))?;
    let format = Format::read(format).ok_or(WavError::Chunk("fmt "))?;
    let data = chunk(chunks, b"data").ok_or(WavError::Chunk("data"))?;
    let samples = format.samples(data)?;
    if samples.is_empty() {
        return Err(WavError::Empty);
    }
    Ok(Sound {
        sample_rate: format.rate,
        samples,
    })
}

/// The content of the first chunk of a kind; one that is cut short is as long as it is, since recorders
/// that were stopped leave such.
fn chunk<'a>(mut rest: &'a [u8], kind: &[u8; 4]) -> Option<&'a [u8]> {
    loop {
        let (header, body) = rest.split_first_chunk::<8>()?;
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        if header.starts_with(kind) {
            return body.get(..length).or(Some(body));
        }
        // Chunks begin at even places.
        rest = body.get(length.checked_add(length % 2)?..)?;
    }
}

struct Format {
    tag: u16,
    channels: usize,
    rate: u32,
    bits: u16,
}

impl Format {
    fn read(chunk: &[u8]) -> Option<Format> {
        let half = |at: usize| {
            let octets = chunk.get(at..)?.first_chunk::<2>()?;
            Some(u16::from_le_bytes(*octets))
        };
        let mut tag = half(0)?;
        if tag == FORMAT_EXTENSIBLE {
            tag = half(24)?;
        }
        let rate = chunk.get(4..)?.first_chunk::<4>()?;
        let format = Format {
            tag,
            channels: usize::from(half(2)?),
            rate: u32::from_le_bytes(*rate),
            bits: half(14)?,
        };
        let is_sound = format.channels > 0 && (1..=MAX_RATE).contains(&format.rate);
        is_sound.then_some(format)
    }

    /// One channel, at the file's own rate.
    fn samples(&self, data: &[u8]) -> Result<Vec<i16>, WavError> {
        let octets: usize = if self.bits == 16 { 2 } else { 1 };
        let sample: fn(&[u8]) -> i16 = match (self.tag, self.bits) {
            (FORMAT_PCM, 16) => |octets| {
                let sample = octets.first_chunk::<2>().copied();
                i16::from_le_bytes(sample.unwrap_or_default())
            },
            // Eight bits are without sign, with the middle at 128.
            (FORMAT_PCM, 8) => |octets| {
                let sample = octets.first().copied().unwrap_or(128);
                (i16::from(sample) - 128) << 8
            },
            (FORMAT_A_LAW, 8) => |octets| {
                let sample = octets.first().copied();
                sample.map_or(0, |sample| Law::Pcma.decode(sample))
            },
            (FORMAT_MU_LAW, 8) => |octets| {
                let sample = octets.first().copied();
                sample.map_or(0, |sample| Law::Pcmu.decode(sample))
            },
            (tag, bits) => {
                return Err(WavError::Format {
                    format: format!("format {tag}, {bits} bits"),
                });
            }
        };
        let mix = |frame: &[u8]| {
            let sum: i64 = frame.chunks(octets).map(|one| i64::from(sample(one))).sum();
            (sum / self.channels as i64) as i16
        };
        let most = MAX_SECONDS.saturating_mul(self.rate as usize);
        let frames = data.chunks_exact(octets * self.channels);
        Ok(frames.take(most).map(mix).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A file with a chunk that nobody knows before its samples.
    fn wav(tag: u16, channels: u16, rate: u32, bits: u16, data: &[u8]) -> Vec<u8> {
        let mut format = Vec::new();
        format.extend(tag.to_le_bytes());
        format.extend(channels.to_le_bytes());
        format.extend(rate.to_le_bytes());
        format.extend((rate * u32::from(channels * bits / 8)).to_le_bytes());
        format.extend((channels * bits / 8).to_le_bytes());
        format.extend(bits.to_le_bytes());
        let mut file = b"RIFF\0\0\0\0WAVE".to_vec();
        for (kind, content) in [(b"fmt ", &format[..]), (b"LIST", b"odd"), (b"data", data)] {
            file.extend(kind);
            file.extend((content.len() as u32).to_le_bytes());
            file.extend(content);
            file.resize(file.len() + content.len() % 2, 0);
        }
        file
    }

    fn samples(file: &[u8]) -> Vec<i16> {
        read(file).unwrap().samples
    }

    #[test]
    fn linear_samples_are_read() {
        let data: Vec<u8> = [100_i16, -100, 32_767, -32_768]
            .iter()
            .flat_map(|sample| sample.to_le_bytes())
            .collect();
        assert_eq!(
            samples(&wav(1, 1, 8000, 16, &data)),
            [100, -100, 32_767, -32_768]
        );
        assert_eq!(samples(&wav(1, 2, 8000, 16, &data)), [0, 0]);
        assert_eq!(
            samples(&wav(1, 1, 8000, 8, &[128, 255, 0])),
            [0, 32_512, -32_768]
        );
    }

    #[test]
    fn what_is_coded_already_is_decoded() {
        assert_eq!(samples(&wav(6, 1, 8000, 8, &[0xd5])), [8]);
        assert_eq!(samples(&wav(7, 1, 8000, 8, &[0xff, 0x00])), [0, -32_124]);
    }

    #[test]
    fn what_was_written_is_read() {
        let sound = Sound {
            sample_rate: 16_000,
            samples: vec![1, -1, i16::MAX, i16::MIN],
        };
        assert_eq!(read(&sound.to_wav()), Ok(sound));
    }

    #[test]
    fn another_rate_is_converted() {
        let sound = Sound {
            sample_rate: 16_000,
            samples: vec![0; 1_600],
        };
        assert_eq!(sound.at_rate(8_000), [0; 800]);
    }

    #[test]
    fn what_cannot_be_played_is_said() {
        assert_eq!(read(b"ID3"), Err(WavError::NoWav));
        assert_eq!(read(&wav(1, 1, 8000, 16, &[])), Err(WavError::Empty));
        assert_eq!(
            read(&wav(1, 0, 8000, 16, &[0; 4])),
            Err(WavError::Chunk("fmt "))
        );
        let error = read(&wav(3, 1, 8000, 32, &[0; 4])).unwrap_err();
        assert!(error.to_string().contains("format 3, 32 bits"), "{error}");
        let file = wav(1, 1, 8000, 16, &[0; 4]);
        assert_eq!(read(&file[..20]), Err(WavError::Chunk("fmt ")));
    }

    proptest! {
        #[test]
        fn anything_may_be_a_file(
            head in any::<bool>(),
            tag in 0_u16..9, channels in 0_u16..4, rate in any::<u32>(), bits in 0_u16..40,
            data in prop::collection::vec(any::<u8>(), 0..200), cut in 0_usize..300,
        ) {
            let mut file = if head {
                wav(tag, channels, rate % 200_000, bits, &data)
            } else {
                data.clone()
            };
            file.truncate(cut);
            if let Ok(sound) = read(&file) {
                prop_assert!(!sound.samples.is_empty() && sound.samples.len() <= data.len());
            }
        }
    }
}
