//! The SCTP ports of a stack.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::claims::Claim;
use crate::keys::EndpointKey;

/// The ports from which one is chosen when none is asked for (RFC 6335 section 6: dynamic ports).
const DYNAMIC_PORTS: std::ops::RangeInclusive<u16> = 49152..=65535;

/// Which ports have an endpoint. Shared by all handles and workers of a stack.
#[derive(Debug)]
pub(crate) struct Ports {
    /// Whether the ports are the whole host's, or belong to a UDP port of ours.
    host_wide: bool,
    workers: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: BTreeMap<u16, Held>,
    /// How many endpoints were opened.
    opened: u64,
}

/// A port that is in use.
#[derive(Debug)]
struct Held {
    /// How many workers still serve it.
    workers: usize,
    _claim: Option<Claim>,
}

/// Why there is no port for an endpoint.
#[derive(Debug)]
pub(crate) enum NoPort {
    InUse,
    NoneFree,
    /// The port cannot be claimed.
    Failed(io::Error),
}

impl Ports {
    /// None yet. `host_wide` ports are claimed from all programs of ours.
    pub(crate) fn new(host_wide: bool, workers: usize) -> Self {
        Self {
            host_wide,
            workers,
            state: Mutex::default(),
        }
    }

    /// Takes a port (0: any free one, looked for from `start` on) for a new endpoint.
    pub(crate) fn reserve(&self, port: u16, start: u16) -> Result<EndpointKey, NoPort> {
        let mut state = self.state();
        let port = match port {
            0 => self.take_any(&mut state, start)?,
            port => self.take(&mut state, port).map(|()| port)?,
        };
        let number = state.opened;
        state.opened += 1;
        Ok(EndpointKey { port, number })
    }

    /// Whether the port has an endpoint of ours.
    pub(crate) fn holds(&self, port: u16) -> bool {
        self.state().held.contains_key(&port)
    }

    /// A worker gives a port back; when all have, it is free.
    pub(crate) fn release(&self, port: u16) {
        let mut state = self.state();
        if let Some(held) = state.held.get_mut(&port) {
            held.workers -= 1;
            if held.workers == 0 {
                state.held.remove(&port);
            }
        }
    }

    fn take_any(&self, state: &mut State, start: u16) -> Result<u16, NoPort> {
        let count = DYNAMIC_PORTS.len() as u16;
        for offset in 0..count {
            let port = DYNAMIC_PORTS.start() + start.wrapping_add(offset) % count;
            match self.take(state, port) {
                Err(NoPort::InUse) => {}
                result => return result.map(|()| port),
            }
        }
        Err(NoPort::NoneFree)
    }

    fn take(&self, state: &mut State, port: u16) -> Result<(), NoPort> {
        if state.held.contains_key(&port) {
            return Err(NoPort::InUse);
        }
        let claim = match self.host_wide.then(|| Claim::port(port)).transpose() {
            Ok(claim) => claim,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(NoPort::InUse),
            Err(error) => return Err(NoPort::Failed(error)),
        };
        let held = Held {
            workers: self.workers,
            _claim: claim,
        };
        state.held.insert(port, held);
        Ok(())
    }

    /// No panic can happen while the lock is held that would leave the table in disorder.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_free_port_is_found_and_then_none() {
        let ports = Ports::new(false, 1);
        for port in DYNAMIC_PORTS.filter(|&port| port != 50_000) {
            ports.reserve(port, 0).unwrap();
        }
        for start in [0, 1, 848, 60_123, 65_535] {
            assert_eq!(ports.reserve(0, start).unwrap().port, 50_000);
            assert!(matches!(ports.reserve(0, start), Err(NoPort::NoneFree)));
            ports.release(50_000);
        }
    }

    #[test]
    fn a_port_is_free_when_all_workers_have_given_it_back() {
        let ports = Ports::new(false, 2);
        ports.reserve(5060, 0).unwrap();
        ports.release(5060);
        assert!(matches!(ports.reserve(5060, 0), Err(NoPort::InUse)));
        ports.release(5060);
        assert_eq!(ports.reserve(5060, 0).unwrap().number, 1);
    }
}
