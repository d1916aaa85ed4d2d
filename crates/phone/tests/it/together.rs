//! Several accounts, several calls, tones, scenarios.

use std::time::Duration;

use media::tones::Country;
use media::wav;
use phone::{Command, Difference, Output, PhoneEvent, Scenario, Source, check};
use sip::Transport;
use ua::AccountConfig;

use crate::calls::{block_on, share};
use crate::phones::Running;

#[test]
fn twenty_accounts_call_from_one_phone() {
    block_on(async {
        let mut callers = Running::start("many", Transport::Udp, |config| {
            let uri = |number| format!("sip:user{number}@127.0.0.1");
            config.accounts = (0..20)
                .map(|number| AccountConfig::new(uri(number)))
                .collect();
        });
        let mut callee = Running::start("bob", Transport::Udp, |config| config.answers = true);
        for account in 0..20 {
            let to = callee.uri.clone();
            callers.command(Command::Dial { account, to }).await;
        }
        let mut from = Vec::new();
        for _ in 0..20 {
            let uri = callee.wait_for(|event| match event {
                PhoneEvent::Incoming { from, .. } => Some(from.clone()),
                _ => None,
            });
            from.push(uri.await);
        }
        from.sort();
        from.dedup();
        assert_eq!(from.len(), 20, "{from:?}");
        for _ in 0..20 {
            callers.answered().await;
        }
    });
}

#[test]
fn three_hear_each_other_in_a_conference() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let (of_bob, of_carol) = (path("bob.wav"), path("carol.wav"));
        let mut alice = Running::start("alice", Transport::Udp, |_| {});
        let with_tone = |user: &str, hertz, recording: &std::path::Path| {
            Running::start(user, Transport::Udp, |config| {
                config.answers = true;
                config.source = Source::Tone(hertz);
                config.recording = Some(recording.to_owned());
            })
        };
        let mut bob = with_tone("bob", 440.0, &of_bob);
        let mut carol = with_tone("carol", 700.0, &of_carol);
        for other in [&mut bob, &mut carol] {
            alice.dial(&other.uri).await;
            alice.answered().await;
            other.answered().await;
        }
        alice.command(Command::Conference { on: true }).await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        for _ in 0..2 {
            alice.command(Command::Hangup { call: None }).await;
            alice.ended().await;
        }
        for (other, path, hertz) in [(&mut bob, &of_bob, 700.0), (&mut carol, &of_carol, 440.0)] {
            other.ended().await;
            let heard = wav::read(&std::fs::read(path).unwrap()).unwrap();
            let end = heard.samples.len();
            let part = &heard.samples[end - heard.sample_rate as usize..end - end / 10];
            let share = share(part, hertz, heard.sample_rate);
            assert!(share > 0.5, "{hertz} Hz is {share} of what was heard");
        }
    });
}

#[test]
fn what_becomes_of_a_call_is_heard_at_the_speaker() {
    block_on(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("speaker.wav");
        let mut caller = Running::start("alice", Transport::Udp, |config| {
            config.output = Output::File(path.clone());
            config.country = Country::Gb;
        });
        let mut callee = Running::start("bob", Transport::Udp, |_| {});
        callee.do_not_disturb().await;
        caller.dial(&callee.uri).await;
        let PhoneEvent::Ended { status, .. } = caller.ended().await else {
            panic!("it ended");
        };
        assert_eq!(status, Some(486));
        tokio::time::sleep(Duration::from_millis(400)).await;
        caller.command(Command::Quit).await;
        caller.off().await;
        let heard = wav::read(&std::fs::read(&path).unwrap()).unwrap();
        // The first 375 ms of the busy tone (ITU-T E.180).
        let loud: Vec<i16> = heard
            .samples
            .into_iter()
            .skip_while(|sample| *sample == 0)
            .collect();
        let share = share(
            &loud[..heard.sample_rate as usize / 4],
            400.0,
            heard.sample_rate,
        );
        assert!(share > 0.9, "the tone is {share} of what was heard");
        callee.command(Command::Quit).await;
    });
}

async fn follow(scenario: &str) -> Result<(), Difference> {
    let callee = Running::start("bob", Transport::Udp, |config| config.answers = true);
    let mut caller = Running::start("alice", Transport::Udp, |_| {});
    let scenario = scenario.replace("BOB", &callee.uri);
    let scenario = Scenario::parse(&scenario).expect("a scenario");
    check(&caller.phone, &mut caller.events, &scenario, |_| {}).await
}

#[test]
fn a_scenario_says_what_differs() {
    block_on(async {
        let fits = r#"
            step = [
              { do = "dial", to = "BOB" },
              { expect = "answered", codec = "opus" },
              { do = "keys", keys = "1" },
              { never = "held", within = 0.3 },
              { do = "hangup" },
              { expect = "ended", reason = "local" },
            ]
        "#;
        assert_eq!(follow(fits).await, Ok(()));
        let differs = r#"
            step = [
              { do = "dial", to = "BOB" },
              { expect = "answered", codec = "pcm*", within = 1 },
            ]
        "#;
        let difference = follow(differs).await.unwrap_err();
        assert_eq!(
            difference.to_string(),
            "step 2: answered: codec is \"opus\", expected was \"pcm*\""
        );
        let silent = "step = [{ expect = \"incoming\", within = 0.2 }]";
        let difference = follow(silent).await.unwrap_err();
        assert_eq!(
            difference.problem,
            "incoming did not come in 0.2 s; nothing came"
        );
    });
}
