//! A SIP user agent between a user who does anything at any time and a network that says anything: it does not panic, its
//! tables stay within bounds, no request gets two final responses, and when all has been given up nothing is left.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Unstructured};
use bytes::Bytes;
use sip::{ConnectionId, Flow, Message, Method, Name, Target, Transport};
use ua::{AccountConfig, AccountId, CallNumber, Credentials, Route, Ua, UaConfig, UaEvent};

/// Steps of one input.
const MAX_STEPS: usize = 200;
/// Messages of either side that are remembered, to answer and to belong to their dialogs.
const MAX_KEPT: usize = 64;
/// Calls that others can begin.
const MAX_CALLS: usize = 8;
/// Timeouts at one instant.
const MAX_TIMEOUTS: usize = 1_000;
/// How long a transaction is remembered over UDP at least (Timer I, RFC 3261 section 17.2.1).
const TRANSACTION: Duration = Duration::from_secs(4);
/// Until nothing is left of calls that are given up: a session without refresh is the longest of it.
const LAST: Duration = Duration::from_secs(4_000);

#[derive(Debug, Arbitrary)]
enum Step<'a> {
    Wait(u16),
    Act(u8, u8),
    /// A response to one of our requests.
    Respond(u8, u8, Fields),
    /// A request: outside of a dialog, or within that of a message.
    Request(u8, Option<u8>, u8, Fields),
    Octets(&'a [u8]),
    /// A message comes a second time.
    Again(u8),
    KeepAlive(bool),
    Closed,
}

/// What a message has beside what it must have.
#[derive(Debug, Arbitrary)]
struct Fields {
    has_description: bool,
    is_reliable: bool,
    number: u8,
    /// Some of [`LINES`].
    lines: u32,
}

/// Header fields that a user agent acts on.
const LINES: [(Name<'static>, &str); 24] = [
    (Name::Supported, "100rel, timer, replaces"),
    (Name::Require, "100rel"),
    (Name::Require, "outbound"),
    (Name::SessionExpires, "90;refresher=uas"),
    (Name::SessionExpires, "90;refresher=uac"),
    (Name::SessionExpires, "1"),
    (Name::MinSe, "4000"),
    (Name::MinExpires, "7200"),
    (Name::RetryAfter, "99999999999999"),
    (Name::FlowTimer, "0"),
    (Name::ServiceRoute, "<sip:10.0.0.7;lr>, <sip:x>"),
    (Name::RecordRoute, "<sip:10.0.0.8;lr>"),
    (Name::RecordRoute, "<sip:10.0.0.9>"),
    (Name::Allow, "UPDATE, INVITE"),
    (
        Name::ReferTo,
        "<sip:1900@10.0.0.9?Replaces=a%3Bto-tag%3Db%3Bfrom-tag%3Dc>",
    ),
    (Name::Event, "refer"),
    (Name::SubscriptionState, "terminated;reason=noresource"),
    (Name::Replaces, "x;to-tag=0;from-tag=0"),
    (Name::Replaces, "x;to-tag=a;from-tag=b;early-only"),
    (
        Name::WwwAuthenticate,
        "Digest realm=\"r\", nonce=\"n\", algorithm=MD5, qop=\"auth\"",
    ),
    (
        Name::ProxyAuthenticate,
        "Digest realm=\"p\", nonce=\"n\", algorithm=SHA-256, qop=\"auth\", stale=true",
    ),
    (Name::Expires, "0"),
    (
        Name::Contact,
        "<sip:a@10.0.0.3>;+sip.instance=\"<urn:uuid:0>\";reg-id=1;expires=60;pub-gruu=\"sip:a@h;gr=1\"",
    ),
    (Name::Contact, "*"),
];

const METHODS: [&str; 14] = [
    "INVITE",
    "ACK",
    "BYE",
    "CANCEL",
    "PRACK",
    "UPDATE",
    "REFER",
    "NOTIFY",
    "INFO",
    "MESSAGE",
    "OPTIONS",
    "REGISTER",
    "SUBSCRIBE",
    "X",
];

const STATUSES: [u16; 24] = [
    100, 180, 183, 199, 200, 200, 202, 299, 300, 302, 305, 401, 403, 407, 408, 422, 423, 439, 481,
    486, 487, 491, 503, 603,
];

struct World {
    ua: Ua,
    accounts: Vec<AccountId>,
    now: Instant,
    transport: Transport,
    calls: Vec<CallNumber>,
    /// What we have sent, and what was sent to us.
    kept: Vec<Message>,
    /// Final responses by transaction, and when they were sent first.
    finals: HashMap<String, (Instant, Bytes)>,
    /// Requests of the other side.
    branches: u64,
    dialed: usize,
}

/// Fuzzes the user agent.
pub fn run(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let transport = if input.arbitrary().unwrap_or(false) {
        Transport::Udp
    } else {
        Transport::Sctp
    };
    let mut world = World::new(transport);
    for _ in 0..MAX_STEPS {
        let Ok(step) = Step::arbitrary(&mut input) else {
            break;
        };
        world.follow(&step);
        world.settle();
        world.check();
        if input.is_empty() {
            break;
        }
    }
    world.finish();
}

impl World {
    fn new(transport: Transport) -> World {
        let config = UaConfig {
            max_calls: MAX_CALLS,
            instance: Some("urn:uuid:0".to_owned()),
            ..UaConfig::default()
        };
        let mut ua = Ua::new(config, [3; 32]);
        let with_proxies = AccountConfig {
            credentials: Some(Credentials {
                username: "a".to_owned(),
                password: "b".to_owned(),
            }),
            outbound_proxies: vec!["sip:10.0.0.1;lr".to_owned(), "sip:10.0.0.2;lr".to_owned()],
            ..AccountConfig::new("sip:a@10.0.0.1")
        };
        let accounts = vec![
            ua.add_account(with_proxies),
            ua.add_account(AccountConfig::new("sips:b@10.0.0.2")),
        ];
        World {
            ua,
            accounts,
            now: Instant::now(),
            transport,
            calls: Vec::new(),
            kept: Vec::new(),
            finals: HashMap::new(),
            branches: 0,
            dialed: 0,
        }
    }

    fn follow(&mut self, step: &Step<'_>) {
        match step {
            Step::Wait(units) => self.wait(Duration::from_millis(u64::from(*units) * 20)),
            Step::Act(what, which) => self.act(*what, *which),
            Step::Respond(which, status, fields) => self.respond(*which, *status, fields),
            Step::Request(method, dialog, cseq, fields) => {
                self.request(*method, *dialog, *cseq, fields);
            }
            Step::Octets(octets) => {
                if let Ok(message) = Message::read(Bytes::copy_from_slice(octets)) {
                    self.feed(message);
                }
            }
            // Elsewhere it would be a new transaction.
            Step::Again(which) if self.transport == Transport::Udp => {
                let known = self.kept.get(usize::from(*which) % self.kept.len().max(1));
                if let Some(message) = known.cloned() {
                    self.feed(message);
                }
            }
            Step::Again(_) => {}
            Step::KeepAlive(is_stun) => {
                let payload: &[u8] = if *is_stun { &[1, 1, 0, 0] } else { b"\r\n" };
                self.ua.handle_keep_alive(self.now, &self.flow(), payload);
            }
            Step::Closed => self.ua.handle_connection_closed(self.now, ConnectionId(1)),
        }
    }

    fn act(&mut self, what: u8, which: u8) {
        let now = self.now;
        let account = self.accounts[usize::from(which) % self.accounts.len()];
        let call = self.calls.get(usize::from(which) % self.calls.len().max(1));
        let call = call.copied().unwrap_or(CallNumber(0));
        let sdp = Bytes::from_static(b"v=0\r\n");
        // Refusals are what the user is told; none of them may hurt.
        let _ = match what % 20 {
            0 if self.dialed < 64 => {
                self.dialed += 1;
                let offer = if which & 1 == 0 { sdp } else { Bytes::new() };
                let call = self.ua.dial(now, account, "sip:c@10.0.0.3", offer);
                self.calls.push(call);
                Ok(())
            }
            1 => self.ua.ring(now, call, Bytes::new()),
            2 => self.ua.ring(now, call, sdp),
            3 => self.ua.answer(now, call, sdp),
            4 => self.ua.refuse(now, call, 486, "Busy Here"),
            5 => self.ua.redirect(now, call, "sip:d@10.0.0.4"),
            6 => self.ua.hang_up(now, call),
            7 => self.ua.offer(now, call, sdp),
            8 => self.ua.answer_offer(now, call, sdp),
            9 => self.ua.refuse_offer(now, call, 488, "Not Acceptable Here"),
            10 => self.ua.send_key(now, call, '1'),
            11 => self.ua.transfer(now, call, "sip:e@10.0.0.5", None),
            12 => {
                let other = self.calls.last().copied();
                self.ua.transfer(now, call, "", other)
            }
            13 => {
                let new = self.ua.accept_transfer(now, call, sdp);
                new.map(|new| self.calls.push(new))
            }
            14 => self.ua.refuse_transfer(now, call),
            15 => self.ua.acknowledge(now, call, sdp),
            16 => {
                self.ua
                    .send_text(now, account, "sip:c@10.0.0.3", "text/plain", sdp);
                Ok(())
            }
            17 => {
                self.ua.register(now, account);
                Ok(())
            }
            18 => {
                self.ua.unregister(now, account);
                Ok(())
            }
            19 => {
                self.ua.fetch_bindings(now, account);
                Ok(())
            }
            _ => Ok(()),
        };
    }

    fn respond(&mut self, which: u8, status: u8, fields: &Fields) {
        let requests = self.kept.iter().filter(|message| message.is_request());
        let requests: Vec<&Message> = requests.collect();
        let Some(request) = requests.get(usize::from(which) % requests.len().max(1)) else {
            return;
        };
        let status = STATUSES[usize::from(status) % STATUSES.len()];
        let mut response = Message::response_to(request, status, "Words");
        response.set_to_tag(&format!("t{}", fields.number % 4));
        response.push_back(Name::Contact, "<sip:c@10.0.0.3>");
        self.decorate(&mut response, fields);
        self.feed(response);
    }

    fn request(&mut self, method: u8, dialog: Option<u8>, cseq: u8, fields: &Fields) {
        let name = METHODS[usize::from(method) % METHODS.len()];
        let mut request = Message::request(Method::from_name(name), "sip:a@10.0.0.9:5060");
        self.branches += 1;
        let new = format!(
            "SIP/2.0/{} 10.0.0.3:5060;branch=z9hG4bK{}",
            self.transport.via_name(),
            self.branches
        );
        let known = dialog.and_then(|which| {
            let known = self.kept.get(usize::from(which) % self.kept.len().max(1))?;
            known.header(Name::Via).map(str::to_owned)
        });
        // A CANCEL goes along with its INVITE.
        let via = known.filter(|_| name == "CANCEL");
        request.push_back(Name::Via, via.unwrap_or(new));
        request.push_back(Name::MaxForwards, "70");
        let within = dialog.and_then(|which| {
            let known = self.kept.get(usize::from(which) % self.kept.len().max(1))?;
            Some((
                known.header(Name::From)?.to_owned(),
                known.header(Name::To)?.to_owned(),
                known.call_id()?.to_owned(),
                known.cseq_number()?,
            ))
        });
        match within {
            Some((from, to, call_id, number)) => {
                // Whose message that was decides which side is which: both are tried.
                let (from, to) = if fields.number & 2 == 0 {
                    (to, from)
                } else {
                    (from, to)
                };
                request.push_back(Name::From, from);
                request.push_back(Name::To, to);
                request.push_back(Name::CallId, call_id);
                let number = number.saturating_add(u32::from(cseq % 4));
                request.push_back(Name::CSeq, format!("{number} {name}"));
                request.push_back(Name::RAck, format!("{cseq} {number} INVITE"));
            }
            None => {
                request.push_back(Name::From, "<sip:c@10.0.0.3>;tag=c");
                request.push_back(Name::To, "<sip:a@10.0.0.1>");
                request.push_back(Name::CallId, format!("x{}", fields.number % 8));
                request.push_back(Name::CSeq, format!("{cseq} {name}"));
            }
        }
        request.push_back(Name::Contact, "<sip:c@10.0.0.3>");
        self.decorate(&mut request, fields);
        self.feed(request);
    }

    fn decorate(&self, message: &mut Message, fields: &Fields) {
        for (place, (name, value)) in LINES.iter().enumerate() {
            if fields.lines & 1 << place != 0 {
                message.push_back(*name, value);
            }
        }
        if fields.is_reliable {
            message.push_back(Name::Require, "100rel");
            message.push_back(Name::RSeq, fields.number.to_string());
        }
        let body = match fields.number % 3 {
            0 => Bytes::from_static(b"SIP/2.0 200 OK\r\n"),
            _ => Bytes::from_static(b"v=0\r\n"),
        };
        if fields.has_description {
            message.set_body(Some("application/sdp"), body);
        }
    }

    fn feed(&mut self, message: Message) {
        self.keep(&message);
        let flow = self.flow();
        self.ua.handle_message(self.now, flow, message);
    }

    fn flow(&self) -> Flow {
        Flow {
            transport: self.transport,
            local: here(),
            remote: there(),
            connection: ConnectionId(1),
            stream: 0,
        }
    }

    fn keep(&mut self, message: &Message) {
        if self.kept.len() == MAX_KEPT {
            self.kept.remove(0);
        }
        self.kept.push(message.clone());
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        let mut count = 0;
        while let Some(due) = self.ua.next_timeout().filter(|due| *due <= end) {
            if due > self.now {
                (self.now, count) = (due, 0);
            }
            count += 1;
            assert!(count < MAX_TIMEOUTS, "timeouts without end");
            self.ua.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    /// Takes what comes out.
    fn settle(&mut self) {
        loop {
            let mut is_quiet = true;
            while let Some(query) = self.ua.poll_query() {
                is_quiet = false;
                let route = query.uri.contains("10.0.0").then(|| Route {
                    target: Target::FlowOrAddress(self.flow(), there()),
                    local: here(),
                    peer: None,
                });
                self.ua.handle_route(self.now, query.id, route);
            }
            while let Some(transmit) = self.ua.poll_transmit() {
                is_quiet = false;
                self.sent(transmit.payload);
            }
            while let Some(event) = self.ua.poll_event() {
                if let UaEvent::Incoming { call, .. } = event {
                    self.calls.push(call);
                }
            }
            while self.ua.poll_close().is_some() {}
            if is_quiet {
                return;
            }
        }
    }

    fn sent(&mut self, payload: Bytes) {
        if !payload.starts_with(b"SIP/2.0") && !payload.first().is_some_and(u8::is_ascii_uppercase)
        {
            // A keep-alive.
            return;
        }
        let message = Message::read(payload.clone()).expect("what we send can be read");
        let status = message.status().unwrap_or(0);
        let is_cancel = message
            .cseq()
            .is_some_and(|(_, method)| method == Method::Cancel);
        // What breaks the rules is answered without a transaction; where nothing is sent twice, a CANCEL for a second time is a
        // new one.
        let is_new = status == 400 || is_cancel && self.transport != Transport::Udp;
        if status >= 200 && !is_new {
            let via = message.header(Name::Via).unwrap_or_default();
            let cseq = message.header(Name::CSeq).unwrap_or_default();
            let key = format!("{via} {cseq}");
            let now = self.now;
            let known = self.finals.entry(key);
            let known = known.or_insert_with(|| (now, payload.clone()));
            if now - known.0 > TRANSACTION && known.1 != payload {
                *known = (now, payload.clone());
            }
            assert!(
                known.1 == payload,
                "two final responses:\n{}\n{}",
                String::from_utf8_lossy(&known.1),
                String::from_utf8_lossy(&payload)
            );
        }
        self.keep(&message);
    }

    fn check(&self) {
        // Each call of ours may have led to a transfer.
        let calls = self.ua.calls().count();
        assert!(calls <= MAX_CALLS + 2 * MAX_STEPS, "{calls} calls");
    }

    /// All is given up: nothing is left after a while.
    fn finish(&mut self) {
        for account in self.accounts.clone() {
            self.ua.unregister(self.now, account);
        }
        for call in self.ua.calls().collect::<Vec<_>>() {
            let _ = self.ua.hang_up(self.now, call);
        }
        self.settle();
        self.wait(LAST);
        assert!(self.ua.is_idle(), "something is left: {:?}", self.ua);
    }
}

fn here() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 9], 5060))
}

fn there() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 3], 5060))
}
