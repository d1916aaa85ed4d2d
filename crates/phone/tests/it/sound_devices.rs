//! Microphone and speaker by ALSA: PulseAudio's null sink, whose monitor is the microphone, so that a phone captures what it
//! plays itself.
//!
//! The library of ALSA reads its settings from the environment, which a test must not change while others run: the first test
//! starts PulseAudio in a private directory, and this program once more in its environment, for the second one.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use media::codec::Codec;
use media::wav::{self, Sound};
use phone::{Command as PhoneCommand, Output, Source};
use sip::Transport;
use test_support::{Peer, require_command, require_file, say_skipped, wait_until};

use crate::calls::block_on;
use crate::peers::sounds::{decibels, likeness, speech};
use crate::phones::Running;

/// Longer than PulseAudio takes to begin.
const LIMIT: Duration = Duration::from_secs(20);
/// Samples a second of what is played.
const RATE: u32 = 16_000;
/// When the canceller knows the echo.
const CONVERGED: Duration = Duration::from_secs(4);
/// The test that runs in the environment of the sound server.
const INSIDE: &str = "sound_devices::inside";

#[test]
fn what_is_played_comes_back_from_the_monitor_unless_its_echo_is_cancelled() {
    let plugin = format!(
        "/usr/lib/{}-linux-gnu/alsa-lib/libasound_module_pcm_pulse.so",
        std::env::consts::ARCH
    );
    let (Some(pulseaudio), Some(pactl), Some(_), Some(_)) = (
        require_command("pulseaudio", "pulseaudio"),
        require_command("pactl", "pulseaudio-utils"),
        require_file(plugin, "libasound2-plugins"),
        require_command("flite", "flite"),
    ) else {
        return;
    };
    let home = tempfile::tempdir().expect("a directory");
    let sound = "pcm.!default { type pulse }\nctl.!default { type pulse }\n";
    std::fs::write(home.path().join(".asoundrc"), sound).expect("a file");
    let private = |program: &Path| {
        let mut command = Command::new(program);
        command
            .env("HOME", home.path())
            .env("XDG_RUNTIME_DIR", home.path())
            .env("XDG_CONFIG_HOME", home.path())
            .env("PULSE_RUNTIME_PATH", home.path())
            .env_remove("PULSE_SERVER")
            .env_remove("DISPLAY");
        command
    };
    let mut server = private(&pulseaudio);
    server
        .args([
            "-n",
            "--daemonize=no",
            "--exit-idle-time=-1",
            "--use-pid-file=no",
        ])
        .args(["--disable-shm", "--log-target=stderr", "--log-level=notice"])
        .args(["-L", "module-native-protocol-unix"])
        .args([
            "-L",
            "module-null-sink sink_name=loop rate=48000 channels=1",
        ]);
    let server = Peer::spawn(&mut server);
    let is_there = || {
        let status = private(&pactl)
            .args(["set-default-source", "loop.monitor"])
            .output();
        status.is_ok_and(|output| output.status.success())
    };
    assert!(wait_until(LIMIT, is_there), "{}", server.output());
    let itself = std::env::current_exe().expect("this program");
    let mut test = private(&itself);
    let output = test
        .args(["--exact", INSIDE, "--ignored", "--nocapture"])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}{}", server.output());
    assert!(text.contains("1 passed"), "{text}");
    print!("{text}");
}

#[test]
#[ignore = "needs a sound server whose default source is the monitor of its default sink; the test above starts it"]
fn inside() {
    block_on(async {
        let Some(spoken) = speech(RATE) else {
            say_skipped("nobody speaks");
            return;
        };
        let echo = heard_back(&spoken, false).await;
        let cancelled = heard_back(&spoken, true).await;
        let (loud, quiet) = (level(&echo), level(&cancelled));
        println!(
            "spoken {:.1} dB, back {loud:.1} dB, cancelled {quiet:.1} dB",
            level(&spoken)
        );
        assert!(
            (loud - level(&spoken)).abs() < 3.0,
            "what was played comes back: {loud:.1} dB"
        );
        let alike = likeness(&spoken, &echo);
        assert!(alike > 0.8, "it is the same sound: {alike:.2}");
        assert!(
            loud - quiet > 15.0,
            "{loud:.1} dB and {quiet:.1} dB with the echo cancelled"
        );
    });
}

/// What a caller hears of its own speech from a phone with loudspeaker and microphone.
async fn heard_back(spoken: &Sound, echo_cancellation: bool) -> Sound {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("heard.wav");
    let mut callee = Running::start("bob", Transport::Udp, |config| {
        config.codecs = vec![Codec::G722];
        config.answers = true;
        config.source = Source::open("default").expect("a microphone");
        config.output = Output::open("default").expect("a speaker");
        config.media.echo_cancellation = echo_cancellation;
    });
    let mut caller = Running::start("alice", Transport::Udp, |config| {
        config.codecs = vec![Codec::G722];
        config.source = Source::Sound(spoken.clone());
        config.recording = Some(path.clone());
    });
    caller.dial(&callee.uri).await;
    caller.answered().await;
    let length = Duration::from_secs_f64(spoken.samples.len() as f64 / f64::from(RATE));
    tokio::time::sleep(length + Duration::from_millis(500)).await;
    caller.command(PhoneCommand::Hangup { call: None }).await;
    caller.ended().await;
    callee.ended().await;
    for phone in [&mut caller, &mut callee] {
        phone.command(PhoneCommand::Quit).await;
        phone.off().await;
    }
    let heard = wav::read(&std::fs::read(&path).expect("a recording")).expect("a sound");
    Sound {
        samples: heard.at_rate(RATE),
        sample_rate: RATE,
    }
}

/// The level after the canceller has had time, in decibels.
fn level(sound: &Sound) -> f64 {
    let from = (CONVERGED.as_secs_f64() * f64::from(sound.sample_rate)) as usize;
    decibels(&sound.samples[from..])
}
