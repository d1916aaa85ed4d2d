//! The server transactions of REGISTERs that were read at a glance.

use std::time::Instant;

use bytes::Bytes;

use crate::{Flow, Method, PlainRegister};

use super::common::Common;
use super::matching::{Rules, write_via_key};
use super::routing::ResponseRoute;
use super::servers::{Machine, Server, Servers, Subject};
use super::{ServerId, TransactionEvent, Transactions, call_hash};

impl Transactions {
    /// [`handle_message`](Transactions::handle_message) for such a REGISTER. Returns the transaction that it begins, which
    /// is the user's to answer without an event that tells so; `None` where there is nothing to do: it repeats one, or
    /// finds no room, of which there is an event.
    pub fn handle_register(
        &mut self,
        now: Instant,
        flow: Flow,
        register: &PlainRegister,
    ) -> Option<ServerId> {
        let common = &mut self.common;
        let begun = self.servers.handle_register(common, now, flow, register);
        self.sweep_timers();
        begun
    }
}

impl Servers {
    fn handle_register(
        &mut self,
        common: &mut Common,
        now: Instant,
        flow: Flow,
        register: &PlainRegister,
    ) -> Option<ServerId> {
        common.statistics.requests_received += 1;
        let via = register.via();
        write_via_key(self.table.sought(), &via, &Method::Register)?;
        if let Some((number, server)) = self.table.find() {
            let actions = server.handle_retransmission();
            self.perform(common, now, number, actions, Subject::None);
            return None;
        }
        let octets = register.octets();
        if !common.has_room(self.table.len(), octets.len()) {
            let request = register.message(&flow)?;
            let event = TransactionEvent::Overloaded { flow, request };
            common.events.push_back(event);
            return None;
        }
        let is_reliable = flow.transport.is_reliable();
        let (machine, actions) = Machine::start(&Method::Register, common, is_reliable);
        let mut message = Bytes::new();
        common.keep(&mut message, octets.clone());
        let route = ResponseRoute::new(&flow, &via);
        let call = call_hash(register.call_id_octets());
        let server = Server::new(machine, Rules::Rfc3261, route, call, message);
        let number = self.table.insert(server);
        self.perform(common, now, number, actions, Subject::None);
        Some(ServerId(number))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::SeedableRng;
    use rand_chacha::ChaCha12Rng;

    use super::super::TransactionConfig;
    use super::*;
    use crate::{ConnectionId, Message, Transport};

    const REGISTER: &[u8] = b"REGISTER sip:example.com SIP/2.0\r\n\
        Via: SIP/2.0/UDP 192.0.2.9:5062;rport;branch=z9hG4bK1\r\n\
        From: <sip:alice@example.com>;tag=a\r\n\
        To: <sip:alice@example.com>\r\n\
        Call-ID: 1@host\r\n\
        CSeq: 7 REGISTER\r\n\
        Contact: <sip:alice@192.0.2.9:5062>\r\n\
        Content-Length: 0\r\n\r\n";

    fn flow() -> Flow {
        Flow {
            transport: Transport::Udp,
            local: "192.0.2.2:5060".parse().expect("an address"),
            remote: "192.0.2.9:40000".parse().expect("an address"),
            connection: ConnectionId(7),
            stream: 0,
        }
    }

    fn transactions(max_transactions: usize) -> Transactions {
        let config = TransactionConfig {
            max_transactions,
            ..TransactionConfig::default()
        };
        Transactions::new(config, ChaCha12Rng::seed_from_u64(1))
    }

    fn register() -> PlainRegister {
        PlainRegister::read(Bytes::from_static(REGISTER)).expect("it is as most are")
    }

    fn message() -> Message {
        Message::read(Bytes::from_static(REGISTER)).expect("a message")
    }

    /// Whatever comes first and whatever repeats it, the transaction is one, and what it sends is the same.
    #[test]
    fn a_transaction_is_the_same_whichever_way_it_begins() {
        let now = Instant::now();
        let later = now + Duration::from_secs(4);
        let mut short = transactions(10);
        let begun = short.handle_register(now, flow(), &register());
        let begun = begun.expect("a transaction");
        let mut long = transactions(10);
        long.handle_message(now, flow(), message());
        let Some(TransactionEvent::Request {
            transaction,
            request,
            ..
        }) = long.poll_event()
        else {
            panic!("no request");
        };
        assert_eq!(transaction, begun);
        assert!(short.poll_event().is_none());
        let handed_up = register().message(&flow()).expect("a message");
        assert_eq!(request.to_bytes(), handed_up.to_bytes());
        let respond = |layer: &mut Transactions, time| {
            let response = Message::response_to(&request, 200, "OK");
            layer.respond(time, begun, response);
        };
        // The second time there is a 100 before.
        for layer in [&mut short, &mut long] {
            assert_eq!(
                layer.next_timeout(),
                Some(now + Duration::from_millis(3500))
            );
            layer.handle_timeout(later);
            respond(layer, later);
            layer.handle_message(later, flow(), message());
            assert_eq!(layer.handle_register(later, flow(), &register()), None);
        }
        loop {
            let (one, other) = (short.poll_transmit(), long.poll_transmit());
            let both = (one.as_ref(), other.as_ref());
            let Some((one, other)) = both.0.zip(both.1) else {
                assert!(both.0.is_none() && both.1.is_none());
                break;
            };
            assert_eq!(one.payload, other.payload);
            assert_eq!(one.target, other.target);
            assert_eq!((one.call, one.transaction), (other.call, other.transaction));
        }
        assert_eq!(short.statistics(), long.statistics());
        assert_eq!(short.statistics().response_retransmissions, 2);
        assert_eq!(short.kept_octets(), long.kept_octets());
        assert_eq!(short.server_transactions(), 1);
    }

    #[test]
    fn without_room_there_is_an_event_as_for_all() {
        let now = Instant::now();
        let mut full = transactions(0);
        assert_eq!(full.handle_register(now, flow(), &register()), None);
        assert_eq!(full.statistics().overloaded, 1);
        match full.poll_event() {
            Some(TransactionEvent::Overloaded { request, .. }) => {
                let via = request.top_via().expect("a Via");
                assert_eq!(via.rport(), Some(40_000));
            }
            other => panic!("{other:?}"),
        }
    }
}
