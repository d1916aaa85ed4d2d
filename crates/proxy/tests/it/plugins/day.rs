//! A day of calls through plugins, on a virtual clock: what the server and the scripts hold stays what it is.
//!
//! The short run is one of the tests; the whole day, 864,000 calls at ten a second, is a nightly one:
//! `cargo test --release -p proxy --test it -- --ignored a_whole_day --nocapture`.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proxy::core::{
    Answer, Event, Hook, HttpResponse, PluginScript, Policy, Query, RedisReply, RequestPoint,
    Setting,
};
use proxy::plugin::{Environment, Plugins, Shared};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::{Message, Method, Name};

use super::{Scene, alice, answer, bob, invite};
use crate::common::{register, request};

/// Ten calls a second.
const BETWEEN_CALLS: Duration = Duration::from_millis(100);

/// A shipped plugin.
fn shipped(name: &str, settings: &[(&str, Setting)]) -> PluginScript {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("plugins/{name}.lua"));
    let text = fs::read_to_string(file).expect("it is shipped");
    let mut script = PluginScript::new(name, &text);
    let settings = settings
        .iter()
        .map(|(name, value)| ((*name).into(), value.clone()));
    script.settings = Setting::Table(settings.collect());
    script
}

/// Asks over HTTP and of Redis, keeps something for a while, builds tables and texts, fails now and then, and tells how
/// much memory its state has.
const BUSY: &str = r#"
    local calls = 0
    function on_request(request)
      if request.method ~= "INVITE" then return end
      calls = calls + 1
      local words = {}
      for _, field in ipairs(request:headers()) do words[#words + 1] = field[1] .. "=" .. field[2] end
      tandem.shared.set(request.call_id, table.concat(words, ";"), 30)
      request:set_header("X-Call", calls)
      if calls % 10 == 0 then tandem.get("http://rates.example/" .. calls) end
      if calls % 10 == 5 then tandem.redis("redis://cache.example/", "INCR", request.call_id) end
      if calls % 100 == 1 then pcall(error, words) end
      if calls % 1000 == 2 then while true do end end
    end
    function on_reply(response) response:set_header("X-Status", response.status) end
    tandem.every(60, function() tandem.log("info", ("memory %.0f"):format(collectgarbage("count") * 1024)) end)
"#;

#[test]
fn calls_leave_nothing() {
    run(3_000);
}

#[test]
#[ignore = "takes minutes: nightly"]
fn a_whole_day_of_calls_leaves_nothing() {
    run(24 * 60 * 60 * 10);
}

/// So many calls, one after the other.
fn run(calls: u32) {
    let mut busy = PluginScript::new("busy", BUSY);
    busy.on_error = proxy::core::OnError::Continue;
    let mut scene = Scene::of(vec![
        busy,
        shipped("call_limit", &[("limit", Setting::Integer(1_000_000))]),
        shipped("fraud_brake", &[]),
    ]);
    scene.bench.holds_questions = true;
    let (mut memory, mut held) = (Vec::new(), Vec::new());
    let mut process = Vec::new();
    for number in 0..calls {
        if [1_000, 100_000].contains(&number) || number == calls - 1 {
            process.push(resident_octets());
            println!(
                "{number} calls: octets of the process {:?}, of the state of Lua {:?}",
                process.last().copied().flatten(),
                memory.last()
            );
        }
        if number % 10_000 == 9_999 {
            // Before its hour is over.
            let again = register("bob", 2 + number / 10_000, &["<sip:bob@192.0.2.20>"]);
            scene.bench.receive(bob(), again);
            settle(&mut scene);
            scene.sent();
        }
        let call = format!("call{number}");
        scene.bench.receive(alice(), invite(&call));
        settle(&mut scene);
        let sent = scene.sent();
        let Some(sent) = sent.iter().find(|sent| sent.message.is_request()) else {
            panic!("{call} is not forwarded: {sent:#?} {:?}", scene.errors());
        };
        let ok = answer(sent, 200).with(Name::Contact, "<sip:bob@192.0.2.20>");
        scene.bench.receive(bob(), ok);
        settle(&mut scene);
        let mut bye = request(Method::Bye, "sip:bob@192.0.2.20", &call);
        bye.set_to_tag("b1");
        scene.bench.receive(alice(), bye);
        settle(&mut scene);
        for sent in scene.sent() {
            if sent.message.method() == Some(&Method::Bye) {
                scene.bench.receive(bob(), answer(&sent, 200));
            }
        }
        scene.bench.pass(BETWEEN_CALLS);
        settle(&mut scene);
        scene.sent();
        for event in scene.bench.events.drain(..) {
            if let Event::PluginLog { text, .. } = event
                && let Some(octets) = text.strip_prefix("memory ")
            {
                memory.push(octets.parse::<u64>().expect("a number"));
                held.push(scene.bench.proxy.statistics().held_octets);
            }
        }
    }
    let half = memory.len() / 2;
    let most = |part: &[u64]| part.iter().copied().max().unwrap_or(0);
    let (first, second) = (most(&memory[..half]), most(&memory[half..]));
    // A collection begins when there is twice as much as the one before has left.
    assert!(first > 0 && second < 2 * first, "{first} {second}");
    let entries = scene.shared.statistics().entries;
    // Half a minute of texts; calls that have ended are forgotten.
    assert!(entries <= 310, "{entries}");
    let (first, second) = held.split_at(half);
    assert!(second.iter().max() <= first.iter().max(), "{held:?}");
    // At first tables grow to the size that they keep.
    if let [_, Some(early), Some(end)] = process[..] {
        assert!(end < early + early / 4, "{process:?}");
    }
}

/// How much memory this process has, where the system tells.
fn resident_octets() -> Option<u64> {
    const PAGE: u64 = 4096;
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * PAGE)
}

/// Answers what is asked.
fn settle(scene: &mut Scene) {
    while let Some((id, query)) = scene.bench.questions.pop_front() {
        let answer = match query {
            Query::Http(_) => Answer::Http(HttpResponse {
                status: 200,
                body: Bytes::from_static(br#"{"price": 0.01}"#),
            }),
            Query::Redis(_) => Answer::Redis(RedisReply::Integer(1)),
            own => scene.bench.own_answer(own),
        };
        scene.bench.answer(id, answer);
    }
}

/// Calls of a hook alone, without anything else that would collect garbage.
#[test]
fn a_hook_that_does_nothing_leaves_nothing() {
    let text = "function on_request(request) if request.method == 'BYE' then error(collectgarbage('count')) end end";
    let policy = Policy {
        plugins: Arc::from([PluginScript::new("script", text)]),
        ..Policy::default()
    };
    let now = Instant::now();
    let rng = ChaCha12Rng::seed_from_u64(1);
    let environment = Environment {
        stopwatch: None,
        is_utc: true,
        has_timers: true,
    };
    let mut plugins = Plugins::new(Arc::<Shared>::default(), environment, now, rng);
    plugins.set_policy(&Arc::new(policy));
    let mut call = |request: &mut Message| {
        let mut is_retargeted = false;
        let mut point = RequestPoint {
            request,
            arrival: &alice(),
            user: None,
            now,
            is_retargeted: &mut is_retargeted,
        };
        plugins.on_request(&mut point, None);
        plugins.poll_event()
    };
    let (mut options, mut bye) = (
        invite("call"),
        request(Method::Bye, "sip:bob@example.com", "call"),
    );
    let mut memory = Vec::new();
    for _ in 0..20 {
        for _ in 0..10_000 {
            assert_eq!(call(&mut options), None);
        }
        let Some(Event::PluginFailed { error, .. }) = call(&mut bye) else {
            panic!("it tells by an error");
        };
        let number = error
            .rsplit(' ')
            .next()
            .and_then(|number| number.parse::<f64>().ok());
        memory.push(number.unwrap_or_else(|| panic!("{error}")));
    }
    println!("kibibytes of the state of Lua, each 10,000 calls: {memory:?}");
    assert!(memory[19] < 1.5 * memory[1], "{memory:?}");
}
