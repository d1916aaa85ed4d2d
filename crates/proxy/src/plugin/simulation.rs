//! A simulated server with one script, for tests of scripts: requests go in as text, and what is sent comes out.
//!
//! The tests are Lua themselves: global functions whose names begin with `test`. `docs/plugins.md` describes what they find.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use bytes::Bytes;
use mlua::chunk::ChunkMode;
use mlua::{
    Error, Function, Lua, LuaOptions, LuaString, Result, StdLib, Table, UserData, UserDataFields,
    UserDataMethods, Value, Variadic,
};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::digest::Credentials;
use sip::{ConnectionId, Flow, Message, Name, Target, Transport, Uri};

use super::{Environment, Plugins, Shared};
use super::{library, redis};
use crate::core::{
    Answer, Bindings, Config, Domain, Event, HttpResponse, Listener, NextHop, Page, PluginScript,
    Policy, Proxy, Query, Relay, Setting,
};

/// What has become of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestResult {
    /// The name of the function.
    pub name: String,
    /// Why it has failed.
    pub error: Option<String>,
}

/// Where the simulated server listens, over each transport.
const HERE: &str = "192.0.2.1:5060";

/// Where requests come from, unless a test says otherwise.
const ALICE: &str = "udp:192.0.2.9:5060";

/// How often a hop may lead to another question within one step of a test.
const MAXIMUM_STEPS: usize = 10_000;

/// Runs the tests of a script. `file`: the name of the file of tests.
///
/// # Errors
/// The tests cannot be loaded, or there are none.
pub fn run_tests(
    script: &PluginScript,
    file: &str,
    tests: &[u8],
) -> std::result::Result<Vec<TestResult>, String> {
    let run = || -> Result<Vec<TestResult>> {
        let libraries = StdLib::ALL_SAFE;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let script = script.clone();
        let simulate = lua.create_function(move |_, options: Option<Table>| {
            Simulation::start(&script, options.as_ref())
        })?;
        lua.globals().set("simulate", simulate)?;
        // The simulated server knows no zone.
        let system: Table = lua.globals().get("os")?;
        let time = lua.create_function(|_, parts: Table| library::seconds_of(&parts))?;
        system.set("time", time)?;
        lua.load(tests)
            .set_name(format!("@{file}"))
            .set_mode(ChunkMode::Text)
            .exec()?;
        let mut functions = BTreeMap::new();
        for pair in lua.globals().pairs::<String, Value>() {
            if let (name, Value::Function(function)) = pair?
                && name.starts_with("test")
            {
                functions.insert(name, function);
            }
        }
        let results = functions.into_iter().map(|(name, function)| {
            let error = function.call::<()>(()).err();
            let error = error.map(|error| library::reason(&error));
            TestResult { name, error }
        });
        Ok(results.collect())
    };
    let results = run().map_err(|error| library::reason(&error))?;
    match results.is_empty() {
        true => Err(format!(
            "{file} defines no function whose name begins with test"
        )),
        false => Ok(results),
    }
}

/// A server and its surroundings.
struct Simulation {
    proxy: Proxy,
    shared: Arc<Shared>,
    now: Instant,
    store: BTreeMap<String, Bindings>,
    users: BTreeMap<String, String>,
    names: BTreeMap<String, Vec<(Transport, SocketAddr)>>,
    http: Option<Function>,
    redis: Option<Function>,
    sent: VecDeque<Sent>,
    events: Vec<Event>,
    calls: u32,
}

/// A message that the server has sent.
#[derive(Clone)]
struct Sent {
    message: Arc<Message>,
    target: Target,
}

/// It is used by one test at a time; a lock makes it what a state of Lua can hold.
struct Handle(Mutex<Simulation>);

impl Simulation {
    /// Starts the server that a test wants.
    fn start(script: &PluginScript, options: Option<&Table>) -> Result<Handle> {
        let get = |name: &str| -> Result<Value> {
            options.map_or(Ok(Value::Nil), |options| options.get(name))
        };
        let mut script = script.clone();
        if let Value::Table(settings) = get("settings")? {
            script.settings = to_setting(&Value::Table(settings))?;
        }
        if let Value::Table(files) = get("files")? {
            for pair in files.pairs::<String, LuaString>() {
                let (name, content) = pair?;
                let content: Arc<[u8]> = (*content.as_bytes()).into();
                script.files.insert(name.into(), content);
            }
        }
        let mut policy = Policy::default();
        if let Value::Table(trusted) = get("trusted")? {
            for address in trusted.sequence_values::<String>() {
                let range = address?.parse().map_err(Error::external)?;
                policy.trust.addresses.push(range);
            }
        }
        let domain = match get("domain")? {
            Value::String(domain) => domain.to_string_lossy(),
            _ => "example.com".to_owned(),
        };
        let domain = domain
            .parse()
            .map_err(|_| Error::runtime("the domain is no host"))?;
        let time = get("time")?.as_integer().unwrap_or(1_767_225_600);
        let seed = get("seed")?.as_integer().unwrap_or(1);
        policy.forwarding.relay = Relay::Anybody;
        policy.forwarding.look_again = None;
        policy.plugins = Arc::from([script]);
        let address = HERE.parse().map_err(Error::external)?;
        let listener = |transport| Listener { transport, address };
        let config = Config {
            listeners: [Transport::Udp, Transport::Tcp, Transport::Sctp]
                .map(listener)
                .into(),
            domains: vec![Domain {
                name: domain,
                aliases: Vec::new(),
            }],
            policy: Arc::new(policy),
            ..Config::default()
        };
        let now = Instant::now();
        let mut rng = ChaCha12Rng::seed_from_u64(seed.unsigned_abs());
        let mut proxy = Proxy::new(config, ChaCha12Rng::from_rng(&mut rng));
        let shared = Arc::<Shared>::default();
        let environment = Environment {
            stopwatch: None,
            is_utc: true,
            has_timers: true,
        };
        let rng = ChaCha12Rng::from_rng(&mut rng);
        let plugins = Plugins::new(Arc::clone(&shared), environment, now, rng);
        proxy.add_first_hook(Box::new(plugins));
        let time = Duration::from_secs(time.unsigned_abs());
        proxy.set_wall_clock(now, UNIX_EPOCH + time);
        let mut simulation = Simulation {
            proxy,
            shared,
            now,
            store: BTreeMap::new(),
            users: BTreeMap::new(),
            names: BTreeMap::new(),
            http: None,
            redis: None,
            sent: VecDeque::new(),
            events: Vec::new(),
            calls: 0,
        };
        simulation.settle()?;
        let failed = simulation.events.iter().find_map(|event| match event {
            Event::PluginFailed { error, .. } => Some(error),
            _ => None,
        });
        match failed {
            Some(error) => Err(Error::runtime(error)),
            None => Ok(Handle(Mutex::new(simulation))),
        }
    }

    /// Hands in a request, completed where it lacks what every request has.
    fn send(&mut self, text: &str, source: Option<&str>) -> Result<Vec<Sent>> {
        self.calls += 1;
        let flow = flow(source.unwrap_or(ALICE))?;
        let request = request(text, self.calls, &flow)?;
        self.hand_in(flow, request)
    }

    /// Answers a request that was sent.
    fn respond(
        &mut self,
        sent: &Sent,
        status: u16,
        reason: Option<&str>,
        fields: Option<&Table>,
    ) -> Result<Vec<Sent>> {
        let request = Message::read(sent.message.to_bytes()).map_err(Error::external)?;
        let mut response = Message::response_to(&request, status, reason.unwrap_or("Reason"));
        for value in request.headers(Name::RecordRoute) {
            response.push_back(Name::RecordRoute, value);
        }
        if status != 100 {
            response.set_to_tag("answer");
        }
        if let Some(fields) = fields {
            for pair in fields.pairs::<String, LuaString>() {
                let (name, value) = pair?;
                response.push_back(Name::parse(&name), &*value.as_bytes());
            }
        }
        let (transport, remote) = place(&sent.target);
        self.hand_in(flow_over(transport, remote)?, response)
    }

    fn hand_in(&mut self, flow: Flow, message: Message) -> Result<Vec<Sent>> {
        let message = Message::read(message.to_bytes()).map_err(Error::external)?;
        self.proxy.handle_message(self.now, flow, message);
        self.settle()?;
        Ok(self.take_sent())
    }

    /// Lets time pass.
    fn pass(&mut self, seconds: f64) -> Result<Vec<Sent>> {
        let time = Duration::try_from_secs_f64(seconds).map_err(Error::external)?;
        let end = self.now + time;
        while let Some(due) = self.proxy.next_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.proxy.handle_timeout(self.now);
            self.settle()?;
        }
        self.now = end;
        Ok(self.take_sent())
    }

    /// What was sent, without the 100 of a transaction.
    fn take_sent(&mut self) -> Vec<Sent> {
        let sent = std::mem::take(&mut self.sent).into_iter();
        sent.filter(|sent| sent.message.status() != Some(100))
            .collect()
    }

    /// Answers what is asked, and takes what is sent and told.
    fn settle(&mut self) -> Result<()> {
        for _ in 0..MAXIMUM_STEPS {
            let Some((id, query)) = self.proxy.poll_query() else {
                break;
            };
            let answer = self.answer(query)?;
            self.proxy.handle_answer(self.now, id, answer);
        }
        while let Some(transmit) = self.proxy.poll_transmit() {
            if let Ok(message) = Message::read(transmit.payload) {
                self.sent.push_back(Sent {
                    message: Arc::new(message),
                    target: transmit.target,
                });
            }
        }
        while let Some(event) = self.proxy.poll_event() {
            self.events.push(event);
        }
        Ok(())
    }

    fn answer(&mut self, query: Query) -> Result<Answer> {
        Ok(match query {
            Query::Lookup(address) => match self.store.get(address.as_str()) {
                Some(bindings) => Answer::Bindings(bindings.clone()),
                None => Answer::Unknown,
            },
            Query::Update(address, update) => {
                let current = self
                    .store
                    .get(address.as_str())
                    .cloned()
                    .unwrap_or_default();
                match update.apply(&current) {
                    Ok(bindings) => {
                        let bindings: Bindings = bindings.into();
                        self.store
                            .insert(address.as_str().to_owned(), bindings.clone());
                        Answer::Bindings(bindings)
                    }
                    Err(error) => Answer::Refused(error),
                }
            }
            Query::Resolve(destination) => {
                let transport = destination.transport_or_default();
                let port = destination.port_or_default();
                let hops = match destination.host.parse::<IpAddr>() {
                    Ok(address) => vec![(transport, SocketAddr::new(address, port))],
                    Err(_) => self
                        .names
                        .get(&destination.host)
                        .cloned()
                        .unwrap_or_default(),
                };
                let local = HERE.parse().map_err(Error::external)?;
                let hop = |(transport, remote)| NextHop {
                    transport,
                    remote,
                    local,
                    peer: None,
                };
                Answer::NextHops(hops.into_iter().map(hop).collect())
            }
            Query::Credentials { realm, username } => {
                let password = self.users.get(&*username);
                let credentials = |password: &String| {
                    Arc::new(Credentials::new(&username, &realm, password.as_bytes()))
                };
                Answer::Credentials(password.map(credentials))
            }
            Query::Page { .. } => Answer::Page(Page::default()),
            Query::Http(request) => {
                let Some(server) = self.http.clone() else {
                    return Ok(Answer::Failed);
                };
                let body = String::from_utf8_lossy(&request.body).into_owned();
                let words = (&*request.method, &*request.url, body);
                let (status, body) = server.call::<(Option<u16>, Option<LuaString>)>(words)?;
                match status {
                    Some(status) => Answer::Http(HttpResponse {
                        status,
                        body: body.map_or(Bytes::new(), |body| {
                            Bytes::copy_from_slice(&body.as_bytes())
                        }),
                    }),
                    None => Answer::Failed,
                }
            }
            Query::Redis(command) => {
                let Some(server) = self.redis.clone() else {
                    return Ok(Answer::Failed);
                };
                let words = command.words.iter();
                let words: Variadic<String> = words
                    .map(|word| String::from_utf8_lossy(word).into_owned())
                    .collect();
                let words = (&*command.url, words);
                let (value, why) = server.call::<(Value, Option<LuaString>)>(words)?;
                redis::reply(&value, why)?.map_or(Answer::Failed, Answer::Redis)
            }
        })
    }

    /// The events since the last time.
    fn take_events<T>(&mut self, pick: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        self.events.iter().filter_map(pick).collect()
    }
}

impl Handle {
    fn lock(&self) -> MutexGuard<'_, Simulation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UserData for Handle {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method(
            "send",
            |_, this, (text, source): (String, Option<String>)| {
                this.lock().send(&text, source.as_deref())
            },
        );
        methods.add_method(
            "respond",
            |_, this, words: (mlua::UserDataRef<Sent>, u16, Option<String>, Option<Table>)| {
                let (sent, status, reason, fields) = words;
                let mut simulation = this.lock();
                simulation.respond(&sent, status, reason.as_deref(), fields.as_ref())
            },
        );
        methods.add_method("pass", |_, this, seconds: f64| this.lock().pass(seconds));
        methods.add_method("register", |_, this, (user, contact): (String, String)| {
            let text = format!(
                "REGISTER sip:example.com\nFrom: <{user}>;tag=1\nTo: <{user}>\nContact: <{contact}>"
            );
            // It comes from where its Contact is.
            let source = match Uri::parse(&contact) {
                Ok(Uri::Sip(uri)) => uri.host().address().map(|address| {
                    let address = SocketAddr::new(address, uri.port().unwrap_or(5060));
                    format!("udp:{address}")
                }),
                _ => None,
            };
            let sent = this.lock().send(&text, source.as_deref())?;
            let status = sent.first().and_then(|sent| sent.message.status());
            match status {
                Some(200) => Ok(()),
                other => Err(Error::runtime(format!(
                    "the REGISTER was answered {other:?}"
                ))),
            }
        });
        methods.add_method("user", |_, this, (name, password): (String, String)| {
            this.lock().users.insert(name, password);
            Ok(())
        });
        methods.add_method("name", |_, this, (host, place): (String, String)| {
            let flow = flow(&place)?;
            let mut simulation = this.lock();
            let places = simulation.names.entry(host).or_default();
            places.push((flow.transport, flow.remote));
            Ok(())
        });
        methods.add_method("http", |_, this, server: Function| {
            this.lock().http = Some(server);
            Ok(())
        });
        methods.add_method("redis", |_, this, server: Function| {
            this.lock().redis = Some(server);
            Ok(())
        });
        methods.add_method("log", |_, this, ()| {
            Ok(this.lock().take_events(|event| match event {
                Event::PluginLog { text, .. } => Some(text.to_string()),
                _ => None,
            }))
        });
        methods.add_method("errors", |_, this, ()| {
            Ok(this.lock().take_events(|event| match event {
                Event::PluginFailed { hook, error, .. } => Some(format!("{hook}: {error}")),
                _ => None,
            }))
        });
        methods.add_method("tags", |lua, this, ()| {
            let tags = this.lock().take_events(|event| match event {
                Event::CallTagged { name, value, .. } => {
                    Some((name.to_string(), value.to_string()))
                }
                _ => None,
            });
            lua.create_table_from(tags)
        });
        methods.add_method("counts", |lua, this, ()| {
            let plugins = this.lock().shared.statistics().plugins;
            let counts = plugins.into_iter().flat_map(|plugin| plugin.counts);
            lua.create_table_from(counts.map(|(name, count)| (name.to_string(), count)))
        });
    }
}

impl UserData for Sent {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("method", |_, this| {
            Ok(this
                .message
                .method()
                .map(|method| method.as_str().to_owned()))
        });
        fields.add_field_method_get("uri", |_, this| {
            Ok(this.message.request_uri().map(str::to_owned))
        });
        fields.add_field_method_get("status", |_, this| Ok(this.message.status()));
        fields.add_field_method_get("reason", |_, this| {
            Ok(this.message.reason().map(str::to_owned))
        });
        fields.add_field_method_get("to", |_, this| {
            let (transport, remote) = place(&this.target);
            Ok(format!("{transport}:{remote}"))
        });
        fields.add_field_method_get("text", |lua, this| {
            lua.create_string(this.message.to_bytes())
        });
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("header", |lua, this, name: String| {
            let value = this.message.header_bytes(Name::parse(&name));
            value.map(|value| lua.create_string(value)).transpose()
        });
    }
}

fn place(target: &Target) -> (Transport, SocketAddr) {
    match target {
        Target::Flow(flow) | Target::FlowOrAddress(flow, _) => (flow.transport, flow.remote),
        Target::Address(transport, remote) => (*transport, *remote),
    }
}

/// The way between the server and an address such as `udp:192.0.2.9:5060`.
fn flow(text: &str) -> Result<Flow> {
    let parts = text.split_once(':').and_then(|(transport, remote)| {
        let transport: Transport = transport.parse().ok()?;
        Some((transport, remote.parse().ok()?))
    });
    let Some((transport, remote)) = parts else {
        return Err(Error::runtime(format!(
            "\"{text}\" is no address such as udp:192.0.2.9:5060"
        )));
    };
    flow_over(transport, remote)
}

fn flow_over(transport: Transport, remote: SocketAddr) -> Result<Flow> {
    Ok(Flow {
        transport,
        local: HERE.parse().map_err(Error::external)?,
        remote,
        connection: ConnectionId(u64::from(remote.port())),
        stream: 0,
    })
}

/// A request from its first lines: whatever every request has and this one does not is added.
fn request(text: &str, number: u32, flow: &Flow) -> Result<Message> {
    let text = text.trim();
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(' ');
    let (method, uri) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let mut whole = format!("{method} {uri} SIP/2.0\r\n");
    for line in lines {
        whole.push_str(line);
        whole.push_str("\r\n");
    }
    whole.push_str("\r\n");
    let mut message = Message::read(whole.into_bytes().into()).map_err(Error::external)?;
    let Flow {
        transport, remote, ..
    } = flow;
    let usual = [
        (
            Name::Via,
            format!(
                "SIP/2.0/{} {remote};branch=z9hG4bKtest{number}",
                transport.via_name()
            ),
        ),
        (Name::MaxForwards, "70".to_owned()),
        (Name::From, "<sip:alice@example.com>;tag=alice".to_owned()),
        (Name::To, format!("<{uri}>")),
        (Name::CallId, format!("test{number}")),
        (Name::CSeq, format!("{number} {method}")),
        (Name::Contact, format!("<sip:alice@{remote}>")),
    ];
    for (name, value) in usual {
        if !message.contains(name) {
            message.push_back(name, value);
        }
    }
    if !body.is_empty() {
        let body = body.replace("\r\n", "\n").replace('\n', "\r\n");
        message.set_body(None, body.into_bytes().into());
    }
    message.ensure_content_length();
    message.validate().map_err(|violation| {
        Error::runtime(format!("the request is wrong: {}", violation.reason))
    })?;
    Ok(message)
}

fn to_setting(value: &Value) -> Result<Setting> {
    match value {
        Value::Boolean(value) => Ok(Setting::Boolean(*value)),
        Value::Integer(number) => Ok(Setting::Integer(*number)),
        Value::Number(number) => Ok(Setting::Number(*number)),
        Value::String(text) => Ok(Setting::Text(text.to_string_lossy().into())),
        Value::Table(table) if table.raw_len() > 0 => {
            let values = table.sequence_values::<Value>();
            let values = values.map(|value| to_setting(&value?));
            values.collect::<Result<_>>().map(Setting::List)
        }
        Value::Table(table) => {
            let values = table.pairs::<String, Value>().map(|pair| {
                let (name, value) = pair?;
                Ok((name.into(), to_setting(&value)?))
            });
            values.collect::<Result<_>>().map(Setting::Table)
        }
        other => Err(Error::runtime(format!(
            "a setting is no {}",
            other.type_name()
        ))),
    }
}
