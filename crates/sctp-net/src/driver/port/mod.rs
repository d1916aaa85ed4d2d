//! One local SCTP port: its engine, and where the events and messages of its associations go.

mod events;
mod transfer;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use sctp::{
    AssociationId, AssociationStatistics, AssociationStatus, Connect, EndpointConfig, Event,
    IcmpError, PathAddress, PathError, TagOwner, Transmit,
};
use tokio::sync::oneshot;

use super::WorkerContext;
use super::claimed_peers::ClaimedPeers;
use super::host::HostAddresses;
use crate::association_shared::AssociationShared;
use crate::engine_call::EngineCall;
use crate::error::{CloseCause, ConnectError};
use crate::keys::EndpointKey;
use crate::mailbox::{Control, NewEndpoint};
use crate::send_queue::Ending;
use crate::statistics::StackStatistics;
use crate::style::{ConnectReply, Style};

/// An endpoint as the driver sees it.
pub(super) struct Port {
    key: EndpointKey,
    engine: sctp::Endpoint,
    host: HostAddresses,
    style: Style,
    context: WorkerContext,
    connecting: BTreeMap<AssociationId, Connecting>,
    associations: BTreeMap<AssociationId, PortAssociation>,
    /// What the other workers know of them.
    claimed_peers: ClaimedPeers,
    /// One-to-many: associations with something for the inbox, served in turns.
    turns: VecDeque<AssociationId>,
    /// Whether new associations are welcome.
    open: bool,
    closing: Option<Closing>,
    accept_overflows: u64,
    duplicate_associations: u64,
}

/// An association that `connect` has begun.
struct Connecting {
    /// The first address of the peer.
    to: PathAddress,
    remote_port: u16,
    reply: ConnectReply,
}

/// An association that is or was up, until its last message is delivered.
struct PortAssociation {
    shared: Arc<AssociationShared>,
    /// There may be something to deliver: it has a turn, where there are turns.
    readable: bool,
    /// The peer has restarted, and the application is to be told.
    restarted: bool,
    /// The engine has been told to shut down.
    shutting_down: bool,
    ended: Option<CloseCause>,
}

struct Closing {
    deadline: Instant,
    replies: Vec<oneshot::Sender<()>>,
}

impl Port {
    pub(super) fn new(endpoint: NewEndpoint, context: WorkerContext) -> Self {
        let key = endpoint.key;
        let config = share(endpoint.config, &context);
        let mut engine = sctp::Endpoint::new(key.port, config, rand::random());
        engine.set_local_addresses(context.listed_addresses.clone());
        Self {
            key,
            engine,
            host: HostAddresses::default(),
            claimed_peers: ClaimedPeers::new(key.port, &context),
            style: endpoint.style,
            context,
            connecting: BTreeMap::new(),
            associations: BTreeMap::new(),
            turns: VecDeque::new(),
            open: true,
            closing: None,
            accept_overflows: 0,
            duplicate_associations: 0,
        }
    }

    /// The endpoint's name.
    pub(super) fn key(&self) -> EndpointKey {
        self.key
    }

    pub(super) fn handle_packet(&mut self, now: Instant, from: PathAddress, packet: bytes::Bytes) {
        self.host.refresh(now, &mut self.engine);
        self.engine.handle_packet(now, from, packet);
    }

    /// What the network says of a packet of ours.
    pub(super) fn handle_icmp(&mut self, now: Instant, error: IcmpError) {
        self.engine.handle_icmp(now, error);
    }

    pub(super) fn connect(&mut self, now: Instant, to: Connect, reply: ConnectReply) {
        if reply.is_closed() {
            return;
        }
        let first = to.peer.first().copied();
        let Some(first) = first.filter(|_| self.open) else {
            reply.send(Err(ConnectError::Closed)).ok();
            return;
        };
        let remote_port = to.port;
        let remotes: Vec<IpAddr> = to.peer.iter().map(|path| path.remote).collect();
        let connected = self.engine.connect_with(now, to).and_then(|id| {
            if self.claimed_peers.claim(id, remote_port, remotes) {
                Ok(id)
            } else {
                // Another worker has got one meanwhile.
                self.claimed_peers.release(id);
                self.engine.abort(now, id, b"").ok();
                Err(sctp::ConnectError::AlreadyAssociated)
            }
        });
        match connected {
            Ok(id) => {
                let connecting = Connecting {
                    to: first,
                    remote_port,
                    reply,
                };
                self.connecting.insert(id, connecting);
            }
            Err(error) => {
                let remote = SocketAddr::new(first.remote, remote_port);
                let refused = ConnectError::Refused { remote, error };
                // The caller of `connect` may have given up meanwhile.
                reply.send(Err(refused)).ok();
            }
        }
    }

    /// Changes something about an association.
    pub(super) fn control(
        &mut self,
        now: Instant,
        id: AssociationId,
        control: Control,
    ) -> Result<(), PathError> {
        let engine = &mut self.engine;
        match control {
            Control::SetPrimary(remote) => engine.set_primary(now, id, remote),
            Control::RequestHeartbeat(remote) => engine.request_heartbeat(now, id, remote),
            Control::Configure(config) => engine
                .configure(now, id, *config)
                .map_err(|_| PathError::UnknownAssociation),
            Control::ConfigurePath(remote, config) => {
                engine.configure_path(now, id, remote, *config)
            }
        }
    }

    /// Makes a call to the engine about an association.
    pub(super) fn call(&mut self, now: Instant, id: AssociationId, call: EngineCall) {
        call.make(&mut self.engine, now, id);
    }

    pub(super) fn status(&self, id: AssociationId) -> Option<AssociationStatus> {
        self.engine.status(id)
    }

    pub(super) fn association_statistics(
        &self,
        id: AssociationId,
    ) -> Option<AssociationStatistics> {
        self.engine.association_statistics(id)
    }

    pub(super) fn statistics(&self) -> StackStatistics {
        StackStatistics {
            sctp: *self.engine.statistics(),
            accept_overflows: self.accept_overflows,
            duplicate_associations: self.duplicate_associations,
            ..StackStatistics::default()
        }
    }

    /// The handles of an association want something.
    pub(super) fn service_association(&mut self, now: Instant, id: AssociationId) {
        if let Some(association) = self.associations.get(&id) {
            association.shared.service_begins();
            self.send_from(now, id);
            if self
                .associations
                .get(&id)
                .is_some_and(|association| association.readable)
            {
                self.deliver_from(now, id);
            }
        }
    }

    /// The inbox of a one-to-many endpoint has room again.
    pub(super) fn service_inbox(&mut self, now: Instant) {
        self.deliver_in_turns(now);
    }

    /// The last handle of the endpoint is gone.
    pub(super) fn handles_dropped(&mut self, now: Instant, close_deadline: Instant) {
        match &self.style {
            Style::OneToOne(accepts) => {
                self.open = false;
                // Associations that were not accepted are released by this.
                accepts.inbox.clear();
            }
            Style::OneToMany(_) => self.close(now, close_deadline, None),
        }
    }

    /// Begins to shut everything down; what is left at `deadline` is aborted.
    pub(super) fn close(
        &mut self,
        now: Instant,
        deadline: Instant,
        reply: Option<oneshot::Sender<()>>,
    ) {
        self.open = false;
        let closing = self.closing.get_or_insert_with(|| Closing {
            deadline,
            replies: Vec::new(),
        });
        closing.replies.extend(reply);
        if let Style::OneToOne(accepts) = &self.style {
            accepts.inbox.clear();
            accepts.inbox.end();
        }
        for (id, _) in std::mem::take(&mut self.connecting) {
            // It is gone already when its failure has not been polled yet.
            self.engine.abort(now, id, b"").ok();
        }
        for id in self.ids() {
            if let Some(association) = self.associations.get(&id) {
                association.shared.send_queue.end(Ending::Shutdown);
            }
            self.send_from(now, id);
            self.deliver_from(now, id);
        }
    }

    /// Whether nothing is left to do, now or later.
    pub(super) fn is_finished(&self) -> bool {
        !self.open && self.associations.is_empty() && self.connecting.is_empty()
    }

    /// Ends the port and completes all pending replies.
    pub(super) fn finish(mut self, now: Instant) -> StackStatistics {
        for id in self.ids() {
            // It is refused for one that has just ended.
            self.engine.abort(now, id, b"").ok();
        }
        while let Some(event) = self.engine.poll_event() {
            // All else has the same cause as the end of the stack.
            if let Event::SendFailed { .. } = event {
                self.handle_event(now, event);
            }
        }
        for association in self.associations.values() {
            association.shared.set_ended(CloseCause::StackClosed);
            association.shared.inbox.end();
        }
        self.claimed_peers.release_all();
        self.style.worker_finished();
        for reply in self
            .closing
            .take()
            .into_iter()
            .flat_map(|closing| closing.replies)
        {
            reply.send(()).ok();
        }
        self.statistics()
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let closing = self.closing.as_ref().map(|closing| closing.deadline);
        let closing = closing.filter(|_| !self.associations.is_empty());
        self.engine.next_timeout().into_iter().chain(closing).min()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.engine.handle_timeout(now);
        if self
            .closing
            .as_ref()
            .is_some_and(|closing| closing.deadline <= now)
        {
            for id in self.ids() {
                // It is refused for one that has just ended. The engine's events tell of either end, after what was not
                // delivered.
                self.engine.abort(now, id, b"shutdown took too long").ok();
            }
        }
    }

    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.engine.poll_transmit(now)
    }

    /// Whether more waits to be sent than the SACKs of a few associations.
    pub(super) fn has_more_than_sacks(&self) -> bool {
        self.engine.has_more_than_sacks()
    }

    /// Aborts the associations whose `connect` was given up.
    pub(super) fn abandon_connects(&mut self, now: Instant) {
        let abandoned = self
            .connecting
            .extract_if(.., |_, connecting| connecting.reply.is_closed());
        for (id, _) in abandoned {
            // It is gone already when its failure has not been polled yet.
            self.engine.abort(now, id, b"").ok();
        }
    }

    fn ids(&self) -> Vec<AssociationId> {
        self.associations.keys().copied().collect()
    }
}

/// The settings of a worker's share of an endpoint: its tags name it, and the bounds of the endpoint
/// are shared out.
fn share(mut config: EndpointConfig, context: &WorkerContext) -> EndpointConfig {
    let count = context.workers;
    if count > 1 {
        // Neither can be large: see how many workers there may be.
        config.tag_owner = Some(TagOwner {
            index: context.worker as u32,
            count: count as u32,
        });
        for bound in [
            &mut config.max_associations,
            &mut config.max_received_bytes,
            &mut config.max_pending_replies,
            &mut config.max_remembered_tags,
        ] {
            *bound = bound.div_ceil(count);
        }
        // A share without room for a message would receive none.
        let largest = config
            .association
            .max_message_size
            .min(config.association.a_rwnd as usize);
        config.max_received_bytes = config.max_received_bytes.max(largest);
    }
    config
}

impl PortAssociation {
    fn new(shared: &Arc<AssociationShared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            readable: false,
            restarted: false,
            shutting_down: false,
            ended: None,
        }
    }
}
