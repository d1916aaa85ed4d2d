//! What is done to calls, with baresip: hold, transfer, giving up, refusing.

use std::time::Duration;

use media::codec::Codec;
use phone::{Command, PhoneEvent, Source};
use sip::Transport;
use tempfile::TempDir;

use super::baresip::Baresip;
use super::registrar::{Account, At, Registrar};
use super::sounds::write_tone;
use super::{OUR_TONE, OtherPhone, Setup, THEIR_TONE};
use crate::calls::block_on;
use crate::phones::Running;

/// Our phone and baresip at our proxy.
struct Pair {
    ours: Account,
    theirs: Account,
    phone: Running,
    baresip: Baresip,
    registrar: Registrar,
    _directory: TempDir,
}

impl Pair {
    /// Registers both; baresip answers calls by itself or lets them ring.
    async fn start(answers: bool) -> Option<Pair> {
        let registrar = Registrar::start(At::Tandem, Transport::Udp).await?;
        let directory = tempfile::tempdir().expect("a directory");
        let sends = directory.path().join("tone.wav");
        write_tone(&sends, THEIR_TONE, 8_000);
        let (ours, theirs) = (registrar.account("alice"), registrar.account("bob"));
        let setup = Setup {
            account: &theirs,
            codec: Codec::Pcma,
            sends: &sends,
        };
        let mut baresip = Baresip::start(&setup, answers)?;
        let mut phone = ours.phone(|config| {
            config.codecs = vec![Codec::Pcma];
            config.source = Source::Tone(OUR_TONE);
            config.quality_interval = Duration::from_millis(100);
            config.accepts_transfers = true;
        });
        phone.register().await;
        baresip.wait_for_registration();
        Some(Pair {
            ours,
            theirs,
            phone,
            baresip,
            registrar,
            _directory: directory,
        })
    }

    /// A third phone, ours, that answers.
    async fn carol(&self) -> (Account, Running) {
        let account = self.registrar.account("carol");
        let mut phone = account.phone(|config| config.answers = true);
        phone.register().await;
        (account, phone)
    }

    async fn call_baresip(&mut self) {
        self.phone.dial(&self.theirs.uri()).await;
        self.phone.answered().await;
        self.baresip.wait_until_established();
    }

    async fn be_called(&mut self) {
        self.baresip.dial(&self.ours.uri());
        self.phone.incoming().await;
        self.phone.command(Command::Answer { call: None }).await;
        self.phone.answered().await;
        self.baresip.wait_until_established();
    }

    /// Waits until the tone of baresip is heard, or no more.
    async fn wait_until_heard(&mut self, is_heard: bool) {
        self.phone
            .wait_for(|event| match event {
                PhoneEvent::Quality { quality, .. } => {
                    ((quality.heard_db > -30.0) == is_heard).then_some(())
                }
                _ => None,
            })
            .await;
    }
}

impl Running {
    async fn incoming(&mut self) {
        self.wait_for(|event| matches!(event, PhoneEvent::Incoming { .. }).then_some(()))
            .await;
    }

    async fn ringing(&mut self) {
        let is_ringing = |event: &PhoneEvent| {
            matches!(event, PhoneEvent::Progress { status: 180, .. }).then_some(())
        };
        self.wait_for(is_ringing).await;
    }

    async fn held(&mut self) -> bool {
        self.wait_for(|event| match event {
            PhoneEvent::Held { held, .. } => Some(*held),
            _ => None,
        })
        .await
    }

    /// Why the call ended, and the status with which it was refused.
    async fn why_ended(&mut self) -> (&'static str, Option<u16>) {
        match self.ended().await {
            PhoneEvent::Ended { reason, status, .. } => (reason, status),
            _ => unreachable!("it ended"),
        }
    }
}

#[test]
fn a_call_is_held_by_either_side_and_goes_on() {
    block_on(async {
        let Some(mut pair) = Pair::start(true).await else {
            return;
        };
        pair.call_baresip().await;
        pair.wait_until_heard(true).await;
        for (command, is_heard) in [
            (Command::Hold { call: None }, false),
            (Command::Resume { call: None }, true),
        ] {
            pair.phone.command(command).await;
            let accepted = |event: &PhoneEvent| {
                matches!(event, PhoneEvent::Changed { accepted: true, .. }).then_some(())
            };
            pair.phone.wait_for(accepted).await;
            pair.wait_until_heard(is_heard).await;
        }
        for (command, is_held) in [("hold", true), ("resume", false)] {
            pair.baresip.command(command, "");
            assert_eq!(pair.phone.held().await, is_held);
        }
        pair.wait_until_heard(true).await;
        pair.baresip.hang_up();
        assert_eq!(pair.phone.why_ended().await, ("remote", None));
    });
}

#[test]
fn we_transfer_baresip_to_a_third() {
    block_on(async {
        let Some(mut pair) = Pair::start(true).await else {
            return;
        };
        let (third, mut carol) = pair.carol().await;
        pair.call_baresip().await;
        let (call, to) = (None, third.uri());
        pair.phone.command(Command::Transfer { call, to }).await;
        carol.answered().await;
        let through = |event: &PhoneEvent| {
            matches!(event, PhoneEvent::TransferProgress { status: 200, .. }).then_some(())
        };
        pair.phone.wait_for(through).await;
        pair.phone.ended().await;
        carol.command(Command::Hangup { call: None }).await;
        assert_eq!(carol.why_ended().await, ("local", None));
    });
}

#[test]
fn baresip_transfers_us_to_a_third() {
    block_on(async {
        let Some(mut pair) = Pair::start(true).await else {
            return;
        };
        let (third, mut carol) = pair.carol().await;
        pair.be_called().await;
        pair.baresip.command("transfer", &third.uri());
        carol.answered().await;
        pair.baresip.wait_until_ended();
        assert_eq!(pair.phone.why_ended().await, ("remote", None));
        // The call to the third goes on.
        pair.phone.command(Command::Hangup { call: None }).await;
        assert_eq!(carol.why_ended().await, ("remote", None));
    });
}

#[test]
fn a_call_that_rings_is_given_up_by_either_side() {
    block_on(async {
        let Some(mut pair) = Pair::start(false).await else {
            return;
        };
        pair.phone.dial(&pair.theirs.uri()).await;
        pair.baresip.wait_for_event("CALL_INCOMING");
        pair.phone.ringing().await;
        pair.phone.command(Command::Hangup { call: None }).await;
        assert_eq!(pair.phone.why_ended().await.0, "local");
        pair.baresip.wait_until_ended();

        pair.baresip.dial(&pair.ours.uri());
        pair.phone.incoming().await;
        pair.baresip.wait_for_event("CALL_RINGING");
        pair.baresip.hang_up();
        assert_eq!(pair.phone.why_ended().await.0, "remote");
        pair.baresip.wait_until_ended();
    });
}

#[test]
fn a_call_is_refused_by_either_side() {
    block_on(async {
        let Some(mut pair) = Pair::start(false).await else {
            return;
        };
        pair.phone.dial(&pair.theirs.uri()).await;
        pair.baresip.wait_for_event("CALL_INCOMING");
        pair.phone.ringing().await;
        pair.baresip.hang_up();
        assert_eq!(pair.phone.why_ended().await, ("refused", Some(486)));
        pair.baresip.wait_until_ended();

        pair.phone.command(Command::DoNotDisturb { on: true }).await;
        pair.baresip.dial(&pair.ours.uri());
        let why = pair.baresip.wait_for_event("CALL_CLOSED");
        assert!(why.starts_with("486 "), "{why}");
    });
}
