//! The events of a port's engine: associations that come up, change and end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use sctp::{AssociationId, Event, PathAddress, PathChange};

use super::{Port, PortAssociation};
use crate::association_shared::{AssociationParameters, AssociationShared};
use crate::error::{CloseCause, ConnectError};
use crate::keys::AssociationKey;
use crate::notifications::Notification;
use crate::send_queue::Ending;
use crate::style::Style;

impl Port {
    /// Does what the engine's events ask for; false when there were none.
    pub(in crate::driver) fn handle_events(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(event) = self.engine.poll_event() {
            self.handle_event(now, event);
            any = true;
        }
        any
    }

    pub(super) fn handle_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::CommunicationUp {
                id,
                outbound_streams,
                peer,
                peer_port,
                incoming,
                ..
            } => {
                // An association of our own whose `connect` was given up has been aborted already.
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
                if let Some(association) = self.associations.get_mut(&id) {
                    association.shared.set_outbound_streams(outbound_streams);
                    association.restarted = true;
                    // The engine forgot that it was shutting down.
                    association.shutting_down = false;
                    self.send_from(now, id);
                    self.deliver_from(now, id);
                }
            }
            Event::PeerShutdown { id } => {
                // As if asked for on this side too: should the peer restart before the end, the
                // association that it then has with us could not be used to send any more.
                self.notify(id, Notification::PeerShutdown);
                if let Some(association) = self.associations.get(&id) {
                    association.shared.send_queue.end(Ending::Shutdown);
                }
                // What waits comes too late.
                self.send_from(now, id);
            }
            Event::ShutdownComplete { id } => self.ended(now, id, CloseCause::Shutdown),
            Event::CommunicationLost { id, cause, .. } => {
                self.ended(now, id, CloseCause::Lost(cause));
            }
            Event::CannotStart { id, cause } => {
                self.claimed_peers.release(id);
                if let Some(connecting) = self.connecting.remove(&id) {
                    let error = ConnectError::CannotStart {
                        remote: SocketAddr::new(connecting.to.remote, connecting.remote_port),
                        encapsulation_port: connecting.to.encapsulation_port,
                        cause,
                    };
                    // The caller of `connect` may have given up meanwhile.
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
            Event::Authentication { id, indication } => {
                self.notify(id, Notification::Authentication(indication));
            }
            Event::AddressChangeAnswered {
                id,
                change,
                outcome,
            } => {
                let answered = Notification::AddressChangeAnswered { change, outcome };
                self.notify(id, answered);
            }
            Event::AdaptationLayer { id, code_point } => {
                self.notify(id, Notification::AdaptationLayer { code_point });
            }
            Event::StreamReset {
                id,
                direction,
                streams,
                outcome,
            } => {
                let reset = Notification::StreamReset {
                    direction,
                    streams,
                    outcome,
                };
                self.notify(id, reset);
            }
            Event::AssociationReset {
                id,
                local_tsn,
                remote_tsn,
                outcome,
            } => {
                let reset = Notification::AssociationReset {
                    local_tsn,
                    remote_tsn,
                    outcome,
                };
                self.notify(id, reset);
            }
            Event::StreamChange {
                id,
                outbound_streams,
                inbound_streams,
                outcome,
            } => {
                if let Some(association) = self.associations.get(&id) {
                    association.shared.set_outbound_streams(outbound_streams);
                }
                let change = Notification::StreamChange {
                    outbound_streams,
                    inbound_streams,
                    outcome,
                };
                self.notify(id, change);
            }
            event => tracing::debug!(
                port = self.key.port,
                ?event,
                "an event that no handle takes"
            ),
        }
    }

    /// Notifies the handles of an association, if it is or was up.
    fn notify(&self, id: AssociationId, notification: Notification) {
        if let Some(association) = self.associations.get(&id) {
            association.shared.notifications.push(notification);
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
            self.claimed_peers.release(id);
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
        let config = &self.engine.config().association;
        let local_ip = peer.local.unwrap_or(self.context.local_addr.ip());
        let parameters = AssociationParameters {
            key: AssociationKey {
                endpoint: self.key,
                worker: self.context.worker,
                id,
            },
            local: SocketAddr::new(local_ip, self.key.port),
            peer: SocketAddr::new(peer.remote, peer_port),
            peer_encapsulation_port: peer.encapsulation_port,
            outbound_streams,
            max_message_size: config.max_message_size.min(config.send_buffer),
        };
        let service = Arc::clone(self.context.mailbox.service());
        let shared = Arc::new(AssociationShared::new(parameters, service));
        self.associations.insert(id, PortAssociation::new(&shared));
        let reply = connecting.map(|connecting| connecting.reply);
        let item = self.style.announce(shared, reply);
        if let (Some(item), Style::OneToMany(events)) = (item, &self.style) {
            events.inbox.push(item);
        }
    }

    /// Claims the peer's addresses for this worker; false when another worker has the peer.
    fn claim_paths(&mut self, id: AssociationId) -> bool {
        if !self.claimed_peers.are_needed() {
            return true;
        }
        let Some(status) = self.engine.status(id) else {
            return true;
        };
        let remotes = status.paths.iter().map(|path| path.address.remote);
        self.claimed_peers.claim(id, status.peer_port, remotes)
    }

    fn has_room_to_accept(&mut self) -> bool {
        if !self.open {
            return false;
        }
        let room = self.style.waiting() < self.context.accept_backlog;
        if !room {
            self.accept_overflows += 1;
        }
        room
    }

    fn ended(&mut self, now: Instant, id: AssociationId, cause: CloseCause) {
        self.claimed_peers.release(id);
        if let Some(association) = self.associations.get_mut(&id) {
            association.shared.set_ended(cause.clone());
            association.ended = Some(cause);
            self.deliver_from(now, id);
        }
    }
}
