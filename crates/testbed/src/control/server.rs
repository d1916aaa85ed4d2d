//! What answers those who control a network.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use emulator::{ChangeError, Direction, Emulator, Rule, RuleId};
use link::LinkConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore};

use super::state::state;
use super::{Description, Directions, LONGEST_LINE, Request};
use crate::words::{config_instead, config_over};

/// How many conversations are held at a time; others wait.
const MAXIMUM_CONNECTIONS: usize = 64;

/// How long a conversation may be silent, and an answer take to be read.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A network under control.
#[derive(Debug)]
pub struct Control {
    emulator: Arc<Emulator>,
    description: Description,
    /// Held by whoever changes a link: what is to stay is read before.
    changing: Mutex<()>,
    down: Notify,
}

impl Control {
    /// Takes control of a network.
    pub fn new(emulator: Arc<Emulator>, description: Description) -> Control {
        Control {
            emulator,
            description,
            changing: Mutex::default(),
            down: Notify::new(),
        }
    }

    /// Waits until somebody asks for the network to be taken down.
    pub async fn down_requested(&self) {
        self.down.notified().await;
    }

    /// Does what is asked for.
    ///
    /// # Errors
    ///
    /// It cannot be done; the text tells why.
    pub fn answer(&self, request: Request) -> Result<Value, String> {
        let done = |result: Result<(), ChangeError>| match result {
            Ok(()) => Ok(Value::Null),
            Err(error) => Err(error.to_string()),
        };
        match request {
            // A network that carries nothing any more is none.
            Request::Show => match self.emulator.failure() {
                Some(error) => Err(error.to_string()),
                None => to_value(&self.description),
            },
            Request::State => {
                let failed = |error: ChangeError| error.to_string();
                let snapshot = self.emulator.snapshot().map_err(failed)?;
                let rules = self.emulator.rules().map_err(failed)?;
                to_value(&state(&snapshot, &rules))
            }
            Request::SetLink {
                link,
                direction,
                words,
                keep,
            } => self.set_link(&link, direction, &words, keep),
            Request::Cut { link } => done(self.emulator.cut(&link)),
            Request::Heal { link } => done(self.emulator.heal(&link)),
            Request::AddRule { rule, first } => {
                let rule = rule.into_rule()?;
                let index = if first { 0 } else { usize::MAX };
                let number = self.emulator.insert_rule(index, rule);
                let number = number.map_err(|error| error.to_string())?;
                Ok(json!({ "number": number.0 }))
            }
            Request::ChangeRule {
                number,
                words,
                replace,
            } => {
                let number = RuleId(number);
                let rules = self.emulator.rules();
                let rules = rules.map_err(|error| error.to_string())?;
                let rule = rules.into_iter().find(|(id, _)| *id == number);
                let (_, rule) = rule.ok_or_else(|| ChangeError::NoRule(number).to_string())?;
                let config = if replace {
                    config_instead(&words, &rule.config)?
                } else {
                    config_over(&words, &rule.config)?
                };
                done(self.emulator.change_rule(number, Rule { config, ..rule }))
            }
            Request::DeleteRule { number } => done(self.emulator.delete_rule(RuleId(number))),
            Request::Down => {
                self.down.notify_one();
                Ok(Value::Null)
            }
        }
    }

    fn set_link(
        &self,
        name: &str,
        directions: Directions,
        words: &crate::Words,
        keep: bool,
    ) -> Result<Value, String> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self
            .emulator
            .snapshot()
            .map_err(|error| error.to_string())?;
        let link = snapshot.links.into_iter().find(|link| link.name == name);
        // A name that is not there is the emulator's to refuse: it knows how to say so.
        let mut configs = link.map_or_else(Default::default, |link| {
            [link.forward.config, link.backward.config]
        });
        let selected: &[(usize, Direction)] = match directions {
            Directions::Both => &[(0, Direction::Forward), (1, Direction::Backward)],
            Directions::Forward => &[(0, Direction::Forward)],
            Directions::Backward => &[(1, Direction::Backward)],
        };
        // Both are read before one is set.
        for (index, _) in selected {
            let config = &mut configs[*index];
            *config = if keep {
                config_over(words, config)?
            } else {
                config_instead(words, config)?
            };
        }
        for (index, direction) in selected {
            let config: LinkConfig = configs[*index].clone();
            self.emulator
                .set_link(name, Some(*direction), config)
                .map_err(|error| error.to_string())?;
        }
        Ok(Value::Null)
    }
}

fn to_value(value: &impl serde::Serialize) -> Result<Value, String> {
    serde_json::to_value(value).map_err(|error| error.to_string())
}

/// Answers whoever connects, for ever.
pub async fn serve(listener: UnixListener, control: Arc<Control>) {
    let free = Arc::new(Semaphore::new(MAXIMUM_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&free).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let control = Arc::clone(&control);
                tokio::spawn(async move {
                    // Who goes away in the middle of a line wants no answer.
                    let _ = converse(stream, &control).await;
                    drop(place);
                });
            }
            // Out of descriptors: some will be free soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Answers requests until there are no more, or one is too long.
async fn converse(mut stream: UnixStream, control: &Control) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    loop {
        let mut line = Vec::new();
        let longest = LONGEST_LINE as u64 + 1;
        let mut bounded = (&mut read).take(longest);
        tokio::time::timeout(TIMEOUT, bounded.read_until(b'\n', &mut line)).await??;
        if line.is_empty() {
            return Ok(());
        }
        let is_whole = line.ends_with(b"\n");
        let result = if is_whole {
            answer_line(control, &line)
        } else if line.len() > LONGEST_LINE {
            Err(format!("a request has at most {LONGEST_LINE} bytes"))
        } else {
            return Ok(());
        };
        let answer = match result {
            Ok(value) => json!({ "ok": value }),
            Err(text) => json!({ "error": text }),
        };
        let mut text = answer.to_string();
        text.push('\n');
        tokio::time::timeout(TIMEOUT, write.write_all(text.as_bytes())).await??;
        if !is_whole {
            return Ok(());
        }
    }
}

fn answer_line(control: &Control, line: &[u8]) -> Result<Value, String> {
    let request =
        serde_json::from_slice(line).map_err(|error| format!("this is no request: {error}"))?;
    control.answer(request)
}
