//! What is on a host.

use std::time::Instant;

use sim::Datagram;

use super::callees::Callees;
use super::callers::Callers;
use super::proxy::ProxyHost;
use super::user::Behaviour;
use crate::sip_carrier::packet::{Packet, remote, udp_datagram, udp_message};

pub(super) struct Host {
    role: Role,
}

pub(super) enum Role {
    Callers(Box<Callers>),
    Callees(Box<Callees>),
    Proxy(Box<ProxyHost>),
}

impl Host {
    pub(super) fn new(role: Role) -> Host {
        Host { role }
    }

    pub(super) fn callers(&self) -> Option<&Callers> {
        match &self.role {
            Role::Callers(callers) => Some(callers),
            _ => None,
        }
    }

    pub(super) fn proxy(&self) -> Option<&ProxyHost> {
        match &self.role {
            Role::Proxy(proxy) => Some(proxy),
            _ => None,
        }
    }
}

impl sim::Host for Host {
    type Payload = Packet;

    fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Packet>) {
        match &mut self.role {
            Role::Callers(callers) => hear(callers.as_mut(), now, &datagram),
            Role::Callees(callees) => hear(callees.as_mut(), now, &datagram),
            Role::Proxy(proxy) => proxy.handle_datagram(now, datagram),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match &mut self.role {
            Role::Callers(callers) => callers.handle_timeout(now),
            Role::Callees(callees) => callees.handle_timeout(now),
            Role::Proxy(proxy) => proxy.handle_timeout(now),
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        match &self.role {
            Role::Callers(callers) => callers.next_timeout(),
            Role::Callees(callees) => callees.next_timeout(),
            Role::Proxy(proxy) => proxy.next_timeout(),
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Packet>> {
        match &mut self.role {
            Role::Callers(callers) => speak(callers.as_mut()),
            Role::Callees(callees) => speak(callees.as_mut()),
            Role::Proxy(proxy) => proxy.poll_transmit(now),
        }
    }
}

/// Users are reached over UDP alone.
fn hear(users: &mut impl Behaviour, now: Instant, datagram: &Datagram<Packet>) {
    if let Some((flow, message)) = udp_message(datagram) {
        users.handle_message(now, flow, message);
    }
}

fn speak(users: &mut impl Behaviour) -> Option<Datagram<Packet>> {
    let transmit = users.poll_transmit()?;
    let local = users.user().address;
    Some(udp_datagram(
        local,
        remote(&transmit.target),
        transmit.payload,
    ))
}
