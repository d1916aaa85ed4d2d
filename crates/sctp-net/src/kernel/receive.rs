//! What an endpoint receives: from the socket of all its associations, and from those that associations have to
//! themselves.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use sctp::{AssociationId, ReceivedMessage};

use super::association::TooLarge;
use super::notification::{Content, KernelNotification};
use super::port::Port;
use super::received::Received;
use super::socket::Arrived;
use super::watch::Direction;
use crate::error::CloseCause;
use crate::inbox::Filled;
use crate::send_queue::Ending;
use crate::style::{InboxEvent, Style};

/// How often a socket is read before others have their turn.
const TURN: usize = 256;

impl Port {
    /// Reads the socket of all associations.
    pub(super) fn read_main(&mut self) {
        let mut turn = TURN;
        let filled = match &self.style {
            Style::OneToMany(events) if !self.is_closing() => {
                let events = Arc::clone(events);
                events.inbox.fill(|| self.next_item(&mut turn))
            }
            Style::OneToMany(events) => {
                // Only the ends are left, one for each association.
                let events = Arc::clone(events);
                while let Some((item, _)) = self.next_item(&mut turn) {
                    events.inbox.push(item);
                }
                Filled::Exhausted
            }
            Style::OneToOne(_) => {
                while let Some((item, _)) = self.next_item(&mut turn) {
                    // Of an association that had ended before it could get a socket of its own: the
                    // kernel's buffer bounds how much there is.
                    if let InboxEvent::Message(shared, message) = item {
                        shared.inbox.push(message);
                    }
                }
                Filled::Exhausted
            }
        };
        // When the inbox is full, whoever takes from it requests service again.
        if filled == Filled::Exhausted {
            self.wanted.push((None, Direction::Read));
        }
    }

    /// The next item of the socket of all associations, and the bytes of its payload.
    fn next_item(&mut self, turn: &mut usize) -> Option<(InboxEvent, usize)> {
        loop {
            let received = match self.held.take() {
                Some(received) => Some(received),
                None => self.receive(None, turn),
            };
            if let Some(id) = self.leaving
                && !received
                    .as_ref()
                    .is_some_and(|received| self.is_about(received, id))
            {
                self.leaving = None;
                self.held = received;
                let association = self.associations.get_mut(&id);
                let cause = association.and_then(|association| association.ended.take());
                match cause.and_then(|cause| self.remove(id, cause)) {
                    Some(item) => return Some((item, 0)),
                    None => continue,
                }
            }
            match received? {
                Received::Message(id, message) => {
                    let Some(association) = self.associations.get(&id) else {
                        continue;
                    };
                    if self.is_closing() || association.shared.is_released() {
                        continue;
                    }
                    let bytes = message.payload.len();
                    let shared = Arc::clone(&association.shared);
                    return Some((InboxEvent::Message(shared, message), bytes));
                }
                Received::Notification(peer, notification) => {
                    if let Some(item) = self.handle_notification(peer, notification) {
                        return Some((item, 0));
                    }
                }
                Received::Nothing => {}
            }
        }
    }

    /// Whether it is a notification about an association.
    fn is_about(&self, received: &Received, id: AssociationId) -> bool {
        let Received::Notification(_, notification) = received else {
            return false;
        };
        self.by_assoc_id.get(&notification.association) == Some(&id)
    }

    /// Reads the socket that an association has to itself.
    pub(super) fn read_own(&mut self, id: AssociationId) {
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        if association.own.is_none() {
            return;
        }
        association.paused = false;
        let shared = Arc::clone(&association.shared);
        let mut turn = TURN;
        if self.is_closing() || shared.is_released() {
            while self.next_message(id, &mut turn).is_some() {}
        } else {
            let filled = shared.inbox.fill(|| {
                let message = self.next_message(id, &mut turn)?;
                let bytes = message.payload.len();
                Some((message, bytes))
            });
            if filled == Filled::Full && !self.read_beyond(id, &mut turn) {
                return;
            }
        }
        let ended = self
            .associations
            .get_mut(&id)
            .map(|association| association.ended.take());
        match ended {
            Some(Some(cause)) => drop(self.remove(id, cause)),
            Some(None) => self.wanted.push((Some(id), Direction::Read)),
            None => {}
        }
    }

    /// Reads all that is left in the socket of an association that has been aborted: messages, and which were not
    /// sent.
    pub(super) fn read_rest(&mut self, id: AssociationId) {
        let Some(association) = self.associations.get(&id) else {
            return;
        };
        let unwanted = self.is_closing() || association.shared.is_released();
        let shared = Arc::clone(&association.shared);
        // The kernel's buffers bound how much there is.
        let mut turn = usize::MAX;
        while let Some(message) = self.next_message(id, &mut turn) {
            if !unwanted {
                shared.inbox.push(message);
            }
        }
    }

    /// Goes on though the inbox is full while the association is being shut down: its end comes behind the last
    /// message, and who waits for the end need not receive. A window more is the most. Returns whether to go on
    /// reading later.
    fn read_beyond(&mut self, id: AssociationId, turn: &mut usize) -> bool {
        let most = self.config.association.a_rwnd as usize;
        loop {
            let Some(association) = self.associations.get_mut(&id) else {
                return true;
            };
            if !association.shutting_down || association.beyond >= most {
                association.paused = true;
                return false;
            }
            let shared = Arc::clone(&association.shared);
            let Some(message) = self.next_message(id, turn) else {
                return true;
            };
            if let Some(association) = self.associations.get_mut(&id) {
                association.beyond += message.payload.len();
            }
            shared.inbox.push(message);
        }
    }

    /// The next message of an association's own socket.
    fn next_message(&mut self, id: AssociationId, turn: &mut usize) -> Option<ReceivedMessage> {
        loop {
            match self.receive(Some(id), turn)? {
                Received::Message(_, message) => return Some(message),
                Received::Notification(peer, notification) => {
                    self.handle_notification(peer, notification);
                }
                Received::Nothing => {}
            }
        }
    }

    /// Receives from the socket that `owner` has to itself, or that of all; `None` when there is nothing more, for
    /// now.
    fn receive(&mut self, owner: Option<AssociationId>, turn: &mut usize) -> Option<Received> {
        let (watched, is_leaving) = match owner {
            None => (&self.main, self.leaving.is_some()),
            Some(id) => {
                let association = self.associations.get(&id)?;
                (association.own.as_ref()?, association.ended.is_some())
            }
        };
        // What comes behind the end of an association are the messages that were not sent.
        if !is_leaving {
            *turn = turn.checked_sub(1)?;
        }
        let buffer = &mut self.buffer;
        let part = match watched.try_read(|socket| socket.receive(buffer)) {
            Ok(Arrived::Part(part)) => part,
            Ok(Arrived::Notification(peer, notification)) => {
                return Some(Received::Notification(peer, notification));
            }
            Ok(Arrived::Nothing) => return Some(Received::Nothing),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(error) => {
                tracing::debug!(port = self.key.port, %error, "receiving from SCTP of the kernel failed");
                return Some(Received::Nothing);
            }
        };
        // An association that was aborted may have left something.
        let id = owner.or_else(|| self.by_assoc_id.get(&part.association).copied());
        let association = id.and_then(|id| Some((id, self.associations.get_mut(&id)?)));
        let Some((id, association)) = association else {
            return Some(Received::Nothing);
        };
        match association.assemble(&part, &self.config.association) {
            Ok(Some(message)) => Some(Received::Message(id, message)),
            Ok(None) => Some(Received::Nothing),
            Err(TooLarge) => {
                association
                    .shared
                    .end(Ending::Abort("message too large".into()));
                Some(Received::Nothing)
            }
        }
    }

    /// Handles a notification; returns the event for the inbox of a one-to-many endpoint.
    fn handle_notification(
        &mut self,
        peer: Option<SocketAddr>,
        notification: KernelNotification,
    ) -> Option<InboxEvent> {
        let assoc_id = notification.association;
        tracing::debug!(port = self.key.port, assoc_id, ?notification.content, "notification");
        match notification.content {
            Content::CommunicationUp { outbound_streams } => {
                let connecting = self.connecting.remove(&assoc_id);
                let remote = connecting.as_ref().map(|connecting| connecting.remote);
                let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
                let peer = peer.or(remote).unwrap_or(nowhere);
                self.communication_up(assoc_id, outbound_streams, peer, connecting)
            }
            Content::CannotStart(reason) => {
                if let Some(connecting) = self.connecting.remove(&assoc_id) {
                    connecting.fail(reason);
                }
                None
            }
            content => {
                let Some(&id) = self.by_assoc_id.get(&assoc_id) else {
                    // It may not be up yet.
                    if let (Content::CommunicationLost(reason), Some(connecting)) =
                        (content, self.connecting.remove(&assoc_id))
                    {
                        connecting.fail(reason);
                    }
                    return None;
                };
                self.handle_news(id, content)
            }
        }
    }

    fn handle_news(&mut self, id: AssociationId, content: Content) -> Option<InboxEvent> {
        let association = self.associations.get_mut(&id)?;
        match content {
            Content::ShutdownComplete => {
                self.ended(id, CloseCause::Shutdown);
                None
            }
            Content::CommunicationLost(reason) => {
                let cause = association.lost(reason);
                self.ended(id, CloseCause::Lost(cause));
                None
            }
            content => {
                let restarted = matches!(content, Content::Restart { .. });
                let shuts_down = matches!(content, Content::PeerShutdown);
                association.notify(content);
                let shared = Arc::clone(&association.shared);
                if shuts_down {
                    // As if asked for on this side too.
                    shared.end(Ending::Shutdown);
                    association.shutting_down = true;
                }
                if restarted {
                    // What waits to be sent may go on, but not from here: an inbox is being filled.
                    shared.request_service();
                }
                let is_reported = restarted && matches!(self.style, Style::OneToMany(_));
                is_reported.then_some(InboxEvent::Restarted(shared))
            }
        }
    }

    /// An association has ended, and all that came before has been received. Whoever reads puts an end to it
    /// when he has read what comes behind: which messages were not sent.
    fn ended(&mut self, id: AssociationId, cause: CloseCause) {
        if let Some(association) = self.associations.get_mut(&id) {
            association.ended = Some(cause);
            if association.own.is_none() {
                self.leaving = Some(id);
            }
        }
    }
}
