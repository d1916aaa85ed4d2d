//! One endpoint: its socket, and where the events and messages of its associations go.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sctp::{
    AssociationConfig, AssociationId, AssociationStatistics, AssociationStatus, Connect,
    EndpointConfig, LostCause, PathError,
};
use tokio::sync::oneshot;

use super::association::{Connecting, PortAssociation};
use super::options;
use super::received::Received;
use super::socket::{RECEIVE_BUFFER, Socket};
use super::status::AssociationQuery;
use super::watch::{Direction, Owner, Ready, Watched, Watches};
use crate::error::{CloseCause, ConnectError};
use crate::keys::EndpointKey;
use crate::mailbox::{Control, Mailbox};
use crate::send_queue::Ending;
use crate::statistics::StackStatistics;
use crate::style::{ConnectReply, InboxEvent, Style};

/// What an endpoint knows of its stack.
#[derive(Clone, Debug)]
pub(super) struct StackContext {
    pub(super) accept_backlog: usize,
    pub(super) close_timeout: Duration,
    pub(super) mailbox: Arc<Mailbox>,
}

/// An endpoint as the driver sees it.
///
/// In one-to-one style each association gets a socket of its own as soon as it is up (RFC 6458 section 9.2),
/// so that one whose messages are not received does not hold up the others.
pub(super) struct Port {
    pub(super) key: EndpointKey,
    /// The socket in one-to-many style.
    pub(super) main: Watched,
    pub(super) config: EndpointConfig,
    pub(super) style: Style,
    pub(super) associations: BTreeMap<AssociationId, PortAssociation>,
    pub(super) connecting: BTreeMap<i32, Connecting>,
    /// The associations by the kernel's names of them.
    pub(super) by_assoc_id: BTreeMap<i32, AssociationId>,
    /// An association of the main socket that has ended, while it is read which messages were not sent.
    pub(super) leaving: Option<AssociationId>,
    /// What was read from the main socket and is still to be dealt with.
    pub(super) held: Option<Received>,
    /// What is to be waited for from now on.
    pub(super) wanted: Vec<(Option<AssociationId>, Direction)>,
    pub(super) buffer: Vec<u8>,
    /// Whether new associations are welcome.
    pub(super) open: bool,
    closing: Option<Closing>,
    /// How many associations there were.
    pub(super) begun: u64,
    pub(super) context: StackContext,
    pub(super) counted: StackStatistics,
}

struct Closing {
    deadline: Instant,
    replies: Vec<oneshot::Sender<()>>,
}

impl Port {
    /// Takes a socket over.
    ///
    /// # Errors
    ///
    /// When the runtime cannot wait for it.
    pub(super) fn new(
        key: EndpointKey,
        socket: Socket,
        config: EndpointConfig,
        style: Style,
        context: StackContext,
    ) -> io::Result<Self> {
        let owner = Owner {
            endpoint: key.number,
            association: None,
        };
        Ok(Self {
            key,
            main: Watched::new(socket, owner)?,
            config,
            style,
            associations: BTreeMap::new(),
            connecting: BTreeMap::new(),
            by_assoc_id: BTreeMap::new(),
            leaving: None,
            held: None,
            wanted: vec![(None, Direction::Read)],
            buffer: vec![0; RECEIVE_BUFFER],
            open: true,
            closing: None,
            begun: 0,
            context,
            counted: StackStatistics::default(),
        })
    }

    /// Has `watches` wait for what is to be waited for.
    pub(super) fn watch(&mut self, watches: &Watches) {
        for (owner, direction) in std::mem::take(&mut self.wanted) {
            if let Some(watched) = self.watched(owner) {
                watched.watch(watches, direction);
            }
        }
    }

    /// A socket may be read or written to.
    pub(super) fn handle_ready(&mut self, ready: Ready) {
        let owner = ready.owner.association;
        if let Some(watched) = self.watched(owner) {
            watched.seen(ready.direction);
        }
        match (ready.direction, owner) {
            (Direction::Read, None) => self.read_main(),
            (Direction::Read, Some(id)) => self.read_own(id),
            (Direction::Write, Some(id)) => self.send_from(id),
            (Direction::Write, None) => {
                for id in self.ids() {
                    self.send_from(id);
                }
            }
        }
    }

    fn watched(&mut self, owner: Option<AssociationId>) -> Option<&mut Watched> {
        match owner {
            None => Some(&mut self.main),
            Some(id) => self.associations.get_mut(&id)?.own.as_mut(),
        }
    }

    pub(super) fn connect(&mut self, to: Connect, reply: ConnectReply) {
        if reply.is_closed() {
            return;
        }
        let first = to.peer.first().filter(|_| self.open);
        let Some(remote) = first.map(|path| SocketAddr::new(path.remote, to.port)) else {
            reply.send(Err(ConnectError::Closed)).ok();
            return;
        };
        let addresses: Vec<IpAddr> = to.peer.iter().map(|path| path.remote).collect();
        let config = to.config.as_ref().unwrap_or(&self.config.association);
        match self.begin(&addresses, to.port, to.config.as_ref()) {
            Ok(assoc_id) => {
                let connecting = Connecting {
                    remote,
                    since: Instant::now(),
                    config: config.clone(),
                    reply,
                };
                self.connecting.insert(assoc_id, connecting);
            }
            Err(error) => {
                let already = matches!(
                    error.raw_os_error(),
                    Some(libc::EISCONN | libc::EALREADY | libc::EADDRNOTAVAIL)
                );
                let refused = if already {
                    ConnectError::Refused {
                        remote,
                        error: sctp::ConnectError::AlreadyAssociated,
                    }
                } else {
                    ConnectError::Kernel {
                        remote,
                        reason: error.to_string(),
                    }
                };
                // The caller of `connect` may have given up meanwhile.
                reply.send(Err(refused)).ok();
            }
        }
    }

    fn begin(
        &self,
        addresses: &[IpAddr],
        port: u16,
        config: Option<&AssociationConfig>,
    ) -> io::Result<i32> {
        let socket = self.main.socket();
        let Some(config) = config else {
            return socket.connect(addresses, port);
        };
        // The socket's settings hold for what begins now.
        let applied = options::apply_to_future(socket.as_fd(), config);
        let assoc_id = applied.and_then(|()| socket.connect(addresses, port));
        options::apply_to_future(socket.as_fd(), &self.config.association)?;
        assoc_id
    }

    /// Aborts the associations whose `connect` was given up.
    pub(super) fn abandon_connects(&mut self) {
        let abandoned = self
            .connecting
            .extract_if(.., |_, connecting| connecting.reply.is_closed());
        for (assoc_id, _) in abandoned {
            // It is refused for one that has just failed.
            self.main.socket().abort(assoc_id, b"").ok();
        }
    }

    /// Changes something about an association.
    pub(super) fn control(&mut self, id: AssociationId, control: Control) -> Result<(), PathError> {
        let association = self.associations.get(&id);
        let association = association.ok_or(PathError::UnknownAssociation)?;
        let query = self.query(association);
        let socket = query.socket.as_fd();
        match control {
            Control::SetPrimary(remote) => query.set_primary(remote),
            Control::RequestHeartbeat(remote) => {
                let peer = query.peer(remote)?;
                let done = options::request_heartbeat(socket, association.assoc_id, peer);
                done.map_err(|_| PathError::UnknownPath)
            }
            Control::Configure(config) => {
                if query.status().is_none() {
                    return Err(PathError::UnknownAssociation);
                }
                let done = options::apply_to_association(socket, association.assoc_id, &config);
                done.unwrap_or_else(|error| tracing::warn!(%id, "{error}"));
                Ok(())
            }
            Control::ConfigurePath(remote, config) => {
                let peer = query.peer(remote)?;
                let done =
                    options::apply_to_path(socket, association.assoc_id, Some(peer), &config);
                done.unwrap_or_else(|error| tracing::warn!(%id, %remote, "{error}"));
                Ok(())
            }
        }
    }

    pub(super) fn status(&self, id: AssociationId) -> Option<AssociationStatus> {
        let association = self.associations.get(&id)?;
        self.query(association).status()
    }

    pub(super) fn association_statistics(
        &mut self,
        id: AssociationId,
    ) -> Option<AssociationStatistics> {
        self.ask_counters(id);
        Some(self.associations.get(&id)?.counted)
    }

    pub(super) fn statistics(&mut self) -> StackStatistics {
        for id in self.ids() {
            self.ask_counters(id);
        }
        let mut sum = self.counted;
        for association in self.associations.values() {
            add(&mut sum, association.counted);
        }
        sum
    }

    /// The handles of an association want something.
    pub(super) fn service_association(&mut self, id: AssociationId) {
        if let Some(association) = self.associations.get(&id) {
            association.shared.service_begins();
            let may_read = association.paused || association.shared.is_released();
            self.send_from(id);
            if may_read {
                self.read_own(id);
            }
        }
    }

    /// The inbox of an endpoint in one-to-many style has room again.
    pub(super) fn service_inbox(&mut self) {
        self.read_main();
    }

    /// The last handle of the endpoint is gone.
    pub(super) fn handles_dropped(&mut self, close_deadline: Instant) {
        match &self.style {
            Style::OneToOne(accepts) => {
                self.open = false;
                // Associations that were not accepted are released by this.
                accepts.inbox.clear();
                self.main.socket().stop_listening();
            }
            Style::OneToMany(_) => self.close(close_deadline, None),
        }
    }

    /// Begins to shut everything down; what is left at `deadline` is aborted.
    pub(super) fn close(&mut self, deadline: Instant, reply: Option<oneshot::Sender<()>>) {
        self.open = false;
        self.main.socket().stop_listening();
        let closing = self.closing.get_or_insert_with(|| Closing {
            deadline,
            replies: Vec::new(),
        });
        closing.replies.extend(reply);
        if let Style::OneToOne(accepts) = &self.style {
            accepts.inbox.clear();
            accepts.inbox.end();
        }
        for (assoc_id, _) in std::mem::take(&mut self.connecting) {
            // It is refused for one that has just failed.
            self.main.socket().abort(assoc_id, b"").ok();
        }
        for id in self.ids() {
            if let Some(association) = self.associations.get(&id) {
                association.shared.send_queue.end(Ending::Shutdown);
            }
            self.send_from(id);
            self.read_own(id);
        }
        self.read_main();
    }

    /// Whether what arrives is not wanted any more.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Whether nothing is left to do, now or later.
    pub(super) fn is_finished(&self) -> bool {
        !self.open && self.associations.is_empty() && self.connecting.is_empty()
    }

    /// Ends the port and completes all pending replies.
    pub(super) fn finish(mut self) -> StackStatistics {
        let statistics = self.statistics();
        for association in self.associations.values() {
            association.shared.set_ended(CloseCause::StackClosed);
            association.shared.inbox.end();
        }
        self.style.worker_finished();
        let closing = self.closing.take();
        // Whoever waits may open the port again at once.
        drop(self);
        for reply in closing.into_iter().flat_map(|closing| closing.replies) {
            reply.send(()).ok();
        }
        statistics
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let closing = self.closing.as_ref().map(|closing| closing.deadline);
        closing.filter(|_| !self.associations.is_empty())
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.next_timeout().is_some_and(|deadline| deadline <= now) {
            for id in self.ids() {
                if self
                    .associations
                    .get(&id)
                    .is_some_and(|association| association.aborted)
                {
                    // The kernel has had its time to report the end.
                    let item = self.remove(id, CloseCause::Lost(LostCause::AbortedLocally));
                    if let (Some(item), Style::OneToMany(events)) = (item, &self.style) {
                        events.inbox.push(item);
                    }
                } else {
                    self.abort(id, b"shutdown took too long");
                }
            }
        }
    }

    /// Gives what an association's handles have left for the kernel to the kernel.
    pub(super) fn send_from(&mut self, id: AssociationId) {
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        if association.ended.is_some() {
            return;
        }
        let watched = association.own.as_ref().unwrap_or(&self.main);
        let (assoc_id, remote_port) = (association.assoc_id, association.shared.peer.port());
        let mut blocked = false;
        let counted = &mut association.counted;
        let ending = association.shared.send_queue.drain(|message| {
            let send = |socket: &Socket| {
                socket.send(assoc_id, remote_port, &message.info, &message.payload)
            };
            match watched.try_write(send) {
                Ok(()) => counted.messages_sent += 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    blocked = true;
                    return false;
                }
                Err(error) => {
                    // The peer shuts down, or has restarted and taken the stream away.
                    tracing::debug!(%id, %error, "a message cannot be sent");
                    association.shared.notify_send_failed(message);
                }
            }
            true
        });
        if blocked {
            let owner = association.own.is_some().then_some(id);
            self.wanted.push((owner, Direction::Write));
        }
        match ending {
            Some(Ending::Shutdown) if !association.shutting_down => {
                association.shutting_down = true;
                // It is refused for one that has ended; a notification follows.
                watched.socket().shut_down(assoc_id).ok();
                self.ask_counters(id);
            }
            Some(Ending::Abort(reason)) => self.abort(id, &reason),
            _ => {}
        }
    }

    /// Ends an association at once.
    pub(super) fn abort(&mut self, id: AssociationId, reason: &[u8]) {
        self.ask_counters(id);
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut association.aborted, true) {
            return;
        }
        let has_own = association.own.is_some();
        let watched = association.own.as_ref().unwrap_or(&self.main);
        let aborted = watched.socket().abort(association.assoc_id, reason);
        if has_own {
            self.read_rest(id);
            self.remove(id, CloseCause::Lost(LostCause::AbortedLocally));
        } else {
            // The end is read from the main socket, unless it has been already.
            aborted.unwrap_or_else(|error| tracing::debug!(%id, %error, "nothing to abort"));
            self.wanted.push((None, Direction::Read));
        }
    }

    /// Removes an association that has ended; returns the event for the inbox of a one-to-many endpoint.
    pub(super) fn remove(&mut self, id: AssociationId, cause: CloseCause) -> Option<InboxEvent> {
        let association = self.associations.remove(&id)?;
        self.by_assoc_id.remove(&association.assoc_id);
        add(&mut self.counted, association.counted);
        let shared = association.shared;
        shared.set_ended(cause.clone());
        shared.inbox.end();
        let is_reported = matches!(self.style, Style::OneToMany(_)) && !shared.is_released();
        is_reported.then_some(InboxEvent::Closed(shared, cause))
    }

    fn ask_counters(&mut self, id: AssociationId) {
        let counters = self
            .associations
            .get(&id)
            .and_then(|association| self.query(association).statistics());
        if let (Some(counters), Some(association)) = (counters, self.associations.get_mut(&id)) {
            association.count(counters);
        }
    }

    fn query<'a>(&'a self, association: &'a PortAssociation) -> AssociationQuery<'a> {
        AssociationQuery {
            socket: association.own.as_ref().unwrap_or(&self.main).socket(),
            association: association.assoc_id,
        }
    }

    fn ids(&self) -> Vec<AssociationId> {
        self.associations.keys().copied().collect()
    }
}

/// Adds what an association has counted to what its stack has.
fn add(sum: &mut StackStatistics, association: AssociationStatistics) {
    sum.carrier.packets_sent += association.packets_sent;
    sum.carrier.packets_received += association.packets_received;
    sum.sctp.packets_sent += association.packets_sent;
    sum.sctp.packets_received += association.packets_received;
    sum.sctp.retransmitted_by_timeout += association.retransmitted_by_timeout;
    sum.sctp.retransmitted_fast += association.retransmitted_fast;
    sum.sctp.duplicates_received += association.duplicates_received;
}
