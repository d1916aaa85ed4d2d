//! User messages between handles and the engine.

use std::sync::Arc;
use std::time::Instant;

use sctp::{AssociationId, SendError};

use super::Port;
use crate::inbox::Filled;
use crate::send_queue::Ending;
use crate::style::{InboxEvent, Style};

impl Port {
    /// Gives what an association's handles have left for the engine to the engine.
    pub(super) fn send_from(&mut self, now: Instant, id: AssociationId) {
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        if association.ended.is_some() {
            return;
        }
        let engine = &mut self.engine;
        let ending = association.shared.send_queue.drain(|message| {
            match engine.send(now, id, message.info, message.payload.clone()) {
                Ok(()) => true,
                // An event follows: Writable, or the end.
                Err(SendError::BufferFull | SendError::UnknownAssociation) => false,
                Err(error) => {
                    // The peer shuts down, or has restarted and taken the stream away.
                    tracing::debug!(%id, %error, "a message cannot be sent");
                    association.shared.notify_send_failed(message);
                    true
                }
            }
        });
        // Both fail only when the association has ended; its event follows.
        match ending {
            Some(Ending::Shutdown) if !association.shutting_down => {
                association.shutting_down = true;
                engine.shutdown(now, id).ok();
            }
            Some(Ending::Abort(reason)) => drop(engine.abort(now, id, &reason)),
            _ => {}
        }
    }

    /// Gives what an association has received to the application, as far as there is room.
    pub(super) fn deliver_from(&mut self, now: Instant, id: AssociationId) {
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        let was_readable = std::mem::replace(&mut association.readable, true);
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
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        let engine = &mut self.engine;
        let filled = if self.closing.is_some() || association.shared.is_released() {
            while engine.receive(now, id).is_some() {}
            Filled::Exhausted
        } else {
            association.shared.inbox.fill(|| {
                let message = engine.receive(now, id)?;
                let bytes = message.payload.len();
                Some((message, bytes))
            })
        };
        if filled == Filled::Full {
            return;
        }
        association.readable = false;
        if association.ended.is_some() {
            association.shared.inbox.end();
            self.associations.remove(&id);
        }
    }

    pub(super) fn deliver_in_turns(&mut self, now: Instant) {
        let Style::OneToMany(events) = &self.style else {
            return;
        };
        let events = Arc::clone(events);
        if self.closing.is_some() {
            // Only the ends are left, one for each association.
            while let Some((item, _)) = self.next_item(now) {
                events.inbox.push(item);
            }
        } else {
            // When the inbox is full, whoever takes from it requests service again.
            events.inbox.fill(|| self.next_item(now));
        }
    }

    /// The next item for the inbox of a one-to-many endpoint, and the bytes of its payload.
    fn next_item(&mut self, now: Instant) -> Option<(InboxEvent, usize)> {
        loop {
            let id = self.turns.pop_front()?;
            let Some(association) = self.associations.get_mut(&id) else {
                continue;
            };
            let shared = Arc::clone(&association.shared);
            let unwanted = self.closing.is_some() || shared.is_released();
            if std::mem::take(&mut association.restarted) && !unwanted {
                self.turns.push_back(id);
                return Some((InboxEvent::Restarted(shared), 0));
            }
            if let Some(message) = self.engine.receive(now, id) {
                self.turns.push_back(id);
                if unwanted {
                    continue;
                }
                let bytes = message.payload.len();
                return Some((InboxEvent::Message(shared, message), bytes));
            }
            association.readable = false;
            let Some(cause) = association.ended.take() else {
                continue;
            };
            self.associations.remove(&id);
            shared.inbox.end();
            if !shared.is_released() {
                return Some((InboxEvent::Closed(shared, cause), 0));
            }
        }
    }
}
