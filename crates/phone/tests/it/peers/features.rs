//! What is done to calls: hold, transfer, giving up, refusing.

use std::time::Duration;

use media::codec::Codec;
use phone::{Command, PhoneEvent, Source};
use sip::Transport;
use tempfile::TempDir;

use super::baresip::Baresip;
use super::linphone::Linphone;
use super::pjsua::Pjsua;
use super::registrar::{Account, At, Registrar};
use super::sounds::write_tone;
use super::{Media, OUR_TONE, OtherPhone, Setup, THEIR_TONE};
use crate::calls::block_on;
use crate::phones::Running;

/// Our phone and another one at our proxy.
struct Pair<P> {
    ours: Account,
    theirs: Account,
    phone: Running,
    other: P,
    registrar: Registrar,
    _directory: TempDir,
}

impl<P: OtherPhone> Pair<P> {
    /// Registers both.
    async fn start(start: impl FnOnce(&Setup<'_>) -> Option<P>) -> Option<Pair<P>> {
        let registrar = Registrar::start(At::Tandem, Transport::Udp).await?;
        let directory = tempfile::tempdir().expect("a directory");
        let sends = directory.path().join("tone.wav");
        write_tone(&sends, THEIR_TONE, 8_000);
        let (ours, theirs) = (registrar.account("alice"), registrar.account("bob"));
        let setup = Setup {
            account: &theirs,
            codec: Codec::Pcma,
            sends: &sends,
            media: Media::Plain,
        };
        let mut other = start(&setup)?;
        let mut phone = ours.phone(|config| {
            config.codecs = vec![Codec::Pcma];
            config.source = Source::Tone(OUR_TONE);
            config.quality_interval = Duration::from_millis(100);
            config.accepts_transfers = true;
        });
        phone.register().await;
        other.wait_for_registration();
        Some(Pair {
            ours,
            theirs,
            phone,
            other,
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

    async fn call_the_other(&mut self) {
        self.phone.dial(&self.theirs.uri()).await;
        self.phone.answered().await;
        self.other.wait_until_established();
    }

    async fn be_called(&mut self) {
        self.other.dial(&self.ours.uri());
        self.phone.incoming().await;
        self.phone.command(Command::Answer { call: None }).await;
        self.phone.answered().await;
        self.other.wait_until_established();
    }

    /// Waits until the tone of the other phone is heard, or no more.
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

/// Defines tests of what is done to calls with each phone.
macro_rules! with_each_phone {
    ($($baresip:ident, $linphone:ident, $pjsua:ident: $test:ident;)*) => {
        $(
            #[test]
            fn $baresip() {
                $test(Baresip::answering);
            }

            #[test]
            fn $linphone() {
                $test(Linphone::start);
            }

            #[test]
            fn $pjsua() {
                $test(Pjsua::start);
            }
        )*
    };
}

with_each_phone! {
    a_call_with_baresip_is_held, a_call_with_linphone_is_held, a_call_with_pjsua_is_held: hold;
    we_transfer_baresip, we_transfer_linphone, we_transfer_pjsua: transfer;
    baresip_transfers_us, linphone_transfers_us, pjsua_transfers_us: be_transferred;
}

/// Either side holds the call, and goes on.
fn hold<P: OtherPhone>(start: impl FnOnce(&Setup<'_>) -> Option<P>) {
    block_on(async {
        let Some(mut pair) = Pair::start(start).await else {
            return;
        };
        pair.call_the_other().await;
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
        pair.other.hold();
        assert!(pair.phone.held().await);
        pair.other.resume();
        assert!(!pair.phone.held().await);
        pair.wait_until_heard(true).await;
        pair.other.hang_up();
        assert_eq!(pair.phone.why_ended().await, ("remote", None));
    });
}

/// We have the other phone call a third.
fn transfer<P: OtherPhone>(start: impl FnOnce(&Setup<'_>) -> Option<P>) {
    block_on(async {
        let Some(mut pair) = Pair::start(start).await else {
            return;
        };
        let (third, mut carol) = pair.carol().await;
        pair.call_the_other().await;
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

/// The other phone has us call a third.
fn be_transferred<P: OtherPhone>(start: impl FnOnce(&Setup<'_>) -> Option<P>) {
    block_on(async {
        let Some(mut pair) = Pair::start(start).await else {
            return;
        };
        let (third, mut carol) = pair.carol().await;
        pair.be_called().await;
        pair.other.transfer(&third.uri());
        carol.answered().await;
        assert_eq!(pair.phone.why_ended().await, ("remote", None));
        // The call to the third goes on.
        pair.phone.command(Command::Hangup { call: None }).await;
        assert_eq!(carol.why_ended().await, ("remote", None));
    });
}

#[test]
fn a_call_that_rings_is_given_up_by_either_side() {
    block_on(async {
        let Some(mut pair) = Pair::start(Baresip::ringing).await else {
            return;
        };
        pair.phone.dial(&pair.theirs.uri()).await;
        pair.other.wait_for_event("CALL_INCOMING");
        pair.phone.ringing().await;
        pair.phone.command(Command::Hangup { call: None }).await;
        assert_eq!(pair.phone.why_ended().await.0, "local");
        pair.other.wait_until_ended();

        pair.other.dial(&pair.ours.uri());
        pair.phone.incoming().await;
        pair.other.wait_for_event("CALL_RINGING");
        pair.other.hang_up();
        assert_eq!(pair.phone.why_ended().await.0, "remote");
        pair.other.wait_until_ended();
    });
}

#[test]
fn a_call_is_refused_by_either_side() {
    block_on(async {
        let Some(mut pair) = Pair::start(Baresip::ringing).await else {
            return;
        };
        pair.phone.dial(&pair.theirs.uri()).await;
        pair.other.wait_for_event("CALL_INCOMING");
        pair.phone.ringing().await;
        pair.other.hang_up();
        assert_eq!(pair.phone.why_ended().await, ("refused", Some(486)));
        pair.other.wait_until_ended();

        pair.phone.do_not_disturb().await;
        pair.other.dial(&pair.ours.uri());
        let why = pair.other.wait_for_event("CALL_CLOSED");
        assert!(why.starts_with("486 "), "{why}");
    });
}
