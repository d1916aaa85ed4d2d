//! What a phone does when a program uses it: register, call or be called, hang up, and tell whether that happened.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::command::Command;
use crate::event::PhoneEvent;
use crate::phone::Phone;

/// What is to be done, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Registers these accounts first.
    pub register: Vec<usize>,
    /// Calls this URI.
    pub dial: Option<String>,
    /// Waits for a call and answers it.
    pub answer: bool,
    /// Presses these keys when the call is answered.
    pub keys: Option<String>,
    /// Hangs up so long after the answer.
    pub hangup_after: Option<Duration>,
    /// Hangs up when what is to be played has been played.
    pub hangup_after_playing: bool,
    /// Does not end by itself: others give it commands.
    pub stays: bool,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptOutcome {
    /// All of it happened.
    Done,
    /// Some of it did not; the events have told why.
    Failed,
    /// It was ended from outside.
    Interrupted,
}

/// Follows a script; `tell` hears each event. The phone is off afterwards.
pub async fn follow(
    phone: &Phone,
    events: &mut mpsc::Receiver<PhoneEvent>,
    script: &Script,
    mut tell: impl FnMut(&PhoneEvent),
    interrupted: impl Future<Output = ()>,
) -> ScriptOutcome {
    let outcome = {
        let steps = steps(phone, events, script, &mut tell);
        tokio::select! {
            outcome = steps => outcome,
            () = interrupted => ScriptOutcome::Interrupted,
        }
    };
    phone.command(Command::Quit).await;
    while let Some(event) = events.recv().await {
        tell(&event);
    }
    outcome
}

async fn steps(
    phone: &Phone,
    events: &mut mpsc::Receiver<PhoneEvent>,
    script: &Script,
    tell: &mut impl FnMut(&PhoneEvent),
) -> ScriptOutcome {
    let done = |is_done| {
        if is_done {
            ScriptOutcome::Done
        } else {
            ScriptOutcome::Failed
        }
    };
    let mut unregistered: BTreeSet<usize> = script.register.iter().copied().collect();
    for account in unregistered.clone() {
        phone.command(Command::Register { account }).await;
    }
    while !unregistered.is_empty() {
        let Some(event) = events.recv().await else {
            return ScriptOutcome::Failed;
        };
        tell(&event);
        match event {
            PhoneEvent::Registered { account, .. } => {
                unregistered.remove(&account);
            }
            PhoneEvent::RegistrationFailed { .. } => return ScriptOutcome::Failed,
            _ => {}
        }
    }
    if let Some(to) = script.dial.clone() {
        phone.command(Command::Dial { account: 0, to }).await;
    } else if !script.answer && !script.stays {
        return ScriptOutcome::Done;
    }
    // The calls of this script, and when they are hung up. Others may come, and end, in the meantime.
    let mut calls: BTreeMap<u64, Option<tokio::time::Instant>> = BTreeMap::new();
    let mut was_answered = false;
    loop {
        let next = calls.iter().filter_map(|(call, at)| Some(((*at)?, *call)));
        let next = next.min();
        let hangup = async {
            match next {
                Some((at, call)) => {
                    tokio::time::sleep_until(at).await;
                    call
                }
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            event = events.recv() => event,
            call = hangup => {
                calls.insert(call, None);
                phone.command(Command::Hangup { call: Some(call) }).await;
                continue;
            }
        };
        let Some(event) = event else {
            return done(was_answered || script.stays);
        };
        tell(&event);
        match event {
            PhoneEvent::Dialing { call, .. } => {
                calls.insert(call, None);
            }
            PhoneEvent::Answered { call, .. } => {
                was_answered = true;
                if let Some(keys) = script.keys.clone() {
                    let call = Some(call);
                    phone.command(Command::Keys { call, keys }).await;
                }
                let after = script.hangup_after;
                let at = after.map(|after| tokio::time::Instant::now() + after);
                calls.insert(call, at);
            }
            PhoneEvent::Played { call } if script.hangup_after_playing => {
                phone.command(Command::Hangup { call: Some(call) }).await;
            }
            PhoneEvent::Ended { call, .. } => {
                let was_ours = calls.remove(&call).is_some();
                if was_ours && calls.is_empty() && !script.stays {
                    return done(was_answered);
                }
            }
            PhoneEvent::Refused { .. }
                if !script.stays && script.dial.is_some() && !was_answered =>
            {
                return ScriptOutcome::Failed;
            }
            _ => {}
        }
    }
}
