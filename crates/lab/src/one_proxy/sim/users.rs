//! The users of one side: an engine of [`load`], all of whose users share a socket, a connection, or an association with a
//! stream for each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use load::engine::{
    Connection, ConnectionId, Engine, EngineConfig, NewSession, RegistrationPlan, UserRange,
};
use load::record::{Party, Record};
use load::script::ScriptId;
use load::script::builtin::{self, AnswerPlan, CallPlan};
use rand_chacha::ChaCha12Rng;
use sim::Datagram;
use sip::Transport;

use crate::one_proxy::{Scenario, streams};
use crate::sip_carrier::SipCarrier;
use crate::sip_carrier::packet::Packet;

/// Which users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Callers,
    Callees,
}

pub(super) struct UsersHost {
    engine: Engine,
    range: UserRange,
    call: ScriptId,
    carrier: SipCarrier,
    proxy: SocketAddr,
    /// Over SCTP each stream is a connection of the engine.
    connections: u32,
    records: Vec<Record>,
    calls_ended: u64,
    buffer: Vec<u8>,
}

impl UsersHost {
    pub(super) fn new(
        start: Instant,
        side: Side,
        scenario: &Scenario,
        carrier: SipCarrier,
        proxy: SocketAddr,
        (call, answer): (&CallPlan, &AnswerPlan),
        rng: ChaCha12Rng,
    ) -> anyhow::Result<UsersHost> {
        let users = scenario.users;
        let range = match side {
            Side::Callers => UserRange::new(1, users),
            Side::Callees => UserRange::new(users + 1, users),
        };
        let config = EngineConfig {
            users: vec![range],
            domain: proxy.to_string(),
            registration: RegistrationPlan {
                // As the demo has it: who is not registered tries again soon.
                retry_after: std::time::Duration::from_secs(1),
                ..RegistrationPlan::default()
            },
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(config, rng, start);
        let call = engine.add_script(Arc::new(builtin::call(call)?));
        engine.add_script(Arc::new(builtin::answer(answer)?));
        engine.add_script(Arc::new(builtin::register()?));
        let transport = scenario.way.transport();
        let connections = match transport {
            Transport::Sctp => u32::from(streams(users)),
            _ => 1,
        };
        for number in 0..connections {
            let connection = Connection {
                transport,
                local: carrier.local(),
                remote: proxy,
            };
            engine.set_connection(ConnectionId(number), connection);
        }
        for place in 0..users {
            engine.assign(range.first + place, ConnectionId(place % connections));
        }
        Ok(UsersHost {
            engine,
            range,
            call,
            carrier,
            proxy,
            connections,
            records: Vec::new(),
            calls_ended: 0,
            buffer: Vec::new(),
        })
    }

    pub(super) fn register(&mut self, now: Instant) {
        for user in self.users() {
            // All of them are the engine's, and none is registering yet.
            let _ = self.engine.register(now, now, user);
        }
        self.settle(now);
    }

    /// Lets each call its own callee, again and again, so many times all together.
    pub(super) fn call(&mut self, now: Instant, limit: Option<u64>) {
        self.engine.limit_repeating(limit);
        for user in self.users() {
            let session = NewSession {
                script: self.call,
                user,
                peer: user + self.range.count,
            };
            // The script is one that calls.
            let _ = self.engine.call_repeatedly(now, session);
        }
        self.settle(now);
    }

    pub(super) fn registered(&self) -> u32 {
        self.engine.registered_users()
    }

    pub(super) fn calls_ended(&self) -> u64 {
        self.calls_ended
    }

    pub(super) fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    pub(super) fn handle_datagram(&mut self, now: Instant, datagram: Datagram<Packet>) {
        self.carrier.handle_datagram(now, datagram);
        self.settle(now);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.carrier.handle_timeout(now);
        if self.engine.next_timeout().is_some_and(|due| due <= now) {
            self.engine.handle_timeout(now);
        }
        self.settle(now);
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let timeouts = [self.engine.next_timeout(), self.carrier.next_timeout()];
        timeouts.into_iter().flatten().min()
    }

    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Datagram<Packet>> {
        self.carrier.poll_transmit(now)
    }

    fn users(&self) -> impl Iterator<Item = u32> + use<> {
        self.range.first..self.range.first + self.range.count
    }

    /// Gives each what the other has.
    fn settle(&mut self, now: Instant) {
        while let Some((flow, payload)) = self.carrier.next_message() {
            let connection = ConnectionId(u32::from(flow.stream) % self.connections);
            self.engine.handle_message(now, now, connection, &payload);
        }
        self.buffer.clear();
        while let Some(transmit) = self.engine.poll_transmit(&mut self.buffer) {
            let payload =
                Bytes::copy_from_slice(&self.buffer[self.buffer.len() - transmit.length..]);
            let stream = transmit.connection.0 as u16;
            self.carrier.send(now, self.proxy.ip(), stream, payload);
        }
        while let Some(record) = self.engine.poll_record() {
            let is_call = matches!(record, Record::Call(_));
            if is_call && record.attempt().party == Party::Caller {
                self.calls_ended += 1;
            }
            self.records.push(record);
        }
    }
}
