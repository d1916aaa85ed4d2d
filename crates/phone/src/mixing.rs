//! Calls that are heard together: at the speaker of this phone, and by each other in a conference.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use media::codec::PACKET_TIME;
use media::resample::resample;
use media::tones::{Country, Tone, ToneGenerator};

use crate::device::{DeviceError, Recorder};

/// Samples a second in which calls are mixed.
const RATE: u32 = 16_000;
/// Samples of a packet time.
const FRAME: usize = RATE as usize / 50;
/// Samples that wait for one who is slower: 100 ms. Older ones give way.
const MAX_WAITING: usize = 5 * FRAME;

/// Where all that is heard at the phone goes: calls, and the tones of their progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Nowhere.
    #[default]
    Null,
    /// Into a WAV file.
    File(PathBuf),
}

impl Output {
    /// Reads `null:`, `file:PATH` or a path.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn open(name: &str) -> Result<Output, DeviceError> {
        if name == "null:" {
            return Ok(Output::Null);
        }
        let path = Path::new(name.strip_prefix("file:").unwrap_or(name));
        Recorder::create(path, RATE)?.finish()?;
        Ok(Output::File(path.to_owned()))
    }
}

/// The speaker of a phone. What it plays ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Speaker {
    heard: Arc<Mutex<Heard>>,
    country: Country,
    /// `None` when nobody listens.
    playing: Option<(Sender<()>, JoinHandle<()>)>,
}

/// What a call gives to the speaker.
#[derive(Clone, Debug)]
pub(crate) struct SpeakerInput {
    heard: Option<Arc<Mutex<Heard>>>,
}

#[derive(Debug, Default)]
struct Heard {
    calls: BTreeMap<u64, VecDeque<i16>>,
    /// The tones of calls; some end by themselves.
    tones: BTreeMap<u64, (ToneGenerator, Option<Instant>)>,
}

impl Speaker {
    /// Opens the speaker.
    ///
    /// # Errors
    ///
    /// The output cannot be opened.
    pub(crate) fn open(output: &Output, country: Country) -> Result<Speaker, DeviceError> {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let playing = match output {
            Output::Null => None,
            Output::File(path) => {
                let recorder = Recorder::create(path, RATE)?;
                let (end, ended) = channel();
                let shared = Arc::clone(&heard);
                let thread = thread::Builder::new()
                    .name("speaker".to_owned())
                    .spawn(move || write_file(&shared, recorder, &ended))
                    .map_err(|error| DeviceError::new(path.display().to_string(), error))?;
                Some((end, thread))
            }
        };
        Ok(Speaker {
            heard,
            country,
            playing,
        })
    }

    /// What a call plays into.
    pub(crate) fn input(&self) -> SpeakerInput {
        SpeakerInput {
            heard: self.playing.is_some().then(|| Arc::clone(&self.heard)),
        }
    }

    /// Plays a tone for a call in place of the one before: without end, or for a time.
    pub(crate) fn tone(&self, call: u64, tone: Option<Tone>, length: Option<Duration>) {
        let mut heard = lock(&self.heard);
        match tone {
            Some(tone) if self.playing.is_some() => {
                let generator = ToneGenerator::progress(tone, self.country, RATE);
                let until = length.map(|length| Instant::now() + length);
                heard.tones.insert(call, (generator, until));
            }
            _ => {
                heard.tones.remove(&call);
            }
        }
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.playing.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

impl SpeakerInput {
    /// Plays what was heard in a call.
    pub(crate) fn play(&self, call: u64, samples: &[i16], rate: u32) {
        let Some(heard) = &self.heard else {
            return;
        };
        let samples = resample(samples.to_vec(), rate, RATE);
        let mut heard = lock(heard);
        append(heard.calls.entry(call).or_default(), &samples);
    }
}

impl Heard {
    /// The next 20 ms of all together.
    fn mix(&mut self) -> Vec<i16> {
        let now = Instant::now();
        let mut mixed = vec![0; FRAME];
        for queue in self.calls.values_mut() {
            take_and_add(queue, &mut mixed);
        }
        self.calls.retain(|_, queue| !queue.is_empty());
        self.tones
            .retain(|_, (_, until)| until.is_none_or(|until| until > now));
        for (generator, _) in self.tones.values_mut() {
            let mut tone = Vec::with_capacity(FRAME);
            generator.play(FRAME, &mut tone);
            add(&mut mixed, tone.into_iter());
        }
        mixed
    }
}

fn write_file(heard: &Mutex<Heard>, mut recorder: Recorder, ended: &Receiver<()>) {
    let mut next = Instant::now() + PACKET_TIME;
    loop {
        let wait = next.saturating_duration_since(Instant::now());
        if ended.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
        let mixed = lock(heard).mix();
        // A full disk silences the speaker; calls go on.
        if recorder.write(&mixed, RATE).is_err() {
            break;
        }
        next += PACKET_TIME;
    }
    let _ = recorder.finish();
}

/// Calls that hear each other.
#[derive(Debug, Default)]
pub(crate) struct Conference {
    /// What each call has said and each other one has not heard yet: from the first to the second.
    waiting: Mutex<BTreeMap<(u64, u64), VecDeque<i16>>>,
}

impl Conference {
    /// Joins the calls, and no others.
    pub(crate) fn set(&self, calls: &[u64]) {
        let mut waiting = lock(&self.waiting);
        waiting.clear();
        for from in calls {
            for to in calls.iter().filter(|to| *to != from) {
                waiting.insert((*from, *to), VecDeque::new());
            }
        }
    }

    /// A call leaves.
    pub(crate) fn leave(&self, call: u64) {
        lock(&self.waiting).retain(|(from, to), _| *from != call && *to != call);
    }

    /// Hands what a call has said to the others, and adds what they have said to what it is sent.
    pub(crate) fn exchange(
        &self,
        call: u64,
        heard: (&[i16], u32),
        sent: &mut [i16],
        sent_rate: u32,
    ) {
        let mut waiting = lock(&self.waiting);
        if !waiting.keys().any(|(from, _)| *from == call) {
            return;
        }
        let said = resample(heard.0.to_vec(), heard.1, RATE);
        let mut others = vec![0; FRAME];
        for ((from, to), queue) in waiting.iter_mut() {
            if *from == call {
                append(queue, &said);
            } else if *to == call {
                take_and_add(queue, &mut others);
            }
        }
        drop(waiting);
        add(sent, resample(others, RATE, sent_rate).into_iter());
    }
}

fn append(queue: &mut VecDeque<i16>, samples: &[i16]) {
    queue.extend(samples);
    let excess = queue.len().saturating_sub(MAX_WAITING);
    queue.drain(..excess);
}

fn take_and_add(queue: &mut VecDeque<i16>, into: &mut [i16]) {
    let count = queue.len().min(into.len());
    add(into, queue.drain(..count));
}

fn add(into: &mut [i16], samples: impl Iterator<Item = i16>) {
    for (sum, sample) in into.iter_mut().zip(samples) {
        *sum = sum.saturating_add(sample);
    }
}

/// A thread that panicked leaves samples, no more.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hears_the_others_and_not_itself() {
        let conference = Conference::default();
        conference.set(&[1, 2, 3]);
        let mut sent = vec![0; FRAME];
        for (call, level) in [(1, 100), (2, 200), (3, 400)] {
            sent = vec![5; FRAME];
            conference.exchange(call, (&[level; FRAME], RATE), &mut sent, RATE);
        }
        assert!(
            sent.iter().all(|sample| *sample == 305),
            "the third: {sent:?}"
        );
        conference.leave(1);
        let mut sent = vec![0; FRAME];
        conference.exchange(2, (&[0; FRAME], RATE), &mut sent, RATE);
        assert!(sent.iter().all(|sample| *sample == 400), "{sent:?}");
        let mut sent = vec![0; FRAME];
        conference.exchange(1, (&[0; FRAME], RATE), &mut sent, RATE);
        assert!(sent.iter().all(|sample| *sample == 0), "it has left");
    }

    #[test]
    fn what_nobody_takes_does_not_grow() {
        let mut queue = VecDeque::new();
        for _ in 0..100 {
            append(&mut queue, &[1; FRAME]);
        }
        assert_eq!(queue.len(), MAX_WAITING);
        let mut loud = [i16::MAX; 2];
        take_and_add(&mut queue, &mut loud);
        assert_eq!(loud, [i16::MAX; 2], "no overflow");
    }
}
