//! Calls with sound, keys, hold and texts, over each transport that needs no certificate.

use std::time::Duration;

use media::codec::Codec;
use media::wav;
use phone::{Command, PhoneEvent, Source};
use sip::Transport;

use crate::phones::Running;

pub(crate) fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(test);
}

/// The power of a frequency in the samples (Goertzel), as a part of all power.
pub(crate) fn share(samples: &[i16], hertz: f32, sample_rate: u32) -> f32 {
    let factor = 2.0 * (std::f32::consts::TAU * hertz / sample_rate as f32).cos();
    let (mut one, mut two, mut all) = (0.0_f32, 0.0_f32, 0.0_f32);
    for sample in samples {
        let sample = f32::from(*sample);
        let next = sample + factor * one - two;
        (one, two) = (next, one);
        all += sample * sample;
    }
    let power = one * one + two * two - factor * one * two;
    2.0 * power / (all.max(1.0) * samples.len() as f32)
}

#[test]
fn a_tone_is_heard_by_the_other_side_in_each_codec() {
    block_on(async {
        for codec in Codec::ALL {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("heard.wav");
            let mut caller = Running::start("alice", Transport::Udp, |config| {
                config.codecs = vec![codec];
                config.source = Source::Tone(440.0);
            });
            let mut callee = Running::start("bob", Transport::Udp, |config| {
                config.answers = true;
                config.recording = Some(path.clone());
            });
            caller.dial(&callee.uri).await;
            assert_eq!(caller.answered().await, codec.to_string());
            tokio::time::sleep(Duration::from_millis(1_200)).await;
            caller.command(Command::Hangup { call: None }).await;
            let PhoneEvent::Ended {
                reason, quality, ..
            } = callee.ended().await
            else {
                panic!("it ended");
            };
            assert_eq!(reason, "remote");
            let quality = quality.expect("there was sound");
            assert!(quality.packets_received > 20, "{codec}: {quality:?}");
            let heard = wav::read(&std::fs::read(&path).unwrap()).unwrap();
            assert_eq!(heard.sample_rate, codec.sample_rate());
            let middle = heard.samples.len() / 3..heard.samples.len() * 2 / 3;
            let share = share(&heard.samples[middle], 440.0, heard.sample_rate);
            assert!(
                share > 0.7,
                "{codec}: the tone is {share} of what was heard"
            );
        }
    });
}

#[test]
fn keys_arrive_as_they_were_pressed() {
    block_on(async {
        let mut caller = Running::start("alice", Transport::Tcp, |_| {});
        let mut callee = Running::start("bob", Transport::Tcp, |config| config.answers = true);
        caller.dial(&callee.uri).await;
        caller.answered().await;
        let keys = "49#*0".to_owned();
        caller
            .command(Command::Keys {
                call: None,
                keys: keys.clone(),
            })
            .await;
        let mut heard = String::new();
        while heard.len() < keys.len() {
            heard.push(
                callee
                    .wait_for(|event| match event {
                        PhoneEvent::Key { key, .. } => Some(*key),
                        _ => None,
                    })
                    .await,
            );
        }
        assert_eq!(heard, keys);
    });
}

#[test]
fn a_call_over_sctp_is_held_and_goes_on() {
    block_on(async {
        let callee_of = |change: u16| {
            Running::start("bob", Transport::Sctp, move |config| {
                config.answers = true;
                config.net.peer_encapsulation_port = change;
            })
        };
        let mut callee = callee_of(9);
        let under = callee.phone.encapsulation_addresses()[0].port();
        let mut caller = Running::start("alice", Transport::Sctp, |config| {
            config.net.peer_encapsulation_port = under;
        });
        caller.dial(&callee.uri).await;
        caller.answered().await;
        for hold in [true, false] {
            let command = match hold {
                true => Command::Hold { call: None },
                false => Command::Resume { call: None },
            };
            caller.command(command).await;
            let held = callee
                .wait_for(|event| match event {
                    PhoneEvent::Held { held, .. } => Some(*held),
                    _ => None,
                })
                .await;
            assert_eq!(held, hold);
            caller
                .wait_for(|event| {
                    matches!(event, PhoneEvent::Changed { accepted: true, .. }).then_some(())
                })
                .await;
        }
        callee.command(Command::Hangup { call: None }).await;
        let PhoneEvent::Ended { reason, .. } = caller.ended().await else {
            panic!("it ended");
        };
        assert_eq!(reason, "remote");
    });
}

#[test]
fn a_call_rings_and_is_refused() {
    block_on(async {
        let mut caller = Running::start("alice", Transport::Udp, |_| {});
        let mut callee = Running::start("bob", Transport::Udp, |_| {});
        caller.dial(&callee.uri).await;
        callee
            .wait_for(|event| matches!(event, PhoneEvent::Incoming { .. }).then_some(()))
            .await;
        caller
            .wait_for(|event| {
                matches!(event, PhoneEvent::Progress { status: 180, .. }).then_some(())
            })
            .await;
        callee.command(Command::Hangup { call: None }).await;
        let PhoneEvent::Ended {
            reason,
            status,
            quality,
            ..
        } = caller.ended().await
        else {
            panic!("it ended");
        };
        assert_eq!((reason, status, quality), ("refused", Some(603), None));
    });
}

#[test]
fn a_text_arrives_and_commands_that_cannot_be_followed_say_why() {
    block_on(async {
        let mut one = Running::start("alice", Transport::Udp, |_| {});
        let mut other = Running::start("bob", Transport::Udp, |_| {});
        let (to, text) = (other.uri.clone(), "at eight?".to_owned());
        one.command(Command::Text {
            account: 0,
            to,
            text,
        })
        .await;
        let came = other
            .wait_for(|event| match event {
                PhoneEvent::Text { text, .. } => Some(text.clone()),
                _ => None,
            })
            .await;
        assert_eq!(came, "at eight?");
        one.wait_for(|event| matches!(event, PhoneEvent::TextSent { status: 200 }).then_some(()))
            .await;
        for command in [
            Command::Hold { call: Some(7) },
            Command::Dial {
                account: 5,
                to: other.uri.clone(),
            },
            Command::Dial {
                account: 0,
                to: "bob".to_owned(),
            },
            Command::Text {
                account: 0,
                to: "sip:bob>\r\nVia: x".to_owned(),
                text: "at nine?".to_owned(),
            },
        ] {
            one.command(command).await;
            one.wait_for(|event| matches!(event, PhoneEvent::Refused { .. }).then_some(()))
                .await;
        }
        one.command(Command::Quit).await;
    });
}

#[test]
fn a_third_is_called_by_a_transfer() {
    block_on(async {
        let mut alice = Running::start("alice", Transport::Udp, |config| {
            config.accepts_transfers = true
        });
        let mut bob = Running::start("bob", Transport::Udp, |config| config.answers = true);
        let mut carol = Running::start("carol", Transport::Udp, |config| config.answers = true);
        alice.dial(&bob.uri).await;
        alice.answered().await;
        bob.answered().await;
        let to = carol.uri.clone();
        bob.command(Command::Transfer { call: None, to }).await;
        carol.answered().await;
        bob.wait_for(|event| {
            matches!(event, PhoneEvent::TransferProgress { status: 200, .. }).then_some(())
        })
        .await;
        bob.ended().await;
    });
}

#[test]
fn a_transfer_is_refused_where_nobody_can_be_asked() {
    block_on(async {
        let mut alice = Running::start("alice", Transport::Udp, |_| {});
        let mut bob = Running::start("bob", Transport::Udp, |config| config.answers = true);
        alice.dial(&bob.uri).await;
        alice.answered().await;
        bob.answered().await;
        let to = "sip:carol@127.0.0.1:9".to_owned();
        bob.command(Command::Transfer { call: None, to }).await;
        let status = bob
            .wait_for(|event| match event {
                PhoneEvent::TransferProgress { status, .. } => Some(*status),
                _ => None,
            })
            .await;
        assert_eq!(status, 603);
    });
}
