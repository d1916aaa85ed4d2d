//! The driver: joins the core to sockets, a location store and name resolution.

mod addresses;
mod control;
mod http;
mod log;
mod members;
mod memory;
mod observer;
mod redis;
mod resolver;
mod service;
mod traffic;
mod workers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use rand::Rng;
use rand_chacha::ChaCha12Rng;
use sip::transaction::TransactionConfig;
use sip_net::resolve::{self, HopHealth, ResolverConfig, ResolverStatistics};
use sip_net::{Listen, SipNetConfig, Transports, WireStatistics};
use tokio::sync::watch;

use crate::HostPort;
use crate::core::{
    Config, Keys, Listener, MemberHealth, Policy, Proxy, QueryLimits, RegistrarConfig, Statistics,
};
use crate::location::{self, LocationConfig, Store};
use crate::plugin::{Environment, Plugins, Shared, Stopwatch};
use control::WorkerHandles;
use http::HttpClient;
use members::Members;
pub use memory::use_small_pages;
pub use observer::Observer;
use observer::ServerHandles;
pub(crate) use observer::Snapshot;
use redis::RedisClient;
use resolver::Resolver;
use service::{IoContext, Service, StopGuard};
pub(crate) use traffic::{Direction, RESPONSE_CLASSES};
use workers::Workers;

use crate::records::{Recorder, RecordsSettings};

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
    /// Where the location service keeps its bindings, and how many.
    pub location: LocationConfig,
    /// How names are resolved.
    pub dns: ResolverConfig,
    /// The largest request, in octets, that goes over UDP where TCP is there too (see
    /// [`Config::maximum_datagram`]).
    pub maximum_datagram: usize,
    /// Workers, each with a thread of its own and a share of the calls and of the bounds; 0 for one a core.
    pub workers: usize,
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
    /// Where call detail records go.
    pub records: RecordsSettings,
    /// What branches, tags and keys are drawn from; `None` takes it from the system. Fixed only where
    /// runs have to repeat: whoever knows it can forge flow tokens.
    pub seed: Option<[u8; 32]>,
}

impl Default for ProxyConfig {
    /// No listeners, one worker; the values of the RFCs for all else.
    fn default() -> ProxyConfig {
        let core = Config::default();
        ProxyConfig {
            transports: SipNetConfig::default(),
            domains: Vec::new(),
            advertise: None,
            transactions: core.transactions,
            registrar: core.registrar,
            location: LocationConfig::default(),
            dns: ResolverConfig::default(),
            workers: 1,
            maximum_datagram: core.maximum_datagram,
            maximum_held_octets: core.maximum_held_octets,
            policy: core.policy,
            queries: core.queries,
            timer_c: core.timer_c,
            records: RecordsSettings::default(),
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
    /// The location store could not be opened.
    #[error(transparent)]
    Location(#[from] location::OpenError),
    /// The file of call detail records could not be opened.
    #[error("cannot write call detail records to {}: {error}; is [records] file right?", file.display())]
    Records {
        /// Its name.
        file: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start the workers: {0}; configure fewer of them")]
    Threads(std::io::Error),
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
    location: Store,
    workers: Workers,
    /// The ways to the services of the workers.
    names: resolve::Resolver,
    handles: WorkerHandles,
    recorder: Option<Recorder>,
    /// What the plugins of all workers have in common.
    plugins: Arc<Shared>,
    is_draining: Arc<AtomicBool>,
    started: SystemTime,
    stop: Arc<watch::Sender<bool>>,
}

/// What limits the time of plugins.
const STOPWATCH: Stopwatch = Stopwatch {
    now: Instant::now,
    processor_time: processor_time_of_thread,
};

/// How often a server that drains looks what is left.
const DRAIN_POLL: Duration = Duration::from_millis(50);

impl Server {
    /// Opens the location store and the listeners and begins to serve, on threads of its own.
    ///
    /// # Errors
    /// A thread that cannot be started, a store or listener that cannot be opened, or a host whose
    /// addresses cannot be read.
    pub async fn start(config: ProxyConfig) -> Result<Server, StartError> {
        let mut rng: ChaCha12Rng = match config.seed {
            Some(seed) => rand::SeedableRng::from_seed(seed),
            None => rand::make_rng(),
        };
        let location = Store::open(&config.location, &mut rng)?;
        let has_certificate = config.transports.tls.client.certificate.is_some();
        let mut workers = Workers::start(config.workers).map_err(StartError::Threads)?;
        let (transports, incoming) =
            Transports::start_workers(config.transports, workers.runtimes())?;
        let listening = transports.listening();
        let local_addresses =
            addresses::local_addresses(&listening).map_err(StartError::Addresses)?;
        let domains = if config.domains.is_empty() {
            addresses::default_domain(&local_addresses, config.advertise.as_ref())
        } else {
            addresses::separate_domains(config.domains)
        };
        let listeners = listening.iter().map(|listen| Listener {
            transport: listen.transport,
            address: listen.address,
        });
        // Each worker has its share of what there may be in all.
        let share = |all: usize| all.div_ceil(workers.count());
        let queries = QueryLimits {
            maximum_parked: share(config.queries.maximum_parked),
            maximum_resolving: share(config.queries.maximum_resolving),
            ..config.queries
        };
        let core = Config {
            listeners: listeners.collect(),
            advertise: config.advertise,
            local_addresses,
            offers_aliases: has_certificate && domains.len() == 1,
            domains,
            transactions: TransactionConfig {
                max_transactions: share(config.transactions.max_transactions),
                max_octets: share(config.transactions.max_octets),
                ..config.transactions
            },
            registrar: config.registrar,
            policy: Arc::new(control::share_of_worker(&config.policy, workers.count())),
            queries,
            timer_c: config.timer_c,
            maximum_datagram: config.maximum_datagram,
            maximum_held_octets: share(config.maximum_held_octets),
            keys: Some(Keys::from_bytes(location.seed())),
            incarnation: rng.next_u32(),
            ..Config::default()
        };
        let recorder = Recorder::start(&config.records).map_err(|error| {
            let file = config.records.file.clone().unwrap_or_default();
            StartError::Records { file, error }
        })?;
        let names = resolve::Resolver::new(config.dns, rand::SeedableRng::from_rng(&mut rng));
        transports.locate_responses_by(names.clone());
        transports.leave_datagrams_unread();
        let members = Members::new();
        let plugins = Arc::<Shared>::default();
        let (stop, stopped) = watch::channel(false);
        let stop = Arc::new(stop);
        let mut handles = Vec::with_capacity(workers.count());
        for (number, incoming) in incoming.into_iter().enumerate() {
            let (commander, commands) = control::channel();
            handles.push(commander);
            let mut proxy = Proxy::new(core.clone(), rand::SeedableRng::from_rng(&mut rng));
            let environment = Environment {
                stopwatch: Some(STOPWATCH),
                is_utc: false,
                has_timers: number == 0,
            };
            proxy.add_first_hook(Box::new(Plugins::new(
                Arc::clone(&plugins),
                environment,
                Instant::now(),
                rand::SeedableRng::from_rng(&mut rng),
            )));
            if number == 0 {
                let call_id = call_of_worker(&transports, number, &mut rng);
                proxy.start_probing(Instant::now(), &call_id);
            }
            proxy.start_keep_alives(Instant::now(), number, workers.count());
            let transports = transports.of_worker(number);
            let resolver = Resolver::new(transports.clone(), names.clone(), core.queries.timeout);
            let io = IoContext {
                transports,
                incoming,
                commands,
                location: location.handle(),
                resolver,
                http: HttpClient::new(core.queries.timeout),
                redis: RedisClient::new(core.queries.timeout),
                recorder: recorder.clone(),
                members: members.subscribe(),
                stopped: stopped.clone(),
                _stop_guard: StopGuard(Arc::downgrade(&stop)),
            };
            workers.start_service(number, Service::new(proxy, io));
        }
        Ok(Server {
            transports,
            location,
            workers,
            names,
            handles: WorkerHandles::new(handles),
            recorder,
            plugins,
            is_draining: Arc::default(),
            started: SystemTime::now(),
            stop,
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
        let location = self.location.statistics();
        ServerStatistics {
            wire,
            proxy: self.handles.report().await.statistics,
            addresses_of_record: location.addresses_of_record,
            bindings: location.bindings,
        }
    }

    /// What is known of the members of groups, the requests of all workers counted together.
    pub async fn members(&self) -> Vec<MemberHealth> {
        self.handles.report().await.members
    }

    /// The next hops that have failed and are tried after all others.
    pub fn suspects(&self) -> Vec<HopHealth> {
        self.names.suspects()
    }

    /// What name resolution counts.
    pub fn resolver_statistics(&self) -> ResolverStatistics {
        self.names.statistics()
    }

    /// Decides by these settings from now on. Requests that are being forwarded go on by the decisions
    /// that were made for them.
    pub async fn set_policy(&self, policy: Arc<Policy>) {
        self.handles.set_policy(&policy).await;
    }

    /// Refuses what would begin a dialog, from when this returns on.
    pub async fn refuse_new(&self) {
        self.is_draining.store(true, Relaxed);
        self.handles.drain().await;
        // Workers handle_command one command after the other: who has answered refuses.
        self.handles.report().await;
    }

    /// [Refuses what would begin a dialog](Server::refuse_new), and waits until the transactions that there are
    /// have ended, but no longer than the limit. Returns how many have not. Bindings are kept. What
    /// belongs to a dialog is still forwarded, until the server is [shut down](Server::shutdown).
    pub async fn drain(&self, limit: Duration) -> usize {
        let deadline = tokio::time::Instant::now() + limit;
        self.refuse_new().await;
        loop {
            let left = self.handles.report().await.transactions;
            if left == 0 || tokio::time::Instant::now() >= deadline {
                return left;
            }
            tokio::time::sleep(DRAIN_POLL.min(limit)).await;
        }
    }

    /// A view of the server for those who watch it.
    pub fn observer(&self) -> Observer {
        Observer::new(ServerHandles {
            transports: self.transports.clone(),
            handles: self.handles.clone(),
            location: self.location.clone(),
            names: self.names.clone(),
            recorder: self.recorder.clone(),
            plugins: Arc::clone(&self.plugins),
            is_draining: Arc::clone(&self.is_draining),
            started: self.started,
            failures: Mutex::default(),
        })
    }

    /// Begins the file of call detail records anew under its name: it has been moved away.
    pub fn reopen_records(&self) {
        if let Some(recorder) = &self.recorder {
            recorder.reopen();
        }
    }

    /// Writes the records of all calls, of those too that have not ended, and returns when they are in the file. Calls
    /// that begin or end afterwards get none. For those who end without [`shutdown`](Self::shutdown).
    pub fn close_records(&self) -> impl Future<Output = ()> + Send + 'static {
        let recorder = self.recorder.clone();
        async {
            if let Some(recorder) = recorder {
                // That may take as long as the disk does.
                let _ = tokio::task::spawn_blocking(move || recorder.close()).await;
            }
        }
    }

    /// Reads the certificates of the listeners anew. Connections that are there stay as they are.
    ///
    /// # Errors
    /// A file that cannot be used; all listeners keep what they had.
    pub fn reload_certificates(&self) -> Result<(), sip_net::TlsError> {
        self.transports.reload_certificates()
    }

    /// Goes over to other certificates, and to other authorities. Connections that are there stay as they are; so do
    /// listeners for which the settings name none. Whether we offer to be found by the certificate that we show to servers
    /// (RFC 5923) stays as it was at the start, as does whether servers are believed unseen.
    ///
    /// # Errors
    /// A file that cannot be used; then everything stays as it was.
    pub fn set_tls(&self, tls: sip_net::TlsConfig) -> Result<(), sip_net::TlsError> {
        self.transports.set_tls(tls)
    }

    /// Returns when the server has stopped by itself, because a listener or a worker failed; the log says which. It can be
    /// cancelled and called again.
    pub async fn ended(&mut self) {
        self.stop.closed().await;
    }

    /// Stops serving: what is queued is sent, SCTP associations are shut down, sockets closed.
    pub async fn shutdown(self) {
        let records = self.close_records();
        self.stop.send_replace(true);
        // Every service lets go of its end when it is done.
        self.stop.closed().await;
        self.transports.shutdown().await;
        drop(self.transports);
        self.workers.join().await;
        records.await;
    }
}

/// A Call-ID whose messages come to this worker.
fn call_of_worker(transports: &Transports, worker: usize, rng: &mut ChaCha12Rng) -> String {
    // One in as many as there are workers is.
    loop {
        let call_id = format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64());
        if transports.worker_of(&call_id) == worker {
            return call_id;
        }
    }
}

fn processor_time_of_thread() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    // Where there is no such clock no call is late.
    time.map_or(Duration::ZERO, Duration::from)
}
