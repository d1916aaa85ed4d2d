//! The transports of a program while they run: how the parts are put together, started and stopped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::select_all;
use sip::Transport;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::budget::Budget;
use crate::config::SipNetConfig;
use crate::connections::{Connection, Connections};
use crate::impairments::Impairments;
use crate::inbound::Inbound;
use crate::incoming::Incoming;
use crate::listen::Listen;
use crate::listeners::Listeners;
use crate::message_log::MessageLog;
use crate::outbound::{Opener, Outbound};
use crate::resolve::Reach;
use crate::response_fallback::ResponseFallback;
use crate::routes::Routes;
use crate::sctp::{Associations, SctpTransport};
use crate::start_error::StartError;
use crate::statistics::WireStatistics;
use crate::stream::{PartialMessages, StreamTransport};
use crate::tasks::Tasks;
use crate::tls::{self, Tls};
use crate::udp::{Binding, SipSocket, UdpSockets, UdpTransport};

/// Everything that runs; dropping it stops that.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) inbound: Arc<Inbound>,
    pub(crate) outbound: Arc<Outbound>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) sctp: Arc<SctpTransport>,
    pub(crate) tls: Arc<Tls>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) listening: Vec<Listen>,
    log: Arc<MessageLog>,
    tasks: Arc<Tasks>,
    shutdown_timeout: Duration,
}

/// Begins the tasks of each transport.
#[derive(Debug)]
struct Openers {
    udp: UdpTransport,
    streams: Arc<StreamTransport>,
    sctp: Arc<SctpTransport>,
    tasks: Arc<Tasks>,
}

impl Opener for Openers {
    fn open(&self, outbound: &Arc<Outbound>, connection: Arc<Connection>) {
        let outbound = outbound.clone();
        match connection.transport {
            Transport::Sctp | Transport::TlsSctp => {
                let sctp = self.sctp.clone();
                self.tasks.spawn(sctp.open(outbound, connection));
            }
            _ => {
                let streams = self.streams.clone();
                self.tasks.spawn(streams.open(outbound, connection));
            }
        }
    }

    fn serve(&self, outbound: &Arc<Outbound>, socket: Arc<SipSocket>) {
        let udp = self.udp.clone();
        self.tasks.spawn(udp.serve_client(outbound.clone(), socket));
    }
}

impl Running {
    /// Opens all listeners and serves them, for workers on these runtimes, of which there is at least one. Each worker has
    /// a receiver.
    pub(crate) fn start(
        config: SipNetConfig,
        runtimes: Vec<Handle>,
    ) -> Result<(Running, Vec<mpsc::Receiver<Incoming>>), StartError> {
        let limits = &config.limits;
        let impairments = Arc::new(Impairments::new(config.impairment.clone()));
        let tls = Arc::new(Tls::new(config.tls.clone(), &config.listeners)?);
        let budget = Budget::new(limits.all_write_queues_bytes);
        let log = MessageLog::new(config.sip_tap.clone());
        let routes = Arc::new(Routes::default());
        let binding = Binding {
            impairments: impairments.clone(),
            max_queue_messages: limits.write_queue_messages.max(1),
            budget: budget.clone(),
            log: log.clone(),
            routes: routes.clone(),
        };
        let listeners = Listeners::open(&config, &binding, impairments, &runtimes)?;

        let (incoming, receivers): (Vec<_>, Vec<_>) = runtimes
            .iter()
            .map(|_| mpsc::channel(limits.incoming_queue.max(1)))
            .unzip();
        let tasks = Arc::new(Tasks::new(runtimes));
        let queues = incoming.iter().map(mpsc::Sender::downgrade).collect();
        let inbound = Inbound::new(queues, log.clone(), tasks.clone());
        let first_id = listeners.udp.len() as u64;
        let connections = Arc::new(Connections::new(first_id, limits, budget));
        let udp = UdpTransport {
            inbound: inbound.clone(),
            log: log.clone(),
            tasks: tasks.clone(),
        };
        let streams = Arc::new(StreamTransport {
            inbound: inbound.clone(),
            connections: connections.clone(),
            log: log.clone(),
            routes: routes.clone(),
            tasks: tasks.clone(),
            tls: tls.clone(),
            partial_messages: PartialMessages::new(limits),
            listeners: config.listeners.clone(),
            limits: limits.clone(),
            websocket: config.websocket.clone(),
        });
        let sctp = Arc::new(SctpTransport {
            stacks: listeners.stacks,
            associations: Associations::default(),
            inbound: inbound.clone(),
            connections: connections.clone(),
            log: log.clone(),
            routes: routes.clone(),
            tasks: tasks.clone(),
            tls: tls.clone(),
            limits: limits.clone(),
            stream_policy: config.stream_policy,
        });
        let mut reach = Reach::default();
        for listen in &config.listeners {
            reach.add(listen.transport, listen.address);
        }
        let outbound = Arc::new(Outbound {
            connections: connections.clone(),
            sockets: UdpSockets::new(listeners.udp.clone(), binding, limits),
            response_fallback: ResponseFallback::new(reach, limits.max_located_responses),
            inbound: inbound.clone(),
            log: log.clone(),
            tasks: tasks.clone(),
            opener: Box::new(Openers {
                udp: udp.clone(),
                streams: streams.clone(),
                sctp: sctp.clone(),
                tasks: tasks.clone(),
            }),
        });

        for (worker, socket) in listeners.udp.into_iter().flat_map(by_worker) {
            let task = udp.clone().serve_listener(outbound.clone(), socket);
            tasks.spawn_on(worker, task);
        }
        for (worker, listener) in listeners.streams.into_iter().flat_map(by_worker) {
            let task = streams.clone().accept(outbound.clone(), listener);
            tasks.spawn_on(worker, task);
        }
        for (worker, listener) in by_worker(listeners.sctp) {
            let task = sctp.clone().accept(outbound.clone(), listener);
            tasks.spawn_on(worker, task);
        }
        tasks.spawn_on(0, tls::watch(tls.clone(), tasks.clone()));
        let shutdown_timeout = limits.shutdown_timeout;
        tasks.spawn_on(0, keep_open(tasks.clone(), incoming, shutdown_timeout));
        let running = Running {
            inbound,
            outbound,
            connections,
            sctp,
            tls,
            routes,
            listening: listeners.addresses,
            log,
            tasks,
            shutdown_timeout,
        };
        Ok((running, receivers))
    }

    /// What went over the wire and what was refused, of one transport.
    pub(crate) async fn statistics_of(&self, transport: Transport) -> WireStatistics {
        let mut statistics = self.log.counters(transport).snapshot();
        match transport {
            Transport::Udp => {
                let (clients, udp) = self.outbound.sockets.statistics();
                statistics.connections = clients as u64;
                statistics.packets_sent = udp.packets_sent;
                statistics.packets_received = udp.packets_received;
                statistics.bytes_sent = udp.bytes_sent;
                statistics.bytes_received = udp.bytes_received;
            }
            Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss => {
                statistics.connections = self.connections.count(transport) as u64;
                let traffic = self.connections.tcp_traffic(transport);
                traffic.add_to(&mut statistics);
            }
            Transport::Sctp => {
                statistics.connections = self.connections.count(transport) as u64;
                // What carries TLS over SCTP carries SCTP: packets are counted once, here.
                statistics += self.sctp.stacks.statistics().await;
            }
            Transport::TlsSctp => {
                statistics.connections = self.connections.count(transport) as u64;
            }
        }
        statistics
    }

    /// Stops everything, and returns when all is closed or the time limit is reached.
    pub(crate) async fn shutdown(&self) {
        let limit = self.shutdown_timeout;
        let began = Instant::now();
        self.tasks.stop();
        if !self.tasks.ended(limit).await {
            tracing::warn!("some connections did not close in time");
        }
        let left = limit.saturating_sub(began.elapsed());
        let closed = tokio::time::timeout(left, self.sctp.stacks.close()).await;
        if closed.is_err() {
            tracing::warn!("some associations did not shut down in time");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

/// What belongs to the workers, with their numbers.
fn by_worker<T>(all: Vec<T>) -> impl Iterator<Item = (usize, T)> {
    all.into_iter().enumerate()
}

/// Keeps the queues of events open until everything has stopped.
async fn keep_open(tasks: Arc<Tasks>, incoming: Vec<mpsc::Sender<Incoming>>, limit: Duration) {
    let deaf = incoming.iter().map(|incoming| Box::pin(incoming.closed()));
    tokio::select! {
        // Without a receiver nothing that comes can be delivered.
        _ = select_all(deaf) => tasks.stop(),
        () = tasks.stopped() => {}
    }
    // Connections report their end. Those that do not end in time are not waited for.
    let _ = tasks.others_ended(limit).await;
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use sip::ConnectionId;

    use super::*;

    #[tokio::test]
    async fn everything_stops_when_a_listener_fails() {
        let config = SipNetConfig {
            listeners: vec!["tcp:127.0.0.1:0".parse().expect("a listener")],
            ..SipNetConfig::default()
        };
        let started = Running::start(config, vec![Handle::current()]);
        let (running, mut receivers) = started.expect("it starts");
        // A socket whose runtime has ended fails when it is asked for datagrams.
        let elsewhere = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let failing = {
            let _elsewhere = elsewhere.enter();
            let address = SocketAddr::from(([127, 0, 0, 1], 0));
            let binding = Binding {
                impairments: Arc::new(Impairments::new(None)),
                max_queue_messages: 1,
                budget: Budget::new(0),
                log: running.log.clone(),
                routes: running.routes.clone(),
            };
            let socket = binding.bind(address, ConnectionId(0), false);
            socket.expect("a port")
        };
        elsewhere.shutdown_background();

        let udp = UdpTransport {
            inbound: running.inbound.clone(),
            log: running.log.clone(),
            tasks: running.tasks.clone(),
        };
        let task = udp.serve_listener(running.outbound.clone(), failing);
        running.tasks.spawn(task);
        // The handle is still there, and the receiver ends all the same.
        let event = tokio::time::timeout(Duration::from_secs(5), receivers[0].recv()).await;
        assert!(event.expect("in time").is_none());
        let statistics = running.statistics_of(Transport::Udp).await;
        assert_eq!(statistics.listeners_failed, 1);
        let address = running.listening[0].address;
        assert!(tokio::net::TcpStream::connect(address).await.is_err());
    }
}
