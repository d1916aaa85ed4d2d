//! Calls that are heard together: at the speaker of this phone, and by each other in a conference.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use media::codec::PACKET_TIME;
use media::resample::RateConverter;
use media::tones::{Country, Tone, ToneGenerator};

use crate::device::Recorder;
use crate::device_error::DeviceError;
use crate::played::{Played, PlayedReader};
use crate::sound_card::{self, SpeakerStream};

/// Samples a second in which calls are mixed.
const RATE: u32 = crate::played::RATE;
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
    /// To a device.
    Device(String),
}

impl Output {
    /// Reads `null:`, `default`, `alsa:DEVICE`, `file:PATH` or a path. A device is opened for a moment.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or the device cannot be used.
    pub fn open(name: &str) -> Result<Output, DeviceError> {
        if name == "null:" {
            return Ok(Output::Null);
        }
        if sound_card::is_name(name) {
            SpeakerStream::open(name, |count, _| vec![0; count])?;
            return Ok(Output::Device(name.to_owned()));
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
    playing: Playing,
    /// What a device plays, where its echo is to be cancelled.
    played: Option<Played>,
}

/// What takes what is heard.
#[derive(Debug)]
enum Playing {
    Nothing,
    /// A thread that writes a file until the sender is dropped.
    File(Option<(Sender<()>, JoinHandle<()>)>),
    Device {
        _stream: SpeakerStream,
    },
}

/// What a call gives to the speaker.
#[derive(Debug)]
pub(crate) struct SpeakerInput {
    heard: Option<Arc<Mutex<Heard>>>,
    converted: RateConverter,
    played: Option<Played>,
}

/// A call's end of a conference.
#[derive(Debug, Default)]
pub(crate) struct ConferenceEnd {
    said: RateConverter,
    others: RateConverter,
}

#[derive(Debug, Default)]
struct Heard {
    /// Nobody listens any more.
    is_over: bool,
    calls: BTreeMap<u64, VecDeque<i16>>,
    /// The tones of calls; some end by themselves.
    tones: BTreeMap<u64, (ToneGenerator, Option<Instant>)>,
}

impl Speaker {
    /// Opens the speaker. Microphones are told what a device plays where the echo is to be cancelled.
    ///
    /// # Errors
    ///
    /// The output cannot be opened.
    pub(crate) fn open(
        output: &Output,
        country: Country,
        echo_cancellation: bool,
    ) -> Result<Speaker, DeviceError> {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let is_device = matches!(output, Output::Device(_));
        let played = (is_device && echo_cancellation).then(Played::default);
        let playing = match output {
            Output::Null => Playing::Nothing,
            Output::File(path) => {
                let recorder = Recorder::create(path, RATE)?;
                let (end, ended) = channel();
                let shared = Arc::clone(&heard);
                let thread = thread::Builder::new()
                    .name("speaker".to_owned())
                    .spawn(move || write_file(&shared, recorder, &ended))
                    .map_err(|error| DeviceError::new(path.display().to_string(), error))?;
                Playing::File(Some((end, thread)))
            }
            Output::Device(name) => {
                let mut stream = DeviceMix::new(Arc::clone(&heard), played.clone());
                let play = move |count, rate| stream.next(count, rate);
                Playing::Device {
                    _stream: SpeakerStream::open(name, play)?,
                }
            }
        };
        Ok(Speaker {
            heard,
            country,
            playing,
            played,
        })
    }

    fn is_playing(&self) -> bool {
        !matches!(self.playing, Playing::Nothing)
    }

    /// What a call plays into.
    pub(crate) fn input(&self) -> SpeakerInput {
        SpeakerInput {
            heard: self.is_playing().then(|| Arc::clone(&self.heard)),
            converted: RateConverter::default(),
            played: self.played.clone(),
        }
    }

    /// Plays a tone for a call in place of the one before: without end, or for a time.
    pub(crate) fn tone(&self, call: u64, tone: Option<Tone>, length: Option<Duration>) {
        let mut heard = lock(&self.heard);
        match tone {
            Some(tone) if self.is_playing() && !heard.is_over => {
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
        if let Playing::File(playing) = &mut self.playing
            && let Some((end, thread)) = playing.take()
        {
            drop(end);
            let _ = thread.join();
        }
    }
}

impl SpeakerInput {
    /// What the device of this speaker plays from now on; `None` when its echo is not to be cancelled.
    pub(crate) fn played(&self) -> Option<PlayedReader> {
        self.played.as_ref().map(Played::reader)
    }

    /// Plays what was heard in a call.
    pub(crate) fn play(&mut self, call: u64, samples: &[i16], rate: u32) {
        let Some(heard) = &self.heard else {
            return;
        };
        let samples = self.converted.next(samples, rate, RATE);
        let mut heard = lock(heard);
        if !heard.is_over {
            append(heard.calls.entry(call).or_default(), &samples);
        }
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

/// What is heard, as a device asks for it by its own clock.
struct DeviceMix {
    heard: Arc<Mutex<Heard>>,
    played: Option<Played>,
    converted: RateConverter,
    waiting: VecDeque<i16>,
}

impl DeviceMix {
    fn new(heard: Arc<Mutex<Heard>>, played: Option<Played>) -> DeviceMix {
        DeviceMix {
            heard,
            played,
            converted: RateConverter::default(),
            waiting: VecDeque::new(),
        }
    }

    fn next(&mut self, count: usize, rate: u32) -> Vec<i16> {
        // The filter needs some before it gives the first ones.
        let mut turns = count * 50 / rate.max(1) as usize + 2;
        while self.waiting.len() < count && turns > 0 {
            let mixed = lock(&self.heard).mix();
            if let Some(played) = &self.played {
                played.push(&mixed);
            }
            self.waiting.extend(self.converted.next(&mixed, RATE, rate));
            turns -= 1;
        }
        let count = count.min(self.waiting.len());
        self.waiting.drain(..count).collect()
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
    *lock(heard) = Heard {
        is_over: true,
        ..Heard::default()
    };
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
        end: &mut ConferenceEnd,
        heard: (&[i16], u32),
        sent: &mut [i16],
        sent_rate: u32,
    ) {
        let mut waiting = lock(&self.waiting);
        if !waiting.keys().any(|(from, _)| *from == call) {
            return;
        }
        let said = end.said.next(heard.0, heard.1, RATE);
        let mut others = vec![0; FRAME];
        for ((from, to), queue) in waiting.iter_mut() {
            if *from == call {
                append(queue, &said);
            } else if *to == call {
                take_and_add(queue, &mut others);
            }
        }
        drop(waiting);
        let others = end.others.next(&others, RATE, sent_rate);
        add(sent, others.into_iter());
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
            conference.exchange(
                call,
                &mut ConferenceEnd::default(),
                (&[level; FRAME], RATE),
                &mut sent,
                RATE,
            );
        }
        assert!(
            sent.iter().all(|sample| *sample == 305),
            "the third: {sent:?}"
        );
        conference.leave(1);
        let mut sent = vec![0; FRAME];
        conference.exchange(
            2,
            &mut ConferenceEnd::default(),
            (&[0; FRAME], RATE),
            &mut sent,
            RATE,
        );
        assert!(sent.iter().all(|sample| *sample == 400), "{sent:?}");
        let mut sent = vec![0; FRAME];
        conference.exchange(
            1,
            &mut ConferenceEnd::default(),
            (&[0; FRAME], RATE),
            &mut sent,
            RATE,
        );
        assert!(sent.iter().all(|sample| *sample == 0), "it has left");
    }

    #[test]
    fn a_speaker_that_has_stopped_keeps_nothing() {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let mut input = SpeakerInput {
            heard: Some(Arc::clone(&heard)),
            converted: RateConverter::default(),
            played: None,
        };
        input.play(1, &[1; FRAME], RATE);
        assert_eq!(lock(&heard).calls.len(), 1);
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(&directory.path().join("heard.wav"), RATE).unwrap();
        let (end, ended) = channel();
        drop(end);
        write_file(&heard, recorder, &ended);
        input.play(2, &[1; FRAME], RATE);
        assert!(lock(&heard).calls.is_empty(), "nobody takes it");
    }

    #[test]
    fn what_goes_into_a_file_has_no_echo() {
        let directory = tempfile::tempdir().unwrap();
        let file = Output::File(directory.path().join("heard.wav"));
        for output in [Output::Null, file] {
            let speaker = Speaker::open(&output, Country::default(), true).unwrap();
            assert!(speaker.input().played().is_none());
        }
    }

    #[test]
    fn a_device_gets_as_much_as_it_asks_for() {
        for rate in [8_000, 44_100, 48_000] {
            let heard = Arc::new(Mutex::new(Heard::default()));
            let mut mix = DeviceMix::new(Arc::clone(&heard), None);
            let mut played = Vec::new();
            for turn in 0..50 {
                append(lock(&heard).calls.entry(1).or_default(), &[1_000; FRAME]);
                let count = rate as usize / 50 + turn % 3;
                let some = mix.next(count, rate);
                assert_eq!(some.len(), count, "{rate}");
                played.extend(some);
            }
            let heard = played.iter().filter(|sample| **sample > 900).count();
            assert!(
                heard > played.len() * 9 / 10,
                "{rate}: {heard} of {}",
                played.len()
            );
        }
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
