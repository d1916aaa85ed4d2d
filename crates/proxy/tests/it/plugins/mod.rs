//! Plugins in Lua: each hook, each verb, each limit, on a proxy core without sockets.

mod day;
mod escapes;
mod functions;
mod hooks;
mod hostile;
mod questions;
mod redis;
mod seeds;
mod shipped;
mod uris;
mod verbs;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{Bench, Sent, flow, request, response};
use proxy::core::{Event, PluginScript, Policy, Relay};
use proxy::plugin::{Environment, PluginCounts, Plugins, Shared};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::{Flow, Message, Method};

const HERE: &str = "udp:192.0.2.1:5060";

/// A proxy with plugins, and bob registered.
struct Scene {
    bench: Bench,
    shared: Arc<Shared>,
    policy: Policy,
}

impl Scene {
    /// One with a script.
    fn new(text: &str) -> Scene {
        Scene::with(PluginScript::new("script", text))
    }

    fn with(script: PluginScript) -> Scene {
        Scene::of(vec![script])
    }

    fn of(scripts: Vec<PluginScript>) -> Scene {
        Scene::seeded(scripts, 7)
    }

    fn seeded(scripts: Vec<PluginScript>, seed: u64) -> Scene {
        let mut policy = Policy::default();
        policy.forwarding.look_again = None;
        policy.forwarding.relay = Relay::Anybody;
        let mut bench = Bench::with(&[HERE], &["example.com"], |config| {
            config.policy = Arc::new(policy.clone());
        });
        bench.register(bob(), "bob", "<sip:bob@192.0.2.20>");
        let shared = Arc::<Shared>::default();
        let environment = Environment {
            stopwatch: None,
            is_utc: true,
            has_timers: true,
        };
        let rng = ChaCha12Rng::seed_from_u64(seed);
        let plugins = Plugins::new(Arc::clone(&shared), environment, bench.now, rng);
        bench.proxy.add_first_hook(Box::new(plugins));
        // Sunday, 29 November 2026, 12:00 UTC.
        let time = UNIX_EPOCH + Duration::from_secs(1_795_953_600);
        bench.proxy.set_wall_clock(bench.now, time);
        let mut scene = Scene {
            bench,
            shared,
            policy,
        };
        scene.load(scripts);
        scene
    }

    /// Exchanges the scripts.
    fn load(&mut self, scripts: Vec<PluginScript>) {
        self.policy.plugins = scripts.into();
        let policy = Arc::new(self.policy.clone());
        self.bench.proxy.set_policy(self.bench.now, policy);
        self.bench.settle();
    }

    /// Alice calls bob. Returns what is sent, without the 100.
    fn call(&mut self) -> Vec<Sent> {
        self.request(invite("call"))
    }

    fn request(&mut self, request: Message) -> Vec<Sent> {
        self.bench.receive(alice(), request);
        self.sent()
    }

    fn sent(&mut self) -> Vec<Sent> {
        let mut sent = self.bench.sent();
        sent.retain(|sent| sent.message.status() != Some(100));
        sent
    }

    /// The one message that is sent when alice calls bob.
    #[track_caller]
    fn outcome(&mut self) -> Sent {
        let mut sent = self.call();
        assert_eq!(sent.len(), 1, "{sent:#?} {:#?}", self.bench.events);
        sent.remove(0)
    }

    /// The errors of scripts, as they are told.
    fn errors(&mut self) -> Vec<String> {
        let events = self.bench.events.iter();
        let errors = events.filter_map(|event| match event {
            Event::PluginFailed { hook, error, .. } => Some(format!("{hook}: {error}")),
            _ => None,
        });
        errors.collect()
    }

    fn logged(&self) -> Vec<String> {
        let events = self.bench.events.iter();
        let lines = events.filter_map(|event| match event {
            Event::PluginLog { text, .. } => Some(text.to_string()),
            _ => None,
        });
        lines.collect()
    }

    fn counts(&self) -> PluginCounts {
        let mut plugins = self.shared.statistics().plugins;
        plugins.remove(0)
    }
}

fn alice() -> Flow {
    flow(HERE, "192.0.2.9:5060")
}

fn bob() -> Flow {
    flow(HERE, "192.0.2.20:5060")
}

fn invite(call: &str) -> Message {
    request(Method::Invite, "sip:bob@example.com", call)
}

/// What bob answers.
fn answer(sent: &Sent, status: u16) -> Message {
    response(&sent.message, status, "b1")
}
