//! The layer as a whole, on a clock that the tests set. The arcs of the figures are tested beside the
//! machines.

mod bounds;
mod client;
mod random;
mod server;

use std::time::{Duration, Instant};

use bytes::Bytes;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

use super::*;
use crate::{ConnectionId, Method, Transport};

const T1: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(32);

/// A layer with a clock.
struct Layer {
    transactions: Transactions,
    start: Instant,
    now: Instant,
}

impl Layer {
    fn new(config: TransactionConfig) -> Layer {
        let now = Instant::now();
        Layer {
            transactions: Transactions::new(config, ChaCha12Rng::seed_from_u64(1)),
            start: now,
            now,
        }
    }

    fn default() -> Layer {
        Layer::new(TransactionConfig::default())
    }

    /// Lets time pass and timers fire when they are due. Returns what was sent and when, in
    /// milliseconds since the start.
    fn run_for(&mut self, time: Duration) -> Vec<(u128, String)> {
        let end = self.now + time;
        let mut sent = Vec::new();
        while let Some(due) = self.transactions.next_timeout().filter(|due| *due <= end) {
            self.now = due;
            self.transactions.handle_timeout(due);
            let elapsed = (due - self.start).as_millis();
            sent.extend(self.sent().into_iter().map(|line| (elapsed, line)));
        }
        self.now = end;
        sent
    }

    fn receive(&mut self, flow: Flow, text: &str) {
        let message = read(text);
        assert_eq!(message.validate(), Ok(()), "{text}");
        self.transactions.handle_message(self.now, flow, message);
    }

    fn request(&mut self, text: &str, transport: Transport) -> ClientId {
        let target = Target::Flow(flow(transport));
        self.transactions
            .send_request(self.now, read(text), target)
            .expect("room for a transaction")
    }

    fn respond(&mut self, transaction: ServerId, request: &Message, status: u16) {
        let mut response = Message::response_to(request, status, "Because");
        if status > 100 {
            response.set_to_tag("callee");
        }
        self.transactions.respond(self.now, transaction, response);
    }

    /// The start lines of what is to be sent.
    fn sent(&mut self) -> Vec<String> {
        self.transmits().iter().map(start_line).collect()
    }

    fn transmits(&mut self) -> Vec<Transmit> {
        std::iter::from_fn(|| self.transactions.poll_transmit()).collect()
    }

    fn events(&mut self) -> Vec<TransactionEvent> {
        std::iter::from_fn(|| self.transactions.poll_event()).collect()
    }

    /// What happened, in a word each.
    fn event_names(&mut self) -> Vec<String> {
        self.events().iter().map(name_of).collect()
    }

    /// The one request that came.
    fn only_request(&mut self) -> (ServerId, Message) {
        let mut events = self.events();
        match (events.pop(), events.pop()) {
            (
                Some(TransactionEvent::Request {
                    transaction,
                    request,
                    ..
                }),
                None,
            ) => (transaction, request),
            other => panic!("not one request: {other:?}"),
        }
    }

    fn is_empty(&self) -> bool {
        self.transactions.client_transactions() == 0 && self.transactions.server_transactions() == 0
    }
}

fn flow(transport: Transport) -> Flow {
    Flow {
        transport,
        local: ([192, 0, 2, 1], 5060).into(),
        remote: ([192, 0, 2, 9], 5080).into(),
        connection: ConnectionId(3),
        stream: 0,
    }
}

fn read(text: &str) -> Message {
    Message::read(Bytes::from(text.to_owned())).expect("a message")
}

fn start_line(transmit: &Transmit) -> String {
    let text = String::from_utf8_lossy(&transmit.payload);
    text.lines().next().unwrap_or_default().to_owned()
}

/// A request in a dialogless transaction.
fn request(method: &str, branch: &str) -> String {
    let method_of_cseq = method;
    format!(
        "{method} sip:bob@example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.9:5080;branch={branch}\r\n\
         From: <sip:alice@example.com>;tag=caller\r\n\
         To: <sip:bob@example.com>\r\n\
         Call-ID: call-1\r\n\
         CSeq: 1 {method_of_cseq}\r\n\
         Contact: <sip:alice@192.0.2.9:5080>\r\n\
         Max-Forwards: 70\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

/// The response to such a request.
fn response(status: u16, method: &str, branch: &str, to_tag: &str) -> String {
    format!(
        "SIP/2.0 {status} Because\r\n\
         Via: SIP/2.0/UDP 192.0.2.9:5080;branch={branch}\r\n\
         From: <sip:alice@example.com>;tag=caller\r\n\
         To: <sip:bob@example.com>;tag={to_tag}\r\n\
         Call-ID: call-1\r\n\
         CSeq: 1 {method}\r\n\
         Contact: <sip:bob@192.0.2.4>\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

fn name_of(event: &TransactionEvent) -> String {
    match event {
        TransactionEvent::Request { request, .. } => format!("{}", method_of(request)),
        TransactionEvent::Overloaded { .. } => "overloaded".to_owned(),
        TransactionEvent::Ack { .. } => "ACK".to_owned(),
        TransactionEvent::Response { response, .. } => {
            response.status().unwrap_or_default().to_string()
        }
        TransactionEvent::StrayResponse { .. } => "stray".to_owned(),
        TransactionEvent::Timeout { .. } => "timeout".to_owned(),
        TransactionEvent::AckTimeout { .. } => "no ACK".to_owned(),
        TransactionEvent::SendFailed { .. } => "send failed".to_owned(),
        TransactionEvent::Terminated { .. } => "terminated".to_owned(),
    }
}

fn method_of(request: &Message) -> &Method {
    request.method().expect("a request")
}

/// Times in milliseconds, all with the same line.
fn each(times: &[u128], line: &str) -> Vec<(u128, String)> {
    times.iter().map(|&time| (time, line.to_owned())).collect()
}
