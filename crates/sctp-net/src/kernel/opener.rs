//! Sockets for new endpoints.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use sctp::EndpointConfig;

use super::socket::{self, Socket};
use crate::keys::EndpointKey;

/// Opens sockets for endpoints. The kernel knows which ports are in use.
#[derive(Debug)]
pub(crate) struct Opener {
    addresses: Vec<IpAddr>,
    opened: AtomicU64,
}

impl Opener {
    /// Opens sockets at these addresses, or all where there are none.
    ///
    /// # Errors
    ///
    /// When the kernel has no SCTP.
    pub(crate) fn new(addresses: Vec<IpAddr>) -> io::Result<Self> {
        socket::require_sctp()?;
        Ok(Self {
            addresses,
            opened: AtomicU64::new(0),
        })
    }

    /// The addresses; wildcards where there are none in particular.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        if self.addresses.is_empty() {
            vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]
        } else {
            self.addresses.clone()
        }
    }

    /// Opens a socket on a port, or on one that the kernel chooses.
    pub(crate) fn open(
        &self,
        port: u16,
        config: &EndpointConfig,
    ) -> io::Result<(EndpointKey, Socket)> {
        let socket = Socket::open(&self.addresses, port, config).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("SCTP port {port} of the kernel: {error}"),
            )
        })?;
        let key = EndpointKey {
            port: socket.local().port(),
            number: self.opened.fetch_add(1, Ordering::Relaxed),
        };
        Ok((key, socket))
    }
}
