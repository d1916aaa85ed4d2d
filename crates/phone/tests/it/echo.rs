//! Echo cancellation with speech, in a room that is computed.

use media::echo_canceller::EchoCanceller;
use media::wav::Sound;

use crate::peers::sounds::{decibels, likeness, speech};

const RATE: u32 = 16_000;
/// Samples of a turn of a call.
const TURN: usize = RATE as usize / 50;
/// When the canceller knows the room.
const CONVERGED: usize = 4 * RATE as usize;

/// The sound of a loudspeaker at a microphone: later, softer, and with reflections that die away within a tenth of a second.
fn echo_of(played: &[i16], delay_ms: usize) -> Vec<i16> {
    let delay = delay_ms * RATE as usize / 1_000;
    let mut reflections = vec![(delay, 0.25)];
    let mut at = delay;
    for step in [37, 61, 113, 151, 199, 241, 283, 331] {
        at += step;
        let softer = 0.12 * (-((at - delay) as f64) / 500.0).exp();
        reflections.push((at, if step % 4 == 1 { softer } else { -softer }));
    }
    let sample = |at: usize| {
        let heard = reflections.iter().map(|(delay, gain)| {
            let before = at.checked_sub(*delay).and_then(|at| played.get(at));
            before.map_or(0.0, |sample| f64::from(*sample) * gain)
        });
        heard.sum::<f64>() as i16
    };
    (0..played.len()).map(sample).collect()
}

fn cancelled(played: &[i16], captured: &[i16]) -> Vec<i16> {
    let mut canceller = EchoCanceller::new(RATE, RATE);
    let mut clean = Vec::new();
    for (played, captured) in played.chunks(TURN).zip(captured.chunks(TURN)) {
        canceller.play(played);
        canceller.capture(captured, &mut clean);
    }
    clean
}

fn sound(samples: &[i16]) -> Sound {
    Sound {
        samples: samples.to_vec(),
        sample_rate: RATE,
    }
}

#[test]
fn an_echo_of_speech_is_taken_out() {
    let Some(spoken) = speech(RATE) else { return };
    for delay in [20, 80, 200] {
        let echo = echo_of(&spoken.samples, delay);
        let clean = cancelled(&spoken.samples, &echo);
        let loss = decibels(&echo[CONVERGED..clean.len()]) - decibels(&clean[CONVERGED..]);
        println!("echo return loss enhancement after {delay} ms: {loss:.1} dB");
        assert!(loss > 20.0, "{delay} ms: {loss:.1} dB");
    }
}

#[test]
fn who_speaks_here_is_heard_while_the_other_side_speaks() {
    let Some(spoken) = speech(RATE) else { return };
    let played = [spoken.samples.as_slice(), &spoken.samples].concat();
    // Here they say the same from the middle on, so that both speak all the time.
    let mut near = spoken.samples.clone();
    near.rotate_left(spoken.samples.len() / 2);
    let echo = echo_of(&played, 60);
    let silence = vec![0; spoken.samples.len()];
    let near_all = [silence.as_slice(), &near].concat();
    let captured: Vec<i16> = echo
        .iter()
        .zip(&near_all)
        .map(|(echo, near)| echo.saturating_add(near / 2))
        .collect();
    let clean = cancelled(&played, &captured);
    let clean = &clean[spoken.samples.len()..];
    let near: Vec<i16> = near.iter().map(|sample| sample / 2).collect();
    let lost = decibels(&near) - decibels(clean);
    let alike = likeness(&sound(&near), &sound(clean));
    println!("of the near end {lost:.1} dB are lost, likeness {alike:.2}");
    // While both speak the canceller holds some of either back.
    assert!(lost.abs() < 4.0, "{lost:.1} dB");
    assert!(alike > 0.75, "{alike:.2}");
}
