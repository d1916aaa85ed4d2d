//! Associations that come up.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use sctp::AssociationId;

use super::known::{Connecting, Known};
use super::port::Port;
use super::status::Asked;
use super::watch::{Direction, Owner, Watched};
use crate::association::{AssociationShared, Introduction};
use crate::endpoint::Item;
use crate::mailbox::{Key, Style};

impl Port {
    /// An association is up: one of ours if `connecting`.
    pub(super) fn communication_up(
        &mut self,
        name: i32,
        outbound_streams: u16,
        peer: SocketAddr,
        connecting: Option<Connecting>,
    ) -> Option<Item> {
        if connecting.is_none() && !self.has_room_to_accept() {
            self.main.socket().abort(name, b"not accepted").ok();
            return None;
        }
        let id = AssociationId::from_number(self.begun);
        self.begun += 1;
        let own = match &self.style {
            Style::OneToOne(_) => self.peel_off(id, name).ok()?,
            Style::OneToMany(_) => None,
        };
        let asked = Asked {
            socket: own.as_ref().unwrap_or(&self.main).socket(),
            association: name,
        };
        let local = asked.locals().first().copied();
        let send_buffer = self
            .config
            .send_buffer
            .min(self.main.socket().send_buffer());
        let introduction = Introduction {
            key: Key {
                endpoint: self.key,
                worker: 0,
                id,
            },
            local: local.unwrap_or(self.main.socket().local()),
            peer,
            peer_encapsulation_port: None,
            outbound_streams,
            max_message_size: self.config.max_message_size.min(send_buffer),
        };
        let mailbox = Arc::clone(&self.surroundings.mailbox);
        let shared = Arc::new(AssociationShared::new(introduction, mailbox));
        if own.is_some() {
            self.wanted.push((Some(id), Direction::Read));
        }
        self.names.insert(name, id);
        let known = Known::new(Arc::clone(&shared), name, own);
        self.associations.insert(id, known);
        let asked = connecting.map(|connecting| connecting.reply);
        self.style.announce(shared, asked)
    }

    /// Gives an association a socket of its own. One that has ended already gets none: what is left of it is in the
    /// main one.
    fn peel_off(&mut self, id: AssociationId, name: i32) -> io::Result<Option<Watched>> {
        let owner = Owner {
            endpoint: self.key.number,
            association: Some(id),
        };
        let main = self.main.socket();
        let peeled = main.peel_off(name);
        match peeled.and_then(|socket| Watched::new(socket, owner)) {
            Ok(own) => Ok(Some(own)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
            Err(error) => {
                tracing::warn!(port = self.key.port, %error, "an association has to be given up");
                main.abort(name, b"out of resource").ok();
                self.counted.accept_overflows += 1;
                Err(error)
            }
        }
    }

    fn has_room_to_accept(&mut self) -> bool {
        if !self.open {
            return false;
        }
        let room = self.style.waiting() < self.surroundings.accept_backlog
            && self.associations.len() < self.config.max_associations;
        if !room {
            self.counted.accept_overflows += 1;
        }
        room
    }
}
