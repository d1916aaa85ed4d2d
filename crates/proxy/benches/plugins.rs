//! What a hook of a plugin costs: the time of a call, message and script alone; and how soon a call is cut off that would
//! not end.
//!
//! `cargo bench -p proxy --bench plugins`

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proxy::core::{Event, Hook, PluginScript, Policy, RequestPoint};
use proxy::plugin::{Environment, Plugins, Shared, Stopwatch};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::{ConnectionId, Flow, Message, Method, Name, Transport};

/// Calls of a measurement, and measurements of which the fastest counts.
const CALLS: u32 = 5_000;
const ROUNDS: u32 = 200;

fn main() {
    println!("nanoseconds of processor time a call of on_request\n");
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
    println!("\nmilliseconds until a call is cut off, the longest of {TRIES}\n");
    for (name, before, body) in ENDLESS {
        println!("{:8.2}  {name}", cut_off(before, body));
    }
}

/// How often each is tried.
const TRIES: u32 = 20;

/// What would not end: a name, what stands before the hook, and its body.
const ENDLESS: [(&str, &str, &str); 7] = [
    ("a loop", "", "while true do end"),
    (
        "a loop within pcall",
        "",
        "while true do pcall(function() while true do end end) end",
    ),
    (
        "a loop in a comparison of table.sort",
        "",
        "table.sort({ 1, 2, 3 }, function() while true do end end)",
    ),
    (
        "texts of 4 MB that are joined",
        "local text = ('x'):rep(4000000)",
        "while true do local _ = text .. 'x' end",
    ),
    (
        "texts of 4 MB that are compared",
        "local text = ('x'):rep(4000000) local other = text .. 'x'",
        "while true do local _ = text < other end",
    ),
    (
        "a text of 4 MB in capitals",
        "local text = ('x'):rep(4000000)",
        "while true do local _ = text:upper() end",
    ),
    (
        "a list of 100,000 numbers that is sorted",
        "local list = {} for n = 1, 100000 do list[n] = n * 7919 % 100003 end",
        "while true do table.sort(list) list[1] = 100000 end",
    ),
];

/// How long a call takes that would not end.
fn cut_off(before: &str, body: &str) -> f64 {
    let text = format!("{before} function on_request(request) {body} end");
    let (mut plugins, arrival, mut request) = stage(&text);
    let mut longest = 0.0_f64;
    for _ in 0..TRIES {
        let begun = Instant::now();
        call(&mut plugins, &arrival, &mut request, begun);
        longest = longest.max(begun.elapsed().as_secs_f64() * 1e3);
        let event = plugins.poll_event().expect("the call has failed");
        let is_cut_off = matches!(
            &event,
            Event::PluginFailed {
                hook: "on_request",
                ..
            }
        );
        assert!(is_cut_off, "{event:?}");
    }
    longest
}

/// A script, and a request for it.
fn stage(text: &str) -> (Plugins, Flow, Message) {
    let policy = Policy {
        plugins: Arc::from([PluginScript::new("bench", text)]),
        ..Policy::default()
    };
    let environment = Environment {
        stopwatch: Some(Stopwatch {
            now: Instant::now,
            processor_time,
        }),
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
    let request = Message::request(Method::Invite, "sip:+4930123456@example.com")
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
    (plugins, arrival, request)
}

fn processor_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.expect("there is such a clock").into()
}

fn call(plugins: &mut Plugins, arrival: &Flow, request: &mut Message, now: Instant) {
    let mut is_retargeted = false;
    let mut point = RequestPoint {
        request,
        arrival,
        user: None,
        now,
        is_retargeted: &mut is_retargeted,
    };
    black_box(plugins.on_request(&mut point, None));
}

fn measure(body: &str) -> f64 {
    let text = format!("table_of = {{}} function on_request(request) {body} end");
    let (mut plugins, arrival, mut request) = stage(&text);
    let now = Instant::now();
    let mut fastest = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = processor_time();
        for _ in 0..CALLS {
            call(&mut plugins, &arrival, &mut request, now);
        }
        let each = (processor_time() - begun).as_secs_f64() * 1e9 / f64::from(CALLS);
        fastest = fastest.min(each);
        // Edits add up in the buffer of a message.
        request = Message::read(request.to_bytes()).expect("a message");
    }
    assert!(plugins.poll_event().is_none(), "no call has failed");
    fastest
}
