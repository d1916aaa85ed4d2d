//! Endpoints: local SCTP ports, in the two styles of RFC 6458.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sctp::{AssociationConfig, Connect, PathAddress, ReceivedMessage};
use tokio::sync::oneshot;

use crate::association::Association;
use crate::association_shared::{AssociationShared, Established};
use crate::error::{CloseCause, ConnectError};
use crate::keys::EndpointKey;
use crate::mailbox::Command;
use crate::stack_handle::StackHandle;
use crate::style::{AcceptInbox, EventInbox, InboxEvent};

/// What to associate with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConnectTo {
    /// Addresses of the peer, the first one being the primary. More may be learnt from the peer.
    pub addresses: Vec<IpAddr>,
    /// The peer's SCTP port.
    pub port: u16,
    /// The peer's UDP encapsulation port, the stack's setting when `None`; without meaning where
    /// there is no encapsulation.
    pub encapsulation_port: Option<u16>,
    /// The settings of this association, those of the endpoint when `None`.
    pub config: Option<AssociationConfig>,
}

/// A local SCTP port in one-to-one style (RFC 6458 section 4): associations are accepted and
/// connected one by one, and each is received from by itself. Cheap to clone.
///
/// When the last handle is dropped, no further association is accepted and those not accepted yet
/// are shut down; the others live on, and the port is free again when the last of them has ended.
#[derive(Clone, Debug)]
pub struct Endpoint {
    handle: EndpointHandle,
    accepts: Arc<AcceptInbox>,
}

impl Endpoint {
    pub(crate) fn new(
        key: EndpointKey,
        stack: Arc<StackHandle>,
        accepts: Arc<AcceptInbox>,
    ) -> Self {
        Self {
            handle: EndpointHandle::new(key, stack),
            accepts,
        }
    }

    /// The local SCTP port.
    pub fn port(&self) -> u16 {
        self.handle.key.port
    }

    /// Associates with the peer at `remote` and SCTP port `port`, and waits until the association
    /// is up. `encapsulation_port` is the peer's UDP port; the stack's setting when `None`.
    ///
    /// An association whose future is dropped before it is ready is given up.
    ///
    /// # Errors
    ///
    /// When the peer refuses or does not answer, or this endpoint cannot begin an association.
    pub async fn connect(
        &self,
        remote: IpAddr,
        port: u16,
        encapsulation_port: Option<u16>,
    ) -> Result<Association, ConnectError> {
        let to = ConnectTo::one(remote, port, encapsulation_port);
        self.connect_to(to).await
    }

    /// As [`connect`](Self::connect), for a peer of which several addresses may be known, and with
    /// settings of its own.
    ///
    /// # Errors
    ///
    /// Those of [`connect`](Self::connect).
    pub async fn connect_to(&self, to: ConnectTo) -> Result<Association, ConnectError> {
        let established = self.handle.connect(to).await?;
        let stack = Arc::clone(&self.handle.stack);
        Ok(Association::new(established, stack))
    }

    /// Waits for the next association that a peer began; `None` when the endpoint is closed. Each
    /// association goes to one caller.
    pub async fn accept(&self) -> Option<Association> {
        let taken = self.accepts.inbox.next().await?;
        self.accepts.waiting.fetch_sub(1, Ordering::Relaxed);
        let stack = Arc::clone(&self.handle.stack);
        Some(Association::new(taken.item, stack))
    }

    /// Closes the endpoint: shuts down all its associations, waits for them at most the stack's
    /// `close_timeout`, and aborts the rest. What has not been received by then is discarded.
    pub async fn close(&self) {
        self.handle.close().await;
    }
}

/// A local SCTP port in one-to-many style (RFC 6458 section 3): one place to receive from for all
/// its associations. Cheap to clone.
///
/// Its associations live until they are shut down or aborted by either side, whether or not a
/// handle of them exists. What is not taken by [`next`](Self::next) fills the windows that
/// the peers see; associations are served in turns. When the last handle is dropped, the endpoint
/// is closed.
#[derive(Clone, Debug)]
pub struct OneToMany {
    handle: EndpointHandle,
    events: Arc<EventInbox>,
}

impl ConnectTo {
    /// A peer of which one address is known.
    fn one(address: IpAddr, port: u16, encapsulation_port: Option<u16>) -> Self {
        Self {
            addresses: vec![address],
            port,
            encapsulation_port,
            config: None,
        }
    }
}

/// What happens on a [`OneToMany`] endpoint.
#[derive(Clone, Debug)]
pub enum EndpointEvent {
    /// A peer began an association, which is up.
    Accepted(Association),
    /// A message arrived. Messages of an association that `connect` began may be taken before
    /// `connect` has returned.
    Message {
        /// Where it came from.
        association: Association,
        /// The message.
        message: ReceivedMessage,
    },
    /// The peer restarted its side of the association (RFC 9260 section 5.2.2): what was under way
    /// in either direction may be lost, and streams begin anew.
    Restarted(Association),
    /// An association ended. It is the last event of that association.
    Closed {
        /// Which one.
        association: Association,
        /// How.
        cause: CloseCause,
    },
}

impl OneToMany {
    pub(crate) fn new(key: EndpointKey, stack: Arc<StackHandle>, events: Arc<EventInbox>) -> Self {
        Self {
            handle: EndpointHandle::new(key, stack),
            events,
        }
    }

    /// The local SCTP port.
    pub fn port(&self) -> u16 {
        self.handle.key.port
    }

    /// As [`Endpoint::connect`].
    ///
    /// # Errors
    ///
    /// Those of [`Endpoint::connect`].
    pub async fn connect(
        &self,
        remote: IpAddr,
        port: u16,
        encapsulation_port: Option<u16>,
    ) -> Result<Association, ConnectError> {
        let to = ConnectTo::one(remote, port, encapsulation_port);
        self.connect_to(to).await
    }

    /// As [`Endpoint::connect_to`].
    ///
    /// # Errors
    ///
    /// Those of [`Endpoint::connect`].
    pub async fn connect_to(&self, to: ConnectTo) -> Result<Association, ConnectError> {
        let established = self.handle.connect(to).await?;
        let stack = Arc::clone(&self.handle.stack);
        Ok(Association::new(established.without_guard(), stack))
    }

    /// Waits for the next event; `None` when the endpoint is closed. Each event goes to one caller.
    pub async fn next(&self) -> Option<EndpointEvent> {
        let taken = self.events.inbox.next().await?;
        if taken.driver_waits {
            // Any of the workers may have more.
            for worker in &self.handle.stack.workers {
                worker.mailbox.service().inbox_has_room(self.handle.key);
            }
        }
        let stack = &self.handle.stack;
        let handle = |shared: Arc<AssociationShared>| {
            let established = Established {
                shared,
                guard: None,
            };
            Association::new(established, Arc::clone(stack))
        };
        Some(match taken.item {
            InboxEvent::Accepted(shared) => {
                self.events.waiting.fetch_sub(1, Ordering::Relaxed);
                EndpointEvent::Accepted(handle(shared))
            }
            InboxEvent::Message(shared, message) => EndpointEvent::Message {
                association: handle(shared),
                message,
            },
            InboxEvent::Restarted(shared) => EndpointEvent::Restarted(handle(shared)),
            InboxEvent::Closed(shared, cause) => EndpointEvent::Closed {
                association: handle(shared),
                cause,
            },
        })
    }

    /// Closes the endpoint: shuts down all its associations, waits for them at most the stack's
    /// `close_timeout`, and aborts the rest. What has not been received by then is discarded.
    pub async fn close(&self) {
        self.handle.close().await;
    }
}

/// What both styles have in common.
#[derive(Clone, Debug)]
struct EndpointHandle {
    key: EndpointKey,
    stack: Arc<StackHandle>,
    _guard: Arc<EndpointGuard>,
}

impl EndpointHandle {
    fn new(key: EndpointKey, stack: Arc<StackHandle>) -> Self {
        let guard = EndpointGuard {
            key,
            stack: Arc::clone(&stack),
        };
        Self {
            key,
            stack,
            _guard: Arc::new(guard),
        }
    }

    async fn connect(&self, to: ConnectTo) -> Result<Established, ConnectError> {
        let peer = self.paths(&to)?;
        let to = Box::new(Connect {
            peer,
            port: to.port,
            config: to.config,
        });
        let worker = self.stack.worker_for(self.key.port, &to);
        // Before the channel, so that it goes after it.
        let mut pending = PendingConnect {
            handle: self,
            worker,
            answered: false,
        };
        let (reply, answer) = oneshot::channel();
        let command = Command::Connect {
            endpoint: self.key,
            to,
            reply,
        };
        let sent = self.stack.ask(worker, command).await;
        sent.ok_or(ConnectError::Closed)?;
        let answer = answer.await;
        pending.answered = true;
        answer.map_err(|_| ConnectError::Closed)?
    }

    /// The paths to the addresses that can be reached from here.
    fn paths(&self, to: &ConnectTo) -> Result<Vec<PathAddress>, ConnectError> {
        let local = &self.stack.local_addresses;
        let can_reach = |remote: &IpAddr| local.iter().any(|ip| ip.is_ipv4() == remote.is_ipv4());
        let needs_zone = |ip: &&IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        if let Some(&ip) = to.addresses.iter().find(needs_zone)
            && !self.stack.has_zone
        {
            let remote = SocketAddr::new(ip, to.port);
            return Err(ConnectError::NoZone { remote });
        }
        let default_port = self.stack.peer_encapsulation_port;
        let peer: Vec<PathAddress> = to
            .addresses
            .iter()
            .copied()
            .filter(can_reach)
            .map(|remote| PathAddress {
                local: None,
                remote,
                encapsulation_port: default_port
                    .map(|default| to.encapsulation_port.unwrap_or(default)),
            })
            .collect();
        match to.addresses.first() {
            None => Err(ConnectError::NoAddress),
            Some(&first) if peer.is_empty() => Err(ConnectError::OtherFamily {
                remote: SocketAddr::new(first, to.port),
                local: self.stack.local_addr,
            }),
            Some(_) => Ok(peer),
        }
    }

    async fn close(&self) {
        let endpoint = self.key;
        let close = |reply| Command::CloseEndpoint { endpoint, reply };
        self.stack.ask_all(close).await;
    }
}

/// A `connect` without an answer yet; the worker is told when its caller gives up.
struct PendingConnect<'a> {
    handle: &'a EndpointHandle,
    worker: usize,
    answered: bool,
}

impl Drop for PendingConnect<'_> {
    fn drop(&mut self) {
        let EndpointHandle { key, stack, .. } = self.handle;
        if let Some(worker) = stack.workers.get(self.worker).filter(|_| !self.answered) {
            worker.mailbox.service().connect_abandoned(*key);
        }
    }
}

/// Notifies the workers when the last handle of an endpoint is dropped.
#[derive(Debug)]
struct EndpointGuard {
    key: EndpointKey,
    stack: Arc<StackHandle>,
}

impl Drop for EndpointGuard {
    fn drop(&mut self) {
        for worker in &self.stack.workers {
            worker.mailbox.service().endpoint_dropped(self.key);
        }
    }
}
