//! A signalling process that runs.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use m3ua::{AspState, ManagementIndication, MtpIndication, Output, PeerId, SignallingProcess};
use sctp_net::{Association, ConnectTo, Endpoint, Stack};
use tap::Tap;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::configuration::{Configuration, ConfigurationError, PeerTable};
use crate::link::{Happening, Link, Queued, Reporter, serve};
use crate::snapshot::{Counts, LinkStatus, Snapshot};

/// Happenings that wait for the engine.
const INPUT_QUEUE: usize = 256;

/// Calls that wait for the engine.
const CALL_QUEUE: usize = 64;

/// Time between attempts to open an association.
const RECONNECT: Duration = Duration::from_secs(1);

/// How long the peers may take to acknowledge that we go.
const FAREWELL: Duration = Duration::from_secs(3);

/// What the user of a process is told.
#[derive(Clone, Debug)]
pub enum Event {
    /// An MTP primitive.
    Mtp(MtpIndication),
    /// An indication for the management.
    Management(ManagementIndication),
    /// M-SCTP_ESTABLISH: an association is there.
    Associated(PeerId),
    /// M-SCTP_RELEASE: it is gone.
    Released {
        /// Whose.
        peer: PeerId,
        /// How it ended.
        cause: String,
    },
}

/// The process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signalling process has ended")]
pub struct Stopped;

/// Why a process cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The carrier, or its port.
    #[error("cannot open SCTP {carrier}: {error}")]
    Sctp {
        /// What carries it, and where.
        carrier: String,
        /// Why.
        error: io::Error,
    },
    /// The file for a capture.
    #[error("cannot write the capture {}: {error}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The address of the metrics.
    #[error(transparent)]
    Metrics(#[from] metrics_listener::BindError),
    /// The thread that serves them.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A call that is made where the engine is.
type Call = Box<dyn FnOnce(&mut Runner) + Send>;

/// A process that runs. It ends when it is stopped.
#[derive(Debug)]
pub struct Process {
    calls: mpsc::Sender<Call>,
    stack: Stack,
    local: SocketAddr,
    tap: Option<Tap>,
}

/// A handle of a process, which does not keep it running.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    calls: mpsc::WeakSender<Call>,
}

/// Opens the SCTP endpoint of a configuration and runs its process. `user` is called with every event in order; it must not
/// wait.
///
/// # Errors
///
/// When the configuration is wrong, or SCTP cannot be had.
pub async fn start(
    configuration: &Configuration,
    user: impl FnMut(Event) + Send + 'static,
) -> Result<Process, StartError> {
    let (engine, _) = configuration.build()?;
    let sctp = &configuration.sctp;
    let capture = |path: &PathBuf| {
        let path = path.clone();
        Tap::create(&path, "m3ua").map_err(|error| StartError::Capture { path, error })
    };
    let tap = sctp.pcap.as_ref().map(capture).transpose()?;
    let failed = |error| StartError::Sctp {
        carrier: sctp.to_string(),
        error,
    };
    let stack = sctp.open(tap.clone()).map_err(failed)?;
    let endpoint = stack.endpoint(sctp.port, sctp.endpoint()).map_err(failed)?;
    let (inputs, happenings) = mpsc::channel(INPUT_QUEUE);
    let (calls, waiting) = mpsc::channel(CALL_QUEUE);
    let runner = Runner {
        links: engine.peers().map(|_| None).collect(),
        engine,
        user: Box::new(user),
        counts: Counts::default(),
    };
    let peers = configuration.peer.clone();
    let local = stack.local_addr();
    tokio::spawn(runner.run(endpoint, peers, inputs, happenings, waiting));
    Ok(Process {
        calls,
        stack,
        local,
        tap,
    })
}

impl Process {
    /// The local address, with the UDP port where SCTP is in UDP.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Does something with the engine, and returns its result.
    ///
    /// # Errors
    ///
    /// When the process has ended.
    pub async fn with<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut SignallingProcess, Instant) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        let call = |runner: &mut Runner| call(&mut runner.engine, Instant::now());
        ask(&self.calls, call).await
    }

    /// Counts of the driver.
    ///
    /// # Errors
    ///
    /// When the process has ended.
    pub async fn counts(&self) -> Result<Counts, Stopped> {
        ask(&self.calls, |runner| runner.counts).await
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle {
            calls: self.calls.downgrade(),
        }
    }

    /// Ends the process in good order (section 4.9): inactive, deregistered, down, and then the associations.
    pub async fn stop(self) {
        let end = Instant::now() + FAREWELL;
        let leave = |engine: &mut SignallingProcess, now: Instant| {
            for peer in engine.peers().collect::<Vec<_>>() {
                engine.asp_down(now, peer);
            }
        };
        let mut is_running = self.with(leave).await.is_ok();
        while is_running && Instant::now() < end {
            match self.with(|engine, _| is_up_anywhere(engine)).await {
                Ok(true) => tokio::time::sleep(Duration::from_millis(10)).await,
                Ok(false) | Err(Stopped) => is_running = false,
            }
        }
        self.stack.close().await;
        drop(self.tap);
    }
}

impl Handle {
    /// How the process is.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, Stopped> {
        let calls = self.calls.upgrade().ok_or(Stopped)?;
        ask(&calls, |runner| runner.snapshot()).await
    }

    /// Waits for the engine to come round.
    pub(crate) async fn answers(&self) -> Result<(), Stopped> {
        let calls = self.calls.upgrade().ok_or(Stopped)?;
        ask(&calls, |_| ()).await
    }

    /// All associations.
    pub(crate) async fn associations(&self) -> Result<Vec<(PeerId, Association)>, Stopped> {
        let calls = self.calls.upgrade().ok_or(Stopped)?;
        ask(&calls, |runner| runner.associations()).await
    }
}

/// Has the task that owns the engine do something, and returns its result.
async fn ask<R: Send + 'static>(
    calls: &mpsc::Sender<Call>,
    call: impl FnOnce(&mut Runner) -> R + Send + 'static,
) -> Result<R, Stopped> {
    let (answer, answered) = oneshot::channel();
    let call = Box::new(move |runner: &mut Runner| {
        // Whoever asked may have gone.
        let _ = answer.send(call(runner));
    });
    calls.send(call).await.map_err(|_| Stopped)?;
    answered.await.map_err(|_| Stopped)
}

fn is_up_anywhere(engine: &SignallingProcess) -> bool {
    let mut pairs = engine.peers().flat_map(|peer| {
        engine
            .application_servers()
            .map(move |server| engine.our_state(peer, server))
    });
    pairs.any(|state| state != AspState::Down)
}

/// What the task that owns the engine has.
struct Runner {
    engine: SignallingProcess,
    /// The association of each peer, with its generation.
    links: Vec<Option<(u64, Link)>>,
    user: Box<dyn FnMut(Event) + Send>,
    counts: Counts,
}

impl Runner {
    async fn run(
        mut self,
        endpoint: Endpoint,
        peers: Vec<PeerTable>,
        inputs: mpsc::Sender<(PeerId, u64, Happening)>,
        mut happenings: mpsc::Receiver<(PeerId, u64, Happening)>,
        mut calls: mpsc::Receiver<Call>,
    ) {
        // The tasks end with this one.
        let mut tasks = JoinSet::new();
        for (number, peer) in peers.iter().enumerate().filter(|(_, peer)| peer.connects()) {
            let (endpoint, inputs) = (endpoint.clone(), inputs.clone());
            tasks.spawn(keep_connected(
                endpoint,
                PeerId(number),
                peer.clone(),
                inputs,
            ));
        }
        let mut generation = 0;
        loop {
            let timeout = self.engine.next_timeout();
            let until = timeout.map(tokio::time::Instant::from_std);
            tokio::select! {
                Some((peer, generation, happening)) = happenings.recv() => {
                    self.happen(peer, generation, happening);
                }
                call = calls.recv() => match call {
                    Some(call) => call(&mut self),
                    None => return,
                },
                association = endpoint.accept() => match association {
                    Some(association) => {
                        generation += 2;
                        self.welcome(association, &peers, generation, &inputs, &mut tasks);
                    }
                    None => return,
                },
                () = tokio::time::sleep_until(until.unwrap_or_else(tokio::time::Instant::now)), if until.is_some() => {
                    self.engine.handle_timeout(Instant::now());
                }
            }
            self.drain();
            while tasks.try_join_next().is_some() {}
        }
    }

    /// An association that a peer has opened.
    fn welcome(
        &mut self,
        association: Association,
        peers: &[PeerTable],
        generation: u64,
        inputs: &mpsc::Sender<(PeerId, u64, Happening)>,
        tasks: &mut JoinSet<()>,
    ) {
        let remote = association.peer();
        let is_free = |number: &usize| self.links.get(*number).is_some_and(Option::is_none);
        let mut candidates = (0..peers.len()).filter(|number| {
            peers
                .get(*number)
                .is_some_and(|peer| !peer.connects() && is_of(peer, remote))
        });
        let Some(number) = candidates.find(is_free) else {
            self.counts.strangers += 1;
            association.abort(b"not a peer, or already associated");
            return;
        };
        let reporter = Reporter {
            peer: PeerId(number),
            generation,
            inputs: inputs.clone(),
        };
        tasks.spawn(serve(association, reporter));
    }

    fn happen(&mut self, peer: PeerId, generation: u64, happening: Happening) {
        let now = Instant::now();
        let Some(place) = self.links.get_mut(peer.0) else {
            return;
        };
        let is_current = place
            .as_ref()
            .is_some_and(|(current, _)| *current == generation);
        match happening {
            Happening::Up(link) if place.is_none() => {
                let streams = link.association.outbound_streams();
                *place = Some((generation, link));
                (self.user)(Event::Associated(peer));
                self.engine.association_up(now, peer, streams);
            }
            Happening::Up(link) => {
                self.counts.strangers += 1;
                link.association.abort(b"already associated");
            }
            // Of an association that is gone.
            _ if !is_current => {}
            Happening::Restarted { outbound_streams } => {
                if let Some((_, link)) = place {
                    self.counts.abandoned += link.queued() as u64;
                    link.begin_anew();
                }
                self.engine
                    .association_restarted(now, peer, outbound_streams);
            }
            Happening::Messages(messages) => {
                for message in messages {
                    self.engine
                        .handle_message(now, peer, message.stream, &message.bytes);
                    self.drain();
                }
            }
            Happening::Relaxed => self.engine.association_congested(peer, false),
            Happening::Down { cause } => {
                let link = place.take();
                self.counts.abandoned += link.map_or(0, |(_, link)| link.queued() as u64);
                self.engine.association_down(now, peer);
                (self.user)(Event::Released { peer, cause });
            }
        }
    }

    /// Does what the engine wants done.
    fn drain(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send {
                    peer,
                    stream,
                    message,
                } => self.send(peer, stream, message),
                Output::Abort(peer) => {
                    let link = self.links.get_mut(peer.0).and_then(Option::take);
                    if let Some((_, link)) = link {
                        self.counts.abandoned += link.queued() as u64;
                        link.association.abort(b"no heartbeat");
                        let cause = "no heartbeat".to_owned();
                        (self.user)(Event::Released { peer, cause });
                    }
                }
                Output::Mtp(indication) => (self.user)(Event::Mtp(indication)),
                Output::Management(indication) => (self.user)(Event::Management(indication)),
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        let links = self.links.iter().map(|it| {
            let (_, link) = it.as_ref()?;
            Some(LinkStatus {
                remote: link.association.peer(),
                queued: link.queued(),
            })
        });
        Snapshot::of(&self.engine, links, self.counts)
    }

    fn associations(&self) -> Vec<(PeerId, Association)> {
        let links = self.links.iter().enumerate();
        let associated = links.filter_map(|(number, it)| {
            let (_, link) = it.as_ref()?;
            Some((PeerId(number), link.association.clone()))
        });
        associated.collect()
    }

    fn send(&mut self, peer: PeerId, stream: u16, message: bytes::Bytes) {
        let Some(Some((_, link))) = self.links.get(peer.0) else {
            return;
        };
        match link.send(stream, message) {
            Queued::Yes => {}
            Queued::Congested => self.engine.association_congested(peer, true),
            Queued::No => self.counts.overflows += 1,
        }
    }
}

/// Whether an association from this address is the peer's. The port tells peers on one host apart.
fn is_of(peer: &PeerTable, remote: SocketAddr) -> bool {
    let has_address = peer.address.ip() == remote.ip() || peer.addresses.contains(&remote.ip());
    has_address && (peer.address.port() == 0 || peer.address.port() == remote.port())
}

/// Opens the association with a peer, and again whenever it is gone.
async fn keep_connected(
    endpoint: Endpoint,
    peer: PeerId,
    table: PeerTable,
    inputs: mpsc::Sender<(PeerId, u64, Happening)>,
) {
    let addresses: Vec<IpAddr> = std::iter::once(table.address.ip())
        .chain(table.addresses.iter().copied())
        .collect();
    let mut generation = 1;
    while !inputs.is_closed() {
        let to = ConnectTo {
            addresses: addresses.clone(),
            port: table.address.port(),
            encapsulation_port: table.encapsulation_port,
            config: None,
        };
        if let Ok(association) = endpoint.connect_to(to).await {
            let reporter = Reporter {
                peer,
                generation,
                inputs: inputs.clone(),
            };
            serve(association, reporter).await;
            generation += 2;
        }
        tokio::time::sleep(RECONNECT).await;
    }
}
