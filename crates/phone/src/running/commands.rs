//! What the phone is told to do.

use std::time::Instant;

use media::telephone_event::Key;
use sip::Uri;
use ua::CallNumber;

use super::{PhoneCall, Running};
use crate::command::Command;
use crate::event::PhoneEvent;

impl Running {
    pub(super) fn handle_command(&mut self, command: Command) {
        if let Err(problem) = self.follow(command) {
            self.emit(PhoneEvent::Refused {
                problem: problem.to_owned(),
            });
        }
    }

    fn follow(&mut self, command: Command) -> Result<(), &'static str> {
        const NO_ACCOUNT: &str = "there is no such account";
        const NO_CALL: &str = "there is no such call, or it is not ready for this";
        let now = Instant::now();
        let waiting = |call: &PhoneCall| call.is_incoming && !call.is_up;
        let up = |call: &PhoneCall| call.is_up;
        match command {
            Command::Register { account } => {
                let account = self.account(account).ok_or(NO_ACCOUNT)?;
                self.registered.insert(account);
                self.ua.register(now, account);
            }
            Command::Unregister { account, all } => {
                let account = self.account(account).ok_or(NO_ACCOUNT)?;
                self.registered.remove(&account);
                match all {
                    true => self.ua.unregister_all(now, account),
                    false => self.ua.unregister(now, account),
                }
            }
            Command::Bindings { account } => {
                let account = self.account(account).ok_or(NO_ACCOUNT)?;
                self.ua.fetch_bindings(now, account);
            }
            Command::Dial { account, to } => {
                let account = self.account(account).ok_or(NO_ACCOUNT)?;
                self.dial(now, account, to)?;
            }
            Command::Answer { call } => {
                let number = self.chosen(call, waiting).ok_or(NO_CALL)?;
                self.answer(now, number)?;
            }
            Command::Hangup { call } => {
                let number = self.chosen(call, |_| true).ok_or(NO_CALL)?;
                self.ua.hang_up(now, number).map_err(|_| NO_CALL)?;
            }
            Command::Hold { call } => {
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                self.offer_again(now, number, true)?;
            }
            Command::Resume { call } => {
                let number = self
                    .chosen(call, |call| call.is_held_by_us)
                    .ok_or(NO_CALL)?;
                self.offer_again(now, number, false)?;
            }
            Command::Mute { call, on } => {
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                let sound = self.calls.get(&number).and_then(|call| call.sound.as_ref());
                sound.ok_or(NO_CALL)?.mute(on);
            }
            Command::Volume { call, db } => {
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                let sound = self.calls.get(&number).and_then(|call| call.sound.as_ref());
                sound.ok_or(NO_CALL)?.volume(db);
            }
            Command::Record { call, path } => {
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                let sound = self.calls.get(&number).and_then(|call| call.sound.as_ref());
                sound.ok_or(NO_CALL)?.record(path);
            }
            Command::Conference { on } => {
                let calls = self.calls.values().filter(|call| on && call.is_up);
                let sounds = calls.filter_map(|call| Some(call.sound.as_ref()?.id));
                self.conference.set(&sounds.collect::<Vec<_>>());
                self.is_conference = on;
                self.tell_settings();
            }
            Command::DoNotDisturb { on } => {
                self.does_not_disturb = on;
                self.tell_settings();
            }
            Command::AutoAnswer { on } => {
                self.config.answers = on;
                self.tell_settings();
            }
            Command::Keys { call, keys } => {
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                self.press(now, number, &keys)?;
            }
            Command::Transfer { call, to } => {
                check_uri(&to)?;
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                self.ua
                    .transfer(now, number, &to, None)
                    .map_err(|_| NO_CALL)?;
            }
            Command::Join { call, with } => {
                let with = Some(CallNumber(with));
                self.ua
                    .transfer(now, CallNumber(call), "", with)
                    .map_err(|_| NO_CALL)?;
            }
            Command::AcceptTransfer { call } => {
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                self.accept_transfer(now, number)?;
            }
            Command::RefuseTransfer { call } => {
                let number = self.chosen(call, up).ok_or(NO_CALL)?;
                self.ua.refuse_transfer(now, number).map_err(|_| NO_CALL)?;
            }
            Command::Text { account, to, text } => {
                check_uri(&to)?;
                let account = self.account(account).ok_or(NO_ACCOUNT)?;
                self.ua
                    .send_text(now, account, &to, "text/plain;charset=UTF-8", text.into());
            }
            Command::Quit => {
                self.is_quitting = true;
                let calls: Vec<CallNumber> = self.calls.keys().copied().collect();
                for call in calls {
                    let _ = self.ua.hang_up(now, call);
                }
                for account in std::mem::take(&mut self.registered) {
                    self.ua.unregister(now, account);
                }
            }
        }
        Ok(())
    }

    /// Presses keys: in the media, or by INFO where the other side takes none there.
    pub(super) fn press(
        &mut self,
        now: Instant,
        number: CallNumber,
        keys: &str,
    ) -> Result<(), &'static str> {
        const NO_CALL: &str = "there is no such call";
        let signs: Vec<Key> = keys
            .chars()
            .map(|sign| Key::of(sign).ok_or("a key is a digit, *, # or a letter from A to D"))
            .collect::<Result<_, _>>()?;
        let call = self.calls.get(&number).ok_or(NO_CALL)?;
        if call.takes_keys {
            call.sound.as_ref().ok_or(NO_CALL)?.press(signs);
            return Ok(());
        }
        for key in signs {
            let sent = self.ua.send_key(now, number, key.sign());
            sent.map_err(|_| NO_CALL)?;
        }
        Ok(())
    }

    /// The call that a command names, or the latest one that will do.
    fn chosen(
        &self,
        named: Option<u64>,
        will_do: impl Fn(&PhoneCall) -> bool,
    ) -> Option<CallNumber> {
        match named {
            Some(number) => {
                let number = CallNumber(number);
                self.calls.contains_key(&number).then_some(number)
            }
            None => {
                let mut latest = self.calls.iter().rev();
                latest
                    .find(|(_, call)| will_do(call))
                    .map(|(number, _)| *number)
            }
        }
    }

    fn tell_settings(&mut self) {
        self.emit(PhoneEvent::Settings {
            do_not_disturb: self.does_not_disturb,
            auto_answer: self.config.answers,
            conference: self.is_conference,
        });
    }
}

/// Says what is wrong with the URI of a command.
pub(super) fn check_uri(uri: &str) -> Result<(), &'static str> {
    match Uri::parse(uri) {
        Ok(Uri::Sip(_)) => Ok(()),
        _ => Err("a SIP URI is expected, such as sip:bob@example.org"),
    }
}
