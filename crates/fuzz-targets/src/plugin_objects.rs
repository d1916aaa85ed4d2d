//! Any message as a script sees it: all is read, and edits with any octets are made. What comes out can be read again,
//! and an error is told, not a panic.

use std::sync::Arc;
use std::time::Instant;

use proxy::core::{Event, Hook, PluginScript, Policy, ReplyPoint, RequestPoint};
use proxy::plugin::{Environment, Plugins, Shared};
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::SeedableRng;
use sip::{ConnectionId, Flow, Message, Transport};

/// Reads and edits by the words in the last fields of a message.
const SCRIPT: &str = r#"
    local function each(it)
      local words = {}
      for _, field in ipairs(it:headers()) do
        words[#words + 1] = field[2]
        local _ = it:header(field[1]), #it:headers(field[1]), tandem.uri(field[2])
        pcall(tandem.json.decode, field[2])
        pcall(string.find, it.body, field[2])
        pcall(string.gsub, field[2], field[1], field[2])
      end
      local _ = it.method, it.uri, it.call_id, it.in_dialog, it.source, it.status, it.reason, it.user
      for at = 1, #words - 1 do
        pcall(it.set_header, it, words[at], words[at + 1])
        pcall(it.add_header, it, "X-Word", words[at])
        pcall(it.remove_header, it, words[at])
        pcall(it.forward, it, words[at], words[at + 1])
        pcall(it.redirect, it, words[at])
        pcall(it.tag, it, words[at], words[at + 1])
        pcall(it.reply, it, #words[at], words[at + 1], { [words[at]] = words[at + 1] })
        pcall(function() it.uri = words[at] end)
        tandem.shared.set(words[at]:sub(1, 100), words[at + 1], at)
        pcall(tandem.log, "info", words[at])
      end
    end
    on_request, on_reply = each, each
"#;

/// Runs it.
pub fn run(input: &[u8]) {
    let Ok(mut message) = Message::read(input.to_vec().into()) else {
        return;
    };
    let now = Instant::now();
    let environment = Environment {
        stopwatch: None,
        is_utc: true,
        has_timers: true,
    };
    let rng = ChaCha12Rng::seed_from_u64(1);
    let mut plugins = Plugins::new(Arc::<Shared>::default(), environment, now, rng);
    let mut script = PluginScript::new("fuzz", SCRIPT);
    script.limits.instructions = 100_000;
    let policy = Policy {
        plugins: Arc::from([script]),
        ..Policy::default()
    };
    plugins.set_policy(&Arc::new(policy));
    let remote = ([192, 0, 2, 9], 5060).into();
    let arrival = Flow {
        transport: Transport::Udp,
        local: remote,
        remote,
        connection: ConnectionId(0),
        stream: 0,
    };
    if message.is_request() {
        let mut is_retargeted = false;
        let mut point = RequestPoint {
            request: &mut message,
            arrival: &arrival,
            user: None,
            now,
            is_retargeted: &mut is_retargeted,
        };
        plugins.on_request(&mut point, None);
    } else {
        let mut point = ReplyPoint {
            response: &mut message,
            now,
        };
        plugins.on_reply(&mut point, None);
    }
    while let Some(event) = plugins.poll_event() {
        if let Event::PluginFailed { error, .. } = event {
            // Nothing else can go wrong: all that may fail is caught.
            assert!(
                error.contains("limit of instructions") || error.contains("not enough memory"),
                "{error}"
            );
        }
    }
    Message::read(message.to_bytes()).expect("what a script has changed can be read");
}
