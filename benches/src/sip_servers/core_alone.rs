//! The proxy's core without sockets, for a profiler: calls as SIPp makes them, message by message.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use proxy::core::{Answer, Bindings, Config, Domain, Listener, Proxy, Query};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::{ConnectionId, Flow, Message, Method, Name, Transport};

/// A core, and the time that it takes.
struct Core {
    proxy: Proxy,
    bindings: Bindings,
    now: Instant,
    took: Duration,
}

const PROXY: &str = "127.0.0.1:5060";
const CALLER: &str = "127.0.0.1:5061";
const CALLEE: &str = "127.0.0.1:5062";
const BODY: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    m=audio 6000 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n\
    a=rtpmap:101 telephone-event/8000\r\n";

/// Makes calls for so long; prints the nanoseconds of a call that the core takes.
pub(crate) fn run(time: Duration) -> anyhow::Result<()> {
    let mut core = Core::new();
    core.register()?;
    let begun = Instant::now();
    core.took = Duration::ZERO;
    let mut calls = 0_u32;
    while begun.elapsed() < time {
        core.call(calls)?;
        calls += 1;
    }
    println!(
        "{{\"nanoseconds_per_call\":{}}}",
        core.took.as_nanos() / u128::from(calls.max(1))
    );
    Ok(())
}

impl Core {
    fn new() -> Core {
        let config = Config {
            listeners: vec![Listener {
                transport: Transport::Udp,
                address: address(PROXY),
            }],
            domains: vec![Domain {
                name: "127.0.0.1".parse().expect("a host"),
                aliases: Vec::new(),
            }],
            ..Config::default()
        };
        Core {
            proxy: Proxy::new(config, ChaCha12Rng::seed_from_u64(1)),
            bindings: [].into(),
            now: Instant::now(),
            took: Duration::ZERO,
        }
    }

    fn register(&mut self) -> anyhow::Result<()> {
        let register = Message::request(Method::Register, "sip:127.0.0.1:5060")
            .with(Name::Via, format!("SIP/2.0/UDP {CALLEE};branch=z9hG4bKr"))
            .with(Name::MaxForwards, "70")
            .with(Name::From, "<sip:bob@127.0.0.1:5060>;tag=r")
            .with(Name::To, "<sip:bob@127.0.0.1:5060>")
            .with(Name::CallId, "register")
            .with(Name::CSeq, "1 REGISTER")
            .with(Name::Contact, format!("<sip:bob@{CALLEE}>"));
        self.pass(CALLEE, register.to_bytes())?;
        Ok(())
    }

    /// Hands a message in and takes what comes out.
    fn pass(&mut self, from: &str, octets: Bytes) -> anyhow::Result<Vec<Message>> {
        let flow = Flow {
            transport: Transport::Udp,
            local: address(PROXY),
            remote: address(from),
            connection: ConnectionId(0),
            stream: 0,
        };
        let begun = Instant::now();
        let message = Message::read(octets)?;
        self.proxy.handle_message(self.now, flow, message);
        while let Some((id, query)) = self.proxy.poll_query() {
            let answer = match query {
                Query::Lookup(_) => Answer::Bindings(self.bindings.clone()),
                Query::Update(_, update) => {
                    self.bindings = update.apply(&self.bindings)?.into();
                    Answer::Bindings(self.bindings.clone())
                }
                other => bail!("{other:?}"),
            };
            self.proxy.handle_answer(self.now, id, answer);
        }
        let mut sent = Vec::with_capacity(2);
        while let Some(transmit) = self.proxy.poll_transmit() {
            sent.push(transmit.payload);
        }
        while let Some(event) = self.proxy.poll_event() {
            black_box(event);
        }
        self.took += begun.elapsed();
        // Far enough for timers to fire, so that what has ended goes.
        self.now += Duration::from_micros(200);
        if self.proxy.next_timeout().is_some_and(|due| due <= self.now) {
            let begun = Instant::now();
            self.proxy.handle_timeout(self.now);
            self.took += begun.elapsed();
        }
        sent.into_iter()
            .map(|octets| Message::read(octets).context("what was sent"))
            .collect()
    }

    fn call(&mut self, number: u32) -> anyhow::Result<()> {
        let invite = self
            .request(Method::Invite, "sip:bob@127.0.0.1:5060", number)
            .with(Name::Contact, format!("<sip:caller@{CALLER}>"))
            .with(Name::Allow, "INVITE, ACK, CANCEL, BYE, OPTIONS")
            .with(Name::Supported, "replaces")
            .with_body("application/sdp", BODY);
        let mut sent = self.pass(CALLER, invite.to_bytes())?;
        let forwarded = sent.pop().context("an INVITE")?;
        let answer = |status, reason| {
            let mut answer = Message::response_to(&forwarded, status, reason)
                .with(Name::Contact, format!("<sip:bob@{CALLEE}>"));
            answer.copy_fields(&forwarded, Name::RecordRoute);
            answer.set_to_tag("callee");
            answer
        };
        self.pass(CALLEE, answer(180, "Ringing").to_bytes())?;
        let ok = answer(200, "OK").with_body("application/sdp", BODY);
        let sent = self.pass(CALLEE, ok.to_bytes())?;
        let ok = sent.first().context("a 200")?;
        let route = ok.header(Name::RecordRoute).context("a route")?.to_owned();
        let contact = format!("sip:bob@{CALLEE}");
        let ack = self
            .request(Method::Ack, &contact, number)
            .with(Name::Route, route.as_str());
        self.pass(CALLER, in_dialog(ack).to_bytes())?;
        let bye = self
            .request(Method::Bye, &contact, number)
            .with(Name::Route, route.as_str());
        let sent = self.pass(CALLER, in_dialog(bye).to_bytes())?;
        let forwarded = sent.first().context("a BYE")?;
        let ok = Message::response_to(forwarded, 200, "OK");
        let sent = self.pass(CALLEE, ok.to_bytes())?;
        anyhow::ensure!(sent.len() == 1, "no answer to the BYE");
        Ok(())
    }

    fn request(&self, method: Method, uri: &str, call: u32) -> Message {
        let cseq = match method {
            Method::Bye => 2,
            _ => 1,
        };
        Message::request(method.clone(), uri)
            .with(
                Name::Via,
                format!("SIP/2.0/UDP {CALLER};branch=z9hG4bK-{call}-{method}"),
            )
            .with(Name::MaxForwards, "70")
            .with(Name::From, format!("<sip:caller@{PROXY}>;tag=1-{call}"))
            .with(Name::To, "<sip:bob@127.0.0.1:5060>")
            .with(Name::CallId, format!("{call}-4711@127.0.0.1"))
            .with(Name::CSeq, format!("{cseq} {method}"))
    }
}

fn in_dialog(mut request: Message) -> Message {
    request.set_to_tag("callee");
    request
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}
