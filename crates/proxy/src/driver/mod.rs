//! The driver: joins the core to sockets, a location store and name resolution.

use std::net::SocketAddr;

use sip_net::{Listen, SipNetConfig, WireStatistics};

use crate::HostPort;

/// What [`Server::start`] is told.
#[derive(Clone, Debug, Default)]
pub struct ProxyConfig {
    /// Listeners, encapsulation ports, stream policy and the other settings of the transports.
    pub transports: SipNetConfig,
    /// The domains that the registrar and proxy are responsible for. Empty: every listener's
    /// address, on a wildcard listener every address of the host, and `localhost`.
    pub domains: Vec<HostPort>,
    /// What goes into Via and Record-Route in place of the listener's address; without a port the
    /// listener's port stays.
    pub advertise: Option<HostPort>,
}

/// Why a server did not start: one line that says which setting and what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener could not be opened.
    #[error(transparent)]
    Listen(#[from] sip_net::StartError),
    /// The addresses of the host, which a wildcard listener stands for, could not be read.
    #[error(
        "cannot read this host's addresses: {0}; name the domains and the address to advertise"
    )]
    Interfaces(std::io::Error),
}

/// What a server counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerStatistics {
    /// What the transports count.
    pub wire: WireStatistics,
}

/// A running proxy and registrar.
#[derive(Debug)]
pub struct Server {}

impl Server {
    /// Opens the listeners and begins to serve.
    ///
    /// # Errors
    /// A listener that cannot be opened, or a host whose addresses cannot be read.
    pub async fn start(_config: ProxyConfig) -> Result<Server, StartError> {
        todo!()
    }

    /// The listeners, with the ports that the system chose.
    pub fn listening(&self) -> Vec<Listen> {
        todo!()
    }

    /// The UDP ports under the SCTP listeners (RFC 6951).
    pub fn encapsulation_addresses(&self) -> Vec<SocketAddr> {
        todo!()
    }

    /// The counters as they stand.
    pub fn statistics(&self) -> ServerStatistics {
        todo!()
    }

    /// Stops serving: SCTP associations are shut down, sockets closed.
    pub async fn shutdown(self) {
        todo!()
    }
}
