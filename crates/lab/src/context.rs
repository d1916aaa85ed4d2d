//! What an experiment is given: its seed, how thorough it is to be, and where it tells how far it is.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sctp::Profile;

use crate::progress::{Progress, ProgressEvent};

/// What an experiment is given.
#[derive(Clone, Debug)]
pub struct Context {
    name: &'static str,
    seed: u64,
    quick: bool,
    profile: Profile,
    progress: Progress,
    program: Option<PathBuf>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Context {
    /// A context of the experiment of that name that shows nothing.
    pub fn hidden(name: &'static str, seed: u64, quick: bool) -> Context {
        Context::new(name, seed, quick, Progress::Bar(ProgressBar::hidden()))
    }

    pub(crate) fn new(name: &'static str, seed: u64, quick: bool, progress: Progress) -> Context {
        Context {
            name,
            seed,
            quick,
            profile: Profile::Signalling,
            progress,
            program: None,
            notes: Arc::default(),
        }
    }

    /// The same with the program `tandem`.
    pub(crate) fn with_program(self, program: Option<&Path>) -> Context {
        let program = program.map(Path::to_owned);
        Context { program, ..self }
    }

    /// The same with another profile of SIP over SCTP than that for signalling.
    pub(crate) fn with_profile(self, profile: Profile) -> Context {
        Context { profile, ..self }
    }

    /// The profile of SIP over SCTP, where nothing else is compared.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The program `tandem`, as which servers run whose memory and processor time are to be their own; `None`
    /// where nobody has told where it is.
    pub fn program(&self) -> Option<&Path> {
        self.program.as_deref()
    }

    /// The seed that the user gave.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether to be done soon rather than thorough: fewer points and shorter runs, the same
    /// checks.
    pub fn quick(&self) -> bool {
        self.quick
    }

    /// One of two values, by [`Context::quick`].
    pub fn either<T>(&self, quick: T, thorough: T) -> T {
        if self.quick { quick } else { thorough }
    }

    /// A generator of random numbers that follows from the seed, the experiment's name and the
    /// stream, and from nothing else: experiments do not share numbers, and can be run alone.
    pub fn rng(&self, stream: u64) -> ChaCha12Rng {
        let mut rng = ChaCha12Rng::seed_from_u64(self.seed ^ hash(self.name));
        rng.set_stream(stream);
        rng
    }

    /// Says into how many steps it is divided.
    pub fn steps(&self, steps: u64) {
        self.progress.report(ProgressEvent::Steps(steps));
    }

    /// Says what begins now.
    pub fn begin(&self, what: impl Into<String>) {
        self.progress.report(ProgressEvent::Begin(what.into()));
    }

    /// A remark for the outcome, such as what this machine refused. It is made once, however often it is told.
    pub(crate) fn note(&self, note: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// The remarks so far, which are then gone.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One step is done.
    pub fn done(&self) {
        self.progress.report(ProgressEvent::Done);
    }
}

/// FNV-1a: small, and the same everywhere and for ever.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn a_remark_is_made_once() {
        let context = Context::hidden("one", 1, true);
        for note in ["so", "other", "so"] {
            context.clone().note(note.to_owned());
        }
        assert_eq!(context.take_notes(), ["so", "other"]);
        assert!(context.take_notes().is_empty());
    }

    #[test]
    fn experiments_and_streams_have_numbers_of_their_own() {
        let first = |name, seed, stream| Context::hidden(name, seed, true).rng(stream).next_u64();
        let one = first("one", 1, 1);
        assert_eq!(one, first("one", 1, 1));
        for other in [first("two", 1, 1), first("one", 2, 1), first("one", 1, 2)] {
            assert_ne!(one, other);
        }
    }
}
