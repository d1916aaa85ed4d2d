//! What is on a host.

use std::time::Instant;

use sim::Datagram;

use super::registrar::RegistrarHost;
use super::users::UsersHost;
use crate::sip_carrier::packet::Packet;

pub(super) enum Host {
    Users(Box<UsersHost>),
    Registrar(Box<RegistrarHost>),
}

impl Host {
    /// Users that are registered.
    pub(super) fn registered(&self) -> u32 {
        match self {
            Host::Users(users) => users.registered(),
            Host::Registrar(_) => 0,
        }
    }

    /// Calls that users have begun and that have ended.
    pub(super) fn calls_ended(&self) -> u64 {
        match self {
            Host::Users(users) => users.calls_ended(),
            Host::Registrar(_) => 0,
        }
    }
}

impl sim::Host for Host {
    type Payload = Packet;

    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Packet>) {
        match self {
            Host::Users(users) => users.handle_datagram(now, datagram),
            Host::Registrar(registrar) => registrar.handle_datagram(now, datagram),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self {
            Host::Users(users) => users.handle_timeout(now),
            Host::Registrar(registrar) => registrar.handle_timeout(now),
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        match self {
            Host::Users(users) => users.next_timeout(),
            Host::Registrar(registrar) => registrar.next_timeout(),
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Packet>> {
        match self {
            Host::Users(users) => users.poll_transmit(now),
            Host::Registrar(registrar) => registrar.poll_transmit(now),
        }
    }
}
