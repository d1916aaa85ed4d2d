//! Engines face to face on a virtual clock, with a network between them that delays, loses and repeats.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use load::engine::{Connection, ConnectionId, Engine, EngineConfig, NewSession, UserRange};
use load::record::Record;
use load::script::{Script, ScriptId};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::{Message, Transport};

/// The connection of every engine of these tests.
pub(crate) const LINE: ConnectionId = ConnectionId(0);

/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum From {
    Callers,
    Callees,
}

/// What the network does to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Arrives,
    Lost,
    Repeated,
}

/// Says what becomes of each message.
pub(crate) type Network = Box<dyn FnMut(From, &Message) -> Fate>;

/// Two engines and what is between them.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) callers: Engine,
    pub(crate) callees: Engine,
    /// Messages on their way, by when they arrive and in the order in which they were sent.
    on_the_way: BTreeMap<(Instant, u64), (From, Vec<u8>)>,
    sent: u64,
    pub(crate) delay: Duration,
    /// What becomes of the messages, in their order; all arrive without.
    pub(crate) fate: Network,
    /// Messages in the order in which they were sent: who, and what.
    pub(crate) log: Vec<(From, String)>,
    /// All messages, where they are kept.
    pub(crate) messages: Vec<(From, Vec<u8>)>,
    pub(crate) records: Vec<Record>,
    pub(crate) callee_records: Vec<Record>,
}

/// Settings that all engines of these tests have.
pub(crate) fn config(first: u32, users: u32) -> EngineConfig {
    EngineConfig {
        users: vec![UserRange::new(first, users)],
        domain: "example.org".to_owned(),
        ..EngineConfig::default()
    }
}

/// A loss that a seed repeats.
pub(crate) fn losing(probability: f64, seed: u64) -> Network {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    Box::new(move |_, _| {
        if rng.random_bool(probability) {
            Fate::Lost
        } else if rng.random_bool(probability) {
            Fate::Repeated
        } else {
            Fate::Arrives
        }
    })
}

impl World {
    /// Callers 1 to n and callees n+1 to 2n.
    pub(crate) fn new(users: u32, transport: Transport) -> World {
        World::with(config(1, users), config(users + 1, users), transport)
    }

    pub(crate) fn with(
        callers: EngineConfig,
        callees: EngineConfig,
        transport: Transport,
    ) -> World {
        let now = Instant::now();
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let engine = |config: EngineConfig, seed, local, remote| {
            let ranges = config.users.clone();
            let mut engine = Engine::new(config, ChaCha12Rng::seed_from_u64(seed), now);
            let connection = Connection {
                transport,
                local: address(local),
                remote: address(remote),
            };
            engine.set_connection(LINE, connection);
            for range in ranges {
                for at in 0..range.count {
                    assert!(engine.assign(range.first + at * range.step, LINE));
                }
            }
            engine
        };
        World {
            now,
            callers: engine(callers, 1, 5070, 5080),
            callees: engine(callees, 2, 5080, 5070),
            on_the_way: BTreeMap::new(),
            sent: 0,
            delay: Duration::from_millis(10),
            fate: Box::new(|_, _| Fate::Arrives),
            log: Vec::new(),
            messages: Vec::new(),
            records: Vec::new(),
            callee_records: Vec::new(),
        }
    }

    /// Gives scripts to both sides. Returns the caller's.
    pub(crate) fn scripts(&mut self, caller: Script, callee: Script) -> ScriptId {
        self.callees.add_script(Arc::new(callee));
        self.callers.add_script(Arc::new(caller))
    }

    /// Begins an attempt of a user, whose peer is the callee of the same place.
    pub(crate) fn begin(&mut self, script: ScriptId, user: u32, peer: u32) {
        let session = NewSession { script, user, peer };
        self.callers.begin(self.now, self.now, session).unwrap();
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.carry();
            let next = [
                self.on_the_way.keys().next().map(|(at, _)| *at),
                self.callers.next_timeout(),
                self.callees.next_timeout(),
            ];
            let next = next.into_iter().flatten().min().filter(|next| *next <= end);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.on_the_way.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let ((arrived, _), (from, octets)) = entry.remove_entry();
                let engine = match from {
                    From::Callers => &mut self.callees,
                    From::Callees => &mut self.callers,
                };
                engine.handle_message(self.now, arrived, LINE, &octets);
            }
            self.callers.handle_timeout(self.now);
            self.callees.handle_timeout(self.now);
        }
        self.now = end;
    }

    /// Takes messages and records out of the engines.
    pub(crate) fn carry(&mut self) {
        for from in [From::Callers, From::Callees] {
            loop {
                let mut octets = Vec::new();
                let engine = match from {
                    From::Callers => &mut self.callers,
                    From::Callees => &mut self.callees,
                };
                let Some(transmit) = engine.poll_transmit(&mut octets) else {
                    break;
                };
                assert_eq!((transmit.connection, transmit.length), (LINE, octets.len()));
                self.send(from, octets);
            }
        }
        self.records
            .extend(std::iter::from_fn(|| self.callers.poll_record()));
        self.callee_records
            .extend(std::iter::from_fn(|| self.callees.poll_record()));
    }

    /// Puts a message on its way, as if one side had sent it.
    pub(crate) fn send(&mut self, from: From, octets: Vec<u8>) {
        let message = Message::read(octets.clone().into()).expect("engines write messages");
        let shown = String::from_utf8_lossy(&octets).into_owned();
        assert_eq!(message.validate(), Ok(()), "{shown}");
        self.log.push((from, summary(&message)));
        self.messages.push((from, octets.clone()));
        let copies = match (self.fate)(from, &message) {
            Fate::Lost => 0,
            Fate::Arrives => 1,
            Fate::Repeated => 2,
        };
        for _ in 0..copies {
            self.sent += 1;
            let key = (self.now + self.delay, self.sent);
            self.on_the_way.insert(key, (from, octets.clone()));
        }
    }

    /// Takes what is on its way to the callees off it: somebody else answers in their place.
    pub(crate) fn drop_for_callees(&mut self) {
        self.on_the_way
            .retain(|_, (from, _)| *from == From::Callees);
    }

    /// What was sent, one word for each message, callees' ones in angle brackets.
    pub(crate) fn story(&self) -> String {
        let words = self.log.iter().map(|(from, word)| match from {
            From::Callers => word.clone(),
            From::Callees => format!("<{word}>"),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// The method of a request, or the status of a response and the method that it answers where that is no
/// INVITE.
fn summary(message: &Message) -> String {
    let (_, method) = message.cseq().expect("messages have a sequence number");
    match message.status() {
        None => method.as_str().to_owned(),
        Some(status) if method == sip::Method::Invite => status.to_string(),
        Some(status) => format!("{status}/{}", method.as_str()),
    }
}
