//! How handles reach the driver.
//!
//! A handle never waits for the driver to send, read or drop: it does its part in a box shared with
//! the driver, and puts a name on the list of what needs attention. A name is on the list once, so
//! the list is bounded by what exists. Questions that want an answer are [`Command`]s.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sctp::{
    AssociationId, AssociationStatistics, AssociationStatus, Connect, EndpointConfig, PathConfig,
    PathError,
};
use tokio::sync::{Notify, oneshot};

use crate::association::Established;
use crate::endpoint::{AcceptInbox, EventInbox};
use crate::error::ConnectError;
use crate::statistics::StackStatistics;

/// Names an endpoint of a stack. Its port alone would not do: another endpoint may be opened there
/// when it is closed, while handles of it still exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndpointKey {
    pub(crate) port: u16,
    /// How many endpoints the stack had opened before it.
    pub(crate) number: u64,
}

/// Names an association of a stack: its endpoint and its name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) endpoint: EndpointKey,
    pub(crate) id: AssociationId,
}

/// What a handle asks of the driver.
#[derive(Debug)]
pub(crate) enum Command {
    Connect {
        endpoint: EndpointKey,
        to: Connect,
        reply: oneshot::Sender<Result<Established, ConnectError>>,
    },
    Control {
        key: Key,
        control: Control,
        reply: oneshot::Sender<Result<(), PathError>>,
    },
    Status {
        key: Key,
        reply: oneshot::Sender<Option<AssociationStatus>>,
    },
    AssociationStatistics {
        key: Key,
        reply: oneshot::Sender<Option<AssociationStatistics>>,
    },
    Statistics {
        reply: oneshot::Sender<StackStatistics>,
    },
    CloseEndpoint {
        endpoint: EndpointKey,
        reply: oneshot::Sender<()>,
    },
    CloseStack {
        reply: oneshot::Sender<()>,
    },
}

/// What a handle wants changed about its association.
#[derive(Debug)]
pub(crate) enum Control {
    SetPrimary(IpAddr),
    RequestHeartbeat(IpAddr),
    Configure(Box<EndpointConfig>),
    ConfigurePath(IpAddr, PathConfig),
}

/// An endpoint that the driver is to create.
#[derive(Debug)]
pub(crate) struct NewEndpoint {
    pub(crate) key: EndpointKey,
    pub(crate) config: EndpointConfig,
    pub(crate) style: Style,
}

/// Where the associations and messages of an endpoint go.
#[derive(Clone, Debug)]
pub(crate) enum Style {
    /// Each association is accepted, and its messages are read from it.
    OneToOne(Arc<AcceptInbox>),
    /// Everything goes to one inbox.
    OneToMany(Arc<EventInbox>),
}

/// What needs the driver's attention.
#[derive(Debug, Default)]
pub(crate) struct Attention {
    pub(crate) new_endpoints: Vec<NewEndpoint>,
    /// Associations with something to send, room to receive, or an end.
    pub(crate) associations: Vec<Key>,
    /// One-to-many endpoints whose inbox has room again.
    pub(crate) endpoints: Vec<EndpointKey>,
    /// Endpoints whose last handle is gone.
    pub(crate) dropped_endpoints: Vec<EndpointKey>,
}

/// Why there is no port for an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPort {
    InUse,
    NoneFree,
    StackClosed,
}

/// Shared by all handles of a stack and its driver.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    attention: Attention,
    ports: BTreeSet<u16>,
    /// How many endpoints were opened.
    opened: u64,
    closed: bool,
    last_statistics: StackStatistics,
}

/// The ports from which one is chosen when none is asked for (RFC 6335 section 6: dynamic ports).
const DYNAMIC_PORTS: std::ops::RangeInclusive<u16> = 49152..=65535;

impl Mailbox {
    /// Reserves a port (0: any free one, looked for from `start` on) and asks the driver for an
    /// endpoint there.
    pub(crate) fn open_endpoint(
        &self,
        port: u16,
        start: u16,
        config: EndpointConfig,
        style: Style,
    ) -> Result<EndpointKey, NoPort> {
        let mut state = self.state();
        if state.closed {
            return Err(NoPort::StackClosed);
        }
        let port = match port {
            0 => free_port(&state.ports, start).ok_or(NoPort::NoneFree)?,
            port => port,
        };
        if !state.ports.insert(port) {
            return Err(NoPort::InUse);
        }
        let key = EndpointKey {
            port,
            number: state.opened,
        };
        state.opened += 1;
        state
            .attention
            .new_endpoints
            .push(NewEndpoint { key, config, style });
        drop(state);
        self.wake.notify_one();
        Ok(key)
    }

    pub(crate) fn attend_association(&self, key: Key) {
        self.state().attention.associations.push(key);
        self.wake.notify_one();
    }

    pub(crate) fn attend_endpoint(&self, endpoint: EndpointKey) {
        self.state().attention.endpoints.push(endpoint);
        self.wake.notify_one();
    }

    pub(crate) fn endpoint_dropped(&self, endpoint: EndpointKey) {
        self.state().attention.dropped_endpoints.push(endpoint);
        self.wake.notify_one();
    }

    /// The driver waits for something to attend to.
    pub(crate) async fn wait(&self) {
        self.wake.notified().await;
    }

    /// The driver takes the list.
    pub(crate) fn take(&self) -> Attention {
        std::mem::take(&mut self.state().attention)
    }

    /// The driver gives a port back.
    pub(crate) fn release_port(&self, port: u16) {
        self.state().ports.remove(&port);
    }

    /// The driver opens no further endpoint.
    pub(crate) fn close(&self) {
        self.state().closed = true;
    }

    /// The driver ends, and leaves what the stack has counted.
    pub(crate) fn leave_statistics(&self, statistics: StackStatistics) {
        self.state().last_statistics = statistics;
    }

    /// What the driver left when it ended.
    pub(crate) fn last_statistics(&self) -> StackStatistics {
        self.state().last_statistics
    }

    /// No panic can happen while the lock is held that would leave the lists in disorder.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn free_port(used: &BTreeSet<u16>, start: u16) -> Option<u16> {
    let count = DYNAMIC_PORTS.len() as u16;
    (0..count)
        .map(|offset| DYNAMIC_PORTS.start() + start.wrapping_add(offset) % count)
        .find(|port| !used.contains(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_free_port_is_found_and_then_none() {
        let mut used: BTreeSet<u16> = DYNAMIC_PORTS.filter(|&port| port != 50_000).collect();
        for start in [0, 1, 848, 60_123, 65_535] {
            assert_eq!(free_port(&used, start), Some(50_000));
        }
        used.insert(50_000);
        assert_eq!(free_port(&used, 60_123), None);
    }
}
