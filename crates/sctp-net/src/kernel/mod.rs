//! The kernel's SCTP behind the same handles as our own (RFC 6458).
//!
//! An endpoint is a socket in one-to-many style. One task serves all endpoints of a stack: it does for them what
//! `driver` does with our own engine, between the same boxes.

mod calls;
mod driver;
mod establish;
mod got;
mod known;
mod layout;
mod notification;
mod options;
mod port;
mod receive;
mod register;
mod socket;
mod status;
mod watch;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sctp::EndpointConfig;
use tokio::sync::mpsc;

use crate::config::KernelCarrierConfig;
use crate::mailbox::{Command, EndpointKey, Mailbox};
use driver::Driver;
use port::Surroundings;

pub(crate) use socket::Socket;

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

/// Starts the task that serves a stack.
pub(crate) fn start(
    config: &KernelCarrierConfig,
    mailbox: Arc<Mailbox>,
    commands: mpsc::Receiver<Command>,
) {
    let surroundings = Surroundings {
        accept_backlog: config.accept_backlog,
        close_timeout: config.close_timeout,
        mailbox,
    };
    tokio::spawn(Driver::new(commands, surroundings).run());
}
