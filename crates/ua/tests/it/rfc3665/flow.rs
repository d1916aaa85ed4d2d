//! A flow of the RFC, and a user agent that takes a part in it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sip::digest::Authorization;
use sip::{ConnectionId, Contact, Flow, Message, Method, Name, NameAddr, Target, Transport};
use ua::{AccountConfig, AccountId, CallNumber, Credentials, Route, Ua, UaConfig, UaEvent};

/// Where everybody else is.
const OTHERS: &str = "192.0.2.111:5060";
/// Where we are.
const HERE: &str = "192.0.2.201:5060";
/// Messages that the RFC leaves out because they are those before, and actions take no longer than this.
const LIMIT: Duration = Duration::from_secs(40);

/// A message of a flow.
struct Step {
    /// Its name: "F1".
    name: String,
    from: String,
    to: String,
    text: String,
}

/// A user agent in a flow.
pub(super) struct Part {
    steps: Vec<Step>,
    next: usize,
    who: String,
    pub(super) ua: Ua,
    pub(super) account: AccountId,
    pub(super) now: Instant,
    local: SocketAddr,
    transport: Transport,
    /// What the RFC says, and what stands for it here; the longest first.
    words: Vec<(String, String)>,
    /// Our requests by method, as the RFC has them and as we have sent them.
    ours: BTreeMap<String, (Message, Message)>,
    /// Requests that came, by method.
    theirs: BTreeMap<String, Message>,
    pub(super) events: Vec<UaEvent>,
    was_challenged: bool,
    /// Of the last response to an INVITE of ours.
    last_status: u16,
}

impl Part {
    /// `who` in the flow of a file, with an account; settings that the RFC takes for granted can be changed.
    pub(super) fn new(
        flow: &str,
        who: &str,
        address_of_record: &str,
        change: impl FnOnce(&mut AccountConfig),
    ) -> Part {
        let mut ua = Ua::new(UaConfig::default(), [7; 32]);
        let user = who.to_ascii_lowercase();
        let mut config = AccountConfig {
            display_name: Some(who.to_owned()),
            credentials: Some(Credentials {
                username: user,
                password: "secret".to_owned(),
            }),
            expires: 3_600,
            ..AccountConfig::new(address_of_record)
        };
        change(&mut config);
        let account = ua.add_account(config);
        Part {
            steps: read(flow),
            next: 0,
            who: who.to_owned(),
            ua,
            account,
            now: Instant::now(),
            local: HERE.parse().expect("an address"),
            transport: Transport::Udp,
            words: Vec::new(),
            ours: BTreeMap::new(),
            theirs: BTreeMap::new(),
            events: Vec::new(),
            was_challenged: false,
            last_status: 0,
        }
    }

    /// Goes on with another flow of the RFC.
    pub(super) fn go_on_with(&mut self, flow: &str) {
        (self.steps, self.next) = (read(flow), 0);
        (self.ours, self.theirs) = (BTreeMap::new(), BTreeMap::new());
    }

    /// Our address changes.
    pub(super) fn move_to(&mut self, address: &str) {
        self.local = address.parse().expect("an address");
    }

    /// The session description in a message of the flow.
    pub(super) fn description(&self, name: &str) -> Bytes {
        let step = self.steps.iter().find(|step| step.name == name);
        read_message(&step.expect("it is in the flow").text).body_bytes()
    }

    /// The call that came last.
    pub(super) fn incoming(&self) -> CallNumber {
        let mut latest = self.events.iter().rev();
        let found = latest.find_map(|event| match event {
            UaEvent::Incoming { call, .. } => Some(*call),
            _ => None,
        });
        found.expect("a call came")
    }

    pub(super) fn last_event(&self) -> &UaEvent {
        self.events.last().expect("something happened")
    }

    /// Follows the flow up to and with this message of it.
    pub(super) fn until(&mut self, name: &str) {
        loop {
            let step = self.steps.get(self.next).expect("it is in the flow");
            let (is_last, is_ours) = (step.name == name, step.from == self.who);
            let is_for_us = step.to == self.who;
            self.next += 1;
            if is_ours {
                self.expect(self.next - 1);
            } else if is_for_us {
                self.feed(self.next - 1);
            }
            if is_last {
                return;
            }
        }
    }

    /// Follows the flow to its end; nothing more is to be said then.
    pub(super) fn finish(&mut self) {
        let last = self.steps.last().expect("it has messages").name.clone();
        self.until(&last);
        assert!(self.next_message().is_none(), "nothing is left to say");
    }

    /// The other side says what the RFC has at this place.
    fn feed(&mut self, place: usize) {
        let mut text = self.steps[place].text.clone();
        for (theirs, ours) in &self.words {
            text = text.replace(theirs, ours);
        }
        let mut message = read_message(&text);
        if message.is_request() {
            let via = message.top_via().expect("it has a Via");
            self.transport = via.transport().expect("it is known");
            let method = message.method().expect("a request").to_string();
            self.theirs.insert(method, message.clone());
        } else {
            self.was_challenged |= matches!(message.status(), Some(401 | 407));
            let (_, method) = message.cseq().expect("it has a CSeq");
            if method == Method::Invite {
                self.last_status = message.status().expect("a response");
            }
            let (_, sent) = self.ours.get(method.as_str()).expect("it was asked for");
            message.remove_all(Name::Via);
            message.copy_fields(sent, Name::Via);
            message.replace(Name::CSeq, sent.header(Name::CSeq).unwrap_or_default());
        }
        let flow = Flow {
            transport: self.transport,
            local: self.local,
            remote: OTHERS.parse().expect("an address"),
            connection: ConnectionId(1),
            stream: 0,
        };
        self.ua.handle_message(self.now, flow, message);
        self.take_events();
    }

    /// We say what the RFC has at this place.
    fn expect(&mut self, place: usize) {
        let name = self.steps[place].name.clone();
        let text = self.steps[place].text.clone();
        // The RFC does not say again what it has said.
        let is_repeated = !text.contains("SIP/2.0");
        let transport = match is_repeated {
            true => self.transport,
            false => {
                let via = read_message(&text);
                let via = via.top_via().expect("it has a Via");
                via.transport().expect("it is known")
            }
        };
        self.transport = transport;
        let Some(said) = self.next_message() else {
            panic!("{name}: nothing was said where the RFC has\n{text}");
        };
        if is_repeated {
            let before = &self.ours.get("INVITE").expect("it was said before").1;
            assert_eq!(said.to_bytes(), before.to_bytes(), "{name}");
            return;
        }
        let example = read_message(&text);
        let problem = |what: &str| {
            let said = String::from_utf8_lossy(&said.to_bytes()).into_owned();
            format!("{name}: {what} of\n{said}\ndiffers from\n{text}")
        };
        assert_eq!(
            said.is_request(),
            example.is_request(),
            "{}",
            problem("kind")
        );
        if said.is_request() {
            self.compare_request(&said, &example, &problem);
        } else {
            self.compare_response(&said, &example, &problem);
        }
        let is_ack = said.method() == Some(&Method::Ack);
        for (field, is_known) in [
            (Name::Contact, true),
            (Name::ContentType, true),
            // In some flows the RFC has credentials for challenges of calls before, in some it forgets those of an ACK (RFC
            // 3261 section 22.1).
            (Name::Authorization, self.was_challenged && !is_ack),
            (Name::ProxyAuthorization, self.was_challenged && !is_ack),
        ] {
            let (ours, theirs) = (said.contains(field), example.contains(field));
            assert!(!is_known || ours == theirs, "{}", problem("fields"));
        }
        assert_eq!(said.body(), example.body(), "{}", problem("body"));
    }

    fn compare_request(
        &mut self,
        said: &Message,
        example: &Message,
        problem: &dyn Fn(&str) -> String,
    ) {
        let method = said.method().expect("a request").clone();
        assert_eq!(Some(&method), example.method(), "{}", problem("method"));
        if said.to_tag().is_none() && !matches!(method, Method::Ack | Method::Cancel) {
            self.learn_names(said, example);
        }
        assert_eq!(said.max_forwards(), Some(70), "{}", problem("Max-Forwards"));
        let uri = self.here(example.request_uri().expect("a request"));
        let ours = said.request_uri().expect("a request");
        match method {
            // It is the domain of the user (RFC 3261 section 10.2); the RFC names a host of it.
            Method::Register => assert!(
                uri.ends_with(ours.trim_start_matches("sips:")),
                "{}",
                problem("Request-URI")
            ),
            // The RFC leaves the transport of a Contact out.
            _ => assert!(ours.starts_with(&uri), "{}", problem("Request-URI")),
        }
        let invite = self.ours.get("INVITE").map(|(_, sent)| sent);
        let goes_with_invite = match method {
            Method::Cancel => true,
            Method::Ack => self.last_status >= 300,
            _ => false,
        };
        // The RFC forgets those of some ACKs (RFC 3261 section 17.1.1.3), and of an INVITE that comes again with credentials.
        let was_challenged = method == Method::Invite && matches!(self.last_status, 401 | 407);
        let is_like_invite = goes_with_invite || was_challenged;
        let routes = match (is_like_invite, invite) {
            (true, Some(invite)) => routes(invite),
            _ => routes(example),
        };
        assert_eq!(self::routes(said), routes, "{}", problem("Route"));
        self.compare_names(said, example, problem);
        let (number, _) = said.cseq().expect("it has a CSeq");
        if matches!(method, Method::Ack | Method::Cancel) {
            let (_, invite) = self.ours.get("INVITE").expect("an INVITE was sent");
            assert_eq!(Some(number), invite.cseq_number(), "{}", problem("CSeq"));
        }
        if let (Method::Ack | Method::Cancel, Some((_, invite))) =
            (&method, self.ours.get("INVITE"))
        {
            let branch = |message: &Message| {
                let via = message.top_via();
                via.and_then(|via| via.branch().map(str::to_owned))
            };
            let is_same = branch(said) == branch(invite);
            assert_eq!(is_same, goes_with_invite, "{}", problem("branch"));
        }
        if let (Some(ours), Some(theirs)) = (authorization(said), authorization(example)) {
            assert_eq!(ours, theirs, "{}", problem("credentials"));
        }
        let key = method.to_string();
        self.ours.insert(key, (example.clone(), said.clone()));
        self.learn_contact(said, example);
    }

    fn compare_response(
        &mut self,
        said: &Message,
        example: &Message,
        problem: &dyn Fn(&str) -> String,
    ) {
        assert_eq!(said.status(), example.status(), "{}", problem("status"));
        let (_, method) = said.cseq().expect("it has a CSeq");
        let request = self
            .theirs
            .get(method.as_str())
            .expect("it was asked for")
            .clone();
        assert_eq!(said.cseq(), request.cseq(), "{}", problem("CSeq"));
        let vias = |message: &Message| -> Vec<(String, Option<String>)> {
            let vias = message.vias().flatten();
            vias.map(|via| (format!("{:?}", via.host()), via.branch().map(str::to_owned)))
                .collect()
        };
        assert_eq!(vias(said), vias(&request), "{}", problem("Via"));
        if let (None, Some(theirs), Some(ours)) =
            (request.to_tag(), example.to_tag(), said.to_tag())
        {
            let known = self.here(theirs);
            if known == theirs {
                self.word(theirs, ours);
            }
        }
        self.compare_names(said, example, problem);
        let routes = |message: &Message| -> Vec<String> {
            let routes = message.record_routes().flatten();
            routes.map(|route| route.uri().to_owned()).collect()
        };
        assert_eq!(routes(said), routes(example), "{}", problem("Record-Route"));
        self.learn_contact(said, example);
    }

    /// From, To and Call-ID.
    fn compare_names(&self, said: &Message, example: &Message, problem: &dyn Fn(&str) -> String) {
        let address = |address: NameAddr<'_>| {
            let tag = address.tag().map(|tag| self.here(tag));
            (self.here(address.uri()), tag)
        };
        let ours =
            |address: NameAddr<'_>| (address.uri().to_owned(), address.tag().map(str::to_owned));
        assert_eq!(
            said.from().map(ours),
            example.from().map(address),
            "{}",
            problem("From")
        );
        // The RFC forgets the tag of some responses (RFC 3261 section 8.2.6.2).
        if said.is_request() || example.to_tag().is_some() {
            let (ours, theirs) = (said.to().map(ours), example.to().map(address));
            assert_eq!(ours, theirs, "{}", problem("To"));
        }
        let call = example.call_id().map(|call| self.here(call));
        assert_eq!(said.call_id(), call.as_deref(), "{}", problem("Call-ID"));
    }

    /// A request of ours begins a dialog, or asks for something again: its names stand for those of the RFC.
    fn learn_names(&mut self, said: &Message, example: &Message) {
        let names = |message: &Message| {
            let tag = message.from_tag().expect("it has a tag").to_owned();
            (tag, message.call_id().expect("it has one").to_owned())
        };
        let ((tag, call), (ours, our_call)) = (names(example), names(said));
        self.word(&tag, &ours);
        self.word(&call, &our_call);
    }

    /// Our Contact stands for that of the RFC.
    fn learn_contact(&mut self, said: &Message, example: &Message) {
        let contact = |message: &Message| match message.contacts().flatten().next() {
            Some(Contact::Address(address)) => Some(address.uri().to_owned()),
            _ => None,
        };
        let (Some(theirs), Some(ours)) = (contact(example), contact(said)) else {
            return;
        };
        if theirs.starts_with("sip") {
            self.word(&theirs, &ours);
            let (bare, _) = theirs.split_once(';').unwrap_or((&theirs, ""));
            self.word(bare, &ours);
        }
    }

    fn word(&mut self, theirs: &str, ours: &str) {
        self.words.retain(|(known, _)| known != theirs);
        self.words.push((theirs.to_owned(), ours.to_owned()));
        self.words
            .sort_by_key(|(theirs, _)| std::cmp::Reverse(theirs.len()));
    }

    /// What stands here for a word of the RFC.
    fn here(&self, text: &str) -> String {
        let known = self.words.iter().find(|(theirs, _)| theirs == text);
        known.map_or(text, |(_, ours)| ours).to_owned()
    }

    /// The next message that we send, as time goes by.
    fn next_message(&mut self) -> Option<Message> {
        let limit = self.now + LIMIT;
        loop {
            while let Some(query) = self.ua.poll_query() {
                let remote = OTHERS.parse().expect("an address");
                let route = Route {
                    target: Target::Address(self.transport, remote),
                    local: self.local,
                    peer: None,
                };
                self.ua.handle_route(self.now, query.id, Some(route));
            }
            self.take_events();
            if let Some(transmit) = self.ua.poll_transmit() {
                return Some(Message::read(transmit.payload).expect("a message"));
            }
            let due = self.ua.next_timeout().filter(|due| *due <= limit)?;
            self.now = self.now.max(due);
            self.ua.handle_timeout(self.now);
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.ua.poll_event() {
            self.events.push(event);
        }
    }
}

fn routes(message: &Message) -> Vec<String> {
    let routes = message.routes().flatten();
    routes.map(|route| route.uri().to_owned()).collect()
}

/// User and realm of the credentials in a message.
fn authorization(message: &Message) -> Option<(String, String)> {
    let value = message
        .header(Name::Authorization)
        .or(message.header(Name::ProxyAuthorization))?;
    // Some that the RFC prints break the rules.
    let read = Authorization::parse(value.as_bytes()).ok()?;
    Some((read.username.into_owned(), read.realm.into_owned()))
}

/// The messages of a file: each after a line "%% F1 INVITE Alice -> Proxy 1".
fn read(flow: &str) -> Vec<Step> {
    let parts = flow.split("%% ").skip(1);
    parts
        .map(|part| {
            let (title, text) = part.split_once('\n').expect("a title and a message");
            let (words, to) = title.split_once(" -> ").expect("sender and receiver");
            let name = words.split(' ').next().expect("a name");
            let from = words.rsplit(' ').next().expect("a sender");
            Step {
                name: name.to_owned(),
                from: from.to_owned(),
                to: to.to_owned(),
                text: text.trim_end().to_owned(),
            }
        })
        .collect()
}

/// A message as the RFC prints it: with line ends of its own, and lengths that do not count them.
fn read_message(text: &str) -> Message {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let head = head
        .lines()
        .filter(|line| !line.starts_with("Content-Length"));
    let mut octets = head.collect::<Vec<_>>().join("\r\n");
    let body: String = body.lines().map(|line| format!("{line}\r\n")).collect();
    octets += &format!("\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    Message::read(Bytes::from(octets)).expect("a message")
}
