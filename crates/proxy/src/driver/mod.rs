//! The driver: joins the core to sockets, a location store and name resolution.

mod addresses;
mod control;
mod log;
mod resolver;
mod service;
mod store;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand_chacha::ChaCha12Rng;
use sip::transaction::TransactionConfig;
use sip_net::{Listen, SipNetConfig, Transports, WireStatistics};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::HostPort;
use crate::core::{Config, Listener, Policy, Proxy, QueryLimits, RegistrarConfig, Statistics};
use control::{Command, Report};
use resolver::Resolver;
use service::Service;
use store::MemoryStore;

/// What [`Server::start`] is told.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// Listeners, encapsulation ports, stream policy and the other settings of the transports.
    pub transports: SipNetConfig,
    /// The domains that the registrar and proxy are responsible for, each on its own. A domain
    /// without a port is meant with the ports of the listeners too. Empty: every listener's address,
    /// on a wildcard listener every address of the host, what is advertised, and `localhost`, all
    /// names of one domain.
    pub domains: Vec<HostPort>,
    /// What goes into Via and Record-Route in place of the listener's address; without a port the
    /// listener's port stays.
    pub advertise: Option<HostPort>,
    /// The timers of transactions and the bound on their number.
    pub transactions: TransactionConfig,
    /// Intervals and the number of bindings of one address of record.
    pub registrar: RegistrarConfig,
    /// How many addresses of record the location store holds.
    pub maximum_addresses_of_record: usize,
    /// How many octets the location store holds: names, Contacts, Call-IDs, and what each binding
    /// takes besides. A REGISTER that needs more is answered 503.
    pub maximum_location_octets: usize,
    /// How many octets of messages are held by the requests that are being forwarded or wait for an
    /// answer (see [`Config::maximum_held_octets`]). A request beyond it is answered 503.
    pub maximum_held_octets: usize,
    /// What can be exchanged while the server runs (see [`Server::set_policy`]).
    pub policy: Arc<Policy>,
    /// The bounds on questions to the location store and the resolver.
    pub queries: QueryLimits,
    /// How long a forwarded INVITE may go without a final response after its last provisional one;
    /// more than three minutes (Timer C, RFC 3261 section 16.6 step 11).
    pub timer_c: Duration,
    /// What branches, tags and keys are drawn from; `None` takes it from the system. Fixed only where
    /// runs have to repeat: whoever knows it can forge flow tokens.
    pub seed: Option<[u8; 32]>,
}

impl Default for ProxyConfig {
    /// No listeners; the values of the RFCs for all else.
    fn default() -> ProxyConfig {
        let core = Config::default();
        ProxyConfig {
            transports: SipNetConfig::default(),
            domains: Vec::new(),
            advertise: None,
            transactions: core.transactions,
            registrar: core.registrar,
            maximum_addresses_of_record: 200_000,
            maximum_location_octets: 256 << 20,
            maximum_held_octets: core.maximum_held_octets,
            policy: core.policy,
            queries: core.queries,
            timer_c: core.timer_c,
            seed: None,
        }
    }
}

/// Why a server did not start: one line that says what is wrong and what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener could not be opened.
    #[error(transparent)]
    Listen(#[from] sip_net::StartError),
    /// The addresses of the host, which a wildcard listener stands for, could not be read.
    #[error("cannot read this host's addresses: {0}; listen on one address instead of on all")]
    Addresses(std::io::Error),
}

/// What a server counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerStatistics {
    /// What the transports count: packets, bytes, retransmissions of TCP and SCTP, drops.
    pub wire: WireStatistics,
    /// What the proxy counts: requests, calls, retransmissions of SIP, drops.
    pub proxy: Statistics,
    /// Addresses of record in the location store, those without a binding included.
    pub addresses_of_record: u64,
    /// Bindings in the location store.
    pub bindings: u64,
}

/// A running proxy and registrar. It stops when it is [shut down](Server::shutdown) or dropped.
#[derive(Debug)]
pub struct Server {
    transports: Transports,
    counted: Arc<Mutex<Counted>>,
    commander: mpsc::Sender<Command>,
    stop: oneshot::Sender<()>,
    service: JoinHandle<()>,
}

/// How often a server that drains looks what is left.
const DRAIN_POLL: Duration = Duration::from_millis(50);

/// The counters that the service brings up to date.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    proxy: Statistics,
    addresses_of_record: usize,
    bindings: usize,
}

impl Server {
    /// Opens the listeners and begins to serve, on the tokio runtime that this is called on.
    ///
    /// # Errors
    /// A listener that cannot be opened, or a host whose addresses cannot be read.
    pub async fn start(config: ProxyConfig) -> Result<Server, StartError> {
        let (transports, incoming) = Transports::start(config.transports)?;
        let listening = transports.listening();
        let local_addresses =
            addresses::local_addresses(&listening).map_err(StartError::Addresses)?;
        let domains = if config.domains.is_empty() {
            addresses::default_domain(&local_addresses, config.advertise.as_ref())
        } else {
            addresses::separate_domains(config.domains)
        };
        let listeners = listening
            .iter()
            .map(|listen| Listener {
                transport: listen.transport,
                address: listen.address,
            })
            .collect();
        let mut rng: ChaCha12Rng = match config.seed {
            Some(seed) => rand::SeedableRng::from_seed(seed),
            None => rand::make_rng(),
        };
        let store = MemoryStore::new(
            config.maximum_addresses_of_record,
            config.maximum_location_octets,
            &mut rng,
        );
        let resolver = Resolver::new(transports.clone(), config.queries.timeout);
        let core = Proxy::new(
            Config {
                listeners,
                advertise: config.advertise,
                local_addresses,
                domains,
                transactions: config.transactions,
                registrar: config.registrar,
                policy: config.policy,
                queries: config.queries,
                timer_c: config.timer_c,
                maximum_held_octets: config.maximum_held_octets,
                ..Config::default()
            },
            rng,
        );
        let counted = Arc::new(Mutex::new(Counted::default()));
        let (commander, commands) = control::channel();
        let (stop, stopped) = oneshot::channel();
        let service = Service::new(
            core,
            transports.clone(),
            incoming,
            commands,
            store,
            resolver,
            Arc::clone(&counted),
        );
        let service = tokio::spawn(service.run(stopped));
        Ok(Server {
            transports,
            counted,
            commander,
            stop,
            service,
        })
    }

    /// The listeners, with the ports that the system chose.
    pub fn listening(&self) -> Vec<Listen> {
        self.transports.listening()
    }

    /// The UDP ports under the SCTP listeners (RFC 6951), with the address that each is bound to.
    pub fn encapsulation_addresses(&self) -> Vec<SocketAddr> {
        self.transports.encapsulation_addresses()
    }

    /// The counters as they stand.
    pub async fn statistics(&self) -> ServerStatistics {
        let wire = self.transports.statistics().await;
        let counted = *self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        ServerStatistics {
            wire,
            proxy: counted.proxy,
            addresses_of_record: counted.addresses_of_record as u64,
            bindings: counted.bindings as u64,
        }
    }

    /// Decides by these settings from now on. Requests that are being forwarded go on by the decisions
    /// that were made for them.
    pub async fn set_policy(&self, policy: Arc<Policy>) {
        // A service that has ended needs none.
        let _ = self.commander.send(Command::SetPolicy(policy)).await;
    }

    /// Refuses what would begin a dialog from now on, and waits until the transactions that there are
    /// have ended, but no longer than the limit. Returns how many have not. Bindings are kept. What
    /// belongs to a dialog is still forwarded, until the server is [shut down](Server::shutdown).
    pub async fn drain(&self, limit: Duration) -> usize {
        let deadline = tokio::time::Instant::now() + limit;
        let _ = self.commander.send(Command::Drain).await;
        loop {
            let left = match self.report().await {
                Some(report) => report.transactions,
                None => 0,
            };
            if left == 0 || tokio::time::Instant::now() >= deadline {
                return left;
            }
            tokio::time::sleep(DRAIN_POLL.min(limit)).await;
        }
    }

    /// What the owner of the core tells; `None` where it has ended.
    async fn report(&self) -> Option<Report> {
        let (sender, receiver) = oneshot::channel();
        self.commander.send(Command::Report(sender)).await.ok()?;
        receiver.await.ok()
    }

    /// Returns when the server has stopped by itself, because a listener failed; the log says which. It can be
    /// cancelled and called again.
    pub async fn ended(&mut self) {
        self.stop.closed().await;
    }

    /// Stops serving: what is queued is sent, SCTP associations are shut down, sockets closed.
    pub async fn shutdown(self) {
        // A service that has ended already needs no telling.
        let _ = self.stop.send(());
        let _ = self.service.await;
        self.transports.shutdown().await;
    }
}
