//! The server transactions of REGISTERs that were read at a glance.

use std::time::Instant;

use bytes::{Bytes, BytesMut};

use crate::{Flow, Method, PlainRegister, Transmit};

use super::common::Common;
use super::matching::{Rules, write_via_key};
use super::routing::ResponseRoute;
use super::servers::{Machine, Server, Servers, Subject};
use super::{ServerId, TransactionEvent, Transactions, call_hash};

/// What becomes of a REGISTER that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It begins a transaction, which is the user's to answer without an event that tells so.
    Begun(ServerId),
    /// It repeats one that was [answered](Transactions::answer_register), and is to be
    /// [answered again](Transactions::answer_register_again).
    Repeated,
    /// There is nothing to do: it repeats one that is under way or whose response is kept, or finds no room, of which
    /// there is an event.
    Done,
}

impl Transactions {
    /// [`handle_message`](Transactions::handle_message) for such a REGISTER.
    pub fn handle_register(&mut self, now: Instant, flow: Flow, register: &PlainRegister) -> Taken {
        let common = &mut self.common;
        let taken = self.servers.handle_register(common, now, flow, register);
        self.sweep_timers();
        taken
    }

    /// Whether such a REGISTER repeats one that was [answered](Transactions::answer_register).
    pub fn has_answered(&mut self, now: Instant, register: &PlainRegister) -> bool {
        let servers = &mut self.servers;
        let key = servers.table.sought();
        write_via_key(key, &register.via(), &Method::Register).is_some()
            && servers.table.find().is_none()
            && servers.has_answered(now, call_and_number(register))
    }

    /// Answers a REGISTER finally, and keeps nothing of the response: who has answered can tell again what is registered.
    /// For the time of Timer J, and perhaps for twice that, it is known that the request was answered; RFC 3261 section
    /// 17.2.2 keeps the response for that time. The response becomes about so long.
    ///
    /// What repeats it has its Call-ID and its CSeq number, too. By section 17.2.3 the branch alone would do, but another
    /// REGISTER with the same branch, of a client that has no other, could be told nothing, and for longer than Timer J: it
    /// begins a transaction.
    pub fn answer_register(
        &mut self,
        now: Instant,
        (transaction, register): (ServerId, &PlainRegister),
        length: usize,
        write: impl FnOnce(&mut BytesMut),
    ) {
        let common = &mut self.common;
        let payload = common.written_in_turn(length, write);
        self.servers
            .answer_register(common, now, (transaction, register), payload);
        self.sweep_timers();
    }

    /// Answers a [repeated](Taken::Repeated) REGISTER. The response becomes about so long.
    pub fn answer_register_again(
        &mut self,
        flow: &Flow,
        register: &PlainRegister,
        length: usize,
        write: impl FnOnce(&mut BytesMut),
    ) {
        let common = &mut self.common;
        let payload = common.written_in_turn(length, write);
        common.statistics.response_retransmissions += 1;
        common.transmits.push_back(Transmit {
            target: ResponseRoute::new(flow, &register.via()).target(),
            peer: None,
            payload,
            call: call_hash(register.call_id_octets()),
            transaction: None,
        });
    }
}

impl Servers {
    fn handle_register(
        &mut self,
        common: &mut Common,
        now: Instant,
        flow: Flow,
        register: &PlainRegister,
    ) -> Taken {
        common.statistics.requests_received += 1;
        let via = register.via();
        if write_via_key(self.table.sought(), &via, &Method::Register).is_none() {
            return Taken::Done;
        }
        if let Some((number, server)) = self.table.find() {
            let actions = server.handle_retransmission();
            self.perform(common, now, number, actions, Subject::None);
            return Taken::Done;
        }
        if self.has_answered(now, call_and_number(register)) {
            common.statistics.requests_absorbed += 1;
            return Taken::Repeated;
        }
        let octets = register.octets();
        if !common.has_room(self.table.len(), octets.len()) {
            if let Some(request) = register.message(&flow) {
                let event = TransactionEvent::Overloaded { flow, request };
                common.events.push_back(event);
            }
            return Taken::Done;
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
        Taken::Begun(ServerId(number))
    }

    fn answer_register(
        &mut self,
        common: &mut Common,
        now: Instant,
        (id, register): (ServerId, &PlainRegister),
        payload: Bytes,
    ) {
        let (call_id, number) = call_and_number(register);
        let hash = self.table.entry_hash_with(id.0, call_id, number);
        let server = self.table.get_mut(id.0);
        let Some((hash, server)) = hash.zip(server.filter(|server| !server.is_completed())) else {
            return;
        };
        common.statistics.responses_sent += 1;
        common.transmits.push_back(server.transmit(id, payload));
        // Timer J is zero on reliable transports.
        if !server.is_reliable() {
            self.answered.insert(now, hash);
        }
        self.end(common, id);
    }

    /// Whether the key that was looked for last is that of a REGISTER with this Call-ID and this CSeq number of which
    /// nothing else is kept.
    pub(super) fn has_answered(&mut self, now: Instant, (call_id, number): (&[u8], u32)) -> bool {
        !self.answered.is_empty() && {
            let mark = self.table.sought_hash_with(call_id, number);
            self.answered.contains(now, mark)
        }
    }
}

/// What a REGISTER says of itself beside what names its transaction.
fn call_and_number(register: &PlainRegister) -> (&[u8], u32) {
    (register.call_id_octets(), register.cseq_number())
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
        let Taken::Begun(begun) = short.handle_register(now, flow(), &register()) else {
            panic!("no transaction");
        };
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
            let taken = layer.handle_register(later, flow(), &register());
            assert_eq!(taken, Taken::Done);
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
        let taken = full.handle_register(now, flow(), &register());
        assert_eq!(taken, Taken::Done);
        assert_eq!(full.statistics().overloaded, 1);
        match full.poll_event() {
            Some(TransactionEvent::Overloaded { request, .. }) => {
                let via = request.top_via().expect("a Via");
                assert_eq!(via.rport(), Some(40_000));
            }
            other => panic!("{other:?}"),
        }
    }

    /// Of what was answered so nothing is kept but that it was, for the time of Timer J.
    #[test]
    fn an_answer_that_is_not_kept_is_given_again() {
        let now = Instant::now();
        let mut layer = transactions(10);
        let Taken::Begun(begun) = layer.handle_register(now, flow(), &register()) else {
            panic!("no transaction");
        };
        let write = |octets: &mut BytesMut| octets.extend_from_slice(b"SIP/2.0 200 OK\r\n\r\n");
        layer.answer_register(now, (begun, &register()), 20, write);
        let first = layer.poll_transmit().expect("a response");
        assert_eq!((layer.server_transactions(), layer.kept_octets()), (0, 0));
        // A second answer is none.
        layer.answer_register(now, (begun, &register()), 20, write);
        assert!(layer.poll_transmit().is_none());
        let timer_j = TransactionConfig::default().timeout();
        let last = now + timer_j - Duration::from_millis(1);
        for time in [now, last] {
            assert!(layer.has_answered(time, &register()));
            let taken = layer.handle_register(time, flow(), &register());
            assert_eq!(taken, Taken::Repeated);
            layer.answer_register_again(&flow(), &register(), 20, write);
            let again = layer.poll_transmit().expect("a response");
            assert_eq!((again.target, again.call), (first.target, first.call));
            assert_eq!(again.payload, first.payload);
        }
        // Read as a whole it is known, too.
        assert!(layer.knows(&message()));
        while layer.poll_event().is_some() {}
        layer.handle_message(last, flow(), message());
        match layer.poll_event() {
            Some(TransactionEvent::Repeated { request, .. }) => {
                assert_eq!(request.to_bytes(), REGISTER);
            }
            other => panic!("{other:?}"),
        }
        let statistics = layer.statistics();
        assert_eq!(statistics.requests_absorbed, 3);
        assert_eq!(
            (
                statistics.responses_sent,
                statistics.response_retransmissions
            ),
            (1, 2)
        );
        let taken = layer.handle_register(now + 2 * timer_j, flow(), &register());
        assert!(matches!(taken, Taken::Begun(_)));
    }

    /// A client that has one branch for all is served nonetheless.
    #[test]
    fn another_request_with_the_same_branch_is_no_repetition() {
        let now = Instant::now();
        let mut layer = transactions(10);
        let Taken::Begun(begun) = layer.handle_register(now, flow(), &register()) else {
            panic!("no transaction");
        };
        let write = |octets: &mut BytesMut| octets.extend_from_slice(b"SIP/2.0 200 OK\r\n\r\n");
        layer.answer_register(now, (begun, &register()), 20, write);
        let text = std::str::from_utf8(REGISTER).expect("ASCII");
        for (from, to) in [
            ("CSeq: 7", "CSeq: 8"),
            ("Call-ID: 1@host", "Call-ID: 2@host"),
        ] {
            let other = Bytes::from(text.replace(from, to));
            let plain = PlainRegister::read(other.clone()).expect("it is as most are");
            assert!(!layer.has_answered(now, &plain), "{to}");
            let whole = Message::read(other).expect("a message");
            assert!(!layer.knows(&whole), "{to}");
            let Taken::Begun(second) = layer.handle_register(now, flow(), &plain) else {
                panic!("no transaction: {to}");
            };
            layer.answer_register(now, (second, &plain), 20, write);
            assert!(layer.has_answered(now, &plain), "{to}");
            assert!(layer.knows(&whole), "{to}");
        }
        assert!(layer.has_answered(now, &register()));
        while layer.poll_event().is_some() {}
        let whole = Message::read(Bytes::from(text.replace("CSeq: 7", "CSeq: 9")));
        layer.handle_message(now, flow(), whole.expect("a message"));
        assert!(matches!(
            layer.poll_event(),
            Some(TransactionEvent::Request { .. })
        ));
    }

    /// What was not answered in time is not answered any more.
    #[test]
    fn an_answer_that_comes_too_late_is_none() {
        let now = Instant::now();
        let mut layer = transactions(10);
        let Taken::Begun(begun) = layer.handle_register(now, flow(), &register()) else {
            panic!("no transaction");
        };
        let end = now + Duration::from_secs(60);
        while layer.next_timeout().is_some_and(|due| due <= end) {
            layer.handle_timeout(end);
        }
        while layer.poll_transmit().is_some() {}
        layer.answer_register(end, (begun, &register()), 20, |octets| {
            octets.extend_from_slice(b"late");
        });
        assert!(layer.poll_transmit().is_none());
        assert!(layer.servers.answered.is_empty());
    }
}
