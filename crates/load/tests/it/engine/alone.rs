//! An engine whose peers are the test: it writes every message that comes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use load::engine::{
    Connection, ConnectionId, Directory, Engine, EngineConfig, NewSession, UserRange,
};
use load::record::{CallRecord, Record};
use load::script::builtin::{self, AnswerPlan, CallPlan};
use load::script::{Expect, Pause, Script, ScriptId, Send, Step, Template};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use sip::{Message, Method, Name, Transport};

pub(crate) const LINE: ConnectionId = ConnectionId(0);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// An engine with ten users, who call and are called.
pub(crate) struct Alone {
    pub(crate) engine: Engine,
    pub(crate) now: Instant,
    pub(crate) call: ScriptId,
    /// What is taken over from peers is as bad as they have sent it.
    pub(crate) is_validating: bool,
    /// By which connection the engine is to send, and is sent to.
    pub(crate) line: ConnectionId,
}

impl Alone {
    pub(crate) fn new(transport: Transport, hold: Duration) -> Alone {
        Alone::with(transport, hold, true)
    }

    /// Users who answer calls, or who have to be told how.
    pub(crate) fn with(transport: Transport, hold: Duration, answers: bool) -> Alone {
        let now = Instant::now();
        let config = EngineConfig {
            users: vec![UserRange::new(1, 10)],
            domain: "example.org".to_owned(),
            directory: Arc::new(Directory {
                password: Some("secret".to_owned()),
                ..Directory::default()
            }),
            maximum_sessions: 100,
            traces: true,
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(config, ChaCha12Rng::seed_from_u64(1), now);
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let connection = Connection {
            transport,
            local: address(5070),
            remote: address(5060),
        };
        engine.set_connection(LINE, connection);
        for user in 1..=10 {
            engine.assign(user, LINE);
        }
        let plan = CallPlan {
            hold: Pause::Fixed(hold),
            answer_within: Some(20 * SECOND),
        };
        let ring = AnswerPlan {
            ring: Pause::Fixed(SECOND),
            ..AnswerPlan::default()
        };
        let call = engine.add_script(Arc::new(builtin::call(&plan).unwrap()));
        if answers {
            engine.add_script(Arc::new(builtin::answer(&ring).unwrap()));
        }
        Alone {
            engine,
            now,
            call,
            is_validating: true,
            line: LINE,
        }
    }

    pub(crate) fn begin(&mut self) -> Message {
        let [message] = &self.try_begin()[..] else {
            panic!("one message");
        };
        message.clone()
    }

    /// Begins an attempt. Returns what is sent.
    pub(crate) fn try_begin(&mut self) -> Vec<Message> {
        let session = NewSession {
            script: self.call,
            user: 1,
            peer: 2,
        };
        self.engine.begin(self.now, self.now, session).unwrap();
        self.all()
    }

    /// The only message that is to be sent.
    pub(crate) fn one(&mut self) -> Message {
        let [message] = &self.all()[..] else {
            panic!("one message");
        };
        message.clone()
    }

    pub(crate) fn all(&mut self) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let mut octets = Vec::new();
            let Some(transmit) = self.engine.poll_transmit(&mut octets) else {
                return messages;
            };
            assert_eq!(transmit.connection, self.line);
            let message = Message::read(octets.into()).unwrap();
            if self.is_validating {
                assert_eq!(message.validate(), Ok(()), "{message}");
            }
            messages.push(message);
        }
    }

    pub(crate) fn receive(&mut self, message: &Message) -> Vec<Message> {
        let octets = message.to_bytes();
        self.engine
            .handle_message(self.now, self.now, self.line, &octets);
        self.all()
    }

    pub(crate) fn pass(&mut self, time: Duration) -> Vec<Message> {
        self.now += time;
        self.engine.handle_timeout(self.now);
        self.all()
    }

    pub(crate) fn call_records(&mut self) -> Vec<CallRecord> {
        std::iter::from_fn(|| self.engine.poll_record())
            .filter_map(|record| match record {
                Record::Call(record) => Some(record),
                _ => None,
            })
            .collect()
    }
}

pub(crate) fn response(request: &Message, status: u16) -> Message {
    let mut response = Message::response_to(request, status, "Reason");
    response.set_to_tag("peer");
    response
}

/// A 2xx that has come through two proxies.
pub(crate) fn answer(invite: &Message) -> Message {
    response(invite, 200)
        .with(Name::Contact, "\"B\" <sip:b@192.0.2.9:5099>;x=1")
        .with(
            Name::RecordRoute,
            "<sip:192.0.2.3;lr>, <sip:192.0.2.2;lr>;x=\"a,b\"",
        )
        .with(Name::RecordRoute, "<sip:192.0.2.1;lr>")
}

pub(crate) fn invite(branch: &str) -> Message {
    Message::request(Method::Invite, "sip:user3@127.0.0.1:5070")
        .with(
            Name::Via,
            format!("SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{branch}"),
        )
        .with(Name::Via, "SIP/2.0/UDP 192.0.2.2;branch=z9hG4bKx")
        .with(Name::MaxForwards, "70")
        .with(Name::RecordRoute, "<sip:192.0.2.1;lr>")
        .with(Name::From, "\"A\" <sip:alice@example.net>;tag=a")
        .with(Name::To, "<sip:user3@example.org>")
        .with(Name::CallId, "call-of-alice")
        .with(Name::CSeq, "7 INVITE")
        .with(Name::Contact, "<sip:alice@192.0.2.7>")
}

/// A request of the caller of [`invite`] within the call.
pub(crate) fn within(ringing: &Message, method: Method, number: u32) -> Message {
    let mut request = Message::request(method.clone(), "sip:user3@127.0.0.1:5070")
        .with(
            Name::Via,
            format!("SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{method}{number}"),
        )
        .with(Name::MaxForwards, "70");
    for name in [Name::From, Name::To, Name::CallId] {
        request = request.with(name, ringing.header(name).unwrap_or_default());
    }
    request.with(Name::CSeq, format!("{number} {method}"))
}

/// A script of these steps.
pub(crate) fn script(steps: Vec<Step>) -> Arc<Script> {
    Arc::new(Script::new("test", steps, Vec::new()).unwrap())
}

/// A request within or outside of a call, in a script.
pub(crate) fn sends(method: &str, is_within: bool) -> Step {
    let target = if is_within {
        "{target}"
    } else {
        "sip:{peer}@{domain}"
    };
    let text = format!(
        "{method} {target} SIP/2.0\nVia: SIP/2.0/{{transport}} {{local_address}};branch={{branch}}\n\
         Max-Forwards: 70\n{{routes}}\nFrom: {{local_party}}\nTo: {{remote_party}}\n\
         Call-ID: {{call_id}}\nCSeq: {{cseq}} {method}\nContact: <{{contact}}>\nContent-Length: 0\n\n"
    );
    Step::Send(Send::new(Template::parse(&text).unwrap()))
}

pub(crate) fn expects(statuses: std::ops::RangeInclusive<u16>) -> Step {
    Step::Expect(Expect::response(statuses))
}
