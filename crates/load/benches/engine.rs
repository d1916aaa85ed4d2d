//! What the engine takes, without sockets: callers and callees face to face, message by message from octets
//! to octets, on a virtual clock and the same in every run.
//!
//! `cargo bench -p load --bench engine -- [CASE [COUNT]]` prints the nanoseconds of each: of a call both
//! sides together, twelve messages written or handled.
#![allow(missing_docs)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use load::engine::{Connection, ConnectionId, Engine, EngineConfig, NewSession, UserRange};
use load::script::builtin::{self, AnswerPlan, CallPlan};
use load::script::{Pause, ScriptId};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::Transport;

const USERS: u32 = 1_000;
const LINE: ConnectionId = ConnectionId(0);

/// What passes between two calls.
const STEP: Duration = Duration::from_micros(50);

fn main() {
    // What `cargo bench` adds is not ours.
    let mut words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'));
    let case = words.next();
    let count = words
        .next()
        .map_or(200_000, |word| word.parse().expect("a count"));
    let is_asked = |name: &str| case.as_deref().is_none_or(|case| case == name);
    for (name, transport) in [("call", Transport::Udp), ("tcp-call", Transport::Tcp)] {
        if is_asked(name) {
            let mut pair = Pair::new(transport, Duration::ZERO);
            let took = pair.calls(count);
            println!("{name:10} {:7} ns", took / u128::from(count));
        }
    }
    if is_asked("held") {
        let before = resident();
        let mut pair = Pair::new(Transport::Udp, Duration::from_secs(3600));
        let took = pair.calls(count);
        let octets = (resident() - before) / u64::from(count);
        println!(
            "{:10} {:7} ns, {octets} octets a call",
            "held",
            took / u128::from(count)
        );
    }
    if is_asked("register") {
        let before = resident();
        let (took, mut engine) = registrations(count);
        let octets = (resident() - before) / u64::from(count);
        println!(
            "{:10} {:7} ns, {octets} octets a user",
            "register",
            took / u128::from(count)
        );
        assert_eq!(engine.registered_users(), count);
        assert!(engine.poll_record().is_none());
    }
}

/// Resident memory of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux tells it");
    let pages: u64 = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("a number of pages");
    pages * 4096
}

fn engine(
    first: u32,
    users: u32,
    local: u16,
    remote: u16,
    transport: Transport,
    now: Instant,
) -> Engine {
    let config = EngineConfig {
        users: vec![UserRange::new(first, users)],
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(config, ChaCha12Rng::seed_from_u64(local.into()), now);
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let connection = Connection {
        transport,
        local: address(local),
        remote: address(remote),
    };
    engine.set_connection(LINE, connection);
    for user in first..first + users {
        engine.assign(user, LINE);
    }
    engine
}

struct Pair {
    now: Instant,
    callers: Engine,
    callees: Engine,
    script: ScriptId,
}

impl Pair {
    fn new(transport: Transport, hold: Duration) -> Pair {
        let now = Instant::now();
        let mut callers = engine(1, USERS, 5070, 5080, transport, now);
        let mut callees = engine(USERS + 1, USERS, 5080, 5070, transport, now);
        let plan = CallPlan {
            hold: Pause::Fixed(hold),
            ..CallPlan::default()
        };
        let call = builtin::call(&plan).expect("it is sound");
        let answer = builtin::answer(&AnswerPlan::default()).expect("it is sound");
        callees.add_script(Arc::new(answer));
        Pair {
            now,
            script: callers.add_script(Arc::new(call)),
            callers,
            callees,
        }
    }

    /// Makes calls one after the other. Returns the nanoseconds.
    fn calls(&mut self, count: u32) -> u128 {
        let began = Instant::now();
        let mut ended = 0;
        let mut octets = Vec::with_capacity(1 << 16);
        for call in 0..count {
            let user = call % USERS + 1;
            let session = NewSession {
                script: self.script,
                user,
                peer: USERS + user,
            };
            self.callers
                .begin(self.now, self.now, session)
                .expect("there is room");
            loop {
                let mut is_idle = true;
                while let Some(transmit) = self.callers.poll_transmit(&mut octets) {
                    self.callees
                        .handle_message(self.now, self.now, transmit.connection, &octets);
                    octets.clear();
                    is_idle = false;
                }
                while let Some(transmit) = self.callees.poll_transmit(&mut octets) {
                    self.callers
                        .handle_message(self.now, self.now, transmit.connection, &octets);
                    octets.clear();
                    is_idle = false;
                }
                if is_idle {
                    break;
                }
            }
            self.now += STEP;
            self.callers.handle_timeout(self.now);
            self.callees.handle_timeout(self.now);
            while self.callers.poll_record().is_some() {
                ended += 1;
            }
            while self.callees.poll_record().is_some() {}
        }
        assert_eq!(ended, count, "each call leaves a record");
        began.elapsed().as_nanos()
    }
}

/// Registers users. Returns the nanoseconds.
fn registrations(count: u32) -> (u128, Engine) {
    let now = Instant::now();
    let mut engine = engine(1, count, 5070, 5060, Transport::Udp, now);
    engine.add_script(Arc::new(builtin::register().expect("it is sound")));
    let began = Instant::now();
    let mut octets = Vec::with_capacity(1 << 16);
    for user in 1..=count {
        engine.register(now, now, user).expect("there is room");
        while let Some(transmit) = engine.poll_transmit(&mut octets) {
            let response = yes(&octets);
            engine.handle_message(now, now, transmit.connection, &response);
            octets.clear();
        }
        while engine.poll_record().is_some() {}
    }
    (began.elapsed().as_nanos(), engine)
}

/// What a registrar says.
fn yes(request: &[u8]) -> Vec<u8> {
    let line = request
        .iter()
        .position(|&octet| octet == b'\n')
        .expect("a line")
        + 1;
    [b"SIP/2.0 200 OK\r\n", &request[line..]].concat()
}
