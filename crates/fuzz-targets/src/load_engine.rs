//! Emulated users whose peers send anything: what they were sent before, answers to it, damaged or not, in
//! any order and at any time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use load::engine::{
    Connection, ConnectionId, Directory, Engine, EngineConfig, NewSession, UserRange,
};
use load::script::builtin::{self, AnswerPlan, CallPlan};
use load::script::{Pause, Script};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::{Message, Method, Transport};

const LINE: ConnectionId = ConnectionId(0);
/// Users of the engine.
const USERS: u32 = 4;

const MAXIMUM_SESSIONS: usize = 16;

fn scripts() -> Option<[Script; 4]> {
    let hold = CallPlan {
        hold: Pause::Fixed(Duration::from_secs(1)),
        ..CallPlan::default()
    };
    let ring = AnswerPlan {
        ring: Pause::Fixed(Duration::from_millis(300)),
        ..AnswerPlan::default()
    };
    Some([
        builtin::call(&hold).ok()?,
        builtin::answer(&ring).ok()?,
        builtin::register().ok()?,
        builtin::accept(Method::Message).ok()?,
    ])
}

/// Feeds the target an input.
pub fn run(input: &[u8]) {
    let Some((first, mut input)) = input.split_first() else {
        return;
    };
    let mut now = Instant::now();
    let config = EngineConfig {
        users: vec![UserRange::new(1, USERS)],
        maximum_sessions: MAXIMUM_SESSIONS,
        directory: Arc::new(Directory {
            password: Some("secret".to_owned()),
            ..Directory::default()
        }),
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(config, ChaCha12Rng::seed_from_u64(0), now);
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let connection = Connection {
        transport: [Transport::Udp, Transport::Tcp][usize::from(first % 2)],
        local: address(5070),
        remote: address(5060),
    };
    engine.set_connection(LINE, connection);
    let mut call = None;
    for script in scripts().expect("they are sound") {
        let id = engine.add_script(Arc::new(script));
        call.get_or_insert(id);
    }
    let script = call.expect("there is a first one");
    for user in 1..=4 {
        engine.assign(user, LINE);
    }
    let mut seen: Vec<Vec<u8>> = Vec::new();
    while let [what, which, rest @ ..] = input {
        input = rest;
        let pick = seen.get(usize::from(*which) % seen.len().max(1)).cloned();
        let octets = match what % 8 {
            0 => {
                let user = 1 + u32::from(which % 4);
                let session = NewSession {
                    script,
                    user,
                    peer: 5 - user,
                };
                let _ = engine.begin(now, now, session);
                Vec::new()
            }
            1 => {
                let _ = engine.register(now, now, 1 + u32::from(which % 4));
                Vec::new()
            }
            2 => {
                now += Duration::from_millis(u64::from(*which) * 20);
                Vec::new()
            }
            // Whatever the input says.
            3 => {
                let (octets, rest) = input.split_at(usize::from(*which).min(input.len()));
                input = rest;
                octets.to_vec()
            }
            // What was sent comes back.
            4 => pick.unwrap_or_default(),
            // What was sent is answered, with fields of the input's.
            5 | 6 => pick.map_or(Vec::new(), |request| {
                let (fields, rest) = input.split_at(usize::from(which / 8).min(input.len()));
                input = rest;
                answer(&request, *what, fields)
            }),
            // What was sent comes back damaged.
            _ => {
                let mut octets = pick.unwrap_or_default();
                if let ([at, by, rest @ ..], false) = (input, octets.is_empty()) {
                    let at = usize::from(*at) * 3 % octets.len();
                    octets[at] = *by;
                    input = rest;
                }
                octets
            }
        };
        engine.handle_message(now, now, LINE, &octets);
        engine.handle_timeout(now);
        loop {
            let mut octets = Vec::new();
            if engine.poll_transmit(&mut octets).is_none() {
                break;
            }
            Message::read(octets.clone().into()).expect("what is sent can be read");
            if seen.len() < 64 {
                seen.push(octets);
            }
        }
        while engine.poll_record().is_some() {}
        assert!(engine.sessions() <= MAXIMUM_SESSIONS);
        assert!(engine.in_flight() <= engine.sessions());
    }
    engine.end_all(now);
    // What peers are told is repeated until they have said something, or had their time.
    let end = now + Duration::from_secs(300);
    while let Some(next) = engine.next_timeout().filter(|next| *next <= end) {
        now = now.max(next);
        engine.handle_timeout(now);
    }
    // Users who are kept registered go on trying.
    assert!(engine.sessions() <= USERS as usize);
    assert_eq!(engine.in_flight(), 0);
}

/// A response to a request that was sent, its status and further fields chosen.
fn answer(request: &[u8], what: u8, fields: &[u8]) -> Vec<u8> {
    let status = [100, 180, 200, 200, 302, 401, 407, 423, 486, 503][usize::from(what / 8) % 10];
    let Ok(request) = Message::read(request.to_vec().into()) else {
        return Vec::new();
    };
    if !request.is_request() {
        return Vec::new();
    }
    let mut response = Message::response_to(&request, status, "Reason");
    response.set_to_tag("peer");
    let octets = response.to_bytes();
    let end = octets.len().saturating_sub(2);
    [&octets[..end], fields, b"\r\n\r\n"].concat()
}
