//! Messages that leave together: those by one socket or along one connection share calls to the kernel.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sip::ConnectionId;

use crate::connections::{Connection, Outgoing, Refused};
use crate::shared::Shared;
use crate::udp::{Datagrams, UdpPort};

/// Messages of one worker that have their ways. [`send`](Departures::send) is to be called when there are no more.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    datagrams: Datagrams,
    along: Vec<(Arc<Connection>, Vec<Outgoing>)>,
}

/// How many of the last connections are looked at for one that a message takes.
const LOOKED_AT: usize = 16;

impl Departures {
    /// Adds a datagram by a socket. An unspecified `source_ip` leaves the choice to the kernel.
    pub(crate) fn by(
        &mut self,
        shared: &Arc<Shared>,
        port: Arc<UdpPort>,
        remote: SocketAddr,
        source_ip: Option<IpAddr>,
        outgoing: Outgoing,
    ) -> Result<(), Refused> {
        self.datagrams
            .push(shared, port, remote, source_ip, outgoing)
    }

    /// A connection that others take already.
    pub(crate) fn connection(&self, id: ConnectionId) -> Option<Arc<Connection>> {
        let mut last = self.along.iter().rev().take(LOOKED_AT);
        let (connection, _) = last.find(|(connection, _)| connection.id == id)?;
        Some(connection.clone())
    }

    /// Adds a message along a connection, behind those that are there already.
    pub(crate) fn along(&mut self, connection: Arc<Connection>, outgoing: Outgoing) {
        let mut last = self.along.iter_mut().rev().take(LOOKED_AT);
        match last.find(|(other, _)| other.id == connection.id) {
            Some((_, messages)) => messages.push(outgoing),
            None => self.along.push((connection, vec![outgoing])),
        }
    }

    /// Sends all of them.
    pub(crate) fn send(mut self, shared: &Arc<Shared>) {
        self.datagrams.send(shared);
        let mut departures = Vec::new();
        for (connection, messages) in self.along {
            let queued = match connection.outbox() {
                Some(outbox) => outbox.send(shared, &connection, messages, &mut departures),
                None => messages,
            };
            for outgoing in queued {
                if let Err(refused) = connection.push(outgoing) {
                    let (outgoing, error) = *refused;
                    shared.not_sent(connection.transport, outgoing, error);
                }
            }
        }
    }
}
