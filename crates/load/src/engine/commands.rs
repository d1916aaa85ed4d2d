//! Commands: messages between two generators beside the calls, which tell each other how their calls stand (SIPp's third
//! party call control, `<sendCmd>` and `<recvCmd>`). A command belongs to the call with its Call-ID, on both sides.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

use super::identity::Owner;
use super::received::Received;
use super::time::Moment;
use super::trigger::Trigger;
use super::{Cause, Engine, NewSession, NotBegun};
use crate::record::{Failure, Outcome};
use crate::script::{First, Script};

/// A command that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The name of the generator that it goes to; `None`: to all.
    pub to: Option<Arc<str>>,
    /// What it says.
    pub octets: Vec<u8>,
}

/// A command is for no call that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchCall;

/// Commands that wait to be sent are bounded: those beyond are dropped, which fails their calls at the other side.
const MOST_COMMANDS: usize = 10_000;

/// What a generator of SIPp says of a call that it has given up.
const ABORT: &str = "internal-cmd: abort_call\r\n\r\n";

impl Engine {
    /// Takes in a command.
    ///
    /// # Errors
    ///
    /// When it is for no call that there is: a script that [begins with one](First::Commanded) may be begun by it.
    pub fn handle_command(&mut self, now: Instant, octets: &[u8]) -> Result<(), NoSuchCall> {
        let now = self.clock.time(now);
        let text = Received::text_of_command(octets);
        let Ok(command) = Received::read(&text) else {
            self.counters.malformed += 1;
            return Ok(());
        };
        let owner = match self.identity.owner(command.call_id) {
            Some(Owner::Session(id)) => self.sessions.find(id),
            _ => None,
        };
        let found = owner.or_else(|| self.find_filed(command.call_id, |_| true));
        let Some((index, script)) = found.and_then(|index| Some((index, self.script_of(index)?)))
        else {
            return match command.aborts_call() {
                // It is over.
                true => Ok(()),
                false => Err(NoSuchCall),
            };
        };
        let trigger = Trigger {
            moment: Moment { now, received: now },
            message: Some(&command),
            connection: None,
        };
        if command.aborts_call() {
            let outcome = Outcome::Failed(Failure::Cancelled);
            self.finish(&script, index, outcome, &Trigger::at(now));
        } else {
            self.offer_command(&script, index, &trigger);
        }
        self.end_turn(&script, index, now);
        self.let_return(now);
        Ok(())
    }

    /// Begins an attempt by the command with which its script begins.
    ///
    /// # Errors
    ///
    /// When it cannot be begun; there is no record then.
    pub fn begin_commanded(
        &mut self,
        now: Instant,
        session: NewSession,
        octets: &[u8],
    ) -> Result<(), NotBegun> {
        let now = self.clock.time(now);
        let text = Received::text_of_command(octets);
        let Ok(command) = Received::read(&text) else {
            self.counters.malformed += 1;
            return Err(NotBegun::NoScript);
        };
        if command.aborts_call() {
            return Err(NotBegun::NoScript);
        }
        let script = self.scripts.get(session.script).map(Arc::clone);
        let script = script
            .filter(|script| *script.first() == First::Commanded)
            .ok_or(NotBegun::NoScript)?;
        let place = self.users.place(session.user).ok_or(NotBegun::NoSuchUser)?;
        let (id, peer) = (session.script, session.peer);
        let index = self.allocate(now, now, (id, &script), place, peer, Cause::Asked)?;
        if let Some(session) = self.sessions.get_mut(index) {
            session.dialog.keep_call_id(command.call_id);
        }
        let call_id = self.fingerprints.text(command.call_id);
        self.sessions.file(index, call_id);
        // Up to where it waits for the command.
        self.advance(&script, index, &Trigger::at(now));
        let trigger = Trigger {
            moment: Moment { now, received: now },
            message: Some(&command),
            connection: None,
        };
        self.offer_command(&script, index, &trigger);
        self.end_turn(&script, index, now);
        Ok(())
    }

    /// Tells the other generators that the call of a command is not begun here.
    pub fn refuse_command(&mut self, octets: &[u8]) {
        let text = Received::text_of_command(octets);
        if let Ok(command) = Received::read(&text)
            && !command.aborts_call()
        {
            let call_id = String::from_utf8_lossy(command.call_id);
            self.send_abort(&call_id);
        }
    }

    /// The next command that is to be sent.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    fn offer_command(&mut self, script: &Script, index: u32, trigger: &Trigger<'_>) {
        if !self.offer(script, index, trigger) {
            let outcome = Outcome::Failed(Failure::Unexpected);
            self.finish(script, index, outcome, trigger);
        }
    }

    pub(super) fn send_command(&mut self, command: Command) {
        if self.commands.len() < MOST_COMMANDS {
            self.commands.push_back(command);
        }
    }

    /// Tells the other generators that a call has failed here, where they have one that belongs to it.
    pub(super) fn abort_others(&mut self, script: &Script, index: u32) {
        if !script.has_commands() {
            return;
        }
        if let Some(call_id) = self.call_id(script, index) {
            self.send_abort(&call_id);
        }
    }

    fn send_abort(&mut self, call_id: &dyn Display) {
        let octets = format!("call-id: {call_id}\r\n{ABORT}").into_bytes();
        self.send_command(Command { to: None, octets });
    }
}
