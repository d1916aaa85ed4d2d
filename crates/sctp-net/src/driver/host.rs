//! Keeps the engine of a port informed of the addresses of this host.

use std::time::{Duration, Instant};

use crate::carrier::addresses_of_host;

/// Interfaces come and go: their addresses are asked for again after this time.
const KNOWN_FOR: Duration = Duration::from_secs(10);

/// When the addresses are to be asked for again.
#[derive(Debug, Default)]
pub(super) struct HostAddresses {
    until: Option<Instant>,
}

impl HostAddresses {
    /// Gives the engine the host's addresses, if they are older than [`KNOWN_FOR`].
    pub(super) fn refresh(&mut self, now: Instant, engine: &mut sctp::Endpoint) {
        if self.until.is_some_and(|until| now < until) {
            return;
        }
        self.until = Some(now + KNOWN_FOR);
        match addresses_of_host() {
            Ok(addresses) => engine.set_host_addresses(addresses),
            // The addresses that were known before stay in use.
            Err(error) => tracing::debug!(%error, "the addresses of this host are not known"),
        }
    }
}
