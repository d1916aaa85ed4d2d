//! What a registration costs in the location store alone: CPU time of all its threads for each change,
//! and the time to open a file again.
//!
//! `cargo bench -p proxy --bench location [-- USERS]`

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use proxy::core::{
    AddressOfRecord, Answer, Config, Domain, Listener, Proxy, Query, QueryId, Update,
};
use proxy::location::{Handle, LocationConfig, Store, StoreQuery, Synchronous, Url};
use rand::seq::SliceRandom;
use rand::{SeedableRng, rngs::StdRng};
use rand_chacha::ChaCha12Rng;
use sip::{ConnectionId, Flow, Message, Method, Name, Transport};

type Question = (QueryId, AddressOfRecord, Update);

fn main() {
    let users = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(100_000);
    println!("{users} users; CPU microseconds a registration\n");
    println!("store                    in flight   first   same order   any order   commits/s");
    let memory = LocationConfig::default();
    measure("memory", &memory, users, 256);
    let directory = tempfile::tempdir_in(".").expect("a directory on the disk");
    for synchronous in [Synchronous::Normal, Synchronous::Full] {
        for in_flight in [32, 256] {
            let name = format!("sqlite {}", synchronous.name());
            let path = directory.path().join(format!("{name}-{in_flight}.db"));
            let config = LocationConfig {
                url: Url::sqlite(path.to_str().expect("UTF-8")),
                synchronous,
                ..LocationConfig::default()
            };
            measure(&name, &config, users, in_flight);
            let begun = Instant::now();
            let store = open(&config);
            assert_eq!(store.statistics().bindings, users as u64);
            println!(
                "    opened again in {:.0} ms",
                begun.elapsed().as_secs_f64() * 1e3
            );
        }
    }
}

fn measure(name: &str, config: &LocationConfig, users: usize, in_flight: usize) {
    let store = open(config);
    let mut handle = store.handle();
    let mut order: Vec<usize> = (0..users).collect();
    let begun = Instant::now();
    let first = round(&mut handle, &order, 1, in_flight);
    let again = round(&mut handle, &order, 2, in_flight);
    order.shuffle(&mut StdRng::seed_from_u64(1));
    let any = round(&mut handle, &order, 3, in_flight);
    let commits = store.statistics().commits as f64 / begun.elapsed().as_secs_f64();
    println!("{name:24} {in_flight:9} {first:7.2} {again:12.2} {any:11.2} {commits:11.0}");
}

fn open(config: &LocationConfig) -> Store {
    Store::open(config, &mut ChaCha12Rng::seed_from_u64(1)).expect("it opens")
}

/// Registers everybody once; returns the CPU microseconds of each.
fn round(handle: &mut Handle, order: &[usize], cseq: u32, in_flight: usize) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let mut spent = Duration::ZERO;
    for users in order.chunks(10_000) {
        let questions = questions(users, cseq);
        let begun = cpu_time();
        let mut waiting = 0;
        for (id, address, update) in questions {
            if waiting == in_flight {
                // As a worker does: wait once, then take all that is there.
                let mut next = Some(runtime.block_on(handle.next()));
                while let Some(answer) = next {
                    check(&answer);
                    waiting -= 1;
                    next = handle.next_now();
                }
            }
            handle.submit(Instant::now(), id, StoreQuery::Update(address, update));
            waiting += 1;
        }
        for _ in 0..waiting {
            check(&runtime.block_on(handle.next()));
        }
        spent += cpu_time() - begun;
    }
    spent.as_secs_f64() * 1e6 / order.len() as f64
}

fn check((_, answer): &(QueryId, Answer)) {
    assert!(
        matches!(answer, Answer::Bindings(bindings) if bindings.len() == 1),
        "{answer:?}"
    );
}

fn cpu_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("usage");
    let of = |time: nix::sys::time::TimeVal| {
        Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000)
    };
    of(usage.user_time()) + of(usage.system_time())
}

/// What a core asks the store when these users register.
fn questions(users: &[usize], cseq: u32) -> Vec<Question> {
    let local = ([127, 0, 0, 1], 5060).into();
    let config = Config {
        listeners: vec![Listener {
            transport: Transport::Udp,
            address: local,
        }],
        domains: vec![Domain {
            name: "example.com".parse().expect("a host"),
            aliases: Vec::new(),
        }],
        ..Config::default()
    };
    let mut core = Proxy::new(config, ChaCha12Rng::seed_from_u64(1));
    let now = Instant::now();
    let mut question = |user: &usize| {
        let request = Message::request(Method::Register, "sip:example.com")
            .with(
                Name::Via,
                format!("SIP/2.0/UDP 127.0.0.1:5062;branch=z9hG4bK{user}"),
            )
            .with(
                Name::From,
                format!("<sip:user{user:06}@example.com>;tag={user}"),
            )
            .with(Name::To, format!("<sip:user{user:06}@example.com>"))
            .with(Name::CallId, format!("{user}-0123456789@127.0.0.1"))
            .with(Name::CSeq, format!("{cseq} REGISTER"))
            .with(Name::Contact, format!("<sip:user{user:06}@127.0.0.1:5062>"))
            .with(Name::Expires, "3600");
        let flow = Flow {
            transport: Transport::Udp,
            local,
            remote: ([127, 0, 0, 1], 5062).into(),
            connection: ConnectionId(0),
            stream: 0,
        };
        core.handle_message(now, flow, request);
        match core.poll_query() {
            Some((id, Query::Update(address, update))) => {
                core.handle_answer(now, id, Answer::Failed);
                (id, address, update)
            }
            other => panic!("an update expected: {other:?}"),
        }
    };
    users.iter().map(&mut question).collect()
}
