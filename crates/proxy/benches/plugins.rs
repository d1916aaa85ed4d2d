//! What a hook of a plugin costs: the time of a call, message and script alone.
//!
//! `cargo bench -p proxy --bench plugins`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use proxy::core::{Hook, PluginScript, Policy, RequestPoint};
use proxy::plugin::{Environment, Plugins, Shared};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::{ConnectionId, Flow, Message, Method, Name, Transport};

/// Calls of a measurement, and measurements of which the fastest counts.
const CALLS: u32 = 200_000;
const ROUNDS: u32 = 5;

fn main() {
    println!("nanoseconds a call of on_request\n");
    for (name, body) in [
        ("nothing", ""),
        ("read a field", "local _ = request:header('Call-ID')"),
        (
            "read a field, set a field",
            "request:set_header('X-Seen', request:header('Call-ID'))",
        ),
        (
            "read all fields",
            "for _, field in ipairs(request:headers()) do local _ = field[2] end",
        ),
        (
            "look a number up, set a field, choose a next hop",
            "local uri = tandem.uri(request.uri)
             request:set_header('X-Carrier', table_of[uri.user:sub(1, 4)] or 'none')
             request:route('sip:192.0.2.70')",
        ),
    ] {
        println!("{:8.0}  {name}", measure(body));
    }
}

fn measure(body: &str) -> f64 {
    let text = format!("table_of = {{}} function on_request(request) {body} end");
    let policy = Policy {
        plugins: Arc::from([PluginScript::new("bench", &text)]),
        ..Policy::default()
    };
    let environment = Environment {
        stopwatch: Some(Instant::now),
        is_utc: false,
        has_timers: true,
    };
    let now = Instant::now();
    let rng = ChaCha12Rng::seed_from_u64(1);
    let mut plugins = Plugins::new(Arc::<Shared>::default(), environment, now, rng);
    plugins.set_policy(&Arc::new(policy));
    let remote = "192.0.2.9:5060".parse().expect("an address");
    let arrival = Flow {
        transport: Transport::Udp,
        local: remote,
        remote,
        connection: ConnectionId(0),
        stream: 0,
    };
    let mut request = Message::request(Method::Invite, "sip:+4930123456@example.com")
        .with(
            Name::Via,
            "SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK776asdhds",
        )
        .with(Name::MaxForwards, "70")
        .with(
            Name::From,
            "\"Alice\" <sip:alice@example.com>;tag=1928301774",
        )
        .with(Name::To, "<sip:+4930123456@example.com>")
        .with(Name::CallId, "a84b4c76e66710@192.0.2.9")
        .with(Name::CSeq, "314159 INVITE")
        .with(Name::Contact, "<sip:alice@192.0.2.9>")
        .with(Name::Other("X-Seen"), "before");
    let mut fastest = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for _ in 0..CALLS {
            let mut is_retargeted = false;
            let mut point = RequestPoint {
                request: &mut request,
                arrival: &arrival,
                user: None,
                now,
                is_retargeted: &mut is_retargeted,
            };
            black_box(plugins.on_request(&mut point, None));
        }
        let each = begun.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS);
        fastest = fastest.min(each);
        // Edits add up in the buffer of a message.
        request = Message::read(request.to_bytes()).expect("a message");
    }
    assert!(plugins.poll_event().is_none(), "no call has failed");
    fastest
}
