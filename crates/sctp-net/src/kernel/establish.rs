//! Associations that come up.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use sctp::AssociationId;

use super::association::{Connecting, PortAssociation};
use super::port::Port;
use super::status::AssociationQuery;
use super::watch::{Direction, Owner, Watched};
use crate::association_shared::{AssociationParameters, AssociationShared};
use crate::keys::AssociationKey;
use crate::style::{InboxEvent, Style};

impl Port {
    /// An association is up: one of ours if `connecting`.
    pub(super) fn communication_up(
        &mut self,
        assoc_id: i32,
        outbound_streams: u16,
        peer: SocketAddr,
        connecting: Option<Connecting>,
    ) -> Option<InboxEvent> {
        if connecting.is_none() && !self.has_room_to_accept() {
            self.main.socket().abort(assoc_id, b"not accepted").ok();
            return None;
        }
        let id = AssociationId::from_number(self.begun);
        self.begun += 1;
        let own = match &self.style {
            Style::OneToOne(_) => self.peel_off(id, assoc_id).ok()?,
            Style::OneToMany(_) => None,
        };
        let query = AssociationQuery {
            socket: own.as_ref().unwrap_or(&self.main).socket(),
            association: assoc_id,
        };
        let local = query.locals().first().copied();
        let send_buffer = self
            .config
            .association
            .send_buffer
            .min(self.main.socket().send_buffer());
        let parameters = AssociationParameters {
            key: AssociationKey {
                endpoint: self.key,
                worker: 0,
                id,
            },
            local: local.unwrap_or(self.main.socket().local()),
            peer,
            peer_encapsulation_port: None,
            outbound_streams,
            max_message_size: self.config.association.max_message_size.min(send_buffer),
        };
        let service = Arc::clone(self.context.mailbox.service());
        let shared = Arc::new(AssociationShared::new(parameters, service));
        if own.is_some() {
            self.wanted.push((Some(id), Direction::Read));
        }
        self.by_assoc_id.insert(assoc_id, id);
        let association = PortAssociation::new(Arc::clone(&shared), assoc_id, own);
        self.associations.insert(id, association);
        let reply = connecting.map(|connecting| connecting.reply);
        self.style.announce(shared, reply)
    }

    /// Gives an association a socket of its own. One that has ended already gets none: what is left of it is in the
    /// main one.
    fn peel_off(&mut self, id: AssociationId, assoc_id: i32) -> io::Result<Option<Watched>> {
        let owner = Owner {
            endpoint: self.key.number,
            association: Some(id),
        };
        let main = self.main.socket();
        let peeled = main.peel_off(assoc_id);
        match peeled.and_then(|socket| Watched::new(socket, owner)) {
            Ok(own) => Ok(Some(own)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
            Err(error) => {
                tracing::warn!(port = self.key.port, %error, "an association has to be given up");
                main.abort(assoc_id, b"out of resource").ok();
                self.counted.accept_overflows += 1;
                Err(error)
            }
        }
    }

    fn has_room_to_accept(&mut self) -> bool {
        if !self.open {
            return false;
        }
        let room = self.style.waiting() < self.context.accept_backlog
            && self.associations.len() < self.config.max_associations;
        if !room {
            self.counted.accept_overflows += 1;
        }
        room
    }
}
