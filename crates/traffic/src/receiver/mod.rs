//! The receiver: it waits for senders, takes their packets, and reports.

mod channel;
mod datagrams;
pub(crate) mod listener;
mod session;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use perf::{CarrierConfig, Listen};
use sctp_net::Stack;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use udp_net::PlainSocket;

use crate::control::Order;
use crate::reception::{ReceiverReport, Reception};

use datagrams::DatagramThread;

/// The settings of a [`Receiver`].
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Where to listen.
    pub listen: Vec<Listen>,
    /// What carries SCTP.
    pub carrier: CarrierConfig,
    /// Senders at a time; further ones are turned away.
    pub max_senders: usize,
}

/// What happens at a receiver.
#[derive(Clone, Debug)]
pub enum ReceiverEvent {
    /// A run begins.
    Began {
        /// Who sends.
        sender: SocketAddr,
        /// What.
        order: Order,
    },
    /// A run is over.
    Ended {
        /// Who has sent.
        sender: SocketAddr,
        /// What.
        order: Order,
        /// How many packets.
        sent: u64,
        /// What became of them.
        report: Box<ReceiverReport>,
    },
}

/// How many events wait to be taken; who takes none is told no more of them.
const MAX_EVENTS: usize = 64;

/// How many senders at a time are told that there is no place; further ones are just closed.
const MAX_TURNED_AWAY: usize = 16;

/// How long a sender may keep a place and say nothing.
#[derive(Clone, Copy, Debug)]
struct Timeouts {
    /// Until its first run is accepted.
    order: Duration,
    /// Afterwards: between its runs, and within one until the next packet of it.
    idle: Duration,
    /// Until it has asked, and has heard that there is no place.
    turned_away: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            order: Duration::from_secs(10),
            idle: Duration::from_secs(600),
            turned_away: Duration::from_secs(2),
        }
    }
}

/// A running receiver. Dropping it ends it.
#[derive(Debug)]
pub struct Receiver {
    listening: Vec<String>,
    local: Vec<Listen>,
    stacks: Vec<Stack>,
    events: mpsc::Receiver<ReceiverEvent>,
    work: JoinSet<anyhow::Result<()>>,
    _datagrams: Vec<DatagramThread>,
}

impl Receiver {
    /// Binds all listeners, or none.
    ///
    /// # Errors
    ///
    /// When one cannot be bound; the text names it.
    pub async fn start(config: ReceiverConfig) -> anyhow::Result<Receiver> {
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        let registry = Arc::new(Registry {
            runs: Mutex::default(),
            places: Arc::new(Semaphore::new(config.max_senders)),
            turned_away: Arc::new(Semaphore::new(MAX_TURNED_AWAY)),
            timeouts: Timeouts::default(),
            events: sender,
        });
        let mut receiver = Receiver {
            listening: Vec::new(),
            local: Vec::new(),
            stacks: Vec::new(),
            events,
            work: JoinSet::new(),
            _datagrams: Vec::new(),
        };
        listener::open_all(&config, &registry, &mut receiver).await?;
        Ok(receiver)
    }

    /// Where it listens, in the words of the command line, with what the system chose.
    pub fn listening(&self) -> &[String] {
        &self.listening
    }

    /// Where it listens.
    pub fn local(&self) -> &[Listen] {
        &self.local
    }

    /// The UDP port under its SCTP, if there is one.
    pub fn encapsulation_port(&self) -> Option<u16> {
        self.stacks.first().map(|stack| stack.local_addr().port())
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// When a listener failed: the receiver is of no use any more.
    pub async fn next(&mut self) -> anyhow::Result<ReceiverEvent> {
        tokio::select! {
            event = self.events.recv() => {
                event.ok_or_else(|| anyhow::anyhow!("the receiver has ended"))
            }
            Some(ended) = self.work.join_next() => {
                ended??;
                anyhow::bail!("a listener has ended")
            }
        }
    }

    /// Ends all runs, and shuts down the associations that there are.
    pub async fn close(mut self) {
        self.work.shutdown().await;
        for stack in &self.stacks {
            stack.close().await;
        }
    }
}

/// A run in progress.
#[derive(Debug)]
struct ActiveRun {
    order: Order,
    /// The host that has announced it; packets of others do not count.
    from: IpAddr,
    reception: Mutex<Reception>,
    socket: Option<Arc<PlainSocket>>,
    /// Datagrams that had found no room in the socket when the run began.
    dropped_before: u32,
}

impl ActiveRun {
    fn reception(&self) -> MutexGuard<'_, Reception> {
        self.reception
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self) -> ReceiverReport {
        let dropped = self
            .socket
            .as_ref()
            .and_then(|socket| socket.dropped().ok());
        let overruns = dropped.map_or(0, |dropped| dropped.wrapping_sub(self.dropped_before));
        ReceiverReport {
            overruns: u64::from(overruns),
            ..self.reception().report()
        }
    }
}

/// What all listeners of a receiver share.
#[derive(Debug)]
struct Registry {
    runs: Mutex<HashMap<(u64, u32), Arc<ActiveRun>>>,
    /// Senders that may come.
    places: Arc<Semaphore>,
    /// Senders that may wait to be told that there is no place.
    turned_away: Arc<Semaphore>,
    timeouts: Timeouts,
    events: mpsc::Sender<ReceiverEvent>,
}

impl Registry {
    fn find(&self, experiment: u64, run: u32) -> Option<Arc<ActiveRun>> {
        self.runs().get(&(experiment, run)).cloned()
    }

    /// Adds a run; false when there is one of that name.
    fn add(&self, run: &Arc<ActiveRun>) -> bool {
        let key = (run.order.experiment, run.order.run);
        let mut runs = self.runs();
        if runs.contains_key(&key) {
            return false;
        }
        runs.insert(key, Arc::clone(run));
        true
    }

    fn remove(&self, run: &ActiveRun) {
        self.runs().remove(&(run.order.experiment, run.order.run));
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<(u64, u32), Arc<ActiveRun>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
