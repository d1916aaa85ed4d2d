//! The loop that feeds the core and does what it says.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use sip_net::{Incoming, Transports};
use tokio::sync::{mpsc, oneshot};

use super::control::{Command, Report};
use super::resolver::Resolver;
use super::store::MemoryStore;
use super::{Counted, log};
use crate::core::{Answer, Proxy, Query, QueryId};

/// How many events of the transports are taken at a time.
const BATCH: usize = 128;

/// Owns the core and the store; everything happens in its one task.
#[derive(Debug)]
pub(super) struct Service {
    core: Proxy,
    transports: Transports,
    incoming: mpsc::Receiver<Incoming>,
    commands: mpsc::Receiver<Command>,
    /// What was taken from `incoming` in this turn.
    batch: Vec<Incoming>,
    store: MemoryStore,
    resolver: Resolver,
    counted: Arc<Mutex<Counted>>,
}

impl Service {
    pub(super) fn new(
        core: Proxy,
        transports: Transports,
        incoming: mpsc::Receiver<Incoming>,
        commands: mpsc::Receiver<Command>,
        store: MemoryStore,
        resolver: Resolver,
        counted: Arc<Mutex<Counted>>,
    ) -> Service {
        Service {
            core,
            transports,
            incoming,
            commands,
            batch: Vec::with_capacity(BATCH),
            store,
            resolver,
            counted,
        }
    }

    /// Serves until it is told to stop, or nobody is left to tell it.
    pub(super) async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        while self.turn(&mut stopped).await {}
    }

    /// Waits until there is something to do, and does all that there is. Returns whether it goes on.
    async fn turn(&mut self, stopped: &mut oneshot::Receiver<()>) -> bool {
        let due = self.core.next_timeout();
        let sleep = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        let answer = tokio::select! {
            biased;
            _ = stopped => return false,
            count = self.incoming.recv_many(&mut self.batch, BATCH) => {
                if count == 0 {
                    return false;
                }
                None
            }
            answer = self.resolver.next() => answer,
            Some(command) = self.commands.recv() => {
                self.obey(Instant::now(), command);
                None
            }
            () = sleep => None,
        };
        let now = Instant::now();
        let mut batch = std::mem::take(&mut self.batch);
        for incoming in batch.drain(..) {
            self.handle(now, incoming);
        }
        self.batch = batch;
        // A steady stream of messages must hold up neither answers nor timers.
        let mut next_answer = answer.or_else(|| self.resolver.next_now());
        while let Some((id, answer)) = next_answer {
            self.core.handle_answer(now, id, answer);
            next_answer = self.resolver.next_now();
        }
        if self.core.next_timeout().is_some_and(|due| due <= now) {
            self.core.handle_timeout(now);
        }
        self.flush(now);
        true
    }

    fn obey(&mut self, now: Instant, command: Command) {
        match command {
            Command::SetPolicy(policy) => self.core.set_policy(now, policy),
            Command::Drain => self.core.drain(),
            Command::Report(report) => {
                // Whoever asked may have given up.
                let _ = report.send(Report {
                    statistics: self.core.statistics(),
                    transactions: self.core.transactions(),
                });
            }
        }
    }

    fn handle(&mut self, now: Instant, incoming: Incoming) {
        match incoming {
            Incoming::Message {
                flow,
                message,
                received,
            } => {
                let waited = now.saturating_duration_since(received);
                self.core.handle_message_after(now, waited, flow, message);
            }
            Incoming::Malformed { flow, bytes, .. } => self.core.handle_malformed(now, flow, bytes),
            Incoming::ConnectionClosed { connection, .. } => {
                self.core.handle_connection_closed(connection);
            }
            Incoming::SendFailed { transaction, .. } => {
                self.core.handle_send_failure(now, transaction);
            }
        }
    }

    /// Carries out what the core wants, until it wants nothing more.
    fn flush(&mut self, now: Instant) {
        while let Some((id, query)) = self.core.poll_query() {
            if let Some(answer) = self.answer(now, id, query) {
                self.core.handle_answer(now, id, answer);
            }
        }
        while let Some(transmit) = self.core.poll_transmit() {
            self.transports.send(transmit);
        }
        while let Some(event) = self.core.poll_event() {
            log::write(&event);
        }
        self.store.sweep(now);
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = Counted {
            proxy: self.core.statistics(),
            addresses_of_record: self.store.addresses_of_record(),
            bindings: self.store.bindings(),
        };
    }

    fn answer(&mut self, now: Instant, id: QueryId, query: Query) -> Option<Answer> {
        match query {
            Query::Lookup(address) => Some(self.store.look_up(&address)),
            Query::Update(address, update) => Some(self.store.update(now, address, &update)),
            Query::Resolve(destination) => self.resolver.ask(id, destination),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::SeedableRng;
    use rand_chacha::ChaCha12Rng;
    use sip::{Flow, Message, Method, Name, Transport};
    use sip_net::SipNetConfig;

    use super::super::control;
    use super::*;
    use crate::core::{Config, Listener};

    #[tokio::test]
    async fn messages_without_an_end_do_not_hold_up_answers() {
        let (transports, _others) = Transports::start(SipNetConfig {
            listeners: vec!["udp:127.0.0.1:0".parse().expect("a listener")],
            ..SipNetConfig::default()
        })
        .expect("it starts");
        let local = transports.listening()[0].address;
        let config = Config {
            listeners: vec![Listener {
                transport: Transport::Udp,
                address: local,
            }],
            ..Config::default()
        };
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let store = MemoryStore::new(1, 1000, &mut rng);
        let resolver = Resolver::new(transports.clone(), Duration::from_secs(10));
        let counted = Arc::new(Mutex::new(Counted::default()));
        let (sender, incoming) = mpsc::channel(4 * BATCH);
        let (_commander, commands) = control::channel();
        let mut service = Service::new(
            Proxy::new(config, rng),
            transports,
            incoming,
            commands,
            store,
            resolver,
            Arc::clone(&counted),
        );
        let (_stop, mut stopped) = oneshot::channel();

        let peer = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let flow = Flow {
            transport: Transport::Udp,
            local,
            remote: peer.local_addr().expect("an address"),
            connection: sip::ConnectionId(0),
            stream: 0,
        };
        let uri = format!("sip:x@localhost:{}", flow.remote.port());
        let request = Message::request(Method::Options, &uri)
            .with(Name::Via, "SIP/2.0/UDP 127.0.0.1:9;branch=z9hG4bK1")
            .with(Name::From, "<sip:a@127.0.0.1>;tag=1")
            .with(Name::To, format!("<{uri}>"))
            .with(Name::CallId, "1")
            .with(Name::CSeq, "1 OPTIONS");
        // The same request over and over: the first is forwarded, the others are taken for its
        // retransmissions. There is one in every turn.
        let begun = Instant::now();
        let mut forwarded = 0;
        while forwarded == 0 && begun.elapsed() < Duration::from_secs(5) {
            let message = Incoming::Message {
                flow,
                message: request.clone(),
                received: Instant::now(),
            };
            assert!(sender.try_send(message).is_ok());
            assert!(service.turn(&mut stopped).await);
            tokio::time::sleep(Duration::from_millis(1)).await;
            forwarded = counted.lock().expect("counters").proxy.forwarded;
        }
        assert_eq!(forwarded, 1);
    }
}
