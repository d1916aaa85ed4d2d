//! Where sound comes from, and where it goes. `file:`, `tone:` and `null:` are always there.

use std::fs::{self, File};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use media::echo_canceller::EchoCanceller;
use media::resample::RateConverter;
use media::tones::ToneGenerator;
use media::wav::{self, Sound};

use crate::device_error::DeviceError;
use crate::played::{self, PlayedReader};
use crate::sound_card::{self, Microphone};

/// The longest file that is played.
const MAX_FILE_OCTETS: u64 = 256 << 20;

/// Where the sound comes from that is sent.
#[derive(Clone, Debug)]
pub enum Source {
    /// Silence.
    Null,
    /// One tone without end, in hertz.
    Tone(f32),
    /// A sound, once.
    Sound(Sound),
    /// What is heard.
    Echo,
    /// A microphone.
    Device(String),
}

impl Source {
    /// Reads `null:`, `tone:HERTZ`, `default`, `alsa:DEVICE`, `file:PATH` or a path. A microphone is opened for a moment.
    ///
    /// # Errors
    ///
    /// It is none of them, or the file cannot be read or played.
    pub fn open(name: &str) -> Result<Source, DeviceError> {
        if name == "null:" {
            return Ok(Source::Null);
        }
        if sound_card::is_name(name) {
            Microphone::open(name)?;
            return Ok(Source::Device(name.to_owned()));
        }
        if let Some(hertz) = name.strip_prefix("tone:") {
            let hertz = hertz.parse::<f32>().ok();
            let audible = hertz.filter(|hertz| (20.0..=20_000.0).contains(hertz));
            return audible.map(Source::Tone).ok_or_else(|| {
                DeviceError::new(
                    name,
                    "a frequency from 20 to 20000 is expected, as in tone:440",
                )
            });
        }
        let path = Path::new(name.strip_prefix("file:").unwrap_or(name));
        let metadata = fs::metadata(path).map_err(|error| DeviceError::new(name, error))?;
        if metadata.len() > MAX_FILE_OCTETS {
            return Err(DeviceError::new(name, "it is longer than 256 MiB"));
        }
        let file = fs::read(path).map_err(|error| DeviceError::new(name, error))?;
        let sound = wav::read(&file).map_err(|error| DeviceError::new(name, error))?;
        Ok(Source::Sound(sound))
    }

    /// Plays it at a rate. What is `played` beside a microphone is taken out of what it captures.
    pub(crate) fn player(&self, sample_rate: u32, played: Option<PlayedReader>) -> Player {
        match self {
            Source::Null => Player::Null,
            Source::Tone(hertz) => Player::Tone(ToneGenerator::steady(*hertz, sample_rate)),
            Source::Sound(sound) => Player::Sound {
                samples: sound.clone().at_rate(sample_rate),
                at: 0,
            },
            Source::Echo => Player::Echo,
            // One that is gone meanwhile is silent.
            Source::Device(name) => Microphone::open(name).map_or(Player::Null, |microphone| {
                Player::Microphone(Box::new(Capture {
                    microphone,
                    converted: RateConverter::default(),
                    sample_rate,
                    echo: played.map(|played| Echo {
                        played,
                        canceller: EchoCanceller::new(played::RATE, sample_rate),
                    }),
                    waiting: Vec::new(),
                }))
            }),
        }
    }
}

/// A source that is played.
#[derive(Debug)]
pub(crate) enum Player {
    Null,
    Tone(ToneGenerator),
    Sound { samples: Vec<i16>, at: usize },
    Echo,
    Microphone(Box<Capture>),
}

/// A microphone whose sound is sent.
#[derive(Debug)]
pub(crate) struct Capture {
    microphone: Microphone,
    converted: RateConverter,
    sample_rate: u32,
    echo: Option<Echo>,
    waiting: Vec<i16>,
}

/// What a microphone captures of the speaker beside it.
#[derive(Debug)]
struct Echo {
    played: PlayedReader,
    canceller: EchoCanceller,
}

impl Player {
    /// Appends the next `count` samples; `heard` is what came in the same time. `true` when its end was reached by it.
    pub(crate) fn play(&mut self, count: usize, heard: &[i16], into: &mut Vec<i16>) -> bool {
        match self {
            Player::Null => into.resize(into.len() + count, 0),
            Player::Tone(generator) => generator.play(count, into),
            Player::Echo => {
                let mut echo = heard.to_vec();
                echo.resize(count, 0);
                into.append(&mut echo);
            }
            Player::Microphone(capture) => capture.take(count, into),
            Player::Sound { samples, at } => {
                let before = *at;
                let some = samples.get(*at..).unwrap_or_default();
                let some = some.get(..count).unwrap_or(some);
                into.extend_from_slice(some);
                *at += some.len();
                into.resize(into.len() + count - some.len(), 0);
                return before < samples.len() && *at >= samples.len();
            }
        }
        false
    }
}

impl Capture {
    /// Appends the next `count` samples; what is not captured yet is silence.
    fn take(&mut self, count: usize, into: &mut Vec<i16>) {
        let from = self.microphone.sample_rate();
        let taken = count * from as usize / self.sample_rate.max(1) as usize;
        let taken = self.microphone.take(taken);
        let mut captured = self.converted.next(&taken, from, self.sample_rate);
        match &mut self.echo {
            Some(Echo { played, canceller }) => {
                canceller.play(&played.take());
                canceller.capture(&captured, &mut self.waiting);
            }
            None => self.waiting.append(&mut captured),
        }
        let end = into.len() + count;
        let ready = count.min(self.waiting.len());
        into.extend(self.waiting.drain(..ready));
        into.resize(end, 0);
    }
}

/// Writes what is heard into a WAV file, piece by piece.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: BufWriter<File>,
    sample_rate: u32,
    samples: u32,
    converted: RateConverter,
}

impl Recorder {
    /// Creates the file.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn create(path: &Path, sample_rate: u32) -> Result<Recorder, DeviceError> {
        let problem = |error| DeviceError::new(path.display().to_string(), error);
        let file = File::create(path).map_err(problem)?;
        let mut recorder = Recorder {
            path: path.to_owned(),
            file: BufWriter::new(file),
            sample_rate,
            samples: 0,
            converted: RateConverter::default(),
        };
        recorder.write_header().map_err(problem)?;
        Ok(recorder)
    }

    /// Appends samples of a rate, which may be another one than the file's: the codec of a call may change.
    ///
    /// # Errors
    ///
    /// They cannot be written.
    pub fn write(&mut self, samples: &[i16], sample_rate: u32) -> Result<(), DeviceError> {
        let samples = self.converted.next(samples, sample_rate, self.sample_rate);
        for sample in &samples {
            self.file
                .write_all(&sample.to_le_bytes())
                .map_err(|error| DeviceError::new(self.path.display().to_string(), error))?;
        }
        self.samples = self.samples.saturating_add(samples.len() as u32);
        Ok(())
    }

    /// Writes the length into the header: the file is complete.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn finish(mut self) -> Result<(), DeviceError> {
        let finish = |recorder: &mut Recorder| {
            recorder.file.seek(SeekFrom::Start(0))?;
            recorder.write_header()?;
            recorder.file.flush()
        };
        finish(&mut self).map_err(|error| DeviceError::new(self.path.display().to_string(), error))
    }

    fn write_header(&mut self) -> std::io::Result<()> {
        let header = Sound::header(self.sample_rate, self.samples);
        self.file.write_all(&header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_named() {
        assert!(matches!(Source::open("null:"), Ok(Source::Null)));
        assert!(matches!(Source::open("tone:440"), Ok(Source::Tone(_))));
        let error = Source::open("tone:high").unwrap_err().to_string();
        assert!(error.starts_with("tone:high: a frequency"), "{error}");
        let error = Source::open("/no/such.wav").unwrap_err().to_string();
        assert!(error.starts_with("/no/such.wav: "), "{error}");
    }

    #[test]
    fn a_recording_can_be_played() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("heard.wav");
        let mut recorder = Recorder::create(&path, 8_000).unwrap();
        recorder.write(&[1, -2], 8_000).unwrap();
        recorder.write(&[3], 8_000).unwrap();
        recorder.finish().unwrap();
        let source = Source::open(&format!("file:{}", path.display())).unwrap();
        let mut player = source.player(8_000, None);
        let mut played = Vec::new();
        assert!(!player.play(2, &[], &mut played));
        assert!(player.play(2, &[], &mut played), "this was its end");
        assert!(!player.play(1, &[], &mut played));
        assert_eq!(played, [1, -2, 3, 0, 0]);
    }

    #[test]
    fn a_recording_has_one_rate_whatever_the_codec() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("heard.wav");
        let mut recorder = Recorder::create(&path, 8_000).unwrap();
        recorder.write(&[0; 160], 8_000).unwrap();
        recorder.write(&[0; 960], 48_000).unwrap();
        recorder.finish().unwrap();
        let sound = wav::read(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(sound.sample_rate, 8_000);
        // The filter keeps the last milliseconds.
        assert!((270..=320).contains(&sound.samples.len()));
    }

    #[test]
    fn an_echo_is_what_was_heard() {
        let mut played = Vec::new();
        Source::Echo
            .player(8_000, None)
            .play(3, &[7, 8], &mut played);
        assert_eq!(played, [7, 8, 0]);
    }
}
