//! The loop that feeds the core and does what it says.

use std::sync::Weak;
use std::time::{Instant, SystemTime};

use sip_net::{Incoming, SendError, Transports};
use tokio::sync::{mpsc, watch};

use super::control::{Command, Report};
use super::log::Log;
use super::members::Members;
use super::pace::Pace;
use super::resolver::Resolver;
use crate::core::{Answer, Event, Proxy, Query, QueryId};
use crate::location::{self, StoreQuery};
use crate::metrics::Traffic;
use crate::records::Recorder;

/// How many events of the transports are taken at a time.
const BATCH: usize = 128;

/// One worker: owns a core, and joins it to the world. Everything happens in its one task.
#[derive(Debug)]
pub(super) struct Service {
    core: Proxy,
    surroundings: Surroundings,
    /// What was taken from `incoming` in this turn.
    batch: Vec<Incoming>,
    traffic: Box<Traffic>,
    pace: Pace,
    log: Log,
}

/// What a worker has for itself of the world outside.
#[derive(Debug)]
pub(super) struct Surroundings {
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
    /// Where what happens to calls is written down.
    pub(super) recorder: Option<Recorder>,
    /// What all workers know of the members of groups.
    pub(super) members: Members,
    /// Turns true, or is left without a sender, when it is to stop.
    pub(super) stopped: watch::Receiver<bool>,
    /// Ends the other workers when this one ends, by itself or by a panic.
    pub(super) _ends_all: EndsAll,
}

/// Tells all workers to stop when it is dropped: a server of which a part is gone would lose the calls of that part
/// and seem to live.
#[derive(Debug)]
pub(super) struct EndsAll(pub(super) Weak<watch::Sender<bool>>);

impl Drop for EndsAll {
    fn drop(&mut self) {
        if let Some(stop) = self.0.upgrade() {
            stop.send_replace(true);
        }
    }
}

impl Service {
    pub(super) fn new(core: Proxy, surroundings: Surroundings) -> Service {
        Service {
            core,
            surroundings,
            batch: Vec::with_capacity(BATCH),
            traffic: Box::default(),
            pace: Pace::default(),
            log: Log::default(),
        }
    }

    /// Serves until it is told to stop, or nobody is left to tell it.
    pub(super) async fn run(mut self) {
        while self.turn().await {
            if self.surroundings.incoming.is_empty() {
                self.pace.keep();
            } else {
                // What waits in the sockets meanwhile is read, which notes when it came: the core has to
                // know how long it has waited in all.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits until there is something to do, and does all that there is. Returns whether it goes on.
    async fn turn(&mut self) -> bool {
        let Surroundings {
            incoming,
            commands,
            location,
            resolver,
            members,
            stopped,
            ..
        } = &mut self.surroundings;
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
            Some(said) = commands.recv() => command = Some(said),
            () = members.changed() => {}
            () = sleep => {}
        }
        let now = Instant::now();
        self.core.set_wall_clock(now, SystemTime::now());
        members.tell(&mut self.core);
        if let Some(command) = command {
            self.obey(now, command);
        }
        if let Some((id, answer)) = answer {
            self.core.handle_answer(now, id, answer);
        }
        let mut batch = std::mem::take(&mut self.batch);
        for incoming in batch.drain(..) {
            self.handle(now, incoming);
        }
        self.batch = batch;
        // A steady stream of messages must hold up neither commands, answers nor timers.
        while let Ok(command) = self.surroundings.commands.try_recv() {
            self.obey(now, command);
        }
        while let Some((id, answer)) = self.next_answer() {
            self.core.handle_answer(now, id, answer);
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
                    latencies: Box::new(self.core.latencies().clone()),
                    traffic: self.traffic.clone(),
                    transactions: self.core.transactions(),
                    members: self.core.member_health(),
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
                self.traffic.count_received(flow.transport, &message);
                let waited = now.saturating_duration_since(received);
                self.core.handle_message_after(now, waited, flow, message);
            }
            Incoming::Malformed { flow, bytes, .. } => self.core.handle_malformed(now, flow, bytes),
            Incoming::ConnectionIdentified { connection, names } => {
                self.core.handle_connection_identified(connection, names);
            }
            Incoming::ConnectionClosed { connection, .. } => {
                self.core.handle_connection_closed(connection);
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

    /// Carries out what the core wants, until it wants nothing more.
    fn flush(&mut self, now: Instant) {
        while let Some((id, query)) = self.core.poll_query() {
            self.ask(now, id, query);
            while let Some((id, answer)) = self.surroundings.location.next_now() {
                self.core.handle_answer(now, id, answer);
            }
        }
        let transmits = std::iter::from_fn(|| {
            let transmit = self.core.poll_transmit()?;
            self.traffic.count_sent(&transmit);
            Some(transmit)
        });
        self.surroundings.transports.send_all(transmits);
        while let Some(event) = self.core.poll_event() {
            self.log.write(now, &event);
            if let Some(recorder) = &self.surroundings.recorder {
                recorder.note(SystemTime::now(), &event);
            }
            self.share(event);
        }
        self.surroundings.location.maintain(now);
    }

    /// Lets the other workers know what concerns them too.
    fn share(&mut self, event: Event) {
        match event {
            Event::NextHop {
                transport,
                remote,
                outcome,
            } => self.surroundings.resolver.note(transport, remote, outcome),
            Event::Member { group, uri, state } => {
                self.surroundings.members.write(group, uri, state);
            }
            _ => {}
        }
    }

    fn ask(&mut self, now: Instant, id: QueryId, query: Query) {
        let location = &mut self.surroundings.location;
        match query {
            Query::Lookup(address) => location.submit(now, id, StoreQuery::Lookup(address)),
            Query::Update(address, update) => {
                location.submit(now, id, StoreQuery::Update(address, update));
            }
            Query::Resolve(destination) => {
                if let Some(answer) = self.surroundings.resolver.ask(id, destination) {
                    self.core.handle_answer(now, id, answer);
                }
            }
            Query::Credentials { realm, username } => {
                location.submit(now, id, StoreQuery::Credentials { realm, username });
            }
        }
    }

    /// The next answer that is there now, from whoever was asked.
    fn next_answer(&mut self) -> Option<(QueryId, Answer)> {
        let Surroundings {
            location, resolver, ..
        } = &mut self.surroundings;
        location.next_now().or_else(|| resolver.next_now())
    }
}

/// Whether a connection came to nothing because the far end does not know its transport: by a TCP reset,
/// or by ICMP's protocol unreachable (RFC 3261 section 18.1.1, RFC 1122 section 3.2.2.1).
fn is_refusal(error: &SendError) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, ConnectionReset};
    matches!(error, SendError::Io(ConnectionRefused | ConnectionReset, _))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use rand::SeedableRng;
    use rand_chacha::ChaCha12Rng;
    use sip::{Flow, Message, Method, Name, Transport};
    use sip_net::SipNetConfig;
    use sip_net::resolve::ResolverConfig;

    use super::super::control;
    use super::*;
    use crate::core::{Config, Listener, Policy, Relay};
    use crate::location::LocationConfig;

    #[tokio::test]
    async fn messages_without_an_end_do_not_hold_up_answers() {
        let (transports, _others) = Transports::start(SipNetConfig {
            listeners: vec!["udp:127.0.0.1:0".parse().expect("a listener")],
            ..SipNetConfig::default()
        })
        .expect("it starts");
        let local = transports.listening()[0].address;
        // The request is for somebody else.
        let mut policy = Policy::default();
        policy.forwarding.relay = Relay::Anybody;
        let config = Config {
            policy: Arc::new(policy),
            listeners: vec![Listener {
                transport: Transport::Udp,
                address: local,
            }],
            ..Config::default()
        };
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let location = location::Store::open(&LocationConfig::default(), &mut rng)
            .expect("a store")
            .handle();
        let names = sip_net::resolve::Resolver::new(
            ResolverConfig::default(),
            ChaCha12Rng::seed_from_u64(2),
        );
        let resolver = Resolver::new(transports.clone(), names, Duration::from_secs(10));
        let (sender, incoming) = mpsc::channel(4 * BATCH);
        let (_commander, commands) = control::channel();
        let (stop, stopped) = watch::channel(false);
        let stop = Arc::new(stop);
        let surroundings = Surroundings {
            transports,
            incoming,
            commands,
            location,
            resolver,
            recorder: None,
            members: Members::new(),
            stopped,
            _ends_all: EndsAll(Arc::downgrade(&stop)),
        };
        let mut service = Service::new(Proxy::new(config, rng), surroundings);

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
            assert!(service.turn().await);
            tokio::time::sleep(Duration::from_millis(1)).await;
            forwarded = service.core.statistics().forwarded;
        }
        assert_eq!(forwarded, 1);

        // A worker that ends takes the others along.
        assert!(!*stop.borrow());
        drop(service);
        assert!(*stop.borrow());
    }
}
