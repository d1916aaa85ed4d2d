//! What an endpoint receives: from the socket of all its associations, and from those that associations have to
//! themselves.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use sctp::{AssociationId, ReceivedMessage};

use super::got::Got;
use super::known::TooLarge;
use super::notification::{Content, KernelNotification};
use super::port::Port;
use super::socket::Arrived;
use super::watch::Direction;
use crate::endpoint::Item;
use crate::error::CloseCause;
use crate::inbox::Filled;
use crate::mailbox::Style;
use crate::outbox::Ending;

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
                // Only ends are left to tell: one for each association.
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
                    if let Item::Message(shared, message) = item {
                        shared.inbox.push(message);
                    }
                }
                Filled::Exhausted
            }
        };
        // Where the inbox is full, who takes from it calls for the rest.
        if filled == Filled::Exhausted {
            self.wanted.push((None, Direction::Read));
        }
    }

    /// The next item of the socket of all associations, and the bytes of its payload.
    fn next_item(&mut self, turn: &mut usize) -> Option<(Item, usize)> {
        loop {
            let got = match self.held.take() {
                Some(got) => Some(got),
                None => self.receive(None, turn),
            };
            if let Some(id) = self.leaving
                && !got.as_ref().is_some_and(|got| self.is_about(got, id))
            {
                self.leaving = None;
                self.held = got;
                let known = self.associations.get_mut(&id);
                let cause = known.and_then(|known| known.ended.take());
                match cause.and_then(|cause| self.remove(id, cause)) {
                    Some(item) => return Some((item, 0)),
                    None => continue,
                }
            }
            match got? {
                Got::Message(id, message) => {
                    let Some(known) = self.associations.get(&id) else {
                        continue;
                    };
                    if self.is_closing() || known.shared.is_released() {
                        continue;
                    }
                    let bytes = message.payload.len();
                    let shared = Arc::clone(&known.shared);
                    return Some((Item::Message(shared, message), bytes));
                }
                Got::Notification(peer, notification) => {
                    if let Some(item) = self.handle_notification(peer, notification) {
                        return Some((item, 0));
                    }
                }
                Got::Nothing => {}
            }
        }
    }

    /// Whether it is a notification about an association.
    fn is_about(&self, got: &Got, id: AssociationId) -> bool {
        let Got::Notification(_, notification) = got else {
            return false;
        };
        self.names.get(&notification.association) == Some(&id)
    }

    /// Reads the socket that an association has to itself.
    pub(super) fn read_own(&mut self, id: AssociationId) {
        let Some(known) = self.associations.get_mut(&id) else {
            return;
        };
        if known.own.is_none() {
            return;
        }
        known.paused = false;
        let shared = Arc::clone(&known.shared);
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
            .map(|known| known.ended.take());
        match ended {
            Some(Some(cause)) => drop(self.remove(id, cause)),
            Some(None) => self.wanted.push((Some(id), Direction::Read)),
            None => {}
        }
    }

    /// Reads all that is left in the socket of an association that has been aborted: messages, and which were not
    /// sent.
    pub(super) fn read_rest(&mut self, id: AssociationId) {
        let Some(known) = self.associations.get(&id) else {
            return;
        };
        let unwanted = self.is_closing() || known.shared.is_released();
        let shared = Arc::clone(&known.shared);
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
        let most = self.config.a_rwnd as usize;
        loop {
            let Some(known) = self.associations.get_mut(&id) else {
                return true;
            };
            if !known.shutting_down || known.beyond >= most {
                known.paused = true;
                return false;
            }
            let shared = Arc::clone(&known.shared);
            let Some(message) = self.next_message(id, turn) else {
                return true;
            };
            if let Some(known) = self.associations.get_mut(&id) {
                known.beyond += message.payload.len();
            }
            shared.inbox.push(message);
        }
    }

    /// The next message of an association's own socket.
    fn next_message(&mut self, id: AssociationId, turn: &mut usize) -> Option<ReceivedMessage> {
        loop {
            match self.receive(Some(id), turn)? {
                Got::Message(_, message) => return Some(message),
                Got::Notification(peer, notification) => {
                    self.handle_notification(peer, notification);
                }
                Got::Nothing => {}
            }
        }
    }

    /// Receives from the socket that `owner` has to itself, or that of all; `None` when there is nothing more, for
    /// now.
    fn receive(&mut self, owner: Option<AssociationId>, turn: &mut usize) -> Option<Got> {
        let (watched, is_leaving) = match owner {
            None => (&self.main, self.leaving.is_some()),
            Some(id) => {
                let known = self.associations.get(&id)?;
                (known.own.as_ref()?, known.ended.is_some())
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
                return Some(Got::Notification(peer, notification));
            }
            Ok(Arrived::Nothing) => return Some(Got::Nothing),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(error) => {
                tracing::debug!(port = self.key.port, %error, "receiving from SCTP of the kernel failed");
                return Some(Got::Nothing);
            }
        };
        // An association that was aborted may have left something.
        let id = owner.or_else(|| self.names.get(&part.association).copied());
        let known = id.and_then(|id| Some((id, self.associations.get_mut(&id)?)));
        let Some((id, known)) = known else {
            return Some(Got::Nothing);
        };
        match known.assemble(&part, &self.config) {
            Ok(Some(message)) => Some(Got::Message(id, message)),
            Ok(None) => Some(Got::Nothing),
            Err(TooLarge) => {
                known.shared.end(Ending::Abort("message too large".into()));
                Some(Got::Nothing)
            }
        }
    }

    /// Does what the kernel's news ask for; what an endpoint in one-to-many style is to tell of them.
    fn handle_notification(
        &mut self,
        peer: Option<SocketAddr>,
        notification: KernelNotification,
    ) -> Option<Item> {
        let name = notification.association;
        tracing::debug!(port = self.key.port, name, ?notification.content, "notification");
        match notification.content {
            Content::CommunicationUp { outbound_streams } => {
                let connecting = self.connecting.remove(&name);
                let asked = connecting.as_ref().map(|connecting| connecting.remote);
                let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
                let peer = peer.or(asked).unwrap_or(nowhere);
                self.communication_up(name, outbound_streams, peer, connecting)
            }
            Content::CannotStart(reason) => {
                if let Some(connecting) = self.connecting.remove(&name) {
                    connecting.fail(reason);
                }
                None
            }
            content => {
                let Some(&id) = self.names.get(&name) else {
                    // It may not be up yet.
                    if let (Content::CommunicationLost(reason), Some(connecting)) =
                        (content, self.connecting.remove(&name))
                    {
                        connecting.fail(reason);
                    }
                    return None;
                };
                self.handle_news(id, content)
            }
        }
    }

    fn handle_news(&mut self, id: AssociationId, content: Content) -> Option<Item> {
        let known = self.associations.get_mut(&id)?;
        match content {
            Content::ShutdownComplete => {
                self.ended(id, CloseCause::Shutdown);
                None
            }
            Content::CommunicationLost(reason) => {
                let cause = known.lost(reason);
                self.ended(id, CloseCause::Lost(cause));
                None
            }
            content => {
                let restarted = matches!(content, Content::Restart { .. });
                let shuts_down = matches!(content, Content::PeerShutdown);
                known.notify(content);
                let shared = Arc::clone(&known.shared);
                if shuts_down {
                    // As if asked for on this side too.
                    shared.end(Ending::Shutdown);
                    known.shutting_down = true;
                }
                if restarted {
                    // What waits to be sent may go on, but not from here: an inbox is being filled.
                    shared.call_driver();
                }
                let told = restarted && matches!(self.style, Style::OneToMany(_));
                told.then_some(Item::Restarted(shared))
            }
        }
    }

    /// An association has ended, and all that came before has been received. Whoever reads puts an end to it
    /// when he has read what comes behind: which messages were not sent.
    fn ended(&mut self, id: AssociationId, cause: CloseCause) {
        if let Some(known) = self.associations.get_mut(&id) {
            known.ended = Some(cause);
            if known.own.is_none() {
                self.leaving = Some(id);
            }
        }
    }
}
