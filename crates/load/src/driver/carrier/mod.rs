//! How messages reach the network: [`plain`] for UDP and TCP, [`net`] for everything else.

mod frames;
mod net;
mod plain;
mod poller;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::Instant;

use sip_net::WireStatistics;

use super::error::ConnectError;
use crate::engine::{Connection, ConnectionId, Transmit};

pub(super) use net::{NetCarrier, NetWaker};
pub(super) use plain::PlainCarrier;
pub(super) use poller::PollerWaker;

/// The user of a carrier: takes received messages, and gives messages to send.
pub(super) trait Traffic {
    /// There is a way to a peer, or there is one again.
    fn opened(&mut self, id: ConnectionId, connection: Connection);

    /// A message has come: at `received` it was read from the network.
    fn message(&mut self, now: Instant, received: Instant, id: ConnectionId, octets: &[u8]);

    /// A connection is lost.
    fn lost(&mut self, now: Instant, id: ConnectionId);

    /// Appends the next message that is to be sent.
    fn poll_transmit(&mut self, into: &mut Vec<u8>) -> Option<Transmit>;
}

/// The transport of a worker.
#[derive(Debug)]
pub(super) enum Carrier {
    Plain(Box<PlainCarrier>),
    Net(Box<NetCarrier>),
}

impl Carrier {
    /// Ends a wait from another thread.
    pub(super) fn waker(&self) -> Waker {
        match self {
            Carrier::Plain(carrier) => Waker::Plain(carrier.waker()),
            Carrier::Net(carrier) => Waker::Net(carrier.waker()),
        }
    }

    /// Sends what there is to send.
    pub(super) fn flush(&mut self, traffic: &mut impl Traffic) {
        match self {
            Carrier::Plain(carrier) => carrier.flush(traffic),
            Carrier::Net(carrier) => carrier.flush(traffic),
        }
    }

    /// Sends what there is to send, waits until something has come or the time is up, and hands over what
    /// has come.
    pub(super) fn turn(&mut self, until: Option<Instant>, traffic: &mut impl Traffic) {
        match self {
            Carrier::Plain(carrier) => carrier.turn(until, traffic),
            Carrier::Net(carrier) => carrier.turn(until, traffic),
        }
    }

    /// Why the last attempt to open a connection failed, if it did, and where to.
    pub(super) fn take_error(&mut self) -> Option<(SocketAddr, ConnectError)> {
        match self {
            Carrier::Plain(carrier) => {
                let (remote, error) = carrier.take_error()?;
                Some((remote, error.into()))
            }
            Carrier::Net(carrier) => {
                let (remote, error) = carrier.take_error()?;
                Some((remote, error.into()))
            }
        }
    }

    /// Whether it is known when messages have come, however late they are read.
    pub(super) fn is_stamped(&self) -> bool {
        match self {
            Carrier::Plain(carrier) => carrier.is_stamped(),
            Carrier::Net(_) => false,
        }
    }

    /// Whether nothing comes any more, because a listener has failed.
    pub(super) fn is_stopped(&self) -> bool {
        match self {
            Carrier::Plain(_) => false,
            Carrier::Net(carrier) => carrier.is_stopped(),
        }
    }

    /// What went over the wire.
    pub(super) fn statistics(&self) -> WireStatistics {
        match self {
            Carrier::Plain(carrier) => carrier.statistics(),
            Carrier::Net(carrier) => carrier.statistics(),
        }
    }

    /// What TLS agreed on last, by its IANA name.
    pub(super) fn tls_cipher_suite(&self) -> Option<String> {
        match self {
            Carrier::Plain(_) => None,
            Carrier::Net(carrier) => carrier.tls_cipher_suite(),
        }
    }

    /// Closes all connections, as their transport has it.
    pub(super) fn shutdown(self) {
        if let Carrier::Net(carrier) = self {
            carrier.shutdown();
        }
    }
}

/// Ends a worker's wait from another thread.
#[derive(Clone, Debug)]
pub(super) enum Waker {
    Plain(PollerWaker),
    Net(NetWaker),
}

impl Waker {
    pub(super) fn wake(&self) {
        match self {
            Waker::Plain(waker) => waker.wake(),
            Waker::Net(waker) => waker.wake(),
        }
    }
}
