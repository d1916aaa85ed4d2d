//! Joins the emulated users to sockets: callers on one side, callees on the other, each side with
//! transports of its own, as if they were two machines.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
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
    /// How long users try to connect to the proxy. Those who cannot in that time take no part: they
    /// remain unregistered.
    pub connect_within: Duration,
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
            connect_within: Duration::from_secs(30),
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
    /// The proxy cannot be connected to, and trying again would not help.
    #[error("cannot connect to {transport}:{proxy}: {source}")]
    Connect {
        /// The transport.
        transport: Transport,
        /// The proxy.
        proxy: SocketAddr,
        /// Why.
        source: SendError,
    },
    /// The transports stopped while the users needed them.
    #[error("the transports of the users stopped")]
    Stopped,
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
    /// When transports do not start or nobody listens at the proxy's address.
    pub async fn start(config: LoadConfig) -> Result<Load, LoadError> {
        let mut rng = ChaCha12Rng::seed_from_u64(config.seed);
        let plan = config.calls.clone();
        let caller_rng = ChaCha12Rng::from_rng(&mut rng);
        let callee_rng = ChaCha12Rng::from_rng(&mut rng);
        let population = |first, flows| Population {
            first,
            flows,
            proxy: config.proxy,
        };
        let callers = Wire::open(&config, rng.next_u64(), |flows| {
            Callers::new(population(1, flows), plan, caller_rng)
        });
        let callees = Wire::open(&config, rng.next_u64(), |flows| {
            Callees::new(population(config.users + 1, flows), callee_rng)
        });
        let (callers, callees) = tokio::try_join!(callers, callees)?;
        Ok(Load {
            callers,
            callees,
            call_time: Duration::ZERO,
        })
    }

    /// Registers all users and returns when all are, or when the time is up.
    ///
    /// # Errors
    /// When the transports stop.
    pub async fn register(&mut self, within: Duration) -> Result<(), LoadError> {
        let now = Instant::now();
        self.callers.core.register(now);
        self.callees.core.register(now);
        self.drive(now + within, |load| {
            load.callers.core.is_registered() && load.callees.core.is_registered()
        })
        .await
    }

    /// Makes calls as planned and returns when the plan is fulfilled.
    ///
    /// # Errors
    /// When the transports stop.
    pub async fn call(&mut self) -> Result<(), LoadError> {
        let started = Instant::now();
        self.callers.core.start_calls(started);
        let deadline = self
            .callers
            .core
            .end_of_calls()
            .unwrap_or(started + FOREVER);
        let driven = self
            .drive(deadline, |load| load.callers.core.has_finished_calls())
            .await;
        self.callers.core.stop_calls();
        self.call_time = started.elapsed();
        driven
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
    async fn drive(
        &mut self,
        deadline: Instant,
        until: impl Fn(&Load) -> bool,
    ) -> Result<(), LoadError> {
        loop {
            self.callers.transmit();
            self.callees.transmit();
            if until(self) || Instant::now() >= deadline {
                return Ok(());
            }
            let timeout = [
                self.callers.core.next_timeout(),
                self.callees.core.next_timeout(),
            ]
            .into_iter()
            .flatten()
            .fold(deadline, Instant::min);
            tokio::select! {
                received = self.callers.receive() => received?,
                received = self.callees.receive() => received?,
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
        core: impl FnOnce(Vec<Option<Flow>>) -> Core,
    ) -> Result<Wire<Core>, LoadError> {
        let (transports, incoming) = Transports::start(SipNetConfig {
            listeners: Vec::new(),
            impairment: config.transports.impairment.map(|impairment| Impairment {
                seed: link_seed,
                ..impairment
            }),
            ..config.transports.clone()
        })?;
        let deadline = Instant::now() + config.connect_within;
        let connect = || connect(&transports, config, deadline);
        let flows = match config.connections {
            Connections::PerUser => {
                let all = (0..config.users).map(|_| connect());
                try_join_all(all).await?
            }
            Connections::Shared => {
                let shared = connect().await?;
                // Streams repeat where there are more users than streams; the transports see to it.
                let flow = |index| {
                    let stream = index as u16;
                    shared.map(|flow| Flow { stream, ..flow })
                };
                (0..config.users).map(flow).collect()
            }
        };
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

    /// Waits for messages and hands them to the core.
    async fn receive(&mut self) -> Result<(), LoadError> {
        if self.incoming.recv_many(&mut self.batch, Self::BATCH).await == 0 {
            return Err(LoadError::Stopped);
        }
        for incoming in self.batch.drain(..) {
            match incoming {
                Incoming::Message {
                    flow,
                    message,
                    received,
                } => {
                    self.core
                        .handle_message(Instant::now(), received, flow, message);
                }
                Incoming::SendFailed { transaction, .. } => {
                    self.core.handle_send_failure(Instant::now(), transaction);
                }
                // The transports count what is malformed; a lost connection shows as failed sends.
                Incoming::Malformed { .. }
                | Incoming::ConnectionIdentified { .. }
                | Incoming::ConnectionClosed { .. } => {}
            }
        }
        Ok(())
    }
}

/// A connection of its own to the proxy, tried again until the deadline where packets may have been lost;
/// none when there is none by then.
async fn connect(
    transports: &Transports,
    config: &LoadConfig,
    deadline: Instant,
) -> Result<Option<Flow>, LoadError> {
    let LoadConfig {
        transport, proxy, ..
    } = *config;
    let attempts = async {
        loop {
            match transports.connect(transport, proxy, true).await {
                Ok(flow) => return Ok(Some(flow)),
                Err(SendError::ConnectTimeout | SendError::Sctp(_)) => {}
                Err(source) => {
                    return Err(LoadError::Connect {
                        transport,
                        proxy,
                        source,
                    });
                }
            }
        }
    };
    tokio::time::timeout_at(deadline.into(), attempts)
        .await
        .unwrap_or(Ok(None))
}
