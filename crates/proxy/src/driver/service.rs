//! The loop that feeds the core and does what it says.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use sip_net::{Incoming, Transports};
use tokio::sync::{mpsc, oneshot};

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
    store: MemoryStore,
    resolver: Resolver,
    counted: Arc<Mutex<Counted>>,
}

impl Service {
    pub(super) fn new(
        core: Proxy,
        transports: Transports,
        incoming: mpsc::Receiver<Incoming>,
        store: MemoryStore,
        resolver: Resolver,
        counted: Arc<Mutex<Counted>>,
    ) -> Service {
        Service {
            core,
            transports,
            incoming,
            store,
            resolver,
            counted,
        }
    }

    /// Serves until it is told to stop, or nobody is left to tell it.
    pub(super) async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let due = self.core.next_timeout();
            let sleep = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            let answer = tokio::select! {
                biased;
                _ = &mut stopped => return,
                count = self.incoming.recv_many(&mut batch, BATCH) => {
                    if count == 0 {
                        return;
                    }
                    None
                }
                answer = self.resolver.next() => answer,
                () = sleep => None,
            };
            let now = Instant::now();
            for incoming in batch.drain(..) {
                self.handle(now, incoming);
            }
            if let Some((id, answer)) = answer {
                self.core.handle_answer(now, id, answer);
            }
            // A steady stream of messages must not hold up the timers.
            if self.core.next_timeout().is_some_and(|due| due <= now) {
                self.core.handle_timeout(now);
            }
            self.flush(now);
        }
    }

    fn handle(&mut self, now: Instant, incoming: Incoming) {
        match incoming {
            Incoming::Message { flow, message, .. } => self.core.handle_message(now, flow, message),
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
            Query::Resolve {
                host,
                port,
                transport,
            } => self.resolver.ask(id, host, port, transport),
        }
    }
}
