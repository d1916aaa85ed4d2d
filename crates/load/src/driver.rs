//! Joins the emulated users to sockets: callers on one side, callees on the other, each side with
//! transports of its own, as if they were two machines.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;
use sip::{Flow, Transport};
use sip_net::{Incoming, SendError, SipNetConfig, StartError, Transports, WireStatistics};
use tokio::sync::mpsc;
use udp_net::Impairment;

use crate::core::{CallPlan, Callees, Callers, Population, Side};
use crate::statistics::{CallResults, RegistrationResults};

/// What [`Load::start`] is told.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// The transport to the proxy.
    pub transport: Transport,
    /// The proxy and registrar.
    pub proxy: SocketAddr,
    /// Callers, and as many callees.
    pub users: u32,
    /// Who shares a connection to the proxy.
    pub connections: Connections,
    /// How calls are made.
    pub calls: CallPlan,
    /// Settings of the users' transports. Listeners are not needed and ignored.
    pub transports: SipNetConfig,
    /// Seed of tags, branches and Call-IDs.
    pub seed: u64,
}

impl Default for LoadConfig {
    fn default() -> LoadConfig {
        LoadConfig {
            transport: Transport::Udp,
            proxy: SocketAddr::from(([127, 0, 0, 1], Transport::Udp.default_port())),
            users: 1,
            connections: Connections::Shared,
            calls: CallPlan::default(),
            transports: SipNetConfig::default(),
            seed: 0,
        }
    }
}

/// Who shares a connection to the proxy: a UDP socket, a TCP connection or an SCTP association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// All users of a side share one; over SCTP user *i* of a side names stream *i*, which a stream
    /// policy of [`PerFlow`](sip_net::StreamPolicy::PerFlow) follows.
    Shared,
    /// Each user has its own.
    PerUser,
}

/// Why the users could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The transports did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// There is no connection to the proxy.
    #[error("cannot connect to {transport}:{proxy}: {source}")]
    Connect {
        /// The transport.
        transport: Transport,
        /// The proxy.
        proxy: SocketAddr,
        /// Why.
        source: SendError,
    },
}

/// Emulated users on real sockets.
#[derive(Debug)]
pub struct Load {
    callers: Wire<Callers>,
    callees: Wire<Callees>,
    call_time: Duration,
}

impl Load {
    /// Opens the connections of both sides.
    ///
    /// # Errors
    /// When transports do not start or the proxy cannot be reached.
    pub async fn start(config: LoadConfig) -> Result<Load, LoadError> {
        let mut rng = ChaCha12Rng::seed_from_u64(config.seed);
        let plan = config.calls.clone();
        let caller_rng = ChaCha12Rng::from_rng(&mut rng);
        let callee_rng = ChaCha12Rng::from_rng(&mut rng);
        let callers = Wire::open(&config, rng.next_u64(), |flows| {
            let population = Population {
                first: 1,
                flows,
                proxy: config.proxy,
            };
            Callers::new(population, plan, caller_rng)
        });
        let callers = callers.await?;
        let callees = Wire::open(&config, rng.next_u64(), |flows| {
            let population = Population {
                first: config.users + 1,
                flows,
                proxy: config.proxy,
            };
            Callees::new(population, callee_rng)
        });
        let callees = callees.await?;
        Ok(Load {
            callers,
            callees,
            call_time: Duration::ZERO,
        })
    }

    /// Registers all users and returns when all are, or when the time is up.
    pub async fn register(&mut self, within: Duration) {
        let now = Instant::now();
        self.callers.core.register(now);
        self.callees.core.register(now);
        self.drive(now + within, |load| {
            load.callers.core.is_registered() && load.callees.core.is_registered()
        })
        .await;
    }

    /// Makes calls as planned and returns when the plan is fulfilled.
    pub async fn call(&mut self) {
        let started = Instant::now();
        self.callers.core.start_calls(started);
        let deadline = self
            .callers
            .core
            .end_of_calls()
            .unwrap_or(started + FOREVER);
        self.drive(deadline, |load| load.callers.core.has_finished_calls())
            .await;
        self.callers.core.stop_calls();
        self.call_time = started.elapsed();
    }

    /// How long the calls took, from the first INVITE to the end of [`call`](Load::call).
    pub fn call_time(&self) -> Duration {
        self.call_time
    }

    /// What became of the registrations, both sides together.
    pub fn registrations(&self) -> RegistrationResults {
        let mut results = self.callers.core.registrations().clone();
        results.merge(self.callees.core.registrations());
        results
    }

    /// Users whose registration stands, both sides together.
    pub fn registered_users(&self) -> u32 {
        self.callers.core.registered_users() + self.callees.core.registered_users()
    }

    /// What became of the calls.
    pub fn calls(&self) -> &CallResults {
        self.callers.core.results()
    }

    /// SIP messages that the users sent again.
    pub fn sip_retransmissions(&self) -> u64 {
        self.callers.core.retransmissions() + self.callees.core.retransmissions()
    }

    /// What went over the wire, both sides together.
    pub async fn wire_statistics(&self) -> WireStatistics {
        let mut statistics = self.callers.transports.statistics().await;
        statistics += self.callees.transports.statistics().await;
        statistics
    }

    /// Closes all connections; associations are shut down.
    pub async fn shutdown(self) {
        tokio::join!(
            self.callers.transports.shutdown(),
            self.callees.transports.shutdown()
        );
    }

    /// Carries messages and timers until the condition holds or the time is up.
    async fn drive(&mut self, deadline: Instant, until: impl Fn(&Load) -> bool) {
        loop {
            self.callers.transmit();
            self.callees.transmit();
            if until(self) || Instant::now() >= deadline {
                return;
            }
            let timeout = [
                self.callers.core.next_timeout(),
                self.callees.core.next_timeout(),
            ]
            .into_iter()
            .flatten()
            .fold(deadline, Instant::min);
            tokio::select! {
                open = self.callers.receive() => if !open { return },
                open = self.callees.receive() => if !open { return },
                () = tokio::time::sleep_until(timeout.into()) => {}
            }
            let now = Instant::now();
            self.callers.core.handle_timeout(now);
            self.callees.core.handle_timeout(now);
        }
    }
}

/// Longer than any run: a plan that counts calls has no deadline.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// One side's users and their transports.
#[derive(Debug)]
struct Wire<Core> {
    core: Core,
    transports: Transports,
    incoming: mpsc::Receiver<Incoming>,
    batch: Vec<Incoming>,
}

impl<Core: Side> Wire<Core> {
    /// Messages taken from the queue at a time.
    const BATCH: usize = 64;

    async fn open(
        config: &LoadConfig,
        link_seed: u64,
        core: impl FnOnce(Vec<Flow>) -> Core,
    ) -> Result<Wire<Core>, LoadError> {
        let (transports, incoming) = Transports::start(SipNetConfig {
            listeners: Vec::new(),
            impairment: config.transports.impairment.map(|impairment| Impairment {
                seed: link_seed,
                ..impairment
            }),
            ..config.transports.clone()
        })?;
        let mut flows = Vec::new();
        for index in 0..config.users {
            let flow = match (config.connections, flows.first()) {
                // Streams repeat where there are more users than streams; the transports see to it.
                (Connections::Shared, Some(first)) => Flow {
                    stream: index as u16,
                    ..*first
                },
                _ => transports
                    .connect(config.transport, config.proxy, true)
                    .await
                    .map_err(|source| LoadError::Connect {
                        transport: config.transport,
                        proxy: config.proxy,
                        source,
                    })?,
            };
            flows.push(flow);
        }
        Ok(Wire {
            core: core(flows),
            transports,
            incoming,
            batch: Vec::new(),
        })
    }

    fn transmit(&mut self) {
        while let Some(transmit) = self.core.poll_transmit() {
            self.transports.send(transmit);
        }
    }

    /// Waits for messages and hands them to the core; false when the transports have stopped.
    async fn receive(&mut self) -> bool {
        if self.incoming.recv_many(&mut self.batch, Self::BATCH).await == 0 {
            return false;
        }
        for incoming in self.batch.drain(..) {
            match incoming {
                Incoming::Message {
                    flow,
                    message,
                    received,
                } => {
                    self.core.handle_message(received, flow, message);
                }
                Incoming::SendFailed { transaction, .. } => {
                    self.core.handle_send_failure(Instant::now(), transaction);
                }
                // The transports count what is malformed; a lost connection shows as failed sends.
                Incoming::Malformed { .. } | Incoming::ConnectionClosed { .. } => {}
            }
        }
        true
    }
}
