//! The server: it waits for clients and does what they ask, several at a time, within its bounds.

mod listener;
mod registry;
mod scale;
mod session;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sctp_net::Stack;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::control::FlowTotal;
use crate::{CarrierConfig, Listen, TestParameters};

pub(crate) use registry::Registry;
pub(crate) use scale::config as scale_config;

/// The settings of a [`Server`].
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where to listen.
    pub listen: Vec<Listen>,
    /// What carries SCTP; several stand side by side.
    pub carriers: Vec<CarrierConfig>,
    /// Tests at a time; further clients are refused.
    pub max_tests: usize,
    /// Flows of all tests together; a test that needs more is refused.
    pub max_flows: usize,
    /// Connections that have not said what they want yet; further ones are closed.
    pub max_unknown: usize,
    /// Whether to open as many ports and associations as a client wants: for a client of the same user,
    /// who measures what that costs.
    pub allow_scale: bool,
}

impl ServerConfig {
    /// The defaults for some listeners.
    pub fn new(listen: Vec<Listen>, carriers: Vec<CarrierConfig>) -> ServerConfig {
        ServerConfig {
            listen,
            carriers,
            max_tests: 16,
            max_flows: 512,
            max_unknown: 256,
            allow_scale: false,
        }
    }
}

/// What happens at a server.
#[derive(Clone, Debug)]
pub enum ServerEvent {
    /// A client's test begins.
    Began {
        /// Who.
        client: SocketAddr,
        /// What.
        test: TestParameters,
    },
    /// A test ended.
    Ended {
        /// Whose.
        client: SocketAddr,
        /// What the server sent or received of it.
        total: FlowTotal,
        /// What went wrong, if something did.
        error: Option<String>,
    },
}

/// How many events wait to be taken; tests wait with them.
const MAX_EVENTS: usize = 64;

/// A running server. Dropping it ends it at once.
#[derive(Debug)]
pub struct Server {
    listening: Vec<String>,
    stacks: Vec<Stack>,
    events: mpsc::Receiver<ServerEvent>,
    work: JoinSet<anyhow::Result<()>>,
}

impl Server {
    /// Binds all listeners, or none.
    ///
    /// # Errors
    ///
    /// When one cannot be bound; the text names it.
    pub async fn start(config: ServerConfig) -> anyhow::Result<Server> {
        let (events_sender, events) = mpsc::channel(MAX_EVENTS);
        let registry = Arc::new(Registry::new(&config, events_sender));
        let (listeners, stacks) = listener::open(&config).await?;
        let mut listening = Vec::new();
        let mut work = JoinSet::new();
        for listener in listeners {
            listening.extend(listener.names());
            listener.serve(&registry, &mut work);
        }
        Ok(Server {
            listening,
            stacks,
            events,
            work,
        })
    }

    /// Where it listens, in the words of the command line, with what the system chose.
    pub fn listening(&self) -> &[String] {
        &self.listening
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// When a listener failed: the server is of no use any more.
    pub async fn next(&mut self) -> anyhow::Result<ServerEvent> {
        tokio::select! {
            event = self.events.recv() => event.ok_or_else(|| anyhow::anyhow!("the server has ended")),
            Some(ended) = self.work.join_next() => {
                ended??;
                anyhow::bail!("a listener has ended")
            }
        }
    }

    /// Ends all tests, and shuts down the associations that there are.
    pub async fn close(mut self) {
        self.work.shutdown().await;
        for stack in &self.stacks {
            stack.close().await;
        }
    }
}

/// Where a client's control channel comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
}

impl Client {
    pub(crate) fn ip(self) -> IpAddr {
        self.address.ip()
    }
}
