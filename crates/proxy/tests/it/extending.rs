//! The skeletons of `docs/extending.md`: they compile, do what the page says, and stand there word for word.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proxy::core::{
    AddressOfRecord, Answer, Bindings, Decision, Event, Hook, HttpRequest, HttpResponse, Page,
    ParkedState, Points, Query, Refusal, RequestAction, RequestPoint, Resumption, RoutePoint,
};
use proxy::location::StoreQuery;
use sip::{Method, Name};

use crate::common::{Bench, flow, request};

/// Sends calls for numbers in a range to a gateway.
#[derive(Debug)]
struct Gateway {
    prefix: String,
    next_hop: String,
}

impl Hook for Gateway {
    fn points(&self) -> Points {
        Points::ROUTE
    }

    fn on_route(
        &mut self,
        point: &mut RoutePoint<'_>,
        _resumed: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        let uri = point.request.request_uri().unwrap_or_default();
        match uri.strip_prefix("sip:") {
            Some(user) if user.starts_with(&self.prefix) => {
                Decision::Act(RequestAction::to([self.next_hop.as_str()]))
            }
            Some(_) => Decision::Continue,
            None => Decision::Act(RequestAction::Refuse(Refusal::new(416, "SIP URIs Only"))),
        }
    }
}

/// Asks a web service whether a request with this token may pass.
#[derive(Debug)]
struct TokenCheck {
    url: String,
}

impl Hook for TokenCheck {
    fn points(&self) -> Points {
        Points::REQUEST
    }

    fn on_request(
        &mut self,
        point: &mut RequestPoint<'_>,
        resumed: Option<Resumption<'_>>,
    ) -> Decision<RequestAction> {
        let refuse =
            |status, reason| Decision::Act(RequestAction::Refuse(Refusal::new(status, reason)));
        let Some(resumed) = resumed else {
            let Some(token) = point.request.header(Name::Other("X-Token")) else {
                return refuse(403, "No Token");
            };
            let query = Query::Http(Box::new(HttpRequest {
                method: "POST".into(),
                url: self.url.as_str().into(),
                fields: Vec::new(),
                body: Bytes::copy_from_slice(token.as_bytes()),
            }));
            return Decision::Park(query, ParkedState::default());
        };
        match resumed.answer {
            Answer::Http(response) if response.status == 200 => Decision::Continue,
            Answer::Http(_) => refuse(403, "Wrong Token"),
            _ => refuse(503, "Nobody Knows"),
        }
    }
}

#[derive(Debug)]
struct Shelf(BTreeMap<AddressOfRecord, Bindings>);

impl Shelf {
    fn answer(&mut self, query: StoreQuery) -> Answer {
        match query {
            StoreQuery::Lookup(address) => match self.0.get(&address) {
                Some(bindings) => Answer::Bindings(bindings.clone()),
                None => Answer::Unknown,
            },
            StoreQuery::Update(address, update) => {
                let current = self.0.remove(&address).unwrap_or_default();
                match update.apply(&current) {
                    Ok(bindings) => {
                        let bindings: Bindings = bindings.into();
                        self.0.insert(address, bindings.clone());
                        Answer::Bindings(bindings)
                    }
                    Err(error) => {
                        self.0.insert(address, current);
                        Answer::Refused(error)
                    }
                }
            }
            StoreQuery::Credentials { .. } => Answer::Credentials(None),
            StoreQuery::Page { .. } => Answer::Page(Page::default()),
        }
    }
}

/// Writes a line for each call that has failed.
#[derive(Debug)]
struct Exporter<W>(W);

impl<W: Write> Exporter<W> {
    fn note(&mut self, event: &Event) {
        if let Event::CallFailed { call, status, .. } = event {
            // Whoever reads may be away; calls do not wait.
            let _ = writeln!(self.0, "{} {} {status}", call.caller, call.callee);
        }
    }
}

const HERE: &str = "udp:192.0.2.1:5060";
const ALICE: &str = "192.0.2.9:5060";

fn bench() -> Bench {
    Bench::with(&[HERE], &["example.com"], |config| {
        let mut policy = proxy::core::Policy::clone(&config.policy);
        policy.forwarding.relay = proxy::core::Relay::Anybody;
        config.policy = Arc::new(policy);
    })
}

#[test]
fn a_gateway_gets_its_numbers() {
    let mut bench = bench();
    bench.proxy.add_first_hook(Box::new(Gateway {
        prefix: "+49".to_owned(),
        next_hop: "sip:192.0.2.70".to_owned(),
    }));
    let from = flow(HERE, ALICE);
    bench.receive(
        from,
        request(Method::Options, "sip:+4930@example.com", "one"),
    );
    bench.one().goes_to("udp:192.0.2.70:5060");
    bench.receive(from, request(Method::Options, "sip:bob@example.com", "two"));
    bench.one().answers(404);
    let other = request(Method::Options, "tel:+4930", "three");
    bench.receive(from, other);
    bench.one().answers(416);
}

#[test]
fn a_web_service_says_who_may_pass() {
    let mut bench = bench();
    bench.proxy.add_first_hook(Box::new(TokenCheck {
        url: "http://tokens.example/".to_owned(),
    }));
    bench.holds_questions = true;
    let from = flow(HERE, ALICE);
    let with = |token: Option<&str>, call: &str| {
        let request = request(Method::Options, "sip:192.0.2.1", call);
        match token {
            Some(token) => request.with(Name::Other("X-Token"), token),
            None => request,
        }
    };
    bench.receive(from, with(None, "none"));
    assert_eq!(bench.one().message.reason(), Some("No Token"));
    let responses = [(200, 200), (401, 403)].map(|(status, expected)| {
        let body = Bytes::new();
        (Answer::Http(HttpResponse { status, body }), expected)
    });
    for (answer, expected) in responses.into_iter().chain([(Answer::Failed, 503)]) {
        bench.receive(from, with(Some("secret"), &format!("call{expected}")));
        let (id, query) = bench.questions.pop_front().expect("a question");
        let Query::Http(asked) = query else {
            panic!("over HTTP: {query:?}");
        };
        assert_eq!(asked.body, "secret");
        bench.answer(id, answer);
        bench.one().answers(expected);
    }
}

#[test]
fn a_shelf_keeps_bindings() {
    let mut bench = bench();
    let mut shelf = Shelf(BTreeMap::new());
    bench.holds_questions = true;
    let from = flow(HERE, ALICE);
    bench.receive(
        from,
        crate::common::register("bob", 1, &["<sip:bob@192.0.2.20>"]),
    );
    while let Some((id, query)) = bench.questions.pop_front() {
        let answer = match query {
            Query::Lookup(address) => shelf.answer(StoreQuery::Lookup(address)),
            Query::Update(address, update) => shelf.answer(StoreQuery::Update(address, update)),
            other => bench.own_answer(other),
        };
        bench.answer(id, answer);
    }
    bench.one().answers(200);
    assert_eq!(shelf.0.len(), 1);
}

#[test]
fn an_exporter_is_told_of_calls_that_fail() {
    let mut bench = bench();
    let from = flow(HERE, ALICE);
    bench.receive(from, request(Method::Invite, "sip:bob@example.com", "call"));
    let mut exporter = Exporter(Vec::new());
    for event in &bench.events {
        exporter.note(event);
    }
    let lines = String::from_utf8(exporter.0).expect("text");
    assert_eq!(lines, "sip:alice@example.com sip:bob@example.com 404\n");
}

/// Each block of Rust on the page stands in the file that it is said to be from.
#[test]
fn the_page_shows_what_compiles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &str| fs::read_to_string(root.join(file)).expect("it can be read");
    let page = read("docs/extending.md");
    let files = [
        "crates/proxy/tests/it/extending.rs",
        "crates/proxy/tests/it/server/own_store.rs",
        "crates/sip-net/src/sctp/sender.rs",
    ];
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim);
        lines
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let known = files.map(|file| lines(&read(file)));
    let blocks: Vec<_> = page
        .split("```rust\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(blocks.len() >= 6, "{}", blocks.len());
    for block in blocks {
        let wanted = lines(block);
        let is_known = known
            .iter()
            .any(|file| file.windows(wanted.len()).any(|window| window == wanted));
        assert!(is_known, "it is nowhere:\n{block}");
    }
}
