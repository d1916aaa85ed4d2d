//! Scripts put together by chance, calls by chance, answers that come, come late or never, and reloads in the middle:
//! nothing is left in the end, and the same seed gives the same messages. `TANDEM_SEEDS` says how many (20).

use std::time::Duration;

use bytes::Bytes;
use proxy::core::{Answer, HttpResponse, OnError, PluginScript, Query};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::{Message, Method, Name};

use super::{Scene, alice, answer, bob, invite};
use crate::common::{Sent, register, request};

const HOOKS: [&str; 7] = [
    "on_request",
    "on_register",
    "on_route",
    "on_branch",
    "on_reply",
    "on_failure",
    "on_dialog_end",
];

/// What a hook may do.
const STATEMENTS: [&str; 22] = [
    "it:set_header('X-Number', math.random(1000))",
    "it:add_header('X-Name', it:header('From') or 'none')",
    "it:remove_header('User-Agent')",
    "it:reply(480)",
    "it:forward('sip:1@192.0.2.71', 'sip:2@192.0.2.72')",
    "it:fork('sip:1@192.0.2.71', 'sip:2@192.0.2.72')",
    "it:route('sip:192.0.2.73')",
    "it:redirect('sip:3@192.0.2.74')",
    "it:drop()",
    "it.uri = 'sip:bob@example.com'",
    "it:tag('name', it.call_id)",
    "tandem.get('http://' .. math.random(9) .. '.example/')",
    "tandem.location('sip:bob@example.com')",
    "tandem.resolve('sip:name.example')",
    "if tandem.shared.add('count', 1, 30) > 3 then return end",
    "kept = kept or it pcall(function() kept:set_header('X-Kept', 1) end)",
    "if math.random(4) == 1 then error('by chance') end",
    "if math.random(40) == 1 then while true do end end",
    "pcall(it.reply, it, math.random(100, 700))",
    "coroutine.wrap(function() tandem.get('http://inner.example/') end)()",
    "tandem.log('info', tostring(it.method) .. tostring(it.status))",
    "for _, field in ipairs(it:headers()) do local _ = it:headers(field[1]) end",
];

fn script(rng: &mut ChaCha12Rng, name: &str) -> PluginScript {
    let mut text = String::new();
    for hook in HOOKS {
        if rng.random_bool(0.6) {
            text.push_str(&format!("function {hook}(it)\n"));
            for _ in 0..rng.random_range(0..4) {
                let statement = STATEMENTS.choose(rng).expect("some");
                text.push_str(&format!("if math.random(2) == 1 then {statement} end\n"));
            }
            text.push_str("end\n");
        }
    }
    if rng.random_bool(0.3) {
        text.push_str("tandem.every(7, function() tandem.get('http://timer.example/') end)\n");
    }
    let mut script = PluginScript::new(name, &text);
    script.limits.instructions = 20_000;
    if rng.random_bool(0.5) {
        script.on_error = OnError::Continue;
    }
    script
}

/// Tells a story, and gives what was sent in it.
fn tell(seed: u64) -> Vec<Bytes> {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let scripts = |rng: &mut ChaCha12Rng| vec![script(rng, "one"), script(rng, "two")];
    let first = scripts(&mut rng);
    let mut scene = Scene::seeded(first, seed);
    scene.bench.holds_questions = true;
    let mut sent: Vec<Sent> = Vec::new();
    let mut calls = 0;
    for _ in 0..60 {
        match rng.random_range(0..10) {
            0..=2 => {
                calls += 1;
                scene
                    .bench
                    .receive(alice(), invite(&format!("call{calls}")));
            }
            3 => {
                let mut cancel = request(
                    Method::Cancel,
                    "sip:bob@example.com",
                    &format!("call{calls}"),
                );
                cancel.remove_all(Name::Contact);
                scene.bench.receive(alice(), cancel);
            }
            4 | 5 => {
                let requests = sent.iter().filter(|sent| sent.message.is_request());
                let requests: Vec<_> = requests.collect();
                if let Some(one) = requests.choose(&mut rng) {
                    let status = *[180, 200, 404, 486, 503, 603]
                        .choose(&mut rng)
                        .expect("some");
                    let response = answer(one, status);
                    scene.bench.receive(bob(), response);
                }
            }
            6 => {
                let scripts = scripts(&mut rng);
                scene.load(scripts);
            }
            7 => {
                let mut bye = request(Method::Bye, "sip:bob@example.com", &format!("bye{calls}"));
                bye.set_to_tag("b1");
                scene.bench.receive(alice(), bye);
                let cseq = u32::try_from(calls).unwrap_or(0) + 2;
                scene
                    .bench
                    .receive(bob(), register("carol", cseq, &["<sip:carol@192.0.2.21>"]));
            }
            _ => scene
                .bench
                .pass(Duration::from_millis(rng.random_range(0..5000))),
        }
        // Some questions are answered, in any order; the others never.
        while !scene.bench.questions.is_empty() && rng.random_bool(0.8) {
            let at = rng.random_range(0..scene.bench.questions.len());
            let (id, query) = scene.bench.questions.remove(at).expect("it is there");
            let answer = match query {
                Query::Http(_) => Answer::Http(HttpResponse {
                    status: 200,
                    body: Bytes::from_static(b"{}"),
                }),
                own => scene.bench.own_answer(own),
            };
            scene.bench.answer(id, answer);
        }
        sent.extend(scene.bench.sent());
    }
    scene.load(Vec::new());
    scene.bench.pass(Duration::from_secs(400));
    sent.extend(scene.bench.sent());
    let left = scene.bench.proxy.statistics();
    let left = (
        left.response_contexts,
        left.branches,
        left.questions,
        left.held_octets,
    );
    assert_eq!(left, (0, 0, 0, 0), "seed {seed}");
    sent.iter()
        .map(|sent| Message::to_bytes(&sent.message))
        .collect()
}

#[test]
fn nothing_is_left_and_every_story_repeats() {
    let seeds = std::env::var("TANDEM_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok());
    let mut messages = 0;
    for seed in 0..seeds.unwrap_or(20) {
        let told = tell(seed);
        assert!(told == tell(seed), "seed {seed} does not repeat");
        messages += told.len();
    }
    assert!(messages > 100);
}
