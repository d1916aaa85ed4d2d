//! What a person sees of a phone, and what keys do: without a terminal, so that it can be tried in memory.

mod draw;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Instant;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::command::Command;
use crate::event::{CallQuality, PhoneEvent};
use crate::memory::MAX_HISTORY;
use crate::settings::Contact;

/// Lines of what happened that are kept.
const MAX_NEWS: usize = 200;
/// The longest line that is typed.
const MAX_TYPED: usize = 512;
/// By how much a key changes the volume, in decibels.
const VOLUME_STEP: f32 = 3.0;

/// A key, by what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A sign.
    Letter(char),
    /// What was typed is meant.
    Enter,
    /// Back, or hang up.
    Escape,
    /// The last sign is taken away.
    Erase,
    /// All signs are.
    Clear,
    /// A line is completed.
    Tab,
    /// The call above.
    Up,
    /// The call below.
    Down,
    /// The phone is switched off.
    Quit,
}

/// What whoever presses keys wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// Nothing of the phone.
    None,
    /// This.
    Command(Command),
    /// To switch it off.
    Quit,
}

/// All that is shown.
#[derive(Debug)]
pub struct PhoneScreen {
    accounts: Vec<Account>,
    contacts: Vec<Contact>,
    /// URIs that were called, the latest one last.
    history: Vec<String>,
    calls: BTreeMap<u64, Call>,
    /// The call that keys are for.
    current: Option<u64>,
    /// The account that is called from.
    account: usize,
    typing: Option<Typing>,
    news: VecDeque<String>,
    shows_help: bool,
    does_not_disturb: bool,
    answers: bool,
    is_conference: bool,
    /// Paths that have failed: the peers of their associations, and the addresses of these.
    failed_paths: BTreeSet<(String, String)>,
}

#[derive(Debug)]
struct Account {
    uri: String,
    state: String,
    messages_wait: bool,
}

#[derive(Debug)]
struct Call {
    who: String,
    state: State,
    /// When it was answered, or else began.
    since: Instant,
    codec: String,
    quality: Option<CallQuality>,
    is_held_by_us: bool,
    is_held_by_them: bool,
    is_muted: bool,
    is_recorded: bool,
    volume: f32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Calling,
    Ringing,
    Incoming,
    Up,
}

#[derive(Debug)]
struct Typing {
    what: Typed,
    text: String,
    /// Which of several completions was shown last.
    completion: usize,
    /// What was typed before the first completion.
    stem: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Typed {
    Dial,
    Transfer(u64),
}

impl PhoneScreen {
    /// The screen of a phone with these accounts; `history` has the URIs that were called before, the latest one last.
    /// `answers`: calls are answered at once.
    pub fn new(
        accounts: &[String],
        contacts: Vec<Contact>,
        history: Vec<String>,
        answers: bool,
    ) -> PhoneScreen {
        let accounts = accounts.iter().map(|uri| Account {
            uri: uri.clone(),
            state: "not registered".to_owned(),
            messages_wait: false,
        });
        PhoneScreen {
            accounts: accounts.collect(),
            contacts,
            history,
            calls: BTreeMap::new(),
            current: None,
            account: 0,
            typing: None,
            news: VecDeque::new(),
            shows_help: false,
            does_not_disturb: false,
            answers,
            is_conference: false,
            failed_paths: BTreeSet::new(),
        }
    }

    /// Draws it; where the cursor is, if a line is typed.
    pub fn draw(&self, now: Instant, area: Rect, buffer: &mut Buffer) -> Option<Position> {
        draw::draw(self, now, area, buffer)
    }

    /// Something happened.
    pub fn tell(&mut self, now: Instant, event: &PhoneEvent) {
        match event {
            PhoneEvent::Registered {
                account,
                expires,
                flows,
            } => {
                self.set_account(*account, registered(*expires, *flows));
            }
            PhoneEvent::FlowFailed { account, flow, .. } => {
                let uri = self.accounts.get(*account).map(|account| &account.uri);
                let uri = uri.cloned().unwrap_or_default();
                self.news(format!("{uri}: the flow to proxy {} failed", flow + 1));
            }
            PhoneEvent::Bindings { contacts, .. } => {
                self.news(format!("registered at: {}", contacts.join(", ")));
            }
            PhoneEvent::BindingsFailed { status, reason, .. } => {
                self.news(format!(
                    "where it is registered is not told: {status} {reason}"
                ));
            }
            PhoneEvent::Unregistered { account } => {
                self.set_account(*account, "not registered".to_owned());
            }
            PhoneEvent::RegistrationFailed {
                account,
                status,
                reason,
            } => {
                self.set_account(*account, format!("failed: {status} {reason}"));
                self.news(format!("not registered: {status} {reason}"));
            }
            PhoneEvent::Dialing { call, to } => {
                self.history.retain(|known| known != to);
                self.history.push(to.clone());
                let excess = self.history.len().saturating_sub(MAX_HISTORY);
                self.history.drain(..excess);
                self.add_call(now, *call, to.clone(), State::Calling);
            }
            PhoneEvent::Incoming {
                call,
                from,
                display_name,
                ..
            } => {
                let who = match display_name {
                    Some(name) => format!("{name} {from}"),
                    None => from.clone(),
                };
                self.news(format!("call from {who}"));
                self.add_call(now, *call, who, State::Incoming);
            }
            PhoneEvent::Progress {
                call,
                status,
                reason,
            } => {
                if *status > 100 {
                    self.news(format!("{status} {reason}"));
                    if let Some(call) = self.calls.get_mut(call) {
                        call.state = State::Ringing;
                    }
                }
            }
            PhoneEvent::Answered { call, codec } => {
                if let Some(call) = self.calls.get_mut(call) {
                    call.state = State::Up;
                    call.since = now;
                    call.codec.clone_from(codec);
                }
            }
            PhoneEvent::Held { call, held } => {
                if let Some(call) = self.calls.get_mut(call) {
                    call.is_held_by_them = *held;
                }
            }
            PhoneEvent::Changed { call, accepted } => {
                // What we asked for when the key was pressed has not come to be.
                if let (false, Some(known)) = (*accepted, self.calls.get_mut(call)) {
                    known.is_held_by_us = !known.is_held_by_us;
                    self.news("the change was refused".to_owned());
                }
            }
            PhoneEvent::Moved { address, .. } => {
                self.news(format!("the call goes on at {address}"));
            }
            PhoneEvent::Quality { call, quality } => {
                if let Some(call) = self.calls.get_mut(call) {
                    call.quality = Some(*quality);
                }
            }
            PhoneEvent::Key { key, .. } => self.news(format!("key {key}")),
            PhoneEvent::Played { .. } => self.news("played".to_owned()),
            PhoneEvent::RtpTimeout { seconds, .. } => {
                self.news(format!("nothing has come for {seconds} s"));
            }
            PhoneEvent::NotProtected { .. } => {
                self.news("the sound cannot be protected".to_owned());
            }
            PhoneEvent::TransferRequested { target, .. } => {
                self.news(format!("asked to call {target}: y does it, n does not"));
            }
            PhoneEvent::TransferProgress { status, .. } => {
                self.news(format!("transfer: {status}"));
            }
            PhoneEvent::Text { from, text, .. } => self.news(format!("{from}: {text}")),
            PhoneEvent::TextSent { status } => self.news(format!("text: {status}")),
            PhoneEvent::MessagesWaiting { account, waiting } => {
                if let Some(account) = self.accounts.get_mut(*account) {
                    account.messages_wait = *waiting;
                }
            }
            PhoneEvent::Settings {
                do_not_disturb,
                auto_answer,
                conference,
            } => {
                self.does_not_disturb = *do_not_disturb;
                self.answers = *auto_answer;
                self.is_conference = *conference;
            }
            PhoneEvent::Ended {
                call,
                reason,
                status,
                ..
            } => {
                let gone = self.calls.remove(call);
                let who = gone.map(|call| call.who).unwrap_or_default();
                let status = status.map_or(String::new(), |status| format!(" with {status}"));
                self.news(format!("ended: {reason}{status} {who}"));
                if self.current == Some(*call) {
                    self.current = self.calls.keys().next_back().copied();
                }
                // A line for a call that has gone is for nobody.
                let is_gone = |typing: &Typing| typing.what == Typed::Transfer(*call);
                if self.typing.as_ref().is_some_and(is_gone) {
                    self.typing = None;
                }
            }
            PhoneEvent::PathRemoved { peer, address } => {
                self.failed_paths.remove(&(peer.clone(), address.clone()));
            }
            PhoneEvent::Path {
                peer,
                address,
                works,
            } => {
                let path = (peer.clone(), address.clone());
                match works {
                    true => self.failed_paths.remove(&path),
                    false => self.failed_paths.insert(path),
                };
                let what = match works {
                    true => "works again",
                    false => "failed; calls go on along the others",
                };
                self.news(format!("the path to {address} {what}"));
            }
            PhoneEvent::Missed { count } => self.news(format!("{count} events were missed")),
            PhoneEvent::Refused { problem } => self.news(problem.clone()),
        }
    }

    /// A key was pressed.
    pub fn press(&mut self, key: Key) -> Wish {
        if key == Key::Quit {
            return Wish::Quit;
        }
        if std::mem::take(&mut self.shows_help) {
            return Wish::None;
        }
        match self.typing.take() {
            Some(typing) => self.type_key(typing, key),
            None => self.press_command(key),
        }
    }

    fn press_command(&mut self, key: Key) -> Wish {
        let call = self.current;
        let known = call.and_then(|call| self.calls.get_mut(&call));
        let state = known.as_ref().map(|call| call.state);
        let is_up = state == Some(State::Up);
        let command = match (key, known) {
            (Key::Letter('?'), _) => {
                self.shows_help = true;
                return Wish::None;
            }
            (Key::Letter('q'), _) => return Wish::Quit,
            (Key::Letter('d'), _) => return self.begin_typing(Typed::Dial),
            (Key::Enter, _) if state != Some(State::Incoming) => {
                return self.begin_typing(Typed::Dial);
            }
            (Key::Enter | Key::Letter('a'), Some(_)) => Command::Answer { call },
            (Key::Escape | Key::Letter('b'), Some(_)) => Command::Hangup { call },
            (Key::Letter('x'), Some(known)) if is_up => {
                known.is_held_by_us = true;
                Command::Hold { call }
            }
            (Key::Letter('X'), Some(known)) if is_up => {
                known.is_held_by_us = false;
                Command::Resume { call }
            }
            (Key::Letter('m'), Some(known)) if is_up => {
                known.is_muted = !known.is_muted;
                let on = known.is_muted;
                Command::Mute { call, on }
            }
            (Key::Letter(sign @ ('+' | '-')), Some(known)) if is_up => {
                let change = if sign == '+' {
                    VOLUME_STEP
                } else {
                    -VOLUME_STEP
                };
                known.volume = (known.volume + change).clamp(-60.0, 30.0);
                let db = known.volume;
                Command::Volume { call, db }
            }
            (Key::Letter('R'), Some(known)) if is_up => {
                known.is_recorded = !known.is_recorded;
                let path = call.map(|call| PathBuf::from(format!("call-{call}.wav")));
                let path = path.filter(|_| known.is_recorded);
                Command::Record { call, path }
            }
            (Key::Letter('r'), Some(_)) if is_up => {
                return call.map_or(Wish::None, |call| self.begin_typing(Typed::Transfer(call)));
            }
            (Key::Letter('y'), Some(_)) if is_up => Command::AcceptTransfer { call },
            (Key::Letter('n'), Some(_)) if is_up => Command::RefuseTransfer { call },
            (Key::Letter(sign), Some(_)) if is_up && "0123456789*#ABCD".contains(sign) => {
                let keys = sign.to_string();
                Command::Keys { call, keys }
            }
            (Key::Letter('j'), Some(_)) if is_up => match self.other_call() {
                Some((call, with)) => Command::Join { call, with },
                None => return self.note("a second call is missing"),
            },
            (Key::Letter('c'), Some(_)) => Command::Conference {
                on: !self.is_conference,
            },
            (Key::Letter('N'), _) => Command::DoNotDisturb {
                on: !self.does_not_disturb,
            },
            (Key::Letter('T'), _) => Command::AutoAnswer { on: !self.answers },
            (Key::Tab, _) => {
                self.account = (self.account + 1) % self.accounts.len().max(1);
                return Wish::None;
            }
            (Key::Up, _) => return self.go(false),
            (Key::Down, _) => return self.go(true),
            _ => return Wish::None,
        };
        Wish::Command(command)
    }

    fn begin_typing(&mut self, what: Typed) -> Wish {
        self.typing = Some(Typing {
            what,
            text: String::new(),
            completion: 0,
            stem: None,
        });
        Wish::None
    }

    fn type_key(&mut self, mut typing: Typing, key: Key) -> Wish {
        match key {
            Key::Escape => return Wish::None,
            Key::Enter => {
                let to = self.uri_of(typing.text.trim());
                return match typing.what {
                    _ if to.is_empty() => Wish::None,
                    Typed::Dial => {
                        let account = self.account;
                        Wish::Command(Command::Dial { account, to })
                    }
                    Typed::Transfer(call) => {
                        let call = Some(call);
                        Wish::Command(Command::Transfer { call, to })
                    }
                };
            }
            Key::Tab => {
                let stem = typing
                    .stem
                    .get_or_insert_with(|| typing.text.clone())
                    .clone();
                let found = self.completions(&stem);
                if let Some(text) = found.get(typing.completion % found.len().max(1)) {
                    typing.text.clone_from(text);
                    typing.completion += 1;
                }
                self.typing = Some(typing);
                return Wish::None;
            }
            Key::Letter(letter) if typing.text.len() < MAX_TYPED && !letter.is_control() => {
                typing.text.push(letter);
            }
            Key::Erase => {
                typing.text.pop();
            }
            Key::Clear => typing.text.clear(),
            _ => {}
        }
        (typing.stem, typing.completion) = (None, 0);
        self.typing = Some(typing);
        Wish::None
    }

    /// What a line may be meant to become: URIs called before, the latest ones first, and contacts.
    fn completions(&self, stem: &str) -> Vec<String> {
        let stem = stem.to_lowercase();
        let mut found: Vec<String> = Vec::new();
        let history = self.history.iter().rev().map(|uri| (uri.as_str(), uri));
        let contacts = self.contacts.iter();
        let contacts = contacts.map(|contact| (contact.name.as_str(), &contact.uri));
        for (name, uri) in history.chain(contacts) {
            let rest = uri.split_once(':').map_or(uri.as_str(), |(_, rest)| rest);
            let fits = [name, uri, rest]
                .iter()
                .any(|text| text.to_lowercase().starts_with(&stem));
            if fits && !found.contains(uri) {
                found.push(uri.clone());
            }
        }
        found
    }

    /// A contact's URI by its name; a number or name at the domain of the account; or what is a URI already.
    fn uri_of(&self, text: &str) -> String {
        let named = |contact: &&Contact| contact.name.eq_ignore_ascii_case(text);
        if let Some(contact) = self.contacts.iter().find(named) {
            return contact.uri.clone();
        }
        if text.is_empty() || text.contains(':') {
            return text.to_owned();
        }
        let account = self.accounts.get(self.account);
        match account.and_then(|account| account.uri.split_once('@')) {
            Some((_, domain)) if !text.contains('@') => format!("sip:{text}@{domain}"),
            _ => format!("sip:{text}"),
        }
    }

    /// The current call, and another one that is answered.
    fn other_call(&self) -> Option<(u64, u64)> {
        let current = self.current?;
        let mut others = self.calls.iter().rev();
        let other = others.find(|(number, call)| **number != current && call.state == State::Up)?;
        Some((current, *other.0))
    }

    fn go(&mut self, down: bool) -> Wish {
        let current = self.current;
        let next = match down {
            true => self.calls.keys().find(|call| Some(**call) > current),
            false => self.calls.keys().rev().find(|call| Some(**call) < current),
        };
        self.current = next.copied().or(current);
        Wish::None
    }

    fn note(&mut self, text: &str) -> Wish {
        self.news(text.to_owned());
        Wish::None
    }

    fn news(&mut self, text: String) {
        self.news.push_back(text);
        if self.news.len() > MAX_NEWS {
            self.news.pop_front();
        }
    }

    fn set_account(&mut self, account: usize, state: String) {
        if let Some(account) = self.accounts.get_mut(account) {
            account.state = state;
        }
    }

    fn add_call(&mut self, now: Instant, number: u64, who: String, state: State) {
        let call = Call {
            who,
            state,
            since: now,
            codec: String::new(),
            quality: None,
            is_held_by_us: false,
            is_held_by_them: false,
            is_muted: false,
            is_recorded: false,
            volume: 0.0,
        };
        self.calls.insert(number, call);
        self.current = Some(number);
    }
}

/// The state of a registration, in words.
fn registered(expires: u32, flows: usize) -> String {
    match flows {
        0 | 1 => format!("registered for {expires} s"),
        _ => format!("registered for {expires} s along {flows} flows"),
    }
}

#[cfg(test)]
mod tests;
