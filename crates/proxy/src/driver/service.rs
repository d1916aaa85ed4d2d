//! The loop that feeds the core and does what it says.

use std::sync::Weak;
use std::time::{Instant, SystemTime};

use sip::Message;
use sip_net::{Incoming, SendError, Transports};
use tokio::sync::{mpsc, watch};

use super::control::{Command, Report};
use super::http::HttpClient;
use super::log::Log;
use super::members::Members;
use super::redis::RedisClient;
use super::resolver::Resolver;
use super::traffic::Traffic;
use crate::core::{Answer, Event, Proxy, Query, QueryId};
use crate::location::{self, StoreQuery};
use crate::records::Recorder;

/// How many events of the transports are taken at a time.
const BATCH: usize = 128;

/// One worker: owns a core and does its I/O. Everything happens in its one task.
#[derive(Debug)]
pub(super) struct Service {
    core: Proxy,
    io: IoContext,
    /// What was taken from `incoming` in this turn.
    batch: Vec<Incoming>,
    traffic: Box<Traffic>,
    log: Log,
    /// Whether requests were being refused after the last turn.
    is_refusing: bool,
}

/// The I/O of a worker.
#[derive(Debug)]
pub(super) struct IoContext {
    /// By which it sends.
    pub(super) transports: Transports,
    /// What comes for it.
    pub(super) incoming: mpsc::Receiver<Incoming>,
    /// What its owner says.
    pub(super) commands: mpsc::Receiver<Command>,
    /// Its way to the location store.
    pub(super) location: location::Handle,
    /// Its way to the DNS.
    pub(super) resolver: Resolver,
    /// Its way to servers that plugins ask.
    pub(super) http: HttpClient,
    /// Its way to Redis servers that plugins ask.
    pub(super) redis: RedisClient,
    /// Where what happens to calls is written down.
    pub(super) recorder: Option<Recorder>,
    /// What all workers know of the members of groups.
    pub(super) members: Members,
    /// Turns true, or is left without a sender, when it is to stop.
    pub(super) stopped: watch::Receiver<bool>,
    /// Ends the other workers when this one ends, by itself or by a panic.
    pub(super) _stop_guard: StopGuard,
}

/// Tells all workers to stop when it is dropped: a server of which a part is gone would lose the calls of that part
/// and seem to live.
#[derive(Debug)]
pub(super) struct StopGuard(pub(super) Weak<watch::Sender<bool>>);

impl Drop for StopGuard {
    fn drop(&mut self) {
        if let Some(stop) = self.0.upgrade() {
            stop.send_replace(true);
        }
    }
}

impl Service {
    pub(super) fn new(core: Proxy, io: IoContext) -> Service {
        Service {
            core,
            io,
            batch: Vec::with_capacity(BATCH),
            traffic: Box::default(),
            log: Log::default(),
            is_refusing: false,
        }
    }

    /// Serves until it is told to stop, or nobody is left to tell it.
    pub(super) async fn run(mut self) {
        while self.round().await {}
    }

    /// A turn, and what belongs between two. Returns whether there is to be another one.
    async fn round(&mut self) -> bool {
        if !self.turn().await {
            return false;
        }
        // However much others hand over, the sockets of this worker are read between turns. The runtime looks which of them
        // have something, and puts this task behind those that wait for theirs, which read it and note when it came: the
        // core has to know how long it has waited in all.
        tokio::task::yield_now().await;
        // What comes along an association takes one task more: that of the SCTP port before its own.
        tokio::task::yield_now().await;
        true
    }

    /// Waits until there is something to do, and does all that there is. Returns whether there may be more.
    async fn turn(&mut self) -> bool {
        let IoContext {
            incoming,
            commands,
            location,
            resolver,
            http,
            redis,
            members,
            stopped,
            ..
        } = &mut self.io;
        let due = self.core.next_timeout();
        let sleep = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        let (mut answer, mut command) = (None, None);
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => return false,
            count = incoming.recv_many(&mut self.batch, BATCH) => {
                if count == 0 {
                    return false;
                }
            }
            stored = location.next() => answer = Some(stored),
            resolved = resolver.next() => answer = resolved,
            fetched = http.next() => answer = fetched,
            replied = redis.next() => answer = replied,
            Some(received) = commands.recv() => command = Some(received),
            () = members.changed() => {}
            () = sleep => {}
        }
        let now = Instant::now();
        self.core.set_wall_clock(now, SystemTime::now());
        members.apply_to(&mut self.core);
        let is_recorded = self.io.recorder.is_some();
        self.core.tell_of_users(is_recorded || Log::is_read());
        if let Some(command) = command {
            self.handle_command(now, command);
        }
        if let Some((id, answer)) = answer {
            self.core.handle_answer(now, id, answer);
        }
        let mut batch = std::mem::take(&mut self.batch);
        for incoming in batch.drain(..) {
            self.handle(now, incoming);
        }
        self.core.process_accepted(now);
        self.batch = batch;
        // A steady stream of messages must hold up neither commands, answers nor timers.
        while let Ok(command) = self.io.commands.try_recv() {
            self.handle_command(now, command);
        }
        while let Some((id, answer)) = self.next_answer() {
            self.core.handle_answer(now, id, answer);
        }
        if self.core.next_timeout().is_some_and(|due| due <= now) {
            self.core.handle_timeout(now);
        }
        self.flush(now);
        self.is_refusing = self.core.is_refusing(now);
        true
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::SetPolicy(policy) => self.core.set_policy(now, policy),
            Command::Drain => self.core.drain(),
            Command::Report(report) => {
                // Whoever asked may have given up.
                let _ = report.send(Report {
                    statistics: self.core.statistics(),
                    latencies: Box::new(self.core.latencies().clone()),
                    traffic: self.traffic.clone(),
                    transactions: self.core.transactions(),
                    members: self.core.member_health(),
                });
            }
        }
    }

    fn handle(&mut self, now: Instant, incoming: Incoming) {
        let incoming = match incoming {
            Incoming::Message {
                flow,
                message,
                received,
            } => {
                self.traffic.count_received(flow.transport, &message);
                let waited = now.saturating_duration_since(received);
                self.core.accept_message(now, waited, flow, message);
                return;
            }
            Incoming::Unread {
                flow,
                bytes,
                received,
            } => {
                let waited = now.saturating_duration_since(received);
                if self.may_stay_unread(&bytes) {
                    self.traffic.count_unread(flow.transport, &bytes);
                    self.core.accept_octets(now, waited, flow, bytes);
                    return;
                }
                match Message::read_or_return(bytes) {
                    Ok(message) => {
                        self.traffic.count_received(flow.transport, &message);
                        self.core.accept_message(now, waited, flow, message);
                        return;
                    }
                    Err((error, bytes)) => Incoming::Malformed {
                        flow,
                        bytes,
                        reason: error.into(),
                    },
                }
            }
            other => other,
        };
        // The messages before it are of the time before it.
        self.core.process_accepted(now);
        match incoming {
            // Keep-alives of ours there are none.
            Incoming::Message { .. } | Incoming::Unread { .. } | Incoming::KeepAlive { .. } => {}
            Incoming::Malformed { flow, bytes, .. } => self.core.handle_malformed(now, flow, bytes),
            Incoming::ConnectionIdentified { connection, names } => {
                self.core.handle_connection_identified(connection, names);
            }
            Incoming::ConnectionClosed { connection, .. } => {
                self.core.handle_connection_closed(connection);
            }
            Incoming::Undelivered { remote, beginning } => {
                self.core.handle_undelivered(now, remote, &beginning);
            }
            Incoming::SendFailed { transaction, error } => {
                if is_refusal(&error) {
                    self.core.handle_connection_refused(now, transaction);
                } else {
                    self.core.handle_send_failure(now, transaction);
                }
            }
        }
    }

    /// Whether the core can tell from a request's octets what is to be done: an overloaded server has no time to parse
    /// the requests that it refuses.
    fn may_stay_unread(&self, octets: &[u8]) -> bool {
        self.is_refusing && (octets.starts_with(b"INVITE ") || octets.starts_with(b"ACK "))
    }

    /// Carries out what the core wants, until it wants nothing more.
    fn flush(&mut self, now: Instant) {
        // An answer may bring a further question.
        while self.ask_all(now) {
            while let Some((id, answer)) = self.io.location.next_now() {
                self.core.handle_answer(now, id, answer);
            }
        }
        let transmits = std::iter::from_fn(|| {
            let transmit = self.core.poll_transmit()?;
            self.traffic.count_sent(&transmit);
            Some(transmit)
        });
        self.io.transports.send_all(transmits);
        while let Some(connection) = self.core.poll_known_connection() {
            self.io.transports.known(connection);
        }
        while let Some(event) = self.core.poll_event() {
            self.log.write(now, &event);
            if let Some(recorder) = &self.io.recorder {
                recorder.note(SystemTime::now(), &event);
            }
            self.publish(event);
        }
        self.io.location.maintain(now);
    }

    /// Lets the other workers know what concerns them too.
    fn publish(&mut self, event: Event) {
        match event {
            Event::NextHop {
                transport,
                remote,
                outcome,
            } => self.io.resolver.note(transport, remote, outcome),
            Event::Member { group, uri, state } => {
                self.io.members.set(group, uri, state);
            }
            _ => {}
        }
    }

    /// Asks all that the core wants to know. Returns whether there was anything.
    fn ask_all(&mut self, now: Instant) -> bool {
        let mut has_asked = false;
        while let Some((id, query)) = self.core.poll_query() {
            self.ask(now, id, query);
            has_asked = true;
        }
        has_asked
    }

    fn ask(&mut self, now: Instant, id: QueryId, query: Query) {
        let location = &mut self.io.location;
        match query {
            Query::Lookup(address) => location.submit(now, id, StoreQuery::Lookup(address)),
            Query::Update(address, update) => {
                location.submit(now, id, StoreQuery::Update(address, update));
            }
            Query::Resolve(destination) => {
                if let Some(answer) = self.io.resolver.ask(id, destination) {
                    self.core.handle_answer(now, id, answer);
                }
            }
            Query::Credentials { realm, username } => {
                location.submit(now, id, StoreQuery::Credentials { realm, username });
            }
            Query::Http(request) => self.io.http.ask(id, *request),
            Query::Redis(command) => self.io.redis.ask(id, *command),
            Query::Page { from, limit } => {
                location.submit(now, id, StoreQuery::Page { from, limit });
            }
        }
    }

    /// The next answer that is there now, from whoever was asked.
    fn next_answer(&mut self) -> Option<(QueryId, Answer)> {
        let IoContext {
            location,
            resolver,
            http,
            redis,
            ..
        } = &mut self.io;
        let answer = location.next_now().or_else(|| resolver.next_now());
        let answer = answer.or_else(|| http.next_now());
        answer.or_else(|| redis.next_now())
    }
}

/// Whether a connection came to nothing because the far end does not know its transport: by a TCP reset,
/// or by ICMP's protocol unreachable (RFC 3261 section 18.1.1, RFC 1122 section 3.2.2.1).
fn is_refusal(error: &SendError) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, ConnectionReset};
    matches!(error, SendError::Io(ConnectionRefused | ConnectionReset, _))
}

#[cfg(test)]
mod tests;
