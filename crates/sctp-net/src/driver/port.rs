//! One local SCTP port: its engine, and where the events and messages of its associations go.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use sctp::{
    AssociationId, AssociationStatistics, AssociationStatus, Connect, EndpointConfig, Event,
    IcmpError, PathAddress, PathChange, PathError, SendError, TagOwner, Transmit,
};
use tokio::sync::oneshot;

use crate::association::{AssociationShared, Introduction};
use crate::endpoint::Item;
use crate::error::{CloseCause, ConnectError};
use crate::inbox::Filled;
use crate::mailbox::{ConnectReply, Control, EndpointKey, Key, NewEndpoint, Style};
use crate::notifications::Notification;
use crate::outbox::Ending;
use crate::statistics::StackStatistics;

use super::Surroundings;
use super::host::HostAddresses;
use super::names::Names;

/// An endpoint as the driver sees it.
pub(super) struct Port {
    key: EndpointKey,
    engine: sctp::Endpoint,
    host: HostAddresses,
    style: Style,
    surroundings: Surroundings,
    connecting: BTreeMap<AssociationId, Connecting>,
    associations: BTreeMap<AssociationId, Known>,
    /// What the other workers know of them.
    names: Names,
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
struct Known {
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
    pub(super) fn new(endpoint: NewEndpoint, surroundings: Surroundings) -> Self {
        let key = endpoint.key;
        let config = share(endpoint.config, &surroundings);
        let mut engine = sctp::Endpoint::new(key.port, config, rand::make_rng());
        engine.set_local_addresses(surroundings.listed_addresses.clone());
        Self {
            key,
            engine,
            host: HostAddresses::default(),
            names: Names::new(key.port, &surroundings),
            style: endpoint.style,
            surroundings,
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
        self.host.tell(now, &mut self.engine);
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
            if self.names.claim(id, remote_port, remotes) {
                Ok(id)
            } else {
                // Another worker has got one meanwhile.
                self.names.release(id);
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
                // The one who asked may have gone meanwhile.
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
                engine.configure_path(now, id, remote, config)
            }
        }
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
    pub(super) fn attend_association(&mut self, now: Instant, id: AssociationId) {
        if let Some(known) = self.associations.get(&id) {
            known.shared.unlist();
            self.send_from(now, id);
            if self
                .associations
                .get(&id)
                .is_some_and(|known| known.readable)
            {
                self.deliver_from(now, id);
            }
        }
    }

    /// The inbox of a one-to-many endpoint has room again.
    pub(super) fn attend_inbox(&mut self, now: Instant) {
        self.deliver_in_turns(now);
    }

    /// The last handle of the endpoint is gone.
    pub(super) fn handles_dropped(&mut self, now: Instant, close_deadline: Instant) {
        match &self.style {
            Style::OneToOne(accepts) => {
                self.open = false;
                // Those that nobody will accept are released by this.
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
            if let Some(known) = self.associations.get(&id) {
                known.shared.outbox.end(Ending::Shutdown);
            }
            self.send_from(now, id);
            self.deliver_from(now, id);
        }
    }

    /// Whether nothing is left to do, now or later.
    pub(super) fn is_finished(&self) -> bool {
        !self.open && self.associations.is_empty() && self.connecting.is_empty()
    }

    /// The port is given up: everyone who waits for it is told.
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
        for known in self.associations.values() {
            known.shared.set_ended(CloseCause::StackClosed);
            known.shared.inbox.end();
        }
        self.names.release_all();
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

    /// Does what the engine's events ask for; false when there were none.
    pub(super) fn handle_events(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(event) = self.engine.poll_event() {
            self.handle_event(now, event);
            any = true;
        }
        any
    }

    /// Gives up the associations that nobody waits for any more.
    pub(super) fn abandon_connects(&mut self, now: Instant) {
        let abandoned = self
            .connecting
            .extract_if(.., |_, connecting| connecting.reply.is_closed());
        for (id, _) in abandoned {
            // It is gone already when its failure has not been polled yet.
            self.engine.abort(now, id, b"").ok();
        }
    }

    fn handle_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::CommunicationUp {
                id,
                outbound_streams,
                peer,
                peer_port,
                incoming,
                ..
            } => {
                // One of ours that nobody waits for any more has been aborted already.
                if incoming || self.connecting.contains_key(&id) {
                    self.communication_up(now, id, outbound_streams, peer, peer_port);
                }
            }
            Event::Readable { id } => self.deliver_from(now, id),
            Event::Writable { id } => self.send_from(now, id),
            Event::Restart {
                id,
                outbound_streams,
                inbound_streams,
            } => {
                let restarted = Notification::Restarted {
                    outbound_streams,
                    inbound_streams,
                };
                self.notify(id, restarted);
                self.claim_paths(id);
                if let Some(known) = self.associations.get_mut(&id) {
                    known.shared.set_outbound_streams(outbound_streams);
                    known.restarted = true;
                    // The engine forgot that it was shutting down.
                    known.shutting_down = false;
                    self.send_from(now, id);
                    self.deliver_from(now, id);
                }
            }
            Event::PeerShutdown { id } => {
                // As if asked for on this side too: should the peer restart before the end, the
                // association that it then has with us could not be used to send any more.
                self.notify(id, Notification::PeerShutdown);
                if let Some(known) = self.associations.get(&id) {
                    known.shared.outbox.end(Ending::Shutdown);
                }
                // What waits comes too late.
                self.send_from(now, id);
            }
            Event::ShutdownComplete { id } => self.ended(now, id, CloseCause::Shutdown),
            Event::CommunicationLost { id, cause, .. } => {
                self.ended(now, id, CloseCause::Lost(cause));
            }
            Event::CannotStart { id, cause } => {
                self.names.release(id);
                if let Some(connecting) = self.connecting.remove(&id) {
                    let error = ConnectError::CannotStart {
                        remote: SocketAddr::new(connecting.to.remote, connecting.remote_port),
                        encapsulation_port: connecting.to.encapsulation_port,
                        cause,
                    };
                    // The one who asked may have gone meanwhile.
                    connecting.reply.send(Err(error)).ok();
                }
            }
            Event::SendFailed {
                id,
                info,
                payload,
                was_sent,
            } => {
                let failed = Notification::SendFailed {
                    info,
                    payload,
                    was_sent,
                };
                self.notify(id, failed);
            }
            Event::PathStateChanged {
                id,
                path,
                change,
                state,
            } => {
                tracing::debug!(port = self.key.port, %id, ?path, ?change, ?state, "path changed");
                if change == PathChange::Added {
                    self.claim_paths(id);
                }
                let changed = Notification::PathChanged {
                    path,
                    change,
                    state,
                };
                self.notify(id, changed);
            }
            Event::SenderDry { id } => self.notify(id, Notification::SenderDry),
            Event::PartialDeliveryAborted {
                id,
                stream,
                unordered,
                ssn,
            } => {
                let aborted = Notification::PartialDeliveryAborted {
                    stream,
                    unordered,
                    ssn,
                };
                self.notify(id, aborted);
            }
            Event::RemoteError { id, causes } => {
                tracing::debug!(port = self.key.port, %id, ?causes, "the peer reported an error");
                self.notify(id, Notification::RemoteError { causes });
            }
        }
    }

    /// Tells the handles of an association, if it is or was up.
    fn notify(&self, id: AssociationId, notification: Notification) {
        if let Some(known) = self.associations.get(&id) {
            known.shared.notifications.push(notification);
        }
    }

    fn communication_up(
        &mut self,
        now: Instant,
        id: AssociationId,
        outbound_streams: u16,
        peer: PathAddress,
        peer_port: u16,
    ) {
        let connecting = self.connecting.remove(&id);
        if connecting.is_none() && !self.has_room_to_accept() {
            self.engine.abort(now, id, b"not accepted").ok();
            return;
        }
        if !self.claim_paths(id) {
            // The one that the other worker has is as good.
            self.duplicate_associations += 1;
            self.names.release(id);
            self.engine.abort(now, id, b"duplicate association").ok();
            if let Some(connecting) = connecting {
                let refused = ConnectError::Refused {
                    remote: SocketAddr::new(peer.remote, peer_port),
                    error: sctp::ConnectError::AlreadyAssociated,
                };
                connecting.reply.send(Err(refused)).ok();
            }
            return;
        }
        let config = self.engine.config();
        let local_ip = peer.local.unwrap_or(self.surroundings.local_addr.ip());
        let introduction = Introduction {
            key: Key {
                endpoint: self.key,
                worker: self.surroundings.worker,
                id,
            },
            local: SocketAddr::new(local_ip, self.key.port),
            peer: SocketAddr::new(peer.remote, peer_port),
            peer_encapsulation_port: peer.encapsulation_port,
            outbound_streams,
            max_message_size: config.max_message_size.min(config.send_buffer),
        };
        let mailbox = Arc::clone(&self.surroundings.mailbox);
        let shared = Arc::new(AssociationShared::new(introduction, mailbox));
        self.associations.insert(id, Known::new(&shared));
        let asked = connecting.map(|connecting| connecting.reply);
        let item = self.style.announce(shared, asked);
        if let (Some(item), Style::OneToMany(events)) = (item, &self.style) {
            events.inbox.push(item);
        }
    }

    /// Tells the other workers of the peer's addresses; false when one of them has the peer.
    fn claim_paths(&mut self, id: AssociationId) -> bool {
        if !self.names.are_needed() {
            return true;
        }
        let Some(status) = self.engine.status(id) else {
            return true;
        };
        let remotes = status.paths.iter().map(|path| path.address.remote);
        self.names.claim(id, status.peer_port, remotes)
    }

    fn has_room_to_accept(&mut self) -> bool {
        if !self.open {
            return false;
        }
        let room = self.style.waiting() < self.surroundings.accept_backlog;
        if !room {
            self.accept_overflows += 1;
        }
        room
    }

    fn ended(&mut self, now: Instant, id: AssociationId, cause: CloseCause) {
        self.names.release(id);
        if let Some(known) = self.associations.get_mut(&id) {
            known.shared.set_ended(cause.clone());
            known.ended = Some(cause);
            self.deliver_from(now, id);
        }
    }

    /// Gives what an association's handles have left for the engine to the engine.
    fn send_from(&mut self, now: Instant, id: AssociationId) {
        let Some(known) = self.associations.get_mut(&id) else {
            return;
        };
        if known.ended.is_some() {
            return;
        }
        let engine = &mut self.engine;
        let ending = known.shared.outbox.drain(|message| {
            match engine.send(now, id, message.info, message.payload.clone()) {
                Ok(()) => true,
                // An event will tell that there is room, or of the end.
                Err(SendError::BufferFull | SendError::UnknownAssociation) => false,
                Err(error) => {
                    // The peer shuts down, or has restarted and taken the stream away.
                    tracing::debug!(%id, %error, "a message cannot be sent");
                    known.shared.tell_not_sent(message);
                    true
                }
            }
        });
        // Either fails only when the association has ended, which its event will tell.
        match ending {
            Some(Ending::Shutdown) if !known.shutting_down => {
                known.shutting_down = true;
                engine.shutdown(now, id).ok();
            }
            Some(Ending::Abort(reason)) => drop(engine.abort(now, id, &reason)),
            _ => {}
        }
    }

    /// Gives what an association has received to the application, as far as there is room.
    fn deliver_from(&mut self, now: Instant, id: AssociationId) {
        let Some(known) = self.associations.get_mut(&id) else {
            return;
        };
        let was_readable = std::mem::replace(&mut known.readable, true);
        match self.style {
            Style::OneToOne(_) => self.deliver_to_association(now, id),
            Style::OneToMany(_) => {
                if !was_readable {
                    self.turns.push_back(id);
                }
                self.deliver_in_turns(now);
            }
        }
    }

    fn deliver_to_association(&mut self, now: Instant, id: AssociationId) {
        let Some(known) = self.associations.get_mut(&id) else {
            return;
        };
        let engine = &mut self.engine;
        let filled = if self.closing.is_some() || known.shared.is_released() {
            while engine.receive(now, id).is_some() {}
            Filled::Exhausted
        } else {
            known.shared.inbox.fill(|| {
                let message = engine.receive(now, id)?;
                let bytes = message.payload.len();
                Some((message, bytes))
            })
        };
        if filled == Filled::Full {
            return;
        }
        known.readable = false;
        if known.ended.is_some() {
            known.shared.inbox.end();
            self.associations.remove(&id);
        }
    }

    fn deliver_in_turns(&mut self, now: Instant) {
        let Style::OneToMany(events) = &self.style else {
            return;
        };
        let events = Arc::clone(events);
        if self.closing.is_some() {
            // Only ends are left to tell: one for each association.
            while let Some((item, _)) = self.next_item(now) {
                events.inbox.push(item);
            }
        } else {
            // When the inbox is full, who takes from it calls for the rest.
            events.inbox.fill(|| self.next_item(now));
        }
    }

    /// The next item for the inbox of a one-to-many endpoint, and the bytes of its payload.
    fn next_item(&mut self, now: Instant) -> Option<(Item, usize)> {
        loop {
            let id = self.turns.pop_front()?;
            let Some(known) = self.associations.get_mut(&id) else {
                continue;
            };
            let shared = Arc::clone(&known.shared);
            let unwanted = self.closing.is_some() || shared.is_released();
            if std::mem::take(&mut known.restarted) && !unwanted {
                self.turns.push_back(id);
                return Some((Item::Restarted(shared), 0));
            }
            if let Some(message) = self.engine.receive(now, id) {
                self.turns.push_back(id);
                if unwanted {
                    continue;
                }
                let bytes = message.payload.len();
                return Some((Item::Message(shared, message), bytes));
            }
            known.readable = false;
            let Some(cause) = known.ended.take() else {
                continue;
            };
            self.associations.remove(&id);
            shared.inbox.end();
            if !shared.is_released() {
                return Some((Item::Closed(shared, cause), 0));
            }
        }
    }

    fn ids(&self) -> Vec<AssociationId> {
        self.associations.keys().copied().collect()
    }
}

/// The settings of a worker's share of an endpoint: its tags name it, and the bounds of the endpoint
/// are shared out.
fn share(mut config: EndpointConfig, surroundings: &Surroundings) -> EndpointConfig {
    let count = surroundings.workers;
    if count > 1 {
        // Neither can be large: see how many workers there may be.
        config.tag_owner = Some(TagOwner {
            index: surroundings.worker as u32,
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
        let largest = config.max_message_size.min(config.a_rwnd as usize);
        config.max_received_bytes = config.max_received_bytes.max(largest);
    }
    config
}

impl Known {
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
