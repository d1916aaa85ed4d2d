//! A location store of another kind, which a program that embeds the server brings along.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use proxy::ProxyConfig;
use proxy::core::{AddressOfRecord, Answer, Bindings, Page, QueryId};
use proxy::location::{
    Backend, LocationConfig, LocationStatistics, Mailbox, OpenError, Scheme, StoreQuery, Url,
};
use rand::Rng;
use sip::{Method, Transport};

use super::phone::{Phone, serve_with};

/// `thread:NAME`: a thread has the bindings, and every answer comes later.
static SCHEME: Scheme = Scheme {
    name: "thread",
    form: "thread:NAME",
    is_valid: |name| !name.is_empty(),
    keeps_users: false,
    open: |config, rng| {
        if config.url.rest() == "nobody" {
            return Err(OpenError::Backend("there is no such thread".into()));
        }
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        let (queries, asked) = mpsc::channel();
        let known = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&known);
        std::thread::spawn(move || serve(&asked, &counted));
        Ok(Arc::new(ThreadStore {
            queries,
            seed,
            known,
        }))
    },
};

type Asked = (QueryId, StoreQuery, Arc<Mailbox>);

#[derive(Debug)]
struct ThreadStore {
    queries: mpsc::Sender<Asked>,
    seed: [u8; 32],
    known: Arc<AtomicU64>,
}

impl Backend for ThreadStore {
    fn ask(
        &self,
        _now: Instant,
        id: QueryId,
        query: StoreQuery,
        mailbox: &Arc<Mailbox>,
    ) -> Option<Answer> {
        let asked = self.queries.send((id, query, Arc::clone(mailbox)));
        asked.is_err().then_some(Answer::Failed)
    }

    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn statistics(&self) -> LocationStatistics {
        LocationStatistics {
            addresses_of_record: self.known.load(Ordering::Relaxed),
            ..LocationStatistics::default()
        }
    }
}

fn serve(asked: &mpsc::Receiver<Asked>, known: &AtomicU64) {
    let mut all: BTreeMap<AddressOfRecord, Bindings> = BTreeMap::new();
    for (id, query, mailbox) in asked {
        let answer = match query {
            StoreQuery::Lookup(address) => {
                let bindings = all.get(&address).cloned();
                bindings.map_or(Answer::Unknown, Answer::Bindings)
            }
            StoreQuery::Update(address, update) => {
                let current = all.get(&address).cloned().unwrap_or_default();
                match update.apply(&current) {
                    Ok(bindings) => {
                        let bindings = Bindings::from(bindings);
                        all.insert(address, bindings.clone());
                        known.store(all.len() as u64, Ordering::Relaxed);
                        Answer::Bindings(bindings)
                    }
                    Err(error) => Answer::Refused(error),
                }
            }
            StoreQuery::Credentials { .. } => Answer::Credentials(None),
            StoreQuery::Page { .. } => Answer::Page(Page {
                users: Vec::new(),
                next: None,
            }),
        };
        mailbox.post([(id, answer)]);
    }
}

#[tokio::test]
async fn a_server_runs_on_it() {
    let server = serve_with(&["udp:127.0.0.1:0"], |config| {
        config.location.url = Url::new(&SCHEME, "one");
    })
    .await;
    let mut alice = Phone::register(&server, "alice", Transport::Udp).await;
    let mut bob = Phone::register(&server, "bob", Transport::Udp).await;
    let uri = bob.uri();
    alice.send(alice.request(Method::Options, &uri, &uri, "options"));
    let options = bob.request_of(Method::Options).await;
    bob.send(bob.answer(&options, 200));
    assert_eq!(alice.response("OPTIONS").await.status(), Some(200));
    assert_eq!(server.statistics().await.addresses_of_record, 2);
    server.shutdown().await;
}

#[tokio::test]
async fn why_it_cannot_be_opened_is_told() {
    let location = LocationConfig {
        url: Url::new(&SCHEME, "nobody"),
        ..LocationConfig::default()
    };
    let started = proxy::Server::start(ProxyConfig {
        location,
        ..ProxyConfig::default()
    });
    let error = started.await.expect_err("there is no store");
    assert_eq!(error.to_string(), "there is no such thread");
}
