//! Speech that is sent through a call and recorded at the far end, by PESQ (ITU-T P.862, as `pesq` of PyPI has it).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::time::Duration;

use media::codec::Codec;
use media::wav::Sound;
use phone::{Command, PhoneEvent, Source};
use sip::Transport;
use test_support::free_udp_port;

use super::OtherPhone;
use super::baresip::Baresip;
use super::lossy_link::LossyLink;
use super::python::require_python;
use super::sounds::{read_when_complete, speech};
use crate::calls::block_on;
use crate::phones::Running;

/// PESQ, and what it is given samples in.
const PACKAGES: [&str; 2] = ["pesq==0.0.4", "numpy"];
/// What has to be reached where no packet is lost.
const CLEAN: f64 = 4.3;
/// Calls until each direction has to have been good: a machine that is busy delays packets until it is too late for them.
const ATTEMPTS: usize = 5;
/// Beside the speech: from the answer to the first packet, and until the last one is played.
const MARGIN: Duration = Duration::from_millis(700);

/// PESQ of what was heard, from 1 to 4.5 (ITU-T P.862.1).
struct Scorer {
    python: PathBuf,
    sent: Sound,
}

impl Scorer {
    /// `None` where PESQ or the voices cannot be had.
    fn new() -> Option<Scorer> {
        Some(Scorer {
            sent: speech(8_000)?,
            python: require_python(&PACKAGES)?,
        })
    }

    fn score(&self, heard: &Sound) -> f64 {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, sound: &Sound| {
            let path = directory.path().join(name);
            std::fs::write(&path, sound.to_wav()).expect("a file");
            path
        };
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/peers/score.py");
        let heard = Sound {
            sample_rate: 8_000,
            samples: heard.clone().at_rate(8_000),
        };
        let output = Program::new(&self.python)
            .arg(program)
            .arg(write("sent.wav", &self.sent))
            .arg(write("heard.wav", &heard))
            .output()
            .expect("it runs");
        let (score, problem) = (&output.stdout, &output.stderr);
        let score = String::from_utf8_lossy(score).trim().parse();
        score.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(problem)))
    }

    fn duration(&self) -> Duration {
        let seconds = self.sent.samples.len() as f64 / f64::from(self.sent.sample_rate);
        Duration::from_secs_f64(seconds) + MARGIN
    }

    /// The speech as a file that baresip sends.
    fn write(&self, directory: &Path) -> PathBuf {
        let path = directory.join("speech.wav");
        std::fs::write(&path, self.sent.to_wav()).expect("a file");
        path
    }
}

/// baresip calls us while either side sends speech; the scores of what we heard and of what it heard.
async fn call_us(scorer: &Scorer, codec: Codec, loss: f64, seed: u64) -> Option<(f64, f64)> {
    let directory = tempfile::tempdir().expect("a directory");
    let heard = directory.path().join("heard.wav");
    let mut phone = Running::start("alice", Transport::Udp, |config| {
        config.codecs = vec![codec];
        config.source = Source::Sound(scorer.sent.clone());
        config.recording = Some(heard.clone());
        config.answers = true;
    });
    let link = LossyLink::to(phone.phone.listening()[0].address, loss, seed);
    let sends = scorer.write(directory.path());
    let mut baresip = Baresip::unregistered(0, codec, &sends)?;
    baresip.dial(&format!("sip:alice@{}", link.address));
    phone.answered().await;
    tokio::time::sleep(scorer.duration()).await;
    phone.command(Command::Hangup { call: None }).await;
    let PhoneEvent::Ended { quality, .. } = phone.ended().await else {
        panic!("it ended");
    };
    println!("{codec}, {loss} of the packets lost, seed {seed}: {quality:?}");
    baresip.wait_until_ended();
    let ours = scorer.score(&read_when_complete(&heard));
    Some((ours, scorer.score(&baresip.heard())))
}

/// baresip calls baresip; the score of what the one that is called heard.
async fn call_baresip(scorer: &Scorer, codec: Codec, loss: f64, seed: u64) -> Option<f64> {
    let directory = tempfile::tempdir().expect("a directory");
    let sends = scorer.write(directory.path());
    let port = free_udp_port();
    let mut called = Baresip::unregistered(port, codec, &sends)?;
    let link = LossyLink::to(SocketAddr::from(([127, 0, 0, 1], port)), loss, seed);
    let mut caller = Baresip::unregistered(0, codec, &sends)?;
    caller.dial(&format!("sip:baresip@{}", link.address));
    called.wait_until_established();
    tokio::time::sleep(scorer.duration()).await;
    caller.hang_up();
    called.wait_until_ended();
    Some(scorer.score(&called.heard()))
}

#[test]
fn speech_is_heard_as_it_was_sent_with_mu_law() {
    speech_is_heard_as_it_was_sent(Codec::Pcmu);
}

#[test]
fn speech_is_heard_as_it_was_sent_with_a_law() {
    speech_is_heard_as_it_was_sent(Codec::Pcma);
}

fn speech_is_heard_as_it_was_sent(codec: Codec) {
    block_on(async {
        let Some(scorer) = Scorer::new() else {
            return;
        };
        let mut best = (0.0_f64, 0.0_f64);
        for _ in 0..ATTEMPTS {
            let Some((ours, theirs)) = call_us(&scorer, codec, 0.0, 1).await else {
                return;
            };
            println!("{codec}: we {ours}, baresip {theirs}");
            best = (best.0.max(ours), best.1.max(theirs));
            if best.0 >= CLEAN && best.1 >= CLEAN {
                return;
            }
        }
        panic!("the best PESQ of what we and of what baresip heard: {best:?}");
    });
}

/// Several calls for each part of the packets that is lost, since it counts which ones they are.
#[test]
#[ignore = "takes minutes: nightly"]
fn losses_do_no_more_harm_than_at_baresip() {
    const SEEDS: std::ops::Range<u64> = 0..6;
    block_on(async {
        let Some(scorer) = Scorer::new() else {
            return;
        };
        let mut failures = Vec::new();
        for loss in [0.01, 0.03, 0.05, 0.1] {
            let (mut ours, mut theirs) = (0.0, 0.0);
            for seed in SEEDS {
                let both = tokio::join!(
                    call_us(&scorer, Codec::Pcmu, loss, seed),
                    call_baresip(&scorer, Codec::Pcmu, loss, seed)
                );
                let (Some((our, _)), Some(their)) = both else {
                    return;
                };
                println!("loss {loss}, seed {seed}: we {our}, baresip {their}");
                ours += our / SEEDS.count() as f64;
                theirs += their / SEEDS.count() as f64;
            }
            println!("loss {loss}: we {ours}, baresip {theirs}");
            if ours < theirs {
                failures.push((loss, ours, theirs));
            }
        }
        assert!(
            failures.is_empty(),
            "lost, our PESQ, baresip's: {failures:?}"
        );
    });
}
